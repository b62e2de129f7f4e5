/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of direct convolutions on floats, with one table for each instruction set level (engine/level.h).
 * Positions are those of a plane of outputs, in the order of the padded copy of the inputs (image.h), so
 * neighbouring positions are adjacent in memory for every tap. Each output is one chain of fused multiply-adds. */
#ifndef CANNON_KERNEL_CONV_DIRECT_DIRECT_H
#define CANNON_KERNEL_CONV_DIRECT_DIRECT_H

#include <stdint.h>

/* For each row and position: the sum over channels c and taps t of w[row * w_row + c * w_channel + w_tap[t]] *
 * x[position + c * x_channel + x_tap[t]]. Strides in elements. */
typedef struct {
  const float *w, *x;
  int64_t w_row, w_channel, x_channel;
  const int64_t *w_tap, *x_tap;
  int64_t channels, taps;
  const float *bias; /* one value per row; NULL: 0 */
} direct_sums;

typedef struct {
  int rows, lanes, vectors; /* the largest tile: `rows` rows by `vectors` vectors of `lanes` positions */
  /* Computes c[row * c_row + position]; reads and writes whole vectors. */
  void (*tile)(const direct_sums *s, int rows, int vectors, float *c, int64_t c_row);
  /* Computes one row of n positions; writes up to the next multiple of `lanes`. */
  void (*single)(const direct_sums *s, int64_t n, float *c);
  /* sum[i * n_x + j] += the dot product of g + i * g_row and x[j], both of n elements; n is a multiple of `lanes`.
   * Takes at most dot_rows rows and dot_columns columns. */
  int dot_rows, dot_columns;
  void (*dots)(const float *g, int64_t g_row, int rows, const float *const *x, int n_x, int64_t n, float *sum);
  /* to[j * to_row + i] = from[i * from_row + j] for i < 16, j < n */
  void (*transpose)(float *to, int64_t to_row, const float *from, int64_t from_row, int64_t n);
} direct_loops_table;

extern const direct_loops_table *direct_loops; /* chosen before main for this processor (engine/level.h) */

#endif
