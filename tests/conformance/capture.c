/* SPDX-License-Identifier: Apache-2.0 */
/* Capture of streams into models: the tasks that are recorded, the effect of an execution, and the calls that a capture
 * forbids. */
#include "acl_capture.h"

/* ---- record and execute ---- */

static void captured_tasks_run_when_executed(void **state) {
  (void)state;
  add(stream, 1); /* before the capture: runs at once */
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  add(stream, 10);
  add(stream, 100);
  aclmdlRI model = end();
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_all(numbers, 1);
  for (int i = 1; i <= 5; i++) {
    execute(model, i % 2 ? stream : other);
    assert_all(numbers, (float)(1 + 110 * i));
  }
  add(stream, 1000); /* after the capture the stream runs tasks at once again */
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_all(numbers, 1551);
  CHECK_OK(aclmdlRIDestroy(model));
}

static void executions_read_the_data_present_when_they_run(void **state) {
  (void)state;
  float *in = dev_filled(0, BYTES), *out = dev_filled(0, BYTES), *host = pinned_new(BYTES), *back = pinned_new(BYTES);
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  CHECK_OK(aclrtMemcpyAsync(in, BYTES, host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  add_to(stream, in, 1, out);
  CHECK_OK(aclrtMemcpyAsync(back, BYTES, out, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  aclmdlRI model = end();
  for (int round = 0; round < 4; round++) {
    for (int i = 0; i < N; i++) host[i] = (float)(round * 100 + i);
    execute(model, stream);
    for (int i = 0; i < N; i++) assert_true(back[i] == (float)(round * 100 + i + 1));
  }
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtFree(in));
  CHECK_OK(aclrtFree(out));
  CHECK_OK(aclrtFreeHost(host));
  CHECK_OK(aclrtFreeHost(back));
}

static void all_kinds_of_tasks_are_captured(void **state) {
  (void)state;
  static atomic_int calls;
  uint8_t *p = dev_filled(0, 64), *q = dev_filled(0, 64);
  uint64_t *word = dev_filled(0, 64), seen = 0;
  atomic_store(&calls, 0);
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  CHECK_OK(aclrtMemsetAsync(p, 64, 5, 64, stream));
  CHECK_OK(aclrtLaunchHostFunc(stream, count_one, &calls));
  CHECK_OK(aclrtMemcpyAsync(q, 64, p, 32, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
  CHECK_OK(aclrtMemcpy2dAsync(q + 32, 16, p, 16, 8, 2, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
  CHECK_OK(aclrtValueWrite(word, 7, 0, stream));
  CHECK_OK(aclrtValueWait(word, 7, ACL_STREAM_WAIT_VALUE_EQ, stream));
  add(stream, 1);
  aclmdlRI model = end();
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_int_equal(atomic_load(&calls), 0);
  assert_dev_filled(p, 0, 64);
  assert_dev_filled(word, 0, 8);
  for (int round = 1; round <= 3; round++) {
    CHECK_OK(aclrtMemset(q, 64, 0, 64));
    CHECK_OK(aclrtMemset(word, 8, 0, 8));
    execute(model, stream);
    assert_int_equal(atomic_load(&calls), round);
    assert_dev_filled(p, 5, 64);
    assert_dev_filled(q, 5, 40);
    assert_dev_filled(q + 40, 0, 8);
    assert_dev_filled(q + 48, 5, 8);
    from_dev(&seen, word, sizeof seen);
    assert_int_equal(seen, 7);
    assert_all(numbers, (float)round);
  }
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtFree(q));
  CHECK_OK(aclrtFree(word));
}

static void an_empty_capture_gives_a_model(void **state) {
  (void)state;
  begin(ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
  aclmdlRI model = end();
  execute(model, stream);
  CHECK_OK(aclmdlRIDestroy(model));
}

/* Executions of one model never overlap, whichever streams they run in. */
static void executions_in_two_streams_do_not_overlap(void **state) {
  (void)state;
  enum { ROUNDS = 200 };
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  for (int i = 0; i < 20; i++) add(stream, 1);
  aclmdlRI model = end();
  for (int i = 0; i < ROUNDS; i++) CHECK_OK(aclmdlRIExecuteAsync(model, i % 3 ? stream : other));
  CHECK_OK(aclrtSynchronizeDevice());
  assert_all(numbers, 20 * ROUNDS);
  CHECK_OK(aclmdlRIDestroy(model));
}

static void the_default_stream_can_execute_a_model(void **state) {
  (void)state;
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  add(stream, 3);
  aclmdlRI model = end();
  execute(model, NULL);
  assert_all(numbers, 3);
  CHECK_OK(aclmdlRIDestroy(model));
}

/* ---- other streams ---- */

/* The captured stream makes two more streams join the capture, the second through the first, and joins them again at
 * the end. */
static void streams_join_a_capture_and_return(void **state) {
  (void)state;
  aclrtStream third = stream_new();
  aclrtEvent fork = event_new(), on = event_new(), back = event_new(), home = event_new();
  float *a = dev_filled(0, BYTES), *b = dev_filled(0, BYTES), *c = dev_filled(0, BYTES);
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  add_to(stream, numbers, 1, a);
  CHECK_OK(aclrtRecordEvent(fork, stream));
  CHECK_OK(aclrtStreamWaitEvent(other, fork));
  assert_int_equal(state_of(other), ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  add_to(other, a, 10, b);
  CHECK_OK(aclrtRecordEvent(on, other));
  CHECK_OK(aclrtStreamWaitEvent(third, on));
  add_to(third, b, 100, c);
  CHECK_OK(aclrtRecordEvent(back, third));
  CHECK_OK(aclrtStreamWaitEvent(other, back));
  add_to(other, c, 1000, c);
  CHECK_OK(aclrtRecordEvent(home, other));
  CHECK_OK(aclrtStreamWaitEvent(stream, home));
  add_to(stream, c, 10000, numbers);
  aclmdlRI model = end();
  CHECK_OK(aclrtDestroyEvent(fork));
  CHECK_OK(aclrtDestroyEvent(on));
  CHECK_OK(aclrtDestroyEvent(back));
  CHECK_OK(aclrtDestroyEvent(home));
  CHECK_OK(aclrtDestroyStream(third));
  assert_int_equal(state_of(other), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  for (int i = 1; i <= 20; i++) {
    execute(model, i % 2 ? stream : other);
    assert_all(numbers, (float)(11111 * i));
  }
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtFree(a));
  CHECK_OK(aclrtFree(b));
  CHECK_OK(aclrtFree(c));
}

/* After an event has been recorded twice in a capture, waits refer to the second record. */
static void a_captured_event_may_be_used_again(void **state) {
  (void)state;
  aclrtEvent event = event_new();
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  for (int i = 0; i < 3; i++) {
    add(stream, 1);
    CHECK_OK(aclrtRecordEvent(event, stream));
    CHECK_OK(aclrtStreamWaitEvent(other, event));
    add(other, 10);
    CHECK_OK(aclrtRecordEvent(event, other));
    CHECK_OK(aclrtStreamWaitEvent(stream, event));
  }
  aclmdlRI model = end();
  for (int i = 1; i <= 10; i++) {
    execute(model, stream);
    assert_all(numbers, (float)(33 * i));
  }
  CHECK_OK(aclrtRecordEvent(event, stream)); /* outside the capture the event is an ordinary one again */
  CHECK_OK(aclrtSynchronizeEvent(event));
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtDestroyEvent(event));
}

typedef enum { NEVER_BACK, RECORD_ONLY, TASK_AFTER_RECORD, BACK_TO_OTHER_ONLY } unjoined_kind;

static void unjoined_streams_fail_the_end_of_the_capture(void **state) {
  (void)state;
  for (unjoined_kind kind = NEVER_BACK; kind <= BACK_TO_OTHER_ONLY; kind++) {
    aclrtStream third = stream_new();
    aclrtEvent fork = event_new(), back = event_new();
    aclmdlRI model = &model;
    begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
    CHECK_OK(aclrtRecordEvent(fork, stream));
    CHECK_OK(aclrtStreamWaitEvent(other, fork));
    add(other, 1);
    if (kind != NEVER_BACK) CHECK_OK(aclrtRecordEvent(back, other));
    if (kind == TASK_AFTER_RECORD) CHECK_OK(aclrtStreamWaitEvent(stream, back));
    if (kind == TASK_AFTER_RECORD) add(other, 1);
    if (kind == BACK_TO_OTHER_ONLY) CHECK_OK(aclrtStreamWaitEvent(third, back));
    CHECK_CODE(ACL_ERROR_RT_STREAM_UNJOINED, aclmdlRICaptureEnd(stream, &model));
    assert_null(model);
    assert_int_equal(state_of(stream), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    assert_int_equal(state_of(other), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    add(other, 1); /* which runs tasks at once again */
    CHECK_OK(aclrtSynchronizeStream(other));
    assert_all(numbers, (float)(kind + 1));
    CHECK_OK(aclrtDestroyStream(third));
    CHECK_OK(aclrtDestroyEvent(fork));
    CHECK_OK(aclrtDestroyEvent(back));
  }
}

/* ---- forbidden calls ---- */

static aclrtEvent captured_event;
static void *pageable, *pinned;

static aclError sync_stream(void) { return aclrtSynchronizeStream(stream); }
static aclError sync_stream_timeout(void) { return aclrtSynchronizeStreamWithTimeout(stream, 100); }
static aclError query_stream(void) { return aclrtStreamQuery(stream, &(aclrtStreamStatus){0}); }
static aclError sync_device(void) { return aclrtSynchronizeDevice(); }
static aclError sync_event(void) { return aclrtSynchronizeEvent(captured_event); }
static aclError query_event(void) { return aclrtQueryEventStatus(captured_event, &(aclrtEventRecordedStatus){0}); }
static aclError begin_again(void) { return aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL); }
static aclError copy_now(void) { return aclrtMemcpy(numbers, BYTES, pinned, BYTES, ACL_MEMCPY_HOST_TO_DEVICE); }
static aclError fill_now(void) { return aclrtMemset(numbers, BYTES, 0, BYTES); }
static aclError copy_2d_now(void) { return aclrtMemcpy2d(numbers, 8, pinned, 8, 8, 2, ACL_MEMCPY_HOST_TO_DEVICE); }
static aclError copy_pageable(void) {
  return aclrtMemcpyAsync(numbers, BYTES, pageable, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, other);
}
static aclError copy_pinned(void) {
  return aclrtMemcpyAsync(numbers, BYTES, pinned, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, other);
}
static aclError allocate(void) {
  void *p = NULL;
  const aclError error = aclrtMalloc(&p, 1000, ACL_MEM_MALLOC_HUGE_FIRST);
  return error ? error : aclrtFree(p);
}

enum { INVALIDATED, STILL_VALID, EITHER };

/* The code that each call returns while `stream` is being captured in each mode, and the effect on the capture. */
static const struct {
  const char *name;
  aclError (*call)(void);
  aclError want[3]; /* global, thread local, relaxed */
  int then;         /* state of the capture when the call failed */
} calls[] = {
    {"wait for the stream", sync_stream, {107027, 107027, 107027}, INVALIDATED},
    {"wait for the stream for a while", sync_stream_timeout, {107027, 107027, 107027}, INVALIDATED},
    {"ask for the stream's state", query_stream, {107027, 107027, 107027}, INVALIDATED},
    {"wait for the device", sync_device, {107027, 107027, 107027}, INVALIDATED},
    {"wait for a captured event", sync_event, {107028, 107028, 107028}, INVALIDATED},
    {"ask for a captured event's state", query_event, {107028, 107028, 107028}, INVALIDATED},
    {"begin once more", begin_again, {107027, 107027, 107027}, STILL_VALID},
    {"copy", copy_now, {107030, 107030, 0}, EITHER},
    {"copy rows", copy_2d_now, {107030, 107030, 0}, EITHER},
    {"fill", fill_now, {107030, 107030, 0}, EITHER},
    {"copy pageable memory in another stream", copy_pageable, {107041, 107041, 0}, EITHER},
    {"copy pinned memory in another stream", copy_pinned, {0, 0, 0}, STILL_VALID},
    {"allocate and free", allocate, {0, 0, 0}, STILL_VALID},
};
enum { N_CALLS = sizeof calls / sizeof *calls };

static void forbidden_calls_give_their_codes(void **state) {
  (void)state;
  pageable = calloc(1, BYTES);
  pinned = pinned_new(BYTES);
  captured_event = event_new();
  for (int i = 0; i < N_CALLS; i++)
    for (int mode = 0; mode < 3; mode++) {
      print_message("%s, mode %d\n", calls[i].name, mode);
      begin((aclmdlRICaptureMode)mode);
      CHECK_OK(aclrtRecordEvent(captured_event, stream));
      CHECK_CODE(calls[i].want[mode], calls[i].call());
      if (calls[i].want[mode] == 0 || calls[i].then == STILL_VALID)
        CHECK_OK(aclmdlRIDestroy(end()));
      else if (calls[i].then == INVALIDATED)
        end_invalid();
      else
        end_any();
    }
  CHECK_OK(aclrtSynchronizeStream(other));
  CHECK_OK(aclrtDestroyEvent(captured_event));
  CHECK_OK(aclrtFreeHost(pinned));
  free(pageable);
}

/* ---- capture modes of threads ---- */

typedef struct {
  aclmdlRICaptureMode own;
  aclError result;
} copier;

static void *copy_in_mode(void *arg) {
  copier *c = arg;
  aclmdlRICaptureMode mode = c->own;
  c->result = aclrtSetDevice(0);
  if (c->result == 0) c->result = aclmdlRICaptureThreadExchangeMode(&mode);
  if (c->result == 0) c->result = copy_now();
  aclrtResetDevice(0);
  return NULL;
}

/* Row: mode of the capture. Column: mode of the thread that copies (global, thread local, relaxed). */
static const aclError in_capturing_thread[3][3] = {{107030, 107030, 0}, {107030, 107030, 0}, {0, 0, 0}};
static const aclError in_another_thread[3][3] = {{107030, 0, 0}, {0, 0, 0}, {0, 0, 0}};

static void forbidden_calls_depend_on_the_threads_mode(void **state) {
  (void)state;
  pinned = pinned_new(BYTES);
  for (int mode = 0; mode < 3; mode++)
    for (int own = 0; own < 3; own++) {
      print_message("capture %d, thread %d\n", mode, own);
      copier there = {(aclmdlRICaptureMode)own, 0};
      begin((aclmdlRICaptureMode)mode);
      on_thread(copy_in_mode, &there);
      assert_int_equal(there.result, in_another_thread[mode][own]);
      aclmdlRICaptureMode exchanged = (aclmdlRICaptureMode)own;
      CHECK_OK(aclmdlRICaptureThreadExchangeMode(&exchanged));
      assert_int_equal(exchanged, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
      CHECK_CODE(in_capturing_thread[mode][own], copy_now());
      CHECK_OK(aclmdlRICaptureThreadExchangeMode(&exchanged));
      assert_int_equal(exchanged, own);
      end_any();
    }
  CHECK_OK(copy_now());
  CHECK_OK(aclrtFreeHost(pinned));
}

static void a_call_in_relaxed_mode_keeps_the_capture_valid(void **state) {
  (void)state;
  aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
  const float ones[N] = {[0 ... N - 1] = 1};
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  CHECK_OK(aclmdlRICaptureThreadExchangeMode(&mode));
  CHECK_OK(aclrtMemcpy(numbers, BYTES, ones, BYTES, ACL_MEMCPY_HOST_TO_DEVICE)); /* runs now and is not captured */
  CHECK_OK(aclmdlRICaptureThreadExchangeMode(&mode));
  add(stream, 1);
  aclmdlRI model = end();
  assert_all(numbers, 1);
  execute(model, stream);
  execute(model, stream);
  assert_all(numbers, 3);
  CHECK_OK(aclmdlRIDestroy(model));
}

static void bad_modes_are_refused(void **state) {
  (void)state;
  aclmdlRICaptureMode mode = (aclmdlRICaptureMode)3;
  CHECK_FAILS(aclmdlRICaptureBegin(stream, mode));
  CHECK_FAILS(aclmdlRICaptureThreadExchangeMode(&mode));
  CHECK_FAILS(aclmdlRICaptureThreadExchangeMode(NULL));
}

/* ---- begin, end, information ---- */

static void *end_elsewhere(void *result) {
  aclmdlRI model = NULL;
  aclError error = aclrtSetDevice(0);
  if (error == 0) error = aclmdlRICaptureEnd(stream, &model);
  if (error == 0) error = aclmdlRIDestroy(model);
  aclrtResetDevice(0);
  *(aclError *)result = error;
  return NULL;
}

static void another_thread_ends_only_relaxed_captures(void **state) {
  (void)state;
  for (int mode = 0; mode < 3; mode++) {
    aclError result = -1;
    begin((aclmdlRICaptureMode)mode);
    on_thread(end_elsewhere, &result);
    assert_int_equal(result, mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED ? 0 : 107038);
    if (result) end_any();
  }
}

static void *submit_elsewhere(void *result) {
  aclError error = aclrtSetDevice(0);
  if (error == 0) error = aclrtMemsetAsync(numbers, BYTES, 1, BYTES, stream);
  aclrtResetDevice(0);
  *(aclError *)result = error;
  return NULL;
}

static void any_thread_may_submit_to_a_captured_stream(void **state) {
  (void)state;
  aclError result = -1;
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  on_thread(submit_elsewhere, &result);
  assert_int_equal(result, 0);
  aclmdlRI model = end();
  assert_dev_filled(numbers, 0, BYTES);
  execute(model, stream);
  assert_dev_filled(numbers, 1, BYTES);
  CHECK_OK(aclmdlRIDestroy(model));
}

static void begin_and_end_must_be_paired(void **state) {
  (void)state;
  aclmdlRI model = NULL;
  aclrtEvent fork = event_new();
  CHECK_CODE(107029, aclmdlRICaptureEnd(stream, &model));
  CHECK_FAILS(aclmdlRICaptureBegin(NULL, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
  CHECK_FAILS(aclmdlRICaptureEnd(stream, NULL));
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  CHECK_FAILS(aclmdlRICaptureEnd(stream, NULL));
  CHECK_OK(aclrtRecordEvent(fork, stream));
  CHECK_OK(aclrtStreamWaitEvent(other, fork));
  CHECK_CODE(107036, aclmdlRICaptureEnd(other, &model));
  CHECK_FAILS(aclrtDestroyStream(other));
  end_any();
  CHECK_OK(aclrtDestroyEvent(fork));
}

static void information_follows_the_capture(void **state) {
  (void)state;
  aclmdlRICaptureStatus status = (aclmdlRICaptureStatus)9;
  aclmdlRI making = NULL;
  CHECK_FAILS(aclmdlRICaptureGetInfo(stream, NULL, NULL));
  CHECK_OK(aclmdlRICaptureGetInfo(stream, &status, &making));
  assert_int_equal(status, ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  CHECK_OK(aclmdlRICaptureGetInfo(stream, &status, &making));
  assert_int_equal(status, ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  assert_non_null(making);
  CHECK_OK(aclmdlRICaptureGetInfo(stream, NULL, &making));
  CHECK_CODE(107026, aclmdlRIDestroy(making));
  CHECK_FAILS(aclmdlRIExecuteAsync(making, other));
  aclmdlRI model = end();
  assert_ptr_equal(model, making);
  assert_int_equal(state_of(stream), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  CHECK_OK(aclmdlRIDestroy(model));
}

/* ---- models ---- */

static void a_model_being_executed_cannot_be_destroyed(void **state) {
  (void)state;
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  add(stream, 1);
  aclmdlRI model = end();
  gate *g = gate_close(stream);
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  CHECK_CODE(107037, aclmdlRIDestroy(model));
  gate_open(g);
  CHECK_OK(aclmdlRIDestroy(model)); /* waits for an execution that has not finished */
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_all(numbers, 1);
}

static void bad_model_handles_are_refused(void **state) {
  (void)state;
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  aclmdlRI model = end();
  CHECK_FAILS(aclmdlRIExecuteAsync(NULL, stream));
  CHECK_FAILS(aclmdlRIDestroy(NULL));
  CHECK_OK(aclmdlRIDebugPrint(model));
  CHECK_OK(aclmdlRIDestroy(model));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      CAPTURE_TEST(captured_tasks_run_when_executed),
      CAPTURE_TEST(executions_read_the_data_present_when_they_run),
      CAPTURE_TEST(all_kinds_of_tasks_are_captured),
      CAPTURE_TEST(an_empty_capture_gives_a_model),
      CAPTURE_TEST(executions_in_two_streams_do_not_overlap),
      CAPTURE_TEST(the_default_stream_can_execute_a_model),
      CAPTURE_TEST(streams_join_a_capture_and_return),
      CAPTURE_TEST(a_captured_event_may_be_used_again),
      CAPTURE_TEST(unjoined_streams_fail_the_end_of_the_capture),
      CAPTURE_TEST(forbidden_calls_give_their_codes),
      CAPTURE_TEST(forbidden_calls_depend_on_the_threads_mode),
      CAPTURE_TEST(a_call_in_relaxed_mode_keeps_the_capture_valid),
      CAPTURE_TEST(bad_modes_are_refused),
      CAPTURE_TEST(another_thread_ends_only_relaxed_captures),
      CAPTURE_TEST(any_thread_may_submit_to_a_captured_stream),
      CAPTURE_TEST(begin_and_end_must_be_paired),
      CAPTURE_TEST(information_follows_the_capture),
      CAPTURE_TEST(a_model_being_executed_cannot_be_destroyed),
      CAPTURE_TEST(bad_model_handles_are_refused),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
