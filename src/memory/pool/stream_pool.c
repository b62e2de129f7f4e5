/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/pool/stream_pool_private.h"

#include "base/hooks.h"
#include "base/lock.h"
#include "base/settings/faults.h"
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

/* The stream's number for listeners to the hooks. */
static int64_t pool_stream_number(const pool *p, void *stream) {
  return stream && hooks_any() ? (int64_t)p->config.order->number(stream) : HOOK_NO_STREAM;
}

/* Makes a block in state SHELF_OFF live; returns its address. */
static void *pool_lend(pool *p, shelf_block *b, void *stream, const heap_loan *l) {
  INVARIANT(b->state == SHELF_OFF && b != p->reserve && l->bytes <= b->bytes);
  INVARIANT(shelf_address(b) % p->config.alignment == 0);
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
  if (b && p->shelf.bytes > p->config.most_bytes) { /* the heap has rounded it up */
    shelf_let_go(&p->shelf, b);
    return NULL;
  }
  if (p->usage.held_peak_bytes < p->shelf.bytes) p->usage.held_peak_bytes = p->shelf.bytes;
  pool_tell_held(p);
  return b;
}

/* ---- parked blocks ----------------------------------------------------------------------------------------------- */

static void pool_unpark(pool *p, shelf_block **list) {
  while (*list) {
    shelf_block *b = *list;
    INVARIANT(b->state == SHELF_PARKED && b->bytes <= p->parked_bytes);
    *list = b->next;
    p->parked_bytes -= b->bytes;
    shelf_put(&p->shelf, b, free_for_all);
  }
}

void pool_settle(pool *p) {
  const heap_fences *f = p->config.fences;
  INVARIANT(p->fence || !p->closing);
  if (p->fence && f->passed(p->fence)) {
    p->fence = NULL;
    pool_unpark(p, &p->closing);
  }
  if (p->fence || !p->parked) return;
  if (!f || !f->pending()) {
    pool_unpark(p, &p->parked);
    return;
  }
  p->fence = f->take();
  if (!p->fence) return;
  p->closing = p->parked;
  p->parked = NULL;
}

/* A block in state SHELF_OFF waits until all tasks that are pending now have retired. */
static void pool_park(pool *p, shelf_block *b) {
  INVARIANT(b->state == SHELF_OFF);
  b->state = SHELF_PARKED;
  b->next = p->parked;
  p->parked = b;
  p->parked_bytes += b->bytes;
  pool_settle(p);
}

/* ---- idle memory ------------------------------------------------------------------------------------------------- */

/* Gives up to `bytes` of idle memory to the heap, as long as the pool keeps its initial bytes and the reserve. */
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
  INVARIANT(!p->reserve || p->reserve->state == SHELF_OFF);
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
  INVARIANT(!p->usage.n_live && !p->usage.used_bytes && !p->shelf.bytes && !p->parked && !p->closing);
  trace_pool_close(p->row);
  p->state = POOL_NONE;
}

/* ---- allocation -------------------------------------------------------------------------------------------------- */

typedef struct {
  uint64_t bytes; /* as rounded by the rules */
  void *stream;
} request;

/* Bytes that a new block of the heap needs so that the request can be aligned in it. */
static uint64_t pool_room(const pool *p, const request *r) {
  const uint64_t small_unit = UINT64_C(1) << RULE_DEVICE_UNIT_SHIFT, alignment = p->config.alignment;
  return r->bytes + (alignment > small_unit ? alignment - small_unit : 0);
}

/* Cuts a block in state SHELF_OFF to the size of the request. */
static shelf_block *pool_fit(pool *p, shelf_block *b, const request *r) {
  return shelf_trim_to(&p->shelf, b, r->bytes, p->config.alignment);
}

/* Takes the best fit among the cached blocks. Small requests are served from the large line only with any_part; with
 * any_order, the block may still be in use by other streams. */
static shelf_block *pool_reuse(pool *p, const request *r, bool any_part, bool any_order) {
  bool large = pool_room(p, r) > STORE_SMALL_BYTES;
  shelf_block *b = shelf_best(&p->shelf, large, r->bytes, p->config.alignment, r->stream, any_order);
  if (!b && !large && any_part) b = shelf_best(&p->shelf, true, r->bytes, p->config.alignment, r->stream, any_order);
  if (b) shelf_pick(&p->shelf, b);
  return b;
}

/* Reuses a block that the stream may use, cut to size; NULL where there is none. */
static shelf_block *reuse_cut(pool *p, const request *r, bool any_part) {
  shelf_block *b = pool_reuse(p, r, any_part, false);
  if (b) b = pool_fit(p, b, r);
  if (b) ++p->usage.n_reused;
  return b;
}

/* Whether a larger share of the held memory is cached than the configuration allows. */
static bool is_fragmented(const pool *p) {
  return (double)p->shelf.cached_bytes > p->config.most_idle * (double)p->shelf.bytes;
}

/* Takes a new block from the heap, cut to size. */
static shelf_block *pool_grow(pool *p, const request *r) {
  const uint64_t bytes = pool_room(p, r), growth = p->config.growth_bytes;
  shelf_block *b = bytes > STORE_SMALL_BYTES && bytes < growth ? pool_hold(p, growth) : NULL;
  if (!b) b = pool_hold(p, bytes);
  if (!b) return NULL;
  b->point = free_for_all;
  return pool_fit(p, b, r);
}

/* Takes a block that another stream may still use, and makes the request's stream wait for that. Unlocks the pool
 * meanwhile. */
static shelf_block *reuse_after_wait(pool *p, const request *r) {
  shelf_block *b = p->config.policy.insert_waits && r->stream ? pool_reuse(p, r, true, true) : NULL;
  if (!b) return NULL;
  b = pool_fit(p, b, r);
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

/* Makes the reserve a cached block and tries again. */
static shelf_block *open_reserve(pool *p, const request *r) {
  if (!p->reserve) return NULL;
  shelf_put(&p->shelf, p->reserve, free_for_all);
  p->reserve = NULL;
  shelf_join(&p->shelf);
  shelf_block *b = reuse_cut(p, r, true);
  if (b) return b;
  shelf_release(&p->shelf, UINT64_MAX);
  return pool_grow(p, r);
}

/* Finds a block in the usual ways, the cheapest first. Free neighbours are joined only after enough frees to pay for
 * the walk: joining before each growth held just as much at the peak, 1.19 times the live bytes (random lifetimes,
 * sizes log-uniform to 2 MiB). */
static shelf_block *pool_obtain(pool *p, const request *r) {
  shelf_block *b;
  pool_settle(p);
  if ((b = reuse_cut(p, r, false))) return b;
  if (p->freed_since_join > p->shelf.n_cached / 4) {
    p->freed_since_join = 0;
    if (shelf_join(&p->shelf) && (b = reuse_cut(p, r, false))) return b;
  }
  if (is_fragmented(p)) release_surplus(p, pool_room(p, r));
  return pool_grow(p, r);
}

/* Finds a block in the costlier ways. */
static shelf_block *obtain_by_all_means(pool *p, const request *r) {
  shelf_block *b;
  shelf_join(&p->shelf);
  if ((b = reuse_cut(p, r, true))) return b;
  shelf_release(&p->shelf, UINT64_MAX);
  if ((b = pool_grow(p, r))) return b;
  if ((b = reuse_after_wait(p, r))) return b;
  return open_reserve(p, r);
}

__attribute__((cold)) static status pool_refuse(pool *p, const request *r, uint64_t requested) {
  heap_holders holders;
  ++p->usage.n_refused;
  heap_stats_refuse(&p->stats);
  const uint64_t left = pool_less(p->config.most_bytes, p->shelf.bytes);
  if (store_units(pool_room(p, r), PAGE_SHIFT) << PAGE_SHIFT <= left)
    return heap_refuse(p->config.heap, pool_room(p, r), requested, origin_of(RULE_MALLOC, PAGES_SMALL), NULL);
  heap_largest(p->config.heap, pool_number(p), &holders);
  const uint64_t fits = rule_largest_request(RULE_ROUND_BYTES, left, pool_room(p, r), requested);
  return fail(
      ST_NO_MEMORY,
      "size is %ju bytes (%s), more than the pool has left: %s of at most %s are in use, %s wait for tasks, at most "
      "%ju bytes (%s) would fit%s",
      (uintmax_t)requested, size_in_words(requested).text, size_in_words(p->usage.used_bytes).text,
      size_in_words(p->config.most_bytes).text, size_in_words(p->shelf.cached_bytes + p->parked_bytes).text,
      (uintmax_t)fits, size_in_words(fits).text, holders.words);
}

status pool_alloc(pool *p, void *stream, uint64_t bytes, uint64_t requested, void *site, void **out) {
  const request r = {.bytes = bytes, .stream = stream};
  status st = ST_OK;
  FAULT_TRY(FAULT_ALLOC, NULL, ST_NO_MEMORY, "no memory for %ju bytes", (uintmax_t)requested);
  mutex_lock(&p->lock);
  const uint64_t begun = heap_begin(p->config.heap), reused = p->usage.n_reused;
  shelf_block *b = p->state == POOL_LIVE ? pool_obtain(p, &r) : NULL;
  if (unlikely(!b) && p->state == POOL_LIVE) b = obtain_by_all_means(p, &r);
  for (unsigned failures = 0; unlikely(!b && st == ST_OK);
       ++failures) { /* without the lock, since other pools' locks are taken */
    mutex_unlock(&p->lock);
    const bool again = memory_find_room(p->config.device, failures);
    mutex_lock(&p->lock);
    if (p->state != POOL_LIVE)
      st = pool_gone(p, p->config.kind);
    else if (again)
      b = obtain_by_all_means(p, &r);
    else
      st = pool_refuse(p, &r, requested);
  }
  if (likely(b)) {
    const heap_loan loan = {.begun = begun,
                            .bytes = bytes,
                            .requested = requested,
                            .origin = origin_of(pool_kinds[p->config.kind].rule, PAGES_SMALL),
                            .site = site,
                            .stream = pool_stream_number(p, stream),
                            .hit = p->usage.n_reused > reused};
    *out = pool_lend(p, b, stream, &loan);
    INVARIANT_WALK(pool_is_valid(p));
  }
  mutex_unlock(&p->lock);
  return st;
}

/* ---- freeing ----------------------------------------------------------------------------------------------------- */

/* The heap of the device whose window holds the address, or NULL. */
static heap *pool_heap_of(const void *block) {
  const int device = space_device_of((uintptr_t)block);
  return device >= 0 ? memory_heap(device) : NULL;
}

static pool *pool_holder_of(const void *block) {
  const heap *h = pool_heap_of(block);
  const uint16_t number = h ? heap_pool_of(h, (uintptr_t)block) : 0;
  return number ? pool_numbered(number) : NULL;
}

bool pool_holds(const void *block) { return pool_holder_of(block); }

__attribute__((cold)) static status pool_refuse_free(const pool *p, const void *block, const char *name) {
  const shelf_block *b = p ? shelf_find(&p->shelf, (uintptr_t)block) : NULL;
  if (b && b->state != SHELF_LIVE)
    return fail(ST_INVALID_VALUE, "%s is %p, a block of the pool that was freed before", name, block);
  const heap *h = p ? p->config.heap : pool_heap_of(block);
  const heap_block *live = h ? heap_find(h, (uintptr_t)block) : NULL;
  if (live && live->address != (uintptr_t)block)
    return fail(ST_INVALID_VALUE, "%s is %p, inside the block of %ju bytes at %p, expected a block's start", name,
                block, (uintmax_t)live->requested, (void *)live->address); // NOLINT(performance-no-int-to-ptr)
  if (live)
    return fail(ST_INVALID_VALUE, "%s is %p, a block of %s, expected one of the pool", name, block,
                origin_call(live->origin));
  return fail(ST_INVALID_VALUE, "%s is %p, expected a block of a pool", name, block);
}

/* Frees a live block, under the pool's lock. */
static status pool_take_back(pool *p, shelf_block *b, void *stream, const char *name, void *site) {
  const uint64_t begun = heap_begin(p->config.heap);
  pool_point point = free_for_all;
  if (stream && !p->config.order->point(stream, &point))
    return fail(ST_NO_HOST_MEMORY, "%s can't be freed: too many streams have freed blocks of pools", name);
  heap_stats_free(&p->stats, begun, b->rounded_bytes, b->requested_bytes);
  heap_stats_stream_free(b->row, begun, b->rounded_bytes, b->requested_bytes);
  heap_take_back(p->config.heap, b->id, begun, pool_stream_number(p, stream), site);
  INVARIANT(p->usage.n_live && p->usage.used_bytes >= b->bytes);
  p->usage.used_bytes -= b->bytes;
  --p->usage.n_live;
  ++p->usage.n_frees;
  ++p->freed_since_join;
  b->state = SHELF_OFF;
  if (stream)
    shelf_put(&p->shelf, b, point);
  else
    pool_park(p, b);
  if (p->config.trims_at_free) pool_keep_within(p);
  pool_tell_held(p);
  INVARIANT_WALK(pool_is_valid(p));
  return ST_OK;
}

status pool_free(pool *p, void *block, void *stream, const char *name, void *site) {
  if (!p) p = pool_holder_of(block);
  if (!p) return hooks_bad_free(pool_refuse_free(NULL, block, name), (uintptr_t)block, site);
  if (unlikely(ipc_has_exports())) TRY(ipc_forget((uintptr_t)block, name));
  mutex_lock(&p->lock);
  shelf_block *b = p->state != POOL_NONE ? shelf_find(&p->shelf, (uintptr_t)block) : NULL;
  const status st = b && b->state == SHELF_LIVE
                        ? pool_take_back(p, b, stream, name, site)
                        : hooks_bad_free(pool_refuse_free(p, block, name), (uintptr_t)block, site);
  const bool going = p->state == POOL_GOING;
  mutex_unlock(&p->lock);
  if (going) pools_synchronized(p->config.device);
  return st;
}

/* ---- invariants -------------------------------------------------------------------------------------------------- */

#ifdef CANNON_INVARIANTS

static bool pool_parked_are_valid(const pool *p, uint64_t *n) {
  uint64_t bytes = 0;
  *n = 0;
  for (int closing = 0; closing < 2; ++closing)
    for (const shelf_block *b = closing ? p->closing : p->parked; b; b = b->next, ++*n) {
      if (b->state != SHELF_PARKED || bytes > p->parked_bytes) return false;
      bytes += b->bytes;
    }
  return bytes == p->parked_bytes && (p->fence || !p->closing);
}

/* Blocks in state SHELF_OFF besides the reserve are in the hands of threads in reuse_after_wait. */
bool pool_is_valid(const pool *p) {
  uint64_t n[SHELF_PARKED + 1] = {0}, live_bytes = 0, n_parked;
  if (!shelf_is_valid(&p->shelf) || !pool_parked_are_valid(p, &n_parked)) return false;
  for (tree_node *node = tree_first(&p->shelf.blocks); node; node = tree_next(&p->shelf.blocks, node)) {
    const shelf_block *b = tree_item(node, shelf_block, by_address);
    ++n[b->state];
    if (b->state == SHELF_LIVE) live_bytes += b->bytes;
  }
  if (p->reserve && (p->reserve->state != SHELF_OFF || !n[SHELF_OFF])) return false;
  const pool_usage *u = &p->usage;
  return n[SHELF_LIVE] == u->n_live && n[SHELF_PARKED] == n_parked && live_bytes == u->used_bytes &&
         u->n_allocs - u->n_frees == u->n_live && u->used_peak_bytes >= u->used_bytes &&
         u->held_peak_bytes >= p->shelf.bytes && p->shelf.bytes <= p->config.most_bytes;
}

#endif
