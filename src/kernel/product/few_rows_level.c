/* few_rows.h at one instruction set level (engine/level.h). */
#include "kernel/product/few_rows.h"

#include <string.h>

#include "kernel/engine/level.h"
#include "tensor/dtype.h"

#if defined(__AVX2__)
#  include <immintrin.h>
#endif
#if defined(__clang__)
#  define UNROLL _Pragma("clang loop unroll(full)")
#else
#  define UNROLL _Pragma("GCC unroll 8")
#endif
#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
typedef float vec __attribute__((vector_size(LANES * 4)));
typedef vec loose_vec __attribute__((aligned(4), may_alias));

/* ---- LANES weights as floats ------------------------------------------------------------------------------------- */

INLINE vec load_f32(const char *b) { return *(const loose_vec *)(const void *)b; }

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

/* The last n < LANES of them; the rest are 0. */
INLINE vec load_last(load_function *load, int size, const char *b, int64_t n) {
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

/* A dot product is summed the same way whatever rows and columns are made beside it. */
INLINE void dots_body(load_function *load, int size, int rows, int cols, int64_t k, const float *a, int64_t a_pitch,
                      const char *b, int64_t b_stride, float *c, int64_t c_pitch) {
  vec sum[FEW_ROWS][DOT_COLS], w[DOT_COLS];
  UNROLL for (int i = 0; i < rows; ++i) UNROLL for (int j = 0; j < cols; ++j) sum[i][j] = (vec){0};
  int64_t l = 0;
  for (; l + LANES <= k; l += LANES) {
    UNROLL for (int j = 0; j < cols; ++j) w[j] = load(b + j * b_stride + l * size);
    UNROLL for (int i = 0; i < rows; ++i) {
      const vec x = load_f32((const char *)(a + i * a_pitch + l));
      UNROLL for (int j = 0; j < cols; ++j) sum[i][j] += x * w[j];
    }
  }
  if (l < k) {
    UNROLL for (int j = 0; j < cols; ++j) w[j] = load_last(load, size, b + j * b_stride + l * size, k - l);
    UNROLL for (int i = 0; i < rows; ++i) {
      const vec x = load_last(load_f32, 4, (const char *)(a + i * a_pitch + l), k - l);
      UNROLL for (int j = 0; j < cols; ++j) sum[i][j] += x * w[j];
    }
  }
  UNROLL for (int i = 0; i < rows; ++i) UNROLL for (int j = 0; j < cols; ++j) c[i * c_pitch + j] = sum_of(sum[i][j]);
}

/* As many columns at once as the registers hold sums. */
#define REGISTERS         (LANES == 16 ? 16 : 8)
#define COLS_AT_ONCE(row) (4 * (row) <= REGISTERS ? 4 : 2 * (row) <= REGISTERS ? 2 : 1)

INLINE void dots_of_rows(load_function *load, int size, int rows, int cols, int64_t k, const float *a, int64_t a_pitch,
                         const char *b, int64_t b_stride, float *c, int64_t c_pitch) {
  const int at_once = COLS_AT_ONCE(rows);
  int j = 0;
  for (; j + at_once <= cols; j += at_once)
    dots_body(load, size, rows, at_once, k, a, a_pitch, b + j * b_stride, b_stride, c + j, c_pitch);
  for (; j < cols; ++j) dots_body(load, size, rows, 1, k, a, a_pitch, b + j * b_stride, b_stride, c + j, c_pitch);
}

/* ---- sums of rows ------------------------------------------------------------------------------------------------ */

INLINE void axpys_body(load_function *load, int size, int rows, int depth, int64_t n, const float *a, int64_t a_pitch,
                       const char *b, int64_t b_stride, float *c, int64_t c_pitch) {
  int64_t j = 0;
  for (; j + LANES <= n; j += LANES) {
    vec w[AXPY_DEPTH];
    UNROLL for (int l = 0; l < depth; ++l) w[l] = load(b + l * b_stride + j * size);
    UNROLL for (int i = 0; i < rows; ++i) {
      loose_vec *const to = (loose_vec *)(void *)(c + i * c_pitch + j);
      vec sum = *to;
      UNROLL for (int l = 0; l < depth; ++l) sum += a[i * a_pitch + l] * w[l];
      *to = sum;
    }
  }
  for (int l = 0; j < n && l < depth; ++l) {
    const vec w = load_last(load, size, b + l * b_stride + j * size, n - j);
    for (int i = 0; i < rows; ++i)
      for (int64_t r = 0; r < n - j; ++r) c[i * c_pitch + j + r] += a[i * a_pitch + l] * w[r];
  }
}

INLINE void axpys_of_rows(load_function *load, int size, int rows, int depth, int64_t n, const float *a,
                          int64_t a_pitch, const char *b, int64_t b_stride, float *c, int64_t c_pitch) {
  if (depth == AXPY_DEPTH)
    axpys_body(load, size, rows, AXPY_DEPTH, n, a, a_pitch, b, b_stride, c, c_pitch);
  else
    for (int l = 0; l < depth; ++l)
      axpys_body(load, size, rows, 1, n, a + l, a_pitch, b + l * b_stride, b_stride, c, c_pitch);
}

/* ---- for each type and number of rows ---------------------------------------------------------------------------- */

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

const few_rows_loops LEVELED(few_rows_loops) = {.dots = {LISTED(dots)}, .axpys = {LISTED(axpys)}};
