/* SPDX-License-Identifier: Apache-2.0 */
/* SquareSumAll, called by name: the sums of the squares of two tensors. */
#include "kernel/engine/mapped_sum.h"
#include "kernel/families.h"
#include "op/executor.h"

typedef struct {
  mapped_sum sum[2];
  store_loop *store[2];
} square_sums;

static status square_sums_run(const executor *e, void *const *view, void *scratch) {
  const square_sums *p = e->heap;
  (void)scratch;
  for (int k = 0; k < 2; ++k) {
    const double sum = mapped_sum_run(&p->sum[k], &view[k], e->cost_ns);
    p->store[k](view[2 + k], 0, &sum, 1);
  }
  return ST_OK;
}

status prepare_graph_square_sums(executor *e, const graph_square_sums_args *a) {
  const tensor *const in[] = {a->x1, a->x2}, *const out[] = {a->y1, a->y2};
  const char *const in_name[] = {"x1", "x2"}, *const out_name[] = {"y1", "y2"};
  HEAP_PLAN(square_sums, p, e, sizeof *p);
  for (int k = 0; k < 2; ++k) {
    TRY(op_expect_dtype(in[k], in_name[k], DTYPES_FLOAT));
    TRY(op_expect_one(out[k], out_name[k], DTYPES_FLOAT));
    const view x = view_of(in[k]), *const x_at = &x;
    mapped_sum_init(&p->sum[k], EW_square, mapped_sum_compute(in[k]->dtype, out[k]->dtype), x.dims, x.rank, &x_at, 1);
    p->store[k] = loops->store[out[k]->dtype][COMPUTE_F64];
  }
  executor_cost(e, (uint64_t)(a->x1->n + a->x2->n) * dtype_bytes(a->x1->dtype), (uint64_t)(a->x1->n + a->x2->n));
  e->run = square_sums_run;
  return ST_OK;
}
