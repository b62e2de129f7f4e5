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

status prepare_batch_norm_stats(executor *e, const op_arg *a) {
  batch_args *b;
  TRY(batch_plan_init(e, (const tensor *const[]){a[0].tensor, NULL}, (const char *const[]){"input"}, 2, 0, true, &b));
  b->eps = a[1].real;
  TRY(channel_vector_of(a[2].tensor, "mean", 1, b->channels, 0, &b->mean));
  TRY(channel_vector_of(a[3].tensor, "invstd", 2, b->channels, 0, &b->rstd));
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

status prepare_batch_norm_elemt(executor *e, const op_arg *a) {
  batch_args *b;
  TRY(batch_plan_init(e, (const tensor *const[]){a[0].tensor, a[6].tensor}, (const char *const[]){"input", "output"}, 2,
                      5, false, &b));
  TRY(channel_vector_of(a[1].tensor, "weight", 1, b->channels, 1, &b->gamma));
  TRY(channel_vector_of(a[2].tensor, "bias", 2, b->channels, 0, &b->beta));
  TRY(channel_vector_of(a[3].tensor, "mean", 3, b->channels, 0, &b->mean));
  TRY(channel_vector_of(a[4].tensor, "invstd", 4, b->channels, 0, &b->rstd));
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
static status wanted_output(const executor *e, const op_arg *a, int output, int flag, const tensor **t) {
  *t = a[flag].boolean ? a[output].tensor : NULL;
  if (a[flag].boolean && !*t)
    return fail(ST_OP_NULL, "%s is NULL, expected a tensor as %s is true", e->op->schema[output].name,
                e->op->schema[flag].name);
  return ST_OK;
}

status prepare_batch_norm_reduce_backward(executor *e, const op_arg *a) {
  static const int flag_of[] = {5, 5, 6, 7};
  const tensor *out[4];
  batch_args *b;
  for (int k = 0; k < 4; ++k) TRY(wanted_output(e, a, 8 + k, flag_of[k], &out[k]));
  TRY(batch_plan_init(e, (const tensor *const[]){a[0].tensor, a[1].tensor, NULL},
                      (const char *const[]){"gradOut", "input"}, 3, 0, true, &b));
  TRY(channel_vector_of(a[2].tensor, "mean", 2, b->channels, 0, &b->mean));
  TRY(channel_vector_of(a[3].tensor, "invstd", 3, b->channels, 0, &b->rstd));
  /* checked only: the sums do not include it */
  TRY(channel_vector_of(a[4].tensor, "weight", 4, b->channels, 1, &b->gamma));
  TRY(channel_vector_of(out[0], "sumDy", 5, b->channels, 0, &b->sum_dy));
  TRY(channel_vector_of(out[1], "sumDyXmu", 6, b->channels, 0, &b->sum_dy_xmu));
  TRY(channel_vector_of(out[2], "gradWeight", 7, b->channels, 0, &b->dgamma));
  TRY(channel_vector_of(out[3], "gradBias", 8, b->channels, 0, &b->dbeta));
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
  const double n = total_count(b, view[7], scratch);
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

status prepare_batch_norm_elemt_backward(executor *e, const op_arg *a) {
  const tensor *counter = a[7].tensor;
  batch_args *b;
  TRY(batch_plan_init(e, (const tensor *const[]){a[0].tensor, a[1].tensor, a[8].tensor},
                      (const char *const[]){"gradOut", "input", "gradInput"}, 3, 8, false, &b));
  TRY(channel_vector_of(a[2].tensor, "mean", 2, b->channels, 0, &b->mean));
  TRY(channel_vector_of(a[3].tensor, "invstd", 3, b->channels, 0, &b->rstd));
  TRY(channel_vector_of(a[4].tensor, "weight", 4, b->channels, 1, &b->gamma));
  TRY(channel_vector_of(a[5].tensor, "sumDy", 5, b->channels, 0, &b->sum_dy));
  TRY(channel_vector_of(a[6].tensor, "sumDyXmu", 6, b->channels, 0, &b->sum_dy_xmu));
  TRY(op_expect_dtype(counter, "counter", DTYPES_NORM | DTYPES_INDEX));
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
} gather_args;

static status gather_run(const executor *e, void *const *view_at, void *scratch) {
  static const int view_of_input[N_GATHERED] = {1, 2, 5};
  const gather_args *g = e->heap;
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

status prepare_batch_norm_gather_stats(executor *e, const op_arg *a) {
  const tensor *input = a[0].tensor, *counts = a[7].tensor;
  TRY(op_expect_dtype(input, "input", DTYPES_NORM));
  EXPECT(input->rank >= 2, "input has %d dimensions, expected 2 or more", input->rank);
  TRY(op_expect_dtype(counts, "counts", DTYPES_NORM | DTYPES_INDEX));
  EXPECT(counts->rank == 1, "counts has %d dimensions, expected 1", counts->rank);
  const int64_t dims[] = {counts->dims[0], input->dims[1]};
  TRY(norm_expect(a[1].tensor, "mean", dims, 2));
  TRY(norm_expect(a[2].tensor, "invstd", dims, 2));

  gather_args *g = e->heap = malloc(sizeof *g);
  if (!g) return fail(ST_NO_HOST_MEMORY, "no host memory for the plan of %s", e->op->name);
  *g = (gather_args){.batch = {.channels = dims[1], .momentum = a[5].real, .eps = a[6].real},
                     .devices = dims[0],
                     .from = {view_of(a[1].tensor), view_of(a[2].tensor), view_of(counts)}};
  batch_args *b = &g->batch;
  TRY(channel_vector_of(a[3].tensor, "runningMean", 3, b->channels, 0, &b->running_mean));
  TRY(channel_vector_of(a[4].tensor, "runningVar", 4, b->channels, 1, &b->running_var));
  TRY(channel_vector_of(a[8].tensor, "meanAll", 6, b->channels, 0, &b->mean));
  TRY(channel_vector_of(a[9].tensor, "invstdAll", 7, b->channels, 0, &b->rstd));
  g->scratch = workspace_intermediate(e, (uint64_t)(dims[0] * (2 * dims[1] + 1)) * sizeof(double));
  executor_cost(e, (uint64_t)(dims[0] * dims[1]) * 16, (uint64_t)(dims[0] * dims[1]) * 16);
  e->run = gather_run;
  return ST_OK;
}
