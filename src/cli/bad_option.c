/* SPDX-License-Identifier: Apache-2.0 */
/* The message for a wrong value of an option (commands.h). */
#include "cli/commands.h"

#include <stdio.h>

#include "cli/figures.h"

int bad_option(const char *command, const char *option, const char *value, const char *expected) {
  fprintf(stderr, "cannon %s: %s is '%s', expected %s\n", command, option, format_text(value), expected);
  return EXIT_USAGE;
}
