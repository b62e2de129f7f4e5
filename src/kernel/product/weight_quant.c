/* SPDX-License-Identifier: Apache-2.0 */
/* aclnnWeightQuantBatchMatmulV2, V3 and Nz: y = x @ ((weight + offset) * scale) + bias. The weight is int8 or int4 (or
 * int32 words of eight int4), [K, N], as quant_weight.h describes. innerPrecise changes nothing. An int8 weight may be
 * blocked (blocked_weight.h). */
#include "kernel/families.h"
#include "kernel/product/blocked_weight.h"
#include "kernel/product/factor/factors.h"
#include "kernel/product/quant_weight.h"

typedef struct {
  product_plan product;
  weight_quant weight;
  blocked_weight blocked;
} weight_quant_plan;

/* ---- preparation ------------------------------------------------------------------------------------------------- */

static status check_parameter(const tensor *t, const char *name, int64_t n_groups, int64_t n, weight_parameters *x) {
  TRY(op_expect_dtype(t, name, DTYPES_FLOAT_TO_32));
  const view v = view_of(t);
  const int64_t last = v.rank ? v.dims[v.rank - 1] : 1, first = v.rank > 1 ? v.dims[0] : 1;
  const int64_t last_stride = v.rank && last > 1 ? v.strides[v.rank - 1] : 0,
                first_stride = v.rank > 1 ? v.strides[0] : 0;
  *x = (weight_parameters){.dtype = v.dtype, .col_stride = last_stride};
  if (v.rank <= 2 && first == n_groups && (last == n || (n_groups == 1 && last == 1))) {
    x->group_stride = n_groups > 1 ? first_stride : 0;
    return ST_OK;
  }
  if (v.rank == 2 && n_groups == 1 && first == n && last == 1) {
    x->col_stride = first_stride;
    return ST_OK;
  }
  return OP_FAIL("%s has shape %s, expected [%jd, %jd]%s", name, SHAPE_OF(t), (intmax_t)n_groups, (intmax_t)n,
                 n_groups == 1 ? ", a vector of that or one element" : "");
}

static status check_absent(const tensor *t, const char *name) {
  EXPECT(!t, "%s is given, expected NULL: results are not quantised", name);
  return ST_OK;
}

static status check_bias(const tensor *bias, int64_t n, product_plan *p) {
  TRY(op_expect_dtype(bias, "biasOptional", DTYPES_FLOAT_TO_32));
  EXPECT((bias->rank == 1 || (bias->rank == 2 && bias->dims[0] == 1)) && bias->dims[bias->rank - 1] == n,
         "biasOptional has shape %s, expected [%jd] or [1, %jd]", SHAPE_OF(bias), (intmax_t)n, (intmax_t)n);
  p->has_self = true;
  p->beta = 1;
  p->self = (matrices){.dtype = bias->dtype, .rows = p->a.rows, .cols = n};
  p->self.col_stride = view_of(bias).strides[bias->rank - 1];
  return ST_OK;
}

/* With two elements to a byte, sets the weight's offset and extent in the executor's operand. */
static status int4_operand(executor *e, const tensor *t, weight_quant *q) {
  operand *o = &e->operands[WEIGHT_QUANT_WEIGHT];
  int64_t last = 0;
  for (int d = 0; d < 2; ++d) last += (t->dims[d] - 1) * t->strides[d];
  q->first_half = (int)(t->offset & 1);
  o->offset_bytes = (uint64_t)t->offset / 2;
  if (o->extent_bytes) o->extent_bytes = (uint64_t)(last + q->first_half) / 2 + 1;
  return ST_OK;
}

/* Views int32 words as the eight int4 each that they hold: packed along the last dimension if there are as many rows of
 * words as columns of x, else along the first. */
static status int4_of_words(const tensor *words, const tensor *x, tensor *t) {
  const int along = words->dims[0] == x->dims[1], across = !along;
  EXPECT(words->dims[along] == 1 || words->strides[along] == 1,
         "weight has shape %s and %jd words between those of dimension %d, expected none", DIMS_TEXT(words->dims, 2),
         (intmax_t)words->strides[along] - 1, along);
  *t = *words;
  t->dtype = ACL_INT4;
  t->dims[along] *= 8;
  t->strides[along] = 1;
  t->strides[across] *= 8;
  t->offset *= 8;
  t->n *= 8;
  return ST_OK;
}

static status weight_quant_check_shapes(const weight_quant_args *a, const tensor *weight, int64_t *group) {
  const tensor *x = a->x;
  EXPECT(x->dims[1] == weight->dims[0], "weight has shape %s and x %s, expected as many rows as x has columns",
         DIMS_TEXT(weight->dims, 2), DIMS_TEXT(x->dims, 2));
  const int64_t dims[] = {x->dims[0], weight->dims[1]}, size = a->antiquant_group_size;
  EXPECT(x->n > 0 && weight->n > 0, "x has shape %s and weight %s, expected elements in both", DIMS_TEXT(x->dims, 2),
         DIMS_TEXT(weight->dims, 2));
  EXPECT(size >= 0 && size % GROUP_GRAIN == 0 && size < x->dims[1],
         "antiquantGroupSize is %jd, expected 0 or a multiple of 32 less than x's columns, %jd", (intmax_t)size,
         (intmax_t)x->dims[1]);
  const tensor *scale = a->antiquant_scale, *offset = a->antiquant_offset;
  if (offset) TRY(op_expect_same_shape(offset, "antiquantOffsetOptional", scale));
  *group = size ? size : x->dims[1];
  return op_expect_shape(a->y, "y", dims, 2);
}

static status run_weight_quant(const executor *e, void *const *view, void *scratch) {
  const weight_quant_plan *p = PLAN(e, weight_quant_plan);
  const int offset = WEIGHT_QUANT_ANTIQUANT_OFFSET;
  const quant_weight weight = {p->weight, view[WEIGHT_QUANT_ANTIQUANT_SCALE],
                               p->weight.has_offset ? view[offset] : NULL};
  product_call call = {.plan = &p->product,
                       .a = view[WEIGHT_QUANT_X],
                       .b = blocked_weight_read(&p->blocked, view[WEIGHT_QUANT_WEIGHT], scratch),
                       .self = view[WEIGHT_QUANT_BIAS],
                       .out = view[WEIGHT_QUANT_Y],
                       .context = &weight};
  return product_run(&call, 1);
}

status prepare_weight_quant(executor *e, const weight_quant_args *a) {
  const tensor *x = a->x, *weight = a->weight, *y = a->y;
  tensor unpacked;
  product_plan *p = &PLAN(e, weight_quant_plan)->product;
  weight_quant *q = &PLAN(e, weight_quant_plan)->weight;
  const uint64_t halves = DTYPES_HALF;
  TRY(op_expect_dtype(x, "x", halves | DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_dtype(weight, "weight", DTYPE_BIT(ACL_INT8) | DTYPE_BIT(ACL_INT4) | DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_dtype(y, "y", halves | DTYPE_BIT(ACL_FLOAT)));
  EXPECT(a->inner_precise == 0 || a->inner_precise == 1, "innerPrecise is %jd, expected 0 or 1",
         (intmax_t)a->inner_precise);
  TRY(check_absent(a->quant_scale, "quantScaleOptional"));
  TRY(check_absent(a->quant_offset, "quantOffsetOptional"));
  TRY(op_expect_rank(x, "x", 2, 2));
  TRY(op_expect_rank(weight, "weight", 2, 2));
  TRY(blocked_weight_plan(e, WEIGHT_QUANT_WEIGHT, weight, "weight", &PLAN(e, weight_quant_plan)->blocked));
  if (weight->dtype == ACL_INT32) {
    TRY(int4_of_words(weight, x, &unpacked));
    weight = &unpacked;
  }
  *q = (weight_quant){.is_int4 = weight->dtype == ACL_INT4, .has_offset = a->antiquant_offset != NULL};
  TRY(weight_quant_check_shapes(a, weight, &q->group));
  const int64_t k = x->dims[1], n = weight->dims[1];
  q->n_groups = (k + q->group - 1) / q->group;
  q->row_stride = weight->strides[0], q->col_stride = weight->strides[1];
  TRY(check_parameter(a->antiquant_scale, "antiquantScale", q->n_groups, n, &q->scale));
  if (q->has_offset) TRY(check_parameter(a->antiquant_offset, "antiquantOffsetOptional", q->n_groups, n, &q->offset));
  if (q->is_int4) TRY(int4_operand(e, weight, q));
  const view vx = view_of(x), vy = view_of(y);
  *p = (product_plan){.alpha = 1};
  p->a = (matrices){.dtype = x->dtype, .rows = x->dims[0], .cols = k, .row_stride = vx.strides[0]};
  p->a.col_stride = vx.strides[1];
  p->b = (matrices){.dtype = ACL_INT8, .rows = k, .cols = n};
  p->out = (matrices){.dtype = y->dtype, .rows = x->dims[0], .cols = n, .row_stride = vy.strides[0]};
  p->out.col_stride = vy.strides[1];
  if (a->bias) TRY(check_bias(a->bias, n, p));
  p->made_b = weight_quant_factor(q, p);
  product_choose(p, e);
  product_costs(e, p);
  e->run = run_weight_quant;
  return ST_OK;
}
