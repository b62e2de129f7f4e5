/* SPDX-License-Identifier: Apache-2.0 */
/* MoeInitRoutingV2 and MoeInitRoutingQuantV2: tokens in the order of their experts. Without dropping, row i of the
 * result is the token of the i-th slot of that order, for all slots or the first activeNum; with dropping (dropPadMode
 * 1), each expert has `capacity` rows, of which those without a slot are 0. expandedRowIdxOut has the row of each slot,
 * or -1. The second operator quantises the rows to int8, with one scale and offset or with a scale for each row.
 *
 * MoeInitRoutingV3 takes the slots of a range of experts, without dropping. Rows and numbers behind them are not
 * written, except in expandedRowIdxOut by slots. */
#include <math.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/moe/slots.h"
#include "kernel/move/check.h"
#include "kernel/quant/row.h"

enum { ABSENT = -1, SCALE_MOST = 127 };

typedef enum {
  ROUTING_PLAIN,
  ROUTING_SCALED /* tokens have scales, which are copied */,
  ROUTING_STATIC,
  ROUTING_DYNAMIC
} routing_quant;

typedef struct {
  slot_sort sort;
  int64_t n_choices, width, n_rows, n_experts, capacity;           /* n_rows: of expandedX, as a matrix */
  int64_t x_row, x_column, to_row, to_column;                      /* strides in bytes */
  int64_t smooth_row, smooth_column, row_scale;                    /* of the scales, and of dynamicQuantScaleOut */
  int scale, offset, rows_out, out, tokens, before, row_scale_out; /* operands; ABSENT: not given */
  int64_t first_expert, end_expert, count_step[2]; /* V3: the range, and strides of the counts in bytes */
  bool by_position, counts_pairs;                  /* V3: of expandedRowIdxOut, and of the counts */
  bool drops, cumulates, checks;                   /* checks: experts have to be below n_experts */
  uint8_t quant;
  load_loop *load;
  store_loop *store;
  uint64_t sources; /* in scratch, int32: the sorted position of each row's slot, or -1 */
} routing_v2_plan;

typedef struct {
  const routing_v2_plan *plan;
  void *const *view;
  const int32_t *order, *experts, *sources;
  status *result;
} routing_v2_job;

static const float *routing_smooth(const routing_v2_job *j, int64_t position, float *to) {
  const routing_v2_plan *p = j->plan;
  const int64_t expert = j->experts[position] - p->first_expert;
  const char *const from = (const char *)j->view[p->scale] + expert * p->smooth_row;
  loops->load[ACL_FLOAT][COMPUTE_F32](to, from, p->smooth_column, p->width);
  return to;
}

/* Quantises the token of a sorted position; x and y have `width` elements each. Returns the scale. */
static float routing_quantise(const routing_v2_job *j, int64_t position, float *x, float *y) {
  const routing_v2_plan *p = j->plan;
  if (p->quant == ROUTING_DYNAMIC) {
    if (p->scale != ABSENT) quant_row_smooth(x, x, routing_smooth(j, position, y), p->width);
    return quant_row_dynamic(y, x, SCALE_MOST, p->width);
  }
  const float scale = *(const float *)j->view[p->scale], offset = *(const float *)j->view[p->offset];
  for (int64_t i = 0; i < p->width; ++i) y[i] = rintf(x[i] * scale + offset);
  return scale;
}

static void routing_rows(const void *arg, int64_t begin, int64_t end) {
  const routing_v2_job *j = arg;
  const routing_v2_plan *p = j->plan;
  float *const x = (float *)(void *)scratch_take(2 * sizeof(float) * (size_t)(p->width + 1)), *const y = x + p->width;
  if (!x) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  for (int64_t row = begin; row < end; ++row) {
    const int64_t position = j->sources[row];
    const float *from = x;
    float scale = 0;
    if (position < 0) {
      memset(x, 0, (size_t)p->width * sizeof *x);
    } else {
      const int64_t token = j->order[position] / p->n_choices;
      p->load(x, (const char *)j->view[MOE_INIT_ROUTING_V2_X] + token * p->x_row, p->x_column, p->width);
      if (p->quant == ROUTING_SCALED) memcpy(&scale, (char *)j->view[p->scale] + token * p->smooth_row, sizeof scale);
      if (p->quant > ROUTING_SCALED) {
        scale = routing_quantise(j, position, x, y);
        from = y;
      }
    }
    p->store((char *)j->view[p->out] + row * p->to_row, p->to_column, from, p->width);
    if (p->row_scale_out != ABSENT)
      memcpy((char *)j->view[p->row_scale_out] + row * p->row_scale, &scale, sizeof scale);
  }
}

/* Sets the row of each slot and the slot of each row, and counts the tokens of the experts. */
static void routing_place(const routing_v2_plan *p, void *const *view, const int32_t *order, const int32_t *experts,
                          int32_t *sources) {
  int32_t *const rows = view[p->rows_out], *const tokens = p->tokens == ABSENT ? NULL : view[p->tokens],
                 *const before = p->before == ABSENT ? NULL : view[p->before];
  if (tokens) memset(tokens, 0, (size_t)p->n_experts * sizeof *tokens);
  if (before) memset(before, 0, (size_t)p->n_experts * sizeof *before);
  for (int64_t row = 0; row < p->n_rows; ++row) sources[row] = -1;
  int64_t first = 0; /* of the expert's sorted positions */
  for (int64_t k = 0; k < p->sort.n; ++k) {
    if (experts[k] != experts[first]) first = k;
    const bool fits = !p->drops || k - first < p->capacity;
    const int64_t row = p->drops ? experts[k] * p->capacity + k - first : k;
    rows[order[k]] = fits ? (int32_t)row : -1;
    if (fits && row < p->n_rows) sources[row] = (int32_t)k;
    if (tokens) ++tokens[experts[k]];
    if (before) ++before[experts[k]];
  }
  for (int64_t i = 1; tokens && p->cumulates && i < p->n_experts; ++i) tokens[i] += tokens[i - 1];
}

static status run_init_routing_v2(const executor *e, void *const *view, void *scratch) {
  const routing_v2_plan *p = PLAN(e, routing_v2_plan);
  const int64_t last = p->sort.n - 1;
  const int32_t *const order = slots_sort(&p->sort, view[MOE_INIT_ROUTING_V2_EXPERT_IDX], scratch),
                       *const experts = (const int32_t *)(const void *)((char *)scratch + p->sort.keys);
  int32_t *const sources = (int32_t *)(void *)((char *)scratch + p->sources);
  for (int64_t k = 0; p->checks && k <= last; k += i64_max(last, 1))
    if (experts[k] < 0 || experts[k] >= p->n_experts)
      return fail(ST_DEVICE_EXCEPTION, "expertIdx[%jd] is %jd, expected 0 to %jd", (intmax_t)order[k],
                  (intmax_t)experts[k], (intmax_t)p->n_experts - 1);
  routing_place(p, view, order, experts, sources);
  status result = ST_OK;
  const routing_v2_job job = {p, view, order, experts, sources, &result};
  if (p->n_rows && p->width) rows_parallel(routing_rows, &job, p->n_rows, 1, e->cost_ns);
  return result;
}

/* ---- preparation ------------------------------------------------------------------------------------------------- */

static status routing_expect_list(const tensor *t, const char *name, int dtype, int64_t n) {
  TRY(op_expect_dtype(t, name, DTYPE_BIT(dtype)));
  TRY(op_expect_shape(t, name, &n, 1));
  EXPECT(t->contiguous, "%s has gaps, expected none", name);
  return ST_OK;
}

/* Checks expandedXOut, [rows, width] or with drops [experts, capacity, width], and sets it as a matrix. */
static status routing_out(routing_v2_plan *p, const moe_init_routing_v2_args *a, int dtype) {
  const tensor *out = a->expanded_x_out;
  const int64_t active = a->active_num;
  TRY(op_expect_dtype(out, "expandedXOut", DTYPE_BIT(dtype)));
  const view to = view_of(out);
  if (p->drops) {
    TRY(op_expect_shape(out, "expandedXOut", (const int64_t[]){p->n_experts, p->capacity, p->width}, 3));
    EXPECT(p->n_experts == 1 || to.strides[0] == p->capacity * to.strides[1],
           "expandedXOut has gaps between experts, expected none");
    p->n_rows = p->n_experts * p->capacity;
  } else {
    p->n_rows = active ? i64_min(active, p->sort.n) : p->sort.n;
    TRY(op_expect_shape(out, "expandedXOut", (const int64_t[]){p->n_rows, p->width}, 2));
  }
  p->to_row = to.strides[to.rank - 2];
  p->to_column = to.strides[to.rank - 1];
  p->store = loops->store[dtype][COMPUTE_F32];
  return ST_OK;
}

/* Checks the scales and offsets of MoeInitRoutingQuantV2. */
static status routing_scales(routing_v2_plan *p, const moe_init_routing_v2_args *a) {
  const tensor *scale = a->scale, *offset = a->offset, *to = a->dynamic_quant_scale_out;
  const int64_t mode = a->quant_mode;
  EXPECT(mode == 0 || mode == 1, "quantMode is %jd, expected 0 or 1", (intmax_t)mode);
  p->quant = mode ? ROUTING_DYNAMIC : ROUTING_STATIC;
  p->scale = scale ? MOE_INIT_ROUTING_V2_SCALE : ABSENT;
  p->offset = MOE_INIT_ROUTING_V2_OFFSET;
  if (!mode) {
    EXPECT(scale && offset, "%s is NULL, expected one value with quantMode 0",
           scale ? "offsetOptional" : "scaleOptional");
    TRY(op_expect_one(scale, "scaleOptional", DTYPE_BIT(ACL_FLOAT)));
    return op_expect_one(offset, "offsetOptional", DTYPE_BIT(ACL_FLOAT));
  }
  EXPECT(to, "dynamicQuantScaleOutOptional is NULL, expected a tensor with quantMode 1");
  TRY(op_expect_dtype(to, "dynamicQuantScaleOutOptional", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_shape(to, "dynamicQuantScaleOutOptional", &p->n_rows, 1));
  p->row_scale_out = MOE_INIT_ROUTING_V2_DYNAMIC_QUANT_SCALE_OUT;
  p->row_scale = view_of(to).strides[0];
  if (!scale) return ST_OK;
  TRY(op_expect_dtype(scale, "scaleOptional", DTYPE_BIT(ACL_FLOAT)));
  EXPECT(scale->rank == 2 && scale->dims[1] == p->width &&
             (scale->dims[0] == 1 || (scale->dims[0] == p->n_experts && p->n_experts > 0)),
         "scaleOptional has shape %s, expected [1, %jd] or [%jd, %jd]", SHAPE_OF(scale), (intmax_t)p->width,
         (intmax_t)p->n_experts, (intmax_t)p->width);
  const view v = view_of(scale);
  p->smooth_row = scale->dims[0] == 1 ? 0 : v.strides[0];
  p->smooth_column = v.strides[1];
  p->checks = p->checks || p->smooth_row;
  return ST_OK;
}

/* Checks expertIdx and the numbers, and the tensors of counts. */
static status routing_counts(routing_v2_plan *p, const moe_init_routing_v2_args *a) {
  const int64_t mode = a->drop_pad_mode, flag = a->expert_tokens_count_or_cumsum_flag;
  EXPECT(mode == 0 || mode == 1, "%s is %jd, expected 0 or 1", a->name.drop_pad_mode, (intmax_t)mode);
  EXPECT(flag >= 0 && flag <= 2, "%s is %jd, expected 0 to 2", a->name.expert_tokens_count_or_cumsum_flag,
         (intmax_t)flag);
  EXPECT(a->active_num >= 0, "%s is %jd, expected 0 or more", a->name.active_num, (intmax_t)a->active_num);
  p->drops = mode == 1;
  p->cumulates = flag == 1;
  p->n_experts = a->expert_num;
  p->capacity = a->expert_capacity;
  const bool counts = !p->drops && flag, before = p->drops && a->expert_tokens_before_capacity_flag;
  p->checks = p->drops || counts;
  EXPECT(p->n_experts >= (p->checks ? 1 : 0), "%s is %jd, expected %d or more", a->name.expert_num,
         (intmax_t)p->n_experts, p->checks ? 1 : 0);
  EXPECT(!p->drops || p->capacity > 0, "%s is %jd, expected 1 or more", a->name.expert_capacity, (intmax_t)p->capacity);
  p->tokens = p->before = ABSENT;
  if (counts) {
    const tensor *t = a->expert_tokens_count_or_cumsum_out;
    EXPECT(t, "expertTokensCountOrCumsumOutOptional is NULL, expected a tensor as its flag is %jd", (intmax_t)flag);
    TRY(routing_expect_list(t, "expertTokensCountOrCumsumOutOptional", ACL_INT32, p->n_experts));
    p->tokens = a->view.expert_tokens_count_or_cumsum_out;
  }
  if (before) {
    const tensor *t = a->expert_tokens_before_capacity_out;
    EXPECT(t, "expertTokensBeforeCapacityOutOptional is NULL, expected a tensor as its flag is true");
    TRY(routing_expect_list(t, "expertTokensBeforeCapacityOutOptional", ACL_INT32, p->n_experts));
    p->before = a->view.expert_tokens_before_capacity_out;
  }
  return ST_OK;
}

status prepare_moe_init_routing_v2(executor *e, const moe_init_routing_v2_args *a) {
  const tensor *x = a->x, *experts = a->expert_idx;
  const bool quantises = e->op->variant == MOE_INIT_ROUTING_QUANT_V2;
  routing_v2_plan *p = PLAN(e, routing_v2_plan);
  *p = (routing_v2_plan){.scale = ABSENT, .row_scale_out = ABSENT};
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(x, "x", 2, 2));
  TRY(op_expect_dtype(experts, "expertIdx", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_rank(experts, "expertIdx", 2, 2));
  EXPECT(experts->dims[0] == x->dims[0], "expertIdx has shape %s, expected [%jd, choices]", SHAPE_OF(experts),
         (intmax_t)x->dims[0]);
  TRY(routing_counts(p, a));
  slots_plan(e, &p->sort, experts);
  p->n_choices = i64_max(experts->dims[1], 1);
  p->width = x->dims[1];
  TRY(routing_out(p, a, quantises ? ACL_INT8 : x->dtype));
  if (quantises) TRY(routing_scales(p, a));
  TRY(routing_expect_list(a->expanded_row_idx_out, "expandedRowIdxOut", ACL_INT32, experts->n));
  const view from = view_of(x);
  p->x_row = from.strides[0], p->x_column = from.strides[1];
  p->load = loops->load[x->dtype][COMPUTE_F32];
  p->out = a->view.expanded_x_out;
  p->rows_out = a->view.expanded_row_idx_out;
  p->sources = workspace_intermediate(e, (uint64_t)p->n_rows * sizeof(int32_t));
  const uint64_t moved = (uint64_t)(p->n_rows * p->width);
  executor_cost(e, moved * 2 * dtype_bytes(x->dtype) + (uint64_t)experts->n * 64,
                (uint64_t)experts->n * 256 + (quantises ? moved * 8 : 0));
  e->run = run_init_routing_v2;
  return ST_OK;
}

/* ---- MoeInitRoutingV3 -------------------------------------------------------------------------------------------- */

/* The first of n sorted experts that is `least` or larger. */
static int64_t routing_find(const int32_t *experts, int64_t n, int64_t least) {
  int64_t i = 0;
  while (i < n && experts[i] < least) ++i;
  return i;
}

/* Counts the slots [begin, end) of each expert of the range: into a vector, or pairs of an expert with slots and their
 * number, behind which a pair of 0 is the end. */
static void routing_count(const routing_v2_plan *p, char *to, const int32_t *experts, int64_t begin, int64_t end) {
  const int64_t n = p->end_expert - p->first_expert;
  int64_t pair = 0, sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t expert = p->first_expert + i, first = begin;
    while (begin < end && experts[begin] == expert) ++begin;
    const int64_t count = begin - first;
    sum += count;
    if (p->counts_pairs && !count) continue;
    char *const at = to + (p->counts_pairs ? pair++ : i) * p->count_step[0];
    if (p->counts_pairs) memcpy(at, &expert, sizeof expert);
    memcpy(at + (p->counts_pairs ? p->count_step[1] : 0), p->cumulates ? &sum : &count, sizeof count);
  }
  const int64_t nothing = 0;
  for (int k = 0; p->counts_pairs && pair < p->n_experts && k < 2; ++k)
    memcpy(to + pair * p->count_step[0] + k * p->count_step[1], &nothing, sizeof nothing);
}

static status run_init_routing_v3(const executor *e, void *const *view, void *scratch) {
  const routing_v2_plan *p = PLAN(e, routing_v2_plan);
  const int64_t n = p->sort.n;
  const int32_t *const order = slots_sort(&p->sort, view[MOE_INIT_ROUTING_V3_EXPERT_IDX], scratch),
                       *const experts = (const int32_t *)(const void *)((char *)scratch + p->sort.keys);
  const int64_t begin = routing_find(experts, n, p->first_expert), end = routing_find(experts, n, p->end_expert);
  int32_t *const sources = (int32_t *)(void *)((char *)scratch + p->sources), *const rows = view[p->rows_out];
  for (int64_t k = 0; !p->by_position && k < n; ++k) rows[k] = -1;
  for (int64_t k = begin; k < end; ++k) {
    if (p->by_position)
      rows[k - begin] = order[k];
    else
      rows[order[k]] = (int32_t)(k - begin);
    if (k - begin < p->n_rows) sources[k - begin] = (int32_t)k;
  }
  if (p->tokens != ABSENT) routing_count(p, view[p->tokens], experts, begin, end);
  status result = ST_OK;
  const routing_v2_job job = {p, view, order, experts, sources, &result};
  const int64_t taken = i64_min(p->n_rows, end - begin);
  if (taken && p->width) rows_parallel(routing_rows, &job, taken, 1, e->cost_ns);
  return result;
}

static status routing_v3_counts(routing_v2_plan *p, const moe_init_routing_v3_args *a) {
  const tensor *to = a->expert_tokens_count_or_cumsum_out;
  const int64_t type = a->expert_tokens_num_type, n = p->end_expert - p->first_expert;
  EXPECT(type >= 0 && type <= 2, "expertTokensNumType is %jd, expected 0 to 2", (intmax_t)type);
  p->cumulates = type == 0;
  p->counts_pairs = type == 2;
  p->tokens = ABSENT;
  if (!a->expert_tokens_num_flag) return ST_OK;
  EXPECT(to, "expertTokensCountOrCumsumOut is NULL, expected a tensor as expertTokensNumFlag is true");
  TRY(op_expect_dtype(to, "expertTokensCountOrCumsumOut", DTYPE_BIT(ACL_INT64)));
  TRY(op_expect_shape(to, "expertTokensCountOrCumsumOut", (const int64_t[]){type == 2 ? p->n_experts : n, 2},
                      type == 2 ? 2 : 1));
  const view v = view_of(to);
  p->count_step[0] = v.strides[0];
  p->count_step[1] = type == 2 ? v.strides[1] : 0;
  p->tokens = MOE_INIT_ROUTING_V3_EXPERT_TOKENS_COUNT_OR_CUMSUM_OUT;
  return ST_OK;
}

static status routing_v3_scales(routing_v2_plan *p, const moe_init_routing_v3_args *a) {
  const tensor *scale = a->scale, *to = a->expanded_scale_out;
  const int64_t n = p->end_expert - p->first_expert;
  EXPECT(a->quant_mode == 1 || a->quant_mode == -1, "quantMode is %jd, expected -1 or 1", (intmax_t)a->quant_mode);
  EXPECT(!a->offset, "offsetOptional is a tensor, expected NULL");
  const bool dynamic = a->quant_mode == 1;
  p->quant = dynamic ? ROUTING_DYNAMIC : scale ? ROUTING_SCALED : ROUTING_PLAIN;
  if (p->quant == ROUTING_PLAIN) return ST_OK;
  EXPECT(to, "expandedScaleOut is NULL, expected a tensor");
  TRY(op_expect_dtype(to, "expandedScaleOut", DTYPE_BIT(ACL_FLOAT)));
  EXPECT(to->rank == 1 && to->n >= p->n_rows, "expandedScaleOut has shape %s, expected [%jd]", SHAPE_OF(to),
         (intmax_t)p->n_rows);
  p->row_scale_out = MOE_INIT_ROUTING_V3_EXPANDED_SCALE_OUT;
  p->row_scale = view_of(to).strides[0];
  if (!scale) return ST_OK;
  TRY(op_expect_dtype(scale, "scaleOptional", DTYPE_BIT(ACL_FLOAT)));
  if (dynamic)
    EXPECT(scale->rank == 2 && (scale->dims[0] == n || scale->dims[0] == 1) && scale->dims[1] == p->width,
           "scaleOptional has shape %s, expected [%jd, %jd]", SHAPE_OF(scale), (intmax_t)n, (intmax_t)p->width);
  else
    TRY(op_expect_shape(scale, "scaleOptional", a->x->dims, 1));
  const view v = view_of(scale);
  p->scale = MOE_INIT_ROUTING_V3_SCALE;
  p->smooth_row = dynamic && scale->dims[0] == 1 ? 0 : v.strides[0];
  p->smooth_column = dynamic ? v.strides[1] : 0;
  return ST_OK;
}

static status routing_v3_range(routing_v2_plan *p, const moe_init_routing_v3_args *a) {
  const aclIntArray *range = a->active_expert_range && a->active_expert_range->size ? a->active_expert_range : NULL;
  p->n_experts = a->expert_num;
  p->end_expert = a->expert_num;
  EXPECT(a->expert_num > 0, "expertNum is %jd, expected 1 or more", (intmax_t)a->expert_num);
  if (!range) return ST_OK;
  TRY(op_expect_size(range->size, "activeExpertRangeOptional", 2));
  p->first_expert = range->value[0];
  p->end_expert = range->value[1];
  EXPECT(p->first_expert >= 0 && p->first_expert < p->end_expert && p->end_expert <= p->n_experts,
         "activeExpertRangeOptional is %jd to %jd, expected a range within 0 to %jd", (intmax_t)p->first_expert,
         (intmax_t)p->end_expert, (intmax_t)p->n_experts);
  return ST_OK;
}

status prepare_moe_init_routing_v3(executor *e, const moe_init_routing_v3_args *a) {
  const tensor *x = a->x, *experts = a->expert_idx, *out = a->expanded_x_out;
  const bool dynamic = a->quant_mode == 1;
  routing_v2_plan *p = PLAN(e, routing_v2_plan);
  *p = (routing_v2_plan){.scale = ABSENT, .row_scale_out = ABSENT, .by_position = a->row_idx_type == 1};
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT_TO_32 | (dynamic ? 0 : DTYPE_BIT(ACL_INT8))));
  TRY(op_expect_rank(x, "x", 2, 2));
  TRY(op_expect_dtype(experts, "expertIdx", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_rank(experts, "expertIdx", 2, 2));
  EXPECT(experts->dims[0] == x->dims[0], "expertIdx has shape %s, expected [%jd, choices]", SHAPE_OF(experts),
         (intmax_t)x->dims[0]);
  EXPECT(a->drop_pad_mode == 0, "dropPadMode is %jd, expected 0", (intmax_t)a->drop_pad_mode);
  EXPECT(a->row_idx_type == 0 || a->row_idx_type == 1, "rowIdxType is %jd, expected 0 or 1", (intmax_t)a->row_idx_type);
  TRY(routing_v3_range(p, a));
  slots_plan(e, &p->sort, experts);
  p->n_choices = i64_max(experts->dims[1], 1);
  p->width = x->dims[1];
  p->n_rows = a->active_num > 0 ? i64_min(a->active_num, p->sort.n) : p->sort.n;
  TRY(op_expect_dtype(out, "expandedXOut", DTYPE_BIT(dynamic ? ACL_INT8 : x->dtype)));
  TRY(op_expect_shape(out, "expandedXOut", (const int64_t[]){p->n_rows, p->width}, 2));
  TRY(routing_expect_list(a->expanded_row_idx_out, "expandedRowIdxOut", ACL_INT32, experts->n));
  TRY(routing_v3_counts(p, a));
  TRY(routing_v3_scales(p, a));
  const view from = view_of(x), to = view_of(out);
  p->x_row = from.strides[0], p->x_column = from.strides[1];
  p->to_row = to.strides[0], p->to_column = to.strides[1];
  p->load = loops->load[x->dtype][COMPUTE_F32];
  p->store = loops->store[out->dtype][COMPUTE_F32];
  p->out = MOE_INIT_ROUTING_V3_EXPANDED_X_OUT;
  p->rows_out = MOE_INIT_ROUTING_V3_EXPANDED_ROW_IDX_OUT;
  p->sources = workspace_intermediate(e, (uint64_t)p->n_rows * sizeof(int32_t));
  const uint64_t moved = (uint64_t)(p->n_rows * p->width);
  executor_cost(e, moved * 2 * dtype_bytes(x->dtype) + (uint64_t)experts->n * 64,
                (uint64_t)experts->n * 256 + (dynamic ? moved * 8 : 0));
  e->run = run_init_routing_v3;
  return ST_OK;
}
