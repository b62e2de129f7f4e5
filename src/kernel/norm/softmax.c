/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and LogSoftmax along any dimension, and their gradients. */
#include "kernel/engine/level_choice.h"
#include "kernel/families.h"
#include "kernel/norm/panels.h"
#include "kernel/norm/softmax_columns.h"
#include "kernel/norm/softmax_loops.h"

LEVEL_CHOICE(softmax_loops, softmax, softmax_loops)

typedef struct {
  panel_plan rows;
  union {
    softmax_rows *rows_loop;
    softmax_back *back_rows;
    softmax_columns *columns;
  };
} softmax_plan;

static void softmax_panel(const void *op, const panel *p) {
  const softmax_plan *s = op;
  s->rows_loop(&(softmax_matrix){.y = p->at[1],
                                 .x = p->at[0],
                                 .y_pitch = p->pitch[1],
                                 .x_pitch = p->pitch[0],
                                 .n = p->n,
                                 .rows = p->width,
                                 .dtype = p->dtype});
}

/* Operands: the gradient, the result of the forward pass, the gradient of its input. */
static void softmax_back_panel(const void *op, const panel *p) {
  const softmax_plan *s = op;
  s->back_rows(&(softmax_back_rows){.dx = p->at[2],
                                    .dy = p->at[0],
                                    .y = p->at[1],
                                    .dx_pitch = p->pitch[2],
                                    .dy_pitch = p->pitch[0],
                                    .y_pitch = p->pitch[1],
                                    .n = p->n,
                                    .rows = p->width,
                                    .dtype = p->dtype});
}

static status softmax_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const softmax_plan *s = PLAN(e, softmax_plan);
  return panels_run(&(panel_job){.plan = &s->rows, .view = view, .body = softmax_panel, .op = s, .as_stored = true},
                    e->cost_ns);
}

static status by_columns_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const softmax_plan *s = PLAN(e, softmax_plan);
  return softmax_columns_run(&s->rows, s->columns, view, e->cost_ns);
}

static status softmax_back_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const softmax_plan *s = PLAN(e, softmax_plan);
  return panels_run(
      &(panel_job){.plan = &s->rows, .view = view, .body = softmax_back_panel, .op = s, .as_stored = true}, e->cost_ns);
}

/* Plans rows along dim for n tensors of one shape, the last of which is written. */
static softmax_type_loops softmax_plan_rows(executor *e, softmax_plan *s, const tensor *const *t, int n, int dim) {
  uint64_t bytes = 0;
  bool is_double = false;
  for (int k = 0; k < n; ++k) is_double |= t[k]->dtype == ACL_DOUBLE;
  const int rank = t[0]->rank, n_outer = rank ? rank - 1 : 0;
  int8_t order[MAX_RANK]; /* dim last */
  int64_t dims[MAX_RANK];
  dims[0] = 1;
  for (int d = 0; d < rank; ++d) {
    order[d] = (int8_t)(d == n_outer ? dim : d < dim ? d : d + 1);
    dims[d] = t[0]->dims[order[d]];
  }
  panel_plan_init(&s->rows, is_double ? COMPUTE_F64 : COMPUTE_F32, n_outer, rank - n_outer, dims);
  for (int k = 0; k < n; ++k) {
    panel_add_tensor(&s->rows, k < n - 1 ? PANEL_READ : PANEL_WRITTEN, k, t[k], order);
    bytes += (uint64_t)t[k]->n * dtype_bytes(t[k]->dtype);
  }
  panel_plan_end(&s->rows, false);
  executor_cost(e, bytes, (uint64_t)t[0]->n * 16);
  return is_double ? softmax->f64 : softmax->f32;
}

status prepare_softmax(executor *e, const softmax_args *a) {
  const tensor *self = a->self, *out = a->out;
  softmax_plan *s = PLAN(e, softmax_plan);
  int dim;
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, "out", DTYPES_FLOAT));
  TRY(op_expect_dim(a->dim, "dim", self->rank, &dim));
  TRY(op_expect_same_shape(out, "out", self));
  const softmax_type_loops loops_of_type = softmax_plan_rows(e, s, (const tensor *const[]){self, out}, 2, dim);
  const bool is_log = e->op->variant != SOFTMAX;
  if (softmax_takes_columns(&s->rows)) {
    s->columns = is_log ? softmax_by_columns->log_softmax : softmax_by_columns->softmax;
    e->run = by_columns_run;
  } else {
    s->rows_loop = is_log ? loops_of_type.log_softmax : loops_of_type.softmax;
    e->run = softmax_run;
  }
  return ST_OK;
}

status prepare_softmax_backward(executor *e, const softmax_backward_args *a) {
  const tensor *grad = a->grad_output, *output = a->output, *out = a->out;
  softmax_plan *s = PLAN(e, softmax_plan);
  int dim;
  TRY(op_expect_dtype(grad, "gradOutput", DTYPES_FLOAT));
  TRY(op_expect_dtype(output, "output", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, "out", DTYPES_FLOAT));
  TRY(op_expect_dim(a->dim, "dim", grad->rank, &dim));
  TRY(op_expect_same_shape(output, "output", grad));
  TRY(op_expect_same_shape(out, "out", grad));
  const softmax_type_loops loops_of_type = softmax_plan_rows(e, s, (const tensor *const[]){grad, output, out}, 3, dim);
  s->back_rows = e->op->variant == SOFTMAX_BACK ? loops_of_type.softmax_back : loops_of_type.log_softmax_back;
  e->run = softmax_back_run;
  return ST_OK;
}
