#include "kernel/conv/weight_gradient.h"

#include <string.h>

#include "kernel/conv/correlate.h"
#include "kernel/conv/direct.h"
#include "kernel/engine/rows.h"

enum { PIECE = 4096, IMAGE_BYTES = 1 << 24, MOST_SUMS = 24, MOST_COLUMNS = 6 };

typedef struct {
  const weight_gradient *c;
  const float *x, *y;
  float *sum;          /* [groups * rows][channels * taps] */
  const int64_t *taps; /* in an image of x */
  int64_t n_images, n_taps;
  int64_t row_tiles, column_tiles;
} gradient_job;

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
  const int64_t bytes =
      g->groups * (g->channels * c->x_image.channel + g->rows * c->y_image.channel) * (int64_t)sizeof(float);
  c->n_images = smaller(g->batch, IMAGE_BYTES / bytes + 1);
  const uint64_t x_floats = (uint64_t)(c->n_images * g->groups * g->channels * c->x_image.channel) + IMAGE_SLACK;
  c->x_at = workspace_copy(e, x_floats * sizeof(float));
  c->y_at = workspace_copy(e, (uint64_t)(c->n_images * g->groups * g->rows * c->y_image.channel) * sizeof(float));
  int64_t step = sizeof(float);
  c->direct = w->dtype == ACL_FLOAT;
  for (int a = CONV_AXES - 1; a >= 0; step *= g->kernel[a--]) c->direct &= g->kernel[a] == 1 || w->axis[a] == step;
  c->direct &= (g->channels == 1 || w->inner == step) && (g->groups * g->rows == 1 || w->outer == step * g->channels);
  if (!c->direct) c->sum_at = workspace_intermediate(e, (uint64_t)weights * sizeof(float));
  c->taps_at = workspace_intermediate(e, (uint64_t)volume * sizeof(int64_t));
  c->cost_ns = conv_cost_ns(g, 80);
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
  job.row_tiles = (g->rows + direct_loops->dot_rows - 1) / direct_loops->dot_rows;
  job.column_tiles = (g->channels * volume + direct_loops->dot_columns - 1) / direct_loops->dot_columns;
  memset(job.sum, 0, (size_t)weights * sizeof *job.sum);
  /* What vectors read behind the last channel of x is multiplied by 0: it must be finite. */
  const int64_t x_images = g->groups * g->channels * c->x_image.channel;
  memset(x_to + c->n_images * x_images, 0, IMAGE_SLACK * sizeof *x_to);
  for (int64_t i = 0; i < g->batch; i += job.n_images) {
    job.n_images = smaller(c->n_images, g->batch - i);
    fill_job f = {&c->x_image, &c->x, g->in, g->groups * g->channels, (const char *)x + i * c->x.outer, x_to};
    rows_parallel(fill, &f, job.n_images * f.channels, 1, (uint64_t)(job.n_images * x_images) / 2);
    f = (fill_job){&c->y_image, &c->y, g->out, g->groups * g->rows, (const char *)y + i * c->y.outer, y_to};
    rows_parallel(fill, &f, job.n_images * f.channels, 1,
                  (uint64_t)(job.n_images * f.channels * c->y_image.channel) / 2);
    rows_parallel(make_tiles, &job, g->groups * job.row_tiles * job.column_tiles, 1,
                  c->cost_ns / (uint64_t)g->batch * (uint64_t)job.n_images);
  }
  if (c->direct) return;
  const view to = {.rank = 5,
                   .dtype = c->w.dtype,
                   .dims = {g->groups * g->rows, g->channels, g->kernel[0], g->kernel[1], g->kernel[2]},
                   .strides = {c->w.outer, c->w.inner, c->w.axis[0], c->w.axis[1], c->w.axis[2]}};
  const view from = view_contiguous(ACL_FLOAT, 5, to.dims);
  elementwise_copy(w, &to, job.sum, &from, c->cost_ns / 16);
}
