/* SPDX-License-Identifier: Apache-2.0 */
/* The time in which any task of a device runs (trace/overlap.h). */
#include "trace/overlap.h"

#include <time.h>

#include "base/sync.h"

#include "unit.h"

static void spend_some_time(void) {
  const uint64_t begin = now_ns();
  while (now_ns() - begin < 100000) {
  }
}

static void time_passes_while_any_task_runs(void **state) {
  (void)state;
  const uint64_t idle = overlap_ns(3);
  spend_some_time();
  assert_int_equal(overlap_ns(3), idle);
  const uint64_t begin = now_ns();
  overlap_begin(3);
  spend_some_time();
  const uint64_t one = overlap_ns(3);
  assert_true(one - idle >= 100000);
  overlap_begin(3); /* a second stream */
  spend_some_time();
  overlap_end(3);
  spend_some_time();
  const uint64_t still = overlap_ns(3);
  assert_true(still - one >= 200000);
  overlap_end(3);
  const uint64_t ended = overlap_ns(3);
  assert_true(ended - idle <= now_ns() - begin); /* what two streams do at the same time counts once */
  spend_some_time();
  assert_int_equal(overlap_ns(3), ended);
  assert_int_equal(overlap_ns(4), 0); /* another device */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(time_passes_while_any_task_runs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
