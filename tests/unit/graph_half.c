/* SPDX-License-Identifier: Apache-2.0 */
/* 16-bit types in place of float32: which one is taken of those that are allowed, and that results stay near. Whether a
 * permission pays depends on the processor; orders are followed on all. */
#include <math.h>

#include "graph/nodes.h"
#include "graph/pass/pass.h"
#include "graph/program.h"
#include "unit.h"

#define CHECK(expression) assert_int_equal(expression, ST_OK)

enum { ROWS = 64, SIZE = 256, N = ROWS * SIZE };

static status place(void *owner, ir_storage **constants, int n) {
  (void)owner;
  for (int i = 0; i < n; ++i) constants[i]->address = (void *)(uintptr_t)constants[i]->contents;
  return ST_OK;
}

/* x times constants, the larger of that and 0, times constants: y. *dtype: what the pass has chosen. */
static int run_products(half_use use, const float *x, float *y, int *dtype) {
  const int64_t dims[] = {ROWS, SIZE}, square[] = {SIZE, SIZE};
  const int number = pass_find("HalfPrecisionPass");
  ir_graph *g = ir_new();
  ir_value *v[4], *w;
  pass_report report;
  program *p;
  g->half = use;
  CHECK(ir_input(g, "x", ACL_FLOAT, dims, 2, &v[0]));
  CHECK(ir_constant(g, ACL_FLOAT, square, 2, NULL, &w));
  float *numbers = ir_fill(w);
  for (int i = 0; i < SIZE * SIZE; ++i) numbers[i] = (float)(i * 7 % 31 - 15) / 256;
  for (int i = 1; i < 4; ++i) CHECK(ir_temporary(g, ACL_FLOAT, dims, 2, &v[i]));
  CHECK(node_Matmul(g, v[0], w, v[1], 0));
  CHECK(node_Relu(g, v[1], v[2]));
  CHECK(node_Matmul(g, v[2], w, v[3], 0));
  g->n_outputs = 1;
  g->outputs = REGION_NEW(&g->memory, ir_value *, 1);
  g->outputs[0] = v[3];
  CHECK(pass_all(g, 0, &report));
  CHECK(program_make(g, &(program_owner){.place = place, .share = true}, &p));
  char *arena = aligned_alloc(64, program_sizes(p).arena + 64);
  CHECK(program_run(p, &(program_memory){arena, (void *const[]){(void *)(uintptr_t)x}, (void *const[]){y}}));
  *dtype = program_graph(p)->half_dtype;
  program_free(p);
  free(arena);
  return report.n_matches[number];
}

static void types_are_those_allowed(void **state) {
  static float x[N], y[N_HALF_USES][N];
  int dtype[N_HALF_USES];
  float most = 0;
  (void)state;
  for (int i = 0; i < N; ++i) x[i] = (float)(i % 17 - 8) / 8;
  for (int k = 0; k < N_HALF_USES; ++k) {
    const int matches = run_products((half_use)k, x, y[k], &dtype[k]);
    assert_int_equal(matches > 0, dtype[k] != 0);
    for (int i = 0; i < N; ++i) most = fmaxf(most, fabsf(y[0][i]));
    for (int i = 0; i < N; ++i) assert_float_equal(y[k][i], y[0][i], most / 32);
    if (!dtype[k]) assert_memory_equal(y[k], y[0], sizeof y[0]);
  }
  assert_int_equal(dtype[HALF_NEVER], 0);
  assert_int_equal(dtype[HALF_WANTED], ACL_FLOAT16);
  assert_true(!dtype[HALF_ALLOWED] || dtype[HALF_ALLOWED] == ACL_FLOAT16);
  assert_true(!dtype[HALF_BFLOAT16_ALLOWED] || dtype[HALF_BFLOAT16_ALLOWED] == ACL_BF16);
  assert_int_equal(dtype[HALF_ANY_ALLOWED] != 0, dtype[HALF_ALLOWED] || dtype[HALF_BFLOAT16_ALLOWED]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(types_are_those_allowed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
