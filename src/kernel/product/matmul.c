/* SPDX-License-Identifier: Apache-2.0 */
/* Matmul, Mm, BatchMatMul, Mv and Dot: checks the arguments and describes them as stacks of matrices;
 * kernel/product/product.h does the rest. The private format FRACTAL_NZ needs no treatment here, but in the operators
 * whose names end in WeightNz: a tensor's strides say how it is stored. */
#include "kernel/families.h"
#include "kernel/product/blocked_product.h"
#include "kernel/product/factor/factors.h"
#include "kernel/product/integer_product.h"

status factors_fail(const executor *e, int a_at, const tensor *a, const tensor *b, const char *what) {
  return OP_FAIL("%s has shape %s and %s %s, expected %s", e->operands[a_at].name, SHAPE_OF(a),
                 e->operands[a_at + 1].name, SHAPE_OF(b), what);
}

void matrices_init(matrices *x, const tensor *t, bool left, int n_batch_dims) {
  const int64_t size = (int64_t)dtype_bytes(t->dtype);
  const int r = t->rank, missing = n_batch_dims - (r - 2);
  x->dtype = t->dtype;
  x->rows = x->cols = 1;
  x->row_stride = x->col_stride = 0;
  if (r >= 2 || left) x->cols = t->dims[r - 1], x->col_stride = t->strides[r - 1] * size;
  if (r >= 2) x->rows = t->dims[r - 2], x->row_stride = t->strides[r - 2] * size;
  if (r == 1 && !left) x->rows = t->dims[0], x->row_stride = t->strides[0] * size;
  for (int d = 0; d < n_batch_dims; ++d)
    x->batch_strides[d] = d < missing || t->dims[d - missing] == 1 ? 0 : t->strides[d - missing] * size;
}

bool factors_broadcast_batch(const tensor *a, const tensor *b, product_plan *p) {
  const int na = a->rank > 2 ? a->rank - 2 : 0, nb = b->rank > 2 ? b->rank - 2 : 0;
  const int n = p->n_batch_dims = na > nb ? na : nb;
  for (int d = 0; d < n; ++d) {
    const int64_t x = d < n - na ? 1 : a->dims[d - (n - na)], y = d < n - nb ? 1 : b->dims[d - (n - nb)];
    if (x != y && x != 1 && y != 1) return false;
    p->batch_dims[d] = x == 1 ? y : x;
  }
  return true;
}

void factors_out_matrices(const tensor *out, bool has_rows, bool has_cols, product_plan *p) {
  const int64_t size = (int64_t)dtype_bytes(out->dtype);
  matrices *const x = &p->out;
  int d = p->n_batch_dims;
  x->dtype = out->dtype;
  x->rows = p->a.rows;
  x->cols = p->b.cols;
  for (int i = 0; i < d; ++i) x->batch_strides[i] = out->strides[i] * size;
  x->row_stride = has_rows ? out->strides[d++] * size : 0;
  x->col_stride = has_cols ? out->strides[d] * size : 0;
}

status prepare_matmul(executor *e, const matmul_args *a) {
  static const struct {
    int8_t ranks[2]; /* -1: any */
    bool has_cube_math, blocked;
  } forms[] = {[MATMUL_MM] = {{2, 2}, true, false},
               [MATMUL_ANY] = {{-1, -1}, true, false},
               [MATMUL_BATCH] = {{3, 3}, true, false},
               [MATMUL_WEIGHT_NZ] = {{2, 2}, true, true},
               [MATMUL_BATCH_WEIGHT_NZ] = {{3, 3}, true, true},
               [MATMUL_MV] = {{2, 1}, true, false},
               [MATMUL_DOT] = {{1, 1}, false, false}};
  const tensor *self = a->self, *mat2 = a->mat2, *out = a->out;
  const tensor *const factors[] = {self, mat2};
  const char *const names[] = {"self", a->name.mat2};
  const bool integers = e->op->variant == MATMUL_DOT && dtype_is_integer(self->dtype);
  const uint64_t types = integers ? DTYPE_BIT(self->dtype) : DTYPES_FLOAT;
  product_operator *o = PLAN(e, product_operator);
  *o = (product_operator){.product = {.alpha = 1}, .a = MATMUL_SELF, .b = MATMUL_MAT2, .out = MATMUL_OUT};
  product_plan *p = &o->product;
  for (int i = 0; i < 2; ++i) {
    const int rank = forms[e->op->variant].ranks[i];
    TRY(op_expect_dtype(factors[i], names[i], types));
    if (rank >= 0) TRY(op_expect_rank(factors[i], names[i], rank, rank));
    EXPECT(factors[i]->rank >= 1 && factors[i]->rank <= 6, "%s has %d dimensions, expected 1 to 6", names[i],
           factors[i]->rank);
  }
  TRY(op_expect_dtype(out, "out", types));
  if (e->op->variant == MATMUL_MV || e->op->variant == MATMUL_DOT)
    EXPECT(mat2->dtype == self->dtype && out->dtype == self->dtype, "%s has dtype %s and out %s, expected self's %s",
           names[1], dtype_name(mat2->dtype), dtype_name(out->dtype), dtype_name(self->dtype));
  if (forms[e->op->variant].has_cube_math) TRY(factors_check_cube_math(a->cube_math_type, 4));
  if (!factors_broadcast_batch(self, mat2, p)) return factors_fail(e, 0, self, mat2, "batch dimensions that broadcast");
  matrices_init(&p->a, self, true, p->n_batch_dims);
  matrices_init(&p->b, mat2, false, p->n_batch_dims);
  if (p->a.cols != p->b.rows)
    return factors_fail(e, 0, self, mat2, "as many columns of the first as rows of the second");
  const bool has_rows = self->rank > 1, has_cols = mat2->rank > 1;
  int64_t dims[MAX_RANK];
  int rank = 0;
  for (; rank < p->n_batch_dims; ++rank) dims[rank] = p->batch_dims[rank];
  if (has_rows) dims[rank++] = p->a.rows;
  if (has_cols) dims[rank++] = p->b.cols;
  TRY(op_expect_shape(out, "out", dims, rank));
  factors_out_matrices(out, has_rows, has_cols, p);
  if (forms[e->op->variant].blocked) return blocked_product_finish(e, mat2, "mat2");
  if (integers)
    integer_product_plan(e, (integer_steps){self->dtype, self->dtype}, NULL, NULL);
  else
    product_plan_finish(e);
  return ST_OK;
}
