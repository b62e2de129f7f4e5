/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that compute each element of the result from one element of each input. */
#include "graph/nodes.h"
#include "graph/onnx/convert.h"

/* The type in which an operator computes: elements that Cannon's elementwise engine has no functions for are computed
 * as int64, which holds all their values (uint64: modulo 2^64) and wraps around as they do. */
static int computed_dtype(int dtype) {
  return dtype == ACL_UINT16 || dtype == ACL_UINT32 || dtype == ACL_UINT64 ? ACL_INT64 : dtype;
}

static status same_shape(converter *c, ir_value *like, int dtype, ir_value **out) {
  return ir_temporary(c->g, dtype, like->tensor.dims, like->tensor.rank, out);
}

status converter_unary(converter *c, op *o, ir_value *x, int dtype, ir_value **out) {
  const int wide = computed_dtype(x->tensor.dtype), wide_out = computed_dtype(dtype);
  ir_value *input;
  TRY(ir_cast(c->g, x, wide, &input));
  TRY(same_shape(c, x, wide_out, out));
  TRY(ir_add(c->g, o, (const op_arg[]){{.tensor = &input->tensor}, {.tensor = &(*out)->tensor}}));
  return ir_cast(c->g, *out, dtype, out);
}

status converter_binary(converter *c, op *o, ir_value *a, ir_value *b, int dtype, ir_value **out) {
  int64_t dims[MAX_RANK];
  int rank;
  ir_value *x, *y;
  TRY(converter_broadcast((ir_value *[]){a, b}, 2, dims, &rank));
  TRY(ir_cast(c->g, a, computed_dtype(a->tensor.dtype), &x));
  TRY(ir_cast(c->g, b, computed_dtype(b->tensor.dtype), &y));
  TRY(ir_temporary(c->g, computed_dtype(dtype), dims, rank, out));
  const bool has_alpha = o->n_args == 4;
  const op_arg two = {.tensor = &y->tensor}, last = {.tensor = &(*out)->tensor};
  const op_arg alpha = {.scalar = has_alpha ? ir_scalar(c->g, ACL_INT64, 1) : NULL};
  if (has_alpha && !alpha.scalar) return ST_NO_HOST_MEMORY;
  TRY(ir_add(c->g, o,
             has_alpha ? (const op_arg[]){{.tensor = &x->tensor}, two, alpha, last}
                       : (const op_arg[]){{.tensor = &x->tensor}, two, last}));
  return ir_cast(c->g, *out, dtype, out);
}

/* ---- one input --------------------------------------------------------------------------------------------------- */

static status convert_unary(converter *c) {
  ir_value *x = converter_input(c, 0);
  ir_value *y;
  TRY(converter_unary(c, c->entry->op, x, x->tensor.dtype, &y));
  return converter_output(c, 0, y);
}

static status convert_test(converter *c) {
  ir_value *y;
  TRY(converter_unary(c, c->entry->op, converter_input(c, 0), ACL_BOOL, &y));
  return converter_output(c, 0, y);
}

static status convert_is_nan(converter *c) {
  ir_value *x = converter_input(c, 0);
  ir_value *y;
  TRY(converter_binary(c, &op_NeTensor, x, x, ACL_BOOL, &y));
  return converter_output(c, 0, y);
}

static status convert_is_inf(converter *c) {
  const bool negative = attribute_int(c, "detect_negative", 1), positive = attribute_int(c, "detect_positive", 1);
  ir_value *x = converter_input(c, 0);
  ir_value *y;
  if (!negative && !positive) {
    TRY(ir_constant(c->g, ACL_BOOL, x->tensor.dims, x->tensor.rank, NULL, &y));
    return converter_output(c, 0, y);
  }
  op *o = !negative ? &op_IsPosInf : !positive ? &op_IsNegInf : &op_IsInf;
  TRY(converter_unary(c, o, x, ACL_BOOL, &y));
  return converter_output(c, 0, y);
}

/* Functions with parameters. */
enum { LEAKY_RELU, ELU, CELU, SELU, SHRINK, SOFTPLUS, THRESHOLDED_RELU };

static const scalar *number_attribute(converter *c, const char *name, double otherwise) {
  return ir_scalar(c->g, ACL_FLOAT, attribute_float(c, name, otherwise));
}

static status convert_parametric(converter *c) {
  ir_graph *g = c->g;
  ir_value *x = converter_input(c, 0);
  ir_value *y;
  TRY(same_shape(c, x, x->tensor.dtype, &y));
  const scalar *one = ir_scalar(g, ACL_FLOAT, 1), *zero = ir_scalar(g, ACL_FLOAT, 0);
  if (!one || !zero) return ST_NO_HOST_MEMORY;
  switch (c->entry->number) {
  case LEAKY_RELU: TRY(node_LeakyRelu(g, x, number_attribute(c, "alpha", 0.01), y)); break;
  case ELU: TRY(node_Elu(g, x, number_attribute(c, "alpha", 1), one, one, y)); break;
  case CELU: TRY(node_Celu(g, x, number_attribute(c, "alpha", 1), y)); break;
  case SELU:
    TRY(node_Elu(g, x, number_attribute(c, "alpha", 1.67326319217681884765625),
                 number_attribute(c, "gamma", 1.05070102214813232421875), one, y));
    break;
  case SHRINK: TRY(node_Shrink(g, x, number_attribute(c, "lambd", 0.5), number_attribute(c, "bias", 0), y)); break;
  case SOFTPLUS: TRY(node_Softplus(g, x, one, ir_scalar(g, ACL_FLOAT, 40), y)); break; /* exp(-40) is below rounding */
  case THRESHOLDED_RELU: TRY(node_Threshold(g, x, number_attribute(c, "alpha", 1), zero, y)); break;
  }
  return converter_output(c, 0, y);
}

/* min(max(alpha * x + beta, 0), 1) */
static status convert_hard_sigmoid(converter *c) {
  ir_graph *g = c->g;
  ir_value *x = converter_input(c, 0);
  const scalar *alpha = number_attribute(c, "alpha", 0.2), *beta = number_attribute(c, "beta", 0.5);
  const scalar *one = ir_scalar(g, ACL_FLOAT, 1), *zero = ir_scalar(g, ACL_FLOAT, 0);
  ir_value *scaled, *moved, *y;
  if (!alpha || !beta || !one || !zero) return ST_NO_HOST_MEMORY;
  TRY(same_shape(c, x, x->tensor.dtype, &scaled));
  TRY(same_shape(c, x, x->tensor.dtype, &moved));
  TRY(same_shape(c, x, x->tensor.dtype, &y));
  TRY(node_Muls(g, x, alpha, scaled));
  TRY(node_Adds(g, scaled, beta, one, moved));
  TRY(node_Clamp(g, moved, zero, one, y));
  return converter_output(c, 0, y);
}

/* x / (1 + |x|) */
static status convert_softsign(converter *c) {
  ir_graph *g = c->g;
  ir_value *x = converter_input(c, 0);
  const scalar *one = ir_scalar(g, ACL_FLOAT, 1);
  ir_value *magnitude, *sum, *y;
  if (!one) return ST_NO_HOST_MEMORY;
  TRY(converter_unary(c, &op_Abs, x, x->tensor.dtype, &magnitude));
  TRY(same_shape(c, x, x->tensor.dtype, &sum));
  TRY(node_Adds(g, magnitude, one, one, sum));
  TRY(converter_binary(c, &op_Div, x, sum, x->tensor.dtype, &y));
  return converter_output(c, 0, y);
}

static status convert_gelu(converter *c) {
  ir_value *x = converter_input(c, 0);
  ir_value *y;
  TRY(same_shape(c, x, x->tensor.dtype, &y));
  TRY(node_GeluV2(c->g, x, attribute_string(c, "approximate", "none")[0] == 't', y));
  return converter_output(c, 0, y);
}

/* x * sigmoid(alpha * x) */
static status convert_swish(converter *c) {
  ir_value *x = converter_input(c, 0), *scaled, *gate, *y;
  const scalar *alpha = ir_scalar(c->g, ACL_FLOAT, attribute_float(c, "alpha", 1));
  if (!alpha) return ST_NO_HOST_MEMORY;
  TRY(same_shape(c, x, x->tensor.dtype, &scaled));
  TRY(node_Muls(c->g, x, alpha, scaled));
  TRY(converter_unary(c, &op_Sigmoid, scaled, x->tensor.dtype, &gate));
  TRY(converter_binary(c, &op_Mul, x, gate, x->tensor.dtype, &y));
  return converter_output(c, 0, y);
}

/* x where it is positive, otherwise slope * x. */
static status convert_prelu(converter *c) {
  ir_graph *g = c->g;
  ir_value *x = converter_input(c, 0), *slope = converter_input(c, 1);
  const int dtype = x->tensor.dtype, wide = computed_dtype(dtype);
  const scalar *zero = ir_scalar(g, ACL_INT64, 0);
  ir_value *input, *above, *below, *sloped, *y;
  if (!zero) return ST_NO_HOST_MEMORY;
  TRY(ir_cast(g, x, wide, &input));
  TRY(same_shape(c, x, wide, &above));
  TRY(same_shape(c, x, wide, &below));
  TRY(node_ClampMin(g, input, zero, above));
  TRY(node_ClampMax(g, input, zero, below));
  TRY(converter_binary(c, &op_Mul, below, slope, wide, &sloped));
  TRY(converter_binary(c, &op_Add, above, sloped, wide, &y));
  TRY(ir_cast(g, y, dtype, &y));
  return converter_output(c, 0, y);
}

/* ---- two inputs -------------------------------------------------------------------------------------------------- */

/* Before version 7 the shape of the second input was matched with the first one's from an axis on. */
static status old_broadcast(converter *c, ir_value *a, ir_value **b) {
  const int rank = a->tensor.rank, n = (*b)->tensor.rank;
  if (c->version >= 7 || !attribute_int(c, "broadcast", 0) || !converter_attribute(c, "axis")) return ST_OK;
  int64_t dims[MAX_RANK];
  int axis;
  TRY(converter_axis(attribute_int(c, "axis", 0), rank, &axis));
  if (axis + n > rank) return OP_FAIL("axis %d leaves no room for %d dimensions of %d", axis, n, rank);
  for (int d = 0; d < rank - axis; ++d) dims[d] = d < n ? (*b)->tensor.dims[d] : 1;
  return ir_reshaped(c->g, *b, dims, rank - axis, b);
}

static status convert_binary(converter *c) {
  ir_value *a = converter_input(c, 0);
  ir_value *b = converter_input(c, 1), *y;
  TRY(old_broadcast(c, a, &b));
  TRY(converter_binary(c, c->entry->op, a, b, a->tensor.dtype, &y));
  return converter_output(c, 0, y);
}

static status convert_comparison(converter *c) {
  ir_value *a = converter_input(c, 0);
  ir_value *b = converter_input(c, 1), *y;
  TRY(old_broadcast(c, a, &b));
  TRY(converter_binary(c, c->entry->op, a, b, ACL_BOOL, &y));
  return converter_output(c, 0, y);
}

/* Integers are divided with truncation. */
static status convert_div(converter *c) {
  ir_value *a = converter_input(c, 0);
  if (dtype_is_float(a->tensor.dtype)) return convert_binary(c);
  ir_value *b = converter_input(c, 1), *x, *y, *q;
  int64_t dims[MAX_RANK];
  int rank;
  TRY(old_broadcast(c, a, &b));
  TRY(converter_broadcast((ir_value *[]){a, b}, 2, dims, &rank));
  TRY(ir_cast(c->g, a, computed_dtype(a->tensor.dtype), &x));
  TRY(ir_cast(c->g, b, computed_dtype(b->tensor.dtype), &y));
  TRY(ir_temporary(c->g, x->tensor.dtype, dims, rank, &q));
  TRY(node_DivMod(c->g, x, y, 1, q));
  TRY(ir_cast(c->g, q, a->tensor.dtype, &q));
  return converter_output(c, 0, q);
}

static status convert_mod(converter *c) {
  ir_value *a = converter_input(c, 0);
  ir_value *y;
  op *o = attribute_int(c, "fmod", 0) ? &op_FmodTensor : &op_RemainderTensorTensor;
  TRY(converter_binary(c, o, a, converter_input(c, 1), a->tensor.dtype, &y));
  return converter_output(c, 0, y);
}

static status convert_shift(converter *c) {
  ir_value *a = converter_input(c, 0);
  op *o = attribute_string(c, "direction", "")[0] == 'L' ? &op_LeftShift : &op_RightShift;
  ir_value *y;
  TRY(converter_binary(c, o, a, converter_input(c, 1), a->tensor.dtype, &y));
  return converter_output(c, 0, y);
}

/* The result has the base's type, whatever the exponent's is. */
static status convert_pow(converter *c) {
  ir_value *base = converter_input(c, 0), *exponent = converter_input(c, 1), *y;
  TRY(old_broadcast(c, base, &exponent));
  const int dtype = base->tensor.dtype, other = exponent->tensor.dtype;
  int common = dtype_promote(computed_dtype(dtype), computed_dtype(other));
  if (!dtype_is_float(dtype) && dtype_is_float(other)) common = ACL_DOUBLE; /* as many digits as integers have */
  TRY(ir_cast(c->g, base, common, &base));
  TRY(ir_cast(c->g, exponent, common, &exponent));
  TRY(converter_binary(c, &op_PowTensorTensor, base, exponent, common, &y));
  TRY(ir_cast(c->g, y, dtype, &y));
  return converter_output(c, 0, y);
}

/* ---- more inputs ------------------------------------------------------------------------------------------------- */

static status chain(converter *c, ir_value **out) {
  ir_value *sum = converter_input(c, 0);
  const int dtype = sum->tensor.dtype;
  for (int i = 1; i < c->node->n_inputs; ++i)
    TRY(converter_binary(c, c->entry->op, sum, converter_input(c, i), dtype, &sum));
  *out = sum;
  return ST_OK;
}

static status convert_chain(converter *c) {
  ir_value *y;
  TRY(chain(c, &y));
  return converter_output(c, 0, y);
}

static status convert_mean(converter *c) {
  ir_value *sum, *y;
  TRY(chain(c, &sum));
  const scalar *part = ir_scalar(c->g, ACL_DOUBLE, 1.0 / c->node->n_inputs);
  if (!part) return ST_NO_HOST_MEMORY;
  TRY(same_shape(c, sum, sum->tensor.dtype, &y));
  TRY(node_Muls(c->g, sum, part, y));
  return converter_output(c, 0, y);
}

static status convert_where(converter *c) {
  ir_value *condition = converter_input(c, 0), *a = converter_input(c, 1), *b = converter_input(c, 2), *y;
  const int dtype = a->tensor.dtype, wide = computed_dtype(dtype);
  int64_t dims[MAX_RANK];
  int rank;
  TRY(converter_broadcast((ir_value *[]){condition, a, b}, 3, dims, &rank));
  TRY(ir_cast(c->g, a, wide, &a));
  TRY(ir_cast(c->g, b, wide, &b));
  TRY(ir_temporary(c->g, wide, dims, rank, &y));
  TRY(node_SWhere(c->g, condition, a, b, y));
  TRY(ir_cast(c->g, y, dtype, &y));
  return converter_output(c, 0, y);
}

/* A bound of Clip: an attribute before version 11, an input since. NULL: none. */
static status clip_bound(converter *c, const char *attribute, int input, ir_value **out) {
  *out = NULL;
  if (c->version < 11) {
    if (!converter_attribute(c, attribute)) return ST_OK;
    return ir_number(c->g, converter_input(c, 0)->tensor.dtype, attribute_float(c, attribute, 0), out);
  }
  *out = converter_input(c, input);
  return ST_OK;
}

static status convert_clip(converter *c) {
  ir_graph *g = c->g;
  ir_value *x = converter_input(c, 0), *bounds[2], *y;
  const int dtype = x->tensor.dtype, wide = computed_dtype(dtype);
  const scalar *numbers[2] = {0};
  bool constant = true;
  TRY(clip_bound(c, "min", 1, &bounds[0]));
  TRY(clip_bound(c, "max", 2, &bounds[1]));
  if (!bounds[0] && !bounds[1]) return converter_output(c, 0, x);
  TRY(ir_cast(g, x, wide, &x));
  TRY(same_shape(c, x, wide, &y));
  for (int i = 0; i < 2; ++i) {
    double number;
    if (!bounds[i]) continue;
    TRY(ir_cast(g, bounds[i], wide, &bounds[i]));
    if (bounds[i]->tensor.n != 1) return OP_FAIL("a bound has %jd elements, expected 1", (intmax_t)bounds[i]->tensor.n);
    if (!value_is_constant(bounds[i]) || wide == ACL_INT64) { /* not all int64 are doubles */
      constant = false;
      continue;
    }
    TRY(ir_need_contents(bounds[i]->storage));
    value_read_reals(bounds[i], &number);
    if (!(numbers[i] = ir_scalar(g, wide, number))) return ST_NO_HOST_MEMORY;
  }
  if (!constant)
    TRY(node_ClampTensor(g, x, bounds[0], bounds[1], y));
  else if (!bounds[0])
    TRY(node_ClampMax(g, x, numbers[1], y));
  else if (!bounds[1])
    TRY(node_ClampMin(g, x, numbers[0], y));
  else
    TRY(node_Clamp(g, x, numbers[0], numbers[1], y));
  TRY(ir_cast(g, y, dtype, &y));
  return converter_output(c, 0, y);
}

const onnx_operator onnx_elementwise[] = {
    {"Abs", convert_unary, 1, &op_Abs, 0},
    {"Acos", convert_unary, 1, &op_Acos, 0},
    {"Acosh", convert_unary, 1, &op_Acosh, 0},
    {"Asin", convert_unary, 1, &op_Asin, 0},
    {"Asinh", convert_unary, 1, &op_Asinh, 0},
    {"Atan", convert_unary, 1, &op_Atan, 0},
    {"Atanh", convert_unary, 1, &op_Atanh, 0},
    {"BitwiseNot", convert_unary, 1, &op_BitwiseNot, 0},
    {"Ceil", convert_unary, 1, &op_Ceil, 0},
    {"Cos", convert_unary, 1, &op_Cos, 0},
    {"Cosh", convert_unary, 1, &op_Cosh, 0},
    {"Erf", convert_unary, 1, &op_Erf, 0},
    {"Exp", convert_unary, 1, &op_Exp, 0},
    {"Floor", convert_unary, 1, &op_Floor, 0},
    {"HardSwish", convert_unary, 1, &op_Hardswish, 0},
    {"Log", convert_unary, 1, &op_Log, 0},
    {"Mish", convert_unary, 1, &op_Mish, 0},
    {"Neg", convert_unary, 1, &op_Neg, 0},
    {"Reciprocal", convert_unary, 1, &op_Reciprocal, 0},
    {"Relu", convert_unary, 1, &op_Relu, 0},
    {"Round", convert_unary, 1, &op_Round, 0},
    {"Sigmoid", convert_unary, 1, &op_Sigmoid, 0},
    {"Sign", convert_unary, 1, &op_Sign, 0},
    {"Sin", convert_unary, 1, &op_Sin, 0},
    {"Sinh", convert_unary, 1, &op_Sinh, 0},
    {"Sqrt", convert_unary, 1, &op_Sqrt, 0},
    {"Tan", convert_unary, 1, &op_Tan, 0},
    {"Tanh", convert_unary, 1, &op_Tanh, 0},
    {"Not", convert_test, 1, &op_LogicalNot, 0},
    {"IsNaN", convert_is_nan, 1, NULL, 0},
    {"IsInf", convert_is_inf, 1, NULL, 0},
    {"LeakyRelu", convert_parametric, 1, NULL, LEAKY_RELU},
    {"Elu", convert_parametric, 1, NULL, ELU},
    {"Celu", convert_parametric, 1, NULL, CELU},
    {"Selu", convert_parametric, 1, NULL, SELU},
    {"Shrink", convert_parametric, 1, NULL, SHRINK},
    {"Softplus", convert_parametric, 1, NULL, SOFTPLUS},
    {"ThresholdedRelu", convert_parametric, 1, NULL, THRESHOLDED_RELU},
    {"HardSigmoid", convert_hard_sigmoid, 1, NULL, 0},
    {"Softsign", convert_softsign, 1, NULL, 0},
    {"Gelu", convert_gelu, 1, NULL, 0},
    {"Swish", convert_swish, 1, NULL, 0},
    {"PRelu", convert_prelu, 2, NULL, 0},
    {"Add", convert_binary, 2, &op_Add, 0},
    {"Sub", convert_binary, 2, &op_Sub, 0},
    {"Mul", convert_binary, 2, &op_Mul, 0},
    {"Div", convert_div, 2, &op_Div, 0},
    {"Mod", convert_mod, 2, NULL, 0},
    {"Pow", convert_pow, 2, NULL, 0},
    {"BitShift", convert_shift, 2, NULL, 0},
    {"BitwiseAnd", convert_binary, 2, &op_BitwiseAndTensor, 0},
    {"BitwiseOr", convert_binary, 2, &op_BitwiseOrTensor, 0},
    {"BitwiseXor", convert_binary, 2, &op_BitwiseXorTensor, 0},
    {"And", convert_comparison, 2, &op_LogicalAnd, 0},
    {"Or", convert_comparison, 2, &op_LogicalOr, 0},
    {"Xor", convert_comparison, 2, &op_LogicalXor, 0},
    {"Equal", convert_comparison, 2, &op_EqTensor, 0},
    {"Greater", convert_comparison, 2, &op_GtTensor, 0},
    {"GreaterOrEqual", convert_comparison, 2, &op_GeTensor, 0},
    {"Less", convert_comparison, 2, &op_LtTensor, 0},
    {"LessOrEqual", convert_comparison, 2, &op_LeTensor, 0},
    {"Max", convert_chain, 1, &op_Maximum, 0},
    {"Min", convert_chain, 1, &op_Minimum, 0},
    {"Sum", convert_chain, 1, &op_Add, 0},
    {"Mean", convert_mean, 1, &op_Add, 0},
    {"Where", convert_where, 3, NULL, 0},
    {"Clip", convert_clip, 1, NULL, 0},
    {0},
};
