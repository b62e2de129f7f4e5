/* SPDX-License-Identifier: Apache-2.0 */
/* Queries that look at all of a heap (heap.h). */
#include "memory/heap/heap_private.h"

#include "base/lock.h"

/* ---- finding ----------------------------------------------------------------------------------------------------- */

const heap_block *heap_find(const heap *h, uintptr_t address) { return blocks_find(&h->blocks, address); }

typedef struct {
  const heap *heap;
  void (*visit)(const hook_block *, void *);
  void *argument;
} visitor;

static void visit_block(const heap_block *b, void *argument) {
  const visitor *v = argument;
  const hook_block told = heap_hook_block(v->heap, b, b->bytes);
  v->visit(&told, v->argument);
}

void heap_each_block(heap *h, void (*visit)(const hook_block *, void *), void *argument) {
  mutex_lock(&h->lock);
  blocks_each(&h->blocks, visit_block, &(visitor){h, visit, argument});
  mutex_unlock(&h->lock);
}

uint64_t heap_new_number(heap *h) { return atomic_fetch_add_explicit(&h->last_number, 1, memory_order_relaxed) + 1; }

void heap_pieces(heap *h, uintptr_t address, uint64_t bytes, heap_piece *pieces, size_t most, size_t *n) {
  const pages *p = store_pages(h->store);
  uint64_t at = address - h->config.window, end = UINT64_MAX; /* of the last piece, in the file */
  *n = 0;
  mutex_lock(&h->lock);
  INVARIANT(at < h->config.window_bytes && bytes <= h->config.window_bytes - at);
  for (uint64_t left = bytes; left;) {
    const uint64_t in_granule = GRANULE_BYTES - at % GRANULE_BYTES, piece = in_granule < left ? in_granule : left;
    const uint64_t offset = pages_offset(p, at);
    if (end != offset) {
      if ((*n)++ < most) pieces[*n - 1] = (heap_piece){offset, piece};
    } else if (*n <= most) {
      pieces[*n - 1].bytes += piece;
    }
    end = offset + piece;
    at += piece;
    left -= piece;
  }
  mutex_unlock(&h->lock);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Takes the lock. False where there is no room. */
static bool heap_try_take_pages(heap *h, uint64_t begun, uint64_t bytes, uint64_t *offset) {
  INVARIANT(bytes > 0 && bytes % HEAP_GRANULE_BYTES == 0);
  mutex_lock(&h->lock);
  const uint64_t committed = store_committed(h->store);
  if (h->parked || h->fence) heap_settle(h);
  bool taken = store_take_loose(h->store, bytes, offset);
  if (!taken && bytes <= h->config.size_bytes) {
    heap_empty_caches(h);
    heap_stop_waiting(h);
    taken = store_take_loose(h->store, bytes, offset);
  }
  if (taken) {
    heap_count_pages(h);
    heap_stats_alloc(&h->stats, begun, bytes, bytes, store_committed(h->store) <= committed);
  }
  INVARIANT_WALK(heap_is_valid(h));
  mutex_unlock(&h->lock);
  return taken;
}

status heap_take_pages(heap *h, uint64_t bytes, uint64_t *offset) {
  const uint64_t begun = heap_stats_begin(&h->stats);
  for (unsigned failures = 0; !heap_try_take_pages(h, begun, bytes, offset); ++failures)
    if (!heap_find_room(h, failures)) return heap_refuse(h, bytes, bytes, origin_of(RULE_PHYSICAL, PAGES_SMALL), NULL);
  return ST_OK;
}

void heap_give_pages(heap *h, uint64_t offset, uint64_t bytes) {
  const uint64_t begun = heap_stats_begin(&h->stats);
  mutex_lock(&h->lock);
  store_give_loose(h->store, offset, bytes);
  INVARIANT_WALK(heap_is_valid(h));
  heap_count_pages(h);
  heap_stats_free(&h->stats, begun, bytes, bytes);
  mutex_unlock(&h->lock);
}

int heap_file(const heap *h) { return pages_file(store_pages(h->store)); }

/* Releases all blocks that nobody needs, so that they count as free. */
static void heap_collect(heap *h) {
  if (h->parked || h->fence) heap_settle(h);
  heap_empty_caches(h);
  heap_count_pages(h);
}

void heap_info(heap *h, uint64_t *free_bytes, uint64_t *total_bytes) {
  mutex_lock(&h->lock);
  heap_collect(h);
  const uint64_t used = store_used(h->store);
  mutex_unlock(&h->lock);
  const uint64_t left = used < h->config.size_bytes ? h->config.size_bytes - used : 0, others = heap_held_by_others(h);
  *total_bytes = h->config.size_bytes;
  *free_bytes = others < left ? left - others : 0;
}

void heap_measure(heap *h, heap_usage *out) {
  mutex_lock(&h->lock);
  heap_collect(h);
  *out = (heap_usage){.used_bytes = store_used(h->store),
                      .peak_bytes = store_peak(h->store),
                      .committed_bytes = store_committed(h->store),
                      .n_calls = pages_n_calls(store_pages(h->store)),
                      .call_ns = pages_call_ns(store_pages(h->store))};
  mutex_unlock(&h->lock);
}

void heap_trim(heap *h, uint64_t keep_bytes) {
  mutex_lock(&h->lock);
  heap_collect(h);
  const uint64_t committed = store_committed(h->store);
  if (committed > keep_bytes) store_trim(h->store, (committed - keep_bytes + PAGE_BYTES - 1) >> PAGE_SHIFT);
  INVARIANT_WALK(heap_is_valid(h));
  heap_count_pages(h);
  mutex_unlock(&h->lock);
}
