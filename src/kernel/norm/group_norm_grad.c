/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of GroupNorm, and of GroupNorm followed by Swish. The gradients of gamma and beta are first summed for each
 * sample and channel, then over samples, in order and in double. */
#include <math.h>
#include <stdlib.h>

#include "kernel/families.h"
#include "kernel/norm/group_norm.h"

enum { GAMMA, BETA, N_SUMS };

typedef struct {
  group_shape shape;
  channel_vector gamma, beta;
  float swish;
  bool has_swish;
  uint64_t scratch;      /* offset in the workspace; doubles: the sums, [GAMMA, BETA][N][C], then gamma and beta, [C] */
  int8_t dx, mean, rstd; /* operand indices in the plan; dx: -1 if it is not wanted */
  bool wanted[N_SUMS];
  int out_view[N_SUMS];
  view out[N_SUMS];
} group_grad_args;

typedef struct {
  panel_plan rows; /* operands: dy, x, dx, mean, rstd */
} group_grad_plan;

typedef struct {
  const group_grad_args *args;
  void *const *view;
  double *sums[N_SUMS];
  double *gamma, *beta;
} group_grad_job;

static void group_grad_row(const group_grad_job *j, const panel *p, int i) {
  const group_grad_args *g = j->args;
  const group_shape *shape = &g->shape;
  const int64_t row = p->row + i, channel = group_first_channel(shape, row), step = shape->positions,
                pitch = step * (int64_t)dtype_bytes(p->dtype);
  const char *dy = panel_row(p, 0, i), *x = panel_row(p, 1, i);
  char *dx = g->dx >= 0 ? panel_row(p, g->dx, i) : NULL;
  const norm_stats s = {.mean = *panel_floats(p, g->mean, i), .rstd = *panel_floats(p, g->rstd, i)};
  double *const dgamma = j->sums[GAMMA] + row / shape->groups * shape->channels + channel;
  double *const dbeta = j->sums[BETA] + row / shape->groups * shape->channels + channel;
  const double *const gamma = j->gamma + channel, *const beta = j->beta + channel;
  norm_sums mean = {0};
  if (g->has_swish) {
    for (int64_t c = 0; c * step < p->n; ++c)
      norm->apply_one(dx + c * pitch, x + c * pitch, p->dtype, s, (float)gamma[c], (float)beta[c], step);
    norm->swish_back((float *)(void *)dx, panel_floats(p, 0, i), (float *)(void *)dx, g->swish, p->n);
    dy = dx;
  }
  for (int64_t c = 0; c * step < p->n; ++c) {
    const norm_sums sums = norm->back_sums_one(dy + c * pitch, x + c * pitch, p->dtype, s, step);
    dgamma[c] = sums.dy_xhat;
    dbeta[c] = sums.dy;
    mean.dy += gamma[c] * sums.dy;
    mean.dy_xhat += gamma[c] * sums.dy_xhat;
  }
  mean.dy /= (double)p->n;
  mean.dy_xhat /= (double)p->n;
  for (int64_t c = 0; dx && c * step < p->n; ++c)
    norm->back_one(dx + c * pitch, dy + c * pitch, x + c * pitch, p->dtype, s, (float)gamma[c], mean, step);
}

static void group_grad_panel(const void *op, const panel *p) {
  for (int i = 0; i < p->width; ++i) group_grad_row(op, p, i);
}

/* Sums over samples, in place of the first sample's sums, and stores the results. */
static void group_grad_combine(const group_grad_job *j) {
  const group_grad_args *g = j->args;
  for (int k = 0; k < N_SUMS; ++k) {
    if (!g->wanted[k]) continue;
    double *total = j->sums[k];
    for (int64_t n = 1; n < g->shape.n; ++n)
      for (int64_t c = 0; c < g->shape.channels; ++c) total[c] += total[n * g->shape.channels + c];
    const view sums = view_contiguous(ACL_DOUBLE, g->out[k].rank, g->out[k].dims);
    elementwise_copy(j->view[g->out_view[k]], &g->out[k], total, &sums, 0);
  }
}

static status group_grad_run(const executor *e, void *const *view, void *scratch) {
  const group_grad_plan *plan = PLAN(e, group_grad_plan);
  const group_grad_args *g = e->heap;
  double *sums = (double *)(void *)((char *)scratch + g->scratch);
  const int64_t n = g->shape.n ? g->shape.n : 1, c = g->shape.channels;
  const group_grad_job job = {.args = g,
                              .view = view,
                              .sums = {sums, sums + n * c},
                              .gamma = sums + N_SUMS * n * c,
                              .beta = sums + (N_SUMS * n + 1) * c};
  channel_get_some(&g->gamma, view, 0, c, job.gamma);
  channel_get_some(&g->beta, view, 0, c, job.beta);
  const panel_job rows = {
      .plan = &plan->rows, .view = view, .body = group_grad_panel, .op = &job, .as_stored = !g->has_swish};
  if (!plan->rows.n || !plan->rows.n_rows) memset(sums, 0, (size_t)(n * c) * N_SUMS * sizeof *sums);
  TRY(panels_run(&rows, e->cost_ns));
  group_grad_combine(&job);
  return ST_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

typedef struct {
  norm_arg dy, x, mean, rstd, gamma, beta, dx, out[N_SUMS];
  group_shape shape;
  bool has_swish;
  double swish;
} group_grad_call;

static status plan_sums(executor *e, group_grad_args *g, const group_grad_call *c) {
  for (int k = 0; k < N_SUMS; ++k) {
    const tensor *t = c->out[k].t;
    g->wanted[k] = t != NULL;
    if (!t) continue;
    TRY(op_expect_dtype(t, c->out[k].name, DTYPES_FLOAT_TO_32));
    EXPECT(t->n == c->shape.channels, "%s has shape %s, expected one element for each of %jd channels", c->out[k].name,
           SHAPE_OF(t), (intmax_t)c->shape.channels);
    g->out_view[k] = c->out[k].view;
    g->out[k] = view_of(t);
  }
  const int64_t n = c->shape.n ? c->shape.n : 1;
  g->scratch = workspace_partial(e, (uint64_t)((n * N_SUMS + 2) * c->shape.channels) * sizeof(double));
  return ST_OK;
}

/* Adds an operand that has the shape of dy, whose view is `like`. */
static status add_wide(panel_plan *p, const group_grad_call *c, const norm_arg *arg, const view *like, panel_role role,
                       int8_t *index) {
  view v;
  *index = -1;
  if (!arg->t) return ST_OK;
  TRY(group_view_of(arg->t, arg->name, &c->shape, like, &v));
  *index = (int8_t)panel_add(p, role, arg->view, &v);
  return ST_OK;
}

static status plan_group_grad(executor *e, const group_grad_call *c) {
  panel_plan *p = &PLAN(e, group_grad_plan)->rows;
  HEAP_PLAN(group_grad_args, g, e, sizeof *g);
  const int64_t rows[] = {c->shape.n, c->shape.groups};
  int8_t dy, x;
  view like;
  g->shape = c->shape;
  g->swish = (float)c->swish;
  g->has_swish = c->has_swish;
  TRY(channel_vector_of(c->gamma.t, c->gamma.name, c->gamma.view, c->shape.channels, 1, &g->gamma));
  TRY(channel_vector_of(c->beta.t, c->beta.name, c->beta.view, c->shape.channels, 0, &g->beta));
  TRY(group_view_of(c->dy.t, c->dy.name, &c->shape, NULL, &like));
  panel_plan_init(p, COMPUTE_F32, 2, like.rank - 2, like.dims);
  TRY(add_wide(p, c, &c->dy, &like, PANEL_READ, &dy));
  TRY(add_wide(p, c, &c->x, &like, PANEL_READ, &x));
  TRY(add_wide(p, c, &c->dx, &like, c->has_swish ? PANEL_WRITTEN_APART : PANEL_WRITTEN, &g->dx));
  TRY(norm_add_numbers(p, rows, 2, &c->mean, PANEL_ROW_READ, &g->mean));
  TRY(norm_add_numbers(p, rows, 2, &c->rstd, PANEL_ROW_READ, &g->rstd));
  TRY(plan_sums(e, g, c));
  panel_plan_end(p, true);
  executor_cost(e, 3 * norm_tensor_bytes(c->dy.t), (uint64_t)c->dy.t->n * (c->has_swish ? 40 : 16));
  e->run = group_grad_run;
  return ST_OK;
}

status prepare_group_norm_backward(executor *e, const group_norm_backward_args *a) {
  const tensor *out[3];
  TRY(norm_masked_outputs(a->output_mask, (const tensor *const[]){a->grad_input, a->grad_gamma_out, a->grad_beta_out},
                          (const char *const[]){"gradInput", "gradGammaOut", "gradBetaOut"}, out));
  group_grad_call c = {.dy = {a->grad_out, "gradOut", GROUP_NORM_BACKWARD_GRAD_OUT},
                       .x = {a->input, "input", GROUP_NORM_BACKWARD_INPUT},
                       .mean = {a->mean, "mean", GROUP_NORM_BACKWARD_MEAN},
                       .rstd = {a->rstd, "rstd", GROUP_NORM_BACKWARD_RSTD},
                       .gamma = {a->gamma, "gamma", GROUP_NORM_BACKWARD_GAMMA},
                       .dx = {out[0], "gradInput", GROUP_NORM_BACKWARD_GRAD_INPUT},
                       .out = {{out[1], "gradGammaOut", GROUP_NORM_BACKWARD_GRAD_GAMMA_OUT},
                               {out[2], "gradBetaOut", GROUP_NORM_BACKWARD_GRAD_BETA_OUT}}};
  TRY(group_shape_of(a->n, a->c, a->hxw, a->group, "group", &c.shape));
  return plan_group_grad(e, &c);
}

status prepare_group_norm_swish_grad(executor *e, const group_norm_swish_grad_args *a) {
  const tensor *x = a->x, *dgamma = a->dgamma_out, *dbeta = a->dbeta_out;
  const char *format = a->data_format;
  EXPECT(!format || !strcmp(format, "NCHW"), "dataFormatOptional is \"%s\", expected NCHW", format);
  EXPECT(x->rank >= 2, "x has %d dimensions, expected 2 or more", x->rank);
  if (a->dgamma_is_require && !dgamma)
    return fail(ST_OP_NULL, "dgammaOut is NULL, expected a tensor as dgammaIsRequire is true");
  if (a->dbeta_is_require && !dbeta)
    return fail(ST_OP_NULL, "dbetaOut is NULL, expected a tensor as dbetaIsRequire is true");
  group_grad_call c = {.dy = {a->dy, "dy", GROUP_NORM_SWISH_GRAD_DY},
                       .mean = {a->mean, "mean", GROUP_NORM_SWISH_GRAD_MEAN},
                       .rstd = {a->rstd, "rstd", GROUP_NORM_SWISH_GRAD_RSTD},
                       .x = {x, "x", GROUP_NORM_SWISH_GRAD_X},
                       .gamma = {a->gamma, "gamma", GROUP_NORM_SWISH_GRAD_GAMMA},
                       .beta = {a->beta, "beta", GROUP_NORM_SWISH_GRAD_BETA},
                       .dx = {a->dx_out, "dxOut", GROUP_NORM_SWISH_GRAD_DX_OUT},
                       .out = {{a->dgamma_is_require ? dgamma : NULL, "dgammaOut", GROUP_NORM_SWISH_GRAD_DGAMMA_OUT},
                               {a->dbeta_is_require ? dbeta : NULL, "dbetaOut", GROUP_NORM_SWISH_GRAD_DBETA_OUT}},
                       .has_swish = true,
                       .swish = a->swish_scale};
  int64_t positions = 1;
  for (int d = 2; d < x->rank; ++d) positions *= x->dims[d];
  TRY(group_shape_of(x->dims[0], x->dims[1], positions, a->num_groups, "numGroups", &c.shape));
  return plan_group_grad(e, &c);
}
