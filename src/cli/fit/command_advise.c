/* SPDX-License-Identifier: Apache-2.0 */
/* cannon advise: what would make a recorded training step fit into a device's memory, and what that costs. */
#include "base/size.h"
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/fit/advise_report.h"
#include "cli/fit/history_open.h"
#include "cli/fit/record_program.h"
#include "cli/output.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ADVISE_TOP = 12, ADVISE_MAX_DEVICES = 65536, ADVISE_RUN_ARGUMENTS = 12 };

typedef struct {
  const char *path[2];
  uint64_t fit_bytes, devices, top, batch[2];
  const char *policy, *topology;
  advise_time time;
  output json, html;
  bool force, help_wanted, default_wanted, dry;
  char *const *program; /* NULL: a recording is given */
  const char *soc, *mem;
} advise_options;

static void advise_print_help(void) {
  fputs("Usage: cannon advise [OPTION]... FILE [FILE2]\n"
        "       cannon advise [OPTION]... -- PROGRAM [ARGUMENT]...\n"
        "\n"
        "Finds plans that make a recorded training step fit into a device's memory.\n"
        "\n"
        "FILE is a recording of some steps (CANNON_RECORD_TASKS=1 cannon run --record), of a\n"
        "dry run or a real one; with -- the program is recorded first. Each plan is a set of\n"
        "changes: modules that are recomputed, 16-bit storage, attention, accumulation,\n"
        "ZeRO, offload, and blocks that are freed earlier. Its peak is found by replaying\n"
        "the lifetimes of the step's blocks with the changes, its time from the tasks'\n"
        "times. The output has each change alone, the plans that no other one beats in both\n"
        "memory and time, and the lines to change for the cheapest plan that fits.\n"
        "\n"
        "Options:\n"
        "  --fit SIZE            memory of a device, such as 64G (default: the recording's)\n"
        "  --devices N           number of devices, for ZeRO and pipelines (default: 1)\n"
        "  --batch N[,N2]        batch of FILE, and of FILE2, for the largest batch that fits:\n"
        "                        by a line through two recordings, or by classes of memory\n"
        "  --policy FILE         what to try and when to warn, as --policy-default prints it\n"
        "  --policy-default      print the default policy and exit\n"
        "  --time recorded|model times of tasks: as they ran, which dry runs don't have\n"
        "                        (default), or by the device's model\n"
        "  --topology FILE       how devices are connected, a file in JSON (default: the\n"
        "                        installation's a2-cluster)\n"
        "  --dry                 record a dry run of PROGRAM: nothing is computed\n"
        "  --device NAME         SoC that runs PROGRAM\n"
        "  --mem SIZE            memory of each device that runs PROGRAM\n"
        "  --top N               number of rows of the frontier, and of blocks that are told of\n"
        "                        (default: 12)\n"
        "  --json FILE           write the results to FILE in JSON\n"
        "  --html FILE           write a page with the frontier to FILE in HTML\n"
        "  --force               let --json and --html replace files that cannon did not write\n"
        "  -h, --help            print this help and exit\n"
        "\n"
        "Exit status:\n"
        "  0  success, also if no plan fits\n"
        "  1  a file cannot be read or written, or the program left no recording\n"
        "  2  the command line or the policy is wrong; nothing was done\n"
        "\n"
        "Examples:\n"
        "  cannon advise --dry --fit 64G -- python train.py\n"
        "  cannon advise --fit 32G --devices 8 --html plans.html step.rec\n"
        "  cannon advise --batch 8,16 batch8.rec batch16.rec\n",
        stdout);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

enum {
  FIT = 1,
  DEVICES,
  BATCH,
  POLICY,
  POLICY_DEFAULT,
  TIME,
  TOPOLOGY,
  DRY,
  DEVICE,
  MEM,
  TOP,
  JSON,
  HTML,
  FORCE,
  HELP = 'h'
};
static const struct option advise_long[] = {
    {"fit", required_argument, NULL, FIT},
    {"devices", required_argument, NULL, DEVICES},
    {"batch", required_argument, NULL, BATCH},
    {"policy", required_argument, NULL, POLICY},
    {"policy-default", no_argument, NULL, POLICY_DEFAULT},
    {"time", required_argument, NULL, TIME},
    {"topology", required_argument, NULL, TOPOLOGY},
    {"dry", no_argument, NULL, DRY},
    {"device", required_argument, NULL, DEVICE},
    {"mem", required_argument, NULL, MEM},
    {"top", required_argument, NULL, TOP},
    {"json", required_argument, NULL, JSON},
    {"html", required_argument, NULL, HTML},
    {"force", no_argument, NULL, FORCE},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0},
};

static int advise_take_batch(const char *text, advise_options *o) {
  char copy[64], *rest = copy;
  o->batch[0] = o->batch[1] = 0;
  if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy)
    return bad_option("advise", "--batch", text, "N or N,N2");
  for (int i = 0; rest; ++i) {
    const char *part = strsep(&rest, ",");
    if (i == 2 || size_parse_number(part, 1, UINT32_MAX, &o->batch[i]) != SIZE_OK)
      return bad_option("advise", "--batch", text, "N or N,N2, numbers from 1 on");
  }
  return 0;
}

static int advise_take(int option, advise_options *o) {
  switch (option) {
  case FIT:
    return size_parse(optarg, 1, INT64_MAX, &o->fit_bytes) == SIZE_OK
               ? 0
               : bad_option("advise", "--fit", optarg, "a size such as 64G");
  case DEVICES:
    if (size_parse_number(optarg, 1, ADVISE_MAX_DEVICES, &o->devices) == SIZE_OK) return 0;
    return bad_option("advise", "--devices", optarg, "a number from 1 to 65536");
  case TOP:
    return size_parse_number(optarg, 1, 1000, &o->top) == SIZE_OK
               ? 0
               : bad_option("advise", "--top", optarg, "a number from 1 to 1000");
  case BATCH: return advise_take_batch(optarg, o);
  case POLICY: o->policy = optarg; return 0;
  case POLICY_DEFAULT: o->default_wanted = true; return 0;
  case TIME:
    o->time = strcmp(optarg, "model") == 0 ? ADVISE_TIME_BY_MODEL : ADVISE_TIME_OF_RECORDING;
    return o->time == ADVISE_TIME_BY_MODEL || strcmp(optarg, "recorded") == 0
               ? 0
               : bad_option("advise", "--time", optarg, "recorded or model");
  case TOPOLOGY: o->topology = optarg; return 0;
  case DRY: o->dry = true; return 0;
  case DEVICE: o->soc = optarg; return 0;
  case MEM: o->mem = optarg; return 0;
  case JSON: o->json.path = optarg; return 0;
  case HTML: o->html.path = optarg; return 0;
  case FORCE: o->force = true; return 0;
  case HELP: o->help_wanted = true; return 0;
  default: return EXIT_USAGE; /* getopt has printed a message */
  }
}

/* Returns 0 or the exit status. */
static int advise_parse(int argc, char **argv, advise_options *o) {
  int n = 1;                 /* arguments before the program */
  argv[0] = "cannon advise"; /* getopt's messages begin with it */
  while (n < argc && strcmp(argv[n], "--") != 0) ++n;
  for (int option; (option = getopt_long(n, argv, "h", advise_long, NULL)) != -1;)
    if (advise_take(option, o)) return EXIT_USAGE;
  if (o->help_wanted || o->default_wanted) return 0;
  const int n_files = n - optind;
  if (n < argc) o->program = argv + n + 1;
  for (int i = 0; i < 2 && i < n_files; ++i) o->path[i] = argv[optind + i];
  const bool is_right = o->program ? n + 1 < argc && !n_files : n_files == 1 || n_files == 2;
  if (!is_right || (o->dry && !o->program)) {
    fprintf(stderr, "cannon advise: expected a recording, two of them, or -- PROGRAM (cannon advise [OPTIONS] FILE)\n");
    return EXIT_USAGE;
  }
  if (o->path[1] && !o->batch[1])
    return bad_option("advise", "--batch", "missing", "N,N2, the batches of both recordings");
  o->json = (output){"cannon advise", o->json.path, OUTPUT_JSON, o->force, NULL};
  o->html = (output){"cannon advise", o->html.path, OUTPUT_PAGE, o->force, NULL};
  return output_check(&o->json) && output_check(&o->html) ? 0 : EXIT_USAGE;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* A file's bytes with a 0 behind them, which the caller frees. NULL with a message. */
static char *advise_read_file(const char *path, size_t *n) {
  FILE *f = fopen(path, "rbe");
  char *data = NULL;
  size_t room = 1 << 16, got;
  *n = 0;
  while (f) {
    char *more = realloc(data, room + 1);
    if (!more) break;
    data = more;
    got = fread(data + *n, 1, room - *n, f);
    *n += got;
    if (*n < room) break;
    room *= 2;
  }
  const bool good = f && data && !ferror(f);
  if (!good) {
    fprintf(stderr, "cannon advise: cannot read %s: %s\n", format_text(path), strerror(errno));
    free(data);
    data = NULL;
  } else {
    data[*n] = '\0';
  }
  if (f) fclose(f);
  return data;
}

static history *advise_read_history(const char *path) {
  char error[256] = "";
  history *h = history_open(path, error);
  if (!h) fprintf(stderr, "cannon advise: %s: %s\n", format_text(path), format_text(error));
  return h;
}

/* Returns 0 or the exit status. */
static int advise_read_policy(const char *path, advise_policy *policy) {
  char error[256] = "";
  size_t n;
  char *text = path ? advise_read_file(path, &n) : NULL;
  if (path && !text) return 1;
  const bool good = advise_policy_parse(text ? text : "", policy, error);
  free(text);
  if (good) return 0;
  fprintf(stderr, "cannon advise: %s: %s\n", format_text(path ? path : "the default policy"), format_text(error));
  return EXIT_USAGE;
}

/* The path of a file of the installation: bin/cannon and share are in the same prefix. */
static bool advise_installed(const char *name, char path[PATH_MAX]) {
  char program[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  if (n <= 0) return false;
  program[n] = '\0';
  for (int i = 0; i < 2; ++i) {
    char *slash = strrchr(program, '/');
    if (!slash) return false;
    *slash = '\0';
  }
  return snprintf(path, PATH_MAX, "%s/%s", program, name) < PATH_MAX;
}

/* The topology, or NULL: collectives then have no time. *code: an exit status if the user's file is wrong. */
static const topology *advise_read_topology(const advise_options *o, topology *t, int *code) {
  char installed[PATH_MAX];
  const char *path = o->topology;
  if (!path && advise_installed("share/cannon/topologies/a2-cluster.json", installed)) path = installed;
  if (path && topology_read(path, t) == ST_OK) return t;
  const char *words = fail_take();
  if (!o->topology) return NULL;
  fprintf(stderr, "cannon advise: topology %s: %s\n", format_text(o->topology), format_text(words));
  *code = 1;
  return NULL;
}

/* ---- recording a program ----------------------------------------------------------------------------------------- */

/* Runs `cannon run --record PATH`. Returns 0 or the exit status. */
static int advise_record(const advise_options *o, const char *path) {
  const char *options[ADVISE_RUN_ARGUMENTS] = {NULL};
  size_t n = 0;
  if (o->dry) options[n++] = "--dry";
  if (o->soc) options[n++] = "--device", options[n++] = o->soc;
  if (o->mem) options[n++] = "--mem", options[n++] = o->mem;
  const int status = record_program("cannon advise", options, o->program, path);
  struct stat s;
  if (status < 0) return 1;
  if (stat(path, &s) != 0 || !s.st_size) {
    fprintf(stderr, "cannon advise: the program left no recording\n");
    return 1;
  }
  if (status) fprintf(stderr, "cannon advise: the program failed; advice is by what it did until then\n");
  return 0;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static bool advise_write_file(output *o, const advise_report *r, bool (*write)(FILE *, const advise_report *)) {
  if (!o->path) return true;
  FILE *f = output_begin(o);
  return f && output_end(o, f, write(f, r));
}

static int advise_tell(advise_options *o, const advise_policy *policy, const topology *t, const history *first,
                       const history *second) {
  advice a, b;
  if (!advice_make(first, policy, t, o->time, o->fit_bytes, (uint32_t)o->devices, &a)) {
    fprintf(stderr, "cannon advise: no memory\n");
    return 1;
  }
  const bool has_second = second && advice_make(second, policy, t, o->time, o->fit_bytes, (uint32_t)o->devices, &b);
  const advise_report r = {o->path[0], &a, has_second ? &b : NULL, {o->batch[0], o->batch[1]}, (unsigned)o->top};
  advise_print(stdout, &r);
  bool good = advise_write_file(&o->json, &r, advise_write_json);
  good &= advise_write_file(&o->html, &r, advise_write_html);
  if (has_second) advice_free(&b);
  advice_free(&a);
  return good ? 0 : 1;
}

static int advise_run(advise_options *o) {
  char folder[] = "/tmp/cannon-advise.XXXXXX", path[64] = "";
  advise_policy policy;
  topology t;
  int code = advise_read_policy(o->policy, &policy);
  const topology *known = code ? NULL : advise_read_topology(o, &t, &code);
  if (code) return code;
  if (o->program) {
    if (!mkdtemp(folder)) {
      fprintf(stderr, "cannon advise: cannot make a folder in /tmp: %s\n", strerror(errno));
      return 1;
    }
    snprintf(path, sizeof path, "%s/record", folder);
    o->path[0] = path;
    code = advise_record(o, path);
  }
  history *first = code ? NULL : advise_read_history(o->path[0]);
  history *second = first && o->path[1] ? advise_read_history(o->path[1]) : NULL;
  code = first && (second || !o->path[1]) ? advise_tell(o, &policy, known, first, second) : 1;
  history_free(first);
  history_free(second);
  if (*path) {
    unlink(path);
    rmdir(folder);
  }
  return code;
}

int command_advise(int argc, char **argv) {
  advise_options o = {.devices = 1, .top = ADVISE_TOP};
  const int code = advise_parse(argc, argv, &o);
  if (code) return code;
  if (o.help_wanted) {
    advise_print_help();
    return 0;
  }
  if (o.default_wanted) {
    fputs(advise_policy_default, stdout);
    return 0;
  }
  return advise_run(&o);
}
