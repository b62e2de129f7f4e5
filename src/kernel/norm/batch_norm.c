/* SPDX-License-Identifier: Apache-2.0 */
/* BatchNorm and its gradient, and the phases (batch_norm.h) that they, the distributed variants (batch_norm_sync.c) and
 * the operators called by name (graph_batch_norm.c) consist of. */
#include "kernel/norm/batch_norm.h"

#include <math.h>
#include <stdlib.h>

#include "kernel/families.h"

enum { FEW_POSITIONS = 16 }; /* number of positions below which rows are whole channels */

/* ---- phases ------------------------------------------------------------------------------------------------------ */

batch_run batch_run_of(const executor *e, void *const *view, void *scratch) {
  const batch_args *b = e->heap;
  return (batch_run){.e = e,
                     .plan = PLAN(e, batch_plan),
                     .args = b,
                     .view = view,
                     .scratch = scratch,
                     .step = (channel_step *)(void *)((char *)scratch + b->steps),
                     .partial = (channel_sums *)(void *)((char *)scratch + b->partials)};
}

static const channel_step *step_of(const batch_run *r, int64_t row) { return &r->step[row % r->args->channels]; }

/* The step of the next row's channel. A division per row would take as long as a short row. */
static const channel_step *next_step(const batch_run *r, const channel_step *s) {
  return s + 1 < r->step + r->args->channels ? s + 1 : r->step;
}

static void batch_moments_panel(const void *op, const panel *p) {
  const batch_run *r = op;
  for (int i = 0; i < p->width; ++i) r->partial[p->row + i].moments = norm->moments(panel_row(p, 0, i), p->dtype, p->n);
}

static void batch_grad_sums_panel(const void *op, const panel *p) {
  const batch_run *r = op;
  const channel_step *s = step_of(r, p->row);
  for (int i = 0; i < p->width; ++i, s = next_step(r, s))
    r->partial[p->row + i].sums = norm->back_sums_one(panel_row(p, 0, i), panel_row(p, 1, i), p->dtype, s->stats, p->n);
}

static void batch_apply_panel(const void *op, const panel *p) {
  const channel_step *s = step_of(op, p->row);
  for (int i = 0; i < p->width; ++i, s = next_step(op, s))
    norm->apply_one(panel_row(p, 1, i), panel_row(p, 0, i), p->dtype, s->stats, (float)s->gamma, (float)s->beta, p->n);
}

static void batch_grad_panel(const void *op, const panel *p) {
  const channel_step *s = step_of(op, p->row);
  for (int i = 0; i < p->width; ++i, s = next_step(op, s))
    norm->back_one(panel_row(p, 2, i), panel_row(p, 0, i), panel_row(p, 1, i), p->dtype, s->stats, (float)s->gamma,
                   s->mean, p->n);
}

static status batch_run_phase(const batch_run *r, panel_body *body, uint32_t unused) {
  const panel_job job = {
      .plan = &r->plan->rows, .view = r->view, .body = body, .op = r, .unused = unused, .as_stored = true};
  return panels_run(&job, r->e->cost_ns);
}

status batch_moments(const batch_run *r) {
  return r->args->block_rows ? columns_moments(r) : batch_run_phase(r, batch_moments_panel, 1u << 1);
}

status batch_grad_sums(const batch_run *r) {
  return r->args->block_rows ? columns_grad_sums(r) : batch_run_phase(r, batch_grad_sums_panel, 1u << 2);
}

status batch_apply(const batch_run *r) {
  return r->args->block_rows ? columns_apply(r) : batch_run_phase(r, batch_apply_panel, 0);
}

status batch_grad(const batch_run *r) {
  return r->args->block_rows ? columns_grad(r) : batch_run_phase(r, batch_grad_panel, 0);
}

norm_moments batch_channel_moments(const batch_run *r, int64_t channel) {
  const batch_args *b = r->args;
  if (b->block_rows) return columns_channel_moments(r, channel);
  return norm_moments_join_all(&r->partial[channel].moments, b->channels * (int64_t)sizeof *r->partial,
                               b->rows_per_channel);
}

norm_sums batch_channel_sums(const batch_run *r, int64_t channel) {
  norm_sums s = {0};
  if (r->args->block_rows) return columns_channel_sums(r, channel);
  for (int64_t k = 0; k < r->args->rows_per_channel; ++k) {
    const norm_sums *part = &r->partial[k * r->args->channels + channel].sums;
    s.dy += part->dy;
    s.dy_xhat += part->dy_xhat;
  }
  return s;
}

void batch_update_running(const batch_args *b, void *const *view, int64_t channel, norm_moments m) {
  const double mean = channel_get(&b->running_mean, view, channel), var = channel_get(&b->running_var, view, channel);
  const double unbiased = m.n > 1 ? m.m2 / (m.n - 1) : 0;
  channel_put(&b->running_mean, view, channel, (1 - b->momentum) * mean + b->momentum * m.mean);
  channel_put(&b->running_var, view, channel, (1 - b->momentum) * var + b->momentum * unbiased);
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* Puts channels first, then samples and positions, for rows that are whole channels. */
static view batch_channels_first(view v) {
  const int64_t n = v.dims[0], stride = v.strides[0];
  v.dims[0] = v.dims[1];
  v.strides[0] = v.strides[1];
  v.dims[1] = n;
  v.strides[1] = stride;
  return v;
}

status batch_plan_init(executor *e, const tensor *const *t, const char *const *names, int n_tensors, int last_view,
                       bool needs_sums, batch_args **out) {
  const tensor *x = t[0];
  TRY(op_expect_dtype(x, names[0], DTYPES_FLOAT_TO_32));
  EXPECT(x->rank >= 2, "%s has %d dimensions, expected 2 or more", names[0], x->rank);
  for (int k = 1; k < n_tensors; ++k)
    if (t[k]) TRY(norm_expect(t[k], names[k], x->dims, x->rank));
  EXPECT(x->dims[1] > 0, "%s has no channels, expected 1 or more", names[0]);

  HEAP_PLAN(batch_args, b, e, sizeof *b);
  *out = b;
  *b = (batch_args){.n = x->dims[0], .channels = x->dims[1], .positions = 1};
  for (int d = 2; d < x->rank; ++d) b->positions *= x->dims[d];
  b->count = b->n * b->positions;
  const bool columns = b->positions == 1, whole = !columns && b->positions < FEW_POSITIONS;
  const int n_outer = columns || whole ? 1 : 2;
  b->rows_per_channel = whole ? 1 : b->n;
  panel_plan *p = &PLAN(e, batch_plan)->rows;
  uint64_t bytes = 0;
  for (int k = 0; k < n_tensors; ++k) {
    if (!t[k]) continue;
    const bool last = k == n_tensors - 1;
    const view v = whole ? batch_channels_first(view_of(t[k])) : view_of(t[k]);
    if (k == 0) panel_plan_init(p, COMPUTE_F32, n_outer, v.rank - n_outer, v.dims);
    panel_add(p, last ? PANEL_WRITTEN : PANEL_READ, last ? last_view : k, &v);
    bytes += norm_tensor_bytes(t[k]);
  }
  panel_plan_end(p, true);
  b->wants_elements = t[n_tensors - 1] != NULL;
  b->steps = workspace_intermediate(e, (uint64_t)b->channels * sizeof(channel_step));
  if (columns)
    columns_plan(e, b, needs_sums);
  else if (needs_sums)
    b->partials = workspace_partial(e, (uint64_t)(b->rows_per_channel * b->channels) * sizeof(channel_sums));
  executor_cost(e, bytes, (uint64_t)x->n * 8);
  return ST_OK;
}

/* ---- BatchNorm --------------------------------------------------------------------------------------------------- */

/* What CANN calls saveInvstd is the variance on these devices, and the gradient operator expects the variance. For a
 * channel without elements, the mean is 0 and the variance NaN. */
static norm_stats batch_stats(const batch_run *r, int64_t c) {
  const batch_args *b = r->args;
  const norm_moments m = b->count ? batch_channel_moments(r, c) : (norm_moments){0};
  const double variance = m.m2 / m.n;
  channel_put(&b->mean, r->view, c, m.mean);
  channel_put(&b->variance, r->view, c, variance);
  if (b->count) batch_update_running(b, r->view, c, m);
  return (norm_stats){.mean = m.mean, .rstd = 1 / sqrt(variance + b->eps)};
}

static norm_stats batch_given_stats(const batch_run *r, const channel_vector *mean, const channel_vector *variance,
                                    int64_t c) {
  const double var = channel_get(variance, r->view, c);
  return (norm_stats){.mean = channel_get(mean, r->view, c), .rstd = 1 / sqrt(var + r->args->eps)};
}

static norm_stats running_stats(const batch_run *r, int64_t c) {
  return batch_given_stats(r, &r->args->running_mean, &r->args->running_var, c);
}

static status batch_norm_run(const executor *e, void *const *view, void *scratch) {
  const batch_run r = batch_run_of(e, view, scratch);
  const batch_args *b = r.args;
  if (b->training) TRY(batch_moments(&r));
  for (int64_t c = 0; c < b->channels; ++c) {
    r.step[c].stats = b->training || !b->count ? batch_stats(&r, c) : running_stats(&r, c);
    r.step[c].gamma = channel_get(&b->gamma, view, c);
    r.step[c].beta = channel_get(&b->beta, view, c);
  }
  return batch_apply(&r);
}

/* The batch statistics are outputs in training, and for empty input. Otherwise frameworks pass tensors without elements
 * for them. */
static const tensor *batch_tensor(const batch_args *b, const tensor *t) {
  return t && (b->training || (!b->count && t->n)) ? t : NULL;
}

status prepare_batch_norm(executor *e, const batch_norm_args *a) {
  const tensor *t[] = {a->input, a->output}, *mean = a->save_mean, *variance = a->save_invstd;
  const bool training = a->training;
  batch_args *b;
  if (training && !mean) return fail(ST_OP_NULL, "saveMean is NULL, expected a tensor as training is true");
  if (training && !variance) return fail(ST_OP_NULL, "saveInvstd is NULL, expected a tensor as training is true");
  TRY(batch_plan_init(e, t, (const char *const[]){"input", "output"}, 2, 5, training, &b));
  b->training = training;
  b->momentum = a->momentum;
  b->eps = a->eps;
  TRY(channel_vector_of(a->weight, "weight", BATCH_NORM_WEIGHT, b->channels, 1, &b->gamma));
  TRY(channel_vector_of(a->bias, "bias", BATCH_NORM_BIAS, b->channels, 0, &b->beta));
  TRY(channel_vector_of(a->running_mean, "runningMean", BATCH_NORM_RUNNING_MEAN, b->channels, 0, &b->running_mean));
  TRY(channel_vector_of(a->running_var, "runningVar", BATCH_NORM_RUNNING_VAR, b->channels, 1, &b->running_var));
  TRY(channel_vector_of(batch_tensor(b, mean), "saveMean", BATCH_NORM_SAVE_MEAN, b->channels, 0, &b->mean));
  TRY(channel_vector_of(batch_tensor(b, variance), "saveInvstd", BATCH_NORM_SAVE_INVSTD, b->channels, 0, &b->variance));
  e->run = batch_norm_run;
  return ST_OK;
}

/* ---- gradient ---------------------------------------------------------------------------------------------------- */

static status batch_norm_grad_run(const executor *e, void *const *view, void *scratch) {
  const batch_run r = batch_run_of(e, view, scratch);
  const batch_args *b = r.args;
  for (int64_t c = 0; c < b->channels; ++c)
    r.step[c] =
        (channel_step){.stats = b->training ? batch_given_stats(&r, &b->mean, &b->variance, c) : running_stats(&r, c),
                       .gamma = channel_get(&b->gamma, view, c)};
  if (b->count) TRY(batch_grad_sums(&r));
  for (int64_t c = 0; c < b->channels; ++c) {
    channel_step *s = &r.step[c];
    const norm_sums sums = b->count ? batch_channel_sums(&r, c) : (norm_sums){0};
    channel_put(&b->dgamma, view, c, sums.dy_xhat);
    channel_put(&b->dbeta, view, c, sums.dy);
    if (b->training)
      s->mean = (norm_sums){.dy = s->gamma * sums.dy / (double)b->count,
                            .dy_xhat = s->gamma * sums.dy_xhat / (double)b->count};
  }
  return b->wants_elements ? batch_grad(&r) : ST_OK;
}

status prepare_batch_norm_backward(executor *e, const batch_norm_backward_args *a) {
  const tensor *out[3], *mean = a->save_mean, *variance = a->save_invstd;
  const bool training = a->training;
  batch_args *b;
  TRY(norm_masked_outputs(a->output_mask, (const tensor *const[]){a->grad_input, a->grad_weight, a->grad_bias},
                          (const char *const[]){"gradInput", "gradWeight", "gradBias"}, out));
  TRY(batch_plan_init(e, (const tensor *const[]){a->grad_out, a->input, out[0]},
                      (const char *const[]){"gradOut", "input", "gradInput"}, 3, 7, true, &b));
  b->training = training;
  b->eps = a->eps;
  TRY(channel_vector_of(a->weight, "weight", BATCH_NORM_BACKWARD_WEIGHT, b->channels, 1, &b->gamma));
  TRY(channel_vector_of(training ? NULL : a->running_mean, "runningMean", BATCH_NORM_BACKWARD_RUNNING_MEAN, b->channels,
                        0, &b->running_mean));
  TRY(channel_vector_of(training ? NULL : a->running_var, "runningVar", BATCH_NORM_BACKWARD_RUNNING_VAR, b->channels, 1,
                        &b->running_var));
  TRY(channel_vector_of(training ? mean : NULL, "saveMean", BATCH_NORM_BACKWARD_SAVE_MEAN, b->channels, 0, &b->mean));
  TRY(channel_vector_of(training ? variance : NULL, "saveInvstd", BATCH_NORM_BACKWARD_SAVE_INVSTD, b->channels, 1,
                        &b->variance));
  TRY(channel_vector_of(out[1], "gradWeight", BATCH_NORM_BACKWARD_GRAD_WEIGHT, b->channels, 0, &b->dgamma));
  TRY(channel_vector_of(out[2], "gradBias", BATCH_NORM_BACKWARD_GRAD_BIAS, b->channels, 0, &b->dbeta));
  e->run = batch_norm_grad_run;
  return ST_OK;
}
