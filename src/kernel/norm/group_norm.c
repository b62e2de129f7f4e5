/* SPDX-License-Identifier: Apache-2.0 */
/* GroupNorm, optionally followed by SiLU or Swish, and InstanceNorm, whose groups are single channels. The statistics
 * are written after everything else, since one client passes buffers for them that are too small and overlap. No
 * workspace is used, since that client's workspace would overlap them as well. */
#include "kernel/norm/group_norm.h"

#include <math.h>
#include <stdlib.h>

#include "kernel/families.h"

/* ---- shared with the gradient ------------------------------------------------------------------------------------ */

status group_shape_of(int64_t n, int64_t channels, int64_t positions, int64_t groups, const char *name,
                      group_shape *s) {
  EXPECT(n >= 0, "N is %jd, expected 0 or more", (intmax_t)n);
  EXPECT(positions >= 0, "HxW is %jd, expected 0 or more", (intmax_t)positions);
  EXPECT(groups > 0, "%s is %jd, expected 1 or more", name, (intmax_t)groups);
  EXPECT(channels > 0 && channels % groups == 0, "%s is %jd, expected a divisor of the number of channels, %jd", name,
         (intmax_t)groups, (intmax_t)channels);
  *s = (group_shape){.n = n, .channels = channels, .positions = positions, .groups = groups};
  return ST_OK;
}

status group_view_of(const tensor *t, const char *name, const group_shape *s, const view *like, view *v) {
  const int64_t per_group = s->channels / s->groups;
  TRY(op_expect_dtype(t, name, DTYPES_FLOAT_TO_32));
  bool has_dims = t->rank >= 2 && t->dims[0] == s->n && t->dims[1] == s->channels;
  if (like) {
    has_dims = has_dims && t->rank == like->rank - 1;
    for (int d = 2; has_dims && d < t->rank; ++d) has_dims = t->dims[d] == like->dims[d + 1];
  }
  EXPECT(t->n == s->n * s->channels * s->positions && (has_dims || t->contiguous),
         "%s has shape %s, expected [%jd, %jd, ...] with %jd elements for each", name, SHAPE_OF(t), (intmax_t)s->n,
         (intmax_t)s->channels, (intmax_t)s->positions);
  if (!has_dims) {
    const int64_t plain[] = {s->n, s->groups, per_group, s->positions};
    *v = like ? view_contiguous(t->dtype, like->rank, like->dims) : view_contiguous(t->dtype, 4, plain);
    return ST_OK;
  }
  view from;
  view_init(&from, t);
  *v = (view){.rank = from.rank + 1,
              .dtype = from.dtype,
              .dims = {s->n, s->groups, per_group},
              .strides = {from.strides[0], per_group * from.strides[1], from.strides[1]}};
  for (int d = 2; d < from.rank; ++d) {
    v->dims[d + 1] = from.dims[d];
    v->strides[d + 1] = from.strides[d];
  }
  return ST_OK;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct {
  group_shape shape;
  channel_vector gamma, beta;
  double eps;
  float swish; /* scale of Swish */
  bool has_swish;
  bool gives_variance; /* the second statistic is the variance rather than rstd */
  int8_t mean_view, rstd_view;
  view mean, rstd; /* [N, G] */
  float stats[];   /* means of all rows, then rstds */
} group_norm_state;

typedef struct {
  panel_plan rows; /* operands: x, y */
} group_norm_plan;

typedef struct {
  group_norm_state *args;
  void *const *view;
} group_norm_job;

enum { SOME_CHANNELS = 32 };

/* Normalises a row's channels, each with its own gamma and beta. */
static void apply_channels(const group_norm_job *j, int64_t row, float *y, const float *x, norm_stats s) {
  const group_norm_state *g = j->args;
  const int64_t first = group_first_channel(&g->shape, row), n = g->shape.channels / g->shape.groups;
  double gamma[SOME_CHANNELS], beta[SOME_CHANNELS];
  for (int64_t begin = 0, some; begin < n; begin += some) {
    some = i64_min(SOME_CHANNELS, n - begin);
    channel_get_some(&g->gamma, j->view, first + begin, some, gamma);
    channel_get_some(&g->beta, j->view, first + begin, some, beta);
    for (int64_t c = 0; c < some; ++c, x += g->shape.positions, y += g->shape.positions)
      norm->apply_one(y, x, ACL_FLOAT, s, (float)gamma[c], (float)beta[c], g->shape.positions);
  }
}

static void group_norm_row(const group_norm_job *j, const panel *p, int i) {
  group_norm_state *g = j->args;
  const int64_t row = p->row + i;
  const float *x = panel_floats(p, 0, i);
  float *y = panel_floats(p, 1, i);
  const norm_moments m = norm->moments(x, ACL_FLOAT, p->n);
  const double variance = m.m2 / m.n;
  const norm_stats s = {.mean = m.mean, .rstd = 1 / sqrt(variance + g->eps)};
  apply_channels(j, row, y, x, s);
  if (g->has_swish) norm->swish(y, y, g->swish, p->n);
  g->stats[row] = (float)m.mean;
  g->stats[g->shape.n * g->shape.groups + row] = (float)(g->gives_variance ? variance : s.rstd);
}

static void group_norm_panel(const void *op, const panel *p) {
  for (int i = 0; i < p->width; ++i) group_norm_row(op, p, i);
}

/* Stores a number for each group: v is [N, G]. */
static void store_numbers(char *to, const view *v, const float *numbers) {
  for (int64_t n = 0; n < v->dims[0]; ++n)
    loops->store[v->dtype][COMPUTE_F32](to + n * v->strides[0], v->strides[1], numbers + n * v->dims[1], v->dims[1]);
}

/* For empty groups, the mean is 0 and the other number NaN. */
static void stats_of_nothing(group_norm_state *g, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) {
    g->stats[i] = 0;
    g->stats[rows + i] = NAN;
  }
}

static status group_norm_run(const executor *e, void *const *view_at, void *scratch) {
  (void)scratch;
  const group_norm_plan *plan = PLAN(e, group_norm_plan);
  group_norm_state *g = e->heap;
  const group_norm_job job = {.args = g, .view = view_at};
  const panel_job rows = {.plan = &plan->rows, .view = view_at, .body = group_norm_panel, .op = &job};
  if (!plan->rows.n_rows) return ST_OK;
  TRY(panels_run(&rows, e->cost_ns));
  if (!plan->rows.n) stats_of_nothing(g, plan->rows.n_rows);
  store_numbers(view_at[g->mean_view], &g->mean, g->stats);
  store_numbers(view_at[g->rstd_view], &g->rstd, g->stats + plan->rows.n_rows);
  return ST_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

typedef struct {
  const tensor *x, *gamma, *beta, *y, *mean, *rstd;
  const char *names[6]; /* names of these arguments; their operand indices are 0 to 5 */
  view x_view, y_view;  /* [N, G, C / G, ...] */
  group_shape shape;
  double eps, swish;
  bool has_swish, gives_variance;
} group_norm_call;

static status plan_group_norm(executor *e, const group_norm_call *c) {
  enum { X, GAMMA, BETA, Y, MEAN, RSTD };
  const group_shape *s = &c->shape;
  const int64_t rows = s->n * s->groups;
  group_norm_plan *plan = PLAN(e, group_norm_plan);
  HEAP_PLAN(group_norm_state, g, e, sizeof *g + 2 * (size_t)rows * sizeof *g->stats);
  g->shape = *s;
  g->eps = c->eps;
  g->swish = (float)c->swish;
  g->has_swish = c->has_swish;
  g->gives_variance = c->gives_variance;
  g->mean_view = MEAN;
  g->rstd_view = RSTD;
  TRY(channel_vector_of(c->gamma, c->names[GAMMA], GAMMA, s->channels, 1, &g->gamma));
  TRY(channel_vector_of(c->beta, c->names[BETA], BETA, s->channels, 0, &g->beta));
  TRY(norm_rows_view(c->mean, c->names[MEAN], (const int64_t[]){s->n, s->groups}, 2, &g->mean));
  TRY(norm_rows_view(c->rstd, c->names[RSTD], (const int64_t[]){s->n, s->groups}, 2, &g->rstd));
  g->mean.rank = g->rstd.rank = 2; /* removes the trailing ones */
  panel_plan_init(&plan->rows, COMPUTE_F32, 2, c->x_view.rank - 2, c->x_view.dims);
  panel_add(&plan->rows, PANEL_READ, X, &c->x_view);
  /* Channels that end within a vector: see shares_tile in panels.c. */
  const bool apart = s->positions % 16 != 0;
  panel_add(&plan->rows, apart ? PANEL_WRITTEN_APART : PANEL_WRITTEN, Y, &c->y_view);
  panel_plan_end(&plan->rows, true);
  executor_cost(e, norm_tensor_bytes(c->x) + norm_tensor_bytes(c->y), (uint64_t)c->x->n * (c->has_swish ? 24 : 8));
  e->run = group_norm_run;
  return ST_OK;
}

static status plan_grouped(executor *e, group_norm_call *c) {
  TRY(group_view_of(c->x, c->names[0], &c->shape, NULL, &c->x_view));
  TRY(group_view_of(c->y, c->names[3], &c->shape, &c->x_view, &c->y_view));
  return plan_group_norm(e, c);
}

/* Gets the shape [N, C, ...] from x, for operators that have no arguments for it. */
static status shape_of_input(const tensor *x, const char *name, int64_t groups, const char *groups_name,
                             group_shape *s) {
  EXPECT(x->rank >= 2, "%s has %d dimensions, expected 2 or more", name, x->rank);
  int64_t positions = 1;
  for (int d = 2; d < x->rank; ++d) positions *= x->dims[d];
  return group_shape_of(x->dims[0], x->dims[1], positions, groups, groups_name, s);
}

static status expect_eps(double eps) {
  EXPECT(eps > 0, "eps is %g, expected more than 0", eps);
  return ST_OK;
}

status prepare_group_norm(executor *e, const group_norm_args *a) {
  group_norm_call c = {.x = a->self,
                       .gamma = a->gamma,
                       .beta = a->beta,
                       .y = a->out,
                       .mean = a->mean_out,
                       .rstd = a->rstd_out,
                       .names = {"self", "gamma", "beta", "out", "meanOut", "rstdOut"},
                       .eps = a->eps};
  TRY(expect_eps(c.eps));
  TRY(group_shape_of(a->n, a->c, a->hxw, a->group, "group", &c.shape));
  return plan_grouped(e, &c);
}

status prepare_group_norm_silu(executor *e, const group_norm_silu_args *a) {
  group_norm_call c = {.x = a->self,
                       .gamma = a->gamma,
                       .beta = a->beta,
                       .y = a->out,
                       .mean = a->mean_out,
                       .rstd = a->rstd_out,
                       .names = {"self", "gamma", "beta", "out", "meanOut", "rstdOut"},
                       .eps = a->eps,
                       .has_swish = e->op->variant == GROUP_NORM_SILU_V2 ? a->activate_silu : true,
                       .swish = 1};
  TRY(expect_eps(c.eps));
  TRY(shape_of_input(c.x, "self", a->group, "group", &c.shape));
  return plan_grouped(e, &c);
}

static status expect_nchw(const char *format) {
  EXPECT(!format || !strcmp(format, "NCHW"), "dataFormatOptional is \"%s\", expected NCHW", format);
  return ST_OK;
}

status prepare_group_norm_swish(executor *e, const group_norm_swish_args *a) {
  group_norm_call c = {.x = a->x,
                       .gamma = a->gamma,
                       .beta = a->beta,
                       .y = a->y_out,
                       .mean = a->mean_out,
                       .rstd = a->rstd_out,
                       .names = {"x", "gamma", "beta", "yOut", "meanOut", "rstdOut"},
                       .eps = a->eps,
                       .has_swish = a->activate_swish,
                       .swish = a->swish_scale};
  TRY(expect_nchw(a->data_format));
  TRY(shape_of_input(c.x, "x", a->num_groups, "numGroups", &c.shape));
  return plan_grouped(e, &c);
}

/* Views four dimensions as [N, C, 1, H, W]. */
static view channel_groups(const tensor *t, bool channels_last) {
  static const int order[2][4] = {{0, 1, 2, 3}, {0, 3, 1, 2}};
  const view from = view_of(t);
  view v = {.rank = 5, .dtype = from.dtype};
  for (int d = 0; d < 4; ++d) {
    const int to = d < 2 ? d : d + 1, at = order[channels_last][d];
    v.dims[to] = from.dims[at];
    v.strides[to] = from.strides[at];
  }
  v.dims[2] = 1;
  return v;
}

/* By name, the statistics may have one dimension for batches and channels. */
static const tensor *instance_statistics(const tensor *t, const tensor *x, bool channels_last, tensor *room) {
  const int64_t n = x->dims[0], channels = x->dims[channels_last ? 3 : 1];
  if (t->rank != 1 || t->n != n * channels) return t;
  *room = *t;
  room->rank = 2;
  room->dims[0] = n;
  room->dims[1] = channels;
  room->strides[1] = t->strides[0];
  room->strides[0] = t->strides[0] * channels;
  return room;
}

status prepare_instance_norm(executor *e, const instance_norm_args *a) {
  const tensor *x = a->x;
  const char *format = a->data_format;
  if (!format) return fail(ST_OP_NULL, "dataFormat is NULL, expected NCHW or NHWC");
  const bool channels_last = !strcmp(format, "NHWC");
  EXPECT(channels_last || !strcmp(format, "NCHW"), "dataFormat is \"%s\", expected NCHW or NHWC", format);
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT_TO_32));
  EXPECT(x->rank == 4, "x has %d dimensions, expected 4", x->rank);
  TRY(norm_expect(a->y, "y", x->dims, x->rank));
  tensor room[2];
  group_norm_call c = {.x = x,
                       .gamma = a->gamma,
                       .beta = a->beta,
                       .y = a->y,
                       .mean = instance_statistics(a->mean, x, channels_last, &room[0]),
                       .rstd = instance_statistics(a->variance, x, channels_last, &room[1]),
                       .names = {"x", "gamma", "beta", "y", "mean", "variance"},
                       .x_view = channel_groups(x, channels_last),
                       .y_view = channel_groups(a->y, channels_last),
                       .eps = a->eps,
                       .gives_variance = true};
  const int64_t *dims = c.x_view.dims;
  TRY(group_shape_of(dims[0], dims[1], dims[3] * dims[4], dims[1], "the number of channels", &c.shape));
  return plan_group_norm(e, &c);
}

/* By name: the layout is that of x, if it has one; MindSpore leaves data_format at its default. */
status prepare_graph_instance_norm(executor *e, const graph_instance_norm_args *a) {
  const int format = a->x->format;
  return prepare_instance_norm(e, &(instance_norm_args){.x = a->x,
                                                        .gamma = a->gamma,
                                                        .beta = a->beta,
                                                        .data_format = format == ACL_FORMAT_NCHW   ? "NCHW"
                                                                       : format == ACL_FORMAT_NHWC ? "NHWC"
                                                                                                   : a->data_format,
                                                        .eps = a->epsilon,
                                                        .y = a->y,
                                                        .mean = a->mean,
                                                        .variance = a->variance});
}
