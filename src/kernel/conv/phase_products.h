/* A phase of a convolution or of its gradient of x as a product of weights and columns (columns.h), packed by blocks.
 * */
#ifndef CANNON_KERNEL_CONV_PHASE_PRODUCTS_H
#define CANNON_KERNEL_CONV_PHASE_PRODUCTS_H

#include "kernel/conv/columns.h"
#include "kernel/conv/phase.h"

/* Strides in bytes. */
typedef struct {
  const conv_geometry *g;
  const conv_operand *from, *w, *to;
  const phase_axis *axis;
  const int64_t *in;      /* elements of `from` along the axes */
  const int64_t *to_axis; /* from output to output of the phase */
  int64_t rows, channels; /* of a group: made, and summed over */
  int64_t w_row, w_channel;
  const void *x, *weights;
  char *out;         /* the phase's first output */
  const float *bias; /* of all rows, or NULL */
  int64_t *w_tap;    /* room for the taps */
  uint64_t cost_ns;
} phase_products;

status phase_products_run(const phase_products *p);

#endif
