/* SPDX-License-Identifier: Apache-2.0 */
/* Batch normalisation: normalises channels over samples and positions, in phases.
 *
 *   1 sums       of each channel of each sample (moments, or what gradients need), then over samples in their order
 *   2 channels   the parameters of each channel: channel_step
 *   3 elements   the elements are normalised
 *
 * Operators (batch_norm.c, batch_norm_sync.c, graph_batch_norm.c) consist of some of the phases. The unit of work in
 * phases 1 and 3 is one channel of one sample, or a whole channel if there are few positions. If there is one position,
 * rows are samples and columns are channels (batch_columns.c). Sums are the same for any number of threads and any
 * strides. The functions are called by the thread that runs the task; they distribute the rows themselves. */
#ifndef CANNON_KERNEL_NORM_BATCH_NORM_H
#define CANNON_KERNEL_NORM_BATCH_NORM_H

#include "kernel/norm/channels.h"
#include "kernel/norm/norm.h"

/* Parameters of one channel for the elements. */
typedef struct {
  norm_stats stats;
  norm_sums mean; /* what is subtracted from a gradient */
  double gamma, beta;
} channel_step;

typedef struct {
  norm_moments moments;
  norm_sums sums;
} channel_sums;

typedef struct {
  panel_plan rows; /* operands: x, y; or gradOut, input, gradInput */
} batch_plan;

/* Arguments of the operators. Stored in the executor's heap, and immutable after preparation. */
typedef struct {
  int64_t n, channels, positions, count; /* count: elements of a channel */
  int64_t rows_per_channel;
  uint64_t steps, partials; /* offsets in the workspace: channel_step[channels], channel_sums[rows] */
  double eps, momentum;
  bool training;
  /* blocks of samples, if columns are channels (batch_columns.c); block_rows is 0 otherwise */
  int64_t block_rows, n_blocks;
  uint64_t vectors;    /* offset in the workspace: floats for each column, used by batch_columns.c */
  bool wants_elements; /* the tensor that phase 3 writes is present */
  channel_vector gamma, beta, running_mean, running_var, mean, variance, rstd, sum_dy, sum_dy_xmu, dgamma, dbeta;
  view counts;             /* number of elements that each device had */
  uint64_t counts_scratch; /* offset in the workspace of those as doubles */
} batch_args;

/* Checks tensors of shape [N, C, ...], plans their rows and allocates the arguments in the executor's heap. The first
 * tensor is the input or its gradient; the last, which may be NULL, is written. The tensors that are read are the
 * operands 0 and 1, and the last one is operand last_view. */
status batch_plan_init(executor *e, const tensor *const *t, const char *const *names, int n_tensors, int last_view,
                       bool needs_sums, batch_args **out);

/* One execution of the operator; lives on the stack of the thread that runs it. */
typedef struct {
  const executor *e;
  const batch_plan *plan;
  const batch_args *args;
  void *const *view;
  channel_step *step;
  channel_sums *partial;
  void *scratch;
} batch_run;

/* The run of an operator prepared by batch_plan_init, with its arrays in `scratch`. */
batch_run batch_run_of(const executor *e, void *const *view, void *scratch);

/* The phases for batch norms of one position, where columns are channels (batch_columns.c). */
status columns_moments(const batch_run *r);
status columns_grad_sums(const batch_run *r);
status columns_apply(const batch_run *r);
status columns_grad(const batch_run *r);
norm_moments columns_channel_moments(const batch_run *r, int64_t channel);
norm_sums columns_channel_sums(const batch_run *r, int64_t channel);
/* Requests the workspace that they need. */
void columns_plan(executor *e, batch_args *b, bool needs_sums);

/* The phases. Sums of gradients use the mean and rstd in the channels' steps. */
status batch_moments(const batch_run *r);
status batch_grad_sums(const batch_run *r);
status batch_apply(const batch_run *r);
status batch_grad(const batch_run *r);

/* Results for one channel, after phase 1. */
norm_moments batch_channel_moments(const batch_run *r, int64_t channel);
norm_sums batch_channel_sums(const batch_run *r, int64_t channel);

/* Moves the running mean and variance towards those of a channel; the variance is the unbiased estimate from n
 * elements. */
void batch_update_running(const batch_args *b, void *const *view, int64_t channel, norm_moments m);

#endif
