/* SPDX-License-Identifier: Apache-2.0 */
/* Rank tables: right ones, wrong ones with their words, and mutated ones, which must not crash. */
#include "comm/start/rank_table.h"

#include "unit.h"

#define TABLE(state, count, rank)                                                                                      \
  "{\"status\":\"" state "\",\"version\":\"1.2\",\"server_count\":\"" count "\",\"server_list\":[{\"server_id\":"      \
  "\"10.0.0.1\",\"device\":[{\"device_id\":\"1\",\"rank_id\":\"" rank "\"},{\"device_id\":\"0\",\"rank_id\":\"0\"}]"   \
  "}],\"super_pod_list\":[{\"super_pod_id\":\"p\",\"server_list\":[{\"server_id\":\"10.0.0.1\"}]}]}"

static void right(void **state) {
  (void)state;
  rank_table t;
  assert_int_equal(rank_table_parse(TABLE("completed", "1", "1"), &t), ST_OK);
  assert_int_equal(t.n_ranks, 2);
  assert_int_equal(t.ranks[1].device, 1);
  assert_int_equal(t.ranks[0].host.ss_family, AF_INET);
  assert_string_equal(t.ranks[0].super_pod, "p");
  rank_table_free(&t);
}

static void wrong(void **state) {
  (void)state;
  rank_table t;
  static const struct {
    const char *text, *words;
  } cases[] = {{"", "no JSON"},
               {"{", "no JSON"},
               {"{}", "status is missing"},
               {TABLE("initializing", "1", "1"), "status is initializing, expected completed"},
               {TABLE("completed", "2", "1"), "server_count is 2"},
               {TABLE("completed", "1", "0"), "rank_id is 0 twice"},
               {TABLE("completed", "1", "2"), "rank_id is 2"},
               {TABLE("completed", "1", "-1"), "rank_id is -1"}};
  for (size_t i = 0; i < COUNT(cases); ++i) {
    assert_int_equal(rank_table_parse(cases[i].text, &t), ST_INVALID_VALUE);
    assert_non_null(strstr(fail_take(), cases[i].words));
  }
  assert_int_equal(rank_table_load("/nonexistent/table", &t), ST_CONFIG_PATH);
  fail_take();
}

static void mutated(void **state) {
  (void)state;
  random_source random = {7};
  for (int i = 0; i < ROUNDS(20000); ++i) {
    char text[] = TABLE("completed", "1", "1");
    rank_table t;
    for (uint32_t k = 1 + random_below(&random, 4); k; --k)
      text[random_below(&random, sizeof text - 1)] = (char)random_below(&random, 256);
    if (rank_table_parse(text, &t) == ST_OK)
      rank_table_free(&t);
    else
      fail_take();
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(right), cmocka_unit_test(wrong), cmocka_unit_test(mutated)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
