/* SPDX-License-Identifier: Apache-2.0 */
/* MoeReRouting: tokens that ranks have sent, which lie by rank and then by expert, are moved into the order of experts
 * and then of ranks, with their scales. */
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/moe/token_gather.h"
#include "kernel/move/check.h"

typedef struct {
  token_gather gather;
  int64_t n_ranks, n_experts, n_tokens;
  int64_t numbers[2], scales, scales_out, index, totals; /* strides in bytes */
  bool has_scales;
  load_loop *load;   /* numbers to int64 */
  store_loop *store; /* totals from int64 */
  uint64_t starts;   /* in scratch, int64 [ranks, experts]: the first token of each rank's expert */
} re_routing_plan;

static int64_t re_routing_number(const re_routing_plan *p, const char *numbers, int64_t rank, int64_t expert) {
  int64_t n;
  p->load(&n, numbers + rank * p->numbers[0] + expert * p->numbers[1], 0, 1);
  return n;
}

/* Fills starts. Fails unless the numbers, which are 0 or more, add up to that of the tokens. */
static status find_starts(const re_routing_plan *p, const char *numbers, int64_t *starts) {
  int64_t sum = 0;
  for (int64_t rank = 0; rank < p->n_ranks; ++rank)
    for (int64_t expert = 0; expert < p->n_experts; ++expert) {
      const int64_t n = re_routing_number(p, numbers, rank, expert);
      if (n < 0 || n > p->n_tokens - sum)
        return fail(ST_DEVICE_EXCEPTION, "expertTokenNumPerRank[%jd][%jd] is %jd, expected 0 to %jd, the tokens left",
                    (intmax_t)rank, (intmax_t)expert, (intmax_t)n, (intmax_t)(p->n_tokens - sum));
      starts[rank * p->n_experts + expert] = sum;
      sum += n;
    }
  if (sum == p->n_tokens) return ST_OK;
  return fail(ST_DEVICE_EXCEPTION, "expertTokenNumPerRank has a sum of %jd, expected %jd, the number of tokens",
              (intmax_t)sum, (intmax_t)p->n_tokens);
}

static status run_re_routing(const executor *e, void *const *view, void *scratch) {
  const re_routing_plan *p = e->heap;
  const char *const numbers = view[MOE_RE_ROUTING_EXPERT_TOKEN_NUM_PER_RANK];
  int64_t *const starts = (int64_t *)(void *)((char *)scratch + p->starts);
  int64_t *const tokens = token_gather_numbers(&p->gather, scratch);
  int64_t to = 0;
  TRY(find_starts(p, numbers, starts));
  for (int64_t expert = 0; expert < p->n_experts; ++expert) {
    const int64_t begin = to;
    for (int64_t rank = 0; rank < p->n_ranks; ++rank) {
      const int64_t n = re_routing_number(p, numbers, rank, expert), from = starts[rank * p->n_experts + expert];
      for (int64_t i = 0; i < n; ++i) tokens[to++] = from + i;
    }
    const int64_t total = to - begin;
    p->store((char *)view[MOE_RE_ROUTING_EXPERT_TOKEN_NUM_OUT] + expert * p->totals, 0, &total, 1);
  }
  for (int64_t i = 0; i < p->n_tokens; ++i) {
    *(int32_t *)(void *)((char *)view[MOE_RE_ROUTING_PERMUTE_TOKEN_IDX_OUT] + i * p->index) = (int32_t)tokens[i];
    if (p->has_scales)
      *(float *)(void *)((char *)view[MOE_RE_ROUTING_PERMUTE_PER_TOKEN_SCALES_OUT] + i * p->scales_out) =
          *(const float *)(const void *)((char *)view[MOE_RE_ROUTING_PER_TOKEN_SCALES] + tokens[i] * p->scales);
  }
  return token_gather_run(&p->gather, e, view, MOE_RE_ROUTING_PERMUTE_TOKENS_OUT, scratch);
}

static status plan_scales(re_routing_plan *p, const moe_re_routing_args *a) {
  const tensor *scales = a->per_token_scales, *out = a->permute_per_token_scales_out;
  if (!scales) return ST_OK;
  TRY(op_expect_dtype(scales, "perTokenScalesOptional", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_shape(scales, "perTokenScalesOptional", &p->n_tokens, 1));
  EXPECT(out, "permutePerTokenScalesOut is absent, expected a tensor beside perTokenScalesOptional");
  TRY(op_expect_like(out, "permutePerTokenScalesOut", scales));
  p->has_scales = true;
  p->scales = view_of(scales).strides[0];
  p->scales_out = view_of(out).strides[0];
  return ST_OK;
}

status prepare_moe_re_routing(executor *e, const moe_re_routing_args *a) {
  const tensor *tokens = a->tokens, *numbers = a->expert_token_num_per_rank, *out = a->permute_tokens_out;
  const tensor *index = a->permute_token_idx_out, *totals = a->expert_token_num_out;
  TRY(op_expect_dtype(tokens, "tokens", DTYPES_HALF | DTYPE_BIT(ACL_INT8)));
  TRY(op_expect_rank(tokens, "tokens", 2, 2));
  TRY(op_expect_dtype(numbers, "expertTokenNumPerRank", DTYPES_INDEX));
  TRY(op_expect_rank(numbers, "expertTokenNumPerRank", 2, 2));
  EXPECT(a->expert_token_num_type == 1, "expertTokenNumType is %jd, expected 1, as CANN supports no other value",
         (intmax_t)a->expert_token_num_type);
  EXPECT(a->idx_type == 0, "idxType is %jd, expected 0, as CANN supports no other value", (intmax_t)a->idx_type);
  TRY(op_expect_like(out, "permuteTokensOut", tokens));
  HEAP_PLAN(re_routing_plan, p, e, sizeof *p);
  const view v = view_of(numbers);
  p->n_tokens = tokens->dims[0];
  p->n_ranks = v.dims[0];
  p->n_experts = v.dims[1];
  p->numbers[0] = v.strides[0];
  p->numbers[1] = v.strides[1];
  TRY(plan_scales(p, a));
  TRY(op_expect_dtype(index, "permuteTokenIdxOut", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_shape(index, "permuteTokenIdxOut", &p->n_tokens, 1));
  TRY(op_expect_dtype(totals, "expertTokenNumOut", DTYPE_BIT(numbers->dtype)));
  TRY(op_expect_shape(totals, "expertTokenNumOut", &p->n_experts, 1));
  p->index = view_of(index).strides[0];
  p->totals = view_of(totals).strides[0];
  p->load = loops->load[numbers->dtype][COMPUTE_I64];
  p->store = loops->store[numbers->dtype][COMPUTE_I64];
  p->starts = workspace_intermediate(e, (uint64_t)numbers->n * sizeof(int64_t));
  token_gather_plan(e, &p->gather, tokens, out, "expertTokenNumPerRank", p->n_tokens);
  e->run = run_re_routing;
  return ST_OK;
}
