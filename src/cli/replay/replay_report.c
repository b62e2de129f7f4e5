/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay/replay_report.h"

#include <cjson/cJSON.h>
#include <inttypes.h>

#include "cli/figures.h"
#include "cli/output.h"

uint64_t replay_cap(const replay_report *r) { return r->cap_bytes ? r->cap_bytes : replay_roomy_cap(r->trace); }

/* Returns "-" for an unknown number. The buffer is static. */
static const char *calls_text(uint64_t n) {
  static char text[24];
  snprintf(text, sizeof text, "%" PRIu64, n);
  return n == UNKNOWN_CALLS ? "-" : text;
}

static double over_live(const replay_result *r) {
  return r->peak_live_bytes ? (double)r->peak_committed_bytes / (double)r->peak_live_bytes : 0;
}

void replay_print(FILE *f, const replay_report *r) {
  const trace *t = r->trace;
  fprintf(f, "%s: %zu events, %" PRIu32 " blocks, peak live %s", format_text(r->path), t->n_events, t->n_blocks,
          format_bytes(t->peak_live_bytes));
  if (t->n_streams)
    fprintf(f, ", %" PRIu64 " streams, %" PRIu64 " event operations, %" PRIu64 " waits by the host", t->n_streams,
            t->n_edges, t->n_waits);
  if (r->cap_bytes) fprintf(f, ", cap %s", format_bytes(r->cap_bytes));
  fprintf(f, "\n\n%-10s %9s %9s %9s %10s %10s %8s %8s\n", "", "ns/event", "warm", "in calls", "committed", "over live",
          "calls", "refused");
  for (const replay_result *a = r->result; a < r->result + r->n; ++a) {
    fprintf(f, "%-10s %9.1f %9.1f %9.1f %10s %10.3f %8s %8" PRIu64, a->allocator->name, a->times.cold_ns,
            a->times.warm_ns, a->times.warm_call_ns, format_bytes(a->peak_committed_bytes), over_live(a),
            calls_text(a->n_calls), a->n_refused);
    if (a->n_refused) fprintf(f, "  first at event %zu", a->first_refused);
    fprintf(f, "\n");
  }
}

/* cJSON stores numbers as doubles, which are exact up to 2^53, more than any trace has. */
static void add_calls(cJSON *o, const char *name, uint64_t n) {
  cJSON_AddItemToObject(o, name, n == UNKNOWN_CALLS ? cJSON_CreateNull() : cJSON_CreateNumber((double)n));
}

static cJSON *result_json(const replay_result *r) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "name", r->allocator->name);
  cJSON_AddStringToObject(o, "about", r->allocator->about);
  cJSON_AddNumberToObject(o, "cold_ns_per_event", r->times.cold_ns);
  cJSON_AddNumberToObject(o, "warm_ns_per_event", r->times.warm_ns);
  cJSON_AddNumberToObject(o, "cold_call_ns_per_event", r->times.cold_call_ns);
  cJSON_AddNumberToObject(o, "warm_call_ns_per_event", r->times.warm_call_ns);
  cJSON_AddNumberToObject(o, "peak_committed_bytes", (double)r->peak_committed_bytes);
  cJSON_AddNumberToObject(o, "peak_live_bytes", (double)r->peak_live_bytes);
  cJSON_AddNumberToObject(o, "committed_over_live", over_live(r));
  add_calls(o, "calls", r->n_calls);
  add_calls(o, "warm_calls", r->times.n_warm_calls);
  cJSON_AddNumberToObject(o, "refused", (double)r->n_refused);
  if (r->n_refused) cJSON_AddNumberToObject(o, "first_refused_event", (double)r->first_refused);
  return o;
}

char *replay_json(const replay_report *r) {
  const trace *t = r->trace;
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, OUTPUT_JSON_AUTHOR, "cannon replay");
  cJSON_AddStringToObject(o, "trace", format_text(r->path));
  cJSON_AddNumberToObject(o, "events", (double)t->n_events);
  cJSON_AddNumberToObject(o, "blocks", t->n_blocks);
  cJSON_AddNumberToObject(o, "peak_live_bytes", (double)t->peak_live_bytes);
  cJSON_AddNumberToObject(o, "streams", (double)t->n_streams);
  cJSON_AddNumberToObject(o, "event_steps", (double)t->n_edges);
  cJSON_AddNumberToObject(o, "host_waits", (double)t->n_waits);
  if (r->cap_bytes)
    cJSON_AddNumberToObject(o, "cap_bytes", (double)r->cap_bytes);
  else
    cJSON_AddNullToObject(o, "cap_bytes");
  cJSON *list = cJSON_AddArrayToObject(o, "allocators");
  for (int i = 0; i < r->n; ++i) cJSON_AddItemToArray(list, result_json(&r->result[i]));
  char *text = cJSON_Print(o);
  cJSON_Delete(o);
  return text;
}

bool replay_write_json(FILE *f, const replay_report *r) {
  char *text = replay_json(r);
  const bool good = text && fprintf(f, "%s\n", text) > 0;
  cJSON_free(text);
  return good;
}
