/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for copies whose parameters are read from device memory when the copy runs. */
#include "runtime/memory/copy_indirect.h"

#include "api/api.h"
#include "runtime/context.h"
#include "runtime/device.h"

static status by_pointers(const copy_by_pointers *c, size_t room, aclrtMemcpyKind kind, void *handle) {
  stream *s;
  if (kind != ACL_MEMCPY_INNER_DEVICE_TO_DEVICE)
    return fail(ST_INVALID_VALUE, "kind is %d, expected INNER_DEVICE_TO_DEVICE, 6", kind);
  if (c->bytes > room) return fail(ST_INVALID_VALUE, "count is %zu, more than destMax, which is %zu", c->bytes, room);
  TRY(context_stream(handle, &s));
  return copy_indirect_in_stream(c, s);
}

aclError aclrtMemcpyAsyncWithOffset(void **dst, size_t destMax, size_t dstDataOffset, const void **src, size_t count,
                                    size_t srcDataOffset, aclrtMemcpyKind kind, aclrtStream handle) {
  API_ENTER();
  if (count == 0) return ACL_SUCCESS;
  NEED(dst);
  NEED(src);
  const copy_by_pointers c = {dst, src, dstDataOffset, srcDataOffset, count};
  API_RETURN(by_pointers(&c, destMax, kind, handle));
}

static status check_described_kind(aclrtMemcpyKind kind) {
  if ((unsigned)kind > ACL_MEMCPY_INTER_DEVICE_TO_DEVICE)
    return fail(ST_INVALID_PARAM, "kind is %d, expected INNER_DEVICE_TO_DEVICE, 6", kind);
  if (kind != ACL_MEMCPY_INNER_DEVICE_TO_DEVICE)
    return fail(ST_NOT_SUPPORTED, "kind is %d, and descriptors are for INNER_DEVICE_TO_DEVICE, 6", kind);
  return ST_OK;
}

aclError aclrtGetMemcpyDescSize(aclrtMemcpyKind kind, size_t *descSize) {
  API_ENTER();
  NEED(descSize);
  NEED_OK(check_described_kind(kind));
  *descSize = COPY_DESCRIPTION_BYTES;
  return ACL_SUCCESS;
}

aclError aclrtSetMemcpyDesc(void *desc, aclrtMemcpyKind kind, void *srcAddr, void *dstAddr, size_t count,
                            void *config) {
  API_ENTER();
  NEED(desc);
  NEED(srcAddr);
  NEED(dstAddr);
  NEED_OK(device_check_child());
  NEED_OK(check_described_kind(kind));
  if (count == 0) API_RETURN(fail(ST_INVALID_PARAM, "count is 0, expected 1 or more"));
  if (config) API_RETURN(fail(ST_INVALID_PARAM, "config is %p, expected NULL", config));
  API_RETURN(copy_describe(desc, dstAddr, srcAddr, count));
}

aclError aclrtMemcpyAsyncWithDesc(void *desc, aclrtMemcpyKind kind, aclrtStream handle) {
  API_ENTER();
  stream *s;
  NEED(desc);
  NEED(handle);
  NEED_OK(check_described_kind(kind));
  NEED_OK(context_stream(handle, &s));
  API_RETURN(copy_described_in_stream(desc, s));
}
