/* SPDX-License-Identifier: Apache-2.0 */
/* Sort, Argsort, SortWithIndex, Topk, Kthvalue and the medians. */
#include "kernel/families.h"
#include "kernel/sort/sort_rows.h"

enum { MOST_ELEMENTS = INT32_MAX }; /* of a row: entries have 32-bit indices, and results may be int32 */

static status sort_expect_countable(const tensor *self, int dim) {
  const int64_t n = self->rank ? self->dims[dim] : 1;
  EXPECT(n <= MOST_ELEMENTS, "self has %jd elements along dimension %d, expected at most %jd", (intmax_t)n, dim,
         (intmax_t)MOST_ELEMENTS);
  return ST_OK;
}

/* As in CANN, bfloat16 is refused for rows of a single element, which have no order. */
static status sort_expect_order(const tensor *self, int dim) {
  EXPECT(self->dtype != ACL_BF16 || !self->rank || self->dims[dim] != 1,
         "self is %s with one element along dimension %d, expected another type or more elements",
         dtype_name(self->dtype), dim);
  return ST_OK;
}

/* ---- sorting ----------------------------------------------------------------------------------------------------- */

static void sort_row(const sort_plan *p, const char *in, void *entries, void *spare, char *const *out) {
  const bool odd = sort_pack(p, in, entries, 0, p->n, p->descending);
  sort_write(p, in, p->sort->sort(entries, spare, p->n), p->n, odd, out);
}

static int64_t sort_count_nan(const sort_plan *p, const char *entries) {
  const double nan = __builtin_nan("");
  const float nan_f32 = __builtin_nanf("");
  entry64 one;
  int64_t count = 0;
  p->sort->pack(&one, p->compute == COMPUTE_F32 ? (const void *)&nan_f32 : &nan, 0, 1, false);
  for (int64_t i = 0; i < p->n; ++i) count += p->sort->same_key(entries + i * p->sort->entry_bytes, &one);
  return count;
}

/* Sorts a row ascending, with NaN first. */
static void sort_row_nan_first(const sort_plan *p, const char *in, void *entries, void *spare, char *const *out) {
  const bool odd = sort_pack(p, in, entries, 0, p->n, false);
  const bool is_float = p->compute == COMPUTE_F32 || p->compute == COMPUTE_F64;
  const int64_t n_nan = odd && is_float ? sort_count_nan(p, entries) : 0, n = p->n - n_nan;
  char *const behind[] = {out[0] + n_nan * p->values.along, out[1] + n_nan * p->numbers.along, out[2]};
  const char *const sorted = p->sort->sort(entries, spare, p->n);
  sort_write(p, in, sorted, n, odd, behind);
  sort_write(p, in, sorted + n * p->sort->entry_bytes, n_nan, odd, out);
}

static status plan_row_sort(executor *e, sort_request *r, int64_t dim, const char *dim_name) {
  sort_plan *p = PLAN(e, sort_plan);
  TRY(op_expect_dim(dim, dim_name, r->in->rank, &r->dim));
  TRY(sort_expect_countable(r->in, r->dim));
  r->n_results = r->room = r->in->rank ? r->in->dims[r->dim] : 1;
  r->keep_dim = true;
  p->row = sort_row;
  sort_rows_plan(e, p, r);
  return ST_OK;
}

/* (self, stable, dim, descending, valuesOut, indicesOut). Always stable. The values are converted to valuesOut's type,
 * which may differ from self's. */
status prepare_sort(executor *e, const sort_args *a) {
  sort_request r = {.in = a->self,
                    .values = a->values_out,
                    .numbers = a->indices_out,
                    .operand = {0, 1, 2},
                    .descending = a->descending};
  TRY(sort_expect_dtypes(r.in, NULL, NULL, r.numbers, "indicesOut"));
  TRY(op_expect_dtype(r.values, "valuesOut", DTYPES_REAL));
  TRY(op_expect_same_shape(r.values, "valuesOut", r.in));
  TRY(op_expect_same_shape(r.numbers, "indicesOut", r.in));
  return plan_row_sort(e, &r, a->dim, "dim");
}

/* (self, dim, descending, out) */
status prepare_argsort(executor *e, const argsort_args *a) {
  sort_request r = {.in = a->self, .numbers = a->out, .operand = {0, 0, 1}, .descending = a->descending};
  TRY(sort_expect_dtypes(r.in, NULL, NULL, r.numbers, "out"));
  TRY(op_expect_same_shape(r.numbers, "out", r.in));
  TRY(plan_row_sort(e, &r, a->dim, "dim"));
  return sort_expect_order(r.in, r.dim);
}

/* (x, index, axis, descending, stable, valuesOut, indicesOut): indicesOut gets the elements of index in the order of
 * x's elements. According to CANN's page NaN comes first in both orders. */
status prepare_sort_with_index(executor *e, const sort_with_index_args *a) {
  sort_request r = {.in = a->x,
                    .values = a->values_out,
                    .numbers = a->indices_out,
                    .index = a->index,
                    .operand = {0, 2, 3, 1},
                    .descending = a->descending};
  TRY(sort_expect_dtypes(r.in, r.values, "valuesOut", r.numbers, "indicesOut"));
  TRY(op_expect_dtype(r.index, "index", DTYPES_INDEX));
  TRY(op_expect_same_shape(r.index, "index", r.in));
  TRY(op_expect_same_shape(r.values, "valuesOut", r.in));
  TRY(op_expect_same_shape(r.numbers, "indicesOut", r.in));
  TRY(plan_row_sort(e, &r, a->axis, "axis"));
  if (!r.descending) PLAN(e, sort_plan)->row = sort_row_nan_first;
  return ST_OK;
}

/* ---- the k largest or smallest ----------------------------------------------------------------------------------- */

/* The best k so far determine a limit; only elements below it are collected. Few pass this filter, unless the row is
 * sorted the other way round. */
static void topk_row(const sort_plan *p, const char *in, void *entries, void *spare, char *const *out) {
  _Alignas(64) char tile[SORT_BLOCK * sizeof(double)];
  const int64_t k = p->k, at_first = p->room < p->n ? i64_min(p->n, p->room / 2) : p->n;
  const char *const limit = (char *)entries + (k - 1) * p->sort->entry_bytes;
  bool odd = sort_pack(p, in, entries, 0, at_first, p->descending);
  p->sort->smallest(entries, spare, at_first, k);
  int64_t found = k;
  for (int64_t i = at_first, block; i < p->n; i += block) {
    block = i64_min(SORT_BLOCK, p->n - i);
    const char *x = row_fetch(&p->in, tile, in + i * p->in.along, 1, block);
    for (int64_t done = 0; done < block;) {
      done += p->sort->filter(entries, p->room, &found, limit, x + done * p->in.size, i + done, block - done,
                              p->descending);
      if (done == block) break;
      p->sort->smallest(entries, spare, found, k);
      found = k;
    }
    odd = true; /* `filter` does not tell */
  }
  if (found > k) p->sort->smallest(entries, spare, found, k);
  sort_write(p, in, entries, k, odd, out);
}

/* (self, k, dim, largest, sorted, valuesOut, indicesOut). Always sorted. */
status prepare_topk(executor *e, const topk_args *a) {
  enum { LOOK_ROOM = 128, FEW = 8 };
  sort_plan *p = PLAN(e, sort_plan);
  sort_request r = {.in = a->self,
                    .values = a->values_out,
                    .numbers = a->indices_out,
                    .operand = {0, 1, 2},
                    .keep_dim = true,
                    .descending = a->largest};
  int64_t dims[MAX_RANK];
  TRY(sort_expect_dtypes(r.in, r.values, "valuesOut", r.numbers, "indicesOut"));
  TRY(op_expect_dim(a->dim, "dim", r.in->rank, &r.dim));
  TRY(sort_expect_countable(r.in, r.dim));
  const int64_t k = a->k, n = r.in->rank ? r.in->dims[r.dim] : 1;
  EXPECT(k >= 0 && k <= n, "k is %jd, expected 0 to %jd, the elements along dimension %d", (intmax_t)k, (intmax_t)n,
         r.dim);
  for (int d = 0; d < r.in->rank; ++d) dims[d] = d == r.dim ? k : r.in->dims[d];
  tensor room[2];
  r.values = op_one_as(r.values, dims, r.in->rank, &room[0]);
  r.numbers = op_one_as(r.numbers, dims, r.in->rank, &room[1]);
  TRY(op_expect_shape(r.values, "valuesOut", dims, r.in->rank));
  TRY(op_expect_shape(r.numbers, "indicesOut", dims, r.in->rank));
  r.n_results = k;
  r.room = k > n / FEW || 4 * k + LOOK_ROOM > n ? n : 4 * k + LOOK_ROOM;
  p->k = k;
  p->row = topk_row;
  sort_rows_plan(e, p, &r);
  return ST_OK;
}

/* ---- one element of each row: k-th value, median ----------------------------------------------------------------- */

enum { SELECT_KTH, SELECT_MEDIAN, SELECT_NAN_MEDIAN };

/* Returns the rank (from 1) of the median: of two medians, the lower one. If there are NaNs, the median is NaN;
 * NAN_MEDIAN leaves NaNs out. */
static int64_t median_rank(const sort_plan *p, const char *entries, bool odd) {
  const bool is_float = p->compute == COMPUTE_F32 || p->compute == COMPUTE_F64;
  const int64_t n_nan = odd && is_float ? sort_count_nan(p, entries) : 0, n_numbers = p->n - n_nan;
  return n_nan && (p->kind == SELECT_MEDIAN || n_numbers == 0) ? n_numbers + 1 : (n_numbers + 1) / 2;
}

static void select_row(const sort_plan *p, const char *in, void *entries, void *spare, char *const *out) {
  entry64 found;
  const bool odd = sort_pack(p, in, entries, 0, p->n, false);
  p->sort->kth(entries, spare, p->n, p->kind == SELECT_KTH ? p->k : median_rank(p, entries, odd), &found);
  sort_write(p, in, &found, 1, odd, out);
}

static status plan_row_select(executor *e, sort_request *r, int64_t dim, int64_t k, int kind) {
  sort_plan *p = PLAN(e, sort_plan);
  int64_t dims[MAX_RANK];
  int rank = 0;
  TRY(sort_expect_dtypes(r->in, r->values, "valuesOut", r->numbers, "indicesOut"));
  TRY(op_expect_dim(dim, "dim", r->in->rank, &r->dim));
  TRY(sort_expect_countable(r->in, r->dim));
  const int64_t n = r->in->rank ? r->in->dims[r->dim] : 1;
  EXPECT(n || !r->values->n, "self has shape %s, nothing along dimension %d, expected one element or more",
         SHAPE_OF(r->in), r->dim);
  EXPECT(kind != SELECT_KTH || (k >= 1 && k <= n), "k is %jd, expected 1 to %jd, the elements along dimension %d",
         (intmax_t)k, (intmax_t)n, r->dim);
  for (int d = 0; d < r->in->rank; ++d)
    if (d != r->dim || r->keep_dim) dims[rank++] = d == r->dim ? 1 : r->in->dims[d];
  tensor room[2];
  if (kind == SELECT_KTH) {
    r->values = op_one_as(r->values, dims, rank, &room[0]);
    r->numbers = op_one_as(r->numbers, dims, rank, &room[1]);
  } else {
    TRY(sort_expect_order(r->in, r->dim));
  }
  TRY(op_expect_shape(r->values, "valuesOut", dims, rank));
  TRY(op_expect_shape(r->numbers, "indicesOut", dims, rank));
  if (!r->in->rank) r->keep_dim = false;
  r->n_results = 1;
  r->room = n;
  p->k = k;
  p->kind = (uint8_t)kind;
  p->row = select_row;
  sort_rows_plan(e, p, r);
  return ST_OK;
}

/* (self, k, dim, keepdim, valuesOut, indicesOut) */
status prepare_kth(executor *e, const kth_args *a) {
  sort_request r = {
      .in = a->self, .values = a->values_out, .numbers = a->indices_out, .operand = {0, 1, 2}, .keep_dim = a->keepdim};
  return plan_row_select(e, &r, a->dim, a->k, SELECT_KTH);
}

/* (self, dim, keepDim, valuesOut, indicesOut) */
status prepare_median_dim(executor *e, const median_dim_args *a) {
  sort_request r = {
      .in = a->self, .values = a->values_out, .numbers = a->indices_out, .operand = {0, 1, 2}, .keep_dim = a->keep_dim};
  return plan_row_select(e, &r, a->dim, 0, e->op->variant == MEDIAN_DIM_NAN ? SELECT_NAN_MEDIAN : SELECT_MEDIAN);
}

/* The median of all elements. They are read in memory order, which does not affect the result. */
static status median_run(const executor *e, void *const *view, void *scratch) {
  const sort_plan *p = PLAN(e, sort_plan);
  _Alignas(64) char tile[SORT_BLOCK * sizeof(double)];
  char *const entries = (char *)scratch + p->scratch, *const spare = entries + p->slot_bytes / 2;
  bool odd = false;
  cursor c;
  cursor_start(&c, &p->rows, view, 0);
  for (int64_t i = 0, n; i < p->n; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, i64_min(SORT_BLOCK, p->n - i));
    odd |= p->sort->pack(entries + i * p->sort->entry_bytes, row_fetch(&p->in, tile, c.at[0], 1, n), i, n, false);
  }
  entry64 found, value;
  int32_t number;
  p->sort->kth(entries, spare, p->n, median_rank(p, entries, odd), &found);
  p->sort->unpack(NULL, &number, &found, 1, false);
  cursor_start(&c, &p->rows, view, (int64_t)(uint32_t)number);
  p->in.load(&value, c.at[0], 0, 1);
  p->values.store(view[MEDIAN_VALUES_OUT], 0, &value, 1);
  return ST_OK;
}

/* An empty tensor has no median: the value is NaN, or `k` for integer types. */
static status median_of_nothing(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const sort_plan *p = PLAN(e, sort_plan);
  const compute_value value = p->compute == COMPUTE_F32   ? (compute_value){.f32 = __builtin_nanf("")}
                              : p->compute == COMPUTE_F64 ? (compute_value){.f64 = __builtin_nan("")}
                              : p->compute == COMPUTE_I32 ? (compute_value){.i32 = (int32_t)p->k}
                                                          : (compute_value){.i64 = p->k};
  p->values.store(view[MEDIAN_VALUES_OUT], 0, &value, 1);
  return ST_OK;
}

/* (self, out) */
status prepare_median(executor *e, const median_args *a) {
  const tensor *self = a->self, *out = a->values_out;
  const char *out_name = a->name.values_out;
  sort_plan *p = PLAN(e, sort_plan);
  const view v = view_of(self);
  TRY(sort_expect_dtypes(self, out, out_name, NULL, NULL));
  TRY(sort_expect_order(self, self->rank - 1));
  EXPECT(out->n == 1, "%s has %jd elements, expected one", out_name, (intmax_t)out->n);
  EXPECT(self->n <= MOST_ELEMENTS, "self has %jd elements, expected at most %jd", (intmax_t)self->n,
         (intmax_t)MOST_ELEMENTS);
  const compute_type compute = sort_compute_of(self->dtype);
  walk_init(&p->rows, (const view *const[]){&v}, 1, v.rank);
  p->n = self->n;
  p->kind = e->op->variant == MEDIAN_NAN ? SELECT_NAN_MEDIAN : SELECT_MEDIAN;
  p->compute = (uint8_t)compute;
  p->sort = &sorts->of[compute];
  p->in = row_access_of(self->dtype, compute, p->rows.strides[0][p->rows.rank - 1], 0, SORT_BLOCK);
  p->values = row_access_of(out->dtype, compute, 0, 0, SORT_BLOCK);
  p->slot_bytes = 2 * (((uint64_t)p->n * (uint64_t)p->sort->entry_bytes + 63) / 64 * 64);
  p->scratch = workspace_intermediate(e, p->slot_bytes);
  executor_cost(e, (uint64_t)self->n * dtype_bytes(self->dtype), (uint64_t)self->n * 64);
  p->k = self->dtype == ACL_INT64 ? INT64_MIN : self->dtype == ACL_INT32 ? INT32_MIN : 0;
  e->run = self->n ? median_run : median_of_nothing;
  return ST_OK;
}
