/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that stream-ordered pools hold of a heap (heap.h). */
#include "memory/heap/heap_private.h"

#include "base/lock.h"

block_id heap_hold(heap *h, uint64_t bytes, uint16_t pool) {
  mutex_lock(&h->lock);
  if (h->parked || h->fence) heap_settle(h);
  bool hit;
  const block_id id = heap_make_by_all_means(h, bytes, pool, &hit);
  heap_count_pages(h);
  INVARIANT(!id || (!blocks_at(&h->blocks, id)->bytes && blocks_at(&h->blocks, id)->pool == pool));
  INVARIANT_WALK(heap_is_valid(h));
  mutex_unlock(&h->lock);
  return id;
}

void heap_let_go(heap *h, block_id id) {
  mutex_lock(&h->lock);
  INVARIANT(blocks_at(&h->blocks, id)->pool && !blocks_at(&h->blocks, id)->bytes);
  heap_release(h, id);
  INVARIANT_WALK(heap_is_valid(h));
  heap_count_pages(h);
  mutex_unlock(&h->lock);
}

heap_place heap_place_of(const heap *h, block_id id) {
  const heap_block *b = blocks_at(&h->blocks, id);
  INVARIANT(id && b->pool && b->n_units);
  return (heap_place){.address = b->address,
                      .bytes = heap_place_bytes(h, b),
                      .unit_shift = heap_unit_shift(h, b->large),
                      .large = b->large};
}

block_id heap_cut(heap *h, block_id id, uint64_t bytes) {
  heap_block *b = blocks_at(&h->blocks, id);
  placement p = heap_placement(h, b), q;
  const uint64_t whole = heap_place_bytes(h, b);
  INVARIANT(b->pool && !b->bytes && bytes > 0 && bytes < whole);
  INVARIANT(bytes % (UINT64_C(1) << heap_unit_shift(h, b->large)) == 0);
  mutex_lock(&h->lock);
  block_id rest = blocks_new(&h->blocks);
  if (rest && store_cut(h->store, &p, (uint32_t)(bytes >> heap_unit_shift(h, b->large)), &q)) {
    blocks_remove(&h->blocks, id, whole);
    heap_enter(h, id, &p, b->pool);
    heap_enter(h, rest, &q, b->pool);
  } else if (rest) {
    blocks_drop(&h->blocks, rest);
    rest = 0;
  }
  INVARIANT_WALK(heap_is_valid(h));
  mutex_unlock(&h->lock);
  return rest;
}

bool heap_join(heap *h, block_id id, block_id after) {
  const heap_block *b = blocks_at(&h->blocks, id), *a = blocks_at(&h->blocks, after);
  placement p = heap_placement(h, b);
  const placement q = heap_placement(h, a);
  const uint64_t bytes = heap_place_bytes(h, b), bytes_after = heap_place_bytes(h, a);
  INVARIANT(b->pool && b->pool == a->pool && !b->bytes && !a->bytes);
  mutex_lock(&h->lock);
  const bool joined = store_join(h->store, &p, &q);
  if (joined) {
    blocks_remove(&h->blocks, id, bytes);
    blocks_remove(&h->blocks, after, bytes_after);
    blocks_drop(&h->blocks, after);
    heap_enter(h, id, &p, b->pool);
    INVARIANT_WALK(heap_is_valid(h));
  }
  mutex_unlock(&h->lock);
  return joined;
}

uint64_t heap_begin(const heap *h) { return heap_stats_begin(&h->stats); }

static hook_block told_in_stream(const heap *h, const heap_block *b, uint64_t bytes, int64_t stream) {
  hook_block told = heap_hook_block(h, b, bytes);
  told.stream = stream;
  return told;
}

void *heap_lend(heap *h, block_id id, const heap_loan *l) {
  const uint64_t number = heap_new_number(h);
  heap_block *b = blocks_at(&h->blocks, id);
  INVARIANT(b->pool && !b->bytes && l->bytes > 0 && l->bytes <= heap_place_bytes(h, b));
  block_begin(b, number, l->bytes, l->requested, l->origin, l->site);
  if (hooks_any()) hooks_alloc(told_in_stream(h, b, l->bytes, l->stream));
  heap_stats_alloc(&h->stats, l->begun, l->bytes, l->requested, l->hit);
  return (void *)b->address; // NOLINT(performance-no-int-to-ptr)
}

bool heap_take_back(heap *h, block_id id, uint64_t begun, int64_t stream, void *site) {
  heap_block *b = blocks_at(&h->blocks, id);
  INVARIANT(id && b->pool);
  const uint64_t bytes = block_end(b, true);
  if (!bytes) return false;
  if (hooks_any()) hooks_free(told_in_stream(h, b, bytes, stream), site);
  heap_stats_free(&h->stats, begun, bytes, b->requested);
  return true;
}

uint16_t heap_pool_of(const heap *h, uintptr_t address) {
  const block_id id = blocks_starting(&h->blocks, address);
  return id ? blocks_at(&h->blocks, id)->pool : 0;
}
