/* The innermost loops of what picks elements by a mask, by instruction set level (engine/level.h). */
#ifndef CANNON_KERNEL_SORT_COMPACT_H
#define CANNON_KERNEL_SORT_COMPACT_H

#include <stdint.h>

enum { COMPACT_BLOCK = 1024, COMPACT_SPARE = 16 }; /* places may be written up to so many elements too far */

typedef struct {
  /* The numbers of the bytes that are not 0, ascending; returns how many. to: room for n + COMPACT_SPARE. */
  int64_t (*places)(int32_t *to, const uint8_t *mask, int64_t n);
  int64_t (*count)(const uint8_t *mask, int64_t n);
  /* to[i] = from[place[i]], elements of 1, 2, 4, 8 or 16 bytes, strides in bytes */
  void (*take)(void *to, int64_t to_stride, const void *from, int64_t stride, const int32_t *place, int64_t n,
               int bytes);
} compact_table;

extern const compact_table *compacts; /* set before main */

#endif
