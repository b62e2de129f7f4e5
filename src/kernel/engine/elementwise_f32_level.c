/* The elementwise functions on floats. */
#include "kernel/engine/arithmetic.h"
#include "kernel/engine/elementwise_loop.h"
#include "kernel/engine/vmath.h"

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

#define EACH_ALL(n, name, expression) DEFINE_EW_LOOP(n, name, f32, float, expression)
#define EACH_FLOAT                    EACH_ALL
#define EACH_INTEGER(n, name, expression)
#include "kernel/engine/elementwise_each.h"
