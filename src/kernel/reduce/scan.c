/* SPDX-License-Identifier: Apache-2.0 */
/* Running sums and products along a dimension (scan.h), and running maxima and minima.
 *
 * A row is scanned in blocks, which are loaded into a tile unless they are contiguous in the compute type. Rows that
 * are closer to each other than their elements are scanned by strips of columns. 64 blocks form a chunk. If one thread
 * scans a row, the base of a chunk is the base of the previous chunk combined with that chunk's total; several threads
 * compute all totals first. */
#include "kernel/reduce/scan.h"
#include "kernel/engine/axis.h"
#include "kernel/engine/level_choice.h"
#include "kernel/families.h"
#include "kernel/reduce/fold.h"
#include "op/executor.h"
#include "runtime/parallel.h"

LEVEL_CHOICE(scan_table, scans, scans)

enum { BLOCK = 1024, CHUNK = 64 * BLOCK, STRIP_ROWS = 8, MANY_ROWS = 16, SHORT_MOST = 32 };

typedef struct {
  walk rows; /* all dimensions except the scanned one; operand 0: the input, 1: the output, 2: indices */
  row_access in, out, places;
  const scan_loops *loops;
  extreme_loop *extreme;       /* running maxima or minima, with indices; else NULL */
  int64_t n, n_chunks;         /* elements and chunks of a row */
  int64_t first_in, first_out; /* bytes from the view's first element to the first one that is read or written */
  int64_t totals;              /* offset in the workspace: [rows][n_chunks] */
  scan_value unit;
  /* in_ and out_is_direct: elements of adjacent rows are contiguous in the compute type */
  bool by_columns, in_is_direct, out_is_direct;
  bool exclusive, multiplies, are_short;
  store_loop *store_unit;
  uint8_t compute;
  uint8_t imaginary[2]; /* bytes from the real to the imaginary parts, of the input and the output; 0: none */
} scan_plan;

typedef struct {
  const scan_plan *plan;
  void *view[3];     /* the input, the output, the indices */
  scan_value *bases; /* the chunks' bases, if chunks are scanned separately; at first their totals */
  bool totals_only;
} scan_job;

/* ---- by rows ----------------------------------------------------------------------------------------------------- */

/* Scans one chunk, which starts at element `first` of a row; base is the result before it. Returns the chunk's total;
 * with out NULL only that is computed. */
static scan_value scan_chunk(const scan_plan *p, const char *in, char *out, int64_t first, scan_value base) {
  _Alignas(64) char tile[BLOCK * sizeof(double)];
  scan_value carry = base, total = p->unit;
  for (int64_t k = first, n, end = i64_min(first + CHUNK, p->n); k < end; k += n) {
    n = i64_min(BLOCK, end - k);
    const char *x = row_fetch(&p->in, tile, in + k * p->in.along, 1, n);
    char *to = out && p->out.direct ? out + k * p->out.along : tile;
    p->loops->row(to, x, n, &carry, &total);
    if (out && to == tile) row_store(&p->out, out + k * p->out.along, tile, 1, n);
  }
  return total;
}

/* Combines a chunk's base and total: the base of the next chunk. */
static scan_value scan_joined(const scan_plan *p, scan_value a, scan_value b) {
  if (p->compute != COMPUTE_I64) return (scan_value){.f64 = p->multiplies ? a.f64 * b.f64 : a.f64 + b.f64};
  const uint64_t x = (uint64_t)a.i64, y = (uint64_t)b.i64;
  return (scan_value){.i64 = (int64_t)(p->multiplies ? x * y : x + y)};
}

static void scan_row(const scan_plan *p, const char *in, char *out) {
  scan_value base = p->unit;
  for (int64_t k = 0; k < p->n; k += CHUNK) base = scan_joined(p, base, scan_chunk(p, in, out, k, base));
}

/* ---- by columns -------------------------------------------------------------------------------------------------- */

/* Copies elements of `rows` rows of a strip, contiguous with each other or not, to a tile or back. */
static void load_strip(const row_access *a, char *tile, const char *from, int64_t rows, int64_t width) {
  const bool adjoin = a->along == width * a->across;
  const int64_t n = adjoin ? rows * width : width;
  for (int64_t i = 0; i < (adjoin ? 1 : rows); ++i) a->load(tile + i * n * a->size, from + i * a->along, a->across, n);
}
static void store_strip(const row_access *a, char *to, const char *tile, int64_t rows, int64_t width) {
  const bool adjoin = a->along == width * a->across;
  const int64_t n = adjoin ? rows * width : width;
  for (int64_t i = 0; i < (adjoin ? 1 : rows); ++i) a->store(to + i * a->along, a->across, tile + i * n * a->size, n);
}

static void scan_strip(const scan_plan *p, const char *in, char *out, int64_t width) {
  _Alignas(64) char tile[STRIP_ROWS * SCAN_WIDTH * sizeof(double)];
  scan_value base[SCAN_WIDTH], carry[SCAN_WIDTH], total[SCAN_WIDTH];
  const bool direct = p->in_is_direct && p->out_is_direct;
  /* complete groups */
  const int64_t pitch = width * p->in.size, most = direct ? BLOCK : SCAN_WIDTH / width * STRIP_ROWS;
  for (int64_t j = 0; j < width; ++j) carry[j] = base[j] = total[j] = p->unit;
  for (int64_t k = 0, rows; k < p->n; k += rows) {
    rows = i64_min(i64_min(most, CHUNK - k % CHUNK), p->n - k);
    if (k && k % CHUNK == 0)
      for (int64_t j = 0; j < width; ++j) {
        carry[j] = base[j] = scan_joined(p, base[j], total[j]);
        total[j] = p->unit;
      }
    const char *x = in + k * p->in.along;
    char *o = out + k * p->out.along;
    if (direct) {
      p->loops->columns(o, p->out.along, x, p->in.along, rows, width, carry, total);
      continue;
    }
    load_strip(&p->in, tile, x, rows, width);
    p->loops->columns(tile, pitch, tile, pitch, rows, width, carry, total);
    store_strip(&p->out, o, tile, rows, width);
  }
}

/* ---- many short rows at a time, transposed into columns if needed ------------------------------------------------ */

typedef struct {
  _Alignas(64) char rows[SHORT_MOST * SCAN_WIDTH * sizeof(float)];
  _Alignas(64) char turned[SHORT_MOST * SCAN_WIDTH * sizeof(float)];
} turn_buffer;

/* Scans rows of `packed` bytes that are contiguous with each other. */
static void scan_packed(const scan_plan *p, int64_t packed, int64_t width, turn_buffer *b) {
  scan_value carry[SCAN_WIDTH], total[SCAN_WIDTH];
  const int64_t pitch = width * p->in.size;
  if (p->loops->rows) {
    p->loops->rows(b->rows, packed, b->rows, packed, p->n, width);
    return;
  }
  for (int64_t j = 0; j < width; ++j) carry[j] = total[j] = p->unit;
  reduction->turn(b->turned, pitch, b->rows, packed, width, p->n, p->in.size);
  p->loops->columns(b->turned, pitch, b->turned, pitch, p->n, width, carry, total);
  reduction->turn(b->rows, packed, b->turned, pitch, p->n, width, p->in.size);
}

static void scan_short_rows(const scan_plan *p, const char *in, char *out, int64_t width, turn_buffer *b) {
  const int64_t n = p->n, packed = n * p->in.size;
  const bool gapless_in = p->in.across == n * p->in.along, gapless_out = p->out.across == n * p->out.along;
  if (p->loops->rows && p->in.direct && p->out.direct) {
    p->loops->rows(out, p->out.across, in, p->in.across, n, width);
    return;
  }
  if (gapless_in)
    p->in.load(b->rows, in, p->in.along, n * width);
  else
    for (int64_t j = 0; j < width; ++j) p->in.load(b->rows + j * packed, in + j * p->in.across, p->in.along, n);
  scan_packed(p, packed, width, b);
  if (gapless_out)
    p->out.store(out, p->out.along, b->rows, n * width);
  else
    for (int64_t j = 0; j < width; ++j) p->out.store(out + j * p->out.across, p->out.along, b->rows + j * packed, n);
}

/* ---- running maxima ---------------------------------------------------------------------------------------------- */

static void extreme_strip(const scan_plan *p, const char *in, char *out, char *places, int64_t width) {
  _Alignas(64) char best[SCAN_WIDTH * sizeof(double)];
  _Alignas(64) char tile[STRIP_ROWS * SCAN_WIDTH * sizeof(double)];
  int64_t place[SCAN_WIDTH], found[STRIP_ROWS * SCAN_WIDTH];
  const int64_t pitch = width * p->in.size, places_pitch = width * (int64_t)sizeof *found;
  for (int64_t k = 0, rows; k < p->n; k += rows) {
    rows = i64_min(STRIP_ROWS, p->n - k);
    for (int64_t i = 0; i < rows; ++i) p->in.load(tile + i * pitch, in + (k + i) * p->in.along, p->in.across, width);
    p->extreme(tile, found, pitch, places_pitch, tile, pitch, k, rows, width, best, place);
    for (int64_t i = 0; i < rows; ++i) {
      p->out.store(out + (k + i) * p->out.along, p->out.across, tile + i * pitch, width);
      p->places.store(places + (k + i) * p->places.along, p->places.across, found + i * width, width);
    }
  }
}

/* Scans a row as a strip of one column, whose elements are loaded into tiles. */
static void extreme_row(const scan_plan *p, const char *in, char *out, char *places) {
  _Alignas(64) char tile[BLOCK * sizeof(double)];
  int64_t place, found[BLOCK];
  double best;
  for (int64_t k = 0, n; k < p->n; k += n) {
    n = i64_min(BLOCK, p->n - k);
    p->in.load(tile, in + k * p->in.along, p->in.along, n);
    p->extreme(tile, found, p->in.size, sizeof *found, tile, p->in.size, k, n, 1, &best, &place);
    p->out.store(out + k * p->out.along, p->out.along, tile, n);
    p->places.store(places + k * p->places.along, p->places.along, found, n);
  }
}

/* ---- execution --------------------------------------------------------------------------------------------------- */

/* Scans rows `begin` to `end` completely. */
static void scan_rows(const void *job, int64_t begin, int64_t end) {
  const scan_job *j = job;
  const scan_plan *p = j->plan;
  turn_buffer b;
  cursor c;
  cursor_start(&c, &p->rows, j->view, begin);
  for (int64_t i = begin, width; i < end; i += width, cursor_next(&c, width)) {
    width = p->by_columns || p->are_short ? cursor_row(&c, i64_min(SCAN_WIDTH, end - i)) : 1;
    const char *in = c.at[0] + p->first_in;
    char *out = c.at[1] + p->first_out;
    if (p->exclusive) {
      const compute_value unit[1] = {p->unit};
      for (int64_t k = 0; k < width; ++k)
        p->store_unit(c.at[1] + p->first_out - p->out.along + k * p->out.across, 0, unit, 1);
    }
    if (p->extreme && p->by_columns)
      extreme_strip(p, in, out, c.at[2], width);
    else if (p->extreme)
      extreme_row(p, in, out, c.at[2]);
    else if (p->are_short)
      scan_short_rows(p, in, out, width, &b);
    else if (p->by_columns)
      scan_strip(p, in, out, width);
    else
      scan_row(p, in, out);
  }
}

/* Scans chunks `begin` to `end`; those of a row are adjacent. */
static void scan_chunks(const void *job, int64_t begin, int64_t end) {
  const scan_job *j = job;
  const scan_plan *p = j->plan;
  for (int64_t i = begin; i < end; ++i) {
    cursor c;
    cursor_start(&c, &p->rows, j->view, i / p->n_chunks);
    const int64_t first = i % p->n_chunks * CHUNK;
    const char *in = c.at[0] + p->first_in;
    if (j->totals_only)
      j->bases[i] = scan_chunk(p, in, NULL, first, p->unit);
    else
      scan_chunk(p, in, c.at[1] + p->first_out, first, j->bases[i]);
  }
}

/* Scans chunks separately: first their totals, then their bases, then the chunks themselves. */
static void scan_apart(const parallel_team *team, scan_job *job) {
  const scan_plan *p = job->plan;
  job->totals_only = true;
  parallel_ranges(team, scan_chunks, job, p->rows.n * p->n_chunks, 1);
  for (int64_t r = 0; r < p->rows.n; ++r) {
    scan_value base = p->unit;
    for (int64_t k = 0; k < p->n_chunks; ++k) {
      const scan_value total = job->bases[r * p->n_chunks + k];
      job->bases[r * p->n_chunks + k] = base;
      base = scan_joined(p, base, total);
    }
  }
  job->totals_only = false;
  parallel_ranges(team, scan_chunks, job, p->rows.n * p->n_chunks, 1);
}

/* Scans all rows of real numbers, or of the real or imaginary parts. */
static void scan_whole(const executor *e, scan_job *of, void *scratch) {
  const scan_plan *p = of->plan;
  scan_job job = *of;
  const bool apart = p->n_chunks > 1 && p->rows.n < MANY_ROWS && !p->by_columns && !p->extreme && !p->exclusive;
  const parallel_team team = parallel_begin(apart ? e->cost_ns : 0);
  if (team.n_threads == 1) {
    rows_parallel(scan_rows, &job, p->rows.n, p->by_columns || p->are_short ? SCAN_WIDTH : 1, apart ? 0 : e->cost_ns);
  } else {
    job.bases = (scan_value *)(void *)((char *)scratch + p->totals);
    scan_apart(&team, &job);
  }
  parallel_end(&team);
}

/* Stores zeros as imaginary parts of real results. */
static void clear_rows(const void *job, int64_t begin, int64_t end) {
  static const scan_value zero[BLOCK];
  const scan_job *j = job;
  const scan_plan *p = j->plan;
  const int64_t n = p->n + p->exclusive;
  cursor c;
  cursor_start(&c, &p->rows, j->view, begin);
  for (int64_t i = begin; i < end; ++i, cursor_next(&c, 1))
    for (int64_t k = 0, some; k < n; k += some) {
      some = i64_min(BLOCK, n - k);
      p->store_unit(c.at[1] + p->first_out + (k - p->exclusive) * p->out.along, p->out.along, zero, some);
    }
}

static status scan_run(const executor *e, void *const *view, void *scratch) {
  const scan_plan *p = PLAN(e, scan_plan);
  scan_job job = {.plan = p, .view = {view[0], e->n_operands > 1 ? view[1] : view[0]}};
  if (p->extreme) job.view[2] = view[2];
  if (p->rows.n == 0) return ST_OK;
  scan_whole(e, &job, scratch);
  if (!p->imaginary[1]) return ST_OK;
  for (int k = 0; k < 2; ++k) job.view[k] = (char *)job.view[k] + p->imaginary[k];
  if (p->imaginary[0])
    scan_whole(e, &job, scratch);
  else
    rows_parallel(clear_rows, &job, p->rows.n, 1, e->cost_ns);
  return ST_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

typedef struct {
  const tensor *self, *out, *places; /* places: only for maxima and minima */
  int dim;
  bool exclusive, reverse;
} scan_call;

/* Completes a plan whose `compute` and loops are set. */
static void plan_scan(executor *e, scan_plan *p, const scan_call *c) {
  view in = view_of(c->self), out = view_of(c->out), places = c->places ? view_of(c->places) : in;
  p->imaginary[0] = dtype_part_bytes(in.dtype);
  p->imaginary[1] = dtype_part_bytes(out.dtype);
  in.dtype = dtype_part(in.dtype);
  out.dtype = dtype_part(out.dtype);
  p->n = c->self->rank ? c->self->dims[c->dim] : 1;
  int64_t along[3];
  axis_init(&p->rows, along, (view *const[]){&in, &out, &places}, c->places ? 3 : 2, c->dim);
  if (p->n == 0) p->rows.n = 0;
  p->first_in = p->first_out = 0;
  if (c->reverse) {
    p->first_in = (p->n - 1) * along[0];
    p->first_out = (p->n - 1) * along[1];
    along[0] = -along[0];
    along[1] = -along[1];
  }
  p->exclusive = c->exclusive;
  if (c->exclusive) { /* results move one position further; the first is the neutral element */
    p->first_out += along[1];
    --p->n;
  }
  const int last = p->rows.rank - 1;
  const int64_t *across[3] = {&p->rows.strides[0][last], &p->rows.strides[1][last], &p->rows.strides[2][last]};
  row_access_init(&p->in, in.dtype, p->compute, along[0], *across[0], BLOCK);
  row_access_init(&p->out, out.dtype, p->compute, along[1], *across[1], BLOCK);
  if (c->places) row_access_init(&p->places, c->places->dtype, COMPUTE_I64, along[2], *across[2], BLOCK);
  const int64_t step = along[1] < 0 ? -along[1] : along[1];
  p->by_columns = p->rows.dims[last] > 1 && p->out.across < step;
  p->are_short = !p->by_columns && p->rows.dims[last] > 1 && p->n <= SHORT_MOST && p->compute == COMPUTE_F32 &&
                 !c->places && along[0] == (int64_t)dtype_bytes(in.dtype) &&
                 along[1] == (int64_t)dtype_bytes(out.dtype);
  p->in_is_direct = row_access_of(in.dtype, p->compute, *across[0], 0, BLOCK).direct;
  p->out_is_direct = row_access_of(out.dtype, p->compute, *across[1], 0, BLOCK).direct;
  p->store_unit = loops->store[out.dtype][p->compute == COMPUTE_I64 ? COMPUTE_I64 : COMPUTE_F64];
  p->n_chunks = (p->n + CHUNK - 1) / CHUNK;
  p->totals = 0;
  if (p->n_chunks > 1 && p->rows.n < MANY_ROWS && !c->places)
    p->totals = (int64_t)workspace_partial(e, (uint64_t)(p->rows.n * p->n_chunks) * sizeof(scan_value));
  executor_cost(e, (uint64_t)c->self->n * (dtype_bytes(c->self->dtype) + dtype_bytes(c->out->dtype)),
                (uint64_t)c->self->n * (p->imaginary[0] ? 16 : 8));
  e->run = scan_run;
}

static status plan_cumulation(executor *e, scan_kind kind, const scan_call *c) {
  scan_plan *p = PLAN(e, scan_plan);
  const int in = dtype_part(c->self->dtype), out = dtype_part(c->out->dtype);
  const uint64_t allowed = DTYPES_REAL | (kind == SCAN_SUM ? DTYPES_COMPLEX : 0);
  TRY(op_expect_dtype(c->self, e->operands[0].name, allowed));
  TRY(op_expect_dtype(c->out, "out", allowed & ~DTYPE_BIT(ACL_BOOL)));
  EXPECT(!dtype_is_complex(c->self->dtype) || dtype_is_complex(c->out->dtype),
         "out has dtype %s, expected a complex one as self is %s", dtype_name(c->out->dtype),
         dtype_name(c->self->dtype));
  TRY(op_expect_same_shape(c->out, "out", c->self));
  p->compute = !dtype_is_float(out)                                          ? COMPUTE_I64
               : dtype_is_float(in) && in != ACL_DOUBLE && out != ACL_DOUBLE ? COMPUTE_F32
                                                                             : COMPUTE_F64;
  p->loops = &scans->scan[kind][p->compute];
  p->extreme = NULL;
  p->multiplies = kind == SCAN_PRODUCT;
  p->unit =
      p->compute == COMPUTE_I64 ? (scan_value){.i64 = kind == SCAN_PRODUCT} : (scan_value){.f64 = kind == SCAN_PRODUCT};
  plan_scan(e, p, c);
  return ST_OK;
}

/* (self, dim, dtype, out) */
status prepare_cumsum(executor *e, const cumsum_args *a) {
  scan_call c = {.self = a->self, .out = a->out};
  TRY(op_expect_dtype_argument(a->dtype, c.out));
  TRY(op_expect_dim(a->dim, "dim", c.self->rank, &c.dim));
  return plan_cumulation(e, SCAN_SUM, &c);
}

/* (self, dim, exclusive, reverse, out) */
status prepare_cumsum_v2(executor *e, const cumsum_v2_args *a) {
  scan_call c = {.self = a->self, .out = a->out, .exclusive = a->exclusive, .reverse = a->reverse};
  EXPECT(c.out->dtype == c.self->dtype, "out has dtype %s, expected that of self, %s", dtype_name(c.out->dtype),
         dtype_name(c.self->dtype));
  TRY(op_expect_dim(a->dim, "dim", c.self->rank, &c.dim));
  return plan_cumulation(e, SCAN_SUM, &c);
}

/* Cumsum and Cumprod called by operator name. */
status prepare_graph_cumsum(executor *e, const graph_cumsum_args *a) {
  EXPECT(a->axis->size == 1, "axis has %ju elements, expected 1", (uintmax_t)a->axis->size);
  scan_call c = {.self = a->x, .out = a->y, .exclusive = a->exclusive, .reverse = a->reverse};
  EXPECT(c.out->dtype == c.self->dtype, "y has dtype %s, expected that of x, %s", dtype_name(c.out->dtype),
         dtype_name(c.self->dtype));
  TRY(op_expect_dim(a->axis->value[0], "axis", c.self->rank, &c.dim));
  return plan_cumulation(e, e->op->variant == GRAPH_CUMSUM_PRODUCT ? SCAN_PRODUCT : SCAN_SUM, &c);
}

static status expect_integer_dim(const scalar *dim) {
  EXPECT(dtype_is_integer(dim->dtype), "dim is %s, expected an integer", dtype_name(dim->dtype));
  return ST_OK;
}

/* (input, dim, dtype, out); without dtype it is out's. */
status prepare_cumprod(executor *e, const cumprod_args *a) {
  scan_call c = {.self = a->input, .out = a->out};
  if (a->dtype != ACL_DT_UNDEFINED) TRY(op_expect_dtype_argument(a->dtype, c.out));
  TRY(expect_integer_dim(a->dim));
  TRY(op_expect_dim(scalar_integer(a->dim), "dim", c.self->rank, &c.dim));
  return plan_cumulation(e, SCAN_PRODUCT, &c);
}

/* (input, dim) */
status prepare_cumprod_in_place(executor *e, const cumprod_in_place_args *a) {
  scan_call c = {.self = a->input, .out = a->input};
  TRY(expect_integer_dim(a->dim));
  TRY(op_expect_dim(scalar_integer(a->dim), "dim", c.self->rank, &c.dim));
  return plan_cumulation(e, SCAN_PRODUCT, &c);
}

/* (self, dim, valuesOut, indicesOut) */
status prepare_cummax(executor *e, const cummax_args *a) {
  scan_plan *p = PLAN(e, scan_plan);
  scan_call c = {.self = a->self, .out = a->values_out, .places = a->indices_out};
  TRY(op_expect_dtype(c.self, "self", DTYPES_REAL));
  EXPECT(c.out->dtype == c.self->dtype, "valuesOut has dtype %s, expected that of self, %s", dtype_name(c.out->dtype),
         dtype_name(c.self->dtype));
  TRY(op_expect_dtype(c.places, "indicesOut", DTYPES_INDEX));
  TRY(op_expect_same_shape(c.out, "valuesOut", c.self));
  TRY(op_expect_same_shape(c.places, "indicesOut", c.self));
  TRY(op_expect_dim(a->dim, "dim", c.self->rank, &c.dim));
  p->compute = !dtype_is_float(c.self->dtype) ? COMPUTE_I64 : c.self->dtype == ACL_DOUBLE ? COMPUTE_F64 : COMPUTE_F32;
  p->extreme = scans->extreme[e->op->variant == CUMMAX_MIN][p->compute];
  p->loops = NULL;
  plan_scan(e, p, &c);
  return ST_OK;
}
