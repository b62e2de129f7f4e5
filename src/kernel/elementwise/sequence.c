/* SPDX-License-Identifier: Apache-2.0 */
/* Evenly spaced numbers: Arange, Range, Linspace, and their powers: LogSpace. */
#include <math.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"

enum { SEQUENCE_TILE = 256, SEQUENCE_GRAIN = 4096 };

/* Element i is start + i * step; from `from_end` on it is end - (n - 1 - i) * step, so that the last element is exact.
 * LogSpace: base to the power of that. Computed in int64, or in double and then rounded. */
typedef struct {
  walk at;
  store_loop *store;
  bool exact;
  uint8_t operand; /* the operand that is written */
  double base;     /* 0: not LogSpace */
  int64_t from_end;
  compute_value start, step, end;
} sequence_plan;

typedef struct {
  const sequence_plan *plan;
  void *at;
} sequence_job;

static void integers(const sequence_plan *p, compute_value *tile, int64_t first, int64_t n) {
  const uint64_t start = (uint64_t)p->start.i64, step = (uint64_t)p->step.i64;
  for (int64_t k = 0; k < n; ++k) tile[k].i64 = (int64_t)(start + (uint64_t)(first + k) * step);
}

static void reals(const sequence_plan *p, compute_value *tile, int64_t first, int64_t n) {
  const int64_t turn = p->from_end < first ? first : i64_min(p->from_end, first + n);
  for (int64_t i = first; i < turn; ++i) tile[i - first].f64 = p->start.f64 + (double)i * p->step.f64;
  for (int64_t i = turn; i < first + n; ++i) tile[i - first].f64 = p->end.f64 - (double)(p->at.n - 1 - i) * p->step.f64;
  for (int64_t k = 0; k < n && p->base != 0; ++k) tile[k].f64 = pow(p->base, tile[k].f64);
}

static void sequence_range(const void *job, int64_t begin, int64_t end) {
  const sequence_job *j = job;
  const sequence_plan *p = j->plan;
  const int64_t stride = p->at.strides[0][p->at.rank - 1];
  compute_value tile[SEQUENCE_TILE];
  cursor c;
  cursor_start(&c, &p->at, &j->at, begin);
  for (int64_t i = begin, n; i < end; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, i64_min(SEQUENCE_TILE, end - i));
    (p->exact ? integers : reals)(p, tile, i, n);
    p->store(c.at[0], stride, tile, n);
  }
}

static status sequence_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const sequence_plan *p = PLAN(e, sequence_plan);
  const sequence_job job = {.plan = p, .at = view[p->operand]};
  rows_parallel(sequence_range, &job, p->at.n, SEQUENCE_GRAIN, e->cost_ns);
  return ST_OK;
}

static bool sequence_is_integer(const scalar *s) { return dtype_class_of(s->dtype) <= CLASS_INTEGER; }

static status expect_real(const scalar *s, const char *name) {
  EXPECT(!dtype_is_complex(s->dtype), "%s is %s, expected a real number", name, dtype_name(s->dtype));
  return ST_OK;
}

static void plan_sequence(executor *e, sequence_plan *p, const tensor *out, bool exact) {
  const view v = view_of(out);
  walk_init(&p->at, (const view *const[]){&v}, 1, v.rank);
  p->exact = exact;
  p->operand = 0;
  p->base = 0;
  p->from_end = out->n;
  p->store = loops->store[out->dtype][exact ? COMPUTE_I64 : COMPUTE_F64];
  executor_cost(e, (uint64_t)out->n * dtype_bytes(out->dtype), (uint64_t)out->n * 8);
  e->run = sequence_run;
}

/* ---- Arange, Range ----------------------------------------------------------------------------------------------- */

/* The length must be ceil((end - start) / step), or floor of that plus one if the end is included. For floats also the
 * length by float arithmetic is accepted, which some callers (ggml) use. */
static status expect_length(const scalar *start, const scalar *end, const scalar *step, bool inclusive, int64_t n) {
  const double first = scalar_real(start), last = scalar_real(end), by = scalar_real(step);
  EXPECT(last - first == 0 || (last > first) == (by > 0),
         "start is %g, end %g, step %g, expected steps that lead from start to end", first, last, by);
  const double steps = (last - first) / by;
  const float float_steps = ((float)last - (float)first) / (float)by;
  double length = inclusive ? floor(steps) + 1 : ceil(steps);
  double other = inclusive ? floorf(float_steps) + 1 : ceilf(float_steps);
  if (sequence_is_integer(start) && sequence_is_integer(end) && sequence_is_integer(step)) {
    const __int128 distance = (__int128)end->integer - start->integer, s = step->integer;
    length = other = (double)(inclusive ? distance / s + 1 : (distance + s - (s > 0 ? 1 : -1)) / s);
  }
  EXPECT((double)n == length || (double)n == other,
         "out has %jd elements, expected %.0f from start %g, end %g, step %g", (intmax_t)n, length, first, last, by);
  return ST_OK;
}

static status expect_finite(const scalar *s, const char *name) {
  EXPECT(isfinite(scalar_real(s)), "%s is %g, expected a finite number", name, scalar_real(s));
  return ST_OK;
}

/* Checks that start, end and step are finite and that the step is not 0; for integers, not even after truncation. */
static status expect_numbers(const arange_args *a) {
  const bool of_integers = dtype_is_integer(a->out->dtype);
  TRY(expect_real(a->start, "start"));
  TRY(expect_real(a->end, "end"));
  TRY(expect_real(a->step, "step"));
  TRY(expect_finite(a->start, "start"));
  TRY(expect_finite(a->end, "end"));
  TRY(expect_finite(a->step, "step"));
  const double step = scalar_real(a->step);
  EXPECT(of_integers ? scalar_integer(a->step) != 0 : step != 0, "step is %g, expected a number that is not 0%s", step,
         of_integers ? ", nor when it is cut, as out is of integers" : "");
  return ST_OK;
}

static scalar arange_number(const scalar *s, int dtype) {
  return dtype == ACL_INT64 ? (scalar){.dtype = ACL_INT64, .integer = scalar_integer(s)} : *s;
}

/* For int64 all three are truncated first. */
status prepare_arange(executor *e, const arange_args *a) {
  const tensor *out = a->out;
  sequence_plan *p = PLAN(e, sequence_plan);
  TRY(op_expect_dtype(out, "out", DTYPES_FLOAT | DTYPES_INTEGER));
  TRY(expect_numbers(a));
  const scalar start = arange_number(a->start, out->dtype), end = arange_number(a->end, out->dtype),
               step = arange_number(a->step, out->dtype);
  TRY(expect_length(&start, &end, &step, e->op->variant == ARANGE_INCLUSIVE, out->n));
  plan_sequence(e, p, out, sequence_is_integer(&start) && sequence_is_integer(&step));
  if (p->exact) {
    p->start.i64 = start.integer;
    p->step.i64 = step.integer;
  } else {
    p->start.f64 = scalar_real(&start);
    p->step.f64 = scalar_real(&step);
  }
  return ST_OK;
}

/* ---- Linspace, LogSpace ------------------------------------------------------------------------------------------ */

typedef struct {
  double start, end, base; /* base 0: not LogSpace */
  int64_t steps;
} spaced;

static status plan_spaced(executor *e, const tensor *out, const char *name, const spaced *s) {
  sequence_plan *p = PLAN(e, sequence_plan);
  EXPECT(s->steps >= 0, "steps is %jd, expected 0 or more", (intmax_t)s->steps);
  EXPECT(out->n == s->steps, "%s has %jd elements, expected as many as steps, %jd", name, (intmax_t)out->n,
         (intmax_t)s->steps);
  plan_sequence(e, p, out, false);
  p->start.f64 = s->start;
  p->end.f64 = s->end;
  p->step.f64 = s->steps > 1 ? (s->end - s->start) / (double)(s->steps - 1) : 0;
  if (s->steps > 1) p->from_end = s->steps / 2;
  p->base = s->base;
  if (p->base != 0) executor_cost(e, (uint64_t)out->n * dtype_bytes(out->dtype), (uint64_t)out->n * 256);
  return ST_OK;
}

status prepare_linspace(executor *e, const linspace_args *a) {
  const tensor *out = a->out;
  spaced s = {.steps = a->steps};
  TRY(op_expect_dtype(out, a->name.out, DTYPES_FLOAT | DTYPES_INTEGER));
  TRY(expect_real(a->start, "start"));
  TRY(expect_real(a->end, "end"));
  s.start = scalar_real(a->start);
  s.end = scalar_real(a->end);
  if (e->op->variant == LINSPACE_POWERS) {
    s.base = a->base;
    EXPECT(s.base != 0, "base is 0, expected %s", "another number");
  }
  return plan_spaced(e, out, a->name.out, &s);
}

/* Called by operator name. dtype: 0 is FLOAT16, 1 FLOAT. */
status prepare_graph_log_space(executor *e, const graph_log_space_args *a) {
  const tensor *assist = a->assist, *y = a->y;
  const spaced s = {.start = a->start, .end = a->end, .steps = a->steps, .base = a->base};
  EXPECT(a->dtype == 0 || a->dtype == 1, "dtype is %jd, expected 0 (FLOAT16) or 1 (FLOAT)", (intmax_t)a->dtype);
  TRY(op_expect_dtype(y, "y", DTYPE_BIT(a->dtype ? ACL_FLOAT : ACL_FLOAT16)));
  TRY(op_expect_dtype(assist, "assist", DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_FLOAT16)));
  EXPECT(assist->n == s.steps, "assist has %jd elements, expected as many as steps, %jd", (intmax_t)assist->n,
         (intmax_t)s.steps);
  EXPECT(s.base != 0, "base is 0, expected %s", "another number");
  TRY(plan_spaced(e, y, "y", &s));
  PLAN(e, sequence_plan)->operand = GRAPH_LOG_SPACE_Y;
  return ST_OK;
}

/* ---- Range, LinSpace, LogSpace by name: the numbers are tensors of one element, read when the task runs ---------- */

typedef struct {
  sequence_plan sequence;
  int dtype[2]; /* of the first two inputs */
} read_sequence;

static status graph_sequence_run(const executor *e, void *const *view, void *scratch) {
  const read_sequence *r = PLAN(e, read_sequence);
  sequence_plan p = r->sequence;
  const bool is_range = e->op->variant == GRAPH_SEQUENCE_RANGE;
  compute_value first, other;
  const compute_type compute = p.exact ? COMPUTE_I64 : COMPUTE_F64;
  (void)scratch;
  loops->load[r->dtype[0]][compute](&first, view[GRAPH_SEQUENCE_START], 0, 1);
  loops->load[r->dtype[1]][compute](&other, view[is_range ? 2 : 1], 0, 1);
  p.start = first;
  p.step = other;
  if (!is_range) {
    p.end = other;
    p.from_end = p.at.n > 1 ? p.at.n / 2 : 1;
    p.step.f64 = p.at.n > 1 ? (other.f64 - first.f64) / (double)(p.at.n - 1) : 0;
  }
  const sequence_job job = {.plan = &p, .at = view[p.operand]};
  rows_parallel(sequence_range, &job, p.at.n, SEQUENCE_GRAIN, e->cost_ns);
  return ST_OK;
}

/* Operands: start, limit, delta (Range), start, stop, num (LinSpace) or start, end (LogSpace, which has a base). The
 * output's length is the caller's. */
status prepare_graph_sequence(executor *e, const graph_sequence_args *a) {
  const bool is_range = e->op->variant == GRAPH_SEQUENCE_RANGE;
  const tensor *other = is_range ? a->delta : a->stop, *y = a->y;
  read_sequence *r = PLAN(e, read_sequence);
  TRY(op_expect_dtype(y, "y", DTYPES_FLOAT | (is_range ? DTYPES_INTEGER : 0)));
  TRY(op_expect_one(a->start, "start", DTYPES_FLOAT | DTYPES_INTEGER));
  TRY(op_expect_one(other, is_range ? "delta" : "stop", DTYPES_FLOAT | DTYPES_INTEGER));
  const bool exact = is_range && dtype_is_integer(a->start->dtype) && dtype_is_integer(other->dtype);
  plan_sequence(e, &r->sequence, y, exact);
  r->sequence.operand = (uint8_t)a->view.y;
  r->sequence.base = (double)a->base;
  r->dtype[0] = a->start->dtype;
  r->dtype[1] = other->dtype;
  e->run = graph_sequence_run;
  return ST_OK;
}

/* ---- Size by name: the number of elements ------------------------------------------------------------------------ */

typedef struct {
  int64_t n;
  store_loop *store;
} size_plan;

static status graph_size_run(const executor *e, void *const *view, void *scratch) {
  const size_plan *p = PLAN(e, size_plan);
  (void)scratch;
  p->store(view[GRAPH_SIZE_Y], 0, &p->n, 1);
  return ST_OK;
}

status prepare_graph_size(executor *e, const graph_size_args *a) {
  TRY(op_expect_one(a->y, "y", DTYPES_INDEX));
  *PLAN(e, size_plan) = (size_plan){a->x->n, loops->store[a->y->dtype][COMPUTE_I64]};
  e->run = graph_size_run;
  return ST_OK;
}
