/* SPDX-License-Identifier: Apache-2.0 */
/* The reference of attention's forward pass: query by query. A query's logits, of all the keys that it sees, are kept
 * in scratch memory; sums are double. What makes logits of dot products, and what is written at the end, are those of
 * the other implementations (score.c). */
#include <math.h>

#include "kernel/attention/attention.h"

static double component(const char *at, int dtype) {
  double value;
  loops->load[dtype][COMPUTE_F64](&value, at, 0, 1);
  return value;
}

typedef struct {
  float *logit, *factor, *out;
} reference_buffers;

static uint64_t reference_lay_out(const attention_plan *p, char *at, reference_buffers *f) {
  char *const start = at;
  const int64_t keys = p->max_keys + p->n_prefix_keys;
  f->logit = attention_take_floats(&at, keys);
  f->factor = attention_take_floats(&at, keys);
  f->out = attention_take_floats(&at, p->dv);
  return (uint64_t)(at - start);
}

static uint64_t reference_scratch(const attention_plan *p) {
  reference_buffers f;
  return reference_lay_out(p, NULL, &f);
}

/* The sum over the n components of one part of a query and a key. */
static double reference_part(const score_row *r, const head_view *v, key_part part, int64_t row, int64_t kv_head,
                             int64_t k, int64_t n) {
  const key_place key = attention_key_run(r->job, r->batch, part, r->b, kv_head, k);
  const char *const query = attention_head_at(r->job, v, r->b, r->head, row);
  double sum = 0;
  for (int64_t x = 0; x < n; ++x)
    sum += component(query + x * v->col, v->dtype) * component(key.at + x * key.col, v->dtype);
  return sum;
}

static float reference_dot(const score_row *r, int64_t row, int64_t kv_head, int64_t k) {
  const attention_plan *p = r->job->plan;
  double sum = reference_part(r, &p->query, KEYS, row, kv_head, k, p->d - p->d_rope);
  if (p->d_rope) sum += reference_part(r, &p->query_rope, KEY_ROPES, row, kv_head, k, p->d_rope);
  return (float)sum;
}

/* Replaces the logits of keys low to high by probabilities relative to the largest. Sets s->top and s->sum. */
static void to_probabilities(const score_row *r, row_state *s, const reference_buffers *f) {
  const attention_plan *p = r->job->plan;
  const int64_t n = s->high - s->low;
  const float scale = score_logits(r, f->logit, s->low, n);
  double sum = 0;
  bool nan = false;
  for (int64_t i = 0; i < n; ++i) {
    f->logit[i] *= scale;
    nan |= f->logit[i] != f->logit[i];
    s->top = fmaxf(s->top, f->logit[i]);
  }
  if (p->drop >= 0) score_dropout(r, f->factor, s->low, n);
  for (int64_t i = 0; i < n; ++i) {
    const float x = s->top == -INFINITY ? 0 : (float)exp((double)f->logit[i] - (double)s->top);
    sum += x;
    f->logit[i] = p->drop >= 0 ? x * f->factor[i] : x;
  }
  s->sum = nan ? NAN : (float)sum;
}

static bool reference_unit(const attention_job *j, int64_t unit, char *scratch) {
  const attention_plan *p = j->plan;
  const int64_t b = unit / p->n_heads, head = unit % p->n_heads, kv_head = head / (p->n_heads / p->n_kv_heads);
  const attention_batch batch = attention_batch_of(j, b);
  reference_buffers f;
  reference_lay_out(p, scratch, &f);
  for (int64_t i = 0; i < batch.n_rows; ++i) {
    const score_row r = {.job = j, .batch = &batch, .b = b, .head = head, .query = i - batch.first_query};
    row_state s = score_row_state(&batch, i);
    for (int64_t k = s.low; k < s.high; ++k) f.logit[k - s.low] = reference_dot(&r, batch.row_begin + i, kv_head, k);
    if (s.low < s.high) to_probabilities(&r, &s, &f);
    for (int64_t x = 0; x < p->dv; ++x) {
      double sum = 0;
      for (int64_t k = s.low; k < s.high; ++k) {
        const key_place value = attention_key_run(j, &batch, VALUES, b, kv_head, k);
        sum += (double)f.logit[k - s.low] * component(value.at + x * value.col, p->value.dtype);
      }
      f.out[x] = (float)sum;
    }
    score_finish(&r, batch.row_begin + i, &s, f.out);
  }
  return true;
}

status attention_reference_run(const void *plan, const void *operands, char *scratch) {
  (void)scratch;
  const attention_plan *p = plan;
  attention_units(operands, reference_unit, p->n_batches * p->n_heads);
  return ST_OK;
}

void attention_reference_init(void *plan, executor *e) {
  attention_plan *p = plan;
  const uint64_t products =
      (uint64_t)(p->n_batches * p->n_heads * p->max_rows) * (uint64_t)(p->max_keys + p->n_prefix_keys);
  p->blocks = (attention_blocks){.tile = TILE_F32};
  executor_products(e, (double)products * (double)(p->d + p->dv));
  attention_plan_blocks(e, p, p->n_batches * p->n_heads, reference_scratch, products * (uint64_t)(p->d + p->dv) * 64);
}
