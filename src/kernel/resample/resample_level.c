/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled once per instruction set level; see resample_loops.h. */
#include "kernel/engine/level.h"
#include "kernel/engine/loops.h"
#include "kernel/resample/resample_loops.h"

#define ROWS(T, suffix)                                                                                                \
  static inline void rows_of_##suffix(T *restrict sum, const T *const *rows, const T *w, int n_rows, int64_t n,        \
                                      bool unit, bool add) {                                                           \
    for (int64_t i = 0; i < n; ++i) {                                                                                  \
      T s = unit ? rows[0][i] : w[0] * rows[0][i];                                                                     \
      for (int r = 1; r < n_rows; ++r) s += unit ? rows[r][i] : w[r] * rows[r][i];                                     \
      sum[i] = add ? sum[i] + s : s;                                                                                   \
    }                                                                                                                  \
  }                                                                                                                    \
  static void rows_##suffix(void *sum, const void *const *rows, const double *weight, int n_rows, int64_t n,           \
                            bool add) {                                                                                \
    const T *at[RESAMPLE_ROWS];                                                                                        \
    T w[RESAMPLE_ROWS];                                                                                                \
    for (int r = 0; r < n_rows; ++r) {                                                                                 \
      at[r] = rows[r];                                                                                                 \
      w[r] = weight ? (T)weight[r] : 1;                                                                                \
    }                                                                                                                  \
    switch (n_rows * 4 + !weight * 2 + add) { /* a loop without conditions for each case */                            \
      ROWS_CASES(suffix, 1) ROWS_CASES(suffix, 2) ROWS_CASES(suffix, 3) ROWS_CASES(suffix, 4) default : break;         \
    }                                                                                                                  \
  }
#define ROWS_CASES(suffix, R)                                                                                          \
  case R * 4: rows_of_##suffix(sum, at, w, R, n, false, false); break;                                                 \
  case R * 4 + 1: rows_of_##suffix(sum, at, w, R, n, false, true); break;                                              \
  case R * 4 + 2: rows_of_##suffix(sum, at, w, R, n, true, false); break;                                              \
  case R * 4 + 3: rows_of_##suffix(sum, at, w, R, n, true, true); break;

/* Taps beyond an output's count read its first input and are dropped, since the elements behind the last tap may be
 * infinite. */
#define FEW(T, suffix)                                                                                                 \
  static inline void few_of_##suffix(T *restrict out, const T *restrict x, const int32_t *restrict first,              \
                                     const int32_t *restrict count, const T *restrict w, int64_t pitch, int taps,      \
                                     int64_t n, bool unit) {                                                           \
    for (int64_t o = 0; o < n; ++o) {                                                                                  \
      const T *at = x + first[o];                                                                                      \
      const int32_t c = count[o];                                                                                      \
      T s = c > 0 ? unit ? at[0] : w[o] * at[0] : 0;                                                                   \
      for (int t = 1; t < taps; ++t) {                                                                                 \
        const T v = at[t < c ? t : 0];                                                                                 \
        s += t < c ? unit ? v : w[t * pitch + o] * v : 0;                                                              \
      }                                                                                                                \
      out[o] = s;                                                                                                      \
    }                                                                                                                  \
  }                                                                                                                    \
  static void few_##suffix(void *out, const void *x, const int32_t *first, const int32_t *count, const void *w,        \
                           int64_t pitch, int taps, int64_t origin, int64_t n) {                                       \
    const T *at = (const T *)x - origin;                                                                               \
    switch (taps * 2 + !w) {                                                                                           \
      FEW_CASES(suffix, 1)                                                                                             \
      FEW_CASES(suffix, 2)                                                                                             \
      FEW_CASES(suffix, 3)                                                                                             \
      FEW_CASES(suffix, 4) default : if (w) few_of_##suffix(out, at, first, count, w, pitch, taps, n, false);          \
      else few_of_##suffix(out, at, first, count, w, pitch, taps, n, true);                                            \
    }                                                                                                                  \
  }
#define FEW_CASES(suffix, TAPS)                                                                                        \
  case TAPS * 2: few_of_##suffix(out, at, first, count, w, pitch, TAPS, n, false); break;                              \
  case TAPS * 2 + 1:                                                                                                   \
    few_of_##suffix(out, at, first, count, w, pitch, TAPS, n, true);                                                   \
    break;

#define DOT(T, suffix)                                                                                                 \
  static double dot_##suffix(const void *xs, const void *ws, int64_t n) {                                              \
    const T *x = xs, *w = ws;                                                                                          \
    T lane[REDUCE_LANES] = {0};                                                                                        \
    int64_t i = 0;                                                                                                     \
    for (; i + REDUCE_LANES <= n; i += REDUCE_LANES)                                                                   \
      for (int l = 0; l < REDUCE_LANES; ++l) lane[l] += x[i + l] * w[i + l];                                           \
    for (int l = 0; i + l < n; ++l) lane[l] += x[i + l] * w[i + l];                                                    \
    for (int width = REDUCE_LANES / 2; width; width /= 2)                                                              \
      for (int l = 0; l < width; ++l) lane[l] += lane[l + width];                                                      \
    return (double)lane[0];                                                                                            \
  }
#define DIVIDE(T, suffix)                                                                                              \
  static void divide_##suffix(void *out, const double *divisor, double scale, int64_t n) {                             \
    T *const y = out;                                                                                                  \
    for (int64_t i = 0; i < n; ++i) y[i] = y[i] / (T)(divisor[i] * scale);                                             \
  }

ROWS(float, f32)
ROWS(double, f64)
FEW(float, f32)
FEW(double, f64)
DOT(float, f32)
DOT(double, f64)
DIVIDE(float, f32)
DIVIDE(double, f64)

#define PICK(T)                                                                                                        \
  {                                                                                                                    \
    T *restrict to = out;                                                                                              \
    const T *restrict from = x;                                                                                        \
    for (int64_t i = 0; i < n; ++i) to[i] = from[index[i]];                                                            \
    break;                                                                                                             \
  }

static void pick(void *out, const void *x, const int32_t *restrict index, int element_bytes, int64_t n) {
  switch (element_bytes) {
  case 1: PICK(uint8_t)
  case 2: PICK(uint16_t)
  case 4: PICK(uint32_t)
  default: PICK(uint64_t)
  }
}

const resample_loops_table LEVELED(resample_loops_table) = {
    .f32 = {.rows = rows_f32, .few = few_f32, .dot = dot_f32, .divide = divide_f32},
    .f64 = {.rows = rows_f64, .few = few_f64, .dot = dot_f64, .divide = divide_f64},
    .pick = pick,
};
