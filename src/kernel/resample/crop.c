/* SPDX-License-Identifier: Apache-2.0 */
/* CropAndResize and its gradients by name: boxes of images, each resized to one size, as TensorFlow has them. Images
 * are [batch, height, width, depth]. A box is y1, x1, y2, x2, where 0 and 1 are the first and last pixels; its
 * coordinates are floats, as there. Pixels outside of the image have one value. The method bilinear_v2, which is
 * MindSpore's, cuts whole pixels out, from x1 * width to x2 * width, and resizes these with the middles of pixels as
 * their coordinates; beyond the border, they are those of the border. Operands are contiguous. */
#include <math.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

typedef enum { CROP_BILINEAR, CROP_NEAREST, CROP_BILINEAR_V2, N_CROP } crop_method;

enum { CORNERS = 4, TILE = 256 };

typedef struct {
  int64_t batch, height, width, depth; /* of the images */
  int64_t boxes, rows, columns;        /* of the crops */
  crop_method method;
  float outside;
  int dtype;           /* of the images, or of their gradient */
  uint64_t sums;       /* in the workspace: the gradient of the images, in double */
  int boxes_at, index; /* operands */
} crop_plan;

typedef struct {
  const crop_plan *plan;
  const char *images;
  const float *boxes, *grads;
  const int32_t *index;
  char *y;
  double *sums;
} crop_job;

/* Between which pixels of an axis a pixel of a crop lies. */
typedef struct {
  int64_t low, high;
  float part; /* of the distance from low to high */
  bool inside;
} crop_point;

static int64_t crop_clamp(int64_t x, int64_t most) { return x < 0 ? 0 : x > most ? most : x; }

static float crop_pixel(float x) { return fminf(fmaxf(x, -0x1p30F), 0x1p30F); }

static crop_point crop_point_v2(float from, float to, int64_t n, int64_t crop, int64_t k) {
  const int64_t first = (int64_t)crop_pixel(from * (float)n), last = (int64_t)crop_pixel(to * (float)n);
  const int64_t length = i64_max(last - first + 1, 1);
  const float at = ((float)k + 0.5F) * ((float)length / (float)crop) - 0.5F;
  const int64_t low = crop_clamp((int64_t)floorf(at), length - 1), high = crop_clamp((int64_t)ceilf(at), length - 1);
  return (crop_point){crop_clamp(first + low, n - 1), crop_clamp(first + high, n - 1), at - (float)low, true};
}

/* Where pixel k of `crop` lies on an axis of n pixels. */
static crop_point crop_point_at(crop_method method, float from, float to, int64_t n, int64_t crop, int64_t k) {
  if (method == CROP_BILINEAR_V2) return crop_point_v2(from, to, n, crop, k);
  const float most = (float)(n - 1);
  const float at =
      crop > 1 ? from * most + (float)k * ((to - from) * most / (float)(crop - 1)) : 0.5F * (from + to) * most;
  if (!(at >= 0 && at <= most)) return (crop_point){.inside = false};
  if (method == CROP_NEAREST) return (crop_point){(int64_t)roundf(at), (int64_t)roundf(at), 0, true};
  return (crop_point){(int64_t)floorf(at), (int64_t)ceilf(at), at - floorf(at), true};
}

static crop_point crop_row_of(const crop_job *j, int64_t box, int64_t row) {
  const float *const b = j->boxes + CORNERS * box;
  return crop_point_at(j->plan->method, b[0], b[2], j->plan->height, j->plan->rows, row);
}

static crop_point crop_column_of(const crop_job *j, int64_t box, int64_t column) {
  const float *const b = j->boxes + CORNERS * box;
  return crop_point_at(j->plan->method, b[1], b[3], j->plan->width, j->plan->columns, column);
}

/* The number of the first element of a pixel. */
static int64_t crop_place(const crop_plan *p, int64_t image, int64_t row, int64_t column) {
  return ((image * p->height + row) * p->width + column) * p->depth;
}

static void crop_load(const crop_job *j, float *to, int64_t place, int64_t n) {
  const int64_t size = (int64_t)dtype_bytes(j->plan->dtype);
  loops->load[j->plan->dtype][COMPUTE_F32](to, j->images + place * size, size, n);
}

/* Loads n elements of the pixels above left, above right, below left and below right. */
static void crop_corners(const crop_job *j, float corner[CORNERS][TILE], int64_t image, crop_point y, crop_point x,
                         int64_t element, int64_t n) {
  for (int k = 0; k < CORNERS; ++k)
    crop_load(j, corner[k], crop_place(j->plan, image, k < 2 ? y.low : y.high, k % 2 == 0 ? x.low : x.high) + element,
              n);
}

static void crop_pixel_at(const crop_job *j, float *to, int64_t image, crop_point y, crop_point x) {
  const crop_plan *p = j->plan;
  float corner[CORNERS][TILE];
  for (int64_t d = 0, n; d < p->depth; d += n) {
    n = i64_min(TILE, p->depth - d);
    if (!y.inside || !x.inside) {
      for (int64_t i = 0; i < n; ++i) to[d + i] = p->outside;
      continue;
    }
    crop_corners(j, corner, image, y, x, d, n);
    for (int64_t i = 0; i < n; ++i) {
      const float above = corner[0][i] + (corner[1][i] - corner[0][i]) * x.part;
      const float below = corner[2][i] + (corner[3][i] - corner[2][i]) * x.part;
      to[d + i] = above + (below - above) * y.part;
    }
  }
}

/* Rows [begin, end) of all crops. */
static void crop_range(const void *arg, int64_t begin, int64_t end) {
  const crop_job *j = arg;
  const crop_plan *p = j->plan;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t box = r / p->rows;
    const crop_point y = crop_row_of(j, box, r % p->rows);
    for (int64_t c = 0; c < p->columns; ++c)
      crop_pixel_at(j, (float *)(void *)j->y + (r * p->columns + c) * p->depth, j->index[box], y,
                    crop_column_of(j, box, c));
  }
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* Adds the gradient of a crop to that of its image. */
static void crop_add(const crop_job *j, int64_t box) {
  const crop_plan *p = j->plan;
  const int64_t image = j->index[box];
  for (int64_t r = 0; r < p->rows; ++r) {
    const crop_point y = crop_row_of(j, box, r);
    for (int64_t c = 0; y.inside && c < p->columns; ++c) {
      const crop_point x = crop_column_of(j, box, c);
      if (!x.inside) continue;
      const float *const grad = j->grads + ((box * p->rows + r) * p->columns + c) * p->depth;
      for (int k = 0; k < CORNERS; ++k) {
        const double weight = (k < 2 ? 1 - (double)y.part : y.part) * (k % 2 == 0 ? 1 - (double)x.part : x.part);
        double *const to = j->sums + crop_place(p, image, k < 2 ? y.low : y.high, k % 2 == 0 ? x.low : x.high);
        for (int64_t d = 0; weight != 0 && d < p->depth; ++d) to[d] += weight * (double)grad[d];
      }
    }
  }
}

/* The gradients of images [begin, end): their crops are added in order. */
static void crop_image_grad_range(const void *arg, int64_t begin, int64_t end) {
  const crop_job *j = arg;
  const crop_plan *p = j->plan;
  const int64_t n = p->height * p->width * p->depth, size = (int64_t)dtype_bytes(p->dtype);
  for (int64_t image = begin; image < end; ++image) {
    memset(j->sums + image * n, 0, (size_t)n * sizeof(double));
    for (int64_t box = 0; box < p->boxes; ++box)
      if (j->index[box] == image) crop_add(j, box);
    loops->store[p->dtype][COMPUTE_F64](j->y + image * n * size, size, j->sums + image * n, n);
  }
}

/* The gradients of boxes [begin, end). */
static void crop_boxes_grad_range(const void *arg, int64_t begin, int64_t end) {
  const crop_job *j = arg;
  const crop_plan *p = j->plan;
  float corner[CORNERS][TILE];
  for (int64_t box = begin; box < end; ++box) {
    double sum[CORNERS] = {0};
    for (int64_t at = 0; at < p->rows * p->columns; ++at) {
      const int64_t r = at / p->columns, c = at % p->columns;
      const crop_point y = crop_row_of(j, box, r), x = crop_column_of(j, box, c);
      const float *const grad = j->grads + (box * p->rows * p->columns + at) * p->depth;
      double by_y = 0, by_x = 0;
      if (!y.inside || !x.inside) continue;
      for (int64_t d = 0, n; d < p->depth; d += n) {
        n = i64_min(TILE, p->depth - d);
        crop_corners(j, corner, j->index[box], y, x, d, n);
        for (int64_t i = 0; i < n; ++i) {
          const double above = (double)corner[1][i] - (double)corner[0][i];
          const double below = (double)corner[3][i] - (double)corner[2][i];
          const double left = (double)corner[2][i] - (double)corner[0][i];
          const double right = (double)corner[3][i] - (double)corner[1][i];
          by_y += (double)grad[d + i] * (left + (right - left) * (double)x.part);
          by_x += (double)grad[d + i] * (above + (below - above) * (double)y.part);
        }
      }
      const double of_y = p->rows > 1 ? (double)r / (double)(p->rows - 1) : 0.5;
      const double of_x = p->columns > 1 ? (double)c / (double)(p->columns - 1) : 0.5;
      sum[0] += by_y * (1 - of_y) * (double)(p->height - 1);
      sum[1] += by_x * (1 - of_x) * (double)(p->width - 1);
      sum[2] += by_y * of_y * (double)(p->height - 1);
      sum[3] += by_x * of_x * (double)(p->width - 1);
    }
    for (int k = 0; k < CORNERS; ++k) ((float *)(void *)j->y)[CORNERS * box + k] = (float)sum[k];
  }
}

/* ---- the operators ----------------------------------------------------------------------------------------------- */

static status crop_job_of(crop_job *j, const crop_plan *p, void *const *view) {
  *j = (crop_job){.plan = p, .boxes = view[p->boxes_at], .index = view[p->index]};
  for (int64_t i = 0; i < p->boxes; ++i)
    if (j->index[i] < 0 || j->index[i] >= p->batch)
      return fail(ST_DEVICE_EXCEPTION, "box_index[%jd] is %d, expected 0 to %jd", (intmax_t)i, (int)j->index[i],
                  (intmax_t)p->batch - 1);
  return ST_OK;
}

static status crop_run(const executor *e, void *const *view, void *scratch) {
  const crop_plan *p = PLAN(e, crop_plan);
  crop_job j;
  (void)scratch;
  TRY(crop_job_of(&j, p, view));
  j.images = view[GRAPH_CROP_IMAGE];
  j.y = view[GRAPH_CROP_Y];
  rows_parallel(crop_range, &j, p->boxes * p->rows, 1, e->cost_ns);
  return ST_OK;
}

static status crop_image_grad_run(const executor *e, void *const *view, void *scratch) {
  const crop_plan *p = PLAN(e, crop_plan);
  crop_job j;
  TRY(crop_job_of(&j, p, view));
  j.grads = view[GRAPH_CROP_IMAGE_GRAD_GRADS];
  j.y = view[GRAPH_CROP_IMAGE_GRAD_Y];
  j.sums = (double *)(void *)((char *)scratch + p->sums);
  rows_parallel(crop_image_grad_range, &j, p->batch, 1, e->cost_ns);
  return ST_OK;
}

static status crop_boxes_grad_run(const executor *e, void *const *view, void *scratch) {
  const crop_plan *p = PLAN(e, crop_plan);
  crop_job j;
  (void)scratch;
  TRY(crop_job_of(&j, p, view));
  j.images = view[GRAPH_CROP_BOXES_GRAD_IMAGES];
  j.grads = view[GRAPH_CROP_BOXES_GRAD_GRADS];
  j.y = view[GRAPH_CROP_BOXES_GRAD_Y];
  rows_parallel(crop_boxes_grad_range, &j, p->boxes, 1, e->cost_ns);
  return ST_OK;
}

/* Checks what the operators have in common. n_methods: how many of the methods an operator has. */
static status crop_check(crop_plan *p, const tensor *images, const char *name, const tensor *boxes, const tensor *index,
                         const tensor *crops, const char *crops_name, const char *method, int n_methods) {
  static const char *const methods[N_CROP] = {"bilinear", "nearest", "bilinear_v2"};
  static const char *const words[N_CROP] = {"\"bilinear\"", "\"bilinear\" or \"nearest\"",
                                            "\"bilinear\", \"nearest\" or \"bilinear_v2\""};
  int k = 0;
  while (k < n_methods && strcmp(method, methods[k]) != 0) ++k;
  EXPECT(k < n_methods, "method is \"%.32s\", expected %s", method, words[n_methods - 1]);
  TRY(op_expect_rank(images, name, 4, 4));
  TRY(op_expect_dtype(boxes, "boxes", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_dtype(index, "box_index", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_dtype(crops, crops_name, DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_rank(crops, crops_name, 4, 4));
  EXPECT(images->dims[1] > 0 && images->dims[2] > 0, "%s has shape %s, expected images of a pixel or more", name,
         SHAPE_OF(images));
  const int64_t n = crops->dims[0];
  TRY(op_expect_shape(boxes, "boxes", (const int64_t[]){n, CORNERS}, 2));
  TRY(op_expect_shape(index, "box_index", &n, 1));
  EXPECT(crops->dims[3] == images->dims[3], "%s has shape %s, expected the depth of %s, %jd", crops_name,
         SHAPE_OF(crops), name, (intmax_t)images->dims[3]);
  p->batch = images->dims[0];
  p->height = images->dims[1];
  p->width = images->dims[2];
  p->depth = images->dims[3];
  p->boxes = n;
  p->rows = crops->dims[1];
  p->columns = crops->dims[2];
  p->method = (crop_method)k;
  p->dtype = images->dtype;
  return ST_OK;
}

static void crop_cost(executor *e, const tensor *images, const tensor *crops) {
  executor_cost(e, (uint64_t)images->n * dtype_bytes(images->dtype) + (uint64_t)crops->n * 4, (uint64_t)crops->n * 32);
}

static const uint64_t crop_dtypes = (DTYPES_FLOAT | DTYPES_INTEGER) & ~DTYPE_BIT(ACL_BF16);

status prepare_graph_crop(executor *e, const graph_crop_args *a) {
  crop_plan *p = PLAN(e, crop_plan);
  *p = (crop_plan){
      .outside = (float)a->extrapolation_value, .boxes_at = GRAPH_CROP_BOXES, .index = GRAPH_CROP_BOX_INDEX};
  TRY(op_expect_dtype(a->image, "image", crop_dtypes));
  TRY(op_expect_size(a->crop_size->size, "crop_size", 2));
  TRY(crop_check(p, a->image, "image", a->boxes, a->box_index, a->y, "y", a->method, N_CROP));
  EXPECT(a->crop_size->value[0] == p->rows && a->crop_size->value[1] == p->columns,
         "y has shape %s, expected crop_size, %jd x %jd", SHAPE_OF(a->y), (intmax_t)a->crop_size->value[0],
         (intmax_t)a->crop_size->value[1]);
  crop_cost(e, a->image, a->y);
  e->run = a->y->n ? crop_run : move_run_nothing;
  return ST_OK;
}

status prepare_graph_crop_image_grad(executor *e, const graph_crop_image_grad_args *a) {
  crop_plan *p = PLAN(e, crop_plan);
  *p = (crop_plan){.boxes_at = GRAPH_CROP_IMAGE_GRAD_BOXES, .index = GRAPH_CROP_IMAGE_GRAD_BOX_INDEX};
  TRY(op_expect_dtype(a->y, "y", DTYPES_FLOAT));
  TRY(crop_check(p, a->y, "y", a->boxes, a->box_index, a->grads, "grads", a->method, CROP_BILINEAR_V2));
  TRY(op_expect_size(a->image_size->size, "image_size", 4));
  TRY(op_expect_shape(a->y, "y", a->image_size->value, 4));
  p->sums = workspace_intermediate(e, (uint64_t)a->y->n * sizeof(double));
  crop_cost(e, a->y, a->grads);
  e->run = a->y->n ? crop_image_grad_run : move_run_nothing;
  return ST_OK;
}

status prepare_graph_crop_boxes_grad(executor *e, const graph_crop_boxes_grad_args *a) {
  crop_plan *p = PLAN(e, crop_plan);
  *p = (crop_plan){.boxes_at = GRAPH_CROP_BOXES_GRAD_BOXES, .index = GRAPH_CROP_BOXES_GRAD_BOX_INDEX};
  TRY(op_expect_dtype(a->images, "images", crop_dtypes));
  TRY(crop_check(p, a->images, "images", a->boxes, a->box_index, a->grads, "grads", a->method, CROP_NEAREST));
  TRY(op_expect_like(a->y, "y", a->boxes));
  crop_cost(e, a->images, a->grads);
  e->run = a->y->n ? crop_boxes_grad_run : move_run_nothing;
  return ST_OK;
}
