/* SPDX-License-Identifier: Apache-2.0 */
/* Max pooling: what the forward passes, their gradients and the operators called by name share, and the format of
 * the mask that MaxPool2dWithMask returns as its indices. Called by max.c, pooling_scatter.c and graph_max.c, on the
 * thread that prepares a call; the functions keep no state. */
#ifndef CANNON_KERNEL_POOLING_MAX_H
#define CANNON_KERNEL_POOLING_MAX_H

#include "kernel/pooling/pooling_window.h"

/* A mask is int8 of shape [.., kh * kw, (ceil(Hout * Wout / 16) + 1) * 32]. As in the current generation of CANN, it
 * starts with an int32 for each output, in their order: the position of the maximum in its plane; zeros follow. For
 * windows of one element these might not fit, so their mask is all zeros.
 *
 * max_mask_expect checks the mask's dtype and shape; max_mask_has_positions tells whether it holds positions. */
status max_mask_expect(const tensor *mask, const window_axis *axis, const tensor *self);
static inline bool max_mask_has_positions(const window_axis *axis) { return axis[0].kernel * axis[1].kernel > 1; }

/* The arguments kernelSize, stride, padding, dilation and ceilMode of a family. */
#define MAX_WINDOWS(a)                                                                                                 \
  {                                                                                                                    \
    .kernel = (a)->kernel_size, .stride = (a)->stride, .pad = (a)->padding, .dilation = (a)->dilation,                 \
    .kernel_name = "kernelSize", .stride_name = "stride", .pad_name = "padding", .dilation_name = "dilation",          \
    .ceil = (a)->ceil_mode                                                                                             \
  }

/* Checks them and sets `axis`. */
status max_windows_init(window_axis *axis, int n, const tensor *self, const window_arrays *arrays);

/* Fails unless each dilation is 1: these devices support dilation only in one gradient and in pools called by name. */
status max_expect_undilated(const aclIntArray *dilation, const char *name);

/* Plans a pool of checked windows, without positions. */
status max_prepare_values(executor *e, const window_axis *axis, int n, const tensor *self, const tensor *out);

/* Plan a pool, and its gradient, whose positions the caller provides as int32, contiguous and of the shape of the
 * pool's output. e->run then takes the views {self, out, positions}, or {grad, unused, positions, gradient of self}. */
status max_prepare_positions(executor *e, const window_axis *axis, const tensor *self, const tensor *out);
status max_prepare_gradient(executor *e, const tensor *grad, const tensor *grad_self);

/* Plans a gradient that finds the positions of the maxima in the pool's input x, whose types are up to float.
 * operands: of x, grad and y, all contiguous. */
status max_prepare_searched(executor *e, const window_axis *axis, int n, const tensor *x, const tensor *grad,
                            const tensor *y, const int *operands);

/* The tensor of such positions, for the pool's output `out`. */
tensor max_positions(const tensor *out);

#endif
