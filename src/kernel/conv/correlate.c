/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/conv/correlate.h"

#include <stdlib.h>
#include <string.h>

#include "base/store/hash.h"
#include "kernel/conv/by_channel.h"
#include "kernel/conv/conv_loops.h"
#include "kernel/conv/correlate_phase.h"
#include "kernel/conv/packed_products.h"
#include "kernel/conv/phase_products.h"
#include "kernel/conv/reference.h"
#include "kernel/engine/level_choice.h"
#include "kernel/engine/rows.h"
#include "runtime/parallel.h"

LEVEL_CHOICE(direct_loops_table, direct_loops, direct_loops_table)

enum {
  LINE = 64,               /* bytes of a cache line */
  LEAST_PRODUCTS = 16,     /* packed GEMM, 16-bit dtypes: least rows */
  LEAST_ROWS = 32,         /* packed GEMM, floats: least rows; for a forward pass, also least channels */
  LEAST_WEIGHTS = 1 << 20, /* packed GEMM, gradient of floats: least weights, which L2 does not hold */
  MOST_ROWS = 8,
  MOST_WIDTH = 48,            /* positions of a tile, at any instruction set level */
  ACROSS = 16,                /* channels-last outputs: output channels computed together */
  ACROSS_WIDTH = 240,         /* channels-last outputs: positions computed together */
  SINGLE_WIDTH = 960,         /* positions at a time if a group has one output channel */
  IMAGE_BYTES = 1 << 20,      /* most bytes of the padded copies of batch items that are computed together, */
  MANY_IMAGE_BYTES = 1 << 22, /* and if there are more than WEIGHT_BYTES of weights */
  /* The same of a band of a depthwise convolution, whose channels are read once: 1 MB takes 1.1 to 5 times as long (144
   * x 56 x 56 to 1536 x 512). With more channels 4 MB takes up to 2.7 times as long (64 x 256 x 256). */
  DEPTHWISE_BAND_BYTES = 1 << 22,
};

/* The layout of a padded copy that holds the inputs of all phases. */
static void backward_image(const conv_geometry *g, conv_image *image) {
  static const int64_t one[CONV_AXES] = {1, 1, 1};
  int64_t low[CONV_AXES], size[CONV_AXES];
  for (int a = 0; a < CONV_AXES; ++a) {
    int64_t end = INT64_MIN;
    low[a] = INT64_MAX;
    for (int64_t p = 0; p < g->stride[a]; ++p) {
      const phase_axis f = phase_backward(g, a, p);
      if (!f.taps || !f.out) continue;
      if (f.shift < low[a]) low[a] = f.shift;
      const int64_t last = f.shift + f.out - 1 + (f.taps - 1) * f.dilation;
      if (last > end) end = last;
    }
    size[a] = end >= low[a] ? end - low[a] + 1 : 1;
    if (end < low[a]) low[a] = 0;
  }
  image_init(image, low, size, one, one, one);
}

/* ---- one phase --------------------------------------------------------------------------------------------------- */

/* Stores c[row][i], the sums of position p + i. Positions of the padded copy that are not outputs are skipped. */
static void correlation_store_tile(const phase *f, char *to, float *c, int64_t c_row, int64_t rows, int64_t p,
                                   int64_t n) {
  const int64_t pitch = f->pitch, width = f->width_out, lines = f->lines;
  conv_store store = f->store;
  for (int64_t r = 0; r < rows; ++r) conv_finish_ahead(&store, c + r * c_row, n);
  conv_finished_ahead(&store);
  const bool copies = f->c->to.dtype == ACL_FLOAT && f->to_axis[2] == (int64_t)sizeof *c && !store.epilogue;
  int64_t w = 0, h = 0, d = 0;
  if (p) w = p % pitch, h = p / pitch % lines, d = p / pitch / lines;
  for (int64_t i = 0, count; i < n; i += count) {
    if (copies && w == 0 && n - i >= pitch && h < f->axis[1].out) {
      const int64_t whole = i64_min((n - i) / pitch, f->axis[1].out - h);
      char *at = to + d * f->to_axis[0] + h * f->to_axis[1];
      for (int64_t r = 0; r < rows; ++r, at += f->c->to.inner)
        conv_loops->lines(at, f->to_axis[1], c + r * c_row + i, pitch * (int64_t)sizeof *c, whole, 1, sizeof *c, width);
      count = whole * pitch;
      h += whole;
      if (h == lines) h = 0, ++d;
      continue;
    }
    count = i64_min(pitch - w, n - i);
    const int64_t used = i64_min(width - w, count);
    if (used > 0 && h < f->axis[1].out) {
      char *at = to + d * f->to_axis[0] + h * f->to_axis[1] + w * f->to_axis[2];
      if (copies) conv_loops->lines(at, f->c->to.inner, c + i, c_row * (int64_t)sizeof *c, rows, 1, sizeof *c, used);
      for (int64_t r = 0; r < rows && !copies; ++r, at += f->c->to.inner)
        conv_store_run(&store, at, f->to_axis[2], c + r * c_row + i, used);
    }
    w = 0;
    if (++h == lines) h = 0, ++d;
  }
}

/* As correlation_store_tile, for channels-last outputs: c[i][channel], with rows of ACROSS channels. */
static void correlation_store_across(const phase *f, char *to, float *c, int64_t channels, int64_t p, int64_t n) {
  const int64_t pitch = f->pitch, lines = f->lines, inner = f->c->to.inner;
  conv_store store = f->store;
  conv_finish_ahead(&store, c, n * ACROSS);
  conv_finished_ahead(&store);
  const bool copies =
      f->c->to.dtype == ACL_FLOAT && inner == (int64_t)sizeof *c && channels == ACROSS && !store.epilogue;
  int64_t w = p % pitch, h = p / pitch % lines, d = p / pitch / lines;
  for (int64_t i = 0; i < n; ++i, c += ACROSS) {
    if (w < f->axis[2].out && h < f->axis[1].out) {
      char *const at = to + d * f->to_axis[0] + h * f->to_axis[1] + w * f->to_axis[2];
      if (copies)
        memcpy(at, c, ACROSS * sizeof *c);
      else
        conv_store_run(&store, at, inner, c, channels);
    }
    if (++w < pitch) continue;
    w = 0;
    if (++h == lines) h = 0, ++d;
  }
}

static void correlation_make_tile(const phase *f, int64_t image, int64_t group, int64_t row_tile, int64_t tile) {
  _Alignas(64) float out[MOST_ROWS * MOST_WIDTH];
  const correlation *c = f->c;
  const int64_t row = row_tile * direct_loops->rows, p = tile * f->width;
  const int rows = (int)i64_min(direct_loops->rows, f->rows - row);
  const int64_t n = i64_min(f->width, f->positions - p);
  direct_sums s = f->sums;
  s.w += group * f->w_group + row * s.w_row;
  s.x = f->x + image * f->x_image + group * f->x_group + p;
  s.bias = f->bias ? f->bias + group * f->rows + row : NULL;
  char *to = f->to + image * c->to.outer + (group * f->rows + row) * c->to.inner;
  const int vectors = (int)((n + direct_loops->lanes - 1) / direct_loops->lanes);
  direct_loops->tile(&s, rows, vectors, out, f->width);
  correlation_store_tile(f, to, out, f->width, rows, p, n);
}

bool correlation_taps_are_plain(const correlation *c) {
  int64_t step = (int64_t)dtype_bytes(c->given_w.dtype);
  for (int a = CONV_AXES - 1; a >= 0; step *= c->g.kernel[a--])
    if (c->g.kernel[a] > 1 && c->given_w.axis[a] != step) return false;
  return true;
}

static void correlation_make_tiles(const void *job, int64_t begin, int64_t end) {
  const phase *f = job;
  const int64_t tiles = f->n_images * f->position_tiles;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t group = conv_quotient(i, f->row_tiles * tiles), at = conv_remainder(i, f->row_tiles * tiles);
    const int64_t row = f->rows_outer ? conv_quotient(at, tiles) : conv_remainder(at, f->row_tiles);
    const int64_t tile = f->rows_outer ? conv_remainder(at, tiles) : conv_quotient(at, f->row_tiles);
    const int64_t image = conv_quotient(tile, f->position_tiles), t = conv_remainder(tile, f->position_tiles);
    correlation_make_tile(f, image, group, row, t);
  }
}

/* Computes n positions of a group that has one output channel. */
static void make_single(const phase *f, int64_t image, int64_t group, int64_t p, int64_t n, float *out) {
  direct_sums s = f->sums;
  s.w += group * f->w_group;
  s.x = f->x + image * f->x_image + group * f->x_group + p;
  s.bias = f->bias ? f->bias + group : NULL;
  direct_loops->single(&s, n, out);
}

static void make_singles(const void *job, int64_t begin, int64_t end) {
  _Alignas(64) float out[SINGLE_WIDTH + MOST_WIDTH];
  const phase *f = job;
  const correlation *c = f->c;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t tile = conv_remainder(i, f->position_tiles), channel = conv_quotient(i, f->position_tiles);
    const int64_t group = conv_remainder(channel, c->g.groups), image = conv_quotient(channel, c->g.groups);
    const int64_t p = tile * f->width;
    const int64_t n = i64_min(f->width, f->positions - p);
    make_single(f, image, group, p, n, out);
    correlation_store_tile(f, f->to + image * c->to.outer + group * c->to.inner, out, 0, 1, p, n);
  }
}

/* As make_singles, for channels-last outputs: ACROSS channels at a time, which are then transposed. */
static void make_singles_across(const void *job, int64_t begin, int64_t end) {
  _Alignas(64) float out[ACROSS][ACROSS_WIDTH + MOST_WIDTH] = {0}, tile[ACROSS_WIDTH * ACROSS];
  const phase *f = job;
  const correlation *c = f->c;
  const int64_t blocks = (c->g.groups + ACROSS - 1) / ACROSS;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t group = i % blocks * ACROSS, n_groups = i64_min(ACROSS, c->g.groups - group);
    const int64_t image = i / blocks / f->position_tiles, p = i / blocks % f->position_tiles * f->width;
    const int64_t n = i64_min(f->width, f->positions - p);
    for (int64_t k = 0; k < n_groups; ++k) make_single(f, image, group + k, p, n, out[k]);
    direct_loops->transpose(tile, ACROSS, out[0], ACROSS_WIDTH + MOST_WIDTH, n);
    correlation_store_across(f, f->to + image * c->to.outer + group * c->to.inner, tile, n_groups, p, n);
  }
}

/* Computes outputs that no tap reaches, from their bias. */
static void make_untouched(const phase *f, int64_t n_images) {
  static const float zero;
  const correlation *c = f->c;
  const int64_t channels = c->g.groups * f->rows;
  const view to = {.rank = 5,
                   .dtype = c->to.dtype,
                   .dims = {n_images, channels, f->axis[0].out, f->axis[1].out, f->axis[2].out},
                   .strides = {c->to.outer, c->to.inner, f->to_axis[0], f->to_axis[1], f->to_axis[2]}};
  view from = to;
  memset(from.strides, 0, sizeof from.strides);
  from.dtype = ACL_FLOAT;
  if (f->bias) from.strides[1] = sizeof(float);
  elementwise_copy(f->to, &to, f->bias ? f->bias : &zero, &from, 0);
  if (!f->store.epilogue) return;
  const int64_t n[CONV_AXES] = {f->axis[0].out, f->axis[1].out, f->axis[2].out};
  for (int64_t i = 0; i < n_images * channels; ++i)
    conv_finish_plane(&f->store, f->to + i / channels * c->to.outer + i % channels * c->to.inner, f->to_axis, n);
}

/* Sets f->to and f->to_axis: the address and strides of the phase's outputs among all outputs. */
static void phase_place_outputs(phase *f) {
  const conv_operand *const to = &f->c->to;
  f->to = f->outputs;
  for (int i = 0; i < CONV_AXES; ++i) {
    f->to_axis[i] = to->axis[i] * f->axis[i].step;
    f->to += to->axis[i] * f->axis[i].first;
  }
}

static int64_t w_tap_along(const phase *f, const int64_t *step, int axis, int64_t t) {
  return (f->axis[axis].first_tap + t * f->axis[axis].tap_step) * step[axis];
}

/* Taps are at equal steps, except where the padded copy is grouped by remainders. */
static int64_t x_tap_along(const phase *f, int axis, int64_t t) {
  const conv_image *image = &f->c->direct.image;
  if (unlikely(image->stride[axis] > 1)) return image_tap_along(image, axis, t);
  return (f->axis[axis].shift - image->low[axis] + t * f->axis[axis].dilation) * image->step[axis];
}

/* Sets the offsets of the taps of one line; the first ones are w_at and x_at. */
static void phase_place_line(const phase *f, int64_t *w, int64_t *x, int64_t w_at, int64_t w_step, int64_t x_at) {
  const int64_t taps = f->axis[2].taps, x_step = f->axis[2].dilation;
  if (unlikely(f->c->direct.image.stride[2] > 1)) {
    for (int64_t i = 0; i < taps; ++i)
      w[i] = w_at + i * w_step, x[i] = x_at + image_tap_along(&f->c->direct.image, 2, i);
    return;
  }
  for (int64_t i = 0; i < taps; ++i, w_at += w_step, x_at += x_step) w[i] = w_at, x[i] = x_at;
}

/* Sets the offset of each tap's weight (for VNNI pairs: the tap's index in the kernel) and of its input for output
 * 0. Both are the sums of the contributions of the axes. */
static void phase_place_taps(const phase *f, int64_t *w, int64_t *x) {
  const phase_axis *const a = f->axis;
  const int64_t *const kernel = f->c->g.kernel, numbers[CONV_AXES] = {kernel[1] * kernel[2], kernel[2], 1};
  const int64_t *const step = f->pairs ? numbers : f->w_axis;
  for (int64_t d = 0; d < a[0].taps; ++d) {
    const int64_t w_plane = w_tap_along(f, step, 0, d) + w_tap_along(f, step, 2, 0);
    const int64_t x_plane = x_tap_along(f, 0, d) + x_tap_along(f, 2, 0);
    for (int64_t h = 0; h < a[1].taps; ++h, w += a[2].taps, x += a[2].taps)
      phase_place_line(f, w, x, w_plane + w_tap_along(f, step, 1, h), a[2].tap_step * step[2],
                       x_plane + x_tap_along(f, 1, h));
  }
}

/* Positions are the elements of the padded copy, from the first output's to the last output's. */
static void correlation_count_positions(phase *f) {
  const phase_axis *const a = f->axis;
  f->pitch = f->image->size[2], f->lines = f->image->size[1], f->width_out = a[2].out;
  f->positions = ((a[0].out - 1) * f->lines + a[1].out - 1) * f->pitch + a[2].out;
}

/* The number of chunks of at most `most`; usually 1, which saves a division. */
static int64_t correlation_chunks(int64_t n, int64_t most) { return n <= most ? 1 : (n + most - 1) / most; }

/* Computes one phase. f is set except for what depends on the phase's axes. taps: scratch for two offsets per tap. */
static void correlation_run_phase(phase *f, int64_t n_images, int64_t *taps, uint64_t cost_ns) {
  f->n_images = n_images;
  const correlation *c = f->c;
  const phase_axis *const a = f->axis;
  if (a[0].out <= 0 || a[1].out <= 0 || a[2].out <= 0) return;
  phase_place_outputs(f);
  const int64_t n_taps = a[0].taps * a[1].taps * a[2].taps;
  if (n_taps == 0) {
    make_untouched(f, n_images);
    return;
  }
  phase_place_taps(f, taps, taps + n_taps);
  f->sums.w_tap = taps;
  f->sums.x_tap = taps + n_taps;
  f->sums.taps = n_taps;
  if (f->pairs) {
    pairs_run_phase(f, cost_ns);
    return;
  }
  correlation_count_positions(f);
  const bool single = f->rows == 1;
  const int64_t rows = direct_loops->rows;
  const bool across = single && llabs(c->to.inner) < llabs(f->to_axis[2]) && c->g.groups > 1;
  f->width = across ? ACROSS_WIDTH : single ? SINGLE_WIDTH : (int64_t)direct_loops->vectors * direct_loops->lanes;
  f->position_tiles = correlation_chunks(f->positions, f->width);
  f->row_tiles = correlation_chunks(f->rows, rows);
  f->rows_outer = f->rows * f->channels * n_taps * (int64_t)sizeof(float) > WEIGHT_BYTES;
  const int64_t groups = n_images * c->g.groups;
  if (across)
    rows_parallel(make_singles_across, f, n_images * ((c->g.groups + ACROSS - 1) / ACROSS) * f->position_tiles, 1,
                  cost_ns);
  else if (single)
    rows_parallel(make_singles, f, groups * f->position_tiles, 1, cost_ns);
  else
    rows_parallel(correlation_make_tiles, f, groups * f->row_tiles * f->position_tiles, 1, cost_ns);
}

/* ---- padded copies of the inputs --------------------------------------------------------------------------------- */

typedef struct {
  const correlation *c;
  const conv_image *image;
  const char *from;
  float *to;
  int64_t channels;
} image_job;

static void fill_images(const void *job, int64_t begin, int64_t end) {
  const image_job *j = job;
  const correlation *c = j->c;
  const int64_t *const dims = c->backward ? c->g.out : c->g.in;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t channel = conv_remainder(i, j->channels), image = conv_quotient(i, j->channels);
    image_fill(j->image, j->to + i * c->direct.image.channel, j->from + image * c->from.outer, &c->from, dims, channel,
               channel + 1);
  }
}

/* ---- what callers share ------------------------------------------------------------------------------------------*/

double conv_multiply_adds(const conv_geometry *g) {
  return (double)(g->batch * g->groups) * (double)(g->channels * g->rows) * (double)conv_volume(g->out) *
         (double)conv_volume(g->kernel);
}

uint64_t conv_cost_ns(double multiply_adds, double flops_per_ns) {
  const double ns = 2.0 * multiply_adds / flops_per_ns;
  return ns < 0x1p31 ? (uint64_t)ns : UINT64_C(1) << 31;
}

void conv_to_floats(float *to, const void *from, const conv_operand *o, int64_t outer, int64_t inner,
                    const int64_t *axes, uint64_t cost_ns) {
  const view v = {.rank = 5,
                  .dtype = o->dtype,
                  .dims = {outer, inner, axes[0], axes[1], axes[2]},
                  .strides = {o->outer, o->inner, o->axis[0], o->axis[1], o->axis[2]}};
  const view floats = view_contiguous(ACL_FLOAT, 5, v.dims);
  elementwise_copy(to, &floats, from, &v, cost_ns);
}

/* ---- what the implementations share ------------------------------------------------------------------------------ */

static int64_t outputs_along(const correlation *c, int axis) { return (c->backward ? c->g.in : c->g.out)[axis]; }

static void phase_of(const correlation *c, int64_t i, phase_axis axis[CONV_AXES]) {
  const conv_geometry *g = &c->g;
  for (int a = CONV_AXES - 1; a >= 0; --a) {
    if (!c->backward) {
      phase_forward(g, a, &axis[a]);
      continue;
    }
    axis[a] = phase_backward(g, a, i % g->stride[a]);
    i /= g->stride[a];
  }
}

/* Returns whether the call's weights can be read in place: they must be floats and, for packing into tiles,
 * contiguous. */
static bool takes_weights(const correlation *c, bool packed) {
  const conv_operand *w = &c->given_w;
  const conv_geometry *g = &c->g;
  const int64_t row = g->channels * conv_volume(g->kernel) * (int64_t)sizeof(float);
  bool floats = w->dtype == ACL_FLOAT && w->outer % 4 == 0 && w->inner % 4 == 0;
  for (int a = 0; a < CONV_AXES; ++a) floats &= w->axis[a] % 4 == 0;
  return floats && (!packed || (correlation_taps_are_plain(c) && w->inner * g->channels == row && w->outer == row));
}

/* Plans a copy of the weights, `taps` bytes from tap to tap; c->w becomes the copy. Weights of a row and tap are
 * `inner` bytes apart. */
static void copy_weights(correlation *c, executor *e, int64_t bytes, int64_t inner, int64_t tap) {
  const conv_geometry *g = &c->g;
  c->copies_w = true;
  if (!c->constant_w) c->weight_at = workspace_copy(e, (uint64_t)bytes);
  c->w.inner = inner;
  c->w.outer = g->channels * inner;
  for (int64_t a = CONV_AXES - 1; a >= 0; tap *= g->kernel[a--]) c->w.axis[a] = tap;
}

static void copy_float_weights(correlation *c, executor *e) {
  const int64_t volume = conv_volume(c->g.kernel), weights = c->g.groups * c->g.rows * c->g.channels * volume;
  const int64_t size = sizeof(float);
  copy_weights(c, e, weights * size, volume * size, size);
}

/* Sets what all phases have in common. w_bytes: of an element of the weights as they are read. */
static phase phase_of_call(const correlation *c, const correlation_operands *o, int64_t w_bytes) {
  phase f = {.c = c,
             .channels = c->backward ? c->g.rows : c->g.channels,
             .rows = c->backward ? c->g.channels : c->g.rows,
             .store = o->store,
             .outputs = o->to,
             .bias = o->bias,
             .w_group = c->g.rows * c->w.outer / w_bytes};
  f.sums.w = o->w;
  f.sums.w_row = (c->backward ? c->w.inner : c->w.outer) / w_bytes;
  f.sums.w_channel = (c->backward ? c->w.outer : c->w.inner) / w_bytes;
  f.sums.channels = f.channels;
  for (int a = 0; a < CONV_AXES; ++a) f.w_axis[a] = c->w.axis[a] / w_bytes;
  return f;
}

static void copy_to_floats(const correlation *c, const void *w, void *to) {
  conv_to_floats(to, w, &c->given_w, c->g.groups * c->g.rows, c->g.channels, c->g.kernel, c->cost_ns / 16);
}

/* Sets f->sums.w to the weights as floats, which are copied to scratch if necessary. */
static void prepare_weights(const correlation *c, const correlation_operands *o, char *scratch, phase *f) {
  if (!c->copies_w) return;
  if (!c->constant_w) copy_to_floats(c, o->w, scratch + c->weight_at);
  f->sums.w = c->constant_w ? o->packed : (const void *)(scratch + c->weight_at);
}

/* ---- depthwise, in place ----------------------------------------------------------------------------------------- */

static bool fits_depthwise(void *plan) {
  correlation *c = plan;
  return c->backward ? by_channel_fits(&c->g, &c->from, &c->to) : by_channel_fits_forward(&c->g, &c->from, &c->to);
}

static void init_depthwise(void *plan, executor *e) {
  correlation *c = plan;
  if (!takes_weights(c, false)) copy_float_weights(c, e);
}

static status run_depthwise(const void *plan, const void *operands, char *scratch) {
  const correlation *c = plan;
  const correlation_operands *o = operands;
  const conv_geometry *g = &c->g;
  channel_window window;
  phase f = phase_of_call(c, o, sizeof(float));
  prepare_weights(c, o, scratch, &f);
  phase_of(c, 0, f.axis);
  int64_t first_tap = 0;
  for (int a = 0; a < CONV_AXES; ++a) first_tap += w_tap_along(&f, f.w_axis, a, 0);
  channel_window_init(&window, &c->from, c->backward ? g->out : g->in, &c->to, f.axis, f.w_axis);
  const by_channel b = {.window = &window,
                        .from = &c->from,
                        .to = &c->to,
                        .batch = g->batch,
                        .groups = g->groups,
                        .w_group = f.w_group,
                        .x = o->from,
                        .out = o->to,
                        .w = f.sums.w + first_tap,
                        .bias = o->bias,
                        .store = o->store};
  by_channel_run(&b, c->cost_ns);
  return ST_OK;
}

/* ---- packed GEMM ------------------------------------------------------------------------------------------------- */

/* For kernels of one tap, for gradients with many weights, whose transpose is better read packed, and where a padded
 * copy would be wasteful; for 16-bit dtypes that have GEMM kernels, always if there are enough rows. */
static bool gemm_pays(const void *plan) {
  const correlation *c = plan;
  const conv_geometry *g = &c->g;
  const int64_t rows = c->backward ? g->channels : g->rows, channels = c->backward ? g->rows : g->channels;
  const int64_t volume = conv_volume(g->kernel);
  if (columns_type(c->from.dtype, c->w.dtype, channels * volume) != TILE_F32) return rows >= LEAST_PRODUCTS;
  const bool many = c->backward && rows >= LEAST_ROWS && g->rows * g->channels * volume >= LEAST_WEIGHTS;
  /* A padded copy would be grouped by remainders, or have many positions that are not outputs. */
  const bool wasteful = g->stride[2] > 1 || 8 * (g->kernel[2] - 1) * g->dilation[2] > g->out[2];
  return (volume == 1 && rows > 1) || many ||
         (!c->backward && wasteful && rows >= LEAST_ROWS && channels >= LEAST_ROWS);
}

/* Copied weights are [tap][row][channel], with a cache line between the taps, so that equal indices of different taps
 * fall into different sets of the L1 cache. */
static void init_gemm(void *plan, executor *e) {
  correlation *c = plan;
  const int64_t volume = conv_volume(c->g.kernel), size = (int64_t)dtype_bytes(c->given_w.dtype);
  const int64_t tap = c->g.groups * c->g.rows * c->g.channels * size + LINE;
  if (c->backward && volume > 1) copy_weights(c, e, volume * tap, size, tap);
}

static status correlation_run_gemm(const void *plan, const void *operands, char *scratch) {
  const correlation *c = plan;
  const correlation_operands *o = operands;
  const conv_geometry *g = &c->g;
  phase f = phase_of_call(c, o, 1);
  int64_t *const taps = (int64_t *)(void *)(scratch + c->taps_at);
  const void *const w = !c->copies_w ? o->w : c->constant_w ? o->packed : scratch + c->weight_at;
  if (c->copies_w && !c->constant_w) correlation_order_taps(c, o->w, scratch + c->weight_at);
  const int64_t phases = c->backward ? conv_volume(g->stride) : 1;
  for (int64_t i = 0; i < phases; ++i) {
    phase_of(c, i, f.axis);
    const phase_axis *const a = f.axis;
    if (a[0].out <= 0 || a[1].out <= 0 || a[2].out <= 0) continue;
    phase_place_outputs(&f);
    if (a[0].taps * a[1].taps * a[2].taps == 0) {
      make_untouched(&f, g->batch);
      continue;
    }
    const phase_products p = {.g = g,
                              .from = &c->from,
                              .w = &c->w,
                              .to = &c->to,
                              .axis = a,
                              .to_axis = f.to_axis,
                              .rows = f.rows,
                              .channels = f.channels,
                              .w_row = c->backward ? c->w.inner : c->w.outer,
                              .w_channel = c->backward ? c->w.outer : c->w.inner,
                              .x = o->from,
                              .weights = w,
                              .out = f.to,
                              .bias = f.bias,
                              .store = f.store,
                              .in = c->backward ? g->out : g->in,
                              .w_tap = taps,
                              .cost_ns = c->cost_ns / (uint64_t)phases};
    TRY(phase_products_run(&p));
  }
  return ST_OK;
}

/* ---- Winograd ---------------------------------------------------------------------------------------------------- */

static bool fits_winograd(void *plan) {
  correlation *c = plan;
  return winograd_fits(&c->winograd, &c->g, &c->from, &c->to, &c->given_w, c->backward);
}

static bool correlation_winograd_pays(const void *plan) {
  return winograd_pays(&((const correlation *)plan)->winograd);
}

static status run_winograd(const void *plan, const void *operands, char *scratch) {
  const correlation *c = plan;
  const correlation_operands *o = operands;
  bool done;
  const winograd_call call = {.from = o->from, .to = o->to, .weights = o->w, .bias = o->bias, .store = o->store};
  TRY(winograd_run(&c->winograd, &call, scratch, &done));
  return done ? ST_OK : c->fallback->run(c, operands, scratch);
}

/* ---- packed weights ---------------------------------------------------------------------------------------------- */

static bool fits_packed(void *plan) { return packed_products_fit(plan); }
static bool packed_pays(const void *plan) { return packed_products_pay(plan); }

static status run_packed(const void *plan, const void *operands, char *scratch) {
  (void)scratch;
  return packed_products_run(plan, operands);
}

/* ---- direct ------------------------------------------------------------------------------------------------------ */

/* Floats may have to be computed as floats even if there is a kernel for VNNI pairs, depending on their values. */
static bool needs_floats(const correlation *c) { return !c->direct.pairs || c->from.dtype == ACL_FLOAT; }

static int64_t correlation_image_bytes(const correlation *c) {
  const int64_t channels = c->g.groups * (c->backward ? c->g.rows : c->g.channels);
  return i64_max(c->direct.pairs ? (int64_t)pairs_image_bytes(c, 1) : 0,
                 needs_floats(c) ? (channels * c->direct.image.channel + 1) * (int64_t)sizeof(float) : 0);
}

static void correlation_make_image(correlation *c, const conv_geometry *g) {
  int64_t low[CONV_AXES];
  for (int a = 0; a < CONV_AXES; ++a) low[a] = -g->pad[a];
  if (c->backward)
    backward_image(g, &c->direct.image);
  else
    image_init(&c->direct.image, low, g->out, g->kernel, g->stride, g->dilation);
}

/* A padded copy that does not fit L2 is made and used band by band of outputs. */
static void correlation_cut_bands(correlation *c) {
  const int64_t *const out = c->backward ? c->g.in : c->g.out;
  correlation_direct *const d = &c->direct;
  d->band_axis = 0;
  while (d->band_axis < CONV_AXES - 1 && out[d->band_axis] == 1) ++d->band_axis;
  d->band = out[d->band_axis];
  if (c->backward && conv_volume(c->g.stride) > 1) return;
  const bool depthwise = c->g.channels == 1 && c->g.rows == 1;
  const int64_t n = correlation_image_bytes(c) / (depthwise ? DEPTHWISE_BAND_BYTES : IMAGE_BYTES) + 1;
  if (n == 1) return;
  conv_geometry band = c->g;
  d->band = (d->band + n - 1) / n;
  (c->backward ? band.in : band.out)[d->band_axis] = d->band;
  correlation_make_image(c, &band);
}

static void init_direct_by(correlation *c, executor *e, const pair_kernel *pairs) {
  const conv_geometry *g = &c->g;
  correlation_direct *const d = &c->direct;
  *d = (correlation_direct){.pairs = pairs};
  correlation_make_image(c, g);
  correlation_cut_bands(c);
  const int64_t bytes = correlation_image_bytes(c);
  const int64_t weights = g->groups * g->rows * g->channels * conv_volume(g->kernel);
  const int64_t room = weights * (int64_t)sizeof(float) > WEIGHT_BYTES ? MANY_IMAGE_BYTES : IMAGE_BYTES;
  d->n_images = g->batch == 1 || bytes > room ? 1 : i64_min(g->batch, room / bytes);
  d->image_at = workspace_copy(e, (uint64_t)(d->n_images * bytes) + IMAGE_SLACK * sizeof(float));
  if (needs_floats(c) && !takes_weights(c, pairs)) copy_float_weights(c, e);
}

static void init_direct(void *plan, executor *e) { init_direct_by(plan, e, NULL); }

static bool fits_pairs(void *plan) { return pairs_kernel(plan); }

static void init_pairs(void *plan, executor *e) {
  correlation *c = plan;
  const pair_kernel *const pairs = pairs_kernel(c);
  if (c->from.dtype == ACL_FLOAT && !takes_weights(c, pairs)) c->constant_w = false; /* there is another copy, too */
  init_direct_by(c, e, pairs);
  if (!c->constant_w) c->direct.packed_at = workspace_copy(e, pairs_weight_bytes(c));
  c->cost_ns = conv_cost_ns(conv_multiply_adds(&c->g), c->direct.pairs->flops_per_ns / (needs_floats(c) ? 6 : 1));
}

/* Computes all phases of n batch items, for `band` outputs along c->direct.band_axis. */
static void run_images(const correlation *c, phase *f, int64_t n, int64_t band, int64_t *taps) {
  const conv_geometry *g = &c->g;
  const int64_t phases = c->backward ? conv_volume(g->stride) : 1, all = outputs_along(c, c->direct.band_axis);
  const int64_t cost =
      conv_quotient(conv_quotient((int64_t)c->cost_ns, g->batch) * n, phases) / (band < all ? all / band : 1);
  for (int64_t i = 0; i < phases; ++i) {
    phase_of(c, i, f->axis);
    if (band < all) f->axis[c->direct.band_axis].out = band;
    correlation_run_phase(f, n, taps, (uint64_t)cost);
  }
}

/* Makes the padded copy of n batch items' inputs: as VNNI pairs if possible, otherwise as floats. */
static void prepare_images(const correlation *c, const char *from, int64_t n, float *scratch, phase *f) {
  const int64_t channels = c->g.groups * f->channels;
  const image_job job = {.c = c, .image = f->image, .from = from, .to = scratch, .channels = channels};
  if (c->direct.pairs && pairs_prepare(c, from, n, (char *)scratch, f)) return;
  f->pairs = NULL;
  rows_parallel(fill_images, &job, n * channels, 1, (uint64_t)(n * channels * c->direct.image.channel) / 2);
  f->x = scratch;
  f->sums.x_channel = c->direct.image.channel;
  f->x_image = channels * c->direct.image.channel;
  f->x_group = f->channels * f->sums.x_channel;
}

static status run_direct(const void *plan, const void *operands, char *scratch) {
  const correlation *c = plan;
  const correlation_direct *d = &c->direct;
  const correlation_operands *o = operands;
  const conv_geometry *g = &c->g;
  const int64_t all = outputs_along(c, d->band_axis);
  conv_image banded;
  phase f = phase_of_call(c, o, needs_floats(c) ? 4 : 2);
  prepare_weights(c, o, scratch, &f);
  if (d->pairs && c->constant_w)
    pairs_take_packed(&f, o->packed);
  else if (d->pairs)
    f.packed = scratch + d->packed_at;
  f.one_pass = d->n_images == g->batch && d->band == all;
  for (int64_t i = 0; i < g->batch; i += d->n_images)
    for (int64_t b = 0; b < all; b += d->band) {
      const int64_t n = i64_min(d->n_images, g->batch - i);
      if (b) {
        banded = d->image;
        banded.low[d->band_axis] += b * (c->backward ? 1 : g->stride[d->band_axis]);
      }
      f.image = b ? &banded : &d->image;
      prepare_images(c, o->from + i * c->from.outer, n, (float *)(void *)(scratch + d->image_at), &f);
      f.outputs = o->to + i * c->to.outer + b * c->to.axis[d->band_axis];
      run_images(c, &f, n, i64_min(d->band, all - b), (int64_t *)(void *)(scratch + c->taps_at));
    }
  return ST_OK;
}

/* ---- planning and execution -------------------------------------------------------------------------------------- */

static void init_winograd(void *plan, executor *e);

enum { DEPTHWISE, PAIRS, PACKED, WINOGRAD, GEMM, DIRECT, REFERENCE };
static const implementation implementations[] = {
    /* 1.3 to 2.4 times as fast as direct (MobileNetV2). */
    [DEPTHWISE] = {.name = "depthwise", .fits = fits_depthwise, .init = init_depthwise, .run = run_depthwise},
    /* bfloat16, 3 x 3, AVX-512: 1.1 to 1.5 times as fast as gemm (ResNet-50), 1.4 to 2 times with few channels. */
    [PAIRS] = {.name = "pairs", .fits = fits_pairs, .init = init_pairs, .run = run_direct},
    /* Constant weights, few positions: 1.1 to 1.6 times as fast as gemm (ResNet-50, open-nsfw). */
    [PACKED] = {.name = "packed", .fits = fits_packed, .pays = packed_pays, .run = run_packed},
    /* 1.2 to 1.8 times as fast as the better of gemm and direct (ResNet-50, U-Net, YOLO). */
    [WINOGRAD] = {.name = "winograd",
                  .fits = fits_winograd,
                  .pays = correlation_winograd_pays,
                  .init = init_winograd,
                  .run = run_winograd},
    /* 1 x 1: 1.1 to 1.4 times as fast as direct in float (ResNet-50), twice in bfloat16 with AVX-512's dot products. */
    [GEMM] = {.name = "gemm", .pays = gemm_pays, .init = init_gemm, .run = correlation_run_gemm},
    /* 2 to 4.6 times as fast as gemm with few channels in a group (ResNeXt, MobileNetV2 with strides), 2 to 6 times for
     * gradients of few input channels (all first layers). */
    [DIRECT] = {.name = "direct", .init = init_direct, .run = run_direct},
    [REFERENCE] = {.name = "reference", .run = correlation_reference},
};

IMPLEMENTATION_FAMILY(family, "conv", implementations)

static void init_winograd(void *plan, executor *e) {
  correlation *c = plan;
  c->constant_w =
      false; /* they are not packed (winograd.c), nor for the other implementation, which is rarely needed */
  c->fallback = implementation_choose(&family, c, GEMM);
  if (c->fallback->init) c->fallback->init(c, e);
  winograd_init(&c->winograd, e);
}

uint64_t conv_packed_bytes(const correlation *c) {
  const conv_geometry *g = &c->g;
  if (!c->constant_w) return 0;
  if (c->chosen == &implementations[PACKED]) return packed_products_bytes(c);
  if (c->chosen == &implementations[PAIRS]) return pairs_packed_bytes(c);
  if (!c->copies_w) return 0;
  return (uint64_t)(conv_volume(g->kernel) * (c->chosen == &implementations[GEMM]
                                                  ? c->w.axis[2]
                                                  : g->groups * g->rows * g->channels * (int64_t)sizeof(float)));
}

bool conv_reads_weights(const correlation *c) { return c->chosen == &implementations[PAIRS] && needs_floats(c); }

uint64_t conv_packed_layout(const correlation *c) {
  const conv_geometry *g = &c->g;
  const int64_t shape[] = {c->chosen - implementations,
                           c->backward,
                           c->from.dtype,
                           c->given_w.dtype,
                           g->groups,
                           g->rows,
                           g->channels,
                           c->given_w.outer,
                           c->given_w.inner};
  uint64_t hash = hash_bytes(HASH_START, shape, sizeof shape);
  hash = hash_bytes(hash, g->kernel, sizeof g->kernel);
  return hash_bytes(hash, c->given_w.axis, sizeof c->given_w.axis);
}

void conv_pack(const correlation *c, const void *w, void *packed) {
  const correlation_operands o = {.w = w};
  phase f = phase_of_call(c, &o, c->from.dtype == ACL_FLOAT ? 4 : 2);
  if (c->chosen == &implementations[PACKED])
    packed_products_pack(c, w, packed);
  else if (c->chosen == &implementations[PAIRS])
    pairs_pack(&f, packed);
  else if (c->chosen == &implementations[GEMM])
    correlation_order_taps(c, w, packed);
  else
    copy_to_floats(c, w, packed);
}

void correlation_init(correlation *c, executor *e, const tensor *bias) {
  const conv_geometry *g = &c->g;
  const bool backward = c->backward;
  conv_join_axes(&c->g, backward ? &c->to : &c->from, backward ? &c->from : &c->to);
  c->w = c->given_w;
  c->copies_w = false;
  c->bias_dtype = bias ? bias->dtype : -1;
  if (bias) {
    c->bias_stride = (bias->rank ? bias->strides[0] : 1) * (int64_t)dtype_bytes(bias->dtype);
    c->bias_at = workspace_copy(e, (uint64_t)bias->n * sizeof(float));
  }
  c->taps_at = workspace_intermediate(e, (uint64_t)(2 * conv_volume(g->kernel)) * sizeof(int64_t));
  const double multiply_adds = conv_multiply_adds(g);
  const int64_t outputs = conv_volume(backward ? g->in : g->out) * (backward ? g->channels : g->rows);
  /* Outputs take 0.35 to 0.9 ns on a Zen 4 beside the products: first layers, and channel by channel. */
  c->cost_ns = conv_cost_ns(multiply_adds, 100) + (uint64_t)(g->batch * g->groups * outputs) * 2 / 5;
  c->chosen = implementation_plan(&family, c, e);
  executor_products(e, multiply_adds);
}

status correlation_run(const correlation *c, const correlation_call *call, char *scratch) {
  const int64_t rows = c->g.groups * (c->backward ? c->g.channels : c->g.rows);
  correlation_operands o = {.from = call->from,
                            .to = call->to,
                            .w = call->w,
                            .packed = call->packed,
                            .store = {.store = loops->store[c->to.dtype][COMPUTE_F32], .dtype = c->to.dtype}};
  if (unlikely(!conv_epilogue_is_plain(&c->epilogue))) {
    o.store.epilogue = &c->epilogue;
    if (call->residual) o.store.residual = (intptr_t)call->residual - (intptr_t)call->to;
  }
  if (c->bias_dtype >= 0) {
    float *const floats = (float *)(void *)(scratch + c->bias_at);
    loops->load[c->bias_dtype][COMPUTE_F32](floats, call->bias, c->bias_stride, rows);
    o.bias = floats;
  }
  return c->chosen->run(c, &o, scratch);
}
