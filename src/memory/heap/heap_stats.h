/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of a heap or a pool. While nobody reads the counters (no CANNON_STATS_DIR), an allocation or a free pays
 * two branches for them; otherwise counts are exact, whichever threads allocate and free. Under the heap's lock,
 * counting takes relaxed atomic additions and two readings of the clock, some 100 ns; in a thread's cache it uses the
 * thread's own shard (trace/shards.h) and takes some 10 ns (heap_stats_shard_alloc). Used by the heap and by pools:
 *
 *   const uint64_t begun = heap_stats_begin(s);
 *   ... allocate ...
 *   heap_stats_alloc(s, begun, bytes, requested, hit);
 *
 * Needs no lock, except heap_stats_pages. Bytes in use are only looked at, and the alarm is only raised, where memory
 * is added or given back, since that is no fast path. */
#ifndef CANNON_MEMORY_HEAP_HEAP_STATS_H
#define CANNON_MEMORY_HEAP_HEAP_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/sync.h"
#include "trace/stats.h"

typedef struct {
  stats_heap *counters; /* NULL: nobody reads */
  const char *name;     /* for the alarm: "device 0" */
  uint64_t size_bytes, alarm_bytes;
  _Atomic bool alarmed;
} heap_stats;

/* counters: where to count, or NULL. The alarm is raised once, when CANNON_ALARM percent (1 to 100, 0: never; 85
 * without the variable) of size_bytes are in use; never where size_bytes is 0. */
void heap_stats_init(heap_stats *s, stats_heap *counters, const char *name, uint64_t size_bytes);

/* The out-of-line parts of heap_stats_alloc and heap_stats_free. */
void heap_stats_count_alloc(stats_heap *c, uint64_t begun, uint64_t bytes, uint64_t requested, bool hit);
void heap_stats_count_free(stats_heap *c, uint64_t begun, uint64_t bytes, uint64_t requested);

/* The time at which an allocation or a free begins; 0: nobody counts. */
static inline uint64_t heap_stats_begin(const heap_stats *s) { return unlikely(s->counters) ? now_ns() : 0; }

/* Count an allocation or a free. bytes: as rounded by the rules; hit: whether committed memory was enough. A free is
 * counted before the memory can be handed out again, so that the counted live bytes never exceed the memory. */
static inline void heap_stats_alloc(heap_stats *s, uint64_t begun, uint64_t bytes, uint64_t requested, bool hit) {
  if (unlikely(s->counters)) heap_stats_count_alloc(s->counters, begun, bytes, requested, hit);
}

static inline void heap_stats_free(heap_stats *s, uint64_t begun, uint64_t bytes, uint64_t requested) {
  if (unlikely(s->counters)) heap_stats_count_free(s->counters, begun, bytes, requested);
}

/* As above, for calls that a thread's cache serves, with the thread's shard of the counters (NULL: nobody reads). To
 * save time, only one call in SHARD_TIMED is timed, and counts as so many; that is a prime, so that a program's loop
 * does not keep in step with it. begun is 0 for calls that are not timed. */
enum { SHARD_TIMED = 13 };
stats_shard *heap_stats_open_shard(const heap_stats *s);
void heap_stats_close_shard(const heap_stats *s, stats_shard *shard);
void heap_stats_shard_alloc(stats_heap *c, stats_shard *shard, uint64_t begun, uint64_t bytes, uint64_t requested);
void heap_stats_shard_free(stats_heap *c, stats_shard *shard, uint64_t begun, uint64_t bytes, uint64_t requested);

/* The time at which the call begins, or 0; until: the thread's countdown to the next call that is timed. */
static inline uint64_t heap_stats_shard_begin(const stats_shard *shard, uint8_t *until) {
  if (likely(!shard) || (*until)--) return 0;
  *until = SHARD_TIMED - 1;
  return now_ns();
}

static inline void heap_stats_refuse(heap_stats *s) {
  if (s->counters) counter_add(&s->counters->n_refused, 1);
}

/* Publishes the committed bytes, and how many of them are used by the program or may be used by tasks; raises the
 * alarm. Not thread-safe: the caller serialises calls. */
void heap_stats_pages(heap_stats *s, uint64_t committed_bytes, uint64_t used_bytes);

/* Count an allocation or a free of a stream-ordered block of one stream; row: from trace_stream_row, may be NULL. */
void heap_stats_stream_alloc(stats_stream *row, uint64_t begun, uint64_t bytes, uint64_t requested, bool hit);
void heap_stats_stream_free(stats_stream *row, uint64_t begun, uint64_t bytes, uint64_t requested);

#endif
