/* SPDX-License-Identifier: Apache-2.0 */
/* A set of bytes of a block, exact to the byte. Sets that are empty or hold all bytes, which most are most of the time,
 * take no memory besides this struct; otherwise each chunk of 16 KiB has a bitmap, unless it is empty or full. So a
 * change takes time for the chunks that it touches, however many pieces there are, and memory is at most an eighth of
 * the block. Without memory a set becomes empty. The caller serialises all calls. */
#ifndef CANNON_CHECK_BYTE_SET_H
#define CANNON_CHECK_BYTE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hooks.h"

typedef struct byte_chunk byte_chunk;

typedef struct {
  uint64_t bytes; /* of the block */
  uint64_t n;     /* of these in the set */
  byte_chunk *chunk;
} byte_set;

/* Starts as the empty set, or with all bytes. */
static inline void byte_set_init(byte_set *s, uint64_t bytes, bool all) {
  *s = (byte_set){.bytes = bytes, .n = all ? bytes : 0};
}
void byte_set_end(byte_set *s);

/* Adds the bytes from `from` to the one before `to`, or takes them out. What is beyond the block is left out. Returns
 * how many have changed. */
uint64_t byte_set_put(byte_set *s, uint64_t from, uint64_t to, bool in);

/* The first run of members between from and to. False: there is none. */
bool byte_set_find(const byte_set *s, uint64_t from, uint64_t to, uint64_t *begin, uint64_t *end);

/* The number of members between from and to. */
uint64_t byte_set_count(const byte_set *s, uint64_t from, uint64_t to);

/* Which bytes a view has, as rows of `row` bytes; those with several elements at the same place have them once. */
typedef struct {
  int rank;
  uint64_t row;
  uint64_t dims[HOOK_MAX_RANK], strides[HOOK_MAX_RANK]; /* the largest stride first */
} byte_rows;

/* Prepares to go through the rows of a range of so many bytes. shape: which of them count; NULL: all. */
void byte_rows_init(byte_rows *r, uint64_t bytes, const hook_shape *shape);

/* Goes through the rows: the distance of each from the first byte. */
typedef struct {
  uint64_t at, index[HOOK_MAX_RANK];
  bool over;
} byte_row_walk;
void byte_row_next(const byte_rows *r, byte_row_walk *w);
#define EACH_ROW(rows, walk) for (byte_row_walk walk = {0}; !walk.over; byte_row_next(rows, &walk))

#endif
