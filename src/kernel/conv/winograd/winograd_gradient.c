/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/conv/winograd/winograd_gradient.h"

#include <string.h>

#include "kernel/conv/correlate.h"
#include "kernel/conv/direct/direct.h"
#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/product/tile/tile_gemm.h"

enum {
  LEAST_TILES = 128, /* least tiles of a pass, so that packing pays off, and most */
  MOST_TILES = 512,
  TILES_BYTES = 4 << 20, /* most bytes of both operands' transformed tiles, which then stay in the caches */
  PART_CHANNELS = 256,   /* channels packed at a time, for all rows */
  BLOCK_ROWS = 126,      /* as in product_blocks.c */
  FLOAT = sizeof(float)
};

/* The most tiles of a pass. */
static int64_t most_tiles(const conv_geometry *g) {
  const int64_t per_tile = WINOGRAD_PRODUCTS * (g->channels + g->rows) * FLOAT;
  return i64_max(LEAST_TILES, i64_min(MOST_TILES, TILES_BYTES / per_tile));
}

bool winograd_gradient_fits(winograd_gradient *w, const conv_geometry *g, const conv_operand *x, const conv_operand *y,
                            const conv_operand *weight) {
  if (!winograd_is_window(g) || !winograd_is_plain(g, weight) || x->dtype != ACL_FLOAT || y->dtype != ACL_FLOAT ||
      g->batch == 0)
    return false;
  *w = (winograd_gradient){.g = g,
                           .x = {.operand = x, .size = g->in, .low = {-g->pad[1], -g->pad[2]}, .taps = 4},
                           .y = {.operand = y, .size = g->out, .taps = 2},
                           .grid = winograd_grid_of(g->batch, g->out + 1, most_tiles(g)),
                           .cost_ns = conv_cost_ns(conv_multiply_adds(g), 150)};
  return true;
}

bool winograd_gradient_pays(const winograd_gradient *w) {
  /* The sums of all products go to memory and back. With one image of 7 x 7 or 8 x 8 the packed GEMM takes 0.6 to 0.9
   * of the time (512 and 1280 channels); from 14 x 14, or 8 images of 7 x 7 on, Winograd is faster. */
  enum { TRANSFORM = 400 };
  const int64_t tiles = winograd_segments(&w->grid) * w->grid.width;
  return winograd_pays_off(w->g, w->g->out[1] * w->g->out[2], winograd_div_up(tiles, WINOGRAD_LANES), TRANSFORM);
}

void winograd_gradient_init(winograd_gradient *w, executor *e) {
  const conv_geometry *g = w->g;
  w->at_once = i64_min(winograd_segments(&w->grid), most_tiles(g) / w->grid.width);
  const int64_t pitch = winograd_round_up(w->at_once * w->grid.width + WINOGRAD_LANES - 1);
  const int64_t channels = winograd_round_up(g->channels);
  w->x_tiles = (winograd_tiles){.channel = pitch, .product = winograd_stride(g->channels * pitch)};
  w->y_tiles = (winograd_tiles){.channel = pitch, .product = winograd_stride(g->rows * pitch)};
  w->sums = (winograd_tiles){.channel = channels, .product = winograd_stride(g->rows * channels)};
  w->x_at = workspace_intermediate(e, (uint64_t)(WINOGRAD_PRODUCTS * w->x_tiles.product * FLOAT));
  w->y_at = workspace_intermediate(e, (uint64_t)(WINOGRAD_PRODUCTS * w->y_tiles.product * FLOAT));
  w->sum_at = workspace_intermediate(e, (uint64_t)(WINOGRAD_PRODUCTS * w->sums.product * FLOAT));
}

/* ---- one pass over some tiles ------------------------------------------------------------------------------------ */

typedef struct {
  const winograd_gradient *w;
  const char *x, *y; /* of the group */
  winograd_tiles x_tiles, y_tiles, sums;
  int64_t first, n; /* segments of the pass */
  float *to;        /* the gradients of the group's weights */
  status *result;
  bool *finite;
} gradient_job;

/* Transforms channels of x, then rows of y. */
static void winograd_gradient_transform(const void *job, int64_t begin, int64_t end) {
  const gradient_job *j = job;
  const winograd_gradient *w = j->w;
  const int64_t channels = w->g->channels, rows = w->g->rows;
  const int64_t floats = i64_max(winograd_scratch(&w->grid, &w->x, j->n), winograd_scratch(&w->grid, &w->y, j->n));
  float *const scratch = (float *)(void *)scratch_take((size_t)floats * FLOAT);
  if (!scratch) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  winograd_transform(&w->grid, &w->x, j->x, j->first, j->n, begin, i64_min(end, channels), &j->x_tiles, scratch);
  winograd_transform(&w->grid, &w->y, j->y, j->first, j->n, i64_max(begin - channels, 0), i64_min(end - channels, rows),
                     &j->y_tiles, scratch);
}

/* Multiplies channels [first, first + n) of matrix p, one of the 16, by all rows. */
static status winograd_gradient_multiply_part(const gradient_job *j, int64_t p, int64_t first, int64_t n) {
  const winograd_gradient *w = j->w;
  const int64_t tiles = j->n * w->grid.width, rows = w->g->rows;
  const size_t b_bytes = tile_b_bytes(TILE_F32, tiles, n);
  char *const b = scratch_take(b_bytes + tile_a_bytes(TILE_F32, BLOCK_ROWS, tiles));
  if (!b) return ST_NO_MEMORY;
  tile_pack_b(TILE_F32, b, ACL_FLOAT, j->x_tiles.at + p * j->x_tiles.product + first * j->x_tiles.channel, FLOAT,
              j->x_tiles.channel * FLOAT, tiles, n);
  for (int64_t row = 0, m; row < rows; row += m) {
    m = i64_min(BLOCK_ROWS, rows - row);
    tile_pack_a(TILE_F32, b + b_bytes, ACL_FLOAT, j->y_tiles.at + p * j->y_tiles.product + row * j->y_tiles.channel,
                j->y_tiles.channel * FLOAT, FLOAT, m, tiles);
    tile_gemm(TILE_F32, m, n, tiles, b + b_bytes, b, j->sums.at + p * j->sums.product + row * j->sums.channel + first,
              j->sums.channel, j->first > 0);
  }
  return ST_OK;
}

static void winograd_gradient_multiply(const void *job, int64_t begin, int64_t end) {
  const gradient_job *j = job;
  const int64_t channels = j->w->g->channels, parts = winograd_div_up(channels, PART_CHANNELS);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t first = i % parts * PART_CHANNELS;
    const status result =
        winograd_gradient_multiply_part(j, i / parts, first, i64_min(PART_CHANNELS, channels - first));
    if (unlikely(result != ST_OK)) __atomic_store_n(j->result, result, __ATOMIC_RELAXED);
  }
}

/* ---- execution --------------------------------------------------------------------------------------------------- */

static void winograd_gradient_transform_sums(const void *job, int64_t begin, int64_t end) {
  enum { LANES = WINOGRAD_LANES };
  _Alignas(64) float taps[LANES * LANES] = {0}, runs[LANES * LANES];
  const gradient_job *j = job;
  const int64_t channels = j->w->g->channels;
  bool finite = true;
  for (int64_t row = begin; row < end; ++row)
    for (int64_t c = 0, n; c < channels; c += n) {
      n = i64_min(LANES, channels - c);
      float *to = j->to + (row * channels + c) * WINOGRAD_TAPS;
      finite &= winograd_loops->taps(taps, j->sums.at + row * j->sums.channel + c, j->sums.product, n);
      direct_loops->transpose(runs, LANES, taps, LANES, n);
      for (int64_t i = 0; i < n; ++i, to += WINOGRAD_TAPS) memcpy(to, runs + i * LANES, WINOGRAD_TAPS * FLOAT);
    }
  if (!finite) __atomic_store_n(j->finite, false, __ATOMIC_RELAXED);
}

static winograd_tiles winograd_tiles_at(winograd_tiles t, char *at) {
  t.at = (float *)(void *)at;
  return t;
}

status winograd_gradient_run(const winograd_gradient *w, const void *x, const void *y, float *to, char *scratch,
                             bool *done) {
  const conv_geometry *g = w->g;
  const int64_t all = winograd_segments(&w->grid), parts = winograd_div_up(g->channels, PART_CHANNELS);
  status result = ST_OK;
  *done = true;
  gradient_job job = {.w = w,
                      .x_tiles = winograd_tiles_at(w->x_tiles, scratch + w->x_at),
                      .y_tiles = winograd_tiles_at(w->y_tiles, scratch + w->y_at),
                      .sums = winograd_tiles_at(w->sums, scratch + w->sum_at),
                      .result = &result,
                      .finite = done};
  for (int64_t group = 0; group < g->groups && result == ST_OK && *done; ++group) {
    job.x = (const char *)x + group * g->channels * w->x.operand->inner;
    job.y = (const char *)y + group * g->rows * w->y.operand->inner;
    job.to = to + group * g->rows * g->channels * WINOGRAD_TAPS;
    for (job.first = 0; job.first < all && result == ST_OK; job.first += job.n) {
      job.n = i64_min(w->at_once, all - job.first);
      const uint64_t cost = w->cost_ns / (uint64_t)g->groups * (uint64_t)job.n / (uint64_t)all;
      rows_parallel(winograd_gradient_transform, &job, g->channels + g->rows, 1, cost / 4);
      if (result == ST_OK) rows_parallel(winograd_gradient_multiply, &job, WINOGRAD_PRODUCTS * parts, 1, cost);
    }
    if (result == ST_OK)
      rows_parallel(winograd_gradient_transform_sums, &job, g->rows, 1, (uint64_t)(g->rows * g->channels) * 4);
  }
  return result;
}
