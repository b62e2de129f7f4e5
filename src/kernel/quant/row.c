/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/quant/row.h"

#include "kernel/engine/rows.h"
#include "kernel/reduce/fold.h"

enum { TILE = 1024 };

#define LEAST_SCALE 1e-12f /* minimum scale, for rows with all elements equal; as in CANN's kernels */

/* y = function(v, scale, zero), in tiles. scale and zero have one value per element, or one for all. */
static void quant_row_apply(int function, float *y, const float *v, const float *scale, bool one_scale,
                            const float *zero, bool one_zero, int64_t n) {
  static const compute_value parameter[ELEMENTWISE_PARAMETERS];
  float scales[TILE], zeros[TILE];
  for (int64_t i = 0; i < TILE && i < n; ++i) {
    if (one_scale) scales[i] = *scale;
    if (one_zero) zeros[i] = zero ? *zero : 0;
  }
  for (int64_t i = 0, m; i < n; i += m) {
    m = i64_min(TILE, n - i);
    const void *const in[ELEMENTWISE_INPUTS] = {v + i, one_scale ? scales : scale + i, one_zero ? zeros : zero + i};
    loops->elementwise[function][COMPUTE_F32](y + i, in, parameter, m);
  }
}

void quant_row(float *y, const float *v, const float *scale, const float *zero, bool divides, int64_t n) {
  quant_row_apply(divides ? EW_quantise : EW_scale_round, y, v, scale, false, zero, !zero, n);
}

void quant_row_smooth(float *y, const float *v, const float *by, int64_t n) {
  static const compute_value parameter[ELEMENTWISE_PARAMETERS];
  loops->elementwise[EW_mul][COMPUTE_F32](y, (const void *const[]){v, by, NULL, NULL, NULL}, parameter, n);
}

void quant_row_swiglu(float *y, const float *v, bool left, int64_t n) {
  static const compute_value parameter[ELEMENTWISE_PARAMETERS];
  loops->elementwise[EW_silu][COMPUTE_F32](y, (const void *const[]){left ? v : v + n, NULL, NULL, NULL, NULL},
                                           parameter, n);
  quant_row_smooth(y, y, left ? v + n : v, n);
}

/* Reduces a row to its extremes: FOLD_MAX_ABS gives *first; FOLD_MIN_MAX gives *first
 * (minimum) and *second (maximum). */
static void quant_row_extremes(fold kind, const float *v, int64_t n, double *first, double *second) {
  for (int64_t i = 0, m; i < n; i += m) {
    fold_value a, b;
    m = i64_min(FOLD_BLOCK, n - i);
    fold_row(&reduction->fold[kind][COMPUTE_F32], v + i, m, 0, &a, &b);
    const bool is_pair = kind == FOLD_MIN_MAX;
    if (!i || (is_pair ? a.f64 < *first : a.f64 > *first) || a.f64 != a.f64) *first = a.f64;
    if (is_pair && (!i || b.f64 > *second || b.f64 != b.f64)) *second = b.f64;
  }
}

float quant_row_dynamic(float *y, const float *v, float most, int64_t n) {
  double largest = 0;
  quant_row_extremes(FOLD_MAX_ABS, v, n, &largest, NULL);
  const float scale = (float)largest / most;
  quant_row_apply(EW_quantise, y, v, &scale, true, NULL, true, n);
  return scale;
}

float quant_row_asymmetric(float *y, const float *v, float most, float *offset, int64_t n) {
  double smallest = 0, largest = 0;
  quant_row_extremes(FOLD_MIN_MAX, v, n, &smallest, &largest);
  float scale = ((float)largest - (float)smallest) / (2 * most + 1);
  if (scale < LEAST_SCALE) scale = LEAST_SCALE;
  *offset = most - (float)largest / scale;
  quant_row_apply(EW_quantise, y, v, &scale, true, offset, true, n);
  return scale;
}
