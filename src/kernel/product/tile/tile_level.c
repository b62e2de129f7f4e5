/* SPDX-License-Identifier: Apache-2.0 */
/* The vector kernels of one instruction set level (engine/level.h) for float, double and int32. ROWS leaves two vector
 * registers for B and one for an element of A. */
#include <string.h>

#include "kernel/engine/level.h"
#include "kernel/engine/unroll.h"
#include "kernel/product/tile/tile_kernel.h"
#include "kernel/product/tile/tile_transpose.h"

#if defined(__AVX512F__)
#  define VECTOR_BYTES 64
#  define ROWS         14
#  define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#elif defined(__AVX2__)
#  define VECTOR_BYTES 32
#  define ROWS         6
#  define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#else
#  define VECTOR_BYTES 16
#  define ROWS         4
#  define EACH_ROWS(X) X(1) X(2) X(3) X(4)
#endif

/* Transposes WORDS x WORDS words: to[l * step + i] = from[i * stride + l]. Rows of `from` beyond `rows` count as 0. The
 * rows are too many streams for the hardware prefetcher. With AVX-512, which takes a cache line of each at once,
 * prefetching the line after the next one saves a tenth of 16 x 4096 x 4096 and 25 x 1024 x 8210 on a Zen 4; with AVX2
 * it gains nothing. */
enum { WORDS = VECTOR_BYTES / 4 };
static void transpose_words(int32_t *to, int64_t step, const int32_t *from, int64_t stride, int64_t rows) {
#if defined(__AVX512F__)
  enum { NEXT = 2 * WORDS };
  __m512i r[WORDS];
  for (int i = 0; i < WORDS && i < rows; ++i) __builtin_prefetch(from + i * stride + NEXT);
  for (int i = 0; i < WORDS; ++i) r[i] = i < rows ? _mm512_loadu_si512(from + i * stride) : _mm512_setzero_si512();
  tile_transpose_16x16(r);
  for (int l = 0; l < WORDS; ++l) _mm512_storeu_si512(to + l * step, r[l]);
#elif defined(__AVX2__)
  __m256 r[WORDS];
  for (int h = 0; h < 2; ++h)
    for (int i = 0; i < 4; ++i) {
      const float *const at = (const float *)(const void *)from + i * stride + 4 * h;
      const __m128 low = i < rows ? _mm_loadu_ps(at) : _mm_setzero_ps();
      const __m128 high = i + 4 < rows ? _mm_loadu_ps(at + 4 * stride) : _mm_setzero_ps();
      r[4 * h + i] = _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
    }
  tile_transpose_8x8(r);
  for (int l = 0; l < WORDS; ++l) _mm256_storeu_ps((float *)(void *)to + l * step, r[l]);
#else
  tile_words r[WORDS] = {{0}, {0}, {0}, {0}};
  for (int i = 0; i < WORDS && i < rows; ++i) memcpy(&r[i], from + i * stride, sizeof r[i]);
  tile_transpose_4x4(r);
  for (int l = 0; l < WORDS; ++l) memcpy(to + l * step, &r[l], sizeof r[l]);
#endif
}

#define T          float
#define TILE(name) f32_##name
#define LANES      (VECTOR_BYTES / 4)
#include "kernel/product/tile/tile_micro.inc"

#define T          int32_t
#define TILE(name) i32_##name
#define LANES      (VECTOR_BYTES / 4)
#include "kernel/product/tile/tile_micro.inc"

#define T          double
#define TILE(name) f64_##name
#define LANES      (VECTOR_BYTES / 8)
#include "kernel/product/tile/tile_micro.inc"

#define KERNEL(type)                                                                                                   \
  { .cols = type##_COLS, .pack_across = type##_pack_across, .pack_along = type##_pack_along, .gemm = type##_gemm }
const tile_kernels LEVELED(tile_kernels) = {.f32 = KERNEL(f32), .f64 = KERNEL(f64), .i32 = KERNEL(i32)};
