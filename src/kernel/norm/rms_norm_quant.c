/* SPDX-License-Identifier: Apache-2.0 */
/* RMS norms with quantised results: with given scales (RmsNormQuant, AddRmsNormQuant), or with scales from each row's
 * maximum magnitude (AddRmsNormDynamicQuant), for one or two outputs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/families.h"
#include "kernel/norm/norm.h"
#include "kernel/quant/row.h"

/* A pass over the rows for one output. Members are operand indices in the plan; -1: absent. */
typedef struct {
  panel_plan rows; /* x is the first operand */
  double eps;
  bool divides;
  int8_t other, gamma, beta, sum, norm;
  int8_t y, scale, zero, smooth, scale_out;
} quant_norm_pass;

enum { PASSES = 2 };

typedef struct {
  int n_passes;
  quant_norm_pass pass[PASSES];
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
  (void)scratch;
  const quant_norm_plan *plan = e->heap;
  for (int k = 0; k < plan->n_passes; ++k) {
    const quant_norm_pass *q = &plan->pass[k];
    const panel_job job = {.plan = &q->rows, .view = view, .body = quant_norm_panel, .op = q};
    TRY(panels_run(&job, e->cost_ns / (unsigned)plan->n_passes));
  }
  return ST_OK;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* Arguments that the outputs share. */
typedef struct {
  norm_arg x, other, gamma, beta, sum, norm;
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
  if (!flat) TRY(op_expect_shape(y->t, y->name, x->dims, x->rank));
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

static const uint64_t zero_dtypes = DTYPES_NORM | DTYPE_BIT(ACL_INT32) | DTYPE_BIT(ACL_INT8);

/* Adds a pass. xOut and rmsNormOut are written by the first one. */
static status quant_norm_add_pass(quant_norm_plan *plan, const norm_call *c, const output_call *o) {
  const tensor *x = c->x.t;
  const bool is_first = !plan->n_passes;
  quant_norm_pass *q = &plan->pass[plan->n_passes++];
  int n_outer;
  int8_t x_index;
  *q = (quant_norm_pass){
      .eps = c->eps, .divides = c->divides, .sum = -1, .norm = -1, .scale = -1, .zero = -1, .smooth = -1};
  TRY(norm_expect_gamma(x, c->gamma.t, &n_outer));
  panel_plan_init(&q->rows, COMPUTE_F32, n_outer, x->rank - n_outer, x->dims);
  TRY(norm_add_elements(&q->rows, x, &c->x, PANEL_READ, &x_index));
  TRY(norm_add_elements(&q->rows, x, &c->gamma, PANEL_COLUMN, &q->gamma));
  TRY(norm_add_elements(&q->rows, x, &c->other, PANEL_READ, &q->other));
  TRY(norm_add_elements(&q->rows, x, &c->beta, PANEL_COLUMN, &q->beta));
  if (is_first) {
    TRY(norm_add_elements(&q->rows, x, &c->sum, PANEL_WRITTEN_APART, &q->sum));
    TRY(norm_add_elements(&q->rows, x, &c->norm, PANEL_WRITTEN_APART, &q->norm));
  }
  TRY(add_scales(&q->rows, x, n_outer, &o->scale, DTYPES_NORM, &q->scale));
  TRY(add_scales(&q->rows, x, n_outer, &o->zero, zero_dtypes, &q->zero));
  TRY(add_scales(&q->rows, x, n_outer, &o->smooth, DTYPES_NORM, &q->smooth));
  TRY(norm_add_numbers(&q->rows, x->dims, n_outer, &o->scale_out, PANEL_ROW_WRITTEN, &q->scale_out));
  TRY(add_integers(&q->rows, x, &o->y, &q->y));
  panel_plan_end(&q->rows, false);
  return ST_OK;
}

static status quant_norm_begin(executor *e, const norm_call *c) {
  quant_norm_plan *plan = e->heap = malloc(sizeof *plan);
  if (!plan) return fail(ST_NO_HOST_MEMORY, "no host memory for a plan");
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

/* (x, gamma, beta, scale, offset, epsilon, y) */
status prepare_rms_norm_quant(executor *e, const op_arg *a) {
  tensor room[2];
  const norm_call c = {.x = {a[0].tensor, "x", 0},
                       .gamma = {quant_norm_row_of(a[1].tensor, &room[0]), "gamma", 1},
                       .beta = {quant_norm_row_of(a[2].tensor, &room[1]), "beta", 2},
                       .eps = a[5].real,
                       .divides = true};
  const output_call o = {
      .y = {a[6].tensor, "y", 5}, .scale = {a[3].tensor, "scale", 3}, .zero = {a[4].tensor, "offset", 4}};
  EXPECT(c.gamma.t->rank == 1, "gamma has %d dimensions, expected 1, or a first of 1 and another", c.gamma.t->rank);
  TRY(op_expect_one(o.scale.t, "scale", DTYPES_NORM));
  TRY(op_expect_one(o.zero.t, "offset", zero_dtypes));
  TRY(quant_norm_begin(e, &c));
  return quant_norm_add_pass(e->heap, &c, &o);
}

/* (x1, x2, gamma, scales1, scales2Optional, zeroPoints1Optional, zeroPoints2Optional, [betaOptional,] axis, epsilon,
 * divMode, y1Out, y2Out, xOut [, rmsNormOut]). axis counts as -1 whatever its value, as in CANN. */
status prepare_add_rms_norm_quant(executor *e, const op_arg *a) {
  const int v2 = e->op->variant == ADD_RMS_NORM_QUANT_V2, y1 = 10 + v2, y1_view = 7 + v2;
  const arg_schema *schema = e->op->schema;
  const norm_call c = {.x = {a[0].tensor, "x1", 0},
                       .other = {a[1].tensor, "x2", 1},
                       .gamma = {a[2].tensor, "gamma", 2},
                       .beta = {v2 ? a[7].tensor : NULL, "betaOptional", 7},
                       .sum = {a[y1 + 2].tensor, "xOut", y1_view + 2},
                       .norm = {v2 ? a[14].tensor : NULL, "rmsNormOut", 11},
                       .eps = a[8 + v2].real,
                       .divides = a[9 + v2].boolean};
  TRY(quant_norm_begin(e, &c));
  for (int k = 0; k < PASSES; ++k) {
    if (k && !a[4].tensor) break; /* y2Out is not used then */
    const output_call o = {.y = {a[y1 + k].tensor, schema[y1 + k].name, y1_view + k},
                           .scale = {a[3 + k].tensor, schema[3 + k].name, 3 + k},
                           .zero = {a[5 + k].tensor, schema[5 + k].name, 5 + k}};
    TRY(quant_norm_add_pass(e->heap, &c, &o));
  }
  return ST_OK;
}

/* Which of the two outputs are requested, according to outputMask or to the smooth scales. */
static status quant_norm_wanted(const tensor *const *smooth, const aclBoolArray *mask, bool *is_wanted) {
  if (!mask) {
    EXPECT(smooth[0] || !smooth[1], "smoothScale2Optional is a tensor, expected one only beside smoothScale1Optional");
    is_wanted[0] = true;
    is_wanted[1] = smooth[0] && smooth[1];
    return ST_OK;
  }
  EXPECT(mask->size == 2, "outputMask has %ju elements, expected 2", (uintmax_t)mask->size);
  for (int k = 0; k < PASSES; ++k) {
    is_wanted[k] = mask->value[k];
    EXPECT(is_wanted[k] || !smooth[k], "smoothScale%dOptional is a tensor, expected none as outputMask[%d] is false",
           k + 1, k);
  }
  EXPECT(is_wanted[0] || is_wanted[1], "outputMask is false twice, expected an output");
  return ST_OK;
}

/* (x1, x2, gamma, smoothScale1Optional, smoothScale2Optional, [betaOptional,] epsilon, [outputMask,] y1Out, y2Out,
 * xOut, scale1Out, scale2Out) */
status prepare_add_rms_norm_dynamic_quant(executor *e, const op_arg *a) {
  const int v2 = e->op->variant == ADD_RMS_NORM_DYNAMIC_V2, y1 = v2 ? 8 : 6, y1_view = v2 ? 6 : 5;
  const arg_schema *schema = e->op->schema;
  const norm_call c = {.x = {a[0].tensor, "x1", 0},
                       .other = {a[1].tensor, "x2", 1},
                       .gamma = {a[2].tensor, "gamma", 2},
                       .beta = {v2 ? a[5].tensor : NULL, "betaOptional", 5},
                       .sum = {a[y1 + 2].tensor, "xOut", y1_view + 2},
                       .eps = a[v2 ? 6 : 5].real};
  bool is_wanted[PASSES];
  EXPECT(c.gamma.t->rank == 1, "gamma has %d dimensions, expected 1", c.gamma.t->rank);
  TRY(quant_norm_wanted((const tensor *const[]){a[3].tensor, a[4].tensor}, v2 ? a[7].bools : NULL, is_wanted));
  TRY(quant_norm_begin(e, &c));
  for (int k = 0; k < PASSES; ++k) {
    if (!is_wanted[k]) continue;
    const output_call o = {.y = {a[y1 + k].tensor, schema[y1 + k].name, y1_view + k},
                           .smooth = {a[3 + k].tensor, schema[3 + k].name, 3 + k},
                           .scale_out = {a[y1 + 3 + k].tensor, schema[y1 + 3 + k].name, y1_view + 3 + k}};
    const char *missing = !o.y.t ? o.y.name : !o.scale_out.t ? o.scale_out.name : NULL;
    if (missing) return fail(ST_OP_NULL, "%s is NULL, expected a tensor", missing);
    TRY(op_expect_dtype(o.scale_out.t, o.scale_out.name, DTYPE_BIT(ACL_FLOAT)));
    TRY(quant_norm_add_pass(e->heap, &c, &o));
  }
  return ST_OK;
}
