/* cannon replay: a recorded trace through our allocator and others. */
#include "replay/replay.h"

#include "cli/commands.h"
#include "cli/format.h"
#include "cli/size.h"
#include "trace/record_code.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ALLOCATORS = 16, DEFAULT_REPETITIONS = 5, MAX_REPETITIONS = 1001 };

typedef struct {
  const char *path;
  const allocator *chosen[MAX_ALLOCATORS];
  int n_chosen, repetitions;
  uint64_t cap_bytes; /* 0: none */
  int device;         /* -1: pinned host memory */
  bool help_wanted;
} replay_options;

static void print_help(void) {
  printf("Usage: cannon replay [OPTIONS] FILE\n\n"
         "Replays the allocations that `cannon run --record FILE` wrote, or lines of text (\"a ID SIZE\", \"f ID\", # "
         "for\n"
         "comments), compressed by gzip or not, through allocators: time per event from nothing and on memory that is\n"
         "there, peak of committed memory over peak of what was live, calls for memory, requests refused.\n\n"
         "  --allocator NAME,...  which (default: all):\n");
  for (const allocator *const *a = allocators; *a; ++a) printf("      %-10s %s\n", (*a)->name, (*a)->about);
  printf("  --cap SIZE            memory that there is; K, M, G, T are powers of 1024 (default: more than enough)\n"
         "  --device N            whose blocks of a recording, or \"host\" for pinned memory (default 0)\n"
         "  --repeat N            repetitions, of whose times the median is shown (default %d)\n"
         "  --help                this text\n",
         DEFAULT_REPETITIONS);
}

static int bad_option(const char *option, const char *value, const char *expected) {
  fprintf(stderr, "cannon replay: %s is '%s', expected %s\n", option, value, expected);
  return EXIT_USAGE;
}

static int parse_allocators(const char *list, replay_options *o) {
  char text[256];
  if (snprintf(text, sizeof text, "%s", list) >= (int)sizeof text) return bad_option("--allocator", list, "fewer");
  o->n_chosen = 0;
  for (char *rest = text, *name; (name = strsep(&rest, ","));) {
    const allocator *a = allocator_find(name);
    if (!a || o->n_chosen == MAX_ALLOCATORS) {
      bad_option("--allocator", name, "some of");
      for (const allocator *const *known = allocators; *known; ++known) fprintf(stderr, "  %s\n", (*known)->name);
      return EXIT_USAGE;
    }
    o->chosen[o->n_chosen++] = a;
  }
  return 0;
}

static bool parse_device(const char *text, int *device) {
  uint64_t n;
  *device = -1;
  if (strcmp(text, "host") == 0) return true;
  *device = 0;
  if (strcmp(text, "0") == 0) return true;
  if (!size_parse(text, &n) || n >= RECORD_MAX_DEVICES) return false;
  *device = (int)n;
  return true;
}

/* Returns 0 or the exit status. */
static int parse(int argc, char **argv, replay_options *o) {
  enum { ALLOCATOR = 1, CAP, DEVICE, REPEAT, HELP };
  static const struct option options[] = {
      {"allocator", required_argument, NULL, ALLOCATOR},
      {"cap", required_argument, NULL, CAP},
      {"device", required_argument, NULL, DEVICE},
      {"repeat", required_argument, NULL, REPEAT},
      {"help", no_argument, NULL, HELP},
      {NULL, 0, NULL, 0},
  };
  uint64_t n;
  argv[0] = "cannon replay"; /* getopt's messages begin with it */
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    switch (option) {
    case ALLOCATOR:
      if (parse_allocators(optarg, o)) return EXIT_USAGE;
      break;
    case CAP:
      if (!size_parse(optarg, &o->cap_bytes))
        return bad_option("--cap", optarg, "a size above 0 such as 512M or 32G (K, M, G or T)");
      break;
    case DEVICE:
      if (!parse_device(optarg, &o->device)) return bad_option("--device", optarg, "a number from 0 to 15, or host");
      break;
    case REPEAT:
      if (!size_parse(optarg, &n) || n > MAX_REPETITIONS)
        return bad_option("--repeat", optarg, "a number from 1 to 1001");
      o->repetitions = (int)n;
      break;
    case HELP: o->help_wanted = true; return 0;
    default: return EXIT_USAGE; /* getopt has said why */
    }
  }
  if (optind + 1 != argc) {
    fprintf(stderr, "cannon replay: expected one FILE (cannon replay [OPTIONS] FILE)\n");
    return EXIT_USAGE;
  }
  o->path = argv[optind];
  return 0;
}

static void print_row(const replay_result *r) {
  const double over = r->peak_live_bytes ? (double)r->peak_committed_bytes / (double)r->peak_live_bytes : 0;
  printf("%-10s %9.1f %9.1f %10s %10.3f %8" PRIu64 " %8" PRIu64, r->allocator->name, r->cold_ns, r->warm_ns,
         format_bytes(r->peak_committed_bytes), over, r->n_calls, r->n_refused);
  if (r->n_refused) printf("  first: event %zu", r->first_refused);
  printf("\n");
}

int command_replay(int argc, char **argv) {
  replay_options o = {.repetitions = DEFAULT_REPETITIONS};
  char error[256];
  trace t;
  for (const allocator *const *a = allocators; *a; ++a) o.chosen[o.n_chosen++] = *a;
  const int status = parse(argc, argv, &o);
  if (status) return status;
  if (o.help_wanted) {
    print_help();
    return 0;
  }
  if (!trace_read(o.path, o.device, &t, error)) {
    fprintf(stderr, "cannon replay: %s: %s\n", o.path, error);
    return 1;
  }
  printf("%s: %zu events, %" PRIu32 " blocks, peak live %s\n\n", o.path, t.n_events, t.n_blocks,
         format_bytes(t.peak_live_bytes));
  printf("%-10s %9s %9s %10s %10s %8s %8s\n", "", "ns/event", "warm", "committed", "over live", "calls", "refused");
  const uint64_t cap_bytes = o.cap_bytes ? o.cap_bytes : replay_roomy_cap(&t);
  bool good = true;
  for (int i = 0; i < o.n_chosen; ++i) {
    replay_result r;
    good = replay_measure(o.chosen[i], &t, cap_bytes, o.repetitions, &r) && good;
    if (r.peak_live_bytes || r.n_refused) print_row(&r);
  }
  trace_free(&t);
  return good ? 0 : 1;
}
