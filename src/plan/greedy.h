/* SPDX-License-Identifier: Apache-2.0 */
/* Plans made in a single pass over the items of a part. Called by plan.c and rounds.c; each worker thread has a
 * `greedy` of its own. Peaks are in bytes, bases in units (instance.h). A fixed item always gets its fixed base. */
#ifndef CANNON_PLAN_GREEDY_H
#define CANNON_PLAN_GREEDY_H

#include "plan/item_order.h"
#include "plan/slabs.h"
#include "plan/watch.h"

/* Buffers of one worker, taken from the planner's arena. */
typedef struct {
  keyed *order, *spare;
  int64_t *base; /* bases that the last pass found, indexed by the items of the problem */
  slabs slabs;
  max_tree skyline;
} greedy;

void greedy_layout(greedy *g, arena *a, const cannon_plan_problem *problem);

/* Places each item, in the order of the weights, on top of everything placed before it that overlaps its lifetime.
 * Takes O(n log n); free room further down is never used. Returns the peak. */
uint64_t greedy_stack(greedy *g, const instance *in, const part *q, const order_weights *w);

/* Continues a pass: g->order holds all items, and g->base the bases of the first n_placed of them. Each of the other
 * items is placed at the lowest base that is free during its life. Returns the peak, or UINT64_MAX if the peak would
 * exceed `most` bytes, or the time limit or a cancellation ended the pass. */
uint64_t greedy_continue(greedy *g, const instance *in, const part *q, uint32_t n_placed, uint64_t most, watch *stop);

/* Places all items of the part at their lowest free bases, in the order of the weights. Returns as greedy_continue
 * does. */
uint64_t greedy_fit(greedy *g, const instance *in, const part *q, const order_weights *w, uint64_t seed, uint64_t most,
                    watch *stop);

/* Repeats greedy_fit in changed orders: after each pass, items that ended above `most` bytes move towards the front.
 * Returns the first peak of at most `most`, or UINT64_MAX after n_passes passes or when the watch is over. */
uint64_t greedy_squeeze(greedy *g, const instance *in, const part *q, const order_weights *w, uint64_t seed,
                        uint64_t most, uint32_t n_passes, watch *stop);

#endif
