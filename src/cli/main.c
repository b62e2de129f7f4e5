/* cannon: finds the subcommand. */
#include "cli/commands.h"
#include "cli/standard_output.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *name, *about;
  int (*run)(int argc, char **argv);
} commands[] = {
    {"run", "run a program on simulated devices and report what it did", command_run},
    {"top", "show what a program that runs is doing", command_top},
    {"env", "print the environment that programs need, for a shell's eval", command_env},
    {"replay", "run a recorded trace of allocations through ours and other allocators", command_replay},
    {"plan", "plan the memory of buffers whose lives are known", command_plan},
    {"info", "list devices, profiles, version and coverage of the interface", command_info},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void usage(FILE *out) {
  fprintf(out, "Usage: cannon COMMAND [ARGUMENTS]\n\n"
               "Runs programs written for CANN (Huawei Ascend NPUs) on a machine without an NPU.\n\nCommands:\n");
  for (int i = 0; i < N_COMMANDS; i++) fprintf(out, "  %-7s %s\n", commands[i].name, commands[i].about);
  fprintf(out, "\ncannon COMMAND --help says more; cannon --version prints the version.\n");
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
  fprintf(stderr, "cannon: unknown command '%s', expected run, top, env, replay, plan or info (see cannon --help)\n",
          argv[1]);
  return EXIT_USAGE;
}

int main(int argc, char **argv) { return standard_output_end("cannon", run_command(argc, argv)); }
