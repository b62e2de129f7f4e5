/* Tensors as rows, for kernels that work along dimensions rather than element by element.
 *
 *   row     the elements along the dimension(s) in question; `along` bytes from one to the next
 *   tile    a piece of a row, contiguous and in a compute type, in L1 or L2
 *   panel   adjacent rows whose tiles are made together. Where the elements of a row are far apart and those of its
 *           neighbours near (the first dimension of a matrix), this uses cache lines whole.
 *
 * A kernel does the same to a row wherever it comes from, so results do not depend on how it was read. */
#ifndef CANNON_KERNEL_ENGINE_ROWS_H
#define CANNON_KERNEL_ENGINE_ROWS_H

#include "kernel/engine/loops.h"
#include "kernel/engine/walk.h"

enum {
  PANEL_BYTES = 64, /* a cache line: this much of a compute type across the rows of a panel */
  PANEL_ROWS = PANEL_BYTES / sizeof(float),
  PANEL_MAX = 64, /* rows of a panel that row_load and row_store take */
};

/* Room for a panel of tiles of up to `block` elements: PANEL_BYTES / size rows, their starts a cache line off multiples
 * of large powers of two, so that they do not share the cache's sets. */
#define TILE_BYTES(block) (PANEL_BYTES * ((block) + PANEL_ROWS))

/* How the rows of one operand are read and written. */
typedef struct {
  load_loop *load;
  store_loop *store;
  int64_t along, across; /* bytes: from element to element of a row, from row to row of a panel */
  int64_t pitch;         /* bytes, from row to row in a tile */
  int size;              /* of an element in a tile */
  bool native;           /* stored in the compute type */
  bool direct;           /* contiguous, in the compute type: a row by itself needs no tile */
} row_access;

void row_access_init(row_access *a, int dtype, compute_type compute, int64_t along, int64_t across, int64_t block);
static inline row_access row_access_of(int dtype, compute_type compute, int64_t along, int64_t across, int64_t block) {
  row_access a;
  row_access_init(&a, dtype, compute, along, across, block);
  return a;
}

/* How many rows should be read together, of `n` that are `across` bytes apart. */
int row_panel(const row_access *a, int64_t n);

/* The first n elements of `width` rows: where they are, or loaded into the tile. */
const char *row_fetch(const row_access *a, char *tile, const char *from, int width, int64_t n);
void row_load(const row_access *a, char *tile, const char *from, int width, int64_t n);
void row_store(const row_access *a, char *to, const char *tile, int width, int64_t n);

/* The next n elements of a walk's operand 0 in logical order, across its rows, in a tile or where they are. `a` is of the
 * walk's innermost dimension. */
const char *row_gather(const row_access *a, cursor *c, char *tile, int64_t n);

/* Sorts the dimensions of some views of one shape by the first's strides, the largest outermost: for rows whose order
 * does not matter. */
void rows_sort(view *const *v, int n_views);

/* body(job, begin, end) over all of [0, total), here or in a team; ranges are cut at multiples of grain. */
typedef void range_body(const void *job, int64_t begin, int64_t end);
void rows_parallel(range_body *body, const void *job, int64_t total, int64_t grain, uint64_t cost_ns);

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
