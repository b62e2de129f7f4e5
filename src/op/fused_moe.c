/* SPDX-License-Identifier: Apache-2.0 */
/* MoeDistributeDispatch and MoeDistributeCombine: tokens to the ranks of their experts, and back as weighted sums. How
 * many tokens go where is known on the devices only, so the collectives have fixed sizes: a dispatch gathers the tokens
 * of all ranks, of which each rank takes those for its experts; a combine exchanges as many rows as there can be.
 * There is no tensor parallel group: tpWorldSize is 0 or 1. */
#include <stdio.h>

#include "kernel/families.h"
#include "kernel/moe/distribute.h"
#include "op/fused.h"

/* Which ARG_ANY is: a moe_layout. */
#define LAYOUT                                                                                                         \
  { "layout", ARG_ANY, ARG_READ }

static const arg_schema pack_schema[] = {FUSED_INPUT("x"), FUSED_INPUT("expertIds"), FUSED_OPTIONAL("expertScales"),
                                         FUSED_OUTPUT("block"), LAYOUT};
static const arg_schema route_schema[] = {FUSED_INPUT("blocks"),
                                          FUSED_OPTIONAL("scales"),
                                          FUSED_OUTPUT("expandX"),
                                          {"dynamicScales", ARG_TENSOR, ARG_WRITTEN | ARG_OPTIONAL},
                                          FUSED_OUTPUT("expandIdx"),
                                          FUSED_OUTPUT("expertTokenNums"),
                                          FUSED_OUTPUT("epRecvCounts"),
                                          {"expandScales", ARG_TENSOR, ARG_WRITTEN | ARG_OPTIONAL},
                                          LAYOUT};
static const arg_schema return_schema[] = {FUSED_INPUT("expandX"), FUSED_INPUT("epSendCounts"),
                                           FUSED_OUTPUT("outgoing"), LAYOUT};
static const arg_schema sum_schema[] = {FUSED_INPUT("incoming"),     FUSED_INPUT("expertIds"), FUSED_INPUT("expandIdx"),
                                        FUSED_INPUT("expertScales"), FUSED_OUTPUT("x"),        LAYOUT};
static const arg_schema dense_schema[] = {FUSED_OUTPUT("selfRef"), FUSED_INPUT("src")};
static op pack_op = FUSED_OPERATOR("MoePack", prepare_moe_pack, 0, pack_schema);
static op route_op = FUSED_OPERATOR("MoeRoute", prepare_moe_route, 0, route_schema);
static op return_op = FUSED_OPERATOR("MoeReturn", prepare_moe_return, 0, return_schema);
static op sum_op = FUSED_OPERATOR("MoeSum", prepare_moe_sum, 0, sum_schema);
static op dense_op = FUSED_OPERATOR("InplaceCopy", prepare_copy, 0, dense_schema);

static int64_t moe_number(const executor *e, const op_arg *a, const char *name) {
  return a[fused_find(e->op, name)].integer;
}

/* Checks a tensor of tokens, whose width is not known yet. */
static status moe_expect_rows(const tensor *t, const char *name) {
  char text[SHAPE_TEXT];
  TRY(op_expect_dtype(t, name, DTYPE_BIT(ACL_FLOAT16) | DTYPE_BIT(ACL_BF16)));
  EXPECT(t->rank == 2 && t->dims[1] > 0, "%s has shape %s, expected 2 dimensions, the second not 0", name,
         shape_text(t->dims, t->rank, text));
  return ST_OK;
}

/* Fails unless a number is in a range. */
static status moe_expect(const executor *e, const op_arg *a, const char *name, int64_t least, int64_t most) {
  const int64_t value = moe_number(e, a, name);
  EXPECT(value >= least && value <= most, "%s is %jd, expected %jd to %jd", name, (intmax_t)value, (intmax_t)least,
         (intmax_t)most);
  return ST_OK;
}

/* Arguments that CANN reserves, or that would need what is not supported, must be absent. */
static status moe_expect_absent(const executor *e, const op_arg *a, const char *name) {
  EXPECT(!a[fused_find(e->op, name)].tensor, "%s is a tensor, expected none", name);
  return ST_OK;
}

/* Checks a tensor of two dimensions or one (columns -1), which may have more rows than `rows`. */
static status moe_expect_tensor(const executor *e, const op_arg *a, const char *name, int dtype, int64_t rows,
                                int64_t columns, bool exact) {
  const tensor *t = a[fused_find(e->op, name)].tensor;
  char text[SHAPE_TEXT], wanted[64];
  const int rank = columns < 0 ? 1 : 2;
  snprintf(wanted, sizeof wanted, columns < 0 ? "[%jd]" : "[%jd, %jd]", (intmax_t)rows, (intmax_t)columns);
  EXPECT(t->dtype == dtype, "%s has dtype %s, expected %s", name, dtype_name(t->dtype), dtype_name(dtype));
  EXPECT(t->rank == rank && (exact ? t->dims[0] == rows : t->dims[0] >= rows) && (rank == 1 || t->dims[1] == columns),
         "%s has shape %s, expected %s%s", name, shape_text(t->dims, t->rank, text), wanted,
         exact ? "" : " or more rows");
  return ST_OK;
}

static status moe_expect_dense(const executor *e, const op_arg *a, const char *name) {
  const tensor *t = a[fused_find(e->op, name)].tensor;
  EXPECT(!t || t->contiguous, "%s has gaps or exchanged dimensions, expected a contiguous tensor", name);
  return ST_OK;
}

/* An input for a step, contiguous: the argument itself, or a copy of it, which is a step of its own. */
static status moe_dense(executor *e, const op_arg *a, const char *name, tensor *out) {
  *out = fused_operand(e, a, fused_find(e->op, name));
  if (out->contiguous) return ST_OK;
  const tensor from = *out;
  *out = fused_temporary(e, from.dtype, from.dims, from.rank);
  const op_arg copy[] = {{.tensor = out}, {.tensor = &from}};
  return fused_add_operator(e, &dense_op, copy);
}

/* The numbers that both operators have, and the group. tokens, choices: of expertIds. */
static status moe_begin_layout(executor *e, const op_arg *a, moe_layout *l, comm **c) {
  const tensor *ids = a[fused_find(e->op, "expertIds")].tensor;
  char text[SHAPE_TEXT];
  TRY(fused_begin(e));
  TRY(op_expect_dtype(ids, "expertIds", DTYPE_BIT(ACL_INT32)));
  EXPECT(ids->rank == 2 && ids->dims[1] > 0, "expertIds has shape %s, expected 2 dimensions, the second not 0",
         shape_text(ids->dims, ids->rank, text));
  TRY(fused_group(e, a, fused_find(e->op, "groupEp"), c));
  const int64_t n = comm_n_ranks(*c), n_experts = moe_number(e, a, "moeExpertNum");
  const int64_t global = moe_number(e, a, "globalBs");
  TRY(moe_expect(e, a, "epWorldSize", n, n));
  TRY(moe_expect(e, a, "epRankId", comm_rank(*c), comm_rank(*c)));
  TRY(moe_expect(e, a, "tpWorldSize", 0, 1));
  TRY(moe_expect(e, a, "expertShardType", 0, 0));
  TRY(moe_expect(e, a, "sharedExpertRankNum", 0, n - 1));
  const int64_t n_shared = moe_number(e, a, "sharedExpertRankNum");
  if (n_shared) {
    TRY(moe_expect(e, a, "sharedExpertNum", 1, 1));
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
  return moe_expect_absent(e, a, "xActiveMask");
}

/* Rows of expandX that this rank can need. */
static int64_t moe_rows(const moe_layout *l) {
  return l->rank < l->n_shared ? l->n_ranks / l->n_shared * l->max_tokens : l->n_ranks * moe_most_rows(l);
}

/* ---- dispatch ---------------------------------------------------------------------------------------------------- */

static status dispatch_check(const executor *e, const op_arg *a, const moe_layout *l) {
  const int64_t rows = moe_rows(l), n_own = moe_own_experts(l), n_experts = (l->n_ranks - l->n_shared) * l->n_local;
  TRY(moe_expect_tensor(e, a, "x", l->dtype, l->n_tokens, l->width, true));
  TRY(moe_expect_tensor(e, a, "expandX", l->quantises ? ACL_INT8 : l->dtype, rows, l->width, false));
  TRY(moe_expect_tensor(e, a, "expandIdx", ACL_INT32, l->n_tokens * l->choices, -1, false));
  TRY(moe_expect_tensor(e, a, "expertTokenNums", ACL_INT64, n_own, -1, false));
  TRY(moe_expect_tensor(e, a, "epRecvCounts", ACL_INT32, n_own * l->n_ranks, -1, false));
  if (l->quantises) {
    if (!a[fused_find(e->op, "dynamicScales")].tensor)
      return fail(ST_OP_NULL, "dynamicScales is NULL, expected a tensor as quantMode is 2");
    TRY(moe_expect_tensor(e, a, "dynamicScales", ACL_FLOAT, rows, -1, false));
  }
  if (a[fused_find(e->op, "scales")].tensor) {
    EXPECT(l->quantises, "scales is a tensor, expected none as quantMode is 0");
    TRY(moe_expect_tensor(e, a, "scales", ACL_FLOAT, l->shared_scales + n_experts, l->width, true));
  }
  if (a[fused_find(e->op, "expertScales")].tensor) {
    TRY(moe_expect_tensor(e, a, "expertScales", ACL_FLOAT, l->n_tokens, l->choices, true));
    if (a[fused_find(e->op, "expandScales")].tensor)
      TRY(moe_expect_tensor(e, a, "expandScales", ACL_FLOAT, rows, -1, false));
  }
  static const char *const written[] = {"expandX",         "dynamicScales", "expandIdx",
                                        "expertTokenNums", "epRecvCounts",  "expandScales"};
  for (size_t i = 0; i < sizeof written / sizeof *written; ++i) TRY(moe_expect_dense(e, a, written[i]));
  return ST_OK;
}

/* The argument for a step; NULL: it is absent or not wanted. */
static const tensor *dispatch_output(const executor *e, const op_arg *a, const char *name, bool wanted, tensor *room) {
  const int at = fused_find(e->op, name);
  if (!wanted || !a[at].tensor) return NULL;
  *room = fused_operand(e, a, at);
  return room;
}

status prepare_moe_dispatch(executor *e, const op_arg *a) {
  moe_layout l;
  comm *c;
  tensor x, ids, expert_scales, scales, room[6];
  TRY(moe_begin_layout(e, a, &l, &c));
  const tensor *given = a[fused_find(e->op, "x")].tensor;
  const int64_t mode = moe_number(e, a, "quantMode");
  TRY(moe_expect_rows(given, "x"));
  EXPECT(mode == 0 || mode == 2, "quantMode is %jd, expected 0 or 2", (intmax_t)mode);
  TRY(moe_expect(e, a, "expertTokenNumsType", 0, 1));
  l.dtype = given->dtype;
  l.width = given->dims[1];
  l.quantises = mode == 2;
  l.sums_counts = moe_number(e, a, "expertTokenNumsType") == 0;
  TRY(dispatch_check(e, a, &l));
  const bool has_weights = a[fused_find(e->op, "expertScales")].tensor,
             has_scales = a[fused_find(e->op, "scales")].tensor;
  TRY(moe_dense(e, a, "x", &x));
  TRY(moe_dense(e, a, "expertIds", &ids));
  if (has_weights) TRY(moe_dense(e, a, "expertScales", &expert_scales));
  if (has_scales) TRY(moe_dense(e, a, "scales", &scales));
  const int64_t bytes = moe_block_bytes(&l), all_bytes = bytes * l.n_ranks;
  const tensor block = fused_temporary(e, ACL_UINT8, &bytes, 1), blocks = fused_temporary(e, ACL_UINT8, &all_bytes, 1);
  const op_arg pack[] = {{.tensor = &x},
                         {.tensor = &ids},
                         {.tensor = has_weights ? &expert_scales : NULL},
                         {.tensor = &block},
                         {.pointer = &l}};
  TRY(fused_add_operator(e, &pack_op, pack));
  TRY(fused_add_collective(e, c, COMM_ALL_GATHER, &block, &blocks, bytes));
  const op_arg route[] = {{.tensor = &blocks},
                          {.tensor = has_scales ? &scales : NULL},
                          {.tensor = dispatch_output(e, a, "expandX", true, &room[0])},
                          {.tensor = dispatch_output(e, a, "dynamicScales", l.quantises, &room[1])},
                          {.tensor = dispatch_output(e, a, "expandIdx", true, &room[2])},
                          {.tensor = dispatch_output(e, a, "expertTokenNums", true, &room[3])},
                          {.tensor = dispatch_output(e, a, "epRecvCounts", true, &room[4])},
                          {.tensor = dispatch_output(e, a, "expandScales", has_weights, &room[5])},
                          {.pointer = &l}};
  return fused_add_operator(e, &route_op, route);
}

/* ---- combine ----------------------------------------------------------------------------------------------------- */

status prepare_moe_distribute_combine(executor *e, const op_arg *a) {
  moe_layout l;
  comm *c;
  tensor expanded, ids, idx, counts, weights;
  TRY(moe_begin_layout(e, a, &l, &c));
  const tensor *given = a[fused_find(e->op, "expandX")].tensor;
  TRY(moe_expect_rows(given, "expandX"));
  TRY(moe_expect(e, a, "commQuantMode", 0, 0));
  l.dtype = given->dtype;
  l.width = given->dims[1];
  TRY(moe_expect_tensor(e, a, "expandIdx", ACL_INT32, l.n_tokens * l.choices, -1, false));
  TRY(moe_expect_tensor(e, a, "epSendCounts", ACL_INT32, moe_own_experts(&l) * l.n_ranks, -1, false));
  TRY(moe_expect_tensor(e, a, "expertScales", ACL_FLOAT, l.n_tokens, l.choices, true));
  TRY(moe_expect_tensor(e, a, "x", l.dtype, l.n_tokens, l.width, true));
  TRY(moe_expect_dense(e, a, "x"));
  TRY(moe_dense(e, a, "expandX", &expanded));
  TRY(moe_dense(e, a, "expertIds", &ids));
  TRY(moe_dense(e, a, "expandIdx", &idx));
  TRY(moe_dense(e, a, "epSendCounts", &counts));
  TRY(moe_dense(e, a, "expertScales", &weights));
  const int64_t dims[] = {l.n_ranks, moe_most_rows(&l), l.width};
  const tensor outgoing = fused_temporary(e, l.dtype, dims, 3), incoming = fused_temporary(e, l.dtype, dims, 3);
  const tensor x = fused_operand(e, a, fused_find(e->op, "x"));
  const op_arg back[] = {{.tensor = &expanded}, {.tensor = &counts}, {.tensor = &outgoing}, {.pointer = &l}};
  TRY(fused_add_operator(e, &return_op, back));
  TRY(fused_add_collective(e, c, COMM_ALL_TO_ALL, &outgoing, &incoming, outgoing.n / l.n_ranks));
  const op_arg sum[] = {{.tensor = &incoming}, {.tensor = &ids}, {.tensor = &idx},
                        {.tensor = &weights},  {.tensor = &x},   {.pointer = &l}};
  return fused_add_operator(e, &sum_op, sum);
}
