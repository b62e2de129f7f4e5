/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/sweep.h"

void sweep_layout(sweep *w, arena *a, const cannon_plan_problem *p) {
  TAKE(a, w->born, p->n_buffers);
  TAKE(a, w->dead, p->n_buffers);
  TAKE(a, w->spare, p->n_buffers);
  TAKE(a, w->ranges, 4 * p->n_buffers + 4); /* one for each item, and at most three free ones for each step */
  TAKE(a, w->spent, 4 * p->n_buffers + 4);
}

/* ---- free ranges ------------------------------------------------------------------------------------------------- */

/* Returns the size class: sizes from 2^k (1 + s / 16) up to the next class. */
static unsigned sweep_class(int64_t size) {
  const unsigned log = 63 - (unsigned)__builtin_clzll((unsigned long long)size);
  const uint64_t rest = (uint64_t)size - (1ull << log);
  return log * SWEEP_STEPS + (unsigned)(log >= 4 ? rest >> (log - 4) : rest << (4 - log));
}

static void sweep_list(sweep *w, uint32_t r) {
  const unsigned c = sweep_class(w->ranges[r].size);
  const uint32_t head = w->first[c];
  w->ranges[r].is_free = true;
  w->ranges[r].free_before = 0;
  w->ranges[r].free_behind = head;
  if (head) w->ranges[head].free_before = r;
  w->first[c] = r;
  w->classes[c / 64] |= 1ull << c % 64;
}

static void sweep_unlist(sweep *w, uint32_t r) {
  sweep_range *const x = &w->ranges[r];
  const unsigned c = sweep_class(x->size);
  if (x->free_behind) w->ranges[x->free_behind].free_before = x->free_before;
  if (x->free_before)
    w->ranges[x->free_before].free_behind = x->free_behind;
  else if (!(w->first[c] = x->free_behind))
    w->classes[c / 64] &= ~(1ull << c % 64);
  x->is_free = false;
}

static bool sweep_range_holds(const sweep_range *x, int64_t size, int64_t align) {
  return x->base + x->size >= instance_align_up(x->base, align) + size;
}

/* Returns a free range that can hold the size at the alignment, or 0. In each size class only the first few ranges
 * are examined: any range of a class above the size's own is long enough, except for alignment. The address range
 * above all items is free, too. */
static uint32_t sweep_find(const sweep *w, int64_t size, int64_t align) {
  enum { LOOKS = 8 };
  for (unsigned c = sweep_class(size); c < SWEEP_CLASSES; ++c) {
    const uint64_t here = w->classes[c / 64] >> c % 64;
    if (!here) {
      c |= 63;
      continue;
    }
    c += (unsigned)__builtin_ctzll(here);
    uint32_t r = w->first[c];
    for (int look = 0; r && look < LOOKS; ++look, r = w->ranges[r].free_behind)
      if (sweep_range_holds(&w->ranges[r], size, align)) return r;
  }
  return 0;
}

/* ---- ranges by address ------------------------------------------------------------------------------------------- */

static uint32_t new_range(sweep *w) { return w->n_spent ? w->spent[--w->n_spent] : w->n_used++; }

/* Inserts a free range of `size` units right after the range `before`. */
static void insert_free(sweep *w, uint32_t before, int64_t base, int64_t size) {
  if (!size) return;
  const uint32_t r = new_range(w), after = w->ranges[before].after;
  w->ranges[r] = (sweep_range){.base = base, .size = size, .before = before, .after = after};
  w->ranges[before].after = r;
  if (after) w->ranges[after].before = r;
  sweep_list(w, r);
}

/* Takes `size` units out of the free range `from` for the range `own` of an item. The rest on either side stays
 * free. */
static void sweep_take(sweep *w, uint32_t from, uint32_t own, int64_t size, int64_t align) {
  sweep_unlist(w, from);
  const sweep_range x = w->ranges[from];
  const int64_t base = instance_align_up(x.base, align);
  w->spent[w->n_spent++] = from;
  w->ranges[own] = (sweep_range){.base = base, .size = size, .before = x.before, .after = x.after};
  w->ranges[x.before].after = own;
  if (x.after) w->ranges[x.after].before = own;
  insert_free(w, x.before, x.base, base - x.base);
  insert_free(w, own, base + size, x.base + x.size - base - size);
}

/* Merges the range `other`, which follows r, into r. */
static void sweep_merge(sweep *w, uint32_t r, uint32_t other) {
  w->ranges[r].size += w->ranges[other].size;
  w->ranges[r].after = w->ranges[other].after;
  if (w->ranges[r].after) w->ranges[w->ranges[r].after].before = r;
  w->spent[w->n_spent++] = other;
}

static void sweep_release(sweep *w, uint32_t own) {
  const sweep_range x = w->ranges[own];
  const uint32_t r = new_range(w); /* the item keeps its index */
  w->ranges[r] = x;
  w->ranges[x.before].after = r;
  if (x.after) w->ranges[x.after].before = r;
  uint32_t whole = r;
  if (x.after && w->ranges[x.after].is_free) {
    sweep_unlist(w, x.after);
    sweep_merge(w, r, x.after);
  }
  if (w->ranges[x.before].is_free) {
    sweep_unlist(w, x.before);
    sweep_merge(w, x.before, r);
    whole = x.before;
  }
  sweep_list(w, whole);
}

/* ---- the sweep --------------------------------------------------------------------------------------------------- */

static bool sweep_start(sweep *w, const instance *in, const part *q) {
  const uint32_t n = q->end - q->begin;
  for (uint32_t m = 0; m < n; ++m) {
    const item *it = &in->items[in->members[q->begin + m]];
    if (it->fixed >= 0) return false;
    w->born[m] = (keyed){.key = (uint64_t)(INT64_MAX - it->height), .index = m};
    w->dead[m] = (keyed){.key = (uint64_t)it->up, .index = m};
  }
  keyed_sort(w->born, w->spare, n); /* among items that begin together, the tallest first */
  for (uint32_t m = 0; m < n; ++m) w->born[m].key = (uint64_t)in->items[in->members[q->begin + w->born[m].index]].lo;
  keyed_sort(w->born, w->spare, n);
  keyed_sort(w->dead, w->spare, n);
  memset(w->first, 0, sizeof w->first);
  memset(w->classes, 0, sizeof w->classes);
  /* Ranges 1 to n are those of the items; range n + 1 is empty and precedes the first address. */
  w->n_spent = 0;
  w->n_used = n + 2;
  w->ranges[n + 1] = (sweep_range){0};
  insert_free(w, n + 1, 0, INT64_MAX / 4);
  return true;
}

uint64_t sweep_part(sweep *w, const instance *in, const part *q, int64_t *base) {
  const uint32_t n = q->end - q->begin;
  uint64_t peak = 0;
  if (!sweep_start(w, in, q)) return UINT64_MAX;
  for (uint32_t m = 0, gone = 0; m < n; ++m) {
    const uint32_t own = w->born[m].index + 1, i = in->members[q->begin + w->born[m].index];
    const item *it = &in->items[i];
    for (; (int64_t)w->dead[gone].key <= it->lo; ++gone) sweep_release(w, w->dead[gone].index + 1);
    const uint32_t from = sweep_find(w, it->height, it->align);
    if (!from) return UINT64_MAX;
    sweep_take(w, from, own, it->height, it->align);
    base[i] = w->ranges[own].base;
    const uint64_t top = item_top(in, i, base[i]);
    if (top > peak) peak = top;
  }
  return peak;
}
