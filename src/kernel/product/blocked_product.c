/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/product/blocked_product.h"

#include <string.h>

#include "base/invariant.h"
#include "kernel/product/blocked_weight.h"
#include "kernel/product/product.h"

/* What such an operator has in the executor's heap, beside the plan of its product. */
typedef struct {
  blocked_weight weight;
  status (*run)(const executor *e, void *const *view, void *scratch); /* of the product */
} blocked_product;

enum { MOST_OPERANDS = 8 };

static status run_blocked_product(const executor *e, void *const *view, void *scratch) {
  const blocked_product *p = e->heap;
  const int b = PLAN(e, product_operator)->b;
  void *at[MOST_OPERANDS];
  memcpy(at, view, e->n_operands * sizeof *at);
  at[b] = blocked_weight_read(&p->weight, view[b], scratch);
  return p->run(e, at, scratch);
}

status blocked_product_finish(executor *e, const tensor *weight, const char *name) {
  blocked_weight w;
  INVARIANT(e->n_operands <= MOST_OPERANDS);
  TRY(blocked_weight_plan(e, PLAN(e, product_operator)->b, weight, name, &w));
  product_plan_finish(e);
  if (!w.matrices) return ST_OK;
  HEAP_PLAN(blocked_product, p, e, sizeof *p);
  *p = (blocked_product){w, e->run};
  e->run = run_blocked_product;
  e->packing = (executor_packing){0}; /* what lies there is not what the product reads */
  return ST_OK;
}
