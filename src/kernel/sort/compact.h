/* SPDX-License-Identifier: Apache-2.0 */
/* The innermost loops of operators that select elements by a mask, one table per instruction set level
 * (engine/level.h). Called by compact.c; the functions are stateless. */
#ifndef CANNON_KERNEL_SORT_COMPACT_H
#define CANNON_KERNEL_SORT_COMPACT_H

#include <stdint.h>

enum { COMPACT_BLOCK = 1024, COMPACT_SPARE = 16 }; /* `places` may write up to COMPACT_SPARE elements too many */

typedef struct {
  /* Stores the indices of the bytes that are not 0, ascending, and returns their number.
   * to: room for n + COMPACT_SPARE. */
  int64_t (*places)(int32_t *to, const uint8_t *mask, int64_t n);
  /* The number of bytes that are not 0. */
  int64_t (*count)(const uint8_t *mask, int64_t n);
  /* to[i] = from[place[i]], for elements of 1, 2, 4, 8 or 16 bytes; strides in bytes */
  void (*take)(void *to, int64_t to_stride, const void *from, int64_t stride, const int32_t *place, int64_t n,
               int bytes);
} compact_table;

extern const compact_table *compacts; /* set before main, for the processor */

#endif
