/* Convolutions of floats by windows of 3 x 3 without strides, and their gradients of x, by minimal filtering: the 2 x 2 outputs
 * of a tile are sums of 16 products of transformed inputs (4 x 4) and weights, where they themselves have 36 (S. Winograd's
 * F(2x2, 3x3); A. Lavin and S. Gray, arXiv:1509.09308). Along an axis,
 *
 *   v = (d0 - d2, d1 + d2, d2 - d1, d1 - d3)   of inputs
 *   u = (g0, g0 + g1 + g2, g0 - g1 + g2, g2)   of weights
 *   y0 = m0 + (m1 + m2) / 2, y1 = (m1 - m2) / 2 - m3   of their products m, summed over channels
 *
 * Errors are relative to the largest input of a window times the largest weight, channel by channel: inputs cancel out of
 * sums that contain them. An output sees no input that is not of its window. Where a result is not finite, be it that an operand
 * is not or that a sum overflowed on the way, nothing is said and the caller does it otherwise. */
#ifndef CANNON_KERNEL_CONV_WINOGRAD_H
#define CANNON_KERNEL_CONV_WINOGRAD_H

#include "kernel/conv/geometry.h"

typedef struct {
  bool fits;
  const conv_geometry *g; /* the caller's, and so are the operands */
  const conv_operand *from, *to;
  bool backward;
  int64_t rows, channels;         /* of a group: made, and summed over */
  int64_t in[CONV_AXES], out[2];  /* sizes of both sides */
  int64_t low[2];                 /* the input that output 0 sees first */
  int64_t lines, segments, width; /* of tiles: lines of an image, segments of a line, tiles of a segment */
  int64_t at_once;                /* segments, of neighbouring lines */
  uint64_t weight_at;             /* in scratch */
  uint64_t cost_ns;
} winograd;

/* Sets w->fits, and asks for workspace where it does. weight: of the call. What is pointed to stays with the winograd. */
void winograd_init(winograd *w, executor *e, const conv_geometry *g, const conv_operand *from, const conv_operand *to,
                   const conv_operand *weight, bool backward);
/* Addresses of the first elements. bias: floats, or NULL. *done is false where a result is not finite. */
status winograd_run(const winograd *w, const void *from, void *to, const float *weights, const float *bias,
                    char *scratch, bool *done);

enum { WINOGRAD_PRODUCTS = 16, WINOGRAD_LANES = 16 /* most of any level: what is rounded up to */ };

/* The transforms, by instruction set level. Of 16 results each, `step` floats apart. */
typedef struct {
  /* Of WINOGRAD_LANES channels: tap t of channel i is w[t * WINOGRAD_LANES + i]. turned: of the mirrored window. */
  void (*weights)(float *u, int64_t step, const float *w, bool turned);
  /* Of n tiles next to each other: input (i, j) of tile k is x[tap[4 * i + j] + k]. Writes whole vectors. */
  void (*inputs)(float *v, int64_t step, const float *x, const int64_t *tap, int64_t n);
  /* Outputs of n tiles: 2 n of each of two lines, in whole vectors. False: one is not finite. */
  bool (*outputs)(float *top, float *bottom, const float *m, int64_t step, int64_t n, float bias);
} winograd_loops_table;

extern const winograd_loops_table *winograd_loops; /* set before main */

#endif
