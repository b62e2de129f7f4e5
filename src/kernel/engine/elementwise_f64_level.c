/* SPDX-License-Identifier: Apache-2.0 */
/* The elementwise functions on doubles (elementwise.def). */
#include "kernel/engine/arithmetic.h"
#include "kernel/engine/elementwise_loop.h"
#include "kernel/engine/vmath/vmath.h"

#define V(name)    v##name##_f64
#define ABS(x)     fabs(x)
#define SQRT(x)    sqrt(x)
#define EXP(x)     V(exp)(x)
#define LOG(x)     V(log)(x)
#define FLOOR(x)   floor(x)
#define CEIL(x)    ceil(x)
#define ROUND(x)   rint(x) /* ties to even */
#define TRUNC(x)   trunc(x)
#define SIGNBIT(x) (copysign(1, x) < 0)

#define EACH_ALL(n, name, expression) DEFINE_EW_LOOP(n, name, f64, double, expression)
#define EACH_FLOAT                    EACH_ALL
#define EACH_INTEGER(n, name, expression)
#include "kernel/engine/elementwise_each.inc"
