/* What products of integers become, by instruction set level (engine/level.h). */
#ifndef CANNON_KERNEL_QUANT_SUMS_H
#define CANNON_KERNEL_QUANT_SUMS_H

#include <stdbool.h>
#include <stdint.h>

/* Of columns; NULL: 0. */
typedef struct {
  const double *before, *scale, *after; /* scale is not NULL */
} column_scales;

typedef struct {
  /* to[i] = (sums[i] + before) * scale * by_row + after for i < n, in double; `whole`: rounded to the nearest integer.
   * Rounded to odd, so that rounding once more to a shorter type is right. */
  void (*scale)(float *to, const int32_t *sums, const column_scales *c, double by_row, bool whole, int64_t n);
} quant_sums_table;

extern const quant_sums_table *quant_sums; /* set before main */

#endif
