/* SPDX-License-Identifier: Apache-2.0 */
/* cannon: finds the subcommand and runs it. */
#include "cli/commands.h"
#include "cli/standard_output.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *name, *about;
  int (*run)(int argc, char **argv);
} commands[] = {
    {"run", "run a program on simulated devices, and report what it did", command_run},
    {"diff", "show what two runs differ in, from their JSON reports", command_diff},
    {"report", "show where a run's memory went, on one screen", command_report},
    {"fuzz", "run a program under many schedules and injected failures", command_fuzz},
    {"top", "show the memory and operators of running programs", command_top},
    {"env", "print the environment that programs need, as shell commands", command_env},
    {"prefix", "print the folder of the installation", command_prefix},
    {"memory", "show what held a device's memory, by class, module and line", command_memory},
    {"replay", "replay a recorded trace of allocations through several allocators", command_replay},
    {"scale", "predict the time of a recorded training step on more devices", command_scale},
    {"advise", "find what makes a recorded training step fit, and what it costs", command_advise},
    {"plan", "find memory offsets for buffers with known lifetimes", command_plan},
    {"model", "run an ONNX model or an .om file, or show what becomes of it", command_model},
    {"test", "test operators against references, as files in Python describe", command_test},
    {"info", "show devices, profiles, version, and coverage of CANN's interface", command_info},
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
  fprintf(stderr,
          "cannon: unknown command '%s', expected run, diff, fuzz, report, top, env, prefix, memory, replay, scale, "
          "advise, plan, model, test or info (see cannon --help)\n",
          argv[1]);
  return EXIT_USAGE;
}

int main(int argc, char **argv) { return standard_output_end("cannon", run_command(argc, argv)); }
