/* SPDX-License-Identifier: Apache-2.0 */
/* MoeTokenPermuteWithRoutingMap: gathers rows of tokens in the order of a map of tokens to experts (routing_map.h).
 * MoeTokenPermuteWithRoutingMapGrad: adds the gradients of a token's rows. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/moe/combine.h"
#include "kernel/moe/routing_map.h"
#include "kernel/moe/token_gather.h"
#include "kernel/move/check.h"

/* Checks a probability's dtype: that of the tokens, or float32 beside bfloat16. */
static status expect_probs_dtype(const tensor *probs, const char *name, const tensor *tokens) {
  const uint64_t wider = tokens->dtype == ACL_BF16 ? DTYPE_BIT(ACL_FLOAT) : 0;
  return op_expect_dtype(probs, name, DTYPE_BIT(tokens->dtype) | wider);
}

/* ---- MoeTokenPermuteWithRoutingMap ------------------------------------------------------------------------------- */

typedef struct {
  routing_map map;
  token_gather gather;
  bool has_probs;
  int64_t probs[2], probs_out, sorted; /* strides in bytes */
  size_t probs_bytes;                  /* of an element */
} map_permute_plan;

static status run_map_permute(const executor *e, void *const *view, void *scratch) {
  const map_permute_plan *p = e->heap;
  const routing_map *m = &p->map;
  TRY(routing_map_sort(m, view[MOE_MAP_PERMUTE_ROUTING_MAP], "routingMap", true, scratch));
  const int64_t *const cells = routing_map_cells(m, scratch), *const rows = routing_map_rows(m, scratch);
  int64_t *const numbers = token_gather_numbers(&p->gather, scratch);
  char *const sorted = view[MOE_MAP_PERMUTE_SORTED_INDICES_OUT];
  for (int64_t row = 0; row < m->n_rows; ++row) {
    numbers[row] = cells[row] / m->n_experts;
    *(int32_t *)(void *)(sorted + row * p->sorted) = (int32_t)(m->padded ? numbers[row] : rows[row]);
    if (p->has_probs)
      memcpy((char *)view[MOE_MAP_PERMUTE_PERMUTE_PROBS_OUT] + row * p->probs_out,
             routing_map_cell(m, view[MOE_MAP_PERMUTE_PROBS], p->probs, cells[row]), p->probs_bytes);
  }
  return token_gather_run(&p->gather, e, view, MOE_MAP_PERMUTE_PERMUTE_TOKENS_OUT, scratch);
}

static status plan_permute_probs(map_permute_plan *p, const moe_map_permute_args *a) {
  const tensor *probs = a->probs, *out = a->permute_probs_out;
  if (!probs) return ST_OK;
  TRY(expect_probs_dtype(probs, "probsOptional", a->tokens));
  TRY(op_expect_same_shape(probs, "probsOptional", a->routing_map));
  EXPECT(out, "permuteProbsOutOptional is absent, expected a tensor beside probsOptional");
  TRY(op_expect_dtype(out, "permuteProbsOutOptional", DTYPE_BIT(probs->dtype)));
  TRY(op_expect_shape(out, "permuteProbsOutOptional", &p->map.n_rows, 1));
  p->has_probs = true;
  p->probs_bytes = dtype_bytes(probs->dtype);
  const view v = view_of(probs);
  p->probs[0] = v.strides[0];
  p->probs[1] = v.strides[1];
  p->probs_out = view_of(out).strides[0];
  return ST_OK;
}

status prepare_moe_map_permute(executor *e, const moe_map_permute_args *a) {
  const tensor *tokens = a->tokens, *map = a->routing_map, *out = a->permute_tokens_out,
               *sorted = a->sorted_indices_out;
  const int64_t asked = a->num_out_tokens;
  TRY(op_expect_dtype(tokens, "tokens", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(tokens, "tokens", 2, 2));
  TRY(op_expect_rank(map, "routingMap", 2, 2));
  EXPECT(asked >= 0 && asked <= map->n, "numOutTokens is %jd, expected 0 to %jd, the elements of routingMap",
         (intmax_t)asked, (intmax_t)map->n);
  const int64_t n_tokens = tokens->dims[0], n_experts = map->dims[1], parts = a->drop_and_pad ? n_experts : n_tokens;
  const int64_t n_rows = parts ? asked / parts * parts : 0;
  HEAP_PLAN(map_permute_plan, p, e, sizeof *p);
  TRY(routing_map_plan(e, &p->map, n_tokens, n_experts, n_rows, a->drop_and_pad, "permuteTokensOut"));
  TRY(routing_map_expect(&p->map, map, "routingMap"));
  TRY(op_expect_dtype(out, "permuteTokensOut", DTYPE_BIT(tokens->dtype)));
  TRY(op_expect_shape(out, "permuteTokensOut", (const int64_t[]){n_rows, tokens->dims[1]}, 2));
  TRY(plan_permute_probs(p, a));
  TRY(op_expect_dtype(sorted, "sortedIndicesOut", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_shape(sorted, "sortedIndicesOut", &n_rows, 1));
  p->sorted = view_of(sorted).strides[0];
  token_gather_plan(e, &p->gather, tokens, out, "routingMap", n_rows);
  e->run = n_rows ? run_map_permute : move_run_nothing;
  return ST_OK;
}

/* ---- MoeTokenPermuteWithRoutingMapGrad --------------------------------------------------------------------------- */

enum { LIST_ROWS = MOE_MAP_PERMUTE_GRAD_PROBS_GRAD_OUT + 1, VIEWS }; /* behind the operands: the rows of all tokens */

typedef struct {
  routing_map map;
  combine_plan sum;
  bool has_probs;
  int64_t sorted, probs, probs_out[2]; /* strides in bytes */
  size_t probs_bytes;
} map_permute_grad_plan;

/* The gradient of each probability is that of the row that it was copied to, or 0. */
static status spread_probs(const map_permute_grad_plan *p, void *const *view, void *scratch) {
  const routing_map *m = &p->map;
  void *const out = view[MOE_MAP_PERMUTE_GRAD_PROBS_GRAD_OUT];
  if (m->padded)
    TRY(routing_map_cells_of_tokens(m, view[MOE_MAP_PERMUTE_GRAD_SORTED_INDICES], p->sorted, "sortedIndices", scratch));
  else
    TRY(routing_map_sort(m, view[MOE_MAP_PERMUTE_GRAD_ROUTING_MAP], "routingMapOptional", true, scratch));
  const int64_t *const cells = routing_map_cells(m, scratch);
  for (int64_t cell = 0; cell < m->n_tokens * m->n_experts; ++cell)
    memset(routing_map_cell(m, out, p->probs_out, cell), 0, p->probs_bytes);
  for (int64_t row = 0; row < m->n_rows; ++row)
    memcpy(routing_map_cell(m, out, p->probs_out, cells[row]),
           (char *)view[MOE_MAP_PERMUTE_GRAD_PERMUTED_PROBS_OUTPUT_GRAD] + row * p->probs, p->probs_bytes);
  return ST_OK;
}

static status run_map_permute_grad(const executor *e, void *const *view, void *scratch) {
  const map_permute_grad_plan *p = e->heap;
  void *views[VIEWS];
  if (p->has_probs) TRY(spread_probs(p, view, scratch));
  TRY(routing_map_lists(&p->map, view[MOE_MAP_PERMUTE_GRAD_SORTED_INDICES], p->sorted, "sortedIndices", scratch));
  for (int i = 0; i < LIST_ROWS; ++i) views[i] = view[i];
  views[LIST_ROWS] = routing_map_rows(&p->map, scratch);
  return combine_run(&p->sum, views, routing_map_starts(&p->map, scratch), e->cost_ns);
}

static status plan_grad_probs(map_permute_grad_plan *p, const moe_map_permute_grad_args *a) {
  const tensor *grad = a->permuted_probs_output_grad, *map = a->routing_map, *out = a->probs_grad_out;
  if (map) TRY(routing_map_expect(&p->map, map, "routingMapOptional"));
  if (!grad) return ST_OK;
  TRY(expect_probs_dtype(grad, "permutedProbsOutputGradOptional", a->permuted_tokens_output_grad));
  TRY(op_expect_shape(grad, "permutedProbsOutputGradOptional", &p->map.n_rows, 1));
  EXPECT(map || p->map.padded,
         "routingMapOptional is absent, expected a tensor beside permutedProbsOutputGradOptional");
  EXPECT(out, "probsGradOutOptional is absent, expected a tensor beside permutedProbsOutputGradOptional");
  TRY(op_expect_dtype(out, "probsGradOutOptional", DTYPE_BIT(grad->dtype)));
  TRY(op_expect_shape(out, "probsGradOutOptional", (const int64_t[]){p->map.n_tokens, p->map.n_experts}, 2));
  p->has_probs = true;
  p->probs_bytes = dtype_bytes(grad->dtype);
  p->probs = view_of(grad).strides[0];
  const view to = view_of(out);
  p->probs_out[0] = to.strides[0];
  p->probs_out[1] = to.strides[1];
  return ST_OK;
}

status prepare_moe_map_permute_grad(executor *e, const moe_map_permute_grad_args *a) {
  const tensor *grad = a->permuted_tokens_output_grad, *sorted = a->sorted_indices, *out = a->tokens_grad_out;
  const int64_t n_tokens = a->tokens_num, n_experts = a->experts_num;
  TRY(op_expect_dtype(grad, "permutedTokensOutputGrad", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(grad, "permutedTokensOutputGrad", 2, 2));
  EXPECT(n_tokens >= 0, "tokens_num is %jd, expected 0 or more", (intmax_t)n_tokens);
  EXPECT(n_experts >= 0, "experts_num is %jd, expected 0 or more", (intmax_t)n_experts);
  HEAP_PLAN(map_permute_grad_plan, p, e, sizeof *p);
  TRY(op_expect_dtype(out, "tokensGradOut", DTYPE_BIT(grad->dtype)));
  TRY(op_expect_shape(out, "tokensGradOut", (const int64_t[]){n_tokens, grad->dims[1]}, 2));
  TRY(routing_map_plan(e, &p->map, n_tokens, n_experts, grad->dims[0], a->drop_and_pad, "permutedTokensOutputGrad"));
  TRY(op_expect_dtype(sorted, "sortedIndices", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_shape(sorted, "sortedIndices", grad->dims, 1));
  p->sorted = view_of(sorted).strides[0];
  TRY(plan_grad_probs(p, a));
  combine_plan_lists(&p->sum, grad, out, MOE_MAP_PERMUTE_GRAD_TOKENS_GRAD_OUT, LIST_ROWS, ABSENT);
  executor_cost(e, (uint64_t)(grad->n + out->n) * dtype_bytes(out->dtype), (uint64_t)grad->n * 4);
  e->run = n_tokens ? run_map_permute_grad : move_run_nothing;
  return ST_OK;
}
