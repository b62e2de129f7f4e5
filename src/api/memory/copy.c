/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for copies and fills of memory. */
#include "runtime/memory/copy.h"

#include "api/api.h"
#include "memory/memory.h"
#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/graph/capture.h"

/* Limits of the asynchronous 2-D copy, as documented. */
enum { MAX_ASYNC_WIDTH = 5000000, MAX_ASYNC_HEIGHT = 5242880 };

static status check_flat(size_t room, size_t count, aclrtMemcpyKind kind) {
  if ((int)kind < ACL_MEMCPY_HOST_TO_HOST || (int)kind > ACL_MEMCPY_DEFAULT)
    return fail(ST_INVALID_PARAM, "kind is %d, expected 0 to 4", kind);
  if (count == 0) return fail(ST_INVALID_VALUE, "count is 0, expected 1 or more");
  if (count > room) return fail(ST_INVALID_VALUE, "count is %zu, more than destMax, which is %zu", count, room);
  return ST_OK;
}

static copy_shape flat(void *dst, const void *src, size_t count, void *site, const char *call) {
  return (copy_shape){dst, src, count, 1, count, count, site, call, 0, 0, 0};
}

aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind) {
  API_ENTER();
  NEED(dst);
  NEED(src);
  NEED_OK(device_check_child());
  NEED_OK(check_flat(destMax, count, kind));
  NEED_OK(capture_allow_unsafe(false));
  const copy_shape c = flat(dst, src, count, CALLER, __func__);
  API_RETURN(copy_now(&c, (copy_kind)kind));
}

static status copy_async(void *dst, size_t room, const void *src, size_t count, aclrtMemcpyKind kind, void *handle,
                         void *site) {
  stream *s;
  TRY(check_flat(room, count, kind));
  if (kind == ACL_MEMCPY_HOST_TO_HOST)
    return fail(ST_NOT_SUPPORTED, "kind is HOST_TO_HOST, expected a copy that a device takes part in");
  TRY(context_stream(handle, &s));
  const copy_shape c = flat(dst, src, count, site, NULL);
  return copy_in_stream(&c, (copy_kind)kind, s);
}

aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream handle) {
  API_ENTER();
  NEED(dst);
  NEED(src);
  API_RETURN(copy_async(dst, destMax, src, count, kind, handle, CALLER));
}

/* The condition is that the host memory is pinned; otherwise the call waits for the copy. aclrtMemcpyAsync does the
 * same. */
aclError aclrtMemcpyAsyncWithCondition(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                                       aclrtStream handle) {
  API_ENTER();
  NEED(dst);
  NEED(src);
  API_RETURN(copy_async(dst, destMax, src, count, kind, handle, CALLER));
}

static status check_2d(const copy_shape *c, aclrtMemcpyKind kind, bool async) {
  const int k = (int)kind;
  if (k != ACL_MEMCPY_HOST_TO_DEVICE && k != ACL_MEMCPY_DEVICE_TO_HOST && !(async && k == ACL_MEMCPY_DEVICE_TO_DEVICE))
    return fail(ST_INVALID_PARAM, "kind is %d, expected 1 or 2%s", k, async ? ", or 3" : "");
  if (!c->width || !c->height)
    return fail(ST_INVALID_VALUE, "width is %zu and height %zu, expected 1 or more", c->width, c->height);
  if (c->width > c->dst_pitch || c->width > c->src_pitch)
    return fail(ST_INVALID_VALUE, "width is %zu, more than a pitch (dpitch %zu, spitch %zu)", c->width, c->dst_pitch,
                c->src_pitch);
  if (async && (c->width > MAX_ASYNC_WIDTH || c->height > MAX_ASYNC_HEIGHT))
    return fail(ST_INVALID_VALUE, "width is %zu and height %zu, expected at most %d and %d", c->width, c->height,
                MAX_ASYNC_WIDTH, MAX_ASYNC_HEIGHT);
  size_t last;
  if (__builtin_mul_overflow(c->dst_pitch, c->height, &last) || __builtin_mul_overflow(c->src_pitch, c->height, &last))
    return fail(ST_INVALID_VALUE, "height is %zu, which overflows with the pitches", c->height);
  return ST_OK;
}

aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                       aclrtMemcpyKind kind) {
  API_ENTER();
  NEED(dst);
  NEED(src);
  const copy_shape c = {dst, src, width, height, dpitch, spitch, CALLER, __func__, 0, 0, 0};
  NEED_OK(device_check_child());
  NEED_OK(check_2d(&c, kind, false));
  NEED_OK(capture_allow_unsafe(false));
  API_RETURN(copy_now(&c, (copy_kind)kind));
}

aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                            aclrtMemcpyKind kind, aclrtStream handle) {
  API_ENTER();
  stream *s;
  NEED(dst);
  NEED(src);
  const copy_shape c = {dst, src, width, height, dpitch, spitch, CALLER, __func__, 0, 0, 0};
  NEED_OK(check_2d(&c, kind, true));
  NEED_OK(context_stream(handle, &s));
  API_RETURN(copy_in_stream(&c, (copy_kind)kind, s));
}

static status check_fill(size_t room, size_t count) {
  if (count == 0) return fail(ST_INVALID_VALUE, "count is 0, expected 1 or more");
  if (count > room) return fail(ST_INVALID_VALUE, "count is %zu, more than maxCount, which is %zu", count, room);
  return ST_OK;
}

aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count) {
  API_ENTER();
  NEED(devPtr);
  NEED_OK(device_check_child());
  NEED_OK(check_fill(maxCount, count));
  NEED_OK(capture_allow_unsafe(false));
  API_RETURN(copy_fill_now(devPtr, copy_fill_byte(value), count, __func__));
}

aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream handle) {
  API_ENTER();
  stream *s;
  NEED(devPtr);
  NEED_OK(check_fill(maxCount, count));
  NEED_OK(context_stream(handle, &s));
  API_RETURN(copy_fill_in_stream(devPtr, copy_fill_byte(value), count, s));
}

/* Checks that ptr is aligned, has room for n 32-bit words, and is device or pinned memory. */
static status check_words(const void *ptr, size_t room, size_t n) {
  if ((uintptr_t)ptr % sizeof(uint32_t)) return fail(ST_INVALID_PARAM, "ptr is %p, expected a multiple of 4", ptr);
  if (n > room / sizeof(uint32_t))
    return fail(ST_INVALID_PARAM, "N is %zu, more than memSize, %zu bytes, has words", n, room);
  if (memory_place_of(ptr) == PLACE_PAGEABLE)
    return fail(ST_INVALID_PARAM, "ptr is %p, expected what aclrtMalloc or aclrtMallocHost gave", ptr);
  return ST_OK;
}

aclError aclrtMemsetD32(void *ptr, size_t memSize, uint32_t value, size_t N) {
  API_ENTER();
  NEED(ptr);
  if (N == 0) return ACL_SUCCESS;
  NEED_OK(device_check_child());
  NEED_OK(check_words(ptr, memSize, N));
  NEED_OK(capture_allow_unsafe(false));
  API_RETURN(copy_fill_now(ptr, value, N * sizeof value, __func__));
}

aclError aclrtMemsetD32Async(void *ptr, size_t memSize, uint32_t value, size_t N, aclrtStream handle) {
  API_ENTER();
  stream *s;
  NEED(ptr);
  if (N == 0) return ACL_SUCCESS;
  NEED_OK(device_check_child());
  NEED_OK(check_words(ptr, memSize, N));
  NEED_OK(context_stream(handle, &s));
  if (memory_place_of(ptr) == PLACE_PINNED && !capture_records(s)) /* filled before the call returns, as documented */
    API_RETURN(copy_fill_now(ptr, value, N * sizeof value, __func__));
  API_RETURN(copy_fill_in_stream(ptr, value, N * sizeof value, s));
}
