/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled once per instruction set level; see conv_loops.h. */
#include <string.h>
#ifdef __AVX512BW__
#  include <immintrin.h>

#  include "kernel/product/tile/tile_transpose.h"
#endif

#include "kernel/conv/conv_loops.h"
#include "kernel/engine/level.h"

#define TAKE(T)                                                                                                        \
  {                                                                                                                    \
    T *restrict to = out;                                                                                              \
    const T *restrict from = x;                                                                                        \
    if (step == 1)                                                                                                     \
      memcpy(to, from, (size_t)n * sizeof *to);                                                                        \
    else if (step == 2)                                                                                                \
      for (int64_t i = 0; i < n; ++i) to[i] = from[i * 2];                                                             \
    else                                                                                                               \
      for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];                                                          \
    break;                                                                                                             \
  }

static void conv_take(void *out, const void *x, int64_t step, int element_bytes, int64_t n) {
  switch (element_bytes) {
  case 1: TAKE(uint8_t)
  case 2: TAKE(uint16_t)
  case 4: TAKE(uint32_t)
  case 8: TAKE(uint64_t)
  default:
    for (int64_t i = 0; i < n; ++i)
      memcpy((char *)out + i * element_bytes, (const char *)x + i * step * element_bytes, (size_t)element_bytes);
  }
}

#ifdef __AVX512BW__
static inline __mmask64 conv_byte_mask(int64_t n) { return n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1; }

static inline void copy_bytes(char *to, const char *from, int64_t bytes) {
  int64_t i = 0;
  for (; i + 64 <= bytes; i += 64) _mm512_storeu_si512(to + i, _mm512_loadu_si512(from + i));
  if (i < bytes) {
    const __mmask64 mask = conv_byte_mask(bytes - i);
    _mm512_mask_storeu_epi8(to + i, mask, _mm512_maskz_loadu_epi8(mask, from + i));
  }
}

/* Copies every second element, of 2 or 4 bytes. */
static inline void copy_halves(char *to, const char *from, int64_t bytes, int element_bytes) {
  static const uint16_t even[32] = {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
                                    32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62};
  const __m512i words = _mm512_loadu_si512(even);
  const __m512i places = element_bytes == 2 ? words : _mm512_cvtepu16_epi32(_mm512_castsi512_si256(words));
  int64_t i = 0;
  for (; i + 64 < bytes; i += 64) {
    const __m512i low = _mm512_loadu_si512(from + 2 * i), high = _mm512_loadu_si512(from + 2 * i + 64);
    _mm512_storeu_si512(to + i, element_bytes == 2 ? _mm512_permutex2var_epi16(low, places, high)
                                                   : _mm512_permutex2var_epi32(low, places, high));
  }
  if (i < bytes) {
    const int64_t left = 2 * (bytes - i) - element_bytes; /* bytes that may be read */
    const __m512i low = _mm512_maskz_loadu_epi8(conv_byte_mask(left), from + 2 * i);
    const __m512i high = _mm512_maskz_loadu_epi8(left > 64 ? conv_byte_mask(left - 64) : 0, from + 2 * i + 64);
    _mm512_mask_storeu_epi8(to + i, conv_byte_mask(bytes - i),
                            element_bytes == 2 ? _mm512_permutex2var_epi16(low, places, high)
                                               : _mm512_permutex2var_epi32(low, places, high));
  }
}
#endif

static void conv_lines(void *out, int64_t out_line, const void *x, int64_t x_line, int64_t n_lines, int64_t step,
                       int element_bytes, int64_t n) {
  char *to = out;
  const char *from = x;
  for (int64_t l = 0; l < n_lines; ++l, to += out_line, from += x_line) {
#ifdef __AVX512BW__
    if (step == 1) {
      copy_bytes(to, from, n * element_bytes);
      continue;
    }
    if (step == 2 && (element_bytes == 2 || element_bytes == 4)) {
      copy_halves(to, from, n * element_bytes, element_bytes);
      continue;
    }
#endif
    conv_take(to, from, step, element_bytes, n);
  }
}

static void conv_fill(float *to, float value, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = value;
}

#define SPREAD(T, suffix)                                                                                              \
  static void spread_##suffix(T *restrict sum, int64_t step, const T *restrict x, int64_t n) {                         \
    if (step == 1)                                                                                                     \
      for (int64_t i = 0; i < n; ++i) sum[i] += x[i];                                                                  \
    else                                                                                                               \
      for (int64_t i = 0; i < n; ++i) sum[i * step] += x[i];                                                           \
  }
SPREAD(float, f32)
SPREAD(double, f64)

static inline void conv_pair_of(uint32_t *restrict out, const uint16_t *low, const uint16_t *high, int64_t step,
                                int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = low[i * step] | (uint32_t)high[i * step] << 16;
}

static void conv_pair(uint32_t *restrict out, const uint16_t *low, const uint16_t *high, int64_t step, int64_t n) {
  if (!high)
    for (int64_t i = 0; i < n; ++i) out[i] = low[i * step];
  else if (step == 1)
    conv_pair_of(out, low, high, 1, n);
  else if (step == 2)
    conv_pair_of(out, low, high, 2, n);
  else
    conv_pair_of(out, low, high, step, n);
}

#ifdef __AVX512BW__
/* Collects each tap's elements from two source vectors at a time. taps is at most 128, so that the indices fit in 16
 * bits. */
static void split_16(char *to, int64_t to_step, const char *from, int64_t taps) {
  enum { LANES = 32 };
  uint16_t place[LANES];
  for (int i = 0; i < LANES; ++i) place[i] = (uint16_t)(i * taps);
  const __m512i first = _mm512_loadu_si512(place), two = _mm512_set1_epi16(2 * LANES);
  for (int64_t t = 0; t < taps; ++t) {
    __m512i at = _mm512_add_epi16(first, _mm512_set1_epi16((short)t)), found = _mm512_setzero_si512();
    for (int64_t v = 0; v < taps; v += 2, at = _mm512_sub_epi16(at, two)) {
      const __m512i low = _mm512_loadu_si512(from + v * 64);
      const __m512i high = v + 1 < taps ? _mm512_loadu_si512(from + (v + 1) * 64) : low;
      found =
          _mm512_mask_blend_epi16(_mm512_cmplt_epu16_mask(at, two), found, _mm512_permutex2var_epi16(low, at, high));
    }
    _mm512_storeu_si512(to + t * to_step, found);
  }
}

/* Transposes 16 taps of 16 elements at a time. */
static void split_32(char *to, int64_t to_step, const char *from, int64_t taps) {
  enum { LANES = 16 };
  for (int64_t t = 0; t < taps; t += LANES) {
    const int64_t n = taps - t < LANES ? taps - t : LANES;
    const __mmask16 mask = (__mmask16)((1u << n) - 1);
    __m512i r[LANES];
    for (int i = 0; i < LANES; ++i) r[i] = _mm512_maskz_loadu_epi32(mask, from + (i * taps + t) * 4);
    tile_transpose_16x16(r);
    for (int i = 0; i < n; ++i) _mm512_storeu_si512(to + (t + i) * to_step, r[i]);
  }
}

/* For nine taps: eight of them are transposed as two 8 x 8 squares, one in each half of the registers. The elements
 * of the ninth tap are collected by masked loads, each into a lane of its own, and then permuted. */
static void split_9(char *to, int64_t to_step, const float *from) {
  enum { LANES = 16, TAPS = 9 };
  __m512 r[8], t[8], ninth = _mm512_setzero_ps();
  for (int i = 0; i < 8; ++i) {
    const float *const row = from + (i + (i & 4)) * TAPS; /* elements 0 to 3 beside 4 to 7, 8 to 11 beside 12 to 15 */
    r[i] = _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(row)), _mm256_loadu_ps(row + 4 * TAPS), 1);
  }
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4)
    for (int k = 0; k < 2; ++k) {
      const __m512d a = _mm512_castps_pd(t[i + k]), b = _mm512_castps_pd(t[i + 2 + k]);
      r[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
      r[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
  for (int k = 0; k < 4; ++k) {
    _mm512_storeu_ps(to + k * to_step, _mm512_shuffle_f32x4(r[k], r[4 + k], 0x88));
    _mm512_storeu_ps(to + (4 + k) * to_step, _mm512_shuffle_f32x4(r[k], r[4 + k], 0xdd));
  }
  for (int k = 0; k < TAPS; ++k) {
    const int first = (TAPS - 1 + (TAPS - LANES % TAPS) * k) % TAPS; /* LANES * k + first is of the ninth tap */
    ninth = _mm512_mask_loadu_ps(ninth, (__mmask16)(1 << first | (first + TAPS < LANES ? 1 << (first + TAPS) : 0)),
                                 from + LANES * k);
  }
  const __m512i places = _mm512_set_epi32(15, 6, 13, 4, 11, 2, 9, 0, 7, 14, 5, 12, 3, 10, 1, 8);
  _mm512_storeu_ps(to + 8 * to_step, _mm512_permutexvar_ps(places, ninth));
}
#endif

static void conv_split(void *to, int64_t to_step, const void *from, int64_t taps, int element_bytes) {
#ifdef __AVX512BW__
  if (element_bytes == 4 && taps == 9) {
    split_9(to, to_step, from);
    return;
  }
  if (element_bytes == 4 || taps <= 128) {
    (element_bytes == 2 ? split_16 : split_32)(to, to_step, from, taps);
    return;
  }
#endif
  for (int64_t t = 0; t < taps; ++t)
    conv_take((char *)to + t * to_step, (const char *)from + t * element_bytes, taps, element_bytes,
              64 / element_bytes);
}

/* For 16 rows: combines element `low` (0 or 1) of the word in i and element `high` of the word in j. */
static inline void conv_join_row(uint32_t *restrict to, const uint32_t *i, const uint32_t *j, int low, int high) {
#ifdef __AVX512BW__
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i first = _mm512_set1_epi32((32 + high) << 16 | low); /* indices in the vectors j and i */
  const __m512i places = _mm512_add_epi32(_mm512_mullo_epi32(lanes, _mm512_set1_epi32(2 << 16 | 2)), first);
  _mm512_storeu_si512(to, _mm512_permutex2var_epi16(_mm512_loadu_si512(i), places, _mm512_loadu_si512(j)));
#else
  for (int r = 0; r < 16; ++r) to[r] = (i[r] >> 16 * low & 0xffff) | j[r] >> 16 * high << 16;
#endif
}

static void conv_join(uint32_t *to, int64_t to_step, const uint32_t *two, int64_t taps, int64_t pairs) {
  for (int64_t t = 0; t < taps; ++t, to += to_step)
    for (int64_t p = 0; p < pairs; ++p) {
      const int64_t low = 2 * p * taps + t, high = low + taps;
      conv_join_row(to + p * 16, two + low / 2 * 16, two + high / 2 * 16, (int)(t % 2), (int)((t + taps) % 2));
    }
}

const conv_loops_table LEVELED(conv_loops_table) = {.take = conv_take,
                                                    .lines = conv_lines,
                                                    .fill = conv_fill,
                                                    .spread_f32 = spread_f32,
                                                    .spread_f64 = spread_f64,
                                                    .pair = conv_pair,
                                                    .split = conv_split,
                                                    .join = conv_join};
