/* SPDX-License-Identifier: Apache-2.0 */
/* Combining expert outputs per token: MoeTokenUnpermute, MoeTokenPermuteGrad, MoeInitRoutingV2Grad, MoeFinalizeRouting
 * and MoeFinalizeRoutingV2. A row of the result is a sum in double over the token's choices of weight * (row + bias of
 * the expert), plus up to two rows that are added unweighted (skip connections). A choice whose row index is out of
 * range was dropped and counts as 0. */
#include <stdlib.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/moe/combine.h"
#include "kernel/move/check.h"

enum { TILE = 512 };

typedef struct {
  const combine_plan *plan;
  void *const *view;
  const int64_t *starts;
  status *result;
} combine_job;

combine_operand combine_operand_of(const tensor *t, int operand, compute_type compute) {
  if (!t) return (combine_operand){.operand = ABSENT};
  view v = view_of(t);
  const int r = v.rank;
  return (combine_operand){.operand = operand,
                           .row = r ? v.strides[0] : 0,
                           .column = r > 1 ? v.strides[1] : 0,
                           .n_rows = r ? v.dims[0] : 1,
                           .load = loops->load[t->dtype][compute]};
}

static const char *combine_cell(const combine_job *j, const combine_operand *t, int64_t row, int64_t column) {
  return (char *)j->view[t->operand] + row * t->row + column * t->column;
}

/* sum += factor * n elements of the table's row, from `column` on */
static void combine_add_row(const combine_job *j, const combine_operand *t, int64_t row, int64_t column, int64_t n,
                            double factor, double *sum) {
  const compute_value parameter[ELEMENTWISE_PARAMETERS] = {{.f64 = factor}};
  double tile[TILE];
  t->load(tile, combine_cell(j, t, row, column), t->column, n);
  loops->elementwise[EW_add][COMPUTE_F64](sum, (const void *const[]){sum, tile, NULL, NULL, NULL}, parameter, n);
}

static status combine_token(const combine_job *j, int64_t token) {
  const combine_plan *p = j->plan;
  const int64_t first = p->has_lists ? j->starts[token] : 0;
  const int64_t n_choices = p->has_lists ? j->starts[token + 1] - first : p->n_choices;
  double sum[TILE];
  for (int64_t column = 0, n; column < p->width; column += n) {
    n = i64_min(TILE, p->width - column);
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int i = 0; i < SKIPS; ++i)
      if (p->skip[i].operand != ABSENT) combine_add_row(j, &p->skip[i], token, column, n, 1, sum);
    for (int64_t choice = first; choice < first + n_choices; ++choice) {
      double weight = 1;
      int64_t row, expert;
      p->index.load(&row, (char *)j->view[p->index.operand] + token * p->index_row + choice * p->index_choice, 0, 1);
      if (p->weights.operand != ABSENT) p->weights.load(&weight, combine_cell(j, &p->weights, token, choice), 0, 1);
      if (row >= 0 && row < p->rows.n_rows) combine_add_row(j, &p->rows, row, column, n, weight, sum);
      if (p->bias.operand == ABSENT) continue;
      p->experts.load(&expert, combine_cell(j, &p->experts, token, choice), 0, 1);
      if (expert < 0 || expert >= p->bias.n_rows)
        return places_fail("expertIdx", token * p->n_choices + choice, expert, 0, p->bias.n_rows - 1);
      combine_add_row(j, &p->bias, expert, column, n, weight, sum);
    }
    p->store((char *)j->view[p->out] + token * p->to + column * p->to_column, p->to_column, sum, n);
  }
  return ST_OK;
}

static void combine_range(const void *arg, int64_t begin, int64_t end) {
  const combine_job *j = arg;
  status st = ST_OK;
  for (; begin < end && st == ST_OK; ++begin) st = combine_token(j, begin);
  if (st != ST_OK) __atomic_store_n(j->result, st, __ATOMIC_RELAXED);
}

status combine_run(const combine_plan *p, void *const *view, const int64_t *starts, uint64_t cost_ns) {
  status result = ST_OK;
  const combine_job job = {p, view, starts, &result};
  rows_parallel(combine_range, &job, p->n_tokens, 1, cost_ns);
  return result;
}

static status run_combine(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  return combine_run(e->heap, view, NULL, e->cost_ns);
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

void combine_plan_lists(combine_plan *p, const tensor *rows, const tensor *result, int out, int lists, int weights) {
  const combine_operand absent = {.operand = ABSENT};
  const view to = view_of(result);
  *p = (combine_plan){
      .n_tokens = to.dims[0],
      .width = to.dims[1],
      .has_lists = true,
      .rows = combine_operand_of(rows, 0, COMPUTE_F64),
      .weights = {.operand = weights, .column = sizeof(double), .load = loops->load[ACL_DOUBLE][COMPUTE_F64]},
      .experts = absent,
      .bias = absent,
      .skip = {absent, absent},
      .index = {.operand = lists, .load = loops->load[ACL_INT64][COMPUTE_I64]},
      .index_choice = sizeof(int64_t),
      .to = to.strides[0],
      .to_column = to.strides[1],
      .out = out,
      .store = loops->store[result->dtype][COMPUTE_F64]};
}

/* Checks the operands common to all operators and starts a plan in e->heap: rows [n, width], result [tokens, width].
 * The index has tokens * choices elements, ordered by token, or by choice if by_choice. */
static status combine_begin(executor *e, const tensor *rows, const char *rows_name, const tensor *index,
                            const char *index_name, int index_operand, int64_t n_tokens, int64_t n_choices,
                            bool by_choice, const tensor *out, combine_plan **plan) {
  TRY(op_expect_dtype(rows, rows_name, DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(rows, rows_name, 2, 2));
  TRY(op_expect_dtype(index, index_name, DTYPE_BIT(ACL_INT32)));
  EXPECT(index->rank == 1 && index->n == n_tokens * n_choices, "%s has shape %s, expected [%jd]", index_name,
         SHAPE_OF(index), (intmax_t)(n_tokens * n_choices));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(rows->dtype)));
  TRY(op_expect_shape(out, "out", (const int64_t[]){n_tokens, rows->dims[1]}, 2));
  HEAP_PLAN(combine_plan, p, e, sizeof *p);
  *plan = p;
  const view to = view_of(out);
  const int64_t step = view_of(index).strides[0];
  p->n_tokens = n_tokens;
  p->width = rows->dims[1];
  p->n_choices = n_choices;
  p->rows = combine_operand_of(rows, 0, COMPUTE_F64);
  p->index = combine_operand_of(index, index_operand, COMPUTE_I64);
  p->index_row = by_choice ? step : n_choices * step;
  p->index_choice = by_choice ? n_tokens * step : step;
  p->weights = p->experts = p->bias = p->skip[0] = p->skip[1] = (combine_operand){.operand = ABSENT};
  p->to = to.strides[0];
  p->to_column = to.strides[1];
  p->out = e->n_operands - 1;
  p->store = loops->store[out->dtype][COMPUTE_F64];
  executor_cost(e, (uint64_t)(out->n * (n_choices + 1)) * dtype_bytes(out->dtype), (uint64_t)(out->n * n_choices) * 4);
  e->run = out->n ? run_combine : move_run_nothing;
  return ST_OK;
}

status prepare_moe_permute_grad(executor *e, const moe_permute_grad_args *a) {
  const tensor *index = a->sorted_indices, *out = a->out;
  const int64_t choices = a->num_topk;
  combine_plan *p;
  EXPECT(choices > 0 && index->n % choices == 0, "numTopk is %jd, expected a divisor of sortedIndices' size, %jd",
         (intmax_t)choices, (intmax_t)index->n);
  EXPECT(!a->padded_mode, "paddedMode is true, expected false, as CANN supports no other value");
  return combine_begin(e, a->permuted_output_grad, "permutedOutputGrad", index, "sortedIndices",
                       MOE_PERMUTE_GRAD_SORTED_INDICES, index->n / choices, choices, false, out, &p);
}

/* Sets *flat to t, where a stack [experts, capacity, width] is seen as a matrix [experts * capacity, width]. */
static status as_matrix(const tensor *t, const char *name, tensor *flat) {
  *flat = *t;
  if (t->rank != 3) return ST_OK;
  EXPECT(t->strides[0] == t->dims[1] * t->strides[1] || t->dims[0] == 1, "%s has gaps between experts, expected none",
         name);
  flat->rank = 2;
  flat->dims[0] = t->dims[0] * t->dims[1];
  flat->dims[1] = t->dims[2];
  flat->strides[0] = t->strides[1];
  flat->strides[1] = t->strides[2];
  return ST_OK;
}

status prepare_moe_init_routing_grad(executor *e, const moe_init_routing_grad_args *a) {
  const tensor *index = a->expanded_row_idx, *grad = a->grad_expanded_x;
  const int64_t choices = a->top_k, mode = a->drop_pad_mode, active = a->active_num;
  tensor rows;
  combine_plan *p;
  EXPECT(choices > 0 && index->n % choices == 0, "topK is %jd, expected a divisor of expandedRowIdx's size, %jd",
         (intmax_t)choices, (intmax_t)index->n);
  EXPECT(mode == 0 || mode == 1, "dropPadMode is %jd, expected 0 or 1", (intmax_t)mode);
  EXPECT(active >= 0, "activeNum is %jd, expected 0 or more", (intmax_t)active);
  TRY(op_expect_rank(grad, "gradExpandedX", mode ? 3 : 2, mode ? 3 : 2));
  EXPECT(mode || grad->dims[0] == (active ? active : index->n), "gradExpandedX has shape %s, expected %jd rows",
         SHAPE_OF(grad), (intmax_t)(active ? active : index->n));
  TRY(as_matrix(grad, "gradExpandedX", &rows));
  return combine_begin(e, &rows, "gradExpandedX", index, "expandedRowIdx", MOE_INIT_ROUTING_GRAD_EXPANDED_ROW_IDX,
                       index->n / choices, choices, false, a->out, &p);
}

static status combine_expect_probs(const tensor *probs, const tensor *index, int64_t *choices) {
  *choices = 1;
  if (!probs) return ST_OK;
  TRY(op_expect_dtype(probs, "probsOptional", DTYPES_FLOAT_TO_32));
  EXPECT(probs->rank == 2 && probs->n == index->n, "probsOptional has shape %s, expected 2 dimensions and %jd elements",
         SHAPE_OF(probs), (intmax_t)index->n);
  *choices = probs->dims[1] ? probs->dims[1] : 1;
  return ST_OK;
}

status prepare_moe_unpermute(executor *e, const moe_unpermute_args *a) {
  const tensor *index = a->sorted_indices, *probs = a->probs;
  int64_t choices;
  combine_plan *p;
  EXPECT(!a->padded_mode, "paddedMode is true, expected false, as CANN supports no other value");
  TRY(combine_expect_probs(probs, index, &choices));
  TRY(combine_begin(e, a->permuted_tokens, "permutedTokens", index, "sortedIndices", MOE_UNPERMUTE_SORTED_INDICES,
                    index->n / choices, choices, false, a->out, &p));
  p->weights = combine_operand_of(probs, MOE_UNPERMUTE_PROBS, COMPUTE_F64);
  return ST_OK;
}

/* Adds an operand with one row per token, which is added to the result. */
static status combine_set_skip(combine_plan *p, int which, const tensor *t, const char *name, int operand,
                               const tensor *out) {
  p->skip[which] = combine_operand_of(t, operand, COMPUTE_F64);
  if (!t) return ST_OK;
  TRY(op_expect_dtype(t, name, DTYPE_BIT(out->dtype)));
  return op_expect_shape(t, name, out->dims, 2);
}

static status combine_set_bias(combine_plan *p, const tensor *bias, const char *bias_name, int bias_operand,
                               const tensor *experts, const char *experts_name, int experts_operand,
                               const tensor *rows) {
  if (!bias) return ST_OK;
  EXPECT(experts, "%s is absent, expected a tensor beside %s", experts_name, bias_name);
  TRY(op_expect_dtype(bias, bias_name, DTYPE_BIT(rows->dtype)));
  EXPECT(bias->rank == 2 && bias->dims[1] == p->width, "%s has shape %s, expected [experts, %jd]", bias_name,
         SHAPE_OF(bias), (intmax_t)p->width);
  TRY(op_expect_dtype(experts, experts_name, DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_shape(experts, experts_name, (const int64_t[]){p->n_tokens, p->n_choices}, 2));
  p->bias = combine_operand_of(bias, bias_operand, COMPUTE_F64);
  p->experts = combine_operand_of(experts, experts_operand, COMPUTE_I64);
  return ST_OK;
}

status prepare_moe_finalize(executor *e, const moe_finalize_args *a) {
  const tensor *index = a->expanded_row_idx, *scales = a->scales, *out = a->out;
  const int64_t mode = a->drop_pad_mode, choices = scales && scales->rank == 2 && scales->dims[1] ? scales->dims[1] : 1;
  tensor rows;
  combine_plan *p;
  EXPECT(mode >= 0 && mode <= 3, "dropPadMode is %jd, expected 0 to 3", (intmax_t)mode);
  TRY(as_matrix(a->expanded_x, "expandedX", &rows));
  TRY(combine_begin(e, &rows, "expandedX", index, "expandedRowIdx", a->view.expanded_row_idx, index->n / choices,
                    choices, mode < 2, out, &p));
  TRY(combine_set_skip(p, 0, a->x1, a->name.x1, a->view.x1, out));
  TRY(combine_set_skip(p, 1, a->x2, "x2Optional", a->view.x2, out));
  if (scales) {
    TRY(op_expect_dtype(scales, a->name.scales, DTYPES_FLOAT_TO_32));
    TRY(op_expect_shape(scales, a->name.scales, (const int64_t[]){p->n_tokens, choices}, 2));
    p->weights = combine_operand_of(scales, a->view.scales, COMPUTE_F64);
  }
  return combine_set_bias(p, a->bias, a->name.bias, a->view.bias, a->expert_idx, a->name.expert_idx,
                          MOE_FINALIZE_EXPERT_IDX, &rows);
}
