/* SPDX-License-Identifier: Apache-2.0 */
/* Attention for few queries, as in token-by-token generation: keys and values are read once, at memory bandwidth, for
 * all queries of the heads that share them.
 *
 * A unit of work is a chunk of the keys of one sequence and one key head. If there are several chunks, each stores its
 * maxima, sums and outputs in the workspace, and they are combined in a fixed order. The division of keys depends on
 * the shapes only. */
#include <math.h>
#include <string.h>

#include "kernel/attention/attention.h"

enum {
  STEP_KEYS = 32,  /* keys converted at a time: with 128 components they take 16 KB, a third of L1 */
  PART_KEYS = 512, /* minimum chunk of keys */
  PARTS = 32,      /* number of units that is enough for all processors */
};

static int64_t rows_of(const attention_plan *p) { return p->max_rows * (p->n_heads / p->n_kv_heads); }

static bool is_dense(const head_view *v) { return v->col == (int64_t)dtype_bytes(v->dtype); }

bool attention_decode_fits(void *plan) {
  const attention_plan *p = plan;
  return rows_of(p) <= DECODE_ROWS && !p->d_rope && is_dense(&p->key) && is_dense(&p->value) &&
         (!p->n_prefix_keys || (is_dense(&p->prefix_key) && is_dense(&p->prefix_value)));
}

/* Floats that a chunk stores for all rows: maximum and sum, then dv output sums, of each. */
static int64_t part_floats(const attention_plan *p) { return rows_of(p) * (2 + p->dv); }

uint64_t attention_decode_most_parts(const attention_plan *p) {
  return (uint64_t)PARTS * DECODE_ROWS * (uint64_t)(2 + p->dv) * sizeof(float);
}

typedef struct {
  row_state *state;
  /* query, out: rows of d and dv floats; score: rows of STEP_KEYS floats */
  float *query, *out, *score, *factors, *tile;
} decode_buffers;

static uint64_t decode_lay_out(const attention_plan *p, char *at, decode_buffers *f) {
  char *const start = at;
  const int64_t rows = rows_of(p);
  f->state = (row_state *)(void *)attention_take(&at, (uint64_t)rows * sizeof *f->state);
  f->query = attention_take_floats(&at, rows * p->d);
  f->out = attention_take_floats(&at, rows * p->dv);
  f->score = attention_take_floats(&at, rows * STEP_KEYS);
  f->factors = attention_take_floats(&at, STEP_KEYS);
  f->tile = attention_take_floats(&at, STEP_KEYS * attention_max(p->d, p->dv));
  return (uint64_t)(at - start);
}

static uint64_t decode_scratch(const attention_plan *p) {
  decode_buffers f;
  return decode_lay_out(p, NULL, &f);
}

typedef struct {
  const attention_job *job;
  attention_batch batch;
  int64_t b, kv_head;
  int64_t rows; /* number of rows of all heads; row i belongs to head i / n_rows and is row i % n_rows of it */
  decode_buffers buffers;
} decode;

static score_row decode_row(const decode *w, int64_t i) {
  const attention_plan *p = w->job->plan;
  return (score_row){.job = w->job,
                     .batch = &w->batch,
                     .b = w->b,
                     .head = w->kv_head * (p->n_heads / p->n_kv_heads) + i / w->batch.n_rows,
                     .query = i % w->batch.n_rows - w->batch.first_query};
}

static void load_queries(const decode *w) {
  const attention_plan *p = w->job->plan;
  for (int64_t i = 0; i < w->rows; ++i) {
    const score_row r = decode_row(w, i);
    const char *from = attention_head_at(w->job, &p->query, w->b, r.head, w->batch.row_begin + i % w->batch.n_rows);
    loops->load[p->query.dtype][COMPUTE_F32](w->buffers.query + i * p->d, from, p->query.col, p->d);
    w->buffers.state[i] = score_row_state(&w->batch, i % w->batch.n_rows);
  }
  memset(w->buffers.out, 0, (size_t)(w->rows * p->dv) * sizeof(float));
}

/* Returns rows of keys or values as floats, in place or converted in the tile; *ld is floats between rows. */
static const float *as_floats(const decode *w, int dtype, const key_place *from, int64_t n, int64_t d, int64_t *ld) {
  if (dtype == ACL_FLOAT) {
    *ld = from->row / (int64_t)sizeof(float);
    return (const float *)(const void *)from->at;
  }
  *ld = d;
  attention_rows->widen[dtype == ACL_BF16 ? OPERAND_BF16 : OPERAND_F16](w->buffers.tile, d, from->at, from->row, n, d);
  return w->buffers.tile;
}

/* One step with keys k to k + n and their values; each are one run in memory. */
static void decode_step(const decode *w, const key_place *key, const key_place *value, int64_t k, int64_t n) {
  const attention_plan *p = w->job->plan;
  const decode_buffers *f = &w->buffers;
  int64_t ld;
  const float *rows = as_floats(w, p->key.dtype, key, n, p->d, &ld);
  attention_rows->dots(f->score, STEP_KEYS, f->query, p->d, w->rows, p->d, rows, ld, n);
  for (int64_t i = 0; i < w->rows; ++i) {
    row_state *s = &f->state[i];
    float *x = f->score + i * STEP_KEYS;
    const int64_t low = attention_min(attention_max(s->low - k, 0), n),
                  high = attention_max(attention_min(s->high - k, n), low);
    const score_row r = decode_row(w, i);
    if (high > low)
      score_softmax(&r, s, x + low, x + low, OPERAND_F32, f->out + i * p->dv, f->factors, k + low, high - low);
    memset(x, 0, (size_t)low * sizeof *x);
    memset(x + high, 0, (size_t)(n - high) * sizeof *x);
  }
  rows = as_floats(w, p->value.dtype, value, n, p->dv, &ld);
  attention_rows->sums(f->out, p->dv, f->score, STEP_KEYS, w->rows, p->dv, rows, ld, n);
}

static void some_keys(const decode *w, int64_t begin, int64_t end) {
  for (int64_t k = begin, n; k < end; k += n) {
    const key_place key = attention_key_run(w->job, &w->batch, KEYS, w->b, w->kv_head, k);
    const key_place value = attention_key_run(w->job, &w->batch, VALUES, w->b, w->kv_head, k);
    n = attention_min(attention_min(key.run, value.run), attention_min(STEP_KEYS, end - k));
    decode_step(w, &key, &value, k, n);
  }
}

/* The range of keys that any row sees. */
static void all_visible(const decode *w, int64_t *low, int64_t *high) {
  *low = INT64_MAX;
  *high = 0;
  for (int64_t i = 0; i < w->rows; ++i) {
    const row_state *s = &w->buffers.state[i];
    if (s->low >= s->high) continue;
    *low = attention_min(*low, s->low);
    *high = attention_max(*high, s->high);
  }
  if (*low > *high) *low = *high;
}

/* ---- units ------------------------------------------------------------------------------------------------------- */

static float *part_at(const attention_job *j, int64_t unit) {
  const attention_plan *p = j->plan;
  return (float *)(void *)(j->scratch + (uint64_t)p->blocks.max_threads * p->blocks.scratch_bytes) +
         unit * part_floats(p);
}

static decode decode_of(const attention_job *j, int64_t group, char *scratch) {
  const attention_plan *p = j->plan;
  decode w = {.job = j, .b = group / p->n_kv_heads, .kv_head = group % p->n_kv_heads};
  w.batch = attention_batch_of(j, w.b);
  w.rows = w.batch.n_rows * (p->n_heads / p->n_kv_heads);
  decode_lay_out(p, scratch, &w.buffers);
  return w;
}

static void decode_finish(const decode *w) {
  for (int64_t i = 0; i < w->rows; ++i) {
    const score_row r = decode_row(w, i);
    score_finish(&r, w->batch.row_begin + i % w->batch.n_rows, &w->buffers.state[i],
                 w->buffers.out + i * w->job->plan->dv);
  }
}

static bool decode_unit(const attention_job *j, int64_t unit, char *scratch) {
  const attention_plan *p = j->plan;
  const int64_t parts = p->blocks.splits, part = unit % parts;
  const decode w = decode_of(j, unit / parts, scratch);
  int64_t low, high;
  load_queries(&w);
  all_visible(&w, &low, &high);
  const int64_t share = (high - low + parts - 1) / parts, begin = attention_min(low + part * share, high);
  some_keys(&w, begin, attention_min(begin + share, high));
  if (parts == 1) {
    decode_finish(&w);
    return true;
  }
  float *to = part_at(j, unit);
  for (int64_t i = 0; i < w.rows; ++i, to += 2 + p->dv) {
    to[0] = w.buffers.state[i].top;
    to[1] = w.buffers.state[i].sum;
    memcpy(to + 2, w.buffers.out + i * p->dv, (size_t)p->dv * sizeof *to);
  }
  return true;
}

/* Combines the chunks of one group (sequence and key head), after scaling each to the maximum of all. */
static void decode_join(const attention_job *j, int64_t group) {
  const attention_plan *p = j->plan;
  const int64_t parts = p->blocks.splits;
  const decode w = decode_of(j, group, j->scratch);
  memset(w.buffers.out, 0, (size_t)(w.rows * p->dv) * sizeof(float));
  for (int64_t i = 0; i < w.rows; ++i) {
    row_state *s = &w.buffers.state[i];
    *s = (row_state){.top = -INFINITY};
    for (int64_t part = 0; part < parts; ++part)
      s->top = fmaxf(s->top, part_at(j, group * parts + part)[i * (2 + p->dv)]);
    for (int64_t part = 0; part < parts; ++part) {
      const float *from = part_at(j, group * parts + part) + i * (2 + p->dv);
      const float factor = from[0] == s->top ? 1 : exp2f((from[0] - s->top) * LOG2_E);
      s->sum += from[1] * factor;
      attention_rows->axpby(w.buffers.out + i * p->dv, 1, from + 2, factor, p->dv);
    }
  }
  decode_finish(&w);
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

status attention_decode_run(const void *plan, const void *operands, char *scratch) {
  (void)scratch;
  const attention_plan *p = plan;
  const attention_job *j = operands;
  const int64_t groups = p->n_batches * p->n_kv_heads;
  attention_units(j, decode_unit, groups * p->blocks.splits);
  if (p->blocks.splits > 1)
    for (int64_t g = 0; g < groups; ++g) decode_join(j, g);
  return ST_OK;
}

void attention_decode_init(void *plan, executor *e) {
  attention_plan *p = plan;
  const int64_t groups = attention_max(p->n_batches * p->n_kv_heads, 1), keys = p->max_keys + p->n_prefix_keys;
  p->blocks = (attention_blocks){.tile = TILE_F32, .rows = DECODE_ROWS, .keys = STEP_KEYS, .chunk = 1};
  p->blocks.splits = (int32_t)attention_max(attention_min(keys / PART_KEYS, PARTS / groups), 1);
  const uint64_t products = (uint64_t)(p->n_batches * p->n_heads * p->max_rows) * (uint64_t)keys;
  executor_products(e, (double)products * (double)(p->d + p->dv));
  attention_plan_blocks(e, p, groups * p->blocks.splits, decode_scratch, products * (uint64_t)(p->d + p->dv + 20));
  if (p->blocks.splits > 1)
    workspace_partial(e, (uint64_t)(groups * p->blocks.splits * part_floats(p)) * sizeof(float));
}
