/* SPDX-License-Identifier: Apache-2.0 */
/* cannon memory: shows what held a device's memory, from a recording or from a program that it runs. */
#include "base/size.h"
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/fit/history_open.h"
#include "cli/fit/memory_report.h"
#include "cli/fit/record_program.h"
#include "cli/output.h"
#include "cli/spawn.h"

#include <errno.h>
#include <getopt.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEFAULT_TOP = 10, MOST_PASSED = 32 };

static const char help[] = "Usage: cannon memory [OPTION]... FILE\n"
                           "       cannon memory [OPTION]... -- PROGRAM [ARGUMENT]...\n"
                           "\n"
                           "Shows what held a device's memory, and who could have held less.\n"
                           "\n"
                           "FILE is a recording that this command or `cannon run --record` has made. With\n"
                           "PROGRAM, the program is run and recorded first. The tables have the moment at\n"
                           "which most memory was held: its step, its line, and what held it by class, by\n"
                           "module of the model and by line of the program; then each step's peak, and the\n"
                           "lines that let memory grow; each module's peak; the activations that wait\n"
                           "longest between the forward and the backward pass; and tensors that nothing\n"
                           "reads, or that live on after their last use.\n"
                           "\n"
                           "Options:\n"
                           "  --at WHEN        the moment to show: peak (default), a moment's number, step:N\n"
                           "                   (the peak of the Nth step, from 1), or a time such as 1500ms\n"
                           "  --by WHAT        only one table: class, module, line or block\n"
                           "  --top N          rows of each table, 1 to 100000 (default: 10)\n"
                           "  --device N       number of the device to show (default: the one that held most)\n"
                           "  --json FILE      write all of it to FILE in JSON\n"
                           "  --csv FILE       write the moment's table to FILE, as --by says (default: block)\n"
                           "  --html FILE      write a page with the curve of memory over time to FILE: a click\n"
                           "                   shows the blocks of a moment\n"
                           "  --record FILE    with PROGRAM: keep the recording in FILE\n"
                           "  --force          let outputs replace files that cannon did not write\n"
                           "  -h, --help       print this help and exit\n"
                           "\n"
                           "With PROGRAM also these of `cannon run`:\n"
                           "  --dry            compute nothing: shows a program that would not fit here\n"
                           "  --device NAME    SoC to simulate (a number means which device to show)\n"
                           "  --devices N      number of devices\n"
                           "  --mem SIZE       memory of each device\n"
                           "  --real LIST      with --dry: operators to compute\n"
                           "  --unknown SIZE   with --dry: size of results that depend on data\n"
                           "\n"
                           "Exit status:\n"
                           "  0  success; with PROGRAM its own status, also if it failed\n"
                           "  1  the recording cannot be read, or an output cannot be written\n"
                           "  2  the command line is wrong; nothing was done\n"
                           "\n"
                           "Examples:\n"
                           "  cannon memory -- python3 train.py\n"
                           "  cannon memory --dry --device Ascend910B3 --record step.rec -- python3 train.py\n"
                           "  cannon memory --html memory.html step.rec\n"
                           "  cannon memory --at step:2 --by line --top 30 step.rec\n";

typedef struct {
  const char *at, *path;
  memory_by by;
  uint64_t top, device;
  bool has_device, force, help_wanted;
  output json, csv, html, record;
  const char *passed[MOST_PASSED + 1]; /* options for `cannon run` */
  int n_passed;
  char **program;
} memory_options;

static bool memory_parse_by(const char *text, memory_by *by) {
  static const char *const names[] = {"", "class", "module", "line", "block"};
  for (int i = MEMORY_BY_CLASS; i <= MEMORY_BY_BLOCK; ++i) {
    if (strcmp(text, names[i]) != 0) continue;
    *by = (memory_by)i;
    return true;
  }
  return false;
}

/* The moment of --at. Returns 0 or the exit status. */
static int memory_find_moment(const memory_options *o, const history *h, uint32_t device, uint64_t *moment) {
  static const char expected[] = "peak, a moment's number, step:N with a step of the recording, or a time such as 20ms";
  uint64_t n;
  char text[32];
  *moment = HISTORY_NEVER;
  if (!o->at || strcmp(o->at, "peak") == 0) return 0;
  if (strncmp(o->at, "step:", 5) == 0) {
    if (size_parse_number(o->at + 5, 1, h->n_steps, &n) != SIZE_OK)
      return bad_option("memory", "--at", o->at, expected);
    curve c;
    curve_make(h, device, &c);
    *moment = curve_peak(&c, h->steps[n - 1].begin, h->steps[n - 1].end).moment;
    curve_free(&c);
    return 0;
  }
  const size_t length = strlen(o->at);
  const bool is_time = length > 2 && strcmp(o->at + length - 2, "ms") == 0;
  snprintf(text, sizeof text, "%.*s", (int)(is_time ? length - 2 : length), o->at);
  if (size_parse_number(text, 0, INT64_MAX / 1000000, &n) != SIZE_OK)
    return bad_option("memory", "--at", o->at, expected);
  *moment = is_time ? curve_moment_of(h, n * 1000000) : n;
  return 0;
}

enum { AT = 1, BY, TOP, DEVICE, DEVICES, MEM, DRY, REAL, UNKNOWN, JSON, CSV, HTML, RECORD, FORCE, HELP = 'h' };
static const struct option memory_long_options[] = {
    {"at", required_argument, NULL, AT},
    {"by", required_argument, NULL, BY},
    {"top", required_argument, NULL, TOP},
    {"device", required_argument, NULL, DEVICE},
    {"devices", required_argument, NULL, DEVICES},
    {"mem", required_argument, NULL, MEM},
    {"dry", no_argument, NULL, DRY},
    {"real", required_argument, NULL, REAL},
    {"unknown", required_argument, NULL, UNKNOWN},
    {"json", required_argument, NULL, JSON},
    {"csv", required_argument, NULL, CSV},
    {"html", required_argument, NULL, HTML},
    {"record", required_argument, NULL, RECORD},
    {"force", no_argument, NULL, FORCE},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0},
};

static void memory_pass(memory_options *o, const char *option, const char *value) {
  if (o->n_passed + 2 > MOST_PASSED) return;
  o->passed[o->n_passed++] = option;
  if (value) o->passed[o->n_passed++] = value;
}

/* Returns 0 or the exit status. */
static int memory_take(int option, memory_options *o) {
  switch (option) {
  case AT: o->at = optarg; break;
  case BY:
    if (!memory_parse_by(optarg, &o->by)) return bad_option("memory", "--by", optarg, "class, module, line or block");
    break;
  case TOP:
    if (size_parse_number(optarg, 1, 100000, &o->top) != SIZE_OK)
      return bad_option("memory", "--top", optarg, "a number from 1 to 100000");
    break;
  case DEVICE:
    if (strspn(optarg, "0123456789") != strlen(optarg))
      memory_pass(o, "--device", optarg);
    else if (size_parse_number(optarg, 0, 15, &o->device) != SIZE_OK)
      return bad_option("memory", "--device", optarg, "a number from 0 to 15, or the name of a SoC");
    else
      o->has_device = true;
    break;
  case DEVICES: memory_pass(o, "--devices", optarg); break;
  case MEM: memory_pass(o, "--mem", optarg); break;
  case DRY: memory_pass(o, "--dry", NULL); break;
  case REAL: memory_pass(o, "--real", optarg); break;
  case UNKNOWN: memory_pass(o, "--unknown", optarg); break;
  case JSON: o->json.path = optarg; break;
  case CSV: o->csv.path = optarg; break;
  case HTML: o->html.path = optarg; break;
  case RECORD: o->record.path = optarg; break;
  case FORCE: o->force = true; break;
  case HELP: o->help_wanted = true; break;
  default: return EXIT_USAGE; /* getopt has printed a message */
  }
  return 0;
}

/* A program stands behind "--". Returns 0 or the exit status. */
static int memory_parse(int argc, char **argv, memory_options *o) {
  int n = 1;
  argv[0] = "cannon memory"; /* getopt's messages begin with it */
  while (n < argc && strcmp(argv[n], "--") != 0) ++n;
  for (int option; (option = getopt_long(n, argv, "h", memory_long_options, NULL)) != -1;) {
    const int status = memory_take(option, o);
    if (status || o->help_wanted) return status;
  }
  const bool runs = n < argc;
  if (runs ? n + 1 == argc || optind < n : optind + 1 != n) {
    fprintf(stderr, "cannon memory: expected one FILE, or -- and a PROGRAM (cannon memory [OPTIONS] FILE)\n");
    return EXIT_USAGE;
  }
  if (!runs && (o->n_passed || o->record.path))
    return bad_option("memory", o->n_passed ? o->passed[0] : "--record", o->n_passed > 1 ? o->passed[1] : "",
                      "only with -- PROGRAM");
  o->program = runs ? argv + n + 1 : NULL;
  o->path = runs ? o->record.path : argv[optind];
  o->json = (output){"cannon memory", o->json.path, OUTPUT_JSON, o->force, NULL};
  o->csv = (output){"cannon memory", o->csv.path, OUTPUT_TABLE, o->force, NULL};
  o->html = (output){"cannon memory", o->html.path, OUTPUT_PAGE, o->force, NULL};
  o->record = (output){"cannon memory", o->record.path, OUTPUT_RECORDING, o->force, NULL};
  const bool good =
      output_check(&o->json) && output_check(&o->csv) && output_check(&o->html) && output_check(&o->record);
  return good ? 0 : EXIT_USAGE;
}

/* ---- the recording ----------------------------------------------------------------------------------------------- */

/* NULL after a message. */
static history *memory_read(const char *path) {
  char error[256] = "";
  history *h = history_open(path, error);
  if (!h) fprintf(stderr, "cannon memory: %s: %s\n", format_text(path), format_text(error));
  return h;
}

static bool memory_write_file(output *o, const memory_report *r, bool (*write)(FILE *, const memory_report *)) {
  if (!o->path) return true;
  FILE *f = output_begin(o);
  return f && output_end(o, f, write(f, r));
}

/* Returns the exit status. */
static int memory_show(memory_options *o, const history *h, const char *path) {
  uint64_t moment;
  memory_report r = {.path = path, .h = h, .by = o->by, .top = o->top};
  r.device = o->has_device ? (uint32_t)o->device : curve_fullest_device(h);
  const int status = memory_find_moment(o, h, r.device, &moment);
  if (status) return status;
  memory_report_make(&r, moment);
  memory_print(stdout, &r);
  bool good = memory_write_file(&o->json, &r, memory_write_json);
  good &= memory_write_file(&o->csv, &r, memory_write_csv);
  good &= memory_write_file(&o->html, &r, memory_write_page);
  memory_report_free(&r);
  return good ? 0 : 1;
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

/* Of several processes' recordings, the one whose device held most. NULL after a message. */
static history *memory_fullest(const char *recording, char path[PATH_MAX]) {
  char pattern[PATH_MAX + 16];
  glob_t others = {0};
  history *best = memory_read(recording);
  uint64_t most = 0;
  snprintf(path, PATH_MAX, "%s", recording);
  snprintf(pattern, sizeof pattern, "%s.[0-9]*", recording);
  if (!best || glob(pattern, 0, NULL, &others) != 0) return best;
  for (size_t i = 0; i <= others.gl_pathc; ++i) {
    history *h = i ? memory_read(others.gl_pathv[i - 1]) : best;
    if (!h) continue;
    curve c;
    curve_make(h, curve_fullest_device(h), &c);
    const uint64_t held = curve_peak(&c, 0, HISTORY_NEVER).level.held;
    curve_free(&c);
    if (i && held <= most) {
      history_free(h);
      continue;
    }
    most = held;
    if (i) {
      history_free(best);
      snprintf(path, PATH_MAX, "%s", others.gl_pathv[i - 1]);
    }
    best = h;
  }
  fprintf(stderr, "cannon memory: %zu processes were recorded; this is the one that held most\n", others.gl_pathc + 1);
  globfree(&others);
  return best;
}

/* Removes a folder for recordings that nobody asked for. */
static void memory_remove(const char *folder, const char *recording) {
  char pattern[PATH_MAX + 16];
  glob_t files = {0};
  snprintf(pattern, sizeof pattern, "%s*", recording);
  if (glob(pattern, 0, NULL, &files) == 0)
    for (size_t i = 0; i < files.gl_pathc; ++i) unlink(files.gl_pathv[i]);
  globfree(&files);
  rmdir(folder);
}

/* Returns the exit status, or ends as the program did. */
static int memory_run_and_show(memory_options *o) {
  char folder[PATH_MAX - 64], recording[PATH_MAX], path[PATH_MAX];
  const char *base = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/cannon-memory-XXXXXX", base && *base ? base : "/tmp");
  if (!o->record.path && !mkdtemp(folder)) {
    fprintf(stderr, "cannon memory: cannot make a folder %s: %s\n", folder, strerror(errno));
    return 1;
  }
  snprintf(recording, sizeof recording, "%s/recording", folder);
  const char *kept = o->record.path ? o->record.path : recording;
  if (o->force) memory_pass(o, "--force", NULL);
  o->passed[o->n_passed] = NULL;
  const int status = record_program("cannon memory", o->passed, o->program, kept);
  int code = 1;
  if (status >= 0 && access(kept, R_OK) != 0) {
    fprintf(stderr, "cannon memory: the program used no device\n");
    code = 0;
  } else if (status >= 0) {
    history *h = memory_fullest(kept, path);
    if (h) code = memory_show(o, h, o->record.path ? path : o->program[0]);
    history_free(h);
  }
  if (!o->record.path) memory_remove(folder, recording);
  if (code || status <= 0) return code;
  fflush(stdout);
  spawn_end_like(status);
}

int command_memory(int argc, char **argv) {
  memory_options o = {.top = DEFAULT_TOP};
  int status = memory_parse(argc, argv, &o);
  if (status) return status;
  if (o.help_wanted) {
    fputs(help, stdout);
    return 0;
  }
  if (o.program) return memory_run_and_show(&o);
  history *h = memory_read(o.path);
  if (!h) return 1;
  status = memory_show(&o, h, o.path);
  history_free(h);
  return status;
}
