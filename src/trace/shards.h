/* Counters of one thread's calls on one heap, beside the heap's own (stats.h): written by that thread alone, so that none of
 * them takes a locked instruction. What is true of the heap is the sum over all of its shards; the reader of the file makes
 * it, and when a thread ends its shard is added to the heap's. Live bytes and their peak are the heap's own alone, since a
 * peak is no sum. */
#ifndef CANNON_TRACE_SHARDS_H
#define CANNON_TRACE_SHARDS_H

#include "trace/stats.h"

/* By the shard's thread. */
static inline void shard_add(counter *c, uint64_t n) {
  atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}

/* `weight` calls of that latency: not every one is timed. */
static inline void shard_add_latency(latency_histogram *h, uint64_t ns, uint64_t weight) {
  shard_add(&h->sum_ns, ns * weight);
  shard_add(&h->bucket[latency_bucket(ns)], weight);
}

static inline void shard_fold_latency(latency_histogram *into, const latency_histogram *from) {
  counter_add(&into->sum_ns, counter_read(&from->sum_ns));
  for (unsigned i = 0; i < LATENCY_BUCKETS; ++i)
    if (counter_read(&from->bucket[i])) counter_add(&into->bucket[i], counter_read(&from->bucket[i]));
}

/* Adds what the shard has; it keeps it. */
static inline void shard_fold(stats_heap *into, const stats_shard *from) {
  counter_add(&into->requested_bytes, counter_read(&from->requested_bytes));
  counter_add(&into->allocated_bytes, counter_read(&from->allocated_bytes));
  counter_add(&into->asked_bytes, counter_read(&from->asked_bytes));
  counter_add(&into->n_allocs, counter_read(&from->n_allocs));
  counter_add(&into->n_frees, counter_read(&from->n_frees));
  counter_add(&into->n_hits, counter_read(&from->n_hits));
  for (unsigned i = 0; i < SIZE_BUCKETS; ++i) counter_add(&into->sizes.bucket[i], counter_read(&from->sizes.bucket[i]));
  shard_fold_latency(&into->alloc, &from->alloc);
  shard_fold_latency(&into->free, &from->free);
}

#endif
