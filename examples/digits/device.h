/* SPDX-License-Identifier: Apache-2.0 */
/* A thin layer over CANN: tensors, and operators in CANN's two phases. Any failing call ends the program with CANN's
 * own message, since a training run cannot continue after a failure. */
#pragma once

#include <acl/acl.h>
#include <aclnn/aclnn_base.h>

/* Ends the program unless a CANN call returned 0. For acl*, aclrt* and aclnn* functions. */
#define CHECK(call) check((call), #call, __FILE__, __LINE__)
void check(int32_t code, const char *call, const char *file, int line);

/* A device with one stream, all tensors, and one workspace, which grows to the size that the most demanding operator
 * needs. */
typedef struct {
  int32_t id, n_tensors;
  aclrtStream stream;
  void *workspace;
  uint64_t workspace_bytes;
  struct {
    aclTensor *desc;
    void *memory; /* freed together with the tensor; NULL for a view */
  } tensors[128];
} device;

void device_open(device *dev, int32_t id);
/* Frees all tensors and releases the device. */
void device_close(device *dev);

/* Launches an operator: phase one checks the arguments and reports the size of its workspace; phase two queues the
 * operator in the stream and returns at once. */
#define RUN(dev, op, ...)                                                                                              \
  do {                                                                                                                 \
    uint64_t bytes_ = 0;                                                                                               \
    aclOpExecutor *executor_ = NULL;                                                                                   \
    CHECK(op##GetWorkspaceSize(__VA_ARGS__, &bytes_, &executor_));                                                     \
    CHECK(op(device_workspace(dev, bytes_), bytes_, executor_, (dev)->stream));                                        \
  } while (0)

void *device_workspace(device *dev, uint64_t bytes);

/* These create uninitialised tensors, which the device owns. */
aclTensor *scalar(device *dev, aclDataType type);
aclTensor *vector(device *dev, aclDataType type, int64_t n);
aclTensor *matrix(device *dev, aclDataType type, int64_t rows, int64_t cols);
/* A transposed view of a float matrix of shape rows × cols; nothing is copied. */
aclTensor *transposed(device *dev, const aclTensor *matrix, int64_t rows, int64_t cols);

/* These queue a copy. The host memory must be pinned (aclrtMallocHost) and unchanged until the copy has run. */
void upload(const device *dev, const aclTensor *to, const void *host, size_t bytes);
void download(const device *dev, void *host, const aclTensor *from, size_t bytes);
