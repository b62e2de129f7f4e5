/* SPDX-License-Identifier: Apache-2.0 */
/* Ratings of a program's memory use: limits of the grades, insufficient data, and the figures that are rated. */
#include "cli/report/health.h"
#include "unit.h"

enum { MIB = 1 << 20 };

static void limits_of_grades_are_as_documented(void **state) {
  (void)state;
  static const struct {
    health_kind kind;
    double value;
    health_grade grade;
  } cases[] = {
      {HEALTH_LATENCY, 0, HEALTH_GOOD},         {HEALTH_LATENCY, 9.99, HEALTH_GOOD},
      {HEALTH_LATENCY, 10, HEALTH_FAIR},        {HEALTH_LATENCY, 50, HEALTH_FAIR},
      {HEALTH_LATENCY, 50.1, HEALTH_BAD},       {HEALTH_FRAGMENTATION, 0.099, HEALTH_GOOD},
      {HEALTH_FRAGMENTATION, 0.1, HEALTH_FAIR}, {HEALTH_FRAGMENTATION, 0.3, HEALTH_FAIR},
      {HEALTH_FRAGMENTATION, 1, HEALTH_BAD},    {HEALTH_HIT_RATE, 1, HEALTH_GOOD},
      {HEALTH_HIT_RATE, 0.9, HEALTH_FAIR},      {HEALTH_HIT_RATE, 0.7, HEALTH_FAIR},
      {HEALTH_HIT_RATE, 0.69, HEALTH_BAD},      {HEALTH_ZERO_COPY, 0.81, HEALTH_GOOD},
      {HEALTH_ZERO_COPY, 0.8, HEALTH_FAIR},     {HEALTH_ZERO_COPY, 0.5, HEALTH_FAIR},
      {HEALTH_ZERO_COPY, 0.49, HEALTH_BAD},
  };
  for (size_t i = 0; i < COUNT(cases); i++)
    assert_int_equal(health_judge(cases[i].kind, cases[i].value), cases[i].grade);
}

static stats_file *of(void) {
  static stats_file p;
  memset(&p, 0, sizeof p);
  return &p;
}

static void without_events_the_grade_is_unknown(void **state) {
  (void)state;
  for (health_kind kind = 0; kind < HEALTH_KINDS; kind++) {
    const health_verdict v = health_of(of(), kind, false);
    assert_int_equal(v.grade, HEALTH_UNKNOWN);
    assert_true(v.value == 0);
  }
}

static void assert_verdict(const stats_file *p, health_kind kind, bool running, double value, health_grade grade) {
  const health_verdict v = health_of(p, kind, running);
  assert_true(v.value > value - 1e-9 && v.value < value + 1e-9);
  assert_int_equal(v.grade, grade);
}

static void figures_combine_all_devices(void **state) {
  (void)state;
  stats_file *p = of();
  p->device[0].n_allocs = 150;
  p->device[1].n_allocs = 50;
  p->device[0].n_hits = 150;
  p->device[1].n_hits = 10;
  p->device[1].alloc.sum_ns = 200 * 60 * 1000;
  p->device[0].live_bytes = 30 * MIB;
  p->device[1].live_bytes = 30 * MIB;
  p->device[0].committed_bytes = 100 * MIB;
  p->device[0].peak_bytes = 95 * MIB;
  p->device[0].peak_committed_bytes = 100 * MIB;
  p->copies[STATS_H2D].bytes = 6 * MIB;
  p->copies[STATS_D2D].bytes = 100 * MIB; /* copies within the device cannot be saved */
  p->elided[STATS_H2D].bytes = 14 * MIB;
  assert_verdict(p, HEALTH_LATENCY, true, 60, HEALTH_BAD);
  assert_verdict(p, HEALTH_HIT_RATE, true, 0.8, HEALTH_FAIR);
  assert_verdict(p, HEALTH_FRAGMENTATION, true, 0.4, HEALTH_BAD);
  assert_verdict(p, HEALTH_FRAGMENTATION, false, 0.05, HEALTH_GOOD); /* computed from the peaks */
  assert_verdict(p, HEALTH_ZERO_COPY, true, 0.7, HEALTH_FAIR);
  p->device[0].n_allocs = 0;
  /* 50 allocations are too few for a rating */
  assert_int_equal(health_of(p, HEALTH_HIT_RATE, true).grade, HEALTH_UNKNOWN);
}

static void fragmentation_of_one_heap_is_computed(void **state) {
  (void)state;
  static stats_heap h = {.live_bytes = 90,
                         .requested_bytes = 45,
                         .allocated_bytes = 400,
                         .asked_bytes = 300,
                         .committed_bytes = 100,
                         .peak_bytes = 100};
  assert_true(health_internal(&h, true) == 0.5);
  assert_true(health_internal(&h, false) == 0.25);
  assert_true(health_fragmentation(&h, true) > 0.099 && health_fragmentation(&h, true) < 0.101);
  assert_true(health_fragmentation(&h, false) == 0); /* nothing was committed at its peak: unknown */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(limits_of_grades_are_as_documented),
      cmocka_unit_test(without_events_the_grade_is_unknown),
      cmocka_unit_test(figures_combine_all_devices),
      cmocka_unit_test(fragmentation_of_one_heap_is_computed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
