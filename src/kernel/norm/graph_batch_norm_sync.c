/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of synchronised BatchNorm that are called by name (ops/graph.aclop), and aclnnSyncBatchNormGatherStats.
 * Here sums and sums of squares of all devices are gathered; the operators of batch_norm_sync.c join means and inverse
 * standard deviations. */
#include <math.h>

#include "base/invariant.h"
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/norm/channels.h"
#include "kernel/norm/norm.h"

enum { SYNC_TENSORS = 9 };

/* Arguments, in the executor's plan. */
typedef struct {
  int64_t n;       /* channels, or elements */
  int64_t devices; /* rows of the gathered sums */
  double eps, momentum;
  int64_t row_stride[2];           /* bytes between the rows of the sums, and of the sums of squares */
  channel_vector of[SYNC_TENSORS]; /* indexed by argument, which is also the operand index. A matrix is a vector of its
                                      rows, one after the other. */
} graph_sync_args;

/* One execution of an operator. */
typedef struct {
  const graph_sync_args *args;
  void *const *view;
} graph_sync_run;

static double graph_sync_get(const graph_sync_run *r, int argument, int64_t i) {
  return channel_get(&r->args->of[argument], r->view, i);
}

static void graph_sync_put(const graph_sync_run *r, int argument, int64_t i, double value) {
  channel_put(&r->args->of[argument], r->view, i, value);
}

/* Begins the plan of an operator whose tensors from argument `first` on have n elements each. */
static status graph_sync_plan(executor *e, const op_arg *all, int first, int64_t n, graph_sync_args **out) {
  const arg_schema *s = e->op->schema;
  graph_sync_args *g = *out = PLAN(e, graph_sync_args);
  *g = (graph_sync_args){.n = n};
  for (int i = first; i < e->op->n_args && s[i].kind == ARG_TENSOR; ++i) {
    INVARIANT(i < SYNC_TENSORS);
    TRY(channel_vector_of(all[i].tensor, s[i].name, i, n, 0, &g->of[i]));
  }
  return ST_OK;
}

/* ---- SyncBatchNormGatherStats: from the sums of all devices to the statistics of all elements -------------------- */

/* Sums are [devices, channels]. The running statistics and the outputs for them may lie in the same memory; the
 * function has no such outputs, and writes to the former, which may be empty there. */

enum {
  OF_SUM,
  OF_SQUARE_SUM,
  OF_COUNT,
  OF_MEAN,
  OF_VARIANCE,
  OF_BATCH_MEAN,
  OF_BATCH_INVSTD,
  OF_MEAN_OUT,
  OF_VARIANCE_OUT
};

static double gathered_sum(const graph_sync_run *r, int which, int64_t device, int64_t c) {
  const channel_vector *v = r->args->of + which;
  double value;
  v->load(&value, (const char *)r->view[v->view] + device * r->args->row_stride[which] + c * v->stride, v->stride, 1);
  return value;
}

/* Without elements, the mean is 0, the inverse standard deviation NaN, and the running statistics do not change. The
 * given sums are rounded, so the variance may come out below 0. */
static void gather_channel(const graph_sync_run *r, int64_t c, double n) {
  const graph_sync_args *g = r->args;
  double sum = 0, square_sum = 0;
  for (int64_t d = 0; d < g->devices; ++d) {
    sum += gathered_sum(r, OF_SUM, d, c);
    square_sum += gathered_sum(r, OF_SQUARE_SUM, d, c);
  }
  const double factor = n > 0 ? g->momentum : 0, mean = n > 0 ? sum / n : 0;
  const double about_zero = square_sum / n - mean * mean, variance = about_zero < 0 ? 0 : about_zero;
  const double unbiased = n > 1 ? variance * n / (n - 1) : 0;
  const double old_mean = graph_sync_get(r, OF_MEAN, c), old_variance = graph_sync_get(r, OF_VARIANCE, c);
  graph_sync_put(r, OF_BATCH_MEAN, c, mean);
  graph_sync_put(r, OF_BATCH_INVSTD, c, 1 / sqrt(variance + g->eps));
  graph_sync_put(r, OF_MEAN_OUT, c, (1 - factor) * old_mean + factor * mean);
  graph_sync_put(r, OF_VARIANCE_OUT, c, (1 - factor) * old_variance + factor * unbiased);
}

static status gather_sums_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const graph_sync_run r = {PLAN(e, const graph_sync_args), view};
  double n = 0;
  for (int64_t d = 0; d < r.args->devices; ++d) n += graph_sync_get(&r, OF_COUNT, d);
  for (int64_t c = 0; c < r.args->n; ++c) gather_channel(&r, c, n);
  return ST_OK;
}

/* Sets the tensors with a number for each channel. The function writes to the running statistics. */
static status gather_vectors(graph_sync_args *g, const sync_gather_args *a, bool function) {
  const tensor *const mean = function && !a->mean->n ? NULL : a->mean, *const variance = function && !a->variance->n
                                                                                             ? NULL
                                                                                             : a->variance;
  TRY(channel_vector_of(mean, "mean", SYNC_GATHER_MEAN, g->n, 0, &g->of[OF_MEAN]));
  TRY(channel_vector_of(variance, "variance", SYNC_GATHER_VARIANCE, g->n, 1, &g->of[OF_VARIANCE]));
  TRY(channel_vector_of(a->batch_mean, a->name.batch_mean, SYNC_GATHER_BATCH_MEAN, g->n, 0, &g->of[OF_BATCH_MEAN]));
  TRY(channel_vector_of(a->batch_invstd, a->name.batch_invstd, SYNC_GATHER_BATCH_INVSTD, g->n, 0,
                        &g->of[OF_BATCH_INVSTD]));
  g->of[OF_MEAN_OUT] = g->of[OF_MEAN], g->of[OF_VARIANCE_OUT] = g->of[OF_VARIANCE];
  if (function) return ST_OK;
  TRY(channel_vector_of(a->mean_out, "mean_out", SYNC_GATHER_MEAN_OUT, g->n, 0, &g->of[OF_MEAN_OUT]));
  return channel_vector_of(a->variance_out, "variance_out", SYNC_GATHER_VARIANCE_OUT, g->n, 0, &g->of[OF_VARIANCE_OUT]);
}

status prepare_sync_gather(executor *e, const sync_gather_args *a) {
  const tensor *sum = a->total_sum, *square_sum = a->total_square_sum, *count = a->sample_count;
  const bool function = !a->mean_out;
  EXPECT(sum->rank == 2, "%s has %d dimensions, expected 2: devices and channels", a->name.total_sum, sum->rank);
  const int64_t devices = sum->dims[0], channels = sum->dims[1];
  TRY(op_expect_shape(square_sum, a->name.total_square_sum, sum->dims, 2));
  TRY(op_expect_dtype(count, a->name.sample_count,
                      DTYPE_BIT(ACL_INT32) | (function ? DTYPES_FLOAT_TO_32 : UINT64_C(0))));
  TRY(op_expect_shape(count, a->name.sample_count, &devices, 1));
  graph_sync_args *g = PLAN(e, graph_sync_args);
  *g = (graph_sync_args){.n = channels, .devices = devices, .momentum = a->momentum, .eps = a->eps};
  TRY(gather_vectors(g, a, function));
  const tensor *const sums[] = {sum, square_sum};
  const char *const names[] = {a->name.total_sum, a->name.total_square_sum};
  for (int i = OF_SUM; i <= OF_SQUARE_SUM; ++i) {
    TRY(op_expect_dtype(sums[i], names[i], DTYPES_FLOAT_TO_32));
    const view v = view_of(sums[i]);
    g->row_stride[i] = v.strides[0];
    g->of[i] = (channel_vector){
        .load = loops->load[v.dtype][COMPUTE_F64], .stride = v.strides[1], .view = (int8_t)(SYNC_GATHER_TOTAL_SUM + i)};
  }
  g->of[OF_COUNT] = (channel_vector){.load = loops->load[count->dtype][COMPUTE_F64],
                                     .stride = count->strides[0] * (int64_t)dtype_bytes(count->dtype),
                                     .view = SYNC_GATHER_SAMPLE_COUNT};
  executor_cost(e, (uint64_t)(devices * channels) * 8, (uint64_t)(devices * channels) * 16);
  e->run = gather_sums_run;
  return ST_OK;
}

/* ---- SyncBatchNormBackwardReduce --------------------------------------------------------------------------------- */

/* From sums of dy and dy x to sums of dy (x - mean) and dy xhat. */
static status sync_centre_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const graph_sync_run r = {PLAN(e, const graph_sync_args), view};
  for (int64_t c = 0; c < r.args->n; ++c) {
    const double centred =
        graph_sync_get(&r, GRAPH_SYNC_CENTRE_SUM_DY_DX_PAD, c) -
        graph_sync_get(&r, GRAPH_SYNC_CENTRE_SUM_DY, c) * graph_sync_get(&r, GRAPH_SYNC_CENTRE_MEAN, c);
    const double rstd = graph_sync_get(&r, GRAPH_SYNC_CENTRE_INVERT_STD, c);
    graph_sync_put(&r, GRAPH_SYNC_CENTRE_SUM_DY_XMU, c, centred);
    graph_sync_put(&r, GRAPH_SYNC_CENTRE_Y, c, centred * rstd);
  }
  return ST_OK;
}

status prepare_graph_sync_centre(executor *e, const graph_sync_centre_args *a) {
  graph_sync_args *g;
  TRY(graph_sync_plan(e, a->all, 0, a->sum_dy->n, &g));
  executor_cost(e, (uint64_t)g->n * 24, (uint64_t)g->n * 16);
  e->run = sync_centre_run;
  return ST_OK;
}

/* ---- SyncBatchNormBackwardElemt: gradients of elements, with all statistics expanded to one for each element ----- */

enum {
  GRAD_TENSORS = GRAPH_SYNC_GRAD_GRAD_INPUT + 1,
  GRAD_CHUNK = 128
}; /* elements; the doubles of a chunk take 8 KiB */

static void sync_grad_range(const void *job, int64_t begin, int64_t end) {
  const graph_sync_run *r = job;
  double v[GRAD_TENSORS][GRAD_CHUNK];
  for (int64_t from = begin; from < end; from += GRAD_CHUNK) {
    const int64_t n = end - from < GRAD_CHUNK ? end - from : GRAD_CHUNK;
    for (int k = 0; k < GRAPH_SYNC_GRAD_GRAD_INPUT; ++k) channel_get_some(&r->args->of[k], r->view, from, n, v[k]);
    for (int64_t i = 0; i < n; ++i) {
      const double rstd = v[GRAPH_SYNC_GRAD_INVSTD][i];
      const double along = (v[GRAPH_SYNC_GRAD_SAVE_INPUT][i] - v[GRAPH_SYNC_GRAD_MEAN][i]) * rstd * rstd *
                           v[GRAPH_SYNC_GRAD_MEAN_DY_XMU][i];
      v[GRAPH_SYNC_GRAD_GRAD_INPUT][i] = (v[GRAPH_SYNC_GRAD_GRAD_OUTPUT][i] - v[GRAPH_SYNC_GRAD_MEAN_DY][i] - along) *
                                         rstd * v[GRAPH_SYNC_GRAD_WEIGHT][i];
    }
    const channel_vector *out = &r->args->of[GRAPH_SYNC_GRAD_GRAD_INPUT];
    out->store((char *)r->view[GRAPH_SYNC_GRAD_GRAD_INPUT] + from * out->stride, out->stride,
               v[GRAPH_SYNC_GRAD_GRAD_INPUT], n);
  }
}

static status sync_grad_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const graph_sync_run r = {PLAN(e, const graph_sync_args), view};
  rows_parallel(sync_grad_range, &r, r.args->n, 8 * GRAD_CHUNK, e->cost_ns);
  return ST_OK;
}

status prepare_graph_sync_grad(executor *e, const graph_sync_grad_args *a) {
  const tensor *dy = a->grad_output;
  graph_sync_args *g;
  for (int k = GRAPH_SYNC_GRAD_SAVE_INPUT; k <= GRAPH_SYNC_GRAD_GRAD_INPUT; ++k)
    TRY(op_expect_same_shape(a->all[k].tensor, e->operands[k].name, dy));
  TRY(graph_sync_plan(e, a->all, 0, dy->n, &g));
  executor_cost(e, (uint64_t)g->n * 8 * sizeof(float), (uint64_t)g->n * 64);
  e->run = sync_grad_run;
  return ST_OK;
}
