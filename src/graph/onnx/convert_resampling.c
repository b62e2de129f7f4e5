/* SPDX-License-Identifier: Apache-2.0 */
/* Resize, Upsample, and sampling by grids. Each axis is resampled by itself: an element of the result is a sum of
 * weighted elements of the input ("taps"), whose numbers and weights are known while the model is converted. ONNX's
 * reference implementation says which they are (onnx/reference/ops/op_resize.py). */
#include <math.h>
#include <string.h>

#include "graph/nodes.h"
#include "graph/onnx/convert.h"

enum { FEW_TAPS = 4 }; /* more are computed as a product with a matrix of weights */

typedef enum { NEAREST, LINEAR, CUBIC } resize_mode;

typedef struct {
  resize_mode mode;
  const char *coordinates, *rounding;
  bool antialias, exclude_outside;
  double cubic, extrapolation;
} resize;

/* What happens to one axis. */
typedef struct {
  int64_t in, out;
  double scale, first, last; /* first and last: of the region, as parts of the axis */
} resize_axis;

/* The place among the input's elements of element i of the result, in double. */
static double double_place(const char *mode, const resize_axis *a, int64_t i) {
  const double in = (double)a->in, out = a->scale * in, x = (double)i;
  if (!strcmp(mode, "asymmetric")) return x / a->scale;
  if (!strcmp(mode, "tf_half_pixel_for_nn")) return (x + 0.5) / a->scale;
  if (!strcmp(mode, "align_corners")) return a->out == 1 ? 0 : x * (in - 1) / (out - 1);
  if (!strcmp(mode, "pytorch_half_pixel") && a->out == 1) return -0.5;
  if (!strcmp(mode, "tf_crop_and_resize"))
    return a->out > 1 ? a->first * (in - 1) + x * (a->last - a->first) * (in - 1) / (double)(a->out - 1)
                      : 0.5 * (a->first + a->last) * (in - 1);
  const double half = (x + 0.5) / a->scale - 0.5;
  return strcmp(mode, "half_pixel_symmetric") ? half : half + in / 2 * (1 - (double)a->out / out);
}

/* The same; for a nearest neighbour in float, as onnxruntime computes it: the scale is a float, and in double i / scale
 * would miss an integer that it is meant to reach, such as 17 / 1.7. */
static double source_of(const resize *r, const resize_axis *a, int64_t i) {
  const char *mode = r->coordinates;
  const float scale = (float)a->scale, half_pixel = ((float)i + 0.5F) / scale;
  if (r->mode == NEAREST && !strcmp(mode, "asymmetric")) return (float)i / scale;
  if (r->mode == NEAREST && !strcmp(mode, "tf_half_pixel_for_nn")) return half_pixel;
  if (r->mode == NEAREST && (!strcmp(mode, "half_pixel") || (!strcmp(mode, "pytorch_half_pixel") && a->out > 1)))
    return half_pixel - 0.5F;
  return double_place(mode, a, i);
}

static int64_t nearest_of(const resize *r, double x) {
  if (!strcmp(r->rounding, "floor")) return (int64_t)floor(x);
  if (!strcmp(r->rounding, "ceil")) return (int64_t)ceil(x);
  return (int64_t)(!strcmp(r->rounding, "round_prefer_ceil") ? floor(x + 0.5) : ceil(x - 0.5));
}

/* The weight of an element at a distance, in elements. */
static double resize_weight(const resize *r, double distance) {
  const double x = fabs(distance), a = r->cubic;
  if (r->mode == LINEAR) return x < 1 ? 1 - x : 0;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Taps of all elements of an axis: n of each, indices clamped to the input. */
typedef struct {
  int n;
  int64_t *index; /* [n][out] */
  double *weight; /* [n][out] */
  double *extra;  /* [out]: what is added; NULL: nothing */
} taps;

static int n_taps(const resize *r, const resize_axis *a, double *narrow, int *start) {
  const int reach = r->mode == LINEAR ? 1 : 2;
  *narrow = r->antialias && a->scale < 1 ? a->scale : 1;
  *start = (int)floor(-reach / *narrow) + 1;
  return r->mode == NEAREST ? 1 : 2 - 2 * *start;
}

static void fill_taps(const resize *r, const resize_axis *a, int64_t i, int start, double narrow, taps *t) {
  const double x = source_of(r, a, i);
  if (r->mode == NEAREST) {
    const int64_t at = nearest_of(r, x);
    t->index[i] = at < 0 ? 0 : at >= a->in ? a->in - 1 : at;
    t->weight[i] = 1;
  } else {
    double sum = 0;
    const double base = ceil(x) - 1; /* so that x - base is in (0, 1] */
    for (int k = 0; k < t->n; ++k) {
      const int64_t at = (int64_t)base + start + k;
      double w = resize_weight(r, (start + k - (x - base)) * narrow);
      if (r->exclude_outside && (at < 0 || at >= a->in)) w = 0;
      t->index[k * a->out + i] = at < 0 ? 0 : at >= a->in ? a->in - 1 : at;
      t->weight[k * a->out + i] = w;
      sum += w;
    }
    for (int k = 0; k < t->n && (r->antialias || r->exclude_outside); ++k) t->weight[k * a->out + i] /= sum;
  }
  if (!t->extra || (x >= 0 && x <= (double)(a->in - 1))) return;
  for (int k = 0; k < t->n; ++k) t->weight[k * a->out + i] = 0;
  t->extra[i] = r->extrapolation;
}

static status make_taps(converter *c, const resize *r, const resize_axis *a, taps *t) {
  double narrow;
  int start;
  region *memory = &c->g->memory;
  *t = (taps){.n = n_taps(r, a, &narrow, &start)};
  t->index = REGION_NEW(memory, int64_t, t->n * a->out);
  t->weight = REGION_NEW(memory, double, t->n * a->out);
  if (!strcmp(r->coordinates, "tf_crop_and_resize")) t->extra = REGION_NEW(memory, double, a->out);
  if (!t->index || !t->weight) return fail(ST_NO_HOST_MEMORY, "no host memory for the weights of a Resize");
  for (int64_t i = 0; i < a->out; ++i) fill_taps(r, a, i, start, narrow, t);
  return ST_OK;
}

/* Numbers along one axis, which broadcast with a value of this rank. */
static status along(converter *c, const double *numbers, int64_t n, int axis, int rank, int dtype, ir_value **out) {
  int64_t dims[MAX_RANK];
  for (int d = 0; d < rank; ++d) dims[d] = d == axis ? n : 1;
  TRY(ir_constant(c->g, ACL_DOUBLE, dims, rank, NULL, out));
  memcpy(ir_fill(*out), numbers, (size_t)n * sizeof *numbers);
  return ir_cast(c->g, *out, dtype, out);
}

static status resize_pick(converter *c, ir_value *x, int axis, const int64_t *index, int64_t n, ir_value **out) {
  int64_t dims[MAX_RANK];
  ir_value *numbers;
  memcpy(dims, x->tensor.dims, sizeof dims);
  dims[axis] = n;
  TRY(ir_integers(c->g, index, (int)n, &numbers));
  TRY(ir_temporary(c->g, x->tensor.dtype, dims, x->tensor.rank, out));
  return node_IndexSelect(c->g, x, axis, numbers, *out);
}

/* The sum over few taps of picked elements times weights. */
static status sum_of_taps(converter *c, ir_value *x, int axis, const resize_axis *a, const taps *t, ir_value **out) {
  ir_value *sum = NULL;
  for (int k = 0; k < t->n; ++k) {
    ir_value *picked, *weights;
    TRY(resize_pick(c, x, axis, t->index + k * a->out, a->out, &picked));
    TRY(along(c, t->weight + k * a->out, a->out, axis, x->tensor.rank, x->tensor.dtype, &weights));
    TRY(converter_binary(c, &op_Mul, picked, weights, x->tensor.dtype, &picked));
    if (sum)
      TRY(converter_binary(c, &op_Add, sum, picked, x->tensor.dtype, &sum));
    else
      sum = picked;
  }
  *out = sum;
  return ST_OK;
}

/* The product with the matrix of weights [in, out] along the axis, which is moved to the end and back. */
static status product_of_taps(converter *c, ir_value *x, int axis, const resize_axis *a, const taps *t,
                              ir_value **out) {
  const int64_t dims[] = {a->in, a->out};
  int order[MAX_RANK], back[MAX_RANK];
  ir_value *weights;
  TRY(ir_constant(c->g, ACL_DOUBLE, dims, 2, NULL, &weights));
  for (int64_t i = 0; i < t->n * a->out; ++i)
    ((double *)ir_fill(weights))[t->index[i] * a->out + i % a->out] += t->weight[i];
  TRY(ir_cast(c->g, weights, x->tensor.dtype, &weights));
  for (int d = 0; d < x->tensor.rank; ++d) order[d] = d;
  order[axis] = x->tensor.rank - 1;
  order[x->tensor.rank - 1] = axis;
  memcpy(back, order, sizeof back); /* exchanging two axes is its own inverse */
  TRY(ir_permuted(c->g, x, order, &x));
  TRY(converter_product(c, x, weights, &x));
  return ir_permuted(c->g, x, back, out);
}

static status resize_one(converter *c, const resize *r, int axis, const resize_axis *a, ir_value **x) {
  taps t;
  ir_value *extra;
  if (a->in == a->out && a->scale == 1 && strcmp(r->coordinates, "tf_crop_and_resize") != 0) return ST_OK;
  if (!a->in || !a->out) return OP_FAIL("dimension %d is empty", axis);
  TRY(make_taps(c, r, a, &t));
  if (r->mode == NEAREST && !t.extra) return resize_pick(c, *x, axis, t.index, a->out, x);
  TRY(t.n <= FEW_TAPS ? sum_of_taps(c, *x, axis, a, &t, x) : product_of_taps(c, *x, axis, a, &t, x));
  if (!t.extra) return ST_OK;
  TRY(along(c, t.extra, a->out, axis, (*x)->tensor.rank, (*x)->tensor.dtype, &extra));
  return converter_binary(c, &op_Add, *x, extra, (*x)->tensor.dtype, x);
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* Images whose interpolation CANN has an operator for. */
static bool is_bilinear_image(const resize *r, const ir_value *x, const resize_axis *a) {
  if (r->mode != LINEAR || r->antialias || r->exclude_outside || x->tensor.rank != 4) return false;
  for (int d = 0; d < 2; ++d)
    if (a[d].in != a[d].out) return false;
  for (int d = 2; d < 4; ++d)
    if (!a[d].in || a[d].out < 2 || (double)a[d].out != a[d].scale * (double)a[d].in) return false;
  return !strcmp(r->coordinates, "align_corners") || !strcmp(r->coordinates, "half_pixel") ||
         !strcmp(r->coordinates, "pytorch_half_pixel");
}

static status bilinear_image(converter *c, const resize *r, ir_value *x, const resize_axis *a, ir_value **out) {
  const int64_t size[] = {a[2].out, a[3].out}, dims[] = {a[0].out, a[1].out, a[2].out, a[3].out};
  const aclIntArray *list = ir_int_array(c->g, size, 2);
  if (!list) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, x->tensor.dtype, dims, 4, out));
  return node_UpsampleBilinear2d(c->g, x, list, !strcmp(r->coordinates, "align_corners"), a[2].scale, a[3].scale, *out);
}

/* Images whose elements become squares of a power of two, for which all ways to round are one, mostly. */
static status is_nearest_image(converter *c, const resize *r, const ir_value *x, const resize_axis *a, bool *is) {
  *is = r->mode == NEAREST && x->tensor.rank == 4 && dtype_is_float(x->tensor.dtype) && a[0].in == a[0].out &&
        a[1].in == a[1].out && strcmp(r->coordinates, "tf_crop_and_resize") != 0;
  for (int d = 2; d < 4 && *is; ++d) {
    const int64_t times = a[d].in ? a[d].out / a[d].in : 0;
    taps t;
    *is = times && !(times & (times - 1)) && a[d].out == times * a[d].in;
    if (!*is) break;
    TRY(make_taps(c, r, &a[d], &t));
    for (int64_t i = 0; i < a[d].out; ++i) *is &= t.index[i] == i / times;
  }
  return ST_OK;
}

static status nearest_image(converter *c, ir_value *x, const resize_axis *a, ir_value **out) {
  const int64_t size[] = {a[2].out, a[3].out}, dims[] = {a[0].out, a[1].out, a[2].out, a[3].out};
  const aclIntArray *list = ir_int_array(c->g, size, 2);
  if (!list) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, x->tensor.dtype, dims, 4, out));
  return node_UpsampleNearest2d(c->g, x, list, *out);
}

static status resized(converter *c, const resize *r, const resize_axis *a, ir_value *x) {
  const int dtype = x->tensor.dtype;
  bool is_nearest;
  if (!dtype_is_float(dtype) && r->mode != NEAREST) TRY(ir_cast(c->g, x, ACL_FLOAT, &x));
  TRY(is_nearest_image(c, r, x, a, &is_nearest));
  if (is_bilinear_image(r, x, a))
    TRY(bilinear_image(c, r, x, a, &x));
  else if (is_nearest)
    TRY(nearest_image(c, x, a, &x));
  else
    for (int d = 0; d < x->tensor.rank; ++d) TRY(resize_one(c, r, d, &a[d], &x));
  TRY(ir_cast(c->g, x, dtype, &x));
  return converter_output(c, 0, x);
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static status read_resize(const converter *c, resize *r) {
  const char *mode = attribute_string(c, "mode", "nearest");
  const bool old = c->version < 11;
  *r = (resize){.mode = mode[0] == 'n'   ? NEAREST
                        : mode[0] == 'c' ? CUBIC
                                         : LINEAR,
                .coordinates = attribute_string(c, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel"),
                .rounding = attribute_string(c, "nearest_mode", old ? "floor" : "round_prefer_floor"),
                .antialias = attribute_int(c, "antialias", 0),
                .exclude_outside = attribute_int(c, "exclude_outside", 0),
                .cubic = attribute_float(c, "cubic_coeff_a", -0.75),
                .extrapolation = attribute_float(c, "extrapolation_value", 0)};
  return ST_OK;
}

/* Sizes that keep the picture's proportions: the smallest or the largest scale counts for all axes. */
static void keep_proportions(const char *policy, const int *axes, int n, resize_axis *a) {
  const bool smallest = !strcmp(policy, "not_larger");
  double scale = a[axes[0]].scale;
  for (int i = 1; i < n; ++i)
    if (smallest ? a[axes[i]].scale < scale : a[axes[i]].scale > scale) scale = a[axes[i]].scale;
  for (int i = 0; i < n; ++i) {
    a[axes[i]].scale = scale;
    a[axes[i]].out = (int64_t)floor(scale * (double)a[axes[i]].in + 0.5);
  }
}

/* Sets an axis's scale, which is a float, and the size, which onnxruntime computes in float: 10 * 0.7 is 7. */
static void scale_axis(resize_axis *a, double scale) {
  a->out = (int64_t)floorf((float)a->in * (float)scale);
  a->scale = scale;
}

/* The axes, from scales or sizes, which are inputs. */
static status read_axes(converter *c, const ir_value *x, int scales_input, int sizes_input, resize_axis *a) {
  const double *scales = NULL, *roi = NULL;
  const int64_t *sizes = NULL;
  int n = 0, n_axes, n_roi = 0, axes[MAX_RANK];
  const int64_t *given = attribute_ints(c, "axes", &n_axes);
  const char *policy = attribute_string(c, "keep_aspect_ratio_policy", "stretch");
  for (int d = 0; d < x->tensor.rank; ++d)
    a[d] = (resize_axis){.in = x->tensor.dims[d], .out = x->tensor.dims[d], .scale = 1, .first = 0, .last = 1};
  const ir_value *by_size = sizes_input ? converter_input(c, sizes_input) : NULL;
  if (by_size && by_size->tensor.n)
    TRY(converter_constant_ints(c, sizes_input, &sizes, &n));
  else
    TRY(converter_constant_reals(c, scales_input, &scales, &n));
  const int wanted = n_axes < 0 ? x->tensor.rank : n_axes;
  if (n != wanted) return OP_FAIL("there are %d scales or sizes, expected %d", n, wanted);
  if (sizes_input && converter_input(c, 1) && converter_input(c, 1)->tensor.n)
    TRY(converter_constant_reals(c, 1, &roi, &n_roi));
  for (int i = 0; i < n; ++i) {
    TRY(converter_axis(n_axes < 0 ? i : given[i], x->tensor.rank, &axes[i]));
    resize_axis *to = &a[axes[i]];
    if (sizes)
      to->scale = (double)sizes[i] / (double)to->in, to->out = sizes[i];
    else
      scale_axis(to, scales[i]);
    if (to->scale <= 0) return OP_FAIL("the scale of dimension %d is %g, expected more than 0", axes[i], to->scale);
    if (n_roi == 2 * n) to->first = roi[i], to->last = roi[i + n];
  }
  if (sizes && strcmp(policy, "stretch") != 0) keep_proportions(policy, axes, n, a);
  return ST_OK;
}

static status convert_resize(converter *c) {
  ir_value *x = converter_input(c, 0);
  resize r;
  resize_axis a[MAX_RANK];
  TRY(read_resize(c, &r));
  TRY(read_axes(c, x, c->version < 11 ? 1 : 2, c->version < 11 ? 0 : 3, a));
  return resized(c, &r, a, x);
}

static status convert_upsample(converter *c) {
  ir_value *x = converter_input(c, 0);
  resize r;
  resize_axis a[MAX_RANK];
  int n;
  const float *scales = attribute_floats(c, "scales", &n);
  TRY(read_resize(c, &r));
  r.coordinates = "asymmetric";
  r.rounding = "floor";
  if (!scales) {
    TRY(read_axes(c, x, 1, 0, a));
    return resized(c, &r, a, x);
  }
  if (n != x->tensor.rank) return OP_FAIL("scales has %d elements, expected %d", n, x->tensor.rank);
  for (int d = 0; d < n; ++d) {
    a[d] = (resize_axis){.in = x->tensor.dims[d]};
    scale_axis(&a[d], scales[d]);
  }
  return resized(c, &r, a, x);
}

/* ---- grids ------------------------------------------------------------------------------------------------------- */

static status convert_grid_sample(converter *c) {
  ir_value *x = converter_input(c, 0), *grid = converter_input(c, 1), *y;
  const char *mode = attribute_string(c, "mode", "linear"), *padding = attribute_string(c, "padding_mode", "zeros");
  const int n = x->tensor.rank - 2;
  const int kind = strstr(mode, "cubic") ? 2 : !strcmp(mode, "nearest");
  const int outside = padding[0] == 'b' ? 1 : padding[0] == 'r' ? 2 : 0;
  const bool corners = attribute_int(c, "align_corners", 0);
  int64_t dims[MAX_RANK];
  if (n < 2 || n > 3 || grid->tensor.rank != x->tensor.rank)
    return OP_FAIL("the input has %d dimensions and the grid %d, expected 4 or 5", x->tensor.rank, grid->tensor.rank);
  memcpy(dims, x->tensor.dims, sizeof dims);
  memcpy(dims + 2, grid->tensor.dims + 1, (size_t)n * sizeof *dims);
  TRY(ir_temporary(c->g, x->tensor.dtype, dims, x->tensor.rank, &y));
  if (n == 2)
    TRY(node_GridSampler2D(c->g, x, grid, kind, outside, corners, y));
  else
    TRY(node_GridSampler3D(c->g, x, grid, kind, outside, corners, y));
  return converter_output(c, 0, y);
}

static status convert_affine_grid(converter *c) {
  ir_value *theta = converter_input(c, 0), *y;
  const int64_t *size;
  int n;
  int64_t dims[MAX_RANK];
  TRY(converter_constant_ints(c, 1, &size, &n));
  if (n != 4 && n != 5) return OP_FAIL("size has %d elements, expected 4 or 5", n);
  dims[0] = size[0];
  memcpy(dims + 1, size + 2, (size_t)(n - 2) * sizeof *dims);
  dims[n - 1] = n - 2;
  const aclIntArray *list = ir_int_array(c->g, size, n);
  if (!list) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, theta->tensor.dtype, dims, n, &y));
  TRY(node_AffineGrid(c->g, theta, list, attribute_int(c, "align_corners", 0), y));
  return converter_output(c, 0, y);
}

const onnx_operator onnx_resampling[] = {
    {"Resize", convert_resize, 1, NULL, 0},
    {"Upsample", convert_upsample, 1, NULL, 0},
    {"GridSample", convert_grid_sample, 2, NULL, 0},
    {"AffineGrid", convert_affine_grid, 2, NULL, 0},
    {0},
};
