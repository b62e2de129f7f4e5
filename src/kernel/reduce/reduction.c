/* SPDX-License-Identifier: Apache-2.0 */
/* The reduction engine: see reduction.h. Memory is walked in one of three ways, which give the same bits:
 *
 *   rows        one block after the other, many at a time where they are stored as the loops of fold.h read them; else
 *               each block is loaded into a tile
 *   columns     where adjacent outputs are closer in memory than the elements of one output (the sum over a matrix's
 *               first dimension): a strip of outputs at a time, row by row
 *   transposed  outputs of few elements: many at a time, transposed in L1 so that they form columns */
#include "kernel/reduce/reduction.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "kernel/engine/level.h"
#include "kernel/engine/rows.h"
#include "kernel/reduce/fold.h"

LEVEL_CHOICE(reduction_loops, reduction, reduction)

enum {
  CHUNK = 64 * FOLD_BLOCK,
  FEW_OUTPUTS = 64, /* maximum number of outputs for which threads share out chunks rather than outputs */
  GRAIN = 64,       /* minimum number of outputs for a thread */
  ROWS_GROUP = 64,  /* outputs that are finished and stored together */
  TURNED_WIDTH = 64,
  TILE_ROWS = 8, /* rows of a strip that are converted together if they are contiguous with each other */
  TILE_ELEMENTS = FOLD_TURNED * TURNED_WIDTH,
  NEAR_ELEMENTS = 4096, /* elements that are certainly still in L1 for a second pass */
  LONG_ROW = 256,       /* complex numbers; see parts_are_columns */
  FAR_BYTES = 16 << 20, /* bytes of input from which on it is assumed to be in no cache */
};

/* How the results of several blocks are merged. */
typedef enum {
  MERGE_ADD,
  MERGE_MULTIPLY,
  MERGE_MAX,
  MERGE_MIN,
  MERGE_MIN_MAX,
  MERGE_ARG_MAX,
  MERGE_ARG_MIN,
  MERGE_MOMENTS,
  MERGE_EXPONENTIALS
} merge_kind;

/* How a kind is computed: by one or two block reductions (fold.h), merging and a final operation. A second block
 * reduction uses the first one's result as its shift. */
typedef struct {
  uint8_t first, second, merge, finish;
  double of_nothing; /* result for an empty input; NAN: NaN or no result */
} kind_info;

enum { NO_FOLD = N_FOLDS };

static const kind_info kinds[N_REDUCTIONS] = {
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

bool reduction_takes_nothing(reduction_kind kind) { return kinds[kind].of_nothing == kinds[kind].of_nothing; }

typedef enum { BY_ROWS, BY_COLUMNS, BY_TURNING } reduce_way;

typedef struct {
  walk outputs;                         /* the kept dimensions; operand 0: the input, then the outputs */
  row_access in;                        /* along the innermost reduced dimension */
  store_loop *store[REDUCTION_OUTPUTS]; /* for value and second; NULL: not wanted */
  const fold_loops *first, *second;     /* second NULL: a single pass */
  double parameter;
  int64_t n, n_chunks; /* elements and chunks per output */
  int64_t partials;    /* offset of the partial results in the workspace, if `split` */
  reduced_dims reduced;
  uint8_t kind, compute, way, operand[1 + REDUCTION_OUTPUTS];
  uint8_t element_bytes; /* bytes of an element where block reductions read it */
  uint8_t imaginary[2];  /* bytes from the real to the imaginary parts, of the input and the output; 0: none */
  bool split, is_far;
  /* the elements of a row, or of adjacent outputs, are contiguous in the type that block reductions read */
  bool row_is_direct, across_is_direct;
} reduce_plan;

typedef struct {
  fold_value value, second;
} partial;

/* Results of adjacent outputs. */
typedef struct {
  fold_value value[FOLD_WIDTH], second[FOLD_WIDTH];
} results;

/* A thread's buffers. */
typedef struct {
  _Alignas(64) char state[FOLD_STATE_BYTES];
  _Alignas(64) char tile[TILE_ELEMENTS * sizeof(double)]; /* a block of a row, or rows of a strip */
  _Alignas(64) char turned[TILE_ELEMENTS * sizeof(double)];
  double shift[FOLD_WIDTH];
} reduce_buffer;

typedef struct {
  const reduce_plan *plan;
  char *at[1 + REDUCTION_OUTPUTS];
  partial *partials; /* [outputs][n_chunks] */
} reduce_job;

static bool reduction_is_integer(const reduce_plan *p) { return p->compute == COMPUTE_I64; }

/* ---- merging ----------------------------------------------------------------------------------------------------- */

/* Whether b, which comes after a, replaces it as the maximum. Nothing replaces a NaN. */
static bool above(const reduce_plan *p, fold_value a, fold_value b) {
  return reduction_is_integer(p) ? b.i64 > a.i64 : b.f64 > a.f64 || (b.f64 != b.f64 && a.f64 == a.f64);
}
static bool below(const reduce_plan *p, fold_value a, fold_value b) {
  return reduction_is_integer(p) ? b.i64 < a.i64 : b.f64 < a.f64 || (b.f64 != b.f64 && a.f64 == a.f64);
}

static fold_value added(const reduce_plan *p, fold_value a, fold_value b) {
  return reduction_is_integer(p) ? (fold_value){.i64 = (int64_t)((uint64_t)a.i64 + (uint64_t)b.i64)}
                                 : (fold_value){.f64 = a.f64 + b.f64};
}
static fold_value multiplied(const reduce_plan *p, fold_value a, fold_value b) {
  return reduction_is_integer(p) ? (fold_value){.i64 = (int64_t)((uint64_t)a.i64 * (uint64_t)b.i64)}
                                 : (fold_value){.f64 = a.f64 * b.f64};
}

/* Merges the means and sums of squared deviations of n_a and n_b elements (Chan, Golub and LeVeque). */
static void merge_moments(partial *a, const partial *b, int64_t n_a, int64_t n_b) {
  const double n = (double)(n_a + n_b), delta = b->value.f64 - a->value.f64, share = (double)n_b / n;
  a->value.f64 += delta * share;
  a->second.f64 += b->second.f64 + delta * delta * (double)n_a * share;
}

/* Merges maxima and sums of exp(x - maximum). The exponentials are 0 beside an infinite maximum. */
static void merge_exponentials(partial *a, const partial *b) {
  const double top = a->value.f64 > b->value.f64 || a->value.f64 != a->value.f64 ? a->value.f64 : b->value.f64;
  const double of_a = a->value.f64 == top ? a->second.f64 : a->second.f64 * exp(a->value.f64 - top);
  const double of_b = b->value.f64 == top ? b->second.f64 : b->second.f64 * exp(b->value.f64 - top);
  a->value.f64 = top;
  a->second.f64 = of_a + of_b;
}

/* Merges into a, the result of n_a elements, the result b of the n_b elements that follow. b's indices count from its
 * own first element. */
static void merge(const reduce_plan *p, partial *a, const partial *b, int64_t n_a, int64_t n_b) {
  switch ((merge_kind)kinds[p->kind].merge) {
  case MERGE_ADD: a->value = added(p, a->value, b->value); break;
  case MERGE_MULTIPLY: a->value = multiplied(p, a->value, b->value); break;
  case MERGE_MAX:
    if (above(p, a->value, b->value)) a->value = b->value;
    break;
  case MERGE_MIN:
    if (below(p, a->value, b->value)) a->value = b->value;
    break;
  case MERGE_MIN_MAX:
    if (below(p, a->value, b->value)) a->value = b->value;
    if (above(p, a->second, b->second)) a->second = b->second;
    break;
  case MERGE_ARG_MAX:
    if (above(p, a->value, b->value)) *a = (partial){b->value, {.i64 = n_a + b->second.i64}};
    break;
  case MERGE_ARG_MIN:
    if (below(p, a->value, b->value)) *a = (partial){b->value, {.i64 = n_a + b->second.i64}};
    break;
  case MERGE_MOMENTS: merge_moments(a, b, n_a, n_b); break;
  case MERGE_EXPONENTIALS: merge_exponentials(a, b); break;
  }
}

/* Merges results of adjacent outputs. If a has no elements yet, b is the result. */
static void merge_results(const reduce_plan *p, results *a, const results *b, int64_t width, int64_t n_a, int64_t n_b) {
  for (int64_t j = 0; j < width; ++j) {
    partial r = {a->value[j], a->second[j]};
    const partial next = {b->value[j], b->second[j]};
    if (n_a == 0)
      r = next;
    else
      merge(p, &r, &next, n_a, n_b);
    a->value[j] = r.value;
    a->second[j] = r.second;
  }
}

/* Merges an output's next `count` blocks of n elements each, in order. */
static void merge_blocks(const reduce_plan *p, partial *a, const results *blocks, int64_t count, int64_t before,
                         int64_t n) {
  int64_t k = 0;
  if (before == 0) {
    *a = (partial){blocks->value[0], blocks->second[0]};
    k = 1;
  }
  if (kinds[p->kind].merge == MERGE_ADD && !reduction_is_integer(p)) { /* takes a third of the time of merge() */
    for (; k < count; ++k) a->value.f64 += blocks->value[k].f64;
    return;
  }
  for (; k < count; ++k) merge(p, a, &(const partial){blocks->value[k], blocks->second[k]}, before + k * n, n);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Sets the shift that the second pass over blocks of n elements subtracts, from the results of the first pass. */
static void set_shift(const reduce_plan *p, const fold_value *first, int64_t n, int64_t width, double *shift) {
  const bool moments = kinds[p->kind].merge == MERGE_MOMENTS;
  for (int64_t j = 0; j < width; ++j)
    shift[j] = moments ? first[j].f64 / (double)n : isfinite(first[j].f64) ? first[j].f64 : 0;
}

/* Combines the results of both passes over blocks. */
static void reduction_settle(const reduce_plan *p, const double *shift, fold_value *value, fold_value *second,
                             const fold_value *first, int64_t n, int64_t width) {
  if (kinds[p->kind].merge == MERGE_MOMENTS) {
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
      rows = i64_min(rows, i64_max(TILE_ROWS, adjoin ? TILE_ELEMENTS / width / FOLD_LANES * FOLD_LANES : 0));
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

static void fold_turned(const reduce_plan *p, const char *from, int64_t width, reduce_buffer *b, results *r) {
  const int64_t n = p->n, size = p->in.size, pitch = TURNED_WIDTH * size;
  int64_t from_pitch = p->in.across;
  if (!p->in.direct) {
    from_pitch = n * size;
    if (p->in.across == n * p->in.along)
      p->in.load(b->tile, from, p->in.along, n * width);
    else
      for (int64_t i = 0; i < width; ++i) p->in.load(b->tile + i * from_pitch, from + i * p->in.across, p->in.along, n);
    from = b->tile;
  }
  reduction->turn(b->turned, pitch, from, from_pitch, width, n, p->in.size);
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
  if (kinds[p->kind].first != FOLD_SUM_POWER) return;
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
    merge_blocks(p, r, &blocks, count, before, n);
    before += n * count;
  }
}

/* Reduces one chunk of an output whose first element is at `from`. */
static void reduce_row_chunk(const reduce_plan *p, void *from, int64_t chunk, reduce_buffer *b, results *r) {
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

/* Reduces one chunk of each of `width` adjacent outputs (1 for rows), the first of which starts at `from`. */
static void reduce_chunk(const reduce_plan *p, void *from, int64_t width, int64_t chunk, reduce_buffer *b, results *r) {
  if (p->way != BY_COLUMNS) {
    reduce_row_chunk(p, from, chunk, b, r);
    return;
  }
  const int64_t first = chunk * CHUNK, end = i64_min(first + CHUNK, p->n);
  results next;
  cursor c;
  for (int64_t i = first, n; i < end; i += n) {
    results *const block = i == first ? r : &next;
    n = i64_min(FOLD_BLOCK, end - i);
    reduced_start(&p->reduced, &c, from, i);
    fold_strip(p, &c, n, width, b, block);
    if (block == &next) merge_results(p, r, &next, width, i - first, n);
  }
}

/* Reduces all elements of `width` outputs; for columns these are adjacent. */
static void reduce_all_chunks(const reduce_plan *p, char *from, int64_t width, reduce_buffer *b, results *r) {
  results next;
  reduce_chunk(p, from, width, 0, b, r);
  for (int64_t chunk = 1; chunk < p->n_chunks; ++chunk) {
    reduce_chunk(p, from, width, chunk, b, &next);
    merge_results(p, r, &next, width, chunk * CHUNK, i64_min(CHUNK, p->n - chunk * CHUNK));
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

static void of_nothing(const reduce_plan *p, int64_t width, results *r) {
  for (int64_t j = 0; j < width; ++j) {
    const double v = kinds[p->kind].of_nothing;
    r->value[j] = reduction_is_integer(p) ? (fold_value){.i64 = (int64_t)v} : (fold_value){.f64 = v};
    r->second[j].f64 = kinds[p->kind].merge == MERGE_MOMENTS ? 0 : 1;
  }
  if (kinds[p->kind].merge == MERGE_MOMENTS)
    for (int64_t j = 0; j < width; ++j) r->value[j].f64 = NAN;
}

/* Applies the final operation to `width` outputs and stores them; at[] has the operands' addresses for the first
 * one. */
static void reduction_finish(const reduce_plan *p, results *r, int64_t width, char *const *at, const walk *outputs) {
  const finish_kind kind = kinds[p->kind].finish;
  reduction->finish(kind == FINISH_MEAN && reduction_is_integer(p) ? FINISH_QUOTIENT : kind,
                    p->kind == REDUCTION_NORM_P ? 1 / p->parameter : p->parameter, p->n, r->value, r->second, width);
  for (int k = 0, operand = 1; k < REDUCTION_OUTPUTS; ++k) {
    if (!p->store[k]) continue;
    p->store[k](at[operand], outputs->strides[operand][outputs->rank - 1], k ? r->second : r->value, width);
    ++operand;
  }
}

static int64_t width_of(const reduce_plan *p) {
  return p->way == BY_COLUMNS ? FOLD_WIDTH : p->way == BY_TURNING ? TURNED_WIDTH : ROWS_GROUP;
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
    width = cursor_row(&c, i64_min(width_of(p), end - i));
    if (p->n == 0)
      of_nothing(p, width, &r);
    else if (p->way == BY_TURNING)
      fold_turned(p, c.at[0], width, &b, &r);
    else if (p->way == BY_COLUMNS)
      reduce_all_chunks(p, c.at[0], width, &b, &r);
    else
      reduce_rows(p, c.at[0], width, &b, &r);
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
    width = p->way == BY_COLUMNS ? cursor_row(&c, i64_min(FOLD_WIDTH, end - i)) : 1;
    reduce_chunk(p, c.at[0], width, chunk, &b, &r);
    for (int64_t k = 0; k < width; ++k)
      j->partials[(output + k) * p->n_chunks + chunk] = (partial){r.value[k], r.second[k]};
  }
}

static void merge_parts(const reduce_job *j) {
  const reduce_plan *p = j->plan;
  for (int64_t i = 0; i < p->outputs.n; ++i) {
    partial all = j->partials[i * p->n_chunks];
    for (int64_t k = 1; k < p->n_chunks; ++k)
      merge(p, &all, &j->partials[i * p->n_chunks + k], k * CHUNK, i64_min(CHUNK, p->n - k * CHUNK));
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
 * integers that become floats are computed in double. */
static compute_type compute_for(const reduction_request *r) {
  const bool compares = kinds[r->kind].merge >= MERGE_MAX && kinds[r->kind].merge <= MERGE_ARG_MIN;
  const int in = r->in->dtype, out = compares ? in : r->out[0]->dtype;
  if (r->of_integers || !dtype_is_float(out)) return COMPUTE_I64;
  return dtype_is_float(in) && in != ACL_DOUBLE ? COMPUTE_F32 : COMPUTE_F64;
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

static reduce_way choose_way(const reduce_plan *p, int element_bytes) {
  const int64_t adjacent = p->outputs.dims[p->outputs.rank - 1];
  if (adjacent > 1 && p->in.across < p->in.along) return BY_COLUMNS;
  const fold_loops *const last = p->second ? p->second : p->first;
  const bool short_rows = p->n <= last->turned_most && p->reduced.rank == 1 && p->in.along == element_bytes;
  return adjacent >= 4 && short_rows ? BY_TURNING : BY_ROWS;
}

/* Chooses how memory is walked and which block reductions are used: those for elements as they are stored, where there
 * are any. */
static void choose_way_and_folds(reduce_plan *p, int dtype, int element_bytes) {
  const kind_info *info = &kinds[p->kind];
  const int64_t across = p->in.across, along = p->in.along;
  p->first = &reduction->fold[info->first][p->compute];
  assert(p->first->step);
  p->second = info->second == NO_FOLD ? NULL : &reduction->fold[info->second][p->compute];
  p->way = (uint8_t)choose_way(p, element_bytes);
  p->element_bytes = (uint8_t)p->in.size;
  p->row_is_direct = p->in.direct;
  p->across_is_direct = row_access_of(dtype, p->compute, across, 0, FOLD_BLOCK).direct;
  if (p->compute != COMPUTE_F32 || p->second || (dtype != ACL_FLOAT16 && dtype != ACL_BF16)) return;
  const fold_loops *const stored = &(dtype == ACL_FLOAT16 ? reduction->f16 : reduction->bf16)[info->first];
  const bool by_rows = p->way == BY_ROWS && p->reduced.rank == 1 && along == element_bytes && stored->rows;
  const bool by_columns = p->way == BY_COLUMNS && across == element_bytes && stored->step;
  if (!by_rows && !by_columns) return;
  p->first = stored;
  p->element_bytes = (uint8_t)element_bytes;
  p->row_is_direct = by_rows;
  p->across_is_direct = by_columns;
}

static void plan_reals(executor *e, const reduction_request *r, uint64_t n_parts) {
  reduce_plan *p = PLAN(e, reduce_plan);
  const int element_bytes = (int)dtype_bytes(r->in->dtype);
  reduction_walks(r, &p->outputs, &p->reduced, p->operand);
  p->n = p->reduced.n;
  p->kind = (uint8_t)r->kind;
  p->compute = (uint8_t)compute_for(r);
  p->parameter = r->parameter;
  p->imaginary[0] = p->imaginary[1] = 0;
  p->is_far = p->n * p->outputs.n * element_bytes >= FAR_BYTES;

  const int last = p->outputs.rank - 1;
  const int64_t along = p->reduced.rank && p->n > 1 ? p->reduced.strides[p->reduced.rank - 1] : element_bytes;
  row_access_init(&p->in, r->in->dtype, p->compute, along, p->outputs.strides[0][last], FOLD_BLOCK);
  choose_way_and_folds(p, r->in->dtype, element_bytes);
  p->n_chunks = (p->n + CHUNK - 1) / CHUNK;
  p->split = p->n_chunks > 1 && p->outputs.n <= FEW_OUTPUTS;
  if (p->split) p->partials = (int64_t)workspace_partial(e, (uint64_t)(p->outputs.n * p->n_chunks) * sizeof(partial));

  uint64_t bytes = (uint64_t)(p->n * p->outputs.n) * (uint64_t)element_bytes;
  for (int k = 0; k < REDUCTION_OUTPUTS; ++k) {
    const bool integer = reduction_is_integer(p) || is_place(r->kind, k);
    p->store[k] = r->out[k] ? loops->store[r->out[k]->dtype][integer ? COMPUTE_I64 : COMPUTE_F64] : NULL;
    if (r->out[k]) bytes += (uint64_t)p->outputs.n * dtype_bytes(r->out[k]->dtype);
  }
  executor_cost(e, bytes * n_parts, (uint64_t)(p->n * p->outputs.n) * n_parts * (p->second ? 8 : 1));
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

void reduction_plan(executor *e, const reduction_request *r) {
  if (!r->out[0] || !dtype_is_complex(r->out[0]->dtype)) {
    plan_reals(e, r, 1);
    return;
  }
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
