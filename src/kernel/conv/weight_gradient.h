/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of w: each element is the sum over positions and batch items of y times x, shifted by the element's
 * tap. The implementations (kernel/engine/implementation.h), in the order in which they are tried:
 *
 *   depthwise   dot products in place (by_channel.h)
 *   pairs       a GEMM over positions of both sides' padded copies on AMX (gradient_pairs.h); another one computes the
 *               call if the operands' values forbid it
 *   winograd    for kernels of 3 x 3 (winograd_gradient.h); another one computes the call again if a result is not
 *               finite
 *   gemm        packed GEMM of y by x's im2col columns (columns.h), in float or, where AMX has it, the operands' 16-bit
 *               type
 *   dots        for few rows, in float: y is copied in the order of x's padded copy, with zeros where x has its
 *               padding, and each element of w is a dot product
 *   reference   sums in double (reference.h)
 *
 * Called by convolution.c; the struct holds all state, so calls with different structs are independent. */
#ifndef CANNON_KERNEL_CONV_WEIGHT_GRADIENT_H
#define CANNON_KERNEL_CONV_WEIGHT_GRADIENT_H

#include "kernel/conv/columns.h"
#include "kernel/conv/direct/image.h"
#include "kernel/conv/winograd/winograd_gradient.h"
#include "kernel/engine/implementation.h"

/* The plans of the implementations. Offsets are in scratch. */
typedef struct {
  const pair_kernel *kernel;
  conv_image x_image, y_image; /* padded copies */
  int64_t n_images;            /* batch items of one pass */
  int64_t band[CONV_AXES];     /* outputs of one pass along each axis */
  uint64_t x_at, y_at, taps_at, sums_at;
} gradient_pairs;

typedef struct {
  conv_columns x_columns, y_columns;
  tile_type type;
  int64_t depth, block_rows, part_rows, part_columns;
  int64_t pitch; /* bytes from row to row of gathered columns */
} gradient_gemm;

typedef struct {
  conv_image x_image, y_image; /* padded copies */
  int64_t n_images;            /* batch items of one pass */
  uint64_t x_at, y_at, taps_at;
} gradient_dots;

typedef struct {
  conv_geometry g;
  conv_operand x, y, w;                    /* w is written */
  const implementation *chosen, *fallback; /* fallback: of pairs and of Winograd */
  union {                                  /* of the chosen one, if it has a fallback */
    gradient_pairs pairs;
    winograd_gradient winograd;
  };
  union { /* of the one that always succeeds */
    gradient_gemm gemm;
    gradient_dots dots;
  };
  bool contiguous; /* rows of w are */
  bool direct;     /* w as a whole is, and float: sums are accumulated in w itself */
  bool by_parts;   /* each part of the GEMM stores its results in w */
  uint64_t sum_at; /* neither: the sums' offset in scratch */
  uint64_t cost_ns;
} weight_gradient;

/* The addresses of the first elements. */
typedef struct {
  const char *x, *y;
  char *w;
} gradient_operands;

/* Chooses the implementation and asks the executor for workspace. */
void weight_gradient_init(weight_gradient *c, executor *e, const conv_geometry *g, const conv_operand *x,
                          const conv_operand *y, const conv_operand *w);
/* Takes the addresses of the first elements. */
status weight_gradient_run(const weight_gradient *c, const void *x, const void *y, void *w, char *scratch);

#endif
