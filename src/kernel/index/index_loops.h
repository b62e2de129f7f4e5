/* The innermost loops of indexing, by instruction set level. */
#ifndef CANNON_KERNEL_INDEX_INDEX_LOOPS_H
#define CANNON_KERNEL_INDEX_INDEX_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel/engine/elementwise.h"
#include "kernel/move/move_loops.h"

/* Adds index[i] * stride to offset[i]; indices lie `step` bytes apart. An index is from 0 to extent - 1, or where it
 * `wraps`, from -extent on. Returns the place of the first that is not; n: all are. */
typedef int64_t index_loop(int64_t *offset, const char *index, int64_t step, int64_t n, int64_t extent, int64_t stride,
                           bool wraps);

/* Rows of m elements at to + at[i] += alpha * those at from + of[i] (or *=, without alpha), in the order of i. alpha is
 * in the member of the type that is computed in. */
typedef void accumulate_loop(char *to, const int64_t *at, const char *from, const int64_t *of, int64_t n, int64_t m,
                             compute_value alpha);

/* A row of places of one element each, by one index tensor: nothing is in between. */
typedef struct {
  char *target, *side;
  const char *index;
  int64_t target_step, side_step, index_step; /* from place to place */
  int64_t n, extent, stride;
  bool wraps;
  compute_value alpha;
} element_row;

/* Goes on to the first index that is out of range; returns how many were right. */
typedef int64_t element_loop(const element_row *r);

enum { INDEX_I32, INDEX_I64, INDEX_TYPES };

typedef struct {
  index_loop *index[INDEX_TYPES];
  /* By the dtype of what is added; halves are added to float. NULL: no arithmetic on that type. */
  accumulate_loop *add[DTYPE_END], *multiply[DTYPE_END];
  /* The first two by the element's size (its logarithm). */
  element_loop *gather_elements[INDEX_TYPES][ELEMENT_SIZES], *scatter_elements[INDEX_TYPES][ELEMENT_SIZES];
  element_loop *add_elements[INDEX_TYPES][DTYPE_END];
} index_loops;

extern const index_loops *indexing; /* set before main */

#endif
