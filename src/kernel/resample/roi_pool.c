/* SPDX-License-Identifier: Apache-2.0 */
/* MaxRoiPool, as Fast R-CNN has it: regions of images, whose corners are whole elements, are cut into bins, which may
 * overlap by one element; each result is the largest element of a bin, 0 if none of it is in the image. */
#include <math.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/move/check.h"

enum { ROI_COLUMNS = 5 }; /* of a region: the image's number, x and y of two corners */

typedef struct {
  int64_t n_images, n_channels, height, width, n_rois, out_height, out_width;
  float scale;
} roi_pool_plan;

typedef struct {
  const roi_pool_plan *p;
  const float *images, *rois;
  float *out;
} roi_pool_job;

/* The elements [first, end) of bin i of n along an axis of `size` elements, for corners in elements. */
static void bin_range(float corner, float other, int64_t i, int64_t n, int64_t size, int64_t *first, int64_t *end) {
  const float extent = fmaxf(other - corner + 1, 1), bin = extent / (float)n;
  const float low = floorf((float)i * bin) + corner, high = ceilf((float)(i + 1) * bin) + corner;
  *first = (int64_t)fminf(fmaxf(low, 0), (float)size);
  *end = (int64_t)fminf(fmaxf(high, 0), (float)size);
}

/* The channels [begin, end) of all regions. */
static void pool_channels(const void *job, int64_t begin, int64_t end) {
  const roi_pool_job *j = job;
  const roi_pool_plan *p = j->p;
  for (; begin < end; ++begin) {
    const int64_t i = begin / p->n_channels, channel = begin % p->n_channels;
    const float *r = j->rois + i * ROI_COLUMNS;
    const float *image = j->images + ((int64_t)r[0] * p->n_channels + channel) * p->height * p->width;
    float corners[4], *out = j->out + begin * p->out_height * p->out_width;
    for (int k = 0; k < 4; ++k) corners[k] = roundf(r[1 + k] * p->scale);
    for (int64_t k = 0; k < p->out_height * p->out_width; ++k) {
      int64_t top, bottom, left, right;
      bin_range(corners[1], corners[3], k / p->out_width, p->out_height, p->height, &top, &bottom);
      bin_range(corners[0], corners[2], k % p->out_width, p->out_width, p->width, &left, &right);
      float most = top < bottom && left < right ? -INFINITY : 0;
      for (int64_t y = top; y < bottom; ++y)
        for (int64_t x = left; x < right; ++x) most = fmaxf(most, image[y * p->width + x]);
      out[k] = most;
    }
  }
}

static status run_max_roi_pool(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const roi_pool_plan *p = PLAN(e, roi_pool_plan);
  const roi_pool_job j = {p, view[MAX_ROI_POOL_SELF], view[MAX_ROI_POOL_ROIS], view[MAX_ROI_POOL_OUT]};
  for (int64_t i = 0; i < p->n_rois; ++i) {
    const float image = j.rois[i * ROI_COLUMNS];
    if (!(image >= 0 && image < (float)p->n_images))
      return places_fail("rois", i, fabsf(image) < 1e9F ? (int64_t)image : -1, 0, p->n_images - 1);
  }
  rows_parallel(pool_channels, &j, p->n_rois * p->n_channels, 1, e->cost_ns);
  return ST_OK;
}

status prepare_max_roi_pool(executor *e, const max_roi_pool_args *a) {
  const tensor *self = a->self, *rois = a->rois, *out = a->out;
  TRY(op_expect_dtype(self, "self", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_dtype(rois, "rois", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_rank(self, "self", 4, 4));
  EXPECT(rois->rank == 2 && rois->dims[1] == ROI_COLUMNS, "rois has shape %s, expected two dimensions, 5 in the last",
         SHAPE_OF(rois));
  EXPECT(a->output_height > 0 && a->output_width > 0, "the size of the output is %jd x %jd, expected 1 or more",
         (intmax_t)a->output_height, (intmax_t)a->output_width);
  const int64_t dims[] = {rois->dims[0], self->dims[1], a->output_height, a->output_width};
  TRY(op_expect_shape(out, "out", dims, 4));
  EXPECT(self->contiguous && rois->contiguous && out->contiguous, "self, rois or out has gaps, expected %s", "none");
  *PLAN(e, roi_pool_plan) = (roi_pool_plan){.n_images = self->dims[0],
                                            .n_channels = self->dims[1],
                                            .height = self->dims[2],
                                            .width = self->dims[3],
                                            .n_rois = rois->dims[0],
                                            .out_height = a->output_height,
                                            .out_width = a->output_width,
                                            .scale = (float)a->spatial_scale};
  executor_cost(e, (uint64_t)(self->n + out->n) * sizeof(float), (uint64_t)(self->n + out->n) * 2);
  e->run = out->n ? run_max_roi_pool : move_run_nothing;
  return ST_OK;
}
