/* SPDX-License-Identifier: Apache-2.0 */
/* Processing of one query's dot products with keys: bias, mask, and online softmax. */
#include <math.h>
#include <string.h>

#include "kernel/attention/attention.h"
#include "kernel/engine/level_choice.h"

LEVEL_CHOICE(attention_loops, attention_rows, attention_loops)

enum { TILE = 512 };

/* ---- bias -------------------------------------------------------------------------------------------------------- */

static void add_alibi(const score_row *r, float *x, int64_t k, int64_t n) {
  const attention_plan *p = r->job->plan;
  float slope, tile[TILE];
  loops->load[p->bias.dtype][COMPUTE_F32](&slope, attention_head_at(r->job, &p->bias, r->b, r->head, 0), 0, 1);
  const int64_t at = r->query + p->query_start - k - p->key_start;
  for (int64_t i = 0, m; i < n; i += m) {
    m = attention_min(TILE, n - i);
    for (int64_t l = 0; l < m; ++l) tile[l] = fabsf((float)(at - i - l));
    if (p->bias_kind == BIAS_ALIBI_SQRT)
      for (int64_t l = 0; l < m; ++l) tile[l] = sqrtf(tile[l]);
    attention_rows->axpby(x + i, p->scale, tile, -slope, m);
  }
}

/* Address of the bias of key k in a tensor of concatenated sequences. */
static const char *packed_bias_at(const score_row *r, int64_t k) {
  const attention_plan *p = r->job->plan;
  const attention_batch *s = r->batch;
  const bool rows = p->bias_has_rows;
  const int64_t begin = rows ? s->drop_bit : p->n_heads * s->key_begin;
  const int64_t row = rows ? r->head * s->n_rows + r->query : r->head;
  return (const char *)r->job->view[p->bias.operand] + (begin + row * s->n_keys + k) * p->bias.col;
}

/* Address of the bias of key k; *n is limited to the number of values there. ALiBi depends on the distance only, so a
 * missing row is read from the first row that is present, shifted. */
static const char *bias_at(const score_row *r, int64_t k, int64_t *n) {
  const attention_plan *p = r->job->plan;
  if (p->bias_is_packed) return packed_bias_at(r, k);
  int64_t row = r->query + r->batch->first_query - p->bias_rows_missing, col = k;
  if (p->bias_rows_missing && row < 0) {
    col -= row;
    row = 0;
    *n = attention_min(*n, r->batch->n_keys - col);
  }
  return attention_head_at(r->job, &p->bias, r->b, r->head, row) + col * p->bias.col;
}

static void score_add_bias(const score_row *r, float *x, int64_t k, int64_t n) {
  const attention_plan *p = r->job->plan;
  float tile[TILE];
  int64_t given = n;
  const char *from = bias_at(r, k + r->batch->key_begin * (r->job->key_padding >= 0), &given);
  const float factor = p->bias_kind == BIAS_SCALED ? p->scale : 1;
  for (int64_t i = 0, m; i < n; i += m) {
    m = attention_min(TILE, n - i);
    const int64_t have = attention_max(0, attention_min(m, given - i));
    loops->load[p->bias.dtype][COMPUTE_F32](tile, from + i * p->bias.col, p->bias.col, have);
    for (int64_t l = have; l < m; ++l) tile[l] = 0;
    attention_rows->axpby(x + i, p->scale, tile, factor, m);
  }
}

/* ---- mask -------------------------------------------------------------------------------------------------------- */

static void score_hide(const score_row *r, float *x, int64_t k, int64_t n) {
  const attention_plan *p = r->job->plan;
  const head_view *v = &p->mask;
  const int64_t first = r->job->key_padding >= 0 ? r->batch->key_begin : 0;
  const char *from =
      attention_head_at(r->job, v, r->b, r->head, r->query + r->batch->first_query) + (k + first) * v->col;
  if (v->col == 1) {
    attention_rows->hide(x, (const uint8_t *)from, n);
    return;
  }
  for (int64_t i = 0; i < n; ++i) x[i] = from[i * v->col] ? -INFINITY : x[i];
}

/* ---- logits ------------------------------------------------------------------------------------------------------ */

float score_logits(const score_row *r, float *x, int64_t k, int64_t n) {
  const attention_plan *p = r->job->plan;
  float factor = 1;
  switch (p->bias_kind) {
  case BIAS_NONE:
    if (p->scale > 0)
      factor = p->scale;
    else
      attention_rows->scale(x, p->scale, n);
    break;
  case BIAS_SCALED:
  case BIAS_ADDED: score_add_bias(r, x, k, n); break;
  case BIAS_ALIBI:
  case BIAS_ALIBI_SQRT: add_alibi(r, x, k, n); break;
  }
  if (p->mask.operand >= 0) score_hide(r, x, k, n);
  return factor;
}

void score_dropout(const score_row *r, float *y, int64_t k, int64_t n) {
  const attention_plan *p = r->job->plan;
  const attention_batch *s = r->batch;
  const int64_t row = r->head * s->n_rows + s->first_query + r->query;
  attention_rows->bits(y, r->job->view[p->drop], s->drop_bit + row * s->n_keys + k, p->keep, n);
}

/* ---- the online softmax ------------------------------------------------------------------------------------------ */

row_state score_row_state(const attention_batch *b, int64_t row) {
  row_state s = {.top = -INFINITY};
  const int64_t query = row - b->first_query;
  if (query >= 0 && query < b->n_queries) attention_visible_keys(b, query, &s.low, &s.high);
  return s;
}

static bool any_nan(const float *x, int64_t n) {
  bool nan = false;
  for (int64_t i = 0; i < n; ++i) nan |= x[i] != x[i];
  return nan;
}

/* Raises the row's maximum to `top` and scales its sums accordingly. */
static void raise_top(row_state *s, float top, float *out, int64_t n) {
  const float shrink = exp2f((s->top - top) * LOG2_E);
  if (s->top != -INFINITY) attention_rows->scale(out, shrink, n);
  s->sum *= shrink;
  s->top = top;
}

void score_softmax(const score_row *r, row_state *s, float *x, void *y, operand_type type, float *out, float *factors,
                   int64_t k, int64_t n) {
  const attention_plan *p = r->job->plan;
  const float factor = score_has_terms(p) ? score_logits(r, x, k, n) : p->scale;
  const float top = fmaxf(s->top, attention_rows->max(x, n) * factor);
  if (top == -INFINITY) {
    if (any_nan(x, n)) s->sum = NAN;
    memset(y, 0, (size_t)n * (type == OPERAND_F32 ? sizeof(float) : sizeof(uint16_t)));
    return;
  }
  if (top > s->top) raise_top(s, top, out, p->dv);
  if (p->drop < 0) {
    s->sum += attention_rows->exp2[type](y, x, factor * LOG2_E, top * LOG2_E, n);
    return;
  }
  s->sum += attention_rows->exp2[OPERAND_F32](x, x, factor * LOG2_E, top * LOG2_E, n);
  score_dropout(r, factors, k, n);
  attention_rows->multiply(x, factors, n);
  attention_rows->narrow[type](y, x, n);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static void store_softmax(const score_row *r, int64_t row, float top, float sum) {
  const attention_plan *p = r->job->plan;
  const float lse = sum == 0 ? INFINITY : top + logf(sum);
  const head_view *const v[2] = {&p->row_max, &p->row_sum};
  const float value[2] = {p->lse ? lse : top, sum};
  for (int i = 0; i < 2; ++i) {
    if (v[i]->operand < 0) continue;
    char *to = attention_statistic_at(r->job, v[i], r->batch, r->b, r->head, row - r->batch->row_begin);
    for (int c = 0; c < p->n_copies; ++c) *(float *)(void *)(to + c * v[i]->col) = value[i];
  }
}

void attention_write_row(const head_view *v, char *to, const float *x, int64_t n) {
  loops->store[v->dtype][COMPUTE_F32](to, v->col, x, n);
}

/* Adds the head's sink to the row's sum. */
static void add_sink(const score_row *r, row_state *s, float *out) {
  const float sink = attention_sink(r->job, r->head);
  if (sink == -INFINITY) return;
  if (sink > s->top) raise_top(s, sink, out, r->job->plan->dv);
  s->sum += exp2f((sink - s->top) * LOG2_E);
}

void score_finish(const score_row *r, int64_t row, const row_state *s, float *out) {
  const attention_plan *p = r->job->plan;
  row_state end = *s;
  if (p->sink >= 0) add_sink(r, &end, out);
  attention_rows->scale(out, end.sum == 0 ? 0 : 1 / end.sum, p->dv);
  attention_write_row(&p->out, attention_head_at(r->job, &p->out, r->b, r->head, row), out, p->dv);
  store_softmax(r, row, end.top, end.sum);
}
