/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of synchronised BatchNorm that are called by name (ops/graph.aclop). Here sums and sums of squares of all
 * devices are gathered; the operators of batch_norm_sync.c join means and inverse standard deviations. */
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

/* Sums are [devices, channels]. The running statistics and the outputs for them may lie in the same memory. */

/* Without elements, the mean is 0, the inverse standard deviation NaN, and the running statistics do not change. The
 * given sums are rounded, so the variance may come out below 0. */
static void gather_channel(const graph_sync_run *r, int64_t c, double n) {
  const graph_sync_args *g = r->args;
  double sum = 0, square_sum = 0;
  for (int64_t d = 0; d < g->devices; ++d) {
    sum += graph_sync_get(r, GRAPH_SYNC_GATHER_TOTAL_SUM, d * g->n + c);
    square_sum += graph_sync_get(r, GRAPH_SYNC_GATHER_TOTAL_SQUARE_SUM, d * g->n + c);
  }
  const double factor = n > 0 ? g->momentum : 0, mean = n > 0 ? sum / n : 0;
  const double about_zero = square_sum / n - mean * mean, variance = about_zero < 0 ? 0 : about_zero;
  const double unbiased = n > 1 ? variance * n / (n - 1) : 0;
  const double old_mean = graph_sync_get(r, GRAPH_SYNC_GATHER_MEAN, c),
               old_variance = graph_sync_get(r, GRAPH_SYNC_GATHER_VARIANCE, c);
  graph_sync_put(r, GRAPH_SYNC_GATHER_BATCH_MEAN, c, mean);
  graph_sync_put(r, GRAPH_SYNC_GATHER_BATCH_INVSTD, c, 1 / sqrt(variance + g->eps));
  graph_sync_put(r, GRAPH_SYNC_GATHER_MEAN_OUT, c, (1 - factor) * old_mean + factor * mean);
  graph_sync_put(r, GRAPH_SYNC_GATHER_VARIANCE_OUT, c, (1 - factor) * old_variance + factor * unbiased);
}

static status gather_sums_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const graph_sync_run r = {PLAN(e, const graph_sync_args), view};
  double n = 0;
  for (int64_t d = 0; d < r.args->devices; ++d) n += graph_sync_get(&r, GRAPH_SYNC_GATHER_SAMPLE_COUNT, d);
  for (int64_t c = 0; c < r.args->n; ++c) gather_channel(&r, c, n);
  return ST_OK;
}

status prepare_graph_sync_gather(executor *e, const graph_sync_gather_args *a) {
  const tensor *sum = a->total_sum, *square_sum = a->total_square_sum, *count = a->sample_count;
  EXPECT(sum->rank == 2, "total_sum has %d dimensions, expected 2: devices and channels", sum->rank);
  const int64_t devices = sum->dims[0], channels = sum->dims[1];
  TRY(op_expect_shape(square_sum, "total_square_sum", sum->dims, 2));
  TRY(op_expect_dtype(count, "sample_count", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_shape(count, "sample_count", &devices, 1));
  graph_sync_args *g;
  TRY(graph_sync_plan(e, a->all, GRAPH_SYNC_GATHER_MEAN, channels, &g));
  TRY(channel_vector_of(sum, "total_sum", GRAPH_SYNC_GATHER_TOTAL_SUM, devices * channels, 0,
                        &g->of[GRAPH_SYNC_GATHER_TOTAL_SUM]));
  TRY(channel_vector_of(square_sum, "total_square_sum", GRAPH_SYNC_GATHER_TOTAL_SQUARE_SUM, devices * channels, 0,
                        &g->of[GRAPH_SYNC_GATHER_TOTAL_SQUARE_SUM]));
  g->of[GRAPH_SYNC_GATHER_SAMPLE_COUNT] = (channel_vector){.load = loops->load[ACL_INT32][COMPUTE_F64],
                                                           .stride = count->strides[0] * 4,
                                                           .view = GRAPH_SYNC_GATHER_SAMPLE_COUNT};
  g->devices = devices;
  g->momentum = a->momentum;
  g->eps = a->eps;
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
