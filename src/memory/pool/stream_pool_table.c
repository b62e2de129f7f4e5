/* SPDX-License-Identifier: Apache-2.0 */
/* The table of stream-ordered pools, by number (stream_pool_private.h). */
#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "memory/memory.h"
#include "memory/pool/stream_pool_private.h"
#include "trace/stats_write.h"

enum { MAX_POOLS = 1024 };

static pool pools[MAX_POOLS] = {[0 ... MAX_POOLS - 1] = {.lock = MUTEX_INITIALIZER(POOL)}};
static mutex table_lock = MUTEX_INITIALIZER(POOL_TABLE); /* held while a pool is made or its slot is freed */
static _Atomic unsigned n_slots;                         /* slots that were ever used */

static const pool_point free_for_all;

uint16_t pool_number(const pool *p) {
  INVARIANT(p >= pools && p < pools + MAX_POOLS);
  return (uint16_t)(p - pools + 1);
}

pool *pool_numbered(uint16_t number) {
  INVARIANT(number > 0 && number <= MAX_POOLS);
  return &pools[number - 1];
}

const struct pool_kind_row pool_kinds[N_POOL_KINDS] = {
    [POOL_OF_ACL] = {"aclrtMemPoolCreate", RULE_MEM_POOL}, [POOL_OF_CANNON] = {"cannon_pool_create", RULE_CANNON_POOL}};

status pool_gone(const pool *p, pool_kind kind) {
  return fail(ST_INVALID_VALUE, "the pool is %p, no pool of %s (destroyed?)", (const void *)p, pool_kinds[kind].maker);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Finds a free slot. Slots are used in turn, so that a slot is reused as late as possible and stale handles are
 * recognised. */
static pool *pool_free_slot(void) {
  static unsigned last = MAX_POOLS - 1;
  for (unsigned i = 1; i <= MAX_POOLS; ++i) {
    pool *p = &pools[(last + i) % MAX_POOLS];
    if (p->state != POOL_NONE) continue;
    last = (last + i) % MAX_POOLS;
    if (n_slots <= last) n_slots = last + 1;
    return p;
  }
  return NULL;
}

/* Sets up a pool in a free slot, under both locks. */
static status pool_open(pool *p, const pool_config *config) {
  char name[32];
  INVARIANT(p->state == POOL_NONE && !p->shelf.blocks.root);
  INVARIANT(config->alignment > 0 && (config->alignment & (config->alignment - 1)) == 0);
  memory_expect_pools();
  p->config = *config;
  p->shelf = (shelf){.heap = config->heap, .pool = pool_number(p), .order = config->order};
  p->reserve = p->parked = p->closing = NULL;
  p->fence = NULL;
  p->parked_bytes = p->freed_since_join = 0;
  p->usage = (pool_usage){0};
  heap_stats_init(&p->stats, NULL, pool_kinds[config->kind].maker, 0);
  p->shelf.follow_events = config->policy.follow_events;
  p->shelf.opportunistic = config->policy.opportunistic;
  const uint64_t initial = config->initial_bytes + config->reserve_bytes;
  shelf_block *b = initial ? pool_hold(p, initial) : NULL;
  if (initial && !b)
    return heap_refuse(config->heap, initial, initial, origin_of(pool_kinds[config->kind].rule, PAGES_SMALL), NULL);
  snprintf(name, sizeof name, "pool %u", pool_number(p));
  p->row = trace_pool_open(name, config->device);
  heap_stats_init(&p->stats, p->row ? &p->row->memory : NULL, pool_kinds[config->kind].maker, 0);
  if (b) shelf_put(&p->shelf, b, free_for_all);
  pool_refill_reserve(p);
  pool_tell_held(p);
  p->state = POOL_LIVE;
  INVARIANT(pool_is_valid(p));
  return ST_OK;
}

status pool_create(const pool_config *config, pool **out) {
  mutex_lock(&table_lock);
  pool *p = pool_free_slot();
  status st;
  if (p) {
    mutex_lock(&p->lock);
    st = pool_open(p, config);
    mutex_unlock(&p->lock);
  } else {
    st = fail(ST_NO_HOST_MEMORY, "there are %d pools, expected fewer", MAX_POOLS);
  }
  mutex_unlock(&table_lock);
  if (st == ST_OK) *out = p;
  return st;
}

status pool_of(const void *handle, pool_kind kind, pool **out) {
  const uintptr_t distance = (uintptr_t)handle - (uintptr_t)pools;
  pool *p = &pools[distance / sizeof *p < MAX_POOLS ? distance / sizeof *p : 0];
  if (distance >= sizeof pools || distance % sizeof *p || p->state != POOL_LIVE || p->config.kind != kind)
    return pool_gone(handle, kind);
  *out = p;
  return ST_OK;
}

/* Refuses a pool that has live blocks; under its lock. */
static status pool_check_empty(pool *p) {
  heap_holders holders;
  if (!p->usage.n_live) return ST_OK;
  heap_largest(p->config.heap, pool_number(p), &holders);
  return fail(ST_INVALID_VALUE, "the pool has %ju live blocks of %ju bytes, expected none%s",
              (uintmax_t)p->usage.n_live, (uintmax_t)p->usage.used_bytes, holders.words);
}

status pool_destroy(pool *p, bool needs_empty) {
  mutex_lock(&table_lock);
  mutex_lock(&p->lock);
  status st = p->state == POOL_LIVE ? ST_OK : pool_gone(p, p->config.kind);
  if (st == ST_OK && needs_empty) st = pool_check_empty(p);
  if (st == ST_OK) {
    p->state = POOL_GOING;
    pool_end_if_empty(p);
  }
  mutex_unlock(&p->lock);
  mutex_unlock(&table_lock);
  return st;
}

/* ---- a whole pool ------------------------------------------------------------------------------------------------ */

void pool_trim(pool *p, uint64_t keep_bytes) {
  mutex_lock(&p->lock);
  pool_settle(p);
  shelf_join(&p->shelf);
  shelf_release(&p->shelf, pool_less(p->shelf.bytes, keep_bytes));
  INVARIANT_WALK(pool_is_valid(p));
  pool_tell_held(p);
  mutex_unlock(&p->lock);
}

void pool_defragment(pool *p) {
  heap_usage usage;
  mutex_lock(&p->lock);
  pool_settle(p);
  shelf_join(&p->shelf);
  pool_refill_reserve(p);
  const uint64_t released = shelf_release(&p->shelf, UINT64_MAX);
  heap_measure(p->config.heap, &usage);
  heap_trim(p->config.heap, pool_less(usage.committed_bytes, released));
  ++p->usage.n_defragments;
  INVARIANT_WALK(pool_is_valid(p));
  pool_tell_held(p);
  mutex_unlock(&p->lock);
}

pool_policy pool_get_policy(pool *p) {
  mutex_lock(&p->lock);
  const pool_policy policy = p->config.policy;
  mutex_unlock(&p->lock);
  return policy;
}

void pool_set_policy(pool *p, const pool_policy *policy) {
  mutex_lock(&p->lock);
  p->config.policy = *policy;
  p->shelf.follow_events = policy->follow_events;
  p->shelf.opportunistic = policy->opportunistic;
  mutex_unlock(&p->lock);
}

void pool_measure(pool *p, pool_usage *out) {
  mutex_lock(&p->lock);
  pool_settle(p);
  *out = p->usage;
  out->held_bytes = p->shelf.bytes;
  out->cached_bytes = p->shelf.cached_bytes + p->parked_bytes;
  out->reserve_bytes = p->reserve ? p->reserve->bytes : 0;
  mutex_unlock(&p->lock);
}

void pool_reset_peaks(pool *p, bool used, bool held) {
  mutex_lock(&p->lock);
  if (used) p->usage.used_peak_bytes = p->usage.used_bytes;
  if (held) p->usage.held_peak_bytes = p->shelf.bytes;
  mutex_unlock(&p->lock);
}

/* ---- all pools --------------------------------------------------------------------------------------------------- */

void pools_synchronized(int device) {
  for (unsigned i = 0; i < n_slots; ++i) {
    pool *p = &pools[i];
    const pool_state state = p->state;
    if (state == POOL_NONE) continue;
    if (state == POOL_GOING) mutex_lock(&table_lock);
    mutex_lock(&p->lock);
    if (p->config.device == device) {
      if (p->state == POOL_LIVE) pool_keep_within(p);
      INVARIANT_WALK(pool_is_valid(p));
      pool_tell_held(p);
      if (state == POOL_GOING) pool_end_if_empty(p);
    }
    mutex_unlock(&p->lock);
    if (state == POOL_GOING) mutex_unlock(&table_lock);
  }
}

uint64_t pools_relieve(int device) {
  uint64_t relieved = 0;
  for (unsigned i = 0; i < n_slots; ++i) {
    pool *p = &pools[i];
    if (p->state == POOL_NONE) continue;
    mutex_lock(&p->lock);
    if (p->state != POOL_NONE && p->config.device == device) {
      pool_settle(p);
      relieved += shelf_release(&p->shelf, UINT64_MAX);
      INVARIANT_WALK(pool_is_valid(p));
      pool_tell_held(p);
    }
    mutex_unlock(&p->lock);
  }
  return relieved;
}
