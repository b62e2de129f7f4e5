/* The loops of rows_loops.h. Transposition: squares of 16 (8) elements in vector registers, what is left over one
 * by one. */
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

/* Pairs, then fours within each quarter of the registers; then the quarters, in two steps. */
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

#if defined(__AVX2__)
static void load_half(void *to, const void *from, int64_t stride, int64_t n) {
  if (stride != (int64_t)sizeof(uint16_t)) {
    loops->load[ACL_FLOAT16][COMPUTE_F32](to, from, stride, n);
    return;
  }
  float *out = to;
  const uint16_t *in = from;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(in + i))));
  for (; i < n; ++i) out[i] = _cvtsh_ss(in[i]);
}

/* NaN becomes the one that the portable conversion makes of it. */
static inline __m128i halves_of(__m256 x) {
  const __m256 sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0f)),
               nan = _mm256_or_ps(sign, _mm256_set1_ps(__builtin_nanf("")));
  return _mm256_cvtps_ph(_mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q)), _MM_FROUND_TO_NEAREST_INT);
}

static void store_half(void *to, int64_t stride, const void *from, int64_t n) {
  if (stride != (int64_t)sizeof(uint16_t)) {
    loops->store[ACL_FLOAT16][COMPUTE_F32](to, stride, from, n);
    return;
  }
  uint16_t *out = to;
  const float *in = from;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm_storeu_si128((__m128i *)(out + i), halves_of(_mm256_loadu_ps(in + i)));
  for (; i < n; ++i) out[i] = (uint16_t)_mm_extract_epi16(halves_of(_mm256_set1_ps(in[i])), 0);
}
#endif

const row_loops LEVELED(row_loops) = {
    .transpose32 = transpose32,
#if defined(__AVX2__)
    .load_half = load_half,
    .store_half = store_half,
#endif
};
