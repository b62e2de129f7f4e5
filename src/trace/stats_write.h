/* The writer's side of stats.h. With CANNON_STATS_DIR unset everything here is a load and a branch. */
#ifndef CANNON_TRACE_STATS_WRITE_H
#define CANNON_TRACE_STATS_WRITE_H

#include <stdbool.h>

#include "trace/stats.h"

/* The process's counters, never NULL; maps the file at first use. */
stats_file *trace_stats(void);

/* Whether somebody reads the counters, so that clocks are worth reading. Fixed at first use. */
extern _Atomic bool trace_is_off; /* known to be: not asked again */
bool trace_ask(void);
static inline bool trace_is_on(void) {
  return !__builtin_expect(atomic_load_explicit(&trace_is_off, memory_order_relaxed), true) && trace_ask();
}

/* The row of an operator or task kind; makes it at first use. Look up once and keep: rows never move. */
stats_op *trace_row(const char *name);

/* The row of a pool, to be closed with it; of a stream that owns memory, found or made, which is closed when the stream has
 * ended and its blocks are gone (trace_stream_settle: some were freed); NULL where nobody reads. Look up once and keep. Where the table is full its last row is everybody's, with the name "(others)" or the id UINT32_MAX. */
stats_pool *trace_pool_open(const char *name, int device);
void trace_pool_close(stats_pool *row);
stats_stream *trace_stream_row(int device, uint32_t id);
void trace_stream_end(int device, uint32_t id);
void trace_stream_settle(stats_stream *row);

/* A thread's counters of a heap that is in the file; NULL where nobody reads, or all are in use. Closing adds them to the
 * heap's. */
stats_shard *trace_shard_open(const stats_heap *heap);
void trace_shard_close(stats_shard *shard, stats_heap *heap);

/* Where code is, for a reader in another process. Makes a row for its module at first use; takes no lock but the
 * rows', so that it may be called under a heap's. */
stats_place trace_place(const void *code);

/* The row of a call site of allocations, found or made. */
stats_site *trace_site(const void *address, const char *call);

static inline void trace_add(counter *c, uint64_t n) { counter_add(c, n); }

/* Raises *c to n. */
static inline void trace_max(counter *c, uint64_t n) {
  uint64_t seen = atomic_load_explicit(c, memory_order_relaxed);
  while (seen < n && !atomic_compare_exchange_weak_explicit(c, &seen, n, memory_order_relaxed, memory_order_relaxed)) {
  }
}

/* At the end of the process: no more task runs. Lists what was never freed. */
void trace_close(void);

#endif
