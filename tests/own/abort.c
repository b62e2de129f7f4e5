/* SPDX-License-Identifier: Apache-2.0 */
/* aclrtDeviceTaskAbort together with what Cannon adds or leaves open: running tasks, waiting threads, callbacks, graphs
 * and memory. */
#include "acl_test.h"

enum { BLOCK = 4096 };

static aclrtNotify hold(aclrtStream stream) {
  aclrtNotify notify;
  CHECK_OK(aclrtCreateNotify(&notify, 0));
  CHECK_OK(aclrtWaitAndResetNotify(notify, stream, 0));
  return notify;
}

/* ---- running tasks ---- */

static void an_abort_waits_for_a_running_task_up_to_its_limit(void **state) {
  (void)state;
  static atomic_int n;
  atomic_store(&n, 0);
  aclrtStream stream = stream_new();
  gate *g = gate_close(stream);
  CHECK_OK(aclrtLaunchHostFunc(stream, count_one, &n));
  CHECK_CODE(ACL_ERROR_RT_WAIT_TIMEOUT, aclrtDeviceTaskAbort(0, 5));
  CHECK_OK(aclrtLaunchHostFunc(stream, count_one, &n)); /* the abort is over, so this task is not dropped */
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_int_equal(atomic_load(&n), 1); /* the tasks queued before the abort were dropped although it timed out */
  CHECK_OK(aclrtDestroyStream(stream));
}

static void *open_later(void *g) {
  nap_ms(5);
  gate_open(g);
  return NULL;
}

static void an_abort_without_a_limit_waits(void **state) {
  (void)state;
  static atomic_int n;
  atomic_store(&n, 0);
  aclrtStream stream = stream_new();
  gate *g = gate_close(stream);
  CHECK_OK(aclrtLaunchHostFunc(stream, count_one, &n));
  pthread_t thread = thread_start(open_later, g);
  CHECK_OK(aclrtDeviceTaskAbort(0, 0));
  assert_true(atomic_load(&g->open));
  pthread_join(thread, NULL);
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_int_equal(atomic_load(&n), 0);
  CHECK_OK(aclrtDestroyStream(stream));
}

/* ---- callbacks that block their stream ---- */

typedef struct {
  atomic_int entered, open, done;
  atomic_int n;
} server;

static void stay(void *arg) {
  server *s = arg;
  atomic_store(&s->entered, 1);
  while (!atomic_load(&s->open)) nap_ms(1);
}

static void *serve(void *arg) {
  server *s = arg;
  while (!atomic_load(&s->done)) aclrtProcessReport(10);
  return NULL;
}

static void running_and_queued_callbacks_are_dropped(void **state) {
  (void)state;
  static server one;
  memset(&one, 0, sizeof one);
  aclrtStream stream = stream_new(), other = stream_new();
  pthread_t thread = thread_start(serve, &one);
  CHECK_OK(aclrtSubscribeReport((uint64_t)thread, stream));
  CHECK_OK(aclrtSubscribeReport((uint64_t)thread, other));
  CHECK_OK(aclrtLaunchCallback(stay, &one, ACL_CALLBACK_BLOCK, stream));
  while (!atomic_load(&one.entered)) {
    stream_status(stream); /* no thread waits for the stream, so a query starts the callback */
    nap_ms(1);
  }
  /* queued after the running callback, for the same serving thread */
  CHECK_OK(aclrtLaunchCallback(count_one, &one.n, ACL_CALLBACK_BLOCK, other));
  CHECK_OK(aclrtLaunchCallback(count_one, &one.n, ACL_CALLBACK_BLOCK, stream));
  CHECK_CODE(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(other, 20));
  CHECK_OK(aclrtDeviceTaskAbort(0, 0));
  CHECK_OK(aclrtSynchronizeStream(stream));
  CHECK_OK(aclrtSynchronizeStream(other));
  CHECK_OK(aclrtLaunchCallback(count_one, &one.n, ACL_CALLBACK_BLOCK, stream));
  atomic_store(&one.open, 1);
  CHECK_OK(aclrtSynchronizeStream(stream)); /* completed by the one callback launched after the abort */
  assert_int_equal(atomic_load(&one.n), 1);
  CHECK_OK(aclrtUnSubscribeReport((uint64_t)thread, stream));
  CHECK_OK(aclrtUnSubscribeReport((uint64_t)thread, other));
  atomic_store(&one.done, 1);
  pthread_join(thread, NULL);
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtDestroyStream(other));
}

/* ---- graphs ---- */

/* After an abort, a graph's internal streams and the order of its executions are intact. */
static void a_graph_can_be_executed_after_an_abort(void **state) {
  (void)state;
  aclrtStream stream = stream_new(), second = stream_new();
  uint8_t *block = dev_filled(0, 2 * BLOCK);
  uint64_t *word = dev_filled(0, sizeof *word);
  aclrtEvent fork, join;
  aclmdlRI graph;
  CHECK_OK(aclrtCreateEventExWithFlag(&fork, ACL_EVENT_SYNC));
  CHECK_OK(aclrtCreateEventExWithFlag(&join, ACL_EVENT_SYNC));
  CHECK_OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
  CHECK_OK(aclrtRecordEvent(fork, stream));
  CHECK_OK(aclrtStreamWaitEvent(second, fork));
  CHECK_OK(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_GEQ, second));
  CHECK_OK(aclrtMemsetAsync(block, BLOCK, 1, BLOCK, second));
  CHECK_OK(aclrtRecordEvent(join, second));
  CHECK_OK(aclrtStreamWaitEvent(stream, join));
  CHECK_OK(aclrtMemsetAsync(block + BLOCK, BLOCK, 2, BLOCK, stream));
  CHECK_OK(aclmdlRICaptureEnd(stream, &graph));
  CHECK_OK(aclmdlRIExecuteAsync(graph, stream));
  CHECK_OK(aclmdlRIExecuteAsync(graph, second)); /* waits for the first execution, which waits for the word */
  CHECK_OK(aclrtDeviceTaskAbort(0, 0));
  CHECK_OK(aclrtSynchronizeDevice());
  assert_dev_filled(block, 0, 2 * BLOCK);
  CHECK_OK(aclrtMemset(word, sizeof *word, 1, sizeof *word));
  CHECK_OK(aclmdlRIExecuteAsync(graph, second));
  CHECK_OK(aclrtSynchronizeStream(second));
  assert_dev_filled(block, 1, BLOCK);
  assert_dev_filled(block + BLOCK, 2, BLOCK);
  CHECK_OK(aclmdlRIDestroy(graph));
  CHECK_OK(aclrtDestroyEvent(fork));
  CHECK_OK(aclrtDestroyEvent(join));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtDestroyStream(second));
  CHECK_OK(aclrtFree(block));
  CHECK_OK(aclrtFree(word));
}

/* ---- memory ---- */

static size_t free_bytes(void) {
  size_t n = 0, total = 0;
  CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &n, &total));
  return n;
}

/* Memory freed after tasks that an abort dropped becomes available to others. */
static void memory_freed_after_dropped_tasks_becomes_available(void **state) {
  (void)state;
  enum { BIG = 64 << 20 };
  aclrtStream stream = stream_new();
  const size_t before = free_bytes();
  aclrtNotify notify = hold(stream);
  void *p = dev_new(BIG);
  CHECK_OK(aclrtMemsetAsync(p, BIG, 1, BIG, stream));
  CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtDeviceTaskAbort(0, 0));
  for (int i = 0; i < 4; ++i) { /* a new allocation makes the heap check for completed frees */
    p = dev_new(BIG);
    CHECK_OK(aclrtFree(p));
  }
  assert_true(free_bytes() >= before - BIG);
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtDestroyNotify(notify));
}

/* ---- aborts under load ---- */

enum { SUBMITTERS = 3, ROUNDS = 300, ABORTS = 60 };

typedef struct {
  aclrtStream stream, next;
  aclrtEvent event;
  void *block; /* each stream has its own range */
  atomic_int n_wrong;
} submitter;

static bool is_right(aclError code) { return code == ACL_SUCCESS || code == ACL_ERROR_RT_DEVICE_TASK_ABORT; }

static void expect(submitter *s, aclError code) {
  if (!is_right(code)) atomic_fetch_add(&s->n_wrong, 1);
}

static void *submit_much(void *arg) {
  submitter *s = arg;
  expect(s, aclrtSetDevice(0));
  for (int i = 0; i < ROUNDS; ++i) {
    expect(s, aclrtMemsetAsync(s->block, BLOCK, i, BLOCK, s->stream));
    expect(s, aclrtRecordEvent(s->event, s->stream));
    expect(s, aclrtStreamWaitEvent(s->next, s->event));
    expect(s, aclrtMemsetAsync((char *)s->block + BLOCK, BLOCK, i, BLOCK, s->next));
    if (i % 3 == 0) expect(s, aclrtSynchronizeEvent(s->event));
    if (i % 5 == 0) expect(s, aclrtSynchronizeStream(s->next));
    aclrtStream own;
    if (i % 7 == 0) {
      expect(s, aclrtCreateStream(&own));
      expect(s, aclrtMemsetAsync((char *)s->block + 2 * BLOCK, BLOCK, i, BLOCK, own));
      expect(s, aclrtDestroyStream(own));
    }
  }
  expect(s, aclrtResetDevice(0));
  return NULL;
}

static void threads_can_submit_during_aborts(void **state) {
  (void)state;
  static submitter s[SUBMITTERS];
  pthread_t thread[SUBMITTERS];
  memset(s, 0, sizeof s);
  for (int i = 0; i < SUBMITTERS; ++i) {
    s[i].stream = stream_new();
    s[i].next = stream_new();
    s[i].block = dev_filled(0, 3 * BLOCK);
    CHECK_OK(aclrtCreateEventExWithFlag(&s[i].event, ACL_EVENT_SYNC));
  }
  for (int i = 0; i < SUBMITTERS; ++i) thread[i] = thread_start(submit_much, &s[i]);
  for (int i = 0; i < ABORTS; ++i) {
    CHECK_OK(aclrtDeviceTaskAbort(0, 0));
    nap_ms(1);
  }
  for (int i = 0; i < SUBMITTERS; ++i) pthread_join(thread[i], NULL);
  CHECK_OK(aclrtSynchronizeDevice());
  for (int i = 0; i < SUBMITTERS; ++i) {
    assert_int_equal(atomic_load(&s[i].n_wrong), 0);
    CHECK_OK(aclrtMemsetAsync(s[i].block, BLOCK, 9, BLOCK, s[i].stream));
    CHECK_OK(aclrtSynchronizeStream(s[i].stream));
    assert_dev_filled(s[i].block, 9, BLOCK);
    CHECK_OK(aclrtDestroyEvent(s[i].event));
    CHECK_OK(aclrtDestroyStream(s[i].stream));
    CHECK_OK(aclrtDestroyStream(s[i].next));
    CHECK_OK(aclrtFree(s[i].block));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(an_abort_waits_for_a_running_task_up_to_its_limit),  TEST(an_abort_without_a_limit_waits),
      TEST(running_and_queued_callbacks_are_dropped),           TEST(a_graph_can_be_executed_after_an_abort),
      TEST(memory_freed_after_dropped_tasks_becomes_available), TEST(threads_can_submit_during_aborts),
  };
  return cmocka_run_group_tests_name("abort", tests, device_up, device_down);
}
