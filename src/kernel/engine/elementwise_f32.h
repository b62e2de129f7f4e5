/* SPDX-License-Identifier: Apache-2.0 */
/* The macros in the expressions of elementwise.def for float; for those elementwise_*_level.c files that compute in
 * float. */
#ifndef CANNON_KERNEL_ENGINE_ELEMENTWISE_F32_H
#define CANNON_KERNEL_ENGINE_ELEMENTWISE_F32_H

#include "kernel/engine/arithmetic.h"
#include "kernel/engine/elementwise_loop.h"
#include "kernel/engine/vmath/vmath.h"

#define V(name)    v##name##_f32
#define ABS(x)     fabsf(x)
#define SQRT(x)    sqrtf(x)
#define EXP(x)     V(exp)(x)
#define LOG(x)     V(log)(x)
#define FLOOR(x)   floorf(x)
#define CEIL(x)    ceilf(x)
#define ROUND(x)   rintf(x) /* ties to even */
#define TRUNC(x)   truncf(x)
#define SIGNBIT(x) (copysignf(1, x) < 0)

#endif
