#include "kernel/conv/winograd.h"

#include <string.h>

#include "kernel/conv/correlate.h"
#include "kernel/conv/direct.h"
#include "kernel/conv/loops.h"
#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "op/parallel.h"

enum {
  LEAST_TILES = 48,
  MOST_TILES = 192,     /* at once, */
  TILES_BYTES = 2 << 20 /* and such that their inputs and products stay near */
};

/* Transformed weights of a group are [16][rows][channels, up to whole vectors]. */
static int64_t weight_pitch(const winograd *w) { return winograd_whole(w->channels); }
static int64_t weight_step(const winograd *w) { return winograd_step(w->rows * weight_pitch(w)); }
static int64_t group_weights(const winograd *w) { return WINOGRAD_PRODUCTS * weight_step(w); }

/* ---- what it does ------------------------------------------------------------------------------------------------ */

static int64_t vectors_of(const winograd *w, int64_t segments) {
  return winograd_parts(segments * w->grid.width, WINOGRAD_LANES);
}

/* As many segments at once as fill vectors best. Returns how many vectors all are. */
static int64_t cut_lines(winograd *w, int64_t most) {
  const int64_t all = winograd_segments(&w->grid);
  const int64_t share = winograd_parts(all * w->g->groups, parallel_most(w->cost_ns));
  int64_t best = INT64_MAX, vectors = 0;
  for (int64_t n = smaller(share, most / w->grid.width); n > 0; --n) {
    const int64_t filled = all / n * vectors_of(w, n) + vectors_of(w, all % n);
    const int64_t cost = 2 * filled + winograd_parts(all, n); /* weights are read for each block */
    if (cost >= best) continue;
    best = cost;
    vectors = filled;
    w->at_once = n;
  }
  return vectors;
}

void winograd_init(winograd *w, executor *e, const conv_geometry *g, const conv_operand *from, const conv_operand *to,
                   const conv_operand *weight, bool backward) {
  w->fits = false;
  if (!winograd_is_window(g) || !winograd_is_plain(g, weight) || from->dtype != ACL_FLOAT) return;
  *w = (winograd){.g = g,
                  .to = to,
                  .backward = backward,
                  .rows = backward ? g->channels : g->rows,
                  .channels = backward ? g->rows : g->channels,
                  .cost_ns = conv_cost_ns(conv_multiply_adds(g), 150)};
  memcpy(w->in, backward ? g->out : g->in, sizeof w->in);
  memcpy(w->out, (backward ? g->in : g->out) + 1, sizeof w->out);
  w->from = (winograd_side){.operand = from, .size = w->in, .taps = 4};
  for (int a = 0; a < 2; ++a) w->from.low[a] = backward ? g->pad[a + 1] - 2 : -g->pad[a + 1];
  const int64_t per_tile = WINOGRAD_PRODUCTS * (w->channels + w->rows) * (int64_t)sizeof(float);
  const int64_t most = larger(LEAST_TILES, smaller(MOST_TILES, TILES_BYTES / per_tile));
  w->grid = winograd_grid_of(g->batch, w->out, most);
  w->fits = winograd_is_less(g, w->out[0] * w->out[1], cut_lines(w, most));
  if (w->fits) w->weight_at = workspace_intermediate(e, (uint64_t)(g->groups * group_weights(w)) * sizeof(float));
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

typedef struct {
  const winograd *w;
  const float *from;
  float *to;
} weight_job;

/* Those of a row of the call's and WINOGRAD_LANES channels from c on. */
static void turn_run(const weight_job *j, int64_t row, int64_t c, float *to, int64_t step) {
  enum { RUN = WINOGRAD_LANES * WINOGRAD_TAPS };
  _Alignas(64) float taps[RUN], rest[RUN] = {0};
  const int64_t channels = j->w->g->channels, n = smaller(channels - c, WINOGRAD_LANES);
  const float *from = j->from + (row * channels + c) * WINOGRAD_TAPS;
  if (n < WINOGRAD_LANES) from = memcpy(rest, from, (size_t)(n * WINOGRAD_TAPS) * sizeof *from);
  conv_loops->split(taps, sizeof taps / WINOGRAD_TAPS, from, WINOGRAD_TAPS, sizeof *from);
  winograd_loops->weights(to, step, taps, j->w->backward);
}

static void turn_weights(const void *job, int64_t begin, int64_t end) {
  const weight_job *j = job;
  const winograd *w = j->w;
  for (int64_t row = begin; row < end; ++row)
    for (int64_t c = 0; c < w->channels; c += WINOGRAD_LANES)
      turn_run(j, row, c, j->to + row / w->rows * group_weights(w) + row % w->rows * weight_pitch(w) + c,
               weight_step(w));
}

/* Backward, rows are made of the call's channels: by squares of both. */
static void turn_weights_across(const void *job, int64_t begin, int64_t end) {
  enum { LANES = WINOGRAD_LANES, SQUARE = LANES * LANES };
  _Alignas(64) float square[WINOGRAD_PRODUCTS * SQUARE] = {0};
  const weight_job *j = job;
  const winograd *w = j->w;
  const int64_t squares = winograd_parts(w->channels, LANES);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t group = i / squares, channel = i % squares * LANES, n = smaller(w->channels - channel, LANES);
    for (int64_t row = 0; row < w->rows; row += LANES) {
      float *const to = j->to + group * group_weights(w) + row * weight_pitch(w) + channel;
      for (int64_t k = 0; k < n; ++k) turn_run(j, group * w->channels + channel + k, row, square + k * LANES, SQUARE);
      for (int64_t p = 0; p < WINOGRAD_PRODUCTS; ++p)
        direct_loops->transpose(to + p * weight_step(w), weight_pitch(w), square + p * SQUARE, LANES,
                                smaller(w->rows - row, LANES));
    }
  }
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

typedef struct {
  const winograd *w;
  const char *from;
  char *to;
  const float *weights, *bias;
  int64_t blocks; /* of segments, of each group */
  store_loop *store;
  status *result;
  bool *finite;
} tile_job;

/* Segments [first, first + n), and where things are. */
typedef struct {
  int64_t group, first, n;
  winograd_tiles inputs, products; /* of channels, of rows */
  float *scratch;                  /* of transforms, */
  float *line;                     /* and two lines of outputs */
} block;

static void multiply(const tile_job *j, const block *b) {
  static const int64_t no_tap = 0;
  const winograd *w = j->w;
  const int64_t lanes = direct_loops->lanes, width = direct_loops->vectors * lanes, tiles = b->n * w->grid.width;
  direct_sums s = {.w_row = weight_pitch(w),
                   .w_channel = 1,
                   .x_channel = b->inputs.channel,
                   .w_tap = &no_tap,
                   .x_tap = &no_tap,
                   .channels = w->channels,
                   .taps = 1};
  for (int64_t p = 0; p < WINOGRAD_PRODUCTS; ++p)
    for (int64_t row = 0; row < w->rows; row += direct_loops->rows)
      for (int64_t t = 0; t < tiles; t += width) {
        s.w = j->weights + b->group * group_weights(w) + p * weight_step(w) + row * s.w_row;
        s.x = b->inputs.at + p * b->inputs.product + t;
        direct_loops->tile(
            &s, (int)smaller(direct_loops->rows, w->rows - row), (int)winograd_parts(smaller(width, tiles - t), lanes),
            b->products.at + p * b->products.product + row * b->products.channel + t, b->products.channel);
      }
}

static bool turn_outputs(const tile_job *j, const block *b) {
  const winograd *w = j->w;
  const int64_t width = w->grid.width, *const axis = w->to->axis;
  float *const bottom = b->line + 2 * winograd_whole(width);
  bool finite = true;
  winograd_stack s;
  for (int64_t i = 0; i < b->n; i += s.n) {
    s = winograd_stack_at(&w->grid, b->first + i, b->first + b->n);
    const int64_t x = 2 * s.segment * width, n = smaller(2 * width, w->out[1] - x);
    char *const image = j->to + s.image * w->to->outer + x * axis[2];
    for (int64_t r = 0; r < w->rows; ++r)
      for (int64_t l = 0; l < s.n; ++l) {
        const int64_t row = b->group * w->rows + r, y = 2 * (s.line + l);
        const float *const m = b->products.at + r * b->products.channel + (i + l) * width;
        char *const to = image + row * w->to->inner + y * axis[1];
        finite &=
            winograd_loops->outputs(b->line, bottom, m, b->products.product, (n + 1) / 2, j->bias ? j->bias[row] : 0);
        j->store(to, axis[2], b->line, n);
        if (y + 1 < w->out[0]) j->store(to + axis[1], axis[2], bottom, n);
      }
  }
  return finite;
}

static status make_block(const tile_job *j, block *b) {
  const winograd *w = j->w;
  /* The last vector of a segment reaches into the next one, or behind all. */
  const int64_t pitch = winograd_whole(b->n * w->grid.width + WINOGRAD_LANES - 1);
  b->inputs = (winograd_tiles){.channel = pitch, .product = winograd_step(w->channels * pitch)};
  b->products = (winograd_tiles){.channel = pitch, .product = winograd_step(w->rows * pitch)};
  const int64_t inputs = WINOGRAD_PRODUCTS * b->inputs.product, products = WINOGRAD_PRODUCTS * b->products.product;
  const int64_t lines = 4 * winograd_whole(w->grid.width);
  const int64_t all = inputs + products + lines + winograd_scratch(&w->grid, &w->from, b->n);
  b->inputs.at = (float *)(void *)scratch_take((size_t)all * sizeof(float));
  if (!b->inputs.at) return ST_NO_MEMORY;
  b->products.at = b->inputs.at + inputs;
  b->line = b->products.at + products;
  b->scratch = b->line + lines;
  const char *const x = j->from + b->group * w->channels * w->from.operand->inner;
  winograd_turn(&w->grid, &w->from, x, b->first, b->n, 0, w->channels, &b->inputs, b->scratch);
  multiply(j, b);
  if (!turn_outputs(j, b)) __atomic_store_n(j->finite, false, __ATOMIC_RELAXED);
  return ST_OK;
}

static void make_blocks(const void *job, int64_t begin, int64_t end) {
  const tile_job *j = job;
  const winograd *w = j->w;
  const int64_t all = winograd_segments(&w->grid);
  for (int64_t i = begin; i < end && __atomic_load_n(j->finite, __ATOMIC_RELAXED); ++i) {
    block b = {.group = i / j->blocks, .first = i % j->blocks * w->at_once};
    b.n = smaller(w->at_once, all - b.first);
    const status result = make_block(j, &b);
    if (unlikely(result != ST_OK)) __atomic_store_n(j->result, result, __ATOMIC_RELAXED);
  }
}

status winograd_run(const winograd *w, const void *from, void *to, const float *weights, const float *bias,
                    char *scratch, bool *done) {
  const conv_geometry *g = w->g;
  float *const turned = (float *)(void *)(scratch + w->weight_at);
  const weight_job weight = {w, weights, turned};
  const uint64_t weights_ns = (uint64_t)(g->groups * g->rows * g->channels) * 4;
  if (w->backward)
    rows_parallel(turn_weights_across, &weight, g->groups * winograd_parts(w->channels, WINOGRAD_LANES), 1, weights_ns);
  else
    rows_parallel(turn_weights, &weight, g->groups * w->rows, 1, weights_ns);
  status result = ST_OK;
  *done = true;
  const tile_job job = {.w = w,
                        .from = from,
                        .to = to,
                        .weights = turned,
                        .bias = bias,
                        .blocks = winograd_parts(winograd_segments(&w->grid), w->at_once),
                        .store = loops->store[w->to->dtype][COMPUTE_F32],
                        .result = &result,
                        .finite = done};
  rows_parallel(make_blocks, &job, g->groups * job.blocks, 1, w->cost_ns);
  return result;
}
