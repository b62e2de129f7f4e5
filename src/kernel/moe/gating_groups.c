/* SPDX-License-Identifier: Apache-2.0 */
/* MoeGatingTopK: for each token, selects the k largest of its scores (softmax or sigmoid, plus a bias)
 * from the best groups of experts only. The output has the scores without the bias, times a factor;
 * sigmoids are divided by their sum first. */
#include <math.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/norm/softmax_loops.h"
#include "kernel/sort/sort.h"

enum { OPERANDS = 4, X = 0, Y, EXPERT, SCORES }; /* operands of the walk */

typedef struct {
  walk tokens;
  int64_t along[OPERANDS]; /* strides in bytes, from expert to expert or from choice to choice */
  int64_t n_experts, n_groups, k, k_groups, bias_step;
  /* by_two: groups are ranked by the sum of their two best scores, otherwise by the best */
  bool sigmoid, by_two, has_bias, has_scores;
  double factor, eps;
  load_loop *load, *load_bias;
  store_loop *store, *store_scores;
} gating_plan;

typedef struct {
  const gating_plan *plan;
  void *at[OPERANDS];
  const char *bias;
  status *result;
} gating_job;

/* A thread's working memory for one token. */
typedef struct {
  float *scores, *biased, *groups; /* [experts], [experts], [groups] */
  int32_t *numbers;                /* [experts] */
  char *entries, *spare;
} gating_room;

static float group_score(const gating_plan *p, const float *x, int64_t n) {
  float best = -INFINITY, second = -INFINITY;
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] > best) {
      second = best;
      best = x[i];
    } else if (x[i] > second) {
      second = x[i];
    }
  }
  return p->by_two ? best + second : best;
}

/* Sets the scores of experts outside of the k_groups best groups to -infinity. Of equal
 * groups the first ones are better. */
static void mask_other_groups(const gating_plan *p, const gating_room *r) {
  const int64_t size = p->n_experts / p->n_groups;
  for (int64_t g = 0; g < p->n_groups; ++g) r->groups[g] = group_score(p, r->biased + g * size, size);
  for (int64_t g = 0; g < p->n_groups; ++g) {
    int64_t better = 0;
    for (int64_t other = 0; other < p->n_groups; ++other)
      better += r->groups[other] > r->groups[g] || (r->groups[other] == r->groups[g] && other < g);
    for (int64_t i = 0; better >= p->k_groups && i < size; ++i) r->biased[g * size + i] = -INFINITY;
  }
}

static void gate_groups_token(const gating_job *j, const cursor *c, const gating_room *r) {
  static const compute_value one[ELEMENTWISE_PARAMETERS] = {{.f32 = 1}};
  const gating_plan *p = j->plan;
  const sort_loops *sort = &sorts->of[COMPUTE_F32];
  const int64_t n = p->n_experts;
  p->load(r->scores, c->at[X], p->along[X], n);
  if (p->sigmoid)
    loops->elementwise[EW_sigmoid][COMPUTE_F32](r->scores, (const void *const[]){r->scores, NULL, NULL, NULL, NULL},
                                                one, n);
  else
    softmax->f32.softmax(
        &(softmax_matrix){.y = (char *)r->scores, .x = (char *)r->scores, .n = n, .rows = 1, .dtype = ACL_FLOAT});
  if (p->has_scores) p->store_scores(c->at[SCORES], p->along[SCORES], r->scores, n);
  memcpy(r->biased, r->scores, (size_t)n * sizeof(float));
  if (p->has_bias) {
    float *const bias = (float *)(void *)r->entries; /* not in use yet */
    p->load_bias(bias, j->bias, p->bias_step, n);
    loops->elementwise[EW_add][COMPUTE_F32](r->biased, (const void *const[]){r->biased, bias, NULL, NULL, NULL}, one,
                                            n);
  }
  if (p->n_groups > 1) mask_other_groups(p, r);
  sort->pack(r->entries, r->biased, 0, n, true);
  sort->smallest(r->entries, r->spare, n, p->k);
  sort->unpack(NULL, r->numbers, r->entries, p->k, true);
  double sum = 0;
  for (int64_t i = 0; i < p->k; ++i) sum += r->biased[i] = r->scores[r->numbers[i]];
  const double divisor = p->sigmoid ? sum + p->eps : 1;
  for (int64_t i = 0; i < p->k; ++i) {
    r->biased[i] = (float)(r->biased[i] / divisor * p->factor);
    *(int32_t *)(void *)(c->at[EXPERT] + i * p->along[EXPERT]) = r->numbers[i];
  }
  p->store(c->at[Y], p->along[Y], r->biased, p->k);
}

static void gate_groups_range(const void *arg, int64_t begin, int64_t end) {
  const gating_job *j = arg;
  const gating_plan *p = j->plan;
  const int64_t entry = sorts->of[COMPUTE_F32].entry_bytes, n = (p->n_experts + 15) / 16 * 16;
  char *const scratch = scratch_take((size_t)(n * (2 * entry + 3 * 4) + p->n_groups * 4));
  if (!scratch) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  gating_room r = {.entries = scratch, .spare = scratch + n * entry};
  r.scores = (float *)(void *)(r.spare + n * entry);
  r.biased = r.scores + n;
  r.numbers = (int32_t *)(void *)(r.biased + n);
  r.groups = (float *)(void *)(r.numbers + n);
  cursor c;
  cursor_start(&c, &p->tokens, j->at, begin);
  for (; begin < end; ++begin, cursor_next(&c, 1)) gate_groups_token(j, &c, &r);
}

static status run_gating_groups(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const gating_plan *p = PLAN(e, gating_plan);
  status result = ST_OK;
  const gating_job job = {.plan = p,
                          .at = {view[MOE_GATING_GROUPS_X], view[MOE_GATING_GROUPS_Y_OUT],
                                 view[MOE_GATING_GROUPS_EXPERT_IDX_OUT],
                                 p->has_scores ? view[MOE_GATING_GROUPS_OUT_OUT] : view[MOE_GATING_GROUPS_X]},
                          .bias = view[MOE_GATING_GROUPS_BIAS],
                          .result = &result};
  rows_parallel(gate_groups_range, &job, p->tokens.n, 1, e->cost_ns);
  return result;
}

/* Reads and checks the numbers from argument 2 on: k, kGroup, groupCount, groupSelectMode, renorm, normType. */
static status read_gating_numbers(const moe_gating_groups_args *a, gating_plan *p) {
  p->k = a->k;
  p->k_groups = a->k_group;
  p->n_groups = a->group_count;
  EXPECT(p->n_groups > 0 && p->n_experts % p->n_groups == 0,
         "groupCount is %jd, expected a divisor of the experts, %jd", (intmax_t)p->n_groups, (intmax_t)p->n_experts);
  EXPECT(p->k_groups > 0 && p->k_groups <= p->n_groups, "kGroup is %jd, expected 1 to %jd", (intmax_t)p->k_groups,
         (intmax_t)p->n_groups);
  const int64_t most = p->n_experts / p->n_groups * p->k_groups;
  EXPECT(p->k > 0 && p->k <= most, "k is %jd, expected 1 to %jd", (intmax_t)p->k, (intmax_t)most);
  EXPECT(a->group_select_mode == 0 || a->group_select_mode == 1,
         "groupSelectMode is %jd, expected 0 (best) or 1 (sum of the two best)", (intmax_t)a->group_select_mode);
  p->by_two = a->group_select_mode == 1;
  EXPECT(!p->by_two || p->n_groups == 1 || p->n_experts / p->n_groups > 1,
         "groupSelectMode is 1, expected 0 for groups of one expert");
  EXPECT(a->renorm == 0, "renorm is %jd, expected 0, as CANN supports no other value", (intmax_t)a->renorm);
  EXPECT(a->norm_type == 0 || a->norm_type == 1, "normType is %jd, expected 0 (softmax) or 1 (sigmoid)",
         (intmax_t)a->norm_type);
  p->sigmoid = a->norm_type == 1;
  p->factor = a->routed_scaling_factor;
  p->eps = a->eps;
  return ST_OK;
}

/* (x [.., experts], biasOptional [experts], k, kGroup, groupCount, groupSelectMode, renorm, normType, outFlag,
 * routedScalingFactor, eps, yOut and expertIdxOut [.., k], outOut [.., experts]) */
status prepare_moe_gating_groups(executor *e, const moe_gating_groups_args *a) {
  const tensor *x = a->x, *bias = a->bias, *scores = a->out_flag ? a->out_out : NULL;
  gating_plan *p = PLAN(e, gating_plan);
  const uint64_t floats = DTYPES_FLOAT_TO_32;
  TRY(op_expect_dtype(x, "x", floats));
  EXPECT(x->rank > 0, "x has no dimension, expected 1 or more");
  const int last = x->rank - 1;
  *p = (gating_plan){.n_experts = x->dims[last],
                     .load = loops->load[x->dtype][COMPUTE_F32],
                     .store = loops->store[x->dtype][COMPUTE_F32],
                     .store_scores = loops->store[ACL_FLOAT][COMPUTE_F32],
                     .has_bias = bias != NULL,
                     .has_scores = a->out_flag};
  TRY(read_gating_numbers(a, p));
  if (bias) {
    TRY(op_expect_dtype(bias, "biasOptional", floats));
    TRY(op_expect_shape(bias, "biasOptional", &p->n_experts, 1));
    p->load_bias = loops->load[bias->dtype][COMPUTE_F32];
    p->bias_step = view_of(bias).strides[0];
  }
  int64_t dims[MAX_RANK];
  for (int d = 0; d <= last; ++d) dims[d] = d == last ? p->k : x->dims[d];
  TRY(op_expect_dtype(a->y_out, "yOut", DTYPE_BIT(x->dtype)));
  TRY(op_expect_shape(a->y_out, "yOut", dims, x->rank));
  TRY(op_expect_dtype(a->expert_idx_out, "expertIdxOut", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_shape(a->expert_idx_out, "expertIdxOut", dims, x->rank));
  if (p->has_scores) {
    EXPECT(scores, "outOut is absent, expected a tensor as outFlag is true");
    TRY(op_expect_dtype(scores, "outOut", DTYPE_BIT(ACL_FLOAT)));
    TRY(op_expect_same_shape(scores, "outOut", x));
  }
  const view v[OPERANDS] = {view_of(x), view_of(a->y_out), view_of(a->expert_idx_out), view_of(scores ? scores : x)};
  const view *views[OPERANDS];
  for (int i = 0; i < OPERANDS; ++i) {
    p->along[i] = v[i].strides[last];
    views[i] = &v[i];
  }
  walk_init(&p->tokens, views, OPERANDS, last);
  executor_cost(e, (uint64_t)x->n * 2 * dtype_bytes(x->dtype), (uint64_t)x->n * 128);
  e->run = x->n ? run_gating_groups : move_run_nothing;
  return ST_OK;
}
