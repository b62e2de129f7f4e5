/* SPDX-License-Identifier: Apache-2.0 */
/* Moves that are called by name and take their shape from the result: Crop, AsStrided, Expand, TileWithAxis. */
#include <string.h>

#include "kernel/families.h"
#include "kernel/move/check.h"

/* Plans y = the elements of x in view v, which begins `offset` elements behind x's first one and has y's shape. */
static void plan_part(executor *e, const tensor *x, view *v, int64_t offset, const tensor *y) {
  const int64_t bytes = (int64_t)dtype_bytes(x->dtype);
  const view to = view_of(y);
  move_space s;
  move_space_of_views(&s, &to, v);
  move_prepare(e, 1, 0, 0, offset * bytes, &s);
}

/* `offsets` has an element for each dimension from `axis` on, or one for all of them. */
status prepare_graph_crop_part(executor *e, const graph_crop_part_args *a) {
  const tensor *x = a->x, *y = a->y;
  int axis;
  int64_t offset = 0;
  TRY(move_expect_same_dtype(x, "x", y, "y"));
  TRY(op_expect_rank(y, "y", x->rank, x->rank));
  TRY(op_expect_dim(a->axis, "axis", x->rank, &axis));
  const int n = x->rank - axis;
  EXPECT(a->offsets->size == 1 || a->offsets->size == (uint64_t)n, "offsets has %ju elements, expected 1 or %d",
         (uintmax_t)a->offsets->size, n);
  view v = view_of(x);
  for (int d = 0; d < x->rank; ++d) {
    const int64_t begin = d < axis ? 0 : a->offsets->value[a->offsets->size == 1 ? 0 : d - axis];
    EXPECT(d >= axis || y->dims[d] == x->dims[d], "y has shape %s, expected the first %d dimensions of x, %s",
           SHAPE_OF(y), axis, SHAPE_OF(x));
    EXPECT(begin >= 0 && begin <= x->dims[d] - y->dims[d], "the offset along dimension %d is %jd, expected 0 to %jd", d,
           (intmax_t)begin, (intmax_t)(x->dims[d] - y->dims[d]));
    v.dims[d] = y->dims[d];
    offset += begin * x->strides[d];
  }
  plan_part(e, x, &v, offset, y);
  return ST_OK;
}

/* Strides and the offset count elements of x, in its order. */
status prepare_graph_as_strided(executor *e, const graph_as_strided_args *a) {
  const tensor *x = a->x, *y = a->y;
  const int64_t bytes = (int64_t)dtype_bytes(x->dtype);
  const uint64_t rank = a->size->size;
  TRY(move_expect_same_dtype(x, "x", y, "y"));
  EXPECT(rank <= MAX_RANK, "size has %ju elements, expected up to %d", (uintmax_t)rank, MAX_RANK);
  TRY(op_expect_size(a->stride->size, "stride", rank));
  TRY(op_expect_size(a->storage_offset->size, "storage_offset", 1));
  TRY(op_expect_shape(y, "y", a->size->value, (int)rank));
  view v = {.rank = (int)rank, .dtype = x->dtype};
  int64_t last = a->storage_offset->value[0], span;
  EXPECT(last >= 0, "storage_offset is %jd, expected 0 or more", (intmax_t)last);
  for (int d = 0; d < v.rank; ++d) {
    const int64_t stride = a->stride->value[d];
    v.dims[d] = y->dims[d];
    EXPECT(stride >= 0 && !__builtin_mul_overflow(y->dims[d] - 1, stride, &span) &&
               !__builtin_add_overflow(last, span, &last),
           "stride[%d] is %jd, expected 0 or more, within x", d, (intmax_t)stride);
    v.strides[d] = stride * bytes;
  }
  EXPECT(!y->n || last < x->n, "the last element has number %jd, expected less than the %jd of x", (intmax_t)last,
         (intmax_t)x->n);
  plan_part(e, x, &v, a->storage_offset->value[0], y);
  return ST_OK;
}

status prepare_graph_expand(executor *e, const graph_expand_args *a) {
  const tensor *x = a->x, *y = a->y;
  TRY(move_expect_same_dtype(x, "x", y, "y"));
  EXPECT(move_broadcasts_to(x, y), "x has shape %s, expected one that broadcasts to that of y, %s", SHAPE_OF(x),
         SHAPE_OF(y));
  const view from = view_of(x), to = view_of(y);
  move_prepare_copy(e, GRAPH_EXPAND_Y, &to, GRAPH_EXPAND_X, &from);
  return ST_OK;
}

status prepare_graph_tile(executor *e, const graph_tile_args *a) {
  union {
    aclIntArray array;
    char room[sizeof(aclIntArray) + MAX_RANK * sizeof(int64_t)];
  } repeats = {.array.size = a->x->rank};
  int axis;
  TRY(op_expect_dim(a->axis, "axis", a->x->rank, &axis));
  for (int d = 0; d < a->x->rank; ++d) repeats.array.value[d] = d == axis ? a->tiles : 1;
  return prepare_repeat(e, &(repeat_args){.self = a->x, .repeats = &repeats.array, .out = a->y});
}
