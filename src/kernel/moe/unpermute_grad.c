/* SPDX-License-Identifier: Apache-2.0 */
/* MoeTokenUnpermuteGrad: the gradient of a token is written to the rows of its choices, times their probabilities. The
 * gradient of a probability is the dot product of the row and the token's gradient. */
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

enum { TILE = 512 };

typedef struct {
  int64_t n_tokens, n_choices, width, n_rows;
  int64_t tokens[2], grad[2], out[2]; /* strides in bytes, by row and by column */
  int64_t probs[2], probs_out[2];     /* strides in bytes, by token and by choice */
  int64_t index;
  bool has_probs;
  load_loop *load, *load_probs; /* conversion to double */
  store_loop *store, *store_probs;
} unpermute_grad_plan;

typedef struct {
  const unpermute_grad_plan *plan;
  void *const *view;
} unpermute_grad_job;

/* Writes row `row` of the permuted tokens' gradient. Returns the row's dot product with the token's gradient. */
static double spread_row(const unpermute_grad_job *j, int64_t token, int64_t row, double weight) {
  const unpermute_grad_plan *p = j->plan;
  const compute_value factor[ELEMENTWISE_PARAMETERS] = {{.f64 = weight}};
  double grad[TILE], tile[TILE], dot = 0;
  for (int64_t column = 0, n; column < p->width; column += n) {
    n = i64_min(TILE, p->width - column);
    p->load(grad, (char *)j->view[MOE_UNPERMUTE_GRAD_UNPERMUTED_TOKENS_GRAD] + token * p->grad[0] + column * p->grad[1],
            p->grad[1], n);
    if (p->has_probs) {
      p->load(tile, (char *)j->view[MOE_UNPERMUTE_GRAD_PERMUTED_TOKENS] + row * p->tokens[0] + column * p->tokens[1],
              p->tokens[1], n);
      loops->elementwise[EW_mul][COMPUTE_F64](tile, (const void *const[]){tile, grad, NULL, NULL, NULL}, factor, n);
      dot += loops->sum_f64(tile, n);
    }
    loops->elementwise[EW_muls][COMPUTE_F64](tile, (const void *const[]){grad, NULL, NULL, NULL, NULL}, factor, n);
    p->store((char *)j->view[MOE_UNPERMUTE_GRAD_PERMUTED_TOKENS_GRAD_OUT] + row * p->out[0] + column * p->out[1],
             p->out[1], tile, n);
  }
  return dot;
}

static void spread_tokens(const void *arg, int64_t begin, int64_t end) {
  const unpermute_grad_job *j = arg;
  const unpermute_grad_plan *p = j->plan;
  for (; begin < end; ++begin)
    for (int64_t choice = 0; choice < p->n_choices; ++choice) {
      const char *at = (char *)j->view[MOE_UNPERMUTE_GRAD_SORTED_INDICES] + (begin * p->n_choices + choice) * p->index;
      const int64_t row = *(const int32_t *)(const void *)at;
      double weight = 1, dot = 0;
      if (p->has_probs)
        p->load_probs(&weight, (char *)j->view[MOE_UNPERMUTE_GRAD_PROBS] + begin * p->probs[0] + choice * p->probs[1],
                      0, 1);
      if (row >= 0 && row < p->n_rows) dot = spread_row(j, begin, row, weight);
      if (p->has_probs)
        p->store_probs((char *)j->view[MOE_UNPERMUTE_GRAD_PROBS_GRAD_OUT] + begin * p->probs_out[0] +
                           choice * p->probs_out[1],
                       0, &dot, 1);
    }
}

static status run_unpermute_grad(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const unpermute_grad_plan *p = PLAN(e, unpermute_grad_plan);
  rows_parallel(spread_tokens, &(unpermute_grad_job){p, view}, p->n_tokens, 1, e->cost_ns);
  return ST_OK;
}

static void matrix_strides(const tensor *t, int64_t *strides) {
  const view v = view_of(t);
  strides[0] = v.strides[0];
  strides[1] = v.strides[1];
}

static status plan_probs(unpermute_grad_plan *p, const tensor *probs, const tensor *out, const tensor *index) {
  if (!probs) return ST_OK;
  TRY(op_expect_dtype(probs, "probsOptional", DTYPES_FLOAT_TO_32));
  EXPECT(probs->rank == 2 && probs->n == index->n, "probsOptional has shape %s, expected 2 dimensions and %jd elements",
         SHAPE_OF(probs), (intmax_t)index->n);
  EXPECT(out, "probsGradOut is absent, expected a tensor beside probsOptional");
  TRY(op_expect_dtype(out, "probsGradOut", DTYPE_BIT(probs->dtype)));
  TRY(op_expect_shape(out, "probsGradOut", probs->dims, 2));
  matrix_strides(probs, p->probs);
  matrix_strides(out, p->probs_out);
  p->n_choices = probs->dims[1] ? probs->dims[1] : 1;
  p->has_probs = true;
  p->load_probs = loops->load[probs->dtype][COMPUTE_F64];
  p->store_probs = loops->store[probs->dtype][COMPUTE_F64];
  return ST_OK;
}

/* (permutedTokens, unpermutedTokensGrad, sortedIndices, probsOptional, paddedMode, restoreShapeOptional,
 * permutedTokensGradOut, probsGradOut) */
status prepare_moe_unpermute_grad(executor *e, const moe_unpermute_grad_args *a) {
  const tensor *tokens = a->permuted_tokens, *grad = a->unpermuted_tokens_grad, *index = a->sorted_indices,
               *out = a->permuted_tokens_grad_out;
  unpermute_grad_plan *p = PLAN(e, unpermute_grad_plan);
  TRY(op_expect_dtype(tokens, "permutedTokens", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(tokens, "permutedTokens", 2, 2));
  TRY(op_expect_dtype(index, "sortedIndices", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_rank(index, "sortedIndices", 1, 1));
  EXPECT(!a->padded_mode, "paddedMode is true, expected false, as CANN supports no other value");
  *p = (unpermute_grad_plan){.n_choices = 1};
  TRY(plan_probs(p, a->probs, a->probs_grad_out, index));
  p->n_tokens = index->n / p->n_choices;
  p->width = tokens->dims[1];
  p->n_rows = tokens->dims[0];
  TRY(op_expect_dtype(grad, "unpermutedTokensGrad", DTYPE_BIT(tokens->dtype)));
  TRY(op_expect_shape(grad, "unpermutedTokensGrad", (const int64_t[]){p->n_tokens, p->width}, 2));
  TRY(op_expect_dtype(out, "permutedTokensGradOut", DTYPE_BIT(tokens->dtype)));
  TRY(op_expect_shape(out, "permutedTokensGradOut", tokens->dims, 2));
  matrix_strides(tokens, p->tokens);
  matrix_strides(grad, p->grad);
  matrix_strides(out, p->out);
  p->index = view_of(index).strides[0];
  p->load = loops->load[tokens->dtype][COMPUTE_F64];
  p->store = loops->store[tokens->dtype][COMPUTE_F64];
  executor_cost(e, (uint64_t)tokens->n * 3 * dtype_bytes(tokens->dtype), (uint64_t)tokens->n * 8);
  e->run = index->n ? run_unpermute_grad : move_run_nothing;
  return ST_OK;
}
