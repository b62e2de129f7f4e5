/* SPDX-License-Identifier: Apache-2.0 */
/* RoiAlign, as Mask R-CNN has it: a region of an image becomes a fixed number of bins. Each bin is the mean of samples
 * at points that are spread evenly in it and interpolated between four elements (or, for ONNX's mode "max", the largest
 * product of an element and its weight). Coordinates are computed in float, as in torchvision, so that both take the
 * same number of samples.
 *
 * A table of taps (points.h) serves all channels of a block. Threads share blocks of channels of each region; in the
 * gradient, whose regions overlap, blocks of channels only. */
#include <math.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/move/check.h"
#include "kernel/resample/points.h"

enum { CHANNELS = 16, TAPS = 4, BOX = 5, DTYPES_ROI = DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_FLOAT16) };

typedef struct {
  int64_t n_images, n_channels, height, width; /* of the images */
  int64_t n_rois, out_height, out_width, sampling;
  float scale, beyond; /* beyond: is added to a region's end before scaling */
  bool aligned, exact; /* exact: a region may be less than an element wide */
  bool largest;
  int8_t at_boxes, at_out, at_images; /* operands: at_out is the result or its gradient */
  int dtype;
  int64_t strides[4], out_strides[4]; /* bytes; strides: of the images, or of the sums of their gradient */
  int64_t box_row, box_column, index_row;
  int index_dtype; /* DTYPE_END: the image's number is the first of the five columns of a box */
  load_loop *load_box, *load;
  store_loop *store;
  /* For the gradient: whether sums are in scratch, and the tensor that they become. */
  bool in_scratch;
  uint64_t scratch;
  view gradient;
} roi_plan;

/* A region: where its bins are, and how many samples each has along the two axes. */
typedef struct {
  int64_t image;
  float start[2], bin[2]; /* y and x, in elements */
  int64_t samples[2];
} roi;

typedef struct {
  point_offsets offset;
  point_weights weight;
  int bin[POINTS_BLOCK]; /* of each sample, counted from the first bin of the table's group */
} roi_table;

typedef struct {
  const roi_plan *plan;
  const char *boxes, *index;
  char *images, *out; /* out: the result, or its gradient */
} roi_job;

/* ---- regions ----------------------------------------------------------------------------------------------------- */

static int64_t roi_image(const roi_job *j, int64_t i) {
  const roi_plan *p = j->plan;
  if (p->index_dtype == DTYPE_END) {
    float number;
    p->load_box(&number, j->boxes + i * p->box_row, 0, 1);
    return number >= 0 && number < (float)p->n_images ? (int64_t)number : -1;
  }
  const char *at = j->index + i * p->index_row;
  return p->index_dtype == ACL_INT32 ? *(const int32_t *)at : *(const int64_t *)at;
}

static roi roi_read(const roi_job *j, int64_t i) {
  const roi_plan *p = j->plan;
  const int64_t first = p->index_dtype == DTYPE_END ? 1 : 0;
  const int64_t bins[] = {p->out_height, p->out_width};
  float x1_y1_x2_y2[4];
  roi r = {.image = roi_image(j, i)};
  p->load_box(x1_y1_x2_y2, j->boxes + i * p->box_row + first * p->box_column, p->box_column, 4);
  for (int a = 0; a < 2; ++a) {
    const float shift = p->aligned ? 0.5f : 0;
    const float start = x1_y1_x2_y2[1 - a] * p->scale - shift;
    const float end = (x1_y1_x2_y2[3 - a] + p->beyond) * p->scale - shift;
    const float size = p->aligned || p->exact ? end - start : fmaxf(end - start, 1);
    r.start[a] = start;
    r.bin[a] = size / (float)bins[a];
    const float wanted = p->sampling > 0 ? (float)p->sampling : ceilf(r.bin[a]);
    r.samples[a] = wanted > 0 && wanted < INFINITY ? (int64_t)wanted : 0; /* an empty region's bins are 0 */
  }
  return r;
}

/* The two elements next to a coordinate, and the weight of the second. False: it is outside of the image. */
static bool roi_axis(float at, int64_t size, int64_t *low, int64_t *high, float *weight) {
  if (!(at >= -1 && at <= (float)size)) return false;
  if (at < 0) at = 0;
  *low = (int64_t)at;
  *high = *low + 1;
  *weight = at - (float)*low;
  if (*low >= size - 1) {
    *low = *high = size - 1;
    *weight = 0;
  }
  return true;
}

static float roi_coordinate(const roi *r, int axis, int64_t bin, int64_t sample) {
  return r->start[axis] + (float)bin * r->bin[axis] + ((float)sample + 0.5f) * r->bin[axis] / (float)r->samples[axis];
}

/* The taps of n samples, from sample `first` of a group of bins on, whose first bin is first_bin. */
static void roi_table_fill(const roi_plan *p, const roi *r, roi_table *t, int64_t first_bin, int64_t first, int64_t n) {
  const int64_t per_bin = r->samples[0] * r->samples[1];
  for (int64_t i = 0; i < n; ++i) {
    const int64_t sample = (first + i) % per_bin, bin = first_bin + (first + i) / per_bin;
    const float y = roi_coordinate(r, 0, bin / p->out_width, sample / r->samples[1]);
    const float x = roi_coordinate(r, 1, bin % p->out_width, sample % r->samples[1]);
    int64_t row[2] = {0}, column[2] = {0};
    float down = 0, right = 0;
    const bool inside =
        roi_axis(y, p->height, &row[0], &row[1], &down) && roi_axis(x, p->width, &column[0], &column[1], &right);
    t->bin[i] = (int)((first + i) / per_bin);
    for (int tap = 0; tap < TAPS; ++tap) {
      const int a = tap / 2, b = tap % 2;
      t->offset[tap][i] = inside ? row[a] * p->strides[2] + column[b] * p->strides[3] : NO_POINT;
      t->weight[tap][i] = inside ? (double)((a ? down : 1 - down) * (b ? right : 1 - right)) : 0;
    }
  }
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* The largest of each sample's products. */
static void largest_taps(const roi_plan *p, const roi_table *t, const char *plane, double *out, int64_t n) {
  double product[POINTS_BLOCK];
  for (int tap = 0; tap < TAPS; ++tap) {
    points->blend[p->dtype](product, plane, &t->offset[tap], &t->weight[tap], 1, n);
    for (int64_t i = 0; i < n; ++i) out[i] = tap && out[i] > product[i] ? out[i] : product[i];
  }
}

static void roi_gather(const roi_plan *p, const roi_table *t, const char *plane, double *bins, int64_t n) {
  double value[POINTS_BLOCK];
  if (p->largest) {
    largest_taps(p, t, plane, value, n);
    for (int64_t i = 0; i < n; ++i) bins[t->bin[i]] = fmax(bins[t->bin[i]], value[i]);
    return;
  }
  points->blend[p->dtype](value, plane, t->offset, t->weight, TAPS, n);
  for (int64_t i = 0; i < n; ++i) bins[t->bin[i]] += value[i];
}

/* The strides allow no more than runs along a row of bins. */
static void store_bins(const roi_plan *p, char *out, int64_t first, int64_t n, const double *bins) {
  for (int64_t i = 0, run; i < n; i += run) {
    const int64_t row = (first + i) / p->out_width, column = (first + i) % p->out_width;
    run = i64_min(n - i, p->out_width - column);
    p->store(out + row * p->out_strides[2] + column * p->out_strides[3], p->out_strides[3], bins + i, run);
  }
}

/* Channels [first, first + n) of region i. Bins go in groups whose samples fill a table; a bin with more samples than
 * that is a group of its own. */
static void roi_forward(const roi_job *j, int64_t i, int64_t first, int64_t n) {
  const roi_plan *p = j->plan;
  const roi r = roi_read(j, i);
  const int64_t bins = p->out_height * p->out_width, per_bin = r.samples[0] * r.samples[1];
  const int64_t group = per_bin > POINTS_BLOCK ? 1 : per_bin ? POINTS_BLOCK / per_bin : POINTS_BLOCK;
  const char *image = j->images + r.image * p->strides[0];
  char *out = j->out + i * p->out_strides[0];
  roi_table table;
  for (int64_t bin = 0, n_bins; bin < bins; bin += n_bins) {
    double sums[CHANNELS][POINTS_BLOCK];
    n_bins = i64_min(group, bins - bin);
    for (int64_t c = 0; c < n; ++c)
      for (int64_t b = 0; b < n_bins; ++b) sums[c][b] = p->largest && per_bin ? -INFINITY : 0;
    for (int64_t s = 0, taken; s < n_bins * per_bin; s += taken) {
      taken = i64_min(POINTS_BLOCK, n_bins * per_bin - s);
      roi_table_fill(p, &r, &table, bin, s, taken);
      for (int64_t c = 0; c < n; ++c) roi_gather(p, &table, image + (first + c) * p->strides[1], sums[c], taken);
    }
    for (int64_t c = 0; c < n; ++c) {
      if (!p->largest && per_bin)
        for (int64_t b = 0; b < n_bins; ++b) sums[c][b] /= (double)per_bin;
      store_bins(p, out + (first + c) * p->out_strides[1], bin, n_bins, sums[c]);
    }
  }
}

static int64_t channel_blocks(const roi_plan *p) { return (p->n_channels + CHANNELS - 1) / CHANNELS; }

static void forward_blocks(const void *arg, int64_t begin, int64_t end) {
  const roi_job *j = arg;
  const int64_t blocks = channel_blocks(j->plan);
  for (; begin < end; ++begin) {
    const int64_t first = begin % blocks * CHANNELS;
    roi_forward(j, begin / blocks, first, i64_min(CHANNELS, j->plan->n_channels - first));
  }
}

static status check_images(const roi_job *j) {
  const roi_plan *p = j->plan;
  for (int64_t i = 0; i < p->n_rois; ++i) {
    const int64_t image = roi_image(j, i);
    if (image < 0 || image >= p->n_images)
      return places_fail(p->index_dtype == DTYPE_END ? "boxes" : "batchIndices", i, image, 0, p->n_images - 1);
  }
  return ST_OK;
}

static status run_roi_align(const executor *e, void *const *view, void *scratch) {
  const roi_plan *p = PLAN(e, roi_plan);
  const bool apart = p->index_dtype != DTYPE_END;
  const roi_job j = {p, view[1], apart ? view[2] : NULL, view[0], view[p->at_out]};
  (void)scratch;
  TRY(check_images(&j));
  rows_parallel(forward_blocks, &j, p->n_rois * channel_blocks(p), 1, e->cost_ns);
  return ST_OK;
}

/* ---- the gradient ------------------------------------------------------------------------------------------------ */

/* Adds what region i contributes to the gradient of channels [first, first + n). */
static void roi_backward(const roi_job *j, int64_t i, int64_t first, int64_t n) {
  const roi_plan *p = j->plan;
  const roi r = roi_read(j, i);
  const int64_t per_bin = r.samples[0] * r.samples[1], n_samples = p->out_height * p->out_width * per_bin;
  char *image = j->images + r.image * p->strides[0];
  const char *out = j->out + i * p->out_strides[0];
  roi_table table;
  for (int64_t s = 0, taken; s < n_samples; s += taken) {
    taken = i64_min(POINTS_BLOCK, n_samples - s);
    roi_table_fill(p, &r, &table, 0, s, taken);
    for (int64_t c = first; c < first + n; ++c) {
      double value[POINTS_BLOCK];
      for (int64_t k = 0; k < taken; ++k) {
        const int64_t row = table.bin[k] / p->out_width, column = table.bin[k] % p->out_width;
        if (k && table.bin[k] == table.bin[k - 1]) {
          value[k] = value[k - 1];
          continue;
        }
        p->load(&value[k], out + c * p->out_strides[1] + row * p->out_strides[2] + column * p->out_strides[3], 0, 1);
        value[k] /= (double)per_bin;
      }
      points->spread[0](image + c * p->strides[1], table.offset, table.weight, TAPS, value, taken);
    }
  }
}

static void backward_blocks(const void *arg, int64_t begin, int64_t end) {
  const roi_job *j = arg;
  for (; begin < end; ++begin)
    for (int64_t i = 0, first = begin * CHANNELS; i < j->plan->n_rois; ++i)
      roi_backward(j, i, first, i64_min(CHANNELS, j->plan->n_channels - first));
}

static status run_roi_align_backward(const executor *e, void *const *at, void *scratch) {
  static const double zero;
  const roi_plan *p = PLAN(e, roi_plan);
  const view none = {.dtype = ACL_DOUBLE};
  char *sums = p->in_scratch ? (char *)scratch + p->scratch : at[p->at_images];
  const roi_job j = {p, at[p->at_boxes], NULL, sums, at[p->at_out]};
  TRY(check_images(&j));
  if (p->in_scratch)
    memset(sums, 0, (size_t)view_elements(&p->gradient) * sizeof(float));
  else
    elementwise_copy(sums, &p->gradient, &zero, &none, 0);
  rows_parallel(backward_blocks, &j, channel_blocks(p), 1, e->cost_ns);
  const view whole = view_contiguous(ACL_FLOAT, p->gradient.rank, p->gradient.dims);
  if (p->in_scratch) elementwise_copy(at[p->at_images], &p->gradient, sums, &whole, 0);
  return ST_OK;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* Shapes: images [N, C, H, W], boxes [K, columns], out [K, C, height, width]. */
static status roi_shapes(roi_plan *p, const int64_t *images, const tensor *boxes, const char *boxes_name, int columns,
                         const tensor *out, const char *out_name) {
  TRY(op_expect_dtype(boxes, boxes_name, DTYPE_BIT(p->dtype)));
  TRY(op_expect_dtype(out, out_name, DTYPE_BIT(p->dtype)));
  EXPECT(images[2] > 0 && images[3] > 0, "the images are %jd x %jd, expected 1 or more", (intmax_t)images[2],
         (intmax_t)images[3]);
  EXPECT(boxes->rank == 2 && boxes->dims[1] == columns, "%s has shape %s, expected two dimensions, %d in the last",
         boxes_name, SHAPE_OF(boxes), columns);
  EXPECT(p->out_height > 0 && p->out_width > 0, "the size of the output is %jd x %jd, expected 1 or more",
         (intmax_t)p->out_height, (intmax_t)p->out_width);
  const int64_t dims[] = {boxes->dims[0], images[1], p->out_height, p->out_width};
  TRY(op_expect_shape(out, out_name, dims, 4));
  const view b = view_of(boxes), o = view_of(out);
  p->n_images = images[0], p->n_channels = images[1], p->height = images[2], p->width = images[3];
  p->n_rois = dims[0];
  p->box_row = b.strides[0], p->box_column = b.strides[1];
  memcpy(p->out_strides, o.strides, sizeof p->out_strides);
  p->load_box = loops->load[p->dtype][COMPUTE_F32];
  p->load = loops->load[p->dtype][COMPUTE_F64];
  p->store = loops->store[p->dtype][COMPUTE_F64];
  return ST_OK;
}

static uint64_t roi_cost(const tensor *out) { return (uint64_t)out->n * TAPS * 16; }

static status roi_index(roi_plan *p, const tensor *index, const tensor *boxes) {
  TRY(op_expect_dtype(index, "batchIndices", DTYPES_INDEX));
  TRY(op_expect_shape(index, "batchIndices", boxes->dims, 1));
  const view v = view_of(index);
  p->index_dtype = index->dtype;
  p->index_row = v.strides[0];
  return ST_OK;
}

/* apart: the images' numbers are not in the boxes. */
static status roi_plan_forward(executor *e, const roi_align_args *a, bool apart) {
  const tensor *in = a->self, *boxes = a->boxes, *out = a->out;
  roi_plan *p = PLAN(e, roi_plan);
  TRY(op_expect_dtype(in, "self", DTYPES_ROI));
  TRY(op_expect_rank(in, "self", 4, 4));
  EXPECT(!apart || !strcmp(a->mode, "avg") || !strcmp(a->mode, "max"), "mode is \"%s\", expected avg or max", a->mode);
  *p = (roi_plan){.out_height = a->output_height,
                  .out_width = a->output_width,
                  .sampling = a->sampling_ratio,
                  .scale = (float)a->spatial_scale,
                  .aligned = a->aligned,
                  .largest = apart && !strcmp(a->mode, "max"),
                  .at_out = apart ? 3 : 2,
                  .dtype = in->dtype,
                  .index_dtype = DTYPE_END};
  const view v = view_of(in);
  memcpy(p->strides, v.strides, sizeof p->strides);
  TRY(roi_shapes(p, in->dims, boxes, apart ? "rois" : "boxes", apart ? 4 : BOX, out, "out"));
  if (apart) TRY(roi_index(p, a->batch_indices, boxes));
  executor_cost(e, (uint64_t)(in->n + out->n) * dtype_bytes(in->dtype), roi_cost(out));
  e->run = out->n ? run_roi_align : move_run_nothing;
  return ST_OK;
}

status prepare_roi_align(executor *e, const roi_align_args *a) {
  return roi_plan_forward(e, a, e->op->variant != REGIONS_V2);
}

/* Sums of the gradient are float; those of float16 are in the workspace until they are complete. */
status prepare_roi_align_backward(executor *e, const roi_align_backward_args *a) {
  const tensor *out = a->grad_output, *in = a->grad_input;
  const aclIntArray *shape = a->input_shape;
  roi_plan *p = PLAN(e, roi_plan);
  TRY(op_expect_dtype(out, "gradOutput", DTYPES_ROI));
  TRY(op_expect_dtype(in, "gradInput", DTYPE_BIT(out->dtype)));
  EXPECT(shape->size == 4, "inputShape has %ju elements, expected 4", (uintmax_t)shape->size);
  TRY(op_expect_shape(in, "gradInput", shape->value, 4));
  *p = (roi_plan){.out_height = a->pooled_height,
                  .out_width = a->pooled_width,
                  .sampling = a->sampling_ratio,
                  .scale = (float)a->spatial_scale,
                  .aligned = a->aligned,
                  .dtype = out->dtype,
                  .index_dtype = DTYPE_END,
                  .gradient = view_of(in),
                  .at_boxes = ROI_ALIGN_BACKWARD_BOXES,
                  .at_out = ROI_ALIGN_BACKWARD_GRAD_OUTPUT,
                  .at_images = ROI_ALIGN_BACKWARD_GRAD_INPUT};
  TRY(roi_shapes(p, in->dims, a->boxes, "boxes", BOX, out, "gradOutput"));
  p->in_scratch = in->dtype != ACL_FLOAT;
  if (p->in_scratch) p->scratch = workspace_intermediate(e, (uint64_t)in->n * sizeof(float));
  const view sums = p->in_scratch ? view_contiguous(ACL_FLOAT, 4, in->dims) : p->gradient;
  memcpy(p->strides, sums.strides, sizeof p->strides);
  executor_cost(e, (uint64_t)(in->n + out->n) * dtype_bytes(in->dtype), roi_cost(out));
  e->run = in->n ? run_roi_align_backward : move_run_nothing;
  return ST_OK;
}

/* ROIAlign by name. roi_end_mode 0: regions are one element wide at least; 1: one pixel of the image is added to their
 * ends. */
status prepare_graph_roi_align(executor *e, const graph_roi_align_args *a) {
  const roi_align_args list = {.self = a->features,
                               .boxes = a->rois,
                               .output_height = a->pooled_height,
                               .output_width = a->pooled_width,
                               .sampling_ratio = a->sample_num,
                               .spatial_scale = a->spatial_scale,
                               .out = a->y};
  EXPECT(a->roi_end_mode == 0 || a->roi_end_mode == 1, "roi_end_mode is %jd, expected 0 or 1",
         (intmax_t)a->roi_end_mode);
  TRY(roi_plan_forward(e, &list, false));
  roi_plan *p = PLAN(e, roi_plan);
  p->beyond = (float)a->roi_end_mode;
  p->exact = a->roi_end_mode;
  p->at_out = GRAPH_ROI_ALIGN_Y;
  return ST_OK;
}

status prepare_graph_roi_align_grad(executor *e, const graph_roi_align_grad_args *a) {
  const roi_align_backward_args list = {.grad_output = a->ydiff,
                                        .boxes = a->rois,
                                        .input_shape = a->xdiff_shape,
                                        .pooled_height = a->pooled_height,
                                        .pooled_width = a->pooled_width,
                                        .spatial_scale = a->spatial_scale,
                                        .sampling_ratio = a->sample_num,
                                        .grad_input = a->xdiff};
  EXPECT(a->roi_end_mode == 0 || a->roi_end_mode == 1, "roi_end_mode is %jd, expected 0 or 1",
         (intmax_t)a->roi_end_mode);
  TRY(prepare_roi_align_backward(e, &list));
  roi_plan *p = PLAN(e, roi_plan);
  p->beyond = (float)a->roi_end_mode;
  p->exact = a->roi_end_mode;
  p->at_boxes = GRAPH_ROI_ALIGN_GRAD_ROIS;
  p->at_out = GRAPH_ROI_ALIGN_GRAD_YDIFF;
  p->at_images = GRAPH_ROI_ALIGN_GRAD_XDIFF;
  return ST_OK;
}
