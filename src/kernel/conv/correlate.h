/* y = w * x, and the gradient of x from that of y, in one of five ways. As packed products of weights and columns
 * (phase_products.h): with one tap, or where weights are many or 16 bits wide. Directly: inputs are copied to an image with
 * their padding, as floats, whose weights are read where they lie. With packed weights and an image of rows of channels
 * (direct_pairs.h): bfloat16 where the processor multiplies it, and floats where they are sums of such. By transformed
 * tiles (winograd.h): floats and windows of 3 x 3. Or channel by channel, where inputs lie (by_channel.h). The gradient of
 * a convolution with strides is done by phases (phase.h). Any dtypes of operands; sums are float. */
#ifndef CANNON_KERNEL_CONV_CORRELATE_H
#define CANNON_KERNEL_CONV_CORRELATE_H

#include "kernel/conv/direct_pairs.h"
#include "kernel/conv/image.h"
#include "kernel/conv/winograd.h"

typedef struct {
  conv_geometry g;
  bool backward;         /* x from y */
  conv_operand from, to; /* x and y, or y and x */
  conv_operand given_w;  /* of the call */

  winograd winograd; /* where it fits, and results are finite; else: */
  conv_operand w;    /* floats: of the call, or their copy */
  int bias_dtype;    /* -1: none */
  int64_t bias_stride;
  conv_image image;
  bool by_channel, across;  /* where inputs lie; else: */
  bool products;            /* as packed products (phase_products.h); else: */
  const pair_kernel *pairs; /* not NULL: for words of two channels, of bfloat16; or of floats' parts, where those do */
  int64_t n_images;         /* at a time, */
  int64_t band;             /* and outputs along this axis */
  int band_axis;
  bool copies_w;
  uint64_t image_at, weight_at, packed_at, bias_at, taps_at; /* in scratch */
  uint64_t cost_ns;
} correlation;

/* The caller has set the first part. Asks for workspace. bias: of the outputs, or NULL. */
void correlation_init(correlation *c, executor *e, const tensor *bias);
/* Addresses of the first elements. bias may be NULL. */
status correlation_run(const correlation *c, const void *from, void *to, const void *w, const void *bias,
                       char *scratch);

double conv_multiply_adds(const conv_geometry *g);
/* On one core. */
uint64_t conv_cost_ns(double multiply_adds, double flops_per_ns);
/* The floats of a tensor of [outer, inner, axes...]: contiguous, in the same order. */
void conv_to_floats(float *to, const void *from, const conv_operand *o, int64_t outer, int64_t inner,
                    const int64_t *axes, uint64_t cost_ns);

#endif
