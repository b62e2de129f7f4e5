/* SPDX-License-Identifier: Apache-2.0 */
/* Support for tests of the planner: random problems, a checker, greedy passes and an exhaustive planner. None of them
 * shares code with the planner, and all compare every pair of buffers. */
#ifndef CANNON_TESTS_SUPPORT_PLAN_CASES_H
#define CANNON_TESTS_SUPPORT_PLAN_CASES_H

#include <stdlib.h>
#include <string.h>

#include "cannon/plan.h"
#include "fuzz.h"

enum { CASE_MOST = 2048 };

typedef struct {
  cannon_plan_problem problem;
  cannon_plan_buffer buffers[CASE_MOST];
  cannon_plan_gap gaps[CASE_MOST];
  cannon_plan_alias aliases[CASE_MOST];
} plan_case;

static inline void case_clear(plan_case *c) {
  c->problem = (cannon_plan_problem){c->buffers, 0, c->gaps, 0, c->aliases, 0};
}

static inline cannon_plan_buffer *case_add(plan_case *c, uint64_t lower, uint64_t upper, uint64_t size) {
  cannon_plan_buffer *b = &c->buffers[c->problem.n_buffers++];
  *b = (cannon_plan_buffer){.size = size,
                            .lower = lower,
                            .upper = upper,
                            .alignment = 1,
                            .offset = CANNON_PLAN_ANYWHERE,
                            .in_place_of = CANNON_PLAN_NO_BUFFER,
                            .first_gap = c->problem.n_gaps};
  return b;
}

static inline void case_gap(plan_case *c, cannon_plan_buffer *b, uint64_t lower, uint64_t upper, uint64_t low,
                            uint64_t high) {
  c->gaps[c->problem.n_gaps++] = (cannon_plan_gap){lower, upper, low, high};
  ++b->n_gaps;
}

static inline void case_alias(plan_case *c, uint32_t a, uint32_t b) {
  c->aliases[c->problem.n_aliases++] = (cannon_plan_alias){a, b};
}

/* ---- validity of a plan ------------------------------------------------------------------------------------------ */

/* Gives the range of bytes [low, high) that buffer b needs at a time. Returns false when it needs none. */
static inline bool needs(const plan_case *c, uint32_t b, uint64_t time, uint64_t *low, uint64_t *high) {
  const cannon_plan_buffer *x = &c->buffers[b];
  *low = 0;
  *high = x->size;
  if (time < x->lower || time >= x->upper) return false;
  for (uint32_t g = 0; g < x->n_gaps; ++g) {
    const cannon_plan_gap *gap = &c->gaps[x->first_gap + g];
    if (time < gap->lower || time >= gap->upper) continue;
    *low = gap->window_lower;
    *high = gap->window_upper;
  }
  return *low < *high;
}

static inline uint32_t root_of(const plan_case *c, uint32_t b) {
  while (c->buffers[b].in_place_of != CANNON_PLAN_NO_BUFFER) b = c->buffers[b].in_place_of;
  return b;
}

static inline bool may_overlap(const plan_case *c, uint32_t a, uint32_t b) {
  if (root_of(c, a) == root_of(c, b)) return true;
  for (size_t i = 0; i < c->problem.n_aliases; ++i)
    if ((c->aliases[i].a == a && c->aliases[i].b == b) || (c->aliases[i].a == b && c->aliases[i].b == a)) return true;
  return false;
}

/* Whether a and b overlap at the offsets oa and ob. The needs of a buffer change only at the ends of lifetimes and
 * gaps, so it is enough to test the times at which a lifetime or gap of a or b begins or ends. */
static inline bool overlap_at(const plan_case *c, uint32_t a, uint32_t b, uint64_t time, uint64_t oa, uint64_t ob) {
  uint64_t la, ha, lb, hb;
  return needs(c, a, time, &la, &ha) && needs(c, b, time, &lb, &hb) && oa + la < ob + hb && ob + lb < oa + ha;
}

static inline bool overlap(const plan_case *c, uint32_t a, uint32_t b, uint64_t oa, uint64_t ob) {
  const uint32_t both[] = {a, b};
  if (c->buffers[a].upper <= c->buffers[b].lower || c->buffers[b].upper <= c->buffers[a].lower) return false;
  if (may_overlap(c, a, b)) return false;
  for (int i = 0; i < 2; ++i) {
    const cannon_plan_buffer *x = &c->buffers[both[i]];
    if (overlap_at(c, a, b, x->lower, oa, ob)) return true;
    for (uint32_t g = 0; g < x->n_gaps; ++g)
      if (overlap_at(c, a, b, c->gaps[x->first_gap + g].lower, oa, ob) ||
          overlap_at(c, a, b, c->gaps[x->first_gap + g].upper, oa, ob))
        return true;
  }
  return false;
}

/* The number of bytes, counted from the buffer's first byte, that it ever needs. */
static inline uint64_t height_of(const plan_case *c, uint32_t b) {
  const cannon_plan_buffer *x = &c->buffers[b];
  uint64_t low, high, height = 0, time = x->lower;
  for (uint32_t g = 0; g <= 2 * x->n_gaps; ++g) {
    if (g) time = g % 2 ? c->gaps[x->first_gap + g / 2].lower : c->gaps[x->first_gap + g / 2 - 1].upper;
    if (needs(c, b, time, &low, &high) && high > height) height = high;
  }
  return height;
}

static inline uint64_t case_peak(const plan_case *c, const uint64_t *offsets) {
  uint64_t peak = 0;
  for (uint32_t b = 0; b < c->problem.n_buffers; ++b) {
    const uint64_t height = height_of(c, b);
    if (height && offsets[b] + height > peak) peak = offsets[b] + height;
  }
  return peak;
}

static inline bool case_holds(const plan_case *c, const uint64_t *offsets) {
  for (uint32_t a = 0; a < c->problem.n_buffers; ++a) {
    const cannon_plan_buffer *x = &c->buffers[a];
    if (x->alignment && offsets[a] % x->alignment) return false;
    if (x->offset != CANNON_PLAN_ANYWHERE && offsets[a] != x->offset) return false;
    if (offsets[a] != offsets[root_of(c, a)]) return false;
    for (uint32_t b = 0; b < a; ++b)
      if (overlap(c, a, b, offsets[a], offsets[b])) return false;
  }
  return true;
}

/* ---- greedy and exhaustive planners ------------------------------------------------------------------------------ */

/* The lowest valid offset for a buffer beside those already placed, for a problem without aliases. The candidates are 0
 * and the upper end of each placed buffer. */
static inline uint64_t lowest_free(const plan_case *c, const uint64_t *offsets, uint32_t b) {
  const uint64_t align = c->buffers[b].alignment;
  uint64_t best = UINT64_MAX;
  if (c->buffers[b].offset != CANNON_PLAN_ANYWHERE) return c->buffers[b].offset;
  for (uint32_t over = 0; over <= c->problem.n_buffers; ++over) { /* the last iteration stands for offset 0 */
    const bool ground = over == c->problem.n_buffers;
    if (!ground && (offsets[over] == CANNON_PLAN_ANYWHERE || over == b)) continue;
    uint64_t at = ground ? 0 : offsets[over] + c->buffers[over].size;
    at = (at + align - 1) / align * align;
    bool is_free = at < best;
    for (uint32_t j = 0; j < c->problem.n_buffers && is_free; ++j)
      is_free = j == b || offsets[j] == CANNON_PLAN_ANYWHERE || !overlap(c, b, j, at, offsets[j]);
    if (is_free) best = at;
  }
  return best;
}

static inline uint64_t greedy_peak(const plan_case *c, const uint32_t *order) {
  static uint64_t offsets[CASE_MOST];
  for (uint32_t b = 0; b < c->problem.n_buffers; ++b) offsets[b] = CANNON_PLAN_ANYWHERE;
  for (uint32_t k = 0; k < c->problem.n_buffers; ++k) offsets[order[k]] = lowest_free(c, offsets, order[k]);
  return case_peak(c, offsets);
}

/* The sort key of a greedy order; larger keys are placed first. */
static inline double greedy_key(const cannon_plan_buffer *b, int order) {
  const double life = (double)(b->upper - b->lower), size = (double)b->size;
  const double keys[] = {
      size,       life, size * life, size * size * life, size * life * life, -(double)b->lower, -(double)b->upper,
      size / life};
  return keys[order];
}

static inline uint64_t best_of_eight(const plan_case *c) {
  static uint32_t order[CASE_MOST];
  uint64_t best = UINT64_MAX;
  for (int o = 0; o < 8; ++o) {
    for (uint32_t k = 0; k < c->problem.n_buffers; ++k) {
      uint32_t to = k;
      for (; to && greedy_key(&c->buffers[k], o) > greedy_key(&c->buffers[order[to - 1]], o); --to)
        order[to] = order[to - 1];
      order[to] = k;
    }
    const uint64_t peak = greedy_peak(c, order);
    if (peak < best) best = peak;
  }
  return best;
}

/* The minimum peak over all orders of placement. One order sorts the buffers by their offsets in an optimal plan;
 * placed in that order, no buffer lies higher than there. Not valid for problems with in-place pairs or gaps with
 * windows. */
static inline uint64_t least_peak(const plan_case *c, uint64_t *offsets, uint32_t n_placed, uint64_t best) {
  if (n_placed == c->problem.n_buffers) {
    const uint64_t peak = case_peak(c, offsets);
    return peak < best ? peak : best;
  }
  for (uint32_t b = 0; b < c->problem.n_buffers; ++b) {
    if (offsets[b] != CANNON_PLAN_ANYWHERE) continue;
    offsets[b] = lowest_free(c, offsets, b);
    if (offsets[b] + height_of(c, b) < best) best = least_peak(c, offsets, n_placed + 1, best);
    offsets[b] = CANNON_PLAN_ANYWHERE;
  }
  return best;
}

/* ---- random problems --------------------------------------------------------------------------------------------- */

enum {
  WITH_ALIGNMENT = 1,
  WITH_GAPS = 2,
  WITH_WINDOWS = 4,
  WITH_ALIASES = 8,
  WITH_IN_PLACE = 16,
  WITH_FIXED = 32,
  ALL_KINDS = 64
};

static inline void add_gaps(plan_case *c, cannon_plan_buffer *b, int kinds) {
  uint64_t from = b->lower;
  while (from < b->upper && fuzz_below(2)) {
    const uint64_t lower = from + fuzz_below((uint32_t)(b->upper - from)),
                   upper = lower + 1 + fuzz_below((uint32_t)(b->upper - lower));
    const uint64_t low = kinds & WITH_WINDOWS ? fuzz_below((uint32_t)b->size + 1) : 0;
    case_gap(c, b, lower, upper, low, kinds & WITH_WINDOWS ? low + fuzz_below((uint32_t)(b->size - low) + 1) : 0);
    from = upper;
  }
}

/* Makes a problem of n buffers whose lifetimes lie in [0, times), with sizes up to `most`. Buffers with fixed offsets
 * are stacked on top of each other. */
static inline void case_random(plan_case *c, uint32_t n, uint32_t times, uint32_t most, int kinds) {
  uint64_t ground = 0;
  case_clear(c);
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t lower = fuzz_below(times), length = 1 + fuzz_below(fuzz_below(4) ? (times + 3) / 4 : times);
    const uint32_t upper = lower + length < times ? lower + length : times;
    cannon_plan_buffer *b = case_add(c, lower, upper, 1 + fuzz_below(most));
    if (kinds & WITH_ALIGNMENT) b->alignment = fuzz_below(3) ? 1u << fuzz_below(4) : 1 + fuzz_below(6);
    if (kinds & WITH_GAPS && !fuzz_below(3)) add_gaps(c, b, kinds);
    if (kinds & WITH_ALIASES && i && !fuzz_below(3)) case_alias(c, i, fuzz_below(i));
    if (kinds & WITH_IN_PLACE && i && !fuzz_below(3)) b->in_place_of = fuzz_below(i);
    if (kinds & WITH_FIXED && !fuzz_below(4) && b->in_place_of == CANNON_PLAN_NO_BUFFER) {
      b->offset = (ground + b->alignment - 1) / b->alignment * b->alignment;
      ground = b->offset + b->size + fuzz_below(most);
    }
  }
}

#endif
