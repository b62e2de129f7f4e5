/* Orders of a part's items: by powers of load, life and size, and chance. */
#ifndef CANNON_PLAN_ITEM_ORDER_H
#define CANNON_PLAN_ITEM_ORDER_H

#include "plan/instance.h"

typedef struct {
  const char *name;
  double load, life, size; /* exponents; how good they are is in docs/planner.md */
  double noise;            /* largest factor by chance, as a logarithm */
  int start, end;          /* 1: by when its life starts, or ends, the earliest first; all else 0 */
} order_weights;

/* Fills keys with the part's items of a load from min_load to below max_load, the first first. Those that are fixed come
 * before all, as if nothing had more load. Their number. */
uint32_t order_items(const instance *in, const part *q, const order_weights *w, uint64_t seed, int64_t min_load,
                     int64_t max_load, keyed *keys, keyed *spare);

#endif
