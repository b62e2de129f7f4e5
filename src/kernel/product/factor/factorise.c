/* SPDX-License-Identifier: Apache-2.0 */
/* QR and Cholesky factorisations and determinants of stacks of real or complex matrices. Computed in double and rounded
 * once. */
#include "kernel/product/factor/factorise.h"

#include <math.h>
#include <string.h>

#include "kernel/engine/level_choice.h"
#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/product/factor/matrix_access.h"
#include "kernel/product/product.h"

LEVEL_CHOICE(factorise_loops, factorise, factorise_loops)

enum { MATRIX, FIRST_OUT, SECOND_OUT, STACKS }; /* operands: self; Q and R, or sign and logarithm */

typedef struct {
  walk batch; /* iterates over the batch dimensions of all operands */
  matrix_access access[STACKS];
  int64_t m, n, k; /* self is [m, n], Q is [m, k] */
  int64_t r_rows;
  bool complex, joined; /* joined: Logdet, whose result is the logarithm of sign and magnitude */
  bool of_itself;       /* with joined: the result is the determinant */
  bool upper;           /* Cholesky */
} factorise_plan;

typedef struct {
  const factorise_plan *plan;
  void *at[STACKS];
  status *result;
} factorise_job;

enum { TILE = 256 };

void matrix_access_move(const matrix_access *x, int parts, char *at, double *buffer, int64_t rows, int64_t cols,
                        bool to_buffer) {
  double tile[TILE];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0, n; j < cols; j += n) {
      n = i64_min(TILE, cols - j);
      for (int part = 0; part < parts; ++part) {
        char *from = at + i * x->row + j * x->column + part * x->part;
        double *to = buffer + (i * cols + j) * parts + part;
        if (!to_buffer)
          for (int64_t c = 0; c < n; ++c) tile[c] = to[c * parts];
        if (!to_buffer && (part == 0 || x->part)) x->store(from, x->column, tile, n);
        if (to_buffer) x->load(tile, from, x->column, n);
        if (to_buffer)
          for (int64_t c = 0; c < n; ++c) to[c * parts] = tile[c];
      }
    }
}

static void factorise_move_matrix(const factorise_plan *p, const matrix_access *x, char *at, double *buffer,
                                  int64_t rows, int64_t cols, bool to_buffer) {
  matrix_access_move(x, p->complex ? 2 : 1, at, buffer, rows, cols, to_buffer);
}

static void clear_below(double *r, int64_t rows, int64_t cols, int parts) {
  for (int64_t i = 1; i < rows; ++i) memset(r + i * cols * parts, 0, (size_t)(i64_min(i, cols) * parts) * sizeof *r);
}

static void qr_range(const void *arg, int64_t begin, int64_t end) {
  const factorise_job *j = arg;
  const factorise_plan *p = j->plan;
  const int64_t parts = p->complex ? 2 : 1, in_a = p->m * p->n, in_q = p->m * p->k;
  const int64_t in_room = i64_min(p->m, p->n) + (p->n > p->k ? p->n : p->k);
  double *const a = (double *)(void *)scratch_take((size_t)((in_a + in_q + in_room) * parts) * sizeof *a);
  if (!a) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  double *const q = a + in_a * parts;
  cursor c;
  cursor_start(&c, &p->batch, j->at, begin);
  for (; begin < end; ++begin, cursor_next(&c, 1)) {
    factorise_move_matrix(p, &p->access[MATRIX], c.at[MATRIX], a, p->m, p->n, true);
    factorise->qr[p->complex](p->m, p->n, p->k, a, q, q + in_q * parts);
    clear_below(a, p->m, p->n, (int)parts);
    if (p->k) factorise_move_matrix(p, &p->access[FIRST_OUT], c.at[FIRST_OUT], q, p->m, p->k, false);
    factorise_move_matrix(p, &p->access[SECOND_OUT], c.at[SECOND_OUT], a, p->r_rows, p->n, false);
  }
}

/* Adds the logarithm of the sign: a phase, or NaN for -1. */
static void log_of_sign(bool complex, const double *sign, double *log) {
  if (complex)
    log[1] = atan2(sign[1], sign[0]);
  else if (sign[0] < 0)
    log[0] = (double)NAN;
}

/* The determinant itself in place of its logarithm. */
static void product_of_log(bool complex, const double *sign, double *log) {
  const double size = exp(log[0]);
  log[0] = sign[0] * size;
  if (complex) log[1] = sign[1] * size;
}

static void determinant_range(const void *arg, int64_t begin, int64_t end) {
  const factorise_job *j = arg;
  const factorise_plan *p = j->plan;
  const size_t parts = p->complex ? 2 : 1;
  double *const a = (double *)(void *)scratch_take((size_t)(p->n * p->n * (int64_t)parts + p->n + 1) * sizeof *a);
  if (!a) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  cursor c;
  cursor_start(&c, &p->batch, j->at, begin);
  for (; begin < end; ++begin, cursor_next(&c, 1)) {
    double sign[2] = {0}, log[2] = {0};
    factorise_move_matrix(p, &p->access[MATRIX], c.at[MATRIX], a, p->n, p->n, true);
    factorise->determinant[p->complex](p->n, a, (int64_t *)(void *)(a + (size_t)(p->n * p->n) * parts), sign, log);
    if (p->joined && p->of_itself)
      product_of_log(p->complex, sign, log);
    else if (p->joined)
      log_of_sign(p->complex, sign, log);
    if (!p->joined) factorise_move_matrix(p, &p->access[FIRST_OUT], c.at[FIRST_OUT], sign, 1, 1, false);
    factorise_move_matrix(p, &p->access[SECOND_OUT], c.at[SECOND_OUT], log, 1, 1, false);
  }
}

/* a becomes its conjugate transpose. */
static void adjoint(double *a, int64_t n, bool complex) {
  const int parts = complex ? 2 : 1;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j)
      for (int part = 0; part < parts; ++part) {
        double *const x = a + (i * n + j) * parts + part, *const y = a + (j * n + i) * parts + part;
        const double t = part ? -*x : *x;
        *x = part ? -*y : *y;
        *y = t;
      }
}

static void cholesky_range(const void *arg, int64_t begin, int64_t end) {
  const factorise_job *j = arg;
  const factorise_plan *p = j->plan;
  const size_t parts = p->complex ? 2 : 1;
  double *const a = (double *)(void *)scratch_take(((size_t)(p->n * p->n) * parts + 1) * sizeof *a);
  if (!a) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  cursor c;
  cursor_start(&c, &p->batch, j->at, begin);
  for (; begin < end; ++begin, cursor_next(&c, 1)) {
    factorise_move_matrix(p, &p->access[MATRIX], c.at[MATRIX], a, p->n, p->n, true);
    if (p->upper) adjoint(a, p->n, p->complex);
    const int64_t row = factorise->cholesky[p->complex](p->n, a);
    if (row >= 0) {
      __atomic_store_n(j->result,
                       OP_FAIL("matrix %jd of self is not positive definite: the pivot of row %jd is not positive",
                               (intmax_t)begin, (intmax_t)row),
                       __ATOMIC_RELAXED);
      return;
    }
    if (p->upper) adjoint(a, p->n, p->complex);
    factorise_move_matrix(p, &p->access[FIRST_OUT], c.at[FIRST_OUT], a, p->n, p->n, false);
  }
}

static status run_factorise(const executor *e, void *const *view, range_body *range) {
  const factorise_plan *p = PLAN(e, factorise_plan);
  status result = ST_OK;
  const int last = e->n_operands - 1; /* operators of one output have it twice */
  const factorise_job job = {.plan = p, .at = {view[MATRIX], view[FIRST_OUT], view[last]}, .result = &result};
  rows_parallel(range, &job, p->batch.n, 1, e->cost_ns);
  return result;
}

static status run_qr(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  return run_factorise(e, view, qr_range);
}

static status run_slogdet(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  return run_factorise(e, view, determinant_range);
}

static status run_cholesky(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  return run_factorise(e, view, cholesky_range);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static int real_dtype(int dtype) {
  return dtype == ACL_COMPLEX64 ? ACL_FLOAT : dtype == ACL_COMPLEX128 ? ACL_DOUBLE : dtype;
}

matrix_access matrix_access_of(const view *v, int n_batch) {
  const int part = real_dtype(v->dtype);
  matrix_access x = {.load = loops->load[part][COMPUTE_F64], .store = loops->store[part][COMPUTE_F64]};
  if (part != v->dtype) x.part = (int64_t)dtype_bytes(part);
  if (v->rank > n_batch) x.row = v->strides[n_batch];
  if (v->rank > n_batch + 1) x.column = v->strides[n_batch + 1];
  return x;
}

/* Sets the accesses and the batch walk. self has n_batch dimensions before the last two; so have the outputs, except an
 * empty Q. */
static void plan_stacks(factorise_plan *p, const tensor *const *t, int n_batch) {
  view v[STACKS];
  const view *views[STACKS];
  for (int i = 0; i < STACKS; ++i) {
    v[i] = view_of(t[i]->n || i != FIRST_OUT ? t[i] : t[MATRIX]);
    views[i] = &v[i];
    p->access[i] = matrix_access_of(&v[i], n_batch);
  }
  walk_init(&p->batch, views, STACKS, n_batch);
}

static status expect_matrices(const tensor *t, const char *name, const tensor *self, int64_t rows, int64_t cols) {
  int64_t dims[MAX_RANK];
  for (int d = 0; d < self->rank - 2; ++d) dims[d] = self->dims[d];
  dims[self->rank - 2] = rows;
  dims[self->rank - 1] = cols;
  TRY(op_expect_dtype(t, name, DTYPE_BIT(self->dtype)));
  return op_expect_shape(t, name, dims, self->rank);
}

/* (self, mode, Q, R); mode: 0 reduced, 1 complete, 2 R only. Qr has `some` for the first two. */
static status plan_qr(executor *e, const tensor *self, int64_t mode, const tensor *q, const tensor *r) {
  factorise_plan *p = PLAN(e, factorise_plan);
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT | DTYPES_COMPLEX));
  TRY(op_expect_rank(self, "self", 2, MAX_RANK));
  EXPECT(mode >= 0 && mode <= 2, "mode is %jd, expected 0 (reduced), 1 (complete) or 2 (r)", (intmax_t)mode);
  const int64_t m = self->dims[self->rank - 2], n = self->dims[self->rank - 1], least = m < n ? m : n;
  *p = (factorise_plan){.m = m,
                        .n = n,
                        .k = mode == 2   ? 0
                             : mode == 1 ? m
                                         : least,
                        .r_rows = mode == 1 ? m : least,
                        .complex = dtype_is_complex(self->dtype)};
  if (mode != 2)
    TRY(expect_matrices(q, "Q", self, m, p->k));
  else
    EXPECT(q->n == 0, "Q has shape %s, expected no element where mode is 2", SHAPE_OF(q));
  TRY(expect_matrices(r, "R", self, p->r_rows, n));
  plan_stacks(p, (const tensor *const[]){self, q, r}, self->rank - 2);
  executor_cost(e, (uint64_t)(self->n + q->n + r->n) * dtype_bytes(self->dtype),
                (uint64_t)self->n * (uint64_t)(least + p->k) * 4);
  e->run = q->n || r->n ? run_qr : move_run_nothing;
  return ST_OK;
}

status prepare_qr(executor *e, const qr_args *a) {
  return plan_qr(e, a->self, e->op->variant == QR_MODE ? a->mode : !a->some, a->q, a->r);
}

/* Qr by name. */
status prepare_graph_qr(executor *e, const graph_qr_args *a) { return plan_qr(e, a->x, a->full_matrices, a->q, a->r); }

static status expect_square(const tensor *self, uint64_t allowed) {
  TRY(op_expect_dtype(self, "self", allowed));
  EXPECT(self->rank >= 2 && self->dims[self->rank - 1] == self->dims[self->rank - 2],
         "self has shape %s, expected square matrices", SHAPE_OF(self));
  return ST_OK;
}

#define DTYPES_DETERMINANT (DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_DOUBLE) | DTYPES_COMPLEX)

/* joined: sign and log are one output, the logarithm of the determinant itself. */
static void plan_determinant(executor *e, const tensor *self, const tensor *sign, const tensor *log, bool joined) {
  factorise_plan *p = PLAN(e, factorise_plan);
  const int64_t n = self->dims[self->rank - 1];
  *p = (factorise_plan){.n = n, .complex = dtype_is_complex(self->dtype), .joined = joined};
  plan_stacks(p, (const tensor *const[]){self, sign, log}, self->rank - 2);
  executor_cost(e, (uint64_t)self->n * dtype_bytes(self->dtype), (uint64_t)(self->n * n));
  e->run = sign->n ? run_slogdet : move_run_nothing;
}

/* (self, signOut, logOut). Both outputs have the dtype of self; the logarithm may also have the corresponding real
 * dtype. */
status prepare_slogdet(executor *e, const slogdet_args *a) {
  const tensor *self = a->self, *sign = a->sign_out, *log = a->log_out;
  TRY(expect_square(self, DTYPES_DETERMINANT));
  TRY(op_expect_dtype(sign, "signOut", DTYPE_BIT(self->dtype)));
  TRY(op_expect_dtype(log, "logOut", DTYPE_BIT(self->dtype) | DTYPE_BIT(real_dtype(self->dtype))));
  TRY(op_expect_shape(sign, "signOut", self->dims, self->rank - 2));
  TRY(op_expect_shape(log, "logOut", self->dims, self->rank - 2));
  plan_determinant(e, self, sign, log, false);
  return ST_OK;
}

/* The logarithm of the determinant: NaN where that is negative. */
status prepare_logdet(executor *e, const logdet_args *a) {
  const tensor *self = a->self, *out = a->out;
  TRY(expect_square(self, DTYPES_DETERMINANT));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(self->dtype)));
  TRY(op_expect_shape(out, "out", self->dims, self->rank - 2));
  plan_determinant(e, self, out, out, true);
  return ST_OK;
}

/* MatrixDeterminant and LogMatrixDeterminant by name. */
status prepare_graph_determinant(executor *e, const graph_determinant_args *a) {
  const tensor *x = a->x, *y = a->y;
  TRY(expect_square(x, DTYPES_DETERMINANT));
  if (a->sign) TRY(op_expect_dtype(a->sign, "sign", DTYPE_BIT(x->dtype)));
  if (a->sign) TRY(op_expect_shape(a->sign, "sign", x->dims, x->rank - 2));
  TRY(op_expect_dtype(y, "y", DTYPE_BIT(x->dtype)));
  TRY(op_expect_shape(y, "y", x->dims, x->rank - 2));
  plan_determinant(e, x, a->sign ? a->sign : y, y, !a->sign);
  PLAN(e, factorise_plan)->of_itself = !a->sign;
  return ST_OK;
}

/* Only the triangle that the result has is read. A matrix that is not positive definite makes the task fail. */
status prepare_cholesky(executor *e, const cholesky_args *a) {
  const tensor *self = a->self, *out = a->out;
  factorise_plan *p = PLAN(e, factorise_plan);
  TRY(expect_square(self, DTYPES_FLOAT | DTYPES_COMPLEX));
  TRY(op_expect_like(out, "out", self));
  const int64_t n = self->dims[self->rank - 1];
  *p = (factorise_plan){.n = n, .complex = dtype_is_complex(self->dtype), .upper = a->upper};
  plan_stacks(p, (const tensor *const[]){self, out, out}, self->rank - 2);
  executor_cost(e, (uint64_t)self->n * 2 * dtype_bytes(self->dtype), (uint64_t)(self->n * n));
  e->run = out->n ? run_cholesky : move_run_nothing;
  return ST_OK;
}
