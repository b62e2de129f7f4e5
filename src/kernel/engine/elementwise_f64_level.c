/* The elementwise functions on doubles. */
#include "kernel/engine/arithmetic.h"
#include "kernel/engine/elementwise_loop.h"
#include "kernel/engine/vmath.h"

#define ABS(x)     fabs(x)
#define EXP(x)     exp(x)
#define LOG(x)     log(x)
#define SQRT(x)    sqrt(x)
#define RSQRT(x)   vrsqrt_f64(x)
#define SIGMOID(x) vsigmoid_f64(x)
#define TANH(x)    tanh(x)

#define EACH_ALL(n, name, expression) DEFINE_EW_LOOP(n, name, f64, double, expression)
#define EACH_FLOAT                    EACH_ALL
#define EACH_INTEGER(n, name, expression)
#include "kernel/engine/elementwise_each.h"
