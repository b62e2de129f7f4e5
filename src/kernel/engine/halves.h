/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion of contiguous float16 and bfloat16 to and from float by AVX-512 and F16C instructions, which compilers do
 * not generate from half_to_float and similar functions. The results have the same bits as those functions', for NaNs
 * too. Only for files named *_level.c.
 *
 * The load and store functions return how many of the n elements they have converted, counted from the first: all of
 * them with AVX-512; with AVX2 a multiple of 8 for float16 and none for bfloat16; else none. */
#ifndef CANNON_KERNEL_ENGINE_HALVES_H
#define CANNON_KERNEL_ENGINE_HALVES_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __F16C__
#  include <immintrin.h>
#endif

#include "kernel/engine/unroll.h"

#if defined(__AVX512F__)
/* Loads the elements selected by `lanes`; the other lanes are 0. */
static inline __m512 f16_load_16(const uint16_t *from, __mmask16 lanes) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, from));
}
static inline __m512 bf16_load_16(const uint16_t *from, __mmask16 lanes) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, from)), 16));
}

static inline __mmask16 f32_nan_lanes_16(__m512 x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q); }

/* A NaN keeps its sign and the top bit of its fraction. */
static inline void f16_store_16(uint16_t *to, __mmask16 lanes, __m512 x) {
  const __m256i halves = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT), top = _mm256_set1_epi16((short)0xfe00);
  const __m256i plain = _mm256_mask_blend_epi16(f32_nan_lanes_16(x), halves, _mm256_and_si256(halves, top));
  _mm256_mask_storeu_epi16(to, lanes, plain);
}
static inline void bf16_store_16(uint16_t *to, __mmask16 lanes, __m512 x) {
  const __m512i bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  const __m512i rounded =
      _mm512_mask_or_epi32(_mm512_srli_epi32(sum, 16), f32_nan_lanes_16(x), high, _mm512_set1_epi32(0x40));
  _mm256_mask_storeu_epi16(to, lanes, _mm512_cvtepi32_epi16(rounded));
}

/* Two vectors at a time, which halves the number of instructions for bfloat16. NaNs are rare and take a slower path. */
INLINE void f16_load_32(const uint16_t *from, __m512 x[2]) {
  for (int k = 0; k < 2; ++k) x[k] = f16_load_16(from + 16 * k, 0xffff);
}
INLINE void f16_store_32(uint16_t *to, const __m512 x[2]) {
  const bool has_nan = _mm512_cmp_ps_mask(x[0], x[1], _CMP_UNORD_Q);
  for (int k = 0; k < 2; ++k)
    if (__builtin_expect(has_nan, 0))
      f16_store_16(to + 16 * k, 0xffff, x[k]);
    else
      _mm256_storeu_si256((void *)(to + 16 * k), _mm512_cvtps_ph(x[k], _MM_FROUND_TO_NEAREST_INT));
}

/* Words k and 16 + k of the input become the high halves of lane k of x[0] and x[1]. */
INLINE void bf16_load_32(const uint16_t *from, __m512 x[2]) {
  const __m512i words = _mm512_loadu_si512(from),
                lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  for (int k = 0; k < 2; ++k) {
    const __m512i from_word = _mm512_slli_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(16 * k)), 16);
    x[k] = _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, from_word, words));
  }
}
INLINE void bf16_store_32(uint16_t *to, const __m512 x[2]) {
  if (__builtin_expect(_mm512_cmp_ps_mask(x[0], x[1], _CMP_UNORD_Q), 0)) {
    bf16_store_16(to, 0xffff, x[0]);
    bf16_store_16(to + 16, 0xffff, x[1]);
    return;
  }
  __m512i sum[2];
  for (int k = 0; k < 2; ++k) {
    const __m512i bits = _mm512_castps_si512(x[k]), up = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
    const __mmask16 is_odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
    sum[k] = _mm512_mask_sub_epi32(up, is_odd, up, _mm512_set1_epi32(-1));
  }
  /* The high halves of the first vector's lanes and of the second's take turns; then the first's come first. */
  const __m512i turns = _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(sum[0], 16), sum[1]);
  const __m512i from_word = _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1, 30, 28, 26, 24,
                                             22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  _mm512_storeu_si512(to, _mm512_permutexvar_epi16(from_word, turns));
}

/* Lines of the next page are asked for, since the hardware stops at its beginning; once a line, two vectors. */
#  define LOAD_HALVES(type)                                                                                            \
    static inline int64_t type##_load(float *to, const uint16_t *from, int64_t n) {                                    \
      int64_t i = 0;                                                                                                   \
      for (; i + 32 <= n; i += 32) {                                                                                   \
        __m512 x[2];                                                                                                   \
        __builtin_prefetch(from + i + 1024);                                                                           \
        type##_load_32(from + i, x);                                                                                   \
        _mm512_storeu_ps(to + i, x[0]);                                                                                \
        _mm512_storeu_ps(to + i + 16, x[1]);                                                                           \
      }                                                                                                                \
      for (; i < n; i += 16) {                                                                                         \
        const __mmask16 lanes = (__mmask16)_bzhi_u32(0xffff, (unsigned)(n - i));                                       \
        _mm512_mask_storeu_ps(to + i, lanes, type##_load_16(from + i, lanes));                                         \
      }                                                                                                                \
      return n;                                                                                                        \
    }
#  define STORE_HALVES(type)                                                                                           \
    static inline int64_t type##_store(uint16_t *to, const float *from, int64_t n) {                                   \
      int64_t i = 0;                                                                                                   \
      for (; i + 32 <= n; i += 32) {                                                                                   \
        const __m512 x[2] = {_mm512_loadu_ps(from + i), _mm512_loadu_ps(from + i + 16)};                               \
        __builtin_prefetch(to + i + 1024, 1);                                                                          \
        type##_store_32(to + i, x);                                                                                    \
      }                                                                                                                \
      for (; i < n; i += 16) {                                                                                         \
        const __mmask16 lanes = (__mmask16)_bzhi_u32(0xffff, (unsigned)(n - i));                                       \
        type##_store_16(to + i, lanes, _mm512_maskz_loadu_ps(lanes, from + i));                                        \
      }                                                                                                                \
      return n;                                                                                                        \
    }
LOAD_HALVES(f16)
LOAD_HALVES(bf16)
STORE_HALVES(f16)
STORE_HALVES(bf16)
#  undef LOAD_HALVES
#  undef STORE_HALVES
#else
#  if defined(__F16C__)
static inline int64_t f16_load(float *to, const uint16_t *from, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
  return i;
}
/* A NaN keeps its sign and the top bit of its fraction. */
static inline int64_t f16_store(uint16_t *to, const float *from, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 x = _mm256_loadu_ps(from + i), sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0f)),
                 nan = _mm256_or_ps(sign, _mm256_set1_ps(__builtin_nanf("")));
    const __m256 plain = _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    _mm_storeu_si128((__m128i *)(void *)(to + i), _mm256_cvtps_ph(plain, _MM_FROUND_TO_NEAREST_INT));
  }
  return i;
}
#  else
static inline int64_t f16_load(float *to, const uint16_t *from, int64_t n) {
  (void)to, (void)from, (void)n;
  return 0;
}
static inline int64_t f16_store(uint16_t *to, const float *from, int64_t n) {
  (void)to, (void)from, (void)n;
  return 0;
}
#  endif
/* Nothing is converted here: compilers vectorise the plain conversion of bfloat16, which is a shift. */
static inline int64_t bf16_load(float *to, const uint16_t *from, int64_t n) {
  (void)to, (void)from, (void)n;
  return 0;
}
static inline int64_t bf16_store(uint16_t *to, const float *from, int64_t n) {
  (void)to, (void)from, (void)n;
  return 0;
}
#endif

#endif
