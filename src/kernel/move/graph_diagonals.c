/* SPDX-License-Identifier: Apache-2.0 */
/* Diagonals of matrices, called by name: MatrixDiagV3, MatrixDiagPartV3, MatrixSetDiagV3, as TensorFlow has them. k is
 * one diagonal or the lowest and the highest of several. Those are rows of a tensor, the highest first, and one that is
 * shorter than the row stands at its left or right end, as `align` says. Operands are contiguous. */
#include <string.h>

#include "kernel/elementwise/elementwise_call.h"
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

typedef struct {
  int64_t batch, rows, columns;
  int64_t low, high, length;     /* diagonals, and elements of a row of the tensor of diagonals */
  int64_t size;                  /* bytes of an element */
  bool upper_right, lower_right; /* where diagonals above and below the main one stand */
  int matrix, diagonals, other;  /* operands; other: what has the elements elsewhere, for one (padding) or each */
  bool other_is_one, takes;      /* takes: the diagonals are the result */
} diagonals_plan;

typedef struct {
  const diagonals_plan *plan;
  char *matrix, *diagonals; /* one of them is written */
  const char *other;
} diagonals_job;

static int64_t diagonal_length(const diagonals_plan *p, int64_t d) {
  const int64_t down = p->rows + (d < 0 ? d : 0), across = p->columns - (d > 0 ? d : 0);
  return i64_max(0, i64_min(down, across));
}

/* Elements of a row before the diagonal's first. */
static int64_t diagonal_offset_in_row(const diagonals_plan *p, int64_t d) {
  const bool right = d > 0 ? p->upper_right : d < 0 ? p->lower_right : p->upper_right && p->lower_right;
  return right ? p->length - diagonal_length(p, d) : 0;
}

/* Writes rows [begin, end) of the matrices. */
static void diagonals_put(const void *argument, int64_t begin, int64_t end) {
  const diagonals_job *j = argument;
  const diagonals_plan *p = j->plan;
  const int64_t n = p->high - p->low + 1;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t i = row % p->rows, b = row / p->rows;
    char *to = j->matrix + row * p->columns * p->size;
    for (int64_t k = 0; k < p->columns; ++k, to += p->size) {
      const int64_t d = k - i, at = d > 0 ? i : k;
      const char *from = j->other + (p->other_is_one ? 0 : (row * p->columns + k) * p->size);
      if (d >= p->low && d <= p->high)
        from = j->diagonals + ((b * n + p->high - d) * p->length + diagonal_offset_in_row(p, d) + at) * p->size;
      if (from != to) memcpy(to, from, (size_t)p->size);
    }
  }
}

/* Writes rows [begin, end) of the diagonals. */
static void diagonals_take(const void *argument, int64_t begin, int64_t end) {
  const diagonals_job *j = argument;
  const diagonals_plan *p = j->plan;
  const int64_t n = p->high - p->low + 1;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t d = p->high - row % n, offset = diagonal_offset_in_row(p, d), length = diagonal_length(p, d);
    const char *matrix = j->matrix + row / n * p->rows * p->columns * p->size;
    char *to = j->diagonals + row * p->length * p->size;
    for (int64_t k = 0; k < p->length; ++k, to += p->size) {
      const int64_t at = k - offset, i = at - (d < 0 ? d : 0), column = at + (d > 0 ? d : 0);
      const bool inside = at >= 0 && at < length;
      memcpy(to, inside ? matrix + (i * p->columns + column) * p->size : j->other, (size_t)p->size);
    }
  }
}

static status diagonals_run(const executor *e, void *const *view, void *scratch) {
  const diagonals_plan *p = PLAN(e, diagonals_plan);
  const diagonals_job job = {p, view[p->matrix], view[p->diagonals], view[p->other]};
  (void)scratch;
  if (p->takes)
    rows_parallel(diagonals_take, &job, p->batch * (p->high - p->low + 1), 16, e->cost_ns);
  else
    rows_parallel(diagonals_put, &job, p->batch * p->rows, 16, e->cost_ns);
  return ST_OK;
}

static status diagonals_align(diagonals_plan *p, const char *align) {
  static const char *const words[] = {"LEFT_LEFT", "LEFT_RIGHT", "RIGHT_LEFT", "RIGHT_RIGHT"};
  int i = 0;
  while (i < 4 && strcmp(align, words[i]) != 0) ++i;
  EXPECT(i < 4, "align is \"%.32s\", expected LEFT_RIGHT, RIGHT_LEFT, LEFT_LEFT or RIGHT_RIGHT", align);
  p->upper_right = i >= 2;
  p->lower_right = i % 2;
  return ST_OK;
}

/* matrix: its last two dimensions are those of the matrices. */
static status diagonals_plan_init(diagonals_plan *p, const graph_diagonals_args *a, const tensor *matrix) {
  const aclIntArray *k = a->k;
  TRY(op_expect_dtype(matrix, "x", DTYPES_NUMBER));
  TRY(op_expect_rank(matrix, "the tensor of matrices", 2, MAX_RANK));
  EXPECT(k->size == 1 || k->size == 2, "k has %ju elements, expected 1 or 2", (uintmax_t)k->size);
  *p = (diagonals_plan){.batch = 1,
                        .rows = matrix->dims[matrix->rank - 2],
                        .columns = matrix->dims[matrix->rank - 1],
                        .low = k->value[0],
                        .high = k->value[k->size - 1],
                        .size = (int64_t)dtype_bytes(matrix->dtype)};
  for (int d = 0; d < matrix->rank - 2; ++d) p->batch *= matrix->dims[d];
  EXPECT(p->low <= p->high, "k is %jd and %jd, expected the second not to be smaller", (intmax_t)p->low,
         (intmax_t)p->high);
  EXPECT(p->low > -p->rows && p->high < p->columns, "k is %jd and %jd, expected diagonals of matrices %jd x %jd",
         (intmax_t)p->low, (intmax_t)p->high, (intmax_t)p->rows, (intmax_t)p->columns);
  for (int64_t d = p->low; d <= p->high; ++d) p->length = i64_max(p->length, diagonal_length(p, d));
  return diagonals_align(p, a->align);
}

/* The tensor of diagonals: [..., n, length], without n if there is one diagonal. */
static status diagonals_expect(const diagonals_plan *p, const tensor *matrix, const tensor *t, const char *name) {
  int64_t dims[MAX_RANK];
  int rank = matrix->rank - 2;
  for (int d = 0; d < rank; ++d) dims[d] = matrix->dims[d];
  if (p->low < p->high) dims[rank++] = p->high - p->low + 1;
  dims[rank++] = p->length;
  TRY(op_expect_dtype(t, name, DTYPE_BIT(matrix->dtype)));
  return op_expect_shape(t, name, dims, rank);
}

status prepare_graph_diagonals(executor *e, const graph_diagonals_args *a) {
  const int variant = e->op->variant;
  const tensor *x = a->x, *y = a->y, *matrix = variant == GRAPH_DIAGONALS_MAKE ? y : x;
  diagonals_plan *p = PLAN(e, diagonals_plan);
  TRY(diagonals_plan_init(p, a, matrix));
  if (a->padding_value) TRY(op_expect_one(a->padding_value, "padding_value", DTYPE_BIT(x->dtype)));
  if (variant == GRAPH_DIAGONALS_SET) {
    TRY(op_expect_like(y, "y", x));
    TRY(diagonals_expect(p, matrix, a->diagonal, "diagonal"));
    p->matrix = GRAPH_DIAGONALS_Y, p->diagonals = GRAPH_DIAGONALS_DIAGONAL, p->other = GRAPH_DIAGONALS_X;
  } else if (variant == GRAPH_DIAGONALS_TAKE) {
    TRY(diagonals_expect(p, matrix, y, "y"));
    p->matrix = GRAPH_DIAGONALS_X, p->diagonals = GRAPH_DIAGONALS_Y, p->other = GRAPH_DIAGONALS_PADDING_VALUE;
    p->takes = true;
  } else {
    TRY(diagonals_expect(p, matrix, x, "x"));
    p->matrix = GRAPH_DIAGONALS_Y, p->diagonals = GRAPH_DIAGONALS_X, p->other = GRAPH_DIAGONALS_PADDING_VALUE;
  }
  p->other_is_one = variant != GRAPH_DIAGONALS_SET;
  executor_cost(e, (uint64_t)(x->n + y->n) * dtype_bytes(x->dtype), (uint64_t)y->n * 32);
  e->run = y->n ? diagonals_run : move_run_nothing;
  return ST_OK;
}

/* MatrixDiagD: the vectors' products with the rows of assist, which is a table of unit matrices. */
status prepare_graph_diagonal_product(executor *e, const graph_diagonal_product_args *a) {
  tensor rows = *a->x;
  elementwise_call c;
  const int last = rows.rank;
  TRY(op_expect_rank(&rows, "x", 1, MAX_RANK - 1));
  rows.rank = last + 1;
  rows.dims[last] = rows.dims[last - 1];
  rows.strides[last] = rows.strides[last - 1];
  rows.dims[last - 1] = 1;
  elementwise_call_of(e->op, a->all, &c);
  c.in[0] = &rows;
  return elementwise_prepare(e, EW_mul, &c);
}

/* ---- TraceGrad: zeros, but for y_grad on the diagonal ------------------------------------------------------------ */

typedef struct {
  int64_t n, step, bytes; /* elements of the diagonal, bytes between them and of the matrix */
  size_t size;            /* of an element */
} trace_grad_plan;

static status trace_grad_run(const executor *e, void *const *view, void *scratch) {
  const trace_grad_plan *p = PLAN(e, trace_grad_plan);
  char *to = view[GRAPH_TRACE_GRAD_X_GRAD];
  (void)scratch;
  if (p->bytes) memset(to, 0, (size_t)p->bytes);
  for (int64_t i = 0; i < p->n; ++i) memcpy(to + i * p->step, view[GRAPH_TRACE_GRAD_Y_GRAD], p->size);
  return ST_OK;
}

status prepare_graph_trace_grad(executor *e, const graph_trace_grad_args *a) {
  const tensor *grad = a->y_grad, *out = a->x_grad;
  const int64_t size = (int64_t)dtype_bytes(out->dtype);
  TRY(op_expect_one(grad, "y_grad", DTYPES_NUMBER));
  TRY(op_expect_dtype(out, "x_grad", DTYPE_BIT(grad->dtype)));
  TRY(op_expect_size(a->x_shape->size, "x_shape", 2));
  TRY(op_expect_shape(out, "x_grad", a->x_shape->value, 2));
  *PLAN(e, trace_grad_plan) = (trace_grad_plan){.n = i64_min(out->dims[0], out->dims[1]),
                                                .step = (out->dims[1] + 1) * size,
                                                .bytes = out->n * size,
                                                .size = (size_t)size};
  executor_cost(e, (uint64_t)(out->n * size), 0);
  e->run = trace_grad_run;
  return ST_OK;
}
