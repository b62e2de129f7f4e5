/* SPDX-License-Identifier: Apache-2.0 */
/* The elementwise functions on int32_t and int64_t (elementwise.def). Integers wrap. */
#include "kernel/engine/arithmetic.h"
#include "kernel/engine/elementwise_loop.h"

#define ABS(x)     ((x) < 0 ? -(x) : (x))
#define FLOOR(x)   (x)
#define CEIL(x)    (x)
#define ROUND(x)   (x)
#define TRUNC(x)   (x)
#define SIGNBIT(x) ((x) < 0)

#define EACH_ALL(n, name, expression) DEFINE_EW_LOOP(n, name, i32, int32_t, expression)
#define EACH_FLOAT(n, name, expression)
#define EACH_INTEGER EACH_ALL
#include "kernel/engine/elementwise_each.inc"

#define EACH_ALL(n, name, expression) DEFINE_EW_LOOP(n, name, i64, int64_t, expression)
#define EACH_FLOAT(n, name, expression)
#define EACH_INTEGER EACH_ALL
#include "kernel/engine/elementwise_each.inc"
