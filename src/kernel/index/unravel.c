/* SPDX-License-Identifier: Apache-2.0 */
/* UnravelIndex by name: the coordinates, in a shape, of the elements with these numbers in row-major order. y has a row
 * for each dimension of the shape. Operands are contiguous. */
#include "kernel/engine/loops.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

typedef struct {
  int64_t n, dims;
  int dtype;
} unravel_plan;

static status unravel_run(const executor *e, void *const *view, void *scratch) {
  const unravel_plan *p = PLAN(e, unravel_plan);
  const int64_t size = (int64_t)dtype_bytes(p->dtype);
  const char *const indices = view[GRAPH_UNRAVEL_INDICES];
  char *const y = view[GRAPH_UNRAVEL_Y];
  int64_t dims[MAX_RANK], total = 1;
  (void)scratch;
  loops->load[p->dtype][COMPUTE_I64](dims, view[GRAPH_UNRAVEL_DIMS], size, p->dims);
  for (int64_t d = 0; d < p->dims; ++d) {
    if (dims[d] <= 0)
      return fail(ST_DEVICE_EXCEPTION, "dims[%jd] is %jd, expected 1 or more", (intmax_t)d, (intmax_t)dims[d]);
    if (__builtin_mul_overflow(total, dims[d], &total)) total = INT64_MAX;
  }
  for (int64_t i = 0; i < p->n; ++i) {
    int64_t at;
    loops->load[p->dtype][COMPUTE_I64](&at, indices + i * size, 0, 1);
    if (at < 0 || at >= total)
      return fail(ST_DEVICE_EXCEPTION, "indices[%jd] is %jd, expected 0 to %jd", (intmax_t)i, (intmax_t)at,
                  (intmax_t)total - 1);
    for (int64_t d = p->dims - 1; d >= 0; --d) {
      const int64_t coordinate = at % dims[d];
      at /= dims[d];
      loops->store[p->dtype][COMPUTE_I64](y + (d * p->n + i) * size, 0, &coordinate, 1);
    }
  }
  return ST_OK;
}

status prepare_graph_unravel(executor *e, const graph_unravel_args *a) {
  const tensor *indices = a->indices, *dims = a->dims;
  TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
  TRY(op_expect_rank(indices, "indices", 0, 1));
  TRY(op_expect_dtype(dims, "dims", DTYPE_BIT(indices->dtype)));
  EXPECT(dims->rank == 1 && dims->dims[0] <= MAX_RANK, "dims has shape %s, expected one dimension, up to %d elements",
         SHAPE_OF(dims), MAX_RANK);
  TRY(op_expect_dtype(a->y, "y", DTYPE_BIT(indices->dtype)));
  TRY(op_expect_shape(a->y, "y", (const int64_t[]){dims->dims[0], indices->n}, indices->rank + 1));
  *PLAN(e, unravel_plan) = (unravel_plan){.n = indices->n, .dims = dims->dims[0], .dtype = indices->dtype};
  executor_cost(e, (uint64_t)a->y->n * 16, (uint64_t)a->y->n * 64);
  e->run = a->y->n ? unravel_run : move_run_nothing;
  return ST_OK;
}
