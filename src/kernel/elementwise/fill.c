/* InplaceFillScalar, InplaceZero, InplaceOne, Arange: tensors that are made from scalars. */
#include "kernel/elementwise/fill.h"

#include <math.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"

/* ---- filling ----------------------------------------------------------------------------------------------------- */

enum {
  REPEATED = 16 * 1024,  /* bytes that are copied over and over: they stay in L1 */
  FILL_GRAIN = 16 * 1024 /* elements */
};

void fill_plan_init(fill_plan *p, const view *out, const void *value) {
  view sorted = *out;
  rows_sort((view *const[]){&sorted}, 1);
  walk_init(&p->at, (const view *const[]){&sorted}, 1, sorted.rank);
  p->size = (uint8_t)dtype_bytes(out->dtype);
  memset(p->value, 0, sizeof p->value);
  if (value) memcpy(p->value, value, p->size);
}

static void fill_contiguous(char *to, const char *value, size_t size, size_t bytes) {
  static const char zero[16];
  if (size == 1 || !memcmp(value, zero, size)) {
    memset(to, value[0], bytes);
    return;
  }
  memcpy(to, value, size);
  for (size_t done = size, n; done < bytes; done += n) {
    n = done < REPEATED ? done : REPEATED;
    if (n > bytes - done) n = bytes - done;
    memcpy(to + done, to, n);
  }
}

static void fill_row(char *to, int64_t stride, const char *value, size_t size, int64_t n) {
  if (stride == (int64_t)size) {
    fill_contiguous(to, value, size, (size_t)n * size);
    return;
  }
#define FILL(bytes)                                                                                                    \
  case bytes:                                                                                                          \
    for (int64_t i = 0; i < n; ++i) memcpy(to + i * stride, value, bytes);                                             \
    break
  switch (size) {
    FILL(1);
    FILL(2);
    FILL(4);
    FILL(8);
    FILL(16);
  }
#undef FILL
}

typedef struct {
  const fill_plan *plan;
  void *at;
} fill_job;

static void fill_range(const void *job, int64_t begin, int64_t end) {
  const fill_job *j = job;
  const fill_plan *p = j->plan;
  const int64_t stride = p->at.strides[0][p->at.rank - 1];
  cursor c;
  cursor_start(&c, &p->at, &j->at, begin);
  for (int64_t i = begin, n; i < end; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, end - i);
    fill_row(c.at[0], stride, p->value, p->size, n);
  }
}

void fill_run(const fill_plan *p, void *at, uint64_t cost_ns) {
  const fill_job job = {.plan = p, .at = at};
  rows_parallel(fill_range, &job, p->at.n, FILL_GRAIN, cost_ns);
}

/* The scalar as an element of the tensor: floats become integers by truncation, integers wrap; parts of complex
 * numbers are stored as the float type of half the size. */
static status value_of(const tensor *t, const scalar *s, char *value) {
  static const uint8_t part[DTYPE_END] = {
      [ACL_COMPLEX32] = ACL_FLOAT16, [ACL_COMPLEX64] = ACL_FLOAT, [ACL_COMPLEX128] = ACL_DOUBLE};
  const bool complex = dtype_class_of(t->dtype) == CLASS_COMPLEX;
  const int dtype = complex ? part[t->dtype] : t->dtype;
  EXPECT(complex || dtype_class_of(s->dtype) != CLASS_COMPLEX, "value is %s, expected a real number as selfRef is %s",
         dtype_name(s->dtype), dtype_name(t->dtype));
  if (!complex && dtype_class_of(s->dtype) <= CLASS_INTEGER) {
    loops->store[dtype][COMPUTE_I64](value, 0, &s->integer, 1);
    return ST_OK;
  }
  const double real = scalar_real(s), imaginary = dtype_class_of(s->dtype) == CLASS_COMPLEX ? s->imaginary : 0;
  loops->store[dtype][COMPUTE_F64](value, 0, &real, 1);
  if (complex) loops->store[dtype][COMPUTE_F64](value + dtype_bytes(dtype), 0, &imaginary, 1);
  return ST_OK;
}

static status fill_op_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  fill_run(PLAN(e, fill_plan), view[0], e->cost_ns);
  return ST_OK;
}

status prepare_fill(executor *e, const op_arg *a) {
  static const scalar constants[] = {
      [FILL_ZERO] = {.dtype = ACL_INT64}, [FILL_ONE] = {.dtype = ACL_INT64, .integer = 1}};
  const int variant = e->op->variant;
  const tensor *t = a[0].tensor;
  _Alignas(16) char value[16];
  TRY(op_expect_dtype(t, "selfRef", DTYPES_NUMBER));
  TRY(value_of(t, variant == FILL_VALUE ? a[1].scalar : &constants[variant], value));
  const view v = view_of(t);
  fill_plan_init(PLAN(e, fill_plan), &v, value);
  executor_cost(e, (uint64_t)t->n * dtype_bytes(t->dtype), 0);
  e->run = fill_op_run;
  return ST_OK;
}

/* ---- Arange ------------------------------------------------------------------------------------------------------ */

enum { ARANGE_TILE = 256, ARANGE_GRAIN = 4096 };

/* Element i is start + i * step: in int64, or in double and then rounded. */
typedef struct {
  walk at;
  store_loop *store;
  bool exact;
  compute_value start, step;
} arange_plan;

typedef struct {
  const arange_plan *plan;
  void *at;
} arange_job;

static void arange_range(const void *job, int64_t begin, int64_t end) {
  const arange_job *j = job;
  const arange_plan *p = j->plan;
  const int64_t stride = p->at.strides[0][p->at.rank - 1];
  compute_value tile[ARANGE_TILE];
  cursor c;
  cursor_start(&c, &p->at, &j->at, begin);
  for (int64_t i = begin, n; i < end; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, smaller(ARANGE_TILE, end - i));
    for (int64_t k = 0; k < n; ++k) {
      if (p->exact)
        tile[k].i64 = (int64_t)((uint64_t)p->start.i64 + (uint64_t)(i + k) * (uint64_t)p->step.i64);
      else
        tile[k].f64 = p->start.f64 + (double)(i + k) * p->step.f64;
    }
    p->store(c.at[0], stride, tile, n);
  }
}

static status arange_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const arange_plan *p = PLAN(e, arange_plan);
  const arange_job job = {.plan = p, .at = view[0]};
  rows_parallel(arange_range, &job, p->at.n, ARANGE_GRAIN, e->cost_ns);
  return ST_OK;
}

static bool is_integer(const scalar *s) { return dtype_class_of(s->dtype) <= CLASS_INTEGER; }

/* ceil((end - start) / step). Of floats also by float arithmetic, which some callers (ggml) compute the length in. */
static status expect_length(const scalar *start, const scalar *end, const scalar *step, int64_t n) {
  const double first = scalar_real(start), last = scalar_real(end), by = scalar_real(step);
  EXPECT(by != 0 && isfinite(by), "step is %g, expected a number that is not 0", by);
  EXPECT(isfinite(first) && isfinite(last) && (last - first == 0 || (last > first) == (by > 0)),
         "start is %g, end %g, step %g, expected steps that lead from start to end", first, last, by);
  double length = ceil((last - first) / by), other = ceilf(((float)last - (float)first) / (float)by);
  if (is_integer(start) && is_integer(end) && is_integer(step)) {
    const __int128 distance = (__int128)end->integer - start->integer, s = step->integer;
    length = other = (double)((distance + s - (s > 0 ? 1 : -1)) / s);
  }
  EXPECT((double)n == length || (double)n == other,
         "out has %jd elements, expected %.0f from start %g, end %g, step %g", (intmax_t)n, length, first, last, by);
  return ST_OK;
}

status prepare_arange(executor *e, const op_arg *a) {
  const scalar *start = a[0].scalar, *end = a[1].scalar, *step = a[2].scalar;
  const tensor *out = a[3].tensor;
  const struct {
    const scalar *scalar;
    const char *name;
  } scalars[] = {{start, "start"}, {end, "end"}, {step, "step"}};
  TRY(op_expect_dtype(out, "out", DTYPES_FLOAT | DTYPES_INTEGER));
  for (int i = 0; i < 3; ++i)
    EXPECT(dtype_class_of(scalars[i].scalar->dtype) != CLASS_COMPLEX, "%s is %s, expected a real number",
           scalars[i].name, dtype_name(scalars[i].scalar->dtype));
  TRY(expect_length(start, end, step, out->n));

  arange_plan *p = PLAN(e, arange_plan);
  const view v = view_of(out);
  walk_init(&p->at, (const view *const[]){&v}, 1, v.rank);
  p->exact = is_integer(start) && is_integer(step);
  p->store = loops->store[out->dtype][p->exact ? COMPUTE_I64 : COMPUTE_F64];
  if (p->exact) {
    p->start.i64 = start->integer;
    p->step.i64 = step->integer;
  } else {
    p->start.f64 = scalar_real(start);
    p->step.f64 = scalar_real(step);
  }
  executor_cost(e, (uint64_t)out->n * dtype_bytes(out->dtype), (uint64_t)out->n * 8);
  e->run = arange_run;
  return ST_OK;
}
