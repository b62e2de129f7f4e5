/* SPDX-License-Identifier: Apache-2.0 */
/* The planner on random problems. Each plan is valid according to a checker that compares every pair of buffers. No
 * bound exceeds the minimum peak found by exhaustive search, and small problems reach that minimum. No peak exceeds the
 * best of eight greedy orders. The number of threads does not change the result.
 *
 *   stress_plan [PROBLEMS] */
#include <stdio.h>

#include "plan_cases.h"

static plan_case c;

static void plan(const cannon_plan_options *options, uint64_t *offsets, cannon_plan_result *result) {
  cannon_plan_result checked;
  const cannon_plan_error error = cannon_plan(&c.problem, options, offsets, result);
  if (error) fprintf(stderr, "%s: %s\n", cannon_plan_error_name(error), result->message);
  HOLDS(error == CANNON_PLAN_OK && !*result->message);
  HOLDS(case_holds(&c, offsets));
  HOLDS(result->end.bound <= result->end.peak && result->optimal == (result->end.bound == result->end.peak));
  HOLDS(cannon_plan_check(&c.problem, offsets, &checked) == CANNON_PLAN_OK && checked.end.peak == result->end.peak);
}

static void add_optimum(uint64_t *optimal, uint64_t *offsets) {
  for (uint32_t b = 0; b < c.problem.n_buffers; ++b) offsets[b] = CANNON_PLAN_ANYWHERE;
  /* Buffers with fixed offsets are placed first. */
  uint32_t n = 0;
  for (uint32_t b = 0; b < c.problem.n_buffers; ++b)
    if (c.buffers[b].offset != CANNON_PLAN_ANYWHERE) {
      offsets[b] = c.buffers[b].offset;
      ++n;
    }
  *optimal = least_peak(&c, offsets, n, UINT64_MAX);
}

/* A problem small enough for exhaustive search. */
static void small_problem(int kinds) {
  uint64_t offsets[CASE_MOST], optimal;
  cannon_plan_result r;
  case_random(&c, 1 + fuzz_below(7), 1 + fuzz_below(10), 1 + fuzz_below(12), kinds);
  add_optimum(&optimal, offsets);
  plan(&(cannon_plan_options){.max_nodes = 20000, .seed = fuzz_below(5)}, offsets, &r);
  HOLDS(r.end.bound <= optimal && r.end.peak >= optimal);
  if (!(kinds & WITH_ALIASES)) HOLDS(r.end.peak == optimal);
  plan(&(cannon_plan_options){.max_nodes = 20000, .capacity = optimal}, offsets, &r);
  if (!(kinds & WITH_ALIASES)) HOLDS(r.fits);
  if (optimal < 2) return;
  plan(&(cannon_plan_options){.max_nodes = 2000, .capacity = optimal - 1}, offsets, &r);
  HOLDS(!r.fits);
}

/* A problem with any combination of features. */
static void any_problem(int kinds) {
  uint64_t offsets[CASE_MOST], again[CASE_MOST];
  cannon_plan_result r, s;
  case_random(&c, 1 + fuzz_below(60), 1 + fuzz_below(60), 1 + fuzz_below(1000), kinds);
  const cannon_plan_options options = {.max_nodes = 20000, .seed = fuzz_below(1000)};
  plan(&options, offsets, &r);
  cannon_plan_options threads = options;
  threads.n_threads = 3;
  plan(&threads, again, &s);
  HOLDS(r.end.peak == s.end.peak && r.end.nodes == s.end.nodes && r.end.bound == s.end.bound);
  HOLDS(memcmp(offsets, again, c.problem.n_buffers * sizeof *offsets) == 0);
  if (!(kinds & ~(WITH_ALIGNMENT | WITH_GAPS))) HOLDS(r.end.peak <= best_of_eight(&c));
}

/* After changing one offset of a plan, cannon_plan_check agrees with the pairwise checker. */
static void wrong_plan(int kinds) {
  uint64_t offsets[CASE_MOST];
  cannon_plan_result r;
  case_random(&c, 2 + fuzz_below(30), 1 + fuzz_below(20), 1 + fuzz_below(50), kinds);
  plan(&(cannon_plan_options){.max_nodes = 500}, offsets, &r);
  const uint32_t b = fuzz_below((uint32_t)c.problem.n_buffers);
  offsets[b] = fuzz_below((uint32_t)r.end.peak + 1);
  HOLDS((cannon_plan_check(&c.problem, offsets, &r) == CANNON_PLAN_OK) == case_holds(&c, offsets));
}

int main(int argc, char **argv) {
  const long problems = argc > 1 ? atol(argv[1]) : 1000;
  for (long i = 0; i < problems; ++i) {
    const int exact_kinds[] = {
        0, WITH_ALIGNMENT, WITH_GAPS, WITH_ALIASES, WITH_FIXED, WITH_ALIGNMENT | WITH_GAPS | WITH_FIXED};
    small_problem(exact_kinds[i % 6]);
    if (i % 4 == 0) any_problem(i % 8 ? (int)fuzz_below(ALL_KINDS) & ~WITH_FIXED : (int)fuzz_below(4));
    wrong_plan((int)fuzz_below(ALL_KINDS) & ~WITH_FIXED);
  }
  return 0;
}
