/* SPDX-License-Identifier: Apache-2.0 */
/* CumulativeLogsumexp, called by name: logarithms of sums of exponentials up to each element of a dimension, in double.
 * An exclusive sum leaves the element itself out; that of nothing is the type's least finite number, as in TensorFlow.
 * Operands are contiguous. */
#include <math.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

typedef struct {
  int64_t n, inner, rows; /* elements along the dimension, elements behind it, and rows */
  int64_t size;
  bool exclusive, reverse;
  double least;
  load_loop *load;
  store_loop *store;
} log_sums_plan;

typedef struct {
  const log_sums_plan *plan;
  const char *x;
  char *y;
} log_sums_job;

static double log_sums_join(double a, double b) {
  const double most = a > b || a != a ? a : b, less = a > b || a != a ? b : a;
  return fabs(most) == INFINITY ? most + (less != less ? less : 0) : most + log1p(exp(less - most));
}

static void log_sums_range(const void *argument, int64_t begin, int64_t end) {
  const log_sums_job *j = argument;
  const log_sums_plan *p = j->plan;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t first = (row / p->inner * p->n * p->inner + row % p->inner) * p->size, step = p->inner * p->size;
    double sum = -INFINITY, x;
    for (int64_t i = 0; i < p->n; ++i) {
      const int64_t at = first + (p->reverse ? p->n - 1 - i : i) * step;
      const double before = i ? sum : p->least;
      p->load(&x, j->x + at, 0, 1);
      sum = log_sums_join(sum, x);
      p->store(j->y + at, 0, p->exclusive ? &before : &sum, 1);
    }
  }
}

static status log_sums_run(const executor *e, void *const *view, void *scratch) {
  const log_sums_job job = {PLAN(e, log_sums_plan), view[GRAPH_LOG_SUMS_X], view[GRAPH_LOG_SUMS_Y]};
  (void)scratch;
  rows_parallel(log_sums_range, &job, job.plan->rows, 1, e->cost_ns);
  return ST_OK;
}

status prepare_graph_log_sums(executor *e, const graph_log_sums_args *a) {
  const tensor *x = a->x;
  int dim;
  EXPECT(a->axis->size == 1, "axis has %ju elements, expected 1", (uintmax_t)a->axis->size);
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT));
  TRY(op_expect_like(a->y, "y", x));
  TRY(op_expect_dim(a->axis->value[0], "axis", x->rank, &dim));
  log_sums_plan *p = PLAN(e, log_sums_plan);
  *p = (log_sums_plan){.n = x->rank ? x->dims[dim] : 1,
                       .inner = 1,
                       .size = (int64_t)dtype_bytes(x->dtype),
                       .exclusive = a->exclusive,
                       .reverse = a->reverse,
                       .least = -dtype_largest(x->dtype),
                       .load = loops->load[x->dtype][COMPUTE_F64],
                       .store = loops->store[x->dtype][COMPUTE_F64]};
  for (int d = dim + 1; d < x->rank; ++d) p->inner *= x->dims[d];
  if (x->n) p->rows = x->n / p->n;
  executor_cost(e, (uint64_t)x->n * 2 * dtype_bytes(x->dtype), (uint64_t)x->n * 1500); /* some 40 ns each by libm */
  e->run = x->n ? log_sums_run : move_run_nothing;
  return ST_OK;
}
