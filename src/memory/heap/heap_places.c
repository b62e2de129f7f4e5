/* SPDX-License-Identifier: Apache-2.0 */
/* Where blocks are: taken, moved and given back (heap_private.h). */
#include "memory/heap/heap_private.h"

/* ---- places of blocks -------------------------------------------------------------------------------------------- */

void heap_enter(heap *h, block_id id, const placement *p, uint16_t pool) {
  heap_block *b = blocks_at(&h->blocks, id);
  INVARIANT(id && store_has(h->store, p) && !b->bytes);
  INVARIANT(p->offset + ((uint64_t)p->n_units << heap_unit_shift(h, p->large)) <= h->config.window_bytes);
  b->range = p->range;
  b->n_units = p->n_units;
  b->large = p->large;
  b->pool = pool;
  b->bucket = pool || p->large ? 0 : thread_cache_bucket(p->n_units);
  blocks_enter(&h->blocks, id, h->config.window + p->offset, heap_place_bytes(h, b));
}

block_id heap_make(heap *h, uint64_t bytes, uint16_t pool, bool may_grow) {
  placement p;
  const block_id id = blocks_new(&h->blocks);
  if (!id) return 0;
  if (!store_take(h->store, bytes, may_grow, &p)) {
    blocks_drop(&h->blocks, id);
    return 0;
  }
  heap_enter(h, id, &p, pool);
  return id;
}

void heap_release(heap *h, block_id id) {
  const heap_block *b = blocks_at(&h->blocks, id);
  INVARIANT(id && !b->bytes && blocks_is_entered(&h->blocks, id));
  blocks_remove(&h->blocks, id, heap_place_bytes(h, b));
  const placement p = heap_placement(h, b);
  store_give(h->store, &p);
  blocks_drop(&h->blocks, id);
}

void heap_release_all(heap *h, block_id *list) {
  while (*list) {
    const block_id id = *list;
    *list = blocks_at(&h->blocks, id)->next;
    heap_release(h, id);
  }
}

block_id heap_make_by_all_means(heap *h, uint64_t bytes, uint16_t pool, bool *hit) {
  block_id id = heap_make(h, bytes, pool, false);
  *hit = id;
  if (id || bytes > h->config.size_bytes) return id;
  heap_empty_caches(h);
  if ((*hit = (id = heap_make(h, bytes, pool, false)))) return id;
  if ((id = heap_make(h, bytes, pool, true)) || !(h->parked || h->closing)) return id;
  heap_stop_waiting(h);
  return heap_make(h, bytes, pool, true);
}

/* ---- waiting for tasks ------------------------------------------------------------------------------------------- */

/* There is at most one fence at a time, which covers the blocks in the list `closing`. Blocks that are freed meanwhile
 * wait in `parked` for the next fence. */
void heap_settle(heap *h) {
  INVARIANT(h->fence || !h->closing);
  if (h->fence && h->config.fences->passed(h->fence)) {
    h->fence = NULL;
    heap_release_all(h, &h->closing);
  }
  if (h->fence || !h->parked) return;
  if (!h->config.fences->pending()) {
    heap_release_all(h, &h->parked);
    return;
  }
  h->fence = h->config.fences->take();
  if (!h->fence) return;
  INVARIANT(!h->closing);
  h->closing = h->parked;
  h->parked = 0;
}

void heap_stop_waiting(heap *h) {
  heap_release_all(h, &h->closing);
  heap_release_all(h, &h->parked);
}

void heap_put_back(heap *h, block_id id) {
  INVARIANT(id && !blocks_at(&h->blocks, id)->bytes && !blocks_at(&h->blocks, id)->pool);
  if (heap_tasks_pending(h)) {
    blocks_at(&h->blocks, id)->next = h->parked;
    h->parked = id;
  } else {
    heap_release(h, id);
  }
  if (h->parked) heap_settle(h);
}

/* ---- thread caches ----------------------------------------------------------------------------------------------- */

void heap_release_over(heap *h, thread_cache *t) {
  heap_release_all(h, &t->full);
  heap_release_all(h, &t->over);
  t->n_over = 0;
}

void heap_empty_cache(heap *h, thread_cache *t) {
  for (unsigned i = 1; i <= THREAD_CACHE_UNITS; ++i) {
    if (!t->list[i].first) continue;
    heap_release_all(h, &t->list[i].first);
    t->list[i] = thread_cache_no_list(i, t->unit_shift);
  }
  for (unsigned i = 0; i < 1u << THREAD_CACHE_SET_BITS; ++i)
    for (int k = 0; k < 2; ++k) {
      if (t->set[i].length[k]) heap_release(h, t->set[i].block[k]);
      t->set[i].length[k] = 0;
    }
  heap_release_over(h, t);
}

static void empty_depot(heap *h) {
  for (unsigned i = 1; i <= THREAD_CACHE_UNITS; ++i)
    for (unsigned k = 0; k < DEPOT_LISTS && h->depot[i][k]; ++k) heap_release_all(h, &h->depot[i][k]);
}

void heap_empty_caches(heap *h) {
  thread_cache_close(h->caches, thread_caches[h->index]);
  for (thread_cache *t = h->caches; t; t = t->next) {
    INVARIANT_WALK(heap_cache_is_valid(h, t));
    heap_empty_cache(h, t);
  }
  INVARIANT_WALK(heap_caches_are_empty(h));
  thread_cache_open(h->caches);
  empty_depot(h);
  INVARIANT_WALK(heap_is_valid(h));
}
