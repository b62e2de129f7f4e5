/* SPDX-License-Identifier: Apache-2.0 */
/* MatrixBandPart by name: matrices without the elements that are more than num_lower places below the diagonal, or
 * more than num_upper places above it. A negative number keeps all. Operands are contiguous. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

typedef struct {
  int64_t n, rows, columns, size; /* n: rows of all matrices; size: bytes of an element */
  int dtypes[2];                  /* of the numbers */
} band_part_plan;

typedef struct {
  const band_part_plan *plan;
  const char *x;
  char *y;
  int64_t lower, upper;
} band_part_job;

static void band_part_range(const void *argument, int64_t begin, int64_t end) {
  const band_part_job *j = argument;
  const band_part_plan *p = j->plan;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t i = r % p->rows;
    const int64_t first = i64_min(p->columns, j->lower < 0 || j->lower > i ? 0 : i - j->lower);
    const int64_t after = j->upper < 0 || j->upper >= p->columns - i ? p->columns : i + j->upper + 1;
    const int64_t last = i64_max(first, i64_min(after, p->columns));
    char *const to = j->y + r * p->columns * p->size;
    memset(to, 0, (size_t)(first * p->size));
    memcpy(to + first * p->size, j->x + (r * p->columns + first) * p->size, (size_t)((last - first) * p->size));
    memset(to + last * p->size, 0, (size_t)((p->columns - last) * p->size));
  }
}

static status band_part_run(const executor *e, void *const *view, void *scratch) {
  const band_part_plan *p = PLAN(e, band_part_plan);
  band_part_job job = {.plan = p, .x = view[GRAPH_BAND_PART_X], .y = view[GRAPH_BAND_PART_Y]};
  (void)scratch;
  loops->load[p->dtypes[0]][COMPUTE_I64](&job.lower, view[GRAPH_BAND_PART_NUM_LOWER], 0, 1);
  loops->load[p->dtypes[1]][COMPUTE_I64](&job.upper, view[GRAPH_BAND_PART_NUM_UPPER], 0, 1);
  rows_parallel(band_part_range, &job, p->n, 64, e->cost_ns);
  return ST_OK;
}

status prepare_graph_band_part(executor *e, const graph_band_part_args *a) {
  const tensor *x = a->x, *y = a->y;
  TRY(move_expect_same_dtype(x, "x", y, "y"));
  TRY(op_expect_rank(x, "x", 2, MAX_RANK));
  TRY(op_expect_same_shape(y, "y", x));
  TRY(op_expect_one(a->num_lower, "num_lower", DTYPES_INDEX));
  TRY(op_expect_one(a->num_upper, "num_upper", DTYPES_INDEX));
  const int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
  *PLAN(e, band_part_plan) = (band_part_plan){.n = x->n ? x->n / columns : 0,
                                              .rows = rows,
                                              .columns = columns,
                                              .size = (int64_t)dtype_bytes(x->dtype),
                                              .dtypes = {a->num_lower->dtype, a->num_upper->dtype}};
  executor_cost(e, (uint64_t)(2 * x->n) * dtype_bytes(x->dtype), 0);
  e->run = x->n ? band_part_run : move_run_nothing;
  return ST_OK;
}
