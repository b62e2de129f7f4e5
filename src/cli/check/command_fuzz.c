/* SPDX-License-Identifier: Apache-2.0 */
/* cannon fuzz: runs a program under many schedules and injected failures, and reports the smallest that go wrong. */
#include "cli/check/fuzz.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/figures.h"
#include "cli/output.h"
#include "cli/spawn.h"

#include "base/size.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static const char help[] = "Usage: cannon fuzz [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
                           "\n"
                           "Runs a program under many schedules and injected failures, and reports mistakes.\n"
                           "\n"
                           "The program runs plainly first. Then it runs in other legal orders of its streams'\n"
                           "tasks, with single failures, and with several in another order. Its standard input\n"
                           "is empty. A run goes wrong if a signal ends it (crash), if it does not end (hang),\n"
                           "if its output or its exit status differs although nothing failed, or its output\n"
                           "although it ends with status 0 (output), or if more blocks are live at its end than\n"
                           "at the plain run's (leak). Each finding is made as small as possible, and printed\n"
                           "with the command that shows it.\n"
                           "\n"
                           "Options:\n"
                           "  --schedules N    number of other orders (default: 20)\n"
                           "  --each N         the most single failures of a place, a sample if more calls are\n"
                           "                   counted (default: 25)\n"
                           "  --seeds N        number of runs with several failures (default: 10)\n"
                           "  --fail PLACES    where to make calls fail, with commas between: alloc, host, op,\n"
                           "                   prepare, copy, sync, file or none; `cannon run --help` explains\n"
                           "                   them (default: all)\n"
                           "  --ignore KINDS   what is no finding, with commas between: crash, hang, output, leak\n"
                           "  --timeout S      seconds after which a run hangs (default: ten times those of the\n"
                           "                   plain run, and at least 10)\n"
                           "  -j N             runs at a time, 1 to 64 (default: 1)\n"
                           "  --json FILE      write the findings to FILE in JSON\n"
                           "  --force          let --json replace a file that cannon did not write\n"
                           "  -h, --help       print this help and exit\n"
                           "\n"
                           "Exit status:\n"
                           "  0    nothing went wrong\n"
                           "  1    something did, or a run could not be started\n"
                           "  2    the command line is wrong; nothing was run\n"
                           "  126  PROGRAM cannot be started\n"
                           "  127  PROGRAM was not found\n"
                           "\n"
                           "Examples:\n"
                           "  cannon fuzz ./train\n"
                           "  cannon fuzz --schedules 200 --fail none -j 4 ./pipeline\n"
                           "  cannon fuzz --fail alloc,op --ignore leak -- python3 train.py\n";

enum { SCHEDULES = 1, EACH, SEEDS, FAIL, IGNORE, TIMEOUT, JSON, FORCE, HELP = 'h' };
static const struct option fuzz_long_options[] = {
    {"schedules", required_argument, NULL, SCHEDULES},
    {"each", required_argument, NULL, EACH},
    {"seeds", required_argument, NULL, SEEDS},
    {"fail", required_argument, NULL, FAIL},
    {"ignore", required_argument, NULL, IGNORE},
    {"timeout", required_argument, NULL, TIMEOUT},
    {"json", required_argument, NULL, JSON},
    {"force", no_argument, NULL, FORCE},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0},
};

static int fuzz_number(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *out) {
  char expected[64];
  if (size_parse_number(text, least, most, out) == SIZE_OK) return 0;
  snprintf(expected, sizeof expected, "a number from %" PRIu64 " to %" PRIu64, least, most);
  return bad_option("fuzz", option, text, expected);
}

static unsigned verdict_of(const char *word, unsigned long n) {
  unsigned v = FUZZ_CRASH;
  while (v < FUZZ_N_VERDICTS && (strlen(fuzz_verdict_names[v]) != n || strncmp(fuzz_verdict_names[v], word, n) != 0))
    v++;
  return v;
}

static unsigned place_number(const char *word, unsigned long n) { return fault_place_of(word, n); }

/* Reads words with commas between as bits; false if one is unknown. */
static bool read_words(const char *text, unsigned (*number)(const char *, unsigned long), unsigned n, unsigned *bits) {
  for (*bits = 0;; text++) {
    const size_t length = strcspn(text, ",");
    const unsigned i = number(text, length);
    if (i >= n) return false;
    *bits |= 1u << i;
    text += length;
    if (!*text) return true;
  }
}

/* Returns 0 or the exit status. */
static int fuzz_option(int option, const char *text, fuzz_search *s, output *json) {
  uint64_t seconds;
  switch (option) {
  case SCHEDULES: return fuzz_number("--schedules", text, 0, 1000000, &s->schedules);
  case EACH: return fuzz_number("--each", text, 0, 1000000, &s->each);
  case SEEDS: return fuzz_number("--seeds", text, 0, 1000000, &s->seeds);
  case FAIL:
    s->places = 0;
    if (strcmp(text, "none") == 0 || read_words(text, place_number, N_FAULT_PLACES, &s->places)) return 0;
    return bad_option("fuzz", "--fail", text, "some of alloc, host, op, prepare, copy, sync and file, or none");
  case IGNORE:
    if (read_words(text, verdict_of, FUZZ_N_VERDICTS, &s->ignored)) return 0;
    return bad_option("fuzz", "--ignore", text, "some of crash, hang, output and leak");
  case TIMEOUT:
    if (fuzz_number("--timeout", text, 1, 1000000, &seconds)) return EXIT_USAGE;
    s->timeout_ns = seconds * 1000000000u;
    return 0;
  case 'j': return fuzz_number("-j", text, 1, 64, &s->n_jobs);
  case JSON: json->path = text; return 0;
  case FORCE: json->force = true; return 0;
  default: return EXIT_USAGE; /* getopt has printed a message */
  }
}

/* Returns 0 or the exit status; *help_wanted: nothing is to be run. */
static int fuzz_parse(int argc, char **argv, fuzz_search *s, output *json, bool *help_wanted) {
  argv[0] = "cannon fuzz"; /* getopt's messages begin with it */
  for (int option; (option = getopt_long(argc, argv, "+j:h", fuzz_long_options, NULL)) != -1;) {
    *help_wanted = option == HELP;
    if (*help_wanted) return 0;
    const int status = fuzz_option(option, optarg, s, json);
    if (status) return status;
  }
  s->argv = argv + optind;
  if (!*s->argv) {
    fprintf(stderr, "cannon fuzz: no program given, expected cannon fuzz [OPTIONS] PROGRAM [ARGUMENTS]\n");
    return EXIT_USAGE;
  }
  *json = (output){"cannon fuzz", json->path, OUTPUT_JSON, json->force, NULL};
  return output_check(json) ? 0 : EXIT_USAGE;
}

/* ---- report ------------------------------------------------------------------------------------------------------ */

/* Writes the argument as a word of a shell's command line. */
static void print_word(FILE *out, const char *word) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,@%+-";
  if (*word && !word[strspn(word, plain)]) {
    fputs(word, out);
    return;
  }
  fputc('\'', out);
  for (; *word; word++)
    if (*word == '\'')
      fputs("'\\''", out);
    else
      fputc(*word, out);
  fputc('\'', out);
}

/* Writes the command that repeats a run. */
static void print_command(FILE *out, const fuzz_search *s, const fuzz_case *c) {
  char specs[FUZZ_SPEC_BYTES];
  fuzz_specs(c, specs);
  fputs("cannon run", out);
  if (*specs) fprintf(out, " --fail %s", specs);
  if (c->schedule) fprintf(out, " --schedule random:%" PRIu64, c->schedule);
  fputs(" --", out);
  for (char *const *word = s->argv; *word; word++) {
    fputc(' ', out);
    print_word(out, *word);
  }
}

static void describe_status(char *text, size_t bytes, int status) {
  if (WIFSIGNALED(status))
    snprintf(text, bytes, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
  else
    snprintf(text, bytes, "status %d", WEXITSTATUS(status));
}

/* What went wrong, and under which circumstances. */
static void describe_finding(const fuzz_search *s, const fuzz_finding *f, char *text, size_t bytes) {
  char status[96], specs[FUZZ_SPEC_BYTES];
  const fuzz_result *r = &f->result;
  describe_status(status, sizeof status, r->status);
  fuzz_specs(&f->how, specs);
  int n = 0;
  if (f->verdict == FUZZ_HANG)
    n = snprintf(text, bytes, "does not end within %s", format_ns(s->timeout_ns));
  else if (f->verdict == FUZZ_LEAK)
    n = snprintf(text, bytes, "ends with %s, live blocks %" PRIu64 ", of the plain run %" PRIu64, status, r->n_leaks,
                 s->plain.n_leaks);
  else if (f->verdict == FUZZ_OUTPUT)
    n = snprintf(text, bytes, "%s, %s", r->n_injected ? "another output, as if nothing had failed" : "another result",
                 status);
  else
    n = snprintf(text, bytes, "ends by %s", status);
  if (n < 0 || (size_t)n >= bytes) return;
  const char *order = f->how.schedule ? ", in another order of tasks" : *specs ? "" : ", as it is";
  snprintf(text + n, bytes - (size_t)n, "%s%.200s%s", *specs ? ", where these fail: " : "", specs, order);
}

static void print_plain(FILE *out, const fuzz_search *s) {
  char status[96];
  describe_status(status, sizeof status, s->plain.status);
  fprintf(out, "plain run: %s after %s, %" PRIu64 " live block%s at the end; it could fail at", status,
          format_ns(s->plain.wall_ns), s->plain.n_leaks, s->plain.n_leaks == 1 ? "" : "s");
  const char *comma = "";
  for (fault_place p = 0; p < N_FAULT_PLACES; p++) {
    if (!s->plain.events[p]) continue;
    fprintf(out, "%s %s %" PRIu64, comma, fault_word(p), s->plain.events[p]);
    comma = ",";
  }
  fputs(*comma ? "\n" : " no call of CANN\n", out);
  if (s->varies) fputs("its output differs from run to run: outputs are not compared\n", out);
}

static void print_findings(FILE *out, const fuzz_search *s) {
  for (int i = 0; i < s->n_findings; i++) {
    char text[512];
    const fuzz_finding *f = &s->finding[i];
    describe_finding(s, f, text, sizeof text);
    fprintf(out, "\n%d. %s (%u run%s): %s\n   ", i + 1, fuzz_verdict_names[f->verdict], f->n_runs,
            f->n_runs == 1 ? "" : "s", text);
    print_command(out, s, &f->how);
    fputc('\n', out);
    if (*f->result.words) fprintf(out, "   it said: %s\n", f->result.words);
  }
  fprintf(out, "%s%zu runs: %d finding%s\n", s->n_findings ? "\n" : "", s->n_runs, s->n_findings,
          s->n_findings == 1 ? "" : "s");
}

static cJSON *fuzz_finding_json(const fuzz_search *s, const fuzz_finding *f) {
  char text[512], specs[FUZZ_SPEC_BYTES], *command = NULL;
  size_t bytes;
  cJSON *object = cJSON_CreateObject();
  describe_finding(s, f, text, sizeof text);
  fuzz_specs(&f->how, specs);
  FILE *to = open_memstream(&command, &bytes);
  if (to) print_command(to, s, &f->how);
  if (to) fclose(to);
  cJSON_AddStringToObject(object, "kind", fuzz_verdict_names[f->verdict]);
  cJSON_AddStringToObject(object, "message", text);
  cJSON_AddNumberToObject(object, "runs", f->n_runs);
  cJSON_AddStringToObject(object, "fail", specs);
  cJSON_AddNumberToObject(object, "schedule", (double)f->how.schedule);
  cJSON_AddStringToObject(object, "command", command ? command : "");
  cJSON_AddStringToObject(object, "stderr", f->result.words);
  free(command);
  return object;
}

static int fuzz_write_json(FILE *out, const fuzz_search *s) {
  cJSON *root = cJSON_CreateObject();
  cJSON_AddStringToObject(root, OUTPUT_JSON_AUTHOR, "cannon fuzz");
  cJSON_AddNumberToObject(root, "runs", (double)s->n_runs);
  cJSON_AddBoolToObject(root, "output_varies", s->varies);
  cJSON *events = cJSON_AddObjectToObject(root, "events");
  for (fault_place p = 0; p < N_FAULT_PLACES; p++)
    cJSON_AddNumberToObject(events, fault_word(p), (double)s->plain.events[p]);
  cJSON *findings = cJSON_AddArrayToObject(root, "findings");
  for (int i = 0; i < s->n_findings; i++) cJSON_AddItemToArray(findings, fuzz_finding_json(s, &s->finding[i]));
  char *text = cJSON_Print(root);
  cJSON_Delete(root);
  const int failed = !text || fprintf(out, "%s\n", text) < 0 || fflush(out);
  free(text);
  return failed ? -1 : 0;
}

int command_fuzz(int argc, char **argv) {
  static fuzz_search s = {.schedules = 20, .each = 25, .seeds = 10, .places = (1u << N_FAULT_PLACES) - 1, .n_jobs = 1};
  output json = {0};
  bool help_wanted = false;
  const int status = fuzz_parse(argc, argv, &s, &json, &help_wanted);
  if (help_wanted) fputs(help, stdout);
  if (status || help_wanted) return status;
  char prefix[PATH_MAX];
  environment_prefix(prefix);
  environment_apply(prefix);
  const int missing = spawn_check(s.argv[0]);
  if (missing) {
    fprintf(stderr, "cannon fuzz: %s: %s\n", format_text(s.argv[0]), strerror(missing));
    return missing == ENOENT ? 127 : 126;
  }
  if (!fuzz_run_search(&s)) return 1;
  print_plain(stdout, &s);
  print_findings(stdout, &s);
  FILE *to = json.path ? output_begin(&json) : NULL;
  if (to) output_end(&json, to, fuzz_write_json(to, &s) == 0);
  free(s.cases);
  return s.n_findings > 0 || (json.path && !to);
}
