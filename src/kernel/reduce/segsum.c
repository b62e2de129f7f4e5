/* SPDX-License-Identifier: Apache-2.0 */
/* ExpSegsum and its gradient, as state space models use it: out[i, j] is e to the sum of self[j + 1] to self[i], and 0
 * above the diagonal. Sums are in double. */
#include <math.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

enum { SEGSUM_OPERANDS = 3 };

/* Operands: self and out, or gradOutput, gradSelf and gradInput. */
typedef struct {
  walk batch;
  int64_t n;                                             /* length of a row of self */
  int64_t row[SEGSUM_OPERANDS], column[SEGSUM_OPERANDS]; /* strides in bytes; of vectors: column */
  load_loop *load;
  store_loop *store;
} segsum_plan;

typedef struct {
  const segsum_plan *plan;
  void *at[SEGSUM_OPERANDS];
  status *result;
} segsum_job;

static double *segsum_scratch(const segsum_job *j) {
  double *const room = (double *)(void *)scratch_take((size_t)j->plan->n * 4 * sizeof *room);
  if (!room) __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
  return room;
}

static void segsum_range(const void *arg, int64_t begin, int64_t end) {
  const segsum_job *j = arg;
  const segsum_plan *p = j->plan;
  double *const x = segsum_scratch(j), *const row = x + p->n;
  cursor c;
  if (!x) return;
  cursor_start(&c, &p->batch, j->at, begin);
  for (; begin < end; ++begin, cursor_next(&c, 1)) {
    p->load(x, c.at[0], p->column[0], p->n);
    for (int64_t i = 0; i < p->n; ++i) {
      double sum = 0;
      for (int64_t k = i; k >= 0; sum += x[k--]) row[k] = exp(sum);
      for (int64_t k = i + 1; k < p->n; ++k) row[k] = 0;
      p->store(c.at[1] + i * p->row[1], p->column[1], row, p->n);
    }
  }
}

/* From the last row to the first, sums[k] is the sum of the products of the rows from i on in column k. */
static void segsum_backward_range(const void *arg, int64_t begin, int64_t end) {
  const segsum_job *j = arg;
  const segsum_plan *p = j->plan;
  double *const sums = segsum_scratch(j), *const gradient = sums + p->n, *const result = gradient + p->n,
                *const out = result + p->n;
  cursor c;
  if (!sums) return;
  cursor_start(&c, &p->batch, j->at, begin);
  for (; begin < end; ++begin, cursor_next(&c, 1)) {
    memset(sums, 0, (size_t)p->n * sizeof *sums);
    for (int64_t i = p->n - 1; i >= 0; --i) {
      double total = 0;
      p->load(gradient, c.at[0] + i * p->row[0], p->column[0], i);
      p->load(out, c.at[1] + i * p->row[1], p->column[1], i);
      for (int64_t k = 0; k < i; ++k) total += sums[k] += gradient[k] * out[k];
      result[i] = total;
    }
    p->store(c.at[2], p->column[2], result, p->n);
  }
}

static status segsum_run(const executor *e, void *const *view, range_body *range, int n_operands) {
  const segsum_plan *p = PLAN(e, segsum_plan);
  status result = ST_OK;
  segsum_job job = {.plan = p, .result = &result};
  for (int k = 0; k < n_operands; ++k) job.at[k] = view[k];
  rows_parallel(range, &job, p->batch.n, 1, e->cost_ns);
  return result;
}

static status run_segsum(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  return segsum_run(e, view, segsum_range, 2);
}

static status run_segsum_backward(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  return segsum_run(e, view, segsum_backward_range, 3);
}

/* matrix: [..., n, n] of the same dtype as vector: [..., n]. */
static status expect_matrix(const tensor *matrix, const char *name, const tensor *vector) {
  int64_t dims[MAX_RANK];
  for (int d = 0; d < vector->rank; ++d) dims[d] = vector->dims[d];
  dims[vector->rank] = vector->dims[vector->rank - 1];
  TRY(op_expect_dtype(matrix, name, DTYPE_BIT(vector->dtype)));
  return op_expect_shape(matrix, name, dims, vector->rank + 1);
}

static void segsum_plan_init(executor *e, const tensor *const *t, int n_operands, const tensor *vector,
                             status (*run)(const executor *, void *const *, void *)) {
  segsum_plan *p = PLAN(e, segsum_plan);
  view v[SEGSUM_OPERANDS];
  const view *views[SEGSUM_OPERANDS];
  const int last = vector->rank - 1;
  for (int k = 0; k < n_operands; ++k) {
    v[k] = view_of(t[k]);
    views[k] = &v[k];
    p->row[k] = v[k].strides[last];
    p->column[k] = v[k].strides[v[k].rank - 1];
  }
  walk_init(&p->batch, views, n_operands, last);
  p->n = vector->dims[last];
  p->load = loops->load[vector->dtype][COMPUTE_F64];
  p->store = loops->store[vector->dtype][COMPUTE_F64];
  executor_cost(e, (uint64_t)(t[n_operands - 1]->n + t[0]->n) * dtype_bytes(vector->dtype),
                (uint64_t)(vector->n * p->n) * 64);
  e->run = vector->n ? run : move_run_nothing;
}

status prepare_exp_segsum(executor *e, const exp_segsum_args *a) {
  TRY(op_expect_dtype(a->self, "self", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(a->self, "self", 1, MAX_RANK - 1));
  TRY(expect_matrix(a->out, "out", a->self));
  segsum_plan_init(e, (const tensor *const[]){a->self, a->out}, 2, a->self, run_segsum);
  return ST_OK;
}

/* gradSelf is the result of the forward operator. */
status prepare_exp_segsum_backward(executor *e, const exp_segsum_backward_args *a) {
  TRY(op_expect_dtype(a->grad_input, "gradInput", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(a->grad_input, "gradInput", 1, MAX_RANK - 1));
  TRY(expect_matrix(a->grad_output, "gradOutput", a->grad_input));
  TRY(expect_matrix(a->grad_self, "gradSelf", a->grad_input));
  segsum_plan_init(e, (const tensor *const[]){a->grad_output, a->grad_self, a->grad_input}, 3, a->grad_input,
                   run_segsum_backward);
  return ST_OK;
}
