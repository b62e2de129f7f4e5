/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for tests of operators: tensors over device memory, and both phases of an operator in one line. */
#ifndef CANNON_TESTS_SUPPORT_ACL_OPS_H
#define CANNON_TESTS_SUPPORT_ACL_OPS_H

#include "acl_test.h"

#include "aclnn/acl_meta.h"
#include "aclnn/aclnn_base.h"

/* Codes that aclnn functions return for a null argument, an illegal argument and a null executor. */
enum { NULL_ARGUMENT = 161001, ILLEGAL_ARGUMENT = 161002, NULL_EXECUTOR = 561103 };

/* The dimensions as two arguments, a pointer and a count: DIMS(2, 3). */
#define DIMS(...) (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)

/* Creates a contiguous tensor. */
static inline aclTensor *tensor_new(void *dev, aclDataType type, const int64_t *dims, size_t n) {
  int64_t strides[8], size = 1;
  assert_true(n <= 8);
  for (size_t i = n; i-- > 0; size *= dims[i]) strides[i] = size;
  aclTensor *t = aclCreateTensor(dims, n, type, strides, 0, ACL_FORMAT_ND, &size, 1, dev);
  assert_non_null(t);
  return t;
}

#define TENSOR(dev, type, ...) tensor_new(dev, type, DIMS(__VA_ARGS__))

static inline aclScalar *float_scalar(float value) {
  aclScalar *s = aclCreateScalar(&value, ACL_FLOAT);
  assert_non_null(s);
  return s;
}

/* ---- workspaces: freed at the end of the test, since queued tasks may still use them ---- */

static void *the_workspaces[64];
static int workspaces_used;

static inline void *workspace(uint64_t bytes) {
  if (bytes == 0) return NULL;
  assert_true(workspaces_used < 64);
  return the_workspaces[workspaces_used++] = dev_new(bytes);
}

static inline int settle_ops(void **state) {
  settle(state);
  while (workspaces_used > 0) aclrtFree(the_workspaces[--workspaces_used]);
  return 0;
}

#define OP_TEST(function) cmocka_unit_test_teardown(function, settle_ops)

/* Runs both phases of an operator in a stream: LAUNCH(stream, aclnnAdd, self, other, alpha, out) */
#define LAUNCH(stream, op, ...)                                                                                        \
  do {                                                                                                                 \
    uint64_t bytes_ = 0;                                                                                               \
    aclOpExecutor *executor_ = NULL;                                                                                   \
    CHECK_OK(op##GetWorkspaceSize(__VA_ARGS__, &bytes_, &executor_));                                                  \
    assert_non_null(executor_);                                                                                        \
    CHECK_OK(op(workspace(bytes_), bytes_, executor_, stream));                                                        \
  } while (0)

static inline void assert_floats(const void *dev, const float *want, size_t n) {
  float got[64];
  assert_true(n <= 64);
  from_dev(got, dev, n * sizeof *got);
  for (size_t i = 0; i < n; i++) {
    if (got[i] != want[i]) print_error("element %zu is %g, expected %g\n", i, (double)got[i], (double)want[i]);
    assert_true(got[i] == want[i]);
  }
}

#define FLOATS(...)                                                                                                    \
  (const float[]) { __VA_ARGS__ }
#define ASSERT_FLOATS(dev, ...) assert_floats(dev, FLOATS(__VA_ARGS__), sizeof(FLOATS(__VA_ARGS__)) / sizeof(float))
#define DEV_FLOATS(...)         dev_from(FLOATS(__VA_ARGS__), sizeof(FLOATS(__VA_ARGS__)))

#endif
