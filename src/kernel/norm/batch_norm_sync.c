/* SPDX-License-Identifier: Apache-2.0 */
/* Synchronised BatchNorm: operators for the parts of batch norm, between which statistics of several devices are
 * gathered. */
#include <math.h>
#include <stdlib.h>

#include "kernel/families.h"
#include "kernel/norm/batch_norm.h"

/* ---- Stats: a device's own mean and inverse standard deviation --------------------------------------------------- */

static status stats_run(const executor *e, void *const *view, void *scratch) {
  const batch_run r = batch_run_of(e, view, scratch);
  const batch_args *b = r.args;
  if (b->count) TRY(batch_moments(&r));
  for (int64_t c = 0; c < b->channels; ++c) {
    const norm_moments m = b->count ? batch_channel_moments(&r, c) : (norm_moments){0};
    channel_put(&b->mean, view, c, m.mean);
    channel_put(&b->rstd, view, c, 1 / sqrt(m.m2 / m.n + b->eps));
  }
  return ST_OK;
}

status prepare_batch_norm_stats(executor *e, const batch_norm_stats_args *a) {
  batch_args *b;
  TRY(batch_plan_init(e, (const tensor *const[]){a->input, NULL}, (const char *const[]){"input"}, 2, 0, true, &b));
  b->eps = a->eps;
  TRY(channel_vector_of(a->mean, "mean", BATCH_NORM_STATS_MEAN, b->channels, 0, &b->mean));
  TRY(channel_vector_of(a->invstd, "invstd", BATCH_NORM_STATS_INVSTD, b->channels, 0, &b->rstd));
  e->run = stats_run;
  return ST_OK;
}

/* ---- Elemt: elements from given statistics ----------------------------------------------------------------------- */

static norm_stats sync_given_stats(const batch_args *b, void *const *view, int64_t c) {
  return (norm_stats){.mean = channel_get(&b->mean, view, c), .rstd = channel_get(&b->rstd, view, c)};
}

static status elemt_run(const executor *e, void *const *view, void *scratch) {
  const batch_run r = batch_run_of(e, view, scratch);
  const batch_args *b = r.args;
  for (int64_t c = 0; c < b->channels; ++c)
    r.step[c] = (channel_step){.stats = sync_given_stats(b, view, c),
                               .gamma = channel_get(&b->gamma, view, c),
                               .beta = channel_get(&b->beta, view, c)};
  return batch_apply(&r);
}

status prepare_batch_norm_elemt(executor *e, const batch_norm_elemt_args *a) {
  batch_args *b;
  TRY(batch_plan_init(e, (const tensor *const[]){a->input, a->output}, (const char *const[]){"input", "output"}, 2, 5,
                      false, &b));
  TRY(channel_vector_of(a->weight, "weight", BATCH_NORM_ELEMT_WEIGHT, b->channels, 1, &b->gamma));
  TRY(channel_vector_of(a->bias, "bias", BATCH_NORM_ELEMT_BIAS, b->channels, 0, &b->beta));
  TRY(channel_vector_of(a->mean, "mean", BATCH_NORM_ELEMT_MEAN, b->channels, 0, &b->mean));
  TRY(channel_vector_of(a->invstd, "invstd", BATCH_NORM_ELEMT_INVSTD, b->channels, 0, &b->rstd));
  e->run = elemt_run;
  return ST_OK;
}

/* ---- ReduceBackward: a device's sums of its gradients ------------------------------------------------------------ */

static status sync_reduce_run(const executor *e, void *const *view, void *scratch) {
  const batch_run r = batch_run_of(e, view, scratch);
  const batch_args *b = r.args;
  for (int64_t c = 0; c < b->channels; ++c)
    r.step[c] = (channel_step){.stats = {.mean = channel_get(&b->mean, view, c), .rstd = 1}};
  if (b->count) TRY(batch_grad_sums(&r));
  for (int64_t c = 0; c < b->channels; ++c) {
    const norm_sums s = b->count ? batch_channel_sums(&r, c) : (norm_sums){0};
    channel_put(&b->sum_dy, view, c, s.dy);
    channel_put(&b->sum_dy_xmu, view, c, s.dy_xhat);
    channel_put(&b->dgamma, view, c, s.dy_xhat * channel_get(&b->rstd, view, c));
    channel_put(&b->dbeta, view, c, s.dy);
  }
  return ST_OK;
}

/* Gets the output; NULL where the flag is false. */
static status wanted_output(bool wanted, const char *flag, const tensor *given, const char *name, const tensor **t) {
  *t = wanted ? given : NULL;
  if (wanted && !given) return fail(ST_OP_NULL, "%s is NULL, expected a tensor as %s is true", name, flag);
  return ST_OK;
}

status prepare_batch_norm_reduce_backward(executor *e, const batch_norm_reduce_backward_args *a) {
  const tensor *out[4];
  batch_args *b;
  TRY(wanted_output(a->input_g, "inputG", a->sum_dy, "sumDy", &out[0]));
  TRY(wanted_output(a->input_g, "inputG", a->sum_dy_xmu, "sumDyXmu", &out[1]));
  TRY(wanted_output(a->weight_g, "weightG", a->grad_weight, "gradWeight", &out[2]));
  TRY(wanted_output(a->bias_g, "biasG", a->grad_bias, "gradBias", &out[3]));
  TRY(batch_plan_init(e, (const tensor *const[]){a->grad_out, a->input, NULL},
                      (const char *const[]){"gradOut", "input"}, 3, 0, true, &b));
  TRY(channel_vector_of(a->mean, "mean", BATCH_NORM_REDUCE_BACKWARD_MEAN, b->channels, 0, &b->mean));
  TRY(channel_vector_of(a->invstd, "invstd", BATCH_NORM_REDUCE_BACKWARD_INVSTD, b->channels, 0, &b->rstd));
  /* checked only: the sums do not include it */
  TRY(channel_vector_of(a->weight, "weight", BATCH_NORM_REDUCE_BACKWARD_WEIGHT, b->channels, 1, &b->gamma));
  TRY(channel_vector_of(out[0], "sumDy", BATCH_NORM_REDUCE_BACKWARD_SUM_DY, b->channels, 0, &b->sum_dy));
  TRY(channel_vector_of(out[1], "sumDyXmu", BATCH_NORM_REDUCE_BACKWARD_SUM_DY_XMU, b->channels, 0, &b->sum_dy_xmu));
  TRY(channel_vector_of(out[2], "gradWeight", BATCH_NORM_REDUCE_BACKWARD_GRAD_WEIGHT, b->channels, 0, &b->dgamma));
  TRY(channel_vector_of(out[3], "gradBias", BATCH_NORM_REDUCE_BACKWARD_GRAD_BIAS, b->channels, 0, &b->dbeta));
  e->run = sync_reduce_run;
  return ST_OK;
}

/* ---- ElemtBackward: gradients of elements from the sums of all devices ------------------------------------------- */

static double total_count(const batch_args *b, const void *counts, void *scratch) {
  double *count = (double *)(void *)((char *)scratch + b->counts_scratch), total = 0;
  const view plain = view_contiguous(ACL_DOUBLE, b->counts.rank, b->counts.dims);
  const int64_t n = view_elements(&b->counts);
  if (n) elementwise_copy(count, &plain, counts, &b->counts, 0);
  for (int64_t i = 0; i < n; ++i) total += count[i];
  return total;
}

static status elemt_backward_run(const executor *e, void *const *view, void *scratch) {
  const batch_run r = batch_run_of(e, view, scratch);
  const batch_args *b = r.args;
  const double n = total_count(b, view[BATCH_NORM_ELEMT_BACKWARD_COUNTER], scratch);
  for (int64_t c = 0; c < b->channels; ++c) {
    const norm_stats s = sync_given_stats(b, view, c);
    const double gamma = channel_get(&b->gamma, view, c);
    r.step[c] = (channel_step){.stats = s,
                               .gamma = gamma,
                               .mean = {.dy = gamma * channel_get(&b->sum_dy, view, c) / n,
                                        .dy_xhat = gamma * s.rstd * channel_get(&b->sum_dy_xmu, view, c) / n}};
  }
  return batch_grad(&r);
}

status prepare_batch_norm_elemt_backward(executor *e, const batch_norm_elemt_backward_args *a) {
  const tensor *counter = a->counter;
  batch_args *b;
  TRY(batch_plan_init(e, (const tensor *const[]){a->grad_out, a->input, a->grad_input},
                      (const char *const[]){"gradOut", "input", "gradInput"}, 3, 8, false, &b));
  TRY(channel_vector_of(a->mean, "mean", BATCH_NORM_ELEMT_BACKWARD_MEAN, b->channels, 0, &b->mean));
  TRY(channel_vector_of(a->invstd, "invstd", BATCH_NORM_ELEMT_BACKWARD_INVSTD, b->channels, 0, &b->rstd));
  TRY(channel_vector_of(a->weight, "weight", BATCH_NORM_ELEMT_BACKWARD_WEIGHT, b->channels, 1, &b->gamma));
  TRY(channel_vector_of(a->sum_dy, "sumDy", BATCH_NORM_ELEMT_BACKWARD_SUM_DY, b->channels, 0, &b->sum_dy));
  TRY(channel_vector_of(a->sum_dy_xmu, "sumDyXmu", BATCH_NORM_ELEMT_BACKWARD_SUM_DY_XMU, b->channels, 0,
                        &b->sum_dy_xmu));
  TRY(op_expect_dtype(counter, "counter", DTYPES_FLOAT_TO_32 | DTYPES_INDEX));
  b->counts = view_of(counter);
  b->counts_scratch = workspace_intermediate(e, (uint64_t)counter->n * sizeof(double));
  e->run = elemt_backward_run;
  return ST_OK;
}

/* ---- GatherStatsWithCounts: combines the statistics of all devices ----------------------------------------------- */

enum { GATHER_MEAN, GATHER_RSTD, GATHER_COUNTS, N_GATHERED };

/* Arguments, in the executor's heap. */
typedef struct {
  batch_args batch; /* its vectors running_mean and running_var are used, and mean and rstd, which are the results */
  int64_t devices;
  uint64_t scratch; /* offset in the workspace of the tensors as doubles */
  view from[N_GATHERED];
} gather_stats;

static status gather_run(const executor *e, void *const *view_at, void *scratch) {
  static const int view_of_input[N_GATHERED] = {BATCH_NORM_GATHER_STATS_MEAN, BATCH_NORM_GATHER_STATS_INVSTD,
                                                BATCH_NORM_GATHER_STATS_COUNTS};
  const gather_stats *g = e->heap;
  const batch_args *b = &g->batch;
  double *next = (double *)(void *)((char *)scratch + g->scratch), *at[N_GATHERED];
  for (int k = 0; k < N_GATHERED; ++k) {
    const view plain = view_contiguous(ACL_DOUBLE, g->from[k].rank, g->from[k].dims);
    at[k] = next;
    next += view_elements(&plain);
    if (g->devices) elementwise_copy(at[k], &plain, view_at[view_of_input[k]], &g->from[k], 0);
  }
  for (int64_t c = 0; c < b->channels; ++c) {
    norm_moments all = {0};
    for (int64_t d = 0; d < g->devices; ++d) {
      const double n = at[GATHER_COUNTS][d], rstd = at[GATHER_RSTD][d * b->channels + c];
      const norm_moments one = {
          .n = n, .mean = at[GATHER_MEAN][d * b->channels + c], .m2 = (1 / (rstd * rstd) - b->eps) * n};
      all = norm_moments_join(all, one);
    }
    channel_put(&b->mean, view_at, c, all.mean);
    channel_put(&b->rstd, view_at, c, 1 / sqrt(all.m2 / all.n + b->eps));
    if (all.n > 0) batch_update_running(b, view_at, c, all);
  }
  return ST_OK;
}

status prepare_batch_norm_gather_stats(executor *e, const batch_norm_gather_stats_args *a) {
  const tensor *input = a->input, *counts = a->counts;
  TRY(op_expect_dtype(input, "input", DTYPES_FLOAT_TO_32));
  EXPECT(input->rank >= 2, "input has %d dimensions, expected 2 or more", input->rank);
  TRY(op_expect_dtype(counts, "counts", DTYPES_FLOAT_TO_32 | DTYPES_INDEX));
  EXPECT(counts->rank == 1, "counts has %d dimensions, expected 1", counts->rank);
  const int64_t dims[] = {counts->dims[0], input->dims[1]};
  TRY(norm_expect(a->mean, "mean", dims, 2));
  TRY(norm_expect(a->invstd, "invstd", dims, 2));

  HEAP_PLAN(gather_stats, g, e, sizeof *g);
  *g = (gather_stats){.batch = {.channels = dims[1], .momentum = a->momentum, .eps = a->eps},
                      .devices = dims[0],
                      .from = {view_of(a->mean), view_of(a->invstd), view_of(counts)}};
  batch_args *b = &g->batch;
  TRY(channel_vector_of(a->running_mean, "runningMean", BATCH_NORM_GATHER_STATS_RUNNING_MEAN, b->channels, 0,
                        &b->running_mean));
  TRY(channel_vector_of(a->running_var, "runningVar", BATCH_NORM_GATHER_STATS_RUNNING_VAR, b->channels, 1,
                        &b->running_var));
  TRY(channel_vector_of(a->mean_all, "meanAll", BATCH_NORM_GATHER_STATS_MEAN_ALL, b->channels, 0, &b->mean));
  TRY(channel_vector_of(a->invstd_all, "invstdAll", BATCH_NORM_GATHER_STATS_INVSTD_ALL, b->channels, 0, &b->rstd));
  g->scratch = workspace_intermediate(e, (uint64_t)(dims[0] * (2 * dims[1] + 1)) * sizeof(double));
  executor_cost(e, (uint64_t)(dims[0] * dims[1]) * 16, (uint64_t)(dims[0] * dims[1]) * 16);
  e->run = gather_run;
  return ST_OK;
}
