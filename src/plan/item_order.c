/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/item_order.h"

#include <math.h>

#include "plan/watch.h"

uint32_t item_order_fill(const instance *in, const part *q, const order_weights *w, uint64_t seed, int64_t min_load,
                         int64_t max_load, keyed *keys, keyed *spare) {
  uint32_t n = 0;
  for (uint32_t m = q->begin; m < q->end; ++m) {
    const item *it = &in->items[in->members[m]];
    const int64_t load = it->fixed >= 0 ? INT64_MAX - 1 : it->load;
    if (load < min_load || load >= max_load) continue;
    double key = 0;
    if (w->load != 0) key += w->load * log((double)it->load / (double)q->load);
    if (w->life != 0) key += w->life * log((double)it->life);
    if (w->size != 0) key += w->size * log((double)it->height);
    if (w->noise != 0) key += w->noise * plan_random_unit(&seed);
    if (w->start) key -= (double)it->lo;
    if (w->end) key -= (double)it->up;
    if (it->fixed >= 0) key = INFINITY;
    keys[n++] = (keyed){keyed_descending(key), in->members[m]};
  }
  keyed_sort(keys, spare, n);
  return n;
}
