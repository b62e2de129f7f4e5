/* SPDX-License-Identifier: Apache-2.0 */
#include "fit/curve.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fit/must_alloc.h"

static int compare_changes(const void *left, const void *right) {
  const curve_change *a = left, *b = right;
  if (a->moment != b->moment) return a->moment < b->moment ? -1 : 1;
  if (a->is_birth != b->is_birth) return a->is_birth ? 1 : -1;
  return a->block < b->block ? -1 : a->block > b->block;
}

void curve_make(const history *h, uint32_t device, curve *c) {
  *c = (curve){.h = h, .device = device, .changes = must_alloc(2 * h->n_blocks, sizeof *c->changes)};
  for (uint32_t i = 0; i < h->n_blocks; ++i) {
    const history_block *b = &h->blocks[i];
    if (b->device != device || b->died <= b->born) continue;
    c->changes[c->n_changes++] = (curve_change){b->born, b->born_ns, i, true};
    if (b->died != HISTORY_NEVER) c->changes[c->n_changes++] = (curve_change){b->died, b->died_ns, i, false};
  }
  qsort(c->changes, c->n_changes, sizeof *c->changes, compare_changes);
}

void curve_free(curve *c) {
  free(c->changes);
  *c = (curve){0};
}

curve_walk curve_begin(const curve *c) { return (curve_walk){.c = c}; }

/* A recording that was damaged may have tensors outside of their segments' lives; then nothing becomes negative. */
static void update_sums(curve_walk *w) {
  const uint64_t cache = w->segments > w->cut ? w->segments - w->cut : 0;
  w->level.bytes[HISTORY_CACHE] = cache;
  w->level.used = w->plain + w->cut;
  w->level.held = w->level.used + cache;
}

const curve_change *curve_step(curve_walk *w) {
  if (w->next == w->c->n_changes) return NULL;
  const curve_change *change = &w->c->changes[w->next++];
  const history_block *b = &w->c->h->blocks[change->block];
  uint64_t *sum = b->is_segment ? &w->segments : b->segment != HISTORY_NONE ? &w->cut : &w->plain;
  const uint64_t bytes = change->is_birth ? b->bytes : 0 - b->bytes; /* modulo 2^64 */
  *sum += bytes;
  if (!b->is_segment) w->level.bytes[b->class] += bytes;
  w->ns = change->ns;
  update_sums(w);
  return change;
}

/* Applies the changes before a moment. */
static void go_before(curve_walk *w, uint64_t moment) {
  while (w->next < w->c->n_changes && w->c->changes[w->next].moment < moment) curve_step(w);
}

curve_point curve_at(const curve *c, uint64_t moment) {
  curve_walk w = curve_begin(c);
  return curve_go(&w, moment);
}

curve_point curve_go(curve_walk *w, uint64_t moment) {
  if (moment < HISTORY_NEVER) go_before(w, moment + 1);
  return (curve_point){moment, w->ns, w->level};
}

static bool is_higher(const curve_level *a, const curve_level *b) {
  return a->held > b->held || (a->held == b->held && a->used > b->used);
}

/* Changes of the same moment count as one. */
curve_point curve_go_to_peak(curve_walk *w, uint64_t from, uint64_t to) {
  go_before(w, from);
  curve_point most = {from, w->ns, w->level};
  while (w->next < w->c->n_changes && w->c->changes[w->next].moment < to) {
    const uint64_t moment = w->c->changes[w->next].moment;
    curve_go(w, moment);
    /* the level before `from` is that of an earlier moment */
    if (moment == from || is_higher(&w->level, &most.level)) most = (curve_point){moment, w->ns, w->level};
  }
  return most;
}

curve_point curve_peak(const curve *c, uint64_t from, uint64_t to) {
  curve_walk w = curve_begin(c);
  return curve_go_to_peak(&w, from, to);
}

/* Both births and tasks have both times; the last of either not after the time is taken. */
uint64_t curve_moment_of(const history *h, uint64_t ns) {
  uint64_t found = 0;
  size_t low = 0, high = h->n_tasks;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (h->tasks[middle].host_ns <= ns)
      low = middle + 1;
    else
      high = middle;
  }
  if (low) found = h->tasks[low - 1].moment;
  for (size_t i = 0; i < h->n_blocks; ++i) {
    const history_block *b = &h->blocks[i];
    if (b->born_ns <= ns && b->born > found) found = b->born;
    if (b->died != HISTORY_NEVER && b->died_ns <= ns && b->died > found) found = b->died;
  }
  return found;
}

void curve_module_peaks(const curve *c, curve_module_peak *out) {
  const history *h = c->h;
  uint64_t *live = must_alloc(h->n_modules, sizeof *live);
  memset(out, 0, h->n_modules * sizeof *out);
  for (size_t i = 0; i < c->n_changes; ++i) {
    const curve_change *x = &c->changes[i];
    const history_block *b = &h->blocks[x->block];
    if (b->is_segment) continue;
    for (uint32_t m = b->module; m != HISTORY_NONE; m = h->modules[m].parent) {
      assert(h->modules[m].parent == HISTORY_NONE || h->modules[m].parent < m);
      live[m] += x->is_birth ? b->bytes : 0 - b->bytes;
      if (live[m] > out[m].bytes) out[m] = (curve_module_peak){live[m], x->moment};
    }
  }
  free(live);
}

bool curve_counts(const history *h, uint32_t block, uint32_t device) {
  return h->blocks[block].device == device && !h->blocks[block].is_segment;
}

uint32_t curve_fullest_device(const history *h) {
  uint32_t fullest = 0;
  uint64_t most = 0;
  for (uint32_t d = 0; d < h->n_devices; ++d) {
    curve c;
    curve_make(h, d, &c);
    const uint64_t held = curve_peak(&c, 0, HISTORY_NEVER).level.held;
    curve_free(&c);
    if (held > most) {
      most = held;
      fullest = d;
    }
  }
  return fullest;
}
