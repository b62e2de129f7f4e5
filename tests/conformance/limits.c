/* SPDX-License-Identifier: Apache-2.0 */
/* Settings for later tasks: limits of cores, the handling of overflow, and operators' time-out. */
#include "acl_test.h"

static uint32_t cores_of(aclrtDevResLimitType type) {
  int64_t n;
  CHECK_OK(aclrtGetDeviceInfo(
      0, type == ACL_RT_DEV_RES_CUBE_CORE ? ACL_DEV_ATTR_CUBE_CORE_NUM : ACL_DEV_ATTR_VECTOR_CORE_NUM, &n));
  return (uint32_t)n;
}

static void device_limits_read_back_until_they_are_reset(void **state) {
  (void)state;
  uint32_t cube, vector;
  CHECK_OK(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, 8));
  CHECK_OK(aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, &cube));
  CHECK_OK(aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_VECTOR_CORE, &vector));
  assert_int_equal(cube, 8);
  assert_int_equal(vector, cores_of(ACL_RT_DEV_RES_VECTOR_CORE));
  CHECK_OK(aclrtResetDeviceResLimit(0));
  CHECK_OK(aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, &cube));
  assert_int_equal(cube, cores_of(ACL_RT_DEV_RES_CUBE_CORE));
}

static uint32_t thread_limit(void) {
  uint32_t n;
  CHECK_OK(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &n));
  return n;
}

static void a_thread_can_adopt_the_limits_of_a_stream(void **state) {
  (void)state;
  uint32_t n;
  aclrtStream stream = stream_new();
  CHECK_OK(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, 6));
  CHECK_OK(aclrtGetStreamResLimit(stream, ACL_RT_DEV_RES_CUBE_CORE, &n));
  assert_int_equal(n, 6);
  CHECK_OK(aclrtSetStreamResLimit(stream, ACL_RT_DEV_RES_CUBE_CORE, 3));
  CHECK_OK(aclrtGetStreamResLimit(stream, ACL_RT_DEV_RES_CUBE_CORE, &n));
  assert_int_equal(n, 3);
  assert_int_equal(thread_limit(), 6);
  CHECK_OK(aclrtUseStreamResInCurrentThread(stream));
  assert_int_equal(thread_limit(), 3);
  CHECK_OK(aclrtResetStreamResLimit(stream));
  assert_int_equal(thread_limit(), 6);
  CHECK_OK(aclrtSetStreamResLimit(stream, ACL_RT_DEV_RES_CUBE_CORE, 2));
  CHECK_OK(aclrtUnuseStreamResInCurrentThread(stream));
  assert_int_equal(thread_limit(), 6);
  CHECK_OK(aclrtUseStreamResInCurrentThread(stream));
  CHECK_OK(aclrtDestroyStream(stream)); /* its limits are destroyed with it */
  assert_int_equal(thread_limit(), 6);
  CHECK_OK(aclrtResetDeviceResLimit(0));
}

static void wrong_limits_are_refused(void **state) {
  (void)state;
  uint32_t n;
  CHECK_FAILS(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, 0));
  CHECK_FAILS(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, cores_of(ACL_RT_DEV_RES_CUBE_CORE) + 1));
  CHECK_FAILS(aclrtSetDeviceResLimit(0, (aclrtDevResLimitType)7, 1));
  CHECK_CODE(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDeviceResLimit(1000, ACL_RT_DEV_RES_CUBE_CORE, 1));
  CHECK_CODE(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetDeviceResLimit(-1, ACL_RT_DEV_RES_CUBE_CORE, &n));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, NULL));
  CHECK_FAILS(aclrtGetStreamResLimit(&n, ACL_RT_DEV_RES_CUBE_CORE, &n));
  assert_int_equal(thread_limit(), cores_of(ACL_RT_DEV_RES_CUBE_CORE));
}

static void overflow_gives_infinities(void **state) {
  (void)state;
  aclrtFloatOverflowMode mode = ACL_RT_OVERFLOW_MODE_UNDEF;
  CHECK_OK(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN));
  CHECK_OK(aclrtGetDeviceSatMode(&mode));
  assert_int_equal(mode, ACL_RT_OVERFLOW_MODE_INFNAN);
  CHECK_FAILS(aclrtSetDeviceSatMode((aclrtFloatOverflowMode)9));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtGetDeviceSatMode(NULL));
}

static void *set_saturation_mode(void *code) {
  *(aclError *)code = aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN);
  return NULL;
}

/* Frameworks set it before they set a device. */
static void overflow_is_set_without_a_context(void **state) {
  (void)state;
  aclError code = -1;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, set_saturation_mode, &code), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  CHECK_OK(code);
}

static void overflow_switch_is_per_stream(void **state) {
  (void)state;
  uint32_t flag = 9;
  aclrtStream stream = stream_new();
  CHECK_OK(aclrtGetStreamOverflowSwitch(stream, &flag));
  assert_int_equal(flag, 0);
  CHECK_OK(aclrtSetStreamOverflowSwitch(stream, 1));
  CHECK_OK(aclrtGetStreamOverflowSwitch(stream, &flag));
  assert_int_equal(flag, 1);
  CHECK_OK(aclrtGetStreamOverflowSwitch(NULL, &flag));
  assert_int_equal(flag, 0);
  CHECK_FAILS(aclrtSetStreamOverflowSwitch(stream, 2));
  CHECK_OK(aclrtDestroyStream(stream));
}

/* The time is rounded up to whole steps. A value read is at least the value set, except above the maximum. */
static void operator_timeout_is_rounded_up(void **state) {
  (void)state;
  uint32_t ms;
  uint64_t us;
  CHECK_OK(aclrtSetOpExecuteTimeOut(547));
  CHECK_OK(aclrtGetOpExecuteTimeout(&ms));
  assert_in_range(ms, 547 * 1000, 560 * 1000);
  CHECK_OK(aclrtSetOpExecuteTimeOutWithMs(1));
  CHECK_OK(aclrtGetOpExecuteTimeout(&ms));
  assert_in_range(ms, 1, 10 * 1000);
  CHECK_OK(aclrtSetOpExecuteTimeOutV2(20 * 1000 * 1000, &us));
  assert_in_range(us, 20 * 1000 * 1000, 30 * 1000 * 1000);
  CHECK_OK(aclrtSetOpExecuteTimeOutV2(UINT64_MAX, &us));
  const uint64_t most = us;
  CHECK_OK(aclrtSetOpExecuteTimeOutV2(0, &us));
  assert_int_equal(us, most);
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtSetOpExecuteTimeOutV2(1, NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(device_limits_read_back_until_they_are_reset),
      TEST(a_thread_can_adopt_the_limits_of_a_stream),
      TEST(wrong_limits_are_refused),
      TEST(overflow_gives_infinities),
      TEST(overflow_is_set_without_a_context),
      TEST(overflow_switch_is_per_stream),
      TEST(operator_timeout_is_rounded_up),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
