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

/* y = a * sigmoid(alpha * a) * (b + bias), where a = min(v[0, n), limit) and b = clamp(v[n, 2n), -limit, limit). */
void quant_row_clipped_swiglu(float *y, const float *v, float limit, float alpha, float bias, int64_t n);

/* Extremes of a row, or of several that are merged: the smallest and the largest value; NaN if there is one. */
typedef struct {
  float low, high;
} quant_extremes;

/* by_magnitude: only `high` is set, to the largest magnitude. */
quant_extremes quant_row_extremes(const float *v, bool by_magnitude, int64_t n);

/* The scale that maps the largest magnitude to `most`; the scale and the offset that map the extremes to -most - 1 and
 * most. */
float quant_scale_symmetric(quant_extremes x, float most);
float quant_scale_asymmetric(quant_extremes x, float most, float *offset);

/* y = round(v / scale + *offset); offset may be NULL for 0. */
void quant_row_uniform(float *y, const float *v, float scale, const float *offset, int64_t n);

/* y = round(v / scale), with the row's own scale, which is returned. */
float quant_row_dynamic(float *y, const float *v, float most, int64_t n);

/* y = round(v / scale + *offset), with the row's own scale and offset. Returns the scale. */
float quant_row_asymmetric(float *y, const float *v, float most, float *offset, int64_t n);

#endif
