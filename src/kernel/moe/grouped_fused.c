/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped products with a step around them:
 *
 *   GroupedMatmulAdd                       adds to its result
 *   GroupedMatmulSwigluQuant               int8 products are dequantised, activated and quantised again
 *   GroupedMatmulFinalizeRoutingWeightNz   rows of such products are added to those of the tokens
 *   GroupedMatmulFinalizeRoutingV2         likewise, and the weights may be int4
 *   QuantGroupedMatmulDequant              x is quantised before; QuantMatmulDequant is the same for one group */
#include <math.h>
#include <string.h>

#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/moe/grouped.h"
#include "kernel/product/blocked_weight.h"
#include "kernel/quant/nibbles.h"
#include "kernel/quant/row.h"

/* The groups of a call, whose list is a tensor. */
typedef struct {
  grouped_product product;
  group_form *form; /* in e->heap */
  group_list_form list_form;
  int64_t list_stride, total;
  const char *list_name;
  uint64_t ranges;        /* in scratch */
  blocked_weight blocked; /* the weight, if it is blocked */
} grouped_ends;

/* Checks the list of ends, which is NULL for one group, and starts the plan in *g and e->heap. */
static status ends_begin(executor *e, grouped_ends *g, const tensor *list, const char *name, int64_t n_groups,
                         int64_t total) {
  if (list) {
    TRY(op_expect_dtype(list, name, DTYPE_BIT(ACL_INT64)));
    TRY(op_expect_shape(list, name, &n_groups, 1));
  }
  HEAP_PLAN(group_form, form, e, sizeof *form);
  *g = (grouped_ends){.form = form,
                      .list_stride = list ? view_of(list).strides[0] : 0,
                      .total = total,
                      .list_name = name,
                      .list_form = GROUPS_BY_END};
  *form = (group_form){.product = {.alpha = 1}};
  g->product.n_groups = n_groups;
  g->product.n_forms = 1;
  g->product.bias = g->product.scale = g->product.offset = (group_place){.operand = GROUPED_ABSENT};
  g->product.row_scale = GROUPED_ABSENT;
  g->ranges = workspace_intermediate(e, (uint64_t)n_groups * sizeof(group_range));
  return ST_OK;
}

static status ends_read(const grouped_ends *g, const void *list, void *scratch, group_range **ranges) {
  *ranges = (group_range *)(void *)((char *)scratch + g->ranges);
  return grouped_ranges(g->list_form, list, g->list_stride, 0, g->product.n_groups, g->total, g->list_name,
                        ST_DEVICE_EXCEPTION, *ranges);
}

/* ---- GroupedMatmulAdd: y[g] += x[rows of g]^T @ weight[rows of g] ------------------------------------------------ */

static status run_grouped_add(const executor *e, void *const *view, void *scratch) {
  const grouped_ends *g = PLAN(e, grouped_ends);
  group_range *ranges;
  TRY(ends_read(g, view[GROUPED_ADD_GROUP_LIST], scratch, &ranges));
  return grouped_run(&g->product, g->form, view, ranges, scratch);
}

status prepare_grouped_add(executor *e, const grouped_add_args *a) {
  const tensor *x = a->x, *w = a->weight, *y = a->y;
  grouped_ends *g = PLAN(e, grouped_ends);
  matrices columns;
  TRY(op_expect_dtype(x, "x", DTYPES_HALF));
  TRY(op_expect_rank(x, "x", 2, 2));
  TRY(op_expect_dtype(w, "weight", DTYPE_BIT(x->dtype)));
  EXPECT(w->rank == 2 && w->dims[0] == x->dims[0], "weight has shape %s, expected [%jd, columns]", SHAPE_OF(w),
         (intmax_t)x->dims[0]);
  TRY(op_expect_dtype(y, "yRef", DTYPE_BIT(ACL_FLOAT)));
  EXPECT(a->transpose_x, "transposeX is false, expected true");
  EXPECT(!a->transpose_weight, "transposeWeight is true, expected false");
  EXPECT(a->group_type == 2, "groupType is %jd, expected 2", (intmax_t)a->group_type);
  EXPECT(a->group_list_type == 0 || a->group_list_type == 1, "group_list_type is %jd, expected 0 (ends) or 1 (sizes)",
         (intmax_t)a->group_list_type);
  EXPECT(a->group_list->rank == 1 && a->group_list->n > 0, "groupList has shape %s, expected 1 group or more",
         SHAPE_OF(a->group_list));
  const int64_t n = a->group_list->n, rows = x->dims[1], cols = w->dims[1];
  if (y->rank == 3)
    TRY(op_expect_shape(y, "yRef", (const int64_t[]){n, rows, cols}, 3));
  else
    TRY(op_expect_shape(y, "yRef", (const int64_t[]){n * rows, cols}, 2));
  TRY(ends_begin(e, g, a->group_list, "groupList", n, x->dims[0]));
  if (a->group_list_type) g->list_form = GROUPS_BY_SIZE;
  product_plan *p = &g->form->product;
  TRY(grouped_rows(x, "x", &columns));
  p->a = (matrices){.dtype = x->dtype,
                    .rows = columns.cols,
                    .cols = columns.rows,
                    .row_stride = columns.col_stride,
                    .col_stride = columns.row_stride};
  TRY(grouped_rows(w, "weight", &p->b));
  TRY(grouped_rows(y, "yRef", &p->out));
  p->out.rows = rows;
  p->self = p->out;
  p->has_self = true;
  p->beta = 1;
  g->product.kind = GROUPED_PLAIN;
  g->product.along_depth = true;
  g->product.x = (group_place){GROUPED_ADD_X, false, 0};
  g->product.weight = (group_place){GROUPED_ADD_WEIGHT, false, 0};
  g->product.out = (group_place){GROUPED_ADD_Y, false, rows * p->out.row_stride};
  g->product.bias = g->product.out;
  grouped_plan(e, &g->product, g->form);
  e->run = run_grouped_add;
  return ST_OK;
}

/* ---- int8 products into floats ----------------------------------------------------------------------------------- */

enum { X, WEIGHT, OUT, SCALE, ROW_SCALE, BIAS, N_VIEWS, INT8_MOST = 127, ABSENT = -1 }; /* the views of the products */

/* The arguments of such products. row_scale may be NULL. */
typedef struct {
  const tensor *x, *weight, *scale, *row_scale;
  const char *weight_name, *scale_name, *row_scale_name;
  int weight_operand;
} int8_arguments;

static status int8_expect_factors(const int8_arguments *s, uint64_t weights) {
  TRY(op_expect_dtype(s->x, "x", DTYPE_BIT(ACL_INT8)));
  TRY(op_expect_rank(s->x, "x", 2, 2));
  TRY(op_expect_dtype(s->weight, s->weight_name, weights));
  TRY(op_expect_rank(s->weight, s->weight_name, 3, 3));
  EXPECT(s->weight->n > 0, "%s has shape %s, expected elements", s->weight_name, SHAPE_OF(s->weight));
  return ST_OK;
}

/* Completes the plan of the groups; *sums: where the products will be in scratch. */
static status int8_plan(executor *e, grouped_ends *g, const int8_arguments *s, uint64_t *sums) {
  group_form *f = g->form;
  group_weight weight;
  int64_t step;
  TRY(grouped_weight(e, s->weight_operand, s->weight, s->weight_name, s->x->dims[1], &weight));
  TRY(blocked_weight_plan(e, s->weight_operand, s->weight, s->weight_name, &g->blocked));
  TRY(grouped_rows(s->x, "x", &f->product.a));
  const int64_t size = sizeof(float), rows = s->x->dims[0];
  f->product.out =
      (matrices){.dtype = ACL_FLOAT, .rows = rows, .cols = weight.n, .row_stride = weight.n * size, .col_stride = size};
  f->product.finish = scaled_sums_finish;
  f->bias.dtype = f->offset.dtype = COLUMN_VALUES_ABSENT;
  grouped_set_weight(&weight, f);
  TRY(grouped_columns(s->scale, s->scale_name, DTYPES_FLOAT_TO_32, weight.n_groups, weight.n, false, &f->scale, &step));
  g->product.kind = GROUPED_SUMS;
  g->product.x = (group_place){X, false, 0};
  g->product.weight = (group_place){WEIGHT, false, weight.step};
  g->product.out = (group_place){OUT, false, 0};
  g->product.scale = (group_place){SCALE, false, step};
  if (s->row_scale) {
    TRY(op_expect_dtype(s->row_scale, s->row_scale_name, DTYPE_BIT(ACL_FLOAT)));
    TRY(op_expect_shape(s->row_scale, s->row_scale_name, &rows, 1));
    g->product.row_scale = ROW_SCALE;
    g->product.row_scale_step = view_of(s->row_scale).strides[0];
  }
  *sums = workspace_intermediate(e, (uint64_t)(rows * weight.n) * sizeof(float));
  grouped_plan(e, &g->product, f);
  return ST_OK;
}

/* ---- GroupedMatmulSwigluQuant, V2, WeightNZ and WeightNzV2 ------------------------------------------------------- */

typedef struct {
  grouped_ends groups;
  int64_t n, to_row, to_column, scale_step;             /* n: columns of the result; strides in bytes */
  uint64_t sums;                                        /* in scratch: the dequantised products */
  int8_t x, weight, scale, x_scale, list, to, to_scale; /* operands */
} grouped_swiglu_plan;

/* The arguments of both versions. */
typedef struct {
  int8_arguments factors;
  const tensor *list, *output, *output_scale;
  bool by_size;
} grouped_swiglu_call;

typedef struct {
  const grouped_swiglu_plan *plan;
  const float *sums;
  char *to, *scales;
  status *result;
} grouped_swiglu_job;

static void grouped_swiglu_rows(const void *arg, int64_t begin, int64_t end) {
  const grouped_swiglu_job *j = arg;
  const int64_t n = j->plan->n;
  float *const y = (float *)(void *)scratch_take(2 * (size_t)n * sizeof *y);
  if (!y) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  for (; begin < end; ++begin) {
    quant_row_swiglu(y, j->sums + begin * 2 * n, true, n);
    *(float *)(void *)(j->scales + begin * j->plan->scale_step) = quant_row_dynamic(y + n, y, INT8_MOST, n);
    loops->store[ACL_INT8][COMPUTE_F32](j->to + begin * j->plan->to_row, j->plan->to_column, y + n, n);
  }
}

static status run_grouped_swiglu(const executor *e, void *const *view, void *scratch) {
  const grouped_swiglu_plan *p = PLAN(e, grouped_swiglu_plan);
  const grouped_ends *g = &p->groups;
  char *const sums = (char *)scratch + p->sums;
  void *const weight = blocked_weight_read(&g->blocked, view[p->weight], scratch);
  void *const given[N_VIEWS] = {view[p->x], weight, sums, view[p->scale], view[p->x_scale]};
  group_range *ranges;
  TRY(ends_read(g, view[p->list], scratch, &ranges));
  TRY(grouped_run(&g->product, g->form, given, ranges, scratch));
  const group_range *last = &ranges[g->product.n_groups - 1];
  status result = ST_OK;
  const grouped_swiglu_job job = {p, (const float *)(const void *)sums, view[p->to], view[p->to_scale], &result};
  const int64_t rows = last->begin + last->count;
  if (rows) rows_parallel(grouped_swiglu_rows, &job, rows, 1, (uint64_t)(rows * p->n));
  return result;
}

static status grouped_swiglu_outputs(grouped_swiglu_plan *p, const grouped_swiglu_call *c, int64_t rows) {
  const tensor *out = c->output, *scale = c->output_scale;
  TRY(op_expect_dtype(out, "output", DTYPE_BIT(ACL_INT8)));
  TRY(op_expect_shape(out, "output", (const int64_t[]){rows, p->n}, 2));
  TRY(op_expect_dtype(scale, "outputScale", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_shape(scale, "outputScale", &rows, 1));
  const view to = view_of(out);
  p->to_row = to.strides[0], p->to_column = to.strides[1];
  p->scale_step = view_of(scale).strides[0];
  return ST_OK;
}

/* Completes the plan, whose operands are set. */
static status grouped_swiglu_prepare(executor *e, grouped_swiglu_plan *p, const grouped_swiglu_call *c) {
  const int8_arguments *s = &c->factors;
  TRY(int8_expect_factors(s, DTYPE_BIT(ACL_INT8)));
  EXPECT(s->weight->dims[2] % 2 == 0, "weight has shape %s, expected an even number of columns", SHAPE_OF(s->weight));
  p->n = s->weight->dims[2] / 2;
  TRY(grouped_swiglu_outputs(p, c, s->x->dims[0]));
  TRY(ends_begin(e, &p->groups, c->list, "groupList", s->weight->dims[0], s->x->dims[0]));
  if (c->by_size) p->groups.list_form = GROUPS_BY_SIZE;
  TRY(int8_plan(e, &p->groups, s, &p->sums));
  e->run = run_grouped_swiglu;
  return ST_OK;
}

status prepare_grouped_swiglu(executor *e, const grouped_swiglu_args *a) {
  const grouped_swiglu_call c = {.factors = {a->x, a->weight, a->weight_scale, a->x_scale, "weight", "weightScale",
                                             "xScale", GROUPED_SWIGLU_WEIGHT},
                                 .list = a->group_list,
                                 .output = a->output,
                                 .output_scale = a->output_scale};
  grouped_swiglu_plan *p = PLAN(e, grouped_swiglu_plan);
  *p = (grouped_swiglu_plan){.x = GROUPED_SWIGLU_X,
                             .weight = GROUPED_SWIGLU_WEIGHT,
                             .scale = GROUPED_SWIGLU_WEIGHT_SCALE,
                             .x_scale = GROUPED_SWIGLU_X_SCALE,
                             .list = GROUPED_SWIGLU_GROUP_LIST,
                             .to = GROUPED_SWIGLU_OUTPUT,
                             .to_scale = GROUPED_SWIGLU_OUTPUT_SCALE};
  /* outputOffset is reserved: torch_npu passes a tensor, which is not written. */
  EXPECT(!a->bias && !a->offset, "%s is a tensor, expected NULL", a->bias ? "bias" : "offset");
  return grouped_swiglu_prepare(e, p, &c);
}

/* Only int8: the assist matrix belongs to weights of int4, smooth scales to x of int4, and other modes to them, or to
 * newer processors. dequantDtype has no meaning for these types. */
status prepare_grouped_swiglu_v2(executor *e, const grouped_swiglu_v2_args *a) {
  EXPECT(a->weight->size == 1 && a->weight_scale->size == 1,
         "weight and weightScale have %ju and %ju tensors, expected 1", (uintmax_t)a->weight->size,
         (uintmax_t)a->weight_scale->size);
  const grouped_swiglu_call c = {.factors = {a->x, a->weight->value[0], a->weight_scale->value[0], a->x_scale, "weight",
                                             "weightScale", "xScale", GROUPED_SWIGLU_V2_WEIGHT},
                                 .list = a->group_list,
                                 .output = a->output,
                                 .output_scale = a->output_scale,
                                 .by_size = a->group_list_type == 1};
  grouped_swiglu_plan *p = PLAN(e, grouped_swiglu_plan);
  *p = (grouped_swiglu_plan){.x = GROUPED_SWIGLU_V2_X,
                             .weight = GROUPED_SWIGLU_V2_WEIGHT,
                             .scale = (int8_t)a->view.weight_scale,
                             .x_scale = (int8_t)a->view.x_scale,
                             .list = (int8_t)a->view.group_list,
                             .to = (int8_t)a->view.output,
                             .to_scale = (int8_t)a->view.output_scale};
  const bool assisted = a->assist && a->assist->size && a->assist->value[0]->n;
  EXPECT(!assisted && !a->bias && !a->smooth_scale, "%s is given, expected NULL beside weights of INT8",
         assisted  ? a->name.assist
         : a->bias ? "bias"
                   : "smoothScale");
  EXPECT(a->dequant_mode == 0, "dequantMode is %jd, expected 0 (by row and column)", (intmax_t)a->dequant_mode);
  EXPECT(a->quant_mode == 0, "quantMode is %jd, expected 0 (by row)", (intmax_t)a->quant_mode);
  EXPECT(a->group_list_type == 0 || a->group_list_type == 1, "groupListType is %jd, expected 0 (ends) or 1 (sizes)",
         (intmax_t)a->group_list_type);
  return grouped_swiglu_prepare(e, p, &c);
}

/* ---- GroupedMatmulFinalizeRoutingWeightNz and WeightNzV2, GroupedMatmulFinalizeRoutingV2 and V3 ------------------ */

enum { FINALIZE_TILE = 128 };

typedef struct {
  grouped_ends groups;
  int64_t n_tokens, width, to_row;                            /* strides in bytes */
  int64_t n_shared, shared_offset, shared_row, shared_column; /* the rows of sharedInput, and where they begin in y */
  int64_t logit_step, index_step;
  const char *index_name; /* of the rows' tokens, for messages */
  float shared_weight;
  bool has_shared, has_logit, has_row_scale;
  int8_t row_scale, list, shared, logit, row_index, to; /* operands */
  load_loop *load_shared, *load_index;
  weight_parameters offset; /* of weights of int4: the sums of x, of a part of the depth, times it are added */
  int64_t offset_step, offset_parts, x_row, x_column;
  uint64_t sums, index; /* in scratch */
} finalize_plan;

typedef struct {
  const finalize_plan *plan;
  const float *sums;
  const int64_t *index; /* the token of each row */
  const char *shared, *logit;
  char *to;
  int64_t rows;
} finalize_job;

/* Computes tiles of columns: first the shared part of all tokens, then the rows in their order. */
static void finalize_tiles(const void *arg, int64_t begin, int64_t end) {
  const finalize_job *j = arg;
  const finalize_plan *p = j->plan;
  for (; begin < end; ++begin) {
    const int64_t column = begin * FINALIZE_TILE, n = i64_min(FINALIZE_TILE, p->width - column);
    for (int64_t token = 0; token < p->n_tokens; ++token) {
      float *const y = (float *)(void *)(j->to + token * p->to_row) + column;
      const int64_t row = token - p->shared_offset;
      memset(y, 0, (size_t)n * sizeof *y);
      if (!p->has_shared || row < 0 || row >= p->n_shared) continue;
      p->load_shared(y, j->shared + row * p->shared_row + column * p->shared_column, p->shared_column, n);
      for (int64_t i = 0; i < n; ++i) y[i] *= p->shared_weight;
    }
    for (int64_t row = 0; row < j->rows; ++row) {
      const float *const x = j->sums + row * p->width + column;
      float *const y = (float *)(void *)(j->to + j->index[row] * p->to_row) + column, by = 1;
      if (p->has_logit) memcpy(&by, j->logit + row * p->logit_step, sizeof by);
      for (int64_t i = 0; i < n; ++i) y[i] += by * x[i];
    }
  }
}

typedef struct {
  const finalize_plan *plan;
  void *const *view;
  const group_range *range;
  float *sums;
} finalize_offsets_job;

/* Adds what the offset of a group's weights makes of a row of x: for each part of the depth, its sum * the offset. */
static void finalize_offset_row(const finalize_offsets_job *j, int64_t group, int64_t row, float *to) {
  const finalize_plan *p = j->plan;
  const int64_t depth = p->groups.form->weight.group;
  const int8_t *x = (const int8_t *)j->view[GROUPED_FINALIZE_X] + row * p->x_row;
  const char *from = (const char *)j->view[GROUPED_FINALIZE_OFFSET] + group * p->offset_step;
  float offset[FINALIZE_TILE], scale;
  memcpy(&scale, (const char *)j->view[p->row_scale] + row * p->groups.product.row_scale_step, sizeof scale);
  for (int64_t part = 0; part < p->offset_parts; ++part, from += p->offset.group_stride, x += depth * p->x_column) {
    int64_t sum = 0;
    for (int64_t i = 0; i < depth; ++i) sum += x[i * p->x_column];
    const float by = scale * (float)sum;
    for (int64_t column = 0, n; column < p->width; column += n) {
      n = i64_min(FINALIZE_TILE, p->width - column);
      loops->load[ACL_FLOAT][COMPUTE_F32](offset, from + column * p->offset.col_stride, p->offset.col_stride, n);
      for (int64_t i = 0; i < n; ++i) to[column + i] += by * offset[i];
    }
  }
}

static void finalize_offsets(const void *arg, int64_t begin, int64_t end) {
  const finalize_offsets_job *j = arg;
  for (; begin < end; ++begin) {
    const group_range r = j->range[begin];
    for (int64_t row = r.begin; row < r.begin + r.count; ++row)
      finalize_offset_row(j, begin, row, j->sums + row * j->plan->width);
  }
}

static status run_finalize(const executor *e, void *const *view, void *scratch) {
  const finalize_plan *p = PLAN(e, finalize_plan);
  const grouped_ends *g = &p->groups;
  float *const sums = (float *)(void *)((char *)scratch + p->sums);
  int64_t *const index = (int64_t *)(void *)((char *)scratch + p->index);
  void *const weight = blocked_weight_read(&g->blocked, view[GROUPED_FINALIZE_W], scratch);
  void *const given[N_VIEWS] = {view[GROUPED_FINALIZE_X],
                                weight,
                                sums,
                                view[GROUPED_FINALIZE_SCALE],
                                p->has_row_scale ? view[p->row_scale] : NULL,
                                view[GROUPED_FINALIZE_BIAS]};
  group_range *ranges;
  TRY(ends_read(g, view[p->list], scratch, &ranges));
  const group_range *last = &ranges[g->product.n_groups - 1];
  const int64_t rows = last->begin + last->count;
  for (int64_t i = 0; i < rows; ++i) {
    p->load_index(&index[i], (const char *)view[p->row_index] + i * p->index_step, 0, 1);
    if (index[i] < 0 || index[i] >= p->n_tokens) return places_fail(p->index_name, i, index[i], 0, p->n_tokens - 1);
  }
  TRY(grouped_run(&g->product, g->form, given, ranges, scratch));
  const finalize_offsets_job offsets = {p, view, ranges, sums};
  if (p->offset_parts)
    rows_parallel(finalize_offsets, &offsets, g->product.n_groups, 1, (uint64_t)(rows * p->width) / 4);
  const finalize_job job = {.plan = p,
                            .sums = sums,
                            .index = index,
                            .shared = p->has_shared ? view[p->shared] : NULL,
                            .logit = p->has_logit ? view[p->logit] : NULL,
                            .to = view[p->to],
                            .rows = rows};
  rows_parallel(finalize_tiles, &job, (p->width + FINALIZE_TILE - 1) / FINALIZE_TILE, 1,
                (uint64_t)((rows + p->n_tokens) * p->width) / 4);
  return ST_OK;
}

/* Checks what is added: the shared input, the weights of the rows, their tokens, and y. */
static status finalize_operands(finalize_plan *p, const grouped_finalize_args *a) {
  const tensor *y = a->y, *shared = a->shared_input, *logit = a->logit, *index = a->row_index;
  TRY(op_expect_dtype(y, a->name.y, DTYPE_BIT(ACL_FLOAT)));
  EXPECT(y->rank == 2 && y->dims[1] == p->width, "%s has shape %s, expected [tokens, %jd]", a->name.y, SHAPE_OF(y),
         (intmax_t)p->width);
  EXPECT(p->width == 1 || y->strides[1] == 1, "%s has gaps in its rows, expected none", a->name.y);
  p->n_tokens = y->dims[0];
  p->to_row = view_of(y).strides[0];
  EXPECT(index, "%s is NULL, expected the tokens of the rows of x", a->name.row_index);
  TRY(op_expect_dtype(index, a->name.row_index, DTYPES_INDEX));
  TRY(op_expect_shape(index, a->name.row_index, a->x->dims, 1));
  p->load_index = loops->load[index->dtype][COMPUTE_I64];
  p->index_step = view_of(index).strides[0];
  if (logit) {
    TRY(op_expect_dtype(logit, a->name.logit, DTYPE_BIT(ACL_FLOAT)));
    TRY(op_expect_shape(logit, a->name.logit, a->x->dims, 1));
    p->has_logit = true;
    p->logit_step = view_of(logit).strides[0];
  }
  if (!shared) return ST_OK;
  TRY(op_expect_dtype(shared, a->name.shared_input, DTYPES_FLOAT_TO_32));
  EXPECT(shared->rank == 2 && shared->dims[1] == p->width, "%s has shape %s, expected [rows, %jd]",
         a->name.shared_input, SHAPE_OF(shared), (intmax_t)p->width);
  p->has_shared = true;
  p->n_shared = shared->dims[0];
  p->shared_offset = a->shared_input_offset;
  EXPECT(p->shared_offset >= 0 && p->shared_offset + p->n_shared <= p->n_tokens,
         "sharedInputOffset is %jd, expected 0 to %jd", (intmax_t)p->shared_offset,
         (intmax_t)(p->n_tokens - p->n_shared));
  const view v = view_of(shared);
  p->shared_row = v.strides[0], p->shared_column = v.strides[1];
  p->shared_weight = (float)a->shared_input_weight;
  p->load_shared = loops->load[shared->dtype][COMPUTE_F32];
  return ST_OK;
}

/* The bias, which makes up for the 8 that products of x lack, the offset, and the scales of rows. */
static status finalize_nibbles_rest(finalize_plan *p, const grouped_finalize_args *a, const group_weight *weight) {
  grouped_product *g = &p->groups.product;
  group_form *f = p->groups.form;
  int64_t step;
  EXPECT(a->bias, "%s is NULL, expected 8 * x2 * %s, summed", a->name.bias, a->name.scale);
  TRY(grouped_columns(a->bias, a->name.bias, DTYPE_BIT(ACL_FLOAT), weight->n_groups, weight->n, false, &f->bias,
                      &step));
  g->bias = (group_place){BIAS, false, step};
  EXPECT(a->pertoken_scale, "pertokenScaleOptional is NULL, expected the scales of x1");
  TRY(op_expect_dtype(a->pertoken_scale, "pertokenScaleOptional", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_shape(a->pertoken_scale, "pertokenScaleOptional", a->x->dims, 1));
  g->row_scale = ROW_SCALE;
  g->row_scale_step = view_of(a->pertoken_scale).strides[0];
  if (!a->offset) return ST_OK;
  TRY(grouped_parameters(a->offset, "offsetOptional", DTYPE_BIT(ACL_FLOAT), weight->n_groups, weight->n, &p->offset,
                         &p->offset_parts, &p->offset_step));
  EXPECT(p->offset_parts == f->weight.n_groups, "offsetOptional has %jd parts of the depth, expected %jd",
         (intmax_t)p->offset_parts, (intmax_t)f->weight.n_groups);
  return ST_OK;
}

/* Completes the plan of the groups for x of int8 and weights of int4: (products of x less 8 and the weights * scale +
 * bias + the sums of x * offset) * row scale. */
static status finalize_nibbles(executor *e, finalize_plan *p, const grouped_finalize_args *a) {
  grouped_product *g = &p->groups.product;
  group_form *f = p->groups.form;
  group_weight weight;
  int64_t step, parts;
  const int64_t size = sizeof(float), rows = a->x->dims[0], k = a->x->dims[1];
  TRY(grouped_weight(e, GROUPED_FINALIZE_W, a->w, a->name.w, k, &weight));
  EXPECT(weight.n == p->width, "%s has shape %s, expected [groups, %jd, columns]", a->name.w, SHAPE_OF(a->w),
         (intmax_t)k);
  TRY(grouped_parameters(a->scale, a->name.scale, DTYPE_BIT(ACL_INT64) | DTYPE_BIT(ACL_UINT64), weight.n_groups,
                         weight.n, &g->words, &parts, &step));
  EXPECT(parts > 0 && k % parts == 0, "%s has %jd parts of the depth, expected a number that divides %jd",
         a->name.scale, (intmax_t)parts, (intmax_t)k);
  g->scale = (group_place){SCALE, false, step};
  f->weight = (weight_quant){.n_groups = parts, .group = k / parts};
  f->weight.scale = (weight_parameters){.dtype = ACL_FLOAT, .group_stride = weight.n * size, .col_stride = size};
  TRY(finalize_nibbles_rest(p, a, &weight));
  g->kind = GROUPED_NIBBLES;
  TRY(grouped_rows(a->x, a->name.x, &g->x_given));
  p->x_row = g->x_given.row_stride, p->x_column = g->x_given.col_stride;
  f->product.a = (matrices){.dtype = ACL_FLOAT, .rows = rows, .cols = k, .row_stride = k * size, .col_stride = size};
  f->product.out =
      (matrices){.dtype = ACL_FLOAT, .rows = rows, .cols = weight.n, .row_stride = weight.n * size, .col_stride = size};
  f->product.finish = grouped_finish_nibbles;
  grouped_set_weight(&weight, f);
  g->x = (group_place){X, false, 0};
  g->weight = (group_place){WEIGHT, false, weight.step};
  g->out = (group_place){OUT, false, 0};
  p->sums = workspace_intermediate(e, (uint64_t)(rows * weight.n) * sizeof(float));
  grouped_plan(e, g, f);
  return ST_OK;
}

static status finalize_expect_attributes(const grouped_finalize_args *a, bool is_int4) {
  EXPECT(a->scale && a->group_list, "%s is NULL, expected a tensor", a->scale ? a->name.group_list : a->name.scale);
  EXPECT(is_int4 || (!a->bias && !a->offset), "%s is a tensor, expected NULL",
         a->bias ? a->name.bias : "offsetOptional");
  EXPECT(!a->antiquant_scale && !a->antiquant_offset, "%s is a tensor, expected NULL",
         a->antiquant_scale ? "antiquantScaleOptional" : "antiquantOffsetOptional");
  EXPECT(a->dtype == 0, "dtype is %jd, expected 0", (intmax_t)a->dtype);
  EXPECT(!a->transpose_x && !a->transpose_w, "%s is true, expected false",
         a->transpose_x ? a->name.transpose_x : a->name.transpose_w);
  EXPECT(a->group_list_type == 0 || a->group_list_type == 1, "groupListType is %jd, expected 0 or 1",
         (intmax_t)a->group_list_type);
  return ST_OK;
}

status prepare_grouped_finalize(executor *e, const grouped_finalize_args *a) {
  const int8_arguments s = {
      a->x, a->w, a->scale, a->pertoken_scale, a->name.w, a->name.scale, "pertokenScaleOptional", GROUPED_FINALIZE_W};
  const bool is_int4 = e->op->variant == GROUPED_FINALIZE_V2 && (a->w->dtype == ACL_INT4 || a->w->dtype == ACL_INT32);
  finalize_plan *p = PLAN(e, finalize_plan);
  TRY(int8_expect_factors(&s, is_int4 ? DTYPES_NIBBLES : DTYPE_BIT(ACL_INT8)));
  TRY(finalize_expect_attributes(a, is_int4));
  *p = (finalize_plan){.width = a->w->dims[2] * (is_int4 && a->w->dtype == ACL_INT32 ? 8 : 1),
                       .has_row_scale = a->pertoken_scale != NULL,
                       .row_scale = (int8_t)a->view.pertoken_scale,
                       .list = (int8_t)a->view.group_list,
                       .shared = (int8_t)a->view.shared_input,
                       .logit = (int8_t)a->view.logit,
                       .row_index = (int8_t)a->view.row_index,
                       .to = (int8_t)a->view.y,
                       .index_name = a->name.row_index};
  TRY(finalize_operands(p, a));
  TRY(ends_begin(e, &p->groups, a->group_list, a->name.group_list, a->w->dims[0], a->x->dims[0]));
  if (a->group_list_type) p->groups.list_form = GROUPS_BY_SIZE;
  TRY(is_int4 ? finalize_nibbles(e, p, a) : int8_plan(e, &p->groups, &s, &p->sums));
  p->index = workspace_intermediate(e, (uint64_t)a->x->dims[0] * sizeof(int64_t));
  e->run = run_finalize;
  return ST_OK;
}

/* ---- QuantMatmulDequant, QuantGroupedMatmulDequant --------------------------------------------------------------- */

typedef struct {
  grouped_ends groups;
  int64_t x_row, x_column, depth, smooth_step; /* strides in bytes */
  int64_t scale_step;                          /* of xScaleOptional; 0: one for all rows */
  int smooth, scale, out;                      /* operands; ABSENT: not given */
  load_loop *load, *load_scale;
  group_range whole; /* of QuantMatmulDequant */
  bool listed;
  uint64_t quantised, scales; /* in scratch: x as int8, and a float for each row */
} dequant_plan;

typedef struct {
  const dequant_plan *plan;
  void *const *view;
  int8_t *to;
  float *scales;
  status *result;
} dequant_job;

/* Quantises rows of x by given scales, or by their own. */
static void dequant_quantise(const void *arg, int64_t begin, int64_t end) {
  const dequant_job *j = arg;
  const dequant_plan *p = j->plan;
  const int64_t n = p->depth;
  float *const x = (float *)(void *)scratch_take(2 * (size_t)n * sizeof *x), *const y = x + n;
  if (!x) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  for (; begin < end; ++begin) {
    p->load(x, (const char *)j->view[GROUPED_DEQUANT_X] + begin * p->x_row, p->x_column, n);
    if (p->smooth != ABSENT) {
      loops->load[ACL_FLOAT16][COMPUTE_F32](y, j->view[p->smooth], p->smooth_step, n);
      quant_row_smooth(x, x, y, n);
    }
    if (p->scale == ABSENT) {
      j->scales[begin] = quant_row_dynamic(y, x, INT8_MOST, n);
    } else {
      p->load_scale(&j->scales[begin], (const char *)j->view[p->scale] + begin * p->scale_step, 0, 1);
      for (int64_t i = 0; i < n; ++i) y[i] = rintf(x[i] / j->scales[begin]);
    }
    loops->store[ACL_INT8][COMPUTE_F32](j->to + begin * n, 1, y, n);
  }
}

static status run_grouped_dequant(const executor *e, void *const *view, void *scratch) {
  const dequant_plan *p = PLAN(e, dequant_plan);
  const grouped_ends *g = &p->groups;
  status result = ST_OK;
  const dequant_job job = {p, view, (int8_t *)scratch + p->quantised, (float *)(void *)((char *)scratch + p->scales),
                           &result};
  void *const weight = blocked_weight_read(&g->blocked, view[GROUPED_DEQUANT_WEIGHT], scratch);
  void *const given[N_VIEWS] = {job.to, weight, view[p->out], view[GROUPED_DEQUANT_WEIGHT_SCALE], job.scales};
  group_range whole = p->whole, *ranges = &whole;
  if (p->listed) TRY(ends_read(g, view[GROUPED_DEQUANT_GROUP_LIST], scratch, &ranges));
  rows_parallel(dequant_quantise, &job, g->total, 1, (uint64_t)(g->total * p->depth));
  TRY(result);
  return grouped_run(&g->product, g->form, given, ranges, scratch);
}

/* The smooth scales and the scales of x. */
static status dequant_scales(dequant_plan *p, const grouped_dequant_args *a) {
  const tensor *smooth = a->smooth_scale, *scale = a->x_scale;
  const char *const mode = a->x_quant_mode;
  const int64_t rows = a->x->dims[0];
  const bool words = a->weight_scale->dtype == ACL_INT64, by_token = mode && strcmp(mode, "pertoken") == 0;
  EXPECT(by_token || (mode && strcmp(mode, "pertensor") == 0), "xQuantMode is %s, expected pertoken or pertensor",
         mode ? mode : "NULL");
  p->smooth = p->scale = ABSENT;
  if (smooth) {
    TRY(op_expect_dtype(smooth, "smoothScaleOptional", DTYPE_BIT(ACL_FLOAT16)));
    TRY(op_expect_shape(smooth, "smoothScaleOptional", &p->depth, 1));
    p->smooth = a->view.smooth_scale;
    p->smooth_step = view_of(smooth).strides[0];
  }
  EXPECT(scale || by_token, "xScaleOptional is NULL, expected a tensor with xQuantMode pertensor");
  EXPECT(!words || (scale && !by_token), "weightScale has dtype INT64, expected FLOAT beside scales of rows");
  if (!scale) return ST_OK;
  TRY(op_expect_dtype(scale, "xScaleOptional", DTYPE_BIT(words ? ACL_FLOAT16 : ACL_FLOAT)));
  TRY(op_expect_shape(scale, "xScaleOptional", by_token ? &rows : &(const int64_t){1}, 1));
  p->scale = a->view.x_scale;
  p->scale_step = by_token ? view_of(scale).strides[0] : 0;
  p->load_scale = loops->load[scale->dtype][COMPUTE_F32];
  return ST_OK;
}

/* The weight as a stack of groups [K, N]; transposed, it is given as [N, K]. */
static tensor dequant_weight(const grouped_dequant_args *a) {
  tensor w = *a->weight;
  const int r = w.rank;
  if (!a->transpose_weight || r < 2) return w;
  w.dims[r - 2] = a->weight->dims[r - 1], w.strides[r - 2] = a->weight->strides[r - 1];
  w.dims[r - 1] = a->weight->dims[r - 2], w.strides[r - 1] = a->weight->strides[r - 2];
  return w;
}

status prepare_grouped_dequant(executor *e, const grouped_dequant_args *a) {
  const tensor *x = a->x, *list = a->group_list, weight = dequant_weight(a);
  dequant_plan *p = PLAN(e, dequant_plan);
  group_weight w;
  int64_t step;
  TRY(op_expect_dtype(x, "x", DTYPE_BIT(ACL_FLOAT16)));
  TRY(op_expect_rank(x, "x", 2, 2));
  TRY(op_expect_dtype(&weight, "weight", DTYPE_BIT(ACL_INT8)));
  TRY(op_expect_rank(&weight, "weight", list ? 3 : 2, list ? 3 : 2));
  EXPECT(weight.n > 0 && x->n > 0, "x and weight have shapes %s and %s, expected elements", SHAPE_OF(x),
         SHAPE_OF(a->weight));
  EXPECT(!a->bias && !a->x_offset, "%s is a tensor, expected NULL", a->bias ? "biasOptional" : "xOffsetOptional");
  TRY(op_expect_dtype(a->weight_scale, "weightScale", DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_INT64)));
  *p = (dequant_plan){.depth = x->dims[1], .whole = {0, x->dims[0]}, .listed = list != NULL, .out = a->view.out};
  TRY(dequant_scales(p, a));
  const int64_t rows = x->dims[0], cols = weight.dims[weight.rank - 1];
  TRY(op_expect_dtype(a->out, "out", DTYPE_BIT(ACL_FLOAT16)));
  TRY(op_expect_shape(a->out, "out", (const int64_t[]){rows, cols}, 2));
  grouped_ends *g = &p->groups;
  TRY(ends_begin(e, g, list, "groupList", list ? weight.dims[0] : 1, rows));
  group_form *f = g->form;
  TRY(grouped_weight(e, GROUPED_DEQUANT_WEIGHT, &weight, "weight", p->depth, &w));
  TRY(blocked_weight_plan(e, GROUPED_DEQUANT_WEIGHT, &weight, "weight", &g->blocked));
  f->product.a = (matrices){.dtype = ACL_INT8, .rows = rows, .cols = p->depth, .row_stride = p->depth, .col_stride = 1};
  TRY(grouped_rows(a->out, "out", &f->product.out));
  f->product.finish = scaled_sums_finish;
  f->bias.dtype = f->offset.dtype = COLUMN_VALUES_ABSENT;
  grouped_set_weight(&w, f);
  TRY(grouped_columns(a->weight_scale, "weightScale", DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_INT64), w.n_groups, w.n,
                      false, &f->scale, &step));
  const bool words = f->scale.dtype == ACL_INT64; /* floats in the lower halves, which have the scale of x in them */
  f->scale.dtype = ACL_FLOAT;
  g->product.kind = GROUPED_SUMS;
  g->product.x = (group_place){X, false, 0};
  g->product.weight = (group_place){WEIGHT, false, w.step};
  g->product.out = (group_place){OUT, false, 0};
  g->product.scale = (group_place){SCALE, false, step};
  if (!words) g->product.row_scale = ROW_SCALE;
  g->product.row_scale_step = sizeof(float);
  const view from = view_of(x);
  p->x_row = from.strides[0], p->x_column = from.strides[1];
  p->load = loops->load[ACL_FLOAT16][COMPUTE_F32];
  p->quantised = workspace_intermediate(e, (uint64_t)x->n);
  p->scales = workspace_intermediate(e, (uint64_t)rows * sizeof(float));
  grouped_plan(e, &g->product, f);
  e->run = run_grouped_dequant;
  return ST_OK;
}
