/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/summary_comm.h"

#include <inttypes.h>
#include <stdbool.h>

#include "cli/figures.h"
#include "comm/comm_types.h"

static double comm_percent(uint64_t part, uint64_t whole) { return whole ? 100.0 * (double)part / (double)whole : 0; }

/* Of a dry run: times are those of the model. */
static void print_dry(FILE *out, const stats_file *p) {
  fprintf(out, "  communication %-14s %10s %10s %10s %7s %8s %10s\n", "at least", "calls", "sent", "time", "share",
          "exposed", "waited");
  for (int kind = 0; kind < COMM_N_KINDS; kind++) {
    const stats_collective *c = &p->collectives[kind];
    if (!c->calls) continue;
    fprintf(out, "              %-16s %10" PRIu64 " %10s %10s %5.1f %% %6.1f %% %10s\n", comm_kind_name(kind), c->calls,
            format_bytes(c->sent_bytes), format_ns(c->dry_ns), comm_percent(c->dry_ns, p->dry.latest_ns),
            comm_percent(c->dry_exposed_ns, c->dry_ns), format_ns(c->dry_waited_ns));
  }
}

void summary_comm(FILE *out, const stats_file *p) {
  bool any = false;
  if (p->dry.on) {
    for (int kind = 0; kind < COMM_N_KINDS; kind++) any |= p->collectives[kind].calls != 0;
    if (any) print_dry(out, p);
    return;
  }
  for (int kind = 0; kind < COMM_N_KINDS; kind++) {
    const stats_collective *c = &p->collectives[kind];
    const uint64_t calls = c->calls, time_ns = c->time_ns;
    if (!calls) continue;
    if (!any)
      fprintf(out, "  communication %-14s %10s %10s %10s %10s %8s\n", "", "calls", "sent", "received", "time",
              "exposed");
    any = true;
    fprintf(out, "              %-16s %10" PRIu64 " %10s %10s %10s %6.1f %%\n", comm_kind_name(kind), calls,
            format_bytes(c->sent_bytes), format_bytes(c->received_bytes), format_ns(time_ns),
            comm_percent(c->exposed_ns, time_ns));
  }
}

cJSON *summary_comm_json(const stats_file *p) {
  cJSON *list = cJSON_CreateArray();
  for (int kind = 0; kind < COMM_N_KINDS; kind++) {
    const stats_collective *c = &p->collectives[kind];
    if (!c->calls) continue;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "kind", comm_kind_name(kind));
    cJSON_AddNumberToObject(object, "calls", (double)c->calls);
    cJSON_AddNumberToObject(object, "sent_bytes", (double)c->sent_bytes);
    cJSON_AddNumberToObject(object, "received_bytes", (double)c->received_bytes);
    cJSON_AddNumberToObject(object, "time_ns", (double)c->time_ns);
    cJSON_AddNumberToObject(object, "exposed_ns", (double)c->exposed_ns);
    if (p->dry.on) {
      cJSON *model = cJSON_AddObjectToObject(object, "device");
      cJSON_AddNumberToObject(model, "time_ns", (double)c->dry_ns);
      cJSON_AddNumberToObject(model, "exposed_ns", (double)c->dry_exposed_ns);
      cJSON_AddNumberToObject(model, "waited_ns", (double)c->dry_waited_ns);
    }
    cJSON_AddItemToArray(list, object);
  }
  return list;
}
