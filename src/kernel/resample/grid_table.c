/* SPDX-License-Identifier: Apache-2.0 */
/* The taps and weights by which a grid sampler reads a point (grid.h). */
#include <math.h>

#include "kernel/resample/grid.h"

#include "kernel/engine/rows.h"

typedef struct {
  int n;
  int64_t index[GRID_AXIS_TAPS]; /* NO_POINT: outside of the input */
  double weight[GRID_AXIS_TAPS], slope[GRID_AXIS_TAPS];
} axis_taps;

/* Parameter of the cubic convolution kernel (Keys 1981), with the value common for images. */
static const double CUBIC_A = -0.75;

/* Clamps x to the image. Sets *slope to 0 if that moves the point. */
static double grid_clip(double x, int64_t size, double *slope) {
  const double most = (double)(size - 1);
  if (x > 0 && x < most) return x;
  *slope = 0;
  return x >= most ? most : x <= 0 ? 0 : x;
}

/* Reflects x at the borders of the image: at the centres of the outermost elements if align_corners, otherwise at
 * their outer edges. Updates *slope. */
static double grid_reflect(double x, int64_t size, bool align_corners, double *slope) {
  const double low = align_corners ? 0 : -0.5, span = (double)(align_corners ? size - 1 : size);
  if (span == 0) {
    *slope = 0;
    return 0;
  }
  x -= low;
  if (x < 0) {
    x = -x;
    *slope = -*slope;
  }
  const double extra = fmod(x, span);
  if (fmod(floor(x / span), 2) == 0) return extra + low;
  *slope = -*slope;
  return span - extra + low;
}

static double grid_pad(const grid_sampler *g, double x, int64_t size, double *slope) {
  if (g->padding == GRID_ZEROS) return x;
  if (g->padding == GRID_REFLECTION) x = grid_reflect(x, size, g->align_corners, slope);
  return grid_clip(x, size, slope);
}

/* Moves NaN and coordinates beyond int32 to a point outside of the image. */
static double grid_bounded(double x) { return x > -0x1p31 && x < 0x1p31 ? x : -100; }

static int64_t grid_inside(double x, int64_t size) { return x >= 0 && x < (double)size ? (int64_t)x : NO_POINT; }

static void grid_cubic_taps(const grid_sampler *g, double x, int64_t size, double slope, axis_taps *t) {
  const double a = CUBIC_A, base = floor(x), f = x - base;
  t->n = 4;
  for (int i = 0; i < 4; ++i) {
    const double d = fabs(f + 1 - i), sign = f + 1 - i < 0 ? -1 : 1;
    const bool near = i == 1 || i == 2;
    double none = 1;
    t->weight[i] = near ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    t->slope[i] = slope * sign * (near ? (3 * (a + 2) * d - 2 * (a + 3)) * d : (3 * a * d - 10 * a) * d + 8 * a);
    t->index[i] = grid_inside(grid_bounded(grid_pad(g, base - 1 + i, size, &none)), size);
  }
}

/* Sets the taps along an axis of `size` elements for the grid coordinate `at`. */
static void grid_find_taps(const grid_sampler *g, double at, int64_t size, axis_taps *t) {
  const double scale = (double)(g->align_corners ? size - 1 : size) / 2, shift = g->align_corners ? 0 : 0.5;
  double slope = scale, x;
  if (g->in_double)
    x = (at + 1) * scale - shift;
  else
    x = (double)((float)((float)at + 1.0f) * (float)scale - (float)shift);
  if (g->mode == GRID_CUBIC) {
    grid_cubic_taps(g, grid_bounded(x), size, slope, t);
    return;
  }
  x = grid_bounded(grid_pad(g, x, size, &slope));
  if (g->mode == GRID_NEAREST) {
    *t = (axis_taps){.n = 1, .index = {grid_inside(rint(x), size)}, .weight = {1}};
    return;
  }
  const double base = floor(x), f = x - base;
  *t = (axis_taps){.n = 2,
                   .index = {grid_inside(base, size), grid_inside(base + 1, size)},
                   .weight = {1 - f, f},
                   .slope = {-slope, slope}};
}

/* Sets point i of the table to the combinations of the axes' taps. */
static void grid_combine_taps(grid_table *t, int64_t i, const axis_taps *axis, const int64_t *strides, bool slopes) {
  int tap = 0;
  for (int d = 0; d < axis[0].n; ++d)
    for (int h = 0; h < axis[1].n; ++h)
      for (int w = 0; w < axis[2].n; ++w, ++tap) {
        const int64_t z = axis[0].index[d], y = axis[1].index[h], x = axis[2].index[w];
        const double wz = axis[0].weight[d], wy = axis[1].weight[h], wx = axis[2].weight[w];
        const bool there = z != NO_POINT && y != NO_POINT && x != NO_POINT;
        t->offset[tap][i] = there ? z * strides[0] + y * strides[1] + x * strides[2] : NO_POINT;
        t->weight[tap][i] = wz * wy * wx;
        if (!slopes) continue;
        t->slope[0][tap][i] = axis[0].slope[d] * wy * wx;
        t->slope[1][tap][i] = wz * axis[1].slope[h] * wx;
        t->slope[2][tap][i] = wz * wy * axis[2].slope[w];
      }
  t->taps = tap;
}

void grid_table_fill(const grid_sampler *g, grid_table *t, const char *grid, int64_t n, const int64_t *strides,
                     bool slopes) {
  static const axis_taps whole = {.n = 1, .weight = {1}};
  const int first = GRID_AXES - g->n_axes;
  double at[GRID_AXES][POINTS_BLOCK];
  for (int a = first; a < GRID_AXES; ++a)
    g->load_grid(at[a], grid + (GRID_AXES - 1 - a) * g->grid_component, g->grid_row[GRID_AXES], n);
  for (int64_t i = 0; i < n; ++i) {
    axis_taps axis[GRID_AXES] = {whole};
    for (int a = first; a < GRID_AXES; ++a) grid_find_taps(g, at[a][i], g->in[a], &axis[a]);
    grid_combine_taps(t, i, axis, strides, slopes);
  }
}
