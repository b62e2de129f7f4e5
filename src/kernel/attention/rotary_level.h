/* Rotations of rows, by instruction set level (engine/level.h). Everything is floats, contiguous in a row.
 *
 * A mode pairs components: component a of the result comes from pair (x, y) as x cos_a - y sin_a, component b as
 * y cos_b + x sin_b. */
#ifndef CANNON_KERNEL_ATTENTION_ROTARY_LEVEL_H
#define CANNON_KERNEL_ATTENTION_ROTARY_LEVEL_H

#include <stdint.h>

typedef enum {
  ROTARY_HALF,            /* pairs i, i + d/2 */
  ROTARY_INTERLEAVE,      /* pairs 2i, 2i + 1 */
  ROTARY_QUARTER,         /* each half by itself as ROTARY_HALF */
  ROTARY_INTERLEAVE_HALF, /* pairs 2i, 2i + 1, whose results go to i, i + d/2 */
  N_ROTARY,
} rotary_mode;

/* Rows of `d`; the lds are floats between rows, 0 for one that serves all. */
typedef struct {
  int64_t d, rows, ld_out, ld_in, ld_cos, ld_sin;
} rotary_rows;

typedef void rotate_loop(float *out, const float *in, const float *cos, const float *sin, const rotary_rows *r);

typedef struct {
  /* out may be in, but for ROTARY_INTERLEAVE_HALF. Backward: in is the result's gradient. */
  rotate_loop *forward[N_ROTARY], *backward[N_ROTARY];
  /* Adds what a row of the result's gradient dy and of x gives to the gradients of cos and sin. */
  void (*tables[N_ROTARY])(float *dcos, float *dsin, const float *dy, const float *x, int64_t d);
} rotary_loops;

extern const rotary_loops *rotary; /* set before main */

#endif
