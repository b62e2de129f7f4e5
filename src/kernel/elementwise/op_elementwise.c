/* Elementwise operators: what types they compute in, and that shapes fit. The functions are in elementwise.def. */
#include "kernel/elementwise/elementwise_call.h"
#include "kernel/engine/loops.h"
#include "kernel/families.h"
#include "op/parallel.h"

#include <math.h>

/* What is special about a function. */
enum {
  BOOL_RESULT = 2,  /* stored as 0 or 1, into any dtype */
  SCALAR_TYPED = 4, /* the first scalar takes part in the promotion */
  SLOW = 8,         /* some 2 ns an element rather than memory speed */
  NO_BOOL = 16,     /* truth values are refused */
};

static const uint8_t traits[N_EW] = {
    [EW_exp] = SLOW,
    [EW_log] = SLOW,
    [EW_rsqrt] = SLOW,
    [EW_sigmoid] = SLOW,
    [EW_tanh] = SLOW,
    [EW_exp2... EW_logit] = SLOW,
    [EW_gelu... EW_log_sigmoid] = SLOW,
    [EW_elu... EW_selu] = SLOW,
    [EW_gelu_backward... EW_log_sigmoid_backward] = SLOW,
    [EW_glu... EW_geglu_tanh_slope] = SLOW,
    [EW_signbit... EW_is_neg_inf] = BOOL_RESULT,
    [EW_adds] = SCALAR_TYPED,
    [EW_sub] = NO_BOOL,
    [EW_subs] = SCALAR_TYPED | NO_BOOL,
    [EW_neg] = NO_BOOL,
    [EW_muls] = SCALAR_TYPED,
    [EW_divs] = SCALAR_TYPED,
    [EW_logical_not] = BOOL_RESULT,
    [EW_logical_and] = BOOL_RESULT,
    [EW_eqs] = BOOL_RESULT | SCALAR_TYPED,
    [EW_gts] = BOOL_RESULT | SCALAR_TYPED,
    [EW_lts] = BOOL_RESULT | SCALAR_TYPED,
    [EW_ges] = BOOL_RESULT | SCALAR_TYPED,
    [EW_les] = BOOL_RESULT | SCALAR_TYPED,
    [EW_eq] = BOOL_RESULT,
    [EW_ne] = BOOL_RESULT,
    [EW_gt] = BOOL_RESULT,
    [EW_lt] = BOOL_RESULT,
    [EW_ge] = BOOL_RESULT,
    [EW_le] = BOOL_RESULT,
};

typedef struct {
  elementwise_plan plan;
  int8_t operand[1 + ELEMENTWISE_INPUTS];
} elementwise_op_plan;

bool elementwise_is_slow(int function) { return traits[function] & SLOW; }

static void add_parameter(elementwise_call *c, const scalar *s, double number) {
  c->parameter[c->n_parameters++] = (elementwise_parameter){s, number};
}

void elementwise_call_of(const op *o, const op_arg *a, elementwise_call *c) {
  int operand = 0;
  *c = (elementwise_call){0};
  for (int i = 0; i < o->n_args; ++i) {
    const arg_schema *s = &o->schema[i];
    switch (s->kind) {
    case ARG_SCALAR: add_parameter(c, a[i].scalar, 1); continue;
    case ARG_FLOAT: add_parameter(c, NULL, a[i].real); continue;
    case ARG_INT: add_parameter(c, NULL, (double)a[i].integer); continue;
    case ARG_BOOL: add_parameter(c, NULL, a[i].boolean); continue;
    case ARG_TENSOR: break;
    default: continue;
    }
    if (s->flags & ARG_READ) {
      c->in_name[c->n_inputs] = s->name;
      c->in[c->n_inputs++] = a[i].tensor;
      c->operand[c->n_inputs] = (int8_t)operand;
    }
    if (s->flags & ARG_WRITTEN) {
      c->out_name = s->name;
      c->out = a[i].tensor;
      c->operand[0] = (int8_t)operand;
    }
    ++operand;
  }
}

status elementwise_check_dtypes(const elementwise_call *g, int function, int *result) {
  TRY(op_expect_dtype(g->in[0], g->in_name[0], DTYPES_REAL));
  int common = g->in[0]->dtype;
  for (int k = 1; k < g->n_inputs; ++k) {
    TRY(op_expect_dtype(g->in[k], g->in_name[k], DTYPES_REAL));
    common = dtype_promote(common, g->in[k]->dtype);
  }
  if (traits[function] & SCALAR_TYPED) {
    const dtype_class of_scalar = dtype_class_of(g->parameter[0].scalar->dtype);
    EXPECT(of_scalar <= CLASS_FLOAT, "%s is a complex scalar, expected a real one", "other");
    if (of_scalar > dtype_class_of(common)) common = of_scalar == CLASS_FLOAT ? ACL_FLOAT : ACL_INT64;
  }
  if (traits[function] & NO_BOOL && common == ACL_BOOL)
    return OP_FAIL("%s has dtype BOOL, expected a number", g->in_name[0]);
  /* Functions that integers don't have bring them to float. */
  elementwise_loop *const *loop = loops->elementwise[function];
  if (!loop[COMPUTE_I32] && dtype_class_of(common) != CLASS_FLOAT) common = ACL_FLOAT;
  if (!loop[compute_type_of(common)])
    return OP_FAIL("%s has dtype %s, expected an integer or BOOL", g->in_name[0], dtype_name(g->in[0]->dtype));
  TRY(op_expect_dtype(g->out, g->out_name, DTYPES_REAL));
  if (!(traits[function] & BOOL_RESULT) && !dtype_can_cast(common, g->out->dtype))
    return OP_FAIL("%s has dtype %s, expected one that the result's %s can be cast to", g->out_name,
                   dtype_name(g->out->dtype), dtype_name(common));
  *result = common;
  return ST_OK;
}

/* The inputs broadcast to exactly the output's shape. */
static status check_shapes(const elementwise_call *g) {
  int64_t dims[MAX_RANK];
  int rank = 0;
  for (int k = 0; k < g->n_inputs; ++k)
    if (g->in[k]->rank > rank) rank = g->in[k]->rank;
  for (int d = 0; d < rank; ++d) dims[d] = 1;
  for (int k = 0; k < g->n_inputs; ++k) {
    const tensor *t = g->in[k];
    for (int d = 0; d < t->rank; ++d) {
      int64_t *common = &dims[rank - t->rank + d];
      if (t->dims[d] == *common || t->dims[d] == 1) continue;
      if (*common == 1) {
        *common = t->dims[d];
        continue;
      }
      char is[SHAPE_TEXT], expected[SHAPE_TEXT];
      return OP_FAIL("%s has shape %s, expected one that broadcasts with %s of shape %s", g->in_name[k],
                     shape_text(t->dims, t->rank, is), g->in_name[0],
                     shape_text(g->in[0]->dims, g->in[0]->rank, expected));
    }
  }
  return op_expect_shape(g->out, g->out_name, dims, rank);
}

compute_value elementwise_value(const elementwise_parameter *p, compute_type compute) {
  const double real = p->scalar ? scalar_real(p->scalar) : p->number;
  const int64_t integer = p->scalar ? scalar_integer(p->scalar) : fabs(real) < 0x1p63 ? (int64_t)real : 0;
  switch (compute) {
  case COMPUTE_F32: return (compute_value){.f32 = (float)real};
  case COMPUTE_F64: return (compute_value){.f64 = real};
  case COMPUTE_I32: return (compute_value){.i32 = (int32_t)integer};
  default: return (compute_value){.i64 = integer};
  }
}

/* Same shape, no gaps: one loop over everything, the common case, planned without looking at dimensions. */
static bool plan_contiguous(elementwise_plan *p, const elementwise_call *g, int function, compute_type compute) {
  static const int native[N_COMPUTE] = {ACL_FLOAT, ACL_DOUBLE, ACL_INT32, ACL_INT64};
  bool linear = g->out->dtype == native[compute];
  if (!g->out->contiguous) return false;
  for (int k = 0; k < g->n_inputs; ++k) {
    if (!g->in[k]->contiguous || !same_dims(g->in[k], g->out)) return false;
    linear &= g->in[k]->dtype == native[compute];
  }
  p->function = (int16_t)function;
  p->compute = (uint8_t)compute;
  p->n_inputs = (uint8_t)g->n_inputs;
  p->rank = 1;
  p->linear = linear;
  p->narrow = -1;
  p->n = p->dims[0] = g->out->n;
  for (int k = 0; k <= g->n_inputs; ++k) {
    const tensor *t = k ? g->in[k - 1] : g->out;
    p->dtype[k] = (int8_t)t->dtype;
    p->strides[k][0] = (int64_t)dtype_bytes(t->dtype);
  }
  return true;
}

static void plan_any(elementwise_plan *p, const elementwise_call *g, int function, compute_type compute) {
  view views[1 + ELEMENTWISE_INPUTS];
  const view *in[ELEMENTWISE_INPUTS];
  views[0] = view_of(g->out);
  for (int k = 0; k < g->n_inputs; ++k) {
    views[k + 1] = view_of(g->in[k]);
    in[k] = &views[k + 1];
  }
  elementwise_plan_init(p, function, compute, &views[0], in, g->n_inputs);
}

static status run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const elementwise_op_plan *p = PLAN(e, const elementwise_op_plan);
  void *at[1 + ELEMENTWISE_INPUTS];
  for (int k = 0; k <= p->plan.n_inputs; ++k) at[k] = view[p->operand[k]];
  elementwise_run(&p->plan, at, e->cost_ns);
  return ST_OK;
}

status elementwise_prepare(executor *e, int function, const elementwise_call *g) {
  int dtype;
  TRY(elementwise_check_dtypes(g, function, &dtype));
  TRY(check_shapes(g));
  const compute_type compute = compute_type_of(dtype);
  elementwise_op_plan *p = PLAN(e, elementwise_op_plan);
  if (!plan_contiguous(&p->plan, g, function, compute)) plan_any(&p->plan, g, function, compute);
  for (int k = 0; k < g->n_parameters; ++k) p->plan.parameter[k] = elementwise_value(&g->parameter[k], compute);
  if (!(traits[function] & BOOL_RESULT) && dtype_class_of(dtype) < CLASS_FLOAT && dtype != g->out->dtype &&
      dtype_bytes(dtype) < (compute == COMPUTE_I64 ? 8 : 4)) {
    p->plan.narrow = (int8_t)dtype;
    p->plan.linear = false;
  }
  uint64_t bytes = 0;
  for (int k = 0; k <= g->n_inputs; ++k) {
    p->operand[k] = g->operand[k];
    bytes += e->operands[g->operand[k]].extent_bytes;
  }
  executor_cost(e, bytes, traits[function] & SLOW ? (uint64_t)g->out->n * 64 : 0);
  e->run = run;
  return ST_OK;
}

status prepare_elementwise(executor *e, const op_arg *a) {
  elementwise_call g;
  elementwise_call_of(e->op, a, &g);
  return elementwise_prepare(e, e->op->variant, &g);
}
