/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/slabs.h"

void slabs_layout(slabs *s, arena *a, size_t n_pieces, size_t n_sections) {
  TAKE(a, s->entries, n_pieces);
  TAKE(a, s->slabs, 2 * n_sections + 2 * SLAB_LEVELS);
  TAKE(a, s->cursors, 2 * n_sections + 2 * SLAB_LEVELS);
}

static int level_of(int32_t n_sections) { return n_sections <= 1 ? 0 : 32 - __builtin_clz((unsigned)n_sections - 1); }

static slab *slab_of(const slabs *s, int level, int32_t section) {
  return &s->slabs[s->level_first[level] + ((uint32_t)(section - s->lo) >> level)];
}

void slabs_open(slabs *s, const instance *in, const part *q) {
  const uint32_t length = (uint32_t)(q->up - q->lo);
  s->in = in;
  s->lo = q->lo;
  s->n_levels = level_of(q->up - q->lo) + 1;
  uint32_t n_slabs = 0;
  for (int l = 0; l < s->n_levels; ++l) {
    s->level_first[l] = n_slabs;
    s->level_count[l] = 0;
    n_slabs += (length >> l) + 1;
  }
  s->level_first[s->n_levels] = n_slabs;
  memset(s->slabs, 0, n_slabs * sizeof *s->slabs);
  for (uint32_t m = q->begin; m < q->end; ++m)
    for (uint32_t k = in->first[in->members[m]]; k < in->first[in->members[m] + 1]; ++k)
      ++slab_of(s, level_of(in->pieces[k].up - in->pieces[k].lo), in->pieces[k].lo)->begin;
  uint32_t at = 0;
  for (uint32_t i = 0; i < n_slabs; ++i) {
    const uint32_t n = s->slabs[i].begin;
    s->slabs[i].begin = at;
    at += n;
  }
}

/* Opens a cursor for each slab whose entries may overlap the piece in time. Returns their number. */
static uint32_t open_cursors(slabs *s, const piece *p) {
  uint32_t n = 0;
  for (int l = 0; l < s->n_levels; ++l) {
    if (!s->level_count[l]) continue;
    const uint32_t lo = (uint32_t)(p->lo - s->lo) >> l, up = ((uint32_t)(p->up - 1 - s->lo) >> l) + 1;
    for (uint32_t i = s->level_first[l] + lo - (lo > 0); i < s->level_first[l] + up; ++i) {
      const slab *slab = &s->slabs[i];
      if (!slab->count) continue;
      slab_entry *entries = s->entries + slab->begin;
      s->cursors[n++] = (slab_cursor){entries[0].low, entries, entries + slab->count};
    }
  }
  return n;
}

/* Advances a cursor past the entries that begin below the piece's top, and raises the base above those that overlap
 * it. */
static int64_t pass(const slabs *s, slab_cursor *c, const piece *p, int64_t base, const item *it) {
  const slab_entry *e = c->next;
  for (; e < c->end && e->low < base + p->high; ++e) {
    if (e->high <= base + p->low || e->lo >= p->up || p->lo >= e->up) continue;
    if (it->aliased && instance_aliased(s->in, p->buffer, s->in->pieces[e->piece].buffer)) continue;
    base = instance_align_up(e->high - p->low, it->align);
  }
  c->next = e;
  c->low = e < c->end ? e->low : INT64_MAX;
  return base;
}

/* Moves the element at index i down to its position in a binary min-heap by `low`. */
static void sink(slab_cursor *heap, uint32_t n, uint32_t i) {
  const slab_cursor c = heap[i];
  for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && heap[child + 1].low < heap[child].low) ++child;
    if (heap[child].low >= c.low) break;
    heap[i] = heap[child];
  }
  heap[i] = c;
}

/* Returns the lowest base that is at least `base` and free for the piece. Going through all slabs repeatedly is
 * faster than a heap even for thousands of them (pangu_2.6B: half the time); but a long life among a million others
 * meets hundreds of thousands. */
static int64_t find_for_piece(slabs *s, const piece *p, int64_t base, const item *it) {
  enum { FEW = 16384 };
  const uint32_t n = open_cursors(s, p);
  slab_cursor *cursors = s->cursors;
  if (n > FEW) {
    for (uint32_t i = n / 2; i-- > 0;) sink(cursors, n, i);
    while (cursors[0].low < base + p->high) {
      base = pass(s, &cursors[0], p, base, it);
      sink(cursors, n, 0);
    }
    return base;
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t i = 0; i < n; ++i) {
      if (cursors[i].low >= base + p->high) continue;
      base = pass(s, &cursors[i], p, base, it);
      moved = true;
    }
  }
  return base;
}

int64_t slabs_find(slabs *s, uint32_t i) {
  const instance *in = s->in;
  const item *it = &in->items[i];
  int64_t base = 0;
  if (it->fixed >= 0) return it->fixed;
  for (int64_t before = -1; before != base;) {
    before = base;
    for (uint32_t k = in->first[i]; k < in->first[i + 1]; ++k) base = find_for_piece(s, &in->pieces[k], base, it);
    if (in->first[i + 1] - in->first[i] == 1) break;
  }
  return base;
}

void slabs_add(slabs *s, uint32_t i, int64_t base) {
  const instance *in = s->in;
  for (uint32_t k = in->first[i]; k < in->first[i + 1]; ++k) {
    const piece *p = &in->pieces[k];
    const int level = level_of(p->up - p->lo);
    slab *slab = slab_of(s, level, p->lo);
    slab_entry *entries = s->entries + slab->begin;
    uint32_t at = slab->count;
    for (; at && entries[at - 1].low > base + p->low; --at) entries[at] = entries[at - 1];
    entries[at] = (slab_entry){base + p->low, base + p->high, p->lo, p->up, k};
    ++slab->count;
    ++s->level_count[level];
  }
}
