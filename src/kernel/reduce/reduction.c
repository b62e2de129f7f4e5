/* SPDX-License-Identifier: Apache-2.0 */
/* The reduction engine: see reduction.h. The implementations (kernel/engine/implementation.h), in the order in which
 * they are tried; all but the reference give the same bits:
 *
 *   columns     where adjacent outputs are closer in memory than the elements of one output (the sum over a matrix's
 *               first dimension): a strip of outputs at a time, row by row
 *   transposed  outputs of few elements: many at a time, transposed in L1 so that they form columns
 *   rows        one block after the other, many at a time where they are stored as the loops of fold.h read them; else
 *               each block is loaded into a tile
 *   reference   element after element, merged in double or int64 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "kernel/engine/implementation.h"
#include "kernel/engine/level_choice.h"
#include "kernel/reduce/reduction_plan.h"

LEVEL_CHOICE(reduction_loops, reduction, reduction)

enum {
  CHUNK = 64 * FOLD_BLOCK,
  FEW_OUTPUTS = 64,     /* maximum number of outputs for which threads share out chunks rather than outputs */
  GRAIN = 64,           /* minimum number of outputs for a thread */
  ROWS_GROUP = 64,      /* outputs that are finished and stored together */
  TILE_ROWS = 8,        /* rows of a strip that are converted together if they are contiguous with each other */
  NEAR_ELEMENTS = 4096, /* elements that are certainly still in L1 for a second pass */
  LONG_ROW = 256,       /* complex numbers; see parts_are_columns */
  FAR_BYTES = 16 << 20, /* bytes of input from which on it is assumed to be in no cache */
};

const kind_info reduction_kinds[N_REDUCTIONS] = {
    [REDUCTION_SUM] = {FOLD_SUM, NO_FOLD, MERGE_ADD, FINISH_NONE, 0},
    [REDUCTION_MEAN] = {FOLD_SUM, NO_FOLD, MERGE_ADD, FINISH_MEAN, 0},
    [REDUCTION_SUM_NOT_NAN] = {FOLD_SUM_NOT_NAN, NO_FOLD, MERGE_ADD, FINISH_NONE, 0},
    /* an empty input gives log(1) = 0, as in CANN */
    [REDUCTION_LOG_SUM] = {FOLD_SUM, NO_FOLD, MERGE_ADD, FINISH_LOG, 1},
    [REDUCTION_PRODUCT] = {FOLD_PRODUCT, NO_FOLD, MERGE_MULTIPLY, FINISH_NONE, 1},
    [REDUCTION_MAX] = {FOLD_MAX, NO_FOLD, MERGE_MAX, FINISH_NONE, NAN},
    [REDUCTION_MIN] = {FOLD_MIN, NO_FOLD, MERGE_MIN, FINISH_NONE, NAN},
    [REDUCTION_MIN_MAX] = {FOLD_MIN_MAX, NO_FOLD, MERGE_MIN_MAX, FINISH_NONE, NAN},
    [REDUCTION_ARG_MAX] = {FOLD_ARG_MAX, NO_FOLD, MERGE_ARG_MAX, FINISH_NONE, NAN},
    [REDUCTION_ARG_MIN] = {FOLD_ARG_MIN, NO_FOLD, MERGE_ARG_MIN, FINISH_NONE, NAN},
    [REDUCTION_ANY] = {FOLD_ANY, NO_FOLD, MERGE_MAX, FINISH_NONE, 0},
    [REDUCTION_ALL] = {FOLD_ALL, NO_FOLD, MERGE_MIN, FINISH_NONE, 1},
    [REDUCTION_NORM_0] = {FOLD_COUNT, NO_FOLD, MERGE_ADD, FINISH_NONE, 0},
    [REDUCTION_NORM_1] = {FOLD_SUM_ABS, NO_FOLD, MERGE_ADD, FINISH_NONE, 0},
    [REDUCTION_NORM_2] = {FOLD_SUM_SQUARE, NO_FOLD, MERGE_ADD, FINISH_ROOT, 0},
    [REDUCTION_NORM_P] = {FOLD_SUM_POWER, NO_FOLD, MERGE_ADD, FINISH_POWER, 0},
    [REDUCTION_SUM_SQUARE] = {FOLD_SUM_SQUARE, NO_FOLD, MERGE_ADD, FINISH_NONE, 0},
    [REDUCTION_SUM_POWER] = {FOLD_SUM_POWER, NO_FOLD, MERGE_ADD, FINISH_NONE, 0},
    [REDUCTION_MAX_ABS] = {FOLD_MAX_ABS, NO_FOLD, MERGE_MAX, FINISH_NONE, NAN},
    [REDUCTION_MIN_ABS] = {FOLD_MIN_ABS, NO_FOLD, MERGE_MIN, FINISH_NONE, NAN},
    [REDUCTION_VARIANCE] = {FOLD_SUM, FOLD_DEVIATIONS, MERGE_MOMENTS, FINISH_VARIANCE, 0},
    [REDUCTION_STANDARD] = {FOLD_SUM, FOLD_DEVIATIONS, MERGE_MOMENTS, FINISH_STANDARD, 0},
    [REDUCTION_LOG_SUM_EXP] = {FOLD_MAX, FOLD_SUM_EXP, MERGE_EXPONENTIALS, FINISH_LOG_SUM_EXP, -INFINITY},
};

bool reduction_takes_nothing(reduction_kind kind) {
  return reduction_kinds[kind].of_nothing == reduction_kinds[kind].of_nothing;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Sets the shift that the second pass over blocks of n elements subtracts, from the results of the first pass. */
static void set_shift(const reduce_plan *p, const fold_value *first, int64_t n, int64_t width, double *shift) {
  const bool moments = reduction_kinds[p->kind].merge == MERGE_MOMENTS;
  for (int64_t j = 0; j < width; ++j)
    shift[j] = moments ? first[j].f64 / (double)n : isfinite(first[j].f64) ? first[j].f64 : 0;
}

/* Combines the results of both passes over blocks. */
static void reduction_settle(const reduce_plan *p, const double *shift, fold_value *value, fold_value *second,
                             const fold_value *first, int64_t n, int64_t width) {
  if (reduction_kinds[p->kind].merge == MERGE_MOMENTS) {
    reduction->settle_moments(shift, value, second, n, width);
    return;
  }
  for (int64_t j = 0; j < width; ++j) {
    second[j].f64 = isfinite(first[j].f64) ? value[j].f64 : isinf(first[j].f64) ? 0 : NAN;
    value[j] = first[j];
  }
}

/* ---- rows at a time ---------------------------------------------------------------------------------------------- */

/* How many rows are reduced together. */
static int64_t rows_at_once(const reduce_plan *p, int64_t n) {
  if (!p->second) return FOLD_WIDTH;
  return n >= NEAR_ELEMENTS ? 1 : i64_min(NEAR_ELEMENTS / n, FOLD_WIDTH);
}

static void fold_rows_of(const reduce_plan *p, const fold_rows *rows, reduce_buffer *b, fold_value *value,
                         fold_value *second) {
  if (!p->second) {
    p->first->rows(rows, b->shift, value, second);
    return;
  }
  fold_value first[FOLD_WIDTH];
  p->first->rows(rows, b->shift, first, second);
  set_shift(p, first, rows->n, rows->count, b->shift);
  p->second->rows(rows, b->shift, value, second);
  reduction_settle(p, b->shift, value, second, first, rows->n, rows->count);
}

/* ---- a strip of columns at a time -------------------------------------------------------------------------------- */

static void fold_strip_once(const reduce_plan *p, const fold_loops *f, cursor c, int64_t n, int64_t width,
                            reduce_buffer *b, fold_value *value, fold_value *second) {
  const bool adjoin = p->in.along == width * p->in.across;
  for (int64_t k = 0, rows; k < n; k += rows, cursor_next(&c, rows)) {
    const char *x = c.at[0];
    int64_t pitch = p->in.along;
    rows = cursor_row(&c, n - k);
    if (!p->across_is_direct) {
      rows = i64_min(rows, i64_max(TILE_ROWS, adjoin ? REDUCTION_TILE_ELEMENTS / width / FOLD_LANES * FOLD_LANES : 0));
      pitch = width * p->in.size;
      if (adjoin)
        p->in.load(b->tile, x, p->in.across, rows * width);
      else
        for (int64_t i = 0; i < rows; ++i) p->in.load(b->tile + i * pitch, x + i * p->in.along, p->in.across, width);
      x = b->tile;
    }
    f->step(b->state, x, pitch, k, rows, width, b->shift);
  }
  f->end(b->state, n, width, value, second);
}

/* Reduces one block of each column, from the cursor on. */
static void fold_strip(const reduce_plan *p, const cursor *c, int64_t n, int64_t width, reduce_buffer *b, results *r) {
  if (!p->second) {
    const bool few = p->first->few && n <= FOLD_FEW && p->across_is_direct && cursor_row(c, n) == n;
    const int64_t done = few ? p->first->few(c->at[0], p->in.along, n, width, r->value) : 0;
    if (done == width) return;
    cursor rest = *c;
    rest.at[0] += done * p->in.across;
    fold_strip_once(p, p->first, rest, n, width - done, b, r->value + done, r->second + done);
    return;
  }
  fold_value first[FOLD_WIDTH];
  fold_strip_once(p, p->first, *c, n, width, b, first, NULL);
  set_shift(p, first, n, width, b->shift);
  fold_strip_once(p, p->second, *c, n, width, b, r->value, r->second);
  reduction_settle(p, b->shift, r->value, r->second, first, n, width);
}

/* ---- many short rows at a time ----------------------------------------------------------------------------------- */

static void fold_turned(const reduce_plan *p, char *from, int64_t width, reduce_buffer *b, results *r) {
  const int64_t n = p->n, size = p->in.size, pitch = REDUCTION_TURNED_WIDTH * size;
  const char *x = from;
  int64_t from_pitch = p->in.across;
  if (!p->in.direct) {
    from_pitch = n * size;
    if (p->in.across == n * p->in.along)
      p->in.load(b->tile, from, p->in.along, n * width);
    else
      for (int64_t i = 0; i < width; ++i) p->in.load(b->tile + i * from_pitch, from + i * p->in.across, p->in.along, n);
    x = b->tile;
  }
  reduction->turn(b->turned, pitch, x, from_pitch, width, n, p->in.size);
  if (!p->second) {
    p->first->step(b->state, b->turned, pitch, 0, n, width, b->shift);
    p->first->end(b->state, n, width, r->value, r->second);
    return;
  }
  fold_value first[FOLD_WIDTH];
  p->first->step(b->state, b->turned, pitch, 0, n, width, b->shift);
  p->first->end(b->state, n, width, first, NULL);
  set_shift(p, first, n, width, b->shift);
  p->second->step(b->state, b->turned, pitch, 0, n, width, b->shift);
  p->second->end(b->state, n, width, r->value, r->second);
  reduction_settle(p, b->shift, r->value, r->second, first, n, width);
}

/* ---- execution --------------------------------------------------------------------------------------------------- */

/* The shift of all blocks is the exponent of a power. Other kinds use the shift that set_shift has set, or none. */
static void set_exponent(const reduce_plan *p, reduce_buffer *b) {
  if (reduction_kinds[p->kind].first != FOLD_SUM_POWER) return;
  for (int j = 0; j < FOLD_WIDTH; ++j) b->shift[j] = p->parameter;
}

/* Reduces the blocks of contiguous elements `begin` to `end` of an output and merges them into r, which has the result
 * of `before` elements already. */
static void reduce_run_of_blocks(const reduce_plan *p, const char *x, int64_t begin, int64_t end, int64_t before,
                                 reduce_buffer *b, partial *r) {
  results blocks;
  const int64_t most = rows_at_once(p, FOLD_BLOCK);
  for (int64_t i = begin, n, count; i < end; i += n * count) {
    n = i64_min(FOLD_BLOCK, end - i);
    count = i64_min(most, (end - i) / n);
    const fold_rows rows = {.x = x + (i - begin) * p->element_bytes,
                            .pitch = FOLD_BLOCK * p->element_bytes,
                            .n = n,
                            .count = count,
                            .is_far = p->is_far};
    fold_rows_of(p, &rows, b, blocks.value, blocks.second);
    reduction_merge_blocks(p, r, &blocks, count, before, n);
    before += n * count;
  }
}

static void reduce_row_chunk(const reduce_plan *p, void *from, int64_t width, int64_t chunk, reduce_buffer *b,
                             results *r) {
  assert(width == 1);
  (void)width;
  const int64_t first = chunk * CHUNK, end = i64_min(first + CHUNK, p->n);
  partial all = {0};
  if (p->row_is_direct && p->reduced.rank == 1) {
    reduce_run_of_blocks(p, (const char *)from + first * p->element_bytes, first, end, 0, b, &all);
  } else {
    cursor c;
    reduced_start(&p->reduced, &c, from, first);
    for (int64_t i = first, n; i < end; i += n) {
      n = i64_min(FOLD_BLOCK, end - i);
      reduce_run_of_blocks(p, row_gather(&p->in, &c, b->tile, n), i, i + n, i - first, b, &all);
    }
  }
  r->value[0] = all.value;
  r->second[0] = all.second;
}

static void reduce_column_chunk(const reduce_plan *p, void *from, int64_t width, int64_t chunk, reduce_buffer *b,
                                results *r) {
  const int64_t first = chunk * CHUNK, end = i64_min(first + CHUNK, p->n);
  results next;
  cursor c;
  for (int64_t i = first, n; i < end; i += n) {
    results *const block = i == first ? r : &next;
    n = i64_min(FOLD_BLOCK, end - i);
    reduced_start(&p->reduced, &c, from, i);
    fold_strip(p, &c, n, width, b, block);
    if (block == &next) reduction_merge_results(p, r, &next, width, i - first, n);
  }
}

static void reduce_all_chunks(const reduce_plan *p, char *from, int64_t width, reduce_buffer *b, results *r) {
  results next;
  p->way->chunk(p, from, width, 0, b, r);
  for (int64_t chunk = 1; chunk < p->n_chunks; ++chunk) {
    p->way->chunk(p, from, width, chunk, b, &next);
    reduction_merge_results(p, r, &next, width, chunk * CHUNK, i64_min(CHUNK, p->n - chunk * CHUNK));
  }
}

/* Reduces rows of at most one block, without gaps. Rows that are loaded into a tile are loaded together if they are
 * contiguous with each other. */
static void reduce_short_rows(const reduce_plan *p, const char *from, int64_t width, reduce_buffer *b, results *r) {
  const bool adjoin = p->in.across == p->n * p->in.along;
  const int64_t together = p->row_is_direct ? FOLD_WIDTH : adjoin ? FOLD_BLOCK / p->n : 1;
  const int64_t most = i64_min(together, rows_at_once(p, p->n));
  fold_rows rows = {.pitch = p->row_is_direct ? p->in.across : p->n * p->in.size, .n = p->n, .is_far = p->is_far};
  for (int64_t i = 0; i < width; i += rows.count, from += rows.count * p->in.across) {
    rows.count = i64_min(most, width - i);
    rows.x = p->row_is_direct ? from : row_fetch(&p->in, b->tile, from, 1, rows.count * p->n);
    fold_rows_of(p, &rows, b, r->value + i, r->second + i);
  }
}

/* Reduces rows, one for each of adjacent outputs. */
static void reduce_rows(const reduce_plan *p, char *from, int64_t width, reduce_buffer *b, results *r) {
  if (p->n <= FOLD_BLOCK && p->reduced.rank == 1) {
    reduce_short_rows(p, from, width, b, r);
    return;
  }
  results one;
  for (int64_t i = 0; i < width; ++i) {
    reduce_all_chunks(p, from + i * p->in.across, 1, b, &one);
    r->value[i] = one.value[0];
    r->second[i] = one.second[0];
  }
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static void of_nothing(const reduce_plan *p, int64_t width, results *r) {
  for (int64_t j = 0; j < width; ++j) {
    const double v = reduction_kinds[p->kind].of_nothing;
    r->value[j] = reduction_is_integer(p) ? (fold_value){.i64 = (int64_t)v} : (fold_value){.f64 = v};
    r->second[j].f64 = reduction_kinds[p->kind].merge == MERGE_MOMENTS ? 0 : 1;
  }
  if (reduction_kinds[p->kind].merge == MERGE_MOMENTS)
    for (int64_t j = 0; j < width; ++j) r->value[j].f64 = NAN;
}

/* Applies the final operation to `width` outputs and stores them; at[] has the operands' addresses for the first
 * one. */
static void reduction_finish(const reduce_plan *p, results *r, int64_t width, char *const *at, const walk *outputs) {
  const finish_kind kind = reduction_kinds[p->kind].finish;
  reduction->finish(kind == FINISH_MEAN && reduction_is_integer(p) ? FINISH_QUOTIENT : kind,
                    p->kind == REDUCTION_NORM_P ? 1 / p->parameter : p->parameter, p->n, r->value, r->second, width);
  for (int k = 0, operand = 1; k < REDUCTION_OUTPUTS; ++k) {
    if (!p->store[k]) continue;
    p->store[k](at[operand], outputs->strides[operand][outputs->rank - 1], k ? r->second : r->value, width);
    ++operand;
  }
}

/* Reduces outputs `begin` to `end` completely. */
static void reduce_outputs(const void *job, int64_t begin, int64_t end) {
  const reduce_job *j = job;
  const reduce_plan *p = j->plan;
  reduce_buffer b;
  results r;
  cursor c;
  set_exponent(p, &b);
  cursor_start(&c, &p->outputs, (void *const *)j->at, begin);
  for (int64_t i = begin, width; i < end; i += width, cursor_next(&c, width)) {
    width = cursor_row(&c, i64_min(p->way->width, end - i));
    if (p->n == 0)
      of_nothing(p, width, &r);
    else
      p->way->outputs(p, c.at[0], width, &b, &r);
    reduction_finish(p, &r, width, c.at, &p->outputs);
  }
}

/* Reduces the chunks `begin` to `end` of all outputs; those of one output are adjacent. */
static void reduce_parts(const void *job, int64_t begin, int64_t end) {
  const reduce_job *j = job;
  const reduce_plan *p = j->plan;
  reduce_buffer b;
  results r;
  set_exponent(p, &b);
  for (int64_t i = begin, width; i < end; i += width) {
    const int64_t chunk = i / p->outputs.n, output = i % p->outputs.n;
    cursor c;
    cursor_start(&c, &p->outputs, (void *const *)j->at, output);
    width = cursor_row(&c, i64_min(p->way->chunk_width, end - i));
    p->way->chunk(p, c.at[0], width, chunk, &b, &r);
    for (int64_t k = 0; k < width; ++k)
      j->partials[(output + k) * p->n_chunks + chunk] = (partial){r.value[k], r.second[k]};
  }
}

static void merge_parts(const reduce_job *j) {
  const reduce_plan *p = j->plan;
  for (int64_t i = 0; i < p->outputs.n; ++i) {
    partial all = j->partials[i * p->n_chunks];
    for (int64_t k = 1; k < p->n_chunks; ++k)
      reduction_merge(p, &all, &j->partials[i * p->n_chunks + k], k * CHUNK, i64_min(CHUNK, p->n - k * CHUNK));
    results r;
    r.value[0] = all.value;
    r.second[0] = all.second;
    cursor c;
    cursor_start(&c, &p->outputs, (void *const *)j->at, i);
    reduction_finish(p, &r, 1, c.at, &p->outputs);
  }
}

/* Reduces all outputs, real numbers or one part of complex ones. */
static void reduce_whole(reduce_job *job, uint64_t cost_ns) {
  const reduce_plan *p = job->plan;
  if (!p->split) {
    rows_parallel(reduce_outputs, job, p->outputs.n, GRAIN, cost_ns);
    return;
  }
  rows_parallel(reduce_parts, job, p->outputs.n * p->n_chunks, 1, cost_ns);
  merge_parts(job);
}

/* Stores zeros as imaginary parts of real results. */
static void clear_outputs(const walk *outputs, char *const *at, store_loop *store) {
  static const compute_value zero[FOLD_WIDTH];
  cursor c;
  cursor_start(&c, outputs, (void *const *)at, 0);
  for (int64_t i = 0, n; i < outputs->n; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, i64_min(FOLD_WIDTH, outputs->n - i));
    store(c.at[1], outputs->strides[1][outputs->rank - 1], zero, n);
  }
}

static status reduction_run(const executor *e, void *const *view, void *scratch) {
  const reduce_plan *p = PLAN(e, reduce_plan);
  reduce_job job = {.plan = p};
  if (p->outputs.n == 0) return ST_OK;
  for (int k = 0; k < p->outputs.n_operands; ++k) job.at[k] = view[p->operand[k]];
  if (p->split) job.partials = (partial *)(void *)((char *)scratch + p->partials);
  reduce_whole(&job, e->cost_ns);
  if (!p->imaginary[1]) return ST_OK;
  job.at[1] += p->imaginary[1];
  if (!p->imaginary[0]) {
    clear_outputs(&p->outputs, job.at, p->store[0]);
    return ST_OK;
  }
  if (p->n) job.at[0] += p->imaginary[0];
  reduce_whole(&job, e->cost_ns);
  return ST_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* Appends dimension d of `from` to `to`. */
static void append_dim(view *to, const view *from, int d) {
  to->dims[to->rank] = from->dims[d];
  to->strides[to->rank++] = from->strides[d];
}

/* The compute type of a request: comparisons use the elements' own type; integer results are computed from integers;
 * integers that become floats, and results of which one is double, are computed in double. */
static compute_type compute_for(const reduction_request *r) {
  const bool compares = reduction_kinds[r->kind].merge >= MERGE_MAX && reduction_kinds[r->kind].merge <= MERGE_ARG_MIN;
  const int in = r->in->dtype, out = compares ? in : r->out[0]->dtype;
  if (r->of_integers || !dtype_is_float(out)) return COMPUTE_I64;
  const bool is_wide = out == ACL_DOUBLE || (!compares && r->out[1] && r->out[1]->dtype == ACL_DOUBLE);
  return dtype_is_float(in) && in != ACL_DOUBLE && !is_wide ? COMPUTE_F32 : COMPUTE_F64;
}

static bool is_place(reduction_kind kind, int output) {
  return output == 1 && (kind == REDUCTION_ARG_MAX || kind == REDUCTION_ARG_MIN);
}

void reduction_walks(const reduction_request *r, walk *outputs, reduced_dims *reduced, uint8_t *operand) {
  view kept[1 + REDUCTION_OUTPUTS];
  const view *sources[1 + REDUCTION_OUTPUTS] = {r->in};
  const view *walked[1 + REDUCTION_OUTPUTS] = {&kept[0]};
  const walk_space space = {reduced->dims, reduced->strides, MAX_RANK, 1};
  int n_views = 1;
  operand[0] = r->operand[0];
  reduced->rank = 0;
  reduced->n = 1;
  for (int k = 0; k < REDUCTION_OUTPUTS; ++k) {
    if (!r->out[k]) continue;
    operand[n_views] = r->operand[1 + k];
    walked[n_views] = &kept[n_views];
    sources[n_views++] = r->out[k];
  }
  for (int k = 0; k < n_views; ++k) kept[k].rank = 0;
  for (int d = 0, at = 0; d < r->in->rank; ++d) {
    if (r->is_reduced[d]) {
      reduced->n *= reduced->dims[reduced->rank] = r->in->dims[d];
      reduced->strides[reduced->rank] = r->in->strides[d];
      reduced->rank = walk_append(&space, 0, reduced->rank);
      at += r->keep;
      continue;
    }
    append_dim(&kept[0], r->in, d);
    for (int k = 1; k < n_views; ++k) append_dim(&kept[k], sources[k], at);
    ++at;
  }
  if (reduced->rank == 0) {
    reduced->dims[reduced->rank++] = 1;
    reduced->strides[0] = 0;
  }
  if (reduced->n == 0) /* the input is empty */
    for (int d = 0; d < kept[0].rank; ++d) kept[0].strides[d] = 0;
  walk_init_sorted(outputs, walked, n_views, kept[0].rank);
}

static int64_t adjacent_outputs(const reduce_plan *p) { return p->outputs.dims[p->outputs.rank - 1]; }

/* The loops of a kind for 16-bit elements as they are stored, or NULL. */
static const fold_loops *stored_loops(const reduce_plan *p) {
  if (p->compute != COMPUTE_F32 || p->second || (p->dtype != ACL_FLOAT16 && p->dtype != ACL_BF16)) return NULL;
  return &(p->dtype == ACL_FLOAT16 ? reduction->f16 : reduction->bf16)[reduction_kinds[p->kind].first];
}

static bool reduction_columns_pay(const void *plan) {
  const reduce_plan *p = plan;
  return adjacent_outputs(p) > 1 && p->in.across < p->in.along;
}

static void reduction_columns_init(void *plan, executor *e) {
  (void)e;
  static const reduce_way way = {reduce_all_chunks, reduce_column_chunk, FOLD_WIDTH, FOLD_WIDTH};
  reduce_plan *p = plan;
  const fold_loops *const stored = stored_loops(p);
  p->way = &way;
  p->across_is_direct = row_access_of(p->dtype, p->compute, p->in.across, 0, FOLD_BLOCK).direct;
  if (!stored || p->in.across != p->element_bytes || !stored->step) return;
  p->first = stored;
  p->across_is_direct = true;
}

static bool reduction_transposed_fits(void *plan) {
  const reduce_plan *p = plan;
  const fold_loops *const last = p->second ? p->second : p->first;
  return p->n <= last->turned_most && p->reduced.rank == 1 && p->in.along == p->element_bytes;
}

static bool reduction_transposed_pays(const void *plan) { return adjacent_outputs(plan) >= 4; }

/* Rows are short, so chunks are never shared out. */
static void reduction_transposed_init(void *plan, executor *e) {
  (void)e;
  static const reduce_way way = {fold_turned, NULL, REDUCTION_TURNED_WIDTH, 0};
  ((reduce_plan *)plan)->way = &way;
}

static void reduction_rows_init(void *plan, executor *e) {
  (void)e;
  static const reduce_way way = {reduce_rows, reduce_row_chunk, ROWS_GROUP, 1};
  reduce_plan *p = plan;
  const fold_loops *const stored = stored_loops(p);
  p->way = &way;
  p->row_is_direct = p->in.direct;
  if (!stored || p->reduced.rank != 1 || p->in.along != p->element_bytes || !stored->rows) {
    p->element_bytes = (uint8_t)p->in.size;
    return;
  }
  p->first = stored;
  p->row_is_direct = true;
}

static void reduction_reference_init(void *plan, executor *e) {
  (void)e;
  static const reduce_way way = {reduction_reference, NULL, ROWS_GROUP, 0};
  ((reduce_plan *)plan)->way = &way;
}

static const implementation implementations[] = {
    /* 10 to 30 times as fast as rows (4096 x 1024 and 8 x 128 x 768, along the rows). */
    {.name = "columns", .pays = reduction_columns_pay, .init = reduction_columns_init},
    /* Rows of 8 and 16 floats: 2.3 to 7 times as fast as rows with AVX2; of 2 to 4, 1.2 to 1.5 times with AVX-512. */
    {.name = "transposed",
     .fits = reduction_transposed_fits,
     .pays = reduction_transposed_pays,
     .init = reduction_transposed_init},
    /* 2 to 60 times as fast as columns, for rows of 16 floats and more. */
    {.name = "rows", .init = reduction_rows_init},
    {.name = "reference", .init = reduction_reference_init},
};

IMPLEMENTATION_FAMILY(family, "reduce", implementations)

/* Chooses how memory is walked, and the block reductions. */
static void choose_way_and_folds(reduce_plan *p, executor *e) {
  const kind_info *info = &reduction_kinds[p->kind];
  p->first = &reduction->fold[info->first][p->compute];
  assert(p->first->step);
  p->second = info->second == NO_FOLD ? NULL : &reduction->fold[info->second][p->compute];
  implementation_plan(&family, p, e);
}

static void plan_reals(executor *e, const reduction_request *r, uint64_t n_parts) {
  reduce_plan *p = PLAN(e, reduce_plan);
  const int element_bytes = (int)dtype_bytes(r->in->dtype);
  reduction_walks(r, &p->outputs, &p->reduced, p->operand);
  const int64_t n = p->reduced.n, n_outputs = p->outputs.n;
  uint64_t bytes = (uint64_t)(n * n_outputs) * (uint64_t)element_bytes;
  p->n = n;
  p->kind = (uint8_t)r->kind;
  p->compute = (uint8_t)compute_for(r);
  p->parameter = r->parameter;
  p->imaginary[0] = p->imaginary[1] = 0;
  p->is_far = bytes >= FAR_BYTES;

  const int last = p->outputs.rank - 1;
  const int64_t along = p->reduced.rank && n > 1 ? p->reduced.strides[p->reduced.rank - 1] : element_bytes;
  row_access_init(&p->in, r->in->dtype, p->compute, along, p->outputs.strides[0][last], FOLD_BLOCK);
  p->dtype = (int16_t)r->in->dtype;
  p->element_bytes = (uint8_t)element_bytes;
  choose_way_and_folds(p, e);
  p->n_chunks = (n + CHUNK - 1) / CHUNK;
  p->split = n > CHUNK && n_outputs <= FEW_OUTPUTS && p->way->chunk;
  if (p->split) p->partials = (int64_t)workspace_partial(e, (uint64_t)(n_outputs * p->n_chunks) * sizeof(partial));

  for (int k = 0; k < REDUCTION_OUTPUTS; ++k) {
    p->store[k] = NULL;
    if (!r->out[k]) continue;
    const bool integer = reduction_is_integer(p) || is_place(r->kind, k);
    p->store[k] = loops->store[r->out[k]->dtype][integer ? COMPUTE_I64 : COMPUTE_F64];
    bytes += (uint64_t)n_outputs * dtype_bytes(r->out[k]->dtype);
  }
  executor_cost(e, bytes * n_parts, (uint64_t)(n * n_outputs) * n_parts * (p->second ? 8 : 1));
  e->run = reduction_run;
}

/* Whether real and imaginary parts of a complex input are best treated as a last dimension that is kept: if the
 * innermost dimension is kept, too, or is long and has no gaps. */
static bool parts_are_columns(const reduction_request *r) {
  const view *in = r->in;
  int nearest = -1;
  if (!dtype_is_complex(in->dtype) || in->rank == MAX_RANK) return false;
  for (int d = 0; d < in->rank; ++d)
    if (in->dims[d] > 1 && (nearest < 0 || llabs(in->strides[d]) < llabs(in->strides[nearest]))) nearest = d;
  if (nearest < 0 || !r->is_reduced[nearest]) return nearest >= 0;
  return in->dims[nearest] >= LONG_ROW && in->strides[nearest] == (int64_t)dtype_bytes(in->dtype);
}

static view with_parts(const view *complex) {
  view v = view_real_parts(complex);
  v.dims[v.rank] = 2;
  v.strides[v.rank++] = dtype_part_bytes(complex->dtype);
  return v;
}

__attribute__((noinline)) static void plan_complex(executor *e, const reduction_request *r) {
  const bool columns = parts_are_columns(r), of_reals = !dtype_is_complex(r->in->dtype);
  const view in = columns ? with_parts(r->in) : view_real_parts(r->in);
  const view out = columns ? with_parts(r->out[0]) : view_real_parts(r->out[0]);
  bool is_reduced[VIEW_RANK] = {false};
  memcpy(is_reduced, r->is_reduced, (size_t)r->in->rank);
  reduction_request parts = *r;
  parts.in = &in;
  parts.out[0] = &out;
  parts.is_reduced = is_reduced;
  plan_reals(e, &parts, columns || of_reals ? 1 : 2);
  if (columns) return;
  reduce_plan *p = PLAN(e, reduce_plan);
  p->imaginary[0] = dtype_part_bytes(r->in->dtype);
  p->imaginary[1] = dtype_part_bytes(r->out[0]->dtype);
}

void reduction_plan(executor *e, const reduction_request *r) {
  if (likely(!r->out[0] || !dtype_is_complex(r->out[0]->dtype)))
    plan_reals(e, r, 1);
  else
    plan_complex(e, r);
}
