/* SPDX-License-Identifier: Apache-2.0 */
/* Inference for the search: bounds on where unplaced items can lie, section by section. The rules are in search.h. */
#include <limits.h>

#include "plan/search.h"

static bool comes_before(const search *s, uint32_t i, uint32_t j) {
  return s->low[i] < s->low[j] || (s->low[i] == s->low[j] && i < j);
}

void search_sort(search *s, const search_frame *f) {
  for (uint32_t k = f->scope.begin + 1; k < f->live; ++k) {
    const uint32_t i = s->slice[k];
    uint32_t to = k;
    for (; to > f->scope.begin && comes_before(s, i, s->slice[to - 1]); --to) s->slice[to] = s->slice[to - 1];
    s->slice[to] = i;
  }
}

static int64_t infer_max64(int64_t a, int64_t b) { return a > b ? a : b; }
static int32_t infer_max(int32_t a, int32_t b) { return a > b ? a : b; }
static int32_t infer_min(int32_t a, int32_t b) { return a < b ? a : b; }

/* Adds an item to the chains of its sections. Called in ascending order of `low`. */
static void chain_item(search *s, uint32_t i, int32_t lo, int32_t up) {
  const int64_t low = s->low[i], size = s->size[i], *room = s->room;
  int64_t *chain = s->chain;
  int32_t *candidates = s->candidates;
  for (uint32_t k = s->first[i]; k < s->first[i + 1]; ++k) {
    const int32_t from = infer_max(s->interval_lo[k], lo), to = infer_min(s->interval_up[k], up);
    for (int32_t x = from; x < to; ++x) {
      chain[x] = infer_max64(chain[x], low) + size;
      candidates[x] += low <= room[x];
    }
  }
}

/* Records an item as the lowest of its sections. Called in descending order of `low`, so the last call counts. */
static void note_lowest(search *s, uint32_t i, int32_t lo, int32_t up) {
  const int64_t low = s->low[i];
  int64_t *lowest = s->lowest, *second = s->second;
  uint32_t *next = s->next;
  for (uint32_t k = s->first[i]; k < s->first[i + 1]; ++k) {
    const int32_t from = infer_max(s->interval_lo[k], lo), to = infer_min(s->interval_up[k], up);
    for (int32_t x = from; x < to; ++x) {
      second[x] = lowest[x];
      lowest[x] = low;
      next[x] = i;
    }
  }
}

/* Recomputes sections lo to up - 1. Returns false if the items of one of them do not fit. */
static bool infer_sections(search *s, const search_frame *f, int32_t lo, int32_t up) {
  for (int32_t x = lo; x < up; ++x) {
    s->chain[x] = 0;
    s->candidates[x] = 0;
    s->lowest[x] = s->second[x] = INT64_MAX;
    s->room[x] = s->height - s->total[x];
  }
  for (uint32_t k = f->scope.begin; k < f->live; ++k) {
    const uint32_t i = s->slice[k];
    if (s->lo[i] < up && lo < s->up[i]) chain_item(s, i, lo, up);
  }
  for (uint32_t k = f->live; k-- > f->scope.begin;) {
    const uint32_t i = s->slice[k];
    if (s->lo[i] < up && lo < s->up[i]) note_lowest(s, i, lo, up);
  }
  for (int32_t x = lo; x < up; ++x)
    if (s->total[x] && (s->chain[x] > s->height || !s->candidates[x])) return false;
  return true;
}

static bool lives_in(const search *s, uint32_t i, int32_t x) {
  for (uint32_t k = s->first[i]; k < s->first[i + 1]; ++k)
    if (s->interval_lo[k] <= x && x < s->interval_up[k]) return true;
  return false;
}

/* Rule "first": where only one item can be the next, raises all others above it. */
static bool draw_first(search *s, const search_frame *f, int32_t lo, int32_t up) {
  for (int32_t x = lo; x < up; ++x) {
    if (!s->total[x] || s->candidates[x] != 1) continue;
    const uint32_t first = s->next[x];
    const int64_t top = s->low[first] + s->size[first];
    if (s->second[x] >= top) continue;
    for (uint32_t k = f->scope.begin; k < f->live; ++k) {
      const uint32_t i = s->slice[k];
      if (i != first && s->low[i] < top && lives_in(s, i, x) && !search_raise(s, i, top)) return false;
    }
  }
  return true;
}

int64_t search_lowest_top(const search *s, const search_frame *f, uint32_t i) {
  int64_t top = INT64_MAX;
  for (uint32_t k = f->scope.begin; k < f->live && s->low[s->slice[k]] < top; ++k) {
    const uint32_t j = s->slice[k];
    if (j != i && s->low[j] + s->size[j] < top && search_meet(s, i, j)) top = s->low[j] + s->size[j];
  }
  return top;
}

/* Returns the lowest base that an item can have, given the bases of the others (rules "support" and "twins"). */
static int64_t supported_low(const search *s, const search_frame *f, uint32_t i) {
  const uint32_t twin = s->twin[i];
  int64_t low = s->low[i];
  if (s->fixed[i]) return low;
  if (low > s->sky[i]) low = infer_max64(low, search_lowest_top(s, f, i));
  if (twin != NO_ITEM && !s->placed[twin]) low = infer_max64(low, s->low[twin] + s->size[twin]);
  return low;
}

/* Raises the items of sections lo to up - 1 above their support and above their twins. Returns false if an item can
 * have no support any more. An item that is raised moves to its new position in the slice and is examined again
 * there: everything lower is final by then, so bases do not rise by many small steps. */
static bool draw_support(search *s, const search_frame *f, int32_t lo, int32_t up) {
  for (uint32_t k = f->scope.begin; k < f->live;) {
    const uint32_t i = s->slice[k];
    const int64_t low = s->lo[i] < up && lo < s->up[i] ? supported_low(s, f, i) : s->low[i];
    if (low == s->low[i]) {
      ++k;
      continue;
    }
    if (low == INT64_MAX || !search_raise(s, i, low)) return false;
    uint32_t to = k;
    for (; to + 1 < f->live && comes_before(s, s->slice[to + 1], i); ++to) s->slice[to] = s->slice[to + 1];
    s->slice[to] = i;
    lo = infer_min(lo, s->lo[i]);
    up = infer_max(up, s->up[i]);
  }
  return true;
}

/* Returns the sections to recompute, and marks them as up to date. */
static void take_dirty(search *s, const search_frame *f, int32_t *lo, int32_t *up) {
  *lo = infer_max(s->dirty_lo, f->scope.lo);
  *up = infer_min(s->dirty_up, f->scope.up);
  s->dirty_lo = INT_MAX;
  s->dirty_up = INT_MIN;
}

bool search_infer(search *s, const search_frame *f) {
  int32_t changed_lo = INT_MAX, changed_up = INT_MIN; /* sections changed since rule "support" was applied */
  for (int32_t lo, up;;) {
    search_sort(s, f);
    take_dirty(s, f, &lo, &up);
    changed_lo = infer_min(changed_lo, lo);
    changed_up = infer_max(changed_up, up);
    if (lo < up && !(infer_sections(s, f, lo, up) && draw_first(s, f, lo, up))) return false;
    if (s->dirty_lo < s->dirty_up) continue; /* items were raised: the slice is out of order */
    if (!draw_support(s, f, changed_lo, changed_up)) return false;
    if (s->dirty_lo >= s->dirty_up) return true;
    changed_lo = INT_MAX;
    changed_up = INT_MIN;
  }
}
