/* SPDX-License-Identifier: Apache-2.0 */
/* IndexFillTensor (indices in a host array) and IndexFill (indices in a tensor): fill slices of self with one value,
 * which by name is a tensor, as is the number of the dimension. */
#include <stdlib.h>

#include "kernel/elementwise/fill.h"
#include "kernel/engine/loops.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

enum { BLOCK = 256 };

/* The indexed dimension of out. */
typedef struct {
  move_plan slice;      /* the value to one slice */
  int64_t extent, step; /* its size, and its stride in bytes */
} fill_axis;

typedef struct {
  move_plan copy; /* self to out */
  fill_axis axis;
  view to;            /* out */
  int dim_at;         /* operand of the dimension's number; -1: `axis` is known */
  int dim_dtype;      /* of that operand */
  load_loop *load;    /* reads the index tensor; NULL if indices are in `index` below */
  int index_at;       /* operand of that */
  int64_t index_step; /* bytes */
  int64_t n;          /* number of indices */
  bool in_place;
  int value_at; /* operand of the value; -1: it is `value` below */
  _Alignas(16) char value[16];
  int64_t index[];
} index_fill;

/* Fills the slices of n indices. Indices of host arrays have been checked; those of tensors
 * that are out of range are ignored. */
static void fill_slices(const fill_axis *f, char *out, const void *value, const int64_t *index, int64_t n,
                        uint64_t cost_ns) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = index[i] < 0 ? index[i] + f->extent : index[i];
    if (at >= 0 && at < f->extent) move_run(&f->slice, out + at * f->step, value, cost_ns);
  }
}

static void fill_axis_init(fill_axis *f, const view *out, int dim) {
  const view value = {.dtype = out->dtype};
  view to = *out;
  move_space s;
  f->extent = to.rank ? to.dims[dim] : 1;
  f->step = to.rank ? to.strides[dim] : 0;
  if (to.rank) to.dims[dim] = 1;
  move_space_of_views(&s, &to, &value);
  move_plan_init(&f->slice, &s);
}

static status fill_axis_read(const index_fill *f, const void *at, fill_axis *axis) {
  const int64_t rank = f->to.rank > 1 ? f->to.rank : 1;
  int64_t dim;
  loops->load[f->dim_dtype][COMPUTE_I64](&dim, at, 0, 1);
  if (dim < -rank || dim >= rank)
    return fail(ST_DEVICE_EXCEPTION, "dim is %jd, expected %jd to %jd", (intmax_t)dim, (intmax_t)-rank,
                (intmax_t)rank - 1);
  fill_axis_init(axis, &f->to, (int)(dim < 0 ? dim + rank : dim));
  return ST_OK;
}

static status run_index_fill(const executor *e, void *const *at, void *scratch) {
  (void)scratch;
  const index_fill *f = e->heap;
  char *out = at[f->in_place ? 0 : e->n_operands - 1];
  const void *value = f->value_at < 0 ? f->value : at[f->value_at];
  fill_axis axis = f->axis;
  if (f->dim_at >= 0) TRY(fill_axis_read(f, at[f->dim_at], &axis));
  const uint64_t cost_ns = f->n ? e->cost_ns / (uint64_t)f->n : 0;
  if (!f->in_place) move_run(&f->copy, out, at[0], e->cost_ns);
  if (!f->load) {
    fill_slices(&axis, out, value, f->index, f->n, cost_ns);
    return ST_OK;
  }
  for (int64_t i = 0, n; i < f->n; i += n) {
    int64_t index[BLOCK];
    n = f->n - i < BLOCK ? f->n - i : BLOCK;
    f->load(index, (const char *)at[f->index_at] + i * f->index_step, f->index_step, n);
    fill_slices(&axis, out, value, index, n, cost_ns);
  }
  return ST_OK;
}

/* Reads and checks the indices of a call into a new index_fill in e->heap. */
static status index_fill_new(executor *e, const tensor *t, const aclIntArray *array, int64_t extent) {
  const bool in_tensor = t;
  const uint64_t n = in_tensor ? (uint64_t)t->n : array->size;
  if (in_tensor) {
    TRY(op_expect_dtype(t, "index", DTYPES_INDEX));
    TRY(op_expect_rank(t, "index", 0, 1));
  }
  HEAP_PLAN(index_fill, f, e, sizeof *f + (in_tensor ? 0 : n * sizeof *f->index));
  f->index_at = 1;
  f->n = (int64_t)n;
  f->load = in_tensor ? loops->load[t->dtype][COMPUTE_I64] : NULL;
  f->index_step = in_tensor && t->rank ? t->strides[0] * (int64_t)dtype_bytes(t->dtype) : 0;
  for (uint64_t i = 0; !in_tensor && i < n; ++i) {
    f->index[i] = array->value[i];
    EXPECT(f->index[i] >= -extent && f->index[i] < extent, "index[%ju] is %jd, expected %jd to %jd", (uintmax_t)i,
           (intmax_t)f->index[i], (intmax_t)-extent, (intmax_t)extent - 1);
  }
  return ST_OK;
}

/* Plans all but the value. name: of self. */
static status index_fill_plan(executor *e, const index_fill_args *a, const char *name) {
  const bool in_place = !a->out;
  const tensor *self = a->self, *out = in_place ? self : a->out;
  int dim;
  TRY(move_expect_same_dtype(self, name, out, "out"));
  TRY(op_expect_same_shape(out, "out", self));
  TRY(op_expect_dim(a->dim, "dim", self->rank, &dim));
  const view to = view_of(out), from = view_of(self);
  TRY(index_fill_new(e, a->index_tensor, a->index_ints, to.rank ? to.dims[dim] : 1));
  index_fill *f = e->heap;
  f->in_place = in_place;
  f->value_at = f->dim_at = -1;
  f->to = to;
  fill_axis_init(&f->axis, &to, dim);
  move_space s;
  move_space_of_views(&s, &to, &from);
  move_plan_init(&f->copy, &s);
  const int64_t slice = f->axis.extent ? out->n / f->axis.extent : 0;
  executor_cost(e, (uint64_t)(out->n * (in_place ? 0 : 2) + slice * f->n) * dtype_bytes(self->dtype), 0);
  e->run = out->n ? run_index_fill : move_run_nothing;
  return ST_OK;
}

status prepare_index_fill(executor *e, const index_fill_args *a) {
  TRY(index_fill_plan(e, a, a->name.self));
  return fill_value_of(a->self, a->name.self, a->value, ((index_fill *)e->heap)->value);
}

status prepare_graph_index_fill(executor *e, const graph_index_fill_args *a) {
  TRY(op_expect_one(a->dim, "dim", DTYPES_INDEX));
  TRY(op_expect_one(a->value, "value", DTYPE_BIT(a->x->dtype)));
  const index_fill_args plain = {.self = a->x, .index_tensor = a->indices, .out = a->y};
  TRY(index_fill_plan(e, &plain, "x"));
  index_fill *f = e->heap;
  f->value_at = GRAPH_INDEX_FILL_VALUE;
  f->index_at = GRAPH_INDEX_FILL_INDICES;
  f->dim_at = GRAPH_INDEX_FILL_DIM;
  f->dim_dtype = a->dim->dtype;
  return ST_OK;
}
