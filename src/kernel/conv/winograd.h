/* Convolutions of floats by windows of 3 x 3 without strides, and their gradients of x, by transformed tiles
 * (winograd_tiles.h). An output sees no input that is not of its window; errors are relative to the largest input of a window
 * times the largest weight, channel by channel. */
#ifndef CANNON_KERNEL_CONV_WINOGRAD_H
#define CANNON_KERNEL_CONV_WINOGRAD_H

#include "kernel/conv/winograd_tiles.h"

typedef struct {
  bool fits;
  const conv_geometry *g; /* the caller's, and so are the operands */
  const conv_operand *to;
  bool backward;
  winograd_side from;
  int64_t rows, channels; /* of a group: made, and summed over */
  int64_t in[CONV_AXES], out[2];
  winograd_grid grid;
  bool by_rows;         /* else by tiles: see winograd.c */
  int64_t at_once;      /* segments */
  int64_t rows_at_once; /* by rows */
  uint64_t turned_at;   /* what is transformed once, in scratch */
  uint64_t cost_ns;
} winograd;

/* Sets w->fits, and asks for workspace where it does. weight: of the call. What is pointed to stays with the winograd. */
void winograd_init(winograd *w, executor *e, const conv_geometry *g, const conv_operand *from, const conv_operand *to,
                   const conv_operand *weight, bool backward);
/* Addresses of the first elements. bias: floats, or NULL. *done is false where a result is not finite. */
status winograd_run(const winograd *w, const void *from, void *to, const float *weights, const float *bias,
                    char *scratch, bool *done);

#endif
