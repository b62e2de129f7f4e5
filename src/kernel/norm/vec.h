/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of floats in the width of the instruction set level, for kernels that the compiler would not vectorise well
 * by itself: reductions in several lanes, and partial vectors at the end of a row. Only for files named *_level.c.
 * Arithmetic uses GNU C's vector operators; where a special instruction is needed that a level lacks, the portable
 * level has plain C. */
#ifndef CANNON_KERNEL_NORM_VEC_H
#define CANNON_KERNEL_NORM_VEC_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#  include <immintrin.h>
#endif

#include "kernel/engine/vmath/vmath.h"

#if defined(__AVX512F__)
enum { VEC = 16 };
#elif defined(__AVX2__)
enum { VEC = 8 };
#else
enum { VEC = 4 };
#endif

typedef float vec __attribute__((vector_size(VEC * sizeof(float))));
typedef int32_t ivec __attribute__((vector_size(VEC * sizeof(float))));
typedef float vec_anywhere __attribute__((vector_size(VEC * sizeof(float)), aligned(sizeof(float)), may_alias));

static inline vec vec_of(float x) { return x - (vec){0}; } /* -0 - 0 is -0 */
static inline vec vec_load(const float *p) { return *(const vec_anywhere *)p; }
static inline void vec_store(float *p, vec v) { *(vec_anywhere *)p = v; }

/* Loads the first n < VEC elements; the other lanes are taken from rest. */
static inline vec vec_load_part(const float *p, int64_t n, vec rest) {
#if defined(__AVX512F__)
  return (vec)_mm512_mask_loadu_ps((__m512)rest, (__mmask16)((1u << n) - 1), p);
#elif defined(__AVX2__)
  const __m256i lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  const __m256i first = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
  return (vec)_mm256_blendv_ps((__m256)rest, _mm256_maskload_ps(p, first), (__m256)first);
#else
  for (int i = 0; i < n; ++i) rest[i] = p[i];
  return rest;
#endif
}

/* By halves, with AVX2: its masked stores take 20 cycles on processors of AMD. */
static inline void vec_store_part(float *p, vec v, int64_t n) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#elif defined(__AVX2__)
  __m128 left = _mm256_castps256_ps128((__m256)v);
  if (n & 4) {
    _mm_storeu_ps(p, left);
    left = _mm256_extractf128_ps((__m256)v, 1);
    p += 4;
  }
  if (n & 2) {
    _mm_storel_pi((__m64 *)(void *)p, left);
    left = _mm_movehl_ps(left, left);
    p += 2;
  }
  if (n & 1) _mm_store_ss(p, left);
#else
  for (int i = 0; i < n; ++i) p[i] = v[i];
#endif
}

/* The same for n <= VEC; if n is a constant, no mask is needed. */
static inline vec vec_get(const float *p, int64_t n, vec rest) {
  return n == VEC ? vec_load(p) : vec_load_part(p, n, rest);
}
static inline void vec_put(float *p, vec v, int64_t n) {
  if (n == VEC)
    vec_store(p, v);
  else
    vec_store_part(p, v, n);
}

/* a * b + c, rounded once if the processor has FMA. */
static inline vec vec_fma(vec a, vec b, vec c) {
#if defined(__AVX512F__)
  return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
  return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;
#endif
}

/* Maximum (minimum) per lane; b where one of them is NaN. */
static inline vec vec_max(vec a, vec b) {
#if defined(__AVX512F__)
  return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
  const ivec is_a = a > b;
  return (vec)(((ivec)a & is_a) | ((ivec)b & ~is_a));
#endif
}

static inline vec vec_min(vec a, vec b) {
#if defined(__AVX512F__)
  return (vec)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (vec)_mm256_min_ps((__m256)a, (__m256)b);
#else
  const ivec is_a = a < b;
  return (vec)(((ivec)a & is_a) | ((ivec)b & ~is_a));
#endif
}

/* Reductions over the lanes, as a tree. */
static inline float vec_sum(vec v) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)v);
#elif defined(__AVX2__)
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
#else
  for (int half = VEC / 2; half; half /= 2)
    for (int i = 0; i < half; ++i) v[i] += v[i + half];
  return v[0];
#endif
}

static inline float vec_largest(vec v) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps((__m512)v);
#elif defined(__AVX2__)
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
#else
  for (int half = VEC / 2; half; half /= 2)
    for (int i = 0; i < half; ++i) v[i] = v[i] > v[i + half] ? v[i] : v[i + half];
  return v[0];
#endif
}

/* ---- loops over the elements of rows ----------------------------------------------------------------------------- */

#define VEC_INLINE __attribute__((always_inline)) static inline

/* Parameters of a loop: the elements, and what they are combined with. */
typedef struct {
  const float *x, *y, *z;
  float *out;
  vec p, q, r, s, t, u;
  int dtype; /* dtype of x, y and out, for loops that use vec_stored.h */
} vec_loop;

/* Processes elements i to i + n of a loop, n <= VEC. */
typedef void vec_step(const vec_loop *l, int64_t i, int64_t n);

VEC_INLINE void vec_each(vec_step *step, const vec_loop *l, int64_t n) {
  int64_t i = 0;
  for (; i + VEC <= n; i += VEC) step(l, i, VEC);
  if (i < n) step(l, i, n - i);
}

/* Returns the terms of a sum for elements i to i + n, n <= VEC, and 0 in the remaining lanes. */
typedef vec vec_term(const vec_loop *l, int64_t i, int64_t n);

enum { SUM_BLOCK = 1024 };

/* Sum over elements begin to end: per lane, then as a tree. */
VEC_INLINE float vec_sum_block(vec_term *term, const vec_loop *l, int64_t begin, int64_t end) {
  vec a = {0}, b = {0}, c = {0}, d = {0};
  int64_t i = begin;
  for (; i + 4 * VEC <= end; i += 4 * VEC) {
    a += term(l, i, VEC);
    b += term(l, i + VEC, VEC);
    c += term(l, i + 2 * VEC, VEC);
    d += term(l, i + 3 * VEC, VEC);
  }
  for (; i + VEC <= end; i += VEC) a += term(l, i, VEC);
  if (i < end) b += term(l, i, end - i);
  return vec_sum((a + b) + (c + d));
}

/* Sum over n elements; sums of blocks are added in double. */
VEC_INLINE double vec_sum_terms(vec_term *term, const vec_loop *l, int64_t n) {
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += SUM_BLOCK)
    sum += vec_sum_block(term, l, begin, n - begin < SUM_BLOCK ? n : begin + SUM_BLOCK);
  return sum;
}

/* e^x for x <= 90, with an error of at most one unit in the last place (0.99 found over a million floats), including
 * denormal results; NaN is preserved. x = n ln 2 + r and e^r = 1 + r + r^2 q(r), where q is a polynomial with an error
 * in e^r of 3e-9 on [-ln(2)/2, ln(2)/2]. */
static inline vec vec_exp_bounded(vec x) {
  const float LN2_HIGH = 0x1.63p-1f, LN2_LOW = -0x1.bd0106p-13f, ROUND = 0x1.8p23f;
  x = vec_max(vec_of(-106), x); /* the result is 0 there */
  const vec shifted = vec_fma(x, vec_of((float)LOG2E), vec_of(ROUND)), n = shifted - ROUND;
  vec r = vec_fma(n, vec_of(-LN2_HIGH), x);
  r = vec_fma(n, vec_of(-LN2_LOW), r);
  vec q = vec_fma(r, vec_of(0x1.6a2434p-10f), vec_of(0x1.1239e2p-7f));
  q = vec_fma(q, r, vec_of(0x1.5558f2p-5f));
  q = vec_fma(q, r, vec_of(0x1.555492p-3f));
  q = vec_fma(q, r, vec_of(0x1.fffffcp-2f));
  const vec e = vec_fma(r * r, q, r) + 1.0f;
#if defined(__AVX512F__)
  return (vec)_mm512_scalef_ps((__m512)e, (__m512)n);
#else
  /* 2^n in two factors, since n is in -153 to 130. The low bits of the shifted sum are n. */
  const ivec whole = (ivec)shifted - 0x4b400000, half = whole >> 1;
  return e * (vec)((half + 127) << 23) * (vec)((whole - half + 127) << 23);
#endif
}

static inline vec vec_exp(vec x) { return vec_exp_bounded(vec_min(vec_of(90), x)); } /* infinity beyond */

#endif
