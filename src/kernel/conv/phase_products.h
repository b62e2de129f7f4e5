/* SPDX-License-Identifier: Apache-2.0 */
/* One phase (phase.h) of a convolution or of its gradient of x as a GEMM of weights by im2col columns (columns.h),
 * on packed blocks. Called by correlate.c; runs on the thread pool. */
#ifndef CANNON_KERNEL_CONV_PHASE_PRODUCTS_H
#define CANNON_KERNEL_CONV_PHASE_PRODUCTS_H

#include "kernel/conv/columns.h"
#include "kernel/conv/epilogue.h"
#include "kernel/conv/phase.h"

/* Strides in bytes. Set by the caller and only read. */
typedef struct {
  const conv_geometry *g;
  const conv_operand *from, *w, *to;
  const phase_axis *axis;
  const int64_t *in;      /* elements of `from` along the axes */
  const int64_t *to_axis; /* from output to output of the phase */
  int64_t rows, channels; /* of a group: outputs per position, and channels to sum over */
  int64_t w_row, w_channel;
  const void *x, *weights;
  char *out;         /* the phase's first output */
  const float *bias; /* one value per row of all groups, or NULL */
  conv_store store;
  int64_t *w_tap; /* scratch for one offset per tap; written by the call */
  uint64_t cost_ns;
} phase_products;

/* Fails only if scratch memory is exhausted. */
status phase_products_run(const phase_products *p);

#endif
