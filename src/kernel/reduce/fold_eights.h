/* SPDX-License-Identifier: Apache-2.0 */
/* Sums, maxima and minima of floats by AVX2: the lanes and the tree of fold.h, in registers. Only for fold_level.c.
 *
 * Columns of few rows: the lanes are registers, so that there is no state; also at the AVX-512 level. Rows: the lanes
 * are four registers, which the upper levels of the tree reduce to one; the other levels are applied to the registers
 * of eight rows together, so that none is half empty. A row of 49 elements takes a fifth of the time of the loop that
 * compilers make of fold_one.inc (bench/ops, Mean; Zen 4). */
#ifndef CANNON_KERNEL_REDUCE_FOLD_EIGHTS_H
#define CANNON_KERNEL_REDUCE_FOLD_EIGHTS_H

#include <immintrin.h>

#include "kernel/engine/unroll.h"

enum { EIGHTS = FOLD_LANES / 8, EIGHTS_TURNED = 12 };

/* Combining a with b, which comes after it. Equal elements and a NaN in b leave a: NaNs are detected separately. */
INLINE __m256 eights_join_sum(__m256 a, __m256 b) { return _mm256_add_ps(a, b); }
INLINE __m256 eights_join_max(__m256 a, __m256 b) { return _mm256_max_ps(b, a); }
INLINE __m256 eights_join_min(__m256 a, __m256 b) { return _mm256_min_ps(b, a); }

/* Which lanes of x are NaN; none for sums, which propagate NaN themselves. */
INLINE __m256 eights_odd_sum(__m256 x) { return (void)x, _mm256_setzero_ps(); }
INLINE __m256 eights_odd_max(__m256 x) { return _mm256_cmp_ps(x, x, _CMP_UNORD_Q); }
#define eights_odd_min eights_odd_max

/* All bits of the first n lanes: none for n <= 0, all for n >= 8. */
INLINE __m256i eights_first(int64_t n) {
  const __m256i lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n < 0 ? 0 : n > 8 ? 8 : n)), lane);
}

INLINE void eights_store(fold_value *value, __m256 rows, int64_t count) {
  const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(rows)),
                high = _mm256_cvtps_pd(_mm256_extractf128_ps(rows, 1));
  fold_value all[8];
  fold_value *const to = count < 8 ? all : value;
  _mm256_storeu_pd(&to[0].f64, low);
  _mm256_storeu_pd(&to[4].f64, high);
  if (count < 8) memcpy(value, all, (size_t)count * sizeof *value);
}

/* Defines KIND_eights_few (fold_loops.few): eight columns at a time, whose lanes are registers. `n` is a constant. */
#define EIGHTS_FEW(kind, init)                                                                                         \
  INLINE __m256 kind##_eights_column(const char *x, int64_t pitch, const int n) {                                      \
    __m256 v[FOLD_FEW], odd = _mm256_setzero_ps();                                                                     \
    UNROLL for (int l = 0; l < n; ++l) {                                                                               \
      const __m256 row = _mm256_loadu_ps((const float *)(const void *)(x + l * pitch));                                \
      odd = _mm256_or_ps(odd, eights_odd_##kind(row));                                                                 \
      v[l] = eights_join_##kind(_mm256_set1_ps(init), row);                                                            \
    }                                                                                                                  \
    UNROLL for (int l = 0; l < 4; ++l) if (l + 4 < n) v[l] = eights_join_##kind(v[l], v[l + 4]);                       \
    UNROLL for (int l = 0; l < 2; ++l) if (l + 2 < n) v[l] = eights_join_##kind(v[l], v[l + 2]);                       \
    if (n > 1) v[0] = eights_join_##kind(v[0], v[1]);                                                                  \
    return _mm256_blendv_ps(v[0], _mm256_set1_ps(NAN), odd);                                                           \
  }                                                                                                                    \
                                                                                                                       \
  static int64_t kind##_eights_few(const void *from, int64_t pitch, int64_t n, int64_t width, fold_value *value) {     \
    const char *x = from;                                                                                              \
    int64_t j = 0;                                                                                                     \
    for (; j + 8 <= width; j += 8, x += 8 * sizeof(float)) {                                                           \
      __m256 all;                                                                                                      \
      switch (n) {                                                                                                     \
      case 1: all = kind##_eights_column(x, pitch, 1); break;                                                          \
      case 2: all = kind##_eights_column(x, pitch, 2); break;                                                          \
      case 3: all = kind##_eights_column(x, pitch, 3); break;                                                          \
      case 4: all = kind##_eights_column(x, pitch, 4); break;                                                          \
      case 5: all = kind##_eights_column(x, pitch, 5); break;                                                          \
      case 6: all = kind##_eights_column(x, pitch, 6); break;                                                          \
      case 7: all = kind##_eights_column(x, pitch, 7); break;                                                          \
      default: all = kind##_eights_column(x, pitch, 8); break;                                                         \
      }                                                                                                                \
      eights_store(value + j, all, 8);                                                                                 \
    }                                                                                                                  \
    return j;                                                                                                          \
  }
_Static_assert(FOLD_FEW == 8, "one case for each number of rows");

EIGHTS_FEW(sum, 0)
EIGHTS_FEW(max, -INFINITY)
EIGHTS_FEW(min, INFINITY)
#undef EIGHTS_FEW

#ifndef __AVX512F__ /* whose rows are in fold_vectors.h */
/* Defines KIND_of_f32_rows. `init` is the neutral element of the operation. */
#  define EIGHTS_ROWS(kind, init)                                                                                      \
    INLINE __m256 kind##_eights_tree(__m256 v[8]) {                                                                    \
      UNROLL for (int i = 0; i < 4; ++i) {                                                                             \
        const __m256 a = v[2 * i], b = v[2 * i + 1];                                                                   \
        v[i] = eights_join_##kind(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));             \
      }                                                                                                                \
      UNROLL for (int i = 0; i < 2; ++i) {                                                                             \
        const __m256 a = v[2 * i], b = v[2 * i + 1];                                                                   \
        v[i] = eights_join_##kind(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));                       \
      }                                                                                                                \
      const __m256 all = eights_join_##kind(_mm256_shuffle_ps(v[0], v[1], 0x88), _mm256_shuffle_ps(v[0], v[1], 0xdd)); \
      return _mm256_permutevar8x32_ps(all, _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0));                                  \
    }                                                                                                                  \
                                                                                                                       \
    INLINE __m256 kind##_eights_lanes(const float *x, int64_t whole, int64_t n, const __m256i rest[EIGHTS],            \
                                      bool *is_odd) {                                                                  \
      __m256 lane[EIGHTS], odd = _mm256_setzero_ps();                                                                  \
      UNROLL for (int k = 0; k < EIGHTS; ++k) lane[k] = _mm256_set1_ps(init);                                          \
      for (int64_t i = 0; i < whole; i += FOLD_LANES) UNROLL for (int k = 0; k < EIGHTS; ++k) {                        \
          const __m256 v = _mm256_loadu_ps(x + i + 8 * k);                                                             \
          odd = _mm256_or_ps(odd, eights_odd_##kind(v));                                                               \
          lane[k] = eights_join_##kind(lane[k], v);                                                                    \
        }                                                                                                              \
      UNROLL for (int k = 0; k < EIGHTS; ++k) {                                                                        \
        if (whole + 8 * k >= n) break;                                                                                 \
        const __m256 v = _mm256_maskload_ps(x + whole + 8 * k, rest[k]);                                               \
        odd = _mm256_or_ps(odd, eights_odd_##kind(v));                                                                 \
        lane[k] = _mm256_blendv_ps(lane[k], eights_join_##kind(lane[k], v), _mm256_castsi256_ps(rest[k]));             \
      }                                                                                                                \
      *is_odd = _mm256_movemask_ps(odd) != 0;                                                                          \
      return eights_join_##kind(eights_join_##kind(lane[0], lane[2]), eights_join_##kind(lane[1], lane[3]));           \
    }                                                                                                                  \
                                                                                                                       \
    static void kind##_of_f32_rows(const fold_rows *of, const double *shift, fold_value *value, fold_value *second) {  \
      const int64_t n = of->n, whole = n - n % FOLD_LANES;                                                             \
      const char *x = of->x;                                                                                           \
      __m256i rest[EIGHTS];                                                                                            \
      (void)shift, (void)second;                                                                                       \
      for (int k = 0; k < EIGHTS; ++k) rest[k] = eights_first(n - whole - 8 * k);                                      \
      for (int64_t r = 0; r < of->count; r += 8) {                                                                     \
        const int64_t count = of->count - r < 8 ? of->count - r : 8;                                                   \
        __m256 v[8];                                                                                                   \
        float nans[8] = {0};                                                                                           \
        bool is_odd, any = false;                                                                                      \
        for (int64_t k = 0; k < count; ++k, x += of->pitch) {                                                          \
          v[k] = kind##_eights_lanes((const float *)(const void *)x, whole, n, rest, &is_odd);                         \
          nans[k] = is_odd ? NAN : 0;                                                                                  \
          any |= is_odd;                                                                                               \
        }                                                                                                              \
        for (int64_t k = count; k < 8; ++k) v[k] = _mm256_setzero_ps();                                                \
        __m256 all = kind##_eights_tree(v);                                                                            \
        if (any) all = _mm256_blendv_ps(all, _mm256_loadu_ps(nans), eights_odd_max(_mm256_loadu_ps(nans)));            \
        eights_store(value + r, all, count);                                                                           \
      }                                                                                                                \
    }

EIGHTS_ROWS(sum, 0)
EIGHTS_ROWS(max, -INFINITY)
EIGHTS_ROWS(min, INFINITY)
#  undef EIGHTS_ROWS
#endif

#endif
