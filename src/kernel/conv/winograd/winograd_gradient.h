/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of w for kernels of 3 x 3 without strides, from transformed tiles (winograd_tiles.h) of x and of y's
 * gradient: 16 GEMMs, summed over tiles. For floats and contiguous weights. Called by weight_gradient.c. */
#ifndef CANNON_KERNEL_CONV_WINOGRAD_WINOGRAD_GRADIENT_H
#define CANNON_KERNEL_CONV_WINOGRAD_WINOGRAD_GRADIENT_H

#include "kernel/conv/winograd/winograd_tiles.h"

typedef struct {
  const conv_geometry *g; /* owned by the caller, as are the operands */
  winograd_side x, y;
  winograd_grid grid;
  int64_t at_once;                       /* segments (winograd_tiles.h) of a pass */
  winograd_tiles x_tiles, y_tiles, sums; /* layouts of a group's channels, rows, and [rows][channels]; `at` is unset */
  uint64_t x_at, y_at, sum_at;           /* offsets in scratch */
  uint64_t cost_ns;
} winograd_gradient;

/* As winograd_fits, winograd_pays and winograd_init (winograd.h). */
bool winograd_gradient_fits(winograd_gradient *w, const conv_geometry *g, const conv_operand *x, const conv_operand *y,
                            const conv_operand *weight);
bool winograd_gradient_pays(const winograd_gradient *w);
void winograd_gradient_init(winograd_gradient *w, executor *e);
/* Takes the addresses of the first elements. *done becomes false if a result is not finite: the caller must then
 * compute all results by another algorithm. */
status winograd_gradient_run(const winograd_gradient *w, const void *x, const void *y, float *to, char *scratch,
                             bool *done);

#endif
