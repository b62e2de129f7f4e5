/* SPDX-License-Identifier: Apache-2.0 */
/* InTopKD, called by name: whether fewer than k of a row's logits are larger than that of its target. It is false for
 * targets out of range, and where the target's logit is not finite. */
#include <math.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "op/executor.h"

enum { TILE = 512 };

typedef struct {
  int64_t n, classes, k;
  int dtype, target_dtype;
} in_top_k_plan;

typedef struct {
  const in_top_k_plan *plan;
  void *const *view;
} in_top_k_job;

static void in_top_k_range(const void *argument, int64_t begin, int64_t end) {
  const in_top_k_job *j = argument;
  const in_top_k_plan *p = j->plan;
  const int64_t size = (int64_t)dtype_bytes(p->dtype), target_size = (int64_t)dtype_bytes(p->target_dtype);
  float tile[TILE];
  for (int64_t row = begin; row < end; ++row) {
    const char *x = (const char *)j->view[GRAPH_IN_TOP_K_X1] + row * p->classes * size;
    int64_t target, larger = 0;
    float logit = NAN;
    loops->load[p->target_dtype][COMPUTE_I64](&target, (const char *)j->view[GRAPH_IN_TOP_K_X2] + row * target_size, 0,
                                              1);
    if (target >= 0 && target < p->classes) loops->load[p->dtype][COMPUTE_F32](&logit, x + target * size, 0, 1);
    for (int64_t i = 0, n; i < p->classes; i += n) {
      n = i64_min(TILE, p->classes - i);
      loops->load[p->dtype][COMPUTE_F32](tile, x + i * size, size, n);
      for (int64_t c = 0; c < n; ++c) larger += tile[c] > logit;
    }
    ((bool *)j->view[GRAPH_IN_TOP_K_Y])[row] = isfinite(logit) && larger < p->k;
  }
}

static status in_top_k_run(const executor *e, void *const *view, void *scratch) {
  const in_top_k_job job = {PLAN(e, in_top_k_plan), view};
  (void)scratch;
  rows_parallel(in_top_k_range, &job, job.plan->n, 1, e->cost_ns);
  return ST_OK;
}

status prepare_graph_in_top_k(executor *e, const graph_in_top_k_args *a) {
  const tensor *x = a->x1, *targets = a->x2;
  TRY(op_expect_dtype(x, "x1", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(x, "x1", 2, 2));
  TRY(op_expect_dtype(targets, "x2", DTYPES_INDEX));
  TRY(op_expect_shape(targets, "x2", x->dims, 1));
  TRY(op_expect_dtype(a->y, "y", DTYPE_BIT(ACL_BOOL)));
  TRY(op_expect_shape(a->y, "y", x->dims, 1));
  *PLAN(e, in_top_k_plan) = (in_top_k_plan){x->dims[0], x->dims[1], a->k, x->dtype, targets->dtype};
  executor_cost(e, (uint64_t)x->n * dtype_bytes(x->dtype), (uint64_t)x->n);
  e->run = in_top_k_run;
  return ST_OK;
}
