/* SPDX-License-Identifier: Apache-2.0 */
/* Products of 8-bit integers with zero points, with a constant and any other right factor: each element is what int64
 * gives. Floats quantised by their range. Shapes, types and zero points are random. */
#include <math.h>

#include "graph/nodes.h"
#include "op/executor.h"
#include "unit.h"

#define CHECK(expression) assert_int_equal(expression, ST_OK)

enum { SELF, MAT2, SELF_ZERO, MAT2_ZERO, SCALE, BIAS, OUT, N_TENSORS };

typedef struct {
  ir_graph *g;
  int64_t m, k, n;
  ir_value *t[N_TENSORS];
  char *at[N_TENSORS]; /* contents */
} fixture;

static void make_value(random_source *r, fixture *f, int i, int dtype, const int64_t *dims, int rank) {
  CHECK(ir_temporary(f->g, dtype, dims, rank, &f->t[i]));
  const size_t bytes = f->t[i]->storage->bytes;
  f->at[i] = aligned_alloc(64, (bytes + 63) / 64 * 64);
  for (size_t b = 0; b < bytes; ++b) f->at[i][b] = (char)random_below(r, 256);
}

static fixture make_fixture(random_source *r) {
  fixture f = {
      .g = ir_new(), .m = 1 + random_below(r, 40), .k = 1 + random_below(r, 300), .n = 1 + random_below(r, 200)};
  const int type = random_below(r, 2) ? ACL_UINT8 : ACL_INT8;
  make_value(r, &f, SELF, type, (const int64_t[]){f.m, f.k}, 2);
  make_value(r, &f, MAT2, ACL_INT8, (const int64_t[]){f.k, f.n}, 2);
  make_value(r, &f, OUT, ACL_INT32, (const int64_t[]){f.m, f.n}, 2);
  if (random_below(r, 3)) make_value(r, &f, SELF_ZERO, type, &f.m, random_below(r, 2));
  if (random_below(r, 3)) make_value(r, &f, MAT2_ZERO, ACL_INT8, &f.n, random_below(r, 2));
  return f;
}

static void run(fixture *f, bool constant) {
  op_arg args[N_TENSORS];
  void *view[N_TENSORS];
  for (int i = 0; i < N_TENSORS; ++i) {
    args[i] = (op_arg){.tensor = value_tensor(f->t[i])};
    view[i] = f->at[i];
  }
  uint64_t workspace_bytes;
  executor *e;
  CHECK(op_prepare_constant(&op_MatmulInteger, args, constant ? 1u << MAT2 : 0, &workspace_bytes, &e));
  char *const scratch = aligned_alloc(64, workspace_bytes + 64), *packed = NULL;
  memset(scratch, 0x5a, workspace_bytes);
  assert_true(!e->packing.bytes || constant);
  if (e->packing.bytes) {
    e->packed = packed = aligned_alloc(64, (e->packing.bytes + 63) / 64 * 64);
    e->packing.pack(e, view[MAT2], packed);
    view[MAT2] = NULL;
  }
  CHECK(e->run(e, view, scratch));
  executor_unref(e);
  free(scratch);
  free(packed);
}

/* A number of a tensor; a scalar's for all. */
static int64_t number(const fixture *f, int i, int64_t at) {
  if (!f->t[i]) return 0;
  if (!f->t[i]->tensor.rank) at = 0;
  return f->t[i]->tensor.dtype == ACL_UINT8 ? (uint8_t)f->at[i][at] : (int8_t)f->at[i][at];
}

static void check(const fixture *f) {
  for (int64_t i = 0; i < f->m; ++i)
    for (int64_t j = 0; j < f->n; ++j) {
      int64_t sum = 0;
      for (int64_t k = 0; k < f->k; ++k)
        sum += (number(f, SELF, i * f->k + k) - number(f, SELF_ZERO, i)) *
               (number(f, MAT2, k * f->n + j) - number(f, MAT2_ZERO, j));
      assert_int_equal(((const int32_t *)(const void *)f->at[OUT])[i * f->n + j], sum);
    }
}

static void sums_are_exact(void **state) {
  (void)state;
  random_source random = {6};
  for (int i = 0; i < ROUNDS(200); ++i) {
    fixture f = make_fixture(&random);
    run(&f, random_below(&random, 2));
    check(&f);
    for (int k = 0; k < N_TENSORS; ++k) free(f.at[k]);
    ir_free(f.g);
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
