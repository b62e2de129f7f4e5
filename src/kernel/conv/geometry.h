/* Convolutions as all of their passes see them: y = w * x, where
 *
 *   x   [batch, groups * channels, in...]     the larger side: input of a convolution, output of a transposed one
 *   y   [batch, groups * rows, out...]
 *   w   [groups * rows, channels, kernel...]
 *
 * A transposed convolution is the gradient of x from that of y, and its gradients are the forward pass and that of w.
 * Everything has three axes; missing ones are 1. */
#ifndef CANNON_KERNEL_CONV_GEOMETRY_H
#define CANNON_KERNEL_CONV_GEOMETRY_H

#include "op/executor.h"
#include "tensor/view.h"

enum { CONV_AXES = 3 };

typedef struct {
  int64_t batch, groups, channels, rows;
  int64_t in[CONV_AXES], out[CONV_AXES], kernel[CONV_AXES], stride[CONV_AXES], pad[CONV_AXES], dilation[CONV_AXES];
  /* pad: at the low end; how much there is at the other one follows from the sizes */
} conv_geometry;

/* Where the elements of x, y or w are; strides in bytes. */
typedef struct {
  int64_t outer, inner; /* x, y: batch, channel; w: row, channel */
  int64_t axis[CONV_AXES];
  int dtype;
} conv_operand;

/* How a call gives it. Arrays have a value for each axis; padding of one or two axes may have one for each end of each axis,
 * the low one first, of any number where by_end is set. */
typedef struct {
  const aclIntArray *stride, *padding, *dilation, *output_padding; /* output_padding: NULL where there is none */
  int64_t groups;
  bool transposed, by_end;
} conv_arguments;

/* input, weight: as the call has them, [batch, channels, axes...]; *n: the number of axes. */
status conv_geometry_init(conv_geometry *g, const tensor *input, const tensor *weight, const conv_arguments *a, int *n);
/* The result of the forward pass: its dimensions, of input's rank. */
void conv_output_dims(const conv_geometry *g, bool transposed, int n, int64_t *dims);
/* Axes that no window sees as such become one, where both sides have them in one piece. */
void conv_join_axes(conv_geometry *g, const conv_operand *x, const conv_operand *y);
void conv_operand_init(conv_operand *o, const tensor *t, int n);

/* Divisors that are mostly 1; a division takes as long as many other instructions. */
static inline int64_t conv_quotient(int64_t a, int64_t b) { return b == 1 ? a : a / b; }
static inline int64_t conv_remainder(int64_t a, int64_t b) { return b == 1 ? 0 : a % b; }

static inline int64_t conv_volume(const int64_t *axis) { return axis[0] * axis[1] * axis[2]; }

#endif
