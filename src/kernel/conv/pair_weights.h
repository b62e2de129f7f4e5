/* Weights as the kernels of direct_pairs.h read them: tiles of 16 pairs of channels by 16 rows, those of a block of
 * PAIR_ROWS rows [steps][taps][1 or 2], 0 where there are no rows or channels. Of floats, each part by itself. */
#ifndef CANNON_KERNEL_CONV_PAIR_WEIGHTS_H
#define CANNON_KERNEL_CONV_PAIR_WEIGHTS_H

#include "kernel/conv/direct_pairs.h"
#include "kernel/conv/geometry.h"

enum { PAIR_FLOAT_TAPS = 25 /* most of a kernel of floats */ };

typedef struct {
  const void *w; /* bfloat16; */
  int64_t part;  /* or, where not 0, floats: bytes between the tiles of their parts */
  int64_t group_stride, row_stride, channel_stride; /* elements */
  int64_t kernel[CONV_AXES], axis[CONV_AXES];       /* taps along each axis, and elements from one to the next */
  int64_t groups, rows, channels;                   /* rows and channels of a group */
  bool plain; /* taps are side by side, in their order; those of floats always are */
} pair_weights;

int64_t pair_steps(int64_t channels);
/* Of the tiles of all groups. */
int64_t pair_weights_bytes(int64_t groups, int64_t rows, int64_t channels, int64_t taps);
/* A block of rows: `row` is its first, a multiple of PAIR_ROWS. */
void pair_weights_pack(const pair_weights *p, char *to, int64_t group, int64_t row);
/* Where its tiles begin among those of all groups. */
int64_t pair_weights_at(int64_t group, int64_t row, int64_t rows, int64_t channels, int64_t taps);

#endif
