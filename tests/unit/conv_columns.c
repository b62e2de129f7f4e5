/* SPDX-License-Identifier: Apache-2.0 */
/* How the products of a convolution are divided among threads: within the limits of parts, the fewest for one thread,
 * and such that several threads are busy and end at about the same time. */
#include "kernel/conv/columns.h"
#include "runtime/parallel.h"
#include "unit.h"

static columns_product product_of(int64_t rows, int64_t positions, int64_t per_position) {
  return (columns_product){.rows = rows,
                           .positions = positions,
                           .groups = 1,
                           .row_grain = 64,
                           .position_grain = 14,
                           .most_rows = rows,
                           .most_positions = 224,
                           .most_sums = 1 << 17,
                           .per_position = per_position,
                           .per_row = COLUMNS_READ};
}

/* The part of the products that the busiest of n_threads threads computes. */
static double busiest(const columns_product *p, columns_parts parts, int n_threads) {
  int64_t products = 0;
  double most = 0;
  for (int64_t t = 0, n = parts.rows * parts.positions; t < n_threads; ++t) {
    int64_t own = 0;
    for (int64_t i = n * t / n_threads; i < n * (t + 1) / n_threads; ++i) {
      int64_t row, row_end, position, position_end;
      parallel_share(p->rows, p->row_grain, i % parts.rows, parts.rows, &row, &row_end);
      parallel_share(p->positions, p->position_grain, i / parts.rows, parts.positions, &position, &position_end);
      assert_true(row < row_end && position < position_end);
      assert_true(row_end - row <= p->most_rows && position_end - position <= p->most_positions);
      assert_true(parts.rows == (p->rows + 63) / 64 || (row_end - row) * (position_end - position) <= p->most_sums);
      own += (row_end - row) * (position_end - position);
    }
    products += own;
    if ((double)own > most) most = (double)own;
  }
  assert_int_equal(products, p->rows * p->positions);
  return most / (double)products;
}

/* Layers of ResNet-50, Inception and DenseNet, which were computed by one thread. */
static void two_threads_are_busy(void **state) {
  static const int64_t layers[][2] = {{256, 196}, {128, 196}, {192, 196}, {512, 49}, {128, 49}, {1024, 196}, {352, 49}};
  (void)state;
  for (size_t i = 0; i < sizeof layers / sizeof *layers; ++i)
    for (int64_t per_position = COLUMNS_PACK; per_position <= COLUMNS_GATHER; per_position += 16) {
      const columns_product p = product_of(layers[i][0], layers[i][1], per_position);
      assert_true(busiest(&p, columns_divide(&p, 2), 2) < 0.58);
    }
}

static void one_thread_has_few_parts(void **state) {
  const columns_product p = product_of(256, 196, COLUMNS_PACK), large = product_of(1024, 300, COLUMNS_PACK);
  columns_parts parts = columns_divide(&p, 1);
  (void)state;
  assert_int_equal(parts.rows * parts.positions, 1);
  parts = columns_divide(&large, 1);
  assert_int_equal(parts.positions, 2);
  assert_int_equal(parts.rows, 2);
}

/* Columns that are gathered at some cost are rather divided by positions. */
static void gathering_is_not_repeated(void **state) {
  const columns_product p = product_of(256, 196, 10 * COLUMNS_GATHER);
  (void)state;
  assert_int_equal(columns_divide(&p, 2).rows, 1);
  columns_product weights = product_of(256, 64, COLUMNS_GATHER);
  weights.per_row = COLUMNS_GATHER;
  assert_int_equal(columns_divide(&weights, 2).positions, 1);
}

static void random_products_are_covered(void **state) {
  (void)state;
  random_source random = {3};
  for (int i = 0; i < ROUNDS(2000); ++i) {
    columns_product p =
        product_of(1 + random_below(&random, 2100), 1 + random_below(&random, 2000), 1 + random_below(&random, 30));
    if (random_below(&random, 2)) p.most_rows = 64 + random_below(&random, 1000);
    const int n_threads = 1 + (int)random_below(&random, 20);
    busiest(&p, columns_divide(&p, n_threads), n_threads);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_threads_are_busy),
      cmocka_unit_test(one_thread_has_few_parts),
      cmocka_unit_test(gathering_is_not_repeated),
      cmocka_unit_test(random_products_are_covered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
