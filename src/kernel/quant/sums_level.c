/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of sums.h, compiled once per instruction set level. */
#include "kernel/quant/sums.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernel/engine/level.h"
#include "tensor/dtype.h"

#ifdef __AVX512DQ__
#  include <immintrin.h>

enum { LANES = 8, TO_NEAREST = 8 };

/* Converts to float: rounds towards 0, and sets the last bit if the result is not exact. */
static inline __m256 to_odd(__m512d x) {
  const __m256 f = _mm512_cvt_roundpd_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  const __mmask8 inexact = _mm512_cmp_pd_mask(_mm512_cvtps_pd(f), x, _CMP_NEQ_UQ);
  const __m256i bits = _mm256_castps_si256(f);
  return _mm256_castsi256_ps(_mm256_mask_or_epi32(bits, inexact, bits, _mm256_set1_epi32(1)));
}

static inline __attribute__((always_inline)) void scale_body(float *to, const int32_t *sums, const column_scales *c,
                                                             double by_row, bool before, bool whole, int64_t n) {
  const __m512d row = _mm512_set1_pd(by_row);
  for (int64_t i = 0; i < n; i += LANES) {
    const __mmask8 lanes = n - i >= LANES ? 0xff : (__mmask8)((1u << (n - i)) - 1);
    __m512d x = _mm512_cvtepi32_pd(_mm256_maskz_loadu_epi32(lanes, sums + i));
    if (before) x = _mm512_add_pd(x, _mm512_maskz_loadu_pd(lanes, c->before + i));
    x = _mm512_mul_pd(_mm512_mul_pd(x, _mm512_maskz_loadu_pd(lanes, c->scale + i)), row);
    x = _mm512_add_pd(x, c->after ? _mm512_maskz_loadu_pd(lanes, c->after + i) : _mm512_setzero_pd());
    if (whole) x = _mm512_roundscale_pd(x, TO_NEAREST);
    _mm256_mask_storeu_ps(to + i, lanes, to_odd(x));
  }
}

static void quant_sums_scale(float *to, const int32_t *sums, const column_scales *c, double by_row, bool whole,
                             int64_t n) {
  if (whole)
    scale_body(to, sums, c, by_row, c->before != NULL, true, n);
  else
    scale_body(to, sums, c, by_row, c->before != NULL, false, n);
}
#else
static void quant_sums_scale(float *to, const int32_t *sums, const column_scales *c, double by_row, bool whole,
                             int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const double x = (sums[i] + (c->before ? c->before[i] : 0)) * c->scale[i] * by_row + (c->after ? c->after[i] : 0);
    to[i] = float_to_odd(whole ? rint(x) : x);
  }
}
#endif

static void quant_sums_correct(int32_t *restrict to, const int32_t *restrict sums, const integer_terms *terms,
                               int64_t n) {
  const uint32_t row_zero = (uint32_t)terms->row_zero, row_sum = (uint32_t)terms->row_sum;
  const int32_t *const by_row_zero = terms->by_row_zero, *const col_zeros = terms->col_zeros;
  if (col_zeros)
    for (int64_t i = 0; i < n; ++i)
      to[i] = (int32_t)((uint32_t)sums[i] + row_zero * (uint32_t)by_row_zero[i] - row_sum * (uint32_t)col_zeros[i]);
  else
    for (int64_t i = 0; i < n; ++i) to[i] = (int32_t)((uint32_t)sums[i] + row_zero * (uint32_t)by_row_zero[i]);
}

static void quant_sums_to_floats(float *restrict to, const int32_t *restrict sums, const float *restrict scale,
                                 const float *restrict bias, int64_t n) {
  if (bias)
    for (int64_t i = 0; i < n; ++i) to[i] = (float)sums[i] * scale[i] + bias[i];
  else
    for (int64_t i = 0; i < n; ++i) to[i] = (float)sums[i] * scale[i];
}

/* The correction of column j; row_sums count only where there are zeros of columns. */
#define CORRECTED(i, j)                                                                                                \
  ((int32_t)((uint32_t)sums[(i)*ld + (j)] + (uint32_t)terms->by_row_zero[j] -                                          \
             (terms->col_zeros ? (uint32_t)row_sums[i] * (uint32_t)terms->col_zeros[j] : 0)))

static void quant_sums_transpose(int32_t *restrict to, int64_t to_ld, const int32_t *restrict sums, int64_t ld,
                                 const int32_t *restrict row_sums, const integer_terms *terms, int64_t rows,
                                 int64_t cols) {
  for (int64_t j = 0; j < cols; ++j)
    for (int64_t i = 0; i < rows; ++i) to[j * to_ld + i] = CORRECTED(i, j);
}

static void quant_sums_transpose_floats(float *restrict to, int64_t to_ld, const int32_t *restrict sums, int64_t ld,
                                        const int32_t *restrict row_sums, const integer_terms *terms,
                                        const float *restrict scale, const float *restrict bias, int64_t rows,
                                        int64_t cols) {
  for (int64_t j = 0; j < cols; ++j) {
    const float by = scale[j], plus = bias ? bias[j] : 0;
    if (bias)
      for (int64_t i = 0; i < rows; ++i) to[j * to_ld + i] = (float)CORRECTED(i, j) * by + plus;
    else
      for (int64_t i = 0; i < rows; ++i) to[j * to_ld + i] = (float)CORRECTED(i, j) * by;
  }
}

enum { EIGHT = 8 };

/* Transposes 8 x 8 bytes, a word for each row. */
static inline void transpose_bytes(uint64_t a[EIGHT]) {
  static const uint64_t masks[] = {UINT64_C(0x00ff00ff00ff00ff), UINT64_C(0x0000ffff0000ffff),
                                   UINT64_C(0x00000000ffffffff)};
  for (int step = 0; step < 3; ++step) {
    const int apart = 1 << step, bits = EIGHT << step;
    for (int i = 0; i < EIGHT; ++i) {
      if (i & apart) continue;
      const uint64_t t = ((a[i] >> bits) ^ a[i + apart]) & masks[step];
      a[i + apart] ^= t;
      a[i] ^= t << bits;
    }
  }
}

static void quant_sums_interleave(uint8_t *restrict to, int64_t to_ld, const uint8_t *restrict x, int64_t x_ld,
                                  uint8_t flip, int64_t channels, int64_t n) {
  const uint64_t flips = flip * UINT64_C(0x0101010101010101);
  int64_t c = 0;
  for (; c + EIGHT <= channels; c += EIGHT) {
    int64_t i = 0;
    for (; i + EIGHT <= n; i += EIGHT) {
      uint64_t a[EIGHT];
      for (int k = 0; k < EIGHT; ++k) memcpy(&a[k], x + (c + k) * x_ld + i, EIGHT);
      transpose_bytes(a);
      for (int k = 0; k < EIGHT; ++k) {
        a[k] ^= flips;
        memcpy(to + (i + k) * to_ld + c, &a[k], EIGHT);
      }
    }
    for (; i < n; ++i)
      for (int k = 0; k < EIGHT; ++k) to[i * to_ld + c + k] = x[(c + k) * x_ld + i] ^ flip;
  }
  for (; c < channels; ++c)
    for (int64_t i = 0; i < n; ++i) to[i * to_ld + c] = x[c * x_ld + i] ^ flip;
}

static int32_t quant_sums_centre(int8_t *restrict to, const uint8_t *restrict x, int64_t n) {
  int32_t sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int32_t v = x[i] - 128;
    to[i] = (int8_t)v;
    sum += v;
  }
  return sum;
}

static int32_t quant_sums_sum(const int8_t *x, int64_t n) {
  int32_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

static void quant_sums_range(const float *x, int64_t n, float *least, float *most) {
  enum { WIDTH = 32 };
  float low[WIDTH], high[WIDTH];
  int64_t i = 0;
  for (int l = 0; l < WIDTH; ++l) low[l] = *least, high[l] = *most;
  for (; i + WIDTH <= n; i += WIDTH)
    for (int l = 0; l < WIDTH; ++l) {
      low[l] = x[i + l] < low[l] ? x[i + l] : low[l];
      high[l] = x[i + l] > high[l] ? x[i + l] : high[l];
    }
  for (; i < n; ++i) {
    low[0] = x[i] < low[0] ? x[i] : low[0];
    high[0] = x[i] > high[0] ? x[i] : high[0];
  }
  for (int l = 0; l < WIDTH; ++l) {
    *least = low[l] < *least ? low[l] : *least;
    *most = high[l] > *most ? high[l] : *most;
  }
}

static void quant_sums_quantise(uint8_t *restrict to, const float *restrict x, float scale, float zero, int64_t n) {
  const float whole = 0x1.8p23f; /* the sum with it has no fraction */
  for (int64_t i = 0; i < n; ++i) {
    float v = x[i] / scale;
    v = v > -512 ? v : -512;
    v = v < 512 ? v : 512;
    v = (v + whole) - whole + zero;
    v = v > 0 ? v : 0;
    v = v < 255 ? v : 255;
    to[i] = (uint8_t)(int32_t)v;
  }
}

const quant_sums_table LEVELED(quant_sums_table) = {.scale = quant_sums_scale,
                                                    .correct = quant_sums_correct,
                                                    .to_floats = quant_sums_to_floats,
                                                    .transpose = quant_sums_transpose,
                                                    .transpose_floats = quant_sums_transpose_floats,
                                                    .interleave = quant_sums_interleave,
                                                    .centre = quant_sums_centre,
                                                    .sum = quant_sums_sum,
                                                    .range = quant_sums_range,
                                                    .quantise = quant_sums_quantise};
