/* SPDX-License-Identifier: Apache-2.0 */
/* TrilIndices and TriuIndices by name: the rows, then the columns, of the elements of a matrix that lie on and below,
 * or on and above, a diagonal, row by row. */
#include "kernel/engine/loops.h"
#include "kernel/families.h"

typedef struct {
  int64_t rows, columns, offset, n; /* n: elements of the triangle */
  bool upper;
  int dtype;
} triangle_plan;

/* The columns of row i: [*begin, *end). */
static void triangle_columns(const triangle_plan *p, int64_t i, int64_t *begin, int64_t *end) {
  const int64_t edge = i + p->offset + !p->upper; /* the first column of the upper triangle, or behind the lower one */
  const int64_t inside = edge < 0 ? 0 : edge > p->columns ? p->columns : edge;
  *begin = p->upper ? inside : 0;
  *end = p->upper ? p->columns : inside;
}

static status triangle_run(const executor *e, void *const *view, void *scratch) {
  const triangle_plan *p = PLAN(e, triangle_plan);
  const int64_t size = (int64_t)dtype_bytes(p->dtype);
  char *row = view[GRAPH_TRIANGLE_INDICES_Y], *column = row + p->n * size;
  store_loop *store = loops->store[p->dtype][COMPUTE_I64];
  (void)scratch;
  for (int64_t i = 0; i < p->rows; ++i) {
    int64_t begin, end;
    triangle_columns(p, i, &begin, &end);
    for (int64_t k = begin; k < end; ++k, row += size, column += size) {
      store(row, 0, &i, 1);
      store(column, 0, &k, 1);
    }
  }
  return ST_OK;
}

status prepare_graph_triangle_indices(executor *e, const graph_triangle_indices_args *a) {
  const tensor *y = a->y;
  triangle_plan *p = PLAN(e, triangle_plan);
  TRY(op_expect_dtype(y, "y", DTYPES_INDEX));
  EXPECT(a->row >= 0 && a->row <= INT32_MAX, "row is %jd, expected 0 to %d", (intmax_t)a->row, INT32_MAX);
  EXPECT(a->col >= 0 && a->col <= INT32_MAX, "col is %jd, expected 0 to %d", (intmax_t)a->col, INT32_MAX);
  EXPECT(a->offset >= INT32_MIN && a->offset <= INT32_MAX, "offset is %jd, expected %d to %d", (intmax_t)a->offset,
         INT32_MIN, INT32_MAX);
  *p = (triangle_plan){.rows = a->row,
                       .columns = a->col,
                       .offset = a->offset,
                       .upper = e->op->variant == GRAPH_TRIANGLE_INDICES_UPPER,
                       .dtype = y->dtype};
  for (int64_t i = 0, begin, end; i < p->rows; ++i) {
    triangle_columns(p, i, &begin, &end);
    p->n += end - begin;
  }
  TRY(op_expect_shape(y, "y", (const int64_t[]){2, p->n}, 2));
  executor_cost(e, (uint64_t)y->n * dtype_bytes(y->dtype), (uint64_t)y->n * 8);
  e->run = triangle_run;
  return ST_OK;
}
