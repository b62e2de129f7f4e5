/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of rows_loops.h. Transposition works on squares of 16 (AVX-512) or 8 rows and columns, in vector registers
 * where there are any; the rest is copied element by element. */
#include "kernel/engine/rows_loops.h"

#if defined(__AVX2__)
#  include <immintrin.h>
#endif

#include "kernel/engine/level.h"

typedef uint32_t __attribute__((may_alias)) word32;

static inline word32 *word_at(const void *base, int64_t pitch, int64_t i, int64_t j) {
  return (word32 *)((const char *)base + i * pitch) + j;
}

#if defined(__AVX512F__)
enum { SQUARE = 16 };

/* Transposes pairs of rows, then groups of four within each quarter of the registers, then the quarters in two
 * steps. */
static inline void transpose_square(void *to, int64_t to_pitch, const void *from, int64_t from_pitch) {
  __m512 a[16], b[16];
  for (int i = 0; i < 16; ++i) a[i] = _mm512_loadu_ps(word_at(from, from_pitch, i, 0));
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int k = 0; k < 2; ++k) {
      const __m512d low = _mm512_castps_pd(b[i + k]), high = _mm512_castps_pd(b[i + 2 + k]);
      a[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
      a[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
    }
  for (int k = 0; k < 4; ++k) {
    b[k] = _mm512_shuffle_f32x4(a[k], a[k + 4], 0x88);
    b[k + 4] = _mm512_shuffle_f32x4(a[k], a[k + 4], 0xdd);
    b[k + 8] = _mm512_shuffle_f32x4(a[k + 8], a[k + 12], 0x88);
    b[k + 12] = _mm512_shuffle_f32x4(a[k + 8], a[k + 12], 0xdd);
  }
  for (int k = 0; k < 8; ++k) {
    _mm512_storeu_ps(word_at(to, to_pitch, k, 0), _mm512_shuffle_f32x4(b[k], b[k + 8], 0x88));
    _mm512_storeu_ps(word_at(to, to_pitch, k + 8, 0), _mm512_shuffle_f32x4(b[k], b[k + 8], 0xdd));
  }
}
#elif defined(__AVX2__)
enum { SQUARE = 8 };

static inline void transpose_square(void *to, int64_t to_pitch, const void *from, int64_t from_pitch) {
  __m256 a[8], b[8];
  for (int i = 0; i < 8; ++i) a[i] = _mm256_loadu_ps((const float *)word_at(from, from_pitch, i, 0));
  for (int i = 0; i < 8; i += 2) {
    b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
  }
  for (int i = 0; i < 8; i += 4)
    for (int k = 0; k < 2; ++k) {
      const __m256d low = _mm256_castps_pd(b[i + k]), high = _mm256_castps_pd(b[i + 2 + k]);
      a[i + 2 * k] = _mm256_castpd_ps(_mm256_unpacklo_pd(low, high));
      a[i + 2 * k + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low, high));
    }
  for (int k = 0; k < 4; ++k) {
    _mm256_storeu_ps((float *)word_at(to, to_pitch, k, 0), _mm256_permute2f128_ps(a[k], a[k + 4], 0x20));
    _mm256_storeu_ps((float *)word_at(to, to_pitch, k + 4, 0), _mm256_permute2f128_ps(a[k], a[k + 4], 0x31));
  }
}
#else
enum { SQUARE = 8 };

static inline void transpose_square(void *to, int64_t to_pitch, const void *from, int64_t from_pitch) {
  for (int j = 0; j < SQUARE; ++j)
    for (int i = 0; i < SQUARE; ++i) *word_at(to, to_pitch, j, i) = *word_at(from, from_pitch, i, j);
}
#endif

static void transpose32(void *to, int64_t to_pitch, const void *from, int64_t from_pitch, int64_t n, int64_t width) {
  int64_t i = 0;
  for (; i + SQUARE <= n; i += SQUARE) {
    int64_t j = 0;
    for (; j + SQUARE <= width; j += SQUARE)
      transpose_square(word_at(to, to_pitch, j, i), to_pitch, word_at(from, from_pitch, i, j), from_pitch);
    for (; j < width; ++j)
      for (int k = 0; k < SQUARE; ++k) *word_at(to, to_pitch, j, i + k) = *word_at(from, from_pitch, i + k, j);
  }
  for (; i < n; ++i)
    for (int64_t j = 0; j < width; ++j) *word_at(to, to_pitch, j, i) = *word_at(from, from_pitch, i, j);
}

const row_loops LEVELED(row_loops) = {.transpose32 = transpose32};
