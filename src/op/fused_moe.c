/* SPDX-License-Identifier: Apache-2.0 */
/* MoeDistributeDispatch, MoeDistributeCombine and their second versions: tokens to the ranks of their experts, and back
 * as weighted sums. How many tokens go where is known on the devices only, so the collectives have fixed sizes: a
 * dispatch gathers the tokens of all ranks, of which each rank takes those for its experts; a combine exchanges as many
 * rows as there can be. There is no tensor parallel group: tpWorldSize is 0 or 1. */
#include <stdio.h>
#include <string.h>

#include "kernel/families.h"
#include "kernel/moe/distribute.h"
#include "op/fused_steps.h"

/* The arguments that both operators have. */
typedef struct {
  const tensor *expert_ids, *x_active_mask;
  const char *mask_name, *group_ep;
  int64_t ep_world_size, ep_rank_id, moe_expert_num, tp_world_size, expert_shard_type, shared_expert_num,
      shared_expert_rank_num, global_bs;
} moe_args;

#define MOE_ARGS(a)                                                                                                    \
  {                                                                                                                    \
    (a)->expert_ids, (a)->x_active_mask, (a)->name.x_active_mask, (a)->group_ep, (a)->ep_world_size, (a)->ep_rank_id,  \
        (a)->moe_expert_num, (a)->tp_world_size, (a)->expert_shard_type, (a)->shared_expert_num,                       \
        (a)->shared_expert_rank_num, (a)->global_bs                                                                    \
  }

/* Checks a tensor of tokens, whose width is not known yet. */
static status moe_expect_rows(const tensor *t, const char *name) {
  TRY(op_expect_dtype(t, name, DTYPES_HALF));
  EXPECT(t->rank == 2 && t->dims[1] > 0, "%s has shape %s, expected 2 dimensions, the second not 0", name, SHAPE_OF(t));
  return ST_OK;
}

/* Fails unless a number is in a range. */
static status moe_expect(int64_t value, const char *name, int64_t least, int64_t most) {
  EXPECT(value >= least && value <= most, "%s is %jd, expected %jd to %jd", name, (intmax_t)value, (intmax_t)least,
         (intmax_t)most);
  return ST_OK;
}

/* Checks a tensor of two dimensions or one (columns -1), which may have more rows than `rows`. */
static status moe_expect_tensor(const tensor *t, const char *name, int dtype, int64_t rows, int64_t columns,
                                bool exact) {
  char wanted[64];
  const int rank = columns < 0 ? 1 : 2;
  snprintf(wanted, sizeof wanted, columns < 0 ? "[%jd]" : "[%jd, %jd]", (intmax_t)rows, (intmax_t)columns);
  EXPECT(t->dtype == dtype, "%s has dtype %s, expected %s", name, dtype_name(t->dtype), dtype_name(dtype));
  EXPECT(t->rank == rank && (exact ? t->dims[0] == rows : t->dims[0] >= rows) && (rank == 1 || t->dims[1] == columns),
         "%s has shape %s, expected %s%s", name, SHAPE_OF(t), wanted, exact ? "" : " or more rows");
  return ST_OK;
}

static status moe_expect_dense(const tensor *t, const char *name) {
  EXPECT(!t || t->contiguous, "%s has gaps or exchanged dimensions, expected a contiguous tensor", name);
  return ST_OK;
}

/* An input for a step, contiguous: the operand itself, or a copy of it, which is a step of its own. *out is
 * not set where the tensor is absent (NULL); moe_present tells the two apart. */
static status moe_dense(executor *e, const tensor *t, int operand, tensor *out) {
  if (!t) return ST_OK;
  *out = fused_operand(t, operand);
  if (out->contiguous) return ST_OK;
  const tensor from = *out;
  *out = fused_temporary(e, from.dtype, from.dims, from.rank);
  return fused_add_InplaceCopy(e, out, &from);
}

/* xActiveMask has a value for each token, or for each choice of each token. */
static status moe_check_mask(const moe_args *a, moe_layout *l) {
  const tensor *mask = a->x_active_mask;
  if (!mask) return ST_OK;
  TRY(op_expect_dtype(mask, a->mask_name, DTYPE_BIT(ACL_BOOL)));
  l->mask_by_choice = mask->rank == 2;
  return l->mask_by_choice ? op_expect_shape(mask, a->mask_name, (const int64_t[]){l->n_tokens, l->choices}, 2)
                           : op_expect_shape(mask, a->mask_name, &l->n_tokens, 1);
}

/* commAlg says how an NPU's links are used. */
static status moe_check_algorithm(const char *name) {
  EXPECT(!name || !*name || !strcmp(name, "fullmesh") || !strcmp(name, "hierarchy"),
         "commAlg is \"%.32s\", expected \"\", \"fullmesh\" or \"hierarchy\"", name);
  return ST_OK;
}

/* A copy or view that moe_dense has made of an optional tensor; NULL if that is absent. */
static const tensor *moe_present(const tensor *t, const tensor *dense) { return t ? dense : NULL; }

/* The numbers that both operators have, and the group. tokens, choices: of expertIds. */
static status moe_begin_layout(executor *e, const moe_args *a, moe_layout *l, comm **c) {
  const tensor *ids = a->expert_ids;
  TRY(fused_begin(e));
  TRY(op_expect_dtype(ids, "expertIds", DTYPE_BIT(ACL_INT32)));
  EXPECT(ids->rank == 2 && ids->dims[1] > 0, "expertIds has shape %s, expected 2 dimensions, the second not 0",
         SHAPE_OF(ids));
  TRY(fused_group(e, a->group_ep, "groupEp", c));
  const int64_t n = comm_n_ranks(*c), n_experts = a->moe_expert_num, global = a->global_bs;
  TRY(moe_expect(a->ep_world_size, "epWorldSize", n, n));
  TRY(moe_expect(a->ep_rank_id, "epRankId", comm_rank(*c), comm_rank(*c)));
  TRY(moe_expect(a->tp_world_size, "tpWorldSize", 0, 1));
  TRY(moe_expect(a->expert_shard_type, "expertShardType", 0, 0));
  TRY(moe_expect(a->shared_expert_rank_num, "sharedExpertRankNum", 0, n - 1));
  const int64_t n_shared = a->shared_expert_rank_num;
  if (n_shared) {
    TRY(moe_expect(a->shared_expert_num, "sharedExpertNum", 1, 1));
    EXPECT(n % n_shared == 0, "sharedExpertRankNum is %jd, expected a divisor of %jd", (intmax_t)n_shared, (intmax_t)n);
  }
  EXPECT(n_experts > 0 && n_experts % (n - n_shared) == 0, "moeExpertNum is %jd, expected a multiple of %jd",
         (intmax_t)n_experts, (intmax_t)(n - n_shared));
  EXPECT(global == 0 || (global % n == 0 && global / n >= ids->dims[0]),
         "globalBs is %jd, expected 0 or %jd times the most tokens of a rank, at least %jd", (intmax_t)global,
         (intmax_t)n, (intmax_t)ids->dims[0]);
  *l = (moe_layout){.rank = comm_rank(*c),
                    .n_ranks = n,
                    .n_shared = n_shared,
                    .n_local = n_experts / (n - n_shared),
                    .n_tokens = ids->dims[0],
                    .max_tokens = global ? global / n : ids->dims[0],
                    .choices = ids->dims[1],
                    .shared_scales = n_shared > 0};
  return moe_check_mask(a, l);
}

/* Rows of expandX that this rank can need. */
static int64_t moe_rows(const moe_layout *l) {
  return l->rank < l->n_shared ? l->n_ranks / l->n_shared * l->max_tokens : l->n_ranks * moe_most_rows(l);
}

/* ---- dispatch ---------------------------------------------------------------------------------------------------- */

static status dispatch_check(const moe_dispatch_args *a, const moe_layout *l) {
  const int64_t rows = moe_rows(l), n_own = moe_own_experts(l), n_experts = (l->n_ranks - l->n_shared) * l->n_local;
  TRY(moe_expect_tensor(a->x, "x", l->dtype, l->n_tokens, l->width, true));
  TRY(moe_expect_tensor(a->expand_x, a->name.expand_x, l->quantises ? ACL_INT8 : l->dtype, rows, l->width, false));
  if (a->expand_idx)
    TRY(moe_expect_tensor(a->expand_idx, "expandIdx", ACL_INT32, l->n_tokens * l->choices, -1, false));
  else
    TRY(moe_expect_tensor(a->assist_info_for_combine_out, "assistInfoForCombineOut", ACL_INT32, rows * MOE_ASSIST, -1,
                          false));
  TRY(moe_expect_tensor(a->expert_token_nums, a->name.expert_token_nums, ACL_INT64, n_own, -1, false));
  TRY(moe_expect_tensor(a->ep_recv_counts, a->name.ep_recv_counts, ACL_INT32, n_own * l->n_ranks, -1, false));
  if (l->quantises) {
    if (!a->dynamic_scales)
      return fail(ST_OP_NULL, "%s is NULL, expected a tensor as quantMode is 2", a->name.dynamic_scales);
    TRY(moe_expect_tensor(a->dynamic_scales, a->name.dynamic_scales, ACL_FLOAT, rows, -1, false));
  }
  if (a->scales) {
    EXPECT(l->quantises, "%s is a tensor, expected none as quantMode is 0", a->name.scales);
    TRY(moe_expect_tensor(a->scales, a->name.scales, ACL_FLOAT, l->shared_scales + n_experts, l->width, true));
  }
  if (a->expert_scales) {
    TRY(moe_expect_tensor(a->expert_scales, a->name.expert_scales, ACL_FLOAT, l->n_tokens, l->choices, true));
    if (a->expand_scales) TRY(moe_expect_tensor(a->expand_scales, a->name.expand_scales, ACL_FLOAT, rows, -1, false));
  }
  TRY(moe_expect_dense(a->expand_x, a->name.expand_x));
  TRY(moe_expect_dense(a->dynamic_scales, a->name.dynamic_scales));
  TRY(moe_expect_dense(a->expand_idx, "expandIdx"));
  TRY(moe_expect_dense(a->assist_info_for_combine_out, "assistInfoForCombineOut"));
  TRY(moe_expect_dense(a->expert_token_nums, a->name.expert_token_nums));
  TRY(moe_expect_dense(a->ep_recv_counts, a->name.ep_recv_counts));
  TRY(moe_expect_dense(a->expand_scales, a->name.expand_scales));
  return ST_OK;
}

status prepare_moe_dispatch(executor *e, const moe_dispatch_args *a) {
  const moe_args common = MOE_ARGS(a);
  moe_layout l;
  comm *c;
  tensor x, ids, expert_scales, scales, mask, dynamic_room, expand_room, idx_room, assist_room;
  TRY(moe_begin_layout(e, &common, &l, &c));
  TRY(moe_check_algorithm(a->comm_alg));
  const tensor *given = a->x;
  const int64_t mode = a->quant_mode;
  TRY(moe_expect_rows(given, "x"));
  EXPECT(mode == 0 || mode == 2, "quantMode is %jd, expected 0 or 2", (intmax_t)mode);
  TRY(moe_expect(a->expert_token_nums_type, "expertTokenNumsType", 0, 1));
  l.dtype = given->dtype;
  l.width = given->dims[1];
  l.quantises = mode == 2;
  l.sums_counts = a->expert_token_nums_type == 0;
  TRY(dispatch_check(a, &l));
  TRY(moe_dense(e, a->x, MOE_DISPATCH_X, &x));
  TRY(moe_dense(e, a->expert_ids, MOE_DISPATCH_EXPERT_IDS, &ids));
  TRY(moe_dense(e, a->expert_scales, MOE_DISPATCH_EXPERT_SCALES, &expert_scales));
  TRY(moe_dense(e, a->scales, MOE_DISPATCH_SCALES, &scales));
  TRY(moe_dense(e, a->x_active_mask, MOE_DISPATCH_X_ACTIVE_MASK, &mask));
  const int64_t bytes = moe_block_bytes(&l), all_bytes = bytes * l.n_ranks;
  const tensor block = fused_temporary(e, ACL_UINT8, &bytes, 1), blocks = fused_temporary(e, ACL_UINT8, &all_bytes, 1);
  TRY(fused_add_MoePack(e, &x, &ids, moe_present(a->expert_scales, &expert_scales),
                        moe_present(a->x_active_mask, &mask), &block, &l));
  TRY(fused_add_collective(e, c, COMM_ALL_GATHER, &block, &blocks, bytes));
  const tensor expand_x = fused_operand(a->expand_x, MOE_DISPATCH_EXPAND_X),
               token_nums = fused_operand(a->expert_token_nums, MOE_DISPATCH_EXPERT_TOKEN_NUMS),
               recv_counts = fused_operand(a->ep_recv_counts, MOE_DISPATCH_EP_RECV_COUNTS);
  const tensor *dynamic_scales = l.quantises ? a->dynamic_scales : NULL,
               *expand_scales = a->expert_scales ? a->expand_scales : NULL;
  return fused_add_MoeRoute(
      e, &blocks, moe_present(a->scales, &scales), &expand_x,
      fused_optional(dynamic_scales, MOE_DISPATCH_DYNAMIC_SCALES, &dynamic_room),
      fused_optional(a->expand_idx, MOE_DISPATCH_EXPAND_IDX, &idx_room),
      fused_optional(a->assist_info_for_combine_out, MOE_DISPATCH_ASSIST_INFO_FOR_COMBINE_OUT, &assist_room),
      &token_nums, &recv_counts, fused_optional(expand_scales, MOE_DISPATCH_EXPAND_SCALES, &expand_room), &l);
}

/* ---- combine ----------------------------------------------------------------------------------------------------- */

status prepare_moe_distribute_combine(executor *e, const moe_distribute_combine_args *a) {
  const moe_args common = MOE_ARGS(a);
  moe_layout l;
  comm *c;
  tensor expanded, ids, idx, counts, weights, mask;
  TRY(moe_begin_layout(e, &common, &l, &c));
  TRY(moe_check_algorithm(a->comm_alg));
  EXPECT(!a->shared_expert_x,
         "sharedExpertXOptional is a tensor, expected none"); /* docs/operators.md has the reason */
  const tensor *given = a->expand_x;
  TRY(moe_expect_rows(given, "expandX"));
  TRY(moe_expect(a->comm_quant_mode, "commQuantMode", 0, 0));
  l.dtype = given->dtype;
  l.width = given->dims[1];
  if (a->expand_idx)
    TRY(moe_expect_tensor(a->expand_idx, "expandIdx", ACL_INT32, l.n_tokens * l.choices, -1, false));
  else
    TRY(moe_expect_tensor(a->assist_info_for_combine, "assistInfoForCombine", ACL_INT32, 0, -1, false));
  TRY(moe_expect_tensor(a->ep_send_counts, "epSendCounts", ACL_INT32, moe_own_experts(&l) * l.n_ranks, -1, false));
  TRY(moe_expect_tensor(a->expert_scales, "expertScales", ACL_FLOAT, l.n_tokens, l.choices, true));
  TRY(moe_expect_tensor(a->x, a->name.x, l.dtype, l.n_tokens, l.width, true));
  TRY(moe_expect_dense(a->x, a->name.x));
  TRY(moe_dense(e, a->expand_x, MOE_DISTRIBUTE_COMBINE_EXPAND_X, &expanded));
  TRY(moe_dense(e, a->expert_ids, MOE_DISTRIBUTE_COMBINE_EXPERT_IDS, &ids));
  TRY(moe_dense(e, a->expand_idx, MOE_DISTRIBUTE_COMBINE_EXPAND_IDX, &idx));
  TRY(moe_dense(e, a->ep_send_counts, MOE_DISTRIBUTE_COMBINE_EP_SEND_COUNTS, &counts));
  TRY(moe_dense(e, a->expert_scales, MOE_DISTRIBUTE_COMBINE_EXPERT_SCALES, &weights));
  TRY(moe_dense(e, a->x_active_mask, MOE_DISTRIBUTE_COMBINE_X_ACTIVE_MASK, &mask));
  const int64_t dims[] = {l.n_ranks, moe_most_rows(&l), l.width};
  const tensor outgoing = fused_temporary(e, l.dtype, dims, 3), incoming = fused_temporary(e, l.dtype, dims, 3);
  const tensor x = fused_operand(a->x, a->view.x);
  TRY(fused_add_MoeReturn(e, &expanded, &counts, &outgoing, &l));
  TRY(fused_add_collective(e, c, COMM_ALL_TO_ALL, &outgoing, &incoming, outgoing.n / l.n_ranks));
  return fused_add_MoeSum(e, &incoming, &ids, moe_present(a->expand_idx, &idx), &weights,
                          moe_present(a->x_active_mask, &mask), &x, &l);
}
