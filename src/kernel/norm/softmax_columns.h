/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax along a strided dimension, when the elements of neighbouring rows are contiguous. The computation goes by
 * columns, without transposing them to rows, and gives the same bits as the row version. */
#ifndef CANNON_KERNEL_NORM_SOFTMAX_COLUMNS_H
#define CANNON_KERNEL_NORM_SOFTMAX_COLUMNS_H

#include "kernel/norm/panels.h"

enum { STRIP_LEAST = 16, STRIP_MOST = 256 }; /* number of columns */

/* A block of adjacent columns. */
typedef struct {
  char *y;
  const char *x;
  int64_t y_along, x_along; /* bytes from element to element of a column */
  /* n: elements of a column, up to SOFTMAX_CHUNK; width: number of columns, up to STRIP_MOST */
  int64_t n, width;
  int y_dtype, x_dtype; /* float, float16 or bfloat16 */
  float *tile;          /* n rows of width floats, where width is rounded up to a multiple of 16; 64-byte aligned */
} softmax_strip;

typedef void softmax_columns(const softmax_strip *s);

typedef struct {
  softmax_columns *softmax, *log_softmax;
} softmax_columns_loops;

extern const softmax_columns_loops *softmax_by_columns; /* set before main */

/* Whether the rows of operand 0, whose result is operand 1, are strided such that processing by columns is better. */
bool softmax_takes_columns(const panel_plan *p);

/* Runs body on all columns. Fails only if host memory is exhausted. */
status softmax_columns_run(const panel_plan *p, softmax_columns *body, void *const *view, uint64_t cost_ns);

#endif
