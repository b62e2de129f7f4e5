/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of change besides recomputation, each of which edits blocks and adds its time. They are applied in the
 * order of this file, before recomputation. All return false if there is no memory. */
#ifndef CANNON_FIT_ADVISE_CHANGE_H
#define CANNON_FIT_ADVISE_CHANGE_H

#include "comm/schedule/cost.h"
#include "fit/advise/model.h"
#include "runtime/dry/profile.h"

/* Blocks that nothing reads any more, for more than `idle_share` of the step's time, are freed after their last use. */
bool advise_change_prune(advise_edits *e, double idle_share, uint64_t least_bytes);

/* Attention whose scores (all queries by all keys) are blocks: products, softmax, products. */
typedef enum { ATTENTION_AS_IS, ATTENTION_CHUNKED, ATTENTION_FLASH, ATTENTION_N_KINDS } attention_kind;
typedef struct {
  uint32_t n_softmax;  /* patterns in the step; 0: none was found */
  uint64_t bytes;      /* of the scores that are kept for the backward part */
  uint32_t site;       /* of the first softmax */
  uint8_t *is_score;   /* by item of the model */
  uint8_t *is_softmax; /* likewise: a softmax's result */
  uint64_t kept;       /* bytes that the fused operator keeps for the backward part in place of one pattern's scores */
  double forward_ns;   /* of the tasks forward that touch scores */
  double other_ns;     /* of the tasks that touch scores and are not products, forward and backward */
  uint32_t n_forward, n_tasks; /* that touch scores: forward, and in all */
} advise_attention;
bool advise_attention_find(const advise_model *m, advise_attention *a);
void advise_attention_free(advise_attention *a);
/* chunks: of queries, in chunked attention, whose scores are made again in the backward part. */
bool advise_change_attention(advise_edits *e, const advise_attention *a, attention_kind kind, uint32_t chunks);

/* torch.autocast: products (matrices, convolutions) and what follows from their results alone is stored in 16 bits;
 * products have copies of what is not. half: parameters, gradients, states and all else in 16 bits. To be used for
 * steps of 32 bits. `e` is as the model's items, so far without added ones that are in 32 bits. */
typedef enum { STORAGE_AS_IS, STORAGE_AMP, STORAGE_HALF, STORAGE_N_KINDS } storage_kind;
bool advise_change_storage(advise_edits *e, storage_kind kind);

/* The size of an element of products, from their operations and operands: 4, 2, or 0 if unknown. */
unsigned advise_element_bytes(const advise_model *m);

/* What is made in the step and is no gradient becomes `factor` times as large; the time likewise, as far as tasks read
 * what changes. micro_batches of them make a step: then gradients live through all of them, and each new one is there
 * besides. */
bool advise_change_batch(advise_edits *e, double factor, uint32_t micro_batches);

/* ZeRO: each of n devices has 1/n of the optimizer's states (stage 1), of gradients, too (2), and of parameters, which
 * are gathered for one link at a time (3). The time of collectives, as if nothing hides it, comes from the model. */
bool advise_change_zero(advise_edits *e, unsigned stage, uint32_t n, cost_model *cost);

/* Copies activations to the host that are idle for longer than both copies take, the largest products of bytes and time
 * first, until the peak is within the budget and as long as the link has time. Adds the time by which copies are longer
 * than the forward or backward part. *n_moved, *moved_bytes: what was moved. */
bool advise_change_offload(advise_edits *e, const device_profile *p, uint64_t budget, uint32_t *n_moved,
                           uint64_t *moved_bytes);

#endif
