/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for virtual memory: reserved addresses, physical memory, mappings. */
#include "memory/vmm/vmm.h"

#include "api/api.h"
#include "memory/memory.h"
#include "runtime/context.h"
#include "runtime/device.h"

static bool has_1g_pages(aclrtMemAttr attr) {
  return attr == ACL_HBM_MEM_HUGE1G || attr == ACL_HBM_MEM_P2P_HUGE1G || attr == ACL_MEM_HUGE1G ||
         attr == ACL_MEM_P2P_HUGE1G;
}

static uint64_t granularity_of(const aclrtPhysicalMemProp *prop) {
  return has_1g_pages(prop->memAttr) ? UINT64_C(1) << 30 : HEAP_GRANULE_BYTES;
}

static status check_physical_properties(const aclrtPhysicalMemProp *prop) {
  if (prop->handleType != ACL_MEM_HANDLE_TYPE_NONE)
    return fail(ST_INVALID_VALUE, "prop->handleType is %d, expected ACL_MEM_HANDLE_TYPE_NONE, 0", prop->handleType);
  if (prop->allocationType != ACL_MEM_ALLOCATION_TYPE_PINNED)
    return fail(ST_INVALID_VALUE, "prop->allocationType is %d, expected ACL_MEM_ALLOCATION_TYPE_PINNED, 0",
                prop->allocationType);
  if ((unsigned)prop->memAttr > ACL_MEM_P2P_HUGE1G)
    return fail(ST_INVALID_VALUE, "prop->memAttr is %d, expected 0 to %d", prop->memAttr, ACL_MEM_P2P_HUGE1G);
  switch (prop->location.type) {
  case ACL_MEM_LOCATION_TYPE_HOST:
  case ACL_MEM_LOCATION_TYPE_HOST_NUMA: return ST_OK;
  case ACL_MEM_LOCATION_TYPE_DEVICE: return device_check(prop->location.id, "prop->location.id");
  default:
    return fail(ST_INVALID_VALUE, "prop->location.type is %d, expected HOST, DEVICE or HOST_NUMA (0, 1, 4)",
                prop->location.type);
  }
}

static status expect_zero(uint64_t value, const char *name) {
  return value == 0 ? ST_OK : fail(ST_INVALID_VALUE, "%s is %ju, expected 0", name, (uintmax_t)value);
}

aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop, aclrtMemGranularityOptions option,
                                          size_t *granularity) {
  API_ENTER();
  NEED(prop);
  NEED(granularity);
  if (option != ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM && option != ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED)
    API_RETURN(fail(ST_INVALID_PARAM, "option is %d, expected MINIMUM or RECOMMENDED (0, 1)", option));
  NEED_OK(check_physical_properties(prop));
  *granularity = granularity_of(prop);
  return ACL_SUCCESS;
}

aclError aclrtReserveMemAddress(void **virPtr, size_t size, size_t alignment, void *expectPtr, uint64_t flags) {
  API_ENTER();
  uintptr_t start;
  NEED(virPtr);
  NEED_OK(device_check_child());
  if (flags > 1) API_RETURN(fail(ST_INVALID_VALUE, "flags is %ju, expected 0 or 1", (uintmax_t)flags));
  NEED_OK(vmm_reserve(size, alignment, (uintptr_t)expectPtr, &start));
  *virPtr = (void *)start;
  return ACL_SUCCESS;
}

aclError aclrtReleaseMemAddress(void *virPtr) {
  API_ENTER();
  NEED(virPtr);
  NEED_OK(device_check_child());
  API_RETURN(vmm_release((uintptr_t)virPtr));
}

static status make_physical(aclrtDrvMemHandle *handle, size_t size, const aclrtPhysicalMemProp *prop, uint64_t flags,
                            void *site) {
  TRY(device_check_child());
  _Static_assert(sizeof *prop == 32, "a tag's size");
  TRY(expect_zero(flags, "flags"));
  TRY(check_physical_properties(prop));
  const bool on_device = prop->location.type == ACL_MEM_LOCATION_TYPE_DEVICE;
  if (on_device) TRY(device_open((int)prop->location.id));
  return vmm_create(on_device ? (int)prop->location.id : VMM_HOST, size, granularity_of(prop), prop, site, handle);
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size, const aclrtPhysicalMemProp *prop, uint64_t flags) {
  API_ENTER();
  NEED(handle);
  NEED(prop);
  API_RETURN(make_physical(handle, size, prop, flags, CALLER));
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
  API_ENTER();
  NEED(handle);
  NEED_OK(device_check_child());
  API_RETURN(vmm_drop(handle, CALLER));
}

static status map_physical(void *at, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags,
                           unsigned access) {
  TRY(device_check_child());
  TRY(expect_zero(offset, "offset"));
  TRY(expect_zero(flags, "flags"));
  return vmm_map((uintptr_t)at, size, handle, access);
}

aclError aclrtMapMem(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags) {
  API_ENTER();
  NEED(virPtr);
  NEED(handle);
  API_RETURN(map_physical(virPtr, size, offset, handle, flags, VMM_READ | VMM_WRITE));
}

aclError aclrtMemMapNoAccess(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags) {
  API_ENTER();
  NEED(virPtr);
  NEED(handle);
  API_RETURN(map_physical(virPtr, size, offset, handle, flags, 0));
}

aclError aclrtUnmapMem(void *virPtr) {
  API_ENTER();
  NEED(virPtr);
  NEED_OK(device_check_child());
  API_RETURN(vmm_unmap((uintptr_t)virPtr));
}

/* CANN's access flags are bits: 1 allows reading, 2 allows writing and is valid only together with 1. */
static status set_access(void *at, size_t size, const aclrtMemAccessDesc *desc, size_t count) {
  TRY(device_check_child());
  if (count == 0) return fail(ST_INVALID_VALUE, "count is 0, expected 1 or more");
  for (size_t i = 0; i < count; ++i)
    if (desc[i].flags != ACL_RT_MEM_ACCESS_FLAGS_NONE && desc[i].flags != ACL_RT_MEM_ACCESS_FLAGS_READ &&
        desc[i].flags != ACL_RT_MEM_ACCESS_FLAGS_READWRITE)
      return fail(ST_INVALID_VALUE, "desc[%zu].flags is %d, expected 0, 1 or 3", i, desc[i].flags);
  return vmm_set_access((uintptr_t)at, size, (unsigned)desc[count - 1].flags);
}

aclError aclrtMemSetAccess(void *virPtr, size_t size, aclrtMemAccessDesc *desc, size_t count) {
  API_ENTER();
  NEED(virPtr);
  NEED(desc);
  API_RETURN(set_access(virPtr, size, desc, count));
}

aclError aclrtMemGetAccess(void *virPtr, aclrtMemLocation *location, uint64_t *flag) {
  API_ENTER();
  unsigned access;
  NEED(virPtr);
  NEED(location);
  NEED(flag);
  NEED_OK(device_check_child());
  NEED_OK(vmm_get_access((uintptr_t)virPtr, &access));
  *flag = access;
  return ACL_SUCCESS;
}

aclError aclrtMemRetainAllocationHandle(void *virPtr, aclrtDrvMemHandle *handle) {
  API_ENTER();
  NEED(virPtr);
  NEED(handle);
  NEED_OK(device_check_child());
  API_RETURN(vmm_retain((uintptr_t)virPtr, handle));
}

aclError aclrtMemGetAllocationPropertiesFromHandle(aclrtDrvMemHandle handle, aclrtPhysicalMemProp *prop) {
  API_ENTER();
  int device;
  NEED(handle);
  NEED(prop);
  NEED_OK(device_check_child());
  NEED_OK(vmm_tag(handle, prop, &device));
  if (device != VMM_HOST)
    prop->location.id =
        (uint32_t)device; /* imported memory has its maker's properties, which may name another device */
  return ACL_SUCCESS;
}
