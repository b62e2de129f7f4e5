/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of a heap's whole state, for INVARIANT_WALK and tests (heap_private.h). */
#include "memory/heap/heap_private.h"

#ifdef CANNON_INVARIANTS

/* A list of blocks of the heap that are not live: *n is its length. False where a block is something else, or there are
 * more than n_most. */
static bool heap_list_is_valid(const heap *h, block_id first, unsigned bucket, uint32_t n_most, uint32_t *n) {
  *n = 0;
  for (block_id id = first; id; id = blocks_at(&h->blocks, id)->next) {
    if (id >> BLOCK_ID_BITS || ++*n > n_most) return false;
    const heap_block *b = blocks_at(&h->blocks, id);
    if (!b->n_units || b->bytes || b->pool || (bucket && b->bucket != bucket)) return false;
  }
  return true;
}

/* Lists in the depot are full, and the used entries of a bucket come first. */
static bool heap_depot_is_valid(const heap *h, uint32_t *n_blocks) {
  uint32_t n;
  for (unsigned bucket = 0; bucket <= THREAD_CACHE_UNITS; ++bucket)
    for (unsigned i = 0; i < DEPOT_LISTS; ++i) {
      const block_id first = h->depot[bucket][i];
      if (!first) continue;
      if (!bucket || (i && !h->depot[bucket][i - 1])) return false;
      if (!heap_list_is_valid(h, first, bucket, THREAD_CACHE_BLOCKS, &n)) return false;
      if (n != thread_cache_no_list(bucket, h->config.unit_shift).room) return false;
      *n_blocks += n;
    }
  return true;
}

static bool heap_lists_are_valid(const heap *h, uint32_t *n_blocks) {
  uint32_t parked, closing;
  *n_blocks = 0;
  if (!heap_list_is_valid(h, h->parked, 0, h->blocks.n_blocks, &parked) ||
      !heap_list_is_valid(h, h->closing, 0, h->blocks.n_blocks, &closing) || !heap_depot_is_valid(h, n_blocks))
    return false;
  *n_blocks += parked + closing;
  return (h->fence || !h->closing) && (h->config.fences || !(h->parked || h->fence));
}

static bool heap_caches_are_valid(const heap *h) {
  unsigned n = 0;
  for (const thread_cache *t = h->caches; t; t = t->next, ++n)
    if (t->owner != h || t->shared != h->shared || t->block != h->blocks.block || !t->shard != !h->stats.counters)
      return false;
  return n < 2 || h->shared;
}

bool heap_is_valid(const heap *h) {
  uint64_t bytes = 0;
  uint32_t n_listed;
  if (!store_is_valid(h->store) || !blocks_is_valid(&h->blocks)) return false;
  for (block_id id = 1; id < h->blocks.n_blocks; ++id) {
    const heap_block *b = blocks_at(&h->blocks, id);
    if (!b->n_units) continue;
    const placement p = heap_placement(h, b);
    if (!store_has(h->store, &p) || b->bytes > heap_place_bytes(h, b) || b->number > h->last_number) return false;
    if (b->bucket != (b->pool || b->large ? 0 : thread_cache_bucket(b->n_units))) return false;
    bytes += heap_place_bytes(h, b);
  }
  return bytes == store_placed_bytes(h->store) && heap_lists_are_valid(h, &n_listed) && heap_caches_are_valid(h);
}

bool heap_caches_are_empty(const heap *h) {
  uint32_t n_owned = 0, n_listed;
  for (block_id id = 1; id < h->blocks.n_blocks; ++id) {
    const heap_block *b = blocks_at(&h->blocks, id);
    n_owned += b->n_units && !b->bytes && !b->pool;
  }
  return heap_lists_are_valid(h, &n_listed) && n_owned == n_listed;
}

/* A list's length and its room make up what a list may have, and the first block's address is beside it. */
static bool heap_cache_lists_are_valid(const heap *h, const thread_cache *t) {
  uint32_t n;
  for (unsigned i = 0; i <= THREAD_CACHE_UNITS; ++i) {
    const thread_cache_list *l = &t->list[i];
    if (!heap_list_is_valid(h, l->first, i, THREAD_CACHE_BLOCKS, &n) || (!i && n)) return false;
    if (n + l->room != thread_cache_no_list(i, t->unit_shift).room) return false;
    if (l->address != blocks_at(&h->blocks, l->first)->address) return false;
  }
  return true;
}

bool heap_cache_is_valid(const heap *h, const thread_cache *t) {
  uint32_t n_full, n_over;
  if (t->owner != h || t->next_number > t->end_number || !heap_cache_lists_are_valid(h, t)) return false;
  for (unsigned i = 0; i < 1u << THREAD_CACHE_SET_BITS; ++i)
    for (int k = 0; k < 2; ++k) {
      const heap_block *b = blocks_at(&h->blocks, t->set[i].block[k]);
      if (!t->set[i].length[k]) continue;
      if (b->bytes || b->pool || b->bucket || t->set[i].length[k] != thread_cache_length(b->n_units, b->large))
        return false;
    }
  return heap_list_is_valid(h, t->full, 0, THREAD_CACHE_BLOCKS, &n_full) &&
         heap_list_is_valid(h, t->over, 0, UINT8_MAX, &n_over) && n_over == t->n_over;
}

#else

typedef int heap_invariants_are_not_compiled; /* a translation unit is not empty */

#endif
