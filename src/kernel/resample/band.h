/* SPDX-License-Identifier: Apache-2.0 */
/* One axis of a separable linear operator, as a band matrix: each output is a weighted sum of neighbouring inputs.
 * Interpolation and average pooling are band matrices along each axis, and their gradients are the transposed ones.
 *
 * first[o] never decreases as o grows, and it is a valid input index even where count[o] is 0.
 *
 * Called by separable.c, nearest.c, upsample.c and pooling/average.c when a call is prepared. A band is read only
 * once made, so threads may share it. */
#ifndef CANNON_KERNEL_RESAMPLE_BAND_H
#define CANNON_KERNEL_RESAMPLE_BAND_H

#include "op/executor.h"

enum { BAND_AXES = 3 };

typedef enum {
  BAND_NEAREST,
  BAND_NEAREST_EXACT, /* the input nearest to the middle of the output */
  BAND_IDENTITY,
  BAND_WINDOW,   /* averages over windows: kernel, stride, pad */
  BAND_ADAPTIVE, /* averages over `out` windows that cover the whole input */
  BAND_AREA,     /* averages over `scale` inputs, or parts of them, and the last one where there are no more */
  BAND_LINEAR,
  BAND_CUBIC,
  BAND_CUBIC_TABLE, /* with weights from a table, and coordinates in float, as TensorFlow has it */
  BAND_LINEAR_AA,   /* antialiased: the filter is widened if there are fewer outputs than inputs */
  BAND_CUBIC_AA,
} band_kind;

/* The description of a band, for its forward direction. */
typedef struct {
  band_kind kind;
  int64_t in, out;
  int64_t kernel, stride, pad; /* BAND_WINDOW only */
  bool count_pad;              /* averages: elements of the padding count in the divisor */
  int64_t divisor;             /* averages: the divisor; 0: the number of elements that count */
  double scale;                /* interpolation: inputs per output */
  bool align_corners;          /* the first and last elements coincide */
  bool from_edges; /* linear, cubic table: outputs begin where the inputs begin, as TensorFlow had it first */
} band_spec;

/* The input that BAND_NEAREST or BAND_NEAREST_EXACT takes for output o, computed in float as PyTorch does. With aligned
 * corners, which PyTorch does not have here, it is the nearest one. */
int64_t band_nearest(const band_spec *s, int64_t o);

enum { BAND_FEW = 8 }; /* up to this many taps, typed weights are laid out for vectors of outputs */

/* A band matrix. Its arrays are part of e->heap and are freed with the executor. */
typedef struct {
  int64_t in, out;
  int64_t taps;    /* the largest count, at least 1 */
  bool identity;   /* out[i] = in[i] */
  int32_t *first;  /* [out] */
  int32_t *count;  /* [out] */
  int32_t *end;    /* [out], the end of the inputs of outputs up to this one; first + count may fall */
  double *weight;  /* [out][taps], 0 behind count; NULL: all weights are 1 */
  double *divisor; /* [out], the divisors of the sums; NULL: 1 */
  /* Only for the last axis: the weights in the type that the kernel computes in, as [taps][out] if taps <= BAND_FEW,
   * otherwise as [out][taps]. */
  void *typed;
} band;

/* Makes the n bands of the specs, or their transposes (with in and out exchanged), in one allocation, which becomes
 * e->heap. The last band gets typed weights, of double or of float. Fails if host memory is exhausted. */
status bands_make(executor *e, const band_spec *spec, int n, bool transposed, bool is_double, band *b);

/* The scale of an axis as PyTorch computes it. given: the call's factor from inputs to outputs, or 0 if there is
 * none. */
double resample_scale(int64_t in, int64_t out, bool align_corners, double given);

#endif
