/* SPDX-License-Identifier: Apache-2.0 */
/* Parallel loops: every part runs once, whoever runs it. The linker makes the machine have four processors and the bank
 * always for teams, so that threads are there wherever this runs; and thread creation fail where a test says so. */
#include "runtime/parallel.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/bank.h"
#include "runtime/scheduler.h"
#include "unit.h"

enum { N_THREADS = 4, LONG_NS = 1000 * 1000 * 1000, MOST_PARTS = 1000 };

int __wrap_scheduler_n_cores(void) { return N_THREADS; }
int __wrap_bank_threads(const bank *b, int most) {
  (void)b;
  return most;
}

static int threads_allowed = N_THREADS;
int __real_scheduler_start_thread(void *(*body)(void *), void *argument);
int __wrap_scheduler_start_thread(void *(*body)(void *), void *argument) {
  if (threads_allowed <= 0) return EAGAIN;
  --threads_allowed;
  return __real_scheduler_start_thread(body, argument);
}

/* Counts the parts, and finds two threads with one number. */
typedef struct {
  int n_threads;
  atomic_int runs[MOST_PARTS], inside[N_THREADS], wrong;
} tally;

static void count(const void *job, int64_t part, int thread) {
  tally *t = (tally *)job;
  if (thread < 0 || thread >= t->n_threads || atomic_fetch_add(&t->inside[thread], 1) != 0) {
    atomic_fetch_add(&t->wrong, 1);
    return;
  }
  atomic_fetch_add(&t->runs[part], 1);
  atomic_fetch_sub(&t->inside[thread], 1);
}

/* A loop on n_threads at most; whether every part ran once. */
static bool each_part_runs_once(int n_threads, int n_parts) {
  tally *t = calloc(1, sizeof *t);
  parallel_team team = parallel_begin(LONG_NS);
  if (team.n_threads > n_threads) team.n_threads = n_threads;
  t->n_threads = team.n_threads;
  parallel_run(&team, count, t, n_parts);
  parallel_end(&team);
  bool good = atomic_load(&t->wrong) == 0;
  for (int i = 0; i < MOST_PARTS; ++i) good &= atomic_load(&t->runs[i]) == (i < n_parts);
  free(t);
  return good;
}

static void every_part_runs_once(void **state) {
  (void)state;
  static const int parts[] = {0, 1, 2, 3, 4, 5, 7, 16, 63, MOST_PARTS};
  for (int round = 0; round < 50; ++round)
    for (int n_threads = 1; n_threads <= N_THREADS; ++n_threads)
      for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) assert_true(each_part_runs_once(n_threads, parts[i]));
}

static void short_loops_have_no_team(void **state) {
  (void)state;
  const parallel_team team = parallel_begin(PARALLEL_LEAST_NS - 1);
  assert_int_equal(team.n_threads, 1);
  assert_int_equal(parallel_max_threads(PARALLEL_LEAST_NS - 1), 1);
  assert_int_equal(parallel_max_threads(PARALLEL_LEAST_NS), 2);
  assert_int_equal(parallel_max_threads(LONG_NS), N_THREADS);
  parallel_end(&team);
}

static void *run_many(void *failed) {
  for (int i = 0; i < 500; ++i)
    if (!each_part_runs_once(N_THREADS, i % 40)) atomic_store((atomic_bool *)failed, true);
  return NULL;
}

static void several_callers_at_once(void **state) {
  (void)state;
  pthread_t callers[N_THREADS];
  atomic_bool failed = false;
  for (int i = 0; i < N_THREADS; ++i) assert_int_equal(pthread_create(&callers[i], NULL, run_many, &failed), 0);
  for (int i = 0; i < N_THREADS; ++i) pthread_join(callers[i], NULL);
  assert_false(failed);
}

static void mark(const void *job, int64_t begin, int64_t end) {
  atomic_int *const marks = (atomic_int *)job;
  for (int64_t i = begin; i < end; ++i) atomic_fetch_add(&marks[i], begin % 16 == 0 ? 1 : 100);
}

static void ranges_are_cut_at_the_grain(void **state) {
  (void)state;
  static atomic_int marks[MOST_PARTS + 1];
  for (int total = 1; total <= MOST_PARTS; total += total < 70 ? 1 : 93) {
    const parallel_team team = parallel_begin(LONG_NS);
    parallel_ranges(&team, mark, marks, total, 16);
    parallel_end(&team);
    for (int i = 0; i <= MOST_PARTS; ++i) assert_int_equal(atomic_exchange(&marks[i], 0), i < total);
  }
}

static void nest(const void *job, int64_t part, int thread) {
  (void)part, (void)thread;
  const parallel_team team = parallel_begin(LONG_NS);
  tally *t = calloc(1, sizeof *t);
  t->n_threads = team.n_threads;
  if (team.n_threads != 1 || team.is_held) atomic_store((atomic_bool *)job, true);
  parallel_run(&team, count, t, 10);
  for (int i = 0; i < 10; ++i)
    if (atomic_load(&t->runs[i]) != 1) atomic_store((atomic_bool *)job, true);
  free(t);
  parallel_end(&team);
}

static void loops_inside_parts_have_no_team(void **state) {
  (void)state;
  atomic_bool failed = false;
  const parallel_team team = parallel_begin(LONG_NS);
  assert_int_equal(team.n_threads, N_THREADS);
  parallel_run(&team, nest, &failed, 20);
  parallel_end(&team);
  assert_false(failed);
}

/* Returns when as many parts are being run at once: each by a thread of its own. */
static void meet(const void *job, int64_t part, int thread) {
  (void)part, (void)thread;
  atomic_int *const missing = (atomic_int *)job;
  atomic_fetch_sub(missing, 1);
  while (atomic_load(missing) > 0) sched_yield();
}

static void all_threads_meet(void) {
  const parallel_team team = parallel_begin(LONG_NS);
  atomic_int missing = team.n_threads;
  parallel_run(&team, meet, &missing, team.n_threads);
  parallel_end(&team);
}

static void sleeping_threads_are_woken(void **state) {
  (void)state;
  for (int i = 0; i < 20; ++i) {
    usleep(i % 4 * 1000);
    all_threads_meet();
  }
}

/* Runs the body in a child, which an alarm ends where it hangs. */
static void assert_works_in_child(bool (*body)(void)) {
  if (WITH_TSAN) skip(); /* it allows such a child no threads */
  const pid_t pid = fork();
  assert_true(pid >= 0);
  if (!pid) {
    alarm(100);
    _exit(body() ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}

static bool child_meets(void) {
  threads_allowed = N_THREADS;
  all_threads_meet();
  return each_part_runs_once(N_THREADS, 100);
}

static void a_child_starts_its_own_threads(void **state) {
  (void)state;
  for (int i = 0; i < 5; ++i) assert_works_in_child(child_meets);
  all_threads_meet();
}

static void *loop_until(void *stop) {
  while (!atomic_load((atomic_bool *)stop)) each_part_runs_once(N_THREADS, 20);
  return NULL;
}

/* The team is taken when the parent forks. */
static void a_child_of_a_busy_parent_has_the_team(void **state) {
  (void)state;
  pthread_t caller;
  atomic_bool stop = false;
  assert_int_equal(pthread_create(&caller, NULL, loop_until, &stop), 0);
  for (int i = 0; i < 10; ++i) assert_works_in_child(child_meets);
  atomic_store(&stop, true);
  pthread_join(caller, NULL);
}

static bool child_without_threads(void) {
  threads_allowed = 0;
  for (int i = 0; i < 3; ++i) {
    const parallel_team team = parallel_begin(LONG_NS);
    if (team.n_threads != 1) return false;
    parallel_end(&team);
    if (!each_part_runs_once(N_THREADS, 30)) return false;
  }
  return true;
}

static bool child_with_one_thread(void) {
  threads_allowed = 1;
  const parallel_team team = parallel_begin(LONG_NS);
  parallel_end(&team);
  all_threads_meet();
  return team.n_threads == 2 && each_part_runs_once(N_THREADS, 30);
}

static void where_no_thread_can_be_started_the_caller_does_it(void **state) {
  (void)state;
  assert_works_in_child(child_without_threads);
  assert_works_in_child(child_with_one_thread);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_part_runs_once),
      cmocka_unit_test(short_loops_have_no_team),
      cmocka_unit_test(several_callers_at_once),
      cmocka_unit_test(ranges_are_cut_at_the_grain),
      cmocka_unit_test(loops_inside_parts_have_no_team),
      cmocka_unit_test(sleeping_threads_are_woken),
      cmocka_unit_test(a_child_starts_its_own_threads),
      cmocka_unit_test(a_child_of_a_busy_parent_has_the_team),
      cmocka_unit_test(where_no_thread_can_be_started_the_caller_does_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
