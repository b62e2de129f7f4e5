/* SPDX-License-Identifier: Apache-2.0 */
/* aclnnTransformBiasRescaleQkv: splits a joint projection qkv [B, T, 3 * heads * depth] into queries, keys and values
 * [B, heads, T, depth], and adds the corresponding part of the bias to each. Queries are divided by sqrt(depth). */
#include <math.h>
#include <stdlib.h>

#include "kernel/engine/loops.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

enum { PARTS = 3 };

typedef struct {
  elementwise_plan part[PARTS];
  int64_t from, bias; /* bytes from one part to the next */
} rescale_plan;

static status run_rescale(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const rescale_plan *p = e->heap;
  for (int i = 0; i < PARTS; ++i) {
    void *const at[] = {view[BIAS_RESCALE_QKV_Q_OUT + i], (char *)view[BIAS_RESCALE_QKV_QKV] + i * p->from,
                        (char *)view[BIAS_RESCALE_QKV_QKV_BIAS] + i * p->bias};
    elementwise_run(&p->part[i], at, e->cost_ns / PARTS);
  }
  return ST_OK;
}

status prepare_bias_rescale_qkv(executor *e, const bias_rescale_qkv_args *a) {
  const tensor *qkv = a->qkv, *bias = a->qkv_bias;
  const int64_t heads = a->num_heads;
  TRY(op_expect_dtype(qkv, "qkv", DTYPES_FLOAT));
  TRY(op_expect_dtype(bias, "qkvBias", DTYPE_BIT(qkv->dtype)));
  EXPECT(heads > 0, "numHeads is %jd, expected more than 0", (intmax_t)heads);
  EXPECT(qkv->rank == 3 && qkv->dims[2] % (PARTS * heads) == 0, "qkv has shape %s, expected [B, T, a multiple of %jd]",
         SHAPE_OF(qkv), (intmax_t)(PARTS * heads));
  TRY(op_expect_shape(bias, "qkvBias", &qkv->dims[2], 1));
  const int64_t depth = qkv->dims[2] / (PARTS * heads), dims[] = {qkv->dims[0], heads, qkv->dims[1], depth};
  const tensor *const out[PARTS] = {a->q_out, a->k_out, a->v_out};
  static const char *const names[PARTS] = {"qOut", "kOut", "vOut"};
  for (int i = 0; i < PARTS; ++i) {
    TRY(op_expect_dtype(out[i], names[i], DTYPE_BIT(qkv->dtype)));
    TRY(op_expect_shape(out[i], names[i], dims, 4));
  }
  HEAP_PLAN(rescale_plan, p, e, sizeof *p);
  const view v = view_of(qkv), b = view_of(bias);
  const view from = {.rank = 4,
                     .dtype = qkv->dtype,
                     .dims = {dims[0], dims[1], dims[2], dims[3]},
                     .strides = {v.strides[0], depth * v.strides[2], v.strides[1], v.strides[2]}};
  const view of_bias = {.rank = 4,
                        .dtype = bias->dtype,
                        .dims = {1, heads, 1, depth},
                        .strides = {0, depth * b.strides[0], 0, b.strides[0]}};
  p->from = heads * depth * v.strides[2];
  p->bias = heads * depth * b.strides[0];
  const compute_type compute = compute_type_of(qkv->dtype);
  for (int i = 0; i < PARTS; ++i) {
    const view to = view_of(out[i]);
    const double factor = i ? 1 : 1 / sqrt((double)depth);
    elementwise_plan_init(&p->part[i], EW_sum_scaled, compute, &to, (const view *const[]){&from, &of_bias}, 2);
    if (compute == COMPUTE_F64)
      p->part[i].parameter[0].f64 = factor;
    else
      p->part[i].parameter[0].f32 = (float)factor;
  }
  executor_cost(e, (uint64_t)qkv->n * 2 * dtype_bytes(qkv->dtype), 0);
  e->run = qkv->n ? run_rescale : move_run_nothing;
  return ST_OK;
}
