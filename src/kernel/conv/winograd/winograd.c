/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd convolution: the GEMMs of transformed tiles. There are two orders, which give bitwise equal results:
 *
 *   by tiles   All weights are transformed first. Then each block of tiles is transformed, multiplied by all of the
 *              weights, and transformed to outputs.
 *   by rows    All tiles are transformed first. Then the weights of each few rows are transformed and multiplied by all
 *              tiles, block after block. This is better if there are more weights than tiles, since the transformed
 *              weights then need not go to memory and back.
 *
 * Constant weights are not kept transformed, as reading 16 / 9 of their bytes from memory takes longer than
 * transforming them: layers of 128 x 28 x 28 and ResNet-50 as a whole took 1.05 times as long with them on a Zen 4.
 *
 * Threads share the blocks of tiles, or the channels of the tiles and then the blocks of rows. */
#include "kernel/conv/winograd/winograd.h"

#include <string.h>

#include "kernel/conv/conv_loops.h"
#include "kernel/conv/correlate.h"
#include "kernel/conv/direct/direct.h"
#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "runtime/parallel.h"

enum {
  LEAST_TILES = 48, /* by tiles: least and most tiles of a block, */
  MOST_TILES = 192,
  TILES_BYTES = 2 << 20,  /* and most bytes of their inputs and products, which then stay in the caches */
  BLOCK_TILES = 96,       /* by rows: most tiles of a block */
  ROWS_BYTES = 512 << 10, /* by rows: most bytes of a block's transformed weights, which then stay in L2 */
};

/* The transformed weights of some rows are [16][rows][channels rounded up to whole vectors]. */
static int64_t weight_pitch(const winograd *w) { return winograd_round_up(w->channels); }
static int64_t weight_step(const winograd *w, int64_t rows) { return winograd_stride(rows * weight_pitch(w)); }
static int64_t group_weights(const winograd *w) { return WINOGRAD_PRODUCTS * weight_step(w, w->rows); }

/* The layout of the transformed tiles of n segments. The last vector of a segment reaches into the next one, or
 * behind all. */
static winograd_tiles winograd_tiles_of(const winograd *w, int64_t n, int64_t channels) {
  const int64_t pitch = winograd_round_up(n * w->grid.width + WINOGRAD_LANES - 1);
  return (winograd_tiles){.channel = pitch, .product = winograd_stride(channels * pitch)};
}
static int64_t n_blocks(const winograd *w) { return winograd_div_up(winograd_segments(&w->grid), w->at_once); }
static int64_t block_inputs(const winograd *w) {
  return WINOGRAD_PRODUCTS * winograd_tiles_of(w, w->at_once, w->channels).product;
}

/* ---- blocking and the choice of the order ------------------------------------------------------------------------ */

static int64_t vectors_of(const winograd *w, int64_t segments) {
  return winograd_div_up(segments * w->grid.width, WINOGRAD_LANES);
}

/* Sets w->at_once to the number of segments of a block, up to `most`, that fills vectors best; or, if threads share the
 * blocks, that lets them all end early. Returns the number of vectors of all tiles. */
static int64_t cut_lines(winograd *w, int64_t most, int64_t n_threads) {
  const int64_t all = winograd_segments(&w->grid);
  int64_t best = INT64_MAX, vectors = 0;
  for (int64_t n = most; n > 0; --n) {
    const int64_t filled = all / n * vectors_of(w, n) + vectors_of(w, all % n), blocks = winograd_div_up(all, n);
    const int64_t turns = winograd_div_up(blocks * w->g->groups, n_threads);
    /* Weights are read once per block. */
    const int64_t cost = n_threads > 1 ? turns * (2 * vectors_of(w, n) + 1) : 2 * filled + blocks;
    if (cost >= best) continue;
    best = cost;
    vectors = filled;
    w->at_once = n;
  }
  return vectors;
}

/* Both return the number of vectors of all tiles. */
static int64_t cut_by_tiles(winograd *w) {
  const int64_t per_tile = WINOGRAD_PRODUCTS * (w->channels + w->rows) * (int64_t)sizeof(float);
  const int64_t most = i64_max(LEAST_TILES, i64_min(MOST_TILES, TILES_BYTES / per_tile));
  w->grid = winograd_grid_of(w->g->batch, w->out, most);
  const int64_t all = winograd_segments(&w->grid);
  const int64_t n_threads = parallel_max_threads(w->cost_ns), share = winograd_div_up(all * w->g->groups, n_threads);
  return cut_lines(w, i64_min(share, most / w->grid.width), n_threads);
}
static int64_t cut_by_rows(winograd *w) {
  const int64_t row_bytes = WINOGRAD_PRODUCTS * weight_pitch(w) * (int64_t)sizeof(float);
  w->grid = winograd_grid_of(w->g->batch, w->out, BLOCK_TILES);
  const int64_t most = i64_max(ROWS_BYTES / row_bytes / WINOGRAD_LANES, 1) * WINOGRAD_LANES;
  const int64_t n_threads = parallel_max_threads(w->cost_ns);
  const int64_t turns = winograd_div_up(w->g->groups * winograd_div_up(w->rows, most), n_threads);
  w->rows_at_once = winograd_round_up(winograd_div_up(w->g->groups * w->rows, turns * n_threads));
  return cut_lines(w, i64_min(winograd_segments(&w->grid), BLOCK_TILES / w->grid.width), 1);
}

bool winograd_fits(winograd *w, const conv_geometry *g, const conv_operand *from, const conv_operand *to,
                   const conv_operand *weight, bool backward) {
  if (!winograd_is_window(g) || !winograd_is_plain(g, weight) || from->dtype != ACL_FLOAT) return false;
  *w = (winograd){.g = g,
                  .to = to,
                  .backward = backward,
                  .rows = backward ? g->channels : g->rows,
                  .channels = backward ? g->rows : g->channels,
                  .cost_ns = conv_cost_ns(conv_multiply_adds(g), 150)};
  w->out = (backward ? g->in : g->out) + 1;
  w->from = (winograd_side){.operand = from, .size = backward ? g->out : g->in, .taps = 4};
  for (int a = 0; a < 2; ++a) w->from.low[a] = backward ? g->pad[a + 1] - 2 : -g->pad[a + 1];
  w->vectors = cut_by_rows(w);
  w->transformed = n_blocks(w) * block_inputs(w);
  w->by_rows = w->transformed < group_weights(w);
  if (w->by_rows) return true;
  w->vectors = cut_by_tiles(w);
  w->transformed = group_weights(w);
  return true;
}

bool winograd_pays(const winograd *w) {
  enum { TRANSFORM = 150 };
  return winograd_pays_off(w->g, w->out[0] * w->out[1], w->vectors, TRANSFORM);
}

void winograd_init(winograd *w, executor *e) {
  w->transformed_at = workspace_intermediate(e, (uint64_t)(w->g->groups * w->transformed) * sizeof(float));
}

/* ---- transforms of weights --------------------------------------------------------------------------------------- */

typedef struct {
  const winograd *w;
  const float *from;
  float *to;
} weight_job;

/* Transforms the weights of row `row` of the call's weights and WINOGRAD_LANES channels from c on. */
static void winograd_transform_run(const weight_job *j, int64_t row, int64_t c, float *to, int64_t step) {
  enum { RUN = WINOGRAD_LANES * WINOGRAD_TAPS, AHEAD = 4 * RUN };
  _Alignas(64) float taps[RUN], rest[RUN];
  const int64_t channels = j->w->g->channels, n = i64_min(channels - c, WINOGRAD_LANES);
  const float *from = j->from + (row * channels + c) * WINOGRAD_TAPS;
  for (int i = 0; i < RUN; i += WINOGRAD_LANES) __builtin_prefetch(from + AHEAD + i);
  if (n < WINOGRAD_LANES) {
    memset(rest, 0, sizeof rest);
    from = memcpy(rest, from, (size_t)(n * WINOGRAD_TAPS) * sizeof *from);
  }
  conv_loops->split(taps, sizeof taps / WINOGRAD_TAPS, from, WINOGRAD_TAPS, sizeof *from);
  winograd_loops->weights(to, step, taps, j->w->backward);
}

/* Transforms the weights of rows [row, row + n) of a group. */
static void winograd_transform_rows(const weight_job *j, int64_t group, int64_t row, int64_t n, float *to,
                                    int64_t step) {
  const winograd *w = j->w;
  for (int64_t r = 0; r < n; ++r)
    for (int64_t c = 0; c < w->channels; c += WINOGRAD_LANES)
      winograd_transform_run(j, group * w->rows + row + r, c, to + r * weight_pitch(w) + c, step);
}

/* Backward, rows are the call's channels and vice versa: transforms a square of WINOGRAD_LANES channels by up to as
 * many rows, and transposes it. */
static void winograd_transform_square(const weight_job *j, int64_t group, int64_t channel, int64_t row, float *to,
                                      int64_t step) {
  enum { LANES = WINOGRAD_LANES, SQUARE = LANES * LANES };
  _Alignas(64) float square[WINOGRAD_PRODUCTS * SQUARE];
  const winograd *w = j->w;
  const int64_t n = i64_min(w->channels - channel, LANES);
  if (n < LANES) memset(square, 0, sizeof square);
  for (int64_t k = 0; k < n; ++k)
    winograd_transform_run(j, group * w->channels + channel + k, row, square + k * LANES, SQUARE);
  for (int64_t p = 0; p < WINOGRAD_PRODUCTS; ++p)
    direct_loops->transpose(to + p * step, weight_pitch(w), square + p * SQUARE, LANES, i64_min(w->rows - row, LANES));
}

static void winograd_transform_weights(const void *job, int64_t begin, int64_t end) {
  const weight_job *j = job;
  const winograd *w = j->w;
  for (int64_t i = begin; i < end; ++i)
    winograd_transform_rows(j, i / w->rows, i % w->rows, 1,
                            j->to + i / w->rows * group_weights(w) + i % w->rows * weight_pitch(w),
                            weight_step(w, w->rows));
}

static void winograd_transform_weights_across(const void *job, int64_t begin, int64_t end) {
  const weight_job *j = job;
  const winograd *w = j->w;
  const int64_t squares = winograd_div_up(w->channels, WINOGRAD_LANES);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t group = i / squares, channel = i % squares * WINOGRAD_LANES;
    for (int64_t row = 0; row < w->rows; row += WINOGRAD_LANES)
      winograd_transform_square(j, group, channel, row,
                                j->to + group * group_weights(w) + row * weight_pitch(w) + channel,
                                weight_step(w, w->rows));
  }
}

/* ---- GEMMs and outputs ------------------------------------------------------------------------------------------- */

typedef struct {
  const winograd *w;
  const char *from;
  char *to;
  const float *bias;
  float *transformed; /* by tiles: the weights of each group; by rows: the tiles of each block of each group */
  weight_job weights; /* by rows: the call's weights */
  conv_store store;
  status *result;
  bool *finite;
} tile_job;

/* A block: segments [first, first + n) by rows [row, row + rows) of a group. */
typedef struct {
  int64_t group, first, n, row, rows;
  const float *weights;
  int64_t weight_step;
  winograd_tiles inputs, products; /* of the block's channels, of its rows */
  float *line;                     /* buffers for two lines of outputs */
} block;

static int64_t line_floats(const winograd *w) { return 4 * winograd_round_up(w->grid.width); }

static void winograd_multiply(const winograd *w, const block *b) {
  static const int64_t no_tap = 0;
  const int64_t lanes = direct_loops->lanes, width = direct_loops->vectors * lanes, tiles = b->n * w->grid.width;
  direct_sums s = {.w_row = weight_pitch(w),
                   .w_channel = 1,
                   .x_channel = b->inputs.channel,
                   .w_tap = &no_tap,
                   .x_tap = &no_tap,
                   .channels = w->channels,
                   .taps = 1};
  for (int64_t p = 0; p < WINOGRAD_PRODUCTS; ++p)
    for (int64_t row = 0; row < b->rows; row += direct_loops->rows)
      for (int64_t t = 0; t < tiles; t += width) {
        s.w = b->weights + p * b->weight_step + row * s.w_row;
        s.x = b->inputs.at + p * b->inputs.product + t;
        direct_loops->tile(
            &s, (int)i64_min(direct_loops->rows, b->rows - row), (int)winograd_div_up(i64_min(width, tiles - t), lanes),
            b->products.at + p * b->products.product + row * b->products.channel + t, b->products.channel);
      }
}

static bool winograd_transform_outputs(const tile_job *j, const block *b) {
  const winograd *w = j->w;
  const int64_t width = w->grid.width, *const axis = w->to->axis;
  float *const bottom = b->line + 2 * winograd_round_up(width);
  bool finite = true;
  winograd_stack s;
  for (int64_t i = 0; i < b->n; i += s.n) {
    s = winograd_stack_at(&w->grid, b->first + i, b->first + b->n);
    const int64_t x = 2 * s.segment * width, n = i64_min(2 * width, w->out[1] - x);
    char *const image = j->to + s.image * w->to->outer + x * axis[2];
    for (int64_t r = 0; r < b->rows; ++r)
      for (int64_t l = 0; l < s.n; ++l) {
        const int64_t row = b->group * w->rows + b->row + r, y = 2 * (s.line + l);
        const float *const m = b->products.at + r * b->products.channel + (i + l) * width;
        char *const to = image + row * w->to->inner + y * axis[1];
        finite &=
            winograd_loops->outputs(b->line, bottom, m, b->products.product, (n + 1) / 2, j->bias ? j->bias[row] : 0);
        conv_store_run(&j->store, to, axis[2], b->line, n);
        if (y + 1 < w->out[0]) conv_store_run(&j->store, to + axis[1], axis[2], bottom, n);
      }
  }
  return finite;
}

static void winograd_make_outputs(const tile_job *j, const block *b) {
  winograd_multiply(j->w, b);
  if (!winograd_transform_outputs(j, b)) __atomic_store_n(j->finite, false, __ATOMIC_RELAXED);
}

/* Records a failure. Returns false if the caller should stop: after a failure, or when another thread has found a
 * result that is not finite, since all results will then be discarded. */
static bool winograd_goes_on(const tile_job *j, status result) {
  if (unlikely(result != ST_OK)) __atomic_store_n(j->result, result, __ATOMIC_RELAXED);
  return result == ST_OK && __atomic_load_n(j->finite, __ATOMIC_RELAXED);
}

/* The group and the segments of block number i, counted over all groups. */
static block winograd_block_at(const winograd *w, int64_t i) {
  block b = {.group = i / n_blocks(w), .first = i % n_blocks(w) * w->at_once};
  b.n = i64_min(w->at_once, winograd_segments(&w->grid) - b.first);
  return b;
}

/* Transforms the inputs of channels [begin, end) of a block. scratch: as many floats as winograd_scratch returns. */
static void winograd_transform_inputs(const tile_job *j, const block *b, int64_t begin, int64_t end, float *scratch) {
  const winograd *w = j->w;
  const char *const x = j->from + b->group * w->channels * w->from.operand->inner;
  winograd_transform(&w->grid, &w->from, x, b->first, b->n, begin, end, &b->inputs, scratch);
}

/* ---- by tiles ---------------------------------------------------------------------------------------------------- */

static status winograd_make_block(const tile_job *j, int64_t i) {
  const winograd *w = j->w;
  block b = winograd_block_at(w, i);
  b.rows = w->rows;
  b.weights = j->transformed + b.group * group_weights(w);
  b.weight_step = weight_step(w, w->rows);
  b.inputs = winograd_tiles_of(w, b.n, w->channels);
  b.products = winograd_tiles_of(w, b.n, w->rows);
  const int64_t inputs = WINOGRAD_PRODUCTS * b.inputs.product, products = WINOGRAD_PRODUCTS * b.products.product;
  const int64_t all = inputs + products + line_floats(w) + winograd_scratch(&w->grid, &w->from, b.n);
  b.inputs.at = (float *)(void *)scratch_take((size_t)all * sizeof(float));
  if (!b.inputs.at) return ST_NO_MEMORY;
  b.products.at = b.inputs.at + inputs;
  b.line = b.products.at + products;
  winograd_transform_inputs(j, &b, 0, w->channels, b.line + line_floats(w));
  winograd_make_outputs(j, &b);
  return ST_OK;
}

static void winograd_make_blocks(const void *job, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end && winograd_goes_on(job, winograd_make_block(job, i)); ++i) {
  }
}

/* ---- by rows ----------------------------------------------------------------------------------------------------- */

static void find_inputs(const tile_job *j, block *b) {
  const winograd *w = j->w;
  b->inputs = winograd_tiles_of(w, w->at_once, w->channels);
  b->inputs.at = j->transformed + (b->group * n_blocks(w) + b->first / w->at_once) * block_inputs(w);
}

/* begin and end count the channels of all blocks. */
static void winograd_transform_channels(const void *job, int64_t begin, int64_t end) {
  const tile_job *j = job;
  const winograd *w = j->w;
  float *const scratch =
      (float *)(void *)scratch_take((size_t)winograd_scratch(&w->grid, &w->from, w->at_once) * sizeof(float));
  if (!winograd_goes_on(j, scratch ? ST_OK : ST_NO_MEMORY)) return;
  for (int64_t i = begin, n; i < end; i += n) {
    const int64_t channel = i % w->channels;
    block b = winograd_block_at(w, i / w->channels);
    n = i64_min(w->channels - channel, end - i);
    find_inputs(j, &b);
    winograd_transform_inputs(j, &b, channel, channel + n, scratch);
  }
}

/* Computes block of rows number i, counted over all groups. */
static status winograd_make_row_block(const tile_job *j, int64_t i) {
  const winograd *w = j->w;
  const int64_t parts = winograd_div_up(w->rows, w->rows_at_once), group = i / parts, row = i % parts * w->rows_at_once;
  const int64_t rows = i64_min(w->rows_at_once, w->rows - row), step = weight_step(w, rows);
  winograd_tiles products = winograd_tiles_of(w, w->at_once, rows);
  const int64_t all = WINOGRAD_PRODUCTS * (step + products.product) + line_floats(w);
  float *const weights = (float *)(void *)scratch_take((size_t)all * sizeof(float));
  if (!weights) return ST_NO_MEMORY;
  products.at = weights + WINOGRAD_PRODUCTS * step;
  if (w->backward) {
    for (int64_t r = 0; r < rows; r += WINOGRAD_LANES)
      for (int64_t c = 0; c < w->channels; c += WINOGRAD_LANES)
        winograd_transform_square(&j->weights, group, c, row + r, weights + r * weight_pitch(w) + c, step);
  } else {
    winograd_transform_rows(&j->weights, group, row, rows, weights, step);
  }
  for (int64_t k = 0; k < n_blocks(w); ++k) {
    block b = winograd_block_at(w, group * n_blocks(w) + k);
    find_inputs(j, &b);
    b.row = row;
    b.rows = rows;
    b.weights = weights;
    b.weight_step = step;
    b.products = products;
    b.line = products.at + WINOGRAD_PRODUCTS * products.product;
    winograd_make_outputs(j, &b);
  }
  return ST_OK;
}

static void winograd_make_row_blocks(const void *job, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end && winograd_goes_on(job, winograd_make_row_block(job, i)); ++i) {
  }
}

/* ---- execution --------------------------------------------------------------------------------------------------- */

status winograd_run(const winograd *w, const winograd_call *call, char *scratch, bool *done) {
  const conv_geometry *g = w->g;
  float *const transformed = (float *)(void *)(scratch + w->transformed_at);
  status result = ST_OK;
  *done = true;
  const tile_job job = {.w = w,
                        .from = call->from,
                        .to = call->to,
                        .bias = call->bias,
                        .transformed = transformed,
                        .weights = {w, call->weights, transformed},
                        .store = call->store,
                        .result = &result,
                        .finite = done};
  const uint64_t weights_ns = (uint64_t)(g->groups * g->rows * g->channels) * 4;
  if (w->by_rows) {
    const int64_t blocks = g->groups * n_blocks(w);
    rows_parallel(winograd_transform_channels, &job, blocks * w->channels, 1,
                  (uint64_t)(blocks * block_inputs(w)) / 2); /* 0.3 to 0.5 ns per float */
    if (unlikely(result != ST_OK)) return result;
    rows_parallel(winograd_make_row_blocks, &job, g->groups * winograd_div_up(w->rows, w->rows_at_once), 1,
                  w->cost_ns + weights_ns);
    return result;
  }
  if (w->backward)
    rows_parallel(winograd_transform_weights_across, &job.weights,
                  g->groups * winograd_div_up(w->channels, WINOGRAD_LANES), 1, weights_ns);
  else
    rows_parallel(winograd_transform_weights, &job.weights, g->groups * w->rows, 1, weights_ns);
  rows_parallel(winograd_make_blocks, &job, g->groups * n_blocks(w), 1, w->cost_ns);
  return result;
}
