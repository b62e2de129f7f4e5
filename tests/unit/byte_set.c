/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of bytes compared with an array of bytes, and the rows of views with their elements. CANNON_SEED varies them. */
#include "check/byte_set.h"

#include "unit.h"

static uint64_t seed(void) {
  const char *text = getenv("CANNON_SEED");
  return text ? strtoull(text, NULL, 0) : 1;
}

/* The first run of members by the model. */
static bool find_slowly(const bool *in, uint64_t from, uint64_t to, uint64_t *begin, uint64_t *end) {
  while (from < to && !in[from]) ++from;
  *begin = from;
  while (from < to && in[from]) ++from;
  *end = from;
  return *begin < *end;
}

static void compare(const byte_set *s, const bool *in, uint64_t from, uint64_t to) {
  uint64_t begin, end, expected_begin, expected_end, n = 0;
  const bool found = byte_set_find(s, from, to, &begin, &end);
  assert_int_equal(found, find_slowly(in, from, to, &expected_begin, &expected_end));
  if (found) assert_int_equal(begin, expected_begin);
  if (found) assert_int_equal(end, expected_end);
  for (uint64_t i = from; i < to; ++i) n += in[i];
  assert_int_equal(byte_set_count(s, from, to), n);
}

static void a_set_of_bytes_is_an_array_of_them(void **state) {
  (void)state;
  enum { MOST = 100000 };
  static const uint32_t sizes[] = {1, 63, 64, 65, 4096, 16383, 16384, 16385, 50000, MOST};
  static bool in[MOST];
  random_source r = {seed()};
  for (unsigned k = 0; k < COUNT(sizes); ++k) {
    const uint32_t bytes = sizes[k];
    byte_set s;
    const bool all = random_below(&r, 2);
    byte_set_init(&s, bytes, all);
    memset(in, all, bytes);
    for (int step = 0; step < ROUNDS(600); ++step) {
      uint64_t from = random_below(&r, bytes), to = from + random_below(&r, random_below(&r, 4) ? 300 : bytes) + 1;
      if (!random_below(&r, 40)) from = 0;
      if (!random_below(&r, 40)) to = bytes;
      const bool put = random_below(&r, 2);
      const uint64_t last = to < bytes ? to : bytes;
      uint64_t changed = 0;
      for (uint64_t i = from; i < last; ++i) changed += in[i] != put;
      assert_int_equal(byte_set_put(&s, from, to, put), changed);
      memset(in + from, put, last > from ? last - from : 0);
      compare(&s, in, random_below(&r, bytes), bytes);
      compare(&s, in, from, last);
    }
    compare(&s, in, 0, bytes);
    byte_set_end(&s);
  }
}

static void sets_that_are_empty_or_full_take_no_memory(void **state) {
  (void)state;
  byte_set s;
  byte_set_init(&s, UINT64_C(1) << 40, true);
  assert_null(s.chunk);
  byte_set_put(&s, 0, UINT64_C(1) << 40, false);
  assert_null(s.chunk);
  byte_set_init(&s, 40000, true);
  for (uint64_t i = 0; i < 40000; i += 100) byte_set_put(&s, i, i + 50, false);
  assert_non_null(s.chunk);
  for (uint64_t i = 0; i < 40000; i += 100) byte_set_put(&s, i + 50, i + 100, false);
  assert_null(s.chunk);
  assert_int_equal(s.n, 0);
}

/* Marks the elements of a view by walking its indices. */
static void mark(bool *in, const hook_shape *shape, int k, int64_t at) {
  if (k == shape->rank) {
    memset(in + at, true, shape->element_bytes);
    return;
  }
  for (int64_t i = 0; i < shape->dims[k]; ++i) mark(in, shape, k + 1, at + i * shape->strides[k]);
}

static void rows_are_the_elements(void **state) {
  (void)state;
  enum { MOST = 1 << 16 };
  static bool in[MOST], rows[MOST];
  random_source r = {seed()};
  for (int round = 0; round < ROUNDS(3000); ++round) {
    int64_t dims[4], strides[4];
    const uint32_t element = 1u << random_below(&r, 4);
    hook_shape shape = {(int)random_below(&r, 5), element, dims, strides};
    uint64_t bytes = element;
    for (int k = 0; k < shape.rank; ++k) {
      dims[k] = 1 + random_below(&r, 5);
      strides[k] = element * (random_below(&r, 3) ? random_below(&r, 200) : random_below(&r, 5));
      bytes += (uint64_t)(dims[k] - 1) * (uint64_t)strides[k];
    }
    memset(in, 0, bytes);
    memset(rows, 0, bytes);
    mark(in, &shape, 0, 0);
    byte_rows v;
    byte_rows_init(&v, bytes, &shape);
    EACH_ROW(&v, w) {
      assert_true(w.at + v.row <= bytes);
      memset(rows + w.at, true, v.row);
    }
    assert_memory_equal(in, rows, bytes);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_set_of_bytes_is_an_array_of_them),
      cmocka_unit_test(sets_that_are_empty_or_full_take_no_memory),
      cmocka_unit_test(rows_are_the_elements),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
