#include "kernel/conv/pair_weights.h"

#include <string.h>

#include "kernel/conv/direct.h"
#include "kernel/conv/loops.h"
#include "kernel/engine/rows.h"

enum {
  MOST_TAPS = 16, /* of a kernel, for the fast ways, whose stages are on the stack */
  TILE_WORDS = PAIR_TILE_BYTES / 4,
  PITCH = PAIR_STEP, /* words of a row of a tile */
};

/* A step of a block of rows. */
typedef struct {
  uint32_t *to;         /* [taps][tiles] */
  const uint16_t *from; /* the first row and channel */
  int64_t rows, channels, tiles;
} step;

int64_t pair_steps(int64_t channels) { return (channels + PAIR_CHANNELS - 1) / PAIR_CHANNELS; }

static int64_t tiles_of(int64_t rows) { return (rows + PAIR_TILE_ROWS - 1) / PAIR_TILE_ROWS; }

int64_t pair_weights_bytes(int64_t groups, int64_t rows, int64_t channels, int64_t taps) {
  return groups * tiles_of(rows) * pair_steps(channels) * taps * PAIR_TILE_BYTES;
}

int64_t pair_weights_at(int64_t group, int64_t row, int64_t rows, int64_t channels, int64_t taps) {
  return (group * tiles_of(rows) + row / PAIR_TILE_ROWS) * pair_steps(channels) * taps * PAIR_TILE_BYTES;
}

static void turn(uint32_t *to, int64_t to_row, const uint32_t *from, int64_t from_row, int64_t n) {
  direct_loops->transpose((float *)(void *)to, to_row, (const float *)(const void *)from, from_row, n);
}

/* Row by row. `runs`: all of a kernel's taps are wanted, as they lie. */
static void pack_rows(const pair_weights *p, const step *s, bool runs) {
  const int64_t tap_bytes = s->tiles * PAIR_TILE_BYTES;
  for (int64_t r = 0; r < s->rows; ++r) {
    const uint16_t *const from = s->from + r * p->row_stride;
    uint16_t *at = (uint16_t *)(void *)(s->to + r / PAIR_TILE_ROWS * TILE_WORDS + r % PAIR_TILE_ROWS * PITCH);
    if (runs && s->channels == PAIR_CHANNELS) {
      conv_loops->split(at, tap_bytes, from, p->taps, sizeof *at);
      continue;
    }
    for (int64_t t = 0; t < p->taps; ++t, at += tap_bytes / (int64_t)sizeof *at)
      conv_loops->take(at, from + p->tap[t], p->channel_stride, sizeof *at, s->channels);
  }
  uint32_t row[TILE_WORDS], *tile = s->to;
  for (int64_t i = 0; p->by_pairs && i < s->tiles * p->taps; ++i, tile += TILE_WORDS) {
    memcpy(row, tile, sizeof row);
    turn(tile, PITCH, row, PITCH, PITCH);
  }
}

/* Whole tiles by pairs of channels, whose taps are runs: two elements of all rows at a time, then each word from the two
 * that have its elements. */
static void pack_runs_by_pairs(const pair_weights *p, const step *s) {
  _Alignas(64) uint32_t two[MOST_TAPS * PAIR_STEP][PAIR_TILE_ROWS], rows[PAIR_TILE_ROWS][MOST_TAPS * PAIR_STEP];
  const int64_t taps = p->taps, words = taps * PAIR_STEP;
  for (int64_t v = 0; v < s->tiles; ++v) {
    for (int r = 0; r < PAIR_TILE_ROWS; ++r)
      memcpy(rows[r], s->from + (v * PAIR_TILE_ROWS + r) * p->row_stride, (size_t)words * sizeof rows[r][0]);
    turn(two[0], PAIR_TILE_ROWS, rows[0], MOST_TAPS * PAIR_STEP, words);
    conv_loops->join(s->to + v * TILE_WORDS, s->tiles * TILE_WORDS, two[0], taps, PAIR_STEP);
  }
}

/* Whole tiles where rows' taps are neighbours, not channels' (those of a gradient): words of two channels, then those of
 * each tap. */
static void pack_across(const pair_weights *p, const step *s) {
  _Alignas(64) uint32_t words[PAIR_TILE_ROWS * MOST_TAPS], by_tap[MOST_TAPS][PAIR_STEP][PAIR_TILE_ROWS];
  for (int64_t v = 0; v < s->tiles; ++v) {
    for (int64_t pair = 0; pair < PAIR_STEP; ++pair) {
      const uint16_t *const low = s->from + v * PAIR_TILE_ROWS * p->row_stride + 2 * pair * p->channel_stride;
      conv_loops->pair(words, low, low + p->channel_stride, 1, PAIR_TILE_ROWS * p->kernel_taps);
      conv_loops->split(by_tap[0][pair], sizeof by_tap[0], words, p->kernel_taps, sizeof *words);
    }
    for (int64_t t = 0; t < p->taps; ++t) {
      uint32_t *const to = s->to + (t * s->tiles + v) * TILE_WORDS;
      if (p->by_pairs)
        memcpy(to, by_tap[p->tap[t]], sizeof by_tap[0]);
      else
        turn(to, PITCH, by_tap[p->tap[t]][0], PAIR_TILE_ROWS, PITCH);
    }
  }
}

void pair_weights_pack(const pair_weights *p, char *to, int64_t group, int64_t row) {
  const bool few = p->kernel_taps > 0 && p->kernel_taps <= MOST_TAPS;
  const bool across = few && p->channel_stride != p->kernel_taps && p->row_stride == p->kernel_taps;
  bool runs = p->kernel_taps == p->taps && p->channel_stride == p->taps;
  for (int64_t t = 0; t < p->taps; ++t) runs &= p->tap[t] == t;
  step s = {.to = (uint32_t *)(void *)to, .rows = smaller(PAIR_ROWS, p->rows - row)};
  s.tiles = tiles_of(s.rows);
  const bool whole_rows = s.rows == s.tiles * PAIR_TILE_ROWS;
  const int64_t words = s.tiles * p->taps * TILE_WORDS;
  for (int64_t channel = 0; channel < p->channels; channel += PAIR_CHANNELS, s.to += words) {
    s.from = p->w + group * p->group_stride + row * p->row_stride + channel * p->channel_stride;
    s.channels = smaller(PAIR_CHANNELS, p->channels - channel);
    const bool whole = whole_rows && s.channels == PAIR_CHANNELS;
    if (!whole) memset(s.to, 0, (size_t)words * sizeof *s.to);
    if (whole && across)
      pack_across(p, &s);
    else if (whole && few && runs && p->by_pairs)
      pack_runs_by_pairs(p, &s);
    else
      pack_rows(p, &s, runs);
  }
}
