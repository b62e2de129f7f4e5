/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/resample/separable.h"

#include "kernel/engine/level_choice.h"
#include "kernel/engine/rows.h"
#include "kernel/resample/resample_loops.h"

LEVEL_CHOICE(resample_loops_table, resample_loops, resample_loops_table)

enum { TILE = 1024, FLUSH_ROWS = 64 };

typedef struct {
  walk planes;                  /* operands: 0 the input, 1 the output */
  band axis[BAND_AXES];         /* depth, height, width */
  int64_t stride[2][BAND_AXES]; /* bytes, of the input and the output */
  load_loop *load;
  store_loop *store;
  int8_t element;             /* bytes of an element in the type that is computed in */
  bool direct_in, direct_out; /* rows are read or written in place, without a tile */
  bool is_double;
} separable_plan;

typedef struct {
  const separable_plan *plan;
  void *const *view;
} separable_job;

/* One row of the output, and the input rows that contribute to it. */
typedef struct {
  const separable_plan *p;
  const resample_type_loops *loops;
  const char *in; /* the first input row's first element */
  char *out;
  const double *weight[2]; /* along depth and height; NULL: all 1 */
  int64_t count[2];
  double divisor;
} row_job;

typedef struct {
  _Alignas(64) char in[RESAMPLE_ROWS][TILE * sizeof(double)];
  char sum[TILE * sizeof(double)], total[TILE * sizeof(double)], out[TILE * sizeof(double)];
} row_tiles;

/* Returns the weighted sum of elements [begin, begin + n) of the input rows: in a tile, or in place if it is just
 * one row. */
static const char *separable_combine_rows(const row_job *j, row_tiles *t, int64_t begin, int64_t n) {
  const separable_plan *p = j->p;
  const int64_t total = j->count[0] * j->count[1];
  const bool unit = !j->weight[0] && !j->weight[1];
  bool flushed = false, added = false;
  const void *rows[RESAMPLE_ROWS];
  double w[RESAMPLE_ROWS];
  int waiting = 0;
  if (total == 0) return memset(t->sum, 0, (size_t)(n * p->element));
  for (int64_t r = 0; r < total; ++r) {
    const int64_t d = r / j->count[1], h = r % j->count[1];
    const char *at = j->in + d * p->stride[0][0] + h * p->stride[0][1] + begin * p->stride[0][2];
    w[waiting] = (j->weight[0] ? j->weight[0][d] : 1) * (j->weight[1] ? j->weight[1][h] : 1);
    if (p->direct_in) {
      rows[waiting] = at;
    } else {
      p->load(t->in[waiting], at, p->stride[0][2], n);
      rows[waiting] = t->in[waiting];
    }
    if (total == 1 && w[0] == 1) return rows[0];
    if (++waiting < RESAMPLE_ROWS && r + 1 < total) continue;
    j->loops->rows(t->sum, rows, unit ? NULL : w, waiting, n, added);
    added = true;
    waiting = 0;
    if ((r + 1) % FLUSH_ROWS == 0 || (flushed && r + 1 == total)) {
      const void *sum = t->sum;
      j->loops->rows(t->total, &sum, NULL, 1, n, flushed);
      flushed = true;
      added = false;
    }
  }
  return flushed ? t->total : t->sum;
}

static double separable_sum(const row_job *j, const char *x, const char *w, int64_t n) {
  double sum = 0;
  const int size = j->p->element;
  for (int64_t i = 0, m; i < n; i += m) {
    m = i64_min(REDUCE_BLOCK, n - i);
    if (w)
      sum += j->loops->dot(x + i * size, w + i * size, m);
    else if (j->p->is_double)
      sum += loops->sum_f64((const double *)(const void *)(x + i * size), m);
    else
      sum += loops->sum_f32((const float *)(const void *)(x + i * size), m);
  }
  return sum;
}

static void separable_put(const separable_plan *p, char *to, double value) {
  if (p->is_double)
    *(double *)(void *)to = value;
  else
    *(float *)(void *)to = (float)value;
}

/* Computes outputs [o, end) of the row. x: the combined row, from input `begin` on. */
static void separable_combine_columns(const row_job *j, char *to, const char *x, int64_t begin, int64_t o,
                                      int64_t end) {
  const separable_plan *p = j->p;
  const band *b = &p->axis[2];
  if (b->taps <= BAND_FEW) {
    const char *w = b->typed ? (const char *)b->typed + o * p->element : NULL;
    j->loops->few(to, x, b->first + o, b->count + o, w, b->out, (int)b->taps, begin, end - o);
    return;
  }
  for (int64_t i = o; i < end; ++i) {
    const char *w = b->typed ? (const char *)b->typed + i * b->taps * p->element : NULL;
    separable_put(p, to + (i - o) * p->element,
                  separable_sum(j, x + (b->first[i] - begin) * p->element, w, b->count[i]));
  }
}

/* Computes one output whose inputs do not fit a tile. */
static void separable_wide_column(const row_job *j, row_tiles *t, char *to, int64_t o) {
  const separable_plan *p = j->p;
  const band *b = &p->axis[2];
  const char *w = b->typed ? (const char *)b->typed + o * b->taps * p->element : NULL;
  double sum = 0;
  for (int64_t i = 0, n; i < b->count[o]; i += n) {
    n = i64_min(TILE, b->count[o] - i);
    sum += separable_sum(j, separable_combine_rows(j, t, b->first[o] + i, n), w ? w + i * p->element : NULL, n);
  }
  separable_put(p, to, sum);
}

static void separable_row(const row_job *j, row_tiles *t) {
  const separable_plan *p = j->p;
  const band *b = &p->axis[2];
  const bool tiled = !p->direct_in || j->count[0] * j->count[1] != 1 || j->weight[0] || j->weight[1];
  for (int64_t o = 0, end; o < b->out; o = end) {
    const int64_t most = p->direct_out ? b->out : i64_min(o + TILE, b->out), begin = b->first[o];
    end = most;
    if (tiled && b->end[end - 1] - begin > TILE)
      for (end = o; end < most && b->end[end] - begin <= TILE;) ++end;
    char *to = p->direct_out ? j->out + o * p->element : t->out;
    if (end == o) {
      separable_wide_column(j, t, to, o);
      ++end;
    } else {
      const int64_t n = b->end[end - 1] - begin;
      separable_combine_columns(j, to, separable_combine_rows(j, t, begin, n > 0 ? n : 1), begin, o, end);
    }
    if (b->divisor) j->loops->divide(to, b->divisor + o, j->divisor, end - o);
    if (!p->direct_out) p->store(j->out + o * p->stride[1][2], p->stride[1][2], to, end - o);
  }
}

/* Computes rows [begin, end), counted over all planes. */
static void separable_rows(const void *job, int64_t begin, int64_t end) {
  const separable_job *s = job;
  const separable_plan *p = s->plan;
  const band *const depth = &p->axis[0], *const height = &p->axis[1];
  const int64_t rows = depth->out * height->out;
  row_tiles tiles;
  cursor c;
  cursor_start(&c, &p->planes, s->view, begin / rows);
  row_job j = {.p = p, .loops = p->is_double ? &resample_loops->f64 : &resample_loops->f32};
  int64_t at[2] = {begin % rows / height->out, begin % height->out};
  for (int64_t r = begin; r < end; ++r) {
    j.in = c.at[0];
    j.out = c.at[1];
    j.divisor = 1;
    for (int a = 0; a < 2; ++a) {
      const band *b = &p->axis[a];
      j.in += (b->identity ? at[a] : b->first[at[a]]) * p->stride[0][a];
      j.out += at[a] * p->stride[1][a];
      j.count[a] = b->identity ? 1 : b->count[at[a]];
      j.weight[a] = b->identity || !b->weight ? NULL : b->weight + at[a] * b->taps;
      if (!b->identity && b->divisor) j.divisor *= b->divisor[at[a]];
    }
    separable_row(&j, &tiles);
    if (++at[1] < height->out) continue;
    at[1] = 0;
    if (++at[0] < depth->out) continue;
    at[0] = 0;
    cursor_next(&c, 1);
  }
}

/* Returns whether each plane is one row that is summed up to one output. */
static bool separable_is_total(const separable_plan *p) {
  const band *const b = &p->axis[2];
  return p->axis[0].identity && p->axis[1].identity && b->out == 1 && !b->weight && p->axis[0].out == 1 &&
         p->axis[1].out == 1;
}

static void separable_totals(const void *job, int64_t begin, int64_t end) {
  const separable_job *s = job;
  const separable_plan *p = s->plan;
  const band *const b = &p->axis[2];
  row_tiles tiles;
  cursor c;
  cursor_start(&c, &p->planes, s->view, begin);
  row_job j = {
      .p = p, .loops = p->is_double ? &resample_loops->f64 : &resample_loops->f32, .count = {1, 1}, .divisor = 1};
  for (int64_t r = begin; r < end; ++r, cursor_next(&c, 1)) {
    double total = 0;
    j.in = c.at[0];
    for (int64_t i = 0, n; i < b->in; i += n) {
      n = i64_min(TILE, b->in - i);
      total += separable_sum(&j, separable_combine_rows(&j, &tiles, i, n), NULL, n);
    }
    total /= b->divisor ? b->divisor[0] : 1;
    _Alignas(double) char result[sizeof(double)];
    separable_put(p, result, total);
    p->store(c.at[1], 0, result, 1);
  }
}

static status separable_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const separable_plan *p = PLAN(e, separable_plan);
  /* The walk's operands are the first and the last tensor of the call. */
  void *const at[] = {view[0], view[e->n_operands - 1]};
  const separable_job job = {.plan = p, .view = at};
  rows_parallel(separable_is_total(p) ? separable_totals : separable_rows, &job,
                p->planes.n * p->axis[0].out * p->axis[1].out, 1, e->cost_ns);
  return ST_OK;
}

static status separable_run_empty(const executor *e, void *const *view, void *scratch) {
  (void)e, (void)view, (void)scratch;
  return ST_OK;
}

/* Averages over whole axes: merges them into the last axis where the input is contiguous across them. */
static void separable_merge_axes(band_spec *axis, view *in) {
  for (int a = BAND_AXES - 2; a >= 0; --a) {
    const int d = in->rank - BAND_AXES + a;
    const bool whole = axis[2].kind == BAND_ADAPTIVE && axis[2].out == 1 && axis[a].out == 1 &&
                       (axis[a].kind == BAND_ADAPTIVE || axis[a].in == 1);
    if (!whole || (axis[a].in > 1 && in->strides[d] != axis[2].in * in->strides[in->rank - 1])) return;
    axis[2].in *= axis[a].in;
    in->dims[in->rank - 1] = axis[2].in;
    in->dims[d] = 1;
    axis[a] = (band_spec){.kind = BAND_IDENTITY, .in = 1, .out = 1};
  }
}

/* A view of t with dimensions of 1 inserted before its last n, so that the last BAND_AXES are the axes. */
static void separable_view_init(view *v, const tensor *t, int n) {
  view_init(v, t);
  const int more = BAND_AXES - n, keep = v->rank - n;
  for (int d = v->rank - 1; d >= keep; --d) {
    v->dims[d + more] = v->dims[d];
    v->strides[d + more] = v->strides[d];
  }
  for (int d = keep; d < keep + more; ++d) v->dims[d] = 1, v->strides[d] = 0;
  v->rank += more;
}

status separable_prepare(executor *e, const tensor *in, const tensor *out, const band_spec *axis, int n,
                         bool transposed) {
  e->run = separable_run_empty;
  if (out->n == 0) return ST_OK;
  separable_plan *p = PLAN(e, separable_plan);
  view v[2];
  separable_view_init(&v[0], in, n);
  separable_view_init(&v[1], out, n);
  band_spec spec[BAND_AXES];
  for (int a = 0; a < BAND_AXES - n; ++a) spec[a] = (band_spec){.kind = BAND_IDENTITY, .in = 1, .out = 1};
  memcpy(spec + BAND_AXES - n, axis, (size_t)n * sizeof *axis);
  if (!transposed) separable_merge_axes(spec, &v[0]);
  p->is_double = in->dtype == ACL_DOUBLE || out->dtype == ACL_DOUBLE;
  TRY(bands_make(e, spec, BAND_AXES, transposed, p->is_double, p->axis));
  for (int k = 0; k < 2; ++k)
    for (int a = 0; a < BAND_AXES; ++a) p->stride[k][a] = v[k].strides[v[k].rank - BAND_AXES + a];
  const compute_type compute = p->is_double ? COMPUTE_F64 : COMPUTE_F32;
  const int computed = p->is_double ? ACL_DOUBLE : ACL_FLOAT;
  p->element = p->is_double ? sizeof(double) : sizeof(float);
  p->load = loops->load[in->dtype][compute];
  p->store = loops->store[out->dtype][compute];
  p->direct_in = in->dtype == computed && (p->stride[0][2] == p->element || p->axis[2].in == 1);
  p->direct_out = out->dtype == computed && (p->stride[1][2] == p->element || p->axis[2].out == 1);
  const view *const walked[] = {&v[0], &v[1]};
  walk_init(&p->planes, walked, 2, v[0].rank - BAND_AXES);
  e->run = separable_run;
  const int64_t taps = p->axis[0].taps * p->axis[1].taps * p->axis[2].in / p->axis[2].out + p->axis[2].taps * 2;
  executor_cost(e, (uint64_t)in->n * dtype_bytes(in->dtype) + (uint64_t)out->n * dtype_bytes(out->dtype),
                (uint64_t)out->n * (uint64_t)(8 + taps * 4));
  return ST_OK;
}
