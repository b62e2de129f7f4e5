/* SPDX-License-Identifier: Apache-2.0 */
/* Calls while the process exits. Exit handlers registered before aclInit, and destructors, run after the library's own
 * exit handler; the work that they wait for must still complete, user functions included. Each case runs in a child
 * process (this program with the case's name as argument) under a watchdog. */
#include "acl_test.h"
#include "self.h"

enum { PATIENCE_S = 20, N_COUNTED = 5 };

static aclrtStream first, second;
static gate *held;
static atomic_int n_run;
static void *block;
static aclError (*end)(void);
static bool ends_in_destructor;

/* The subscribed thread keeps running while the process exits. */
static void *serve_callbacks(void *unused) {
  for (;;) aclrtProcessReport(100);
  return unused;
}

/* Leaves work in the streams: a host function that has started and one after it; a wait for those; and after the wait a
 * callback, a host function and a fill. */
static int leave_work(void) {
  aclrtEvent e;
  pthread_t server;
  if (aclInit(NULL) || aclrtSetDevice(0) || aclrtCreateStream(&first) || aclrtCreateStream(&second)) return 3;
  if (aclrtMalloc(&block, 4096, ACL_MEM_MALLOC_HUGE_FIRST) || aclrtCreateEvent(&e)) return 3;
  if (pthread_create(&server, NULL, serve_callbacks, NULL) || aclrtSubscribeReport(server, second)) return 4;
  held = gate_close(first);
  if (aclrtLaunchHostFunc(first, nap_then_count, &n_run) || aclrtRecordEvent(e, first)) return 5;
  if (aclrtStreamWaitEvent(second, e) || aclrtLaunchCallback(count_one, &n_run, ACL_CALLBACK_BLOCK, second)) return 5;
  if (aclrtLaunchHostFunc(second, count_one, &n_run) || aclrtMemsetAsync(block, 4096, 1, 4096, second)) return 5;
  return 0;
}

/* Runs after the library's threads have been stopped: adds work and waits for all of it. */
static void finish(void) {
  aclrtEvent e;
  gate_open(held);
  if (aclrtCreateEvent(&e) || aclrtLaunchHostFunc(first, count_one, &n_run) || aclrtRecordEvent(e, first)) _exit(7);
  if (aclrtStreamWaitEvent(second, e) || aclrtLaunchHostFunc(second, count_one, &n_run)) _exit(8);
  const aclError error = end();
  fprintf(stderr, "error %d, %d functions run\n", error, atomic_load(&n_run));
  if (error || atomic_load(&n_run) != N_COUNTED) _exit(9);
}

__attribute__((destructor)) static void finish_late(void) {
  if (ends_in_destructor) finish();
}

static aclError reset_device(void) { return aclrtResetDevice(0); }

static aclError poll_streams(void) {
  aclrtStreamStatus one, other;
  do
    if (aclrtStreamQuery(second, &one) || aclrtStreamQuery(first, &other)) return 1;
  while (one != ACL_STREAM_STATUS_COMPLETE || other != ACL_STREAM_STATUS_COMPLETE);
  return 0;
}

static aclError synchronize_in_steps(void) {
  aclError error;
  do error = aclrtSynchronizeStreamWithTimeout(second, 20);
  while (error == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  return error ? error : aclrtSynchronizeStream(first);
}

/* A thread of the program that already waits when the process exits, and that an exit handler joins. */
static pthread_t waiter;

static void *wait_for_second(void *unused) {
  if (aclrtSetDevice(0) || aclrtSynchronizeStream(second)) _exit(10);
  return unused;
}

static aclError join_waiter(void) { return pthread_join(waiter, NULL) || aclrtSynchronizeDevice(); }

static const struct victim {
  const char *name;
  aclError (*end)(void);
} victims[] = {
    {"reset", reset_device}, {"synchronize", aclrtSynchronizeDevice},
    {"poll", poll_streams},  {"steps", synchronize_in_steps},
    {"join", join_waiter},
};
enum { N_VICTIMS = sizeof victims / sizeof *victims };

static int be(const char *name) {
  alarm(PATIENCE_S);
  ends_in_destructor = name[0] == '+';
  if (!ends_in_destructor && atexit(finish)) return 2;
  for (int i = 0; i < N_VICTIMS; i++)
    if (!strcmp(name + ends_in_destructor, victims[i].name)) end = victims[i].end;
  const int failed = leave_work();
  if (failed) _exit(failed);
  if (end == join_waiter) waiter = thread_start(wait_for_second, NULL);
  if (end == join_waiter) nap_ms(50);
  return 0;
}

static void assert_ends(const char *how, const char *name) {
  static child_end end_of;
  char mode[32];
  snprintf(mode, sizeof mode, "%s%s", how, name);
  run_self(&end_of, mode, NULL);
  if (end_of.status) print_error("%s: status %#x: %s\n", mode, (unsigned)end_of.status, end_of.text);
  assert_int_equal(end_of.status, 0);
  assert_non_null(strstr(end_of.text, "error 0, 5 functions run"));
}

static void exit_handlers_wait_for_work(void **state) {
  (void)state;
  for (int i = 0; i < N_VICTIMS; i++) assert_ends("", victims[i].name);
}

static void destructors_wait_for_work(void **state) {
  (void)state;
  for (int i = 0; i < N_VICTIMS; i++) assert_ends("+", victims[i].name);
}

int main(int argc, char **argv) {
  if (argc == 2) return be(argv[1]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exit_handlers_wait_for_work),
      cmocka_unit_test(destructors_wait_for_work),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
