/* SPDX-License-Identifier: Apache-2.0 */
/* Events shared between processes: each may record, wait and query. */
#include "acl_test.h"
#include "peer_process.h"

/* ---- the other process ---- */

enum { NOT_YET = 1 }; /* what QUERY answers */

typedef enum { OPEN, OPEN_ON_LAST, RECORD, RECORD_LATER, LET_GO, WAIT, SYNCHRONIZE, QUERY, EXPORT, DESTROY } deed;

typedef struct {
  deed deed;
  aclrtIpcEventHandle handle;
} order;

/* The event, and a notify that a record waits for. */
static aclrtEvent event_here;
static aclrtNotify gate_here;
static aclrtStream stream_here;

static aclError open_event(const order *o, int32_t device) {
  aclError code = stream_here ? ACL_SUCCESS : aclrtSetDevice(device);
  if (!code && !stream_here) code = aclrtCreateStream(&stream_here);
  if (!code && !gate_here) code = aclrtCreateNotify(&gate_here, 0);
  return code ? code : aclrtIpcOpenEventHandle(o->handle, &event_here);
}

static aclError record_later(void) {
  const aclError code = aclrtWaitAndResetNotify(gate_here, stream_here, 0);
  return code ? code : aclrtRecordEvent(event_here, stream_here);
}

static aclError let_go(void) {
  const aclError code = aclrtRecordNotify(gate_here, NULL);
  return code ? code : aclrtSynchronizeStream(stream_here);
}

static aclError wait_here(void) {
  const aclError code = aclrtStreamWaitEvent(stream_here, event_here);
  return code ? code : aclrtSynchronizeStreamWithTimeout(stream_here, 20);
}

static aclError obey(const order *o) {
  uint32_t n = 1;
  aclrtIpcEventHandle handle;
  aclrtEventRecordedStatus status;
  switch (o->deed) {
  case OPEN: return open_event(o, 0);
  case OPEN_ON_LAST:
    if (aclrtGetDeviceCount(&n)) return 1;
    return open_event(o, (int32_t)n - 1);
  case RECORD: return aclrtRecordEvent(event_here, stream_here);
  case RECORD_LATER: return record_later();
  case LET_GO: return let_go();
  case WAIT: return wait_here();
  case SYNCHRONIZE: return aclrtSynchronizeEventWithTimeout(event_here, 20);
  case QUERY:
    if (aclrtQueryEventStatus(event_here, &status)) return 1;
    return status == ACL_EVENT_RECORDED_STATUS_COMPLETE ? ACL_SUCCESS : NOT_YET;
  case EXPORT: return aclrtIpcGetEventHandle(event_here, &handle);
  case DESTROY: return aclrtDestroyEvent(event_here);
  }
  return 1;
}

static int other_main(void) {
  if (aclInit(NULL) || aclrtSetDevice(0)) return 2;
  for (order o; peer_next(&o, sizeof o);) {
    const aclError code = obey(&o);
    peer_answer(&code, sizeof code);
  }
  return 0;
}

/* ---- this process ---- */

static aclError told(peer *p, deed d) {
  const order o = {.deed = d};
  aclError code;
  peer_tell(p, &o, sizeof o);
  peer_hear(p, &code, sizeof code);
  return code;
}

static aclError opened(peer *p, deed d, const aclrtIpcEventHandle *handle) {
  const order o = {.deed = d, .handle = *handle};
  aclError code;
  peer_tell(p, &o, sizeof o);
  peer_hear(p, &code, sizeof code);
  return code;
}

static aclrtEvent exported(aclrtIpcEventHandle *handle) {
  aclrtEvent event;
  CHECK_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
  CHECK_OK(aclrtIpcGetEventHandle(event, handle));
  return event;
}

static bool is_recorded(aclrtEvent event) {
  aclrtEventRecordedStatus status;
  CHECK_OK(aclrtQueryEventStatus(event, &status));
  return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

/* A record that waits for the notify, with its stream. */
static void record_behind(aclrtEvent event, aclrtNotify notify, aclrtStream stream) {
  CHECK_OK(aclrtWaitAndResetNotify(notify, stream, 0));
  CHECK_OK(aclrtRecordEvent(event, stream));
}

static void another_process_waits_for_a_record(void **state) {
  (void)state;
  aclrtIpcEventHandle handle;
  aclrtNotify notify;
  peer p = peer_start("other", NULL);
  aclrtEvent event = exported(&handle);
  aclrtStream stream = stream_new();
  CHECK_OK(aclrtCreateNotify(&notify, 0));
  CHECK_OK(opened(&p, OPEN_ON_LAST, &handle));
  CHECK_OK(told(&p, QUERY)); /* no record yet */
  CHECK_OK(told(&p, WAIT));
  for (int i = 0; i < 3; ++i) {
    record_behind(event, notify, stream);
    CHECK_CODE(NOT_YET, told(&p, QUERY));
    CHECK_CODE(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, told(&p, SYNCHRONIZE));
    CHECK_CODE(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, told(&p, WAIT));
    CHECK_OK(aclrtRecordNotify(notify, NULL));
    CHECK_OK(aclrtSynchronizeEvent(event));
    CHECK_OK(told(&p, QUERY));
    CHECK_OK(told(&p, SYNCHRONIZE));
    CHECK_OK(told(&p, WAIT));
  }
  CHECK_OK(told(&p, DESTROY));
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyNotify(notify));
  CHECK_OK(aclrtDestroyStream(stream));
  peer_end(&p);
}

static void this_process_waits_for_a_record_of_another(void **state) {
  (void)state;
  aclrtIpcEventHandle handle;
  peer p = peer_start("other", NULL);
  aclrtEvent event = exported(&handle);
  aclrtStream stream = stream_new();
  uint8_t *after = dev_filled(0, 64);
  CHECK_OK(opened(&p, OPEN, &handle));
  for (int i = 1; i < 4; ++i) {
    CHECK_OK(told(&p, RECORD_LATER));
    assert_false(is_recorded(event));
    CHECK_CODE(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, aclrtSynchronizeEventWithTimeout(event, 5));
    CHECK_OK(aclrtStreamWaitEvent(stream, event));
    CHECK_OK(aclrtMemsetAsync(after, 64, i, 64, stream));
    nap_ms(2);
    assert_int_equal(stream_status(stream), ACL_STREAM_STATUS_NOT_READY);
    CHECK_OK(told(&p, LET_GO));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtSynchronizeEvent(event));
    assert_true(is_recorded(event));
    assert_dev_filled(after, i, 64);
  }
  CHECK_OK(told(&p, RECORD_LATER));
  CHECK_FAILS(aclrtStreamWaitEventWithTimeout(stream, event, 1) || aclrtSynchronizeStream(stream));
  CHECK_OK(told(&p, LET_GO));
  CHECK_OK(told(&p, DESTROY));
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFree(after));
  peer_end(&p);
}

/* A later record, by whichever process, does not end waits for earlier ones. */
static void a_wait_is_for_the_record_before_it(void **state) {
  (void)state;
  aclrtIpcEventHandle handle;
  peer p = peer_start("other", NULL);
  aclrtEvent event = exported(&handle);
  aclrtStream waiter = stream_new(), recorder = stream_new();
  CHECK_OK(opened(&p, OPEN, &handle));
  CHECK_OK(told(&p, RECORD_LATER));
  CHECK_OK(aclrtStreamWaitEvent(waiter, event));
  CHECK_OK(aclrtRecordEvent(event, recorder));
  CHECK_OK(aclrtSynchronizeEvent(event)); /* the later one */
  CHECK_OK(told(&p, QUERY));
  nap_ms(2);
  assert_int_equal(stream_status(waiter), ACL_STREAM_STATUS_NOT_READY);
  CHECK_OK(told(&p, LET_GO));
  CHECK_OK(aclrtSynchronizeStream(waiter));
  CHECK_OK(told(&p, DESTROY));
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyStream(waiter));
  CHECK_OK(aclrtDestroyStream(recorder));
  peer_end(&p);
}

static void sharing_keeps_earlier_records_and_waits(void **state) {
  (void)state;
  aclrtIpcEventHandle handle, again;
  aclrtEvent event;
  aclrtNotify notify;
  peer p = peer_start("other", NULL);
  aclrtStream stream = stream_new(), waiter = stream_new();
  CHECK_OK(aclrtCreateNotify(&notify, 0));
  CHECK_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
  for (int i = 0; i < 600; ++i) CHECK_OK(aclrtRecordEvent(event, waiter));
  CHECK_OK(aclrtSynchronizeEvent(event));
  record_behind(event, notify, stream);
  CHECK_OK(aclrtStreamWaitEvent(waiter, event));
  nap_ms(2);
  CHECK_OK(aclrtIpcGetEventHandle(event, &handle));
  CHECK_OK(aclrtIpcGetEventHandle(event, &again));
  assert_memory_equal(&handle, &again, sizeof handle);
  CHECK_OK(opened(&p, OPEN, &handle));
  CHECK_CODE(NOT_YET, told(&p, QUERY));
  CHECK_CODE(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, told(&p, WAIT));
  assert_int_equal(stream_status(waiter), ACL_STREAM_STATUS_NOT_READY);
  CHECK_OK(aclrtRecordNotify(notify, NULL));
  CHECK_OK(aclrtSynchronizeStream(waiter));
  CHECK_OK(told(&p, QUERY));
  CHECK_OK(told(&p, WAIT));
  CHECK_OK(told(&p, DESTROY));
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyNotify(notify));
  CHECK_OK(aclrtDestroyStream(waiter));
  CHECK_OK(aclrtDestroyStream(stream));
  peer_end(&p);
}

static void any_process_may_destroy_it_first(void **state) {
  (void)state;
  aclrtIpcEventHandle handle, other;
  peer p = peer_start("other", NULL), late = peer_start("other", NULL);
  aclrtEvent event = exported(&handle);
  CHECK_OK(opened(&p, OPEN, &handle));
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(told(&p, RECORD));
  assert_int_not_equal(opened(&late, OPEN, &handle), ACL_SUCCESS);
  event = exported(&other);
  assert_memory_not_equal(&handle, &other, sizeof handle);
  CHECK_OK(told(&p, DESTROY));
  CHECK_OK(opened(&p, OPEN, &other));
  CHECK_OK(told(&p, DESTROY));
  CHECK_OK(opened(&p, OPEN, &other)); /* once more */
  CHECK_OK(told(&p, RECORD_LATER));
  peer_end(&p);
  CHECK_OK(aclrtDestroyEvent(event));
  peer_end(&late);
}

static void events_between_processes_have_limits(void **state) {
  (void)state;
  aclrtIpcEventHandle handle;
  aclrtEventStatus old;
  aclrtEventWaitStatus waits;
  aclrtEvent plain, opened_here, event;
  aclmdlRI graph = NULL;
  uint32_t id;
  uint64_t time;
  float ms;
  peer p = peer_start("other", NULL);
  aclrtStream stream = stream_new();
  event = exported(&handle);
  CHECK_OK(aclrtCreateEventExWithFlag(&plain, ACL_EVENT_SYNC));
  CHECK_FAILS(aclrtIpcGetEventHandle(plain, &handle));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtIpcGetEventHandle(NULL, &handle));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtIpcGetEventHandle(event, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtIpcOpenEventHandle(handle, NULL));
  CHECK_FAILS(aclrtIpcOpenEventHandle((aclrtIpcEventHandle){"no handle"}, &opened_here));
  CHECK_FAILS(aclrtResetEvent(event, stream));
  CHECK_FAILS(aclrtQueryEvent(event, &old));
  CHECK_FAILS(aclrtQueryEventWaitStatus(event, &waits));
  CHECK_FAILS(aclrtGetEventId(event, &id));
  CHECK_OK(aclrtRecordEvent(event, stream));
  CHECK_OK(aclrtSynchronizeStream(stream));
  CHECK_FAILS(aclrtEventElapsedTime(&ms, event, event));
  CHECK_FAILS(aclrtEventGetTimestamp(event, &time));
  CHECK_OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  CHECK_FAILS(aclrtRecordEvent(event, stream));
  (void)aclmdlRICaptureEnd(stream, &graph);
  if (graph) CHECK_OK(aclmdlRIDestroy(graph));
  CHECK_OK(opened(&p, OPEN, &handle));
  assert_int_not_equal(told(&p, EXPORT), ACL_SUCCESS); /* only where it was created */
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyEvent(plain));
  CHECK_OK(aclrtDestroyStream(stream));
  peer_end(&p);
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "other")) return other_main();
  const struct CMUnitTest tests[] = {
      TEST(another_process_waits_for_a_record), TEST(this_process_waits_for_a_record_of_another),
      TEST(a_wait_is_for_the_record_before_it), TEST(sharing_keeps_earlier_records_and_waits),
      TEST(any_process_may_destroy_it_first),   TEST(events_between_processes_have_limits),
  };
  return cmocka_run_group_tests_name("events between processes", tests, device_up, device_down);
}
