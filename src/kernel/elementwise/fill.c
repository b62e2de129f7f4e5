/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that store one value into all elements or into those of a diagonal: InplaceFillScalar, InplaceFillTensor,
 * InplaceZero, InplaceOne, Eye, InplaceFillDiagonal. */
#include "kernel/elementwise/fill.h"

#include <math.h>

#include "kernel/elementwise/elementwise_call.h"
#include "kernel/engine/rows.h"
#include "kernel/families.h"

/* ---- filling ----------------------------------------------------------------------------------------------------- */

enum {
  REPEATED = 16 * 1024,  /* bytes of a pattern that is copied repeatedly; it stays in L1 */
  FILL_GRAIN = 16 * 1024 /* minimum number of elements for a thread */
};

void fill_plan_init(fill_plan *p, const view *out, const void *value) {
  walk_init_sorted(&p->at, &out, 1, out->rank);
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

/* Floats become integers by truncation, integers wrap. The parts of complex numbers are stored as the float type of
 * half the size. */
status fill_value_of(const tensor *t, const char *name, const scalar *s, char *value) {
  const bool complex = dtype_is_complex(t->dtype);
  const int dtype = dtype_part(t->dtype);
  EXPECT(complex || !dtype_is_complex(s->dtype), "value is %s, expected a real number as %s is %s",
         dtype_name(s->dtype), name, dtype_name(t->dtype));
  if (!complex && dtype_class_of(s->dtype) <= CLASS_INTEGER) {
    loops->store[dtype][COMPUTE_I64](value, 0, &s->integer, 1);
    return ST_OK;
  }
  const double real = scalar_real(s), imaginary = dtype_is_complex(s->dtype) ? s->imaginary : 0;
  loops->store[dtype][COMPUTE_F64](value, 0, &real, 1);
  if (complex) loops->store[dtype][COMPUTE_F64](value + dtype_bytes(dtype), 0, &imaginary, 1);
  return ST_OK;
}

static status fill_op_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  fill_run(PLAN(e, fill_plan), view[FILL_SELF], e->cost_ns);
  return ST_OK;
}

status prepare_fill(executor *e, const fill_args *a) {
  static const scalar constants[] = {
      [FILL_ZERO] = {.dtype = ACL_INT64}, [FILL_ONE] = {.dtype = ACL_INT64, .integer = 1}};
  const int variant = e->op->variant;
  const tensor *t = a->self;
  _Alignas(16) char value[16];
  TRY(op_expect_dtype(t, "selfRef", DTYPES_NUMBER));
  TRY(fill_value_of(t, "selfRef", variant == FILL_VALUE ? a->value : &constants[variant], value));
  const view v = view_of(t);
  fill_plan_init(PLAN(e, fill_plan), &v, value);
  executor_cost(e, (uint64_t)t->n * dtype_bytes(t->dtype), 0);
  e->run = fill_op_run;
  return ST_OK;
}

static status like_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  fill_run(PLAN(e, fill_plan), view[GRAPH_LIKE_Y], e->cost_ns);
  return ST_OK;
}

/* The distance from 1 to the next number of a dtype of floats. */
static double epsilon_of(int dtype) {
  return dtype == ACL_DOUBLE ? 0x1p-52 : dtype == ACL_FLOAT ? 0x1p-23 : dtype == ACL_FLOAT16 ? 0x1p-10 : 0x1p-7;
}

/* OnesLike, ZerosLike and Eps by name. */
status prepare_graph_like(executor *e, const graph_like_args *a) {
  const bool epsilon = e->op->variant == GRAPH_LIKE_EPSILON;
  const tensor *y = a->y;
  const scalar number = epsilon ? (scalar){.dtype = ACL_DOUBLE, .real = epsilon_of(y->dtype)}
                                : (scalar){.dtype = ACL_INT64, .integer = e->op->variant == GRAPH_LIKE_ONES};
  _Alignas(16) char value[16];
  TRY(op_expect_dtype(y, "y", epsilon ? DTYPES_FLOAT : DTYPES_NUMBER));
  TRY(fill_value_of(y, "y", &number, value));
  const view v = view_of(y);
  fill_plan_init(PLAN(e, fill_plan), &v, value);
  executor_cost(e, (uint64_t)y->n * dtype_bytes(y->dtype), 0);
  e->run = like_run;
  return ST_OK;
}

/* The value is read when the task runs; its dtype may differ from the tensor's. */
static status fill_tensor_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  elementwise_run(PLAN(e, elementwise_plan), view, e->cost_ns);
  return ST_OK;
}

status prepare_fill_tensor(executor *e, const fill_tensor_args *a) {
  const tensor *t = a->self, *value = a->value;
  TRY(op_expect_dtype(t, "selfRef", DTYPES_NUMBER));
  const uint64_t same = DTYPE_BIT(t->dtype), real = dtype_is_complex(t->dtype) ? 0 : DTYPES_REAL;
  TRY(op_expect_dtype(value, "value", same | real));
  EXPECT(value->n == 1 && value->rank <= 1, "value has %jd elements in %d dimensions, expected one in one or none",
         (intmax_t)value->n, value->rank);
  const view to = view_of(t), from = {.rank = 0, .dtype = value->dtype};
  elementwise_copy_plan(PLAN(e, elementwise_plan), &to, &from);
  executor_cost(e, (uint64_t)t->n * dtype_bytes(t->dtype), 0);
  e->run = fill_tensor_run;
  return ST_OK;
}

/* ---- diagonals --------------------------------------------------------------------------------------------------- */

enum { DIAGONALS = 2 };

typedef struct {
  view all; /* the view to be cleared; rank -1: none */
  view diagonal[DIAGONALS];
  int64_t offset[DIAGONALS]; /* bytes from the tensor's first element */
  uint64_t copied;           /* FillDiagonal by name: bytes of the tensor */
  _Alignas(16) char value[16];
} diagonal_plan;

static status diagonal_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const diagonal_plan *p = PLAN(e, diagonal_plan);
  fill_plan fill;
  if (p->all.rank >= 0) {
    fill_plan_init(&fill, &p->all, NULL);
    fill_run(&fill, view[0], e->cost_ns);
  }
  for (int k = 0; k < DIAGONALS; ++k) {
    fill_plan_init(&fill, &p->diagonal[k], p->value);
    fill_run(&fill, (char *)view[0] + p->offset[k], 0);
  }
  return ST_OK;
}

static view none_of(int dtype) { return (view){.rank = 1, .dtype = dtype}; }

/* The diagonal of n elements at which all indices are equal. */
static view main_diagonal(const tensor *t, int64_t n) {
  view v = {.rank = 1, .dtype = t->dtype, .dims = {n}};
  for (int d = 0; d < t->rank; ++d) v.strides[0] += t->strides[d] * (int64_t)dtype_bytes(t->dtype);
  return v;
}

static void plan_diagonal(executor *e, diagonal_plan *p, const tensor *t, int64_t n) {
  p->all.rank = -1;
  p->diagonal[0] = main_diagonal(t, n);
  p->diagonal[1] = none_of(t->dtype);
  memset(p->offset, 0, sizeof p->offset);
  executor_cost(e, (uint64_t)n * 64, 0);
  e->run = diagonal_run;
}

status prepare_eye(executor *e, const eye_args *a) {
  const tensor *out = a->out;
  diagonal_plan *p = PLAN(e, diagonal_plan);
  const scalar one = {.dtype = ACL_INT64, .integer = 1};
  TRY(op_expect_dtype(out, "out", DTYPES_NUMBER));
  EXPECT(a->n >= 0 && a->m >= 0, "n is %jd and m is %jd, expected 0 or more", (intmax_t)a->n, (intmax_t)a->m);
  TRY(op_expect_shape(out, "out", (const int64_t[]){a->n, a->m}, 2));
  plan_diagonal(e, p, out, i64_min(a->n, a->m));
  TRY(fill_value_of(out, "out", &one, p->value));
  view_init(&p->all, out);
  executor_cost(e, (uint64_t)out->n * dtype_bytes(out->dtype), 0);
  return ST_OK;
}

/* Eye by name: without a number of columns, the matrix is a square. */
status prepare_graph_eye(executor *e, const graph_eye_args *a) {
  EXPECT(!a->batch_shape->size, "batch_shape has %ju elements, expected none", (uintmax_t)a->batch_shape->size);
  return prepare_eye(e, &(eye_args){.n = a->num_rows, .m = a->num_columns ? a->num_columns : a->num_rows, .out = a->y});
}

/* InplaceFillDiagonal with wrap: in a tall matrix the diagonal starts again one row below the row where it leaves the
 * matrix. */
static void wrap_diagonal(diagonal_plan *p, const tensor *t) {
  const int64_t rows = t->dims[0], columns = t->dims[1], again = columns + 1, whole = rows / again;
  const int64_t bytes = (int64_t)dtype_bytes(t->dtype), along = p->diagonal[0].strides[0];
  p->diagonal[0].rank = 2;
  p->diagonal[0].dims[0] = whole;
  p->diagonal[0].strides[0] = again * t->strides[0] * bytes;
  p->diagonal[0].dims[1] = columns;
  p->diagonal[0].strides[1] = along;
  p->diagonal[1] = main_diagonal(t, i64_min(rows - whole * again, columns));
  p->offset[1] = whole * p->diagonal[0].strides[0];
}

/* Whether a value does not fit a dtype, by PyTorch's rule: unsigned integers accept negative values of their width. */
static bool overflows(double value, int dtype) {
  const bool has_sign = dtype != ACL_UINT8 && dtype != ACL_UINT16 && dtype != ACL_UINT32 && dtype != ACL_UINT64;
  const double end = ldexp(1, 8 * (int)dtype_bytes(dtype) - has_sign);
  if (dtype_is_integer(dtype)) return !(value >= -end && value < end);
  return dtype_is_float(dtype) && isfinite(value) && isinf(elementwise_stored(value, dtype));
}

/* The names are those of the arguments. */
static status plan_fill_diagonal(executor *e, const fill_diagonal_args *a, const char *self_name,
                                 const char *value_name) {
  const tensor *t = a->self;
  diagonal_plan *p = PLAN(e, diagonal_plan);
  bool cube = true;
  TRY(op_expect_dtype(t, self_name, DTYPES_NUMBER));
  for (int d = 1; d < t->rank; ++d) cube &= t->dims[d] == t->dims[0];
  EXPECT(t->rank == 2 || (t->rank > 2 && cube),
         "%s has shape %s, expected two dimensions, or more of which all are the same", self_name, SHAPE_OF(t));
  EXPECT(!overflows(scalar_real(a->fill_value), t->dtype), "%s is %g, expected a number that %s has", value_name,
         scalar_real(a->fill_value), dtype_name(t->dtype));
  plan_diagonal(e, p, t, i64_min(t->dims[0], t->dims[1]));
  TRY(fill_value_of(t, self_name, a->fill_value, p->value));
  if (a->wrap && t->rank == 2 && t->dims[0] > t->dims[1] && t->dims[1]) wrap_diagonal(p, t);
  return ST_OK;
}

status prepare_fill_diagonal(executor *e, const fill_diagonal_args *a) {
  return plan_fill_diagonal(e, a, "selfRef", "fillValue");
}

/* ---- FillDiagonal by name, of a copy of x ------------------------------------------------------------------------ */

static status graph_fill_diagonal_run(const executor *e, void *const *view, void *scratch) {
  void *const at[] = {view[GRAPH_FILL_DIAGONAL_Y]};
  memcpy(at[0], view[GRAPH_FILL_DIAGONAL_X], PLAN(e, diagonal_plan)->copied);
  return diagonal_run(e, at, scratch);
}

status prepare_graph_fill_diagonal(executor *e, const graph_fill_diagonal_args *a) {
  const scalar value = {.dtype = ACL_DOUBLE, .real = a->fill_value};
  TRY(op_expect_like(a->y, "y", a->x));
  TRY(plan_fill_diagonal(e, &(fill_diagonal_args){.self = a->y, .fill_value = &value, .wrap = a->wrap}, "x",
                         "fill_value"));
  PLAN(e, diagonal_plan)->copied = (uint64_t)a->y->n * dtype_bytes(a->y->dtype);
  if (a->y->n) e->run = graph_fill_diagonal_run;
  return ST_OK;
}
