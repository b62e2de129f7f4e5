/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolutions (one channel and one row per group), forward also with strides, and their gradients. Inputs
 * are read in place; AVX-512 masks replace the padding, so that no padded copy is made. Accumulates in float. Called by
 * correlate.c and weight_gradient.c. Thread-safe: all state is in the caller's structs. */
#ifndef CANNON_KERNEL_CONV_BY_CHANNEL_H
#define CANNON_KERNEL_CONV_BY_CHANNEL_H

#include "kernel/conv/epilogue.h"
#include "kernel/conv/phase.h"

enum { CHANNEL_MOST_TAPS = 64 /* the largest kernel size along the last axis */ };

/* The geometry of one channel, the same for all channels, for either pass. Output o needs, for tap t, the input o *
 * stride + shift + t * dilation, which is 0 outside of [0, in). The stride of the last axis is 1 or 2. */
typedef struct {
  int64_t in[CONV_AXES], out[CONV_AXES], taps[CONV_AXES], shift[CONV_AXES], dilation[CONV_AXES], stride[CONV_AXES];
  int64_t from_axis[CONV_AXES], to_axis[CONV_AXES]; /* bytes; elements along the last axis are contiguous */
  int64_t w_axis[CONV_AXES];                        /* floats from tap to tap */
  int dtype;                                        /* of both tensors: float, float16 or bfloat16 */
} channel_window;

/* The inner loops. All are NULL at instruction set levels without masks (below AVX-512BW). */
typedef struct {
  /* Computes one channel. Elements of `to` along the last axis are contiguous. */
  void (*rows)(const channel_window *c, char *to, const char *from, const float *w, float bias);
  /* Adds to sum[tap] the sum over all outputs of `to` (the gradient of y, whose last axis is contiguous) times
   * `from`, with the taps in their order. */
  void (*gradient)(const channel_window *c, const char *to, const char *from, float *sum);
} channel_loops_table;

extern const channel_loops_table *channel_loops; /* chosen before main for this processor (engine/level.h) */

/* Returns whether the kernels can compute `to` from `from` in place, where each is one side of g. */
bool by_channel_fits(const conv_geometry *g, const conv_operand *from, const conv_operand *to);
/* The same for the forward pass, which may have strides. */
bool by_channel_fits_forward(const conv_geometry *g, const conv_operand *from, const conv_operand *to);
/* axis: of a phase of outputs (phase.h). in: the sizes of `from` along the axes. w_axis: the strides of w, in
 * floats. */
void channel_window_init(channel_window *c, const conv_operand *from, const int64_t *in, const conv_operand *to,
                         const phase_axis *axis, const int64_t *w_axis);

/* A call for all channels of all batch items. Strides of w in floats. */
typedef struct {
  const channel_window *window;
  const conv_operand *from, *to;
  int64_t batch, groups, w_group;
  const char *x;
  char *out;
  const float *w, *bias; /* addresses of the first tap's weight and of the biases (NULL: no bias) */
  conv_store store;
} by_channel;

/* Runs on the thread pool. cost_ns: the estimated time on one core, from which the number of threads is chosen. */
void by_channel_run(const by_channel *b, uint64_t cost_ns);

#endif
