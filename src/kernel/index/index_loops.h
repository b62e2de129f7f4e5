/* SPDX-License-Identifier: Apache-2.0 */
/* The innermost loops of gather and scatter, compiled once per instruction set level by index_level.c. Called only by
 * places.c. The functions are stateless. */
#ifndef CANNON_KERNEL_INDEX_INDEX_LOOPS_H
#define CANNON_KERNEL_INDEX_INDEX_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel/engine/elementwise.h"
#include "kernel/move/move_loops.h"

/* Adds index[i] * stride to offset[i]; neighbouring indices are `step` bytes apart. A valid index is 0 to extent - 1,
 * or, with `wraps`, -extent to extent - 1. Returns the position of the first invalid index, or n if there is none. */
typedef int64_t index_loop(int64_t *offset, const char *index, int64_t step, int64_t n, int64_t extent, int64_t stride,
                           bool wraps);

/* For i = 0 to n - 1, in this order: adds alpha times the m elements at from + of[i] to those at to +
 * at[i] (`add`), or, ignoring alpha, replaces the latter by their product, the larger or smaller one of both, or its
 * quotient by the former. alpha is given in the member for the compute type. */
typedef void accumulate_loop(char *to, const int64_t *at, const char *from, const int64_t *of, int64_t n, int64_t m,
                             compute_value alpha);

/* A row of n positions with slices of one element and one index tensor. Such rows need no array of offsets. */
typedef struct {
  char *target, *side;
  const char *index;
  int64_t target_step, side_step, index_step; /* bytes between neighbouring positions */
  int64_t n, extent, stride;
  bool wraps;
  compute_value alpha;
} element_row;

/* Processes the row up to the first index that is out of range; returns the number of positions processed. */
typedef int64_t element_loop(const element_row *r);

enum { INDEX_I32, INDEX_I64, INDEX_TYPES };

typedef struct {
  index_loop *index[INDEX_TYPES];
  /* Indexed by the dtype of the operand that is added, ...; 16-bit floats accumulate into
   * float. NULL: unsupported type. */
  accumulate_loop *add[DTYPE_END], *multiply[DTYPE_END], *most[DTYPE_END], *least[DTYPE_END], *divide[DTYPE_END];
  /* Gather and scatter: by the logarithm of the element's size. */
  element_loop *gather_elements[INDEX_TYPES][ELEMENT_SIZES], *scatter_elements[INDEX_TYPES][ELEMENT_SIZES];
  element_loop *add_elements[INDEX_TYPES][DTYPE_END];
} index_loops;

extern const index_loops *indexing; /* set before main, for the processor */

#endif
