/* Sums, means, maxima and their places over any dimensions.
 *
 * What an output element is made of is fixed by the shape alone: the elements that are reduced, in logical (row-major)
 * order, make blocks of REDUCE_BLOCK; a block is reduced by one of the inner loops; 64 blocks make a chunk, whose
 * result is that of its blocks, in order; the chunks' results are combined in order again. Sums of floats within a
 * block are in the compute type, beyond it in double. So strides, offsets and threads change no bit.
 *
 * Memory is walked in one of two ways: an output at a time, its blocks brought into a tile; or, where outputs are
 * nearer to each other than the elements of one (the sum over a matrix's first dimension), a strip of outputs at a
 * time, row by row, by the very additions that the inner loops make. */
#include <math.h>

#include "kernel/families.h"
#include "kernel/engine/rows.h"

enum {
  CHUNK = 64 * REDUCE_BLOCK,
  FEW_OUTPUTS = 64,   /* up to as many, threads share out chunks, else outputs */
  STRIP_BYTES = 2048, /* of a compute type: long enough for prefetching, and 16 lanes of it stay in L1 and L2 */
  STRIP = STRIP_BYTES / sizeof(float),
  GRAIN = 64, /* outputs */
};

typedef struct {
  walk outputs;  /* the dimensions that are kept; operand 0: the input, 1: the output */
  view reduced;  /* the others, merged */
  row_access in; /* of their innermost */
  store_loop *store;
  int64_t n, n_chunks; /* per output */
  uint64_t partials;   /* offset in the workspace: partial[outputs][n_chunks], where `split` */
  uint8_t compute;
  bool sums, mean, wants_index, split;
  bool strips, row_is_direct; /* outputs by strips; their elements lie side by side in the compute type */
} reduce_plan;

/* The result of some elements. Floats are kept as double. */
typedef struct {
  compute_value value;
  int64_t index; /* of maxima: the first one's, 0 where nobody asks; -1: of no element */
} partial;

typedef struct {
  const reduce_plan *plan;
  void *const *view;
  partial *partials;
} reduce_job;

/* What a thread works in. */
typedef union {
  _Alignas(64) char tile[REDUCE_BLOCK * sizeof(double)];
  struct {
    _Alignas(64) char lane[REDUCE_LANES][STRIP_BYTES]; /* of the block so far; maxima use the first */
    char row[STRIP_BYTES];
    int64_t index[STRIP]; /* of maxima, in the block */
  } strip;
} reduce_buffer;

/* ---- what is done to blocks -------------------------------------------------------------------------------------- */

static int64_t wrapping_sum(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

static bool is_float(const reduce_plan *p) { return p->compute != COMPUTE_I64; }

static compute_value block_sum(const reduce_plan *p, const void *x, int64_t n) {
  switch (p->compute) {
  case COMPUTE_F32: return (compute_value){.f64 = loops->sum_f32(x, n)};
  case COMPUTE_F64: return (compute_value){.f64 = loops->sum_f64(x, n)};
  default: return (compute_value){.i64 = loops->sum_i64(x, n)};
  }
}

static compute_value block_max(const reduce_plan *p, const void *x, int64_t n) {
  switch (p->compute) {
  case COMPUTE_F32: return (compute_value){.f64 = loops->max_f32(x, n)};
  case COMPUTE_F64: return (compute_value){.f64 = loops->max_f64(x, n)};
  default: return (compute_value){.i64 = loops->max_i64(x, n)};
  }
}

/* Where v, which is there, is first; NaN counts as equal to NaN. */
static int64_t find(const reduce_plan *p, const void *x, compute_value v) {
  int64_t i = 0;
  if (!is_float(p)) {
    while (((const int64_t *)x)[i] != v.i64) ++i;
    return i;
  }
  for (;; ++i) {
    const double y = p->compute == COMPUTE_F32 ? ((const float *)x)[i] : ((const double *)x)[i];
    if (y == v.f64 || (y != y && v.f64 != v.f64)) return i;
  }
}

/* Whether a replaces b as the maximum, coming after it. Nothing replaces NaN. */
static bool exceeds(const reduce_plan *p, compute_value a, compute_value b) {
  if (!is_float(p)) return a.i64 > b.i64;
  return a.f64 > b.f64 || (a.f64 != a.f64 && b.f64 == b.f64);
}

static const partial nothing = {.value = {.i64 = 0}, .index = -1};

/* r becomes the result of what it stands for and what follows. */
static void combine(const reduce_plan *p, partial *r, const partial *next) {
  if (p->sums) {
    if (is_float(p))
      r->value.f64 += next->value.f64;
    else
      r->value.i64 = wrapping_sum(r->value.i64, next->value.i64);
  } else if (next->index >= 0 && (r->index < 0 || exceeds(p, next->value, r->value))) {
    *r = *next;
  }
}

/* A block that starts at element `first` of its output. */
static void combine_block(const reduce_plan *p, partial *r, const void *x, int64_t n, int64_t first) {
  partial next = {.value = p->sums ? block_sum(p, x, n) : block_max(p, x, n)};
  if (p->wants_index && (r->index < 0 || exceeds(p, next.value, r->value))) next.index = first + find(p, x, next.value);
  combine(p, r, &next);
}

static void finish(const reduce_plan *p, const partial *r, char *to) {
  compute_value v = r->value;
  if (p->mean) v.f64 /= (double)p->n;
  if (p->wants_index) v.i64 = r->index;
  p->store(to, 0, &v, 1);
}

/* ---- an output at a time ----------------------------------------------------------------------------------------- */

/* The next n elements, in a tile or where they are. */
static const char *next_block(const reduce_plan *p, cursor *c, char *tile, int64_t n) {
  if (cursor_row(c, n) == n) {
    const char *x = row_fetch(&p->in, tile, c->at[0], 1, n);
    cursor_next(c, n);
    return x;
  }
  for (int64_t done = 0, run; done < n; done += run, cursor_next(c, run)) {
    run = cursor_row(c, n - done);
    row_load(&p->in, tile + done * p->in.size, c->at[0], 1, run);
  }
  return tile;
}

static void reduce_blocks(const reduce_plan *p, cursor *c, int64_t first, int64_t end, char *tile, partial *result) {
  *result = nothing;
  for (int64_t k = first, n; k < end; k += n) {
    n = smaller(REDUCE_BLOCK, end - k);
    combine_block(p, result, next_block(p, c, tile, n), n, k);
  }
}

/* ---- a strip of outputs at a time -------------------------------------------------------------------------------- */

static const compute_value no_parameters[ELEMENTWISE_PARAMETERS];

/* Element k of a block is added to lane k % REDUCE_LANES, as in loops->sum_*. The first to a 0: -0 becomes 0. */
static void add_row(const reduce_plan *p, reduce_buffer *b, const char *x, int64_t width, int64_t k) {
  static const compute_value one[N_COMPUTE][ELEMENTWISE_PARAMETERS] = {
      [COMPUTE_F32] = {{.f32 = 1}}, [COMPUTE_F64] = {{.f64 = 1}}, [COMPUTE_I64] = {{.i64 = 1}}};
  char *lane = b->strip.lane[k % REDUCE_LANES];
  if (k < REDUCE_LANES)
    loops->elementwise[EW_adds][p->compute](lane, (const void *[ELEMENTWISE_INPUTS]){x}, no_parameters, width);
  else
    loops->elementwise[EW_add][p->compute](lane, (const void *[ELEMENTWISE_INPUTS]){lane, x}, one[p->compute], width);
}

/* The tree over the lanes that n rows have filled: the sums are then in the first. Lane l is added to as by a row
 * number REDUCE_LANES + l. */
static void add_lanes(const reduce_plan *p, reduce_buffer *b, int64_t width, int64_t n) {
  for (int half = REDUCE_LANES / 2; half; half /= 2)
    for (int l = 0; l < half && l + half < n; ++l) add_row(p, b, b->strip.lane[l + half], width, REDUCE_LANES + l);
}

#define TAKE_LARGER(T)                                                                                                 \
  for (int64_t j = 0; j < width; ++j) {                                                                                \
    const T v = ((const T *)x)[j], most = ((T *)best)[j];                                                              \
    const bool larger = v > most || (v != v && most == most);                                                          \
    ((T *)best)[j] = larger ? v : most;                                                                                \
    index[j] = larger ? k : index[j];                                                                                  \
  }

static void take_row(const reduce_plan *p, reduce_buffer *b, const char *x, int64_t width, int64_t k) {
  void *best = b->strip.lane[0];
  int64_t *index = b->strip.index;
  if (k == 0) {
    memcpy(best, x, (size_t)(width * p->in.size));
    memset(index, 0, (size_t)width * sizeof *index);
  } else if (!p->wants_index) {
    loops->elementwise[EW_maximum][p->compute](best, (const void *[ELEMENTWISE_INPUTS]){x, best}, no_parameters, width);
  } else if (p->compute == COMPUTE_F32) {
    TAKE_LARGER(float)
  } else if (p->compute == COMPUTE_F64) {
    TAKE_LARGER(double)
  } else {
    TAKE_LARGER(int64_t)
  }
}

static compute_value value_at(const reduce_plan *p, const void *x, int64_t j) {
  switch (p->compute) {
  case COMPUTE_F32: return (compute_value){.f64 = ((const float *)x)[j]};
  case COMPUTE_F64: return (compute_value){.f64 = ((const double *)x)[j]};
  default: return (compute_value){.i64 = ((const int64_t *)x)[j]};
  }
}

static void reduce_strip(const reduce_plan *p, cursor *c, int64_t width, int64_t first, int64_t end, reduce_buffer *b,
                         partial *result) {
  for (int64_t j = 0; j < width; ++j) result[j] = nothing;
  for (int64_t block = first, n; block < end; block += n) {
    n = smaller(REDUCE_BLOCK, end - block);
    for (int64_t k = 0; k < n; ++k, cursor_next(c, 1)) {
      const char *x = c->at[0];
      if (!p->row_is_direct) {
        p->in.load(b->strip.row, x, p->in.across, width);
        x = b->strip.row;
      }
      (p->sums ? add_row : take_row)(p, b, x, width, k);
    }
    if (p->sums) add_lanes(p, b, width, n);
    for (int64_t j = 0; j < width; ++j) {
      const partial next = {value_at(p, b->strip.lane[0], j), p->wants_index ? block + b->strip.index[j] : 0};
      combine(p, &result[j], &next);
    }
  }
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* result[]: of one chunk of `width` outputs whose first elements are at `from` and its neighbours. */
static void reduce_chunk(const reduce_plan *p, const walk *reduced, void *from, int64_t width, int64_t chunk,
                         reduce_buffer *b, partial *result) {
  const int64_t first = chunk * CHUNK, end = smaller(first + CHUNK, p->n);
  cursor c;
  cursor_start(&c, reduced, &from, first);
  if (p->strips)
    reduce_strip(p, &c, width, first, end, b, result);
  else
    reduce_blocks(p, &c, first, end, b->tile, result);
}

static walk reduced_of(const reduce_plan *p) {
  walk w;
  walk_init(&w, (const view *const[]){&p->reduced}, 1, p->reduced.rank);
  return w;
}

static int64_t strip_width(const reduce_plan *p) { return p->strips ? STRIP_BYTES / p->in.size : 1; }

/* Outputs begin to end, each all of it. */
static void reduce_outputs(const void *job, int64_t begin, int64_t end) {
  const reduce_job *j = job;
  const reduce_plan *p = j->plan;
  const walk reduced = reduced_of(p);
  reduce_buffer b;
  const int64_t out_across = p->outputs.strides[1][p->outputs.rank - 1];
  cursor c;
  cursor_start(&c, &p->outputs, j->view, begin);
  for (int64_t i = begin, width; i < end; i += width, cursor_next(&c, width)) {
    width = cursor_row(&c, smaller(strip_width(p), end - i));
    partial result[STRIP], next[STRIP];
    for (int64_t k = 0; k < width; ++k) result[k] = nothing;
    for (int64_t chunk = 0; chunk < p->n_chunks; ++chunk) {
      reduce_chunk(p, &reduced, c.at[0], width, chunk, &b, next);
      for (int64_t k = 0; k < width; ++k) combine(p, &result[k], &next[k]);
    }
    for (int64_t k = 0; k < width; ++k) finish(p, &result[k], c.at[1] + k * out_across);
  }
}

/* Parts begin to end of all outputs' chunks, those of one number side by side. */
static void reduce_parts(const void *job, int64_t begin, int64_t end) {
  const reduce_job *j = job;
  const reduce_plan *p = j->plan;
  const walk reduced = reduced_of(p);
  reduce_buffer b;
  for (int64_t i = begin, width; i < end; i += width) {
    const int64_t chunk = i / p->outputs.n, output = i % p->outputs.n;
    cursor c;
    cursor_start(&c, &p->outputs, j->view, output);
    width = cursor_row(&c, smaller(strip_width(p), end - i));
    partial result[FEW_OUTPUTS];
    reduce_chunk(p, &reduced, c.at[0], width, chunk, &b, result);
    for (int64_t k = 0; k < width; ++k) j->partials[(output + k) * p->n_chunks + chunk] = result[k];
  }
}

static void combine_parts(const reduce_job *j) {
  const reduce_plan *p = j->plan;
  for (int64_t i = 0; i < p->outputs.n; ++i) {
    partial result = nothing;
    for (int64_t k = 0; k < p->n_chunks; ++k) combine(p, &result, &j->partials[i * p->n_chunks + k]);
    cursor c;
    cursor_start(&c, &p->outputs, j->view, i);
    finish(p, &result, c.at[1]);
  }
}

static status reduce_run(const executor *e, void *const *view, void *scratch) {
  const reduce_plan *p = PLAN(e, reduce_plan);
  const reduce_job job = {.plan = p, .view = view};
  if (p->outputs.n == 0) return ST_OK;
  if (!p->split) {
    rows_parallel(reduce_outputs, &job, p->outputs.n, GRAIN, e->cost_ns);
    return ST_OK;
  }
  const reduce_job split = {.plan = p, .view = view, .partials = (void *)((char *)scratch + p->partials)};
  rows_parallel(reduce_parts, &split, p->outputs.n * p->n_chunks, 1, e->cost_ns);
  combine_parts(&split);
  return ST_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* The view's dimension d at the end of another. */
static void append_dim(view *to, const view *from, int d) {
  to->dims[to->rank] = from->dims[d];
  to->strides[to->rank++] = from->strides[d];
}

/* Fills the plan of `out`, whose shape has been checked, from the flags and the compute type that are set. */
static void reduce_plan_init(executor *e, reduce_plan *p, const tensor *self, const tensor *out, const bool *is_reduced,
                             bool keep) {
  const view x = view_of(self), y = view_of(out);
  view kept_x = {0}, kept_y = {0}, reduced = {0};
  p->n = 1;
  for (int d = 0; d < x.rank; ++d) {
    if (is_reduced[d]) {
      append_dim(&reduced, &x, d);
      p->n *= x.dims[d];
    } else {
      append_dim(&kept_y, &y, keep ? d : kept_y.rank);
      append_dim(&kept_x, &x, d);
    }
  }
  if (p->n == 0) /* There is no input to walk. */
    for (int d = 0; d < kept_x.rank; ++d) kept_x.strides[d] = 0;
  rows_sort((view *const[]){&kept_x, &kept_y}, 2);
  walk_init(&p->outputs, (const view *const[]){&kept_x, &kept_y}, 2, kept_x.rank);

  walk merged;
  walk_init(&merged, (const view *const[]){&reduced}, 1, reduced.rank);
  p->reduced = (view){.rank = merged.rank, .dtype = self->dtype};
  for (int d = 0; d < merged.rank; ++d) {
    p->reduced.dims[d] = merged.dims[d];
    p->reduced.strides[d] = merged.strides[0][d];
  }

  const int last = p->outputs.rank - 1;
  p->in = row_access_of(self->dtype, p->compute, merged.strides[0][merged.rank - 1], p->outputs.strides[0][last],
                        REDUCE_BLOCK);
  p->strips = p->outputs.dims[last] > 1 && p->in.across < p->in.along;
  p->row_is_direct = row_access_of(self->dtype, p->compute, p->in.across, 0, STRIP).direct;
  p->n_chunks = (p->n + CHUNK - 1) / CHUNK;
  p->split = p->n_chunks > 1 && p->outputs.n <= FEW_OUTPUTS;
  if (p->split) p->partials = workspace_partial(e, (uint64_t)(p->outputs.n * p->n_chunks) * sizeof(partial));
  p->store = loops->store[out->dtype][p->wants_index || !is_float(p) ? COMPUTE_I64 : COMPUTE_F64];
  executor_cost(e, (uint64_t)self->n * dtype_bytes(self->dtype) + (uint64_t)out->n * dtype_bytes(out->dtype),
                (uint64_t)self->n);
  e->run = reduce_run;
}

/* Which dimensions the list names; none: all. */
static status expect_dims(const aclIntArray *list, const char *name, int rank, bool *is_reduced) {
  for (int d = 0; d < MAX_RANK; ++d) is_reduced[d] = list->size == 0;
  for (uint64_t i = 0; i < list->size; ++i) {
    int d;
    TRY(op_expect_dim(list->value[i], name, rank, &d));
    EXPECT(!is_reduced[d], "%s has %jd twice (as dimension %d), expected different dimensions", name,
           (intmax_t)list->value[i], d);
    is_reduced[d] = true;
  }
  return ST_OK;
}

static status expect_reduced_shape(const tensor *self, const tensor *out, const bool *is_reduced, bool keep) {
  int64_t dims[MAX_RANK];
  int rank = 0;
  for (int d = 0; d < self->rank; ++d)
    if (keep || !is_reduced[d]) dims[rank++] = is_reduced[d] ? 1 : self->dims[d];
  return op_expect_shape(out, "out", dims, rank);
}

/* Of nothing there is no maximum. */
static status expect_elements(const tensor *self, const bool *is_reduced) {
  char text[SHAPE_TEXT];
  for (int d = 0; d < self->rank; ++d)
    EXPECT(!is_reduced[d] || self->dims[d],
           "self has shape %s, nothing along dimension %d, expected one element or more",
           shape_text(self->dims, self->rank, text), d);
  return ST_OK;
}

static compute_type compute_of_maxima(int dtype) {
  return dtype_is_float(dtype) ? compute_type_of(dtype) : COMPUTE_I64;
}

/* Results that are integers are sums of integers; whatever else is not just float is summed in double. */
static compute_type compute_of_sums(int dtype, int result) {
  if (!dtype_is_float(result)) return COMPUTE_I64;
  return dtype_is_float(dtype) && dtype != ACL_DOUBLE && result != ACL_DOUBLE ? COMPUTE_F32 : COMPUTE_F64;
}

static status expect_result_dtype(const tensor *self, const tensor *out, int variant, int64_t dtype) {
  TRY(op_expect_dtype(self, "self", DTYPES_REAL));
  TRY(op_expect_dtype(out, "out", variant == REDUCE_MEAN ? DTYPES_FLOAT : DTYPES_REAL));
  if (variant == REDUCE_AMAX) {
    EXPECT(out->dtype == self->dtype, "out has dtype %s, expected that of self, %s", dtype_name(out->dtype),
           dtype_name(self->dtype));
    return ST_OK;
  }
  EXPECT(out->dtype == dtype, "dtype is %s, expected that of out, %s", dtype_name((int)dtype), dtype_name(out->dtype));
  EXPECT(out->dtype != ACL_BOOL || self->dtype == ACL_BOOL, "dtype is bool, expected a number as self is %s",
         dtype_name(self->dtype));
  return ST_OK;
}

status prepare_reduce(executor *e, const op_arg *a) {
  const int variant = e->op->variant;
  const bool typed = variant != REDUCE_AMAX, keep = a[2].boolean;
  const tensor *self = a[0].tensor, *out = a[typed ? 4 : 3].tensor;
  bool is_reduced[MAX_RANK];
  TRY(expect_result_dtype(self, out, variant, typed ? a[3].integer : 0));
  TRY(expect_dims(a[1].ints, e->op->schema[1].name, self->rank, is_reduced));
  TRY(expect_reduced_shape(self, out, is_reduced, keep));
  if (!typed) TRY(expect_elements(self, is_reduced));

  reduce_plan *p = PLAN(e, reduce_plan);
  p->sums = typed;
  p->mean = variant == REDUCE_MEAN;
  p->wants_index = false;
  p->compute = (uint8_t)(typed ? compute_of_sums(self->dtype, out->dtype) : compute_of_maxima(self->dtype));
  reduce_plan_init(e, p, self, out, is_reduced, keep);
  return ST_OK;
}

status prepare_argmax(executor *e, const op_arg *a) {
  const tensor *self = a[0].tensor, *out = a[3].tensor;
  bool is_reduced[MAX_RANK] = {false};
  int dim;
  TRY(op_expect_dtype(self, "self", DTYPES_REAL));
  TRY(op_expect_dtype(out, "out", DTYPES_INDEX));
  TRY(op_expect_dim(a[1].integer, "dim", self->rank, &dim));
  is_reduced[dim] = true;
  TRY(expect_reduced_shape(self, out, is_reduced, a[2].boolean));
  TRY(expect_elements(self, is_reduced));

  reduce_plan *p = PLAN(e, reduce_plan);
  p->sums = p->mean = false;
  p->wants_index = true;
  p->compute = (uint8_t)compute_of_maxima(self->dtype);
  reduce_plan_init(e, p, self, out, is_reduced, a[2].boolean);
  return ST_OK;
}
