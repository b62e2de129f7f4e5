/* SPDX-License-Identifier: Apache-2.0 */
/* The block kernels of tile_groups.c with AVX-512's dot-product instructions: on pairs of bfloat16 (AVX512_BF16) and on
 * quads of int8 (AVX512_VNNI). The file is compiled with both enabled; a type's kernels are only called where
 * dots_have(type). */
#include "kernel/product/tile/tile_kernel.h"

#ifdef __AVX512BF16__

#  include <immintrin.h>

#  include "kernel/engine/unroll.h"
#  include <string.h>

#  include "kernel/engine/level.h"

enum { ROWS = 8 }; /* rows whose sums, two vectors each, stay in registers */

bool dots_have(group_type type) {
  if (!isa_may_use(LEVEL_DOTS)) return false;
  __builtin_cpu_init();
  return (type == GROUPS_BF16 && __builtin_cpu_supports("avx512bf16")) ||
         (type == GROUPS_I8 && __builtin_cpu_supports("avx512vnni"));
}

/* vpdpbusd takes its first factor as unsigned. So B + 128 is multiplied, and the sums start from -128 times the row
 * sums of A. */
INLINE __m512i load_b(group_type type, const char *b) {
  const __m512i x = _mm512_loadu_si512(b);
  return type == GROUPS_I8 ? _mm512_xor_si512(x, _mm512_set1_epi8((char)0x80)) : x;
}

INLINE __m512i add_dots(group_type type, __m512i sum, __m512i a, __m512i b) {
  if (type == GROUPS_I8) return _mm512_dpbusd_epi32(sum, b, a);
  return _mm512_castps_si512(_mm512_dpbf16_ps(_mm512_castsi512_ps(sum), (__m512bh)a, (__m512bh)b));
}

INLINE __m512i dots_add_sums(group_type type, __m512i x, __m512i y) {
  if (type == GROUPS_I8) return _mm512_add_epi32(x, y);
  return _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(y)));
}

/* -128 times the row sums of A. */
static void dots_start(int64_t steps, const char *a, int64_t a_step, int32_t to[TILE_ROWS]) {
  __m512i sum[TILE_ROWS];
  UNROLL for (int i = 0; i < TILE_ROWS; ++i) sum[i] = _mm512_setzero_si512();
  for (int64_t s = 0; s < steps; ++s, a += a_step)
    UNROLL for (int i = 0; i < TILE_ROWS; ++i) sum[i] =
        _mm512_dpbusd_epi32(sum[i], _mm512_set1_epi8((char)0x80), _mm512_loadu_si512(a + i * 64));
  UNROLL for (int i = 0; i < TILE_ROWS; ++i) to[i] = -_mm512_reduce_add_epi32(sum[i]);
}

/* ROWS rows of a tile of A by one or two tiles of B. */
INLINE void some_rows(group_type type, bool two_cols, int64_t steps, const char *a, int64_t a_step, const char *b,
                      const int32_t *first, char *c, int64_t pitch, bool accumulate) {
  const int vecs = two_cols ? 2 : 1, b_step = vecs * TILE_BYTES;
  __m512i sum[ROWS][2];
  UNROLL for (int i = 0; i < ROWS; ++i) sum[i][0] = sum[i][1] = _mm512_set1_epi32(first ? first[i] : 0);
  for (int64_t s = 0; s < steps; ++s, a += a_step, b += b_step) UNROLL for (int g = 0; g < 64; g += 4) {
      const __m512i left = load_b(type, b + 16 * g), right = load_b(type, b + (vecs - 1) * TILE_BYTES + 16 * g);
      UNROLL for (int i = 0; i < ROWS; ++i) {
        int group;
        memcpy(&group, a + i * 64 + g, sizeof group);
        sum[i][0] = add_dots(type, sum[i][0], _mm512_set1_epi32(group), left);
        if (two_cols) sum[i][1] = add_dots(type, sum[i][1], _mm512_set1_epi32(group), right);
      }
    }
  UNROLL for (int i = 0; i < ROWS; ++i) UNROLL for (int v = 0; v < vecs; ++v) {
    char *const to = c + i * pitch + v * 64;
    _mm512_storeu_si512(to, accumulate ? dots_add_sums(type, sum[i][v], _mm512_loadu_si512(to)) : sum[i][v]);
  }
}

INLINE void dots_block_body(group_type type, bool two_rows, bool two_cols, int rows, int64_t steps, const char *a,
                            const char *b, const int32_t *first, char *c, int64_t pitch, bool accumulate) {
  const int tiles = two_rows ? 2 : 1;
  for (int i = 0; i < rows; i += ROWS, c += ROWS * pitch, first += first ? ROWS : 0)
    some_rows(type, two_cols, steps, a + i / TILE_ROWS * TILE_BYTES + i % TILE_ROWS * 64, tiles * TILE_BYTES, b, first,
              c, pitch, accumulate);
}

#  define BLOCK(type, rows, cols)                                                                                      \
    static void block_##type##_##rows##cols(int n_rows, int64_t steps, const char *a, const char *b,                   \
                                            const char *ahead, const int32_t *first, char *c, int64_t pitch,           \
                                            bool accumulate) {                                                         \
      (void)ahead; /* the hardware prefetcher keeps up */                                                              \
      dots_block_body(type, rows, cols, n_rows, steps, a, b, first, c, pitch, accumulate);                             \
    }
#  define BLOCKS(type) BLOCK(type, 0, 0) BLOCK(type, 0, 1) BLOCK(type, 1, 0) BLOCK(type, 1, 1)
#  define LISTED(type) [type] = {{block_##type##_00, block_##type##_01}, {block_##type##_10, block_##type##_11}}
BLOCKS(GROUPS_BF16)
BLOCKS(GROUPS_I8)

const group_kernel dots_kernel = {.block = {LISTED(GROUPS_BF16), LISTED(GROUPS_I8)}, .start = dots_start};

#endif
