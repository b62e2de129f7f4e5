/* SPDX-License-Identifier: Apache-2.0 */
/* Workspaces: phase one reports the size in multiples of 64 bytes; phase two refuses anything smaller. */
#include "acl_ops.h"

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_reduce_sum.h"

enum { BIG = 1 << 20 };

/* A sum over so many elements that the partial sums need a workspace. */
static uint64_t long_sum(void *in, void *out, aclOpExecutor **executor) {
  uint64_t bytes = 0;
  aclTensor *x = TENSOR(in, ACL_FLOAT, 1024, BIG / 1024), *sum = TENSOR(out, ACL_FLOAT, 1, 1);
  aclIntArray *all = aclCreateIntArray(DIMS(0, 1));
  CHECK_OK(aclnnReduceSumGetWorkspaceSize(x, all, true, ACL_FLOAT, sum, &bytes, executor));
  CHECK_OK(aclSetAclOpExecutorRepeatable(*executor));
  CHECK_OK(aclDestroyTensor(x));
  CHECK_OK(aclDestroyTensor(sum));
  CHECK_OK(aclDestroyIntArray(all));
  return bytes;
}

static void *ones(size_t n) {
  float *host = malloc(n * sizeof *host);
  assert_non_null(host);
  for (size_t i = 0; i < n; i++) host[i] = 1;
  void *dev = dev_from(host, n * sizeof *host);
  free(host);
  return dev;
}

static void short_and_non_device_workspaces_are_refused(void **state) {
  (void)state;
  void *in = ones(BIG), *out = dev_filled(0, 4);
  aclOpExecutor *executor = NULL;
  uint64_t bytes = long_sum(in, out, &executor);
  assert_true(bytes > 0);
  assert_int_equal(bytes % 64, 0);
  void *good = dev_new(bytes), *foreign = malloc(bytes);
  CHECK_FAILS(aclnnReduceSum(NULL, bytes, executor, NULL));
  CHECK_FAILS(aclnnReduceSum(NULL, 0, executor, NULL));
  CHECK_FAILS(aclnnReduceSum(good, 0, executor, NULL));
  CHECK_FAILS(aclnnReduceSum(good, bytes - 1, executor, NULL));
  CHECK_FAILS(aclnnReduceSum(foreign, bytes, executor, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL)); /* nothing was launched */
  assert_dev_filled(out, 0, 4);

  CHECK_OK(aclnnReduceSum(good, bytes, executor, NULL)); /* and the executor is still valid */
  CHECK_OK(aclrtSynchronizeStream(NULL));
  ASSERT_FLOATS(out, BIG);
  CHECK_OK(aclDestroyAclOpExecutor(executor));
  free(foreign);
  CHECK_OK(aclrtFree(good));
  CHECK_OK(aclrtFree(in));
  CHECK_OK(aclrtFree(out));
}

/* The task writes only into its workspace; the bytes around it keep their values. */
static void workspace_suffices_and_is_not_overrun(void **state) {
  (void)state;
  enum { GUARD = 4096 };
  void *in = ones(BIG), *out = dev_filled(0, 4);
  aclTensor *x = TENSOR(in, ACL_FLOAT, 1024, BIG / 1024), *sum = TENSOR(out, ACL_FLOAT, 1, 1);
  aclIntArray *all = aclCreateIntArray(DIMS(0, 1));
  uint64_t bytes = 0;
  aclOpExecutor *executor = NULL;
  CHECK_OK(aclnnReduceSumGetWorkspaceSize(x, all, true, ACL_FLOAT, sum, &bytes, &executor));
  assert_int_equal(bytes % 64, 0);
  uint8_t *around = dev_filled(0xd7, bytes + 2 * GUARD);
  CHECK_OK(aclnnReduceSum(bytes ? around + GUARD : NULL, bytes, executor, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  ASSERT_FLOATS(out, BIG);
  assert_dev_filled(around, 0xd7, GUARD);
  assert_dev_filled(around + GUARD + bytes, 0xd7, GUARD);
  CHECK_OK(aclDestroyTensor(x));
  CHECK_OK(aclDestroyTensor(sum));
  CHECK_OK(aclDestroyIntArray(all));
  CHECK_OK(aclrtFree(in));
  CHECK_OK(aclrtFree(out));
  CHECK_OK(aclrtFree(around));
}

static void simple_operators_need_no_workspace(void **state) {
  (void)state;
  void *a = ones(64);
  aclScalar *one = float_scalar(1);
  aclTensor *x = TENSOR(a, ACL_FLOAT, 64);
  uint64_t bytes = 99;
  aclOpExecutor *executor = NULL;
  CHECK_OK(aclnnAddGetWorkspaceSize(x, x, one, x, &bytes, &executor));
  assert_int_equal(bytes, 0);
  CHECK_OK(aclnnAdd(NULL, 0, executor, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  ASSERT_FLOATS(a, 2, 2);
  CHECK_OK(aclDestroyTensor(x));
  CHECK_OK(aclDestroyScalar(one));
  CHECK_OK(aclrtFree(a));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      OP_TEST(short_and_non_device_workspaces_are_refused),
      OP_TEST(workspace_suffices_and_is_not_overrun),
      OP_TEST(simple_operators_need_no_workspace),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
