/* What the files of a heap share, all of it under the heap's lock unless said otherwise:
 *
 *   heap.c           allocation and free, thread caches
 *   heap_places.c    places of blocks: cached, fresh, or of those that wait for tasks
 *   heap_refuse.c    words for what can't be done
 *   heap_pools.c     blocks that pools hold
 *   heap_whole.c     what is asked of the heap as a whole
 */
#ifndef CANNON_MEMORY_HEAP_HEAP_PRIVATE_H
#define CANNON_MEMORY_HEAP_HEAP_PRIVATE_H

#include <pthread.h>

#include "base/hooks.h"
#include "base/lock.h"
#include "memory/heap/heap.h"
#include "memory/heap/heap_stats.h"
#include "memory/heap/store.h"
#include "memory/heap/thread_cache.h"

/* Full lists of thread caches that wait for the next thread in need: so blocks that one thread allocates and another frees
 * pass the lock by the hundred. */
enum { DEPOT_LISTS = 4 /* of a length */ };

struct heap {
  heap_config config;
  heap_stats stats;
  unsigned index;               /* of thread caches */
  blocks blocks;                /* looked up without the lock */
  _Atomic uint64_t last_number; /* that was given to an allocation, or to a thread for some of its next ones */
  /* The lock guards all below, and changes of blocks. Threads that do without it don't read its cache lines. */
  _Alignas(64) mutex lock;
  store *store;
  thread_cache *caches;
  bool shared;              /* more than one thread frees */
  uint32_t parked, closing; /* freed blocks: since the fence was taken, and those that wait for it to pass */
  void *fence;              /* of closing; NULL: closing is empty */
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

static inline hook_block heap_told(const heap *h, const heap_block *b, uint64_t bytes) {
  return (hook_block){h->config.device, b->address, bytes,          b->requested, b->number,
                      b->call,          b->site,    HOOK_NO_STREAM, false};
}

/* No lock needed. */
static inline bool heap_tasks_pending(const heap *h) {
  const heap_fences *f = h->config.fences;
  return f && (!f->busy || atomic_load_explicit(f->busy, memory_order_acquire)) && f->pending();
}

/* Without the lock: whether to try once more. */
static inline bool heap_find_room(const heap *h, unsigned failures) {
  return h->config.find_room && h->config.find_room(h->config.device, failures);
}

/* ---- heap_places.c ---- */

/* Gives the block a place, where it is found when it is live. */
void heap_enter(heap *h, block_id id, const placement *p, uint16_t pool);

/* A block that has a place, but is not live yet; 0 where there is none. pool: that holds it, or 0. */
block_id heap_make(heap *h, uint64_t bytes, uint16_t pool, bool may_grow);

/* The same by all means: cached memory (a hit), then what threads keep, then fresh or moved memory, then what waits for
 * tasks. */
block_id heap_make_by_all_means(heap *h, uint64_t bytes, uint16_t pool, bool *hit);

/* Makes a freed block's place available to all; those of a list, which is empty then. */
void heap_release(heap *h, block_id id);
void heap_release_all(heap *h, block_id *list);

/* The block is no one's now, but a task may use it. */
void heap_put_back(heap *h, block_id id);

/* Releases what no task can use any more; what waits, whether or not one can. */
void heap_settle(heap *h);
void heap_stop_waiting(heap *h);

/* What a thread cache had no more room for. */
void heap_release_over(heap *h, thread_cache *t);

/* What thread caches and the depot keep. */
void heap_empty_cache(heap *h, thread_cache *t);
void heap_empty_caches(heap *h);

/* Where memory was taken or given back. What threads keep is used, as the store sees it; but they keep nothing when it grows,
 * so that this is never much more than what was in use at the peak. */
static inline void heap_count_pages(heap *h) {
  heap_stats_pages(&h->stats, store_committed(h->store), store_used(h->store));
}

/* ---- heap_refuse.c ---- */

/* ST_INVALID_VALUE; takes no lock. */
status heap_refuse_free(const heap *h, uintptr_t address, const char *name);

/* What other processes have of the device. */
uint64_t heap_held_by_others(const heap *h);

#endif
