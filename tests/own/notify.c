/* SPDX-License-Identifier: Apache-2.0 */
/* Notifies, as far as Cannon's behaviour goes beyond CANN's documentation: in graphs, between threads, and messages for
 * misuse. */
#include "acl_capture.h"

enum { ROUNDS = 2000 };

static aclrtNotify notify_new(void) {
  aclrtNotify n = NULL;
  CHECK_OK(aclrtCreateNotify(&n, ACL_NOTIFY_DEFAULT));
  return n;
}

/* Each execution waits and records again. */
static void a_graph_waits_and_records(void **state) {
  (void)state;
  aclrtNotify go = notify_new(), gone = notify_new();
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  CHECK_OK(aclrtWaitAndResetNotify(go, stream, 0));
  add(stream, 1);
  CHECK_OK(aclrtRecordNotify(gone, stream));
  aclmdlRI model = end();
  for (int i = 1; i <= 3; ++i) {
    CHECK_OK(aclmdlRIExecuteAsync(model, stream));
    CHECK_OK(aclrtWaitAndResetNotify(gone, other, 0));
    nap_ms(5);
    assert_int_equal(stream_status(other), ACL_STREAM_STATUS_NOT_READY);
    CHECK_OK(aclrtRecordNotify(go, NULL));
    CHECK_OK(aclrtSynchronizeStream(other));
    CHECK_OK(aclrtSynchronizeStream(stream));
    assert_all(numbers, (float)i);
  }
  CHECK_OK(aclrtDestroyNotify(go)); /* the graph keeps a reference */
  CHECK_OK(aclrtDestroyNotify(gone));
  CHECK_OK(aclmdlRIDestroy(model));
}

typedef struct {
  aclrtNotify wait, record;
  aclError failure;
} player;

static void *play(void *argument) {
  player *p = argument;
  aclrtStream s = NULL;
  p->failure = aclrtSetDevice(0);
  if (!p->failure) p->failure = aclrtCreateStream(&s);
  for (int i = 0; i < ROUNDS && !p->failure; ++i) {
    p->failure = aclrtWaitAndResetNotify(p->wait, s, 0);
    if (!p->failure) p->failure = aclrtRecordNotify(p->record, s);
    if (!p->failure && i % 16 == 0) p->failure = aclrtSynchronizeStream(s);
  }
  if (!p->failure) p->failure = aclrtSynchronizeStream(s);
  if (s && !p->failure) p->failure = aclrtDestroyStream(s);
  return NULL;
}

static void threads_alternate_through_notifies(void **state) {
  (void)state;
  aclrtNotify a = notify_new(), b = notify_new();
  player one = {a, b, 0}, two = {b, a, 0};
  pthread_t first = thread_start(play, &one), second = thread_start(play, &two);
  CHECK_OK(aclrtRecordNotify(a, stream));
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_int_equal(pthread_join(first, NULL), 0);
  assert_int_equal(pthread_join(second, NULL), 0);
  CHECK_OK(one.failure);
  CHECK_OK(two.failure);
  CHECK_OK(aclrtDestroyNotify(a));
  CHECK_OK(aclrtDestroyNotify(b));
}

static void message_has(aclError code, aclError want, const char *words) {
  const char *message = aclGetRecentErrMsg();
  assert_int_equal(code, want);
  assert_non_null(message);
  if (!strstr(message, words)) fail_msg("message '%s' lacks '%s'", message, words);
}

static void misuse_is_reported(void **state) {
  (void)state;
  aclrtNotify n = notify_new(), stale = notify_new();
  aclrtCntNotify count;
  aclrtCntNotifyRecordInfo info = {(aclrtCntNotifyRecordMode)3, 0};
  CHECK_OK(aclrtCntNotifyCreate(&count, 0));
  CHECK_OK(aclrtDestroyNotify(stale));
  message_has(aclrtRecordNotify(stale, stream), 107000, "destroyed?");
  message_has(aclrtRecordNotify(count, stream), 107000, "expected a notify");
  message_has(aclrtCntNotifyReset(n, stream), 107000, "expected a count notify");
  message_has(aclrtCntNotifyRecord(count, stream, &info), 107000, "info->mode is 3");
  message_has(aclrtNotifyBatchReset((aclrtNotify[]){n, stale}, 2), 107000, "destroyed?");
  CHECK_OK(aclrtWaitAndResetNotify(n, stream, 1));
  message_has(aclrtSynchronizeStream(stream), 107019, "within the wait's 1 s");
  CHECK_OK(aclrtDestroyNotify(n));
  CHECK_OK(aclrtCntNotifyDestroy(count));
}

/* A device has 8192 notifies. Tasks that still use a destroyed one do not count. */
static void a_destroyed_notify_is_free_although_tasks_use_it(void **state) {
  (void)state;
  gate *g = gate_close(stream);
  for (int i = 0; i < 10000; i++) {
    aclrtNotify notify;
    CHECK_OK(aclrtCreateNotify(&notify, 0));
    CHECK_OK(aclrtRecordNotify(notify, stream));
    CHECK_OK(aclrtWaitAndResetNotify(notify, stream, 0));
    CHECK_OK(aclrtDestroyNotify(notify));
  }
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(stream));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      CAPTURE_TEST(a_graph_waits_and_records),
      CAPTURE_TEST(threads_alternate_through_notifies),
      CAPTURE_TEST(misuse_is_reported),
      CAPTURE_TEST(a_destroyed_notify_is_free_although_tasks_use_it),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
