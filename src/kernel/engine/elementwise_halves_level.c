/* SPDX-License-Identifier: Apache-2.0 */
/* The elementwise functions on float16 and bfloat16 as they are stored, with AVX-512. Conversion to and from float
 * happens in registers; results have the same bits as a load, the loop of elementwise_f32_level.c and a store. */
#ifdef __AVX512F__
#  include "kernel/engine/elementwise_f32.h"
#  include "kernel/engine/halves.h"
#  include "kernel/engine/loops.h"
#  include "kernel/engine/unroll.h"
#  include "kernel/engine/vmath/vmath_16.h"

/* Loads HALVES_AT_ONCE elements of one operand from i on, and prefetches further ones, since hardware prefetchers stop
 * at pages. Compilers keep such arrays in registers, since they see the stores before the loads. */
#  define OPERAND(type, k)                                                                                             \
    _Alignas(64) float in_##k[HALVES_AT_ONCE];                                                                         \
    __builtin_prefetch((const uint16_t *)in[k] + i + 1024);                                                            \
    type##_load_32((const uint16_t *)in[k] + i, pair);                                                                 \
    _mm512_store_ps(in_##k, pair[0]);                                                                                  \
    _mm512_store_ps(in_##k + 16, pair[1])
#  define LOAD_1(type) OPERAND(type, 0)
#  define LOAD_2(type)                                                                                                 \
    LOAD_1(type);                                                                                                      \
    OPERAND(type, 1)
#  define LOAD_3(type)                                                                                                 \
    LOAD_2(type);                                                                                                      \
    OPERAND(type, 2)
#  define LOAD_4(type)                                                                                                 \
    LOAD_3(type);                                                                                                      \
    OPERAND(type, 3)
#  define LOAD_5(type)                                                                                                 \
    LOAD_4(type);                                                                                                      \
    OPERAND(type, 4)

/* `each` computes result[] of in_0[], in_1[], ... */
#  define DEFINE_HALVES(n_operands, name, type, each)                                                                  \
    void EW_LOOP(name, type)(void *out, const void *const *in, const compute_value *parameter, int64_t n);             \
    void EW_LOOP(name, type)(void *out, const void *const *in, const compute_value *parameter, int64_t n) {            \
      typedef float T;                                                                                                 \
      const T P1 = parameter[0].f32, P2 = parameter[1].f32, P3 = parameter[2].f32, P4 = parameter[3].f32;              \
      (void)P1, (void)P2, (void)P3, (void)P4;                                                                          \
      for (int64_t i = 0; i < n; i += HALVES_AT_ONCE) {                                                                \
        _Alignas(64) float result[HALVES_AT_ONCE];                                                                     \
        __m512 pair[2];                                                                                                \
        LOAD_##n_operands(type);                                                                                       \
        each;                                                                                                          \
        pair[0] = _mm512_load_ps(result);                                                                              \
        pair[1] = _mm512_load_ps(result + 16);                                                                         \
        type##_store_32((uint16_t *)out + i, pair);                                                                    \
      }                                                                                                                \
    }
#  define HALVES(n_operands, name, each)                                                                               \
    DEFINE_HALVES(n_operands, name, f16, each)                                                                         \
    DEFINE_HALVES(n_operands, name, bf16, each)

/* ---- loops in plain C -------------------------------------------------------------------------------------------- */

#  undef OPERANDS_1
#  undef OPERANDS_2
#  undef OPERANDS_3
#  undef OPERANDS_4
#  undef OPERANDS_5
#  define OPERANDS_1 UNUSED const T x = in_0[k]
#  define OPERANDS_2                                                                                                   \
    OPERANDS_1;                                                                                                        \
    UNUSED const T y = in_1[k]
#  define OPERANDS_3                                                                                                   \
    OPERANDS_2;                                                                                                        \
    UNUSED const T z = in_2[k]
#  define OPERANDS_4                                                                                                   \
    OPERANDS_3;                                                                                                        \
    UNUSED const T v = in_3[k]
#  define OPERANDS_5                                                                                                   \
    OPERANDS_4;                                                                                                        \
    UNUSED const T w = in_4[k]

#  define EACH_ELEMENT(n_operands, expression)                                                                         \
    INDEPENDENT for (int k = 0; k < HALVES_AT_ONCE; ++k) {                                                             \
      OPERANDS_##n_operands;                                                                                           \
      result[k] = (T)(expression);                                                                                     \
    }
#  define EACH_ALL(n_operands, name, expression) HALVES(n_operands, name, EACH_ELEMENT(n_operands, expression))
#  define EACH_FLOAT                             EACH_ALL
#  define EACH_INTEGER(n_operands, name, expression)
#  define EACH_16(n_operands, name, expression)
#  define EACH_NEAR(n_operands, name, expression)
#  include "kernel/engine/elementwise_each.inc"

/* ---- loops on 16 lanes ------------------------------------------------------------------------------------------- */

#  undef V
#  define V(name) name##_16
#  undef OPERANDS_1
#  undef OPERANDS_2
#  undef OPERANDS_3
#  define OPERANDS_1 UNUSED const __m512 x = _mm512_load_ps(in_0 + k)
#  define OPERANDS_2                                                                                                   \
    OPERANDS_1;                                                                                                        \
    UNUSED const __m512 y = _mm512_load_ps(in_1 + k)
#  define OPERANDS_3                                                                                                   \
    OPERANDS_2;                                                                                                        \
    UNUSED const __m512 z = _mm512_load_ps(in_2 + k)
#  define EACH_VECTOR(n_operands, expression)                                                                          \
    UNROLL for (int k = 0; k < HALVES_AT_ONCE; k += 16) {                                                              \
      OPERANDS_##n_operands;                                                                                           \
      _mm512_store_ps(result + k, expression);                                                                         \
    }
#  define EACH_16(n_operands, name, expression) HALVES(n_operands, name, EACH_VECTOR(n_operands, expression))
#  define EACH_ALL(n_operands, name, expression)
#  define EACH_FLOAT(n_operands, name, expression)
#  define EACH_INTEGER(n_operands, name, expression)
#  define EACH_NEAR(n_operands, name, expression)
#  include "kernel/engine/elementwise_each.inc"
#endif
