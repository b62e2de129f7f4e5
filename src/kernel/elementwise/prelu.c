/* SPDX-License-Identifier: Apache-2.0 */
/* Prelu and its gradients: a single weight, or one for each index of dimension 1. */
#include <stdlib.h>

#include "kernel/elementwise/elementwise_call.h"
#include "kernel/engine/mapped_sum.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

/* The weights, of whatever shape, as a tensor that broadcasts to self's shape. */
static status spread_weight(const tensor *self, const tensor *weight, tensor *spread) {
  const int64_t channels = self->rank > 1 ? self->dims[1] : 1;
  EXPECT(weight->n == 1 || weight->n == channels, "weight has shape %s, expected 1 or %jd elements", SHAPE_OF(weight),
         (intmax_t)channels);
  int64_t step = 0, n = 1; /* step: elements between weights; n: their number in the dimensions seen so far */
  for (int d = weight->rank - 1; d >= 0; n *= weight->dims[d--]) {
    if (n == 1) step = weight->strides[d];
    EXPECT(weight->n <= 1 || weight->dims[d] == 1 || weight->strides[d] == step * n,
           "weight has shape %s and other strides, expected all elements at one distance", SHAPE_OF(weight));
  }
  *spread = *weight;
  spread->rank = (uint8_t)(self->rank > 1 ? self->rank - 1 : 0);
  for (int d = 0; d < spread->rank; ++d) {
    spread->dims[d] = d ? 1 : weight->n;
    spread->strides[d] = d ? 0 : step;
  }
  return ST_OK;
}

status prepare_prelu(executor *e, const prelu_args *a) {
  tensor spread;
  elementwise_call c;
  TRY(spread_weight(a->self, a->weight, &spread));
  elementwise_call_of(e->op, a->all, &c);
  c.in[1] = &spread;
  return elementwise_prepare(e, EW_prelu, &c);
}

/* ---- the gradients ----------------------------------------------------------------------------------------------- */

typedef struct {
  elementwise_plan input;
  mapped_sum weight; /* the sum for the weight of one channel */
  int64_t channels;  /* the number of weights: 1, or the size of dimension 1 */
  int64_t step[2];   /* bytes between channels of gradOutput and self */
  int64_t to;        /* bytes between elements of gradWeight */
  store_loop *store;
} prelu_backward_plan;

static status run_prelu_backward(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const prelu_backward_plan *p = e->heap;
  if (p->weight.at.n) {
    void *const at[] = {view[PRELU_BACKWARD_GRAD_INPUT], view[PRELU_BACKWARD_GRAD_OUTPUT], view[PRELU_BACKWARD_SELF],
                        view[PRELU_BACKWARD_WEIGHT]};
    elementwise_run(&p->input, at, e->cost_ns / 2);
  }
  for (int64_t c = 0; c < p->channels; ++c) {
    double sum = 0;
    if (p->weight.at.n) {
      void *const at[] = {(char *)view[PRELU_BACKWARD_GRAD_OUTPUT] + c * p->step[0],
                          (char *)view[PRELU_BACKWARD_SELF] + c * p->step[1]};
      sum = mapped_sum_run(&p->weight, at, e->cost_ns / (uint64_t)(2 * p->channels));
    }
    p->store((char *)view[PRELU_BACKWARD_GRAD_WEIGHT] + c * p->to, 0, &sum, 1);
  }
  return ST_OK;
}

static status expect_prelu_backward(const prelu_backward_args *a) {
  const tensor *self = a->self, *weight = a->weight;
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT));
  TRY(op_expect_dtype(a->grad_output, "gradOutput", DTYPE_BIT(self->dtype)));
  TRY(op_expect_dtype(weight, "weight", DTYPE_BIT(self->dtype)));
  TRY(op_expect_dtype(a->grad_input, "gradInput", DTYPE_BIT(self->dtype)));
  TRY(op_expect_dtype(a->grad_weight, "gradWeight", DTYPE_BIT(self->dtype)));
  EXPECT(move_broadcasts_to(a->grad_output, self),
         "gradOutput has shape %s, expected one that broadcasts to self's, %s", SHAPE_OF(a->grad_output),
         SHAPE_OF(self));
  TRY(op_expect_same_shape(a->grad_input, "gradInput", self));
  return op_expect_same_shape(a->grad_weight, "gradWeight", weight);
}

/* Several weights are in one dimension, or in dimension 1 of a tensor of self's rank. */
static status expect_shape_of_weight(const tensor *weight, const tensor *self) {
  bool fits = weight->rank <= 1 || weight->rank == self->rank;
  for (int d = 0; d < weight->rank; ++d) fits &= weight->rank == 1 || d == 1 || weight->dims[d] == 1;
  EXPECT(fits, "weight has shape %s, expected all elements in one dimension, or in dimension 1", SHAPE_OF(weight));
  return ST_OK;
}

status prepare_prelu_backward(executor *e, const prelu_backward_args *a) {
  const tensor *self = a->self, *grad_weight = a->grad_weight;
  tensor spread, spread_out;
  TRY(expect_prelu_backward(a));
  TRY(expect_shape_of_weight(a->weight, self));
  TRY(spread_weight(self, a->weight, &spread));
  TRY(spread_weight(self, grad_weight, &spread_out));
  HEAP_PLAN(prelu_backward_plan, p, e, sizeof *p);
  const compute_type compute = compute_type_of(self->dtype);
  const view to = view_of(a->grad_input), weight = view_of(&spread);
  const view grad = view_of(a->grad_output);
  view x = view_of(self), g = view_broadcast(&grad, x.dims, x.rank);
  elementwise_plan_init(&p->input, EW_prelu_backward, compute, &to, (const view *const[]){&g, &x, &weight}, 3);
  p->channels = grad_weight->n;
  p->step[0] = p->step[1] = p->to = 0;
  if (p->channels > 1) {
    p->step[0] = g.strides[1];
    p->step[1] = x.strides[1];
    p->to = view_of(&spread_out).strides[0];
    x.dims[1] = g.dims[1] = 1;
  }
  mapped_sum_init(&p->weight, EW_prelu_weight_backward, compute, x.dims, x.rank, (const view *const[]){&g, &x}, 2);
  p->store = loops->store[self->dtype][COMPUTE_F64];
  executor_cost(e, (uint64_t)self->n * 5 * dtype_bytes(self->dtype), (uint64_t)self->n * 4);
  e->run = run_prelu_backward;
  return ST_OK;
}
