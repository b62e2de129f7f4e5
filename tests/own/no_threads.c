/* SPDX-License-Identifier: Apache-2.0 */
/* Operation when no thread can be started (ulimit -u, pids.max): the library reports it once, and waiting threads do
 * all the work. Each case runs in a child process as an ordinary user under RLIMIT_NPROC, with a watchdog. */
#include "acl_test.h"
#include "self.h"

#include <sys/resource.h>

enum { PATIENCE_S = 30, NOBODY = 65534 };

static struct rlimit threads;

static int limit_threads(rlim_t most) {
  const struct rlimit limited = {most, threads.rlim_max};
  return setrlimit(RLIMIT_NPROC, &limited);
}

static void *nothing(void *unused) { return unused; }

/* Returns false if threads can still be started. */
static bool give_up_threads(void) {
  pthread_t thread;
  if (geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY)) return false;
  if (getrlimit(RLIMIT_NPROC, &threads) || limit_threads(1)) return false;
  if (pthread_create(&thread, NULL, nothing, NULL)) return true;
  pthread_join(thread, NULL);
  return false;
}

static atomic_int n_run;

static int run_host_functions(void) {
  aclrtStream a = stream_new(), b = stream_new();
  aclrtEvent e = NULL;
  CHECK_OK(aclrtCreateEvent(&e));
  CHECK_OK(aclrtLaunchHostFunc(a, nap_then_count, &n_run));
  CHECK_OK(aclrtRecordEvent(e, a));
  CHECK_OK(aclrtStreamWaitEvent(b, e));
  CHECK_OK(aclrtLaunchHostFunc(b, count_one, &n_run));
  CHECK_OK(aclrtSynchronizeStream(b));
  assert_int_equal(atomic_load(&n_run), 2);
  CHECK_OK(aclrtLaunchHostFunc(a, count_one, &n_run));
  CHECK_OK(aclrtRecordEvent(e, a));
  CHECK_OK(aclrtSynchronizeEvent(e));
  CHECK_OK(aclrtLaunchHostFunc(b, count_one, &n_run));
  while (aclrtSynchronizeStreamWithTimeout(b, 1)) continue;
  CHECK_OK(aclrtLaunchHostFunc(b, count_one, &n_run));
  while (stream_status(b) != ACL_STREAM_STATUS_COMPLETE) continue;
  CHECK_OK(aclrtLaunchHostFunc(a, count_one, &n_run));
  CHECK_OK(aclrtResetDevice(0));
  assert_int_equal(atomic_load(&n_run), 6);
  return 0;
}

/* Work in streams that no thread waits for, on which an awaited stream depends, and timeouts that the ticker would
 * handle. */
static int wait_for_others(void) {
  aclrtStream a = stream_new(), b = stream_new(), c = stream_new();
  aclrtNotify n = NULL;
  aclrtEvent never = NULL;
  uint64_t *word = dev_filled(0, 64);
  CHECK_OK(aclrtCreateNotify(&n, 0));
  CHECK_OK(aclrtWaitAndResetNotify(n, a, 0));
  CHECK_OK(aclrtLaunchHostFunc(b, nap_then_count, &n_run));
  CHECK_OK(aclrtRecordNotify(n, b));
  CHECK_OK(aclrtSynchronizeStream(a));
  CHECK_OK(aclrtValueWait(word, 7, 0, a));
  CHECK_OK(aclrtLaunchHostFunc(b, nap_then_count, &n_run));
  CHECK_OK(aclrtValueWrite(word, 7, 0, b));
  CHECK_OK(aclrtSynchronizeStreamWithTimeout(a, 10000));
  CHECK_OK(aclrtCreateEvent(&never));
  CHECK_OK(aclrtStreamWaitEventWithTimeout(c, never, 1));
  CHECK_CODE(ACL_ERROR_RT_WAIT_TIMEOUT, aclrtSynchronizeStream(c));
  CHECK_OK(aclrtDestroyNotify(n));
  assert_int_equal(atomic_load(&n_run), 2);
  return 0;
}

static int process_callbacks(void) {
  aclrtStream s = stream_new();
  CHECK_OK(aclrtSubscribeReport((uint64_t)pthread_self(), s));
  CHECK_OK(aclrtLaunchHostFunc(s, nap_then_count, &n_run));
  for (int i = 0; i < 2; i++) CHECK_OK(aclrtLaunchCallback(count_one, &n_run, ACL_CALLBACK_BLOCK, s));
  CHECK_OK(aclrtProcessReport(-1));
  CHECK_OK(aclrtProcessReport(10000));
  assert_int_equal(atomic_load(&n_run), 3);
  CHECK_OK(aclrtSynchronizeStream(s));
  CHECK_CODE(ACL_ERROR_RT_REPORT_TIMEOUT, aclrtProcessReport(20));
  CHECK_OK(aclrtUnSubscribeReport((uint64_t)pthread_self(), s));
  return 0;
}

/* As soon as threads can be started again, library threads run the work that no thread waits for. */
static int go_on_with_threads(void) {
  aclrtStream s = stream_new();
  CHECK_OK(aclrtLaunchHostFunc(s, count_one, &n_run));
  CHECK_OK(aclrtSynchronizeStream(s));
  assert_int_equal(limit_threads(threads.rlim_cur), 0);
  CHECK_OK(aclrtLaunchHostFunc(s, count_one, &n_run));
  while (atomic_load(&n_run) < 2) nap_ms(1);
  return 0;
}

static const struct victim {
  const char *name;
  int (*body)(void);
} victims[] = {{"host functions", run_host_functions},
               {"others", wait_for_others},
               {"callbacks", process_callbacks},
               {"room again", go_on_with_threads}};
enum { N_VICTIMS = sizeof victims / sizeof *victims, SKIPPED = 77 };

static int be(const char *name) {
  alarm(PATIENCE_S);
  /* the test's ledger belongs to another user; /dev/null disables sharing, with a warning */
  setenv("CANNON_LEDGER", "/dev/null", 1);
  if (!give_up_threads()) _exit(SKIPPED);
  device_up(NULL);
  for (int i = 0; i < N_VICTIMS; i++)
    if (!strcmp(name, victims[i].name)) _exit(victims[i].body());
  _exit(2);
}

static void waiters_do_all_the_work(void **state) {
  (void)state;
  if (test_emulator()) skip(); /* QEMU's user mode has threads of its own */
  static child_end end;
  for (int i = 0; i < N_VICTIMS; i++) {
    run_self(&end, victims[i].name, NULL);
    if (WIFEXITED(end.status) && WEXITSTATUS(end.status) == SKIPPED) {
      print_message("not tried: threads can be started in spite of RLIMIT_NPROC, or nobody is no user here\n");
      skip();
    }
    if (end.status) print_error("%s: status %#x: %s\n", victims[i].name, (unsigned)end.status, end.text);
    assert_int_equal(end.status, 0);
    const char *said = strstr(end.text, "no thread of the library's can be started");
    assert_non_null(said);
    assert_null(strstr(said + 1, "no thread of the library's can be started"));
  }
}

int main(int argc, char **argv) {
  if (argc == 2) return be(argv[1]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(waiters_do_all_the_work)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
