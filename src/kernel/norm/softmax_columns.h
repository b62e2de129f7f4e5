/* Softmax along a dimension whose elements lie far apart, those of its neighbours side by side: by columns, without turning
 * them into rows, with the same bits. */
#ifndef CANNON_KERNEL_NORM_SOFTMAX_COLUMNS_H
#define CANNON_KERNEL_NORM_SOFTMAX_COLUMNS_H

#include "kernel/norm/panels.h"

enum { STRIP_LEAST = 16, STRIP_MOST = 256 }; /* columns */

/* Adjacent columns. */
typedef struct {
  char *y;
  const char *x;
  int64_t y_along, x_along; /* bytes, from element to element of a column */
  int64_t n, width;         /* n: of a column, up to SOFTMAX_CHUNK; width: up to STRIP_MOST */
  int y_dtype, x_dtype;     /* float, float16 or bfloat16 */
  float *tile;              /* n rows of width floats, rounded up to a multiple of 16; 64-byte aligned */
} softmax_strip;

typedef void softmax_columns(const softmax_strip *s);

typedef struct {
  softmax_columns *softmax, *log_softmax;
} softmax_columns_loops;

extern const softmax_columns_loops *softmax_by_columns; /* set before main */

/* Whether rows of operand 0, of which operand 1 is the result, are columns that are better done so. */
bool softmax_takes_columns(const panel_plan *p);

status softmax_columns_run(const panel_plan *p, softmax_columns *body, void *const *view, uint64_t cost_ns);

#endif
