/* What a heap or a pool counts, apart from what it does. While nobody reads the counters (no CANNON_STATS_DIR) an allocation
 * pays one branch, twice; while somebody does, counts are exact whichever threads allocate and free. Under the heap's lock
 * that is relaxed atomic additions and two readings of the clock, some 100 ns; in a thread's cache, by the thread's own shard
 * (trace/shards.h), some 10 (heap_stats_shard_alloc).
 *
 *   const uint64_t begun = heap_stats_begin(s);
 *   ... allocate ...
 *   heap_stats_alloc(s, begun, bytes, requested, hit);
 *
 * No lock is needed. Pages are told where they change hands, which is no fast path, and there the alarm is. */
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

/* counters: where to count, or NULL. The alarm goes off, once, when CANNON_ALARM percent (1 to 100, 0: never; 85 without
 * the variable) of size_bytes are in use; never where that is 0. */
void heap_stats_init(heap_stats *s, stats_heap *counters, const char *name, uint64_t size_bytes);

/* The out-of-line halves of what follows. */
void heap_stats_count_alloc(stats_heap *c, uint64_t begun, uint64_t bytes, uint64_t requested, bool hit);
void heap_stats_count_free(stats_heap *c, uint64_t begun, uint64_t bytes, uint64_t requested);

/* When an allocation or a free begins. */
static inline uint64_t heap_stats_begin(const heap_stats *s) { return unlikely(s->counters) ? now_ns() : 0; }

/* bytes: as rounded by the rules; hit: it was served from committed memory. A free is counted before the memory can be
 * handed out again, so that live bytes are never more than there are. */
static inline void heap_stats_alloc(heap_stats *s, uint64_t begun, uint64_t bytes, uint64_t requested, bool hit) {
  if (unlikely(s->counters)) heap_stats_count_alloc(s->counters, begun, bytes, requested, hit);
}

static inline void heap_stats_free(heap_stats *s, uint64_t begun, uint64_t bytes, uint64_t requested) {
  if (unlikely(s->counters)) heap_stats_count_free(s->counters, begun, bytes, requested);
}

/* The same in a thread's cache, by its shard of the counters (NULL: nobody reads): some nanoseconds, since of the calls only
 * one in SHARD_TIMED, a prime that no program's loop falls in step with, is timed and stands for so many. begun 0: it is
 * not. */
enum { SHARD_TIMED = 13 };
stats_shard *heap_stats_open_shard(const heap_stats *s);
void heap_stats_close_shard(const heap_stats *s, stats_shard *shard);
void heap_stats_shard_alloc(stats_heap *c, stats_shard *shard, uint64_t begun, uint64_t bytes, uint64_t requested);
void heap_stats_shard_free(stats_heap *c, stats_shard *shard, uint64_t begun, uint64_t bytes, uint64_t requested);

/* until: the thread's countdown to the next call that is timed. */
static inline uint64_t heap_stats_shard_begin(const stats_shard *shard, uint8_t *until) {
  if (likely(!shard) || (*until)--) return 0;
  *until = SHARD_TIMED - 1;
  return now_ns();
}

static inline void heap_stats_refuse(heap_stats *s) {
  if (s->counters) counter_add(&s->counters->n_refused, 1);
}

/* committed: charged now; used: of it, what anybody uses or a task may still use. One caller at a time. */
void heap_stats_pages(heap_stats *s, uint64_t committed_bytes, uint64_t used_bytes);

/* Stream-ordered memory of one stream; row may be NULL (trace_stream_row). */
void heap_stats_stream_alloc(stats_stream *row, uint64_t begun, uint64_t bytes, uint64_t requested, bool hit);
void heap_stats_stream_free(stats_stream *row, uint64_t begun, uint64_t bytes, uint64_t requested);

#endif
