/* The elementwise functions on floats. */
#include "kernel/engine/arithmetic.h"
#include "kernel/engine/elementwise_loop.h"
#include "kernel/engine/vmath.h"

#define ABS(x)     fabsf(x)
#define EXP(x)     vexp_f32(x)
#define LOG(x)     vlog_f32(x)
#define SQRT(x)    sqrtf(x)
#define RSQRT(x)   vrsqrt_f32(x)
#define SIGMOID(x) vsigmoid_f32(x)
#define TANH(x)    vtanh_f32(x)

#define EACH_ALL(n, name, expression) DEFINE_EW_LOOP(n, name, f32, float, expression)
#define EACH_FLOAT                    EACH_ALL
#define EACH_INTEGER(n, name, expression)
#include "kernel/engine/elementwise_each.h"
