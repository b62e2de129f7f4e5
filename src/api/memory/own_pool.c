/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for Cannon's own pools (include/cannon/pool.h, memory/pool/stream_pool.h). */
#include "cannon/pool.h"

#include "api/api.h"
#include "base/size.h"
#include "memory/memory.h"
#include "memory/pool/stream_pool.h"
#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/graph/capture.h"
#include "runtime/wait/stream_order.h"

enum { RESERVE_SHARE = 64 };

static const uint64_t MAX_ALIGNMENT = HEAP_GRANULE_BYTES, MAX_GROWTH = UINT64_C(1) << 30;

cannon_pool_config cannon_pool_default_config(void) {
  API_ENTER();
  return (cannon_pool_config){.device = -1,
                              .initial_bytes = UINT64_C(256) << 20,
                              .max_cached_bytes = UINT64_C(2) << 30,
                              .growth_bytes = HEAP_GRANULE_BYTES,
                              .alignment = 64,
                              .defragment_threshold = 0.3};
}

static status own_pool_check_config(const cannon_pool_config *c) {
  const uint64_t most = device_memory_bytes();
  if (c->initial_bytes > most)
    return fail(ST_INVALID_VALUE, "initial_bytes is %ju, expected at most the device's %ju (%s)",
                (uintmax_t)c->initial_bytes, (uintmax_t)most, size_in_words(most).text);
  if (c->max_bytes && c->max_bytes < c->initial_bytes)
    return fail(ST_INVALID_VALUE, "max_bytes is %ju, expected 0 (no limit) or initial_bytes, %ju, or more",
                (uintmax_t)c->max_bytes, (uintmax_t)c->initial_bytes);
  if (c->growth_bytes > MAX_GROWTH)
    return fail(ST_INVALID_VALUE, "growth_bytes is %ju, expected at most %ju", (uintmax_t)c->growth_bytes,
                (uintmax_t)MAX_GROWTH);
  if (c->alignment < 64 || c->alignment > MAX_ALIGNMENT || c->alignment & (c->alignment - 1))
    return fail(ST_INVALID_VALUE, "alignment is %ju, expected a power of two from 64 to %ju", (uintmax_t)c->alignment,
                (uintmax_t)MAX_ALIGNMENT);
  if (!(c->defragment_threshold >= 0 && c->defragment_threshold <= 1))
    return fail(ST_INVALID_VALUE, "defragment_threshold is %g, expected 0 to 1", c->defragment_threshold);
  return ST_OK;
}

static status own_pool_find(const void *handle, pool **p) {
  TRY(device_check_child());
  return pool_of(handle, POOL_OF_CANNON, p);
}

static status own_pool_create(cannon_pool **out, const cannon_pool_config *given) {
  const cannon_pool_config c = given ? *given : cannon_pool_default_config();
  context *current;
  pool *made;
  int device = c.device;
  TRY(own_pool_check_config(&c));
  if (device == -1) {
    TRY(context_current(&current));
    device = current->device;
  }
  TRY(device_check(device, "device"));
  TRY(device_open(device));
  order_keep();
  const uint64_t reserve = c.initial_bytes / RESERVE_SHARE;
  TRY(pool_create(&(pool_config){.kind = POOL_OF_CANNON,
                                 .device = device,
                                 .heap = memory_heap(device),
                                 .order = &order_of_streams,
                                 .fences = memory_fences(),
                                 .policy = {.follow_events = true,
                                            .opportunistic = true,
                                            .insert_waits = true,
                                            .cached_bytes = c.max_cached_bytes},
                                 .trims_at_free = true,
                                 .initial_bytes = c.initial_bytes,
                                 .most_bytes = c.max_bytes ? c.max_bytes + reserve : UINT64_MAX,
                                 .growth_bytes = c.growth_bytes,
                                 .reserve_bytes = reserve,
                                 .alignment = c.alignment,
                                 .most_idle = c.defragment_threshold},
                  &made));
  *out = (cannon_pool *)made;
  return ST_OK;
}

aclError cannon_pool_create(cannon_pool **pool, const cannon_pool_config *config) {
  API_ENTER();
  NEED(pool);
  API_RETURN(own_pool_create(pool, config));
}

aclError cannon_pool_destroy(cannon_pool *handle) {
  API_ENTER();
  pool *p;
  NEED(handle);
  NEED_OK(own_pool_find(handle, &p));
  API_RETURN(pool_destroy(p, true));
}

static status own_pool_allocate(cannon_pool *handle, size_t size, aclrtStream stream_handle, void *site, void **block) {
  pool *p;
  stream *s;
  uint64_t bytes;
  TRY(own_pool_find(handle, &p));
  TRY(context_stream(stream_handle, &s));
  TRY(memory_round(&alloc_rules[RULE_MALLOC], POLICY_HUGE_FIRST, size, &bytes));
  return pool_alloc(p, s, bytes, size, site, block);
}

aclError cannon_pool_alloc(cannon_pool *pool, size_t size, aclrtStream stream, void **block) {
  API_ENTER();
  NEED(pool);
  NEED(block);
  API_RETURN(own_pool_allocate(pool, size, stream, CALLER, block));
}

aclError cannon_pool_free(cannon_pool *handle, void *block) {
  API_ENTER();
  pool *p;
  NEED(handle);
  NEED(block);
  NEED_OK(own_pool_find(handle, &p));
  API_RETURN(pool_free(p, block, NULL, "block", CALLER));
}

aclError cannon_pool_free_async(cannon_pool *handle, void *block, aclrtStream stream_handle) {
  API_ENTER();
  pool *p;
  stream *s;
  NEED(handle);
  NEED(block);
  bool kept;
  NEED_OK(own_pool_find(handle, &p));
  NEED_OK(context_stream(stream_handle, &s));
  NEED_OK(capture_free_block(s, block, CALLER, &kept));
  if (kept) return ACL_SUCCESS;
  API_RETURN(pool_free(p, block, s, "block", CALLER));
}

aclError cannon_pool_defragment(cannon_pool *handle) {
  API_ENTER();
  pool *p;
  NEED(handle);
  NEED_OK(own_pool_find(handle, &p));
  pool_defragment(p);
  return ACL_SUCCESS;
}

aclError cannon_pool_get_stats(cannon_pool *handle, cannon_pool_stats *stats) {
  API_ENTER();
  pool *p;
  pool_usage u;
  NEED(handle);
  NEED(stats);
  NEED_OK(own_pool_find(handle, &p));
  pool_measure(p, &u);
  *stats = (cannon_pool_stats){
      .live_bytes = u.used_bytes,
      .peak_live_bytes = u.used_peak_bytes,
      .held_bytes = u.held_bytes,
      .peak_held_bytes = u.held_peak_bytes,
      .cached_bytes = u.cached_bytes,
      .reserve_bytes = u.reserve_bytes,
      .n_live = u.n_live,
      .n_allocs = u.n_allocs,
      .n_frees = u.n_frees,
      .n_reused = u.n_reused,
      .n_waits = u.n_waits,
      .n_refused = u.n_refused,
      .n_defragments = u.n_defragments,
      .fragmentation = u.held_bytes ? 1 - (double)u.used_bytes / (double)u.held_bytes : 0,
  };
  return ACL_SUCCESS;
}
