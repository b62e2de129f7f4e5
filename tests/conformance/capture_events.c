/* SPDX-License-Identifier: Apache-2.0 */
/* Capture of streams: events recorded outside and waited for inside a capture or the reverse, and task groups that are
 * updated. */
#include "acl_capture.h"

/* ---- events ---- */

static void events_from_outside_are_refused(void **state) {
  (void)state;
  aclrtEvent event = event_new(), never = event_new();
  CHECK_OK(aclrtRecordEvent(event, other));
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  CHECK_OK(aclrtStreamWaitEvent(stream, never)); /* an event that was never recorded does not block */
  CHECK_CODE(107024, aclrtStreamWaitEvent(stream, event));
  end_any();
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyEvent(never));
}

static void events_do_not_connect_two_captures(void **state) {
  (void)state;
  aclrtEvent event = event_new();
  aclmdlRI model = NULL;
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  CHECK_OK(aclmdlRICaptureBegin(other, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
  CHECK_OK(aclrtRecordEvent(event, stream));
  CHECK_CODE(107032, aclrtStreamWaitEvent(other, event));
  CHECK_FAILS(aclmdlRICaptureEnd(other, &model));
  CHECK_FAILS(aclmdlRICaptureEnd(stream, &model));
  CHECK_OK(aclrtDestroyEvent(event));
}

static void two_captures_at_once_give_two_models(void **state) {
  (void)state;
  aclmdlRI second = NULL;
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  CHECK_OK(aclmdlRICaptureBegin(other, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
  add(stream, 1);
  add(other, 10);
  add(stream, 1);
  aclmdlRI first = end();
  add(other, 10);
  CHECK_OK(aclmdlRICaptureEnd(other, &second));
  execute(first, stream);
  assert_all(numbers, 2);
  execute(second, stream);
  assert_all(numbers, 22);
  CHECK_OK(aclmdlRIDestroy(first));
  CHECK_OK(aclmdlRIDestroy(second));
}

static void the_default_stream_cannot_join(void **state) {
  (void)state;
  aclrtEvent event = event_new();
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  CHECK_OK(aclrtRecordEvent(event, stream));
  CHECK_CODE(107031, aclrtStreamWaitEvent(NULL, event));
  end_any();
  CHECK_OK(aclrtDestroyEvent(event));
}

static void only_some_events_are_captured(void **state) {
  (void)state;
  aclrtEvent plain = NULL, with_flag = NULL;
  CHECK_OK(aclrtCreateEvent(&plain));
  CHECK_OK(aclrtCreateEventWithFlag(&with_flag, ACL_EVENT_SYNC));
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  CHECK_CODE(207000, aclrtRecordEvent(plain, stream));
  CHECK_CODE(207000, aclrtRecordEvent(with_flag, stream));
  CHECK_CODE(207000, aclrtStreamWaitEvent(stream, plain));
  end_any();
  CHECK_OK(aclrtDestroyEvent(plain));
  CHECK_OK(aclrtDestroyEvent(with_flag));
}

/* Each execution waits for the external event, which another stream records. */
static void executions_wait_for_external_events(void **state) {
  (void)state;
  aclrtEvent go = NULL, reached = NULL;
  CHECK_OK(aclrtCreateEventWithFlag(&go, ACL_EVENT_EXTERNAL));
  CHECK_OK(aclrtCreateEventWithFlag(&reached, ACL_EVENT_EXTERNAL));
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  add(stream, 1);
  CHECK_OK(aclrtRecordEvent(reached, stream));
  CHECK_OK(aclrtStreamWaitEvent(stream, go));
  CHECK_OK(aclrtResetEvent(go, stream));
  add(stream, 10);
  aclmdlRI model = end();
  for (int i = 0; i < 3; i++) {
    CHECK_OK(aclmdlRIExecuteAsync(model, stream));
    CHECK_OK(aclrtStreamWaitEvent(other, reached));
    CHECK_OK(aclrtResetEvent(reached, other));
    CHECK_OK(aclrtSynchronizeStream(other));
    assert_all(numbers, (float)(11 * i + 1));
    CHECK_CODE(507046, aclrtSynchronizeStreamWithTimeout(stream, 20));
    CHECK_OK(aclrtRecordEvent(go, other));
    CHECK_OK(aclrtSynchronizeStream(stream));
    assert_all(numbers, (float)(11 * (i + 1)));
  }
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtDestroyEvent(go));
  CHECK_OK(aclrtDestroyEvent(reached));
}

/* With the flag "external", an execution waits for the record submitted before it, and its own record serves waits
 * submitted after it. */
static void external_flags_connect_a_capture_with_other_streams(void **state) {
  (void)state;
  aclrtEvent in = event_new(), out = event_new();
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  CHECK_OK(aclrtStreamWaitEventWithFlag(stream, in, 0, ACL_EVENT_WAIT_EXTERNAL));
  add(stream, 10);
  CHECK_OK(aclrtRecordEventWithFlag(out, stream, ACL_EVENT_RECORD_EXTERNAL));
  aclmdlRI model = end();
  for (int i = 0; i < 3; i++) {
    gate *g = gate_close(other);
    add(other, 1);
    CHECK_OK(aclrtRecordEventWithFlag(in, other, ACL_EVENT_RECORD_DEFAULT));
    CHECK_OK(aclmdlRIExecuteAsync(model, stream));
    CHECK_CODE(507046, aclrtSynchronizeStreamWithTimeout(stream, 20));
    assert_all(numbers, (float)(111 * i));
    CHECK_OK(aclrtStreamWaitEventWithFlag(other, out, 0, ACL_EVENT_WAIT_DEFAULT));
    add(other, 100);
    gate_open(g);
    CHECK_OK(aclrtSynchronizeStream(other));
    assert_all(numbers, (float)(111 * (i + 1)));
  }
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtDestroyEvent(in));
  CHECK_OK(aclrtDestroyEvent(out));
}

static void flags_of_events_are_checked(void **state) {
  (void)state;
  aclrtEvent event = event_new(), fresh = event_new(), other_kind = NULL;
  CHECK_OK(aclrtCreateEventExWithFlag(&other_kind, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
  CHECK_FAILS(aclrtRecordEventWithFlag(event, stream, 2));
  CHECK_OK(aclrtRecordEventWithFlag(event, stream, ACL_EVENT_RECORD_DEFAULT));
  CHECK_OK(aclrtStreamWaitEventWithFlag(other, event, 0, ACL_EVENT_WAIT_DEFAULT));
  CHECK_OK(aclrtSynchronizeStream(stream));
  CHECK_FAILS(aclrtRecordEventWithFlag(fresh, stream, ACL_EVENT_RECORD_EXTERNAL)); /* not captured */
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  /* recorded with the default flag before */
  CHECK_FAILS(aclrtRecordEventWithFlag(event, stream, ACL_EVENT_RECORD_EXTERNAL));
  CHECK_FAILS(aclrtRecordEventWithFlag(other_kind, stream, ACL_EVENT_RECORD_EXTERNAL));
  CHECK_FAILS(aclrtStreamWaitEventWithFlag(stream, fresh, 1, ACL_EVENT_WAIT_EXTERNAL));
  CHECK_OK(aclrtRecordEventWithFlag(fresh, stream, ACL_EVENT_RECORD_EXTERNAL));
  CHECK_FAILS(aclrtRecordEventWithFlag(fresh, stream, ACL_EVENT_RECORD_EXTERNAL)); /* only once per capture */
  end_any();
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyEvent(fresh));
  CHECK_OK(aclrtDestroyEvent(other_kind));
}

/* ---- task groups ---- */

/* As in the documentation's example: the execution has begun when the update is submitted, and uses the updated
 * parameters. */
static void an_execution_takes_the_updated_parameters(void **state) {
  (void)state;
  aclrtEvent updated = NULL;
  aclrtTaskGrp group = NULL;
  CHECK_OK(aclrtCreateEventWithFlag(&updated, ACL_EVENT_EXTERNAL));
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  add(stream, 1);
  CHECK_OK(aclrtStreamWaitEvent(stream, updated));
  CHECK_OK(aclrtResetEvent(updated, stream));
  CHECK_OK(aclmdlRICaptureTaskGrpBegin(stream));
  add(stream, 10);
  add(stream, 20);
  CHECK_OK(aclmdlRICaptureTaskGrpEnd(stream, &group));
  aclmdlRI model = end();
  assert_non_null(group);
  float want = 0;
  for (int i = 0; i < 4; i++) {
    CHECK_OK(aclmdlRIExecuteAsync(model, stream));
    CHECK_OK(aclmdlRICaptureTaskUpdateBegin(other, group));
    add(other, (float)(100 * i));
    add(other, (float)(1000 * i));
    CHECK_OK(aclmdlRICaptureTaskUpdateEnd(other));
    CHECK_OK(aclrtRecordEvent(updated, other));
    CHECK_OK(aclrtSynchronizeStream(other));
    CHECK_OK(aclrtSynchronizeStream(stream));
    assert_all(numbers, want += (float)(1 + 1100 * i));
  }
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtDestroyEvent(updated));
}

static void an_update_applies_to_later_executions(void **state) {
  (void)state;
  aclrtTaskGrp group = NULL;
  float *elsewhere = dev_filled(0, BYTES);
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  CHECK_OK(aclmdlRICaptureTaskGrpBegin(stream));
  add(stream, 1);
  CHECK_OK(aclmdlRICaptureTaskGrpEnd(stream, &group));
  aclmdlRI model = end();
  execute(model, stream);
  CHECK_OK(aclmdlRICaptureTaskUpdateBegin(stream, group));
  add_to(stream, elsewhere, 7, elsewhere);
  CHECK_OK(aclmdlRICaptureTaskUpdateEnd(stream));
  execute(model, stream);
  execute(model, stream);
  assert_all(numbers, 1);
  assert_all(elsewhere, 14);
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtFree(elsewhere));
}

/* A group may hold only operators, all in one stream. */
static void groups_refuse_tasks_that_are_not_allowed(void **state) {
  (void)state;
  aclrtTaskGrp group = NULL;
  aclrtEvent fork = event_new();
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  CHECK_OK(aclmdlRICaptureTaskGrpBegin(stream));
  CHECK_CODE(507009, aclrtMemsetAsync(numbers, BYTES, 0, BYTES, stream));
  end_any();
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  CHECK_OK(aclrtRecordEvent(fork, stream));
  CHECK_OK(aclrtStreamWaitEvent(other, fork));
  CHECK_OK(aclmdlRICaptureTaskGrpBegin(stream));
  CHECK_CODE(107034, aclrtMemsetAsync(numbers, BYTES, 0, BYTES, other));
  CHECK_FAILS(aclmdlRICaptureTaskGrpEnd(stream, &group));
  assert_null(group);
  end_any();
  CHECK_OK(aclrtDestroyEvent(fork));
}

static void begin_and_end_of_groups_must_be_paired(void **state) {
  (void)state;
  aclrtTaskGrp group = NULL;
  aclmdlRI model = NULL;
  CHECK_CODE(107029, aclmdlRICaptureTaskGrpBegin(stream));
  CHECK_CODE(107029, aclmdlRICaptureTaskGrpEnd(stream, &group));
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  CHECK_CODE(107033, aclmdlRICaptureTaskGrpEnd(stream, &group));
  CHECK_OK(aclmdlRICaptureTaskGrpBegin(stream));
  CHECK_CODE(107033, aclmdlRICaptureTaskGrpBegin(stream));
  CHECK_CODE(107033, aclmdlRICaptureEnd(stream, &model));
  assert_null(model);
}

static void begin_and_end_of_updates_must_be_paired(void **state) {
  (void)state;
  aclrtTaskGrp group = NULL;
  aclrtStream third = stream_new();
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  CHECK_OK(aclmdlRICaptureTaskGrpBegin(stream));
  add(stream, 1);
  CHECK_OK(aclmdlRICaptureTaskGrpEnd(stream, &group));
  aclmdlRI model = end();
  CHECK_CODE(107033, aclmdlRICaptureTaskUpdateEnd(other));
  CHECK_FAILS(aclmdlRICaptureTaskUpdateBegin(other, NULL));
  CHECK_OK(aclmdlRICaptureTaskUpdateBegin(other, group));
  CHECK_CODE(107033, aclmdlRICaptureTaskUpdateBegin(other, group));
  CHECK_CODE(107033, aclmdlRICaptureTaskUpdateBegin(third, group));
  CHECK_FAILS(aclmdlRICaptureTaskUpdateEnd(other)); /* one task of the group is missing */
  CHECK_OK(aclmdlRICaptureTaskUpdateBegin(third, group));
  add(third, 5);
  CHECK_OK(aclmdlRICaptureTaskUpdateEnd(third));
  CHECK_OK(aclrtSynchronizeStream(third));
  execute(model, stream);
  assert_all(numbers, 5);
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  CHECK_FAILS(aclmdlRICaptureTaskUpdateBegin(stream, group));
  CHECK_OK(aclmdlRIDestroy(end()));
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtDestroyStream(third));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      CAPTURE_TEST(events_from_outside_are_refused),
      CAPTURE_TEST(events_do_not_connect_two_captures),
      CAPTURE_TEST(two_captures_at_once_give_two_models),
      CAPTURE_TEST(the_default_stream_cannot_join),
      CAPTURE_TEST(only_some_events_are_captured),
      CAPTURE_TEST(executions_wait_for_external_events),
      CAPTURE_TEST(external_flags_connect_a_capture_with_other_streams),
      CAPTURE_TEST(flags_of_events_are_checked),
      CAPTURE_TEST(an_execution_takes_the_updated_parameters),
      CAPTURE_TEST(an_update_applies_to_later_executions),
      CAPTURE_TEST(groups_refuse_tasks_that_are_not_allowed),
      CAPTURE_TEST(begin_and_end_of_groups_must_be_paired),
      CAPTURE_TEST(begin_and_end_of_updates_must_be_paired),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
