/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of AdamW on contiguous floats. Included by adamw.c for the parameters and by optim_level.c, which is
 * compiled once per instruction set level. */
#ifndef CANNON_KERNEL_OPTIM_ADAMW_LOOP_H
#define CANNON_KERNEL_OPTIM_ADAMW_LOOP_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* The elements of p[]. */
enum {
  ADAMW_KEEP,  /* 1 - lr * weightDecay */
  ADAMW_BETA1, /* weight of the old m */
  ADAMW_NEW1,  /* weight of the gradient in m: 1 - beta1 */
  ADAMW_BETA2, /* weight of the old v */
  ADAMW_NEW2,  /* weight of the gradient's square in v: 1 - beta2 */
  ADAMW_ROOT,  /* factor of sqrt(v): 1 / sqrt(1 - beta2^t) */
  ADAMW_EPS,   /* added to the scaled sqrt(v) */
  ADAMW_RATE,  /* lr / (1 - beta1^t) */
  ADAMW_SIGN,  /* -1: maximise */
  ADAMW_PARAMETERS
};

static inline float adamw_var(const float *p, float var, float m, float v) {
  return p[ADAMW_KEEP] * var - p[ADAMW_RATE] * m / (sqrtf(v) * p[ADAMW_ROOT] + p[ADAMW_EPS]);
}

/* One step on n elements of arrays that do not overlap. max_v: the running maximum of v (amsgrad),
 * in which NaN stays NaN, or NULL. */
static inline void adamw_f32(float *restrict var, float *restrict m, float *restrict v, float *restrict max_v,
                             const float *restrict grad, const float *p, int64_t n) {
  float q[ADAMW_PARAMETERS]; /* a local copy, which cannot alias the arrays */
  for (int k = 0; k < ADAMW_PARAMETERS; ++k) q[k] = p[k];
  for (int64_t i = 0; i < n; ++i) {
    const float g = q[ADAMW_SIGN] * grad[i];
    m[i] = q[ADAMW_BETA1] * m[i] + q[ADAMW_NEW1] * g;
    v[i] = q[ADAMW_BETA2] * v[i] + q[ADAMW_NEW2] * (g * g);
    if (!max_v) var[i] = adamw_var(q, var[i], m[i], v[i]);
  }
  for (int64_t i = 0; max_v && i < n; ++i) {
    const float old = max_v[i];
    max_v[i] = old != old || old > v[i] ? old : v[i];
    var[i] = adamw_var(q, var[i], m[i], max_v[i]);
  }
}

#endif
