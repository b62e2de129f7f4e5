/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "memory/heap/heap_private.h"

#include "base/lock.h"

status heap_create(const heap_config *config, heap **out) {
  static _Atomic unsigned n_heaps = 1; /* index 0 means no caches */
  heap *h = aligned_alloc(_Alignof(heap), sizeof *h);
  if (!h) return fail(ST_NO_HOST_MEMORY, "no host memory for the heap of %s", config->name);
  memset(h, 0, sizeof *h);
  const pages_config in_pages = {.device = config->device,
                                 .view = config->window + config->view_distance,
                                 .window_bytes = config->window_bytes,
                                 .shared = config->view_distance != 0,
                                 .size_bytes = config->size_bytes,
                                 .check_host = config->check_host,
                                 .time_calls = config->time_calls};
  INVARIANT(config->window % HEAP_GRANULE_BYTES == 0 && config->window_bytes % HEAP_GRANULE_BYTES == 0);
  INVARIANT(config->unit_shift >= 9 && config->unit_shift <= PAGE_SHIFT);
  h->config = *config;
  mutex_init(&h->lock, LOCK_HEAP);
  status st = ST_OK;
  const bool opened = blocks_open(&h->blocks, config->window, config->window_bytes,
                                  store_large_bytes(config->window_bytes), PAGE_SHIFT, config->unit_shift);
  if (!opened) st = fail(ST_NO_HOST_MEMORY, "no host memory for the blocks of %s", config->name);
  if (st == ST_OK) st = store_create(&in_pages, config->name, config->unit_shift, &h->store);
  if (st != ST_OK) {
    if (opened) blocks_close(&h->blocks);
    free(h);
    return st;
  }
  const unsigned index = atomic_fetch_add(&n_heaps, 1);
  h->index = index < THREAD_CACHE_HEAPS ? index : 0;
  heap_stats_init(&h->stats, config->stats, config->name, config->size_bytes);
  INVARIANT(heap_is_valid(h));
  *out = h;
  return ST_OK;
}

unsigned heap_index(const heap *h) { return h->index; }

/* ---- thread caches ----------------------------------------------------------------------------------------------- */

/* Called for a thread's cache when the thread ends. */
static void end_cache(thread_cache *t) {
  heap *h = t->owner;
  mutex_lock(&h->lock);
  for (thread_cache **at = &h->caches; *at; at = &(*at)->next)
    if (*at == t) {
      *at = t->next;
      break;
    }
  INVARIANT(heap_cache_is_valid(h, t));
  heap_empty_cache(h, t);
  INVARIANT_WALK(heap_is_valid(h));
  heap_stats_close_shard(&h->stats, t->shard);
  mutex_unlock(&h->lock);
}

/* From now on more than one thread frees blocks, so that frees of one block at the same time are told apart. */
static void expect_sharing(heap *h) {
  thread_cache_close(h->caches, NULL);
  h->shared = true;
  for (thread_cache *t = h->caches; t; t = t->next) t->shared = true;
  thread_cache_open(h->caches);
}

static thread_cache *make_cache(heap *h) {
  static const _Atomic int never = 0, always = 1;
  const heap_fences *f = h->config.fences;
  const block_map *small = &h->blocks.map[1];
  stats_shard *shard = heap_stats_open_shard(&h->stats);
  if (h->stats.counters && !shard) return NULL;
  thread_cache model = {.state = shard ? THREAD_CACHE_COUNTED : 0,
                        .shard = shard,
                        .unit_shift = (uint8_t)h->config.unit_shift,
                        .block = h->blocks.block,
                        .small = small->start,
                        .small_bytes = small->bytes,
                        .mark = small->mark,
                        .tasks = &never,
                        .owner = h,
                        .end = end_cache};
  if (f) model.tasks = f->busy ? f->busy : &always;
  thread_cache *t = thread_cache_make(h->index, &model);
  if (!t) heap_stats_close_shard(&h->stats, shard);
  return t;
}

/* The calling thread's cache, made when it is first needed; under the lock. NULL: the thread has none. */
static thread_cache *own_cache(heap *h) {
  thread_cache *t = thread_caches[h->index];
  if (t || hooks_any()) return t;
  t = make_cache(h);
  if (!h->shared && (h->caches || !t)) expect_sharing(h);
  if (!t) return NULL;
  t->shared = h->shared;
  t->next = h->caches;
  return h->caches = t;
}

/* Takes a block for `bytes` out of the thread's cache, which is entered; NULL: it has none. */
static heap_block *take_cached(const heap *h, thread_cache *t, uint64_t bytes) {
  const bool large = store_is_large(bytes);
  const uint64_t n = store_units(bytes, heap_unit_shift(h, large));
  INVARIANT(t->owner == h && t->busy && bytes > 0);
  if (!large && n <= THREAD_CACHE_UNITS) return t->list[n].first ? thread_cache_pop(t, &t->list[n]) : NULL;
  const block_id id = thread_cache_take_long(t, n, large);
  return id ? blocks_at(&h->blocks, id) : NULL;
}

/* Puts a freed block into the thread's cache, which is entered or owned. Long blocks that have to leave it for that
 * wait in a list. Returns whether it is time to take the lock: a list was full, or many blocks wait. */
static bool put_cached(const heap *h, thread_cache *t, block_id id) {
  enum { MOST_OVER = 8 };
  const heap_block *b = blocks_at(&h->blocks, id);
  INVARIANT(t->owner == h && id && !b->pool && b->n_units);
  INVARIANT(b->bucket == (b->large ? 0 : thread_cache_bucket(b->n_units)));
  if (b->bucket) {
    thread_cache_list *const l = &t->list[b->bucket];
    const bool full = !l->room;
    if (full) {
      INVARIANT(!t->full);
      t->full = l->first;
      *l = thread_cache_no_list(b->bucket, t->unit_shift);
    }
    thread_cache_push(t, l, id, b->address);
    return full;
  }
  const block_id out = thread_cache_put_long(t, thread_cache_length(b->n_units, b->large), id);
  if (!out) return false;
  blocks_at(&h->blocks, out)->next = t->over;
  t->over = out;
  return ++t->n_over >= MOST_OVER;
}

/* Puts a full list of a thread's cache into the depot; under the lock. False: there is no room. */
static bool put_in_depot(heap *h, block_id list) {
  const unsigned bucket = blocks_at(&h->blocks, list)->bucket;
  for (unsigned i = 0; bucket && i < DEPOT_LISTS; ++i)
    if (!h->depot[bucket][i]) {
      h->depot[bucket][i] = list;
      return true;
    }
  return false;
}

/* Moves a list of that bucket from the depot to the thread's cache, where that list is empty; under the lock. False:
 * there is none. */
static bool take_from_depot(heap *h, thread_cache *t, unsigned bucket) {
  for (unsigned i = DEPOT_LISTS; i-- > 0;) {
    block_id *const list = &h->depot[bucket][i];
    if (!*list) continue;
    INVARIANT(blocks_at(&h->blocks, *list)->bucket == bucket && !t->list[bucket].first);
    t->list[bucket] = (thread_cache_list){.address = blocks_at(&h->blocks, *list)->address, .first = *list};
    /* .room stays 0, since lists in the depot are full. */
    *list = 0;
    return true;
  }
  return false;
}

/* Adds a few more small blocks to the thread's cache for its next allocations, where they take only cached memory. */
static void heap_refill_cache(heap *h, thread_cache *t, uint64_t bytes) {
  enum { MOST = 4 };
  const uint64_t n = store_units(bytes, h->config.unit_shift);
  if (n > THREAD_CACHE_UNITS || t->list[n].first) return;
  for (int i = 0; i < MOST && t->list[n].room; ++i) {
    const block_id id = heap_make(h, bytes, 0, false);
    if (!id) break;
    INVARIANT(!blocks_at(&h->blocks, id)->bytes);
    put_cached(h, t, id);
  }
}

/* ---- allocation -------------------------------------------------------------------------------------------------- */

/* The number of the next allocation. A thread with a cache reserves 1,024 numbers at a time. */
static uint64_t next_number(heap *h, thread_cache *t) {
  enum { AT_ONCE = 1024 };
  if (!t) return atomic_fetch_add_explicit(&h->last_number, 1, memory_order_relaxed) + 1;
  if (t->next_number == t->end_number) {
    t->next_number = atomic_fetch_add_explicit(&h->last_number, AT_ONCE, memory_order_relaxed) + 1;
    t->end_number = t->next_number + AT_ONCE;
  }
  return t->next_number++;
}

typedef struct {
  uint64_t begun, bytes, requested;
  block_origin origin;
  void *site;
} request;

/* Makes the block live for the request; returns its address. */
static void *heap_hand_out(heap *h, thread_cache *t, heap_block *b, const request *r) {
  block_begin(b, next_number(h, t), r->bytes, r->requested, r->origin, r->site);
  return (void *)b->address; // NOLINT(performance-no-int-to-ptr)
}

/* Takes a block out of a list that another thread has left in the depot; under the lock. The rest of the list goes to
 * the calling thread's cache. 0: there is none. */
static block_id take_from_others(heap *h, uint64_t bytes) {
  thread_cache *t = thread_caches[h->index];
  const uint64_t n = store_units(bytes, h->config.unit_shift);
  if (!t || n > THREAD_CACHE_UNITS || t->list[n].first || !take_from_depot(h, t, (unsigned)n)) return 0;
  const block_id id = t->list[n].first;
  thread_cache_pop(t, &t->list[n]);
  return id;
}

/* The length of the longest blocks that have a set by their length in a thread's cache: so all sets together keep at
 * most a sixteenth of the committed memory. With more, caches would often have to be emptied to find cached memory: a
 * server of language models allocates key-value caches whose lengths change all the time. */
static uint32_t longest_in_sets(const heap *h) {
  const uint64_t bytes = store_committed(h->store) / (16 * 2 << THREAD_CACHE_SET_BITS);
  return thread_cache_length(bytes >> PAGE_SHIFT, true);
}

/* Allocates under the lock. NULL: there is no room. */
static void *alloc_locked(heap *h, const request *r) {
  bool hit = true;
  thread_cache *t = thread_caches[h->index];
  if (t) {
    heap_release_over(h, t);
    t->longest = longest_in_sets(h);
  }
  if (h->parked || h->fence) heap_settle(h);
  block_id id = take_from_others(h, r->bytes);
  if (!id) id = heap_make_by_all_means(h, r->bytes, 0, &hit);
  if (unlikely(!id)) return NULL;
  heap_count_pages(h);
  t = own_cache(h);
  heap_block *b = blocks_at(&h->blocks, id);
  void *p = heap_hand_out(h, t, b, r);
  if (unlikely(hooks_any()))
    hooks_alloc(heap_hook_block(h, b, r->bytes));
  else if (t)
    heap_refill_cache(h, t, r->bytes);
  heap_stats_alloc(&h->stats, r->begun, r->bytes, r->requested, hit);
  INVARIANT(blocks_starting(&h->blocks, (uintptr_t)p) == id);
  INVARIANT_WALK(heap_is_valid(h));
  return p;
}

void *heap_alloc_kept(thread_cache *t, uint64_t bytes, uint64_t requested, block_origin origin, void *site) {
  heap *h = t->owner;
  const uint64_t begun = heap_stats_shard_begin(t->shard, &t->until_timed);
  if (!thread_cache_enter(t, THREAD_CACHE_CLOSED)) return NULL;
  heap_block *b = take_cached(h, t, bytes);
  if (likely(b)) {
    block_begin(b, next_number(h, t), bytes, requested, origin, site);
    if (t->shard) heap_stats_shard_alloc(h->stats.counters, t->shard, begun, bytes, requested);
    INVARIANT_WALK(heap_cache_is_valid(h, t));
  }
  thread_cache_leave(t);
  return likely(b) ? (void *)b->address : NULL; // NOLINT(performance-no-int-to-ptr)
}

static bool try_alloc(heap *h, const request *r, void **out) {
  mutex_lock(&h->lock);
  void *p = alloc_locked(h, r);
  mutex_unlock(&h->lock);
  if (p) *out = p;
  return p;
}

__attribute__((noinline)) status heap_alloc_uncached(heap *h, uint64_t bytes, uint64_t requested, block_origin origin,
                                                     void *site, void **out) {
  const request r = {heap_stats_begin(&h->stats), bytes, requested, origin, site};
  for (unsigned failures = 0; unlikely(!try_alloc(h, &r, out)); ++failures)
    if (!heap_find_room(h, failures)) return heap_refuse(h, bytes, requested, origin, site);
  return ST_OK;
}

/* Whether heap_alloc_kept may have a block that thread_cache_alloc has not found. */
static bool is_worth_asking_again(const thread_cache *t, bool small) {
  return !small || t->shard || t->next_number == t->end_number;
}

status heap_alloc(heap *h, uint64_t bytes, uint64_t requested, block_origin origin, void *site, void **out) {
  thread_cache *t = unlikely(hooks_any()) ? NULL : thread_caches[h->index];
  const uint64_t bucket = ((bytes - 1) >> h->config.unit_shift) + 1;
  const bool small = bucket <= THREAD_CACHE_UNITS;
  void *p = likely(t) && small ? thread_cache_alloc(t, bucket, bytes, requested, origin, site) : NULL;
  if (unlikely(!p) && t && is_worth_asking_again(t, small)) p = heap_alloc_kept(t, bytes, requested, origin, site);
  if (unlikely(!p)) return heap_alloc_uncached(h, bytes, requested, origin, site, out);
  *out = p;
  return ST_OK;
}

/* ---- freeing ----------------------------------------------------------------------------------------------------- */

/* Frees under the lock. False: no live block of the heap's own starts there. */
static bool free_locked(heap *h, uint64_t begun, uintptr_t address, void *site) {
  const block_id id = blocks_starting(&h->blocks, address);
  heap_block *b = blocks_at(&h->blocks, id);
  const uint64_t bytes = id && !b->pool ? block_end(b, true) : 0;
  if (!bytes) return false;
  if (hooks_any()) hooks_free(heap_hook_block(h, b, bytes), site);
  heap_stats_free(&h->stats, begun, bytes, b->requested);
  heap_put_back(h, id);
  if (h->stats.counters) heap_count_pages(h);
  INVARIANT_WALK(heap_is_valid(h));
  return true;
}

/* Moves what the thread's cache has no room for to the depot and the store. */
__attribute__((noinline)) static void heap_spill_cache(heap *h, thread_cache *t) {
  mutex_lock(&h->lock);
  if (t->full && put_in_depot(h, t->full)) t->full = 0;
  heap_release_over(h, t);
  INVARIANT_WALK(heap_is_valid(h) && heap_cache_is_valid(h, t));
  mutex_unlock(&h->lock);
}

/* Frees into a cache that was entered, and leaves it. False: no live block of the heap's own starts at the address. */
static bool free_into_cache(heap *h, thread_cache *t, uint64_t begun, uintptr_t address) {
  const block_id id = blocks_starting(&h->blocks, address);
  heap_block *b = blocks_at(&h->blocks, id);
  const uint64_t bytes = id && !b->pool ? block_end(b, t->shared) : 0;
  bool spills = false;
  if (likely(bytes)) {
    if (t->shard) heap_stats_shard_free(h->stats.counters, t->shard, begun, bytes, b->requested);
    spills = put_cached(h, t, id);
    INVARIANT_WALK(heap_cache_is_valid(h, t));
  }
  thread_cache_leave(t);
  if (unlikely(spills)) heap_spill_cache(h, t);
  return bytes;
}

bool heap_free_kept(thread_cache *t, uintptr_t address) {
  heap *h = t->owner;
  if (unlikely(heap_tasks_pending(h))) return false;
  const uint64_t begun = heap_stats_shard_begin(t->shard, &t->until_timed);
  return thread_cache_enter(t, THREAD_CACHE_CLOSED) && free_into_cache(h, t, begun, address);
}

__attribute__((noinline)) static status heap_free_slowly(heap *h, thread_cache *t, uintptr_t address, const char *name,
                                                         void *site) {
  if (t && heap_free_kept(t, address)) return ST_OK;
  const uint64_t begun = heap_stats_begin(&h->stats);
  mutex_lock(&h->lock);
  own_cache(h);
  const bool freed = free_locked(h, begun, address, site);
  mutex_unlock(&h->lock);
  return likely(freed) ? ST_OK : hooks_bad_free(heap_refuse_free(h, address, name), address, site);
}

status heap_free(heap *h, uintptr_t address, const char *name, void *site) {
  thread_cache *t = unlikely(hooks_any()) ? NULL : thread_caches[h->index];
  return likely(t && thread_cache_free(t, address)) ? ST_OK : heap_free_slowly(h, t, address, name, site);
}
