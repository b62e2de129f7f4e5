/* Plans made in one pass over the items of a part. */
#ifndef CANNON_PLAN_GREEDY_H
#define CANNON_PLAN_GREEDY_H

#include "plan/item_order.h"
#include "plan/slabs.h"
#include "plan/watch.h"

/* A worker's. */
typedef struct {
  keyed *order, *spare;
  int64_t *base; /* of each item of the problem: what the last pass found */
  slabs slabs;
  max_tree skyline;
} greedy;

void greedy_layout(greedy *g, arena *a, const cannon_plan_problem *problem);

/* Each item on top of whatever was placed before it during its life, n log n: room below is never filled. The peak. */
uint64_t greedy_stack(greedy *g, const instance *in, const part *q, const order_weights *w);

/* g->order holds all items, and g->base where the first n_placed of these are: each of the others at the lowest place that is
 * free. The peak, or UINT64_MAX if it gets above `most` or the watch is over. */
uint64_t greedy_go_on(greedy *g, const instance *in, const part *q, uint32_t n_placed, uint64_t most, watch *stop);

/* Each item at the lowest place that is free, likewise. */
uint64_t greedy_fit(greedy *g, const instance *in, const part *q, const order_weights *w, uint64_t seed, uint64_t most,
                    watch *stop);

/* Passes of greedy_fit in orders that are changed each time: what stuck out above `most` comes earlier. Ends with the first
 * peak of at most that; UINT64_MAX after n_passes. */
uint64_t greedy_squeeze(greedy *g, const instance *in, const part *q, const order_weights *w, uint64_t seed,
                        uint64_t most, uint32_t n_passes, watch *stop);

#endif
