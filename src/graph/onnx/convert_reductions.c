/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over axes, selections and scans along one axis. */
#include <math.h>
#include <string.h>

#include "graph/nodes.h"
#include "graph/onnx/convert.h"

typedef struct {
  bool reduced[MAX_RANK];
  bool keep;
  int rank; /* of the result */
  int64_t dims[MAX_RANK];
  const aclIntArray *axes; /* those that are reduced */
} reduction;

/* The axes of a reduction, which all have keepdims; none given: all axes, or none by noop_with_empty_axes. */
static status read_reduction(converter *c, const ir_value *x, reduction *r) {
  const int64_t *axes;
  int64_t list[MAX_RANK];
  int n, n_reduced = 0;
  *r = (reduction){.keep = attribute_int(c, "keepdims", 1)};
  TRY(converter_ints(c, "axes", 1, &axes, &n));
  const bool all = n <= 0 && !attribute_int(c, "noop_with_empty_axes", 0);
  for (int i = 0; i < n; ++i) {
    int axis;
    TRY(converter_axis(axes[i], x->tensor.rank, &axis));
    r->reduced[axis] = true;
  }
  for (int d = 0; d < x->tensor.rank; ++d) {
    r->reduced[d] |= all;
    if (r->reduced[d]) list[n_reduced++] = d;
    if (!r->reduced[d] || r->keep) r->dims[r->rank++] = r->reduced[d] ? 1 : x->tensor.dims[d];
  }
  r->axes = ir_int_array(c->g, list, n_reduced);
  return r->axes ? ST_OK : ST_NO_HOST_MEMORY;
}

enum { SUM, MEAN, MAXIMUM, MINIMUM, PRODUCT, L1, L2, LOG_SUM, LOG_SUM_EXP, SUM_SQUARE };

static status reduced_sum(converter *c, const reduction *r, ir_value *x, ir_value **out) {
  TRY(ir_temporary(c->g, x->tensor.dtype, r->dims, r->rank, out));
  return node_ReduceSum(c->g, x, r->axes, r->keep, x->tensor.dtype, *out);
}

/* Products of several axes are made one axis after the other. */
static status reduced_product(converter *c, const reduction *r, ir_value *x, ir_value **out) {
  for (uint64_t i = 0; i < r->axes->size; ++i) {
    int64_t dims[MAX_RANK];
    ir_value *y;
    memcpy(dims, x->tensor.dims, sizeof dims);
    dims[r->axes->value[i]] = 1;
    TRY(ir_temporary(c->g, x->tensor.dtype, dims, x->tensor.rank, &y));
    TRY(node_ProdDim(c->g, x, r->axes->value[i], true, x->tensor.dtype, y));
    x = y;
  }
  return ir_reshaped(c->g, x, r->dims, r->rank, out);
}

/* The extreme of nothing: what any number is beyond. */
static status extreme_of_nothing(converter *c, const reduction *r, int dtype, ir_value **out) {
  const bool maximum = c->entry->number == MAXIMUM;
  const int bits = 8 * (int)dtype_bytes(dtype);
  double number = maximum ? -INFINITY : INFINITY;
  if (dtype == ACL_BOOL || dtype == ACL_UINT8) number = maximum ? 0 : dtype == ACL_BOOL ? 1 : 255;
  if (dtype == ACL_INT8 || dtype == ACL_INT32 || dtype == ACL_INT64)
    number = maximum ? -pow(2, bits - 1) : pow(2, bits - 1);
  TRY(ir_number(c->g, dtype, number, out));
  return ir_expanded(c->g, *out, r->dims, r->rank, out);
}

static status reduced(converter *c, const reduction *r, ir_value *x, ir_value **out) {
  ir_graph *g = c->g;
  const int dtype = x->tensor.dtype;
  ir_value *y;
  if (!x->tensor.n && (c->entry->number == MAXIMUM || c->entry->number == MINIMUM))
    return extreme_of_nothing(c, r, dtype, out);
  switch (c->entry->number) {
  case SUM: return reduced_sum(c, r, x, out);
  case PRODUCT: return reduced_product(c, r, x, out);
  case SUM_SQUARE:
  case L2:
    TRY(converter_unary(c, &op_Square, x, dtype, &y));
    TRY(reduced_sum(c, r, y, out));
    return c->entry->number == L2 ? converter_unary(c, &op_Sqrt, *out, dtype, out) : ST_OK;
  case L1: TRY(converter_unary(c, &op_Abs, x, dtype, &y)); return reduced_sum(c, r, y, out);
  case LOG_SUM: TRY(reduced_sum(c, r, x, &y)); return converter_unary(c, &op_Log, y, dtype, out);
  default: break;
  }
  TRY(ir_temporary(g, dtype, r->dims, r->rank, out));
  switch (c->entry->number) {
  case MEAN: return node_Mean(g, x, r->axes, r->keep, dtype, *out);
  case MAXIMUM: return node_Amax(g, x, r->axes, r->keep, *out);
  case MINIMUM: return node_Amin(g, x, r->axes, r->keep, *out);
  default: return node_LogSumExp(g, x, r->axes, r->keep, *out);
  }
}

/* Integers are summed as int64, and their roots and logarithms are those of double numbers. */
static int reduced_dtype(int number, int dtype) {
  if (dtype_is_float(dtype) || number == MAXIMUM || number == MINIMUM) return dtype;
  return number == SUM || number == PRODUCT || number == SUM_SQUARE || number == L1 ? ACL_INT64 : ACL_DOUBLE;
}

static status convert_reduce(converter *c) {
  ir_value *x = converter_input(c, 0), *y;
  const int dtype = x->tensor.dtype;
  reduction r;
  TRY(read_reduction(c, x, &r));
  if (!r.axes->size && c->entry->number != L1 && c->entry->number != L2 && c->entry->number < LOG_SUM)
    return converter_output(c, 0, x);
  TRY(ir_cast(c->g, x, reduced_dtype(c->entry->number, dtype), &x));
  if (r.axes->size) {
    TRY(reduced(c, &r, x, &y));
  } else { /* each element by itself: reduce a dimension of one */
    int64_t dims[MAX_RANK];
    memcpy(dims, x->tensor.dims, sizeof dims);
    dims[x->tensor.rank] = 1;
    const int64_t last = x->tensor.rank;
    if (last == MAX_RANK) return OP_FAIL("the input has %d dimensions, fewer are expected here", MAX_RANK);
    if (!(r.axes = ir_int_array(c->g, &last, 1))) return ST_NO_HOST_MEMORY;
    r.keep = false;
    TRY(ir_reshaped(c->g, x, dims, (int)last + 1, &x));
    TRY(reduced(c, &r, x, &y));
  }
  TRY(ir_cast(c->g, y, dtype, &y));
  return converter_output(c, 0, y);
}

/* ---- one axis ---------------------------------------------------------------------------------------------------- */

static status flipped(converter *c, ir_value *x, int axis, ir_value **out) {
  const int64_t list[] = {axis};
  const aclIntArray *axes = ir_int_array(c->g, list, 1);
  if (!axes) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, x->tensor.dtype, x->tensor.dims, x->tensor.rank, out));
  return node_Flip(c->g, x, axes, *out);
}

/* The number of the largest or least element. The last one of several equals is the first of the flipped value. */
static status index_of_extreme(converter *c, ir_value *x, int axis, bool last, bool largest, ir_value **out) {
  int64_t dims[MAX_RANK];
  memcpy(dims, x->tensor.dims, sizeof dims);
  dims[axis] = 1;
  if (last) TRY(flipped(c, x, axis, &x));
  TRY(ir_temporary(c->g, ACL_INT64, dims, x->tensor.rank, out));
  if (largest)
    TRY(node_ArgMax(c->g, x, axis, true, *out));
  else
    TRY(node_ArgMin(c->g, x, axis, true, *out));
  if (!last) return ST_OK;
  ir_value *end;
  TRY(ir_number(c->g, ACL_INT64, (double)(x->tensor.dims[axis] - 1), &end));
  return converter_binary(c, &op_Sub, end, *out, ACL_INT64, out);
}

static status without_axis(converter *c, ir_value *x, int axis, ir_value **out) {
  int64_t dims[MAX_RANK];
  int rank = 0;
  for (int d = 0; d < x->tensor.rank; ++d)
    if (d != axis) dims[rank++] = x->tensor.dims[d];
  return ir_reshaped(c->g, x, dims, rank, out);
}

static status convert_arg(converter *c) {
  ir_value *x = converter_input(c, 0), *y;
  int axis;
  TRY(converter_axis(attribute_int(c, "axis", 0), x->tensor.rank, &axis));
  TRY(index_of_extreme(c, x, axis, attribute_int(c, "select_last_index", 0), c->entry->number, &y));
  if (!attribute_int(c, "keepdims", 1)) TRY(without_axis(c, y, axis, &y));
  return converter_output(c, 0, y);
}

/* Before version 13, functions along an axis take everything from the axis on as one row. */
static status as_rows(converter *c, ir_value **x, int otherwise, int *axis) {
  const tensor *t = &(*x)->tensor;
  TRY(converter_axis(attribute_int(c, "axis", c->version >= 13 ? -1 : otherwise), t->rank, axis));
  if (c->version >= 13) return ST_OK;
  int64_t dims[2] = {1, 1};
  for (int d = 0; d < t->rank; ++d) dims[d >= *axis] *= t->dims[d];
  *axis = 1;
  return ir_reshaped(c->g, *x, dims, 2, x);
}

enum { SOFTMAX, LOG_SOFTMAX, HARDMAX };

static status convert_softmax(converter *c) {
  ir_value *x = converter_input(c, 0), *rows = x, *y;
  int axis;
  TRY(as_rows(c, &rows, 1, &axis));
  TRY(ir_temporary(c->g, x->tensor.dtype, rows->tensor.dims, rows->tensor.rank, &y));
  if (c->entry->number == SOFTMAX) {
    TRY(node_Softmax(c->g, rows, axis, y));
  } else if (c->entry->number == LOG_SOFTMAX) {
    TRY(node_LogSoftmax(c->g, rows, axis, y));
  } else { /* 1 where the first maximum is */
    ir_value *index, *numbers;
    int64_t dims[MAX_RANK];
    for (int d = 0; d < rows->tensor.rank; ++d) dims[d] = d == axis ? rows->tensor.dims[d] : 1;
    TRY(index_of_extreme(c, rows, axis, false, true, &index));
    TRY(ir_constant(c->g, ACL_INT64, dims, rows->tensor.rank, NULL, &numbers));
    for (int64_t i = 0; i < dims[axis]; ++i) ((int64_t *)ir_fill(numbers))[i] = i;
    TRY(converter_binary(c, &op_EqTensor, numbers, index, ACL_BOOL, &y));
    TRY(ir_cast(c->g, y, x->tensor.dtype, &y));
  }
  TRY(ir_reshaped(c->g, y, x->tensor.dims, x->tensor.rank, &y));
  return converter_output(c, 0, y);
}

static status convert_cumsum(converter *c) {
  ir_value *x = converter_input(c, 0), *y;
  const int64_t *given;
  int n, axis;
  TRY(converter_constant_ints(c, 1, &given, &n));
  TRY(converter_axis(given[0], x->tensor.rank, &axis));
  TRY(ir_temporary(c->g, x->tensor.dtype, x->tensor.dims, x->tensor.rank, &y));
  TRY(node_CumsumV2(c->g, x, axis, attribute_int(c, "exclusive", 0), attribute_int(c, "reverse", 0), y));
  return converter_output(c, 0, y);
}

static status convert_top_k(converter *c) {
  ir_value *x = converter_input(c, 0), *values, *indices;
  int64_t dims[MAX_RANK], k = attribute_int(c, "k", 0);
  int axis;
  TRY(converter_axis(attribute_int(c, "axis", -1), x->tensor.rank, &axis));
  if (converter_input(c, 1)) {
    const int64_t *given;
    int n;
    TRY(converter_constant_ints(c, 1, &given, &n));
    k = given[0];
  }
  if (k < 0 || k > x->tensor.dims[axis])
    return OP_FAIL("k is %jd, expected 0 to %jd", (intmax_t)k, (intmax_t)x->tensor.dims[axis]);
  memcpy(dims, x->tensor.dims, sizeof dims);
  dims[axis] = k;
  const int dtype = x->tensor.dtype;
  if (dtype == ACL_UINT64 || dtype == ACL_UINT32 || dtype == ACL_UINT16) TRY(ir_cast(c->g, x, ACL_INT64, &x));
  TRY(ir_temporary(c->g, x->tensor.dtype, dims, x->tensor.rank, &values));
  TRY(ir_temporary(c->g, ACL_INT64, dims, x->tensor.rank, &indices));
  TRY(node_Topk(c->g, x, k, axis, attribute_int(c, "largest", 1), attribute_int(c, "sorted", 1), values, indices));
  TRY(ir_cast(c->g, values, dtype, &values));
  TRY(converter_output(c, 0, values));
  return converter_output(c, 1, indices);
}

const onnx_operator onnx_reductions[] = {
    {"ReduceSum", convert_reduce, 1, NULL, SUM},
    {"ReduceMean", convert_reduce, 1, NULL, MEAN},
    {"ReduceMax", convert_reduce, 1, NULL, MAXIMUM},
    {"ReduceMin", convert_reduce, 1, NULL, MINIMUM},
    {"ReduceProd", convert_reduce, 1, NULL, PRODUCT},
    {"ReduceL1", convert_reduce, 1, NULL, L1},
    {"ReduceL2", convert_reduce, 1, NULL, L2},
    {"ReduceLogSum", convert_reduce, 1, NULL, LOG_SUM},
    {"ReduceLogSumExp", convert_reduce, 1, NULL, LOG_SUM_EXP},
    {"ReduceSumSquare", convert_reduce, 1, NULL, SUM_SQUARE},
    {"ArgMax", convert_arg, 1, NULL, 1},
    {"ArgMin", convert_arg, 1, NULL, 0},
    {"Softmax", convert_softmax, 1, NULL, SOFTMAX},
    {"LogSoftmax", convert_softmax, 1, NULL, LOG_SOFTMAX},
    {"Hardmax", convert_softmax, 1, NULL, HARDMAX},
    {"CumSum", convert_cumsum, 2, NULL, 0},
    {"TopK", convert_top_k, 1, NULL, 0},
    {0},
};
