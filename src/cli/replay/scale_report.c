/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay/scale_report.h"

#include <cjson/cJSON.h>
#include <inttypes.h>

#include "cli/figures.h"
#include "cli/output.h"

static const char *time_text(double ns) { return format_ns((uint64_t)(ns + 0.5)); }

/* The share of communication that is hidden behind tasks. */
static double overlap_of(const scale_result *r) {
  return r->communication_ns > 0 ? 1 - r->exposed_ns / r->communication_ns : 1;
}

static double efficiency_of(const scale_result *r) { return r->step_ns > 0 ? r->compute_ns / r->step_ns : 1; }

/* The level that rounds of these calls waited for longest. */
static uint32_t slowest_level(const scale_kind *k) {
  uint32_t slowest = 0;
  for (uint32_t l = 1; l < SCHEDULE_MAX_LEVELS; ++l)
    if (k->level_ns[l] > k->level_ns[slowest]) slowest = l;
  return slowest;
}

static const char *cause_of(const scale_kind *k) {
  if (k->transfer_ns >= k->latency_ns) return k->transfer_ns >= k->reduce_ns ? "bandwidth" : "reduction";
  return k->latency_ns >= k->reduce_ns ? "latency" : "reduction";
}

/* Whether communication takes most of what the step takes longer than tasks alone would; otherwise tasks bound it. */
static bool bound_by_communication(const scale_result *r) { return 2 * r->exposed_ns > r->step_ns; }

static void print_heading(FILE *f, const scale_report *r) {
  const scale_trace *t = r->trace;
  fprintf(f, "%s: %zu ranks of %" PRIu32 ", %" PRIu64 " collectives\n", format_text(r->path), t->n_ranks, t->world,
          t->n_collectives);
  for (size_t i = 0; i < t->n_groups; ++i) {
    const scale_group *g = &t->group[i];
    fprintf(f, "  communicator 0x%" PRIx64 ": %" PRIu32 " ranks, %" PRIu64 " calls, %s\n", g->id, g->n_ranks,
            g->n_calls, scale_grows(t, r->options, g) ? "grows" : "keeps its size");
  }
  fprintf(f, "topology %s: %s\n\n", format_text(r->topology->name), format_text(r->topology->about));
}

/* "compute", or "AllReduce: cluster, bandwidth"; behind "compute" follows what is exposed most. */
static void print_bound(FILE *f, const scale_report *r, const scale_result *a) {
  const int worst = scale_worst_kind(a);
  if (!bound_by_communication(a)) fprintf(f, "compute%s", worst >= 0 ? "; " : "");
  if (worst >= 0)
    fprintf(f, "%s: %s, %s", comm_kind_name(worst),
            format_text(r->topology->level[slowest_level(&a->kind[worst])].name), cause_of(&a->kind[worst]));
}

static void print_kinds(FILE *f, const scale_report *r, const scale_result *a) {
  const double ranks = (double)r->trace->n_ranks;
  fprintf(f, "\nat %" PRIu32 " devices, of a rank:\n%-14s %8s %10s %10s %10s %10s %10s  %s\n", a->n_devices, "",
          "calls", "time", "exposed", "latency", "bandwidth", "reduction", "algorithm of the longest");
  for (int kind = 0; kind < COMM_N_KINDS; ++kind) {
    const scale_kind *k = &a->kind[kind];
    char words[96];
    if (!k->n_calls) continue;
    cost_words(&k->longest, words, sizeof words);
    fprintf(f, "%-14s %8.0f %10s %10s %10s %10s %10s  %s\n", comm_kind_name(kind), (double)k->n_calls / ranks,
            time_text(k->time_ns / ranks), time_text(k->exposed_ns / ranks), time_text(k->latency_ns / ranks),
            time_text(k->transfer_ns / ranks), time_text(k->reduce_ns / ranks), words);
  }
}

void scale_print(FILE *f, const scale_report *r) {
  print_heading(f, r);
  fprintf(f, "%8s %10s %10s %10s %10s %8s %10s  %s\n", "devices", "step", "compute", "comm.", "exposed", "overlap",
          "efficiency", "bound by");
  for (const scale_result *a = r->result; a < r->result + r->n; ++a) {
    fprintf(f, "%8" PRIu32 " %10s %10s %10s %10s %7.1f%% %9.1f%%  ", a->n_devices, time_text(a->step_ns),
            time_text(a->compute_ns), time_text(a->communication_ns), time_text(a->exposed_ns), 100 * overlap_of(a),
            100 * efficiency_of(a));
    print_bound(f, r, a);
    fprintf(f, "\n");
  }
  const scale_result *last = &r->result[r->n - 1];
  print_kinds(f, r, last);
  if (last->n_forced)
    fprintf(f, "\n%" PRIu64 " waits of streams were left out: the recording lacks what they wait for\n",
            last->n_forced);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static cJSON *kind_json(const scale_report *r, const scale_kind *k, int kind) {
  const double ranks = (double)r->trace->n_ranks;
  char words[96];
  cost_words(&k->longest, words, sizeof words);
  cJSON *o = cJSON_CreateObject(), *levels = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "kind", comm_kind_name(kind));
  cJSON_AddNumberToObject(o, "calls", (double)k->n_calls / ranks);
  cJSON_AddNumberToObject(o, "time_ns", k->time_ns / ranks);
  cJSON_AddNumberToObject(o, "exposed_ns", k->exposed_ns / ranks);
  cJSON_AddNumberToObject(o, "latency_ns", k->latency_ns / ranks);
  cJSON_AddNumberToObject(o, "bandwidth_ns", k->transfer_ns / ranks);
  cJSON_AddNumberToObject(o, "reduction_ns", k->reduce_ns / ranks);
  cJSON_AddStringToObject(o, "algorithm", words);
  for (uint32_t l = 0; l < r->topology->n_levels; ++l)
    cJSON_AddNumberToObject(levels, format_text(r->topology->level[l].name), k->level_ns[l] / ranks);
  cJSON_AddItemToObject(o, "level_ns", levels);
  return o;
}

static cJSON *scale_result_json(const scale_report *r, const scale_result *a) {
  const int worst = scale_worst_kind(a);
  cJSON *o = cJSON_CreateObject();
  cJSON_AddNumberToObject(o, "devices", a->n_devices);
  cJSON_AddNumberToObject(o, "step_ns", a->step_ns);
  cJSON_AddNumberToObject(o, "compute_ns", a->compute_ns);
  cJSON_AddNumberToObject(o, "communication_ns", a->communication_ns);
  cJSON_AddNumberToObject(o, "exposed_ns", a->exposed_ns);
  cJSON_AddNumberToObject(o, "overlap", overlap_of(a));
  cJSON_AddNumberToObject(o, "efficiency", efficiency_of(a));
  cJSON_AddNumberToObject(o, "waits_left_out", (double)a->n_forced);
  cJSON_AddStringToObject(o, "bound", bound_by_communication(a) ? "communication" : "compute");
  if (worst >= 0) {
    cJSON *most = cJSON_AddObjectToObject(o, "most_exposed");
    cJSON_AddStringToObject(most, "kind", comm_kind_name(worst));
    cJSON_AddStringToObject(most, "level", format_text(r->topology->level[slowest_level(&a->kind[worst])].name));
    cJSON_AddStringToObject(most, "by", cause_of(&a->kind[worst]));
  } else {
    cJSON_AddNullToObject(o, "most_exposed");
  }
  cJSON *kinds = cJSON_AddArrayToObject(o, "kinds");
  for (int kind = 0; kind < COMM_N_KINDS; ++kind)
    if (a->kind[kind].n_calls) cJSON_AddItemToArray(kinds, kind_json(r, &a->kind[kind], kind));
  return o;
}

static cJSON *group_json(const scale_report *r, const scale_group *g) {
  char id[24];
  cJSON *o = cJSON_CreateObject();
  snprintf(id, sizeof id, "0x%" PRIx64, g->id);
  cJSON_AddStringToObject(o, "id", id);
  cJSON_AddNumberToObject(o, "ranks", g->n_ranks);
  cJSON_AddNumberToObject(o, "calls", (double)g->n_calls);
  cJSON_AddBoolToObject(o, "grows", scale_grows(r->trace, r->options, g));
  return o;
}

bool scale_write_json(FILE *f, const scale_report *r) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, OUTPUT_JSON_AUTHOR, "cannon scale");
  cJSON_AddStringToObject(o, "recording", format_text(r->path));
  cJSON_AddStringToObject(o, "topology", format_text(r->topology->name));
  cJSON_AddNumberToObject(o, "recorded_ranks", (double)r->trace->n_ranks);
  cJSON_AddNumberToObject(o, "world", r->trace->world);
  cJSON_AddNumberToObject(o, "collectives", (double)r->trace->n_collectives);
  cJSON_AddBoolToObject(o, "strong", r->options->strong);
  cJSON_AddNumberToObject(o, "compute_factor", r->options->compute);
  cJSON *groups = cJSON_AddArrayToObject(o, "communicators"), *results = cJSON_AddArrayToObject(o, "results");
  for (size_t i = 0; i < r->trace->n_groups; ++i) cJSON_AddItemToArray(groups, group_json(r, &r->trace->group[i]));
  for (uint32_t i = 0; i < r->n; ++i) cJSON_AddItemToArray(results, scale_result_json(r, &r->result[i]));
  char *text = cJSON_Print(o);
  const bool good = text && fprintf(f, "%s\n", text) > 0;
  cJSON_free(text);
  cJSON_Delete(o);
  return good;
}
