/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for cache maintenance. Kernels and the host see the same memory, so they only check their arguments and
 * tell the model of the L2 cache what was prefetched. */
#include "api/api.h"
#include "memory/memory.h"
#include "op/account.h"
#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/memory/copy_indirect.h"
#include "trace/stats_write.h"

/* Checks that the range is device memory in one block or mapping. *view: its address for kernels. */
static status check_device_range(const void *p, size_t size, const char *name, void **view) {
  TRY(device_check_child());
  if (size == 0) return fail(ST_INVALID_PARAM, "size is 0, expected 1 or more");
  if (memory_place_of(p) != PLACE_DEVICE)
    return fail(ST_INVALID_VALUE, "%s is %p, no device memory, expected what aclrtMalloc gave", name, p);
  return memory_view(p, size, VMM_READ, name, view);
}

aclError aclrtMemFlush(void *devPtr, size_t size) {
  API_ENTER();
  void *view;
  NEED(devPtr);
  API_RETURN(check_device_range(devPtr, size, "devPtr", &view));
}

aclError aclrtMemInvalidate(void *devPtr, size_t size) {
  API_ENTER();
  void *view;
  NEED(devPtr);
  API_RETURN(check_device_range(devPtr, size, "devPtr", &view));
}

static status check_cache_operation(aclrtCmoType type) {
  if ((unsigned)type > ACL_RT_CMO_TYPE_FLUSH) return fail(ST_INVALID_PARAM, "cmoType is %d, expected 0 to 3", type);
  if (type != ACL_RT_CMO_TYPE_PREFETCH)
    return fail(ST_NOT_SUPPORTED, "cmoType is %d, and only ACL_RT_CMO_TYPE_PREFETCH, 0, is for streams", type);
  return ST_OK;
}

static status prefetch_range(const void *src, size_t size, aclrtCmoType type, void *handle) {
  stream *s;
  void *view;
  TRY(check_cache_operation(type));
  TRY(context_stream(handle, &s));
  TRY(check_device_range(src, size, "src", &view));
  if (memory_device_of(src) != s->device)
    return fail(ST_INVALID_VALUE, "src is %p, on device %d, expected the stream's, %d", src, memory_device_of(src),
                s->device);
  if (trace_is_on()) account_prefetch(view, size);
  return ST_OK;
}

aclError aclrtCmoAsync(void *src, size_t size, aclrtCmoType cmoType, aclrtStream handle) {
  API_ENTER();
  NEED(src);
  API_RETURN(prefetch_range(src, size, cmoType, handle));
}

aclError aclrtCmoGetDescSize(size_t *size) {
  API_ENTER();
  NEED(size);
  *size = COPY_DESCRIPTION_BYTES;
  return ACL_SUCCESS;
}

aclError aclrtCmoSetDesc(void *cmoDesc, void *src, size_t size) {
  API_ENTER();
  void *view;
  NEED(cmoDesc);
  NEED(src);
  NEED_OK(check_device_range(src, size, "src", &view));
  API_RETURN(copy_describe(cmoDesc, NULL, src, size));
}

static status prefetch_described(const void *description, aclrtCmoType type, void *handle) {
  void *src;
  size_t size;
  TRY(copy_described_range(description, &src, &size));
  return prefetch_range(src, size, type, handle);
}

aclError aclrtCmoAsyncWithDesc(void *cmoDesc, aclrtCmoType cmoType, aclrtStream handle, const void *reserve) {
  API_ENTER();
  NEED(cmoDesc);
  if (reserve) API_RETURN(fail(ST_INVALID_PARAM, "reserve is %p, expected NULL", reserve));
  API_RETURN(prefetch_described(cmoDesc, cmoType, handle));
}

/* One product has barriers of cache operations, for streams of its models; this device has none. */
aclError aclrtCmoAsyncWithBarrier(void *src, size_t size, aclrtCmoType cmoType, uint32_t barrierId,
                                  aclrtStream handle) {
  API_ENTER();
  (void)size, (void)cmoType, (void)handle;
  NEED(src);
  API_REFUSE(fail(ST_NOT_SUPPORTED, "barrierId is %u, and this device has no barriers of cache operations", barrierId));
}

aclError aclrtCmoWaitBarrier(aclrtBarrierTaskInfo *taskInfo, aclrtStream handle, uint32_t flag) {
  API_ENTER();
  (void)handle, (void)flag;
  NEED(taskInfo);
  API_REFUSE(fail(ST_NOT_SUPPORTED, "taskInfo has %zu barriers, and this device has none of cache operations",
                  taskInfo->barrierNum));
}
