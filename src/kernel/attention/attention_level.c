/* SPDX-License-Identifier: Apache-2.0 */
/* See attention_level.h. */
#include "kernel/attention/attention_level.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "kernel/engine/level.h"
#include "kernel/engine/unroll.h"
#include "tensor/dtype.h"

#ifdef __F16C__
#  include <immintrin.h>
#endif

enum { LANES = 16 };

/* Minimax polynomial for 2^f on |f| <= 1/2 that is exactly 1 at 0; relative error 2e-9 before rounding. */
#define EXP2_6 1.5353362e-4f
#define EXP2_5 1.3398875e-3f
#define EXP2_4 9.618437e-3f
#define EXP2_3 5.5503324e-2f
#define EXP2_2 2.4022648e-1f
#define EXP2_1 6.931472e-1f
/* A polynomial of degree 4 (relative error 3e-6), for results that are rounded to 16 bits. */
#define SHORT_EXP2_4 9.582853e-3f
#define SHORT_EXP2_3 5.5906426e-2f
#define SHORT_EXP2_2 2.4024099e-1f
#define SHORT_EXP2_1 6.931242e-1f

#ifndef __AVX512F__
/* 2^x for x up to 128; 0 below -126; NaN is preserved. */
static inline float exp2_core(float x) {
  const float ROUND = 0x1.8p23f;
  const float high = x > 128 ? 128 : x, z = high < -126 ? -126 : high;
  const float shifted = z + ROUND, f = z - (shifted - ROUND);
  float p = EXP2_6;
  p = MULTIPLY_ADD(p, f, EXP2_5);
  p = MULTIPLY_ADD(p, f, EXP2_4);
  p = MULTIPLY_ADD(p, f, EXP2_3);
  p = MULTIPLY_ADD(p, f, EXP2_2);
  p = MULTIPLY_ADD(p, f, EXP2_1);
  p = MULTIPLY_ADD(p, f, 1.0f);
  /* The low bits of `shifted` are the integer part. */
  const float y = p * float_of_bits((bits_of_float(shifted) + 127) << 23);
  return x < -126 ? 0 : y;
}
#endif

static inline uint16_t to_bf16(float x) { return bf16_from_float(x); }
static inline uint16_t to_f16(float x) { return half_from_float(x); }
static inline float to_f32(float x) { return x; }

/* Tree reduction over the lanes. */
static inline float lanes_sum(float *lane) {
  for (int width = LANES / 2; width; width /= 2)
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  return lane[0];
}

/* The lanes of vectors are reduced in the same order as above, so both implementations give the same bits, except for
 * exp2. */
#ifdef __AVX512F__

INLINE __m512 exp2_vector(__m512 x, bool is_short) {
  const __mmask16 counts = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-126), _CMP_NLT_UQ);
  const __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), f = _mm512_sub_ps(x, n);
  __m512 p;
  if (is_short) {
    p = _mm512_fmadd_ps(_mm512_set1_ps(SHORT_EXP2_4), f, _mm512_set1_ps(SHORT_EXP2_3));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(SHORT_EXP2_2));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(SHORT_EXP2_1));
  } else {
    p = _mm512_fmadd_ps(_mm512_set1_ps(EXP2_6), f, _mm512_set1_ps(EXP2_5));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(EXP2_4));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(EXP2_3));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(EXP2_2));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(EXP2_1));
  }
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1));
  return _mm512_maskz_scalef_ps(counts, p, n);
}

static inline void put_bf16_by_integers(void *y, __mmask16 m, __m512 x) {
  const __m512i b = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(b, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(_mm512_add_epi32(b, _mm512_set1_epi32(0x7fff)), odd);
  _mm512_mask_cvtepi32_storeu_epi16(y, m, _mm512_srli_epi32(up, 16));
}

INLINE void put_lanes(void *y, __mmask16 m, __m512 x, const int dtype) {
  if (dtype == ACL_FLOAT)
    _mm512_mask_storeu_ps(y, m, x);
  else if (dtype == ACL_BF16)
    put_bf16_by_integers(y, m, x);
  else
    _mm256_mask_storeu_epi16(y, m, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* dtype: of the results. */
INLINE float exp2_row(void *to, const float *x, float factor, float shift, int64_t n, const int dtype) {
  const int64_t bytes = dtype == ACL_FLOAT ? 4 : 2;
  char *const y = to;
  const __m512 a = _mm512_set1_ps(factor), b = _mm512_set1_ps(shift);
  __m512 sum = _mm512_setzero_ps();
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    const __m512 e = exp2_vector(_mm512_fmsub_ps(_mm512_loadu_ps(x + i), a, b), bytes == 2);
    sum = _mm512_add_ps(sum, e);
    put_lanes(y + i * bytes, 0xffff, e, dtype);
  }
  if (i < n) {
    const __mmask16 m = (__mmask16)((1u << (n - i)) - 1);
    const __m512 e = exp2_vector(_mm512_fmsub_ps(_mm512_maskz_loadu_ps(m, x + i), a, b), bytes == 2);
    sum = _mm512_mask_add_ps(sum, m, sum, e);
    put_lanes(y + i * bytes, m, e, dtype);
  }
  _Alignas(64) float lane[LANES];
  _mm512_store_ps(lane, sum);
  return lanes_sum(lane);
}

/* Four accumulators, since the latency of a maximum is four cycles. */
static float row_max(const float *x, int64_t n) {
  const __m512 least = _mm512_set1_ps(-INFINITY);
  __m512 m[4] = {least, least, least, least};
  int64_t i = 0;
  for (; i + 4 * LANES <= n; i += 4 * LANES)
    for (int k = 0; k < 4; ++k) m[k] = _mm512_max_ps(_mm512_loadu_ps(x + i + k * LANES), m[k]);
  for (; i < n; i += LANES) {
    const __mmask16 in = n - i < LANES ? (__mmask16)((1u << (n - i)) - 1) : 0xffff;
    m[0] = _mm512_max_ps(_mm512_mask_loadu_ps(least, in, x + i), m[0]);
  }
  return _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(m[0], m[1]), _mm512_max_ps(m[2], m[3])));
}

#else

/* dtype: of the results. Goes through a separate block, since y may be x. */
INLINE float exp2_row(void *to, const float *x, float factor, float shift, int64_t n, const int dtype) {
  float lane[LANES] = {0}, e[LANES] = {0};
  for (int64_t i = 0; i < n; i += LANES) {
    const int m = n - i < LANES ? (int)(n - i) : LANES;
    if (m == LANES)
      for (int l = 0; l < LANES; ++l) e[l] = exp2_core(MULTIPLY_ADD(x[i + l], factor, -shift));
    else
      for (int l = 0; l < LANES; ++l) e[l] = l < m ? exp2_core(MULTIPLY_ADD(x[i + l], factor, -shift)) : 0;
    for (int l = 0; l < LANES; ++l) lane[l] += e[l];
    if (dtype == ACL_FLOAT)
      for (int l = 0; l < m; ++l) ((float *)to)[i + l] = e[l];
    else
      for (int l = 0; l < m; ++l) ((uint16_t *)to)[i + l] = dtype == ACL_BF16 ? to_bf16(e[l]) : to_f16(e[l]);
  }
  return lanes_sum(lane);
}

static float row_max(const float *x, int64_t n) {
  float most = -INFINITY;
  for (int64_t i = 0; i < n; ++i) most = x[i] > most ? x[i] : most;
  return most;
}

#endif

static float exp2_f32(void *to, const float *x, float factor, float shift, int64_t n) {
  return exp2_row(to, x, factor, shift, n, ACL_FLOAT);
}

static float exp2_f16(void *to, const float *x, float factor, float shift, int64_t n) {
  return exp2_row(to, x, factor, shift, n, ACL_FLOAT16);
}

#if defined(__AVX512F__)
static float exp2_bf16_by_integers(void *to, const float *x, float factor, float shift, int64_t n) {
  return exp2_row(to, x, factor, shift, n, ACL_BF16);
}

/* Processors that have AMX for bfloat16 have this conversion, too. */
__attribute__((target("avx512bf16"))) static float exp2_bf16_native(void *to, const float *x, float factor, float shift,
                                                                    int64_t n) {
  uint16_t *const y = to;
  const __m512 a = _mm512_set1_ps(factor), b = _mm512_set1_ps(shift);
  __m512 sum = _mm512_setzero_ps(), other = sum;
  int64_t i = 0;
  for (; i + 2 * LANES <= n; i += 2 * LANES) {
    const __m512 e = exp2_vector(_mm512_fmsub_ps(_mm512_loadu_ps(x + i), a, b), true);
    const __m512 f = exp2_vector(_mm512_fmsub_ps(_mm512_loadu_ps(x + i + LANES), a, b), true);
    sum = _mm512_add_ps(sum, e);
    other = _mm512_add_ps(other, f);
    const __m512bh both = _mm512_cvtne2ps_pbh(f, e);
    memcpy(y + i, &both, sizeof both);
  }
  return _mm512_reduce_add_ps(_mm512_add_ps(sum, other)) + exp2_bf16_by_integers(y + i, x + i, factor, shift, n - i);
}

static float exp2_bf16(void *to, const float *x, float factor, float shift, int64_t n) {
  return (__builtin_cpu_supports("avx512bf16") ? exp2_bf16_native : exp2_bf16_by_integers)(to, x, factor, shift, n);
}
#else
static float exp2_bf16(void *to, const float *x, float factor, float shift, int64_t n) {
  return exp2_row(to, x, factor, shift, n, ACL_BF16);
}
#endif

static void attention_scale(float *x, float a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] *= a;
}

static void row_axpby(float *x, float a, const float *y, float b, int64_t n) {
  INDEPENDENT for (int64_t i = 0; i < n; ++i) x[i] = MULTIPLY_ADD(x[i], a, y[i] * b);
}

static void row_multiply(float *x, const float *y, int64_t n) {
  INDEPENDENT for (int64_t i = 0; i < n; ++i) x[i] *= y[i];
}

static void row_hide(float *x, const uint8_t *mask, int64_t n) {
  INDEPENDENT for (int64_t i = 0; i < n; ++i) x[i] = mask[i] ? -INFINITY : x[i];
}

static void row_bits(float *y, const uint8_t *bits, int64_t first, float keep, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = bits[(first + i) >> 3] >> ((first + i) & 7) & 1 ? keep : 0;
}

static void row_gradient(float *ds, const float *p, const float *dp, float delta, int64_t n) {
  INDEPENDENT for (int64_t i = 0; i < n; ++i) ds[i] = p[i] * (dp[i] - delta);
}

static float row_dot(const float *x, const float *y, int64_t n) {
  float lane[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int l = 0; l < LANES; ++l) lane[l] = MULTIPLY_ADD(x[i + l], y[i + l], lane[l]);
  for (int l = 0; i + l < n; ++l) lane[l] = MULTIPLY_ADD(x[i + l], y[i + l], lane[l]);
  return lanes_sum(lane);
}

static inline float from_f16(uint16_t x) { return half_to_float(x); }
static inline float from_bf16(uint16_t x) { return bf16_to_float(x); }

/* Rows of one head are often parts of longer rows, further apart than the hardware prefetcher follows. */
enum { ROWS_AHEAD = 64, CACHE_LINE = 64 };
static inline void attention_prefetch(const void *row, int64_t row_bytes, int64_t n_bytes) {
  const char *at = (const char *)row + ROWS_AHEAD * row_bytes;
  for (int64_t i = 0; i < n_bytes; i += CACHE_LINE) __builtin_prefetch(at + i, 0, 2);
}

#define WIDEN(name, type, convert)                                                                                     \
  static void widen_##name(float *to, int64_t ld, const void *from, int64_t row_bytes, int64_t rows, int64_t n) {      \
    for (int64_t r = 0; r < rows; ++r) {                                                                               \
      const type *const s = (const type *)((const char *)from + r * row_bytes);                                        \
      attention_prefetch(s, row_bytes, n *(int64_t)sizeof *s);                                                         \
      float *const t = to + r * ld;                                                                                    \
      for (int64_t i = 0; i < n; ++i) t[i] = convert(s[i]);                                                            \
    }                                                                                                                  \
  }
WIDEN(f32, float, to_f32)
WIDEN(bf16, uint16_t, from_bf16)
#ifdef __F16C__
static void widen_f16(float *to, int64_t ld, const void *from, int64_t row_bytes, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r) {
    const uint16_t *const s = (const uint16_t *)((const char *)from + r * row_bytes);
    attention_prefetch(s, row_bytes, n * (int64_t)sizeof *s);
    float *const t = to + r * ld;
    int64_t i = 0;
#  ifdef __AVX512F__
    for (; i + 16 <= n; i += 16)
      _mm512_storeu_ps(t + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(s + i))));
#  endif
    for (; i + 8 <= n; i += 8)
      _mm256_storeu_ps(t + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(s + i))));
    for (; i < n; ++i) t[i] = from_f16(s[i]);
  }
}
#else
WIDEN(f16, uint16_t, from_f16)
#endif

#define NARROW(name, type, convert)                                                                                    \
  static void narrow_##name(void *to, const float *x, int64_t n) {                                                     \
    type *const y = to;                                                                                                \
    for (int64_t i = 0; i < n; ++i) y[i] = convert(x[i]);                                                              \
  }
NARROW(f32, float, to_f32)
NARROW(bf16, uint16_t, to_bf16)
NARROW(f16, uint16_t, to_f16)

/* ---- few rows against many --------------------------------------------------------------------------------------- */

#ifdef __AVX512F__

static inline __mmask16 lanes_left(int64_t n) { return n < LANES ? (__mmask16)((1u << n) - 1) : 0xffff; }

/* Lane i of the result is the sum of a[i]'s lanes. */
static inline __m512 sums_of_16(const __m512 *a) {
  __m512 four[4];
  for (int i = 0; i < 4; ++i) {
    const __m512 *v = a + 4 * i;
    const __m512 x = _mm512_add_ps(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
    const __m512 y = _mm512_add_ps(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
    const __m512d xd = _mm512_castps_pd(x), yd = _mm512_castps_pd(y);
    four[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(xd, yd)), _mm512_castpd_ps(_mm512_unpackhi_pd(xd, yd)));
  }
  const __m512 low =
      _mm512_add_ps(_mm512_shuffle_f32x4(four[0], four[1], 0x88), _mm512_shuffle_f32x4(four[0], four[1], 0xdd));
  const __m512 high =
      _mm512_add_ps(_mm512_shuffle_f32x4(four[2], four[3], 0x88), _mm512_shuffle_f32x4(four[2], four[3], 0xdd));
  return _mm512_add_ps(_mm512_shuffle_f32x4(low, high, 0x88), _mm512_shuffle_f32x4(low, high, 0xdd));
}

/* R queries by 16 / R keys, of which n exist. The order of summation of a dot product is the same for all shapes. */
static inline __attribute__((always_inline)) void dots_block(int R, float *s, int64_t lds, const float *q, int64_t ldq,
                                                             int64_t d, const float *key, int64_t ld, int64_t n) {
  const int K = LANES / R;
  __m512 sum[LANES];
  const float *k[LANES];
  for (int i = 0; i < K; ++i) k[i] = key + (i < n ? i : n - 1) * ld;
  for (int i = 0; i < LANES; ++i) sum[i] = _mm512_setzero_ps();
  for (int64_t c = 0; c < d; c += LANES) {
    const __mmask16 m = lanes_left(d - c);
    __m512 x[4];
    for (int r = 0; r < R; ++r) x[r] = _mm512_maskz_loadu_ps(m, q + r * ldq + c);
    for (int i = 0; i < K; ++i) {
      const __m512 y = _mm512_maskz_loadu_ps(m, k[i] + c);
      for (int r = 0; r < R; ++r) sum[r * K + i] = _mm512_fmadd_ps(x[r], y, sum[r * K + i]);
    }
  }
  _Alignas(64) float all[LANES];
  _mm512_store_ps(all, sums_of_16(sum));
  for (int r = 0; r < R; ++r) memcpy(s + r * lds, all + r * K, (size_t)(n < K ? n : K) * sizeof *s);
}

#  define DOTS(R)                                                                                                      \
    static void dots_##R(float *s, int64_t lds, const float *q, int64_t ldq, int64_t d, const float *key, int64_t ld,  \
                         int64_t n) {                                                                                  \
      for (int64_t k = 0; k < n; k += LANES / (R)) dots_block(R, s + k, lds, q, ldq, d, key + k * ld, ld, n - k);      \
    }
DOTS(1)
DOTS(2)
DOTS(4)

static void attention_dots(float *s, int64_t lds, const float *q, int64_t ldq, int64_t rows, int64_t d,
                           const float *key, int64_t ld, int64_t n) {
  for (int64_t r = 0, at_once; r < rows; r += at_once) {
    at_once = rows - r >= 4 ? 4 : rows - r >= 2 ? 2 : 1;
    (at_once == 4 ? dots_4 : at_once == 2 ? dots_2 : dots_1)(s + r * lds, lds, q + r * ldq, ldq, d, key, ld, n);
  }
}

/* R rows of results by C vectors. */
static inline __attribute__((always_inline)) void sums_block(int R, int C, float *o, int64_t ldo, const float *p,
                                                             int64_t ldp, int64_t width, const float *value, int64_t ld,
                                                             int64_t n) {
  __m512 sum[16];
  __mmask16 m[8];
  for (int c = 0; c < C; ++c) m[c] = width > c * LANES ? lanes_left(width - c * LANES) : 0;
  for (int i = 0; i < R * C; ++i) sum[i] = _mm512_maskz_loadu_ps(m[i % C], o + i / C * ldo + i % C * LANES);
  for (int64_t k = 0; k < n; ++k)
    for (int c = 0; c < C; ++c) {
      const __m512 v = _mm512_maskz_loadu_ps(m[c], value + k * ld + c * LANES);
      for (int r = 0; r < R; ++r) sum[r * C + c] = _mm512_fmadd_ps(_mm512_set1_ps(p[r * ldp + k]), v, sum[r * C + c]);
    }
  for (int i = 0; i < R * C; ++i) _mm512_mask_storeu_ps(o + i / C * ldo + i % C * LANES, m[i % C], sum[i]);
}

#  define SUMS(R, C)                                                                                                   \
    static void sums_##R(float *o, int64_t ldo, const float *p, int64_t ldp, int64_t d, const float *value,            \
                         int64_t ld, int64_t n) {                                                                      \
      for (int64_t c = 0; c < d; c += LANES * (C)) sums_block(R, C, o + c, ldo, p, ldp, d - c, value + c, ld, n);      \
    }
SUMS(1, 8)
SUMS(2, 8)
SUMS(4, 4)

static void attention_sums(float *o, int64_t ldo, const float *p, int64_t ldp, int64_t rows, int64_t d,
                           const float *value, int64_t ld, int64_t n) {
  for (int64_t r = 0, at_once; r < rows; r += at_once) {
    at_once = rows - r >= 4 ? 4 : rows - r >= 2 ? 2 : 1;
    (at_once == 4 ? sums_4 : at_once == 2 ? sums_2 : sums_1)(o + r * ldo, ldo, p + r * ldp, ldp, d, value, ld, n);
  }
}

#else

static void attention_dots(float *s, int64_t lds, const float *q, int64_t ldq, int64_t rows, int64_t d,
                           const float *key, int64_t ld, int64_t n) {
  for (int64_t k = 0; k < n; ++k)
    for (int64_t r = 0; r < rows; ++r) s[r * lds + k] = row_dot(q + r * ldq, key + k * ld, d);
}

static void attention_sums(float *o, int64_t ldo, const float *p, int64_t ldp, int64_t rows, int64_t d,
                           const float *value, int64_t ld, int64_t n) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < n; ++k) {
      const float w = p[r * ldp + k];
      const float *const v = value + k * ld;
      float *const out = o + r * ldo;
      INDEPENDENT for (int64_t i = 0; i < d; ++i) out[i] = MULTIPLY_ADD(w, v[i], out[i]);
    }
}

#endif

const attention_loops LEVELED(attention_loops) = {
    .max = row_max,
    .exp2 = {exp2_f32, exp2_bf16, exp2_f16},
    .scale = attention_scale,
    .axpby = row_axpby,
    .multiply = row_multiply,
    .hide = row_hide,
    .bits = row_bits,
    .gradient = row_gradient,
    .dot = row_dot,
    .widen = {widen_f32, widen_bf16, widen_f16},
    .narrow = {narrow_f32, narrow_bf16, narrow_f16},
    .dots = attention_dots,
    .sums = attention_sums,
};
