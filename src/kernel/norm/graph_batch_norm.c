/* SPDX-License-Identifier: Apache-2.0 */
/* BatchNorm operators that are called by name (ops/graph.aclop). Sums and elements are separate operators there,
 * forward and backward. The three-dimensional operators (BN3D...) are the same. */
#include <math.h>
#include <stdlib.h>

#include "kernel/families.h"
#include "kernel/norm/batch_norm.h"

enum { MAX_TENSORS = 12 };

/* Arguments, in the executor's heap. */
typedef struct {
  batch_args batch;
  channel_vector of[MAX_TENSORS]; /* indexed by argument, which is also the operand index */
} graph_args;

static const channel_vector *graph_bn_vector_of(const batch_run *r, int argument) {
  return &((const graph_args *)r->e->heap)->of[argument];
}

static double graph_bn_get(const batch_run *r, int argument, int64_t channel) {
  return channel_get(graph_bn_vector_of(r, argument), r->view, channel);
}

static void graph_bn_put(const batch_run *r, int argument, int64_t channel, double value) {
  channel_put(graph_bn_vector_of(r, argument), r->view, channel, value);
}

static double rstd_of(const batch_run *r, double variance) { return 1 / sqrt(variance + r->args->eps); }

enum { NONE = -1 };

/* Prepares an operator. The first n_read arguments and `written` have elements; the other tensors have a number for
 * each channel. */
static status graph_bn_plan(executor *e, const op_arg *a, int n_read, int written, bool needs_sums, double eps) {
  const arg_schema *s = e->op->schema;
  const tensor *t[3] = {NULL};
  const char *names[3] = {NULL};
  batch_args *b;
  for (int k = 0; k <= n_read; ++k) {
    const int at = k < n_read ? k : written;
    if (at == NONE) continue;
    t[k] = a[at].tensor;
    names[k] = s[at].name;
    EXPECT(t[k]->origin_format != ACL_FORMAT_NHWC && t[k]->origin_format != ACL_FORMAT_NDHWC,
           "%s has its channels last, expected them second", names[k]);
  }
  TRY(batch_plan_init(e, t, names, n_read + 1, written == NONE ? 0 : written, needs_sums, &b));
  b->eps = eps;
  graph_args *g = realloc(b, sizeof *g);
  if (!g) return fail(ST_NO_HOST_MEMORY, "no host memory for the plan of %s", e->op->name);
  e->heap = g;
  for (int i = n_read; i < e->op->n_args && s[i].kind == ARG_TENSOR; ++i)
    if (i != written) TRY(channel_vector_of(a[i].tensor, s[i].name, i, g->batch.channels, 0, &g->of[i]));
  return ST_OK;
}

/* ---- BNTrainingReduce: x, sum, square_sum, epsilon --------------------------------------------------------------- */

static status graph_bn_reduce_run(const executor *e, void *const *view, void *scratch) {
  const batch_run r = batch_run_of(e, view, scratch);
  if (r.args->count) TRY(batch_moments(&r));
  for (int64_t c = 0; c < r.args->channels; ++c) {
    const norm_moments m = r.args->count ? batch_channel_moments(&r, c) : (norm_moments){0};
    graph_bn_put(&r, 1, c, m.mean * m.n);
    graph_bn_put(&r, 2, c, m.m2 + m.mean * m.mean * m.n);
  }
  return ST_OK;
}

status prepare_graph_bn_reduce(executor *e, const op_arg *a) {
  TRY(graph_bn_plan(e, a, 1, NONE, true, 0));
  e->run = graph_bn_reduce_run;
  return ST_OK;
}

/* ---- BNTrainingUpdate -------------------------------------------------------------------------------------------- */

enum {
  UPDATE_X,
  UPDATE_SUM,
  UPDATE_SQUARE_SUM,
  UPDATE_SCALE,
  UPDATE_OFFSET,
  UPDATE_MEAN,
  UPDATE_VARIANCE,
  UPDATE_Y,
  UPDATE_MEAN_OUT,
  UPDATE_VARIANCE_OUT,
  UPDATE_BATCH_MEAN,
  UPDATE_BATCH_VARIANCE,
  UPDATE_FACTOR,
  UPDATE_EPSILON
};

/* Without elements, the mean is 0, the variance NaN, and running statistics do not change. The given sums are rounded,
 * so the variance may come out below 0. */
static void update_channel(const batch_run *r, int64_t c) {
  const double n = (double)r->args->count, factor = n > 0 ? r->args->momentum : 0;
  const double mean = n > 0 ? graph_bn_get(r, UPDATE_SUM, c) / n : 0;
  const double about_zero = graph_bn_get(r, UPDATE_SQUARE_SUM, c) / n - mean * mean,
               variance = about_zero < 0 ? 0 : about_zero;
  const double unbiased = n > 1 ? variance * n / (n - 1) : 0;
  graph_bn_put(r, UPDATE_BATCH_MEAN, c, mean);
  graph_bn_put(r, UPDATE_BATCH_VARIANCE, c, variance);
  graph_bn_put(r, UPDATE_MEAN_OUT, c, (1 - factor) * graph_bn_get(r, UPDATE_MEAN, c) + factor * mean);
  graph_bn_put(r, UPDATE_VARIANCE_OUT, c, (1 - factor) * graph_bn_get(r, UPDATE_VARIANCE, c) + factor * unbiased);
  r->step[c] = (channel_step){.stats = {.mean = mean, .rstd = rstd_of(r, variance)},
                              .gamma = graph_bn_get(r, UPDATE_SCALE, c),
                              .beta = graph_bn_get(r, UPDATE_OFFSET, c)};
}

static status update_run(const executor *e, void *const *view, void *scratch) {
  const batch_run r = batch_run_of(e, view, scratch);
  for (int64_t c = 0; c < r.args->channels; ++c) update_channel(&r, c);
  return batch_apply(&r);
}

status prepare_graph_bn_update(executor *e, const op_arg *a) {
  TRY(graph_bn_plan(e, a, 1, UPDATE_Y, false, a[UPDATE_EPSILON].real));
  ((graph_args *)e->heap)->batch.momentum = a[UPDATE_FACTOR].real;
  e->run = update_run;
  return ST_OK;
}

/* ---- BNTrainingUpdateGrad: grads, x, batch_mean, batch_variance, diff_scale, diff_offset, epsilon ---------------- */

static status update_grad_run(const executor *e, void *const *view, void *scratch) {
  const batch_run r = batch_run_of(e, view, scratch);
  for (int64_t c = 0; c < r.args->channels; ++c)
    r.step[c] = (channel_step){.stats = {.mean = graph_bn_get(&r, 2, c), .rstd = rstd_of(&r, graph_bn_get(&r, 3, c))}};
  if (r.args->count) TRY(batch_grad_sums(&r));
  for (int64_t c = 0; c < r.args->channels; ++c) {
    const norm_sums s = r.args->count ? batch_channel_sums(&r, c) : (norm_sums){0};
    graph_bn_put(&r, 4, c, s.dy_xhat);
    graph_bn_put(&r, 5, c, s.dy);
  }
  return ST_OK;
}

status prepare_graph_bn_update_grad(executor *e, const op_arg *a) {
  TRY(graph_bn_plan(e, a, 2, NONE, true, a[6].real));
  e->run = update_grad_run;
  return ST_OK;
}

/* ---- BNTrainingReduceGrad: grads, x, diff_scale, diff_offset, scale, batch_mean, batch_variance, y, epsilon ------ */

static status reduce_grad_run(const executor *e, void *const *view, void *scratch) {
  const batch_run r = batch_run_of(e, view, scratch);
  const double n = (double)r.args->count;
  for (int64_t c = 0; c < r.args->channels; ++c) {
    const double gamma = graph_bn_get(&r, 4, c);
    r.step[c] = (channel_step){
        .stats = {.mean = graph_bn_get(&r, 5, c), .rstd = rstd_of(&r, graph_bn_get(&r, 6, c))},
        .gamma = gamma,
        .mean = {.dy_xhat = gamma * graph_bn_get(&r, 2, c) / n, .dy = gamma * graph_bn_get(&r, 3, c) / n}};
  }
  return batch_grad(&r);
}

status prepare_graph_bn_reduce_grad(executor *e, const op_arg *a) {
  TRY(graph_bn_plan(e, a, 2, 7, false, a[8].real));
  e->run = reduce_grad_run;
  return ST_OK;
}

/* ---- BNInfer: x, scale, offset, mean, variance, y, epsilon ------------------------------------------------------- */

static status infer_run(const executor *e, void *const *view, void *scratch) {
  const batch_run r = batch_run_of(e, view, scratch);
  for (int64_t c = 0; c < r.args->channels; ++c)
    r.step[c] = (channel_step){.stats = {.mean = graph_bn_get(&r, 3, c), .rstd = rstd_of(&r, graph_bn_get(&r, 4, c))},
                               .gamma = graph_bn_get(&r, 1, c),
                               .beta = graph_bn_get(&r, 2, c)};
  return batch_apply(&r);
}

status prepare_graph_bn_infer(executor *e, const op_arg *a) {
  TRY(graph_bn_plan(e, a, 1, 5, false, a[6].real));
  e->run = infer_run;
  return ST_OK;
}

/* ---- BNInferGrad: grads, scale, batch_variance, x_backprop, epsilon ---------------------------------------------- */

static status infer_grad_run(const executor *e, void *const *view, void *scratch) {
  const batch_run r = batch_run_of(e, view, scratch);
  for (int64_t c = 0; c < r.args->channels; ++c)
    r.step[c] = (channel_step){.stats = {.rstd = rstd_of(&r, graph_bn_get(&r, 2, c))}, .gamma = graph_bn_get(&r, 1, c)};
  return batch_apply(&r);
}

status prepare_graph_bn_infer_grad(executor *e, const op_arg *a) {
  TRY(graph_bn_plan(e, a, 1, 3, false, a[4].real));
  e->run = infer_grad_run;
  return ST_OK;
}
