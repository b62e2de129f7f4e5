/* SPDX-License-Identifier: Apache-2.0 */
/* Pdist, PdistForward and Cdist: the p-norms of the differences of pairs of rows, computed by the loops that norms use
 * (fold.h). */
#include <math.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/reduce/fold.h"

typedef struct {
  int64_t n_rows, n_columns;
  int64_t row, to;          /* strides in bytes */
  row_access access, other; /* of the first and the second row of a pair */
  walk pairs;               /* Cdist: out, x1 and x2, the latter broadcast to pairs */
  fold_loops fold;
  elementwise_loop *subtract;
  store_loop *store; /* converts from double */
  double p;
  bool is_maximum;
} pdist_plan;

typedef struct {
  const pdist_plan *plan;
  const char *self, *other; /* other: Cdist's second tensor */
  char *out;
} pdist_job;

static double pdist_distance(const pdist_plan *p, const char *x, const char *y) {
  static const compute_value one[ELEMENTWISE_PARAMETERS] = {{.f64 = 1}};
  static const compute_value one_f32[ELEMENTWISE_PARAMETERS] = {{.f32 = 1}};
  _Alignas(64) char tile[2][FOLD_BLOCK * sizeof(double)];
  double norm = 0;
  for (int64_t i = 0, n; i < p->n_columns; i += n) {
    n = i64_min(FOLD_BLOCK, p->n_columns - i);
    const void *const in[ELEMENTWISE_INPUTS] = {row_fetch(&p->access, tile[0], x + i * p->access.along, 1, n),
                                                row_fetch(&p->other, tile[1], y + i * p->other.along, 1, n)};
    fold_value value, second;
    p->subtract(tile[0], in, p->access.size == sizeof(double) ? one : one_f32, n);
    fold_row(&p->fold, tile[0], n, p->p, &value, &second);
    if (p->is_maximum)
      norm = value.f64 > norm || value.f64 != value.f64 ? value.f64 : norm;
    else
      norm += value.f64;
  }
  if (p->is_maximum || p->p == 0 || p->p == 1) return norm;
  return p->p == 2 ? sqrt(norm) : pow(norm, 1 / p->p);
}

/* The pairs are in the order (0, 1), (0, 2), ... (1, 2) ... */
static void pdist_range(const void *arg, int64_t begin, int64_t end) {
  const pdist_job *j = arg;
  const pdist_plan *p = j->plan;
  int64_t i = 0, k = begin;
  for (; k >= p->n_rows - 1 - i; ++i) k -= p->n_rows - 1 - i;
  for (k += i + 1; begin < end; ++begin) {
    const double d = pdist_distance(p, j->self + i * p->row, j->self + k * p->row);
    p->store(j->out + begin * p->to, 0, &d, 1);
    if (++k == p->n_rows) k = ++i + 1;
  }
}

static status run_pdist(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const pdist_plan *p = PLAN(e, pdist_plan);
  const pdist_job job = {.plan = p, .self = view[PDIST_SELF], .out = view[PDIST_OUT]};
  rows_parallel(pdist_range, &job, p->n_rows * (p->n_rows - 1) / 2, 16, e->cost_ns);
  return ST_OK;
}

static fold fold_of(double p) {
  return p == 0     ? FOLD_COUNT
         : p == 1   ? FOLD_SUM_ABS
         : p == 2   ? FOLD_SUM_SQUARE
         : isinf(p) ? FOLD_MAX_ABS
                    : FOLD_SUM_POWER;
}

static void plan_distances(pdist_plan *p, int dtype, double norm, int64_t along) {
  const compute_type compute = compute_type_of(dtype);
  *p = (pdist_plan){.fold = reduction->fold[fold_of(norm)][compute],
                    .subtract = loops->elementwise[EW_sub][compute],
                    .store = loops->store[dtype][COMPUTE_F64],
                    .p = norm,
                    .is_maximum = isinf(norm)};
  row_access_init(&p->access, dtype, compute, along, 0, FOLD_BLOCK);
  p->other = p->access;
}

status prepare_pdist(executor *e, const pdist_args *a) {
  const tensor *self = a->self, *out = a->out;
  const double norm = a->p_scalar ? scalar_real(a->p_scalar) : a->p;
  pdist_plan *p = PLAN(e, pdist_plan);
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(self->dtype)));
  TRY(op_expect_rank(self, "self", 2, 2));
  EXPECT(norm >= 0, "p is %g, expected 0 or more", norm);
  const int64_t n = self->dims[0], pairs = n * (n - 1) / 2;
  TRY(op_expect_shape(out, "out", &pairs, 1));
  const view from = view_of(self), to = view_of(out);
  plan_distances(p, self->dtype, norm, from.strides[1]);
  p->n_rows = n;
  p->n_columns = self->dims[1];
  p->row = from.strides[0];
  p->to = to.strides[0];
  executor_cost(e, (uint64_t)(self->n + out->n) * dtype_bytes(self->dtype), (uint64_t)(pairs * self->dims[1]) * 4);
  e->run = pairs ? run_pdist : move_run_nothing;
  return ST_OK;
}

/* ---- Cdist by operator name: both tensors have a row for each pair ----------------------------------------------- */

static void cdist_range(const void *arg, int64_t begin, int64_t end) {
  const pdist_job *j = arg;
  const pdist_plan *p = j->plan;
  for (int64_t i = begin; i < end; ++i) {
    const double d = pdist_distance(p, j->self + i * p->row, j->other + i * p->row);
    p->store(j->out + i * p->to, 0, &d, 1);
  }
}

static status run_cdist(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const pdist_plan *p = PLAN(e, pdist_plan);
  const pdist_job job = {
      .plan = p, .self = view[GRAPH_CDIST_X1], .other = view[GRAPH_CDIST_X2], .out = view[GRAPH_CDIST_Y]};
  rows_parallel(cdist_range, &job, p->n_rows, 16, e->cost_ns);
  return ST_OK;
}

/* (x1, x2, y, p), called by operator name; such operands are contiguous. */
status prepare_graph_cdist(executor *e, const graph_cdist_args *a) {
  const tensor *x1 = a->x1, *x2 = a->x2, *y = a->y;
  const double given = a->p;
  pdist_plan *p = PLAN(e, pdist_plan);
  TRY(op_expect_dtype(x1, "x1", DTYPES_FLOAT));
  TRY(op_expect_dtype(x2, "x2", DTYPE_BIT(x1->dtype)));
  TRY(op_expect_dtype(y, "y", DTYPE_BIT(x1->dtype)));
  EXPECT(x1->rank > 0, "x1 has no dimension, expected %s", "1 or more");
  TRY(op_expect_same_shape(x2, "x2", x1));
  TRY(op_expect_shape(y, "y", x1->dims, x1->rank - 1));
  EXPECT(given >= 0 || given == -1, "p is %g, expected 0 or more, or -1 for infinity", given);
  const int64_t bytes = (int64_t)dtype_bytes(x1->dtype);
  plan_distances(p, x1->dtype, given < 0 ? INFINITY : given, bytes);
  p->n_rows = y->n;
  p->n_columns = x1->dims[x1->rank - 1];
  p->row = p->n_columns * bytes;
  p->to = bytes;
  executor_cost(e, (uint64_t)(2 * x1->n + y->n) * (uint64_t)bytes, (uint64_t)x1->n * 4);
  e->run = y->n ? run_cdist : move_run_nothing;
  return ST_OK;
}

/* ---- Cdist of all pairs of rows of two stacks -------------------------------------------------------------------- */

static void all_pairs_range(const void *arg, int64_t begin, int64_t end) {
  const pdist_job *j = arg;
  const pdist_plan *p = j->plan;
  void *const base[] = {j->out, (void *)(uintptr_t)j->self, (void *)(uintptr_t)j->other};
  cursor c;
  cursor_start(&c, &p->pairs, base, begin);
  for (; begin < end; ++begin, cursor_next(&c, 1)) {
    const double d = pdist_distance(p, c.at[1], c.at[2]);
    p->store(c.at[0], 0, &d, 1);
  }
}

static status run_all_pairs(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const pdist_plan *p = PLAN(e, pdist_plan);
  const pdist_job job = {.plan = p, .self = view[CDIST_X1], .other = view[CDIST_X2], .out = view[CDIST_OUT]};
  rows_parallel(all_pairs_range, &job, p->pairs.n, 16, e->cost_ns);
  return ST_OK;
}

/* The rows of a stack as elements of the pairs' space, which has the shape of out: `dim` (from the end) is the
 * dimension of the rows, and the other one is broadcast. */
static view rows_as_pairs(const tensor *t, const tensor *out, int dim) {
  const view v = view_of(t);
  view rows = {.rank = out->rank, .dtype = v.dtype};
  const int missing = out->rank - t->rank, last = out->rank - 2;
  for (int d = 0; d < out->rank; ++d) rows.dims[d] = out->dims[d];
  for (int d = missing; d < last; ++d) rows.strides[d] = v.dims[d - missing] == 1 ? 0 : v.strides[d - missing];
  rows.strides[out->rank - dim] = v.strides[t->rank - 2];
  return rows;
}

/* Checks that the leading dimensions of x1 and x2 broadcast to those of out. */
static status expect_pairs(const tensor *x1, const tensor *x2, const tensor *out, const char *out_name) {
  int64_t dims[MAX_RANK];
  const int rank = x1->rank > x2->rank ? x1->rank : x2->rank;
  for (int d = 0; d < rank - 2; ++d) {
    const int a = d - (rank - x1->rank), b = d - (rank - x2->rank);
    const int64_t n = a >= 0 ? x1->dims[a] : 1, m = b >= 0 ? x2->dims[b] : 1;
    EXPECT(n == m || n == 1 || m == 1, "x2 has shape %s, expected one that broadcasts with that of x1, %s",
           SHAPE_OF(x2), SHAPE_OF(x1));
    dims[d] = n == 1 ? m : n;
  }
  dims[rank - 2] = x1->dims[x1->rank - 2];
  dims[rank - 1] = x2->dims[x2->rank - 2];
  return op_expect_shape(out, out_name, dims, rank);
}

/* compute_mode says how an NPU computes and changes nothing. */
status prepare_cdist(executor *e, const cdist_args *a) {
  const tensor *x1 = a->x1, *x2 = a->x2, *out = a->out;
  pdist_plan *p = PLAN(e, pdist_plan);
  TRY(op_expect_dtype(x1, "x1", DTYPES_FLOAT));
  TRY(op_expect_dtype(x2, "x2", DTYPE_BIT(x1->dtype)));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(x1->dtype)));
  TRY(op_expect_rank(x1, "x1", 2, MAX_RANK));
  TRY(op_expect_rank(x2, "x2", 2, MAX_RANK));
  const int64_t columns = x1->dims[x1->rank - 1];
  EXPECT(x2->dims[x2->rank - 1] == columns, "x2 has shape %s, expected rows of %jd elements, as x1 has", SHAPE_OF(x2),
         (intmax_t)columns);
  EXPECT(a->p >= 0, "p is %g, expected 0 or more", a->p);
  EXPECT(a->compute_mode >= 0 && a->compute_mode <= 2, "compute_mode is %jd, expected 0 to 2",
         (intmax_t)a->compute_mode);
  TRY(expect_pairs(x1, x2, out, "out"));
  const view v = view_of(x1), w = view_of(x2), to = view_of(out);
  const view first = rows_as_pairs(x1, out, 2), second = rows_as_pairs(x2, out, 1);
  plan_distances(p, x1->dtype, a->p, v.strides[x1->rank - 1]);
  row_access_init(&p->other, x1->dtype, compute_type_of(x1->dtype), w.strides[x2->rank - 1], 0, FOLD_BLOCK);
  p->n_columns = columns;
  walk_init(&p->pairs, (const view *const[]){&to, &first, &second}, 3, out->rank);
  executor_cost(e, (uint64_t)(x1->n + x2->n + out->n) * dtype_bytes(x1->dtype), (uint64_t)(out->n * columns) * 4);
  e->run = out->n ? run_all_pairs : move_run_nothing;
  return ST_OK;
}
