/* SPDX-License-Identifier: Apache-2.0 */
/* Transposes a 16 x 16 matrix of 32-bit words in registers. AVX-512 only. */
#ifndef CANNON_KERNEL_PRODUCT_TILE_TRANSPOSE_H
#define CANNON_KERNEL_PRODUCT_TILE_TRANSPOSE_H

#include <immintrin.h>

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

#endif
