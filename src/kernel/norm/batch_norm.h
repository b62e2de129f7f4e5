/* Norms of channels over samples and positions, in phases:
 *
 *   1 sums       of each sample's channel (moments, or what gradients need), and of these in the order of samples
 *   2 channels   what is to be done to each channel: channel_step
 *   3 elements   that is done
 *
 * Operators are made of some of the phases. Where there are few positions, the unit of the first and last is all of a
 * channel rather than one sample's; where there is one, rows are samples and channels are columns
 * (batch_columns.c). Sums are the same for any number of threads and any strides. */
#ifndef CANNON_KERNEL_NORM_BATCH_NORM_H
#define CANNON_KERNEL_NORM_BATCH_NORM_H

#include "kernel/norm/channels.h"
#include "kernel/norm/norm.h"

/* Of one channel, for the elements. */
typedef struct {
  norm_stats stats;
  norm_sums mean; /* of what is taken from a gradient */
  double gamma, beta;
} channel_step;

typedef struct {
  norm_moments moments;
  norm_sums sums;
} channel_sums;

typedef struct {
  panel_plan rows; /* operands: x, y; or gradOut, input, gradInput */
} batch_plan;

/* In the executor's heap. */
typedef struct {
  int64_t n, channels, positions, count; /* count: elements of a channel */
  int64_t rows_per_channel;
  uint64_t steps, partials; /* in the scratch: channel_step[channels], channel_sums[rows] */
  double eps, momentum;
  bool training;
  int64_t block_rows, n_blocks; /* of samples, where channels are columns; 0: they aren't */
  uint64_t vectors;             /* in the scratch: floats for each column, by batch_columns.c */
  bool wants_elements;          /* the tensor that phase 3 writes is there */
  channel_vector gamma, beta, running_mean, running_var, mean, variance, rstd, sum_dy, sum_dy_xmu, dgamma, dbeta;
  view counts;             /* how many elements each device had */
  uint64_t counts_scratch; /* of those as doubles */
} batch_args;

/* Checks the tensors of a shape [N, C, ...] (the first is the input or its gradient; the last, which may be NULL, is
 * written), plans their rows and takes the executor's heap for the arguments. Views are 0 and 1, and last_view. */
status batch_plan_init(executor *e, const tensor *const *t, const char *const *names, int n_tensors, int last_view,
                       bool needs_sums, batch_args **out);

/* One launch. */
typedef struct {
  const executor *e;
  const batch_plan *plan;
  const batch_args *args;
  void *const *view;
  channel_step *step;
  channel_sums *partial;
  void *scratch;
} batch_run;

batch_run batch_run_of(const executor *e, void *const *view, void *scratch);

/* The phases where channels are columns. */
status columns_moments(const batch_run *r);
status columns_grad_sums(const batch_run *r);
status columns_apply(const batch_run *r);
status columns_grad(const batch_run *r);
norm_moments columns_channel_moments(const batch_run *r, int64_t channel);
norm_sums columns_channel_sums(const batch_run *r, int64_t channel);
/* The scratch that they need. */
void columns_plan(executor *e, batch_args *b, bool needs_sums);

/* The phases. Sums of gradients are about the mean and rstd of the channels' steps. */
status batch_moments(const batch_run *r);
status batch_grad_sums(const batch_run *r);
status batch_apply(const batch_run *r);
status batch_grad(const batch_run *r);

/* Those of one channel, after the first phase. */
norm_moments batch_channel_moments(const batch_run *r, int64_t channel);
norm_sums batch_channel_sums(const batch_run *r, int64_t channel);

/* Moves the running mean and variance towards a channel's, the latter as an estimate from n elements. */
void batch_update_running(const batch_args *b, void *const *view, int64_t channel, norm_moments m);

#endif
