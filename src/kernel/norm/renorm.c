/* SPDX-License-Identifier: Apache-2.0 */
/* Slices along a dimension whose p-norm exceeds a bound are scaled down to it. As in PyTorch, the factor is
 * bound / (norm + 1e-7). */
#include <math.h>

#include "kernel/families.h"
#include "kernel/norm/norm.h"

typedef struct {
  panel_plan rows;
  double p, bound;
  bool factors; /* the result is the slices' factors (Renorm by name) */
} renorm_plan;

/* Sum of |x|^p; for p = 0 the number of elements that are not 0, for infinite p the maximum. */
static double power_sum(const float *x, double p, int64_t n) {
  if (p == 2) return norm->squares(x, n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double a = fabs((double)x[i]);
    if (p == INFINITY)
      sum = a > sum || a != a ? a : sum;
    else
      sum += p == 1 ? a : p == 0 ? a != 0 : pow(a, p);
  }
  return sum;
}

static double norm_of(const float *x, double p, int64_t n) {
  const double sum = power_sum(x, p, n);
  return p == 2 ? sqrt(sum) : p == 0 || p == 1 || p == INFINITY ? sum : pow(sum, 1 / p);
}

static void renorm_panel(const void *op, const panel *p) {
  const renorm_plan *r = op;
  for (int i = 0; i < p->width; ++i) {
    const double length = norm_of(panel_floats(p, 0, i), r->p, p->n);
    const double factor = length > r->bound ? r->bound / (length + 1e-7) : 1;
    if (r->factors)
      ((float *)(void *)p->at[1])[i] = (float)factor;
    else
      norm->scale(panel_floats(p, 1, i), panel_floats(p, 0, i), factor, NULL, 0, p->n);
  }
}

static status renorm_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const renorm_plan *r = PLAN(e, renorm_plan);
  /* An in-place call has only one operand, which is read and written. */
  void *const both[] = {view[RENORM_SELF], view[e->n_operands - 1]};
  return panels_run(&(panel_job){.plan = &r->rows, .view = both, .body = renorm_panel, .op = r}, e->cost_ns);
}

/* Moves dimension d to the front, so that it numbers the slices. */
static view slices(const tensor *t, int d) {
  view v = view_of(t);
  const int64_t dim = v.dims[d], stride = v.strides[d];
  for (; d > 0; --d) {
    v.dims[d] = v.dims[d - 1];
    v.strides[d] = v.strides[d - 1];
  }
  v.dims[0] = dim;
  v.strides[0] = stride;
  return v;
}

static status renorm_numbers(renorm_plan *r, double p, double bound, const char *bound_name) {
  r->p = p;
  r->bound = bound;
  EXPECT(p >= 0, "p is %g, expected 0 or more", p);
  EXPECT(bound >= 0, "%s is %g, expected 0 or more", bound_name, bound);
  return ST_OK;
}

status prepare_renorm(executor *e, const renorm_args *a) {
  const bool in_place = e->op->variant == RENORM_IN_PLACE;
  const tensor *self = a->self, *out = in_place ? self : a->out;
  const char *name = in_place ? "selfRef" : "self";
  renorm_plan *r = PLAN(e, renorm_plan);
  int dim;
  r->factors = false;
  TRY(op_expect_dtype(self, name, DTYPES_FLOAT_TO_32));
  EXPECT(self->rank >= 2, "%s has %d dimensions, expected 2 or more", name, self->rank);
  TRY(renorm_numbers(r, scalar_real(a->p), scalar_real(a->max_norm), "maxNorm"));
  TRY(op_expect_dim(a->dim, "dim", self->rank, &dim));
  EXPECT(out->dtype == self->dtype, "out has dtype %s, expected that of self, %s", dtype_name(out->dtype),
         dtype_name(self->dtype));
  TRY(op_expect_same_shape(out, "out", self));
  const view x = slices(self, dim), y = slices(out, dim);
  panel_plan_init(&r->rows, COMPUTE_F32, 1, x.rank - 1, x.dims);
  panel_add(&r->rows, PANEL_READ, 0, &x);
  panel_add(&r->rows, PANEL_WRITTEN, 1, &y);
  panel_plan_end(&r->rows, false);
  executor_cost(e, 2 * norm_tensor_bytes(self), (uint64_t)self->n * 8);
  e->run = renorm_run;
  return ST_OK;
}

/* Renorm by name: y has the factor of each slice, and 1 as its other dimensions. */
status prepare_graph_renorm(executor *e, const graph_renorm_args *a) {
  const tensor *x = a->x, *y = a->y;
  renorm_plan *r = PLAN(e, renorm_plan);
  int64_t dims[MAX_RANK];
  int dim;
  r->factors = true;
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT_TO_32));
  TRY(op_expect_dtype(y, "y", DTYPES_FLOAT_TO_32));
  EXPECT(x->rank >= 2, "x has %d dimensions, expected 2 or more", x->rank);
  TRY(renorm_numbers(r, a->p, a->maxnorm, "maxnorm"));
  TRY(op_expect_dim(a->dim, "dim", x->rank, &dim));
  for (int d = 0; d < x->rank; ++d) dims[d] = d == dim ? x->dims[d] : 1;
  TRY(op_expect_shape(y, "y", dims, x->rank));
  const view slice = slices(x, dim);
  view factor = slices(y, dim);
  factor.rank = 1;
  panel_plan_init(&r->rows, COMPUTE_F32, 1, slice.rank - 1, slice.dims);
  panel_add(&r->rows, PANEL_READ, 0, &slice);
  panel_add(&r->rows, PANEL_ROW_WRITTEN, 1, &factor);
  panel_plan_end(&r->rows, false);
  executor_cost(e, norm_tensor_bytes(x), (uint64_t)x->n * 8);
  e->run = renorm_run;
  return ST_OK;
}
