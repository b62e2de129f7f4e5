/* SPDX-License-Identifier: Apache-2.0 */
/* aclnnTriangularSolve (op(A) X = self, and optionally a copy of A) and aclnnInverse for stacks of matrices. */
#include "kernel/product/solve.h"

#include <string.h>

#include "kernel/engine/level.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/product/factors.h"

LEVEL_CHOICE(solve_loops, solve, solve_loops)

/* ---- stacks of matrices, copied to contiguous memory and back ---------------------------------------------------- */

enum { MOST_STACKS = 4 };

typedef struct {
  matrices stack[MOST_STACKS]; /* strides of broadcast stacks are 0 */
  int n_batch_dims;
  int64_t batch_dims[MAX_RANK], n_batches;
  triangular_form form;
  bool upper;
  uint8_t imaginary; /* bytes from a real to its imaginary component, both computed in double; 0 for real dtypes */
  compute_type compute;
} solve_plan;

/* One run of a plan: operand addresses, and where a failure is stored. */
typedef struct {
  const solve_plan *plan;
  void *const *view;
  status *result;
} solve_job;

/* Address of matrix number `batch`; NULL where the operand has no element. */
static char *matrix_at(const solve_job *job, int stack, int64_t batch) {
  const solve_plan *p = job->plan;
  char *at = job->view[stack];
  for (int d = p->n_batch_dims - 1; d >= 0; --d) {
    if (at) at += batch % p->batch_dims[d] * p->stack[stack].batch_strides[d];
    batch /= p->batch_dims[d];
  }
  return at;
}

/* Copies x->rows x cols elements, from column `col` on, to rows that are `pitch` bytes apart, converted to compute type
 * t. */
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

static status solve_run_nothing(const executor *e, void *const *view, void *scratch) {
  (void)e, (void)view, (void)scratch;
  return ST_OK;
}

/* ---- TriangularSolve --------------------------------------------------------------------------------------------- */

/* Stacks: the operands. */
enum {
  SELF = TRIANGULAR_SOLVE_SELF,
  A = TRIANGULAR_SOLVE_A,
  X_OUT = TRIANGULAR_SOLVE_X_OUT,
  M_OUT = TRIANGULAR_SOLVE_M_OUT
};

/* Copies the real or imaginary components of A (at `offset`) to mOut, if given, and its triangle, padded with zeros, to
 * a. */
static void take_triangle(const solve_job *job, int64_t batch, int64_t offset, char *a) {
  const solve_plan *p = job->plan;
  const int64_t n = p->form.n, size = p->compute == COMPUTE_F64 ? 8 : 4;
  load_matrix(&p->stack[A], matrix_at(job, A, batch) + offset, p->compute, a, n * size, 0, n);
  if (job->view[M_OUT])
    store_matrix(&p->stack[M_OUT], matrix_at(job, M_OUT, batch) + offset, p->compute, a, n * size, 0, n);
  for (int64_t i = 0; i < n; ++i) {
    if (p->upper)
      memset(a + i * n * size, 0, (size_t)(i * size));
    else
      memset(a + (i * n + i + 1) * size, 0, (size_t)((n - i - 1) * size));
  }
}

/* Solves for some columns; x: room for them, first all real components, then all imaginary ones. */
static void solve_columns(const solve_job *job, int64_t batch, int64_t col, int64_t cols, const char *a, char *x) {
  const solve_plan *p = job->plan;
  const int64_t pitch = SOLVE_COLS * (p->compute == COMPUTE_F64 ? 8 : 4), part = p->form.n * pitch;
  const char *const from = matrix_at(job, SELF, batch);
  char *const to = matrix_at(job, X_OUT, batch);
  load_matrix(&p->stack[SELF], from, p->compute, x, pitch, col, cols);
  if (p->imaginary) {
    load_matrix(&p->stack[SELF], from + p->imaginary, p->compute, x + part, pitch, col, cols);
    solve->substitute_complex(&p->form, (const double *)(const void *)a, (double *)(void *)x, cols);
    store_matrix(&p->stack[X_OUT], to + p->imaginary, p->compute, x + part, pitch, col, cols);
  } else {
    solve->substitute[p->compute == COMPUTE_F64](&p->form, a, x, cols);
  }
  store_matrix(&p->stack[X_OUT], to, p->compute, x, pitch, col, cols);
}

static void solve_range(const void *data, int64_t begin, int64_t end) {
  const solve_job *job = data;
  const solve_plan *p = job->plan;
  const int64_t n = p->form.n, size = p->compute == COMPUTE_F64 ? 8 : 4, parts = p->imaginary ? 2 : 1;
  char *const a = scratch_take((size_t)((n * n + n * SOLVE_COLS) * size * parts));
  if (!a) {
    __atomic_store_n(job->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  for (int64_t batch = begin; batch < end; ++batch) {
    for (int64_t k = 0; k < parts; ++k) take_triangle(job, batch, k * p->imaginary, a + k * n * n * size);
    for (int64_t col = 0; col < p->stack[SELF].cols; col += SOLVE_COLS)
      solve_columns(job, batch, col, i64_min(SOLVE_COLS, p->stack[SELF].cols - col), a, a + n * n * size * parts);
  }
}

static status run_solve(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  return run_parallel(e, view, solve_range);
}

/* Broadcasts the batch dimensions of the two inputs. */
static bool broadcast_stacks(const tensor *self, const tensor *a, solve_plan *p) {
  product_plan both;
  if (!factors_broadcast_batch(self, a, &both)) return false;
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

status prepare_triangular_solve(executor *e, const triangular_solve_args *a) {
  const tensor *self = a->self, *matrix = a->a;
  solve_plan *p = PLAN(e, solve_plan);
  *p = (solve_plan){.upper = a->upper};
  const tensor *const stacks[MOST_STACKS] = {self, matrix, a->x_out, a->m_out};
  const int n_stacks = a->m_out ? 4 : 3;
  for (int i = 0; i < n_stacks; ++i) {
    const tensor *t = stacks[i];
    const char *name = e->operands[i].name;
    TRY(op_expect_dtype(t, name, solvable | DTYPES_COMPLEX));
    EXPECT(t->dtype == self->dtype, "%s has dtype %s, expected self's %s", name, dtype_name(t->dtype),
           dtype_name(self->dtype));
    TRY(op_expect_rank(t, name, 2, MAX_RANK));
  }
  const int64_t n = matrix->dims[matrix->rank - 1], cols = self->dims[self->rank - 1];
  EXPECT(matrix->dims[matrix->rank - 2] == n, "A has shape %s, expected square matrices", SHAPE_OF(matrix));
  EXPECT(self->dims[self->rank - 2] == n && broadcast_stacks(self, matrix, p),
         "self has shape %s and A %s, expected as many rows, and the dimensions before to broadcast", SHAPE_OF(self),
         SHAPE_OF(matrix));
  TRY(expect_stack(p, a->x_out, "xOut", n, cols));
  if (a->m_out) TRY(expect_stack(p, a->m_out, "mOut", n, n));
  EXPECT(!a->unitriangular || self->dtype == ACL_FLOAT, "self has dtype %s, expected FLOAT where unitriangular is true",
         dtype_name(self->dtype));
  for (int i = 0; i < n_stacks; ++i) {
    matrices_init(&p->stack[i], stacks[i], true, p->n_batch_dims);
    p->stack[i].dtype = dtype_part(self->dtype);
  }
  p->form = (triangular_form){
      .n = n, .backwards = p->upper != a->transpose, .transpose = a->transpose, .unit = a->unitriangular};
  p->compute = self->dtype == ACL_FLOAT ? COMPUTE_F32 : COMPUTE_F64;
  p->imaginary = dtype_part_bytes(self->dtype);
  const uint64_t work = (uint64_t)p->n_batches * (uint64_t)(n * n) * (uint64_t)(cols + 4);
  executor_cost(e, (uint64_t)(a->x_out->n + p->n_batches * n * n) * 2 * dtype_bytes(self->dtype),
                p->imaginary ? 4 * work : work);
  e->run = p->n_batches && n ? run_solve : solve_run_nothing;
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

status prepare_inverse(executor *e, const inverse_args *a) {
  const tensor *self = a->self, *out = a->out;
  solve_plan *p = PLAN(e, solve_plan);
  *p = (solve_plan){.n_batches = 1};
  EXPECT(!a->adjoint, "adjoint is %s, expected false", "true");
  TRY(op_expect_dtype(self, "self", solvable | DTYPE_BIT(ACL_FLOAT16)));
  TRY(op_expect_dtype(out, "out", solvable | DTYPE_BIT(ACL_FLOAT16)));
  EXPECT(out->dtype == self->dtype, "out has dtype %s, expected self's %s", dtype_name(out->dtype),
         dtype_name(self->dtype));
  EXPECT(self->rank >= 2 && self->dims[self->rank - 1] == self->dims[self->rank - 2],
         "self has shape %s, expected square matrices", SHAPE_OF(self));
  const int64_t n = self->dims[self->rank - 1];
  TRY(op_expect_same_shape(out, "out", self));
  (void)broadcast_stacks(self, self, p);
  matrices_init(&p->stack[SELF], self, true, p->n_batch_dims);
  matrices_init(&p->stack[OUT], out, true, p->n_batch_dims);
  p->form.n = n;
  executor_cost(e, (uint64_t)self->n * 2 * dtype_bytes(self->dtype), (uint64_t)(p->n_batches * n * n * n) * 8);
  e->run = p->n_batches && n ? run_inverse : solve_run_nothing;
  return ST_OK;
}
