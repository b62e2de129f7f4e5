/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/conv/pair_weights.h"

#include <string.h>

#include "kernel/conv/conv_loops.h"
#include "kernel/conv/direct/direct.h"
#include "kernel/engine/rows.h"

enum {
  MOST_TAPS = 16, /* largest kernel volume for the fast paths, whose buffers are on the stack */
  TILE_WORDS = PAIR_TILE_BYTES / 4,
  PITCH = PAIR_STEP, /* words from row to row of a tile */
};

/* A step of PAIR_CHANNELS channels of a block of rows. */
typedef struct {
  uint32_t *to;         /* [taps][tiles] */
  const uint16_t *from; /* the first row and channel */
  int64_t row_stride, channel_stride;
  int64_t rows, channels, tiles;
} step;

int64_t pair_steps(int64_t channels) { return (channels + PAIR_CHANNELS - 1) / PAIR_CHANNELS; }

static int64_t pair_tiles(int64_t rows) { return (rows + PAIR_TILE_ROWS - 1) / PAIR_TILE_ROWS; }

int64_t pair_weights_bytes(int64_t groups, int64_t rows, int64_t channels, int64_t taps) {
  return groups * pair_tiles(rows) * pair_steps(channels) * taps * PAIR_TILE_BYTES;
}

int64_t pair_weights_at(int64_t group, int64_t row, int64_t rows, int64_t channels, int64_t taps) {
  return (group * pair_tiles(rows) + row / PAIR_TILE_ROWS) * pair_steps(channels) * taps * PAIR_TILE_BYTES;
}

static void pair_transpose_words(uint32_t *to, int64_t to_row, const uint32_t *from, int64_t from_row, int64_t n) {
  direct_loops->transpose((float *)(void *)to, to_row, (const float *)(const void *)from, from_row, n);
}

static int64_t tap_offset(const pair_weights *p, int64_t t) {
  return t / (p->kernel[1] * p->kernel[2]) * p->axis[0] + t / p->kernel[2] % p->kernel[1] * p->axis[1] +
         t % p->kernel[2] * p->axis[2];
}

/* Packs any layout, row by row: tiles are first written as [row][pair] and then transposed. */
static void pair_pack_rows(const pair_weights *p, const step *s) {
  const int64_t taps = conv_volume(p->kernel), tap_bytes = s->tiles * PAIR_TILE_BYTES;
  const bool runs = p->plain && s->channel_stride == taps && s->channels == PAIR_CHANNELS;
  for (int64_t r = 0; r < s->rows; ++r) {
    const uint16_t *const from = s->from + r * s->row_stride;
    uint16_t *at = (uint16_t *)(void *)(s->to + r / PAIR_TILE_ROWS * TILE_WORDS + r % PAIR_TILE_ROWS * PITCH);
    if (runs) {
      conv_loops->split(at, tap_bytes, from, taps, sizeof *at);
      continue;
    }
    for (int64_t t = 0; t < taps; ++t, at += tap_bytes / (int64_t)sizeof *at)
      conv_loops->take(at, from + tap_offset(p, t), s->channel_stride, sizeof *at, s->channels);
  }
  uint32_t row[TILE_WORDS], *tile = s->to;
  for (int64_t i = 0; i < s->tiles * taps; ++i, tile += TILE_WORDS) {
    memcpy(row, tile, sizeof row);
    pair_transpose_words(tile, PITCH, row, PITCH, PITCH);
  }
}

/* Packs whole tiles if the taps of a row's channels are contiguous: pairs of neighbouring elements of 16 rows are
 * transposed, and each VNNI pair is then combined from the two words that hold its elements. */
static void pair_pack_runs(const pair_weights *p, const step *s) {
  _Alignas(64) uint32_t two[MOST_TAPS * PAIR_STEP][PAIR_TILE_ROWS], rows[PAIR_TILE_ROWS][MOST_TAPS * PAIR_STEP];
  const int64_t taps = conv_volume(p->kernel), words = taps * PAIR_STEP;
  for (int64_t v = 0; v < s->tiles; ++v) {
    for (int r = 0; r < PAIR_TILE_ROWS; ++r)
      memcpy(rows[r], s->from + (v * PAIR_TILE_ROWS + r) * s->row_stride, (size_t)words * sizeof rows[r][0]);
    pair_transpose_words(two[0], PAIR_TILE_ROWS, rows[0], MOST_TAPS * PAIR_STEP, words);
    conv_loops->join(s->to + v * TILE_WORDS, s->tiles * TILE_WORDS, two[0], taps, PAIR_STEP);
  }
}

/* Packs whole tiles if the taps of rows, not of channels, are neighbours (as in a gradient of x): interleaves two
 * channels, then deinterleaves the taps. */
static void pair_pack_across(const pair_weights *p, const step *s) {
  _Alignas(64) uint32_t words[PAIR_TILE_ROWS * MOST_TAPS], by_tap[MOST_TAPS][PAIR_STEP][PAIR_TILE_ROWS];
  const int64_t taps = conv_volume(p->kernel);
  for (int64_t v = 0; v < s->tiles; ++v) {
    for (int64_t pair = 0; pair < PAIR_STEP; ++pair) {
      const uint16_t *const low = s->from + v * PAIR_TILE_ROWS * s->row_stride + 2 * pair * s->channel_stride;
      if (taps == 1) {
        conv_loops->pair(s->to + v * TILE_WORDS + pair * PITCH, low, low + s->channel_stride, 1, PAIR_TILE_ROWS);
        continue;
      }
      conv_loops->pair(words, low, low + s->channel_stride, 1, PAIR_TILE_ROWS * taps);
      conv_loops->split(by_tap[0][pair], sizeof by_tap[0], words, taps, sizeof *words);
    }
    for (int64_t t = 0; taps > 1 && t < taps; ++t)
      memcpy(s->to + (t * s->tiles + v) * TILE_WORDS, by_tap[t], sizeof by_tap[0]);
  }
}

static void pair_pack_step(const pair_weights *p, const step *s) {
  const int64_t taps = conv_volume(p->kernel);
  const bool whole = s->rows == s->tiles * PAIR_TILE_ROWS && s->channels == PAIR_CHANNELS;
  const bool fast = whole && p->plain && taps <= MOST_TAPS;
  if (!whole) memset(s->to, 0, (size_t)(s->tiles * taps * PAIR_TILE_BYTES));
  if (fast && s->channel_stride == taps)
    pair_pack_runs(p, s);
  else if (fast && s->row_stride == taps)
    pair_pack_across(p, s);
  else
    pair_pack_rows(p, s);
}

/* Packs floats, which must be contiguous either along the rows for each channel or along the channels for each row. */
static void pair_pack_floats(const pair_weights *p, const step *s, const float *from) {
  _Alignas(64) uint16_t halves[PAIR_PARTS][PAIR_ROWS * PAIR_CHANNELS * PAIR_FLOAT_TAPS];
  const bool across = s->channel_stride > s->row_stride;
  const int64_t outer = across ? s->channels : s->rows, stride = across ? s->channel_stride : s->row_stride;
  const int64_t run = (across ? s->rows : s->channels) * conv_volume(p->kernel);
  float_exponents range = float_no_exponents;
  for (int64_t i = 0; i < outer; ++i)
    pair_split_floats(halves[0] + i * run, sizeof halves[0], from + i * stride, run, &range);
  for (int part = 0; part < PAIR_PARTS; ++part) {
    step staged = *s;
    *(across ? &staged.channel_stride : &staged.row_stride) = run;
    staged.from = halves[part];
    staged.to += part * p->part / (int64_t)sizeof *s->to;
    pair_pack_step(p, &staged);
  }
}

void pair_weights_pack(const pair_weights *p, char *to, int64_t group, int64_t row) {
  step s = {.to = (uint32_t *)(void *)to,
            .row_stride = p->row_stride,
            .channel_stride = p->channel_stride,
            .rows = i64_min(PAIR_ROWS, p->rows - row)};
  s.tiles = pair_tiles(s.rows);
  const int64_t words = s.tiles * conv_volume(p->kernel) * TILE_WORDS;
  for (int64_t channel = 0; channel < p->channels; channel += PAIR_CHANNELS, s.to += words) {
    const int64_t first = group * p->group_stride + row * p->row_stride + channel * p->channel_stride;
    s.channels = i64_min(PAIR_CHANNELS, p->channels - channel);
    s.from = (const uint16_t *)p->w + first;
    if (p->part)
      pair_pack_floats(p, &s, (const float *)p->w + first);
    else
      pair_pack_step(p, &s);
  }
}
