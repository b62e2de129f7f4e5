/* Compiled for AMX; see direct_pairs.h. */
#include "kernel/conv/direct_pairs.h"

#include <stddef.h>

#ifdef __AMX_BF16__

#  include <immintrin.h>
#  include <stdbool.h>

#  include "kernel/product/tile_kernel.h"

enum { LANES = 16 }; /* positions of a tile */

/* Tiles 0 to 3 are sums: rows 0, 1 by vectors 0, 1. 4 and 5 are weights, 6 and 7 inputs. */
static inline __attribute__((always_inline)) void tiles(const pair_sums *s, bool two_rows, bool two_vectors, float *c) {
  const int64_t step_words = s->x_pair * PAIR_STEP, w_bytes = (two_rows ? 2 : 1) * PAIR_TILE_BYTES;
  const uint32_t *x = s->x;
  const char *w = s->w;
  const long pitch = (long)(s->x_pair * (int64_t)sizeof *x);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t pair = 0; pair < s->pairs; pair += PAIR_STEP, x += step_words)
    for (int64_t t = 0; t < s->taps; ++t, w += w_bytes) {
      const uint32_t *const at = x + s->x_tap[t];
      _tile_loadd(4, w, 64);
      _tile_loadd(6, at, pitch);
      _tile_dpbf16ps(0, 4, 6);
      if (two_vectors) {
        _tile_loadd(7, at + LANES, pitch);
        _tile_dpbf16ps(1, 4, 7);
      }
      if (two_rows) {
        _tile_loadd(5, w + PAIR_TILE_BYTES, 64);
        _tile_dpbf16ps(2, 5, 6);
      }
      if (two_rows && two_vectors) _tile_dpbf16ps(3, 5, 7);
    }
  const long c_pitch = PAIR_WIDTH * sizeof *c;
  float *const second = c + PAIR_TILE_ROWS * PAIR_WIDTH;
  _tile_stored(0, c, c_pitch);
  if (two_vectors) _tile_stored(1, c + LANES, c_pitch);
  if (two_rows) _tile_stored(2, second, c_pitch);
  if (two_rows && two_vectors) _tile_stored(3, second + LANES, c_pitch);
}

static void block(const pair_sums *s, int rows, int n, float *c) {
  const bool two_rows = rows > PAIR_TILE_ROWS, two_vectors = n > LANES;
  amx_kernel.begin();
  if (two_rows && two_vectors)
    tiles(s, true, true, c);
  else if (two_rows)
    tiles(s, true, false, c);
  else if (two_vectors)
    tiles(s, false, true, c);
  else
    tiles(s, false, false, c);
  amx_kernel.end();
  for (int r = 0; s->bias && r < rows; ++r)
    for (int i = 0; i < n; ++i) c[r * PAIR_WIDTH + i] += s->bias[r];
}

const pair_kernel *direct_amx(void) {
  static const pair_kernel kernel = {.width = 2 * LANES, .least_taps = 1, .flops_per_ns = 600, .block = block};
  return amx_start() ? &kernel : NULL;
}

#else

const pair_kernel *direct_amx(void) { return NULL; }

#endif
