/* SPDX-License-Identifier: Apache-2.0 */
/* Scatter, ScatterValue, ScatterAdd, ScatterNd, ScatterNdUpdate, InplaceScatterUpdate, IndexAdd, IndexCopy,
 * InplacePut, and scatters by name: checks and plans; scatter_engine.c runs them. */
#include <stdlib.h>
#include <string.h>

#include "kernel/elementwise/fill.h"
#include "kernel/families.h"
#include "kernel/index/scatter.h"
#include "kernel/move/check.h"

static index_source *scatter_source(executor *e, const tensor *index, const char *name, int operand, int64_t extent,
                                    int64_t stride) {
  index_source *s = &PLAN(e, scatter_plan)->one;
  *s = (index_source){.name = name, .operand = operand, .dtype = index->dtype, .extent = extent, .stride = stride};
  return s;
}

/* ---- Scatter: out[index[i][j]][j] = src[i][j], where dim is 0 ---------------------------------------------------- */

static status expect_scatter_index(const tensor *self, const tensor *index, const tensor *src, int dim) {
  bool fits = index->rank == self->rank;
  for (int d = 0; fits && d < self->rank; ++d) fits = d == dim || index->dims[d] <= self->dims[d];
  EXPECT(fits || !index->n, "index has shape %s, expected none larger than that of self, %s, but in dimension %d",
         SHAPE_OF(index), SHAPE_OF(self), dim);
  fits = !src || index->rank == src->rank;
  for (int d = 0; fits && src && d < index->rank; ++d) fits = index->dims[d] <= src->dims[d];
  EXPECT(fits || !index->n, "index has shape %s, expected none larger than that of src, %s", SHAPE_OF(index),
         src ? SHAPE_OF(src) : "");
  return ST_OK;
}

/* src is NULL where the plan's `value` is scattered, which the caller sets. */
static status plan_scatter(executor *e, const scatter_target *t, int64_t dim_given, const tensor *index_given,
                           int index_operand, const tensor *src_given, places_kind kind) {
  int dim;
  view target;
  TRY(op_expect_dtype(index_given, "index", DTYPES_INDEX));
  TRY(op_expect_dim(dim_given, "dim", t->self->rank, &dim));
  EXPECT(index_given->rank == t->self->rank, "index has %d dimensions, expected those of %s, %d", index_given->rank,
         t->self_name, t->self->rank);
  if (src_given) {
    TRY(move_expect_same_dtype(t->self, t->self_name, src_given, "src"));
    EXPECT(src_given->rank == t->self->rank, "src has %d dimensions, expected those of %s, %d", src_given->rank,
           t->self_name, t->self->rank);
  }
  tensor room[4];
  const tensor *self = index_vector(t->self, &room[0]), *out = index_vector(t->out, &room[1]);
  const tensor *index = index_vector(index_given, &room[2]),
               *src = src_given ? index_vector(src_given, &room[3]) : NULL;
  TRY(expect_scatter_index(self, index, src, dim));
  const scatter_target vectors = {self, out, t->self_name, t->self_operand, t->out_operand};
  TRY(scatter_begin(e, &vectors, kind, 1, &target));
  places *p = &PLAN(e, scatter_plan)->p;
  index_source *s = scatter_source(e, index, "index", index_operand, target.dims[dim], target.strides[dim]);
  view at, side;
  view_init(&at, index);
  if (src) view_init(&side, src);
  for (int d = 0; d < at.rank; ++d) {
    s->step[d] = at.strides[d];
    places_add(p, at.dims[d], d == dim ? 0 : target.strides[d], src ? side.strides[d] : 0);
  }
  scatter_finish(e, src_given ? index_operand + 1 : IN_SCRATCH);
  return ST_OK;
}

/* The operators' `reduce`: 0 replaces, 1 adds, 2 multiplies. */
static status scatter_kind_of(int64_t reduce, places_kind *kind) {
  static const places_kind kinds[] = {PLACES_SCATTER, PLACES_ADD, PLACES_MULTIPLY};
  EXPECT(reduce >= 0 && reduce <= 2, "reduce is %jd, expected 0, 1 or 2", (intmax_t)reduce);
  *kind = kinds[reduce];
  return ST_OK;
}

status prepare_scatter(executor *e, const scatter_args *a) {
  const tensor *out = a->out ? a->out : a->self;
  const scatter_target t = {a->self, out, a->name.self, SCATTER_SELF, a->out ? SCATTER_OUT : SCATTER_SELF};
  places_kind kind;
  TRY(scatter_kind_of(a->reduce, &kind));
  return plan_scatter(e, &t, a->dim, a->index, 1, a->src, kind);
}

status prepare_scatter_value(executor *e, const scatter_value_args *a) {
  const tensor *out = a->out ? a->out : a->self;
  const scatter_target t = {a->self, out, a->name.self, SCATTER_VALUE_SELF,
                            a->out ? SCATTER_VALUE_OUT : SCATTER_VALUE_SELF};
  places_kind kind;
  TRY(scatter_kind_of(a->reduce, &kind));
  TRY(op_expect_dtype(t.self, t.self_name, DTYPES_NUMBER));
  TRY(fill_value_of(t.self, t.self_name, a->value, PLAN(e, scatter_plan)->value));
  return plan_scatter(e, &t, a->dim, a->index, 1, NULL, kind);
}

status prepare_scatter_add(executor *e, const scatter_add_args *a) {
  const scatter_target t = {a->self, a->out, "self", SCATTER_ADD_SELF, SCATTER_ADD_OUT};
  return plan_scatter(e, &t, a->dim, a->index, 1, a->src, PLACES_ADD);
}

/* ---- ScatterNd, ScatterNdUpdate: the last dimension of indices has the coordinates of a slice -------------------- */

/* The operands behind the target: indices have number `first`, updates the next one. */
static status plan_scatter_nd(executor *e, const scatter_target *t, const tensor *indices, const tensor *updates,
                              int first, places_kind kind) {
  const tensor *self = t->self;
  TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
  TRY(move_expect_same_dtype(self, t->self_name, updates, "updates"));
  EXPECT(indices->rank, "indices has no dimension, expected 1 or more");
  const view at = view_of(indices), side = view_of(updates);
  const int last = at.rank - 1, n = (int)at.dims[last];
  EXPECT(at.dims[last] >= 1 && at.dims[last] <= self->rank, "indices has %jd coordinates, expected 1 to %d",
         (intmax_t)at.dims[last], self->rank);
  int64_t dims[2 * MAX_RANK];
  for (int d = 0; d < last; ++d) dims[d] = at.dims[d];
  for (int d = n; d < self->rank; ++d) dims[last + d - n] = self->dims[d];
  TRY(op_expect_shape(updates, "updates", dims, last + self->rank - n));
  view target;
  TRY(scatter_begin(e, t, kind, n, &target));
  places *p = &PLAN(e, scatter_plan)->p;
  places_of_coordinates(p, indices, "indices", first, &target, false);
  for (int d = 0; d < last; ++d) places_add(p, at.dims[d], 0, side.strides[d]);
  for (int d = n; d < self->rank; ++d)
    places_add_slice(p, target.dims[d], target.strides[d], side.strides[last + d - n]);
  scatter_finish(e, first + 1);
  return ST_OK;
}

/* TensorFlow's scatter_add, where updates have a slice of var for each index, or its scatter_nd_add, whose updates have
 * fewer dimensions. */
status prepare_tf_scatter_add(executor *e, const tf_scatter_add_args *a) {
  const tensor *var = a->var, *indices = a->indices, *updates = a->updates;
  const scatter_target t = {var, var, "varRef", TF_SCATTER_ADD_VAR, TF_SCATTER_ADD_VAR};
  const int n = indices->rank;
  TRY(op_expect_dtype(var, "varRef", DTYPES_REAL));
  TRY(op_expect_rank(var, "varRef", 1, MAX_RANK));
  if (updates->rank != n + var->rank - 1) return plan_scatter_nd(e, &t, indices, updates, 1, PLACES_ADD);
  TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
  TRY(move_expect_same_dtype(var, "varRef", updates, "updates"));
  int64_t dims[MAX_RANK];
  for (int d = 0; d < updates->rank; ++d) dims[d] = d < n ? indices->dims[d] : var->dims[d - n + 1];
  TRY(op_expect_shape(updates, "updates", dims, updates->rank));
  view target;
  TRY(scatter_begin(e, &t, PLACES_ADD, 1, &target));
  places *p = &PLAN(e, scatter_plan)->p;
  const view at = view_of(indices), side = view_of(updates);
  index_source *s = scatter_source(e, indices, "indices", TF_SCATTER_ADD_INDICES, target.dims[0], target.strides[0]);
  for (int d = 0; d < n; ++d) {
    s->step[d] = at.strides[d];
    places_add(p, at.dims[d], 0, side.strides[d]);
  }
  for (int d = n; d < side.rank; ++d) places_add_slice(p, side.dims[d], target.strides[d - n + 1], side.strides[d]);
  scatter_finish(e, TF_SCATTER_ADD_UPDATES);
  return ST_OK;
}

status prepare_scatter_nd(executor *e, const scatter_nd_args *a) {
  const tensor *self = a->self;
  const scatter_target t = {self, a->out ? a->out : self, a->name.self, SCATTER_ND_SELF,
                            a->out ? SCATTER_ND_OUT : SCATTER_ND_SELF};
  EXPECT(!a->out || a->updates->rank, "updates has no dimension, expected 1 or more");
  return plan_scatter_nd(e, &t, a->indices, a->updates, 1, PLACES_SCATTER);
}

/* ---- InplaceScatterUpdate: for each i, a range along axis of data[i] (or data[indices[i][0]]) is replaced -------- */

static status expect_update_shapes(const tensor *data, const tensor *indices, const tensor *updates, int axis) {
  EXPECT(axis > 0, "axis is 0, expected another dimension");
  EXPECT(data->n, "data has no element, expected one or more");
  EXPECT(indices->n, "indices has no element, expected one or more");
  EXPECT(updates->n, "updates has no element, expected one or more");
  EXPECT(updates->rank == data->rank, "updates has %d dimensions, expected those of data, %d", updates->rank,
         data->rank);
  EXPECT(indices->rank <= 1 || (indices->rank == 2 && indices->dims[1] == 2),
         "indices has shape %s, expected none, one dimension, or pairs", SHAPE_OF(indices));
  const int64_t n = indices->rank ? indices->dims[0] : 1;
  bool fits = updates->dims[0] == n && (indices->rank == 2 || n <= data->dims[0]);
  for (int d = 1; fits && d < data->rank; ++d)
    fits = d == axis ? updates->dims[d] <= data->dims[d] : updates->dims[d] == data->dims[d];
  EXPECT(fits, "updates has shape %s, expected %jd windows along dimension %d of data, %s", SHAPE_OF(updates),
         (intmax_t)n, axis, SHAPE_OF(data));
  return ST_OK;
}

status prepare_scatter_update(executor *e, const scatter_update_args *a) {
  const tensor *data = a->data, *indices = a->indices, *updates = a->updates;
  const scatter_target t = {data, data, "data", SCATTER_UPDATE_DATA, SCATTER_UPDATE_DATA};
  int axis;
  view target;
  TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
  TRY(move_expect_same_dtype(data, "data", updates, "updates"));
  TRY(op_expect_dim(a->axis, "axis", data->rank, &axis));
  TRY(expect_update_shapes(data, indices, updates, axis));
  const bool pairs = indices->rank == 2;
  TRY(scatter_begin(e, &t, PLACES_SCATTER, pairs ? 2 : 1, &target));
  places *p = &PLAN(e, scatter_plan)->p;
  const view at = view_of(indices), side = view_of(updates);
  const int64_t windows = target.dims[axis] - side.dims[axis] + 1;
  const index_source along = {.name = "indices",
                              .operand = 1,
                              .dtype = indices->dtype,
                              .extent = windows,
                              .stride = target.strides[axis],
                              .offset = pairs ? at.strides[1] : 0,
                              .step = {at.rank ? at.strides[0] : 0}};
  p->source[pairs] = along;
  if (pairs) {
    p->source[0] = along;
    p->source[0].offset = 0;
    p->source[0].extent = target.dims[0];
    p->source[0].stride = target.strides[0];
  }
  places_add(p, side.dims[0], pairs ? 0 : target.strides[0], side.strides[0]);
  for (int d = 1; d < side.rank; ++d) places_add_slice(p, side.dims[d], target.strides[d], side.strides[d]);
  scatter_finish(e, 2);
  return ST_OK;
}

/* ---- IndexAdd, IndexCopy: slices of source go to the slices of self that an index vector selects ----------------- */

static status plan_index_slices(executor *e, const scatter_target *t, int64_t dim_given, const tensor *index_given,
                                const tensor *source_given, places_kind kind, const scalar *alpha) {
  int dim;
  view target;
  TRY(op_expect_dtype(index_given, "index", DTYPES_INDEX));
  TRY(move_expect_same_dtype(t->self, t->self_name, source_given, "source"));
  TRY(op_expect_dim(dim_given, "dim", t->self->rank, &dim));
  TRY(op_expect_rank(index_given, "index", 0, 1));
  tensor room[4];
  const tensor *self = index_vector(t->self, &room[0]), *out = index_vector(t->out, &room[1]);
  const tensor *index = index_vector(index_given, &room[2]), *source = index_vector(source_given, &room[3]);
  int64_t dims[MAX_RANK];
  for (int d = 0; d < self->rank; ++d) dims[d] = d == dim ? index->n : self->dims[d];
  TRY(op_expect_shape(source, "source", dims, self->rank));
  const scatter_target vectors = {self, out, t->self_name, t->self_operand, t->out_operand};
  TRY(scatter_begin(e, &vectors, kind, 1, &target));
  scatter_plan *s = PLAN(e, scatter_plan);
  const view side = view_of(source);
  if (alpha) s->alpha = places_alpha(self->dtype, alpha);
  scatter_source(e, index, "index", 1, target.dims[dim], target.strides[dim])->step[0] =
      index->strides[0] * (int64_t)dtype_bytes(index->dtype);
  places_add(&s->p, index->n, 0, side.strides[dim]);
  for (int d = 0; d < side.rank; ++d)
    if (d != dim) places_add_slice(&s->p, side.dims[d], target.strides[d], side.strides[d]);
  scatter_finish(e, 2);
  return ST_OK;
}

/* CANN's mode 0 is a fast implementation for these types and shapes only. Here all modes add in order. */
static status expect_fast_sums(const tensor *self, int64_t dim) {
  EXPECT(self->rank == 2, "self has shape %s, expected 2 dimensions where mode is 0", SHAPE_OF(self));
  EXPECT(dim == 0 || dim == -2, "dim is %jd, expected 0 or -2 where mode is 0", (intmax_t)dim);
  return op_expect_dtype(self, "self", DTYPES_FLOAT_TO_32 | DTYPE_BIT(ACL_INT32) | DTYPE_BIT(ACL_INT16));
}

status prepare_index_add(executor *e, const index_add_args *a) {
  const bool has_mode = e->op->variant == INDEX_ADD_V2;
  const scatter_target t = {a->self, a->out, "self", INDEX_ADD_SELF, INDEX_ADD_OUT};
  TRY(op_expect_dtype(t.self, t.self_name, DTYPES_REAL));
  if (has_mode && a->mode == 0) TRY(expect_fast_sums(a->self, a->dim));
  return plan_index_slices(e, &t, a->dim, a->index, a->source, PLACES_ADD, a->alpha);
}

status prepare_index_copy(executor *e, const index_copy_args *a) {
  const scatter_target t = {a->self, a->out ? a->out : a->self, "selfRef", INDEX_COPY_SELF,
                            a->out ? INDEX_COPY_OUT : INDEX_COPY_SELF};
  return plan_index_slices(e, &t, a->dim, a->index, a->source, PLACES_SCATTER, NULL);
}

/* ---- InplacePut: self as a vector -------------------------------------------------------------------------------- */

status prepare_put(executor *e, const put_args *a) {
  const tensor *self = a->self, *index = a->index, *source = a->source;
  const scatter_target t = {self, self, "selfRef", PUT_SELF, PUT_SELF};
  view target;
  TRY(op_expect_dtype(index, "index", DTYPES_INDEX));
  TRY(move_expect_same_dtype(self, "selfRef", source, "source"));
  EXPECT(self->n || !index->n, "selfRef has no element, expected one or more as index has %jd", (intmax_t)index->n);
  EXPECT(source->n == index->n, "source has shape %s, expected as many elements as index, %s", SHAPE_OF(source),
         SHAPE_OF(index));
  TRY(scatter_begin(e, &t, a->accumulate ? PLACES_ADD : PLACES_SCATTER, 1, &target));
  scatter_plan *s = PLAN(e, scatter_plan);
  const view at = view_of(index), side = view_of(source);
  if (!e->heap && !executor_heap(e, sizeof(scatter_extra))) return ST_NO_HOST_MEMORY;
  linear_index_plan(e, &scatter_extra_of(e)->linear, &s->one, &target, index, "index", 1);
  s->is_linear = scatter_extra_of(e)->linear.is_needed;
  /* index and source are paired in row-major order: their dimensions are split until both have the same ones. */
  move_space space;
  view source_places = at;
  memcpy(source_places.strides, s->one.step, sizeof s->one.step);
  EXPECT(move_space_of_reshape(&space, &source_places, &side) && space.rank <= MAX_RANK,
         "source has shape %s, expected that of index, %s, as one of them has gaps", SHAPE_OF(source), SHAPE_OF(index));
  for (int d = 0; d < space.rank; ++d) {
    s->one.step[d] = space.to[d];
    places_add(&s->p, space.dims[d], 0, space.from[d]);
  }
  scatter_finish(e, 2);
  return ST_OK;
}

/* ---- by name (ops/graph.aclop), with contiguous operands --------------------------------------------------------- */

static const scalar graph_scatter_minus = {.dtype = ACL_INT64, .integer = -1};

static const places_kind graph_scatter_kinds[] = {
    [GRAPH_SCATTER_SLICES_UPDATE] = PLACES_SCATTER, [GRAPH_SCATTER_SLICES_ADD] = PLACES_ADD,
    [GRAPH_SCATTER_SLICES_SUB] = PLACES_ADD,        [GRAPH_SCATTER_SLICES_MUL] = PLACES_MULTIPLY,
    [GRAPH_SCATTER_SLICES_MAX] = PLACES_MAX,        [GRAPH_SCATTER_SLICES_MIN] = PLACES_MIN,
    [GRAPH_SCATTER_SLICES_DIV] = PLACES_DIVIDE};

/* ScatterUpdate, ScatterAdd, ...: var[indices[i][j]] and updates[i][j], slices. */
status prepare_graph_scatter_slices(executor *e, const graph_scatter_slices_args *a) {
  const scatter_target t = {a->var, a->var_out, "var", GRAPH_SCATTER_SLICES_VAR, GRAPH_SCATTER_SLICES_VAR_OUT};
  const tensor *var = a->var;
  const int variant = e->op->variant, at = a->indices->rank;
  tensor indices = *a->indices, updates = *a->updates;
  int64_t dims[2 * MAX_RANK];
  EXPECT(var->rank, "var has no dimension, expected 1 or more");
  for (int d = 0; d < at; ++d) dims[d] = indices.dims[d];
  for (int d = 1; d < var->rank; ++d) dims[at + d - 1] = var->dims[d];
  TRY(op_expect_shape(&updates, "updates", dims, at + var->rank - 1));
  indices.rank = 1;
  indices.dims[0] = indices.n;
  indices.strides[0] = 1;
  updates.rank = var->rank;
  updates.dims[0] = indices.n;
  for (int d = var->rank; d--;) {
    if (d) updates.dims[d] = var->dims[d];
    updates.strides[d] = d + 1 < var->rank ? updates.strides[d + 1] * var->dims[d + 1] : 1;
  }
  return plan_index_slices(e, &t, 0, &indices, &updates, graph_scatter_kinds[variant],
                           variant == GRAPH_SCATTER_SLICES_SUB ? &graph_scatter_minus : NULL);
}

/* ScatterNdUpdate, ScatterNdAdd, ..., and TensorScatterSub, ... */
status prepare_graph_scatter_slots(executor *e, const graph_scatter_slots_args *a) {
  static const places_kind kinds[] = {[GRAPH_SCATTER_SLOTS_UPDATE] = PLACES_SCATTER,
                                      [GRAPH_SCATTER_SLOTS_ADD] = PLACES_ADD,
                                      [GRAPH_SCATTER_SLOTS_SUB] = PLACES_ADD,
                                      [GRAPH_SCATTER_SLOTS_MAX] = PLACES_MAX,
                                      [GRAPH_SCATTER_SLOTS_MIN] = PLACES_MIN};
  const scatter_target t = {a->var, a->var_out, a->name.var, GRAPH_SCATTER_SLOTS_VAR, GRAPH_SCATTER_SLOTS_VAR_OUT};
  const int variant = e->op->variant;
  TRY(plan_scatter_nd(e, &t, a->indices, a->updates, 1, kinds[variant]));
  if (variant == GRAPH_SCATTER_SLOTS_SUB)
    PLAN(e, scatter_plan)->alpha = places_alpha(a->var->dtype, &graph_scatter_minus);
  return ST_OK;
}

/* InplaceIndexAdd: slices along an axis. */
status prepare_graph_index_add(executor *e, const graph_index_add_args *a) {
  const scatter_target t = {a->var, a->var_out, "var", GRAPH_INDEX_ADD_VAR, GRAPH_INDEX_ADD_VAR_OUT};
  TRY(op_expect_dtype(a->var, "var", DTYPES_REAL));
  return plan_index_slices(e, &t, a->axis, a->indices, a->updates, PLACES_ADD, NULL);
}

static status scatter_zeros_run(const executor *e, void *const *view, void *scratch) {
  const scatter_plan *s = PLAN(e, scatter_plan);
  memset(view[s->out_operand], 0, (size_t)view_elements(&s->out) * dtype_bytes(s->dtype));
  return scatter_run(e, view, scratch);
}

/* ScatterNd: sums of slices in a tensor of zeros. */
status prepare_graph_scatter_zeros(executor *e, const graph_scatter_zeros_args *a) {
  const tensor *y = a->y;
  const scatter_target t = {y, y, "y", GRAPH_SCATTER_ZEROS_Y, GRAPH_SCATTER_ZEROS_Y};
  TRY(op_expect_size(a->shape->size, "shape", (uint64_t)y->rank));
  TRY(op_expect_shape(y, "y", a->shape->value, y->rank));
  TRY(plan_scatter_nd(e, &t, a->indices, a->x, GRAPH_SCATTER_ZEROS_INDICES, PLACES_ADD));
  if (y->n) e->run = scatter_zeros_run;
  return ST_OK;
}
