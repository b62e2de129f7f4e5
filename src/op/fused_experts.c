/* SPDX-License-Identifier: Apache-2.0 */
/* AlltoAllAllGatherBatchMatMul and BatchMatMulReduceScatterAlltoAll: the GEMMs of experts that are spread over the `ep`
 * ranks of one communicator, and whose matrices are split over the `tp` ranks of another. Tokens are [E, C, H]: C
 * tokens of width H for each of E experts, of which each rank has E / ep. What is split among the tp ranks is H or C,
 * as the shard type tells: 0 or 1. Tokens of one expert are ordered by ep rank, then (if C is split) by tp rank. */
#include "kernel/families.h"
#include "op/fused_steps.h"

enum { SPLIT_HIDDEN, SPLIT_TOKENS };

typedef struct {
  comm *ep, *tp;
  int64_t n_ep, n_tp;
  int64_t experts, tokens, hidden; /* of one rank's part of [E, C, H]: E / ep, and what the shard type leaves of C, H */
  int64_t rows;                    /* of an expert's left matrix */
  bool splits_tokens;
} experts;

/* The arguments that both operators have. */
typedef struct {
  const tensor *x, *weight, *bias;
  const char *group_ep, *group_tp;
  int64_t ep_world_size, tp_world_size, shard_type;
} experts_args;

#define EXPERTS_ARGS(a, shard)                                                                                         \
  { (a)->x, (a)->weight, (a)->bias, (a)->group_ep, (a)->group_tp, (a)->ep_world_size, (a)->tp_world_size, shard }

static status experts_world(executor *e, const char *name, const char *group, int64_t size, const char *size_name,
                            comm **c, int64_t *n) {
  TRY(fused_group(e, name, group, c));
  *n = comm_n_ranks(*c);
  EXPECT(size == *n, "%s is %jd, expected %jd, the number of ranks of %s", size_name, (intmax_t)size, (intmax_t)*n,
         group);
  return ST_OK;
}

/* Checks one of the tensors of three dimensions: its dtype, shape and density. */
static status experts_expect(const tensor *t, const char *name, int dtype, int64_t a, int64_t b, int64_t c) {
  EXPECT(t->dtype == dtype, "%s has dtype %s, expected %s, that of x", name, dtype_name(t->dtype), dtype_name(dtype));
  TRY(op_expect_shape(t, name, (const int64_t[]){a, b, c}, 3));
  EXPECT(t->contiguous, "%s has gaps or exchanged dimensions, expected a contiguous tensor", name);
  return ST_OK;
}

/* Gets the groups, and checks what both operators have in common. `tokens`: the tensor that is [E, C, H] in part. */
static status experts_begin(executor *e, const experts_args *a, const char *shard_type, const tensor *tokens,
                            const char *name, experts *x) {
  const tensor *weight = a->weight;
  const int64_t shard = a->shard_type;
  TRY(fused_begin(e));
  TRY(op_expect_dtype(a->x, "x", DTYPES_HALF));
  EXPECT(weight->dtype == a->x->dtype, "weight has dtype %s, expected %s, that of x", dtype_name(weight->dtype),
         dtype_name(a->x->dtype));
  EXPECT(shard == SPLIT_HIDDEN || shard == SPLIT_TOKENS, "%s is %jd, expected 0 or 1", shard_type, (intmax_t)shard);
  TRY(experts_world(e, a->group_ep, "groupEp", a->ep_world_size, "epWorldSize", &x->ep, &x->n_ep));
  TRY(experts_world(e, a->group_tp, "groupTp", a->tp_world_size, "tpWorldSize", &x->tp, &x->n_tp));
  EXPECT(x->ep != x->tp, "groupTp is that of groupEp, expected another");
  TRY(op_expect_rank(weight, "weight", 3, 3));
  EXPECT(tokens->rank == 3 && tokens->n > 0 && tokens->dims[0] == weight->dims[0] * x->n_ep,
         "%s has shape %s, expected [%jd, .., ..], without zeros", name, SHAPE_OF(tokens),
         (intmax_t)(weight->dims[0] * x->n_ep));
  x->experts = weight->dims[0];
  x->tokens = tokens->dims[1];
  x->hidden = tokens->dims[2];
  x->splits_tokens = shard == SPLIT_TOKENS;
  x->rows = x->n_ep * x->tokens * (x->splits_tokens ? x->n_tp : 1);
  return ST_OK;
}

/* The bias, [experts, width] or [experts, 1, width], as [experts, 1, width]; NULL: there is none. float16 has a bias of
 * float16, bfloat16 one of float32. */
static status experts_bias(const experts_args *a, int64_t n_experts, int64_t width, tensor *room, const tensor **out) {
  enum { BIAS = 2 }; /* its number among the operands */
  const tensor *bias = a->bias;
  *out = NULL;
  if (!bias) return ST_OK;
  const int dtype = a->x->dtype == ACL_BF16 ? ACL_FLOAT : ACL_FLOAT16;
  const int64_t two[] = {n_experts, width}, three[] = {n_experts, 1, width};
  EXPECT(bias->dtype == dtype, "biasOptional has dtype %s, expected %s", dtype_name(bias->dtype), dtype_name(dtype));
  TRY(op_expect_shape(bias, "biasOptional", bias->rank == 2 ? two : three, bias->rank == 2 ? 2 : 3));
  *room = fused_operand(bias, BIAS);
  if (bias->rank == 2) {
    room->rank = 3;
    room->dims[2] = width, room->strides[2] = bias->strides[1];
    room->dims[1] = room->strides[1] = 1;
  }
  *out = room;
  return ST_OK;
}

/* ---- AlltoAll, AllGather, GEMM ----------------------------------------------------------------------------------- */

/* The tokens of this rank's experts, as the experts' left matrices: from the ranks of ep, then those of tp. */
static status experts_gather(executor *e, const tensor *tokens, const experts *x, const tensor *y2) {
  enum { TP, EP, EXPERT, TOKEN, HIDDEN, N };
  static const int by_hidden[] = {EXPERT, EP, TOKEN, TP, HIDDEN}, by_tokens[] = {EXPERT, EP, TP, TOKEN, HIDDEN};
  const int64_t dims[N] = {x->n_tp, x->n_ep, x->experts, x->tokens, x->hidden};
  const int dtype = tokens->dtype;
  const tensor own = fused_operand(tokens, ALL_GATHER_EXPERTS_X),
               received = fused_temporary(e, dtype, dims + EP, N - EP), gathered = fused_temporary(e, dtype, dims, N),
               ordered = fused_permuted(&gathered, x->splits_tokens ? by_tokens : by_hidden);
  const tensor to = fused_reshaped(y2, ordered.dims, N);
  TRY(fused_add_collective(e, x->ep, COMM_ALL_TO_ALL, &own, &received, own.n / x->n_ep));
  TRY(fused_add_collective(e, x->tp, COMM_ALL_GATHER, &received, &gathered, own.n));
  return fused_add_InplaceCopy(e, &to, &ordered);
}

typedef status add_activation(executor *e, const tensor *y3, const tensor *y1);
static add_activation *const activations[] = {fused_add_Gelu, fused_add_Silu, fused_add_Relu};
enum { N_ACTIVATIONS = sizeof activations / sizeof *activations };

/* x: [E, C, H / tp] or [E, C / tp, H]; y2 = the tokens of this rank's experts; y3 = y2 @ weight + bias;
 * y1 = activation(y3). */
status prepare_all_gather_experts(executor *e, const all_gather_experts_args *a) {
  const experts_args common = EXPERTS_ARGS(a, a->x_shard_type);
  const tensor *weight = a->weight;
  const int dtype = a->x->dtype;
  const int64_t activation = a->act_type;
  experts x;
  tensor room;
  const tensor *bias;
  TRY(experts_begin(e, &common, "xShardType", a->x, "x", &x));
  EXPECT(activation >= 0 && activation <= N_ACTIVATIONS, "actType is %jd, expected 0 to %d", (intmax_t)activation,
         N_ACTIVATIONS);
  EXPECT(a->x->contiguous, "x has gaps or exchanged dimensions, expected a contiguous tensor");
  const int64_t k = x.hidden * (x.splits_tokens ? 1 : x.n_tp), width = weight->dims[2];
  TRY(op_expect_shape(weight, "weight", (const int64_t[]){x.experts, k, width}, 3));
  TRY(experts_bias(&common, x.experts, width, &room, &bias));
  TRY(experts_expect(a->y1_out, "y1Out", dtype, x.experts, x.rows, width));
  if (a->y2_out) TRY(experts_expect(a->y2_out, "y2OutOptional", dtype, x.experts, x.rows, k));
  if (a->y3_out) TRY(experts_expect(a->y3_out, "y3OutOptional", dtype, x.experts, x.rows, width));
  const int64_t left[] = {x.experts, x.rows, k}, right[] = {x.experts, x.rows, width};
  const tensor y1 = fused_operand(a->y1_out, ALL_GATHER_EXPERTS_Y1_OUT),
               y2 =
                   a->y2_out ? fused_operand(a->y2_out, ALL_GATHER_EXPERTS_Y2_OUT) : fused_temporary(e, dtype, left, 3),
               y3 = a->y3_out    ? fused_operand(a->y3_out, ALL_GATHER_EXPERTS_Y3_OUT)
                    : activation ? fused_temporary(e, dtype, right, 3)
                                 : y1,
               factor = fused_operand(weight, ALL_GATHER_EXPERTS_WEIGHT);
  TRY(experts_gather(e, a->x, &x, &y2));
  TRY(fused_add_Matmul(e, &y2, &factor, bias, &y3, false, false));
  if (activation) return activations[activation - 1](e, &y3, &y1);
  return a->y3_out ? fused_add_InplaceCopy(e, &y1, &y3) : ST_OK;
}

/* ---- GEMM, ReduceScatter, AlltoAll ------------------------------------------------------------------------------- */

/* x @ weight is summed over the tp ranks, each of which gets its part of H or C, and adds its bias; the tokens then
 * return to the ep ranks that have sent them. out: [E, C, H / tp] or [E, C / tp, H]. */
status prepare_reduce_scatter_experts(executor *e, const reduce_scatter_experts_args *a) {
  const experts_args common = EXPERTS_ARGS(a, a->y_shard_type);
  enum { TP, EP, EXPERT, TOKEN, HIDDEN, N }; /* the dimensions as they are sent */
  static const int by_hidden[] = {3, 1, 0, 2, 4}, by_tokens[] = {2, 1, 0, 3, 4};
  const tensor *weight = a->weight, *out = a->out;
  const int dtype = a->x->dtype;
  experts x;
  tensor room;
  const tensor *bias;
  TRY(experts_begin(e, &common, "yShardType", out, "out", &x));
  TRY(experts_expect(out, "out", dtype, out->dims[0], x.tokens, x.hidden));
  const int64_t width = x.hidden * (x.splits_tokens ? 1 : x.n_tp), k = weight->dims[1];
  TRY(op_expect_shape(weight, "weight", (const int64_t[]){x.experts, k, width}, 3));
  TRY(op_expect_shape(a->x, "x", (const int64_t[]){x.experts, x.rows, k}, 3));
  TRY(experts_bias(&common, x.experts, x.hidden, &room, &bias));
  const int64_t sums[] = {x.experts, x.rows, width}, sent[N] = {x.n_tp, x.n_ep, x.experts, x.tokens, x.hidden};
  const int64_t by_h[N] = {x.experts, x.n_ep, x.tokens, x.n_tp, x.hidden};
  const int64_t by_c[N] = {x.experts, x.n_ep, x.n_tp, x.tokens, x.hidden};
  const tensor left = fused_operand(a->x, REDUCE_SCATTER_EXPERTS_X),
               right = fused_operand(weight, REDUCE_SCATTER_EXPERTS_WEIGHT),
               to = fused_operand(out, REDUCE_SCATTER_EXPERTS_OUT), product = fused_temporary(e, dtype, sums, 3),
               ordered = fused_temporary(e, dtype, sent, N), reduced = fused_temporary(e, dtype, sent + EP, N - EP),
               split = fused_reshaped(&product, x.splits_tokens ? by_c : by_h, N),
               permuted = fused_permuted(&split, x.splits_tokens ? by_tokens : by_hidden);
  TRY(fused_add_Matmul(e, &left, &right, NULL, &product, false, false));
  TRY(fused_add_InplaceCopy(e, &ordered, &permuted));
  TRY(fused_add_collective(e, x.tp, COMM_REDUCE_SCATTER, &ordered, &reduced, reduced.n));
  if (bias) TRY(fused_add_Add(e, &reduced, bias));
  return fused_add_collective(e, x.ep, COMM_ALL_TO_ALL, &reduced, &to, reduced.n / x.n_ep);
}
