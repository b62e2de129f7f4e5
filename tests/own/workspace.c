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

/* ---- executors that are never launched ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#  define REUSES_EXECUTORS 0
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#    define REUSES_EXECUTORS 0
#  endif
#endif
#ifndef REUSES_EXECUTORS
#  define REUSES_EXECUTORS 1
#endif

enum { ASKS = 20000, MOST_EXECUTORS = 2000, KEPT = 600 };

/* Asks for the workspace of an addition. x: a tensor that lives longer than the call; NULL: none does. */
static aclOpExecutor *ask(void *a, aclTensor *x) {
  uint64_t bytes;
  aclOpExecutor *executor = NULL;
  aclTensor *own = TENSOR(a, ACL_FLOAT, 2);
  aclScalar *one = float_scalar(1);
  CHECK_OK(aclnnAddGetWorkspaceSize(x ? x : own, own, one, x ? x : own, &bytes, &executor));
  aclDestroyTensor(own);
  aclDestroyScalar(one);
  return executor;
}

static int compare(const void *a, const void *b) {
  const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
  return x < y ? -1 : x > y;
}

/* How many different executors a program gets that only asks. */
static int different_executors(void *a, aclTensor *x) {
  uintptr_t *seen = malloc(ASKS * sizeof *seen);
  int n = 0;
  assert_non_null(seen);
  for (int i = 0; i < ASKS; i++) seen[i] = (uintptr_t)ask(a, x);
  qsort(seen, ASKS, sizeof *seen, compare);
  for (int i = 0; i < ASKS; i++) n += i == 0 || seen[i] != seen[i - 1];
  free(seen);
  return n;
}

/* The second time, one of the tensors lives on: that the other one is gone suffices. */
static void a_program_that_only_asks_for_workspaces_does_not_grow(void **state) {
  (void)state;
  if (!REUSES_EXECUTORS) skip();
  void *a = dev_filled(0, 8);
  aclTensor *x = TENSOR(a, ACL_FLOAT, 2);
  const int n_own = different_executors(a, NULL), n_shared = different_executors(a, x);
  print_message("%d calls gave %d and %d different executors\n", ASKS, n_own, n_shared);
  assert_true(n_own <= MOST_EXECUTORS);
  assert_true(n_shared <= MOST_EXECUTORS);
  CHECK_OK(aclDestroyTensor(x));
  CHECK_OK(aclrtFree(a));
}

/* Executors are kept while their tensors live; and repeatable ones until they are destroyed. */
static void executors_that_may_be_launched_are_kept(void **state) {
  (void)state;
  if (!REUSES_EXECUTORS) skip();
  float *a = DEV_FLOATS(0, 0), *b = DEV_FLOATS(1, 2);
  aclTensor *sum = TENSOR(a, ACL_FLOAT, 2), *x = TENSOR(b, ACL_FLOAT, 2), *gone = TENSOR(b, ACL_FLOAT, 2);
  aclScalar *one = float_scalar(1);
  aclOpExecutor *kept[KEPT], *again = NULL;
  uint64_t bytes;
  for (int i = 0; i < KEPT; i++) {
    CHECK_OK(aclnnAddGetWorkspaceSize(sum, x, one, sum, &bytes, &kept[i]));
    ask(a, NULL);
  }
  CHECK_OK(aclnnAddGetWorkspaceSize(sum, gone, one, sum, &bytes, &again));
  CHECK_OK(aclSetAclOpExecutorRepeatable(again));
  CHECK_OK(aclDestroyTensor(gone));
  different_executors(a, NULL);
  for (int i = 0; i < KEPT; i++) CHECK_OK(aclnnAdd(NULL, 0, kept[i], NULL));
  CHECK_OK(aclnnAdd(NULL, 0, again, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  ASSERT_FLOATS(a, KEPT + 1, 2 * (KEPT + 1));
  CHECK_OK(aclDestroyAclOpExecutor(again));
  CHECK_OK(aclDestroyTensor(sum));
  CHECK_OK(aclDestroyTensor(x));
  CHECK_OK(aclDestroyScalar(one));
  CHECK_OK(aclrtFree(a));
  CHECK_OK(aclrtFree(b));
}

/* Some programs destroy the tensors a little early. */
static void an_executor_outlives_its_tensors_for_a_while(void **state) {
  (void)state;
  float *a = DEV_FLOATS(1, 2);
  for (int i = 0; i < 1000; i++) CHECK_OK(aclnnAdd(NULL, 0, ask(a, NULL), NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  CHECK_OK(aclrtFree(a));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      OP_TEST(short_and_non_device_workspaces_are_refused),
      OP_TEST(workspace_suffices_and_is_not_overrun),
      OP_TEST(simple_operators_need_no_workspace),
      OP_TEST(a_program_that_only_asks_for_workspaces_does_not_grow),
      OP_TEST(executors_that_may_be_launched_are_kept),
      OP_TEST(an_executor_outlives_its_tensors_for_a_while),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
