/* SPDX-License-Identifier: Apache-2.0 */
/* Recomputation: which links drop their activations after their forward part and make them again before their backward
 * part, as torch.utils.checkpoint does (use_reentrant=False): inputs are kept, the forward part runs once more up to
 * the last result that is needed, and just before the backward part.
 *
 * The choice is exact for a chain, in which links run forward in order and backward in the reverse order and what one
 * saves is not there before or after: a dynamic program over what the links so far save, with all states that no other
 * one beats in both bytes and time. Where links branch and overlap, it is a good guess that a replay verifies. */
#ifndef CANNON_FIT_ADVISE_RECOMPUTE_H
#define CANNON_FIT_ADVISE_RECOMPUTE_H

#include "fit/advise/model.h"

typedef struct advise_chain advise_chain;

/* The model outlives the chain. NULL: there is no memory. */
advise_chain *advise_chain_new(const advise_model *m);
void advise_chain_free(advise_chain *c);

/* What recomputing a link costs, in time of the recording; 0 where nothing would be dropped. */
double advise_chain_cost(const advise_chain *c, uint32_t link);

/* Drops and makes again, in the edits, what the links with a group of 1 or more make. Neighbours of the same group are
 * recomputed as one: what one of them hands to the next is dropped, too. Adds the time. False: no memory. */
bool advise_recompute_apply(const advise_chain *c, advise_edits *e, const uint32_t *group);

/* What the dynamic program needs to know of the links after some edits. */
typedef struct {
  uint32_t n;
  uint64_t *keeping, *dropping; /* most bytes while link k is the innermost one; [n]: beyond the last */
  int64_t *saved;               /* by dropping k, while later links run */
  double *cost;                 /* < 0: k cannot be dropped */
} advise_slopes;

bool advise_slopes_make(const advise_chain *c, const advise_edits *e, advise_slopes *s);
void advise_slopes_free(advise_slopes *s);

/* The cheapest choice that keeps the peak within `budget`, by the dynamic program alone: group[k] is k + 1 or 0.
 * Returns false if there is none. *is_exact becomes false if states were rounded, for there were too many. */
bool advise_recompute_choose(const advise_slopes *s, uint64_t budget, uint32_t *group, bool *is_exact);

/* The cheapest choice whose replay is within the budget; if there is none, that with the lowest peak that was found.
 * `peak` receives the peak by replay and `extra_ns` the time of what is made again. False: no memory. */
typedef struct {
  uint64_t peak;
  double extra_ns;
  bool fits, is_exact;
} advise_choice;
bool advise_recompute_plan(const advise_chain *c, const advise_edits *e, const advise_slopes *s, uint64_t budget,
                           uint32_t *group, advise_choice *out);

/* The peak of a given choice, and its time. */
bool advise_recompute_judge(const advise_chain *c, const advise_edits *e, const uint32_t *group, advise_choice *out);

#endif
