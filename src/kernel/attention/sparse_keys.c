/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/attention/sparse_keys.h"

#include <string.h>

#include "kernel/index/places.h"

enum { MODE_ALL = 0, MODE_CAUSAL = 3 };

/* Views [batches, rows, heads, d], or [rows, heads, d] if flat. */
static void sparse_view(const tensor *t, int operand, bool flat, head_view *v) {
  const view s = view_of(t);
  *v = (head_view){.operand = (int16_t)operand,
                   .dtype = (int16_t)t->dtype,
                   .batch = flat ? 0 : s.strides[0],
                   .row = s.strides[flat ? 0 : 1],
                   .head = s.strides[flat ? 1 : 2],
                   .col = s.strides[flat ? 2 : 3]};
}

static status sparse_layout(const char *name, const char *argument, bool may_be_paged, bool *flat, bool *paged) {
  if (!name) name = "BSND";
  *flat = !strcmp(name, "TND");
  *paged = may_be_paged && !strcmp(name, "PA_BSND");
  EXPECT(*flat || *paged || !strcmp(name, "BSND"), "%s is \"%.32s\", expected BSND%s or TND", argument, name,
         may_be_paged ? ", PA_BSND" : "");
  return ST_OK;
}

static status sparse_lengths(const tensor *t, const char *name, int operand, bool needed, int64_t batches, int16_t *to,
                             int64_t *step) {
  *to = ABSENT;
  EXPECT(t || !needed, "%s is NULL, expected a tensor with this layout", name);
  if (!t) return ST_OK;
  TRY(op_expect_dtype(t, name, DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_shape(t, name, &batches, 1));
  *to = (int16_t)operand;
  *step = view_of(t).strides[0];
  return ST_OK;
}

static status sparse_plan_pages(sparse_keys *p, const sparse_arguments *a) {
  const tensor *key = a->key, *table = a->table;
  p->page = key->dims[1];
  p->n_pages = key->dims[0];
  EXPECT(table, "%s is NULL, expected a tensor with this layout", a->table_name);
  TRY(op_expect_dtype(table, a->table_name, DTYPE_BIT(ACL_INT32)));
  EXPECT(table->rank == 2 && table->dims[0] == p->batches, "%s has shape %s, expected [%jd, pages]", a->table_name,
         SHAPE_OF(table), (intmax_t)p->batches);
  EXPECT(p->page > 0, "key has shape %s, expected pages with tokens", SHAPE_OF(key));
  const view v = view_of(table);
  p->table = (int16_t)a->table_operand;
  p->table_row = v.strides[0], p->table_column = v.strides[1];
  p->n_keys = table->dims[1] * p->page;
  return ST_OK;
}

status sparse_keys_plan(executor *e, sparse_keys *p, const sparse_arguments *a) {
  const tensor *query = a->query, *key = a->key;
  bool paged;
  TRY(sparse_layout(a->query_layout, a->query_layout_name, false, &p->is_flat, &paged));
  TRY(sparse_layout(a->key_layout, a->key_layout_name, true, &p->keys_are_flat, &paged));
  TRY(op_expect_dtype(query, "query", DTYPES_HALF));
  TRY(op_expect_dtype(key, "key", DTYPE_BIT(query->dtype)));
  TRY(op_expect_rank(query, "query", p->is_flat ? 3 : 4, p->is_flat ? 3 : 4));
  TRY(op_expect_rank(key, "key", p->keys_are_flat ? 3 : 4, p->keys_are_flat ? 3 : 4));
  EXPECT(a->sparse_mode == MODE_ALL || a->sparse_mode == MODE_CAUSAL, "sparseMode is %jd, expected 0 or 3",
         (intmax_t)a->sparse_mode);
  EXPECT(a->before == INT64_MAX && a->after == INT64_MAX, "%s is %jd, expected %jd",
         a->before == INT64_MAX ? "nextTokens" : "preTokens", (intmax_t)(a->before == INT64_MAX ? a->after : a->before),
         (intmax_t)INT64_MAX);
  p->is_causal = a->sparse_mode == MODE_CAUSAL;
  p->n_queries = query->dims[p->is_flat ? 0 : 1];
  p->heads = query->dims[query->rank - 2];
  p->d = query->dims[query->rank - 1];
  p->kv_heads = key->dims[key->rank - 2];
  EXPECT(p->kv_heads > 0 && p->heads % p->kv_heads == 0 && key->dims[key->rank - 1] == p->d && p->d > 0,
         "key has shape %s, expected a divisor of %jd heads, and %jd components", SHAPE_OF(key), (intmax_t)p->heads,
         (intmax_t)p->d);
  EXPECT(!p->is_flat || (a->query_lengths && a->query_lengths->rank == 1),
         "%s is not a vector, expected one with the layout TND", a->query_lengths_name);
  p->batches = p->is_flat ? a->query_lengths->dims[0] : query->dims[0];
  EXPECT(p->batches > 0 || !query->n, "%s has no elements, expected one for each sequence", a->query_lengths_name);
  sparse_view(query, a->query_operand, p->is_flat, &p->query);
  sparse_view(key, a->key_operand, p->keys_are_flat, &p->key);
  p->table = ABSENT;
  p->n_keys = key->dims[p->keys_are_flat ? 0 : 1];
  if (paged) TRY(sparse_plan_pages(p, a));
  EXPECT(paged || p->keys_are_flat || key->dims[0] == p->batches, "key has shape %s, expected %jd sequences",
         SHAPE_OF(key), (intmax_t)p->batches);
  TRY(sparse_lengths(a->query_lengths, a->query_lengths_name, a->query_lengths_operand, p->is_flat, p->batches,
                     &p->query_lengths, &p->query_length_step));
  TRY(sparse_lengths(a->key_lengths, a->key_lengths_name, a->key_lengths_operand, p->keys_are_flat || paged, p->batches,
                     &p->key_lengths, &p->key_length_step));
  p->sequences = workspace_intermediate(e, (uint64_t)p->batches * sizeof(sparse_sequence));
  return ST_OK;
}

status sparse_query_view(const sparse_keys *p, const tensor *t, const char *name, int operand, int64_t heads, int64_t d,
                         head_view *v) {
  const int64_t dims[4] = {p->batches, p->n_queries, heads, d};
  TRY(op_expect_shape(t, name, p->is_flat ? dims + 1 : dims, p->is_flat ? 3 : 4));
  sparse_view(t, operand, p->is_flat, v);
  return ST_OK;
}

status sparse_key_view(const sparse_keys *p, const tensor *t, const char *name, int operand, int64_t d, head_view *v) {
  const int64_t dims[4] = {p->table == ABSENT ? p->batches : p->n_pages, p->table == ABSENT ? p->n_keys : p->page,
                           p->kv_heads, d};
  TRY(op_expect_dtype(t, name, DTYPE_BIT(p->key.dtype)));
  TRY(op_expect_shape(t, name, p->keys_are_flat ? dims + 1 : dims, p->keys_are_flat ? 3 : 4));
  sparse_view(t, operand, p->keys_are_flat, v);
  return ST_OK;
}

static int32_t sparse_length(void *const *view, int operand, int64_t step, int64_t batch) {
  return *(const int32_t *)(const void *)((const char *)view[operand] + batch * step);
}

/* Reads one side of all sequences: the lengths, or the ends if flat, of at most `most`. */
static status sparse_read_side(const sparse_keys *p, void *const *view, int operand, int64_t step, const char *name,
                               bool flat, int64_t most, bool of_keys, sparse_sequence *s) {
  int64_t end = 0;
  for (int64_t b = 0; b < p->batches; ++b) {
    const int64_t value = operand == ABSENT ? most : sparse_length(view, operand, step, b), first = flat ? end : 0;
    if (value < first || value > most) return places_fail(name, b, value, first, most);
    *(of_keys ? &s[b].first_key : &s[b].first_query) = first;
    *(of_keys ? &s[b].n_keys : &s[b].n_queries) = value - first;
    end = value;
  }
  return ST_OK;
}

status sparse_keys_read(const sparse_keys *p, void *const *view, void *scratch, const sparse_sequence **sequences) {
  sparse_sequence *const s = (sparse_sequence *)(void *)((char *)scratch + p->sequences);
  *sequences = s;
  TRY(sparse_read_side(p, view, p->query_lengths, p->query_length_step, "the queries' length", p->is_flat, p->n_queries,
                       false, s));
  TRY(sparse_read_side(p, view, p->key_lengths, p->key_length_step, "the keys' length", p->keys_are_flat, p->n_keys,
                       true, s));
  for (int64_t b = 0; b < p->batches && p->table != ABSENT; ++b)
    for (int64_t k = 0; k < s[b].n_keys; k += p->page) {
      const char *const at = (const char *)view[p->table] + b * p->table_row + k / p->page * p->table_column;
      const int32_t page = *(const int32_t *)(const void *)at;
      if (page < 0 || page >= p->n_pages)
        return places_fail("the table of pages", k / p->page, page, 0, p->n_pages - 1);
    }
  return ST_OK;
}

bool sparse_find_query(const sparse_keys *p, const sparse_sequence *s, int64_t row, int64_t *batch, int64_t *query) {
  if (!p->is_flat) {
    *batch = row / p->n_queries;
    *query = row % p->n_queries;
    return *query < s[*batch].n_queries;
  }
  int64_t low = 0, high = p->batches; /* the last sequence that begins at or before the row */
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (s[middle].first_query <= row)
      low = middle;
    else
      high = middle;
  }
  *batch = low;
  *query = row - s[low].first_query;
  return *query < s[low].n_queries;
}
