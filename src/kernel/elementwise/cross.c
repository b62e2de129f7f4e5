/* SPDX-License-Identifier: Apache-2.0 */
/* LinalgCross: the cross product along a dimension of size 3, of real and complex numbers. Components are computed in
 * double (integers in int64) and rounded once. */
#include "kernel/engine/axis.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

enum { TILE = 256, GRAIN = 2048, SELF = 1, OTHER = 2 };

typedef struct {
  walk others;      /* all dimensions but that one; operands: out, self, other */
  int64_t along[3]; /* bytes between the components of each operand; 0: one component serves as all three */
  load_loop *load;
  store_loop *store;
  int64_t part;    /* bytes from the real to the imaginary part; 0: real numbers */
  uint8_t compute; /* COMPUTE_F64 or COMPUTE_I64 */
} cross_plan;

typedef struct {
  const cross_plan *plan;
  void *at[3];
} cross_job;

typedef struct {
  _Alignas(64) char value[3][2][TILE * sizeof(double)]; /* [component][part] */
} vectors;

static void load_vectors(const cross_plan *p, int operand, const char *from, int64_t n, vectors *v) {
  const int64_t stride = p->others.strides[operand][p->others.rank - 1];
  for (int i = 0; i < 3; ++i) {
    p->load(v->value[i][0], from + i * p->along[operand], stride, n);
    if (p->part) p->load(v->value[i][1], from + i * p->along[operand] + p->part, stride, n);
  }
}

/* sum = x y, or sum += sign x y */
static void product(const cross_plan *p, char *sum, const char *x, const char *y, int sign, int64_t n) {
  const compute_value factor = p->compute == COMPUTE_F64 ? (compute_value){.f64 = sign} : (compute_value){.i64 = sign};
  const compute_value parameter[ELEMENTWISE_PARAMETERS] = {factor};
  if (!sign)
    loops->elementwise[EW_mul][p->compute](sum, (const void *const[]){x, y, NULL, NULL, NULL}, parameter, n);
  else
    loops->elementwise[EW_addcmul][p->compute](sum, (const void *const[]){sum, x, y, NULL, NULL}, parameter, n);
}

static void cross_range(const void *arg, int64_t begin, int64_t end) {
  const cross_job *job = arg;
  const cross_plan *p = job->plan;
  const int64_t out_stride = p->others.strides[0][p->others.rank - 1];
  _Alignas(64) char sum[TILE * sizeof(double)];
  vectors a, b;
  cursor c;
  cursor_start(&c, &p->others, job->at, begin);
  for (int64_t n; begin < end; begin += n, cursor_next(&c, n)) {
    n = cursor_row(&c, i64_min(TILE, end - begin));
    load_vectors(p, SELF, c.at[SELF], n, &a);
    load_vectors(p, OTHER, c.at[OTHER], n, &b);
    for (int i = 0; i < 3; ++i) {
      const int j = (i + 1) % 3, k = (i + 2) % 3;
      for (int part = 0; part < (p->part ? 2 : 1); ++part) { /* the real or imaginary part of (ar + i ai) (br + i bi) */
        product(p, sum, a.value[j][0], b.value[k][part], 0, n);
        if (p->part) product(p, sum, a.value[j][1], b.value[k][1 - part], part ? 1 : -1, n);
        product(p, sum, a.value[k][0], b.value[j][part], -1, n);
        if (p->part) product(p, sum, a.value[k][1], b.value[j][1 - part], part ? -1 : 1, n);
        p->store(c.at[0] + i * p->along[0] + part * p->part, out_stride, sum, n);
      }
    }
  }
}

static status run_cross(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const cross_plan *p = PLAN(e, cross_plan);
  const cross_job job = {p, {view[CROSS_OUT], view[CROSS_SELF], view[CROSS_OTHER]}};
  rows_parallel(cross_range, &job, p->others.n, GRAIN, e->cost_ns);
  return ST_OK;
}

static status expect_broadcasts(const tensor *t, const char *name, const tensor *out) {
  EXPECT(move_broadcasts_to(t, out), "%s has shape %s, expected one that broadcasts to out's, %s", name, SHAPE_OF(t),
         SHAPE_OF(out));
  return ST_OK;
}

/* self and other broadcast to out, which has 3 elements in the dimension that is self's dim. */
static status expect_cross(const cross_args *a, int *dim) {
  const uint64_t complex = DTYPES_COMPLEX;
  const tensor *self = a->self, *other = a->other, *out = a->out;
  const int rank = self->rank > other->rank ? self->rank : other->rank;
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT | DTYPES_INTEGER | complex));
  TRY(op_expect_dtype(other, "other", DTYPE_BIT(self->dtype)));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(self->dtype)));
  EXPECT(self->rank > 0, "self has no dimensions, expected one or more");
  TRY(op_expect_dim(a->dim, "dim", self->rank, dim));
  *dim += rank - self->rank;
  TRY(expect_broadcasts(self, "self", out));
  TRY(expect_broadcasts(other, "other", out));
  EXPECT(out->rank == rank && rank && out->dims[*dim] == 3,
         "out has shape %s, expected %d dimensions, of 3 at dimension %d", SHAPE_OF(out), rank, *dim);
  return ST_OK;
}

status prepare_cross(executor *e, const cross_args *a) {
  const tensor *out = a->out;
  cross_plan *p = PLAN(e, cross_plan);
  int dim;
  TRY(expect_cross(a, &dim));
  const view self = view_of(a->self), other = view_of(a->other);
  view to = view_of(out), x = view_broadcast(&self, to.dims, to.rank), y = view_broadcast(&other, to.dims, to.rank);
  axis_init(&p->others, p->along, (view *const[]){&to, &x, &y}, 3, dim);
  const bool complex = dtype_is_complex(out->dtype);
  const int part = out->dtype == ACL_COMPLEX64 ? ACL_FLOAT : complex ? ACL_DOUBLE : out->dtype;
  p->part = complex ? (int64_t)dtype_bytes(part) : 0;
  p->compute = dtype_is_integer(out->dtype) ? COMPUTE_I64 : COMPUTE_F64;
  p->load = loops->load[part][p->compute];
  p->store = loops->store[part][p->compute];
  executor_cost(e, (uint64_t)out->n * 3 * dtype_bytes(out->dtype), (uint64_t)out->n * (complex ? 32 : 8));
  e->run = out->n ? run_cross : move_run_nothing;
  return ST_OK;
}
