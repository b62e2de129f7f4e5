/* SPDX-License-Identifier: Apache-2.0 */
/* Transposes a square matrix of 32-bit words in registers: 16 x 16 (AVX-512), 8 x 8 (AVX2), 4 x 4 (any). */
#ifndef CANNON_KERNEL_PRODUCT_TILE_TILE_TRANSPOSE_H
#define CANNON_KERNEL_PRODUCT_TILE_TILE_TRANSPOSE_H

#include <stdint.h>

#ifdef __AVX512F__
#  include <immintrin.h>

static inline __attribute__((always_inline)) void tile_transpose_16x16(__m512i r[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) { /* pairs of words */
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) /* columns 4 j to 4 j + 3 of rows i to i + 3, where j is the 128-bit lane */
    for (int h = 0; h < 2; ++h) {
      r[i + 2 * h] = _mm512_unpacklo_epi64(t[i + h], t[i + 2 + h]);
      r[i + 2 * h + 1] = _mm512_unpackhi_epi64(t[i + h], t[i + 2 + h]);
    }
  for (int i = 0; i < 4; ++i) { /* lanes: rows 0 to 7, then 8 to 15 */
    t[i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88);
    t[4 + i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
    t[8 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
    t[12 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
    r[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
    r[4 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0x88);
    r[12 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0xdd);
  }
}
#elif defined(__AVX2__)
#  include <immintrin.h>

/* On entry, r[i] has words 0 to 3 of rows i and i + 4, and r[4 + i] has words 4 to 7 of them: loading them so is free,
 * and no instruction has to move words between the halves of a vector. On return, r[l] is column l. */
static inline __attribute__((always_inline)) void tile_transpose_8x8(__m256 r[8]) {
  __m256 t[8];
  for (int h = 0; h < 8; h += 4)
    for (int i = 0; i < 2; ++i) {
      t[h + 2 * i] = _mm256_unpacklo_ps(r[h + i], r[h + i + 2]);
      t[h + 2 * i + 1] = _mm256_unpackhi_ps(r[h + i], r[h + i + 2]);
    }
  for (int h = 0; h < 8; h += 4)
    for (int i = 0; i < 2; ++i) {
      r[h + 2 * i] = _mm256_unpacklo_ps(t[h + i], t[h + i + 2]);
      r[h + 2 * i + 1] = _mm256_unpackhi_ps(t[h + i], t[h + i + 2]);
    }
}

#else
typedef int32_t tile_words __attribute__((vector_size(16)));

static inline __attribute__((always_inline)) void tile_transpose_4x4(tile_words r[4]) {
  tile_words t[4];
  for (int i = 0; i < 2; ++i) {
    t[2 * i] = __builtin_shufflevector(r[i], r[i + 2], 0, 4, 1, 5);
    t[2 * i + 1] = __builtin_shufflevector(r[i], r[i + 2], 2, 6, 3, 7);
  }
  for (int i = 0; i < 2; ++i) {
    r[2 * i] = __builtin_shufflevector(t[i], t[i + 2], 0, 4, 1, 5);
    r[2 * i + 1] = __builtin_shufflevector(t[i], t[i + 2], 2, 6, 3, 7);
  }
}
#endif

#endif
