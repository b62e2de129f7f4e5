/* One side of a convolution as a matrix: a row for each channel and tap, a column for each position of the other side,
 * of all images. Rows are made piece by piece, in the operand's dtype, for tile_gemm.h's packing. */
#ifndef CANNON_KERNEL_CONV_COLUMNS_H
#define CANNON_KERNEL_CONV_COLUMNS_H

#include "kernel/conv/geometry.h"
#include "kernel/product/tile_gemm.h"

/* Position p and tap t of an axis meet in element p * step + shift + t * dilation; those outside of [0, in) are 0. */
typedef struct {
  int64_t positions, in, step, shift, dilation;
} columns_axis;

typedef struct {
  columns_axis axis[CONV_AXES];
  int64_t taps[CONV_AXES], n_taps;
  int64_t positions; /* of an image */
  conv_operand x;
  int size;             /* bytes of an element */
  int64_t element_step; /* elements from position to position of a line */
  bool direct;          /* one tap, and positions of an image are x's elements in order, evenly spaced */
} conv_columns;

void columns_init(conv_columns *c, const conv_operand *x, const columns_axis *axis, const int64_t *taps);
/* x as the forward pass sees it; and y, by its own positions. */
void columns_of_input(conv_columns *c, const conv_geometry *g, const conv_operand *x);
void columns_of_output(conv_columns *c, const conv_geometry *g, const conv_operand *y);

/* What multiplies operands of two dtypes, sums being of k products. */
tile_type columns_type(int a, int b, int64_t k);

/* Elements [first, first + n) of n_rows rows (channel * n_taps + tap) from `row` on, `pitch` bytes apart. x: a group's
 * first element. */
void columns_fetch(const conv_columns *c, char *to, int64_t pitch, const char *x, int64_t row, int64_t n_rows,
                   int64_t first, int64_t n);

/* Where rows lie as they are, so that they may be packed from there: element `first` of `row`, or NULL. */
const char *columns_direct(const conv_columns *c, const char *x, int64_t row, int64_t first, int64_t n);

/* The size of even parts, a multiple of grain: 1025 is not 1024 and 1. */
static inline int64_t columns_part(int64_t total, int64_t most, int64_t grain) {
  const int64_t n = (total + most - 1) / most;
  return ((total + n - 1) / n + grain - 1) / grain * grain;
}

#endif
