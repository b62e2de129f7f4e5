/* SPDX-License-Identifier: Apache-2.0 */
/* MoeUpdateExpert: replaces numbers of logical experts by numbers of their instances, which a table has, and marks the
 * choices of a token whose weights are not below a part of their sum. */
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/move/check.h"

typedef struct {
  int64_t n_tokens, n_choices, n_experts, n_columns; /* columns of the table: the count, then the instances */
  int64_t rank, world;
  bool by_token, prunes, has_active;
  int64_t ids[2], table[2], scales[2], threshold, active, to[2], mask[2]; /* strides in bytes */
  load_loop *load, *load_scale;
  store_loop *store;
} update_expert_plan;

static int64_t eplb_table_at(const update_expert_plan *p, const char *table, int64_t expert, int64_t column) {
  return *(const int32_t *)(const void *)(table + expert * p->table[0] + column * p->table[1]);
}

static status balance_choice(const update_expert_plan *p, void *const *view, int64_t token, int64_t choice) {
  const char *const table = view[MOE_UPDATE_EXPERT_EPLB_TABLE];
  int64_t expert;
  p->load(&expert, (char *)view[MOE_UPDATE_EXPERT_EXPERT_IDS] + token * p->ids[0] + choice * p->ids[1], 0, 1);
  if (expert < 0 || expert >= p->n_experts)
    return places_fail("expertIds", token * p->n_choices + choice, expert, 0, p->n_experts - 1);
  const int64_t n = eplb_table_at(p, table, expert, 0);
  if (n < 1 || n >= p->n_columns)
    return fail(ST_DEVICE_EXCEPTION, "eplbTable[%jd][0] is %jd, expected 1 to %jd", (intmax_t)expert, (intmax_t)n,
                (intmax_t)(p->n_columns - 1));
  const int64_t ranks = (p->world + n - 1) / n; /* by rank: as many in a row have the same instance */
  const int64_t place = n == 1 ? 0 : p->by_token ? token % n : p->rank / ranks;
  const int64_t instance = eplb_table_at(p, table, expert, 1 + place);
  p->store((char *)view[MOE_UPDATE_EXPERT_BALANCED_EXPERT_IDS] + token * p->to[0] + choice * p->to[1], 0, &instance, 1);
  return ST_OK;
}

static void prune_token(const update_expert_plan *p, void *const *view, int64_t token) {
  const char *const scales = (char *)view[MOE_UPDATE_EXPERT_EXPERT_SCALES] + token * p->scales[0];
  char *const mask = (char *)view[MOE_UPDATE_EXPERT_BALANCED_ACTIVE_MASK] + token * p->mask[0];
  const bool is_active = !p->has_active || *((char *)view[MOE_UPDATE_EXPERT_ACTIVE_MASK] + token * p->active);
  float sum = 0, scale;
  for (int64_t k = 0; k < p->n_choices; ++k) {
    p->load_scale(&scale, scales + k * p->scales[1], 0, 1);
    sum += scale;
  }
  for (int64_t k = 0; k < p->n_choices; ++k) {
    const char *const threshold = (char *)view[MOE_UPDATE_EXPERT_PRUNING_THRESHOLD] + k * p->threshold;
    p->load_scale(&scale, scales + k * p->scales[1], 0, 1);
    mask[k * p->mask[1]] = is_active && !(scale < sum * *(const float *)(const void *)threshold);
  }
}

static status run_update_expert(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const update_expert_plan *p = PLAN(e, update_expert_plan);
  for (int64_t token = 0; token < p->n_tokens; ++token) {
    for (int64_t choice = 0; choice < p->n_choices; ++choice) TRY(balance_choice(p, view, token, choice));
    if (p->prunes) prune_token(p, view, token);
  }
  return ST_OK;
}

static void update_expert_matrix(const tensor *t, int64_t *strides) {
  const view v = view_of(t);
  strides[0] = v.strides[0];
  strides[1] = v.strides[1];
}

static status update_expert_pruning(update_expert_plan *p, const moe_update_expert_args *a) {
  const tensor *scales = a->expert_scales, *threshold = a->pruning_threshold, *active = a->active_mask;
  EXPECT(!scales == !threshold, "%s is NULL, expected a tensor beside %s",
         scales ? "pruningThresholdOptional" : "expertScalesOptional",
         scales ? "expertScalesOptional" : "pruningThresholdOptional");
  EXPECT(!active || scales, "activeMaskOptional is a tensor, expected NULL without expertScalesOptional");
  if (!scales) return ST_OK;
  TRY(op_expect_dtype(scales, "expertScalesOptional", DTYPES_FLOAT_TO_32));
  TRY(op_expect_same_shape(scales, "expertScalesOptional", a->expert_ids));
  TRY(op_expect_dtype(threshold, "pruningThresholdOptional", DTYPE_BIT(ACL_FLOAT)));
  const int64_t row[] = {1, p->n_choices};
  const bool is_row = threshold->rank == 2;
  TRY(op_expect_shape(threshold, "pruningThresholdOptional", is_row ? row : row + 1, is_row ? 2 : 1));
  p->threshold = view_of(threshold).strides[is_row];
  if (active) {
    TRY(op_expect_dtype(active, "activeMaskOptional", DTYPE_BIT(ACL_BOOL)));
    TRY(op_expect_shape(active, "activeMaskOptional", &p->n_tokens, 1));
    p->has_active = true;
    p->active = view_of(active).strides[0];
  }
  update_expert_matrix(scales, p->scales);
  p->load_scale = loops->load[scales->dtype][COMPUTE_F32];
  p->prunes = true;
  return ST_OK;
}

status prepare_moe_update_expert(executor *e, const moe_update_expert_args *a) {
  const tensor *ids = a->expert_ids, *table = a->eplb_table, *out = a->balanced_expert_ids,
               *mask = a->balanced_active_mask;
  const int64_t mode = a->balance_mode, rank = a->local_rank_id, world = a->world_size;
  update_expert_plan *p = PLAN(e, update_expert_plan);
  TRY(op_expect_dtype(ids, "expertIds", DTYPES_INDEX));
  TRY(op_expect_rank(ids, "expertIds", 2, 2));
  TRY(op_expect_dtype(table, "eplbTable", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_rank(table, "eplbTable", 2, 2));
  EXPECT(mode == 0 || mode == 1, "balanceMode is %jd, expected 0 (by rank) or 1 (by token)", (intmax_t)mode);
  EXPECT(mode == 1 || world >= 2, "worldSize is %jd, expected 2 or more with balanceMode 0", (intmax_t)world);
  EXPECT(mode == 1 || (rank >= 0 && rank < world), "localRankId is %jd, expected 0 to %jd with balanceMode 0",
         (intmax_t)rank, (intmax_t)(world - 1));
  *p = (update_expert_plan){.n_tokens = ids->dims[0],
                            .n_choices = ids->dims[1],
                            .n_experts = table->dims[0],
                            .n_columns = table->dims[1],
                            .rank = rank,
                            .world = mode == 0 ? world : 1,
                            .by_token = mode == 1,
                            .load = loops->load[ids->dtype][COMPUTE_I64],
                            .store = loops->store[ids->dtype][COMPUTE_I64]};
  TRY(update_expert_pruning(p, a));
  TRY(op_expect_like(out, "balancedExpertIds", ids));
  TRY(op_expect_dtype(mask, "balancedActiveMask", DTYPE_BIT(ACL_BOOL)));
  TRY(op_expect_same_shape(mask, "balancedActiveMask", ids));
  update_expert_matrix(ids, p->ids);
  update_expert_matrix(table, p->table);
  update_expert_matrix(out, p->to);
  update_expert_matrix(mask, p->mask);
  executor_cost(e, (uint64_t)ids->n * 32, (uint64_t)ids->n * 16);
  e->run = ids->n ? run_update_expert : move_run_nothing;
  return ST_OK;
}
