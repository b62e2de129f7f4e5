/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks that fail after the launching call has returned 0: a later call reports the failure. The failing task is a
 * lookup with an index outside its table. */
#include "acl_ops.h"

#include "aclnnop/aclnn_embedding.h"
#include "aclnnop/aclnn_index_select.h"

static void *table, *indices, *picked;

static int tables_up(void **state) {
  const int64_t out_of_range[] = {0, 99};
  device_up(state);
  table = DEV_FLOATS(1, 2, 3, 4, 5, 6);
  indices = dev_from(out_of_range, sizeof out_of_range);
  picked = dev_filled(0, 16);
  return 0;
}

static int tables_down(void **state) {
  CHECK_OK(aclrtFree(table));
  CHECK_OK(aclrtFree(indices));
  CHECK_OK(aclrtFree(picked));
  return device_down(state);
}

typedef void (*failing_launch)(aclrtStream stream);

static void launch_index_select(aclrtStream stream) {
  aclTensor *self = TENSOR(table, ACL_FLOAT, 3, 2), *index = TENSOR(indices, ACL_INT64, 2),
            *out = TENSOR(picked, ACL_FLOAT, 2, 2);
  LAUNCH(stream, aclnnIndexSelect, self, 0, index, out);
  CHECK_OK(aclDestroyTensor(self));
  CHECK_OK(aclDestroyTensor(index));
  CHECK_OK(aclDestroyTensor(out));
}

static void launch_embedding(aclrtStream stream) {
  aclTensor *weight = TENSOR(table, ACL_FLOAT, 3, 2), *index = TENSOR(indices, ACL_INT64, 2),
            *out = TENSOR(picked, ACL_FLOAT, 2, 2);
  LAUNCH(stream, aclnnEmbedding, weight, index, out);
  CHECK_OK(aclDestroyTensor(weight));
  CHECK_OK(aclDestroyTensor(index));
  CHECK_OK(aclDestroyTensor(out));
}

static const failing_launch failures[] = {launch_index_select, launch_embedding};

static void failure_is_reported_once_and_later_tasks_run(void **state) {
  (void)state;
  for (int f = 0; f < 2; f++) {
    aclrtStream stream = stream_new();
    void *p = dev_filled(1, 100);
    failures[f](stream);
    CHECK_OK(aclrtMemsetAsync(p, 100, 2, 100, stream)); /* queued after the failing task, and still runs */
    CHECK_FAILS(aclrtSynchronizeStream(stream));
    assert_dev_filled(p, 2, 100); /* synchronous copies work, too */
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtMemsetAsync(p, 100, 3, 100, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    assert_dev_filled(p, 3, 100);
    CHECK_OK(aclrtFree(p));
    CHECK_OK(aclrtDestroyStream(stream));
  }
}

static void valid_indices_do_not_fail(void **state) {
  (void)state;
  const int64_t good[] = {2, 0}, bad[] = {0, 99};
  CHECK_OK(aclrtMemcpy(indices, sizeof good, good, sizeof good, ACL_MEMCPY_HOST_TO_DEVICE));
  for (int f = 0; f < 2; f++) {
    failures[f](NULL);
    CHECK_OK(aclrtSynchronizeStream(NULL));
    ASSERT_FLOATS(picked, 5, 6, 1, 2);
  }
  CHECK_OK(aclrtMemcpy(indices, sizeof bad, bad, sizeof bad, ACL_MEMCPY_HOST_TO_DEVICE));
}

static void every_way_of_waiting_reports_the_failure(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  launch_index_select(stream);
  CHECK_FAILS(aclrtSynchronizeStreamWithTimeout(stream, 10000));
  CHECK_OK(aclrtSynchronizeStream(stream));
  launch_index_select(stream);
  CHECK_FAILS(aclrtSynchronizeDevice());
  launch_index_select(NULL);
  CHECK_FAILS(aclrtSynchronizeStream(NULL));
  aclrtSynchronizeStream(stream);
  CHECK_OK(aclrtDestroyStream(stream));
}

static void other_streams_report_no_failure(void **state) {
  (void)state;
  aclrtStream bad = stream_new(), good = stream_new();
  void *p = dev_filled(0, 100);
  launch_index_select(bad);
  CHECK_OK(aclrtMemsetAsync(p, 100, 1, 100, good));
  CHECK_OK(aclrtSynchronizeStream(good));
  assert_dev_filled(p, 1, 100);
  CHECK_FAILS(aclrtSynchronizeStream(bad));
  CHECK_OK(aclrtSynchronizeStream(good));
  CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtDestroyStream(bad));
  CHECK_OK(aclrtDestroyStream(good));
}

static void failure_becomes_the_threads_last_error_with_a_message(void **state) {
  (void)state;
  aclrtGetLastError(ACL_RT_THREAD_LEVEL);
  aclGetRecentErrMsg();
  launch_index_select(NULL);
  aclError code = aclrtSynchronizeStream(NULL);
  assert_int_not_equal(code, 0);
  assert_int_equal(aclrtGetLastError(ACL_RT_THREAD_LEVEL), code);
  assert_non_null(aclGetRecentErrMsg());
}

/* ---- stop on failure, in a separate context since the mode applies to the whole context ---- */

static void stop_mode_drops_later_tasks_of_the_whole_context(void **state) {
  (void)state;
  aclrtContext home = NULL, c = NULL;
  CHECK_OK(aclrtGetCurrentContext(&home));
  CHECK_OK(aclrtCreateContext(&c, 0));
  aclrtStream stream = stream_new(), other = stream_new();
  uint8_t *p = dev_filled(1, 100);
  CHECK_OK(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE));
  gate *g = gate_close(stream); /* keeps the tasks queued until all are submitted */
  CHECK_OK(aclrtMemsetAsync(p, 100, 2, 50, stream));
  launch_index_select(stream);
  CHECK_OK(aclrtMemsetAsync(p, 100, 3, 100, stream));
  gate_open(g);
  CHECK_FAILS(aclrtSynchronizeStream(stream));
  assert_dev_filled(p, 2, 50); /* tasks before the failure ran; tasks after it did not */
  assert_dev_filled(p + 50, 1, 50);
  CHECK_FAILS(aclrtSynchronizeStream(other));

  aclrtStream late = stream_new(); /* memory and handles can still be created and released */
  void *q = dev_filled(4, 100);
  assert_dev_filled(q, 4, 100);
  CHECK_OK(aclrtFree(q));
  CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtDestroyStream(late));
  CHECK_OK(aclrtDestroyStream(other));
  CHECK_OK(aclrtDestroyStream(stream));

  CHECK_OK(aclrtSetCurrentContext(home)); /* another context is not affected */
  aclrtStream fresh = stream_new();
  void *r = dev_filled(0, 100);
  CHECK_OK(aclrtMemsetAsync(r, 100, 5, 100, fresh));
  CHECK_OK(aclrtSynchronizeStream(fresh));
  assert_dev_filled(r, 5, 100);
  CHECK_OK(aclrtFree(r));
  CHECK_OK(aclrtDestroyStream(fresh));
  CHECK_OK(aclrtDestroyContext(c));
}

/* ---- aclrtSetExceptionInfoCallback ---- */

static struct { uint32_t n, device, stream, code, thread; } seen;

static void note_exception(aclrtExceptionInfo *info) {
  seen.n++;
  seen.device = aclrtGetDeviceIdFromExceptionInfo(info);
  seen.stream = aclrtGetStreamIdFromExceptionInfo(info);
  seen.code = aclrtGetErrorCodeFromExceptionInfo(info);
  seen.thread = aclrtGetThreadIdFromExceptionInfo(info);
}

static void a_function_is_told_each_failed_task(void **state) {
  (void)state;
  int32_t id;
  aclrtStream stream = stream_new();
  CHECK_OK(aclrtStreamGetId(stream, &id));
  CHECK_OK(aclrtSetExceptionInfoCallback(note_exception));
  for (int f = 0; f < 2; f++) failures[f](stream);
  const aclError code = aclrtSynchronizeStream(stream);
  assert_int_equal(seen.n, 2);
  assert_int_equal(seen.device, 0);
  assert_int_equal(seen.stream, id);
  assert_int_equal(seen.code, code);
  assert_int_not_equal(seen.thread, 0);
  CHECK_OK(aclrtSetExceptionInfoCallback(NULL));
  failures[0](stream);
  CHECK_FAILS(aclrtSynchronizeStream(stream));
  assert_int_equal(seen.n, 2);
  assert_int_equal(aclrtGetTaskIdFromExceptionInfo(NULL), UINT32_MAX);
  CHECK_OK(aclrtDestroyStream(stream));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      OP_TEST(valid_indices_do_not_fail),
      OP_TEST(failure_is_reported_once_and_later_tasks_run),
      OP_TEST(every_way_of_waiting_reports_the_failure),
      OP_TEST(other_streams_report_no_failure),
      OP_TEST(failure_becomes_the_threads_last_error_with_a_message),
      OP_TEST(stop_mode_drops_later_tasks_of_the_whole_context),
      OP_TEST(a_function_is_told_each_failed_task),
  };
  return cmocka_run_group_tests(tests, tables_up, tables_down);
}
