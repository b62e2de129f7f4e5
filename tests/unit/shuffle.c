/* SPDX-License-Identifier: Apache-2.0 */
/* The order of records (feed/shuffle.h). */
#include "feed/shuffle.h"

#include "unit.h"

static void check_bijection(uint64_t n, uint64_t key) {
  unsigned char *seen = calloc(n, 1);
  assert_non_null(seen);
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t image = shuffle_permute(i, n, key);
    assert_true(image < n);
    assert_int_equal(seen[image]++, 0);
  }
  free(seen);
}

static void every_size_is_permuted(void **state) {
  (void)state;
  random_source r = {1};
  for (uint64_t n = 1; n <= ROUNDS(2000); ++n) check_bijection(n, random_next(&r));
  for (unsigned bits = 11; bits <= 20; ++bits)
    for (int64_t around = -1; around <= 1; ++around) check_bijection((UINT64_C(1) << bits) + (uint64_t)around, bits);
}

/* Of sizes that no table could have: images are inside, and differ. */
static void huge_sizes_are_permuted(void **state) {
  (void)state;
  const uint64_t sizes[] = {(UINT64_C(1) << 32) + 1, UINT64_C(1) << 40, UINT64_C(1000000000000000003),
                            (UINT64_C(1) << 62) - 1, UINT64_C(1) << 62};
  for (size_t s = 0; s < COUNT(sizes); ++s)
    for (uint64_t i = 0, before = UINT64_MAX; i < 1000; ++i) {
      const uint64_t image = shuffle_permute(i, sizes[s], 5);
      assert_true(image < sizes[s] && image != before);
      before = image;
    }
}

/* Each place gets each value about equally often over many keys, and neighbours do not stay neighbours. */
static void orders_look_random(void **state) {
  (void)state;
  enum { N = 10, KEYS = 20000 };
  static unsigned counts[N][N];
  unsigned neighbours = 0;
  for (uint64_t key = 0; key < KEYS; ++key)
    for (uint64_t i = 0; i < N; ++i) {
      const uint64_t image = shuffle_permute(i, N, shuffle_key(7, key));
      ++counts[i][image];
      neighbours += i + 1 < N && shuffle_permute(i + 1, N, shuffle_key(7, key)) == image + 1;
    }
  for (int i = 0; i < N; ++i)
    for (int k = 0; k < N; ++k) /* 2000 expected, with a standard deviation of 42 */
      assert_true(counts[i][k] > 1750 && counts[i][k] < 2250);
  /* Of (N - 1) places, a share of 1 / N: 18000 expected. */
  assert_true(neighbours > 17000 && neighbours < 19000);
}

/* The ranks of an epoch have the same number of records, no record twice, and, together, all but the last few. */
static void check_ranks(uint64_t n, uint64_t block, uint32_t n_ranks, bool shuffle) {
  unsigned char *seen = calloc(n, 1);
  assert_non_null(seen);
  uint64_t all = 0;
  for (uint32_t rank = 0; rank < n_ranks; ++rank) {
    const shuffle_plan p = {n, block, 3, shuffle, rank, n_ranks};
    const uint64_t count = shuffle_count(&p);
    for (uint64_t i = 0; i < count; ++i, ++all) {
      const uint64_t record = shuffle_record(&p, 2, i);
      assert_true(record < n);
      assert_int_equal(seen[record]++, 0);
      if (i % block && i < n / block * block) assert_int_equal(record, shuffle_record(&p, 2, i - 1) + 1);
    }
  }
  assert_true(n_ranks == 1 ? all == n : all <= n && n - all < block * n_ranks);
  free(seen);
}

static void ranks_share_the_records(void **state) {
  (void)state;
  random_source r = {2};
  for (int i = 0; i < 300; ++i)
    check_ranks(1 + random_below(&r, 500), 1 + random_below(&r, 9), 1 + random_below(&r, 5), random_below(&r, 2));
}

static void epochs_and_seeds_differ(void **state) {
  (void)state;
  enum { N = 1000 };
  const shuffle_plan a = {N, 1, 1, true, 0, 1}, b = {N, 1, 2, true, 0, 1}, in_order = {N, 1, 1, false, 0, 1};
  unsigned same_epoch = 0, same_seed = 0;
  for (uint64_t i = 0; i < N; ++i) {
    same_epoch += shuffle_record(&a, 0, i) == shuffle_record(&a, 1, i);
    same_seed += shuffle_record(&a, 0, i) == shuffle_record(&b, 0, i);
    assert_int_equal(shuffle_record(&a, 0, i), shuffle_record(&a, 0, i));
    assert_int_equal(shuffle_record(&in_order, 5, i), i);
  }
  assert_true(same_epoch < 10 && same_seed < 10); /* 1 expected */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_size_is_permuted),  cmocka_unit_test(huge_sizes_are_permuted),
      cmocka_unit_test(orders_look_random),      cmocka_unit_test(ranks_share_the_records),
      cmocka_unit_test(epochs_and_seeds_differ),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
