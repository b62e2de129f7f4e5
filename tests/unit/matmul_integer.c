/* SPDX-License-Identifier: Apache-2.0 */
/* Products of 8-bit integers with zero points, with a constant and any other right factor: each element is what int64
 * gives. Floats quantised by their range. Shapes, types and zero points are random. */
#include <math.h>

#include "integer_operands.h"

typedef struct {
  operands o;
  int64_t m, k, n;
} fixture;

static fixture make_fixture(random_source *r) {
  fixture f = {
      .o.g = ir_new(), .m = 1 + random_below(r, 40), .k = 1 + random_below(r, 300), .n = 1 + random_below(r, 200)};
  const int type = random_below(r, 2) ? ACL_UINT8 : ACL_INT8;
  operands_add(&f.o, r, INPUT, type, (const int64_t[]){f.m, f.k}, 2);
  operands_add(&f.o, r, WEIGHT, ACL_INT8, (const int64_t[]){f.k, f.n}, 2);
  operands_add(&f.o, r, OUT, ACL_INT32, (const int64_t[]){f.m, f.n}, 2);
  if (random_below(r, 3)) operands_add(&f.o, r, INPUT_ZERO, type, &f.m, random_below(r, 2));
  if (random_below(r, 3)) operands_add(&f.o, r, WEIGHT_ZERO, ACL_INT8, &f.n, random_below(r, 2));
  return f;
}

static void check(const fixture *f) {
  for (int64_t i = 0; i < f->m; ++i)
    for (int64_t j = 0; j < f->n; ++j) {
      int64_t sum = 0;
      for (int64_t k = 0; k < f->k; ++k)
        sum += (operands_number(&f->o, INPUT, i * f->k + k) - operands_number(&f->o, INPUT_ZERO, i)) *
               (operands_number(&f->o, WEIGHT, k * f->n + j) - operands_number(&f->o, WEIGHT_ZERO, j));
      assert_int_equal(((const int32_t *)(const void *)f->o.at[OUT])[i * f->n + j], sum);
    }
}

static void sums_are_exact(void **state) {
  (void)state;
  random_source random = {6};
  for (int i = 0; i < ROUNDS(200); ++i) {
    fixture f = make_fixture(&random);
    operands_run(&f.o, &op_MatmulInteger, NULL, 0, random_below(&random, 2));
    check(&f);
    operands_free(&f.o);
  }
}

/* The formula of ONNX in float, one operation after the other. */
static void floats_are_quantised_by_their_range(void **state) {
  (void)state;
  random_source random = {7};
  for (int i = 0; i < ROUNDS(200); ++i) {
    enum { MOST = 700 };
    const int64_t n = 1 + random_below(&random, MOST);
    const float centre = (float)random_below(&random, 5) - 2;
    float x[MOST], scale, least = 0, most = 0;
    uint8_t y[MOST], zero;
    for (int64_t k = 0; k < n; ++k) {
      x[k] = i ? centre + (float)random_below(&random, 2001) / 1000 - 1 : 0;
      least = fminf(least, x[k]), most = fmaxf(most, x[k]);
    }
    ir_graph *g = ir_new();
    ir_value *t[4];
    const int dtypes[] = {ACL_FLOAT, ACL_UINT8, ACL_FLOAT, ACL_UINT8};
    op_arg args[4];
    for (int k = 0; k < 4; ++k) {
      CHECK(ir_temporary(g, dtypes[k], &n, k < 2, &t[k]));
      args[k] = (op_arg){.tensor = value_tensor(t[k])};
    }
    uint64_t workspace_bytes;
    executor *e;
    CHECK(op_prepare(&op_DynamicQuantizeLinear, args, &workspace_bytes, &e));
    CHECK(e->run(e, (void *[]){x, y, &scale, &zero}, NULL));
    executor_unref(e);
    ir_free(g);
    const float expected = most > least ? (most - least) / 255 : 1, shift = rintf(-least / expected);
    assert_true(scale == expected && zero == fminf(fmaxf(shift, 0), 255));
    for (int64_t k = 0; k < n; ++k) assert_true(y[k] == fminf(fmaxf(rintf(x[k] / scale) + (float)zero, 0), 255));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_exact),
                                     cmocka_unit_test(floats_are_quantised_by_their_range)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
