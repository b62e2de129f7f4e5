/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of attempts to lower the peak of one part. Each task of a round is one attempt: a greedy pass in some
 * order, a sequence of such passes, or a search for a plan within a target. The best attempt of a round is kept.
 * Called by plan.c; the tasks run on the threads of a crew, each with a `worker` of its own. */
#ifndef CANNON_PLAN_ROUNDS_H
#define CANNON_PLAN_ROUNDS_H

#include "plan/crew.h"
#include "plan/greedy.h"
#include "plan/search.h"

/* Data of one thread, taken from the planner's arena. */
typedef struct {
  greedy greedy;
  search search;
  int64_t *kept; /* bases of its best attempt of the round, by item */
  uint64_t kept_peak;
  uint32_t kept_task;
} worker;

typedef struct {
  uint64_t peak;
  uint64_t nodes;
  bool impossible; /* it is proved that no plan is within the target */
  const char *method;
} attempt;

enum { ROUND_TASKS = 16, FIRST_EFFORT = 4 };

/* State of a part between rounds; owned by the planner. */
typedef struct {
  uint64_t peak;
  uint64_t step;               /* bytes below the peak that the next search aims at */
  uint64_t n_rounds, n_greedy; /* rounds of searches; rounds of greedy passes */
  uint64_t max_cost;           /* largest cost of a search (search_limits) */
  uint64_t effort;             /* budget of a search, relative to FIRST_EFFORT; 0: no round yet */
} part_state;

typedef struct {
  const instance *in;
  worker *workers;
  crew *crew;
  watch *stop;
  uint64_t seed;
  /* a capacity is given: searches aim at it and no lower, since a better plan is worth nothing until it is reached */
  bool only_goal;
  int64_t *base; /* best plan so far: base of each item */

  /* The current round. */
  const part *part;
  const part_state *state;
  uint64_t goal;   /* bytes; there is no need for a lower peak */
  uint64_t target; /* bytes; an attempt with at most this peak succeeds */
  attempt attempts[ROUND_TASKS];
} rounds;

typedef struct {
  uint64_t nodes;
  bool better, impossible; /* impossible: it is proved that no plan is within the target */
  const char *method;
} round_result;

/* Makes greedy passes: in the best of the fixed orders the first time, in the other fixed orders the second time. */
round_result rounds_greedy(rounds *r, part *q, part_state *state, uint64_t goal);

/* Makes searches and sequences of greedy passes, or, once after the first round of these, greedy passes in the other
 * fixed orders. May raise the part's bound. */
round_result rounds_improve(rounds *r, part *q, part_state *state, uint64_t goal);

#endif
