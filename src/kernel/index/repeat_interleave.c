/* SPDX-License-Identifier: Apache-2.0 */
/* RepeatInterleave, RepeatInterleaveWithDim and RepeatInterleaveTensor. The tensor of repetition counts is expanded
 * into the index of the source element for each element of the result; then these are gathered. */
#include <stdlib.h>

#include "kernel/engine/walk.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/move/check.h"

typedef struct {
  places p;
  index_source one;
  view repeats; /* over the repeated elements; stride 0 where one count is used for all */
  int repeats_operand, out_operand;
  int64_t n_out;    /* size of the result along the repeated dimension */
  uint64_t numbers; /* in scratch: int64, n_out source indices */
} interleave_plan;

static int64_t repeats_at(const view *v, const char *base, int64_t i) {
  const char *at = base + i * v->strides[0];
  return v->dtype == ACL_INT64 ? *(const int64_t *)(const void *)at : *(const int32_t *)(const void *)at;
}

/* Stores the source index of each element of the result in number[]. */
static status expand_repeats(const interleave_plan *p, const char *repeats, int64_t *number) {
  int64_t n = 0;
  for (int64_t i = 0; i < p->repeats.dims[0]; ++i) {
    const int64_t times = repeats_at(&p->repeats, repeats, i);
    if (times < 0) return places_fail("repeats", i, times, 0, INT64_MAX);
    if (times > p->n_out - n)
      return fail(ST_DEVICE_EXCEPTION, "repeats[%jd] is %jd, expected a sum of %jd, outputSize", (intmax_t)i,
                  (intmax_t)times, (intmax_t)p->n_out);
    for (int64_t k = 0; k < times; ++k) number[n++] = i;
  }
  if (n != p->n_out)
    return fail(ST_DEVICE_EXCEPTION, "repeats has a sum of %jd, expected outputSize, %jd", (intmax_t)n,
                (intmax_t)p->n_out);
  return ST_OK;
}

static status run_interleave(const executor *e, void *const *view, void *scratch) {
  const interleave_plan *p = PLAN(e, interleave_plan);
  int64_t *number = (int64_t *)(void *)((char *)scratch + p->numbers);
  TRY(expand_repeats(p, view[p->repeats_operand], number));
  if (view_elements(&p->repeats) == 0 || p->n_out == 0) return ST_OK;
  const places_job job = {.p = &p->p,
                          .kind = PLACES_GATHER,
                          .target = view[0],
                          .side = view[p->out_operand],
                          .view = view,
                          .scratch = scratch,
                          .cost_ns = e->cost_ns};
  return places_run(&job);
}

/* Checks and plans `repeats`, which has a count for each of n elements, or one for all. */
static status plan_repeats(executor *e, const tensor *repeats, int operand, int64_t n, int64_t output_size) {
  interleave_plan *p = PLAN(e, interleave_plan);
  TRY(op_expect_dtype(repeats, "repeats", DTYPES_INDEX));
  EXPECT(repeats->rank <= 1 && (repeats->n == n || repeats->n == 1),
         "repeats has shape %s, expected [%jd] or one number", SHAPE_OF(repeats), (intmax_t)n);
  EXPECT(output_size >= 0, "outputSize is %jd, expected 0 or more", (intmax_t)output_size);
  const int64_t step = repeats->rank && repeats->n == n ? repeats->strides[0] : 0;
  p->repeats =
      (view){.rank = 1, .dtype = repeats->dtype, .dims = {n}, .strides = {step * (int64_t)dtype_bytes(repeats->dtype)}};
  p->repeats_operand = operand;
  p->out_operand = operand + 1;
  p->n_out = output_size;
  p->numbers = workspace_intermediate(e, (uint64_t)output_size * sizeof(int64_t));
  p->one = (index_source){
      .name = "repeats", .operand = IN_SCRATCH, .dtype = ACL_INT64, .scratch = p->numbers, .step = {sizeof(int64_t)}};
  e->run = run_interleave;
  return ST_OK;
}

static void finish_interleave(executor *e, const tensor *out) {
  interleave_plan *p = PLAN(e, interleave_plan);
  if (out->n) places_finish(&p->p, true);
  executor_cost(e, (uint64_t)out->n * dtype_bytes(out->dtype) * 2 + (uint64_t)p->n_out * 16, (uint64_t)p->n_out * 64);
}

status prepare_repeat_interleave_dim(executor *e, const repeat_interleave_dim_args *a) {
  const tensor *self = a->self, *out = a->out;
  interleave_plan *p = PLAN(e, interleave_plan);
  int dim;
  int64_t dims[MAX_RANK];
  TRY(move_expect_same_dtype(self, "self", out, "out"));
  EXPECT(self->rank, "self has no dimension, expected 1 or more");
  TRY(op_expect_dim(a->dim, "dim", self->rank, &dim));
  TRY(plan_repeats(e, a->repeats, 1, self->dims[dim], a->output_size));
  for (int d = 0; d < self->rank; ++d) dims[d] = d == dim ? p->n_out : self->dims[d];
  TRY(op_expect_shape(out, "out", dims, self->rank));
  const view from = view_of(self), to = view_of(out);
  p->one.extent = from.dims[dim];
  p->one.stride = from.strides[dim];
  places_init(&p->p, (int64_t)dtype_bytes(self->dtype), (int64_t)dtype_bytes(self->dtype), &p->one, 1);
  places_add(&p->p, p->n_out, 0, to.strides[dim]);
  for (int d = 0; d < from.rank; ++d)
    if (d != dim) places_add_slice(&p->p, from.dims[d], from.strides[d], to.strides[d]);
  finish_interleave(e, out);
  return ST_OK;
}

/* RepeatInterleave reads self as a vector in row-major order. It is copied to workspace if
 * no single stride describes it. */
typedef struct {
  interleave_plan interleave; /* first, since run_interleave reads it from the same address */
  uint64_t copy;              /* in scratch: contiguous copy of self */
} flat_plan;

static status run_flat_interleave(const executor *e, void *const *at, void *scratch) {
  const flat_plan *p = PLAN(e, flat_plan);
  const view *self = e->heap;
  const int64_t n = view_elements(self);
  const view copy = view_contiguous(self->dtype, 1, &n);
  char *to = (char *)scratch + p->copy;
  move_in_order(&copy, to, 0, self, at[0], 0, n);
  return run_interleave(e, (void *const[]){to, at[1], at[2]}, scratch);
}

status prepare_repeat_interleave(executor *e, const repeat_interleave_args *a) {
  const tensor *self = a->self, *out = a->out;
  flat_plan *f = PLAN(e, flat_plan);
  interleave_plan *p = &f->interleave;
  TRY(move_expect_same_dtype(self, "self", out, "out"));
  TRY(plan_repeats(e, a->repeats, 1, self->n, a->output_size));
  TRY(op_expect_shape(out, "out", (const int64_t[]){p->n_out}, 1));
  const view from = view_of(self), to = view_of(out);
  walk flat;
  walk_init(&flat, (const view *const[]){&from}, 1, from.rank);
  p->one.extent = self->n;
  p->one.stride = flat.strides[0][0];
  if (flat.rank > 1) {
    HEAP_PLAN(view, kept, e, sizeof *kept);
    *kept = from;
    f->copy = workspace_copy(e, (uint64_t)self->n * dtype_bytes(self->dtype));
    p->one.stride = (int64_t)dtype_bytes(self->dtype);
    if (self->n) e->run = run_flat_interleave;
  }
  places_init(&p->p, (int64_t)dtype_bytes(self->dtype), (int64_t)dtype_bytes(self->dtype), &p->one, 1);
  places_add(&p->p, p->n_out, 0, to.strides[0]);
  finish_interleave(e, out);
  return ST_OK;
}

/* RepeatInterleaveTensor: the source indices themselves are the result. */
static status run_interleave_indices(const executor *e, void *const *at, void *scratch) {
  const interleave_plan *p = PLAN(e, interleave_plan);
  int64_t *number = (int64_t *)(void *)((char *)scratch + p->numbers);
  TRY(expand_repeats(p, at[0], number));
  const view made = view_contiguous(ACL_INT64, 1, &p->n_out);
  if (p->n_out) elementwise_copy(at[1], e->heap, number, &made, e->cost_ns);
  return ST_OK;
}

status prepare_repeat_interleave_tensor(executor *e, const repeat_interleave_tensor_args *a) {
  const tensor *repeats = a->repeats, *out = a->out;
  TRY(op_expect_dtype(out, "out", DTYPES_INDEX));
  EXPECT(repeats->rank, "repeats has no dimension, expected 1");
  TRY(plan_repeats(e, repeats, 0, repeats->n, a->output_size));
  TRY(op_expect_shape(out, "out", &a->output_size, 1));
  HEAP_PLAN(view, kept, e, sizeof *kept);
  *kept = view_of(out);
  executor_cost(e, (uint64_t)out->n * 24, (uint64_t)out->n * 16);
  e->run = run_interleave_indices;
  return ST_OK;
}
