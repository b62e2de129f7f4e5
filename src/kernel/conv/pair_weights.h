/* Weights of bfloat16 as the kernels of direct_pairs.h read them: tiles of 16 rows by 32 channels, those of a block of
 * PAIR_ROWS rows [steps][taps][1 or 2], 0 where there are no rows or channels. */
#ifndef CANNON_KERNEL_CONV_PAIR_WEIGHTS_H
#define CANNON_KERNEL_CONV_PAIR_WEIGHTS_H

#include "kernel/conv/direct_pairs.h"

typedef struct {
  const uint16_t *w;
  int64_t group_stride, row_stride, channel_stride; /* elements */
  const int64_t *tap;                               /* where each tap's elements are */
  int64_t taps, groups, rows, channels;             /* rows and channels of a group */
  int64_t kernel_taps; /* of which taps are some, side by side in their order; 0: they lie otherwise */
  bool by_pairs;       /* a tile has words of rows for each pair of channels: pair_kernel's anywhere */
} pair_weights;

int64_t pair_steps(int64_t channels);
/* Of the tiles of all groups. */
int64_t pair_weights_bytes(int64_t groups, int64_t rows, int64_t channels, int64_t taps);
/* A block of rows: `row` is its first, a multiple of PAIR_ROWS. */
void pair_weights_pack(const pair_weights *p, char *to, int64_t group, int64_t row);
/* Where its tiles begin among those of all groups. */
int64_t pair_weights_at(int64_t group, int64_t row, int64_t rows, int64_t channels, int64_t taps);

#endif
