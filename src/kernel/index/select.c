/* SPDX-License-Identifier: Apache-2.0 */
/* IndexSelect, GatherV2, GatherV3, Embedding, Gather, GatherNd, Take: each element of the result is
 * copied from a position of self. */
#include <stdlib.h>

#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/move/check.h"
#include "op/account.h"

typedef struct {
  places p;
  index_source one; /* the source if there is one; several are in e->heap */
  int out;          /* operand number of out; self is operand 0 */
} gather_plan;

static status run_gather(const executor *e, void *const *view, void *scratch) {
  const gather_plan *g = PLAN(e, gather_plan);
  const places_job job = {.p = &g->p,
                          .kind = PLACES_GATHER,
                          .target = view[0],
                          .side = view[g->out],
                          .view = view,
                          .scratch = scratch,
                          .cost_ns = e->cost_ns};
  return places_run(&job);
}

/* Completes the plan; to be called when all dimensions have been added. */
static void finish_gather(executor *e, const tensor *out, int out_operand) {
  gather_plan *g = PLAN(e, gather_plan);
  const uint64_t bytes = dtype_bytes(out->dtype), n = (uint64_t)out->n;
  g->out = out_operand;
  e->run = move_run_nothing;
  if (n) {
    places_finish(&g->p, true);
    e->run = run_gather;
  }
  account_indexed(e, 0, n, bytes);
  executor_cost(e, n * bytes * 2 + (n ? (uint64_t)g->p.n * 8 : 0), n ? (uint64_t)g->p.n * 64 : 0);
}

static index_source gather_source(const tensor *index, const char *name, int operand, int64_t extent, int64_t stride) {
  return (index_source){
      .name = name, .operand = operand, .dtype = index->dtype, .wraps = true, .extent = extent, .stride = stride};
}

/* ---- one index tensor of any shape along one dimension ----------------------------------------------------------- */

/* out = self[..., index, ...]: the index's dimensions replace `dim`, except the first n_batch
 * ones, which it shares with self. */
static status plan_gather_along(executor *e, const tensor *self, int dim, const tensor *index, const char *index_name,
                                int n_batch, const tensor *out) {
  gather_plan *g = PLAN(e, gather_plan);
  const int64_t bytes = (int64_t)dtype_bytes(self->dtype), index_bytes = (int64_t)dtype_bytes(index->dtype);
  g->one = gather_source(index, index_name, 1, self->dims[dim], self->strides[dim] * bytes);
  places_init(&g->p, bytes, bytes, &g->one, 1);
  for (int d = 0; d < index->rank; ++d) {
    g->one.step[d] = index->strides[d] * index_bytes;
    places_add(&g->p, index->dims[d], d < n_batch ? self->strides[d] * bytes : 0,
               out->strides[d < n_batch ? d : dim + d - n_batch] * bytes);
  }
  for (int d = n_batch; d < self->rank; ++d)
    if (d != dim)
      places_add_slice(&g->p, self->dims[d], self->strides[d] * bytes,
                       out->strides[d < dim ? d : d - 1 + index->rank - n_batch] * bytes);
  finish_gather(e, out, 2);
  return ST_OK;
}

static status expect_gathered_shape(const tensor *self, int dim, const tensor *index, int n_batch, const tensor *out) {
  int64_t dims[2 * MAX_RANK];
  int rank = 0;
  for (int d = 0; d < dim; ++d) dims[rank++] = self->dims[d];
  for (int d = n_batch; d < index->rank; ++d) dims[rank++] = index->dims[d];
  for (int d = dim + 1; d < self->rank; ++d) dims[rank++] = self->dims[d];
  EXPECT(rank <= MAX_RANK, "index has shape %s, expected one that leaves out at most %d dimensions", SHAPE_OF(index),
         MAX_RANK);
  return op_expect_shape(out, "out", dims, rank);
}

/* If self and out have no dimensions, all positions write the same element: returns a view of out in the index's shape
 * with stride 0. Otherwise returns out. */
static const tensor *gather_out(const tensor *self, const tensor *index, const tensor *out, tensor *room) {
  if (self->rank || out->rank) return out;
  *room = *out;
  room->rank = index->rank;
  room->n = index->n;
  for (int d = 0; d < index->rank; ++d) {
    room->dims[d] = index->dims[d];
    room->strides[d] = 0;
  }
  return room;
}

status prepare_index_select(executor *e, const index_select_args *a) {
  const tensor *index = a->index;
  int dim;
  TRY(move_expect_same_dtype(a->self, "self", a->out, "out"));
  TRY(op_expect_dtype(index, "index", DTYPES_INDEX));
  TRY(op_expect_dim(a->dim, "dim", a->self->rank, &dim));
  TRY(op_expect_rank(index, "index", 0, 1));
  tensor room[3];
  const tensor *self = index_vector(a->self, &room[0]), *places = index_vector(index, &room[1]);
  const tensor *out = gather_out(a->self, places, a->out, &room[2]);
  TRY(expect_gathered_shape(self, dim, places, 0, out));
  return plan_gather_along(e, self, dim, places, "index", 0, out);
}

/* GatherV3's modes select a way of memory access, without effect here. Mode 2 is refused: CANN's
 * page says that it does not exist. */
static status gather_batches(const gather_v2_args *a, int dim, const tensor *self, const tensor *index, int *n_batch) {
  const int64_t batches = a->batch_dims, mode = a->mode;
  const int64_t most = dim < index->rank ? dim : index->rank;
  EXPECT(mode == 0 || mode == 1, "mode is %jd, expected 0 or 1", (intmax_t)mode);
  EXPECT(batches >= 0 && batches <= most, "batchDims is %jd, expected 0 to %jd", (intmax_t)batches, (intmax_t)most);
  for (int d = 0; d < batches; ++d)
    EXPECT(index->dims[d] == self->dims[d], "index has shape %s, expected the first %jd dimensions of self, %s",
           SHAPE_OF(index), (intmax_t)batches, SHAPE_OF(self));
  *n_batch = (int)batches;
  return ST_OK;
}

status prepare_gather_v2(executor *e, const gather_v2_args *a) {
  const bool in_batches = e->op->variant == GATHER_BATCHES;
  const tensor *index = a->index, *out = a->out;
  int dim, n_batch = 0;
  TRY(move_expect_same_dtype(a->self, "self", out, "out"));
  TRY(op_expect_dtype(index, "index", DTYPES_INDEX));
  TRY(op_expect_dim(a->dim, "dim", a->self->rank, &dim));
  tensor room[3];
  const tensor *self = index_vector(a->self, &room[0]);
  if (in_batches) TRY(gather_batches(a, dim, self, index, &n_batch));
  /* According to CANN's page an index without dimensions counts as shape [1]; frameworks omit the dimension in out. */
  if (index->rank == 0 && out->rank == self->rank) index = index_vector(index, &room[1]);
  out = gather_out(a->self, index, out, &room[2]);
  TRY(expect_gathered_shape(self, dim, index, n_batch, out));
  return plan_gather_along(e, self, dim, index, "index", n_batch, out);
}

/* GatherV2 by name, whose axis is a list. */
status prepare_graph_gather(executor *e, const graph_gather_args *a) {
  const tensor *x = a->x, *indices = a->indices, *y = a->y;
  int dim;
  EXPECT(a->axis->size == 1, "axis has %ju elements, expected 1", (uintmax_t)a->axis->size);
  EXPECT(x->rank, "x has no dimensions, expected some");
  TRY(move_expect_same_dtype(x, "x", y, "y"));
  TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
  TRY(op_expect_dim(a->axis->value[0], "axis", x->rank, &dim));
  const int64_t most = dim < indices->rank ? dim : indices->rank;
  const int64_t batches = a->batch_dims < 0 ? a->batch_dims + indices->rank : a->batch_dims;
  EXPECT(batches >= 0 && batches <= most, "batch_dims is %jd, expected 0 to %jd", (intmax_t)a->batch_dims,
         (intmax_t)most);
  for (int d = 0; d < batches; ++d)
    EXPECT(indices->dims[d] == x->dims[d], "indices has shape %s, expected the first %jd dimensions of x, %s",
           SHAPE_OF(indices), (intmax_t)batches, SHAPE_OF(x));
  TRY(expect_gathered_shape(x, dim, indices, (int)batches, y));
  return plan_gather_along(e, x, dim, indices, "indices", (int)batches, y);
}

status prepare_embedding(executor *e, const embedding_args *a) {
  const tensor *weight = a->weight, *indices = a->indices, *out = a->out;
  TRY(move_expect_same_dtype(weight, "weight", out, "out"));
  TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
  TRY(op_expect_rank(weight, "weight", 2, 2));
  TRY(expect_gathered_shape(weight, 0, indices, 0, out));
  TRY(plan_gather_along(e, weight, 0, indices, "indices", 0, out));
  PLAN(e, gather_plan)->one.wraps = false;
  return ST_OK;
}

/* ---- Gather: out[i][j] = self[index[i][j]][j], where dim is 0 ---------------------------------------------------- */

status prepare_gather(executor *e, const gather_args *a) {
  const tensor *index = a->index;
  gather_plan *g = PLAN(e, gather_plan);
  int dim;
  TRY(move_expect_same_dtype(a->self, "self", a->out, "out"));
  TRY(op_expect_dtype(index, "index", DTYPES_INDEX));
  TRY(op_expect_dim(a->dim, "dim", a->self->rank, &dim));
  TRY(op_expect_same_shape(a->out, "out", index));
  tensor room[3];
  const tensor *self = index_vector(a->self, &room[0]), *vector = index_vector(index, &room[1]);
  const tensor *out = index_vector(a->out, &room[2]);
  bool fits = self->rank == vector->rank;
  for (int d = 0; fits && d < self->rank; ++d) fits = d == dim || vector->dims[d] <= self->dims[d];
  EXPECT(fits || !index->n, "index has shape %s, expected none larger than self's, %s, but in dimension %d",
         SHAPE_OF(index), SHAPE_OF(self), dim);
  const view from = view_of(self), at = view_of(vector), to = view_of(out);
  g->one = gather_source(vector, "index", 1, from.dims[dim], from.strides[dim]);
  places_init(&g->p, (int64_t)dtype_bytes(self->dtype), (int64_t)dtype_bytes(self->dtype), &g->one, 1);
  for (int d = 0; d < at.rank; ++d) {
    g->one.step[d] = at.strides[d];
    places_add(&g->p, at.dims[d], d == dim ? 0 : from.strides[d], to.strides[d]);
  }
  finish_gather(e, out, 2);
  return ST_OK;
}

/* ---- GatherNd: the last dimension of indices has the coordinates of a slice -------------------------------------- */

status prepare_gather_nd(executor *e, const gather_nd_args *a) {
  const tensor *self = a->self, *indices = a->indices, *out = a->out;
  gather_plan *g = PLAN(e, gather_plan);
  TRY(move_expect_same_dtype(self, a->name.self, out, a->name.out));
  TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
  EXPECT(indices->rank, "indices has no dimension, expected 1 or more");
  const view from = view_of(self), at = view_of(indices), to = view_of(out);
  const int last = at.rank - 1, n = (int)at.dims[last];
  EXPECT(at.dims[last] >= 1 && at.dims[last] <= from.rank, "indices has %jd coordinates, expected 1 to %d",
         (intmax_t)at.dims[last], from.rank);
  int64_t dims[2 * MAX_RANK];
  for (int d = 0; d < last; ++d) dims[d] = at.dims[d];
  for (int d = n; d < from.rank; ++d) dims[last + d - n] = from.dims[d];
  TRY(op_expect_shape(out, a->name.out, dims, last + from.rank - n));
  HEAP_PLAN(index_source, source, e, (size_t)n * sizeof *source);
  places_init(&g->p, (int64_t)dtype_bytes(self->dtype), (int64_t)dtype_bytes(self->dtype), source, n);
  places_of_coordinates(&g->p, indices, "indices", 1, &from, a->negative_index_support);
  for (int d = 0; d < last; ++d) places_add(&g->p, at.dims[d], 0, to.strides[d]);
  for (int d = n; d < from.rank; ++d) places_add_slice(&g->p, from.dims[d], from.strides[d], to.strides[last + d - n]);
  finish_gather(e, out, 2);
  return ST_OK;
}

/* ---- Take: self as a vector -------------------------------------------------------------------------------------- */

static status run_take(const executor *e, void *const *view, void *scratch) {
  TRY(linear_index_run(e->heap, view, scratch));
  return run_gather(e, view, scratch);
}

status prepare_take(executor *e, const take_args *a) {
  const tensor *self = a->self, *index = a->index, *out = a->out;
  gather_plan *g = PLAN(e, gather_plan);
  TRY(move_expect_same_dtype(self, "self", out, "out"));
  TRY(op_expect_dtype(index, "index", DTYPES_INDEX));
  TRY(op_expect_same_shape(out, "out", index));
  EXPECT(self->n || !index->n, "self has no element, expected one or more as index has %jd", (intmax_t)index->n);
  HEAP_PLAN(linear_index, linear, e, sizeof *linear);
  const view from = view_of(self), to = view_of(out);
  const int64_t bytes = (int64_t)dtype_bytes(self->dtype);
  places_init(&g->p, bytes, bytes, &g->one, 1);
  linear_index_plan(e, linear, &g->one, &from, index, "index", 1);
  for (int d = 0; d < to.rank; ++d) places_add(&g->p, to.dims[d], 0, to.strides[d]);
  finish_gather(e, out, 2);
  if (out->n && linear->is_needed) e->run = run_take;
  return ST_OK;
}
