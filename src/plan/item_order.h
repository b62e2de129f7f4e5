/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of a part's items for greedy passes and searches: by a product of powers of load, life and size, with
 * random noise. */
#ifndef CANNON_PLAN_ITEM_ORDER_H
#define CANNON_PLAN_ITEM_ORDER_H

#include "plan/instance.h"

typedef struct {
  const char *name;
  double load, life, size; /* exponents; docs/planner.md says how good the combinations are */
  double noise;            /* largest random factor, as a natural logarithm */
  int start, end;          /* 1: the item whose life starts (ends) first comes first; the other weights are 0 */
} order_weights;

/* Fills keys with the part's items whose load is at least min_load and below max_load (units), in the order of the
 * weights. Fixed items come before all others and count as having the largest load. `spare` is scratch of the same
 * length. Returns their number. */
uint32_t item_order_fill(const instance *in, const part *q, const order_weights *w, uint64_t seed, int64_t min_load,
                         int64_t max_load, keyed *keys, keyed *spare);

#endif
