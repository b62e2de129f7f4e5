/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM fused with AllReduce, AllGather or ReduceScatter: MatmulAllReduce, its quantised forms, and those that end in
 * AddRmsNorm; AllGatherMatmul; MatmulReduceScatter. Partial products have the dtype of the result, and are added in
 * float by the collective. Each rank adds its own bias and x3, so the sum has those of all ranks. */
#include <string.h>

#include "kernel/families.h"
#include "op/fused.h"

/* ---- the operators of the steps ---------------------------------------------------------------------------------- */

static const arg_schema product_schema[] = {FUSED_INPUT("x1"),
                                            FUSED_INPUT("x2"),
                                            FUSED_OPTIONAL("bias"),
                                            FUSED_OUTPUT("output"),
                                            {"transpose_x1", ARG_BOOL, ARG_READ},
                                            {"transpose_x2", ARG_BOOL, ARG_READ}};
static const arg_schema quant_schema[] = {FUSED_INPUT("x1"),
                                          FUSED_INPUT("x2"),
                                          FUSED_INPUT("dequantScale"),
                                          FUSED_OPTIONAL("offset"),
                                          FUSED_OPTIONAL("pertokenScale"),
                                          FUSED_OPTIONAL("bias"),
                                          {"transposeX1", ARG_BOOL, ARG_READ},
                                          {"transposeX2", ARG_BOOL, ARG_READ},
                                          FUSED_OUTPUT("output")};
static const arg_schema weight_quant_schema[] = {FUSED_INPUT("x1"),
                                                 FUSED_INPUT("x2"),
                                                 FUSED_INPUT("antiquantScale"),
                                                 FUSED_OPTIONAL("antiquantOffset"),
                                                 FUSED_OPTIONAL("quantScale"),
                                                 FUSED_OPTIONAL("quantOffset"),
                                                 FUSED_OPTIONAL("bias"),
                                                 FUSED_NUMBER("antiquantGroupSize"),
                                                 FUSED_OUTPUT("output")};
static const arg_schema add_schema[] = {FUSED_INPUT("output"), FUSED_INPUT("x3"), FUSED_OUTPUT("output")};
static const arg_schema add_rms_norm_schema[] = {
    FUSED_INPUT("sum"),      FUSED_INPUT("residual"), FUSED_INPUT("gamma"), {"epsilon", ARG_FLOAT, ARG_READ},
    FUSED_OUTPUT("normOut"), FUSED_OUTPUT("rstd"),    FUSED_OUTPUT("y")};

static op product_op = FUSED_OPERATOR("Matmul", prepare_graph_matmul, 0, product_schema);
static op quant_op = FUSED_OPERATOR("QuantMatmul", prepare_quant_matmul, 0, quant_schema);
static op weight_quant_op = FUSED_OPERATOR("WeightQuantMatmul", prepare_weight_quant, 0, weight_quant_schema);
static op add_op = FUSED_OPERATOR("Add", prepare_graph_sum, EW_add, add_schema);
static op add_rms_norm_op = FUSED_OPERATOR("AddRmsNorm", prepare_add_rms_norm, ADD_RMS_NORM, add_rms_norm_schema);

/* ---- arguments --------------------------------------------------------------------------------------------------- */

enum { X1, X2 }; /* the first arguments of all of these operators */

/* The dimensions of the product that a rank computes: [m, k] x [k, n]. */
typedef struct {
  int64_t m, k, n;
  tensor x1, x2; /* with two dimensions each */
} factors;

static const uint64_t HALVES = DTYPE_BIT(ACL_FLOAT16) | DTYPE_BIT(ACL_BF16);

static const tensor *matmul_argument(const executor *e, const op_arg *a, const char *name) {
  const int index = fused_find(e->op, name);
  return index < 0 ? NULL : a[index].tensor;
}

/* The same for a step; *room: where it is put. NULL: it is absent. */
static const tensor *matmul_operand(const executor *e, const op_arg *a, const char *name, tensor *room) {
  const int index = fused_find(e->op, name);
  if (index < 0 || !a[index].tensor) return NULL;
  *room = fused_operand(e, a, index);
  return room;
}

static status matmul_expect_sum(const executor *e, const op_arg *a) {
  const char *reduction = a[fused_find(e->op, "reduceOp")].string;
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
static status matmul_factors(const executor *e, const op_arg *a, int most_dims, factors *f) {
  const tensor *x1 = a[X1].tensor, *x2 = a[X2].tensor;
  char text[SHAPE_TEXT];
  EXPECT(x1->rank >= 2 && x1->rank <= most_dims, "x1 has shape %s, expected 2%s dimensions",
         shape_text(x1->dims, x1->rank, text), most_dims > 2 ? " or 3" : "");
  EXPECT(x2->rank == 2, "x2 has shape %s, expected 2 dimensions", shape_text(x2->dims, x2->rank, text));
  f->k = x1->dims[x1->rank - 1];
  f->m = 1;
  for (int d = 0; d + 1 < x1->rank; ++d) f->m *= x1->dims[d];
  f->n = x2->dims[1];
  EXPECT(x2->dims[0] == f->k, "x2 has shape %s, expected %jd rows, as many as x1 has columns",
         shape_text(x2->dims, x2->rank, text), (intmax_t)f->k);
  f->x1 = fused_operand(e, a, X1);
  f->x2 = fused_operand(e, a, X2);
  if (x1->rank == 2) return ST_OK;
  TRY(matmul_expect_dense(x1, "x1"));
  f->x1 = fused_reshaped(&f->x1, (const int64_t[]){f->m, f->k}, 2);
  return ST_OK;
}

typedef enum { PLAIN, QUANT, WEIGHT_QUANT } product_form;

static product_form matmul_form(const op *o) {
  return fused_find(o, "dequantScale") >= 0 ? QUANT : fused_find(o, "antiquantScale") >= 0 ? WEIGHT_QUANT : PLAIN;
}

/* Checks the dtypes of factors and bias. */
static status matmul_expect_types(const executor *e, const op_arg *a) {
  const product_form form = matmul_form(e->op);
  const tensor *bias = matmul_argument(e, a, "bias");
  TRY(op_expect_dtype(a[X1].tensor, "x1", form == QUANT ? DTYPE_BIT(ACL_INT8) : HALVES));
  const int x1 = a[X1].tensor->dtype, x2 = form == PLAIN ? x1 : ACL_INT8, added = form == QUANT ? ACL_INT32 : x1;
  EXPECT(a[X2].tensor->dtype == x2, "x2 has dtype %s, expected %s", dtype_name(a[X2].tensor->dtype), dtype_name(x2));
  EXPECT(!bias || bias->dtype == added, "bias has dtype %s, expected %s", dtype_name(bias->dtype), dtype_name(added));
  return ST_OK;
}

/* ---- the product ------------------------------------------------------------------------------------------------- */

status fused_add_sum(executor *e, const tensor *to, const tensor *addend) {
  const op_arg a[] = {{.tensor = to}, {.tensor = addend}, {.tensor = to}};
  return fused_add_operator(e, &add_op, a);
}

status fused_add_product(executor *e, const tensor *x1, const tensor *x2, const tensor *bias, const tensor *out) {
  const op_arg a[] = {{.tensor = x1}, {.tensor = x2}, {.tensor = bias}, {.tensor = out}, {0}, {0}};
  return fused_add_operator(e, &product_op, a);
}

static status matmul_add_quant(executor *e, const op_arg *a, const factors *f, const tensor *bias, const tensor *out) {
  tensor scale, row_scale;
  const op_arg step[] = {{.tensor = &f->x1},
                         {.tensor = &f->x2},
                         {.tensor = matmul_operand(e, a, "dequantScale", &scale)},
                         {.tensor = NULL},
                         {.tensor = matmul_operand(e, a, "pertokenScale", &row_scale)},
                         {.tensor = bias},
                         {.boolean = false},
                         {.boolean = false},
                         {.tensor = out}};
  return fused_add_operator(e, &quant_op, step);
}

static status matmul_add_weight_quant(executor *e, const op_arg *a, const factors *f, const tensor *bias,
                                      const tensor *out) {
  tensor scale, offset;
  const op_arg step[] = {{.tensor = &f->x1},
                         {.tensor = &f->x2},
                         {.tensor = matmul_operand(e, a, "antiquantScale", &scale)},
                         {.tensor = matmul_operand(e, a, "antiquantOffset", &offset)},
                         {.tensor = NULL},
                         {.tensor = NULL},
                         {.tensor = bias},
                         {.integer = a[fused_find(e->op, "antiquantGroupSize")].integer},
                         {.tensor = out}};
  EXPECT(out->dtype == f->x1.dtype, "the result has dtype %s, expected %s, that of x1", dtype_name(out->dtype),
         dtype_name(f->x1.dtype));
  return fused_add_operator(e, &weight_quant_op, step);
}

/* Adds the step x1 @ x2 + bias, in whichever form the operator has. out: [m, n]. */
static status matmul_add_product(executor *e, const op_arg *a, const factors *f, const tensor *out) {
  tensor room;
  const tensor *bias = matmul_operand(e, a, "bias", &room);
  if (bias) TRY(op_expect_shape(bias, "bias", &f->n, 1));
  switch (matmul_form(e->op)) {
  case QUANT: return matmul_add_quant(e, a, f, bias, out);
  case WEIGHT_QUANT: return matmul_add_weight_quant(e, a, f, bias, out);
  default: return fused_add_product(e, &f->x1, &f->x2, bias, out);
  }
}

/* ---- AllReduce --------------------------------------------------------------------------------------------------- */

/* output = AllReduce(product + x3) */
static status matmul_plan_output(executor *e, const op_arg *a, const factors *f, comm *c) {
  const int at = fused_find(e->op, "output");
  const tensor *x1 = a[X1].tensor, *given = a[at].tensor;
  tensor output = fused_operand(e, a, at), room;
  const tensor *x3 = matmul_operand(e, a, "x3", &room);
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
  TRY(matmul_add_product(e, a, f, &product));
  if (x3) TRY(fused_add_sum(e, &output, x3));
  return fused_add_collective(e, c, COMM_ALL_REDUCE, &output, &output, given->n);
}

/* y = AllReduce(product) + residual; normOut = RmsNorm(y) * gamma. In the in-place forms y is residual. */
static status matmul_plan_norm(executor *e, const op_arg *a, const factors *f, comm *c) {
  const bool in_place = fused_find(e->op, "y") < 0;
  const char *const names[] = {"residual", in_place ? "residual" : "y", "normOut"};
  const int64_t dims[] = {f->m, f->n}, row_dims[] = {f->m, 1};
  const tensor *residual = matmul_argument(e, a, "residual");
  tensor rows[3], gamma;
  char text[SHAPE_TEXT];
  EXPECT(residual->rank >= 2 && residual->rank <= 3 && residual->dims[residual->rank - 1] == f->n &&
             residual->n == f->m * f->n,
         "residual has shape %s, expected [.., %jd] with %jd rows, as x1 @ x2 has",
         shape_text(residual->dims, residual->rank, text), (intmax_t)f->n, (intmax_t)f->m);
  TRY(op_expect_dtype(residual, "residual", HALVES));
  for (int i = 0; i < 3; ++i) {
    const int at = fused_find(e->op, names[i]);
    TRY(matmul_expect(a[at].tensor, names[i], residual->dtype, residual->dims, residual->rank));
    rows[i] = fused_operand(e, a, at);
    rows[i] = fused_reshaped(&rows[i], dims, 2);
  }
  matmul_operand(e, a, "gamma", &gamma);
  TRY(op_expect_shape(&gamma, "gamma", &f->n, 1));
  if (!residual->n) return ST_OK;
  const tensor product = fused_temporary(e, residual->dtype, dims, 2),
               rstd = fused_temporary(e, ACL_FLOAT, row_dims, 2);
  TRY(matmul_add_product(e, a, f, &product));
  TRY(fused_add_collective(e, c, COMM_ALL_REDUCE, &product, &product, product.n));
  const op_arg norm[] = {
      {.tensor = &product}, {.tensor = &rows[0]}, {.tensor = &gamma},  {.real = a[fused_find(e->op, "epsilon")].real},
      {.tensor = &rows[2]}, {.tensor = &rstd},    {.tensor = &rows[1]}};
  return fused_add_operator(e, &add_rms_norm_op, norm);
}

/* The operators differ in which of these arguments they have: bias, x3, dequantScale and pertokenScale, or
 * antiquantScale, antiquantOffset and antiquantGroupSize; and output, or residual, gamma, epsilon, [y,] normOut. */
status prepare_matmul_all_reduce(executor *e, const op_arg *a) {
  factors f;
  comm *c;
  TRY(fused_begin(e));
  TRY(matmul_factors(e, a, 3, &f));
  TRY(matmul_expect_types(e, a));
  TRY(matmul_expect_sum(e, a));
  TRY(fused_group(e, a, fused_find(e->op, "group"), &c));
  return fused_find(e->op, "residual") < 0 ? matmul_plan_output(e, a, &f, c) : matmul_plan_norm(e, a, &f, c);
}

/* ---- AllGather, ReduceScatter ------------------------------------------------------------------------------------ */

/* x1, x2, bias, group, gatherIndex, commTurn, streamMode, output, gatherOut: output = AllGather(x1) @ x2 + bias. The
 * rows of x1 are gathered in the order of ranks, in gatherOut or, where that is absent or empty, in the workspace. */
status prepare_all_gather_matmul(executor *e, const op_arg *a) {
  enum { GROUP = 3, GATHER_INDEX, OUTPUT_AT = 7, GATHER_OUT };
  const tensor *gather_out = a[GATHER_OUT].tensor;
  factors f;
  comm *c;
  TRY(fused_begin(e));
  TRY(matmul_factors(e, a, 2, &f));
  TRY(matmul_expect_types(e, a));
  EXPECT(a[GATHER_INDEX].integer == 0, "gatherIndex is %jd, expected 0", (intmax_t)a[GATHER_INDEX].integer);
  TRY(matmul_expect_dense(a[X1].tensor, "x1"));
  TRY(fused_group(e, a, GROUP, &c));
  const int64_t m = f.m * comm_n_ranks(c), gathered_dims[] = {m, f.k}, dims[] = {m, f.n};
  const int dtype = a[X1].tensor->dtype;
  const tensor output = fused_operand(e, a, OUTPUT_AT), x1 = f.x1;
  EXPECT(output.dtype == dtype, "output has dtype %s, expected %s, that of x1", dtype_name(output.dtype),
         dtype_name(dtype));
  TRY(op_expect_shape(&output, "output", dims, 2));
  const bool is_wanted = gather_out && (gather_out->n || gather_out->rank == 2);
  if (is_wanted) TRY(matmul_expect(gather_out, "gatherOut", dtype, gathered_dims, 2));
  f.x1 = is_wanted ? fused_operand(e, a, GATHER_OUT) : fused_temporary(e, dtype, gathered_dims, 2);
  TRY(fused_add_collective(e, c, COMM_ALL_GATHER, &x1, &f.x1, f.m * f.k));
  return output.n ? matmul_add_product(e, a, &f, &output) : ST_OK;
}

/* x1, x2, bias, group, reduceOp, commTurn, streamMode, output: output = ReduceScatter(x1 @ x2 + bias), by rows. */
status prepare_matmul_reduce_scatter(executor *e, const op_arg *a) {
  enum { GROUP = 3, OUTPUT_AT = 7 };
  factors f;
  comm *c;
  TRY(fused_begin(e));
  TRY(matmul_factors(e, a, 2, &f));
  TRY(matmul_expect_types(e, a));
  TRY(matmul_expect_sum(e, a));
  TRY(fused_group(e, a, GROUP, &c));
  const int64_t n_ranks = comm_n_ranks(c), dims[] = {f.m, f.n}, part_dims[] = {f.m / n_ranks, f.n};
  EXPECT(f.m % n_ranks == 0, "x1 has %jd rows, expected a multiple of %jd, the number of ranks", (intmax_t)f.m,
         (intmax_t)n_ranks);
  TRY(matmul_expect(a[OUTPUT_AT].tensor, "output", a[X1].tensor->dtype, part_dims, 2));
  if (!a[OUTPUT_AT].tensor->n) return ST_OK;
  const tensor product = fused_temporary(e, a[X1].tensor->dtype, dims, 2), output = fused_operand(e, a, OUTPUT_AT);
  TRY(matmul_add_product(e, a, &f, &product));
  return fused_add_collective(e, c, COMM_REDUCE_SCATTER, &product, &output, output.n);
}
