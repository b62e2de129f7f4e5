/* SPDX-License-Identifier: Apache-2.0 */
/* Internal declarations of a heap, for its own files and their tests. Everything here is called under the heap's lock
 * unless it says otherwise.
 *
 *   heap.c             allocation, free, thread caches
 *   heap_places.c      gives places to blocks and takes them back; blocks that wait for tasks
 *   heap_refuse.c      error messages
 *   heap_pools.c       blocks that pools hold
 *   heap_whole.c       queries and operations on the whole heap
 *   heap_invariants.c  checks of the whole state, in debug builds
 */
#ifndef CANNON_MEMORY_HEAP_HEAP_PRIVATE_H
#define CANNON_MEMORY_HEAP_HEAP_PRIVATE_H

#include "base/hooks.h"
#include "base/invariant.h"
#include "base/lock.h"
#include "memory/heap/heap.h"
#include "memory/heap/heap_stats.h"
#include "memory/heap/store.h"
#include "memory/heap/thread_cache.h"

/* The depot keeps full lists out of thread caches for the next thread that needs blocks of that length. So blocks that
 * one thread allocates and another one frees cross the lock by whole lists, up to 255 blocks at a time. */
enum { DEPOT_LISTS = 4 /* per length */ };

struct heap {
  heap_config config;
  heap_stats stats;
  unsigned index; /* of the heap's thread caches in thread_caches[] */
  blocks blocks;  /* searched without the lock, changed under it */
  _Atomic uint64_t
      last_number; /* the highest number given to an allocation, or reserved by a thread for its next ones */
  /* The lock guards all below, and changes of blocks. Threads that do without it don't read its cache lines. */
  _Alignas(64) mutex lock;
  store *store;
  thread_cache *caches;     /* of all threads that have one, linked by .next */
  bool shared;              /* whether more than one thread may free */
  uint32_t parked, closing; /* lists of freed blocks that tasks may use: those freed since the fence was taken, and
                               those that are reused when it has passed */
  void *fence;              /* NULL: none is taken, and closing is empty */
  block_id depot[THREAD_CACHE_UNITS + 1][DEPOT_LISTS]; /* by bucket; an unused entry is 0, as are all behind it */
};

static inline unsigned heap_unit_shift(const heap *h, bool large) { return large ? PAGE_SHIFT : h->config.unit_shift; }

static inline uint64_t heap_place_bytes(const heap *h, const heap_block *b) {
  return (uint64_t)b->n_units << heap_unit_shift(h, b->large);
}

static inline placement heap_placement(const heap *h, const heap_block *b) {
  return (placement){
      .offset = b->address - h->config.window, .n_units = b->n_units, .range = b->range, .large = b->large};
}

static inline hook_block heap_hook_block(const heap *h, const heap_block *b, uint64_t bytes) {
  return (hook_block){.device = h->config.device,
                      .address = b->address,
                      .bytes = bytes,
                      .requested = b->requested,
                      .number = b->number,
                      .call = origin_call(b->origin),
                      .site = b->site,
                      .stream = HOOK_NO_STREAM,
                      .is_internal = origin_kind(b->origin) == RULE_OPERATOR};
}

/* Whether a task is pending that may use a freed block. Needs no lock. */
static inline bool heap_tasks_pending(const heap *h) {
  const heap_fences *f = h->config.fences;
  return f && (!f->busy || atomic_load_explicit(f->busy, memory_order_acquire)) && f->pending();
}

/* Called without the lock after an allocation has failed: whether another attempt makes sense
 * (heap_config.find_room). */
static inline bool heap_find_room(const heap *h, unsigned failures) {
  return h->config.find_room && h->config.find_room(h->config.device, failures);
}

/* ---- heap_places.c ---- */

/* Gives the block a place and enters it in the index. pool: the number of the pool that holds it, or 0. */
void heap_enter(heap *h, block_id id, const placement *p, uint16_t pool);

/* Makes a block with a place of `bytes`, which is not live yet; 0 where there is no room. pool: the number of the pool
 * that holds it, or 0. Without may_grow, only cached memory is used. */
block_id heap_make(heap *h, uint64_t bytes, uint16_t pool, bool may_grow);

/* As heap_make, but tries everything: cached memory, then what thread caches keep, then fresh or moved memory, then the
 * blocks that wait for tasks. *hit: whether cached memory was enough. */
block_id heap_make_by_all_means(heap *h, uint64_t bytes, uint16_t pool, bool *hit);

/* Gives the place of a block that is not live to the store, and drops the block; does so for a whole list, which is
 * empty then. */
void heap_release(heap *h, block_id id);
void heap_release_all(heap *h, block_id *list);

/* Takes a block that was freed by the program, and that pending tasks may still use: it is released or begins to
 * wait. */
void heap_put_back(heap *h, block_id id);

/* Releases the waiting blocks that no task can use any more. */
void heap_settle(heap *h);

/* Releases all waiting blocks, although tasks may still use them. */
void heap_stop_waiting(heap *h);

/* Releases the blocks that a thread cache had no more room for. */
void heap_release_over(heap *h, thread_cache *t);

/* Releases all blocks of one thread cache, which the caller has closed or owns; those of all caches and of the
 * depot. */
void heap_empty_cache(heap *h, thread_cache *t);
void heap_empty_caches(heap *h);

/* Publishes the bytes in use and committed, after memory was taken or given back. Blocks in thread caches count as
 * used; since caches are emptied before memory is added, this is never much more than what was in use at the peak. */
static inline void heap_count_pages(heap *h) {
  heap_stats_pages(&h->stats, store_committed(h->store), store_used(h->store));
}

/* ---- heap_refuse.c ---- */

/* Words why no block can be freed at the address, as ST_INVALID_VALUE. name: the argument's. Takes no lock. */
status heap_refuse_free(const heap *h, uintptr_t address, const char *name);

/* Bytes that other processes have charged on the heap's device. Needs no lock. */
uint64_t heap_held_by_others(const heap *h);

/* ---- heap_invariants.c, only in builds with CANNON_INVARIANTS ---- */

/* Whether the store, the index of blocks and the lists of blocks agree. Does not look into thread caches, which belong
 * to their threads. */
bool heap_is_valid(const heap *h);

/* Whether no block is in a thread cache: every block is live, or held by a pool, or in a list of the heap's. Only
 * meaningful while the caches are closed. */
bool heap_caches_are_empty(const heap *h);

/* Whether the blocks of a cache, which the caller has entered, closed or owns, are not live and in the right lists. */
bool heap_cache_is_valid(const heap *h, const thread_cache *t);

#endif
