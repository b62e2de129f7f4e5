/* SPDX-License-Identifier: Apache-2.0 */
/* Linear algebra that MindSpore calls by name (ops/mindspore.aclop), for stacks of real or complex matrices: systems
 * with general or factored matrices, Householder reflections, exponentials, logarithms, eigenvalues. Computed in
 * double and rounded once. */
#include <math.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/product/factor/factorise.h"
#include "kernel/product/factor/matrix_access.h"
#include "kernel/product/factor/solve.h"

enum { STACKS = 5 };

typedef struct stack_plan stack_plan;

/* Computes the outputs of one matrix of each stack from its inputs. Memory for each is one after the other, then comes
 * room. */
typedef void stack_body(const stack_plan *p, double *const *x, double *room, int64_t *indices);

struct stack_plan {
  walk batch;
  matrix_access access[STACKS]; /* inputs, then outputs */
  int64_t rows[STACKS], cols[STACKS];
  int8_t operand[STACKS];
  int8_t n_stacks, n_inputs;
  bool complex, upper, adjoint; /* complex: what is computed with; an input may be real */
  bool unit;                    /* the triangular matrix has ones on its diagonal */
  int trans;                    /* SolveTriangularGrad's */
  system_numbers numbers;       /* likewise */
  int64_t room, indices;        /* elements */
  stack_body *body;
};

typedef struct {
  const stack_plan *plan;
  void *at[STACKS];
  status *result;
} stack_job;

static void stack_range(const void *argument, int64_t begin, int64_t end) {
  const stack_job *j = argument;
  const stack_plan *p = j->plan;
  const int parts = p->complex ? 2 : 1;
  int64_t total = p->room;
  for (int k = 0; k < p->n_stacks; ++k) total += p->rows[k] * p->cols[k];
  double *x[STACKS + 1] = {(double *)(void *)scratch_take((size_t)(total * parts + p->indices + 1) * sizeof **x)};
  if (!x[0]) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  for (int k = 0; k < p->n_stacks; ++k) x[k + 1] = x[k] + p->rows[k] * p->cols[k] * parts;
  double *const room = x[p->n_stacks];
  cursor c;
  cursor_start(&c, &p->batch, j->at, begin);
  for (; begin < end; ++begin, cursor_next(&c, 1)) {
    for (int k = 0; k < p->n_inputs; ++k)
      matrix_access_move(&p->access[k], p->access[k].part ? 2 : 1, c.at[k], x[k], p->rows[k], p->cols[k], true);
    p->body(p, x, room, (int64_t *)(void *)(room + p->room * parts));
    for (int k = p->n_inputs; k < p->n_stacks; ++k)
      matrix_access_move(&p->access[k], parts, c.at[k], x[k], p->rows[k], p->cols[k], false);
  }
}

static status stack_run_plan(const executor *e, const stack_plan *p, void *const *view) {
  status result = ST_OK;
  stack_job job = {.plan = p, .result = &result};
  for (int k = 0; k < p->n_stacks; ++k) job.at[k] = view[p->operand[k]];
  rows_parallel(stack_range, &job, p->batch.n, 1, e->cost_ns);
  return result;
}

static status stack_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  return stack_run_plan(e, PLAN(e, stack_plan), view);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* The stacks of a call. `shape` has the dimensions before the matrices, of all stacks; repeats: stacks may lack the
 * first ones of them. */
typedef struct {
  const int64_t *shape;
  int n_shape;
  bool repeats;
  view v[STACKS];
} stack_call;

static stack_call stack_call_of(const tensor *like, int last) {
  return (stack_call){.shape = like->dims, .n_shape = like->rank - last};
}

/* The next stack: of matrices rows x cols, or, with cols of -1, of vectors. */
static status add_stack(stack_plan *p, stack_call *c, const tensor *t, const char *name, int operand, int64_t rows,
                        int64_t cols) {
  int64_t dims[MAX_RANK];
  const int k = p->n_stacks++, last = cols < 0 ? 1 : 2;
  const int n_missing = c->repeats && t->rank < c->n_shape + last ? c->n_shape + last - t->rank : 0;
  for (int d = 0; d < c->n_shape; ++d) dims[d] = c->shape[d];
  dims[c->n_shape] = rows;
  if (cols >= 0) dims[c->n_shape + 1] = cols;
  TRY(op_expect_shape(t, name, dims + i64_min(n_missing, c->n_shape), c->n_shape + last - n_missing));
  const view own = view_of(t);
  c->v[k] = view_broadcast(&own, dims, c->n_shape + last);
  p->access[k] = matrix_access_of(&c->v[k], c->n_shape);
  p->rows[k] = rows;
  p->cols[k] = cols < 0 ? 1 : cols;
  p->operand[k] = (int8_t)operand;
  return ST_OK;
}

/* After all stacks have been added. work: multiplications for a matrix. */
static void finish_stacks(executor *e, stack_plan *p, const stack_call *c, int n_inputs, stack_body *body,
                          int64_t work) {
  const view *views[STACKS];
  int64_t elements = 0;
  for (int k = 0; k < p->n_stacks; ++k) views[k] = &c->v[k];
  for (int k = 0; k < p->n_stacks; ++k) elements += p->rows[k] * p->cols[k];
  walk_init(&p->batch, views, p->n_stacks, c->n_shape);
  p->n_inputs = (int8_t)n_inputs;
  p->body = body;
  executor_cost(e, (uint64_t)(p->batch.n * elements) * 8, (uint64_t)(p->batch.n * work) * (p->complex ? 4 : 1));
  e->run = p->batch.n && p->rows[n_inputs] && p->cols[n_inputs] ? stack_run : move_run_nothing;
}

static status begin_stacks(executor *e, const tensor *x, const char *name, uint64_t allowed) {
  *PLAN(e, stack_plan) = (stack_plan){.complex = dtype_is_complex(x->dtype)};
  TRY(op_expect_dtype(x, name, allowed));
  return op_expect_rank(x, name, 2, MAX_RANK);
}

static status expect_square_matrices(const tensor *x, const char *name) {
  EXPECT(x->dims[x->rank - 1] == x->dims[x->rank - 2], "%s has shape %s, expected square matrices", name, SHAPE_OF(x));
  return ST_OK;
}

#define DTYPES_SOLVABLE (DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_DOUBLE))

/* ---- systems of equations ---------------------------------------------------------------------------------------- */

/* Stacks: the matrix, right sides, pivots if LU is given, solution. */

static void move_right_sides(const stack_plan *p, double *const *x, int to) {
  memcpy(x[to], x[1], (size_t)(p->rows[1] * p->cols[1] * (p->complex ? 2 : 1)) * sizeof **x);
}

static void solve_general(const stack_plan *p, double *const *x, double *room, int64_t *swaps) {
  (void)room;
  move_right_sides(p, x, 2);
  factorise->lu[p->complex](p->rows[0], x[0], swaps);
  factorise->lu_solve[p->complex](p->rows[0], p->cols[1], p->adjoint, x[0], swaps, x[2]);
}

static void set_identity(const stack_plan *p, double *x) {
  const int64_t n = p->rows[0], parts = p->complex ? 2 : 1;
  memset(x, 0, (size_t)(n * n * parts) * sizeof *x);
  for (int64_t i = 0; i < n; ++i) x[i * (n + 1) * parts] = 1;
}

static void invert_general(const stack_plan *p, double *const *x, double *room, int64_t *swaps) {
  const int64_t n = p->rows[0];
  (void)room;
  set_identity(p, x[1]);
  factorise->lu[p->complex](n, x[0], swaps);
  factorise->lu_solve[p->complex](n, n, p->adjoint, x[0], swaps, x[1]);
}

/* Pivots count from 1, as LAPACK's; one that is no row swaps nothing. */
static void solve_lu(const stack_plan *p, double *const *x, double *room, int64_t *swaps) {
  const int64_t n = p->rows[0];
  (void)room;
  move_right_sides(p, x, 3);
  for (int64_t i = 0; i < n; ++i) swaps[i] = x[2][i] >= 1 && x[2][i] <= (double)n ? (int64_t)x[2][i] - 1 : i;
  factorise->lu_solve[0](n, p->cols[1], false, x[0], swaps, x[3]);
}

static void solve_cholesky(const stack_plan *p, const double *factor, double *x, int64_t cols) {
  const triangular_system first = {.n = p->rows[0], .cols = cols, .upper = p->upper, .adjoint = p->upper};
  const triangular_system second = {.n = p->rows[0], .cols = cols, .upper = p->upper, .adjoint = !p->upper};
  factorise->substitute[0](&first, factor, x);
  factorise->substitute[0](&second, factor, x);
}

static void solve_cholesky_factor(const stack_plan *p, double *const *x, double *room, int64_t *indices) {
  (void)room, (void)indices;
  move_right_sides(p, x, 2);
  solve_cholesky(p, x[0], x[2], p->cols[1]);
}

static void invert_cholesky_factor(const stack_plan *p, double *const *x, double *room, int64_t *indices) {
  const int64_t n = p->rows[0];
  (void)room, (void)indices;
  set_identity(p, x[1]);
  solve_cholesky(p, x[0], x[1], n);
}

static void conjugate(double *x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[2 * i + 1] = -x[2 * i + 1];
}

/* sum = - x . y of n numbers: its real and imaginary part. */
static void negative_product(const double *x, const double *y, int64_t n, bool complex, double sum[2]) {
  sum[0] = sum[1] = 0;
  for (int64_t c = 0; c < n; ++c) {
    const double a = complex ? x[2 * c] : x[c], b = complex ? y[2 * c] : y[c];
    const double a_imaginary = complex ? x[2 * c + 1] : 0, b_imaginary = complex ? y[2 * c + 1] : 0;
    sum[0] -= a * b - a_imaginary * b_imaginary;
    sum[1] -= a * b_imaginary + a_imaginary * b;
  }
}

/* Stacks: a, the solution x, its gradient, those of a and b. The gradient of b solves the transposed system, and that
 * of op(a) is minus its product with x transposed. Nothing is conjugated, as in MindSpore's CPU backend, but what op
 * conjugates. */
static void find_triangular_gradients(const stack_plan *p, double *const *x, double *room, int64_t *indices) {
  const int64_t n = p->rows[0], cols = p->cols[1], parts = p->complex ? 2 : 1;
  const triangular_system f = {
      .n = n, .cols = cols, .upper = p->upper, .adjoint = p->trans == 0, .unit = p->unit}; /* of the conjugates */
  const bool conjugates = p->complex && p->trans != 1;
  double *const of_a = x[3], *const of_b = x[4];
  (void)room, (void)indices;
  memcpy(of_b, x[2], (size_t)(n * cols * parts) * sizeof *of_b);
  if (conjugates) conjugate(of_b, n * cols);
  factorise->substitute[p->complex](&f, x[0], of_b);
  if (conjugates) conjugate(of_b, n * cols);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const int64_t of_solution = p->trans ? i : j, of_gradient = p->trans ? j : i;
      const bool inside = i == j ? !p->unit : p->upper == (j > i);
      double sum[2] = {0};
      if (inside)
        negative_product(of_b + of_gradient * cols * parts, x[1] + of_solution * cols * parts, cols, p->complex, sum);
      of_a[(i * n + j) * parts] = sum[0];
      if (p->complex) of_a[(i * n + j) * 2 + 1] = p->trans == 2 ? -sum[1] : sum[1];
    }
}

static status triangular_grad_run(const executor *e, void *const *view, void *scratch) {
  stack_plan p = *PLAN(e, stack_plan);
  void *const at[] = {view[GRAPH_TRIANGULAR_GRAD_TRANS], view[GRAPH_TRIANGULAR_GRAD_LOWER],
                      view[GRAPH_TRIANGULAR_GRAD_UNIT_DIAGONAL]};
  int64_t number[SYSTEM_NUMBERS];
  (void)scratch;
  TRY(system_numbers_read(&p.numbers, at, number));
  p.trans = (int)number[SYSTEM_TRANS];
  p.upper = !number[SYSTEM_LOWER];
  p.unit = number[SYSTEM_UNIT] != 0;
  return stack_run_plan(e, &p, view);
}

status prepare_graph_triangular_grad(executor *e, const graph_triangular_grad_args *a) {
  const tensor *matrix = a->a, *x = a->x;
  const tensor *const numbers[] = {a->trans, a->lower, a->unit_diagonal};
  stack_plan *p = PLAN(e, stack_plan);
  TRY(begin_stacks(e, matrix, "a", DTYPES_SOLVABLE | DTYPES_COMPLEX));
  TRY(expect_square_matrices(matrix, "a"));
  TRY(system_numbers_init(&p->numbers, numbers));
  TRY(op_expect_rank(x, "x", matrix->rank - 1, matrix->rank));
  const int64_t n = matrix->dims[matrix->rank - 1], cols = x->rank < matrix->rank ? -1 : x->dims[x->rank - 1];
  stack_call c = stack_call_of(matrix, 2);
  const tensor *const rest[] = {x, a->dx, a->da, a->db};
  static const char *const rest_names[] = {"x", "dx", "da", "db"};
  static const int operands[] = {GRAPH_TRIANGULAR_GRAD_X, GRAPH_TRIANGULAR_GRAD_DX, GRAPH_TRIANGULAR_GRAD_DA,
                                 GRAPH_TRIANGULAR_GRAD_DB};
  TRY(add_stack(p, &c, matrix, "a", GRAPH_TRIANGULAR_GRAD_A, n, n));
  for (int i = 0; i < 4; ++i) {
    TRY(op_expect_dtype(rest[i], rest_names[i], DTYPE_BIT(matrix->dtype)));
    TRY(add_stack(p, &c, rest[i], rest_names[i], operands[i], n, i == 2 ? n : cols));
  }
  finish_stacks(e, p, &c, 3, find_triangular_gradients, 2 * n * n * (cols < 0 ? 1 : cols));
  if (e->run == stack_run) e->run = triangular_grad_run;
  return ST_OK;
}

status prepare_graph_solve(executor *e, const graph_solve_args *a) {
  static const uint64_t allowed[] = {[GRAPH_SOLVE_GENERAL] = DTYPES_SOLVABLE | DTYPES_COMPLEX,
                                     [GRAPH_SOLVE_LU] = DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_FLOAT16),
                                     [GRAPH_SOLVE_CHOLESKY] = DTYPES_SOLVABLE};
  static stack_body *const bodies[] = {[GRAPH_SOLVE_GENERAL] = solve_general,
                                       [GRAPH_SOLVE_LU] = solve_lu,
                                       [GRAPH_SOLVE_CHOLESKY] = solve_cholesky_factor};
  const tensor *matrix = a->matrix, *rhs = a->rhs;
  const int variant = e->op->variant;
  stack_plan *p = PLAN(e, stack_plan);
  TRY(begin_stacks(e, matrix, a->name.matrix, allowed[variant]));
  TRY(expect_square_matrices(matrix, a->name.matrix));
  TRY(op_expect_dtype(rhs, a->name.rhs, DTYPE_BIT(matrix->dtype)));
  TRY(op_expect_rank(rhs, a->name.rhs, matrix->rank, MAX_RANK));
  TRY(op_expect_dtype(a->output, a->name.output, DTYPE_BIT(matrix->dtype)));
  const int64_t n = matrix->dims[matrix->rank - 1], cols = rhs->dims[rhs->rank - 1];
  stack_call c = stack_call_of(rhs, 2);
  c.repeats = variant == GRAPH_SOLVE_LU;
  p->adjoint = a->adjoint;
  p->upper = a->upper;
  p->indices = n;
  TRY(add_stack(p, &c, matrix, a->name.matrix, a->view.matrix, n, n));
  TRY(add_stack(p, &c, rhs, a->name.rhs, a->view.rhs, n, cols));
  if (variant == GRAPH_SOLVE_LU) {
    TRY(op_expect_dtype(a->lu_pivots, "lu_pivots", DTYPES_INDEX));
    EXPECT(a->lu_pivots->rank == matrix->rank - 1, "lu_pivots has shape %s, expected lu_data's %s without the last",
           SHAPE_OF(a->lu_pivots), SHAPE_OF(matrix));
    TRY(add_stack(p, &c, a->lu_pivots, "lu_pivots", GRAPH_SOLVE_LU_PIVOTS, n, -1));
  }
  const int n_inputs = p->n_stacks;
  c.repeats = false;
  TRY(add_stack(p, &c, a->output, a->name.output, a->view.output, n, cols));
  finish_stacks(e, p, &c, n_inputs, bodies[variant], n * n * (n + 2 * cols));
  return ST_OK;
}

/* MatrixInverse, and CholeskyInverse of a factor of the matrix. */
status prepare_graph_inverse(executor *e, const graph_inverse_args *a) {
  const tensor *x = a->x;
  const bool general = e->op->variant == GRAPH_INVERSE_GENERAL;
  stack_plan *p = PLAN(e, stack_plan);
  TRY(begin_stacks(e, x, "x", DTYPES_SOLVABLE | (general ? DTYPES_COMPLEX | DTYPE_BIT(ACL_FLOAT16) : 0)));
  TRY(expect_square_matrices(x, "x"));
  TRY(op_expect_dtype(a->y, "y", DTYPE_BIT(x->dtype)));
  const int64_t n = x->dims[x->rank - 1];
  stack_call c = stack_call_of(x, 2);
  p->upper = a->upper;
  p->adjoint = a->adjoint;
  p->indices = n;
  TRY(add_stack(p, &c, x, "x", GRAPH_INVERSE_X, n, n));
  TRY(add_stack(p, &c, a->y, "y", GRAPH_INVERSE_Y, n, n));
  finish_stacks(e, p, &c, 1, general ? invert_general : invert_cholesky_factor, 3 * n * n * n);
  return ST_OK;
}

/* ---- Householder reflections, as LAPACK's geqrf and orgqr -------------------------------------------------------- */

static void find_reflections(const stack_plan *p, double *const *x, double *room, int64_t *indices) {
  (void)indices;
  memcpy(x[1], x[0], (size_t)(p->rows[0] * p->cols[0] * (p->complex ? 2 : 1)) * sizeof **x);
  factorise->reflections[p->complex](p->rows[0], p->cols[0], x[1], x[2], room);
}

status prepare_graph_reflections(executor *e, const graph_reflections_args *a) {
  const tensor *x = a->x;
  stack_plan *p = PLAN(e, stack_plan);
  TRY(begin_stacks(e, x, "x", DTYPES_SOLVABLE | DTYPES_COMPLEX));
  TRY(op_expect_dtype(a->y, "y", DTYPE_BIT(x->dtype)));
  TRY(op_expect_dtype(a->tau, "tau", DTYPE_BIT(x->dtype)));
  const int64_t m = x->dims[x->rank - 2], n = x->dims[x->rank - 1], least = i64_min(m, n);
  stack_call c = stack_call_of(x, 2);
  p->room = n;
  TRY(add_stack(p, &c, x, "x", GRAPH_REFLECTIONS_X, m, n));
  TRY(add_stack(p, &c, a->y, "y", GRAPH_REFLECTIONS_Y, m, n));
  TRY(add_stack(p, &c, a->tau, "tau", GRAPH_REFLECTIONS_TAU, least, -1));
  finish_stacks(e, p, &c, 1, find_reflections, m * n * least * 2);
  return ST_OK;
}

static void multiply_reflections(const stack_plan *p, double *const *x, double *room, int64_t *indices) {
  (void)indices;
  factorise->orthogonal[p->complex](p->rows[0], p->cols[0], p->rows[1], p->cols[0], x[0], x[1], x[2], room);
}

status prepare_graph_orthogonal(executor *e, const graph_orthogonal_args *a) {
  const tensor *x = a->x, *tau = a->tau;
  stack_plan *p = PLAN(e, stack_plan);
  TRY(begin_stacks(e, x, "x", DTYPES_SOLVABLE | DTYPES_COMPLEX));
  TRY(op_expect_dtype(tau, "tau", DTYPE_BIT(x->dtype)));
  TRY(op_expect_rank(tau, "tau", 1, MAX_RANK));
  TRY(op_expect_dtype(a->y, "y", DTYPE_BIT(x->dtype)));
  const int64_t m = x->dims[x->rank - 2], n = x->dims[x->rank - 1], k = tau->dims[tau->rank - 1];
  EXPECT(m >= n, "x has shape %s, expected at least as many rows as columns", SHAPE_OF(x));
  EXPECT(k <= n, "tau has shape %s, expected up to %jd reflections, x's columns", SHAPE_OF(tau), (intmax_t)n);
  stack_call c = stack_call_of(x, 2);
  p->room = n;
  TRY(add_stack(p, &c, x, "x", GRAPH_ORTHOGONAL_X, m, n));
  TRY(add_stack(p, &c, tau, "tau", GRAPH_ORTHOGONAL_TAU, k, -1));
  TRY(add_stack(p, &c, a->y, "y", GRAPH_ORTHOGONAL_Y, m, n));
  finish_stacks(e, p, &c, 2, multiply_reflections, m * n * k * 2);
  return ST_OK;
}

/* ---- functions of matrices, eigenvalues -------------------------------------------------------------------------- */

static void fill_nan(double *x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = (double)NAN;
}

static void find_exponential(const stack_plan *p, double *const *x, double *room, int64_t *swaps) {
  const int64_t n = p->rows[0];
  memcpy(x[1], x[0], (size_t)(n * n * (p->complex ? 2 : 1)) * sizeof **x);
  factorise->exponential[p->complex](n, x[1], room, swaps);
}

/* room: q, and what the functions need. */
static void find_logarithm(const stack_plan *p, double *const *x, double *room, int64_t *indices) {
  const int64_t n = p->rows[0];
  double *const rest = room + 2 * n * n;
  (void)indices;
  memcpy(x[1], x[0], (size_t)(2 * n * n) * sizeof **x);
  if (factorise->schur(n, x[1], room, rest))
    factorise->logarithm(n, x[1], room, rest);
  else
    fill_nan(x[1], 2 * n * n);
}

status prepare_graph_matrix_function(executor *e, const graph_matrix_function_args *a) {
  const tensor *x = a->x;
  const bool logarithm = e->op->variant == GRAPH_MATRIX_FUNCTION_LOG;
  stack_plan *p = PLAN(e, stack_plan);
  TRY(begin_stacks(e, x, "x", DTYPES_COMPLEX | (logarithm ? 0 : DTYPES_SOLVABLE | DTYPE_BIT(ACL_FLOAT16))));
  TRY(expect_square_matrices(x, "x"));
  TRY(op_expect_dtype(a->y, "y", DTYPE_BIT(x->dtype)));
  const int64_t n = x->dims[x->rank - 1];
  stack_call c = stack_call_of(x, 2);
  p->room = logarithm ? 4 * n * n + 2 * n : 6 * n * n;
  p->indices = n;
  TRY(add_stack(p, &c, x, "x", GRAPH_MATRIX_FUNCTION_X, n, n));
  TRY(add_stack(p, &c, a->y, "y", GRAPH_MATRIX_FUNCTION_Y, n, n));
  finish_stacks(e, p, &c, 1, logarithm ? find_logarithm : find_exponential, n * n * n * (logarithm ? 100 : 20));
  return ST_OK;
}

/* Stacks: x, whose numbers may be real, the eigenvalues, and the eigenvectors if they are asked for. room: the matrix
 * in complex numbers, q, and what the functions need. */
static void find_eigenvalues(const stack_plan *p, double *const *x, double *room, int64_t *indices) {
  const int64_t n = p->rows[0];
  const bool real = !p->access[0].part, vectors = p->n_stacks > 2;
  double *const t = room, *const q = t + 2 * n * n, *const rest = q + 2 * n * n;
  (void)indices;
  for (int64_t i = 0; i < n * n; ++i) {
    t[2 * i] = x[0][real ? i : 2 * i];
    t[2 * i + 1] = real ? 0 : x[0][2 * i + 1];
  }
  if (!factorise->schur(n, t, q, rest)) {
    fill_nan(x[1], 2 * n);
    if (vectors) fill_nan(x[2], 2 * n * n);
    return;
  }
  for (int64_t i = 0; i < 2 * n; ++i) x[1][i] = t[i / 2 * 2 * (n + 1) + i % 2];
  if (!vectors) return;
  factorise->eigenvectors(n, t, q, rest);
  memcpy(x[2], q, (size_t)(2 * n * n) * sizeof *q);
}

/* Without compute_v MindSpore passes a number for the eigenvectors, which stays as it is. */
status prepare_graph_eigen(executor *e, const graph_eigen_args *a) {
  const tensor *x = a->x, *values = a->eigen_values, *vectors = a->eigen_vectors;
  stack_plan *p = PLAN(e, stack_plan);
  TRY(begin_stacks(e, x, "x", DTYPES_SOLVABLE | DTYPES_COMPLEX));
  TRY(expect_square_matrices(x, "x"));
  const bool narrow = x->dtype == ACL_FLOAT || x->dtype == ACL_COMPLEX64;
  const uint64_t wanted = DTYPE_BIT(narrow ? ACL_COMPLEX64 : ACL_COMPLEX128);
  TRY(op_expect_dtype(values, "eigen_values", wanted));
  const int64_t n = x->dims[x->rank - 1];
  stack_call c = stack_call_of(x, 2);
  p->complex = true;
  p->room = 3 * n * n + 2 * n;
  TRY(add_stack(p, &c, x, "x", GRAPH_EIGEN_X, n, n));
  TRY(add_stack(p, &c, values, "eigen_values", GRAPH_EIGEN_EIGEN_VALUES, n, -1));
  if (a->compute_v) {
    TRY(op_expect_dtype(vectors, "eigen_vectors", wanted));
    TRY(add_stack(p, &c, vectors, "eigen_vectors", GRAPH_EIGEN_EIGEN_VECTORS, n, n));
  }
  finish_stacks(e, p, &c, 1, find_eigenvalues, 40 * n * n * n);
  return ST_OK;
}
