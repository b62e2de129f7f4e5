/* SPDX-License-Identifier: Apache-2.0 */
/* A process that is stopped while holding the lock on the machine's file: other processes report it, wait, and after a
 * limit refuse allocations with a message that names it. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/share/file_lock.h"
#include "memory/share/ledger.h"
#include "memory/share/machine.h"
#include "unit.h"

enum { LIMIT = 1 << 30 };
static char folder[] = "/tmp/cannon-lock-XXXXXX", ledger[64], said[64];
static int kept_stderr;

static int machine_up(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return 1;
  snprintf(ledger, sizeof ledger, "%s/ledger", folder);
  snprintf(said, sizeof said, "%s/stderr", folder);
  setenv("CANNON_LEDGER", ledger, 1);
  machine_join("test");
  return 0;
}

static int machine_down(void **state) {
  (void)state;
  unlink(ledger);
  unlink(said);
  return rmdir(folder);
}

/* listen() redirects stderr to a file; heard() restores it and returns the file's content. */
static void listen(void) {
  fflush(stderr);
  kept_stderr = dup(STDERR_FILENO);
  const int fd = open(said, O_RDWR | O_CREAT | O_TRUNC, 0600);
  dup2(fd, STDERR_FILENO);
  close(fd);
}

static const char *heard(void) {
  static char text[4096];
  fflush(stderr);
  const int fd = open(said, O_RDONLY);
  const ssize_t n = read(fd, text, sizeof text - 1);
  text[n > 0 ? n : 0] = '\0';
  close(fd);
  dup2(kept_stderr, STDERR_FILENO);
  close(kept_stderr);
  return text;
}

static int times_in(const char *text, const char *words) {
  int n = 0;
  for (; (text = strstr(text, words)); ++text) ++n;
  return n;
}

/* Starts a process on this machine that stops while holding the lock. Its name contains characters that must not reach
 * a terminal. */
static pid_t start_holder(void) {
  int status = 0;
  const pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* leaves no stopped process when a test fails */
    prctl(PR_SET_NAME, "a\x1b[2Jb)");
    if (!machine_enter()) _exit(2); /* its own lock, through the parent's descriptor */
    raise(SIGSTOP);
    machine_leave();
    _exit(0);
  }
  assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
  assert_true(WIFSTOPPED(status));
  return pid;
}

static void let_go(pid_t pid) {
  int status = 0;
  kill(pid, SIGCONT);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}

static void *continue_soon(void *pid) {
  usleep(400 * 1000);
  kill(*(pid_t *)pid, SIGCONT);
  return NULL;
}

static void a_stopped_holder_is_named_and_waited_for(void **state) {
  (void)state;
  char name[128];
  int status;
  pthread_t helper;
  file_lock_patience = (file_lock_times){.until_words_ms = 200, .until_failure_ms = 20000};
  pid_t pid = start_holder();
  snprintf(name, sizeof name, "process %d (a\\x1b[2Jb)), which is stopped, keeps %s", (int)pid, ledger);
  pthread_create(&helper, NULL, continue_soon, &pid);
  listen();
  const bool granted = ledger_charge(0, 4096, LIMIT);
  const char *text = heard();
  pthread_join(helper, NULL);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(granted);
  if (times_in(text, name) != 1) print_error("%s\nlacks: %s\n", text, name);
  assert_int_equal(times_in(text, name), 1);
  ledger_return(0, 4096);
}

static void charges_fail_while_the_holder_stays_stopped(void **state) {
  (void)state;
  char words[256] = "", name[32];
  file_lock_patience = (file_lock_times){.until_words_ms = 100, .until_failure_ms = 500};
  const pid_t pid = start_holder();
  snprintf(name, sizeof name, "process %d (a\\x1b[2Jb))", (int)pid);
  assert_false(ledger_is_busy(words, sizeof words));
  listen();
  const bool first = ledger_charge(0, 4096, LIMIT), second = ledger_charge(0, 4096, LIMIT);
  ledger_return(0, 0); /* these calls wait for no lock */
  const bool busy = ledger_is_busy(words, sizeof words);
  const uint64_t others = ledger_others(0);
  const char *text = heard();
  assert_false(first);
  assert_false(second);
  assert_true(busy);
  assert_int_equal(others, 0);
  assert_non_null(strstr(words, name));
  assert_int_equal(times_in(text, name), 1); /* reported once, not for each charge */
  let_go(pid);
  assert_true(ledger_charge(0, 4096, LIMIT));
  assert_false(ledger_is_busy(words, sizeof words));
  ledger_return(0, 4096);
}

/* Process exit waits only briefly and leaves the file to the other process. */
static void exit_waits_only_briefly(void **state) {
  (void)state;
  file_lock_patience = (file_lock_times){.until_words_ms = 100, .until_failure_ms = 60000};
  const pid_t pid = start_holder();
  alarm(20);
  machine_quit();
  alarm(0);
  assert_int_equal(access(ledger, F_OK), 0);
  let_go(pid);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_stopped_holder_is_named_and_waited_for),
      cmocka_unit_test(charges_fail_while_the_holder_stays_stopped),
      cmocka_unit_test(exit_waits_only_briefly),
  };
  return cmocka_run_group_tests(tests, machine_up, machine_down);
}
