/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of softmax and related functions on contiguous rows, for one instruction set level (engine/level.h). They
 * compute in float or double. Sums are accumulated per lane in blocks of 1024 floats, and over blocks in double, so
 * they depend only on the row's elements and their order. Outputs may be the inputs. The functions have no state. */
#ifndef CANNON_KERNEL_NORM_SOFTMAX_LOOPS_H
#define CANNON_KERNEL_NORM_SOFTMAX_LOOPS_H

#include <stdint.h>

/* Number of elements that stay in L1 as floats. Longer rows are processed in chunks, whose results are combined. */
enum { SOFTMAX_CHUNK = 4096 };

/* A block of rows of n elements each; pitches are bytes from row to row. dtype is that of the compute type, or a 16-bit
 * type that is computed in float. scale: NULL, or for log_softmax in float, receives what is subtracted from each row,
 * that is, the maximum and the logarithm of the sum of e^(x - maximum). */
typedef struct {
  char *y;
  const char *x;
  int64_t y_pitch, x_pitch, n;
  int rows, dtype;
  float (*scale)[2];
} softmax_matrix;

typedef void softmax_rows(const softmax_matrix *m);

typedef struct {
  char *dx;
  const char *dy, *y;
  int64_t dx_pitch, dy_pitch, y_pitch, n;
  int rows, dtype;
} softmax_back_rows;

typedef void softmax_back(const softmax_back_rows *r);

typedef struct {
  softmax_rows *softmax, *log_softmax;
  softmax_back *softmax_back;     /* dx = (dy - sum(dy * y)) * y */
  softmax_back *log_softmax_back; /* dx = dy - exp(y) * sum(dy) */
} softmax_type_loops;

typedef struct {
  softmax_type_loops f32, f64;
  /* y = mask ? fill : scale * x. */
  void (*masked_scale)(float *y, const float *x, const uint8_t *mask, float scale, float fill, int64_t n);
} softmax_loops;

extern const softmax_loops *softmax; /* set before main */

#endif
