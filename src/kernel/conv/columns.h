/* SPDX-License-Identifier: Apache-2.0 */
/* The im2col view of one side of a convolution: a matrix with a row for each channel and tap, and a column for each
 * position of the other side, for all batch items. The whole matrix is never stored: blocks of it are gathered in
 * the operand's dtype and then packed for tile_gemm.h. Called by phase_products.c, packed_products.c and
 * weight_gradient.c. Thread-safe: a conv_columns is read only after columns_init. */
#ifndef CANNON_KERNEL_CONV_COLUMNS_H
#define CANNON_KERNEL_CONV_COLUMNS_H

#include "kernel/conv/epilogue.h"
#include "kernel/conv/geometry.h"
#include "kernel/product/tile/tile_gemm.h"

/* Position p and tap t of an axis need element p * step + shift + t * dilation; elements outside of [0, in) are 0. */
typedef struct {
  int64_t positions, in, step, shift, dilation;
} columns_axis;

typedef struct {
  columns_axis axis[CONV_AXES];
  int64_t taps[CONV_AXES], n_taps;
  int64_t positions; /* of one batch item */
  conv_operand x;
  int size;             /* bytes of an element */
  int64_t element_step; /* elements from position to position along a line */
  bool direct;          /* one tap, and all positions of a batch item are x's elements in order, evenly spaced */
} conv_columns;

/* x: the operand; axis, taps: one entry for each of the CONV_AXES axes. */
void columns_init(conv_columns *c, const conv_operand *x, const columns_axis *axis, const int64_t *taps);
/* Initialise the matrix of x, gathered for the outputs of the forward pass; and that of y, with y's own positions
 * and one tap. */
void columns_of_input(conv_columns *c, const conv_geometry *g, const conv_operand *x);
void columns_of_output(conv_columns *c, const conv_geometry *g, const conv_operand *y);

/* The GEMM type for operands of dtypes a and b and an inner dimension of k. */
tile_type columns_type(int a, int b, int64_t k);

/* Gathers elements [first, first + n) of n_rows matrix rows from `row` on (row = channel * n_taps + tap) to `to`,
 * with `pitch` bytes from row to row. x: a group's first element. */
void columns_fetch(const conv_columns *c, char *to, int64_t pitch, const char *x, int64_t row, int64_t n_rows,
                   int64_t first, int64_t n);

/* Returns the address of element `first` of matrix row `row` if the n elements can be packed from x itself, without
 * a gather; otherwise NULL. */
const char *columns_direct(const conv_columns *c, const char *x, int64_t row, int64_t first, int64_t n);

/* Stores sums as outputs: n positions, from `first` on, of n_rows rows, which are `ld` floats apart. c: of the outputs;
 * to: the first row's first output. */
void columns_store(const conv_columns *c, char *to, const conv_store *store, float *sums, int64_t ld, int64_t n_rows,
                   int64_t first, int64_t n);

/* How a product of rows by positions is divided into parts, which threads compute independently. Part i of n has the
 * range that parallel_share() gives it, at multiples of the grain. */
typedef struct {
  int64_t rows, positions, groups; /* of one group; all groups are divided alike */
  int64_t row_grain, position_grain;
  int64_t most_rows, most_positions, most_sums; /* of a part; most_sums: rows times positions */
  /* What a part costs beside its products, in multiply-adds for each inner index: COLUMNS_... for the column of each
   * position and for each row of weights. */
  int64_t per_position, per_row;
} columns_product;
typedef struct {
  int64_t rows, positions; /* the number of parts */
} columns_parts;
enum { COLUMNS_READ = 2, COLUMNS_PACK = 8, COLUMNS_GATHER = 24 }; /* in place; packed; gathered and then packed */

/* The fewest parts for one thread; for several, those that keep them all busy for the shortest time. */
columns_parts columns_divide(const columns_product *p, int64_t n_threads);

/* Splits `total` into chunks of at most `most` and of nearly equal size, and returns that size, rounded up to a
 * multiple of grain. (Chunks of 1024 would split 1025 into 1024 and 1.) */
static inline int64_t columns_chunk(int64_t total, int64_t most, int64_t grain) {
  const int64_t n = (total + most - 1) / most;
  return ((total + n - 1) / n + grain - 1) / grain * grain;
}

#endif
