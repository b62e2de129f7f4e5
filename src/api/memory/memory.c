/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for device and host memory. */
#include "memory/memory.h"

#include "api/api.h"
#include "api/memory/allocate.h"
#include "runtime/context.h"
#include "runtime/device.h"

/* The slow half of aclrtMalloc. It is not inlined, so that the fast path needs no stack frame. */
__attribute__((noinline)) static aclError malloc_out_of_line(void **devPtr, size_t size, int policy, void *site) {
  API_ENTER_AS("aclrtMalloc");
  NEED(devPtr);
  const context *c = context_peek();
  void *p = likely(c) ? memory_malloc_kept_long(c->device, policy, size, site) : NULL;
  if (unlikely(!p)) API_RETURN(allocate_by_rule(RULE_MALLOC, policy, NULL, size, site, devPtr));
  *devPtr = p;
  return ACL_SUCCESS;
}

/* The fast path takes a block from the thread's cache. While the profiler wants calls, malloc_out_of_line does
 * everything and opens the call's scope. */
aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
  const context *c = context_peek();
  const bool is_fast = likely(c && devPtr && !timeline_wants(TIMELINE_WANTS_CALLS));
  void *p = is_fast ? memory_malloc_kept(c->device, (int)policy, size, CALLER) : NULL;
  if (unlikely(!p)) return malloc_out_of_line(devPtr, size, (int)policy, CALLER);
  *devPtr = p;
  return ACL_SUCCESS;
}

aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
  API_ENTER();
  NEED(devPtr);
  API_RETURN(allocate_by_rule(RULE_MALLOC_ALIGN32, (int)policy, NULL, size, CALLER, devPtr));
}

aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
  API_ENTER();
  NEED(devPtr);
  const int p = (int)policy;
  if (p != ACL_MEM_MALLOC_HUGE_FIRST && p != ACL_MEM_MALLOC_HUGE_ONLY && p != ACL_MEM_MALLOC_NORMAL_ONLY &&
      p != ACL_MEM_MALLOC_HUGE1G_ONLY)
    API_RETURN(fail(ST_INVALID_VALUE, "policy is %d, expected 0, 1, 2 or 6", p));
  API_RETURN(allocate_by_rule(RULE_MALLOC_CACHED, p, NULL, size, CALLER, devPtr));
}

aclError aclrtMallocHost(void **hostPtr, size_t size) {
  API_ENTER();
  NEED(hostPtr);
  API_RETURN(allocate_by_rule(RULE_MALLOC_HOST, POLICY_NORMAL_ONLY, NULL, size, CALLER, hostPtr));
}

static status free_block(void *p, free_kind kind, void *site) {
  TRY(device_check_child());
  return memory_free(p, kind, site);
}

__attribute__((noinline)) static aclError free_out_of_line(void *devPtr, void *site) {
  API_ENTER_AS("aclrtFree");
  if (likely(memory_free_kept_long(devPtr))) return ACL_SUCCESS;
  API_RETURN(free_block(devPtr, FREE_DEVICE, site));
}

/* The fast path is as in aclrtMalloc. A free needs no context: blocks that outlive their device can still be freed. */
aclError aclrtFree(void *devPtr) {
  if (likely(!timeline_wants(TIMELINE_WANTS_CALLS) && memory_free_kept(devPtr))) return ACL_SUCCESS;
  return free_out_of_line(devPtr, CALLER);
}

aclError aclrtFreeHost(void *hostPtr) { API(free_block(hostPtr, FREE_HOST, CALLER)); }

static status free_after_sync(void *p, free_kind kind, void *site) {
  context *c;
  TRY(context_current(&c));
  const status st = context_synchronize(c, 0);
  TRY(memory_free(p, kind, site));
  return st;
}

aclError aclrtFreeWithDevSync(void *devPtr) {
  API_ENTER();
  NEED(devPtr);
  API_RETURN(free_after_sync(devPtr, FREE_DEVICE, CALLER));
}

aclError aclrtFreeHostWithDevSync(void *hostPtr) {
  API_ENTER();
  NEED(hostPtr);
  API_RETURN(free_after_sync(hostPtr, FREE_HOST, CALLER));
}

/* Pages of all kinds come out of one memory (HBM, or DDR on devices without HBM). Unknown attributes report 0 bytes. */
aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total) {
  API_ENTER();
  context *c;
  uint64_t free_bytes = 0, total_bytes = 0;
  NEED(free);
  NEED(total);
  NEED_OK(context_current(&c));
  if ((int)attr >= ACL_DDR_MEM && (int)attr <= ACL_MEM_P2P_HUGE1G)
    NEED_OK(memory_info(c->device, &free_bytes, &total_bytes));
  *free = free_bytes;
  *total = total_bytes;
  return ACL_SUCCESS;
}

/* ---- with attributes --------------------------------------------------------------------------------------------- */

aclError aclrtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg) {
  API_ENTER();
  NEED(devPtr);
  API_RETURN(allocate_by_rule(RULE_MALLOC_WITH_CFG, (int)policy, cfg, size, CALLER, devPtr));
}

aclError aclrtMallocForTaskScheduler(void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg) {
  API_ENTER();
  NEED(devPtr);
  API_RETURN(allocate_by_rule(RULE_MALLOC_TASK_SCHEDULER, (int)policy, cfg, size, CALLER, devPtr));
}

aclError aclrtMallocHostWithCfg(void **ptr, uint64_t size, aclrtMallocConfig *cfg) {
  API_ENTER();
  NEED(ptr);
  API_RETURN(allocate_by_rule(RULE_MALLOC_HOST_WITH_CFG, POLICY_NORMAL_ONLY, cfg, size, CALLER, ptr));
}

/* ---- what an address is ------------------------------------------------------------------------------------------ */

aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes) {
  API_ENTER();
  memory_holder holder;
  NEED(ptr);
  NEED(attributes);
  NEED_OK(device_check_child());
  *attributes = (aclrtPtrAttributes){.location = {.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED}};
  if (memory_holder_of(ptr, "ptr", &holder) != ST_OK) {
    fail_take(); /* the answer is that the memory is unregistered, which is not a failure */
    return ACL_SUCCESS;
  }
  attributes->pageSize = (uint32_t)holder.page_bytes;
  attributes->location.type = holder.place == PLACE_DEVICE    ? ACL_MEM_LOCATION_TYPE_DEVICE
                              : holder.place == PLACE_MANAGED ? ACL_MEM_LOCATION_TYPE_MANAGED
                                                              : ACL_MEM_LOCATION_TYPE_HOST;
  attributes->location.id = holder.place == PLACE_DEVICE ? (uint32_t)holder.device : 0;
  return ACL_SUCCESS;
}

aclError aclrtMemGetAddressRange(void *ptr, void **pbase, size_t *psize) {
  API_ENTER();
  memory_holder holder;
  NEED(ptr);
  NEED_OK(device_check_child());
  if (!pbase && !psize)
    API_RETURN(fail(ST_INVALID_PARAM, "pbase and psize are NULL, expected a pointer for one of them"));
  NEED_OK(memory_holder_of(ptr, "ptr", &holder));
  if (pbase) *pbase = (void *)holder.start;
  if (psize) *psize = holder.bytes;
  return ACL_SUCCESS;
}

/* ---- registered host memory -------------------------------------------------------------------------------------- */

static status register_host(void *ptr, uint64_t size, uint32_t flag) {
  context *c;
  TRY(context_current(&c));
  if (!flag || flag & ~(uint32_t)(ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED))
    return fail(flag & (ACL_HOST_REG_IOMEMORY | ACL_HOST_REG_READONLY) ? ST_NOT_SUPPORTED : ST_INVALID_VALUE,
                "flag is %#x, expected MAPPED (0x2), PINNED (0x10000000) or both", flag);
  const memory_place place = memory_place_of(ptr);
  if (place == PLACE_DEVICE || place == PLACE_MANAGED)
    return fail(ST_INVALID_VALUE, "ptr is %p, %s memory, expected host memory", ptr,
                place == PLACE_DEVICE ? "device" : "managed");
  if (place == PLACE_PINNED && flag & ACL_HOST_REG_PINNED && space_is_pinned((uintptr_t)ptr))
    return fail(ST_INVALID_VALUE, "ptr is %p, pinned memory, expected memory that is not, to be pinned", ptr);
  return registered_add((uintptr_t)ptr, size,
                        (flag & ACL_HOST_REG_MAPPED ? REGISTERED_MAPPED : 0) |
                            (flag & ACL_HOST_REG_PINNED ? REGISTERED_PINNED : 0));
}

aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr) {
  API_ENTER();
  NEED(ptr);
  NEED(devPtr);
  if (type != ACL_HOST_REGISTER_MAPPED)
    API_RETURN(fail(ST_INVALID_PARAM, "type is %d, expected ACL_HOST_REGISTER_MAPPED, 0", (int)type));
  NEED_OK(register_host(ptr, size, ACL_HOST_REG_MAPPED));
  *devPtr = ptr;
  return ACL_SUCCESS;
}

aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag) {
  API_ENTER();
  NEED(ptr);
  API_RETURN(register_host(ptr, size, flag));
}

aclError aclrtHostUnregister(void *ptr) {
  API_ENTER();
  NEED(ptr);
  NEED_OK(device_check_child());
  API_RETURN(registered_remove((uintptr_t)ptr));
}

/* The host and kernels use the same address. */
aclError aclrtHostGetDevicePointer(void *pHost, void **pDevice, uint32_t flag) {
  API_ENTER();
  NEED(pHost);
  NEED(pDevice);
  NEED_OK(device_check_child());
  if (flag) API_RETURN(fail(ST_INVALID_VALUE, "flag is %u, expected 0", flag));
  if (!space_is_pinned((uintptr_t)pHost) && !registered_holds((uintptr_t)pHost, 1, REGISTERED_MAPPED))
    API_RETURN(fail(ST_NOT_REGISTERED, "pHost is %p, expected registered (MAPPED) or pinned memory", pHost));
  *pDevice = pHost;
  return ACL_SUCCESS;
}

/* Units that run kernels and copies here can map host memory; the other units have no counterpart. */
aclError aclrtHostMemMapCapabilities(uint32_t deviceId, aclrtHacType hacType, aclrtHostMemMapCapability *capabilities) {
  API_ENTER();
  NEED(capabilities);
  NEED_OK(device_check(deviceId, "deviceId"));
  switch (hacType) {
  case ACL_RT_HAC_TYPE_AICPU:
  case ACL_RT_HAC_TYPE_AIC:
  case ACL_RT_HAC_TYPE_AIV:
  case ACL_RT_HAC_TYPE_PCIEDMA:
  case ACL_RT_HAC_TYPE_SDMA: *capabilities = ACL_RT_HOST_MEM_MAP_SUPPORTED; return ACL_SUCCESS;
  case ACL_RT_HAC_TYPE_STARS:
  case ACL_RT_HAC_TYPE_RDMA:
  case ACL_RT_HAC_TYPE_DVPP:
  case ACL_RT_HAC_TYPE_UDMA:
  case ACL_RT_HAC_TYPE_CCU: *capabilities = ACL_RT_HOST_MEM_MAP_NOT_SUPPORTED; return ACL_SUCCESS;
  default: API_RETURN(fail(ST_INVALID_VALUE, "hacType is %d, expected 0 to %d", hacType, ACL_RT_HAC_TYPE_CCU));
  }
}

/* ---- accounts ---------------------------------------------------------------------------------------------------- */

/* The kind of memory at the address: a bit of ACL_RT_MEM_TYPE_..., or 0. */
static uint32_t memory_type_of(const void *p) {
  const heap_block *b = memory_device_of(p) >= 0 ? memory_find(p) : NULL;
  const alloc_rule *rule = b ? origin_rule(b->origin) : NULL;
  if (b) return rule && rule->freed_by == FREE_DVPP ? ACL_RT_MEM_TYPE_DVPP : ACL_RT_MEM_TYPE_DEV;
  return space_is_reserved((uintptr_t)p) && vmm_is_reserved((uintptr_t)p) ? ACL_RT_MEM_TYPE_RSVD : 0;
}

aclError aclrtCheckMemType(void **addrList, uint32_t size, uint32_t memType, uint32_t *checkResult, uint32_t reserve) {
  API_ENTER();
  const uint32_t known = ACL_RT_MEM_TYPE_DEV | ACL_RT_MEM_TYPE_DVPP | ACL_RT_MEM_TYPE_RSVD;
  context *c;
  NEED(addrList);
  NEED(checkResult);
  if (reserve) API_RETURN(fail(ST_INVALID_VALUE, "reserve is %u, expected 0", reserve));
  if (size == 0) API_RETURN(fail(ST_INVALID_VALUE, "size is 0, expected 1 or more"));
  if (memType & ~known) API_RETURN(fail(ST_INVALID_VALUE, "memType is %#x, expected bits of %#x", memType, known));
  NEED_OK(context_current(&c));
  uint32_t i = 0;
  while (i < size && memory_type_of(addrList[i]) & memType) ++i;
  *checkResult = i == size;
  return ACL_SUCCESS;
}

aclError aclrtGetMemUsageInfo(int32_t deviceId, aclrtMemUsageInfo *memUsageInfo, size_t inputNum, size_t *outputNum) {
  API_ENTER();
  NEED(memUsageInfo);
  NEED(outputNum);
  NEED_OK(device_check_child());
  if (inputNum == 0) API_RETURN(fail(ST_INVALID_VALUE, "inputNum is 0, expected 1 or more"));
  NEED_OK(device_check(deviceId, "deviceId"));
  heap_usage usage = {0};
  if (memory_heap(deviceId)) heap_measure(memory_heap(deviceId), &usage);
  memUsageInfo[0] = (aclrtMemUsageInfo){.name = "APP", .curMemSize = usage.used_bytes, .memPeakSize = usage.peak_bytes};
  *outputNum = 1;
  return ACL_SUCCESS;
}
