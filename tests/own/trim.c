/* SPDX-License-Identifier: Apache-2.0 */
/* cannon_trim: memory kept only for reuse is returned on request; memory in use is not affected. */
#include "acl_test.h"

#include "cannon/memory.h"

enum { BLOCK = 4 << 20, SMALL = 3 << 10, N = 64 };

static size_t committed(void) {
  size_t bytes = 0;
  CHECK_OK(cannon_trim(0, SIZE_MAX, &bytes));
  return bytes;
}

static void trim_returns_free_memory_and_keeps_blocks(void **state) {
  (void)state;
  void *large[N], *small[N];
  static unsigned char back[SMALL];
  for (int i = 0; i < N; i++) {
    large[i] = dev_new(BLOCK);
    small[i] = dev_new(SMALL);
    CHECK_OK(aclrtMemset(small[i], SMALL, i + 1, SMALL));
  }
  const size_t full = committed();
  assert_true(full >= (size_t)N * BLOCK);
  for (int i = 0; i < N; i++) {
    CHECK_OK(aclrtFree(large[i]));
    if (i % 2) CHECK_OK(aclrtFree(small[i]));
  }
  assert_int_equal(committed(), full); /* kept for reuse */
  size_t left = 0;
  CHECK_OK(cannon_trim(0, full / 2, &left));
  assert_true(left <= full / 2 && left > full / 4);
  CHECK_OK(cannon_trim(0, 0, &left));
  assert_true(left >= (size_t)N / 2 * SMALL && left <= (size_t)N * 4096);
  for (int i = 0; i < N; i += 2) {
    CHECK_OK(aclrtMemcpy(back, SMALL, small[i], SMALL, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int k = 0; k < SMALL; k++) assert_int_equal(back[k], i + 1);
    CHECK_OK(aclrtFree(small[i]));
  }
}

static void an_invalid_device_is_reported(void **state) {
  (void)state;
  CHECK_CODE(ACL_ERROR_RT_INVALID_DEVICEID, cannon_trim(-1, 0, NULL));
  CHECK_CODE(ACL_ERROR_RT_INVALID_DEVICEID, cannon_trim(4096, 0, NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(trim_returns_free_memory_and_keeps_blocks),
      cmocka_unit_test(an_invalid_device_is_reported),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
