/* SPDX-License-Identifier: Apache-2.0 */
/* Scaling of the int32 sums of integer GEMMs, one table per instruction set level
 * (engine/level.h). Called by quant_matmul.c. */
#ifndef CANNON_KERNEL_QUANT_SUMS_H
#define CANNON_KERNEL_QUANT_SUMS_H

#include <stdbool.h>
#include <stdint.h>

/* Parameters with one value per column; `before` and `after` may be NULL for 0. */
typedef struct {
  const double *before, *scale, *after; /* scale is not NULL */
} column_scales;

typedef struct {
  /* to[i] = (sums[i] + before) * scale * by_row + after for i < n, in double, and rounded to the nearest
   * integer if `whole`. The conversion to float rounds to odd, so that another rounding to a shorter type
   * gives the correctly rounded result. */
  void (*scale)(float *to, const int32_t *sums, const column_scales *c, double by_row, bool whole, int64_t n);
} quant_sums_table;

extern const quant_sums_table *quant_sums; /* set before main, for the processor */

#endif
