/* SPDX-License-Identifier: Apache-2.0 */
/* Unique, Unique2 and UniqueConsecutive of all elements; UniqueConsecutive and UniqueDim of the slices along a
 * dimension; and Unique by name, whose values are in the order in which they appear. Complex numbers, which only
 * UniqueConsecutive accepts, are treated as slices of two elements.
 * Other values are always sorted, whether requested or not (except those of UniqueConsecutive). NaN equals nothing, so
 * each NaN is a value of its own. The number of values is known after the task has run; it then sets the shape
 * of the tensors of values and counts. */
#include <stdlib.h>

#include "kernel/families.h"
#include "kernel/sort/sort_rows.h"
#include "tensor/objects.h"

enum { NO_DIM = 1000 }; /* UniqueConsecutive's value of dim for all elements */

typedef struct {
  tensor self, values, inverse, counts; /* descriptions; those not wanted have no elements */
  bool wants_inverse, wants_counts, sorts, by_appearance;
  uint8_t compute;
  int dim;
  int values_result, counts_result, inverse_result; /* indices in the executor's results */
  uint64_t entries, spare, order;                   /* offsets in the workspace */
} unique_plan;

static status unique_set_counts(const executor *e, const unique_plan *p, int64_t n_values) {
  EXPECT(!p->wants_counts || n_values <= p->counts.n, "countsOut has %jd elements, expected at least %jd",
         (intmax_t)p->counts.n, (intmax_t)n_values);
  if (p->wants_counts) tensor_set_shape(e->results[p->counts_result], &n_values, 1);
  return ST_OK;
}

/* Writes inverse[], which is contiguous, to its tensor, which may be strided. */
static void write_inverse(const unique_plan *p, const int64_t *inverse, void *out) {
  const view to = view_of(&p->inverse), from = view_contiguous(ACL_INT64, p->inverse.rank, p->inverse.dims);
  elementwise_copy(out, &to, inverse, &from, 0);
}

static void write_count(const unique_plan *p, void *out, int64_t value, int64_t count) {
  if (p->wants_counts) ((int64_t *)out)[value * p->counts.strides[0]] = count;
}

/* ---- all elements ------------------------------------------------------------------------------------------------ */

static void pack_all(const unique_plan *p, const sort_loops *sort, void *from, char *entries) {
  _Alignas(64) char tile[SORT_BLOCK * sizeof(double)];
  const view v = view_of(&p->self);
  walk w;
  cursor c;
  walk_init(&w, (const view *const[]){&v}, 1, v.rank);
  const row_access in = row_access_of(p->self.dtype, p->compute, w.strides[0][w.rank - 1], 0, SORT_BLOCK);
  cursor_start(&c, &w, &from, 0);
  for (int64_t i = 0, n; i < p->self.n; i += n) {
    n = i64_min(SORT_BLOCK, p->self.n - i);
    sort->pack(entries + i * sort->entry_bytes, row_gather(&in, &c, tile, n), i, n, false);
  }
}

/* Whether an entry belongs to a NaN: these have the largest keys of floats. */
static bool is_nan_entry(const unique_plan *p, const char *entry) {
  if (p->compute == COMPUTE_F32) return *(const entry32 *)(const void *)entry >> 32 == UINT32_MAX;
  return p->compute == COMPUTE_F64 && ((const entry64 *)(const void *)entry)->key == UINT64_MAX;
}

static int64_t unique_entry_number(const unique_plan *p, const char *entry) {
  if (p->compute == COMPUTE_F32 || p->compute == COMPUTE_I32) return (uint32_t) * (const entry32 *)(const void *)entry;
  return (int64_t)((const entry64 *)(const void *)entry)->number;
}

/* Moves the entries of distinct values to the front and returns their number. inverse:
 * room for an int64 per element. */
static int64_t unique_distinct(const unique_plan *p, const sort_loops *sort, char *entries, int64_t *inverse,
                               void *counts_out) {
  const int64_t n = p->self.n, bytes = sort->entry_bytes;
  int64_t n_values = 0, first = 0;
  for (int64_t i = 0; i < n; ++i) {
    const char *entry = entries + i * bytes;
    if (i == 0 || !sort->same_key(entry, entries + (n_values - 1) * bytes) || is_nan_entry(p, entry)) {
      if (i && n_values <= p->counts.n) write_count(p, counts_out, n_values - 1, i - first);
      first = i;
      inverse[unique_entry_number(p, entry)] = n_values;
      memmove(entries + n_values++ * bytes, entry, (size_t)bytes);
    } else {
      inverse[unique_entry_number(p, entry)] = n_values - 1;
    }
  }
  if (n && n_values <= p->counts.n) write_count(p, counts_out, n_values - 1, n - first);
  return n_values;
}

/* Numbers the values in the order in which they appear: replaces inverse[], and writes them. ids: room for an int64 per
 * value. */
static void unique_by_appearance(const unique_plan *p, const char *self, char *values, int64_t *inverse, int64_t *ids,
                                 int64_t n_values) {
  const size_t bytes = dtype_bytes(p->self.dtype);
  int64_t n = 0;
  for (int64_t v = 0; v < n_values; ++v) ids[v] = -1;
  for (int64_t i = 0; i < p->self.n; ++i) {
    int64_t *const id = &ids[inverse[i]];
    if (*id < 0) {
      memcpy(values + (size_t)n * bytes, self + (size_t)i * bytes, bytes);
      *id = n++;
    }
    inverse[i] = *id;
  }
}

static status unique_run(const executor *e, void *const *view, void *scratch) {
  const unique_plan *p = e->heap;
  const sort_loops *sort = &sorts->of[p->compute];
  char *entries = (char *)scratch + p->entries, *spare = (char *)scratch + p->spare;
  const int64_t n = p->self.n, step = p->values.rank ? p->values.strides[0] * (int64_t)dtype_bytes(p->values.dtype) : 0;
  _Alignas(64) char tile[SORT_BLOCK * sizeof(double)];
  int64_t n_values = 0;
  if (n) {
    pack_all(p, sort, view[0], entries);
    char *sorted = p->sorts ? sort->sort(entries, spare, n) : entries;
    int64_t *inverse = (int64_t *)(void *)(sorted == entries ? spare : entries);
    n_values = unique_distinct(p, sort, sorted, inverse, view[3]);
    EXPECT(n_values <= p->values.n, "valueOut has %jd elements, expected at least %jd", (intmax_t)p->values.n,
           (intmax_t)n_values);
    if (p->by_appearance)
      unique_by_appearance(p, view[0], view[1], inverse, (int64_t *)(void *)((char *)scratch + p->order), n_values);
    for (int64_t i = 0, block; !p->by_appearance && i < n_values; i += block) {
      block = i64_min(SORT_BLOCK, n_values - i);
      sort->unpack(tile, NULL, sorted + i * sort->entry_bytes, block, false);
      loops->store[p->values.dtype][p->compute]((char *)view[1] + i * step, step, tile, block);
    }
    if (p->wants_inverse) write_inverse(p, inverse, view[2]);
  }
  if (p->wants_inverse) tensor_set_shape(e->results[p->inverse_result], p->inverse.dims, p->inverse.rank);
  TRY(unique_set_counts(e, p, n_values));
  tensor_set_shape(e->results[p->values_result], &n_values, 1);
  return ST_OK;
}

/* ---- slices along a dimension ------------------------------------------------------------------------------------ */

typedef struct {
  const char *rows; /* slices, contiguous, in the compute type */
  int64_t n;        /* elements of a slice */
  compute_type compute;
} slices;

#define COMPARE_SLICES(T)                                                                                              \
  for (int64_t k = 0; k < s->n; ++k) {                                                                                 \
    const T x = ((const T *)(const void *)s->rows)[a * s->n + k],                                                      \
            y = ((const T *)(const void *)s->rows)[b * s->n + k];                                                      \
    if (x == y) continue;                                                                                              \
    if (x != x || y != y) return x == x ? -1 : 1;                                                                      \
    return x < y ? -1 : 1;                                                                                             \
  }                                                                                                                    \
  return 0;

/* Compares two slices by their first different element; the result is negative if slice a comes first. NaN
 * is largest and equals nothing. */
static int compare_slices(const slices *s, int64_t a, int64_t b) {
  switch (s->compute) {
  case COMPUTE_F32: COMPARE_SLICES(float)
  case COMPUTE_F64: COMPARE_SLICES(double)
  case COMPUTE_I32: COMPARE_SLICES(int32_t)
  default: COMPARE_SLICES(int64_t)
  }
}

/* Stable bottom-up merge sort. Returns where the result is: order or spare. */
static int64_t *sort_slices(const slices *s, int64_t *order, int64_t *spare, int64_t n) {
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * width) {
      const int64_t middle = i64_min(begin + width, n), end = i64_min(begin + 2 * width, n);
      int64_t a = begin, b = middle;
      for (int64_t k = begin; k < end; ++k)
        spare[k] = b == end || (a < middle && compare_slices(s, order[a], order[b]) <= 0) ? order[a++] : order[b++];
    }
    int64_t *const t = order;
    order = spare;
    spare = t;
  }
  return order;
}

/* Returns a view of t with dimension `dim` moved to the front. */
static view dim_first(const tensor *t, int dim) {
  view v = view_of(t), moved = v;
  moved.dims[0] = v.dims[dim];
  moved.strides[0] = v.strides[dim];
  for (int d = 0, at = 1; d < v.rank; ++d) {
    if (d == dim) continue;
    moved.dims[at] = v.dims[d];
    moved.strides[at++] = v.strides[d];
  }
  return moved;
}

/* Copies slice number `from` of self to number `to` of the values. */
static void write_slice(const unique_plan *p, const tensor *values, void *const *view_at, int64_t from, int64_t to) {
  view in = dim_first(&p->self, p->dim), out = dim_first(values, p->dim);
  const char *const source = (const char *)view_at[0] + from * in.strides[0];
  char *const target = (char *)view_at[1] + to * out.strides[0];
  in.dims[0] = out.dims[0] = 1;
  elementwise_copy(target, &out, source, &in, 0);
}

/* Copies the fetched complex number `from` to position `to` of the values. */
static void write_pair(const unique_plan *p, void *out, const char *rows, int64_t from, int64_t to) {
  const tensor *values = &p->values;
  char *const target = (char *)out + to * values->strides[0] * (int64_t)dtype_bytes(values->dtype);
  memcpy(target, rows + from * (int64_t)dtype_bytes(values->dtype), dtype_bytes(values->dtype));
}

static int parts_per_element(const unique_plan *p) { return dtype_is_complex(p->self.dtype) ? 2 : 1; }

static void fetch_slices(const unique_plan *p, void *const *view_at, char *rows) {
  static const int dtype_of[N_COMPUTE] = {ACL_FLOAT, ACL_DOUBLE, ACL_INT32, ACL_INT64};
  const view whole = p->dim < 0 ? view_of(&p->self) : dim_first(&p->self, p->dim), in = view_real_parts(&whole);
  view to = view_contiguous(dtype_of[p->compute], in.rank, in.dims);
  for (int d = 0; d < to.rank; ++d) to.strides[d] *= parts_per_element(p);
  for (int k = 0; k < parts_per_element(p); ++k) {
    const int64_t offset = k * (int64_t)dtype_part_bytes(p->self.dtype);
    elementwise_copy(rows + offset, &to, (const char *)view_at[0] + offset, &in, 0);
  }
}

/* The number of slices: along the dimension, or of all elements for dim < 0. */
static int64_t n_slices(const tensor *t, int dim) { return dim < 0 ? t->n : t->dims[dim]; }

/* Numbers the values of n slices in the given order: first_of[v] becomes the first slice with value v, inverse[i] the
 * number of slice i's value. Writes the counts as far as there is room. Returns the number of values. */
static int64_t number_values(const unique_plan *p, const slices *s, int64_t n, const int64_t *order, int64_t *first_of,
                             int64_t *inverse, void *counts_out) {
  int64_t n_values = 0, first = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (i == 0 || compare_slices(s, order[i], order[i - 1]) != 0) {
      if (i && n_values <= p->counts.n) write_count(p, counts_out, n_values - 1, i - first);
      first = i;
      first_of[n_values++] = order[i];
    }
    inverse[order[i]] = n_values - 1;
  }
  if (n && n_values <= p->counts.n) write_count(p, counts_out, n_values - 1, n - first);
  return n_values;
}

static status unique_slices_run(const executor *e, void *const *view_at, void *scratch) {
  const unique_plan *p = e->heap;
  const int64_t n = n_slices(&p->self, p->dim);
  char *const rows = (char *)scratch + p->entries;
  int64_t *order = (int64_t *)(void *)((char *)scratch + p->order), *spare = order + n, *inverse = spare + n;
  const slices s = {rows, n ? p->self.n / n * parts_per_element(p) : 0, p->compute};
  if (p->self.n) fetch_slices(p, view_at, rows);
  for (int64_t i = 0; i < n; ++i) order[i] = i;
  if (p->sorts) {
    int64_t *const sorted = sort_slices(&s, order, spare, n);
    spare = sorted == order ? spare : order;
    order = sorted;
  }
  const int64_t n_values = number_values(p, &s, n, order, spare, inverse, p->counts.n ? view_at[3] : NULL);
  const int along = p->dim < 0 ? 0 : p->dim;
  EXPECT(n_values <= p->values.dims[along], "valueOut has %jd elements along dimension %d, expected at least %jd",
         (intmax_t)p->values.dims[along], along, (intmax_t)n_values);
  tensor values = p->values;
  int64_t dims[MAX_RANK];
  for (int d = 0; d < values.rank; ++d) dims[d] = d == along ? n_values : values.dims[d];
  tensor_set_shape(&values, dims, values.rank);
  for (int64_t v = 0; v < n_values && values.n; ++v) {
    if (p->dim < 0)
      write_pair(p, view_at[1], rows, spare[v], v);
    else
      write_slice(p, &values, view_at, spare[v], v);
  }
  if (p->wants_inverse && n) write_inverse(p, inverse, view_at[2]);
  if (p->wants_inverse) tensor_set_shape(e->results[p->inverse_result], p->inverse.dims, p->inverse.rank);
  TRY(unique_set_counts(e, p, n_values));
  tensor_set_shape(e->results[p->values_result], dims, values.rank);
  return ST_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

typedef struct {
  const tensor *self, *values, *inverse, *counts; /* inverse, counts: NULL if not wanted */
  bool sorts, any_shape;                          /* any_shape: outputs may have other shapes, see fit_shapes() */
  bool by_name;                                   /* operands are contiguous; inverse may be INT32 */
  int dim;                                        /* -1: all elements */
} unique_call;

static status expect_outputs(const unique_call *c) {
  TRY(op_expect_dtype(c->self, "self", DTYPES_REAL | (c->sorts ? 0 : DTYPES_COMPLEX)));
  EXPECT(c->values->dtype == c->self->dtype, "valueOut has dtype %s, expected that of self, %s",
         dtype_name(c->values->dtype), dtype_name(c->self->dtype));
  EXPECT(c->self->n <= INT32_MAX, "self has %jd elements, expected at most %d", (intmax_t)c->self->n, INT32_MAX);
  if (c->dim < 0) TRY(op_expect_rank(c->values, "valueOut", 1, 1));
  if (c->inverse) TRY(op_expect_dtype(c->inverse, "inverseOut", c->by_name ? DTYPES_INDEX : DTYPE_BIT(ACL_INT64)));
  if (c->inverse && c->dim < 0) TRY(op_expect_same_shape(c->inverse, "inverseOut", c->self));
  if (c->inverse && c->dim >= 0) TRY(op_expect_shape(c->inverse, "inverseOut", &c->self->dims[c->dim], 1));
  if (!c->counts) return ST_OK;
  TRY(op_expect_dtype(c->counts, "countsOut", DTYPE_BIT(ACL_INT64)));
  TRY(op_expect_rank(c->counts, "countsOut", 1, 1));
  return ST_OK;
}

/* Checks that the values' other dimensions are those of self. */
static status expect_slices(const unique_call *c) {
  int64_t dims[MAX_RANK];
  EXPECT(c->values->rank == c->self->rank, "valueOut has %d dimensions, expected those of self, %d", c->values->rank,
         c->self->rank);
  for (int d = 0; d < c->self->rank; ++d) dims[d] = d == c->dim ? c->values->dims[d] : c->self->dims[d];
  return op_expect_shape(c->values, "valueOut", dims, c->self->rank);
}

/* Returns a contiguous output with enough room as if it had these dims (in *room); otherwise t. */
static const tensor *fit_output(const tensor *t, const int64_t *dims, int rank, tensor *room) {
  int64_t n = 1;
  for (int d = 0; d < rank; ++d) n *= dims[d];
  if (!t || !t->contiguous || t->n < n) return t;
  *room = *t;
  tensor_set_shape(room, dims, rank);
  return room;
}

/* CANN does not check the shapes of UniqueConsecutive's and UniqueDim's outputs, since the task sets them; its sample
 * passes different ones. */
static void fit_shapes(unique_call *c, tensor room[3]) {
  const tensor *self = c->self;
  const int64_t n = n_slices(self, c->dim);
  c->values =
      c->dim < 0 ? fit_output(c->values, &n, 1, &room[0]) : fit_output(c->values, self->dims, self->rank, &room[0]);
  c->inverse =
      c->dim < 0 ? fit_output(c->inverse, self->dims, self->rank, &room[1]) : fit_output(c->inverse, &n, 1, &room[1]);
  c->counts = fit_output(c->counts, &n, 1, &room[2]);
}

static status plan_unique(executor *e, const unique_call *given) {
  static const int bytes_of[N_COMPUTE] = {4, 8, 4, 8};
  unique_call call = *given;
  const unique_call *c = &call;
  tensor room[3];
  if (given->any_shape) fit_shapes(&call, room);
  TRY(expect_outputs(c));
  if (c->dim >= 0) TRY(expect_slices(c));
  HEAP_PLAN(unique_plan, p, e, sizeof *p);
  p->self = *c->self;
  p->values = *c->values;
  p->wants_inverse = c->inverse;
  p->wants_counts = c->counts;
  p->inverse.n = p->counts.n = 0;
  if (c->inverse) p->inverse = *c->inverse;
  if (c->counts) p->counts = *c->counts;
  p->sorts = c->sorts;
  p->by_appearance = c->by_name;
  p->dim = c->dim;
  const bool complex = dtype_is_complex(c->self->dtype);
  p->compute = (uint8_t)sort_compute_of(dtype_part(c->self->dtype));
  p->values_result = executor_result(e, given->values, &p->values, c->dim < 0 ? 0 : c->dim);
  if (c->counts) p->counts_result = executor_result(e, given->counts, &p->counts, 0);
  if (c->inverse) p->inverse_result = executor_result(e, given->inverse, &p->inverse, -1);
  const uint64_t n = (uint64_t)c->self->n, moved = n * dtype_bytes(c->self->dtype);
  if (c->dim < 0 && !complex) {
    const uint64_t bytes = n * (uint64_t)sorts->of[p->compute].entry_bytes;
    p->entries = workspace_intermediate(e, bytes);
    p->spare = workspace_intermediate(e, bytes);
    p->order = c->by_name ? workspace_intermediate(e, n * sizeof(int64_t)) : 0;
    e->run = unique_run;
  } else {
    p->entries = workspace_copy(e, n * (uint64_t)(bytes_of[p->compute] * (complex ? 2 : 1)));
    p->order = workspace_intermediate(e, 3 * sizeof(int64_t) * (uint64_t)n_slices(c->self, c->dim));
    e->run = unique_slices_run;
  }
  executor_cost(e, 2 * moved, n * 256);
  return ST_OK;
}

/* (self, sorted, returnInverse, valueOut, inverseOut) */
status prepare_unique(executor *e, const unique_args *a) {
  return plan_unique(e, &(unique_call){.self = a->self,
                                       .values = a->value_out,
                                       .inverse = a->return_inverse ? a->inverse_out : NULL,
                                       .sorts = true,
                                       .dim = -1});
}

/* (x, y, idx) */
status prepare_graph_unique(executor *e, const graph_unique_args *a) {
  TRY(op_expect_rank(a->x, "x", 1, 1));
  return plan_unique(e, &(unique_call){.self = a->x,
                                       .values = a->y,
                                       .inverse = a->idx,
                                       .sorts = true,
                                       .any_shape = true,
                                       .by_name = true,
                                       .dim = -1});
}

/* (self, sorted, returnInverse, returnCounts, valueOut, inverseOut, countsOut) */
status prepare_unique2(executor *e, const unique2_args *a) {
  return plan_unique(e, &(unique_call){.self = a->self,
                                       .values = a->value_out,
                                       .inverse = a->return_inverse ? a->inverse_out : NULL,
                                       .counts = a->return_counts ? a->counts_out : NULL,
                                       .sorts = true,
                                       .dim = -1});
}

/* (self, returnInverse, returnCounts, dim, valueOut, inverseOut, countsOut) */
status prepare_unique_consecutive(executor *e, const unique_consecutive_args *a) {
  unique_call c = {.self = a->self,
                   .values = a->value_out,
                   .inverse = a->return_inverse ? a->inverse_out : NULL,
                   .counts = a->return_counts ? a->counts_out : NULL,
                   .any_shape = true,
                   .dim = -1};
  if (a->dim != NO_DIM && c.self->rank) TRY(op_expect_dim(a->dim, "dim", c.self->rank, &c.dim));
  return plan_unique(e, &c);
}

/* (self, sorted, returnInverse, dim, valueOut, inverseOut, countsOut) */
status prepare_unique_dim(executor *e, const unique_dim_args *a) {
  unique_call c = {.self = a->self,
                   .values = a->value_out,
                   .inverse = a->return_inverse ? a->inverse_out : NULL,
                   .counts = a->counts_out,
                   .any_shape = true,
                   .sorts = true};
  EXPECT(c.self->rank, "self has shape %s, expected one dimension or more", DIMS_TEXT(c.self->dims, 0));
  TRY(op_expect_dim(a->dim, "dim", c.self->rank, &c.dim));
  return plan_unique(e, &c);
}
