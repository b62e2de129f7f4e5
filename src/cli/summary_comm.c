/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/summary_comm.h"

#include <inttypes.h>
#include <stdbool.h>

#include "cli/figures.h"
#include "comm/comm_types.h"

void summary_comm(FILE *out, const stats_file *p) {
  bool any = false;
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
            time_ns ? 100.0 * (double)c->exposed_ns / (double)time_ns : 0.0);
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
    cJSON_AddItemToArray(list, object);
  }
  return list;
}
