/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of a convolution's gradient of x (its polyphase decomposition): outputs whose coordinates have the same
 * remainders modulo the strides see the same taps, so each phase is a convolution without strides. The forward pass
 * is one phase. Pure functions. */
#ifndef CANNON_KERNEL_CONV_PHASE_H
#define CANNON_KERNEL_CONV_PHASE_H

#include "kernel/conv/geometry.h"

/* One axis of a phase: outputs first, first + step, ..., `out` of them. Tap t of the phase is tap first_tap + t *
 * tap_step of the kernel; output o of the phase reads, for tap t, the input o * stride + shift + t * dilation. */
typedef struct {
  int64_t first, step, out;
  int64_t taps, first_tap, tap_step;
  int64_t stride, shift, dilation;
} phase_axis;

void phase_forward(const conv_geometry *g, int a, phase_axis *f);
/* remainder: in [0, stride of the axis). Without taps, the phase's outputs are not reached by any input and are only
 * their bias. */
phase_axis phase_backward(const conv_geometry *g, int a, int64_t remainder);

#endif
