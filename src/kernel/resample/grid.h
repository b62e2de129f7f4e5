/* SPDX-License-Identifier: Apache-2.0 */
/* Grid samplers: each result is interpolated at a point of the input whose coordinates, from -1 to 1, are in the
 * grid.
 *
 * Along each axis, a point has up to 4 taps (an index, its weight and the derivative of the weight); the taps of a
 * result are all their combinations. Coordinates are computed in float unless the grid is double, as in PyTorch, so
 * that both find the same nearest element. Weights are double.
 *
 * Called by grid.c, on worker threads; a grid_sampler is only read, and each thread has its own grid_table. */
#ifndef CANNON_KERNEL_RESAMPLE_GRID_H
#define CANNON_KERNEL_RESAMPLE_GRID_H

#include "kernel/engine/loops.h"
#include "kernel/resample/points.h"

enum { GRID_AXES = 3, GRID_AXIS_TAPS = 4 };

typedef enum { GRID_LINEAR, GRID_NEAREST, GRID_CUBIC } grid_mode;
typedef enum { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION } grid_padding;

/* Axes are depth, height, width. Images have a depth of 1, for which the grid has no coordinate. */
typedef struct {
  int n_axes; /* 2 or 3 */
  grid_mode mode;
  grid_padding padding;
  bool align_corners, in_double;
  int64_t in[GRID_AXES], out[GRID_AXES];
  int64_t grid_row[1 + GRID_AXES]; /* strides of the grid in bytes: of the batch, and of the axes of out */
  int64_t grid_component;          /* bytes from x to y to z */
  load_loop *load_grid;            /* loads coordinates as double */
} grid_sampler;

typedef struct {
  int taps;
  point_offsets offset;
  point_weights weight;
  point_weights slope[GRID_AXES]; /* derivatives by the grid's coordinate for that axis, if requested */
} grid_table;

/* Computes the taps of n points of the grid, which start at `grid` and follow each other along the last axis.
 * strides: of a plane of the input, in bytes. slopes: whether to set t->slope. */
void grid_table_fill(const grid_sampler *g, grid_table *t, const char *grid, int64_t n, const int64_t *strides,
                     bool slopes);

#endif
