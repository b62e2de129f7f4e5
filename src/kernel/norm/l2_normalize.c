/* SPDX-License-Identifier: Apache-2.0 */
/* L2Normalize and its gradient, called by name: x over the root of the sum of its squares along some axes, which is at
 * least eps. Operands are contiguous and have one shape. And LpNorm, whose result has such sums of powers. Sums are in
 * double; a thread computes whole groups, the elements that share a sum. */
#include <math.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/reduce/reduction.h"
#include "op/executor.h"

enum { TILE = 256 };

typedef struct {
  walk groups;           /* operand 0: x */
  reduced_dims elements; /* of a group */
  int dtype;
  bool is_grad;
  double eps, power; /* power: of LpNorm */
} l2_plan;

typedef struct {
  const l2_plan *plan;
  const char *x, *y, *dy; /* y, dy: of the gradient */
  char *out;
} l2_job;

static void l2_load(const l2_plan *p, double *to, const char *from, int64_t first, int64_t stride, int64_t n) {
  const int64_t size = (int64_t)dtype_bytes(p->dtype);
  loops->load[p->dtype][COMPUTE_F64](to, from + first * size, stride * size, n);
}

static void l2_write(const l2_job *j, double squares, double products, int64_t first, int64_t stride, int64_t n) {
  const l2_plan *p = j->plan;
  const int64_t size = (int64_t)dtype_bytes(p->dtype);
  const double norm = sqrt(fmax(squares, p->eps));
  double x[TILE], dy[TILE];
  l2_load(p, x, j->x, first, stride, n);
  if (p->is_grad) {
    l2_load(p, x, j->y, first, stride, n);
    l2_load(p, dy, j->dy, first, stride, n);
    for (int64_t i = 0; i < n; ++i) x[i] = dy[i] - x[i] * products;
  }
  for (int64_t i = 0; i < n; ++i) x[i] /= norm;
  loops->store[p->dtype][COMPUTE_F64](j->out + first * size, stride * size, x, n);
}

static void l2_add(const l2_job *j, double *squares, double *products, int64_t first, int64_t stride, int64_t n) {
  double x[TILE], dy[TILE];
  l2_load(j->plan, x, j->x, first, stride, n);
  for (int64_t i = 0; i < n; ++i) *squares += x[i] * x[i];
  if (!j->plan->is_grad) return;
  l2_load(j->plan, x, j->y, first, stride, n);
  l2_load(j->plan, dy, j->dy, first, stride, n);
  for (int64_t i = 0; i < n; ++i) *products += x[i] * dy[i];
}

static void l2_range(const void *argument, int64_t begin, int64_t end) {
  const l2_job *j = argument;
  const l2_plan *p = j->plan;
  const reduced_dims *d = &p->elements;
  const int64_t size = (int64_t)dtype_bytes(p->dtype), stride = d->strides[d->rank - 1] / size;
  void *const start = (void *)(uintptr_t)j->x;
  cursor groups, c;
  cursor_start(&groups, &p->groups, &start, begin);
  for (int64_t g = begin; g < end; ++g, cursor_next(&groups, 1)) {
    double squares = 0, products = 0;
    for (int pass = 0; pass < 2; ++pass) {
      reduced_start(d, &c, groups.at[0], 0);
      for (int64_t i = 0, n; i < d->n; i += n, cursor_next(&c, n)) {
        n = cursor_row(&c, i64_min(TILE, d->n - i));
        const int64_t first = ((const char *)c.at[0] - j->x) / size;
        if (pass)
          l2_write(j, squares, products, first, stride, n);
        else
          l2_add(j, &squares, &products, first, stride, n);
      }
    }
  }
}

static status l2_run(const executor *e, void *const *view, void *scratch) {
  const l2_plan *p = PLAN(e, l2_plan);
  (void)scratch;
  const l2_job job = {p, view[0], p->is_grad ? view[1] : NULL, p->is_grad ? view[2] : NULL, view[p->is_grad ? 3 : 1]};
  rows_parallel(l2_range, &job, p->groups.n, 1, e->cost_ns);
  return ST_OK;
}

/* Plans the walks over groups along the axes. all: what no axes mean. */
static status l2_plan_groups(l2_plan *p, const tensor *x, const aclIntArray *axes, const char *name, bool all,
                             bool *is_reduced) {
  for (int d = 0; d < MAX_RANK; ++d) is_reduced[d] = all && !axes->size;
  for (uint64_t i = 0; i < axes->size; ++i) {
    int d;
    TRY(op_expect_dim(axes->value[i], name, x->rank, &d));
    is_reduced[d] = true;
  }
  const view in = view_of(x);
  const reduction_request r = {.in = &in, .is_reduced = is_reduced};
  uint8_t operand[1 + REDUCTION_OUTPUTS];
  reduction_walks(&r, &p->groups, &p->elements, operand);
  p->dtype = x->dtype;
  return ST_OK;
}

status prepare_graph_l2_normalize(executor *e, const graph_l2_normalize_args *a) {
  const tensor *x = a->x;
  l2_plan *p = PLAN(e, l2_plan);
  bool is_reduced[MAX_RANK];
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT));
  p->is_grad = e->op->variant == GRAPH_L2_NORMALIZE_GRAD;
  for (int k = 0; k < e->n_operands; ++k) {
    const tensor *t = a->all[k].tensor;
    TRY(op_expect_dtype(t, e->operands[k].name, DTYPE_BIT(x->dtype)));
    TRY(op_expect_same_shape(t, e->operands[k].name, x));
  }
  TRY(l2_plan_groups(p, x, a->axis, "axis", false, is_reduced));
  p->eps = a->eps;
  executor_cost(e, (uint64_t)(x->n * e->n_operands) * dtype_bytes(x->dtype), (uint64_t)x->n * 16);
  e->run = x->n ? l2_run : move_run_nothing;
  return ST_OK;
}

/* ---- LpNorm ------------------------------------------------------------------------------------------------------ */

static void lp_range(const void *argument, int64_t begin, int64_t end) {
  const l2_job *j = argument;
  const l2_plan *p = j->plan;
  const reduced_dims *d = &p->elements;
  const int64_t size = (int64_t)dtype_bytes(p->dtype), stride = d->strides[d->rank - 1] / size;
  void *const start = (void *)(uintptr_t)j->x;
  cursor groups, c;
  cursor_start(&groups, &p->groups, &start, begin);
  for (int64_t g = begin; g < end; ++g, cursor_next(&groups, 1)) {
    double sum = 0, x[TILE];
    reduced_start(d, &c, groups.at[0], 0);
    for (int64_t i = 0, n; i < d->n; i += n, cursor_next(&c, n)) {
      n = cursor_row(&c, i64_min(TILE, d->n - i));
      l2_load(p, x, j->x, ((const char *)c.at[0] - j->x) / size, stride, n);
      for (int64_t k = 0; k < n; ++k) sum += p->power == 2 ? x[k] * x[k] : pow(fabs(x[k]), p->power);
    }
    sum = fmax(pow(sum, 1 / p->power), p->eps);
    loops->store[p->dtype][COMPUTE_F64](j->out + g * size, 0, &sum, 1);
  }
}

static status lp_run(const executor *e, void *const *view, void *scratch) {
  const l2_job job = {.plan = PLAN(e, l2_plan), .x = view[GRAPH_LP_NORM_X], .out = view[GRAPH_LP_NORM_Y]};
  (void)scratch;
  rows_parallel(lp_range, &job, job.plan->groups.n, 1, e->cost_ns);
  return ST_OK;
}

/* The norm along the axes, or along all; epsilon at least. */
status prepare_graph_lp_norm(executor *e, const graph_lp_norm_args *a) {
  const tensor *x = a->x, *y = a->y;
  l2_plan *p = PLAN(e, l2_plan);
  bool is_reduced[MAX_RANK];
  int64_t dims[MAX_RANK];
  int rank = 0;
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT));
  TRY(op_expect_dtype(y, "y", DTYPE_BIT(x->dtype)));
  EXPECT(a->p > 0, "p is %jd, expected 1 or more", (intmax_t)a->p);
  EXPECT(x->n, "x has no element, expected %s", "some");
  TRY(l2_plan_groups(p, x, a->axes, "axes", true, is_reduced));
  for (int d = 0; d < x->rank; ++d)
    if (!is_reduced[d] || a->keepdim) dims[rank++] = is_reduced[d] ? 1 : x->dims[d];
  TRY(op_expect_shape(y, "y", dims, rank));
  p->power = (double)a->p;
  p->eps = a->epsilon;
  executor_cost(e, (uint64_t)x->n * dtype_bytes(x->dtype), (uint64_t)x->n * (a->p == 2 ? 4 : 640));
  e->run = lp_run;
  return ST_OK;
}
