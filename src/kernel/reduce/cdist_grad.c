/* SPDX-License-Identifier: Apache-2.0 */
/* CdistBackward, and CdistGrad, which is called by operator name: for each row of x1, the sum over the rows of x2 of
 * the gradients of the distances. Each operand of CdistGrad has a row for each pair of rows, even if x1 was repeated
 * along a batch dimension for that: op-plugin gives y the shape of x1 before the repetition, so the gradients of
 * repeated rows are summed. The operands are contiguous. */
#include <math.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

enum { GRAD, X1, X2, CDIST, N_INPUTS, TILE = 256 };

/* Iterates in row-major order over some dimensions of [batch, rows of x1], stored last first; strides are in rows of
 * x1. */
typedef struct {
  int n;
  int64_t extent[MAX_RANK], stride[MAX_RANK];
} row_walk;

typedef struct {
  row_walk of_y, summed; /* the dimensions of y, and those that are summed */
  /* rows of y; rows summed for each; rows of x2 for each row of x1; length of a row */
  int64_t n_rows, n_sums, n_others, n_columns;
  int64_t bytes;   /* bytes of an element */
  load_loop *load; /* converts to double */
  store_loop *store;
  double p;
} cdist_grad_plan;

typedef struct {
  const cdist_grad_plan *plan;
  const char *in[N_INPUTS];
  char *out;
} cdist_grad_job;

/* The derivative of |x1 - x2|_p by an element of x1; 0 where it does not exist. */
static double slope(double p, double difference, double distance) {
  const double size = fabs(difference), sign = difference < 0 ? -1 : difference > 0;
  if (p == 1) return difference == difference ? sign : difference;
  if (p == 0 || distance == 0) return 0;
  if (isinf(p)) return size == distance ? sign : 0;
  if (difference == 0) return 0;
  return p == 2 ? difference / distance : sign * pow(size / distance, p - 1);
}

static void add_dimension(row_walk *w, int64_t extent, int64_t stride) {
  w->extent[w->n] = extent;
  w->stride[w->n++] = stride;
}

static int64_t walk_place(const row_walk *w, int64_t i) {
  int64_t place = 0;
  for (int d = 0; d < w->n; ++d) {
    place += i % w->extent[d] * w->stride[d];
    i /= w->extent[d];
  }
  return place;
}

static void add_pair(const cdist_grad_job *j, int64_t element, int64_t n, double *sum) {
  const cdist_grad_plan *p = j->plan;
  double tile[N_INPUTS][TILE];
  for (int k = 0; k < N_INPUTS; ++k) p->load(tile[k], j->in[k] + element * p->bytes, p->bytes, n);
  for (int64_t i = 0; i < n; ++i) sum[i] += tile[GRAD][i] * slope(p->p, tile[X1][i] - tile[X2][i], tile[CDIST][i]);
}

static void add_pairs(const cdist_grad_job *j, int64_t x1_row, int64_t column, int64_t n, double *sum) {
  const cdist_grad_plan *p = j->plan;
  for (int64_t k = 0; k < p->n_others; ++k) add_pair(j, (x1_row * p->n_others + k) * p->n_columns + column, n, sum);
}

static void grad_range(const void *arg, int64_t begin, int64_t end) {
  const cdist_grad_job *j = arg;
  const cdist_grad_plan *p = j->plan;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t first = walk_place(&p->of_y, row);
    for (int64_t column = 0, n; column < p->n_columns; column += n) {
      double sum[TILE] = {0};
      n = i64_min(TILE, p->n_columns - column);
      for (int64_t i = 0; i < p->n_sums; ++i) add_pairs(j, first + walk_place(&p->summed, i), column, n, sum);
      p->store(j->out + (row * p->n_columns + column) * p->bytes, p->bytes, sum, n);
    }
  }
}

static status run_cdist_grad(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const cdist_grad_plan *p = PLAN(e, cdist_grad_plan);
  const cdist_grad_job job = {
      p,
      {view[GRAPH_CDIST_GRAD_GRAD], view[GRAPH_CDIST_GRAD_X1], view[GRAPH_CDIST_GRAD_X2], view[GRAPH_CDIST_GRAD_CDIST]},
      view[GRAPH_CDIST_GRAD_Y]};
  rows_parallel(grad_range, &job, p->n_rows, 1, e->cost_ns);
  return ST_OK;
}

/* Plans y, whose shape is [..., rows of x1, columns] or one that broadcasts to it and differs in the batch dimensions
 * only. */
static status plan_y(cdist_grad_plan *p, const tensor *x1, const tensor *y) {
  const int n_batch = x1->rank > 3 ? x1->rank - 3 : 0, rank = x1->rank - 1, missing = rank - y->rank;
  int64_t dims[MAX_RANK];
  for (int d = 0; d < rank; ++d) dims[d] = x1->dims[d < rank - 1 ? d : rank];
  bool fits = missing >= 0 && missing <= n_batch;
  for (int d = missing; fits && d < rank; ++d)
    fits = y->dims[d - missing] == dims[d] || (d < n_batch && y->dims[d - missing] == 1);
  EXPECT(fits, "y has shape %s, expected %s, or fewer batches", SHAPE_OF(y), DIMS_TEXT(dims, rank));
  p->n_rows = p->n_sums = 1;
  for (int64_t d = rank - 2, stride = 1; d >= 0; stride *= dims[d--]) {
    const bool is_summed = d < missing || y->dims[d - missing] != dims[d];
    *(is_summed ? &p->n_sums : &p->n_rows) *= dims[d];
    add_dimension(is_summed ? &p->summed : &p->of_y, dims[d], stride);
  }
  return ST_OK;
}

/* grad, x1, x2, cdist: [..., rows of x1, rows of x2, columns]. */
status prepare_graph_cdist_grad(executor *e, const graph_cdist_grad_args *a) {
  const tensor *x1 = a->x1, *y = a->y;
  const double given = a->p;
  TRY(op_expect_dtype(x1, "x1", DTYPES_FLOAT));
  TRY(op_expect_rank(x1, "x1", 2, MAX_RANK));
  for (int k = 0; k <= GRAPH_CDIST_GRAD_Y; ++k)
    TRY(op_expect_dtype(a->all[k].tensor, e->operands[k].name, DTYPE_BIT(x1->dtype)));
  for (int k = 0; k < GRAPH_CDIST_GRAD_Y; ++k) TRY(op_expect_same_shape(a->all[k].tensor, e->operands[k].name, x1));
  EXPECT(given >= 0 || given == -1, "p is %g, expected 0 or more, or -1 for infinity", given);
  cdist_grad_plan *p = PLAN(e, cdist_grad_plan);
  *p = (cdist_grad_plan){.n_others = x1->dims[x1->rank - 2],
                         .n_columns = x1->dims[x1->rank - 1],
                         .bytes = (int64_t)dtype_bytes(x1->dtype),
                         .load = loops->load[x1->dtype][COMPUTE_F64],
                         .store = loops->store[x1->dtype][COMPUTE_F64],
                         .p = given < 0 ? INFINITY : given};
  TRY(plan_y(p, x1, y));
  executor_cost(e, (uint64_t)(N_INPUTS * x1->n + y->n) * (uint64_t)p->bytes, (uint64_t)x1->n * 64);
  e->run = y->n ? run_cdist_grad : move_run_nothing;
  return ST_OK;
}

/* ---- CdistBackward, whose operands are stacks of rows ------------------------------------------------------------ */

/* Operands of the walk over the rows of out: out, x1, and the first elements of grad's and cdist's rows and of x2's
 * matrix. Strides are in bytes. */
typedef struct {
  walk rows;
  int64_t n_others, n_columns;
  int64_t of_out, of_x1, of_x2, x2_row, of_grad, of_cdist;
  load_loop *load;
  store_loop *store;
  double p;
} cdist_backward_plan;

enum { BACKWARD_OUT, BACKWARD_X1, BACKWARD_GRAD, BACKWARD_CDIST, BACKWARD_X2, BACKWARD_OPERANDS };

typedef struct {
  const cdist_backward_plan *plan;
  void *at[BACKWARD_OPERANDS];
} cdist_backward_job;

static void cdist_backward_row(const cdist_backward_plan *p, char *const *at) {
  double sum[TILE], x1[TILE], x2[TILE], gradient, distance;
  for (int64_t column = 0, n; column < p->n_columns; column += n) {
    n = i64_min(TILE, p->n_columns - column);
    p->load(x1, at[BACKWARD_X1] + column * p->of_x1, p->of_x1, n);
    for (int64_t i = 0; i < n; ++i) sum[i] = 0;
    for (int64_t k = 0; k < p->n_others; ++k) {
      p->load(x2, at[BACKWARD_X2] + k * p->x2_row + column * p->of_x2, p->of_x2, n);
      p->load(&gradient, at[BACKWARD_GRAD] + k * p->of_grad, 0, 1);
      p->load(&distance, at[BACKWARD_CDIST] + k * p->of_cdist, 0, 1);
      for (int64_t i = 0; i < n; ++i) sum[i] += gradient * slope(p->p, x1[i] - x2[i], distance);
    }
    p->store(at[BACKWARD_OUT] + column * p->of_out, p->of_out, sum, n);
  }
}

static void cdist_backward_range(const void *arg, int64_t begin, int64_t end) {
  const cdist_backward_job *j = arg;
  cursor c;
  cursor_start(&c, &j->plan->rows, j->at, begin);
  for (; begin < end; ++begin, cursor_next(&c, 1)) cdist_backward_row(j->plan, c.at);
}

static status run_cdist_backward(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const cdist_backward_plan *p = PLAN(e, cdist_backward_plan);
  const cdist_backward_job job = {p,
                                  {view[CDIST_BACKWARD_OUT], view[CDIST_BACKWARD_X1], view[CDIST_BACKWARD_GRAD],
                                   view[CDIST_BACKWARD_CDIST], view[CDIST_BACKWARD_X2]}};
  rows_parallel(cdist_backward_range, &job, p->rows.n, 1, e->cost_ns);
  return ST_OK;
}

/* x1 and out have all batches; x2 may be broadcast. grad, cdist: [..., rows of x1, rows of x2]. */
status prepare_cdist_backward(executor *e, const cdist_backward_args *a) {
  const tensor *x1 = a->x1, *x2 = a->x2;
  const tensor *const t[] = {a->out, x1, a->grad, a->cdist, x2};
  static const char *const names[] = {"out", "x1", "grad", "cdist", "x2"};
  cdist_backward_plan *p = PLAN(e, cdist_backward_plan);
  int64_t dims[MAX_RANK], of_rows[MAX_RANK];
  TRY(op_expect_dtype(x1, "x1", DTYPES_FLOAT));
  TRY(op_expect_rank(x1, "x1", 2, MAX_RANK));
  TRY(op_expect_rank(x2, "x2", 2, x1->rank));
  for (int k = 0; k < BACKWARD_OPERANDS; ++k) TRY(op_expect_dtype(t[k], names[k], DTYPE_BIT(x1->dtype)));
  const int last = x1->rank - 1, missing = x1->rank - x2->rank;
  for (int d = 0; d < last; ++d) dims[d] = of_rows[d] = x1->dims[d];
  dims[last] = x2->dims[x2->rank - 2];
  bool fits = x2->dims[x2->rank - 1] == x1->dims[last];
  for (int d = missing; d < last - 1; ++d) fits &= x2->dims[d - missing] == x1->dims[d] || x2->dims[d - missing] == 1;
  EXPECT(fits, "x2 has shape %s, expected one that broadcasts to the batches of x1, %s", SHAPE_OF(x2), SHAPE_OF(x1));
  TRY(op_expect_shape(a->grad, "grad", dims, x1->rank));
  TRY(op_expect_shape(a->cdist, "cdist", dims, x1->rank));
  TRY(op_expect_same_shape(a->out, "out", x1));
  EXPECT(a->p >= 0, "p is %g, expected 0 or more", a->p);
  view v[BACKWARD_OPERANDS];
  const view *views[BACKWARD_OPERANDS];
  for (int k = 0; k < BACKWARD_OPERANDS; ++k) v[k] = view_of(t[k]), views[k] = &v[k];
  *p = (cdist_backward_plan){.n_others = dims[last],
                             .n_columns = x1->dims[last],
                             .of_out = v[BACKWARD_OUT].strides[last],
                             .of_x1 = v[BACKWARD_X1].strides[last],
                             .of_x2 = v[BACKWARD_X2].strides[x2->rank - 1],
                             .x2_row = v[BACKWARD_X2].strides[x2->rank - 2],
                             .of_grad = v[BACKWARD_GRAD].strides[last],
                             .of_cdist = v[BACKWARD_CDIST].strides[last],
                             .load = loops->load[x1->dtype][COMPUTE_F64],
                             .store = loops->store[x1->dtype][COMPUTE_F64],
                             .p = a->p};
  view x2_batches = {.rank = last};
  for (int d = 0; d < last; ++d) x2_batches.dims[d] = of_rows[d];
  for (int d = missing; d < last - 1; ++d)
    x2_batches.strides[d] = x2->dims[d - missing] == 1 ? 0 : v[BACKWARD_X2].strides[d - missing];
  views[BACKWARD_X2] = &x2_batches;
  walk_init(&p->rows, views, BACKWARD_OPERANDS, last);
  executor_cost(e, (uint64_t)(2 * x1->n + x2->n + 2 * a->grad->n) * dtype_bytes(x1->dtype),
                (uint64_t)(a->grad->n * p->n_columns) * 64);
  e->run = a->out->n ? run_cdist_backward : move_run_nothing;
  return ST_OK;
}

/* ---- PdistGrad by name: y_grad and y have an element for each pair of rows of x ---------------------------------- */

typedef struct {
  int64_t n_rows, n_columns, bytes;
  load_loop *load;
  store_loop *store;
  double p;
} pdist_grad_plan;

typedef struct {
  const pdist_grad_plan *plan;
  const char *grad, *x, *distance;
  char *out;
} pdist_grad_job;

static void pdist_grad_range(const void *arg, int64_t begin, int64_t end) {
  const pdist_grad_job *j = arg;
  const pdist_grad_plan *p = j->plan;
  double sum[TILE], row[TILE], other[TILE], gradient, distance;
  for (int64_t i = begin; i < end; ++i)
    for (int64_t column = 0, n; column < p->n_columns; column += n) {
      n = i64_min(TILE, p->n_columns - column);
      p->load(row, j->x + (i * p->n_columns + column) * p->bytes, p->bytes, n);
      for (int64_t c = 0; c < n; ++c) sum[c] = 0;
      for (int64_t k = 0; k < p->n_rows; ++k) {
        const int64_t low = i64_min(i, k), high = i64_max(i, k);
        const int64_t pair = low * p->n_rows - low * (low + 1) / 2 + high - low - 1;
        if (k == i) continue;
        p->load(other, j->x + (k * p->n_columns + column) * p->bytes, p->bytes, n);
        p->load(&gradient, j->grad + pair * p->bytes, 0, 1);
        p->load(&distance, j->distance + pair * p->bytes, 0, 1);
        for (int64_t c = 0; c < n; ++c) sum[c] += gradient * slope(p->p, row[c] - other[c], distance);
      }
      p->store(j->out + (i * p->n_columns + column) * p->bytes, p->bytes, sum, n);
    }
}

static status run_pdist_grad(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const pdist_grad_plan *p = PLAN(e, pdist_grad_plan);
  const pdist_grad_job job = {p, view[GRAPH_PDIST_GRAD_Y_GRAD], view[GRAPH_PDIST_GRAD_X], view[GRAPH_PDIST_GRAD_Y],
                              view[GRAPH_PDIST_GRAD_X_GRAD]};
  rows_parallel(pdist_grad_range, &job, p->n_rows, 1, e->cost_ns);
  return ST_OK;
}

status prepare_graph_pdist_grad(executor *e, const graph_pdist_grad_args *a) {
  const tensor *x = a->x;
  pdist_grad_plan *p = PLAN(e, pdist_grad_plan);
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT));
  TRY(op_expect_rank(x, "x", 2, 2));
  TRY(op_expect_dtype(a->y_grad, "y_grad", DTYPE_BIT(x->dtype)));
  TRY(op_expect_dtype(a->y, "y", DTYPE_BIT(x->dtype)));
  TRY(op_expect_like(a->x_grad, "x_grad", x));
  EXPECT(a->p >= 0, "p is %g, expected 0 or more", a->p);
  const int64_t n = x->dims[0], pairs = n * (n - 1) / 2;
  TRY(op_expect_shape(a->y_grad, "y_grad", &pairs, 1));
  TRY(op_expect_shape(a->y, "y", &pairs, 1));
  *p = (pdist_grad_plan){.n_rows = n,
                         .n_columns = x->dims[1],
                         .bytes = (int64_t)dtype_bytes(x->dtype),
                         .load = loops->load[x->dtype][COMPUTE_F64],
                         .store = loops->store[x->dtype][COMPUTE_F64],
                         .p = a->p};
  executor_cost(e, (uint64_t)(2 * x->n + 2 * pairs) * dtype_bytes(x->dtype), (uint64_t)(n * x->n) * 64);
  e->run = x->n ? run_pdist_grad : move_run_nothing;
  return ST_OK;
}
