/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: their number and properties, the counter of set and reset, and the objects that a reset destroys. */
#include "acl_test.h"
#include "self.h"

#include <ctype.h>

/* ---- without aclInit ---- */

static void soc_name_needs_no_init(void **state) {
  (void)state;
  const char *name = aclrtGetSocName();
  assert_non_null(name);
  assert_memory_equal(name, "Ascend", 6);
  for (const char *c = name; *c; c++) assert_true(isalnum((unsigned char)*c) || *c == '_' || *c == '-');
}

/* Child mode "count": exits with the number of devices, or 100 when the query fails. */
static int count_mode(void) {
  uint32_t n = 0;
  return aclInit(NULL) || aclrtGetDeviceCount(&n) ? 100 : (int)n;
}

static int count_with(char *setting) {
  static child_end end;
  run_self(&end, "count", setting);
  assert_true(WIFEXITED(end.status));
  return WEXITSTATUS(end.status);
}

static void visible_devices_choose_what_is_counted(void **state) {
  (void)state;
  /* The list must ascend; parsing stops at the first entry that does not, or at any other character. */
  static char *const one[] = {"ASCEND_RT_VISIBLE_DEVICES=0", "ASCEND_RT_VISIBLE_DEVICES=0,x",
                              "ASCEND_RT_VISIBLE_DEVICES=0 ,1", "ASCEND_RT_VISIBLE_DEVICES=0,0",
                              "ASCEND_RT_VISIBLE_DEVICES=0,999"};
  static char *const none[] = {"ASCEND_RT_VISIBLE_DEVICES=x", "ASCEND_RT_VISIBLE_DEVICES=999",
                               "ASCEND_RT_VISIBLE_DEVICES=-1"};
  for (size_t i = 0; i < sizeof one / sizeof *one; i++) {
    print_message("%s\n", one[i]);
    assert_int_equal(count_with(one[i]), 1);
  }
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    print_message("%s\n", none[i]);
    int n = count_with(none[i]);
    assert_true(n == 0 || n == 100);
  }
}

/* ---- with aclInit, no device set ---- */

static void assert_no_device(void) {
  int32_t id = -7;
  CHECK_CODE(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetDevice(&id));
}

static void ids_out_of_range_are_refused(void **state) {
  (void)state;
  assert_true(device_count() >= 1);
  assert_no_device();
  CHECK_CODE(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice(-1));
  CHECK_CODE(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice((int32_t)device_count()));
  CHECK_CODE(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice(INT32_MAX));
  assert_no_device();
}

/* s = set, r = reset, f = forced reset, all accepted; R and F are refused. Each sequence ends with the device
 * released. */
static void set_and_reset_follow_a_counter(void **state) {
  (void)state;
  static const char *const sequences[] = {"R",    "F",    "sr",   "srR",   "srF",  "ssrr",  "ssrrR", "ssf",
                                          "ssfF", "ssfR", "srsf", "srsfF", "ssrf", "ssrfR", "sfsrR"};
  for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++) {
    print_message("sequence %s\n", sequences[i]);
    int count = 0;
    for (const char *c = sequences[i]; *c; c++) {
      switch (*c) {
      case 's':
        CHECK_OK(aclrtSetDevice(0));
        count++;
        break;
      case 'r':
        CHECK_OK(aclrtResetDevice(0));
        count--;
        break;
      case 'f':
        CHECK_OK(aclrtResetDeviceForce(0));
        count = 0;
        break;
      case 'R': CHECK_FAILS(aclrtResetDevice(0)); break;
      default: CHECK_FAILS(aclrtResetDeviceForce(0));
      }
      void *p = NULL; /* memory can be allocated exactly while the count is above zero */
      if (count == 0) {
        CHECK_CODE(ACL_ERROR_RT_CONTEXT_NULL, aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST));
      } else {
        CHECK_OK(aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST));
        CHECK_OK(aclrtFree(p));
      }
    }
    assert_int_equal(count, 0);
    assert_no_device();
  }
}

static void *force_reset(void *out) {
  *(aclError *)out = aclrtResetDeviceForce(0);
  return NULL;
}

static void forced_reset_by_another_thread_is_refused(void **state) {
  (void)state;
  aclError code = 0;
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aclrtResetDeviceForce(0));
  on_thread(force_reset, &code);
  CHECK_FAILS(code);
}

static void last_reset_waits_for_the_work(void **state) {
  (void)state;
  static atomic_int done;
  atomic_store(&done, 0);
  CHECK_OK(aclrtSetDevice(0));
  aclrtStream stream = stream_new();
  for (int i = 0; i < 2; i++) {
    CHECK_OK(aclrtLaunchHostFunc(stream, nap_then_count, &done));
    CHECK_OK(aclrtLaunchHostFunc(NULL, nap_then_count, &done));
  }
  CHECK_OK(aclrtResetDevice(0));
  assert_int_equal(atomic_load(&done), 4);
}

/* Programs release objects after they have reset the device, and check the codes. */
static void handles_can_be_destroyed_after_reset(void **state) {
  (void)state;
  CHECK_OK(aclrtSetDevice(0));
  aclrtStream stream = stream_new();
  void *device = dev_filled(1, 1000), *host = pinned_new(1000);
  CHECK_OK(aclrtResetDevice(0));
  assert_no_device();
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFree(device));
  CHECK_OK(aclrtFreeHost(host));
}

static void reset_leaves_no_current_context(void **state) {
  (void)state;
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aclrtResetDevice(0));
  void *p = NULL;
  aclrtStream stream = NULL;
  aclrtContext context = NULL;
  CHECK_CODE(ACL_ERROR_RT_CONTEXT_NULL, aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_CODE(ACL_ERROR_RT_CONTEXT_NULL, aclrtCreateStream(&stream));
  CHECK_CODE(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetCurrentContext(&context));
  CHECK_CODE(ACL_ERROR_RT_CONTEXT_NULL, aclrtSynchronizeDevice());
}

/* ---- threads ---- */

typedef struct {
  aclError before, set, after, reset;
  int32_t id;
  aclrtContext context;
} thread_view;

static void *look_around(void *arg) {
  thread_view *v = arg;
  v->id = -7;
  v->before = aclrtGetDevice(&v->id);
  v->set = aclrtSetDevice(0);
  v->after = aclrtGetDevice(&v->id);
  aclrtGetCurrentContext(&v->context);
  v->reset = aclrtResetDevice(0);
  return NULL;
}

static void current_device_is_per_thread_and_its_context_shared(void **state) {
  (void)state;
  thread_view v;
  aclrtContext mine = NULL, again = NULL;
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aclrtGetCurrentContext(&mine));
  on_thread(look_around, &v);
  CHECK_CODE(ACL_ERROR_RT_CONTEXT_NULL, v.before);
  CHECK_OK(v.set);
  CHECK_OK(v.after);
  CHECK_OK(v.reset);
  assert_int_equal(v.id, 0);
  assert_ptr_equal(v.context, mine);
  CHECK_OK(aclrtGetCurrentContext(&again)); /* the other thread's reset was not the last one */
  assert_ptr_equal(again, mine);
  CHECK_OK(aclrtResetDevice(0));
}

/* ---- properties ---- */

static void run_mode_is_host(void **state) {
  (void)state;
  aclrtRunMode mode = ACL_DEVICE;
  CHECK_OK(aclrtGetRunMode(&mode));
  assert_int_equal(mode, ACL_HOST);
}

static void utilization_of_a_device_is_reported(void **state) {
  (void)state;
  aclrtUtilizationInfo info;
  memset(&info, 0x77, sizeof info);
  info.utilizationExtend = NULL;
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aclrtGetDeviceUtilizationRate(0, &info));
  assert_true(info.cubeUtilization >= 0 && info.cubeUtilization <= 100);
  assert_true(info.vectorUtilization >= -1 && info.vectorUtilization <= 100); /* -1: the device has no vector cores */
  assert_true(info.aicpuUtilization >= 0 && info.aicpuUtilization <= 100);
  assert_int_equal(info.memoryUtilization, -1); /* not reported */
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtGetDeviceUtilizationRate(0, NULL));
  info.utilizationExtend = (aclrtUtilizationExtendInfo *)&info;
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtGetDeviceUtilizationRate(0, &info));
  CHECK_OK(aclrtResetDevice(0));
}

static void device_attributes_are_reported(void **state) {
  (void)state;
  CHECK_OK(aclrtSetDevice(0));
  aclrtDeviceStatus status = ACL_RT_DEVICE_STATUS_END;
  CHECK_OK(aclrtQueryDeviceStatus(0, &status));
  assert_int_equal(status, ACL_RT_DEVICE_STATUS_NORMAL);
  int32_t least = -1, greatest = -1;
  CHECK_OK(aclrtDeviceGetStreamPriorityRange(&least, &greatest));
  assert_int_equal(least, 7);
  assert_int_equal(greatest, 0);
  int64_t value = 0;
  CHECK_OK(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, &value));
  assert_true(value > 0);
  CHECK_OK(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_AICORE_CORE_NUM, &value));
  assert_true(value > 0);
  value = -1;
  CHECK_OK(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_WARP_SIZE, &value)); /* has no meaning here: 0 */
  assert_int_equal(value, 0);
  CHECK_OK(aclrtResetDevice(0));
}

static void synchronize_device_waits_for_every_stream(void **state) {
  (void)state;
  static atomic_int done;
  atomic_store(&done, 0);
  CHECK_OK(aclrtSetDevice(0));
  aclrtStream stream = stream_new();
  CHECK_OK(aclrtLaunchHostFunc(stream, nap_then_count, &done));
  CHECK_OK(aclrtLaunchHostFunc(NULL, nap_then_count, &done));
  CHECK_OK(aclrtSynchronizeDevice());
  assert_int_equal(atomic_load(&done), 2);

  gate *g = gate_close(stream);
  CHECK_CODE(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeDeviceWithTimeout(10));
  gate_open(g);
  CHECK_OK(aclrtSynchronizeDeviceWithTimeout(-1));
  assert_int_equal(stream_status(stream), ACL_STREAM_STATUS_COMPLETE);
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtResetDevice(0));
}

/* ---- more than one device ---- */

static void memory_can_be_mapped_for_a_peer_device(void **state) {
  (void)state;
  uint32_t count = 0;
  CHECK_OK(aclrtSetDevice(0));
  void *p = dev_new(1000), *host = pinned_new(1000);
  CHECK_OK(aclrtGetDeviceCount(&count));
  CHECK_CODE(100000, aclrtMemP2PMap(NULL, 1000, 1, 0));
  CHECK_FAILS(aclrtMemP2PMap(p, 1000, 0, 0)); /* the device itself is no peer */
  CHECK_FAILS(aclrtMemP2PMap(p, 1000, 1000, 0));
  if (count > 1) {
    CHECK_FAILS(aclrtMemP2PMap(p, 1000, 1, 0)); /* peer access is not enabled */
    CHECK_OK(aclrtDeviceEnablePeerAccess(1, 0));
    CHECK_OK(aclrtMemP2PMap(p, 1000, 1, 0));
    CHECK_FAILS(aclrtMemP2PMap(p, 0, 1, 0));
    CHECK_FAILS(aclrtMemP2PMap(p, 1000, 1, 1));
    CHECK_FAILS(aclrtMemP2PMap(p, 1 << 20, 1, 0)); /* more than the block */
    CHECK_FAILS(aclrtMemP2PMap(host, 1000, 1, 0));
    CHECK_OK(aclrtDeviceDisablePeerAccess(1));
  }
  CHECK_OK(aclrtFreeHost(host));
  CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtResetDevice(0));
}

static void peer_access_is_between_two_devices(void **state) {
  (void)state;
  int32_t can = -1;
  CHECK_FAILS(aclrtDeviceCanAccessPeer(&can, 0, 0));
  CHECK_OK(aclrtSetDevice(0));
  CHECK_FAILS(aclrtDeviceEnablePeerAccess(0, 0));
  if (device_count() >= 2) {
    int32_t status = -1;
    CHECK_OK(aclrtDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
    CHECK_FAILS(aclrtDeviceEnablePeerAccess(1, 1)); /* flags must be 0 */
    CHECK_OK(aclrtDeviceEnablePeerAccess(1, 0));
    CHECK_OK(aclrtDevicePeerAccessStatus(0, 1, &status));
    assert_int_equal(status, 1);
    CHECK_OK(aclrtDeviceDisablePeerAccess(1));
    CHECK_OK(aclrtDevicePeerAccessStatus(0, 1, &status));
    assert_int_equal(status, 0);
  }
  CHECK_OK(aclrtResetDevice(0));
}

static void a_device_has_an_identity(void **state) {
  (void)state;
  aclrtUuid id = {{0}}, again = {{0}}, zero = {{0}};
  CHECK_OK(aclrtDeviceGetUuid(0, &id));
  CHECK_OK(aclrtDeviceGetUuid(0, &again));
  assert_memory_equal(&id, &again, sizeof id);
  assert_memory_not_equal(&id, &zero, sizeof id);
  CHECK_CODE(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceGetUuid(999, &id));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtDeviceGetUuid(0, NULL));
  if (device_count() < 2) return;
  CHECK_OK(aclrtDeviceGetUuid(1, &again));
  assert_memory_not_equal(&id, &again, sizeof id);
}

static void ids_are_converted_and_back(void **state) {
  (void)state;
  for (int32_t user = 0; user < (int32_t)device_count(); user++) {
    int32_t logical = -1, back = -1;
    CHECK_OK(aclrtGetLogicDevIdByUserDevId(user, &logical));
    CHECK_OK(aclrtGetUserDevIdByLogicDevId(logical, &back));
    assert_int_equal(back, user);
  }
  int32_t id;
  CHECK_CODE(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetLogicDevIdByUserDevId(999, &id));
  CHECK_CODE(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetUserDevIdByLogicDevId(-1, &id));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtGetLogicDevIdByUserDevId(0, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtGetUserDevIdByLogicDevId(0, NULL));
}

static void setting_a_context_changes_the_threads_device(void **state) {
  (void)state;
  if (device_count() < 2) skip();
  int32_t id = -1;
  aclrtContext first = NULL;
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aclrtGetCurrentContext(&first));
  CHECK_OK(aclrtSetDevice(1));
  CHECK_OK(aclrtGetDevice(&id));
  assert_int_equal(id, 1);
  CHECK_OK(aclrtSetCurrentContext(first));
  CHECK_OK(aclrtGetDevice(&id));
  assert_int_equal(id, 0);
  CHECK_OK(aclrtResetDevice(1));
  CHECK_OK(aclrtGetDevice(&id)); /* resetting another device leaves this one current */
  assert_int_equal(id, 0);
  CHECK_OK(aclrtResetDevice(0));
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "count")) return count_mode();
  const struct CMUnitTest early[] = {
      TEST(soc_name_needs_no_init),
      TEST(visible_devices_choose_what_is_counted),
  };
  const struct CMUnitTest tests[] = {
      TEST(ids_out_of_range_are_refused),
      TEST(set_and_reset_follow_a_counter),
      TEST(forced_reset_by_another_thread_is_refused),
      TEST(last_reset_waits_for_the_work),
      TEST(handles_can_be_destroyed_after_reset),
      TEST(reset_leaves_no_current_context),
      TEST(current_device_is_per_thread_and_its_context_shared),
      TEST(run_mode_is_host),
      TEST(device_attributes_are_reported),
      TEST(a_device_has_an_identity),
      TEST(ids_are_converted_and_back),
      TEST(utilization_of_a_device_is_reported),
      TEST(synchronize_device_waits_for_every_stream),
      TEST(peer_access_is_between_two_devices),
      TEST(memory_can_be_mapped_for_a_peer_device),
      TEST(setting_a_context_changes_the_threads_device),
  };
  return cmocka_run_group_tests_name("before init", early, NULL, NULL) +
         cmocka_run_group_tests_name("device", tests, acl_up, acl_down);
}
