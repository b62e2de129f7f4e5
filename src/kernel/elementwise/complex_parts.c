/* SPDX-License-Identifier: Apache-2.0 */
/* Real, Complex and Polar: take the real parts of complex numbers, or make complex numbers of their parts. A part is an
 * element of the float type of half the size, at every other position in memory. */
#include "kernel/elementwise/complex.h"
#include "kernel/engine/elementwise.h"
#include "kernel/families.h"

static status real_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  void *const at[] = {view[1], view[0]};
  elementwise_run(PLAN(e, elementwise_plan), at, e->cost_ns);
  return ST_OK;
}

status prepare_real(executor *e, const op_arg *a) {
  const tensor *self = a[0].tensor, *out = a[1].tensor;
  TRY(op_expect_dtype(self, "self", DTYPES_REAL | DTYPES_COMPLEX_ANY));
  const view to = view_of(out), from = view_of_real_parts(self);
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(from.dtype)));
  TRY(op_expect_shape(out, "out", self->dims, self->rank));
  elementwise_copy_plan(PLAN(e, elementwise_plan), &to, &from);
  executor_cost(e, (uint64_t)out->n * (dtype_bytes(self->dtype) + dtype_bytes(out->dtype)), 0);
  e->run = real_run;
  return ST_OK;
}

typedef struct {
  view out, in[2];
} complex_plan;

static status complex_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const complex_plan *p = PLAN(e, complex_plan);
  elementwise_copy(view[2], &p->out, view[0], &p->in[0], e->cost_ns);
  elementwise_copy((char *)view[2] + dtype_bytes(p->out.dtype), &p->out, view[1], &p->in[1], e->cost_ns);
  return ST_OK;
}

static status polar_run(const executor *e, void *const *at, void *scratch) {
  (void)scratch;
  const complex_plan *p = PLAN(e, complex_plan);
  const view *const in[] = {&p->in[0], &p->in[1]};
  elementwise_plan part;
  for (int i = 0; i < 2; ++i) {
    void *const to = (char *)at[2] + (i ? dtype_bytes(p->out.dtype) : 0);
    elementwise_plan_init(&part, i ? EW_polar_imaginary : EW_polar_real, compute_type_of(p->out.dtype), &p->out, in, 2);
    elementwise_run(&part, (void *const[]){to, at[0], at[1]}, e->cost_ns);
  }
  return ST_OK;
}

/* The shape that x and y broadcast to. */
static status broadcast_pair(const arg_schema *schema, const tensor *x, const tensor *y, int64_t *dims, int *rank) {
  char is[SHAPE_TEXT], expected[SHAPE_TEXT];
  *rank = x->rank > y->rank ? x->rank : y->rank;
  for (int d = 0; d < *rank; ++d) {
    const int dx = d - (*rank - x->rank), dy = d - (*rank - y->rank);
    const int64_t nx = dx < 0 ? 1 : x->dims[dx], ny = dy < 0 ? 1 : y->dims[dy];
    EXPECT(nx == ny || nx == 1 || ny == 1, "%s has shape %s, expected one that broadcasts with %s of shape %s",
           schema[1].name, shape_text(y->dims, y->rank, is), schema[0].name, shape_text(x->dims, x->rank, expected));
    dims[d] = nx == 1 ? ny : nx;
  }
  return ST_OK;
}

/* (real, imag, out); for Polar (absolute value, angle, out). */
status prepare_complex(executor *e, const op_arg *a) {
  const bool polar = e->op->variant == COMPLEX_POLAR;
  const arg_schema *schema = e->op->schema;
  const tensor *out = a[2].tensor;
  int64_t dims[MAX_RANK];
  int rank;
  TRY(op_expect_dtype(out, "out", DTYPES_COMPLEX_ANY));
  for (int i = 0; i < 2; ++i) TRY(op_expect_dtype(a[i].tensor, schema[i].name, DTYPE_BIT(dtype_part(out->dtype))));
  TRY(broadcast_pair(schema, a[0].tensor, a[1].tensor, dims, &rank));
  TRY(op_expect_shape(out, "out", dims, rank));
  *PLAN(e, complex_plan) = (complex_plan){view_of_real_parts(out), {view_of(a[0].tensor), view_of(a[1].tensor)}};
  executor_cost(e, (uint64_t)out->n * dtype_bytes(out->dtype) * 2, polar ? (uint64_t)out->n * 128 : 0);
  e->run = polar ? polar_run : complex_run;
  return ST_OK;
}
