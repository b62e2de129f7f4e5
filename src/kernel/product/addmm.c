/* SPDX-License-Identifier: Apache-2.0 */
/* out = beta * self + alpha * GEMM, for matrices, stacks of matrices, sums over a stack, and a matrix with a vector;
 * also Gemm, and MatMul called by name (ops/graph.aclop). In-place variants have no `out` in the schema: the result is
 * written to self, which must then have the shape of the product. */
#include "kernel/families.h"
#include "kernel/product/blocked_product.h"
#include "kernel/product/factor/factors.h"
#include "kernel/product/integer_product.h"

static status real_of(const scalar *s, const char *name, double *value) {
  EXPECT(dtype_class_of(s->dtype) >= CLASS_BOOL && dtype_class_of(s->dtype) <= CLASS_FLOAT,
         "%s has dtype %s, expected a real number", name, dtype_name(s->dtype));
  *value = scalar_real(s);
  return ST_OK;
}

/* Describes self broadcast to the result's dims: leading batch dimensions, then those of the matrix (one dimension
 * where the result is a column). */
static status self_matrices(const tensor *self, const char *name, const int64_t *dims, int rank, const product_plan *p,
                            matrices *x) {
  view v;
  view_init(&v, self);
  int64_t strides[MAX_RANK] = {0};
  bool fits = v.rank <= rank;
  for (int d = 0; fits && d < v.rank; ++d) {
    const int to = rank - v.rank + d;
    fits = v.dims[d] == dims[to] || v.dims[d] == 1;
    if (v.dims[d] != 1) strides[to] = v.strides[d];
  }
  EXPECT(fits, "%s has shape %s, expected one that broadcasts to %s", name, SHAPE_OF(&v), DIMS_TEXT(dims, rank));
  int d = 0;
  *x = (matrices){.dtype = self->dtype, .rows = p->a.rows, .cols = p->b.cols};
  for (; d < p->n_batch_dims; ++d) x->batch_strides[d] = strides[d];
  x->row_stride = strides[d++];
  if (d < rank) x->col_stride = strides[d];
  return ST_OK;
}

/* The stack's first dimension becomes the terms of a sum. */
static void sum_batch(product_plan *p) {
  p->n_terms = p->batch_dims[0];
  p->a_term_stride = p->a.batch_strides[0];
  p->b_term_stride = p->b.batch_strides[0];
  p->n_batch_dims = 0;
  if (p->n_terms == 0) p->a.cols = p->b.rows = 0;
}

/* What distinguishes the operators. Arguments 0 to 2 are self and the two factors. */
typedef struct {
  const tensor *out;
  const char *out_name;
  int ranks[2]; /* ranks of the factors */
  /* whether the factors' first dimension is summed over, and which factor may broadcast it */
  bool sums_batch, broadcasts_first, broadcasts_second;
  /* whether NaN of the product counts when alpha is 0; if not, the product is skipped then, as in CANN */
  bool adds_product_times_0;
  uint64_t types;
} sum_form;

static status expect_stacks(const executor *e, const sum_form *f, const tensor *a, const tensor *b, product_plan *p) {
  const bool broadcasts = factors_broadcast_batch(a, b, p);
  const int64_t n = p->batch_dims[0];
  if (broadcasts &&
      (p->n_batch_dims == 0 || ((a->dims[0] == n || f->broadcasts_first) && (b->dims[0] == n || f->broadcasts_second))))
    return ST_OK;
  return factors_fail(e, 1, a, b,
                      f->broadcasts_first    ? "first dimensions that broadcast"
                      : f->broadcasts_second ? "the same first dimension, or 1 in the second"
                                             : "the same first dimension");
}

/* Fills in the call's plan, up to what product_plan_finish does. in: self and the factors, which are the first
 * operands. */
static status addmm_plan(executor *e, const tensor *const *in, const sum_form *f, double alpha, double beta) {
  const tensor *self = in[0], *first = in[1], *second = in[2];
  product_operator *o = PLAN(e, product_operator);
  const bool in_place = f->out == self;
  *o = (product_operator){.product = {.alpha = alpha, .beta = beta, .has_self = true}, .self = 0, .a = 1, .b = 2};
  o->out = in_place ? 0 : 3;
  product_plan *p = &o->product;
  for (int i = 0; i <= 2; ++i) TRY(op_expect_dtype(in[i], e->operands[i].name, f->types));
  TRY(op_expect_dtype(f->out, f->out_name, f->types & ~DTYPE_BIT(ACL_BOOL)));
  for (int i = 1; i <= 2; ++i) TRY(op_expect_rank(in[i], e->operands[i].name, f->ranks[i - 1], f->ranks[i - 1]));
  TRY(expect_stacks(e, f, first, second, p));
  matrices_init(&p->a, first, true, p->n_batch_dims);
  matrices_init(&p->b, second, false, p->n_batch_dims);
  if (p->a.cols != p->b.rows)
    return factors_fail(e, 1, first, second, "as many columns of the first as rows of the second");
  int64_t dims[3] = {p->batch_dims[0]};
  if (f->sums_batch) sum_batch(p);
  if (alpha == 0 && !f->adds_product_times_0) p->a.cols = p->b.rows = 0;
  int rank = p->n_batch_dims;
  dims[rank++] = p->a.rows;
  if (f->ranks[1] > 1) dims[rank++] = p->b.cols;
  TRY(self_matrices(self, e->operands[0].name, dims, rank, p, &p->self));
  TRY(op_expect_shape(f->out, f->out_name, dims, rank));
  factors_out_matrices(f->out, true, f->ranks[1] > 1, p);
  return ST_OK;
}

status prepare_addmm(executor *e, const addmm_args *a) {
  const bool in_place = !a->out, sums = e->op->variant == ADDMM_SUM, stacks = sums || e->op->variant == ADDMM_BATCH;
  const int rank = stacks ? 3 : 2;
  double alpha, beta;
  TRY(real_of(a->beta, "beta", &beta));
  TRY(real_of(a->alpha, "alpha", &alpha));
  TRY(factors_check_cube_math(a->cube_math_type, 4));
  const sum_form f = {.out = in_place ? a->self : a->out,
                      .out_name = in_place ? a->name.self : "out",
                      .ranks = {rank, rank},
                      .sums_batch = sums,
                      .broadcasts_first = sums,
                      .broadcasts_second = sums || !in_place,
                      .adds_product_times_0 = e->op->variant == ADDMM_BATCH,
                      .types = DTYPES_FLOAT};
  TRY(addmm_plan(e, (const tensor *const[]){a->self, a->mat1, a->mat2}, &f, alpha, beta));
  EXPECT(!stacks || (a->self->n == 0) == (f.out->n == 0),
         "%s has shape %s, expected elements where the product, %s, has some, and only there", a->name.self,
         SHAPE_OF(a->self), SHAPE_OF(f.out));
  if (e->op->variant == ADDMM_WEIGHT_NZ) return blocked_product_finish(e, a->mat2, "mat2");
  product_plan_finish(e);
  return ST_OK;
}

/* The dtype of a tensor of this dtype times a scalar; multiplication by 1 keeps the dtype. */
static int scaled_dtype(int dtype, const scalar *by) {
  return scalar_real(by) == 1 ? dtype : dtype_promote(dtype, by->dtype);
}

/* Integers wrap first in the promoted type of mat and vec, then in the
 * type of the sum. */
status prepare_addmv(executor *e, const addmv_args *a) {
  const tensor *self = a->self, *out = a->out;
  const scalar *alpha = a->alpha, *beta = a->beta;
  double alpha_real, beta_real;
  TRY(real_of(alpha, "alpha", &alpha_real));
  TRY(real_of(beta, "beta", &beta_real));
  TRY(factors_check_cube_math(a->cube_math_type, 4));
  TRY(addmm_plan(e, (const tensor *const[]){self, a->mat, a->vec},
                 &(sum_form){.out = out, .out_name = "out", .ranks = {2, 1}, .types = DTYPES_REAL}, alpha_real,
                 beta_real));
  EXPECT(alpha_real != 0 || self->rank == 0 || self->dims[0] == out->dims[0],
         "self has shape %s, expected [%jd], out's, as alpha is 0", SHAPE_OF(self), (intmax_t)out->dims[0]);
  const int product = dtype_promote(a->mat->dtype, a->vec->dtype);
  const int sum = dtype_promote(scaled_dtype(product, alpha), scaled_dtype(self->dtype, beta));
  EXPECT(dtype_can_cast(sum, out->dtype),
         "out has dtype %s, expected one that %s, which is computed in, can be cast to", dtype_name(out->dtype),
         dtype_name(sum));
  if (dtype_is_float(product))
    product_plan_finish(e);
  else
    integer_product_plan(e, (integer_steps){product, sum}, alpha, beta);
  return ST_OK;
}

static matrices transposed(matrices x) {
  const matrices y = x;
  x.rows = y.cols, x.row_stride = y.col_stride;
  x.cols = y.rows, x.col_stride = y.row_stride;
  return x;
}

/* out = alpha * op(A) op(B) + beta * C */
status prepare_gemm(executor *e, const gemm_args *a) {
  const tensor *out = a->out;
  product_operator *o = PLAN(e, product_operator);
  *o = (product_operator){.product = {.alpha = a->alpha, .beta = a->beta, .has_self = true}};
  o->a = GEMM_A, o->b = GEMM_B, o->self = GEMM_C, o->out = GEMM_OUT;
  product_plan *p = &o->product;
  TRY(op_expect_dtype(a->a, "A", DTYPES_FLOAT));
  TRY(op_expect_dtype(a->b, "B", DTYPES_FLOAT));
  TRY(op_expect_dtype(a->c, "C", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, "out", DTYPES_FLOAT));
  TRY(op_expect_rank(a->a, "A", 2, 2));
  TRY(op_expect_rank(a->b, "B", 2, 2));
  TRY(factors_check_cube_math(a->cube_math_type, 4));
  matrices_init(&p->a, a->a, true, 0);
  matrices_init(&p->b, a->b, false, 0);
  if (a->trans_a) p->a = transposed(p->a);
  if (a->trans_b) p->b = transposed(p->b);
  if (p->a.cols != p->b.rows)
    return factors_fail(e, 0, a->a, a->b,
                        "as many columns of the first as rows of the second, after transA and transB");
  const int64_t dims[] = {p->a.rows, p->b.cols};
  TRY(self_matrices(a->c, "C", dims, 2, p, &p->self));
  TRY(op_expect_shape(out, "out", dims, 2));
  factors_out_matrices(out, true, true, p);
  product_plan_finish(e);
  return ST_OK;
}

/* MatMul, BatchMatMul and the like called by name. The offsets are for quantised factors and are not supported. y may
 * lack a last dimension of 1, as in op-plugin's matrix-vector product. */
status prepare_graph_matmul(executor *e, const graph_matmul_args *a) {
  const tensor *const factors[] = {a->x1, a->x2}, *bias = a->bias, *out = a->y;
  product_operator *o = PLAN(e, product_operator);
  *o = (product_operator){.product = {.alpha = 1, .beta = 1, .has_self = bias}};
  o->a = GRAPH_MATMUL_X1, o->b = GRAPH_MATMUL_X2, o->self = GRAPH_MATMUL_BIAS, o->out = (uint16_t)a->view.y;
  product_plan *p = &o->product;
  EXPECT(!a->offset_w, "offset_w is there, expected %s", "none");
  EXPECT(a->offset_x == 0, "offset_x is %jd, expected 0", (intmax_t)a->offset_x);
  const bool integers = a->x1->dtype == ACL_INT32 && !bias;
  const uint64_t types = integers ? DTYPE_BIT(ACL_INT32) : DTYPES_FLOAT;
  TRY(op_expect_dtype(a->x1, "x1", types));
  TRY(op_expect_dtype(a->x2, "x2", types));
  if (bias) TRY(op_expect_dtype(bias, "bias", types));
  TRY(op_expect_dtype(out, a->name.y, types));
  for (int i = 0; i < 2; ++i)
    EXPECT(factors[i]->rank >= 2, "x%d has shape %s, expected 2 or more dimensions", i + 1, SHAPE_OF(factors[i]));
  if (!factors_broadcast_batch(a->x1, a->x2, p))
    return factors_fail(e, 0, a->x1, a->x2, "batch dimensions that broadcast");
  matrices_init(&p->a, a->x1, true, p->n_batch_dims);
  matrices_init(&p->b, a->x2, false, p->n_batch_dims);
  if (a->transpose_x1) p->a = transposed(p->a);
  if (a->transpose_x2) p->b = transposed(p->b);
  if (p->a.cols != p->b.rows)
    return factors_fail(e, 0, a->x1, a->x2, "as many columns of the first as rows of the second, transposed as asked");
  int64_t dims[MAX_RANK];
  int rank = p->n_batch_dims;
  for (int d = 0; d < rank; ++d) dims[d] = p->batch_dims[d];
  dims[rank++] = p->a.rows;
  dims[rank++] = p->b.cols;
  if (bias) TRY(self_matrices(bias, "bias", dims, rank, p, &p->self));
  const bool has_cols = p->b.cols != 1 || out->rank == rank;
  TRY(op_expect_shape(out, "y", dims, rank - !has_cols));
  factors_out_matrices(out, true, has_cols, p);
  if (integers)
    integer_matrices_plan(e);
  else
    product_plan_finish(e);
  return ST_OK;
}

status prepare_matmul_epilogue(executor *e, const matmul_epilogue_args *a) {
  const tensor *const in[] = {a->self, a->mat2, a->bias, a->residual};
  static const char *const names[] = {"self", "mat2", "bias", "residual"};
  product_operator *o = PLAN(e, product_operator);
  EXPECT(a->activation >= 0 && a->activation < N_ACTIVATIONS, "activation is %jd, expected 0 to %d",
         (intmax_t)a->activation, N_ACTIVATIONS - 1);
  *o = (product_operator){.product = {.alpha = 1,
                                      .beta = 1,
                                      .has_self = a->bias,
                                      .activation = {(activation_function)a->activation, {(float)a->p, (float)a->q}},
                                      .has_residual = a->residual,
                                      .residual_first = a->residual_first},
                          .a = MATMUL_EPILOGUE_SELF,
                          .b = MATMUL_EPILOGUE_MAT2,
                          .self = MATMUL_EPILOGUE_BIAS,
                          .residual = MATMUL_EPILOGUE_RESIDUAL,
                          .out = MATMUL_EPILOGUE_OUT};
  product_plan *p = &o->product;
  for (int i = 0; i < 4; ++i)
    if (in[i]) TRY(op_expect_dtype(in[i], names[i], DTYPES_FLOAT));
  TRY(op_expect_dtype(a->out, "out", DTYPES_FLOAT));
  for (int i = 0; i < 2; ++i) TRY(op_expect_rank(in[i], names[i], 2, MAX_RANK));
  if (!factors_broadcast_batch(a->self, a->mat2, p))
    return factors_fail(e, 0, a->self, a->mat2, "batch dimensions that broadcast");
  matrices_init(&p->a, a->self, true, p->n_batch_dims);
  matrices_init(&p->b, a->mat2, false, p->n_batch_dims);
  if (p->a.cols != p->b.rows)
    return factors_fail(e, 0, a->self, a->mat2, "as many columns of the first as rows of the second");
  int64_t dims[MAX_RANK];
  int rank = p->n_batch_dims;
  for (int d = 0; d < rank; ++d) dims[d] = p->batch_dims[d];
  dims[rank++] = p->a.rows;
  dims[rank++] = p->b.cols;
  if (a->bias) TRY(self_matrices(a->bias, "bias", dims, rank, p, &p->self));
  if (a->residual) TRY(self_matrices(a->residual, "residual", dims, rank, p, &p->residual));
  TRY(op_expect_shape(a->out, "out", dims, rank));
  factors_out_matrices(a->out, true, true, p);
  product_plan_finish(e);
  return ST_OK;
}
