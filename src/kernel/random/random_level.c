/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of random numbers; see random.h. */
#include <math.h>
#include <string.h>

#ifdef __AVX2__
#  include <immintrin.h>
#endif

#include "kernel/engine/level.h"
#include "kernel/engine/unroll.h"
#include "kernel/engine/vmath/vmath.h"
#include "kernel/random/random.h"

/* Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011. */
enum { FEW = 4, ROUNDS = 10 };
#define FACTOR_0 UINT64_C(0xd2511f53)
#define FACTOR_1 UINT64_C(0xcd9e8d57)
#define KEY_0    0x9e3779b9u
#define KEY_1    0xbb67ae85u

#if defined(__AVX2__)
enum { LANES = 8, GROUPS = LANES / FEW };

/* Words c of FEW blocks, in the low halves of 64-bit lanes; the high halves are arbitrary, as multiplications ignore
 * them. GCC's code for the plain loop below takes three times as long, with AVX-512 six times (bench/ops, Normal). */
typedef struct {
  __m256i c[4];
} philox_words;

INLINE void philox_store(uint32_t *out, const philox_words *w) {
  const __m256i low = _mm256_blend_epi32(w->c[0], _mm256_slli_epi64(w->c[1], 32), 0xaa);
  const __m256i high = _mm256_blend_epi32(w->c[2], _mm256_slli_epi64(w->c[3], 32), 0xaa);
  const __m256i even = _mm256_unpacklo_epi64(low, high), odd = _mm256_unpackhi_epi64(low, high);
  _mm256_storeu_si256((void *)out, _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256((void *)(out + 8), _mm256_permute2x128_si256(even, odd, 0x31));
}

/* Generates `lanes` blocks, FEW or LANES, at a time. */
INLINE void philox(uint32_t *restrict out, uint64_t seed, uint64_t offset, uint64_t first, const int lanes) {
  const __m256i factor_0 = _mm256_set1_epi64x((long long)FACTOR_0), factor_1 = _mm256_set1_epi64x((long long)FACTOR_1);
  const int groups = lanes / FEW;
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  philox_words w[GROUPS];
  for (int g = 0; g < groups; ++g) {
    const __m256i index = _mm256_add_epi64(_mm256_set1_epi64x((int64_t)first + FEW * g), _mm256_set_epi64x(3, 2, 1, 0));
    w[g] = (philox_words){{index, _mm256_srli_epi64(index, 32), _mm256_set1_epi64x((long long)offset),
                           _mm256_set1_epi64x((long long)(offset >> 32))}};
  }
  for (int round = 0; round < ROUNDS; ++round, k0 += KEY_0, k1 += KEY_1) {
    const __m256i key_0 = _mm256_set1_epi64x(k0), key_1 = _mm256_set1_epi64x(k1);
    UNROLL for (int g = 0; g < groups; ++g) {
      __m256i *const c = w[g].c;
      const __m256i x = _mm256_mul_epu32(c[0], factor_0), y = _mm256_mul_epu32(c[2], factor_1);
      c[0] = _mm256_xor_si256(_mm256_srli_epi64(y, 32), _mm256_xor_si256(c[1], key_0));
      c[2] = _mm256_xor_si256(_mm256_srli_epi64(x, 32), _mm256_xor_si256(c[3], key_1));
      c[1] = y;
      c[3] = x;
    }
  }
  for (int g = 0; g < groups; ++g) philox_store(out + 4 * FEW * g, &w[g]);
}
#else
enum { LANES = 16 };

/* Generates `lanes` blocks, a constant number, at a time. */
INLINE void philox(uint32_t *restrict out, uint64_t seed, uint64_t offset, uint64_t first, const int lanes) {
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
  for (int j = 0; j < lanes; ++j) {
    c0[j] = (uint32_t)(first + (uint64_t)j);
    c1[j] = (uint32_t)((first + (uint64_t)j) >> 32);
    c2[j] = (uint32_t)offset;
    c3[j] = (uint32_t)(offset >> 32);
  }
  for (int round = 0; round < ROUNDS; ++round, k0 += KEY_0, k1 += KEY_1) {
    for (int j = 0; j < lanes; ++j) {
      const uint64_t x = FACTOR_0 * c0[j], y = FACTOR_1 * c2[j];
      c0[j] = (uint32_t)(y >> 32) ^ c1[j] ^ k0;
      c2[j] = (uint32_t)(x >> 32) ^ c3[j] ^ k1;
      c1[j] = (uint32_t)y;
      c3[j] = (uint32_t)x;
    }
  }
  for (int j = 0; j < lanes; ++j) {
    out[4 * j] = c0[j];
    out[4 * j + 1] = c1[j];
    out[4 * j + 2] = c2[j];
    out[4 * j + 3] = c3[j];
  }
}
#endif

static void words(uint32_t *out, uint64_t seed, uint64_t offset, uint64_t first, int64_t n) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) philox(out + 4 * i, seed, offset, first + (uint64_t)i, LANES);
  for (; i + FEW <= n; i += FEW) philox(out + 4 * i, seed, offset, first + (uint64_t)i, FEW);
  if (i == n) return;
  uint32_t rest[4 * FEW];
  philox(rest, seed, offset, first + (uint64_t)i, FEW);
  memcpy(out + 4 * i, rest, (size_t)(n - i) * 4 * sizeof *out);
}

/* Sine and cosine of a turn's fraction, given as 32 bits: exact reduction to an eighth of a turn, then Taylor
 * series. */
static inline void sincos_turn(uint32_t turn, float *sine, float *cosine) {
  const uint32_t quadrant = (turn + (1u << 29)) >> 30;
  const float x = (float)(int32_t)(turn - (quadrant << 30)) * (float)(2 * M_PI * 0x1p-32), x2 = x * x;
  const float s = x * (1 + x2 * (-1.0f / 6 + x2 * (1.0f / 120 - x2 * (1.0f / 5040))));
  const float c = 1 + x2 * (-0.5f + x2 * (1.0f / 24 + x2 * (-1.0f / 720 + x2 * (1.0f / 40320))));
  const float swapped_s = quadrant & 1 ? c : s, swapped_c = quadrant & 1 ? s : c;
  *sine = quadrant & 2 ? -swapped_s : swapped_s;
  *cosine = (quadrant + 1) & 2 ? -swapped_c : swapped_c;
}

static void normal_f32(float *restrict out, const uint32_t *restrict in, int64_t n) {
  for (int64_t i = 0; i < n / 2; ++i) {
    const float u = (float)in[2 * i] * 0x1p-32f + 0x1p-33f; /* in (0, 1] */
    const float radius = sqrtf(-2 * vlog_f32(u));
    float s, c;
    sincos_turn(in[2 * i + 1], &s, &c);
    out[2 * i] = radius * c;
    out[2 * i + 1] = radius * s;
  }
}

static void dropout_drop(float *out, const float *x, const uint8_t *mask, float scale, int64_t n) {
  for (int64_t i = 0; i < n; i += 8) {
    const uint32_t bits = mask[i / 8];
    float factor[8];
    for (int k = 0; k < 8; ++k) factor[k] = bits >> k & 1 ? scale : 0;
    for (int k = 0; k < 8 && i + k < n; ++k) out[i + k] = factor[k] != 0 ? x[i + k] * factor[k] : 0;
  }
}

static void keep_bits(uint8_t *mask, const uint32_t *in, uint32_t below, int64_t n) {
  for (int64_t i = 0; i < n / 8; ++i) {
    uint32_t bits = 0;
    for (int k = 0; k < 8; ++k) bits |= (uint32_t)(in[8 * i + k] >= below) << k;
    mask[i] = (uint8_t)bits;
  }
}

const random_loops LEVELED(random_loops) = {
    .words = words, .normal_f32 = normal_f32, .drop = dropout_drop, .keep_bits = keep_bits};
