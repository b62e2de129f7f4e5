/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout that is called by name. DropoutV2: y = x / (1 - p) where an element is kept, else 0. The mask has an element
 * for each of x, 1 where it is kept. The seed is a number in a tensor, and the last output is the seed of the next
 * call, which may be the same memory. Dropout2D and Dropout3D keep whole channels. */
#include <math.h>
#include <string.h>

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

/* ---- Dropout2D, Dropout3D: whole channels, that is, all behind the first two dimensions -------------------------- */

typedef struct {
  random_key key;
  int64_t n, each; /* channels, and elements of each */
  uint64_t below;  /* channels with a random word of 32 bits below this are kept */
  double scale;
  int64_t bytes; /* of an element of x */
  load_loop *load;
  store_loop *store;
} channel_dropout_plan;

typedef struct {
  const channel_dropout_plan *plan;
  void *const *view;
} channel_dropout_job;

static void channel_dropout_share(const void *arg, int64_t begin, int64_t end) {
  const channel_dropout_plan *p = ((const channel_dropout_job *)arg)->plan;
  void *const *view = ((const channel_dropout_job *)arg)->view;
  double value[RANDOM_TILE];
  for (int64_t i = begin; i < end; ++i) {
    uint32_t words[RANDOM_BLOCK_WORDS];
    random_level->words(words, p->key.seed, p->key.offset, (uint64_t)i, 1);
    const bool kept = words[0] < p->below;
    const char *x = (const char *)view[GRAPH_CHANNEL_DROPOUT_X] + i * p->each * p->bytes;
    char *y = (char *)view[GRAPH_CHANNEL_DROPOUT_Y] + i * p->each * p->bytes;
    memset((char *)view[GRAPH_CHANNEL_DROPOUT_MASK] + i * p->each, kept, (size_t)p->each);
    for (int64_t k = 0, n; k < p->each; k += n) {
      n = i64_min(RANDOM_TILE, p->each - k);
      p->load(value, x + k * p->bytes, p->bytes, n);
      for (int64_t j = 0; j < n; ++j) value[j] = kept ? value[j] * p->scale : 0;
      p->store(y + k * p->bytes, p->bytes, value, n);
    }
  }
}

static status channel_dropout_run(const executor *e, void *const *view, void *scratch) {
  const channel_dropout_plan *p = PLAN(e, channel_dropout_plan);
  const channel_dropout_job job = {p, view};
  (void)scratch;
  rows_parallel(channel_dropout_share, &job, p->n, 1, e->cost_ns);
  return ST_OK;
}

status prepare_graph_channel_dropout(executor *e, const graph_channel_dropout_args *a) {
  const tensor *x = a->x;
  TRY(op_expect_dtype(x, "x", DTYPES_REAL));
  TRY(op_expect_dtype(a->y, "y", DTYPE_BIT(x->dtype)));
  TRY(op_expect_dtype(a->mask, "mask", DTYPE_BIT(ACL_BOOL)));
  TRY(op_expect_rank(x, "x", 3, MAX_RANK));
  TRY(op_expect_same_shape(a->y, "y", x));
  TRY(op_expect_same_shape(a->mask, "mask", x));
  EXPECT(a->keep_prob >= 0 && a->keep_prob <= 1, "keep_prob is %g, expected 0 to 1", a->keep_prob);
  const int64_t n = x->dims[0] * x->dims[1];
  *PLAN(e, channel_dropout_plan) = (channel_dropout_plan){.key = random_key_next(0, 0, (uint64_t)n),
                                                          .n = x->n ? n : 0,
                                                          .each = n ? x->n / n : 0,
                                                          .below = (uint64_t)ceil(a->keep_prob * 0x1p32),
                                                          .scale = a->keep_prob > 0 ? 1 / a->keep_prob : 0,
                                                          .bytes = (int64_t)dtype_bytes(x->dtype),
                                                          .load = loops->load[x->dtype][COMPUTE_F64],
                                                          .store = loops->store[x->dtype][COMPUTE_F64]};
  executor_cost(e, (uint64_t)x->n * (2 * dtype_bytes(x->dtype) + 1), (uint64_t)x->n * 8);
  e->run = channel_dropout_run;
  return ST_OK;
}
