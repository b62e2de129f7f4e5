/* SPDX-License-Identifier: Apache-2.0 */
/* The vector kernels of one instruction set level (engine/level.h) for float, double and int32. ROWS leaves two vector
 * registers for B and one for an element of A. */
#include "kernel/engine/level.h"
#include "kernel/engine/unroll.h"
#include "kernel/product/tile_kernel.h"

#if defined(__AVX512F__)
#  include "kernel/product/tile_transpose.h"
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

/* Transposes 16 x 16 words: to[l * step + i] = from[i * stride + l]. Rows of `from` beyond `rows` count as 0. */
#if defined(__AVX512F__)
static void transpose_words(void *to, int64_t step, const void *from, int64_t stride, int64_t rows) {
  __m512i r[16];
  for (int i = 0; i < 16; ++i)
    r[i] = i < rows ? _mm512_loadu_si512((const int32_t *)from + i * stride) : _mm512_setzero_si512();
  tile_transpose_16x16(r);
  for (int l = 0; l < 16; ++l) _mm512_storeu_si512((int32_t *)to + l * step, r[l]);
}
#endif

#define T          float
#define TILE(name) f32_##name
#define LANES      (VECTOR_BYTES / 4)
#include "kernel/product/tile_micro.inc"

#define T          int32_t
#define TILE(name) i32_##name
#define LANES      (VECTOR_BYTES / 4)
#include "kernel/product/tile_micro.inc"

#define T          double
#define TILE(name) f64_##name
#define LANES      (VECTOR_BYTES / 8)
#include "kernel/product/tile_micro.inc"

#define KERNEL(type)                                                                                                   \
  { .cols = type##_COLS, .pack_across = type##_pack_across, .pack_along = type##_pack_along, .gemm = type##_gemm }
const tile_kernels LEVELED(tile_kernels) = {.f32 = KERNEL(f32), .f64 = KERNEL(f64), .i32 = KERNEL(i32)};
