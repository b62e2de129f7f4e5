/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes of a convolution as all of its passes (forward, gradient of x, gradient of w) see them: y = w * x,
 * where
 *
 *   x   [batch, groups * channels, in...]     the larger side: input of a convolution, output of a transposed one
 *   y   [batch, groups * rows, out...]
 *   w   [groups * rows, channels, kernel...]
 *
 * A transposed convolution is computed as the gradient of x from that of y. Its own gradients are then the forward
 * pass and the gradient of w. There are always three axes (depth, height, width); missing ones have size 1.
 *
 * Words used in this folder: a row is an output channel of a group (a row of w as a matrix), a channel is an input
 * channel of a group, a tap is a position in the kernel window, a line is the run of elements along the last axis, a
 * plane is the elements of one channel of one batch item, a position is an element of a plane.
 *
 * Called by the operators' prepare functions (convolution.c, graph_conv.c) and by the other files of this folder. No
 * state: every function is thread-safe. */
#ifndef CANNON_KERNEL_CONV_GEOMETRY_H
#define CANNON_KERNEL_CONV_GEOMETRY_H

#include "op/executor.h"
#include "tensor/view.h"

enum { CONV_AXES = 3 };

typedef struct {
  int64_t batch, groups, channels, rows;
  int64_t in[CONV_AXES], out[CONV_AXES], kernel[CONV_AXES], stride[CONV_AXES], pad[CONV_AXES], dilation[CONV_AXES];
  /* pad: at the low end; the padding at the high end follows from in and out */
} conv_geometry;

/* Strides in bytes and the dtype of x, y or w. */
typedef struct {
  int64_t outer, inner; /* between batch items and between channels (x, y); between rows and channels (w) */
  int64_t axis[CONV_AXES];
  int dtype;
} conv_operand;

/* The arguments of a call. Each array has one value per axis. padding may instead have two values per axis, for its
 * low and its high end in this order: always if by_end is set, otherwise only for two axes, or for one axis of a
 * convolution that is not transposed. */
typedef struct {
  const aclIntArray *stride, *padding, *dilation, *output_padding; /* output_padding: NULL if the operator has none */
  int64_t groups;
  bool transposed, by_end;
} conv_arguments;

/* Checks the arguments and fills *g. input and weight are the call's tensors, [batch, channels, axes...] and
 * [groups * rows, channels, axes...]; if a->transposed, input is y, otherwise x. *n becomes the number of axes.
 * Fails with a message that names the argument. */
status conv_geometry_init(conv_geometry *g, const tensor *input, const tensor *weight, const conv_arguments *a, int *n);
/* Writes the dimensions of the forward pass' result, of which there are as many as input has. */
void conv_output_dims(const conv_geometry *g, bool transposed, int n, int64_t *dims);
/* Merges two neighbouring axes into one where the kernel is 1, there is no stride and no padding along either, and
 * both x and y are contiguous across them. */
void conv_join_axes(conv_geometry *g, const conv_operand *x, const conv_operand *y);
/* n: the number of axes of t, whose dimensions are [outer, inner, axes...]. */
void conv_operand_init(conv_operand *o, const tensor *t, int n);

/* Quotient and remainder for divisors that are mostly 1: the comparison is much cheaper than a division. */
static inline int64_t conv_quotient(int64_t a, int64_t b) { return b == 1 ? a : a / b; }
static inline int64_t conv_remainder(int64_t a, int64_t b) { return b == 1 ? 0 : a % b; }

static inline int64_t conv_volume(const int64_t *axis) { return axis[0] * axis[1] * axis[2]; }

#endif
