/* SPDX-License-Identifier: Apache-2.0 */
/* Loops of gather and scatter (index_loops.h), compiled once per instruction set level. */
#include "kernel/engine/level.h"
#include "kernel/engine/unroll.h"
#include "kernel/index/index_loops.h"

/* ---- indices ----------------------------------------------------------------------------------------------------- */

/* Result of a separate pass over n indices, which compilers vectorise. */
typedef struct {
  bool inside;   /* all are in range */
  bool negative; /* some indices are negative */
} index_check;

#define I       int32_t
#define NAME(f) f##_i32
#include "kernel/index/index_type.inc"

#define I       int64_t
#define NAME(f) f##_i64
#include "kernel/index/index_type.inc"

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

#define ACCUMULATE(name, T, S, member, expression)                                                                     \
  static void name(char *to, const int64_t *at, const char *from, const int64_t *of, int64_t n, int64_t m,             \
                   compute_value alpha) {                                                                              \
    const T a = (T)alpha.member;                                                                                       \
    (void)a;                                                                                                           \
    for (int64_t i = 0; i < n; ++i) {                                                                                  \
      T *restrict const t = (void *)(to + at[i]);                                                                      \
      const S *restrict const f = (const void *)(from + of[i]);                                                        \
      for (int64_t j = 0; j < m; ++j) {                                                                                \
        const T x = t[j];                                                                                              \
        const S v = f[j];                                                                                              \
        t[j] = (T)(expression);                                                                                        \
      }                                                                                                                \
    }                                                                                                                  \
  }
/* NaN of either is the larger and the smaller one. */
#define EACH(name, T, S, member, value, quotient)                                                                      \
  ACCUMULATE(add_##name, T, S, member, x + a * (value))                                                                \
  ACCUMULATE(multiply_##name, T, S, member, x *(value))                                                                \
  ACCUMULATE(most_##name, T, S, member, x > (value) || x != x ? x : (value))                                           \
  ACCUMULATE(least_##name, T, S, member, x < (value) || x != x ? x : (value))                                          \
  ACCUMULATE(divide_##name, T, S, member, quotient)
/* Quotients of integers are truncated, and those by 0 are 0. */
#define TRUNCATED (v == 0 ? 0 : v == (__typeof__(v))-1 ? (__typeof__(v))(0 - (uint64_t)x) : x / v)
EACH(f32, float, float, f32, v, x / v)
EACH(f64, double, double, f64, v, x / v)
EACH(f16, float, uint16_t, f32, half_to_float(v), x / half_to_float(v))
EACH(bf16, float, uint16_t, f32, bf16_to_float(v), x / bf16_to_float(v))
EACH(i8, int8_t, int8_t, i64, v, TRUNCATED)
EACH(u8, uint8_t, uint8_t, i64, v, v == 0 ? 0 : x / v)
EACH(i16, int16_t, int16_t, i64, v, TRUNCATED)
EACH(i32, int32_t, int32_t, i64, v, TRUNCATED)
EACH(i64, int64_t, int64_t, i64, v, TRUNCATED)
ACCUMULATE(add_bool, uint8_t, uint8_t, i64, (x != 0) | ((v != 0) & (a != 0)))
ACCUMULATE(multiply_bool, uint8_t, uint8_t, i64, (x != 0) & (v != 0))

/* Complex numbers with real and imaginary part of type P, computed in W. There is no factor alpha. */
#define ACCUMULATE_COMPLEX(name, P, W, real, imaginary)                                                                \
  static void name(char *to, const int64_t *at, const char *from, const int64_t *of, int64_t n, int64_t m,             \
                   compute_value alpha) {                                                                              \
    (void)alpha;                                                                                                       \
    for (int64_t i = 0; i < n; ++i) {                                                                                  \
      P *restrict const t = (void *)(to + at[i]);                                                                      \
      const P *restrict const f = (const void *)(from + of[i]);                                                        \
      for (int64_t j = 0; j < 2 * m; j += 2) {                                                                         \
        const W a = t[j], b = t[j + 1], c = f[j], d = f[j + 1];                                                        \
        t[j] = (P)(real);                                                                                              \
        t[j + 1] = (P)(imaginary);                                                                                     \
      }                                                                                                                \
    }                                                                                                                  \
  }
#define BOTH_COMPLEX(name, P)                                                                                          \
  ACCUMULATE_COMPLEX(add_##name, P, P, a + c, b + d)                                                                   \
  ACCUMULATE_COMPLEX(multiply_##name, P, double, a *c - b * d, a * d + b * c)
BOTH_COMPLEX(c64, float)
BOTH_COMPLEX(c128, double)

/* ---- slices of one element --------------------------------------------------------------------------------------- */

enum { CHECKED = 128 }; /* indices per block, which are read twice while they are in L1 */

#define NAME_OF(i) gather_w1_##i
#define T          uint8_t
#define STATEMENT  *s = *t
#include "kernel/index/index_operation.inc"

#define NAME_OF(i) scatter_w1_##i
#define T          uint8_t
#define STATEMENT  *t = *s
#include "kernel/index/index_operation.inc"

#define NAME_OF(i) gather_w2_##i
#define T          uint16_t
#define STATEMENT  *s = *t
#include "kernel/index/index_operation.inc"

#define NAME_OF(i) scatter_w2_##i
#define T          uint16_t
#define STATEMENT  *t = *s
#include "kernel/index/index_operation.inc"

#define NAME_OF(i) gather_w4_##i
#define T          uint32_t
#define STATEMENT  *s = *t
#include "kernel/index/index_operation.inc"

#define NAME_OF(i) scatter_w4_##i
#define T          uint32_t
#define STATEMENT  *t = *s
#include "kernel/index/index_operation.inc"

#define NAME_OF(i) gather_w8_##i
#define T          uint64_t
#define STATEMENT  *s = *t
#include "kernel/index/index_operation.inc"

#define NAME_OF(i) scatter_w8_##i
#define T          uint64_t
#define STATEMENT  *t = *s
#include "kernel/index/index_operation.inc"

#define NAME_OF(i) gather_w16_##i
#define T          word16
#define STATEMENT  *s = *t
#include "kernel/index/index_operation.inc"

#define NAME_OF(i) scatter_w16_##i
#define T          word16
#define STATEMENT  *t = *s
#include "kernel/index/index_operation.inc"

#define NAME_OF(i) sum_f32_##i
#define T          float
#define STATEMENT  *t += row->alpha.f32 * *s
#include "kernel/index/index_operation.inc"

#define NAME_OF(i) sum_f64_##i
#define T          double
#define STATEMENT  *t += row->alpha.f64 * *s
#include "kernel/index/index_operation.inc"

#define NAME_OF(i) sum_f16_##i
#define T          float
#define S          uint16_t
#define STATEMENT  *t += row->alpha.f32 * half_to_float(*s)
#include "kernel/index/index_operation.inc"

#define NAME_OF(i) sum_bf16_##i
#define T          float
#define S          uint16_t
#define STATEMENT  *t += row->alpha.f32 * bf16_to_float(*s)
#include "kernel/index/index_operation.inc"

#define NAME_OF(i) sum_i32_##i
#define T          int32_t
#define STATEMENT  *t += (int32_t)row->alpha.i64 * *s
#include "kernel/index/index_operation.inc"

#define NAME_OF(i) sum_i64_##i
#define T          int64_t
#define STATEMENT  *t += row->alpha.i64 * *s
#include "kernel/index/index_operation.inc"

#define SIZES(name, index)                                                                                             \
  { name##_w1_##index, name##_w2_##index, name##_w4_##index, name##_w8_##index, name##_w16_##index }
#define SUMS(index)                                                                                                    \
  {                                                                                                                    \
    [ACL_FLOAT] = sum_f32_##index, [ACL_DOUBLE] = sum_f64_##index, [ACL_FLOAT16] = sum_f16_##index,                    \
    [ACL_BF16] = sum_bf16_##index, [ACL_INT32] = sum_i32_##index, [ACL_INT64] = sum_i64_##index                        \
  }

#define OF_REALS(name)                                                                                                 \
  {                                                                                                                    \
    [ACL_FLOAT] = name##_f32, [ACL_DOUBLE] = name##_f64, [ACL_FLOAT16] = name##_f16, [ACL_BF16] = name##_bf16,         \
    [ACL_INT8] = name##_i8, [ACL_UINT8] = name##_u8, [ACL_INT16] = name##_i16, [ACL_INT32] = name##_i32,               \
    [ACL_INT64] = name##_i64                                                                                           \
  }

const index_loops LEVELED(index_loops) = {
    .index = {index_i32, index_i64},
    .gather_elements = {SIZES(gather, i32), SIZES(gather, i64)},
    .scatter_elements = {SIZES(scatter, i32), SIZES(scatter, i64)},
    .add_elements = {SUMS(i32), SUMS(i64)},
    .add = {[ACL_FLOAT] = add_f32,
            [ACL_DOUBLE] = add_f64,
            [ACL_FLOAT16] = add_f16,
            [ACL_BF16] = add_bf16,
            [ACL_INT8] = add_i8,
            [ACL_UINT8] = add_u8,
            [ACL_INT16] = add_i16,
            [ACL_INT32] = add_i32,
            [ACL_INT64] = add_i64,
            [ACL_BOOL] = add_bool,
            [ACL_COMPLEX64] = add_c64,
            [ACL_COMPLEX128] = add_c128},
    .multiply = {[ACL_FLOAT] = multiply_f32,
                 [ACL_DOUBLE] = multiply_f64,
                 [ACL_FLOAT16] = multiply_f16,
                 [ACL_BF16] = multiply_bf16,
                 [ACL_INT8] = multiply_i8,
                 [ACL_UINT8] = multiply_u8,
                 [ACL_INT16] = multiply_i16,
                 [ACL_INT32] = multiply_i32,
                 [ACL_INT64] = multiply_i64,
                 [ACL_BOOL] = multiply_bool,
                 [ACL_COMPLEX64] = multiply_c64,
                 [ACL_COMPLEX128] = multiply_c128},
    .most = OF_REALS(most),
    .least = OF_REALS(least),
    .divide = OF_REALS(divide),
};
