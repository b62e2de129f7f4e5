/* SPDX-License-Identifier: Apache-2.0 */
/* aclnnWeightQuantBatchMatmulV2: y = x @ ((weight + offset) * scale) + bias. The weight is int8 or int4 (or int32 words
 * of eight int4), [K, N]. scale and offset are per tensor, per column, or per column and group of rows. If x has few
 * rows and the weight is contiguous along K, the weight is read in place and the sum of each group is scaled; otherwise
 * blocks of the weight are dequantised to floats for the blocked GEMM. */
#include <stdlib.h>

#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/product/factors.h"

/* Layout of scale or offset: strides in bytes from group to group and from column to column. */
typedef struct {
  int dtype;
  int64_t group_stride, col_stride;
} parameters;

typedef struct {
  int64_t group, n_groups; /* rows of the weight in a group, and number of groups */
  parameters scale, offset;
  bool has_offset, is_int4;
  int64_t row_stride, col_stride; /* strides of the weight in elements */
  int first_half;                 /* int4: whether the first element is the high half of its byte */
} weight_quant;

static const weight_quant *quant_of(const product_part *p) { return p->executor->heap; }

/* Loads n values of a parameter for one column, from group g on. */
static void load_parameters(const parameters *x, const char *base, int64_t g, int64_t n, int64_t col, float *to) {
  loops->load[x->dtype][COMPUTE_F32](to, base + g * x->group_stride + col * x->col_stride, x->group_stride, n);
}

/* ---- blocked GEMM ------------------------------------------------------------------------------------------------ */

static float weight_at(const weight_quant *q, const char *weight, int64_t row, int64_t col) {
  const int64_t at = row * q->row_stride + col * q->col_stride;
  if (!q->is_int4) return (float)(int8_t)weight[at];
  const int byte = (int8_t)weight[(at + q->first_half) >> 1];
  const int half = (at + q->first_half) & 1 ? byte >> 4 : (byte & 15) - (byte & 8) * 2;
  return (float)half;
}

static void weight_quant_fetch(const product_part *p, float *to, int64_t row, int64_t rows, int64_t col, int64_t cols) {
  const weight_quant *q = quant_of(p);
  for (int64_t j = 0; j < cols; ++j) {
    float scale = 0, offset = 0;
    int64_t next = 0; /* first row of the next group */
    for (int64_t l = 0; l < rows; ++l) {
      if (l == 0 || row + l == next) {
        const int64_t g = (row + l) / q->group;
        next = (g + 1) * q->group;
        load_parameters(&q->scale, p->view[WEIGHT_QUANT_ANTIQUANT_SCALE], g, 1, col + j, &scale);
        if (q->has_offset) load_parameters(&q->offset, p->view[WEIGHT_QUANT_ANTIQUANT_OFFSET], g, 1, col + j, &offset);
      }
      to[l * cols + j] = (weight_at(q, p->b, row + l, col + j) + offset) * scale;
    }
  }
}

/* ---- small-m GEMM ------------------------------------------------------------------------------------------------ */

/* Scratch of one call; all are arrays of floats. */
typedef struct {
  float *x, *x_sums, *scale, *offset, *sums;
  int64_t x_pitch;
} few_rows_scratch;

enum { CHUNK = 256 };

static status make_scratch(const product_part *p, const weight_quant *q, few_rows_scratch *s) {
  const int64_t k = p->plan->a.cols, rows = p->rows;
  s->x_pitch = (k + GROUP_GRAIN - 1) / GROUP_GRAIN * GROUP_GRAIN;
  const int64_t total = 2 * rows * s->x_pitch + (rows + 2) * q->n_groups + rows * CHUNK;
  s->x = (float *)(void *)scratch_take((size_t)total * sizeof(float));
  if (!s->x) return ST_NO_MEMORY;
  float *const plain = s->x + rows * s->x_pitch; /* x before even and odd elements are separated */
  s->x_sums = plain + rows * s->x_pitch;
  s->scale = s->x_sums + rows * q->n_groups;
  s->offset = s->scale + q->n_groups;
  s->sums = s->offset + q->n_groups;
  const matrices *a = &p->plan->a;
  for (int64_t i = 0; i < rows; ++i) {
    float *const to = (q->is_int4 ? plain : s->x) + i * s->x_pitch;
    loops->load[a->dtype][COMPUTE_F32](to, p->a + i * a->row_stride, a->col_stride, k);
    memset(to + k, 0, (size_t)(s->x_pitch - k) * sizeof *to);
    for (int64_t g = 0; q->has_offset && g < q->n_groups; ++g) {
      float sum = 0;
      for (int64_t l = g * q->group; l < k && l < (g + 1) * q->group; l += REDUCE_BLOCK)
        sum += loops->sum_f32(to + l, i64_min(REDUCE_BLOCK, i64_min(k, (g + 1) * q->group) - l));
      s->x_sums[i * q->n_groups + g] = sum;
    }
    if (q->is_int4) few_rows->split_pairs(s->x + i * s->x_pitch, to, s->x_pitch);
  }
  return ST_OK;
}

static status run_few_rows(const product_part *p) {
  const weight_quant *q = quant_of(p);
  few_rows_scratch s;
  TRY(make_scratch(p, q, &s));
  const int64_t end = p->col + p->cols;
  for (int64_t col = p->col, n; col < end; col += n) {
    n = i64_min(CHUNK, end - col);
    for (int64_t j = col; j < col + n; ++j) {
      load_parameters(&q->scale, p->view[WEIGHT_QUANT_ANTIQUANT_SCALE], 0, q->n_groups, j, s.scale);
      if (q->has_offset)
        load_parameters(&q->offset, p->view[WEIGHT_QUANT_ANTIQUANT_OFFSET], 0, q->n_groups, j, s.offset);
      const int64_t at = j * q->col_stride;
      few_rows->quantised[q->is_int4]((int)p->rows, p->plan->a.cols, q->group, s.x, s.x_pitch,
                                      p->b + (q->is_int4 ? at / 2 : at), s.scale, q->has_offset ? s.offset : NULL,
                                      s.x_sums, q->n_groups, s.sums + (j - col), CHUNK);
    }
    product_finish(p, 0, p->rows, col, n, (char *)s.sums, CHUNK);
  }
  return ST_OK;
}

static const made_factor by_blocks = {.fetch = weight_quant_fetch},
                         by_either = {.fetch = weight_quant_fetch, .few_rows = run_few_rows};

/* ---- preparation ------------------------------------------------------------------------------------------------- */

static status check_parameter(const tensor *t, const char *name, int64_t n_groups, int64_t n, parameters *x) {
  char is[SHAPE_TEXT];
  TRY(op_expect_dtype(t, name, DTYPE_BIT(ACL_FLOAT16) | DTYPE_BIT(ACL_BF16) | DTYPE_BIT(ACL_FLOAT)));
  const view v = view_of(t);
  const int64_t last = v.rank ? v.dims[v.rank - 1] : 1, first = v.rank > 1 ? v.dims[0] : 1;
  const int64_t last_stride = v.rank && last > 1 ? v.strides[v.rank - 1] : 0,
                first_stride = v.rank > 1 ? v.strides[0] : 0;
  *x = (parameters){.dtype = v.dtype, .col_stride = last_stride};
  if (v.rank <= 2 && first == n_groups && (last == n || (n_groups == 1 && last == 1))) {
    x->group_stride = n_groups > 1 ? first_stride : 0;
    return ST_OK;
  }
  if (v.rank == 2 && n_groups == 1 && first == n && last == 1) {
    x->col_stride = first_stride;
    return ST_OK;
  }
  return OP_FAIL("%s has shape %s, expected [%jd, %jd]%s", name, shape_text(t->dims, t->rank, is), (intmax_t)n_groups,
                 (intmax_t)n, n_groups == 1 ? ", a vector of that or one element" : "");
}

static status check_absent(const tensor *t, const char *name) {
  EXPECT(!t, "%s is given, expected NULL: results are not quantised", name);
  return ST_OK;
}

static status check_bias(const tensor *bias, int64_t n, product_plan *p) {
  char text[SHAPE_TEXT];
  TRY(op_expect_dtype(bias, "biasOptional", DTYPE_BIT(ACL_FLOAT16) | DTYPE_BIT(ACL_BF16) | DTYPE_BIT(ACL_FLOAT)));
  EXPECT((bias->rank == 1 || (bias->rank == 2 && bias->dims[0] == 1)) && bias->dims[bias->rank - 1] == n,
         "biasOptional has shape %s, expected [%jd] or [1, %jd]", shape_text(bias->dims, bias->rank, text), (intmax_t)n,
         (intmax_t)n);
  p->has_self = true;
  p->beta = 1;
  p->view_self = WEIGHT_QUANT_BIAS;
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
  char text[SHAPE_TEXT];
  EXPECT(words->dims[along] == 1 || words->strides[along] == 1,
         "weight has shape %s and %jd words between those of dimension %d, expected none",
         shape_text(words->dims, 2, text), (intmax_t)words->strides[along] - 1, along);
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
  char is[SHAPE_TEXT], other[SHAPE_TEXT];
  EXPECT(x->dims[1] == weight->dims[0], "weight has shape %s and x %s, expected as many rows as x has columns",
         shape_text(weight->dims, 2, is), shape_text(x->dims, 2, other));
  const int64_t dims[] = {x->dims[0], weight->dims[1]}, size = a->antiquant_group_size;
  EXPECT(x->n > 0 && weight->n > 0, "x has shape %s and weight %s, expected elements in both",
         shape_text(x->dims, 2, is), shape_text(weight->dims, 2, other));
  EXPECT(size >= 0 && size % GROUP_GRAIN == 0 && size < x->dims[1],
         "antiquantGroupSize is %jd, expected 0 or a multiple of 32 less than x's columns, %jd", (intmax_t)size,
         (intmax_t)x->dims[1]);
  const tensor *scale = a->antiquant_scale, *offset = a->antiquant_offset;
  if (offset) TRY(op_expect_shape(offset, "antiquantOffsetOptional", scale->dims, scale->rank));
  *group = size ? size : x->dims[1];
  return op_expect_shape(a->y, "y", dims, 2);
}

status prepare_weight_quant(executor *e, const weight_quant_args *a) {
  const tensor *x = a->x, *weight = a->weight, *y = a->y;
  tensor unpacked;
  product_plan *p = PLAN(e, product_plan);
  weight_quant *q = e->heap = malloc(sizeof *q);
  if (!q) return fail(ST_NO_HOST_MEMORY, "no host memory for the plan of a product");
  const uint64_t halves = DTYPE_BIT(ACL_FLOAT16) | DTYPE_BIT(ACL_BF16);
  TRY(op_expect_dtype(x, "x", halves | DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_dtype(weight, "weight", DTYPE_BIT(ACL_INT8) | DTYPE_BIT(ACL_INT4) | DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_dtype(y, "y", halves | DTYPE_BIT(ACL_FLOAT)));
  TRY(check_absent(a->quant_scale, "quantScaleOptional"));
  TRY(check_absent(a->quant_offset, "quantOffsetOptional"));
  TRY(factors_check_rank(x, "x", 2));
  TRY(factors_check_rank(weight, "weight", 2));
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
  *p = (product_plan){.alpha = 1, .view_a = WEIGHT_QUANT_X, .view_b = WEIGHT_QUANT_WEIGHT, .view_out = WEIGHT_QUANT_Y};
  p->a = (matrices){.dtype = x->dtype, .rows = x->dims[0], .cols = k, .row_stride = vx.strides[0]};
  p->a.col_stride = vx.strides[1];
  p->b = (matrices){.dtype = ACL_INT8, .rows = k, .cols = n};
  p->out = (matrices){.dtype = y->dtype, .rows = x->dims[0], .cols = n, .row_stride = vy.strides[0]};
  p->out.col_stride = vy.strides[1];
  if (a->bias) TRY(check_bias(a->bias, n, p));
  const bool dense = q->row_stride == 1 && (!q->is_int4 || (!q->first_half && q->col_stride % 2 == 0));
  p->made_b = dense ? &by_either : &by_blocks;
  product_plan_finish(e);
  return ST_OK;
}
