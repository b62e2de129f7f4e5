/* SPDX-License-Identifier: Apache-2.0 */
/* LightningIndexer: for each query, the numbers of the keys with the largest scores, and these scores:
 *
 *   score(k) = sum over the heads of a key head of weight * max(query . key(k), 0)
 *
 * Scores are computed in float, and of equal ones the first key is first. Behind the keys that the query sees, numbers
 * are -1 and scores -infinity. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/attention/sparse_keys.h"
#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

enum { KEYS_AT_ONCE = 64 };

typedef struct {
  sparse_keys keys;
  head_view weights, indices, values;
  int64_t count;
  bool has_values;
} indexer_plan;

typedef struct {
  const indexer_plan *plan;
  void *const *view;
  const sparse_sequence *sequences;
  status *result;
} indexer_job;

/* Orders scores as integers, NaN above all; of equal scores, the lower key is greater. */
static uint64_t indexer_order(float score, int64_t k) {
  uint32_t bits;
  if (score != score) score = INFINITY;
  if (score == 0) score = 0; /* -0 is 0 */
  memcpy(&bits, &score, sizeof bits);
  bits = bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
  return (uint64_t)bits << 32 | (uint32_t) ~(uint32_t)k;
}

static void indexer_swap(uint64_t *a, uint64_t *b) {
  const uint64_t t = *a;
  *a = *b;
  *b = t;
}

/* Moves the largest `count` of n different values to the front, in any order. */
static void indexer_select(uint64_t *x, int64_t n, int64_t count) {
  int64_t low = 0, high = n;
  while (high - low > 1) {
    const uint64_t pivot = x[low + (high - low) / 2];
    int64_t i = low, j = high - 1;
    while (i <= j) {
      while (x[i] > pivot) ++i;
      while (x[j] < pivot) --j;
      if (i <= j) indexer_swap(&x[i++], &x[j--]);
    }
    if (count <= j)
      high = j + 1;
    else if (count > i)
      low = i;
    else
      return;
  }
}

static int indexer_compare(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? 1 : x > y ? -1 : 0;
}

/* Memory of a thread. */
typedef struct {
  uint64_t *order;
  float *scores, *query, *weight, *key, *dots;
} indexer_buffers;

static bool indexer_take(const sparse_keys *p, indexer_buffers *f) {
  const size_t n = (size_t)p->n_keys, g = (size_t)(p->heads / p->kv_heads), d = (size_t)p->d;
  f->order =
      (uint64_t *)(void *)scratch_take(n * sizeof *f->order + (n + g * d + g + KEYS_AT_ONCE * (d + g)) * sizeof(float));
  if (!f->order) return false;
  f->scores = (float *)(void *)(f->order + n);
  f->query = f->scores + n;
  f->weight = f->query + g * d;
  f->key = f->weight + g;
  f->dots = f->key + KEYS_AT_ONCE * d;
  return true;
}

/* Scores of the first n keys for a query and a key head. */
static void indexer_score(const indexer_job *j, const indexer_buffers *f, int64_t row, int64_t batch, int64_t head,
                          int64_t n) {
  const sparse_keys *p = &j->plan->keys;
  const head_view *const w = &j->plan->weights;
  const int64_t g = p->heads / p->kv_heads, d = p->d;
  for (int64_t h = 0; h < g; ++h) {
    loops->load[p->query.dtype][COMPUTE_F32](
        f->query + h * d, sparse_query_at(p, &p->query, j->view, row, head * g + h), p->query.col, d);
    loops->load[w->dtype][COMPUTE_F32](&f->weight[h], sparse_query_at(p, w, j->view, row, head * g + h), 0, 1);
  }
  for (int64_t k = 0, m; k < n; k += m) {
    m = i64_min(KEYS_AT_ONCE, n - k);
    for (int64_t i = 0; i < m; ++i)
      loops->load[p->key.dtype][COMPUTE_F32](
          f->key + i * d, sparse_key_at(p, &p->key, j->view, &j->sequences[batch], batch, head, k + i), p->key.col, d);
    attention_rows->dots(f->dots, KEYS_AT_ONCE, f->query, d, g, d, f->key, d, m);
    for (int64_t i = 0; i < m; ++i) f->scores[k + i] = 0;
    for (int64_t h = 0; h < g; ++h)
      for (int64_t i = 0; i < m; ++i) {
        const float dot = f->dots[h * KEYS_AT_ONCE + i];
        f->scores[k + i] += f->weight[h] * (dot < 0 ? 0 : dot);
      }
  }
}

static void indexer_store(const indexer_job *j, int64_t row, int64_t head, int64_t i, int32_t k, float score) {
  const indexer_plan *p = j->plan;
  char *const to = sparse_query_at(&p->keys, &p->indices, j->view, row, head) + i * p->indices.col;
  *(int32_t *)(void *)to = k;
  if (p->has_values)
    loops->store[p->values.dtype][COMPUTE_F32](
        sparse_query_at(&p->keys, &p->values, j->view, row, head) + i * p->values.col, 0, &score, 1);
}

static void indexer_rows(const void *arg, int64_t begin, int64_t end) {
  const indexer_job *j = arg;
  const sparse_keys *p = &j->plan->keys;
  indexer_buffers f;
  if (!indexer_take(p, &f)) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  for (; begin < end; ++begin) {
    const int64_t row = begin / p->kv_heads, head = begin % p->kv_heads;
    int64_t batch, query, n = 0;
    if (sparse_find_query(p, j->sequences, row, &batch, &query)) n = sparse_seen(p, &j->sequences[batch], query);
    if (n) indexer_score(j, &f, row, batch, head, n);
    for (int64_t k = 0; k < n; ++k) f.order[k] = indexer_order(f.scores[k], k);
    const int64_t kept = i64_min(n, j->plan->count);
    if (kept < n) indexer_select(f.order, n, kept);
    if (kept) qsort(f.order, (size_t)kept, sizeof *f.order, indexer_compare);
    for (int64_t i = 0; i < kept; ++i) {
      const int64_t k = (int64_t)(uint32_t) ~(uint32_t)f.order[i];
      indexer_store(j, row, head, i, (int32_t)k, f.scores[k]);
    }
    for (int64_t i = kept; i < j->plan->count; ++i) indexer_store(j, row, head, i, -1, -INFINITY);
  }
}

static status run_lightning_indexer(const executor *e, void *const *view, void *scratch) {
  const indexer_plan *p = PLAN(e, indexer_plan);
  status result = ST_OK;
  indexer_job job = {.plan = p, .view = view, .result = &result};
  TRY(sparse_keys_read(&p->keys, view, scratch, &job.sequences));
  const int64_t rows = p->keys.n_queries * (p->keys.is_flat ? 1 : p->keys.batches);
  rows_parallel(indexer_rows, &job, rows * p->keys.kv_heads, 1, e->cost_ns);
  return result;
}

status prepare_lightning_indexer(executor *e, const lightning_indexer_args *a) {
  const tensor *weights = a->weights, *values = a->sparse_values_out;
  const sparse_arguments arguments = {.query = a->query,
                                      .key = a->key,
                                      .query_lengths = a->actual_seq_lengths_query,
                                      .key_lengths = a->actual_seq_lengths_key,
                                      .table = a->block_table,
                                      .query_lengths_name = "actualSeqLengthsQueryOptional",
                                      .key_lengths_name = "actualSeqLengthsKeyOptional",
                                      .table_name = "blockTableOptional",
                                      .query_layout = a->layout_query,
                                      .key_layout = a->layout_key,
                                      .query_layout_name = "layoutQueryOptional",
                                      .key_layout_name = "layoutKeyOptional",
                                      .query_operand = LIGHTNING_INDEXER_QUERY,
                                      .key_operand = LIGHTNING_INDEXER_KEY,
                                      .query_lengths_operand = LIGHTNING_INDEXER_ACTUAL_SEQ_LENGTHS_QUERY,
                                      .key_lengths_operand = LIGHTNING_INDEXER_ACTUAL_SEQ_LENGTHS_KEY,
                                      .table_operand = LIGHTNING_INDEXER_BLOCK_TABLE,
                                      .sparse_mode = a->sparse_mode,
                                      .before = a->pre_tokens,
                                      .after = a->next_tokens};
  indexer_plan *p = PLAN(e, indexer_plan);
  *p = (indexer_plan){.count = a->sparse_count, .has_values = a->return_values};
  TRY(sparse_keys_plan(e, &p->keys, &arguments));
  EXPECT(p->count > 0 && p->count <= INT32_MAX, "sparseCount is %jd, expected 1 or more", (intmax_t)p->count);
  TRY(op_expect_dtype(weights, "weights", DTYPE_BIT(a->query->dtype) | DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_shape(weights, "weights", a->query->dims, a->query->rank - 1));
  const view w = view_of(weights);
  p->weights = (head_view){.operand = LIGHTNING_INDEXER_WEIGHTS,
                           .dtype = (int16_t)weights->dtype,
                           .batch = p->keys.is_flat ? 0 : w.strides[0],
                           .row = w.strides[w.rank - 2],
                           .head = w.strides[w.rank - 1]};
  TRY(op_expect_dtype(a->sparse_indices_out, "sparseIndicesOut", DTYPE_BIT(ACL_INT32)));
  TRY(sparse_query_view(&p->keys, a->sparse_indices_out, "sparseIndicesOut", LIGHTNING_INDEXER_SPARSE_INDICES_OUT,
                        p->keys.kv_heads, p->count, &p->indices));
  if (p->has_values) {
    EXPECT(values, "sparseValuesOut is NULL, expected a tensor as returnValues is true");
    TRY(op_expect_dtype(values, "sparseValuesOut", DTYPE_BIT(a->query->dtype)));
    TRY(sparse_query_view(&p->keys, values, "sparseValuesOut", LIGHTNING_INDEXER_SPARSE_VALUES_OUT, p->keys.kv_heads,
                          p->count, &p->values));
  }
  const uint64_t scores = (uint64_t)(a->query->n / p->keys.d) * (uint64_t)p->keys.n_keys;
  executor_products(e, (double)scores * (double)p->keys.d);
  executor_cost(e, (uint64_t)a->key->n * 2, scores * 2 * (uint64_t)p->keys.d);
  e->run = a->query->n ? run_lightning_indexer : move_run_nothing;
  return ST_OK;
}
