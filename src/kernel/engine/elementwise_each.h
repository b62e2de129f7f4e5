/* Every function of elementwise.def, by the types that it is compiled for. No include guard: include it with
 *
 *     EACH_ALL(n, name, expression)        all compute types
 *     EACH_FLOAT(n, name, expression)      the two floats
 *     EACH_INTEGER(n, name, expression)    the two integers
 *
 * defined, n being the number of operands; it undefines them. */
#define UNARY(name, expression)     EACH_ALL(1, name, expression)
#define UNARY_F(name, expression)   EACH_FLOAT(1, name, expression)
#define UNARY_I(name, expression)   EACH_INTEGER(1, name, expression)
#define BINARY(name, expression)    EACH_ALL(2, name, expression)
#define BINARY_F(name, expression)  EACH_FLOAT(2, name, expression)
#define BINARY_I(name, expression)  EACH_INTEGER(2, name, expression)
#define TERNARY(name, expression)   EACH_ALL(3, name, expression)
#define TERNARY_F(name, expression) EACH_FLOAT(3, name, expression)
#define TERNARY_I(name, expression) EACH_INTEGER(3, name, expression)
#include "kernel/engine/elementwise.def"
#undef UNARY
#undef UNARY_F
#undef UNARY_I
#undef BINARY
#undef BINARY_F
#undef BINARY_I
#undef TERNARY
#undef TERNARY_F
#undef TERNARY_I
#undef EACH_ALL
#undef EACH_FLOAT
#undef EACH_INTEGER
