/* SPDX-License-Identifier: Apache-2.0 */
/* MoeTokenUnpermuteWithRoutingMap: adds the rows of each token, times their probabilities, where a map of tokens to
 * experts orders the rows (routing_map.h). MoeTokenUnpermuteWithRoutingMapGrad: its gradients. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/moe/combine.h"
#include "kernel/moe/routing_map.h"
#include "kernel/moe/unpermute_grad.h"
#include "kernel/move/check.h"

/* A row of the map without a cell, or a list's row that does not exist, has the weight 0. */
static void map_load_weights(const routing_map *m, load_loop *load, void *probs, const int64_t *strides, void *scratch,
                             double *weights) {
  const int64_t *const cells = routing_map_cells(m, scratch);
  for (int64_t row = 0; row < m->n_rows; ++row) {
    weights[row] = 0;
    if (cells[row] >= 0) load(&weights[row], routing_map_cell(m, probs, strides, cells[row]), 0, 1);
  }
}

static int64_t column_step(const tensor *t) { return view_of(t).strides[0]; }

/* Checks one of the vectors of int32 that have an element for each row. */
static status expect_rows(const tensor *t, const char *name, int64_t n_rows) {
  TRY(op_expect_dtype(t, name, DTYPE_BIT(ACL_INT32)));
  return op_expect_shape(t, name, &n_rows, 1);
}

/* Checks the sizes that the shape of the unpermuted tokens has again. */
static status expect_restore_shape(const aclIntArray *shape, const tensor *t) {
  if (!shape) return ST_OK;
  TRY(op_expect_size(shape->size, "restoreShapeOptional", 2));
  for (int d = 0; d < 2; ++d)
    EXPECT(shape->value[d] == t->dims[d], "restoreShapeOptional[%d] is %jd, expected %jd", d, (intmax_t)shape->value[d],
           (intmax_t)t->dims[d]);
  return ST_OK;
}

/* ---- MoeTokenUnpermuteWithRoutingMap ----------------------------------------------------------------------------- */

/* Behind the operands: the rows of all tokens, and their weights. */
enum { LIST_ROWS = MOE_MAP_UNPERMUTE_PERMUTE_PROBS + 1, LIST_WEIGHTS, VIEWS };

typedef struct {
  routing_map map;
  combine_plan sum;
  bool has_probs;
  int64_t sorted, probs[2], out_index, token_id, probs_out; /* strides in bytes */
  load_loop *load;
  store_loop *store;
  uint64_t weights, row_weights; /* in scratch, doubles: in the order of lists, and of rows */
} map_unpermute_plan;

static status weigh_lists(const map_unpermute_plan *p, void *const *view, void *scratch) {
  const routing_map *m = &p->map;
  double *const by_row = (double *)(void *)((char *)scratch + p->row_weights);
  if (m->padded)
    TRY(routing_map_cells_of_tokens(m, view[MOE_MAP_UNPERMUTE_SORTED_INDICES], p->sorted, "sortedIndices", scratch));
  else
    TRY(routing_map_sort(m, view[MOE_MAP_UNPERMUTE_ROUTING_MAP], "routingMapOptional", false, scratch));
  map_load_weights(m, p->load, view[MOE_MAP_UNPERMUTE_PROBS], p->probs, scratch, by_row);
  p->store(view[MOE_MAP_UNPERMUTE_PERMUTE_PROBS], p->probs_out, by_row, m->n_rows);
  TRY(routing_map_lists(m, view[MOE_MAP_UNPERMUTE_SORTED_INDICES], p->sorted, "sortedIndices", scratch));
  const int64_t *const rows = routing_map_rows(m, scratch);
  double *const weights = (double *)(void *)((char *)scratch + p->weights);
  for (int64_t i = 0; i < m->n_rows; ++i) weights[i] = rows[i] >= 0 && rows[i] < m->n_rows ? by_row[rows[i]] : 0;
  return ST_OK;
}

/* With padding, the rows in the order of their tokens, and these tokens. */
static void store_order(const map_unpermute_plan *p, void *const *view, void *scratch) {
  const int64_t *const starts = routing_map_starts(&p->map, scratch), *const rows = routing_map_rows(&p->map, scratch);
  char *const out_index = view[MOE_MAP_UNPERMUTE_OUT_INDEX], *const token_id = view[MOE_MAP_UNPERMUTE_PERMUTE_TOKEN_ID];
  for (int64_t token = 0; token < p->map.n_tokens; ++token)
    for (int64_t i = starts[token]; i < starts[token + 1]; ++i) {
      *(int32_t *)(void *)(out_index + i * p->out_index) = (int32_t)rows[i];
      *(int32_t *)(void *)(token_id + i * p->token_id) = (int32_t)token;
    }
}

static status run_map_unpermute(const executor *e, void *const *view, void *scratch) {
  const map_unpermute_plan *p = e->heap;
  void *views[VIEWS];
  if (p->has_probs)
    TRY(weigh_lists(p, view, scratch));
  else
    TRY(routing_map_lists(&p->map, view[MOE_MAP_UNPERMUTE_SORTED_INDICES], p->sorted, "sortedIndices", scratch));
  if (p->map.padded) store_order(p, view, scratch);
  for (int i = 0; i < LIST_ROWS; ++i) views[i] = view[i];
  views[LIST_ROWS] = routing_map_rows(&p->map, scratch);
  views[LIST_WEIGHTS] = (char *)scratch + p->weights;
  return combine_run(&p->sum, views, routing_map_starts(&p->map, scratch), e->cost_ns);
}

static status plan_unpermute_probs(executor *e, map_unpermute_plan *p, const moe_map_unpermute_args *a) {
  const tensor *probs = a->probs, *map = a->routing_map, *out = a->permute_probs;
  const routing_map *m = &p->map;
  if (map) TRY(routing_map_expect(&p->map, map, "routingMapOptional"));
  if (!probs) return ST_OK;
  TRY(op_expect_dtype(probs, "probsOptional", DTYPE_BIT(a->permuted_tokens->dtype)));
  TRY(op_expect_shape(probs, "probsOptional", (const int64_t[]){m->n_tokens, m->n_experts}, 2));
  EXPECT(map || m->padded, "routingMapOptional is absent, expected a tensor beside probsOptional");
  EXPECT(out, "permuteProbs is absent, expected a tensor beside probsOptional");
  TRY(op_expect_dtype(out, "permuteProbs", DTYPE_BIT(probs->dtype)));
  TRY(op_expect_shape(out, "permuteProbs", &m->n_rows, 1));
  p->has_probs = true;
  p->load = loops->load[probs->dtype][COMPUTE_F64];
  p->store = loops->store[probs->dtype][COMPUTE_F64];
  matrix_strides(probs, p->probs);
  p->probs_out = column_step(out);
  p->weights = workspace_intermediate(e, (uint64_t)m->n_rows * sizeof(double));
  p->row_weights = workspace_intermediate(e, (uint64_t)m->n_rows * sizeof(double));
  return ST_OK;
}

status prepare_moe_map_unpermute(executor *e, const moe_map_unpermute_args *a) {
  const tensor *rows = a->permuted_tokens, *out = a->unpermuted_tokens, *map = a->routing_map, *probs = a->probs;
  TRY(op_expect_dtype(rows, "permutedTokens", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(rows, "permutedTokens", 2, 2));
  TRY(op_expect_dtype(out, "unpermutedTokens", DTYPE_BIT(rows->dtype)));
  TRY(op_expect_rank(out, "unpermutedTokens", 2, 2));
  TRY(op_expect_shape(out, "unpermutedTokens", (const int64_t[]){out->dims[0], rows->dims[1]}, 2));
  TRY(expect_restore_shape(a->restore_shape, out));
  if (map) TRY(op_expect_rank(map, "routingMapOptional", 2, 2));
  if (probs) TRY(op_expect_rank(probs, "probsOptional", 2, 2));
  const int64_t n_rows = rows->dims[0], n_experts = probs ? probs->dims[1] : map ? map->dims[1] : -1;
  HEAP_PLAN(map_unpermute_plan, p, e, sizeof *p);
  TRY(routing_map_plan(e, &p->map, out->dims[0], n_experts, n_rows, a->padded_mode, "permutedTokens"));
  TRY(expect_rows(a->sorted_indices, "sortedIndices", n_rows));
  TRY(expect_rows(a->out_index, "outIndex", n_rows));
  TRY(expect_rows(a->permute_token_id, "permuteTokenId", n_rows));
  p->sorted = column_step(a->sorted_indices);
  p->out_index = column_step(a->out_index);
  p->token_id = column_step(a->permute_token_id);
  TRY(plan_unpermute_probs(e, p, a));
  combine_plan_lists(&p->sum, rows, out, MOE_MAP_UNPERMUTE_UNPERMUTED_TOKENS, LIST_ROWS, probs ? LIST_WEIGHTS : ABSENT);
  executor_cost(e, (uint64_t)(rows->n + out->n) * dtype_bytes(out->dtype), (uint64_t)rows->n * 4);
  e->run = out->dims[0] ? run_map_unpermute : move_run_nothing;
  return ST_OK;
}

/* ---- MoeTokenUnpermuteWithRoutingMapGrad ------------------------------------------------------------------------- */

typedef struct {
  routing_map map;
  unpermute_grad_plan grad;
  int64_t out_index, token_id; /* strides in bytes */
  uint64_t tokens;             /* in scratch, int64: of each row, -1: none */
  uint64_t weights, products;  /* in scratch, doubles: of each row; its dot product with the token's gradient */
} map_unpermute_grad_plan;

typedef struct {
  unpermute_grad_job grad;
  const int64_t *tokens;
  const double *weights;
  double *products;
} map_unpermute_grad_job;

/* Fills the tokens of all rows. Without padding, a place in outIndex belongs to the token by its number; a value there
 * that is no row is skipped. */
static status find_tokens(const map_unpermute_grad_plan *p, void *const *view, int64_t *tokens) {
  const routing_map *m = &p->map;
  const char *const rows = view[MOE_MAP_UNPERMUTE_GRAD_OUT_INDEX];
  const char *const ids = view[MOE_MAP_UNPERMUTE_GRAD_PERMUTE_TOKEN_ID];
  for (int64_t row = 0; row < m->n_rows; ++row) tokens[row] = -1;
  for (int64_t i = 0; i < m->n_rows; ++i) {
    const int64_t row = *(const int32_t *)(const void *)(rows + i * p->out_index);
    const int64_t token = m->padded ? *(const int32_t *)(const void *)(ids + i * p->token_id) : i / m->choices;
    if (m->padded && (token < 0 || token >= m->n_tokens))
      return places_fail("permuteTokenId", i, token, 0, m->n_tokens - 1);
    if (row >= 0 && row < m->n_rows)
      tokens[row] = token;
    else if (m->padded)
      return places_fail("outIndex", i, row, 0, m->n_rows - 1);
  }
  return ST_OK;
}

static void spread_rows(const void *arg, int64_t begin, int64_t end) {
  const map_unpermute_grad_job *j = arg;
  for (int64_t row = begin; row < end; ++row)
    if (j->tokens[row] < 0)
      unpermute_grad_clear(&j->grad, row, row + 1);
    else
      j->products[row] = unpermute_grad_row(&j->grad, j->tokens[row], row, 0, j->weights[row]);
}

/* The gradient of each probability is the product of its row, or 0. */
static void store_products(const map_unpermute_grad_plan *p, void *const *view, const int64_t *tokens,
                           const int64_t *cells, const double *products) {
  static const double zero;
  const routing_map *m = &p->map;
  void *const out = view[MOE_MAP_UNPERMUTE_GRAD_PROBS_GRAD_OUT];
  for (int64_t cell = 0; cell < m->n_tokens * m->n_experts; ++cell)
    p->grad.store_probs(routing_map_cell(m, out, p->grad.probs_out, cell), 0, &zero, 1);
  for (int64_t row = 0; row < m->n_rows; ++row)
    if (tokens[row] >= 0 && cells[row] >= 0)
      p->grad.store_probs(routing_map_cell(m, out, p->grad.probs_out, cells[row]), 0, &products[row], 1);
}

static status run_map_unpermute_grad(const executor *e, void *const *view, void *scratch) {
  const map_unpermute_grad_plan *p = e->heap;
  const routing_map *m = &p->map;
  int64_t *const tokens = (int64_t *)(void *)((char *)scratch + p->tokens), *const cells =
                                                                                routing_map_cells(m, scratch);
  double *const weights = (double *)(void *)((char *)scratch + p->weights);
  double *const products = (double *)(void *)((char *)scratch + p->products);
  TRY(find_tokens(p, view, tokens));
  for (int64_t row = 0; row < m->n_rows; ++row) weights[row] = 1;
  if (p->grad.has_probs) {
    if (m->padded)
      for (int64_t row = 0; row < m->n_rows; ++row)
        cells[row] = tokens[row] < 0 ? -1 : tokens[row] * m->n_experts + row / m->capacity;
    else
      TRY(routing_map_sort(m, view[MOE_MAP_UNPERMUTE_GRAD_ROUTING_MAP], "routingMapOptional", false, scratch));
    map_load_weights(m, p->grad.load_probs, view[MOE_MAP_UNPERMUTE_GRAD_PROBS], p->grad.probs, scratch, weights);
  }
  const map_unpermute_grad_job job = {
      .grad = {.plan = &p->grad, .view = view}, .tokens = tokens, .weights = weights, .products = products};
  rows_parallel(spread_rows, &job, m->n_rows, 1, e->cost_ns);
  if (p->grad.has_probs) store_products(p, view, tokens, cells, products);
  return ST_OK;
}

static status plan_unpermute_grad_probs(map_unpermute_grad_plan *p, const moe_map_unpermute_grad_args *a) {
  const tensor *probs = a->probs, *map = a->routing_map, *tokens = a->permuted_tokens, *out = a->probs_grad_out;
  const int dtype = a->unpermuted_tokens_grad->dtype;
  if (map) TRY(routing_map_expect(&p->map, map, "routingMapOptional"));
  if (!probs) return ST_OK;
  TRY(op_expect_dtype(probs, "probsOptional", DTYPE_BIT(dtype)));
  TRY(op_expect_shape(probs, "probsOptional", (const int64_t[]){p->map.n_tokens, p->map.n_experts}, 2));
  EXPECT(map || p->map.padded, "routingMapOptional is absent, expected a tensor beside probsOptional");
  EXPECT(tokens, "permutedTokensOptional is absent, expected a tensor beside probsOptional");
  TRY(op_expect_dtype(tokens, "permutedTokensOptional", DTYPE_BIT(dtype)));
  TRY(op_expect_same_shape(tokens, "permutedTokensOptional", a->permuted_tokens_grad_out));
  EXPECT(out, "probsGradOutOptional is absent, expected a tensor beside probsOptional");
  TRY(op_expect_dtype(out, "probsGradOutOptional", DTYPE_BIT(dtype)));
  TRY(op_expect_same_shape(out, "probsGradOutOptional", probs));
  p->grad.has_probs = true;
  p->grad.load_probs = loops->load[dtype][COMPUTE_F64];
  p->grad.store_probs = loops->store[dtype][COMPUTE_F64];
  matrix_strides(tokens, p->grad.tokens);
  matrix_strides(probs, p->grad.probs);
  matrix_strides(out, p->grad.probs_out);
  return ST_OK;
}

status prepare_moe_map_unpermute_grad(executor *e, const moe_map_unpermute_grad_args *a) {
  const tensor *grad = a->unpermuted_tokens_grad, *index = a->out_index, *map = a->routing_map, *probs = a->probs;
  const tensor *out = a->permuted_tokens_grad_out;
  TRY(op_expect_dtype(grad, "unpermutedTokensGrad", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(grad, "unpermutedTokensGrad", 2, 2));
  TRY(op_expect_rank(index, "outIndex", 1, 1));
  if (a->drop_and_pad) TRY(expect_restore_shape(a->restore_shape, grad));
  if (map) TRY(op_expect_rank(map, "routingMapOptional", 2, 2));
  if (probs) TRY(op_expect_rank(probs, "probsOptional", 2, 2));
  const int64_t n_rows = index->n, n_experts = probs ? probs->dims[1] : map ? map->dims[1] : -1;
  HEAP_PLAN(map_unpermute_grad_plan, p, e, sizeof *p);
  TRY(routing_map_plan(e, &p->map, grad->dims[0], n_experts, n_rows, a->drop_and_pad, "outIndex"));
  TRY(expect_rows(index, "outIndex", n_rows));
  TRY(expect_rows(a->permute_token_id, "permuteTokenId", n_rows));
  TRY(op_expect_dtype(out, "permutedTokensGradOut", DTYPE_BIT(grad->dtype)));
  TRY(op_expect_shape(out, "permutedTokensGradOut", (const int64_t[]){n_rows, grad->dims[1]}, 2));
  p->out_index = column_step(index);
  p->token_id = column_step(a->permute_token_id);
  p->tokens = workspace_intermediate(e, (uint64_t)n_rows * sizeof(int64_t));
  p->weights = workspace_intermediate(e, (uint64_t)n_rows * sizeof(double));
  p->products = workspace_intermediate(e, (uint64_t)n_rows * sizeof(double));
  p->grad = (unpermute_grad_plan){.width = grad->dims[1],
                                  .n_rows = n_rows,
                                  .tokens_view = MOE_MAP_UNPERMUTE_GRAD_PERMUTED_TOKENS,
                                  .grad_view = MOE_MAP_UNPERMUTE_GRAD_UNPERMUTED_TOKENS_GRAD,
                                  .out_view = MOE_MAP_UNPERMUTE_GRAD_PERMUTED_TOKENS_GRAD_OUT,
                                  .load = loops->load[grad->dtype][COMPUTE_F64],
                                  .store = loops->store[grad->dtype][COMPUTE_F64]};
  matrix_strides(grad, p->grad.grad);
  matrix_strides(out, p->grad.out);
  TRY(plan_unpermute_grad_probs(p, a));
  executor_cost(e, (uint64_t)out->n * 3 * dtype_bytes(out->dtype), (uint64_t)out->n * 8);
  e->run = n_rows || probs ? run_map_unpermute_grad : move_run_nothing;
  return ST_OK;
}
