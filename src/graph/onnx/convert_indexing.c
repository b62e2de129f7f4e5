/* SPDX-License-Identifier: Apache-2.0 */
/* Elements that are picked by number, and numbers of elements that are picked. */
#include <string.h>

#include "graph/nodes.h"
#include "graph/onnx/convert.h"

status converter_wrapped_softly(converter *c, ir_value *index, int64_t size, ir_value **out) {
  ir_value *zero, *n, *moved, *is_negative;
  TRY(ir_number(c->g, ACL_INT64, 0, &zero));
  TRY(ir_number(c->g, ACL_INT64, (double)size, &n));
  TRY(converter_binary(c, &op_LtTensor, index, zero, ACL_BOOL, &is_negative));
  TRY(converter_binary(c, &op_Add, index, n, ACL_INT64, &moved));
  TRY(ir_temporary(c->g, ACL_INT64, index->tensor.dims, index->tensor.rank, out));
  return node_SWhere(c->g, is_negative, moved, index, *out);
}

status converter_wrapped(converter *c, ir_value *index, int64_t size, ir_value **out) {
  ir_graph *g = c->g;
  TRY(ir_cast(g, index, ACL_INT64, &index));
  *out = index;
  if (value_is_constant(index)) {
    int64_t *numbers = REGION_NEW(&g->memory, int64_t, index->tensor.n);
    bool any = false;
    if (!numbers) return ST_NO_HOST_MEMORY;
    value_read_integers(index, numbers);
    for (int64_t i = 0; i < index->tensor.n; ++i) {
      any |= numbers[i] < 0;
      if (numbers[i] < -size || numbers[i] >= size)
        return OP_FAIL("index %jd is out of range, expected %jd to %jd", (intmax_t)numbers[i], (intmax_t)-size,
                       (intmax_t)(size - 1));
    }
    if (!any) return ST_OK;
  }
  return converter_wrapped_softly(c, index, size, out);
}

/* One constant index: a view. */
static status pick_one(converter *c, ir_value *x, int axis, int64_t at) {
  tensor t = x->tensor;
  const int64_t offset = at * t.strides[axis];
  for (int d = axis; d + 1 < t.rank; ++d) {
    t.dims[d] = t.dims[d + 1];
    t.strides[d] = t.strides[d + 1];
  }
  TRY(ir_view(c->g, x, t.dims, t.strides, t.rank - 1, offset, &x));
  return converter_output(c, 0, x);
}

static status convert_gather(converter *c) {
  ir_value *x = converter_input(c, 0), *index = converter_input(c, 1), *y;
  int64_t dims[2 * MAX_RANK];
  int axis;
  if (!x->tensor.rank) return OP_FAIL("the input has no dimensions, expected 1 or more");
  TRY(converter_axis(attribute_int(c, "axis", 0), x->tensor.rank, &axis));
  TRY(converter_wrapped(c, index, x->tensor.dims[axis], &index));
  if (!index->tensor.rank && value_is_constant(index)) {
    int64_t at;
    value_read_integers(index, &at);
    return pick_one(c, x, axis, at);
  }
  const int rank = x->tensor.rank - 1 + index->tensor.rank;
  memcpy(dims, x->tensor.dims, (size_t)axis * sizeof *dims);
  memcpy(dims + axis, index->tensor.dims, index->tensor.rank * sizeof *dims);
  memcpy(dims + axis + index->tensor.rank, x->tensor.dims + axis + 1,
         (size_t)(x->tensor.rank - axis - 1) * sizeof *dims);
  TRY(ir_temporary(c->g, x->tensor.dtype, dims, rank, &y));
  TRY(node_GatherV2(c->g, x, axis, index, y));
  return converter_output(c, 0, y);
}

static status convert_gather_elements(converter *c) {
  ir_value *x = converter_input(c, 0), *index = converter_input(c, 1), *y;
  int axis;
  TRY(converter_axis(attribute_int(c, "axis", 0), x->tensor.rank, &axis));
  TRY(converter_wrapped(c, index, x->tensor.dims[axis], &index));
  TRY(ir_temporary(c->g, x->tensor.dtype, index->tensor.dims, index->tensor.rank, &y));
  TRY(node_Gather(c->g, x, axis, index, y));
  return converter_output(c, 0, y);
}

/* Puts the number of the batch in front of each index: indices [batch..., rest..., n] become
 * [batch..., rest..., n_batch + n]. */
static status with_batch(converter *c, ir_value *index, int n_batch, ir_value **out) {
  ir_value *columns[MAX_RANK + 1], *y;
  const tensor *t = &index->tensor;
  int64_t dims[MAX_RANK], one[MAX_RANK];
  memcpy(dims, t->dims, sizeof dims);
  dims[t->rank - 1] = 1;
  for (int b = 0; b < n_batch; ++b) {
    for (int d = 0; d < t->rank; ++d) one[d] = d == b ? t->dims[d] : 1;
    TRY(ir_constant(c->g, ACL_INT64, one, t->rank, NULL, &columns[b]));
    for (int64_t i = 0; i < t->dims[b]; ++i) ((int64_t *)ir_fill(columns[b]))[i] = i;
    TRY(ir_expanded(c->g, columns[b], dims, t->rank, &columns[b]));
  }
  columns[n_batch] = index;
  const aclTensorList *list = ir_list(c->g, columns, n_batch + 1);
  if (!list) return ST_NO_HOST_MEMORY;
  dims[t->rank - 1] = t->dims[t->rank - 1] + n_batch;
  TRY(ir_temporary(c->g, ACL_INT64, dims, t->rank, &y));
  TRY(node_Cat(c->g, list, t->rank - 1, y));
  *out = y;
  return ST_OK;
}

static status convert_gather_nd(converter *c) {
  ir_value *x = converter_input(c, 0), *index, *y;
  const int n_batch = (int)attribute_int(c, "batch_dims", 0);
  int64_t dims[2 * MAX_RANK];
  TRY(ir_cast(c->g, converter_input(c, 1), ACL_INT64, &index));
  const tensor *t = &index->tensor;
  if (!t->rank || n_batch < 0 || n_batch >= t->rank || t->dims[t->rank - 1] + n_batch > x->tensor.rank)
    return OP_FAIL("the indices have no fitting last dimension for batch_dims %d and an input of %d dimensions",
                   n_batch, x->tensor.rank);
  const int n = (int)t->dims[t->rank - 1] + n_batch, rank = t->rank - 1 + x->tensor.rank - n;
  memcpy(dims, t->dims, (size_t)(t->rank - 1) * sizeof *dims);
  memcpy(dims + t->rank - 1, x->tensor.dims + n, (size_t)(x->tensor.rank - n) * sizeof *dims);
  if (n_batch) TRY(with_batch(c, index, n_batch, &index));
  TRY(ir_temporary(c->g, x->tensor.dtype, dims, rank, &y));
  TRY(node_GatherNd(c->g, x, index, true, y));
  return converter_output(c, 0, y);
}

/* values[1] where the index is, values[0] elsewhere: a comparison with the numbers along the new axis. */
static status convert_one_hot(converter *c) {
  ir_graph *g = c->g;
  ir_value *index = converter_input(c, 0), *values = converter_input(c, 2), *numbers, *hot, *off, *on, *y;
  const int64_t *depth;
  int64_t dims[MAX_RANK], along[MAX_RANK], all[MAX_RANK];
  int n, axis;
  const int rank = index->tensor.rank + 1;
  TRY(converter_constant_ints(c, 1, &depth, &n));
  TRY(converter_axis(attribute_int(c, "axis", -1), rank, &axis));
  if (rank > MAX_RANK || *depth < 1 || values->tensor.n != 2) return OP_FAIL("depth or values are not as expected");
  TRY(ir_cast(g, index, ACL_INT64, &index));
  TRY(converter_wrapped_softly(c, index, *depth, &index));
  for (int d = 0, from = 0; d < rank; ++d) {
    along[d] = d == axis ? *depth : 1;
    dims[d] = d == axis ? 1 : index->tensor.dims[from++];
    all[d] = d == axis ? *depth : dims[d];
  }
  TRY(ir_reshaped(g, index, dims, rank, &index));
  TRY(ir_constant(g, ACL_INT64, along, rank, NULL, &numbers));
  for (int64_t i = 0; i < *depth; ++i) ((int64_t *)ir_fill(numbers))[i] = i;
  TRY(converter_binary(c, &op_EqTensor, index, numbers, ACL_BOOL, &hot));
  TRY(ir_view(g, values, NULL, NULL, 0, 0, &off));
  TRY(ir_view(g, values, NULL, NULL, 0, values->tensor.strides[0], &on));
  TRY(ir_temporary(g, values->tensor.dtype, all, rank, &y));
  TRY(node_SWhere(g, hot, on, off, y));
  return converter_output(c, 0, y);
}

/* ---- results whose size depends on the data: the input has to be known ------------------------------------------- */

static status convert_nonzero(converter *c) {
  ir_value *x = converter_input(c, 0), *y;
  TRY(converter_known(c, x));
  const int64_t dims[] = {x->tensor.rank ? x->tensor.rank : 1, x->tensor.n};
  TRY(ir_temporary(c->g, ACL_INT64, dims, 2, &y));
  c->g->folds_all = true;
  const status st = node_NonzeroV2(c->g, x, y);
  c->g->folds_all = false;
  return st == ST_OK ? converter_output(c, 0, y) : st;
}

/* The elements, or the slices along an axis, for which the condition is true. */
static status convert_compress(converter *c) {
  ir_value *x = converter_input(c, 0), *index, *y;
  const int64_t *condition;
  int64_t dims[MAX_RANK], n = 0;
  int n_conditions, axis = 0;
  TRY(converter_constant_ints(c, 1, &condition, &n_conditions));
  if (converter_attribute(c, "axis"))
    TRY(converter_axis(attribute_int(c, "axis", 0), x->tensor.rank, &axis));
  else
    TRY(ir_reshaped(c->g, x, &x->tensor.n, 1, &x));
  int64_t *numbers = REGION_NEW(&c->g->memory, int64_t, n_conditions);
  if (!numbers) return ST_NO_HOST_MEMORY;
  for (int64_t i = 0; i < n_conditions && i < x->tensor.dims[axis]; ++i)
    if (condition[i]) numbers[n++] = i;
  TRY(ir_integers(c->g, numbers, (int)n, &index));
  memcpy(dims, x->tensor.dims, sizeof dims);
  dims[axis] = n;
  TRY(ir_temporary(c->g, x->tensor.dtype, dims, x->tensor.rank, &y));
  TRY(node_IndexSelect(c->g, x, axis, index, y));
  return converter_output(c, 0, y);
}

const onnx_operator onnx_indexing[] = {
    {"Gather", convert_gather, 2, NULL, 0},
    {"GatherElements", convert_gather_elements, 2, NULL, 0},
    {"GatherND", convert_gather_nd, 2, NULL, 0},
    {"OneHot", convert_one_hot, 3, NULL, 0},
    {"NonZero", convert_nonzero, 1, NULL, 0},
    {"Compress", convert_compress, 2, NULL, 0},
    {0},
};
