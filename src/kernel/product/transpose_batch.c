/* SPDX-License-Identifier: Apache-2.0 */
/* TransposeBatchMatMul: a batch of products whose factors are given in some orders of dimensions, and whose result has
 * the rows first. With a split factor s, the batch is s groups, and the result [s, rows, batch / s * columns]. */
#include "kernel/families.h"
#include "kernel/product/blocked_product.h"
#include "kernel/product/factor/factors.h"

/* Checks an order of dimensions, one of two or (other < 0) only the first, and exchanges those of t, which are then as
 * in the product. exchanged: what the second one exchanges with the dimension behind it. */
static status take_order(const aclIntArray *order, const char *name, int exchanged, bool always, view *v) {
  int64_t plain[3] = {0, 1, 2}, other[3] = {0, 1, 2};
  other[exchanged] = exchanged + 1, other[exchanged + 1] = exchanged;
  const int64_t *const given = order ? order->value : always ? other : plain;
  if (order) TRY(op_expect_size(order->size, name, 3));
  bool is_plain = !always, is_other = true;
  for (int d = 0; d < 3; ++d) is_plain &= given[d] == plain[d], is_other &= given[d] == other[d];
  EXPECT(is_plain || is_other, "%s is %s, expected %s%s%s", name, DIMS_TEXT(given, 3),
         always ? "" : DIMS_TEXT(plain, 3), always ? "" : " or ", DIMS_TEXT(other, 3));
  if (!v || !is_other) return ST_OK;
  const view from = *v;
  for (int d = 0; d < 3; ++d) v->dims[d] = from.dims[given[d]], v->strides[d] = from.strides[given[d]];
  return ST_OK;
}

/* A factor's matrices, for a batch of `groups` times `each`. */
static matrices transpose_batch_factor(const view *v, int64_t each) {
  return (matrices){.dtype = v->dtype,
                    .rows = v->dims[1],
                    .cols = v->dims[2],
                    .row_stride = v->strides[1],
                    .col_stride = v->strides[2],
                    .batch_strides = {each * v->strides[0], v->strides[0]}};
}

status prepare_transpose_batch_matmul(executor *e, const transpose_batch_matmul_args *a) {
  const tensor *const factors[] = {a->x1, a->x2};
  const char *const names[] = {"x1", "x2"};
  for (int i = 0; i < 2; ++i) {
    TRY(op_expect_dtype(factors[i], names[i], DTYPES_FLOAT_TO_32));
    TRY(op_expect_rank(factors[i], names[i], 3, 3));
  }
  EXPECT(a->x1->dtype == a->x2->dtype, "x2 has dtype %s, expected x1's %s", dtype_name(a->x2->dtype),
         dtype_name(a->x1->dtype));
  EXPECT(!a->bias, "bias is a tensor, expected NULL");
  EXPECT(!a->scale, "scale is a tensor, expected NULL: results are not quantised");
  TRY(factors_check_cube_math(a->cube_math_type, 4));
  view x1 = view_of(a->x1), x2 = view_of(a->x2);
  TRY(take_order(a->perm_x1, "permX1", 0, false, &x1));
  TRY(take_order(a->perm_x2, "permX2", 1, false, &x2));
  TRY(take_order(a->perm_y, "permY", 0, true, NULL));
  const int64_t batch = x1.dims[0], rows = x1.dims[1], columns = x2.dims[2], groups = a->batch_split_factor;
  EXPECT(x2.dims[0] == batch && x2.dims[1] == x1.dims[2],
         "x2 has shape %s in the order of permX2, expected [%jd, %jd, columns]", SHAPE_OF(&x2), (intmax_t)batch,
         (intmax_t)x1.dims[2]);
  EXPECT(groups >= 1 && batch % groups == 0, "batchSplitFactor is %jd, expected a divisor of %jd, the batch",
         (intmax_t)groups, (intmax_t)batch);
  const int64_t each = batch / groups, plain[] = {rows, batch, columns}, split[] = {groups, rows, each * columns};
  TRY(op_expect_dtype(a->out, "out", DTYPES_FLOAT_TO_32));
  TRY(op_expect_shape(a->out, "out", groups > 1 ? split : plain, 3));
  const view out = view_of(a->out);
  product_operator *o = PLAN(e, product_operator);
  *o = (product_operator){.product = {.alpha = 1, .n_batch_dims = 2, .batch_dims = {groups, each}},
                          .a = TRANSPOSE_BATCH_MATMUL_X1,
                          .b = TRANSPOSE_BATCH_MATMUL_X2,
                          .out = TRANSPOSE_BATCH_MATMUL_OUT};
  o->product.a = transpose_batch_factor(&x1, each);
  o->product.b = transpose_batch_factor(&x2, each);
  o->product.out =
      (matrices){.dtype = out.dtype,
                 .rows = rows,
                 .cols = columns,
                 .row_stride = out.strides[groups > 1],
                 .col_stride = out.strides[2],
                 .batch_strides = {out.strides[0], groups > 1 ? columns * out.strides[2] : out.strides[1]}};
  if (e->op->variant == TRANSPOSE_BATCH_MATMUL_WEIGHT_NZ) return blocked_product_finish(e, a->x2, "x2");
  product_plan_finish(e);
  return ST_OK;
}
