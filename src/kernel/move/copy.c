/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that copy one tensor into another: InplaceCopy, Cast, Permute, Expand, Flatten, Flip, ChannelShuffle,
 * ConfusionTranspose; also the checks and plans of check.h. */
#include <string.h>

#include "kernel/elementwise/complex.h"
#include "kernel/engine/loops.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

/* ---- shared ------------------------------------------------------------------------------------------------------ */

status move_expect_same_dtype(const tensor *self, const char *self_name, const tensor *out, const char *out_name) {
  TRY(op_expect_dtype(self, self_name, DTYPES_NUMBER));
  EXPECT(out->dtype == self->dtype, "%s has dtype %s, expected that of %s, %s", out_name, dtype_name(out->dtype),
         self_name, dtype_name(self->dtype));
  return ST_OK;
}

status move_expect_conversion(const tensor *from, const char *name, int to) {
  EXPECT(from->dtype == to || (loops->load[from->dtype][0] && loops->load[to][0]),
         "%s has dtype %s, which does not convert to %s", name, dtype_name(from->dtype), dtype_name(to));
  return ST_OK;
}

bool move_broadcasts_to(const tensor *from, const tensor *to) {
  const int missing = to->rank - from->rank;
  for (int d = 0; d < from->rank; ++d)
    if (missing < 0 || (from->dims[d] != 1 && from->dims[d] != to->dims[missing + d])) return false;
  return true;
}

typedef struct {
  copy_plan plan;
  int to, from; /* operand numbers */
  int64_t to_offset, from_offset;
} tensor_copy;

static status run_tensor_copy(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const tensor_copy *p = PLAN(e, tensor_copy);
  move_copy_run(&p->plan, (char *)view[p->to] + p->to_offset, (const char *)view[p->from] + p->from_offset, e->cost_ns);
  return ST_OK;
}

status move_run_nothing(const executor *e, void *const *view, void *scratch) {
  (void)e, (void)view, (void)scratch;
  return ST_OK;
}

void move_prepare_copy(executor *e, int to_operand, const view *to, int from_operand, const view *from) {
  tensor_copy *p = PLAN(e, tensor_copy);
  const int64_t n = view_elements(to);
  move_copy_plan_init(&p->plan, to, from);
  p->to = to_operand;
  p->from = from_operand;
  p->to_offset = p->from_offset = 0;
  executor_cost(e, (uint64_t)n * (dtype_bytes(to->dtype) + dtype_bytes(from->dtype)), 0);
  e->run = n ? run_tensor_copy : move_run_nothing;
}

void move_prepare(executor *e, int to_operand, int64_t to_offset, int from_operand, int64_t from_offset,
                  const move_space *s) {
  tensor_copy *p = PLAN(e, tensor_copy);
  int64_t n = 1;
  for (int d = 0; d < s->rank; ++d) n *= s->dims[d];
  p->plan.converts = false;
  move_plan_init(&p->plan.move, s);
  p->to = to_operand;
  p->from = from_operand;
  p->to_offset = to_offset;
  p->from_offset = from_offset;
  executor_cost(e, (uint64_t)(2 * n * s->element_bytes), 0);
  e->run = n ? run_tensor_copy : move_run_nothing;
}

/* The tensor `from`, broadcast to the shape of `to`. */
static tensor broadcast_tensor(const tensor *from, const tensor *to) {
  tensor t = *from;
  const int missing = to->rank - from->rank;
  for (int d = 0; d < to->rank; ++d) {
    t.dims[d] = to->dims[d];
    t.strides[d] = d < missing || from->dims[d - missing] == 1 ? 0 : from->strides[d - missing];
  }
  t.rank = to->rank;
  t.n = to->n;
  t.contiguous &= from->n == to->n;
  return t;
}

/* A complex number converts to its real part, or to whether it is not 0 for bool. A
 * real number gets imaginary part 0. */
static status plan_complex_conversion(executor *e, int to_operand, const tensor *to, const char *to_name,
                                      int from_operand, const tensor *from, const char *name) {
  const bool is_complex = dtype_is_complex(from->dtype);
  const tensor in = broadcast_tensor(from, to);
  const elementwise_call c = {.out = to,
                              .in = {&in},
                              .out_name = to_name,
                              .in_name = {name},
                              .n_inputs = 1,
                              .n_parameters = 1, /* 0 */
                              .operand = {(int8_t)to_operand, (int8_t)from_operand}};
  if (!is_complex) TRY(op_expect_dtype(from, name, DTYPES_REAL));
  if (!dtype_is_complex(to->dtype)) TRY(op_expect_dtype(to, to_name, DTYPES_REAL));
  if (!is_complex) return elementwise_prepare(e, EW_copy, &c);
  return complex_prepare(e, to->dtype == ACL_BOOL ? EW_nes : EW_copy, &c);
}

static status plan_conversion(executor *e, int to_operand, const tensor *to, const char *to_name, int from_operand,
                              const tensor *from, const char *name) {
  if (from->dtype != to->dtype && (dtype_is_complex(from->dtype) || dtype_is_complex(to->dtype)))
    return plan_complex_conversion(e, to_operand, to, to_name, from_operand, from, name);
  TRY(move_expect_conversion(from, name, to->dtype));
  const view in = view_of(from), out = view_of(to);
  move_prepare_copy(e, to_operand, &out, from_operand, &in);
  return ST_OK;
}

/* ---- InplaceCopy, Assign, Cast, Expand --------------------------------------------------------------------------- */

status prepare_copy(executor *e, const copy_args *a) {
  const tensor *self = a->self, *src = a->src;
  TRY(op_expect_dtype(self, "selfRef", DTYPES_NUMBER));
  TRY(op_expect_dtype(src, "src", DTYPES_NUMBER));
  EXPECT(move_broadcasts_to(src, self), "src has shape %s, expected one that broadcasts to selfRef's, %s",
         SHAPE_OF(src), SHAPE_OF(self));
  return plan_conversion(e, 0, self, "selfRef", 1, src, "src");
}

/* Assign by name: y, whose memory is that of ref, becomes value. */
status prepare_graph_assign(executor *e, const graph_assign_args *a) {
  const tensor *value = a->value, *y = a->y;
  TRY(op_expect_dtype(value, "value", DTYPES_NUMBER));
  TRY(op_expect_dtype(y, "y", DTYPES_NUMBER));
  TRY(op_expect_same_shape(value, "value", y));
  return plan_conversion(e, GRAPH_ASSIGN_Y, y, "y", GRAPH_ASSIGN_VALUE, value, "value");
}

status prepare_cast(executor *e, const cast_args *a) {
  const tensor *self = a->self, *out = a->out;
  TRY(op_expect_dtype(self, "self", DTYPES_NUMBER));
  TRY(op_expect_dtype(out, "out", DTYPES_NUMBER));
  TRY(op_expect_dtype_argument(a->dtype, out));
  TRY(op_expect_same_shape(out, "out", self));
  return plan_conversion(e, 1, out, "out", 0, self, "self");
}

/* A size of -1 keeps the size of self. */
status prepare_expand(executor *e, const expand_args *a) {
  const tensor *self = a->self, *out = a->out;
  const aclIntArray *size = a->size;
  int64_t dims[MAX_RANK];
  TRY(move_expect_same_dtype(self, "self", out, "out"));
  EXPECT(size->size >= self->rank && size->size <= MAX_RANK, "size has %ju elements, expected %d to %d",
         (uintmax_t)size->size, self->rank, MAX_RANK);
  const int rank = (int)size->size, missing = rank - self->rank;
  for (int d = 0; d < rank; ++d)
    dims[d] = size->value[d] == -1 && d >= missing ? self->dims[d - missing] : size->value[d];
  TRY(op_expect_shape(out, "out", dims, rank));
  EXPECT(move_broadcasts_to(self, out), "self has shape %s, expected one that broadcasts to size, %s", SHAPE_OF(self),
         DIMS_TEXT(dims, rank));
  const view v = view_of(self), o = view_of(out);
  move_prepare_copy(e, 1, &o, 0, &v);
  return ST_OK;
}

/* Fill by name: dims, value, y. Clients pass one element in dims for a y without dimensions. */
status prepare_graph_fill(executor *e, const graph_fill_args *a) {
  const aclIntArray *dims = a->dims;
  const tensor *value = a->value, *y = a->y;
  int64_t n = 1;
  for (uint64_t i = 0; i < dims->size; ++i)
    if (__builtin_mul_overflow(n, dims->value[i], &n)) n = -1;
  EXPECT(n == y->n, "dims has %jd elements, expected those of y, %jd", (intmax_t)n, (intmax_t)y->n);
  EXPECT(value->n == 1, "value has %jd elements, expected 1", (intmax_t)value->n);
  TRY(move_expect_same_dtype(value, "value", y, "y"));
  const view one = {.dtype = value->dtype}, to = view_of(y);
  move_prepare_copy(e, 1, &to, 0, &one);
  return ST_OK;
}

/* ---- Permute, Flip, ChannelShuffle ------------------------------------------------------------------------------- */

/* Sets *permuted to v with its dimensions in the order of dims. */
static status permute_view(const view *v, const aclIntArray *dims, const char *name, view *permuted) {
  bool used[MAX_RANK] = {false};
  *permuted = (view){.rank = v->rank, .dtype = v->dtype};
  EXPECT(dims->size == (uint64_t)v->rank, "%s has %ju elements, expected %d, one for each dimension", name,
         (uintmax_t)dims->size, v->rank);
  for (int i = 0; i < v->rank; ++i) {
    int d;
    TRY(op_expect_dim(dims->value[i], name, v->rank, &d));
    EXPECT(!used[d], "%s has dimension %d twice, expected each once", name, d);
    used[d] = true;
    permuted->dims[i] = v->dims[d];
    permuted->strides[i] = v->strides[d];
  }
  return ST_OK;
}

status prepare_permute(executor *e, const permute_args *a) {
  const tensor *self = a->self, *out = a->out;
  const view v = view_of(self);
  view permuted;
  tensor room;
  TRY(move_expect_same_dtype(self, "self", out, "out"));
  TRY(permute_view(&v, a->dims, "dims", &permuted));
  out = op_one_as(out, permuted.dims, permuted.rank, &room);
  TRY(op_expect_shape(out, "out", permuted.dims, permuted.rank));
  const view o = view_of(out);
  move_prepare_copy(e, 1, &o, 0, &permuted);
  return ST_OK;
}

status prepare_flip(executor *e, const flip_args *a) {
  const tensor *self = a->self, *out = a->out;
  const aclIntArray *dims = a->dims;
  bool flipped[MAX_RANK] = {false};
  TRY(move_expect_same_dtype(self, "self", out, "out"));
  TRY(op_expect_same_shape(out, "out", self));
  const view v = view_of(self), o = view_of(out);
  move_space s;
  int64_t offset = 0;
  move_space_of_views(&s, &o, &v);
  for (uint64_t i = 0; i < dims->size; ++i) {
    int d;
    TRY(op_expect_dim(dims->value[i], "dims", self->rank, &d));
    EXPECT(!flipped[d], "dims has dimension %d twice, expected each once", d);
    flipped[d] = true;
    if (d >= s.rank || s.dims[d] == 0) continue;
    offset += (s.dims[d] - 1) * s.from[d];
    s.from[d] = -s.from[d];
  }
  move_prepare(e, 1, 0, 0, offset, &s);
  return ST_OK;
}

/* The channels (dimension 1) are viewed as groups x channels per group, and these two dimensions are swapped. */
status prepare_channel_shuffle(executor *e, const channel_shuffle_args *a) {
  const tensor *self = a->self, *out = a->out;
  const int64_t groups = a->groups;
  TRY(move_expect_same_dtype(self, "self", out, "out"));
  EXPECT(self->rank >= 3 && self->rank <= 7, "self has %d dimensions, expected 3 to 7", self->rank);
  EXPECT(groups > 0 && self->dims[1] % groups == 0, "groups is %jd, expected a divisor of the %jd channels",
         (intmax_t)groups, (intmax_t)self->dims[1]);
  TRY(op_expect_same_shape(out, "out", self));
  const view v = view_of(self), o = view_of(out);
  const int64_t each = self->dims[1] / groups;
  move_space s = {.element_bytes = (int64_t)dtype_bytes(self->dtype)};
  for (int d = 0; d < v.rank; ++d) {
    if (d != 1) {
      move_space_add(&s, v.dims[d], o.strides[d], v.strides[d]);
      continue;
    }
    move_space_add(&s, each, o.strides[1] * groups, v.strides[1]);
    move_space_add(&s, groups, o.strides[1], v.strides[1] * each);
  }
  move_prepare(e, 1, 0, 0, 0, &s);
  return ST_OK;
}

/* ---- Flatten, ConfusionTranspose: copies that keep the order of elements and change the shape -------------------- */

typedef struct {
  view to, from;
} ordered_copy;

static status run_in_order(const executor *e, void *const *at, void *scratch) {
  (void)scratch;
  const ordered_copy *p = PLAN(e, ordered_copy);
  move_in_order(&p->to, at[1], 0, &p->from, at[0], 0, view_elements(&p->to));
  return ST_OK;
}

/* Plans copying operand 0 to operand 1 in row-major order. */
static void plan_reshape(executor *e, const view *to, const view *from) {
  move_space s;
  if (move_space_of_reshape(&s, to, from)) {
    move_prepare(e, 1, 0, 0, 0, &s);
    return;
  }
  *PLAN(e, ordered_copy) = (ordered_copy){*to, *from};
  const uint64_t n = (uint64_t)view_elements(to);
  executor_cost(e, 2 * n * dtype_bytes(to->dtype), 8 * n);
  e->run = run_in_order;
}

status prepare_flatten(executor *e, const flatten_args *a) {
  const tensor *self = a->self, *out = a->out;
  int64_t dims[2] = {1, 1};
  int axis;
  TRY(move_expect_same_dtype(self, "self", out, "out"));
  TRY(op_expect_dim(a->axis, "axis", self->rank, &axis));
  for (int d = 0; d < self->rank; ++d) dims[d >= axis] *= self->dims[d];
  TRY(op_expect_shape(out, "out", dims, 2));
  const view v = view_of(self), o = view_of(out);
  plan_reshape(e, &o, &v);
  return ST_OK;
}

/* out = permute(reshape(x, shape), perm), or reshape(permute(x, perm), shape) where the transposition is first. */
status prepare_confusion_transpose(executor *e, const confusion_transpose_args *a) {
  const tensor *x = a->x, *out = a->out;
  const aclIntArray *perm = a->perm, *shape = a->shape;
  const bool transpose_first = a->transpose_first;
  int64_t n = 1;
  TRY(move_expect_same_dtype(x, "x", out, "out"));
  EXPECT(shape->size <= MAX_RANK, "shape has %ju elements, expected at most %d", (uintmax_t)shape->size, MAX_RANK);
  for (uint64_t i = 0; i < shape->size; ++i) n *= shape->value[i];
  EXPECT(n == x->n, "shape is %s, expected one of the %jd elements of x", DIMS_TEXT(shape->value, (int)shape->size),
         (intmax_t)x->n);
  view from = view_of(x), to = view_of(out), permuted;
  if (transpose_first) {
    TRY(permute_view(&from, perm, "perm", &permuted));
    TRY(op_expect_shape(out, "out", shape->value, (int)shape->size));
    plan_reshape(e, &to, &permuted);
    return ST_OK;
  }
  /* Permutes out's view back, to the shape that x is reshaped to. */
  view reshaped = {.rank = (int)shape->size, .dtype = x->dtype}, back = {.rank = to.rank, .dtype = to.dtype};
  memcpy(reshaped.dims, shape->value, shape->size * sizeof *shape->value);
  TRY(permute_view(&reshaped, perm, "perm", &permuted));
  TRY(op_expect_shape(out, "out", permuted.dims, permuted.rank));
  for (int i = 0; i < to.rank; ++i) {
    int d;
    TRY(op_expect_dim(perm->value[i], "perm", to.rank, &d));
    back.dims[d] = to.dims[i];
    back.strides[d] = to.strides[i];
  }
  plan_reshape(e, &back, &from);
  return ST_OK;
}
