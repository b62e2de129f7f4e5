/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of reductions; see fold.h. */
#include <math.h>
#include <string.h>

#include "kernel/engine/level.h"
#include "kernel/engine/vmath.h"
#include "kernel/reduce/fold.h"

#if defined(__AVX512F__)
#  include <immintrin.h>
#endif

/* bytes: rows this far apart are prefetched, since hardware prefetchers stop at pages */
enum { FAR_BYTES = 2048, AHEAD = 8 };

/* Prefetches for a loop that reads the rows of a matrix in turn. */
static inline void reduce_prefetch(const char *row, int64_t pitch, int64_t bytes) {
  if (pitch < FAR_BYTES) return;
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(row + AHEAD * pitch + i);
}

/* ---- reductions to one value: X is read, T is in the lanes, `member` is that of the result
 * ------------------------ */

/* One level of the tree over the lanes; explicit, so that lanes stay in registers. */
#define HALVE(T, half, JOIN)                                                                                           \
  for (int l = 0; l < half; ++l) {                                                                                     \
    const T a = lane[l], b = lane[l + half];                                                                           \
    lane[l] = JOIN;                                                                                                    \
  }
_Static_assert(FOLD_LANES == 32, "the tree has five levels");

/* Loads the first n of FOLD_LANES elements of `size` bytes; the others are undefined. */
static inline void load_lanes(void *to, const void *from, int n, int size) {
#if defined(__AVX512F__)
  for (int at = 0, words = n * size / 4; at < FOLD_LANES * size; at += 64, words -= 16) {
    const __mmask16 lanes = (__mmask16)_bzhi_u32(0xffff, words < 0 ? 0 : (unsigned)words);
    _mm512_storeu_si512((char *)to + at, _mm512_maskz_loadu_epi32(lanes, (const char *)from + at));
  }
#else
  memset(to, 0, (size_t)(FOLD_LANES * size));
  memcpy(to, from, (size_t)(n * size));
#endif
}

/* Some of these are unused where fold_vectors.h has a replacement. */
#define LOOP static __attribute__((unused)) void

/* Defines name##_rows as name##_row for each row. */
#define ROWS(name)                                                                                                     \
  LOOP name##_rows(const fold_rows *of, const double *shift, fold_value *value, fold_value *second) {                  \
    const char *x = of->x;                                                                                             \
    for (int64_t r = 0; r < of->count; ++r, x += of->pitch) name##_row(x, of->n, shift[r], value + r, second + r);     \
  }

#define ROW(name, X, T, member, INIT, TERM, JOIN)                                                                      \
  LOOP name##_row(const void *from, int64_t n, double shift, fold_value *value, fold_value *second) {                  \
    const X *const xs = from;                                                                                          \
    T lane[FOLD_LANES];                                                                                                \
    int64_t i = 0;                                                                                                     \
    (void)shift, (void)second;                                                                                         \
    for (int l = 0; l < FOLD_LANES; ++l) lane[l] = INIT;                                                               \
    for (; i + FOLD_LANES <= n; i += FOLD_LANES) {                                                                     \
      for (int l = 0; l < FOLD_LANES; ++l) {                                                                           \
        const T x = (T)xs[i + l], a = lane[l], b = TERM;                                                               \
        lane[l] = JOIN;                                                                                                \
      }                                                                                                                \
    }                                                                                                                  \
    if (i < n) {                                                                                                       \
      X rest[FOLD_LANES];                                                                                              \
      const int left = (int)(n - i);                                                                                   \
      load_lanes(rest, xs + i, left, sizeof(X));                                                                       \
      for (int l = 0; l < FOLD_LANES; ++l) {                                                                           \
        const T x = (T)rest[l], a = lane[l], b = TERM;                                                                 \
        lane[l] = l < left ? JOIN : lane[l];                                                                           \
      }                                                                                                                \
    }                                                                                                                  \
    HALVE(T, 16, JOIN)                                                                                                 \
    HALVE(T, 8, JOIN) HALVE(T, 4, JOIN) HALVE(T, 2, JOIN) HALVE(T, 1, JOIN) value->member = lane[0];                   \
  }

/* As ROW, for maxima and minima of floats: a plain comparison takes one instruction, and NaNs are detected
 * separately. */
#define ROW_ORDER(name, X, T, member, INIT, TERM, BEATS)                                                               \
  LOOP name##_row(const void *from, int64_t n, double shift, fold_value *value, fold_value *second) {                  \
    const X *const xs = from;                                                                                          \
    T lane[FOLD_LANES];                                                                                                \
    int32_t odd[FOLD_LANES] = {0}, any = 0;                                                                            \
    int64_t i = 0;                                                                                                     \
    (void)shift, (void)second;                                                                                         \
    for (int l = 0; l < FOLD_LANES; ++l) lane[l] = INIT;                                                               \
    for (; i + FOLD_LANES <= n; i += FOLD_LANES) {                                                                     \
      for (int l = 0; l < FOLD_LANES; ++l) {                                                                           \
        const T x = (T)xs[i + l], b = TERM;                                                                            \
        lane[l] = b BEATS lane[l] ? b : lane[l];                                                                       \
        odd[l] |= x != x;                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
    if (i < n) {                                                                                                       \
      X rest[FOLD_LANES];                                                                                              \
      const int left = (int)(n - i);                                                                                   \
      load_lanes(rest, xs + i, left, sizeof(X));                                                                       \
      for (int l = 0; l < FOLD_LANES; ++l) {                                                                           \
        const T x = (T)rest[l], b = TERM;                                                                              \
        lane[l] = ((l < left) & (b BEATS lane[l])) ? b : lane[l];                                                      \
        odd[l] |= (l < left) & (x != x);                                                                               \
      }                                                                                                                \
    }                                                                                                                  \
    for (int l = 0; l < FOLD_LANES; ++l) any |= odd[l];                                                                \
    HALVE(T, 16, (b BEATS a ? b : a))                                                                                  \
    HALVE(T, 8, (b BEATS a ? b : a))                                                                                   \
    HALVE(T, 4, (b BEATS a ? b : a))                                                                                   \
    HALVE(T, 2, (b BEATS a ? b : a)) HALVE(T, 1, (b BEATS a ? b : a)) value->member = any ? (T)NAN : lane[0];          \
  }

/* Lane l of `width` columns in a state. Lanes are adjacent, so FOLD_LANES contiguous rows of a strip can be processed
 * as one wide row of lanes, which makes loops longer. */
#define LANE(T, state, l, width) ((T *)(state) + (l) * (width))
#define SECOND_STATE(state)      ((void *)((char *)(state) + FOLD_STATE_BYTES / 2))

/* How many rows can be processed in this way: those that fill all lanes. */
static inline int64_t adjoining_rows(int64_t pitch, int64_t k, int64_t n, int64_t width, int64_t size) {
  return pitch == width * size && width < FOLD_WIDTH && k % FOLD_LANES == 0 ? n - n % FOLD_LANES : 0;
}

#if defined(__AVX512F__)
#  include "kernel/reduce/fold_vectors.h"
#endif

#define STEP(name, X, T, INIT, TERM, JOIN)                                                                             \
  static inline __attribute__((always_inline)) void name##_strip(                                                      \
      void *state, const void *from, int64_t pitch, int64_t k, int64_t n, int64_t width, const double *shift_of) {     \
    const char *row = from;                                                                                            \
    (void)shift_of;                                                                                                    \
    for (int64_t end = k + n; k < end; ++k, row += pitch) {                                                            \
      const X *const xs = (const X *)(const void *)row;                                                                \
      T *const lane = LANE(T, state, k % FOLD_LANES, width);                                                           \
      reduce_prefetch(row, pitch, width *(int64_t)sizeof(X));                                                          \
      if (k < FOLD_LANES) {                                                                                            \
        INDEPENDENT for (int64_t j = 0; j < width; ++j) {                                                              \
          const double shift = SHIFT(j);                                                                               \
          const T x = (T)xs[j], a = INIT, b = TERM;                                                                    \
          (void)shift;                                                                                                 \
          lane[j] = JOIN;                                                                                              \
        }                                                                                                              \
      } else {                                                                                                         \
        INDEPENDENT for (int64_t j = 0; j < width; ++j) {                                                              \
          const double shift = SHIFT(j);                                                                               \
          const T x = (T)xs[j], a = lane[j], b = TERM;                                                                 \
          (void)shift;                                                                                                 \
          lane[j] = JOIN;                                                                                              \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
  }                                                                                                                    \
                                                                                                                       \
  LOOP name##_adjoining(T *lane, const X *xs, bool is_new, int64_t n, int64_t width) {                                 \
    const int64_t wide = FOLD_LANES * width;                                                                           \
    const double shift = 0;                                                                                            \
    (void)shift;                                                                                                       \
    if (is_new)                                                                                                        \
      for (int64_t j = 0; j < wide; ++j) lane[j] = INIT;                                                               \
    for (int64_t k = 0; k < n; k += FOLD_LANES, xs += wide) INDEPENDENT for (int64_t j = 0; j < wide; ++j) {           \
        const T x = (T)xs[j], a = lane[j], b = TERM;                                                                   \
        lane[j] = JOIN;                                                                                                \
      }                                                                                                                \
  }                                                                                                                    \
                                                                                                                       \
  /* Most strips have full width: loops of constant length. */                                                         \
  LOOP name##_step(void *state, const void *from, int64_t pitch, int64_t k, int64_t n, int64_t width,                  \
                   const double *shift_of) {                                                                           \
    const int64_t adjoining = SHIFTS ? 0 : adjoining_rows(pitch, k, n, width, sizeof(X));                              \
    if (adjoining) name##_adjoining(state, from, k == 0, adjoining, width);                                            \
    from = (const char *)from + adjoining * pitch;                                                                     \
    k += adjoining;                                                                                                    \
    n -= adjoining;                                                                                                    \
    if (width == FOLD_WIDTH)                                                                                           \
      name##_strip(state, from, pitch, k, n, FOLD_WIDTH, shift_of);                                                    \
    else                                                                                                               \
      name##_strip(state, from, pitch, k, n, width, shift_of);                                                         \
  }

/* An unused lane holds INIT, the neutral element. */
#define TREE(T, state, JOIN)                                                                                           \
  for (int half = FOLD_LANES / 2; half; half /= 2) {                                                                   \
    T *const as = LANE(T, state, 0, width);                                                                            \
    const T *const bs = LANE(T, state, half, width);                                                                   \
    const int64_t lanes = n - half < half ? n - half : half;                                                           \
    INDEPENDENT for (int64_t j = 0; j < lanes * width; ++j) {                                                          \
      const T a = as[j], b = bs[j];                                                                                    \
      as[j] = JOIN;                                                                                                    \
    }                                                                                                                  \
  }

#define END(name, T, member, JOIN)                                                                                     \
  static void name##_end(void *state, int64_t n, int64_t width, fold_value *value, fold_value *second) {               \
    (void)second;                                                                                                      \
    TREE(T, state, JOIN)                                                                                               \
    const T *const results = state;                                                                                    \
    for (int64_t j = 0; j < width; ++j) value[j].member = results[j];                                                  \
  }

#define FOLD(name, X, T, member, INIT, TERM, JOIN)                                                                     \
  ROW(name, X, T, member, INIT, TERM, JOIN) ROWS(name) STEP(name, X, T, INIT, TERM, JOIN) END(name, T, member, JOIN)

#define ADD a + b
/* NaN takes precedence. */
#define LARGER  (((b > a) | (b != b)) ? b : a)
#define SMALLER (((b < a) | (b != b)) ? b : a)
#define FOLD_F(name, INIT, TERM, JOIN)                                                                                 \
  FOLD(name##_f32, float, double, f64, INIT, TERM, JOIN) FOLD(name##_f64, double, double, f64, INIT, TERM, JOIN)
/* Different NaNs become the same one. */
#define END_ORDER(name, T)                                                                                             \
  static void name##_end_order(void *state, int64_t n, int64_t width, fold_value *value, fold_value *second) {         \
    name##_end(state, n, width, value, second);                                                                        \
    for (int64_t j = 0; j < width; ++j) value[j].f64 = value[j].f64 == value[j].f64 ? value[j].f64 : (double)NAN;      \
  }
#define ORDER_F(name, X, INIT, TERM, BEATS, JOIN)                                                                      \
  ROW_ORDER(name, X, X, f64, INIT, TERM, BEATS)                                                                        \
  ROWS(name) STEP(name, X, X, INIT, TERM, JOIN) END(name, X, f64, JOIN) END_ORDER(name, X)
#define ORDER(name, INIT, INIT_I64, TERM, BEATS, JOIN)                                                                 \
  ORDER_F(name##_f32, float, INIT, TERM, BEATS, JOIN)                                                                  \
  ORDER_F(name##_f64, double, INIT, TERM, BEATS, JOIN)                                                                 \
  FOLD(name##_i64, int64_t, int64_t, i64, INIT_I64, TERM, JOIN)
/* Comparisons need no wider type. */
#define FOLD_ORDER(name, INIT, INIT_I64, TERM, TERM_I64, JOIN)                                                         \
  FOLD(name##_f32, float, float, f64, INIT, TERM, JOIN)                                                                \
  FOLD(name##_f64, double, double, f64, INIT, TERM, JOIN)                                                              \
  FOLD(name##_i64, int64_t, int64_t, i64, INIT_I64, TERM_I64, JOIN)

#define SHIFTS   false
#define SHIFT(j) 0
FOLD(sum_f32, float, float, f64, 0, x, ADD)
FOLD(sum_f64, double, double, f64, 0, x, ADD)
FOLD(sum_abs_f32, float, float, f64, 0, fabsf(x), ADD)
FOLD(sum_abs_f64, double, double, f64, 0, fabs(x), ADD)
FOLD_F(sum_square, 0, x *x, ADD)
FOLD(sum_not_nan_f32, float, float, f64, 0, (x == x ? x : 0), ADD)
FOLD(sum_not_nan_f64, double, double, f64, 0, (x == x ? x : 0), ADD)
FOLD_F(count, 0, (x != 0), ADD)
FOLD_F(product, 1, x, a *b)
FOLD(sum_i64, int64_t, int64_t, i64, 0, x, ADD)
FOLD(product_i64, int64_t, int64_t, i64, 1, x, a *b)
ORDER(max, -INFINITY, INT64_MIN, x, >, LARGER)
ORDER(min, INFINITY, INT64_MAX, x, <, SMALLER)
ORDER(max_abs, 0, 0, (x < 0 ? -x : x), >, LARGER)
ORDER(min_abs, INFINITY, INT64_MAX, (x < 0 ? -x : x), <, SMALLER)
FOLD_ORDER(any, 0, 0, (x != 0), (x != 0), (a > b ? a : b))
FOLD_ORDER(all, 1, 1, (x != 0), (x != 0), (a < b ? a : b))
#undef SHIFT
#undef SHIFTS
#define SHIFTS   true
#define SHIFT(j) shift_of[j]
FOLD_F(sum_power, 0, pow(fabs(x), shift), ADD)
FOLD(sum_exp_f32, float, double, f64, 0, wide_exp(x - shift), ADD)
FOLD(sum_exp_f64, double, double, f64, 0, exp(x - shift), ADD)

/* ---- reductions to two values ------------------------------------------------------------------------------------ */

/* Two reductions of the same elements; the second one uses the second half of the state. */
#define PAIR(name, X, T, member, INIT_1, TERM_1, JOIN_1, INIT_2, TERM_2, JOIN_2)                                       \
  ROW(name##_1, X, T, member, INIT_1, TERM_1, JOIN_1)                                                                  \
  ROW(name##_2, X, T, member, INIT_2, TERM_2, JOIN_2)                                                                  \
  STEP(name##_1, X, T, INIT_1, TERM_1, JOIN_1)                                                                         \
  STEP(name##_2, X, T, INIT_2, TERM_2, JOIN_2)                                                                         \
  END(name##_1, T, member, JOIN_1)                                                                                     \
  END(name##_2, T, member, JOIN_2)                                                                                     \
  LOOP name##_row(const void *x, int64_t n, double shift, fold_value *value, fold_value *second) {                     \
    name##_1_row(x, n, shift, value, NULL);                                                                            \
    name##_2_row(x, n, shift, second, NULL);                                                                           \
  }                                                                                                                    \
  ROWS(name)                                                                                                           \
  LOOP name##_step(void *state, const void *x, int64_t pitch, int64_t k, int64_t n, int64_t width,                     \
                   const double *shift) {                                                                              \
    /* few rows at a time, so that the second reduction reads them from L1 */                                          \
    for (int64_t i = 0, rows; i < n; i += rows) {                                                                      \
      rows = n - i < FOLD_LANES ? n - i : FOLD_LANES;                                                                  \
      const char *from = (const char *)x + i * pitch;                                                                  \
      name##_1_step(state, from, pitch, k + i, rows, width, shift);                                                    \
      name##_2_step(SECOND_STATE(state), from, pitch, k + i, rows, width, shift);                                      \
    }                                                                                                                  \
  }                                                                                                                    \
  static void name##_end(void *state, int64_t n, int64_t width, fold_value *value, fold_value *second) {               \
    name##_1_end(state, n, width, value, NULL);                                                                        \
    name##_2_end(SECOND_STATE(state), n, width, second, NULL);                                                         \
  }

PAIR(deviations_f32, float, double, f64, 0, (x - shift), ADD, 0, (x - shift) * (x - shift), ADD)
PAIR(deviations_f64, double, double, f64, 0, (x - shift), ADD, 0, (x - shift) * (x - shift), ADD)
#undef SHIFT
#undef SHIFTS
#define SHIFTS   false
#define SHIFT(j) 0
PAIR(min_max_f32, float, float, f64, INFINITY, x, SMALLER, -INFINITY, x, LARGER)
PAIR(min_max_f64, double, double, f64, INFINITY, x, SMALLER, -INFINITY, x, LARGER)
PAIR(min_max_i64, int64_t, int64_t, i64, INT64_MAX, x, SMALLER, INT64_MIN, x, LARGER)

/* ---- indices of maxima and minima: I, an integer of T's size, in the second half of the state -------------------- */

#define ARG(name, order, T, I, member, BEATS)                                                                          \
  LOOP name##_row(const void *from, int64_t n, double shift, fold_value *value, fold_value *second) {                  \
    const T *const xs = from;                                                                                          \
    order##_row(from, n, shift, value, NULL);                                                                          \
    const T best = (T)value->member;                                                                                   \
    /* The first equal element: by vectors up to the one that contains it. */                                          \
    int64_t i = 0;                                                                                                     \
    for (int found = 0; i + FOLD_LANES <= n; i += FOLD_LANES) {                                                        \
      for (int l = 0; l < FOLD_LANES; ++l) found |= xs[i + l] == best || (xs[i + l] != xs[i + l] && best != best);     \
      if (found) break;                                                                                                \
    }                                                                                                                  \
    while (!(xs[i] == best || (xs[i] != xs[i] && best != best))) ++i;                                                  \
    value->member = xs[i]; /* keeps the sign of a zero */                                                              \
    second->i64 = i;                                                                                                   \
  }                                                                                                                    \
  ROWS(name)                                                                                                           \
  /* The first n contiguous rows: each lane separately, then the first of the lanes' best elements. */                 \
  LOOP name##_adjoining(T *best, I *place, const T *xs, int64_t n, int64_t width) {                                    \
    const int64_t wide = FOLD_LANES * width;                                                                           \
    memcpy(best, xs, (size_t)wide * sizeof *best);                                                                     \
    memset(place, 0, (size_t)wide * sizeof *place);                                                                    \
    for (int64_t k = FOLD_LANES; k < n; k += FOLD_LANES) {                                                             \
      xs += wide;                                                                                                      \
      INDEPENDENT for (int64_t j = 0; j < wide; ++j) {                                                                 \
        const T b = xs[j], a = best[j];                                                                                \
        const int beats = BEATS;                                                                                       \
        best[j] = beats ? b : a;                                                                                       \
        place[j] = beats ? (I)k : place[j];                                                                            \
      }                                                                                                                \
    }                                                                                                                  \
    for (int64_t l = 1; l < FOLD_LANES; ++l)                                                                           \
      for (int64_t j = 0; j < width; ++j) {                                                                            \
        const T b = best[l * width + j], a = best[j];                                                                  \
        const I at = place[l * width + j] + (I)l;                                                                      \
        const int beats = (BEATS) | (((b == a) | ((b != b) & (a != a))) & (at < place[j]));                            \
        best[j] = beats ? b : a;                                                                                       \
        place[j] = beats ? at : place[j];                                                                              \
      }                                                                                                                \
  }                                                                                                                    \
  LOOP name##_step(void *state, const void *from, int64_t pitch, int64_t k, int64_t n, int64_t width,                  \
                   const double *shift) {                                                                              \
    T *const best = state;                                                                                             \
    I *const place = SECOND_STATE(state);                                                                              \
    const char *row = from;                                                                                            \
    (void)shift;                                                                                                       \
    if (k == 0 && adjoining_rows(pitch, k, n, width, sizeof(T))) {                                                     \
      k = adjoining_rows(pitch, k, n, width, sizeof(T));                                                               \
      name##_adjoining(best, place, from, k, width);                                                                   \
      row += k * pitch;                                                                                                \
      n -= k;                                                                                                          \
    }                                                                                                                  \
    for (int64_t end = k + n; k < end; ++k, row += pitch) {                                                            \
      const T *const xs = (const T *)(const void *)row;                                                                \
      const I at = (I)k;                                                                                               \
      reduce_prefetch(row, pitch, width *(int64_t)sizeof(T));                                                          \
      if (k == 0) {                                                                                                    \
        for (int64_t j = 0; j < width; ++j) best[j] = xs[j], place[j] = 0;                                             \
        continue;                                                                                                      \
      }                                                                                                                \
      INDEPENDENT for (int64_t j = 0; j < width; ++j) {                                                                \
        const T b = xs[j], a = best[j];                                                                                \
        const int beats = BEATS;                                                                                       \
        best[j] = beats ? b : a;                                                                                       \
        place[j] = beats ? at : place[j];                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
  }                                                                                                                    \
  static void name##_end(void *state, int64_t n, int64_t width, fold_value *value, fold_value *second) {               \
    (void)n;                                                                                                           \
    for (int64_t j = 0; j < width; ++j) {                                                                              \
      value[j].member = ((const T *)state)[j];                                                                         \
      second[j].i64 = ((const I *)SECOND_STATE(state))[j];                                                             \
    }                                                                                                                  \
  }

/* Nothing beats a NaN. */
#define ABOVE (b > a) | ((b != b) & (a == a))
#define BELOW (b < a) | ((b != b) & (a == a))
ARG(arg_max_f32, max_f32, float, int32_t, f64, ABOVE)
ARG(arg_max_f64, max_f64, double, int64_t, f64, ABOVE)
ARG(arg_max_i64, max_i64, int64_t, int64_t, i64, b > a)
ARG(arg_min_f32, min_f32, float, int32_t, f64, BELOW)
ARG(arg_min_f64, min_f64, double, int64_t, f64, BELOW)
ARG(arg_min_i64, min_i64, int64_t, int64_t, i64, b < a)

/* ---- final operations -------------------------------------------------------------------------------------------- */

/* The squares are of x - shift rather than of x - mean; the difference follows from the sum of x - shift and is
 * subtracted. */
static void settle_moments(const double *shift, fold_value *value, fold_value *second, int64_t n, int64_t width) {
  const double count = (double)n;
  for (int64_t j = 0; j < width; ++j) {
    const double off = value[j].f64 / count, squares = second[j].f64 - value[j].f64 * off;
    value[j].f64 = shift[j] + off;
    second[j].f64 = squares < 0 ? 0 : squares;
  }
}

static void finish_variance(double correction, int64_t n, fold_value *value, fold_value *second, int64_t width) {
  const double left = (double)n - correction, divisor = left > 0 ? left : 0;
  for (int64_t j = 0; j < width; ++j) {
    const double mean = value[j].f64;
    value[j].f64 = second[j].f64 / divisor;
    second[j].f64 = mean;
  }
}

static void roots(fold_value *value, int64_t width) {
#if defined(__AVX512F__)
  for (int64_t j = 0; j < width; j += 8) fold_roots_of_8(value + j, width - j);
#else
  for (int64_t j = 0; j < width; ++j) value[j].f64 = sqrt(value[j].f64);
#endif
}

static void reduce_vectors_finish(finish_kind kind, double parameter, int64_t n, fold_value *value, fold_value *second,
                                  int64_t width) {
  const double count = (double)n;
  switch (kind) {
  case FINISH_MEAN:
    for (int64_t j = 0; j < width; ++j) value[j].f64 /= count;
    break;
  case FINISH_QUOTIENT:
    for (int64_t j = 0; j < width; ++j) value[j].i64 = n ? value[j].i64 / n : 0;
    break;
  case FINISH_ROOT: roots(value, width); break;
  case FINISH_POWER:
    for (int64_t j = 0; j < width; ++j) value[j].f64 = pow(value[j].f64, parameter);
    break;
  case FINISH_LOG:
    for (int64_t j = 0; j < width; ++j) value[j].f64 = log(value[j].f64);
    break;
  case FINISH_LOG_SUM_EXP:
    for (int64_t j = 0; j < width; ++j)
      value[j].f64 = second[j].f64 != second[j].f64 || isinf(value[j].f64)
                         ? value[j].f64 + (second[j].f64 - second[j].f64)
                         : value[j].f64 + log(second[j].f64);
    break;
  case FINISH_VARIANCE: finish_variance(parameter, n, value, second, width); break;
  case FINISH_STANDARD:
    finish_variance(parameter, n, value, second, width);
    roots(value, width);
    break;
  default: break;
  }
}

/* ---- complex numbers --------------------------------------------------------------------------------------------- */

static complex_pair complex_product(const double *real, const double *imaginary, int64_t n) {
  double r[FOLD_PRODUCTS], i[FOLD_PRODUCTS];
  const int64_t lanes = n < FOLD_PRODUCTS ? n : FOLD_PRODUCTS;
  int64_t k = lanes;
  memcpy(r, real, (size_t)lanes * sizeof *r);
  memcpy(i, imaginary, (size_t)lanes * sizeof *i);
  for (; k + FOLD_PRODUCTS <= n; k += FOLD_PRODUCTS)
    for (int l = 0; l < FOLD_PRODUCTS; ++l) {
      const double a = r[l], b = i[l], c = real[k + l], d = imaginary[k + l];
      r[l] = a * c - b * d;
      i[l] = a * d + b * c;
    }
  complex_pair all = {r[0], i[0]};
  for (int64_t l = 0; l < lanes; ++l) {
    complex_pair lane = {r[l], i[l]};
    if (k + l < n) lane = complex_times(lane, (complex_pair){real[k + l], imaginary[k + l]});
    all = l ? complex_times(all, lane) : lane;
  }
  return all;
}

/* ---- transposition ----------------------------------------------------------------------------------------------- */

#define TURN(name, T)                                                                                                  \
  static void name(char *to, int64_t to_pitch, const char *from, int64_t pitch, int64_t n_rows, int64_t n) {           \
    for (int64_t i = 0; i < n; ++i) {                                                                                  \
      T *const out = (T *)(void *)(to + i * to_pitch);                                                                 \
      const char *const column = from + i * (int64_t)sizeof(T);                                                        \
      for (int64_t r = 0; r < n_rows; ++r) out[r] = *(const T *)(const void *)(column + r * pitch);                    \
    }                                                                                                                  \
  }
TURN(turn_8, int64_t)

#if defined(__AVX512F__)
/* Transposes 16 rows of 16 elements of 4 bytes: pairs, groups of four, then quarters of registers. */
static inline void turn_16x16(__m512i *r) {
  __m512i t[16];
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88);
    t[4 + i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
    t[8 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
    t[12 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
  }
  for (int i = 0; i < 8; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
    r[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
  }
}

static void turn_4(char *to, int64_t to_pitch, const char *from, int64_t pitch, int64_t n_rows, int64_t n) {
  for (int64_t r = 0; r < n_rows; r += 16) {
    const int64_t rows = n_rows - r < 16 ? n_rows - r : 16;
    const __mmask16 some_rows = (__mmask16)((1u << rows) - 1);
    for (int64_t i = 0; i < n; i += 16) {
      const int64_t columns = n - i < 16 ? n - i : 16;
      const __mmask16 some_columns = (__mmask16)((1u << columns) - 1);
      __m512i part[16];
      for (int k = 0; k < 16; ++k)
        part[k] =
            k < rows ? _mm512_maskz_loadu_epi32(some_columns, from + (r + k) * pitch + i * 4) : _mm512_setzero_si512();
      turn_16x16(part);
      for (int k = 0; k < 16; ++k)
        if (k < columns) _mm512_mask_storeu_epi32(to + (i + k) * to_pitch + r * 4, some_rows, part[k]);
    }
  }
}
#else
TURN(turn_4, int32_t)
#endif

static void reduce_transpose(void *to, int64_t to_pitch, const void *from, int64_t pitch, int64_t n_rows, int64_t n,
                             int size) {
  (size == 4 ? turn_4 : turn_8)(to, to_pitch, from, pitch, n_rows, n);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

#define LOOPS(name)                                                                                                    \
  { .rows = name##_rows, .step = name##_step, .end = name##_end, .turned_most = FOLD_TURNED }
#define FLOATS(name)                                                                                                   \
  { [COMPUTE_F32] = LOOPS(name##_f32), [COMPUTE_F64] = LOOPS(name##_f64) }
#define ALL_TYPES(name)                                                                                                \
  { [COMPUTE_F32] = LOOPS(name##_f32), [COMPUTE_F64] = LOOPS(name##_f64), [COMPUTE_I64] = LOOPS(name##_i64) }

#define LOOPS_ORDER(name)                                                                                              \
  { .rows = name##_rows, .step = name##_step, .end = name##_end_order, .turned_most = FOLD_TURNED }
#define ORDER_TYPES(name)                                                                                              \
  {                                                                                                                    \
    [COMPUTE_F32] = LOOPS_ORDER(name##_f32), [COMPUTE_F64] = LOOPS_ORDER(name##_f64),                                  \
    [COMPUTE_I64] = LOOPS(name##_i64)                                                                                  \
  }

/* The float loops, by vectors where there are any. */
#if defined(__AVX512F__)
#  define VECTORS_OF(type, name, END)                                                                                  \
    {                                                                                                                  \
      .rows = name##_of_##type##_rows, .step = name##_of_##type##_step, .end = name##_f32_##END,                       \
      .turned_most = VECTORS_TURNED                                                                                    \
    }
#  define SUM_TYPES                                                                                                    \
    { [COMPUTE_F32] = VECTORS_OF(f32, sum, end), [COMPUTE_F64] = LOOPS(sum_f64), [COMPUTE_I64] = LOOPS(sum_i64) }
#  define SQUARE_TYPES                                                                                                 \
    {                                                                                                                  \
      [COMPUTE_F32] = {.rows = sum_square_of_f32_rows,                                                                 \
                       .step = sum_square_f32_step,                                                                    \
                       .end = sum_square_f32_end,                                                                      \
                       .turned_most = VECTORS_TURNED},                                                                 \
      [COMPUTE_F64] = LOOPS(sum_square_f64)                                                                            \
    }
#  define EXTREME_TYPES(name)                                                                                          \
    {                                                                                                                  \
      [COMPUTE_F32] = VECTORS_OF(f32, name, end_order), [COMPUTE_F64] = LOOPS_ORDER(name##_f64),                       \
      [COMPUTE_I64] = LOOPS(name##_i64)                                                                                \
    }
#  define STORED(type)                                                                                                 \
    {                                                                                                                  \
      [FOLD_SUM] = VECTORS_OF(type, sum, end), [FOLD_MAX] = VECTORS_OF(type, max, end_order),                          \
      [FOLD_MIN] = VECTORS_OF(type, min, end_order)                                                                    \
    }
#else
#  define SUM_TYPES           ALL_TYPES(sum)
#  define SQUARE_TYPES        FLOATS(sum_square)
#  define EXTREME_TYPES(name) ORDER_TYPES(name)
#  define STORED(type)                                                                                                 \
    {                                                                                                                  \
      { .rows = NULL }                                                                                                 \
    }
#endif

const reduction_loops LEVELED(reduction) = {
    .fold =
        {
            [FOLD_SUM] = SUM_TYPES,
            [FOLD_SUM_ABS] = FLOATS(sum_abs),
            [FOLD_SUM_SQUARE] = SQUARE_TYPES,
            [FOLD_SUM_NOT_NAN] = FLOATS(sum_not_nan),
            [FOLD_SUM_POWER] = FLOATS(sum_power),
            [FOLD_COUNT] = FLOATS(count),
            [FOLD_PRODUCT] = ALL_TYPES(product),
            [FOLD_MAX] = EXTREME_TYPES(max),
            [FOLD_MIN] = EXTREME_TYPES(min),
            [FOLD_MAX_ABS] = ORDER_TYPES(max_abs),
            [FOLD_MIN_ABS] = ORDER_TYPES(min_abs),
            [FOLD_ANY] = ALL_TYPES(any),
            [FOLD_ALL] = ALL_TYPES(all),
            [FOLD_SUM_EXP] = FLOATS(sum_exp),
            [FOLD_DEVIATIONS] = FLOATS(deviations),
            [FOLD_MIN_MAX] = ALL_TYPES(min_max),
            [FOLD_ARG_MAX] = ALL_TYPES(arg_max),
            [FOLD_ARG_MIN] = ALL_TYPES(arg_min),
        },
    .f16 = STORED(f16),
    .bf16 = STORED(bf16),
    .settle_moments = settle_moments,
    .finish = reduce_vectors_finish,
    .complex_product = complex_product,
    .turn = reduce_transpose,
};
