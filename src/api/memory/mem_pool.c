/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for stream-ordered memory pools (memory/pool/stream_pool.h). */
#include "acl/acl_rt_memory_soma.h"

#include <pthread.h>
#include <string.h>

#include "api/api.h"
#include "base/lock.h"
#include "base/size.h"
#include "memory/memory.h"
#include "memory/pool/stream_pool.h"
#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/graph/capture.h"
#include "runtime/wait/stream_order.h"

#define CALLER __builtin_return_address(0)

enum { GROWTH_BYTES = HEAP_GRANULE_BYTES };
static const double MOST_IDLE = 0.3; /* the default in include/cannon/pool.h */

static status mem_pool_check_properties(const aclrtMemPoolProps *p) {
  static const unsigned char zeros[sizeof p->reserved];
  if (p->allocType != ACL_MEM_ALLOCATION_TYPE_PINNED)
    return fail(ST_INVALID_PARAM, "poolProps->allocType is %d, expected ACL_MEM_ALLOCATION_TYPE_PINNED, 0",
                (int)p->allocType);
  if (p->handleType != ACL_MEM_HANDLE_TYPE_NONE && p->handleType != ACL_MEM_HANDLE_TYPE_POSIX)
    return fail(ST_INVALID_PARAM, "poolProps->handleType is %d, expected NONE or POSIX (0, 2)", (int)p->handleType);
  if (p->location.type != ACL_MEM_LOCATION_TYPE_DEVICE)
    return fail(ST_INVALID_PARAM, "poolProps->location.type is %d, expected ACL_MEM_LOCATION_TYPE_DEVICE, 1",
                (int)p->location.type);
  if (memcmp(p->reserved, zeros, sizeof zeros) != 0)
    return fail(ST_INVALID_PARAM, "poolProps->reserved is not all zeros");
  TRY(device_check(p->location.id, "poolProps->location.id"));
  if (p->maxSize > device_memory_bytes())
    return fail(ST_INVALID_VALUE, "poolProps->maxSize is %zu, expected at most the device's %ju bytes (%s)", p->maxSize,
                (uintmax_t)device_memory_bytes(), size_in_words(device_memory_bytes()).text);
  return ST_OK;
}

static status mem_pool_find(const void *handle, pool **p) {
  TRY(device_check_child());
  return pool_of(handle, POOL_OF_ACL, p);
}

static status mem_pool_create(aclrtMemPool *out, const aclrtMemPoolProps *p) {
  pool *made;
  TRY(mem_pool_check_properties(p));
  const int device = (int)p->location.id;
  const uint64_t granule = HEAP_GRANULE_BYTES, most = p->maxSize ? p->maxSize : device_memory_bytes();
  TRY(device_open(device));
  order_keep();
  TRY(pool_create(&(pool_config){.kind = POOL_OF_ACL,
                                 .device = device,
                                 .heap = memory_heap(device),
                                 .order = &order_of_streams,
                                 .fences = memory_fences(),
                                 .policy = {.follow_events = true, .opportunistic = true, .insert_waits = true},
                                 .most_bytes = (most + granule - 1) & -granule,
                                 .growth_bytes = GROWTH_BYTES,
                                 .alignment = alloc_rules[RULE_MALLOC].promised_align,
                                 .most_idle = MOST_IDLE},
                  &made));
  *out = made;
  return ST_OK;
}

aclError aclrtMemPoolCreate(aclrtMemPool *memPool, const aclrtMemPoolProps *poolProps) {
  API_ENTER();
  NEED(memPool);
  NEED(poolProps);
  API_RETURN(mem_pool_create(memPool, poolProps));
}

aclError aclrtMemPoolDestroy(const aclrtMemPool memPool) {
  API_ENTER();
  pool *p;
  NEED(memPool);
  NEED_OK(mem_pool_find(memPool, &p));
  API_RETURN(pool_destroy(p, false));
}

static status mem_pool_allocate(void **ptr, size_t size, aclrtMemPool handle, aclrtStream stream_handle, void *site) {
  pool *p;
  stream *s;
  uint64_t bytes;
  TRY(mem_pool_find(handle, &p));
  TRY(context_stream(stream_handle, &s));
  TRY(memory_round(&alloc_rules[RULE_MALLOC], POLICY_HUGE_FIRST, size, &bytes));
  return pool_alloc(p, s, bytes, size, site, ptr);
}

aclError aclrtMemPoolMallocAsync(void **ptr, size_t size, aclrtMemPool memPool, aclrtStream stream) {
  API_ENTER();
  NEED(ptr);
  NEED(memPool);
  API_RETURN(mem_pool_allocate(ptr, size, memPool, stream, CALLER));
}

aclError aclrtMemPoolFreeAsync(void *ptr, aclrtStream stream_handle) {
  API_ENTER();
  stream *s;
  NEED(ptr);
  bool kept;
  NEED_OK(context_stream(stream_handle, &s));
  NEED_OK(capture_free_block(s, ptr, CALLER, &kept));
  if (kept) return ACL_SUCCESS;
  API_RETURN(pool_free(NULL, ptr, s, "ptr", CALLER));
}

aclError aclrtMemPoolTrimTo(aclrtMemPool memPool, size_t minBytesToKeep) {
  API_ENTER();
  pool *p;
  NEED(memPool);
  NEED_OK(mem_pool_find(memPool, &p));
  pool_trim(p, minBytesToKeep);
  return ACL_SUCCESS;
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static status unknown_attribute(aclrtMemPoolAttr attr) {
  return fail(ST_INVALID_PARAM, "attr is %d, expected 1 to 8", (int)attr);
}

static status set_switch(bool *on, const uint32_t *value) {
  if (*value > 1) return fail(ST_INVALID_VALUE, "value is %u, expected 0 or 1", *value);
  *on = *value;
  return ST_OK;
}

static status reset_peak(pool *p, aclrtMemPoolAttr attr, const uint64_t *value) {
  if (*value) return fail(ST_INVALID_VALUE, "value is %ju, expected 0, which starts the peak anew", (uintmax_t)*value);
  pool_reset_peaks(p, attr == ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH, attr == ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH);
  return ST_OK;
}

/* Attributes are set one at a time. */
static mutex setting = MUTEX_INITIALIZER(POOL_SETTING);

static status set_attribute_locked(aclrtMemPool handle, aclrtMemPoolAttr attr, void *value) {
  pool *p;
  TRY(mem_pool_find(handle, &p));
  pool_policy policy = pool_get_policy(p);
  switch (attr) {
  case ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES: TRY(set_switch(&policy.follow_events, value)); break;
  case ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC: TRY(set_switch(&policy.opportunistic, value)); break;
  case ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES: TRY(set_switch(&policy.insert_waits, value)); break;
  case ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD: policy.cached_bytes = *(const uint64_t *)value; break;
  case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH:
  case ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH: return reset_peak(p, attr, value);
  case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT:
  case ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT:
    return fail(ST_INVALID_VALUE, "attr is %d, which can only be read", (int)attr);
  default: return unknown_attribute(attr);
  }
  pool_set_policy(p, &policy);
  return ST_OK;
}

static status set_attribute(aclrtMemPool handle, aclrtMemPoolAttr attr, void *value) {
  mutex_lock(&setting);
  const status st = set_attribute_locked(handle, attr, value);
  mutex_unlock(&setting);
  return st;
}

aclError aclrtMemPoolSetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value) {
  API_ENTER();
  NEED(memPool);
  NEED(value);
  API_RETURN(set_attribute(memPool, attr, value));
}

static status get_attribute(aclrtMemPool handle, aclrtMemPoolAttr attr, void *value) {
  pool *p;
  pool_usage usage;
  uint32_t *on = value;
  uint64_t *bytes = value;
  TRY(mem_pool_find(handle, &p));
  const pool_policy policy = pool_get_policy(p);
  pool_measure(p, &usage);
  switch (attr) {
  case ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES: *on = policy.follow_events; break;
  case ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC: *on = policy.opportunistic; break;
  case ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES: *on = policy.insert_waits; break;
  case ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD: *bytes = policy.cached_bytes; break;
  case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT: *bytes = usage.held_bytes; break;
  case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH: *bytes = usage.held_peak_bytes; break;
  case ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT: *bytes = usage.used_bytes; break;
  case ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH: *bytes = usage.used_peak_bytes; break;
  default: return unknown_attribute(attr);
  }
  return ST_OK;
}

aclError aclrtMemPoolGetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value) {
  API_ENTER();
  NEED(memPool);
  NEED(value);
  API_RETURN(get_attribute(memPool, attr, value));
}
