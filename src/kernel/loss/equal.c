/* SPDX-License-Identifier: Apache-2.0 */
/* aclnnEqual: whether two tensors have the same shape and, after promotion to a common dtype, equal elements. The
 * result is one boolean. PrecisionCompare: whether two tensors have the same bits, as a code. */
#include "kernel/engine/mapped_sum.h"
#include "kernel/families.h"

typedef struct {
  bool same_shape;
  store_loop *store;
  mapped_sum different; /* number of elements that differ */
} equal_plan;

static status equal_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const equal_plan *p = PLAN(e, equal_plan);
  const double equal = p->same_shape && mapped_sum_run(&p->different, view, e->cost_ns) == 0;
  p->store(view[EQUAL_OUT], 0, &equal, 1);
  return ST_OK;
}

status prepare_equal(executor *e, const equal_args *a) {
  const tensor *self = a->self, *other = a->other, *out = a->out;
  equal_plan *p = PLAN(e, equal_plan);
  TRY(op_expect_dtype(self, "self", DTYPES_REAL));
  TRY(op_expect_dtype(other, "other", DTYPES_REAL));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(ACL_BOOL)));
  TRY(op_expect_shape(out, "out", (const int64_t[]){1}, 1));
  p->same_shape = tensor_same_dims(self, other);
  p->store = loops->store[ACL_BOOL][COMPUTE_F64];
  if (p->same_shape) {
    const view x = view_of(self), y = view_of(other);
    const compute_type compute = compute_type_of(dtype_promote(self->dtype, other->dtype));
    mapped_sum_init(&p->different, EW_ne, compute == COMPUTE_I32 ? COMPUTE_I64 : compute, self->dims, self->rank,
                    (const view *const[]){&x, &y}, 2);
  }
  executor_cost(e, (uint64_t)self->n * 2 * dtype_bytes(self->dtype), (uint64_t)self->n);
  e->run = equal_run;
  return ST_OK;
}

static status precision_compare_run(const executor *e, void *const *view, void *scratch) {
  enum { DIFFERENT = 503 }; /* the code of the operator's page */
  (void)scratch;
  const equal_plan *p = PLAN(e, equal_plan);
  *(uint32_t *)view[PRECISION_COMPARE_OUT] = mapped_sum_run_i64(&p->different, view, e->cost_ns) ? DIFFERENT : 0;
  return ST_OK;
}

status prepare_precision_compare(executor *e, const precision_compare_args *a) {
  equal_plan *p = PLAN(e, equal_plan);
  TRY(op_expect_dtype(a->golden, "golden", DTYPES_FLOAT_TO_32));
  TRY(op_expect_like(a->realdata, "realdata", a->golden));
  TRY(op_expect_one(a->out, "out", DTYPE_BIT(ACL_UINT32)));
  view x = view_of(a->golden), y = view_of(a->realdata);
  x.dtype = y.dtype = dtype_bytes(a->golden->dtype) == 2 ? ACL_INT16 : ACL_INT32;
  mapped_sum_init(&p->different, EW_ne, COMPUTE_I64, a->golden->dims, a->golden->rank, (const view *const[]){&x, &y},
                  2);
  executor_cost(e, (uint64_t)a->golden->n * 2 * dtype_bytes(a->golden->dtype), (uint64_t)a->golden->n);
  e->run = precision_compare_run;
  return ST_OK;
}
