/* SPDX-License-Identifier: Apache-2.0 */
/* Permuting tokens into the order of their experts: MoeTokenPermute and MoeInitRouting; and MoeComputeExpertTokens,
 * which counts tokens per expert. A slot is a pair (token, choice). The expert numbers are sorted stably together with
 * the numbers of their slots; then the rows of the tokens are gathered in this order. */
#include <stdlib.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/moe/slots.h"
#include "kernel/moe/token_gather.h"
#include "kernel/move/check.h"

typedef struct {
  slot_sort sort;
  token_gather gather;
  view slots; /* rowIdx of MoeInitRouting */
} routing_plan;

/* ---- MoeTokenPermute --------------------------------------------------------------------------------------------- */

static status run_permute(const executor *e, void *const *view, void *scratch) {
  const routing_plan *p = e->heap;
  const int64_t choices = p->sort.experts.rank > 1 ? p->sort.experts.dims[1] : 1;
  int64_t *const numbers = token_gather_numbers(&p->gather, scratch);
  const int32_t *const order = slots_sort(&p->sort, view[MOE_PERMUTE_INDICES], scratch);
  int32_t *const places_of_slots = view[MOE_PERMUTE_SORTED_INDICES_OUT];
  for (int64_t k = 0; k < p->sort.n; ++k) {
    numbers[k] = order[k] / choices;
    places_of_slots[order[k]] = (int32_t)k;
  }
  return token_gather_run(&p->gather, e, view, MOE_PERMUTE_PERMUTE_TOKENS_OUT, scratch);
}

/* (tokens [n, width...], indices [n] or [n, choices], numOutTokens, paddedMode, permuteTokensOut,
 * sortedIndicesOut). permuteTokensOut gets the tokens of the first slots in the order of their experts:
 * numOutTokens of them if it is positive, all if it is 0, and all but the last -numOutTokens if it is negative.
 * sortedIndicesOut gets each slot's sorted position. */
status prepare_moe_permute(executor *e, const moe_permute_args *a) {
  const tensor *tokens = a->tokens, *indices = a->indices, *out = a->permute_tokens_out,
               *sorted = a->sorted_indices_out;
  const int64_t asked = a->num_out_tokens, n = indices->n;
  int64_t dims[MAX_RANK];
  TRY(op_expect_dtype(tokens, "tokens", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(tokens, "tokens", 2, MAX_RANK));
  TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
  EXPECT((indices->rank == 1 || indices->rank == 2) && indices->dims[0] == tokens->dims[0],
         "indices has shape %s, expected [%jd] or [%jd, choices]", SHAPE_OF(indices), (intmax_t)tokens->dims[0],
         (intmax_t)tokens->dims[0]);
  EXPECT(!a->padded_mode, "paddedMode is true, expected false, as CANN supports no other value");
  int64_t kept = asked > 0 ? asked : n + asked;
  kept = kept < 0 ? 0 : kept < n ? kept : n;
  TRY(op_expect_dtype(out, "permuteTokensOut", DTYPE_BIT(tokens->dtype)));
  memcpy(dims, tokens->dims, sizeof dims);
  dims[0] = kept;
  TRY(op_expect_shape(out, "permuteTokensOut", dims, tokens->rank));
  TRY(op_expect_dtype(sorted, "sortedIndicesOut", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_shape(sorted, "sortedIndicesOut", &n, 1));
  EXPECT(sorted->contiguous, "sortedIndicesOut has gaps, expected none");
  HEAP_PLAN(routing_plan, p, e, sizeof *p);
  slots_plan(e, &p->sort, indices);
  token_gather_plan(e, &p->gather, tokens, out, "indices", n);
  e->run = n ? run_permute : move_run_nothing;
  return ST_OK;
}

/* ---- MoeInitRouting ---------------------------------------------------------------------------------------------- */

static status run_init_routing(const executor *e, void *const *view, void *scratch) {
  const routing_plan *p = e->heap;
  const int64_t choices = p->slots.dims[1], n_tokens = p->slots.dims[0];
  int64_t *const numbers = token_gather_numbers(&p->gather, scratch);
  const int32_t *const order = slots_sort(&p->sort, view[MOE_INIT_ROUTING_EXPERT_IDX], scratch);
  int32_t *const rows_out = view[MOE_INIT_ROUTING_EXPANDED_ROW_IDX_OUT];
  memcpy(view[MOE_INIT_ROUTING_EXPANDED_EXPERT_IDX_OUT], (char *)scratch + p->sort.keys,
         (size_t)p->sort.n * sizeof(int32_t));
  for (int64_t k = 0; k < p->sort.n; ++k) {
    const int64_t i = order[k] / choices, j = order[k] % choices;
    const char *at = (char *)view[MOE_INIT_ROUTING_ROW_IDX] + i * p->slots.strides[0] + j * p->slots.strides[1];
    const int32_t row = *(const int32_t *)(const void *)at;
    if (row < 0 || row >= p->sort.n) return places_fail("rowIdx", order[k], row, 0, p->sort.n - 1);
    numbers[k] = row % n_tokens;
    rows_out[row] = (int32_t)k;
  }
  return token_gather_run(&p->gather, e, view, MOE_INIT_ROUTING_EXPANDED_X_OUT, scratch);
}

/* (x [n, width], rowIdx and expertIdx [n, choices], activeNum, expandedXOut, expandedRowIdxOut, expandedExpertIdxOut).
 * rowIdx numbers the slots; its value modulo n is the token. Tokens of the first min(activeNum, n) * choices slots, in
 * the order of their experts, are written. */
static status expect_slots(const tensor *t, const char *name, int64_t n) {
  TRY(op_expect_dtype(t, name, DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_shape(t, name, &n, 1));
  EXPECT(t->contiguous, "%s has gaps, expected none", name);
  return ST_OK;
}

status prepare_moe_init_routing(executor *e, const moe_init_routing_args *a) {
  const tensor *x = a->x, *rows = a->row_idx, *experts = a->expert_idx;
  const int64_t active = a->active_num;
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(x, "x", 2, 2));
  TRY(op_expect_dtype(experts, "expertIdx", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_rank(experts, "expertIdx", 2, 2));
  TRY(op_expect_shape(experts, "expertIdx", (const int64_t[]){x->dims[0], experts->dims[1]}, 2));
  TRY(op_expect_dtype(rows, "rowIdx", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_shape(rows, "rowIdx", experts->dims, 2));
  EXPECT(active >= 0, "activeNum is %jd, expected 0 or more", (intmax_t)active);
  const int64_t n_active = i64_min(active, x->dims[0]) * experts->dims[1];
  TRY(op_expect_dtype(a->expanded_x_out, "expandedXOut", DTYPE_BIT(x->dtype)));
  TRY(op_expect_shape(a->expanded_x_out, "expandedXOut", (const int64_t[]){n_active, x->dims[1]}, 2));
  TRY(expect_slots(a->expanded_row_idx_out, "expandedRowIdxOut", experts->n));
  TRY(expect_slots(a->expanded_expert_idx_out, "expandedExpertIdxOut", experts->n));
  HEAP_PLAN(routing_plan, p, e, sizeof *p);
  slots_plan(e, &p->sort, experts);
  token_gather_plan(e, &p->gather, x, a->expanded_x_out, "rowIdx", experts->n);
  p->slots = view_of(rows);
  e->run = experts->n ? run_init_routing : move_run_nothing;
  return ST_OK;
}

/* ---- MoeComputeExpertTokens -------------------------------------------------------------------------------------- */

typedef struct {
  int64_t n, n_experts, step, to;
} expert_tokens_plan;

/* For each expert, counts the elements of the sorted vector that are not larger (binary search). */
static status run_expert_tokens(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const expert_tokens_plan *p = PLAN(e, expert_tokens_plan);
  for (int64_t expert = 0, low = 0; expert < p->n_experts; ++expert) {
    int64_t high = p->n;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (*(const int32_t *)(const void *)((char *)view[MOE_EXPERT_TOKENS_SORTED_EXPERTS] + middle * p->step) <= expert)
        low = middle + 1;
      else
        high = middle;
    }
    *(int32_t *)(void *)((char *)view[MOE_EXPERT_TOKENS_OUT] + expert * p->to) = (int32_t)low;
  }
  return ST_OK;
}

status prepare_moe_expert_tokens(executor *e, const moe_expert_tokens_args *a) {
  const tensor *experts = a->sorted_experts, *out = a->out;
  const int64_t n_experts = a->num_experts;
  TRY(op_expect_dtype(experts, "sortedExperts", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_rank(experts, "sortedExperts", 1, 1));
  EXPECT(n_experts > 0, "numExperts is %jd, expected more than 0", (intmax_t)n_experts);
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_shape(out, "out", &n_experts, 1));
  *PLAN(e, expert_tokens_plan) =
      (expert_tokens_plan){experts->n, n_experts, view_of(experts).strides[0], view_of(out).strides[0]};
  executor_cost(e, (uint64_t)(n_experts * 64), (uint64_t)n_experts * 256);
  e->run = run_expert_tokens;
  return ST_OK;
}
