/* SPDX-License-Identifier: Apache-2.0 */
/* y = w * x, and the gradient of x from that of y. The implementations (kernel/engine/implementation.h), in the order
 * in which they are tried:
 *
 *   depthwise   channel by channel, on the tensors in place (by_channel.h)
 *   pairs       direct, with packed weights and a padded copy of VNNI pairs (direct_pairs.h): bfloat16 if the
 *               processor has dot-product instructions for it, and float if it can be computed from bfloat16 terms
 *   packed      GEMM of im2col columns by constant weights that are packed once (packed_products.h): few positions
 *   winograd    transformed tiles (winograd.h): float, kernels of 3 x 3; another one computes the call again if a
 *               result is not finite
 *   gemm        packed GEMM of weights and im2col columns (phase_products.h): kernels of one tap, many weights, 16-bit
 *               dtypes
 *   direct      inputs are copied to a padded float copy (image.h); weights are read in place
 *   reference   sums in double (reference.h)
 *
 * A forward pass with dilation may come as several without (dilated.h). The gradient of a strided convolution is split
 * into phases (phase.h). Operands have any floating dtype; sums are float. Called by convolution.c; correlation_init
 * runs on the thread that plans, correlation_run on the thread that executes, and both keep their state in the
 * caller's structs. */
#ifndef CANNON_KERNEL_CONV_CORRELATE_H
#define CANNON_KERNEL_CONV_CORRELATE_H

#include "kernel/conv/direct/direct_pairs.h"
#include "kernel/conv/direct/image.h"
#include "kernel/conv/epilogue.h"
#include "kernel/conv/winograd/winograd.h"
#include "kernel/engine/implementation.h"

/* The plan of the direct implementations. */
typedef struct {
  conv_image image;
  const pair_kernel *pairs; /* not NULL: use VNNI pairs; of floats only if their values allow it */
  int64_t n_images;         /* batch items of one pass */
  int64_t band;             /* outputs of one pass along band_axis */
  int band_axis;
  uint64_t image_at, packed_at; /* offsets in scratch, in bytes, as below */
} correlation_direct;

typedef struct {
  conv_geometry g;
  bool backward;         /* computes x from y */
  conv_operand from, to; /* x and y; if backward: y and x */
  conv_operand given_w;  /* the weights as the call gives them */
  conv_epilogue epilogue;
  bool constant_w; /* the caller packs the weights if conv_packed_bytes says so */

  const implementation *chosen;
  conv_operand w; /* the weights as they are read: the call's, or their copy */
  bool copies_w;
  int bias_dtype; /* -1: no bias */
  int64_t bias_stride;
  uint64_t weight_at, bias_at, taps_at;
  uint64_t cost_ns;
  winograd winograd;
  const implementation *fallback; /* of Winograd */
  correlation_direct direct;
} correlation;

/* The addresses of the first elements, and the bias in float (NULL: none): the operands of the implementations. */
typedef struct {
  const char *from;
  char *to;
  const void *w; /* not read if the weights are packed and conv_reads_weights is false */
  const float *bias;
  const void *packed; /* weights, if they are packed */
  conv_store store;
} correlation_operands;

/* Chooses the implementation and asks the executor for workspace. The caller has set the members before `chosen`. bias
 * has one element per output channel, or is NULL. */
void correlation_init(correlation *c, executor *e, const tensor *bias);

/* The addresses of a call's first elements. */
typedef struct {
  const void *from, *w, *bias, *residual; /* bias and residual may be NULL */
  void *to;                               /* does not overlap the residual */
  const void *packed;                     /* weights, by conv_pack */
} correlation_call;

/* Runs on the thread pool. */
status correlation_run(const correlation *c, const correlation_call *call, char *scratch);

/* Weights that do not change are packed once. The caller sets constant_w before correlation_init, which then asks for
 * no workspace for them.
 *
 *   conv_packed_bytes    the size of the packed weights; 0: they are read as they are, and calls run without `packed`
 *   conv_packed_layout   a hash: plans with equal ones pack the same weights to the same bytes
 *   conv_reads_weights   whether some calls read the weights themselves, too
 *   conv_pack            packs w to memory of that size at a multiple of 64 bytes, on the thread pool */
uint64_t conv_packed_bytes(const correlation *c);
uint64_t conv_packed_layout(const correlation *c);
bool conv_reads_weights(const correlation *c);
void conv_pack(const correlation *c, const void *w, void *packed);

double conv_multiply_adds(const conv_geometry *g);
/* The estimated time on one core. */
uint64_t conv_cost_ns(double multiply_adds, double flops_per_ns);
/* Converts a tensor of shape [outer, inner, axes...] to contiguous floats in the same order. */
void conv_to_floats(float *to, const void *from, const conv_operand *o, int64_t outer, int64_t inner,
                    const int64_t *axes, uint64_t cost_ns);

#endif
