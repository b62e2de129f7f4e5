/* SPDX-License-Identifier: Apache-2.0 */
/* Common parts of these programs: a check that ends the program with CANN's own message, float vectors, and one
 * operator. */
#pragma once

#include <acl/acl.h>
#include <aclnn/aclnn_base.h>
#include <aclnnop/aclnn_add.h>

#include <stdio.h>
#include <stdlib.h>

#define CHECK(call) check((call), #call, __FILE__, __LINE__)

static inline void check(int32_t code, const char *call, const char *file, int line) {
  if (code == 0) return;
  const char *message = aclGetRecentErrMsg();
  fprintf(stderr, "%s:%d: %s returned %d\n%s\n", file, line, call, code, message ? message : "");
  exit(1);
}

/* A tensor that describes n floats at p. */
static inline aclTensor *vector(void *p, int64_t n) {
  aclTensor *t = aclCreateTensor(&n, 1, ACL_FLOAT, (int64_t[]){1}, 0, ACL_FORMAT_ND, &n, 1, p);
  if (!t) check(ACL_ERROR_FAILURE, "aclCreateTensor", __FILE__, __LINE__);
  return t;
}

/* Queues out = x + y, n floats each, and returns at once. If the operator needs a workspace, it is allocated here and
 * the function waits for the stream. */
static inline void add(void *out, void *x, void *y, int64_t n, aclrtStream stream) {
  float factor = 1;
  uint64_t bytes;
  aclOpExecutor *executor;
  void *workspace = NULL;
  aclTensor *tx = vector(x, n), *ty = vector(y, n), *tout = vector(out, n);
  aclScalar *alpha = aclCreateScalar(&factor, ACL_FLOAT);
  CHECK(aclnnAddGetWorkspaceSize(tx, ty, alpha, tout, &bytes, &executor));
  if (bytes) CHECK(aclrtMalloc(&workspace, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclnnAdd(workspace, bytes, executor, stream));
  CHECK(aclDestroyTensor(tx)); /* the queued task no longer needs it */
  CHECK(aclDestroyTensor(ty));
  CHECK(aclDestroyTensor(tout));
  CHECK(aclDestroyScalar(alpha));
  if (workspace) {
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtFree(workspace));
  }
}

static inline void expect(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "wrong: %s\n", what);
  exit(1);
}
