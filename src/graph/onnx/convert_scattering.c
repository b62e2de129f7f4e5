/* SPDX-License-Identifier: Apache-2.0 */
/* Elements that are written by number. */
#include <string.h>

#include "graph/nodes.h"
#include "graph/onnx/convert.h"

/* As CANN numbers what happens to the element that is there; -1: an operator that CANN does not have. */
static int reduction_of(const converter *c) {
  const char *name = attribute_string(c, "reduction", "none");
  return !strcmp(name, "none") ? 0 : !strcmp(name, "add") ? 1 : !strcmp(name, "mul") ? 2 : -1;
}

/* The maximum or minimum of what is there and of an update. Updates are sorted into ranks such that no element gets two
 * of one rank, which needs the indices; each rank is then a gather, a comparison and a scatter. index: [n] into x,
 * which has one dimension, updates [n]. */
static status scatter_extreme(converter *c, ir_value *x, ir_value *index, ir_value *updates, ir_value **out) {
  ir_graph *g = c->g;
  op *o = !strcmp(attribute_string(c, "reduction", ""), "max") ? &op_Maximum : &op_Minimum;
  TRY(converter_known(c, index));
  const int64_t n = index->tensor.n;
  int64_t *at = REGION_NEW(&g->memory, int64_t, n), *numbers = REGION_NEW(&g->memory, int64_t, n);
  int64_t *targets = REGION_NEW(&g->memory, int64_t, n);
  int *rank = REGION_NEW(&g->memory, int, n), *seen = REGION_NEW(&g->memory, int, x->tensor.n);
  if (!at || !numbers || !targets || !rank || !seen) return ST_NO_HOST_MEMORY;
  value_read_integers(index, at);
  int n_ranks = 0;
  for (int64_t i = 0; i < n; ++i) {
    rank[i] = seen[at[i]]++;
    if (rank[i] >= n_ranks) n_ranks = rank[i] + 1;
  }
  *out = x;
  for (int r = 0; r < n_ranks; ++r) {
    int64_t k = 0;
    ir_value *which, *where, *old, *new, *larger, *y;
    for (int64_t i = 0; i < n; ++i)
      if (rank[i] == r) numbers[k] = i, targets[k++] = at[i];
    TRY(ir_integers(g, numbers, (int)k, &which));
    TRY(ir_integers(g, targets, (int)k, &where));
    TRY(ir_temporary(g, x->tensor.dtype, &k, 1, &old));
    TRY(ir_temporary(g, x->tensor.dtype, &k, 1, &new));
    TRY(node_IndexSelect(g, *out, 0, where, old));
    TRY(node_IndexSelect(g, updates, 0, which, new));
    TRY(converter_binary(c, o, old, new, x->tensor.dtype, &larger));
    TRY(ir_temporary(g, x->tensor.dtype, x->tensor.dims, 1, &y));
    TRY(node_Scatter(g, *out, 0, where, larger, 0, y));
    *out = y;
  }
  return ST_OK;
}

/* For each index along an axis, its number in the flattened value. */
static status flat_indices(converter *c, const ir_value *x, ir_value *index, int axis, ir_value **out) {
  ir_value *sum = NULL;
  for (int d = 0; d < x->tensor.rank; ++d) {
    int64_t dims[MAX_RANK], stride = 1;
    ir_value *part, *step;
    for (int k = d + 1; k < x->tensor.rank; ++k) stride *= x->tensor.dims[k];
    if (d == axis) {
      TRY(ir_number(c->g, ACL_INT64, (double)stride, &step));
      TRY(converter_binary(c, &op_Mul, index, step, ACL_INT64, &part));
    } else {
      for (int k = 0; k < x->tensor.rank; ++k) dims[k] = k == d ? index->tensor.dims[d] : 1;
      TRY(ir_constant(c->g, ACL_INT64, dims, x->tensor.rank, NULL, &part));
      for (int64_t i = 0; i < dims[d]; ++i) ((int64_t *)ir_fill(part))[i] = i * stride;
    }
    if (sum)
      TRY(converter_binary(c, &op_Add, sum, part, ACL_INT64, &sum));
    else
      sum = part;
  }
  return ir_reshaped(c->g, sum, &index->tensor.n, 1, out);
}

static status convert_scatter_elements(converter *c) {
  ir_value *x = converter_input(c, 0), *index = converter_input(c, 1), *updates = converter_input(c, 2), *y;
  const int reduction = reduction_of(c);
  int axis;
  TRY(converter_axis(attribute_int(c, "axis", 0), x->tensor.rank, &axis));
  TRY(converter_wrapped(c, index, x->tensor.dims[axis], &index));
  if (reduction < 0) {
    const tensor of = x->tensor;
    TRY(flat_indices(c, x, index, axis, &index));
    TRY(ir_reshaped(c->g, x, &of.n, 1, &x));
    TRY(ir_reshaped(c->g, updates, &updates->tensor.n, 1, &updates));
    TRY(scatter_extreme(c, x, index, updates, &y));
    TRY(ir_reshaped(c->g, y, of.dims, of.rank, &y));
    return converter_output(c, 0, y);
  }
  TRY(ir_temporary(c->g, x->tensor.dtype, x->tensor.dims, x->tensor.rank, &y));
  TRY(node_Scatter(c->g, x, axis, index, updates, reduction, y));
  return converter_output(c, 0, y);
}

/* Slices of x at the indices [..., n] are replaced, or combined with the updates. As ScatterElements on x seen as
 * [what n indices tell apart, rest]. */
static status convert_scatter_nd(converter *c) {
  ir_graph *g = c->g;
  ir_value *x = converter_input(c, 0), *index = converter_input(c, 1), *updates = converter_input(c, 2), *y,
           *flat = NULL;
  const tensor of = x->tensor;
  const int reduction = reduction_of(c);
  TRY(ir_cast(g, index, ACL_INT64, &index));
  const tensor t = index->tensor;
  if (!t.rank || t.dims[t.rank - 1] > of.rank) return OP_FAIL("the indices have no fitting last dimension");
  const int n = (int)t.dims[t.rank - 1];
  int64_t rows = 1, rest = 1, count = 1;
  for (int d = 0; d < of.rank; ++d) *(d < n ? &rows : &rest) *= of.dims[d];
  for (int d = 0; d + 1 < t.rank; ++d) count *= t.dims[d];
  for (int k = 0; k < n; ++k) {
    int64_t stride = 1;
    ir_value *column, *step;
    for (int d = k + 1; d < n; ++d) stride *= of.dims[d];
    TRY(ir_view(g, index, t.dims, t.strides, t.rank - 1, k * t.strides[t.rank - 1], &column));
    TRY(converter_wrapped(c, column, of.dims[k], &column));
    TRY(ir_number(g, ACL_INT64, (double)stride, &step));
    TRY(converter_binary(c, &op_Mul, column, step, ACL_INT64, &column));
    if (flat)
      TRY(converter_binary(c, &op_Add, flat, column, ACL_INT64, &flat));
    else
      flat = column;
  }
  if (!flat) TRY(ir_number(g, ACL_INT64, 0, &flat));
  TRY(ir_reshaped(g, flat, (const int64_t[]){count, 1}, 2, &flat));
  TRY(ir_expanded(g, flat, (const int64_t[]){count, rest}, 2, &flat));
  TRY(ir_reshaped(g, updates, (const int64_t[]){count, rest}, 2, &updates));
  TRY(ir_reshaped(g, x, (const int64_t[]){rows, rest}, 2, &x));
  if (reduction < 0) {
    TRY(flat_indices(c, x, flat, 0, &flat));
    TRY(ir_reshaped(g, x, &of.n, 1, &x));
    TRY(ir_reshaped(g, updates, &updates->tensor.n, 1, &updates));
    TRY(scatter_extreme(c, x, flat, updates, &y));
  } else {
    TRY(ir_temporary(g, of.dtype, x->tensor.dims, 2, &y));
    TRY(node_Scatter(g, x, 0, flat, updates, reduction, y));
  }
  TRY(ir_reshaped(g, y, of.dims, of.rank, &y));
  return converter_output(c, 0, y);
}

const onnx_operator onnx_scattering[] = {
    {"Scatter", convert_scatter_elements, 3, NULL, 0},
    {"ScatterElements", convert_scatter_elements, 3, NULL, 0},
    {"ScatterND", convert_scatter_nd, 3, NULL, 0},
    {0},
};
