/* Optimisers and what training does to many tensors at once. */
#ifndef CANNON_KERNEL_OPTIM_OPTIM_H
#define CANNON_KERNEL_OPTIM_OPTIM_H

#include <stdbool.h>
#include <stdint.h>

/* By instruction set level (engine/level.h); contiguous floats. */
typedef struct {
  /* One step of AdamW; see adamw_loop.h. */
  void (*adamw)(float *var, float *m, float *v, float *max_v, const float *grad, const float *p, int64_t n);
  /* x *= scale; whether one of them was infinite or NaN before. */
  bool (*unscale)(float *x, float scale, int64_t n);
} optim_loops;

extern const optim_loops *optim;

#endif
