/* SPDX-License-Identifier: Apache-2.0 */
/* cannon replay: replays a recorded trace through Cannon's allocator and others. */
#include "base/device_number.h"
#include "base/size.h"
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/output.h"
#include "cli/replay/replay_report.h"
#include "trace/record/record_code.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ALLOCATORS = 16, DEFAULT_REPETITIONS = 5, MAX_REPETITIONS = 101 };

typedef struct {
  const char *path;
  output json, html; /* files to write */
  const allocator *chosen[MAX_ALLOCATORS];
  int n_chosen, repetitions;
  uint64_t cap_bytes; /* 0: no cap */
  int device;         /* device number, or a kind of host memory */
  bool force, help_wanted;
} replay_options;

static void replay_print_help(void) {
  fputs("Usage: cannon replay [OPTION]... FILE\n"
        "\n"
        "Replays a recorded trace of allocations through Cannon's allocator and others.\n"
        "\n"
        "FILE is a recording of `cannon run --record`, or text with one event per line\n"
        "(a ID SIZE; f ID; # for comments); it may be compressed by gzip. The output has,\n"
        "for each allocator: the time per event, on a new instance and on one that has its\n"
        "memory already; the peak of committed memory, also divided by the peak of live\n"
        "memory; the number of calls for memory; and the number of refused requests.\n"
        "\n"
        "Options:\n"
        "  --allocator NAME,...  allocators to use (default: all):\n",
        stdout);
  for (const allocator *const *a = allocators; *a; ++a) printf("      %-10s %s\n", (*a)->name, (*a)->about);
  printf("  --cap SIZE            available memory in bytes; K, M, G and T are powers of 1024\n"
         "                        (default: more than enough)\n"
         "  --device N            device whose blocks of a recording are replayed, 0 to 15, or\n"
         "                        \"host\" for pinned or \"managed\" for managed memory\n"
         "                        (default: 0)\n"
         "  --repeat N            number of repetitions, 1 to %d; times are medians of them\n"
         "                        (default: %d)\n"
         "  --json FILE           write the results to FILE in JSON\n"
         "  --html FILE           write a page with a map of addresses over time to FILE\n"
         "  --force               let --json and --html replace files that cannon did not\n"
         "                        write\n"
         "  -h, --help            print this help and exit\n"
         "\n"
         "Exit status:\n"
         "  0  success\n"
         "  1  FILE cannot be read, an allocator cannot be created, or an output cannot be\n"
         "     written\n"
         "  2  the command line is wrong; nothing was done\n"
         "\n"
         "Examples:\n"
         "  cannon run --record step.rec ./train && cannon replay step.rec\n"
         "  cannon replay --allocator pool,pytorch --html map.html step.rec\n",
         MAX_REPETITIONS, DEFAULT_REPETITIONS);
}

static int replay_bad_size(const char *option, const char *value, size_verdict verdict) {
  fprintf(stderr,
          "cannon replay: %s is '%s'%s, expected a size from 1 to 2^63 - 1 such as 512M, 1.5G or 32G (K, M, G or T)\n",
          option, value, size_fault(verdict));
  return EXIT_USAGE;
}

static int replay_parse_allocators(const char *list, replay_options *o) {
  char text[256];
  if (snprintf(text, sizeof text, "%s", list) >= (int)sizeof text)
    return bad_option("replay", "--allocator", list, "a shorter list");
  o->n_chosen = 0;
  for (char *rest = text, *name; (name = strsep(&rest, ","));) {
    const allocator *a = allocator_find(name);
    if (!a || o->n_chosen == MAX_ALLOCATORS) {
      bad_option("replay", "--allocator", name, "some of");
      for (const allocator *const *known = allocators; *known; ++known) fprintf(stderr, "  %s\n", (*known)->name);
      return EXIT_USAGE;
    }
    o->chosen[o->n_chosen++] = a;
  }
  return 0;
}

static bool replay_parse_device(const char *text, int *device) {
  uint64_t n;
  *device = HOST_PINNED;
  if (strcmp(text, "host") == 0) return true;
  *device = HOST_MANAGED;
  if (strcmp(text, "managed") == 0) return true;
  *device = 0;
  if (size_parse_number(text, 0, RECORD_MAX_DEVICES - 1, &n) != SIZE_OK) return false;
  *device = (int)n;
  return true;
}

/* Returns 0 or the exit status. */
static int replay_parse(int argc, char **argv, replay_options *o) {
  enum { ALLOCATOR = 1, CAP, DEVICE, REPEAT, JSON, HTML, FORCE, HELP = 'h' };
  static const struct option options[] = {
      {"allocator", required_argument, NULL, ALLOCATOR},
      {"cap", required_argument, NULL, CAP},
      {"device", required_argument, NULL, DEVICE},
      {"repeat", required_argument, NULL, REPEAT},
      {"json", required_argument, NULL, JSON},
      {"html", required_argument, NULL, HTML},
      {"force", no_argument, NULL, FORCE},
      {"help", no_argument, NULL, HELP},
      {NULL, 0, NULL, 0},
  };
  uint64_t n;
  size_verdict verdict;
  argv[0] = "cannon replay"; /* getopt's messages begin with it */
  for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    switch (option) {
    case ALLOCATOR:
      if (replay_parse_allocators(optarg, o)) return EXIT_USAGE;
      break;
    case CAP:
      verdict = size_parse(optarg, 1, INT64_MAX, &o->cap_bytes);
      if (verdict != SIZE_OK) return replay_bad_size("--cap", optarg, verdict);
      break;
    case DEVICE:
      if (!replay_parse_device(optarg, &o->device))
        return bad_option("replay", "--device", optarg, "a number from 0 to 15, host or managed");
      break;
    case REPEAT:
      if (size_parse_number(optarg, 1, MAX_REPETITIONS, &n) != SIZE_OK)
        return bad_option("replay", "--repeat", optarg, "a number from 1 to 101");
      o->repetitions = (int)n;
      break;
    case JSON: o->json.path = optarg; break;
    case HTML: o->html.path = optarg; break;
    case FORCE: o->force = true; break;
    case HELP: o->help_wanted = true; return 0;
    default: return EXIT_USAGE; /* getopt has printed a message */
    }
  }
  if (optind + 1 != argc) {
    fprintf(stderr, "cannon replay: expected one FILE (cannon replay [OPTIONS] FILE)\n");
    return EXIT_USAGE;
  }
  o->path = argv[optind];
  o->json = (output){"cannon replay", o->json.path, OUTPUT_JSON, o->force, NULL};
  o->html = (output){"cannon replay", o->html.path, OUTPUT_PAGE, o->force, NULL};
  return output_check(&o->json) && output_check(&o->html) ? 0 : EXIT_USAGE;
}

/* Writes a file if it was requested. Returns false, after a message, if that fails. */
static bool replay_write_file(output *o, const replay_report *r, bool (*write)(FILE *, const replay_report *)) {
  if (!o->path) return true;
  FILE *f = output_begin(o);
  return f && output_end(o, f, write(f, r));
}

/* Returns the exit status. */
static int replay_run_allocators(replay_options *o, const trace *t) {
  replay_result results[MAX_ALLOCATORS];
  replay_report report = {.path = o->path, .trace = t, .cap_bytes = o->cap_bytes, .result = results};
  bool good = true;
  for (int i = 0; i < o->n_chosen; ++i) {
    if (replay_measure(o->chosen[i], t, replay_cap(&report), o->repetitions, &results[report.n]))
      ++report.n;
    else
      good = false;
  }
  replay_print(stdout, &report);
  good &= replay_write_file(&o->json, &report, replay_write_json);
  return replay_write_file(&o->html, &report, replay_write_html) && good ? 0 : 1;
}

int command_replay(int argc, char **argv) {
  replay_options o = {.repetitions = DEFAULT_REPETITIONS};
  char error[256];
  trace t;
  for (const allocator *const *a = allocators; *a; ++a) o.chosen[o.n_chosen++] = *a;
  int status = replay_parse(argc, argv, &o);
  if (status) return status;
  if (o.help_wanted) {
    replay_print_help();
    return 0;
  }
  if (!trace_read(o.path, o.device, &t, error)) {
    /* the message may quote lines of the file */
    fprintf(stderr, "cannon replay: %s: %s\n", format_text(o.path), format_text(error));
    return 1;
  }
  status = replay_run_allocators(&o, &t);
  trace_free(&t);
  return status;
}
