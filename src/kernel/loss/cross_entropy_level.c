/* SPDX-License-Identifier: Apache-2.0 */
/* Implementation of cross_entropy.h for one instruction set level (engine/level.h). */
#include "kernel/loss/cross_entropy.h"

#include "kernel/engine/elementwise_loop.h"
#include "kernel/engine/vmath/vmath.h"

/* Sums are accumulated per lane, then reduced as a tree, as in loops->sum_f32. */
enum { LANES = 16 };

static double cross_entropy_sum_lanes(const double *lane) {
  double sum[LANES];
  for (int l = 0; l < LANES; ++l) sum[l] = lane[l];
  for (int width = LANES / 2; width; width /= 2)
    for (int l = 0; l < width; ++l) sum[l] += sum[l + width];
  return sum[0];
}

static double weighted_sum(const float *w, const float *x, int64_t n) {
  double lane[LANES] = {0};
  for (int64_t i = 0; i < n; i += LANES)
    for (int l = 0; l < LANES && i + l < n; ++l) lane[l] += w ? (double)w[i + l] * x[i + l] : x[i + l];
  return cross_entropy_sum_lanes(lane);
}

static void cross_entropy_gradient(float *y, const float *log_p, const float *w, float scale, float smooth, int64_t n) {
  if (w) {
    INDEPENDENT for (int64_t i = 0; i < n; ++i) y[i] = scale * vexp_f32(log_p[i]) - smooth * w[i];
  } else {
    INDEPENDENT for (int64_t i = 0; i < n; ++i) y[i] = scale * vexp_f32(log_p[i]) - smooth;
  }
}

static double softmax_loss(float *y, const float *x, const float *label, float top, float log_sum, int64_t n) {
  double lane[LANES] = {0};
  for (int64_t i = 0; i + LANES <= n; i += LANES)
    for (int l = 0; l < LANES; ++l) lane[l] += (double)label[i + l] * ((double)log_sum - (x[i + l] - top));
  for (int64_t i = n / LANES * LANES; i < n; ++i)
    lane[i % LANES] += (double)label[i] * ((double)log_sum - (x[i] - top));
  INDEPENDENT for (int64_t i = 0; i < n; ++i) y[i] = vexp_f32(x[i] - top - log_sum) - label[i];
  return cross_entropy_sum_lanes(lane);
}

const cross_entropy_loops LEVELED(cross_entropy_loops) = {
    .weighted_sum = weighted_sum,
    .gradient = cross_entropy_gradient,
    .softmax_loss = softmax_loss,
};
