/* Sums of products of bfloat16, by AMX (direct_amx.c) or AVX-512's dot products (direct_dots.c). Inputs are an image of rows
 * of 32 channels, 64 bytes for each position (image.h), of which a tap is another row; weights are packed tiles
 * (pair_weights.h). On AMX also of floats: a float is exactly the sum of three bfloat16, x = high + middle + low, and of the
 * nine products of two such sums the six largest are added up. What is left out is 2^-23 |a||b| at
 * worst. */
#ifndef CANNON_KERNEL_CONV_DIRECT_PAIRS_H
#define CANNON_KERNEL_CONV_DIRECT_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel/product/float_parts.h"

enum {
  PAIR_ROWS = 32,     /* most of a block of outputs */
  PAIR_SUMS = 128,    /* positions whose sums are kept at a time: 16 KB, a third of L1 */
  PAIR_CHANNELS = 32, /* of one step, */
  PAIR_STEP = PAIR_CHANNELS / 2,
  PAIR_TILE_ROWS = 16,
  PAIR_TILE_BYTES = 1024,
  PAIR_BYTES = 64, /* of a position of a step */
  PAIR_PARTS = 3,  /* of a float */
};

/* The sum over pairs of channels and taps, by steps of as many pairs as a row has. Weights are tiles of 16 pairs by 16 rows
 * of outputs, those of a block of rows [steps][kernel_taps][1 or 2: whether it has more than 16]; tap t has number w_tap[t]
 * of them. Its row for position p is at x + (p + x_tap[t]) * PAIR_BYTES, x_step bytes from step to step. Both are 0 behind
 * the pairs, up to a whole step.
 * parts: 1, or PAIR_PARTS, whose images and weights lie x_part and w_part bytes apart. */
typedef struct {
  const char *w, *x;
  int64_t x_step, x_part, w_part; /* bytes */
  const int64_t *x_tap, *w_tap;
  int64_t pairs, taps, kernel_taps;
  int parts;
} pair_sums;

/* Products of channels of x and rows of y, summed over positions by steps of 32: of a weight's gradient. x is a line of
 * bfloat16 for each channel, whose tap is another first element; y is tiles as pair_turn makes them, of 16 rows each. Parts
 * as above. Bytes. */
typedef struct {
  const char *x, *y;
  int64_t x_channel, y_tile, x_part, y_part;
  int parts;
} pair_products;

typedef struct {
  int parts;      /* most: 1, or PAIR_PARTS where it multiplies floats, too */
  int least_taps; /* fewer are better left to packed products, */
  int least_rows; /* and fewer outputs to floats */
  double flops_per_ns;
  /* The first of n positions place[i], which ascend: as many as fit into c, of PAIR_SUMS times PAIR_ROWS floats; returns how
   * many. c[index[i] * PAIR_ROWS + row]; up to whole tiles of rows. */
  int64_t (*sums)(const pair_sums *s, int rows, const int64_t *place, int64_t n, float *c, int32_t *index);
  /* c[channel * PAIR_ROWS + row] = or += the sums over so many steps; NULL: there is none. */
  void (*products)(const pair_products *p, int channels, int rows, int64_t steps, float *c, bool accumulate);
  void (*begin)(void), (*end)(void); /* around both, on each thread; or NULL */
} pair_kernel;

/* The kernel of this processor, or NULL. */
const pair_kernel *direct_pairs(void);

/* NULL where the processor or the compiler has no such instructions. */
const pair_kernel *direct_amx(void);
const pair_kernel *direct_dots(void);

/* Where sums become outputs: rows `row` bytes apart, neighbouring positions `position` bytes. */
typedef struct {
  char *to;
  int64_t row, position;
  int dtype;         /* float, float16 or bfloat16 */
  int rows;          /* up to PAIR_ROWS */
  const float *bias; /* of the rows; NULL: 0 */
} pair_outputs;

enum { PAIR_STORE_AHEAD = 32 /* elements of an index that may be read behind its end; they are of valid sums */ };

/* Of n positions, whose sums are c[index[i] * PAIR_ROWS + row]. */
void pair_store(const pair_outputs *o, const float *c, const int32_t *index, int64_t n);

/* Where an image's rows come from: elements of a line, `step` bytes apart, of some channels, `channel` bytes apart. */
typedef struct {
  const char *from;
  int64_t channel, step;
  int channels; /* up to PAIR_CHANNELS */
  int dtype;    /* bfloat16; or float, which becomes PAIR_PARTS images */
} pair_line;

/* n positions of a line, `part` bytes from part to part. range: of floats; is widened by them. */
void pair_fill_line(char *to, int64_t part, const pair_line *l, int64_t n, float_exponents *range);
/* The parts of each of n floats, `part` bytes from part to part; widens the range by them. */
void pair_take_parts(uint16_t *to, int64_t part, const float *from, int64_t n, float_exponents *range);
/* Lines of one channel, of bfloat16 or of floats' parts: elements [low, high) of each `pitch`, the others are 0. */
typedef struct {
  uint16_t *to;
  const char *from;         /* the first line's element `low` */
  int64_t part, line, step; /* bytes: from part to part of `to`; from line to line and element to element of `from` */
  int64_t n, pitch, low, high;
  int dtype;
} pair_lines;

/* Widens the range by floats. */
void pair_copy_lines(const pair_lines *l, float_exponents *range);
/* Widens the range's most by bfloat16s, as floats. */
void pair_range_halves(float_exponents *range, const uint16_t *x, int64_t n);
/* 16 rows of 32 * steps elements, `pitch` bytes apart, as tiles whose rows have two neighbours of each. */
void pair_turn(char *to, const uint16_t *from, int64_t pitch, int64_t steps);
/* Widens the range by n floats. */
void pair_range(float_exponents *range, const float *from, int64_t n);

#endif
