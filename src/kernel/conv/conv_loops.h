/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops that convolutions, im2col and related operators share, with one table for each instruction set level
 * (engine/level.h). All functions are pure loops over the caller's memory. */
#ifndef CANNON_KERNEL_CONV_CONV_LOOPS_H
#define CANNON_KERNEL_CONV_CONV_LOOPS_H

#include <stdint.h>

typedef struct {
  /* out[i] = x[i * step] for elements of 1, 2, 4, 8 or 16 bytes. */
  void (*take)(void *out, const void *x, int64_t step, int element_bytes, int64_t n);
  /* The same for n_lines lines, whose starts are out_line and x_line bytes apart. */
  void (*lines)(void *out, int64_t out_line, const void *x, int64_t x_line, int64_t n_lines, int64_t step,
                int element_bytes, int64_t n);
  void (*fill)(float *to, float value, int64_t n);
  /* sum[i * step] += x[i] */
  void (*spread_f32)(float *sum, int64_t step, const float *x, int64_t n);
  void (*spread_f64)(double *sum, int64_t step, const double *x, int64_t n);
  /* out[i] = low[i * step] | high[i * step] << 16; if high is NULL, the high half is 0. Steps in elements. */
  void (*pair)(uint32_t *out, const uint16_t *low, const uint16_t *high, int64_t step, int64_t n);
  /* Deinterleaves taps: copies element i * taps + t of `from` to element i of the 64 bytes at to + t * to_step
   * (bytes), for all t < taps. Elements of 2 or 4 bytes. */
  void (*split)(void *to, int64_t to_step, const void *from, int64_t taps, int element_bytes);
  /* Packs 16-bit weights as VNNI pairs. Each of 16 rows has 2 * pairs channels of `taps` contiguous elements; word
   * [i][row] of `two` holds the row's elements 2 i and 2 i + 1. For each tap t and pair of channels, writes at to +
   * t * to_step (words) 16 words, one per row, that hold the elements of both channels, that of the first in the low
   * half. */
  void (*join)(uint32_t *to, int64_t to_step, const uint32_t *two, int64_t taps, int64_t pairs);
} conv_loops_table;

extern const conv_loops_table *conv_loops; /* chosen before main for this processor (engine/level.h) */

#endif
