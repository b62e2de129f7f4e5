/* Sums of products of bfloat16: as direct.h's, with words of two neighbouring channels for inputs, and packed weights. By
 * AMX (direct_amx.c) or AVX-512's dot products (direct_dots.c). */
#ifndef CANNON_KERNEL_CONV_DIRECT_PAIRS_H
#define CANNON_KERNEL_CONV_DIRECT_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

enum {
  PAIR_ROWS = 32,     /* most of a block of outputs */
  PAIR_WIDTH = 64,    /* of sums, from row to row */
  PAIR_CHANNELS = 32, /* of one step, */
  PAIR_STEP = PAIR_CHANNELS / 2,
  PAIR_TILE_ROWS = 16,
  PAIR_TILE_BYTES = 1024,
};

/* bias + the sum over pairs of channels and taps, by steps of as many pairs as a tile has. Weights are tiles of 16 rows by
 * 32 channels, those of a block of rows [steps][taps][1 or 2: whether it has more than 16]; inputs are words of a pair of
 * channels, x_pair words from one to the next, tap t at x + x_tap[t]. Both are 0 behind the pairs, up to a whole step. */
typedef struct {
  const char *w;
  const uint32_t *x;
  int64_t x_pair;
  const int64_t *x_tap;
  int64_t pairs, taps;
  const int64_t *place; /* of positions */
  const float *bias;    /* of the rows; NULL: 0 */
} pair_sums;

typedef struct {
  int width;      /* most positions of a block */
  int least_taps; /* fewer are better left to packed products */
  double flops_per_ns;
  /* Positions are at x + place[i], and a tile of weights has the words of 16 rows for each pair. Else positions are
   * neighbours, and a tile has the words of 16 pairs for each row. */
  bool anywhere;
  /* c[row * PAIR_WIDTH + position] of n positions; up to whole tiles of both, what is behind them may be written, too. */
  void (*block)(const pair_sums *s, int rows, int n, float *c);
} pair_kernel;

/* The kernel of this processor, or NULL. */
const pair_kernel *direct_pairs(void);

/* NULL where the processor or the compiler has no such instructions. */
const pair_kernel *direct_amx(void);
const pair_kernel *direct_dots(void);

#endif
