/* SPDX-License-Identifier: Apache-2.0 */
/* Implementation of few_rows.h for one instruction set level (engine/level.h). */
#include "kernel/product/few_rows.h"

#include <string.h>

#include "kernel/engine/level.h"
#include "kernel/norm/vec.h"
#include "tensor/dtype.h"

#if defined(__clang__)
#  define UNROLL _Pragma("clang loop unroll(full)")
#else
#  define UNROLL _Pragma("GCC unroll 8")
#endif
#define INLINE static inline __attribute__((always_inline))

enum { LANES = VEC, SECOND_LEVEL = 2 /* prefetch locality: into L2 */ };

/* ---- loads of LANES weights as floats ---------------------------------------------------------------------------- */

INLINE vec load_f32(const char *b) { return *(const vec_anywhere *)(const void *)b; }

#if defined(__AVX512F__)
INLINE vec load_f16(const char *b) { return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)b)); }
INLINE vec load_bf16(const char *b) {
  return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)b)), 16);
}
INLINE vec load_i8(const char *b) {
  return (vec)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)b)));
}
#elif defined(__AVX2__)
INLINE vec load_f16(const char *b) { return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const void *)b)); }
INLINE vec load_bf16(const char *b) {
  return (vec)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)b)), 16);
}
INLINE vec load_i8(const char *b) {
  return (vec)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)b)));
}
#else
#  define LOAD(name, type, convert)                                                                                    \
    INLINE vec load_##name(const char *b) {                                                                            \
      type x[LANES];                                                                                                   \
      memcpy(x, b, sizeof x);                                                                                          \
      return (vec){convert(x[0]), convert(x[1]), convert(x[2]), convert(x[3])};                                        \
    }
LOAD(f16, uint16_t, half_to_float)
LOAD(bf16, uint16_t, bf16_to_float)
LOAD(i8, int8_t, (float))
#endif

typedef vec load_function(const char *b);

/* Loads the last n < LANES weights; the other lanes are 0. */
INLINE vec load_last(load_function *load, int size, const char *b, int64_t n) {
  if (load == load_f32) return vec_load_part((const float *)(const void *)b, n, (vec){0});
  char padded[LANES * 4] = {0};
  memcpy(padded, b, (size_t)(n * size));
  return load(padded);
}

INLINE float sum_of(vec x) {
  float lane[LANES];
  memcpy(lane, &x, sizeof lane);
  for (int half = LANES / 2; half; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

/* ---- dot products ------------------------------------------------------------------------------------------------ */

/* B is read as one linear stream, which the hardware prefetcher follows: columns one after the other, without
 * prefetching by software. From memory that is 10 to 20 % faster than four columns at once with it (float16, 1 x 1536 x
 * any, Zen 4), and as fast from L2. Two sums hide the latency of the addition. Their order does not depend on which
 * other rows and columns are computed. */
INLINE void few_rows_dots_body(load_function *load, int size, int rows, int64_t k, const float *a, int64_t a_pitch,
                               const char *b, float *c, int64_t c_pitch) {
  vec sum[FEW_ROWS][2];
  UNROLL for (int i = 0; i < rows; ++i) sum[i][0] = sum[i][1] = (vec){0};
  int64_t l = 0;
  for (; l + 2 * LANES <= k; l += 2 * LANES) {
    const vec first = load(b + l * size), second = load(b + (l + LANES) * size);
    UNROLL for (int i = 0; i < rows; ++i) {
      sum[i][0] += load_f32((const char *)(a + i * a_pitch + l)) * first;
      sum[i][1] += load_f32((const char *)(a + i * a_pitch + l + LANES)) * second;
    }
  }
  if (l + LANES <= k) {
    const vec w = load(b + l * size);
    UNROLL for (int i = 0; i < rows; ++i) sum[i][0] += load_f32((const char *)(a + i * a_pitch + l)) * w;
    l += LANES;
  }
  if (l < k) {
    const vec w = load_last(load, size, b + l * size, k - l);
    UNROLL for (int i = 0; i < rows; ++i) sum[i][1] +=
        load_last(load_f32, 4, (const char *)(a + i * a_pitch + l), k - l) * w;
  }
  UNROLL for (int i = 0; i < rows; ++i) c[i * c_pitch] = sum_of(sum[i][0] + sum[i][1]);
}

/* As many rows at once as there are registers for the sums; the column is in L1 for the others. */
enum { ROWS_AT_ONCE = LANES == 16 ? FEW_ROWS : FEW_ROWS / 2 };

INLINE void dots_of_rows(load_function *load, int size, int rows, int cols, int64_t k, const float *a, int64_t a_pitch,
                         const char *b, int64_t b_stride, float *c, int64_t c_pitch) {
  const int at_once = rows < ROWS_AT_ONCE ? rows : ROWS_AT_ONCE;
  for (int j = 0; j < cols; ++j, b += b_stride) {
    few_rows_dots_body(load, size, at_once, k, a, a_pitch, b, c + j, c_pitch);
    if (rows > at_once)
      few_rows_dots_body(load, size, rows - at_once, k, a + at_once * a_pitch, a_pitch, b, c + at_once * c_pitch + j,
                         c_pitch);
  }
}

/* ---- updates with rows of B -------------------------------------------------------------------------------------- */

/* n: a multiple of LANES. The next rows are prefetched: the streams are too far apart for the hardware prefetcher. */
INLINE void few_rows_axpys_body(load_function *load, int size, int rows, int depth, int64_t n, const float *a,
                                int64_t a_pitch, const char *b, int64_t b_stride, float *c, int64_t c_pitch) {
  for (int64_t j = 0; j < n; j += LANES) {
    vec w[AXPY_DEPTH];
    UNROLL for (int l = 0; l < depth; ++l) __builtin_prefetch(b + (depth + l) * b_stride + j * size, 0, SECOND_LEVEL);
    UNROLL for (int l = 0; l < depth; ++l) w[l] = load(b + l * b_stride + j * size);
    UNROLL for (int i = 0; i < rows; ++i) {
      vec_anywhere *const to = (vec_anywhere *)(void *)(c + i * c_pitch + j);
      vec sum = *to;
      UNROLL for (int l = 0; l < depth; ++l) sum += a[i * a_pitch + l] * w[l];
      *to = sum;
    }
  }
}

/* The last n < LANES columns. */
INLINE void axpys_last(load_function *load, int size, int rows, int depth, int64_t n, const float *a, int64_t a_pitch,
                       const char *b, int64_t b_stride, float *c, int64_t c_pitch) {
  vec sum[FEW_ROWS];
  UNROLL for (int i = 0; i < rows; ++i) sum[i] = vec_load_part(c + i * c_pitch, n, (vec){0});
  for (int l = 0; l < depth; ++l) {
    const vec w = load_last(load, size, b + l * b_stride, n);
    UNROLL for (int i = 0; i < rows; ++i) sum[i] += a[i * a_pitch + l] * w;
  }
  UNROLL for (int i = 0; i < rows; ++i) vec_store_part(c + i * c_pitch, sum[i], n);
}

INLINE void axpys_of_rows(load_function *load, int size, int rows, int depth, int64_t n, const float *a,
                          int64_t a_pitch, const char *b, int64_t b_stride, float *c, int64_t c_pitch) {
  const int64_t whole = n / LANES * LANES;
  if (depth == AXPY_DEPTH)
    few_rows_axpys_body(load, size, rows, AXPY_DEPTH, whole, a, a_pitch, b, b_stride, c, c_pitch);
  else
    for (int l = 0; l < depth; ++l)
      few_rows_axpys_body(load, size, rows, 1, whole, a + l, a_pitch, b + l * b_stride, b_stride, c, c_pitch);
  if (whole < n)
    axpys_last(load, size, rows, depth, n - whole, a, a_pitch, b + whole * size, b_stride, c + whole, c_pitch);
}

/* ---- instances for each type and number of rows ------------------------------------------------------------------ */

#define FUNCTION(kind, type, size)                                                                                     \
  static void kind##_##type(int rows, int extent, int64_t n, const float *a, int64_t a_pitch, const char *b,           \
                            int64_t b_stride, float *c, int64_t c_pitch) {                                             \
    switch (rows) {                                                                                                    \
    case 1: kind##_of_rows(load_##type, size, 1, extent, n, a, a_pitch, b, b_stride, c, c_pitch); break;               \
    case 2: kind##_of_rows(load_##type, size, 2, extent, n, a, a_pitch, b, b_stride, c, c_pitch); break;               \
    case 3: kind##_of_rows(load_##type, size, 3, extent, n, a, a_pitch, b, b_stride, c, c_pitch); break;               \
    case 4: kind##_of_rows(load_##type, size, 4, extent, n, a, a_pitch, b, b_stride, c, c_pitch); break;               \
    case 5: kind##_of_rows(load_##type, size, 5, extent, n, a, a_pitch, b, b_stride, c, c_pitch); break;               \
    case 6: kind##_of_rows(load_##type, size, 6, extent, n, a, a_pitch, b, b_stride, c, c_pitch); break;               \
    case 7: kind##_of_rows(load_##type, size, 7, extent, n, a, a_pitch, b, b_stride, c, c_pitch); break;               \
    default: kind##_of_rows(load_##type, size, 8, extent, n, a, a_pitch, b, b_stride, c, c_pitch);                     \
    }                                                                                                                  \
  }
#define FUNCTIONS(kind) FUNCTION(kind, f32, 4) FUNCTION(kind, f16, 2) FUNCTION(kind, bf16, 2) FUNCTION(kind, i8, 1)
#define LISTED(kind)                                                                                                   \
  [WEIGHT_F32] = kind##_f32, [WEIGHT_F16] = kind##_f16, [WEIGHT_BF16] = kind##_bf16, [WEIGHT_I8] = kind##_i8
FUNCTIONS(dots)
FUNCTIONS(axpys)

/* ---- quantised weights ------------------------------------------------------------------------------------------- */

/* Loads 2 * LANES weights. int8: w[0] is the first half, w[1] the second; int4: w[0] has the even elements, w[1] the
 * odd ones. */
typedef void load_two(const char *b, vec w[2]);

INLINE void load_two_i8(const char *b, vec w[2]) { w[0] = load_i8(b), w[1] = load_i8(b + LANES); }

#if defined(__AVX512F__)
INLINE void load_two_i4(const char *b, vec w[2]) {
  const __m512 values = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)b));
  w[0] = (vec)_mm512_permutexvar_ps(bytes, values); /* uses only the low 4 bits of an index */
  w[1] = (vec)_mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), values);
}
#elif defined(__AVX2__)
INLINE void load_two_i4(const char *b, vec w[2]) {
  const __m256i bytes = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)b));
  w[0] = (vec)_mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(bytes, 28), 28));
  w[1] = (vec)_mm256_cvtepi32_ps(_mm256_srai_epi32(bytes, 4));
}
#else
INLINE void load_two_i4(const char *b, vec w[2]) {
  for (int i = 0; i < LANES; ++i) {
    w[0][i] = (float)((b[i] & 15) - (b[i] & 8) * 2);
    w[1][i] = (float)((signed char)b[i] >> 4);
  }
}
#endif

/* Puts elements that load_two has separated into their order. */
INLINE void few_rows_in_order(vec w[2]) {
  const vec even = w[0], odd = w[1];
#if defined(__AVX512F__)
  w[0] = __builtin_shufflevector(even, odd, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  w[1] = __builtin_shufflevector(even, odd, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#elif defined(__AVX2__)
  w[0] = __builtin_shufflevector(even, odd, 0, 8, 1, 9, 2, 10, 3, 11);
  w[1] = __builtin_shufflevector(even, odd, 4, 12, 5, 13, 6, 14, 7, 15);
#else
  w[0] = __builtin_shufflevector(even, odd, 0, 4, 1, 5);
  w[1] = __builtin_shufflevector(even, odd, 2, 6, 3, 7);
#endif
}

INLINE void dequantise_body(load_two *load, int bytes, float *to, const char *b, int64_t n, float scale, float offset) {
  vec w[2];
  for (; n > 0; n -= 2 * LANES, b += bytes, to += 2 * LANES) {
    char padded[2 * LANES] = {0};
    const bool whole = n >= 2 * LANES;
    if (!whole) memcpy(padded, b, (size_t)((n * bytes + 2 * LANES - 1) / (2 * LANES)));
    load(whole ? b : padded, w);
    if (bytes == LANES) few_rows_in_order(w);
    w[0] = (w[0] + offset) * scale;
    w[1] = (w[1] + offset) * scale;
    memcpy(to, w, whole ? sizeof w : (size_t)n * sizeof *to);
  }
}

static void dequantise_i8(float *to, const char *b, int64_t n, float scale, float offset) {
  dequantise_body(load_two_i8, 2 * LANES, to, b, n, scale, offset);
}
static void dequantise_i4(float *to, const char *b, int64_t n, float scale, float offset) {
  dequantise_body(load_two_i4, LANES, to, b, n, scale, offset);
}

#define ADD_TWO                                                                                                        \
  UNROLL for (int i = 0; i < rows; ++i) {                                                                              \
    sum[i][0] += w[0] * load_f32((const char *)(a + i * a_pitch + l));                                                 \
    sum[i][1] += w[1] * load_f32((const char *)(a + i * a_pitch + l + LANES));                                         \
  }

/* bytes: size of 2 * LANES weights. */
INLINE void quantised_body(load_two *load, int bytes, int rows, int64_t k, int64_t group, const float *a,
                           int64_t a_pitch, const char *b, const float *scale, const float *offset, const float *a_sums,
                           int64_t sums_pitch, float *c, int64_t c_pitch) {
  vec total[FEW_ROWS], w[2] = {{0}, {0}};
  float offsets[FEW_ROWS] = {0};
  UNROLL for (int i = 0; i < rows; ++i) total[i] = (vec){0};
  for (int64_t begin = 0, g = 0; begin < k; begin += group, ++g) {
    const int64_t end = begin + group < k ? begin + group : k;
    vec sum[FEW_ROWS][2]; /* two accumulators, to hide the latency of the addition */
    UNROLL for (int i = 0; i < rows; ++i) sum[i][0] = sum[i][1] = (vec){0};
    int64_t l = begin;
    for (; l + 2 * LANES <= end; l += 2 * LANES, b += bytes) {
      load(b, w);
      ADD_TWO;
    }
    if (l < end) { /* the end of the column */
      char padded[2 * LANES] = {0};
      memcpy(padded, b, (size_t)(((end - l) * bytes + 2 * LANES - 1) / (2 * LANES)));
      load(padded, w);
      ADD_TWO;
    }
    UNROLL for (int i = 0; i < rows; ++i) total[i] += scale[g] * (sum[i][0] + sum[i][1]);
    if (offset)
      for (int i = 0; i < rows; ++i) offsets[i] += scale[g] * offset[g] * a_sums[i * sums_pitch + g];
  }
  UNROLL for (int i = 0; i < rows; ++i) c[i * c_pitch] = sum_of(total[i]) + offsets[i];
}

#define QUANTISED_CASE(type, bytes, rows)                                                                              \
  quantised_body(load_two_##type, bytes, rows, k, group, a, a_pitch, b, scale, offset, a_sums, sums_pitch, c, c_pitch)
#define QUANTISED(type, bytes)                                                                                         \
  static void quantised_##type(int rows, int64_t k, int64_t group, const float *a, int64_t a_pitch, const char *b,     \
                               const float *scale, const float *offset, const float *a_sums, int64_t sums_pitch,       \
                               float *c, int64_t c_pitch) {                                                            \
    switch (rows) {                                                                                                    \
    case 1: QUANTISED_CASE(type, bytes, 1); break;                                                                     \
    case 2: QUANTISED_CASE(type, bytes, 2); break;                                                                     \
    case 3: QUANTISED_CASE(type, bytes, 3); break;                                                                     \
    case 4: QUANTISED_CASE(type, bytes, 4); break;                                                                     \
    case 5: QUANTISED_CASE(type, bytes, 5); break;                                                                     \
    case 6: QUANTISED_CASE(type, bytes, 6); break;                                                                     \
    case 7: QUANTISED_CASE(type, bytes, 7); break;                                                                     \
    default: QUANTISED_CASE(type, bytes, 8);                                                                           \
    }                                                                                                                  \
  }
QUANTISED(i8, 2 * LANES)
QUANTISED(i4, LANES)

static void few_rows_split_pairs(float *to, const float *from, int64_t n) {
  for (int64_t block = 0; block < n; block += 2 * LANES)
    for (int i = 0; i < LANES; ++i) {
      to[block + i] = from[block + 2 * i];
      to[block + LANES + i] = from[block + 2 * i + 1];
    }
}

const few_rows_loops LEVELED(few_rows_loops) = {.dots = {LISTED(dots)},
                                                .axpys = {LISTED(axpys)},
                                                .quantised = {quantised_i8, quantised_i4},
                                                .dequantise = {dequantise_i8, dequantise_i4},
                                                .split_pairs = few_rows_split_pairs};
