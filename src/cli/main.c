/* SPDX-License-Identifier: Apache-2.0 */
/* cannon: finds the subcommand and runs it. */
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/standard_output.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *name, *about;
  int (*run)(int argc, char **argv);
} commands[] = {
#define COMMAND(name, about) {#name, about, command_##name},
#include "cli/commands.def"
#undef COMMAND
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void usage(FILE *out) {
  fputs("Usage: cannon COMMAND [ARGUMENT]...\n"
        "       cannon --help\n"
        "       cannon --version\n"
        "\n"
        "Runs programs written for CANN, the software of Huawei's Ascend NPUs, on a machine without an NPU.\n"
        "\n"
        "Commands:\n",
        out);
  for (int i = 0; i < N_COMMANDS; i++) fprintf(out, "  %-6s  %s\n", commands[i].name, commands[i].about);
  fputs("\n"
        "Options:\n"
        "  -h, --help  print this help and exit\n"
        "  --version   print the version and exit\n"
        "\n"
        "Exit status:\n"
        "  0  success\n"
        "  1  the command failed\n"
        "  2  the command line is wrong; nothing was done\n"
        "  `cannon run` has the exit status of its program.\n"
        "\n"
        "Examples:\n"
        "  cannon run --devices 2 ./train\n"
        "  eval \"$(cannon env)\"\n"
        "\n"
        "`cannon COMMAND --help` describes a command.\n",
        out);
}

static int run_command(int argc, char **argv) {
  if (argc < 2) {
    usage(stderr);
    return EXIT_USAGE;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
    usage(stdout);
    return 0;
  }
  if (strcmp(argv[1], "--version") == 0) {
    printf("cannon %s (CANN %s)\n", CANNON_VERSION, CANN_VERSION);
    return 0;
  }
  for (int i = 0; i < N_COMMANDS; i++)
    if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
  fprintf(stderr, "cannon: unknown command '%s', expected", format_text(argv[1]));
  for (int i = 0; i < N_COMMANDS; i++)
    fprintf(stderr, "%s %s", i + 1 == N_COMMANDS ? " or" : i ? "," : "", commands[i].name);
  fputs(" (see cannon --help)\n", stderr);
  return EXIT_USAGE;
}

int main(int argc, char **argv) { return standard_output_end("cannon", run_command(argc, argv)); }
