/* SPDX-License-Identifier: Apache-2.0 */
/* Caches of keys and values to which operators write a row for each token and head, at the slot that an index names.
 * Used by the prepare and run functions of operators that compute such rows (mla_prolog.c, kv_norm_rope.c). A
 * token_cache is plain data in an operator's plan; writes to different slots may run at the same time. */
#ifndef CANNON_KERNEL_ATTENTION_TOKEN_CACHE_H
#define CANNON_KERNEL_ATTENTION_TOKEN_CACHE_H

#include "kernel/engine/rows.h"
#include "op/executor.h"

typedef enum {
  TOKENS_IN_PAGES,   /* [pages, tokens, heads, n]; a slot numbers the tokens of all pages */
  TOKENS_IN_BLOCKS,  /* the same shape, but a page's memory holds [heads, n / part, tokens, part], parts of 32 bytes */
  TOKENS_IN_BATCHES, /* [batches, heads, tokens, n]; a slot numbers the tokens of all batches */
} token_cache_form;

typedef struct {
  int64_t tokens, n_slots;         /* of a page, or batch; of all of them */
  int64_t page, token, head, step; /* strides in bytes; step: between the elements of a part */
  int64_t part, part_step;         /* elements of a part of a row, and bytes from one part to the next */
  int64_t n;                       /* elements of a row */
  store_loop *store;
} token_cache;

/* Checks the cache's shape and plans writes to it. dtypes: those that are allowed. */
status token_cache_plan(token_cache *c, const tensor *t, const char *name, uint64_t dtypes, token_cache_form form,
                        int64_t heads, int64_t n);

/* A vector of factors that tokens share, or one for each head; operand: -1 if it is not given. */
typedef struct {
  int16_t operand, dtype;
  int64_t step, head; /* strides in bytes */
} token_vector;

/* Loads n values as floats, of an operand that is given. */
static inline void token_vector_load(const token_vector *v, void *const *view, int64_t head, float *to, int64_t n) {
  if (v->operand >= 0)
    loops->load[v->dtype][COMPUTE_F32](to, (const char *)view[v->operand] + head * v->head, v->step, n);
}

/* Writes a row of n floats; values beyond the range of an integer type saturate. base: the cache's address. */
void token_cache_write(const token_cache *c, char *base, int64_t slot, int64_t head, const float *row);

#endif
