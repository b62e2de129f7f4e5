// SPDX-License-Identifier: Apache-2.0
// The part of the graph engine's C++ interface that MindSpore uses without graphs: operators as stores of attributes.
// MindSpore defines operator classes in its own libraries, registers a creator for each, and converts the attributes of
// operators by name through temporary objects: it sets an attribute and gets it in another type, or gets one that was
// never set, whose default the definition has registered. All of it is in libcannon_ge.so, since libcannon.so has no
// C++.
//
// Layouts and names are those that clients were compiled against, with the old ABI of std::string (the build sets
// _GLIBCXX_USE_CXX11_ABI=0). Objects are copied and destroyed by clients' inline code, so each consists of the shared
// pointer that they expect. What is not built is in missing.def. Operators that no client defines have the attributes'
// defaults of ops/graph.aclop (defaults.def, which is generated).
//
// Creators are registered by static constructors and looked up by any thread; a mutex guards their table. An operator
// belongs to one thread at a time.
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ge/ascend_string.h"

#define VISIBLE __attribute__((visibility("default")))

namespace ge {

typedef unsigned int graphStatus;
enum : graphStatus { GRAPH_SUCCESS = 0, GRAPH_FAILED = 0xffffffff };

enum DataType : int {};

AscendString::AscendString(const char *text) : text_(text ? std::make_shared<std::string>(text) : nullptr) {}
const char *AscendString::GetString() const { return text_ ? text_->c_str() : ""; }
bool AscendString::operator<(const AscendString &other) const { return std::string(GetString()) < other.GetString(); }
bool AscendString::operator==(const AscendString &other) const { return std::string(GetString()) == other.GetString(); }
size_t AscendString::Hash() const { return std::hash<std::string>()(GetString()); }

// Types that occur in operators' definitions only. Their contents are not used.
class VISIBLE TensorType {
 public:
  explicit TensorType(const std::initializer_list<DataType> &) {}
  std::shared_ptr<void> contents;
};
class VISIBLE Promote {
 public:
  explicit Promote(const std::initializer_list<const char *> &) {}
  std::shared_ptr<void> contents;
};
class VISIBLE Tensor {
 public:
  Tensor();
  std::shared_ptr<void> contents;
};
Tensor::Tensor() = default;

// An attribute's value: integers of all widths as int64_t, strings of all classes as std::string.
struct Attribute {
  virtual ~Attribute() = default;
};
template <typename T>
struct AttributeOf : Attribute {
  explicit AttributeOf(T v) : value(std::move(v)) {}
  T value;
};

struct OperatorImpl {
  std::string name, type;
  std::map<std::string, std::shared_ptr<Attribute>> attributes;

  template <typename T>
  void Put(const std::string &key, T value) {
    attributes[key] = std::make_shared<AttributeOf<T>>(std::move(value));
  }

  template <typename T>
  const T *Find(const std::string &key) const {
    auto it = attributes.find(key);
    if (it == attributes.end()) return nullptr;
    auto *of = dynamic_cast<const AttributeOf<T> *>(it->second.get());
    return of ? &of->value : nullptr;
  }
};

// How each type of the interface is kept: Kept<T>::type, with conversions in both directions.
template <typename T>
struct Kept {
  typedef T type;
  static T To(const T &v) { return v; }
  static T From(const T &v) { return v; }
};
template <typename T>
struct KeptInteger {
  typedef int64_t type;
  static int64_t To(T v) { return static_cast<int64_t>(v); }
  static T From(int64_t v) { return static_cast<T>(v); }
};
template <>
struct Kept<int> : KeptInteger<int> {};
template <>
struct Kept<unsigned int> : KeptInteger<unsigned int> {};
template <>
struct Kept<DataType> : KeptInteger<DataType> {};
template <>
struct Kept<AscendString> {
  typedef std::string type;
  static std::string To(const AscendString &v) { return v.GetString(); }
  static AscendString From(const std::string &v) { return AscendString(v.c_str()); }
};
template <typename T>
struct Kept<std::vector<T>> {
  typedef std::vector<typename Kept<T>::type> type;
  static type To(const std::vector<T> &v) {
    type out;
    for (const T &x : v) out.push_back(Kept<T>::To(x));
    return out;
  }
  static std::vector<T> From(const type &v) {
    std::vector<T> out;
    for (const auto &x : v) out.push_back(Kept<T>::From(x));
    return out;
  }
};
template <> // whose elements are no objects
struct Kept<std::vector<bool>> {
  typedef std::vector<bool> type;
  static const type &To(const type &v) { return v; }
  static const type &From(const type &v) { return v; }
};

class VISIBLE Operator {
 public:
  explicit Operator(const char *type);
  Operator(const char *name, const char *type);
  Operator(const AscendString &name, const AscendString &type);
  explicit Operator(const std::string &type);
  Operator(const std::string &name, const std::string &type);
  virtual ~Operator() = default;

  std::string GetName() const;
  std::string GetOpType() const;
  graphStatus GetName(AscendString &name) const;
  graphStatus GetOpType(AscendString &type) const;

#define SET_AND_GET(name_type, T, set_parameter)                                                                       \
  Operator &SetAttr(name_type name, set_parameter value);                                                              \
  graphStatus GetAttr(name_type name, T &value) const;
#define REGISTER(T, parameter) void AttrRegister(const char *name, parameter value);
#include "ge/attributes.def"
#undef SET_AND_GET
#undef REGISTER
  Operator &SetAttr(const char *name, const char *value);
  Operator &SetAttr(const char *name, const Tensor &value);
  graphStatus GetAttr(const char *name, Tensor &value) const;
  void AttrRegister(const char *name, const Tensor &value);

  // What definitions say besides attributes' defaults.
  void InputRegister(const char *name, const char *types);
  void InputRegister(const std::string &name);
  void OptionalInputRegister(const char *name, const char *types);
  void OptionalInputRegister(const std::string &name);
  void OutputRegister(const char *name, const char *types);
  void OutputRegister(const std::string &name);
  void DynamicInputRegister(const char *name, unsigned int n, const char *types, bool at_end);
  void DynamicInputRegister(const char *name, unsigned int n, bool at_end);
  void DynamicInputRegisterByIndex(const char *name, unsigned int n, size_t index);
  void DynamicOutputRegister(const char *name, unsigned int n, const char *types, bool at_end);
  void DynamicOutputRegister(const char *name, unsigned int n, bool at_end);
  void RequiredAttrRegister(const std::string &name);
  void RequiredAttrWithTypeRegister(const char *name, const char *type);
  void DataTypeRegister(const char *name, const TensorType &types);
  void DataTypeRegister(const char *name, const Promote &types);
  void SubgraphCountRegister(const char *name, unsigned int n);
  void InferFuncRegister(const std::function<graphStatus(Operator &)> &function);

 private:
  std::shared_ptr<OperatorImpl> impl_;
};

// The default of an attribute. A table of constants, since the same as statements takes a sanitizer's build minutes to
// compile.
struct Default {
  const char *type, *attribute;
  void (*put)(OperatorImpl &, const char *attribute, const Default &);
  int64_t integer; // of integers and truth values
  float number;
  const char *text;
};

static void PutBool(OperatorImpl &impl, const char *key, const Default &d) { impl.Put<bool>(key, d.integer != 0); }
static void PutInteger(OperatorImpl &impl, const char *key, const Default &d) { impl.Put<int64_t>(key, d.integer); }
static void PutNumber(OperatorImpl &impl, const char *key, const Default &d) { impl.Put<float>(key, d.number); }
static void PutText(OperatorImpl &impl, const char *key, const Default &d) { impl.Put<std::string>(key, d.text); }

static const Default defaults[] = {
#define DEFAULT_bool(op, attribute, value)    {op, attribute, PutBool, value, 0, nullptr},
#define DEFAULT_integer(op, attribute, value) {op, attribute, PutInteger, value, 0, nullptr},
#define DEFAULT_number(op, attribute, value)  {op, attribute, PutNumber, 0, value, nullptr},
#define DEFAULT_text(op, attribute, value)    {op, attribute, PutText, 0, 0, value},
#define DEFAULT(op, attribute, kind, value)   DEFAULT_##kind(op, attribute, value)
#include "ge/defaults.def"
};

static std::shared_ptr<OperatorImpl> MakeImpl(const char *name, const char *type) {
  auto impl = std::make_shared<OperatorImpl>();
  impl->name = name ? name : "";
  impl->type = type ? type : "";
  for (const Default &d : defaults)
    if (impl->type == d.type) d.put(*impl, d.attribute, d);
  return impl;
}

Operator::Operator(const char *type) : impl_(MakeImpl("", type)) {}
Operator::Operator(const char *name, const char *type) : impl_(MakeImpl(name, type)) {}
Operator::Operator(const AscendString &name, const AscendString &type)
    : impl_(MakeImpl(name.GetString(), type.GetString())) {}
Operator::Operator(const std::string &type) : impl_(MakeImpl("", type.c_str())) {}
Operator::Operator(const std::string &name, const std::string &type) : impl_(MakeImpl(name.c_str(), type.c_str())) {}

std::string Operator::GetName() const { return impl_->name; }
std::string Operator::GetOpType() const { return impl_->type; }
graphStatus Operator::GetName(AscendString &name) const {
  name = AscendString(impl_->name.c_str());
  return GRAPH_SUCCESS;
}
graphStatus Operator::GetOpType(AscendString &type) const {
  type = AscendString(impl_->type.c_str());
  return GRAPH_SUCCESS;
}

// A value that is neither set nor registered, or is of another type, becomes zero: clients do not look at the result.
#define SET_AND_GET(name_type, T, set_parameter)                                                                       \
  Operator &Operator::SetAttr(name_type name, set_parameter value) {                                                   \
    impl_->Put<Kept<T>::type>(name, Kept<T>::To(value));                                                               \
    return *this;                                                                                                      \
  }                                                                                                                    \
  graphStatus Operator::GetAttr(name_type name, T &value) const {                                                      \
    const auto *kept = impl_->Find<Kept<T>::type>(name);                                                               \
    value = kept ? Kept<T>::From(*kept) : T{};                                                                         \
    return kept ? GRAPH_SUCCESS : GRAPH_FAILED;                                                                        \
  }
#define REGISTER(T, parameter)                                                                                         \
  void Operator::AttrRegister(const char *name, parameter value) {                                                     \
    impl_->Put<Kept<T>::type>(name, Kept<T>::To(value));                                                               \
  }
#include "ge/attributes.def"

Operator &Operator::SetAttr(const char *name, const char *value) {
  impl_->Put<std::string>(name, value ? value : "");
  return *this;
}
Operator &Operator::SetAttr(const char *name, const Tensor &value) {
  impl_->Put(name, value);
  return *this;
}
graphStatus Operator::GetAttr(const char *name, Tensor &value) const {
  const Tensor *kept = impl_->Find<Tensor>(name);
  value = kept ? *kept : Tensor();
  return kept ? GRAPH_SUCCESS : GRAPH_FAILED;
}
void Operator::AttrRegister(const char *name, const Tensor &value) { impl_->Put(name, value); }

void Operator::InputRegister(const char *, const char *) {}
void Operator::InputRegister(const std::string &) {}
void Operator::OptionalInputRegister(const char *, const char *) {}
void Operator::OptionalInputRegister(const std::string &) {}
void Operator::OutputRegister(const char *, const char *) {}
void Operator::OutputRegister(const std::string &) {}
void Operator::DynamicInputRegister(const char *, unsigned int, const char *, bool) {}
void Operator::DynamicInputRegister(const char *, unsigned int, bool) {}
void Operator::DynamicInputRegisterByIndex(const char *, unsigned int, size_t) {}
void Operator::DynamicOutputRegister(const char *, unsigned int, const char *, bool) {}
void Operator::DynamicOutputRegister(const char *, unsigned int, bool) {}
void Operator::RequiredAttrRegister(const std::string &) {}
void Operator::RequiredAttrWithTypeRegister(const char *, const char *) {}
void Operator::DataTypeRegister(const char *, const TensorType &) {}
void Operator::DataTypeRegister(const char *, const Promote &) {}
void Operator::SubgraphCountRegister(const char *, unsigned int) {}
void Operator::InferFuncRegister(const std::function<graphStatus(Operator &)> &) {}

// ---- creators ----

typedef std::function<Operator(const AscendString &)> Creator;

namespace {

struct Creators {
  std::mutex lock;
  std::map<std::string, Creator> by_type;
};

// Never destroyed: other libraries' static objects may still use it at exit.
Creators &AllCreators() {
  static auto *all = new Creators;
  return *all;
}

void Register(const char *type, const Creator &creator) {
  Creators &all = AllCreators();
  std::lock_guard<std::mutex> hold(all.lock);
  all.by_type.emplace(type, creator);
}

Creator Find(const char *type) {
  Creators &all = AllCreators();
  std::lock_guard<std::mutex> hold(all.lock);
  auto it = all.by_type.find(type);
  return it == all.by_type.end() ? nullptr : it->second;
}

} // namespace

// Objects of one byte, which the constructors leave alone.
class VISIBLE OperatorCreatorRegister {
 public:
  OperatorCreatorRegister(const char *type, const Creator &creator);
  OperatorCreatorRegister(const std::string &type, const std::function<Operator(const std::string &)> &creator);
};
class VISIBLE InferShapeFuncRegister {
 public:
  InferShapeFuncRegister(const char *type, const std::function<graphStatus(Operator &)> &function);
  InferShapeFuncRegister(const std::string &type, const std::function<graphStatus(Operator &)> &function);
};
class VISIBLE VerifyFuncRegister {
 public:
  VerifyFuncRegister(const char *type, const std::function<graphStatus(Operator &)> &function);
};

OperatorCreatorRegister::OperatorCreatorRegister(const char *type, const Creator &creator) { Register(type, creator); }
OperatorCreatorRegister::OperatorCreatorRegister(const std::string &type,
                                                 const std::function<Operator(const std::string &)> &creator) {
  Register(type.c_str(), [creator](const AscendString &name) { return creator(name.GetString()); });
}
InferShapeFuncRegister::InferShapeFuncRegister(const char *, const std::function<graphStatus(Operator &)> &) {}
InferShapeFuncRegister::InferShapeFuncRegister(const std::string &, const std::function<graphStatus(Operator &)> &) {}
VerifyFuncRegister::VerifyFuncRegister(const char *, const std::function<graphStatus(Operator &)> &) {}

class VISIBLE OperatorFactory {
 public:
  static bool IsExistOp(const char *type);
  static bool IsExistOp(const std::string &type);
  static Operator CreateOperator(const char *name, const char *type);
  static Operator CreateOperator(const std::string &name, const std::string &type);
};

// Whether an operator can be executed is said when that is tried.
bool OperatorFactory::IsExistOp(const char *) { return true; }
bool OperatorFactory::IsExistOp(const std::string &type) { return IsExistOp(type.c_str()); }
Operator OperatorFactory::CreateOperator(const char *name, const char *type) {
  const Creator creator = Find(type);
  return creator ? creator(AscendString(name)) : Operator(name, type);
}
Operator OperatorFactory::CreateOperator(const std::string &name, const std::string &type) {
  return CreateOperator(name.c_str(), type.c_str());
}

// ---- the engine ----

// Clients' static constructors insert texts of error codes into the map, in inline code.
class VISIBLE StatusFactory {
 public:
  static StatusFactory *Instance();

 private:
  std::map<uint32_t, std::string> texts_;
};

StatusFactory *StatusFactory::Instance() {
  static auto *instance = new StatusFactory;
  return instance;
}

VISIBLE graphStatus GEInitialize(const std::map<std::string, std::string> &options);
VISIBLE graphStatus GEFinalize();

graphStatus GEInitialize(const std::map<std::string, std::string> &) { return GRAPH_SUCCESS; }
graphStatus GEFinalize() { return GRAPH_SUCCESS; }

} // namespace ge
