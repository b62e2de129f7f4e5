/* SPDX-License-Identifier: Apache-2.0 */
/* Fills padded copies with VNNI pairs of channels, and splits floats into sums of three bfloat16 terms; see
 * direct_pairs.h. Compiled for AVX512_BF16. */
#include "kernel/conv/direct/direct_pairs.h"

#ifdef __AVX512BF16__

#  include <string.h>

#  include <immintrin.h>

#  include "acl/acl_base.h"
#  include "kernel/conv/conv_loops.h"
#  include "kernel/engine/unroll.h"
#  include "kernel/product/tile/tile_transpose.h"

enum { LANES = 16 /* positions at a time */ };

INLINE __m512i high_halves(void) { return _mm512_set1_epi32((int)0xffff0000); }

/* The mask of the first n of 32 lanes; n may be negative. */
INLINE __mmask32 pair_lane_mask(int64_t n) { return n >= 32 ? ~0u : n <= 0 ? 0 : (1u << n) - 1; }

/* ---- bfloat16 ---------------------------------------------------------------------------------------------------- */

/* Loads up to 16 elements, each into the low half of a word. every: 1, or 2 for every second element. Does not read
 * behind the last one. */
INLINE __m512i load_words(const char *from, int every, int n) {
  if (every == 1) return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), from));
  return _mm512_maskz_loadu_epi16((__mmask32)(0x55555555u & (uint32_t)((UINT64_C(1) << 2 * n) - 1)), from);
}

INLINE void fill_bf16(char *to, const pair_line *l, int every, int64_t n) {
  for (int64_t i = 0; i < n; i += LANES, to += LANES * PAIR_BYTES) {
    const int m = n - i < LANES ? (int)(n - i) : LANES;
    const char *from = l->from + i * l->step;
    __m512i r[LANES];
    for (int g = 0; g < PAIR_STEP; ++g, from += 2 * l->channel) {
      r[g] = 2 * g < l->channels ? load_words(from, every, m) : _mm512_setzero_si512();
      if (2 * g + 1 < l->channels)
        r[g] = _mm512_or_si512(r[g], _mm512_slli_epi32(load_words(from + l->channel, every, m), 16));
    }
    tile_transpose_16x16(r);
    if (m == LANES)
      UNROLL for (int k = 0; k < LANES; ++k) _mm512_storeu_si512(to + k * PAIR_BYTES, r[k]);
    else
      UNROLL for (int k = 0; k < LANES; ++k) if (k < m) _mm512_storeu_si512(to + k * PAIR_BYTES, r[k]);
  }
}

/* Copies positions whose channels are contiguous. */
static void pair_copy_positions(char *to, const pair_line *l, int64_t n) {
  const __mmask32 mask = (__mmask32)((UINT64_C(1) << l->channels) - 1);
  for (int64_t i = 0; i < n; ++i)
    _mm512_storeu_si512(to + i * PAIR_BYTES, _mm512_maskz_loadu_epi16(mask, l->from + i * l->step));
}

/* ---- floats ------------------------------------------------------------------------------------------------------ */

/* Loads up to 16 floats. every: 1, or 2 for every second one. */
INLINE __m512 load_floats(const char *from, int every, int n) {
  if (every == 1) return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), from);
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const uint32_t mask = (uint32_t)((UINT64_C(1) << (2 * n - 1)) - 1);
  const __m512 low = _mm512_maskz_loadu_ps((__mmask16)mask, from);
  return _mm512_permutex2var_ps(low, even, _mm512_maskz_loadu_ps((__mmask16)(mask >> 16), from + 64));
}

/* Rounds x and y to bfloat16 and subtracts the rounded values from them. Returns words of two bfloat16, x's in the
 * low half. */
INLINE __m512i pair_split_words(__m512 *x, __m512 *y) {
  const __m512i both = _mm512_set_epi32(31 << 16 | 15, 30 << 16 | 14, 29 << 16 | 13, 28 << 16 | 12, 27 << 16 | 11,
                                        26 << 16 | 10, 25 << 16 | 9, 24 << 16 | 8, 23 << 16 | 7, 22 << 16 | 6,
                                        21 << 16 | 5, 20 << 16 | 4, 19 << 16 | 3, 18 << 16 | 2, 17 << 16 | 1, 16 << 16);
  const __m512i words = _mm512_permutexvar_epi16(both, (__m512i)_mm512_cvtne2ps_pbh(*y, *x));
  *x = _mm512_sub_ps(*x, _mm512_castsi512_ps(_mm512_slli_epi32(words, 16)));
  *y = _mm512_sub_ps(*y, _mm512_castsi512_ps(_mm512_and_si512(words, high_halves())));
  return words;
}

typedef struct {
  __m512i least, most;
} ranges;

INLINE ranges no_ranges(void) { return (ranges){_mm512_set1_epi32(-1), _mm512_setzero_si512()}; }

/* r->least is kept as the least value minus 1 in unsigned arithmetic, so that zeros become the largest and are
 * ignored. */
INLINE void pair_widen_ranges(ranges *r, __m512 x) {
  const __m512i bits = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
  r->most = _mm512_max_epu32(r->most, bits);
  r->least = _mm512_min_epu32(r->least, _mm512_sub_epi32(bits, _mm512_set1_epi32(1)));
}

INLINE void pair_reduce_ranges(float_exponents *range, const ranges *r) {
  const uint32_t most = _mm512_reduce_max_epu32(r->most), least = _mm512_reduce_min_epu32(r->least) + 1;
  float_add_exponents(
      range, (float_exponents){.least = least ? (uint8_t)(least >> 23) : UINT8_MAX, .most = (uint8_t)(most >> 23)});
}

INLINE void fill_f32(char *to, int64_t part, const pair_line *l, int every, int64_t n, float_exponents *range) {
  __m512i words[PAIR_PARTS][PAIR_STEP];
  ranges seen = no_ranges();
  for (int64_t i = 0; i < n; i += LANES, to += LANES * PAIR_BYTES) {
    const int m = n - i < LANES ? (int)(n - i) : LANES;
    const char *from = l->from + i * l->step;
    for (int g = 0; g < PAIR_STEP; ++g, from += 2 * l->channel) {
      __m512 x = 2 * g < l->channels ? load_floats(from, every, m) : _mm512_setzero_ps();
      __m512 y = 2 * g + 1 < l->channels ? load_floats(from + l->channel, every, m) : _mm512_setzero_ps();
      pair_widen_ranges(&seen, x);
      pair_widen_ranges(&seen, y);
      UNROLL for (int p = 0; p < PAIR_PARTS; ++p) words[p][g] = pair_split_words(&x, &y);
    }
    for (int p = 0; p < PAIR_PARTS; ++p) {
      __m512i r[LANES];
      UNROLL for (int g = 0; g < PAIR_STEP; ++g) r[g] = words[p][g];
      tile_transpose_16x16(r);
      UNROLL for (int k = 0; k < LANES; ++k) if (k < m) _mm512_storeu_si512(to + p * part + k * PAIR_BYTES, r[k]);
    }
  }
  pair_reduce_ranges(range, &seen);
}

/* Rounds two vectors to 32 bfloat16, which are returned in order, and subtracts the rounded values from them. */
INLINE __m512i pair_split_halves(__m512 *x, __m512 *y) {
  const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(*y, *x);
  const __m512i low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(halves));
  const __m512i high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(halves, 1));
  *x = _mm512_sub_ps(*x, _mm512_castsi512_ps(_mm512_slli_epi32(low, 16)));
  *y = _mm512_sub_ps(*y, _mm512_castsi512_ps(_mm512_slli_epi32(high, 16)));
  return halves;
}

void pair_split_floats(uint16_t *to, int64_t part, const float *from, int64_t n, float_exponents *range) {
  ranges seen = no_ranges();
  for (int64_t i = 0; i < n; i += 2 * LANES) {
    const __mmask32 mask = n - i < 2 * LANES ? (1u << (n - i)) - 1 : ~0u;
    __m512 x = _mm512_maskz_loadu_ps((__mmask16)mask, from + i);
    __m512 y = _mm512_maskz_loadu_ps((__mmask16)(mask >> 16), from + i + LANES);
    pair_widen_ranges(&seen, x);
    pair_widen_ranges(&seen, y);
    UNROLL for (int p = 0; p < PAIR_PARTS; ++p)
        _mm512_mask_storeu_epi16((char *)(to + i) + p * part, mask, pair_split_halves(&x, &y));
  }
  pair_reduce_ranges(range, &seen);
}

void pair_range_floats(float_exponents *range, const float *from, int64_t n) {
  ranges seen = no_ranges();
  for (int64_t i = 0; i < n; i += LANES)
    pair_widen_ranges(&seen,
                      _mm512_maskz_loadu_ps(n - i < LANES ? (__mmask16)((1u << (n - i)) - 1) : 0xffff, from + i));
  pair_reduce_ranges(range, &seen);
}

/* ---- lines of a channel ------------------------------------------------------------------------------------------ */

void pair_range_bf16(float_exponents *range, const uint16_t *x, int64_t n) {
  __m512i most = _mm512_setzero_si512();
  for (int64_t i = 0; i < n; i += 2 * LANES) {
    const __m512i halves = _mm512_maskz_loadu_epi16(pair_lane_mask(n - i), x + i);
    most = _mm512_max_epu16(most, _mm512_and_si512(halves, _mm512_set1_epi16(0x7fff)));
  }
  const __m512i words = _mm512_max_epu32(_mm512_slli_epi32(most, 16), _mm512_and_si512(most, high_halves()));
  float_add_exponents(range, (float_exponents){UINT8_MAX, (uint8_t)(_mm512_reduce_max_epu32(words) >> 23)});
}

/* For contiguous elements. `from` is adjusted to element 0, which may be outside of the tensor; only elements [low,
 * high) are read. */
static void copy_dense(const pair_lines *l) {
  const char *from = l->from - l->low * 2;
  for (int64_t k = 0; k < l->n; ++k, from += l->line)
    for (int64_t i = 0; i < l->pitch; i += 2 * LANES) {
      const __mmask32 inside = pair_lane_mask(l->high - i) & ~pair_lane_mask(l->low - i);
      _mm512_mask_storeu_epi16(l->to + k * l->pitch + i, pair_lane_mask(l->pitch - i),
                               _mm512_maskz_loadu_epi16(inside, from + i * 2));
    }
}

static void copy_parts(const pair_lines *l, float_exponents *range) {
  ranges seen = no_ranges();
  const char *from = l->from - l->low * 4;
  for (int64_t k = 0; k < l->n; ++k, from += l->line)
    for (int64_t i = 0; i < l->pitch; i += 2 * LANES) {
      const __mmask32 inside = pair_lane_mask(l->high - i) & ~pair_lane_mask(l->low - i);
      __m512 x = _mm512_maskz_loadu_ps((__mmask16)inside, from + i * 4);
      __m512 y = _mm512_maskz_loadu_ps((__mmask16)(inside >> 16), from + i * 4 + 64);
      pair_widen_ranges(&seen, x);
      pair_widen_ranges(&seen, y);
      UNROLL for (int p = 0; p < PAIR_PARTS; ++p) _mm512_mask_storeu_epi16(
          (char *)(l->to + k * l->pitch + i) + p * l->part, pair_lane_mask(l->pitch - i), pair_split_halves(&x, &y));
    }
  pair_reduce_ranges(range, &seen);
}

/* For strided elements, by way of a buffer. */
static void copy_apart(const pair_lines *l, float_exponents *range) {
  enum { STAGED = 512 };
  _Alignas(64) char stage[STAGED * sizeof(float)];
  const int size = l->dtype == ACL_BF16 ? 2 : 4;
  for (int64_t k = 0; k < l->n; ++k)
    for (int64_t i = 0, m; i < l->pitch; i += m) {
      m = l->pitch - i < STAGED ? l->pitch - i : STAGED;
      const int64_t low = l->low < i ? i : l->low, high = l->high > i + m ? i + m : l->high;
      pair_lines part = *l;
      part.to += k * l->pitch + i;
      part.from = stage;
      part.line = 0, part.n = 1, part.pitch = m;
      part.low = low < i + m ? low - i : m, part.high = high > i ? high - i : 0;
      if (low < high)
        conv_loops->lines(stage, 0, l->from + k * l->line + (low - l->low) * l->step, 0, 1, l->step / size, size,
                          high - low);
      size == 2 ? copy_dense(&part) : copy_parts(&part, range);
    }
}

void pair_copy_lines(const pair_lines *l, float_exponents *range) {
  if (l->step != (l->dtype == ACL_BF16 ? 2 : 4))
    copy_apart(l, range);
  else if (l->dtype == ACL_BF16)
    copy_dense(l);
  else
    copy_parts(l, range);
}

void pair_transpose(char *to, const uint16_t *from, int64_t pitch, int64_t steps) {
  for (int64_t s = 0; s < steps; ++s, to += PAIR_TILE_BYTES, from += PAIR_CHANNELS) {
    __m512i r[LANES];
    UNROLL for (int i = 0; i < LANES; ++i) r[i] = _mm512_loadu_si512((const char *)from + i * pitch);
    tile_transpose_16x16(r);
    UNROLL for (int i = 0; i < LANES; ++i) _mm512_storeu_si512(to + i * PAIR_BYTES, r[i]);
  }
}

/* ---- lines of a step --------------------------------------------------------------------------------------------- */

static void fill_dense(char *to, int64_t part, const pair_line *l, int64_t n, float_exponents *range) {
  const int64_t every = l->step / (l->dtype == ACL_BF16 ? 2 : 4);
  if (l->dtype == ACL_BF16)
    every == 1 ? fill_bf16(to, l, 1, n) : fill_bf16(to, l, 2, n);
  else
    every == 1 ? fill_f32(to, part, l, 1, n, range) : fill_f32(to, part, l, 2, n, range);
}

void pair_fill_line(char *to, int64_t part, const pair_line *l, int64_t n, float_exponents *range) {
  enum { STAGED = 64 };
  _Alignas(64) char stage[PAIR_CHANNELS * STAGED * sizeof(float)];
  const int size = l->dtype == ACL_BF16 ? 2 : 4;
  if (l->step == size || l->step == 2 * size) {
    fill_dense(to, part, l, n, range);
    return;
  }
  if (l->dtype == ACL_BF16 && l->channel == size) {
    pair_copy_positions(to, l, n);
    return;
  }
  for (int64_t i = 0; i < n; i += STAGED) {
    const int64_t m = n - i < STAGED ? n - i : STAGED;
    const pair_line staged = {stage, STAGED * size, size, l->channels, l->dtype};
    for (int c = 0; c < l->channels; ++c)
      conv_loops->take(stage + c * staged.channel, l->from + i * l->step + c * l->channel, l->step / size, size, m);
    fill_dense(to + i * PAIR_BYTES, part, &staged, m, range);
  }
}

#else /* never called: direct_pairs() returns no kernel */

void pair_fill_line(char *to, int64_t part, const pair_line *l, int64_t n, float_exponents *range) {
  (void)to, (void)part, (void)l, (void)n, (void)range;
}
void pair_split_floats(uint16_t *to, int64_t part, const float *from, int64_t n, float_exponents *range) {
  (void)to, (void)part, (void)from, (void)n, (void)range;
}
void pair_copy_lines(const pair_lines *l, float_exponents *range) { (void)l, (void)range; }
void pair_range_bf16(float_exponents *range, const uint16_t *x, int64_t n) { (void)range, (void)x, (void)n; }
void pair_transpose(char *to, const uint16_t *from, int64_t pitch, int64_t steps) {
  (void)to, (void)from, (void)pitch, (void)steps;
}
void pair_range_floats(float_exponents *range, const float *from, int64_t n) { (void)range, (void)from, (void)n; }

#endif
