/* SPDX-License-Identifier: Apache-2.0 */
/* Exp and Log called by operator name, with a base and a linear function of x. Those of frameworks have base e and x
 * itself, as the operators of the elementwise engine; the others are computed in double. */
#include <math.h>

#include "kernel/elementwise/elementwise_call.h"
#include "kernel/engine/rows.h"
#include "kernel/families.h"

enum { TILE = 512 };

typedef struct {
  double ln_base, scale, shift;
  bool log;
  int64_t n, x_bytes, y_bytes; /* bytes: of an element */
  load_loop *load;
  store_loop *store;
} graph_exponential_plan;

typedef struct {
  const graph_exponential_plan *plan;
  void *const *view;
} graph_exponential_job;

static void graph_exponential_share(const void *arg, int64_t begin, int64_t end) {
  const graph_exponential_job *j = arg;
  const graph_exponential_plan *p = j->plan;
  double v[TILE];
  for (int64_t i = begin, n; i < end; i += n) {
    n = i64_min(TILE, end - i);
    p->load(v, (const char *)j->view[GRAPH_EXPONENTIAL_X] + i * p->x_bytes, p->x_bytes, n);
    for (int64_t k = 0; k < n; ++k) {
      const double x = v[k] * p->scale + p->shift;
      v[k] = p->log ? log(x) / p->ln_base : exp(x * p->ln_base);
    }
    p->store((char *)j->view[GRAPH_EXPONENTIAL_Y] + i * p->y_bytes, p->y_bytes, v, n);
  }
}

static status graph_exponential_run(const executor *e, void *const *view, void *scratch) {
  const graph_exponential_job job = {PLAN(e, graph_exponential_plan), view};
  (void)scratch;
  rows_parallel(graph_exponential_share, &job, job.plan->n, TILE, e->cost_ns);
  return ST_OK;
}

status prepare_graph_exponential(executor *e, const graph_exponential_args *a) {
  const tensor *x = a->x, *y = a->y;
  EXPECT(a->base == -1 || (a->base > 0 && a->base != 1), "base is %g, expected -1, for e, or a positive number but 1",
         a->base);
  if (a->base == -1 && a->scale == 1 && a->shift == 0) {
    elementwise_call c;
    elementwise_call_of(e->op, a->all, &c);
    c.n_parameters = 0;
    return elementwise_prepare(e, e->op->variant, &c);
  }
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT));
  TRY(op_expect_dtype(y, "y", DTYPE_BIT(x->dtype)));
  TRY(op_expect_shape(y, "y", x->dims, x->rank));
  *PLAN(e, graph_exponential_plan) = (graph_exponential_plan){.ln_base = a->base == -1 ? 1 : log(a->base),
                                                              .scale = a->scale,
                                                              .shift = a->shift,
                                                              .log = e->op->variant == EW_log,
                                                              .n = x->n,
                                                              .x_bytes = (int64_t)dtype_bytes(x->dtype),
                                                              .y_bytes = (int64_t)dtype_bytes(y->dtype),
                                                              .load = loops->load[x->dtype][COMPUTE_F64],
                                                              .store = loops->store[y->dtype][COMPUTE_F64]};
  e->run = graph_exponential_run;
  executor_cost(e, (uint64_t)x->n * 2 * dtype_bytes(x->dtype), (uint64_t)x->n * 640); /* some 20 ns each by libm */
  return ST_OK;
}
