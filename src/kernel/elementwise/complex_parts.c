/* SPDX-License-Identifier: Apache-2.0 */
/* Real, Complex and Polar, and Real, Imag and Conj by name: take parts of complex numbers, or make complex numbers of
 * their parts. A part is an
 * element of the float type of half the size, at every other position in memory. */
#include "kernel/elementwise/complex.h"
#include "kernel/engine/elementwise.h"
#include "kernel/families.h"

static status real_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  void *const at[] = {view[REAL_OUT], view[REAL_SELF]};
  elementwise_run(PLAN(e, elementwise_plan), at, e->cost_ns);
  return ST_OK;
}

status prepare_real(executor *e, const real_args *a) {
  const tensor *self = a->self, *out = a->out;
  TRY(op_expect_dtype(self, "self", DTYPES_REAL | DTYPES_COMPLEX_ANY));
  const view to = view_of(out), from = view_of_real_parts(self);
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(from.dtype)));
  TRY(op_expect_same_shape(out, "out", self));
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
  elementwise_copy(view[COMPLEX_OUT], &p->out, view[COMPLEX_REAL], &p->in[0], e->cost_ns);
  elementwise_copy((char *)view[COMPLEX_OUT] + dtype_bytes(p->out.dtype), &p->out, view[COMPLEX_IMAG], &p->in[1],
                   e->cost_ns);
  return ST_OK;
}

static status polar_run(const executor *e, void *const *at, void *scratch) {
  (void)scratch;
  const complex_plan *p = PLAN(e, complex_plan);
  const view *const in[] = {&p->in[0], &p->in[1]};
  elementwise_plan part;
  for (int i = 0; i < 2; ++i) {
    void *const to = (char *)at[COMPLEX_OUT] + (i ? dtype_bytes(p->out.dtype) : 0);
    elementwise_plan_init(&part, i ? EW_polar_imaginary : EW_polar_real, compute_type_of(p->out.dtype), &p->out, in, 2);
    elementwise_run(&part, (void *const[]){to, at[COMPLEX_REAL], at[COMPLEX_IMAG]}, e->cost_ns);
  }
  return ST_OK;
}

/* The shape that both parts broadcast to. */
static status broadcast_pair(const complex_args *a, int64_t *dims, int *rank) {
  const tensor *x = a->real, *y = a->imag;
  *rank = x->rank > y->rank ? x->rank : y->rank;
  for (int d = 0; d < *rank; ++d) {
    const int dx = d - (*rank - x->rank), dy = d - (*rank - y->rank);
    const int64_t nx = dx < 0 ? 1 : x->dims[dx], ny = dy < 0 ? 1 : y->dims[dy];
    EXPECT(nx == ny || nx == 1 || ny == 1, "%s has shape %s, expected one that broadcasts with %s of shape %s",
           a->name.imag, SHAPE_OF(y), a->name.real, SHAPE_OF(x));
    dims[d] = nx == 1 ? ny : nx;
  }
  return ST_OK;
}

/* For Polar, `real` is the absolute value and `imag` the angle. */
status prepare_complex(executor *e, const complex_args *a) {
  const bool polar = e->op->variant == COMPLEX_POLAR;
  const tensor *out = a->out;
  int64_t dims[MAX_RANK];
  int rank;
  TRY(op_expect_dtype(out, "out", DTYPES_COMPLEX_ANY));
  TRY(op_expect_dtype(a->real, a->name.real, DTYPE_BIT(dtype_part(out->dtype))));
  TRY(op_expect_dtype(a->imag, a->name.imag, DTYPE_BIT(dtype_part(out->dtype))));
  TRY(broadcast_pair(a, dims, &rank));
  TRY(op_expect_shape(out, "out", dims, rank));
  *PLAN(e, complex_plan) = (complex_plan){view_of_real_parts(out), {view_of(a->real), view_of(a->imag)}};
  executor_cost(e, (uint64_t)out->n * dtype_bytes(out->dtype) * 2, polar ? (uint64_t)out->n * 128 : 0);
  e->run = polar ? polar_run : complex_run;
  return ST_OK;
}

/* ---- Real, Imag, Conj by name ------------------------------------------------------------------------------------ */

typedef struct {
  view to, from;             /* of real parts */
  elementwise_plan negative; /* of imaginary parts, for Conj */
} part_plan;

static status complex_part_run(const executor *e, void *const *at, void *scratch) {
  const part_plan *p = PLAN(e, part_plan);
  const uint64_t part = dtype_bytes(p->from.dtype);
  char *const x = at[GRAPH_COMPLEX_PART_INPUT], *const y = at[GRAPH_COMPLEX_PART_OUTPUT];
  (void)scratch;
  elementwise_copy(y, &p->to, x + (e->op->variant == GRAPH_COMPLEX_PART_IMAGINARY ? part : 0), &p->from, e->cost_ns);
  if (e->op->variant == GRAPH_COMPLEX_PART_CONJUGATE)
    elementwise_run(&p->negative, (void *const[]){y + part, x + part}, e->cost_ns);
  return ST_OK;
}

status prepare_graph_complex_part(executor *e, const graph_complex_part_args *a) {
  const tensor *x = a->input, *y = a->output;
  const bool both = e->op->variant == GRAPH_COMPLEX_PART_CONJUGATE;
  part_plan *p = PLAN(e, part_plan);
  TRY(op_expect_dtype(x, "input", DTYPES_COMPLEX));
  TRY(op_expect_dtype(y, "output", DTYPE_BIT(both ? x->dtype : dtype_part(x->dtype))));
  TRY(op_expect_same_shape(y, "output", x));
  p->from = view_of_real_parts(x);
  p->to = both ? view_of_real_parts(y) : view_of(y);
  const view *const in[] = {&p->from};
  if (both) elementwise_plan_init(&p->negative, EW_neg, compute_type_of(p->to.dtype), &p->to, in, 1);
  executor_cost(e, (uint64_t)x->n * 2 * dtype_bytes(x->dtype), 0);
  e->run = complex_part_run;
  return ST_OK;
}
