/* SPDX-License-Identifier: Apache-2.0 */
/* Sums, sums of squares, maxima and minima of float, float16 and bfloat16 by AVX-512: the lanes and the tree of fold.h,
 * in registers. Only for fold_level.c, after LANE.
 *
 * Rows: the lanes are two registers (four for squares), which the upper levels of the tree reduce to one; the other
 * levels are applied to the registers of many rows together, so that none is half empty. Columns: one lane at a time of
 * up to 128 columns is in eight registers, so that the inner loop only loads and combines a row's elements. */
#ifndef CANNON_KERNEL_REDUCE_FOLD_VECTORS_H
#define CANNON_KERNEL_REDUCE_FOLD_VECTORS_H

#include "kernel/engine/halves.h"
#include "kernel/engine/lanes.h"
#include "kernel/engine/unroll.h"

/* Floats that are in no cache are prefetched this far ahead, into the second-level cache, which supports more
 * outstanding requests than the first: 34 GB/s instead of 27 on a Zen 4, whose prefetchers stop at pages. 16-bit floats
 * take longer to process and arrive in time anyway: with prefetches it was 20 GB/s instead of 29. */
enum { AHEAD_BYTES = 4096, SECOND_LEVEL = 2, VECTORS_TURNED = 12, NEAR_BYTES = 8192 };

INLINE void fold_prefetch(const void *at, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)at + AHEAD_BYTES + i, 0, SECOND_LEVEL);
}

/* A row's length, prepared for the loops. */
typedef struct {
  int64_t whole;     /* elements in complete sets of lanes */
  __mmask16 rest[2]; /* masks of the remaining elements: in the first 16 lanes, in the others */
} row_extent;

INLINE row_extent fold_extent(int64_t n) {
  const int64_t whole = n - n % FOLD_LANES;
  return (row_extent){whole, {lanes_first(n - whole), lanes_first(n - whole - 16)}};
}

/* ---- 32 elements in two registers: _pair loads in an order that _ordered undoes and _paired restores ------------- */

INLINE __m512 f32_load_16(const float *x, __mmask16 lanes) { return _mm512_maskz_loadu_ps(lanes, x); }
INLINE void f32_load_32(const float *x, __m512 v[2]) {
  v[0] = _mm512_loadu_ps(x);
  v[1] = _mm512_loadu_ps(x + 16);
}

#define f32_pair f32_load_32
#define f16_pair f16_load_32
/* Even elements first, then odd ones. */
INLINE void bf16_pair(const uint16_t *x, __m512 v[2]) {
  const __m512i words = _mm512_loadu_si512(x);
  v[0] = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
  v[1] = _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32((int)0xffff0000)));
}

INLINE void f32_ordered(__m512 v[2]) { (void)v; }
INLINE void f32_paired(__m512 v[2]) { (void)v; }
#define f16_ordered f32_ordered
#define f16_paired  f32_paired
INLINE void bf16_ordered(__m512 v[2]) {
  const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512 a = v[0], b = v[1];
  v[0] = _mm512_permutex2var_ps(a, low, b);
  v[1] = _mm512_permutex2var_ps(a, _mm512_add_epi32(low, _mm512_set1_epi32(8)), b);
}
INLINE void bf16_paired(__m512 v[2]) {
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512 a = v[0], b = v[1];
  v[0] = _mm512_permutex2var_ps(a, even, b);
  v[1] = _mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b);
}

/* ---- combining a with b, which comes after it -------------------------------------------------------------------- */

INLINE __m512 join_sum(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }
/* Equal elements and a NaN in b leave a: NaNs are detected separately. */
INLINE __m512 join_max(__m512 a, __m512 b) { return _mm512_max_ps(b, a); }
INLINE __m512 join_min(__m512 a, __m512 b) { return _mm512_min_ps(b, a); }

INLINE __mmask16 odd_sum(__m512 a, __m512 b) {
  (void)a, (void)b;
  return 0;
}
INLINE __mmask16 odd_max(__m512 a, __m512 b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); }
#define odd_min odd_max

/* As join_*, but NaNs propagate. */
INLINE __m512 hold_sum(__m512 a, __m512 b) { return join_sum(a, b); }
INLINE __m512 hold_max(__m512 a, __m512 b) { return _mm512_mask_mov_ps(join_max(a, b), f32_nan_lanes_16(b), b); }
INLINE __m512 hold_min(__m512 a, __m512 b) { return _mm512_mask_mov_ps(join_min(a, b), f32_nan_lanes_16(b), b); }

/* ---- sums, maxima and minima ------------------------------------------------------------------------------------- */

INLINE void store_results(fold_value *value, __m512 v, int64_t n) {
  const __mmask16 some = lanes_first(n);
  _mm512_mask_storeu_pd(value, (__mmask8)some, _mm512_cvtps_pd(_mm512_castps512_ps256(v)));
  if (n > 8) _mm512_mask_storeu_pd(value + 8, (__mmask8)(some >> 8), _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)));
}

#define KIND(f) sum_of_##f
#define OP(f)   f##_sum
#define INIT    0
#include "kernel/reduce/fold_vector_kind.inc"

#define KIND(f) max_of_##f
#define OP(f)   f##_max
#define INIT    -INFINITY
#include "kernel/reduce/fold_vector_kind.inc"

#define KIND(f) min_of_##f
#define OP(f)   f##_min
#define INIT    INFINITY
#include "kernel/reduce/fold_vector_kind.inc"

/* ---- rows of squares, in double: squares of floats are exact, so one rounding equals two ------------------------- */

/* The remaining levels of the tree, over the 8 lanes of 8 rows. */
INLINE __m512d tree_squares(__m512d v[8]) {
  UNROLL for (int i = 0; i < 4; ++i) {
    const __m512d a = v[2 * i], b = v[2 * i + 1];
    v[i] = _mm512_add_pd(_mm512_shuffle_f64x2(a, b, 0x44), _mm512_shuffle_f64x2(a, b, 0xee));
  }
  UNROLL for (int i = 0; i < 2; ++i) {
    const __m512d a = v[2 * i], b = v[2 * i + 1];
    v[i] = _mm512_add_pd(_mm512_shuffle_f64x2(a, b, 0x88), _mm512_shuffle_f64x2(a, b, 0xdd));
  }
  const __m512d turns = _mm512_add_pd(_mm512_unpacklo_pd(v[0], v[1]), _mm512_unpackhi_pd(v[0], v[1]));
  return _mm512_permutexvar_pd(_mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0), turns);
}

/* In registers of four lanes: a Zen 4 converts floats from memory to double in two thirds of the time that way. */
INLINE void fold_add_whole_squares(__m512d lane[4], const float *x, int64_t n, bool is_far) {
  __m256d four[8];
  UNROLL for (int k = 0; k < 8; ++k) four[k] = _mm256_setzero_pd();
  for (int64_t i = 0; i < n; i += FOLD_LANES) {
    if (is_far) fold_prefetch(x + i, FOLD_LANES * sizeof(float));
    UNROLL for (int k = 0; k < 8; ++k) {
      const __m256d wide = _mm256_cvtps_pd(_mm_loadu_ps(x + i + 4 * k));
      four[k] = _mm256_fmadd_pd(wide, wide, four[k]);
    }
  }
  UNROLL for (int k = 0; k < 4; ++k) lane[k] =
      _mm512_insertf64x4(_mm512_castpd256_pd512(four[2 * k]), four[2 * k + 1], 1);
}

INLINE __m512d fold_add_some_squares(__m512d lane, const float *x, __mmask8 some) {
  const __m512d wide = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(some, x));
  return _mm512_fmadd_pd(wide, wide, lane);
}

INLINE __m512d fold_square_lanes(const float *x, row_extent n, bool is_far) {
  __m512d lane[4] = {_mm512_setzero_pd(), _mm512_setzero_pd(), _mm512_setzero_pd(), _mm512_setzero_pd()};
  if (n.whole) fold_add_whole_squares(lane, x, n.whole, is_far);
  if (n.rest[0]) lane[0] = fold_add_some_squares(lane[0], x + n.whole, (__mmask8)n.rest[0]);
  if (n.rest[0] >> 8) lane[1] = fold_add_some_squares(lane[1], x + n.whole + 8, (__mmask8)(n.rest[0] >> 8));
  if (n.rest[1]) lane[2] = fold_add_some_squares(lane[2], x + n.whole + 16, (__mmask8)n.rest[1]);
  if (n.rest[1] >> 8) lane[3] = fold_add_some_squares(lane[3], x + n.whole + 24, (__mmask8)(n.rest[1] >> 8));
  return _mm512_add_pd(_mm512_add_pd(lane[0], lane[2]), _mm512_add_pd(lane[1], lane[3]));
}

static void sum_square_of_f32_rows(const fold_rows *of, const double *shift, fold_value *value, fold_value *second) {
  const row_extent n = fold_extent(of->n);
  const char *x = of->x;
  (void)shift, (void)second;
  for (int64_t r = 0; r < of->count; r += 8) {
    const int64_t count = of->count - r < 8 ? of->count - r : 8;
    __m512d v[8];
    for (int64_t k = 0; k < count; ++k, x += of->pitch) {
      const float *const row = (const float *)(const void *)x;
      v[k] = of->is_far ? fold_square_lanes(row, n, true) : fold_square_lanes(row, n, false);
    }
    for (int64_t k = count; k < 8; ++k) v[k] = _mm512_setzero_pd();
    _mm512_mask_storeu_pd(value + r, (__mmask8)lanes_first(count), tree_squares(v));
  }
}

/* ---- roots ------------------------------------------------------------------------------------------------------- */

/* Square roots of the first n of 8 values. Newton's method from 14 bits to 28, then a correction by the remainder:
 * within 0.51 ULP in a fifth of the time of sqrt on a Zen 4. Elements that might leave its range use sqrt. An element's
 * root does not depend on the others. */
INLINE void fold_roots_of_8(fold_value *value, int64_t n) {
  const __mmask8 some = (__mmask8)lanes_first(n < 8 ? n : 8);
  const __m512d x = _mm512_mask_loadu_pd(_mm512_set1_pd(1), some, value), half = _mm512_set1_pd(0.5);
  const __m512d r = _mm512_rsqrt14_pd(x), g = _mm512_mul_pd(x, r), h = _mm512_mul_pd(r, half);
  const __m512d e = _mm512_fnmadd_pd(g, h, half), near = _mm512_fmadd_pd(g, e, g);
  __m512d root = _mm512_fmadd_pd(_mm512_fnmadd_pd(near, near, x), _mm512_fmadd_pd(h, e, h), near);
  const __mmask8 plain = _mm512_cmp_pd_mask(x, _mm512_set1_pd(0x1p-900), _CMP_GE_OQ) &
                         _mm512_cmp_pd_mask(x, _mm512_set1_pd(0x1p900), _CMP_LE_OQ);
  if (__builtin_expect(plain != 0xff, 0)) root = _mm512_mask_sqrt_pd(root, (__mmask8)~plain, x);
  _mm512_mask_storeu_pd(value, some, root);
}

#endif
