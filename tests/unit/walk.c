/* SPDX-License-Identifier: Apache-2.0 */
/* Strided spaces (kernel/engine/walk.h) of random sizes and strides, compared with loops over indices. */
#include "kernel/engine/walk.h"

#include "unit.h"

enum { ELEMENTS = 4096, BASE = 1 << 20 };

/* Fills views of one shape, with strides that are those of a contiguous tensor, permuted, 0, negative or with gaps. */
static int random_views(random_source *r, view *v, int n_views) {
  const int rank = (int)random_below(r, MAX_RANK + 1);
  int64_t n = 1;
  for (int k = 0; k < n_views; ++k) v[k] = (view){.rank = rank, .dtype = ACL_FLOAT};
  for (int d = 0; d < rank; ++d) {
    int64_t dim = 1 + random_below(r, random_below(r, 4) ? 4 : 20);
    if (n * dim > ELEMENTS) dim = 1;
    n *= dim;
    for (int k = 0; k < n_views; ++k) v[k].dims[d] = dim;
  }
  for (int k = 0; k < n_views; ++k) {
    int64_t step = 4;
    for (int d = rank - 1; d >= 0; --d) {
      v[k].strides[d] = step;
      step *= v[k].dims[d] + (random_below(r, 6) == 0);
    }
    for (int d = 0; d < rank; ++d) {
      if (random_below(r, 8) == 0) v[k].strides[d] = 0;
      if (random_below(r, 8) == 0) v[k].strides[d] = -v[k].strides[d];
      if (random_below(r, 6)) continue;
      const int other = (int)random_below(r, (uint32_t)rank);
      const int64_t stride = v[k].strides[d];
      v[k].strides[d] = v[k].strides[other];
      v[k].strides[other] = stride;
    }
  }
  return rank;
}

/* The offset of element i, in row-major order, of dimensions [0, rank). */
static int64_t offset_of(const int64_t *dims, const int64_t *strides, int rank, int64_t i) {
  int64_t offset = 0;
  for (int d = rank - 1; d >= 0; --d) {
    offset += i % dims[d] * strides[d];
    i /= dims[d];
  }
  return offset;
}

static void bases(char **base, int n) {
  for (int k = 0; k < n; ++k) base[k] = (char *)(uintptr_t)((k + 1) * (int64_t)BASE);
}

static int64_t offset_at(const cursor *c, char *const *base, int k) { return c->at[k] - base[k]; }

static void walks_visit_elements_in_logical_order(void **state) {
  (void)state;
  random_source r = {1};
  char *base[WALK_OPERANDS];
  bases(base, WALK_OPERANDS);
  for (int round = 0; round < ROUNDS(2000); ++round) {
    view v[WALK_OPERANDS];
    const view *views[WALK_OPERANDS];
    const int n_views = 1 + (int)random_below(&r, WALK_OPERANDS), rank = random_views(&r, v, n_views);
    for (int k = 0; k < n_views; ++k) views[k] = &v[k];
    walk w;
    cursor c, one;
    walk_init(&w, views, n_views, rank);
    assert_int_equal(w.n, view_elements(&v[0]));
    int64_t i = random_below(&r, (uint32_t)w.n);
    const int64_t end = i + 1 + random_below(&r, (uint32_t)(w.n - i));
    cursor_start(&c, &w, (void *const *)base, i);
    for (int64_t n; i < end; i += n, cursor_next(&c, n)) {
      n = cursor_row(&c, end - i);
      n = 1 + random_below(&r, (uint32_t)n);
      for (int k = 0; k < n_views; ++k) {
        cursor_of_operand(&one, &c, k);
        assert_ptr_equal(one.at[0], c.at[k]);
        for (int64_t j = 0; j < n; ++j)
          assert_int_equal(offset_at(&c, base, k) + j * w.strides[k][w.rank - 1],
                           offset_of(v[k].dims, v[k].strides, rank, i + j));
      }
    }
  }
}

/* A cursor of one operand moves as that of all operands does. */
static void cursors_of_one_operand_follow_it(void **state) {
  (void)state;
  random_source r = {2};
  char *base[3];
  bases(base, 3);
  for (int round = 0; round < ROUNDS(500); ++round) {
    view v[3];
    const int rank = random_views(&r, v, 3);
    walk w;
    cursor c, one;
    walk_init(&w, (const view *const[]){&v[0], &v[1], &v[2]}, 3, rank);
    const int64_t begin = random_below(&r, (uint32_t)w.n);
    const int k = (int)random_below(&r, 3);
    cursor_start(&c, &w, (void *const *)base, begin);
    cursor_of_operand(&one, &c, k);
    for (int64_t i = begin, n; i < w.n; i += n, cursor_next(&c, n), cursor_next(&one, n)) {
      n = cursor_row(&c, w.n - i);
      assert_int_equal(cursor_row(&one, w.n - i), n);
      assert_ptr_equal(one.at[0], c.at[k]);
    }
  }
}

static int compare(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Offsets of two operands as one number. */
static int64_t pair_of(int64_t a, int64_t b) { return a * (int64_t)(1 << 24) + b; }

static void assert_same_elements(const walk *w, const view *v, int rank) {
  static int64_t seen[ELEMENTS], expected[ELEMENTS];
  char *base[2];
  cursor c;
  bases(base, 2);
  cursor_start(&c, w, (void *const *)base, 0);
  for (int64_t i = 0; i < w->n; ++i, cursor_next(&c, 1)) {
    seen[i] = pair_of(offset_at(&c, base, 0), offset_at(&c, base, 1));
    expected[i] = pair_of(offset_of(v[0].dims, v[0].strides, rank, i), offset_of(v[1].dims, v[1].strides, rank, i));
  }
  qsort(seen, (size_t)w->n, sizeof *seen, compare);
  qsort(expected, (size_t)w->n, sizeof *expected, compare);
  assert_memory_equal(seen, expected, (size_t)w->n * sizeof *seen);
}

static void sorted_walks_visit_every_element_once(void **state) {
  (void)state;
  random_source r = {3};
  for (int round = 0; round < ROUNDS(2000); ++round) {
    view v[2];
    const int rank = random_views(&r, v, 2);
    walk w;
    walk_init_sorted(&w, (const view *const[]){&v[0], &v[1]}, 2, rank);
    assert_int_equal(w.n, view_elements(&v[0]));
    for (int d = 1; d < w.rank; ++d) {
      assert_true(w.strides[0][d - 1] >= w.strides[0][d]);
      assert_true(w.dims[d] > 1);
      assert_true(w.strides[0][d - 1] != w.dims[d] * w.strides[0][d] ||
                  w.strides[1][d - 1] != w.dims[d] * w.strides[1][d]);
    }
    assert_same_elements(&w, v, rank);
  }
}

/* walk_sort with several keys, by magnitude, and with the operands in the opposite order. */
static void dimensions_are_sorted_by_all_keys(void **state) {
  (void)state;
  random_source r = {4};
  for (int round = 0; round < ROUNDS(2000); ++round) {
    view v[2];
    const int rank = random_views(&r, v, 2), keys = 1 + (int)random_below(&r, 2);
    const bool magnitude = random_below(&r, 2), reversed = random_below(&r, 2);
    int64_t dims[MAX_RANK], strides[2][MAX_RANK], number[MAX_RANK];
    for (int d = 0; d < rank; ++d) {
      dims[d] = d; /* sizes do not matter, so they number the dimensions */
      strides[reversed][d] = v[0].strides[d];
      strides[!reversed][d] = v[1].strides[d];
    }
    const walk_space s = {dims, strides[reversed], reversed ? -MAX_RANK : MAX_RANK, 2};
    walk_sort(&s, rank, keys, magnitude);
    memset(number, 0, sizeof number);
    for (int d = 0; d < rank; ++d) {
      ++number[dims[d]];
      assert_int_equal(strides[reversed][d], v[0].strides[dims[d]]);
      assert_int_equal(strides[!reversed][d], v[1].strides[dims[d]]);
      if (d == 0) continue;
      int64_t a[2], b[2];
      for (int k = 0; k < 2; ++k) {
        a[k] = strides[k ^ reversed][d - 1];
        b[k] = strides[k ^ reversed][d];
        if (magnitude) a[k] = llabs(a[k]), b[k] = llabs(b[k]);
      }
      const bool equal = a[0] == b[0] && (keys == 1 || a[1] == b[1]);
      assert_true(equal ? dims[d - 1] < dims[d] : a[0] != b[0] ? a[0] > b[0] : a[1] > b[1]);
    }
    for (int d = 0; d < rank; ++d) assert_int_equal(number[d], 1);
  }
}

/* walk_merge of the dimensions from `begin` on, moved to `to`: the same offsets in the same order. */
static void merging_keeps_the_order(void **state) {
  (void)state;
  random_source r = {5};
  for (int round = 0; round < ROUNDS(2000); ++round) {
    view v[2];
    const int rank = random_views(&r, v, 2), begin = (int)random_below(&r, (uint32_t)rank + 1);
    const int to = (int)random_below(&r, (uint32_t)begin + 1);
    int64_t dims[MAX_RANK], strides[2][MAX_RANK], n = 1;
    memcpy(dims, v[0].dims, sizeof dims);
    for (int k = 0; k < 2; ++k) memcpy(strides[k], v[k].strides, sizeof strides[k]);
    const int kept = walk_merge(&(walk_space){dims, strides[0], MAX_RANK, 2}, begin, rank, to);
    assert_true(kept <= rank - begin);
    for (int d = 0; d < to; ++d) assert_int_equal(dims[d], v[0].dims[d]);
    for (int d = begin; d < rank; ++d) n *= v[0].dims[d];
    for (int64_t i = 0; i < n; ++i)
      for (int k = 0; k < 2; ++k)
        assert_int_equal(offset_of(dims + to, strides[k] + to, kept, i),
                         offset_of(v[k].dims + begin, v[k].strides + begin, rank - begin, i));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(walks_visit_elements_in_logical_order),
      cmocka_unit_test(cursors_of_one_operand_follow_it),
      cmocka_unit_test(sorted_walks_visit_every_element_once),
      cmocka_unit_test(dimensions_are_sorted_by_all_keys),
      cmocka_unit_test(merging_keeps_the_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
