/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of samplers at arbitrary points of a plane, and of their gradients, with one table for each
 * instruction set level (engine/level.h).
 *
 *   tap     an element of a plane, as its offset in bytes, and its weight
 *   table   the taps of up to POINTS_BLOCK results, computed once and used for every channel
 *
 * Called by grid.c on worker threads. All functions are pure loops over the caller's memory. */
#ifndef CANNON_KERNEL_RESAMPLE_POINTS_H
#define CANNON_KERNEL_RESAMPLE_POINTS_H

#include "kernel/engine/elementwise.h"

enum { POINTS_BLOCK = 64, POINTS_TAPS = 16, NO_POINT = -1 };

typedef int64_t point_offsets[POINTS_TAPS][POINTS_BLOCK]; /* NO_POINT: outside of the plane; counts as 0 */
typedef double point_weights[POINTS_TAPS][POINTS_BLOCK];

typedef struct {
  /* out[i] = the sum over taps, in order, of weight[tap][i] * the element at offset[tap][i]. Indexed by the plane's
   * dtype; NULL if that is not a floating type. */
  void (*blend[DTYPE_END])(double *out, const char *plane, const point_offsets offset, const point_weights weight,
                           int taps, int64_t n);
  /* For each i in turn and each tap: the element at offset[tap][i] += weight[tap][i] * g[i]. Index 0: float planes,
   * 1: double. */
  void (*spread[2])(char *plane, const point_offsets offset, const point_weights weight, int taps, const double *g,
                    int64_t n);
} points_loops;

extern const points_loops *points; /* chosen before main for this processor (engine/level.h) */

#endif
