/* The tables of the statistics file: who gets a row, and who does when they are full. */
#include <unistd.h>

#include "memory/heap/heap_stats.h"
#include "trace/trace.h"
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
  assert_int_equal(row[5]->memory.n_allocs, 1); /* still to be read */
  stats_pool *again = trace_pool_open("again", 0);
  assert_ptr_equal(again, row[5]);
  assert_int_equal(again->memory.n_allocs, 0);
  trace_pool_close(row[STATS_MAX_POOLS]); /* the last row is everybody's */
  assert_int_equal(row[STATS_MAX_POOLS]->state, STATS_ROW_OPEN);
}

static void streams_are_found_again(void **state) {
  (void)state;
  stats_stream *a = trace_stream_row(0, 7), *b = trace_stream_row(1, 7);
  assert_ptr_not_equal(a, b);
  assert_ptr_equal(trace_stream_row(0, 7), a);
  assert_ptr_equal(trace_stream_row(1, 7), b);
  heap_stats_stream_alloc(a, 100, false);
  heap_stats_stream_alloc(a, 50, true);
  heap_stats_stream_free(a, 100);
  assert_int_equal(a->live_bytes, 50);
  assert_int_equal(a->peak_bytes, 150);
  assert_int_equal(a->n_hits, 1);
  for (uint32_t i = 0; i < 2 * STATS_MAX_STREAMS; i++) trace_stream_row(2, i);
  assert_int_equal(trace_stream_row(3, 1)->id, UINT32_MAX);
  assert_ptr_equal(trace_stream_row(1, 7), b);
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
      cmocka_unit_test(streams_are_found_again),
      cmocka_unit_test(call_sites_have_a_row_each_until_the_table_is_full),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  snprintf(path, sizeof path, "%s/%d.stats", folder, (int)getpid());
  return unlink(path) || rmdir(folder) || failed;
}
