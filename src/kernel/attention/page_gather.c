/* SPDX-License-Identifier: Apache-2.0 */
/* GatherPaKvCache: the keys and values of sequences are collected from paged caches, [blocks, block size, heads, head
 * size] with cacheMode Norm and [blocks, parts, block size, elements of a part] with PA_NZ, where the parts are those
 * of the heads behind each other. What op-plugin's test has, and no page: with isSeqLensCumsum, seqLens begins with 0;
 * tokens of blocks that are not in the table, or not in the cache, are 0; rows behind the last sequence are kept. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/move/check.h"

enum { KEY, VALUE, SIDES };

typedef struct {
  int64_t heads, size, part, bytes;              /* part: elements in a row of the cache; bytes of an element */
  int64_t to_token, to_head, to_element;         /* strides in bytes */
  int64_t block, place, from_part, from_element; /* likewise, of the cache */
} gather_side;

typedef struct {
  gather_side side[SIDES];
  int64_t sequences, tokens, blocks, block; /* blocks of the caches, and tokens in one */
  int64_t table_columns, table_row, table_step, length_step, offset_step;
  bool is_cumulative, has_offset;
  load_loop *load_table, *load_length, *load_offset;
  uint64_t begins; /* in scratch: the first token of each sequence, and their end */
} gather_plan;

typedef struct {
  const gather_plan *plan;
  void *const *view;
  const int64_t *begins;
} gather_job;

/* Copies one token, or sets it to 0 if from is NULL. */
static void gather_token(const gather_side *s, const char *from, char *to) {
  for (int64_t i = 0, n; i < s->heads * s->size; i += n) {
    const int64_t of_part = i % s->part, of_head = i % s->size;
    n = i64_min(s->part - of_part, s->size - of_head);
    const char *at = from ? from + i / s->part * s->from_part + of_part * s->from_element : NULL;
    char *const into = to + i / s->size * s->to_head + of_head * s->to_element;
    if (s->to_element == s->bytes && (!at || s->from_element == s->bytes)) {
      at ? memcpy(into, at, (size_t)(n * s->bytes)) : memset(into, 0, (size_t)(n * s->bytes));
      continue;
    }
    for (int64_t k = 0; k < n; ++k)
      at ? memcpy(into + k * s->to_element, at + k * s->from_element, (size_t)s->bytes)
         : memset(into + k * s->to_element, 0, (size_t)s->bytes);
  }
}

static void gather_sequences(const void *arg, int64_t begin, int64_t end) {
  const gather_job *j = arg;
  const gather_plan *p = j->plan;
  for (int64_t i = begin; i < end; ++i) {
    int64_t first = 0;
    if (p->has_offset) p->load_offset(&first, (const char *)j->view[PAGE_GATHER_SEQ_OFFSET] + i * p->offset_step, 0, 1);
    for (int64_t token = j->begins[i]; token < i64_min(j->begins[i + 1], p->tokens); ++token) {
      const int64_t place = token - j->begins[i], column = first / p->block + place / p->block;
      int64_t block = -1;
      if (first >= 0 && column < p->table_columns)
        p->load_table(
            &block, (const char *)j->view[PAGE_GATHER_BLOCK_TABLES] + i * p->table_row + column * p->table_step, 0, 1);
      for (int side = 0; side < SIDES; ++side) {
        const gather_side *s = &p->side[side];
        const char *const cache = j->view[side == KEY ? PAGE_GATHER_KEY_CACHE : PAGE_GATHER_VALUE_CACHE];
        const bool there = block >= 0 && block < p->blocks;
        if (s->size)
          gather_token(s, there ? cache + block * s->block + place % p->block * s->place : NULL,
                       (char *)j->view[side == KEY ? PAGE_GATHER_KEY : PAGE_GATHER_VALUE] + token * s->to_token);
      }
    }
  }
}

static status run_page_gather(const executor *e, void *const *view, void *scratch) {
  const gather_plan *p = PLAN(e, gather_plan);
  int64_t *const begins = (int64_t *)(void *)((char *)scratch + p->begins);
  begins[0] = 0;
  for (int64_t i = 0; i < p->sequences; ++i) {
    int64_t value;
    const int64_t at = i + p->is_cumulative;
    p->load_length(&value, (const char *)view[PAGE_GATHER_SEQ_LENS] + at * p->length_step, 0, 1);
    const int64_t least = p->is_cumulative ? begins[i] : 0;
    if (value < least || value > INT32_MAX) return places_fail("seqLens", at, value, least, INT32_MAX);
    begins[i + 1] = p->is_cumulative ? value : begins[i] + value;
  }
  const gather_job job = {p, view, begins};
  rows_parallel(gather_sequences, &job, p->sequences, 1, e->cost_ns);
  return ST_OK;
}

/* Checks a tensor [tokens, heads, size] and its cache. */
static status gather_expect(gather_plan *p, int side, const tensor *t, const char *name, const tensor *cache,
                            const char *cache_name, bool is_blocked) {
  TRY(op_expect_dtype(t, name, DTYPES_NUMBER));
  EXPECT(t->rank == 3 && t->dims[0] == p->tokens, "%s has shape %s, expected [%jd, heads, head size]", name,
         SHAPE_OF(t), (intmax_t)p->tokens);
  TRY(op_expect_dtype(cache, cache_name, DTYPE_BIT(t->dtype)));
  TRY(op_expect_rank(cache, cache_name, 4, 4));
  const int64_t elements = t->dims[1] * t->dims[2], part = is_blocked ? cache->dims[3] : t->dims[2];
  EXPECT(part > 0 && elements % part == 0, "%s has shape %s, expected parts of %jd elements", cache_name,
         SHAPE_OF(cache), (intmax_t)elements);
  const int64_t plain[] = {p->blocks, p->block, t->dims[1], part},
                blocked[] = {p->blocks, elements / part, p->block, part};
  TRY(op_expect_shape(cache, cache_name, is_blocked ? blocked : plain, 4));
  const view to = view_of(t), from = view_of(cache);
  p->side[side] = (gather_side){.heads = t->dims[1],
                                .size = t->dims[2],
                                .part = part,
                                .bytes = (int64_t)dtype_bytes(t->dtype),
                                .to_token = to.strides[0],
                                .to_head = to.strides[1],
                                .to_element = to.strides[2],
                                .block = from.strides[0],
                                .place = from.strides[is_blocked ? 2 : 1],
                                .from_part = from.strides[is_blocked ? 1 : 2],
                                .from_element = from.strides[3]};
  return ST_OK;
}

static status gather_expect_sequences(gather_plan *p, const page_gather_args *a) {
  const tensor *table = a->block_tables, *lengths = a->seq_lens, *offset = a->seq_offset;
  TRY(op_expect_dtype(table, "blockTables", DTYPES_INDEX));
  TRY(op_expect_rank(table, "blockTables", 2, 2));
  p->sequences = table->dims[0], p->table_columns = table->dims[1];
  const view v = view_of(table);
  p->table_row = v.strides[0], p->table_step = v.strides[1];
  p->load_table = loops->load[table->dtype][COMPUTE_I64];
  p->is_cumulative = a->is_seq_lens_cumsum;
  TRY(op_expect_dtype(lengths, "seqLens", DTYPES_INDEX));
  TRY(op_expect_shape(lengths, "seqLens", &(const int64_t){p->sequences + p->is_cumulative}, 1));
  p->length_step = view_of(lengths).strides[0];
  p->load_length = loops->load[lengths->dtype][COMPUTE_I64];
  if (!offset) return ST_OK;
  TRY(op_expect_dtype(offset, "seqOffsetOptional", DTYPES_INDEX));
  TRY(op_expect_shape(offset, "seqOffsetOptional", &p->sequences, 1));
  p->has_offset = true;
  p->offset_step = view_of(offset).strides[0];
  p->load_offset = loops->load[offset->dtype][COMPUTE_I64];
  return ST_OK;
}

status prepare_page_gather(executor *e, const page_gather_args *a) {
  const tensor *key = a->key, *cache = a->key_cache;
  const char *const mode = a->cache_mode;
  gather_plan *p = PLAN(e, gather_plan);
  const bool is_blocked = mode && strcmp(mode, "PA_NZ") == 0;
  EXPECT(is_blocked || (mode && strcmp(mode, "Norm") == 0), "cacheMode is %s, expected Norm or PA_NZ",
         mode ? mode : "NULL");
  TRY(op_expect_rank(key, "keyRef", 3, 3));
  TRY(op_expect_rank(cache, "keyCache", 4, 4));
  *p = (gather_plan){.tokens = key->dims[0], .blocks = cache->dims[0], .block = cache->dims[is_blocked ? 2 : 1]};
  EXPECT(p->block > 0, "keyCache has shape %s, expected blocks of tokens", SHAPE_OF(cache));
  TRY(gather_expect(p, KEY, key, "keyRef", cache, "keyCache", is_blocked));
  TRY(gather_expect(p, VALUE, a->value, "valueRef", a->value_cache, "valueCache", is_blocked));
  TRY(gather_expect_sequences(p, a));
  p->begins = workspace_intermediate(e, (uint64_t)(p->sequences + 1) * sizeof(int64_t));
  executor_cost(e, (uint64_t)(key->n + a->value->n) * 2 * dtype_bytes(key->dtype), 0);
  e->run = run_page_gather;
  return ST_OK;
}
