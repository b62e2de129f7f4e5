/* SPDX-License-Identifier: Apache-2.0 */
/* Packs weights for the kernels of direct_pairs.h: tiles of 16 VNNI pairs of channels by 16 rows, those of a block
 * of PAIR_ROWS rows in the order [steps][taps][1 or 2 tiles], padded with zeros where there are no rows or channels.
 * For floats, each bfloat16 term is packed by itself. Called by correlate_pairs.c. Thread-safe for different blocks. */
#ifndef CANNON_KERNEL_CONV_PAIR_WEIGHTS_H
#define CANNON_KERNEL_CONV_PAIR_WEIGHTS_H

#include "kernel/conv/direct/direct_pairs.h"
#include "kernel/conv/geometry.h"

enum { PAIR_FLOAT_TAPS = 25 /* the largest kernel volume for floats */ };

typedef struct {
  const void *w; /* bfloat16, or float if part is not 0 */
  int64_t part;  /* for floats: bytes from the tiles of one bfloat16 term to those of the next; otherwise 0 */
  int64_t group_stride, row_stride, channel_stride; /* elements */
  int64_t kernel[CONV_AXES], axis[CONV_AXES];       /* taps along each axis, and elements from tap to tap */
  int64_t groups, rows, channels;                   /* rows and channels of a group */
  bool plain; /* the taps of a row and channel are contiguous and in order, as those of floats must be */
} pair_weights;

/* Steps of PAIR_CHANNELS channels. */
int64_t pair_steps(int64_t channels);
/* Bytes of the tiles of all groups. */
int64_t pair_weights_bytes(int64_t groups, int64_t rows, int64_t channels, int64_t taps);
/* Packs a block of rows; `row` is the first, a multiple of PAIR_ROWS. */
void pair_weights_pack(const pair_weights *p, char *to, int64_t group, int64_t row);
/* The offset in bytes of a block's tiles among those of all groups. */
int64_t pair_weights_at(int64_t group, int64_t row, int64_t rows, int64_t channels, int64_t taps);

#endif
