/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that cannot proceed must not stop others: streams blocked by events and host functions, destroyed while they
 * hold tasks, reset during work, awaited by many threads, and present during a fork. */
#include "acl_test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 4096, MANY = 64, FEW = 8, STREAM_TIMEOUT = 507046, EVENT_TIMEOUT = 507047 };

static aclrtEvent event_new(void) {
  aclrtEvent event = NULL;
  CHECK_OK(aclrtCreateEvent(&event));
  return event;
}

static void streams_destroy(aclrtStream *streams, int n) {
  for (int i = 0; i < n; i++) CHECK_OK(aclrtDestroyStream(streams[i]));
}

/* ---- blocked streams ---- */

static gate shared_gate;

static void blocked_streams_do_not_stop_others(void **state) {
  (void)state;
  static atomic_int done, naps;
  aclrtStream waiting[MANY], sitting[2 * FEW], free_ones[FEW];
  aclrtEvent event = event_new();
  void *p = dev_filled(0, SIZE);
  atomic_store(&done, 0);
  atomic_store(&shared_gate.open, 0);
  for (int i = 0; i < MANY; i++) {
    waiting[i] = stream_new();
    CHECK_OK(aclrtStreamWaitEvent(waiting[i], event));
    CHECK_OK(aclrtLaunchHostFunc(waiting[i], count_one, &done));
  }
  for (int i = 0; i < 2 * FEW; i++) { /* usually more than there are cores */
    sitting[i] = stream_new();
    CHECK_OK(aclrtLaunchHostFunc(sitting[i], gate_wait, &shared_gate));
    CHECK_OK(aclrtLaunchHostFunc(sitting[i], count_one, &done));
  }
  for (int i = 0; i < FEW; i++) free_ones[i] = stream_new();
  for (int round = 0; round < 100; round++)
    for (int i = 0; i < FEW; i++) {
      CHECK_OK(aclrtMemsetAsync(p, SIZE, round + i, SIZE, free_ones[i]));
      if (round % 10 == 0) CHECK_OK(aclrtLaunchHostFunc(free_ones[i], nap_then_count, &naps));
      CHECK_OK(aclrtSynchronizeStream(free_ones[i]));
    }
  assert_dev_filled(p, 99 + FEW - 1, SIZE);
  assert_int_equal(atomic_load(&done), 0);
  CHECK_OK(aclrtRecordEvent(event, free_ones[0]));
  for (int i = 0; i < MANY; i++) CHECK_OK(aclrtSynchronizeStream(waiting[i]));
  assert_int_equal(atomic_load(&done), MANY);
  gate_open(&shared_gate);
  for (int i = 0; i < 2 * FEW; i++) CHECK_OK(aclrtSynchronizeStream(sitting[i]));
  assert_int_equal(atomic_load(&done), MANY + 2 * FEW);
  streams_destroy(waiting, MANY);
  streams_destroy(sitting, 2 * FEW);
  streams_destroy(free_ones, FEW);
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtFree(p));
}

/* ---- streams destroyed by force ---- */

static void forced_destruction_drops_waiting_tasks(void **state) {
  (void)state;
  void *p = dev_filled(1, SIZE);
  for (int round = 0; round < 20; round++) {
    aclrtStream dropped = stream_new(), other = stream_new();
    aclrtEvent never = event_new(), recorded = event_new();
    gate *g = round % 2 ? gate_close(dropped) : NULL;
    if (!g) CHECK_OK(aclrtStreamWaitEvent(dropped, never));
    for (int i = 0; i < 300; i++) CHECK_OK(aclrtMemsetAsync(p, SIZE, 2, SIZE, dropped));
    CHECK_OK(aclrtRecordEvent(recorded, dropped));
    CHECK_OK(aclrtStreamWaitEvent(other, recorded)); /* must not wait for a record that never happens */
    CHECK_OK(aclrtDestroyStreamForce(dropped));
    CHECK_FAILS(aclrtStreamQuery(dropped, &(aclrtStreamStatus){0}));
    if (g) gate_open(g);
    CHECK_OK(aclrtSynchronizeStream(other));
    CHECK_OK(aclrtRecordEvent(never, other)); /* no waiting stream is left */
    CHECK_OK(aclrtSynchronizeStream(other));
    CHECK_OK(aclrtDestroyStream(other));
    CHECK_OK(aclrtDestroyEvent(never));
    CHECK_OK(aclrtDestroyEvent(recorded));
    assert_dev_filled(p, 1, SIZE);
    settle(NULL);
  }
  CHECK_OK(aclrtFree(p));
}

/* ---- reset ---- */

static void forced_reset_drops_waiting_tasks(void **state) {
  (void)state;
  for (int round = 0; round < 10; round++) {
    CHECK_OK(aclrtSetDevice(0));
    aclrtStream streams[FEW];
    aclrtEvent never = event_new();
    void *p = dev_filled(1, SIZE);
    atomic_store(&shared_gate.open, 0);
    atomic_store(&shared_gate.entered, 0);
    for (int i = 0; i < FEW; i++) {
      streams[i] = stream_new();
      if (i == 0)
        CHECK_OK(aclrtLaunchHostFunc(streams[i], gate_wait, &shared_gate));
      else
        CHECK_OK(aclrtStreamWaitEvent(streams[i], never));
      CHECK_OK(aclrtMemsetAsync(p, SIZE, 2, SIZE, streams[i]));
    }
    while (!atomic_load(&shared_gate.entered)) nap_ms(1);
    CHECK_OK(aclrtResetDeviceForce(0));
    CHECK_FAILS(aclrtSynchronizeDevice());
    gate_open(&shared_gate);
    CHECK_OK(aclrtSetDevice(0)); /* the device can be used again at once */
    void *q = dev_filled(3, SIZE);
    CHECK_OK(aclrtMemsetAsync(q, SIZE, 4, SIZE, NULL));
    CHECK_OK(aclrtSynchronizeDevice());
    assert_dev_filled(q, 4, SIZE);
    assert_dev_filled(p, 1, SIZE);
    for (int i = 0; i < FEW; i++) CHECK_OK(aclrtDestroyStream(streams[i]));
    CHECK_OK(aclrtDestroyEvent(never));
    CHECK_OK(aclrtFree(p));
    CHECK_OK(aclrtFree(q));
    CHECK_OK(aclrtResetDevice(0));
  }
}

static void *open_later(void *g) {
  nap_ms(20);
  gate_open(g);
  return NULL;
}

static void reset_waits_for_work(void **state) {
  (void)state;
  CHECK_OK(aclrtSetDevice(0));
  aclrtStream stream = stream_new();
  void *p = dev_filled(1, SIZE);
  gate *g = gate_close(stream);
  CHECK_OK(aclrtMemsetAsync(p, SIZE, 2, SIZE, stream));
  pthread_t thread = thread_start(open_later, g);
  CHECK_OK(aclrtResetDevice(0));
  assert_int_equal(atomic_load(&g->open), 1);
  pthread_join(thread, NULL);
  CHECK_OK(aclrtSetDevice(0));
  assert_dev_filled(p, 2, SIZE);
  CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtResetDevice(0));
}

/* Threads that start and stop using a shared context, each with its own work, all of which is complete after
 * aclrtSynchronizeDevice. */
static atomic_int lost;

static void *set_work_reset(void *unused) {
  (void)unused;
  for (int round = 0; round < 300; round++) {
    atomic_int done = 0;
    aclrtStream stream = NULL;
    if (aclrtSetDevice(0) || aclrtCreateStream(&stream)) atomic_fetch_add(&lost, 1);
    for (int i = 0; i < 3; i++)
      if (aclrtLaunchHostFunc(stream, count_one, &done)) atomic_fetch_add(&lost, 1);
    if (aclrtSynchronizeDevice()) atomic_fetch_add(&lost, 1);
    if (atomic_load(&done) != 3) atomic_fetch_add(&lost, 1000);
    if (aclrtDestroyStream(stream) || aclrtResetDevice(0)) atomic_fetch_add(&lost, 1);
  }
  return NULL;
}

static void threads_synchronize_a_shared_device(void **state) {
  (void)state;
  pthread_t threads[4];
  atomic_store(&lost, 0);
  CHECK_OK(aclrtSetDevice(0));
  for (int i = 0; i < 4; i++) threads[i] = thread_start(set_work_reset, NULL);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&lost), 0);
  CHECK_OK(aclrtResetDevice(0));
}

/* ---- waiting with a time limit ---- */

typedef struct {
  aclrtContext context;
  aclrtStream stream;
  aclrtEvent event;
  aclError codes[4];
} wait_args;

static void *wait_in_vain_then_well(void *arg) {
  wait_args *a = arg;
  aclrtSetCurrentContext(a->context);
  a->codes[0] = aclrtSynchronizeStreamWithTimeout(a->stream, 20);
  a->codes[1] = aclrtSynchronizeEventWithTimeout(a->event, 20);
  a->codes[2] = aclrtSynchronizeDeviceWithTimeout(20);
  a->codes[3] = aclrtSynchronizeStream(a->stream);
  return NULL;
}

static void threads_wait_with_a_limit(void **state) {
  (void)state;
  static wait_args args[FEW];
  pthread_t threads[FEW];
  aclrtContext context;
  aclrtStream stream = stream_new();
  aclrtEvent event = event_new();
  CHECK_OK(aclrtGetCurrentContext(&context));
  gate *g = gate_close(stream);
  CHECK_OK(aclrtRecordEvent(event, stream));
  for (int i = 0; i < FEW; i++) {
    args[i] = (wait_args){context, stream, event, {0}};
    threads[i] = thread_start(wait_in_vain_then_well, &args[i]);
  }
  nap_ms(300);
  gate_open(g);
  for (int i = 0; i < FEW; i++) {
    pthread_join(threads[i], NULL);
    if (args[i].codes[0] == 0) continue; /* it began too late, on a busy machine */
    assert_int_equal(args[i].codes[0], STREAM_TIMEOUT);
    assert_true(args[i].codes[1] == EVENT_TIMEOUT || args[i].codes[1] == 0);
    assert_int_equal(args[i].codes[3], 0);
  }
  assert_int_equal(args[0].codes[0], STREAM_TIMEOUT);
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyStream(stream));
}

/* ---- events recorded in several streams ---- */

/* A wait refers to the last record before it, whatever is recorded and completed later. */
static void wait_refers_to_the_last_record_before_it(void **state) {
  (void)state;
  for (int kind = 0; kind < 2; kind++) {
    aclrtStream slow = stream_new(), quick = stream_new(), waiting = stream_new();
    aclrtEvent event = NULL;
    if (kind)
      CHECK_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    else
      event = event_new();
    void *p = dev_filled(1, SIZE), *q = dev_filled(0, SIZE);
    gate *g = gate_close(slow);
    CHECK_OK(aclrtMemsetAsync(p, SIZE, 2, SIZE, slow));
    CHECK_OK(aclrtRecordEvent(event, slow));
    CHECK_OK(aclrtStreamWaitEvent(waiting, event));
    CHECK_OK(aclrtMemcpyAsync(q, SIZE, p, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, waiting));
    CHECK_OK(aclrtRecordEvent(event, quick));
    CHECK_OK(aclrtSynchronizeStream(quick));
    CHECK_CODE(STREAM_TIMEOUT, aclrtSynchronizeStreamWithTimeout(waiting, 20));
    gate_open(g);
    CHECK_OK(aclrtSynchronizeStream(waiting));
    assert_dev_filled(q, 2, SIZE);
    CHECK_OK(aclrtDestroyEvent(event));
    streams_destroy((aclrtStream[]){slow, quick, waiting}, 3);
    CHECK_OK(aclrtFree(p));
    CHECK_OK(aclrtFree(q));
  }
}

/* ---- callbacks ---- */

enum { CALLS = 50 };
static atomic_int stop_reports, called[FEW], out_of_order;

typedef struct {
  int stream, number;
} call_args;

static void called_in_order(void *arg) {
  const call_args *c = arg;
  if (atomic_fetch_add(&called[c->stream], 1) != c->number) atomic_fetch_add(&out_of_order, 1);
}

static void *process_reports(void *unused) {
  (void)unused;
  while (!atomic_load(&stop_reports)) aclrtProcessReport(10);
  return NULL;
}

static void one_thread_serves_many_streams(void **state) {
  (void)state;
  static call_args calls[FEW][CALLS];
  aclrtStream streams[FEW];
  char *p = dev_filled(0, FEW * SIZE);
  atomic_store(&stop_reports, 0);
  pthread_t thread = thread_start(process_reports, NULL);
  for (int i = 0; i < FEW; i++) {
    streams[i] = stream_new();
    CHECK_OK(aclrtSubscribeReport((uint64_t)thread, streams[i]));
  }
  for (int k = 0; k < CALLS; k++)
    for (int i = 0; i < FEW; i++) {
      calls[i][k] = (call_args){i, k};
      CHECK_OK(aclrtMemsetAsync(p + i * SIZE, SIZE, k, SIZE, streams[i]));
      CHECK_OK(aclrtLaunchCallback(called_in_order, &calls[i][k], k % 3 ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK,
                                   streams[i]));
    }
  for (int i = 0; i < FEW; i++) CHECK_OK(aclrtSynchronizeStream(streams[i]));
  for (int i = 0; i < FEW; i++) {
    while (atomic_load(&called[i]) < CALLS) nap_ms(1);
    CHECK_OK(aclrtUnSubscribeReport((uint64_t)thread, streams[i]));
  }
  atomic_store(&stop_reports, 1);
  pthread_join(thread, NULL);
  assert_int_equal(atomic_load(&out_of_order), 0);
  streams_destroy(streams, FEW);
  CHECK_OK(aclrtFree(p));
}

/* ---- fork ---- */

static atomic_int stop_activity, activity_failed;

static void *be_active(void *context) {
  aclrtStream stream = NULL;
  void *p = NULL;
  if (aclrtSetCurrentContext(context) || aclrtCreateStream(&stream)) atomic_fetch_add(&activity_failed, 1);
  while (!atomic_load(&stop_activity)) {
    const int failed = aclrtMalloc(&p, SIZE, ACL_MEM_MALLOC_HUGE_FIRST) || aclrtMemsetAsync(p, SIZE, 1, SIZE, stream) ||
                       aclrtMemcpy(NULL, 0, NULL, 0, ACL_MEMCPY_DEFAULT) == 0 || aclrtSynchronizeStream(stream) ||
                       aclrtFree(p);
    atomic_fetch_add(&activity_failed, failed);
  }
  if (aclrtDestroyStream(stream)) atomic_fetch_add(&activity_failed, 1);
  return NULL;
}

/* Locks that other threads held during the fork stay locked in the child, so it must need none. */
static void children_of_busy_threads_end(void **state) {
  (void)state;
  pthread_t threads[3];
  aclrtContext context;
  void *block = dev_filled(5, SIZE);
  CHECK_OK(aclrtGetCurrentContext(&context));
  atomic_store(&stop_activity, 0);
  for (int i = 0; i < 3; i++) threads[i] = thread_start(be_active, context);
  for (int i = 0; i < 40; i++) {
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
      signal(SIGALRM, SIG_DFL);
      alarm(20);
#ifndef SANITIZED /* a sanitizer's own exit handlers need locks */
      if (i % 2) exit(0);
#endif
      _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
  }
  atomic_store(&stop_activity, 1);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&activity_failed), 0);
  assert_dev_filled(block, 5, SIZE);
  CHECK_OK(aclrtFree(block));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(blocked_streams_do_not_stop_others), TEST(forced_destruction_drops_waiting_tasks),
      TEST(threads_wait_with_a_limit),          TEST(wait_refers_to_the_last_record_before_it),
      TEST(one_thread_serves_many_streams),     TEST(children_of_busy_threads_end),
  };
  const struct CMUnitTest resets[] = {
      TEST(forced_reset_drops_waiting_tasks),
      TEST(reset_waits_for_work),
      TEST(threads_synchronize_a_shared_device),
  };
  return cmocka_run_group_tests_name("workers", tests, device_up, device_down) +
         cmocka_run_group_tests_name("reset", resets, acl_up, acl_down);
}
