/* SPDX-License-Identifier: Apache-2.0 */
/* InplaceQuantScatter: updates, quantised by round(x / scale + zero point) as Quantize does along one axis, replace
 * parts of self. Part i begins at position indices[i] of `axis` in matrix i of self, or indices[i] is a pair: the
 * number of the matrix, and the position. */
#include "kernel/engine/elementwise.h"
#include "kernel/engine/loops.h"
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/move/check.h"

typedef struct {
  view self, updates, scale, zero; /* self: of a part's size */
  int64_t most[2];                 /* the largest matrix and position */
  int64_t axis_stride;
  int64_t index_row, index_column; /* strides in bytes */
  load_loop *load_index;
  bool paired, has_zero;
} quant_scatter_plan;

/* The place of part i in self, in bytes. */
static status quant_scatter_place(const quant_scatter_plan *p, const char *indices, int64_t i, int64_t *place) {
  int64_t at[2] = {i, 0};
  for (int k = p->paired ? 0 : 1; k < 2; ++k) {
    const int64_t column = p->paired ? k : 0;
    p->load_index(&at[k], indices + i * p->index_row + column * p->index_column, 0, 1);
    if (at[k] < 0 || at[k] > p->most[k]) return places_fail("indices", p->paired ? 2 * i + k : i, at[k], 0, p->most[k]);
  }
  *place = at[0] * p->self.strides[0] + at[1] * p->axis_stride;
  return ST_OK;
}

static status run_quant_scatter(const executor *e, void *const *view_at, void *scratch) {
  (void)scratch;
  static const float nothing;
  const quant_scatter_plan *p = PLAN(e, quant_scatter_plan);
  view to = p->self, from = p->updates, scale = p->scale, offset = p->zero; /* of one part */
  const int64_t n = from.dims[0];
  to.dims[0] = from.dims[0] = scale.dims[0] = offset.dims[0] = 1;
  elementwise_plan plan;
  elementwise_plan_init(&plan, EW_quantise, COMPUTE_F32, &to, (const view *const[]){&from, &scale, &offset}, 3);
  plan.parameter[0].f32 = plan.parameter[1].f32 = 0;
  char *const scales = view_at[QUANT_SCATTER_QUANT_SCALES];
  char *const zeros = p->has_zero ? view_at[QUANT_SCATTER_QUANT_ZERO_POINTS] : (char *)(uintptr_t)&nothing;
  for (int64_t i = 0; i < n; ++i) {
    int64_t place = 0;
    TRY(quant_scatter_place(p, view_at[QUANT_SCATTER_INDICES], i, &place));
    elementwise_run(&plan,
                    (void *const[]){(char *)view_at[QUANT_SCATTER_SELF] + place,
                                    (char *)view_at[QUANT_SCATTER_UPDATES] + i * from.strides[0],
                                    scales + i * scale.strides[0], zeros + i * offset.strides[0]},
                    e->cost_ns / (uint64_t)n);
  }
  return ST_OK;
}

/* A parameter along the axis of updates, as a view that is broadcast. */
static status quant_scatter_parameter(const tensor *t, const char *name, uint64_t dtypes, const tensor *updates,
                                      int axis, view *v) {
  TRY(op_expect_dtype(t, name, dtypes));
  const int64_t n = updates->dims[axis];
  const view given = view_of(t);
  int long_axis = given.rank - 1;
  for (int d = 0; d < given.rank; ++d)
    if (given.dims[d] != 1) long_axis = d;
  EXPECT(t->n == n && given.rank > 0 && given.dims[long_axis] == n,
         "%s has shape %s, expected %jd elements, those of updates along quantAxis", name, SHAPE_OF(t), (intmax_t)n);
  *v = (view){.rank = updates->rank, .dtype = t->dtype};
  for (int d = 0; d < v->rank; ++d) v->dims[d] = d == axis ? n : 1;
  v->strides[axis] = given.strides[long_axis];
  return ST_OK;
}

status prepare_quant_scatter(executor *e, const quant_scatter_args *a) {
  const tensor *self = a->self, *indices = a->indices, *updates = a->updates, *zero = a->quant_zero_points;
  quant_scatter_plan *p = PLAN(e, quant_scatter_plan);
  int axis, quant_axis;
  TRY(op_expect_dtype(self, "selfRef", DTYPE_BIT(ACL_INT8)));
  TRY(op_expect_rank(self, "selfRef", 3, MAX_RANK));
  TRY(op_expect_dtype(updates, "updates", DTYPES_HALF));
  TRY(op_expect_rank(updates, "updates", self->rank, self->rank));
  TRY(op_expect_dim(a->axis, "axis", self->rank, &axis));
  TRY(op_expect_dim(a->quant_axis, "quantAxis", self->rank, &quant_axis));
  EXPECT(axis > 0, "axis is %jd, expected another dimension than the first", (intmax_t)a->axis);
  EXPECT(a->reduction == 1, "reduction is %jd, expected 1, to update", (intmax_t)a->reduction);
  for (int d = 0; d < self->rank; ++d)
    EXPECT(d == 0 || d == axis ? updates->dims[d] <= self->dims[d] : updates->dims[d] == self->dims[d],
           "updates has shape %s, expected that of selfRef, %s, or less in dimensions 0 and %d", SHAPE_OF(updates),
           SHAPE_OF(self), axis);
  TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
  TRY(op_expect_shape(indices, "indices", (const int64_t[]){updates->dims[0], 2}, indices->rank == 2 ? 2 : 1));
  const view to = view_of(self), at = view_of(indices);
  *p = (quant_scatter_plan){.self = to,
                            .updates = view_of(updates),
                            .zero = {.dtype = ACL_FLOAT},
                            .most = {self->dims[0] - 1, self->dims[axis] - updates->dims[axis]},
                            .axis_stride = to.strides[axis],
                            .index_row = at.strides[0],
                            .index_column = at.rank == 2 ? at.strides[1] : 0,
                            .load_index = loops->load[indices->dtype][COMPUTE_I64],
                            .paired = at.rank == 2,
                            .has_zero = zero != NULL};
  for (int d = 0; d < to.rank; ++d) p->self.dims[d] = updates->dims[d];
  TRY(quant_scatter_parameter(a->quant_scales, "quantScales", DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_BF16), updates,
                              quant_axis, &p->scale));
  if (zero)
    TRY(quant_scatter_parameter(zero, "quantZeroPoints", DTYPE_BIT(ACL_INT32) | DTYPE_BIT(ACL_BF16), updates,
                                quant_axis, &p->zero));
  executor_cost(e, (uint64_t)updates->n * 3, (uint64_t)updates->n * 8);
  e->run = updates->n ? run_quant_scatter : move_run_nothing;
  return ST_OK;
}
