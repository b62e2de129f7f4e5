/* SPDX-License-Identifier: Apache-2.0 */
/* Gathering rows of tokens by numbers that the run has computed before. Called by permute.c, routing_map_permute.c and
 * re_routing.c; calls the engine of kernel/index/places.h. A token_gather is part of a plan on the executor's heap, and
 * not changed by runs. */
#ifndef CANNON_KERNEL_MOE_TOKEN_GATHER_H
#define CANNON_KERNEL_MOE_TOKEN_GATHER_H

#include "kernel/index/places.h"

typedef struct {
  places rows;
  index_source source;
  uint64_t numbers; /* in scratch, int64: the token of each row of the result */
  int64_t n;        /* elements of the result */
} token_gather;

/* Plans gathering rows of tokens [n, width...], which are operand 0, into the first rows of out; asks for workspace for
 * n_slots numbers, of which a run reads as many as out has rows. name: where they come from, for messages. */
void token_gather_plan(executor *e, token_gather *g, const tensor *tokens, const tensor *out, const char *name,
                       int64_t n_slots);

static inline int64_t *token_gather_numbers(const token_gather *g, void *scratch) {
  return (int64_t *)(void *)((char *)scratch + g->numbers);
}

/* Gathers into operand `out`. */
status token_gather_run(const token_gather *g, const executor *e, void *const *view, int out, void *scratch);

#endif
