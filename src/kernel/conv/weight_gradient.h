/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of w: each element is the sum over positions and batch items of y times x, shifted by the element's
 * tap. By one of these algorithms:
 *
 *   packed GEMM     of y by x's im2col columns (columns.h), in float or, where AMX has it, the operands' 16-bit type
 *   dot products    for few rows, in float: y is copied in the order of x's padded copy, with zeros where x has its
 *                   padding, and each element of w is a dot product; depthwise in place if possible (by_channel.h)
 *   pairs           a GEMM over positions of both sides' padded copies on AMX (gradient_pairs.h)
 *   Winograd        for kernels of 3 x 3 (winograd_gradient.h)
 *
 * Called by convolution.c; the struct holds all state, so calls with different structs are independent. */
#ifndef CANNON_KERNEL_CONV_WEIGHT_GRADIENT_H
#define CANNON_KERNEL_CONV_WEIGHT_GRADIENT_H

#include "kernel/conv/columns.h"
#include "kernel/conv/image.h"
#include "kernel/conv/winograd_gradient.h"

typedef struct {
  conv_geometry g;
  conv_operand x, y, w;       /* w is written */
  winograd_gradient winograd; /* used if it fits, unless a result is not finite */
  bool products;              /* use the packed GEMM, otherwise dot products */
  conv_columns x_columns, y_columns;
  tile_type type;
  int64_t depth, block_rows, part_rows, part_columns;
  int64_t pitch;               /* bytes from row to row of gathered columns */
  const pair_kernel *pairs;    /* not NULL: use pairs, unless the operands' values forbid it */
  bool by_channel;             /* dot products in place, by the depthwise kernels */
  conv_image x_image, y_image; /* padded copies, for dot products and for pairs */
  int64_t n_images;            /* batch items of one pass */
  int64_t band[CONV_AXES];     /* pairs: outputs of one pass along each axis */
  uint64_t x_at, y_at, taps_at, pair_sums_at;
  bool direct;   /* sums are accumulated in w itself */
  bool by_parts; /* each part of the GEMM stores its results in w, whose rows are contiguous */
  uint64_t sum_at;
  uint64_t cost_ns;
} weight_gradient;

/* Chooses the algorithm and asks the executor for workspace. */
void weight_gradient_init(weight_gradient *c, executor *e, const conv_geometry *g, const conv_operand *x,
                          const conv_operand *y, const conv_operand *w);
/* Takes the addresses of the first elements. */
status weight_gradient_run(const weight_gradient *c, const void *x, const void *y, void *w, char *scratch);

#endif
