/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic elementwise operators whose function depends on the value or the presence of an argument. */
#include "kernel/elementwise/elementwise_call.h"
#include "kernel/families.h"

static status prepare_as(executor *e, const op_arg *all, int function) {
  elementwise_call c;
  elementwise_call_of(e->op, all, &c);
  return elementwise_prepare(e, function, &c);
}

/* Arithmetic called by operator name, by ONNX's definition: the numbers may be UINT16, whose results wrap around. */
static void graph_call_of(const executor *e, const op_arg *all, elementwise_call *c) {
  elementwise_call_of(e->op, all, c);
  c->of_uint16 = c->out->dtype == ACL_UINT16;
}

/* Add and Sub called by operator name, which have no alpha. */
status prepare_graph_sum(executor *e, const graph_sum_args *a) {
  elementwise_call c;
  graph_call_of(e, a->all, &c);
  c.parameter[c.n_parameters++] = (elementwise_parameter){.name = "alpha", .number = 1};
  return elementwise_prepare(e, e->op->variant, &c);
}

status prepare_graph_pair(executor *e, const graph_pair_args *a) {
  elementwise_call c;
  graph_call_of(e, a->all, &c);
  return elementwise_prepare(e, e->op->variant, &c);
}

status prepare_graph_invert(executor *e, const graph_invert_args *a) {
  elementwise_call c;
  graph_call_of(e, a->all, &c);
  return elementwise_prepare(e, a->x->dtype == ACL_BOOL ? EW_logical_not : EW_bitwise_not, &c);
}

/* Div called by operator name: integers are divided as in C. */
status prepare_graph_quotient(executor *e, const graph_quotient_args *a) {
  elementwise_call c;
  graph_call_of(e, a->all, &c);
  return elementwise_prepare(e, dtype_is_integer(a->y->dtype) ? EW_trunc_div : EW_div, &c);
}

/* Division with a rounding mode that is applied to the quotient. */
status prepare_divide(executor *e, const divide_args *a) {
  enum { MODES = 3 };
  static const int16_t of_tensors[MODES] = {EW_div, EW_trunc_div, EW_floor_div};
  static const int16_t of_scalar[MODES] = {EW_divs, EW_trunc_divs, EW_floor_divs};
  const int64_t mode = a->mode;
  EXPECT(mode >= 0 && mode < MODES, "mode is %jd, expected 0 (true), 1 (truncated) or 2 (floored)", (intmax_t)mode);
  return prepare_as(e, a->all, (a->other_tensor ? of_tensors : of_scalar)[mode]);
}

/* PowTensorScalar: some exponents have functions of their own. */
status prepare_power(executor *e, const power_args *a) {
  const tensor *self = a->self;
  const scalar *exponent = a->exponent;
  const double y = scalar_real(exponent);
  const bool of_floats = dtype_class_of(self->dtype) >= CLASS_FLOAT;
  const bool real = !dtype_is_complex(exponent->dtype) || exponent->imaginary == 0;
  EXPECT(of_floats || dtype_class_of(exponent->dtype) >= CLASS_FLOAT || y >= 0,
         "exponent is %g, expected 0 or more as self has dtype %s", y, dtype_name(self->dtype));
  int function = EW_pows;
  if (of_floats && real) function = y == 2 ? EW_square : y == 0.5 ? EW_sqrt : y == -1 ? EW_reciprocal : EW_pows;
  return prepare_as(e, a->all, function);
}

static status expect_bound(bool low, bool high) {
  if (low || high) return ST_OK;
  return fail(ST_OP_NULL, "clipValueMin and clipValueMax are NULL, expected one of them or both");
}

/* Either bound may be absent. */
status prepare_clamp(executor *e, const clamp_args *a) {
  const bool low = a->clip_value_min, high = a->clip_value_max;
  TRY(expect_bound(low, high));
  elementwise_call c;
  elementwise_call_of(e->op, a->all, &c);
  if (!low) c.parameter[0] = c.parameter[1];
  c.n_parameters = low + high;
  return elementwise_prepare(e, low && high ? EW_clamp : low ? EW_clamp_min : EW_clamp_max, &c);
}

/* The bounds are tensors. */
status prepare_clamp_tensor(executor *e, const clamp_tensor_args *a) {
  const bool low = a->clip_value_min, high = a->clip_value_max;
  TRY(expect_bound(low, high));
  elementwise_call c;
  elementwise_call_of(e->op, a->all, &c);
  if (!low) {
    c.in[1] = c.in[2];
    c.in_name[1] = c.in_name[2];
    c.operand[2] = c.operand[3];
  }
  c.n_inputs = 1 + low + high;
  return elementwise_prepare(e, low && high ? EW_clamp_between : low ? EW_maximum : EW_minimum, &c);
}

status prepare_masked_fill_tensor(executor *e, const masked_fill_tensor_args *a) {
  EXPECT(a->value->rank == 0, "value has %d dimensions, expected none", a->value->rank);
  return prepare_as(e, a->all, EW_masked_fill_from);
}

status prepare_masked_scale(executor *e, const masked_scale_args *a) {
  TRY(op_expect_same_shape(a->mask, "mask", a->self));
  return prepare_as(e, a->all, EW_masked_scale);
}

/* AddRelu: integers of few bits wrap before they are compared with 0. */
status prepare_add_relu(executor *e, const add_relu_args *a) {
  const uint64_t allowed = DTYPES_FLOAT | DTYPES_INTEGER;
  elementwise_call c;
  elementwise_call_of(e->op, a->all, &c);
  for (int k = 0; k < 2; ++k) TRY(op_expect_dtype(c.in[k], c.in_name[k], allowed));
  const int common = dtype_promote(c.in[0]->dtype, c.in[1]->dtype);
  if (common == ACL_UINT8) return elementwise_prepare(e, EW_add, &c);
  if (common != ACL_INT8 && common != ACL_INT16) return elementwise_prepare(e, EW_add_relu, &c);
  c.parameter[c.n_parameters++] = (elementwise_parameter){.number = 32 - 8 * (double)dtype_bytes(common)};
  return elementwise_prepare(e, EW_add_relu_narrow, &c);
}

/* Addcdiv: if the result stays an integer, integers are divided as integers. */
status prepare_addcdiv(executor *e, const addcdiv_args *a) {
  elementwise_call c;
  elementwise_call_of(e->op, a->all, &c);
  bool integers = dtype_is_integer(c.out->dtype);
  for (int k = 0; k < c.n_inputs; ++k) integers &= dtype_is_integer(c.in[k]->dtype);
  return elementwise_prepare(e, integers ? EW_addcdiv_integers : EW_addcdiv, &c);
}

/* Makes an operand of one element a scalar, so that its dimensions don't count for the result's. room: the scalar. */
static status expect_scalar(elementwise_call *c, int k, tensor *room) {
  TRY(op_expect_one(c->in[k], c->in_name[k], DTYPES_REAL));
  *room = *c->in[k];
  room->rank = 0;
  c->in[k] = room;
  return ST_OK;
}

/* FusedMulAddN: x1 x3 + x2, where x3 is one number. */
status prepare_factor_of_one(executor *e, const factor_of_one_args *a) {
  elementwise_call c;
  tensor factor;
  elementwise_call_of(e->op, a->all, &c);
  TRY(expect_scalar(&c, 2, &factor));
  TRY(op_expect_like(a->x2, "x2", a->x1));
  return elementwise_prepare(e, EW_product_and_sum, &c);
}

/* AddMatMatElementsPlus: alpha a b + beta c, where alpha and beta are one number each. */
status prepare_factors_of_one(executor *e, const factors_of_one_args *a) {
  elementwise_call c;
  tensor beta, alpha;
  elementwise_call_of(e->op, a->all, &c);
  TRY(expect_scalar(&c, 3, &beta));
  TRY(expect_scalar(&c, 4, &alpha));
  return elementwise_prepare(e, EW_sum_of_products_by, &c);
}

/* Gives scale or bias, whose dimensions are those of x from axis on, dimensions of 1 behind them. */
static void place_at(const tensor *t, int axis, int rank, tensor *room) {
  *room = *t;
  for (int d = t->rank; d < rank - axis; ++d) room->dims[d] = 1, room->strides[d] = 0;
  room->rank = (uint8_t)(rank - axis);
  room->contiguous = t->contiguous;
}

/* Scale: x scale + bias. With scaleFromBlob, numAxes is the number of scale's dimensions, or -1: all from axis on. */
status prepare_scale(executor *e, const scale_args *a) {
  elementwise_call c;
  tensor scale, bias;
  int axis = 0;
  const int rank = a->x->rank, of_scale = a->scale->rank;
  elementwise_call_of(e->op, a->all, &c);
  TRY(op_expect_dim(a->axis, "axis", rank, &axis));
  EXPECT(of_scale <= rank - axis, "scale has shape %s, expected at most the %d dimensions of x from axis %d on",
         SHAPE_OF(a->scale), rank - axis, axis);
  const int64_t wanted = a->num_axes == -1 ? rank - axis : a->num_axes;
  EXPECT(!a->scale_from_blob || of_scale == wanted, "scale has %d dimensions, expected %jd as numAxes is %jd", of_scale,
         (intmax_t)wanted, (intmax_t)a->num_axes);
  place_at(a->scale, axis, rank, &scale);
  c.in[1] = &scale;
  c.n_parameters = 0;
  c.n_inputs = 2 + (a->bias != NULL);
  if (!a->bias) return elementwise_prepare(e, EW_mul, &c);
  TRY(op_expect_same_shape(a->bias, "bias", a->scale));
  place_at(a->bias, axis, rank, &bias);
  c.in[2] = &bias;
  return elementwise_prepare(e, EW_scale_and_bias, &c);
}

/* NextAfter by name: the neighbour of the first operand in its own type. */
status prepare_graph_next_after(executor *e, const graph_next_after_args *a) {
  TRY(op_expect_dtype(a->x1, "x1", DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_DOUBLE)));
  TRY(op_expect_dtype(a->x2, "x2", DTYPE_BIT(a->x1->dtype)));
  return prepare_as(e, a->all, EW_next_after);
}
