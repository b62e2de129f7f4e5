/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled for AVX512_BF16; see direct_pairs.h. Vector lanes are rows, so no lane is wasted at the ends of lines, as
 * would be the case if lanes were positions. */
#include "kernel/conv/direct/direct_pairs.h"

#include <stddef.h>

#ifdef __AVX512BF16__

#  include <immintrin.h>

#  include "kernel/engine/unroll.h"
#  include "kernel/product/tile/tile_kernel.h"

enum { LANES = PAIR_TILE_ROWS, POSITIONS = 14 /* whose sums, two vectors each, stay in registers */ };

/* Computes n positions by one or two tiles of rows. */
INLINE void direct_dots_positions(const pair_sums *s, const int64_t *place, int n, int tiles, float *c) {
  __m512 sum[POSITIONS][2];
  const char *from[POSITIONS];
  UNROLL for (int i = 0; i < n; ++i) {
    from[i] = s->x + place[i] * PAIR_BYTES;
    UNROLL for (int v = 0; v < tiles; ++v) sum[i][v] = _mm512_setzero_ps();
  }
  const int64_t w_bytes = tiles * PAIR_TILE_BYTES;
  const char *w = s->w;
  int64_t x = 0;
  for (int64_t pair = 0; pair < s->pairs; pair += PAIR_STEP, x += s->x_step, w += s->kernel_taps * w_bytes) {
    const int64_t pairs = s->pairs - pair < PAIR_STEP ? s->pairs - pair : PAIR_STEP;
    for (int64_t t = 0; t < s->taps; ++t) {
      int64_t at = x + s->x_tap[t] * PAIR_BYTES;
      const char *words = w + s->w_tap[t] * w_bytes;
      for (int64_t p = 0; p < pairs; ++p, at += 4, words += 64) {
        __m512bh row[2];
        UNROLL for (int v = 0; v < tiles; ++v) row[v] = (__m512bh)_mm512_loadu_si512(words + v * PAIR_TILE_BYTES);
        UNROLL for (int i = 0; i < n; ++i) {
          const __m512bh in = (__m512bh)_mm512_set1_epi32(*(const int *)(const void *)(from[i] + at));
          UNROLL for (int v = 0; v < tiles; ++v) sum[i][v] = _mm512_dpbf16_ps(sum[i][v], row[v], in);
        }
      }
    }
  }
  UNROLL for (int i = 0; i < n; ++i) UNROLL for (int v = 0; v < tiles; ++v)
      _mm512_storeu_ps(c + i * PAIR_ROWS + v * LANES, sum[i][v]);
}

typedef void sum_function(const pair_sums *s, const int64_t *place, float *c);
#  define SUMS_OF(n, tiles)                                                                                            \
    static void sums_##n##_##tiles(const pair_sums *s, const int64_t *place, float *c) {                               \
      direct_dots_positions(s, place, n, tiles, c);                                                                    \
    }
#  define SUMS(n)   SUMS_OF(n, 1) SUMS_OF(n, 2)
#  define LISTED(n) {sums_##n##_1, sums_##n##_2},
#  define EACH(X)   X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
EACH(SUMS)
static sum_function *const some[POSITIONS][2] = {EACH(LISTED)};

static int64_t direct_dots_sums(const pair_sums *s, int rows, const int64_t *place, int64_t n, float *c,
                                int32_t *index) {
  n = n < PAIR_SUMS ? n : PAIR_SUMS;
  for (int i = 0; i < n; ++i) index[i] = i;
  for (int64_t i = 0; i < n; i += POSITIONS)
    some[n - i < POSITIONS ? n - i - 1 : POSITIONS - 1][rows > LANES](s, place + i, c + i * PAIR_ROWS);
  return n;
}

const pair_kernel *direct_dots(void) {
  static const pair_kernel kernel = {
      .parts = 1, .least_taps = 2, .least_rows = 16, .flops_per_ns = 200, .sums = direct_dots_sums};
  return dots_have(GROUPS_BF16) ? &kernel : NULL;
}

#else

const pair_kernel *direct_dots(void) { return NULL; }

#endif
