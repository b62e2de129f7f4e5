/* SPDX-License-Identifier: Apache-2.0 */
/* Dry runs (runtime/dry/dry.h): what is real and what is 0, shapes that depend on data, order, and memory as large as
 * the device's. Runs with CANNON_DRY=unknown=half,real=aclnnExp and devices of 400 GiB. */
#include "acl_ops.h"

#include <sys/resource.h>

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_all.h"
#include "aclnnop/aclnn_div.h"
#include "aclnnop/aclnn_exp.h"
#include "aclnnop/aclnn_isfinite.h"
#include "aclnnop/aclnn_nonzero.h"

#define GIB ((size_t)1 << 30)
enum { SMALL = 256, LARGE = 1 << 20 };

static float *floats(size_t n, float value) {
  float *x = malloc(n * sizeof *x);
  assert_non_null(x);
  for (size_t i = 0; i < n; i++) x[i] = value;
  return x;
}

static void *device_floats(size_t n, float value) {
  float *x = floats(n, value);
  void *dev = dev_from(x, n * sizeof *x);
  free(x);
  return dev;
}

static void assert_all(const void *dev, size_t n, float want) {
  float *x = floats(n, -1);
  from_dev(x, dev, n * sizeof *x);
  for (size_t i = 0; i < n; i++) assert_true(x[i] == want);
  free(x);
}

/* out = a + a, or a / a */
static void compute(void *a, void *out, size_t n, bool divides) {
  aclTensor *x = TENSOR(a, ACL_FLOAT, (int64_t)n), *y = TENSOR(out, ACL_FLOAT, (int64_t)n);
  aclScalar *one = float_scalar(1);
  aclOpExecutor *e = NULL;
  uint64_t bytes = 0;
  if (divides) {
    CHECK_OK(aclnnDivGetWorkspaceSize(x, x, y, &bytes, &e));
    CHECK_OK(aclnnDiv(NULL, 0, e, NULL));
  } else {
    CHECK_OK(aclnnAddGetWorkspaceSize(x, x, one, y, &bytes, &e));
    CHECK_OK(aclnnAdd(NULL, 0, e, NULL));
  }
  CHECK_OK(aclDestroyTensor(x));
  CHECK_OK(aclDestroyTensor(y));
  CHECK_OK(aclDestroyScalar(one));
  CHECK_OK(aclrtSynchronizeStream(NULL));
}

static void small_is_real_and_large_is_zero(void **state) {
  (void)state;
  void *small = device_floats(SMALL, 3), *out = dev_new(SMALL * 4), *large = device_floats(LARGE, 3);
  void *large_out = dev_new(LARGE * 4);
  compute(small, out, SMALL, false);
  assert_all(out, SMALL, 6);
  assert_all(large, LARGE, 0);
  compute(large, large_out, LARGE, true); /* 0 / 0 is not computed */
  assert_all(large_out, LARGE, 0);
  compute(large_out, out, SMALL, true); /* nor where it would be small */
  assert_all(out, SMALL, 0);
  compute(small, out, SMALL, true);
  assert_all(out, SMALL, 1);
  CHECK_OK(aclrtFree(small));
  CHECK_OK(aclrtFree(out));
  CHECK_OK(aclrtFree(large));
  CHECK_OK(aclrtFree(large_out));
}

/* "Is all of it finite?" is true of what is not real, and no longer once something else was written there. */
static void data_is_finite(void **state) {
  (void)state;
  void *x = dev_new(LARGE * 4), *mask = dev_new(LARGE), *all = dev_new(1), *workspace = dev_new(4096);
  aclTensor *in = TENSOR(x, ACL_FLOAT, LARGE), *finite = TENSOR(mask, ACL_BOOL, LARGE), *one = TENSOR(all, ACL_BOOL, 1);
  aclIntArray *dims = aclCreateIntArray(&(int64_t){0}, 1);
  for (int is_filled = 0; is_filled < 2; is_filled++) {
    uint64_t bytes = 0;
    aclOpExecutor *e = NULL;
    char got[2] = {9, 9};
    CHECK_OK(aclnnIsFiniteGetWorkspaceSize(in, finite, &bytes, &e));
    CHECK_OK(aclnnIsFinite(NULL, 0, e, NULL));
    CHECK_OK(aclrtSynchronizeStream(NULL));
    if (is_filled) CHECK_OK(aclrtMemset((char *)mask + LARGE / 2, SMALL, 0, SMALL));
    CHECK_OK(aclnnAllGetWorkspaceSize(finite, dims, true, one, &bytes, &e));
    assert_in_range(bytes, 0, 4096);
    CHECK_OK(aclnnAll(workspace, bytes, e, NULL));
    CHECK_OK(aclrtSynchronizeStream(NULL));
    from_dev(got, all, 1);
    from_dev(got + 1, (char *)mask + LARGE - 1, 1);
    assert_int_equal(got[0], !is_filled);
    assert_int_equal(got[1], 1);
  }
  CHECK_OK(aclDestroyIntArray(dims));
  CHECK_OK(aclDestroyTensor(in));
  CHECK_OK(aclDestroyTensor(finite));
  CHECK_OK(aclDestroyTensor(one));
  CHECK_OK(aclrtFree(x));
  CHECK_OK(aclrtFree(mask));
  CHECK_OK(aclrtFree(all));
  CHECK_OK(aclrtFree(workspace));
}

/* A part of a large block may be real. Copies on the device carry what is real. */
static void copies_carry_what_is_real(void **state) {
  (void)state;
  void *a = device_floats(LARGE, 3), *b = dev_new(LARGE * 4);
  float *x = floats(LARGE, 5);
  CHECK_OK(aclrtMemcpy((char *)a + SMALL * 4, SMALL * 4, x, SMALL * 4, ACL_MEMCPY_HOST_TO_DEVICE));
  CHECK_OK(aclrtMemcpyAsync(b, LARGE * 4, a, LARGE * 4, ACL_MEMCPY_DEVICE_TO_DEVICE, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  from_dev(x, b, LARGE * 4);
  for (int i = 0; i < LARGE; i++) assert_true(x[i] == (i / SMALL == 1 ? 5 : 0));
  CHECK_OK(aclrtMemset(b, LARGE * 4, 1, SMALL));
  assert_int_equal(dev_byte(b, SMALL - 1), 1);
  assert_int_equal(dev_byte(b, SMALL), 0);
  CHECK_OK(aclrtMemset(b, LARGE * 4, 1, LARGE * 4)); /* too large to be done, so nothing is real any more */
  assert_int_equal(dev_byte(b, 0), 0);
  free(x);
  CHECK_OK(aclrtFree(a));
  CHECK_OK(aclrtFree(b));
}

/* --real computes an operator on zeros. */
static void forced_operators_see_zeros(void **state) {
  (void)state;
  void *a = device_floats(LARGE, 3), *out = dev_new(LARGE * 4);
  aclTensor *x = TENSOR(a, ACL_FLOAT, LARGE), *y = TENSOR(out, ACL_FLOAT, LARGE);
  aclOpExecutor *e = NULL;
  uint64_t bytes = 0;
  CHECK_OK(aclnnExpGetWorkspaceSize(x, y, &bytes, &e));
  CHECK_OK(aclnnExp(NULL, 0, e, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  assert_all(out, LARGE, 1);
  CHECK_OK(aclDestroyTensor(x));
  CHECK_OK(aclDestroyTensor(y));
  CHECK_OK(aclrtFree(a));
  CHECK_OK(aclrtFree(out));
}

static int64_t rows_of_nonzero(void *in, int64_t n) {
  void *out = dev_new((size_t)n * 8);
  aclTensor *x = TENSOR(in, ACL_FLOAT, n), *rows = TENSOR(out, ACL_INT64, n, 1);
  aclOpExecutor *e = NULL;
  uint64_t bytes = 0, rank = 0;
  int64_t *dims = NULL;
  CHECK_OK(aclnnNonzeroGetWorkspaceSize(x, rows, &bytes, &e));
  void *w = workspace(bytes);
  CHECK_OK(aclnnNonzero(w, bytes, e, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  CHECK_OK(aclGetViewShape(rows, &dims, &rank));
  assert_int_equal(rank, 2);
  const int64_t found = dims[0];
  free(dims);
  CHECK_OK(aclDestroyTensor(x));
  CHECK_OK(aclDestroyTensor(rows));
  CHECK_OK(aclrtFree(out));
  return found;
}

static void shapes_that_depend_on_data(void **state) {
  (void)state;
  void *small = device_floats(SMALL, 3), *large = device_floats(LARGE, 0);
  CHECK_OK(aclrtMemset(small, 4, 0, 4));
  assert_int_equal(rows_of_nonzero(small, SMALL), SMALL - 1);
  assert_int_equal(rows_of_nonzero(large, LARGE), LARGE / 2); /* as stated: half */
  CHECK_OK(aclrtFree(small));
  CHECK_OK(aclrtFree(large));
}

/* Two streams and an event: the copy behind the wait sees what is written before the record. */
static void order_is_kept(void **state) {
  (void)state;
  aclrtStream one = stream_new(), two = stream_new();
  aclrtEvent event;
  atomic_int calls = 0;
  char *to = pinned_new(SMALL);
  void *dev = dev_filled(0, SMALL);
  CHECK_OK(aclrtCreateEvent(&event));
  gate *g = gate_close(one);
  CHECK_OK(aclrtMemsetAsync(dev, SMALL, 7, SMALL, one));
  CHECK_OK(aclrtRecordEvent(event, one));
  CHECK_OK(aclrtStreamWaitEvent(two, event));
  CHECK_OK(aclrtMemcpyAsync(to, SMALL, dev, SMALL, ACL_MEMCPY_DEVICE_TO_HOST, two));
  CHECK_OK(aclrtLaunchHostFunc(two, count_one, &calls));
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(two));
  assert_int_equal(to[SMALL - 1], 7);
  assert_int_equal(atomic_load(&calls), 1);
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyStream(one));
  CHECK_OK(aclrtDestroyStream(two));
  CHECK_OK(aclrtFreeHost(to));
  CHECK_OK(aclrtFree(dev));
}

/* 390 of 400 GiB are given away, filled and computed on, and the next 20 are refused, whatever the host has. */
static void memory_is_a_promise(void **state) {
  (void)state;
  void *block[39], *more;
  struct rusage usage;
  for (int i = 0; i < 39; i++) {
    CHECK_OK(aclrtMalloc(&block[i], 10 * GIB, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMemset(block[i], 10 * GIB, 1, 10 * GIB));
    compute(block[i], (char *)block[i] + 5 * GIB, GIB, false);
  }
  CHECK_CODE(aclrtMalloc(&more, 20 * GIB, ACL_MEM_MALLOC_HUGE_FIRST), 207001);
  for (int i = 0; i < 39; i++) CHECK_OK(aclrtFree(block[i]));
  assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
  assert_true(usage.ru_maxrss < 2 << 20); /* KiB */
}

/* The host's memory is real in a dry run, too, and the message says so. */
static void memory_of_the_host_is_real(void **state) {
  (void)state;
  void *p;
  CHECK_CODE(aclrtMallocHost(&p, 512 * GIB), 207001);
  const char *message = aclGetRecentErrMsg();
  assert_non_null(message);
  assert_non_null(strstr(message, "in a dry run, too, memory of the host is real"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(small_is_real_and_large_is_zero, settle_ops),
      cmocka_unit_test_teardown(copies_carry_what_is_real, settle_ops),
      cmocka_unit_test_teardown(forced_operators_see_zeros, settle_ops),
      cmocka_unit_test_teardown(data_is_finite, settle_ops),
      cmocka_unit_test_teardown(shapes_that_depend_on_data, settle_ops),
      cmocka_unit_test_teardown(order_is_kept, settle_ops),
      cmocka_unit_test_teardown(memory_is_a_promise, settle_ops),
      cmocka_unit_test_teardown(memory_of_the_host_is_real, settle_ops),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
