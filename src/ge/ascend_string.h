/* SPDX-License-Identifier: Apache-2.0 */
/* ge::AscendString, the texts of the graph engine's C++ interface: a shared string, or none, which is as "". Its layout
 * is compiled into clients, which copy and destroy such objects without us. Thread-safe for different objects. */
#ifndef CANNON_GE_ASCEND_STRING_H
#define CANNON_GE_ASCEND_STRING_H

#include <memory>
#include <string>

namespace ge {

class __attribute__((visibility("default"))) AscendString {
public:
  AscendString() = default;
  AscendString(const char *text);
  const char *GetString() const;
  bool operator<(const AscendString &other) const;
  bool operator==(const AscendString &other) const;
  size_t Hash() const;

private:
  std::shared_ptr<std::string> text_;
};

static_assert(sizeof(AscendString) == 16, "this layout is compiled into clients");

} // namespace ge

#endif
