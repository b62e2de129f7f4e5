/* SPDX-License-Identifier: Apache-2.0 */
/* CoalesceSparse: entries of a sparse tensor that share a position become one. uniqueIndices has the number of each
 * entry's group, by which its values are added to newValuesOut, in order, and its position is copied to newIndicesOut.
 * uniqueLen only says by its shape how many groups there are; so do the outputs. */
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/index/scatter.h"
#include "kernel/move/check.h"
#include "tensor/objects.h"

/* The rest of the plan, in the executor's heap; the sums are a scatter_plan. */
typedef struct {
  int64_t n, columns;     /* of the positions */
  int64_t group_stride;   /* bytes between the elements of uniqueIndices */
  int64_t from[2], to[2]; /* strides of the positions, in bytes */
  int group_dtype, from_dtype, to_dtype;
} coalesce_plan;

static status run_coalesce(const executor *e, void *const *view, void *scratch) {
  const coalesce_plan *p = e->heap;
  TRY(scatter_run(e, view, scratch)); /* which checks the groups' numbers */
  for (int64_t i = 0; p->columns > 0 && i < p->n; ++i) {
    int64_t group, position[MAX_RANK];
    loops->load[p->group_dtype][COMPUTE_I64](
        &group, (const char *)view[COALESCE_SPARSE_UNIQUE_INDICES] + i * p->group_stride, 0, 1);
    loops->load[p->from_dtype][COMPUTE_I64](position, (const char *)view[COALESCE_SPARSE_INDICES] + i * p->from[0],
                                            p->from[1], p->columns);
    loops->store[p->to_dtype][COMPUTE_I64]((char *)view[COALESCE_SPARSE_NEW_INDICES_OUT] + group * p->to[0], p->to[1],
                                           position, p->columns);
  }
  return ST_OK;
}

static status coalesce_check(const coalesce_sparse_args *a) {
  const tensor *const integers[] = {a->unique_len, a->unique_indices, a->indices, a->new_indices_out};
  const char *const names[] = {"uniqueLen", "uniqueIndices", "indices", "newIndicesOut"};
  for (int i = 0; i < 4; ++i) TRY(op_expect_dtype(integers[i], names[i], DTYPES_INDEX));
  TRY(op_expect_rank(a->indices, "indices", 2, 2));
  const int64_t n = a->indices->dims[0], columns = a->indices->dims[1];
  EXPECT(columns <= MAX_RANK, "indices has %jd columns, expected one for each dimension, up to %d", (intmax_t)columns,
         MAX_RANK);
  TRY(op_expect_shape(a->unique_indices, "uniqueIndices", &n, 1));
  TRY(op_expect_dtype(a->values, "values", DTYPES_FLOAT_TO_32 | DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_rank(a->values, "values", 1, MAX_RANK));
  EXPECT(a->values->dims[0] == n, "values has shape %s, expected %jd entries", SHAPE_OF(a->values), (intmax_t)n);
  TRY(op_expect_dtype(a->new_values_out, "newValuesOut", DTYPE_BIT(a->values->dtype)));
  TRY(op_expect_rank(a->new_values_out, "newValuesOut", a->values->rank, a->values->rank));
  int64_t dims[MAX_RANK];
  const int64_t groups = dims[0] = a->new_values_out->dims[0];
  for (int d = 1; d < a->values->rank; ++d) dims[d] = a->values->dims[d];
  TRY(op_expect_shape(a->new_values_out, "newValuesOut", dims, a->values->rank));
  return op_expect_shape(a->new_indices_out, "newIndicesOut", (const int64_t[]){groups, columns}, 2);
}

status prepare_coalesce_sparse(executor *e, const coalesce_sparse_args *a) {
  TRY(coalesce_check(a));
  const scatter_target t = {a->new_values_out, a->new_values_out, "newValuesOut", COALESCE_SPARSE_NEW_VALUES_OUT,
                            COALESCE_SPARSE_NEW_VALUES_OUT};
  const view group = view_of(a->unique_indices), side = view_of(a->values), from = view_of(a->indices),
             to = view_of(a->new_indices_out);
  view target;
  TRY(scatter_begin(e, &t, PLACES_ADD, 1, &target));
  places *p = &PLAN(e, scatter_plan)->p;
  p->source[0] = (index_source){.name = "uniqueIndices",
                                .operand = COALESCE_SPARSE_UNIQUE_INDICES,
                                .dtype = group.dtype,
                                .extent = target.dims[0],
                                .stride = target.strides[0],
                                .step = {group.strides[0]}};
  places_add(p, side.dims[0], 0, side.strides[0]);
  for (int d = 1; d < side.rank; ++d) places_add_slice(p, side.dims[d], target.strides[d], side.strides[d]);
  scatter_finish(e, COALESCE_SPARSE_VALUES);
  INVARIANT(!e->heap);
  HEAP_PLAN(coalesce_plan, c, e, sizeof *c);
  *c = (coalesce_plan){.n = from.dims[0],
                       .columns = to.dims[0] ? from.dims[1] : 0,
                       .group_stride = group.strides[0],
                       .from = {from.strides[0], from.strides[1]},
                       .to = {to.strides[0], to.strides[1]},
                       .group_dtype = group.dtype,
                       .from_dtype = from.dtype,
                       .to_dtype = to.dtype};
  e->run = run_coalesce;
  return ST_OK;
}

/* ---- Coalesce by name: positions in columns, which are sorted, too ----------------------------------------------- */

typedef struct {
  int64_t n, dims; /* entries, and coordinates of each */
  int dtype;       /* of the values */
  uint64_t order, sums;
} sorted_plan;

typedef struct {
  const int64_t *positions; /* [dims, n] */
  int64_t n, dims;
} sorted_positions;

static int coalesce_compare(const sorted_positions *p, int64_t a, int64_t b) {
  for (int64_t d = 0; d < p->dims; ++d) {
    const int64_t x = p->positions[d * p->n + a], y = p->positions[d * p->n + b];
    if (x != y) return x < y ? -1 : 1;
  }
  return 0;
}

/* Entries of one position stay in their order. */
static int coalesce_order(const void *x, const void *y, void *positions) {
  const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
  const int order = coalesce_compare(positions, a, b);
  return order ? order : (a > b) - (a < b);
}

static status expect_positions(const sorted_positions *p, const int64_t *shape) {
  for (int64_t d = 0; d < p->dims; ++d)
    for (int64_t i = 0; i < p->n; ++i) {
      const int64_t at = p->positions[d * p->n + i];
      if (at < 0 || at >= shape[d])
        return fail(ST_DEVICE_EXCEPTION, "x_indices has %jd in row %jd, expected 0 to %jd", (intmax_t)at, (intmax_t)d,
                    (intmax_t)shape[d] - 1);
    }
  return ST_OK;
}

static status run_sorted(const executor *e, void *const *view, void *scratch) {
  const sorted_plan *p = PLAN(e, sorted_plan);
  sorted_positions from = {view[GRAPH_COALESCE_X_INDICES], p->n, p->dims};
  int64_t *const order = (int64_t *)(void *)((char *)scratch + p->order), groups = 0;
  double *const sums = (double *)(void *)((char *)scratch + p->sums);
  int64_t *const to = view[GRAPH_COALESCE_Y_INDICES];
  const char *const values = view[GRAPH_COALESCE_X_VALUES];
  const int64_t size = (int64_t)dtype_bytes(p->dtype);
  TRY(expect_positions(&from, view[GRAPH_COALESCE_X_SHAPE]));
  for (int64_t i = 0; i < p->n; ++i) order[i] = i;
  if (p->n) qsort_r(order, (size_t)p->n, sizeof *order, coalesce_order, &from);
  for (int64_t i = 0; i < p->n; ++i) {
    double value;
    loops->load[p->dtype][COMPUTE_F64](&value, values + order[i] * size, 0, 1);
    if (i > 0 && coalesce_compare(&from, order[groups - 1], order[i]) == 0) {
      sums[groups - 1] += value;
    } else {
      order[groups] = order[i]; /* which is not behind i */
      sums[groups++] = value;
    }
  }
  for (int64_t d = 0; d < p->dims; ++d)
    for (int64_t k = 0; k < groups; ++k) to[d * groups + k] = from.positions[d * p->n + order[k]];
  if (groups) loops->store[p->dtype][COMPUTE_F64](view[GRAPH_COALESCE_Y_VALUES], size, sums, groups);
  memcpy(view[GRAPH_COALESCE_Y_SHAPE], view[GRAPH_COALESCE_X_SHAPE], (size_t)p->dims * sizeof(int64_t));
  tensor_set_shape(e->results[0], (const int64_t[]){p->dims, groups}, 2);
  tensor_set_shape(e->results[1], &groups, 1);
  return ST_OK;
}

status prepare_graph_coalesce(executor *e, const graph_coalesce_args *a) {
  const tensor *indices = a->x_indices, *values = a->x_values;
  sorted_plan *p = PLAN(e, sorted_plan);
  TRY(op_expect_dtype(indices, "x_indices", DTYPE_BIT(ACL_INT64)));
  TRY(op_expect_rank(indices, "x_indices", 2, 2));
  EXPECT(indices->dims[0] > 0, "x_indices has shape %s, expected a row for each dimension", SHAPE_OF(indices));
  TRY(op_expect_dtype(values, "x_values", DTYPES_FLOAT));
  TRY(op_expect_shape(values, "x_values", &indices->dims[1], 1));
  TRY(op_expect_dtype(a->x_shape, "x_shape", DTYPE_BIT(ACL_INT64)));
  TRY(op_expect_shape(a->x_shape, "x_shape", &indices->dims[0], 1));
  TRY(op_expect_like(a->y_indices, "y_indices", indices));
  TRY(op_expect_like(a->y_values, "y_values", values));
  TRY(op_expect_like(a->y_shape, "y_shape", a->x_shape));
  *p = (sorted_plan){.n = indices->dims[1], .dims = indices->dims[0], .dtype = values->dtype};
  p->order = workspace_intermediate(e, (uint64_t)p->n * sizeof(int64_t));
  p->sums = workspace_intermediate(e, (uint64_t)p->n * sizeof(double));
  executor_result(e, a->y_indices, a->y_indices, 1);
  executor_result(e, a->y_values, a->y_values, 0);
  executor_cost(e, (uint64_t)indices->n * 16, (uint64_t)indices->n * 256);
  e->run = run_sorted;
  return ST_OK;
}
