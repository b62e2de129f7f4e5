/* Sums over points of planes: what samplers at arbitrary places do for each channel, and its gradient.
 *
 *   tap     an element of a plane, by its offset in bytes, and its weight
 *   table   the taps of POINTS_BLOCK results, found once and used for every channel */
#ifndef CANNON_KERNEL_RESAMPLE_POINTS_H
#define CANNON_KERNEL_RESAMPLE_POINTS_H

#include "kernel/engine/elementwise.h"

enum { POINTS_BLOCK = 64, POINTS_TAPS = 16, NO_POINT = -1 };

typedef int64_t point_offsets[POINTS_TAPS][POINTS_BLOCK]; /* NO_POINT: outside, counts as 0 */
typedef double point_weights[POINTS_TAPS][POINTS_BLOCK];

typedef struct {
  /* out[i] = sum over taps of weight[tap][i] * the element at offset[tap][i], in that order; by the plane's dtype, NULL:
   * not a float. */
  void (*blend[DTYPE_END])(double *out, const char *plane, const point_offsets offset, const point_weights weight,
                           int taps, int64_t n);
  /* The elements at the offsets += weight * g[i], for one i after the other; of float and of double. */
  void (*spread[2])(char *plane, const point_offsets offset, const point_weights weight, int taps, const double *g,
                    int64_t n);
} points_loops;

extern const points_loops *points; /* set before main */

#endif
