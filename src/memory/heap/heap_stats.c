/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/heap/heap_stats.h"

#include "base/log.h"
#include "base/settings/variables.h"
#include "base/size.h"
#include "trace/shards.h"
#include "trace/stats_write.h"

enum { ALARM_PERCENT = 85 };

static unsigned alarm_percent(void) {
  uint64_t percent;
  return variable_read(VARIABLE_ALARM, &percent) ? (unsigned)percent : ALARM_PERCENT;
}

void heap_stats_init(heap_stats *s, stats_heap *counters, const char *name, uint64_t size_bytes) {
  const unsigned percent = alarm_percent();
  *s = (heap_stats){.counters = counters,
                    .name = name,
                    .size_bytes = size_bytes,
                    .alarm_bytes = percent && size_bytes ? size_bytes / 100 * percent : UINT64_MAX};
  if (counters) atomic_store(&counters->size_bytes, size_bytes);
}

static void rise(counter *now, counter *peak, uint64_t bytes) {
  trace_max(peak, atomic_fetch_add_explicit(now, bytes, memory_order_relaxed) + bytes);
}

static void fall(counter *now, uint64_t bytes) { atomic_fetch_sub_explicit(now, bytes, memory_order_relaxed); }

void heap_stats_count_alloc(stats_heap *c, uint64_t begun, uint64_t bytes, uint64_t requested, bool hit) {
  rise(&c->live_bytes, &c->peak_bytes, bytes);
  counter_add(&c->requested_bytes, requested);
  counter_add(&c->allocated_bytes, bytes);
  counter_add(&c->asked_bytes, requested);
  counter_add(&c->sizes.bucket[size_bucket(requested)], 1);
  counter_add(&c->n_hits, hit);
  counter_add(&c->n_allocs, 1);
  latency_add(&c->alloc, now_ns() - begun);
}

void heap_stats_count_free(stats_heap *c, uint64_t begun, uint64_t bytes, uint64_t requested) {
  fall(&c->live_bytes, bytes);
  fall(&c->requested_bytes, requested);
  counter_add(&c->n_frees, 1);
  latency_add(&c->free, now_ns() - begun);
}

stats_shard *heap_stats_open_shard(const heap_stats *s) { return s->counters ? trace_shard_open(s->counters) : NULL; }

void heap_stats_close_shard(const heap_stats *s, stats_shard *shard) {
  if (shard) trace_shard_close(shard, s->counters);
}

void heap_stats_shard_alloc(stats_heap *c, stats_shard *shard, uint64_t begun, uint64_t bytes, uint64_t requested) {
  rise(&c->live_bytes, &c->peak_bytes, bytes);
  shard_add(&shard->requested_bytes, requested);
  shard_add(&shard->allocated_bytes, bytes);
  shard_add(&shard->asked_bytes, requested);
  shard_add(&shard->sizes.bucket[size_bucket(requested)], 1);
  shard_add(&shard->n_hits, 1);
  shard_add(&shard->n_allocs, 1);
  if (begun) shard_add_latency(&shard->alloc, now_ns() - begun, SHARD_TIMED);
}

void heap_stats_shard_free(stats_heap *c, stats_shard *shard, uint64_t begun, uint64_t bytes, uint64_t requested) {
  fall(&c->live_bytes, bytes);
  shard_add(&shard->requested_bytes, -requested);
  shard_add(&shard->n_frees, 1);
  if (begun) shard_add_latency(&shard->free, now_ns() - begun, SHARD_TIMED);
}

__attribute__((cold)) static void raise_alarm(heap_stats *s, uint64_t used_bytes) {
  if (atomic_exchange(&s->alarmed, true)) return;
  if (s->counters) atomic_store(&s->counters->alarm_bytes, used_bytes);
  log_line(LOG_WARNING, "%s: %s of %s are in use, the alarm is at %s (CANNON_ALARM)", s->name,
           size_in_words(used_bytes).text, size_in_words(s->size_bytes).text, size_in_words(s->alarm_bytes).text);
}

void heap_stats_pages(heap_stats *s, uint64_t committed_bytes, uint64_t used_bytes) {
  if (unlikely(used_bytes >= s->alarm_bytes)) raise_alarm(s, used_bytes);
  if (!s->counters) return;
  atomic_store_explicit(&s->counters->committed_bytes, committed_bytes, memory_order_relaxed);
  atomic_store_explicit(&s->counters->cached_bytes, committed_bytes - used_bytes, memory_order_relaxed);
  trace_max(&s->counters->peak_committed_bytes, committed_bytes);
}

void heap_stats_stream_alloc(stats_stream *row, uint64_t begun, uint64_t bytes, uint64_t requested, bool hit) {
  if (row) heap_stats_count_alloc(&row->memory, begun, bytes, requested, hit);
}

void heap_stats_stream_free(stats_stream *row, uint64_t begun, uint64_t bytes, uint64_t requested) {
  if (!row) return;
  heap_stats_count_free(&row->memory, begun, bytes, requested);
  trace_stream_settle(row);
}
