/* SPDX-License-Identifier: Apache-2.0 */
/* Svd, also by name (ops/graph.aclop), for stacks of real matrices: x = u diag(sigma) v^T, computed in double and
 * rounded once. A matrix with fewer rows than columns is transposed first. Householder QR gives x = q r, then one-sided
 * Jacobi rotates the rows of r until they are orthogonal: r = c diag(sigma) v^T, where c is the product of the
 * rotations, so u = q c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/product/factor/factorise.h"
#include "kernel/product/factor/matrix_access.h"
#include "kernel/product/product.h"

/* Operands of the walk. Without vectors, the last two are x. */
enum { SVD_OF_X, SVD_OF_SIGMA, SVD_OF_U, SVD_OF_V, SVD_OPERANDS };

typedef struct {
  int64_t m, n, k; /* sizes of the tall matrix, m >= n; k: columns of q, 0 without vectors */
  walk batch;
  matrix_access access[SVD_OPERANDS];
  int8_t operand[SVD_OPERANDS];
  bool turned;
} svd_plan;

typedef struct {
  const svd_plan *plan;
  void *at[SVD_OPERANDS];
  status *result;
} svd_job;

/* The thread's scratch memory; matrices are row-major. */
typedef struct {
  double *a, *q, *r, *rotations; /* [m, n], [m, k], [n, n], [n, n] */
  double *right, *basis;         /* [n, n] */
  double *sigma, *room;          /* [n], [n + max(n, k)] */
  int64_t *order;                /* [n]: indices of the rows of r, by descending sigma */
  double *moved;                 /* [m, max(n, k)]: matrices on their way from and to the tensors */
} svd_scratch;

static bool take_scratch(const svd_plan *p, svd_scratch *s) {
  const int64_t square = p->n * p->n, widest = p->n > p->k ? p->n : p->k;
  const int64_t sizes[] = {p->m * p->n, p->m * p->k, square,        square, square,
                           square,      p->n,        p->n + widest, p->n,   p->m * widest};
  double **const parts[] = {&s->a,     &s->q,     &s->r,    &s->rotations, &s->right,
                            &s->basis, &s->sigma, &s->room, NULL,          &s->moved};
  int64_t total = 1;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) total += sizes[i];
  double *at = (double *)(void *)scratch_take((size_t)total * sizeof *at);
  if (!at) return false;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; at += sizes[i++])
    if (parts[i])
      *parts[i] = at;
    else
      s->order = (int64_t *)(void *)at;
  return true;
}

static void svd_transpose(double *to, const double *from, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
}

/* Loads the tall matrix divided by its largest magnitude, so that squares do not overflow, and returns that
 * magnitude. */
static double load_scaled(const svd_plan *p, const svd_scratch *s, char *x) {
  const int64_t n = p->m * p->n;
  double most = 0;
  matrix_access_move(&p->access[SVD_OF_X], 1, x, p->turned ? s->moved : s->a, p->turned ? p->n : p->m,
                     p->turned ? p->m : p->n, true);
  if (p->turned) svd_transpose(s->a, s->moved, p->n, p->m);
  for (int64_t i = 0; i < n; ++i) most = fabs(s->a[i]) > most ? fabs(s->a[i]) : most;
  if (most == 0 || isinf(most)) return 1;
  for (int64_t i = 0; i < n; ++i) s->a[i] /= most;
  return most;
}

/* Sorts indices by descending value; NaN comes first, so that the order is total. */
static void sort_descending(const double *value, int64_t *order, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = i;
    for (; at > 0 && !(value[order[at - 1]] >= value[i] || value[order[at - 1]] != value[order[at - 1]]); --at)
      order[at] = order[at - 1];
    order[at] = i;
  }
}

static void find_values(const svd_plan *p, const svd_scratch *s) {
  const int64_t n = p->n;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      s->r[i * n + j] = j < i ? 0 : s->a[i * n + j];
      s->rotations[i * n + j] = i == j;
    }
  factorise->rotate_rows(n, s->r, s->rotations);
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += s->r[i * n + j] * s->r[i * n + j];
    s->sigma[i] = sqrt(sum);
  }
  sort_descending(s->sigma, s->order, n);
}

/* Stores q c, followed by the columns of q that belong to no row of r. */
static void store_left(const svd_plan *p, const svd_scratch *s, char *const *at) {
  const int to = p->turned ? SVD_OF_V : SVD_OF_U;
  for (int64_t i = 0; i < p->m; ++i) {
    const double *const q = s->q + i * p->k;
    double *const row = s->moved + i * p->k;
    for (int64_t j = 0; j < p->n; ++j) {
      const double *const c = s->rotations + s->order[j] * p->n;
      row[j] = 0;
      for (int64_t l = 0; l < p->n; ++l) row[j] += q[l] * c[l];
    }
    for (int64_t j = p->n; j < p->k; ++j) row[j] = q[j];
  }
  matrix_access_move(&p->access[to], 1, at[to], s->moved, p->m, p->k, false);
}

/* Stores r's rows, normalised to length 1. Rows that consist of rounding errors have no direction; they are replaced by
 * vectors that complete the basis. */
static void store_right(const svd_plan *p, const svd_scratch *s, char *const *at) {
  const int64_t n = p->n;
  const int to = p->turned ? SVD_OF_U : SVD_OF_V;
  const double least = n ? s->sigma[s->order[0]] * (double)n * 0x1p-52 : 0;
  for (int64_t j = 0; j < n; ++j) {
    const int64_t row = s->order[j];
    for (int64_t i = 0; i < n; ++i) s->right[i * n + j] = s->sigma[row] > least ? s->r[row * n + i] / s->sigma[row] : 0;
  }
  factorise->qr[0](n, n, n, s->right, s->basis, s->room);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) s->basis[i * n + j] *= copysign(1, s->right[j * n + j]);
  matrix_access_move(&p->access[to], 1, at[to], s->basis, n, n, false);
}

static void svd_range(const void *arg, int64_t begin, int64_t end) {
  const svd_job *j = arg;
  const svd_plan *p = j->plan;
  svd_scratch s;
  if (!take_scratch(p, &s)) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  cursor c;
  cursor_start(&c, &p->batch, j->at, begin);
  for (; begin < end; ++begin, cursor_next(&c, 1)) {
    const double scale = load_scaled(p, &s, c.at[SVD_OF_X]);
    factorise->qr[0](p->m, p->n, p->k, s.a, s.q, s.room);
    find_values(p, &s);
    for (int64_t i = 0; i < p->n; ++i) s.moved[i] = s.sigma[s.order[i]] * scale;
    matrix_access_move(&p->access[SVD_OF_SIGMA], 1, c.at[SVD_OF_SIGMA], s.moved, p->n, 1, false);
    if (!p->k) continue;
    store_left(p, &s, c.at);
    store_right(p, &s, c.at);
  }
}

static status run_svd(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const svd_plan *p = PLAN(e, svd_plan);
  status result = ST_OK;
  svd_job job = {.plan = p, .result = &result};
  for (int k = 0; k < SVD_OPERANDS; ++k) job.at[k] = view[p->operand[k]];
  rows_parallel(svd_range, &job, p->batch.n, 1, e->cost_ns);
  return result;
}

static status expect_output(const tensor *x, const tensor *out, const char *name, const int64_t *last, int n_last) {
  int64_t dims[MAX_RANK];
  const int n_batch = x->rank - 2;
  for (int d = 0; d < n_batch; ++d) dims[d] = x->dims[d];
  for (int d = 0; d < n_last; ++d) dims[n_batch + d] = last[d];
  TRY(op_expect_dtype(out, name, DTYPE_BIT(x->dtype)));
  return op_expect_shape(out, name, dims, n_batch + n_last);
}

/* The arguments of a call, and their numbers among the executor's operands. */
typedef struct {
  const tensor *t[SVD_OPERANDS];
  int8_t operand[SVD_OPERANDS];
  const char *x_name;
  bool vectors, full;
} svd_call;

/* Without vectors, u and v stay unchanged. */
static status svd_prepare(executor *e, const svd_call *call) {
  const tensor *x = call->t[SVD_OF_X];
  const bool vectors = call->vectors, full = call->full;
  TRY(op_expect_dtype(x, call->x_name, DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_DOUBLE)));
  TRY(op_expect_rank(x, call->x_name, 2, MAX_RANK));
  const int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
  const bool turned = rows < columns;
  svd_plan *p = PLAN(e, svd_plan);
  *p = (svd_plan){.m = turned ? columns : rows, .n = turned ? rows : columns, .turned = turned};
  p->k = !vectors ? 0 : full ? p->m : p->n;
  TRY(expect_output(x, call->t[SVD_OF_SIGMA], "sigma", &p->n, 1));
  if (vectors) {
    const int64_t of_u[] = {rows, full ? rows : p->n}, of_v[] = {columns, full ? columns : p->n};
    TRY(expect_output(x, call->t[SVD_OF_U], "u", of_u, 2));
    TRY(expect_output(x, call->t[SVD_OF_V], "v", of_v, 2));
  }
  view v[SVD_OPERANDS];
  const view *views[SVD_OPERANDS];
  for (int k = 0; k < SVD_OPERANDS; ++k) {
    const int of = vectors || k <= SVD_OF_SIGMA ? k : SVD_OF_X;
    v[k] = view_of(call->t[of]);
    views[k] = &v[k];
    p->operand[k] = call->operand[of];
    p->access[k] = matrix_access_of(&v[k], x->rank - 2);
  }
  walk_init(&p->batch, views, SVD_OPERANDS, x->rank - 2);
  executor_cost(e, (uint64_t)x->n * 3 * dtype_bytes(x->dtype),
                (uint64_t)(p->batch.n * p->n * p->n) * (uint64_t)p->m * 64);
  e->run = p->batch.n ? run_svd : move_run_nothing;
  return ST_OK;
}

status prepare_graph_svd(executor *e, const graph_svd_args *a) {
  const svd_call c = {.t = {a->x, a->sigma, a->u, a->v},
                      .operand = {GRAPH_SVD_X, GRAPH_SVD_SIGMA, GRAPH_SVD_U, GRAPH_SVD_V},
                      .x_name = "x",
                      .vectors = a->compute_uv,
                      .full = a->full_matrices};
  return svd_prepare(e, &c);
}

status prepare_svd(executor *e, const svd_args *a) {
  const svd_call c = {.t = {a->input, a->sigma, a->u, a->v},
                      .operand = {SVD_INPUT, SVD_SIGMA, SVD_U, SVD_V},
                      .x_name = "input",
                      .vectors = a->compute_uv,
                      .full = a->full_matrices};
  return svd_prepare(e, &c);
}
