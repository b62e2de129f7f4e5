/* cannon env: exports for a POSIX shell. */
#include "base/variables.h"
#include "cli/commands.h"
#include "cli/environment.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
    "Usage: eval \"$(cannon env)\"\n\n"
    "Prints export commands for a POSIX shell: where this installation is (ASCEND_HOME_PATH and its like), "
    "its\n"
    "libraries in LD_LIBRARY_PATH, its tools in PATH. Safe under set -eu, and when evaluated twice.\n\n"
    "Programs, cannon run and the other tools also look at these variables, where they are set:\n\n";

static void print_help(void) {
  fputs(help, stdout);
  for (variable v = 0; v < N_VARIABLES; v++)
    printf("  %s\n      %s\n      value: %s\n", variable_name(v), variable_meaning(v), variable_expected(v).text);
}

/* A shell word that means text whatever it holds. */
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
  fputs(v->folder, stdout); /* plain letters */
}

int command_env(int argc, char **argv) {
  if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
    print_help();
    return 0;
  }
  if (argc > 1) {
    fprintf(stderr, "cannon env: unexpected argument '%s'; it takes none\n", argv[1]);
    return EXIT_USAGE;
  }
  char prefix[PATH_MAX];
  environment_prefix(prefix);
  for (const environment_variable *v = environment_table; v->name; v++) {
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
