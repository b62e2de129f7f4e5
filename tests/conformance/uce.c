/* SPDX-License-Identifier: Apache-2.0 */
/* Uncorrectable errors of device memory: an intact device reports none and has nothing to repair. */
#include "acl_test.h"

static aclrtMemUceInfo entries[MAX_MEM_UCE_INFO_ARRAY_SIZE + 1];

static void an_intact_device_reports_none(void **state) {
  (void)state;
  size_t n = 99;
  CHECK_OK(aclrtGetMemUceInfo(0, entries, MAX_MEM_UCE_INFO_ARRAY_SIZE, &n));
  assert_int_equal(n, 0);
  n = 99;
  CHECK_OK(aclrtGetMemUceInfo(0, entries, 0, &n)); /* room for all zero of them */
  assert_int_equal(n, 0);
}

static void reported_errors_can_be_repaired(void **state) {
  (void)state;
  uint8_t *block = dev_filled(7, 4096);
  size_t n = 99;
  CHECK_OK(aclrtGetMemUceInfo(0, entries, MAX_MEM_UCE_INFO_ARRAY_SIZE, &n));
  CHECK_OK(aclrtMemUceRepair(0, entries, n));
  assert_int_equal(dev_byte(block, 0), 7);
  CHECK_OK(aclrtFree(block));
}

static void invalid_arguments_are_refused(void **state) {
  (void)state;
  size_t n;
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtGetMemUceInfo(0, NULL, 1, &n));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtGetMemUceInfo(0, entries, 1, NULL));
  CHECK_CODE(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetMemUceInfo(999, entries, 1, &n));
  CHECK_CODE(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetMemUceInfo(-1, entries, 1, &n));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtMemUceRepair(0, NULL, 0));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtMemUceRepair(0, entries, MAX_MEM_UCE_INFO_ARRAY_SIZE + 1));
  CHECK_CODE(ACL_ERROR_RT_INVALID_DEVICEID, aclrtMemUceRepair(999, entries, 0));
  entries[0].reserved[3] = 1;
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtMemUceRepair(0, entries, 1));
  entries[0].reserved[3] = 0;
}

static void an_intact_device_has_no_error(void **state) {
  (void)state;
  static aclrtErrorInfo info;
  memset(&info, 0xff, sizeof info);
  CHECK_OK(aclrtGetErrorVerbose(0, &info));
  assert_int_equal(info.errorType, ACL_RT_NO_ERROR);
  assert_int_equal(info.tryRepair, 0);
  CHECK_OK(aclrtRepairError(0, &info));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtGetErrorVerbose(0, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtRepairError(0, NULL));
  CHECK_CODE(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetErrorVerbose(999, &info));
  CHECK_CODE(ACL_ERROR_RT_INVALID_DEVICEID, aclrtRepairError(-1, &info));
  info.errorType = (aclrtErrorType)77;
  CHECK_FAILS(aclrtRepairError(0, &info));
}

static void *ask_without_a_device(void *code) {
  size_t n;
  *(aclError *)code = aclrtGetMemUceInfo(0, entries, 1, &n);
  return NULL;
}

static void a_thread_needs_a_device(void **state) {
  (void)state;
  aclError code = ACL_SUCCESS;
  on_thread(ask_without_a_device, &code);
  assert_int_equal(code, ACL_ERROR_RT_CONTEXT_NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(an_intact_device_reports_none), TEST(reported_errors_can_be_repaired), TEST(an_intact_device_has_no_error),
      TEST(invalid_arguments_are_refused), TEST(a_thread_needs_a_device),
  };
  return cmocka_run_group_tests_name("uce", tests, device_up, device_down);
}
