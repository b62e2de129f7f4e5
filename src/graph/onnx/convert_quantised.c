/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised numbers: x is (q - zero point) * scale. Products of 8-bit integers are computed exactly: in int32 by
 * MatmulInteger with one matrix on the right and by ConvolutionInteger with one group, otherwise in float while 24 bits
 * hold all sums, else in double. */
#include <string.h>

#include "graph/nodes.h"
#include "graph/onnx/convert.h"

static status quantised_like(converter *c, const ir_value *x, int dtype, ir_value **out) {
  return ir_temporary(c->g, dtype, x->tensor.dims, x->tensor.rank, out);
}

/* narrow: of an integer of 4 bits, else 0. */
static void dtype_range(int dtype, int narrow, double *least, double *most) {
  const bool is_signed = dtype == ACL_INT8 || dtype == ACL_INT16 || dtype == ACL_INT32;
  const int bits = (narrow ? 4 : 8 * (int)dtype_bytes(dtype)) - is_signed;
  *most = (double)((INT64_C(1) << bits) - 1);
  *least = is_signed ? -*most - 1 : 0;
}

/* A scale or zero point in a shape that broadcasts with x: a scalar; a vector along the axis; or, with blocks, each
 * element repeated. */
static status spread(converter *c, const ir_value *x, ir_value *v, int axis, int64_t block, ir_value **out) {
  int64_t dims[MAX_RANK];
  const tensor *t = &v->tensor;
  if (t->n == 1 && !block) return ir_reshaped(c->g, v, NULL, 0, out);
  if (!block) {
    for (int d = 0; d < x->tensor.rank; ++d) dims[d] = d == axis ? t->n : 1;
    return ir_reshaped(c->g, v, dims, x->tensor.rank, out);
  }
  ir_value *wide;
  int64_t all[MAX_RANK];
  if (t->rank != x->tensor.rank || t->rank == MAX_RANK) return OP_FAIL("a scale by block has %d dimensions", t->rank);
  memcpy(dims, t->dims, sizeof dims);
  memmove(dims + axis + 2, dims + axis + 1, (size_t)(t->rank - axis - 1) * sizeof *dims);
  dims[axis + 1] = 1;
  memcpy(all, dims, sizeof all);
  all[axis + 1] = block;
  TRY(ir_reshaped(c->g, v, dims, t->rank + 1, &wide));
  TRY(ir_expanded(c->g, wide, all, t->rank + 1, &wide));
  memcpy(dims, t->dims, sizeof dims);
  dims[axis] *= block;
  TRY(ir_reshaped(c->g, wide, dims, t->rank, &wide));
  for (int d = 0; d < t->rank; ++d)
    if (dims[d] < x->tensor.dims[d]) return OP_FAIL("the scale has too few blocks along dimension %d", d);
  return ir_view(c->g, wide, x->tensor.dims, wide->tensor.strides, t->rank, 0, out);
}

/* round(x) + zero point, limited to the dtype. x: float. */
static status rounded(converter *c, ir_value *x, ir_value *zero_point, int dtype, int narrow, ir_value **out) {
  double least, most;
  ir_value *whole, *limited;
  TRY(converter_unary(c, &op_Round, x, x->tensor.dtype, &whole));
  if (zero_point) {
    TRY(ir_cast(c->g, zero_point, x->tensor.dtype, &zero_point));
    TRY(converter_binary(c, &op_Add, whole, zero_point, x->tensor.dtype, &whole));
  }
  dtype_range(dtype, narrow, &least, &most);
  const scalar *low = ir_scalar(c->g, ACL_FLOAT, least), *high = ir_scalar(c->g, ACL_FLOAT, most);
  if (!low || !high) return ST_NO_HOST_MEMORY;
  TRY(quantised_like(c, whole, x->tensor.dtype, &limited));
  TRY(node_Clamp(c->g, whole, low, high, limited));
  return ir_cast(c->g, limited, dtype, out);
}

/* The type of a quantised value: that of the zero point, or the one that the node names. */
static status quantised_dtype(converter *c, const ir_value *zero, int *dtype, int *narrow) {
  const int named = (int)attribute_int(c, "output_dtype", 0);
  *dtype = zero ? zero->tensor.dtype : ACL_UINT8;
  *narrow = zero ? zero->narrow : 0;
  return zero || !named ? ST_OK : converter_stored_dtype(named, dtype, narrow);
}

static bool is_narrow_float(int narrow) { return narrow && narrow != ONNX_INT4 && narrow != ONNX_UINT4; }

/* x with the type that quantised values have; floating types have no zero points but 0. */
static status as_quantised(converter *c, ir_value *x, ir_value *zero, int dtype, int narrow, ir_value **y) {
  if (is_narrow_float(narrow)) return converter_narrowed(c, x, narrow, attribute_int(c, "saturate", 1), y);
  TRY(rounded(c, x, zero, dtype, narrow, y));
  return narrow ? converter_narrowed(c, *y, narrow, true, y) : ST_OK;
}

static status convert_quantize(converter *c) {
  ir_value *x = converter_input(c, 0), *scale = converter_input(c, 1), *zero = converter_input(c, 2), *y;
  int axis = 0, dtype, narrow;
  const int64_t block = attribute_int(c, "block_size", 0);
  if (x->tensor.rank && (scale->tensor.n > 1 || block))
    TRY(converter_axis(attribute_int(c, "axis", 1), x->tensor.rank, &axis));
  TRY(quantised_dtype(c, zero, &dtype, &narrow));
  TRY(spread(c, x, scale, axis, block, &scale));
  if (zero) {
    TRY(converter_widened(c, zero, &zero));
    TRY(spread(c, x, zero, axis, block, &zero));
  }
  TRY(ir_cast(c->g, x, ACL_FLOAT, &x));
  TRY(ir_cast(c->g, scale, ACL_FLOAT, &scale));
  TRY(converter_binary(c, &op_Div, x, scale, ACL_FLOAT, &y));
  TRY(as_quantised(c, y, zero, dtype, narrow, &y));
  return converter_output(c, 0, y);
}

static status dequantised(converter *c, ir_value *x, ir_value *scale, ir_value *zero, ir_value **y) {
  const int dtype = scale->tensor.dtype;
  if (zero && !dtype_is_float(x->tensor.dtype)) {
    TRY(ir_cast(c->g, x, ACL_INT32, &x));
    TRY(ir_cast(c->g, zero, ACL_INT32, &zero));
    TRY(converter_binary(c, &op_Sub, x, zero, ACL_INT32, &x));
  }
  TRY(ir_cast(c->g, x, dtype, &x));
  return converter_binary(c, &op_Mul, x, scale, dtype, y);
}

/* Notes what the value was made of. */
static status note_dequantised(ir_graph *g, ir_dequantised d) {
  g->dequantised = region_grow(&g->memory, g->dequantised, (size_t)g->n_dequantised, sizeof *g->dequantised);
  if (!g->dequantised) return fail(ST_NO_HOST_MEMORY, "no host memory for a graph");
  g->dequantised[g->n_dequantised++] = d;
  return ST_OK;
}

static status convert_dequantize(converter *c) {
  ir_value *x = converter_input(c, 0), *scale = converter_input(c, 1), *zero = converter_input(c, 2), *y;
  ir_dequantised made = {.quantised = x, .scale = scale, .zero = zero};
  const int64_t block = attribute_int(c, "block_size", 0);
  int axis = 0;
  TRY(converter_widened(c, x, &x));
  if (x->tensor.rank && (scale->tensor.n > 1 || block))
    TRY(converter_axis(attribute_int(c, "axis", 1), x->tensor.rank, &axis));
  TRY(spread(c, x, scale, axis, block, &scale));
  if (zero) {
    TRY(converter_widened(c, zero, &zero));
    TRY(spread(c, x, zero, axis, block, &zero));
  }
  TRY(dequantised(c, x, scale, zero, &y));
  made.real = y;
  made.axis = axis;
  if (!block) TRY(note_dequantised(c->g, made));
  return converter_output(c, 0, y);
}

status converter_quantised(converter *c, ir_value *x, ir_value **y, ir_value **scale, ir_value **zero) {
  TRY(ir_contiguous(c->g, x, &x));
  TRY(quantised_like(c, x, ACL_UINT8, y));
  TRY(ir_temporary(c->g, ACL_FLOAT, NULL, 0, scale));
  TRY(ir_temporary(c->g, ACL_UINT8, NULL, 0, zero));
  return node_DynamicQuantizeLinear(c->g, x, *y, *scale, *zero);
}

static status convert_dynamic_quantize(converter *c) {
  ir_value *scale, *zero, *y;
  TRY(converter_quantised(c, converter_input(c, 0), &y, &scale, &zero));
  TRY(converter_output(c, 0, y));
  TRY(converter_output(c, 1, scale));
  return converter_output(c, 2, zero);
}

/* Integers less their zero point, as int32. along: the axis of a zero point that is a vector. */
static status centred(converter *c, ir_value *x, ir_value *zero, int along, ir_value **out) {
  TRY(ir_cast(c->g, x, ACL_INT32, &x));
  *out = x;
  if (!zero) return ST_OK;
  if (zero->tensor.rank <= 1) TRY(spread(c, x, zero, along, 0, &zero));
  TRY(ir_cast(c->g, zero, ACL_INT32, &zero));
  return converter_binary(c, &op_Sub, x, zero, ACL_INT32, out);
}

/* The type that holds sums of n products of 9-bit integers (differences of 8-bit ones). */
static int exact_dtype(int64_t n) { return n <= (1 << 24) / (255 * 255) ? ACL_FLOAT : ACL_DOUBLE; }

/* The product of two int32 matrices with such numbers, as int32. */
static status integer_product(converter *c, ir_value *a, ir_value *b, ir_value **out) {
  const int dtype = exact_dtype(a->tensor.rank ? a->tensor.dims[a->tensor.rank - 1] : 1);
  TRY(ir_cast(c->g, a, dtype, &a));
  TRY(ir_cast(c->g, b, dtype, &b));
  TRY(converter_product(c, a, b, out));
  return ir_cast(c->g, *out, ACL_INT32, out);
}

/* Whether a zero point is absent, one number, or one for each of n rows or columns. */
static bool zero_is_plain(const ir_value *zero, int64_t n) {
  return !zero || zero->tensor.n == 1 || (zero->tensor.rank == 1 && zero->tensor.n == n);
}

/* x as int8: unsigned numbers, and their zero point, are made 128 less. */
static status as_signed(converter *c, ir_value **x, ir_value **zero) {
  ir_value *less;
  if ((*x)->tensor.dtype == ACL_INT8) return ST_OK;
  const scalar *half = ir_scalar(c->g, ACL_INT32, 128), *one = ir_scalar(c->g, ACL_INT32, 1);
  if (!half || !one) return ST_NO_HOST_MEMORY;
  TRY(ir_cast(c->g, *x, ACL_INT16, x));
  TRY(ir_temporary(c->g, ACL_INT16, (*x)->tensor.dims, (*x)->tensor.rank, &less));
  TRY(node_Subs(c->g, *x, half, one, less));
  TRY(ir_cast(c->g, less, ACL_INT8, x));
  if (!*zero) TRY(ir_number(c->g, ACL_INT32, 0, zero));
  TRY(ir_cast(c->g, *zero, ACL_INT32, zero));
  TRY(ir_temporary(c->g, ACL_INT32, (*zero)->tensor.dims, (*zero)->tensor.rank, &less));
  TRY(node_Subs(c->g, *zero, half, one, less));
  *zero = less;
  return ST_OK;
}

/* Such a product with one matrix on the right, which has a kernel. */
static status matmul_integer(converter *c, ir_value *a, ir_value *a_zero, ir_value *b, ir_value *b_zero,
                             ir_value **out) {
  const tensor *x = &a->tensor;
  int64_t dims[MAX_RANK];
  const int64_t k = x->dims[x->rank - 1], n = b->tensor.dims[1], rows[] = {k ? x->n / k : 0, k};
  memcpy(dims, x->dims, sizeof dims);
  dims[x->rank - 1] = n;
  const int rank = x->rank;
  ir_value *y;
  TRY(as_signed(c, &b, &b_zero));
  TRY(ir_reshaped(c->g, a, rows, 2, &a));
  TRY(ir_temporary(c->g, ACL_INT32, (const int64_t[]){rows[0], n}, 2, &y));
  TRY(node_MatmulInteger(c->g, a, b, a_zero, b_zero, NULL, NULL, y));
  return ir_reshaped(c->g, y, dims, rank, out);
}

status converter_integer_product(converter *c, ir_value *a, ir_value *a_zero, ir_value *b, ir_value *b_zero,
                                 ir_value **out) {
  const tensor *x = &a->tensor, *y = &b->tensor;
  if (x->rank >= 2 && y->rank == 2 && x->n && y->n && x->dims[x->rank - 1] == y->dims[0] &&
      zero_is_plain(a_zero, x->rank == 2 ? x->dims[0] : 1) && zero_is_plain(b_zero, y->dims[1]))
    return matmul_integer(c, a, a_zero, b, b_zero, out);
  TRY(centred(c, a, a_zero, a->tensor.rank - 2, &a));
  TRY(centred(c, b, b_zero, b->tensor.rank - 1, &b));
  return integer_product(c, a, b, out);
}

static status convert_matmul_integer(converter *c) {
  ir_value *y;
  TRY(converter_integer_product(c, converter_input(c, 0), converter_input(c, 2), converter_input(c, 1),
                                converter_input(c, 3), &y));
  return converter_output(c, 0, y);
}

/* sums * scale_a * scale_b / scale_y, rounded. */
static status requantised(converter *c, ir_value *sums, ir_value *a, ir_value *b, ir_value *y_scale, ir_value *y_zero,
                          ir_value **out) {
  ir_value *factor;
  TRY(converter_binary(c, &op_Mul, a, b, ACL_FLOAT, &factor));
  TRY(converter_binary(c, &op_Div, factor, y_scale, ACL_FLOAT, &factor));
  TRY(ir_cast(c->g, sums, ACL_FLOAT, &sums));
  TRY(converter_binary(c, &op_Mul, sums, factor, ACL_FLOAT, &sums));
  return rounded(c, sums, y_zero, y_zero->tensor.dtype, 0, out);
}

static status scale_along(converter *c, const ir_value *x, int input, int axis, ir_value **out) {
  TRY(ir_cast(c->g, converter_input(c, input), ACL_FLOAT, out));
  return (*out)->tensor.rank > 1 ? ST_OK : spread(c, x, *out, axis, 0, out);
}

static status convert_qlinear_matmul(converter *c) {
  ir_value *a = converter_input(c, 0), *b = converter_input(c, 3), *scale_a, *scale_b, *scale_y, *y;
  TRY(scale_along(c, a, 1, a->tensor.rank - 2, &scale_a));
  TRY(scale_along(c, b, 4, b->tensor.rank - 1, &scale_b));
  TRY(ir_cast(c->g, converter_input(c, 6), ACL_FLOAT, &scale_y));
  TRY(converter_integer_product(c, a, converter_input(c, 2), b, converter_input(c, 5), &y));
  TRY(requantised(c, y, scale_a, scale_b, scale_y, converter_input(c, 7), &y));
  return converter_output(c, 0, y);
}

/* Weights below which the kernel of ConvolutionInteger takes longer than the way through float. One thread of a Zen 4:
 * 8 channels to 8 by 3 x 3 take 1.6 times as long, 16 to 32 take 0.8 of the time, 64 to 64 a third. */
enum { LEAST_WEIGHTS = 2048 };

/* Whether a convolution has a kernel for 8-bit integers, which is faster than the way through float. */
static bool has_integer_kernel(const converter *c, const ir_value *x, const ir_value *x_zero, const ir_value *w,
                               const ir_value *w_zero) {
  const tensor *t = &x->tensor;
  const bool bytes = dtype_bytes(t->dtype) == 1 && dtype_bytes(w->tensor.dtype) == 1;
  return bytes && attribute_int(c, "group", 1) == 1 && t->rank >= 3 && t->rank <= 5 && w->tensor.rank == t->rank &&
         w->tensor.dims[1] == t->dims[1] && t->n && w->tensor.n >= LEAST_WEIGHTS && zero_is_plain(x_zero, 1) &&
         zero_is_plain(w_zero, w->tensor.dims[0]);
}

/* Such a convolution. The kernel takes weights with the outputs last; those of a model are constants, turned now. */
static status byte_convolution(converter *c, ir_value *x, ir_value *x_zero, ir_value *w, ir_value *w_zero,
                               ir_value **y) {
  int64_t dims[MAX_RANK], margins[2 * MAX_RANK];
  int order[MAX_RANK];
  onnx_window window;
  const int rank = x->tensor.rank;
  TRY(converter_window(c, x, w->tensor.dims + 2, &window));
  dims[0] = x->tensor.dims[0];
  dims[1] = w->tensor.dims[0];
  for (int d = 0; d < window.n; ++d) {
    dims[d + 2] = window_places(&window, d, x->tensor.dims[d + 2], false);
    margins[2 * d] = window.before[d];
    margins[2 * d + 1] = window.after[d];
    order[d] = d + 2;
  }
  order[rank - 2] = 1;
  order[rank - 1] = 0;
  const aclIntArray *stride = ir_int_array(c->g, window.stride, window.n);
  const aclIntArray *padding = ir_int_array(c->g, margins, 2 * window.n);
  const aclIntArray *dilation = ir_int_array(c->g, window.dilation, window.n);
  if (!stride || !padding || !dilation) return ST_NO_HOST_MEMORY;
  TRY(as_signed(c, &w, &w_zero));
  TRY(ir_permuted(c->g, w, order, &w));
  TRY(ir_contiguous(c->g, w, &w));
  TRY(ir_contiguous(c->g, x, &x));
  TRY(ir_temporary(c->g, ACL_INT32, dims, rank, y));
  return node_ConvolutionInteger(c->g, x, w, x_zero, w_zero, NULL, NULL, *y, stride, padding, dilation);
}

/* A convolution of integers. The kernels have no double numbers, so long sums are cut into groups of input channels,
 * each of which is exact in float, and are added in int32. */
static status integer_convolution(converter *c, ir_value *x, ir_value *w, ir_value *bias, ir_value **y) {
  const int64_t channels = w->tensor.dims[1], window = channels ? w->tensor.n / (w->tensor.dims[0] * channels) : 1;
  int64_t most = (1 << 24) / (255 * 255) / (window ? window : 1);
  if (most < 1) most = 1;
  if (attribute_int(c, "group", 1) != 1 && channels > most)
    return OP_FAIL("groups of %jd channels are not supported for integers", (intmax_t)channels);
  TRY(ir_cast(c->g, x, ACL_FLOAT, &x));
  TRY(ir_cast(c->g, w, ACL_FLOAT, &w));
  for (int64_t start = 0; start < channels; start += most) {
    tensor in = x->tensor, of = w->tensor;
    ir_value *part_x = x, *part_w = w, *sum;
    if (channels > most) {
      in.dims[1] = of.dims[1] = channels - start < most ? channels - start : most;
      TRY(ir_view(c->g, x, in.dims, in.strides, in.rank, start * in.strides[1], &part_x));
      TRY(ir_view(c->g, w, of.dims, of.strides, of.rank, start * of.strides[1], &part_w));
    }
    TRY(converter_convolution(c, part_x, part_w, NULL, &sum));
    TRY(ir_cast(c->g, sum, ACL_INT32, &sum));
    if (start)
      TRY(converter_binary(c, &op_Add, *y, sum, ACL_INT32, y));
    else
      *y = sum;
  }
  if (!bias) return ST_OK;
  TRY(spread(c, *y, bias, 1, 0, &bias));
  return converter_binary(c, &op_Add, *y, bias, ACL_INT32, y);
}

/* The convolution of 8-bit integers less their zero points, as int32. */
static status zeroed_convolution(converter *c, ir_value *x, ir_value *x_zero, ir_value *w, ir_value *w_zero,
                                 ir_value *bias, ir_value **y) {
  if (!has_integer_kernel(c, x, x_zero, w, w_zero)) {
    TRY(centred(c, x, x_zero, 0, &x));
    TRY(centred(c, w, w_zero, 0, &w));
    return integer_convolution(c, x, w, bias, y);
  }
  TRY(byte_convolution(c, x, x_zero, w, w_zero, y));
  if (!bias) return ST_OK;
  TRY(spread(c, *y, bias, 1, 0, &bias));
  return converter_binary(c, &op_Add, *y, bias, ACL_INT32, y);
}

static status convert_conv_integer(converter *c) {
  ir_value *y;
  TRY(zeroed_convolution(c, converter_input(c, 0), converter_input(c, 2), converter_input(c, 1), converter_input(c, 3),
                         NULL, &y));
  return converter_output(c, 0, y);
}

static status convert_qlinear_conv(converter *c) {
  ir_value *x = converter_input(c, 0), *w = converter_input(c, 3), *scale_x, *scale_w, *scale_y, *y;
  TRY(ir_cast(c->g, converter_input(c, 1), ACL_FLOAT, &scale_x));
  TRY(ir_cast(c->g, converter_input(c, 6), ACL_FLOAT, &scale_y));
  TRY(scale_along(c, x, 4, 1, &scale_w));
  TRY(zeroed_convolution(c, x, converter_input(c, 2), w, converter_input(c, 5), converter_input(c, 8), &y));
  TRY(requantised(c, y, scale_x, scale_w, scale_y, converter_input(c, 7), &y));
  return converter_output(c, 0, y);
}

const onnx_operator onnx_quantised[] = {
    {"QuantizeLinear", convert_quantize, 2, NULL, 0},
    {"DequantizeLinear", convert_dequantize, 2, NULL, 0},
    {"DynamicQuantizeLinear", convert_dynamic_quantize, 1, NULL, 0},
    {"MatMulInteger", convert_matmul_integer, 2, NULL, 0},
    {"QLinearMatMul", convert_qlinear_matmul, 8, NULL, 0},
    {"ConvInteger", convert_conv_integer, 2, NULL, 0},
    {"QLinearConv", convert_qlinear_conv, 8, NULL, 0},
    {0},
};
