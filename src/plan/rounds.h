/* Rounds of tasks that lower the peak of one part. Each task is one attempt: a greedy pass in some order, a chain of such
 * passes, or a search for a plan within a target. A round's best attempt is kept. */
#ifndef CANNON_PLAN_ROUNDS_H
#define CANNON_PLAN_ROUNDS_H

#include "plan/crew.h"
#include "plan/greedy.h"
#include "plan/search.h"

/* A thread's room. */
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
  bool impossible; /* proved: nothing within the target */
  const char *method;
} attempt;

enum { ROUND_TASKS = 16, FIRST_EFFORT = 4 };

/* What is known of a part. */
typedef struct {
  uint64_t peak;
  uint64_t step;               /* how far below the peak the next search looks */
  uint64_t n_rounds, n_greedy; /* of searches, of greedy passes */
  uint64_t max_cost;           /* of a search (search_limits) */
  uint64_t effort;             /* of a search, against FIRST_EFFORT; 0: no round yet */
} part_state;

typedef struct {
  const instance *in;
  worker *workers;
  crew *crew;
  watch *stop;
  uint64_t seed;
  bool only_goal; /* searches look for no less: better plans than the best are worth nothing until it is reached */
  int64_t *base;  /* best so far, by item */

  /* The round. */
  const part *part;
  const part_state *state;
  uint64_t goal;   /* bytes: no need to get below */
  uint64_t target; /* bytes: an attempt with at most this wins */
  attempt attempts[ROUND_TASKS];
} rounds;

typedef struct {
  uint64_t nodes;
  bool better, impossible; /* impossible: nothing within the target */
  const char *method;
} round_result;

/* Greedy passes in the best of the usual orders; the second time in the others. */
round_result rounds_greedy(rounds *r, part *q, part_state *state, uint64_t goal);

/* Searches and chains of greedy passes; and once, behind the first of these, the other usual orders. May raise the part's
 * bound. */
round_result rounds_improve(rounds *r, part *q, part_state *state, uint64_t goal);

#endif
