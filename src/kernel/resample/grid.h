/* Grid samplers: every result is taken from a place of the input that the grid says, as coordinates from -1 to 1.
 *
 * A place has up to 4 taps along each axis (an index, a weight and the weight's slope); the taps of a result are their
 * combinations. Coordinates are made in float where the grid is not of doubles, as PyTorch makes them, so that what is
 * nearest is the same; weights are double. */
#ifndef CANNON_KERNEL_RESAMPLE_GRID_H
#define CANNON_KERNEL_RESAMPLE_GRID_H

#include "kernel/engine/loops.h"
#include "kernel/resample/points.h"

enum { GRID_AXES = 3, GRID_AXIS_TAPS = 4 };

typedef enum { GRID_LINEAR, GRID_NEAREST, GRID_CUBIC } grid_mode;
typedef enum { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION } grid_padding;

/* Depth, height, width; images have a depth of 1, which the grid says nothing of. */
typedef struct {
  int n_axes; /* 2, 3 */
  grid_mode mode;
  grid_padding padding;
  bool align_corners, in_double;
  int64_t in[GRID_AXES], out[GRID_AXES];
  int64_t grid_row[1 + GRID_AXES]; /* strides of the grid in bytes: of batches, and of the axes of out */
  int64_t grid_component;          /* from x to y to z */
  load_loop *load_grid;            /* to double */
} grid_sampler;

typedef struct {
  int taps;
  point_offsets offset;
  point_weights weight;
  point_weights slope[GRID_AXES]; /* of the weight, by the grid's component for that axis; only where asked for */
} grid_table;

/* The taps of n places that the grid has from `grid` on along the last axis, in planes of these strides. */
void grid_table_fill(const grid_sampler *g, grid_table *t, const char *grid, int64_t n, const int64_t *strides,
                     bool slopes);

#endif
