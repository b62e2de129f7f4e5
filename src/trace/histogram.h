/* SPDX-License-Identifier: Apache-2.0 */
/* Two histograms of counters, kept by writers in a few nanoseconds and read while they are written.
 *
 *   sizes      a bucket per power of two: bucket b holds (2^(b-1), 2^b], bucket 0 holds 0 and 1
 *   latencies  log-linear: eight buckets per power of two, so that a percentile is off by an eighth at most
 *
 * All functions are safe from any thread. */
#ifndef CANNON_TRACE_HISTOGRAM_H
#define CANNON_TRACE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t counter;

static inline void counter_add(counter *c, uint64_t n) { atomic_fetch_add_explicit(c, n, memory_order_relaxed); }
static inline uint64_t counter_read(const counter *c) { return atomic_load_explicit(c, memory_order_relaxed); }

enum {
  SIZE_BUCKETS = 48,         /* the last bucket takes all sizes above 2^46 */
  LATENCY_STEP_BITS = 3,     /* buckets per power of two, as a power of two */
  LATENCY_BUCKETS = 34 << 3, /* the last bucket takes all latencies above 64 s */
};

typedef struct {
  counter bucket[SIZE_BUCKETS];
} size_histogram;

typedef struct {
  counter sum_ns;
  counter bucket[LATENCY_BUCKETS];
} latency_histogram;

static inline unsigned size_bucket(uint64_t bytes) {
  const unsigned b = bytes > 1 ? 64 - (unsigned)__builtin_clzll(bytes - 1) : 0;
  return b < SIZE_BUCKETS ? b : SIZE_BUCKETS - 1;
}

/* Below 8 ns a bucket is one value; above, the bits behind the leading one choose one of eight. */
static inline unsigned latency_bucket(uint64_t ns) {
  const unsigned top = 63 - (unsigned)__builtin_clzll(ns | 1);
  if (top < LATENCY_STEP_BITS) return (unsigned)ns;
  const unsigned step = (unsigned)(ns >> (top - LATENCY_STEP_BITS)) & ((1 << LATENCY_STEP_BITS) - 1);
  const unsigned b = ((top - LATENCY_STEP_BITS + 1) << LATENCY_STEP_BITS) + step;
  return b < LATENCY_BUCKETS ? b : LATENCY_BUCKETS - 1;
}

/* The smallest value of a bucket; it ends before the smallest value of the next. */
static inline uint64_t latency_bucket_start(unsigned bucket) {
  const unsigned power = bucket >> LATENCY_STEP_BITS, step = bucket & ((1 << LATENCY_STEP_BITS) - 1);
  return power ? (uint64_t)((1 << LATENCY_STEP_BITS) + step) << (power - 1) : step;
}

static inline void latency_add(latency_histogram *h, uint64_t ns) {
  counter_add(&h->sum_ns, ns);
  counter_add(&h->bucket[latency_bucket(ns)], 1);
}

static inline uint64_t latency_count(const latency_histogram *h) {
  uint64_t n = 0;
  for (unsigned i = 0; i < LATENCY_BUCKETS; ++i) n += counter_read(&h->bucket[i]);
  return n;
}

/* The middle of the bucket that holds the value of the given percentile (0 to 100); 0 if there are no values. */
static inline uint64_t latency_percentile(const latency_histogram *h, double percent) {
  const uint64_t n = latency_count(h);
  uint64_t rank = (uint64_t)(percent / 100.0 * (double)n + 0.5), seen = 0;
  rank = rank < 1 ? 1 : rank > n ? n : rank;
  for (unsigned i = 0; n && i < LATENCY_BUCKETS; ++i)
    if ((seen += counter_read(&h->bucket[i])) >= rank)
      return (latency_bucket_start(i) + latency_bucket_start(i + 1) - 1) / 2;
  return 0;
}

static inline uint64_t latency_mean(const latency_histogram *h) {
  const uint64_t n = latency_count(h);
  return n ? counter_read(&h->sum_ns) / n : 0;
}

#endif
