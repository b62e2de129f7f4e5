/* SPDX-License-Identifier: Apache-2.0 */
/* IndexFillTensor (indices in a host array) and IndexFill (indices in a tensor): fill slices of self with one value. */
#include <stdlib.h>

#include "kernel/elementwise/fill.h"
#include "kernel/engine/loops.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

enum { BLOCK = 256 };

typedef struct {
  move_plan copy, slice; /* copy: self to out; slice: the value to one slice */
  int64_t extent, step;  /* of the indexed dimension of out: its size, and its stride in bytes */
  load_loop *load;       /* reads the index tensor; NULL if indices are in `index` below */
  int64_t index_step;    /* bytes */
  int64_t n;             /* number of indices */
  bool in_place;
  _Alignas(16) char value[16];
  int64_t index[];
} index_fill;

/* Fills the slices of n indices. Indices of host arrays have been checked; those of tensors
 * that are out of range are ignored. */
static void fill_slices(const index_fill *f, char *out, const int64_t *index, int64_t n, uint64_t cost_ns) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = index[i] < 0 ? index[i] + f->extent : index[i];
    if (at >= 0 && at < f->extent) move_run(&f->slice, out + at * f->step, f->value, cost_ns);
  }
}

static status run_index_fill(const executor *e, void *const *at, void *scratch) {
  (void)scratch;
  const index_fill *f = e->heap;
  char *out = at[f->in_place ? 0 : e->n_operands - 1];
  const uint64_t cost_ns = f->n ? e->cost_ns / (uint64_t)f->n : 0;
  if (!f->in_place) move_run(&f->copy, out, at[0], e->cost_ns);
  if (!f->load) {
    fill_slices(f, out, f->index, f->n, cost_ns);
    return ST_OK;
  }
  for (int64_t i = 0, n; i < f->n; i += n) {
    int64_t index[BLOCK];
    n = f->n - i < BLOCK ? f->n - i : BLOCK;
    f->load(index, (const char *)at[1] + i * f->index_step, f->index_step, n);
    fill_slices(f, out, index, n, cost_ns);
  }
  return ST_OK;
}

/* Reads and checks the indices of a call into a new index_fill in e->heap. */
static status index_fill_new(executor *e, const index_fill_args *a, int64_t extent) {
  const tensor *t = a->index_tensor;
  const aclIntArray *array = a->index_ints;
  const bool in_tensor = t;
  const uint64_t n = in_tensor ? (uint64_t)t->n : array->size;
  if (in_tensor) {
    TRY(op_expect_dtype(t, "index", DTYPES_INDEX));
    TRY(op_expect_rank(t, "index", 0, 1));
  }
  HEAP_PLAN(index_fill, f, e, sizeof *f + (in_tensor ? 0 : n * sizeof *f->index));
  f->extent = extent;
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

status prepare_index_fill(executor *e, const index_fill_args *a) {
  const bool in_place = !a->out;
  const tensor *self = a->self, *out = in_place ? self : a->out;
  const char *name = a->name.self;
  int dim;
  TRY(move_expect_same_dtype(self, name, out, "out"));
  TRY(op_expect_same_shape(out, "out", self));
  TRY(op_expect_dim(a->dim, "dim", self->rank, &dim));
  view to = view_of(out);
  const view from = view_of(self);
  TRY(index_fill_new(e, a, to.rank ? to.dims[dim] : 1));
  index_fill *f = e->heap;
  f->in_place = in_place;
  f->step = to.rank ? to.strides[dim] : 0;
  TRY(fill_value_of(self, name, a->value, f->value));
  move_space s;
  move_space_of_views(&s, &to, &from);
  move_plan_init(&f->copy, &s);
  if (to.rank) to.dims[dim] = 1;
  const view value = {.dtype = self->dtype};
  move_space_of_views(&s, &to, &value);
  move_plan_init(&f->slice, &s);
  executor_cost(e, (uint64_t)(out->n * (in_place ? 0 : 2) + view_elements(&to) * f->n) * dtype_bytes(self->dtype), 0);
  e->run = out->n ? run_index_fill : move_run_nothing;
  return ST_OK;
}
