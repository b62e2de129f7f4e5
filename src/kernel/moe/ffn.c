/* SPDX-License-Identifier: Apache-2.0 */
/* FFN: y = activation(x W1 + b1) W2 + b2, of all rows or with a pair of weights for each expert's rows. The first
 * product's results are floats in scratch; the activation rounds them to x's type, or quantises them, for the second
 * product. Of weights and quantisations it has those that CANN's documents name. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/families.h"
#include "kernel/moe/grouped.h"

#define DTYPES_WORDS (DTYPE_BIT(ACL_INT64) | DTYPE_BIT(ACL_UINT64))

/* The arguments of either product, which are its view. */
enum { X, WEIGHT, OUT, BIAS, SCALE, OFFSET, N_ARGUMENTS };

typedef struct {
  const char *name;
  int8_t number; /* of grouped_activation */
  bool gated;    /* the second half's activation times the first half, as in Ascend C's GeGLU, SwiGLU and ReGlu */
} ffn_activation;

static const ffn_activation activations[] = {{"fastgelu", 4, false}, {"gelu", 2, false}, {"relu", 1, false},
                                             {"silu", 5, false},     {"geglu", 2, true}, {"swiglu", 5, true},
                                             {"reglu", 1, true}};

typedef struct {
  grouped_product product[2];
  int operand[2][N_ARGUMENTS];
  group_form *forms;   /* of both, in e->heap */
  group_range *ranges; /* behind them; NULL: the tensor of tokens tells them */
  group_list_form list_form;
  int list_operand, quant_scale, quant_offset; /* operands */
  int64_t list_stride, rows, wide, depth;      /* columns of the first product, and rows of the second weight */
  elementwise_loop *activation;
  compute_value parameter;
  bool gated, quantises, has_quant_offset;
  int middle;                           /* dtype of what the second product reads */
  column_values scale;                  /* of the activation's results */
  int64_t scale_step, offset_step;      /* bytes from expert to expert */
  uint64_t sums, activated, run_ranges; /* in scratch */
} ffn_plan;

/* ---- the activation ---------------------------------------------------------------------------------------------- */

typedef struct {
  const ffn_plan *plan;
  void *const *view;
  const group_range *ranges;
  const char *sums;
  char *activated;
} ffn_job;

/* Multiplies by the scale of the columns from `col` on, adds the offset, and rounds to the range of int8. */
static void ffn_quantise(const ffn_job *j, int64_t group, int64_t col, float *x, int64_t n) {
  enum { MOST = 512 };
  float scale[MOST], offset = 0;
  const ffn_plan *p = j->plan;
  const char *const scales = (const char *)j->view[p->quant_scale] + group * p->scale_step + col * p->scale.step;
  loops->load[p->scale.dtype][COMPUTE_F32](scale, scales, p->scale.step, n);
  if (p->has_quant_offset)
    memcpy(&offset, (const char *)j->view[p->quant_offset] + group * p->offset_step, sizeof offset);
  for (int64_t i = 0; i < n; ++i) {
    const float y = rintf(x[i] * scale[i] + offset);
    x[i] = y < -128 ? -128 : y > 127 ? 127 : y; /* NaN stays; the store decides */
  }
}

static void ffn_activate(const void *job, int64_t begin, int64_t end) {
  enum { CHUNK = 512 };
  _Alignas(64) float x[CHUNK];
  const ffn_job *j = job;
  const ffn_plan *p = j->plan;
  const int64_t size = (int64_t)dtype_bytes(p->middle);
  store_loop *const store = loops->store[p->middle][COMPUTE_F32];
  int64_t group = 0;
  for (int64_t row = begin; row < end; ++row) {
    while (row >= j->ranges[group].begin + j->ranges[group].count) ++group;
    const float *const from = (const float *)(const void *)j->sums + row * p->wide;
    for (int64_t col = 0, n; col < p->depth; col += n) {
      n = i64_min(CHUNK, p->depth - col);
      const float *const in = from + col + (p->gated ? p->depth : 0);
      p->activation(x, (const void *const[]){in, in, in}, &p->parameter, n);
      for (int64_t i = 0; p->gated && i < n; ++i) x[i] *= from[col + i];
      if (p->quantises) ffn_quantise(j, group, col, x, n);
      store(j->activated + (row * p->depth + col) * size, size, x, n);
    }
  }
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static void *ffn_operand(void *const *view, int operand) { return operand < 0 ? NULL : view[operand]; }

static status run_ffn(const executor *e, void *const *view, void *scratch) {
  const ffn_plan *p = PLAN(e, ffn_plan);
  char *const at = scratch;
  group_range *ranges = p->ranges;
  if (!ranges) {
    ranges = (group_range *)(void *)(at + p->run_ranges);
    TRY(grouped_ranges(p->list_form, view[p->list_operand], p->list_stride, 0, p->product[0].n_groups, p->rows,
                       "expertTokensOptional", ST_DEVICE_EXCEPTION, ranges));
  }
  void *given[2][N_ARGUMENTS];
  for (int i = 0; i < 2; ++i)
    for (int k = 0; k < N_ARGUMENTS; ++k) given[i][k] = ffn_operand(view, p->operand[i][k]);
  given[0][OUT] = at + p->sums;
  given[1][X] = at + p->activated;
  TRY(grouped_run(&p->product[0], &p->forms[0], given[0], ranges, scratch));
  const group_range *last = &ranges[p->product[0].n_groups - 1];
  const ffn_job job = {p, view, ranges, at + p->sums, at + p->activated};
  /* relu and gelu take 0.2 to 0.5 ns per element, fastgelu 1 (one core of a Zen 4, beside the products' time) */
  rows_parallel(ffn_activate, &job, last->begin + last->count, 1, (uint64_t)(p->rows * p->depth) / 2);
  return grouped_run(&p->product[1], &p->forms[1], given[1], ranges, scratch);
}

/* ---- preparation ------------------------------------------------------------------------------------------------- */

/* The arguments of one of the products, and their names. */
typedef struct {
  const tensor *weight, *bias, *deq, *scale, *offset;
  const char *weight_name, *bias_name, *deq_name, *scale_name, *offset_name;
} ffn_side;

static status ffn_expect_absent(const tensor *t, const char *name) {
  EXPECT(!t, "%s is given, expected NULL with these types of x and the weights", name);
  return ST_OK;
}

static status ffn_bias(const ffn_side *s, bool sums, int64_t experts, grouped_product *p, group_form *f) {
  int64_t step;
  product_plan *g = &f->product;
  f->bias.dtype = COLUMN_VALUES_ABSENT;
  if (!s->bias) return ST_OK;
  TRY(grouped_columns(s->bias, s->bias_name,
                      sums ? DTYPE_BIT(ACL_INT32) : DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_FLOAT16), experts, g->b.cols,
                      false, &f->bias, &step));
  p->bias = (group_place){BIAS, false, step};
  if (sums) return ST_OK;
  g->has_self = true;
  g->beta = 1;
  g->self = (matrices){.dtype = f->bias.dtype, .rows = g->a.rows, .cols = g->b.cols, .col_stride = f->bias.step};
  return ST_OK;
}

/* Scales of int8 sums, or of quantised weights. */
static status ffn_scales(const ffn_side *s, int y, int64_t experts, const group_weight *w, grouped_product *p,
                         group_form *f) {
  int64_t step, parts;
  weight_quant *q = &f->weight;
  f->scale.dtype = f->offset.dtype = COLUMN_VALUES_ABSENT;
  if (p->kind == GROUPED_SUMS) {
    EXPECT(s->deq, "%s is NULL, expected the scales of sums of INT8", s->deq_name);
    TRY(grouped_columns(s->deq, s->deq_name, y == ACL_BF16 ? DTYPE_BIT(ACL_BF16) : DTYPES_WORDS | DTYPE_BIT(ACL_FLOAT),
                        experts, w->n, false, &f->scale, &step));
    p->scale = (group_place){SCALE, false, step};
    f->product.finish = scaled_sums_finish;
  } else {
    TRY(ffn_expect_absent(s->deq, s->deq_name));
  }
  if (p->kind != GROUPED_WEIGHTS) {
    TRY(ffn_expect_absent(s->scale, s->scale_name));
    return ffn_expect_absent(s->offset, s->offset_name);
  }
  EXPECT(s->scale, "%s is NULL, expected the scales of %s", s->scale_name, s->weight_name);
  TRY(grouped_parameters(s->scale, s->scale_name, DTYPE_BIT(y), experts, w->n, &q->scale, &q->n_groups, &step));
  p->scale = (group_place){SCALE, false, step};
  EXPECT(q->n_groups > 0 && w->k % q->n_groups == 0,
         "%s has %jd parts of the depth, expected a number that divides %jd", s->scale_name, (intmax_t)q->n_groups,
         (intmax_t)w->k);
  q->group = w->k / q->n_groups;
  q->has_offset = s->offset != NULL;
  if (!s->offset) return ST_OK;
  TRY(grouped_parameters(s->offset, s->offset_name, DTYPE_BIT(y), experts, w->n, &q->offset, &parts, &step));
  EXPECT(parts == q->n_groups, "%s has %jd parts of the depth, expected %jd as %s", s->offset_name, (intmax_t)parts,
         (intmax_t)q->n_groups, s->scale_name);
  p->offset = (group_place){OFFSET, false, step};
  return ST_OK;
}

/* Plans one of the products; its A and out are set. */
static status ffn_product(executor *e, const ffn_side *s, int weight_operand, int y, int64_t experts,
                          grouped_product *p, group_form *f) {
  group_weight w;
  const int x = f->product.a.dtype;
  const uint64_t quantised = DTYPE_BIT(ACL_INT8) | DTYPE_BIT(ACL_INT4) | DTYPE_BIT(ACL_INT32);
  TRY(op_expect_dtype(s->weight, s->weight_name, x == ACL_INT8 ? DTYPE_BIT(x) : DTYPE_BIT(x) | quantised));
  EXPECT(s->weight->rank == (experts ? 3 : 2) && (!experts || s->weight->dims[0] == experts),
         "%s has shape %s, expected %d dimensions %s expertTokens", s->weight_name, SHAPE_OF(s->weight),
         experts ? 3 : 2, experts ? "with" : "without");
  TRY(grouped_weight(e, weight_operand, s->weight, s->weight_name, f->product.a.cols, &w));
  p->kind = x == ACL_INT8 ? GROUPED_SUMS : w.dtype == x ? GROUPED_PLAIN : GROUPED_WEIGHTS;
  p->n_groups = experts ? experts : 1;
  p->n_forms = 1;
  p->x = (group_place){X, false, 0};
  p->weight = (group_place){WEIGHT, false, w.step};
  p->out = (group_place){OUT, false, 0};
  p->bias = p->scale = p->offset = (group_place){.operand = GROUPED_ABSENT};
  p->row_scale = GROUPED_ABSENT;
  TRY(ffn_scales(s, y, experts, &w, p, f));
  grouped_set_weight(&w, f);
  f->product.out.cols = w.n;
  return ffn_bias(s, p->kind == GROUPED_SUMS, experts, p, f);
}

static matrices dense_matrix(int dtype, int64_t rows, int64_t cols) {
  const int64_t size = (int64_t)dtype_bytes(dtype);
  return (matrices){.dtype = dtype, .rows = rows, .cols = cols, .row_stride = cols * size, .col_stride = size};
}

static status ffn_tokens(executor *e, const ffn_args *a, ffn_plan *p, int64_t experts, group_range *ranges) {
  p->list_form = a->tokens_index_flag ? GROUPS_BY_END : GROUPS_BY_SIZE;
  if (a->expert_tokens_tensor) {
    const tensor *t = a->expert_tokens_tensor;
    TRY(op_expect_dtype(t, "expertTokensOptional", DTYPE_BIT(ACL_INT64)));
    TRY(op_expect_shape(t, "expertTokensOptional", &experts, 1));
    p->list_operand = FFN_EXPERT_TOKENS_TENSOR;
    p->list_stride = view_of(t).strides[0];
    p->run_ranges = workspace_intermediate(e, (uint64_t)experts * sizeof *ranges);
    return ST_OK;
  }
  p->ranges = ranges;
  ranges[0] = (group_range){0, p->rows};
  if (!a->expert_tokens_ints) return ST_OK;
  TRY(grouped_ranges(p->list_form, (const char *)a->expert_tokens_ints->value, sizeof(int64_t), 0, experts, p->rows,
                     "expertTokens", ST_OP_INVALID, ranges));
  const group_range *last = &ranges[experts - 1];
  EXPECT(last->begin + last->count == p->rows, "expertTokens has %jd tokens, expected %jd, x's rows",
         (intmax_t)(last->begin + last->count), (intmax_t)p->rows);
  return ST_OK;
}

static status ffn_find_activation(const ffn_args *a, ffn_plan *p) {
  EXPECT(a->activation, "activation is NULL, expected %s", "a name");
  for (size_t i = 0; i < sizeof activations / sizeof *activations; ++i)
    if (!strcmp(a->activation, activations[i].name)) {
      p->activation = grouped_activation(activations[i].number, &p->parameter);
      p->gated = activations[i].gated;
      return ST_OK;
    }
  return OP_FAIL("activation is \"%s\", expected fastgelu, gelu, relu, silu, geglu, swiglu or reglu", a->activation);
}

/* The scale and offset that make int8 of the activation's results. */
static status ffn_quantisation(const ffn_args *a, ffn_plan *p, int64_t experts) {
  column_values offset;
  p->quantises = a->x->dtype == ACL_INT8;
  if (!p->quantises) {
    TRY(ffn_expect_absent(a->scale, a->name.scale));
    return ffn_expect_absent(a->offset, a->name.offset);
  }
  EXPECT(a->scale, "%s is NULL, expected the scale of the activation's results", a->name.scale);
  TRY(grouped_columns(a->scale, a->name.scale, DTYPE_BIT(ACL_FLOAT), experts, p->depth, true, &p->scale,
                      &p->scale_step));
  p->quant_scale = a->view.scale;
  p->has_quant_offset = a->offset != NULL;
  if (!a->offset) return ST_OK;
  p->quant_offset = a->view.offset;
  return grouped_columns(a->offset, a->name.offset, DTYPE_BIT(ACL_FLOAT), experts, 1, true, &offset, &p->offset_step);
}

static status ffn_expect_types(const ffn_args *a) {
  TRY(op_expect_dtype(a->x, "x", DTYPES_HALF | DTYPE_BIT(ACL_INT8)));
  TRY(op_expect_dtype(a->y, "y", a->x->dtype == ACL_INT8 ? DTYPES_HALF : DTYPE_BIT(a->x->dtype)));
  const bool plain_bf16 = a->x->dtype == ACL_BF16 && a->weight1->dtype == ACL_BF16;
  EXPECT(a->inner_precise >= 0 && a->inner_precise <= !plain_bf16, "innerPrecise is %jd, expected 0%s",
         (intmax_t)a->inner_precise, plain_bf16 ? " with BFLOAT16" : " or 1");
  return op_expect_same_shape(a->y, "y", a->x);
}

status prepare_ffn(executor *e, const ffn_args *a) {
  ffn_plan *p = PLAN(e, ffn_plan);
  const aclIntArray *list = a->expert_tokens_ints;
  if (list && !list->size) list = NULL;
  ffn_args call = *a;
  call.expert_tokens_ints = list;
  if (a->expert_tokens_tensor && !a->expert_tokens_tensor->n) call.expert_tokens_tensor = NULL;
  *p = (ffn_plan){.quant_scale = -1};
  const int64_t experts = list ? (int64_t)list->size : call.expert_tokens_tensor ? call.expert_tokens_tensor->n : 0;
  const ffn_side sides[] = {{a->weight1, a->bias1, a->deq_scale1, a->antiquant_scale1, a->antiquant_offset1, "weight1",
                             a->name.bias1, a->name.deq_scale1, a->name.antiquant_scale1, a->name.antiquant_offset1},
                            {a->weight2, a->bias2, a->deq_scale2, a->antiquant_scale2, a->antiquant_offset2, "weight2",
                             a->name.bias2, a->name.deq_scale2, a->name.antiquant_scale2, a->name.antiquant_offset2}};
  TRY(ffn_expect_types(a));
  TRY(ffn_find_activation(a, p));
  EXPECT(!p->gated || (!experts && a->weight1->dtype == ACL_FLOAT16),
         "activation is \"%s\", expected one of fastgelu, gelu, relu and silu %s", a->activation,
         experts ? "with expertTokens" : "as the weights are not FLOAT16");
  HEAP_PLAN(group_form, f, e, 2 * sizeof *f + (size_t)(experts + 1) * sizeof(group_range));
  p->forms = f;
  f[0].product.alpha = f[1].product.alpha = 1;
  TRY(grouped_rows(a->x, "x", &f[0].product.a));
  TRY(grouped_rows(a->y, "y", &f[1].product.out));
  p->rows = f[0].product.a.rows;
  TRY(ffn_tokens(e, &call, p, experts, (group_range *)(void *)(f + 2)));
  const int y = a->y->dtype;
  f[0].product.out = dense_matrix(ACL_FLOAT, p->rows, 0);
  TRY(ffn_product(e, &sides[0], FFN_WEIGHT1, y, experts, &p->product[0], &f[0]));
  p->wide = f[0].product.out.cols;
  f[0].product.out.row_stride = p->wide * (int64_t)sizeof(float);
  EXPECT(!p->gated || p->wide % 2 == 0, "weight1 has %jd columns, expected an even number with %s", (intmax_t)p->wide,
         a->activation);
  p->depth = p->gated ? p->wide / 2 : p->wide;
  p->middle = a->x->dtype;
  f[1].product.a = dense_matrix(p->middle, p->rows, p->depth);
  TRY(ffn_product(e, &sides[1], FFN_WEIGHT2, y, experts, &p->product[1], &f[1]));
  EXPECT(f[1].product.out.cols == a->x->dims[a->x->rank - 1], "weight2 has %jd columns, expected %jd as x",
         (intmax_t)f[1].product.out.cols, (intmax_t)a->x->dims[a->x->rank - 1]);
  TRY(ffn_quantisation(a, p, experts));
  const int operands[2][N_ARGUMENTS] = {
      {FFN_X, FFN_WEIGHT1, -1, a->view.bias1, a->deq_scale1 ? a->view.deq_scale1 : a->view.antiquant_scale1,
       a->view.antiquant_offset1},
      {-1, FFN_WEIGHT2, a->view.y, a->view.bias2, a->deq_scale2 ? a->view.deq_scale2 : a->view.antiquant_scale2,
       a->view.antiquant_offset2}};
  memcpy(p->operand, operands, sizeof operands);
  p->sums = workspace_intermediate(e, (uint64_t)(p->rows * p->wide) * sizeof(float));
  p->activated = workspace_intermediate(e, (uint64_t)(p->rows * p->depth) * dtype_bytes(p->middle));
  for (int i = 0; i < 2; ++i) grouped_plan(e, &p->product[i], &f[i]);
  e->run = run_ffn;
  return ST_OK;
}
