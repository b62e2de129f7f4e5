/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd convolutions of floats with kernels of 3 x 3 without strides, and their gradients of x, on transformed
 * tiles (winograd_tiles.h). An output depends only on the inputs of its own window; the error is relative to the
 * window's largest input times the largest weight, channel by channel. Called by correlate.c. */
#ifndef CANNON_KERNEL_CONV_WINOGRAD_WINOGRAD_H
#define CANNON_KERNEL_CONV_WINOGRAD_WINOGRAD_H

#include "kernel/conv/epilogue.h"
#include "kernel/conv/winograd/winograd_tiles.h"

typedef struct {
  const conv_geometry *g; /* owned by the caller, as are the operands */
  const conv_operand *to;
  bool backward;
  winograd_side from;
  int64_t rows, channels; /* of a group: outputs per position, and channels to sum over */
  const int64_t *out;     /* two sizes */
  winograd_grid grid;
  bool by_rows;            /* transform all inputs first; otherwise all weights first (see winograd.c) */
  int64_t at_once;         /* segments (winograd_tiles.h) of a block */
  int64_t rows_at_once;    /* if by_rows: rows of a block */
  int64_t vectors;         /* of all tiles */
  int64_t transformed;     /* floats of the operand of a group that is transformed first, */
  uint64_t transformed_at; /* and its offset in scratch */
  uint64_t cost_ns;
} winograd;

/* Returns whether the algorithm can compute the call, and fills *w, which keeps the pointers g, from and to. weight: as
 * the call gives it. */
bool winograd_fits(winograd *w, const conv_geometry *g, const conv_operand *from, const conv_operand *to,
                   const conv_operand *weight, bool backward);
/* After winograd_fits: returns whether it costs less than direct sums. */
bool winograd_pays(const winograd *w);
/* Asks for workspace. */
void winograd_init(winograd *w, executor *e);

/* The addresses of the first elements. bias: NULL if there is none. */
typedef struct {
  const void *from;
  void *to;
  const float *weights, *bias;
  conv_store store;
} winograd_call;

/* *done becomes false if a result is not finite: the caller must then compute all outputs by another algorithm. */
status winograd_run(const winograd *w, const winograd_call *call, char *scratch, bool *done);

#endif
