/* SPDX-License-Identifier: Apache-2.0 */
/* aclnnTriangularSolve (op(A) X = self, and optionally a copy of A), also by name, and aclnnInverse for stacks of
 * matrices. */
#include "kernel/product/factor/solve.h"

#include <string.h>

#include "kernel/engine/level_choice.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/product/factor/factors.h"

LEVEL_CHOICE(solve_loops, solve, solve_loops)

/* ---- stacks of matrices, copied to contiguous memory and back ---------------------------------------------------- */

enum { MOST_STACKS = 4 };

typedef struct {
  matrices stack[MOST_STACKS]; /* strides of broadcast stacks are 0 */
  int8_t operand[MOST_STACKS]; /* -1: none */
  int n_batch_dims;
  int64_t batch_dims[MAX_RANK], n_batches;
  triangular_form form;
  bool upper, conjugate; /* of A */
  uint8_t imaginary;     /* bytes from a real to its imaginary component, both computed in double; 0 for real dtypes */
  compute_type compute;
  system_numbers numbers; /* of SolveTriangular */
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
  char *at = job->view[p->operand[stack]];
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

static status run_parallel(const executor *e, const solve_plan *p, void *const *view, range_body *body) {
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

/* Stacks. */
enum { SELF, A, X_OUT, M_OUT };

static void negate(double *x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = -x[i];
}

/* Copies the real or imaginary components of A (at `offset`) to mOut, if given, and its triangle, padded with zeros, to
 * a. */
static void take_triangle(const solve_job *job, int64_t batch, int64_t offset, char *a) {
  const solve_plan *p = job->plan;
  const int64_t n = p->form.n, size = p->compute == COMPUTE_F64 ? 8 : 4;
  load_matrix(&p->stack[A], matrix_at(job, A, batch) + offset, p->compute, a, n * size, 0, n);
  if (p->operand[M_OUT] >= 0)
    store_matrix(&p->stack[M_OUT], matrix_at(job, M_OUT, batch) + offset, p->compute, a, n * size, 0, n);
  for (int64_t i = 0; i < n; ++i) {
    if (p->upper)
      memset(a + i * n * size, 0, (size_t)(i * size));
    else
      memset(a + (i * n + i + 1) * size, 0, (size_t)((n - i - 1) * size));
  }
  if (offset && p->conjugate) negate((double *)(void *)a, n * n);
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
  return run_parallel(e, PLAN(e, solve_plan), view, solve_range);
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

static void solve_set_form(solve_plan *p, bool upper, bool transpose, bool conjugate, bool unit) {
  p->upper = upper;
  p->conjugate = conjugate;
  p->form.backwards = upper != transpose;
  p->form.transpose = transpose;
  p->form.unit = unit;
}

/* A call: op(A) X = self. */
typedef struct {
  const tensor *stack[MOST_STACKS]; /* NULL: none */
  int8_t operand[MOST_STACKS];
  const char *name[MOST_STACKS];
  bool upper, transpose, conjugate, unit;
} triangular_call;

static status plan_triangular(executor *e, const triangular_call *c) {
  const tensor *self = c->stack[SELF], *matrix = c->stack[A];
  solve_plan *p = PLAN(e, solve_plan);
  *p = (solve_plan){0};
  solve_set_form(p, c->upper, c->transpose, c->conjugate, c->unit);
  for (int i = 0; i < MOST_STACKS; ++i) {
    const tensor *t = c->stack[i];
    p->operand[i] = t ? c->operand[i] : -1;
    if (!t) continue;
    TRY(op_expect_dtype(t, c->name[i], solvable | DTYPES_COMPLEX));
    EXPECT(t->dtype == self->dtype, "%s has dtype %s, expected %s's %s", c->name[i], dtype_name(t->dtype),
           c->name[SELF], dtype_name(self->dtype));
    TRY(op_expect_rank(t, c->name[i], 2, MAX_RANK));
  }
  const int64_t n = matrix->dims[matrix->rank - 1], cols = self->dims[self->rank - 1];
  EXPECT(matrix->dims[matrix->rank - 2] == n, "%s has shape %s, expected square matrices", c->name[A],
         SHAPE_OF(matrix));
  EXPECT(self->dims[self->rank - 2] == n && broadcast_stacks(self, matrix, p),
         "%s has shape %s and %s %s, expected as many rows, and the dimensions before to broadcast", c->name[SELF],
         SHAPE_OF(self), c->name[A], SHAPE_OF(matrix));
  TRY(expect_stack(p, c->stack[X_OUT], c->name[X_OUT], n, cols));
  if (c->stack[M_OUT]) TRY(expect_stack(p, c->stack[M_OUT], c->name[M_OUT], n, n));
  for (int i = 0; i < MOST_STACKS; ++i) {
    if (!c->stack[i]) continue;
    matrices_init(&p->stack[i], c->stack[i], true, p->n_batch_dims);
    p->stack[i].dtype = dtype_part(self->dtype);
  }
  p->form.n = n;
  p->compute = self->dtype == ACL_FLOAT ? COMPUTE_F32 : COMPUTE_F64;
  p->imaginary = dtype_part_bytes(self->dtype);
  const uint64_t work = (uint64_t)p->n_batches * (uint64_t)(n * n) * (uint64_t)(cols + 4);
  executor_cost(e, (uint64_t)(c->stack[X_OUT]->n + p->n_batches * n * n) * 2 * dtype_bytes(self->dtype),
                p->imaginary ? 4 * work : work);
  e->run = p->n_batches && n ? run_solve : solve_run_nothing;
  return ST_OK;
}

status prepare_triangular_solve(executor *e, const triangular_solve_args *a) {
  const triangular_call c = {
      .stack = {a->self, a->a, a->x_out, a->m_out},
      .operand = {TRIANGULAR_SOLVE_SELF, TRIANGULAR_SOLVE_A, TRIANGULAR_SOLVE_X_OUT, TRIANGULAR_SOLVE_M_OUT},
      .name = {"self", "A", "xOut", "mOut"},
      .upper = a->upper,
      .transpose = a->transpose,
      .unit = a->unitriangular};
  TRY(plan_triangular(e, &c));
  EXPECT(!a->unitriangular || a->self->dtype == ACL_FLOAT,
         "self has dtype %s, expected FLOAT where unitriangular is true", dtype_name(a->self->dtype));
  return ST_OK;
}

/* ---- by name ----------------------------------------------------------------------------------------------------- */

status system_numbers_init(system_numbers *s, const tensor *const *t) {
  static const char *const names[] = {"trans", "lower", "unit_diagonal"};
  for (int i = 0; i < SYSTEM_NUMBERS; ++i) {
    TRY(op_expect_one(t[i], names[i], DTYPES_INDEX | DTYPE_BIT(ACL_BOOL)));
    s->load[i] = loops->load[t[i]->dtype][COMPUTE_I64];
  }
  return ST_OK;
}

status system_numbers_read(const system_numbers *s, void *const *at, int64_t *number) {
  for (int i = 0; i < SYSTEM_NUMBERS; ++i) s->load[i](&number[i], at[i], 0, 1);
  const int64_t trans = number[SYSTEM_TRANS];
  EXPECT(trans >= 0 && trans <= 2, "trans is %jd, expected 0, 1 (transposed) or 2 (its conjugate)", (intmax_t)trans);
  return ST_OK;
}

static status run_solve_numbered(const executor *e, void *const *view, void *scratch) {
  solve_plan p = *PLAN(e, solve_plan);
  void *const at[] = {view[GRAPH_TRIANGULAR_TRANS], view[GRAPH_TRIANGULAR_IS_LOWER],
                      view[GRAPH_TRIANGULAR_UNIT_DIAGONAL]};
  int64_t number[SYSTEM_NUMBERS];
  (void)scratch;
  TRY(system_numbers_read(&p.numbers, at, number));
  const int64_t trans = number[SYSTEM_TRANS];
  solve_set_form(&p, !number[SYSTEM_LOWER], trans > 0, trans == 2, number[SYSTEM_UNIT] != 0);
  return run_parallel(e, &p, view, solve_range);
}

/* A vector as a matrix of one column. */
static status as_column(tensor *t) {
  TRY(op_expect_rank(t, "b", 1, MAX_RANK - 1));
  t->dims[t->rank] = 1;
  t->strides[t->rank++] = 1;
  return ST_OK;
}

/* SolveTriangular, whose b has vectors or matrices, and MatrixTriangularSolve. */
status prepare_graph_triangular(executor *e, const graph_triangular_args *a) {
  tensor rhs = *a->rhs, out = *a->output;
  const bool numbered = e->op->variant == GRAPH_TRIANGULAR_NUMBERED;
  const tensor *const numbers[] = {a->trans, a->is_lower, a->unit_diagonal};
  if (numbered && rhs.rank == a->matrix->rank - 1 && out.rank == rhs.rank) {
    TRY(as_column(&rhs));
    TRY(as_column(&out));
  }
  const triangular_call c = {.stack = {&rhs, a->matrix, &out},
                             .operand = {GRAPH_TRIANGULAR_RHS, GRAPH_TRIANGULAR_MATRIX, (int8_t)a->view.output},
                             .name = {a->name.rhs, a->name.matrix, a->name.output},
                             .upper = !a->lower,
                             .transpose = a->adjoint,
                             .conjugate = a->adjoint};
  TRY(plan_triangular(e, &c));
  if (!numbered) return ST_OK;
  TRY(system_numbers_init(&PLAN(e, solve_plan)->numbers, numbers));
  if (e->run == run_solve) e->run = run_solve_numbered;
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
  return run_parallel(e, PLAN(e, solve_plan), view, inverse_range);
}

status prepare_inverse(executor *e, const inverse_args *a) {
  const tensor *self = a->self, *out = a->out;
  solve_plan *p = PLAN(e, solve_plan);
  *p = (solve_plan){.n_batches = 1, .operand = {INVERSE_SELF, INVERSE_OUT}};
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
