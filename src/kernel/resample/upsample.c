/* SPDX-License-Identifier: Apache-2.0 */
/* The operators Upsample*, their gradients, and Resize: band matrices along each of the last dimensions
 * (separable.h); nearest neighbours are copied instead (nearest.c). */
#include "kernel/resample/upsample.h"

#include <math.h>

#include "base/fraction.h"
#include "kernel/families.h"

typedef struct {
  int8_t variant, kind, n_axes;
} mode;

static const mode modes[] = {
    {NEAREST_1D, BAND_NEAREST, 1},
    {NEAREST_2D, BAND_NEAREST, 2},
    {NEAREST_3D, BAND_NEAREST, 3},
    {NEAREST_EXACT_1D, BAND_NEAREST_EXACT, 1},
    {NEAREST_EXACT_2D, BAND_NEAREST_EXACT, 2},
    {NEAREST_EXACT_3D, BAND_NEAREST_EXACT, 3},
    {LINEAR_1D, BAND_LINEAR, 1},
    {LINEAR_2D, BAND_LINEAR, 2},
    {LINEAR_3D, BAND_LINEAR, 3},
    {CUBIC_2D, BAND_CUBIC, 2},
    {LINEAR_AA_2D, BAND_LINEAR_AA, 2},
    {CUBIC_AA_2D, BAND_CUBIC_AA, 2},
};

static const mode *upsample_mode(const op *o) {
  int i = 0;
  while (modes[i].variant != o->variant) ++i;
  return &modes[i];
}

static status expect_sizes(const aclIntArray *a, const char *name, uint64_t n, int least) {
  TRY(op_expect_size(a->size, name, n));
  for (uint64_t i = 0; i < n; ++i)
    EXPECT(a->value[i] >= least && a->value[i] <= INT32_MAX, "%s[%ju] is %jd, expected %d to %d", name, (uintmax_t)i,
           (intmax_t)a->value[i], least, INT32_MAX);
  return ST_OK;
}

/* UpsampleBilinear2d uses the sizes instead of the scales if the scales do not lead to outputSize: frameworks pass 1
 * for "not given". */
static bool scales_give(const double *scale, const int64_t *in, const int64_t *out, int n) {
  bool all = true;
  for (int i = 0; i < n; ++i) all = all && (int64_t)((double)in[i] * scale[i]) == out[i];
  return all;
}

/* Refuses the scales that CANN refuses: a negative one where it has no special meaning, and one that does not lead
 * to outputSize. */
static status expect_scale(const op *o, bool backward, double scale, const char *name, int64_t in, int64_t out) {
  const bool linear_1d = !backward && o->variant == LINEAR_1D, cubic = !backward && o->variant == CUBIC_2D;
  const double slack = cubic ? 1e-5 : 0;
  if (backward ? o->variant == CUBIC_AA_2D : o->variant == LINEAR_2D || o->variant == LINEAR_AA_2D)
    EXPECT(scale >= 0, "%s is %g, expected 0 or more", name, scale);
  if ((linear_1d && scale >= 0) || (cubic && scale > 0))
    EXPECT((double)out >= trunc((double)in * (scale - slack)) && (double)out <= trunc((double)in * (scale + slack)),
           "%s is %g, expected one that makes %jd elements outputSize's %jd", name, scale, (intmax_t)in, (intmax_t)out);
  return ST_OK;
}

/* Checks and collects the arguments. A gradient has inputSize; a scale of 0 is not given. */
static status upsample_arguments(executor *e, const upsample_args *a, upsample_call *u) {
  const mode *m = upsample_mode(e->op);
  const bool backward = a->input_size;
  *u = (upsample_call){.n_axes = m->n_axes, .in = a->self, .out = a->out};
  const int rank = m->n_axes + 2;
  const aclIntArray *sizes = a->output_size;
  TRY(expect_sizes(sizes, "outputSize", (uint64_t)m->n_axes, 1));
  EXPECT(u->in->rank == rank, "%s has shape %s, expected %d dimensions", a->name.self, SHAPE_OF(u->in), rank);
  int64_t dims[MAX_RANK]; /* the shape of the side that is not u->in */
  const int64_t *input = u->in->dims;
  for (int d = 0; d < rank; ++d) dims[d] = d < 2 ? u->in->dims[d] : sizes->value[d - 2];
  if (backward) {
    TRY(expect_sizes(a->input_size, "inputSize", (uint64_t)rank, 0));
    for (int d = 0; d < 2; ++d) dims[d] = a->input_size->value[d];
    TRY(op_expect_shape(u->in, a->name.self, dims, rank));
    input = a->input_size->value;
  }
  TRY(op_expect_shape(u->out, a->name.out, backward ? input : dims, rank));
  const double scales[BAND_AXES] = {a->scales_d, a->scales_h, a->scales_w}, *given = scales + BAND_AXES - m->n_axes;
  const char *const names[BAND_AXES] = {"scalesD", "scalesH", a->name.scales_w};
  for (int i = 0; i < m->n_axes; ++i)
    TRY(expect_scale(e->op, backward, given[i], names[BAND_AXES - m->n_axes + i], input[2 + i], sizes->value[i]));
  const bool align = a->align_corners;
  const bool by_sizes = m->kind == BAND_LINEAR && m->n_axes == 2 && !scales_give(given, input + 2, sizes->value, 2);
  for (int i = 0; i < m->n_axes; ++i) {
    const int64_t in = input[2 + i], out = sizes->value[i];
    EXPECT(in > 0 || u->out->n == 0, "%s has no element along dimension %d, expected some", a->name.self, 2 + i);
    u->axis[i] = (band_spec){.kind = (band_kind)m->kind, .in = in, .out = out, .align_corners = align};
    const bool jumps = m->kind <= BAND_NEAREST_EXACT;
    u->axis[i].scale = resample_scale(in, out, align, by_sizes ? 0 : jumps ? fraction_meant(given[i]) : given[i]);
  }
  return ST_OK;
}

status prepare_upsample(executor *e, const upsample_args *a) {
  const bool backward = a->input_size, moved = !backward && upsample_mode(e->op)->kind <= BAND_NEAREST_EXACT;
  upsample_call u;
  TRY(upsample_arguments(e, a, &u));
  TRY(op_expect_dtype(u.in, a->name.self, moved ? DTYPES_NUMBER : DTYPES_FLOAT));
  TRY(op_expect_dtype(u.out, a->name.out, DTYPE_BIT(u.in->dtype)));
  return moved ? nearest_prepare(e, &u) : separable_prepare(e, u.in, u.out, u.axis, u.n_axes, backward);
}

/* Resizes the last two of four dimensions to those of out, as CANN's kernels for Resize do: "nearest" takes the
 * input at floor(o * in / out); "bilinear" is UpsampleBilinear2d without aligned corners. Of scales, only the size
 * is checked, since the shape of out determines the rest. */
status prepare_resize(executor *e, const resize_args *a) {
  const tensor *self = a->self, *out = a->out;
  const char *mode = a->mode;
  if (!mode) return fail(ST_OP_NULL, "mode is NULL, expected \"nearest\" or \"bilinear\"");
  EXPECT(!strcmp(mode, "nearest") || !strcmp(mode, "bilinear"), "mode is %s, expected \"nearest\" or \"bilinear\"",
         mode);
  const bool nearest = !strcmp(mode, "nearest");
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(self->dtype)));
  TRY(op_expect_size(a->scales->size, "scales", 4));
  TRY(op_expect_rank(self, "self", 4, 4));
  TRY(op_expect_rank(out, "out", 4, 4));
  TRY(op_expect_shape(out, "out", (const int64_t[]){self->dims[0], self->dims[1], out->dims[2], out->dims[3]}, 4));
  upsample_call u = {.in = self, .out = out, .n_axes = 2};
  for (int i = 0; i < 2; ++i) {
    const int64_t in = self->dims[2 + i], size = out->dims[2 + i];
    EXPECT(in > 0 || out->n == 0, "self has no element along dimension %d, expected some", 2 + i);
    EXPECT(in <= INT32_MAX && size <= INT32_MAX, "dimension %d is %jd, expected at most %d", 2 + i,
           (intmax_t)(in > size ? in : size), INT32_MAX);
    u.axis[i] = (band_spec){.kind = nearest ? BAND_NEAREST : BAND_LINEAR, .in = in, .out = size};
    u.axis[i].scale = resample_scale(in, size, false, 0);
  }
  return nearest ? nearest_prepare(e, &u) : separable_prepare(e, self, out, u.axis, 2, false);
}

/* A tensor of rows as one of images of one row, since MindSpore passes both for one call: in *room, or the same. */
static const tensor *with_one_row(const tensor *t, tensor *room) {
  if (t->rank != 3) return t;
  *room = *t;
  room->rank = 4;
  room->dims[3] = t->dims[2];
  room->strides[3] = t->strides[2];
  room->dims[2] = 1;
  return room;
}

/* Images [batch, height, width, channels] with the channels before the height. */
static tensor channels_first(const tensor *t) {
  tensor turned = *t;
  for (int d = 1; d < 4; ++d) {
    turned.dims[d] = t->dims[d == 1 ? 3 : d - 1];
    turned.strides[d] = t->strides[d == 1 ? 3 : d - 1];
  }
  turned.contiguous = false;
  return turned;
}

/* The operators ResizeBilinearV2, ResizeNearestNeighborV2, ResizeBicubic and their gradients, called by name. The last
 * two of four dimensions are resized, or in format NHWC those before the last. */
status prepare_graph_resize(executor *e, const graph_resize_args *a) {
  const int variant = e->op->variant;
  const bool cubic = variant == GRAPH_RESIZE_BICUBIC || variant == GRAPH_RESIZE_BICUBIC_GRAD;
  const bool backward = variant == GRAPH_RESIZE_BILINEAR_GRAD || variant == GRAPH_RESIZE_NEAREST_GRAD ||
                        variant == GRAPH_RESIZE_BICUBIC_GRAD;
  const bool nearest = variant == GRAPH_RESIZE_NEAREST || variant == GRAPH_RESIZE_NEAREST_GRAD;
  tensor room[2];
  const tensor *from = with_one_row(backward ? a->grads : a->x, &room[0]), *to = with_one_row(a->y, &room[1]);
  if (from->rank == 4 && to->rank == 4 && from->origin_format == ACL_FORMAT_NHWC) {
    const tensor first[] = {channels_first(from), channels_first(to)};
    room[0] = first[0], room[1] = first[1];
    from = &room[0], to = &room[1];
  }
  const tensor *in = backward ? to : from, *out = backward ? from : to;
  char text[SHAPE_TEXT];
  upsample_call u = {.in = from, .out = to, .n_axes = 2};
  TRY(op_expect_dtype(from, backward ? "grads" : "x", DTYPES_FLOAT));
  TRY(op_expect_dtype(to, "y", DTYPE_BIT(from->dtype)));
  EXPECT(in->rank == 4 && out->rank == 4 && in->dims[0] == out->dims[0] && in->dims[1] == out->dims[1] && in->n,
         "y has shape %s, expected four dimensions, of which the first two are those of %s",
         shape_text(to->dims, to->rank, text), backward ? "grads" : "x");
  EXPECT(!a->align_corners || !a->half_pixel_centers, "align_corners and half_pixel_centers are 1, expected %s",
         "one of them at most");
  for (int i = 0; i < 2; ++i) {
    const int64_t n = in->dims[2 + i], size = out->dims[2 + i];
    EXPECT(n <= INT32_MAX && size <= INT32_MAX, "dimension %d is %jd, expected at most %d", 2 + i,
           (intmax_t)(n > size ? n : size), INT32_MAX);
    u.axis[i] = (band_spec){.kind = cubic                   ? BAND_CUBIC_TABLE
                                    : !nearest              ? BAND_LINEAR
                                    : a->half_pixel_centers ? BAND_NEAREST_EXACT
                                                            : BAND_NEAREST,
                            .in = n,
                            .out = size,
                            .align_corners = a->align_corners,
                            .from_edges = !a->half_pixel_centers};
    u.axis[i].scale = resample_scale(n, size, a->align_corners, 0);
  }
  return nearest && !backward ? nearest_prepare(e, &u) : separable_prepare(e, from, to, u.axis, 2, backward);
}

status prepare_graph_resize_area(executor *e, const graph_resize_area_args *a) {
  const tensor *images = a->images, *y = a->y;
  TRY(op_expect_dtype(images, "images", DTYPES_FLOAT | DTYPES_INTEGER));
  TRY(op_expect_dtype(y, "y", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_rank(images, "images", 4, 4));
  EXPECT(images->dims[1] > 0 && images->dims[2] > 0, "images has shape %s, expected images of a pixel or more",
         SHAPE_OF(images));
  TRY(op_expect_size(a->size->size, "size", 2));
  const int64_t dims[] = {images->dims[0], a->size->value[0], a->size->value[1], images->dims[3]};
  TRY(op_expect_shape(y, "y", dims, 4));
  band_spec axis[2];
  for (int i = 0; i < 2; ++i) {
    const int64_t n = images->dims[1 + i], size = dims[1 + i];
    EXPECT(n <= INT32_MAX && size <= INT32_MAX, "dimension %d is %jd, expected at most %d", 1 + i,
           (intmax_t)(n > size ? n : size), INT32_MAX);
    const bool corners = a->align_corners && size > 1;
    axis[i] = (band_spec){.kind = BAND_AREA, .in = n, .out = size, .scale = resample_scale(n, size, corners, 0)};
  }
  const tensor from = channels_first(images), to = channels_first(y);
  return separable_prepare(e, &from, &to, axis, 2, false);
}

/* ResizeD and ResizeGradD, as MindSpore sends them: linear along the last of four dimensions, whose size comes from the
 * other tensor. */
status prepare_graph_resize_row(executor *e, const graph_resize_row_args *a) {
  const tensor *from = a->x, *to = a->y;
  const bool backward = e->op->variant == GRAPH_RESIZE_ROW_GRAD, corners = !strcmp(a->coordinates, "align_corners");
  const tensor *in = backward ? to : from, *out = backward ? from : to;
  TRY(op_expect_dtype(from, a->name.x, DTYPES_FLOAT));
  TRY(op_expect_dtype(to, "y", DTYPE_BIT(from->dtype)));
  EXPECT(!strcmp(a->mode, "linear"), "mode is \"%.32s\", expected \"linear\"", a->mode);
  EXPECT(corners || !strcmp(a->coordinates, "half_pixel"),
         "coordinate_transformation_mode is \"%.32s\", expected \"half_pixel\" or \"align_corners\"", a->coordinates);
  EXPECT(in->rank == 4 && out->rank == 4 && in->n && !memcmp(in->dims, out->dims, 3 * sizeof in->dims[0]),
         "y has shape %s, expected four dimensions, of which the first three are those of %s", SHAPE_OF(to), a->name.x);
  EXPECT(in->dims[3] <= INT32_MAX && out->dims[3] <= INT32_MAX, "a row has more than %d elements", INT32_MAX);
  const band_spec axis[] = {
      {.kind = BAND_IDENTITY, .in = in->dims[2], .out = in->dims[2]},
      {.kind = BAND_LINEAR,
       .in = in->dims[3],
       .out = out->dims[3],
       .align_corners = corners,
       .scale = resample_scale(in->dims[3], out->dims[3], corners, 0)},
  };
  return separable_prepare(e, from, to, axis, 2, backward);
}
