/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/conv/gradient_pairs.h"

#include <string.h>

#include "kernel/conv/correlate.h"
#include "kernel/conv/pair_weights.h"
#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"

enum {
  LEAST = 16,            /* least channels and least rows */
  BLOCK = PAIR_ROWS,     /* channels, and rows, of a block of sums */
  IMAGE_BYTES = 1 << 20, /* of the padded copies of one pass */
  BLOCK_SUMS = BLOCK * PAIR_ROWS,
};

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static int gradient_terms(const weight_gradient *c) { return c->x.dtype == ACL_FLOAT ? PAIR_PARTS : 1; }
static int64_t gradient_blocks(int64_t n) { return (n + BLOCK - 1) / BLOCK; }
static int64_t row_tiles(const weight_gradient *c) { return (c->g.rows + PAIR_TILE_ROWS - 1) / PAIR_TILE_ROWS; }

/* Positions of a band, from the first output to the last. */
static int64_t positions_of(const weight_gradient *c) {
  const int64_t *const out = c->pairs.band, *const size = c->pairs.x_image.size;
  return ((out[0] - 1) * size[1] + out[1] - 1) * size[2] + out[2];
}
static int64_t gradient_steps(const weight_gradient *c) {
  return (positions_of(c) + PAIR_CHANNELS - 1) / PAIR_CHANNELS;
}

/* Elements from channel to channel of x: never a multiple of 512 (1 KB), so that channels do not all fall into the
 * same few sets of the L1 cache. */
static int64_t x_pitch(const weight_gradient *c) {
  const int64_t n = c->pairs.x_image.channel;
  return n % 512 ? n : n + 32;
}

/* Bytes of one batch item. */
static int64_t x_bytes(const weight_gradient *c) { return c->g.groups * c->g.channels * x_pitch(c) * 2; }
static int64_t y_tile(const weight_gradient *c) { return gradient_steps(c) * PAIR_TILE_BYTES; }
static int64_t y_bytes(const weight_gradient *c) { return c->g.groups * row_tiles(c) * y_tile(c); }

/* The last channel's tile may read lines of further channels, and a line may end within a step. */
static int64_t x_slack(const weight_gradient *c) { return (PAIR_TILE_ROWS - 1) * x_pitch(c) * 2 + PAIR_BYTES; }

/* Whether the operands' types and sizes suit the kernel. */
static bool operands_suit(const weight_gradient *c) {
  const conv_geometry *g = &c->g;
  const bool floats = c->x.dtype == ACL_FLOAT && c->y.dtype == ACL_FLOAT;
  if (!floats && (c->x.dtype != ACL_BF16 || c->y.dtype != ACL_BF16)) return false;
  return g->channels >= LEAST && g->rows >= LEAST && conv_volume(g->kernel) <= PAIR_FLOAT_TAPS;
}

static int64_t gradient_image_bytes(const weight_gradient *c) { return gradient_terms(c) * (x_bytes(c) + y_bytes(c)); }
static bool in_one_pass(const weight_gradient *c) {
  return c->pairs.n_images == c->g.batch && !memcmp(c->pairs.band, c->g.out, sizeof c->pairs.band);
}

/* Sets the layouts of both padded copies for a band. */
static void gradient_make_images(weight_gradient *c) {
  static const int64_t zero[CONV_AXES], one[CONV_AXES] = {1, 1, 1};
  int64_t low[CONV_AXES];
  for (int a = 0; a < CONV_AXES; ++a) low[a] = -c->g.pad[a];
  image_init(&c->pairs.x_image, low, c->pairs.band, c->g.kernel, c->g.stride, c->g.dilation);
  const int64_t size[CONV_AXES] = {c->pairs.band[0], c->pairs.band[0] > 1 ? c->pairs.x_image.size[1] : c->pairs.band[1],
                                   c->pairs.x_image.size[2]};
  image_init(&c->pairs.y_image, zero, size, one, one, one);
}

static int band_axis(const weight_gradient *c) { return c->g.out[0] > 1 ? 0 : c->g.out[1] > 1 ? 1 : 2; }

/* Padded copies that do not fit L2 are made and used band by band of outputs. */
static void gradient_cut_bands(weight_gradient *c) {
  int64_t *const out = &c->pairs.band[band_axis(c)];
  const int64_t n = gradient_image_bytes(c) / IMAGE_BYTES + 1;
  *out = (*out + n - 1) / n;
  if (n > 1) gradient_make_images(c);
}

bool gradient_pairs_fits(weight_gradient *c) {
  const conv_geometry *g = &c->g;
  const pair_kernel *const kernel = c->contiguous && operands_suit(c) ? direct_pairs() : NULL;
  if (!kernel || !kernel->products) return false;
  c->pairs = (gradient_pairs){.kernel = kernel};
  memcpy(c->pairs.band, g->out, sizeof c->pairs.band);
  gradient_make_images(c);
  return positions_of(c) <= 2 * conv_volume(g->out); /* otherwise most of the GEMM would multiply zeros */
}

void gradient_pairs_init(weight_gradient *c, executor *e) {
  const conv_geometry *g = &c->g;
  gradient_cut_bands(c);
  c->pairs.n_images = i64_min(g->batch, IMAGE_BYTES / gradient_image_bytes(c) + 1);
  const int64_t volume = conv_volume(g->kernel);
  c->pairs.x_at = workspace_copy(e, (uint64_t)(c->pairs.n_images * gradient_terms(c) * x_bytes(c) + x_slack(c)));
  c->pairs.y_at = workspace_copy(e, (uint64_t)(c->pairs.n_images * gradient_terms(c) * y_bytes(c)));
  c->pairs.taps_at = workspace_intermediate(e, (uint64_t)volume * sizeof(int64_t));
  if (!in_one_pass(c))
    c->pairs.sums_at = workspace_intermediate(
        e, (uint64_t)(g->groups * gradient_blocks(g->rows) * gradient_blocks(g->channels) * volume) * BLOCK_SUMS *
               sizeof(float));
  c->cost_ns = conv_cost_ns(conv_multiply_adds(g), c->pairs.kernel->flops_per_ns / (gradient_terms(c) == 1 ? 1 : 6));
}

/* ---- padded copies ----------------------------------------------------------------------------------------------- */

/* One pass: a band of some batch items, and the blocks of sums that it adds to. */
typedef struct {
  const weight_gradient *c;
  conv_image x_image, y_image; /* of the band */
  const char *from_x, *from_y;
  char *x, *y, *w;
  float *sums; /* of all blocks; NULL if there is a single pass */
  const int64_t *taps;
  int64_t n_images;
  bool first, last;
  float_exponents *of_x, *of_y;
  status *result;
} gradient_job;

/* Fills the lines of x's channels of all batch items of the pass. */
static void fill_x(const void *job, int64_t begin, int64_t end) {
  const gradient_job *j = job;
  const weight_gradient *c = j->c;
  const int64_t channels = c->g.groups * c->g.channels, pitch = x_pitch(c),
                used = c->pairs.x_image.rows * c->pairs.x_image.size[2];
  const int64_t part = j->n_images * x_bytes(c);
  float_exponents range = float_no_exponents;
  for (int64_t i = begin; i < end; ++i) {
    uint16_t *const to = (uint16_t *)(void *)(j->x + i * pitch * 2);
    image_fill_lines(&j->x_image, to, part, j->from_x + i / channels * c->x.outer + i % channels * c->x.inner, &c->x,
                     c->g.in, &range);
    for (int p = 0; p < gradient_terms(c); ++p) memset((char *)(to + used) + p * part, 0, (size_t)(pitch - used) * 2);
    if (c->x.dtype == ACL_BF16) pair_range_bf16(&range, to, used);
  }
  float_join_exponents(j->of_x, range);
}

/* Fills tiles of 16 rows of y of all batch items of the pass. */
static void fill_y(const void *job, int64_t begin, int64_t end) {
  const gradient_job *j = job;
  const weight_gradient *c = j->c;
  const int64_t used = c->pairs.y_image.rows * c->pairs.y_image.size[2], all = gradient_steps(c) * PAIR_CHANNELS;
  const int64_t pitch = used > all ? used : all, stage_part = PAIR_TILE_ROWS * pitch * 2;
  uint16_t *const stage = (uint16_t *)(void *)scratch_take((size_t)(gradient_terms(c) * stage_part));
  if (!stage) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  float_exponents range = float_no_exponents;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t tile = i % row_tiles(c), group = i / row_tiles(c) % c->g.groups,
                  image = i / row_tiles(c) / c->g.groups;
    const int64_t row = tile * PAIR_TILE_ROWS;
    const char *from = j->from_y + image * c->y.outer + (group * c->g.rows + row) * c->y.inner;
    for (int64_t r = 0; r < i64_min(PAIR_TILE_ROWS, c->g.rows - row); ++r, from += c->y.inner) {
      image_fill_lines(&j->y_image, stage + r * pitch, stage_part, from, &c->y, c->g.out, &range);
      for (int p = 0; p < gradient_terms(c); ++p)
        memset((char *)(stage + r * pitch + used) + p * stage_part, 0, (size_t)(pitch - used) * 2);
    }
    for (int p = 0; p < gradient_terms(c); ++p)
      pair_transpose(j->y + p * j->n_images * y_bytes(c) + i * y_tile(c), stage + p * stage_part / 2, pitch * 2,
                     gradient_steps(c));
  }
  float_join_exponents(j->of_y, range);
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* A block of channels by rows of a group. */
typedef struct {
  int64_t group, channel, row;
  int channels, rows;
} gradient_block;

/* Adds a batch item's contribution for one tap to sums[channel * PAIR_ROWS + row]. The caller goes over all taps of
 * a batch item in turn, which is 10 % faster than the other way round if the batch item fits L1; splitting larger
 * ones gains nothing. */
static void gradient_multiply(const gradient_job *j, const gradient_block *b, int64_t image, int64_t tap, float *sums) {
  const weight_gradient *c = j->c;
  const int64_t x_channel = x_pitch(c) * 2;
  const pair_products p = {
      .x = j->x + image * x_bytes(c) + (b->group * c->g.channels + b->channel) * x_channel + tap * 2,
      .y = j->y + image * y_bytes(c) + (b->group * row_tiles(c) + b->row / PAIR_TILE_ROWS) * y_tile(c),
      .x_channel = x_channel,
      .y_tile = y_tile(c),
      .x_part = j->n_images * x_bytes(c),
      .y_part = j->n_images * y_bytes(c),
      .parts = gradient_terms(c)};
  c->pairs.kernel->products(&p, b->channels, b->rows, gradient_steps(c), sums, !j->first || image > 0);
}

/* Stores a block. Each of its rows is a contiguous run of channels and taps in w. */
static void gradient_store(const gradient_job *j, const gradient_block *b, const float *sums) {
  const weight_gradient *c = j->c;
  int32_t index[BLOCK * PAIR_FLOAT_TAPS + PAIR_STORE_AHEAD] = {0};
  const int64_t volume = conv_volume(c->g.kernel), size = (int64_t)dtype_bytes(c->w.dtype);
  for (int channel = 0; channel < b->channels; ++channel)
    for (int64_t t = 0; t < volume; ++t) index[channel * volume + t] = (int32_t)(t * BLOCK + channel);
  const pair_outputs o = {.to = j->w + (b->group * c->g.rows + b->row) * c->w.outer + b->channel * volume * size,
                          .row = c->w.outer,
                          .position = size,
                          .dtype = c->w.dtype,
                          .rows = b->rows};
  pair_store(&o, sums, index, b->channels * volume);
}

static void gradient_make_blocks(const void *job, int64_t begin, int64_t end) {
  const gradient_job *j = job;
  const weight_gradient *c = j->c;
  const conv_geometry *g = &c->g;
  const int64_t row_blocks = gradient_blocks(g->rows), channel_blocks = gradient_blocks(g->channels),
                volume = conv_volume(g->kernel);
  float *const own = j->sums ? NULL : (float *)(void *)scratch_take((size_t)(volume * BLOCK_SUMS) * sizeof(float));
  if (!j->sums && !own) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  if (c->pairs.kernel->begin) c->pairs.kernel->begin();
  for (int64_t i = begin; i < end; ++i) {
    const int64_t channel = i % channel_blocks * BLOCK, row = i / channel_blocks % row_blocks * BLOCK;
    const gradient_block b = {.group = i / channel_blocks / row_blocks,
                              .channel = channel,
                              .row = row,
                              .channels = (int)i64_min(BLOCK, g->channels - channel),
                              .rows = (int)i64_min(BLOCK, g->rows - row)};
    float *const sums = own ? own : j->sums + i * volume * BLOCK_SUMS;
    for (int64_t image = 0; image < j->n_images; ++image)
      for (int64_t t = 0; t < volume; ++t) gradient_multiply(j, &b, image, j->taps[t], sums + t * BLOCK_SUMS);
    if (j->last) gradient_store(j, &b, sums);
  }
  if (c->pairs.kernel->end) c->pairs.kernel->end();
}

static bool can_multiply(const weight_gradient *c, float_exponents x, float_exponents y) {
  /* Values of x are also multiplied by the zeros between lines, so they must be finite. */
  return gradient_terms(c) == 1 ? float_all_finite(x) : float_parts_suffice(x, y);
}

/* Returns false if scratch memory is exhausted (*j->result is set) or the values do not allow this algorithm. */
static bool run_band(const gradient_job *j) {
  const weight_gradient *c = j->c;
  const conv_geometry *g = &c->g;
  const int64_t parts = j->n_images * gradient_terms(c), bands = conv_volume(g->out) / conv_volume(c->pairs.band);
  memset(j->x + parts * x_bytes(c), 0, PAIR_BYTES);
  rows_parallel(fill_x, j, j->n_images * g->groups * g->channels, 1, (uint64_t)(parts * x_bytes(c)) / 16);
  rows_parallel(fill_y, j, j->n_images * g->groups * row_tiles(c), 1, (uint64_t)(parts * y_bytes(c)) / 16);
  if (*j->result != ST_OK || !can_multiply(c, *j->of_x, *j->of_y)) return false;
  rows_parallel(gradient_make_blocks, j, g->groups * gradient_blocks(g->rows) * gradient_blocks(g->channels), 1,
                c->cost_ns / (uint64_t)(g->batch * bands) * (uint64_t)j->n_images);
  return *j->result == ST_OK;
}

status gradient_pairs_run(const weight_gradient *c, const void *x, const void *y, void *w, char *scratch, bool *done) {
  const conv_geometry *g = &c->g;
  const int64_t volume = conv_volume(g->kernel);
  int64_t *const taps = (int64_t *)(void *)(scratch + c->pairs.taps_at);
  float_exponents of_x = float_no_exponents, of_y = float_no_exponents;
  status result = ST_OK;
  for (int64_t t = 0; t < volume; ++t)
    taps[t] = image_tap(&c->pairs.x_image, (const int64_t[]){t / (g->kernel[1] * g->kernel[2]),
                                                             t / g->kernel[2] % g->kernel[1], t % g->kernel[2]});
  gradient_job j = {.c = c,
                    .x = scratch + c->pairs.x_at,
                    .y = scratch + c->pairs.y_at,
                    .w = w,
                    .sums = !in_one_pass(c) ? (float *)(void *)(scratch + c->pairs.sums_at) : NULL,
                    .taps = taps,
                    .of_x = &of_x,
                    .of_y = &of_y,
                    .result = &result};
  *done = false;
  const int axis = band_axis(c);
  for (int64_t i = 0; i < g->batch; i += j.n_images)
    for (int64_t b = 0; b < g->out[axis]; b += c->pairs.band[axis]) {
      j.n_images = i64_min(c->pairs.n_images, g->batch - i);
      j.first = i == 0 && b == 0;
      j.last = i + j.n_images == g->batch && b + c->pairs.band[axis] >= g->out[axis];
      j.x_image = c->pairs.x_image, j.y_image = c->pairs.y_image;
      j.x_image.low[axis] += b * g->stride[axis], j.y_image.low[axis] += b;
      j.from_x = (const char *)x + i * c->x.outer, j.from_y = (const char *)y + i * c->y.outer;
      if (!run_band(&j)) return result;
    }
  *done = true;
  return ST_OK;
}
