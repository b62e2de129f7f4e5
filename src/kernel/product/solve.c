/* Linear equations: TriangularSolve (op(A) X = self, and a copy of A's triangle) and Inverse, for stacks of matrices. */
#include "kernel/product/solve.h"

#include <string.h>

#include "kernel/engine/level.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/product/factors.h"

LEVEL_CHOICE(solve_loops, solve, solve_loops)

/* ---- stacks of matrices, contiguous and back --------------------------------------------------------------------- */

enum { MOST_STACKS = 4 };

typedef struct {
  matrices stack[MOST_STACKS]; /* strides of what is broadcast are 0 */
  int n_batch_dims;
  int64_t batch_dims[MAX_RANK], n_batches;
  triangular_form form;
  bool upper;
  compute_type compute;
} solve_plan;

/* What a run needs besides: the operands' addresses, and how it went. */
typedef struct {
  const solve_plan *plan;
  void *const *view;
  status *result;
} solve_job;

/* Address of the matrix number `batch`; NULL where the operand has no element. */
static char *matrix_at(const solve_job *job, int stack, int64_t batch) {
  const solve_plan *p = job->plan;
  char *at = job->view[stack];
  for (int d = p->n_batch_dims - 1; d >= 0; --d) {
    if (at) at += batch % p->batch_dims[d] * p->stack[stack].batch_strides[d];
    batch /= p->batch_dims[d];
  }
  return at;
}

/* rows x cols from `col` on, to rows `pitch` bytes apart, in the type t. */
static void load_matrix(const matrices *x, const char *from, compute_type t, char *to, int64_t pitch, int64_t col,
                        int64_t cols) {
  for (int64_t i = 0; i < x->rows; ++i)
    loops->load[x->dtype][t](to + i * pitch, from + i * x->row_stride + col * x->col_stride, x->col_stride, cols);
}

static void store_matrix(const matrices *x, char *to, compute_type t, const char *from, int64_t pitch, int64_t col,
                         int64_t cols) {
  for (int64_t i = 0; i < x->rows; ++i)
    loops->store[x->dtype][t](to + i * x->row_stride + col * x->col_stride, x->col_stride, from + i * pitch, cols);
}

static status run_parallel(const executor *e, void *const *view, range_body *body) {
  const solve_plan *p = PLAN(e, solve_plan);
  status result = ST_OK;
  const solve_job job = {.plan = p, .view = view, .result = &result};
  rows_parallel(body, &job, p->n_batches, 1, e->cost_ns);
  return result;
}

static status run_nothing(const executor *e, void *const *view, void *scratch) {
  (void)e, (void)view, (void)scratch;
  return ST_OK;
}

/* ---- TriangularSolve --------------------------------------------------------------------------------------------- */

enum { SELF, A, X_OUT, M_OUT };

static void solve_range(const void *data, int64_t begin, int64_t end) {
  const solve_job *job = data;
  const solve_plan *p = job->plan;
  const int64_t n = p->form.n, size = p->compute == COMPUTE_F64 ? 8 : 4, pitch = SOLVE_COLS * size;
  char *const a = scratch_take((size_t)((n * n + n * SOLVE_COLS) * size)), *const x = a + n * n * size;
  if (!a) {
    __atomic_store_n(job->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  for (int64_t batch = begin; batch < end; ++batch) {
    load_matrix(&p->stack[A], matrix_at(job, A, batch), p->compute, a, n * size, 0, n);
    for (int64_t i = 0; i < n; ++i) { /* zeros beside the triangle */
      if (p->upper)
        memset(a + i * n * size, 0, (size_t)(i * size));
      else
        memset(a + (i * n + i + 1) * size, 0, (size_t)((n - i - 1) * size));
    }
    store_matrix(&p->stack[M_OUT], matrix_at(job, M_OUT, batch), p->compute, a, n * size, 0, n);
    for (int64_t col = 0; col < p->stack[SELF].cols; col += SOLVE_COLS) {
      const int64_t cols = smaller(SOLVE_COLS, p->stack[SELF].cols - col);
      load_matrix(&p->stack[SELF], matrix_at(job, SELF, batch), p->compute, x, pitch, col, cols);
      solve->substitute[p->compute == COMPUTE_F64](&p->form, a, x, cols);
      store_matrix(&p->stack[X_OUT], matrix_at(job, X_OUT, batch), p->compute, x, pitch, col, cols);
    }
  }
}

static status run_solve(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  return run_parallel(e, view, solve_range);
}

/* The dims before the last two of the stacks that are read, broadcast. */
static bool broadcast_stacks(const tensor *self, const tensor *a, solve_plan *p) {
  product_plan both;
  if (!broadcast_batch(self, a, &both)) return false;
  p->n_batch_dims = both.n_batch_dims;
  p->n_batches = 1;
  for (int d = 0; d < p->n_batch_dims; ++d) p->n_batches *= p->batch_dims[d] = both.batch_dims[d];
  return true;
}

static status expect_stack(const solve_plan *p, const tensor *t, const char *name, int64_t rows, int64_t cols) {
  int64_t dims[MAX_RANK];
  for (int d = 0; d < p->n_batch_dims; ++d) dims[d] = p->batch_dims[d];
  dims[p->n_batch_dims] = rows;
  dims[p->n_batch_dims + 1] = cols;
  return op_expect_shape(t, name, dims, p->n_batch_dims + 2);
}

static const uint64_t solvable = DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_DOUBLE);

status prepare_triangular_solve(executor *e, const op_arg *a) {
  static const int argument[] = {[SELF] = 0, [A] = 1, [X_OUT] = 5, [M_OUT] = 6};
  const tensor *self = a[0].tensor, *matrix = a[1].tensor;
  solve_plan *p = PLAN(e, solve_plan);
  *p = (solve_plan){.upper = a[2].boolean};
  char is[SHAPE_TEXT], other[SHAPE_TEXT];
  for (int i = 0; i < 4; ++i) {
    const tensor *t = a[argument[i]].tensor;
    const char *name = e->op->schema[argument[i]].name;
    TRY(op_expect_dtype(t, name, solvable));
    EXPECT(t->dtype == self->dtype, "%s has dtype %s, expected self's %s", name, dtype_name(t->dtype),
           dtype_name(self->dtype));
    EXPECT(t->rank >= 2, "%s has shape %s, expected 2 or more dimensions", name, shape_text(t->dims, t->rank, is));
  }
  const int64_t n = matrix->dims[matrix->rank - 1], cols = self->dims[self->rank - 1];
  EXPECT(matrix->dims[matrix->rank - 2] == n, "A has shape %s, expected square matrices",
         shape_text(matrix->dims, matrix->rank, is));
  EXPECT(self->dims[self->rank - 2] == n && broadcast_stacks(self, matrix, p),
         "self has shape %s and A %s, expected as many rows, and the dimensions before to broadcast",
         shape_text(self->dims, self->rank, is), shape_text(matrix->dims, matrix->rank, other));
  TRY(expect_stack(p, a[5].tensor, "xOut", n, cols));
  TRY(expect_stack(p, a[6].tensor, "mOut", n, n));
  for (int i = 0; i < 4; ++i) matrices_init(&p->stack[i], a[argument[i]].tensor, true, p->n_batch_dims);
  p->form =
      (triangular_form){.n = n, .backwards = p->upper != a[3].boolean, .transpose = a[3].boolean, .unit = a[4].boolean};
  p->compute = self->dtype == ACL_DOUBLE ? COMPUTE_F64 : COMPUTE_F32;
  const uint64_t work = (uint64_t)p->n_batches * (uint64_t)(n * n) * (uint64_t)(cols + 4);
  executor_cost(e, (uint64_t)(a[5].tensor->n + a[6].tensor->n) * 2 * dtype_bytes(self->dtype), work);
  e->run = p->n_batches && n ? run_solve : run_nothing;
  return ST_OK;
}

/* ---- Inverse ----------------------------------------------------------------------------------------------------- */

enum { OUT = 1 };

static void inverse_range(const void *data, int64_t begin, int64_t end) {
  const solve_job *job = data;
  const solve_plan *p = job->plan;
  const int64_t n = p->form.n, pitch = n * (int64_t)sizeof(double);
  char *const a = scratch_take((size_t)(n * pitch) + (size_t)n * sizeof(int64_t));
  if (!a) {
    __atomic_store_n(job->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  for (int64_t batch = begin; batch < end; ++batch) {
    load_matrix(&p->stack[SELF], matrix_at(job, SELF, batch), COMPUTE_F64, a, pitch, 0, n);
    solve->invert(n, (double *)(void *)a, (int64_t *)(void *)(a + n * pitch));
    store_matrix(&p->stack[OUT], matrix_at(job, OUT, batch), COMPUTE_F64, a, pitch, 0, n);
  }
}

static status run_inverse(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  return run_parallel(e, view, inverse_range);
}

status prepare_inverse(executor *e, const op_arg *a) {
  const tensor *self = a[0].tensor, *out = a[1].tensor;
  solve_plan *p = PLAN(e, solve_plan);
  *p = (solve_plan){.n_batches = 1};
  char is[SHAPE_TEXT];
  TRY(op_expect_dtype(self, "self", solvable));
  TRY(op_expect_dtype(out, "out", solvable));
  EXPECT(out->dtype == self->dtype, "out has dtype %s, expected self's %s", dtype_name(out->dtype),
         dtype_name(self->dtype));
  EXPECT(self->rank >= 2 && self->dims[self->rank - 1] == self->dims[self->rank - 2],
         "self has shape %s, expected square matrices", shape_text(self->dims, self->rank, is));
  const int64_t n = self->dims[self->rank - 1];
  TRY(op_expect_shape(out, "out", self->dims, self->rank));
  (void)broadcast_stacks(self, self, p);
  matrices_init(&p->stack[SELF], self, true, p->n_batch_dims);
  matrices_init(&p->stack[OUT], out, true, p->n_batch_dims);
  p->form.n = n;
  executor_cost(e, (uint64_t)self->n * 2 * dtype_bytes(self->dtype), (uint64_t)(p->n_batches * n * n * n) * 8);
  e->run = p->n_batches && n ? run_inverse : run_nothing;
  return ST_OK;
}
