/* SPDX-License-Identifier: Apache-2.0 */
/* When a call must stop (time limit, cancellation), and random numbers. The functions on `watch` may be called by
 * any thread. */
#ifndef CANNON_PLAN_WATCH_H
#define CANNON_PLAN_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

typedef struct {
  uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC; end_ns is UINT64_MAX without a limit */
  const int *cancel;
  atomic_bool over; /* once true, it stays true */
} watch;

static inline uint64_t watch_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline bool watch_over(watch *w) {
  if (atomic_load_explicit(&w->over, memory_order_relaxed)) return true;
  if (!(w->cancel && __atomic_load_n(w->cancel, __ATOMIC_RELAXED)) && watch_now_ns() < w->end_ns) return false;
  atomic_store_explicit(&w->over, true, memory_order_relaxed);
  return true;
}

/* splitmix64 (Steele, Lea, Flood 2014) */
static inline uint64_t plan_random_next(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static inline double plan_random_unit(uint64_t *state) {
  return (double)(plan_random_next(state) >> 11) * 0x1p-53;
} /* [0, 1) */

#endif
