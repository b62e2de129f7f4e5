/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/conv/phase.h"

static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

void phase_forward(const conv_geometry *g, int a, phase_axis *f) {
  *f = (phase_axis){.step = 1,
                    .out = g->out[a],
                    .taps = g->kernel[a],
                    .tap_step = 1,
                    .stride = g->stride[a],
                    .shift = -g->pad[a],
                    .dilation = g->dilation[a]};
}

/* Tap k takes output o to input i = p + stride * j where i + pad = o * stride + k * dilation. Taps are numbered from
 * the last one, which needs the smallest o. */
phase_axis phase_backward(const conv_geometry *g, int a, int64_t p) {
  const int64_t stride = g->stride[a], divisor = common_divisor(stride, g->dilation[a]);
  phase_axis f = {
      .first = p, .step = stride, .dilation = g->dilation[a] / divisor, .tap_step = -(stride / divisor), .stride = 1};
  f.out = p < g->in[a] ? (g->in[a] - p + stride - 1) / stride : 0;
  int64_t k = 0;
  while (k < g->kernel[a] && (p + g->pad[a] - k * g->dilation[a]) % stride != 0) ++k;
  if (k >= g->kernel[a] || k >= stride) return f; /* remainders repeat after stride taps */
  f.taps = (g->kernel[a] - 1 - k) / -f.tap_step + 1;
  f.first_tap = k - (f.taps - 1) * f.tap_step;
  f.shift = (p + g->pad[a] - f.first_tap * g->dilation[a]) / stride;
  return f;
}
