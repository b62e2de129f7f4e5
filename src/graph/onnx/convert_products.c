/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices. Einsum has a file of its own. */
#include <string.h>

#include "graph/nodes.h"
#include "graph/onnx/convert.h"

/* The shape of a @ b by NumPy's rules; vectors count as a row and a column, which the result does not have. */
static status product_dims(const ir_value *a, const ir_value *b, int64_t *dims, int *rank) {
  const tensor *x = &a->tensor, *y = &b->tensor;
  ir_value batch_a = *a, batch_b = *b;
  if (!x->rank || !y->rank) return OP_FAIL("an input has no dimensions, expected 1 or more");
  if (x->dims[x->rank - 1] != y->dims[y->rank > 1 ? y->rank - 2 : 0])
    return OP_FAIL("the inner dimensions are %jd and %jd, expected equal ones", (intmax_t)x->dims[x->rank - 1],
                   (intmax_t)y->dims[y->rank > 1 ? y->rank - 2 : 0]);
  batch_a.tensor.rank = (uint8_t)(x->rank > 2 ? x->rank - 2 : 0);
  batch_b.tensor.rank = (uint8_t)(y->rank > 2 ? y->rank - 2 : 0);
  TRY(converter_broadcast((ir_value *[]){&batch_a, &batch_b}, 2, dims, rank));
  if (x->rank > 1) dims[(*rank)++] = x->dims[x->rank - 2];
  if (y->rank > 1) dims[(*rank)++] = y->dims[y->rank - 1];
  return ST_OK;
}

status converter_product(converter *c, ir_value *a, ir_value *b, ir_value **out) {
  int64_t dims[MAX_RANK + 2];
  int rank;
  TRY(product_dims(a, b, dims, &rank));
  TRY(ir_temporary(c->g, a->tensor.dtype, dims, rank, out));
  return node_Matmul(c->g, a, b, *out, 0);
}

static status convert_matmul(converter *c) {
  ir_value *a = converter_input(c, 0), *b = converter_input(c, 1), *y;
  const int dtype = a->tensor.dtype, computed = dtype_is_float(dtype) ? dtype : ACL_DOUBLE; /* exact below 2^53 */
  TRY(ir_cast(c->g, a, computed, &a));
  TRY(ir_cast(c->g, b, computed, &b));
  TRY(converter_product(c, a, b, &y));
  TRY(ir_cast(c->g, y, dtype, &y));
  return converter_output(c, 0, y);
}

/* alpha * A @ B + beta * C */
static status convert_gemm(converter *c) {
  ir_graph *g = c->g;
  ir_value *a = converter_input(c, 0), *b = converter_input(c, 1), *bias = converter_input(c, 2), *y;
  static const int transposed[] = {1, 0};
  if (a->tensor.rank != 2 || b->tensor.rank != 2)
    return OP_FAIL("A and B have %d and %d dimensions, expected 2", a->tensor.rank, b->tensor.rank);
  if (attribute_int(c, "transA", 0)) TRY(ir_permuted(g, a, transposed, &a));
  if (attribute_int(c, "transB", 0)) TRY(ir_permuted(g, b, transposed, &b));
  const scalar *alpha = ir_scalar(g, ACL_FLOAT, attribute_float(c, "alpha", 1));
  const scalar *beta = ir_scalar(g, ACL_FLOAT, attribute_float(c, "beta", 1));
  if (!alpha || !beta) return ST_NO_HOST_MEMORY;
  const int64_t dims[] = {a->tensor.dims[0], b->tensor.dims[1]};
  if (bias) {
    TRY(ir_expanded(g, bias, dims, 2, &bias));
    TRY(ir_temporary(g, a->tensor.dtype, dims, 2, &y));
    TRY(node_Addmm(g, bias, a, b, beta, alpha, y, 0));
    return converter_output(c, 0, y);
  }
  TRY(converter_product(c, a, b, &y));
  if (alpha->real != 1) {
    ir_value *product = y;
    TRY(ir_temporary(g, a->tensor.dtype, dims, 2, &y));
    TRY(node_Muls(g, product, alpha, y));
  }
  return converter_output(c, 0, y);
}

/* The determinant: its sign times the exponential of its logarithm. */
static status convert_det(converter *c) {
  ir_value *x = converter_input(c, 0), *sign, *logarithm, *magnitude, *y;
  if (x->tensor.rank < 2) return OP_FAIL("the input has %d dimensions, expected 2 or more", x->tensor.rank);
  TRY(ir_temporary(c->g, x->tensor.dtype, x->tensor.dims, x->tensor.rank - 2, &sign));
  TRY(ir_temporary(c->g, x->tensor.dtype, x->tensor.dims, x->tensor.rank - 2, &logarithm));
  TRY(node_Slogdet(c->g, x, sign, logarithm));
  TRY(converter_unary(c, &op_Exp, logarithm, x->tensor.dtype, &magnitude));
  TRY(converter_binary(c, &op_Mul, sign, magnitude, x->tensor.dtype, &y));
  return converter_output(c, 0, y);
}

const onnx_operator onnx_products[] = {
    {"MatMul", convert_matmul, 2, NULL, 0},
    {"Gemm", convert_gemm, 2, NULL, 0},
    {"Det", convert_det, 1, NULL, 0},
    {"Einsum", convert_einsum, 1, NULL, 0},
    {0},
};
