/* SPDX-License-Identifier: Apache-2.0 */
/* Repeat, RepeatInterleaveInt, RepeatInterleaveIntWithDim, Roll. */
#include "kernel/families.h"
#include "kernel/move/check.h"

/* Each dimension of out is viewed as two: the repetitions, where self has stride 0, and self's own dimension. */
status prepare_repeat(executor *e, const repeat_args *a) {
  const tensor *self = a->self, *out = a->out;
  const aclIntArray *repeats = a->repeats;
  TRY(move_expect_same_dtype(self, "self", out, "out"));
  EXPECT(repeats->size >= self->rank && repeats->size <= MAX_RANK, "repeats has %ju elements, expected %d to %d",
         (uintmax_t)repeats->size, self->rank, MAX_RANK);
  const int rank = (int)repeats->size, missing = rank - self->rank;
  const view v = view_of(self), o = view_of(out);
  int64_t dims[MAX_RANK];
  move_space s = {.element_bytes = (int64_t)dtype_bytes(self->dtype)};
  for (int d = 0; d < rank; ++d) {
    const int64_t n = d >= missing ? v.dims[d - missing] : 1, times = repeats->value[d];
    EXPECT(times >= 0, "repeats[%d] is %jd, expected 0 or more", d, (intmax_t)times);
    dims[d] = times * n;
  }
  TRY(op_expect_shape(out, "out", dims, rank));
  for (int d = 0; d < rank; ++d) {
    const int64_t n = d >= missing ? v.dims[d - missing] : 1;
    move_space_add(&s, repeats->value[d], o.strides[d] * n, 0);
    if (d >= missing) move_space_add(&s, n, o.strides[d], v.strides[d - missing]);
  }
  move_prepare(e, 1, 0, 0, 0, &s);
  return ST_OK;
}

static status expect_output_size(int64_t is, int64_t expected) {
  EXPECT(is == expected, "outputSize is %jd, expected %jd", (intmax_t)is, (intmax_t)expected);
  return ST_OK;
}

/* Repeats each element `repeats` times; the result has one dimension. */
status prepare_repeat_interleave_int(executor *e, const repeat_interleave_int_args *a) {
  const tensor *self = a->self, *out = a->out;
  const int64_t repeats = a->repeats;
  TRY(move_expect_same_dtype(self, "self", out, "out"));
  EXPECT(repeats >= 0, "repeats is %jd, expected 0 or more", (intmax_t)repeats);
  TRY(expect_output_size(a->output_size, self->n * repeats));
  TRY(op_expect_shape(out, "out", (const int64_t[]){self->n * repeats}, 1));
  const view v = view_of(self), o = view_of(out);
  move_space s = {.element_bytes = (int64_t)dtype_bytes(self->dtype)};
  int64_t step = o.strides[0] * repeats * self->n;
  for (int d = 0; d < v.rank; ++d) {
    if (v.dims[d]) step /= v.dims[d];
    move_space_add(&s, v.dims[d], step, v.strides[d]);
  }
  move_space_add(&s, repeats, o.strides[0], 0);
  move_prepare(e, 1, 0, 0, 0, &s);
  return ST_OK;
}

status prepare_repeat_interleave_int_dim(executor *e, const repeat_interleave_int_dim_args *a) {
  const tensor *self = a->self, *out = a->out;
  const int64_t repeats = a->repeats;
  int dim;
  int64_t dims[MAX_RANK];
  TRY(move_expect_same_dtype(self, "self", out, "out"));
  EXPECT(repeats >= 0, "repeats is %jd, expected 0 or more", (intmax_t)repeats);
  EXPECT(self->rank, "self has no dimension, expected 1 or more");
  TRY(op_expect_dim(a->dim, "dim", self->rank, &dim));
  const view v = view_of(self), o = view_of(out);
  for (int d = 0; d < v.rank; ++d) dims[d] = v.dims[d] * (d == dim ? repeats : 1);
  TRY(expect_output_size(a->output_size, dims[dim]));
  TRY(op_expect_shape(out, "out", dims, v.rank));
  move_space s = {.element_bytes = (int64_t)dtype_bytes(self->dtype)};
  for (int d = 0; d < v.rank; ++d) move_space_add(&s, v.dims[d], o.strides[d] * (d == dim ? repeats : 1), v.strides[d]);
  move_space_add(&s, repeats, o.strides[dim], 0);
  move_prepare(e, 1, 0, 0, 0, &s);
  return ST_OK;
}

/* ---- Roll -------------------------------------------------------------------------------------------------------- */

typedef struct {
  view to, from;
  int64_t shift[MAX_RANK]; /* 0 to the dimension's size - 1 */
  bool flat;               /* shift[0] applies to all elements in row-major order */
} roll_plan;

/* Each rolled dimension has two parts, which are swapped. Moves one combination of parts: bit d of `which` selects the
 * second part of dimension d. */
static void roll_part(const roll_plan *p, unsigned which, char *to, const char *from, uint64_t cost_ns) {
  move_space s = {.element_bytes = (int64_t)dtype_bytes(p->to.dtype)};
  for (int d = 0; d < p->to.rank; ++d) {
    const int64_t n = p->to.dims[d], shift = p->shift[d];
    if (which >> d & 1) { /* the end of the source comes first */
      from += (n - shift) * p->from.strides[d];
      move_space_add(&s, shift, p->to.strides[d], p->from.strides[d]);
    } else {
      to += shift * p->to.strides[d];
      move_space_add(&s, n - shift, p->to.strides[d], p->from.strides[d]);
    }
  }
  move_now(&s, to, from, cost_ns);
}

static status run_roll(const executor *e, void *const *at, void *scratch) {
  (void)scratch;
  const roll_plan *p = PLAN(e, roll_plan);
  if (p->flat) {
    const int64_t n = view_elements(&p->to), shift = p->shift[0];
    move_in_order(&p->to, at[1], shift, &p->from, at[0], 0, n - shift);
    move_in_order(&p->to, at[1], 0, &p->from, at[0], n - shift, shift);
    return ST_OK;
  }
  unsigned rolled = 0;
  for (int d = 0; d < p->to.rank; ++d) rolled |= (unsigned)(p->shift[d] != 0) << d;
  unsigned which = rolled;
  for (;; which = (which - 1) & rolled) { /* for each subset of the rolled dimensions */
    roll_part(p, which, at[1], at[0], e->cost_ns);
    if (which == 0) return ST_OK;
  }
}

static int64_t wrapped_shift(int64_t shift, int64_t n) { return n ? (shift % n + n) % n : 0; }

/* Without dims, all elements are rolled in row-major order. Several shifts of one dimension add up. */
status prepare_roll(executor *e, const roll_args *a) {
  const tensor *x = a->x, *out = a->out;
  const aclIntArray *shifts = a->shifts, *dims = a->dims;
  roll_plan *p = PLAN(e, roll_plan);
  TRY(move_expect_same_dtype(x, "x", out, "out"));
  TRY(op_expect_same_shape(out, "out", x));
  TRY(op_expect_size(shifts->size, "shifts", (dims->size ? dims->size : 1)));
  *p = (roll_plan){.to = view_of(out), .from = view_of(x), .flat = !dims->size && x->rank != 1};
  for (uint64_t i = 0; i < dims->size; ++i) {
    int d;
    TRY(op_expect_dim(dims->value[i], "dims", x->rank, &d));
    if (x->rank) p->shift[d] = wrapped_shift(p->shift[d] + wrapped_shift(shifts->value[i], x->dims[d]), x->dims[d]);
  }
  if (!dims->size) p->shift[0] = wrapped_shift(shifts->value[0], x->n);
  executor_cost(e, (uint64_t)x->n * dtype_bytes(x->dtype) * 2, p->flat ? (uint64_t)x->n * 8 : 0);
  e->run = x->n ? run_roll : move_run_nothing;
  return ST_OK;
}

/* FFTShift and IFFTShift by name: rolls by half of each axis of dim, or of all axes. */
status prepare_graph_shift(executor *e, const graph_shift_args *a) {
  const tensor *x = a->x, *y = a->y;
  const bool back = e->op->variant == GRAPH_SHIFT_TO_FRONT;
  roll_plan *p = PLAN(e, roll_plan);
  TRY(move_expect_same_dtype(x, "x", y, "y"));
  TRY(op_expect_same_shape(y, "y", x));
  *p = (roll_plan){.to = view_of(y), .from = view_of(x)};
  for (int i = 0; i < (a->dim ? (int)a->dim->size : x->rank); ++i) {
    int d = i;
    if (a->dim) TRY(op_expect_dim(a->dim->value[i], "dim", x->rank, &d));
    const int64_t half = x->rank ? x->dims[d] / 2 : 0;
    if (x->rank) p->shift[d] = wrapped_shift(p->shift[d] + (back ? -half : half), x->dims[d]);
  }
  executor_cost(e, (uint64_t)x->n * dtype_bytes(x->dtype) * 2, 0);
  e->run = x->n ? run_roll : move_run_nothing;
  return ST_OK;
}
