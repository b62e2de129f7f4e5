/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>

void check(int32_t code, const char *call, const char *file, int line) {
  if (code == 0) return;
  const char *message = aclGetRecentErrMsg();
  fprintf(stderr, "%s:%d: %s returned %d\n%s\n", file, line, call, code, message ? message : "");
  exit(1);
}

void device_open(device *dev, int32_t id) {
  *dev = (device){.id = id};
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(id));
  CHECK(aclrtCreateStream(&dev->stream));
}

void device_close(device *dev) {
  CHECK(aclrtSynchronizeStream(dev->stream));
  for (int i = 0; i < dev->n_tensors; i++) {
    CHECK(aclDestroyTensor(dev->tensors[i].desc));
    if (dev->tensors[i].memory) CHECK(aclrtFree(dev->tensors[i].memory));
  }
  if (dev->workspace) CHECK(aclrtFree(dev->workspace));
  CHECK(aclrtDestroyStream(dev->stream));
  CHECK(aclrtResetDevice(dev->id));
  CHECK(aclFinalize());
}

void *device_workspace(device *dev, uint64_t bytes) {
  if (bytes > dev->workspace_bytes) {
    if (dev->workspace) {
      CHECK(aclrtSynchronizeStream(dev->stream)); /* a queued operator may still use the old workspace */
      CHECK(aclrtFree(dev->workspace));
    }
    CHECK(aclrtMalloc(&dev->workspace, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    dev->workspace_bytes = bytes;
  }
  return bytes ? dev->workspace : NULL;
}

static aclTensor *keep(device *dev, aclTensor *desc, void *memory) {
  if (!desc || dev->n_tensors == sizeof dev->tensors / sizeof *dev->tensors) CHECK(ACL_ERROR_FAILURE);
  dev->tensors[dev->n_tensors].desc = desc;
  dev->tensors[dev->n_tensors++].memory = memory;
  return desc;
}

static aclTensor *new_tensor(device *dev, aclDataType type, int rank, int64_t rows, int64_t cols) {
  void *memory;
  int64_t dims[] = {rows, cols}, strides[] = {cols, 1}; /* row-major; a vector has one column */
  CHECK(aclrtMalloc(&memory, aclDataTypeSize(type) * rows * cols, ACL_MEM_MALLOC_HUGE_FIRST));
  return keep(dev, aclCreateTensor(dims, rank, type, strides, 0, ACL_FORMAT_ND, dims, rank, memory), memory);
}

aclTensor *scalar(device *dev, aclDataType type) { return new_tensor(dev, type, 0, 1, 1); }
aclTensor *vector(device *dev, aclDataType type, int64_t n) { return new_tensor(dev, type, 1, n, 1); }
aclTensor *matrix(device *dev, aclDataType type, int64_t rows, int64_t cols) {
  return new_tensor(dev, type, 2, rows, cols);
}

static void *address(const aclTensor *t) {
  void *data;
  CHECK(aclGetRawTensorAddr(t, &data));
  return data;
}

aclTensor *transposed(device *dev, const aclTensor *matrix, int64_t rows, int64_t cols) {
  int64_t dims[] = {cols, rows}, strides[] = {1, cols}, storage[] = {rows, cols};
  aclTensor *view = aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, storage, 2, address(matrix));
  return keep(dev, view, NULL);
}

void upload(const device *dev, const aclTensor *to, const void *host, size_t bytes) {
  CHECK(aclrtMemcpyAsync(address(to), bytes, host, bytes, ACL_MEMCPY_HOST_TO_DEVICE, dev->stream));
}

void download(const device *dev, void *host, const aclTensor *from, size_t bytes) {
  CHECK(aclrtMemcpyAsync(host, bytes, address(from), bytes, ACL_MEMCPY_DEVICE_TO_HOST, dev->stream));
}
