/* Elementwise operators: what types they compute in, and that shapes fit. The functions are in elementwise.def. */
#include "kernel/elementwise/complex.h"
#include "kernel/families.h"
#include "op/parallel.h"

/* What is special about a function. */
enum {
  FLOAT_RESULT = 1,      /* integers are brought to float (to double where only a truth value comes out) */
  BOOL_RESULT = 2,       /* stored as 0 or 1, into any dtype */
  SCALAR_TYPED = 4,      /* the first scalar takes part in the promotion */
  SLOW = 8,              /* some 2 ns an element rather than memory speed */
  NO_BOOL = 16,          /* truth values are refused */
  SCALARS_TYPED = 32,    /* all scalars take part in the promotion */
  NO_FLOAT = 64,         /* floats are refused */
  CONDITION_FIRST = 128, /* the first tensor is a condition: bool or uint8, no part of the promotion */
  MASK_SECOND = 256,     /* the second is one, and the first's dtype is the result's, whatever the others' are */
};

static const uint16_t traits[N_EW] = {
    [EW_exp] = FLOAT_RESULT | SLOW,
    [EW_log] = FLOAT_RESULT | SLOW,
    [EW_sqrt] = FLOAT_RESULT,
    [EW_rsqrt] = FLOAT_RESULT | SLOW,
    [EW_reciprocal] = FLOAT_RESULT,
    [EW_sigmoid] = FLOAT_RESULT | SLOW,
    [EW_tanh] = FLOAT_RESULT | SLOW,
    [EW_adds] = SCALAR_TYPED,
    [EW_sub] = NO_BOOL,
    [EW_subs] = SCALAR_TYPED | NO_BOOL,
    [EW_neg] = NO_BOOL,
    [EW_muls] = SCALAR_TYPED,
    [EW_divs] = FLOAT_RESULT | SCALAR_TYPED,
    [EW_div] = FLOAT_RESULT,
    [EW_addcdiv] = FLOAT_RESULT,
    [EW_lerps] = FLOAT_RESULT,
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
    [EW_nes] = BOOL_RESULT | SCALAR_TYPED,
    [EW_rsub] = NO_BOOL,
    [EW_rsubs] = SCALAR_TYPED | NO_BOOL,
    [EW_add_to] = SCALAR_TYPED,
    [EW_clamp] = SCALARS_TYPED | NO_BOOL,
    [EW_clamp_min] = SCALARS_TYPED | NO_BOOL,
    [EW_clamp_max] = SCALARS_TYPED | NO_BOOL,
    [EW_trunc_divs] = SCALAR_TYPED | NO_BOOL,
    [EW_floor_divs] = SCALAR_TYPED | NO_BOOL,
    [EW_floor_div] = NO_BOOL,
    [EW_trunc_div] = NO_BOOL,
    [EW_fmod] = SLOW | NO_BOOL,
    [EW_fmods] = SLOW | SCALAR_TYPED | NO_BOOL,
    [EW_remainder] = SLOW | NO_BOOL,
    [EW_remainders] = SLOW | SCALAR_TYPED | NO_BOOL,
    [EW_remainder_of] = SLOW | SCALAR_TYPED | NO_BOOL,
    [EW_pow] = SLOW | NO_BOOL,
    [EW_pows] = SLOW | SCALAR_TYPED | NO_BOOL,
    [EW_power_of] = SLOW | SCALAR_TYPED | NO_BOOL,
    [EW_gcd] = SLOW | NO_BOOL | NO_FLOAT,
    [EW_bitwise_and] = NO_FLOAT,
    [EW_bitwise_or] = NO_FLOAT,
    [EW_bitwise_xor] = NO_FLOAT,
    [EW_bitwise_ands] = SCALAR_TYPED | NO_FLOAT,
    [EW_bitwise_ors] = SCALAR_TYPED | NO_FLOAT,
    [EW_bitwise_xors] = SCALAR_TYPED | NO_FLOAT,
    [EW_shift_left] = NO_BOOL | NO_FLOAT,
    [EW_shift_lefts] = SCALAR_TYPED | NO_BOOL | NO_FLOAT,
    [EW_shift_right] = NO_BOOL | NO_FLOAT,
    [EW_logical_or] = BOOL_RESULT,
    [EW_logical_xor] = BOOL_RESULT,
    [EW_atan2] = FLOAT_RESULT | SLOW,
    [EW_logaddexp] = FLOAT_RESULT | SLOW,
    [EW_logaddexp2] = FLOAT_RESULT | SLOW,
    [EW_xlogy] = FLOAT_RESULT | SLOW,
    [EW_xlogys] = FLOAT_RESULT | SLOW | SCALAR_TYPED,
    [EW_xlogy_of] = FLOAT_RESULT | SLOW | SCALAR_TYPED,
    [EW_masked_scale] = FLOAT_RESULT,
    [EW_is_close] = FLOAT_RESULT | BOOL_RESULT,
    [EW_approximately] = FLOAT_RESULT | BOOL_RESULT,
    [EW_lerp] = FLOAT_RESULT,
    [EW_where] = CONDITION_FIRST,
    [EW_masked_fill] = MASK_SECOND,
    [EW_masked_fill_from] = MASK_SECOND,
};

/* The call's arguments by what they are to the function. */
typedef struct {
  const tensor *out, *in[ELEMENTWISE_INPUTS];
  const char *out_name, *in_name[ELEMENTWISE_INPUTS];
  const scalar *scalar[ELEMENTWISE_PARAMETERS];
  const char *scalar_name[ELEMENTWISE_PARAMETERS];
  scalar number[ELEMENTWISE_PARAMETERS]; /* what is passed as float or bool, as scalars */
  int n_inputs, n_scalars;
  int8_t operand[1 + ELEMENTWISE_INPUTS]; /* where each of out, in... is among the executor's */
} arguments;

typedef struct {
  elementwise_plan plan;
  int8_t operand[1 + ELEMENTWISE_INPUTS];
} elementwise_op_plan;

/* The next parameter of the function; absent ones are left out. */
static void add_scalar(arguments *g, const char *name, const scalar *s) {
  if (!s) return;
  g->scalar_name[g->n_scalars] = name;
  g->scalar[g->n_scalars++] = s;
}

static void add_number(arguments *g, const char *name, scalar s) {
  g->number[g->n_scalars] = s;
  add_scalar(g, name, &g->number[g->n_scalars]);
}

static void sort_arguments(const op *o, const op_arg *a, arguments *g) {
  int operand = 0;
  g->n_inputs = g->n_scalars = 0;
  for (int i = 0; i < o->n_args; ++i) {
    const arg_schema *s = &o->schema[i];
    if (s->kind == ARG_SCALAR) add_scalar(g, s->name, a[i].scalar);
    if (s->kind == ARG_FLOAT) add_number(g, s->name, (scalar){.dtype = ACL_DOUBLE, .real = a[i].real});
    if (s->kind == ARG_BOOL) add_number(g, s->name, (scalar){.dtype = ACL_BOOL, .integer = a[i].boolean});
    if (s->kind != ARG_TENSOR) continue;
    if (s->flags & ARG_READ) {
      g->in_name[g->n_inputs] = s->name;
      g->in[g->n_inputs++] = a[i].tensor;
      g->operand[g->n_inputs] = (int8_t)operand;
    }
    if (s->flags & ARG_WRITTEN) {
      g->out_name = s->name;
      g->out = a[i].tensor;
      g->operand[0] = (int8_t)operand;
    }
    ++operand;
  }
}

/* The dtype that the tensors are computed in together. */
static status promote_tensors(const arguments *g, int function, int *common) {
  const uint16_t t = traits[function];
  *common = ACL_DT_UNDEFINED;
  for (int k = 0; k < g->n_inputs; ++k) {
    const bool condition = t & CONDITION_FIRST ? k == 0 : t & MASK_SECOND && k == 1;
    TRY(op_expect_dtype(g->in[k], g->in_name[k], condition ? DTYPE_BIT(ACL_BOOL) | DTYPE_BIT(ACL_UINT8) : DTYPES_REAL));
    if (condition || (t & MASK_SECOND && k > 1)) continue;
    *common = *common == ACL_DT_UNDEFINED ? g->in[k]->dtype : dtype_promote(*common, g->in[k]->dtype);
  }
  return ST_OK;
}

/* Scalars count only where their kind is higher: floats make float, integers int64. */
static status promote_scalars(const arguments *g, int function, int *common) {
  const uint16_t t = traits[function];
  for (int k = 0; k < g->n_scalars; ++k) {
    const dtype_class of_scalar = dtype_class_of(g->scalar[k]->dtype);
    EXPECT(of_scalar <= CLASS_FLOAT, "%s is a complex scalar, expected a real one", g->scalar_name[k]);
    if (!(t & SCALARS_TYPED || (t & SCALAR_TYPED && k == 0))) continue;
    if (of_scalar > dtype_class_of(*common)) *common = of_scalar == CLASS_FLOAT ? ACL_FLOAT : ACL_INT64;
  }
  return ST_OK;
}

static const char *name_of_float(const arguments *g) {
  for (int k = 0; k < g->n_inputs; ++k)
    if (dtype_is_float(g->in[k]->dtype)) return g->in_name[k];
  return g->scalar_name[0];
}

static status check_dtypes(const arguments *g, int function, int *result) {
  const uint16_t t = traits[function];
  int common;
  TRY(promote_tensors(g, function, &common));
  TRY(promote_scalars(g, function, &common));
  if (t & NO_BOOL && common == ACL_BOOL) return OP_FAIL("%s has dtype BOOL, expected a number", g->in_name[0]);
  if (t & NO_FLOAT && dtype_class_of(common) == CLASS_FLOAT)
    return OP_FAIL("%s is of dtype %s, expected integers or BOOL", name_of_float(g), dtype_name(common));
  if (t & FLOAT_RESULT && dtype_class_of(common) != CLASS_FLOAT) common = t & BOOL_RESULT ? ACL_DOUBLE : ACL_FLOAT;
  TRY(op_expect_dtype(g->out, g->out_name, DTYPES_REAL));
  if (!(t & BOOL_RESULT) && !dtype_can_cast(common, g->out->dtype))
    return OP_FAIL("%s has dtype %s, expected one that the result's %s can be cast to", g->out_name,
                   dtype_name(g->out->dtype), dtype_name(common));
  *result = common;
  return ST_OK;
}

/* The inputs broadcast to exactly the output's shape. */
static status check_shapes(const arguments *g) {
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

static compute_value value_of(const scalar *s, compute_type compute) {
  switch (compute) {
  case COMPUTE_F32: return (compute_value){.f32 = (float)scalar_real(s)};
  case COMPUTE_F64: return (compute_value){.f64 = scalar_real(s)};
  case COMPUTE_I32: return (compute_value){.i32 = (int32_t)scalar_integer(s)};
  default: return (compute_value){.i64 = scalar_integer(s)};
  }
}

/* Same shape, no gaps: one loop over everything, the common case, planned without looking at dimensions. */
static bool plan_contiguous(elementwise_plan *p, const arguments *g, int function, compute_type compute) {
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

static void plan_any(elementwise_plan *p, const arguments *g, int function, compute_type compute) {
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

/* ---- complex numbers --------------------------------------------------------------------------------------------- */

static bool is_complex(const arguments *g) {
  bool found = false;
  for (int k = 0; k < g->n_inputs; ++k) found |= dtype_class_of(g->in[k]->dtype) == CLASS_COMPLEX;
  for (int k = 0; k < g->n_scalars; ++k) found |= dtype_class_of(g->scalar[k]->dtype) == CLASS_COMPLEX;
  return found;
}

/* The result is complex, or a truth value or a magnitude, which may be stored as one. */
static status prepare_of_complex(executor *e, const arguments *g, int function) {
  const bool real = traits[function] & BOOL_RESULT || function == EW_abs;
  const uint64_t complex = DTYPE_BIT(ACL_COMPLEX32) | DTYPE_BIT(ACL_COMPLEX64) | DTYPE_BIT(ACL_COMPLEX128);
  const uint64_t results = traits[function] & BOOL_RESULT ? DTYPES_REAL : function == EW_abs ? DTYPES_FLOAT : complex;
  EXPECT(complex_functions->of[function], "%s is complex, expected a real number", g->in_name[0]);
  for (int k = 0; k < g->n_inputs; ++k) TRY(op_expect_dtype(g->in[k], g->in_name[k], DTYPES_REAL | complex));
  TRY(op_expect_dtype(g->out, g->out_name, results));
  TRY(check_shapes(g));
  return complex_prepare(e, &(complex_call){.function = function,
                                            .real_result = real,
                                            .out = g->out,
                                            .in = g->in,
                                            .scalars = g->scalar,
                                            .operand = g->operand,
                                            .n_inputs = g->n_inputs,
                                            .n_scalars = g->n_scalars});
}

/* ---- the operators ----------------------------------------------------------------------------------------------- */

static status prepare_function(executor *e, const op_arg *a, int function) {
  arguments g;
  int dtype;
  sort_arguments(e->op, a, &g);
  if (unlikely(is_complex(&g))) return prepare_of_complex(e, &g, function);
  TRY(check_dtypes(&g, function, &dtype));
  TRY(check_shapes(&g));
  const compute_type compute = compute_type_of(dtype);
  elementwise_op_plan *p = PLAN(e, elementwise_op_plan);
  if (!plan_contiguous(&p->plan, &g, function, compute)) plan_any(&p->plan, &g, function, compute);
  for (int k = 0; k < g.n_scalars; ++k) p->plan.parameter[k] = value_of(g.scalar[k], compute);
  if (!(traits[function] & BOOL_RESULT) && dtype_class_of(dtype) < CLASS_FLOAT && dtype != g.out->dtype &&
      dtype_bytes(dtype) < (compute == COMPUTE_I64 ? 8 : 4)) {
    p->plan.narrow = (int8_t)dtype;
    p->plan.linear = false;
  }
  uint64_t bytes = 0;
  for (int k = 0; k <= g.n_inputs; ++k) {
    p->operand[k] = g.operand[k];
    bytes += e->operands[g.operand[k]].extent_bytes;
  }
  executor_cost(e, bytes, traits[function] & SLOW ? (uint64_t)g.out->n * 64 : 0);
  e->run = run;
  return ST_OK;
}

status prepare_elementwise(executor *e, const op_arg *a) { return prepare_function(e, a, e->op->variant); }

/* DivMod and the like: the mode chooses what is done to the quotient. */
status prepare_divide(executor *e, const op_arg *a) {
  enum { MODES = 3 };
  static const int16_t of_tensors[MODES] = {EW_div, EW_trunc_div, EW_floor_div};
  static const int16_t of_scalar[MODES] = {EW_divs, EW_trunc_divs, EW_floor_divs};
  const int64_t mode = a[2].integer;
  EXPECT(mode >= 0 && mode < MODES, "%s is %jd, expected 0 (true), 1 (truncated) or 2 (floored)", e->op->schema[2].name,
         (intmax_t)mode);
  return prepare_function(e, a, (e->op->variant == EW_div ? of_tensors : of_scalar)[mode]);
}

/* PowTensorScalar: exponents that have functions of their own. */
status prepare_power(executor *e, const op_arg *a) {
  const tensor *self = a[0].tensor;
  const scalar *exponent = a[1].scalar;
  const double y = scalar_real(exponent);
  EXPECT(dtype_is_float(self->dtype) || dtype_class_of(exponent->dtype) >= CLASS_FLOAT || y >= 0,
         "exponent is %g, expected 0 or more as self has dtype %s", y, dtype_name(self->dtype));
  int function = EW_pows;
  if (dtype_is_float(self->dtype))
    function = y == 2 ? EW_square : y == 0.5 ? EW_sqrt : y == -1 ? EW_reciprocal : EW_pows;
  return prepare_function(e, a, function);
}

/* Either bound may be absent. */
status prepare_clamp(executor *e, const op_arg *a) {
  const bool low = a[1].scalar, high = a[2].scalar;
  EXPECT(low || high, "%s and %s are null, expected one of them or both", e->op->schema[1].name, e->op->schema[2].name);
  return prepare_function(e, a, low && high ? EW_clamp : low ? EW_clamp_min : EW_clamp_max);
}

/* AddRelu: narrow integers would have to wrap before they are compared with 0. */
status prepare_add_relu(executor *e, const op_arg *a) {
  const uint64_t allowed = DTYPES_FLOAT | DTYPE_BIT(ACL_INT32) | DTYPE_BIT(ACL_INT64);
  TRY(op_expect_dtype(a[0].tensor, e->op->schema[0].name, allowed));
  TRY(op_expect_dtype(a[1].tensor, "other", allowed));
  return prepare_function(e, a, EW_add_relu);
}
