/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/greedy.h"

void greedy_layout(greedy *g, arena *a, const cannon_plan_problem *p) {
  const size_t n_pieces = 2 * (p->n_buffers + 2 * p->n_gaps);
  TAKE(a, g->order, p->n_buffers);
  TAKE(a, g->spare, p->n_buffers);
  TAKE(a, g->base, p->n_buffers);
  slabs_layout(&g->slabs, a, n_pieces, n_pieces);
  max_tree_layout(&g->skyline, a, n_pieces);
}

static int64_t stack_item(greedy *g, const instance *in, const part *q, uint32_t i) {
  const item *it = &in->items[i];
  int64_t base = 0;
  for (uint32_t k = in->first[i]; k < in->first[i + 1]; ++k) {
    const piece *p = &in->pieces[k];
    const int64_t over = max_tree_max(&g->skyline, p->lo - q->lo, p->up - q->lo) - p->low;
    if (over > base) base = over;
  }
  base = it->fixed >= 0 ? it->fixed : instance_align_up(base, it->align);
  for (uint32_t k = in->first[i]; k < in->first[i + 1]; ++k)
    max_tree_raise(&g->skyline, in->pieces[k].lo - q->lo, in->pieces[k].up - q->lo, base + in->pieces[k].high);
  return base;
}

uint64_t greedy_stack(greedy *g, const instance *in, const part *q, const order_weights *w) {
  const uint32_t n = q->end - q->begin;
  uint64_t peak = 0;
  item_order_fill(in, q, w, 0, 0, INT64_MAX, g->order, g->spare);
  max_tree_reset(&g->skyline, q->up - q->lo);
  for (uint32_t m = 0; m < n; ++m) {
    const uint32_t i = g->order[m].index;
    g->base[i] = stack_item(g, in, q, i);
    const uint64_t top = item_top(in, i, g->base[i]);
    if (top > peak) peak = top;
  }
  return peak;
}

uint64_t greedy_continue(greedy *g, const instance *in, const part *q, uint32_t n_placed, uint64_t most, watch *stop) {
  enum { CHECK_EVERY = 256 };
  const uint32_t n = q->end - q->begin;
  uint64_t peak = 0;
  slabs_open(&g->slabs, in, q);
  for (uint32_t m = 0; m < n; ++m) {
    const uint32_t i = g->order[m].index;
    const int64_t base = m < n_placed ? g->base[i] : slabs_find(&g->slabs, i);
    const uint64_t top = item_top(in, i, base);
    if (top > most || (m % CHECK_EVERY == 0 && watch_over(stop))) return UINT64_MAX;
    if (top > peak) peak = top;
    g->base[i] = base;
    slabs_add(&g->slabs, i, base);
  }
  return peak;
}

uint64_t greedy_fit(greedy *g, const instance *in, const part *q, const order_weights *w, uint64_t seed, uint64_t most,
                    watch *stop) {
  item_order_fill(in, q, w, seed, 0, INT64_MAX, g->order, g->spare);
  return greedy_continue(g, in, q, 0, most, stop);
}

/* Moves items that end above `most` bytes towards the front of the order, each by a random distance of up to half of
 * the way. Fixed items go to the front. */
static void promote(greedy *g, const instance *in, uint32_t n, uint64_t most, uint64_t *seed) {
  for (uint32_t m = 0; m < n; ++m) {
    const uint32_t i = g->order[m].index;
    uint64_t place = (uint64_t)m << 20;
    if (in->items[i].fixed >= 0)
      place = 0;
    else if (item_top(in, i, g->base[i]) > most)
      place = (uint64_t)((double)place * (1 - 0.5 * plan_random_unit(seed)));
    g->order[m].key = place;
  }
  keyed_sort(g->order, g->spare, n);
}

uint64_t greedy_squeeze(greedy *g, const instance *in, const part *q, const order_weights *w, uint64_t seed,
                        uint64_t most, uint32_t n_passes, watch *stop) {
  item_order_fill(in, q, w, plan_random_next(&seed), 0, INT64_MAX, g->order, g->spare);
  for (uint32_t pass = 0; pass < n_passes; ++pass) {
    if (pass) promote(g, in, q->end - q->begin, most, &seed);
    const uint64_t peak = greedy_continue(g, in, q, 0, UINT64_MAX, stop);
    if (peak <= most || peak == UINT64_MAX) return peak;
  }
  return UINT64_MAX;
}
