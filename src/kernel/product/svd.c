/* SPDX-License-Identifier: Apache-2.0 */
/* Svd, called by name (ops/graph.aclop), for stacks of real matrices: x = u diag(sigma) v^T, computed in double and
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
#include "kernel/product/factorise.h"
#include "kernel/product/product.h"

typedef struct {
  int64_t m, n, k; /* sizes of the tall matrix, m >= n; k: columns of q, 0 without vectors */
  int64_t n_matrices, bytes;
  load_loop *load;
  store_loop *store;
  bool turned;
} svd_plan;

typedef struct {
  const svd_plan *plan;
  void *const *view;
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
static double load_scaled(const svd_plan *p, const svd_scratch *s, const char *x) {
  const int64_t n = p->m * p->n;
  double most = 0;
  p->load(p->turned ? s->moved : s->a, x, p->bytes, n);
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
static void store_left(const svd_plan *p, const svd_scratch *s, char *to) {
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
  p->store(to, p->bytes, s->moved, p->m * p->k);
}

/* Stores r's rows, normalised to length 1. Rows that consist of rounding errors have no direction; they are replaced by
 * vectors that complete the basis. */
static void store_right(const svd_plan *p, const svd_scratch *s, char *to) {
  const int64_t n = p->n;
  const double least = n ? s->sigma[s->order[0]] * (double)n * 0x1p-52 : 0;
  for (int64_t j = 0; j < n; ++j) {
    const int64_t row = s->order[j];
    for (int64_t i = 0; i < n; ++i) s->right[i * n + j] = s->sigma[row] > least ? s->r[row * n + i] / s->sigma[row] : 0;
  }
  factorise->qr[0](n, n, n, s->right, s->basis, s->room);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) s->basis[i * n + j] *= copysign(1, s->right[j * n + j]);
  p->store(to, p->bytes, s->basis, n * n);
}

static void svd_range(const void *arg, int64_t begin, int64_t end) {
  const svd_job *j = arg;
  const svd_plan *p = j->plan;
  svd_scratch s;
  if (!take_scratch(p, &s)) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  for (; begin < end; ++begin) {
    const double scale = load_scaled(p, &s, (const char *)j->view[GRAPH_SVD_X] + begin * p->m * p->n * p->bytes);
    factorise->qr[0](p->m, p->n, p->k, s.a, s.q, s.room);
    find_values(p, &s);
    for (int64_t i = 0; i < p->n; ++i) s.moved[i] = s.sigma[s.order[i]] * scale;
    p->store((char *)j->view[GRAPH_SVD_SIGMA] + begin * p->n * p->bytes, p->bytes, s.moved, p->n);
    if (!p->k) continue;
    store_left(p, &s, (char *)j->view[p->turned ? GRAPH_SVD_V : GRAPH_SVD_U] + begin * p->m * p->k * p->bytes);
    store_right(p, &s, (char *)j->view[p->turned ? GRAPH_SVD_U : GRAPH_SVD_V] + begin * p->n * p->n * p->bytes);
  }
}

static status run_svd(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const svd_plan *p = PLAN(e, svd_plan);
  status result = ST_OK;
  const svd_job job = {p, view, &result};
  rows_parallel(svd_range, &job, p->n_matrices, 1, e->cost_ns);
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

/* Without vectors, u and v stay unchanged. Operands of operators called by
 * name are contiguous. */
status prepare_graph_svd(executor *e, const graph_svd_args *a) {
  const tensor *x = a->x;
  const bool vectors = a->compute_uv, full = a->full_matrices;
  TRY(op_expect_dtype(x, "x", DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_DOUBLE)));
  TRY(op_expect_rank(x, "x", 2, MAX_RANK));
  const int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
  const bool turned = rows < columns;
  svd_plan *p = PLAN(e, svd_plan);
  *p = (svd_plan){.m = turned ? columns : rows,
                  .n = turned ? rows : columns,
                  .n_matrices = 1,
                  .bytes = (int64_t)dtype_bytes(x->dtype),
                  .load = loops->load[x->dtype][COMPUTE_F64],
                  .store = loops->store[x->dtype][COMPUTE_F64],
                  .turned = turned};
  p->k = !vectors ? 0 : full ? p->m : p->n;
  for (int d = 0; d < x->rank - 2; ++d) p->n_matrices *= x->dims[d];
  TRY(expect_output(x, a->sigma, "sigma", &p->n, 1));
  if (vectors) {
    const int64_t of_u[] = {rows, full ? rows : p->n}, of_v[] = {columns, full ? columns : p->n};
    TRY(expect_output(x, a->u, "u", of_u, 2));
    TRY(expect_output(x, a->v, "v", of_v, 2));
  }
  executor_cost(e, (uint64_t)x->n * 3 * (uint64_t)p->bytes,
                (uint64_t)(p->n_matrices * p->n * p->n) * (uint64_t)p->m * 64);
  e->run = p->n_matrices ? run_svd : move_run_nothing;
  return ST_OK;
}
