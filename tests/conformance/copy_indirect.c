/* SPDX-License-Identifier: Apache-2.0 */
/* Copies whose parameters lie in device memory and are read when the task runs. */
#include "acl_test.h"

enum { BYTES = 1000 };
static const aclrtMemcpyKind inner = ACL_MEMCPY_INNER_DEVICE_TO_DEVICE;

static void *pointer_on_device(void *to) { return dev_from(&to, sizeof to); }

static void pointers_are_followed_when_the_task_runs(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  char *early = dev_filled(1, BYTES), *late = dev_filled(2, BYTES), *to = dev_filled(0, BYTES);
  void **dst = pointer_on_device(to), **src = pointer_on_device(early);
  gate *g = gate_close(stream);
  CHECK_OK(aclrtMemcpyAsyncWithOffset(dst, BYTES, 100, (const void **)src, 200, 50, inner, stream));
  CHECK_OK(aclrtMemcpy(src, sizeof late, &late, sizeof late, ACL_MEMCPY_HOST_TO_DEVICE));
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_dev_filled(to, 0, 100);
  assert_dev_filled(to + 100, 2, 200);
  assert_dev_filled(to + 300, 0, BYTES - 300);
  CHECK_OK(aclrtFree(early));
  CHECK_OK(aclrtFree(late));
  CHECK_OK(aclrtFree(to));
  CHECK_OK(aclrtFree(dst));
  CHECK_OK(aclrtFree(src));
  CHECK_OK(aclrtDestroyStream(stream));
}

static void wrong_pointers_fail_the_task(void **state) {
  (void)state;
  char *to = dev_filled(3, BYTES);
  void **dst = pointer_on_device(to), **nothing = pointer_on_device(NULL);
  CHECK_OK(aclrtMemcpyAsyncWithOffset(dst, BYTES, 0, (const void **)nothing, 100, 0, inner, NULL));
  CHECK_FAILS(aclrtSynchronizeStream(NULL));
  /* the offset is past the end of the block */
  CHECK_OK(aclrtMemcpyAsyncWithOffset(dst, 2 * BYTES, BYTES, (const void **)dst, 100, 0, inner, NULL));
  CHECK_FAILS(aclrtSynchronizeStream(NULL));
  assert_dev_filled(to, 3, BYTES);
  CHECK_OK(aclrtFree(to));
  CHECK_OK(aclrtFree(dst));
  CHECK_OK(aclrtFree(nothing));
}

static void impossible_offsets_are_refused(void **state) {
  (void)state;
  void **dst = pointer_on_device(NULL);
  const void **src = (const void **)dst;
  CHECK_FAILS(aclrtMemcpyAsyncWithOffset(NULL, 10, 0, src, 10, 0, inner, NULL));
  CHECK_FAILS(aclrtMemcpyAsyncWithOffset(dst, 10, 0, NULL, 10, 0, inner, NULL));
  CHECK_FAILS(aclrtMemcpyAsyncWithOffset(dst, 10, 0, src, 11, 0, inner, NULL));
  CHECK_FAILS(aclrtMemcpyAsyncWithOffset(dst, 10, 0, src, 10, 0, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  CHECK_OK(aclrtFree(dst));
}

/* ---- descriptors ---- */

static void *descriptor_new(void) {
  size_t size = 0;
  CHECK_OK(aclrtGetMemcpyDescSize(inner, &size));
  assert_true(size > 0);
  return dev_new(size);
}

static void descriptors_are_read_when_the_task_runs(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  char *from = dev_filled(5, BYTES), *first = dev_filled(0, BYTES), *second = dev_filled(0, BYTES);
  void *d = descriptor_new();
  gate *g = gate_close(stream);
  CHECK_OK(aclrtSetMemcpyDesc(d, inner, from, first, BYTES, NULL));
  CHECK_OK(aclrtMemcpyAsyncWithDesc(d, inner, stream));
  CHECK_OK(aclrtSetMemcpyDesc(d, inner, from + 1, second, BYTES - 1, NULL));
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_dev_filled(first, 0, BYTES);
  assert_dev_filled(second, 5, BYTES - 1);
  assert_int_equal(dev_byte(second, BYTES - 1), 0);
  CHECK_OK(aclrtMemset(second, BYTES, 0, BYTES));
  CHECK_OK(aclrtMemcpyAsyncWithDesc(d, inner, stream)); /* the descriptor is used again */
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_dev_filled(second, 5, BYTES - 1);
  CHECK_OK(aclrtFree(from));
  CHECK_OK(aclrtFree(first));
  CHECK_OK(aclrtFree(second));
  CHECK_OK(aclrtFree(d));
  CHECK_OK(aclrtDestroyStream(stream));
}

static void impossible_descriptors_are_refused(void **state) {
  (void)state;
  char *a = dev_new(BYTES), *d = descriptor_new();
  size_t size;
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtGetMemcpyDescSize(inner, NULL));
  CHECK_CODE(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtGetMemcpyDescSize(ACL_MEMCPY_HOST_TO_DEVICE, &size));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtSetMemcpyDesc(NULL, inner, a, a, 10, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtSetMemcpyDesc(d, inner, NULL, a, 10, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtSetMemcpyDesc(d, inner, a, NULL, 10, NULL));
  CHECK_FAILS(aclrtSetMemcpyDesc(d, inner, a, a, 0, NULL));
  CHECK_FAILS(aclrtSetMemcpyDesc(d, inner, a, a, 10, d));
  CHECK_FAILS(aclrtSetMemcpyDesc(d, ACL_MEMCPY_DEVICE_TO_DEVICE, a, a, 10, NULL));
  CHECK_FAILS(aclrtSetMemcpyDesc(d + 8, inner, a, a, 10, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtMemcpyAsyncWithDesc(NULL, inner, NULL));
  CHECK_OK(aclrtFree(a));
  CHECK_OK(aclrtFree(d));
}

static void an_invalid_descriptor_fails_the_task(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  void *d = descriptor_new();
  CHECK_OK(aclrtMemset(d, 32, 0, 32));
  CHECK_OK(aclrtMemcpyAsyncWithDesc(d, inner, stream));
  CHECK_FAILS(aclrtSynchronizeStream(stream));
  CHECK_OK(aclrtFree(d));
  CHECK_OK(aclrtDestroyStream(stream));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(pointers_are_followed_when_the_task_runs), TEST(wrong_pointers_fail_the_task),
      TEST(impossible_offsets_are_refused),           TEST(descriptors_are_read_when_the_task_runs),
      TEST(impossible_descriptors_are_refused),       TEST(an_invalid_descriptor_fails_the_task),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
