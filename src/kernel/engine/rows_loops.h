/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of rows.c by instruction set level (engine/level.h): transposition of blocks of 32-bit elements, for panels
 * of rows whose elements are far apart. */
#ifndef CANNON_KERNEL_ENGINE_ROWS_LOOPS_H
#define CANNON_KERNEL_ENGINE_ROWS_LOOPS_H

#include <stdint.h>

typedef struct {
  /* to[j][i] = from[i][j] for i < n, j < width; the pitches are bytes between rows. */
  void (*transpose32)(void *to, int64_t to_pitch, const void *from, int64_t from_pitch, int64_t n, int64_t width);
} row_loops;

extern const row_loops *rows_level; /* set before main */

#endif
