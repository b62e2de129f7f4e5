/* SPDX-License-Identifier: Apache-2.0 */
/* What follows the int32 sums of integer GEMMs, one table per instruction set level (engine/level.h). Called by
 * quant_matmul.c and integer_matmul.c; and what quantize_linear.c does before them. */
#ifndef CANNON_KERNEL_QUANT_SUMS_H
#define CANNON_KERNEL_QUANT_SUMS_H

#include <stdbool.h>
#include <stdint.h>

/* Parameters with one value per column; `before` and `after` may be NULL for 0. */
typedef struct {
  const double *before, *scale, *after; /* scale is not NULL */
} column_scales;

/* The terms of a row that zero points add; see integer_matmul.c. */
typedef struct {
  const int32_t *by_row_zero, *col_zeros; /* one for each column; col_zeros: NULL for 0 */
  int32_t row_zero, row_sum;
} integer_terms;

typedef struct {
  /* to[i] = (sums[i] + before) * scale * by_row + after for i < n, in double, and rounded to the nearest
   * integer if `whole`. The conversion to float rounds to odd, so that another rounding to a shorter type
   * gives the correctly rounded result. */
  void (*scale)(float *to, const int32_t *sums, const column_scales *c, double by_row, bool whole, int64_t n);
  /* to[i] = sums[i] + row_zero * by_row_zero[i] - row_sum * col_zeros[i], which wraps. */
  void (*correct)(int32_t *to, const int32_t *sums, const integer_terms *terms, int64_t n);
  /* to[i] = (float)sums[i] * scale[i] + bias[i], with three roundings; bias: NULL for none. */
  void (*to_floats)(float *to, const int32_t *sums, const float *scale, const float *bias, int64_t n);
  /* As `correct` (terms->row_zero and row_sum are not looked at), for a block of positions x outputs whose rows are ld
   * elements apart: writes it transposed, with outputs to_ld apart. by_row_zero: what is added to each output. */
  void (*transpose)(int32_t *to, int64_t to_ld, const int32_t *sums, int64_t ld, const int32_t *row_sums,
                    const integer_terms *terms, int64_t rows, int64_t cols);
  /* The same in floats, as to_floats. */
  void (*transpose_floats)(float *to, int64_t to_ld, const int32_t *sums, int64_t ld, const int32_t *row_sums,
                           const integer_terms *terms, const float *scale, const float *bias, int64_t rows,
                           int64_t cols);
  /* to[i * to_ld + c] = x[c * x_ld + i] ^ flip for c < channels, i < n. */
  void (*interleave)(uint8_t *to, int64_t to_ld, const uint8_t *x, int64_t x_ld, uint8_t flip, int64_t channels,
                     int64_t n);
  /* to[i] = x[i] - 128. Returns the sum of to[]. */
  int32_t (*centre)(int8_t *to, const uint8_t *x, int64_t n);
  int32_t (*sum)(const int8_t *x, int64_t n);
  /* Widens the range by x[]. NaN does not count. */
  void (*range)(const float *x, int64_t n, float *least, float *most);
  /* to[i] = x[i] / scale, rounded to the nearest integer, + zero, limited to a byte. */
  void (*quantise)(uint8_t *to, const float *x, float scale, float zero, int64_t n);
} quant_sums_table;

extern const quant_sums_table *quant_sums; /* set before main, for the processor */

#endif
