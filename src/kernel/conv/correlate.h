/* SPDX-License-Identifier: Apache-2.0 */
/* y = w * x, and the gradient of x from that of y, by one of five algorithms:
 *
 *   packed GEMM       of weights and im2col columns (phase_products.h): kernels of one tap, many weights, 16-bit dtypes
 *   direct, float     inputs are copied to a padded float copy (image.h); weights are read in place
 *   direct, pairs     packed weights and a padded copy of VNNI pairs (direct_pairs.h): bfloat16 if the processor has
 *                     dot-product instructions for it, and float if it can be computed from bfloat16 terms
 *   Winograd          transformed tiles (winograd.h): float, kernels of 3 x 3
 *   depthwise         channel by channel, on the tensors in place (by_channel.h)
 *
 * The gradient of a strided convolution is split into phases (phase.h). Operands have any floating dtype; sums are
 * float. Called by convolution.c; correlation_init runs on the thread that plans, correlation_run on the thread that
 * executes, and both keep their state in the caller's structs. */
#ifndef CANNON_KERNEL_CONV_CORRELATE_H
#define CANNON_KERNEL_CONV_CORRELATE_H

#include "kernel/conv/direct_pairs.h"
#include "kernel/conv/image.h"
#include "kernel/conv/winograd.h"

typedef struct {
  conv_geometry g;
  bool backward;         /* computes x from y */
  conv_operand from, to; /* x and y; if backward: y and x */
  conv_operand given_w;  /* the weights as the call gives them */

  winograd winograd; /* tried first if it fits, but discarded if a result is not finite */
  conv_operand w;    /* the weights in float: the call's, or their copy */
  int bias_dtype;    /* -1: no bias */
  int64_t bias_stride;
  conv_image image;
  bool by_channel, across;  /* use the depthwise kernels */
  bool products;            /* use the packed GEMM */
  const pair_kernel *pairs; /* not NULL: use VNNI pairs; of floats only if their values allow it */
  int64_t n_images;         /* batch items of one pass */
  int64_t band;             /* outputs of one pass along band_axis */
  int band_axis;
  bool copies_w;
  uint64_t image_at, weight_at, packed_at, bias_at, taps_at; /* offsets in scratch, in bytes */
  uint64_t cost_ns;
} correlation;

/* Chooses the algorithm and asks the executor for workspace. The caller has set the members before `winograd`. bias
 * has one element per output channel, or is NULL. */
void correlation_init(correlation *c, executor *e, const tensor *bias);
/* Takes the addresses of the first elements; bias may be NULL. Runs on the thread pool. */
status correlation_run(const correlation *c, const void *from, void *to, const void *w, const void *bias,
                       char *scratch);

double conv_multiply_adds(const conv_geometry *g);
/* The estimated time on one core. */
uint64_t conv_cost_ns(double multiply_adds, double flops_per_ns);
/* Converts a tensor of shape [outer, inner, axes...] to contiguous floats in the same order. */
void conv_to_floats(float *to, const void *from, const conv_operand *o, int64_t outer, int64_t inner,
                    const int64_t *axes, uint64_t cost_ns);

#endif
