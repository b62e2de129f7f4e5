/* SPDX-License-Identifier: Apache-2.0 */
/* The writers' side of stats.h: the library counts through these functions. They are below every other folder but base,
 * may be called by any thread, and cost a load and a branch while CANNON_STATS_DIR is unset. */
#ifndef CANNON_TRACE_STATS_WRITE_H
#define CANNON_TRACE_STATS_WRITE_H

#include <stdbool.h>

#include "trace/stats.h"

/* The process's counters, never NULL; maps the file at first use. */
stats_file *trace_stats(void);

/* Whether somebody reads the counters, so that clocks are worth reading. Fixed at first use. */
extern _Atomic bool trace_is_off; /* true once it is known that nobody reads; trace_is_on then asks no more */
bool trace_ask(void);
static inline bool trace_is_on(void) {
  return !__builtin_expect(atomic_load_explicit(&trace_is_off, memory_order_relaxed), true) && trace_ask();
}

/* The row of an operator or a kind of task; made at its first use. Callers look it up once and keep it: rows never
 * move. */
stats_op *trace_row(const char *name);

/* The row of an operator's launches with these implementations and this reason; made at its first use. NULL if the
 * table is full. */
stats_choice *trace_choice_row(const stats_op *op, const char *names, const char *reason);

/* Rows of pools and of streams that own memory; NULL if nobody reads the counters. Callers look a row up once and keep
 * it. A pool's row is closed with the pool. A stream's row is found or made, and closed when the stream has ended and
 * its blocks are gone; trace_stream_settle is called after some of its blocks were freed. Where the table is full, all
 * others share its last row, named "(others)" or with the id UINT32_MAX. */
stats_pool *trace_pool_open(const char *name, int device);
void trace_pool_close(stats_pool *row);
stats_stream *trace_stream_row(int device, uint32_t id);
void trace_stream_end(int device, uint32_t id);
void trace_stream_settle(stats_stream *row);

/* A row of a feed of data, or NULL if nobody reads the counters; as those of pools, but closed rows are not used
 * again. */
stats_feed *trace_feed_open(const char *name, int device);
void trace_feed_close(stats_feed *row);

/* The calling thread's counters of a heap whose counters are in the file; NULL if nobody reads them or all shards are
 * in use. Closing a shard adds it to the heap's counters. */
stats_shard *trace_shard_open(const stats_heap *heap);
void trace_shard_close(stats_shard *shard, stats_heap *heap);

/* Describes where code is, for a reader in another process; makes a row for its module at the first use. Takes only the
 * rows' lock, so it may be called under a heap's lock. */
stats_place trace_place(const void *code);

/* The row of a call site of allocations; made at its first use. */
stats_site *trace_site(const void *address, const char *call);

static inline void trace_add(counter *c, uint64_t n) { counter_add(c, n); }

/* Raises *c to n, if it is less. */
static inline void trace_max(counter *c, uint64_t n) {
  uint64_t seen = atomic_load_explicit(c, memory_order_relaxed);
  while (seen < n && !atomic_compare_exchange_weak_explicit(c, &seen, n, memory_order_relaxed, memory_order_relaxed)) {
  }
}

/* To be called at the end of the process, when no task runs any more. Lists the blocks that were never freed. */
void trace_close(void);

#endif
