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
aclError aclrtFree(void *devPtr) { API(memory_free(devPtr, false)); }
aclError aclrtFreeHost(void *hostPtr) { API(memory_free(hostPtr, true)); }

static status free_after_sync(void *p, bool pinned) {
  context *c;
  TRY(context_current(&c));
  const status st = context_synchronize(c, 0);
  TRY(memory_free(p, pinned));
  return st;
}

aclError aclrtFreeWithDevSync(void *devPtr) {
  NEED(devPtr);
  API(free_after_sync(devPtr, false));
}

aclError aclrtFreeHostWithDevSync(void *hostPtr) {
  NEED(hostPtr);
  API(free_after_sync(hostPtr, true));
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
