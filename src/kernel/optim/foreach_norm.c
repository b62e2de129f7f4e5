/* SPDX-License-Identifier: Apache-2.0 */
/* ForeachNorm: the p-norm of all elements of each tensor of a list. Norms 1 and 2, which are used for gradient
 * clipping, are mapped sums in float; the others are computed in double, one element at a time. */
#include <math.h>
#include <stdlib.h>

#include "kernel/engine/mapped_sum.h"
#include "kernel/families.h"

enum { TILE = 512 };

typedef struct {
  mapped_sum sum;    /* for norms 1 and 2 */
  load_loop *load;   /* for other norms: loads as double */
  store_loop *store; /* stores from double */
  uint64_t cost_ns;
} member;

typedef struct {
  int n; /* number of members; the operands after them are the outputs */
  double p;
} norm_plan;

/* Adds an element to the sum (or extreme, for infinite p) from which the norm is computed. */
static double norm_accumulate(double p, double so_far, double x) {
  const double a = fabs(x);
  if (x != x || so_far != so_far) return NAN;
  if (p == 0) return so_far + (x != 0);
  if (p == INFINITY) return a > so_far ? a : so_far;
  if (p == -INFINITY) return a < so_far ? a : so_far;
  return so_far + pow(a, p);
}

static double general_norm(const member *m, double p, void *at) {
  const walk *w = &m->sum.at;
  double tile[TILE], r = p == -INFINITY && w->n ? INFINITY : 0;
  cursor c;
  cursor_start(&c, w, (void *const[]){at}, 0);
  for (int64_t i = 0, n; i < w->n; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, w->n - i < TILE ? w->n - i : TILE);
    m->load(tile, c.at[0], w->strides[0][w->rank - 1], n);
    for (int64_t k = 0; k < n; ++k) r = norm_accumulate(p, r, tile[k]);
  }
  return p == 0 || isinf(p) ? r : pow(r, 1 / p);
}

static status run_norms(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const norm_plan *p = PLAN(e, norm_plan);
  const member *m = e->heap;
  for (int i = 0; i < p->n; ++i) {
    double norm = 0;
    if (p->p == 1 || p->p == 2) {
      if (m[i].sum.at.n) norm = mapped_sum_run(&m[i].sum, (void *const[]){view[i]}, m[i].cost_ns);
      if (p->p == 2) norm = sqrt(norm);
    } else {
      norm = general_norm(&m[i], p->p, view[i]);
    }
    m[i].store(view[p->n + i], 0, &norm, 1);
  }
  return ST_OK;
}

static status norm_plan_member(member *m, double p, const tensor *x, const tensor *out) {
  const uint64_t floats = DTYPES_FLOAT_TO_32;
  TRY(op_expect_dtype(x, "x", floats));
  TRY(op_expect_one(out, "a member of out", floats));
  const view v = view_of(x);
  mapped_sum_init(&m->sum, p == 1 ? EW_abs : EW_square, COMPUTE_F32, v.dims, v.rank, (const view *const[]){&v}, 1);
  m->load = loops->load[x->dtype][COMPUTE_F64];
  m->store = loops->store[out->dtype][COMPUTE_F64];
  m->cost_ns = (uint64_t)x->n * dtype_bytes(x->dtype) / 8;
  return ST_OK;
}

status prepare_foreach_norm(executor *e, const foreach_norm_args *a) {
  const aclTensorList *x = a->x, *out = a->out;
  norm_plan *p = PLAN(e, norm_plan);
  EXPECT(out->size == x->size, "out has %ju tensors, expected those of x, %ju", (uintmax_t)out->size,
         (uintmax_t)x->size);
  p->n = (int)x->size;
  p->p = scalar_real(a->scalar);
  EXPECT(p->p == p->p, "scalar is NaN, expected the norm's exponent");
  HEAP_PLAN(member, m, e, x->size * sizeof *m);
  uint64_t bytes = 0, elements = 0;
  for (int i = 0; i < p->n; ++i) {
    TRY(norm_plan_member(&m[i], p->p, x->value[i], out->value[i]));
    bytes += (uint64_t)x->value[i]->n * dtype_bytes(x->value[i]->dtype);
    elements += (uint64_t)x->value[i]->n;
  }
  e->run = run_norms;
  executor_cost(e, bytes, p->p == 1 || p->p == 2 ? 0 : elements * 512);
  return ST_OK;
}
