/* A copy of one side of a convolution as floats, with its padding, in an order in which a step of one output is a step
 * of one element for every tap: along an axis with a stride, elements are sorted by their remainder first. An element
 * of an image is x[low + j * stride + remainder], where the remainder is that of one of the taps.
 *
 *   [remainders...][j...] for each channel, LINE floats of slack behind all */
#ifndef CANNON_KERNEL_CONV_IMAGE_H
#define CANNON_KERNEL_CONV_IMAGE_H

#include "kernel/conv/direct_pairs.h"
#include "kernel/conv/geometry.h"

enum { IMAGE_SLACK = 64 /* floats that may be read behind an image */ };

typedef struct {
  int64_t low[CONV_AXES]; /* the first element's index in x; what is outside of x is 0 */
  int64_t stride[CONV_AXES], dilation[CONV_AXES];
  int64_t parts[CONV_AXES];                      /* different remainders of taps */
  int64_t size[CONV_AXES];                       /* elements of each part */
  int64_t part_step[CONV_AXES], step[CONV_AXES]; /* elements from part to part, and within one, along each axis */
  int64_t rows;                                  /* of all parts, size[2] elements each */
  int64_t channel; /* elements from channel to channel: a multiple of 16, 0 behind the rows */
} conv_image;

/* Of `out` outputs with `taps` taps from x[low] on. */
void image_init(conv_image *i, const int64_t *low, const int64_t *out, const int64_t *taps, const int64_t *stride,
                const int64_t *dilation);
/* The element of output 0 that tap t (of each axis) needs, in its channel; and what one axis adds to that. */
static inline int64_t image_tap_along(const conv_image *i, int axis, int64_t t) {
  return conv_remainder(t, i->parts[axis]) * i->part_step[axis] +
         conv_quotient(t * i->dilation[axis], i->stride[axis]) * i->step[axis];
}
static inline int64_t image_tap(const conv_image *i, const int64_t *t) {
  return image_tap_along(i, 0, t[0]) + image_tap_along(i, 1, t[1]) + image_tap_along(i, 2, t[2]);
}
/* Channels [begin, end) of all that lie `inner` apart in x, to to[(channel - begin) * i->channel]. */
void image_fill(const conv_image *i, float *to, const char *x, const conv_operand *o, const int64_t *in, int64_t begin,
                int64_t end);
/* The same for words of two channels: rows [begin, end) of a step of up to 32 channels as direct_pairs.h has them, of
 * bfloat16s; or of floats, PAIR_PARTS images `part` bytes apart. x: its first channel. */
void image_fill_step(const conv_image *i, char *to, int64_t part, const char *x, const conv_operand *o,
                     const int64_t *in, int channels, int64_t begin, int64_t end, float_exponents *range);

/* The same for products of positions (pair_products): the channel at x as bfloat16, or floats' parts; 0 behind the rows up to
 * i->channel is the caller's. */
void image_fill_lines(const conv_image *i, uint16_t *to, int64_t part, const char *x, const conv_operand *o,
                      const int64_t *in, float_exponents *range);

#endif
