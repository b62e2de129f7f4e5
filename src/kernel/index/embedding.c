/* EmbeddingDenseBackward, EmbeddingRenorm: row i of the table is worked on for every index i. */
#include <math.h>
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

/* They are added in their order. Sums are kept in float: in out where that is float, else in workspace. */
typedef struct {
  places p;
  index_source one;
  view out; /* operand 2 */
  int grad_dtype;
  int64_t padding; /* the index that does not count; negative: none */
  bool by_frequency, direct;
  uint64_t counts, sums; /* in scratch */
} backward_plan;

/* Each row by the number of indices that it was the sum of. Indices have been checked. */
static void divide_rows(const backward_plan *p, const char *index, int64_t *counts, char *sums, const view *v) {
  memset(counts, 0, (size_t)v->dims[0] * sizeof *counts);
  int64_t at[MAX_RANK] = {0};
  for (int64_t i = 0; i < p->p.n; ++i) {
    const char *place = index;
    for (int d = 0; d < p->p.rank; ++d) place += at[d] * p->one.step[d];
    ++counts[read_index(p->one.dtype, place)];
    for (int d = p->p.rank - 1; d >= 0 && ++at[d] == p->p.dims[d]; --d) at[d] = 0;
  }
  for (int64_t r = 0; r < v->dims[0]; ++r)
    for (int64_t k = 0; counts[r] > 1 && k < v->dims[1]; ++k)
      *(float *)(void *)(sums + r * v->strides[0] + k * v->strides[1]) /= (float)counts[r];
}

static void zero(char *to, const view *v, uint64_t cost_ns) {
  fill_plan fill;
  fill_plan_init(&fill, v, NULL);
  fill_run(&fill, to, cost_ns);
}

static status run_backward(const executor *e, void *const *at, void *scratch) {
  const backward_plan *p = PLAN(e, backward_plan);
  const view contiguous = view_contiguous(ACL_FLOAT, 2, p->out.dims), *sums_view = p->direct ? &p->out : &contiguous;
  char *sums = p->direct ? at[2] : (char *)scratch + p->sums;
  const places_job job = {.p = &p->p,
                          .kind = PLACES_ADD,
                          .dtype = p->grad_dtype,
                          .alpha = {.f32 = 1},
                          .target = sums,
                          .side = at[0],
                          .target_bytes = p->out.dims[0] * sums_view->strides[0],
                          .view = at,
                          .cost_ns = e->cost_ns};
  if (view_elements(&p->out)) zero(sums, sums_view, e->cost_ns / 2);
  TRY(places_run(&job));
  if (view_elements(&p->out) == 0) return ST_OK;
  if (p->by_frequency && p->p.n)
    divide_rows(p, at[1], (int64_t *)(void *)((char *)scratch + p->counts), sums, sums_view);
  if (p->padding >= 0 && p->padding < p->out.dims[0]) {
    view row = *sums_view;
    row.dims[0] = 1;
    zero(sums + p->padding * row.strides[0], &row, 0);
  }
  if (!p->direct) elementwise_copy(at[2], &p->out, sums, &contiguous, e->cost_ns);
  return ST_OK;
}

static status check_shapes(const tensor *grad, const tensor *indices, const tensor *out, int64_t n_rows) {
  char is[SHAPE_TEXT], of[SHAPE_TEXT];
  bool fits = grad->rank == indices->rank + 1;
  for (int d = 0; fits && d < indices->rank; ++d) fits = grad->dims[d] == indices->dims[d];
  EXPECT(fits, "grad has shape %s, expected that of indices, %s, and one dimension more",
         shape_text(grad->dims, grad->rank, is), shape_text(indices->dims, indices->rank, of));
  EXPECT(n_rows >= 0, "numWeights is %ju, expected at most %jd", (uintmax_t)n_rows, (intmax_t)INT64_MAX);
  const int64_t dims[] = {n_rows, grad->dims[grad->rank - 1]};
  return op_expect_shape(out, "out", dims, 2);
}

/* paddingIdx is unsigned; those without one pass -1. */
status prepare_embedding_dense_backward(executor *e, const op_arg *a) {
  const tensor *grad = a[0].tensor, *indices = a[1].tensor, *out = a[5].tensor;
  backward_plan *p = PLAN(e, backward_plan);
  const uint64_t floats = DTYPES_FLOAT & ~DTYPE_BIT(ACL_DOUBLE);
  TRY(op_expect_dtype(grad, "grad", floats));
  TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
  TRY(op_expect_dtype(out, "out", floats));
  TRY(check_shapes(grad, indices, out, a[2].integer));
  const view from = view_of(grad), index = view_of(indices);
  p->out = view_of(out);
  p->grad_dtype = grad->dtype;
  p->padding = a[3].integer;
  p->by_frequency = a[4].boolean;
  p->direct = out->dtype == ACL_FLOAT;
  if (p->by_frequency) p->counts = workspace_intermediate(e, (uint64_t)out->dims[0] * sizeof(int64_t));
  if (!p->direct) p->sums = workspace_intermediate(e, (uint64_t)out->n * sizeof(float));
  const view sums = p->direct ? p->out : view_contiguous(ACL_FLOAT, 2, p->out.dims);
  p->one = (index_source){
      .name = "indices", .operand = 1, .dtype = indices->dtype, .extent = sums.dims[0], .stride = sums.strides[0]};
  places_init(&p->p, (int64_t)sizeof(float), (int64_t)dtype_bytes(grad->dtype), &p->one, 1);
  for (int d = 0; d < index.rank; ++d) {
    p->one.step[d] = index.strides[d];
    places_add(&p->p, index.dims[d], 0, from.strides[d]);
  }
  places_add_slice(&p->p, sums.dims[1], sums.strides[1], from.strides[index.rank]);
  places_finish(&p->p, false);
  e->run = run_backward;
  const uint64_t read = (uint64_t)grad->n * dtype_bytes(grad->dtype),
                 written = (uint64_t)out->n * dtype_bytes(out->dtype);
  executor_cost(e, read + written + (uint64_t)indices->n * dtype_bytes(indices->dtype), (uint64_t)grad->n * 8);
  return ST_OK;
}

/* ---- EmbeddingRenorm: rows whose norm is beyond maxNorm are scaled down to it ------------------------------------- */

enum { TILE = 512 };

typedef struct {
  walk indices; /* operand 0 */
  int index_dtype;
  view table;
  double max_norm, norm_type;
  load_loop *load;
  store_loop *store;
  uint64_t seen; /* in scratch: a byte for each row, since one is scaled once however often it is named */
} renorm_plan;

static double row_norm(const renorm_plan *p, const char *row) {
  const double type = p->norm_type;
  const int64_t n = p->table.dims[1], step = p->table.strides[1];
  double tile[TILE], sum = 0;
  for (int64_t i = 0; i < n; i += TILE) {
    const int64_t m = smaller(TILE, n - i);
    p->load(tile, row + i * step, step, m);
    for (int64_t k = 0; k < m; ++k) {
      const double x = fabs(tile[k]);
      if (isinf(type))
        sum = x > sum || x != x ? x : sum;
      else
        sum += type == 2 ? x * x : type == 1 ? x : pow(x, type);
    }
  }
  return isinf(type) || type == 1 ? sum : type == 2 ? sqrt(sum) : pow(sum, 1 / type);
}

static void scale_row(const renorm_plan *p, char *row, double by) {
  const int64_t n = p->table.dims[1], step = p->table.strides[1];
  double tile[TILE];
  for (int64_t i = 0; i < n; i += TILE) {
    const int64_t m = smaller(TILE, n - i);
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
    if (norm > p->max_norm) scale_row(p, row, p->max_norm / (norm + 1e-7));
  }
  return ST_OK;
}

status prepare_embedding_renorm(executor *e, const op_arg *a) {
  const tensor *self = a[0].tensor, *indices = a[1].tensor;
  renorm_plan *p = PLAN(e, renorm_plan);
  TRY(op_expect_dtype(self, "selfRef", DTYPES_FLOAT));
  TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
  EXPECT(self->rank == 2, "selfRef has %d dimensions, expected 2", self->rank);
  EXPECT(a[3].real > 0, "normType is %g, expected more than 0", a[3].real);
  EXPECT(a[2].real >= 0, "maxNorm is %g, expected 0 or more", a[2].real);
  const view at = view_of(indices);
  walk_init(&p->indices, (const view *const[]){&at}, 1, at.rank);
  p->index_dtype = indices->dtype;
  p->table = view_of(self);
  p->max_norm = a[2].real;
  p->norm_type = a[3].real;
  p->load = loops->load[self->dtype][COMPUTE_F64];
  p->store = loops->store[self->dtype][COMPUTE_F64];
  p->seen = workspace_intermediate(e, (uint64_t)self->dims[0]);
  const uint64_t touched = (uint64_t)(indices->n < self->dims[0] ? indices->n : self->dims[0]);
  const uint64_t width = (uint64_t)self->dims[1];
  executor_cost(e, 2 * touched * width * dtype_bytes(self->dtype), touched * width * 32);
  e->run = indices->n ? run_renorm : run_nothing;
  return ST_OK;
}
