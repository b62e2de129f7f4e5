/* SPDX-License-Identifier: Apache-2.0 */
/* The check of the order of locks (base/lock.h). Builds without CANNON_INVARIANTS check nothing, and the tests are
 * skipped. */
#include "base/lock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifdef CANNON_INVARIANTS
static mutex capture = MUTEX_INITIALIZER(CAPTURE), heap = MUTEX_INITIALIZER(HEAP),
             timeline = MUTEX_INITIALIZER(TIMELINE);
static spinlock submit = SPINLOCK_INITIALIZER(SUBMIT), rows = SPINLOCK_INITIALIZER(ROWS);

static void in_order(void) {
  mutex_lock(&capture);
  spin_lock(&submit);
  mutex_lock(&heap);
  mutex_lock(&timeline);
  mutex_unlock(&heap); /* in any order */
  mutex_unlock(&timeline);
  spin_unlock(&submit);
  mutex_unlock(&capture);
  spin_lock(&rows);
  spin_unlock(&rows);
  lock_expect_none(NULL);
}

static void out_of_order(void) {
  mutex_lock(&heap);
  mutex_lock(&capture);
}

static void twice(void) {
  spin_lock(&submit);
  spin_lock(&submit);
}

static void after_a_last_one(void) {
  spin_lock(&rows);
  mutex_lock(&timeline);
}

static void without_a_rank(void) {
  spinlock bare = {0};
  spin_lock(&bare);
}

static void asleep_with_a_lock(void) {
  pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  mutex_lock(&capture);
  mutex_lock(&heap);
  mutex_wait(&heap, &never, NULL);
}

/* A lock that is only tried is not checked. */
static void tried(void) {
  spinlock run = {0};
  mutex_lock(&timeline);
  assert_true(spin_trylock(&run));
  spin_unlock(&run);
  mutex_unlock(&timeline);
}

/* Runs the function in a child; `words` are what it prints when it is stopped (NULL: it ends well). */
static void expect(void (*function)(void), const char *words) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGABRT, SIG_DFL); /* cmocka's handler would go on with the next test */
    dup2(ends[1], STDERR_FILENO);
    function();
    _exit(0);
  }
  close(ends[1]);
  char text[1024] = "";
  size_t n = 0;
  for (ssize_t got; n < sizeof text - 1 && (got = read(ends[0], text + n, sizeof text - 1 - n)) > 0;) n += (size_t)got;
  close(ends[0]);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(WIFSIGNALED(status) ? WTERMSIG(status) : 0, words ? SIGABRT : 0);
  if (words && !strstr(text, words)) fail_msg("expected '%s' in: %s", words, text);
}

static void order_is_checked(void **state) {
  (void)state;
  expect(in_order, NULL);
  expect(tried, NULL);
  expect(out_of_order, "takes CAPTURE");
  expect(out_of_order, "while it holds HEAP");
  expect(twice, "while it holds SUBMIT");
  expect(after_a_last_one, "while it holds ROWS");
  expect(without_a_rank, "has no rank");
  expect(asleep_with_a_lock, "while it holds CAPTURE");
}
#else
static void order_is_checked(void **state) {
  (void)state;
  skip();
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(order_is_checked)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
