/* SPDX-License-Identifier: Apache-2.0 */
/* Common parts of the benchmarks: a check of return codes, the clock, and the median. */
#ifndef CANNON_BENCH_MEASURE_H
#define CANNON_BENCH_MEASURE_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    int code_ = (call);                                                                                                \
    if (code_ != 0) {                                                                                                  \
      fprintf(stderr, "%s:%d: %s returned %d: %s\n", __FILE__, __LINE__, #call, code_, aclGetRecentErrMsg());          \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

static inline double clock_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline double now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

static inline int compare_doubles(const void *x, const void *y) {
  const double d = *(const double *)x - *(const double *)y;
  return (d > 0) - (d < 0);
}

/* The median of n values, which are sorted in place. */
static inline double median(double *values, size_t n) {
  qsort(values, n, sizeof *values, compare_doubles);
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

#endif
