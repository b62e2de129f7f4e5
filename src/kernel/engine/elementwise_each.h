/* SPDX-License-Identifier: Apache-2.0 */
/* Expands elementwise.def: all elementwise functions, by the compute types that they are compiled for. An X-macro file
 * without include guard. Before including it, define
 *
 *     EACH_ALL(n, name, expression)        functions for all compute types; n is the number of operands
 *     EACH_FLOAT(n, name, expression)      functions for float and double
 *     EACH_INTEGER(n, name, expression)    functions for int32_t and int64_t
 *
 * and, if they need to be told from the others,
 *
 *     EACH_16(n, name, expression)         those of EACH_FLOAT that are also valid for vectors of 16 floats
 *     EACH_NEAR(n, name, expression)       those of EACH_FLOAT with a function near_<name> for small arguments
 *     EACH_PAIR(name, suffix, COMPUTE)     products of interleaved complex numbers, each for one compute type
 *     EACH_TRAITS(name, ...)               after each of the above but EACH_PAIR: the traits, or nothing
 *
 * EACH_16 and EACH_NEAR default to EACH_FLOAT, EACH_PAIR and EACH_TRAITS to nothing. All are undefined at the end. */
#ifndef EACH_16
#  define EACH_16 EACH_FLOAT
#endif
#ifndef EACH_NEAR
#  define EACH_NEAR EACH_FLOAT
#endif
#ifndef EACH_PAIR
#  define EACH_PAIR(name, suffix, compute)
#endif
#ifndef EACH_TRAITS
#  define EACH_TRAITS(name, ...)
#endif
#define UNARY(name, expression, ...)        EACH_ALL(1, name, expression) EACH_TRAITS(name, __VA_ARGS__)
#define UNARY_F(name, expression, ...)      EACH_FLOAT(1, name, expression) EACH_TRAITS(name, __VA_ARGS__)
#define UNARY_16(name, expression, ...)     EACH_16(1, name, expression) EACH_TRAITS(name, __VA_ARGS__)
#define UNARY_NEAR(name, expression, ...)   EACH_NEAR(1, name, expression) EACH_TRAITS(name, __VA_ARGS__)
#define UNARY_I(name, expression, ...)      EACH_INTEGER(1, name, expression) EACH_TRAITS(name, __VA_ARGS__)
#define BINARY(name, expression, ...)       EACH_ALL(2, name, expression) EACH_TRAITS(name, __VA_ARGS__)
#define BINARY_F(name, expression, ...)     EACH_FLOAT(2, name, expression) EACH_TRAITS(name, __VA_ARGS__)
#define BINARY_16(name, expression, ...)    EACH_16(2, name, expression) EACH_TRAITS(name, __VA_ARGS__)
#define BINARY_I(name, expression, ...)     EACH_INTEGER(2, name, expression) EACH_TRAITS(name, __VA_ARGS__)
#define TERNARY(name, expression, ...)      EACH_ALL(3, name, expression) EACH_TRAITS(name, __VA_ARGS__)
#define TERNARY_F(name, expression, ...)    EACH_FLOAT(3, name, expression) EACH_TRAITS(name, __VA_ARGS__)
#define TERNARY_16(name, expression, ...)   EACH_16(3, name, expression) EACH_TRAITS(name, __VA_ARGS__)
#define TERNARY_I(name, expression, ...)    EACH_INTEGER(3, name, expression) EACH_TRAITS(name, __VA_ARGS__)
#define QUATERNARY_F(name, expression, ...) EACH_FLOAT(4, name, expression) EACH_TRAITS(name, __VA_ARGS__)
#define QUINARY_F(name, expression, ...)    EACH_FLOAT(5, name, expression) EACH_TRAITS(name, __VA_ARGS__)
#include "kernel/engine/elementwise.def"
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
#undef EACH_TRAITS
