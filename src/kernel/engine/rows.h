/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors as rows, for kernels that work along a dimension rather than element by element. Called by kernels of all
 * families.
 *
 *   row     the elements along the dimension(s) in question, `along` bytes apart
 *   tile    a piece of a row, contiguous and in a compute type, in L1 or L2
 *   panel   adjacent rows whose tiles are loaded together. Where the elements of a row are far apart and those of
 *           adjacent rows near (the first dimension of a matrix), this uses whole cache lines.
 *
 * Kernels process the tile of a row in the same way however the row was read, so the memory layout does not change
 * results. All functions are thread-safe: a row_access is plain data that they do not change. */
#ifndef CANNON_KERNEL_ENGINE_ROWS_H
#define CANNON_KERNEL_ENGINE_ROWS_H

#include "kernel/engine/loops.h"
#include "kernel/engine/walk.h"

enum {
  PANEL_BYTES = 64, /* a cache line: the bytes of the compute type that a panel is wide */
  PANEL_ROWS = PANEL_BYTES / sizeof(float),
  PANEL_MAX = 64, /* maximum of `width` for row_load and row_store */
};

/* Bytes for the tiles of a panel of PANEL_BYTES / size rows of up to `block` elements. The pitch between rows is one
 * cache line more than the row, so that rows do not compete for the same cache sets. */
#define TILE_BYTES(block) (PANEL_BYTES * ((block) + PANEL_ROWS))

/* How the rows of one operand are read and written. Plain data, part of kernels' plans. */
typedef struct {
  load_loop *load;
  store_loop *store;
  int64_t along, across; /* bytes between the elements of a row, and between rows of a panel */
  int64_t pitch;         /* bytes between rows in a tile */
  int size;              /* bytes of an element in a tile */
  bool native;           /* the operand is stored in the compute type */
  bool direct;           /* rows are contiguous and in the compute type: a single row needs no tile */
} row_access;

void row_access_init(row_access *a, int dtype, compute_type compute, int64_t along, int64_t across, int64_t block);
static inline row_access row_access_of(int dtype, compute_type compute, int64_t along, int64_t across, int64_t block) {
  row_access a;
  row_access_init(&a, dtype, compute, along, across, block);
  return a;
}

/* How many of n rows, `across` bytes apart, should be read together: those of a panel, or 1. */
int row_panel(const row_access *a, int64_t n);

/* row_load and row_store copy the first n elements of `width` rows to or from a tile, with conversion. row_fetch
 * returns where these elements are: in the operand itself if they can be used there, else loaded into the tile. */
const char *row_fetch(const row_access *a, char *tile, const char *from, int width, int64_t n);
void row_load(const row_access *a, char *tile, const char *from, int width, int64_t n);
void row_store(const row_access *a, char *to, const char *tile, int width, int64_t n);

/* Returns the next n elements of operand 0 in the walk's logical order, which may cross rows, in a tile or in the
 * operand itself. `a` describes the walk's innermost dimension. Advances the cursor. */
const char *row_gather(const row_access *a, cursor *c, char *tile, int64_t n);

/* Calls body(job, begin, end) for ranges that cover [0, total), in the calling thread or in a team if cost_ns is worth
 * one. Ranges are cut at multiples of grain. */
typedef void range_body(const void *job, int64_t begin, int64_t end);
void rows_parallel(range_body *body, const void *job, int64_t total, int64_t grain, uint64_t cost_ns);

static inline int64_t i64_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t i64_max(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
