/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd tiles of convolutions with kernels of 3 x 3 without strides: 2 x 2 outputs, and the 4 x 4 inputs that
 * they depend on. A sum over windows becomes 16 products of transformed tiles, instead of 36 multiplications (S.
 * Winograd's minimal filtering; A. Lavin and S. Gray, arXiv:1509.09308). Along one axis, for inputs d, weights g and
 * outputs y or their gradients e:
 *
 *   inputs     v = (d0 - d2, d1 + d2, d2 - d1, d1 - d3)
 *   weights    u = (g0, g0 + g1 + g2, g0 - g1 + g2, g2)     outputs    y = (m0 + (m1 + m2) / 2,
 *                                                                           (m1 - m2) / 2 - m3), m = u v
 *   gradients  u = (e0, e0 + e1, e0 - e1, e1)               weights'   g = (m0 + (m1 + m2) / 2, (m1 - m2) / 2,
 *                                                                           (m1 + m2) / 2 - m3), m = u v
 *
 * Errors are relative to the largest operands of a window, not to those of each product, since large terms may
 * cancel out. Integers stay exact while they are small. If an operand is not finite or an intermediate sum
 * overflows, a result is not finite; this tells the caller to use another algorithm.
 *
 * Called by winograd.c and winograd_gradient.c. Thread-safe: functions work on the caller's memory. */
#ifndef CANNON_KERNEL_CONV_WINOGRAD_WINOGRAD_TILES_H
#define CANNON_KERNEL_CONV_WINOGRAD_WINOGRAD_TILES_H

#include "kernel/conv/direct/image.h"
#include "kernel/conv/geometry.h"

enum {
  WINOGRAD_PRODUCTS = 16,
  WINOGRAD_TAPS = 9,
  WINOGRAD_LANES = 16,   /* the most lanes of any instruction set level; sizes are rounded up to it */
  WINOGRAD_CHANNELS = 16 /* with fewer rows or channels, the transforms cost more than they save */
};

/* The tiles of planes of outputs, organised by lines of tiles. A long line is cut into segments of equal width, the
 * last of which may reach beyond the line. Segments are ordered by image (batch item), then segment of a line, then
 * line. */
typedef struct {
  int64_t images, lines, segments, width;
} winograd_grid;

/* n segments of consecutive lines, at the same place of their lines. */
typedef struct {
  int64_t image, segment, line, n;
} winograd_stack;

/* An operand that is transformed tile by tile: the tile of line l and column k starts at element (low[0] + 2 l,
 * low[1] + 2 k). */
typedef struct {
  const conv_operand *operand;
  const int64_t *size; /* of its axes; elements outside are 0 */
  int64_t low[2];
  int taps; /* along each axis: 4 for inputs, 2 for gradients */
} winograd_side;

/* Where transformed tiles are stored: 16 values per tile, each in a matrix of its own, [channels][tiles] of floats. */
typedef struct {
  float *at;
  int64_t channel, product; /* floats from channel to channel, and from one of the 16 matrices to the next */
} winograd_tiles;

static inline int64_t winograd_div_up(int64_t total, int64_t part) { return (total + part - 1) / part; }
static inline int64_t winograd_round_up(int64_t n) { return winograd_div_up(n, WINOGRAD_LANES) * WINOGRAD_LANES; }
/* The stride in floats between the 16 matrices of n floats each, chosen such that equal positions in all 16 fall
 * into different sets of the L1 cache. */
static inline int64_t winograd_stride(int64_t n) { return winograd_div_up(n, 1024) * 1024 + 64; }

/* Returns whether the kernel is 3 x 3, in one plane, without strides, with enough rows and channels. */
bool winograd_is_window(const conv_geometry *g);
/* Returns whether w is float and contiguous. */
bool winograd_is_plain(const conv_geometry *g, const conv_operand *w);
/* Returns whether Winograd costs less than direct sums if the tiles fill that many vectors. For each weight, it
 * costs a product per tile plus `transform`, in multiplications: mostly memory bandwidth. */
bool winograd_pays_off(const conv_geometry *g, int64_t positions, int64_t vectors, int64_t transform);

winograd_grid winograd_grid_of(int64_t images, const int64_t *out, int64_t most_tiles);
static inline int64_t winograd_segments(const winograd_grid *g) { return g->images * g->segments * g->lines; }
/* The stack that starts at segment i, of segments before `end`. */
winograd_stack winograd_stack_at(const winograd_grid *g, int64_t i, int64_t end);

/* Floats of scratch that winograd_transform needs for segments of `lines` lines. */
int64_t winograd_scratch(const winograd_grid *g, const winograd_side *s, int64_t lines);
/* Transforms channels [begin, end) of segments [first, first + n). x: the first element of channel 0. Writes whole
 * vectors: up to WINOGRAD_LANES - 1 tiles behind the last. */
void winograd_transform(const winograd_grid *g, const winograd_side *s, const char *x, int64_t first, int64_t n,
                        int64_t begin, int64_t end, const winograd_tiles *to, float *scratch);

/* The transforms, with one table for each instruction set level. The 16 results or products of a tile are `step`
 * floats apart. */
typedef struct {
  /* Transform n neighbouring tiles: element (i, j) of tile k is x[tap[taps * i + j] + k]. Write whole vectors. */
  void (*inputs)(float *v, int64_t step, const float *x, const int64_t *tap, int64_t n);
  void (*gradients)(float *u, int64_t step, const float *x, const int64_t *tap, int64_t n);
  /* Transforms the weights of WINOGRAD_LANES channels: tap t of channel i is w[t * WINOGRAD_LANES + i]. mirrored:
   * mirror the kernel, for the gradient of x. */
  void (*weights)(float *u, int64_t step, const float *w, bool mirrored);
  /* Transforms products back to the outputs of n tiles: 2 n floats for each of two lines, in whole vectors. Returns
   * false if one is not finite. */
  bool (*outputs)(float *top, float *bottom, const float *m, int64_t step, int64_t n, float bias);
  /* Transforms products back to the gradients of the weights of WINOGRAD_LANES channels, in the layout that
   * `weights` takes. Returns false if one of the first n is not finite. */
  bool (*taps)(float *w, const float *m, int64_t step, int64_t n);
} winograd_loops_table;

extern const winograd_loops_table *winograd_loops; /* chosen before main for this processor (engine/level.h) */

#endif
