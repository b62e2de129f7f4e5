/* SPDX-License-Identifier: Apache-2.0 */
/* The computing between the collectives of MoeDistributeDispatch and MoeDistributeCombine (op/fused_moe.c): the
 * steps MoePack, MoeRoute, MoeReturn and MoeSum of ops/fused.ops. Experts are spread over the ranks of a
 * communicator: each rank after the first n_shared has n_local of them; the first n_shared ranks have copies of one
 * expert that gets all tokens, those of rank r in the copy of rank r % n_shared. Stateless. */
#ifndef CANNON_KERNEL_MOE_DISTRIBUTE_H
#define CANNON_KERNEL_MOE_DISTRIBUTE_H

#include "op/executor.h"

/* What the argument `layout` of the steps points to, which is copied. */
typedef struct {
  int dtype; /* of tokens: float16 or bfloat16 */
  int64_t rank, n_ranks, n_shared;
  int64_t n_local;       /* experts of a rank that is not shared */
  int64_t n_tokens;      /* of this rank, ... */
  int64_t max_tokens;    /* ... and the most of any rank */
  int64_t choices;       /* experts that a token goes to, the shared one aside */
  int64_t width;         /* elements of a token */
  int64_t shared_scales; /* rows of scales for shared experts, before those of the others */
  bool quantises, sums_counts;
  bool mask_by_choice; /* xActiveMask has a value for each choice of a token, rather than one for each token */
} moe_layout;

/* Numbers that a dispatch of version 2 tells the combine for each row of expandX. */
enum { MOE_ASSIST = 128 };

/* Experts of the rank itself. */
static inline int64_t moe_own_experts(const moe_layout *l) { return l->rank < l->n_shared ? 1 : l->n_local; }

/* Rows that a rank can get from another rank. */
static inline int64_t moe_most_rows(const moe_layout *l) {
  return l->max_tokens * (l->n_local < l->choices ? l->n_local : l->choices);
}

/* What a rank tells the others in a dispatch, in bytes: a header with the number of tokens, then for max_tokens tokens
 * the experts (int32) and their scales (float), then the tokens. */
int64_t moe_block_bytes(const moe_layout *l);

#endif
