/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/conv/weight_gradient.h"

#include <string.h>

#include "kernel/conv/by_channel.h"
#include "kernel/conv/correlate.h"
#include "kernel/conv/direct.h"
#include "kernel/conv/gradient_pairs.h"
#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/product/product.h"
#include "runtime/parallel.h"

enum {
  LEAST_ROWS = 8, /* rows from which on the packed GEMM is used */
  /* Dot products. */
  PIECE = 4096,          /* positions of x and y that are read together */
  IMAGE_BYTES = 1 << 24, /* padded copies of one pass */
  MOST_SUMS = 24,
  MOST_COLUMNS = 6,
  /* Packed GEMM, with blocks as in product_blocks.c. */
  BLOCK_ROWS = 126,
  BLOCK_ROWS_AMX = 256,
  DEPTH = 512,
  DEPTH_AMX = 1024,
  AT_ONCE = 32,       /* columns packed at a time, a multiple of any kernel's width */
  PART_COLUMNS = 256, /* columns of x that all rows of a chunk are multiplied by while they are in L2 */
  FEW_PARTS = 8,      /* with fewer chunks of columns, rows are split as well, to occupy the threads */
  PART_ROWS = 256,    /* rows of a chunk in this case */
};

/* ---- dot products, for few rows ---------------------------------------------------------------------------------- */

typedef struct {
  const weight_gradient *c;
  const float *x, *y;
  float *sum;          /* [groups * rows][channels * taps] */
  const int64_t *taps; /* offsets in the padded copy of x */
  int64_t n_images, n_taps;
  int64_t row_tiles, column_tiles;
} dots_job;

/* Computes the dot products of some rows of y by some columns, where a column is a tap of a channel of x. */
static void gradient_dot_tile(const dots_job *j, int64_t group, int64_t row, int64_t column) {
  const weight_gradient *c = j->c;
  const conv_geometry *g = &c->g;
  const int64_t columns = g->channels * j->n_taps, positions = c->y_image.channel;
  const int rows = (int)i64_min(direct_loops->dot_rows, g->rows - row);
  const int n = (int)i64_min(direct_loops->dot_columns, columns - column);
  float sum[MOST_SUMS] = {0};
  for (int64_t i = 0; i < j->n_images; ++i) {
    const float *y = j->y + ((i * g->groups + group) * g->rows + row) * positions;
    const float *x[MOST_COLUMNS];
    for (int k = 0; k < n; ++k) {
      const int64_t channel = (column + k) / j->n_taps, tap = (column + k) % j->n_taps;
      x[k] = j->x + ((i * g->groups + group) * g->channels + channel) * c->x_image.channel + j->taps[tap];
    }
    for (int64_t p = 0, m; p < positions; p += m) {
      m = i64_min(PIECE, positions - p);
      direct_loops->dots(y + p, positions, rows, x, n, m, sum);
      for (int k = 0; k < n; ++k) x[k] += m;
    }
  }
  float *to = j->sum + (group * g->rows + row) * columns + column;
  for (int r = 0; r < rows; ++r)
    for (int k = 0; k < n; ++k) to[r * columns + k] += sum[r * n + k];
}

static void gradient_dot_tiles(const void *job, int64_t begin, int64_t end) {
  const dots_job *j = job;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t column = i % j->column_tiles, row = i / j->column_tiles % j->row_tiles;
    gradient_dot_tile(j, i / (j->column_tiles * j->row_tiles), row * direct_loops->dot_rows,
                      column * direct_loops->dot_columns);
  }
}

typedef struct {
  const conv_image *image;
  const conv_operand *operand;
  const int64_t *dims;
  int64_t channels;
  const char *from;
  float *to;
} fill_job;

static void gradient_fill_copy(const void *job, int64_t begin, int64_t end) {
  const fill_job *j = job;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t channel = i % j->channels;
    image_fill(j->image, j->to + i * j->image->channel, j->from + i / j->channels * j->operand->outer, j->operand,
               j->dims, channel, channel + 1);
  }
}

static void dots_init(weight_gradient *c, executor *e) {
  static const int64_t zero[CONV_AXES], one[CONV_AXES] = {1, 1, 1};
  const conv_geometry *g = &c->g;
  int64_t low[CONV_AXES];
  for (int a = 0; a < CONV_AXES; ++a) low[a] = -g->pad[a];
  image_init(&c->x_image, low, g->out, g->kernel, g->stride, g->dilation);
  /* y has the order of x's padded copy, up to the last output; positions between its lines are outside of y, so 0. */
  const int64_t size[CONV_AXES] = {g->out[0], c->x_image.size[1], c->x_image.size[2]};
  image_init(&c->y_image, zero, size, one, one, one);
  const int64_t x_floats = g->groups * g->channels * c->x_image.channel,
                y_floats = g->groups * g->rows * c->y_image.channel;
  c->n_images = i64_min(g->batch, IMAGE_BYTES / ((x_floats + y_floats) * (int64_t)sizeof(float)) + 1);
  c->x_at = workspace_copy(e, (uint64_t)(c->n_images * x_floats + IMAGE_SLACK) * sizeof(float));
  c->y_at = workspace_copy(e, (uint64_t)(c->n_images * y_floats + IMAGE_SLACK) * sizeof(float));
  c->taps_at = workspace_intermediate(e, (uint64_t)conv_volume(g->kernel) * sizeof(int64_t));
}

static void run_dots(const weight_gradient *c, const char *x, const char *y, float *sum, char *scratch) {
  const conv_geometry *g = &c->g;
  const int64_t volume = conv_volume(g->kernel);
  int64_t *const taps = (int64_t *)(void *)(scratch + c->taps_at);
  float *const x_to = (float *)(void *)(scratch + c->x_at), *const y_to = (float *)(void *)(scratch + c->y_at);
  for (int64_t t = 0; t < volume; ++t)
    taps[t] = image_tap(&c->x_image, (const int64_t[]){t / (g->kernel[1] * g->kernel[2]),
                                                       t / g->kernel[2] % g->kernel[1], t % g->kernel[2]});
  dots_job job = {.c = c, .x = x_to, .y = y_to, .sum = sum, .taps = taps, .n_taps = volume};
  job.row_tiles = (g->rows + direct_loops->dot_rows - 1) / direct_loops->dot_rows;
  job.column_tiles = (g->channels * volume + direct_loops->dot_columns - 1) / direct_loops->dot_columns;
  memset(sum, 0, (size_t)(g->groups * g->rows * g->channels * volume) * sizeof *sum);
  /* Vectors read behind the last channel of x. These values are multiplied by 0, so they must be finite. */
  const int64_t x_floats = g->groups * g->channels * c->x_image.channel;
  memset(x_to + c->n_images * x_floats, 0, IMAGE_SLACK * sizeof *x_to);
  for (int64_t i = 0; i < g->batch; i += job.n_images) {
    job.n_images = i64_min(c->n_images, g->batch - i);
    const fill_job fills[] = {{&c->x_image, &c->x, g->in, g->groups * g->channels, x + i * c->x.outer, x_to},
                              {&c->y_image, &c->y, g->out, g->groups * g->rows, y + i * c->y.outer, y_to}};
    for (int k = 0; k < 2; ++k) {
      const int64_t channels = job.n_images * fills[k].channels;
      rows_parallel(gradient_fill_copy, &fills[k], channels, 1, (uint64_t)(channels * fills[k].image->channel) / 2);
    }
    rows_parallel(gradient_dot_tiles, &job, g->groups * job.row_tiles * job.column_tiles, 1,
                  c->cost_ns / (uint64_t)g->batch * (uint64_t)job.n_images);
  }
}

/* ---- depthwise, in place ----------------------------------------------------------------------------------------- */

typedef struct {
  const weight_gradient *c;
  const channel_window *window;
  const char *x, *y;
  float *sum;
} channels_job;

static void make_channels(const void *job, int64_t begin, int64_t end) {
  const channels_job *j = job;
  const weight_gradient *c = j->c;
  const int64_t volume = conv_volume(c->g.kernel);
  for (int64_t i = begin; i < end; ++i) {
    float *const sum = j->sum + i * volume;
    memset(sum, 0, (size_t)volume * sizeof *sum);
    for (int64_t n = 0; n < c->g.batch; ++n)
      channel_loops->gradient(j->window, j->y + n * c->y.outer + i * c->y.inner, j->x + n * c->x.outer + i * c->x.inner,
                              sum);
  }
}

static void run_channels(const weight_gradient *c, const char *x, const char *y, float *sum) {
  static const int64_t no_weights[CONV_AXES];
  phase_axis axis[CONV_AXES];
  channel_window window;
  for (int a = 0; a < CONV_AXES; ++a) phase_forward(&c->g, a, &axis[a]);
  channel_window_init(&window, &c->x, c->g.in, &c->y, axis, no_weights);
  const channels_job job = {.c = c, .window = &window, .x = x, .y = y, .sum = sum};
  rows_parallel(make_channels, &job, c->g.groups, 1, c->cost_ns);
}

/* ---- packed GEMM ------------------------------------------------------------------------------------------------- */

typedef struct {
  const weight_gradient *c;
  const char *x, *y;
  char *w;
  float *sum; /* the sums of all rows; NULL: each chunk stores its results in w */
  int64_t row_parts, column_parts;
  status *result;
} products_job;

/* A chunk of the result: rows of y by columns of x, of one group. */
typedef struct {
  const char *x, *y; /* x, y, w and sum are those of the group */
  char *w;
  float *sum;
  int64_t row, rows, column, columns;
} products_part;

/* Packs the chunk's columns for positions [first, first + n). */
static void gradient_pack_columns(const weight_gradient *c, const products_part *t, char *to, char *stage,
                                  int64_t first, int64_t n) {
  const char *const direct = columns_direct(&c->x_columns, t->x, t->column, first, n);
  if (direct) {
    tile_pack_b(c->type, to, c->x.dtype, direct, c->x.axis[2], c->x.inner, n, t->columns);
    return;
  }
  for (int64_t i = 0, m; i < t->columns; i += m, to += tile_b_bytes(c->type, n, m)) {
    m = i64_min(AT_ONCE, t->columns - i);
    columns_fetch(&c->x_columns, stage, c->pitch, t->x, t->column + i, m, first, n);
    tile_pack_b(c->type, to, c->x.dtype, stage, c->x_columns.size, c->pitch, n, m);
  }
}

static void gradient_pack_rows(const weight_gradient *c, const products_part *t, char *to, char *stage, int64_t row,
                               int64_t m, int64_t first, int64_t n) {
  const char *const direct = columns_direct(&c->y_columns, t->y, row, first, n);
  if (!direct) columns_fetch(&c->y_columns, stage, c->pitch, t->y, row, m, first, n);
  tile_pack_a(c->type, to, c->y.dtype, direct ? direct : stage, direct ? c->y.inner : c->pitch,
              direct ? c->y.axis[2] : c->y_columns.size, m, n);
}

static status gradient_make_chunk(const weight_gradient *c, const products_part *t) {
  const int64_t positions = c->g.batch * conv_volume(c->g.out);
  const int64_t ld = t->sum ? c->g.channels * conv_volume(c->g.kernel) : t->columns;
  const size_t b_bytes = tile_b_bytes(c->type, c->depth, t->columns);
  const size_t a_bytes = tile_a_bytes(c->type, c->block_rows, c->depth);
  const size_t stage_bytes = (size_t)(i64_max(c->block_rows, AT_ONCE) * c->pitch);
  char *const b = scratch_take(a_bytes + b_bytes + stage_bytes + (t->sum ? 0 : (size_t)(t->rows * ld) * sizeof(float)));
  if (!b) return ST_NO_MEMORY;
  char *const a = b + b_bytes, *const stage = a + a_bytes;
  float *const sum = t->sum ? t->sum + t->row * ld + t->column : (float *)(void *)(stage + stage_bytes);
  for (int64_t p = 0, n; p < positions; p += n) {
    n = i64_min(c->depth, positions - p);
    gradient_pack_columns(c, t, b, stage, p, n);
    for (int64_t r = 0, m; r < t->rows; r += m) {
      m = i64_min(c->block_rows, t->rows - r);
      gradient_pack_rows(c, t, a, stage, t->row + r, m, p, n);
      tile_gemm(c->type, m, t->columns, n, a, b, sum + r * ld, ld, p > 0);
    }
  }
  const int64_t size = (int64_t)dtype_bytes(c->w.dtype);
  for (int64_t r = 0; !t->sum && r < t->rows; ++r)
    loops->store[c->w.dtype][COMPUTE_F32](t->w + (t->row + r) * c->w.outer + t->column * size, size, sum + r * ld,
                                          t->columns);
  return ST_OK;
}

static void gradient_make_chunks(const void *job, int64_t begin, int64_t end) {
  const products_job *j = job;
  const weight_gradient *c = j->c;
  const conv_geometry *g = &c->g;
  const int64_t columns = g->channels * conv_volume(g->kernel), parts = j->row_parts * j->column_parts;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t group = i / parts, row = i % parts / j->column_parts * c->part_rows;
    const int64_t column = i % j->column_parts * c->part_columns;
    const products_part t = {.x = j->x + group * g->channels * c->x.inner,
                             .y = j->y + group * g->rows * c->y.inner,
                             .w = j->w + group * g->rows * c->w.outer,
                             .sum = j->sum ? j->sum + group * g->rows * columns : NULL,
                             .row = row,
                             .rows = i64_min(c->part_rows, g->rows - row),
                             .column = column,
                             .columns = i64_min(c->part_columns, columns - column)};
    const status result = gradient_make_chunk(c, &t);
    if (unlikely(result != ST_OK)) __atomic_store_n(j->result, result, __ATOMIC_RELAXED);
  }
}

static void products_init(weight_gradient *c) {
  const conv_geometry *g = &c->g;
  const int64_t positions = g->batch * conv_volume(g->out), columns = g->channels * conv_volume(g->kernel);
  columns_of_input(&c->x_columns, g, &c->x);
  columns_of_output(&c->y_columns, g, &c->y);
  c->depth = columns_chunk(positions, c->type == TILE_F32 ? DEPTH : DEPTH_AMX, 64);
  c->part_columns = columns_chunk(columns, PART_COLUMNS, AT_ONCE);
  c->part_rows = columns > FEW_PARTS * PART_COLUMNS || parallel_max_threads(c->cost_ns) < 2
                     ? g->rows
                     : columns_chunk(g->rows, PART_ROWS, AT_ONCE);
  c->block_rows =
      columns_chunk(c->part_rows, c->type == TILE_F32 ? BLOCK_ROWS : BLOCK_ROWS_AMX, c->type == TILE_F32 ? 14 : 32);
  c->pitch = c->depth * (int64_t)sizeof(float) + 64; /* not a multiple of a page */
}

static status gradient_run_gemm(const weight_gradient *c, const void *x, const void *y, void *w, float *sum) {
  const conv_geometry *g = &c->g;
  status result = ST_OK;
  const products_job job = {.c = c,
                            .x = x,
                            .y = y,
                            .w = w,
                            .sum = sum,
                            .row_parts = (g->rows + c->part_rows - 1) / c->part_rows,
                            .column_parts =
                                (g->channels * conv_volume(g->kernel) + c->part_columns - 1) / c->part_columns,
                            .result = &result};
  rows_parallel(gradient_make_chunks, &job, g->groups * job.row_parts * job.column_parts, 1, c->cost_ns);
  return result;
}

/* ---- planning and execution -------------------------------------------------------------------------------------- */

void weight_gradient_init(weight_gradient *c, executor *e, const conv_geometry *g, const conv_operand *x,
                          const conv_operand *y, const conv_operand *w) {
  *c = (weight_gradient){.g = *g, .x = *x, .y = *y, .w = *w};
  conv_join_axes(&c->g, x, y);
  g = &c->g;
  bool across;
  c->by_channel = by_channel_fits(g, x, y, &across) && !across;
  c->products = g->rows >= LEAST_ROWS;
  c->type = columns_type(x->dtype, y->dtype, g->batch * conv_volume(g->out));
  const double multiply_adds = conv_multiply_adds(g);
  c->cost_ns = conv_cost_ns(multiply_adds, c->products && c->type != TILE_F32 ? 400 : 80);
  executor_products(e, multiply_adds);
  if (c->products)
    products_init(c);
  else if (!c->by_channel)
    dots_init(c, e);
  int64_t step = (int64_t)dtype_bytes(w->dtype);
  bool runs = true; /* whether a row of w is contiguous */
  for (int a = CONV_AXES - 1; a >= 0; step *= g->kernel[a--]) runs &= g->kernel[a] == 1 || w->axis[a] == step;
  runs &= g->channels == 1 || w->inner == step;
  c->direct = w->dtype == ACL_FLOAT && runs && (g->groups * g->rows == 1 || w->outer == step * g->channels);
  c->by_parts = c->products && runs && !c->direct;
  if (c->direct || c->by_parts) gradient_pairs_init(c, e);
  if (!c->pairs) winograd_gradient_init(&c->winograd, e, g, &c->x, &c->y, &c->w);
  const int64_t weights = g->groups * g->rows * g->channels * conv_volume(g->kernel);
  if (!c->direct && !c->by_parts) c->sum_at = workspace_intermediate(e, (uint64_t)weights * sizeof(float));
}

status weight_gradient_run(const weight_gradient *c, const void *x, const void *y, void *w, char *scratch) {
  const conv_geometry *g = &c->g;
  bool done = false;
  if (c->pairs) TRY(gradient_pairs_run(c, x, y, w, scratch, &done));
  if (c->winograd.fits) TRY(winograd_gradient_run(&c->winograd, x, y, w, scratch, &done));
  if (done) return ST_OK;
  float *const sum = c->direct ? w : c->by_parts ? NULL : (void *)(scratch + c->sum_at);
  if (c->by_channel)
    run_channels(c, x, y, sum);
  else if (c->products)
    TRY(gradient_run_gemm(c, x, y, w, sum));
  else
    run_dots(c, x, y, sum, scratch);
  if (c->direct || c->by_parts) return ST_OK;
  const view to = {.rank = 5,
                   .dtype = c->w.dtype,
                   .dims = {g->groups * g->rows, g->channels, g->kernel[0], g->kernel[1], g->kernel[2]},
                   .strides = {c->w.outer, c->w.inner, c->w.axis[0], c->w.axis[1], c->w.axis[2]}};
  const view from = view_contiguous(ACL_FLOAT, 5, to.dims);
  elementwise_copy(w, &to, sum, &from, c->cost_ns / 16);
  return ST_OK;
}
