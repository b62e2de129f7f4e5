/* SPDX-License-Identifier: Apache-2.0 */
/* Norms over the last dimensions: LayerNorm and RmsNorm, optionally after an addition (Add..., DeepNorm) or with 1
 * added to gamma (GemmaRmsNorm). If the sum is also an output, it is rounded only there: the norm uses the sum in
 * float. */
#include <math.h>
#include <string.h>

#include "kernel/families.h"
#include "kernel/norm/norm.h"

typedef struct {
  panel_plan rows;
  double eps;
  float alpha;         /* x = other + alpha * x + bias */
  float shift;         /* added to gamma */
  bool rms;            /* RMS norm: no mean */
  bool gives_variance; /* in place of rstd */
  /* operand indices beside x, which is the first; -1: absent */
  int8_t other, bias, sum, gamma, beta, y, cast, mean, rstd;
} layer_norm_plan;

/* Returns the row to be normalised: x, or the sum, which is stored in its output or else in y. */
static const void *row_normed(const layer_norm_plan *l, const panel *p, int i) {
  if (l->other < 0) return panel_row(p, 0, i);
  float *sum = panel_floats(p, l->sum >= 0 ? l->sum : l->y, i);
  norm->add(sum, panel_floats(p, l->other, i), l->alpha, panel_floats(p, 0, i), norm_row_or_null(p, l->bias, i), p->n);
  return sum;
}

static norm_stats layer_norm_row_stats(const layer_norm_plan *l, const panel *p, int i) {
  const void *x = row_normed(l, p, i);
  if (l->rms) return (norm_stats){.rstd = 1 / sqrt(norm->squares(x, p->n) / (double)p->n + l->eps)};
  const norm_moments m = norm->moments(x, p->dtype, p->n);
  return (norm_stats){.mean = m.mean, .rstd = 1 / sqrt(m.m2 / m.n + l->eps)};
}

static void norm_row(const layer_norm_plan *l, const panel *p, int i, norm_stats s) {
  const void *x = panel_row(p, l->other < 0 ? 0 : l->sum >= 0 ? l->sum : l->y, i);
  const float *gamma = norm_row_or_null(p, l->gamma, i);
  void *y = panel_row(p, l->y, i);
  if (l->rms)
    norm->scale(y, x, s.rstd, gamma, l->shift, p->n);
  else
    norm->apply(y, x, p->dtype, s, gamma, norm_row_or_null(p, l->beta, i), p->n);
  if (l->cast >= 0) memcpy(panel_floats(p, l->cast, i), y, (size_t)p->n * sizeof(float));
  if (l->mean >= 0) *panel_floats(p, l->mean, i) = (float)s.mean;
  if (l->rstd >= 0) *panel_floats(p, l->rstd, i) = (float)(l->gives_variance ? 1 / (s.rstd * s.rstd) - l->eps : s.rstd);
}

/* The statistics of a few rows are computed together, since their latency exceeds their throughput; not of many rows,
 * since reads and writes of memory should alternate (bench/ops, LayerNorm and RmsNorm of 65536 x 64). */
static void norm_panel(const void *op, const panel *p) {
  enum { GROUP_BYTES = 2 << 10 };
  const int64_t fit = GROUP_BYTES / (p->n * (int64_t)sizeof(float));
  const int group = fit < 1 ? 1 : fit < PANEL_MAX ? (int)fit : PANEL_MAX;
  norm_stats stats[PANEL_MAX];
  for (int begin = 0, end; begin < p->width; begin = end) {
    end = p->width - begin < group ? p->width : begin + group;
    for (int i = begin; i < end; ++i) stats[i] = layer_norm_row_stats(op, p, i);
    for (int i = begin; i < end; ++i) norm_row(op, p, i, stats[i]);
  }
}

/* For rows without elements, the mean is 0 and rstd NaN. */
static void store_stats_of_nothing(const layer_norm_plan *l, void *const *view) {
  if (l->mean >= 0) panel_numbers_store(&l->rows, view, l->mean, 0);
  if (l->rstd >= 0) panel_numbers_store(&l->rows, view, l->rstd, NAN);
}

static status layer_norm_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const layer_norm_plan *l = PLAN(e, layer_norm_plan);
  if (!l->rows.n) store_stats_of_nothing(l, view);
  const bool as_stored = !l->rms && l->other < 0 && l->cast < 0;
  const panel_job job = {.plan = &l->rows, .view = view, .body = norm_panel, .op = l, .as_stored = as_stored};
  return panels_run(&job, e->cost_ns);
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

typedef struct {
  norm_arg x, other, bias, sum, gamma, beta, y, cast, mean, rstd; /* cast: y again, in another dtype */
  int n_outer;                                                    /* number of dimensions that number the rows */
  bool rms, gives_variance;
  bool rstd_is_dense; /* written without gaps, whatever its strides */
  float alpha, shift;
  double eps;
} row_norm;

/* Adds rstd as a contiguous operand, whatever its strides. */
static status add_dense_numbers(layer_norm_plan *l, const row_norm *a) {
  view v;
  TRY(norm_rows_view(a->rstd.t, a->rstd.name, a->x.t->dims, a->n_outer, &v));
  v = view_contiguous(a->rstd.t->dtype, a->n_outer, a->x.t->dims);
  l->rstd = (int8_t)panel_add(&l->rows, PANEL_ROW_WRITTEN, a->rstd.view, &v);
  return ST_OK;
}

static status plan_norm_rows(executor *e, const row_norm *a) {
  layer_norm_plan *l = PLAN(e, layer_norm_plan);
  const tensor *x = a->x.t;
  int8_t x_index;
  const bool bias_is_column = a->bias.t && a->bias.t->rank < x->rank;
  l->eps = a->eps;
  l->alpha = a->alpha;
  l->shift = a->shift;
  l->rms = a->rms;
  l->gives_variance = a->gives_variance;
  panel_plan_init(&l->rows, COMPUTE_F32, a->n_outer, x->rank - a->n_outer, x->dims);
  TRY(norm_add_elements(&l->rows, x, &a->x, PANEL_READ, &x_index));
  TRY(norm_add_elements(&l->rows, x, &a->other, PANEL_READ, &l->other));
  TRY(norm_add_elements(&l->rows, x, &a->bias, bias_is_column ? PANEL_COLUMN : PANEL_READ, &l->bias));
  TRY(norm_add_elements(&l->rows, x, &a->gamma, PANEL_COLUMN, &l->gamma));
  TRY(norm_add_elements(&l->rows, x, &a->beta, PANEL_COLUMN, &l->beta));
  TRY(norm_add_elements(&l->rows, x, &a->y, PANEL_WRITTEN, &l->y));
  TRY(norm_add_elements(&l->rows, x, &a->cast, PANEL_WRITTEN_APART, &l->cast));
  TRY(norm_add_elements(&l->rows, x, &a->sum, PANEL_WRITTEN_APART, &l->sum));
  TRY(norm_add_numbers(&l->rows, x->dims, a->n_outer, &a->mean, PANEL_ROW_WRITTEN, &l->mean));
  if (a->rstd_is_dense)
    TRY(add_dense_numbers(l, a));
  else
    TRY(norm_add_numbers(&l->rows, x->dims, a->n_outer, &a->rstd, PANEL_ROW_WRITTEN, &l->rstd));
  panel_plan_end(&l->rows, false);
  const uint64_t wide = 2 + (a->other.t != NULL) + (a->sum.t != NULL);
  executor_cost(e, wide * norm_tensor_bytes(x), (uint64_t)x->n * 8);
  e->run = layer_norm_run;
  return ST_OK;
}

static status expect_half(const tensor *t, const char *name) {
  EXPECT(!t || t->dtype == ACL_FLOAT16, "%s has dtype %s, expected FLOAT16 where implMode is 2", name,
         dtype_name(t->dtype));
  return ST_OK;
}

/* Modes 0 (precise), 1 (fast) and 2 (in float16, which all tensors but the statistics must have) are all computed
 * precisely. */
status prepare_layer_norm(executor *e, const layer_norm_args *a) {
  const tensor *x = a->input;
  EXPECT(a->impl_mode >= 0 && a->impl_mode <= 2, "implMode is %jd, expected 0 to 2", (intmax_t)a->impl_mode);
  if (a->impl_mode == 2) {
    TRY(expect_half(x, "input"));
    TRY(expect_half(a->weight, "weightOptional"));
    TRY(expect_half(a->bias, "biasOptional"));
    TRY(expect_half(a->out, "out"));
  }
  row_norm n = {.x = {x, "input", LAYER_NORM_INPUT},
                .gamma = {a->weight, "weightOptional", LAYER_NORM_WEIGHT},
                .beta = {a->bias, "biasOptional", LAYER_NORM_BIAS},
                .y = {a->out, "out", LAYER_NORM_OUT},
                .mean = {a->mean_out, "meanOutOptional", LAYER_NORM_MEAN_OUT},
                .rstd = {a->rstd_out, "rstdOutOptional", LAYER_NORM_RSTD_OUT},
                .eps = a->eps};
  TRY(norm_expect_normalized_shape(x, a->normalized_shape, &n.n_outer));
  return plan_norm_rows(e, &n);
}

/* Called by name: mean and variance have dimensions of 1 in place of those that are normalised. */
status prepare_graph_layer_norm(executor *e, const graph_layer_norm_args *a) {
  const tensor *x = a->x;
  row_norm n = {.x = {x, "x", GRAPH_LAYER_NORM_X},
                .gamma = {a->gamma, "gamma", GRAPH_LAYER_NORM_GAMMA},
                .beta = {a->beta, "beta", GRAPH_LAYER_NORM_BETA},
                .y = {a->y, "y", GRAPH_LAYER_NORM_Y},
                .mean = {a->mean, "mean", GRAPH_LAYER_NORM_MEAN},
                .rstd = {a->variance, "variance", GRAPH_LAYER_NORM_VARIANCE},
                .gives_variance = true,
                .eps = a->epsilon};
  TRY(op_expect_dim(a->begin_norm_axis, "begin_norm_axis", x->rank, &n.n_outer));
  EXPECT(a->gamma->rank == x->rank - n.n_outer, "gamma has %d dimensions, expected %d, those from begin_norm_axis on",
         a->gamma->rank, x->rank - n.n_outer);
  return plan_norm_rows(e, &n);
}

status prepare_rms_norm(executor *e, const rms_norm_args *a) {
  const tensor *x = a->x, *gamma = a->gamma;
  row_norm n = {.x = {x, "x", RMS_NORM_X},
                .gamma = {gamma, "gamma", RMS_NORM_GAMMA},
                .y = {a->y_out, "yOut", RMS_NORM_Y_OUT},
                .rstd = {a->rstd_out, "rstdOut", RMS_NORM_RSTD_OUT},
                .rms = true,
                .shift = e->op->variant == RMS_NORM_GEMMA ? 1 : 0,
                .eps = a->epsilon};
  TRY(norm_expect_gamma(x, gamma, &n.n_outer));
  return plan_norm_rows(e, &n);
}

/* AddRmsNormCast gives y in float, as y1Out, and in x1's dtype. InplaceAddRmsNorm gives y in x1Ref, the sum in x2Ref.
 * rstdOut is written without gaps, whatever its strides: one client leaves the outermost stride uninitialised. */
status prepare_add_rms_norm(executor *e, const add_rms_norm_args *a) {
  const tensor *x1 = a->x1;
  const norm_arg y = a->y_out ? (norm_arg){a->y_out, a->name.y_out, ADD_RMS_NORM_Y_OUT}
                              : (norm_arg){x1, "x1Ref", ADD_RMS_NORM_X1},
                 sum = a->y_out ? (norm_arg){a->x_out, "xOut", a->view.x_out}
                                : (norm_arg){a->x2, "x2Ref", ADD_RMS_NORM_X2};
  row_norm n = {.x = {x1, "x1", ADD_RMS_NORM_X1},
                .other = {a->x2, "x2", ADD_RMS_NORM_X2},
                .gamma = {a->gamma, "gamma", ADD_RMS_NORM_GAMMA},
                .y = y,
                .cast = {a->y2_out, "y2Out", ADD_RMS_NORM_Y2_OUT},
                .rstd = {a->rstd_out, "rstdOut", a->view.rstd_out},
                .sum = sum,
                .rms = true,
                .rstd_is_dense = true,
                .alpha = 1,
                .eps = a->epsilon};
  TRY(norm_expect_gamma(x1, a->gamma, &n.n_outer));
  if (a->y2_out) {
    TRY(op_expect_dtype(a->y_out, "y1Out", DTYPE_BIT(ACL_FLOAT)));
    TRY(op_expect_dtype(a->y2_out, "y2Out", DTYPE_BIT(x1->dtype)));
  }
  e->operands[a->view.rstd_out].extent_bytes = norm_tensor_bytes(a->rstd_out);
  return plan_norm_rows(e, &n);
}

status prepare_add_layer_norm(executor *e, const add_layer_norm_args *a) {
  const tensor *x1 = a->x1, *gamma = a->gamma;
  const bool wants_sum = a->additional_output;
  if (wants_sum && !a->x_out) return fail(ST_OP_NULL, "xOut is NULL, expected a tensor as additionalOutput is true");
  row_norm n = {.x = {x1, "x1", ADD_LAYER_NORM_X1},
                .other = {a->x2, "x2", ADD_LAYER_NORM_X2},
                .gamma = {gamma, "gamma", ADD_LAYER_NORM_GAMMA},
                .beta = {a->beta, "beta", ADD_LAYER_NORM_BETA},
                .bias = {a->bias, "biasOptional", ADD_LAYER_NORM_BIAS},
                .y = {a->y_out, "yOut", ADD_LAYER_NORM_Y_OUT},
                .mean = {a->mean_out, "meanOut", ADD_LAYER_NORM_MEAN_OUT},
                .rstd = {a->rstd_out, "rstdOut", ADD_LAYER_NORM_RSTD_OUT},
                .sum = {wants_sum ? a->x_out : NULL, "xOut", ADD_LAYER_NORM_X_OUT},
                .alpha = 1,
                .eps = a->epsilon};
  TRY(norm_expect_gamma(x1, gamma, &n.n_outer));
  return plan_norm_rows(e, &n);
}

status prepare_deep_norm(executor *e, const deep_norm_args *a) {
  const tensor *x = a->x, *gamma = a->gamma;
  row_norm n = {.x = {x, "x", DEEP_NORM_X},
                .other = {a->gx, "gx", DEEP_NORM_GX},
                .beta = {a->beta, "beta", DEEP_NORM_BETA},
                .gamma = {gamma, "gamma", DEEP_NORM_GAMMA},
                .mean = {a->mean_out, "meanOut", DEEP_NORM_MEAN_OUT},
                .rstd = {a->rstd_out, "rstdOut", DEEP_NORM_RSTD_OUT},
                .y = {a->y_out, "yOut", DEEP_NORM_Y_OUT},
                .alpha = (float)a->alpha,
                .eps = a->epsilon};
  TRY(norm_expect_gamma(x, gamma, &n.n_outer));
  return plan_norm_rows(e, &n);
}
