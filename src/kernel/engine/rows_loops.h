/* What row access needs, by instruction set level (engine/level.h): transposition of blocks of 32-bit elements, for
 * panels of rows whose elements are far apart, and conversion of float16 by the processor. */
#ifndef CANNON_KERNEL_ROWS_LOOPS_H
#define CANNON_KERNEL_ROWS_LOOPS_H

#include "kernel/engine/loops.h"

typedef struct {
  /* to[j][i] = from[i][j] for i < n, j < width; pitches are bytes from row to row of each. */
  void (*transpose32)(void *to, int64_t to_pitch, const void *from, int64_t from_pitch, int64_t n, int64_t width);
  /* float16 to float and back; NULL where the level has no instruction for it. As loops->load and store. */
  load_loop *load_half;
  store_loop *store_half;
} row_loops;

extern const row_loops *rows_level; /* set before main */

#endif
