/* SPDX-License-Identifier: Apache-2.0 */
/* BatchNorm operators that are called by name (ops/graph.aclop). Sums and elements are separate operators there,
 * forward and backward. The three-dimensional operators (BN3D...) are the same. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
/* The tensor with 1s for the dimensions that it lacks: clients give batches of vectors two or four dimensions. */
static const tensor *graph_bn_padded(const tensor *t, int rank, tensor *room) {
  if (t->rank >= rank) return t;
  *room = *t;
  while (room->rank < rank) room->dims[room->rank] = room->strides[room->rank] = 1, ++room->rank;
  return room;
}

static status graph_bn_plan(executor *e, const op_arg *all, int n_read, int written, bool needs_sums, double eps) {
  const arg_schema *s = e->op->schema;
  const tensor *t[3] = {NULL};
  const char *names[3] = {NULL};
  batch_args *b;
  for (int k = 0; k <= n_read; ++k) {
    const int at = k < n_read ? k : written;
    if (at == NONE) continue;
    t[k] = all[at].tensor;
    names[k] = s[at].name;
    EXPECT(t[k]->origin_format != ACL_FORMAT_NHWC && t[k]->origin_format != ACL_FORMAT_NDHWC,
           "%s has its channels last, expected them second", names[k]);
  }
  tensor room[3];
  int rank = 0;
  for (int k = 0; k <= n_read; ++k)
    if (t[k] && t[k]->rank > rank) rank = t[k]->rank;
  for (int k = 0; k <= n_read; ++k)
    if (t[k]) t[k] = graph_bn_padded(t[k], rank, &room[k]);
  TRY(batch_plan_init(e, t, names, n_read + 1, written == NONE ? 0 : written, needs_sums, &b));
  b->eps = eps;
  graph_args *g = realloc(b, sizeof *g);
  if (!g) return fail(ST_NO_HOST_MEMORY, "no host memory for the plan of %s", e->op->name);
  e->heap = g;
  for (int i = n_read; i < e->op->n_args && s[i].kind == ARG_TENSOR; ++i)
    if (i != written) TRY(channel_vector_of(all[i].tensor, s[i].name, i, g->batch.channels, 0, &g->of[i]));
  return ST_OK;
}

/* ---- BNTrainingReduce, and BatchNormReduce ----------------------------------------------------------------------- */

static status bn_reduce_run(const executor *e, void *const *view, void *scratch) {
  const batch_run r = batch_run_of(e, view, scratch);
  if (r.args->count) TRY(batch_moments(&r));
  for (int64_t c = 0; c < r.args->channels; ++c) {
    const norm_moments m = r.args->count ? batch_channel_moments(&r, c) : (norm_moments){0};
    graph_bn_put(&r, BN_REDUCE_SUM, c, m.mean * m.n);
    graph_bn_put(&r, BN_REDUCE_SQUARE_SUM, c, m.m2 + m.mean * m.mean * m.n);
  }
  return ST_OK;
}

status prepare_bn_reduce(executor *e, const bn_reduce_args *a) {
  TRY(graph_bn_plan(e, a->all, 1, NONE, true, 0));
  e->run = bn_reduce_run;
  return ST_OK;
}

/* ---- BNTrainingUpdate -------------------------------------------------------------------------------------------- */

/* Without elements, the mean is 0, the variance NaN, and running statistics do not change. The given sums are rounded,
 * so the variance may come out below 0. */
static void update_channel(const batch_run *r, int64_t c) {
  const double n = (double)r->args->count, factor = n > 0 ? r->args->momentum : 0;
  const double mean = n > 0 ? graph_bn_get(r, GRAPH_BN_UPDATE_SUM, c) / n : 0;
  const double about_zero = graph_bn_get(r, GRAPH_BN_UPDATE_SQUARE_SUM, c) / n - mean * mean,
               variance = about_zero < 0 ? 0 : about_zero;
  const double unbiased = n > 1 ? variance * n / (n - 1) : 0;
  graph_bn_put(r, GRAPH_BN_UPDATE_BATCH_MEAN, c, mean);
  graph_bn_put(r, GRAPH_BN_UPDATE_BATCH_VARIANCE, c, variance);
  graph_bn_put(r, GRAPH_BN_UPDATE_MEAN_OUT, c, (1 - factor) * graph_bn_get(r, GRAPH_BN_UPDATE_MEAN, c) + factor * mean);
  graph_bn_put(r, GRAPH_BN_UPDATE_VARIANCE_OUT, c,
               (1 - factor) * graph_bn_get(r, GRAPH_BN_UPDATE_VARIANCE, c) + factor * unbiased);
  r->step[c] = (channel_step){.stats = {.mean = mean, .rstd = rstd_of(r, variance)},
                              .gamma = graph_bn_get(r, GRAPH_BN_UPDATE_SCALE, c),
                              .beta = graph_bn_get(r, GRAPH_BN_UPDATE_OFFSET, c)};
}

static status update_run(const executor *e, void *const *view, void *scratch) {
  const batch_run r = batch_run_of(e, view, scratch);
  for (int64_t c = 0; c < r.args->channels; ++c) update_channel(&r, c);
  return batch_apply(&r);
}

status prepare_graph_bn_update(executor *e, const graph_bn_update_args *a) {
  TRY(graph_bn_plan(e, a->all, 1, GRAPH_BN_UPDATE_Y, false, a->epsilon));
  ((graph_args *)e->heap)->batch.momentum = a->factor;
  e->run = update_run;
  return ST_OK;
}

/* ---- BNTrainingUpdateGrad ---------------------------------------------------------------------------------------- */

static status update_grad_run(const executor *e, void *const *view, void *scratch) {
  const batch_run r = batch_run_of(e, view, scratch);
  for (int64_t c = 0; c < r.args->channels; ++c)
    r.step[c] =
        (channel_step){.stats = {.mean = graph_bn_get(&r, GRAPH_BN_UPDATE_GRAD_BATCH_MEAN, c),
                                 .rstd = rstd_of(&r, graph_bn_get(&r, GRAPH_BN_UPDATE_GRAD_BATCH_VARIANCE, c))}};
  if (r.args->count) TRY(batch_grad_sums(&r));
  for (int64_t c = 0; c < r.args->channels; ++c) {
    const norm_sums s = r.args->count ? batch_channel_sums(&r, c) : (norm_sums){0};
    graph_bn_put(&r, GRAPH_BN_UPDATE_GRAD_DIFF_SCALE, c, s.dy_xhat);
    graph_bn_put(&r, GRAPH_BN_UPDATE_GRAD_DIFF_OFFSET, c, s.dy);
  }
  return ST_OK;
}

status prepare_graph_bn_update_grad(executor *e, const graph_bn_update_grad_args *a) {
  TRY(graph_bn_plan(e, a->all, 2, NONE, true, a->epsilon));
  e->run = update_grad_run;
  return ST_OK;
}

/* ---- BNTrainingReduceGrad ---------------------------------------------------------------------------------------- */

static status reduce_grad_run(const executor *e, void *const *view, void *scratch) {
  const batch_run r = batch_run_of(e, view, scratch);
  const double n = (double)r.args->count;
  for (int64_t c = 0; c < r.args->channels; ++c) {
    const double gamma = graph_bn_get(&r, GRAPH_BN_REDUCE_GRAD_SCALE, c);
    r.step[c] = (channel_step){.stats = {.mean = graph_bn_get(&r, GRAPH_BN_REDUCE_GRAD_BATCH_MEAN, c),
                                         .rstd = rstd_of(&r, graph_bn_get(&r, GRAPH_BN_REDUCE_GRAD_BATCH_VARIANCE, c))},
                               .gamma = gamma,
                               .mean = {.dy_xhat = gamma * graph_bn_get(&r, GRAPH_BN_REDUCE_GRAD_DIFF_SCALE, c) / n,
                                        .dy = gamma * graph_bn_get(&r, GRAPH_BN_REDUCE_GRAD_DIFF_OFFSET, c) / n}};
  }
  return batch_grad(&r);
}

status prepare_graph_bn_reduce_grad(executor *e, const graph_bn_reduce_grad_args *a) {
  TRY(graph_bn_plan(e, a->all, 2, GRAPH_BN_REDUCE_GRAD_Y, false, a->epsilon));
  e->run = reduce_grad_run;
  return ST_OK;
}

/* ---- BNInfer ----------------------------------------------------------------------------------------------------- */

static status infer_run(const executor *e, void *const *view, void *scratch) {
  const batch_run r = batch_run_of(e, view, scratch);
  for (int64_t c = 0; c < r.args->channels; ++c)
    r.step[c] = (channel_step){.stats = {.mean = graph_bn_get(&r, GRAPH_BN_INFER_MEAN, c),
                                         .rstd = rstd_of(&r, graph_bn_get(&r, GRAPH_BN_INFER_VARIANCE, c))},
                               .gamma = graph_bn_get(&r, GRAPH_BN_INFER_SCALE, c),
                               .beta = graph_bn_get(&r, GRAPH_BN_INFER_OFFSET, c)};
  return batch_apply(&r);
}

status prepare_graph_bn_infer(executor *e, const graph_bn_infer_args *a) {
  TRY(graph_bn_plan(e, a->all, 1, GRAPH_BN_INFER_Y, false, a->epsilon));
  e->run = infer_run;
  return ST_OK;
}

/* ---- BNInferGrad ------------------------------------------------------------------------------------------------- */

static status infer_grad_run(const executor *e, void *const *view, void *scratch) {
  const batch_run r = batch_run_of(e, view, scratch);
  for (int64_t c = 0; c < r.args->channels; ++c)
    r.step[c] = (channel_step){.stats = {.rstd = rstd_of(&r, graph_bn_get(&r, GRAPH_BN_INFER_GRAD_BATCH_VARIANCE, c))},
                               .gamma = graph_bn_get(&r, GRAPH_BN_INFER_GRAD_SCALE, c)};
  return batch_apply(&r);
}

status prepare_graph_bn_infer_grad(executor *e, const graph_bn_infer_grad_args *a) {
  TRY(graph_bn_plan(e, a->all, 1, GRAPH_BN_INFER_GRAD_X_BACKPROP, false, a->epsilon));
  e->run = infer_grad_run;
  return ST_OK;
}

/* ---- BatchNorm --------------------------------------------------------------------------------------------------- */

static status graph_bn_run(const executor *e, void *const *view, void *scratch) {
  const batch_run r = batch_run_of(e, view, scratch);
  for (int64_t c = 0; c < r.args->channels; ++c) {
    const double mean = graph_bn_get(&r, GRAPH_BN_MEAN, c), variance = graph_bn_get(&r, GRAPH_BN_VARIANCE, c);
    r.step[c] = (channel_step){.stats = {.mean = mean, .rstd = rstd_of(&r, variance)},
                               .gamma = graph_bn_get(&r, GRAPH_BN_SCALE, c),
                               .beta = graph_bn_get(&r, GRAPH_BN_OFFSET, c)};
    graph_bn_put(&r, GRAPH_BN_BATCH_MEAN, c, mean);
    graph_bn_put(&r, GRAPH_BN_BATCH_VARIANCE, c, variance);
    graph_bn_put(&r, GRAPH_BN_RESERVE_SPACE_1, c, mean);
    graph_bn_put(&r, GRAPH_BN_RESERVE_SPACE_2, c, variance);
  }
  return batch_apply(&r);
}

status prepare_graph_bn(executor *e, const graph_bn_args *a) {
  EXPECT(!a->is_training, "is_training is true, expected false: %s computes in inference only", e->op->name);
  EXPECT(a->x->origin_format != ACL_FORMAT_ND || !strncmp(a->data_format, "NC", 2),
         "data_format is %.16s, expected NCHW or NCDHW for an x of format ND", a->data_format);
  TRY(graph_bn_plan(e, a->all, 1, GRAPH_BN_Y, false, a->epsilon));
  e->run = graph_bn_run;
  return ST_OK;
}
