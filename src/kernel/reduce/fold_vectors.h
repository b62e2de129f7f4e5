/* Sums, sums of squares and extremes of float, float16 and bfloat16 by AVX-512: the lanes and the tree of fold.h, in
 * registers. Only for fold_level.c, after LANE.
 *
 * Rows: lanes are two registers (of squares, four), which the upper levels of the tree make one; that of many rows go
 * through the other levels together, so that no register is half empty. Columns: one lane at a time of up to 128 columns
 * in eight registers, so that a row's elements are read and joined and nothing else. */
#ifndef CANNON_KERNEL_REDUCE_FOLD_VECTORS_H
#define CANNON_KERNEL_REDUCE_FOLD_VECTORS_H

#include "kernel/engine/halves.h"
#include "kernel/engine/unroll.h"

/* Memory that no cache holds is asked for that far ahead: 32 to 34 GB/s instead of 30 on a Zen 4, whose prefetchers
 * stop at pages. What the last level holds comes a tenth slower for it. */
enum { AHEAD_BYTES = 8192 };

INLINE void ask_ahead(const void *at, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)at + AHEAD_BYTES + i);
}

INLINE __mmask16 first_lanes(int64_t n) { return (__mmask16)_bzhi_u32(0xffff, n < 16 ? (unsigned)n : 16); }

/* ---- 32 elements in two registers: _pair in an order that _ordered undoes, and _paired makes ---------------------- */

INLINE __m512 f32_load_16(const float *x, __mmask16 lanes) { return _mm512_maskz_loadu_ps(lanes, x); }
INLINE void f32_load_32(const float *x, __m512 v[2]) {
  v[0] = _mm512_loadu_ps(x);
  v[1] = _mm512_loadu_ps(x + 16);
}

#define f32_pair f32_load_32
#define f16_pair f16_load_32
/* The even ones, then the odd ones. */
INLINE void bf16_pair(const uint16_t *x, __m512 v[2]) {
  const __m512i words = _mm512_loadu_si512(x);
  v[0] = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
  v[1] = _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32((int)0xffff0000)));
}

INLINE void f32_ordered(__m512 v[2]) { (void)v; }
INLINE void f32_paired(__m512 v[2]) { (void)v; }
#define f16_ordered f32_ordered
#define f16_paired  f32_paired
INLINE void bf16_ordered(__m512 v[2]) {
  const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512 a = v[0], b = v[1];
  v[0] = _mm512_permutex2var_ps(a, low, b);
  v[1] = _mm512_permutex2var_ps(a, _mm512_add_epi32(low, _mm512_set1_epi32(8)), b);
}
INLINE void bf16_paired(__m512 v[2]) {
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512 a = v[0], b = v[1];
  v[0] = _mm512_permutex2var_ps(a, even, b);
  v[1] = _mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b);
}

/* ---- joining: a came first ----------------------------------------------------------------------------------------- */

INLINE __m512 join_sum(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }
/* Equal ones, and a NaN in b, leave a: NaNs are looked for beside it. */
INLINE __m512 join_max(__m512 a, __m512 b) { return _mm512_max_ps(b, a); }
INLINE __m512 join_min(__m512 a, __m512 b) { return _mm512_min_ps(b, a); }

INLINE __mmask16 odd_sum(__m512 a, __m512 b) {
  (void)a, (void)b;
  return 0;
}
INLINE __mmask16 odd_max(__m512 a, __m512 b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); }
#define odd_min odd_max

/* With NaNs, which stay. */
INLINE __m512 hold_sum(__m512 a, __m512 b) { return join_sum(a, b); }
INLINE __m512 hold_max(__m512 a, __m512 b) { return _mm512_mask_mov_ps(join_max(a, b), nan_lanes_16(b), b); }
INLINE __m512 hold_min(__m512 a, __m512 b) { return _mm512_mask_mov_ps(join_min(a, b), nan_lanes_16(b), b); }

/* ---- rows of floats -------------------------------------------------------------------------------------------------- */

/* The rest of the tree over 16 lanes, of 16 rows; result r of row r. */
#define TREE_16(JOIN)                                                                                                  \
  INLINE __m512 tree_##JOIN(__m512 v[16]) {                                                                            \
    const __m512i rows = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);                       \
    UNROLL for (int i = 0; i < 8; ++i) {                                                                               \
      const __m512 a = v[2 * i], b = v[2 * i + 1];                                                                     \
      v[i] = JOIN(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));                                 \
    }                                                                                                                  \
    UNROLL for (int i = 0; i < 4; ++i) {                                                                               \
      const __m512 a = v[2 * i], b = v[2 * i + 1];                                                                     \
      v[i] = JOIN(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));                                 \
    }                                                                                                                  \
    UNROLL for (int i = 0; i < 2; ++i) {                                                                               \
      const __m512d a = _mm512_castps_pd(v[2 * i]), b = _mm512_castps_pd(v[2 * i + 1]);                                \
      v[i] = JOIN(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));             \
    }                                                                                                                  \
    return _mm512_permutexvar_ps(rows,                                                                                 \
                                 JOIN(_mm512_shuffle_ps(v[0], v[1], 0x88), _mm512_shuffle_ps(v[0], v[1], 0xdd)));      \
  }
TREE_16(join_sum)
TREE_16(join_max)
TREE_16(join_min)

INLINE void store_results(fold_value *value, __m512 v, int64_t n) {
  const __mmask16 some = first_lanes(n);
  _mm512_mask_storeu_pd(value, (__mmask8)some, _mm512_cvtps_pd(_mm512_castps512_ps256(v)));
  if (n > 8) _mm512_mask_storeu_pd(value + 8, (__mmask8)(some >> 8), _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)));
}

/* type: T's functions above; join: the fold's. */
#define VECTOR_ROWS(name, T, type, join, INIT)                                                                         \
  INLINE __m512 name##_lanes(const T *x, int64_t n, bool is_far, __mmask16 *odd) {                                     \
    __m512 lane[2] = {_mm512_set1_ps(INIT), _mm512_set1_ps(INIT)}, v[2];                                               \
    __mmask16 found = 0;                                                                                               \
    int64_t i = 0;                                                                                                     \
    for (; i + FOLD_LANES <= n; i += FOLD_LANES) {                                                                     \
      if (is_far) ask_ahead(x + i, FOLD_LANES * sizeof(T));                                                            \
      type##_pair(x + i, v);                                                                                           \
      found |= odd_##join(v[0], v[1]);                                                                                 \
      UNROLL for (int k = 0; k < 2; ++k) lane[k] = join_##join(lane[k], v[k]);                                         \
    }                                                                                                                  \
    type##_ordered(lane);                                                                                              \
    UNROLL for (int k = 0; k < 2; ++k, i += 16) {                                                                      \
      if (i >= n) break;                                                                                               \
      const __mmask16 some = first_lanes(n - i);                                                                       \
      v[k] = type##_load_16(x + i, some);                                                                              \
      found |= odd_##join(v[k], v[k]);                                                                                 \
      lane[k] = _mm512_mask_mov_ps(lane[k], some, join_##join(lane[k], v[k]));                                         \
    }                                                                                                                  \
    *odd = found;                                                                                                      \
    return join_##join(lane[0], lane[1]);                                                                              \
  }                                                                                                                    \
  static void name##_rows(const fold_rows *of, const double *shift, fold_value *value, fold_value *second) {           \
    const char *x = of->x;                                                                                             \
    (void)shift, (void)second;                                                                                         \
    for (int64_t r = 0; r < of->count; r += 16) {                                                                      \
      const int64_t count = of->count - r < 16 ? of->count - r : 16;                                                   \
      __m512 v[16];                                                                                                    \
      unsigned odd = 0;                                                                                                \
      for (int64_t k = 0; k < 16; ++k) {                                                                               \
        __mmask16 found = 0;                                                                                           \
        v[k] = k >= count   ? _mm512_setzero_ps()                                                                      \
               : of->is_far ? name##_lanes((const T *)(const void *)x, of->n, true, &found)                            \
                            : name##_lanes((const T *)(const void *)x, of->n, false, &found);                          \
        odd |= (unsigned)(found != 0) << k;                                                                            \
        x += of->pitch;                                                                                                \
      }                                                                                                                \
      const __m512 all = tree_join_##join(v);                                                                          \
      store_results(value + r, _mm512_mask_mov_ps(all, (__mmask16)odd, _mm512_set1_ps(NAN)), count);                   \
    }                                                                                                                  \
  }

/* ---- columns of floats ----------------------------------------------------------------------------------------------- */

/* One lane's n rows, `pitch` bytes apart, of 32 * pairs columns; is_new: it holds nothing yet. */
#define VECTOR_STEP(name, T, type, join, INIT)                                                                         \
  INLINE void name##_lane(float *lane, bool is_new, const char *x, int64_t pitch, int64_t n, const int pairs) {        \
    __m512 all[8];                                                                                                     \
    UNROLL for (int p = 0; p < pairs; ++p) {                                                                           \
      UNROLL for (int k = 0; k < 2; ++k) all[2 * p + k] =                                                              \
          is_new ? _mm512_set1_ps(INIT) : _mm512_loadu_ps(lane + 32 * p + 16 * k);                                     \
      type##_paired(all + 2 * p);                                                                                      \
    }                                                                                                                  \
    for (int64_t i = 0; i < n; ++i, x += pitch) UNROLL for (int p = 0; p < pairs; ++p) {                               \
        __m512 v[2];                                                                                                   \
        type##_pair((const T *)(const void *)x + 32 * p, v);                                                           \
        UNROLL for (int k = 0; k < 2; ++k) all[2 * p + k] = hold_##join(all[2 * p + k], v[k]);                         \
      }                                                                                                                \
    UNROLL for (int p = 0; p < pairs; ++p) {                                                                           \
      type##_ordered(all + 2 * p);                                                                                     \
      UNROLL for (int k = 0; k < 2; ++k) _mm512_storeu_ps(lane + 32 * p + 16 * k, all[2 * p + k]);                     \
    }                                                                                                                  \
  }                                                                                                                    \
  /* The same of up to 16. */                                                                                          \
  INLINE void name##_few(float *lane, bool is_new, const char *x, int64_t pitch, int64_t n, int64_t columns) {         \
    const __mmask16 some = first_lanes(columns);                                                                       \
    __m512 all = is_new ? _mm512_set1_ps(INIT) : _mm512_maskz_loadu_ps(some, lane);                                    \
    for (int64_t i = 0; i < n; ++i, x += pitch)                                                                        \
      all = hold_##join(all, type##_load_16((const T *)(const void *)x, some));                                        \
    _mm512_mask_storeu_ps(lane, some, all);                                                                            \
  }                                                                                                                    \
  static void name##_step(void *state, const void *x, int64_t pitch, int64_t k, int64_t n, int64_t width,              \
                          const double *shift) {                                                                       \
    (void)shift;                                                                                                       \
    for (int64_t j = 0, columns; j < width; j += columns) {                                                            \
      const int64_t left = width - j;                                                                                  \
      columns = left >= 128 ? 128 : left >= 64 ? 64 : left >= 32 ? 32 : left < 16 ? left : 16;                         \
      for (int64_t l = 0; l < FOLD_LANES && l < n; ++l) {                                                              \
        float *const lane = LANE(float, state, (k + l) % FOLD_LANES) + j;                                              \
        const char *const row = (const char *)x + l * pitch + j * (int64_t)sizeof(T);                                  \
        const int64_t rows = (n - l + FOLD_LANES - 1) / FOLD_LANES, apart = FOLD_LANES * pitch;                        \
        const bool is_new = k + l < FOLD_LANES;                                                                        \
        switch (columns) {                                                                                             \
        case 128: name##_lane(lane, is_new, row, apart, rows, 4); break;                                               \
        case 64: name##_lane(lane, is_new, row, apart, rows, 2); break;                                                \
        case 32: name##_lane(lane, is_new, row, apart, rows, 1); break;                                                \
        default: name##_few(lane, is_new, row, apart, rows, columns);                                                  \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
  }

#define VECTORS(name, T, type, join, INIT) VECTOR_ROWS(name, T, type, join, INIT) VECTOR_STEP(name, T, type, join, INIT)
VECTORS(sum_of_f32, float, f32, sum, 0)
VECTORS(sum_of_f16, uint16_t, f16, sum, 0)
VECTORS(sum_of_bf16, uint16_t, bf16, sum, 0)
VECTORS(max_of_f32, float, f32, max, -INFINITY)
VECTORS(max_of_f16, uint16_t, f16, max, -INFINITY)
VECTORS(max_of_bf16, uint16_t, bf16, max, -INFINITY)
VECTORS(min_of_f32, float, f32, min, INFINITY)
VECTORS(min_of_f16, uint16_t, f16, min, INFINITY)
VECTORS(min_of_bf16, uint16_t, bf16, min, INFINITY)

/* ---- rows of squares, in double: those of floats are exact, so that one rounding is the same as two ------------------- */

INLINE __m512d low_8(__m512 x) { return _mm512_cvtps_pd(_mm512_castps512_ps256(x)); }
INLINE __m512d high_8(__m512 x) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)); }

/* The rest of the tree over 8 lanes, of 8 rows. */
INLINE __m512d tree_squares(__m512d v[8]) {
  UNROLL for (int i = 0; i < 4; ++i) {
    const __m512d a = v[2 * i], b = v[2 * i + 1];
    v[i] = _mm512_add_pd(_mm512_shuffle_f64x2(a, b, 0x44), _mm512_shuffle_f64x2(a, b, 0xee));
  }
  UNROLL for (int i = 0; i < 2; ++i) {
    const __m512d a = v[2 * i], b = v[2 * i + 1];
    v[i] = _mm512_add_pd(_mm512_shuffle_f64x2(a, b, 0x88), _mm512_shuffle_f64x2(a, b, 0xdd));
  }
  const __m512d turns = _mm512_add_pd(_mm512_unpacklo_pd(v[0], v[1]), _mm512_unpackhi_pd(v[0], v[1]));
  return _mm512_permutexvar_pd(_mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0), turns);
}

INLINE void add_squares(__m512d lane[2], __m512 x) {
  const __m512d low = low_8(x), high = high_8(x);
  lane[0] = _mm512_fmadd_pd(low, low, lane[0]);
  lane[1] = _mm512_fmadd_pd(high, high, lane[1]);
}

#define VECTOR_SQUARES(name, T, type)                                                                                  \
  INLINE __m512d name##_lanes(const T *x, int64_t n, bool is_far) {                                                    \
    __m512d lane[4] = {_mm512_setzero_pd(), _mm512_setzero_pd(), _mm512_setzero_pd(), _mm512_setzero_pd()};            \
    int64_t i = 0;                                                                                                     \
    for (; i + FOLD_LANES <= n; i += FOLD_LANES) {                                                                     \
      __m512 v[2];                                                                                                     \
      if (is_far) ask_ahead(x + i, FOLD_LANES * sizeof(T));                                                            \
      type##_load_32(x + i, v);                                                                                        \
      add_squares(lane, v[0]);                                                                                         \
      add_squares(lane + 2, v[1]);                                                                                     \
    }                                                                                                                  \
    if (i < n) add_squares(lane, type##_load_16(x + i, first_lanes(n - i)));                                           \
    if (i + 16 < n) add_squares(lane + 2, type##_load_16(x + i + 16, first_lanes(n - i - 16)));                        \
    return _mm512_add_pd(_mm512_add_pd(lane[0], lane[2]), _mm512_add_pd(lane[1], lane[3]));                            \
  }                                                                                                                    \
  static void name##_rows(const fold_rows *of, const double *shift, fold_value *value, fold_value *second) {           \
    const char *x = of->x;                                                                                             \
    (void)shift, (void)second;                                                                                         \
    for (int64_t r = 0; r < of->count; r += 8) {                                                                       \
      const int64_t count = of->count - r < 8 ? of->count - r : 8;                                                     \
      __m512d v[8];                                                                                                    \
      for (int64_t k = 0; k < 8; ++k, x += of->pitch)                                                                  \
        v[k] = k >= count   ? _mm512_setzero_pd()                                                                      \
               : of->is_far ? name##_lanes((const T *)(const void *)x, of->n, true)                                    \
                            : name##_lanes((const T *)(const void *)x, of->n, false);                                  \
      _mm512_mask_storeu_pd(value + r, (__mmask8)first_lanes(count), tree_squares(v));                                 \
    }                                                                                                                  \
  }
VECTOR_SQUARES(sum_square_of_f32, float, f32)
VECTOR_SQUARES(sum_square_of_f16, uint16_t, f16)
VECTOR_SQUARES(sum_square_of_bf16, uint16_t, bf16)

#endif
