/* Compiled for AMX; see direct_amx.h. */
#include "kernel/conv/direct_amx.h"

#include "kernel/product/tile_kernel.h"

bool direct_has_amx(void) { return amx_start(); }

#ifdef __AMX_BF16__

#  include <immintrin.h>

/* Tiles 0 to 3 are sums: rows 0, 1 by vectors 0, 1. 4 and 5 are weights, 6 and 7 inputs. */
static inline __attribute__((always_inline)) void block(const amx_sums *s, bool two_rows, bool two_vectors, float *c) {
  const int64_t step_words = s->x_pair * (AMX_CHANNELS / 2), w_bytes = (two_rows ? 2 : 1) * AMX_TILE_BYTES;
  const uint32_t *x = s->x;
  const char *w = s->w;
  const long pitch = (long)(s->x_pair * (int64_t)sizeof *x);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t step = 0; step < s->steps; ++step, x += step_words)
    for (int64_t t = 0; t < s->taps; ++t, w += w_bytes) {
      const uint32_t *const at = x + s->x_tap[t];
      _tile_loadd(4, w, 64);
      _tile_loadd(6, at, pitch);
      _tile_dpbf16ps(0, 4, 6);
      if (two_vectors) {
        _tile_loadd(7, at + 16, pitch);
        _tile_dpbf16ps(1, 4, 7);
      }
      if (two_rows) {
        _tile_loadd(5, w + AMX_TILE_BYTES, 64);
        _tile_dpbf16ps(2, 5, 6);
      }
      if (two_rows && two_vectors) _tile_dpbf16ps(3, 5, 7);
    }
  const long c_pitch = AMX_ROWS * sizeof *c;
  _tile_stored(0, c, c_pitch);
  if (two_vectors) _tile_stored(1, c + 16, c_pitch);
  if (two_rows) _tile_stored(2, c + 16 * AMX_ROWS, c_pitch);
  if (two_rows && two_vectors) _tile_stored(3, c + 16 * AMX_ROWS + 16, c_pitch);
}

void direct_amx_block(const amx_sums *s, bool two_rows, bool two_vectors, float *c) {
  amx_kernel.begin();
  if (two_rows && two_vectors)
    block(s, true, true, c);
  else if (two_rows)
    block(s, true, false, c);
  else if (two_vectors)
    block(s, false, true, c);
  else
    block(s, false, false, c);
  amx_kernel.end();
}

#else

void direct_amx_block(const amx_sums *s, bool two_rows, bool two_vectors, float *c) {
  (void)s, (void)two_rows, (void)two_vectors, (void)c;
}

#endif
