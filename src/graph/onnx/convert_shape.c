/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that only move elements, most of which are views: they cost no task. */
#include <stdlib.h>
#include <string.h>

#include "graph/nodes.h"
#include "graph/onnx/convert.h"

static status output_shape(converter *c, ir_value *v, const int64_t *dims, int rank) {
  TRY(ir_reshaped(c->g, v, dims, rank, &v));
  return converter_output(c, 0, v);
}

static status convert_identity(converter *c) { return converter_output(c, 0, converter_input(c, 0)); }

/* Training is refused, unless its ratio is 0. */
static status check_dropout(converter *c) {
  const int64_t *training;
  const double half = 0.5, *ratio = &half;
  int n;
  if (!converter_input(c, 2)) return ST_OK;
  TRY(converter_constant_ints(c, 2, &training, &n));
  if (!n || !*training) return ST_OK;
  if (converter_input(c, 1)) TRY(converter_constant_reals(c, 1, &ratio, &n));
  if (n && *ratio != 0) return OP_FAIL("training_mode is true and ratio is %g, expected false, or ratio 0", *ratio);
  return ST_OK;
}

/* In inference nothing is dropped: the mask, if it is wanted, is true everywhere. */
static status convert_dropout(converter *c) {
  ir_value *x = converter_input(c, 0), *mask;
  TRY(check_dropout(c));
  TRY(converter_output(c, 0, x));
  if (!converter_wants(c, 1)) return ST_OK;
  TRY(ir_number(c->g, ACL_BOOL, 1, &mask));
  TRY(ir_expanded(c->g, mask, x->tensor.dims, x->tensor.rank, &mask));
  return converter_output(c, 1, mask);
}

/* ---- other dims -------------------------------------------------------------------------------------------------- */

static status convert_reshape(converter *c) {
  ir_value *x = converter_input(c, 0);
  const int64_t *wanted;
  int n, open = -1;
  int64_t dims[MAX_RANK], known = 1;
  TRY(converter_ints(c, "shape", 1, &wanted, &n));
  if (n > MAX_RANK) return OP_FAIL("shape has %d dimensions, at most %d are supported", n, MAX_RANK);
  const bool zero_is_zero = attribute_int(c, "allowzero", 0);
  for (int d = 0; d < n; ++d) {
    dims[d] = wanted[d];
    if (!dims[d] && !zero_is_zero) {
      if (d >= x->tensor.rank) return OP_FAIL("shape[%d] is 0, but the input has %d dimensions", d, x->tensor.rank);
      dims[d] = x->tensor.dims[d];
    }
    if (dims[d] == -1 && open < 0)
      open = d;
    else if (dims[d] < 0 || __builtin_mul_overflow(known, dims[d], &known))
      return OP_FAIL("shape[%d] is %jd, expected 0 or more, or -1 once", d, (intmax_t)dims[d]);
  }
  if (open >= 0) dims[open] = known ? x->tensor.n / known : 0;
  return output_shape(c, x, dims, n < 0 ? 0 : n);
}

static status convert_flatten(converter *c) {
  ir_value *x = converter_input(c, 0);
  int axis;
  const int64_t given = attribute_int(c, "axis", 1);
  if (given == x->tensor.rank)
    axis = x->tensor.rank;
  else
    TRY(converter_axis(given, x->tensor.rank, &axis));
  int64_t dims[2] = {1, 1};
  for (int d = 0; d < x->tensor.rank; ++d) dims[d >= axis] *= x->tensor.dims[d];
  return output_shape(c, x, dims, 2);
}

/* Marks the axes, which may be negative. rank: that they count in. */
static status mark_axes(const int64_t *axes, int n, int rank, bool *marked) {
  memset(marked, 0, (size_t)rank * sizeof *marked);
  for (int i = 0; i < n; ++i) {
    int axis;
    TRY(converter_axis(axes[i], rank, &axis));
    if (marked[axis]) return OP_FAIL("axis %d is given twice", axis);
    marked[axis] = true;
  }
  return ST_OK;
}

static status convert_squeeze(converter *c) {
  ir_value *x = converter_input(c, 0);
  const tensor *t = &x->tensor;
  const int64_t *axes;
  int n, rank = 0;
  bool goes[MAX_RANK];
  int64_t dims[MAX_RANK], strides[MAX_RANK];
  TRY(converter_ints(c, "axes", 1, &axes, &n));
  if (n >= 0) TRY(mark_axes(axes, n, t->rank, goes));
  for (int d = 0; d < t->rank; ++d) {
    if (n >= 0 && goes[d] && t->dims[d] != 1)
      return OP_FAIL("dimension %d has %jd elements, expected 1 to squeeze it", d, (intmax_t)t->dims[d]);
    if (n >= 0 ? goes[d] : t->dims[d] == 1) continue;
    dims[rank] = t->dims[d];
    strides[rank++] = t->strides[d];
  }
  TRY(ir_view(c->g, x, dims, strides, rank, 0, &x));
  return converter_output(c, 0, x);
}

static status convert_unsqueeze(converter *c) {
  ir_value *x = converter_input(c, 0);
  const tensor *t = &x->tensor;
  const int64_t *axes;
  int n, from = 0;
  bool comes[MAX_RANK];
  int64_t dims[MAX_RANK], strides[MAX_RANK];
  TRY(converter_ints(c, "axes", 1, &axes, &n));
  const int rank = t->rank + (n < 0 ? 0 : n);
  if (rank > MAX_RANK) return OP_FAIL("the result has %d dimensions, at most %d are supported", rank, MAX_RANK);
  TRY(mark_axes(axes, n, rank, comes));
  for (int d = 0; d < rank; ++d) {
    dims[d] = comes[d] ? 1 : t->dims[from];
    strides[d] = comes[d] ? 1 : t->strides[from];
    from += !comes[d];
  }
  for (int d = rank - 2; d >= 0; --d) /* so that a contiguous value stays one */
    if (comes[d]) strides[d] = strides[d + 1] * dims[d + 1];
  TRY(ir_view(c->g, x, dims, strides, rank, 0, &x));
  return converter_output(c, 0, x);
}

static status convert_transpose(converter *c) {
  ir_value *x = converter_input(c, 0);
  const int rank = x->tensor.rank;
  int n, order[MAX_RANK];
  bool used[MAX_RANK] = {0};
  const int64_t *perm = attribute_ints(c, "perm", &n);
  if (n >= 0 && n != rank) return OP_FAIL("perm has %d elements, expected %d", n, rank);
  for (int d = 0; d < rank; ++d) {
    order[d] = n >= 0 ? (int)perm[d] : rank - 1 - d;
    if (order[d] < 0 || order[d] >= rank || used[order[d]]) return OP_FAIL("perm is no permutation of %d axes", rank);
    used[order[d]] = true;
  }
  TRY(ir_permuted(c->g, x, order, &x));
  return converter_output(c, 0, x);
}

static status convert_expand(converter *c) {
  ir_value *x = converter_input(c, 0);
  const int64_t *wanted;
  int n, rank;
  int64_t dims[MAX_RANK];
  TRY(converter_constant_ints(c, 1, &wanted, &n));
  if (n > MAX_RANK) return OP_FAIL("shape has %d dimensions, at most %d are supported", n, MAX_RANK);
  ir_value shape = {.tensor = {.rank = (uint8_t)n}};
  for (int d = 0; d < n; ++d) shape.tensor.dims[d] = wanted[d];
  TRY(converter_broadcast((ir_value *[]){x, &shape}, 2, dims, &rank));
  TRY(ir_expanded(c->g, x, dims, rank, &x));
  return converter_output(c, 0, x);
}

/* The channels are cut into blocks of r x r, which become neighbours in height and width; or the reverse. */
static status convert_depth_to_space(converter *c) {
  ir_value *x = converter_input(c, 0);
  const int64_t *in = x->tensor.dims, r = attribute_int(c, "blocksize", 0);
  const bool columns = !strcmp(attribute_string(c, "mode", "DCR"), "CRD");
  if (x->tensor.rank != 4 || r <= 0 || in[1] % (r * r))
    return OP_FAIL("the input has %d dimensions, expected 4, with channels that are a multiple of %jd", x->tensor.rank,
                   (intmax_t)(r * r));
  const int64_t depth = in[1] / (r * r);
  const int64_t blocks[] = {in[0], columns ? depth : r, r, columns ? r : depth, in[2], in[3]};
  TRY(ir_reshaped(c->g, x, blocks, 6, &x));
  TRY(ir_permuted(c->g, x, columns ? (const int[]){0, 1, 4, 2, 5, 3} : (const int[]){0, 3, 4, 1, 5, 2}, &x));
  return output_shape(c, x, (const int64_t[]){x->tensor.dims[0], depth, x->tensor.dims[2] * r, x->tensor.dims[4] * r},
                      4);
}

static status convert_space_to_depth(converter *c) {
  ir_value *x = converter_input(c, 0);
  const int64_t *in = x->tensor.dims, r = attribute_int(c, "blocksize", 0);
  if (x->tensor.rank != 4 || r <= 0 || in[2] % r || in[3] % r)
    return OP_FAIL("the input has %d dimensions, expected 4, with height and width that are multiples of %jd",
                   x->tensor.rank, (intmax_t)r);
  const int64_t dims[] = {in[0], in[1] * r * r, in[2] / r, in[3] / r};
  TRY(ir_reshaped(c->g, x, (const int64_t[]){in[0], in[1], in[2] / r, r, in[3] / r, r}, 6, &x));
  TRY(ir_permuted(c->g, x, (const int[]){0, 3, 5, 1, 2, 4}, &x));
  return output_shape(c, x, dims, 4);
}

/* ---- parts of a value -------------------------------------------------------------------------------------------- */

/* Cuts elements start, start + step... out of a dimension: n of them. step is positive. */
static status cut(converter *c, ir_value **x, int axis, int64_t start, int64_t n, int64_t step) {
  tensor t = (*x)->tensor;
  const int64_t offset = n ? start * t.strides[axis] : 0;
  t.dims[axis] = n;
  t.strides[axis] *= step;
  return ir_view(c->g, *x, t.dims, t.strides, t.rank, offset, x);
}

static int64_t slice_clamped(int64_t value, int64_t least, int64_t most) {
  return value < least ? least : value > most ? most : value;
}

/* One axis of Slice. Negative steps walk over the flipped value. */
static status slice_axis(converter *c, ir_value **x, int axis, int64_t start, int64_t end, int64_t step) {
  const int64_t size = (*x)->tensor.dims[axis];
  if (!step) return OP_FAIL("a step is 0");
  if (start < 0) start = start < -size ? -1 : start + size;
  if (end < 0) end = end < -size ? -1 : end + size;
  if (step > 0) {
    start = slice_clamped(start, 0, size);
    end = slice_clamped(end, 0, size);
    return cut(c, x, axis, start, end > start ? (end - start - 1) / step + 1 : 0, step);
  }
  start = slice_clamped(start, -1, size - 1);
  end = slice_clamped(end, -1, size - 1);
  const int64_t n = start > end ? (start - end - 1) / -step + 1 : 0, axis_list[] = {axis};
  if (n > 1) {
    ir_value *flipped;
    const aclIntArray *dims = ir_int_array(c->g, axis_list, 1);
    if (!dims) return ST_NO_HOST_MEMORY;
    TRY(ir_temporary(c->g, (*x)->tensor.dtype, (*x)->tensor.dims, (*x)->tensor.rank, &flipped));
    TRY(node_Flip(c->g, *x, dims, flipped));
    *x = flipped;
    start = size - 1 - start;
    step = -step;
  }
  return cut(c, x, axis, start, n, n > 1 ? step : 1);
}

static status convert_slice(converter *c) {
  ir_value *x = converter_input(c, 0);
  const int64_t *starts, *ends, *axes, *steps;
  int n_starts, n_ends, n_axes, n_steps;
  TRY(converter_ints(c, "starts", 1, &starts, &n_starts));
  TRY(converter_ints(c, "ends", 2, &ends, &n_ends));
  TRY(converter_ints(c, "axes", 3, &axes, &n_axes));
  TRY(converter_ints(c, "steps", 4, &steps, &n_steps));
  if (n_starts < 0 || n_ends != n_starts || (n_axes >= 0 && n_axes != n_starts) ||
      (n_steps >= 0 && n_steps != n_starts))
    return OP_FAIL("starts, ends, axes and steps have %d, %d, %d and %d elements, expected equally many", n_starts,
                   n_ends, n_axes, n_steps);
  for (int i = 0; i < n_starts; ++i) {
    int axis;
    TRY(converter_axis(n_axes >= 0 ? axes[i] : i, x->tensor.rank, &axis));
    TRY(slice_axis(c, &x, axis, starts[i], ends[i], n_steps >= 0 ? steps[i] : 1));
  }
  return converter_output(c, 0, x);
}

static status convert_split(converter *c) {
  ir_value *x = converter_input(c, 0);
  const int64_t *sizes;
  int n, axis, n_outputs = c->node->n_outputs;
  TRY(converter_axis(attribute_int(c, "axis", 0), x->tensor.rank, &axis));
  TRY(converter_ints(c, "split", 1, &sizes, &n));
  if (n >= 0 && n != n_outputs) return OP_FAIL("split has %d elements for %d outputs", n, n_outputs);
  const int64_t size = x->tensor.dims[axis], each = (size + n_outputs - 1) / n_outputs;
  int64_t start = 0;
  for (int i = 0; i < n_outputs; ++i) {
    ir_value *part = x;
    const int64_t length = n >= 0 ? sizes[i] : size - start < each ? size - start : each;
    if (length < 0 || length > size - start)
      return OP_FAIL("output %d has %jd elements, but dimension %d has %jd", i, (intmax_t)length, axis, (intmax_t)size);
    TRY(cut(c, &part, axis, start, length, 1));
    TRY(converter_output(c, i, part));
    start += length;
  }
  return start == size ? ST_OK
                       : OP_FAIL("split has %jd elements in all, expected %jd", (intmax_t)start, (intmax_t)size);
}

/* ---- several values, or several copies --------------------------------------------------------------------------- */

static status convert_concat(converter *c) {
  const int n = c->node->n_inputs;
  ir_value *first = converter_input(c, 0), *y;
  int axis;
  int64_t dims[MAX_RANK];
  const int64_t given = attribute_int(c, "axis", 1);
  TRY(converter_axis(given, first->tensor.rank, &axis));
  if (n == 1) return converter_output(c, 0, first);
  ir_value **values = REGION_NEW(&c->g->memory, ir_value *, n);
  if (!values) return fail(ST_NO_HOST_MEMORY, "no host memory for %d inputs", n);
  memcpy(dims, first->tensor.dims, sizeof dims);
  dims[axis] = 0;
  for (int i = 0; i < n; ++i) {
    values[i] = converter_input(c, i);
    if (!values[i]) return OP_FAIL("input %d is missing", i);
    const tensor *t = &values[i]->tensor;
    if (t->rank != first->tensor.rank)
      return OP_FAIL("input %d has %d dimensions, expected %d", i, t->rank, first->tensor.rank);
    for (int d = 0; d < t->rank; ++d)
      if (d != axis && t->dims[d] != dims[d])
        return OP_FAIL("dimension %d of input %d is %jd, expected %jd", d, i, (intmax_t)t->dims[d], (intmax_t)dims[d]);
    dims[axis] += t->dims[axis];
  }
  const aclTensorList *list = ir_list(c->g, values, n);
  if (!list) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, first->tensor.dtype, dims, first->tensor.rank, &y));
  TRY(node_Cat(c->g, list, axis, y));
  return converter_output(c, 0, y);
}

static status convert_tiles(converter *c) {
  ir_value *x = converter_input(c, 0), *y;
  const int64_t *times;
  int n;
  int64_t dims[MAX_RANK];
  TRY(converter_constant_ints(c, 1, &times, &n));
  if (n != x->tensor.rank) return OP_FAIL("repeats has %d elements, expected %d", n, x->tensor.rank);
  for (int d = 0; d < n; ++d) {
    if (times[d] < 0) return OP_FAIL("repeats[%d] is %jd, expected 0 or more", d, (intmax_t)times[d]);
    dims[d] = x->tensor.dims[d] * times[d];
  }
  const aclIntArray *repeats = ir_int_array(c->g, times, n);
  if (!repeats) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, x->tensor.dtype, dims, n, &y));
  TRY(node_Repeat(c->g, x, repeats, y));
  return converter_output(c, 0, y);
}

/* ---- padding ----------------------------------------------------------------------------------------------------- */

typedef struct {
  int64_t before[MAX_RANK], after[MAX_RANK];
} margins;

/* Where element i of a padded dimension comes from; 0 <= i + before < size is inside. */
static int64_t padded_source(int64_t i, int64_t size, char mode) {
  if (i >= 0 && i < size) return i; /* most are, and divisions take long */
  if (mode == 'e') return slice_clamped(i, 0, size - 1);
  if (mode == 'w') return ((i % size) + size) % size;
  const int64_t period = size > 1 ? 2 * (size - 1) : 1; /* reflect: the border is not repeated */
  const int64_t at = ((i % period) + period) % period;
  return at < size ? at : period - at;
}

/* Pads one dimension by picking elements. */
static status pad_by_index(converter *c, ir_value **x, int axis, int64_t before, int64_t after, char mode) {
  const int64_t size = (*x)->tensor.dims[axis], n = before + size + after;
  int64_t dims[MAX_RANK];
  ir_value *index, *y;
  if (!size) return OP_FAIL("dimension %d is empty, so it has no elements to pad with", axis);
  TRY(ir_constant(c->g, ACL_INT64, &n, 1, NULL, &index));
  for (int64_t i = 0; i < n; ++i) ((int64_t *)ir_fill(index))[i] = padded_source(i - before, size, mode);
  memcpy(dims, (*x)->tensor.dims, sizeof dims);
  dims[axis] = n;
  TRY(ir_temporary(c->g, (*x)->tensor.dtype, dims, (*x)->tensor.rank, &y));
  TRY(node_IndexSelect(c->g, *x, axis, index, y));
  *x = y;
  return ST_OK;
}

/* CANN lists the margins of the last dimension first. */
status converter_padded(converter *c, ir_value *x, const int64_t *before, const int64_t *after, double number,
                        ir_value **out) {
  int64_t pad[2 * MAX_RANK], dims[MAX_RANK];
  const int rank = x->tensor.rank;
  bool any = false;
  for (int d = 0; d < rank; ++d) {
    pad[2 * (rank - 1 - d)] = before[d];
    pad[2 * (rank - 1 - d) + 1] = after[d];
    dims[d] = x->tensor.dims[d] + before[d] + after[d];
    any |= before[d] || after[d];
  }
  *out = x;
  if (!any) return ST_OK;
  const aclIntArray *list = ir_int_array(c->g, pad, 2 * rank);
  const scalar *value = ir_scalar(c->g, x->tensor.dtype, number);
  if (!list || !value) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, x->tensor.dtype, dims, rank, out));
  return node_ConstantPadNd(c->g, x, list, value, *out);
}

/* Reads the margins of each dimension. Negative ones cut elements off at once, and become 0. */
static status read_margins(converter *c, ir_value **x, margins *m) {
  const int rank = (*x)->tensor.rank;
  const int64_t *pads, *axes = NULL;
  int n, n_axes = -1;
  TRY(converter_ints(c, converter_attribute(c, "paddings") ? "paddings" : "pads", 1, &pads, &n));
  if (converter_input(c, 3)) TRY(converter_constant_ints(c, 3, &axes, &n_axes));
  const int n_padded = n_axes < 0 ? rank : n_axes;
  if (n != 2 * n_padded) return OP_FAIL("pads has %d elements, expected %d", n, 2 * n_padded);
  *m = (margins){0};
  for (int i = 0; i < n_padded; ++i) {
    int axis;
    TRY(converter_axis(axes ? axes[i] : i, rank, &axis));
    m->before[axis] = pads[i];
    m->after[axis] = pads[i + n_padded];
    const int64_t size = (*x)->tensor.dims[axis], from = m->before[axis] < 0 ? -m->before[axis] : 0;
    const int64_t to = size + (m->after[axis] < 0 ? m->after[axis] : 0);
    if (from > to) return OP_FAIL("dimension %d has %jd elements, fewer than are cut off", axis, (intmax_t)size);
    if (from || to < size) TRY(cut(c, x, axis, from, to - from, 1));
    if (m->before[axis] < 0) m->before[axis] = 0;
    if (m->after[axis] < 0) m->after[axis] = 0;
  }
  return ST_OK;
}

static status convert_pad(converter *c) {
  ir_value *x = converter_input(c, 0);
  margins m;
  const double *given = NULL;
  int n = 0;
  const char mode = attribute_string(c, "mode", "constant")[0]; /* constant, reflect, edge, wrap */
  TRY(read_margins(c, &x, &m));
  if (mode == 'c') {
    if (converter_input(c, 2)) TRY(converter_constant_reals(c, 2, &given, &n));
    TRY(converter_padded(c, x, m.before, m.after, n == 1 ? given[0] : attribute_float(c, "value", 0), &x));
    return converter_output(c, 0, x);
  }
  for (int d = 0; d < x->tensor.rank; ++d)
    if (m.before[d] || m.after[d]) TRY(pad_by_index(c, &x, d, m.before[d], m.after[d], mode));
  return converter_output(c, 0, x);
}

static status convert_center_crop_pad(converter *c) {
  ir_value *x = converter_input(c, 0);
  const int64_t *sizes;
  int n, n_axes;
  const int64_t *axes = attribute_ints(c, "axes", &n_axes);
  margins m = {0};
  TRY(converter_constant_ints(c, 1, &sizes, &n));
  if (n != (n_axes < 0 ? x->tensor.rank : n_axes)) return OP_FAIL("shape has %d elements, expected one an axis", n);
  for (int i = 0; i < n; ++i) {
    int axis;
    TRY(converter_axis(n_axes < 0 ? i : axes[i], x->tensor.rank, &axis));
    const int64_t size = x->tensor.dims[axis], more = sizes[i] - size;
    if (more < 0) TRY(cut(c, &x, axis, -more / 2, sizes[i], 1));
    if (more <= 0) continue;
    m.before[axis] = more / 2;
    m.after[axis] = more - more / 2;
  }
  TRY(converter_padded(c, x, m.before, m.after, 0, &x));
  return converter_output(c, 0, x);
}

static status convert_trilu(converter *c) {
  ir_value *x = converter_input(c, 0), *y;
  const int64_t *k = (const int64_t[]){0};
  int n = 1;
  if (converter_input(c, 1)) TRY(converter_constant_ints(c, 1, &k, &n));
  TRY(ir_temporary(c->g, x->tensor.dtype, x->tensor.dims, x->tensor.rank, &y));
  if (attribute_int(c, "upper", 1))
    TRY(node_Triu(c->g, x, n == 1 ? k[0] : 0, y));
  else
    TRY(node_Tril(c->g, x, n == 1 ? k[0] : 0, y));
  return converter_output(c, 0, y);
}

/* The first lengths[b] elements of each sequence b are reversed: they are picked by number. */
static status convert_reverse_sequence(converter *c) {
  ir_value *x = converter_input(c, 0), *index, *y;
  const int64_t *lengths;
  int n, batch, time;
  TRY(converter_axis(attribute_int(c, "batch_axis", 1), x->tensor.rank, &batch));
  TRY(converter_axis(attribute_int(c, "time_axis", 0), x->tensor.rank, &time));
  TRY(converter_constant_ints(c, 1, &lengths, &n));
  if (batch > 1 || time > 1 || batch == time || n != x->tensor.dims[batch])
    return OP_FAIL("batch_axis and time_axis are %d and %d, expected 0 and 1 or 1 and 0, and a length a batch", batch,
                   time);
  int64_t dims[MAX_RANK] = {0};
  for (int d = 0; d < x->tensor.rank; ++d) dims[d] = d < 2 ? x->tensor.dims[d] : 1;
  TRY(ir_constant(c->g, ACL_INT64, dims, x->tensor.rank, NULL, &index));
  for (int64_t b = 0; b < dims[batch]; ++b)
    for (int64_t t = 0; t < dims[time]; ++t)
      ((int64_t *)ir_fill(index))[time == 0 ? t * dims[1] + b : b * dims[1] + t] =
          t < lengths[b] ? lengths[b] - 1 - t : t;
  TRY(ir_expanded(c->g, index, x->tensor.dims, x->tensor.rank, &index));
  TRY(ir_temporary(c->g, x->tensor.dtype, x->tensor.dims, x->tensor.rank, &y));
  TRY(node_Gather(c->g, x, time, index, y));
  return converter_output(c, 0, y);
}

const onnx_operator onnx_shape_operators[] = {
    {"Identity", convert_identity, 1, NULL, 0},
    {"Dropout", convert_dropout, 1, NULL, 0},
    {"Reshape", convert_reshape, 1, NULL, 0},
    {"Flatten", convert_flatten, 1, NULL, 0},
    {"Squeeze", convert_squeeze, 1, NULL, 0},
    {"Unsqueeze", convert_unsqueeze, 1, NULL, 0},
    {"Transpose", convert_transpose, 1, NULL, 0},
    {"Expand", convert_expand, 2, NULL, 0},
    {"DepthToSpace", convert_depth_to_space, 1, NULL, 0},
    {"SpaceToDepth", convert_space_to_depth, 1, NULL, 0},
    {"Slice", convert_slice, 1, NULL, 0},
    {"Split", convert_split, 1, NULL, 0},
    {"Concat", convert_concat, 1, NULL, 0},
    {"Tile", convert_tiles, 2, NULL, 0},
    {"Pad", convert_pad, 1, NULL, 0},
    {"CenterCropPad", convert_center_crop_pad, 2, NULL, 0},
    {"Trilu", convert_trilu, 1, NULL, 0},
    {"ReverseSequence", convert_reverse_sequence, 2, NULL, 0},
    {0},
};
