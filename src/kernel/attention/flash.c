/* SPDX-License-Identifier: Apache-2.0 */
/* aclnnFlashAttentionScore, its variants, and their gradients: CANN's attention operators for training. */
#include <stdlib.h>

#include "kernel/attention/layout.h"
#include "kernel/families.h"

/* Argument indices of a variant; ABSENT where the variant lacks the argument. */
typedef struct {
  int8_t query, key, value, dout, bias, drop, mask, row_max, row_sum, forward_out;
  int8_t prefix, query_lengths, key_lengths, query_start, key_start;
  int8_t scale, keep, before, after, heads, layout, sparse, bias_type;
  int8_t out; /* the result; in gradients dquery, followed by dkey and dvalue */
} flash_arguments;

#define FORWARD_TENSORS                                                                                                \
  .query = 0, .key = 1, .value = 2, .dout = ABSENT, .bias = 3, .drop = 4, .mask = 6, .forward_out = ABSENT, .prefix = 7
#define BACKWARD_TENSORS                                                                                               \
  .query = 0, .key = 1, .value = 2, .dout = 3, .bias = 4, .drop = 5, .mask = 7, .row_max = 8, .row_sum = 9,            \
  .forward_out = 11, .prefix = 12
#define LENGTHS(at) .query_lengths = at, .key_lengths = (at) + 1
#define NO_LENGTHS  .query_lengths = ABSENT, .key_lengths = ABSENT
#define STARTS(at)  .query_start = at, .key_start = (at) + 1
#define NO_STARTS   .query_start = ABSENT, .key_start = ABSENT
#define SCALARS(at)                                                                                                    \
  .scale = at, .keep = (at) + 1, .before = (at) + 2, .after = (at) + 3, .heads = (at) + 4, .layout = (at) + 5,         \
  .sparse = (at) + 7
#define RESULTS(at)  .row_max = at, .row_sum = (at) + 1, .out = (at) + 3
#define NO_BIAS_TYPE .bias_type = ABSENT

static const flash_arguments forward_variants[] = {
    [FLASH] = {FORWARD_TENSORS, NO_LENGTHS, NO_STARTS, SCALARS(8), NO_BIAS_TYPE, RESULTS(16)},
    [FLASH_V2] = {FORWARD_TENSORS, NO_LENGTHS, STARTS(8), SCALARS(10), .bias_type = 18, RESULTS(19)},
    [FLASH_VARLEN] = {FORWARD_TENSORS, LENGTHS(8), NO_STARTS, SCALARS(10), NO_BIAS_TYPE, RESULTS(18)},
    [FLASH_VARLEN_V2] = {FORWARD_TENSORS, LENGTHS(8), STARTS(10), SCALARS(12), .bias_type = 20, RESULTS(21)},
};

static const flash_arguments backward_variants[] = {
    [FLASH_GRAD] = {BACKWARD_TENSORS, NO_LENGTHS, NO_STARTS, SCALARS(13), NO_BIAS_TYPE, .out = 21},
    [FLASH_GRAD_V2] = {BACKWARD_TENSORS, NO_LENGTHS, STARTS(13), SCALARS(15), .bias_type = 23, .out = 24},
    [FLASH_VARLEN_GRAD] = {BACKWARD_TENSORS, LENGTHS(13), NO_STARTS, SCALARS(15), NO_BIAS_TYPE, .out = 23},
    [FLASH_VARLEN_GRAD_V2] = {BACKWARD_TENSORS, LENGTHS(13), STARTS(15), SCALARS(17), .bias_type = 25, .out = 26},
};

enum { MOST_COMPONENTS = 768, ALIBI_ROWS = 1024 };

/* A call while its arguments are checked. */
typedef struct {
  executor *e;
  const op_arg *a;
  const flash_arguments *at;
  const head_layout *layout;
  attention_plan *plan;
} flash_call;

static const char *flash_name_of(const flash_call *c, int argument) { return c->e->op->schema[argument].name; }

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Views another tensor, which must have these sizes. */
static status view_like(const flash_call *c, int argument, const head_dims *expected, head_view *v) {
  const tensor *t = c->a[argument].tensor;
  const char *name = flash_name_of(c, argument);
  head_dims d = {.heads = expected->heads};
  TRY(op_expect_dtype(t, name, DTYPE_BIT(c->plan->query.dtype)));
  TRY(head_view_of(t, name, layout_operand_of(c->e, argument), c->layout, v, &d));
  char text[SHAPE_TEXT];
  EXPECT(d.batches == expected->batches && d.heads == expected->heads && d.rows == expected->rows && d.d == expected->d,
         "%s has shape %s, expected %jd sequences, %jd heads, %jd positions, %jd components in the layout %s", name,
         shape_text(t->dims, t->rank, text), (intmax_t)expected->batches, (intmax_t)expected->heads,
         (intmax_t)expected->rows, (intmax_t)expected->d, c->layout->name);
  return ST_OK;
}

/* Number of key heads; with a hidden dimension it follows from the queries' number of components. */
static status key_heads(const flash_call *c, int64_t d, int64_t *heads) {
  const tensor *key = c->a[c->at->key].tensor;
  if (!c->layout->hidden) {
    *heads = key->rank == c->layout->rank ? key->dims[c->layout->head] : 0;
    return ST_OK;
  }
  EXPECT(key->rank == c->layout->rank && d && key->dims[c->layout->col] % d == 0,
         "%s has %jd components, expected a multiple of the queries' %jd", flash_name_of(c, c->at->key),
         (intmax_t)(key->rank == c->layout->rank ? key->dims[c->layout->col] : 0), (intmax_t)d);
  *heads = key->dims[c->layout->col] / d;
  return ST_OK;
}

static status flash_check_operands(flash_call *c, head_dims *q, head_dims *k, head_dims *v) {
  attention_plan *p = c->plan;
  const flash_arguments *at = c->at;
  const tensor *query = c->a[at->query].tensor, *key = c->a[at->key].tensor, *value = c->a[at->value].tensor;
  *q = (head_dims){.heads = c->a[at->heads].integer};
  TRY(op_expect_dtype(query, flash_name_of(c, at->query), DTYPES_ATTENTION));
  TRY(op_expect_dtype(key, flash_name_of(c, at->key), DTYPE_BIT(query->dtype)));
  TRY(op_expect_dtype(value, flash_name_of(c, at->value), DTYPE_BIT(query->dtype)));
  TRY(head_view_of(query, "query", layout_operand_of(c->e, at->query), c->layout, &p->query, q));
  EXPECT(q->heads == c->a[at->heads].integer, "headNum is %jd, expected the query's %jd",
         (intmax_t)c->a[at->heads].integer, (intmax_t)q->heads);
  *k = *v = (head_dims){0};
  TRY(key_heads(c, q->d, &k->heads));
  v->heads = k->heads;
  TRY(head_view_of(key, flash_name_of(c, at->key), layout_operand_of(c->e, at->key), c->layout, &p->key, k));
  TRY(head_view_of(value, flash_name_of(c, at->value), layout_operand_of(c->e, at->value), c->layout, &p->value, v));
  EXPECT(k->batches == q->batches && k->d == q->d && k->heads > 0 && q->heads % k->heads == 0,
         "%s has %jd sequences, %jd heads, %jd components, expected %jd, a divisor of %jd, %jd",
         flash_name_of(c, at->key), (intmax_t)k->batches, (intmax_t)k->heads, (intmax_t)k->d, (intmax_t)q->batches,
         (intmax_t)q->heads, (intmax_t)q->d);
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
  p->dv = v->d;
  return ST_OK;
}

/* The softmax's maxima or sums: [B, N, S, 8], or [T, N, 8]. */
static status view_softmax(const flash_call *c, int argument, head_view *v, const head_dims *q) {
  const tensor *t = layout_optional_tensor(c->a, argument);
  v->operand = ABSENT;
  if (!t) return ST_OK;
  const bool flat = c->layout->batch < 0;
  const int64_t dims[4] = {q->batches, q->heads, q->rows, 8}, flat_dims[3] = {q->rows, q->heads, 8};
  return softmax_view_of(t, flash_name_of(c, argument), layout_operand_of(c->e, argument), flat ? flat_dims : dims,
                         flat ? 3 : 4, v);
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */

/* Cumulative lengths, as in the layout TND. */
static status flash_check_lengths(const flash_call *c, int argument, int64_t total) {
  const aclIntArray *lengths = c->a[argument].ints;
  const char *name = flash_name_of(c, argument);
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
  const aclIntArray *q = c->a[c->at->query_lengths].ints, *k = c->a[c->at->key_lengths].ints;
  TRY(flash_check_lengths(c, c->at->query_lengths, p->max_rows));
  TRY(flash_check_lengths(c, c->at->key_lengths, p->max_keys));
  EXPECT(q->size == k->size, "%s has %ju lengths, expected the %ju of %s", flash_name_of(c, c->at->key_lengths),
         (uintmax_t)k->size, (uintmax_t)q->size, flash_name_of(c, c->at->query_lengths));
  const int64_t n = (int64_t)q->size;
  attention_batch *list = c->e->heap = malloc((size_t)n * sizeof *list);
  if (!list) return fail(ST_NO_HOST_MEMORY, "no host memory for %jd sequences", (intmax_t)n);
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
  const aclIntArray *prefix = c->a[c->at->prefix].ints;
  EXPECT(prefix && prefix->size >= (uint64_t)p->n_batches, "%s has %jd values, expected one for each of %jd sequences",
         flash_name_of(c, c->at->prefix), (intmax_t)(prefix ? prefix->size : 0), (intmax_t)p->n_batches);
  attention_batch *list = c->e->heap;
  if (!p->batch_is_listed) {
    list = c->e->heap = malloc((size_t)attention_max(p->n_batches, 1) * sizeof *list);
    if (!list) return fail(ST_NO_HOST_MEMORY, "no host memory for %jd sequences", (intmax_t)p->n_batches);
    for (int64_t b = 0; b < p->n_batches; ++b) {
      list[b] = p->uniform;
      list[b].drop_bit = b * p->n_heads * p->max_rows * p->max_keys;
    }
    p->batch_is_listed = true;
  }
  for (int64_t b = 0; b < p->n_batches; ++b) {
    const int64_t fewest = attention_max(0, list[b].n_keys - list[b].n_queries);
    EXPECT(prefix->value[b] >= fewest && prefix->value[b] <= list[b].n_keys, "%s[%jd] is %jd, expected %jd to %jd",
           flash_name_of(c, c->at->prefix), (intmax_t)b, (intmax_t)prefix->value[b], (intmax_t)fewest,
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
  char text[SHAPE_TEXT];
  const bool repeats = r == 2 || (r == 4 && (d[0] == 1 || d[0] == p->n_batches) && (d[1] == 1 || d[1] == p->n_heads));
  EXPECT(repeats && d[r - 2] == p->max_rows && d[r - 1] == p->max_keys,
         "%s has shape %s, expected [%jd, %jd], or [%jd or 1, %jd or 1, ...] of these", name, shape_text(d, r, text),
         (intmax_t)p->max_rows, (intmax_t)p->max_keys, (intmax_t)p->n_batches, (intmax_t)p->n_heads);
  return ST_OK;
}

static status flash_set_mask(flash_call *c) {
  attention_plan *p = c->plan;
  const flash_arguments *at = c->at;
  const tensor *mask = layout_optional_tensor(c->a, at->mask);
  const char *name = flash_name_of(c, at->mask);
  const bool flat = at->query_lengths >= 0;
  const int64_t given = c->a[at->sparse].integer;
  EXPECT(given >= 0 && given <= (flat ? SPARSE_LEFT_UP_CUT : SPARSE_PREFIX_SMALL) && !(flat && given == SPARSE_PREFIX),
         "sparseMode is %jd, expected %s", (intmax_t)given, flat ? "0 to 4 or 6 to 8" : "0 to 6");
  const int64_t mode = mask ? given : SPARSE_ALL; /* ignored if there is no mask */
  const int64_t before = c->a[at->before].integer, after = c->a[at->after].integer;
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
  return score_view_of(mask, name, layout_operand_of(c->e, at->mask), p, true, p->max_rows, p->max_keys, &p->mask);
}

static int64_t first_value(const op_arg *a, int argument) {
  return argument >= 0 && a[argument].ints && a[argument].ints->size ? a[argument].ints->value[0] : 0;
}

/* ALiBi with a slope for each head, [N] or [B, N]. */
static status set_slopes(flash_call *c, const tensor *t, const char *name) {
  attention_plan *p = c->plan;
  const int r = t->rank;
  char text[SHAPE_TEXT];
  TRY(op_expect_dtype(t, name, DTYPE_BIT(ACL_FLOAT)));
  EXPECT(r >= 1 && r <= 2 && t->dims[r - 1] == p->n_heads && (r == 1 || t->dims[0] == p->n_batches),
         "%s has shape %s, expected [%jd] or [%jd, %jd]", name, shape_text(t->dims, r, text), (intmax_t)p->n_heads,
         (intmax_t)p->n_batches, (intmax_t)p->n_heads);
  p->bias.dtype = t->dtype;
  p->bias.head = t->strides[r - 1] * 4;
  p->bias.batch = r == 2 ? t->strides[0] * 4 : 0;
  p->query_start = first_value(c->a, c->at->query_start);
  p->key_start = first_value(c->a, c->at->key_start);
  return ST_OK;
}

/* A bias of concatenated sequences, each [heads, queries or 1, keys]. */
static bool set_packed_bias(const flash_call *c, const tensor *bias) {
  attention_plan *p = c->plan;
  if (c->at->query_lengths < 0 || !bias->contiguous || bias->n != bias->dims[0]) return false;
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
  char text[SHAPE_TEXT];
  EXPECT(bias->rank == 4 && (d[0] == 1 || d[0] == p->n_batches) && d[1] == p->n_heads && d[3] == p->max_keys &&
             (d[2] == p->max_rows || d[2] == 1 || (d[2] == ALIBI_ROWS && p->max_rows > ALIBI_ROWS)),
         "%s has shape %s, expected [%jd or 1, %jd, %jd or 1, %jd]", name, shape_text(d, bias->rank, text),
         (intmax_t)p->n_batches, (intmax_t)p->n_heads, (intmax_t)p->max_rows, (intmax_t)p->max_keys);
  return ST_OK;
}

static status flash_set_bias(flash_call *c) {
  static const bias_kind kinds[] = {BIAS_ADDED, BIAS_SCALED, BIAS_ALIBI, BIAS_ALIBI_SQRT};
  attention_plan *p = c->plan;
  const tensor *bias = layout_optional_tensor(c->a, c->at->bias);
  const char *name = flash_name_of(c, c->at->bias);
  const int64_t type = c->at->bias_type >= 0 ? c->a[c->at->bias_type].integer : 1;
  EXPECT(type >= 0 && type <= 3, "pseType is %jd, expected 0 to 3", (intmax_t)type);
  p->bias_kind = BIAS_NONE;
  p->bias = (head_view){.operand = ABSENT};
  p->bias_rows_missing = 0;
  p->bias_is_packed = false;
  EXPECT(bias || type == 1, "%s is absent, expected one for pseType %jd", name, (intmax_t)type);
  if (!bias) return ST_OK;
  p->bias_kind = kinds[type];
  const int operand = layout_operand_of(c->e, c->at->bias);
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
  const double keep = c->a[c->at->keep].real;
  const tensor *mask = layout_optional_tensor(c->a, c->at->drop);
  const char *name = flash_name_of(c, c->at->drop);
  EXPECT(keep > 0 && keep <= 1, "keepProb is %g, expected more than 0, at most 1", keep);
  p->drop = ABSENT;
  p->keep = (float)(1 / keep);
  if (keep == 1) return ST_OK;
  int64_t bits = p->n_batches * p->n_heads * p->max_rows * p->max_keys;
  if (c->at->query_lengths >= 0) {
    const attention_batch *last = (const attention_batch *)c->e->heap + p->n_batches - 1;
    bits = last->drop_bit + p->n_heads * last->n_rows * last->n_keys;
  }
  EXPECT(mask || !bits, "%s is absent, expected %jd bits for keepProb %g", name, (intmax_t)bits, keep);
  if (!mask) return ST_OK;
  TRY(op_expect_dtype(mask, name, DTYPE_BIT(ACL_UINT8) | DTYPE_BIT(ACL_BOOL)));
  EXPECT(mask->contiguous && mask->n >= (bits + 7) / 8, "%s has %jd bytes%s, expected %jd without gaps", name,
         (intmax_t)mask->n, mask->contiguous ? "" : " with gaps", (intmax_t)((bits + 7) / 8));
  p->drop = (int16_t)layout_operand_of(c->e, c->at->drop);
  return ST_OK;
}

/* ---- the two families -------------------------------------------------------------------------------------------- */

static status flash_call_init(flash_call *c, executor *e, const op_arg *a, const flash_arguments *at, head_dims *q,
                              head_dims *k, head_dims *v) {
  *c = (flash_call){.e = e, .a = a, .at = at, .plan = PLAN(e, attention_plan)};
  attention_plan *p = c->plan;
  TRY(head_layout_find(a[at->layout].string, "inputLayout", NULL, at->query_lengths >= 0 ? "TND" : "BSH SBH BSND BNSD",
                       &c->layout));
  TRY(flash_check_operands(c, q, k, v));
  p->scale = (float)a[at->scale].real;
  p->n_copies = 8;
  p->lse = p->key_list = p->batch_is_listed = false;
  p->table = p->query_padding = p->key_padding = ABSENT;
  p->query_start = p->key_start = p->n_prefix_keys = 0;
  TRY(flash_set_mask(c));
  TRY(flash_set_bias(c));
  return set_dropout(c);
}

status prepare_flash_attention(executor *e, const op_arg *a) {
  flash_call c;
  head_dims q, k, v;
  TRY(flash_call_init(&c, e, a, &forward_variants[e->op->variant], &q, &k, &v));
  attention_plan *p = c.plan;
  const head_dims out = {q.batches, q.heads, q.rows, v.d};
  TRY(view_like(&c, c.at->out, &out, &p->out));
  TRY(view_softmax(&c, c.at->row_max, &p->row_max, &q));
  TRY(view_softmax(&c, c.at->row_sum, &p->row_sum, &q));
  return attention_plan_forward(e, p);
}

status prepare_flash_attention_grad(executor *e, const op_arg *a) {
  flash_call c;
  head_dims q, k, v;
  TRY(flash_call_init(&c, e, a, &backward_variants[e->op->variant], &q, &k, &v));
  attention_plan *p = c.plan;
  const head_dims out = {q.batches, q.heads, q.rows, v.d};
  for (int i = 0; i < 3; ++i) {
    const int needed = ((const int[]){c.at->row_max, c.at->row_sum, c.at->forward_out})[i];
    EXPECT(a[needed].tensor, "%s is NULL, expected what the forward pass gave", flash_name_of(&c, needed));
  }
  TRY(view_like(&c, c.at->forward_out, &out, &p->out));
  TRY(view_like(&c, c.at->dout, &out, &p->dout));
  TRY(view_like(&c, c.at->out, &q, &p->dquery));
  TRY(view_like(&c, c.at->out + 1, &k, &p->dkey));
  TRY(view_like(&c, c.at->out + 2, &v, &p->dvalue));
  TRY(view_softmax(&c, c.at->row_max, &p->row_max, &q));
  TRY(view_softmax(&c, c.at->row_sum, &p->row_sum, &q));
  return attention_plan_backward(e, p);
}
