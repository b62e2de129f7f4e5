/* SPDX-License-Identifier: Apache-2.0 */
/* DeformConv of images: for each place and each tap of the window, an element that is read where an offset says,
 * between the elements of the image. These are columns, as of a convolution, which are multiplied by the weights. */
#include <string.h>

#include "graph/nodes.h"
#include "graph/onnx/convert.h"

typedef struct {
  onnx_window w;
  int64_t images, channels, taps, height, width; /* height and width: of the result */
  int64_t groups, offset_groups;
} deform;

static status read_deform(converter *c, const ir_value *x, const ir_value *weight, deform *d) {
  const tensor *offset = &converter_input(c, 2)->tensor, *t = &x->tensor, *of = &weight->tensor;
  if (t->rank != 4 || of->rank != 4 || offset->rank != 4)
    return OP_FAIL("the inputs have %d, %d and %d dimensions, expected 4", t->rank, of->rank, offset->rank);
  *d = (deform){.images = t->dims[0],
                .channels = t->dims[1],
                .taps = of->dims[2] * of->dims[3],
                .groups = attribute_int(c, "group", 1),
                .offset_groups = attribute_int(c, "offset_group", 1)};
  TRY(converter_window(c, x, of->dims + 2, &d->w));
  d->height = window_places(&d->w, 0, t->dims[2], false);
  d->width = window_places(&d->w, 1, t->dims[3], false);
  if (d->groups < 1 || d->offset_groups < 1 || d->channels % d->groups || d->channels % d->offset_groups ||
      of->dims[0] % d->groups || of->dims[1] * d->groups != d->channels)
    return OP_FAIL("%jd channels and weights of shape %s do not fit %jd groups and %jd offset groups",
                   (intmax_t)d->channels, SHAPE_OF(of), (intmax_t)d->groups, (intmax_t)d->offset_groups);
  const int64_t expected[] = {d->images, d->offset_groups * d->taps * 2, d->height, d->width};
  if (memcmp(offset->dims, expected, sizeof expected) != 0)
    return OP_FAIL("offset has shape %s, expected %s", SHAPE_OF(offset), DIMS_TEXT(expected, 4));
  const ir_value *mask = converter_input(c, 4);
  const int64_t of_mask[] = {d->images, d->offset_groups * d->taps, d->height, d->width};
  if (mask && (mask->tensor.rank != 4 || memcmp(mask->tensor.dims, of_mask, sizeof of_mask) != 0))
    return OP_FAIL("mask has shape %s, expected %s", SHAPE_OF(&mask->tensor), DIMS_TEXT(of_mask, 4));
  return ST_OK;
}

/* Where the taps read along an axis (0: rows), for the grid sampler: from -1 to 1 over the image's edges. offsets:
 * [images, taps, height, width]. */
static status deform_positions(converter *c, const deform *d, int axis, int64_t size, ir_value *offsets,
                               ir_value **out) {
  const int64_t n = axis ? d->width : d->height, dims[] = {d->taps, axis ? 1 : n, axis ? n : 1};
  const onnx_window *w = &d->w;
  ir_value *fixed, *scaled;
  TRY(ir_constant(c->g, ACL_FLOAT, dims, 3, NULL, &fixed));
  for (int64_t tap = 0; tap < d->taps; ++tap)
    for (int64_t i = 0; i < n; ++i) {
      const int64_t of_axis = axis ? tap % w->size[1] : tap / w->size[1];
      const double at = (double)(i * w->stride[axis] - w->before[axis] + of_axis * w->dilation[axis]);
      ((float *)ir_fill(fixed))[tap * n + i] = (float)((2 * at + 1) / (double)size - 1);
    }
  const scalar *factor = ir_scalar(c->g, ACL_FLOAT, 2 / (double)size);
  if (!factor) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, ACL_FLOAT, offsets->tensor.dims, 4, &scaled));
  TRY(node_Muls(c->g, offsets, factor, scaled));
  return converter_binary(c, &op_Add, scaled, fixed, ACL_FLOAT, out);
}

/* The elements that the taps read in the channels of one group of offsets: [images, channels, taps, places]. */
static status deform_columns(converter *c, const deform *d, ir_value *x, ir_value *offset, ir_value *mask,
                             int64_t group, ir_value **out) {
  const int64_t channels = d->channels / d->offset_groups, places = d->height * d->width;
  const int64_t split[] = {d->images, d->offset_groups, d->taps, 2, d->height, d->width};
  const int64_t of_axis[] = {d->images, d->taps, d->height, d->width};
  const int64_t grid_dims[] = {d->images, d->taps * d->height, d->width, 2};
  ir_value *axes[2], *grid, *part, *factors;
  TRY(ir_reshaped(c->g, offset, split, 6, &offset));
  for (int a = 0; a < 2; ++a) { /* the grid has x before y */
    const int64_t *s = offset->tensor.strides, strides[] = {s[0], s[2], s[4], s[5]};
    TRY(ir_view(c->g, offset, of_axis, strides, 4, group * s[1] + a * s[3], &part));
    TRY(deform_positions(c, d, a, x->tensor.dims[2 + a], part, &axes[1 - a]));
  }
  const aclTensorList *list = ir_list(c->g, axes, 2);
  if (!list) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, ACL_FLOAT, (const int64_t[]){d->images, d->taps, d->height, d->width, 2}, 5, &grid));
  TRY(node_Stack(c->g, list, 4, grid));
  TRY(ir_reshaped(c->g, grid, grid_dims, 4, &grid));
  tensor t = x->tensor;
  t.dims[1] = channels;
  TRY(ir_view(c->g, x, t.dims, t.strides, 4, group * channels * t.strides[1], &part));
  TRY(ir_contiguous(c->g, part, &part));
  TRY(ir_temporary(c->g, ACL_FLOAT, (const int64_t[]){d->images, channels, grid_dims[1], d->width}, 4, out));
  TRY(node_GridSampler2D(c->g, part, grid, 0, 0, false, *out)); /* bilinear, zeros around the image */
  TRY(ir_reshaped(c->g, *out, (const int64_t[]){d->images, channels, d->taps, places}, 4, out));
  if (!mask) return ST_OK;
  TRY(ir_reshaped(c->g, mask, (const int64_t[]){d->images, d->offset_groups, d->taps, places}, 4, &mask));
  const int64_t *s = mask->tensor.strides, strides[] = {s[0], 0, s[2], s[3]};
  TRY(ir_view(c->g, mask, (const int64_t[]){d->images, 1, d->taps, places}, strides, 4, group * s[1], &factors));
  return converter_binary(c, &op_Mul, *out, factors, ACL_FLOAT, out);
}

static status convert_deform_conv(converter *c) {
  ir_value *x = converter_input(c, 0), *weight = converter_input(c, 1), *offset, *bias = converter_input(c, 3), *mask;
  ir_value *columns, *y;
  const int dtype = x->tensor.dtype;
  deform d;
  TRY(read_deform(c, x, weight, &d));
  TRY(ir_cast(c->g, x, ACL_FLOAT, &x));
  TRY(ir_cast(c->g, weight, ACL_FLOAT, &weight));
  TRY(ir_cast(c->g, converter_input(c, 2), ACL_FLOAT, &offset));
  mask = converter_input(c, 4);
  if (mask) TRY(ir_cast(c->g, mask, ACL_FLOAT, &mask));
  ir_value **parts = REGION_NEW(&c->g->memory, ir_value *, d.offset_groups);
  if (!parts) return ST_NO_HOST_MEMORY;
  for (int64_t i = 0; i < d.offset_groups; ++i) TRY(deform_columns(c, &d, x, offset, mask, i, &parts[i]));
  const int64_t places = d.height * d.width, outputs = weight->tensor.dims[0];
  columns = parts[0];
  if (d.offset_groups > 1) {
    const aclTensorList *list = ir_list(c->g, parts, (int)d.offset_groups);
    if (!list) return ST_NO_HOST_MEMORY;
    TRY(ir_temporary(c->g, ACL_FLOAT, (const int64_t[]){d.images, d.channels, d.taps, places}, 4, &columns));
    TRY(node_Cat(c->g, list, 1, columns));
  }
  const int64_t rows = d.channels / d.groups * d.taps;
  TRY(ir_reshaped(c->g, columns, (const int64_t[]){d.images, d.groups, rows, places}, 4, &columns));
  TRY(ir_reshaped(c->g, weight, (const int64_t[]){d.groups, outputs / d.groups, rows}, 3, &weight));
  TRY(converter_product(c, weight, columns, &y));
  TRY(ir_reshaped(c->g, y, (const int64_t[]){d.images, outputs, d.height, d.width}, 4, &y));
  if (bias) {
    TRY(ir_cast(c->g, bias, ACL_FLOAT, &bias));
    TRY(ir_reshaped(c->g, bias, (const int64_t[]){outputs, 1, 1}, 3, &bias));
    TRY(converter_binary(c, &op_Add, y, bias, ACL_FLOAT, &y));
  }
  TRY(ir_cast(c->g, y, dtype, &y));
  return converter_output(c, 0, y);
}

const onnx_operator onnx_deform[] = {
    {"DeformConv", convert_deform_conv, 3, NULL, 0},
    {0},
};
