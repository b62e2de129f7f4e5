/* SPDX-License-Identifier: Apache-2.0 */
/* cannon prefix: prints the folder of the installation, for build files and scripts. */
#include "cli/commands.h"
#include "cli/environment.h"

#include <stdio.h>
#include <string.h>

static const char help[] = "Usage: cannon prefix [--help]\n"
                           "\n"
                           "Prints the folder of this installation, which is laid out as CANN's.\n"
                           "\n"
                           "Options:\n"
                           "  -h, --help  print this help and exit\n"
                           "\n"
                           "Exit status:\n"
                           "  0  success\n"
                           "  1  the output cannot be written\n"
                           "  2  the command line is wrong; nothing was done\n"
                           "\n"
                           "Examples:\n"
                           "  ASCEND_HOME_PATH=\"$(cannon prefix)\" cmake -S . -B build\n"
                           "  gcc main.c -I\"$(cannon prefix)/include\" -L\"$(cannon prefix)/lib64\" -lascendcl\n";

int command_prefix(int argc, char **argv) {
  if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
    fputs(help, stdout);
    return 0;
  }
  if (argc > 1) {
    fprintf(stderr, "cannon prefix: unexpected argument '%s'; it takes none\n", argv[1]);
    return EXIT_USAGE;
  }
  char prefix[PATH_MAX];
  puts(environment_prefix(prefix));
  return 0;
}
