/* SPDX-License-Identifier: Apache-2.0 */
/* Fourier transforms by name: over any axes, complex to complex, real to half a spectrum, and half a spectrum to real
 * numbers; and cosine transforms of type 2 and their inverses. Computed in double, rounded once.
 *
 * A call loads its input, cropped or padded with zeros, into one array of real and one of imaginary parts, transforms
 * these along one axis after the other, and stores what the result has of them. Only forward transforms are computed:
 * an inverse one is the conjugate of the forward one of the conjugate. */
#include <math.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/fourier/transform.h"

enum { FOURIER_PANEL = 16 /* rows that are transformed together */, FOURIER_TILE = 256 };

/* How one kind of call differs from others. */
typedef struct {
  bool half_in, half_out; /* the last axis has the frequencies 0 to n / 2 only, since the others are conjugates */
  bool conj_in, conj_out; /* the input, or the result, is conjugated */
  bool is_inverse;        /* for the factor */
  bool real_out;          /* of the result, the imaginary parts, which should be 0, are left out */
  bool cosine;            /* a cosine transform, or its inverse, with factors that make it orthogonal */
} fourier_kind;

static const fourier_kind kinds[] = {
    [GRAPH_FOURIER_FORWARD] = {0},
    [GRAPH_FOURIER_INVERSE] = {.conj_in = true, .conj_out = true, .is_inverse = true},
    [GRAPH_FOURIER_REAL_FORWARD] = {.half_out = true},
    [GRAPH_FOURIER_REAL_INVERSE] = {.half_in = true, .conj_in = true, .is_inverse = true, .real_out = true},
    [GRAPH_FOURIER_HERMITIAN_FORWARD] = {.half_in = true, .real_out = true},
    [GRAPH_FOURIER_HERMITIAN_INVERSE] = {.half_out = true, .conj_out = true, .is_inverse = true},
    [GRAPH_FOURIER_COSINE] = {.cosine = true, .real_out = true},
    [GRAPH_FOURIER_COSINE_INVERSE] = {.cosine = true, .real_out = true, .is_inverse = true},
};

typedef struct {
  fourier_kind kind;
  int rank, n_axes;
  int axis[MAX_RANK];
  int64_t in[MAX_RANK], work[MAX_RANK], out[MAX_RANK]; /* shapes; work: of the two arrays */
  int64_t n;                                           /* elements of an array */
  int in_dtype, out_dtype;
  double factor;
  uint64_t arrays;       /* in scratch: the real parts, then the imaginary parts */
  transform *transforms; /* for each axis; in the executor's heap, followed by their tables */
} fourier_plan;

typedef struct {
  const fourier_plan *plan;
  double *re, *im;
  char *at; /* the operand */
  int axis; /* number of the axis that is transformed */
  status *result;
} fourier_job;

/* Where row number `row` of an array of shape `dims` is in an array of shape `of`, which has that row, in elements. The
 * rows are along the last dimension. */
static int64_t fourier_row(int64_t row, const int64_t *dims, const int64_t *of, int rank) {
  int64_t at = 0, step = rank ? of[rank - 1] : 1;
  for (int d = rank - 2; d >= 0; --d) {
    at += row % dims[d] * step;
    step *= of[d];
    row /= dims[d];
  }
  return at;
}

/* The numbers of an axis that are read. */
static int64_t fourier_limit(const fourier_plan *p, int d) {
  const bool half = p->kind.half_in && d == p->axis[p->n_axes - 1];
  return i64_min(p->in[d], half ? p->work[d] / 2 + 1 : p->work[d]);
}

static void fourier_load_rows(const void *arg, int64_t begin, int64_t end) {
  const fourier_job *j = arg;
  const fourier_plan *p = j->plan;
  const int64_t bytes = (int64_t)dtype_bytes(p->in_dtype), n = p->rank ? p->work[p->rank - 1] : 1;
  load_loop *load = loops->load[dtype_part(p->in_dtype)][COMPUTE_F64];
  int64_t limit[MAX_RANK];
  for (int d = 0; d < p->rank; ++d) limit[d] = fourier_limit(p, d);
  for (int64_t row = begin; row < end; ++row) {
    double *re = j->re + row * n, *im = j->im + row * n;
    memset(re, 0, (size_t)n * sizeof *re);
    memset(im, 0, (size_t)n * sizeof *im);
    int64_t rest = row;
    bool inside = true;
    for (int d = p->rank - 2; d >= 0; rest /= p->work[d--]) inside &= rest % p->work[d] < limit[d];
    if (!inside) continue;
    const char *from = j->at + fourier_row(row, p->work, p->in, p->rank) * bytes;
    const int64_t count = limit[p->rank - 1];
    load(re, from, bytes, count);
    if (!dtype_is_complex(p->in_dtype)) continue;
    load(im, from + bytes / 2, bytes, count);
    for (int64_t k = 0; p->kind.conj_in && k < count; ++k) im[k] = -im[k];
  }
}

static void fourier_store_rows(const void *arg, int64_t begin, int64_t end) {
  const fourier_job *j = arg;
  const fourier_plan *p = j->plan;
  const int64_t bytes = (int64_t)dtype_bytes(p->out_dtype), n = p->rank ? p->out[p->rank - 1] : 1;
  store_loop *store = loops->store[dtype_part(p->out_dtype)][COMPUTE_F64];
  const double factor[2] = {p->factor, p->kind.conj_out ? -p->factor : p->factor};
  double tile[FOURIER_TILE];
  for (int64_t row = begin; row < end; ++row) {
    const int64_t from = fourier_row(row, p->out, p->work, p->rank);
    for (int part = 0; part < 1 + dtype_is_complex(p->out_dtype); ++part)
      for (int64_t k = 0, m; k < n; k += m) {
        m = i64_min(FOURIER_TILE, n - k);
        const double *x = (part ? j->im : j->re) + from + k;
        for (int64_t i = 0; i < m; ++i) tile[i] = x[i] * factor[part];
        store(j->at + (row * n + k) * bytes + part * bytes / 2, bytes, tile, m);
      }
  }
}

/* Copies a panel's rows, whose elements are `step` apart, from the arrays, or back. mirrored: the upper half of the
 * frequencies is the conjugate of the lower one. */
static void fourier_gather(const fourier_job *j, const int64_t *row, int64_t rows, int64_t n, int64_t step,
                           bool mirrored, parts x) {
  double *re = x.re, *im = x.im;
  for (int64_t k = 0; k < n; ++k) {
    const bool is_conjugate = mirrored && k > n / 2;
    const int64_t at = (is_conjugate ? n - k : k) * step;
    for (int64_t r = 0; r < rows; ++r) {
      re[k * rows + r] = j->re[row[r] + at];
      im[k * rows + r] = is_conjugate ? -j->im[row[r] + at] : j->im[row[r] + at];
    }
  }
}

static void fourier_scatter(const fourier_job *j, const int64_t *row, int64_t rows, int64_t n, int64_t step, parts x) {
  const double *re = x.re, *im = x.im;
  for (int64_t k = 0; k < n; ++k)
    for (int64_t r = 0; r < rows; ++r) {
      j->re[row[r] + k * step] = re[k * rows + r];
      j->im[row[r] + k * step] = im[k * rows + r];
    }
}

/* Makhoul: A fast cosine transform in one and two dimensions. IEEE Transactions ASSP 28, 1980. The cosine transform is
 * the real part of a Fourier transform of the elements with even numbers, and then those with odd ones backwards, each
 * result turned by an angle. */
static int64_t cosine_place(int64_t k, int64_t n) { return k < (n + 1) / 2 ? 2 * k : 2 * (n - 1 - k) + 1; }

static void cosine_gather(const fourier_job *j, const int64_t *row, int64_t rows, int64_t n, int64_t step, parts x) {
  double *re = x.re, *im = x.im;
  for (int64_t k = 0; k < n; ++k) {
    const double angle = M_PI / 2 * (double)k / (double)n, scale = sqrt((k ? 0.5 : 1) / (double)n);
    const double c = cos(angle) * scale, s = sin(angle) * scale;
    for (int64_t r = 0; r < rows; ++r) {
      const double *from = j->re + row[r];
      const double low = from[k * step], high = k ? from[(n - k) * step] : 0;
      re[k * rows + r] = j->plan->kind.is_inverse ? low * c + high * s : from[cosine_place(k, n) * step];
      im[k * rows + r] = j->plan->kind.is_inverse ? high * c - low * s : 0;
    }
  }
}

static void cosine_scatter(const fourier_job *j, const int64_t *row, int64_t rows, int64_t n, int64_t step, parts x) {
  const double *re = x.re, *im = x.im;
  for (int64_t k = 0; k < n; ++k) {
    const double angle = M_PI / 2 * (double)k / (double)n, scale = sqrt((k ? 2 : 1) / (double)n);
    const double c = cos(angle) * scale, s = sin(angle) * scale;
    for (int64_t r = 0; r < rows; ++r) {
      const double a = re[k * rows + r], b = im[k * rows + r];
      if (j->plan->kind.is_inverse)
        j->re[row[r] + cosine_place(k, n) * step] = a;
      else
        j->re[row[r] + k * step] = a * c + b * s;
    }
  }
}

/* Transforms rows [begin, end) along an axis. */
static void fourier_transform_rows(const void *arg, int64_t begin, int64_t end) {
  const fourier_job *j = arg;
  const fourier_plan *p = j->plan;
  const transform *t = &p->transforms[j->axis];
  const int64_t part = t->inner * FOURIER_PANEL * (int64_t)sizeof(double), n = t->n;
  const bool mirrored = p->kind.half_in && j->axis == p->n_axes - 1;
  char *const room = scratch_take((size_t)(4 * part));
  if (!room) {
    __atomic_store_n(j->result, ST_NO_HOST_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  int64_t step = 1;
  for (int d = p->rank - 1; d > p->axis[j->axis]; --d) step *= p->work[d];
  for (int64_t rows; begin < end; begin += rows) {
    int64_t row[FOURIER_PANEL];
    parts x = {room, room + part}, spare = {room + 2 * part, room + 3 * part};
    rows = i64_min(FOURIER_PANEL, end - begin);
    for (int64_t r = 0; r < rows; ++r) row[r] = (begin + r) / step * step * n + (begin + r) % step;
    if (p->kind.cosine)
      cosine_gather(j, row, rows, n, step, x);
    else
      fourier_gather(j, row, rows, n, step, mirrored, x);
    t->loops->run(t, rows, &x, &spare);
    (p->kind.cosine ? cosine_scatter : fourier_scatter)(j, row, rows, n, step, x);
  }
}

static status fourier_run(const executor *e, void *const *view, void *scratch) {
  const fourier_plan *p = PLAN(e, fourier_plan);
  status result = ST_OK;
  double *arrays = (double *)(void *)((char *)scratch + p->arrays);
  fourier_job job = {.plan = p, .re = arrays, .im = arrays + p->n, .at = view[GRAPH_FOURIER_X], .result = &result};
  const uint64_t cost = e->cost_ns / (uint64_t)(p->n_axes + 2);
  rows_parallel(fourier_load_rows, &job, p->n / p->work[p->rank - 1], 1, cost);
  for (; job.axis < p->n_axes && result == ST_OK; ++job.axis)
    rows_parallel(fourier_transform_rows, &job, p->n / p->work[p->axis[job.axis]], FOURIER_PANEL, cost);
  int64_t n_out = 1;
  for (int d = 0; d < p->rank - 1; ++d) n_out *= p->out[d];
  job.at = view[GRAPH_FOURIER_Y];
  if (result == ST_OK) rows_parallel(fourier_store_rows, &job, n_out, 1, cost);
  return result;
}

/* ---- phase one --------------------------------------------------------------------------------------------------- */

/* The axes: those given; else the last ones, as many as there are lengths; else all. */
static status fourier_axes(const graph_fourier_args *a, fourier_plan *p) {
  const int rank = p->rank;
  const aclIntArray *given = a->dim, *lengths = a->n;
  const uint64_t n = given ? given->size : lengths ? lengths->size : (uint64_t)rank;
  unsigned seen = 0;
  EXPECT(n >= 1 && n <= (uint64_t)rank, "%s has %ju elements, expected 1 to %d", given ? "dim" : "n", (uintmax_t)n,
         rank);
  EXPECT(!lengths || lengths->size == n, "n has %ju elements, expected as many as dim, %ju", (uintmax_t)lengths->size,
         (uintmax_t)n);
  p->n_axes = (int)n;
  for (int i = 0; i < p->n_axes; ++i) {
    if (given)
      TRY(op_expect_dim(given->value[i], "dim", rank, &p->axis[i]));
    else
      p->axis[i] = rank - p->n_axes + i;
    EXPECT(!(seen >> p->axis[i] & 1), "dim has %d twice, expected different axes", p->axis[i]);
    seen |= 1u << p->axis[i];
  }
  return ST_OK;
}

/* The shapes of the arrays and of the result. */
static status fourier_shapes(const graph_fourier_args *a, fourier_plan *p) {
  double elements = 1;
  for (int d = 0; d < p->rank; ++d) p->in[d] = p->work[d] = a->x->dims[d];
  for (int i = 0; i < p->n_axes; ++i) {
    const int d = p->axis[i];
    const bool half = p->kind.half_in && i == p->n_axes - 1;
    const int64_t n = a->n ? a->n->value[i] : half ? 2 * (p->in[d] - 1) : p->in[d];
    EXPECT(n >= 1 && n <= INT32_MAX, "axis %d has length %jd, expected 1 to %d", d, (intmax_t)n, INT32_MAX);
    p->work[d] = n;
    elements *= (double)n;
  }
  memcpy(p->out, p->work, sizeof p->out);
  const int last = p->axis[p->n_axes - 1];
  if (p->kind.half_out) p->out[last] = p->work[last] / 2 + 1;
  p->n = 1;
  for (int d = 0; d < p->rank; ++d)
    EXPECT(!__builtin_mul_overflow(p->n, p->work[d], &p->n) && p->n <= INT64_MAX / 64,
           "the result has more than %jd elements, expected fewer", (intmax_t)INT64_MAX / 64);
  /* norm: 0 is "backward", 1 "forward" and 2 "ortho" */
  const int64_t norm = a->norm_ints ? a->norm_ints->value[0] : 0;
  EXPECT(norm >= 0 && norm <= 2, "norm is %jd, expected 0 (backward), 1 (forward) or 2 (ortho)", (intmax_t)norm);
  EXPECT(!p->kind.cosine || norm == 2, "norm is %jd, expected 2 (ortho)", (intmax_t)norm);
  p->factor = p->kind.cosine                      ? 1
              : norm == 2                         ? 1 / sqrt(elements)
              : p->kind.is_inverse == (norm == 0) ? 1 / elements
                                                  : 1;
  return ST_OK;
}

static status fourier_tables(executor *e, fourier_plan *p) {
  int64_t numbers = 0;
  for (int i = 0; i < p->n_axes; ++i) {
    transform t;
    transform_init(&t, p->work[p->axis[i]], false);
    numbers += transform_table_size(&t);
  }
  const size_t head = (size_t)p->n_axes * sizeof(transform);
  HEAP_PLAN(char, room, e, head + (size_t)numbers * sizeof(double));
  p->transforms = (transform *)(void *)room;
  double *table = (double *)(void *)(room + head);
  for (int i = 0; i < p->n_axes; ++i) {
    transform_init(&p->transforms[i], p->work[p->axis[i]], false);
    transform_tables(&p->transforms[i], table);
    table += transform_table_size(&p->transforms[i]);
  }
  return ST_OK;
}

static status fourier_run_nothing(const executor *e, void *const *view, void *scratch) {
  (void)e, (void)view, (void)scratch;
  return ST_OK;
}

static status fourier_prepare(executor *e, const graph_fourier_args *a, const fourier_kind *kind) {
  const tensor *x = a->x, *y = a->y;
  fourier_plan *p = PLAN(e, fourier_plan);
  const bool wide = x->dtype == ACL_DOUBLE || x->dtype == ACL_COMPLEX128;
  *p = (fourier_plan){.kind = *kind, .rank = x->rank, .in_dtype = x->dtype, .out_dtype = y->dtype};
  TRY(op_expect_dtype(x, "x", kind->half_out || kind->cosine ? DTYPES_REAL : DTYPES_REAL | DTYPES_COMPLEX));
  TRY(op_expect_dtype(y, "y",
                      DTYPE_BIT(kind->real_out ? wide ? ACL_DOUBLE : ACL_FLOAT
                                : wide         ? ACL_COMPLEX128
                                               : ACL_COMPLEX64)));
  EXPECT(x->rank >= 1, "x has %d dimensions, expected 1 or more", x->rank);
  TRY(fourier_axes(a, p));
  TRY(fourier_shapes(a, p));
  TRY(op_expect_shape(y, "y", p->out, p->rank));
  e->run = fourier_run_nothing;
  if (!y->n) return ST_OK;
  TRY(fourier_tables(e, p));
  p->arrays = workspace_intermediate(e, (uint64_t)p->n * 2 * sizeof(double));
  executor_cost(e, (uint64_t)p->n * 64 * (uint64_t)p->n_axes, (uint64_t)p->n * 128 * (uint64_t)p->n_axes);
  e->run = fourier_run;
  return ST_OK;
}

/* A list of up to MAX_RANK numbers that lives on the stack. */
typedef union {
  aclIntArray array;
  char room[sizeof(aclIntArray) + MAX_RANK * sizeof(int64_t)];
} fourier_list;

/* FFTWithSize: over the last signal_ndim axes. real: the spectrum of real numbers, of which onesided is half, or real
 * numbers of a spectrum, whose last length is then that of y. */
static status fourier_prepare_sized(executor *e, const graph_fourier_args *a) {
  static const char *const norms[] = {"backward", "forward", "ortho"};
  fourier_list dim = {.array.size = 0}, n = {.array.size = 0}, norm = {.array.size = 1};
  const int rank = a->x->rank, count = (int)a->signal_ndim;
  EXPECT(a->signal_ndim >= 1 && a->signal_ndim <= i64_min(rank, 3), "signal_ndim is %jd, expected 1 to %d",
         (intmax_t)a->signal_ndim, rank < 3 ? rank : 3);
  TRY(op_expect_rank(a->y, "y", rank, rank));
  for (norm.array.value[0] = 0; norm.array.value[0] < 3; ++norm.array.value[0])
    if (!strcmp(norms[norm.array.value[0]], a->norm_string)) break;
  EXPECT(norm.array.value[0] < 3, "norm is %s, expected backward, forward or ortho", a->norm_string);
  const bool half = a->real && a->onesided;
  fourier_kind kind = kinds[half         ? a->inverse ? GRAPH_FOURIER_REAL_INVERSE : GRAPH_FOURIER_REAL_FORWARD
                            : a->inverse ? GRAPH_FOURIER_INVERSE
                                         : GRAPH_FOURIER_FORWARD];
  kind.real_out = a->real && a->inverse;
  for (int i = 0; i < count; ++i) {
    const int d = rank - count + i;
    dim.array.value[dim.array.size++] = d;
    n.array.value[n.array.size++] = half && a->inverse && d == rank - 1 ? a->y->dims[d] : a->x->dims[d];
  }
  if (half && a->inverse)
    EXPECT(a->y->dims[rank - 1] / 2 + 1 == a->x->dims[rank - 1], "the last dimension of y is %jd, expected %jd or %jd",
           (intmax_t)a->y->dims[rank - 1], (intmax_t)(2 * a->x->dims[rank - 1] - 2),
           (intmax_t)(2 * a->x->dims[rank - 1] - 1));
  graph_fourier_args of = *a;
  of.n = &n.array;
  of.dim = &dim.array;
  of.norm_ints = &norm.array;
  return fourier_prepare(e, &of, &kind);
}

status prepare_graph_fourier(executor *e, const graph_fourier_args *a) {
  if (e->op->variant == GRAPH_FOURIER_SIZED) return fourier_prepare_sized(e, a);
  if (a->type) {
    TRY(op_expect_size(a->type->size, "type", 1));
    EXPECT(a->type->value[0] == 2, "type is %jd, expected 2", (intmax_t)a->type->value[0]);
  }
  return fourier_prepare(e, a, &kinds[e->op->variant]);
}
