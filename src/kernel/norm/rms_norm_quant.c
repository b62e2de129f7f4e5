/* SPDX-License-Identifier: Apache-2.0 */
/* RMS norms with quantised results: with given scales (RmsNormQuant, RmsNormQuantV3, AddRmsNormQuant), or with scales
 * from each row's maximum magnitude (AddRmsNormDynamicQuant), for one or two outputs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/families.h"
#include "kernel/norm/norm.h"
#include "kernel/quant/nibbles.h"
#include "kernel/quant/row.h"

/* A pass over the rows for one output. Members are operand indices in the plan; -1: absent. */
typedef struct {
  panel_plan rows; /* x is the first operand */
  double eps;
  bool divides;
  int8_t other, gamma, beta, sum, norm, rstd;
  int8_t y, scale, zero, smooth, scale_out;
} quant_norm_pass;

enum { PASSES = 2 };

typedef struct {
  int n_passes;
  quant_norm_pass pass[PASSES];
  int y_view;       /* of the only output, where it is int4 */
  int64_t n_packed; /* number of int4 elements in it; 0: it is int8 */
  uint64_t bytes;   /* in scratch: its int8 copy */
} quant_norm_plan;

static void quant_norm_row(const quant_norm_pass *q, const panel *p, int i) {
  const float *x = panel_floats(p, 0, i), *beta = norm_row_or_null(p, q->beta, i);
  float *const y = panel_floats(p, q->y, i);
  if (q->other >= 0) {
    float *const sum = q->sum >= 0 ? panel_floats(p, q->sum, i) : y;
    norm->add(sum, panel_floats(p, q->other, i), 1, x, NULL, p->n);
    x = sum;
  }
  const double rstd = 1 / sqrt(norm->squares(x, p->n) / (double)p->n + q->eps);
  if (q->rstd >= 0) *panel_floats(p, q->rstd, i) = (float)rstd;
  norm->scale(y, x, rstd, panel_floats(p, q->gamma, i), 0, p->n);
  if (q->norm >= 0) memcpy(panel_floats(p, q->norm, i), y, (size_t)p->n * sizeof *y);
  if (beta) norm->add(y, y, 1, beta, NULL, p->n);
  if (q->smooth >= 0) quant_row_smooth(y, y, panel_floats(p, q->smooth, i), p->n);
  if (q->scale_out >= 0)
    *panel_floats(p, q->scale_out, i) = quant_row_dynamic(y, y, 127, p->n);
  else
    quant_row(y, y, panel_floats(p, q->scale, i), norm_row_or_null(p, q->zero, i), q->divides, p->n);
}

static void quant_norm_panel(const void *op, const panel *p) {
  for (int i = 0; i < p->width; ++i) quant_norm_row(op, p, i);
}

static status run_quant_norm(const executor *e, void *const *view, void *scratch) {
  const quant_norm_plan *plan = e->heap;
  void *views[EXECUTOR_OPERANDS];
  if (plan->n_packed) {
    memcpy(views, view, (size_t)e->n_operands * sizeof *views);
    views[plan->y_view] = (char *)scratch + plan->bytes;
  }
  for (int k = 0; k < plan->n_passes; ++k) {
    const quant_norm_pass *q = &plan->pass[k];
    const panel_job job = {.plan = &q->rows, .view = plan->n_packed ? views : view, .body = quant_norm_panel, .op = q};
    TRY(panels_run(&job, e->cost_ns / (unsigned)plan->n_passes));
  }
  if (plan->n_packed) nibbles_pack(view[plan->y_view], views[plan->y_view], plan->n_packed);
  return ST_OK;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* Arguments that the outputs share. */
typedef struct {
  norm_arg x, other, gamma, beta, sum, norm, rstd;
  double eps;
  bool divides;
} norm_call;

/* One output: either scale (and zero) or scale_out (and smooth). */
typedef struct {
  norm_arg y, scale, zero, smooth, scale_out;
} output_call;

/* Adds an int8 output: of x's shape, or a contiguous matrix whose rows are as long as x's last dimension. */
static status add_integers(panel_plan *p, const tensor *x, const norm_arg *y, int8_t *index) {
  const view whole = view_contiguous(ACL_INT8, x->rank, x->dims);
  const int64_t last = x->rank ? x->dims[x->rank - 1] : 1;
  TRY(op_expect_dtype(y->t, y->name, DTYPE_BIT(ACL_INT8)));
  const bool flat = y->t->rank == 2 && x->rank != 2 && y->t->contiguous && y->t->n == x->n && y->t->dims[1] == last;
  if (!flat) TRY(op_expect_same_shape(y->t, y->name, x));
  const view v = flat ? whole : view_of(y->t);
  *index = (int8_t)panel_add(p, PANEL_WRITTEN_APART, y->view, &v);
  return ST_OK;
}

/* Adds numbers for each element of a row, or one number for all, of the given dtypes. */
static status add_scales(panel_plan *p, const tensor *x, int n_outer, const norm_arg *s, uint64_t dtypes,
                         int8_t *index) {
  if (!s->t) return ST_OK;
  TRY(op_expect_dtype(s->t, s->name, dtypes));
  view v = {.dtype = s->t->dtype};
  if (s->t->n != 1 || x->rank == n_outer) {
    TRY(op_expect_shape(s->t, s->name, x->dims + n_outer, x->rank - n_outer));
    v = view_of(s->t);
  }
  *index = (int8_t)panel_add(p, PANEL_COLUMN, s->view, &v); /* a single number has strides of 0 */
  return ST_OK;
}

static const uint64_t zero_dtypes = DTYPES_FLOAT_TO_32 | DTYPE_BIT(ACL_INT32) | DTYPE_BIT(ACL_INT8);

/* Adds a pass. xOut and rmsNormOut are written by the first one. */
static status quant_norm_add_pass(quant_norm_plan *plan, const norm_call *c, const output_call *o) {
  const tensor *x = c->x.t;
  const bool is_first = !plan->n_passes;
  quant_norm_pass *q = &plan->pass[plan->n_passes++];
  int n_outer;
  int8_t x_index;
  *q = (quant_norm_pass){
      .eps = c->eps, .divides = c->divides, .sum = -1, .norm = -1, .rstd = -1, .scale = -1, .zero = -1, .smooth = -1};
  TRY(norm_expect_gamma(x, c->gamma.t, &n_outer));
  panel_plan_init(&q->rows, COMPUTE_F32, n_outer, x->rank - n_outer, x->dims);
  TRY(norm_add_elements(&q->rows, x, &c->x, PANEL_READ, &x_index));
  TRY(norm_add_elements(&q->rows, x, &c->gamma, PANEL_COLUMN, &q->gamma));
  TRY(norm_add_elements(&q->rows, x, &c->other, PANEL_READ, &q->other));
  TRY(norm_add_elements(&q->rows, x, &c->beta, PANEL_COLUMN, &q->beta));
  if (is_first) {
    TRY(norm_add_elements(&q->rows, x, &c->sum, PANEL_WRITTEN_APART, &q->sum));
    TRY(norm_add_elements(&q->rows, x, &c->norm, PANEL_WRITTEN_APART, &q->norm));
    TRY(norm_add_numbers(&q->rows, x->dims, n_outer, &c->rstd, PANEL_ROW_WRITTEN, &q->rstd));
  }
  TRY(add_scales(&q->rows, x, n_outer, &o->scale, DTYPES_FLOAT_TO_32, &q->scale));
  TRY(add_scales(&q->rows, x, n_outer, &o->zero, zero_dtypes, &q->zero));
  TRY(add_scales(&q->rows, x, n_outer, &o->smooth, DTYPES_FLOAT_TO_32, &q->smooth));
  TRY(norm_add_numbers(&q->rows, x->dims, n_outer, &o->scale_out, PANEL_ROW_WRITTEN, &q->scale_out));
  TRY(add_integers(&q->rows, x, &o->y, &q->y));
  panel_plan_end(&q->rows, false);
  return ST_OK;
}

static status quant_norm_begin(executor *e, const norm_call *c) {
  HEAP_PLAN(quant_norm_plan, plan, e, sizeof *plan);
  plan->n_passes = 0;
  executor_cost(e, 4 * norm_tensor_bytes(c->x.t), (uint64_t)c->x.t->n * 16);
  e->run = run_quant_norm;
  return ST_OK;
}

/* Views a tensor of one row as its elements: [1, n] becomes [n]. */
static const tensor *quant_norm_row_of(const tensor *t, tensor *room) {
  if (t->rank != 2 || t->dims[0] != 1) return t;
  *room = *t;
  room->rank = 1;
  room->dims[0] = t->dims[1];
  room->strides[0] = t->strides[1];
  return room;
}

status prepare_rms_norm_quant(executor *e, const rms_norm_quant_args *a) {
  tensor room[2];
  const norm_call c = {.x = {a->x, "x", RMS_NORM_QUANT_X},
                       .gamma = {quant_norm_row_of(a->gamma, &room[0]), "gamma", RMS_NORM_QUANT_GAMMA},
                       .beta = {quant_norm_row_of(a->beta, &room[1]), "beta", RMS_NORM_QUANT_BETA},
                       .eps = a->epsilon,
                       .divides = true};
  const output_call o = {.y = {a->y, "y", RMS_NORM_QUANT_Y},
                         .scale = {a->scale, "scale", RMS_NORM_QUANT_SCALE},
                         .zero = {a->offset, "offset", RMS_NORM_QUANT_OFFSET}};
  EXPECT(c.gamma.t->rank == 1, "gamma has %d dimensions, expected 1, or a first of 1 and another", c.gamma.t->rank);
  TRY(op_expect_one(o.scale.t, "scale", DTYPES_FLOAT_TO_32));
  TRY(op_expect_one(o.zero.t, "offset", zero_dtypes));
  TRY(quant_norm_begin(e, &c));
  return quant_norm_add_pass(e->heap, &c, &o);
}

/* Replaces *y, an int4 result of x's shape, by an int8 tensor, which the plan has in scratch. */
static status quant_norm_pack(executor *e, const tensor *x, const tensor **y, tensor *room) {
  quant_norm_plan *plan = e->heap;
  const view bytes = view_contiguous(ACL_INT8, x->rank, x->dims);
  if (!(DTYPES_NIBBLES >> (*y)->dtype & 1)) return ST_OK;
  TRY(nibbles_operand(e, RMS_NORM_QUANT_V3_Y, *y, "y", x->dims, x->rank));
  *room = *x;
  room->dtype = ACL_INT8;
  room->contiguous = true;
  for (int d = 0; d < x->rank; ++d) room->strides[d] = bytes.strides[d];
  *y = room;
  plan->y_view = RMS_NORM_QUANT_V3_Y;
  plan->n_packed = x->n;
  plan->bytes = workspace_intermediate(e, (uint64_t)x->n);
  return ST_OK;
}

status prepare_rms_norm_quant_v3(executor *e, const rms_norm_quant_v3_args *a) {
  tensor room[3];
  const tensor *x = a->x, *y = a->y;
  const norm_call c = {
      .x = {x, "x", RMS_NORM_QUANT_V3_X},
      .gamma = {quant_norm_row_of(a->gamma, &room[0]), "gamma", RMS_NORM_QUANT_V3_GAMMA},
      .beta = {a->beta ? quant_norm_row_of(a->beta, &room[1]) : NULL, "betaOptional", RMS_NORM_QUANT_V3_BETA},
      .rstd = {a->output_rstd ? a->rstd : NULL, "rstd", RMS_NORM_QUANT_V3_RSTD},
      .eps = a->epsilon,
      .divides = a->div_mode};
  EXPECT(c.gamma.t->rank == 1, "gamma has %d dimensions, expected 1, or a first of 1 and another", c.gamma.t->rank);
  TRY(op_expect_rank(x, "x", 1, MAX_RANK));
  TRY(op_expect_rank(a->scale, "scale", 1, 1));
  if (a->offset) TRY(op_expect_same_shape(a->offset, "offsetOptional", a->scale));
  if (c.rstd.t) {
    int64_t dims[MAX_RANK];
    memcpy(dims, x->dims, sizeof dims);
    dims[x->rank - 1] = 1;
    TRY(op_expect_dtype(c.rstd.t, "rstd", DTYPE_BIT(ACL_FLOAT)));
    TRY(op_expect_shape(c.rstd.t, "rstd", dims, x->rank));
  }
  TRY(quant_norm_begin(e, &c));
  TRY(quant_norm_pack(e, x, &y, &room[2]));
  const output_call o = {.y = {y, "y", RMS_NORM_QUANT_V3_Y},
                         .scale = {a->scale, "scale", RMS_NORM_QUANT_V3_SCALE},
                         .zero = {a->offset, "offsetOptional", RMS_NORM_QUANT_V3_OFFSET}};
  return quant_norm_add_pass(e->heap, &c, &o);
}

/* axis counts as -1 whatever its value, as in CANN. */
status prepare_add_rms_norm_quant(executor *e, const add_rms_norm_quant_args *a) {
  const norm_call c = {.x = {a->x1, "x1", ADD_RMS_NORM_QUANT_X1},
                       .other = {a->x2, "x2", ADD_RMS_NORM_QUANT_X2},
                       .gamma = {a->gamma, "gamma", ADD_RMS_NORM_QUANT_GAMMA},
                       .beta = {a->beta, "betaOptional", ADD_RMS_NORM_QUANT_BETA},
                       .sum = {a->x_out, "xOut", a->view.x_out},
                       .norm = {a->rms_norm_out, "rmsNormOut", ADD_RMS_NORM_QUANT_RMS_NORM_OUT},
                       .eps = a->epsilon,
                       .divides = a->div_mode};
  const output_call passes[PASSES] = {
      {.y = {a->y1_out, "y1Out", a->view.y1_out},
       .scale = {a->scales1, "scales1", ADD_RMS_NORM_QUANT_SCALES1},
       .zero = {a->zero_points1, "zeroPoints1Optional", ADD_RMS_NORM_QUANT_ZERO_POINTS1}},
      {.y = {a->y2_out, "y2Out", a->view.y2_out},
       .scale = {a->scales2, "scales2Optional", ADD_RMS_NORM_QUANT_SCALES2},
       .zero = {a->zero_points2, "zeroPoints2Optional", ADD_RMS_NORM_QUANT_ZERO_POINTS2}}};
  TRY(quant_norm_begin(e, &c));
  TRY(quant_norm_add_pass(e->heap, &c, &passes[0]));
  return a->scales2 ? quant_norm_add_pass(e->heap, &c, &passes[1]) : ST_OK; /* else y2Out is not used */
}

/* Which of the two outputs are requested, according to outputMask or to the smooth scales. */
static status quant_norm_wanted(const tensor *const *smooth, const aclBoolArray *mask, bool *is_wanted) {
  if (!mask) {
    EXPECT(smooth[0] || !smooth[1], "smoothScale2Optional is a tensor, expected one only beside smoothScale1Optional");
    is_wanted[0] = true;
    is_wanted[1] = smooth[0] && smooth[1];
    return ST_OK;
  }
  TRY(op_expect_size(mask->size, "outputMask", 2));
  for (int k = 0; k < PASSES; ++k) {
    is_wanted[k] = mask->value[k];
    EXPECT(is_wanted[k] || !smooth[k], "smoothScale%dOptional is a tensor, expected none as outputMask[%d] is false",
           k + 1, k);
  }
  EXPECT(is_wanted[0] || is_wanted[1], "outputMask is false twice, expected an output");
  return ST_OK;
}

status prepare_add_rms_norm_dynamic_quant(executor *e, const add_rms_norm_dynamic_quant_args *a) {
  const norm_call c = {.x = {a->x1, "x1", ADD_RMS_NORM_DYNAMIC_QUANT_X1},
                       .other = {a->x2, "x2", ADD_RMS_NORM_DYNAMIC_QUANT_X2},
                       .gamma = {a->gamma, "gamma", ADD_RMS_NORM_DYNAMIC_QUANT_GAMMA},
                       .beta = {a->beta, "betaOptional", ADD_RMS_NORM_DYNAMIC_QUANT_BETA},
                       .sum = {a->x_out, "xOut", a->view.x_out},
                       .eps = a->epsilon};
  const output_call passes[PASSES] = {
      {.y = {a->y1_out, "y1Out", a->view.y1_out},
       .smooth = {a->smooth_scale1, "smoothScale1Optional", ADD_RMS_NORM_DYNAMIC_QUANT_SMOOTH_SCALE1},
       .scale_out = {a->scale1_out, "scale1Out", a->view.scale1_out}},
      {.y = {a->y2_out, "y2Out", a->view.y2_out},
       .smooth = {a->smooth_scale2, "smoothScale2Optional", ADD_RMS_NORM_DYNAMIC_QUANT_SMOOTH_SCALE2},
       .scale_out = {a->scale2_out, "scale2Out", a->view.scale2_out}}};
  bool is_wanted[PASSES];
  EXPECT(c.gamma.t->rank == 1, "gamma has %d dimensions, expected 1", c.gamma.t->rank);
  TRY(quant_norm_wanted((const tensor *const[]){a->smooth_scale1, a->smooth_scale2}, a->output_mask, is_wanted));
  TRY(quant_norm_begin(e, &c));
  for (int k = 0; k < PASSES; ++k) {
    if (!is_wanted[k]) continue;
    const output_call *o = &passes[k];
    const char *missing = !o->y.t ? o->y.name : !o->scale_out.t ? o->scale_out.name : NULL;
    if (missing) return fail(ST_OP_NULL, "%s is NULL, expected a tensor", missing);
    TRY(op_expect_dtype(o->scale_out.t, o->scale_out.name, DTYPE_BIT(ACL_FLOAT)));
    TRY(quant_norm_add_pass(e->heap, &c, o));
  }
  return ST_OK;
}
