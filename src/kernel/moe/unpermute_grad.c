/* SPDX-License-Identifier: Apache-2.0 */
/* MoeTokenUnpermuteGrad and MoeFinalizeRoutingV2Grad: the gradient of a token is written to the rows of its choices,
 * times their probabilities. The gradient of a probability is the dot product of the row, plus the bias of its expert,
 * and the token's gradient. A choice without a row counts as a row of 0; a row without a choice has no gradient. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/moe/unpermute_grad.h"
#include "kernel/move/check.h"

enum { TILE = 512 };

/* tile = the row's elements from `column` on, plus the bias of the expert, if there is one. */
static void load_row(const unpermute_grad_job *j, int64_t row, int64_t expert, int64_t column, int64_t n,
                     double *tile) {
  const unpermute_grad_plan *p = j->plan;
  double bias[TILE];
  memset(tile, 0, (size_t)n * sizeof *tile);
  if (row >= 0)
    p->load(tile, (char *)j->view[p->tokens_view] + row * p->tokens[0] + column * p->tokens[1], p->tokens[1], n);
  if (!p->n_experts) return;
  p->load(bias, (char *)j->view[p->bias_view] + expert * p->bias[0] + column * p->bias[1], p->bias[1], n);
  for (int64_t i = 0; i < n; ++i) tile[i] += bias[i];
}

double unpermute_grad_row(const unpermute_grad_job *j, int64_t token, int64_t row, int64_t expert, double weight) {
  const unpermute_grad_plan *p = j->plan;
  const compute_value factor[ELEMENTWISE_PARAMETERS] = {{.f64 = weight}};
  double grad[TILE], tile[TILE], dot = 0;
  for (int64_t column = 0, n; column < p->width; column += n) {
    n = i64_min(TILE, p->width - column);
    p->load(grad, (char *)j->view[p->grad_view] + token * p->grad[0] + column * p->grad[1], p->grad[1], n);
    if (p->has_probs) {
      load_row(j, row, expert, column, n, tile);
      loops->elementwise[EW_mul][COMPUTE_F64](tile, (const void *const[]){tile, grad, NULL, NULL, NULL}, factor, n);
      dot += loops->sum_f64(tile, n);
    }
    if (row < 0) continue;
    loops->elementwise[EW_muls][COMPUTE_F64](tile, (const void *const[]){grad, NULL, NULL, NULL, NULL}, factor, n);
    p->store((char *)j->view[p->out_view] + row * p->out[0] + column * p->out[1], p->out[1], tile, n);
  }
  return dot;
}

static status spread_choice(const unpermute_grad_job *j, int64_t token, int64_t choice) {
  const unpermute_grad_plan *p = j->plan;
  const char *at = (char *)j->view[p->index_view] + (token * p->n_choices + choice) * p->index;
  int64_t row = *(const int32_t *)(const void *)at, expert = 0;
  double weight = 1, dot = 0;
  if (row < 0 || row >= p->n_rows) row = -1;
  if (p->has_probs)
    p->load_probs(&weight, (char *)j->view[p->probs_view] + token * p->probs[0] + choice * p->probs[1], 0, 1);
  if (p->n_experts) {
    expert = *(const int32_t *)(const void *)((char *)j->view[p->experts_view] + token * p->experts[0] +
                                              choice * p->experts[1]);
    if (expert < 0 || expert >= p->n_experts)
      return places_fail("expertIdxOptional", token * p->n_choices + choice, expert, 0, p->n_experts - 1);
  }
  if (row >= 0 || p->n_experts) dot = unpermute_grad_row(j, token, row, expert, weight);
  if (p->has_probs)
    p->store_probs((char *)j->view[p->probs_out_view] + token * p->probs_out[0] + choice * p->probs_out[1], 0, &dot, 1);
  return ST_OK;
}

static void spread_tokens(const void *arg, int64_t begin, int64_t end) {
  const unpermute_grad_job *j = arg;
  status st = ST_OK;
  for (int64_t i = begin * j->plan->n_choices; i < end * j->plan->n_choices && st == ST_OK; ++i)
    st = spread_choice(j, i / j->plan->n_choices, i % j->plan->n_choices);
  if (st != ST_OK) __atomic_store_n(j->result, st, __ATOMIC_RELAXED);
}

void unpermute_grad_clear(const void *arg, int64_t begin, int64_t end) {
  static const double zeros[TILE];
  const unpermute_grad_job *j = arg;
  const unpermute_grad_plan *p = j->plan;
  for (; begin < end; ++begin)
    for (int64_t column = 0; column < p->width; column += TILE)
      p->store((char *)j->view[p->out_view] + begin * p->out[0] + column * p->out[1], p->out[1], zeros,
               i64_min(TILE, p->width - column));
}

static status run_unpermute_grad(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const unpermute_grad_plan *p = PLAN(e, unpermute_grad_plan);
  status result = ST_OK;
  const unpermute_grad_job job = {p, view, &result};
  if (p->clears) rows_parallel(unpermute_grad_clear, &job, p->n_rows, 1, e->cost_ns / 3);
  rows_parallel(spread_tokens, &job, p->n_tokens, 1, e->cost_ns);
  return result;
}

static status plan_probs(unpermute_grad_plan *p, const moe_unpermute_grad_args *a) {
  const tensor *probs = a->probs, *out = a->probs_grad_out, *index = a->sorted_indices;
  if (!probs) return ST_OK;
  TRY(op_expect_dtype(probs, a->name.probs, DTYPES_FLOAT_TO_32));
  EXPECT(probs->rank == 2 && probs->n == index->n, "%s has shape %s, expected 2 dimensions and %jd elements",
         a->name.probs, SHAPE_OF(probs), (intmax_t)index->n);
  EXPECT(out, "%s is absent, expected a tensor beside %s", a->name.probs_grad_out, a->name.probs);
  TRY(op_expect_dtype(out, a->name.probs_grad_out, DTYPE_BIT(probs->dtype)));
  TRY(op_expect_shape(out, a->name.probs_grad_out, probs->dims, 2));
  matrix_strides(probs, p->probs);
  matrix_strides(out, p->probs_out);
  p->n_choices = probs->dims[1] ? probs->dims[1] : 1;
  p->has_probs = true;
  p->load_probs = loops->load[probs->dtype][COMPUTE_F64];
  p->store_probs = loops->store[probs->dtype][COMPUTE_F64];
  return ST_OK;
}

/* The bias of experts, [experts, width], which only MoeFinalizeRoutingV2Grad has. */
static status plan_grad_bias(unpermute_grad_plan *p, const moe_unpermute_grad_args *a, int dtype) {
  const tensor *bias = a->bias, *experts = a->expert_idx;
  if (!bias || !p->has_probs) return ST_OK;
  EXPECT(experts, "expertIdxOptional is absent, expected a tensor beside biasOptional");
  TRY(op_expect_dtype(bias, "biasOptional", DTYPE_BIT(dtype)));
  EXPECT(bias->rank == 2 && bias->dims[0] > 0 && bias->dims[1] == p->width,
         "biasOptional has shape %s, expected [experts, %jd]", SHAPE_OF(bias), (intmax_t)p->width);
  TRY(op_expect_dtype(experts, "expertIdxOptional", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_shape(experts, "expertIdxOptional", (const int64_t[]){p->n_tokens, p->n_choices}, 2));
  p->n_experts = bias->dims[0];
  matrix_strides(bias, p->bias);
  matrix_strides(experts, p->experts);
  return ST_OK;
}

/* The rows that MoeFinalizeRoutingV2Grad writes: of a stack [experts, capacity, width] with dropPadMode 1. */
static status finalize_rows(unpermute_grad_plan *p, const moe_unpermute_grad_args *a, int64_t n_slots, tensor *out) {
  const int64_t mode = a->drop_pad_mode, n = a->expert_num, capacity = a->expert_capacity;
  const int64_t active = a->active_num, width = p->width;
  EXPECT(mode == 0 || mode == 1, "dropPadMode is %jd, expected 0 or 1", (intmax_t)mode);
  p->clears = mode == 1;
  if (!mode) {
    p->n_rows = active > 0 && active < n_slots ? active : n_slots;
    return op_expect_shape(out, a->name.permuted_tokens_grad_out, (const int64_t[]){p->n_rows, width}, 2);
  }
  EXPECT(n > 0 && capacity > 0, "expertNum and expertCapacity are %jd and %jd, expected 1 or more", (intmax_t)n,
         (intmax_t)capacity);
  TRY(op_expect_shape(out, a->name.permuted_tokens_grad_out, (const int64_t[]){n, capacity, width}, 3));
  p->n_rows = n * capacity;
  return ST_OK;
}

/* The strides of a matrix, or of a stack of matrices whose rows are at equal distances. */
static status stack_strides(const tensor *t, const char *name, int64_t *strides) {
  const view v = view_of(t);
  EXPECT(v.rank == 2 || v.dims[0] == 1 || v.strides[0] == v.dims[1] * v.strides[1],
         "%s has gaps between experts, expected none", name);
  strides[0] = v.strides[v.rank - 2];
  strides[1] = v.strides[v.rank - 1];
  return ST_OK;
}

static void plan_views(unpermute_grad_plan *p, const moe_unpermute_grad_args *a) {
  p->tokens_view = a->view.permuted_tokens;
  p->grad_view = a->view.unpermuted_tokens_grad;
  p->index_view = a->view.sorted_indices;
  p->probs_view = MOE_UNPERMUTE_GRAD_PROBS;
  p->out_view = a->view.permuted_tokens_grad_out;
  p->probs_out_view = a->view.probs_grad_out;
  p->bias_view = MOE_UNPERMUTE_GRAD_BIAS;
  p->experts_view = MOE_UNPERMUTE_GRAD_EXPERT_IDX;
}

status prepare_moe_unpermute_grad(executor *e, const moe_unpermute_grad_args *a) {
  const bool finalizes = e->op->variant == MOE_FINALIZE_GRAD;
  const tensor *tokens = a->permuted_tokens, *grad = a->unpermuted_tokens_grad, *index = a->sorted_indices;
  tensor out = *a->permuted_tokens_grad_out;
  const char *const out_name = a->name.permuted_tokens_grad_out;
  unpermute_grad_plan *p = PLAN(e, unpermute_grad_plan);
  *p = (unpermute_grad_plan){.n_choices = 1};
  TRY(op_expect_dtype(grad, a->name.unpermuted_tokens_grad, DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(grad, a->name.unpermuted_tokens_grad, 2, 2));
  TRY(op_expect_dtype(index, a->name.sorted_indices, DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_rank(index, a->name.sorted_indices, 1, 1));
  EXPECT(!a->padded_mode, "paddedMode is true, expected false, as CANN supports no other value");
  TRY(plan_probs(p, a));
  p->n_tokens = index->n / p->n_choices;
  p->width = grad->dims[1];
  EXPECT(grad->dims[0] == p->n_tokens, "%s has shape %s, expected %jd rows", a->name.unpermuted_tokens_grad,
         SHAPE_OF(grad), (intmax_t)p->n_tokens);
  TRY(op_expect_dtype(&out, out_name, DTYPE_BIT(grad->dtype)));
  if (finalizes) {
    TRY(finalize_rows(p, a, index->n, &out));
  } else {
    TRY(op_expect_shape(&out, out_name, (const int64_t[]){tokens->dims[0], p->width}, 2));
    p->n_rows = out.dims[0];
  }
  EXPECT(tokens || !p->has_probs, "%s is absent, expected a tensor beside %s", a->name.permuted_tokens, a->name.probs);
  if (tokens) {
    TRY(op_expect_dtype(tokens, a->name.permuted_tokens, DTYPE_BIT(grad->dtype)));
    TRY(op_expect_same_shape(tokens, a->name.permuted_tokens, &out));
    TRY(stack_strides(tokens, a->name.permuted_tokens, p->tokens));
  }
  TRY(stack_strides(&out, out_name, p->out));
  TRY(plan_grad_bias(p, a, grad->dtype));
  plan_views(p, a);
  matrix_strides(grad, p->grad);
  p->index = view_of(index).strides[0];
  p->load = loops->load[grad->dtype][COMPUTE_F64];
  p->store = loops->store[grad->dtype][COMPUTE_F64];
  executor_cost(e, (uint64_t)out.n * 3 * dtype_bytes(out.dtype), (uint64_t)out.n * 8);
  e->run = index->n ? run_unpermute_grad : move_run_nothing;
  return ST_OK;
}
