/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the statistics file: assignment of rows to pools, streams and call sites, also when a table is full. */
#include <pthread.h>
#include <unistd.h>

#include "memory/heap/heap.h"
#include "memory/heap/heap_stats.h"
#include "memory/space.h"
#include "trace/shards.h"
#include "trace/stats_write.h"
#include "unit.h"

static void pools_keep_their_row_until_others_need_it(void **state) {
  (void)state;
  stats_pool *row[STATS_MAX_POOLS + 2];
  for (int i = 0; i < STATS_MAX_POOLS + 2; i++) {
    char name[24];
    snprintf(name, sizeof name, "pool %d", i);
    row[i] = trace_pool_open(name, i % 4);
    if (i < STATS_MAX_POOLS - 1) {
      assert_string_equal(row[i]->name, name);
      assert_int_equal(row[i]->device, i % 4);
    } else {
      assert_ptr_equal(row[i], &trace_stats()->pools[STATS_MAX_POOLS - 1]);
      assert_string_equal(row[i]->name, "(others)");
    }
    row[i]->memory.n_allocs = 1;
  }
  trace_pool_close(row[5]);
  assert_int_equal(row[5]->memory.n_allocs, 1); /* the row of the closed pool can still be read */
  stats_pool *again = trace_pool_open("again", 0);
  assert_ptr_equal(again, row[5]);
  assert_int_equal(again->memory.n_allocs, 0);
  trace_pool_close(row[STATS_MAX_POOLS]); /* the last row is shared by all further pools */
  assert_int_equal(row[STATS_MAX_POOLS]->state, STATS_ROW_OPEN);
}

static void a_stream_gets_the_same_row_again(void **state) {
  (void)state;
  stats_stream *a = trace_stream_row(0, 7), *b = trace_stream_row(1, 7);
  assert_ptr_not_equal(a, b);
  assert_ptr_equal(trace_stream_row(0, 7), a);
  assert_ptr_equal(trace_stream_row(1, 7), b);
  heap_stats_stream_alloc(a, 0, 100, 100, false);
  heap_stats_stream_alloc(a, 0, 50, 50, true);
  heap_stats_stream_free(a, 0, 100, 100);
  assert_int_equal(a->memory.live_bytes, 50);
  assert_int_equal(a->memory.peak_bytes, 150);
  assert_int_equal(a->memory.n_hits, 1);
  for (uint32_t i = 0; i < 2 * STATS_MAX_STREAMS; i++) trace_stream_row(2, i);
  assert_int_equal(trace_stream_row(3, 1)->id, UINT32_MAX);
  assert_ptr_equal(trace_stream_row(1, 7), b);
}

static void rows_of_streams_close_after_stream_and_blocks(void **state) {
  (void)state;
  enum { FIRST = 1000, MANY = 4 * STATS_MAX_STREAMS };
  stats_stream *kept = NULL;
  for (uint32_t i = 0; i < 2 * STATS_MAX_STREAMS; i++) trace_stream_end(2, i); /* rows left by the previous test */
  for (uint32_t id = FIRST; id < FIRST + MANY; id++) {
    stats_stream *row = trace_stream_row(5, id);
    assert_int_equal(row->id, id); /* a row of its own */
    assert_int_equal(row->memory.n_allocs, 0);
    heap_stats_stream_alloc(row, 0, 100, 100, false);
    if (id == FIRST) kept = row;
    if (id % 2 && row != kept) heap_stats_stream_free(row, 0, 100, 100); /* before the stream ends, or after it */
    trace_stream_end(5, id);
    if (row != kept && id % 2 == 0) {
      assert_int_equal(row->state, STATS_ROW_ENDED);
      heap_stats_stream_free(row, 0, 100, 100);
    }
    assert_int_equal(row->state, row == kept ? STATS_ROW_ENDED : STATS_ROW_CLOSED);
  }
  assert_int_equal(kept->id, FIRST);                      /* still has a live block */
  assert_ptr_not_equal(trace_stream_row(5, FIRST), kept); /* a new stream with that id gets another row */
  heap_stats_stream_free(kept, 0, 100, 100);
  assert_int_equal(kept->state, STATS_ROW_CLOSED);
  trace_stream_end(6, 1); /* this stream never had a row */
}

/* ---- counters of threads ---- */

enum { THREADS = 4, PAIRS = 20000 };
static heap *counted;
static pthread_barrier_t together;

static void *allocate_and_free(void *failures) {
  void *p[3] = {0};
  pthread_barrier_wait(&together);
  for (int i = 0; i < PAIRS; i++) {
    void **at = &p[i % 3];
    if (*at) *(int *)failures += heap_free(counted, (uintptr_t)*at, "p", NULL) != ST_OK;
    const uint64_t bytes = 32 + (uint64_t)(i % 5) * 1000;
    *(int *)failures +=
        heap_alloc(counted, bytes, bytes - 32 + 1, origin_of(RULE_OTHER, PAGES_SMALL), NULL, at) != ST_OK;
  }
  pthread_barrier_wait(&together); /* all threads have their own counters */
  pthread_barrier_wait(&together);
  for (int i = 0; i < 3; i++) *(int *)failures += heap_free(counted, (uintptr_t)p[i], "p", NULL) != ST_OK;
  return NULL;
}

static stats_heap sum_of(int device) {
  stats_heap sum = trace_stats()->device[device];
  for (int i = 0; i < STATS_MAX_SHARDS; i++)
    if (trace_stats()->shards[i].state == STATS_ROW_OPEN) shard_fold(&sum, &trace_stats()->shards[i]);
  return sum;
}

static uint64_t sizes_counted(const stats_heap *s) {
  uint64_t n = 0;
  for (int i = 0; i < SIZE_BUCKETS; i++) n += s->sizes.bucket[i];
  return n;
}

/* Threads allocate and free blocks while counting is on, each in its own shard, and the sum is exact. */
static void threads_count_in_separate_shards(void **state) {
  (void)state;
  enum { DEVICE = 3 };
  const heap_config config = {.name = "device 3",
                              .device = DEVICE,
                              .window = space_device_window(DEVICE),
                              .window_bytes = UINT64_C(256) << 20,
                              .view_distance = space.view_distance,
                              .unit_shift = 9,
                              .size_bytes = 64 << 20,
                              .stats = &trace_stats()->device[DEVICE]};
  assert_int_equal(space_check(), ST_OK);
  assert_int_equal(heap_create(&config, &counted), ST_OK);
  pthread_t thread[THREADS];
  int failures[THREADS] = {0};
  pthread_barrier_init(&together, NULL, THREADS + 1);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, allocate_and_free, &failures[i]), 0);
  pthread_barrier_wait(&together);
  pthread_barrier_wait(&together);
  const stats_heap running = sum_of(DEVICE);
  int n_open = 0;
  for (int i = 0; i < STATS_MAX_SHARDS; i++) n_open += trace_stats()->shards[i].state == STATS_ROW_OPEN;
  assert_int_equal(n_open, THREADS);
  assert_true(trace_stats()->device[DEVICE].n_allocs < THREADS * PAIRS / 2); /* most counts are in the shards */
  assert_int_equal(running.n_allocs, THREADS * PAIRS);
  assert_int_equal(running.n_frees, THREADS * (PAIRS - 3));
  uint64_t live = 0;
  for (int i = PAIRS - 3; i < PAIRS; i++) live += 32 + (uint64_t)(i % 5) * 1000;
  assert_int_equal(running.live_bytes, THREADS * live);
  assert_int_equal(running.requested_bytes, THREADS * (live - 3 * 31));
  pthread_barrier_wait(&together);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(thread[i], NULL);
    assert_int_equal(failures[i], 0);
  }
  const stats_heap *all = &trace_stats()->device[DEVICE]; /* the shards have been added to the heap's counters */
  assert_int_equal(all->n_allocs, THREADS * PAIRS);
  assert_int_equal(all->n_frees, THREADS * PAIRS);
  assert_int_equal(all->live_bytes, 0);
  assert_int_equal(all->requested_bytes, 0);
  assert_int_equal(sizes_counted(all), THREADS * PAIRS);
  assert_in_range(latency_count(&all->alloc), THREADS * (PAIRS - SHARD_TIMED), THREADS * (PAIRS + SHARD_TIMED));
  assert_in_range(latency_count(&all->free), THREADS * (PAIRS - SHARD_TIMED), THREADS * (PAIRS + SHARD_TIMED));
  for (int i = 0; i < STATS_MAX_SHARDS; i++) assert_int_not_equal(trace_stats()->shards[i].state, STATS_ROW_OPEN);
  pthread_barrier_destroy(&together);
}

static void call_sites_have_a_row_each_until_the_table_is_full(void **state) {
  (void)state;
  const void *code = (void *)(uintptr_t)trace_site;
  stats_site *mine = trace_site(code, "aclrtMalloc"), *row[2 * STATS_MAX_SITES];
  assert_string_equal(mine->call, "aclrtMalloc");
  assert_true(mine->place.module >= 0);
  assert_non_null(strstr(trace_stats()->modules[mine->place.module].path, "unit_rows"));
  for (uintptr_t i = 0; i < COUNT(row); i++) row[i] = trace_site((void *)(16 + 16 * i), "x");
  const stats_site *others = row[COUNT(row) - 1];
  assert_string_equal(others->call, "(others)");
  for (uintptr_t i = 0; i < COUNT(row); i++) {
    assert_ptr_equal(trace_site((void *)(16 + 16 * i), "x"), row[i]);
    if (row[i] != others) assert_int_equal(row[i]->address, 16 + 16 * i);
    assert_int_equal(row[i]->place.module, -1);
  }
  assert_ptr_equal(trace_site(code, "aclrtMalloc"), mine);
}

int main(void) {
  char folder[] = "/tmp/cannon-rows-XXXXXX", path[64];
  if (!mkdtemp(folder)) return 1;
  setenv("CANNON_STATS_DIR", folder, 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pools_keep_their_row_until_others_need_it),
      cmocka_unit_test(a_stream_gets_the_same_row_again),
      cmocka_unit_test(rows_of_streams_close_after_stream_and_blocks),
      cmocka_unit_test(threads_count_in_separate_shards),
      cmocka_unit_test(call_sites_have_a_row_each_until_the_table_is_full),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  snprintf(path, sizeof path, "%s/%d.stats", folder, (int)getpid());
  return unlink(path) || rmdir(folder) || failed;
}
