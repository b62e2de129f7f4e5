/* SPDX-License-Identifier: Apache-2.0 */
/* FlatQuant: out[m] = round(P1 @ x[m] @ P2 / scale[m]) as int4, where the scale of a matrix is its largest magnitude
 * times clipRatio / 7. Both products are in float. */
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/product/product.h"
#include "kernel/quant/nibbles.h"
#include "kernel/quant/row.h"

enum { INT4_MOST = 7 };

typedef struct {
  product_plan right, left; /* x @ P2, and P1 @ that */
  int64_t n, size;          /* matrices, and their elements */
  int64_t scale_step;
  float most;                       /* 7 / clipRatio */
  uint64_t halfway, product, bytes; /* in scratch: the products as floats, the results as int8 */
} flat_plan;

typedef struct {
  const flat_plan *plan;
  float *from;
  int8_t *to;
  char *scales;
  status *result;
} flat_job;

static void flat_quantise(const void *arg, int64_t begin, int64_t end) {
  const flat_job *j = arg;
  const int64_t n = j->plan->size;
  float *const y = (float *)(void *)scratch_take((size_t)n * sizeof *y);
  if (!y) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  for (; begin < end; ++begin) {
    *(float *)(void *)(j->scales + begin * j->plan->scale_step) =
        quant_row_dynamic(y, j->from + begin * n, j->plan->most, n);
    loops->store[ACL_INT8][COMPUTE_F32](j->to + begin * n, 1, y, n);
  }
}

static status run_flat(const executor *e, void *const *view, void *scratch) {
  const flat_plan *p = e->heap;
  char *const halfway = (char *)scratch + p->halfway, *const product = (char *)scratch + p->product;
  product_call right = {.plan = &p->right, .a = view[FLAT_QUANT_X], .b = view[FLAT_QUANT_KRONECKER_P2], .out = halfway};
  product_call left = {.plan = &p->left, .a = view[FLAT_QUANT_KRONECKER_P1], .b = halfway, .out = product};
  TRY(product_run(&right, 1));
  TRY(product_run(&left, 1));
  status result = ST_OK;
  const flat_job job = {p, (float *)(void *)product, (int8_t *)scratch + p->bytes, view[FLAT_QUANT_QUANT_SCALE],
                        &result};
  rows_parallel(flat_quantise, &job, p->n, 1, (uint64_t)(p->n * p->size));
  nibbles_pack(view[FLAT_QUANT_OUT], job.to, p->n * p->size);
  return result;
}

/* A stack of n matrices whose strides are those of the view's last two dimensions. */
static matrices flat_matrices(const tensor *t, int64_t batch_stride) {
  const view v = view_of(t);
  const int r = v.rank;
  return (matrices){.dtype = t->dtype,
                    .rows = v.dims[r - 2],
                    .cols = v.dims[r - 1],
                    .row_stride = v.strides[r - 2],
                    .col_stride = v.strides[r - 1],
                    .batch_strides = {batch_stride}};
}

static status flat_expect_square(const tensor *t, const char *name, int dtype, int64_t n) {
  TRY(op_expect_dtype(t, name, DTYPE_BIT(dtype)));
  return op_expect_shape(t, name, (const int64_t[]){n, n}, 2);
}

status prepare_flat_quant(executor *e, const flat_quant_args *a) {
  const tensor *x = a->x;
  TRY(op_expect_dtype(x, "x", DTYPES_HALF));
  EXPECT(x->rank == 3 && x->n > 0 && x->dims[2] % 2 == 0, "x has shape %s, expected 3 dimensions, the last one even",
         SHAPE_OF(x));
  TRY(flat_expect_square(a->kronecker_p1, "kroneckerP1", x->dtype, x->dims[1]));
  TRY(flat_expect_square(a->kronecker_p2, "kroneckerP2", x->dtype, x->dims[2]));
  EXPECT(a->clip_ratio > 0 && a->clip_ratio <= 1, "clipRatio is %g, expected more than 0, up to 1", a->clip_ratio);
  TRY(op_expect_dtype(a->out, "out", DTYPES_NIBBLES));
  TRY(nibbles_operand(e, FLAT_QUANT_OUT, a->out, "out", x->dims, 3));
  TRY(op_expect_dtype(a->quant_scale, "quantScale", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_shape(a->quant_scale, "quantScale", x->dims, 1));
  HEAP_PLAN(flat_plan, p, e, sizeof *p);
  p->n = x->dims[0];
  p->size = x->dims[1] * x->dims[2];
  p->scale_step = view_of(a->quant_scale).strides[0];
  p->most = (float)(INT4_MOST / a->clip_ratio);
  const int64_t bytes = sizeof(float);
  const matrices floats = {.dtype = ACL_FLOAT,
                           .rows = x->dims[1],
                           .cols = x->dims[2],
                           .row_stride = x->dims[2] * bytes,
                           .col_stride = bytes,
                           .batch_strides = {p->size * bytes}};
  const product_plan plain = {.alpha = 1, .n_batch_dims = 1, .batch_dims = {p->n}, .out = floats};
  p->right = p->left = plain;
  p->right.a = flat_matrices(x, view_of(x).strides[0]);
  p->right.b = flat_matrices(a->kronecker_p2, 0);
  p->left.a = flat_matrices(a->kronecker_p1, 0);
  p->left.b = floats;
  product_choose(&p->right, NULL);
  product_choose(&p->left, NULL);
  p->halfway = workspace_intermediate(e, (uint64_t)(x->n * bytes));
  p->product = workspace_intermediate(e, (uint64_t)(x->n * bytes));
  p->bytes = workspace_intermediate(e, (uint64_t)x->n);
  executor_products(e, (double)x->n * (double)(x->dims[1] + x->dims[2]));
  executor_cost(e, (uint64_t)x->n * 3, (p->right.cost_ns + p->left.cost_ns) * 32 + (uint64_t)x->n * 8);
  e->run = run_flat;
  return ST_OK;
}
