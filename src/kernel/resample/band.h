/* One axis of a separable linear operator: each of its outputs is a weighted sum of neighbouring inputs. Interpolation
 * and average pooling are bands, and so are their gradients, which have the transposed matrix.
 *
 * Neighbours move forward: first[o] does not fall as o grows, and where count[o] is 0 it still is an input. */
#ifndef CANNON_KERNEL_RESAMPLE_BAND_H
#define CANNON_KERNEL_RESAMPLE_BAND_H

#include "op/executor.h"

enum { BAND_AXES = 3 };

typedef enum {
  BAND_NEAREST,
  BAND_NEAREST_EXACT, /* nearest to the middle of the output */
  BAND_IDENTITY,
  BAND_WINDOW,   /* averages of windows: kernel, stride, pad */
  BAND_ADAPTIVE, /* averages of out windows that cover everything */
  BAND_LINEAR,
  BAND_CUBIC,
  BAND_LINEAR_AA, /* antialiased: the filter widens where there are fewer outputs than inputs */
  BAND_CUBIC_AA,
} band_kind;

/* What a band is made from. */
typedef struct {
  band_kind kind;
  int64_t in, out;
  int64_t kernel, stride, pad; /* BAND_WINDOW */
  bool count_pad;              /* the padding counts in averages */
  int64_t divisor;             /* of averages, whatever is in the window; 0: what counts */
  double scale;                /* inputs for one output; interpolation */
  bool align_corners;
} band_spec;

/* The input that BAND_NEAREST or BAND_NEAREST_EXACT takes for an output; in float, as PyTorch does it. */
int64_t band_nearest(const band_spec *s, int64_t o);

enum { BAND_FEW = 8 }; /* taps up to which weights are laid out for vectors of outputs */

typedef struct {
  int64_t in, out;
  int64_t taps;    /* the largest count, at least 1 */
  bool identity;   /* out[i] = in[i] */
  int32_t *first;  /* [out] */
  int32_t *count;  /* [out] */
  int32_t *end;    /* [out], of the inputs of outputs up to this one; first + count falls where count is 0 */
  double *weight;  /* [out][taps], 0 behind count; NULL: all are 1 */
  double *divisor; /* [out], of the sums; NULL: 1 */
  /* The weights as the kernel computes, of the last axis: [taps][out] where taps <= BAND_FEW, else [out][taps]. */
  void *typed;
} band;

/* Makes bands of the specs, or their transposes (in and out change places), in the executor's heap memory; the last
 * one gets typed weights, of double or of float. */
status bands_make(executor *e, const band_spec *spec, int n, bool transposed, bool is_double, band *b);

/* The scale of an axis as PyTorch has it: given is the factor from inputs to outputs, or 0. */
double resample_scale(int64_t in, int64_t out, bool align_corners, double given);

#endif
