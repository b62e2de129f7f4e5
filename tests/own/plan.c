/* SPDX-License-Identifier: Apache-2.0 */
/* The planner's public interface (cannon/plan.h): plans, limits, cancellation and errors. */
#include "cannon/plan.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl_test.h"
#include "plan_cases.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { LAST_INSTANCE = 'C', N_MODELS = 1 }; /* sanitizer builds are about 10 times slower */
#else
enum { LAST_INSTANCE = 'K', N_MODELS = 3 };
#endif

static plan_case c;
static uint64_t offsets[CASE_MOST];
static cannon_plan_result result;

static cannon_plan_error plan(const cannon_plan_options *options) {
  return cannon_plan(&c.problem, options, offsets, &result);
}

/* Reads an instance of bench/plans into the case. */
static void load(const char *name) {
  char path[512], line[256];
  snprintf(path, sizeof path, "%s/%s.csv", PLANS, name);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  case_clear(&c);
  assert_non_null(fgets(line, sizeof line, f));
  while (fgets(line, sizeof line, f)) {
    unsigned long id, lower, upper, size;
    assert_int_equal(sscanf(line, "%lu,%lu,%lu,%lu", &id, &lower, &upper, &size), 4);
    case_add(&c, lower, upper, size);
  }
  fclose(f);
}

static void an_empty_problem_has_peak_zero(void **state) {
  (void)state;
  case_clear(&c);
  assert_int_equal(plan(NULL), CANNON_PLAN_OK);
  assert_true(result.optimal && result.fits && result.end.peak == 0);
  case_add(&c, 5, 6, 0);
  case_add(&c, 5, 6, 7);
  case_add(&c, 5, 6, 0);
  assert_int_equal(plan(NULL), CANNON_PLAN_OK);
  assert_true(result.optimal && result.end.peak == 7);
  assert_int_equal(cannon_plan_check(&c.problem, offsets, &result), CANNON_PLAN_OK);
}

/* minimalloc's instances need nearly all of their capacity. The limit is a number of nodes, so the result does not
 * depend on time. */
static void instances_meet_their_capacity(void **state) {
  (void)state;
  for (char name[] = "minimalloc/A.1048576"; name[11] <= LAST_INSTANCE; ++name[11]) {
    load(name);
    assert_int_equal(plan(&(cannon_plan_options){.capacity = 1048576, .max_nodes = 2000000}), CANNON_PLAN_OK);
    assert_true(result.fits && result.end.peak <= 1048576);
    assert_true(case_holds(&c, offsets));
  }
}

/* The peak equals the lower bound, which is the maximum of live bytes at any time. */
static void plans_of_models_reach_the_bound(void **state) {
  (void)state;
  static const char *const names[] = {"idealloc/G_1", "idealloc/tiny_bert", "idealloc/resnet50"};
  for (int i = 0; i < N_MODELS; ++i) {
    load(names[i]);
    assert_int_equal(plan(&(cannon_plan_options){.max_nodes = 2000000}), CANNON_PLAN_OK);
    assert_true(result.optimal);
    assert_true(case_holds(&c, offsets));
  }
}

/* With many buffers only the first pass ("sweep") runs, so its result must be near the bound. */
static void many_buffers_are_planned_by_the_sweep(void **state) {
  (void)state;
  enum { N = 2000 };
  uint64_t random = 7;
  case_clear(&c);
  for (int i = 0; i < N; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const uint64_t lower = random >> 40, life = 1 + (random >> 20 & 0xfffff), size = 64 + (random & 0xffff);
    case_add(&c, lower, lower + life, size)->alignment = i % 3 ? 1 : 64;
  }
  assert_int_equal(plan(&(cannon_plan_options){.max_nodes = 1}), CANNON_PLAN_OK);
  assert_int_equal(cannon_plan_check(&c.problem, offsets, &(cannon_plan_result){0}), CANNON_PLAN_OK);
  assert_true(result.end.peak <= result.end.bound + result.end.bound / 4);
  assert_string_equal(result.end.method, "sweep");
}

static void results_are_the_same_for_any_number_of_threads(void **state) {
  (void)state;
  static uint64_t one[CASE_MOST];
  load("minimalloc/F.1048576");
  cannon_plan_options o = {.max_nodes = 60000, .seed = 3};
  assert_int_equal(plan(&o), CANNON_PLAN_OK);
  const cannon_plan_result alone = result;
  memcpy(one, offsets, sizeof one);
  for (o.n_threads = 2; o.n_threads < 6; o.n_threads += 3) {
    assert_int_equal(plan(&o), CANNON_PLAN_OK);
    assert_int_equal(result.end.nodes, alone.end.nodes);
    assert_memory_equal(one, offsets, c.problem.n_buffers * sizeof *one);
  }
}

typedef struct {
  int calls, most;
  uint64_t peak, bound;
} watcher;

static bool watch_progress(void *argument, const cannon_plan_progress *p) {
  watcher *w = argument;
  assert_true(p->peak < w->peak || p->bound > w->bound);
  assert_true(p->peak <= w->peak && p->bound >= w->bound && p->bound <= p->peak && *p->method);
  w->peak = p->peak;
  w->bound = p->bound;
  return ++w->calls < w->most;
}

static void progress_improves_monotonically_and_can_cancel(void **state) {
  (void)state;
  watcher w = {.most = 1000, .peak = UINT64_MAX};
  load("minimalloc/A.1048576");
  assert_int_equal(plan(&(cannon_plan_options){.max_nodes = 100000, .progress = watch_progress, .argument = &w}),
                   CANNON_PLAN_OK);
  assert_true(w.calls > 1 && w.peak == result.end.peak && w.bound == result.end.bound);
  w = (watcher){.most = 1, .peak = UINT64_MAX};
  assert_int_equal(plan(&(cannon_plan_options){.progress = watch_progress, .argument = &w}), CANNON_PLAN_OK);
  assert_int_equal(w.calls, 1);
  assert_true(case_holds(&c, offsets));
}

static void *cancel_soon(void *argument) {
  __atomic_store_n((int *)argument, 1, __ATOMIC_RELAXED);
  return NULL;
}

/* Without a limit, the search for a better plan of instance D would not end. */
static void another_thread_can_cancel(void **state) {
  (void)state;
  static int cancel;
  pthread_t thread;
  load("minimalloc/D.1048576");
  assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &cancel), 0);
  assert_int_equal(plan(&(cannon_plan_options){.cancel = &cancel, .n_threads = 2}), CANNON_PLAN_OK);
  pthread_join(thread, NULL);
  assert_true(case_holds(&c, offsets));
}

static void a_capacity_below_the_bound_is_infeasible(void **state) {
  (void)state;
  load("minimalloc/B.1048576");
  assert_int_equal(plan(&(cannon_plan_options){.capacity = 1048575}), CANNON_PLAN_OK);
  assert_true(!result.fits && result.end.peak >= 1048576 && case_holds(&c, offsets));
}

/* Three buffers whose peak cannot be below 7 although at most 6 bytes are live at once; proved by exhaustive search. */
static void a_bound_is_proved(void **state) {
  (void)state;
  case_clear(&c);
  case_add(&c, 0, 2, 2);
  case_add(&c, 0, 1, 2);
  case_add(&c, 1, 3, 2);
  case_add(&c, 2, 4, 3);
  case_add(&c, 3, 5, 2);
  case_add(&c, 1, 2, 1);
  case_add(&c, 4, 5, 3);
  assert_int_equal(plan(&(cannon_plan_options){.max_nodes = 100000}), CANNON_PLAN_OK);
  for (uint32_t b = 0; b < c.problem.n_buffers; ++b) offsets[b] = CANNON_PLAN_ANYWHERE;
  assert_true(result.optimal && result.end.peak == least_peak(&c, offsets, 0, UINT64_MAX));
}

static void all_kinds_of_constraints_are_met(void **state) {
  (void)state;
  case_clear(&c);
  case_add(&c, 0, 10, 100)->alignment = 64;
  case_add(&c, 0, 10, 100)->alignment = 48;
  case_add(&c, 5, 10, 10)->offset = 1000;
  case_add(&c, 10, 20, 50)->in_place_of = 1;
  cannon_plan_buffer *gapped = case_add(&c, 0, 20, 300);
  case_gap(&c, gapped, 2, 18, 0, 16);
  case_add(&c, 3, 17, 284);
  case_alias(&c, 0, 1);
  assert_int_equal(plan(&(cannon_plan_options){.max_nodes = 10000}), CANNON_PLAN_OK);
  assert_true(case_holds(&c, offsets));
  assert_int_equal(offsets[2], 1000);
  assert_int_equal(offsets[3], offsets[1]);
  assert_int_equal(result.end.peak, 1010); /* all other buffers fit below the fixed one */
}

/* Expects an error of planning. Checking must report the same error, or that offset 0 is wrong for a buffer with a
 * fixed offset. */
static void expect(cannon_plan_error error, const char *words) {
  for (size_t i = 0; i < CASE_MOST; ++i) offsets[i] = 0;
  assert_string_equal(cannon_plan_error_name(plan(NULL)), cannon_plan_error_name(error));
  assert_non_null(strstr(result.message, words));
  const cannon_plan_error checked = cannon_plan_check(&c.problem, offsets, &result);
  assert_true(checked == error || (error == CANNON_PLAN_CONFLICT && checked == CANNON_PLAN_MISPLACED));
}

static cannon_plan_buffer *two(void) {
  case_clear(&c);
  case_add(&c, 0, 5, 8);
  return case_add(&c, 0, 5, 8);
}

static void errors_name_the_buffer(void **state) {
  (void)state;
  two()->lower = 5;
  expect(CANNON_PLAN_BAD_LIFE, "buffer 1 lives from 5 to 5");
  two()->upper = UINT64_MAX;
  expect(CANNON_PLAN_TOO_LARGE, "buffer 1 lives until");
  two()->size = (uint64_t)1 << 61;
  expect(CANNON_PLAN_TOO_LARGE, "buffer 1 add up to more than 2^61");
  two()->size = UINT64_MAX;
  expect(CANNON_PLAN_TOO_LARGE, "buffer 1");
  two()->alignment = UINT64_MAX;
  expect(CANNON_PLAN_TOO_LARGE, "buffer 1");
  cannon_plan_buffer *b = two();
  b->offset = 12;
  b->alignment = 8;
  expect(CANNON_PLAN_BAD_OFFSET, "buffer 1 has the offset 12");
  case_gap(&c, two(), 1, 6, 0, 0);
  expect(CANNON_PLAN_BAD_GAP, "buffer 1 has a gap from 1 to 6");
  case_gap(&c, two(), 1, 3, 4, 9);
  expect(CANNON_PLAN_BAD_GAP, "window from 4 to 9");
  two()->n_gaps = 1;
  expect(CANNON_PLAN_BAD_GAP, "but there are 0");
  two()->in_place_of = 1;
  expect(CANNON_PLAN_BAD_PAIR, "buffer 1 is in place of buffer 1");
  two()->in_place_of = 0;
  c.buffers[0].in_place_of = 1;
  expect(CANNON_PLAN_BAD_PAIR, "is in place of itself");
  two();
  case_alias(&c, 0, 2);
  expect(CANNON_PLAN_BAD_PAIR, "alias pair 0");
  two()->offset = 4;
  c.buffers[0].offset = 8;
  expect(CANNON_PLAN_CONFLICT, "overlap");
  two()->in_place_of = 0;
  c.buffers[0].offset = 8;
  c.buffers[1].offset = 16;
  expect(CANNON_PLAN_CONFLICT, "buffer 1 has the offset 16");
}

static void bad_arguments_are_refused(void **state) {
  (void)state;
  two();
  assert_int_equal(cannon_plan(NULL, NULL, offsets, &result), CANNON_PLAN_NULL);
  assert_int_equal(cannon_plan(&c.problem, NULL, NULL, &result), CANNON_PLAN_NULL);
  assert_int_equal(cannon_plan(&c.problem, NULL, offsets, NULL), CANNON_PLAN_NULL);
  assert_int_equal(cannon_plan_check(NULL, offsets, &result), CANNON_PLAN_NULL);
  assert_int_equal(plan(&(cannon_plan_options){.n_threads = 257}), CANNON_PLAN_BAD_OPTION);
  assert_int_equal(plan(&(cannon_plan_options){.seconds = -1}), CANNON_PLAN_BAD_OPTION);
  c.problem.n_gaps = SIZE_MAX;
  assert_int_equal(plan(NULL), CANNON_PLAN_TOO_LARGE);
  assert_string_equal(cannon_plan_error_name((cannon_plan_error)99), "unknown");
}

static void a_check_names_the_violation(void **state) {
  (void)state;
  two();
  offsets[0] = 0;
  offsets[1] = 7;
  assert_int_equal(cannon_plan_check(&c.problem, offsets, &result), CANNON_PLAN_OVERLAP);
  assert_non_null(strstr(result.message, "buffer 0"));
  assert_non_null(strstr(result.message, "buffer 1"));
  offsets[1] = 8;
  assert_int_equal(cannon_plan_check(&c.problem, offsets, &result), CANNON_PLAN_OK);
  assert_true(result.end.peak == 16 && result.optimal);
  c.buffers[1].alignment = 3;
  assert_int_equal(cannon_plan_check(&c.problem, offsets, &result), CANNON_PLAN_MISPLACED);
  offsets[1] = UINT64_MAX;
  assert_int_equal(cannon_plan_check(&c.problem, offsets, &result), CANNON_PLAN_MISPLACED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_empty_problem_has_peak_zero),
      cmocka_unit_test(instances_meet_their_capacity),
      cmocka_unit_test(plans_of_models_reach_the_bound),
      cmocka_unit_test(many_buffers_are_planned_by_the_sweep),
      cmocka_unit_test(results_are_the_same_for_any_number_of_threads),
      cmocka_unit_test(progress_improves_monotonically_and_can_cancel),
      cmocka_unit_test(another_thread_can_cancel),
      cmocka_unit_test(a_capacity_below_the_bound_is_infeasible),
      cmocka_unit_test(a_bound_is_proved),
      cmocka_unit_test(all_kinds_of_constraints_are_met),
      cmocka_unit_test(errors_name_the_buffer),
      cmocka_unit_test(bad_arguments_are_refused),
      cmocka_unit_test(a_check_names_the_violation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
