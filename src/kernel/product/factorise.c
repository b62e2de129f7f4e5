/* SPDX-License-Identifier: Apache-2.0 */
/* aclnnLinalgQr and aclnnSlogdet for stacks of real or complex matrices. Computed in double and rounded once. */
#include "kernel/product/factorise.h"

#include <math.h>
#include <string.h>

#include "kernel/engine/level.h"
#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/product/product.h"

LEVEL_CHOICE(factorise_loops, factorise, factorise_loops)

enum { MATRIX, FIRST_OUT, SECOND_OUT, STACKS }; /* operands: self; Q and R, or sign and logarithm */

/* Access to the last two dimensions of an operand. A complex element has two components, a real one has one. */
typedef struct {
  int64_t row, column; /* strides in bytes */
  int64_t part;        /* bytes from the real to the imaginary component; 0 for real elements */
  load_loop *load;
  store_loop *store;
} matrix_access;

typedef struct {
  walk batch; /* iterates over the batch dimensions of all operands */
  matrix_access access[STACKS];
  int64_t m, n, k; /* self is [m, n], Q is [m, k] */
  int64_t r_rows;
  bool complex;
} factorise_plan;

typedef struct {
  const factorise_plan *plan;
  void *at[STACKS];
  status *result;
} factorise_job;

enum { TILE = 256 };

/* Copies a matrix of rows x cols between an operand and `buffer`, which is contiguous double or double complex. */
static void factorise_move_matrix(const factorise_plan *p, const matrix_access *x, char *at, double *buffer,
                                  int64_t rows, int64_t cols, bool to_buffer) {
  const int parts = p->complex ? 2 : 1;
  double tile[TILE];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0, n; j < cols; j += n)
      for (int part = 0; part < parts; ++part) {
        n = i64_min(TILE, cols - j);
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

static void determinant_range(const void *arg, int64_t begin, int64_t end) {
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
    double sign[2] = {0}, log[2] = {0};
    factorise_move_matrix(p, &p->access[MATRIX], c.at[MATRIX], a, p->n, p->n, true);
    factorise->determinant[p->complex](p->n, a, sign, log);
    factorise_move_matrix(p, &p->access[FIRST_OUT], c.at[FIRST_OUT], sign, 1, 1, false);
    factorise_move_matrix(p, &p->access[SECOND_OUT], c.at[SECOND_OUT], log, 1, 1, false);
  }
}

static status run_factorise(const executor *e, void *const *view, range_body *range) {
  const factorise_plan *p = PLAN(e, factorise_plan);
  status result = ST_OK;
  const factorise_job job = {.plan = p, .at = {view[MATRIX], view[FIRST_OUT], view[SECOND_OUT]}, .result = &result};
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

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static int real_dtype(int dtype) {
  return dtype == ACL_COMPLEX64 ? ACL_FLOAT : dtype == ACL_COMPLEX128 ? ACL_DOUBLE : dtype;
}

static matrix_access factorise_access_of(const view *v, int n_batch) {
  const int part = real_dtype(v->dtype);
  matrix_access x = {.load = loops->load[part][COMPUTE_F64], .store = loops->store[part][COMPUTE_F64]};
  if (part != v->dtype) x.part = (int64_t)dtype_bytes(part);
  if (v->rank == n_batch) return x; /* scalars: sign and logarithm */
  x.row = v->strides[n_batch];
  x.column = v->strides[n_batch + 1];
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
    p->access[i] = factorise_access_of(&v[i], n_batch);
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

/* (self, mode, Q, R); mode: 0 reduced, 1 complete, 2 R only. */
status prepare_qr(executor *e, const qr_args *a) {
  const tensor *self = a->self, *q = a->q, *r = a->r;
  const int64_t mode = a->mode;
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

/* (self, signOut, logOut). Both outputs have the dtype of self; the logarithm may also have the corresponding real
 * dtype. */
status prepare_slogdet(executor *e, const slogdet_args *a) {
  const tensor *self = a->self, *sign = a->sign_out, *log = a->log_out;
  factorise_plan *p = PLAN(e, factorise_plan);
  TRY(op_expect_dtype(self, "self", DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_DOUBLE) | DTYPES_COMPLEX));
  EXPECT(self->rank >= 2 && self->dims[self->rank - 1] == self->dims[self->rank - 2],
         "self has shape %s, expected square matrices", SHAPE_OF(self));
  TRY(op_expect_dtype(sign, "signOut", DTYPE_BIT(self->dtype)));
  TRY(op_expect_dtype(log, "logOut", DTYPE_BIT(self->dtype) | DTYPE_BIT(real_dtype(self->dtype))));
  TRY(op_expect_shape(sign, "signOut", self->dims, self->rank - 2));
  TRY(op_expect_shape(log, "logOut", self->dims, self->rank - 2));
  const int64_t n = self->dims[self->rank - 1];
  *p = (factorise_plan){.n = n, .complex = dtype_is_complex(self->dtype)};
  plan_stacks(p, (const tensor *const[]){self, sign, log}, self->rank - 2);
  executor_cost(e, (uint64_t)self->n * dtype_bytes(self->dtype), (uint64_t)(self->n * n));
  e->run = sign->n ? run_slogdet : move_run_nothing;
  return ST_OK;
}
