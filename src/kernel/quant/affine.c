/* SPDX-License-Identifier: Apache-2.0 */
/* Quantisation with given scales: Quantize, AscendQuant, AscendQuantV3, AscendAntiQuant, DequantBias and FakeQuant*.
 * Each is one elementwise function whose scale and offset are broadcast along an axis. Float results saturate when
 * stored as integers, and NaN becomes 0. Int4 tensors are converted from or to an int8 copy in workspace. */
#include <stdlib.h>
#include <string.h>

#include "kernel/engine/elementwise.h"
#include "kernel/engine/loops.h"
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/product/factor/factors.h"
#include "kernel/quant/nibbles.h"

enum { MOST_INPUTS = 4, ABSENT = -1, NOT_PACKED = -1 };

typedef struct {
  elementwise_plan plan;
  int8_t operand[1 + MOST_INPUTS]; /* operand numbers of out and the inputs; ABSENT: zero */
  int8_t packed;                   /* index in `operand` of the int4 tensor, or NOT_PACKED */
  uint64_t bytes;                  /* in scratch: its int8 copy */
  int64_t n_packed;
} affine_plan;

static const float zero_value;

static status run_affine(const executor *e, void *const *view, void *scratch) {
  const affine_plan *p = PLAN(e, affine_plan);
  int8_t *const bytes = p->packed == NOT_PACKED ? NULL : (int8_t *)scratch + p->bytes;
  void *at[1 + MOST_INPUTS];
  for (int k = 0; k <= p->plan.n_inputs; ++k)
    at[k] = p->operand[k] == ABSENT ? (void *)(uintptr_t)&zero_value : view[p->operand[k]];
  if (p->packed != NOT_PACKED) {
    if (p->packed) nibbles_unpack(bytes, at[p->packed], p->n_packed);
    at[p->packed] = bytes;
  }
  elementwise_run(&p->plan, at, e->cost_ns);
  if (p->packed == 0) nibbles_pack(view[p->operand[0]], bytes, p->n_packed);
  return ST_OK;
}

/* An operand of the elementwise function: its view and operand number. ABSENT stands for zero. */
typedef struct {
  view v;
  int8_t operand;
} part;

static part part_of_tensor(const tensor *t, int operand) {
  if (!t) return (part){{.dtype = ACL_FLOAT}, ABSENT};
  return (part){view_of(t), (int8_t)operand};
}

/* Plans the function. parts[0] is the result; the others are broadcast to it. */
static void plan_affine(executor *e, int function, compute_type compute, const part *parts, int n_inputs) {
  affine_plan *p = PLAN(e, affine_plan);
  view views[MOST_INPUTS];
  const view *in[MOST_INPUTS];
  uint64_t bytes = 0;
  for (int k = 0; k <= n_inputs; ++k) {
    p->operand[k] = parts[k].operand;
    if (parts[k].operand != ABSENT) bytes += e->operands[parts[k].operand].extent_bytes;
    if (!k) continue;
    views[k - 1] = view_broadcast(&parts[k].v, parts[0].v.dims, parts[0].v.rank);
    in[k - 1] = &views[k - 1];
  }
  elementwise_plan_init(&p->plan, function, compute, &parts[0].v, in, n_inputs);
  p->packed = NOT_PACKED;
  executor_cost(e, bytes, (uint64_t)p->plan.n * 4);
  e->run = p->plan.n ? run_affine : move_run_nothing;
}

/* Returns the int8 copy, in scratch and contiguous, of an int4 operand with these dims. */
static part int4_part(executor *e, int operand, const int64_t *dims, int rank) {
  affine_plan *p = PLAN(e, affine_plan);
  const part bytes = {view_contiguous(ACL_INT8, rank, dims), (int8_t)operand};
  p->n_packed = view_elements(&bytes.v);
  p->bytes = workspace_intermediate(e, (uint64_t)p->n_packed);
  return bytes;
}

/* Sets *v to the view of parameter t along x. t has one element, or one for each index of `axis`, either as a vector or
 * with all other dimensions 1. */
static status quant_broadcast_parameter(const tensor *t, const char *name, const tensor *x, int axis, view *v) {
  const int64_t n = x->rank ? x->dims[axis] : 1;
  bool fits = t->n == 1 || (t->n == n && (t->rank == 1 || t->rank == x->rank));
  for (int d = 0; fits && t->rank > 1 && d < t->rank; ++d) fits = t->n == 1 || d == axis || t->dims[d] == 1;
  EXPECT(fits, "%s has shape %s, expected 1 or %jd elements, along dimension %d", name, SHAPE_OF(t), (intmax_t)n, axis);
  const int own = t->rank > 1 ? axis : 0;
  const int64_t step = t->rank ? t->strides[t->n == 1 ? 0 : own] * (int64_t)dtype_bytes(t->dtype) : 0;
  *v = (view){.rank = x->rank, .dtype = t->dtype};
  for (int d = 0; d < x->rank; ++d) v->dims[d] = 1;
  if (t->n == 1) return ST_OK;
  v->dims[axis] = n;
  v->strides[axis] = step;
  return ST_OK;
}

/* ---- to integers ------------------------------------------------------------------------------------------------- */

/* out = round(x / scale + zero point). */
status prepare_quantize(executor *e, const quantize_args *a) {
  const tensor *x = a->x, *scales = a->scales, *zero_points = a->zero_points, *out = a->out;
  const int64_t to = a->dtype;
  int axis = 0;
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT_TO_32));
  TRY(op_expect_dtype(scales, "scales", x->dtype == ACL_FLOAT ? DTYPES_FLOAT_TO_32 : DTYPE_BIT(x->dtype)));
  EXPECT(to == ACL_INT8 || to == ACL_UINT8 || to == ACL_INT32, "dtype is %jd, expected INT8, UINT8 or INT32",
         (intmax_t)to);
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(to)));
  TRY(op_expect_same_shape(out, "out", x));
  TRY(op_expect_rank(scales, "scales", 1, 1));
  if (scales->n != 1) TRY(op_expect_dim(a->axis, "axis", x->rank, &axis));
  part parts[] = {part_of_tensor(out, QUANTIZE_OUT), part_of_tensor(x, QUANTIZE_X),
                  part_of_tensor(scales, QUANTIZE_SCALES), part_of_tensor(zero_points, QUANTIZE_ZERO_POINTS)};
  TRY(quant_broadcast_parameter(scales, "scales", x, axis, &parts[2].v));
  if (zero_points) {
    TRY(op_expect_dtype(zero_points, "zeroPoints",
                        DTYPE_BIT(ACL_INT32) | DTYPE_BIT(ACL_INT8) | DTYPE_BIT(ACL_UINT8) | DTYPE_BIT(ACL_FLOAT) |
                            DTYPE_BIT(ACL_BF16)));
    TRY(op_expect_shape(zero_points, "zeroPoints", scales->dims, 1));
    TRY(quant_broadcast_parameter(zero_points, "zeroPoints", x, axis, &parts[3].v));
  }
  plan_affine(e, EW_quantise, COMPUTE_F32, parts, 3);
  return ST_OK;
}

static status rounding_of(const char *name, float *rounding) {
  /* in the order of ROUND_BY (engine/arithmetic.h) */
  static const char *const names[] = {"round", "ceil", "floor", "trunc"};
  const char *given = name ? name : "round";
  for (int i = 0; i < 4; ++i)
    if (!strcmp(given, names[i])) {
      *rounding = (float)i;
      return ST_OK;
    }
  return OP_FAIL("roundMode is \"%.32s\", expected \"round\", \"ceil\", \"floor\" or \"trunc\"", given);
}

/* y = x * scale + offset, rounded; sqrtMode multiplies by scale twice. */
status prepare_ascend_quant(executor *e, const ascend_quant_args *a) {
  const bool has_axis = e->op->variant == ASCEND_QUANT_AXIS;
  const tensor *x = a->x, *scale = a->scale, *offset = a->offset, *y = a->y;
  const int64_t to = a->dst_type;
  float rounding = 0;
  int axis = x->rank - 1;
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT_TO_32));
  EXPECT(x->rank > 0, "x has no dimension, expected 1 or more");
  TRY(op_expect_dtype(scale, "scale", x->dtype == ACL_FLOAT ? DTYPES_FLOAT_TO_32 : DTYPE_BIT(x->dtype)));
  TRY(rounding_of(a->round_mode, &rounding));
  EXPECT(to == ACL_INT8 || to == ACL_INT32 || to == ACL_INT4,
         "dstType is %jd, expected 2 (INT8), 3 (INT32, eight int4 each) or 29 (INT4)", (intmax_t)to);
  TRY(op_expect_dtype(y, "y", DTYPE_BIT(to)));
  if (has_axis) {
    TRY(op_expect_dim(a->axis, "axis", x->rank, &axis));
    EXPECT(axis >= x->rank - 2, "axis is %jd, expected one of the last two dimensions", (intmax_t)a->axis);
  }
  part parts[] = {{.operand = (int8_t)ASCEND_QUANT_Y},
                  part_of_tensor(x, ASCEND_QUANT_X),
                  part_of_tensor(scale, ASCEND_QUANT_SCALE),
                  part_of_tensor(offset, ASCEND_QUANT_OFFSET)};
  TRY(quant_broadcast_parameter(scale, "scale", x, axis, &parts[2].v));
  if (offset) {
    TRY(op_expect_like(offset, "offset", scale));
    TRY(quant_broadcast_parameter(offset, "offset", x, axis, &parts[3].v));
  }
  if (to == ACL_INT8) {
    TRY(op_expect_same_shape(y, "y", x));
    parts[0].v = view_of(y);
  } else {
    TRY(nibbles_operand(e, ASCEND_QUANT_Y, y, "y", x->dims, x->rank));
    parts[0] = int4_part(e, ASCEND_QUANT_Y, x->dims, x->rank);
  }
  plan_affine(e, EW_scale_round, COMPUTE_F32, parts, 3);
  affine_plan *p = PLAN(e, affine_plan);
  p->plan.parameter[0].f32 = rounding;
  p->plan.parameter[1].f32 = a->sqrt_mode;
  p->packed = to == ACL_INT8 ? NOT_PACKED : 0;
  return ST_OK;
}

/* ---- from integers ----------------------------------------------------------------------------------------------- */

/* y = (x + offset) * scale; sqrtMode multiplies by scale twice. */
status prepare_anti_quant(executor *e, const anti_quant_args *a) {
  const tensor *x = a->x, *scale = a->scale, *offset = a->offset, *y = a->y;
  const int64_t to = a->dst_type;
  const bool packed = x->dtype != ACL_INT8;
  TRY(op_expect_dtype(x, "x", DTYPE_BIT(ACL_INT8) | DTYPES_NIBBLES));
  TRY(op_expect_dtype(scale, "scale", DTYPES_FLOAT_TO_32));
  EXPECT(to == ACL_FLOAT16 || to == ACL_BF16, "dstType is %jd, expected 1 (FLOAT16) or 27 (BF16)", (intmax_t)to);
  TRY(op_expect_dtype(y, "y", DTYPE_BIT(to)));
  if (packed)
    TRY(nibbles_operand(e, ANTI_QUANT_X, x, "x", y->dims, y->rank));
  else
    TRY(op_expect_same_shape(y, "y", x));
  const int axis = y->rank - 1;
  const int64_t n = y->rank ? y->dims[axis] : 1;
  EXPECT(scale->rank == 1 && (scale->n == 1 || scale->n == n), "scale has shape %s, expected [1] or [%jd]",
         SHAPE_OF(scale), (intmax_t)n);
  part parts[] = {part_of_tensor(y, ANTI_QUANT_Y), part_of_tensor(x, ANTI_QUANT_X),
                  part_of_tensor(scale, ANTI_QUANT_SCALE), part_of_tensor(offset, ANTI_QUANT_OFFSET)};
  TRY(quant_broadcast_parameter(scale, "scale", y, axis, &parts[2].v));
  if (offset) {
    TRY(op_expect_like(offset, "offset", scale));
    TRY(quant_broadcast_parameter(offset, "offset", y, axis, &parts[3].v));
  }
  if (packed) parts[1] = int4_part(e, ANTI_QUANT_X, y->dims, y->rank);
  plan_affine(e, EW_anti_quant, COMPUTE_F32, parts, 3);
  affine_plan *p = PLAN(e, affine_plan);
  p->plan.parameter[0].f32 = a->sqrt_mode;
  p->packed = packed ? 1 : NOT_PACKED;
  return ST_OK;
}

/* x [M, N] times the scales of its columns and of its rows. An int32 bias is added before, any other bias after. In
 * double, so that int32 is exact. */
status prepare_dequant_bias(executor *e, const dequant_bias_args *a) {
  const tensor *x = a->x, *weight_scale = a->weight_scale, *scale = a->activate_scale, *bias = a->bias;
  const tensor *out = a->out;
  const int64_t to = a->output_dtype;
  TRY(op_expect_dtype(x, "x", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_rank(x, "x", 2, 2));
  TRY(op_expect_dtype(weight_scale, "weightScale", DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_BF16)));
  TRY(op_expect_shape(weight_scale, "weightScale", &x->dims[1], 1));
  EXPECT(to == ACL_FLOAT16 || to == ACL_BF16, "outputDtype is %jd, expected 1 (FLOAT16) or 27 (BF16)", (intmax_t)to);
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(to)));
  TRY(op_expect_same_shape(out, "out", x));
  part parts[] = {part_of_tensor(out, DEQUANT_BIAS_OUT), part_of_tensor(x, DEQUANT_BIAS_X),
                  part_of_tensor(weight_scale, DEQUANT_BIAS_WEIGHT_SCALE),
                  part_of_tensor(scale, DEQUANT_BIAS_ACTIVATE_SCALE), part_of_tensor(bias, DEQUANT_BIAS_BIAS)};
  if (scale) {
    TRY(op_expect_dtype(scale, "activateScaleOptional", DTYPE_BIT(ACL_FLOAT)));
    TRY(op_expect_shape(scale, "activateScaleOptional", &x->dims[0], 1));
    TRY(quant_broadcast_parameter(scale, "activateScaleOptional", x, 0, &parts[3].v));
  }
  if (bias) {
    TRY(op_expect_dtype(bias, "biasOptional", DTYPES_FLOAT_TO_32 | DTYPE_BIT(ACL_INT32)));
    TRY(op_expect_shape(bias, "biasOptional", &x->dims[1], 1));
  }
  plan_affine(e, EW_dequant_bias, COMPUTE_F64, parts, 4);
  affine_plan *p = PLAN(e, affine_plan);
  p->plan.parameter[0].f64 = bias && bias->dtype == ACL_INT32;
  p->plan.parameter[1].f64 = scale != NULL;
  return ST_OK;
}

/* ---- FakeQuant: quantise to integers and back; the mask tells which values were in range ------------------------- */

typedef struct {
  elementwise_plan out, mask;
} fake_quant_plan;

static status run_fake_quant(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const fake_quant_plan *p = e->heap;
  elementwise_run(
      &p->out,
      (void *const[]){view[FAKE_QUANT_OUT], view[FAKE_QUANT_SELF], view[FAKE_QUANT_SCALE], view[FAKE_QUANT_ZERO_POINT]},
      e->cost_ns / 2);
  elementwise_run(&p->mask,
                  (void *const[]){view[FAKE_QUANT_MASK], view[FAKE_QUANT_SELF], view[FAKE_QUANT_SCALE],
                                  view[FAKE_QUANT_ZERO_POINT]},
                  e->cost_ns / 2);
  return ST_OK;
}

status prepare_fake_quant(executor *e, const fake_quant_args *a) {
  const bool per_channel = e->op->variant == FAKE_QUANT_CHANNELS;
  const tensor *self = a->self, *scale = a->scale, *zero_point = a->zero_point, *out = a->out;
  const tensor *mask = a->mask;
  const int64_t low = a->quant_min, high = a->quant_max;
  int axis = 0;
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT_TO_32));
  TRY(op_expect_dtype(scale, "scale", DTYPES_FLOAT_TO_32));
  TRY(op_expect_dtype(zero_point, "zeroPoint", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_dtype(out, "out", DTYPES_FLOAT_TO_32));
  TRY(op_expect_dtype(mask, "mask", DTYPE_BIT(ACL_BOOL)));
  TRY(op_expect_same_shape(out, "out", self));
  TRY(op_expect_same_shape(mask, "mask", self));
  EXPECT(low <= high, "quantMin is %jd, expected quantMax, %jd, or less", (intmax_t)low, (intmax_t)high);
  if (per_channel) TRY(op_expect_dim(a->axis, "axis", self->rank, &axis));
  const int64_t n = per_channel && self->rank ? self->dims[axis] : 1;
  EXPECT(scale->n == n && scale->rank <= 1, "scale has %jd elements, expected %jd in one dimension", (intmax_t)scale->n,
         (intmax_t)n);
  EXPECT(zero_point->n == n && zero_point->rank <= 1, "zeroPoint has %jd elements, expected %jd in one dimension",
         (intmax_t)zero_point->n, (intmax_t)n);
  view s, z;
  TRY(quant_broadcast_parameter(scale, "scale", self, axis, &s));
  TRY(quant_broadcast_parameter(zero_point, "zeroPoint", self, axis, &z));
  const bool enabled = per_channel || a->fake_quant_enbled >= 1;
  const view x = view_of(self), to_out = view_of(out), to_mask = view_of(mask);
  const view *const in[] = {&x, &s, &z};
  HEAP_PLAN(fake_quant_plan, p, e, sizeof *p);
  elementwise_plan_init(&p->out, enabled ? EW_fake_quant : EW_copy, COMPUTE_F32, &to_out, in, 3);
  elementwise_plan_init(&p->mask, EW_fake_quant_mask, COMPUTE_F32, &to_mask, in, 3);
  for (elementwise_plan *each = &p->out; each; each = each == &p->out ? &p->mask : NULL) {
    each->parameter[0].f32 = (float)low;
    each->parameter[1].f32 = (float)high;
    each->parameter[2].f32 = !enabled; /* then no value is out of range */
  }
  executor_cost(e, (uint64_t)self->n * (2 * dtype_bytes(self->dtype) + 1), (uint64_t)self->n * 16);
  e->run = self->n ? run_fake_quant : move_run_nothing;
  return ST_OK;
}
