/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles: elements of strided operands, copied into L1 in a type to compute in, or written back from there. Used by the
 * elementwise engine and by elementwise programs. Thread-safe: the functions work on the caller's data. */
#ifndef CANNON_KERNEL_ENGINE_TILES_H
#define CANNON_KERNEL_ENGINE_TILES_H

#include "kernel/engine/loops.h"
#include "kernel/engine/walk.h"

enum {
  TILE = 1024, /* elements; the tiles of four operands fill two thirds of an L1 cache of 48 KiB */
  /* elements; a row of this length is processed by itself rather than copied into a tile with others */
  ROW_IS_LONG = 256,
  TILE_SLACK = SPREAD_AT_ONCE, /* elements behind a tile that loads may overwrite */
};

/* For each compute type, the dtype whose elements it computes as they are, and their bytes. */
extern const int8_t tile_dtype[N_COMPUTE];
extern const int8_t tile_bytes[N_COMPUTE];

/* What a tile begins with, if that is copies of a row, or of an element, that other tiles may begin with, too. */
typedef struct {
  const char *tile, *from;
  int64_t copies;
} tile_held;

/* Loads the next n elements of the cursor's operand k, whose dtype is given, into a tile, row by row. rounds: a 16-bit
 * float dtype that wide integers are rounded to, or -1. held: of this tile, or NULL for a tile without TILE_SLACK. */
void tile_load(const cursor *c, int k, int dtype, compute_type compute, int rounds, char *tile, int64_t n,
               tile_held *held);

/* Stores n elements of a tile into the cursor's operand k, row by row. */
void tile_store(const cursor *c, int k, int dtype, compute_type compute, const char *tile, int64_t n);

/* The number of elements of the next tile: at most `most`, and at most the `rest` of the work. Tiles begin at the
 * beginning of rows where these are short, so that a row that is repeated is loaded once. */
int64_t tile_length(const cursor *c, int64_t most, int64_t rest);

/* The function of one operand and a parameter with the same results as `function` with two operands, where operand
 * `constant` (1 or 2) has one value, the parameter. Its second parameter is the first of the other. -1: none. */
int elementwise_of_parameter(int function, int constant);

#endif
