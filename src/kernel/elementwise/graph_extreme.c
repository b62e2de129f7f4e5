/* SPDX-License-Identifier: Apache-2.0 */
/* MaximumGrad and MinimumGrad, called by name: the gradient goes to the operand that is the result, to the first one of
 * equal ones. */
#include "kernel/elementwise/elementwise_call.h"
#include "kernel/families.h"

typedef struct {
  elementwise_plan of_x1, of_x2;
} extreme_plan;

static status extreme_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const extreme_plan *p = e->heap;
  const bool is_min = e->op->variant == GRAPH_EXTREME_GRAD_MIN;
  void *const x1 = view[GRAPH_EXTREME_GRAD_X1], *const x2 = view[GRAPH_EXTREME_GRAD_X2];
  void *at[] = {view[GRAPH_EXTREME_GRAD_Y1], view[GRAPH_EXTREME_GRAD_GRADS], is_min ? x2 : x1, is_min ? x1 : x2};
  if (p->of_x1.n_inputs) elementwise_run(&p->of_x1, at, e->cost_ns);
  at[0] = view[GRAPH_EXTREME_GRAD_Y2];
  if (p->of_x2.n_inputs) elementwise_run(&p->of_x2, at, e->cost_ns);
  return ST_OK;
}

/* grad_x and grad_y: whether y1 and y2 are wanted; otherwise they stay as they are. */
status prepare_graph_extreme_grad(executor *e, const graph_extreme_grad_args *a) {
  const tensor *const all[] = {a->x1, a->x2, a->y1, a->y2}, *grads = a->grads;
  static const char *const names[] = {"x1", "x2", "y1", "y2"};
  HEAP_PLAN(extreme_plan, p, e, sizeof *p);
  TRY(op_expect_dtype(grads, "grads", DTYPES_REAL & ~DTYPE_BIT(ACL_BOOL)));
  for (int k = 0; k < 4; ++k) {
    TRY(op_expect_dtype(all[k], names[k], DTYPE_BIT(grads->dtype)));
    TRY(op_expect_same_shape(all[k], names[k], grads));
  }
  const view g = view_of(grads), *const in[] = {&g, &g, &g}; /* all are without gaps */
  const compute_type compute = compute_type_of(grads->dtype);
  *p = (extreme_plan){0};
  if (a->grad_x) elementwise_plan_init(&p->of_x1, EW_if_at_least, compute, &g, in, 3);
  if (a->grad_y) elementwise_plan_init(&p->of_x2, EW_unless_at_least, compute, &g, in, 3);
  executor_cost(e, (uint64_t)grads->n * dtype_bytes(grads->dtype) * 4, 0);
  e->run = extreme_run;
  return ST_OK;
}
