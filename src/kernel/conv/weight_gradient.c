/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/conv/weight_gradient.h"

#include <string.h>

#include "kernel/conv/by_channel.h"
#include "kernel/conv/correlate.h"
#include "kernel/conv/direct/direct.h"
#include "kernel/conv/gradient_pairs.h"
#include "kernel/conv/reference.h"
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

/* ---- where sums go ----------------------------------------------------------------------------------------------- */

/* Plans the sums of all weights, in w itself if possible. */
static void gradient_init_sums(weight_gradient *c, executor *e) {
  const int64_t weights = c->g.groups * c->g.rows * c->g.channels * conv_volume(c->g.kernel);
  if (!c->direct && !c->by_parts) c->sum_at = workspace_intermediate(e, (uint64_t)weights * sizeof(float));
}

static float *gradient_sums(const weight_gradient *c, void *w, char *scratch) {
  return c->direct ? w : c->by_parts ? NULL : (void *)(scratch + c->sum_at);
}

/* Stores the sums in w, unless they are there. */
static void gradient_store_sums(const weight_gradient *c, void *w, const float *sum) {
  const conv_geometry *g = &c->g;
  if (c->direct || c->by_parts) return;
  const view to = {.rank = 5,
                   .dtype = c->w.dtype,
                   .dims = {g->groups * g->rows, g->channels, g->kernel[0], g->kernel[1], g->kernel[2]},
                   .strides = {c->w.outer, c->w.inner, c->w.axis[0], c->w.axis[1], c->w.axis[2]}};
  const view from = view_contiguous(ACL_FLOAT, 5, to.dims);
  elementwise_copy(w, &to, sum, &from, c->cost_ns / 16);
}

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
  const int64_t columns = g->channels * j->n_taps, positions = c->dots.y_image.channel;
  const int rows = (int)i64_min(direct_loops->dot_rows, g->rows - row);
  const int n = (int)i64_min(direct_loops->dot_columns, columns - column);
  float sum[MOST_SUMS] = {0};
  for (int64_t i = 0; i < j->n_images; ++i) {
    const float *y = j->y + ((i * g->groups + group) * g->rows + row) * positions;
    const float *x[MOST_COLUMNS];
    for (int k = 0; k < n; ++k) {
      const int64_t channel = (column + k) / j->n_taps, tap = (column + k) % j->n_taps;
      x[k] = j->x + ((i * g->groups + group) * g->channels + channel) * c->dots.x_image.channel + j->taps[tap];
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

static void dots_init(void *plan, executor *e) {
  weight_gradient *c = plan;
  static const int64_t zero[CONV_AXES], one[CONV_AXES] = {1, 1, 1};
  const conv_geometry *g = &c->g;
  int64_t low[CONV_AXES];
  for (int a = 0; a < CONV_AXES; ++a) low[a] = -g->pad[a];
  image_init(&c->dots.x_image, low, g->out, g->kernel, g->stride, g->dilation);
  /* y has the order of x's padded copy, up to the last output; positions between its lines are outside of y, so 0. */
  const int64_t size[CONV_AXES] = {g->out[0], c->dots.x_image.size[1], c->dots.x_image.size[2]};
  image_init(&c->dots.y_image, zero, size, one, one, one);
  const int64_t x_floats = g->groups * g->channels * c->dots.x_image.channel,
                y_floats = g->groups * g->rows * c->dots.y_image.channel;
  c->dots.n_images = i64_min(g->batch, IMAGE_BYTES / ((x_floats + y_floats) * (int64_t)sizeof(float)) + 1);
  c->dots.x_at = workspace_copy(e, (uint64_t)(c->dots.n_images * x_floats + IMAGE_SLACK) * sizeof(float));
  c->dots.y_at = workspace_copy(e, (uint64_t)(c->dots.n_images * y_floats + IMAGE_SLACK) * sizeof(float));
  c->dots.taps_at = workspace_intermediate(e, (uint64_t)conv_volume(g->kernel) * sizeof(int64_t));
  gradient_init_sums(c, e);
}

static status run_dots(const void *plan, const void *operands, char *scratch) {
  const weight_gradient *c = plan;
  const gradient_operands *o = operands;
  float *const sum = gradient_sums(c, o->w, scratch);
  const conv_geometry *g = &c->g;
  const int64_t volume = conv_volume(g->kernel);
  int64_t *const taps = (int64_t *)(void *)(scratch + c->dots.taps_at);
  float *const x_to = (float *)(void *)(scratch + c->dots.x_at), *const y_to =
                                                                     (float *)(void *)(scratch + c->dots.y_at);
  for (int64_t t = 0; t < volume; ++t)
    taps[t] = image_tap(&c->dots.x_image, (const int64_t[]){t / (g->kernel[1] * g->kernel[2]),
                                                            t / g->kernel[2] % g->kernel[1], t % g->kernel[2]});
  dots_job job = {.c = c, .x = x_to, .y = y_to, .sum = sum, .taps = taps, .n_taps = volume};
  job.row_tiles = (g->rows + direct_loops->dot_rows - 1) / direct_loops->dot_rows;
  job.column_tiles = (g->channels * volume + direct_loops->dot_columns - 1) / direct_loops->dot_columns;
  memset(sum, 0, (size_t)(g->groups * g->rows * g->channels * volume) * sizeof *sum);
  /* Vectors read behind the last channel of x. These values are multiplied by 0, so they must be finite. */
  const int64_t x_floats = g->groups * g->channels * c->dots.x_image.channel;
  memset(x_to + c->dots.n_images * x_floats, 0, IMAGE_SLACK * sizeof *x_to);
  for (int64_t i = 0; i < g->batch; i += job.n_images) {
    job.n_images = i64_min(c->dots.n_images, g->batch - i);
    const fill_job fills[] = {{&c->dots.x_image, &c->x, g->in, g->groups * g->channels, o->x + i * c->x.outer, x_to},
                              {&c->dots.y_image, &c->y, g->out, g->groups * g->rows, o->y + i * c->y.outer, y_to}};
    for (int k = 0; k < 2; ++k) {
      const int64_t channels = job.n_images * fills[k].channels;
      rows_parallel(gradient_fill_copy, &fills[k], channels, 1, (uint64_t)(channels * fills[k].image->channel) / 2);
    }
    rows_parallel(gradient_dot_tiles, &job, g->groups * job.row_tiles * job.column_tiles, 1,
                  c->cost_ns / (uint64_t)g->batch * (uint64_t)job.n_images);
  }
  gradient_store_sums(c, o->w, sum);
  return ST_OK;
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

static bool channels_fit(void *plan) {
  weight_gradient *c = plan;
  return by_channel_fits(&c->g, &c->x, &c->y);
}

static void channels_init(void *plan, executor *e) { gradient_init_sums(plan, e); }

static status run_channels(const void *plan, const void *operands, char *scratch) {
  const weight_gradient *c = plan;
  const gradient_operands *o = operands;
  static const int64_t no_weights[CONV_AXES];
  phase_axis axis[CONV_AXES];
  channel_window window;
  for (int a = 0; a < CONV_AXES; ++a) phase_forward(&c->g, a, &axis[a]);
  channel_window_init(&window, &c->x, c->g.in, &c->y, axis, no_weights);
  const channels_job job = {.c = c, .window = &window, .x = o->x, .y = o->y, .sum = gradient_sums(c, o->w, scratch)};
  rows_parallel(make_channels, &job, c->g.groups, 1, c->cost_ns);
  gradient_store_sums(c, o->w, job.sum);
  return ST_OK;
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
  const char *const direct = columns_direct(&c->gemm.x_columns, t->x, t->column, first, n);
  if (direct) {
    tile_pack_b(c->gemm.type, to, c->x.dtype, direct, c->x.axis[2], c->x.inner, n, t->columns);
    return;
  }
  for (int64_t i = 0, m; i < t->columns; i += m, to += tile_b_bytes(c->gemm.type, n, m)) {
    m = i64_min(AT_ONCE, t->columns - i);
    columns_fetch(&c->gemm.x_columns, stage, c->gemm.pitch, t->x, t->column + i, m, first, n);
    tile_pack_b(c->gemm.type, to, c->x.dtype, stage, c->gemm.x_columns.size, c->gemm.pitch, n, m);
  }
}

static void gradient_pack_rows(const weight_gradient *c, const products_part *t, char *to, char *stage, int64_t row,
                               int64_t m, int64_t first, int64_t n) {
  const char *const direct = columns_direct(&c->gemm.y_columns, t->y, row, first, n);
  if (!direct) columns_fetch(&c->gemm.y_columns, stage, c->gemm.pitch, t->y, row, m, first, n);
  tile_pack_a(c->gemm.type, to, c->y.dtype, direct ? direct : stage, direct ? c->y.inner : c->gemm.pitch,
              direct ? c->y.axis[2] : c->gemm.y_columns.size, m, n);
}

static status gradient_make_chunk(const weight_gradient *c, const products_part *t) {
  const int64_t positions = c->g.batch * conv_volume(c->g.out);
  const int64_t ld = t->sum ? c->g.channels * conv_volume(c->g.kernel) : t->columns;
  const size_t b_bytes = tile_b_bytes(c->gemm.type, c->gemm.depth, t->columns);
  const size_t a_bytes = tile_a_bytes(c->gemm.type, c->gemm.block_rows, c->gemm.depth);
  const size_t stage_bytes = (size_t)(i64_max(c->gemm.block_rows, AT_ONCE) * c->gemm.pitch);
  char *const b = scratch_take(a_bytes + b_bytes + stage_bytes + (t->sum ? 0 : (size_t)(t->rows * ld) * sizeof(float)));
  if (!b) return ST_NO_MEMORY;
  char *const a = b + b_bytes, *const stage = a + a_bytes;
  float *const sum = t->sum ? t->sum + t->row * ld + t->column : (float *)(void *)(stage + stage_bytes);
  for (int64_t p = 0, n; p < positions; p += n) {
    n = i64_min(c->gemm.depth, positions - p);
    gradient_pack_columns(c, t, b, stage, p, n);
    for (int64_t r = 0, m; r < t->rows; r += m) {
      m = i64_min(c->gemm.block_rows, t->rows - r);
      gradient_pack_rows(c, t, a, stage, t->row + r, m, p, n);
      tile_gemm(c->gemm.type, m, t->columns, n, a, b, sum + r * ld, ld, p > 0);
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
    const int64_t group = i / parts, row = i % parts / j->column_parts * c->gemm.part_rows;
    const int64_t column = i % j->column_parts * c->gemm.part_columns;
    const products_part t = {.x = j->x + group * g->channels * c->x.inner,
                             .y = j->y + group * g->rows * c->y.inner,
                             .w = j->w + group * g->rows * c->w.outer,
                             .sum = j->sum ? j->sum + group * g->rows * columns : NULL,
                             .row = row,
                             .rows = i64_min(c->gemm.part_rows, g->rows - row),
                             .column = column,
                             .columns = i64_min(c->gemm.part_columns, columns - column)};
    const status result = gradient_make_chunk(c, &t);
    if (unlikely(result != ST_OK)) __atomic_store_n(j->result, result, __ATOMIC_RELAXED);
  }
}

static bool gradient_gemm_pays(const void *plan) { return ((const weight_gradient *)plan)->g.rows >= LEAST_ROWS; }

static void products_init(void *plan, executor *e) {
  weight_gradient *c = plan;
  const conv_geometry *g = &c->g;
  const int64_t positions = g->batch * conv_volume(g->out), columns = g->channels * conv_volume(g->kernel);
  c->gemm.type = columns_type(c->x.dtype, c->y.dtype, positions);
  if (c->gemm.type != TILE_F32) c->cost_ns = conv_cost_ns(conv_multiply_adds(g), 400);
  c->by_parts = c->contiguous && !c->direct;
  gradient_init_sums(c, e);
  columns_of_input(&c->gemm.x_columns, g, &c->x);
  columns_of_output(&c->gemm.y_columns, g, &c->y);
  c->gemm.depth = columns_chunk(positions, c->gemm.type == TILE_F32 ? DEPTH : DEPTH_AMX, 64);
  c->gemm.part_columns = columns_chunk(columns, PART_COLUMNS, AT_ONCE);
  c->gemm.part_rows = columns > FEW_PARTS * PART_COLUMNS || parallel_max_threads(c->cost_ns) < 2
                          ? g->rows
                          : columns_chunk(g->rows, PART_ROWS, AT_ONCE);
  c->gemm.block_rows = columns_chunk(c->gemm.part_rows, c->gemm.type == TILE_F32 ? BLOCK_ROWS : BLOCK_ROWS_AMX,
                                     c->gemm.type == TILE_F32 ? 14 : 32);
  c->gemm.pitch = c->gemm.depth * (int64_t)sizeof(float) + 64; /* not a multiple of a page */
}

static status gradient_run_gemm(const void *plan, const void *operands, char *scratch) {
  const weight_gradient *c = plan;
  const gradient_operands *o = operands;
  const conv_geometry *g = &c->g;
  status result = ST_OK;
  const products_job job = {.c = c,
                            .x = o->x,
                            .y = o->y,
                            .w = o->w,
                            .sum = gradient_sums(c, o->w, scratch),
                            .row_parts = (g->rows + c->gemm.part_rows - 1) / c->gemm.part_rows,
                            .column_parts = (g->channels * conv_volume(g->kernel) + c->gemm.part_columns - 1) /
                                            c->gemm.part_columns,
                            .result = &result};
  rows_parallel(gradient_make_chunks, &job, g->groups * job.row_parts * job.column_parts, 1, c->cost_ns);
  if (result == ST_OK) gradient_store_sums(c, o->w, job.sum);
  return result;
}

/* ---- implementations that another one may have to replace -------------------------------------------------------- */

static void pairs_init(void *plan, executor *e);
static void gradient_winograd_init(void *plan, executor *e);

static bool pairs_fit(void *plan) { return gradient_pairs_fits(plan); }

static bool gradient_winograd_fits(void *plan) {
  weight_gradient *c = plan;
  return winograd_gradient_fits(&c->winograd, &c->g, &c->x, &c->y, &c->w);
}

static bool gradient_winograd_pays(const void *plan) {
  return winograd_gradient_pays(&((const weight_gradient *)plan)->winograd);
}

static status run_pairs(const void *plan, const void *operands, char *scratch) {
  const weight_gradient *c = plan;
  const gradient_operands *o = operands;
  bool done;
  TRY(gradient_pairs_run(c, o->x, o->y, o->w, scratch, &done));
  return done ? ST_OK : c->fallback->run(c, o, scratch);
}

static status gradient_run_winograd(const void *plan, const void *operands, char *scratch) {
  const weight_gradient *c = plan;
  const gradient_operands *o = operands;
  bool done;
  TRY(winograd_gradient_run(&c->winograd, o->x, o->y, (float *)(void *)o->w, scratch, &done));
  return done ? ST_OK : c->fallback->run(c, o, scratch);
}

/* ---- planning and execution -------------------------------------------------------------------------------------- */

enum { DEPTHWISE, PAIRS, WINOGRAD, GEMM, DOTS, REFERENCE };
static const implementation implementations[] = {
    /* 1.2 to 2.4 times as fast as dots (MobileNetV2). */
    [DEPTHWISE] = {.name = "depthwise", .fits = channels_fit, .init = channels_init, .run = run_channels},
    [PAIRS] = {.name = "pairs", .fits = pairs_fit, .init = pairs_init, .run = run_pairs},
    /* 1.2 to 1.8 times as fast as gemm (ResNet-50, U-Net, YOLO). */
    [WINOGRAD] = {.name = "winograd",
                  .fits = gradient_winograd_fits,
                  .pays = gradient_winograd_pays,
                  .init = gradient_winograd_init,
                  .run = gradient_run_winograd},
    /* 1.2 to 8 times as fast as dots in float (ResNet-50, ViT), 1.7 to 10 times in bfloat16. */
    [GEMM] = {.name = "gemm", .pays = gradient_gemm_pays, .init = products_init, .run = gradient_run_gemm},
    /* 2 to 3.2 times as fast as gemm with few rows (ResNeXt, MobileNetV2 with strides, a U-Net's last layer). */
    [DOTS] = {.name = "dots", .init = dots_init, .run = run_dots},
    [REFERENCE] = {.name = "reference", .run = gradient_reference},
};

IMPLEMENTATION_FAMILY(family, "conv_weight", implementations)

static void init_fallback(weight_gradient *c, executor *e) {
  c->fallback = implementation_choose(&family, c, GEMM);
  if (c->fallback->init) c->fallback->init(c, e);
}

static void pairs_init(void *plan, executor *e) {
  init_fallback(plan, e);
  gradient_pairs_init(plan, e);
}

static void gradient_winograd_init(void *plan, executor *e) {
  weight_gradient *c = plan;
  init_fallback(c, e);
  winograd_gradient_init(&c->winograd, e);
}

void weight_gradient_init(weight_gradient *c, executor *e, const conv_geometry *g, const conv_operand *x,
                          const conv_operand *y, const conv_operand *w) {
  *c = (weight_gradient){.g = *g, .x = *x, .y = *y, .w = *w};
  conv_join_axes(&c->g, x, y);
  g = &c->g;
  int64_t step = (int64_t)dtype_bytes(w->dtype);
  bool runs = true; /* whether a row of w is contiguous */
  for (int a = CONV_AXES - 1; a >= 0; step *= g->kernel[a--]) runs &= g->kernel[a] == 1 || w->axis[a] == step;
  c->contiguous = runs && (g->channels == 1 || w->inner == step);
  c->direct = w->dtype == ACL_FLOAT && c->contiguous && (g->groups * g->rows == 1 || w->outer == step * g->channels);
  const double multiply_adds = conv_multiply_adds(g);
  c->cost_ns = conv_cost_ns(multiply_adds, 80);
  executor_products(e, multiply_adds);
  c->chosen = implementation_plan(&family, c, e);
}

status weight_gradient_run(const weight_gradient *c, const void *x, const void *y, void *w, char *scratch) {
  const gradient_operands o = {.x = x, .y = y, .w = w};
  return c->chosen->run(c, &o, scratch);
}
