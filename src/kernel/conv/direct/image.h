/* SPDX-License-Identifier: Apache-2.0 */
/* A conv_image is a copy of one side of a convolution with its padding, as floats or as bfloat16 pairs, in an order
 * in which one output further is one element further for every tap: along a strided axis, elements are grouped by
 * their remainder modulo the stride. Element j of a group is x[low + j * stride + remainder], where the remainder is
 * that of one of the taps. Memory is
 *
 *   [remainders...][j...] for each channel, IMAGE_SLACK floats of slack behind all
 *
 * Called by the direct, dot-product and Winograd algorithms of this folder. Thread-safe: a conv_image is read only
 * after image_init, and fills of different channels or rows may run in parallel. */
#ifndef CANNON_KERNEL_CONV_DIRECT_IMAGE_H
#define CANNON_KERNEL_CONV_DIRECT_IMAGE_H

#include "kernel/conv/direct/direct_pairs.h"
#include "kernel/conv/geometry.h"

enum { IMAGE_SLACK = 64 /* floats that may be read behind the copy */ };

typedef struct {
  int64_t low[CONV_AXES]; /* the first element's index in x; elements outside of x are 0 */
  int64_t stride[CONV_AXES], dilation[CONV_AXES];
  int64_t parts[CONV_AXES];                      /* number of different remainders of the taps */
  int64_t size[CONV_AXES];                       /* elements of each remainder's group */
  int64_t part_step[CONV_AXES], step[CONV_AXES]; /* elements between groups, and between elements of a group */
  int64_t rows;                                  /* lines of all groups, size[2] elements each */
  int64_t channel; /* elements from channel to channel: a multiple of 16; those behind the lines are 0 */
} conv_image;

/* For `out` outputs, with a kernel of `taps` taps that starts at x[low]. All arrays have CONV_AXES entries. */
void image_init(conv_image *i, const int64_t *low, const int64_t *out, const int64_t *taps, const int64_t *stride,
                const int64_t *dilation);
/* The element that tap t (one index per axis) reads for output 0, relative to its channel; and the contribution of
 * one axis to it. */
static inline int64_t image_tap_along(const conv_image *i, int axis, int64_t t) {
  return conv_remainder(t, i->parts[axis]) * i->part_step[axis] +
         conv_quotient(t * i->dilation[axis], i->stride[axis]) * i->step[axis];
}
static inline int64_t image_tap(const conv_image *i, const int64_t *t) {
  return image_tap_along(i, 0, t[0]) + image_tap_along(i, 1, t[1]) + image_tap_along(i, 2, t[2]);
}
/* Fills channels [begin, end) with floats. x: channel 0, with o->inner bytes from channel to channel. in: the sizes
 * of x. Channel c goes to to[(c - begin) * i->channel]. */
void image_fill(const conv_image *i, float *to, const char *x, const conv_operand *o, const int64_t *in, int64_t begin,
                int64_t end);
/* Fills lines [begin, end) of a step of up to 32 channels, in the layout of direct_pairs.h: as bfloat16; for floats,
 * PAIR_PARTS copies of bfloat16 terms, `part` bytes apart, with *range extended by their exponents. x: the step's
 * first channel. */
void image_fill_step(const conv_image *i, char *to, int64_t part, const char *x, const conv_operand *o,
                     const int64_t *in, int channels, int64_t begin, int64_t end, float_exponents *range);

/* Fills a single channel, that at x, for pair_products: as bfloat16, or as the bfloat16 terms of floats. The caller
 * zeroes the elements behind the lines, up to i->channel. */
void image_fill_lines(const conv_image *i, uint16_t *to, int64_t part, const char *x, const conv_operand *o,
                      const int64_t *in, float_exponents *range);

#endif
