/* IndexFillTensor: one value into the slices that a host array says. */
#include <stdlib.h>

#include "kernel/elementwise/fill.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

typedef struct {
  move_plan copy, slice; /* self to out; the value to a slice */
  int64_t n;             /* of the offsets behind, which are out's, in bytes */
  _Alignas(16) char value[16];
  int64_t offset[];
} index_fill;

static status run_index_fill(const executor *e, void *const *at, void *scratch) {
  (void)scratch;
  const index_fill *f = e->heap;
  char *out = at[e->n_operands - 1];
  if (out != at[0]) move_run(&f->copy, out, at[0], e->cost_ns);
  for (int64_t i = 0; i < f->n; ++i) move_run(&f->slice, out + f->offset[i], f->value, e->cost_ns / (uint64_t)f->n);
  return ST_OK;
}

status prepare_index_fill(executor *e, const op_arg *a) {
  const bool in_place = e->op->variant == INDEX_FILL_INPLACE;
  const char *name = in_place ? "selfRef" : "self";
  const aclIntArray *index = a[2].ints;
  int dim;
  TRY(expect_same_dtype(a[0].tensor, name, in_place ? a[0].tensor : a[4].tensor, "out"));
  const tensor *self = a[0].tensor, *out = in_place ? self : a[4].tensor;
  TRY(op_expect_shape(out, "out", self->dims, self->rank));
  TRY(op_expect_dim(a[1].integer, "dim", self->rank, &dim));
  view to = view_of(out);
  const view from = view_of(self);
  const int64_t n = to.rank ? to.dims[dim] : 1;
  index_fill *f = e->heap = malloc(sizeof *f + index->size * sizeof *f->offset);
  if (!f) return fail(ST_NO_HOST_MEMORY, "no host memory for %ju indices", (uintmax_t)index->size);
  f->n = (int64_t)index->size;
  for (uint64_t i = 0; i < index->size; ++i) {
    const int64_t v = index->value[i];
    EXPECT(v >= -n && v < n, "index[%ju] is %jd, expected %jd to %jd", (uintmax_t)i, (intmax_t)v, (intmax_t)-n,
           (intmax_t)n - 1);
    f->offset[i] = to.rank ? (v < 0 ? v + n : v) * to.strides[dim] : 0;
  }
  TRY(fill_value_of(self, name, a[3].scalar, f->value));
  move_space s;
  space_of_views(&s, &to, &from);
  move_plan_init(&f->copy, &s);
  if (to.rank) to.dims[dim] = 1;
  const view value = {.dtype = self->dtype};
  space_of_views(&s, &to, &value);
  move_plan_init(&f->slice, &s);
  executor_cost(e, (uint64_t)(out->n * (in_place ? 0 : 2) + view_elements(&to) * f->n) * dtype_bytes(self->dtype), 0);
  e->run = out->n ? run_index_fill : run_nothing;
  return ST_OK;
}
