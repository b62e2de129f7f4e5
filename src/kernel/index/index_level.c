/* SPDX-License-Identifier: Apache-2.0 */
/* Loops of gather and scatter (index_loops.h), compiled once per instruction set level. */
#include "kernel/engine/level.h"
#include "kernel/index/index_loops.h"

/* ---- indices to byte offsets ------------------------------------------------------------------------------------- */

#define INDICES(T, step)                                                                                               \
  for (int64_t i = 0; i < n; ++i) {                                                                                    \
    int64_t v = *(const T *)(const void *)(index + i * (step));                                                        \
    v += v < 0 ? below : 0;                                                                                            \
    outside |= (uint64_t)v >= (uint64_t)extent;                                                                        \
    offset[i] += v * stride;                                                                                           \
  }
#define INDEX_LOOP(name, T)                                                                                            \
  static int64_t index_##name(int64_t *restrict offset, const char *restrict index, int64_t step, int64_t n,           \
                              int64_t extent, int64_t stride, bool wraps) {                                            \
    const int64_t below = wraps ? extent : 0;                                                                          \
    int64_t outside = 0;                                                                                               \
    if (step == (int64_t)sizeof(T))                                                                                    \
      INDICES(T, (int64_t)sizeof(T))                                                                                   \
    else                                                                                                               \
      INDICES(T, step)                                                                                                 \
    if (!outside) return n;                                                                                            \
    for (int64_t i = 0;; ++i) {                                                                                        \
      const int64_t v = *(const T *)(const void *)(index + i * step);                                                  \
      if (v < -below || v >= extent) return i;                                                                         \
    }                                                                                                                  \
  }
INDEX_LOOP(i32, int32_t)
INDEX_LOOP(i64, int64_t)

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
#define BOTH(name, T, S, member, value)                                                                                \
  ACCUMULATE(add_##name, T, S, member, x + a * (value))                                                                \
  ACCUMULATE(multiply_##name, T, S, member, x *(value))
BOTH(f32, float, float, f32, v)
BOTH(f64, double, double, f64, v)
BOTH(f16, float, uint16_t, f32, half_to_float(v))
BOTH(bf16, float, uint16_t, f32, bf16_to_float(v))
BOTH(i8, int8_t, int8_t, i64, v)
BOTH(u8, uint8_t, uint8_t, i64, v)
BOTH(i16, int16_t, int16_t, i64, v)
BOTH(i32, int32_t, int32_t, i64, v)
BOTH(i64, int64_t, int64_t, i64, v)
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

typedef struct {
  uint64_t half[2];
} word16;

/* Result of a separate pass over n indices, which compilers vectorise. */
typedef struct {
  bool inside;   /* all are in range */
  bool negative; /* some indices are negative */
} index_check;

#define CHECK_EACH(index_step)                                                                                         \
  for (int64_t i = 0; i < n; ++i) {                                                                                    \
    const int64_t v = *(const I *)(const void *)(index + i * (index_step));                                            \
    outside |= (uint64_t)v - (uint64_t)low >= range;                                                                   \
    signs |= v;                                                                                                        \
  }
#define CHECK(index_name, T)                                                                                           \
  static inline index_check check_##index_name(const char *index, int64_t step, int64_t n, int64_t low,                \
                                               int64_t extent) {                                                       \
    typedef T I;                                                                                                       \
    const uint64_t range = (uint64_t)extent - (uint64_t)low;                                                           \
    int64_t outside = 0, signs = 0;                                                                                    \
    if (step == (int64_t)sizeof(I))                                                                                    \
      CHECK_EACH((int64_t)sizeof(I))                                                                                   \
    else                                                                                                               \
      CHECK_EACH(step)                                                                                                 \
    return (index_check){.inside = !outside, .negative = signs < 0};                                                   \
  }
CHECK(i32, int32_t)
CHECK(i64, int64_t)

enum { CHECKED = 128 }; /* indices per block, which are read twice while they are in L1 */

#define ELEMENT_LOOP(I, T, S, index_step, side_step, statement)                                                        \
  for (int64_t i = begin; i < end; ++i) {                                                                              \
    int64_t v = *(const I *)(const void *)(row.index + i * (index_step));                                              \
    if (wraps) v += v < 0 ? row.extent : 0;                                                                            \
    T *const t = (void *)(row.target + i * row.target_step + v * row.stride);                                          \
    S *const s = (void *)(row.side + i * (side_step));                                                                 \
    statement;                                                                                                         \
  }
/* ELEMENT_LOOP for contiguous data without negative indices. */
#define DENSE_LOOP(I, T, S, statement)                                                                                 \
  for (int64_t i = begin; i < end; ++i) {                                                                              \
    T *const t = (T *)(void *)row.target + ((const I *)(const void *)row.index)[i];                                    \
    S *const s = (S *)(void *)row.side + i;                                                                            \
    statement;                                                                                                         \
  }
#define ELEMENTS(name, index_name, I, T, S, statement)                                                                 \
  static int64_t name##_##index_name(const element_row *r) {                                                           \
    const element_row row = *r; /* a copy, since stores to the target might alias *r */                                \
    const bool side_by_side = row.index_step == (int64_t)sizeof(I) && row.side_step == (int64_t)sizeof(S);             \
    const bool is_dense = side_by_side && row.target_step == 0 && row.stride == (int64_t)sizeof(T);                    \
    const int64_t low = row.wraps ? -row.extent : 0;                                                                   \
    for (int64_t begin = 0; begin < row.n;) {                                                                          \
      int64_t end = row.n - begin < CHECKED ? row.n : begin + CHECKED;                                                 \
      const index_check found =                                                                                        \
          check_##index_name(row.index + begin * row.index_step, row.index_step, end - begin, low, row.extent);        \
      const bool wraps = found.negative;                                                                               \
      for (int64_t i = begin; !found.inside && i < end; ++i) {                                                         \
        const int64_t v = *(const I *)(const void *)(row.index + i * row.index_step);                                  \
        if (v < low || v >= row.extent) end = i;                                                                       \
      }                                                                                                                \
      if (is_dense && !wraps)                                                                                          \
        DENSE_LOOP(I, T, S, statement)                                                                                 \
      else if (side_by_side)                                                                                           \
        ELEMENT_LOOP(I, T, S, (int64_t)sizeof(I), (int64_t)sizeof(S), statement)                                       \
      else                                                                                                             \
        ELEMENT_LOOP(I, T, S, row.index_step, row.side_step, statement)                                                \
      if (!found.inside) return end;                                                                                   \
      begin = end;                                                                                                     \
    }                                                                                                                  \
    return row.n;                                                                                                      \
  }
#define ELEMENTS_BY(name, T, S, statement)                                                                             \
  ELEMENTS(name, i32, int32_t, T, S, statement)                                                                        \
  ELEMENTS(name, i64, int64_t, T, S, statement)
#define MOVE_ELEMENTS(size, T)                                                                                         \
  ELEMENTS_BY(gather_##size, T, T, *s = *t)                                                                            \
  ELEMENTS_BY(scatter_##size, T, T, *t = *s)
MOVE_ELEMENTS(w1, uint8_t)
MOVE_ELEMENTS(w2, uint16_t)
MOVE_ELEMENTS(w4, uint32_t)
MOVE_ELEMENTS(w8, uint64_t)
MOVE_ELEMENTS(w16, word16)
ELEMENTS_BY(sum_f32, float, float, *t += row.alpha.f32 * *s)
ELEMENTS_BY(sum_f64, double, double, *t += row.alpha.f64 * *s)
ELEMENTS_BY(sum_f16, float, uint16_t, *t += row.alpha.f32 * half_to_float(*s))
ELEMENTS_BY(sum_bf16, float, uint16_t, *t += row.alpha.f32 * bf16_to_float(*s))
ELEMENTS_BY(sum_i32, int32_t, int32_t, *t += (int32_t)row.alpha.i64 * *s)
ELEMENTS_BY(sum_i64, int64_t, int64_t, *t += row.alpha.i64 * *s)

#define SIZES(name, index)                                                                                             \
  { name##_w1_##index, name##_w2_##index, name##_w4_##index, name##_w8_##index, name##_w16_##index }
#define SUMS(index)                                                                                                    \
  {                                                                                                                    \
    [ACL_FLOAT] = sum_f32_##index, [ACL_DOUBLE] = sum_f64_##index, [ACL_FLOAT16] = sum_f16_##index,                    \
    [ACL_BF16] = sum_bf16_##index, [ACL_INT32] = sum_i32_##index, [ACL_INT64] = sum_i64_##index                        \
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
};
