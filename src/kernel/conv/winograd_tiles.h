/* Tiles of convolutions by windows of 3 x 3 without strides: 2 x 2 outputs, and the 4 x 4 inputs that those see. Sums over
 * windows become products of transformed tiles, 16 where the sums themselves have 36 (S. Winograd's minimal filtering;
 * A. Lavin and S. Gray, arXiv:1509.09308). Along an axis, of inputs d, weights g and outputs y or their gradients e:
 *
 *   inputs     v = (d0 - d2, d1 + d2, d2 - d1, d1 - d3)
 *   weights    u = (g0, g0 + g1 + g2, g0 - g1 + g2, g2)     outputs    y = (m0 + (m1 + m2) / 2, (m1 - m2) / 2 - m3), m = u v
 *   gradients  u = (e0, e0 + e1, e0 - e1, e1)               weights'   g = (m0 + (m1 + m2) / 2, (m1 - m2) / 2,
 *                                                                           (m1 + m2) / 2 - m3), m = u v
 *
 * Errors are relative to the largest operands of a window, not to those of each product: terms cancel out of sums that have
 * them. Whole numbers stay exact while they are small. Where an operand is not finite, or a sum overflows on the way, a result is
 * not finite: the caller's sign to do it otherwise. */
#ifndef CANNON_KERNEL_CONV_WINOGRAD_TILES_H
#define CANNON_KERNEL_CONV_WINOGRAD_TILES_H

#include "kernel/conv/geometry.h"
#include "kernel/conv/image.h"

enum {
  WINOGRAD_PRODUCTS = 16,
  WINOGRAD_TAPS = 9,
  WINOGRAD_LANES = 16,   /* most of any level: what is rounded up to */
  WINOGRAD_CHANNELS = 16 /* fewer, on either side, are not worth the transforms */
};

/* Tiles of a plane of outputs by lines; long lines are cut into segments of one width, of which the last may reach beyond. Segments
 * are in the order of lines, segments of a line, images. */
typedef struct {
  int64_t images, lines, segments, width;
} winograd_grid;

/* Segments below each other. */
typedef struct {
  int64_t image, segment, line, n;
} winograd_stack;

/* What is transformed tile by tile: a tile of line l and column k starts at element low + 2 l, low + 2 k. */
typedef struct {
  const conv_operand *operand;
  const int64_t *size; /* of its axes: 0 outside */
  int64_t low[2];
  int taps; /* along each axis: 4 of inputs, 2 of gradients */
} winograd_side;

/* Where transformed tiles are: of each channel, tile by tile; 16 times. Floats. */
typedef struct {
  float *at;
  int64_t channel, product; /* from one to the next */
} winograd_tiles;

static inline int64_t winograd_parts(int64_t total, int64_t part) { return (total + part - 1) / part; }
static inline int64_t winograd_whole(int64_t n) { return winograd_parts(n, WINOGRAD_LANES) * WINOGRAD_LANES; }
/* Floats from product to product, of n each, such that what is at the same place of all 16 is in different sets of L1. */
static inline int64_t winograd_step(int64_t n) { return winograd_parts(n, 1024) * 1024 + 64; }

/* Windows of 3 x 3, planes, channels enough. */
bool winograd_is_window(const conv_geometry *g);
/* Weights in one piece, in order, of floats. */
bool winograd_is_plain(const conv_geometry *g, const conv_operand *w);
/* Whether so many vectors of tiles are less work than the sums: each of the weights has a product for each tile, and transforms. */
bool winograd_is_less(const conv_geometry *g, int64_t positions, int64_t vectors);

winograd_grid winograd_grid_of(int64_t images, const int64_t *out, int64_t most_tiles);
static inline int64_t winograd_segments(const winograd_grid *g) { return g->images * g->segments * g->lines; }
/* The first of segments [i, end). */
winograd_stack winograd_stack_at(const winograd_grid *g, int64_t i, int64_t end);

/* Floats of scratch for segments of so many lines. */
int64_t winograd_scratch(const winograd_grid *g, const winograd_side *s, int64_t lines);
/* Channels [begin, end) of segments [first, first + n). x: the first element of channel 0. Writes whole vectors: up to
 * WINOGRAD_LANES - 1 tiles behind the last. */
void winograd_turn(const winograd_grid *g, const winograd_side *s, const char *x, int64_t first, int64_t n,
                   int64_t begin, int64_t end, const winograd_tiles *to, float *scratch);

/* The transforms, by instruction set level. Of 16 results or products each, `step` floats apart. */
typedef struct {
  /* Of n tiles next to each other: element (i, j) of tile k is x[tap[taps * i + j] + k]. Writes whole vectors. */
  void (*inputs)(float *v, int64_t step, const float *x, const int64_t *tap, int64_t n);
  void (*gradients)(float *u, int64_t step, const float *x, const int64_t *tap, int64_t n);
  /* Of WINOGRAD_LANES channels: tap t of channel i is w[t * WINOGRAD_LANES + i]. turned: of the mirrored window. */
  void (*weights)(float *u, int64_t step, const float *w, bool turned);
  /* Outputs of n tiles: 2 n of each of two lines, in whole vectors. False: one is not finite. */
  bool (*outputs)(float *top, float *bottom, const float *m, int64_t step, int64_t n, float bias);
  /* Weights' gradients of WINOGRAD_LANES channels, as `weights` takes them. False: one of the first n is not finite. */
  bool (*taps)(float *w, const float *m, int64_t step, int64_t n);
} winograd_loops_table;

extern const winograd_loops_table *winograd_loops; /* set before main */

#endif
