/* Real and Complex: the parts of complex numbers, taken and put together. A part is an element of the float type of half
 * the size, every other one in memory. */
#include "kernel/engine/elementwise.h"
#include "kernel/families.h"

static int part_of(int dtype) {
  return dtype == ACL_COMPLEX32 ? ACL_FLOAT16 : dtype == ACL_COMPLEX64 ? ACL_FLOAT : ACL_DOUBLE;
}

static bool is_complex(const tensor *t) { return dtype_class_of(t->dtype) == CLASS_COMPLEX; }

#define DTYPES_COMPLEX (DTYPE_BIT(ACL_COMPLEX32) | DTYPE_BIT(ACL_COMPLEX64) | DTYPE_BIT(ACL_COMPLEX128))

/* The real parts, of a complex tensor or any other. */
static view real_parts(const tensor *t) {
  view v = view_of(t);
  if (is_complex(t)) v.dtype = part_of(t->dtype);
  return v;
}

static status real_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  void *const at[] = {view[1], view[0]};
  elementwise_run(PLAN(e, elementwise_plan), at, e->cost_ns);
  return ST_OK;
}

status prepare_real(executor *e, const op_arg *a) {
  const tensor *self = a[0].tensor, *out = a[1].tensor;
  TRY(op_expect_dtype(self, "self", DTYPES_REAL | DTYPES_COMPLEX));
  const view to = view_of(out), from = real_parts(self);
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(from.dtype)));
  TRY(op_expect_shape(out, "out", self->dims, self->rank));
  elementwise_copy_plan(PLAN(e, elementwise_plan), &to, &from);
  executor_cost(e, (uint64_t)out->n * (dtype_bytes(self->dtype) + dtype_bytes(out->dtype)), 0);
  e->run = real_run;
  return ST_OK;
}

typedef struct {
  view out, real, imaginary;
} complex_plan;

static status complex_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const complex_plan *p = PLAN(e, complex_plan);
  elementwise_copy(view[2], &p->out, view[0], &p->real, e->cost_ns);
  elementwise_copy((char *)view[2] + dtype_bytes(p->out.dtype), &p->out, view[1], &p->imaginary, e->cost_ns);
  return ST_OK;
}

/* What the two broadcast to. */
static status broadcast_pair(const tensor *x, const tensor *y, int64_t *dims, int *rank) {
  char is[SHAPE_TEXT], expected[SHAPE_TEXT];
  *rank = x->rank > y->rank ? x->rank : y->rank;
  for (int d = 0; d < *rank; ++d) {
    const int dx = d - (*rank - x->rank), dy = d - (*rank - y->rank);
    const int64_t nx = dx < 0 ? 1 : x->dims[dx], ny = dy < 0 ? 1 : y->dims[dy];
    EXPECT(nx == ny || nx == 1 || ny == 1, "imag has shape %s, expected one that broadcasts with real of shape %s",
           shape_text(y->dims, y->rank, is), shape_text(x->dims, x->rank, expected));
    dims[d] = nx == 1 ? ny : nx;
  }
  return ST_OK;
}

status prepare_complex(executor *e, const op_arg *a) {
  const tensor *real = a[0].tensor, *imaginary = a[1].tensor, *out = a[2].tensor;
  int64_t dims[MAX_RANK];
  int rank;
  TRY(op_expect_dtype(out, "out", DTYPES_COMPLEX));
  TRY(op_expect_dtype(real, "real", DTYPE_BIT(part_of(out->dtype))));
  TRY(op_expect_dtype(imaginary, "imag", DTYPE_BIT(part_of(out->dtype))));
  TRY(broadcast_pair(real, imaginary, dims, &rank));
  TRY(op_expect_shape(out, "out", dims, rank));
  *PLAN(e, complex_plan) = (complex_plan){real_parts(out), view_of(real), view_of(imaginary)};
  executor_cost(e, (uint64_t)out->n * dtype_bytes(out->dtype) * 2, 0);
  e->run = complex_run;
  return ST_OK;
}
