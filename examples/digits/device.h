/*
 * What this program asks of the device: tensors, and operators in CANN's two phases.
 * Any call that fails ends the program with CANN's own message: a training run has nothing to fall back on.
 */
#pragma once

#include <acl/acl.h>
#include <aclnn/aclnn_base.h>

/* Ends the program unless a CANN call returned 0. Good for acl*, aclrt* and aclnn* alike. */
#define CHECK(call) check((call), #call, __FILE__, __LINE__)
void check(int32_t code, const char *call, const char *file, int line);

/* A device with one stream, one workspace that grows to what the hungriest operator needs, and all tensors.
 */
typedef struct {
  int32_t id, n_tensors;
  aclrtStream stream;
  void *workspace;
  uint64_t workspace_bytes;
  struct {
    aclTensor *desc;
    void *memory; /* what to free with it; NULL for a view */
  } tensors[128];
} device;

void device_open(device *dev, int32_t id);
/* Frees the tensors too; nothing of the device is left. */
void device_close(device *dev);

/* Launches an operator: phase one checks the arguments and says how much workspace it needs, phase two
   queues it on the stream and returns at once. */
#define RUN(dev, op, ...)                                                                                              \
  do {                                                                                                                 \
    uint64_t bytes_ = 0;                                                                                               \
    aclOpExecutor *executor_ = NULL;                                                                                   \
    CHECK(op##GetWorkspaceSize(__VA_ARGS__, &bytes_, &executor_));                                                     \
    CHECK(op(device_workspace(dev, bytes_), bytes_, executor_, (dev)->stream));                                        \
  } while (0)

void *device_workspace(device *dev, uint64_t bytes);

/* New tensors, not yet filled. The device owns them. */
aclTensor *scalar(device *dev, aclDataType type);
aclTensor *vector(device *dev, aclDataType type, int64_t n);
aclTensor *matrix(device *dev, aclDataType type, int64_t rows, int64_t cols);
/* A view of a float matrix of that shape with its dimensions exchanged; nothing is copied. */
aclTensor *transposed(device *dev, const aclTensor *matrix, int64_t rows, int64_t cols);

/* Queues a copy; host memory must be pinned (aclrtMallocHost) and left alone until the stream gets there. */
void upload(const device *dev, const aclTensor *to, const void *host, size_t bytes);
void download(const device *dev, void *host, const aclTensor *from, size_t bytes);
