/* The gradient of w: for each element the product of y with x, shifted by the element's tap, summed over positions and
 * images. In one of two ways: as a product of y and x's columns (columns.h), packed by blocks, in float or, where
 * AMX has it, the operands' 16 bits. Where rows are few (depthwise), on floats: y is copied to an image of x's order with
 * zeros where x has its padding, and each element is a dot product. Or where AMX multiplies lines of both (gradient_pairs.h),
 * likewise, many elements at a time. Windows of 3 x 3 have a way of their own (winograd_gradient.h). */
#ifndef CANNON_KERNEL_CONV_WEIGHT_GRADIENT_H
#define CANNON_KERNEL_CONV_WEIGHT_GRADIENT_H

#include "kernel/conv/columns.h"
#include "kernel/conv/image.h"
#include "kernel/conv/winograd_gradient.h"

typedef struct {
  conv_geometry g;
  conv_operand x, y, w;       /* w is written */
  winograd_gradient winograd; /* where it fits, and results are finite; else: */
  bool products;              /* the first way */
  conv_columns x_columns, y_columns;
  tile_type type;
  int64_t depth, block_rows, part_rows, part_columns;
  int64_t pitch;               /* bytes, of columns that are to be packed */
  const pair_kernel *pairs;    /* the third way, unless its operands' values forbid it; or NULL */
  bool by_channel;             /* the second way where both sides lie (by_channel.h), without images */
  conv_image x_image, y_image; /* the second way, and the third */
  int64_t n_images;            /* at a time, */
  int64_t band[CONV_AXES];     /* and so many outputs of each, along the axes: of the third way */
  uint64_t x_at, y_at, taps_at, pair_sums_at;
  bool direct;   /* sums are made in w */
  bool by_parts; /* products are stored in w, whose rows are runs */
  uint64_t sum_at;
  uint64_t cost_ns;
} weight_gradient;

void weight_gradient_init(weight_gradient *c, executor *e, const conv_geometry *g, const conv_operand *x,
                          const conv_operand *y, const conv_operand *w);
status weight_gradient_run(const weight_gradient *c, const void *x, const void *y, void *w, char *scratch);

#endif
