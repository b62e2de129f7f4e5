/* SPDX-License-Identifier: Apache-2.0 */
/* Quantisation of one row of floats. Results are integers in float format, which are converted when they are stored; y
 * may be v. All operations are in float, in the order of CANN's formulas. Used by dynamic.c and by the norm operators
 * with quantised output; the functions are stateless. */
#ifndef CANNON_KERNEL_QUANT_ROW_H
#define CANNON_KERNEL_QUANT_ROW_H

#include <stdbool.h>
#include <stdint.h>

/* y = round(v / scale + zero) if `divides`, otherwise round(v * scale + zero). scale and zero have one value per
 * element; zero may be NULL for 0. */
void quant_row(float *y, const float *v, const float *scale, const float *zero, bool divides, int64_t n);

/* y = v * by, elementwise. */
void quant_row_smooth(float *y, const float *v, const float *by, int64_t n);

/* y = silu(v[0, n)) * v[n, 2n) if `left`, otherwise v[0, n) * silu(v[n, 2n)). */
void quant_row_swiglu(float *y, const float *v, bool left, int64_t n);

/* y = round(v / scale). The scale maps the row's largest magnitude to `most`, and is returned. */
float quant_row_dynamic(float *y, const float *v, float most, int64_t n);

/* y = round(v / scale + *offset). Scale and offset map the row's smallest and largest value to -most -
 * 1 and most. Returns the scale. */
float quant_row_asymmetric(float *y, const float *v, float most, float *offset, int64_t n);

#endif
