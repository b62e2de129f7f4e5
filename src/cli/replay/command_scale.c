/* SPDX-License-Identifier: Apache-2.0 */
/* cannon scale: predicts the time of a recorded step on more devices. */
#include "base/size.h"
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/output.h"
#include "cli/replay/scale_report.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SCALE_MAX_ROWS = 64, SCALE_MAX_ALGO = 128 };

typedef struct {
  const char *const *paths;
  int n_paths;
  const char *topology;
  uint32_t devices[SCALE_MAX_ROWS];
  uint32_t n_devices;
  cost_names names;
  char algo[SCALE_MAX_ALGO]; /* what the names point into */
  scale_options model;
  output json;
  bool force, help_wanted;
} scale_command;

static void scale_print_help(void) {
  fputs("Usage: cannon scale --devices N[..M] [OPTION]... RECORD...\n"
        "\n"
        "Predicts the time of a recorded training step on more devices.\n"
        "\n"
        "RECORD is a recording of `cannon run --record`; programs of several processes leave\n"
        "one for each. The streams of the recorded ranks run again in a model: tasks take\n"
        "the time that was recorded, and a collective takes the time that its algorithm\n"
        "needs on the topology. Communicators of all recorded ranks grow with the number of\n"
        "devices, others keep their size. The output has, for each number of devices: the\n"
        "time of the step, and without communication; the time of communication, and how\n"
        "much of it is exposed, as the rank computes nothing meanwhile; the share that is\n"
        "hidden; the efficiency, which is the time without communication divided by the\n"
        "time of the step; and what bounds the step.\n"
        "\n"
        "Options:\n"
        "  --devices N[..M]      numbers of devices: N, its doubles up to M, and M; or a list\n"
        "                        such as 8,64,512. A number is raised to the next one that\n"
        "                        consists of whole communicators\n"
        "  --topology NAME       how devices are connected: a file of share/cannon/topologies\n"
        "                        without .json, or the path of one (default: a2-cluster)\n"
        "  --scale-group GROUP   let communicators of GROUP ranks grow as well; or those like\n"
        "                        the one whose number (0x...) the output shows: of as many\n"
        "                        ranks, equally far apart\n"
        "  --strong              the devices share the recorded work; otherwise each device\n"
        "                        works as much as a recorded rank\n"
        "  --compute FACTOR      multiply the recorded times of tasks, which are those of this\n"
        "                        machine's processors (default: 1)\n"
        "  --algo ALGORITHM      as in HCCL_ALGO: level1:NAME;level2:NAME, or one NAME for\n"
        "                        both: ring, H-D_R, NHR, NB, pairwise, pipeline (default: the\n"
        "                        fastest)\n"
        "  --json FILE           write the results to FILE in JSON\n"
        "  --force               let --json replace a file that cannon did not write\n"
        "  -h, --help            print this help and exit\n"
        "\n"
        "Exit status:\n"
        "  0  success\n"
        "  1  a recording or the topology cannot be read, or an output cannot be written\n"
        "  2  the command line is wrong; nothing was done\n"
        "\n"
        "Examples:\n"
        "  cannon run --devices 4 --record step.rec torchrun --nproc_per_node 4 train.py\n"
        "  cannon scale --devices 8..10000 --topology cloudmatrix384 step.rec*\n",
        stdout);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static bool scale_add_devices(scale_command *o, uint64_t n) {
  if (o->n_devices == SCALE_MAX_ROWS) return false;
  o->devices[o->n_devices++] = (uint32_t)n;
  return true;
}

static bool scale_parse_range(scale_command *o, char *text) {
  uint64_t first, last;
  char *dots = strstr(text, "..");
  if (dots) *dots = '\0';
  if (size_parse_number(text, 1, SCALE_MAX_DEVICES, &first) != SIZE_OK) return false;
  last = first;
  if (dots && size_parse_number(dots + 2, first, SCALE_MAX_DEVICES, &last) != SIZE_OK) return false;
  for (uint64_t n = first; n < last; n *= 2)
    if (!scale_add_devices(o, n)) return false;
  return scale_add_devices(o, last);
}

static bool scale_parse_devices(scale_command *o, const char *list) {
  char text[512];
  o->n_devices = 0;
  if (snprintf(text, sizeof text, "%s", list) >= (int)sizeof text) return false;
  for (char *rest = text, *part; (part = strsep(&rest, ","));)
    if (!scale_parse_range(o, part)) return false;
  return true;
}

static bool scale_known_algorithm(const char *name) {
  schedule_algorithm unused;
  return schedule_algorithm_of(name, &unused) || strcmp(name, "pipeline") == 0 || strcmp(name, "NA") == 0 ||
         strcmp(name, "AHC") == 0;
}

/* Level 0 may be named, as in HCCL_ALGO, and has no meaning. */
static bool scale_parse_algo(scale_command *o, const char *list) {
  if (snprintf(o->algo, sizeof o->algo, "%s", list) >= (int)sizeof o->algo) return false;
  o->names = (cost_names){{NULL}};
  if (!strchr(o->algo, ':')) {
    o->names = (cost_names){{NULL, o->algo, o->algo}};
    return scale_known_algorithm(o->algo);
  }
  for (char *rest = o->algo, *part; (part = strsep(&rest, ";"));) {
    const bool is_level = strncmp(part, "level", 5) == 0 && part[5] >= '0' && part[5] <= '2' && part[6] == ':';
    if (!is_level || !scale_known_algorithm(part + 7)) return false;
    o->names.level[part[5] - '0'] = part + 7;
  }
  return true;
}

static bool scale_parse_group(scale_options *o, const char *text) {
  uint64_t n;
  char *end;
  if (strncmp(text, "0x", 2) == 0) {
    errno = 0;
    o->grows_id = strtoull(text, &end, 16);
    o->has_id = true;
    return !errno && end > text + 2 && !*end;
  }
  if (size_parse_number(text, 1, SCALE_MAX_DEVICES, &n) != SIZE_OK) return false;
  o->grows_size = (uint32_t)n;
  return true;
}

static bool scale_parse_factor(const char *text, double *out) {
  char *end;
  *out = strtod(text, &end);
  return end != text && !*end && isfinite(*out) && *out >= 0 && *out <= 1e9;
}

/* Returns 0 or the exit status. */
static int scale_parse(int argc, char **argv, scale_command *o) {
  enum { DEVICES = 1, TOPOLOGY, SCALE_GROUP, STRONG, COMPUTE, ALGO, JSON, FORCE, HELP = 'h' };
  static const struct option options[] = {
      {"devices", required_argument, NULL, DEVICES},
      {"topology", required_argument, NULL, TOPOLOGY},
      {"scale-group", required_argument, NULL, SCALE_GROUP},
      {"strong", no_argument, NULL, STRONG},
      {"compute", required_argument, NULL, COMPUTE},
      {"algo", required_argument, NULL, ALGO},
      {"json", required_argument, NULL, JSON},
      {"force", no_argument, NULL, FORCE},
      {"help", no_argument, NULL, HELP},
      {NULL, 0, NULL, 0},
  };
  argv[0] = "cannon scale"; /* getopt's messages begin with it */
  for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    switch (option) {
    case DEVICES:
      if (!scale_parse_devices(o, optarg))
        return bad_option("scale", "--devices", optarg, "numbers from 1 to 1048576: N, N..M, or a list with commas");
      break;
    case TOPOLOGY: o->topology = optarg; break;
    case SCALE_GROUP:
      if (!scale_parse_group(&o->model, optarg))
        return bad_option("scale", "--scale-group", optarg, "a number of ranks, or a communicator's number as 0x...");
      break;
    case STRONG: o->model.strong = true; break;
    case COMPUTE:
      if (!scale_parse_factor(optarg, &o->model.compute))
        return bad_option("scale", "--compute", optarg, "a number from 0 to 1e9");
      break;
    case ALGO:
      if (!scale_parse_algo(o, optarg))
        return bad_option("scale", "--algo", optarg,
                          "level1:NAME;level2:NAME or NAME, of ring, H-D_R, NHR, NHR_V1, NB, AHC, pairwise, "
                          "pipeline, fullmesh and NA");
      break;
    case JSON: o->json.path = optarg; break;
    case FORCE: o->force = true; break;
    case HELP: o->help_wanted = true; return 0;
    default: return EXIT_USAGE; /* getopt has printed a message */
    }
  }
  if (optind >= argc || !o->n_devices) {
    fprintf(stderr, "cannon scale: expected %s (cannon scale --devices N[..M] [OPTIONS] RECORD...)\n",
            o->n_devices ? "a RECORD" : "--devices");
    return EXIT_USAGE;
  }
  o->paths = (const char *const *)argv + optind;
  o->n_paths = argc - optind;
  o->json = (output){"cannon scale", o->json.path, OUTPUT_JSON, o->force, NULL};
  return output_check(&o->json) ? 0 : EXIT_USAGE;
}

/* ---- topologies -------------------------------------------------------------------------------------------------- */

/* The folder of an installation's topologies: bin/cannon and share are in the same prefix. */
static bool topology_folder(char folder[PATH_MAX]) {
  char program[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  if (n <= 0) return false;
  program[n] = '\0';
  for (int i = 0; i < 2; ++i) {
    char *slash = strrchr(program, '/');
    if (!slash) return false;
    *slash = '\0';
  }
  return snprintf(folder, PATH_MAX, "%s/share/cannon/topologies", program) < PATH_MAX;
}

static void topology_print_names(const char *folder) {
  DIR *d = opendir(folder);
  fprintf(stderr, "expected the path of a file, or one of %s:\n", folder);
  for (const struct dirent *e; d && (e = readdir(d));) {
    const char *dot = strrchr(e->d_name, '.');
    if (dot && strcmp(dot, ".json") == 0) fprintf(stderr, "  %.*s\n", (int)(dot - e->d_name), e->d_name);
  }
  if (d) closedir(d);
}

/* Returns 0 or the exit status. */
static int scale_read_topology(const char *name, topology *out) {
  char folder[PATH_MAX] = "", path[PATH_MAX + 300];
  const bool is_path = strchr(name, '/') || strstr(name, ".json");
  if (is_path)
    snprintf(path, sizeof path, "%s", name);
  else if (topology_folder(folder))
    snprintf(path, sizeof path, "%s/%.255s.json", folder, name);
  if (!is_path && access(path, F_OK) != 0) {
    fprintf(stderr, "cannon scale: --topology is '%s', ", name);
    topology_print_names(folder);
    return EXIT_USAGE;
  }
  if (topology_read(path, out) == ST_OK) return 0;
  fprintf(stderr, "cannon scale: topology %s: %s\n", format_text(name), format_text(fail_take()));
  return 1;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* Whether there is a communicator that --scale-group means. Prints a message if not. */
static bool scale_group_exists(const scale_trace *t, const scale_options *o) {
  bool exists = !o->has_id && !o->grows_size;
  for (size_t i = 0; i < t->n_groups; ++i)
    exists |= (o->has_id && t->group[i].id == o->grows_id) || (o->grows_size && t->group[i].n_ranks == o->grows_size);
  if (exists) return true;
  fprintf(stderr, "cannon scale: --scale-group names no communicator of the recording, expected one of\n");
  for (size_t i = 0; i < t->n_groups; ++i)
    fprintf(stderr, "  0x%" PRIx64 ", of %" PRIu32 " ranks\n", t->group[i].id, t->group[i].n_ranks);
  return false;
}

/* Returns the exit status. */
static int scale_predict(scale_command *o, const topology *t, const scale_trace *trace) {
  static scale_result results[SCALE_MAX_ROWS];
  scale_report report = {o->paths[0], trace, t, &o->model, 0, results};
  cost_model *m = cost_model_new(t, &o->names);
  status st = m ? ST_OK : fail(ST_NO_HOST_MEMORY, "no memory for the model");
  for (uint32_t i = 0; st == ST_OK && i < o->n_devices; ++i) {
    const uint32_t n = scale_round_up(trace, &o->model, o->devices[i]);
    if (report.n && results[report.n - 1].n_devices == n) continue;
    st = scale_run(trace, &o->model, m, n, &results[report.n++]);
  }
  cost_model_free(m);
  if (st != ST_OK) {
    fprintf(stderr, "cannon scale: %s\n", format_text(fail_take()));
    return 1;
  }
  scale_print(stdout, &report);
  if (!o->json.path) return 0;
  FILE *f = output_begin(&o->json);
  return f && output_end(&o->json, f, scale_write_json(f, &report)) ? 0 : 1;
}

int command_scale(int argc, char **argv) {
  scale_command o = {.topology = "a2-cluster", .model = {.compute = 1}};
  char error[512];
  scale_trace trace;
  topology t;
  int code = scale_parse(argc, argv, &o);
  if (code) return code;
  if (o.help_wanted) {
    scale_print_help();
    return 0;
  }
  code = scale_read_topology(o.topology, &t);
  if (code) return code;
  if (!scale_read(o.paths, o.n_paths, &trace, error)) {
    fprintf(stderr, "cannon scale: %s\n", format_text(error));
    return 1;
  }
  code = scale_group_exists(&trace, &o.model) ? scale_predict(&o, &t, &trace) : EXIT_USAGE;
  scale_trace_free(&trace);
  return code;
}
