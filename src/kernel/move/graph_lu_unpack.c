/* SPDX-License-Identifier: Apache-2.0 */
/* LuUnpack and its gradient, called by name: parts of matrices on, above and below the diagonal, and a permutation.
 * Operands are contiguous. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

/* A matrix of another one's elements in a band, where the column less the row is `low` to `high`, and inside both;
 * zeros elsewhere; and a diagonal of ones if it is `unit`. */
typedef struct {
  int64_t rows, columns, from_rows, from_columns;
  int64_t low, high;
  int from, to; /* operands */
  bool unit;
} band;

enum { MOST_BANDS = 2 };

typedef struct {
  band band[MOST_BANDS];
  int n_bands;
  int64_t batch;
  size_t size;       /* bytes of an element */
  char one[16];      /* of the elements' type */
  bool permutation;  /* the rest is for this */
  int64_t m, pivots; /* its size, and pivots of a matrix */
  load_loop *load;
  int64_t pivot_bytes;
} bands_plan;

typedef struct {
  const bands_plan *plan;
  const band *band;
  const char *from;
  char *to;
} bands_job;

/* Writes rows [begin, end) of the matrices. */
static void bands_copy(const void *argument, int64_t begin, int64_t end) {
  const bands_job *j = argument;
  const band *b = j->band;
  const int64_t size = (int64_t)j->plan->size;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t i = row % b->rows, number = row / b->rows;
    const int64_t least = i64_max(0, i + b->low), most = i64_min(i64_min(b->from_columns, b->columns), i + b->high + 1);
    char *const to = j->to + row * b->columns * size;
    memset(to, 0, (size_t)(b->columns * size));
    if (i < b->from_rows && least < most)
      memcpy(to + least * size, j->from + ((number * b->from_rows + i) * b->from_columns + least) * size,
             (size_t)((most - least) * size));
    if (b->unit && i < b->columns) memcpy(to + i * size, j->plan->one, (size_t)size);
  }
}

/* Writes matrices [begin, end), which undo the swaps of row i with row pivots[i], counted from 1, in this order. */
static void bands_permute(const void *argument, int64_t begin, int64_t end) {
  const bands_job *j = argument;
  const bands_plan *p = j->plan;
  const int64_t m = p->m, size = (int64_t)p->size;
  for (int64_t number = begin; number < end; ++number) {
    char *const to = j->to + number * m * m * size;
    memset(to, 0, (size_t)(m * m * size));
    for (int64_t i = 0; i < m; ++i) { /* where row i of the product comes from: the swaps, the last one first */
      int64_t at = i;
      for (int64_t k = p->pivots - 1; k >= 0; --k) {
        int64_t other;
        p->load(&other, j->from + (number * p->pivots + k) * p->pivot_bytes, 0, 1);
        other = other >= 1 && other <= m ? other - 1 : k;
        at = at == k ? other : at == other ? k : at;
      }
      memcpy(to + (at * m + i) * size, p->one, p->size);
    }
  }
}

static status bands_run(const executor *e, void *const *view, void *scratch) {
  const bands_plan *p = PLAN(e, bands_plan);
  (void)scratch;
  for (int k = 0; k < p->n_bands; ++k) {
    const band *b = &p->band[k];
    const bands_job job = {p, b, view[b->from], view[b->to]};
    if (b->columns) rows_parallel(bands_copy, &job, p->batch * b->rows, 16, e->cost_ns);
  }
  if (p->permutation && p->m) {
    const bands_job job = {p, NULL, view[GRAPH_LU_UNPACK_LU_PIVOTS], view[GRAPH_LU_UNPACK_PIVOTS]};
    rows_parallel(bands_permute, &job, p->batch, 1, e->cost_ns);
  }
  return ST_OK;
}

static bands_plan *bands_plan_init(executor *e, const tensor *x, int64_t elements) {
  bands_plan *p = PLAN(e, bands_plan);
  *p = (bands_plan){.batch = 1, .size = dtype_bytes(x->dtype)};
  for (int d = 0; d < x->rank - 2; ++d) p->batch *= x->dims[d];
  executor_cost(e, (uint64_t)elements * 2 * p->size, 0);
  e->run = elements ? bands_run : move_run_nothing;
  return p;
}

/* Operand `from`, matrices of rows x columns, to operand `to`. */
static band band_of(const tensor *from, int from_operand, const tensor *to, int to_operand, int64_t low, int64_t high) {
  return (band){.rows = to->dims[to->rank - 2],
                .columns = to->dims[to->rank - 1],
                .from_rows = from->dims[from->rank - 2],
                .from_columns = from->dims[from->rank - 1],
                .low = low,
                .high = high,
                .from = from_operand,
                .to = to_operand};
}

/* A stack like x's, of matrices rows x columns. */
static status bands_expect(const tensor *t, const char *name, const tensor *x, int64_t rows, int64_t columns) {
  int64_t dims[MAX_RANK];
  for (int d = 0; d < x->rank; ++d) dims[d] = x->dims[d];
  dims[x->rank - 2] = rows;
  dims[x->rank - 1] = columns;
  TRY(op_expect_dtype(t, name, DTYPE_BIT(x->dtype)));
  return op_expect_shape(t, name, dims, x->rank);
}

/* Matrices P, L and U, whose product is the matrix with the packed factors lu_data. Without unpack_data MindSpore does
 * not look at L and U, nor at the permutation without unpack_pivots; they stay as they are. */
status prepare_graph_lu_unpack(executor *e, const graph_lu_unpack_args *a) {
  const tensor *x = a->lu_data, *pivots = a->lu_pivots;
  TRY(op_expect_dtype(x, "LU_data", DTYPES_REAL & ~DTYPE_BIT(ACL_BOOL)));
  TRY(op_expect_rank(x, "LU_data", 2, MAX_RANK));
  TRY(op_expect_dtype(pivots, "LU_pivots", DTYPES_INTEGER));
  const int64_t m = x->dims[x->rank - 2], n = x->dims[x->rank - 1], least = i64_min(m, n);
  int64_t dims[MAX_RANK];
  for (int d = 0; d < x->rank - 2; ++d) dims[d] = x->dims[d];
  dims[x->rank - 2] = least;
  TRY(op_expect_shape(pivots, "LU_pivots", dims, x->rank - 1));
  bands_plan *p = bands_plan_init(e, x, a->pivots->n + a->l->n + a->u->n);
  loops->store[x->dtype][COMPUTE_F64](p->one, 0, &(double){1}, 1);
  if (a->unpack_data) {
    TRY(bands_expect(a->l, "L", x, m, least));
    TRY(bands_expect(a->u, "U", x, least, n));
    p->n_bands = 2;
    p->band[0] = band_of(x, GRAPH_LU_UNPACK_LU_DATA, a->l, GRAPH_LU_UNPACK_L, -m, -1);
    p->band[0].unit = true;
    p->band[1] = band_of(x, GRAPH_LU_UNPACK_LU_DATA, a->u, GRAPH_LU_UNPACK_U, 0, n);
  }
  if (!a->unpack_pivots) return ST_OK;
  TRY(bands_expect(a->pivots, "pivots", x, m, m));
  p->permutation = true;
  p->m = m;
  p->pivots = least;
  p->load = loops->load[pivots->dtype][COMPUTE_I64];
  p->pivot_bytes = (int64_t)dtype_bytes(pivots->dtype);
  return ST_OK;
}

/* The parts of the gradients of L and U that depend on LU_data, each as a matrix of its shape. */
status prepare_graph_lu_unpack_grad(executor *e, const graph_lu_unpack_grad_args *a) {
  const tensor *x = a->lu_data;
  TRY(op_expect_dtype(x, "LU_data", DTYPES_REAL & ~DTYPE_BIT(ACL_BOOL)));
  TRY(op_expect_rank(x, "LU_data", 2, MAX_RANK));
  const int64_t m = x->dims[x->rank - 2], n = x->dims[x->rank - 1], least = i64_min(m, n);
  bands_plan *p = bands_plan_init(e, x, x->n);
  if (a->l_grad_flag) {
    TRY(bands_expect(a->l_grad, "L_grad", x, m, least));
    TRY(bands_expect(a->l_data_grad, "L_data_grad", x, m, n));
    p->band[p->n_bands++] =
        band_of(a->l_grad, GRAPH_LU_UNPACK_GRAD_L_GRAD, a->l_data_grad, GRAPH_LU_UNPACK_GRAD_L_DATA_GRAD, -m, -1);
  }
  if (a->u_grad_flag) {
    TRY(bands_expect(a->u_grad, "U_grad", x, least, n));
    TRY(bands_expect(a->u_data_grad, "U_data_grad", x, m, n));
    p->band[p->n_bands++] =
        band_of(a->u_grad, GRAPH_LU_UNPACK_GRAD_U_GRAD, a->u_data_grad, GRAPH_LU_UNPACK_GRAD_U_DATA_GRAD, 0, n);
  }
  return ST_OK;
}
