/* SPDX-License-Identifier: Apache-2.0 */
/* DropoutV2, which is called by name: y = x / (1 - p) where an element is kept, else 0. The mask has an element for
 * each of x, 1 where it is kept. The seed is a number in a tensor, and the last output is the seed of the next call,
 * which may be the same memory. */
#include <math.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/random/random.h"

typedef struct {
  int64_t n;
  uint32_t below; /* elements with a random word below this are dropped */
  bool drops_all, drops_none;
  float scale;
  int64_t x_bytes, mask_bytes; /* of an element */
  load_loop *load;
  store_loop *store, *store_mask;
} graph_dropout_plan;

typedef struct {
  const graph_dropout_plan *plan;
  uint64_t seed;
  void *const *view;
} graph_dropout_job;

static void graph_dropout_share(const void *arg, int64_t begin, int64_t end) {
  const graph_dropout_job *j = arg;
  const graph_dropout_plan *p = j->plan;
  const char *x = j->view[GRAPH_DROPOUT_X];
  char *y = j->view[GRAPH_DROPOUT_Y], *mask = j->view[GRAPH_DROPOUT_MASK];
  uint32_t words[RANDOM_TILE];
  float value[RANDOM_TILE], kept[RANDOM_TILE];
  for (int64_t i = begin, n; i < end; i += n) {
    n = i64_min(RANDOM_TILE, end - i);
    random_level->words(words, j->seed, 0, (uint64_t)i / RANDOM_BLOCK_WORDS,
                        (n + RANDOM_BLOCK_WORDS - 1) / RANDOM_BLOCK_WORDS);
    p->load(value, x + i * p->x_bytes, p->x_bytes, n);
    for (int64_t k = 0; k < n; ++k) {
      kept[k] = !p->drops_all && (p->drops_none || words[k] >= p->below);
      value[k] = kept[k] != 0 ? value[k] * p->scale : 0;
    }
    p->store(y + i * p->x_bytes, p->x_bytes, value, n);
    p->store_mask(mask + i * p->mask_bytes, p->mask_bytes, kept, n);
  }
}

static status graph_dropout_run(const executor *e, void *const *view, void *scratch) {
  const graph_dropout_plan *p = PLAN(e, graph_dropout_plan);
  const float seed = *(const float *)view[GRAPH_DROPOUT_SEED];
  const graph_dropout_job job = {p, isfinite(seed) && fabsf(seed) < 0x1p62f ? (uint64_t)(int64_t)seed : 0, view};
  (void)scratch;
  rows_parallel(graph_dropout_share, &job, p->n, RANDOM_TILE, e->cost_ns);
  *(float *)view[GRAPH_DROPOUT_NEW_SEED] = seed + 1;
  return ST_OK;
}

status prepare_graph_dropout(executor *e, const graph_dropout_args *a) {
  const tensor *x = a->x;
  graph_dropout_plan *p = PLAN(e, graph_dropout_plan);
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT & ~DTYPE_BIT(ACL_DOUBLE)));
  TRY(op_expect_dtype(a->y, "y", DTYPE_BIT(x->dtype)));
  TRY(op_expect_dtype(a->mask, "mask", DTYPES_REAL));
  TRY(op_expect_dtype(a->seed, "seed", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_dtype(a->new_seed, "new_seed", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_shape(a->y, "y", x->dims, x->rank));
  TRY(op_expect_shape(a->mask, "mask", x->dims, x->rank));
  EXPECT(a->seed->n == 1 && a->new_seed->n == 1, "seed has %jd elements and new_seed %jd, expected one",
         (intmax_t)a->seed->n, (intmax_t)a->new_seed->n);
  EXPECT(a->p >= 0 && a->p <= 1, "p is %g, expected 0 to 1", a->p);
  const double words = ceil(a->p * 0x1p32);
  *p = (graph_dropout_plan){.n = x->n,
                            .below = words > UINT32_MAX ? UINT32_MAX : (uint32_t)words,
                            .drops_all = a->p == 1,
                            .drops_none = a->p == 0,
                            .scale = a->p == 1 ? 0 : (float)(1 / (1 - a->p)),
                            .x_bytes = (int64_t)dtype_bytes(x->dtype),
                            .mask_bytes = (int64_t)dtype_bytes(a->mask->dtype),
                            .load = loops->load[x->dtype][COMPUTE_F32],
                            .store = loops->store[x->dtype][COMPUTE_F32],
                            .store_mask = loops->store[a->mask->dtype][COMPUTE_F32]};
  e->run = graph_dropout_run;
  executor_cost(e, (uint64_t)x->n * (2 * dtype_bytes(x->dtype) + dtype_bytes(a->mask->dtype)), (uint64_t)x->n * 64);
  return ST_OK;
}
