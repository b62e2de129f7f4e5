/* SPDX-License-Identifier: Apache-2.0 */
/* Outer products (Ger), and outer products added to a matrix (Addr). They run as elementwise operations on broadcast
 * vectors, or as a GEMM of depth 1. */
#include <stdlib.h>

#include "kernel/elementwise/complex.h"
#include "kernel/families.h"
#include "kernel/product/factor/factors.h"

static view outer_column(const tensor *t) {
  const view v = view_of(t);
  return (view){.rank = 2, .dtype = v.dtype, .dims = {v.dims[0], 1}, .strides = {v.strides[0], 0}};
}

static view outer_row(const tensor *t) {
  const view v = view_of(t);
  return (view){.rank = 2, .dtype = v.dtype, .dims = {1, v.dims[0]}, .strides = {0, v.strides[0]}};
}

/* Checks both vectors, which are the operands from `at` on, and out. *common: the dtype to compute in. */
static status check_outer(const executor *e, const tensor *first, const tensor *second, int at, const tensor *out,
                          const char *out_name, uint64_t allowed, int *common) {
  TRY(op_expect_dtype(first, e->operands[at].name, allowed));
  TRY(op_expect_dtype(second, e->operands[at + 1].name, allowed));
  TRY(op_expect_dtype(out, out_name, allowed));
  TRY(op_expect_rank(first, e->operands[at].name, 1, 1));
  TRY(op_expect_rank(second, e->operands[at + 1].name, 1, 1));
  const int64_t dims[] = {first->dims[0], second->dims[0]};
  *common = dtype_promote(first->dtype, second->dtype);
  return op_expect_shape(out, out_name, dims, 2);
}

static status expect_cast(int common, const tensor *out, const char *out_name) {
  EXPECT(dtype_can_cast(common, out->dtype),
         "%s has dtype %s, expected another: the result's %s can't be cast to the desired output type", out_name,
         dtype_name(out->dtype), dtype_name(common));
  return ST_OK;
}

/* Makes integers wrap in the common dtype before they are converted to a wider output. */
static void wrap_to(elementwise_plan *p, int dtype) {
  if (dtype_class_of(dtype) >= CLASS_FLOAT || dtype == p->dtype[0] || dtype == ACL_INT64) return;
  p->narrow = (int8_t)dtype;
  p->linear = false;
}

static compute_value outer_value(const scalar *s, compute_type compute) {
  switch (compute) {
  case COMPUTE_F32: return (compute_value){.f32 = s ? (float)scalar_real(s) : 1};
  case COMPUTE_F64: return (compute_value){.f64 = s ? scalar_real(s) : 1};
  case COMPUTE_I32: return (compute_value){.i32 = s ? (int32_t)scalar_integer(s) : 1};
  default: return (compute_value){.i64 = s ? scalar_integer(s) : 1};
  }
}

static status run_ger(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  void *const at[] = {view[GER_OUT], view[GER_SELF], view[GER_VEC2]};
  elementwise_run(PLAN(e, elementwise_plan), at, e->cost_ns);
  return ST_OK;
}

/* A vector viewed as a matrix: `dim` is the vector's dimension, the other one has size 1. */
static tensor outer_matrix(const tensor *vector, int dim) {
  tensor t = {.dtype = vector->dtype, .rank = 2, .n = vector->n, .dims = {1, 1}};
  t.dims[dim] = vector->dims[0];
  t.strides[dim] = vector->strides[0];
  return t;
}

static status ger_complex(executor *e, const ger_args *a) {
  const tensor column = outer_matrix(a->self, 0), row = outer_matrix(a->vec2, 1);
  const elementwise_call c = {
      .out = a->out, .in = {&column, &row}, .n_inputs = 2, .operand = {GER_OUT, GER_SELF, GER_VEC2}};
  return complex_prepare(e, EW_mul, &c);
}

status prepare_ger(executor *e, const ger_args *a) {
  int common;
  TRY(check_outer(e, a->self, a->vec2, GER_SELF, a->out, "out", DTYPES_REAL | DTYPES_COMPLEX, &common));
  TRY(expect_cast(common, a->out, "out"));
  if (dtype_is_complex(a->out->dtype)) return ger_complex(e, a);
  const view out = view_of(a->out), column = outer_column(a->self), row = outer_row(a->vec2);
  elementwise_plan *p = PLAN(e, elementwise_plan);
  const bool is_wide = dtype_class_of(common) == CLASS_FLOAT && out.dtype == ACL_DOUBLE;
  const compute_type compute = is_wide ? COMPUTE_F64 : compute_type_of(common);
  elementwise_plan_init(p, EW_mul, compute, &out, (const view *const[]){&column, &row}, 2);
  wrap_to(p, common);
  executor_cost(e, (uint64_t)a->out->n * dtype_bytes(out.dtype), 0);
  e->run = run_ger;
  return ST_OK;
}

/* ---- Addr: floats by a GEMM of depth 1, which rounds once; integers, which wrap, by two steps in place ----------- */

static status addr_floats(executor *e, const addr_args *a, const tensor *out, double beta, double alpha) {
  const tensor *self = a->self;
  product_operator *o = PLAN(e, product_operator);
  *o = (product_operator){.product = {.alpha = alpha, .beta = beta, .has_self = true}};
  o->self = ADDR_SELF, o->a = ADDR_VEC1, o->b = ADDR_VEC2;
  o->out = a->out ? ADDR_OUT : ADDR_SELF;
  product_plan *p = &o->product;
  const view first = view_of(a->vec1), second = view_of(a->vec2), s = view_of(self);
  p->a = (matrices){.dtype = first.dtype, .rows = first.dims[0], .cols = 1, .row_stride = first.strides[0]};
  p->b = (matrices){.dtype = second.dtype, .rows = 1, .cols = second.dims[0], .col_stride = second.strides[0]};
  p->self = (matrices){.dtype = s.dtype, .rows = p->a.rows, .cols = p->b.cols};
  if (s.rank > 0 && s.dims[s.rank - 1] != 1) p->self.col_stride = s.strides[s.rank - 1];
  if (s.rank > 1 && s.dims[0] != 1) p->self.row_stride = s.strides[0];
  factors_out_matrices(out, true, true, p);
  product_plan_finish(e);
  return ST_OK;
}

static status run_addr(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const elementwise_plan *steps = e->heap; /* out = beta * self, then out += alpha * vec1 * vec2 */
  void *const out = view[e->n_operands > ADDR_OUT ? ADDR_OUT : ADDR_SELF];
  elementwise_run(&steps[0], (void *const[]){out, view[ADDR_SELF]}, e->cost_ns);
  elementwise_run(&steps[1], (void *const[]){out, out, view[ADDR_VEC1], view[ADDR_VEC2]}, e->cost_ns);
  return ST_OK;
}

static status addr_integers(executor *e, const addr_args *a, const tensor *out, int common, const scalar *beta,
                            const scalar *alpha) {
  HEAP_PLAN(elementwise_plan, steps, e, 2 * sizeof *steps);
  const compute_type compute = compute_type_of(common);
  const view o = view_of(out), s = view_of(a->self), column = outer_column(a->vec1), row = outer_row(a->vec2);
  elementwise_plan_init(&steps[0], EW_muls, compute, &o, (const view *const[]){&s}, 1);
  elementwise_plan_init(&steps[1], EW_addcmul, compute, &o, (const view *const[]){&o, &column, &row}, 3);
  steps[0].parameter[0] = outer_value(beta, compute);
  steps[1].parameter[0] = outer_value(alpha, compute);
  wrap_to(&steps[1], common);
  executor_cost(e, (uint64_t)out->n * dtype_bytes(out->dtype) * 3, 0);
  e->run = run_addr;
  return ST_OK;
}

static status addr_expect_factor(const scalar *s, const char *name, int common) {
  if (!s) return ST_OK;
  const dtype_class class = dtype_class_of(s->dtype);
  EXPECT(class <= (dtype_class_of(common) == CLASS_FLOAT ? CLASS_FLOAT : CLASS_INTEGER) &&
             (class != CLASS_BOOL || common == ACL_BOOL),
         "%s has dtype %s, expected one that fits the tensors' %s", name, dtype_name(s->dtype), dtype_name(common));
  return ST_OK;
}

status prepare_addr(executor *e, const addr_args *a) {
  const tensor *self = a->self, *out = a->out ? a->out : self;
  const char *self_name = a->name.self, *out_name = a->out ? "out" : self_name;
  const scalar *beta = a->beta, *alpha = a->alpha;
  int common;
  TRY(check_outer(e, a->vec1, a->vec2, ADDR_VEC1, out, out_name, DTYPES_REAL, &common));
  TRY(op_expect_dtype(self, self_name, DTYPES_REAL));
  bool fits = self->rank <= 2;
  for (int d = 0; fits && d < self->rank; ++d)
    fits = self->dims[d] == 1 || self->dims[d] == out->dims[2 - self->rank + d];
  EXPECT(fits, "%s has shape %s, expected one that broadcasts to %s", self_name, SHAPE_OF(self),
         DIMS_TEXT(out->dims, 2));
  common = dtype_promote(common, self->dtype);
  TRY(expect_cast(common, out, out_name));
  TRY(addr_expect_factor(beta, "betaOptional", common));
  TRY(addr_expect_factor(alpha, "alphaOptional", common));
  if (dtype_class_of(common) == CLASS_FLOAT && dtype_class_of(self->dtype) == CLASS_FLOAT)
    return addr_floats(e, a, out, beta ? scalar_real(beta) : 1, alpha ? scalar_real(alpha) : 1);
  return addr_integers(e, a, out, common, beta, alpha);
}
