/* The gradient of w by windows of 3 x 3 without strides, from transformed tiles (winograd_tiles.h) of x and of y's gradient:
 * 16 products of matrices, summed over tiles. Of floats, to weights in one piece. */
#ifndef CANNON_KERNEL_CONV_WINOGRAD_GRADIENT_H
#define CANNON_KERNEL_CONV_WINOGRAD_GRADIENT_H

#include "kernel/conv/winograd_tiles.h"

typedef struct {
  bool fits;
  const conv_geometry *g; /* the caller's, and so are the operands */
  winograd_side x, y;
  winograd_grid grid;
  int64_t at_once;                       /* segments */
  winograd_tiles x_tiles, y_tiles, sums; /* of a group: of channels, of rows, and [rows][channels]; without addresses */
  uint64_t x_at, y_at, sum_at;           /* in scratch */
  uint64_t cost_ns;
} winograd_gradient;

/* Sets w->fits, and asks for workspace where it does. */
void winograd_gradient_init(winograd_gradient *w, executor *e, const conv_geometry *g, const conv_operand *x,
                            const conv_operand *y, const conv_operand *weight);
/* Addresses of the first elements. *done is false where a result is not finite. */
status winograd_gradient_run(const winograd_gradient *w, const void *x, const void *y, float *to, char *scratch,
                             bool *done);

#endif
