#include "kernel/conv/weight_gradient_amx.h"

#include <string.h>

#include "kernel/conv/direct.h"
#include "kernel/conv/direct_amx.h"
#include "kernel/engine/rows.h"

/* y is packed as weights are: tiles of 16 rows by 32 positions, those of 32 rows side by side.
 * x is packed as words of two neighbouring positions, [word][channel], twice: starting at even positions and at odd
 * ones, since a tap may be either. Words behind the image are 0. */
enum { BLOCK = 16, POSITIONS = 32, TILE = 256 };

static int64_t steps_of(const amx_gradient *g) { return (g->y_channel + POSITIONS - 1) / POSITIONS; }
static int64_t width_of(const amx_gradient *g) { return (g->channels + BLOCK - 1) / BLOCK * BLOCK; }
static int64_t words_of(const amx_gradient *g) { return (g->x_channel + 2 * POSITIONS + TILE) / TILE * TILE / 2; }

int64_t amx_gradient_x_bytes(const amx_gradient *g) {
  return 2 * words_of(g) * width_of(g) * (int64_t)sizeof(uint32_t);
}
int64_t amx_gradient_y_bytes(const amx_gradient *g) {
  return (g->rows + BLOCK - 1) / BLOCK * steps_of(g) * AMX_TILE_BYTES;
}

void amx_gradient_pack_x(const amx_gradient *g, char *to, const float *x, int64_t first) {
  enum { ROOM = TILE + 32 }; /* and one element more is read */
  _Alignas(64) uint16_t tile[BLOCK][ROOM];
  const int64_t words = words_of(g), width = width_of(g), channels = smaller(BLOCK, g->channels - first);
  float *const even = (float *)(void *)to + first, *const odd = even + words * width;
  memset(tile, 0, sizeof tile);
  for (int64_t p = 0; p < 2 * words; p += TILE) {
    const int64_t n = smaller(TILE + 1, g->x_channel - p);
    for (int64_t c = 0; c < channels; ++c) {
      if (n > 0) loops->store[ACL_BF16][COMPUTE_F32](tile[c], sizeof(uint16_t), x + (first + c) * g->x_channel + p, n);
      const int64_t used = n > 0 ? n : 0;
      memset(tile[c] + used, 0, (size_t)(TILE + 1 - used) * sizeof(uint16_t));
    }
    direct_loops->transpose(even + p / 2 * width, width, (const float *)(const void *)tile[0], ROOM / 2, TILE / 2);
    for (int64_t c = 0; c < channels; ++c) memmove(tile[c], tile[c] + 1, TILE * sizeof(uint16_t));
    direct_loops->transpose(odd + p / 2 * width, width, (const float *)(const void *)tile[0], ROOM / 2, TILE / 2);
  }
}

void amx_gradient_pack_y(const amx_gradient *g, char *to, const float *y, int64_t first) {
  const int64_t steps = steps_of(g), rows = smaller(BLOCK, g->rows - first), pair = first / AMX_ROWS * AMX_ROWS;
  const int64_t tiles = g->rows - pair > BLOCK ? 2 : 1;
  char *at = to + pair / BLOCK * steps * AMX_TILE_BYTES + first % AMX_ROWS / BLOCK * AMX_TILE_BYTES;
  for (int64_t s = 0; s < steps; ++s, at += tiles * AMX_TILE_BYTES) {
    const int64_t n = smaller(POSITIONS, g->y_channel - s * POSITIONS);
    if (rows < BLOCK || n < POSITIONS) memset(at, 0, AMX_TILE_BYTES);
    for (int64_t r = 0; r < rows; ++r)
      loops->store[ACL_BF16][COMPUTE_F32](at + r * 64, sizeof(uint16_t), y + (first + r) * g->y_channel + s * POSITIONS,
                                          n);
  }
}

void amx_gradient_block(const amx_gradient *g, const char *x, const char *y, int64_t row, int64_t channel, int64_t tap,
                        float *sum) {
  static const int64_t here;
  const int64_t width = width_of(g), odd = tap % 2;
  const amx_sums s = {.w = y + row / BLOCK * steps_of(g) * AMX_TILE_BYTES,
                      .x = (const uint32_t *)(const void *)x + (odd * words_of(g) + tap / 2) * width + channel,
                      .x_pair = width,
                      .x_tap = &here,
                      .steps = steps_of(g),
                      .taps = 1};
  direct_amx_block(&s, g->rows - row > BLOCK, g->channels - channel > BLOCK, sum);
}
