/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: each thread has its own current one, contexts are isolated from each other; system parameters. */
#include "acl_test.h"

static aclrtContext current(void) {
  aclrtContext c = NULL;
  CHECK_OK(aclrtGetCurrentContext(&c));
  return c;
}

static aclrtContext context_new(void) {
  aclrtContext c = NULL;
  CHECK_OK(aclrtCreateContext(&c, 0));
  assert_non_null(c);
  return c;
}

/* The default context of device 0, in which each test leaves the thread. */
static aclrtContext home;

static int find_home(void **state) {
  device_up(state);
  home = current();
  return 0;
}

static void go_home(aclrtContext leave) {
  CHECK_OK(aclrtSetCurrentContext(home));
  CHECK_OK(aclrtDestroyContext(leave));
}

static void create_makes_the_context_current(void **state) {
  (void)state;
  aclrtContext c = context_new();
  assert_ptr_equal(current(), c);
  assert_ptr_not_equal(c, home);
  go_home(c);
  assert_ptr_equal(current(), home);
}

static void *create_first(void *out) {
  aclError *code = out;
  aclrtContext c = NULL;
  void *p = NULL;
  int32_t id = -1;
  code[0] = aclrtCreateContext(&c, 0);
  code[1] = aclrtGetDevice(&id);
  code[2] = aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST);
  code[3] = aclrtFree(p);
  code[4] = aclrtDestroyContext(c);
  code[5] = aclrtGetDevice(&id);
  return NULL;
}

static void create_needs_no_set_device(void **state) {
  (void)state;
  aclError code[6];
  on_thread(create_first, code);
  for (int i = 0; i < 5; i++) CHECK_OK(code[i]);
  CHECK_CODE(ACL_ERROR_RT_CONTEXT_NULL, code[5]);
}

static void destroying_the_current_context_leaves_none(void **state) {
  (void)state;
  aclrtContext c = context_new(), got = NULL;
  CHECK_OK(aclrtDestroyContext(c));
  aclrtStream stream = NULL;
  void *p = NULL;
  CHECK_CODE(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetCurrentContext(&got));
  CHECK_CODE(ACL_ERROR_RT_CONTEXT_NULL, aclrtCreateStream(&stream));
  CHECK_CODE(ACL_ERROR_RT_CONTEXT_NULL, aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_OK(aclrtSetCurrentContext(home));
}

typedef struct {
  aclrtContext set, got;
  aclError code;
} visit;

static void *visit_context(void *arg) {
  visit *v = arg;
  v->code = aclrtSetCurrentContext(v->set);
  aclrtGetCurrentContext(&v->got);
  return NULL;
}

static void current_is_per_thread_and_the_last_set_wins(void **state) {
  (void)state;
  aclrtContext a = context_new(), b = context_new();
  visit v = {.set = a};
  on_thread(visit_context, &v);
  CHECK_OK(v.code);
  assert_ptr_equal(v.got, a);
  assert_ptr_equal(current(), b);
  CHECK_OK(aclrtSetCurrentContext(a));
  CHECK_OK(aclrtSetCurrentContext(b));
  CHECK_OK(aclrtSetCurrentContext(a));
  assert_ptr_equal(current(), a);
  CHECK_OK(aclrtDestroyContext(b));
  assert_ptr_equal(current(), a);
  go_home(a);
}

static void default_context_is_stable_and_not_destroyed(void **state) {
  (void)state;
  assert_ptr_equal(current(), home);
  CHECK_FAILS(aclrtDestroyContext(home));
  assert_ptr_equal(current(), home);
  CHECK_OK(aclrtSetDevice(0));
  assert_ptr_equal(current(), home);
  CHECK_OK(aclrtResetDevice(0));
  aclrtStream stream = stream_new();
  CHECK_OK(aclrtDestroyStream(stream));
}

static void streams_and_events_stay_in_their_context(void **state) {
  (void)state;
  aclrtContext a = context_new();
  aclrtStream in_a = stream_new();
  aclrtEvent event_a = NULL;
  CHECK_OK(aclrtCreateEvent(&event_a));
  aclrtContext b = context_new();
  aclrtStream in_b = stream_new();

  CHECK_CODE(ACL_ERROR_RT_STREAM_CONTEXT, aclrtRecordEvent(event_a, in_b));
  CHECK_CODE(ACL_ERROR_RT_STREAM_CONTEXT, aclrtDestroyStream(in_a));
  CHECK_OK(aclrtDestroyStream(in_b));

  CHECK_OK(aclrtSetCurrentContext(a)); /* they work in their own context */
  CHECK_OK(aclrtRecordEvent(event_a, in_a));
  CHECK_OK(aclrtSynchronizeEvent(event_a));
  CHECK_OK(aclrtDestroyEvent(event_a));
  CHECK_OK(aclrtDestroyStream(in_a));
  CHECK_OK(aclrtDestroyContext(b));
  go_home(a);
}

static void memory_outlives_the_context_it_was_made_in(void **state) {
  (void)state;
  aclrtContext c = context_new();
  void *p = dev_filled(0x5a, 1000);
  go_home(c);
  assert_dev_filled(p, 0x5a, 1000);
  CHECK_OK(aclrtFree(p));
}

static void synchronize_device_waits_for_the_current_context_only(void **state) {
  (void)state;
  aclrtContext a = context_new();
  aclrtStream in_a = stream_new();
  gate *g = gate_close(in_a);
  CHECK_CODE(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeDeviceWithTimeout(10));
  CHECK_OK(aclrtSetCurrentContext(home));
  CHECK_OK(aclrtSynchronizeDevice()); /* would hang if it waited for the stream of context a */
  CHECK_OK(aclrtSetCurrentContext(a));
  gate_open(g);
  CHECK_OK(aclrtSynchronizeDevice());
  CHECK_OK(aclrtDestroyStream(in_a));
  go_home(a);
}

static void default_stream_has_a_handle_equal_to_null(void **state) {
  (void)state;
  aclrtStream named = NULL, again = NULL, other = NULL;
  CHECK_OK(aclrtCtxGetCurrentDefaultStream(&named));
  CHECK_OK(aclrtCtxGetCurrentDefaultStream(&again));
  assert_non_null(named);
  assert_ptr_equal(named, again);
  gate *g = gate_close(NULL);
  assert_int_equal(stream_status(named), ACL_STREAM_STATUS_NOT_READY);
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(named));
  assert_int_equal(stream_status(NULL), ACL_STREAM_STATUS_COMPLETE);

  aclrtContext c = context_new(); /* each context has its own default stream */
  CHECK_OK(aclrtCtxGetCurrentDefaultStream(&other));
  assert_ptr_not_equal(other, named);
  go_home(c);
}

/* ---- system parameters ---- */

static void process_parameters_start_at_zero(void **state) {
  (void)state;
  int64_t value = -1;
  CHECK_OK(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
  assert_int_equal(value, 0);
  CHECK_OK(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
  CHECK_OK(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
  assert_int_equal(value, 1);
  CHECK_FAILS(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 4)); /* valid values are 0 to 3 */
  CHECK_FAILS(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, -1));
  CHECK_OK(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
  assert_int_equal(value, 1);
  CHECK_OK(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 0));
}

static void context_parameters_must_be_set_before_they_are_read(void **state) {
  (void)state;
  int64_t value = -1;
  aclrtContext a = context_new();
  CHECK_CODE(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
  CHECK_OK(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
  CHECK_OK(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
  assert_int_equal(value, 1);
  aclrtContext b = context_new(); /* another context does not have the value */
  CHECK_CODE(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
  CHECK_OK(aclrtSetCurrentContext(a));
  CHECK_OK(aclrtDestroyContext(b));
  go_home(a);
}

/* ---- lifetime of the default context ---- */

static int32_t primary_is_active(void) {
  int32_t active = -1;
  CHECK_OK(aclrtGetPrimaryCtxState(0, NULL, &active));
  return active;
}

static void primary_context_lives_from_set_to_reset(void **state) {
  (void)state;
  assert_int_equal(primary_is_active(), 0);
  CHECK_OK(aclrtSetDevice(0));
  stream_new(); /* at the latest, this use of the device creates the context; the reset destroys the stream */
  assert_int_equal(primary_is_active(), 1);
  CHECK_OK(aclrtResetDevice(0));
  assert_int_equal(primary_is_active(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(create_makes_the_context_current),
      TEST(create_needs_no_set_device),
      TEST(destroying_the_current_context_leaves_none),
      TEST(current_is_per_thread_and_the_last_set_wins),
      TEST(default_context_is_stable_and_not_destroyed),
      TEST(streams_and_events_stay_in_their_context),
      TEST(memory_outlives_the_context_it_was_made_in),
      TEST(synchronize_device_waits_for_the_current_context_only),
      TEST(default_stream_has_a_handle_equal_to_null),
      TEST(process_parameters_start_at_zero),
      TEST(context_parameters_must_be_set_before_they_are_read),
  };
  const struct CMUnitTest without_device[] = {TEST(primary_context_lives_from_set_to_reset)};
  return cmocka_run_group_tests_name("context", tests, find_home, device_down) +
         cmocka_run_group_tests_name("primary", without_device, acl_up, acl_down);
}
