/* SPDX-License-Identifier: Apache-2.0 */
/* SearchSorted, SearchSorteds and IsIn: find the position of values, or whether they occur. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "op/executor.h"

/* The compute type in which elements of two tensors, or of a tensor and a scalar, are compared. */
static compute_type search_compute_of(int dtype) {
  return !dtype_is_float(dtype) ? COMPUTE_I64 : dtype == ACL_DOUBLE ? COMPUTE_F64 : COMPUTE_F32;
}

/* Returns the scalar rounded to this dtype, in the compute type. */
static compute_value scalar_as(const scalar *s, int dtype, compute_type compute) {
  _Alignas(16) char stored[16];
  compute_value v = {0};
  const double real = scalar_real(s);
  const bool is_integer = dtype_class_of(s->dtype) < CLASS_FLOAT;
  const int64_t integer = is_integer ? s->integer : 0;
  loops->store[dtype][is_integer ? COMPUTE_I64 : COMPUTE_F64](stored, 0, is_integer ? (const void *)&integer : &real,
                                                              1);
  loops->load[dtype][compute](&v, stored, 0, 1);
  return v;
}

/* ---- SearchSorted ------------------------------------------------------------------------------------------------ */

typedef struct {
  walk rows; /* operands: 0 values, 1 out, 2 rows of the sequence, 3 rows of the sorter; one position per value */
  load_loop *load_value, *load_element;
  /* with store_rounded: rounds elements of both tensors to a common 16-bit float type; NULL: not needed */
  load_loop *load_rounded;
  store_loop *store_rounded;
  store_loop *store;
  compute_value value; /* the scalar of SearchSorteds */
  int64_t n;           /* number of elements of a sequence */
  int64_t along, sorter_along;
  uint8_t compute;
  int8_t operands[4]; /* numbers of the values, out, the sequence and the sorter */
  bool right, has_sorter, is_scalar;
} search_plan;

/* Whether the result lies after element x: x is below v, or, with `right`, not above v. NaN comes after everything. */
static bool search_is_before(const search_plan *p, compute_value x, compute_value v) {
  switch (p->compute) {
  case COMPUTE_F32: return p->right ? !(x.f32 > v.f32) : !(x.f32 >= v.f32);
  case COMPUTE_F64: return p->right ? !(x.f64 > v.f64) : !(x.f64 >= v.f64);
  default: return p->right ? x.i64 <= v.i64 : x.i64 < v.i64;
  }
}

static compute_value search_element(const search_plan *p, load_loop *load, const char *at) {
  compute_value x;
  uint16_t rounded;
  load(&x, at, 0, 1);
  if (unlikely(p->load_rounded)) {
    p->store_rounded(&rounded, 0, &x, 1);
    p->load_rounded(&x, &rounded, 0, 1);
  }
  return x;
}

static int64_t search_sequence(const search_plan *p, const char *sequence, const char *sorter, compute_value v) {
  int64_t low = 0, high = p->n;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const int64_t at = sorter ? *(const int64_t *)(const void *)(sorter + middle * p->sorter_along) : middle;
    if (search_is_before(p, search_element(p, p->load_element, sequence + at * p->along), v))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static status check_sorter(const search_plan *p, const char *sorter) {
  for (int64_t i = 0; i < p->n; ++i) {
    const int64_t at = *(const int64_t *)(const void *)(sorter + i * p->sorter_along);
    EXPECT(at >= 0 && at < p->n, "sorter has %jd, expected 0 to %jd", (intmax_t)at, (intmax_t)p->n - 1);
  }
  return ST_OK;
}

static status search_sorted_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const search_plan *p = PLAN(e, search_plan);
  void *const at[4] = {view[p->operands[0]], view[p->operands[1]], view[p->operands[2]], view[p->operands[3]]};
  cursor c;
  cursor_start(&c, &p->rows, at, 0);
  const char *checked = NULL;
  for (int64_t i = 0, n; i < p->rows.n; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, p->rows.n - i);
    const int last = p->rows.rank - 1;
    for (int64_t k = 0; k < n; ++k) {
      const char *const sequence = c.at[2] + k * p->rows.strides[2][last];
      const char *const sorter = p->has_sorter ? c.at[3] + k * p->rows.strides[3][last] : NULL;
      if (sorter && sorter != checked) TRY(check_sorter(p, checked = sorter));
      const compute_value v =
          p->is_scalar ? p->value : search_element(p, p->load_value, c.at[0] + k * p->rows.strides[0][last]);
      const int64_t found = search_sequence(p, sequence, sorter, v);
      p->store(c.at[1] + k * p->rows.strides[1][last], 0, &found, 1);
    }
  }
  return ST_OK;
}

/* Views the rows of the sequence (or sorter) with one row per value; the stride of the last dimension is 0. */
static view rows_of_values(const tensor *sequence, const tensor *values) {
  view v = view_of(sequence), rows = {.rank = values->rank, .dtype = sequence->dtype};
  for (int d = 0; d < rows.rank; ++d) {
    rows.dims[d] = values->dims[d];
    rows.strides[d] = sequence->rank == values->rank && d < rows.rank - 1 ? v.strides[d] : 0;
  }
  return rows;
}

static status expect_same_rows(const tensor *sequence, const tensor *values) {
  bool same = sequence->rank == 1 || sequence->rank == values->rank;
  for (int d = 0; same && sequence->rank > 1 && d < sequence->rank - 1; ++d)
    same = sequence->dims[d] == values->dims[d];
  EXPECT(same, "sortedSequence has shape %s, expected one dimension or the first dimensions of self, %s",
         SHAPE_OF(sequence), SHAPE_OF(values));
  return ST_OK;
}

/* values: self, or out in its place if the value is a scalar. */
static status plan_search(executor *e, search_plan *p, const tensor *sequence, const tensor *values,
                          const tensor *sorter, const tensor *out, bool out_int32) {
  const int dtype = out_int32 ? ACL_INT32 : ACL_INT64;
  TRY(op_expect_dtype(sequence, "sortedSequence", DTYPES_REAL));
  EXPECT(sequence->rank >= 1, "sortedSequence has no dimensions, expected one or more");
  EXPECT(out->dtype == dtype, "out has dtype %s, expected %s", dtype_name(out->dtype), dtype_name(dtype));
  TRY(op_expect_same_shape(out, "out", values));
  TRY(expect_same_rows(sequence, values));
  if (sorter) {
    TRY(op_expect_dtype(sorter, "sorter", DTYPE_BIT(ACL_INT64)));
    TRY(op_expect_same_shape(sorter, "sorter", sequence));
  }
  const int last = sequence->rank - 1;
  const view v = view_of(values), o = view_of(out), s = rows_of_values(sequence, values);
  const view t = sorter ? rows_of_values(sorter, values) : s;
  walk_init(&p->rows, (const view *const[]){&v, &o, &s, &t}, 4, v.rank);
  p->n = sequence->dims[last];
  p->along = sequence->strides[last] * (int64_t)dtype_bytes(sequence->dtype);
  p->sorter_along = sorter ? sorter->strides[last] * (int64_t)sizeof(int64_t) : 0;
  p->has_sorter = sorter;
  p->load_element = loops->load[sequence->dtype][p->compute];
  p->store = loops->store[dtype][COMPUTE_I64];
  executor_cost(e, (uint64_t)values->n * 12, (uint64_t)values->n * 2048);
  e->run = search_sorted_run;
  return ST_OK;
}

/* (sortedSequence, self, outInt32, right, sorter, out): compares in the type to which both promote. */
status prepare_search_sorted(executor *e, const search_sorted_args *a) {
  search_plan *p = PLAN(e, search_plan);
  const tensor *sequence = a->sorted_sequence, *self = a->self;
  TRY(op_expect_dtype(sequence, a->name.sorted_sequence, DTYPES_REAL));
  TRY(op_expect_dtype(self, "self", DTYPES_REAL));
  EXPECT(a->view.sorted_sequence == 0 || sequence->rank == 1, "boundaries has %d dimensions, expected one",
         sequence->rank);
  const int dtype = dtype_promote(sequence->dtype, self->dtype);
  const bool rounds = sequence->dtype != self->dtype && dtype_is_float(dtype) && dtype_bytes(dtype) == 2;
  p->compute = (uint8_t)search_compute_of(dtype);
  p->load_rounded = rounds ? loops->load[dtype][COMPUTE_F32] : NULL;
  p->store_rounded = loops->store[dtype][COMPUTE_F32];
  p->load_value = loops->load[self->dtype][p->compute];
  p->right = a->right;
  p->is_scalar = false;
  const int at[4] = {a->view.self, a->view.out, a->view.sorted_sequence, SEARCH_SORTED_SORTER};
  for (int i = 0; i < 4; ++i) p->operands[i] = (int8_t)(at[i] < 0 ? 0 : at[i]);
  return plan_search(e, p, sequence, self, a->sorter, a->out, a->out_int32);
}

/* By name: LowerBound and UpperBound, of rows of sorted_x and of values; SearchSorted, of any number of dimensions. */
status prepare_graph_bound(executor *e, const graph_bound_args *a) {
  const bool any_rank = e->op->variant == GRAPH_BOUND_SEARCH;
  const tensor *y = a->y;
  TRY(op_expect_dtype(y, a->name.y, DTYPES_INDEX));
  if (!any_rank) TRY(op_expect_rank(a->sorted_x, a->name.sorted_x, 2, 2));
  if (!any_rank) TRY(op_expect_rank(a->values, "values", 2, 2));
  TRY(op_expect_dtype(a->values, "values", DTYPE_BIT(a->sorted_x->dtype)));
  search_sorted_args plain = {.sorted_sequence = a->sorted_x,
                              .self = a->values,
                              .out_int32 = y->dtype == ACL_INT32,
                              .right = e->op->variant == GRAPH_BOUND_UPPER || a->right,
                              .out = y};
  plain.name.sorted_sequence = a->name.sorted_x;
  plain.view.sorted_sequence = GRAPH_BOUND_SORTED_X;
  plain.view.self = GRAPH_BOUND_VALUES;
  plain.view.out = GRAPH_BOUND_Y;
  TRY(prepare_search_sorted(e, &plain));
  PLAN(e, search_plan)->operands[3] = 0; /* there is no sorter */
  return ST_OK;
}

/* (sortedSequence, self, outInt32, right, sorter, out): self is a scalar; the sequence has one dimension. */
status prepare_search_sorteds(executor *e, const search_sorteds_args *a) {
  search_plan *p = PLAN(e, search_plan);
  const tensor *sequence = a->sorted_sequence, *out = a->out;
  TRY(op_expect_dtype(sequence, "sortedSequence", DTYPES_REAL));
  EXPECT(sequence->rank == 1, "sortedSequence has %d dimensions, expected one", sequence->rank);
  EXPECT(out->n == 1, "out has %jd elements, expected one", (intmax_t)out->n);
  const bool real = dtype_class_of(a->self->dtype) == CLASS_FLOAT && !dtype_is_float(sequence->dtype);
  p->compute = (uint8_t)(real ? COMPUTE_F64 : search_compute_of(sequence->dtype));
  p->value = real ? (compute_value){.f64 = scalar_real(a->self)}
                  : scalar_as(a->self, sequence->dtype, (compute_type)p->compute);
  p->load_rounded = NULL;
  p->right = a->right;
  p->is_scalar = true;
  memcpy(p->operands, (const int8_t[]){SEARCH_SORTEDS_OUT, SEARCH_SORTEDS_OUT, 0, SEARCH_SORTEDS_SORTER},
         sizeof p->operands);
  return plan_search(e, p, sequence, out, a->sorter, out, a->out_int32);
}

/* ---- IsIn -------------------------------------------------------------------------------------------------------- */

typedef struct {
  walk elements; /* operands: 0 the tensor, 1 out (of the same shape, or one element) */
  row_access in;
  compute_value value;
  double imaginary; /* imaginary part of the value */
  store_loop *store;
  uint8_t compute, part; /* part: byte offset of the imaginary part, 0 for real types */
  bool invert, any;      /* any: a single result, whether any element is equal */
} is_in_plan;

static bool is_equal(const is_in_plan *p, const char *tile, int64_t i) {
  switch (p->compute) {
  case COMPUTE_F32: return ((const float *)(const void *)tile)[i] == p->value.f32;
  case COMPUTE_F64: return ((const double *)(const void *)tile)[i] == p->value.f64;
  default: return ((const int64_t *)(const void *)tile)[i] == p->value.i64;
  }
}

static status is_in_run(const executor *e, void *const *view, void *scratch) {
  enum { BLOCK = 1024 };
  (void)scratch;
  const is_in_plan *p = PLAN(e, is_in_plan);
  _Alignas(64) char tile[BLOCK * sizeof(double)], second[BLOCK * sizeof(double)];
  uint8_t found[BLOCK];
  bool any = false;
  cursor c;
  cursor_start(&c, &p->elements, view, 0);
  for (int64_t i = 0, n; i < p->elements.n && !any; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, i64_min(BLOCK, p->elements.n - i));
    const char *x = row_fetch(&p->in, tile, c.at[0], 1, n);
    const double *imaginary = p->part ? (const void *)row_fetch(&p->in, second, c.at[0] + p->part, 1, n) : NULL;
    for (int64_t k = 0; k < n; ++k) {
      const bool equal = is_equal(p, x, k) && (imaginary ? imaginary[k] : 0) == p->imaginary;
      any |= equal & p->any;
      found[k] = equal != p->invert;
    }
    if (!p->any)
      loops->load[ACL_BOOL][COMPUTE_I64](tile, found, 1, n),
          p->store(c.at[1], p->elements.strides[1][p->elements.rank - 1], tile, n);
  }
  if (p->any) p->store(view[1], 0, &(int64_t){any != p->invert}, 1);
  return ST_OK;
}

/* The scalar is rounded to the tensor's type. CANN, if it searches many elements for a scalar, compares in
 * the type to which both promote. */
static status plan_is_in(executor *e, const tensor *t, const char *name, const scalar *s, bool invert,
                         const tensor *out, bool any) {
  enum { MANY = 10 };
  is_in_plan *p = PLAN(e, is_in_plan);
  const int dtype = dtype_part(t->dtype);
  TRY(op_expect_dtype(t, name, DTYPES_REAL | DTYPES_COMPLEX));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(ACL_BOOL)));
  TRY(any ? op_expect_shape(out, "out", NULL, 0) : op_expect_same_shape(out, "out", t));
  const int common = any && t->n >= MANY ? dtype_part(dtype_promote(t->dtype, s->dtype)) : dtype;
  const bool real = dtype_class_of(s->dtype) >= CLASS_FLOAT && !dtype_is_float(common);
  const bool complex = dtype != t->dtype;
  p->compute = (uint8_t)(real || complex ? COMPUTE_F64 : search_compute_of(common));
  p->value = real ? (compute_value){.f64 = scalar_real(s)} : scalar_as(s, common, (compute_type)p->compute);
  p->imaginary = !dtype_is_complex(s->dtype) ? 0 : common == ACL_FLOAT ? (float)s->imaginary : s->imaginary;
  p->part = complex ? (uint8_t)dtype_bytes(dtype) : 0;
  const view in = view_of_real_parts(t);
  view o = view_of(out);
  if (any) {
    o = in;
    for (int d = 0; d < o.rank; ++d) o.strides[d] = 0;
  }
  walk_init(&p->elements, (const view *const[]){&in, &o}, 2, in.rank);
  p->in = row_access_of(dtype, (compute_type)p->compute, p->elements.strides[0][p->elements.rank - 1], 0, 1024);
  p->store = loops->store[ACL_BOOL][COMPUTE_I64];
  p->invert = invert;
  p->any = any;
  executor_cost(e, (uint64_t)t->n * (dtype_bytes(t->dtype) + 1), (uint64_t)t->n * 32);
  e->run = is_in_run;
  return ST_OK;
}

/* (element, testElement, assumeUnique, invert, out) */
status prepare_is_in_tensor_scalar(executor *e, const is_in_tensor_scalar_args *a) {
  return plan_is_in(e, a->element, "element", a->test_element, a->invert, a->out, false);
}

/* (element, testElements, assumeUnique, invert, out) */
status prepare_is_in_scalar_tensor(executor *e, const is_in_scalar_tensor_args *a) {
  return plan_is_in(e, a->test_elements, "testElements", a->element, a->invert, a->out, true);
}
