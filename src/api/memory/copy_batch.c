/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for many copies in one call. All are checked before the first is made. */
#include "api/api.h"
#include "memory/memory.h"
#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/graph/capture.h"
#include "runtime/memory/copy.h"

enum { MOST_BATCHES = 4096 };

typedef struct {
  void **dsts;
  size_t *rooms;
  void **srcs;
  size_t *sizes, n;
  aclrtMemcpyBatchAttr *attrs;
  size_t *starts, n_attrs; /* the index of the first copy that each attribute is for */
} batch;

static status check_arrays(const batch *b) {
  const struct {
    const char *name;
    const void *array;
  } all[] = {{"dsts", b->dsts},   {"destMaxs", b->rooms}, {"srcs", b->srcs},
             {"sizes", b->sizes}, {"attrs", b->attrs},    {"attrsIndexes", b->starts}};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
    if (!all[i].array) return fail(ST_INVALID_PARAM, "%s is NULL, expected a pointer", all[i].name);
  return ST_OK;
}

static status check_starts(const batch *b) {
  if (b->n_attrs == 0 || b->n_attrs > b->n)
    return fail(ST_INVALID_VALUE, "numAttrs is %zu, expected 1 to numBatches, %zu", b->n_attrs, b->n);
  if (b->starts[0] != 0) return fail(ST_INVALID_VALUE, "attrsIndexes[0] is %zu, expected 0", b->starts[0]);
  for (size_t k = 1; k < b->n_attrs; ++k)
    if (b->starts[k] <= b->starts[k - 1] || b->starts[k] >= b->n)
      return fail(ST_INVALID_VALUE, "attrsIndexes[%zu] is %zu, expected more than %zu and less than %zu", k,
                  b->starts[k], b->starts[k - 1], b->n);
  return ST_OK;
}

/* Checks that the memory is where its attribute says. *on_device: whether it is device memory. */
static status batch_check_location(const void *p, const aclrtMemLocation *said, const char *name, size_t i,
                                   bool *on_device) {
  *on_device = memory_place_of(p) == PLACE_DEVICE;
  if (said->type != ACL_MEM_LOCATION_TYPE_HOST && said->type != ACL_MEM_LOCATION_TYPE_DEVICE)
    return fail(ST_INVALID_VALUE, "%sLoc.type of copy %zu is %d, expected HOST or DEVICE (0, 1)", name, i, said->type);
  if (*on_device != (said->type == ACL_MEM_LOCATION_TYPE_DEVICE))
    return fail(ST_INVALID_VALUE, "%ss[%zu] is %p, %s memory, but its attribute says %s", name, i, p,
                *on_device ? "device" : "host", *on_device ? "host" : "device");
  if (*on_device && said->id != (uint32_t)memory_device_of(p))
    return fail(ST_INVALID_VALUE, "%ss[%zu] is %p, on device %d, but its attribute says %u", name, i, p,
                memory_device_of(p), said->id);
  return ST_OK;
}

static copy_shape shape_of(const batch *b, size_t i, void *site, const char *call) {
  return (copy_shape){b->dsts[i], b->srcs[i], b->sizes[i], 1, b->sizes[i], b->sizes[i], site, call, 0, 0, 0};
}

static status check_copy(const batch *b, size_t i, const aclrtMemcpyBatchAttr *attr, copy_kind *kind) {
  bool to_device, from_device;
  if (!b->dsts[i] || !b->srcs[i])
    return fail(ST_INVALID_PARAM, "%ss[%zu] is NULL, expected a pointer", b->dsts[i] ? "src" : "dst", i);
  if (b->sizes[i] > b->rooms[i])
    return fail(ST_INVALID_VALUE, "sizes[%zu] is %zu, more than destMaxs[%zu], which is %zu", i, b->sizes[i], i,
                b->rooms[i]);
  for (size_t k = 0; k < sizeof attr->rsv; ++k)
    if (attr->rsv[k]) return fail(ST_INVALID_VALUE, "rsv of copy %zu's attribute is not all 0", i);
  TRY(batch_check_location(b->dsts[i], &attr->dstLoc, "dst", i, &to_device));
  TRY(batch_check_location(b->srcs[i], &attr->srcLoc, "src", i, &from_device));
  if (to_device == from_device)
    return fail(ST_INVALID_VALUE, "copy %zu is from %s to %s, expected one between host and device", i,
                from_device ? "device" : "host", to_device ? "device" : "host");
  const copy_kind own = to_device ? COPY_H2D : COPY_D2H;
  if (i > 0 && own != *kind)
    return fail(ST_INVALID_VALUE, "copy %zu is %s the device, the first is not, expected one direction", i,
                to_device ? "to" : "from");
  *kind = own;
  const copy_shape c = shape_of(b, i, NULL, NULL);
  return copy_check(&c, own);
}

static status copy_batch_check(const batch *b, copy_kind *kind, size_t *failed) {
  if (b->n == 0 || b->n > MOST_BATCHES)
    return fail(ST_INVALID_VALUE, "numBatches is %zu, expected 1 to %d", b->n, MOST_BATCHES);
  TRY(check_starts(b));
  for (size_t i = 0, k = 0; i < b->n; ++i) {
    if (k + 1 < b->n_attrs && b->starts[k + 1] == i) ++k;
    const status st = check_copy(b, i, &b->attrs[k], kind);
    if (st == ST_OK) continue;
    *failed = i;
    return st;
  }
  return ST_OK;
}

/* Makes all copies of the batch: in stream s, or before it returns if s is NULL. */
static status copy_batch_run(const batch *b, copy_kind kind, stream *s, void *site, const char *call) {
  for (size_t i = 0; i < b->n; ++i) {
    if (b->sizes[i] == 0) continue;
    const copy_shape c = shape_of(b, i, site, call);
    TRY(s ? copy_in_stream(&c, kind, s) : copy_now(&c, kind));
  }
  return ST_OK;
}

static status copy_batch(const batch *b, bool async, void *handle, void *site, size_t *failed, const char *call) {
  size_t unused;
  copy_kind kind = COPY_BY_ADDRESS;
  stream *s = NULL;
  TRY(device_check_child());
  if (!failed) failed = &unused;
  *failed = SIZE_MAX;
  TRY(check_arrays(b));
  if (!async) TRY(capture_allow_unsafe(false));
  if (async) TRY(context_stream(handle, &s));
  TRY(copy_batch_check(b, &kind, failed));
  return copy_batch_run(b, kind, s, site, call);
}

#define BATCH(async, stream, fail_index)                                                                               \
  const batch b = {dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs};                            \
  API_RETURN(copy_batch(&b, async, stream, CALLER, fail_index, __func__))

aclError aclrtMemcpyBatch(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
                          aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs, size_t *failIndex) {
  API_ENTER();
  NEED(failIndex);
  BATCH(false, NULL, failIndex);
}

aclError aclrtMemcpyBatchV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
                            aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs) {
  API_ENTER();
  BATCH(false, NULL, NULL);
}

aclError aclrtMemcpyBatchAsync(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
                               aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs, size_t *failIndex,
                               aclrtStream handle) {
  API_ENTER();
  NEED(failIndex);
  BATCH(true, handle, failIndex);
}

aclError aclrtMemcpyBatchAsyncV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
                                 aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs,
                                 aclrtStream handle) {
  API_ENTER();
  BATCH(true, handle, NULL);
}
