#include "memory/heap/heap.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hooks.h"
#include "memory/heap/heap_stats.h"
#include "memory/heap/store.h"
#include "memory/heap/thread_cache.h"
#include "memory/host.h"
#include "memory/share/ledger.h"

struct heap {
  heap_config config;
  heap_stats stats;
  unsigned index;               /* of thread caches */
  _Atomic uint64_t last_number; /* that was given to an allocation, or to a thread for some of its next ones */
  blocks blocks;                /* looked up without the lock */
  pthread_mutex_t lock;         /* guards all below, and changes of blocks */
  store *store;
  thread_cache *caches;
  /* More than one thread frees. Changed with all caches closed, so read inside of one, or under the lock. */
  bool shared;
  uint32_t parked, closing; /* freed blocks: since the fence was taken, and those that wait for it to pass */
  void *fence;              /* of closing; NULL: closing is empty */
};

status heap_create(const heap_config *config, heap **out) {
  static _Atomic unsigned n_heaps;
  heap *h = calloc(1, sizeof *h);
  if (!h) return fail(ST_NO_HOST_MEMORY, "no host memory for the heap of %s", config->name);
  const pages_config pages = {.device = config->device,
                              .view = config->window + config->view_distance,
                              .window_bytes = config->window_bytes,
                              .shared = config->view_distance != 0,
                              .size_bytes = config->size_bytes,
                              .check_host = config->check_host};
  h->config = *config;
  pthread_mutex_init(&h->lock, NULL);
  status st = ST_OK;
  const bool opened = blocks_open(&h->blocks, config->window, config->window_bytes,
                                  store_large_bytes(config->window_bytes), PAGE_SHIFT, config->unit_shift);
  if (!opened) st = fail(ST_NO_HOST_MEMORY, "no host memory for the blocks of %s", config->name);
  if (st == ST_OK) st = store_create(&pages, config->name, config->unit_shift, &h->store);
  if (st != ST_OK) {
    if (opened) blocks_close(&h->blocks);
    free(h);
    return st;
  }
  h->index = atomic_fetch_add(&n_heaps, 1);
  heap_stats_init(&h->stats, config->stats, config->name, config->size_bytes);
  *out = h;
  return ST_OK;
}

/* Whether every allocation and free is to be counted or told, exactly: then no cache of a thread's is used. */
static inline bool is_observed(const heap *h) { return h->stats.counters || hooks_any(); }

static hook_block told(const heap *h, const heap_block *b, uint64_t bytes) {
  return (hook_block){h->config.device, b->address, bytes, b->requested, b->number, b->call, b->site};
}

/* Where memory was taken or given back; under the lock. */
static void count_pages(heap *h) { heap_stats_pages(&h->stats, store_committed(h->store), store_used(h->store)); }

/* ---- places of blocks -------------------------------------------------------------------------------------------- */

static placement placement_of(const heap *h, const heap_block *b) {
  return (placement){
      .offset = b->address - h->config.window, .n_units = b->n_units, .range = b->range, .large = b->large};
}

static unsigned unit_shift_of(const heap *h, bool large) { return large ? PAGE_SHIFT : h->config.unit_shift; }

static uint64_t place_bytes(const heap *h, const heap_block *b) {
  return (uint64_t)b->n_units << unit_shift_of(h, b->large);
}

/* Gives the block a place, where it is found when it is live. */
static void enter(heap *h, block_id id, const placement *p, uint16_t pool) {
  heap_block *b = blocks_at(&h->blocks, id);
  b->range = p->range;
  b->n_units = p->n_units;
  b->large = p->large;
  b->pool = pool;
  blocks_enter(&h->blocks, id, h->config.window + p->offset, place_bytes(h, b));
}

/* A block that has a place, but is not live yet; 0 where there is none. */
static block_id make(heap *h, uint64_t bytes, bool may_grow) {
  placement p;
  const block_id id = blocks_new(&h->blocks);
  if (!id) return 0;
  if (!store_take(h->store, bytes, may_grow, &p)) {
    blocks_drop(&h->blocks, id);
    return 0;
  }
  enter(h, id, &p, 0);
  return id;
}

/* Makes a freed block's place available to all. */
static void release(heap *h, block_id id) {
  const heap_block *b = blocks_at(&h->blocks, id);
  blocks_remove(&h->blocks, id, place_bytes(h, b));
  const placement p = placement_of(h, b);
  store_give(h->store, &p);
  blocks_drop(&h->blocks, id);
}

static void release_all(heap *h, block_id *list) {
  while (*list) {
    const block_id id = *list;
    *list = blocks_at(&h->blocks, id)->next;
    release(h, id);
  }
}

/* ---- waiting for tasks ------------------------------------------------------------------------------------------- */

static inline bool tasks_pending(const heap *h) {
  const heap_fences *f = h->config.fences;
  return f && (!f->busy || atomic_load_explicit(f->busy, memory_order_acquire)) && f->pending();
}

/* Releases what no task can use any more. Blocks wait in two lists, so that one fence at a time serves for all: those
 * freed while it is out are covered by the next. */
static void settle(heap *h) {
  if (h->fence && h->config.fences->passed(h->fence)) {
    h->fence = NULL;
    release_all(h, &h->closing);
  }
  if (h->fence || !h->parked) return;
  if (!h->config.fences->pending()) {
    release_all(h, &h->parked);
    return;
  }
  h->fence = h->config.fences->take();
  if (!h->fence) return;
  h->closing = h->parked;
  h->parked = 0;
}

/* ---- thread caches ----------------------------------------------------------------------------------------------- */

static void empty(heap *h, thread_cache *t) {
  for (int i = 0; i <= THREAD_CACHE_UNITS; ++i) {
    release_all(h, &t->first[i]);
    t->n[i] = 0;
  }
  if (t->large) release(h, t->large);
  t->large = 0;
  release_all(h, &t->over);
}

/* Under the lock. */
static void empty_caches(heap *h) {
  thread_cache_close(h->caches, thread_cache_of(h->index));
  for (thread_cache *t = h->caches; t; t = t->next) empty(h, t);
  thread_cache_open(h->caches);
}

static void end_cache(thread_cache *t) {
  heap *h = t->owner;
  pthread_mutex_lock(&h->lock);
  for (thread_cache **at = &h->caches; *at; at = &(*at)->next)
    if (*at == t) {
      *at = t->next;
      break;
    }
  empty(h, t);
  pthread_mutex_unlock(&h->lock);
}

/* The calling thread's, made at its first need; under the lock. NULL: it has to do without. */
static thread_cache *own_cache(heap *h) {
  thread_cache *t = thread_cache_of(h->index);
  if (t || is_observed(h)) return t;
  t = thread_cache_make(h->index, h, end_cache);
  if (!h->shared && (h->caches || !t)) {
    thread_cache_close(h->caches, NULL);
    h->shared = true;
    thread_cache_open(h->caches);
  }
  if (!t) return NULL;
  t->next = h->caches;
  return h->caches = t;
}

static inline block_id cache_take(const heap *h, thread_cache *t, uint64_t bytes) {
  if (likely(bytes <= (uint64_t)THREAD_CACHE_UNITS << h->config.unit_shift)) {
    const uint64_t n = store_units(bytes, h->config.unit_shift);
    const block_id id = t->first[n];
    if (unlikely(!id)) return 0;
    t->first[n] = blocks_at(&h->blocks, id)->next;
    --t->n[n];
    return id;
  }
  const bool large = store_is_large(bytes);
  const block_id id = t->large;
  const heap_block *b = blocks_at(&h->blocks, id);
  if (!id || b->large != large || b->n_units != store_units(bytes, large ? PAGE_SHIFT : h->config.unit_shift)) return 0;
  t->large = 0;
  return id;
}

/* Puts a freed block in; those that there is no more room for are handed back, as a list. */
static inline block_id cache_put(const heap *h, thread_cache *t, block_id id) {
  heap_block *b = blocks_at(&h->blocks, id);
  const uint32_t n = b->n_units;
  block_id *list = &t->large, over = t->large;
  if (!b->large && n <= THREAD_CACHE_UNITS) {
    const uint32_t units = (t->n[n] + 1u) * n;
    const bool full = units << h->config.unit_shift > THREAD_CACHE_BYTES || t->n[n] == UINT8_MAX;
    list = &t->first[n];
    over = full ? *list : 0;
    if (full) *list = t->n[n] = 0;
    ++t->n[n];
  } else {
    t->large = 0;
  }
  b->next = *list;
  *list = id;
  return over;
}

/* ---- allocation -------------------------------------------------------------------------------------------------- */

/* The next number: threads take some at once. */
static inline uint64_t next_number(heap *h, thread_cache *t) {
  enum { AT_ONCE = 1024 };
  if (!t) return atomic_fetch_add_explicit(&h->last_number, 1, memory_order_relaxed) + 1;
  if (t->next_number == t->end_number) {
    t->next_number = atomic_fetch_add_explicit(&h->last_number, AT_ONCE, memory_order_relaxed) + 1;
    t->end_number = t->next_number + AT_ONCE;
  }
  return t->next_number++;
}

/* The block becomes the caller's. */
static inline void *hand_out(heap *h, block_id id, uint64_t number, uint64_t bytes, uint64_t requested,
                             const char *call, void *site) {
  heap_block *b = blocks_at(&h->blocks, id);
  atomic_store_explicit(&b->requested, requested, memory_order_relaxed);
  atomic_store_explicit(&b->number, number, memory_order_relaxed);
  atomic_store_explicit(&b->call, call, memory_order_relaxed);
  atomic_store_explicit(&b->site, site, memory_order_relaxed);
  atomic_store_explicit(&b->bytes, bytes, memory_order_release);
  return (void *)atomic_load_explicit(&b->address, memory_order_relaxed); // NOLINT(performance-no-int-to-ptr)
}

/* A block by all means: cached memory (a hit), then what threads keep, then fresh or moved memory, then what waits for
 * tasks. */
static block_id make_by_all_means(heap *h, uint64_t bytes, bool *hit) {
  block_id id = make(h, bytes, false);
  *hit = id;
  if (id || bytes > h->config.size_bytes) return id;
  empty_caches(h);
  if ((*hit = (id = make(h, bytes, false)))) return id;
  if ((id = make(h, bytes, true)) || !(h->parked || h->closing)) return id;
  release_all(h, &h->closing);
  release_all(h, &h->parked);
  return make(h, bytes, true);
}

/* A few more small blocks for the thread's next allocations, where they cost nothing. */
static void refill(heap *h, thread_cache *t, uint64_t bytes) {
  enum { MOST = 16, MOST_BYTES = 64 << 10 };
  const uint64_t n = store_units(bytes, h->config.unit_shift);
  if (n > THREAD_CACHE_UNITS || t->n[n] || !thread_cache_enter(t)) return;
  for (uint64_t i = 0; i < MOST && (i + 1) * bytes <= MOST_BYTES; ++i) {
    const block_id id = make(h, bytes, false);
    if (!id) break;
    atomic_store_explicit(&blocks_at(&h->blocks, id)->bytes, 0, memory_order_relaxed);
    release_all(h, &(block_id){cache_put(h, t, id)});
  }
  thread_cache_leave(t);
}

static status refuse(heap *h, uint64_t requested);

static status alloc_locked(heap *h, uint64_t begun, uint64_t bytes, uint64_t requested, const char *call, void *site,
                           void **out) {
  bool hit;
  if (h->parked || h->fence) settle(h);
  const block_id id = make_by_all_means(h, bytes, &hit);
  if (unlikely(!id)) return refuse(h, requested);
  count_pages(h);
  thread_cache *t = own_cache(h);
  *out = hand_out(h, id, next_number(h, t), bytes, requested, call, site);
  if (likely(!is_observed(h))) {
    if (t) refill(h, t, bytes);
    return ST_OK;
  }
  if (hooks_any()) hooks_alloc(told(h, blocks_at(&h->blocks, id), bytes));
  heap_stats_alloc(&h->stats, begun, bytes, requested, hit);
  return ST_OK;
}

__attribute__((noinline)) static status alloc_slowly(heap *h, uint64_t bytes, uint64_t requested, const char *call,
                                                     void *site, void **out) {
  const uint64_t begun = heap_stats_begin(&h->stats);
  pthread_mutex_lock(&h->lock);
  const status st = alloc_locked(h, begun, bytes, requested, call, site, out);
  pthread_mutex_unlock(&h->lock);
  return st;
}

status heap_alloc(heap *h, uint64_t bytes, uint64_t requested, const char *call, void *site, void **out) {
  thread_cache *t = thread_cache_of(h->index);
  if (unlikely(!t || is_observed(h) || !thread_cache_enter(t)))
    return alloc_slowly(h, bytes, requested, call, site, out);
  const block_id id = cache_take(h, t, bytes);
  if (likely(id)) *out = hand_out(h, id, next_number(h, t), bytes, requested, call, site);
  thread_cache_leave(t);
  return likely(id) ? ST_OK : alloc_slowly(h, bytes, requested, call, site, out);
}

/* ---- refusal ----------------------------------------------------------------------------------------------------- */

enum { N_HOLDERS = 3 };

typedef struct {
  uint16_t pool; /* 0: any */
  const heap_block *block[N_HOLDERS];
} largest;

/* Keeps the largest blocks, the largest first. */
static void keep_largest(const heap_block *b, void *argument) {
  largest *l = argument;
  if (l->pool && l->pool != b->pool) return;
  for (int i = 0; i < N_HOLDERS; ++i) {
    if (l->block[i] && l->block[i]->bytes >= b->bytes) continue;
    memmove(&l->block[i + 1], &l->block[i], (N_HOLDERS - 1 - (size_t)i) * sizeof(heap_block *));
    l->block[i] = b;
    return;
  }
}

static void list_largest(heap *h, uint16_t pool, heap_holders *out) {
  largest l = {.pool = pool};
  size_t n = 0;
  out->words[0] = '\0';
  blocks_each(&h->blocks, keep_largest, &l);
  for (int i = 0; i < N_HOLDERS && l.block[i] && n < sizeof out->words; ++i)
    n += (size_t)snprintf(out->words + n, sizeof out->words - n, "%s%ju bytes (allocation %ju, %s)",
                          i ? ", " : "; largest: ", (uintmax_t)l.block[i]->requested, (uintmax_t)l.block[i]->number,
                          l.block[i]->call);
}

void heap_largest(heap *h, uint16_t pool, heap_holders *out) {
  pthread_mutex_lock(&h->lock);
  list_largest(h, pool, out);
  pthread_mutex_unlock(&h->lock);
}

/* The most that one block could take now: pages that are in use, and what the host lacks, are out of reach. */
static uint64_t would_fit(const heap *h, uint64_t host_bytes, uint64_t others_bytes) {
  const uint64_t used = (store_used(h->store) + PAGE_BYTES - 1) & -(uint64_t)PAGE_BYTES, size = h->config.size_bytes;
  const uint64_t own = used < size ? size - used : 0, left = others_bytes < own ? own - others_bytes : 0;
  const uint64_t committed = store_committed(h->store);
  if (!h->config.check_host) return left;
  const uint64_t backed = host_bytes + (committed > used ? committed - used : 0);
  return left < backed ? left : backed;
}

/* What other processes have of the device. */
static uint64_t held_by_others(const heap *h) { return h->config.device >= 0 ? ledger_others(h->config.device) : 0; }

static status refuse(heap *h, uint64_t requested) {
  heap_holders holders;
  const uint64_t host = host_available_bytes(), others = held_by_others(h);
  heap_stats_refuse(&h->stats);
  list_largest(h, 0, &holders);
  return fail(
      ST_NO_MEMORY,
      "size is %ju bytes, more than %s has left: %ju of %ju bytes are in use here and %ju in other processes, the "
      "host has %ju available, at most %ju would fit%s",
      (uintmax_t)requested, h->config.name, (uintmax_t)store_used(h->store), (uintmax_t)h->config.size_bytes,
      (uintmax_t)others, (uintmax_t)host, (uintmax_t)would_fit(h, host, others), holders.words);
}

/* ---- freeing ----------------------------------------------------------------------------------------------------- */

__attribute__((noinline, cold)) static status refuse_free(const heap *h, uintptr_t address, const char *name) {
  const heap_block *b = blocks_find(&h->blocks, address);
  if (b && b->address == address && b->pool)
    return fail(ST_INVALID_VALUE, "%s is %p, a block of a pool, which frees it", name,
                (void *)address); // NOLINT(performance-no-int-to-ptr)
  if (b && b->address != address)
    return fail(ST_INVALID_VALUE, "%s is %p, inside the block of %ju bytes at %p, expected a block's start", name,
                (void *)address, (uintmax_t)b->requested, (void *)b->address); // NOLINT(performance-no-int-to-ptr)
  return fail(ST_INVALID_VALUE, "%s is %p, no live block of %s (freed before?)", name, (void *)address,
              h->config.name); // NOLINT(performance-no-int-to-ptr)
}

/* Under the lock: the block of that many bytes is no one's now. */
static void put_back(heap *h, block_id id) {
  if (tasks_pending(h)) {
    blocks_at(&h->blocks, id)->next = h->parked;
    h->parked = id;
  } else {
    release(h, id);
  }
  if (h->parked) settle(h);
}

static status free_observed(heap *h, uintptr_t address, const char *name, void *site) {
  const uint64_t begun = heap_stats_begin(&h->stats);
  pthread_mutex_lock(&h->lock);
  const block_id id = blocks_starting(&h->blocks, address);
  heap_block *b = blocks_at(&h->blocks, id);
  const uint64_t bytes = id && !b->pool ? atomic_exchange(&b->bytes, 0) : 0;
  if (bytes) {
    const uint64_t requested = b->requested;
    if (hooks_any()) hooks_free(told(h, b, bytes), site);
    put_back(h, id);
    count_pages(h);
    heap_stats_free(&h->stats, begun, bytes, requested);
  }
  pthread_mutex_unlock(&h->lock);
  return bytes ? ST_OK : hooks_bad_free(refuse_free(h, address, name), address, site);
}

/* Whether the block was live and is freed by this call: of two threads that free the same one, one is told so. */
static inline bool end_life(heap_block *b, bool shared) {
  if (unlikely(b->pool)) return false;
  if (shared) return atomic_exchange_explicit(&b->bytes, 0, memory_order_acq_rel) != 0;
  if (!atomic_load_explicit(&b->bytes, memory_order_relaxed)) return false;
  atomic_store_explicit(&b->bytes, 0, memory_order_release);
  return true;
}

__attribute__((noinline)) static status free_slowly(heap *h, uintptr_t address, const char *name, void *site) {
  if (is_observed(h)) return free_observed(h, address, name, site);
  pthread_mutex_lock(&h->lock);
  own_cache(h);
  const block_id id = blocks_starting(&h->blocks, address);
  const bool freed = id && end_life(blocks_at(&h->blocks, id), true);
  if (freed) put_back(h, id);
  pthread_mutex_unlock(&h->lock);
  return freed ? ST_OK : refuse_free(h, address, name);
}

__attribute__((noinline)) static status spill(heap *h, thread_cache *t) {
  pthread_mutex_lock(&h->lock);
  release_all(h, &t->over); /* unless somebody has, who emptied the cache */
  pthread_mutex_unlock(&h->lock);
  return ST_OK;
}

status heap_free(heap *h, uintptr_t address, const char *name, void *site) {
  thread_cache *t = thread_cache_of(h->index);
  if (unlikely(!t || is_observed(h) || tasks_pending(h) || !thread_cache_enter(t)))
    return free_slowly(h, address, name, site);
  const block_id id = blocks_starting(&h->blocks, address);
  const bool freed = id && end_life(blocks_at(&h->blocks, id), h->shared);
  const block_id over = freed ? cache_put(h, t, id) : 0;
  if (unlikely(over)) t->over = over; /* before the cache is left, so that nobody misses it */
  thread_cache_leave(t);
  if (unlikely(over)) return spill(h, t);
  return likely(freed) ? ST_OK : refuse_free(h, address, name);
}

/* ---- held by pools ----------------------------------------------------------------------------------------------- */

block_id heap_hold(heap *h, uint64_t bytes, uint16_t pool) {
  pthread_mutex_lock(&h->lock);
  if (h->parked || h->fence) settle(h);
  bool hit;
  const block_id id = make_by_all_means(h, bytes, &hit);
  count_pages(h);
  if (id) {
    heap_block *b = blocks_at(&h->blocks, id);
    atomic_store_explicit(&b->bytes, 0, memory_order_relaxed);
    b->pool = pool;
  }
  pthread_mutex_unlock(&h->lock);
  return id;
}

void heap_let_go(heap *h, block_id id) {
  pthread_mutex_lock(&h->lock);
  release(h, id);
  count_pages(h);
  pthread_mutex_unlock(&h->lock);
}

heap_place heap_place_of(const heap *h, block_id id) {
  const heap_block *b = blocks_at(&h->blocks, id);
  return (heap_place){
      .address = b->address, .bytes = place_bytes(h, b), .unit_shift = unit_shift_of(h, b->large), .large = b->large};
}

block_id heap_cut(heap *h, block_id id, uint64_t bytes) {
  heap_block *b = blocks_at(&h->blocks, id);
  placement p = placement_of(h, b), q;
  const uint64_t whole = place_bytes(h, b);
  pthread_mutex_lock(&h->lock);
  block_id rest = blocks_new(&h->blocks);
  if (rest && store_cut(h->store, &p, (uint32_t)(bytes >> unit_shift_of(h, b->large)), &q)) {
    blocks_remove(&h->blocks, id, whole);
    enter(h, id, &p, b->pool);
    enter(h, rest, &q, b->pool);
  } else if (rest) {
    blocks_drop(&h->blocks, rest);
    rest = 0;
  }
  pthread_mutex_unlock(&h->lock);
  return rest;
}

bool heap_join(heap *h, block_id id, block_id after) {
  const heap_block *b = blocks_at(&h->blocks, id), *a = blocks_at(&h->blocks, after);
  placement p = placement_of(h, b);
  const placement q = placement_of(h, a);
  const uint64_t bytes = place_bytes(h, b), bytes_after = place_bytes(h, a);
  pthread_mutex_lock(&h->lock);
  const bool joined = store_join(h->store, &p, &q);
  if (joined) {
    blocks_remove(&h->blocks, id, bytes);
    blocks_remove(&h->blocks, after, bytes_after);
    blocks_drop(&h->blocks, after);
    enter(h, id, &p, b->pool);
  }
  pthread_mutex_unlock(&h->lock);
  return joined;
}

uint64_t heap_begin(const heap *h) { return heap_stats_begin(&h->stats); }

void *heap_lend(heap *h, block_id id, uint64_t begun, uint64_t bytes, uint64_t requested, const char *call, void *site,
                bool hit) {
  void *p = hand_out(h, id, next_number(h, NULL), bytes, requested, call, site);
  if (hooks_any()) hooks_alloc(told(h, blocks_at(&h->blocks, id), bytes));
  heap_stats_alloc(&h->stats, begun, bytes, requested, hit);
  return p;
}

bool heap_take_back(heap *h, block_id id, uint64_t begun, void *site) {
  heap_block *b = blocks_at(&h->blocks, id);
  const uint64_t bytes = atomic_exchange_explicit(&b->bytes, 0, memory_order_acq_rel);
  if (!bytes) return false;
  if (hooks_any()) hooks_free(told(h, b, bytes), site);
  heap_stats_free(&h->stats, begun, bytes, b->requested);
  return true;
}

uint16_t heap_pool_of(const heap *h, uintptr_t address) {
  const block_id id = blocks_starting(&h->blocks, address);
  return id ? blocks_at(&h->blocks, id)->pool : 0;
}

status heap_refuse(heap *h, uint64_t requested) {
  pthread_mutex_lock(&h->lock);
  const status st = refuse(h, requested);
  pthread_mutex_unlock(&h->lock);
  return st;
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

const heap_block *heap_find(const heap *h, uintptr_t address) { return blocks_find(&h->blocks, address); }

void heap_each_block(heap *h, void (*visit)(const heap_block *, void *), void *argument) {
  pthread_mutex_lock(&h->lock);
  blocks_each(&h->blocks, visit, argument);
  pthread_mutex_unlock(&h->lock);
}

void heap_pieces(heap *h, uintptr_t address, uint64_t bytes, heap_piece *pieces, size_t most, size_t *n) {
  const pages *p = store_pages(h->store);
  uint64_t at = address - h->config.window;
  *n = 0;
  pthread_mutex_lock(&h->lock);
  for (uint64_t left = bytes; left;) {
    const uint64_t in_granule = GRANULE_BYTES - at % GRANULE_BYTES, piece = in_granule < left ? in_granule : left;
    const uint64_t offset = pages_offset(p, at);
    heap_piece *last = *n && *n <= most ? &pieces[*n - 1] : NULL;
    if (last && last->offset + last->bytes == offset)
      last->bytes += piece;
    else if ((*n)++ < most)
      pieces[*n - 1] = (heap_piece){offset, piece};
    at += piece;
    left -= piece;
  }
  pthread_mutex_unlock(&h->lock);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

status heap_take_pages(heap *h, uint64_t bytes, uint64_t *offset) {
  const uint64_t begun = heap_stats_begin(&h->stats);
  pthread_mutex_lock(&h->lock);
  const uint64_t committed = store_committed(h->store);
  if (h->parked || h->fence) settle(h);
  bool taken = store_take_loose(h->store, bytes, offset);
  if (!taken && bytes <= h->config.size_bytes) {
    empty_caches(h);
    release_all(h, &h->closing);
    release_all(h, &h->parked);
    taken = store_take_loose(h->store, bytes, offset);
  }
  if (taken) {
    count_pages(h);
    heap_stats_alloc(&h->stats, begun, bytes, bytes, store_committed(h->store) <= committed);
  }
  const status st = taken ? ST_OK : refuse(h, bytes);
  pthread_mutex_unlock(&h->lock);
  return st;
}

void heap_give_pages(heap *h, uint64_t offset, uint64_t bytes) {
  const uint64_t begun = heap_stats_begin(&h->stats);
  pthread_mutex_lock(&h->lock);
  store_give_loose(h->store, offset, bytes);
  count_pages(h);
  heap_stats_free(&h->stats, begun, bytes, bytes);
  pthread_mutex_unlock(&h->lock);
}

int heap_file(const heap *h) { return pages_file(store_pages(h->store)); }

/* So that what nobody holds counts as free. */
static void collect(heap *h) {
  if (h->parked || h->fence) settle(h);
  empty_caches(h);
  count_pages(h);
}

void heap_info(heap *h, uint64_t *free_bytes, uint64_t *total_bytes) {
  pthread_mutex_lock(&h->lock);
  collect(h);
  const uint64_t used = store_used(h->store);
  pthread_mutex_unlock(&h->lock);
  const uint64_t left = used < h->config.size_bytes ? h->config.size_bytes - used : 0, others = held_by_others(h);
  *total_bytes = h->config.size_bytes;
  *free_bytes = others < left ? left - others : 0;
}

void heap_measure(heap *h, heap_usage *out) {
  pthread_mutex_lock(&h->lock);
  collect(h);
  *out = (heap_usage){.used_bytes = store_used(h->store),
                      .peak_bytes = store_peak(h->store),
                      .committed_bytes = store_committed(h->store),
                      .n_calls = pages_n_calls(store_pages(h->store))};
  pthread_mutex_unlock(&h->lock);
}

void heap_trim(heap *h, uint64_t keep_bytes) {
  pthread_mutex_lock(&h->lock);
  collect(h);
  const uint64_t committed = store_committed(h->store);
  if (committed > keep_bytes) store_trim(h->store, (committed - keep_bytes + PAGE_BYTES - 1) >> PAGE_SHIFT);
  count_pages(h);
  pthread_mutex_unlock(&h->lock);
}
