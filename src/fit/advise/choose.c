/* SPDX-License-Identifier: Apache-2.0 */
/* The dynamic program of recompute.h. A state is what the links so far save, and what that costs; of two states
 * the one that saves no more and costs no less is dropped. */
#include <stdlib.h>
#include <string.h>

#include "fit/advise/recompute.h"

/* More states are rounded to as many: 2^13 states of 64 links take 50 ms. */
enum { CHOOSE_MAX_STATES = 1 << 13, CHOOSE_TRIES = 12, CHOOSE_BISECTIONS = 24 };

typedef struct {
  int64_t saved;
  double cost;
  uint32_t before; /* the state before, in all states */
  bool drops;
} choose_state;

typedef struct {
  choose_state *all; /* of all links, each link's by bytes saved, most first, so that costs fall */
  size_t n, room;
} choose_table;

static bool choose_has_room(choose_table *t, size_t n) {
  if (t->n + n <= t->room) return true;
  const size_t room = 2 * (t->n + n);
  choose_state *more = realloc(t->all, room * sizeof *more);
  if (!more) return false;
  t->all = more;
  t->room = room;
  return true;
}

/* The more bytes first; of equal ones the cheaper. */
static bool choose_is_before(const choose_state *a, const choose_state *b) {
  return a->saved != b->saved ? a->saved > b->saved : a->cost < b->cost;
}

/* The next state of link k from the states [*at, end) of the link before, with or without dropping. */
static bool choose_next(const choose_table *t, size_t *at, size_t end, const advise_slopes *s, uint32_t k, bool drops,
                        uint64_t budget, choose_state *out) {
  const uint64_t most = drops ? s->dropping[k] : s->keeping[k];
  for (; *at < end; ++*at) {
    const choose_state *from = &t->all[*at];
    if ((int64_t)(most - budget) > from->saved && most > budget) return false; /* later ones save less */
    if (drops && s->cost[k] < 0) return false;
    *out = (choose_state){from->saved + (drops ? s->saved[k] : 0), from->cost + (drops ? s->cost[k] : 0), (uint32_t)*at,
                          drops};
    return true;
  }
  return false;
}

/* Adds the states of link k to the table. Returns false if there is no memory. */
static bool choose_step(choose_table *t, size_t begin, const advise_slopes *s, uint32_t k, uint64_t budget) {
  const size_t end = t->n;
  size_t keep = begin, drop = begin;
  choose_state a, b;
  if (!choose_has_room(t, 2 * (end - begin) + 1)) return false;
  bool has_a = choose_next(t, &keep, end, s, k, false, budget, &a);
  bool has_b = choose_next(t, &drop, end, s, k, true, budget, &b);
  while (has_a || has_b) {
    const bool takes_a = has_a && (!has_b || !choose_is_before(&b, &a));
    const choose_state next = takes_a ? a : b;
    if (t->n == end || next.cost < t->all[t->n - 1].cost) t->all[t->n++] = next;
    if (takes_a) {
      ++keep;
      has_a = choose_next(t, &keep, end, s, k, false, budget, &a);
    } else {
      ++drop;
      has_b = choose_next(t, &drop, end, s, k, true, budget, &b);
    }
  }
  return true;
}

/* Keeps the cheapest of the states whose savings are nearly the same. */
static void choose_round(choose_table *t, size_t begin) {
  const int64_t least = t->all[t->n - 1].saved;
  const double width = ((double)(t->all[begin].saved - least) + 1) / CHOOSE_MAX_STATES;
  size_t n = begin;
  for (size_t i = begin; i < t->n; ++i) {
    const bool same = n > begin && (int64_t)((double)(t->all[i].saved - least) / width) ==
                                       (int64_t)((double)(t->all[n - 1].saved - least) / width);
    if (same)
      t->all[n - 1] = t->all[i];
    else
      t->all[n++] = t->all[i];
  }
  t->n = n;
}

bool advise_recompute_choose(const advise_slopes *s, uint64_t budget, uint32_t *group, bool *is_exact) {
  choose_table t = {0};
  size_t begin = 0;
  bool good = choose_has_room(&t, 64);
  *is_exact = true;
  if (good) t.all[t.n++] = (choose_state){0};
  for (uint32_t k = 0; good && k < s->n; ++k) {
    const size_t end = t.n;
    good = choose_step(&t, begin, s, k, budget) && t.n > end;
    begin = end;
    if (!good || t.n - begin <= CHOOSE_MAX_STATES) continue;
    choose_round(&t, begin);
    *is_exact = false;
  }
  size_t last = t.n; /* the cheapest that saves enough at the end: the last one, as costs fall */
  const uint64_t most = s->keeping[s->n];
  while (good && last > begin && most > budget && (int64_t)(most - budget) > t.all[last - 1].saved) --last;
  good = good && last > begin;
  for (uint32_t k = s->n, at = (uint32_t)last - 1; good && k-- > 0; at = t.all[at].before)
    group[k] = t.all[at].drops ? k + 1 : 0;
  free(t.all);
  return good;
}

/* ---- with replay ------------------------------------------------------------------------------------------------- */

/* Chooses for less than the budget, as long as the replay finds more. */
static bool choose_within(const advise_chain *c, const advise_edits *e, const advise_slopes *s, uint64_t budget,
                          uint32_t *group, advise_choice *out) {
  uint64_t target = budget;
  bool is_exact = false;
  *out = (advise_choice){.peak = UINT64_MAX};
  for (int i = 0; i < CHOOSE_TRIES; ++i) {
    bool exact;
    if (!advise_recompute_choose(s, target, group, &exact)) return true;
    if (!advise_recompute_judge(c, e, group, out)) return false;
    out->fits = out->peak <= budget;
    is_exact = exact && i == 0;
    if (out->fits) break;
    const uint64_t excess = out->peak - budget;
    if (excess >= target) break;
    target -= excess;
  }
  out->is_exact = is_exact && out->fits;
  return true;
}

/* The lowest peak that the dynamic program can reach, to within a share of 2^-CHOOSE_BISECTIONS. */
static uint64_t choose_least(const advise_slopes *s, uint32_t *group) {
  uint64_t low = 0, high = 0;
  bool exact;
  for (uint32_t k = 0; k <= s->n; ++k)
    if (s->keeping[k] > high) high = s->keeping[k];
  for (int i = 0; i < CHOOSE_BISECTIONS && low < high; ++i) {
    const uint64_t middle = low + (high - low) / 2;
    if (advise_recompute_choose(s, middle, group, &exact))
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}

bool advise_recompute_plan(const advise_chain *c, const advise_edits *e, const advise_slopes *s, uint64_t budget,
                           uint32_t *group, advise_choice *out) {
  memset(group, 0, s->n * sizeof *group);
  if (!choose_within(c, e, s, budget, group, out)) return false;
  if (out->fits) return true;
  const uint64_t least = choose_least(s, group);
  bool exact;
  memset(group, 0, s->n * sizeof *group);
  advise_recompute_choose(s, least, group, &exact);
  if (!advise_recompute_judge(c, e, group, out)) return false;
  out->fits = out->peak <= budget;
  return true;
}
