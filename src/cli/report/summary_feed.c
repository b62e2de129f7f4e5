/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/summary_feed.h"

#include <inttypes.h>
#include <stdbool.h>

#include "cli/figures.h"

/* Time between the first request for data and the last hand-over; 0: nothing was handed over. */
static uint64_t feed_span_ns(const stats_feed *f) { return f->last_ns > f->first_ns ? f->last_ns - f->first_ns : 0; }

static double feed_waited_percent(const stats_feed *f) {
  const uint64_t span_ns = feed_span_ns(f);
  return span_ns ? 100.0 * (double)f->device_ns / (double)span_ns : 0.0;
}

void summary_feed(FILE *out, const stats_file *p) {
  bool any = false;
  for (int i = 0; i < STATS_MAX_FEEDS; i++) {
    const stats_feed *f = &p->feeds[i];
    if (f->state == STATS_ROW_UNUSED) continue;
    if (!any)
      fprintf(out, "  data        %-16s %8s %10s %10s %10s %10s %14s\n", "", "batches", "records", "read", "decoding",
              "idle", "device waited");
    any = true;
    fprintf(out, "              %-16.31s %8" PRIu64 " %10" PRIu64 " %10s %10s %10s %10s, %4.1f %%\n", f->name,
            f->n_batches, f->n_records, format_bytes(f->record_bytes), format_ns(f->decode_ns), format_ns(f->full_ns),
            format_ns(f->device_ns), feed_waited_percent(f));
  }
}

cJSON *summary_feed_json(const stats_file *p) {
  cJSON *list = cJSON_CreateArray();
  for (int i = 0; i < STATS_MAX_FEEDS; i++) {
    const stats_feed *f = &p->feeds[i];
    if (f->state == STATS_ROW_UNUSED) continue;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", f->name);
    cJSON_AddNumberToObject(object, "device", f->device);
    cJSON_AddNumberToObject(object, "batches", (double)f->n_batches);
    cJSON_AddNumberToObject(object, "records", (double)f->n_records);
    cJSON_AddNumberToObject(object, "read_bytes", (double)f->record_bytes);
    cJSON_AddNumberToObject(object, "decode_ns", (double)f->decode_ns);
    cJSON_AddNumberToObject(object, "full_ns", (double)f->full_ns);
    cJSON_AddNumberToObject(object, "host_wait_ns", (double)f->host_ns);
    cJSON_AddNumberToObject(object, "device_wait_ns", (double)f->device_ns);
    cJSON_AddNumberToObject(object, "span_ns", (double)feed_span_ns(f));
    cJSON_AddItemToArray(list, object);
  }
  return list;
}
