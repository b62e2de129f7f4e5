/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/summary.h"
#include "base/device_number.h"
#include "cli/check/faults_help.h"
#include "cli/check/lines.h"
#include "cli/figures.h"
#include "cli/report/roofline_table.h"
#include "cli/report/summary_comm.h"
#include "cli/report/summary_dry.h"
#include "cli/report/summary_feed.h"
#include "cli/report/summary_memory.h"
#include "cli/report/summary_refused.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TOP_BY_TIME = 15, TOP_BY_WORKSPACE = 6, TOP_LEAKS = 8, TOP_ERRORS = 5, LINE_CHARS = 110 };

const char *const stats_direction_names[STATS_N_DIRECTIONS] = {"host to device", "device to host", "device to device",
                                                               "host to host"};

/* Describes a call site by its line if there is debug information, otherwise by what the process itself wrote. */
static void describe_site(const stats_file *p, stats_place place, const char *own, char *text, size_t bytes) {
  lines_describe(p, place, text, bytes);
  if (*text == '?') snprintf(text, bytes, "%s", *own ? own : "?");
}

static void print_copies(FILE *out, const stats_file *p) {
  for (int i = 0; i < STATS_N_DIRECTIONS; i++) {
    const stats_copy *c = &p->copies[i];
    if (!c->count) continue;
    fprintf(out, "  copies      %-17s %10" PRIu64 "  %10s", stats_direction_names[i], c->count, format_bytes(c->bytes));
    if (c->pageable_count && i != STATS_H2H)
      fprintf(out, ", %" PRIu64 " of them, %s, pageable", c->pageable_count, format_bytes(c->pageable_bytes));
    fputc('\n', out);
  }
}

static void print_zero_copy(FILE *out, const stats_file *p) {
  const elided_copies all = stats_elided_copies(p);
  if (all.count)
    fprintf(out, "  zero copy   %" PRIu64 " copies were not needed, %s: %.1f %% of all between host and device\n",
            all.count, format_bytes(all.bytes), 100 * stats_zero_copy_share(p));
}

static void print_advice(FILE *out, const stats_file *p) {
  static const char *const words[STATS_N_ADVICE] = {[STATS_ADVICE_UNALIGNED_COPY] =
                                                        "asynchronous copies at addresses not 64-aligned"};
  for (int i = 0; i < STATS_N_ADVICE; i++) {
    char site[256];
    if (!p->advice[i].count) continue;
    describe_site(p, p->advice[i].place, p->advice[i].first_site, site, sizeof site);
    fprintf(out, "  advice      %" PRIu64 " %s, first from %s\n", p->advice[i].count, words[i], site);
  }
}

static int summary_by_time(const void *a, const void *b) {
  const stats_op *x = *(const stats_op *const *)a, *y = *(const stats_op *const *)b;
  if (x->time_ns != y->time_ns) return x->time_ns < y->time_ns ? 1 : -1;
  return (x->launches < y->launches) - (x->launches > y->launches);
}

static int summary_by_workspace(const void *a, const void *b) {
  const stats_op *x = *(const stats_op *const *)a, *y = *(const stats_op *const *)b;
  return (x->workspace_peak_bytes < y->workspace_peak_bytes) - (x->workspace_peak_bytes > y->workspace_peak_bytes);
}

/* Fills `sorted` with the operators that were launched or requested a workspace. Returns their number. */
static unsigned sorted_ops(const stats_file *p, const stats_op *sorted[STATS_MAX_OPS],
                           int (*order)(const void *, const void *)) {
  unsigned n = 0;
  for (unsigned i = 0; i < stats_op_count(p); i++)
    if (p->ops[i].launches || p->ops[i].workspace_peak_bytes) sorted[n++] = &p->ops[i];
  if (n) qsort(sorted, n, sizeof *sorted, order);
  return n;
}

static void print_time(FILE *out, const stats_file *p) {
  const stats_op *ops[STATS_MAX_OPS];
  unsigned n = sorted_ops(p, ops, summary_by_time);
  while (n && !ops[n - 1]->launches) n--; /* those without launches have no time, so they are last */
  if (!n) return;
  uint64_t total = 0, rest_ns = 0, rest_launches = 0;
  for (unsigned i = 0; i < n; i++) total += ops[i]->time_ns;
  fprintf(out, "  operators   %-24s %10s %10s %7s %10s\n", "", "launches", "time", "share", "each");
  for (unsigned i = 0; i < n; i++) {
    uint64_t time = ops[i]->time_ns, launches = ops[i]->launches;
    if (i >= TOP_BY_TIME) {
      rest_ns += time;
      rest_launches += launches;
      continue;
    }
    fprintf(out, "              %-24.40s %10" PRIu64 " %10s %5.1f %% %10s\n", ops[i]->name, launches, format_ns(time),
            total ? 100.0 * time / total : 0.0, format_ns(time / launches));
  }
  if (n > TOP_BY_TIME) {
    char name[32];
    snprintf(name, sizeof name, "%u more", n - TOP_BY_TIME);
    fprintf(out, "              %-24s %10" PRIu64 " %10s %5.1f %%\n", name, rest_launches, format_ns(rest_ns),
            total ? 100.0 * rest_ns / total : 0.0);
  }
}

static void print_workspaces(FILE *out, const stats_file *p) {
  const stats_op *ops[STATS_MAX_OPS];
  unsigned n = sorted_ops(p, ops, summary_by_workspace);
  while (n && !ops[n - 1]->workspace_peak_bytes) n--;
  if (!n) {
    fprintf(out, "  workspaces  none\n");
    return;
  }
  fprintf(out, "  workspaces  %-24s %10s = %10s + %13s + %10s\n", "", "largest", "copies", "intermediates", "partials");
  for (unsigned i = 0; i < n && i < TOP_BY_WORKSPACE; i++)
    fprintf(out, "              %-24.40s %10s   %10s   %13s   %10s\n", ops[i]->name,
            format_bytes(ops[i]->workspace_peak_bytes), format_bytes(ops[i]->workspace_copies_bytes),
            format_bytes(ops[i]->workspace_intermediates_bytes), format_bytes(ops[i]->workspace_partials_bytes));
  if (n > TOP_BY_WORKSPACE) fprintf(out, "              %u more\n", n - TOP_BY_WORKSPACE);
}

static int summary_by_count(const void *a, const void *b) {
  const stats_error *x = *(const stats_error *const *)a, *y = *(const stats_error *const *)b;
  return (x->count < y->count) - (x->count > y->count);
}

static void print_errors(FILE *out, const stats_file *p) {
  const stats_error *rows[STATS_MAX_ERRORS];
  const unsigned n = stats_error_count(p);
  if (!p->n_errors) {
    fprintf(out, "  errors: none\n");
    return;
  }
  fprintf(out, "  errors: %" PRIu64 " call%s failed\n", p->n_errors, p->n_errors == 1 ? "" : "s");
  for (unsigned i = 0; i < n; i++) rows[i] = &p->error_rows[i];
  if (n) qsort(rows, n, sizeof *rows, summary_by_count);
  for (unsigned i = 0; i < n && i < TOP_ERRORS; i++) {
    char line[LINE_CHARS + 1];
    const stats_error *e = rows[i];
    const int length = snprintf(line, sizeof line, "              %6" PRIu64 "  %s, %" PRId32 ": %s", e->count, e->call,
                                e->code, e->first_words);
    fprintf(out, "%.*s%s\n", LINE_CHARS - 3, line, length > LINE_CHARS - 3 ? "..." : "");
  }
  if (n > TOP_ERRORS) fprintf(out, "              %u more kinds\n", n - TOP_ERRORS);
}

static void print_leak(FILE *out, const stats_file *p, const stats_leak *l) {
  char site[256];
  describe_site(p, l->place, l->site, site, sizeof site);
  fprintf(out, "              %10s  %s, allocation %" PRIu64 ", %s from %s\n", format_bytes(l->size_bytes),
          device_in_words(l->device).text, l->number, l->call, site);
}

static void print_leaks(FILE *out, const stats_file *p, process_state state) {
  if (p->n_bad_frees) fprintf(out, "  wrong frees: %" PRIu64 "\n", p->n_bad_frees);
  if (*p->leak_report && access(p->leak_report, R_OK) == 0)
    fprintf(out, "  memory report: %s\n", format_text(p->leak_report));
  if (state != PROCESS_ENDED) {
    fprintf(out, "  leaks: not known, the process %s\n",
            state == PROCESS_RUNNING ? "is still running" : "did not reach its end");
    return;
  }
  uint64_t n = p->n_leaks;
  if (!n) {
    fprintf(out, "  leaks: none\n");
    return;
  }
  fprintf(out, "  leaks: %" PRIu64 " block%s\n", n, n == 1 ? "" : "s");
  unsigned shown = stats_leak_count(p) < TOP_LEAKS ? stats_leak_count(p) : TOP_LEAKS;
  for (unsigned i = 0; i < shown; i++) print_leak(out, p, &p->leaks[i]);
  if (n > shown) fprintf(out, "              %" PRIu64 " more\n", n - shown);
}

static const char *summary_base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

void summary_print_process(FILE *out, const stats_file *p, process_state state) {
  uint64_t n_devices = p->n_devices;
  fprintf(out, "%s (process %d): %s, %" PRIu64 " device%s", summary_base_name(p->program), p->pid, p->soc_name,
          n_devices, n_devices == 1 ? "" : "s");
  unsigned opened = 0; /* all devices are alike, but those that were not opened have no size */
  while (opened + 1 < stats_device_count(p) && !p->device[opened].size_bytes) opened++;
  if (p->device[opened].size_bytes) fprintf(out, " of %s", format_bytes(p->device[opened].size_bytes));
  if (state != PROCESS_RUNNING && !p->ended_ns)
    fprintf(out, ", did not reach its end\n");
  else
    fprintf(out, ", %s%s\n", format_ns(stats_duration_ns(p)), state == PROCESS_RUNNING ? " so far" : "");
  summary_memory(out, p, state == PROCESS_RUNNING);
  summary_refused(out, p);
  summary_sites(out, p, state == PROCESS_RUNNING);
  print_copies(out, p);
  print_zero_copy(out, p);
  summary_comm(out, p);
  summary_feed(out, p);
  print_advice(out, p);
  fprintf(out, "  created     contexts %" PRIu64 ", streams %" PRIu64 ", events %" PRIu64 ", threads %" PRIu64 "\n",
          p->n_contexts, p->n_streams, p->n_events, p->n_threads);
  print_workspaces(out, p);
  print_time(out, p);
  roofline_print(out, p);
  faults_print(out, p);
  summary_dry(out, p);
  print_errors(out, p);
  print_leaks(out, p, state);
}

void summary_print(FILE *out, const run_report *run) {
  fprintf(out, "\ncannon: %s ", format_text(summary_base_name(run->argv[0])));
  if (WIFSIGNALED(run->status))
    fprintf(out, "ended by signal %d (%s)", WTERMSIG(run->status), strsignal(WTERMSIG(run->status)));
  else
    fprintf(out, "ended with status %d", WEXITSTATUS(run->status));
  fprintf(out, " after %s\n", format_ns(run->wall_ns));
  if (!run->stats.count && !run->stats.n_unreadable) fprintf(out, "The program did not use Cannon.\n");
  for (size_t i = 0; i < run->stats.count; i++) {
    const stats_file *p = run->stats.process[i];
    summary_print_process(out, p, stats_process_state(p, run->pid));
  }
}
