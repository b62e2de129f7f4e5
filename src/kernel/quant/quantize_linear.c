/* SPDX-License-Identifier: Apache-2.0 */
/* DynamicQuantizeLinear, which graphs have for ONNX's operator of this name: a tensor of floats as uint8, with a scale
 * and a zero point from its range, widened to include 0. A range of 0 has the scale 1. */
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/quant/sums.h"

typedef struct {
  int64_t n;
  uint64_t cost_ns;
} dynamic_linear_plan;

typedef struct {
  const float *x;
  uint8_t *y;
  float scale, zero;
} dynamic_linear_job;

static void quantise_some(const void *job, int64_t begin, int64_t end) {
  const dynamic_linear_job *j = job;
  quant_sums->quantise(j->y + begin, j->x + begin, j->scale, j->zero, end - begin);
}

static status run_dynamic_linear(const executor *e, void *const *view, void *scratch) {
  enum { MOST = 255, GRAIN = 4096 };
  (void)scratch;
  const dynamic_linear_plan *p = PLAN(e, dynamic_linear_plan);
  float least = 0, most = 0;
  dynamic_linear_job j = {.x = view[DYNAMIC_QUANTIZE_LINEAR_SELF], .y = view[DYNAMIC_QUANTIZE_LINEAR_OUT]};
  quant_sums->range(j.x, p->n, &least, &most);
  j.scale = most > least ? (most - least) / MOST : 1;
  quant_sums->quantise(view[DYNAMIC_QUANTIZE_LINEAR_ZERO], &least, -j.scale, 0, 1);
  j.zero = *(const uint8_t *)view[DYNAMIC_QUANTIZE_LINEAR_ZERO];
  *(float *)view[DYNAMIC_QUANTIZE_LINEAR_SCALE] = j.scale;
  rows_parallel(quantise_some, &j, p->n, GRAIN, p->cost_ns);
  return ST_OK;
}

static status dynamic_linear_nothing(const executor *e, void *const *view, void *scratch) {
  (void)e, (void)scratch;
  *(float *)view[DYNAMIC_QUANTIZE_LINEAR_SCALE] = 1;
  *(uint8_t *)view[DYNAMIC_QUANTIZE_LINEAR_ZERO] = 0;
  return ST_OK;
}

status prepare_dynamic_quantize_linear(executor *e, const dynamic_quantize_linear_args *a) {
  const tensor *self = a->self, *out = a->out, *scale = a->scale, *zero = a->zero;
  TRY(op_expect_dtype(self, "self", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(ACL_UINT8)));
  TRY(op_expect_dtype(scale, "scale", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_dtype(zero, "zero", DTYPE_BIT(ACL_UINT8)));
  TRY(op_expect_shape(out, "out", self->dims, self->rank));
  EXPECT(self->contiguous && out->contiguous, "self or out has gaps, expected %s", "none");
  EXPECT(scale->n == 1 && zero->n == 1, "scale and zero have %jd and %jd elements, expected 1", (intmax_t)scale->n,
         (intmax_t)zero->n);
  dynamic_linear_plan *p = PLAN(e, dynamic_linear_plan);
  p->n = self->n;
  executor_cost(e, (uint64_t)self->n * 9, (uint64_t)self->n * 8);
  p->cost_ns = e->cost_ns;
  e->run = self->n ? run_dynamic_linear : dynamic_linear_nothing;
  return ST_OK;
}
