/* SPDX-License-Identifier: Apache-2.0 */
/* aclnnFusedInferAttentionScore, aclnnPromptFlashAttention and aclnnIncreFlashAttention: CANN's attention operators for
 * inference. Quantised keys, values and results are rejected. */
#include <stdlib.h>
#include <string.h>

#include "kernel/attention/layout.h"
#include "kernel/families.h"

/* Keys or values: a tensor, or a list with a tensor for each sequence. */
typedef struct {
  const aclTensorList *list; /* NULL: there is `first` only */
  const tensor *first;
  const char *name;
  int operand; /* of the first */
} infer_source;

/* A call while its arguments are checked. */
typedef struct {
  executor *e;
  const infer_attention_args *a;
  infer_source key, value;
  const aclIntArray *key_lengths;
  const char *key_lengths_name;
  bool is_step; /* IncreFlashAttention */
  const head_layout *layout, *out_layout;
  bool is_flat; /* sequences are concatenated: layouts with T */
  head_dims q;  /* of the query tensor */
  attention_plan *plan;
} infer_call;

static status infer_refuse(const infer_attention_args *a) {
  const struct {
    const tensor *t;
    const char *name;
  } refused[] = {{a->deq_scale1, a->name.deq_scale1},
                 {a->quant_scale1, a->name.quant_scale1},
                 {a->deq_scale2, a->name.deq_scale2},
                 {a->quant_scale2, a->name.quant_scale2},
                 {a->quant_offset2, a->name.quant_offset2},
                 {a->antiquant_scale, a->name.antiquant_scale},
                 {a->antiquant_offset, a->name.antiquant_offset},
                 {a->key_antiquant_scale, "keyAntiquantScaleOptional"},
                 {a->key_antiquant_offset, "keyAntiquantOffsetOptional"},
                 {a->value_antiquant_scale, "valueAntiquantScaleOptional"},
                 {a->value_antiquant_offset, "valueAntiquantOffsetOptional"},
                 {a->key_rope_antiquant_scale, "keyRopeAntiquantScaleOptional"},
                 {a->dequant_scale_query, "dequantScaleQueryOptional"}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i)
    EXPECT(!layout_given(refused[i].t), "%s is given, expected none: quantised attention is not supported",
           refused[i].name);
  return ST_OK;
}

/* What concatenated sequences go without. */
static status infer_refuse_flat(const infer_attention_args *a) {
  const struct {
    const tensor *t;
    const char *name;
  } refused[] = {{a->pse_shift, a->name.pse_shift},
                 {a->query_padding_size, a->name.query_padding_size},
                 {a->kv_padding_size, a->name.kv_padding_size},
                 {a->key_shared_prefix, "keySharedPrefixOptional"},
                 {a->value_shared_prefix, "valueSharedPrefixOptional"}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i)
    EXPECT(!layout_given(refused[i].t), "%s is given, expected none in the layout %s", refused[i].name,
           a->input_layout);
  return ST_OK;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Views one tensor of keys or values: [B, ...] in the layout, or [1, ...] for a single sequence. */
static status view_keys(const infer_call *c, const tensor *t, const char *name, int operand, int64_t d, head_view *v,
                        head_dims *dims) {
  attention_plan *p = c->plan;
  *dims = (head_dims){.heads = p->n_kv_heads};
  TRY(op_expect_dtype(t, name, DTYPE_BIT(p->query.dtype)));
  TRY(head_view_of(t, name, operand, c->layout, v, dims));
  EXPECT(dims->heads == p->n_kv_heads && (d < 0 || dims->d == d),
         "%s has shape %s, expected %jd heads of %jd components in the layout %s", name, SHAPE_OF(t),
         (intmax_t)p->n_kv_heads, (intmax_t)(d < 0 ? dims->d : d), c->layout->name);
  return ST_OK;
}

/* Views paged keys or values: [pages, keys, H] or [pages, N, keys, D]. */
static status view_pages(const infer_call *c, const infer_source *s, head_view *v, int64_t *d) {
  attention_plan *p = c->plan;
  const tensor *t = s->first;
  const char *name = s->name;
  static const head_layout flat = {"BSH", 3, 0, ABSENT, 1, 2, true}, by_head = {"BNSD", 4, 0, 1, 2, 3, false};
  EXPECT(t && (t->rank == 3 || t->rank == 4), "%s has %d dimensions, expected pages of 3 or 4", name, t ? t->rank : 0);
  head_dims dims = {.heads = p->n_kv_heads};
  TRY(op_expect_dtype(t, name, DTYPE_BIT(p->query.dtype)));
  TRY(head_view_of(t, name, s->operand, t->rank == 3 ? &flat : &by_head, v, &dims));
  EXPECT(dims.heads == p->n_kv_heads && dims.rows == c->a->block_size,
         "%s has %jd heads and %jd keys in a page, expected %jd and blockSize, %jd", name, (intmax_t)dims.heads,
         (intmax_t)dims.rows, (intmax_t)p->n_kv_heads, (intmax_t)c->a->block_size);
  EXPECT(*d < 0 || dims.d == *d, "%s has %jd components, expected %jd", name, (intmax_t)dims.d, (intmax_t)*d);
  *d = dims.d;
  p->pages.keys = dims.rows;
  p->pages.n_pages = dims.batches;
  return ST_OK;
}

static status set_pages(infer_call *c, const tensor *table) {
  attention_plan *p = c->plan;
  const char *name = c->a->name.block_table;
  TRY(op_expect_dtype(table, name, DTYPE_BIT(ACL_INT32)));
  EXPECT(table->rank == 2 && table->dims[0] == p->n_batches, "%s has shape %s, expected [%jd, pages]", name,
         SHAPE_OF(table), (intmax_t)p->n_batches);
  EXPECT(c->key_lengths, "%s is NULL, expected lengths with blockTable", c->key_lengths_name);
  p->dv = -1;
  int64_t d = p->d;
  TRY(view_pages(c, &c->key, &p->key, &d));
  TRY(view_pages(c, &c->value, &p->value, &p->dv));
  p->table = (int16_t)c->a->view.block_table;
  p->pages.table_row = table->strides[0] * 4;
  p->pages.table_col = table->strides[1] * 4;
  p->max_keys = table->dims[1] * p->pages.keys;
  return ST_OK;
}

/* A list with a tensor per sequence; their numbers of keys may differ. */
static status set_key_list(infer_call *c) {
  attention_plan *p = c->plan;
  p->key_list = true;
  p->max_keys = 0;
  p->dv = -1;
  for (int64_t b = 0; b < p->n_batches; ++b) {
    head_view kv, vv;
    head_dims k, v;
    TRY(view_keys(c, c->key.list->value[b], "key", c->key.operand + (int)b, p->d, &kv, &k));
    TRY(view_keys(c, c->value.list->value[b], "value", c->value.operand + (int)b, p->dv, &vv, &v));
    if (!b) p->key = kv, p->value = vv, p->dv = v.d;
    EXPECT(k.batches == 1 && v.batches == 1 && k.rows == v.rows,
           "key[%jd] and value[%jd] have %jd and %jd keys of %jd and %jd sequences, expected as many of one",
           (intmax_t)b, (intmax_t)b, (intmax_t)k.rows, (intmax_t)v.rows, (intmax_t)k.batches, (intmax_t)v.batches);
    EXPECT(kv.head == p->key.head && kv.row == p->key.row && kv.col == p->key.col && vv.head == p->value.head &&
               vv.row == p->value.row && vv.col == p->value.col,
           "key[%jd] and value[%jd] have other strides than the first ones, expected the same", (intmax_t)b,
           (intmax_t)b);
    p->max_keys = attention_max(p->max_keys, k.rows);
  }
  return ST_OK;
}

static status set_keys(infer_call *c) {
  attention_plan *p = c->plan;
  const tensor *table = layout_given(c->a->block_table);
  if (table) return set_pages(c, table);
  if (c->key.list) {
    const uint64_t n = c->key.list->size, m = c->value.list->size;
    EXPECT(n && n == m && (n == 1 || n == (uint64_t)c->q.batches),
           "key and value are lists of %ju and %ju, expected 1 or %jd", (uintmax_t)n, (uintmax_t)m,
           (intmax_t)c->q.batches);
    if (n > 1) return set_key_list(c);
  }
  head_dims k, v;
  TRY(view_keys(c, c->key.first, "key", c->key.operand, p->d, &p->key, &k));
  TRY(view_keys(c, c->value.first, "value", c->value.operand, -1, &p->value, &v));
  EXPECT(k.batches == c->q.batches && v.batches == c->q.batches && k.rows == v.rows,
         "key and value have %jd and %jd sequences of %jd and %jd keys, expected %jd of as many", (intmax_t)k.batches,
         (intmax_t)v.batches, (intmax_t)k.rows, (intmax_t)v.rows, (intmax_t)c->q.batches);
  p->max_keys = k.rows;
  p->dv = v.d;
  return ST_OK;
}

/* The rotary parts of queries and keys as tensors of their own, in the layouts of the queries and keys. */
static status infer_set_rope(infer_call *c) {
  attention_plan *p = c->plan;
  const infer_attention_args *a = c->a;
  const tensor *query = layout_given_part(a->query_rope, a->query), *key = layout_given_part(a->key_rope, c->key.first);
  p->d_rope = 0;
  if (!query && !key) return ST_OK;
  EXPECT(query && key, "%s is absent, expected both queryRopeOptional and keyRopeOptional, or none",
         query ? "keyRopeOptional" : "queryRopeOptional");
  EXPECT(!p->key_list && !layout_given(a->key_shared_prefix),
         "queryRopeOptional is given, expected none with lists of keys and with a shared prefix");
  head_dims q = {.heads = p->n_heads}, k;
  TRY(op_expect_dtype(query, "queryRopeOptional", DTYPE_BIT(p->query.dtype)));
  TRY(head_view_of(query, "queryRopeOptional", a->view.query_rope, c->layout, &p->query_rope, &q));
  EXPECT(q.batches == c->q.batches && q.heads == c->q.heads && q.rows == c->q.rows,
         "queryRopeOptional has shape %s, expected the query's, %s, except for the components", SHAPE_OF(query),
         SHAPE_OF(a->query));
  const infer_source source = {NULL, key, "keyRopeOptional", a->view.key_rope};
  int64_t d = q.d;
  if (p->table >= 0) {
    const int64_t n_pages = p->pages.n_pages;
    TRY(view_pages(c, &source, &p->key_rope, &d));
    EXPECT(p->pages.n_pages == n_pages, "keyRopeOptional has %jd pages, expected the key's %jd",
           (intmax_t)p->pages.n_pages, (intmax_t)n_pages);
  } else {
    TRY(view_keys(c, key, source.name, source.operand, d, &p->key_rope, &k));
    EXPECT(k.batches == c->q.batches && k.rows == p->max_keys,
           "keyRopeOptional has %jd sequences of %jd keys, expected %jd of %jd", (intmax_t)k.batches, (intmax_t)k.rows,
           (intmax_t)c->q.batches, (intmax_t)p->max_keys);
  }
  p->d_rope = d;
  p->d += d;
  return ST_OK;
}

static status infer_set_prefix(infer_call *c) {
  attention_plan *p = c->plan;
  const infer_attention_args *a = c->a;
  const tensor *key = layout_given(a->key_shared_prefix), *value = layout_given(a->value_shared_prefix);
  if (!key && !value) return ST_OK;
  EXPECT(key && value && p->table < 0 && !p->key_list && p->query_padding < 0 && p->key_padding < 0,
         "%s is given, expected it together with that of the values, and without pages, lists and padding sizes",
         key ? "keySharedPrefixOptional" : "valueSharedPrefixOptional");
  head_dims k, v;
  TRY(view_keys(c, key, "keySharedPrefixOptional", a->view.key_shared_prefix, p->d, &p->prefix_key, &k));
  TRY(view_keys(c, value, "valueSharedPrefixOptional", a->view.value_shared_prefix, p->dv, &p->prefix_value, &v));
  const aclIntArray *length = a->actual_shared_prefix_len;
  p->n_prefix_keys = length && length->size ? length->value[0] : k.rows;
  EXPECT(k.batches == 1 && v.batches == 1 && k.rows == v.rows && p->n_prefix_keys >= 0 && p->n_prefix_keys <= k.rows,
         "actualSharedPrefixLenOptional is %jd of %jd and %jd keys, expected at most as many, of one sequence",
         (intmax_t)p->n_prefix_keys, (intmax_t)k.rows, (intmax_t)v.rows);
  return ST_OK;
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */

/* Lengths of the sequences: one for all, or one each. *out is NULL if none are given. */
static status infer_check_lengths(const infer_call *c, const aclIntArray *lengths, const char *name, int64_t limit,
                                  const aclIntArray **out) {
  *out = lengths;
  if (!*out || !(*out)->size) {
    *out = NULL;
    return ST_OK;
  }
  const int64_t n = c->plan->n_batches;
  EXPECT((*out)->size == 1 || (*out)->size >= (uint64_t)n, "%s has %ju lengths, expected 1 or %jd", name,
         (uintmax_t)(*out)->size, (intmax_t)n);
  for (int64_t b = 0; b < attention_min(n, (int64_t)(*out)->size); ++b)
    EXPECT((*out)->value[b] >= 0 && (*out)->value[b] <= limit, "%s[%jd] is %jd, expected 0 to %jd", name, (intmax_t)b,
           (intmax_t)(*out)->value[b], (intmax_t)limit);
  return ST_OK;
}

static int64_t length_of(const aclIntArray *lengths, int64_t b, int64_t all) {
  return lengths ? lengths->value[lengths->size == 1 ? 0 : b] : all;
}

static int64_t keys_of(const infer_call *c, int64_t b) {
  const attention_plan *p = c->plan;
  if (!p->key_list) return p->max_keys;
  return c->key.list->value[b]->dims[c->layout->row];
}

static status set_batches(infer_call *c, int64_t mode, int64_t before, int64_t after) {
  attention_plan *p = c->plan;
  const aclIntArray *nq, *nk;
  const infer_attention_args *a = c->a;
  TRY(infer_check_lengths(c, p->max_rows > 1 && !c->is_step ? a->actual_seq_lengths : NULL, a->name.actual_seq_lengths,
                          p->max_rows, &nq));
  TRY(infer_check_lengths(c, c->key_lengths, c->key_lengths_name, p->max_keys, &nk));
  attention_batch s = {.n_rows = p->max_rows, .n_queries = p->max_rows, .n_keys = p->max_keys + p->n_prefix_keys};
  layout_set_band(&s, mode, before, after);
  p->uniform = s;
  p->batch_is_listed = nq || nk || p->key_list;
  /* Without lengths, padding is ignored as well. */
  if (!nq) p->query_padding = ABSENT;
  if (!nk) p->key_padding = ABSENT;
  if (!p->batch_is_listed || !p->n_batches) return ST_OK;
  HEAP_PLAN(attention_batch, list, c->e, (size_t)p->n_batches * sizeof *list);
  for (int64_t b = 0; b < p->n_batches; ++b) {
    s.n_queries = length_of(nq, b, p->max_rows);
    s.n_keys = attention_min(length_of(nk, b, p->max_keys), keys_of(c, b)) + p->n_prefix_keys;
    layout_set_band(&s, mode, before, after);
    list[b] = s;
  }
  return ST_OK;
}

/* The end of each sequence, in a tensor of `total` positions. */
static status infer_check_ends(const infer_call *c, const aclIntArray *ends, const char *name, int64_t total) {
  const int64_t n = c->plan->n_batches;
  EXPECT(ends && ends->size == (uint64_t)n, "%s has %jd values, expected the ends of %jd sequences", name,
         (intmax_t)(ends ? ends->size : 0), (intmax_t)n);
  for (int64_t b = 0, last = 0; b < n; last = ends->value[b++])
    EXPECT(ends->value[b] >= last && ends->value[b] <= total, "%s[%jd] is %jd, expected %jd to %jd", name, (intmax_t)b,
           (intmax_t)ends->value[b], (intmax_t)last, (intmax_t)total);
  return ST_OK;
}

/* Concatenated sequences. Keys in pages have lengths rather than ends. Positions behind the last sequence are listed
 * as sequences without queries, so that their results are 0. */
static status set_flat_batches(infer_call *c, int64_t mode, int64_t before, int64_t after) {
  attention_plan *p = c->plan;
  const aclIntArray *q = c->a->actual_seq_lengths, *k = c->key_lengths;
  const bool paged = p->table >= 0;
  const int64_t n = p->n_batches;
  TRY(infer_check_ends(c, q, c->a->name.actual_seq_lengths, c->q.rows));
  if (paged)
    TRY(infer_check_lengths(c, k, c->key_lengths_name, p->max_keys, &k));
  else
    TRY(infer_check_ends(c, k, c->key_lengths_name, p->max_keys));
  p->max_rows = 1;
  for (int64_t b = 0; b < n; ++b) p->max_rows = attention_max(p->max_rows, q->value[b] - (b ? q->value[b - 1] : 0));
  const int64_t end = n ? q->value[n - 1] : 0, n_rest = (c->q.rows - end + p->max_rows - 1) / p->max_rows;
  HEAP_PLAN(attention_batch, list, c->e, (size_t)(n + n_rest) * sizeof *list);
  int64_t max_keys = 0;
  for (int64_t b = 0; b < n; ++b) {
    const int64_t row = b ? q->value[b - 1] : 0, key = b && !paged ? k->value[b - 1] : 0;
    list[b] = (attention_batch){.row_begin = row,
                                .n_rows = q->value[b] - row,
                                .n_queries = q->value[b] - row,
                                .key_begin = key,
                                .n_keys = (paged ? length_of(k, b, p->max_keys) : k->value[b]) - key};
    layout_set_band(&list[b], mode, before, after);
    max_keys = attention_max(max_keys, list[b].n_keys);
  }
  for (int64_t b = 0; b < n_rest; ++b) {
    const int64_t row = end + b * p->max_rows;
    list[n + b] = (attention_batch){.row_begin = row, .n_rows = attention_min(p->max_rows, c->q.rows - row)};
  }
  p->n_batches = n + n_rest;
  p->batch_is_listed = true;
  if (c->e->asks_most)
    p->max_rows = c->q.rows;
  else
    p->max_keys = max_keys;
  return ST_OK;
}

/* ---- mask, bias, results ----------------------------------------------------------------------------------------- */

/* Concatenated sequences have a band, whose mask is a pattern, or no mask. */
static status set_flat_mask(infer_call *c, const tensor *mask, const char *name) {
  const infer_attention_args *a = c->a;
  const int64_t mode = a->sparse_mode;
  EXPECT(mode >= SPARSE_DEFAULT && mode <= SPARSE_BAND, "sparseMode is %jd, expected 0 to 4", (intmax_t)mode);
  EXPECT(!mask == !layout_mask_is_pattern(mode), "%s is %s, expected %s for sparseMode %jd in the layout %s", name,
         mask ? "given" : "absent", mask ? "none" : "a pattern", (intmax_t)mode, a->input_layout);
  c->plan->mask.operand = ABSENT;
  TRY(set_flat_batches(c, mask ? mode : SPARSE_ALL, a->pre_tokens, a->next_tokens));
  if (!mask) return ST_OK;
  TRY(op_expect_dtype(mask, name, DTYPE_BIT(ACL_BOOL) | DTYPE_BIT(ACL_INT8) | DTYPE_BIT(ACL_UINT8)));
  return layout_check_pattern(mask, name, mode);
}

/* If there is one query per sequence, the mask may lack the query dimension: [B, keys]. */
static status infer_set_mask(infer_call *c) {
  attention_plan *p = c->plan;
  const infer_attention_args *a = c->a;
  const tensor *mask = layout_given(a->atten_mask);
  const char *name = a->name.atten_mask;
  if (c->is_flat) return set_flat_mask(c, mask, name);
  /* With one query only the mask matters, so the sparse mode is ignored. */
  const int64_t given = p->max_rows > 1 ? a->sparse_mode : SPARSE_DEFAULT;
  EXPECT(given >= SPARSE_DEFAULT && given <= SPARSE_BAND, "sparseMode is %jd, expected 0 to 4", (intmax_t)given);
  EXPECT(mask || given == SPARSE_DEFAULT, "%s is absent, expected a mask for sparseMode %jd", name, (intmax_t)given);
  const bool has_band = mask && p->max_rows > 1 && !c->is_step && p->query_padding < 0 && p->key_padding < 0;
  const int64_t mode = given == SPARSE_DEFAULT && !has_band ? SPARSE_ALL : given;
  p->mask.operand = ABSENT;
  const bool bounded = has_band || mode == SPARSE_BAND;
  TRY(set_batches(c, mode, bounded ? a->pre_tokens : 0, bounded ? a->next_tokens : 0));
  if (!mask) return ST_OK;
  TRY(op_expect_dtype(mask, name, DTYPE_BIT(ACL_BOOL) | DTYPE_BIT(ACL_INT8) | DTYPE_BIT(ACL_UINT8)));
  if (layout_mask_is_pattern(mode)) return layout_check_pattern(mask, name, mode);
  const int operand = a->view.atten_mask;
  const int64_t keys = p->key_padding >= 0 ? p->max_keys : attention_min(p->max_keys + p->n_prefix_keys, INT64_MAX);
  TRY(score_view_of(mask, name, operand, p, true, mask->rank == 2 && p->max_rows == 1 ? p->n_batches : p->max_rows,
                    keys, &p->mask));
  if (mask->rank == 2 && p->max_rows == 1) {
    p->mask.batch = p->mask.row;
    p->mask.row = 0;
  }
  return ST_OK;
}

static status infer_set_bias(infer_call *c) {
  attention_plan *p = c->plan;
  const tensor *bias = layout_given(c->a->pse_shift);
  p->bias_kind = BIAS_NONE;
  p->bias = (head_view){.operand = ABSENT};
  p->bias_rows_missing = 0;
  p->bias_is_packed = false;
  if (!bias) return ST_OK;
  p->bias_kind = BIAS_ADDED;
  TRY(op_expect_dtype(bias, c->a->name.pse_shift, DTYPES_FLOAT_TO_32));
  return score_view_of(bias, c->a->name.pse_shift, c->a->view.pse_shift, p, false, p->max_rows,
                       p->max_keys + p->n_prefix_keys, &p->bias);
}

static status set_results(infer_call *c) {
  attention_plan *p = c->plan;
  const infer_attention_args *a = c->a;
  const tensor *out = a->attention_out, *lse = out->n ? layout_given(a->softmax_lse) : a->softmax_lse;
  head_dims d = {.heads = p->n_heads};
  TRY(op_expect_dtype(out, "attentionOut", DTYPES_FLOAT_TO_32));
  TRY(head_view_of(out, "attentionOut", a->view.attention_out, c->out_layout, &p->out, &d));
  EXPECT(d.batches == c->q.batches && d.heads == p->n_heads && d.rows == c->q.rows && d.d == p->dv,
         "attentionOut has shape %s, expected %jd sequences, %jd heads, %jd positions, %jd components in the layout %s",
         SHAPE_OF(out), (intmax_t)c->q.batches, (intmax_t)p->n_heads, (intmax_t)c->q.rows, (intmax_t)p->dv,
         c->out_layout->name);
  p->row_max.operand = p->row_sum.operand = ABSENT;
  p->lse = a->softmax_lse_flag;
  p->n_copies = 1;
  p->softmax_is_packed = false;
  if (!p->lse) return ST_OK;
  EXPECT(lse, "softmaxLse is absent, expected a tensor where softmaxLseFlag is true");
  TRY(op_expect_dtype(lse, "softmaxLse", DTYPE_BIT(ACL_FLOAT)));
  if (c->is_flat)
    TRY(op_expect_shape(lse, "softmaxLse", (const int64_t[]){c->q.rows, p->n_heads, 1}, 3));
  else
    TRY(op_expect_shape(lse, "softmaxLse", (const int64_t[]){p->n_batches, p->n_heads, p->max_rows, 1}, 4));
  p->row_max = (head_view){.operand = (int16_t)a->view.softmax_lse,
                           .dtype = lse->dtype,
                           .batch = c->is_flat ? 0 : lse->strides[0] * 4,
                           .head = lse->strides[1] * 4,
                           .row = lse->strides[c->is_flat ? 0 : 2] * 4};
  return ST_OK;
}

static status infer_set_sink(infer_call *c) {
  attention_plan *p = c->plan;
  const tensor *sink = layout_given(c->a->learnable_sink);
  p->sink = ABSENT;
  if (!sink) return ST_OK;
  TRY(op_expect_dtype(sink, "learnableSinkOptional", DTYPE_BIT(p->query.dtype)));
  TRY(op_expect_shape(sink, "learnableSinkOptional", &p->n_heads, 1));
  p->sink = (int16_t)c->a->view.learnable_sink;
  p->sink_dtype = (int16_t)sink->dtype;
  p->sink_step = view_of(sink).strides[0];
  return ST_OK;
}

/* ---- preparation ------------------------------------------------------------------------------------------------- */

static status padding_operand(const tensor *t, const char *name, int number, int16_t *operand) {
  *operand = ABSENT;
  if (!layout_given(t)) return ST_OK;
  TRY(op_expect_dtype(t, name, DTYPE_BIT(ACL_INT64)));
  *operand = (int16_t)number;
  return ST_OK;
}

/* Finds the layouts of the query and of the result: X_Y has the result in another one. */
static status find_layouts(infer_call *c) {
  static const char old[] = "BSH BSND BNSD BNSD_BSND",
                    all[] = "BSH BSND BNSD TND NTD BNSD_BSND BSH_BNSD BSND_BNSD BSH_NBSD BSND_NBSD BNSD_NBSD TND_NTD "
                            "NTD_TND";
  const char *const allowed = c->e->op->variant == FUSED_V3 ? all : old, *const name = c->a->input_layout;
  const char *const cut = name && layout_has_word(allowed, name) ? strchr(name, '_') : NULL;
  if (cut) {
    char first[8];
    snprintf(first, sizeof first, "%.*s", (int)(cut - name), name);
    TRY(head_layout_find(first, "inputLayout", NULL, first, &c->layout));
    TRY(head_layout_find(cut + 1, "inputLayout", NULL, cut + 1, &c->out_layout));
  } else {
    TRY(head_layout_find(name, "inputLayout", NULL, allowed, &c->layout));
    c->out_layout = c->layout;
  }
  c->is_flat = c->layout->batch < 0;
  return ST_OK;
}

static const tensor *first_of(const aclTensorList *list) { return list->size ? list->value[0] : NULL; }

static infer_call infer_call_of(executor *e, const infer_attention_args *a) {
  infer_call c = {.e = e, .a = a, .is_step = e->op->variant >= STEP, .plan = PLAN(e, attention_plan)};
  if (a->key_list) {
    c.key = (infer_source){a->key_list, first_of(a->key_list), "key", INFER_ATTENTION_KEY_LIST};
    c.value = (infer_source){a->value_list, first_of(a->value_list), "value", a->view.value_list};
  } else {
    c.key = (infer_source){NULL, a->key_tensor, "key", INFER_ATTENTION_KEY_TENSOR};
    c.value = (infer_source){NULL, a->value_tensor, "value", INFER_ATTENTION_VALUE_TENSOR};
  }
  /* IncreFlashAttention has one list of lengths, which are those of the keys. */
  c.key_lengths = c.is_step ? a->actual_seq_lengths : a->actual_seq_lengths_kv;
  c.key_lengths_name = c.is_step ? a->name.actual_seq_lengths : a->name.actual_seq_lengths_kv;
  return c;
}

status prepare_infer_attention(executor *e, const infer_attention_args *a) {
  attention_plan *p = PLAN(e, attention_plan);
  infer_call c = infer_call_of(e, a);
  const tensor *query = a->query;
  TRY(infer_refuse(a));
  EXPECT(a->pse_type == 0, "pseType is %jd, expected 0", (intmax_t)a->pse_type);
  TRY(find_layouts(&c));
  if (c.is_flat) TRY(infer_refuse_flat(a));
  head_dims q = {.heads = a->num_heads};
  TRY(op_expect_dtype(query, "query", DTYPES_FLOAT_TO_32));
  TRY(head_view_of(query, "query", INFER_ATTENTION_QUERY, c.layout, &p->query, &q));
  EXPECT(q.heads == a->num_heads, "numHeads is %jd, expected the query's %jd", (intmax_t)a->num_heads,
         (intmax_t)q.heads);
  const int64_t kv_heads = a->num_key_value_heads ? a->num_key_value_heads : q.heads;
  EXPECT(kv_heads > 0 && q.heads % kv_heads == 0, "numKeyValueHeads is %jd, expected 0 or a divisor of numHeads, %jd",
         (intmax_t)kv_heads, (intmax_t)q.heads);
  c.q = q;
  p->n_batches = c.is_flat && a->actual_seq_lengths ? (int64_t)a->actual_seq_lengths->size : q.batches;
  p->n_heads = q.heads;
  p->n_kv_heads = kv_heads;
  p->max_rows = q.rows;
  p->d = q.d;
  p->scale = (float)a->scale_value;
  p->drop = p->table = ABSENT;
  p->key_list = false;
  p->query_start = p->key_start = p->n_prefix_keys = 0;
  TRY(padding_operand(a->query_padding_size, a->name.query_padding_size, a->view.query_padding_size,
                      &p->query_padding));
  TRY(padding_operand(a->kv_padding_size, a->name.kv_padding_size, a->view.kv_padding_size, &p->key_padding));
  TRY(set_keys(&c));
  TRY(infer_set_rope(&c));
  TRY(infer_set_prefix(&c));
  TRY(infer_set_mask(&c));
  TRY(infer_set_bias(&c));
  TRY(infer_set_sink(&c));
  TRY(set_results(&c));
  return attention_plan_forward(e, p);
}
