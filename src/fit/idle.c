/* SPDX-License-Identifier: Apache-2.0 */
#include "fit/idle.h"

#include <stdlib.h>

#include "fit/must_alloc.h"

/* ---- time -------------------------------------------------------------------------------------------------------- */

void idle_clock_make(const history *h, idle_clock *out) {
  *out = (idle_clock){false, must_alloc(h->n_tasks, sizeof *out->before)};
  uint64_t *sum = must_alloc(h->n_devices + (size_t)1, sizeof *sum);
  for (size_t i = 0; i < h->n_tasks; ++i) {
    const history_task *t = &h->tasks[i];
    uint64_t *device = &sum[t->device < h->n_devices ? t->device : h->n_devices];
    out->before[i] = *device;
    *device += t->device_ns;
    out->is_of_device |= t->device_ns > 0;
  }
  free(sum);
}

void idle_clock_free(idle_clock *clock) {
  free(clock->before);
  *clock = (idle_clock){0};
}

static uint64_t time_between(const history *h, const idle_clock *clock, uint32_t from, uint32_t to) {
  const history_task *a = &h->tasks[from], *b = &h->tasks[to];
  if (!clock->is_of_device) return b->host_ns > a->host_ns ? b->host_ns - a->host_ns : 0;
  const uint64_t end = clock->before[from] + a->device_ns;
  return clock->before[to] > end ? clock->before[to] - end : 0;
}

/* ---- waits ------------------------------------------------------------------------------------------------------- */

/* Finds the longest wait of one block. Steps keep uses of different passes apart: one forward and the next backward use
 * of a parameter are of the same step, and its backward and next forward use are no wait. */
static bool find_wait(const history *h, const idle_clock *clock, uint32_t block, idle_wait *out) {
  const history_block *b = &h->blocks[block];
  uint32_t forward = HISTORY_NONE;
  *out = (idle_wait){block, HISTORY_NONE, HISTORY_NONE, 0};
  for (uint32_t i = b->first_use; i < b->first_use + b->n_uses; ++i) {
    const uint32_t task = h->accesses[h->uses[i]].task;
    const history_task *t = &h->tasks[task];
    if (t->phase == HISTORY_FORWARD) forward = task;
    if (t->phase != HISTORY_BACKWARD || forward == HISTORY_NONE) continue;
    if (h->tasks[forward].step == t->step) {
      const uint64_t ns = time_between(h, clock, forward, task);
      if (out->from == HISTORY_NONE || ns > out->ns) *out = (idle_wait){block, forward, task, ns};
    }
    forward = HISTORY_NONE;
  }
  return out->from != HISTORY_NONE;
}

static bool may_wait(history_class class) {
  return class == HISTORY_ACTIVATION || class == HISTORY_TEMPORARY || class == HISTORY_OTHER;
}

static int compare_waits(const void *left, const void *right, void *context) {
  const history *h = context;
  const idle_wait *a = left, *b = right;
  const double x = (double)h->blocks[a->block].bytes * (double)a->ns;
  const double y = (double)h->blocks[b->block].bytes * (double)b->ns;
  if (x > y || x < y) return x > y ? -1 : 1;
  return a->block < b->block ? -1 : a->block > b->block;
}

size_t idle_waits(const history *h, const idle_clock *clock, uint32_t device, uint32_t step, idle_wait **out) {
  size_t n = 0;
  *out = must_alloc(h->n_blocks, sizeof **out);
  for (uint32_t i = 0; i < h->n_blocks; ++i) {
    const history_block *b = &h->blocks[i];
    if (b->device != device || b->is_segment || !may_wait(b->class) || !find_wait(h, clock, i, &(*out)[n])) continue;
    n += step == HISTORY_NONE || h->tasks[(*out)[n].from].step == step;
  }
  qsort_r(*out, n, sizeof **out, compare_waits, (void *)h);
  return n;
}

/* ---- what nobody reads ------------------------------------------------------------------------------------------- */

static bool may_be_idle(const history_block *b, uint32_t device, uint64_t last_moment) {
  return b->device == device && !b->is_segment && b->born < last_moment && b->class != HISTORY_PARAMETER &&
         b->class != HISTORY_OPTIMIZER && b->class != HISTORY_WORKSPACE && b->class != HISTORY_CACHE;
}

static bool is_read(const history *h, const history_block *b) {
  for (uint32_t i = b->first_use; i < b->first_use + b->n_uses; ++i)
    if (h->accesses[h->uses[i]].access & (HISTORY_READS | HISTORY_SCRATCH)) return true;
  return false;
}

/* Says of a block in what way it is idle; false if it isn't. */
static bool look_at_block(const history *h, const idle_clock *clock, uint32_t block, uint64_t moment, idle_block *out) {
  const history_block *b = &h->blocks[block];
  const uint32_t last = b->n_uses ? h->accesses[h->uses[b->first_use + b->n_uses - 1]].task : HISTORY_NONE;
  *out = (idle_block){block, IDLE_NEVER_USED, last, 0};
  if (last == HISTORY_NONE) return true;
  out->kind = IDLE_NEVER_READ;
  if (!is_read(h, b)) return true;
  out->kind = IDLE_KEPT;
  if (b->born > moment || b->died <= moment || b->died == HISTORY_NEVER || h->tasks[last].moment >= moment)
    return false;
  const uint32_t now = (uint32_t)history_first_task(h, moment + 1) - 1; /* the last task not after the moment */
  out->ns = now > last ? time_between(h, clock, last, now) : 0;
  return true;
}

static int compare_idle(const void *left, const void *right, void *context) {
  const history *h = context;
  const idle_block *a = left, *b = right;
  const uint64_t x = h->blocks[a->block].bytes, y = h->blocks[b->block].bytes;
  if (x != y) return x > y ? -1 : 1;
  return a->block < b->block ? -1 : a->block > b->block;
}

size_t idle_blocks(const history *h, const idle_clock *clock, uint32_t device, uint64_t moment, idle_block **out) {
  const uint64_t last_moment = h->n_tasks ? h->tasks[h->n_tasks - 1].moment : 0;
  size_t n = 0;
  *out = must_alloc(h->n_blocks, sizeof **out);
  for (uint32_t i = 0; i < h->n_blocks; ++i)
    if (may_be_idle(&h->blocks[i], device, last_moment) && look_at_block(h, clock, i, moment, &(*out)[n])) ++n;
  qsort_r(*out, n, sizeof **out, compare_idle, (void *)h);
  return n;
}
