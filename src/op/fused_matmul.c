/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM fused with AllReduce, AllGather or ReduceScatter: MatmulAllReduce, its quantised forms, and those that end in
 * AddRmsNorm; AllGatherMatmul; MatmulReduceScatter. Partial products have the dtype of the result, and are added in
 * float by the collective. Each rank adds its own bias and x3, so the sum has those of all ranks. */
#include <string.h>

#include "kernel/families.h"
#include "op/fused_steps.h"

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* The numbers of these operands in all of these operators. */
enum { X1 = MATMUL_ALL_REDUCE_X1, X2 = MATMUL_ALL_REDUCE_X2, BIAS = MATMUL_ALL_REDUCE_BIAS };

/* The dimensions of the product that a rank computes: [m, k] x [k, n]. */
typedef struct {
  int64_t m, k, n;
  tensor x1, x2; /* with two dimensions each */
} factors;

static const uint64_t HALVES = DTYPES_HALF;

static status matmul_expect_sum(const char *reduction) {
  if (!reduction) return fail(ST_OP_NULL, "reduceOp is NULL, expected \"sum\"");
  EXPECT(!strcmp(reduction, "sum"), "reduceOp is \"%.64s\", expected \"sum\"", reduction);
  return ST_OK;
}

static status matmul_expect_dense(const tensor *t, const char *name) {
  EXPECT(t->contiguous, "%s has gaps or exchanged dimensions, expected a contiguous tensor", name);
  return ST_OK;
}

/* Checks a tensor that a collective writes or that is seen as a matrix. */
static status matmul_expect(const tensor *t, const char *name, int dtype, const int64_t *dims, int rank) {
  EXPECT(t->dtype == dtype, "%s has dtype %s, expected %s", name, dtype_name(t->dtype), dtype_name(dtype));
  TRY(op_expect_shape(t, name, dims, rank));
  return matmul_expect_dense(t, name);
}

/* Checks the factors; x1 may be a stack of matrices, whose rows are then those of one. */
static status matmul_factors(const tensor *x1, const tensor *x2, int most_dims, factors *f) {
  EXPECT(x1->rank >= 2 && x1->rank <= most_dims, "x1 has shape %s, expected 2%s dimensions", SHAPE_OF(x1),
         most_dims > 2 ? " or 3" : "");
  TRY(op_expect_rank(x2, "x2", 2, 2));
  f->k = x1->dims[x1->rank - 1];
  f->m = 1;
  for (int d = 0; d + 1 < x1->rank; ++d) f->m *= x1->dims[d];
  f->n = x2->dims[1];
  EXPECT(x2->dims[0] == f->k, "x2 has shape %s, expected %jd rows, as many as x1 has columns", SHAPE_OF(x2),
         (intmax_t)f->k);
  f->x1 = fused_operand(x1, X1);
  f->x2 = fused_operand(x2, X2);
  if (x1->rank == 2) return ST_OK;
  TRY(matmul_expect_dense(x1, "x1"));
  f->x1 = fused_reshaped(&f->x1, (const int64_t[]){f->m, f->k}, 2);
  return ST_OK;
}

typedef enum { PLAIN, QUANT, WEIGHT_QUANT } product_form;

/* Checks the dtypes of factors and bias. */
static status matmul_expect_types(product_form form, const tensor *x1, const tensor *x2, const tensor *bias) {
  TRY(op_expect_dtype(x1, "x1", form == QUANT ? DTYPE_BIT(ACL_INT8) : HALVES));
  const int right = form == PLAIN ? x1->dtype : ACL_INT8, added = form == QUANT ? ACL_INT32 : x1->dtype;
  EXPECT(x2->dtype == right, "x2 has dtype %s, expected %s", dtype_name(x2->dtype), dtype_name(right));
  EXPECT(!bias || bias->dtype == added, "bias has dtype %s, expected %s", dtype_name(bias->dtype), dtype_name(added));
  return ST_OK;
}

/* ---- the product ------------------------------------------------------------------------------------------------- */

/* Adds the step x1 @ x2 + bias. out: [m, n]. */
static status matmul_add_product(executor *e, const factors *f, const tensor *bias, const tensor *out) {
  tensor room;
  if (bias) TRY(op_expect_shape(bias, "bias", &f->n, 1));
  return fused_add_Matmul(e, &f->x1, &f->x2, fused_optional(bias, BIAS, &room), out, false, false);
}

static status matmul_add_quant(executor *e, const matmul_all_reduce_args *a, const factors *f, const tensor *bias,
                               const tensor *out) {
  tensor row_scale;
  const tensor scale = fused_operand(a->dequant_scale, a->view.dequant_scale);
  return fused_add_QuantMatmul(e, &f->x1, &f->x2, &scale, NULL,
                               fused_optional(a->pertoken_scale, MATMUL_ALL_REDUCE_PERTOKEN_SCALE, &row_scale), bias,
                               false, false, out);
}

static status matmul_add_weight_quant(executor *e, const matmul_all_reduce_args *a, const factors *f,
                                      const tensor *bias, const tensor *out) {
  tensor offset;
  const tensor scale = fused_operand(a->antiquant_scale, MATMUL_ALL_REDUCE_ANTIQUANT_SCALE);
  EXPECT(out->dtype == f->x1.dtype, "the result has dtype %s, expected %s, that of x1", dtype_name(out->dtype),
         dtype_name(f->x1.dtype));
  return fused_add_WeightQuantMatmul(e, &f->x1, &f->x2, &scale,
                                     fused_optional(a->antiquant_offset, MATMUL_ALL_REDUCE_ANTIQUANT_OFFSET, &offset),
                                     NULL, NULL, bias, a->antiquant_group_size, out);
}

/* ---- AllReduce --------------------------------------------------------------------------------------------------- */

static product_form matmul_form(const matmul_all_reduce_args *a) {
  return a->dequant_scale ? QUANT : a->antiquant_scale ? WEIGHT_QUANT : PLAIN;
}

/* Adds the step x1 @ x2 + bias, in whichever form the operator has. out: [m, n]. */
static status matmul_add_form(executor *e, const matmul_all_reduce_args *a, const factors *f, const tensor *out) {
  tensor room;
  if (matmul_form(a) == PLAIN) return matmul_add_product(e, f, a->bias, out);
  const tensor *bias = fused_optional(a->bias, BIAS, &room);
  if (bias) TRY(op_expect_shape(bias, "bias", &f->n, 1));
  return matmul_form(a) == QUANT ? matmul_add_quant(e, a, f, bias, out) : matmul_add_weight_quant(e, a, f, bias, out);
}

/* output = AllReduce(product + x3) */
static status matmul_plan_output(executor *e, const matmul_all_reduce_args *a, const factors *f, comm *c) {
  const tensor *x1 = a->x1, *given = a->output;
  const tensor output = fused_operand(given, a->view.output);
  tensor room;
  const tensor *x3 = fused_optional(a->x3, a->view.x3, &room);
  int64_t dims[3];
  for (int d = 0; d + 1 < x1->rank; ++d) dims[d] = x1->dims[d];
  dims[x1->rank - 1] = f->n;
  TRY(op_expect_dtype(given, "output", HALVES));
  const int dtype = x1->dtype == ACL_INT8 ? given->dtype : x1->dtype;
  TRY(matmul_expect(given, "output", dtype, dims, x1->rank));
  if (x3) {
    EXPECT(x3->dtype == dtype, "x3 has dtype %s, expected %s, that of output", dtype_name(x3->dtype),
           dtype_name(dtype));
    TRY(op_expect_shape(x3, "x3", dims, x1->rank));
  }
  if (!given->n) return ST_OK;
  const tensor product = fused_reshaped(&output, (const int64_t[]){f->m, f->n}, 2);
  TRY(matmul_add_form(e, a, f, &product));
  if (x3) TRY(fused_add_Add(e, &output, x3));
  return fused_add_collective(e, c, COMM_ALL_REDUCE, &output, &output, given->n);
}

/* y = AllReduce(product) + residual; normOut = RmsNorm(y) * gamma. In the in-place forms y is residual. */
static status matmul_plan_norm(executor *e, const matmul_all_reduce_args *a, const factors *f, comm *c) {
  const tensor *residual = a->residual, *y = a->y ? a->y : residual;
  const int64_t dims[] = {f->m, f->n}, row_dims[] = {f->m, 1};
  EXPECT(residual->rank >= 2 && residual->rank <= 3 && residual->dims[residual->rank - 1] == f->n &&
             residual->n == f->m * f->n,
         "residual has shape %s, expected [.., %jd] with %jd rows, as x1 @ x2 has", SHAPE_OF(residual), (intmax_t)f->n,
         (intmax_t)f->m);
  TRY(op_expect_dtype(residual, "residual", HALVES));
  TRY(matmul_expect(residual, "residual", residual->dtype, residual->dims, residual->rank));
  TRY(matmul_expect(y, a->y ? "y" : "residual", residual->dtype, residual->dims, residual->rank));
  TRY(matmul_expect(a->norm_out, "normOut", residual->dtype, residual->dims, residual->rank));
  TRY(op_expect_shape(a->gamma, "gamma", &f->n, 1));
  if (!residual->n) return ST_OK;
  const tensor residual_at = fused_operand(residual, a->view.residual),
               y_at = fused_operand(y, a->y ? a->view.y : a->view.residual),
               norm_at = fused_operand(a->norm_out, a->view.norm_out), gamma = fused_operand(a->gamma, a->view.gamma);
  const tensor residual_rows = fused_reshaped(&residual_at, dims, 2), y_rows = fused_reshaped(&y_at, dims, 2),
               norm_rows = fused_reshaped(&norm_at, dims, 2);
  const tensor product = fused_temporary(e, residual->dtype, dims, 2),
               rstd = fused_temporary(e, ACL_FLOAT, row_dims, 2);
  TRY(matmul_add_form(e, a, f, &product));
  TRY(fused_add_collective(e, c, COMM_ALL_REDUCE, &product, &product, product.n));
  return fused_add_AddRmsNorm(e, &product, &residual_rows, &gamma, a->epsilon, &norm_rows, &rstd, &y_rows);
}

/* The operators differ in which of these arguments they have: bias, x3, dequantScale and pertokenScale, or
 * antiquantScale, antiquantOffset and antiquantGroupSize; and output, or residual, gamma, epsilon, [y,] normOut. */
status prepare_matmul_all_reduce(executor *e, const matmul_all_reduce_args *a) {
  factors f;
  comm *c;
  TRY(fused_begin(e));
  TRY(matmul_factors(a->x1, a->x2, 3, &f));
  TRY(matmul_expect_types(matmul_form(a), a->x1, a->x2, a->bias));
  EXPECT(!a->comm_quant_scale1 && !a->comm_quant_scale2,
         "%s is a tensor, expected NULL: partial products are not quantised on their way",
         a->comm_quant_scale1 ? "commQuantScale1Optional" : "commQuantScale2Optional");
  TRY(matmul_expect_sum(a->reduce_op));
  TRY(fused_group(e, a->group, "group", &c));
  return a->residual ? matmul_plan_norm(e, a, &f, c) : matmul_plan_output(e, a, &f, c);
}

/* ---- AllGather, ReduceScatter ------------------------------------------------------------------------------------ */

/* output = AllGather(x1) @ x2 + bias. The rows of x1 are gathered in the order of ranks, in gatherOut or, where that is
 * absent or empty, in the workspace. */
status prepare_all_gather_matmul(executor *e, const all_gather_matmul_args *a) {
  const tensor *gather_out = a->gather_out;
  factors f;
  comm *c;
  TRY(fused_begin(e));
  TRY(matmul_factors(a->x1, a->x2, 2, &f));
  TRY(matmul_expect_types(PLAIN, a->x1, a->x2, a->bias));
  EXPECT(a->gather_index == 0, "gatherIndex is %jd, expected 0", (intmax_t)a->gather_index);
  TRY(matmul_expect_dense(a->x1, "x1"));
  TRY(fused_group(e, a->group, "group", &c));
  const int64_t m = f.m * comm_n_ranks(c), gathered_dims[] = {m, f.k}, dims[] = {m, f.n};
  const int dtype = a->x1->dtype;
  const tensor output = fused_operand(a->output, ALL_GATHER_MATMUL_OUTPUT), x1 = f.x1;
  EXPECT(output.dtype == dtype, "output has dtype %s, expected %s, that of x1", dtype_name(output.dtype),
         dtype_name(dtype));
  TRY(op_expect_shape(&output, "output", dims, 2));
  const bool is_wanted = gather_out && (gather_out->n || gather_out->rank == 2);
  if (is_wanted) TRY(matmul_expect(gather_out, "gatherOut", dtype, gathered_dims, 2));
  f.x1 =
      is_wanted ? fused_operand(gather_out, ALL_GATHER_MATMUL_GATHER_OUT) : fused_temporary(e, dtype, gathered_dims, 2);
  TRY(fused_add_collective(e, c, COMM_ALL_GATHER, &x1, &f.x1, f.m * f.k));
  return output.n ? matmul_add_product(e, &f, a->bias, &output) : ST_OK;
}

/* output = ReduceScatter(x1 @ x2 + bias), by rows. */
status prepare_matmul_reduce_scatter(executor *e, const matmul_reduce_scatter_args *a) {
  factors f;
  comm *c;
  TRY(fused_begin(e));
  TRY(matmul_factors(a->x1, a->x2, 2, &f));
  TRY(matmul_expect_types(PLAIN, a->x1, a->x2, a->bias));
  TRY(matmul_expect_sum(a->reduce_op));
  TRY(fused_group(e, a->group, "group", &c));
  const int64_t n_ranks = comm_n_ranks(c), dims[] = {f.m, f.n}, part_dims[] = {f.m / n_ranks, f.n};
  EXPECT(f.m % n_ranks == 0, "x1 has %jd rows, expected a multiple of %jd, the number of ranks", (intmax_t)f.m,
         (intmax_t)n_ranks);
  TRY(matmul_expect(a->output, "output", a->x1->dtype, part_dims, 2));
  if (!a->output->n) return ST_OK;
  const tensor product = fused_temporary(e, a->x1->dtype, dims, 2),
               output = fused_operand(a->output, MATMUL_REDUCE_SCATTER_OUTPUT);
  TRY(matmul_add_product(e, &f, a->bias, &product));
  return fused_add_collective(e, c, COMM_REDUCE_SCATTER, &product, &output, output.n);
}
