/* SPDX-License-Identifier: Apache-2.0 */
/* The summary of a run as JSON (summary.h). */
#include "cli/check/faults_help.h"
#include "cli/check/lines.h"
#include "cli/figures.h"
#include "cli/output.h"
#include "cli/report/health.h"
#include "cli/report/roofline_table.h"
#include "cli/report/summary.h"
#include "cli/report/summary_comm.h"
#include "cli/report/summary_dry.h"
#include "cli/report/summary_feed.h"
#include "cli/report/summary_memory.h"
#include "cli/report/summary_refused.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>

typedef struct {
  const char *name;
  uint64_t value;
} figure;

/* cJSON stores numbers as doubles, which are exact up to 2^53; bytes and nanoseconds of a run are below that. */
static cJSON *figures(cJSON *object, const figure *list, size_t n) {
  for (size_t i = 0; i < n; i++) cJSON_AddNumberToObject(object, list[i].name, (double)list[i].value);
  return object;
}
#define FIGURES(object, ...) figures(object, (figure[]){__VA_ARGS__}, sizeof((figure[]){__VA_ARGS__}) / sizeof(figure))

static cJSON *latency_json(const latency_histogram *h) {
  return FIGURES(cJSON_CreateObject(), {"count", latency_count(h)}, {"mean_ns", latency_mean(h)},
                 {"p50_ns", latency_percentile(h, 50)}, {"p90_ns", latency_percentile(h, 90)},
                 {"p99_ns", latency_percentile(h, 99)}, {"p99_9_ns", latency_percentile(h, 99.9)},
                 {"p100_ns", latency_percentile(h, 100)});
}

/* Lists only sizes that occurred. */
static cJSON *sizes_json(const size_histogram *h) {
  cJSON *list = cJSON_CreateArray();
  for (unsigned b = 0; b < SIZE_BUCKETS; b++)
    if (counter_read(&h->bucket[b]))
      cJSON_AddItemToArray(list, FIGURES(cJSON_CreateObject(), {"at_most_bytes", UINT64_C(1) << b},
                                         {"count", counter_read(&h->bucket[b])}));
  return list;
}

/* Counters of allocations and frees of a heap, a pool or a stream. */
static cJSON *calls_json(const stats_heap *h, bool running) {
  cJSON *object = FIGURES(cJSON_CreateObject(), {"live_bytes", h->live_bytes}, {"requested_bytes", h->requested_bytes},
                          {"peak_bytes", h->peak_bytes}, {"allocated_bytes", h->allocated_bytes},
                          {"allocations", h->n_allocs}, {"frees", h->n_frees}, {"hits", h->n_hits});
  cJSON_AddNumberToObject(object, "hit_rate", health_hit_rate(h));
  cJSON_AddNumberToObject(object, "internal_fragmentation", health_internal(h, running));
  cJSON_AddItemToObject(object, "sizes", sizes_json(&h->sizes));
  cJSON_AddItemToObject(object, "allocation_latency", latency_json(&h->alloc));
  cJSON_AddItemToObject(object, "free_latency", latency_json(&h->free));
  return object;
}

static cJSON *heap_json(const stats_heap *h, bool running) {
  cJSON *object =
      FIGURES(calls_json(h, running), {"size_bytes", h->size_bytes}, {"committed_bytes", h->committed_bytes},
              {"cached_bytes", h->cached_bytes}, {"peak_committed_bytes", h->peak_committed_bytes},
              {"refused", h->n_refused}, {"alarm_bytes", h->alarm_bytes});
  cJSON_AddNumberToObject(object, "external_fragmentation", health_fragmentation(h, running));
  return object;
}

static cJSON *pools_json(const stats_file *p, bool running) {
  cJSON *list = cJSON_CreateArray();
  for (int i = 0; i < STATS_MAX_POOLS; i++) {
    if (p->pools[i].state == STATS_ROW_UNUSED) continue;
    cJSON *pool = heap_json(&p->pools[i].memory, running);
    cJSON_AddStringToObject(pool, "name", p->pools[i].name);
    cJSON_AddNumberToObject(pool, "device", p->pools[i].device);
    cJSON_AddBoolToObject(pool, "open", p->pools[i].state == STATS_ROW_OPEN);
    cJSON_AddItemToArray(list, pool);
  }
  return list;
}

static cJSON *streams_json(const stats_file *p, bool running) {
  cJSON *list = cJSON_CreateArray();
  for (int i = 0; i < STATS_MAX_STREAMS; i++) {
    const stats_stream *s = &p->streams[i];
    if (s->state == STATS_ROW_UNUSED) continue;
    cJSON *stream = FIGURES(calls_json(&s->memory, running), {"id", s->id});
    cJSON_AddNumberToObject(stream, "device", s->device);
    cJSON_AddItemToArray(list, stream);
  }
  return list;
}

/* Adds module and offset for tools, and the line or symbol for people. */
static void add_place(cJSON *object, const stats_file *p, stats_place place) {
  const char *module = stats_module_path(p, place);
  if (!module) return;
  const source_line found = lines_find(module, place.offset);
  char text[256];
  lines_describe(p, place, text, sizeof text);
  cJSON_AddStringToObject(object, "module", format_text(module));
  cJSON_AddNumberToObject(object, "offset", (double)place.offset);
  cJSON_AddStringToObject(object, "where", text);
  if (!found.file) return;
  cJSON_AddStringToObject(object, "file", format_text(found.file));
  cJSON_AddNumberToObject(object, "line", found.line);
}

static cJSON *sites_json(const stats_file *p) {
  const stats_site *sites[STATS_MAX_SITES];
  cJSON *list = cJSON_CreateArray();
  const unsigned n = summary_sorted_sites(p, sites, false);
  for (unsigned i = 0; i < n; i++) {
    cJSON *site = FIGURES(cJSON_CreateObject(), {"live_bytes", sites[i]->live_bytes},
                          {"live_blocks", sites[i]->live_blocks}, {"peak_bytes", sites[i]->peak_bytes},
                          {"allocations", sites[i]->n_allocs}, {"allocated_bytes", sites[i]->allocated_bytes});
    cJSON_AddStringToObject(site, "call", sites[i]->call);
    add_place(site, p, sites[i]->place);
    cJSON_AddItemToArray(list, site);
  }
  return list;
}

static cJSON *health_json(const stats_file *p, bool running) {
  static const char *const names[HEALTH_KINDS] = {"allocation_us", "fragmentation", "hit_rate", "zero_copy"};
  cJSON *object = cJSON_CreateObject();
  for (health_kind kind = 0; kind < HEALTH_KINDS; kind++) {
    const health_verdict v = health_of(p, kind, running);
    cJSON *verdict = cJSON_AddObjectToObject(object, names[kind]);
    cJSON_AddNumberToObject(verdict, "value", v.value);
    cJSON_AddStringToObject(verdict, "verdict", health_grade_name(v.grade));
  }
  return object;
}

/* The list is empty if the operator's computation has only one implementation. */
static cJSON *implementations_json(const stats_file *p, unsigned op) {
  cJSON *list = cJSON_CreateArray();
  for (unsigned i = 0; i < stats_choice_count(p); i++) {
    const stats_choice *c = &p->choices[i];
    if (c->op != op) continue;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", c->names);
    cJSON_AddStringToObject(object, "reason", c->reason);
    cJSON_AddItemToArray(list, FIGURES(object, {"launches", c->launches}, {"time_ns", c->time_ns}));
  }
  return list;
}

static cJSON *op_json(const stats_file *p, unsigned number) {
  const stats_op *op = &p->ops[number];
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "name", op->name);
  FIGURES(object, {"launches", op->launches}, {"time_ns", op->time_ns}, {"bytes", op->bytes});
  cJSON_AddItemToObject(object, "implementations", implementations_json(p, number));
  cJSON *outputs = cJSON_AddObjectToObject(object, "outputs");
  FIGURES(outputs, {"peak_bytes", op->outputs_peak_bytes});
  cJSON *workspace = cJSON_AddObjectToObject(object, "workspace");
  FIGURES(workspace, {"peak_bytes", op->workspace_peak_bytes}, {"copies_bytes", op->workspace_copies_bytes},
          {"intermediates_bytes", op->workspace_intermediates_bytes}, {"partials_bytes", op->workspace_partials_bytes});
  cJSON *device = cJSON_AddObjectToObject(object, "device");
  FIGURES(device, {"bytes", op->moved_bytes}, {"operations", op->operations}, {"time_ns", op->device_ns});
  cJSON_AddStringToObject(device, "bound_by", roofline_bound_name(roofline_bound_of(op)));
  cJSON *bounds = cJSON_AddObjectToObject(device, "bound_ns");
  for (int b = 0; b < STATS_N_BOUNDS; b++)
    if (op->bound_ns[b]) FIGURES(bounds, {roofline_bound_name((stats_bound)b), op->bound_ns[b]});
  return object;
}

/* share is null if nothing was transferred between host and device. */
static cJSON *zero_copy_json(const stats_file *p, const char *const *directions) {
  cJSON *object = cJSON_CreateObject();
  cJSON *elided = cJSON_AddObjectToObject(object, "elided");
  for (int i = 0; i < STATS_N_DIRECTIONS; i++)
    FIGURES(cJSON_AddObjectToObject(elided, directions[i]), {"count", p->elided[i].count},
            {"bytes", p->elided[i].bytes});
  const double share = stats_zero_copy_share(p);
  cJSON_AddItemToObject(object, "share", share < 0 ? cJSON_CreateNull() : cJSON_CreateNumber(share));
  return object;
}

static cJSON *advice_json(const stats_file *p) {
  static const char *const names[STATS_N_ADVICE] = {[STATS_ADVICE_UNALIGNED_COPY] = "unaligned_copies"};
  cJSON *object = cJSON_CreateObject();
  for (int i = 0; i < STATS_N_ADVICE; i++) {
    cJSON *advice = cJSON_AddObjectToObject(object, names[i]);
    FIGURES(advice, {"count", p->advice[i].count});
    cJSON_AddStringToObject(advice, "first_site", p->advice[i].first_site);
  }
  return object;
}

static cJSON *leak_json(const stats_file *p, const stats_leak *l) {
  cJSON *object = cJSON_CreateObject();
  if (l->device >= 0)
    cJSON_AddNumberToObject(object, "device", l->device);
  else
    cJSON_AddNullToObject(object, "device"); /* pinned or managed host memory; "call" tells which */
  FIGURES(object, {"address", l->address}, {"size_bytes", l->size_bytes}, {"number", l->number});
  cJSON_AddStringToObject(object, "call", l->call);
  cJSON_AddStringToObject(object, "site", l->site);
  add_place(object, p, l->place);
  return object;
}

static void memory_json(cJSON *object, const stats_file *p, bool running) {
  cJSON *devices = cJSON_AddArrayToObject(object, "devices");
  for (unsigned i = 0; i < stats_device_count(p); i++) cJSON_AddItemToArray(devices, heap_json(&p->device[i], running));
  cJSON_AddItemToObject(object, "pinned", heap_json(&p->pinned, running));
  cJSON_AddItemToObject(object, "managed", heap_json(&p->managed, running));
  cJSON_AddItemToObject(object, "pools", pools_json(p, running));
  cJSON_AddItemToObject(object, "stream_memory", streams_json(p, running));
  cJSON_AddItemToObject(object, "refused", summary_refused_json(p));
  cJSON_AddItemToObject(object, "sites", sites_json(p));
  cJSON_AddItemToObject(object, "health", health_json(p, running));
  FIGURES(object, {"wrong_frees", p->n_bad_frees});
  if (*p->leak_report) cJSON_AddStringToObject(object, "memory_report", format_text(p->leak_report));
}

/* Lists the first STATS_MAX_ERRORS kinds; "errors" counts all errors. */
static cJSON *error_kinds_json(const stats_file *p) {
  cJSON *kinds = cJSON_CreateArray();
  for (unsigned i = 0; i < stats_error_count(p); i++) {
    const stats_error *e = &p->error_rows[i];
    cJSON *kind = cJSON_CreateObject();
    cJSON_AddStringToObject(kind, "call", e->call);
    FIGURES(kind, {"code", (uint64_t)e->code}, {"count", e->count});
    cJSON_AddStringToObject(kind, "first_message", e->first_words);
    cJSON_AddItemToArray(kinds, kind);
  }
  return kinds;
}

/* Lists the first STATS_MAX_FAULTS; "count" counts all. */
static cJSON *injected_json(const stats_file *p) {
  cJSON *object = cJSON_CreateObject();
  FIGURES(object, {"count", p->n_faults});
  cJSON *events = cJSON_AddObjectToObject(object, "events");
  for (fault_place i = 0; i < N_FAULT_PLACES; i++) FIGURES(events, {fault_word(i), p->fault_events[i]});
  cJSON *failures = cJSON_AddArrayToObject(object, "failures");
  for (unsigned i = 0; i < faults_listed(p); i++) {
    const stats_fault *f = &p->faults[i];
    if (f->place >= N_FAULT_PLACES) continue;
    cJSON *failure = cJSON_CreateObject();
    cJSON_AddStringToObject(failure, "place", fault_word(f->place));
    FIGURES(failure, {"number", f->number});
    if (*f->name) cJSON_AddStringToObject(failure, "operator", f->name);
    cJSON_AddStringToObject(failure, "spec", f->spec);
    cJSON_AddItemToArray(failures, failure);
  }
  return object;
}

static cJSON *process_json(const stats_file *p, process_state state) {
  static const char *const directions[STATS_N_DIRECTIONS] = {"host_to_device", "device_to_host", "device_to_device",
                                                             "host_to_host"};
  cJSON *object = cJSON_CreateObject();
  cJSON_AddNumberToObject(object, "pid", p->pid);
  cJSON_AddStringToObject(object, "program", p->program);
  cJSON_AddStringToObject(object, "state", process_state_name(state));
  cJSON_AddStringToObject(object, "soc_name", p->soc_name);
  if (p->ended_ns)
    cJSON_AddNumberToObject(object, "duration_ns", (double)stats_duration_ns(p));
  else
    cJSON_AddNullToObject(object, "duration_ns");
  FIGURES(object, {"contexts", p->n_contexts}, {"streams", p->n_streams}, {"events", p->n_events},
          {"threads", p->n_threads}, {"errors", p->n_errors});
  cJSON_AddItemToObject(object, "error_kinds", error_kinds_json(p));
  cJSON_AddItemToObject(object, "injected", injected_json(p));
  memory_json(object, p, state == PROCESS_RUNNING);
  cJSON *copies = cJSON_AddObjectToObject(object, "copies");
  for (int i = 0; i < STATS_N_DIRECTIONS; i++)
    FIGURES(cJSON_AddObjectToObject(copies, directions[i]), {"count", p->copies[i].count},
            {"bytes", p->copies[i].bytes}, {"pageable_count", p->copies[i].pageable_count},
            {"pageable_bytes", p->copies[i].pageable_bytes});
  cJSON_AddItemToObject(object, "communication", summary_comm_json(p));
  cJSON_AddItemToObject(object, "dry", summary_dry_json(p));
  cJSON_AddItemToObject(object, "feeds", summary_feed_json(p));
  cJSON_AddItemToObject(object, "zero_copy", zero_copy_json(p, directions));
  cJSON_AddItemToObject(object, "advice", advice_json(p));
  cJSON *ops = cJSON_AddArrayToObject(object, "operators");
  for (unsigned i = 0; i < stats_op_count(p); i++) cJSON_AddItemToArray(ops, op_json(p, i));
  if (state != PROCESS_ENDED) { /* unknown */
    cJSON_AddNullToObject(object, "leaks");
    return object;
  }
  cJSON *leaks = cJSON_AddObjectToObject(object, "leaks");
  FIGURES(leaks, {"count", p->n_leaks});
  cJSON *blocks = cJSON_AddArrayToObject(leaks, "blocks"); /* at most STATS_MAX_LEAKS */
  for (unsigned i = 0; i < stats_leak_count(p); i++) cJSON_AddItemToArray(blocks, leak_json(p, &p->leaks[i]));
  return object;
}

int summary_write_json(FILE *out, const run_report *run) {
  cJSON *root = cJSON_CreateObject();
  cJSON_AddStringToObject(root, OUTPUT_JSON_AUTHOR, "cannon run");
  cJSON *arguments = cJSON_AddArrayToObject(root, "command");
  for (char *const *arg = run->argv; *arg; arg++)
    cJSON_AddItemToArray(arguments, cJSON_CreateString(format_text(*arg)));
  cJSON_AddNumberToObject(root, "pid", run->pid);
  cJSON_AddItemToObject(root, "exit_status",
                        WIFEXITED(run->status) ? cJSON_CreateNumber(WEXITSTATUS(run->status)) : cJSON_CreateNull());
  cJSON_AddItemToObject(root, "signal",
                        WIFSIGNALED(run->status) ? cJSON_CreateNumber(WTERMSIG(run->status)) : cJSON_CreateNull());
  FIGURES(root, {"wall_ns", run->wall_ns});
  cJSON *processes = cJSON_AddArrayToObject(root, "processes");
  for (size_t i = 0; i < run->stats.count; i++)
    cJSON_AddItemToArray(processes,
                         process_json(run->stats.process[i], stats_process_state(run->stats.process[i], run->pid)));
  if (run->check) cJSON_AddItemReferenceToObject(root, "check", run->check);

  char *text = cJSON_Print(root);
  cJSON_Delete(root);
  if (!text) {
    errno = ENOMEM;
    return -1;
  }
  int failed = fprintf(out, "%s\n", text) < 0 || fflush(out);
  free(text);
  return failed ? -1 : 0;
}
