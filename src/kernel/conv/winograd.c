#include "kernel/conv/winograd.h"

#include <string.h>

#include "kernel/conv/direct.h"
#include "kernel/conv/image.h"
#include "kernel/conv/loops.h"
#include "kernel/engine/level.h"
#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "op/parallel.h"

LEVEL_CHOICE(winograd_loops_table, winograd_loops, winograd_loops_table)

enum {
  TAPS = 9,
  LEAST_CHANNELS = 16,  /* of either side, for transforms to be worth it; */
  LEAST_TILES = 32,     /* and of the weights */
  MOST_TILES = 192,     /* at once, */
  TILES_BYTES = 2 << 20 /* and such that their inputs and products stay near */
};

static const int64_t tile_inputs[CONV_AXES] = {1, 4, 4}, tile_step[CONV_AXES] = {1, 2, 2}, one[CONV_AXES] = {1, 1, 1};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t parts_of(int64_t total, int64_t part) { return (total + part - 1) / part; }
static int64_t whole(int64_t n) { return parts_of(n, WINOGRAD_LANES) * WINOGRAD_LANES; }
/* Floats from product to product such that what is at the same place of all 16 is in different sets of L1. */
static int64_t step_of(int64_t n) { return parts_of(n, 1024) * 1024 + 64; }

/* Those of a group are [16][rows][channels, up to whole vectors]. */
static int64_t weight_pitch(const winograd *w) { return whole(w->channels); }
static int64_t weight_step(const winograd *w) { return step_of(w->rows * weight_pitch(w)); }
static int64_t group_weights(const winograd *w) { return WINOGRAD_PRODUCTS * weight_step(w); }

/* ---- what it does ------------------------------------------------------------------------------------------------ */

static bool is_window(const conv_geometry *g) {
  bool is = g->kernel[0] == 1 && g->in[0] == 1 && g->out[0] == 1;
  for (int a = 1; a < CONV_AXES; ++a) is &= g->kernel[a] == 3 && g->stride[a] == 1 && g->dilation[a] == 1;
  return is;
}

/* All weights in one piece, in order. */
static bool is_plain(const conv_geometry *g, const conv_operand *w) {
  const int64_t size = sizeof(float);
  return w->dtype == ACL_FLOAT && w->axis[2] == size && w->axis[1] == 3 * size && w->inner == TAPS * size &&
         w->outer == g->channels * w->inner;
}

static int64_t pitch_of(const winograd *w, int64_t segments) { return whole(segments * w->width + WINOGRAD_LANES - 1); }

/* As many tiles at once as fill vectors best. */
static void cut_lines(winograd *w) {
  const int64_t tiles = parts_of(w->out[1], 2), per_tile = WINOGRAD_PRODUCTS * (w->channels + w->rows) * 4;
  const int64_t most = larger(48, least(MOST_TILES, TILES_BYTES / per_tile));
  w->lines = parts_of(w->out[0], 2);
  w->segments = parts_of(tiles, most);
  w->width = parts_of(tiles, w->segments);
  const int64_t all = w->g->batch * w->segments * w->lines;
  const int64_t share = parts_of(all * w->g->groups, parallel_most(w->cost_ns));
  double best = 0;
  for (int64_t n = 1; n <= least(share, most / w->width); ++n) {
    const double filled = (double)(n * w->width) / (double)whole(n * w->width);
    if (filled < best) continue;
    best = filled;
    w->at_once = n;
  }
}

void winograd_init(winograd *w, executor *e, const conv_geometry *g, const conv_operand *from, const conv_operand *to,
                   const conv_operand *weight, bool backward) {
  *w = (winograd){.g = g,
                  .from = from,
                  .to = to,
                  .backward = backward,
                  .rows = backward ? g->channels : g->rows,
                  .channels = backward ? g->rows : g->channels};
  const int64_t *const in = backward ? g->out : g->in, *const out = backward ? g->in : g->out;
  for (int a = 0; a < CONV_AXES; ++a) w->in[a] = in[a];
  for (int a = 0; a < 2; ++a) {
    w->out[a] = out[a + 1];
    w->low[a] = backward ? g->pad[a + 1] - 2 : -g->pad[a + 1];
  }
  const int64_t tiles = g->batch * parts_of(w->out[0], 2) * parts_of(w->out[1], 2);
  w->fits = is_window(g) && is_plain(g, weight) && from->dtype == ACL_FLOAT && w->rows >= LEAST_CHANNELS &&
            w->channels >= LEAST_CHANNELS && tiles >= LEAST_TILES;
  if (!w->fits) return;
  const double ns = 2.0 * WINOGRAD_PRODUCTS * (double)tiles * (double)(g->groups * w->rows * w->channels) / 80;
  w->cost_ns = ns < 0x1p31 ? (uint64_t)ns : UINT64_C(1) << 31;
  cut_lines(w);
  w->weight_at = workspace_intermediate(e, (uint64_t)(g->groups * group_weights(w)) * sizeof(float));
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

typedef struct {
  const winograd *w;
  const float *from;
  float *to;
} weight_job;

/* Those of a row of the call's and WINOGRAD_LANES channels from c on. */
static void turn_run(const weight_job *j, int64_t row, int64_t c, float *to, int64_t step) {
  enum { RUN = WINOGRAD_LANES * TAPS };
  _Alignas(64) float taps[RUN], rest[RUN] = {0};
  const int64_t channels = j->w->g->channels, n = least(channels - c, WINOGRAD_LANES);
  const float *from = j->from + (row * channels + c) * TAPS;
  if (n < WINOGRAD_LANES) from = memcpy(rest, from, (size_t)(n * TAPS) * sizeof *from);
  conv_loops->split(taps, sizeof taps / TAPS, from, TAPS, sizeof *from);
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
  const int64_t squares = parts_of(w->channels, LANES);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t group = i / squares, channel = i % squares * LANES, n = least(w->channels - channel, LANES);
    for (int64_t row = 0; row < w->rows; row += LANES) {
      float *const to = j->to + group * group_weights(w) + row * weight_pitch(w) + channel;
      for (int64_t k = 0; k < n; ++k) turn_run(j, group * w->channels + channel + k, row, square + k * LANES, SQUARE);
      for (int64_t p = 0; p < WINOGRAD_PRODUCTS; ++p)
        direct_loops->transpose(to + p * weight_step(w), weight_pitch(w), square + p * SQUARE, LANES,
                                least(w->rows - row, LANES));
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

/* The segments of a block, in order of lines, segments of a line, images; and where things are. */
typedef struct {
  int64_t group, first, n;
  int64_t pitch; /* of tiles: from channel to channel, or row to row */
  int64_t input_step, product_step;
  float *inputs;       /* [16][channels][pitch], input_step apart */
  float *products;     /* [16][rows][pitch], product_step apart */
  float *image, *line; /* a channel's, and two lines of outputs */
} block;

/* Segments of a block that are below each other. */
typedef struct {
  int64_t image, segment, line, n;
} stack;

static stack stack_at(const winograd *w, const block *b, int64_t i) {
  const int64_t at = b->first + i, line = at % w->lines;
  return (stack){.image = at / w->lines / w->segments,
                 .segment = at / w->lines % w->segments,
                 .line = line,
                 .n = least(w->lines - line, b->n - i)};
}

static conv_image image_of(const winograd *w, const stack *s) {
  const int64_t low[CONV_AXES] = {0, w->low[0] + 2 * s->line, w->low[1] + 2 * s->segment * w->width};
  const int64_t tiles[CONV_AXES] = {1, s->n, w->width};
  conv_image image;
  image_init(&image, low, tiles, tile_inputs, tile_step, one);
  return image;
}

static void turn_inputs(const tile_job *j, const block *b) {
  const winograd *w = j->w;
  stack s;
  for (int64_t i = 0; i < b->n; i += s.n) {
    s = stack_at(w, b, i);
    const conv_image image = image_of(w, &s);
    int64_t tap[WINOGRAD_PRODUCTS];
    for (int64_t t = 0; t < WINOGRAD_PRODUCTS; ++t) tap[t] = image_tap(&image, (const int64_t[]){0, t / 4, t % 4});
    const char *const x = j->from + s.image * w->from->outer + b->group * w->channels * w->from->inner;
    for (int64_t c = 0; c < w->channels; ++c) {
      float *const to = b->inputs + c * b->pitch + i * w->width;
      image_fill(&image, b->image, x, w->from, w->in, c, c + 1);
      for (int64_t l = 0; l < s.n; ++l)
        winograd_loops->inputs(to + l * w->width, b->input_step, b->image + l * image.step[1], tap, w->width);
    }
  }
}

static void multiply(const tile_job *j, const block *b) {
  static const int64_t no_tap = 0;
  const winograd *w = j->w;
  const int64_t lanes = direct_loops->lanes, width = direct_loops->vectors * lanes, tiles = b->n * w->width;
  direct_sums s = {.w_row = weight_pitch(w),
                   .w_channel = 1,
                   .x_channel = b->pitch,
                   .w_tap = &no_tap,
                   .x_tap = &no_tap,
                   .channels = w->channels,
                   .taps = 1};
  for (int64_t p = 0; p < WINOGRAD_PRODUCTS; ++p)
    for (int64_t row = 0; row < w->rows; row += direct_loops->rows)
      for (int64_t t = 0; t < tiles; t += width) {
        s.w = j->weights + b->group * group_weights(w) + p * weight_step(w) + row * s.w_row;
        s.x = b->inputs + p * b->input_step + t;
        direct_loops->tile(&s, (int)least(direct_loops->rows, w->rows - row),
                           (int)parts_of(least(width, tiles - t), lanes),
                           b->products + p * b->product_step + row * b->pitch + t, b->pitch);
      }
}

static bool turn_outputs(const tile_job *j, const block *b) {
  const winograd *w = j->w;
  bool finite = true;
  stack s;
  for (int64_t i = 0; i < b->n; i += s.n) {
    s = stack_at(w, b, i);
    const int64_t x = 2 * s.segment * w->width, n = least(2 * w->width, w->out[1] - x);
    char *const image = j->to + s.image * w->to->outer + x * w->to->axis[2];
    for (int64_t r = 0; r < w->rows; ++r)
      for (int64_t l = 0; l < s.n; ++l) {
        const int64_t row = b->group * w->rows + r, y = 2 * (s.line + l);
        char *const to = image + row * w->to->inner + y * w->to->axis[1];
        float *const bottom = b->line + 2 * whole(w->width);
        finite &= winograd_loops->outputs(b->line, bottom, b->products + r * b->pitch + (i + l) * w->width,
                                          b->product_step, (n + 1) / 2, j->bias ? j->bias[row] : 0);
        j->store(to, w->to->axis[2], b->line, n);
        if (y + 1 < w->out[0]) j->store(to + w->to->axis[1], w->to->axis[2], bottom, n);
      }
  }
  return finite;
}

static status make_block(const tile_job *j, block *b) {
  const winograd *w = j->w;
  const stack largest = {.n = b->n};
  b->pitch = pitch_of(w, b->n);
  b->input_step = step_of(w->channels * b->pitch);
  b->product_step = step_of(w->rows * b->pitch);
  const int64_t inputs = WINOGRAD_PRODUCTS * b->input_step, products = WINOGRAD_PRODUCTS * b->product_step;
  const int64_t image = whole(image_of(w, &largest).channel) + IMAGE_SLACK;
  char *const at = scratch_take((size_t)(inputs + products + image + 4 * whole(w->width)) * sizeof(float));
  if (!at) return ST_NO_MEMORY;
  b->inputs = (float *)(void *)at;
  b->products = b->inputs + inputs;
  b->image = b->products + products;
  b->line = b->image + image;
  turn_inputs(j, b);
  multiply(j, b);
  if (!turn_outputs(j, b)) __atomic_store_n(j->finite, false, __ATOMIC_RELAXED);
  return ST_OK;
}

static void make_blocks(const void *job, int64_t begin, int64_t end) {
  const tile_job *j = job;
  const winograd *w = j->w;
  const int64_t all = w->g->batch * w->segments * w->lines;
  for (int64_t i = begin; i < end && __atomic_load_n(j->finite, __ATOMIC_RELAXED); ++i) {
    block b = {.group = i / j->blocks, .first = i % j->blocks * w->at_once};
    b.n = least(w->at_once, all - b.first);
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
    rows_parallel(turn_weights_across, &weight, g->groups * parts_of(w->channels, WINOGRAD_LANES), 1, weights_ns);
  else
    rows_parallel(turn_weights, &weight, g->groups * w->rows, 1, weights_ns);
  status result = ST_OK;
  *done = true;
  const tile_job job = {.w = w,
                        .from = from,
                        .to = to,
                        .weights = turned,
                        .bias = bias,
                        .blocks = parts_of(g->batch * w->segments * w->lines, w->at_once),
                        .store = loops->store[w->to->dtype][COMPUTE_F32],
                        .result = &result,
                        .finite = done};
  rows_parallel(make_blocks, &job, g->groups * job.blocks, 1, w->cost_ns);
  return result;
}
