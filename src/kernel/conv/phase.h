/* The phases of a convolution's gradient of x: outputs whose coordinates have the same remainders see the same taps,
 * as a convolution without strides. The forward pass is one phase. */
#ifndef CANNON_KERNEL_CONV_PHASE_H
#define CANNON_KERNEL_CONV_PHASE_H

#include "kernel/conv/geometry.h"

/* One phase of outputs, along each axis: every `step`-th from `first` on. Tap t of it is tap first_tap + t * tap_step
 * of the kernel and needs input number o * stride + shift + t * dilation for output o of the phase. */
typedef struct {
  int64_t first, step, out;
  int64_t taps, first_tap, tap_step;
  int64_t stride, shift, dilation;
} phase_axis;

void phase_forward(const conv_geometry *g, int a, phase_axis *f);
/* remainder: below the axis' stride. No taps: outputs that none reaches. */
phase_axis phase_backward(const conv_geometry *g, int a, int64_t remainder);

#endif
