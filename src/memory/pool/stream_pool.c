#include "base/lock.h"
#include "memory/pool/stream_pool_private.h"

#include "base/hooks.h"
#include "base/size.h"
#include "memory/heap/store.h"
#include "memory/memory.h"
#include "memory/share/ipc.h"
#include "trace/stats_write.h"

static const pool_point free_for_all;

/* ---- accounts ---------------------------------------------------------------------------------------------------- */

static void note_used(pool *p, const shelf_block *b) {
  pool_usage *u = &p->usage;
  ++u->n_live;
  ++u->n_allocs;
  u->used_bytes += b->bytes;
  if (u->used_peak_bytes < u->used_bytes) u->used_peak_bytes = u->used_bytes;
}

void pool_tell_held(pool *p) { heap_stats_pages(&p->stats, p->shelf.bytes, p->usage.used_bytes); }

/* As listeners are told it. */
static int64_t number_of(const pool *p, void *stream) {
  return stream && hooks_any() ? (int64_t)p->config.order->number(stream) : HOOK_NO_STREAM;
}

/* The block becomes the program's. */
static void *lend(pool *p, shelf_block *b, void *stream, const heap_loan *l) {
  b->state = SHELF_LIVE;
  b->requested_bytes = l->requested;
  b->rounded_bytes = l->bytes;
  b->row = unlikely(p->stats.counters) ? trace_stream_row(p->config.device, p->config.order->number(stream)) : NULL;
  note_used(p, b);
  heap_stats_stream_alloc(b->row, l->begun, l->bytes, l->requested, l->hit);
  heap_stats_alloc(&p->stats, l->begun, l->bytes, l->requested, l->hit);
  return heap_lend(p->config.heap, b->id, l);
}

shelf_block *pool_hold(pool *p, uint64_t bytes) {
  if (p->shelf.bytes > p->config.most_bytes || bytes > p->config.most_bytes - p->shelf.bytes) return NULL;
  shelf_block *b = shelf_hold(&p->shelf, bytes);
  if (b && p->shelf.bytes > p->config.most_bytes) { /* as the heap rounds it */
    shelf_let_go(&p->shelf, b);
    return NULL;
  }
  if (p->usage.held_peak_bytes < p->shelf.bytes) p->usage.held_peak_bytes = p->shelf.bytes;
  pool_tell_held(p);
  return b;
}

/* ---- parked blocks ----------------------------------------------------------------------------------------------- */

static void unpark(pool *p, shelf_block **list) {
  while (*list) {
    shelf_block *b = *list;
    *list = b->next;
    p->parked_bytes -= b->bytes;
    shelf_put(&p->shelf, b, free_for_all);
  }
}

void pool_settle(pool *p) {
  const heap_fences *f = p->config.fences;
  if (p->fence && f->passed(p->fence)) {
    p->fence = NULL;
    unpark(p, &p->closing);
  }
  if (p->fence || !p->parked) return;
  if (!f || !f->pending()) {
    unpark(p, &p->parked);
    return;
  }
  p->fence = f->take();
  if (!p->fence) return;
  p->closing = p->parked;
  p->parked = NULL;
}

static void park(pool *p, shelf_block *b) {
  b->state = SHELF_PARKED;
  b->next = p->parked;
  p->parked = b;
  p->parked_bytes += b->bytes;
  pool_settle(p);
}

/* ---- idle memory ------------------------------------------------------------------------------------------------- */

/* Gives idle memory to the heap, but not of what was asked for at the start. */
static void release_surplus(pool *p, uint64_t bytes) {
  const uint64_t most = pool_less(p->shelf.bytes, p->config.initial_bytes + p->config.reserve_bytes);
  shelf_release(&p->shelf, bytes < most ? bytes : most);
}

void pool_refill_reserve(pool *p) {
  const uint64_t bytes = p->config.reserve_bytes;
  if (p->reserve || !bytes) return;
  shelf_block *b = shelf_best(&p->shelf, true, bytes, 1, NULL, false);
  if (!b) return;
  shelf_pick(&p->shelf, b);
  p->reserve = shelf_trim_to(&p->shelf, b, bytes, 1);
}

void pool_keep_within(pool *p) {
  pool_settle(p);
  pool_refill_reserve(p);
  if (p->shelf.cached_bytes > p->config.policy.cached_bytes)
    release_surplus(p, p->shelf.cached_bytes - p->config.policy.cached_bytes);
}

void pool_end_if_empty(pool *p) {
  if (p->state != POOL_GOING) return;
  if (p->reserve) shelf_let_go(&p->shelf, p->reserve);
  p->reserve = NULL;
  pool_settle(p);
  shelf_release(&p->shelf, UINT64_MAX);
  pool_tell_held(p);
  if (p->shelf.blocks.root) return;
  trace_pool_close(p->row);
  p->state = POOL_NONE;
}

/* ---- allocation -------------------------------------------------------------------------------------------------- */

typedef struct {
  uint64_t bytes; /* as the rules round them */
  void *stream;
} request;

/* What a place must have so that the block can be aligned in it. */
static uint64_t room(const pool *p, const request *r) {
  const uint64_t small_unit = UINT64_C(1) << RULE_DEVICE_UNIT_SHIFT, alignment = p->config.alignment;
  return r->bytes + (alignment > small_unit ? alignment - small_unit : 0);
}

/* Cuts a block that is off the shelf for the request. */
static shelf_block *fit(pool *p, shelf_block *b, const request *r) {
  return shelf_trim_to(&p->shelf, b, r->bytes, p->config.alignment);
}

/* The best fit among what is cached: small blocks not out of large ones, unless nothing else is left. */
static shelf_block *reuse(pool *p, const request *r, bool any_part, bool any_order) {
  bool large = room(p, r) > STORE_SMALL_BYTES;
  shelf_block *b = shelf_best(&p->shelf, large, r->bytes, p->config.alignment, r->stream, any_order);
  if (!b && !large && any_part) b = shelf_best(&p->shelf, true, r->bytes, p->config.alignment, r->stream, any_order);
  if (b) shelf_pick(&p->shelf, b);
  return b;
}

static shelf_block *reuse_cut(pool *p, const request *r, bool any_part) {
  shelf_block *b = reuse(p, r, any_part, false);
  if (b) b = fit(p, b, r);
  if (b) ++p->usage.n_reused;
  return b;
}

/* More than its share of what is held lies idle. */
static bool is_fragmented(const pool *p) {
  return (double)p->shelf.cached_bytes > p->config.most_idle * (double)p->shelf.bytes;
}

static shelf_block *grow(pool *p, const request *r) {
  const uint64_t bytes = room(p, r), growth = p->config.growth_bytes;
  shelf_block *b = bytes > STORE_SMALL_BYTES && bytes < growth ? pool_hold(p, growth) : NULL;
  if (!b) b = pool_hold(p, bytes);
  if (!b) return NULL;
  b->point = free_for_all;
  return fit(p, b, r);
}

/* A block that another stream may still use, behind a wait for that. Unlocks the pool meanwhile. */
static shelf_block *reuse_after_wait(pool *p, const request *r) {
  shelf_block *b = p->config.policy.insert_waits && r->stream ? reuse(p, r, true, true) : NULL;
  if (!b) return NULL;
  b = fit(p, b, r);
  if (!b) return NULL;
  mutex_unlock(&p->lock);
  const bool inserted = p->config.order->insert(r->stream, b->point);
  mutex_lock(&p->lock);
  if (!inserted) {
    shelf_put(&p->shelf, b, b->point);
    return NULL;
  }
  ++p->usage.n_waits;
  ++p->usage.n_reused;
  return b;
}

static shelf_block *open_reserve(pool *p, const request *r) {
  if (!p->reserve) return NULL;
  shelf_put(&p->shelf, p->reserve, free_for_all);
  p->reserve = NULL;
  shelf_join(&p->shelf);
  shelf_block *b = reuse_cut(p, r, true);
  if (b) return b;
  shelf_release(&p->shelf, UINT64_MAX);
  return grow(p, r);
}

/* The usual ways, the cheapest first. Neighbours are joined only after as many frees as would pay for the look: joining
 * before each growth held as much at the peak, 1.19 times what was live (random lifetimes, sizes log-uniform to 2 MiB). */
static shelf_block *obtain(pool *p, const request *r) {
  shelf_block *b;
  pool_settle(p);
  if ((b = reuse_cut(p, r, false))) return b;
  if (p->freed_since_join > p->shelf.n_cached / 4) {
    p->freed_since_join = 0;
    if (shelf_join(&p->shelf) && (b = reuse_cut(p, r, false))) return b;
  }
  if (is_fragmented(p)) release_surplus(p, room(p, r));
  return grow(p, r);
}

/* And the others. */
static shelf_block *obtain_by_all_means(pool *p, const request *r) {
  shelf_block *b;
  shelf_join(&p->shelf);
  if ((b = reuse_cut(p, r, true))) return b;
  shelf_release(&p->shelf, UINT64_MAX);
  if ((b = grow(p, r))) return b;
  if ((b = reuse_after_wait(p, r))) return b;
  return open_reserve(p, r);
}

__attribute__((cold)) static status refuse(pool *p, const request *r, uint64_t requested) {
  heap_holders holders;
  ++p->usage.n_refused;
  heap_stats_refuse(&p->stats);
  const uint64_t left = pool_less(p->config.most_bytes, p->shelf.bytes);
  if (store_units(room(p, r), PAGE_SHIFT) << PAGE_SHIFT <= left)
    return heap_refuse(p->config.heap, room(p, r), requested, alloc_rules[RULE_MALLOC].call[PAGES_SMALL]);
  heap_largest(p->config.heap, pool_number(p), &holders);
  const uint64_t fits = rule_most(RULE_ROUND_BYTES, left, room(p, r), requested);
  return fail(
      ST_NO_MEMORY,
      "size is %ju bytes (%s), more than the pool has left: %s of at most %s are in use, %s wait for tasks, at most "
      "%ju bytes (%s) would fit%s",
      (uintmax_t)requested, size_in_words(requested).text, size_in_words(p->usage.used_bytes).text,
      size_in_words(p->config.most_bytes).text, size_in_words(p->shelf.cached_bytes + p->parked_bytes).text,
      (uintmax_t)fits, size_in_words(fits).text, holders.words);
}

status pool_alloc(pool *p, void *stream, uint64_t bytes, uint64_t requested, const char *call, void *site, void **out) {
  const request r = {.bytes = bytes, .stream = stream};
  status st = ST_OK;
  mutex_lock(&p->lock);
  const uint64_t begun = heap_begin(p->config.heap), reused = p->usage.n_reused;
  shelf_block *b = p->state == POOL_LIVE ? obtain(p, &r) : NULL;
  if (unlikely(!b) && p->state == POOL_LIVE) b = obtain_by_all_means(p, &r);
  for (unsigned failures = 0; unlikely(!b && st == ST_OK); ++failures) { /* other pools' locks are taken */
    mutex_unlock(&p->lock);
    const bool again = memory_find_room(p->config.device, failures);
    mutex_lock(&p->lock);
    if (p->state != POOL_LIVE)
      st = pool_gone(p, call);
    else if (again)
      b = obtain_by_all_means(p, &r);
    else
      st = refuse(p, &r, requested);
  }
  if (likely(b)) {
    const heap_loan loan = {begun, bytes, requested, call, site, number_of(p, stream), p->usage.n_reused > reused};
    *out = lend(p, b, stream, &loan);
  }
  mutex_unlock(&p->lock);
  return st;
}

/* ---- freeing ----------------------------------------------------------------------------------------------------- */

static heap *heap_of(const void *block) {
  const int device = space_device_of((uintptr_t)block);
  return device >= 0 ? memory_heap(device) : NULL;
}

static pool *holder_of(const void *block) {
  const heap *h = heap_of(block);
  const uint16_t number = h ? heap_pool_of(h, (uintptr_t)block) : 0;
  return number ? pool_numbered(number) : NULL;
}

bool pool_holds(const void *block) { return holder_of(block); }

__attribute__((cold)) static status refuse_free(const pool *p, const void *block, const char *name) {
  const shelf_block *b = p ? shelf_find(&p->shelf, (uintptr_t)block) : NULL;
  if (b && b->state != SHELF_LIVE)
    return fail(ST_INVALID_VALUE, "%s is %p, a block of the pool that was freed before", name, block);
  const heap *h = p ? p->config.heap : heap_of(block);
  const heap_block *live = h ? heap_find(h, (uintptr_t)block) : NULL;
  if (live && live->address != (uintptr_t)block)
    return fail(ST_INVALID_VALUE, "%s is %p, inside the block of %ju bytes at %p, expected a block's start", name,
                block, (uintmax_t)live->requested, (void *)live->address); // NOLINT(performance-no-int-to-ptr)
  if (live) return fail(ST_INVALID_VALUE, "%s is %p, a block of %s, expected one of the pool", name, block, live->call);
  return fail(ST_INVALID_VALUE, "%s is %p, expected a block of a pool", name, block);
}

/* Under the pool's lock: the block is no longer the program's. */
static status take_back(pool *p, shelf_block *b, void *stream, const char *name, void *site) {
  const uint64_t begun = heap_begin(p->config.heap);
  pool_point point = free_for_all;
  if (stream && !p->config.order->point(stream, &point))
    return fail(ST_NO_HOST_MEMORY, "%s can't be freed: too many streams have freed blocks of pools", name);
  heap_stats_free(&p->stats, begun, b->rounded_bytes, b->requested_bytes);
  heap_stats_stream_free(b->row, begun, b->rounded_bytes, b->requested_bytes);
  heap_take_back(p->config.heap, b->id, begun, number_of(p, stream), site);
  p->usage.used_bytes -= b->bytes;
  --p->usage.n_live;
  ++p->usage.n_frees;
  ++p->freed_since_join;
  b->state = SHELF_OFF;
  if (stream)
    shelf_put(&p->shelf, b, point);
  else
    park(p, b);
  if (p->config.trims_at_free) pool_keep_within(p);
  pool_tell_held(p);
  return ST_OK;
}

status pool_free(pool *p, void *block, void *stream, const char *name, void *site) {
  if (!p) p = holder_of(block);
  if (!p) return hooks_bad_free(refuse_free(NULL, block, name), (uintptr_t)block, site);
  if (unlikely(ipc_has_exports())) TRY(ipc_forget((uintptr_t)block, name));
  mutex_lock(&p->lock);
  shelf_block *b = p->state != POOL_NONE ? shelf_find(&p->shelf, (uintptr_t)block) : NULL;
  const status st = b && b->state == SHELF_LIVE ? take_back(p, b, stream, name, site)
                                                : hooks_bad_free(refuse_free(p, block, name), (uintptr_t)block, site);
  const bool going = p->state == POOL_GOING;
  mutex_unlock(&p->lock);
  if (going) pools_synchronized(p->config.device);
  return st;
}
