/* SPDX-License-Identifier: Apache-2.0 */
/* cannon model: runs ONNX models and .om files, and shows what becomes of them. */
#include "cli/commands.h"
#include "cli/model/model_command.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

static const char model_help[] = "Usage: cannon model run [OPTION]... MODEL\n"
                                 "       cannon model show [OPTION]... MODEL\n"
                                 "\n"
                                 "Runs a model on arrays in files, or shows what becomes of it.\n"
                                 "\n"
                                 "MODEL is an ONNX file or an .om file. `cannon model run` loads it as a program\n"
                                 "would (`aclmdlLoadFromFile`, `aclmdlExecute`), and prints the shapes and values of\n"
                                 "its outputs and the times. `cannon model show` runs nothing: it prints the nodes\n"
                                 "that are left after all passes, the implementation that was chosen for each and\n"
                                 "why, the passes and how often they matched, and the memory that a run will take.\n"
                                 "\n"
                                 "Options:\n"
                                 "  --input [NAME=]FILE    the array for an input, as NumPy saves it (.npy); without\n"
                                 "                         NAME, for the first input that has none\n"
                                 "  --random SEED          fill inputs without a file: random numbers from 0 to 1\n"
                                 "                         for types of real numbers, otherwise 0\n"
                                 "  --output DIR           write each output to DIR/NAME.npy\n"
                                 "  --repeat N             number of runs after the first, 1 to 1000000 (default: 1)\n"
                                 "  --shape NAME:D,D,...   shape of an input that is open in the model; may be\n"
                                 "                         repeated, and hold several with semicolons between\n"
                                 "  --optimize GOAL        make the model for time, memory or power, where there is\n"
                                 "                         a choice; `show` tells what that changes\n"
                                 "  --tune                 measure implementations of operators where the rules that\n"
                                 "                         choose them may be wrong, and take the fastest; results\n"
                                 "                         are kept in $XDG_CACHE_HOME/cannon for this processor\n"
                                 "  --html FILE            write a page with the graph before and after passes, the\n"
                                 "                         addresses of all values and the memory at each step\n"
                                 "  --json FILE            write the results to FILE in JSON\n"
                                 "  --force                replace files that cannon did not write for the same\n"
                                 "                         purpose\n"
                                 "  -h, --help             print this help and exit\n"
                                 "\n"
                                 "Exit status:\n"
                                 "  0  success\n"
                                 "  1  MODEL or an input cannot be read, the model cannot be run, or an output\n"
                                 "     cannot be written\n"
                                 "  2  the command line is wrong; nothing was done\n"
                                 "\n"
                                 "Examples:\n"
                                 "  cannon model show resnet50.onnx --shape data:1,3,224,224 --html resnet50.html\n"
                                 "  cannon model run resnet50.onnx --input picture.npy --output results\n"
                                 "  cannon model run m.om --random 1 --repeat 100\n";

enum { INPUT = 1, RANDOM, OUTPUT, REPEAT, SHAPE, OPTIMIZE, TUNE, HTML, JSON, FORCE, HELP = 'h' };

/* Which options a subcommand has: those up to REPEAT are of `run`, and HTML is of `show`. */
static bool option_fits(int option, bool runs) { return runs ? option != HTML : option > REPEAT; }

static int model_parse_option(int option, model_options *o) {
  char error[256];
  switch (option) {
  case INPUT:
    if (o->n_inputs == MODEL_MOST_INPUTS) return bad_option("model", "--input", optarg, "at most 64 of them");
    o->inputs[o->n_inputs++] = optarg;
    return 0;
  case RANDOM:
    o->fill = true;
    if (size_parse_number(optarg, 0, UINT32_MAX, &o->seed) == SIZE_OK) return 0;
    return bad_option("model", "--random", optarg, "a number from 0 to 4294967295");
  case OUTPUT: o->folder = optarg; return 0;
  case REPEAT:
    if (size_parse_number(optarg, 1, 1000000, &o->repeat) == SIZE_OK) return 0;
    return bad_option("model", "--repeat", optarg, "a number from 1 to 1000000");
  case SHAPE:
    if (shape_list_read(optarg, o->shapes, &o->n_shapes, error)) return 0;
    fprintf(stderr, "cannon model: --shape has %s\n", error);
    return EXIT_USAGE;
  case OPTIMIZE:
    o->goal = optarg;
    if (!strcmp(optarg, "time") || !strcmp(optarg, "memory") || !strcmp(optarg, "power")) return 0;
    return bad_option("model", "--optimize", optarg, "time, memory or power");
  case TUNE: o->tune = true; return 0;
  case HTML: o->html.path = optarg; return 0;
  case JSON: o->json.path = optarg; return 0;
  case FORCE: o->force = true; return 0;
  case HELP: o->help_wanted = true; return 0;
  default: return EXIT_USAGE; /* getopt has printed a message */
  }
}

/* Returns 0 or the exit status. */
static int model_parse(int argc, char **argv, bool runs, model_options *o) {
  static const struct option options[] = {
      {"input", required_argument, NULL, INPUT},
      {"random", required_argument, NULL, RANDOM},
      {"output", required_argument, NULL, OUTPUT},
      {"repeat", required_argument, NULL, REPEAT},
      {"shape", required_argument, NULL, SHAPE},
      {"tune", no_argument, NULL, TUNE},
      {"optimize", required_argument, NULL, OPTIMIZE},
      {"html", required_argument, NULL, HTML},
      {"json", required_argument, NULL, JSON},
      {"force", no_argument, NULL, FORCE},
      {"help", no_argument, NULL, HELP},
      {NULL, 0, NULL, 0},
  };
  const char *name = runs ? "cannon model run" : "cannon model show";
  argv[0] = (char *)(uintptr_t)name; /* getopt's messages begin with it */
  for (int option, at = 0; (option = getopt_long(argc, argv, "h", options, &at)) != -1;) {
    if (option != '?' && !option_fits(option, runs)) {
      fprintf(stderr, "%s: it has no option --%s\n", name, options[at].name);
      return EXIT_USAGE;
    }
    const int status = model_parse_option(option, o);
    if (status || o->help_wanted) return status;
  }
  if (optind + 1 != argc) {
    fprintf(stderr, "%s: expected one MODEL (see cannon model --help)\n", name);
    return EXIT_USAGE;
  }
  o->path = argv[optind];
  o->json = (output){.command = name, .path = o->json.path, .kind = OUTPUT_JSON, .force = o->force};
  o->html = (output){.command = name, .path = o->html.path, .kind = OUTPUT_PAGE, .force = o->force};
  return output_check(&o->json) && output_check(&o->html) ? 0 : EXIT_USAGE;
}

int command_model(int argc, char **argv) {
  model_options o = {.repeat = 1};
  const char *which = argc > 1 ? argv[1] : "";
  if (!strcmp(which, "--help") || !strcmp(which, "-h")) {
    fputs(model_help, stdout);
    return 0;
  }
  const bool runs = !strcmp(which, "run");
  if (!runs && strcmp(which, "show") != 0) {
    fprintf(stderr, "cannon model: the command is '%s', expected run or show (see cannon model --help)\n", which);
    return EXIT_USAGE;
  }
  const int status = model_parse(argc - 1, argv + 1, runs, &o);
  if (status) return status;
  if (o.help_wanted) {
    fputs(model_help, stdout);
    return 0;
  }
  return runs ? model_run(&o) : model_show(&o);
}
