/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: order within a stream, independence of different streams, waiting with and without a limit. */
#include "acl_test.h"

/* ---- order ---- */

enum { N_STEPS = 200 };

typedef struct {
  int steps[N_STEPS];
  atomic_int n;
} journal; /* written by one stream's host functions, one at a time; read after a synchronise */

typedef struct {
  journal *to;
  int step;
} entry;

static void write_entry(void *arg) {
  entry *e = arg;
  e->to->steps[atomic_fetch_add(&e->to->n, 1)] = e->step;
}

static void tasks_of_a_stream_run_in_order(void **state) {
  (void)state;
  static journal j;
  static entry entries[N_STEPS];
  aclrtStream stream = stream_new();
  uint8_t *dev = dev_filled(0, 64), *host = pinned_new(N_STEPS);
  atomic_store(&j.n, 0);
  for (int i = 0; i < N_STEPS; i++) { /* three kinds of task, each of which depends on the previous one */
    entries[i] = (entry){&j, i};
    CHECK_OK(aclrtMemsetAsync(dev, 64, i, 64, stream));
    CHECK_OK(aclrtMemcpyAsync(host + i, 1, dev + i % 64, 1, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK_OK(aclrtLaunchHostFunc(stream, write_entry, &entries[i]));
  }
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_int_equal(atomic_load(&j.n), N_STEPS);
  for (int i = 0; i < N_STEPS; i++) {
    assert_int_equal(j.steps[i], i);
    assert_int_equal(host[i], i);
  }
  CHECK_OK(aclrtFree(dev));
  CHECK_OK(aclrtFreeHost(host));
  CHECK_OK(aclrtDestroyStream(stream));
}

/* ---- independence ---- */

static void assert_stream_works(aclrtStream stream) {
  void *p = dev_filled(0, 4096);
  CHECK_OK(aclrtMemsetAsync(p, 4096, 0xa5, 4096, stream));
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_dev_filled(p, 0xa5, 4096);
  CHECK_OK(aclrtFree(p));
}

static void host_function_holds_up_its_own_stream_only(void **state) {
  (void)state;
  aclrtStream held = stream_new(), free_one = stream_new();
  gate *g = gate_close(held);
  assert_stream_works(free_one);
  assert_stream_works(NULL); /* the default stream behaves as any other */
  assert_int_equal(stream_status(held), ACL_STREAM_STATUS_NOT_READY);
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(held));
  assert_int_equal(stream_status(held), ACL_STREAM_STATUS_COMPLETE);
  CHECK_OK(aclrtDestroyStream(held));
  CHECK_OK(aclrtDestroyStream(free_one));
}

static void held_default_stream_holds_up_no_other(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  gate *g = gate_close(NULL);
  assert_stream_works(stream);
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(NULL));
  CHECK_OK(aclrtDestroyStream(stream));
}

static void event_waits_hold_up_their_own_streams_only(void **state) {
  (void)state;
  enum { N_HELD = 40 }; /* more than the number of threads that they could block on any machine */
  static atomic_int passed;
  atomic_store(&passed, 0);
  aclrtStream held[N_HELD], recorder = stream_new();
  aclrtEvent event = NULL;
  CHECK_OK(aclrtCreateEvent(&event));
  for (int i = 0; i < N_HELD; i++) {
    held[i] = stream_new();
    CHECK_OK(aclrtStreamWaitEvent(held[i], event));
    CHECK_OK(aclrtLaunchHostFunc(held[i], count_one, &passed));
  }
  assert_stream_works(recorder);
  assert_int_equal(atomic_load(&passed), 0);
  CHECK_OK(aclrtRecordEvent(event, recorder));
  for (int i = 0; i < N_HELD; i++) {
    CHECK_OK(aclrtSynchronizeStream(held[i]));
    CHECK_OK(aclrtDestroyStream(held[i]));
  }
  assert_int_equal(atomic_load(&passed), N_HELD);
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyStream(recorder));
}

/* ---- attributes ---- */

static void streams_have_distinct_ids(void **state) {
  (void)state;
  int32_t ids[3] = {-1, -1, -1};
  aclrtStream a = stream_new(), b = stream_new();
  CHECK_OK(aclrtStreamGetId(NULL, &ids[0]));
  CHECK_OK(aclrtStreamGetId(a, &ids[1]));
  CHECK_OK(aclrtStreamGetId(b, &ids[2]));
  assert_true(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
  CHECK_OK(aclrtDestroyStream(a));
  CHECK_OK(aclrtDestroyStream(b));
}

static void flags_and_priority_read_back(void **state) {
  (void)state;
  static const uint32_t flags[] = {0, ACL_STREAM_FAST_LAUNCH, ACL_STREAM_FAST_SYNC,
                                   ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC};
  uint32_t got = 99;
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    aclrtStream stream = NULL;
    CHECK_OK(aclrtCreateStreamWithConfig(&stream, 0, flags[i]));
    CHECK_OK(aclrtStreamGetFlags(stream, &got));
    assert_int_equal(got, flags[i]);
    assert_stream_works(stream);
    CHECK_OK(aclrtDestroyStream(stream));
  }
  aclrtStream plain = stream_new();
  CHECK_OK(aclrtStreamGetFlags(plain, &got));
  assert_int_equal(got, 0);
  CHECK_OK(aclrtStreamGetPriority(plain, &got)); /* 0 is the highest priority */
  assert_int_equal(got, 0);
  got = 99;
  CHECK_OK(aclrtStreamGetPriority(NULL, &got));
  assert_int_equal(got, 0);
  CHECK_OK(aclrtDestroyStream(plain));
}

static void unknown_flags_make_a_plain_stream(void **state) {
  (void)state;
  aclrtStream stream = NULL;
  CHECK_OK(aclrtCreateStreamWithConfig(&stream, 0, 0x4000));
  assert_stream_works(stream);
  CHECK_OK(aclrtDestroyStream(stream));
}

/* ---- lifetime ---- */

static void destroy_waits_for_the_work(void **state) {
  (void)state;
  static atomic_int done;
  atomic_store(&done, 0);
  aclrtStream stream = stream_new();
  for (int i = 0; i < 3; i++) CHECK_OK(aclrtLaunchHostFunc(stream, nap_then_count, &done));
  CHECK_OK(aclrtDestroyStream(stream));
  assert_int_equal(atomic_load(&done), 3);
}

static void forced_destroy_neither_waits_nor_runs_the_rest(void **state) {
  (void)state;
  static atomic_int done;
  atomic_store(&done, 0);
  aclrtStream stream = stream_new();
  gate *g = gate_close(stream);
  CHECK_OK(aclrtLaunchHostFunc(stream, count_one, &done));
  CHECK_OK(aclrtDestroyStreamForce(stream)); /* would hang if it waited */
  gate_open(g);
  assert_stream_works(NULL);
  CHECK_OK(aclrtSynchronizeDevice());
  nap_ms(20);
  assert_int_equal(atomic_load(&done), 0);
}

static void default_stream_is_not_destroyed(void **state) {
  (void)state;
  aclrtStream named = NULL;
  CHECK_OK(aclrtCtxGetCurrentDefaultStream(&named));
  CHECK_FAILS(aclrtDestroyStream(NULL));
  CHECK_FAILS(aclrtDestroyStream(named));
  CHECK_FAILS(aclrtDestroyStreamForce(named));
  assert_stream_works(named);
}

static void hundreds_of_streams_work_at_once(void **state) {
  (void)state;
  enum { N = 500, EACH = 256 };
  static aclrtStream streams[N];
  uint8_t *p = dev_filled(0, N * EACH);
  for (int i = 0; i < N; i++) streams[i] = stream_new();
  for (int i = 0; i < N; i++) CHECK_OK(aclrtMemsetAsync(p + i * EACH, EACH, i % 251, EACH, streams[i]));
  CHECK_OK(aclrtSynchronizeDevice());
  for (int i = 0; i < N; i++) {
    assert_int_equal(dev_byte(p, (size_t)i * EACH + EACH - 1), i % 251);
    CHECK_OK(aclrtDestroyStream(streams[i]));
  }
  CHECK_OK(aclrtFree(p));
}

static void number_of_streams_is_limited(void **state) {
  (void)state;
  enum { LIMIT = 1984 }; /* per device, including default streams */
  static aclrtStream streams[LIMIT + 1];
  int n = 0;
  aclError code = 0;
  while (n <= LIMIT && (code = aclrtCreateStream(&streams[n])) == 0) n++;
  assert_true(n > 500 && n < LIMIT);
  assert_true(code == ACL_ERROR_RT_NO_STREAM_RESOURCE || code == ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
  CHECK_OK(aclrtDestroyStream(streams[--n]));
  streams[n++] = stream_new();
  assert_stream_works(streams[n - 1]);
  while (n > 0) CHECK_OK(aclrtDestroyStream(streams[--n]));
}

typedef struct {
  aclrtContext context;
  aclrtStream stream;
  atomic_int *count;
  aclError code;
} submitter;

static void *submit_many(void *arg) {
  submitter *s = arg;
  s->code = aclrtSetCurrentContext(s->context);
  for (int i = 0; i < 500 && s->code == 0; i++) s->code = aclrtLaunchHostFunc(s->stream, count_one, s->count);
  return NULL;
}

static void several_threads_may_submit_to_one_stream(void **state) {
  (void)state;
  static atomic_int count;
  atomic_store(&count, 0);
  submitter s[2] = {{.stream = stream_new(), .count = &count}};
  CHECK_OK(aclrtGetCurrentContext(&s[0].context));
  s[1] = s[0];
  pthread_t threads[2] = {thread_start(submit_many, &s[0]), thread_start(submit_many, &s[1])};
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  CHECK_OK(s[0].code);
  CHECK_OK(s[1].code);
  CHECK_OK(aclrtSynchronizeStream(s[0].stream));
  assert_int_equal(atomic_load(&count), 1000);
  CHECK_OK(aclrtDestroyStream(s[0].stream));
}

/* ---- waiting with a limit ---- */

static void expired_synchronise_leaves_the_stream_usable(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  void *p = dev_filled(0, 256);
  gate *g = gate_close(stream);
  CHECK_OK(aclrtMemsetAsync(p, 256, 9, 256, stream));
  CHECK_CODE(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, 10));
  CHECK_CODE(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, 1));
  assert_dev_filled(p, 0, 256); /* queued tasks stay queued */
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStreamWithTimeout(stream, 10000));
  assert_dev_filled(p, 9, 256);
  CHECK_OK(aclrtSynchronizeStreamWithTimeout(stream, -1));
  CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtDestroyStream(stream));
}

static void only_minus_one_and_positive_limits_are_valid(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, aclrtSynchronizeStreamWithTimeout(stream, 0));
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, aclrtSynchronizeStreamWithTimeout(stream, -2));
  CHECK_OK(aclrtDestroyStream(stream));
}

/* ---- failure mode (async_errors.c tests its effect) ---- */

static void failure_mode_is_set_once(void **state) {
  (void)state;
  aclrtContext home = NULL, c = NULL; /* the mode applies to a whole context, so this test uses its own */
  CHECK_OK(aclrtGetCurrentContext(&home));
  CHECK_OK(aclrtCreateContext(&c, 0));
  aclrtStream stream = stream_new();
  CHECK_FAILS(aclrtSetStreamFailureMode(stream, 2));
  CHECK_OK(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE));
  CHECK_FAILS(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE));
  CHECK_CODE(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtSetStreamFailureMode(stream, ACL_CONTINUE_ON_FAILURE));
  assert_stream_works(stream);
  CHECK_OK(aclrtSetStreamFailureMode(NULL, ACL_STOP_ON_FAILURE));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtSetCurrentContext(home));
  CHECK_OK(aclrtDestroyContext(c));
}

/* ---- attributes ---- */

static void attributes_are_kept(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  aclrtStreamAttrValue v = {.failureMode = 7};
  uint32_t other = 9;
  CHECK_OK(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, &v));
  assert_int_equal(v.failureMode, ACL_CONTINUE_ON_FAILURE);
  v.overflowSwitch = 1;
  CHECK_OK(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK, &v));
  CHECK_OK(aclrtGetStreamOverflowSwitch(stream, &other));
  assert_int_equal(other, 1);
  v.userCustomTag = UINT32_MAX;
  CHECK_OK(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &v));
  v.cacheOpInfoSwitch = 1;
  CHECK_OK(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_CACHE_OP_INFO, &v));
  v.cacheOpInfoSwitch = 0;
  CHECK_OK(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_CACHE_OP_INFO, &v));
  assert_int_equal(v.cacheOpInfoSwitch, 1);
  CHECK_OK(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &v));
  assert_int_equal(v.userCustomTag, UINT32_MAX);
  v.streamPriority = 1;
  CHECK_OK(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_PRIORITY, &v));
  CHECK_OK(aclrtStreamGetPriority(stream, &other));
  assert_int_equal(other, 1);
  assert_stream_works(stream);
  CHECK_OK(aclrtDestroyStream(stream));
}

static void wrong_attributes_are_refused(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  aclrtStreamAttrValue v = {.streamPriority = 99};
  CHECK_FAILS(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_PRIORITY, &v));
  CHECK_FAILS(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_CACHE_OP_INFO, &v));
  CHECK_FAILS(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, &v));
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, aclrtSetStreamAttribute(stream, (aclrtStreamAttr)77, &v));
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, aclrtGetStreamAttribute(stream, (aclrtStreamAttr)77, &v));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_PRIORITY, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_PRIORITY, NULL));
  CHECK_OK(aclrtDestroyStream(stream));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(tasks_of_a_stream_run_in_order),
      TEST(host_function_holds_up_its_own_stream_only),
      TEST(held_default_stream_holds_up_no_other),
      TEST(event_waits_hold_up_their_own_streams_only),
      TEST(streams_have_distinct_ids),
      TEST(flags_and_priority_read_back),
      TEST(unknown_flags_make_a_plain_stream),
      TEST(destroy_waits_for_the_work),
      TEST(forced_destroy_neither_waits_nor_runs_the_rest),
      TEST(default_stream_is_not_destroyed),
      TEST(hundreds_of_streams_work_at_once),
      TEST(number_of_streams_is_limited),
      TEST(several_threads_may_submit_to_one_stream),
      TEST(expired_synchronise_leaves_the_stream_usable),
      TEST(only_minus_one_and_positive_limits_are_valid),
      TEST(failure_mode_is_set_once),
      TEST(attributes_are_kept),
      TEST(wrong_attributes_are_refused),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
