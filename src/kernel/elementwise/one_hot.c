/* SPDX-License-Identifier: Apache-2.0 */
/* OneHot: offValue everywhere, except onValue at the index along the new dimension. */
#include "kernel/elementwise/fill.h"
#include "kernel/engine/rows.h"
#include "kernel/families.h"

enum { TILE = 256, GRAIN = 4096 };

typedef struct {
  walk at;  /* operand 0: self; 1: class 0 of out */
  view out; /* all of out */
  load_loop *load;
  int64_t classes, class_stride;  /* bytes */
  int8_t on_value, off_value, to; /* operand indices */
  uint8_t size;
} one_hot_plan;

typedef struct {
  const one_hot_plan *plan;
  void *at[2];
  const void *on;
} one_hot_job;

static inline void one_hot_put(char *to, const void *value, size_t size) {
  switch (size) {
  case 1: memcpy(to, value, 1); break;
  case 2: memcpy(to, value, 2); break;
  case 4: memcpy(to, value, 4); break;
  case 8: memcpy(to, value, 8); break;
  default: memcpy(to, value, 16);
  }
}

/* Indices out of range set no element. */
static void put_range(const void *job, int64_t begin, int64_t end) {
  const one_hot_job *j = job;
  const one_hot_plan *p = j->plan;
  const int last = p->at.rank - 1;
  int64_t index[TILE];
  cursor c;
  cursor_start(&c, &p->at, j->at, begin);
  for (int64_t i = begin, n; i < end; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, i64_min(TILE, end - i));
    p->load(index, c.at[0], p->at.strides[0][last], n);
    for (int64_t k = 0; k < n; ++k)
      if (index[k] >= 0 && index[k] < p->classes)
        one_hot_put(c.at[1] + k * p->at.strides[1][last] + index[k] * p->class_stride, j->on, p->size);
  }
}

static status one_hot_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const one_hot_plan *p = PLAN(e, one_hot_plan);
  const one_hot_job job = {.plan = p, .at = {view[ONE_HOT_SELF], view[p->to]}, .on = view[p->on_value]};
  fill_plan off;
  if (p->at.n == 0 || p->classes == 0) return ST_OK;
  fill_plan_init(&off, &p->out, view[p->off_value]);
  fill_run(&off, view[p->to], e->cost_ns);
  rows_parallel(put_range, &job, p->at.n, GRAIN, e->cost_ns);
  return ST_OK;
}

static status expect_value(const tensor *t, const char *name, const tensor *out) {
  TRY(op_expect_dtype(t, name, DTYPE_BIT(out->dtype)));
  EXPECT(t->n >= 1, "%s has no elements, expected one", name);
  return ST_OK;
}

/* Called by name, the operator has its number of classes as a tensor, which need not be read: out has them, too. */
static int64_t one_hot_classes(const one_hot_args *a) {
  const int64_t axis = a->axis < 0 ? a->out->rank - 1 : a->axis;
  return !a->depth ? a->num_classes : axis < a->out->rank ? a->out->dims[axis] : 0;
}

status prepare_one_hot(executor *e, const one_hot_args *a) {
  const tensor *self = a->self, *out = a->out;
  const int64_t classes = one_hot_classes(a);
  one_hot_plan *p = PLAN(e, one_hot_plan);
  int64_t dims[MAX_RANK + 1];
  TRY(op_expect_dtype(self, "self", DTYPES_INDEX | DTYPE_BIT(ACL_UINT8)));
  TRY(op_expect_dtype(out, "out", DTYPES_NUMBER));
  TRY(expect_value(a->on_value, "onValue", out));
  TRY(expect_value(a->off_value, "offValue", out));
  EXPECT(classes >= (self->n == 0), "numClasses is %jd, expected %d or more", (intmax_t)classes, self->n == 0);
  EXPECT(a->axis >= -1 && a->axis <= self->rank, "axis is %jd, expected -1 to %d", (intmax_t)a->axis, self->rank);
  const int axis = a->axis < 0 ? self->rank : (int)a->axis;
  for (int d = 0; d <= self->rank; ++d) dims[d] = d < axis ? self->dims[d] : d == axis ? classes : self->dims[d - 1];
  TRY(op_expect_shape(out, "out", dims, self->rank + 1));

  const view indices = view_of(self);
  view places = indices;
  p->out = view_of(out);
  for (int d = 0; d < places.rank; ++d) places.strides[d] = p->out.strides[d < axis ? d : d + 1];
  walk_init(&p->at, (const view *const[]){&indices, &places}, 2, indices.rank);
  p->load = loops->load[self->dtype][COMPUTE_I64];
  p->classes = classes;
  p->class_stride = p->out.strides[axis];
  p->size = (uint8_t)dtype_bytes(out->dtype);
  p->on_value = (int8_t)a->view.on_value;
  p->off_value = (int8_t)a->view.off_value;
  p->to = (int8_t)a->view.out;
  executor_cost(e, (uint64_t)out->n * p->size, (uint64_t)self->n * 16);
  e->run = one_hot_run;
  return ST_OK;
}
