/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks of a recording, with the memory that they use and the time that they take, and regions of larger blocks. */
#include "trace/record/record_names.h"
#include "trace/record/record_private.h"

bool record_wants_tasks;

/* The ranges of a task, in a record as many as fit. */
static void put_accesses(record *r, const hook_task *t) {
  uint8_t payload[RECORD_MAX_PAYLOAD];
  uint64_t last = 0;
  r->payload = payload;
  for (uint32_t i = 0; i < t->n_accesses; ++i) {
    const hook_access *a = &t->accesses[i];
    const record_access told = {a->address, a->bytes, a->access & (HOOK_READS | HOOK_WRITES | HOOK_SCRATCH)};
    if (!record_put_access(payload, &r->payload_bytes, told, last)) {
      record_put(r);
      *r = (record){.kind = RECORD_ACCESSES, .payload = payload};
      record_put_access(payload, &r->payload_bytes, told, 0);
    }
    last = a->address;
  }
  record_put(r);
}

void record_task(const hook_task *t) {
  const uint32_t site = record_site();
  record_lock();
  record r = {.kind = RECORD_TASK,
              .device = t->device,
              .stream = t->stream,
              .position = t->position,
              .name = record_text(t->name),
              .site = site};
  put_accesses(&r, t);
  if (t->stream == HOOK_NO_STREAM)
    record_put(
        &(record){.kind = RECORD_TASK_RAN, .device = t->device, .stream = RECORD_NO_STREAM, .model_ns = t->model_ns});
  record_unlock();
}

void record_task_ran(const hook_work *w) {
  record_put(&(record){.kind = RECORD_TASK_RAN,
                       .device = w->device,
                       .stream = w->stream,
                       .position = w->position,
                       .duration_ns = w->end_ns - w->begin_ns,
                       .model_ns = w->model_ns,
                       .operations = w->operations});
}

/* ---- regions ----------------------------------------------------------------------------------------------------- */

void record_region(const hook_region *region) {
  const uint32_t site = record_site();
  record_write(&(record){.kind = RECORD_REGION,
                         .device = region->device,
                         .address = region->address,
                         .bytes = region->bytes,
                         .site = site});
}

void record_region_end(int device, uintptr_t address) {
  const uint32_t site = record_site();
  record_write(&(record){.kind = RECORD_REGION_END, .device = device, .address = address, .site = site});
}
