/* SPDX-License-Identifier: Apache-2.0 */
/* MultiMarginLoss and its gradient by name: for each row, with target t, the sum over the other classes c of
 * weight[t] max(0, margin - x[t] + x[c])^p, p is 1 or 2, divided by the number of classes. Computed in double. */
#include <math.h>

#include "kernel/engine/loops.h"
#include "kernel/families.h"
#include "kernel/loss/loss_reduction.h"

typedef struct {
  int64_t n, classes, reduction;
  double margin;
  int dtype, target_dtype, x, target, weight; /* the last three: operands; weight -1: none */
  bool squared;
  uint64_t scores; /* in scratch: a row */
} multi_margin_plan;

/* What the loss of a row consists of: its scores, its target and the target's weight. */
typedef struct {
  double *x, weight;
  int64_t target;
} margin_row;

static status margin_row_load(const multi_margin_plan *p, void *const *view, int64_t i, margin_row *r) {
  const int64_t size = (int64_t)dtype_bytes(p->dtype);
  loops->load[p->target_dtype][COMPUTE_I64](
      &r->target, (const char *)view[p->target] + i * (int64_t)dtype_bytes(p->target_dtype), 0, 1);
  if (r->target < 0 || r->target >= p->classes)
    return fail(ST_DEVICE_EXCEPTION, "target[%jd] is %jd, expected 0 to %jd", (intmax_t)i, (intmax_t)r->target,
                (intmax_t)p->classes - 1);
  r->weight = 1;
  if (p->weight >= 0)
    loops->load[p->dtype][COMPUTE_F64](&r->weight, (const char *)view[p->weight] + r->target * size, 0, 1);
  loops->load[p->dtype][COMPUTE_F64](r->x, (const char *)view[p->x] + i * p->classes * size, size, p->classes);
  return ST_OK;
}

static status multi_margin_run(const executor *e, void *const *view, void *scratch) {
  const multi_margin_plan *p = PLAN(e, multi_margin_plan);
  const int64_t size = (int64_t)dtype_bytes(p->dtype);
  char *y = view[e->n_operands - 1];
  margin_row r = {.x = (double *)(void *)((char *)scratch + p->scores)};
  double sum = 0;
  for (int64_t i = 0; i < p->n; ++i) {
    double loss = 0;
    TRY(margin_row_load(p, view, i, &r));
    for (int64_t c = 0; c < p->classes; ++c) {
      const double over = p->margin - r.x[r.target] + r.x[c];
      if (c != r.target && !(over <= 0)) loss += r.weight * (p->squared ? over * over : over);
    }
    loss /= (double)p->classes;
    sum += loss;
    if (p->reduction == REDUCTION_NONE) loops->store[p->dtype][COMPUTE_F64](y + i * size, 0, &loss, 1);
  }
  if (p->reduction == REDUCTION_MEAN) sum /= (double)p->n;
  if (p->reduction != REDUCTION_NONE) loops->store[p->dtype][COMPUTE_F64](y, 0, &sum, 1);
  return ST_OK;
}

static status multi_margin_grad_run(const executor *e, void *const *view, void *scratch) {
  const multi_margin_plan *p = PLAN(e, multi_margin_plan);
  const int64_t size = (int64_t)dtype_bytes(p->dtype);
  const char *gradient = view[0];
  char *to = view[e->n_operands - 1];
  margin_row r = {.x = (double *)(void *)((char *)scratch + p->scores)};
  for (int64_t i = 0; i < p->n; ++i) {
    double grad, at_target = 0;
    TRY(margin_row_load(p, view, i, &r));
    loops->load[p->dtype][COMPUTE_F64](&grad, gradient + (p->reduction == REDUCTION_NONE ? i * size : 0), 0, 1);
    grad *= r.weight / (double)p->classes / (p->reduction == REDUCTION_MEAN ? (double)p->n : 1);
    const double limit = p->margin - r.x[r.target];
    for (int64_t c = 0; c < p->classes; ++c) {
      const double over = limit + r.x[c];
      r.x[c] = c == r.target || over <= 0 ? 0 : grad * (p->squared ? 2 * over : 1);
      at_target -= r.x[c];
    }
    r.x[r.target] = at_target;
    loops->store[p->dtype][COMPUTE_F64](to + i * p->classes * size, size, r.x, p->classes);
  }
  return ST_OK;
}

status prepare_graph_multi_margin(executor *e, const graph_multi_margin_args *a) {
  const tensor *x = a->x, *grad = a->y_grad, *out = grad ? a->x_grad : a->y, *loss = grad ? grad : out;
  const char *loss_name = grad ? "y_grad" : "y";
  multi_margin_plan *p = PLAN(e, multi_margin_plan);
  *p = (multi_margin_plan){.dtype = x->dtype,
                           .target_dtype = a->target->dtype,
                           .margin = a->margin,
                           .squared = a->p == 2,
                           .x = a->view.x,
                           .target = a->view.target,
                           .weight = a->weight ? a->view.weight : -1};
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT));
  TRY(op_expect_dtype(a->target, "target", DTYPES_INDEX));
  EXPECT(a->p == 1 || a->p == 2, "p is %jd, expected 1 or 2", (intmax_t)a->p);
  EXPECT(x->rank == 2 && x->dims[1] > 0, "x has shape %s, expected [N, C] with a class or more", SHAPE_OF(x));
  p->n = x->dims[0];
  p->classes = x->dims[1];
  TRY(op_expect_shape(a->target, "target", &p->n, 1));
  if (a->weight) {
    TRY(op_expect_dtype(a->weight, "weight", DTYPE_BIT(x->dtype)));
    TRY(op_expect_shape(a->weight, "weight", &p->classes, 1));
  }
  TRY(loss_reduction_of(a->reduction, &p->reduction));
  TRY(loss_expect_reduction(p->reduction, REDUCTION_SUM));
  TRY(op_expect_dtype(loss, loss_name, DTYPE_BIT(x->dtype)));
  if (p->reduction == REDUCTION_NONE) TRY(op_expect_shape(loss, loss_name, &p->n, 1));
  if (p->reduction != REDUCTION_NONE) TRY(loss_expect_one(loss, loss_name));
  if (grad) {
    TRY(op_expect_dtype(out, "x_grad", DTYPE_BIT(x->dtype)));
    TRY(op_expect_same_shape(out, "x_grad", x));
  }
  p->scores = workspace_intermediate(e, (uint64_t)p->classes * sizeof(double));
  executor_cost(e, (uint64_t)x->n * dtype_bytes(x->dtype) * 2, (uint64_t)x->n * 16);
  e->run = grad ? multi_margin_grad_run : multi_margin_run;
  return ST_OK;
}
