#include "kernel/conv/weight_gradient.h"

#include <string.h>

#include "kernel/conv/correlate.h"
#include "kernel/conv/direct.h"
#include "kernel/conv/direct_amx.h"
#include "kernel/engine/rows.h"

enum {
  PIECE = 4096,
  IMAGE_BYTES = 1 << 24,
  MOST_SUMS = 24,
  MOST_COLUMNS = 6,
  MOST_WIDTH = 48, /* rows of w in a tile: the most vectors that any level has */
  MOST_CHANNELS = 8,
  STAGE_TAPS = 16,     /* of a tile, before they go to their places */
  COLUMN_PIECE = 1024, /* outputs of a row at a time */
  LEAST_ROWS = 8,      /* for transposing */
  LEAST_AMX = 16,      /* rows, and channels, for AMX */
  AMX_TAPS = 9,        /* of a block, before they go to their places */
  BLOCK = 16,          /* rows transposed at a time */
};

typedef struct gradient_job gradient_job;

/* ---- few rows: dot products -------------------------------------------------------------------------------------- */

struct gradient_job {
  const weight_gradient *c;
  const float *x, *y;
  float *sum;                         /* [groups * rows][channels * taps] */
  const int64_t *taps;                /* in an image of x */
  const int64_t *x_column, *y_column; /* of the columns of a piece, in an image of x and in y's transpose */
  const char *x_packed, *y_packed;
  int64_t n_images, n_taps;
  int64_t row_tiles, column_tiles;
};

/* Some rows of y by some columns, which are taps of channels. */
static void make_tile(const gradient_job *j, int64_t group, int64_t row, int64_t column) {
  const weight_gradient *c = j->c;
  const conv_geometry *g = &c->g;
  const int64_t columns = g->channels * j->n_taps, positions = c->y_image.channel;
  const int rows = (int)smaller(direct_loops->dot_rows, g->rows - row);
  const int n = (int)smaller(direct_loops->dot_columns, columns - column);
  float sum[MOST_SUMS] = {0};
  for (int64_t i = 0; i < j->n_images; ++i) {
    const float *y = j->y + ((i * g->groups + group) * g->rows + row) * positions;
    const float *x[MOST_COLUMNS];
    for (int k = 0; k < n; ++k) {
      const int64_t channel = (column + k) / j->n_taps, tap = (column + k) % j->n_taps;
      x[k] = j->x + ((i * g->groups + group) * g->channels + channel) * c->x_image.channel + j->taps[tap];
    }
    for (int64_t p = 0, m; p < positions; p += m) {
      m = smaller(PIECE, positions - p);
      direct_loops->dots(y + p, positions, rows, x, n, m, sum);
      for (int k = 0; k < n; ++k) x[k] += m;
    }
  }
  float *to = j->sum + (group * g->rows + row) * columns + column;
  for (int r = 0; r < rows; ++r)
    for (int k = 0; k < n; ++k) to[r * columns + k] += sum[r * n + k];
}

static void make_tiles(const void *job, int64_t begin, int64_t end) {
  const gradient_job *j = job;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t column = i % j->column_tiles, row = i / j->column_tiles % j->row_tiles;
    make_tile(j, i / (j->column_tiles * j->row_tiles), row * direct_loops->dot_rows,
              column * direct_loops->dot_columns);
  }
}

/* ---- many rows --------------------------------------------------------------------------------------------------- */

typedef struct {
  int64_t group, channel, row, tap; /* the first ones */
  int channels, rows, taps;
} gradient_tile;

/* Taps of a tile for one image, added to stage[tap][channel][row]. */
static void add_image(const gradient_job *j, const gradient_tile *t, int64_t image, float *stage) {
  _Alignas(64) float out[MOST_CHANNELS * MOST_WIDTH];
  const weight_gradient *c = j->c;
  const conv_geometry *g = &c->g;
  const int lanes = direct_loops->lanes, vectors = (t->rows + lanes - 1) / lanes;
  const int64_t *size = c->x_image.size, positions = conv_volume(g->out);
  const int64_t group = image * g->groups + t->group;
  direct_sums s = {.w_row = c->x_image.channel,
                   .w_channel = size[2],
                   .x_channel = g->out[2] * MOST_WIDTH,
                   .w_tap = j->x_column,
                   .x_tap = j->y_column,
                   .channels = g->out[1]};
  for (int k = 0; k < t->taps; ++k, stage += MOST_CHANNELS * MOST_WIDTH)
    for (int64_t d = 0; d < g->out[0]; ++d)
      for (int64_t w = 0; w < g->out[2]; w += s.taps) {
        s.taps = smaller(c->piece, g->out[2] - w);
        s.w = j->x + (group * g->channels + t->channel) * c->x_image.channel + j->taps[t->tap + k] +
              d * size[1] * size[2] + w;
        const int64_t position = d * g->out[1] * g->out[2] + w;
        s.x = j->y + ((group * c->panels + t->row / MOST_WIDTH) * positions + position) * MOST_WIDTH +
              t->row % MOST_WIDTH;
        direct_loops->tile(&s, t->channels, vectors, out, MOST_WIDTH);
        for (int i = 0; i < t->channels * MOST_WIDTH; i += MOST_WIDTH)
          for (int r = 0; r < vectors * lanes; ++r) stage[i + r] += out[i + r];
      }
}

static void keep_stage(const gradient_job *j, const gradient_tile *t, const float *stage) {
  const conv_geometry *g = &j->c->g;
  for (int r = 0; r < t->rows; ++r) {
    float *to = j->sum + ((t->group * g->rows + t->row + r) * g->channels + t->channel) * j->n_taps + t->tap;
    for (int c = 0; c < t->channels; ++c, to += j->n_taps)
      for (int k = 0; k < t->taps; ++k) to[k] += stage[(k * MOST_CHANNELS + c) * MOST_WIDTH + r];
  }
}

static void make_many(const void *job, int64_t begin, int64_t end) {
  _Alignas(64) float stage[STAGE_TAPS * MOST_CHANNELS * MOST_WIDTH];
  const gradient_job *j = job;
  const conv_geometry *g = &j->c->g;
  const int width = direct_loops->vectors * direct_loops->lanes;
  for (int64_t i = begin; i < end; ++i) {
    gradient_tile t = {.group = i / (j->row_tiles * j->column_tiles),
                       .channel = i % j->column_tiles * direct_loops->rows,
                       .row = i / j->column_tiles % j->row_tiles * width};
    t.channels = (int)smaller(direct_loops->rows, g->channels - t.channel);
    t.rows = (int)smaller(width, g->rows - t.row);
    for (; t.tap < j->n_taps; t.tap += t.taps) {
      t.taps = (int)smaller(STAGE_TAPS, j->n_taps - t.tap);
      memset(stage, 0, (size_t)t.taps * MOST_CHANNELS * MOST_WIDTH * sizeof *stage);
      for (int64_t n = 0; n < j->n_images; ++n) add_image(j, &t, n, stage);
      keep_stage(j, &t, stage);
    }
  }
}

typedef struct {
  const weight_gradient *c;
  const char *y;
  float *to;
} transpose_job;

/* Blocks of rows of y, of all groups and images. */
static void transpose_blocks(const void *job, int64_t begin, int64_t end) {
  _Alignas(64) float tile[BLOCK][COLUMN_PIECE / 4 + BLOCK];
  const transpose_job *j = job;
  const weight_gradient *c = j->c;
  const conv_geometry *g = &c->g;
  const int64_t blocks = (g->rows + BLOCK - 1) / BLOCK, lines = g->out[0] * g->out[1];
  memset(tile, 0, sizeof tile);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = i % blocks * BLOCK, group = i / blocks % g->groups, image = i / blocks / g->groups;
    const int64_t rows = smaller(BLOCK, g->rows - row);
    const char *from = j->y + image * c->y.outer + (group * g->rows + row) * c->y.inner;
    const int64_t panel = (image * g->groups + group) * c->panels + row / MOST_WIDTH;
    float *to = j->to + panel * lines * g->out[2] * MOST_WIDTH + row % MOST_WIDTH;
    for (int64_t line = 0; line < lines; ++line)
      for (int64_t w = 0, n; w < g->out[2]; w += n, to += n * MOST_WIDTH) {
        n = smaller(COLUMN_PIECE / 4, g->out[2] - w);
        const char *at = from + line / g->out[1] * c->y.axis[0] + line % g->out[1] * c->y.axis[1] + w * c->y.axis[2];
        for (int64_t r = 0; r < rows; ++r)
          loops->load[c->y.dtype][COMPUTE_F32](tile[r], at + r * c->y.inner, c->y.axis[2], n);
        direct_loops->transpose(to, MOST_WIDTH, tile[0], COLUMN_PIECE / 4 + BLOCK, n);
      }
  }
}

/* ---- AMX --------------------------------------------------------------------------------------------------------- */

static void add_block(float *restrict to, const float *restrict from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

static void keep_block(const gradient_job *j, const gradient_tile *t, const float *stage) {
  const conv_geometry *g = &j->c->g;
  for (int r = 0; r < t->rows; ++r) {
    float *to = j->sum + ((t->group * g->rows + t->row + r) * g->channels + t->channel) * j->n_taps + t->tap;
    for (int c = 0; c < t->channels; ++c, to += j->n_taps)
      for (int k = 0; k < t->taps; ++k) to[k] += stage[(k * AMX_ROWS + r) * AMX_ROWS + c];
  }
}

static void make_blocks(const void *job, int64_t begin, int64_t end) {
  _Alignas(64) float stage[AMX_TAPS * AMX_ROWS * AMX_ROWS], out[AMX_ROWS * AMX_ROWS];
  const gradient_job *j = job;
  const weight_gradient *c = j->c;
  const conv_geometry *g = &c->g;
  const int64_t x_bytes = amx_gradient_x_bytes(&c->packed), y_bytes = amx_gradient_y_bytes(&c->packed);
  for (int64_t i = begin; i < end; ++i) {
    gradient_tile t = {.group = i / (j->row_tiles * j->column_tiles),
                       .channel = i % j->column_tiles * AMX_ROWS,
                       .row = i / j->column_tiles % j->row_tiles * AMX_ROWS};
    t.channels = (int)smaller(AMX_ROWS, g->channels - t.channel);
    t.rows = (int)smaller(AMX_ROWS, g->rows - t.row);
    for (; t.tap < j->n_taps; t.tap += t.taps) {
      t.taps = (int)smaller(AMX_TAPS, j->n_taps - t.tap);
      for (int k = 0; k < t.taps; ++k)
        for (int64_t n = 0; n < j->n_images; ++n) {
          float *const to = stage + k * AMX_ROWS * AMX_ROWS;
          const int64_t group = n * g->groups + t.group;
          amx_gradient_block(&c->packed, j->x_packed + group * x_bytes, j->y_packed + group * y_bytes, t.row, t.channel,
                             j->taps[t.tap + k], n ? out : to);
          if (n) add_block(to, out, AMX_ROWS * AMX_ROWS);
        }
      keep_block(j, &t, stage);
    }
  }
}

static void pack_x(const void *job, int64_t begin, int64_t end) {
  const gradient_job *j = job;
  const amx_gradient *p = &j->c->packed;
  const int64_t blocks = (p->channels + BLOCK - 1) / BLOCK;
  for (int64_t i = begin; i < end; ++i)
    amx_gradient_pack_x(p, (char *)(uintptr_t)j->x_packed + i / blocks * amx_gradient_x_bytes(p),
                        j->x + i / blocks * p->channels * p->x_channel, i % blocks * BLOCK);
}

static void pack_y(const void *job, int64_t begin, int64_t end) {
  const gradient_job *j = job;
  const amx_gradient *p = &j->c->packed;
  const int64_t blocks = (p->rows + BLOCK - 1) / BLOCK;
  for (int64_t i = begin; i < end; ++i)
    amx_gradient_pack_y(p, (char *)(uintptr_t)j->y_packed + i / blocks * amx_gradient_y_bytes(p),
                        j->y + i / blocks * p->rows * p->y_channel, i % blocks * BLOCK);
}

static void run_amx(const gradient_job *j, uint64_t cost_ns) {
  const weight_gradient *c = j->c;
  const int64_t groups = j->n_images * c->g.groups;
  rows_parallel(pack_x, j, groups * ((c->g.channels + BLOCK - 1) / BLOCK), 1,
                (uint64_t)(groups * c->g.channels * c->x_image.channel) / 2);
  rows_parallel(pack_y, j, groups * ((c->g.rows + BLOCK - 1) / BLOCK), 1,
                (uint64_t)(groups * c->g.rows * c->y_image.channel) / 4);
  rows_parallel(make_blocks, j, c->g.groups * j->row_tiles * j->column_tiles, 1, cost_ns);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

typedef struct {
  const conv_image *image;
  const conv_operand *operand;
  const int64_t *dims;
  int64_t channels;
  const char *from;
  float *to;
} fill_job;

static void fill(const void *job, int64_t begin, int64_t end) {
  const fill_job *j = job;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t channel = i % j->channels;
    image_fill(j->image, j->to + i * j->image->channel, j->from + i / j->channels * j->operand->outer, j->operand,
               j->dims, channel, channel + 1);
  }
}

void weight_gradient_init(weight_gradient *c, executor *e, const conv_geometry *g, const conv_operand *x,
                          const conv_operand *y, const conv_operand *w) {
  static const int64_t zero[CONV_AXES], one[CONV_AXES] = {1, 1, 1};
  int64_t low[CONV_AXES];
  *c = (weight_gradient){.g = *g, .x = *x, .y = *y, .w = *w};
  for (int a = 0; a < CONV_AXES; ++a) low[a] = -g->pad[a];
  image_init(&c->x_image, low, g->out, g->kernel, g->stride, g->dilation);
  /* The order of x, as far as there are outputs; the columns behind them are outside of y, so 0. */
  const int64_t size[CONV_AXES] = {g->out[0], c->x_image.size[1], c->x_image.size[2]};
  image_init(&c->y_image, zero, size, one, one, one);
  const int64_t volume = conv_volume(g->kernel), weights = g->groups * g->rows * g->channels * volume;
  c->amx = x->dtype == ACL_BF16 && y->dtype == ACL_BF16 && g->rows >= LEAST_AMX && g->channels >= LEAST_AMX &&
           direct_has_amx();
  c->packed = (amx_gradient){g->channels, g->rows, c->x_image.channel, c->y_image.channel};
  c->transposes = !c->amx && g->rows >= LEAST_ROWS;
  c->panels = (g->rows + MOST_WIDTH - 1) / MOST_WIDTH;
  c->piece = smaller(g->out[2], COLUMN_PIECE);
  const int64_t y_group = c->transposes ? conv_volume(g->out) * c->panels * MOST_WIDTH : g->rows * c->y_image.channel;
  const int64_t bytes = g->groups * (g->channels * c->x_image.channel + y_group) * (int64_t)sizeof(float);
  c->n_images = smaller(g->batch, IMAGE_BYTES / bytes + 1);
  const uint64_t x_floats = (uint64_t)(c->n_images * g->groups * g->channels * c->x_image.channel) + IMAGE_SLACK;
  c->x_at = workspace_copy(e, x_floats * sizeof(float));
  c->y_at = workspace_copy(e, (uint64_t)(c->n_images * g->groups * y_group + IMAGE_SLACK) * sizeof(float));
  if (c->amx) {
    c->x_packed_at = workspace_copy(e, (uint64_t)(c->n_images * g->groups * amx_gradient_x_bytes(&c->packed)));
    c->y_packed_at = workspace_copy(e, (uint64_t)(c->n_images * g->groups * amx_gradient_y_bytes(&c->packed)));
  }
  int64_t step = sizeof(float);
  c->direct = w->dtype == ACL_FLOAT;
  for (int a = CONV_AXES - 1; a >= 0; step *= g->kernel[a--]) c->direct &= g->kernel[a] == 1 || w->axis[a] == step;
  c->direct &= (g->channels == 1 || w->inner == step) && (g->groups * g->rows == 1 || w->outer == step * g->channels);
  if (!c->direct) c->sum_at = workspace_intermediate(e, (uint64_t)weights * sizeof(float));
  c->taps_at = workspace_intermediate(e, (uint64_t)(volume + 2 * c->piece) * sizeof(int64_t));
  c->cost_ns = conv_cost_ns(g, c->amx ? 400 : 80);
}

static void prepare_y(const weight_gradient *c, const char *y, int64_t n_images, float *to) {
  const conv_geometry *g = &c->g;
  const uint64_t cost = (uint64_t)(n_images * g->groups * g->rows * conv_volume(g->out)) / 2;
  if (c->transposes) {
    const transpose_job t = {.c = c, .y = y, .to = to};
    rows_parallel(transpose_blocks, &t, n_images * g->groups * ((g->rows + BLOCK - 1) / BLOCK), 1, cost);
  } else {
    const fill_job f = {&c->y_image, &c->y, g->out, g->groups * g->rows, y, to};
    rows_parallel(fill, &f, n_images * f.channels, 1, cost);
  }
}

void weight_gradient_run(const weight_gradient *c, const void *x, const void *y, void *w, char *scratch) {
  const conv_geometry *g = &c->g;
  const int64_t volume = conv_volume(g->kernel), weights = g->groups * g->rows * g->channels * volume;
  int64_t *const taps = (int64_t *)(void *)(scratch + c->taps_at);
  float *const x_to = (float *)(void *)(scratch + c->x_at), *const y_to = (float *)(void *)(scratch + c->y_at);
  for (int64_t t = 0; t < volume; ++t)
    taps[t] = image_tap(&c->x_image, (const int64_t[]){t / (g->kernel[1] * g->kernel[2]),
                                                       t / g->kernel[2] % g->kernel[1], t % g->kernel[2]});
  gradient_job job = {.c = c, .x = x_to, .y = y_to, .taps = taps, .n_taps = volume};
  job.sum = c->direct ? w : (void *)(scratch + c->sum_at);
  job.x_column = taps + volume;
  job.y_column = job.x_column + c->piece;
  for (int64_t i = 0; i < c->piece; ++i) {
    taps[volume + i] = i;
    taps[volume + c->piece + i] = i * MOST_WIDTH;
  }
  const int64_t rows = c->transposes ? direct_loops->vectors * direct_loops->lanes : direct_loops->dot_rows;
  job.row_tiles = (g->rows + rows - 1) / rows;
  job.column_tiles = c->transposes ? (g->channels + direct_loops->rows - 1) / direct_loops->rows
                                   : (g->channels * volume + direct_loops->dot_columns - 1) / direct_loops->dot_columns;
  if (c->amx) {
    job.x_packed = scratch + c->x_packed_at;
    job.y_packed = scratch + c->y_packed_at;
    job.row_tiles = (g->rows + AMX_ROWS - 1) / AMX_ROWS;
    job.column_tiles = (g->channels + AMX_ROWS - 1) / AMX_ROWS;
  }
  memset(job.sum, 0, (size_t)weights * sizeof *job.sum);
  /* What vectors read behind the last channel of x is multiplied by 0: it must be finite. */
  const int64_t x_images = g->groups * g->channels * c->x_image.channel;
  memset(x_to + c->n_images * x_images, 0, IMAGE_SLACK * sizeof *x_to);
  for (int64_t i = 0; i < g->batch; i += job.n_images) {
    job.n_images = smaller(c->n_images, g->batch - i);
    fill_job f = {&c->x_image, &c->x, g->in, g->groups * g->channels, (const char *)x + i * c->x.outer, x_to};
    rows_parallel(fill, &f, job.n_images * f.channels, 1, (uint64_t)(job.n_images * x_images) / 2);
    prepare_y(c, (const char *)y + i * c->y.outer, job.n_images, y_to);
    const uint64_t cost = c->cost_ns / (uint64_t)g->batch * (uint64_t)job.n_images;
    if (c->amx)
      run_amx(&job, cost);
    else
      rows_parallel(c->transposes ? make_many : make_tiles, &job, g->groups * job.row_tiles * job.column_tiles, 1,
                    cost);
  }
  if (c->direct) return;
  const view to = {.rank = 5,
                   .dtype = c->w.dtype,
                   .dims = {g->groups * g->rows, g->channels, g->kernel[0], g->kernel[1], g->kernel[2]},
                   .strides = {c->w.outer, c->w.inner, c->w.axis[0], c->w.axis[1], c->w.axis[2]}};
  const view from = view_contiguous(ACL_FLOAT, 5, to.dims);
  elementwise_copy(w, &to, job.sum, &from, c->cost_ns / 16);
}
