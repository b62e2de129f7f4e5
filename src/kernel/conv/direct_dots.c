/* Compiled for AVX512_BF16; see direct_pairs.h. Lanes are rows: no place in a vector is lost at the ends of lines, as it
 * would be where lanes are positions. */
#include "kernel/conv/direct_pairs.h"

#include <stddef.h>

#ifdef __AVX512BF16__

#  include <immintrin.h>

#  include "kernel/engine/unroll.h"
#  include "kernel/product/tile_kernel.h"
#  include "kernel/product/tile_transpose.h"

enum { LANES = PAIR_TILE_ROWS, POSITIONS = 14 /* whose sums, of two vectors each, stay in registers */ };

INLINE __mmask16 first_lanes(int n) { return n >= LANES ? 0xffff : (__mmask16)((1u << n) - 1); }

/* n positions of one or two tiles of rows. */
INLINE void some_positions(const pair_sums *s, const int64_t *place, int rows, int n, int tiles, float *c) {
  __m512 sum[POSITIONS][2];
  UNROLL for (int v = 0; v < tiles; ++v) {
    const __m512 bias =
        s->bias ? _mm512_maskz_loadu_ps(first_lanes(rows - v * LANES), s->bias + v * LANES) : _mm512_setzero_ps();
    UNROLL for (int i = 0; i < n; ++i) sum[i][v] = bias;
  }
  const char *w = s->w;
  const uint32_t *x = s->x;
  for (int64_t pair = 0; pair < s->pairs; pair += PAIR_STEP, x += s->x_pair * PAIR_STEP) {
    const int64_t pairs = s->pairs - pair < PAIR_STEP ? s->pairs - pair : PAIR_STEP;
    for (int64_t t = 0; t < s->taps; ++t, w += tiles * PAIR_TILE_BYTES) {
      const uint32_t *at = x + s->x_tap[t];
      const char *words = w;
      for (int64_t p = 0; p < pairs; ++p, at += s->x_pair, words += 64) {
        __m512bh row[2];
        UNROLL for (int v = 0; v < tiles; ++v) row[v] = (__m512bh)_mm512_loadu_si512(words + v * PAIR_TILE_BYTES);
        UNROLL for (int i = 0; i < n; ++i) {
          const __m512bh in = (__m512bh)_mm512_set1_epi32((int)at[place[i]]);
          UNROLL for (int v = 0; v < tiles; ++v) sum[i][v] = _mm512_dpbf16_ps(sum[i][v], row[v], in);
        }
      }
    }
  }
  UNROLL for (int v = 0; v < tiles; ++v) {
    __m512i r[LANES];
    UNROLL for (int i = 0; i < LANES; ++i) r[i] = i < n ? _mm512_castps_si512(sum[i][v]) : _mm512_setzero_si512();
    transpose_16x16(r);
    UNROLL for (int i = 0; i < LANES; ++i) _mm512_storeu_si512(c + (v * LANES + i) * PAIR_WIDTH, r[i]);
  }
}

typedef void sum_function(const pair_sums *s, const int64_t *place, int rows, float *c);
#  define SUMS_OF(n, tiles)                                                                                            \
    static void sums_##n##_##tiles(const pair_sums *s, const int64_t *place, int rows, float *c) {                     \
      some_positions(s, place, rows, n, tiles, c);                                                                     \
    }
#  define SUMS(n)   SUMS_OF(n, 1) SUMS_OF(n, 2)
#  define LISTED(n) {sums_##n##_1, sums_##n##_2},
#  define EACH(X)   X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
EACH(SUMS)
static sum_function *const sums[POSITIONS][2] = {EACH(LISTED)};

static void block(const pair_sums *s, int rows, int n, float *c) {
  for (int i = 0; i < n; i += POSITIONS)
    sums[n - i < POSITIONS ? n - i - 1 : POSITIONS - 1][rows > LANES](s, s->place + i, rows, c + i);
}

const pair_kernel *direct_dots(void) {
  static const pair_kernel kernel = {
      .width = 4 * POSITIONS, .anywhere = true, .least_taps = 2, .flops_per_ns = 200, .block = block};
  _Static_assert(3 * POSITIONS + LANES <= PAIR_WIDTH, "the last vector of sums ends within its row");
  return dots_have(GROUPS_BF16) ? &kernel : NULL;
}

#else

const pair_kernel *direct_dots(void) { return NULL; }

#endif
