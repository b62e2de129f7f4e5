/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics: histograms and their percentiles, the counters of a heap, and the alarm. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "memory/heap/heap_stats.h"
#include "trace/stats_write.h"
#include "unit.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

/* ---- histograms ---- */

static void size_buckets_are_powers_of_two(void **state) {
  (void)state;
  assert_int_equal(size_bucket(0), 0);
  assert_int_equal(size_bucket(1), 0);
  for (unsigned b = 1; b < SIZE_BUCKETS - 1; b++) {
    const uint64_t most = UINT64_C(1) << b;
    assert_int_equal(size_bucket(most), b);
    assert_int_equal(size_bucket(most + 1), b + 1);
  }
  assert_int_equal(size_bucket(UINT64_MAX), SIZE_BUCKETS - 1);
}

static void every_latency_lies_in_its_bucket(void **state) {
  (void)state;
  assert_int_equal(latency_bucket_start(0), 0);
  for (unsigned b = 0; b < LATENCY_BUCKETS; b++) {
    const uint64_t start = latency_bucket_start(b), end = latency_bucket_start(b + 1);
    assert_true(start < end);
    assert_int_equal(latency_bucket(start), b);
    assert_int_equal(latency_bucket(end - 1), b);
    assert_true(end - start <= 1 || (end - start) * 8 <= start); /* a bucket spans at most an eighth of its start */
  }
  assert_int_equal(latency_bucket(UINT64_MAX), LATENCY_BUCKETS - 1);
}

static void percentiles_are_within_an_eighth(void **state) {
  (void)state;
  static latency_histogram h;
  assert_int_equal(latency_percentile(&h, 50), 0);
  assert_int_equal(latency_mean(&h), 0);
  for (uint64_t ns = 1; ns <= 100000; ns++) latency_add(&h, ns);
  assert_int_equal(latency_count(&h), 100000);
  assert_int_equal(latency_mean(&h), 50000);
  static const double percents[] = {1, 10, 50, 90, 99, 99.9, 100};
  for (size_t i = 0; i < COUNT(percents); i++) {
    const double want = percents[i] * 1000, got = (double)latency_percentile(&h, percents[i]);
    assert_true(fabs(got - want) <= want / 8);
  }
}

static void one_outlier_affects_only_the_last_percentile(void **state) {
  (void)state;
  static latency_histogram h;
  for (int i = 0; i < 999; i++) latency_add(&h, 4);
  latency_add(&h, 1000000);
  assert_int_equal(latency_percentile(&h, 0), 4);
  assert_int_equal(latency_percentile(&h, 50), 4);
  assert_int_equal(latency_percentile(&h, 99.8), 4);
  assert_true(latency_percentile(&h, 100) > 900000);
}

/* ---- a heap's counters ---- */

static void allocations_and_frees_are_counted(void **state) {
  (void)state;
  static stats_heap c;
  heap_stats s;
  heap_stats_init(&s, &c, "the heap", 64 * MIB);
  assert_int_equal(c.size_bytes, 64 * MIB);
  heap_stats_alloc(&s, heap_stats_begin(&s), 1056, 1000, false);
  heap_stats_alloc(&s, heap_stats_begin(&s), 64, 1, true);
  heap_stats_free(&s, heap_stats_begin(&s), 1056, 1000);
  heap_stats_alloc(&s, heap_stats_begin(&s), 544, 512, true);
  heap_stats_refuse(&s);
  assert_int_equal(c.live_bytes, 608);
  assert_int_equal(c.requested_bytes, 513);
  assert_int_equal(c.peak_bytes, 1120);
  assert_int_equal(c.allocated_bytes, 1664);
  assert_int_equal(c.asked_bytes, 1513);
  assert_int_equal(c.n_allocs, 3);
  assert_int_equal(c.n_frees, 1);
  assert_int_equal(c.n_hits, 2);
  assert_int_equal(c.n_refused, 1);
  assert_int_equal(c.sizes.bucket[0], 1);
  assert_int_equal(c.sizes.bucket[9], 1);
  assert_int_equal(c.sizes.bucket[10], 1);
  assert_int_equal(latency_count(&c.alloc), 3);
  assert_int_equal(latency_count(&c.free), 1);
}

static void nothing_is_counted_without_a_reader(void **state) {
  (void)state;
  heap_stats s;
  heap_stats_init(&s, NULL, "the heap", 64 * MIB);
  assert_int_equal(heap_stats_begin(&s), 0);
  heap_stats_alloc(&s, 0, 64, 1, true);
  heap_stats_free(&s, 0, 64, 1);
  heap_stats_refuse(&s);
  heap_stats_pages(&s, 2 * MIB, 2 * MIB);
  heap_stats_stream_alloc(NULL, 0, 64, 1, true);
  heap_stats_stream_free(NULL, 0, 64, 1);
  assert_null(trace_pool_open("none", 0));
}

static void committed_memory_sets_the_alarm(void **state) {
  (void)state;
  static const struct {
    const char *percent;
    uint64_t quiet, loud; /* in MiB, out of 100 */
  } cases[] = {{"", 84, 85}, {"50", 49, 50}, {"100", 99, 100}, {"101", 84, 85}, {"-1", 84, 85}, {"5x", 84, 85}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    stats_heap *c = calloc(1, sizeof *c);
    heap_stats s;
    setenv("CANNON_ALARM", cases[i].percent, 1);
    heap_stats_init(&s, c, "the heap", 100 * (uint64_t)MIB);
    heap_stats_pages(&s, 100 * (uint64_t)MIB, cases[i].quiet * MIB);
    assert_int_equal(c->alarm_bytes, 0);
    assert_int_equal(c->cached_bytes, (100 - cases[i].quiet) * MIB);
    heap_stats_pages(&s, 100 * (uint64_t)MIB, cases[i].loud * MIB);
    assert_int_equal(c->alarm_bytes, cases[i].loud * MIB);
    heap_stats_pages(&s, 100 * (uint64_t)MIB, 100 * (uint64_t)MIB); /* the alarm is set only once */
    assert_int_equal(c->alarm_bytes, cases[i].loud * MIB);
    heap_stats_pages(&s, 10 * MIB, 0);
    assert_int_equal(c->committed_bytes, 10 * MIB);
    assert_int_equal(c->cached_bytes, 10 * MIB);
    assert_int_equal(c->peak_committed_bytes, 100 * (uint64_t)MIB);
    free(c);
  }
  setenv("CANNON_ALARM", "0", 1);
  heap_stats s;
  stats_heap *c = calloc(1, sizeof *c);
  heap_stats_init(&s, c, "the heap", 100 * (uint64_t)MIB);
  heap_stats_pages(&s, 100 * (uint64_t)MIB, 100 * (uint64_t)MIB);
  assert_int_equal(c->alarm_bytes, 0);
  unsetenv("CANNON_ALARM");
  heap_stats_init(&s, c, "no size", 0);
  heap_stats_pages(&s, 100, 100);
  assert_int_equal(c->alarm_bytes, 0);
  free(c);
}

enum { THREADS = 4, PAIRS = 20000 };

static void *allocate_and_free(void *argument) {
  heap_stats *s = argument;
  for (int i = 0; i < PAIRS; i++) {
    heap_stats_alloc(s, heap_stats_begin(s), 64, 10, true);
    heap_stats_free(s, heap_stats_begin(s), 64, 10);
  }
  return NULL;
}

static void threads_lose_no_count(void **state) {
  (void)state;
  static stats_heap c;
  heap_stats s;
  heap_stats_init(&s, &c, "the heap", 64 * MIB);
  pthread_t thread[THREADS];
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, allocate_and_free, &s), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  assert_int_equal(c.live_bytes, 0);
  assert_int_equal(c.requested_bytes, 0);
  assert_int_equal(c.n_allocs, THREADS * PAIRS);
  assert_int_equal(c.n_frees, THREADS * PAIRS);
  assert_true(c.peak_bytes >= 64 && c.peak_bytes <= THREADS * 64);
  assert_int_equal(latency_count(&c.alloc), THREADS * PAIRS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(size_buckets_are_powers_of_two),
      cmocka_unit_test(every_latency_lies_in_its_bucket),
      cmocka_unit_test(percentiles_are_within_an_eighth),
      cmocka_unit_test(one_outlier_affects_only_the_last_percentile),
      cmocka_unit_test(allocations_and_frees_are_counted),
      cmocka_unit_test(nothing_is_counted_without_a_reader),
      cmocka_unit_test(committed_memory_sets_the_alarm),
      cmocka_unit_test(threads_lose_no_count),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
