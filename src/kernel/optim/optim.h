/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of optimisers and gradient scaling, one table per instruction set level. Called by adamw.c and amp.c; the
 * functions are stateless. */
#ifndef CANNON_KERNEL_OPTIM_OPTIM_H
#define CANNON_KERNEL_OPTIM_OPTIM_H

#include <stdbool.h>
#include <stdint.h>

/* Arrays are contiguous floats. */
typedef struct {
  /* One step of AdamW on n elements; parameters p as in adamw_loop.h. */
  void (*adamw)(float *var, float *m, float *v, float *max_v, const float *grad, const float *p, int64_t n);
  /* Multiplies x by scale. Returns whether any x was infinite or NaN before. */
  bool (*unscale)(float *x, float scale, int64_t n);
} optim_loops;

/* Set before main, for the processor. */
extern const optim_loops *optim;

#endif
