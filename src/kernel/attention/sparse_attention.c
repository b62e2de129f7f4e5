/* SPDX-License-Identifier: Apache-2.0 */
/* SparseFlashAttention: each query attends to the keys in the blocks that sparseIndices names for it, up to the first
 * number below 0. Keys and queries have a second, rotated part; dot products are those of both. Computed in float, with
 * the online softmax; a query that sees no key gives 0. */
#include <math.h>
#include <string.h>

#include "kernel/attention/sparse_keys.h"
#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/move/check.h"

enum { KEYS_AT_ONCE = 64, MODE_ABSORB = 2 };

typedef struct {
  sparse_keys keys;
  head_view value, query_rope, key_rope, indices, out, top, sum;
  int64_t rotated, n_blocks, block; /* components of the rotated part; blocks of a query, and their tokens */
  float scale;
  bool has_statistics;
} sparse_plan;

typedef struct {
  const sparse_plan *plan;
  void *const *view;
  const sparse_sequence *sequences;
  status *result;
} sparse_job;

/* A query's heads of one key head, in memory of the thread. */
typedef struct {
  float *query, *key, *value, *dots, *out, *top, *sum;
  int64_t wide, group; /* components of query and key; heads */
} sparse_buffers;

static bool sparse_take(const sparse_plan *p, sparse_buffers *f) {
  const sparse_keys *k = &p->keys;
  f->wide = k->d + p->rotated;
  f->group = k->heads / k->kv_heads;
  const size_t g = (size_t)f->group, wide = (size_t)f->wide, d = (size_t)k->d;
  f->query = (float *)(void *)scratch_take(((g + KEYS_AT_ONCE) * (wide + d) + g * (KEYS_AT_ONCE + 2)) * sizeof(float));
  if (!f->query) return false;
  f->key = f->query + g * wide;
  f->value = f->key + KEYS_AT_ONCE * wide;
  f->out = f->value + KEYS_AT_ONCE * d;
  f->dots = f->out + g * d;
  f->top = f->dots + g * KEYS_AT_ONCE;
  f->sum = f->top + g;
  return true;
}

static void sparse_load(const head_view *v, const char *from, float *to, int64_t n) {
  loops->load[v->dtype][COMPUTE_F32](to, from, v->col, n);
}

/* Adds n keys, which have been loaded. */
static void sparse_attend(const sparse_plan *p, const sparse_buffers *f, int64_t n) {
  const int64_t d = p->keys.d;
  attention_rows->dots(f->dots, KEYS_AT_ONCE, f->query, f->wide, f->group, f->wide, f->key, f->wide, n);
  for (int64_t h = 0; h < f->group; ++h) {
    float *const x = f->dots + h * KEYS_AT_ONCE;
    attention_rows->scale(x, p->scale, n);
    const float top = fmaxf(f->top[h], attention_rows->max(x, n));
    if (top > f->top[h]) {
      const float shrink = exp2f((f->top[h] - top) * LOG2_E);
      attention_rows->scale(f->out + h * d, shrink, d);
      f->sum[h] *= shrink;
      f->top[h] = top;
    }
    f->sum[h] += attention_rows->exp2[OPERAND_F32](x, x, LOG2_E, top * LOG2_E, n);
  }
  attention_rows->sums(f->out, d, f->dots, KEYS_AT_ONCE, f->group, d, f->value, d, n);
}

/* Attends to the query's keys; `seen` of the sequence's may be. */
static status sparse_attend_all(const sparse_job *j, const sparse_buffers *f, int64_t row, int64_t batch, int64_t head,
                                int64_t seen) {
  const sparse_plan *p = j->plan;
  const sparse_keys *k = &p->keys;
  const sparse_sequence *s = &j->sequences[batch];
  const char *const indices = sparse_query_at(k, &p->indices, j->view, row, head);
  int64_t loaded = 0;
  for (int64_t i = 0; i < p->n_blocks; ++i) {
    const int64_t block = *(const int32_t *)(const void *)(indices + i * p->indices.col);
    if (block < 0) break;
    if (block * p->block >= i64_max(s->n_keys, 1))
      return places_fail("sparseIndices", i, block, -1, (s->n_keys - 1) / p->block);
    for (int64_t at = block * p->block; at < i64_min((block + 1) * p->block, seen); ++at) {
      float *const key = f->key + loaded * f->wide;
      sparse_load(&k->key, sparse_key_at(k, &k->key, j->view, s, batch, head, at), key, k->d);
      sparse_load(&p->key_rope, sparse_key_at(k, &p->key_rope, j->view, s, batch, head, at), key + k->d, p->rotated);
      sparse_load(&p->value, sparse_key_at(k, &p->value, j->view, s, batch, head, at), f->value + loaded * k->d, k->d);
      if (++loaded < KEYS_AT_ONCE) continue;
      sparse_attend(p, f, loaded);
      loaded = 0;
    }
  }
  if (loaded) sparse_attend(p, f, loaded);
  return ST_OK;
}

static void sparse_finish(const sparse_job *j, const sparse_buffers *f, int64_t row, int64_t head) {
  const sparse_plan *p = j->plan;
  const int64_t d = p->keys.d;
  for (int64_t h = 0; h < f->group; ++h) {
    float *const out = f->out + h * d;
    attention_rows->scale(out, f->sum[h] == 0 ? 0 : 1 / f->sum[h], d);
    attention_write_row(&p->out, sparse_query_at(&p->keys, &p->out, j->view, row, head * f->group + h), out, d);
    if (!p->has_statistics) continue;
    *(float *)(void *)(sparse_query_at(&p->keys, &p->top, j->view, row, head) + h * p->top.col) = f->top[h];
    *(float *)(void *)(sparse_query_at(&p->keys, &p->sum, j->view, row, head) + h * p->sum.col) = f->sum[h];
  }
}

static void sparse_rows(const void *arg, int64_t begin, int64_t end) {
  const sparse_job *j = arg;
  const sparse_plan *p = j->plan;
  const sparse_keys *k = &p->keys;
  sparse_buffers f;
  status st = sparse_take(p, &f) ? ST_OK : ST_NO_MEMORY;
  for (; begin < end && st == ST_OK; ++begin) {
    const int64_t row = begin / k->kv_heads, head = begin % k->kv_heads;
    int64_t batch, query;
    memset(f.out, 0, (size_t)(f.group * k->d) * sizeof(float));
    for (int64_t h = 0; h < f.group; ++h) {
      f.top[h] = -INFINITY;
      f.sum[h] = 0;
    }
    if (sparse_find_query(k, j->sequences, row, &batch, &query)) {
      for (int64_t h = 0; h < f.group; ++h) {
        float *const to = f.query + h * f.wide;
        sparse_load(&k->query, sparse_query_at(k, &k->query, j->view, row, head * f.group + h), to, k->d);
        sparse_load(&p->query_rope, sparse_query_at(k, &p->query_rope, j->view, row, head * f.group + h), to + k->d,
                    p->rotated);
      }
      st = sparse_attend_all(j, &f, row, batch, head, sparse_seen(k, &j->sequences[batch], query));
    }
    sparse_finish(j, &f, row, head);
  }
  if (st != ST_OK) __atomic_store_n(j->result, st, __ATOMIC_RELAXED);
}

static status run_sparse_attention(const executor *e, void *const *view, void *scratch) {
  const sparse_plan *p = PLAN(e, sparse_plan);
  status result = ST_OK;
  sparse_job job = {.plan = p, .view = view, .result = &result};
  TRY(sparse_keys_read(&p->keys, view, scratch, &job.sequences));
  const int64_t rows = p->keys.n_queries * (p->keys.is_flat ? 1 : p->keys.batches);
  rows_parallel(sparse_rows, &job, rows * p->keys.kv_heads, 1, e->cost_ns);
  return result;
}

/* Statistics [B, N2, S1, N1 / N2], or [N2, T1, N1 / N2]. */
static status sparse_statistic(const sparse_plan *p, const tensor *t, const char *name, int operand, head_view *to) {
  const sparse_keys *k = &p->keys;
  const int64_t dims[4] = {k->batches, k->kv_heads, k->n_queries, k->heads / k->kv_heads};
  EXPECT(t, "%s is NULL, expected a tensor as returnSoftmaxLse is true", name);
  TRY(op_expect_dtype(t, name, DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_shape(t, name, k->is_flat ? dims + 1 : dims, k->is_flat ? 3 : 4));
  const view v = view_of(t);
  *to = (head_view){.operand = (int16_t)operand,
                    .dtype = ACL_FLOAT,
                    .batch = k->is_flat ? 0 : v.strides[0],
                    .head = v.strides[v.rank - 3],
                    .row = v.strides[v.rank - 2],
                    .col = v.strides[v.rank - 1]};
  return ST_OK;
}

static status sparse_plan_parts(sparse_plan *p, const sparse_attention_args *a) {
  const sparse_keys *k = &p->keys;
  const tensor *rope = a->query_rope, *indices = a->sparse_indices, *out = a->attention_out_out;
  EXPECT(rope && a->key_rope, "%s is NULL, expected a tensor", rope ? "keyRope" : "queryRope");
  EXPECT(a->attention_mode == MODE_ABSORB, "attentionMode is %jd, expected 2", (intmax_t)a->attention_mode);
  EXPECT(p->block > 0 && p->block <= INT32_MAX, "sparseBlockSize is %jd, expected 1 or more", (intmax_t)p->block);
  EXPECT(rope->rank > 0 && indices->rank > 0, "%s has no dimension, expected that of query",
         rope->rank ? "sparseIndices" : "queryRope");
  p->rotated = rope->dims[rope->rank - 1];
  p->n_blocks = indices->dims[indices->rank - 1];
  TRY(op_expect_dtype(rope, "queryRope", DTYPE_BIT(k->query.dtype)));
  TRY(sparse_query_view(k, rope, "queryRope", SPARSE_ATTENTION_QUERY_ROPE, k->heads, p->rotated, &p->query_rope));
  TRY(sparse_key_view(k, a->key_rope, "keyRope", SPARSE_ATTENTION_KEY_ROPE, p->rotated, &p->key_rope));
  TRY(sparse_key_view(k, a->value, "value", SPARSE_ATTENTION_VALUE, k->d, &p->value));
  TRY(op_expect_dtype(indices, "sparseIndices", DTYPE_BIT(ACL_INT32)));
  TRY(sparse_query_view(k, indices, "sparseIndices", SPARSE_ATTENTION_SPARSE_INDICES, k->kv_heads, p->n_blocks,
                        &p->indices));
  TRY(op_expect_dtype(out, "attentionOutOut", DTYPE_BIT(k->query.dtype)));
  TRY(sparse_query_view(k, out, "attentionOutOut", SPARSE_ATTENTION_ATTENTION_OUT_OUT, k->heads, k->d, &p->out));
  if (!p->has_statistics) return ST_OK;
  TRY(sparse_statistic(p, a->softmax_max_out, "softmaxMaxOut", SPARSE_ATTENTION_SOFTMAX_MAX_OUT, &p->top));
  return sparse_statistic(p, a->softmax_sum_out, "softmaxSumOut", SPARSE_ATTENTION_SOFTMAX_SUM_OUT, &p->sum);
}

status prepare_sparse_attention(executor *e, const sparse_attention_args *a) {
  const sparse_arguments arguments = {.query = a->query,
                                      .key = a->key,
                                      .query_lengths = a->actual_seq_lengths_query,
                                      .key_lengths = a->actual_seq_lengths_kv,
                                      .table = a->block_table,
                                      .query_lengths_name = "actualSeqLengthsQuery",
                                      .key_lengths_name = "actualSeqLengthsKv",
                                      .table_name = "blockTable",
                                      .query_layout = a->layout_query,
                                      .key_layout = a->layout_kv,
                                      .query_layout_name = "layoutQuery",
                                      .key_layout_name = "layoutKv",
                                      .query_operand = SPARSE_ATTENTION_QUERY,
                                      .key_operand = SPARSE_ATTENTION_KEY,
                                      .query_lengths_operand = SPARSE_ATTENTION_ACTUAL_SEQ_LENGTHS_QUERY,
                                      .key_lengths_operand = SPARSE_ATTENTION_ACTUAL_SEQ_LENGTHS_KV,
                                      .table_operand = SPARSE_ATTENTION_BLOCK_TABLE,
                                      .sparse_mode = a->sparse_mode,
                                      .before = a->pre_tokens,
                                      .after = a->next_tokens};
  sparse_plan *p = PLAN(e, sparse_plan);
  *p = (sparse_plan){
      .block = a->sparse_block_size, .scale = (float)a->scale_value, .has_statistics = a->return_softmax_lse};
  TRY(sparse_keys_plan(e, &p->keys, &arguments));
  TRY(sparse_plan_parts(p, a));
  const uint64_t scores = (uint64_t)(a->query->n / p->keys.d) * (uint64_t)(p->n_blocks * p->block);
  const uint64_t wide = (uint64_t)(2 * p->keys.d + p->rotated);
  executor_products(e, (double)scores * (double)wide);
  executor_cost(e, (uint64_t)a->query->n * 4, scores * 2 * wide);
  e->run = a->query->n ? run_sparse_attention : move_run_nothing;
  return ST_OK;
}
