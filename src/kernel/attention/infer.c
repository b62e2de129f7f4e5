/* SPDX-License-Identifier: Apache-2.0 */
/* aclnnFusedInferAttentionScore, aclnnPromptFlashAttention and aclnnIncreFlashAttention: CANN's attention operators for
 * inference. Quantised keys, values and results are rejected. */
#include <stdlib.h>
#include <string.h>

#include "kernel/attention/layout.h"
#include "kernel/families.h"

/* Argument indices of a variant; ABSENT where the variant lacks the argument. */
typedef struct {
  int8_t query, key, value, bias, mask, query_lengths, key_lengths;
  int8_t table, query_padding, key_padding, prefix_key, prefix_value, prefix_length;
  int8_t heads, scale, before, after, layout, kv_heads, sparse, page_keys, wants_lse, out, lse;
  int8_t refused[2][2]; /* ranges of tensor arguments that must be absent: [first, end) */
  bool lists;           /* keys and values are lists of tensors */
} infer_arguments;

#define TENSORS .query = 0, .key = 1, .value = 2, .bias = 3, .mask = 4, .query_lengths = 5
#define PAGED   .table = 14, .query_padding = 15, .key_padding = 16
#define NO_PAGES                                                                                                       \
  .table = ABSENT, .query_padding = ABSENT, .key_padding = ABSENT, .page_keys = ABSENT, .wants_lse = ABSENT,           \
  .lse = ABSENT
#define NO_PREFIX .prefix_key = ABSENT, .prefix_value = ABSENT, .prefix_length = ABSENT
#define FUSED_SCALARS(at)                                                                                              \
  .heads = at, .scale = (at) + 1, .before = (at) + 2, .after = (at) + 3, .layout = (at) + 4, .kv_heads = (at) + 5,     \
  .sparse = (at) + 6, .page_keys = (at) + 8, .wants_lse = (at) + 10
#define PROMPT_SCALARS(at)                                                                                             \
  .heads = at, .scale = (at) + 1, .before = (at) + 2, .after = (at) + 3, .layout = (at) + 4, .kv_heads = (at) + 5
#define STEP_SCALARS(at)                                                                                               \
  .heads = at, .scale = (at) + 1, .before = ABSENT, .after = ABSENT, .layout = (at) + 2, .kv_heads = (at) + 3,         \
  .sparse = ABSENT

/* IncreFlashAttention has one list of lengths, which are those of the keys. */
#define STEP_TENSORS                                                                                                   \
  .query = 0, .key = 1, .value = 2, .bias = 3, .mask = 4, .query_lengths = ABSENT, .key_lengths = 5, .lists = true

static const infer_arguments variants[] = {
    [FUSED] = {TENSORS, .key_lengths = 6, PAGED, NO_PREFIX, FUSED_SCALARS(17), .out = 28, .lse = 29,
               .refused = {{7, 14}}, .lists = true},
    [FUSED_V2] = {TENSORS, .key_lengths = 6, PAGED, .prefix_key = 21, .prefix_value = 22, .prefix_length = 23,
                  FUSED_SCALARS(24), .out = 37, .lse = 38, .refused = {{7, 14}, {17, 21}}, .lists = true},
    [FUSED_V3] = {TENSORS, .key_lengths = 6, PAGED, .prefix_key = 21, .prefix_value = 22, .prefix_length = 23,
                  FUSED_SCALARS(27), .out = 40, .lse = 41, .refused = {{7, 14}, {17, 21}}, .lists = true},
    [PROMPT] = {TENSORS, .key_lengths = ABSENT, NO_PAGES, NO_PREFIX, PROMPT_SCALARS(6), .sparse = ABSENT, .out = 12},
    [PROMPT_V2] = {TENSORS, .key_lengths = 6, NO_PAGES, NO_PREFIX, PROMPT_SCALARS(12), .sparse = 18, .out = 19,
                   .refused = {{7, 12}}},
    [PROMPT_V3] = {TENSORS, .key_lengths = 6, NO_PAGES, NO_PREFIX, PROMPT_SCALARS(12), .sparse = 18, .out = 20,
                   .refused = {{7, 12}}},
    [STEP] = {STEP_TENSORS, NO_PAGES, NO_PREFIX, STEP_SCALARS(6), .out = 10},
    [STEP_V2] = {STEP_TENSORS, NO_PAGES, NO_PREFIX, STEP_SCALARS(11), .out = 15, .refused = {{6, 11}}},
    [STEP_V3] = {STEP_TENSORS, .table = 13, .query_padding = ABSENT, .key_padding = ABSENT, NO_PREFIX, STEP_SCALARS(14),
                 .page_keys = 18, .wants_lse = ABSENT, .lse = ABSENT, .out = 20, .refused = {{6, 13}}},
    [STEP_V4] = {STEP_TENSORS, .table = 13, .query_padding = ABSENT, .key_padding = 14, NO_PREFIX, STEP_SCALARS(15),
                 .page_keys = 19, .wants_lse = ABSENT, .lse = ABSENT, .out = 21, .refused = {{6, 13}}},
};

/* A call while its arguments are checked. */
typedef struct {
  executor *e;
  const op_arg *a;
  const infer_arguments *at;
  const head_layout *layout;
  attention_plan *plan;
} infer_call;

static const char *infer_name_of(const infer_call *c, int argument) { return c->e->op->schema[argument].name; }
static const tensor *optional(const infer_call *c, int argument) { return layout_optional_tensor(c->a, argument); }

static status infer_refuse(const infer_call *c) {
  for (int r = 0; r < 2; ++r)
    for (int i = c->at->refused[r][0]; i < c->at->refused[r][1]; ++i)
      EXPECT(!optional(c, i), "%s is given, expected none: quantised attention is not supported", infer_name_of(c, i));
  if (c->e->op->variant == FUSED_V3)
    for (int i = 24; i < 27; ++i)
      EXPECT(!optional(c, i), "%s is given, expected none: separate rotary parts are not supported",
             infer_name_of(c, i));
  return ST_OK;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static const tensor *first_of(const infer_call *c, int argument) {
  if (!c->at->lists) return c->a[argument].tensor;
  const aclTensorList *list = c->a[argument].tensors;
  return list->size ? list->value[0] : NULL;
}

/* Views one tensor of keys or values: [B, ...] in the layout, or [1, ...] for a single sequence. */
static status view_keys(const infer_call *c, int argument, const tensor *t, int operand, int64_t d, head_view *v,
                        head_dims *dims) {
  attention_plan *p = c->plan;
  const char *name = infer_name_of(c, argument);
  *dims = (head_dims){.heads = p->n_kv_heads};
  TRY(op_expect_dtype(t, name, DTYPE_BIT(p->query.dtype)));
  TRY(head_view_of(t, name, operand, c->layout, v, dims));
  char text[SHAPE_TEXT];
  EXPECT(dims->heads == p->n_kv_heads && (d < 0 || dims->d == d),
         "%s has shape %s, expected %jd heads of %jd components in the layout %s", name,
         shape_text(t->dims, t->rank, text), (intmax_t)p->n_kv_heads, (intmax_t)(d < 0 ? dims->d : d), c->layout->name);
  return ST_OK;
}

/* Views paged keys or values: [pages, keys, H] or [pages, N, keys, D]. */
static status view_pages(const infer_call *c, int argument, head_view *v, int64_t *d) {
  attention_plan *p = c->plan;
  const tensor *t = first_of(c, argument);
  const char *name = infer_name_of(c, argument);
  static const head_layout flat = {"BSH", 3, 0, ABSENT, 1, 2, true}, by_head = {"BNSD", 4, 0, 1, 2, 3, false};
  EXPECT(t && (t->rank == 3 || t->rank == 4), "%s has %d dimensions, expected pages of 3 or 4", name, t ? t->rank : 0);
  head_dims dims = {.heads = p->n_kv_heads};
  TRY(op_expect_dtype(t, name, DTYPE_BIT(p->query.dtype)));
  TRY(head_view_of(t, name, layout_operand_of(c->e, argument), t->rank == 3 ? &flat : &by_head, v, &dims));
  EXPECT(dims.heads == p->n_kv_heads && dims.rows == c->a[c->at->page_keys].integer,
         "%s has %jd heads and %jd keys in a page, expected %jd and blockSize, %jd", name, (intmax_t)dims.heads,
         (intmax_t)dims.rows, (intmax_t)p->n_kv_heads, (intmax_t)c->a[c->at->page_keys].integer);
  EXPECT(*d < 0 || dims.d == *d, "%s has %jd components, expected %jd", name, (intmax_t)dims.d, (intmax_t)*d);
  *d = dims.d;
  p->pages.keys = dims.rows;
  p->pages.n_pages = dims.batches;
  return ST_OK;
}

static status set_pages(infer_call *c, const tensor *table) {
  attention_plan *p = c->plan;
  const char *name = infer_name_of(c, c->at->table);
  char text[SHAPE_TEXT];
  TRY(op_expect_dtype(table, name, DTYPE_BIT(ACL_INT32)));
  EXPECT(table->rank == 2 && table->dims[0] == p->n_batches, "%s has shape %s, expected [%jd, pages]", name,
         shape_text(table->dims, table->rank, text), (intmax_t)p->n_batches);
  EXPECT(c->at->key_lengths >= 0 && c->a[c->at->key_lengths].ints, "%s is NULL, expected lengths with blockTable",
         infer_name_of(c, c->at->key_lengths));
  p->dv = -1;
  int64_t d = p->d;
  TRY(view_pages(c, c->at->key, &p->key, &d));
  TRY(view_pages(c, c->at->value, &p->value, &p->dv));
  p->table = (int16_t)layout_operand_of(c->e, c->at->table);
  p->pages.table_row = table->strides[0] * 4;
  p->pages.table_col = table->strides[1] * 4;
  p->max_keys = table->dims[1] * p->pages.keys;
  return ST_OK;
}

/* A list with a tensor per sequence; their numbers of keys may differ. */
static status set_key_list(infer_call *c) {
  attention_plan *p = c->plan;
  const aclTensorList *keys = c->a[c->at->key].tensors, *values = c->a[c->at->value].tensors;
  const int key = layout_operand_of(c->e, c->at->key), value = layout_operand_of(c->e, c->at->value);
  p->key_list = true;
  p->max_keys = 0;
  p->dv = -1;
  for (int64_t b = 0; b < p->n_batches; ++b) {
    head_view kv, vv;
    head_dims k, v;
    TRY(view_keys(c, c->at->key, keys->value[b], key + (int)b, p->d, &kv, &k));
    TRY(view_keys(c, c->at->value, values->value[b], value + (int)b, p->dv, &vv, &v));
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
  const tensor *table = optional(c, c->at->table);
  if (table) return set_pages(c, table);
  if (c->at->lists) {
    const uint64_t n = c->a[c->at->key].tensors->size, m = c->a[c->at->value].tensors->size;
    EXPECT(n == m && (n == 1 || n == (uint64_t)p->n_batches),
           "key and value are lists of %ju and %ju, expected 1 or %jd", (uintmax_t)n, (uintmax_t)m,
           (intmax_t)p->n_batches);
    if (n > 1) return set_key_list(c);
  }
  head_dims k, v;
  TRY(view_keys(c, c->at->key, first_of(c, c->at->key), layout_operand_of(c->e, c->at->key), p->d, &p->key, &k));
  TRY(view_keys(c, c->at->value, first_of(c, c->at->value), layout_operand_of(c->e, c->at->value), -1, &p->value, &v));
  EXPECT(k.batches == p->n_batches && v.batches == p->n_batches && k.rows == v.rows,
         "key and value have %jd and %jd sequences of %jd and %jd keys, expected %jd of as many", (intmax_t)k.batches,
         (intmax_t)v.batches, (intmax_t)k.rows, (intmax_t)v.rows, (intmax_t)p->n_batches);
  p->max_keys = k.rows;
  p->dv = v.d;
  return ST_OK;
}

static status infer_set_prefix(infer_call *c) {
  attention_plan *p = c->plan;
  const tensor *key = optional(c, c->at->prefix_key), *value = optional(c, c->at->prefix_value);
  if (!key && !value) return ST_OK;
  EXPECT(key && value && p->table < 0 && !p->key_list && p->query_padding < 0 && p->key_padding < 0,
         "%s is given, expected it together with that of the values, and without pages, lists and padding sizes",
         infer_name_of(c, key ? c->at->prefix_key : c->at->prefix_value));
  head_dims k, v;
  TRY(view_keys(c, c->at->prefix_key, key, layout_operand_of(c->e, c->at->prefix_key), p->d, &p->prefix_key, &k));
  TRY(view_keys(c, c->at->prefix_value, value, layout_operand_of(c->e, c->at->prefix_value), p->dv, &p->prefix_value,
                &v));
  const aclIntArray *length = c->a[c->at->prefix_length].ints;
  p->n_prefix_keys = length && length->size ? length->value[0] : k.rows;
  EXPECT(k.batches == 1 && v.batches == 1 && k.rows == v.rows && p->n_prefix_keys >= 0 && p->n_prefix_keys <= k.rows,
         "%s is %jd of %jd and %jd keys, expected at most as many, of one sequence",
         infer_name_of(c, c->at->prefix_length), (intmax_t)p->n_prefix_keys, (intmax_t)k.rows, (intmax_t)v.rows);
  return ST_OK;
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */

/* Lengths of the sequences: one for all, or one each. *out is NULL if none are given. */
static status infer_check_lengths(const infer_call *c, int argument, int64_t limit, const aclIntArray **out) {
  *out = argument >= 0 ? c->a[argument].ints : NULL;
  if (!*out || !(*out)->size) {
    *out = NULL;
    return ST_OK;
  }
  const int64_t n = c->plan->n_batches;
  const char *name = infer_name_of(c, argument);
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
  return c->a[c->at->key].tensors->value[b]->dims[c->layout->row];
}

static status set_batches(infer_call *c, int64_t mode, int64_t before, int64_t after) {
  attention_plan *p = c->plan;
  const aclIntArray *nq, *nk;
  TRY(infer_check_lengths(c, p->max_rows > 1 ? c->at->query_lengths : ABSENT, p->max_rows, &nq));
  TRY(infer_check_lengths(c, c->at->key_lengths, p->max_keys, &nk));
  attention_batch s = {.n_rows = p->max_rows, .n_queries = p->max_rows, .n_keys = p->max_keys + p->n_prefix_keys};
  layout_set_band(&s, mode, before, after);
  p->uniform = s;
  p->batch_is_listed = nq || nk || p->key_list;
  /* Without lengths, padding is ignored as well. */
  if (!nq) p->query_padding = ABSENT;
  if (!nk) p->key_padding = ABSENT;
  if (!p->batch_is_listed || !p->n_batches) return ST_OK;
  attention_batch *list = c->e->heap = malloc((size_t)p->n_batches * sizeof *list);
  if (!list) return fail(ST_NO_HOST_MEMORY, "no host memory for %jd sequences", (intmax_t)p->n_batches);
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
  const tensor *mask = optional(c, c->at->mask);
  const char *name = infer_name_of(c, c->at->mask);
  /* With one query only the mask matters, so the sparse mode is ignored. */
  const int64_t given = c->at->sparse >= 0 && p->max_rows > 1 ? c->a[c->at->sparse].integer : SPARSE_DEFAULT;
  EXPECT(given >= SPARSE_DEFAULT && given <= SPARSE_BAND, "sparseMode is %jd, expected 0 to 4", (intmax_t)given);
  EXPECT(mask || given == SPARSE_DEFAULT, "%s is absent, expected a mask for sparseMode %jd", name, (intmax_t)given);
  const bool has_band = mask && p->max_rows > 1 && c->at->before >= 0 && p->query_padding < 0 && p->key_padding < 0;
  const int64_t mode = given == SPARSE_DEFAULT && !has_band ? SPARSE_ALL : given;
  p->mask.operand = ABSENT;
  TRY(set_batches(c, mode, has_band || mode == SPARSE_BAND ? c->a[c->at->before].integer : 0,
                  has_band || mode == SPARSE_BAND ? c->a[c->at->after].integer : 0));
  if (!mask) return ST_OK;
  TRY(op_expect_dtype(mask, name, DTYPE_BIT(ACL_BOOL) | DTYPE_BIT(ACL_INT8) | DTYPE_BIT(ACL_UINT8)));
  if (layout_mask_is_pattern(mode)) return layout_check_pattern(mask, name, mode);
  const int operand = layout_operand_of(c->e, c->at->mask);
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
  const tensor *bias = optional(c, c->at->bias);
  p->bias_kind = BIAS_NONE;
  p->bias = (head_view){.operand = ABSENT};
  p->bias_rows_missing = 0;
  p->bias_is_packed = false;
  if (!bias) return ST_OK;
  p->bias_kind = BIAS_ADDED;
  TRY(op_expect_dtype(bias, infer_name_of(c, c->at->bias), DTYPES_ATTENTION));
  return score_view_of(bias, infer_name_of(c, c->at->bias), layout_operand_of(c->e, c->at->bias), p, false, p->max_rows,
                       p->max_keys + p->n_prefix_keys, &p->bias);
}

static status set_results(infer_call *c, const head_layout *out_layout) {
  attention_plan *p = c->plan;
  const tensor *out = c->a[c->at->out].tensor, *lse = optional(c, c->at->lse);
  const char *name = infer_name_of(c, c->at->out);
  head_dims d = {.heads = p->n_heads};
  TRY(op_expect_dtype(out, name, DTYPES_ATTENTION));
  TRY(head_view_of(out, name, layout_operand_of(c->e, c->at->out), out_layout, &p->out, &d));
  char text[SHAPE_TEXT];
  EXPECT(d.batches == p->n_batches && d.heads == p->n_heads && d.rows == p->max_rows && d.d == p->dv,
         "%s has shape %s, expected %jd sequences, %jd heads, %jd positions, %jd components in the layout %s", name,
         shape_text(out->dims, out->rank, text), (intmax_t)p->n_batches, (intmax_t)p->n_heads, (intmax_t)p->max_rows,
         (intmax_t)p->dv, out_layout->name);
  p->row_max.operand = p->row_sum.operand = ABSENT;
  p->lse = c->at->wants_lse >= 0 && c->a[c->at->wants_lse].boolean;
  p->n_copies = 1;
  if (!p->lse) return ST_OK;
  EXPECT(lse, "softmaxLse is absent, expected a tensor where softmaxLseFlag is true");
  TRY(op_expect_dtype(lse, "softmaxLse", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_shape(lse, "softmaxLse", (const int64_t[]){p->n_batches, p->n_heads, p->max_rows, 1}, 4));
  p->row_max = (head_view){.operand = (int16_t)layout_operand_of(c->e, c->at->lse),
                           .dtype = lse->dtype,
                           .batch = lse->strides[0] * 4,
                           .head = lse->strides[1] * 4,
                           .row = lse->strides[2] * 4};
  return ST_OK;
}

/* ---- preparation ------------------------------------------------------------------------------------------------- */

static status padding_operand(const infer_call *c, int argument, int16_t *operand) {
  const tensor *t = optional(c, argument);
  *operand = ABSENT;
  if (!t) return ST_OK;
  TRY(op_expect_dtype(t, infer_name_of(c, argument), DTYPE_BIT(ACL_INT64)));
  *operand = (int16_t)layout_operand_of(c->e, argument);
  return ST_OK;
}

/* With BNSD_BSND, the result's layout differs from the query's. */
static status find_layouts(infer_call *c, const head_layout **out) {
  const char *name = c->a[c->at->layout].string, *allowed = "BSH BSND BNSD";
  if (name && !strcmp(name, "BNSD_BSND")) {
    TRY(head_layout_find("BNSD", "inputLayout", NULL, allowed, &c->layout));
    return head_layout_find("BSND", "inputLayout", NULL, allowed, out);
  }
  TRY(head_layout_find(name, "inputLayout", NULL, allowed, &c->layout));
  *out = c->layout;
  return ST_OK;
}

status prepare_infer_attention(executor *e, const op_arg *a) {
  attention_plan *p = PLAN(e, attention_plan);
  infer_call c = {.e = e, .a = a, .at = &variants[e->op->variant], .plan = p};
  const tensor *query = a[0].tensor;
  const head_layout *out_layout;
  TRY(infer_refuse(&c));
  TRY(find_layouts(&c, &out_layout));
  head_dims q = {.heads = a[c.at->heads].integer};
  TRY(op_expect_dtype(query, "query", DTYPES_ATTENTION));
  TRY(head_view_of(query, "query", 0, c.layout, &p->query, &q));
  EXPECT(q.heads == a[c.at->heads].integer, "numHeads is %jd, expected the query's %jd",
         (intmax_t)a[c.at->heads].integer, (intmax_t)q.heads);
  const int64_t kv_heads = a[c.at->kv_heads].integer ? a[c.at->kv_heads].integer : q.heads;
  EXPECT(kv_heads > 0 && q.heads % kv_heads == 0, "numKeyValueHeads is %jd, expected 0 or a divisor of numHeads, %jd",
         (intmax_t)kv_heads, (intmax_t)q.heads);
  p->n_batches = q.batches;
  p->n_heads = q.heads;
  p->n_kv_heads = kv_heads;
  p->max_rows = q.rows;
  p->d = q.d;
  p->scale = (float)a[c.at->scale].real;
  p->drop = p->table = ABSENT;
  p->key_list = false;
  p->query_start = p->key_start = p->n_prefix_keys = 0;
  TRY(padding_operand(&c, c.at->query_padding, &p->query_padding));
  TRY(padding_operand(&c, c.at->key_padding, &p->key_padding));
  TRY(set_keys(&c));
  TRY(infer_set_prefix(&c));
  TRY(infer_set_mask(&c));
  TRY(infer_set_bias(&c));
  TRY(set_results(&c, out_layout));
  return attention_plan_forward(e, p);
}
