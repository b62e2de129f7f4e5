/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary position embedding of rows, for one instruction set level (engine/level.h). Rows are contiguous floats.
 *
 * A mode defines pairs of components. For a pair (x, y), component a of the result is x cos_a - y sin_a, and component
 * b is y cos_b + x sin_b. */
#ifndef CANNON_KERNEL_ATTENTION_ROTARY_LEVEL_H
#define CANNON_KERNEL_ATTENTION_ROTARY_LEVEL_H

#include <stdint.h>

typedef enum {
  ROTARY_HALF,            /* pairs i, i + d/2 */
  ROTARY_INTERLEAVE,      /* pairs 2i, 2i + 1 */
  ROTARY_QUARTER,         /* each half of the row as in ROTARY_HALF */
  ROTARY_INTERLEAVE_HALF, /* pairs 2i, 2i + 1, whose results go to i, i + d/2 */
  N_ROTARY,
} rotary_mode;

/* Rows of d components. The ld_ fields are floats between rows, 0 for one row that is used for all. */
typedef struct {
  int64_t d, rows, ld_out, ld_in, ld_cos, ld_sin;
} rotary_rows;

typedef void rotate_loop(float *out, const float *in, const float *cos, const float *sin, const rotary_rows *r);

typedef struct {
  /* out may be in, except for ROTARY_INTERLEAVE_HALF. Backward: in is the gradient of the result. */
  rotate_loop *forward[N_ROTARY], *backward[N_ROTARY];
  /* Adds one row's contribution to the gradients of cos and sin; dy is a row of the result's gradient, x of the
   * input. */
  void (*tables[N_ROTARY])(float *dcos, float *dsin, const float *dy, const float *x, int64_t d);
} rotary_loops;

extern const rotary_loops *rotary; /* set before main */

#endif
