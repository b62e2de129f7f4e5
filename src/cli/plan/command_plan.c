/* SPDX-License-Identifier: Apache-2.0 */
/* cannon plan: finds offsets in one arena for buffers with known lifetimes, from a table or a recording. */
#include "base/size.h"
#include "cannon/plan.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/output.h"
#include "cli/plan/plan_csv.h"
#include "cli/plan/plan_draw.h"
#include "replay/allocation_trace.h"
#include "replay/replay_allocator.h"
#include "trace/record/record_code.h"

static const double DEFAULT_SECONDS = 10;
static const uint64_t MAX_FILE_BYTES = (uint64_t)1 << 32, RECORDED_ALIGNMENT = 512;

typedef struct {
  const char *path, *check_path;
  output plan, svg, html, json; /* files to write */
  cannon_plan_options options;
  uint64_t alignment; /* of all buffers; 0: as in the file */
  int device;         /* whose blocks of a recording are planned; -1: pinned host memory */
  bool verbose, force, help_wanted;
} plan_options;

static void plan_print_help(void) {
  printf("Usage: cannon plan [OPTION]... FILE\n"
         "       cannon plan [OPTION]... --check PLAN [FILE]\n"
         "\n"
         "Finds offsets for buffers with known lifetimes in one arena that is as small as possible.\n"
         "\n"
         "FILE is a table in CSV format with one line per buffer, whose first line names the\n"
         "columns: id, lower, upper, size, and optionally alignment, offset (required), gaps,\n"
         "alias, in_place_of (see docs/planner.md). FILE may also be a recording of\n"
         "`cannon run --record`, or a trace in text form.\n"
         "\n"
         "Options:\n"
         "  -o FILE          write the table with the offsets to FILE\n"
         "  --check PLAN     check the offsets in the table PLAN instead of finding new ones;\n"
         "                   they are for the buffers of FILE if it is given\n"
         "  --capacity SIZE  accept the first plan with at most this peak, in bytes; K, M, G\n"
         "                   and T are powers of 1024 (default: find the lowest peak)\n"
         "  --time SECONDS   time limit, 0 to 1e9 seconds (default: %g; 0: none)\n"
         "  --nodes N        limit on the work, in placed buffers, for results that do not\n"
         "                   depend on time (default: 0, none)\n"
         "  --threads N      number of threads, 1 to 256; the plan does not depend on it,\n"
         "                   unless the time limit ends the search (default: 1)\n"
         "  --seed N         seed of the random choices, for other plans (default: 0)\n"
         "  --align SIZE     alignment of all offsets in bytes (default: as in FILE; %" PRIu64 " for\n"
         "                   a recording)\n"
         "  --device N       device whose blocks of a recording are planned, 0 to 15, or\n"
         "                   \"host\" for pinned memory (default: 0)\n"
         "  --svg FILE       write a picture of the plan to FILE in SVG\n"
         "  --html FILE      write a page with the picture to FILE in HTML\n"
         "  --json FILE      write the results to FILE in JSON\n"
         "  --force          let -o, --svg, --html and --json replace files that cannon did\n"
         "                   not write\n"
         "  --verbose        print each better plan as it is found\n"
         "  -h, --help       print this help and exit\n"
         "\n"
         "Exit status:\n"
         "  0  there is a plan within the capacity, or the checked plan is valid\n"
         "  1  there is none, or another error\n"
         "  2  the command line is wrong; nothing was done\n"
         "\n"
         "Examples:\n"
         "  cannon plan buffers.csv -o plan.csv\n"
         "  cannon plan --check plan.csv buffers.csv\n"
         "  cannon run --record step.rec ./train && cannon plan step.rec\n",
         DEFAULT_SECONDS, RECORDED_ALIGNMENT);
}

static bool plan_parse_seconds(const char *text, double *seconds) {
  char *end;
  if (!isdigit((unsigned char)*text) && *text != '.') return false;
  *seconds = strtod(text, &end);
  return end != text && !*end && *seconds >= 0 && *seconds <= 1e9;
}

/* Parses a number, 0 included. */
static bool plan_parse_number(const char *text, uint64_t *n) {
  return size_parse_number(text, 0, UINT64_MAX, n) == SIZE_OK;
}

static bool plan_parse_device(const char *text, int *device) {
  uint64_t n;
  *device = -1;
  if (strcmp(text, "host") == 0) return true;
  if (!plan_parse_number(text, &n) || n >= RECORD_MAX_DEVICES) return false;
  *device = (int)n;
  return true;
}

/* Checks the output files before the work begins. A table that has offsets counts as a plan, but must not be
 * replaced by its own plan. */
static bool plan_check_outputs(plan_options *o) {
  struct stat in, out;
  o->plan = (output){"cannon plan", o->plan.path, OUTPUT_PLAN, o->force, NULL};
  o->svg = (output){"cannon plan", o->svg.path, OUTPUT_PICTURE, o->force, NULL};
  o->html = (output){"cannon plan", o->html.path, OUTPUT_PAGE, o->force, NULL};
  o->json = (output){"cannon plan", o->json.path, OUTPUT_JSON, o->force, NULL};
  if (!output_check(&o->plan) || !output_check(&o->svg) || !output_check(&o->html) || !output_check(&o->json))
    return false;
  const char *path = o->path ? o->path : o->check_path;
  const bool same = o->plan.path && stat(path, &in) == 0 && S_ISREG(in.st_mode) && stat(o->plan.path, &out) == 0 &&
                    in.st_dev == out.st_dev && in.st_ino == out.st_ino;
  if (!same || o->force) return true;
  fprintf(stderr, "cannon plan: cannot write %s: it is the table that is planned; --force replaces it\n", o->plan.path);
  return false;
}

static int plan_parse_option(int option, plan_options *o);

enum { CHECK = 1, CAPACITY, TIME, NODES, THREADS, SEED, ALIGN, DEVICE, SVG, HTML, JSON, FORCE, VERBOSE, HELP = 'h' };

/* Returns 0 or the exit status. */
static int plan_parse(int argc, char **argv, plan_options *o) {
  static const struct option options[] = {
      {"check", required_argument, NULL, CHECK},
      {"capacity", required_argument, NULL, CAPACITY},
      {"time", required_argument, NULL, TIME},
      {"nodes", required_argument, NULL, NODES},
      {"threads", required_argument, NULL, THREADS},
      {"seed", required_argument, NULL, SEED},
      {"align", required_argument, NULL, ALIGN},
      {"device", required_argument, NULL, DEVICE},
      {"svg", required_argument, NULL, SVG},
      {"html", required_argument, NULL, HTML},
      {"json", required_argument, NULL, JSON},
      {"force", no_argument, NULL, FORCE},
      {"verbose", no_argument, NULL, VERBOSE},
      {"help", no_argument, NULL, HELP},
      {NULL, 0, NULL, 0},
  };
  argv[0] = "cannon plan"; /* getopt's messages begin with it */
  for (int option; (option = getopt_long(argc, argv, "o:h", options, NULL)) != -1;) {
    const int status = plan_parse_option(option, o);
    if (status || o->help_wanted) return status;
  }
  if (o->check_path ? optind + 1 < argc : optind + 1 != argc) {
    fprintf(stderr, "cannon plan: expected one FILE (cannon plan [OPTIONS] FILE)\n");
    return EXIT_USAGE;
  }
  o->path = argv[optind];
  return plan_check_outputs(o) ? 0 : EXIT_USAGE;
}

static int plan_parse_option(int option, plan_options *o) {
  uint64_t n;
  size_verdict verdict;
  switch (option) {
  case 'o': o->plan.path = optarg; return 0;
  case CHECK: o->check_path = optarg; return 0;
  case SVG: o->svg.path = optarg; return 0;
  case HTML: o->html.path = optarg; return 0;
  case JSON: o->json.path = optarg; return 0;
  case FORCE: o->force = true; return 0;
  case VERBOSE: o->verbose = true; return 0;
  case HELP: o->help_wanted = true; return 0;
  case CAPACITY:
    verdict = size_parse(optarg, 1, INT64_MAX, &o->options.capacity);
    if (verdict == SIZE_OK) return 0;
    fprintf(stderr,
            "cannon plan: --capacity is '%s'%s, expected a size from 1 to 2^63 - 1 such as 1048576, 1.5G or 32G "
            "(K, M, G or T)\n",
            optarg, size_fault(verdict));
    return EXIT_USAGE;
  case TIME:
    if (plan_parse_seconds(optarg, &o->options.seconds)) return 0;
    return bad_option("plan", "--time", optarg, "seconds, 0 to 1e9");
  case NODES:
    if (plan_parse_number(optarg, &o->options.max_nodes)) return 0;
    return bad_option("plan", "--nodes", optarg, "a number");
  case THREADS:
    if (size_parse_number(optarg, 1, 256, &n) == SIZE_OK) return o->options.n_threads = (uint32_t)n, 0;
    return bad_option("plan", "--threads", optarg, "a number from 1 to 256");
  case SEED:
    if (plan_parse_number(optarg, &o->options.seed)) return 0;
    return bad_option("plan", "--seed", optarg, "a number");
  case ALIGN:
    if (size_parse(optarg, 1, INT64_MAX, &o->alignment) == SIZE_OK) return 0;
    return bad_option("plan", "--align", optarg, "a number above 0");
  case DEVICE:
    if (plan_parse_device(optarg, &o->device)) return 0;
    return bad_option("plan", "--device", optarg, "a number from 0 to 15, or host");
  default: return EXIT_USAGE; /* getopt has printed a message */
  }
}

/* ---- problems --------------------------------------------------------------------------------------------------- */

/* A problem and the text that it was read from. */
typedef struct {
  char *text;
  plan_file file;
  uint64_t alignment; /* of all buffers; 0: as in the file */
} input;

/* Returns the file's bytes, to be freed by the caller, or NULL with a message. */
static char *read_bytes(const char *path, size_t *n, char error[256]) {
  FILE *f = fopen(path, "re");
  struct stat about;
  char *text = NULL;
  *n = 0;
  if (!f || fstat(fileno(f), &about)) {
    snprintf(error, 256, "%s", strerror(errno));
  } else if (!S_ISREG(about.st_mode) || (uint64_t)about.st_size > MAX_FILE_BYTES) {
    snprintf(error, 256, "expected a file of at most 4 GiB");
  } else {
    text = replay_must_alloc((size_t)about.st_size + 1);
    *n = fread(text, 1, (size_t)about.st_size, f);
  }
  if (f) fclose(f);
  return text;
}

/* Returns whether trace_read can read the text. */
static bool is_trace(const char *text, size_t n) {
  static const char gzip[] = "\x1f\x8b", mark[] = "\xef\xbb\xbf";
  if (n >= 3 && memcmp(text, mark, 3) == 0) text += 3, n -= 3;
  if (n >= 2 && memcmp(text, gzip, 2) == 0) return true;
  if (n >= 2 && (text[0] == '#' || ((text[0] == 'a' || text[0] == 'f') && text[1] == ' '))) return true;
  return n >= sizeof RECORD_MAGIC - 1 && memcmp(text, RECORD_MAGIC, sizeof RECORD_MAGIC - 1) == 0;
}

/* Writes a trace's blocks as a table, in which events are the times. Returns the text, to be freed by the caller. */
static char *plan_trace_table(const trace *t, size_t *n) {
  uint64_t *value = replay_must_alloc((3 * (size_t)t->n_blocks + 1) * sizeof *value);
  uint64_t *lower = value, *upper = value + t->n_blocks, *bytes = upper + t->n_blocks;
  for (uint32_t b = 0; b < t->n_blocks; ++b) upper[b] = t->n_events;
  for (size_t i = 0; i < t->n_events; ++i) {
    const trace_event *e = &t->event[i];
    if (e->bytes) {
      lower[e->block] = i;
      bytes[e->block] = e->bytes;
    } else {
      upper[e->block] = i;
    }
  }
  char *text = NULL;
  FILE *f = open_memstream(&text, n);
  fputs("id,lower,upper,size\n", f);
  for (uint32_t b = 0; b < t->n_blocks; ++b)
    fprintf(f, "%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", b, lower[b], upper[b], bytes[b]);
  fclose(f);
  free(value);
  return text;
}

static bool read_input(const char *path, const plan_options *o, input *in, char error[256]) {
  size_t n;
  *in = (input){.text = read_bytes(path, &n, error), .alignment = o->alignment};
  if (!in->text) return false;
  if (is_trace(in->text, n)) {
    trace t;
    free(in->text);
    in->text = NULL;
    if (!trace_read(path, o->device, &t, error)) return false;
    in->text = plan_trace_table(&t, &n);
    trace_free(&t);
    if (!in->alignment) in->alignment = RECORDED_ALIGNMENT;
  }
  if (!plan_csv_read(in->text, n, &in->file, error)) {
    free(in->text);
    return false;
  }
  cannon_plan_buffer *buffers = (cannon_plan_buffer *)in->file.problem.buffers;
  for (size_t b = 0; b < in->file.problem.n_buffers && in->alignment; ++b) buffers[b].alignment = in->alignment;
  return true;
}

static void free_input(input *in) {
  plan_csv_free(&in->file);
  free(in->text);
}

/* Prints the planner's message with ids and lines in place of buffer numbers. */
static void print_error(const char *path, const plan_file *file, const char *message) {
  static const char word[] = "buffer ";
  fprintf(stderr, "cannon plan: %s: ", format_text(path));
  while (*message) {
    char *end;
    if (strncmp(message, word, sizeof word - 1) != 0 || !isdigit((unsigned char)message[sizeof word - 1])) {
      fputc(*message++, stderr);
      continue;
    }
    const plan_row *row = &file->rows[strtoul(message + sizeof word - 1, &end, 10)];
    fprintf(stderr, "buffer %s (line %u)", plan_csv_shown_id(row).text, row->line);
    message = end;
  }
  fputc('\n', stderr);
}

/* ---- results ---------------------------------------------------------------------------------------------------- */

static bool print_progress(void *argument, const cannon_plan_progress *p) {
  (void)argument;
  fprintf(stderr, "%8.3f s  peak %" PRIu64 "  bound %" PRIu64 "  %s\n", p->seconds, p->peak, p->bound, p->method);
  return true;
}

static double gap_percent(const cannon_plan_progress *p) {
  return p->bound ? 100 * ((double)p->peak / (double)p->bound - 1) : 0;
}

static void print_result(const plan_options *o, const plan_picture *p) {
  const cannon_plan_progress *end = &p->result->end;
  printf("%s: %zu buffers\n", format_text(p->path), p->file->problem.n_buffers);
  if (p->capacity)
    printf("  capacity %" PRIu64 " (%s), %s\n", p->capacity, format_bytes(p->capacity),
           p->result->fits ? "met" : "not met");
  printf("  bound    %" PRIu64 " (%s)\n", end->bound, format_bytes(end->bound));
  printf("  peak     %" PRIu64 " (%s)\n", end->peak, format_bytes(end->peak));
  printf("  gap      %.4f %%%s\n", gap_percent(end), p->result->optimal ? ", proved optimal" : "");
  if (o->check_path) return;
  printf("  time     %.3f s, %" PRIu64 " nodes\n", end->seconds, end->nodes);
  printf("  method   %s\n", end->method);
}

static bool plan_write_json(FILE *f, const plan_picture *p) {
  const cannon_plan_progress *end = &p->result->end;
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, OUTPUT_JSON_AUTHOR, "cannon plan");
  cJSON_AddNumberToObject(o, "buffers", (double)p->file->problem.n_buffers);
  cJSON_AddNumberToObject(o, "bound_bytes", (double)end->bound);
  cJSON_AddNumberToObject(o, "peak_bytes", (double)end->peak);
  cJSON_AddBoolToObject(o, "optimal", p->result->optimal);
  cJSON_AddBoolToObject(o, "fits", p->result->fits);
  cJSON_AddNumberToObject(o, "seconds", end->seconds);
  cJSON_AddNumberToObject(o, "nodes", (double)end->nodes);
  cJSON_AddStringToObject(o, "method", end->method);
  char *text = cJSON_Print(o);
  if (text) fprintf(f, "%s\n", text);
  cJSON_free(text);
  cJSON_Delete(o);
  return text && !ferror(f);
}

static bool plan_write_table(FILE *f, const plan_picture *p) {
  return plan_csv_write(f, p->file, p->offsets, p->alignment);
}

/* Writes a file if it was requested. Returns false, after a message, if that fails. */
static bool plan_write_file(output *o, const plan_picture *p, bool (*write)(FILE *, const plan_picture *)) {
  if (!o->path) return true;
  FILE *f = output_begin(o);
  return f && output_end(o, f, write(f, p));
}

static bool plan_write_files(plan_options *o, const plan_picture *p) {
  bool good = plan_write_file(&o->plan, p, plan_write_table);
  good &= plan_write_file(&o->svg, p, plan_draw_svg);
  good &= plan_write_file(&o->html, p, plan_draw_html);
  return plan_write_file(&o->json, p, plan_write_json) && good;
}

/* Returns the exit status. */
static int make_plan(plan_options *o, const input *in) {
  const cannon_plan_problem *problem = &in->file.problem;
  cannon_plan_result result;
  uint64_t *offsets = replay_must_alloc((problem->n_buffers + 1) * sizeof *offsets);
  if (o->verbose) o->options.progress = print_progress;
  const plan_picture picture = {o->path, &in->file, offsets, &result, o->options.capacity, in->alignment};
  bool good = cannon_plan(problem, &o->options, offsets, &result) == CANNON_PLAN_OK;
  if (good) {
    print_result(o, &picture);
    good = plan_write_files(o, &picture) && result.fits;
  } else {
    print_error(o->path, &in->file, result.message);
  }
  free(offsets);
  return good ? 0 : 1;
}

/* Makes all offsets free: when a plan is checked by itself, its offsets are not requirements. */
static void free_offsets(input *in) {
  cannon_plan_buffer *buffers = (cannon_plan_buffer *)in->file.problem.buffers;
  for (size_t b = 0; b < in->file.problem.n_buffers; ++b) buffers[b].offset = CANNON_PLAN_ANYWHERE;
}

/* Returns the plan's offsets in the order of the problem's buffers, to be freed by the caller, or NULL after a
 * message. */
static uint64_t *offsets_of(const plan_options *o, const plan_file *plan, const plan_file *problem) {
  const size_t n = problem->problem.n_buffers;
  if (!plan->has_offsets) {
    fprintf(stderr, "cannon plan: %s: line %u: there is no column offset\n", format_text(o->check_path),
            plan->header.line);
    return NULL;
  }
  uint64_t *offsets = replay_must_alloc((n + 1) * sizeof *offsets);
  for (size_t b = 0; b < n; ++b) {
    const plan_row *row = &problem->rows[b];
    const uint32_t at = plan_csv_find(plan, row->id, row->id_length);
    if (at != CANNON_PLAN_NO_BUFFER && plan->offsets[at] != CANNON_PLAN_ANYWHERE) {
      offsets[b] = plan->offsets[at];
      continue;
    }
    fprintf(stderr, "cannon plan: %s: buffer %s has no offset\n", format_text(o->check_path),
            plan_csv_shown_id(row).text);
    free(offsets);
    return NULL;
  }
  return offsets;
}

/* Returns the exit status. */
static int check_plan(plan_options *o, const input *plan, const input *in) {
  cannon_plan_result result;
  uint64_t *offsets = offsets_of(o, &plan->file, &in->file);
  if (!offsets) return 1;
  const plan_picture picture = {o->check_path, &in->file, offsets, &result, o->options.capacity, in->alignment};
  bool good = cannon_plan_check(&in->file.problem, offsets, &result) == CANNON_PLAN_OK;
  if (good) {
    result.fits = !o->options.capacity || result.end.peak <= o->options.capacity;
    print_result(o, &picture);
    good = plan_write_files(o, &picture) && result.fits;
  } else {
    print_error(o->check_path, &in->file, result.message);
  }
  free(offsets);
  return good ? 0 : 1;
}

int command_plan(int argc, char **argv) {
  plan_options o = {.options.seconds = DEFAULT_SECONDS};
  char error[256];
  input in, plan;
  int status = plan_parse(argc, argv, &o);
  if (status) return status;
  if (o.help_wanted) {
    plan_print_help();
    return 0;
  }
  const char *path = o.path ? o.path : o.check_path;
  if (!read_input(path, &o, &in, error)) {
    fprintf(stderr, "cannon plan: %s: %s\n", format_text(path), format_text(error));
    return 1;
  }
  if (o.check_path && !o.path) free_offsets(&in);
  if (!o.check_path) {
    status = make_plan(&o, &in);
  } else if (!read_input(o.check_path, &o, &plan, error)) {
    fprintf(stderr, "cannon plan: %s: %s\n", format_text(o.check_path), format_text(error));
    status = 1;
  } else {
    status = check_plan(&o, &plan, &in);
    free_input(&plan);
  }
  free_input(&in);
  return status;
}
