/* A row of floats to integers, which are still floats until they are stored: y may be v. In float, an operation after the
 * other, as CANN's formulas have them. */
#ifndef CANNON_KERNEL_QUANT_ROW_H
#define CANNON_KERNEL_QUANT_ROW_H

#include <stdbool.h>
#include <stdint.h>

/* round(v / scale + zero), or v * scale; one of each for every element, zero NULL: 0. */
void quant_row(float *y, const float *v, const float *scale, const float *zero, bool divides, int64_t n);

/* y = v * by */
void quant_row_smooth(float *y, const float *v, const float *by, int64_t n);

/* round(v / scale) with the scale that takes the largest magnitude to `most`, which is returned. */
float quant_row_dynamic(float *y, const float *v, float most, int64_t n);

/* round(v / scale + *offset), with those that take the smallest and the largest to the ends of -most - 1 to most. */
float quant_row_asymmetric(float *y, const float *v, float most, float *offset, int64_t n);

#endif
