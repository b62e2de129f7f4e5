/* SPDX-License-Identifier: Apache-2.0 */
/* EmbeddingDenseBackward and EmbeddingRenorm: both process row i of a table for each index i. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/elementwise/fill.h"
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/move/check.h"

static int64_t read_index(int dtype, const char *at) {
  if (dtype == ACL_INT64) return *(const int64_t *)(const void *)at;
  return *(const int32_t *)(const void *)at;
}

/* ---- EmbeddingDenseBackward: row i of out is the sum of the rows of grad whose index is i ------------------------ */

/* Rows are added in the order of the indices, in float: directly in out where out is float, otherwise in workspace,
 * which has a slot for each row of out that occurs among the indices. */
typedef struct {
  places p;
  index_source one;
  view out; /* operand 2 */
  int grad_dtype;
  int64_t padding; /* index whose gradient stays 0; negative: none */
  bool by_frequency, direct;
  uint64_t counts, sums, slots, slot_of; /* in scratch: one element per row, slot, row, index */
  uint64_t converted;                    /* in scratch: indices of other types, converted to int64 */
  int64_t n_slots;                       /* upper bound */
} backward_plan;

/* The indices as passed, and as read by the run (different if they were converted). In e->heap, and only where the run
 * counts or converts indices. */
typedef struct {
  view given, read;
} backward_indices;

/* Checks the indices and counts the occurrences of each row. Unless `direct`, also assigns slots to rows
 * in the order of their first use. */
static status count_row_uses(const backward_plan *p, const view *indices, const char *index, void *scratch) {
  int64_t *counts = (int64_t *)(void *)((char *)scratch + p->counts), n_slots = 0;
  int64_t *slots = (int64_t *)(void *)((char *)scratch + p->slots);
  int64_t *slot_of = (int64_t *)(void *)((char *)scratch + p->slot_of);
  const int64_t rows = p->out.dims[0];
  walk w;
  cursor c;
  memset(counts, 0, (size_t)rows * sizeof *counts);
  walk_init(&w, &indices, 1, indices->rank);
  cursor_start(&c, &w, (void *const[]){(void *)(uintptr_t)index}, 0);
  for (int64_t i = 0; i < w.n; ++i, cursor_next(&c, 1)) {
    const int64_t row = read_index(indices->dtype, c.at[0]);
    if (unlikely(row < 0 || row >= rows)) return places_fail("indices", i, row, 0, rows - 1);
    if (!p->direct && counts[row] == 0) slots[row] = n_slots++;
    if (!p->direct) slot_of[i] = slots[row];
    ++counts[row];
  }
  return ST_OK;
}

/* Divides rows of float sums by the counts (by_frequency) and stores them in out (unless `direct`). */
static void finish_gradient_rows(const backward_plan *p, const int64_t *counts, const int64_t *slots, char *sums,
                                 char *out) {
  const int64_t width = p->out.dims[1], sum_step = p->direct ? p->out.strides[1] : (int64_t)sizeof(float);
  const int64_t sum_row = p->direct ? p->out.strides[0] : width * sum_step;
  store_loop *const store = loops->store[p->out.dtype][COMPUTE_F32];
  for (int64_t r = 0; r < p->out.dims[0]; ++r) {
    if (counts[r] == 0 || r == p->padding) continue;
    char *row = sums + (p->direct ? r : slots[r]) * sum_row;
    for (int64_t k = 0; p->by_frequency && counts[r] > 1 && k < width; ++k)
      *(float *)(void *)(row + k * sum_step) /= (float)counts[r];
    if (!p->direct) store(out + r * p->out.strides[0], p->out.strides[1], row, width);
  }
}

static void zero_rows(char *to, const view *v, uint64_t cost_ns) {
  fill_plan fill;
  fill_plan_init(&fill, v, NULL);
  fill_run(&fill, to, cost_ns);
}

static status run_embedding_backward(const executor *e, void *const *at, void *scratch) {
  const backward_plan *p = PLAN(e, backward_plan);
  const bool counts = !p->direct || p->by_frequency;
  char *sums = p->direct ? at[2] : (char *)scratch + p->sums;
  const backward_indices *indices = e->heap;
  char *index = at[1];
  if (indices && indices->given.dtype != indices->read.dtype) {
    index = (char *)scratch + p->converted;
    elementwise_copy(index, &indices->read, at[1], &indices->given, e->cost_ns);
  }
  if (counts) TRY(count_row_uses(p, &indices->read, index, scratch));
  const bool has_elements = view_elements(&p->out) > 0;
  if (has_elements) zero_rows(at[2], &p->out, e->cost_ns / 2);
  if (!p->direct) memset(sums, 0, (size_t)(p->n_slots * p->out.dims[1]) * sizeof(float));
  const places_job job = {.p = &p->p,
                          .kind = PLACES_ADD,
                          .dtype = p->grad_dtype,
                          .alpha = {.f32 = 1},
                          .target = sums,
                          .side = at[0],
                          .view = at,
                          .scratch = scratch,
                          .cost_ns = e->cost_ns};
  TRY(places_run(&job));
  if (!has_elements) return ST_OK;
  if (counts)
    finish_gradient_rows(p, (const int64_t *)(const void *)((char *)scratch + p->counts),
                         (const int64_t *)(const void *)((char *)scratch + p->slots), sums, at[2]);
  if (p->direct && p->padding >= 0 && p->padding < p->out.dims[0]) {
    view row = p->out;
    row.dims[0] = 1;
    zero_rows((char *)at[2] + p->padding * row.strides[0], &row, 0);
  }
  return ST_OK;
}

static status expect_embedding_shapes(const tensor *grad, const tensor *indices, const tensor *out, int64_t n_rows) {
  int64_t n = grad->rank ? 1 : -1;
  for (int d = 0; d + 1 < grad->rank; ++d) n *= grad->dims[d];
  EXPECT(n == indices->n, "grad has shape %s, expected as many rows as indices, %s, has elements", SHAPE_OF(grad),
         SHAPE_OF(indices));
  EXPECT(n_rows >= 0, "numWeights is %ju, expected at most %jd", (uintmax_t)n_rows, (intmax_t)INT64_MAX);
  const int64_t dims[] = {n_rows, grad->dims[grad->rank - 1]};
  return op_expect_shape(out, "out", dims, 2);
}

/* Determines the view by which indices are read, and keeps in e->heap what the run needs to know about it. */
static status plan_indices(executor *e, backward_plan *p, const tensor *indices, view *read) {
  const view given = view_of(indices);
  const bool converts = !(DTYPES_INDEX & DTYPE_BIT(indices->dtype));
  *read = converts ? view_contiguous(ACL_INT64, given.rank, given.dims) : given;
  p->converted = converts ? workspace_copy(e, (uint64_t)indices->n * sizeof(int64_t)) : 0;
  if (!converts && !p->by_frequency && p->direct) return ST_OK;
  HEAP_PLAN(backward_indices, kept, e, sizeof *kept);
  *kept = (backward_indices){given, *read};
  return ST_OK;
}

/* paddingIdx is unsigned; callers without a padding index pass -1. */
status prepare_embedding_dense_backward(executor *e, const embedding_dense_backward_args *a) {
  const tensor *grad = a->grad, *indices = a->indices, *out = a->out;
  backward_plan *p = PLAN(e, backward_plan);
  const uint64_t floats = DTYPES_FLOAT_TO_32;
  TRY(op_expect_dtype(grad, "grad", floats));
  TRY(op_expect_dtype(indices, "indices", DTYPES_REAL & ~DTYPE_BIT(ACL_BF16)));
  TRY(op_expect_dtype(out, "out", floats));
  TRY(expect_embedding_shapes(grad, indices, out, a->num_weights));
  const view from = view_of(grad);
  const uint64_t rows = (uint64_t)out->dims[0], n = (uint64_t)indices->n;
  p->out = view_of(out);
  view read_as;
  p->grad_dtype = grad->dtype;
  p->padding = a->padding_idx;
  p->by_frequency = a->scale_grad_by_freq;
  p->direct = out->dtype == ACL_FLOAT;
  p->n_slots = (int64_t)(n < rows ? n : rows);
  p->counts = p->slots = p->slot_of = p->sums = 0;
  TRY(plan_indices(e, p, indices, &read_as));
  const bool converts = read_as.dtype != indices->dtype;
  if (p->by_frequency || !p->direct) p->counts = workspace_intermediate(e, rows * sizeof(int64_t));
  if (!p->direct) {
    p->slots = workspace_intermediate(e, rows * sizeof(int64_t));
    p->slot_of = workspace_intermediate(e, n * sizeof(int64_t));
    p->sums = workspace_intermediate(e, (uint64_t)(p->n_slots * out->dims[1]) * sizeof(float));
  }
  /* The positions index rows of out, or slots. */
  const view slot_of = view_contiguous(ACL_INT64, read_as.rank, read_as.dims);
  const view sums = view_contiguous(ACL_FLOAT, 2, (const int64_t[]){p->n_slots, out->dims[1]});
  const view *index = p->direct ? &read_as : &slot_of, *target = p->direct ? &p->out : &sums;
  p->one = (index_source){.name = "indices",
                          .operand = p->direct && !converts ? 1 : IN_SCRATCH,
                          .dtype = index->dtype,
                          .scratch = p->direct ? p->converted : p->slot_of,
                          .extent = target->dims[0],
                          .stride = target->strides[0]};
  places_init(&p->p, (int64_t)sizeof(float), (int64_t)dtype_bytes(grad->dtype), &p->one, 1);
  view grad_rows = from;
  --grad_rows.rank;
  move_space both;
  EXPECT(move_space_of_reshape(&both, index, &grad_rows) && both.rank <= MAX_RANK,
         "grad has %d dimensions, expected those of indices and one more, as one of them has gaps", grad->rank);
  for (int d = 0; d < both.rank; ++d) {
    p->one.step[d] = both.to[d];
    places_add(&p->p, both.dims[d], 0, both.from[d]);
  }
  places_add_slice(&p->p, target->dims[1], target->strides[1], from.strides[grad_rows.rank]);
  places_finish(&p->p, false);
  e->run = run_embedding_backward;
  const uint64_t read = (uint64_t)grad->n * dtype_bytes(grad->dtype),
                 written = (uint64_t)out->n * dtype_bytes(out->dtype);
  executor_cost(e, read + written + (uint64_t)indices->n * dtype_bytes(indices->dtype), (uint64_t)grad->n * 8);
  return ST_OK;
}

/* ---- EmbeddingRenorm: rows whose norm exceeds maxNorm are scaled down to it -------------------------------------- */

enum { TILE = 512 };

typedef struct {
  walk indices; /* over the indices, operand 1 */
  int index_dtype;
  view table;
  double max_norm, norm_type;
  load_loop *load;
  store_loop *store;
  uint64_t seen; /* in scratch: one byte per row, since a row is scaled once however often it occurs */
} renorm_plan;

static double row_norm(const renorm_plan *p, const char *row) {
  const double type = p->norm_type;
  const int64_t n = p->table.dims[1], step = p->table.strides[1];
  double tile[TILE], sum = 0;
  for (int64_t i = 0; i < n; i += TILE) {
    const int64_t m = i64_min(TILE, n - i);
    p->load(tile, row + i * step, step, m);
    for (int64_t k = 0; k < m; ++k) {
      const double x = fabs(tile[k]);
      if (isinf(type))
        sum = x > sum || x != x ? x : sum;
      else
        sum += type == 2 ? x * x : type == 1 ? x : type == 0 ? x != 0 : pow(x, type);
    }
  }
  return isinf(type) || type == 1 || type == 0 ? sum : type == 2 ? sqrt(sum) : pow(sum, 1 / type);
}

static void scale_table_row(const renorm_plan *p, char *row, double by) {
  const int64_t n = p->table.dims[1], step = p->table.strides[1];
  double tile[TILE];
  for (int64_t i = 0; i < n; i += TILE) {
    const int64_t m = i64_min(TILE, n - i);
    p->load(tile, row + i * step, step, m);
    for (int64_t k = 0; k < m; ++k) tile[k] *= by;
    p->store(row + i * step, step, tile, m);
  }
}

static status run_renorm(const executor *e, void *const *at, void *scratch) {
  const renorm_plan *p = PLAN(e, renorm_plan);
  const int64_t rows = p->table.dims[0];
  char *seen = (char *)scratch + p->seen;
  cursor c;
  memset(seen, 0, (size_t)rows);
  cursor_start(&c, &p->indices, &at[1], 0);
  for (int64_t i = 0; i < p->indices.n; ++i, cursor_next(&c, 1)) {
    const int64_t index = read_index(p->index_dtype, c.at[0]);
    if (unlikely(index < 0 || index >= rows)) return places_fail("indices", i, index, 0, rows - 1);
    if (seen[index]++) {
      seen[index] = 1;
      continue;
    }
    char *row = (char *)at[0] + index * p->table.strides[0];
    const double norm = row_norm(p, row);
    if (norm > p->max_norm) scale_table_row(p, row, p->max_norm / (norm + 1e-7));
  }
  return ST_OK;
}

status prepare_embedding_renorm(executor *e, const embedding_renorm_args *a) {
  const tensor *self = a->self, *indices = a->indices;
  renorm_plan *p = PLAN(e, renorm_plan);
  TRY(op_expect_dtype(self, "selfRef", DTYPES_FLOAT));
  TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
  EXPECT(self->rank == 2, "selfRef has %d dimensions, expected 2", self->rank);
  EXPECT(a->norm_type >= 0, "normType is %g, expected 0 or more", a->norm_type);
  EXPECT(!(a->max_norm < 0), "maxNorm is %g, expected 0 or more", a->max_norm);
  const view at = view_of(indices);
  walk_init(&p->indices, (const view *const[]){&at}, 1, at.rank);
  p->index_dtype = indices->dtype;
  p->table = view_of(self);
  p->max_norm = a->max_norm;
  p->norm_type = a->norm_type;
  p->load = loops->load[self->dtype][COMPUTE_F64];
  p->store = loops->store[self->dtype][COMPUTE_F64];
  p->seen = workspace_intermediate(e, (uint64_t)self->dims[0]);
  const uint64_t touched = (uint64_t)(indices->n < self->dims[0] ? indices->n : self->dims[0]);
  const uint64_t width = (uint64_t)self->dims[1];
  executor_cost(e, 2 * touched * width * dtype_bytes(self->dtype), touched * width * 32);
  e->run = indices->n ? run_renorm : move_run_nothing;
  return ST_OK;
}
