/* SPDX-License-Identifier: Apache-2.0 */
/* Sinkhorn: the rows and columns of e^cost are scaled in turn until they have equal sums, and the columns' factors
 * change by no more than tol, on average. Routers of experts balance tokens by it. Computed in double and rounded
 * once. */
#include <math.h>

#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

typedef struct {
  int64_t rows, columns;
  int64_t strides[2][2]; /* bytes, of cost and p */
  load_loop *load;
  store_loop *store;
  double tol;
} sinkhorn_plan;

/* One step: `row` and `column` are the factors. Returns the mean change of the columns' factors. */
static double sinkhorn_step(const sinkhorn_plan *p, const double *x, double *row, double *column, double *next) {
  const double eps = 1e-8; /* of the operator's page */
  double change = 0;
  for (int64_t j = 0; j < p->columns; ++j) next[j] = 0;
  for (int64_t i = 0; i < p->rows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < p->columns; ++j) sum += column[j] * x[i * p->columns + j];
    row[i] = 1 / ((double)p->rows * (sum + eps));
    for (int64_t j = 0; j < p->columns; ++j) next[j] += row[i] * x[i * p->columns + j];
  }
  for (int64_t j = 0; j < p->columns; ++j) {
    const double factor = 1 / ((double)p->columns * (next[j] + eps));
    change += fabs(column[j] - factor);
    column[j] = factor;
  }
  return change / (double)p->columns;
}

static status sinkhorn_run(const executor *e, void *const *view, void *scratch) {
  enum { MOST_STEPS = 100000 }; /* rounding errors may keep the factors from settling below a tiny tol */
  (void)scratch;
  const sinkhorn_plan *p = PLAN(e, sinkhorn_plan);
  const int64_t n = p->rows * p->columns;
  double *const x = (double *)(void *)scratch_take((size_t)(n + p->rows + 2 * p->columns) * sizeof *x);
  if (!x) return ST_NO_MEMORY;
  double *const row = x + n, *const column = row + p->rows, *const next = column + p->columns;
  const char *const cost = view[SINKHORN_COST];
  char *const to = view[SINKHORN_P];
  for (int64_t i = 0; i < p->rows; ++i)
    p->load(x + i * p->columns, cost + i * p->strides[0][0], p->strides[0][1], p->columns);
  for (int64_t i = 0; i < n; ++i) x[i] = exp(x[i]);
  for (int64_t j = 0; j < p->columns; ++j) column[j] = 1;
  for (int step = 0; step < MOST_STEPS && sinkhorn_step(p, x, row, column, next) > p->tol; ++step) continue;
  for (int64_t i = 0; i < p->rows; ++i) {
    for (int64_t j = 0; j < p->columns; ++j) x[i * p->columns + j] *= column[j] * row[i];
    p->store(to + i * p->strides[1][0], p->strides[1][1], x + i * p->columns, p->columns);
  }
  return ST_OK;
}

/* (cost, tol, p); tol NULL: 0.0001. */
status prepare_sinkhorn(executor *e, const sinkhorn_args *a) {
  const tensor *cost = a->cost, *out = a->p;
  sinkhorn_plan *p = PLAN(e, sinkhorn_plan);
  TRY(op_expect_dtype(cost, "cost", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(cost, "cost", 2, 2));
  TRY(op_expect_like(out, "p", cost));
  const view from = view_of(cost), to = view_of(out);
  *p = (sinkhorn_plan){.rows = cost->dims[0],
                       .columns = cost->dims[1],
                       .strides = {{from.strides[0], from.strides[1]}, {to.strides[0], to.strides[1]}},
                       .load = loops->load[cost->dtype][COMPUTE_F64],
                       .store = loops->store[cost->dtype][COMPUTE_F64],
                       .tol = a->tol ? scalar_real(a->tol) : 0.0001};
  executor_cost(e, (uint64_t)cost->n * 2 * dtype_bytes(cost->dtype), (uint64_t)cost->n * 256);
  e->run = cost->n ? sinkhorn_run : move_run_nothing;
  return ST_OK;
}
