/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of separable operators and nearest-neighbour upsampling on contiguous data, with one table for each
 * instruction set level (engine/level.h). Called by separable.c and nearest.c. All functions are pure loops over the
 * caller's memory, of float (f32) or double (f64). */
#ifndef CANNON_KERNEL_RESAMPLE_RESAMPLE_LOOPS_H
#define CANNON_KERNEL_RESAMPLE_RESAMPLE_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

enum { RESAMPLE_ROWS = 4 };

typedef struct {
  /* sum[i] = or += the sum over r of weight[r] * rows[r][i]. weight NULL: all 1. n_rows <= RESAMPLE_ROWS. */
  void (*rows)(void *sum, const void *const *rows, const double *weight, int n_rows, int64_t n, bool add);
  /* out[o] = the sum over t < count[o] of w[t * pitch + o] * x[first[o] + t - origin]. w NULL: all 1. */
  void (*few)(void *out, const void *x, const int32_t *first, const int32_t *count, const void *w, int64_t pitch,
              int taps, int64_t origin, int64_t n);
  /* The dot product of x and w, by lanes as the sums of engine/loops.h are. */
  double (*dot)(const void *x, const void *w, int64_t n);
  /* out[i] /= divisor[i] * scale */
  void (*divide)(void *out, const double *divisor, double scale, int64_t n);
} resample_type_loops;

typedef struct {
  resample_type_loops f32, f64;
  /* out[i] = x[index[i]]; elements of 1, 2, 4 or 8 bytes */
  void (*pick)(void *out, const void *x, const int32_t *index, int element_bytes, int64_t n);
} resample_loops_table;

extern const resample_loops_table *resample_loops; /* chosen before main for this processor (engine/level.h) */

#endif
