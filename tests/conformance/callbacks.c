/* SPDX-License-Identifier: Apache-2.0 */
/* User code in streams: host functions, which run on the library's threads, and callbacks, which run on the user's. */
#include "acl_test.h"

/* ---- aclrtLaunchHostFunc ---- */

typedef struct {
  uint8_t *pinned;
  size_t size;
  atomic_int right;
  pthread_t ran_on;
} reader;

static void read_pinned(void *arg) {
  reader *r = arg;
  int right = 1;
  for (size_t i = 0; i < r->size; i++) right &= r->pinned[i] == 0x3c;
  memset(r->pinned, 0x77, r->size);
  r->ran_on = pthread_self();
  atomic_store(&r->right, right);
}

static void host_function_runs_in_stream_order(void **state) {
  (void)state;
  enum { SIZE = 10000 };
  static reader r;
  r.pinned = pinned_new(SIZE);
  r.size = SIZE;
  atomic_store(&r.right, 0);
  void *dev = dev_filled(0x3c, SIZE), *after = dev_filled(0, SIZE);
  aclrtStream stream = stream_new();
  CHECK_OK(aclrtMemcpyAsync(r.pinned, SIZE, dev, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  CHECK_OK(aclrtLaunchHostFunc(stream, read_pinned, &r)); /* checks the contents, then overwrites them */
  CHECK_OK(aclrtMemcpyAsync(after, SIZE, r.pinned, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_true(atomic_load(&r.right));
  assert_dev_filled(after, 0x77, SIZE);
  /* it ran on a thread of the library, not on the waiting thread */
  assert_false(pthread_equal(r.ran_on, pthread_self()));
  CHECK_OK(aclrtFree(dev));
  CHECK_OK(aclrtFree(after));
  CHECK_OK(aclrtFreeHost(r.pinned));
  CHECK_OK(aclrtDestroyStream(stream));
}

static pthread_mutex_t users_lock = PTHREAD_MUTEX_INITIALIZER;

static void take_users_lock(void *arg) {
  pthread_mutex_lock(&users_lock);
  count_one(arg);
  pthread_mutex_unlock(&users_lock);
}

static void host_function_may_take_a_lock_that_the_waiting_thread_holds(void **state) {
  (void)state;
  static atomic_int done;
  atomic_store(&done, 0);
  aclrtStream stream = stream_new(), other = stream_new();
  void *p = dev_filled(0, 64);
  pthread_mutex_lock(&users_lock);
  CHECK_OK(aclrtLaunchHostFunc(stream, take_users_lock, &done));
  CHECK_OK(aclrtMemsetAsync(p, 64, 5, 64, other));
  aclError held = aclrtSynchronizeStreamWithTimeout(stream, 20);
  aclError free_one = aclrtSynchronizeStream(other);
  pthread_mutex_unlock(&users_lock);
  CHECK_CODE(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, held);
  CHECK_OK(free_one);
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_int_equal(atomic_load(&done), 1);
  CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtDestroyStream(other));
}

/* ---- aclrtLaunchCallback: this thread subscribes and processes callbacks ---- */

static uint64_t this_thread(void) { return (uint64_t)pthread_self(); }

/* Processes callbacks until `count` reaches `n`. */
static void serve(atomic_int *count, int n) {
  for (int tries = 0; atomic_load(count) < n && tries < 100; tries++) {
    aclError code = aclrtProcessReport(1000);
    if (code != ACL_SUCCESS) CHECK_CODE(ACL_ERROR_RT_REPORT_TIMEOUT, code);
  }
  assert_int_equal(atomic_load(count), n);
}

typedef struct {
  atomic_int calls;
  pthread_t ran_on;
} callback_note;

static void note_call(void *arg) {
  callback_note *note = arg;
  note->ran_on = pthread_self();
  count_one(&note->calls);
}

static void callback_runs_in_the_subscribed_thread(void **state) {
  (void)state;
  callback_note note = {.calls = 0};
  aclrtStream stream = stream_new();
  CHECK_OK(aclrtSubscribeReport(this_thread(), stream));
  CHECK_OK(aclrtLaunchCallback(note_call, &note, ACL_CALLBACK_NO_BLOCK, stream));
  CHECK_OK(aclrtSynchronizeStream(stream)); /* the callback does not hold up the stream */
  serve(&note.calls, 1);
  assert_true(pthread_equal(note.ran_on, pthread_self()));
  CHECK_OK(aclrtUnSubscribeReport(this_thread(), stream));
  CHECK_OK(aclrtDestroyStream(stream));
}

static void blocking_callback_delays_later_tasks(void **state) {
  (void)state;
  callback_note note = {.calls = 0};
  aclrtStream stream = stream_new();
  void *p = dev_filled(0, 64);
  CHECK_OK(aclrtSubscribeReport(this_thread(), stream));
  CHECK_OK(aclrtLaunchCallback(note_call, &note, ACL_CALLBACK_BLOCK, stream));
  CHECK_OK(aclrtMemsetAsync(p, 64, 5, 64, stream));
  CHECK_CODE(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, 20));
  assert_dev_filled(p, 0, 64);
  serve(&note.calls, 1);
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_dev_filled(p, 5, 64);
  CHECK_OK(aclrtUnSubscribeReport(this_thread(), stream));
  CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtDestroyStream(stream));
}

static void one_thread_serves_many_streams(void **state) {
  (void)state;
  enum { N = 10 };
  callback_note note = {.calls = 0};
  aclrtStream streams[N];
  for (int i = 0; i < N; i++) {
    streams[i] = stream_new();
    CHECK_OK(aclrtSubscribeReport(this_thread(), streams[i]));
    for (int j = 0; j < 3; j++)
      CHECK_OK(aclrtLaunchCallback(note_call, &note, j % 2 ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK, streams[i]));
  }
  serve(&note.calls, 3 * N);
  for (int i = 0; i < N; i++) {
    CHECK_OK(aclrtSynchronizeStream(streams[i]));
    CHECK_OK(aclrtUnSubscribeReport(this_thread(), streams[i]));
    CHECK_OK(aclrtDestroyStream(streams[i]));
  }
}

typedef struct {
  aclrtContext context;
  atomic_int stop;
  aclError unexpected;
} server;

/* As in CANN's samples, the loop starts before anyone subscribes the thread and ignores the codes for "nothing to
 * do". */
static void *serve_loop(void *arg) {
  server *s = arg;
  aclrtSetCurrentContext(s->context);
  while (!atomic_load(&s->stop)) {
    aclError code = aclrtProcessReport(10);
    if (code == ACL_ERROR_RT_THREAD_SUBSCRIBE)
      nap_ms(1);
    else if (code != ACL_SUCCESS && code != ACL_ERROR_RT_REPORT_TIMEOUT)
      s->unexpected = code;
  }
  return NULL;
}

static void serving_thread_may_start_before_it_is_subscribed(void **state) {
  (void)state;
  static server s;
  static callback_note note;
  CHECK_OK(aclrtGetCurrentContext(&s.context));
  pthread_t thread = thread_start(serve_loop, &s);
  aclrtStream stream = stream_new();
  nap_ms(5);
  CHECK_OK(aclrtSubscribeReport((uint64_t)thread, stream));
  for (int i = 0; i < 20; i++) CHECK_OK(aclrtLaunchCallback(note_call, &note, ACL_CALLBACK_BLOCK, stream));
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_int_equal(atomic_load(&note.calls), 20);
  assert_true(pthread_equal(note.ran_on, thread));
  CHECK_OK(aclrtUnSubscribeReport((uint64_t)thread, stream));
  atomic_store(&s.stop, 1);
  pthread_join(thread, NULL);
  CHECK_OK(s.unexpected);
  CHECK_OK(aclrtDestroyStream(stream));
}

/* ---- error codes ---- */

static void assert_subscription_error(aclError code) {
  assert_true(code == ACL_ERROR_RT_STREAM_SUBSCRIBE || code == ACL_ERROR_RT_THREAD_SUBSCRIBE);
}

static void callbacks_need_a_subscription(void **state) {
  (void)state;
  callback_note note = {.calls = 0};
  aclrtStream stream = stream_new();
  CHECK_CODE(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(10));
  CHECK_CODE(ACL_ERROR_RT_STREAM_NO_CB_REG, aclrtLaunchCallback(note_call, &note, ACL_CALLBACK_NO_BLOCK, stream));
  assert_subscription_error(aclrtUnSubscribeReport(this_thread(), stream));

  CHECK_OK(aclrtSubscribeReport(this_thread(), stream));
  CHECK_CODE(ACL_ERROR_RT_REPORT_TIMEOUT, aclrtProcessReport(5));
  assert_subscription_error(aclrtSubscribeReport(this_thread() + 1, stream)); /* the stream is subscribed already */
  CHECK_OK(aclrtUnSubscribeReport(this_thread(), stream));

  CHECK_CODE(ACL_ERROR_RT_STREAM_NO_CB_REG, aclrtLaunchCallback(note_call, &note, ACL_CALLBACK_NO_BLOCK, stream));
  CHECK_CODE(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(10));
  assert_int_equal(atomic_load(&note.calls), 0);
  CHECK_OK(aclrtDestroyStream(stream));
}

/* Threads that serve streams ask again and again: that must not hide the messages of failures. */
static void waiting_in_vain_leaves_no_message(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  while (aclGetRecentErrMsg()) continue;
  CHECK_CODE(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(10));
  CHECK_OK(aclrtSubscribeReport(this_thread(), stream));
  CHECK_CODE(ACL_ERROR_RT_REPORT_TIMEOUT, aclrtProcessReport(5));
  CHECK_OK(aclrtUnSubscribeReport(this_thread(), stream));
  assert_null(aclGetRecentErrMsg());
  CHECK_OK(aclrtDestroyStream(stream));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(host_function_runs_in_stream_order),     TEST(host_function_may_take_a_lock_that_the_waiting_thread_holds),
      TEST(callback_runs_in_the_subscribed_thread), TEST(blocking_callback_delays_later_tasks),
      TEST(one_thread_serves_many_streams),         TEST(serving_thread_may_start_before_it_is_subscribed),
      TEST(callbacks_need_a_subscription),          TEST(waiting_in_vain_leaves_no_message),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
