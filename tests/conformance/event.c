/* SPDX-License-Identifier: Apache-2.0 */
/* Events: the kinds of events and the operations that each permits; record, wait, reset and timestamps. */
#include "acl_test.h"

typedef aclError (*event_creator)(aclrtEvent *event, uint32_t flag);

static aclError create_plain(aclrtEvent *event, uint32_t flag) {
  (void)flag;
  return aclrtCreateEvent(event);
}

typedef struct {
  const char *name;
  event_creator create;
  uint32_t flag;
  int fresh;                                 /* result of aclrtQueryEventStatus before the first record */
  bool waits, resets, old_queries, has_time; /* permitted operations */
} event_kind;

/* Each row is a way to create an event; the columns are the operations that it permits. */
static const event_kind kinds[] = {
    {"plain", create_plain, 0, 0, true, false, true, true},
    {"sync", aclrtCreateEventWithFlag, ACL_EVENT_SYNC, 0, true, true, true, false},
    {"sync and time", aclrtCreateEventWithFlag, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE, 0, true, true, true, true},
    {"time", aclrtCreateEventWithFlag, ACL_EVENT_TIME_LINE, 0, false, false, true, true},
    {"progress", aclrtCreateEventWithFlag, ACL_EVENT_CAPTURE_STREAM_PROGRESS, 0, false, false, true, false},
    {"ex sync", aclrtCreateEventExWithFlag, ACL_EVENT_SYNC, 1, true, false, false, false},
    {"ex sync and time", aclrtCreateEventExWithFlag, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE, 1, true, false, false, true},
    {"ex time", aclrtCreateEventExWithFlag, ACL_EVENT_TIME_LINE, 1, false, false, false, true},
    {"ex progress", aclrtCreateEventExWithFlag, ACL_EVENT_CAPTURE_STREAM_PROGRESS, 1, false, false, false, false},
};
enum { PLAIN = 0, SYNC = 1, EX_SYNC = 5, N_KINDS = sizeof kinds / sizeof *kinds };

static aclrtEvent event_new(int kind) {
  aclrtEvent event = NULL;
  CHECK_OK(kinds[kind].create(&event, kinds[kind].flag));
  assert_non_null(event);
  return event;
}

static int recorded(aclrtEvent event) {
  aclrtEventRecordedStatus status = (aclrtEventRecordedStatus)99;
  CHECK_OK(aclrtQueryEventStatus(event, &status));
  return (int)status;
}

/* Two streams for each test; `other` is the one that waits. */
static aclrtStream stream, other;

static int two_streams(void **state) {
  (void)state;
  stream = stream_new();
  other = stream_new();
  return 0;
}

static int no_streams(void **state) {
  settle(state);
  CHECK_OK(aclrtDestroyStream(other));
  CHECK_OK(aclrtDestroyStream(stream));
  return 0;
}

#define EVENT_TEST(function) cmocka_unit_test_setup_teardown(function, two_streams, no_streams)

static const aclError allowed_code[] = {ANY_ERROR, ACL_SUCCESS};

static void each_kind_permits_the_operations_of_its_row(void **state) {
  (void)state;
  for (int k = 0; k < N_KINDS; k++) {
    const event_kind *kind = &kinds[k];
    print_message("%s\n", kind->name);
    aclrtEvent event = event_new(k), end = event_new(k);
    assert_int_equal(recorded(event), kind->fresh);

    CHECK_OK(aclrtRecordEvent(event, stream));
    CHECK_OK(aclrtSynchronizeEvent(event));
    assert_int_equal(recorded(event), ACL_EVENT_RECORDED_STATUS_COMPLETE);

    CHECK_CODE(allowed_code[kind->waits], aclrtStreamWaitEvent(other, event));
    CHECK_OK(aclrtSynchronizeStream(other));

    aclrtEventStatus old = ACL_EVENT_STATUS_RESERVED; /* its enumerators have the opposite order */
    CHECK_CODE(allowed_code[kind->old_queries], aclrtQueryEvent(event, &old));
    if (kind->old_queries) assert_int_equal(old, ACL_EVENT_STATUS_COMPLETE);

    uint64_t stamp = 0;
    float ms = -1;
    CHECK_CODE(allowed_code[kind->has_time], aclrtEventGetTimestamp(event, &stamp));
    CHECK_OK(aclrtRecordEvent(end, stream));
    CHECK_OK(aclrtSynchronizeEvent(end));
    CHECK_CODE(allowed_code[kind->has_time], aclrtEventElapsedTime(&ms, event, end));
    if (kind->has_time) assert_true(stamp > 0 && ms >= 0);

    CHECK_CODE(allowed_code[kind->resets], aclrtResetEvent(event, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    assert_int_equal(recorded(event), !kind->resets);
    CHECK_OK(aclrtDestroyEvent(event));
    CHECK_OK(aclrtDestroyEvent(end));
  }
}

static void exclusive_flags_cannot_be_combined(void **state) {
  (void)state;
  aclrtEvent event = NULL;
  CHECK_FAILS(aclrtCreateEventWithFlag(&event, ACL_EVENT_EXTERNAL | ACL_EVENT_SYNC));
  CHECK_FAILS(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC | ACL_EVENT_SYNC));
  CHECK_FAILS(aclrtCreateEventWithFlag(&event, ACL_EVENT_IPC));
}

/* A device has 65,536 events; destroying one makes room for another. */
static void events_of_a_device_are_limited(void **state) {
  (void)state;
#ifdef __SANITIZE_THREAD__
  skip(); /* which would take a minute for what one thread does */
#endif
  enum { MOST = 65536 };
  aclrtEvent *events = calloc(MOST + 1, sizeof *events);
  int n = 0;
  aclError code = ACL_SUCCESS;
  while (n <= MOST && !(code = aclrtCreateEvent(&events[n]))) n++;
  assert_int_equal(n, MOST);
  CHECK_CODE(ACL_ERROR_RT_NO_EVENT_RESOURCE, code);
  CHECK_OK(aclrtDestroyEvent(events[0]));
  CHECK_OK(aclrtCreateEventWithFlag(&events[0], ACL_EVENT_SYNC));
  CHECK_CODE(ACL_ERROR_RT_NO_EVENT_RESOURCE, aclrtCreateEventExWithFlag(&events[MOST], ACL_EVENT_SYNC));
  while (n) CHECK_OK(aclrtDestroyEvent(events[--n]));
  free(events);
}

/* Most kinds of events report "not ready" before their first record, but synchronising with them returns at once, with
 * and without a timeout, as in CANN's runtime. */
static void synchronize_without_a_record_returns(void **state) {
  (void)state;
  for (int k = 0; k < N_KINDS; k++) {
    aclrtEvent event = event_new(k);
    CHECK_OK(aclrtSynchronizeEvent(event));
    CHECK_OK(aclrtSynchronizeEventWithTimeout(event, 5));
    CHECK_OK(aclrtDestroyEvent(event));
  }
}

/* ---- record ---- */

static void record_completes_after_all_earlier_tasks(void **state) {
  (void)state;
  for (int k = 0; k < N_KINDS; k++) {
    aclrtEvent event = event_new(k);
    gate *g = gate_close(stream);
    CHECK_OK(aclrtRecordEvent(event, stream));
    assert_int_equal(recorded(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    CHECK_CODE(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, aclrtSynchronizeEventWithTimeout(event, 5));
    gate_open(g);
    CHECK_OK(aclrtSynchronizeEventWithTimeout(event, -1));
    assert_int_equal(recorded(event), ACL_EVENT_RECORDED_STATUS_COMPLETE);
    CHECK_OK(aclrtSynchronizeEventWithTimeout(event, 1));
    CHECK_OK(aclrtDestroyEvent(event));
    gates_used = 0;
  }
}

static void old_query_sees_a_pending_record(void **state) {
  (void)state;
  aclrtEvent event = event_new(SYNC);
  aclrtEventStatus status = ACL_EVENT_STATUS_RESERVED;
  gate *g = gate_close(stream);
  CHECK_OK(aclrtRecordEvent(event, stream));
  CHECK_OK(aclrtQueryEvent(event, &status));
  assert_int_equal(status, ACL_EVENT_STATUS_NOT_READY);
  gate_open(g);
  CHECK_OK(aclrtSynchronizeEvent(event));
  CHECK_OK(aclrtQueryEvent(event, &status));
  assert_int_equal(status, ACL_EVENT_STATUS_COMPLETE);
  CHECK_OK(aclrtDestroyEvent(event));
}

typedef struct {
  aclrtContext context;
  aclrtEvent event;
  aclError code;
} waiter;

static void *wait_for_event(void *arg) {
  waiter *w = arg;
  w->code = aclrtSetCurrentContext(w->context);
  if (w->code == 0) w->code = aclrtSynchronizeEvent(w->event);
  return NULL;
}

static void other_threads_can_wait_for_an_event(void **state) {
  (void)state;
  waiter w = {.event = event_new(SYNC)};
  CHECK_OK(aclrtGetCurrentContext(&w.context));
  gate *g = gate_close(stream);
  CHECK_OK(aclrtRecordEvent(w.event, stream));
  pthread_t thread = thread_start(wait_for_event, &w);
  gate_open(g);
  pthread_join(thread, NULL);
  CHECK_OK(w.code);
  assert_int_equal(recorded(w.event), ACL_EVENT_RECORDED_STATUS_COMPLETE);
  CHECK_OK(aclrtDestroyEvent(w.event));
}

/* ---- wait ---- */

static void wait_before_the_first_record_blocks_except_for_ex_events(void **state) {
  (void)state;
  for (int k = 0; k < N_KINDS; k++) {
    if (!kinds[k].waits) continue;
    print_message("%s\n", kinds[k].name);
    bool ex = kinds[k].fresh;
    aclrtEvent event = event_new(k);
    CHECK_OK(aclrtStreamWaitEvent(other, event));
    CHECK_CODE(ex ? ACL_SUCCESS : ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
               aclrtSynchronizeStreamWithTimeout(other, ex ? 10000 : 10));
    CHECK_OK(aclrtRecordEvent(event, stream));
    CHECK_OK(aclrtSynchronizeStream(other));
    CHECK_OK(aclrtDestroyEvent(event));
  }
}

static void waits_order_tasks_across_streams(void **state) {
  (void)state;
  enum { LINKS = 6, SIZE = 1000 };
  aclrtStream s[LINKS];
  uint8_t *p = dev_filled(0, SIZE * LINKS);
  gate *g = gate_close(stream);
  CHECK_OK(aclrtMemsetAsync(p, SIZE, 7, SIZE, stream));
  aclrtStream before = stream;
  for (int i = 1; i < LINKS; i++) { /* each stream copies what the previous one has written */
    s[i] = stream_new();
    aclrtEvent event = event_new(i % 2 ? SYNC : EX_SYNC);
    CHECK_OK(aclrtRecordEvent(event, before));
    CHECK_OK(aclrtStreamWaitEvent(s[i], event));
    CHECK_OK(aclrtDestroyEvent(event)); /* directly after the wait, as programs do */
    CHECK_OK(aclrtMemcpyAsync(p + i * SIZE, SIZE, p + (i - 1) * SIZE, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, s[i]));
    before = s[i];
  }
  assert_dev_filled(p, 0, SIZE * LINKS);
  assert_int_equal(stream_status(before), ACL_STREAM_STATUS_NOT_READY);
  CHECK_OK(aclrtSynchronizeStream(other)); /* a stream outside the chain is not held up */
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(before)); /* waiting for the last stream makes all of them run */
  assert_dev_filled(p, 7, SIZE * LINKS);
  for (int i = 1; i < LINKS; i++) CHECK_OK(aclrtDestroyStream(s[i]));
  CHECK_OK(aclrtFree(p));
}

/* Two devices of one process: a stream of the second waits for an event that was recorded in a stream of the first. */
static void waits_order_tasks_across_devices(void **state) {
  (void)state;
  enum { SIZE = 1000 };
  if (device_count() < 2) skip();
  uint8_t *near = dev_filled(0, SIZE);
  for (int k = 0; k < N_KINDS; k++) {
    if (!kinds[k].waits) continue;
    print_message("%s\n", kinds[k].name);
    aclrtEvent event = event_new(k);
    gate *g = gate_close(stream);
    CHECK_OK(aclrtMemsetAsync(near, SIZE, k + 1, SIZE, stream));
    CHECK_OK(aclrtRecordEvent(event, stream));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtDeviceEnablePeerAccess(0, 0));
    aclrtStream far_stream = stream_new();
    uint8_t *far = dev_filled(0, SIZE);
    CHECK_CODE(ACL_ERROR_RT_STREAM_CONTEXT, aclrtRecordEvent(event, far_stream)); /* records stay on their device */
    CHECK_OK(aclrtStreamWaitEvent(far_stream, event));
    CHECK_OK(aclrtDestroyEvent(event));
    CHECK_OK(aclrtMemcpyAsync(far, SIZE, near, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, far_stream));
    CHECK_CODE(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(far_stream, 10));
    gate_open(g);
    CHECK_OK(aclrtSynchronizeStream(far_stream)); /* makes the stream of the other device run */
    assert_dev_filled(far, k + 1, SIZE);
    CHECK_OK(aclrtFree(far));
    CHECK_OK(aclrtDestroyStream(far_stream));
    CHECK_OK(aclrtDeviceDisablePeerAccess(0));
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtSynchronizeStream(stream));
  }
  CHECK_OK(aclrtFree(near));
}

/* Both devices' streams wait for each other, in turn, many times. */
static void two_devices_take_turns(void **state) {
  (void)state;
  enum { TURNS = 200 };
  if (device_count() < 2) skip();
  uint8_t *near = dev_filled(0, TURNS);
  aclrtEvent from_near = event_new(EX_SYNC);
  CHECK_OK(aclrtSetDevice(1));
  CHECK_OK(aclrtDeviceEnablePeerAccess(0, 0));
  aclrtStream far_stream = stream_new();
  aclrtEvent from_far = event_new(EX_SYNC);
  for (int i = 0; i < TURNS; i++) { /* each turn writes its number and copies the previous one's on */
    const bool is_far = i % 2 == 1;
    CHECK_OK(aclrtSetDevice(is_far));
    aclrtStream s = is_far ? far_stream : stream;
    CHECK_OK(aclrtStreamWaitEvent(s, is_far ? from_near : from_far));
    if (i == 0) CHECK_OK(aclrtMemsetAsync(near, 1, 9, 1, s));
    if (i > 0) CHECK_OK(aclrtMemcpyAsync(near + i, 1, near + i - 1, 1, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
    CHECK_OK(aclrtRecordEvent(is_far ? from_far : from_near, s));
  }
  CHECK_OK(aclrtSynchronizeStream(far_stream)); /* the last turn is the second device's */
  assert_dev_filled(near, 9, TURNS);
  CHECK_OK(aclrtDestroyEvent(from_far));
  CHECK_OK(aclrtDestroyStream(far_stream));
  CHECK_OK(aclrtDeviceDisablePeerAccess(0));
  CHECK_OK(aclrtResetDevice(1));
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aclrtDestroyEvent(from_near));
  CHECK_OK(aclrtFree(near));
}

/* A stream of another device neither joins a capture by a wait, nor waits inside its own for what the first records. */
static void captures_stay_on_their_device(void **state) {
  (void)state;
  if (device_count() < 2) skip();
  aclmdlRI model = NULL;
  aclrtContext home = NULL, away = NULL;
  aclrtEvent event = event_new(EX_SYNC);
  CHECK_OK(aclrtGetCurrentContext(&home));
  CHECK_OK(aclrtSetDevice(1));
  CHECK_OK(aclrtGetCurrentContext(&away));
  aclrtStream far_stream = stream_new();
  CHECK_OK(aclrtSetCurrentContext(home));
  CHECK_OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
  CHECK_OK(aclrtRecordEvent(event, stream));
  CHECK_OK(aclrtSetCurrentContext(away));
  CHECK_CODE(ACL_ERROR_RT_STREAM_CONTEXT, aclrtStreamWaitEvent(far_stream, event));
  CHECK_OK(aclrtSetCurrentContext(home));
  CHECK_OK(aclmdlRICaptureEnd(stream, &model));
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtSetCurrentContext(away));
  CHECK_OK(aclrtDestroyStream(far_stream));
  CHECK_OK(aclrtResetDevice(1));
  CHECK_OK(aclrtSetCurrentContext(home));
  CHECK_OK(aclrtDestroyEvent(event));
}

static void wait_refers_to_the_last_record_before_it(void **state) {
  (void)state;
  aclrtEvent event = event_new(EX_SYNC);
  CHECK_OK(aclrtRecordEvent(event, stream));
  CHECK_OK(aclrtStreamWaitEvent(other, event));
  gate *g = gate_close(stream);
  CHECK_OK(aclrtRecordEvent(event, stream)); /* a second record, which the gate holds up */
  CHECK_OK(aclrtSynchronizeStream(other));   /* the wait refers to the first record */
  assert_int_equal(recorded(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
  CHECK_OK(aclrtStreamWaitEvent(other, event)); /* this wait refers to the second */
  CHECK_CODE(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(other, 10));
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(other));
  CHECK_OK(aclrtDestroyEvent(event));
}

static void destroy_does_not_wait(void **state) {
  (void)state;
  for (int k = 0; k < N_KINDS; k++) {
    gates_used = 0;
    gate *g = gate_close(stream);
    aclrtEvent event = event_new(k);
    CHECK_OK(aclrtRecordEvent(event, stream));
    CHECK_OK(aclrtDestroyEvent(event)); /* would hang if it waited */
    gate_open(g);
    CHECK_OK(aclrtSynchronizeStream(stream));
  }
}

static void wait_status_follows_the_wait(void **state) {
  (void)state;
  aclrtEvent event = event_new(SYNC);
  aclrtEventWaitStatus status = ACL_EVENT_WAIT_STATUS_RESERVED;
  gate *g = gate_close(stream);
  CHECK_OK(aclrtRecordEvent(event, stream));
  CHECK_OK(aclrtStreamWaitEvent(other, event));
  CHECK_OK(aclrtQueryEventWaitStatus(event, &status));
  assert_int_equal(status, ACL_EVENT_WAIT_STATUS_NOT_READY);
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(other));
  CHECK_OK(aclrtQueryEventWaitStatus(event, &status));
  assert_int_equal(status, ACL_EVENT_WAIT_STATUS_COMPLETE);
  CHECK_OK(aclrtDestroyEvent(event));
  event = event_new(EX_SYNC);
  CHECK_FAILS(aclrtQueryEventWaitStatus(event, &status));
  CHECK_OK(aclrtDestroyEvent(event));
}

static void reset_makes_an_event_wait_again(void **state) {
  (void)state;
  aclrtEvent event = event_new(SYNC);
  for (int round = 0; round < 3; round++) {
    CHECK_OK(aclrtStreamWaitEvent(other, event));
    CHECK_OK(aclrtResetEvent(event, other)); /* a task, queued after the wait */
    CHECK_CODE(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(other, 5));
    CHECK_OK(aclrtRecordEvent(event, stream));
    CHECK_OK(aclrtSynchronizeStream(other));
    assert_int_equal(recorded(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
  }
  CHECK_OK(aclrtDestroyEvent(event));
}

static void expired_wait_is_reported_by_synchronize(void **state) {
  (void)state;
  aclrtEvent event = event_new(PLAIN);
  CHECK_OK(aclrtStreamWaitEventWithTimeout(other, event, 1)); /* in seconds */
  CHECK_FAILS(aclrtSynchronizeStream(other));
  CHECK_OK(aclrtSynchronizeStream(other)); /* reported once */

  CHECK_OK(aclrtSetOpWaitTimeout(1)); /* the limit for all later waits */
  CHECK_OK(aclrtStreamWaitEvent(other, event));
  CHECK_FAILS(aclrtSynchronizeStream(other));
  CHECK_OK(aclrtSetOpWaitTimeout(0));

  CHECK_OK(aclrtRecordEvent(event, stream));
  CHECK_OK(aclrtStreamWaitEventWithTimeout(other, event, 1)); /* recorded in time */
  CHECK_OK(aclrtStreamWaitEventWithTimeout(other, event, 0)); /* 0: no limit */
  CHECK_OK(aclrtSynchronizeStream(other));
  CHECK_OK(aclrtDestroyEvent(event));
}

/* ---- timestamps ---- */

static void timestamps_increase_along_a_stream(void **state) {
  (void)state;
  static atomic_int ignored;
  aclrtEvent start = event_new(PLAIN), end = event_new(PLAIN);
  float ms = -1;
  uint64_t from = 0, to = 0;
  CHECK_OK(aclrtRecordEvent(start, stream));
  CHECK_OK(aclrtLaunchHostFunc(stream, nap_then_count, &ignored)); /* 10 ms */
  CHECK_OK(aclrtRecordEvent(end, stream));
  CHECK_OK(aclrtSynchronizeStream(stream));
  CHECK_OK(aclrtEventElapsedTime(&ms, start, end));
  CHECK_OK(aclrtEventGetTimestamp(start, &from));
  CHECK_OK(aclrtEventGetTimestamp(end, &to));
  assert_true(ms >= 9.5f);
  assert_true(to - from >= 9500); /* microseconds */
  CHECK_CODE(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, aclrtEventElapsedTime(&ms, end, start));
  CHECK_OK(aclrtDestroyEvent(start));
  CHECK_OK(aclrtDestroyEvent(end));
}

static void missing_timestamps_give_their_error_code(void **state) {
  (void)state;
  aclrtEvent done = event_new(PLAIN), never = event_new(PLAIN);
  float ms = -1;
  uint64_t stamp = 0;
  CHECK_OK(aclrtRecordEvent(done, stream));
  CHECK_OK(aclrtSynchronizeEvent(done));
  CHECK_CODE(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, aclrtEventGetTimestamp(never, &stamp));
  CHECK_CODE(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, aclrtEventElapsedTime(&ms, done, never));
  CHECK_CODE(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, aclrtEventElapsedTime(&ms, never, done));
  CHECK_OK(aclrtDestroyEvent(done));
  CHECK_OK(aclrtDestroyEvent(never));
}

/* ---- ids and many events ---- */

static void events_have_distinct_ids(void **state) {
  (void)state;
  aclrtEvent a = event_new(SYNC), b = event_new(SYNC);
  uint32_t ids[3] = {0, 0, 0};
  CHECK_OK(aclrtRecordEvent(a, stream));
  CHECK_OK(aclrtRecordEvent(b, stream));
  CHECK_OK(aclrtGetEventId(a, &ids[0]));
  CHECK_OK(aclrtGetEventId(b, &ids[1]));
  CHECK_OK(aclrtGetEventId(a, &ids[2]));
  assert_int_not_equal(ids[0], ids[1]);
  assert_int_equal(ids[0], ids[2]);
  CHECK_OK(aclrtDestroyEvent(a));
  CHECK_OK(aclrtDestroyEvent(b));
}

static void thousands_of_records_and_waits_keep_order(void **state) {
  (void)state;
  enum { N = 2000 };
  uint8_t *p = dev_filled(0, 64);
  for (int i = 1; i <= N; i++) { /* the order alternates between two streams */
    aclrtStream from = i % 2 ? stream : other, to = i % 2 ? other : stream;
    aclrtEvent event = event_new(i % 3 ? EX_SYNC : SYNC);
    CHECK_OK(aclrtMemsetAsync(p, 64, i % 256, 64, from));
    CHECK_OK(aclrtRecordEvent(event, from));
    CHECK_OK(aclrtStreamWaitEvent(to, event));
    CHECK_OK(aclrtDestroyEvent(event));
  }
  CHECK_OK(aclrtSynchronizeDevice());
  assert_dev_filled(p, N % 256, 64);
  CHECK_OK(aclrtFree(p));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      EVENT_TEST(each_kind_permits_the_operations_of_its_row),
      EVENT_TEST(exclusive_flags_cannot_be_combined),
      EVENT_TEST(events_of_a_device_are_limited),
      EVENT_TEST(synchronize_without_a_record_returns),
      EVENT_TEST(record_completes_after_all_earlier_tasks),
      EVENT_TEST(old_query_sees_a_pending_record),
      EVENT_TEST(other_threads_can_wait_for_an_event),
      EVENT_TEST(wait_before_the_first_record_blocks_except_for_ex_events),
      EVENT_TEST(waits_order_tasks_across_streams),
      EVENT_TEST(waits_order_tasks_across_devices),
      EVENT_TEST(two_devices_take_turns),
      EVENT_TEST(captures_stay_on_their_device),
      EVENT_TEST(wait_refers_to_the_last_record_before_it),
      EVENT_TEST(destroy_does_not_wait),
      EVENT_TEST(wait_status_follows_the_wait),
      EVENT_TEST(reset_makes_an_event_wait_again),
      EVENT_TEST(expired_wait_is_reported_by_synchronize),
      EVENT_TEST(timestamps_increase_along_a_stream),
      EVENT_TEST(missing_timestamps_give_their_error_code),
      EVENT_TEST(events_have_distinct_ids),
      EVENT_TEST(thousands_of_records_and_waits_keep_order),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
