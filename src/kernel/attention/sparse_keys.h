/* SPDX-License-Identifier: Apache-2.0 */
/* Queries and keys of operators that look at keys one by one: LightningIndexer and SparseFlashAttention. Queries lie as
 * BSND or TND, keys as these or in pages; the sequences' lengths and the table of pages are tensors, which are read
 * when the operator runs. Used by the prepare and run functions of these operators; a sparse_keys is plain data of a
 * plan. */
#ifndef CANNON_KERNEL_ATTENTION_SPARSE_KEYS_H
#define CANNON_KERNEL_ATTENTION_SPARSE_KEYS_H

#include "kernel/attention/layout.h"

/* The tensors that the operators have in common, and their names. */
typedef struct {
  const tensor *query, *key, *query_lengths, *key_lengths, *table;
  const char *query_lengths_name, *key_lengths_name, *table_name, *query_layout, *key_layout, *query_layout_name,
      *key_layout_name;
  int query_operand, key_operand, query_lengths_operand, key_lengths_operand, table_operand;
  int64_t sparse_mode, before, after;
} sparse_arguments;

typedef struct {
  head_view query, key;               /* [sequence or page, head, position, component] */
  int64_t batches, n_queries, n_keys; /* n_queries: of a sequence, or of all (TND); n_keys: most of a sequence */
  int64_t heads, kv_heads, d, page, n_pages;
  int16_t query_lengths, key_lengths, table; /* operands; or ABSENT */
  int64_t query_length_step, key_length_step, table_row, table_column;
  bool is_flat, keys_are_flat, is_causal;
  uint64_t sequences; /* in scratch */
} sparse_keys;

/* Where a sequence lies: its first query and key, of those of its batch, or of all (TND). */
typedef struct {
  int64_t first_query, n_queries, first_key, n_keys;
} sparse_sequence;

/* Checks query, key and the lengths, and takes workspace for the sequences. */
status sparse_keys_plan(executor *e, sparse_keys *p, const sparse_arguments *a);

/* Views a tensor whose rows are those of the queries, or keys, with another number of components. */
status sparse_query_view(const sparse_keys *p, const tensor *t, const char *name, int operand, int64_t heads, int64_t d,
                         head_view *v);
status sparse_key_view(const sparse_keys *p, const tensor *t, const char *name, int operand, int64_t d, head_view *v);

/* Reads the sequences, at the beginning of a run. *sequences: one for each batch. */
status sparse_keys_read(const sparse_keys *p, void *const *view, void *scratch, const sparse_sequence **sequences);

/* The batch and the number of a query among its sequence's; false if it is behind the end of it. row: the number of the
 * query among those of all batches. */
bool sparse_find_query(const sparse_keys *p, const sparse_sequence *s, int64_t row, int64_t *batch, int64_t *query);

/* The address of a query's, or of a key's, row. */
static inline char *sparse_query_at(const sparse_keys *p, const head_view *v, void *const *view, int64_t row,
                                    int64_t head) {
  const int64_t batch = p->is_flat ? 0 : row / p->n_queries, at = p->is_flat ? row : row % p->n_queries;
  return (char *)view[v->operand] + batch * v->batch + head * v->head + at * v->row;
}

static inline const char *sparse_key_at(const sparse_keys *p, const head_view *v, void *const *view,
                                        const sparse_sequence *s, int64_t batch, int64_t head, int64_t k) {
  if (p->table == ABSENT)
    return (const char *)view[v->operand] + (p->keys_are_flat ? 0 : batch) * v->batch + head * v->head +
           (s->first_key + k) * v->row;
  const char *const entry = (const char *)view[p->table] + batch * p->table_row + k / p->page * p->table_column;
  return (const char *)view[v->operand] + *(const int32_t *)(const void *)entry * v->batch + head * v->head +
         k % p->page * v->row;
}

/* How many keys a query sees, from the first one on. */
static inline int64_t sparse_seen(const sparse_keys *p, const sparse_sequence *s, int64_t query) {
  const int64_t seen = p->is_causal ? s->n_keys - s->n_queries + query + 1 : s->n_keys;
  return seen < 0 ? 0 : seen > s->n_keys ? s->n_keys : seen;
}

#endif
