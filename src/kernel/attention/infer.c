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
  const head_layout *layout;
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
                 {a->dequant_scale_query, "dequantScaleQueryOptional"}};
  const struct {
    const tensor *t;
    const char *name;
  } parts[] = {{a->query_rope, "queryRopeOptional"},
               {a->key_rope, "keyRopeOptional"},
               {a->key_rope_antiquant_scale, "keyRopeAntiquantScaleOptional"}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i)
    EXPECT(!layout_given(refused[i].t), "%s is given, expected none: quantised attention is not supported",
           refused[i].name);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i)
    EXPECT(!layout_given(parts[i].t), "%s is given, expected none: separate rotary parts are not supported",
           parts[i].name);
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
    EXPECT(n && n == m && (n == 1 || n == (uint64_t)p->n_batches),
           "key and value are lists of %ju and %ju, expected 1 or %jd", (uintmax_t)n, (uintmax_t)m,
           (intmax_t)p->n_batches);
    if (n > 1) return set_key_list(c);
  }
  head_dims k, v;
  TRY(view_keys(c, c->key.first, "key", c->key.operand, p->d, &p->key, &k));
  TRY(view_keys(c, c->value.first, "value", c->value.operand, -1, &p->value, &v));
  EXPECT(k.batches == p->n_batches && v.batches == p->n_batches && k.rows == v.rows,
         "key and value have %jd and %jd sequences of %jd and %jd keys, expected %jd of as many", (intmax_t)k.batches,
         (intmax_t)v.batches, (intmax_t)k.rows, (intmax_t)v.rows, (intmax_t)p->n_batches);
  p->max_keys = k.rows;
  p->dv = v.d;
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

/* ---- mask, bias, results ----------------------------------------------------------------------------------------- */

/* If there is one query per sequence, the mask may lack the query dimension: [B, keys]. */
static status infer_set_mask(infer_call *c) {
  attention_plan *p = c->plan;
  const infer_attention_args *a = c->a;
  const tensor *mask = layout_given(a->atten_mask);
  const char *name = a->name.atten_mask;
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

static status set_results(infer_call *c, const head_layout *out_layout) {
  attention_plan *p = c->plan;
  const infer_attention_args *a = c->a;
  const tensor *out = a->attention_out, *lse = layout_given(a->softmax_lse);
  head_dims d = {.heads = p->n_heads};
  TRY(op_expect_dtype(out, "attentionOut", DTYPES_FLOAT_TO_32));
  TRY(head_view_of(out, "attentionOut", a->view.attention_out, out_layout, &p->out, &d));
  EXPECT(d.batches == p->n_batches && d.heads == p->n_heads && d.rows == p->max_rows && d.d == p->dv,
         "attentionOut has shape %s, expected %jd sequences, %jd heads, %jd positions, %jd components in the layout %s",
         SHAPE_OF(out), (intmax_t)p->n_batches, (intmax_t)p->n_heads, (intmax_t)p->max_rows, (intmax_t)p->dv,
         out_layout->name);
  p->row_max.operand = p->row_sum.operand = ABSENT;
  p->lse = a->softmax_lse_flag;
  p->n_copies = 1;
  p->softmax_is_packed = false;
  if (!p->lse) return ST_OK;
  EXPECT(lse, "softmaxLse is absent, expected a tensor where softmaxLseFlag is true");
  TRY(op_expect_dtype(lse, "softmaxLse", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_shape(lse, "softmaxLse", (const int64_t[]){p->n_batches, p->n_heads, p->max_rows, 1}, 4));
  p->row_max = (head_view){.operand = (int16_t)a->view.softmax_lse,
                           .dtype = lse->dtype,
                           .batch = lse->strides[0] * 4,
                           .head = lse->strides[1] * 4,
                           .row = lse->strides[2] * 4};
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

/* With BNSD_BSND, the result's layout differs from the query's. */
static status find_layouts(infer_call *c, const head_layout **out) {
  const char *name = c->a->input_layout, *allowed = "BSH BSND BNSD";
  if (name && !strcmp(name, "BNSD_BSND")) {
    TRY(head_layout_find("BNSD", "inputLayout", NULL, allowed, &c->layout));
    return head_layout_find("BSND", "inputLayout", NULL, allowed, out);
  }
  TRY(head_layout_find(name, "inputLayout", NULL, allowed, &c->layout));
  *out = c->layout;
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
  const head_layout *out_layout;
  TRY(infer_refuse(a));
  EXPECT(a->pse_type == 0, "pseType is %jd, expected 0", (intmax_t)a->pse_type);
  TRY(find_layouts(&c, &out_layout));
  head_dims q = {.heads = a->num_heads};
  TRY(op_expect_dtype(query, "query", DTYPES_FLOAT_TO_32));
  TRY(head_view_of(query, "query", INFER_ATTENTION_QUERY, c.layout, &p->query, &q));
  EXPECT(q.heads == a->num_heads, "numHeads is %jd, expected the query's %jd", (intmax_t)a->num_heads,
         (intmax_t)q.heads);
  const int64_t kv_heads = a->num_key_value_heads ? a->num_key_value_heads : q.heads;
  EXPECT(kv_heads > 0 && q.heads % kv_heads == 0, "numKeyValueHeads is %jd, expected 0 or a divisor of numHeads, %jd",
         (intmax_t)kv_heads, (intmax_t)q.heads);
  p->n_batches = q.batches;
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
  TRY(infer_set_prefix(&c));
  TRY(infer_set_mask(&c));
  TRY(infer_set_bias(&c));
  TRY(infer_set_sink(&c));
  TRY(set_results(&c, out_layout));
  return attention_plan_forward(e, p);
}
