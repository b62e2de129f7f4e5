/* SPDX-License-Identifier: Apache-2.0 */
/* aclnnFlashAttentionScore, its variants, and their gradients: CANN's attention operators for training. */
#include <stdlib.h>
#include <string.h>

#include "kernel/attention/layout.h"
#include "kernel/families.h"

static const struct {
  bool is_varlen, has_bias_type;
} flash_variants[] = {
    [FLASH] = {false, false},
    [FLASH_V2] = {false, true},
    [FLASH_V3] = {false, true},
    [FLASH_VARLEN] = {true, false},
    [FLASH_VARLEN_V2] = {true, true},
    [FLASH_VARLEN_V3] = {true, true},
    [FLASH_VARLEN_V4] = {true, false},
    [FLASH_VARLEN_V5] = {true, true},
    [FLASH_GRAD] = {false, false},
    [FLASH_GRAD_V2] = {false, true},
    [FLASH_GRAD_V3] = {false, true},
    [FLASH_VARLEN_GRAD] = {true, false},
    [FLASH_VARLEN_GRAD_V2] = {true, true},
    [FLASH_VARLEN_GRAD_V3] = {true, true},
    [FLASH_VARLEN_GRAD_V4] = {true, false},
    [FLASH_VARLEN_GRAD_V5] = {true, true},
};

enum { MOST_COMPONENTS = 768, ALIBI_ROWS = 1024 };

/* A call while its arguments are checked. */
typedef struct {
  executor *e;
  const flash_attention_args *a;
  bool is_varlen, has_bias_type;
  const head_layout *layout;
  attention_plan *plan;
} flash_call;

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Views another tensor, which must have these sizes. */
static status view_like(const flash_call *c, const tensor *t, const char *name, int operand, const head_dims *expected,
                        head_view *v) {
  head_dims d = {.heads = expected->heads};
  TRY(op_expect_dtype(t, name, DTYPE_BIT(c->plan->query.dtype)));
  TRY(head_view_of(t, name, operand, c->layout, v, &d));
  EXPECT(d.batches == expected->batches && d.heads == expected->heads && d.rows == expected->rows && d.d == expected->d,
         "%s has shape %s, expected %jd sequences, %jd heads, %jd positions, %jd components in the layout %s", name,
         SHAPE_OF(t), (intmax_t)expected->batches, (intmax_t)expected->heads, (intmax_t)expected->rows,
         (intmax_t)expected->d, c->layout->name);
  return ST_OK;
}

/* Number of key heads; with a hidden dimension it follows from the queries' number of components. */
static status key_heads(const flash_call *c, int64_t d, int64_t *heads) {
  const tensor *key = c->a->key;
  if (!c->layout->hidden) {
    *heads = key->rank == c->layout->rank ? key->dims[c->layout->head] : 0;
    return ST_OK;
  }
  EXPECT(key->rank == c->layout->rank && d && key->dims[c->layout->col] % d == 0,
         "%s has %jd components, expected a multiple of the queries' %jd", c->a->name.key,
         (intmax_t)(key->rank == c->layout->rank ? key->dims[c->layout->col] : 0), (intmax_t)d);
  *heads = key->dims[c->layout->col] / d;
  return ST_OK;
}

/* The rotary parts as tensors of their own, which have the heads and positions of the query and the key. */
static status flash_set_rope(flash_call *c, const head_dims *q, const head_dims *k) {
  attention_plan *p = c->plan;
  const flash_attention_args *a = c->a;
  const tensor *query = layout_given_part(a->query_rope, a->query), *key = layout_given_part(a->key_rope, a->key);
  if (!query && !key) return ST_OK;
  EXPECT(query && key, "%s is absent, expected both queryRope and %s, or none", query ? a->name.key_rope : "queryRope",
         a->name.key_rope);
  head_dims of_query = *q, of_key = *k;
  of_query.d = of_key.d = query->dims[query->rank - 1];
  TRY(view_like(c, query, "queryRope", FLASH_ATTENTION_QUERY_ROPE, &of_query, &p->query_rope));
  TRY(view_like(c, key, a->name.key_rope, FLASH_ATTENTION_KEY_ROPE, &of_key, &p->key_rope));
  p->d_rope = of_query.d;
  p->d += of_query.d;
  EXPECT(p->d <= MOST_COMPONENTS, "query and queryRope have %jd components, expected at most %d", (intmax_t)p->d,
         MOST_COMPONENTS);
  if (!a->dy) return ST_OK;
  EXPECT(a->dq_rope_out && a->dk_rope_out, "%s is NULL, expected a tensor as there is queryRope",
         a->dq_rope_out ? "dkRopeOut" : "dqRopeOut");
  TRY(view_like(c, a->dq_rope_out, "dqRopeOut", a->view.dq_rope_out, &of_query, &p->dquery_rope));
  return view_like(c, a->dk_rope_out, "dkRopeOut", a->view.dk_rope_out, &of_key, &p->dkey_rope);
}

static status flash_check_operands(flash_call *c, head_dims *q, head_dims *k, head_dims *v) {
  attention_plan *p = c->plan;
  const flash_attention_args *a = c->a;
  *q = (head_dims){.heads = a->head_num};
  TRY(op_expect_dtype(a->query, "query", DTYPES_FLOAT_TO_32));
  TRY(op_expect_dtype(a->key, a->name.key, DTYPE_BIT(a->query->dtype)));
  TRY(op_expect_dtype(a->value, "value", DTYPE_BIT(a->query->dtype)));
  TRY(head_view_of(a->query, "query", FLASH_ATTENTION_QUERY, c->layout, &p->query, q));
  EXPECT(q->heads == a->head_num, "headNum is %jd, expected the query's %jd", (intmax_t)a->head_num,
         (intmax_t)q->heads);
  *k = *v = (head_dims){0};
  TRY(key_heads(c, q->d, &k->heads));
  v->heads = k->heads;
  TRY(head_view_of(a->key, a->name.key, a->view.key, c->layout, &p->key, k));
  TRY(head_view_of(a->value, "value", a->view.value, c->layout, &p->value, v));
  EXPECT(k->batches == q->batches && k->d == q->d && k->heads > 0 && q->heads % k->heads == 0,
         "%s has %jd sequences, %jd heads, %jd components, expected %jd, a divisor of %jd, %jd", a->name.key,
         (intmax_t)k->batches, (intmax_t)k->heads, (intmax_t)k->d, (intmax_t)q->batches, (intmax_t)q->heads,
         (intmax_t)q->d);
  EXPECT(v->batches == k->batches && v->rows == k->rows && v->heads == k->heads,
         "value has %jd sequences, %jd heads, %jd positions, expected the key's %jd, %jd, %jd", (intmax_t)v->batches,
         (intmax_t)v->heads, (intmax_t)v->rows, (intmax_t)k->batches, (intmax_t)k->heads, (intmax_t)k->rows);
  EXPECT(q->d <= MOST_COMPONENTS, "query has %jd components, expected at most %d", (intmax_t)q->d, MOST_COMPONENTS);
  p->n_batches = q->batches;
  p->n_heads = q->heads;
  p->n_kv_heads = k->heads;
  p->max_rows = q->rows;
  p->max_keys = k->rows;
  p->d = q->d;
  p->d_rope = 0;
  p->dv = v->d;
  return ST_OK;
}

/* The softmax's maxima or sums: [B, N, S, 8], or [T, N, 8], of which each sequence's part is really [N, S, 8] if the
 * plan has them packed. */
static status view_softmax(const flash_call *c, const tensor *t, const char *name, int operand, head_view *v,
                           const head_dims *q) {
  v->operand = ABSENT;
  if (!layout_given(t)) return ST_OK;
  const bool flat = c->layout->batch < 0;
  const int64_t dims[4] = {q->batches, q->heads, q->rows, 8}, flat_dims[3] = {q->rows, q->heads, 8};
  return softmax_view_of(t, name, operand, flat ? flat_dims : dims, flat ? 3 : 4, v);
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */

/* Cumulative lengths, as in the layout TND. */
static status flash_check_lengths(const aclIntArray *lengths, const char *name, int64_t total) {
  EXPECT(lengths && lengths->size, "%s is %s, expected the end of each sequence", name, lengths ? "empty" : "NULL");
  int64_t last = 0;
  for (uint64_t b = 0; b < lengths->size; ++b) {
    EXPECT(lengths->value[b] >= last && lengths->value[b] <= total, "%s[%ju] is %jd, expected %jd to %jd", name,
           (uintmax_t)b, (intmax_t)lengths->value[b], (intmax_t)last, (intmax_t)total);
    last = lengths->value[b];
  }
  return ST_OK;
}

/* Sparse modes 7 and 8 apply a band to the last or first sequence that has queries, and the causal modes to the
 * others. */
static int64_t flash_mode_of(int64_t mode, bool is_first, bool is_last) {
  if (mode == SPARSE_RIGHT_DOWN_CUT) return is_last ? SPARSE_BAND : SPARSE_RIGHT_DOWN;
  if (mode == SPARSE_LEFT_UP_CUT) return is_first ? SPARSE_BAND : SPARSE_LEFT_UP;
  return mode;
}

static status list_flat_batches(flash_call *c, int64_t mode, int64_t before, int64_t after) {
  attention_plan *p = c->plan;
  const aclIntArray *q = c->a->actual_seq_q_len, *k = c->a->actual_seq_kv_len;
  TRY(flash_check_lengths(q, "actualSeqQLenOptional", p->max_rows));
  TRY(flash_check_lengths(k, "actualSeqKvLenOptional", p->max_keys));
  EXPECT(q->size == k->size, "actualSeqKvLenOptional has %ju lengths, expected the %ju of actualSeqQLenOptional",
         (uintmax_t)k->size, (uintmax_t)q->size);
  const int64_t n = (int64_t)q->size;
  HEAP_PLAN(attention_batch, list, c->e, (size_t)n * sizeof *list);
  int64_t first = n, last = -1, bit = 0;
  p->n_batches = n;
  p->batch_is_listed = true;
  p->max_rows = p->max_keys = 0;
  for (int64_t b = 0; b < n; ++b) {
    const int64_t q0 = b ? q->value[b - 1] : 0, k0 = b ? k->value[b - 1] : 0;
    attention_batch *s = &list[b];
    *s = (attention_batch){.row_begin = q0, .n_rows = q->value[b] - q0, .key_begin = k0, .n_keys = k->value[b] - k0};
    s->n_queries = s->n_rows;
    s->drop_bit = bit;
    bit += p->n_heads * s->n_rows * s->n_keys;
    p->max_rows = attention_max(p->max_rows, s->n_rows);
    p->max_keys = attention_max(p->max_keys, s->n_keys);
    if (s->n_rows && first == n) first = b;
    if (s->n_rows) last = b;
  }
  for (int64_t b = 0; b < n; ++b) layout_set_band(&list[b], flash_mode_of(mode, b == first, b == last), before, after);
  return ST_OK;
}

/* Reads the prefix that all queries of a sequence see. */
static status set_prefixes(flash_call *c) {
  attention_plan *p = c->plan;
  const aclIntArray *prefix = c->a->prefix;
  EXPECT(prefix && prefix->size >= (uint64_t)p->n_batches,
         "prefixOptional has %jd values, expected one for each of %jd sequences", (intmax_t)(prefix ? prefix->size : 0),
         (intmax_t)p->n_batches);
  attention_batch *list = c->e->heap;
  if (!p->batch_is_listed) {
    list = executor_heap(c->e, (size_t)p->n_batches * sizeof *list);
    if (!list) return ST_NO_HOST_MEMORY;
    for (int64_t b = 0; b < p->n_batches; ++b) {
      list[b] = p->uniform;
      list[b].drop_bit = b * p->n_heads * p->max_rows * p->max_keys;
    }
    p->batch_is_listed = true;
  }
  for (int64_t b = 0; b < p->n_batches; ++b) {
    const int64_t fewest = attention_max(0, list[b].n_keys - list[b].n_queries);
    EXPECT(prefix->value[b] >= fewest && prefix->value[b] <= list[b].n_keys,
           "prefixOptional[%jd] is %jd, expected %jd to %jd", (intmax_t)b, (intmax_t)prefix->value[b], (intmax_t)fewest,
           (intmax_t)list[b].n_keys);
    list[b].prefix = prefix->value[b];
  }
  return ST_OK;
}

/* ---- masks, bias, dropout ---------------------------------------------------------------------------------------- */

/* One mask for all, or one per sequence and/or per head. CANN's masks are per head only if they are per sequence, too;
 * PyTorch's need not be. */
static status expect_mask_shape(const attention_plan *p, const tensor *mask, const char *name) {
  const int r = mask->rank;
  const int64_t *d = mask->dims;
  const bool repeats = r == 2 || (r == 4 && (d[0] == 1 || d[0] == p->n_batches) && (d[1] == 1 || d[1] == p->n_heads));
  EXPECT(repeats && d[r - 2] == p->max_rows && d[r - 1] == p->max_keys,
         "%s has shape %s, expected [%jd, %jd], or [%jd or 1, %jd or 1, ...] of these", name, DIMS_TEXT(d, r),
         (intmax_t)p->max_rows, (intmax_t)p->max_keys, (intmax_t)p->n_batches, (intmax_t)p->n_heads);
  return ST_OK;
}

static status flash_set_mask(flash_call *c) {
  attention_plan *p = c->plan;
  const tensor *mask = layout_given(c->a->atten_mask);
  static const char name[] = "attenMaskOptional";
  const bool flat = c->is_varlen;
  const int64_t given = c->a->sparse_mode;
  EXPECT(given >= 0 && given <= (flat ? SPARSE_LEFT_UP_CUT : SPARSE_PREFIX_SMALL) && !(flat && given == SPARSE_PREFIX),
         "sparseMode is %jd, expected %s", (intmax_t)given, flat ? "0 to 4 or 6 to 8" : "0 to 6");
  const int64_t mode = mask ? given : SPARSE_ALL; /* ignored if there is no mask */
  const int64_t before = c->a->pre_tokens, after = c->a->next_tokens;
  p->mask.operand = ABSENT;
  if (flat) {
    TRY(list_flat_batches(c, mode, before, after));
  } else {
    p->uniform = (attention_batch){.n_rows = p->max_rows, .n_queries = p->max_rows, .n_keys = p->max_keys};
    layout_set_band(&p->uniform, mode, before, after);
  }
  if (!mask) return ST_OK;
  TRY(op_expect_dtype(mask, name, DTYPE_BIT(ACL_BOOL) | DTYPE_BIT(ACL_UINT8)));
  if (mode == SPARSE_PREFIX || mode == SPARSE_PREFIX_SMALL) TRY(set_prefixes(c));
  EXPECT((mode != SPARSE_DEFAULT && mode != SPARSE_BAND) || (__int128)before + after >= 0,
         "preTokens is %jd and nextTokens is %jd, expected a sum of 0 or more", (intmax_t)before, (intmax_t)after);
  if (layout_mask_is_pattern(mode)) return layout_check_pattern(mask, name, mode);
  TRY(expect_mask_shape(p, mask, name));
  return score_view_of(mask, name, c->a->view.atten_mask, p, true, p->max_rows, p->max_keys, &p->mask);
}

static int64_t first_value(const aclIntArray *list) { return list && list->size ? list->value[0] : 0; }

/* ALiBi with a slope for each head, [N] or [B, N]. */
static status set_slopes(flash_call *c, const tensor *t, const char *name) {
  attention_plan *p = c->plan;
  const int r = t->rank;
  TRY(op_expect_dtype(t, name, DTYPE_BIT(ACL_FLOAT)));
  EXPECT(r >= 1 && r <= 2 && t->dims[r - 1] == p->n_heads && (r == 1 || t->dims[0] == p->n_batches),
         "%s has shape %s, expected [%jd] or [%jd, %jd]", name, DIMS_TEXT(t->dims, r), (intmax_t)p->n_heads,
         (intmax_t)p->n_batches, (intmax_t)p->n_heads);
  p->bias.dtype = t->dtype;
  p->bias.head = t->strides[r - 1] * 4;
  p->bias.batch = r == 2 ? t->strides[0] * 4 : 0;
  p->query_start = first_value(c->a->q_start_idx);
  p->key_start = first_value(c->a->kv_start_idx);
  return ST_OK;
}

/* A bias of concatenated sequences, each [heads, queries or 1, keys]. */
static bool set_packed_bias(const flash_call *c, const tensor *bias) {
  attention_plan *p = c->plan;
  if (!c->is_varlen || !bias->contiguous || bias->n != bias->dims[0]) return false;
  const attention_batch *last = (const attention_batch *)c->e->heap + p->n_batches - 1;
  p->bias_has_rows = bias->n == last->drop_bit + p->n_heads * last->n_rows * last->n_keys;
  p->bias_is_packed = p->bias_has_rows || bias->n == p->n_heads * (last->key_begin + last->n_keys);
  p->bias.dtype = bias->dtype;
  p->bias.col = (int64_t)dtype_bytes(bias->dtype);
  return p->bias_is_packed;
}

/* A bias per head, and per sequence or for all sequences. */
static status expect_bias_shape(const attention_plan *p, const tensor *bias, const char *name) {
  const int64_t *d = bias->dims;
  EXPECT(bias->rank == 4 && (d[0] == 1 || d[0] == p->n_batches) && d[1] == p->n_heads && d[3] == p->max_keys &&
             (d[2] == p->max_rows || d[2] == 1 || (d[2] == ALIBI_ROWS && p->max_rows > ALIBI_ROWS)),
         "%s has shape %s, expected [%jd or 1, %jd, %jd or 1, %jd]", name, DIMS_TEXT(d, bias->rank),
         (intmax_t)p->n_batches, (intmax_t)p->n_heads, (intmax_t)p->max_rows, (intmax_t)p->max_keys);
  return ST_OK;
}

static status flash_set_bias(flash_call *c) {
  static const bias_kind kinds[] = {BIAS_ADDED, BIAS_SCALED, BIAS_ALIBI, BIAS_ALIBI_SQRT};
  attention_plan *p = c->plan;
  const tensor *bias = layout_given(c->a->pse_shift);
  const char *name = c->a->name.pse_shift;
  const int64_t type = c->has_bias_type ? c->a->pse_type : 1;
  EXPECT(type >= 0 && type <= 3, "pseType is %jd, expected 0 to 3", (intmax_t)type);
  p->bias_kind = BIAS_NONE;
  p->bias = (head_view){.operand = ABSENT};
  p->bias_rows_missing = 0;
  p->bias_is_packed = false;
  EXPECT(bias || type == 1, "%s is absent, expected one for pseType %jd", name, (intmax_t)type);
  if (!bias) return ST_OK;
  p->bias_kind = kinds[type];
  const int operand = c->a->view.pse_shift;
  p->bias.operand = (int16_t)operand;
  if (type >= 2) return set_slopes(c, bias, name);
  TRY(op_expect_dtype(bias, name, DTYPE_BIT(p->query.dtype)));
  if (set_packed_bias(c, bias)) return ST_OK;
  TRY(expect_bias_shape(p, bias, name));
  const int64_t rows = bias->dims[2];
  const bool is_cut = rows == ALIBI_ROWS && p->max_rows > ALIBI_ROWS, is_row = rows == 1;
  if (is_cut && p->batch_is_listed)
    for (int64_t b = 0; b < p->n_batches; ++b) {
      const attention_batch *s = (const attention_batch *)c->e->heap + b;
      EXPECT(s->n_rows == p->max_rows, "%s has the last 1024 rows only, expected sequences of one length", name);
    }
  TRY(score_view_of(bias, name, operand, p, false, is_cut || is_row ? rows : p->max_rows, p->max_keys, &p->bias));
  if (is_cut) p->bias_rows_missing = (int32_t)(p->max_rows - ALIBI_ROWS);
  if (is_row) p->bias.row = 0;
  return ST_OK;
}

static status set_dropout(flash_call *c) {
  attention_plan *p = c->plan;
  const double keep = c->a->keep_prob;
  const tensor *mask = layout_given(c->a->drop_mask);
  EXPECT(keep > 0 && keep <= 1, "keepProb is %g, expected more than 0, at most 1", keep);
  p->drop = ABSENT;
  p->keep = (float)(1 / keep);
  if (keep == 1) return ST_OK;
  int64_t bits = p->n_batches * p->n_heads * p->max_rows * p->max_keys;
  if (c->is_varlen) {
    const attention_batch *last = (const attention_batch *)c->e->heap + p->n_batches - 1;
    bits = last->drop_bit + p->n_heads * last->n_rows * last->n_keys;
  }
  EXPECT(mask || !bits, "dropMaskOptional is absent, expected %jd bits for keepProb %g", (intmax_t)bits, keep);
  if (!mask) return ST_OK;
  TRY(op_expect_dtype(mask, "dropMaskOptional", DTYPE_BIT(ACL_UINT8) | DTYPE_BIT(ACL_BOOL)));
  EXPECT(mask->contiguous && mask->n >= (bits + 7) / 8, "dropMaskOptional has %jd bytes%s, expected %jd without gaps",
         (intmax_t)mask->n, mask->contiguous ? "" : " with gaps", (intmax_t)((bits + 7) / 8));
  p->drop = (int16_t)c->a->view.drop_mask;
  return ST_OK;
}

/* ---- what only some versions have -------------------------------------------------------------------------------- */

/* Statistics of sequences in TND lie as [N, S, 8] for each of them, unless the layout is that of the input. */
static status flash_set_softmax_layout(flash_call *c) {
  const char *const layout = c->a->softmax_layout;
  const bool same = layout && !strcmp(layout, "same_as_input");
  EXPECT(!layout || !*layout || same, "%s is \"%.32s\", expected \"same_as_input\" or \"\"", c->a->name.softmax_layout,
         layout);
  c->plan->softmax_is_packed = c->is_varlen && !same;
  return ST_OK;
}

static status flash_set_sink(flash_call *c) {
  const tensor *sink = layout_given(c->a->sink), *gradient = c->a->dsink_out;
  attention_plan *p = c->plan;
  p->sink = ABSENT;
  if (!sink) return ST_OK;
  TRY(op_expect_dtype(sink, c->a->name.sink, DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_shape(sink, c->a->name.sink, &p->n_heads, 1));
  p->sink = (int16_t)c->a->view.sink;
  p->sink_dtype = ACL_FLOAT;
  p->sink_step = view_of(sink).strides[0];
  if (!c->a->dy) return ST_OK;
  EXPECT(gradient, "dsinkOut is NULL, expected a tensor as there is a sink");
  TRY(op_expect_like(gradient, "dsinkOut", sink));
  p->dsink = (int16_t)c->a->view.dsink_out;
  p->dsink_step = view_of(gradient).strides[0];
  return ST_OK;
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

static status flash_call_init(flash_call *c, head_dims *q, head_dims *k, head_dims *v) {
  const flash_attention_args *a = c->a;
  attention_plan *p = c->plan;
  TRY(head_layout_find(a->input_layout, "inputLayout", NULL, c->is_varlen ? "TND" : "BSH SBH BSND BNSD", &c->layout));
  TRY(flash_check_operands(c, q, k, v));
  TRY(flash_set_rope(c, q, k));
  p->scale = (float)a->scale_value;
  p->n_copies = 8;
  p->lse = p->key_list = p->batch_is_listed = false;
  p->table = p->query_padding = p->key_padding = ABSENT;
  p->query_start = p->key_start = p->n_prefix_keys = 0;
  TRY(flash_set_mask(c));
  TRY(flash_set_bias(c));
  TRY(flash_set_softmax_layout(c));
  TRY(flash_set_sink(c));
  return set_dropout(c);
}

static status expect_of_forward(const tensor *t, const char *name) {
  EXPECT(t, "%s is NULL, expected what the forward pass gave", name);
  return ST_OK;
}

/* The gradients, and that of the result. */
static status flash_set_gradients(const flash_call *c, const head_dims *out, const head_dims *q, const head_dims *k,
                                  const head_dims *v) {
  const flash_attention_args *a = c->a;
  attention_plan *p = c->plan;
  TRY(view_like(c, a->dy, "dy", a->view.dy, out, &p->dout));
  TRY(view_like(c, a->dq_out, "dqOut", a->view.dq_out, q, &p->dquery));
  TRY(view_like(c, a->dk_out, "dkOut", a->view.dk_out, k, &p->dkey));
  return view_like(c, a->dv_out, "dvOut", a->view.dv_out, v, &p->dvalue);
}

status prepare_flash_attention(executor *e, const flash_attention_args *a) {
  const bool backward = a->dy;
  flash_call c = {.e = e,
                  .a = a,
                  .is_varlen = flash_variants[e->op->variant].is_varlen,
                  .has_bias_type = flash_variants[e->op->variant].has_bias_type,
                  .plan = PLAN(e, attention_plan)};
  attention_plan *p = c.plan;
  head_dims q, k, v;
  TRY(flash_call_init(&c, &q, &k, &v));
  if (backward) {
    TRY(expect_of_forward(a->softmax_max, a->name.softmax_max));
    TRY(expect_of_forward(a->softmax_sum, a->name.softmax_sum));
    TRY(expect_of_forward(a->attention, a->name.attention));
  }
  const head_dims out = {q.batches, q.heads, q.rows, v.d};
  TRY(view_like(&c, a->attention, a->name.attention, a->view.attention, &out, &p->out));
  if (backward) TRY(flash_set_gradients(&c, &out, &q, &k, &v));
  TRY(view_softmax(&c, a->softmax_max, a->name.softmax_max, a->view.softmax_max, &p->row_max, &q));
  TRY(view_softmax(&c, a->softmax_sum, a->name.softmax_sum, a->view.softmax_sum, &p->row_sum, &q));
  if (e->asks_most) {
    p->max_rows = q.rows;
    p->max_keys = k.rows;
  }
  return backward ? attention_plan_backward(e, p) : attention_plan_forward(e, p);
}
