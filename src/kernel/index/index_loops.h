/* The innermost loops of indexing, by instruction set level. */
#ifndef CANNON_KERNEL_INDEX_LOOPS_H
#define CANNON_KERNEL_INDEX_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel/engine/elementwise.h"

/* Adds index[i] * stride to offset[i]; indices lie `step` bytes apart. An index is from 0 to extent - 1, or where it
 * `wraps`, from -extent on. Returns the place of the first that is not; n: all are. */
typedef int64_t index_loop(int64_t *offset, const char *index, int64_t step, int64_t n, int64_t extent, int64_t stride,
                           bool wraps);

/* Rows of m elements at to + at[i] += alpha * those at from + of[i] (or *=, without alpha), in the order of i. alpha is
 * in the member of the type that is computed in. */
typedef void accumulate_loop(char *to, const int64_t *at, const char *from, const int64_t *of, int64_t n, int64_t m,
                             compute_value alpha);

typedef struct {
  index_loop *index_i32, *index_i64;
  /* By the dtype of what is added; halves are added to float. NULL: no arithmetic on that type. */
  accumulate_loop *add[DTYPE_END], *multiply[DTYPE_END];
} index_loops;

extern const index_loops *indexing; /* set before main */

#endif
