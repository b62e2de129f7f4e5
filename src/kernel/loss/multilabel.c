/* SPDX-License-Identifier: Apache-2.0 */
/* MultilabelMarginLoss, also by name: for each row, the sum over targets t and over classes c that are not targets of
 * max(0, 1 - (score[t] - score[c])), divided by the number of classes. A row's targets end at the first -1. Computed in
 * double, row by row. */
#include "kernel/engine/loops.h"
#include "kernel/families.h"
#include "kernel/loss/loss_reduction.h"

/* A matrix of scores, targets or flags. */
typedef struct {
  load_loop *load;
  store_loop *store;
  int64_t row, along; /* bytes */
} multilabel_matrix;

typedef struct {
  int64_t n, classes;
  multilabel_matrix self, target, flags;
  store_loop *store;
  int64_t out_row;                     /* bytes between results if there is one per row */
  uint64_t scores, targets, is_target; /* offsets in the workspace; one row each */
  bool each, mean;
} multilabel_plan;

/* Reads a row's targets up to the first -1 and sets their flags. Returns their number, or -1 - k if target k is out of
 * range. */
static int64_t read_targets(const multilabel_plan *p, const char *row, int64_t *target, double *is_target) {
  int64_t n = 0;
  p->target.load(target, row, p->target.along, p->classes);
  memset(is_target, 0, (size_t)p->classes * sizeof *is_target);
  for (; n < p->classes && target[n] != -1; ++n) {
    if (target[n] < 0 || target[n] >= p->classes) return -1 - n;
    is_target[target[n]] = 1;
  }
  return n;
}

static double row_loss(const double *x, const int64_t *target, int64_t n_targets, const double *is_target,
                       int64_t classes) {
  double sum = 0;
  for (int64_t k = 0; k < n_targets; ++k) {
    const double limit = x[target[k]] - 1;
    for (int64_t c = 0; c < classes; ++c) {
      const double over = x[c] - limit;
      sum += is_target[c] == 0 && !(over <= 0) ? over : 0;
    }
  }
  return sum / (double)classes;
}

static status multilabel_run(const executor *e, void *const *view, void *scratch) {
  const multilabel_plan *p = PLAN(e, multilabel_plan);
  double *x = (void *)((char *)scratch + p->scores), *is_target = (void *)((char *)scratch + p->is_target), sum = 0;
  int64_t *target = (void *)((char *)scratch + p->targets);
  for (int64_t i = 0; i < p->n; ++i) {
    const int64_t n = read_targets(p, (const char *)view[MULTILABEL_TARGET] + i * p->target.row, target, is_target);
    if (n < 0)
      return fail(ST_DEVICE_EXCEPTION, "target[%jd, %jd] is %jd, expected -1 to %jd", (intmax_t)i, (intmax_t)(-1 - n),
                  (intmax_t)target[-1 - n], (intmax_t)p->classes - 1);
    p->self.load(x, (const char *)view[MULTILABEL_SELF] + i * p->self.row, p->self.along, p->classes);
    const double loss = row_loss(x, target, n, is_target, p->classes);
    p->flags.store((char *)view[MULTILABEL_IS_TARGET] + i * p->flags.row, p->flags.along, is_target, p->classes);
    if (p->each) p->store((char *)view[MULTILABEL_OUT] + i * p->out_row, 0, &loss, 1);
    sum += loss;
  }
  if (p->mean) sum /= (double)p->n;
  if (!p->each) p->store(view[MULTILABEL_OUT], 0, &sum, 1);
  return ST_OK;
}

static multilabel_matrix multilabel_matrix_of(const tensor *t, compute_type compute) {
  const int64_t bytes = (int64_t)dtype_bytes(t->dtype);
  return (multilabel_matrix){loops->load[t->dtype][compute], loops->store[t->dtype][compute],
                             t->rank > 1 ? t->strides[0] * bytes : 0, t->strides[t->rank - 1] * bytes};
}

static status multilabel_prepare(executor *e, const multilabel_args *a, uint64_t flag_dtypes) {
  const tensor *self = a->self, *target = a->target, *out = a->out, *flags = a->is_target;
  multilabel_plan *p = PLAN(e, multilabel_plan);
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT));
  TRY(op_expect_dtype(target, "target", DTYPES_INDEX));
  TRY(op_expect_dtype(flags, "isTarget", flag_dtypes));
  EXPECT((self->rank == 1 || self->rank == 2) && self->dims[self->rank - 1] > 0,
         "self has shape %s, expected [N, C] or [C] with a class or more", SHAPE_OF(self));
  TRY(op_expect_same_shape(target, "target", self));
  TRY(op_expect_same_shape(flags, "isTarget", self));
  TRY(loss_expect_reduction(a->reduction, REDUCTION_SUM));
  p->n = self->rank > 1 ? self->dims[0] : 1;
  p->classes = self->dims[self->rank - 1];
  p->each = a->reduction == REDUCTION_NONE && self->rank > 1;
  p->mean = a->reduction == REDUCTION_MEAN;
  if (p->each) {
    TRY(op_expect_dtype(out, "out", DTYPES_FLOAT));
    TRY(op_expect_shape(out, "out", &p->n, 1));
    p->out_row = out->strides[0] * (int64_t)dtype_bytes(out->dtype);
  } else {
    TRY(loss_expect_one(out, "out"));
  }
  p->self = multilabel_matrix_of(self, COMPUTE_F64);
  p->target = multilabel_matrix_of(target, COMPUTE_I64);
  p->flags = multilabel_matrix_of(flags, COMPUTE_F64);
  p->store = loops->store[out->dtype][COMPUTE_F64];
  p->scores = workspace_intermediate(e, (uint64_t)p->classes * sizeof(double));
  p->is_target = workspace_intermediate(e, (uint64_t)p->classes * sizeof(double));
  p->targets = workspace_intermediate(e, (uint64_t)p->classes * sizeof(int64_t));
  executor_cost(e, (uint64_t)self->n * 24, (uint64_t)self->n * 64);
  e->run = multilabel_run;
  return ST_OK;
}

status prepare_multilabel(executor *e, const multilabel_args *a) { return multilabel_prepare(e, a, DTYPES_FLOAT); }

status prepare_graph_multilabel(executor *e, const graph_multilabel_args *a) {
  multilabel_args of = {.self = a->x, .target = a->target, .out = a->y, .is_target = a->is_target};
  TRY(loss_reduction_of(a->reduction, &of.reduction));
  return multilabel_prepare(e, &of, DTYPES_FLOAT | DTYPE_BIT(ACL_INT32));
}
