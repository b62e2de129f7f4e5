/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling. Usual windows have kernels; others are reductions over a view of the padded input in which the window's
 * places and its elements are dimensions of their own. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "graph/nodes.h"
#include "graph/onnx/convert.h"

enum { MAXIMUM, AVERAGE, LP };

typedef struct {
  onnx_window w;
  int64_t dims[MAX_RANK]; /* of the result */
  bool dilated, beyond;   /* a window has gaps; the last one reaches beyond the margin */
} pool;

static status read_pool(converter *c, const ir_value *x, pool *p) {
  const bool up = attribute_int(c, "ceil_mode", 0);
  *p = (pool){0};
  TRY(converter_window(c, x, NULL, &p->w));
  memcpy(p->dims, x->tensor.dims, sizeof p->dims);
  for (int d = 0; d < p->w.n; ++d) {
    const int64_t size = x->tensor.dims[d + 2];
    p->dims[d + 2] = window_places(&p->w, d, size, up);
    p->dilated |= p->w.dilation[d] > 1;
    p->beyond |= p->dims[d + 2] != window_places(&p->w, d, size, false);
  }
  return ST_OK;
}

/* The view of x, padded with a number, with dims [batch, channels, places..., window...]. */
static status windows_of(converter *c, ir_value *x, const pool *p, double number, ir_value **out) {
  const int n = p->w.n, rank = n + 2;
  int64_t before[MAX_RANK] = {0}, after[MAX_RANK] = {0}, dims[MAX_RANK], strides[MAX_RANK];
  if (rank + n > MAX_RANK) return OP_FAIL("the window has %d dimensions, at most 3 are supported", n);
  for (int d = 0; d < n; ++d) {
    const onnx_window *w = &p->w;
    const int64_t reach = (p->dims[d + 2] - 1) * w->stride[d] + (w->size[d] - 1) * w->dilation[d] + 1;
    const int64_t more = reach - x->tensor.dims[d + 2] - w->before[d];
    before[d + 2] = w->before[d];
    after[d + 2] = more > 0 ? more : 0;
  }
  TRY(converter_padded(c, x, before, after, number, &x));
  memcpy(dims, p->dims, sizeof dims);
  memcpy(strides, x->tensor.strides, sizeof strides);
  for (int d = 0; d < n; ++d) {
    dims[rank + d] = p->w.size[d];
    strides[rank + d] = x->tensor.strides[d + 2] * p->w.dilation[d];
    strides[d + 2] = x->tensor.strides[d + 2] * p->w.stride[d];
  }
  return ir_view(c->g, x, dims, strides, rank + n, 0, out);
}

static const aclIntArray *window_axes(converter *c, const pool *p) {
  int64_t axes[MAX_RANK];
  for (int d = 0; d < p->w.n; ++d) axes[d] = p->w.n + 2 + d;
  return ir_int_array(c->g, axes, p->w.n);
}

/* A value of three dimensions as one of four, whose height is 1; and the window likewise. */
static status as_image(converter *c, ir_value **x, pool *p) {
  if (p->w.n != 1) return ST_OK;
  const int64_t *in = (*x)->tensor.dims;
  TRY(ir_reshaped(c->g, *x, (const int64_t[]){in[0], in[1], 1, in[2]}, 4, x));
  onnx_window *w = &p->w;
  int64_t *const lists[] = {w->size, w->stride, w->dilation, w->before, w->after};
  for (int i = 0; i < 5; ++i) {
    lists[i][1] = lists[i][0];
    lists[i][0] = i < 3;
  }
  w->n = 2;
  p->dims[3] = p->dims[2];
  p->dims[2] = 1;
  return ST_OK;
}

/* ---- maximum ----------------------------------------------------------------------------------------------------- */

static double least_number(int dtype) {
  if (dtype == ACL_INT8) return INT8_MIN;
  return dtype_is_float(dtype) ? -INFINITY : 0;
}

/* Elements are numbered over the whole input, and by columns if storage_order says so. The kernels number them within a
 * plane. */
static status number_elements(converter *c, const ir_value *x, const pool *p, ir_value *in_plane, ir_value **out) {
  const int64_t plane = p->w.n == 2 ? x->tensor.dims[2] * x->tensor.dims[3] : x->tensor.dims[2];
  const int64_t of[] = {x->tensor.dims[0], x->tensor.dims[1], 1, 1};
  ir_value *start, *y;
  TRY(ir_cast(c->g, in_plane, ACL_INT64, &y));
  if (attribute_int(c, "storage_order", 0) && p->w.n == 2) {
    const int64_t height = x->tensor.dims[2], width = x->tensor.dims[3];
    ir_value *h, *w, *row, *column;
    TRY(ir_number(c->g, ACL_INT64, (double)height, &h));
    TRY(ir_number(c->g, ACL_INT64, (double)width, &w));
    TRY(converter_binary(c, &op_FloorDivide, y, w, ACL_INT64, &row));
    TRY(converter_binary(c, &op_RemainderTensorTensor, y, w, ACL_INT64, &column));
    TRY(converter_binary(c, &op_Mul, column, h, ACL_INT64, &column));
    TRY(converter_binary(c, &op_Add, row, column, ACL_INT64, &y));
  }
  TRY(ir_constant(c->g, ACL_INT64, of, p->w.n + 2, NULL, &start));
  for (int64_t i = 0; i < of[0] * of[1]; ++i) ((int64_t *)ir_fill(start))[i] = i * plane;
  return converter_binary(c, &op_Add, y, start, ACL_INT64, out);
}

static status max_with_indices(converter *c, ir_value *x, pool *p) {
  const ir_value *given = x;
  const int n = x->tensor.rank - 2;
  if (n > 2) return OP_FAIL("indices of a pooling of %d dimensions are not supported", n);
  ir_value *y, *indices, *numbers;
  if (!p->w.even) return OP_FAIL("indices with margins that differ are not supported");
  TRY(as_image(c, &x, p));
  const onnx_window *w = &p->w;
  const aclIntArray *size = ir_int_array(c->g, w->size, 2), *stride = ir_int_array(c->g, w->stride, 2);
  const aclIntArray *padding = ir_int_array(c->g, w->before, 2), *dilation = ir_int_array(c->g, w->dilation, 2);
  if (!size || !stride || !padding || !dilation) return ST_NO_HOST_MEMORY;
  ir_value *computed;
  const int dtype = x->tensor.dtype;
  TRY(ir_cast(c->g, x, dtype_is_float(dtype) ? dtype : ACL_FLOAT, &computed));
  TRY(ir_temporary(c->g, computed->tensor.dtype, p->dims, 4, &y));
  TRY(ir_temporary(c->g, ACL_INT64, p->dims, 4, &indices));
  TRY(node_MaxPool2dWithIndices(c->g, computed, size, stride, padding, dilation, p->beyond, y, indices));
  TRY(ir_cast(c->g, y, dtype, &y));
  if (n == 1) {
    const int64_t flat[] = {p->dims[0], p->dims[1], p->dims[3]};
    TRY(ir_reshaped(c->g, y, flat, 3, &y));
    TRY(ir_reshaped(c->g, indices, flat, 3, &indices));
    p->w.n = 1;
  }
  TRY(number_elements(c, given, p, indices, &numbers));
  TRY(converter_output(c, 0, y));
  return converter_output(c, 1, numbers);
}

/* By the kernel, which takes images. */
static status max_of_images(converter *c, ir_value *x, pool *p, ir_value **out) {
  const int n = x->tensor.rank - 2;
  TRY(as_image(c, &x, p));
  const onnx_window *w = &p->w;
  const int64_t pads[] = {w->before[0], w->before[1], w->after[0], w->after[1]};
  const aclIntArray *size = ir_int_array(c->g, w->size, 2), *stride = ir_int_array(c->g, w->stride, 2);
  const aclIntArray *margins = ir_int_array(c->g, pads, 4), *dilation = ir_int_array(c->g, w->dilation, 2);
  if (!size || !stride || !margins || !dilation) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, x->tensor.dtype, p->dims, 4, out));
  TRY(node_MaxPool(c->g, x, size, stride, 0, margins, dilation, 0, *out));
  return n == 2 ? ST_OK : ir_reshaped(c->g, *out, (const int64_t[]){p->dims[0], p->dims[1], p->dims[3]}, 3, out);
}

static status convert_max_pool(converter *c) {
  ir_value *x = converter_input(c, 0), *y, *windows;
  pool p;
  TRY(read_pool(c, x, &p));
  if (converter_wants(c, 1)) return max_with_indices(c, x, &p);
  bool usual = p.w.n < 3 && !p.dilated && !p.beyond;
  usual &= x->tensor.dtype == ACL_FLOAT || x->tensor.dtype == ACL_FLOAT16;
  for (int d = 0; d < p.w.n; ++d) usual &= p.w.before[d] + p.w.after[d] <= p.w.size[d];
  if (usual) {
    TRY(max_of_images(c, x, &p, &y));
    return converter_output(c, 0, y);
  }
  TRY(windows_of(c, x, &p, least_number(x->tensor.dtype), &windows));
  const aclIntArray *axes = window_axes(c, &p);
  if (!axes) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, x->tensor.dtype, p.dims, x->tensor.rank, &y));
  TRY(node_Amax(c->g, windows, axes, false, y));
  return converter_output(c, 0, y);
}

/* ---- averages and sums ------------------------------------------------------------------------------------------- */

/* How many elements along dimension d the window has at a place that count: those inside, with the margins or not. */
static int64_t counted(const pool *p, int d, int64_t size, int64_t place, bool margins) {
  const onnx_window *w = &p->w;
  int64_t n = 0;
  for (int64_t k = 0; k < w->size[d]; ++k) {
    const int64_t at = place * w->stride[d] + k * w->dilation[d] - w->before[d];
    n += margins ? at < size + w->after[d] : at >= 0 && at < size;
  }
  return n;
}

/* 1 / the number of elements of the window at each place: a constant. */
static status inverse_counts(converter *c, const ir_value *x, const pool *p, bool margins, ir_value **out) {
  int64_t dims[MAX_RANK] = {1, 1}, at[MAX_RANK] = {0};
  memcpy(dims + 2, p->dims + 2, (size_t)p->w.n * sizeof *dims);
  TRY(ir_constant(c->g, ACL_DOUBLE, dims, p->w.n + 2, NULL, out));
  double *to = ir_fill(*out);
  for (int64_t i = 0; i < (*out)->tensor.n; ++i) {
    int64_t n = 1;
    for (int d = 0; d < p->w.n; ++d) n *= counted(p, d, x->tensor.dims[d + 2], at[d], margins);
    to[i] = n ? 1 / (double)n : 0;
    for (int d = p->w.n - 1; d >= 0 && ++at[d] == p->dims[d + 2]; --d) at[d] = 0;
  }
  return ir_cast(c->g, *out, x->tensor.dtype, out);
}

static status sum_of_windows(converter *c, ir_value *x, const pool *p, ir_value **out) {
  ir_value *windows;
  const aclIntArray *axes = window_axes(c, p);
  if (!axes) return ST_NO_HOST_MEMORY;
  TRY(windows_of(c, x, p, 0, &windows));
  TRY(ir_temporary(c->g, x->tensor.dtype, p->dims, x->tensor.rank, out));
  return node_ReduceSum(c->g, windows, axes, false, x->tensor.dtype, *out);
}

static status average_of_images(converter *c, ir_value *x, pool *p, bool margins, ir_value **out) {
  const int n = x->tensor.rank - 2;
  TRY(as_image(c, &x, p));
  const aclIntArray *size = ir_int_array(c->g, p->w.size, 2), *stride = ir_int_array(c->g, p->w.stride, 2);
  const aclIntArray *padding = ir_int_array(c->g, p->w.before, 2);
  if (!size || !stride || !padding) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, x->tensor.dtype, p->dims, 4, out));
  TRY(node_AvgPool2d(c->g, x, size, stride, padding, false, margins, 0, 0, *out));
  return n == 2 ? ST_OK : ir_reshaped(c->g, *out, (const int64_t[]){p->dims[0], p->dims[1], p->dims[3]}, 3, out);
}

static status convert_average_pool(converter *c) {
  ir_value *x = converter_input(c, 0), *y, *counts;
  const bool margins = attribute_int(c, "count_include_pad", 0);
  pool p;
  TRY(read_pool(c, x, &p));
  bool narrow = true; /* the kernel wants margins of at most half the window */
  for (int d = 0; d < p.w.n; ++d) narrow &= 2 * p.w.before[d] <= p.w.size[d];
  if (p.w.n < 3 && p.w.even && narrow && !p.dilated && !p.beyond) {
    TRY(average_of_images(c, x, &p, margins, &y));
    return converter_output(c, 0, y);
  }
  TRY(inverse_counts(c, x, &p, margins, &counts));
  TRY(sum_of_windows(c, x, &p, &y));
  TRY(converter_binary(c, &op_Mul, y, counts, x->tensor.dtype, &y));
  return converter_output(c, 0, y);
}

/* (sum of |x|^p)^(1/p) */
static status convert_lp_pool(converter *c) {
  ir_value *x = converter_input(c, 0), *size, *powers, *sums, *y;
  pool p;
  const double exponent = (double)attribute_int(c, "p", 2);
  const scalar *power = ir_scalar(c->g, ACL_DOUBLE, exponent), *root = ir_scalar(c->g, ACL_DOUBLE, 1 / exponent);
  if (!power || !root) return ST_NO_HOST_MEMORY;
  TRY(read_pool(c, x, &p));
  TRY(converter_unary(c, &op_Abs, x, x->tensor.dtype, &size));
  TRY(ir_temporary(c->g, x->tensor.dtype, x->tensor.dims, x->tensor.rank, &powers));
  TRY(node_PowTensorScalar(c->g, size, power, powers));
  TRY(sum_of_windows(c, powers, &p, &sums));
  TRY(ir_temporary(c->g, x->tensor.dtype, p.dims, x->tensor.rank, &y));
  TRY(node_PowTensorScalar(c->g, sums, root, y));
  return converter_output(c, 0, y);
}

/* ---- over everything --------------------------------------------------------------------------------------------- */

static status convert_global_pool(converter *c) {
  ir_value *x = converter_input(c, 0), *y;
  int64_t dims[MAX_RANK], axes[MAX_RANK];
  const int n = x->tensor.rank - 2;
  if (n < 1) return OP_FAIL("the input has %d dimensions, expected 3 or more", x->tensor.rank);
  for (int d = 0; d < x->tensor.rank; ++d) dims[d] = d < 2 ? x->tensor.dims[d] : 1;
  for (int d = 0; d < n; ++d) axes[d] = d + 2;
  const aclIntArray *list = ir_int_array(c->g, axes, n);
  const scalar *order = ir_scalar(c->g, ACL_FLOAT, (double)attribute_int(c, "p", 2));
  if (!list || !order) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, x->tensor.dtype, dims, x->tensor.rank, &y));
  if (c->entry->number == AVERAGE)
    TRY(node_Mean(c->g, x, list, true, x->tensor.dtype, y));
  else if (c->entry->number == MAXIMUM)
    TRY(node_Amax(c->g, x, list, true, y));
  else
    TRY(node_LinalgVectorNorm(c->g, x, order, list, true, x->tensor.dtype, y));
  return converter_output(c, 0, y);
}

/* ---- back -------------------------------------------------------------------------------------------------------- */

/* Values go back to where MaxPool took them from; indices are over the whole result. */
static status convert_max_unpool(converter *c) {
  ir_value *x = converter_input(c, 0), *indices = converter_input(c, 1), *zeros, *y;
  int64_t dims[MAX_RANK], n = 1;
  onnx_window w;
  TRY(converter_window(c, x, NULL, &w));
  memcpy(dims, x->tensor.dims, sizeof dims);
  for (int d = 0; d < w.n; ++d)
    dims[d + 2] = (x->tensor.dims[d + 2] - 1) * w.stride[d] + w.size[d] - w.before[d] - w.after[d];
  if (converter_input(c, 2)) {
    const int64_t *wanted;
    int given;
    TRY(converter_constant_ints(c, 2, &wanted, &given));
    if (given != x->tensor.rank) return OP_FAIL("output_shape has %d elements, expected %d", given, x->tensor.rank);
    /* The indices are of the smaller shape, whose last rows and columns are at the same place in a larger one. */
    int64_t from[MAX_RANK], strides[MAX_RANK], all = 1;
    for (int d = given - 1; d >= 0; --d) from[d] = all, all *= dims[d];
    all = 1;
    for (int d = given - 1; d >= 0; --d) strides[d] = all, all *= wanted[d];
    ir_value *moved = NULL, *rest = indices;
    for (int d = 0; d < given; ++d) {
      ir_value *old, *new, *at;
      TRY(ir_number(c->g, ACL_INT64, (double)from[d], &old));
      TRY(ir_number(c->g, ACL_INT64, (double)strides[d], &new));
      TRY(converter_binary(c, &op_FloorDivide, rest, old, ACL_INT64, &at));
      TRY(converter_binary(c, &op_RemainderTensorTensor, rest, old, ACL_INT64, &rest));
      TRY(converter_binary(c, &op_Mul, at, new, ACL_INT64, &at));
      if (moved)
        TRY(converter_binary(c, &op_Add, moved, at, ACL_INT64, &moved));
      else
        moved = at;
      dims[d] = wanted[d];
    }
    indices = moved;
  }
  for (int d = 0; d < x->tensor.rank; ++d) n *= dims[d];
  TRY(ir_number(c->g, x->tensor.dtype, 0, &zeros));
  TRY(ir_expanded(c->g, zeros, &n, 1, &zeros));
  TRY(ir_reshaped(c->g, x, &x->tensor.n, 1, &x));
  TRY(ir_reshaped(c->g, indices, &indices->tensor.n, 1, &indices));
  TRY(ir_temporary(c->g, x->tensor.dtype, &n, 1, &y));
  TRY(node_Scatter(c->g, zeros, 0, indices, x, 0, y));
  TRY(ir_reshaped(c->g, y, dims, w.n + 2, &y));
  return converter_output(c, 0, y);
}

const onnx_operator onnx_pools[] = {
    {"MaxPool", convert_max_pool, 1, NULL, 0},
    {"AveragePool", convert_average_pool, 1, NULL, 0},
    {"LpPool", convert_lp_pool, 1, NULL, 0},
    {"GlobalAveragePool", convert_global_pool, 1, NULL, AVERAGE},
    {"GlobalMaxPool", convert_global_pool, 1, NULL, MAXIMUM},
    {"GlobalLpPool", convert_global_pool, 1, NULL, LP},
    {"MaxUnpool", convert_max_unpool, 2, NULL, 0},
    {0},
};
