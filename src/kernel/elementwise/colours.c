/* SPDX-License-Identifier: Apache-2.0 */
/* RGBToHSV, AdjustHue and AdjustSaturation by name, as TensorFlow has them: the last dimension has red, green and blue.
 * Hue, saturation and value are 0 to 1, and so are the colours of AdjustHue and AdjustSaturation. Computed in double.
 * Operands are contiguous. */
#include <math.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

enum { CHANNELS = 3, TILE = 128 };

typedef struct {
  int64_t pixels;
  int variant, dtype, change_dtype;
} colour_plan;

typedef struct {
  const colour_plan *plan;
  const char *images;
  char *y;
  double change; /* added to the hue, or the factor of the saturation */
} colour_job;

static void colour_to_hsv(const double *rgb, double *hsv) {
  const double r = rgb[0], g = rgb[1], b = rgb[2];
  const double value = fmax(r, fmax(g, b)), range = value - fmin(r, fmin(g, b));
  double hue = 0;
  if (range > 0) {
    const double step = 1 / (6 * range);
    hue = r == value ? step * (g - b) : g == value ? step * (b - r) + 2.0 / 6 : step * (r - g) + 4.0 / 6;
  }
  hsv[0] = hue < 0 ? hue + 1 : hue;
  hsv[1] = value > 0 ? range / value : 0;
  hsv[2] = value;
}

/* How much of a colour there is at a distance from it on the circle of hues: all up to 1/6, none from 2/6 on. */
static double colour_part(double distance) {
  distance = fabs(distance - round(distance));
  return fmin(fmax(2 - 6 * distance, 0), 1);
}

static void colour_from_hsv(const double *hsv, double *rgb) {
  for (int k = 0; k < CHANNELS; ++k) rgb[k] = hsv[2] * (1 - hsv[1] * (1 - colour_part(hsv[0] - (double)k / CHANNELS)));
}

static void colour_range(const void *arg, int64_t begin, int64_t end) {
  const colour_job *j = arg;
  const colour_plan *p = j->plan;
  const int64_t size = (int64_t)dtype_bytes(p->dtype);
  double tile[CHANNELS * TILE];
  for (int64_t i = begin, n; i < end; i += n) {
    n = i64_min(TILE, end - i);
    loops->load[p->dtype][COMPUTE_F64](tile, j->images + CHANNELS * i * size, size, CHANNELS * n);
    for (double *at = tile; at < tile + CHANNELS * n; at += CHANNELS) {
      double hsv[CHANNELS];
      colour_to_hsv(at, hsv);
      if (p->variant == GRAPH_COLOURS_HSV) {
        for (int k = 0; k < CHANNELS; ++k) at[k] = hsv[k];
        continue;
      }
      if (p->variant == GRAPH_COLOURS_HUE)
        hsv[0] += j->change;
      else
        hsv[1] = fmin(fmax(hsv[1] * j->change, 0), 1);
      colour_from_hsv(hsv, at);
    }
    loops->store[p->dtype][COMPUTE_F64](j->y + CHANNELS * i * size, size, tile, CHANNELS * n);
  }
}

static status colour_run(const executor *e, void *const *view, void *scratch) {
  const colour_plan *p = PLAN(e, colour_plan);
  colour_job job = {.plan = p, .images = view[GRAPH_COLOURS_IMAGES], .y = view[e->n_operands - 1]};
  (void)scratch;
  if (p->variant != GRAPH_COLOURS_HSV)
    loops->load[p->change_dtype][COMPUTE_F64](&job.change, view[GRAPH_COLOURS_CHANGE], 0, 1);
  rows_parallel(colour_range, &job, p->pixels, TILE, e->cost_ns);
  return ST_OK;
}

status prepare_graph_colours(executor *e, const graph_colours_args *a) {
  const tensor *images = a->images;
  TRY(op_expect_dtype(images, "images", DTYPES_FLOAT));
  EXPECT(images->rank > 0 && images->dims[images->rank - 1] == CHANNELS,
         "images has shape %s, expected 3 elements in the last dimension", SHAPE_OF(images));
  TRY(op_expect_like(a->y, "y", images));
  if (a->change) TRY(op_expect_one(a->change, a->name.change, DTYPES_FLOAT));
  *PLAN(e, colour_plan) = (colour_plan){.pixels = images->n / CHANNELS,
                                        .variant = e->op->variant,
                                        .dtype = images->dtype,
                                        .change_dtype = a->change ? a->change->dtype : 0};
  executor_cost(e, (uint64_t)(2 * images->n) * dtype_bytes(images->dtype), (uint64_t)images->n * 32);
  e->run = images->n ? colour_run : move_run_nothing;
  return ST_OK;
}
