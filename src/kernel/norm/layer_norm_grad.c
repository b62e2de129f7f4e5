/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of the norms in layer_norm.c. The gradients of gamma and beta are sums over all rows. Rows are divided into
 * blocks, which depend on the shape only. Each block is summed separately (groups of rows in float, the groups in
 * double), and the blocks are combined in order, so the result does not depend on the number of threads. */
#include <math.h>
#include <stdlib.h>

#include "kernel/families.h"
#include "kernel/norm/norm.h"

enum { BLOCKS = 16, GROUP = 32 }; /* maximum number of blocks; rows in a group */

/* Sums over rows for each element of a row: of dy * xhat for gamma, of dy for beta. */
enum { GAMMA, BETA, N_SUMS };

/* Where they are stored; in the executor's heap. */
typedef struct {
  int64_t block_rows, n_blocks;
  uint64_t scratch; /* offset in the workspace; for each block doubles for both sums, then floats */
  bool wanted[N_SUMS];
  int out_view[N_SUMS];
  view out[N_SUMS];
} column_sums;

typedef struct {
  panel_plan rows;
  float alpha;                                           /* the norm was of other + alpha * x */
  double eps;                                            /* given_variance: of the norm */
  bool rms, has_columns, given_variance;                 /* given_variance: in place of rstd */
  int8_t other, dy, dsum, dx, dother, gamma, mean, rstd; /* operand indices beside x, which is the first; -1: absent */
} norm_grad_plan;

typedef struct {
  const norm_grad_plan *plan;
  const column_sums *columns; /* NULL: not wanted */
  char *scratch;
} norm_grad_job;

/* ---- sums over rows ---------------------------------------------------------------------------------------------- */

static uint64_t norm_grad_block_bytes(int64_t n) { return (uint64_t)n * N_SUMS * (sizeof(double) + sizeof(float)); }

static double *block_totals(const norm_grad_job *j, int64_t n, int64_t block) {
  return (double *)(void *)(j->scratch + (uint64_t)block * norm_grad_block_bytes(n));
}

static void flush_columns(const column_sums *c, double *total, float *sum, int64_t n) {
  for (int k = 0; k < N_SUMS; ++k)
    if (c->wanted[k]) norm->flush(total + k * n, sum + k * n, n);
}

static void norm_grad_combine_columns(const norm_grad_job *j, int64_t n, void *const *views) {
  const column_sums *c = j->columns;
  double *total = block_totals(j, n, 0);
  for (int k = 0; k < N_SUMS; ++k) {
    if (!c->wanted[k]) continue;
    for (int64_t b = 1; b < c->n_blocks; ++b) {
      const double *part = block_totals(j, n, b) + k * n;
      for (int64_t i = 0; i < n; ++i) total[k * n + i] += part[i];
    }
    const view sums = view_contiguous(ACL_DOUBLE, c->out[k].rank, c->out[k].dims);
    elementwise_copy(views[c->out_view[k]], &c->out[k], total + k * n, &sums, 0);
  }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void grad_row(const norm_grad_plan *g, const panel *p, int i, float *dgamma, float *dbeta) {
  const void *x = panel_row(p, 0, i), *dy = panel_row(p, g->dy, i);
  const float *gamma = norm_row_or_null(p, g->gamma, i);
  void *dx = norm_row_or_null(p, g->dother >= 0 ? g->dother : g->dx, i);
  const double spread = *panel_floats(p, g->rstd, i);
  const norm_stats s = {.mean = g->rms ? 0 : *panel_floats(p, g->mean, i),
                        .rstd = g->given_variance ? 1 / sqrt(spread + g->eps) : spread};
  if (g->other >= 0) {
    norm->add(dx, panel_floats(p, g->other, i), g->alpha, x, NULL, p->n);
    x = dx;
  }
  const norm_sums sums = norm->back_sums(dy, x, p->dtype, s, gamma, dgamma, dbeta, p->n);
  if (!dx) return;
  const double n = (double)p->n;
  const norm_sums mean = {.dy = g->rms ? 0 : sums.dy / n, .dy_xhat = sums.dy_xhat / n};
  if (gamma)
    norm->back(dx, dy, x, p->dtype, s, gamma, mean, p->n);
  else
    norm->back_one(dx, dy, x, p->dtype, s, 1, mean, p->n);
  if (g->dsum >= 0) norm->add(dx, dx, 1, panel_floats(p, g->dsum, i), NULL, p->n);
  if (g->dother >= 0) norm->scale(panel_floats(p, g->dx, i), dx, g->alpha, NULL, 0, p->n);
}

static void norm_grad_panel(const void *op, const panel *p) {
  const norm_grad_job *j = op;
  const column_sums *c = j->columns;
  if (!c) {
    for (int i = 0; i < p->width; ++i) grad_row(j->plan, p, i, NULL, NULL);
    return;
  }
  double *total = block_totals(j, p->n, p->row / c->block_rows);
  float *sum = (float *)(total + N_SUMS * p->n);
  if (p->row % c->block_rows == 0) memset(total, 0, norm_grad_block_bytes(p->n));
  for (int i = 0; i < p->width; ++i) {
    grad_row(j->plan, p, i, c->wanted[GAMMA] ? sum : NULL, c->wanted[BETA] ? sum + p->n : NULL);
    const int64_t done = p->row + i + 1;
    if (done % GROUP == 0 || done == j->plan->rows.n_rows) flush_columns(c, total, sum, p->n);
  }
}

static status norm_grad_run(const executor *e, void *const *view, void *scratch) {
  const norm_grad_plan *g = PLAN(e, norm_grad_plan);
  const column_sums *c = g->has_columns ? e->heap : NULL;
  const norm_grad_job job = {.plan = g, .columns = c, .scratch = c ? (char *)scratch + c->scratch : NULL};
  const panel_job rows = {.plan = &g->rows,
                          .view = view,
                          .body = norm_grad_panel,
                          .op = &job,
                          .grain = c ? c->block_rows : 1,
                          .as_stored = g->other < 0 && g->dsum < 0 && g->dother < 0};
  if (c && g->rows.n && !g->rows.n_rows)
    memset(job.scratch, 0, norm_grad_block_bytes(g->rows.n)); /* no rows: the sums are 0 */
  TRY(panels_run(&rows, e->cost_ns));
  if (c && g->rows.n) norm_grad_combine_columns(&job, g->rows.n, view);
  return ST_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

typedef struct {
  norm_arg x, other, dy, dsum, dx, dother, gamma, mean, rstd, out[N_SUMS];
  int n_outer;
  bool rms, given_variance;
  float alpha;
  double eps;
} grad_args;

static status plan_columns(executor *e, norm_grad_plan *g, const grad_args *a) {
  const tensor *x = a->x.t;
  g->has_columns = a->out[GAMMA].t || a->out[BETA].t;
  if (!g->has_columns) return ST_OK;
  HEAP_PLAN(column_sums, c, e, sizeof *c);
  for (int k = 0; k < N_SUMS; ++k) {
    c->wanted[k] = a->out[k].t != NULL;
    if (!c->wanted[k]) continue;
    TRY(norm_expect(a->out[k].t, a->out[k].name, x->dims + a->n_outer, x->rank - a->n_outer));
    c->out_view[k] = a->out[k].view;
    c->out[k] = view_of(a->out[k].t);
  }
  const int64_t rows = g->rows.n_rows, groups = (rows + GROUP - 1) / GROUP;
  c->block_rows = groups ? (groups + BLOCKS - 1) / BLOCKS * GROUP : GROUP;
  c->n_blocks = rows ? (rows + c->block_rows - 1) / c->block_rows : 1;
  c->scratch = workspace_partial(e, (uint64_t)c->n_blocks * norm_grad_block_bytes(g->rows.n));
  return ST_OK;
}

static status plan_grad(executor *e, const grad_args *a) {
  norm_grad_plan *g = PLAN(e, norm_grad_plan);
  const tensor *x = a->x.t;
  int8_t x_index;
  g->alpha = a->alpha;
  g->rms = a->rms;
  g->given_variance = a->given_variance;
  g->eps = a->eps;
  panel_plan_init(&g->rows, COMPUTE_F32, a->n_outer, x->rank - a->n_outer, x->dims);
  TRY(norm_add_elements(&g->rows, x, &a->x, PANEL_READ, &x_index));
  TRY(norm_add_elements(&g->rows, x, &a->other, PANEL_READ, &g->other));
  TRY(norm_add_elements(&g->rows, x, &a->dy, PANEL_READ, &g->dy));
  TRY(norm_add_elements(&g->rows, x, &a->dsum, PANEL_READ, &g->dsum));
  TRY(norm_add_elements(&g->rows, x, &a->gamma, PANEL_COLUMN, &g->gamma));
  TRY(norm_add_elements(&g->rows, x, &a->dother, PANEL_WRITTEN, &g->dother));
  TRY(norm_add_elements(&g->rows, x, &a->dx, a->dother.t ? PANEL_WRITTEN_APART : PANEL_WRITTEN, &g->dx));
  TRY(norm_add_numbers(&g->rows, x->dims, a->n_outer, &a->mean, PANEL_ROW_READ, &g->mean));
  TRY(norm_add_numbers(&g->rows, x->dims, a->n_outer, &a->rstd, PANEL_ROW_READ, &g->rstd));
  TRY(plan_columns(e, g, a));
  panel_plan_end(&g->rows, g->has_columns);
  const uint64_t wide = 3 + (a->other.t != NULL) + (a->dsum.t != NULL) + (a->dother.t != NULL);
  executor_cost(e, wide * norm_tensor_bytes(x), (uint64_t)x->n * 16);
  e->run = norm_grad_run;
  return ST_OK;
}

status prepare_layer_norm_backward(executor *e, const layer_norm_backward_args *a) {
  const tensor *out[3];
  TRY(norm_masked_outputs(a->output_mask,
                          (const tensor *const[]){a->grad_input_out, a->grad_weight_out, a->grad_bias_out},
                          (const char *const[]){"gradInputOut", "gradWeightOut", "gradBiasOut"}, out));
  grad_args g = {.x = {a->input, "input", LAYER_NORM_BACKWARD_INPUT},
                 .dy = {a->grad_out, "gradOut", LAYER_NORM_BACKWARD_GRAD_OUT},
                 .mean = {a->mean, "mean", LAYER_NORM_BACKWARD_MEAN},
                 .rstd = {a->rstd, "rstd", LAYER_NORM_BACKWARD_RSTD},
                 .gamma = {a->weight, "weightOptional", LAYER_NORM_BACKWARD_WEIGHT},
                 .dx = {out[0], "gradInputOut", LAYER_NORM_BACKWARD_GRAD_INPUT_OUT},
                 .out = {{out[1], "gradWeightOut", LAYER_NORM_BACKWARD_GRAD_WEIGHT_OUT},
                         {out[2], "gradBiasOut", LAYER_NORM_BACKWARD_GRAD_BIAS_OUT}}};
  TRY(norm_expect_normalized_shape(a->input, a->normalized_shape, &g.n_outer));
  if (a->bias) TRY(norm_expect(a->bias, "biasOptional", a->input->dims + g.n_outer, a->input->rank - g.n_outer));
  return plan_grad(e, &g);
}

/* Called by name, with the variance. */
status prepare_graph_layer_norm_grad(executor *e, const graph_layer_norm_grad_args *a) {
  grad_args g = {.x = {a->x, "x", GRAPH_LAYER_NORM_GRAD_X},
                 .dy = {a->dy, "dy", GRAPH_LAYER_NORM_GRAD_DY},
                 .mean = {a->mean, "mean", GRAPH_LAYER_NORM_GRAD_MEAN},
                 .rstd = {a->variance, "variance", GRAPH_LAYER_NORM_GRAD_VARIANCE},
                 .gamma = {a->gamma, "gamma", GRAPH_LAYER_NORM_GRAD_GAMMA},
                 .dx = {a->pd_x, "pd_x", GRAPH_LAYER_NORM_GRAD_PD_X},
                 .out = {{a->pd_gamma, "pd_gamma", GRAPH_LAYER_NORM_GRAD_PD_GAMMA},
                         {a->pd_beta, "pd_beta", GRAPH_LAYER_NORM_GRAD_PD_BETA}},
                 .given_variance = true,
                 .eps = a->epsilon};
  EXPECT(a->gamma->rank <= a->x->rank, "gamma has %d dimensions, expected the %d of x, or fewer", a->gamma->rank,
         a->x->rank);
  g.n_outer = a->x->rank - a->gamma->rank;
  return plan_grad(e, &g);
}

status prepare_rms_norm_grad(executor *e, const rms_norm_grad_args *a) {
  grad_args g = {.x = {a->x, "x", RMS_NORM_GRAD_X},
                 .dy = {a->dy, "dy", RMS_NORM_GRAD_DY},
                 .rstd = {a->rstd, "rstd", RMS_NORM_GRAD_RSTD},
                 .gamma = {a->gamma, "gamma", RMS_NORM_GRAD_GAMMA},
                 .dx = {a->dx_out, "dxOut", RMS_NORM_GRAD_DX_OUT},
                 .out = {{a->dgamma_out, "dgammaOut", RMS_NORM_GRAD_DGAMMA_OUT}},
                 .rms = true};
  TRY(norm_expect_gamma(g.x.t, g.gamma.t, &g.n_outer));
  return plan_grad(e, &g);
}

status prepare_add_layer_norm_grad(executor *e, const add_layer_norm_grad_args *a) {
  grad_args g = {.x = {a->x1, "x1", ADD_LAYER_NORM_GRAD_X1},
                 .other = {a->x2, "x2", ADD_LAYER_NORM_GRAD_X2},
                 .dy = {a->dy, "dy", ADD_LAYER_NORM_GRAD_DY},
                 .rstd = {a->rstd, "rstd", ADD_LAYER_NORM_GRAD_RSTD},
                 .mean = {a->mean, "mean", ADD_LAYER_NORM_GRAD_MEAN},
                 .gamma = {a->gamma, "gamma", ADD_LAYER_NORM_GRAD_GAMMA},
                 .dsum = {a->dsum, "dsumOptional", ADD_LAYER_NORM_GRAD_DSUM},
                 .dx = {a->dx_out, "dxOut", ADD_LAYER_NORM_GRAD_DX_OUT},
                 .out = {{a->dgamma_out, "dgammaOut", ADD_LAYER_NORM_GRAD_DGAMMA_OUT},
                         {a->dbeta_out, "dbetaOut", ADD_LAYER_NORM_GRAD_DBETA_OUT}},
                 .alpha = 1};
  TRY(norm_expect_gamma(g.x.t, g.gamma.t, &g.n_outer));
  return plan_grad(e, &g);
}

status prepare_deep_norm_grad(executor *e, const deep_norm_grad_args *a) {
  grad_args g = {.x = {a->x, "x", DEEP_NORM_GRAD_X},
                 .other = {a->gx, "gx", DEEP_NORM_GRAD_GX},
                 .dy = {a->dy, "dy", DEEP_NORM_GRAD_DY},
                 .gamma = {a->gamma, "gamma", DEEP_NORM_GRAD_GAMMA},
                 .mean = {a->mean, "mean", DEEP_NORM_GRAD_MEAN},
                 .rstd = {a->rstd, "rstd", DEEP_NORM_GRAD_RSTD},
                 .dx = {a->dx_out, "dxOut", DEEP_NORM_GRAD_DX_OUT},
                 .dother = {a->dgx_out, "dgxOut", DEEP_NORM_GRAD_DGX_OUT},
                 .out = {{a->dgamma_out, "dgammaOut", DEEP_NORM_GRAD_DGAMMA_OUT},
                         {a->dbeta_out, "dbetaOut", DEEP_NORM_GRAD_DBETA_OUT}},
                 .alpha = (float)a->alpha};
  TRY(norm_expect_gamma(g.x.t, g.gamma.t, &g.n_outer));
  return plan_grad(e, &g);
}
