/* SPDX-License-Identifier: Apache-2.0 */
#include "op/account.h"

#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/sync.h"
#include "memory/memory.h"
#include "op/choice.h"
#include "op/dry_launch.h"
#include "runtime/device.h"
#include "runtime/dry/dry.h"
#include "runtime/dry/dry_clock.h"
#include "runtime/dry/roofline.h"
#include "runtime/memory/residency.h"
#include "trace/stats_write.h"

static stats_op *account_row(op *o) {
  stats_op *row = atomic_load_explicit(&o->row, memory_order_relaxed);
  if (!row) atomic_store(&o->row, row = trace_row(o->name));
  return row;
}

/* ---- phase one --------------------------------------------------------------------------------------------------- */

static void note_operand(executor *e, operand *p, const tensor *t) {
  p->moved_bytes = 0;
  if (!t) return;
  const uint64_t bytes = dtype_bytes(t->dtype), own = (uint64_t)t->n * bytes;
  p->moved_bytes = own < p->extent_bytes ? own : p->extent_bytes;
  if (!e->element_bytes) e->element_bytes = (uint32_t)bytes;
  if (e->n_elements < (uint64_t)t->n) e->n_elements = (uint64_t)t->n;
}

void account_prepare(executor *e, const op_arg *a) {
  e->n_elements = 0;
  e->element_bytes = 0;
  for (operand *p = e->operands; p < e->operands + e->n_operands; ++p) note_operand(e, p, executor_tensor(e, p, a));
}

void account_indexed(executor *e, int number, uint64_t n, uint64_t element_bytes) {
  if (likely(!trace_is_on())) return;
  operand *p = &e->operands[number];
  if (p->moved_bytes > n * element_bytes) p->moved_bytes = n * element_bytes;
  if (e->n_elements > n) e->n_elements = n;
}

/* ---- the device's time ------------------------------------------------------------------------------------------- */

/* The content of each device's L2 cache, by the addresses that kernels use, as tasks run one after the other. */
static struct {
  spinlock lock;
  residency l2;
} devices[SPACE_MAX_DEVICES] = {[0 ... SPACE_MAX_DEVICES - 1] = {.lock = SPINLOCK_INITIALIZER(ACCOUNT)}};

static uint64_t touch_l2(int device, const void *view, uint64_t bytes) {
  spin_lock(&devices[device].lock);
  const uint64_t held = residency_touch(&devices[device].l2, device_profile_of_all()->l2_bytes, (uintptr_t)view, bytes);
  spin_unlock(&devices[device].lock);
  return held;
}

void account_prefetch(const void *view, uint64_t bytes) {
  const int device = memory_device_of_view(view);
  if (device >= 0) (void)touch_l2(device, view, bytes);
}

/* An operand that is read and written passes memory twice. */
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

static void use_device_memory(const operand *p, int device, const void *view, roofline_work *w) {
  const uint64_t held = touch_l2(device, view, p->extent_bytes), bytes = p->moved_bytes * n_passes(p);
  const uint64_t hits = (uint64_t)((double)bytes * ((double)held / (double)p->extent_bytes));
  w->l2_bytes += hits;
  w->memory_bytes += bytes - hits;
}

static void count_device_time(stats_op *row, const executor *e, void *const *view) {
  roofline_work w = {.multiply_adds = e->multiply_adds,
                     .elements = e->n_elements,
                     .element_bytes = e->element_bytes ? e->element_bytes : 1};
  for (int i = 0; i < e->n_operands; ++i) {
    const operand *p = &e->operands[i];
    if (!p->extent_bytes) continue;
    const int device = memory_device_of_view(view[i]);
    if (device >= 0)
      use_device_memory(p, device, view[i], &w);
    else
      use_host_memory(p, &w);
  }
  const roofline_time t = roofline_of(device_profile_of_all(), &w);
  trace_add(&row->moved_bytes, w.host_bytes + w.memory_bytes + w.l2_bytes);
  trace_add(&row->operations, roofline_operations(&w));
  trace_add(&row->device_ns, t.ns);
  trace_add(&row->bound_ns[t.bound], t.ns);
  dry_spend(t.ns, roofline_operations(&w));
}

/* ---- implementations --------------------------------------------------------------------------------------------- */

/* The row of an operator's launches with these choices. An operator's are a list that only grows; they are never freed.
 */
typedef struct account_choice {
  const executor_choice *choices[EXECUTOR_CHOICES]; /* NULL: there is no second one */
  stats_choice *row;
  struct account_choice *next;
} account_choice;

/* Two threads may make an entry each, which then have the same row. */
static account_choice *new_choice(const executor *e, const stats_op *op, account_choice wanted) {
  choice_text text;
  account_choice *const made = malloc(sizeof *made);
  if (!made) return NULL;
  choice_describe(e, &text);
  wanted.row = trace_choice_row(op, text.names, text.reason);
  wanted.next = atomic_load(&e->op->choices);
  *made = wanted;
  while (!atomic_compare_exchange_weak(&e->op->choices, &made->next, made)) {
  }
  return made;
}

static void count_choice(const executor *e, const stats_op *op, uint64_t ns) {
  account_choice wanted = {0};
  for (int i = 0; i < e->n_choices; ++i) wanted.choices[i] = e->choices[i];
  account_choice *c = atomic_load(&e->op->choices);
  while (c && memcmp(c->choices, wanted.choices, sizeof c->choices) != 0) c = c->next;
  if (!c) c = new_choice(e, op, wanted);
  if (!c || !c->row) return;
  trace_add(&c->row->launches, 1);
  trace_add(&c->row->time_ns, ns);
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static uint64_t written_bytes(const executor *e) {
  uint64_t bytes = 0;
  for (int i = 0; i < e->n_operands; ++i)
    if (e->operands[i].flags & ARG_WRITTEN && e->operands[i].extent_bytes) bytes += e->operands[i].moved_bytes;
  return bytes;
}

status account_run(const executor *e, void *const *view, void *scratch) {
  stats_op *row = account_row(e->op);
  count_device_time(row, e, view);
  const uint64_t start = now_ns();
  const status st = dry_is_on() ? dry_launch(e, view, scratch, row) : e->run(e, view, scratch);
  const uint64_t ns = now_ns() - start;
  trace_add(&row->time_ns, ns);
  trace_add(&row->launches, 1);
  trace_add(&row->bytes, e->touched_bytes);
  trace_max(&row->outputs_peak_bytes, written_bytes(e));
  if (e->n_choices) count_choice(e, row, ns);
  if (e->workspace_bytes > atomic_load_explicit(&row->workspace_peak_bytes, memory_order_relaxed)) {
    atomic_store(&row->workspace_peak_bytes, e->workspace_bytes);
    atomic_store(&row->workspace_copies_bytes, e->workspace.copies);
    atomic_store(&row->workspace_intermediates_bytes, e->workspace.intermediates);
    atomic_store(&row->workspace_partials_bytes, e->workspace.partials);
  }
  return st;
}
