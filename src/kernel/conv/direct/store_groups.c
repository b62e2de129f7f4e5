/* SPDX-License-Identifier: Apache-2.0 */
/* Stores sums [position][row] as outputs; see direct_pairs.h. Compiled for AVX512_BF16. */
#include "kernel/conv/direct/direct_pairs.h"

#ifdef __AVX512BF16__

#  include <immintrin.h>

#  include "acl/acl_base.h"
#  include "kernel/engine/halves.h"
#  include "kernel/engine/loops.h"
#  include "kernel/engine/unroll.h"
#  include "kernel/product/tile/tile_transpose.h"

enum { LANES = PAIR_TILE_ROWS };

INLINE __mmask32 pair_store_mask(int64_t n) { return n >= 32 ? ~0u : (1u << n) - 1; }

INLINE __m512 bias_of(const pair_outputs *o, int row) {
  return o->bias ? _mm512_maskz_loadu_ps((__mmask16)pair_store_mask(o->rows - row), o->bias + row)
                 : _mm512_setzero_ps();
}

/* Stores 32 contiguous positions of 16 rows from `row` on: combines pairs of positions into words, which are then
 * transposed. */
INLINE void store_bf16(const pair_outputs *o, const float *c, const int32_t *index, int row, int64_t i, int64_t n) {
  const __m512i both = _mm512_set_epi32(31 << 16 | 15, 30 << 16 | 14, 29 << 16 | 13, 28 << 16 | 12, 27 << 16 | 11,
                                        26 << 16 | 10, 25 << 16 | 9, 24 << 16 | 8, 23 << 16 | 7, 22 << 16 | 6,
                                        21 << 16 | 5, 20 << 16 | 4, 19 << 16 | 3, 18 << 16 | 2, 17 << 16 | 1, 16 << 16);
  const __m512 bias = bias_of(o, row);
  const __mmask32 mask = pair_store_mask(n - i);
  __m512i r[LANES];
  UNROLL for (int k = 0; k < LANES; ++k) {
    const __m512 x = _mm512_load_ps(c + index[i + 2 * k] * PAIR_ROWS + row);
    const __m512 y = _mm512_load_ps(c + index[i + 2 * k + 1] * PAIR_ROWS + row);
    r[k] = _mm512_permutexvar_epi16(both, (__m512i)_mm512_cvtne2ps_pbh(_mm512_add_ps(y, bias), _mm512_add_ps(x, bias)));
  }
  tile_transpose_16x16(r);
  char *to = o->to + row * o->row + i * 2;
  UNROLL for (int k = 0; k < LANES; ++k, to += o->row) if (row + k < o->rows) _mm512_mask_storeu_epi16(to, mask, r[k]);
}

/* Loads 16 positions of 16 rows, adds the bias and transposes them. */
INLINE void pair_transpose_sums(__m512i r[LANES], const pair_outputs *o, const float *c, const int32_t *index,
                                int row) {
  const __m512 bias = bias_of(o, row);
  UNROLL for (int k = 0; k < LANES; ++k) r[k] =
      _mm512_castps_si512(_mm512_add_ps(_mm512_load_ps(c + index[k] * PAIR_ROWS + row), bias));
  tile_transpose_16x16(r);
}

INLINE void store_f32(const pair_outputs *o, const float *c, const int32_t *index, int row, int64_t i, int64_t n) {
  const __mmask16 mask = (__mmask16)pair_store_mask(n - i);
  __m512i r[LANES];
  pair_transpose_sums(r, o, c, index + i, row);
  char *to = o->to + row * o->row + i * 4;
  UNROLL for (int k = 0; k < LANES; ++k, to += o->row) if (row + k < o->rows) _mm512_mask_storeu_epi32(to, mask, r[k]);
}

/* Stores 16 outputs to every second element. */
INLINE void store_every_second(char *to, __m512 x, int dtype, int64_t n) {
  const __mmask32 even = 0x55555555u & pair_store_mask(2 * n);
  if (dtype == ACL_BF16) {
    _mm512_mask_storeu_epi16(to, even, _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x)));
    return;
  }
  const __m512 high = _mm512_shuffle_f32x4(x, x, 0xee);
  _mm512_mask_storeu_ps(to, (__mmask16)even, _mm512_maskz_expand_ps(0x5555, x));
  _mm512_mask_storeu_ps(to + 64, (__mmask16)(even >> 16), _mm512_maskz_expand_ps(0x5555, high));
}

/* Stores outputs of any dtype and stride. */
static void store_other(const pair_outputs *o, const float *c, const int32_t *index, int row, int64_t i, int64_t n) {
  _Alignas(64) float transposed[LANES * LANES];
  __m512i r[LANES];
  pair_transpose_sums(r, o, c, index + i, row);
  char *to = o->to + row * o->row + i * o->position;
  if (o->position == (o->dtype == ACL_FLOAT ? 8 : 4) && o->dtype != ACL_FLOAT16) {
    UNROLL for (int k = 0; k < LANES; ++k, to += o->row) if (row + k < o->rows)
        store_every_second(to, _mm512_castsi512_ps(r[k]), o->dtype, n - i);
    return;
  }
  UNROLL for (int k = 0; k < LANES; ++k) _mm512_store_si512(transposed + k * LANES, r[k]);
  for (int k = 0; k < LANES && row + k < o->rows; ++k, to += o->row)
    loops->store[o->dtype][COMPUTE_F32](to, o->position, transposed + k * LANES, n - i < LANES ? n - i : LANES);
}

/* Stores outputs whose rows are contiguous; these need no transposition. */
static void pair_store_across(const pair_outputs *o, const float *c, const int32_t *index, int64_t n) {
  const __m512 bias[2] = {bias_of(o, 0), bias_of(o, LANES)};
  const __mmask32 mask = pair_store_mask(o->rows);
  for (int64_t i = 0; i < n; ++i) {
    const float *const sum = c + index[i] * PAIR_ROWS;
    const __m512 x = _mm512_add_ps(_mm512_load_ps(sum), bias[0]);
    const __m512 y = _mm512_add_ps(_mm512_load_ps(sum + LANES), bias[1]);
    char *const to = o->to + i * o->position;
    if (o->dtype == ACL_BF16) {
      _mm512_mask_storeu_epi16(to, mask, (__m512i)_mm512_cvtne2ps_pbh(y, x));
    } else {
      _mm512_mask_storeu_ps(to, (__mmask16)mask, x);
      _mm512_mask_storeu_ps(to + 64, (__mmask16)(mask >> 16), y);
    }
  }
}

void pair_store(const pair_outputs *o, const float *c, const int32_t *index, int64_t n) {
  const int size = o->dtype == ACL_FLOAT ? 4 : 2;
  if (o->row == size && o->dtype != ACL_FLOAT16) {
    pair_store_across(o, c, index, n);
    return;
  }
  const bool dense = o->position == size;
  for (int row = 0; row < o->rows; row += LANES)
    if (dense && o->dtype == ACL_BF16)
      for (int64_t i = 0; i < n; i += 2 * LANES) store_bf16(o, c, index, row, i, n);
    else if (dense && o->dtype == ACL_FLOAT)
      for (int64_t i = 0; i < n; i += LANES) store_f32(o, c, index, row, i, n);
    else
      for (int64_t i = 0; i < n; i += LANES) store_other(o, c, index, row, i, n);
}

#else /* never called: direct_pairs() returns no kernel */

void pair_store(const pair_outputs *o, const float *c, const int32_t *index, int64_t n) {
  (void)o, (void)c, (void)index, (void)n;
}

#endif
