/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of attention. The probabilities are recomputed block by block from the maxima and sums of the forward pass:
 *
 *   P = exp(S - top) / sum          dV = (D o P)^T dO        D: the dropout mask's factors
 *   dP = D o (dO V^T)               dS = P o (dP - delta)    delta: of each row, P . dP = dO . O
 *   dQ = scale dS K                 dK = scale dS^T Q
 *
 * O was rounded to 16 bits if the operands are 16-bit, and that error enters all of a row's dS by way of delta.
 * Therefore, where one block contains all keys, delta is computed as P . dP instead, which has no such error, divided
 * by the sum of P: rounding of large S makes that sum differ from 1. A sink is a further key of each row, of the value
 * 0: its P enters the sum only, and its gradient is -P delta.
 *
 * A unit of work is all query heads that share one key head. It loops over blocks of keys, whose dK and dV are
 * accumulated in scratch memory, and adds to the dQ of all its queries. So threads share nothing, and the order of
 * summation is fixed. */
#include <math.h>
#include <string.h>

#include "kernel/attention/attention.h"

typedef struct {
  char *query_a, *query_b, *dout_a, *dout_b; /* a block of rows, packed as left and as right factor */
  char *key_t, *value_t, *key_b;             /* a block of keys */
  char *transposed, *packed;                 /* P or dS, packed */
  char *narrow;                              /* P or dS in the operand dtype; unused for float */
  char *joined;                              /* queries or keys with their rotary parts, if these are separate */
  float *probability, *slope;                /* P and dS, with rows of score_ld floats */
  float *factors, *line;
  float *dkey, *dvalue;  /* gradients of the block of keys */
  float *dquery, *delta; /* values for all rows of the unit's heads */
} backward_buffers;

static int64_t score_ld(const attention_plan *p) { return p->blocks.keys + 16; }
static int64_t group_heads(const attention_plan *p) { return p->n_heads / p->n_kv_heads; }

static uint64_t backward_lay_out(const attention_plan *p, char *at, backward_buffers *f) {
  const attention_blocks *k = &p->blocks;
  const int64_t rows = k->rows, keys = k->keys, all_rows = p->max_rows * group_heads(p);
  char *const start = at;
  f->query_a = attention_take(&at, tile_a_bytes(k->tile, rows, p->d));
  f->query_b = attention_take(&at, tile_b_bytes(k->tile, rows, p->d));
  f->dout_a = attention_take(&at, tile_a_bytes(k->tile, rows, p->dv));
  f->dout_b = attention_take(&at, tile_b_bytes(k->tile, rows, p->dv));
  f->key_t = attention_take(&at, tile_b_bytes(k->tile, p->d, keys));
  f->value_t = attention_take(&at, tile_b_bytes(k->tile, p->dv, keys));
  f->key_b = attention_take(&at, tile_b_bytes(k->tile, keys, p->d));
  f->transposed = attention_take(&at, tile_a_bytes(k->tile, keys, rows));
  f->packed = attention_take(&at, tile_a_bytes(k->tile, rows, keys));
  f->narrow = attention_take(&at, attention_of_floats(k->tile) ? 0 : (uint64_t)(rows * keys) * 2);
  f->joined = attention_take(&at, p->d_rope ? (uint64_t)attention_max(rows, keys) * (uint64_t)p->d * 4 : 0);
  f->probability = attention_take_floats(&at, rows * score_ld(p));
  f->slope = attention_take_floats(&at, rows * score_ld(p));
  f->factors = attention_take_floats(&at, keys);
  f->line = attention_take_floats(&at, 2 * p->dv);
  f->dkey = attention_take_floats(&at, keys * p->d);
  f->dvalue = attention_take_floats(&at, keys * p->dv);
  f->dquery = attention_take_floats(&at, all_rows * p->d);
  f->delta = attention_take_floats(&at, all_rows);
  return (uint64_t)(at - start);
}

static uint64_t backward_scratch(const attention_plan *p) {
  backward_buffers f;
  const attention_plan plain = attention_unsplit(p);
  return attention_max(backward_lay_out(p, NULL, &f), backward_lay_out(&plain, NULL, &f));
}

typedef struct {
  const attention_job *job;
  attention_batch batch;
  int64_t b, kv_head;
  int64_t k, n;                 /* the block of keys */
  float_exponents keys, values; /* exponent ranges of the block */
  bool *splits;                 /* set to false if a factor of TILE_F32_PARTS cannot be split */
  backward_buffers buffers;
} backward;

/* A block of rows of one head. */
typedef struct {
  int64_t head, row, n;
} row_range;

static int64_t backward_row_index(const backward *w, const row_range *r) {
  return (r->head - w->kv_head * group_heads(w->job->plan)) * w->batch.n_rows + r->row;
}

static const char *rows_at(const backward *w, const head_view *v, const row_range *r) {
  return attention_head_at(w->job, v, w->b, r->head, w->batch.row_begin + r->row);
}

static float softmax_result(const backward *w, const head_view *v, const row_range *one) {
  return *(const float *)(const void *)attention_statistic_at(w->job, v, &w->batch, w->b, one->head, one->row);
}

/* ---- sinks ------------------------------------------------------------------------------------------------------- */

/* The part of a row's sum that its sink has; 0 without sinks. */
static float sink_part(const backward *w, const row_range *one, float top) {
  return w->job->plan->sink >= 0 ? exp2f((attention_sink(w->job, one->head) - top) * LOG2_E) : 0;
}

static double *sink_sums(const attention_job *j, int64_t b, int64_t head) {
  return (double *)(void *)(j->scratch + j->plan->sink_sums) + b * j->plan->n_heads + head;
}

/* Adds a row's share of the sink's gradient. part: sink_part. */
static void add_sink_gradient(const backward *w, const row_range *one, float part, float sum, float delta) {
  if (w->job->plan->sink >= 0 && sum != 0) *sink_sums(w->job, w->b, one->head) -= (double)part / sum * delta;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static bool is_one_block(const backward *w) { return w->batch.n_keys <= w->job->plan->blocks.keys; }

static void find_delta(const backward *w, const row_range *r) {
  const attention_plan *p = w->job->plan;
  float *const x = w->buffers.line, *const y = x + p->dv;
  for (int64_t i = 0; i < r->n; ++i) {
    const row_range one = {r->head, r->row + i, 1};
    loops->load[p->out.dtype][COMPUTE_F32](x, rows_at(w, &p->out, &one), p->out.col, p->dv);
    loops->load[p->dout.dtype][COMPUTE_F32](y, rows_at(w, &p->dout, &one), p->dout.col, p->dv);
    const float delta = attention_rows->dot(x, y, p->dv);
    w->buffers.delta[backward_row_index(w, &one)] = delta;
    if (p->sink < 0) continue;
    add_sink_gradient(w, &one, sink_part(w, &one, softmax_result(w, &p->row_max, &one)),
                      softmax_result(w, &p->row_sum, &one), delta);
  }
}

/* x: dot products of a row with keys k to k + n; dp: the same part of dO V^T. They are replaced by D o P and dS. */
static void score_gradient(const backward *w, const row_range *one, float *x, float *dp, int64_t k, int64_t n) {
  const attention_plan *p = w->job->plan;
  const float top = softmax_result(w, &p->row_max, one), sum = softmax_result(w, &p->row_sum, one);
  const score_row r = {.job = w->job, .batch = &w->batch, .b = w->b, .head = one->head, .query = one->row};
  if (sum == 0) { /* the row sees no key */
    memset(x, 0, (size_t)n * sizeof *x);
    memset(dp, 0, (size_t)n * sizeof *dp);
    return;
  }
  const float factor = score_has_terms(p) ? score_logits(&r, x, k, n) : p->scale;
  const float seen = attention_rows->exp2[OPERAND_F32](x, x, factor * LOG2_E, top * LOG2_E, n);
  attention_rows->scale(x, 1 / sum, n);
  if (p->drop >= 0) {
    score_dropout(&r, w->buffers.factors, k, n);
    attention_rows->multiply(dp, w->buffers.factors, n);
  }
  float delta = 0;
  if (!is_one_block(w))
    delta = w->buffers.delta[backward_row_index(w, one)];
  else if (seen > 0) {
    const float part = sink_part(w, one, top);
    delta = attention_rows->dot(x, dp, n) * (sum / (seen + part));
    add_sink_gradient(w, one, part, sum, delta);
  }
  attention_rows->gradient(dp, x, dp, delta, n);
  if (p->drop >= 0) attention_rows->multiply(x, w->buffers.factors, n);
}

static void score_gradients(const backward *w, const row_range *r) {
  const int64_t ld = score_ld(w->job->plan), n = w->n;
  for (int64_t i = 0; i < r->n; ++i) {
    const row_range one = {r->head, r->row + i, 1};
    float *const x = w->buffers.probability + i * ld, *const dp = w->buffers.slope + i * ld;
    int64_t low, high;
    attention_visible_keys(&w->batch, one.row, &low, &high);
    low = attention_min(attention_max(low - w->k, 0), n);
    high = attention_max(attention_min(high - w->k, n), low);
    if (high > low) score_gradient(w, &one, x + low, dp + low, w->k + low, high - low);
    for (int side = 0; side < 2; ++side) {
      float *const row = side ? dp : x;
      memset(row, 0, (size_t)low * sizeof *row);
      memset(row + high, 0, (size_t)(n - high) * sizeof *row);
    }
  }
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* P or dS in a dtype that can be packed; *ld is in bytes. */
static const void *as_operand(const backward *w, const float *x, int64_t rows, int64_t *ld) {
  const attention_plan *p = w->job->plan;
  *ld = score_ld(p) * (int64_t)sizeof *x;
  if (attention_of_floats(p->blocks.tile)) return x;
  *ld = w->n * 2;
  for (int64_t i = 0; i < rows; ++i)
    attention_rows->narrow[OPERAND_BF16](w->buffers.narrow + i * *ld, x + i * score_ld(p), w->n);
  return w->buffers.narrow;
}

static float_exponents backward_pack_rows(const backward *w, const head_view *v, const char *from, int64_t n, char *a,
                                          char *b, int64_t d) {
  const tile_type tile = w->job->plan->blocks.tile;
  tile_pack_a(tile, a, v->dtype, from, v->row, v->col, n, d);
  return tile_pack_b(tile, b, v->dtype, from, v->row, v->col, n, d);
}

static float_exponents backward_pack_queries(const backward *w, const row_range *r) {
  const attention_plan *p = w->job->plan;
  const backward_buffers *f = &w->buffers;
  if (!p->d_rope) return backward_pack_rows(w, &p->query, rows_at(w, &p->query, r), r->n, f->query_a, f->query_b, p->d);
  const int64_t size = dtype_bytes(p->query.dtype);
  const head_view joined = {.dtype = p->query.dtype, .row = p->d * size, .col = size};
  for (int64_t i = 0; i < r->n; ++i)
    attention_join_query(w->job, w->b, r->head, w->batch.row_begin + r->row + i, f->joined + i * joined.row);
  return backward_pack_rows(w, &joined, f->joined, r->n, f->query_a, f->query_b, p->d);
}

static void expect_split(const backward *w, float_exponents x, float_exponents y) {
  if (!float_parts_suffice(x, y)) *w->splits = false;
}

/* Exponents of P or dS, which are computed here: values far below a block's maximum are irrelevant for the accuracy. */
static float_exponents of_made(float_exponents x) {
  enum { SPAN = 60 };
  if (x.most > SPAN) x.least = attention_max(x.least, x.most - SPAN);
  return x;
}

/* Adds the contribution of one block of rows and the block of keys to the three gradients. */
static void block_gradient(const backward *w, const row_range *r) {
  const attention_plan *p = w->job->plan;
  const backward_buffers *f = &w->buffers;
  const tile_type tile = p->blocks.tile;
  const int dtype = attention_of_floats(tile) ? ACL_FLOAT : ACL_BF16, size = attention_of_floats(tile) ? 4 : 2;
  const int64_t m = r->n, n = w->n, ld = score_ld(p);
  int64_t pitch;
  const float_exponents query = backward_pack_queries(w, r);
  const float_exponents dout = backward_pack_rows(w, &p->dout, rows_at(w, &p->dout, r), m, f->dout_a, f->dout_b, p->dv);
  expect_split(w, query, w->keys);
  expect_split(w, dout, w->values);
  tile_gemm(tile, m, n, p->d, f->query_a, f->key_t, f->probability, ld, false);
  tile_gemm(tile, m, n, p->dv, f->dout_a, f->value_t, f->slope, ld, false);
  score_gradients(w, r);
  const void *x = as_operand(w, f->probability, m, &pitch);
  expect_split(w, of_made(tile_pack_a(tile, f->transposed, dtype, x, size, pitch, n, m)), dout);
  tile_gemm(tile, n, p->dv, m, f->transposed, f->dout_b, f->dvalue, p->dv, true);
  x = as_operand(w, f->slope, m, &pitch);
  const float_exponents slope = of_made(tile_pack_a(tile, f->transposed, dtype, x, size, pitch, n, m));
  expect_split(w, slope, query);
  expect_split(w, slope, w->keys);
  tile_gemm(tile, n, p->d, m, f->transposed, f->query_b, f->dkey, p->d, true);
  tile_pack_a(tile, f->packed, dtype, x, pitch, size, m, n);
  tile_gemm(tile, m, p->d, n, f->packed, f->key_b, f->dquery + backward_row_index(w, r) * p->d, p->d, true);
}

/* Whether any row of the range sees a key of the block. Both ends of the visible range grow with the row. */
static bool range_sees(const backward *w, const row_range *r) {
  int64_t low, high, last_low, last_high;
  attention_visible_keys(&w->batch, r->row, &low, &high);
  attention_visible_keys(&w->batch, r->row + r->n - 1, &last_low, &last_high);
  return low < w->k + w->n && attention_max(high, last_high) > w->k;
}

typedef void range_step(const backward *w, const row_range *r);

static void all_rows(const backward *w, range_step *step) {
  const attention_plan *p = w->job->plan;
  for (int64_t h = 0; h < group_heads(p); ++h)
    for (int64_t row = 0; row < w->batch.n_rows; row += p->blocks.rows) {
      const row_range r = {w->kv_head * group_heads(p) + h, row, attention_min(p->blocks.rows, w->batch.n_rows - row)};
      step(w, &r);
    }
}

static void add_if_seen(const backward *w, const row_range *r) {
  if (*w->splits && range_sees(w, r)) block_gradient(w, r);
}

static void write_queries(const backward *w, const row_range *r) {
  const attention_plan *p = w->job->plan;
  float *const from = w->buffers.dquery + backward_row_index(w, r) * p->d;
  attention_rows->scale(from, p->scale, r->n * p->d);
  for (int64_t i = 0; i < r->n; ++i)
    attention_write_parts(w->job, &p->dquery, &p->dquery_rope, w->b, r->head, w->batch.row_begin + r->row + i,
                          from + i * p->d);
}

static void write_keys(const backward *w) {
  const attention_plan *p = w->job->plan;
  attention_rows->scale(w->buffers.dkey, p->scale, w->n * p->d);
  for (int64_t i = 0; i < w->n; ++i) {
    const int64_t row = w->batch.key_begin + w->k + i;
    attention_write_parts(w->job, &p->dkey, &p->dkey_rope, w->b, w->kv_head, row, w->buffers.dkey + i * p->d);
    attention_write_row(&p->dvalue, attention_head_at(w->job, &p->dvalue, w->b, w->kv_head, row),
                        w->buffers.dvalue + i * p->dv, p->dv);
  }
}

static void backward_pack_keys(backward *w) {
  const attention_plan *p = w->job->plan;
  const tile_type tile = p->blocks.tile;
  const key_place key = attention_join_keys(w->job, &w->batch, w->b, w->kv_head, w->k, w->n, w->buffers.joined);
  const key_place value = attention_key_run(w->job, &w->batch, VALUES, w->b, w->kv_head, w->k);
  tile_pack_b(tile, w->buffers.key_t, p->key.dtype, key.at, key.col, key.row, p->d, w->n);
  w->keys = tile_pack_b(tile, w->buffers.key_b, p->key.dtype, key.at, key.row, key.col, w->n, p->d);
  w->values = tile_pack_b(tile, w->buffers.value_t, p->value.dtype, value.at, value.col, value.row, p->dv, w->n);
}

static bool backward_unit(const attention_job *j, int64_t unit, char *scratch) {
  const attention_plan *p = j->plan;
  bool splits = true;
  backward w = {.job = j, .b = unit / p->n_kv_heads, .kv_head = unit % p->n_kv_heads, .splits = &splits};
  w.batch = attention_batch_of(j, w.b);
  backward_lay_out(p, scratch, &w.buffers);
  memset(w.buffers.dquery, 0, (size_t)(group_heads(p) * w.batch.n_rows * p->d) * sizeof(float));
  if (p->sink >= 0) memset(sink_sums(j, w.b, w.kv_head * group_heads(p)), 0, (size_t)group_heads(p) * sizeof(double));
  if (!is_one_block(&w)) all_rows(&w, find_delta);
  for (w.k = 0; splits && w.k < w.batch.n_keys; w.k += w.n) {
    w.n = attention_min(p->blocks.keys, w.batch.n_keys - w.k);
    memset(w.buffers.dkey, 0, (size_t)(w.n * p->d) * sizeof(float));
    memset(w.buffers.dvalue, 0, (size_t)(w.n * p->dv) * sizeof(float));
    backward_pack_keys(&w);
    all_rows(&w, add_if_seen);
    write_keys(&w);
  }
  if (splits) all_rows(&w, write_queries);
  return splits;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static status backward_run(const executor *e, void *const *view, void *scratch) {
  attention_job j;
  TRY(attention_job_init(&j, e, view, scratch));
  const attention_plan *p = j.plan;
  attention_units(&j, backward_unit, p->n_batches * p->n_kv_heads);
  for (int64_t head = 0; p->sink >= 0 && head < p->n_heads; ++head) {
    double sum = 0;
    for (int64_t b = 0; b < p->n_batches; ++b) sum += *sink_sums(&j, b, head);
    *(float *)(void *)((char *)view[p->dsink] + head * p->dsink_step) = (float)sum;
  }
  return ST_OK;
}

status attention_plan_backward(executor *e, attention_plan *p) {
  /* float16's range is too small for dS. Block sizes are multiples of the micro-kernels' sizes: 14 rows for float, 32
   * for bfloat16. */
  const tile_type tile = p->query.dtype == ACL_FLOAT16 ? TILE_F32 : attention_tile(p->query.dtype);
  const bool groups = tile != TILE_F32;
  const int64_t block_rows = groups ? 128 : 112, block_keys = groups ? 256 : 252;
  p->blocks = (attention_blocks){
      .tile = tile,
      .rows = (int32_t)attention_max(attention_min(block_rows, p->max_rows), 1),
      .keys = (int32_t)attention_max(attention_min(block_keys, p->max_keys), 1),
      .chunk = 1,
  };
  e->run = backward_run;
  const uint64_t products = (uint64_t)(p->n_batches * p->n_heads * p->max_rows) * (uint64_t)p->max_keys;
  executor_products(e, (double)products * (double)(3 * p->d + 2 * p->dv));
  attention_plan_blocks(e, p, p->n_batches * p->n_kv_heads, backward_scratch,
                        products * (uint64_t)(6 * p->d + 4 * p->dv + 30));
  if (p->sink >= 0) p->sink_sums = workspace_intermediate(e, (uint64_t)(p->n_batches * p->n_heads) * sizeof(double));
  return ST_OK;
}
