/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions, and how the attributes of a moving window are read. */
#include <string.h>

#include "graph/nodes.h"
#include "graph/onnx/convert.h"

/* ---- windows ----------------------------------------------------------------------------------------------------- */

static status window_list(const converter *c, const char *name, int n, int64_t otherwise, int64_t *to) {
  int given;
  const int64_t *list = attribute_ints(c, name, &given);
  if (given >= 0 && given != n) return OP_FAIL("%s has %d elements, expected %d", name, given, n);
  for (int d = 0; d < n; ++d) {
    to[d] = given >= 0 ? list[d] : otherwise;
    if (to[d] < 1) return OP_FAIL("%s[%d] is %jd, expected 1 or more", name, d, (intmax_t)to[d]);
  }
  return ST_OK;
}

/* Margins such that there are size / stride places, rounded up; an odd element goes to the end, or to the start. */
static void same_margins(onnx_window *w, const int64_t *sizes, bool lower) {
  for (int d = 0; d < w->n; ++d) {
    const int64_t places = (sizes[d] + w->stride[d] - 1) / w->stride[d];
    int64_t all = (places - 1) * w->stride[d] + (w->size[d] - 1) * w->dilation[d] + 1 - sizes[d];
    if (all < 0) all = 0;
    w->before[d] = lower ? all - all / 2 : all / 2;
    w->after[d] = all - w->before[d];
  }
}

status converter_window(converter *c, const ir_value *x, const int64_t *sizes, onnx_window *w) {
  *w = (onnx_window){.n = x->tensor.rank - 2, .even = true};
  if (w->n < 1 || w->n > 3) return OP_FAIL("the input has %d dimensions, expected 3 to 5", x->tensor.rank);
  const char *automatic = attribute_string(c, "auto_pad", "NOTSET");
  int n;
  const int64_t *pads = attribute_ints(c, "pads", &n);
  if (sizes)
    memcpy(w->size, sizes, (size_t)w->n * sizeof *sizes);
  else
    TRY(window_list(c, "kernel_shape", w->n, 0, w->size));
  TRY(window_list(c, "strides", w->n, 1, w->stride));
  TRY(window_list(c, "dilations", w->n, 1, w->dilation));
  if (!strncmp(automatic, "SAME", 4)) {
    same_margins(w, x->tensor.dims + 2, !strcmp(automatic, "SAME_LOWER"));
  } else if (n >= 0 && strcmp(automatic, "VALID") != 0) {
    if (n != 2 * w->n) return OP_FAIL("pads has %d elements, expected %d", n, 2 * w->n);
    for (int d = 0; d < w->n; ++d) {
      w->before[d] = pads[d];
      w->after[d] = pads[d + w->n];
      if (pads[d] < 0 || pads[d + w->n] < 0) return OP_FAIL("pads has a negative element");
    }
  }
  for (int d = 0; d < w->n; ++d) w->even &= w->before[d] == w->after[d];
  return ST_OK;
}

int64_t window_places(const onnx_window *w, int d, int64_t size, bool up) {
  const int64_t room = size + w->before[d] + w->after[d] - (w->size[d] - 1) * w->dilation[d] - 1;
  if (room < 0) return 0;
  int64_t places = room / w->stride[d] + 1;
  if (up && room % w->stride[d] && places * w->stride[d] < size + w->before[d]) ++places; /* it begins inside */
  return places;
}

/* ---- convolutions ------------------------------------------------------------------------------------------------ */

/* Pads x where the two margins of a dimension differ, which then has none. */
static status even_margins(converter *c, ir_value **x, onnx_window *w) {
  int64_t before[MAX_RANK] = {0}, after[MAX_RANK] = {0};
  for (int d = 0; d < w->n; ++d) {
    if (w->before[d] == w->after[d]) continue;
    before[d + 2] = w->before[d];
    after[d + 2] = w->after[d];
    w->before[d] = w->after[d] = 0;
  }
  return converter_padded(c, *x, before, after, 0, x);
}

typedef struct {
  const aclIntArray *stride, *padding, *dilation, *output_padding;
} convolution_lists;

static status make_lists(converter *c, const onnx_window *w, const int64_t *output_padding, convolution_lists *l) {
  static const int64_t zeros[MAX_RANK];
  l->stride = ir_int_array(c->g, w->stride, w->n);
  l->padding = ir_int_array(c->g, w->before, w->n);
  l->dilation = ir_int_array(c->g, w->dilation, w->n);
  l->output_padding = ir_int_array(c->g, output_padding ? output_padding : zeros, w->n);
  return l->stride && l->padding && l->dilation && l->output_padding ? ST_OK : ST_NO_HOST_MEMORY;
}

status converter_convolution(converter *c, ir_value *x, ir_value *weight, ir_value *bias, ir_value **out) {
  const int64_t groups = attribute_int(c, "group", 1);
  int64_t dims[MAX_RANK];
  onnx_window w;
  convolution_lists l;
  if (weight->tensor.rank != x->tensor.rank || groups < 1)
    return OP_FAIL("the weight has %d dimensions, expected %d", weight->tensor.rank, x->tensor.rank);
  TRY(converter_window(c, x, weight->tensor.dims + 2, &w));
  TRY(even_margins(c, &x, &w));
  dims[0] = x->tensor.dims[0];
  dims[1] = weight->tensor.dims[0];
  for (int d = 0; d < w.n; ++d) dims[d + 2] = window_places(&w, d, x->tensor.dims[d + 2], false);
  TRY(make_lists(c, &w, NULL, &l));
  TRY(ir_temporary(c->g, x->tensor.dtype, dims, w.n + 2, out));
  return node_Convolution(c->g, x, weight, bias, l.stride, l.padding, l.dilation, false, l.output_padding, groups, *out,
                          0);
}

static status convert_conv(converter *c) {
  ir_value *y;
  TRY(converter_convolution(c, converter_input(c, 0), converter_input(c, 1), converter_input(c, 2), &y));
  return converter_output(c, 0, y);
}

/* The margins of a transposed convolution, which cut its result off: those given, or what leads to output_shape. */
static status transposed_margins(converter *c, const ir_value *x, onnx_window *w, const int64_t *extra) {
  int n;
  const int64_t *wanted = attribute_ints(c, "output_shape", &n);
  const char *automatic = attribute_string(c, "auto_pad", "NOTSET");
  const bool same = !strncmp(automatic, "SAME", 4);
  if (n < 0 && !same) return ST_OK;
  if (n >= 0 && n < w->n) return OP_FAIL("output_shape has %d elements, expected %d", n, w->n);
  for (int d = 0; d < w->n; ++d) {
    const int64_t size = x->tensor.dims[d + 2];
    const int64_t result = n >= 0 ? wanted[n - w->n + d] : size * w->stride[d];
    const int64_t all = w->stride[d] * (size - 1) + extra[d] + (w->size[d] - 1) * w->dilation[d] + 1 - result;
    const int64_t half = (all - (all < 0)) / 2; /* rounded down */
    w->before[d] = !strcmp(automatic, "SAME_UPPER") ? half : all - half;
    w->after[d] = all - w->before[d];
  }
  return ST_OK;
}

/* Computed without margins, then cut: what is cut off is little beside the rest. Margins below 0 add zeros. */
static status convert_conv_transpose(converter *c) {
  ir_value *x = converter_input(c, 0), *weight = converter_input(c, 1), *y;
  const int64_t groups = attribute_int(c, "group", 1);
  int64_t dims[MAX_RANK], extra[MAX_RANK] = {0}, before[MAX_RANK] = {0}, after[MAX_RANK] = {0}, offset = 0;
  onnx_window w;
  convolution_lists l;
  int n;
  const int64_t *given = attribute_ints(c, "output_padding", &n);
  if (weight->tensor.rank != x->tensor.rank)
    return OP_FAIL("the weight has %d dimensions, expected %d", weight->tensor.rank, x->tensor.rank);
  TRY(converter_window(c, x, weight->tensor.dims + 2, &w));
  for (int d = 0; d < w.n && n == w.n; ++d) extra[d] = given[d];
  TRY(transposed_margins(c, x, &w, extra));
  const onnx_window cut = w;
  bool whole = true;
  for (int d = 0; d < w.n; ++d) whole &= w.before[d] == w.after[d] && w.before[d] >= 0;
  for (int d = 0; d < w.n && !whole; ++d) w.before[d] = 0;
  dims[0] = x->tensor.dims[0];
  dims[1] = weight->tensor.dims[1] * groups;
  for (int d = 0; d < w.n; ++d) {
    dims[d + 2] = (x->tensor.dims[d + 2] - 1) * w.stride[d] + (w.size[d] - 1) * w.dilation[d] + 1 - 2 * w.before[d];
    if (whole) dims[d + 2] += extra[d];
  }
  TRY(make_lists(c, &w, whole ? extra : NULL, &l));
  TRY(ir_temporary(c->g, x->tensor.dtype, dims, w.n + 2, &y));
  TRY(node_Convolution(c->g, x, weight, converter_input(c, 2), l.stride, l.padding, l.dilation, true, l.output_padding,
                       groups, y, 0));
  if (whole) return converter_output(c, 0, y);
  for (int d = 0; d < w.n; ++d) {
    const int64_t first = cut.before[d] > 0 ? cut.before[d] : 0, more = extra[d] - cut.after[d];
    before[d + 2] = cut.before[d] < 0 ? -cut.before[d] : 0;
    after[d + 2] = more > 0 ? more : 0;
    dims[d + 2] += (more < 0 ? more : 0) - first;
    offset += first * y->tensor.strides[d + 2];
  }
  TRY(ir_view(c->g, y, dims, y->tensor.strides, w.n + 2, offset, &y));
  TRY(converter_padded(c, y, before, after, 0, &y));
  return converter_output(c, 0, y);
}

/* ---- windows put together ---------------------------------------------------------------------------------------- */

/* Which element of a padded image, seen as one row, each element [window..., places...] of the columns belongs to. */
static void fill_columns(const onnx_window *w, const int64_t *places, const int64_t *padded, int64_t n, int64_t *to) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, at = 0, stride = 1, place[MAX_RANK], element[MAX_RANK];
    for (int d = w->n - 1; d >= 0; --d) place[d] = rest % places[d], rest /= places[d];
    for (int d = w->n - 1; d >= 0; --d) element[d] = rest % w->size[d], rest /= w->size[d];
    for (int d = w->n - 1; d >= 0; --d) {
      at += (place[d] * w->stride[d] + element[d] * w->dilation[d]) * stride;
      stride *= padded[d];
    }
    to[i] = at;
  }
}

/* The sum of all windows where they lie in the image: columns [batch, channels * window, places]. */
static status convert_col2im(converter *c) {
  ir_graph *g = c->g;
  ir_value *x = converter_input(c, 0), *index, *zeros, *y;
  const int64_t *image, *size;
  int n, n_size;
  onnx_window w = {0};
  TRY(converter_constant_ints(c, 1, &image, &n));
  TRY(converter_constant_ints(c, 2, &size, &n_size));
  if (n < 1 || n > MAX_RANK - 2 || n_size != n || x->tensor.rank != 3)
    return OP_FAIL("image_shape and block_shape have %d and %d elements, expected 1 to %d", n, n_size, MAX_RANK - 2);
  w.n = n;
  memcpy(w.size, size, (size_t)n * sizeof *size);
  TRY(window_list(c, "strides", n, 1, w.stride));
  TRY(window_list(c, "dilations", n, 1, w.dilation));
  int n_pads;
  const int64_t *pads = attribute_ints(c, "pads", &n_pads);
  int64_t places[MAX_RANK], padded[MAX_RANK], window = 1, all = 1, row = 1, dims[MAX_RANK], offset = 0;
  for (int d = 0; d < n; ++d) {
    w.before[d] = n_pads == 2 * n ? pads[d] : 0;
    w.after[d] = n_pads == 2 * n ? pads[d + n] : 0;
    places[d] = window_places(&w, d, image[d], false);
    padded[d] = image[d] + w.before[d] + w.after[d];
    window *= size[d];
    all *= places[d];
    row *= padded[d];
  }
  if (window < 1 || x->tensor.dims[1] % window || x->tensor.dims[2] != all)
    return OP_FAIL("the columns have %jd places, expected %jd", (intmax_t)x->tensor.dims[2], (intmax_t)all);
  const int64_t channels = x->tensor.dims[1] / window, flat[] = {x->tensor.dims[0], channels, window * all};
  const int64_t rows[] = {flat[0], channels, row};
  TRY(ir_constant(g, ACL_INT64, (const int64_t[]){1, 1, flat[2]}, 3, NULL, &index));
  fill_columns(&w, places, padded, flat[2], ir_fill(index));
  TRY(ir_expanded(g, index, flat, 3, &index));
  TRY(ir_reshaped(g, x, flat, 3, &x));
  TRY(ir_number(g, x->tensor.dtype, 0, &zeros));
  TRY(ir_expanded(g, zeros, rows, 3, &zeros));
  TRY(ir_temporary(g, x->tensor.dtype, rows, 3, &y));
  TRY(node_ScatterAdd(g, zeros, 2, index, x, y));
  dims[0] = flat[0];
  dims[1] = channels;
  memcpy(dims + 2, padded, (size_t)n * sizeof *dims);
  TRY(ir_reshaped(g, y, dims, n + 2, &y));
  for (int d = 0; d < n; ++d) {
    offset += w.before[d] * y->tensor.strides[d + 2];
    dims[d + 2] = image[d];
  }
  TRY(ir_view(g, y, dims, y->tensor.strides, n + 2, offset, &y));
  return converter_output(c, 0, y);
}

const onnx_operator onnx_windows[] = {
    {"Conv", convert_conv, 2, NULL, 0},
    {"ConvTranspose", convert_conv_transpose, 2, NULL, 0},
    {"Col2Im", convert_col2im, 3, NULL, 0},
    {0},
};
