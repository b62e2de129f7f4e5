/* SPDX-License-Identifier: Apache-2.0 */
/* Direct convolution kernels on bfloat16, by AMX (direct_amx.c) or AVX512_BF16 dot-product instructions
 * (direct_dots.c). Inputs are a padded copy (image.h) in which each position holds 32 channels in 64 bytes, so that
 * a tap is another row of the copy; weights are packed tiles (pair_weights.h).
 *
 * On AMX they also compute float. A float is exactly the sum of three bfloat16 terms, x = high + middle + low. Of
 * the nine products of two such sums, the six largest are added up; the others are at most 2^-23 |a||b| together.
 *
 * Called by correlate_pairs.c and gradient_pairs.c. Thread-safe: the kernels work on the caller's memory. */
#ifndef CANNON_KERNEL_CONV_DIRECT_DIRECT_PAIRS_H
#define CANNON_KERNEL_CONV_DIRECT_DIRECT_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel/product/float_parts.h"

enum {
  PAIR_ROWS = 32,     /* the most rows (outputs per position) of a block */
  PAIR_SUMS = 128,    /* positions whose sums are kept at a time: 16 KB, a third of L1 */
  PAIR_CHANNELS = 32, /* channels of a step of the inner dimension */
  PAIR_STEP = PAIR_CHANNELS / 2,
  PAIR_TILE_ROWS = 16,
  PAIR_TILE_BYTES = 1024,
  PAIR_BYTES = 64, /* bytes of one position in a step */
  PAIR_PARTS = 3,  /* bfloat16 terms of a float */
};

/* A block of sums over pairs of channels and taps. The inner dimension goes by steps of PAIR_STEP pairs of channels.
 * Weights are tiles of 16 pairs by 16 rows, those of a block of rows in the order [steps][kernel_taps][1 or 2 tiles,
 * 2 if it has more than 16 rows]; tap t has index w_tap[t] among the kernel's taps. Position p reads, for tap t, the
 * 64 bytes at x + (p + x_tap[t]) * PAIR_BYTES, and further steps follow x_step bytes apart. Weights and inputs are
 * padded with zeros up to a whole step.
 * parts: 1, or PAIR_PARTS for floats; x_part and w_part are the bytes from one bfloat16 term's data to the next
 * one's. */
typedef struct {
  const char *w, *x;
  int64_t x_step, x_part, w_part; /* bytes */
  const int64_t *x_tap, *w_tap;
  int64_t pairs, taps, kernel_taps;
  int parts;
} pair_sums;

/* A GEMM of channels of x by rows of y over positions, in steps of 32: for the gradient of w. x has a line of
 * bfloat16 for each channel, and another tap starts at another element of it; y is tiles of 16 rows as pair_transpose
 * makes them. parts as above. Strides in bytes. */
typedef struct {
  const char *x, *y;
  int64_t x_channel, y_tile, x_part, y_part;
  int parts;
} pair_products;

typedef struct {
  int parts;      /* the most terms it supports: PAIR_PARTS if it can multiply floats, otherwise 1 */
  int least_taps; /* with fewer taps, the packed GEMM is faster */
  int least_rows; /* with fewer rows (outputs per position), computing in float is faster */
  double flops_per_ns;
  /* Computes the sums of the first of n positions place[i], which must ascend: as many as fit into c, which has
   * PAIR_SUMS * PAIR_ROWS floats. Returns how many; the sum of position i and a row is c[index[i] * PAIR_ROWS +
   * row]. Writes whole tiles of rows. */
  int64_t (*sums)(const pair_sums *s, int rows, const int64_t *place, int64_t n, float *c, int32_t *index);
  /* c[channel * PAIR_ROWS + row] = or += the sums over `steps` steps. NULL if the kernel has none. */
  void (*products)(const pair_products *p, int channels, int rows, int64_t steps, float *c, bool accumulate);
  void (*begin)(void), (*end)(void); /* each thread calls them before and after the kernels; may be NULL */
} pair_kernel;

/* Returns the best kernel of this processor, or NULL if it has none. */
const pair_kernel *direct_pairs(void);

/* Return NULL if the processor or the compiler lacks the instructions. */
const pair_kernel *direct_amx(void);
const pair_kernel *direct_dots(void);

/* Where sums are stored as outputs: `row` bytes from row to row, `position` bytes from position to position. */
typedef struct {
  char *to;
  int64_t row, position;
  int dtype;         /* float, float16 or bfloat16 */
  int rows;          /* at most PAIR_ROWS */
  const float *bias; /* one value per row; NULL: 0 */
} pair_outputs;

/* pair_store may read that many elements behind an index array; they must be valid indices */
enum { PAIR_STORE_AHEAD = 32 };

/* Stores n positions, whose sums are c[index[i] * PAIR_ROWS + row]. */
void pair_store(const pair_outputs *o, const float *c, const int32_t *index, int64_t n);

/* Source of a line of the padded copy: elements `step` bytes apart, of `channels` channels that are `channel` bytes
 * apart. */
typedef struct {
  const char *from;
  int64_t channel, step;
  int channels; /* at most PAIR_CHANNELS */
  int dtype;    /* bfloat16; or float, which becomes PAIR_PARTS copies, one for each bfloat16 term */
} pair_line;

/* Writes n positions of a line, for floats with `part` bytes from term to term. Extends *range by the exponents of
 * floats. */
void pair_fill_line(char *to, int64_t part, const pair_line *l, int64_t n, float_exponents *range);
/* Splits n floats into their bfloat16 terms, `part` bytes from term to term. Extends *range by their exponents. */
void pair_split_floats(uint16_t *to, int64_t part, const float *from, int64_t n, float_exponents *range);
/* Source and destination for lines of one channel, as bfloat16 or as the bfloat16 terms of floats: elements [low,
 * high) of each line of `pitch` elements are copied, the others become 0. */
typedef struct {
  uint16_t *to;
  const char *from;         /* element `low` of the first line */
  int64_t part, line, step; /* bytes: between terms of `to`; between lines, and between elements, of `from` */
  int64_t n, pitch, low, high;
  int dtype;
} pair_lines;

/* Copies the lines. Extends *range by the exponents of floats. */
void pair_copy_lines(const pair_lines *l, float_exponents *range);
/* Raises the largest exponent of *range to that of n bfloat16 values. */
void pair_range_bf16(float_exponents *range, const uint16_t *x, int64_t n);
/* Transposes 16 rows of 32 * steps elements, `pitch` bytes apart, into tiles of VNNI pairs: each tile row holds two
 * neighbouring elements of all 16 rows. */
void pair_transpose(char *to, const uint16_t *from, int64_t pitch, int64_t steps);
/* Extends *range by the exponents of n floats. */
void pair_range_floats(float_exponents *range, const float *from, int64_t n);

#endif
