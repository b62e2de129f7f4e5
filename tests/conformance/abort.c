/* SPDX-License-Identifier: Apache-2.0 */
/* aclrtDeviceTaskAbort: queued tasks are dropped, and streams remain usable afterwards. */
#include "acl_test.h"

/* A stream that waits for a notify that nobody records, and a block that a task after that wait would fill. */
typedef struct {
  aclrtStream stream;
  aclrtNotify notify;
  uint8_t *block;
} stuck;

enum { BLOCK = 4096, BEFORE = 1, AFTER = 2 };

static stuck stuck_new(void) {
  stuck s = {.stream = stream_new(), .block = dev_filled(BEFORE, BLOCK)};
  CHECK_OK(aclrtCreateNotify(&s.notify, 0));
  CHECK_OK(aclrtWaitAndResetNotify(s.notify, s.stream, 0));
  CHECK_OK(aclrtMemsetAsync(s.block, BLOCK, AFTER, BLOCK, s.stream));
  return s;
}

static void stuck_free(stuck *s) {
  CHECK_OK(aclrtDestroyStream(s->stream));
  CHECK_OK(aclrtDestroyNotify(s->notify));
  CHECK_OK(aclrtFree(s->block));
}

/* Checks that the stream is idle, that none of the queued tasks ran, and that it accepts new tasks. */
static void check_afresh(stuck *s) {
  CHECK_OK(aclrtSynchronizeStream(s->stream));
  assert_dev_filled(s->block, BEFORE, BLOCK);
  CHECK_OK(aclrtMemsetAsync(s->block, BLOCK, AFTER, BLOCK, s->stream));
  CHECK_OK(aclrtSynchronizeStream(s->stream));
  assert_dev_filled(s->block, AFTER, BLOCK);
}

static void queued_tasks_are_dropped(void **state) {
  (void)state;
  stuck a = stuck_new(), b = stuck_new();
  CHECK_OK(aclrtDeviceTaskAbort(0, 0));
  assert_int_equal(stream_status(a.stream), ACL_STREAM_STATUS_COMPLETE);
  check_afresh(&a);
  CHECK_OK(aclrtDeviceTaskAbort(0, 1000)); /* with nothing to drop */
  check_afresh(&b);
  stuck_free(&a);
  stuck_free(&b);
}

/* Tasks that wait for an aborted task do not run. */
static void tasks_that_wait_for_a_dropped_record_are_dropped(void **state) {
  (void)state;
  stuck first = stuck_new(), then = {.stream = stream_new(), .block = dev_filled(BEFORE, BLOCK)};
  aclrtEvent event;
  CHECK_OK(aclrtCreateNotify(&then.notify, 0));
  CHECK_OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
  CHECK_OK(aclrtRecordEvent(event, first.stream));
  CHECK_OK(aclrtStreamWaitEvent(then.stream, event));
  CHECK_OK(aclrtMemsetAsync(then.block, BLOCK, AFTER, BLOCK, then.stream));
  CHECK_OK(aclrtRecordNotify(then.notify, then.stream));
  CHECK_OK(aclrtWaitAndResetNotify(then.notify, NULL, 0));
  CHECK_OK(aclrtDeviceTaskAbort(0, 0));
  check_afresh(&then);
  check_afresh(&first);
  CHECK_OK(aclrtSynchronizeDevice());
  CHECK_OK(aclrtRecordEvent(event, first.stream)); /* the event is usable again */
  CHECK_OK(aclrtStreamWaitEvent(then.stream, event));
  CHECK_OK(aclrtSynchronizeStream(then.stream));
  CHECK_OK(aclrtDestroyEvent(event));
  stuck_free(&first);
  stuck_free(&then);
}

/* The abort covers the streams of all contexts of the device. */
static void abort_covers_streams_of_all_contexts(void **state) {
  (void)state;
  aclrtContext mine, other;
  CHECK_OK(aclrtGetCurrentContext(&mine));
  stuck a = stuck_new();
  CHECK_OK(aclrtCreateContext(&other, 0));
  stuck b = stuck_new();
  CHECK_OK(aclrtDeviceTaskAbort(0, 0));
  check_afresh(&b);
  stuck_free(&b);
  CHECK_OK(aclrtDestroyContext(other));
  CHECK_OK(aclrtSetCurrentContext(mine));
  check_afresh(&a);
  stuck_free(&a);
}

/* ---- registered callbacks ---- */

enum { MOST_CALLS = 8 };

static struct {
  aclrtStream stream;
  void *block;
  int n_calls;
  struct call {
    int32_t device;
    aclrtDeviceTaskAbortStage stage;
    uint32_t timeout;
    aclError submitted, synchronized;
  } calls[MOST_CALLS];
  int32_t answer;
} seen;

static int32_t note_stage(int32_t device, aclrtDeviceTaskAbortStage stage, uint32_t timeout, void *args) {
  struct call *c = &seen.calls[seen.n_calls++ % MOST_CALLS];
  *c = (struct call){.device = device, .stage = stage, .timeout = timeout};
  c->submitted = aclrtMemsetAsync(seen.block, BLOCK, AFTER, BLOCK, seen.stream);
  c->synchronized = aclrtSynchronizeStream(seen.stream);
  return args == &seen ? seen.answer : -1;
}

static void callbacks_run_before_and_after_the_abort(void **state) {
  (void)state;
  stuck s = stuck_new();
  memset(&seen, 0, sizeof seen);
  seen.stream = s.stream;
  seen.block = s.block;
  CHECK_OK(aclrtSetDeviceTaskAbortCallback("test", note_stage, &seen));
  CHECK_FAILS(aclrtSetDeviceTaskAbortCallback("test", note_stage, &seen));
  CHECK_OK(aclrtDeviceTaskAbort(0, 100000));
  CHECK_OK(aclrtSetDeviceTaskAbortCallback("test", NULL, NULL));
  assert_int_equal(seen.n_calls, 2);
  for (int i = 0; i < 2; ++i) {
    const struct call *c = &seen.calls[i];
    assert_int_equal(c->device, 0);
    assert_int_equal(c->stage, i ? ACL_RT_DEVICE_TASK_ABORT_POST : ACL_RT_DEVICE_TASK_ABORT_PRE);
    assert_in_range(c->timeout, 1, 100000);
    assert_int_equal(c->submitted, ACL_ERROR_RT_DEVICE_TASK_ABORT);
    assert_int_equal(c->synchronized, ACL_ERROR_RT_DEVICE_TASK_ABORT);
  }
  check_afresh(&s);
  CHECK_OK(aclrtDeviceTaskAbort(0, 0));
  assert_int_equal(seen.n_calls, 2); /* no further calls */
  stuck_free(&s);
}

static void a_failing_callback_fails_the_abort(void **state) {
  (void)state;
  stuck s = stuck_new();
  memset(&seen, 0, sizeof seen);
  seen.stream = s.stream;
  seen.block = s.block;
  seen.answer = 1;
  CHECK_OK(aclrtSetDeviceTaskAbortCallback("test", note_stage, &seen));
  CHECK_FAILS(aclrtDeviceTaskAbort(0, 0));
  assert_int_equal(seen.n_calls, 1);
  assert_int_equal(seen.calls[0].timeout, 0);
  CHECK_OK(aclrtSetDeviceTaskAbortCallback("test", NULL, NULL));
  CHECK_OK(aclrtDeviceTaskAbort(0, 0));
  check_afresh(&s);
  stuck_free(&s);
}

static void invalid_arguments_are_refused(void **state) {
  (void)state;
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, aclrtDeviceTaskAbort(0, 36 * 60 * 1000 + 1));
  CHECK_CODE(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceTaskAbort(-1, 0));
  CHECK_CODE(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceTaskAbort(999, 0));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtSetDeviceTaskAbortCallback(NULL, note_stage, NULL));
  CHECK_FAILS(aclrtSetDeviceTaskAbortCallback("", note_stage, NULL));
}

static void abort_of_a_device_that_is_not_set(void **state) {
  (void)state;
  CHECK_OK(aclrtResetDevice(0));
  CHECK_CODE(ACL_ERROR_RT_CONTEXT_NULL, aclrtDeviceTaskAbort(0, 0));
  CHECK_OK(aclrtSetDevice(0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(queued_tasks_are_dropped),
      TEST(tasks_that_wait_for_a_dropped_record_are_dropped),
      TEST(abort_covers_streams_of_all_contexts),
      TEST(callbacks_run_before_and_after_the_abort),
      TEST(a_failing_callback_fails_the_abort),
      TEST(invalid_arguments_are_refused),
      TEST(abort_of_a_device_that_is_not_set),
  };
  return cmocka_run_group_tests_name("abort", tests, device_up, device_down);
}
