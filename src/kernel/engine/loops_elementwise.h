/* One compute type's functions out of elementwise.def. No include guard: loops_level.c includes this once per compute
 * type, with INSTANTIATE (and INSTANTIATE_F, for what only floats have) and the functions defined for it. */
#define NOTHING(name, expression)

#define LOAD_OPERANDS const T x = xs[i]
#define UNARY         INSTANTIATE
#define UNARY_F       INSTANTIATE_F
#define BINARY        NOTHING
#define BINARY_F      NOTHING
#define TERNARY       NOTHING
#define TERNARY_F     NOTHING
#include "kernel/engine/elementwise.def"
#undef LOAD_OPERANDS
#undef UNARY
#undef UNARY_F
#undef BINARY
#undef BINARY_F

#define LOAD_OPERANDS const T x = xs[i], y = ys[i]
#define UNARY         NOTHING
#define UNARY_F       NOTHING
#define BINARY        INSTANTIATE
#define BINARY_F      INSTANTIATE_F
#include "kernel/engine/elementwise.def"
#undef LOAD_OPERANDS
#undef BINARY
#undef BINARY_F
#undef TERNARY
#undef TERNARY_F

#define LOAD_OPERANDS const T x = xs[i], y = ys[i], z = zs[i]
#define BINARY        NOTHING
#define BINARY_F      NOTHING
#define TERNARY       INSTANTIATE
#define TERNARY_F     INSTANTIATE_F
#include "kernel/engine/elementwise.def"
#undef LOAD_OPERANDS
#undef UNARY
#undef UNARY_F
#undef BINARY
#undef BINARY_F
#undef TERNARY
#undef TERNARY_F
#undef NOTHING
