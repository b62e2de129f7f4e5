/* SPDX-License-Identifier: Apache-2.0 */
#include "base/signal_names.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

static const struct {
  const char *name;
  int number;
} signals[] = {{"none", 0},         {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP},
               {"WINCH", SIGWINCH}, {"IO", SIGIO},     {"URG", SIGURG},   {"PWR", SIGPWR}};

bool signal_of_name(const char *name, int *out) {
  if (!strncmp(name, "SIG", 3)) name += 3;
  for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i) {
    if (strcmp(signals[i].name, name) != 0) continue;
    *out = signals[i].number;
    return true;
  }
  return false;
}
