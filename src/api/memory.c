/* Device and host memory. */
#include "memory/memory.h"

#include "api/api.h"
#include "runtime/context.h"

#define CALLER __builtin_return_address(0)

/* Page policies are hints, and CANN takes values outside of the enum too; only aclrtMallocCached limits them. */
static status allocate(rule_kind rule, void **out, size_t size, void *site) {
  context *c;
  TRY(context_current(&c));
  return memory_alloc(c->device, &alloc_rules[rule], size, alloc_rules[rule].call, site, out);
}

aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
  (void)policy;
  NEED(devPtr);
  API(allocate(RULE_MALLOC, devPtr, size, CALLER));
}

aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
  (void)policy;
  NEED(devPtr);
  API(allocate(RULE_MALLOC_ALIGN32, devPtr, size, CALLER));
}

aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
  NEED(devPtr);
  const int p = (int)policy;
  if (p != ACL_MEM_MALLOC_HUGE_FIRST && p != ACL_MEM_MALLOC_HUGE_ONLY && p != ACL_MEM_MALLOC_NORMAL_ONLY &&
      p != ACL_MEM_MALLOC_HUGE1G_ONLY)
    API(fail(ST_INVALID_VALUE, "policy is %d, expected 0, 1, 2 or 6", p));
  API(allocate(RULE_MALLOC_CACHED, devPtr, size, CALLER));
}

aclError aclrtMallocHost(void **hostPtr, size_t size) {
  NEED(hostPtr);
  API(allocate(RULE_MALLOC_HOST, hostPtr, size, CALLER));
}

/* Frees need no context: what outlives its device can still be freed. */
aclError aclrtFree(void *devPtr) { API(memory_free(devPtr, false, CALLER)); }
aclError aclrtFreeHost(void *hostPtr) { API(memory_free(hostPtr, true, CALLER)); }

static status free_after_sync(void *p, bool pinned, void *site) {
  context *c;
  TRY(context_current(&c));
  const status st = context_synchronize(c, 0);
  TRY(memory_free(p, pinned, site));
  return st;
}

aclError aclrtFreeWithDevSync(void *devPtr) {
  NEED(devPtr);
  API(free_after_sync(devPtr, false, CALLER));
}

aclError aclrtFreeHostWithDevSync(void *hostPtr) {
  NEED(hostPtr);
  API(free_after_sync(hostPtr, true, CALLER));
}

/* All kinds of pages come out of the one memory there is (HBM, or DDR on devices without); what is unknown has none. */
aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total) {
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

/* cfg may be NULL. The module is for CANN's own accounts; a device must be the current one. */
static status check_config(const aclrtMallocConfig *cfg, bool host) {
  context *c;
  if (!cfg) return ST_OK;
  if (cfg->numAttrs && !cfg->attrs)
    return fail(ST_INVALID_PARAM, "cfg->attrs is NULL, expected %zu attributes", cfg->numAttrs);
  TRY(context_current(&c));
  for (size_t i = 0; i < cfg->numAttrs; ++i) {
    const aclrtMallocAttribute *a = &cfg->attrs[i];
    switch ((int)a->attr) {
    case ACL_RT_MEM_ATTR_RSV:
    case ACL_RT_MEM_ATTR_MODULE_ID: break;
    case ACL_RT_MEM_ATTR_DEVICE_ID:
      if (!host && a->value.deviceId != (uint32_t)c->device)
        return fail(ST_INVALID_VALUE, "cfg->attrs[%zu].value.deviceId is %u, expected the current device, %d", i,
                    a->value.deviceId, c->device);
      break;
    case ACL_RT_MEM_ATTR_VA_FLAG:
      if (host) break;
      /* fall through */
    default:
      return fail(ST_INVALID_VALUE, "cfg->attrs[%zu].attr is %d, expected an attribute of this allocation", i,
                  (int)a->attr);
    }
  }
  return ST_OK;
}

aclError aclrtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg) {
  (void)policy;
  NEED(devPtr);
  NEED_OK(check_config(cfg, false));
  API(allocate(RULE_MALLOC, devPtr, size, CALLER));
}

aclError aclrtMallocHostWithCfg(void **ptr, uint64_t size, aclrtMallocConfig *cfg) {
  NEED(ptr);
  NEED_OK(check_config(cfg, true));
  API(allocate(RULE_MALLOC_HOST, ptr, size, CALLER));
}

/* ---- what an address is ------------------------------------------------------------------------------------------ */

aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes) {
  memory_holder holder;
  NEED(ptr);
  NEED(attributes);
  *attributes = (aclrtPtrAttributes){.location = {.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED}};
  if (memory_holder_of(ptr, "ptr", &holder) != ST_OK) {
    fail_take(); /* the answer is that it is nothing of ours */
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
  memory_holder holder;
  NEED(ptr);
  if (!pbase && !psize) API(fail(ST_INVALID_PARAM, "pbase and psize are NULL, expected a pointer for one of them"));
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
  NEED(ptr);
  NEED(devPtr);
  if (type != ACL_HOST_REGISTER_MAPPED)
    API(fail(ST_INVALID_PARAM, "type is %d, expected ACL_HOST_REGISTER_MAPPED, 0", (int)type));
  NEED_OK(register_host(ptr, size, ACL_HOST_REG_MAPPED));
  *devPtr = ptr;
  return ACL_SUCCESS;
}

aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag) {
  NEED(ptr);
  API(register_host(ptr, size, flag));
}

aclError aclrtHostUnregister(void *ptr) {
  NEED(ptr);
  API(registered_remove((uintptr_t)ptr));
}

/* Host and kernels use one address. */
aclError aclrtHostGetDevicePointer(void *pHost, void **pDevice, uint32_t flag) {
  NEED(pHost);
  NEED(pDevice);
  if (flag) API(fail(ST_INVALID_VALUE, "flag is %u, expected 0", flag));
  if (!space_is_pinned((uintptr_t)pHost) && !registered_holds((uintptr_t)pHost, 1, REGISTERED_MAPPED))
    API(fail(ST_NOT_REGISTERED, "pHost is %p, expected registered (MAPPED) or pinned memory", pHost));
  *pDevice = pHost;
  return ACL_SUCCESS;
}
