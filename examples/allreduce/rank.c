/* SPDX-License-Identifier: Apache-2.0 */
#include "rank.h"

#include <aclnn/aclnn_base.h>
#include <aclnnop/aclnn_add.h>
#include <aclnnop/aclnn_mul.h>
#include <stdio.h>
#include <stdlib.h>

static const size_t BYTES = N * sizeof(float);
static const float RATE = 1 / 128.0f; /* a power of two, so that all results are exact */

void check(int32_t code, const char *call, const char *file, int line) {
  if (code == 0) return;
  const char *message = aclGetRecentErrMsg();
  fprintf(stderr, "%s:%d: %s returned %d\n%s\n", file, line, call, code, message ? message : "");
  exit(1);
}

void check_hccl(HcclResult code, const char *call, const char *file, int line) {
  if (code != HCCL_SUCCESS) fprintf(stderr, "HCCL: %s\n", HcclGetErrorString(code));
  check((int32_t)code, call, file, line);
}

typedef struct {
  aclrtStream compute, communicate;
  aclrtEvent computed[BUCKETS], averaged[BUCKETS];
  void *samples, *gradients[BUCKETS], *weights[BUCKETS];
} trainer;

static aclTensor *vector(void *p) {
  const int64_t n = N, stride = 1;
  aclTensor *t = aclCreateTensor(&n, 1, ACL_FLOAT, &stride, 0, ACL_FORMAT_ND, &n, 1, p);
  if (!t) check(ACL_ERROR_FAILURE, "aclCreateTensor", __FILE__, __LINE__);
  return t;
}

/* Runs an operator's second phase; none of those here needs a workspace. */
#define RUN(op, bytes, executor, stream)                                                                               \
  do {                                                                                                                 \
    if (bytes) check(ACL_ERROR_FAILURE, #op " wants a workspace", __FILE__, __LINE__);                                 \
    CHECK(op(NULL, 0, executor, stream));                                                                              \
  } while (0)

/* Queues out = x * factor. */
static void multiply(void *out, void *x, float factor, aclrtStream stream) {
  uint64_t bytes;
  aclOpExecutor *executor;
  aclTensor *tx = vector(x), *tout = vector(out);
  aclScalar *scalar = aclCreateScalar(&factor, ACL_FLOAT);
  CHECK(aclnnMulsGetWorkspaceSize(tx, scalar, tout, &bytes, &executor));
  RUN(aclnnMuls, bytes, executor, stream);
  CHECK(aclDestroyTensor(tx)); /* the queued task no longer needs it */
  CHECK(aclDestroyTensor(tout));
  CHECK(aclDestroyScalar(scalar));
}

/* Queues x += factor * y. */
static void add(void *x, void *y, float factor, aclrtStream stream) {
  uint64_t bytes;
  aclOpExecutor *executor;
  aclTensor *tx = vector(x), *ty = vector(y);
  aclScalar *scalar = aclCreateScalar(&factor, ACL_FLOAT);
  CHECK(aclnnInplaceAddGetWorkspaceSize(tx, ty, scalar, &bytes, &executor));
  RUN(aclnnInplaceAdd, bytes, executor, stream);
  CHECK(aclDestroyTensor(tx));
  CHECK(aclDestroyTensor(ty));
  CHECK(aclDestroyScalar(scalar));
}

static void open_trainer(trainer *t) {
  float *host;
  CHECK(aclrtCreateStream(&t->compute));
  CHECK(aclrtCreateStream(&t->communicate));
  CHECK(aclrtMalloc(&t->samples, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
  for (int b = 0; b < BUCKETS; b++) {
    CHECK(aclrtMalloc(&t->gradients[b], BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMalloc(&t->weights[b], BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemset(t->weights[b], BYTES, 0, BYTES));
    CHECK(aclrtCreateEventWithFlag(&t->computed[b], ACL_EVENT_SYNC));
    CHECK(aclrtCreateEventWithFlag(&t->averaged[b], ACL_EVENT_SYNC));
  }
  CHECK(aclrtMallocHost((void **)&host, BYTES));
  for (int i = 0; i < N; i++) host[i] = (float)(i % 8);
  CHECK(aclrtMemcpy(t->samples, BYTES, host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE));
  CHECK(aclrtFreeHost(host));
}

static void close_trainer(trainer *t) {
  for (int b = 0; b < BUCKETS; b++) {
    CHECK(aclrtFree(t->gradients[b]));
    CHECK(aclrtFree(t->weights[b]));
    CHECK(aclrtDestroyEvent(t->computed[b]));
    CHECK(aclrtDestroyEvent(t->averaged[b]));
  }
  CHECK(aclrtFree(t->samples));
  CHECK(aclrtDestroyStream(t->communicate));
  CHECK(aclrtDestroyStream(t->compute));
}

/* Queues a step. The gradient of bucket b is samples * (b + 1) * (rank + 1): other on every rank, as the gradients of
 * different batches are. The last bucket is computed first, as in a backward pass. */
static void step(trainer *t, HcclComm comm, uint32_t rank, uint32_t n_ranks) {
  for (int b = BUCKETS - 1; b >= 0; b--) {
    multiply(t->gradients[b], t->samples, (float)(b + 1) * (float)(rank + 1), t->compute);
    CHECK(aclrtRecordEvent(t->computed[b], t->compute));
    CHECK(aclrtStreamWaitEvent(t->communicate, t->computed[b]));
    CHECK_HCCL(
        HcclAllReduce(t->gradients[b], t->gradients[b], N, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, t->communicate));
    CHECK(aclrtRecordEvent(t->averaged[b], t->communicate));
  }
  for (int b = BUCKETS - 1; b >= 0; b--) {
    CHECK(aclrtStreamWaitEvent(t->compute, t->averaged[b]));
    add(t->weights[b], t->gradients[b], -RATE / (float)n_ranks, t->compute);
  }
}

/* The number of wrong weights. The mean of rank + 1 is (n_ranks + 1) / 2. */
static int wrong_weights(const trainer *t, uint32_t n_ranks) {
  int wrong = 0;
  float *host;
  CHECK(aclrtMallocHost((void **)&host, BYTES));
  for (int b = 0; b < BUCKETS; b++) {
    CHECK(aclrtMemcpy(host, BYTES, t->weights[b], BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 0; i < N; i++) {
      const float gradient = (float)(i % 8 * (b + 1)) * (float)(n_ranks + 1) / 2;
      const float difference = host[i] + STEPS * RATE * gradient;
      wrong += !(difference < 1e-4f && difference > -1e-4f);
    }
  }
  CHECK(aclrtFreeHost(host));
  return wrong;
}

int rank_train(HcclComm comm, uint32_t rank, uint32_t n_ranks) {
  trainer t;
  open_trainer(&t);
  for (int i = 0; i < STEPS; i++) step(&t, comm, rank, n_ranks);
  CHECK(aclrtSynchronizeStream(t.compute));
  const int wrong = wrong_weights(&t, n_ranks);
  close_trainer(&t);
  return wrong;
}
