/* SPDX-License-Identifier: Apache-2.0 */
/* ClippedSwiglu: a * sigmoid(alpha * a) * (b + bias), where a and b are halves of a dimension, or its even and odd
 * elements, and are clipped first. Groups may say that only the first rows, of the dimensions before that, count. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/quant/row.h"

enum { OUT, A, B, OPERANDS, TILE = 512 };

typedef struct {
  walk at;
  int64_t other;       /* bytes from a's first element to b's */
  int64_t n_rows, row; /* row: elements of out for each row */
  float alpha, limit, bias;
  load_loop *load;
  store_loop *store;
  int64_t n_groups, group_step; /* n_groups -1: there are none */
} clipped_plan;

typedef struct {
  const clipped_plan *plan;
  void *at[OPERANDS];
} clipped_job;

static void clipped_range(const void *arg, int64_t begin, int64_t end) {
  const clipped_job *j = arg;
  const clipped_plan *p = j->plan;
  const int last = p->at.rank - 1;
  float x[2 * TILE], y[TILE];
  cursor c;
  cursor_start(&c, &p->at, j->at, begin);
  for (int64_t i = begin, n; i < end; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, i64_min(TILE, end - i));
    p->load(x, c.at[A], p->at.strides[A][last], n);
    p->load(x + n, c.at[B], p->at.strides[B][last], n);
    quant_row_clipped_swiglu(y, x, p->limit, p->alpha, p->bias, n);
    p->store(c.at[OUT], p->at.strides[OUT][last], y, n);
  }
}

/* *n = the number of rows that the groups have, at most all. */
static status count_rows(const clipped_plan *p, const char *groups, int64_t *n) {
  int64_t sum = 0;
  for (int64_t g = 0; g < p->n_groups; ++g) {
    const int64_t size = *(const int64_t *)(const void *)(groups + g * p->group_step);
    if (size < 0)
      return fail(ST_DEVICE_EXCEPTION, "groupIndexOptional[%jd] is %jd, expected 0 or more", (intmax_t)g,
                  (intmax_t)size);
    sum += i64_min(size, p->n_rows - sum);
  }
  *n = p->n_groups < 0 ? p->n_rows : sum;
  return ST_OK;
}

static status run_clipped(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const clipped_plan *p = PLAN(e, clipped_plan);
  char *const x = view[CLIPPED_SWIGLU_X];
  const clipped_job job = {.plan = p, .at = {view[CLIPPED_SWIGLU_OUT], x, x + p->other}};
  int64_t n;
  TRY(count_rows(p, view[CLIPPED_SWIGLU_GROUP_INDEX], &n));
  if (n * p->row > 0) rows_parallel(clipped_range, &job, n * p->row, 1, e->cost_ns);
  return ST_OK;
}

/* Merges the dimensions from `dim` on into one, of which even and odd elements are taken. */
static status merge_from(view *v, int dim, const tensor *t, const char *name) {
  for (int d = v->rank - 1; d > dim; --d) {
    const bool fits = v->dims[d] == 1 || v->dims[d - 1] == 1 || v->strides[d - 1] == v->dims[d] * v->strides[d];
    EXPECT(fits || !t->n,
           "%s has gaps behind dimension dim, expected none where interleaved is true and dim is not the last", name);
    if (v->dims[d] != 1) v->strides[d - 1] = v->strides[d];
    v->dims[d - 1] *= v->dims[d];
  }
  v->rank = dim + 1;
  return ST_OK;
}

status prepare_clipped_swiglu(executor *e, const clipped_swiglu_args *a) {
  const tensor *x = a->x, *out = a->out, *groups = a->group_index;
  int64_t dims[MAX_RANK];
  int dim;
  clipped_plan *p = PLAN(e, clipped_plan);
  *p = (clipped_plan){.alpha = (float)a->alpha, .limit = (float)a->limit, .bias = (float)a->bias, .n_groups = -1};
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(x, "x", 1, MAX_RANK));
  TRY(op_expect_dim(a->dim, "dim", x->rank, &dim));
  EXPECT(x->dims[dim] % 2 == 0, "x has %jd elements in dimension %d, expected an even number", (intmax_t)x->dims[dim],
         dim);
  EXPECT(a->limit > 0, "limit is %g, expected more than 0", a->limit);
  memcpy(dims, x->dims, sizeof dims);
  dims[dim] /= 2;
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(x->dtype)));
  TRY(op_expect_shape(out, "out", dims, x->rank));
  if (groups) {
    TRY(op_expect_dtype(groups, "groupIndexOptional", DTYPE_BIT(ACL_INT64)));
    TRY(op_expect_rank(groups, "groupIndexOptional", 1, 1));
    p->n_groups = groups->n;
    p->group_step = view_of(groups).strides[0];
  }
  view from = view_of(x), to = view_of(out);
  if (a->interleaved) {
    TRY(merge_from(&from, dim, x, "x"));
    TRY(merge_from(&to, dim, out, "out"));
    p->other = from.strides[dim];
    from.strides[dim] *= 2;
  } else {
    p->other = x->dims[dim] / 2 * from.strides[dim];
  }
  p->n_rows = 1;
  for (int d = 0; d < dim; ++d) p->n_rows *= x->dims[d];
  p->row = p->n_rows ? out->n / p->n_rows : 0;
  walk_init(&p->at, (const view *const[]){&to, &from, &from}, OPERANDS, to.rank);
  p->load = loops->load[x->dtype][COMPUTE_F32];
  p->store = loops->store[x->dtype][COMPUTE_F32];
  executor_cost(e, (uint64_t)x->n * 3 / 2 * dtype_bytes(x->dtype), (uint64_t)x->n * 16);
  e->run = out->n ? run_clipped : move_run_nothing;
  return ST_OK;
}
