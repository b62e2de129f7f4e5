/* Every function of elementwise.def and loss.def, by the types that it is compiled for. No include guard: include it with
 *
 *     EACH_ALL(n, name, expression)        all compute types
 *     EACH_FLOAT(n, name, expression)      the two floats
 *     EACH_INTEGER(n, name, expression)    the two integers
 *     EACH_16(n, name, expression)         as EACH_FLOAT, which it is where it is not defined, and right on vectors, too
 *     EACH_NEAR(n, name, expression)       likewise, where near_<name> is the function for small arguments
 *
 * defined, n being the number of operands; it undefines them. Of complex numbers as they lie, by name and compute type:
 *
 *     EACH_PAIR(name, suffix, COMPUTE)     of no interest where it is not defined */
#ifndef EACH_16
#  define EACH_16 EACH_FLOAT
#endif
#ifndef EACH_NEAR
#  define EACH_NEAR EACH_FLOAT
#endif
#ifndef EACH_PAIR
#  define EACH_PAIR(name, suffix, compute)
#endif
#define UNARY(name, expression)        EACH_ALL(1, name, expression)
#define UNARY_F(name, expression)      EACH_FLOAT(1, name, expression)
#define UNARY_16(name, expression)     EACH_16(1, name, expression)
#define UNARY_NEAR(name, expression)   EACH_NEAR(1, name, expression)
#define UNARY_I(name, expression)      EACH_INTEGER(1, name, expression)
#define BINARY(name, expression)       EACH_ALL(2, name, expression)
#define BINARY_F(name, expression)     EACH_FLOAT(2, name, expression)
#define BINARY_16(name, expression)    EACH_16(2, name, expression)
#define BINARY_I(name, expression)     EACH_INTEGER(2, name, expression)
#define TERNARY(name, expression)      EACH_ALL(3, name, expression)
#define TERNARY_F(name, expression)    EACH_FLOAT(3, name, expression)
#define TERNARY_16(name, expression)   EACH_16(3, name, expression)
#define TERNARY_I(name, expression)    EACH_INTEGER(3, name, expression)
#define QUATERNARY_F(name, expression) EACH_FLOAT(4, name, expression)
#define QUINARY_F(name, expression)    EACH_FLOAT(5, name, expression)
#include "kernel/engine/elementwise.def"
#include "kernel/loss/loss.def"
#undef UNARY
#undef UNARY_F
#undef UNARY_16
#undef UNARY_NEAR
#undef UNARY_I
#undef BINARY
#undef BINARY_F
#undef BINARY_16
#undef BINARY_I
#undef TERNARY
#undef TERNARY_F
#undef TERNARY_16
#undef TERNARY_I
#undef QUATERNARY_F
#undef QUINARY_F
#undef EACH_ALL
#undef EACH_FLOAT
#undef EACH_16
#undef EACH_NEAR
#undef EACH_INTEGER
#undef EACH_PAIR
