/* SPDX-License-Identifier: Apache-2.0 */
/* Shards: counters of one thread's calls on one heap, beside the heap's own counters (stats.h). Only that thread writes
 * them, so no locked instruction is needed. The heap's value is the sum over all its shards, which readers of the file
 * compute; when a thread ends, its shard is added to the heap's counters. Live bytes and their peak exist in the heap's
 * counters only, since peaks do not add up. */
#ifndef CANNON_TRACE_SHARDS_H
#define CANNON_TRACE_SHARDS_H

#include "trace/stats.h"

/* Only the shard's own thread may call this. */
static inline void shard_add(counter *c, uint64_t n) {
  atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}

/* Adds `weight` calls of that latency, since not every call is timed. */
static inline void shard_add_latency(latency_histogram *h, uint64_t ns, uint64_t weight) {
  shard_add(&h->sum_ns, ns * weight);
  shard_add(&h->bucket[latency_bucket(ns)], weight);
}

static inline void shard_fold_latency(latency_histogram *into, const latency_histogram *from) {
  counter_add(&into->sum_ns, counter_read(&from->sum_ns));
  for (unsigned i = 0; i < LATENCY_BUCKETS; ++i)
    if (counter_read(&from->bucket[i])) counter_add(&into->bucket[i], counter_read(&from->bucket[i]));
}

/* Adds the shard's counts to *into; the shard keeps them. */
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
