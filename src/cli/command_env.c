/* SPDX-License-Identifier: Apache-2.0 */
/* cannon env: prints the environment as export commands for a POSIX shell. */
#include "base/settings/variables.h"
#include "cli/commands.h"
#include "cli/environment.h"

#include <stdio.h>
#include <string.h>

static const char help[] = "Usage: cannon env [--help]\n"
                           "\n"
                           "Prints the environment that programs need as export commands for a POSIX shell.\n"
                           "\n"
                           "The commands set ASCEND_HOME_PATH and similar variables to this installation, and\n"
                           "add its libraries to LD_LIBRARY_PATH, its tools to PATH, and its Python packages\n"
                           "to PYTHONPATH. They are safe under `set -eu`, and may be evaluated twice.\n"
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
                           "  eval \"$(cannon env)\"\n"
                           "\n"
                           "Environment:\n"
                           "  Programs, `cannon run` and the other tools use these variables if they are set:\n"
                           "\n";

static void env_print_help(void) {
  fputs(help, stdout);
  for (variable v = 0; v < N_VARIABLES; v++)
    printf("  %s\n      %s\n      value: %s\n", variable_name(v), variable_meaning(v), variable_expected(v).text);
}

/* Prints a text as one shell word. */
static void print_quoted(const char *text) {
  putchar('\'');
  for (; *text; text++)
    if (*text == '\'')
      fputs("'\\''", stdout);
    else
      putchar(*text);
  putchar('\'');
}

static void print_entry(const char *prefix, const environment_variable *v) {
  print_quoted(prefix);
  fputs(v->folder, stdout); /* plain letters, no quoting needed */
}

int command_env(int argc, char **argv) {
  if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
    env_print_help();
    return 0;
  }
  if (argc > 1) {
    fprintf(stderr, "cannon env: unexpected argument '%s'; it takes none\n", argv[1]);
    return EXIT_USAGE;
  }
  char prefix[PATH_MAX];
  environment_prefix(prefix);
  for (const environment_variable *v = environment_table; v->name; v++) {
    if (!environment_is_needed(prefix, v)) continue;
    if (v->is_list) {
      printf("case \":${%s:-}:\" in *:", v->name);
      print_entry(prefix, v);
      fputs(":*) ;; *) ", stdout);
    }
    printf("export %s=", v->name);
    print_entry(prefix, v);
    if (v->is_list) printf("\"${%s:+:$%s}\" ;; esac", v->name, v->name);
    putchar('\n');
  }
  return 0;
}
