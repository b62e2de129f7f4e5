#include "op/account.h"

#include "base/sync.h"
#include "memory/memory.h"
#include "runtime/device.h"
#include "runtime/residency.h"
#include "runtime/roofline.h"
#include "trace/trace.h"

static stats_op *row_of(op *o) {
  stats_op *row = atomic_load_explicit(&o->row, memory_order_relaxed);
  if (!row) atomic_store(&o->row, row = trace_row(o->name));
  return row;
}

/* ---- at the launch ----------------------------------------------------------------------------------------------- */

/* What the L2 of each device holds, in the order of launches. */
static struct {
  spinlock lock;
  residency l2;
} devices[SPACE_MAX_DEVICES];

static uint64_t touch_l2(int device, uintptr_t start, uint64_t bytes) {
  if ((unsigned)device >= SPACE_MAX_DEVICES) return 0;
  spin_lock(&devices[device].lock);
  const uint64_t held = residency_touch(&devices[device].l2, device_profile_of_all()->l2_bytes, start, bytes);
  spin_unlock(&devices[device].lock);
  return held;
}

void account_prefetch(int device, const void *start, uint64_t bytes) {
  (void)touch_l2(device, (uintptr_t)start, bytes);
}

/* Reads and writes of an operand count once each. */
static unsigned n_passes(const operand *p) { return !!(p->flags & ARG_READ) + !!(p->flags & ARG_WRITTEN); }

static void count_elided(stats_direction direction, uint64_t bytes) {
  stats_elided *e = &trace_stats()->elided[direction];
  trace_add(&e->count, 1);
  trace_add(&e->bytes, bytes);
}

static void use_host_memory(const operand *p, roofline_work *w) {
  if (p->flags & ARG_READ) count_elided(STATS_H2D, p->moved_bytes);
  if (p->flags & ARG_WRITTEN) count_elided(STATS_D2H, p->moved_bytes);
  w->host_bytes += p->moved_bytes * n_passes(p);
}

static void use_device_memory(const operand *p, const void *start, roofline_work *w) {
  const uint64_t held = touch_l2(memory_device_of(start), (uintptr_t)start, p->extent_bytes);
  const uint64_t bytes = p->moved_bytes * n_passes(p);
  const uint64_t hits = (uint64_t)((double)bytes * ((double)held / (double)p->extent_bytes));
  w->l2_bytes += hits;
  w->memory_bytes += bytes - hits;
}

void account_launch(const executor *e) {
  const device_profile *profile = device_profile_of_all();
  stats_op *row = row_of(e->op);
  roofline_work w = {.multiply_adds = e->multiply_adds,
                     .elements = e->n_elements,
                     .element_bytes = e->element_bytes ? e->element_bytes : 1};
  for (int i = 0; i < e->n_operands; ++i) {
    const operand *p = &e->operands[i];
    if (!p->extent_bytes) continue;
    const char *start = (const char *)p->data + p->offset_bytes;
    if (memory_place_of(start) == PLACE_DEVICE)
      use_device_memory(p, start, &w);
    else
      use_host_memory(p, &w);
  }
  const roofline_time t = roofline_of(profile, &w);
  trace_add(&row->moved_bytes, w.host_bytes + w.memory_bytes + w.l2_bytes);
  trace_add(&row->operations, roofline_operations(&w));
  trace_add(&row->device_ns, t.ns);
  trace_add(&row->bound_ns[t.bound], t.ns);
}

/* ---- at the run -------------------------------------------------------------------------------------------------- */

status account_run(const executor *e, void *const *view, void *scratch) {
  stats_op *row = row_of(e->op);
  const uint64_t start = now_ns();
  const status st = e->run(e, view, scratch);
  trace_add(&row->time_ns, now_ns() - start);
  trace_add(&row->launches, 1);
  trace_add(&row->bytes, e->touched_bytes);
  if (e->workspace_bytes > atomic_load_explicit(&row->workspace_peak_bytes, memory_order_relaxed)) {
    atomic_store(&row->workspace_peak_bytes, e->workspace_bytes);
    atomic_store(&row->workspace_copies_bytes, e->workspace.copies);
    atomic_store(&row->workspace_intermediates_bytes, e->workspace.intermediates);
    atomic_store(&row->workspace_partials_bytes, e->workspace.partials);
  }
  return st;
}
