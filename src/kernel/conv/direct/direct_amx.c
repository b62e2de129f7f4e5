/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled for AMX; see direct_pairs.h. Tile rows are positions: for any tap, 16 neighbouring positions are 1 KB of
 * contiguous memory. */
#include "kernel/conv/direct/direct_pairs.h"

#include <stddef.h>

#ifdef __AMX_BF16__

#  include <immintrin.h>

#  include "kernel/engine/unroll.h"
#  include "kernel/product/tile/tile_kernel.h"

enum { POSITIONS = 16 /* of a tile */, BLOCK = 2 * POSITIONS };

/* Tiles 0 to 3 are sums: tiles 4 and 5 (x) by tiles 6 and 7 (w), in the order 4x6, 4x7, 5x6, 5x7. */
INLINE void direct_amx_clear_sums(void) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

INLINE void direct_amx_load_sums(const float *c, bool two_x, bool two_w) {
  const long pitch = PAIR_ROWS * sizeof *c;
  const float *const second = c + POSITIONS * PAIR_ROWS;
  _tile_loadd(0, c, pitch);
  if (two_w) _tile_loadd(1, c + PAIR_TILE_ROWS, pitch);
  if (two_x) _tile_loadd(2, second, pitch);
  if (two_x && two_w) _tile_loadd(3, second + PAIR_TILE_ROWS, pitch);
}

INLINE void direct_amx_store_sums(float *c, bool two_x, bool two_w) {
  const long pitch = PAIR_ROWS * sizeof *c;
  float *const second = c + POSITIONS * PAIR_ROWS;
  _tile_stored(0, c, pitch);
  if (two_w) _tile_stored(1, c + PAIR_TILE_ROWS, pitch);
  if (two_x) _tile_stored(2, second, pitch);
  if (two_x && two_w) _tile_stored(3, second + PAIR_TILE_ROWS, pitch);
}

/* Strides in bytes of the one or two tiles of each operand: from row to row of x, to the second tile, and from
 * bfloat16 term to term. Rows of w are 64 bytes apart. */
typedef struct {
  long x_row;
  int64_t x_second, x_part, w_second, w_part;
} layout;

#  define LOAD_X(part)                                                                                                 \
    do {                                                                                                               \
      _tile_loadd(4, x + (part)*l.x_part, l.x_row);                                                                    \
      if (two_x) _tile_loadd(5, x + (part)*l.x_part + l.x_second, l.x_row);                                            \
    } while (0)
#  define LOAD_W(part)                                                                                                 \
    do {                                                                                                               \
      _tile_loadd(6, w + (part)*l.w_part, PAIR_BYTES);                                                                 \
      if (two_w) _tile_loadd(7, w + (part)*l.w_part + l.w_second, PAIR_BYTES);                                         \
    } while (0)
#  define MULTIPLY()                                                                                                   \
    do {                                                                                                               \
      _tile_dpbf16ps(0, 4, 6);                                                                                         \
      if (two_w) _tile_dpbf16ps(1, 4, 7);                                                                              \
      if (two_x) _tile_dpbf16ps(2, 5, 6);                                                                              \
      if (two_x && two_w) _tile_dpbf16ps(3, 5, 7);                                                                     \
    } while (0)

INLINE void direct_amx_add_products(const char *x, const char *w, layout l, bool two_x, bool two_w, int parts) {
  LOAD_X(0);
  if (parts == PAIR_PARTS) {
    LOAD_W(2);
    MULTIPLY();
    LOAD_W(1);
    MULTIPLY();
  }
  LOAD_W(0);
  MULTIPLY();
  if (parts != PAIR_PARTS) return;
  LOAD_X(1);
  MULTIPLY();
  LOAD_W(1);
  MULTIPLY();
  LOAD_X(2);
  LOAD_W(0);
  MULTIPLY();
}

/* ---- sums over channels and taps --------------------------------------------------------------------------------- */

INLINE void direct_amx_block_body(const pair_sums *s, const char *x, bool two_positions, bool two_rows, int parts,
                                  float *c) {
  const int64_t w_bytes = (two_rows ? 2 : 1) * PAIR_TILE_BYTES;
  const layout l = {PAIR_BYTES, PAIR_TILE_BYTES, s->x_part, PAIR_TILE_BYTES, s->w_part};
  const char *w = s->w;
  direct_amx_clear_sums();
  for (int64_t pair = 0; pair < s->pairs; pair += PAIR_STEP, x += s->x_step, w += s->kernel_taps * w_bytes)
    for (int64_t t = 0; t < s->taps; ++t)
      direct_amx_add_products(x + s->x_tap[t] * PAIR_BYTES, w + s->w_tap[t] * w_bytes, l, two_positions, two_rows,
                              parts);
  direct_amx_store_sums(c, two_positions, two_rows);
}

typedef void block_function(const pair_sums *s, const char *x, float *c);
#  define BLOCK_OF(positions, rows, parts)                                                                             \
    static void block_##positions##rows##_##parts(const pair_sums *s, const char *x, float *c) {                       \
      direct_amx_block_body(s, x, positions, rows, parts, c);                                                          \
    }
#  define BLOCKS(parts) BLOCK_OF(0, 0, parts) BLOCK_OF(0, 1, parts) BLOCK_OF(1, 0, parts) BLOCK_OF(1, 1, parts)
#  define LISTED(parts)                                                                                                \
    {                                                                                                                  \
      {block_00_##parts, block_01_##parts}, { block_10_##parts, block_11_##parts }                                     \
    }
BLOCKS(1)
BLOCKS(3)
static block_function *const blocks[2][2][2] = {LISTED(1), LISTED(3)};

/* Each block starts at the next position that is wanted, so positions between lines of outputs are computed only if
 * they lie within a block. */
static int64_t direct_amx_sums(const pair_sums *s, int rows, const int64_t *place, int64_t n, float *c,
                               int32_t *index) {
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

/* ---- GEMM over positions ----------------------------------------------------------------------------------------- */

INLINE void direct_amx_products_body(const pair_products *p, bool two_channels, bool two_rows, int parts, int64_t steps,
                                     float *c, bool accumulate) {
  const layout l = {p->x_channel, PAIR_TILE_ROWS * p->x_channel, p->x_part, p->y_tile, p->y_part};
  if (accumulate)
    direct_amx_load_sums(c, two_channels, two_rows);
  else
    direct_amx_clear_sums();
  for (int64_t s = 0; s < steps; ++s)
    direct_amx_add_products(p->x + s * PAIR_BYTES, p->y + s * PAIR_TILE_BYTES, l, two_channels, two_rows, parts);
  direct_amx_store_sums(c, two_channels, two_rows);
}

typedef void products_function(const pair_products *p, int64_t steps, float *c, bool accumulate);
#  define PRODUCTS_OF(channels, rows, parts)                                                                           \
    static void products_##channels##rows##_##parts(const pair_products *p, int64_t steps, float *c,                   \
                                                    bool accumulate) {                                                 \
      direct_amx_products_body(p, channels, rows, parts, steps, c, accumulate);                                        \
    }
#  define PRODUCTS(parts)                                                                                              \
    PRODUCTS_OF(0, 0, parts) PRODUCTS_OF(0, 1, parts) PRODUCTS_OF(1, 0, parts) PRODUCTS_OF(1, 1, parts)
#  define PRODUCTS_LISTED(parts)                                                                                       \
    {                                                                                                                  \
      {products_00_##parts, products_01_##parts}, { products_10_##parts, products_11_##parts }                         \
    }
PRODUCTS(1)
PRODUCTS(3)
static products_function *const variants[2][2][2] = {PRODUCTS_LISTED(1), PRODUCTS_LISTED(3)};

static void direct_amx_products(const pair_products *p, int channels, int rows, int64_t steps, float *c,
                                bool accumulate) {
  variants[p->parts > 1][channels > PAIR_TILE_ROWS][rows > PAIR_TILE_ROWS](p, steps, c, accumulate);
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

static void direct_amx_begin(void) { amx_kernel.begin(); }
static void direct_amx_end(void) { amx_kernel.end(); }

const pair_kernel *direct_amx(void) {
  static const pair_kernel kernel = {.parts = PAIR_PARTS,
                                     .least_taps = 1,
                                     .least_rows = 2,
                                     .flops_per_ns = 1200,
                                     .sums = direct_amx_sums,
                                     .products = direct_amx_products,
                                     .begin = direct_amx_begin,
                                     .end = direct_amx_end};
  return amx_start() ? &kernel : NULL;
}

#else

const pair_kernel *direct_amx(void) { return NULL; }

#endif
