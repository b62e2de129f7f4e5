/* SPDX-License-Identifier: Apache-2.0 */
/* Foreach operators: one elementwise function over the members of lists of tensors. The i-th members of all lists have
 * the same shape and dtype; there is no broadcasting. Parameters are a scalar for all members, a scalar list with one
 * for each, or a tensor in device memory with one for all or for each, which is read when the task runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/elementwise/fill.h"
#include "kernel/families.h"

enum { MOST_LISTS = 3 };

typedef struct {
  elementwise_plan plan;
  uint64_t cost_ns;
} member;

typedef struct {
  int n;                            /* number of members */
  uint16_t operand[1 + MOST_LISTS]; /* operand number of the first member of out and of each input list */
  uint16_t parameter;               /* operand number of the tensor of parameters */
  bool has_parameters;
  int64_t parameter_step;    /* bytes between members; 0: one for all */
  load_loop *load_parameter; /* loads as double */
  bool rounds;               /* the parameter selects a rounding function */
} foreach_plan;

/* ---- the task ---------------------------------------------------------------------------------------------------- */

static compute_value parameter_value(double x, int compute) {
  switch (compute) {
  case COMPUTE_F32: return (compute_value){.f32 = (float)x};
  case COMPUTE_F64: return (compute_value){.f64 = x};
  case COMPUTE_I32: return (compute_value){.i32 = (int32_t)x};
  default: return (compute_value){.i64 = (int64_t)x};
  }
}

/* CANN's rounding modes from 0 on: keep, to nearest (ties to even), down, up, to nearest (ties away from zero), towards
 * zero, to nearest (ties to odd), fractional part. Other modes keep the value; so do modes 1 to 6 for integers. */
static int16_t function_of_rounding(int64_t mode, int compute) {
  static const int16_t functions[] = {EW_copy,       EW_round, EW_floor,     EW_ceil,
                                      EW_round_away, EW_trunc, EW_round_odd, EW_frac};
  const bool is_integer = compute == COMPUTE_I32 || compute == COMPUTE_I64;
  return mode < 0 || mode > 7 || (is_integer && mode != 7) ? EW_copy : functions[mode];
}

static status run_foreach(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const foreach_plan *p = PLAN(e, foreach_plan);
  const member *m = e->heap;
  for (int i = 0; i < p->n; ++i) {
    if (!m[i].plan.n) continue;
    void *at[1 + MOST_LISTS];
    for (int k = 0; k <= m[i].plan.n_inputs; ++k) at[k] = view[p->operand[k] + i];
    if (!p->has_parameters) {
      elementwise_run(&m[i].plan, at, m[i].cost_ns);
      continue;
    }
    elementwise_plan plan = m[i].plan;
    double x;
    p->load_parameter(&x, (const char *)view[p->parameter] + i * p->parameter_step, 8, 1);
    if (p->rounds)
      plan.function = function_of_rounding((int64_t)x, plan.compute);
    else
      plan.parameter[0] = parameter_value(x, plan.compute);
    elementwise_run(&plan, at, m[i].cost_ns);
  }
  return ST_OK;
}

/* ---- phase one --------------------------------------------------------------------------------------------------- */

/* The call's arguments by their role; names as in the schema. */
typedef struct {
  const aclTensorList *out, *in[MOST_LISTS];
  const char *out_name, *in_name[MOST_LISTS], *parameter_name;
  const tensor *parameter_tensor;
  const scalar *scalar;
  const aclScalarList *scalars;
  int n_inputs;
} arguments;

static void foreach_sort_arguments(const op *o, const op_arg *a, foreach_plan *p, arguments *g) {
  int operand = 0;
  for (int i = 0; i < o->n_args; ++i) {
    const arg_schema *s = &o->schema[i];
    if (s->kind == ARG_TENSOR_LIST && s->flags & ARG_WRITTEN) {
      g->out = a[i].tensors;
      g->out_name = s->name;
      p->operand[0] = (uint16_t)operand;
    } else if (s->kind == ARG_TENSOR_LIST) {
      g->in[g->n_inputs] = a[i].tensors;
      g->in_name[g->n_inputs++] = s->name;
      p->operand[g->n_inputs] = (uint16_t)operand;
    } else {
      g->parameter_name = s->name;
      if (s->kind == ARG_TENSOR) {
        g->parameter_tensor = a[i].tensor;
        p->parameter = (uint16_t)operand;
      } else if (s->kind == ARG_SCALAR) {
        g->scalar = a[i].scalar;
      } else {
        g->scalars = a[i].scalars;
      }
    }
    operand += s->kind == ARG_TENSOR_LIST ? (int)a[i].tensors->size : s->kind == ARG_TENSOR;
  }
}

/* A name such as "x1[3]", for messages. */
typedef struct {
  char text[64];
} member_name;

static member_name foreach_member_name(const char *list, int i) {
  member_name n;
  snprintf(n.text, sizeof n.text, "%s[%d]", list, i);
  return n;
}

static status expect_one_dtype(const aclTensorList *list, const char *name) {
  for (uint64_t i = 1; i < list->size; ++i)
    if (list->value[i]->dtype != list->value[0]->dtype)
      return op_expect_dtype(list->value[i], foreach_member_name(name, (int)i).text, DTYPE_BIT(list->value[0]->dtype));
  return ST_OK;
}

static status foreach_check_lists(const arguments *g) {
  TRY(expect_one_dtype(g->out, g->out_name));
  for (int k = 0; k < g->n_inputs; ++k) TRY(expect_one_dtype(g->in[k], g->in_name[k]));
  for (int k = 0; k < g->n_inputs; ++k)
    EXPECT(g->in[k]->size == g->out->size, "%s has %ju tensors, expected those of %s, %ju", g->in_name[k],
           (uintmax_t)g->in[k]->size, g->out_name, (uintmax_t)g->out->size);
  if (g->scalars)
    EXPECT(g->scalars->size == g->out->size, "%s has %ju scalars, expected one for each of the %ju tensors",
           g->parameter_name, (uintmax_t)g->scalars->size, (uintmax_t)g->out->size);
  return ST_OK;
}

static status plan_parameter_tensor(foreach_plan *p, const arguments *g) {
  const tensor *t = g->parameter_tensor;
  TRY(op_expect_dtype(t, g->parameter_name, DTYPES_REAL));
  EXPECT(t->rank <= 1, "%s has %d dimensions, expected 1 or none", g->parameter_name, t->rank);
  const bool for_each = !strcmp(g->parameter_name, "scalars");
  EXPECT(for_each ? t->n == p->n : t->n == 1, "%s has %jd elements, expected %d%s", g->parameter_name, (intmax_t)t->n,
         for_each ? p->n : 1, for_each ? ", one for each tensor" : "");
  const view v = view_of(t);
  p->has_parameters = true;
  p->parameter_step = for_each && v.rank ? v.strides[0] : 0;
  p->load_parameter = loops->load[t->dtype][COMPUTE_F64];
  return ST_OK;
}

/* Exponentials of 8- and 16-bit integers are computed in float and rounded. */
static int foreach_function(int function, int dtype, compute_type *compute) {
  const bool is_narrow = dtype == ACL_INT8 || dtype == ACL_UINT8 || dtype == ACL_INT16;
  *compute = compute_type_of(dtype);
  if (!is_narrow || (function != EW_exp && function != EW_expm1)) return function;
  *compute = COMPUTE_F32;
  return function == EW_exp ? EW_exp_rounded : EW_expm1_rounded;
}

/* Checks and plans member i of all lists. */
static status foreach_plan_member(const arguments *g, int function, int i, member *m) {
  const tensor *out = g->out->value[i];
  view v[1 + MOST_LISTS];
  const view *in[MOST_LISTS];
  v[0] = view_of(out);
  TRY(op_expect_dtype(out, foreach_member_name(g->out_name, i).text, DTYPES_REAL));
  compute_type compute;
  function = foreach_function(function, out->dtype, &compute);
  EXPECT(loops->elementwise[function][compute], "%s[%d] has dtype %s, expected a float", g->out_name, i,
         dtype_name(out->dtype));
  for (int k = 0; k < g->n_inputs; ++k) {
    const tensor *t = g->in[k]->value[i];
    const member_name name = foreach_member_name(g->in_name[k], i);
    TRY(op_expect_dtype(t, name.text, function == EW_copy ? DTYPES_REAL : DTYPE_BIT(out->dtype)));
    TRY(op_expect_same_shape(t, name.text, out));
    v[k + 1] = view_of(t);
    in[k] = &v[k + 1];
  }
  if (function == EW_copy)
    elementwise_copy_plan(&m->plan, &v[0], in[0]);
  else
    elementwise_plan_init(&m->plan, function, compute, &v[0], in, g->n_inputs);
  const scalar *s = g->scalars ? g->scalars->value[i] : g->scalar;
  if (s) m->plan.parameter[0] = parameter_value(scalar_real(s), compute);
  m->plan.parameter[1] = parameter_value(1, compute); /* alpha, for functions that have one */
  m->cost_ns = (uint64_t)out->n / 4;
  return ST_OK;
}

static status foreach_plan_members(executor *e, foreach_plan *p, const arguments *g, int function) {
  HEAP_PLAN(member, m, e, (size_t)p->n * sizeof *m);
  uint64_t bytes = 0;
  for (int i = 0; i < p->n; ++i) {
    const tensor *out = g->out->value[i];
    TRY(foreach_plan_member(g, function, i, &m[i]));
    bytes += (uint64_t)out->n * dtype_bytes(out->dtype) * (uint64_t)(g->n_inputs + 1);
  }
  e->run = run_foreach;
  executor_cost(e, bytes, (uint64_t)p->n * 2048);
  return ST_OK;
}

static status foreach_prepare(executor *e, const op_arg *a, int function, bool rounds) {
  foreach_plan *p = PLAN(e, foreach_plan);
  arguments g = {0};
  p->has_parameters = false;
  p->rounds = rounds;
  foreach_sort_arguments(e->op, a, p, &g);
  p->n = (int)g.out->size;
  TRY(foreach_check_lists(&g));
  if (g.parameter_tensor) TRY(plan_parameter_tensor(p, &g));
  TRY(foreach_plan_members(e, p, &g, function));
  member *m = e->heap;
  for (int i = 0; rounds && g.scalar && i < p->n; ++i)
    m[i].plan.function = function_of_rounding(scalar_integer(g.scalar), m[i].plan.compute);
  return ST_OK;
}

status prepare_foreach(executor *e, const op_arg *a) { return foreach_prepare(e, a, e->op->variant, false); }

status prepare_foreach_round(executor *e, const foreach_round_args *a) {
  return foreach_prepare(e, a->all, EW_round, true);
}

/* ---- ForeachZeroInplace ------------------------------------------------------------------------------------------ */

static status run_foreach_zero(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const fill_plan *p = e->heap;
  for (int i = 0; i < e->n_operands; ++i)
    if (p[i].at.n) fill_run(&p[i], view[i], (uint64_t)p[i].at.n / 8);
  return ST_OK;
}

status prepare_foreach_zero(executor *e, const foreach_zero_args *a) {
  const aclTensorList *x = a->x;
  fill_plan *p = e->heap = aligned_alloc(_Alignof(fill_plan), (x->size ? x->size : 1) * sizeof *p);
  if (!p) return fail(ST_NO_HOST_MEMORY, "no host memory for a plan of %ju tensors", (uintmax_t)x->size);
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < x->size; ++i) {
    TRY(op_expect_dtype(x->value[i], foreach_member_name("x", (int)i).text, DTYPES_NUMBER));
    const view v = view_of(x->value[i]);
    fill_plan_init(&p[i], &v, NULL);
    bytes += (uint64_t)x->value[i]->n * dtype_bytes(x->value[i]->dtype);
  }
  e->run = run_foreach_zero;
  executor_cost(e, bytes, 0);
  return ST_OK;
}
