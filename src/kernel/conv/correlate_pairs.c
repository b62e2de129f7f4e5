/* SPDX-License-Identifier: Apache-2.0 */
/* Direct phases on VNNI pairs (direct_pairs.h): packing, the loop over blocks, and storing the outputs. */
#include <string.h>

#include "kernel/conv/correlate_phase.h"
#include "kernel/engine/rows.h"
#include "runtime/parallel.h"

enum {
  LEAST_CHANNELS = 16,         /* channels to sum over, from which on VNNI pairs are faster */
  LEAST_FLOAT_POSITIONS = 128, /* positions of a phase that repay splitting float weights */
  LEAST_FLOAT_ROWS = 64,       /* rows times taps that repay splitting float inputs */
  STRIP = 512,                 /* outputs that all rows are computed for in turn */
};

/* ---- when the kernels suit --------------------------------------------------------------------------------------- */

const pair_kernel *pairs_kernel(const correlation *c) {
  const conv_geometry *g = &c->g;
  const int dtype = c->w.dtype;
  const int64_t rows = c->backward ? g->channels : g->rows, channels = c->backward ? g->rows : g->channels;
  if (c->from.dtype != dtype || (dtype != ACL_BF16 && dtype != ACL_FLOAT) || channels < LEAST_CHANNELS) return NULL;
  const pair_kernel *const kernel = direct_pairs();
  const int64_t taps = conv_volume(g->kernel);
  if (!kernel) return NULL;
  if (dtype == ACL_BF16) return taps >= kernel->least_taps && rows >= kernel->least_rows ? kernel : NULL;
  const int64_t positions =
      g->batch * (c->backward ? conv_volume(g->in) / conv_volume(g->stride) : conv_volume(g->out));
  /* With one tap, the packed GEMM is as fast, and its columns need not be transposed. */
  const bool worth_it =
      taps > 1 && rows >= PAIR_TILE_ROWS && positions >= LEAST_FLOAT_POSITIONS && rows * taps >= LEAST_FLOAT_ROWS;
  return kernel->parts == PAIR_PARTS && taps <= PAIR_FLOAT_TAPS && worth_it ? kernel : NULL;
}

static int pairs_terms(const correlation *c) { return c->w.dtype == ACL_FLOAT ? PAIR_PARTS : 1; }
static int64_t channels_of(const correlation *c) { return c->backward ? c->g.rows : c->g.channels; }

static int64_t step_bytes(const correlation *c) { return c->direct.image.channel * PAIR_BYTES; }
static int64_t group_bytes(const correlation *c) { return pair_steps(channels_of(c)) * step_bytes(c); }

uint64_t pairs_image_bytes(const correlation *c, int64_t n) {
  /* The last position's tile reads behind it. */
  return (uint64_t)(n * pairs_terms(c) * c->g.groups * group_bytes(c) + PAIR_TILE_BYTES);
}

static int64_t part_of_weights(const correlation *c) {
  const conv_geometry *g = &c->g;
  return pair_weights_bytes(g->groups, c->backward ? g->channels : g->rows, channels_of(c), conv_volume(g->kernel));
}

uint64_t pairs_weight_bytes(const correlation *c) { return (uint64_t)(pairs_terms(c) * part_of_weights(c)); }

/* ---- padded copies ----------------------------------------------------------------------------------------------- */

typedef struct {
  const correlation *c;
  const conv_image *image;
  const char *from;
  char *to;
  int64_t part;
  float_exponents *range;
} fill_job;

/* Fills lines of all steps of all groups and batch items. */
static void fill_steps(const void *job, int64_t begin, int64_t end) {
  const fill_job *j = job;
  const correlation *c = j->c;
  const int64_t channels = channels_of(c), steps = pair_steps(channels), rows = c->direct.image.rows;
  float_exponents range = float_no_exponents;
  for (int64_t i = begin, n; i < end; i += n) {
    const int64_t row = i % rows, at = i / rows, step = at % steps, group = at / steps % c->g.groups;
    n = i64_min(rows - row, end - i);
    const int64_t first = step * PAIR_CHANNELS;
    const char *const from =
        j->from + at / steps / c->g.groups * c->from.outer + (group * channels + first) * c->from.inner;
    image_fill_step(j->image, j->to + at * step_bytes(c), j->part, from, &c->from, c->backward ? c->g.out : c->g.in,
                    (int)i64_min(PAIR_CHANNELS, channels - first), row, row + n, &range);
  }
  float_join_exponents(j->range, range);
}

typedef struct {
  const float *w;
  float_exponents *range;
} range_job;

static void weights_range(const void *job, int64_t begin, int64_t end) {
  const range_job *j = job;
  float_exponents range = float_no_exponents;
  pair_range_floats(&range, j->w + begin, end - begin);
  float_join_exponents(j->range, range);
}

static void find_range(const correlation *c, phase *f) {
  const conv_geometry *g = &c->g;
  const int64_t weights = g->groups * g->rows * g->channels * conv_volume(g->kernel);
  f->weight_range = float_no_exponents;
  const range_job range = {f->sums.w, &f->weight_range};
  rows_parallel(weights_range, &range, weights, 4096, (uint64_t)weights / 4);
  f->has_range = true;
}

bool pairs_prepare(const correlation *c, const char *from, int64_t n, char *image, phase *f) {
  const conv_geometry *g = &c->g;
  const int64_t image_bytes = g->groups * group_bytes(c);
  float_exponents of_x = float_no_exponents;
  const fill_job job = {c, f->image, from, image, n * image_bytes, &of_x};
  rows_parallel(fill_steps, &job, n * g->groups * pair_steps(f->channels) * c->direct.image.rows, 1,
                (uint64_t)(n * pairs_terms(c) * image_bytes) / 16);
  if (c->w.dtype == ACL_FLOAT && !f->has_range) find_range(c, f);
  if (c->w.dtype == ACL_FLOAT && !float_parts_suffice(of_x, f->weight_range)) return false;
  f->pairs = c->direct.pairs;
  f->x = (const float *)(const void *)image;
  f->x_image = image_bytes;
  f->x_group = group_bytes(c);
  f->sums.x_channel = step_bytes(c);
  return true;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* Sets place[i] to the index of output p + i in the padded copy, for i < n. */
static void pairs_place_outputs(const phase *f, int64_t p, int64_t n, int64_t *place) {
  const int64_t pitch = f->image->size[2], width = f->axis[2].out, line = p / width;
  int64_t w = p % width, h = line % f->axis[1].out, d = line / f->axis[1].out;
  for (int64_t i = 0; i < n;) {
    const int64_t at = (d * f->image->size[1] + h) * pitch + w, m = i64_min(width - w, n - i);
    for (int64_t k = 0; k < m; ++k) place[i + k] = at + k;
    i += m;
    w = 0;
    if (++h == f->axis[1].out) h = 0, ++d;
  }
}

/* Stores the sums of n outputs from p on, line by line of the output. */
static void pairs_store_outputs(const phase *f, pair_outputs *o, char *to, const float *c, const int32_t *index,
                                int64_t p, int64_t n) {
  int64_t w = p % f->pitch, line = p / f->pitch;
  for (int64_t i = 0, m; i < n; i += m, w = 0, ++line) {
    m = i64_min(f->pitch - w, n - i);
    o->to = to + line / f->lines * f->to_axis[0] + line % f->lines * f->to_axis[1] + w * f->to_axis[2];
    pair_store(o, c, index + i, m);
    for (int r = 0; f->store.epilogue && r < o->rows; ++r)
      conv_finish_stored(&f->store, o->to + r * o->row, o->position, m);
  }
}

/* Computes and stores a block of rows of a strip of outputs. */
static void make_strip(const phase *f, const char *w, int64_t image, int64_t group, int64_t row_tile, int64_t strip) {
  _Alignas(64) float c[PAIR_SUMS * PAIR_ROWS];
  int32_t index[PAIR_SUMS + PAIR_STORE_AHEAD];
  int64_t place[STRIP];
  const conv_operand *const to = &f->c->to;
  const int64_t row = row_tile * PAIR_ROWS, p = strip * f->width, n = i64_min(f->width, f->positions - p);
  const pair_sums s = {.w = w,
                       .x = (const char *)f->x + image * f->x_image + group * f->x_group,
                       .x_step = f->sums.x_channel,
                       .x_part = f->n_images * f->x_image,
                       .w_part = f->weights.part,
                       .x_tap = f->sums.x_tap,
                       .w_tap = f->sums.w_tap,
                       .pairs = (f->channels + 1) / 2,
                       .taps = f->sums.taps,
                       .kernel_taps = conv_volume(f->c->g.kernel),
                       .parts = pairs_terms(f->c)};
  pair_outputs o = {.row = to->inner,
                    .position = f->to_axis[2],
                    .dtype = to->dtype,
                    .rows = (int)i64_min(PAIR_ROWS, f->rows - row),
                    .bias = f->bias ? f->bias + group * f->rows + row : NULL};
  pairs_place_outputs(f, p, n, place);
  for (int64_t i = 0, m; i < n; i += m) {
    m = f->pairs->sums(&s, o.rows, place + i, n - i, c, index);
    memset(index + m, 0, PAIR_STORE_AHEAD * sizeof *index);
    pairs_store_outputs(f, &o, f->to + image * to->outer + (group * f->rows + row) * to->inner, c, index, p + i, m);
  }
}

static char *packed_at(const phase *f, int64_t group, int64_t row_tile) {
  return f->packed + pair_weights_at(group, row_tile * PAIR_ROWS, f->rows, f->channels, conv_volume(f->c->g.kernel));
}

/* Packs the weights of blocks of rows. */
static void pairs_pack_blocks(const void *job, int64_t begin, int64_t end) {
  const phase *f = job;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t group = i / f->row_tiles, row = i % f->row_tiles;
    pair_weights_pack(&f->weights, packed_at(f, group, row), group, row * PAIR_ROWS);
  }
}

/* For many weights: a block of rows at a time, whose weights stay in L2. A thread reuses the memory of its first
 * block's tiles for the following ones. */
static void pairs_make_row_blocks(const void *job, int64_t begin, int64_t end) {
  const phase *f = job;
  if (begin == end) return;
  char *w = packed_at(f, begin / f->row_tiles, begin % f->row_tiles);
  if (f->pairs->begin) f->pairs->begin();
  for (int64_t i = begin; i < end; ++i) {
    const int64_t group = i / f->row_tiles, row = i % f->row_tiles;
    if (f->is_packed)
      w = packed_at(f, group, row);
    else
      pair_weights_pack(&f->weights, w, group, row * PAIR_ROWS);
    for (int64_t image = 0; image < f->n_images; ++image)
      for (int64_t strip = 0; strip < f->position_tiles; ++strip) make_strip(f, w, image, group, row, strip);
  }
  if (f->pairs->end) f->pairs->end();
}

static void make_strips(const void *job, int64_t begin, int64_t end) {
  const phase *f = job;
  const int64_t strips = f->n_images * f->position_tiles, of_group = f->row_tiles * strips;
  if (f->pairs->begin) f->pairs->begin();
  for (int64_t i = begin; i < end; ++i) {
    const int64_t group = i / of_group, at = i % of_group;
    const int64_t row = f->rows_outer ? at / strips : at % f->row_tiles;
    const int64_t strip = f->rows_outer ? at % strips : at / f->row_tiles;
    make_strip(f, packed_at(f, group, row), strip / f->position_tiles, group, row, strip % f->position_tiles);
  }
  if (f->pairs->end) f->pairs->end();
}

/* Positions are outputs. Lines that follow each other contiguously in the output count as one line. */
static void pairs_count_positions(phase *f) {
  const phase_axis *const a = f->axis;
  f->positions = a[0].out * a[1].out * a[2].out;
  f->pitch = a[2].out, f->lines = a[1].out;
  if (f->to_axis[1] == f->to_axis[2] * f->pitch) f->pitch *= f->lines, f->lines = 1;
  f->width = STRIP;
  f->position_tiles = (f->positions + f->width - 1) / f->width;
}

static pair_weights weights_of(const phase *f) {
  const correlation *c = f->c;
  pair_weights w = {.w = f->sums.w,
                    .part = pairs_terms(c) > 1 ? part_of_weights(c) : 0,
                    .group_stride = f->w_group,
                    .row_stride = f->sums.w_row,
                    .channel_stride = f->sums.w_channel,
                    .groups = c->g.groups,
                    .rows = f->rows,
                    .channels = f->channels,
                    .plain = correlation_taps_are_plain(c) || c->copies_w};
  memcpy(w.kernel, c->g.kernel, sizeof w.kernel);
  memcpy(w.axis, f->w_axis, sizeof w.axis);
  return w;
}

static int64_t count_row_blocks(phase *f) {
  f->row_tiles = (f->rows + PAIR_ROWS - 1) / PAIR_ROWS;
  f->weights = weights_of(f);
  return f->c->g.groups * f->row_tiles;
}

/* Weights that are packed once are behind the range of their exponents. */
enum { PACKED_HEADER = 64 };

uint64_t pairs_packed_bytes(const correlation *c) { return PACKED_HEADER + pairs_weight_bytes(c); }

void pairs_pack(phase *f, char *packed) {
  const int64_t row_blocks = count_row_blocks(f);
  f->packed = packed + PACKED_HEADER;
  rows_parallel(pairs_pack_blocks, f, row_blocks, 1, pairs_weight_bytes(f->c) / 4);
  f->weight_range = float_no_exponents;
  if (f->c->w.dtype == ACL_FLOAT) find_range(f->c, f);
  memcpy(packed, &f->weight_range, sizeof f->weight_range);
}

void pairs_take_packed(phase *f, const char *packed) {
  memcpy(&f->weight_range, packed, sizeof f->weight_range);
  f->packed = (char *)(uintptr_t)packed + PACKED_HEADER;
  f->is_packed = f->has_range = true;
}

void pairs_run_phase(phase *f, uint64_t cost_ns) {
  const correlation *c = f->c;
  pairs_count_positions(f);
  const int64_t row_blocks = count_row_blocks(f);
  f->rows_outer = part_of_weights(c) * pairs_terms(c) / c->g.groups > WEIGHT_BYTES;
  const bool one_phase = !c->backward || conv_volume(c->g.stride) == 1;
  if (f->rows_outer && one_phase && f->one_pass && row_blocks >= parallel_max_threads(cost_ns)) {
    rows_parallel(pairs_make_row_blocks, f, row_blocks, 1, cost_ns);
    return;
  }
  if (!f->is_packed) rows_parallel(pairs_pack_blocks, f, row_blocks, 1, cost_ns / 4);
  f->is_packed = true;
  rows_parallel(make_strips, f, c->g.groups * f->row_tiles * f->n_images * f->position_tiles, 1, cost_ns);
}
