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

void quant_row_clipped_swiglu(float *y, const float *v, float limit, float alpha, float bias, int64_t n) {
  static const compute_value parameter[ELEMENTWISE_PARAMETERS];
  float a[TILE], b[TILE], gate[TILE];
  for (int64_t i = 0, m; i < n; i += m) {
    m = i64_min(TILE, n - i);
    for (int64_t k = 0; k < m; ++k) {
      const float left = v[i + k], right = v[n + i + k];
      a[k] = left > limit ? limit : left;
      b[k] = (right > limit ? limit : right < -limit ? -limit : right) + bias;
      gate[k] = alpha * a[k];
    }
    loops->elementwise[EW_sigmoid][COMPUTE_F32](gate, (const void *const[]){gate, NULL, NULL, NULL, NULL}, parameter,
                                                m);
    for (int64_t k = 0; k < m; ++k) y[i + k] = a[k] * gate[k] * b[k];
  }
}

quant_extremes quant_row_extremes(const float *v, bool by_magnitude, int64_t n) {
  const fold kind = by_magnitude ? FOLD_MAX_ABS : FOLD_MIN_MAX;
  double low = 0, high = 0;
  for (int64_t i = 0, m; i < n; i += m) {
    fold_value a, b;
    m = i64_min(FOLD_BLOCK, n - i);
    fold_row(&reduction->fold[kind][COMPUTE_F32], v + i, m, 0, &a, &b);
    if (by_magnitude) b = a;
    if (!i || a.f64 < low || a.f64 != a.f64) low = a.f64;
    if (!i || b.f64 > high || b.f64 != b.f64) high = b.f64;
  }
  return (quant_extremes){.low = (float)low, .high = (float)high};
}

float quant_scale_symmetric(quant_extremes x, float most) { return x.high / most; }

float quant_scale_asymmetric(quant_extremes x, float most, float *offset) {
  float scale = (x.high - x.low) / (2 * most + 1);
  if (scale < LEAST_SCALE) scale = LEAST_SCALE;
  *offset = most - x.high / scale;
  return scale;
}

void quant_row_uniform(float *y, const float *v, float scale, const float *offset, int64_t n) {
  quant_row_apply(EW_quantise, y, v, &scale, true, offset, true, n);
}

float quant_row_dynamic(float *y, const float *v, float most, int64_t n) {
  const float scale = quant_scale_symmetric(quant_row_extremes(v, true, n), most);
  quant_row_uniform(y, v, scale, NULL, n);
  return scale;
}

float quant_row_asymmetric(float *y, const float *v, float most, float *offset, int64_t n) {
  const float scale = quant_scale_asymmetric(quant_row_extremes(v, false, n), most, offset);
  quant_row_uniform(y, v, scale, offset, n);
  return scale;
}
