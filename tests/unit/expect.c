/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of arguments: what they let pass, and what they say otherwise. */
#include "unit.h"

#include "op/expect.h"

static tensor shaped(int dtype, int rank, const int64_t *dims) {
  tensor t = {.dtype = dtype, .rank = (uint8_t)rank, .n = 1};
  for (int d = rank - 1; d >= 0; --d) {
    t.dims[d] = dims[d];
    t.strides[d] = t.n;
    t.n *= dims[d];
  }
  return t;
}
#define SHAPED(dtype, ...)                                                                                             \
  shaped(dtype, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})

static void says(status st, const char *message) {
  assert_int_equal(st, ST_OP_INVALID);
  assert_string_equal(fail_take(), message);
}

static void dtypes(void **state) {
  (void)state;
  const tensor t = SHAPED(ACL_INT8, 2, 3), unknown = SHAPED(-1, 2);
  assert_int_equal(op_expect_dtype(&t, "x", DTYPES_INTEGER), ST_OK);
  says(op_expect_dtype(&t, "x", DTYPES_HALF), "x has dtype INT8, expected one of FLOAT16, BF16");
  assert_int_equal(op_expect_dtype(&unknown, "x", DTYPES_REAL), ST_OP_INVALID);
  assert_int_equal(DTYPES_FLOAT, DTYPES_FLOAT_TO_32 | DTYPE_BIT(ACL_DOUBLE));
}

static void shapes(void **state) {
  (void)state;
  const tensor t = SHAPED(ACL_FLOAT, 2, 3), same = SHAPED(ACL_FLOAT16, 2, 3), less = SHAPED(ACL_FLOAT, 2);
  assert_int_equal(op_expect_same_shape(&same, "out", &t), ST_OK);
  says(op_expect_same_shape(&t, "out", &less), "out has shape [2, 3], expected [2]");
  says(op_expect_like(&same, "out", &t), "out has dtype FLOAT16, expected one of FLOAT");
  says(op_expect_like(&less, "out", &t), "out has shape [2], expected [2, 3]");
  assert_int_equal(op_expect_like(&t, "out", &t), ST_OK);
}

static void ranks(void **state) {
  (void)state;
  const tensor t = SHAPED(ACL_FLOAT, 2, 3);
  assert_int_equal(op_expect_rank(&t, "x", 2, 2), ST_OK);
  assert_int_equal(op_expect_rank(&t, "x", 0, MAX_RANK), ST_OK);
  says(op_expect_rank(&t, "x", 1, 1), "x has shape [2, 3], expected 1 dimension");
  says(op_expect_rank(&t, "x", 3, 3), "x has shape [2, 3], expected 3 dimensions");
  says(op_expect_rank(&t, "x", 0, 1), "x has shape [2, 3], expected 0 or 1 dimensions");
  says(op_expect_rank(&t, "x", 3, 5), "x has shape [2, 3], expected 3 to 5 dimensions");
  says(op_expect_rank(&t, "x", 4, MAX_RANK), "x has shape [2, 3], expected 4 or more dimensions");
}

static void sizes_and_dimensions(void **state) {
  (void)state;
  const tensor t = SHAPED(ACL_FLOAT, 2, 3), one = SHAPED(ACL_FLOAT, 1, 1);
  tensor room;
  int dim;
  assert_int_equal(op_expect_one(&one, "scale", DTYPES_FLOAT), ST_OK);
  says(op_expect_one(&t, "scale", DTYPES_FLOAT), "scale has 6 elements, expected 1");
  assert_int_equal(op_expect_size(3, "outputMask", 3), ST_OK);
  says(op_expect_size(2, "outputMask", 3), "outputMask has 2 elements, expected 3");
  assert_int_equal(op_expect_dim(-1, "dim", 3, &dim), ST_OK);
  assert_int_equal(dim, 2);
  assert_int_equal(op_expect_dim(-1, "dim", 0, &dim), ST_OK);
  assert_int_equal(dim, 0);
  says(op_expect_dim(3, "dim", 3, &dim), "dim is 3, expected -3 to 2");
  assert_ptr_equal(op_one_as(&one, NULL, 0, &room), &room);
  assert_int_equal(room.rank, 0);
  assert_ptr_equal(op_one_as(&t, NULL, 0, &room), &t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dtypes),
      cmocka_unit_test(shapes),
      cmocka_unit_test(ranks),
      cmocka_unit_test(sizes_and_dimensions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
