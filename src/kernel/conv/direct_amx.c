/* Compiled for AMX; see direct_pairs.h. Rows of tiles are positions: any tap of 16 neighbours is 1 KB in one piece. */
#include "kernel/conv/direct_pairs.h"

#include <stddef.h>

#ifdef __AMX_BF16__

#  include <immintrin.h>

#  include "kernel/engine/unroll.h"
#  include "kernel/product/tile_kernel.h"

enum { POSITIONS = 16 /* of a tile */, BLOCK = 2 * POSITIONS };

/* Tiles 0 to 3 are sums, positions 0, 1 by rows 0, 1 in the order 00 01 10 11. 4 and 5 are inputs, 6 and 7 weights. */
#  define LOAD_X(part)                                                                                                 \
    do {                                                                                                               \
      _tile_loadd(4, at + (part)*s->x_part, PAIR_BYTES);                                                               \
      if (two_positions) _tile_loadd(5, at + (part)*s->x_part + PAIR_TILE_BYTES, PAIR_BYTES);                          \
    } while (0)
#  define LOAD_W(part)                                                                                                 \
    do {                                                                                                               \
      _tile_loadd(6, w + (part)*s->w_part, PAIR_BYTES);                                                                \
      if (two_rows) _tile_loadd(7, w + (part)*s->w_part + PAIR_TILE_BYTES, PAIR_BYTES);                                \
    } while (0)
#  define MULTIPLY()                                                                                                   \
    do {                                                                                                               \
      _tile_dpbf16ps(0, 4, 6);                                                                                         \
      if (two_rows) _tile_dpbf16ps(1, 4, 7);                                                                           \
      if (two_positions) _tile_dpbf16ps(2, 5, 6);                                                                      \
      if (two_positions && two_rows) _tile_dpbf16ps(3, 5, 7);                                                          \
    } while (0)

INLINE void block_body(const pair_sums *s, const char *x, bool two_positions, bool two_rows, int parts, float *c) {
  const int64_t w_bytes = (two_rows ? 2 : 1) * PAIR_TILE_BYTES;
  const char *tiles = s->w;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t pair = 0; pair < s->pairs; pair += PAIR_STEP, x += s->x_step, tiles += s->kernel_taps * w_bytes)
    for (int64_t t = 0; t < s->taps; ++t) {
      const char *const at = x + s->x_tap[t] * PAIR_BYTES, *const w = tiles + s->w_tap[t] * w_bytes;
      LOAD_X(0);
      if (parts == 1) {
        LOAD_W(0);
        MULTIPLY();
        continue;
      }
      LOAD_W(2);
      MULTIPLY();
      LOAD_W(1);
      MULTIPLY();
      LOAD_W(0);
      MULTIPLY();
      LOAD_X(1);
      MULTIPLY();
      LOAD_W(1);
      MULTIPLY();
      LOAD_X(2);
      LOAD_W(0);
      MULTIPLY();
    }
  const long pitch = PAIR_ROWS * sizeof *c;
  float *const second = c + POSITIONS * PAIR_ROWS;
  _tile_stored(0, c, pitch);
  if (two_rows) _tile_stored(1, c + PAIR_TILE_ROWS, pitch);
  if (two_positions) _tile_stored(2, second, pitch);
  if (two_positions && two_rows) _tile_stored(3, second + PAIR_TILE_ROWS, pitch);
}

typedef void block_function(const pair_sums *s, const char *x, float *c);
#  define BLOCK_OF(positions, rows, parts)                                                                             \
    static void block_##positions##rows##_##parts(const pair_sums *s, const char *x, float *c) {                       \
      block_body(s, x, positions, rows, parts, c);                                                                     \
    }
#  define BLOCKS(parts) BLOCK_OF(0, 0, parts) BLOCK_OF(0, 1, parts) BLOCK_OF(1, 0, parts) BLOCK_OF(1, 1, parts)
#  define LISTED(parts) {{block_00_##parts, block_01_##parts}, {block_10_##parts, block_11_##parts}}
BLOCKS(1)
BLOCKS(3)
static block_function *const blocks[2][2][2] = {LISTED(1), LISTED(3)};

/* Blocks begin at the next position that is wanted: what lies between lines is only computed within one. */
static int64_t sums(const pair_sums *s, int rows, const int64_t *place, int64_t n, float *c, int32_t *index) {
  int64_t i = 0;
  for (int row = 0; i < n && row <= PAIR_SUMS - BLOCK;) {
    const int64_t first = place[i];
    int last = 0;
    for (; i < n && place[i] - first < BLOCK; ++i) index[i] = row + (last = (int)(place[i] - first));
    const bool two = last >= POSITIONS;
    blocks[s->parts > 1][two][rows > PAIR_TILE_ROWS](s, s->x + first * PAIR_BYTES, c + row * PAIR_ROWS);
    row += two ? BLOCK : POSITIONS;
  }
  return i;
}

static void begin(void) { amx_kernel.begin(); }
static void end(void) { amx_kernel.end(); }

const pair_kernel *direct_amx(void) {
  static const pair_kernel kernel = {
      .parts = PAIR_PARTS, .least_taps = 1, .flops_per_ns = 1200, .sums = sums, .begin = begin, .end = end};
  return amx_start() ? &kernel : NULL;
}

#else

const pair_kernel *direct_amx(void) { return NULL; }

#endif
