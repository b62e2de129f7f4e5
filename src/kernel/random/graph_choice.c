/* SPDX-License-Identifier: Apache-2.0 */
/* RandomChoiceWithMask and RandomShuffle, which are called by name. The first has the places of up to `count` elements
 * of x that are true, in random order, each at most once; where there are fewer, the rest of the places is 0, and so is
 * their mask. The second puts x's rows, along its first dimension, in random order. */
#include <string.h>

#include "kernel/engine/loops.h"
#include "kernel/random/random.h"

typedef struct {
  random_key key;
  int64_t n, count, rank;
  int64_t dims[MAX_RANK];
  uint64_t places; /* in scratch: int64_t[n] */
} choice_plan;

/* A random number from 0 to n - 1, the i-th of a call. */
static int64_t choice_below(const random_key *key, int64_t i, int64_t n) {
  uint32_t words[RANDOM_BLOCK_WORDS];
  random_level->words(words, key->seed, key->offset, (uint64_t)i, 1);
  const uint64_t word = (uint64_t)words[1] << 32 | words[0];
  return (int64_t)(((unsigned __int128)word * (uint64_t)n) >> 64);
}

static status choice_run(const executor *e, void *const *view, void *scratch) {
  const choice_plan *p = PLAN(e, choice_plan);
  const bool *x = view[GRAPH_CHOICE_X];
  int32_t *index = view[GRAPH_CHOICE_INDEX];
  bool *mask = view[GRAPH_CHOICE_MASK];
  int64_t *place = (int64_t *)(void *)((char *)scratch + p->places), found = 0;
  for (int64_t i = 0; i < p->n; ++i)
    if (x[i]) place[found++] = i;
  if (p->count) memset(index, 0, (size_t)(p->count * p->rank) * sizeof *index);
  for (int64_t i = 0; i < p->count; ++i) {
    mask[i] = i < found;
    if (i >= found) continue;
    const int64_t k = i + choice_below(&p->key, i, found - i), chosen = place[k];
    place[k] = place[i]; /* Fisher and Yates: the first i places have been chosen */
    int64_t rest = chosen;
    for (int64_t d = p->rank - 1; d >= 0; rest /= p->dims[d--]) index[i * p->rank + d] = (int32_t)(rest % p->dims[d]);
  }
  return ST_OK;
}

status prepare_graph_choice(executor *e, const graph_choice_args *a) {
  const tensor *x = a->x;
  choice_plan *p = PLAN(e, choice_plan);
  TRY(op_expect_dtype(x, "x", DTYPE_BIT(ACL_BOOL)));
  TRY(op_expect_dtype(a->index, "index", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_dtype(a->mask, "mask", DTYPE_BIT(ACL_BOOL)));
  TRY(op_expect_rank(x, "x", 1, MAX_RANK));
  EXPECT(a->count >= 0, "count is %jd, expected 0 or more", (intmax_t)a->count);
  EXPECT(x->n <= INT32_MAX, "x has %jd elements, expected up to %d", (intmax_t)x->n, INT32_MAX);
  TRY(op_expect_shape(a->mask, "mask", &a->count, 1));
  TRY(op_expect_shape(a->index, "index", (const int64_t[]){a->count, x->rank}, 2));
  *p = (choice_plan){.key = random_key_next(a->seed, a->seed2, (uint64_t)a->count),
                     .n = x->n,
                     .count = a->count,
                     .rank = x->rank,
                     .places = workspace_intermediate(e, (uint64_t)x->n * sizeof(int64_t))};
  memcpy(p->dims, x->dims, sizeof p->dims);
  executor_cost(e, (uint64_t)x->n, (uint64_t)x->n * 4 + (uint64_t)a->count * 64);
  e->run = choice_run;
  return ST_OK;
}

/* ---- RandomShuffle ----------------------------------------------------------------------------------------------- */

typedef struct {
  random_key key;
  int64_t n, row;  /* rows, and bytes of each */
  uint64_t places; /* in scratch: int64_t[n] */
} shuffle_plan;

static status shuffle_run(const executor *e, void *const *view, void *scratch) {
  const shuffle_plan *p = PLAN(e, shuffle_plan);
  const char *x = view[GRAPH_SHUFFLE_X];
  char *y = view[GRAPH_SHUFFLE_Y];
  int64_t *place = (int64_t *)(void *)((char *)scratch + p->places);
  for (int64_t i = 0; i < p->n; ++i) place[i] = i;
  for (int64_t i = 0; i < p->n; ++i) {
    const int64_t k = i + choice_below(&p->key, i, p->n - i), chosen = place[k];
    place[k] = place[i];
    if (p->row) memcpy(y + i * p->row, x + chosen * p->row, (size_t)p->row);
  }
  return ST_OK;
}

status prepare_graph_shuffle(executor *e, const graph_shuffle_args *a) {
  const tensor *x = a->x;
  const int64_t n = x->rank ? x->dims[0] : 1, bytes = x->n * (int64_t)dtype_bytes(x->dtype);
  TRY(op_expect_dtype(x, "x", DTYPES_NUMBER));
  TRY(op_expect_dtype(a->y, "y", DTYPE_BIT(x->dtype)));
  TRY(op_expect_same_shape(a->y, "y", x));
  *PLAN(e, shuffle_plan) = (shuffle_plan){.key = random_key_next(a->seed, a->seed2, (uint64_t)n),
                                          .n = n,
                                          .row = n ? bytes / n : 0,
                                          .places = workspace_intermediate(e, (uint64_t)n * sizeof(int64_t))};
  executor_cost(e, (uint64_t)bytes * 2, (uint64_t)n * 64);
  e->run = shuffle_run;
  return ST_OK;
}
