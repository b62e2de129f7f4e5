/* SPDX-License-Identifier: Apache-2.0 */
/* FFTFreq, RFFTFreq and IRFFTDouble, which are called by name. The frequencies are k / (n d), where k counts 0, 1, ...
 * and, in the upper half of all frequencies, from -n / 2 to -1. */
#include <string.h>

#include "kernel/engine/loops.h"
#include "kernel/families.h"

typedef struct {
  int64_t n, count;
  int d_dtype, y_dtype;
} frequencies_plan;

static status frequencies_run(const executor *e, void *const *view, void *scratch) {
  const frequencies_plan *p = PLAN(e, frequencies_plan);
  const bool mirrored = e->op->variant == GRAPH_FREQUENCIES_ALL;
  char *to = view[GRAPH_FREQUENCIES_Y];
  double d;
  (void)scratch;
  loops->load[p->d_dtype][COMPUTE_F64](&d, view[GRAPH_FREQUENCIES_D], 0, 1);
  for (int64_t i = 0; i < p->count; ++i) {
    const int64_t k = mirrored && i > (p->n - 1) / 2 ? i - p->n : i;
    const double value = (double)k / ((double)p->n * d);
    loops->store[p->y_dtype][COMPUTE_F64](to + i * (int64_t)dtype_bytes(p->y_dtype), 0, &value, 1);
  }
  return ST_OK;
}

status prepare_graph_frequencies(executor *e, const graph_frequencies_args *a) {
  const tensor *y = a->y;
  TRY(op_expect_dtype(y, "y", DTYPES_FLOAT));
  TRY(op_expect_one(a->d, "d", DTYPES_FLOAT));
  TRY(op_expect_size(a->n->size, "n", 1));
  const int64_t n = a->n->value[0], count = e->op->variant == GRAPH_FREQUENCIES_ALL ? n : n / 2 + 1;
  EXPECT(n >= 1, "n is %jd, expected 1 or more", (intmax_t)n);
  TRY(op_expect_shape(y, "y", &count, 1));
  *PLAN(e, frequencies_plan) = (frequencies_plan){.n = n, .count = count, .d_dtype = a->d->dtype, .y_dtype = y->dtype};
  executor_cost(e, (uint64_t)y->n * dtype_bytes(y->dtype), (uint64_t)y->n * 16);
  e->run = frequencies_run;
  return ST_OK;
}

/* ---- IRFFTDouble: the frequencies of half a spectrum that the other half has, too, are doubled ------------------- */

typedef struct {
  int64_t n, inner, outer; /* of the axis, and of what is behind and before it */
  int64_t end;             /* frequencies 1 to end - 1 are doubled */
  int dtype;               /* of the parts */
  int64_t bytes;           /* of a frequency with all behind it */
} doubling_plan;

static status doubling_run(const executor *e, void *const *view, void *scratch) {
  const doubling_plan *p = PLAN(e, doubling_plan);
  const int64_t size = (int64_t)dtype_bytes(p->dtype);
  char *y = view[GRAPH_MIRROR_Y];
  (void)scratch;
  if (p->outer * p->n * p->bytes == 0) return ST_OK;
  memcpy(y, view[GRAPH_MIRROR_X], (size_t)(p->outer * p->n * p->bytes));
  for (int64_t o = 0; o < p->outer; ++o)
    for (int64_t i = p->bytes; i < p->end * p->bytes; i += size) {
      char *at = y + o * p->n * p->bytes + i;
      double part;
      loops->load[p->dtype][COMPUTE_F64](&part, at, 0, 1);
      part *= 2;
      loops->store[p->dtype][COMPUTE_F64](at, 0, &part, 1);
    }
  return ST_OK;
}

status prepare_graph_mirror(executor *e, const graph_mirror_args *a) {
  const tensor *x = a->x;
  doubling_plan *p = PLAN(e, doubling_plan);
  int dim;
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT | DTYPES_COMPLEX));
  TRY(op_expect_dtype(a->y, "y", DTYPE_BIT(x->dtype)));
  TRY(op_expect_same_shape(a->y, "y", x));
  TRY(op_expect_size(a->n->size, "n", 1));
  TRY(op_expect_size(a->dim->size, "dim", 1));
  EXPECT(x->rank >= 1 && a->n->value[0] >= 1, "n is %jd and x has %d dimensions, expected 1 or more",
         (intmax_t)a->n->value[0], x->rank);
  TRY(op_expect_dim(a->dim->value[0], "dim", x->rank, &dim));
  *p = (doubling_plan){.n = x->dims[dim], .inner = 1, .outer = 1, .dtype = dtype_part(x->dtype)};
  for (int d = 0; d < x->rank; ++d) *(d < dim ? &p->outer : &p->inner) *= d == dim ? 1 : x->dims[d];
  p->bytes = p->inner * (int64_t)dtype_bytes(x->dtype);
  p->end = (a->n->value[0] + 1) / 2 < p->n ? (a->n->value[0] + 1) / 2 : p->n;
  executor_cost(e, (uint64_t)x->n * dtype_bytes(x->dtype) * 2, (uint64_t)x->n * 4);
  e->run = doubling_run;
  return ST_OK;
}
