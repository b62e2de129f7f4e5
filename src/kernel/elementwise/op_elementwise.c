/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators: promotion and checks of dtypes, checks of shapes, and plans. The functions are in
 * elementwise.def. */
#include <math.h>
#include <string.h>

#include "kernel/elementwise/complex.h"
#include "kernel/elementwise/elementwise_call.h"
#include "kernel/elementwise/fill.h"
#include "kernel/engine/loops.h"
#include "kernel/families.h"
#include "runtime/parallel.h"

/* The traits of elementwise functions, a bit each (elementwise_traits.def). */
enum {
#define TRAIT(name) INDEX_OF_##name,
#include "kernel/engine/elementwise_traits.def"
#undef TRAIT
  N_TRAITS
};
enum {
#define TRAIT(name) name = 1 << INDEX_OF_##name,
#include "kernel/engine/elementwise_traits.def"
#undef TRAIT
};
_Static_assert(N_TRAITS <= 16, "traits fit the type of their table");

static const struct {
  uint16_t bits;
} traits[N_EW] = {
#define EACH_ALL(n, name, expression)
#define EACH_FLOAT(n, name, expression)
#define EACH_INTEGER(n, name, expression)
#define EACH_TRAITS(name, ...) [EW_##name] = {__VA_ARGS__}, /* {}: the line names no traits */
#include "kernel/engine/elementwise_each.inc"
};

typedef struct {
  elementwise_plan plan;
  int8_t operand[1 + ELEMENTWISE_INPUTS];
} elementwise_op_plan;

static void add_parameter(elementwise_call *c, const char *name, const scalar *s, double number) {
  c->parameter[c->n_parameters++] = (elementwise_parameter){name, s, number};
}

void elementwise_call_of(const op *o, const op_arg *a, elementwise_call *c) {
  int operand = 0;
  *c = (elementwise_call){0};
  for (int i = 0; i < o->n_args; ++i) {
    const arg_schema *s = &o->schema[i];
    switch (s->kind) {
    case ARG_SCALAR: add_parameter(c, s->name, a[i].scalar, 1); continue;
    case ARG_FLOAT: add_parameter(c, s->name, NULL, a[i].real); continue;
    case ARG_INT: add_parameter(c, s->name, NULL, (double)a[i].integer); continue;
    case ARG_BOOL: add_parameter(c, s->name, NULL, a[i].boolean); continue;
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

/* The dtypes of tensors that are numbers. */
static uint64_t real_dtypes(const elementwise_call *g) { return g->of_uint16 ? DTYPE_BIT(ACL_UINT16) : DTYPES_REAL; }

/* Sets *common to the promoted dtype of the tensors, and checks their dtypes. */
static status promote_tensors(const elementwise_call *g, int function, int *common) {
  const uint16_t t = traits[function].bits;
  *common = ACL_DT_UNDEFINED;
  for (int k = 0; k < g->n_inputs; ++k) {
    const bool condition = t & CONDITION_FIRST ? k == 0 : t & MASK_SECOND && k == 1;
    const uint64_t allowed = condition ? DTYPE_BIT(ACL_BOOL) | DTYPE_BIT(ACL_UINT8) : real_dtypes(g);
    TRY(op_expect_dtype(g->in[k], g->in_name[k],
                        allowed & (k && t & SAME_DTYPE ? DTYPE_BIT(g->in[0]->dtype) : allowed)));
    if (condition || (t & MASK_SECOND && k > 1)) continue;
    *common = *common == ACL_DT_UNDEFINED ? g->in[k]->dtype : dtype_promote(*common, g->in[k]->dtype);
  }
  return ST_OK;
}

/* Whether an integer scalar widens the computation of integers. It does only where that can be observed: the output's
 * dtype differs, or the scalar does not fit 32 bits. Elsewhere it would only cost time. */
static bool scalar_widens(const elementwise_call *g, int function, int common) {
  const scalar *s = g->parameter[0].scalar;
  if (!(traits[function].bits & SCALAR_WIDENS) || !dtype_is_integer(common) || !dtype_is_integer(s->dtype))
    return false;
  return s->integer != (int32_t)s->integer || (!(traits[function].bits & BOOL_RESULT) && g->out->dtype != common);
}

/* A scalar takes part in the promotion only if its kind is higher: a float makes FLOAT, an integer INT64. Bounds of
 * integers whose result is stored as integer are truncated instead. */
static void promote_scalars(const elementwise_call *g, int function, int *common) {
  const bool are_bounds = traits[function].bits & SCALARS_TYPED;
  const int n = are_bounds ? g->n_parameters : traits[function].bits & SCALAR_TYPED ? 1 : 0;
  if (are_bounds && dtype_is_integer(*common) && dtype_is_integer(g->out->dtype)) return;
  for (int k = 0; k < n; ++k) {
    const dtype_class of_scalar = dtype_class_of(g->parameter[k].scalar->dtype);
    if (of_scalar > dtype_class_of(*common)) *common = of_scalar == CLASS_FLOAT ? ACL_FLOAT : ACL_INT64;
  }
  if (scalar_widens(g, function, *common)) *common = dtype_promote(*common, g->parameter[0].scalar->dtype);
}

static status expect_factor(const elementwise_call *g, int common) {
  int k = g->n_parameters - 1;
  while (k >= 0 && !g->parameter[k].scalar) --k;
  if (k < 0 || dtype_class_of(common) >= CLASS_FLOAT) return ST_OK;
  const elementwise_parameter *p = &g->parameter[k];
  EXPECT(dtype_class_of(p->scalar->dtype) < CLASS_FLOAT, "%s is %s, expected an integer as what it multiplies is %s",
         p->name, dtype_name(p->scalar->dtype), dtype_name(common));
  return ST_OK;
}

/* Functions of integers that CANN computes in double rather than float. */
static bool is_of_doubles(int function, int common, const tensor *out) {
  switch (function) {
  case EW_sqrt: return common == ACL_INT64;
  case EW_rsqrt:
  case EW_sigmoid:
  case EW_log1p:
  case EW_sinh: return out->dtype == ACL_DOUBLE;
  default: return false;
  }
}

/* The name of the argument that makes the call one of floats, for messages. */
static const char *name_of_float(const elementwise_call *g) {
  for (int k = 0; k < g->n_inputs; ++k)
    if (dtype_is_float(g->in[k]->dtype)) return g->in_name[k];
  return g->parameter[0].name;
}

status elementwise_check_dtypes(const elementwise_call *g, int function, int *result) {
  const uint16_t t = traits[function].bits;
  elementwise_loop *const *loop = loops->elementwise[function];
  int common;
  TRY(promote_tensors(g, function, &common));
  promote_scalars(g, function, &common);
  if (t & FACTOR_LAST) TRY(expect_factor(g, common));
  if (t & NO_BOOL && common == ACL_BOOL) return OP_FAIL("%s has dtype BOOL, expected a number", g->in_name[0]);
  const bool bool_to_float = t & BOOL_TO_FLOAT && common == ACL_BOOL;
  /* the dtype that decides which outputs can be stored */
  int stored = t & TO_INTEGER || bool_to_float ? common : ACL_DT_UNDEFINED;
  /* Integers are converted to float for functions without an integer loop; to double where a truth value depends on the
   * last bit. */
  if (bool_to_float || (!loop[COMPUTE_I32] && dtype_class_of(common) != CLASS_FLOAT))
    common = t & BOOL_RESULT || is_of_doubles(function, common, g->out) ? ACL_DOUBLE : ACL_FLOAT;
  if (stored == ACL_DT_UNDEFINED) stored = common;
  if (t & INPLACE_TO_INTEGER && g->operand[0] == g->operand[1]) stored = g->out->dtype;
  if (!loop[compute_type_of(common)])
    return OP_FAIL("%s has dtype %s, expected an integer or BOOL", name_of_float(g), dtype_name(common));
  TRY(op_expect_dtype(g->out, g->out_name, real_dtypes(g) | DTYPES_COMPLEX_ANY));
  if (!(t & BOOL_RESULT) && !dtype_can_cast(stored, g->out->dtype))
    return OP_FAIL("%s has dtype %s, expected another: the result's %s can't be cast to the desired output type",
                   g->out_name, dtype_name(g->out->dtype), dtype_name(stored));
  *result = common;
  return ST_OK;
}

/* Checks that the inputs broadcast to exactly the output's shape. */
static status elementwise_check_shapes(const elementwise_call *g, int function) {
  int64_t dims[MAX_RANK];
  int rank = 0;
  if (traits[function].bits & SAME_SHAPES) TRY(op_expect_same_shape(g->in[1], g->in_name[1], g->in[0]));
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
      return OP_FAIL("%s has shape %s, expected one that broadcasts with %s of shape %s", g->in_name[k], SHAPE_OF(t),
                     g->in_name[0], SHAPE_OF(g->in[0]));
    }
  }
  return op_expect_shape(g->out, g->out_name, dims, rank);
}

static int32_t saturated(int64_t x) { return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (int32_t)x; }

compute_value elementwise_value(const elementwise_parameter *p, compute_type compute) {
  const double real = p->scalar ? scalar_real(p->scalar) : p->number;
  const bool is_float = !p->scalar || dtype_class_of(p->scalar->dtype) >= CLASS_FLOAT;
  const int64_t integer = p->scalar ? scalar_integer(p->scalar) : fabs(real) < 0x1p63 ? (int64_t)real : 0;
  switch (compute) {
  case COMPUTE_F32: return (compute_value){.f32 = (float)real};
  case COMPUTE_F64: return (compute_value){.f64 = real};
  case COMPUTE_I32: return (compute_value){.i32 = is_float ? saturated(integer) : (int32_t)integer};
  default: return (compute_value){.i64 = integer};
  }
}

double elementwise_stored(double x, int dtype) {
  _Alignas(double) char stored[sizeof(double)];
  loops->store[dtype][COMPUTE_F64](stored, 0, &x, 1);
  loops->load[dtype][COMPUTE_F64](&x, stored, 0, 1);
  return x;
}

/* Plans the common case, operands of one shape without gaps, as one loop without looking at dimensions. Returns whether
 * it applies. */
static bool plan_contiguous(elementwise_plan *p, const elementwise_call *g, int function, compute_type compute) {
  static const int native[N_COMPUTE] = {ACL_FLOAT, ACL_DOUBLE, ACL_INT32, ACL_INT64};
  bool linear = g->out->dtype == native[compute];
  if (!g->out->contiguous || dtype_is_complex(g->out->dtype)) return false;
  for (int k = 0; k < g->n_inputs; ++k) {
    if (!g->in[k]->contiguous || !tensor_same_dims(g->in[k], g->out)) return false;
    linear &= g->in[k]->dtype == native[compute];
  }
  p->function = (int16_t)function;
  p->compute = (uint8_t)compute;
  p->n_inputs = (uint8_t)g->n_inputs;
  p->rank = 1;
  p->linear = linear;
  p->dense = 0; /* a single row needs no flags */
  p->narrow = p->rounds = -1;
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
  view_init(&views[0], g->out);
  views[0].dtype = dtype_part(g->out->dtype);
  for (int k = 0; k < g->n_inputs; ++k) {
    view_init(&views[k + 1], g->in[k]);
    in[k] = &views[k + 1];
  }
  elementwise_plan_init(p, function, compute, &views[0], in, g->n_inputs);
}

/* Sets the dtypes that narrow operands and results pass through although they are computed in a wider type: integers
 * beside 16-bit floats are rounded to such floats, and results of a narrow dtype are rounded to it before they are
 * stored in a wider output. */
static void plan_dtypes_between(elementwise_plan *p, const elementwise_call *g, int dtype) {
  if (dtype_bytes(dtype) >= (p->compute == COMPUTE_I64 ? 8 : 4)) return;
  for (int k = 0; k < g->n_inputs; ++k)
    if (dtype_is_float(dtype) && dtype_is_integer(g->in[k]->dtype)) p->rounds = (int8_t)dtype;
  if (traits[p->function].bits & BOOL_RESULT || p->function == EW_copy || dtype == g->out->dtype) return;
  p->narrow = (int8_t)dtype;
  p->linear = false;
}

/* The sign of a 16-bit float is a bit, so negation needs no conversion; two contiguous ones are processed as a 32-bit
 * word. */
static void negate_bits(elementwise_plan *p) {
  p->function = EW_bitwise_xors;
  p->compute = COMPUTE_I32;
  p->parameter[0] = (compute_value){.i32 = 0x8000};
  for (int k = 0; k < 2; ++k) p->dtype[k] = ACL_UINT16;
  if (p->rank > 1 || p->strides[0][0] != 2 || p->strides[1][0] != 2 || p->n % 2) return;
  p->parameter[0] = (compute_value){.i32 = (int32_t)0x80008000};
  p->n = p->dims[0] = p->n / 2;
  for (int k = 0; k < 2; ++k) p->dtype[k] = ACL_INT32, p->strides[k][0] = 4;
  p->linear = true;
}

static status elementwise_op_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const elementwise_op_plan *p = PLAN(e, const elementwise_op_plan);
  void *at[1 + ELEMENTWISE_INPUTS];
  for (int k = 0; k <= p->plan.n_inputs; ++k) at[k] = view[p->operand[k]];
  elementwise_run(&p->plan, at, e->cost_ns);
  return ST_OK;
}

const elementwise_plan *elementwise_plan_of(const executor *e, const int8_t **operand) {
  if (e->run != elementwise_op_run) return NULL;
  const elementwise_op_plan *p = PLAN(e, const elementwise_op_plan);
  *operand = p->operand;
  return &p->plan;
}

/* ---- complex numbers --------------------------------------------------------------------------------------------- */

/* The name of an argument that is complex, or NULL. */
static const char *complex_argument(const elementwise_call *g) {
  for (int k = 0; k < g->n_inputs; ++k)
    if (dtype_is_complex(g->in[k]->dtype)) return g->in_name[k];
  for (int k = 0; k < g->n_parameters; ++k)
    if (g->parameter[k].scalar && dtype_is_complex(g->parameter[k].scalar->dtype)) return g->parameter[k].name;
  return NULL;
}

static bool is_real_number(const elementwise_parameter *p) {
  return !p->scalar || !dtype_is_complex(p->scalar->dtype) || p->scalar->imaginary == 0;
}

static bool is_of_one_dtype(const elementwise_call *g) {
  for (int k = 0; k < g->n_inputs; ++k)
    if (g->in[k]->dtype != g->out->dtype) return false;
  return true;
}

/* Whether the function does the same to real and imaginary parts, in their own type. A sum with an alpha other than 1
 * does not: the second term would be rounded twice. */
static bool goes_by_parts(int function, const elementwise_call *g) {
  const elementwise_parameter *p = &g->parameter[0];
  if (!is_of_one_dtype(g)) return false;
  switch (function) {
  case EW_copy:
  case EW_neg: return true;
  case EW_muls:
  case EW_divs: return is_real_number(p);
  case EW_add:
  case EW_sub:
  case EW_rsub: return is_real_number(p) && (p->scalar ? scalar_real(p->scalar) : p->number) == 1;
  default: return false;
  }
}

/* Plans the function on the given views of the output (views[0]) and the inputs instead of the tensors themselves. */
static void elementwise_plan_views(executor *e, int function, const elementwise_call *g, const view *views) {
  elementwise_op_plan *p = PLAN(e, elementwise_op_plan);
  const view *in[ELEMENTWISE_INPUTS];
  uint64_t bytes = 0;
  for (int k = 0; k <= g->n_inputs; ++k) {
    if (k) in[k - 1] = &views[k];
    p->operand[k] = g->operand[k];
    bytes += e->operands[g->operand[k]].extent_bytes;
  }
  const compute_type compute = compute_type_of(views[0].dtype);
  elementwise_plan_init(&p->plan, function, compute, &views[0], in, g->n_inputs);
  for (int k = 0; k < g->n_parameters; ++k) p->plan.parameter[k] = elementwise_value(&g->parameter[k], compute);
  executor_cost(e, bytes, 0);
  e->run = elementwise_op_run;
}

/* Plans a real function of the parts: the tensors get a last dimension of size 2, real and imaginary part. */
static void plan_parts(executor *e, int function, const elementwise_call *g) {
  view views[1 + ELEMENTWISE_INPUTS];
  for (int k = 0; k <= g->n_inputs; ++k) {
    const view v = view_of(k ? g->in[k - 1] : g->out);
    views[k] = view_real_parts(&v);
    if (k) views[k] = view_broadcast(&views[k], views[0].dims, g->out->rank);
  }
  for (int k = 0; k <= g->n_inputs; ++k) {
    views[k].dims[views[k].rank] = 2;
    views[k].strides[views[k].rank++] = dtype_part_bytes(g->out->dtype);
  }
  elementwise_plan_views(e, function, g, views);
}

/* Plans products of interleaved complex numbers, if that is possible. complex128 requires that the numbers of a row are
 * contiguous; other layouts return false. */
static bool plan_product(executor *e, const elementwise_call *g) {
  if (!is_of_one_dtype(g)) return false;
  if (g->out->dtype == ACL_COMPLEX64) {
    view views[1 + ELEMENTWISE_INPUTS];
    for (int k = 0; k <= g->n_inputs; ++k) {
      views[k] = view_of(k ? g->in[k - 1] : g->out);
      views[k].dtype = ACL_INT64;
    }
    elementwise_plan_views(e, EW_product_of_complex64, g, views);
    return true;
  }
  if (g->out->dtype != ACL_COMPLEX128) return false;
  plan_parts(e, EW_product_of_complex128, g);
  const elementwise_plan *p = &PLAN(e, elementwise_op_plan)->plan;
  return p->n <= 2 || p->dims[p->rank - 1] > 2;
}

/* Plans a function with complex arguments. The result is complex, or a truth value, which any dtype can store, or a
 * magnitude or an angle, which are real. `name` is that of a complex argument. */
static status prepare_of_complex(executor *e, int function, const elementwise_call *g, const char *name) {
  const bool truth = traits[function].bits & BOOL_RESULT, magnitude = function == EW_abs || function == EW_angle;
  EXPECT(complex_functions->of[function], "%s is complex, expected a real number", name);
  for (int k = 0; k < g->n_inputs; ++k) TRY(op_expect_dtype(g->in[k], g->in_name[k], DTYPES_REAL | DTYPES_COMPLEX_ANY));
  TRY(op_expect_dtype(g->out, g->out_name, magnitude ? DTYPES_FLOAT : DTYPES_COMPLEX_ANY | (truth ? DTYPES_REAL : 0)));
  TRY(elementwise_check_shapes(g, function));
  if (goes_by_parts(function, g)) {
    plan_parts(e, function, g);
    return ST_OK;
  }
  return function == EW_mul && plan_product(e, g) ? ST_OK : complex_prepare(e, function, g);
}

/* Runs a real function with a complex output: stores the real parts, and zeros as imaginary parts. */
static status run_into_complex(const executor *e, void *const *at, void *scratch) {
  const elementwise_plan *p = &PLAN(e, const elementwise_op_plan)->plan;
  view imaginary = {.rank = p->rank, .dtype = p->dtype[0]};
  fill_plan zeros;
  memcpy(imaginary.dims, p->dims, sizeof p->dims[0] * p->rank);
  memcpy(imaginary.strides, p->strides[0], sizeof p->dims[0] * p->rank);
  fill_plan_init(&zeros, &imaginary, NULL);
  TRY(elementwise_op_run(e, at, scratch));
  fill_run(&zeros, (char *)at[PLAN(e, const elementwise_op_plan)->operand[0]] + dtype_bytes(p->dtype[0]), e->cost_ns);
  return ST_OK;
}

/* ---- the operators ----------------------------------------------------------------------------------------------- */

status elementwise_prepare(executor *e, int function, const elementwise_call *g) {
  const char *complex = complex_argument(g);
  int dtype;
  if (unlikely(complex)) return prepare_of_complex(e, function, g, complex);
  TRY(elementwise_check_dtypes(g, function, &dtype));
  TRY(elementwise_check_shapes(g, function));
  const compute_type compute = compute_type_of(dtype);
  elementwise_op_plan *p = PLAN(e, elementwise_op_plan);
  if (!plan_contiguous(&p->plan, g, function, compute)) plan_any(&p->plan, g, function, compute);
  for (int k = 0; k < g->n_parameters; ++k) p->plan.parameter[k] = elementwise_value(&g->parameter[k], compute);
  if (traits[function].bits & SCALAR_STORED && compute == COMPUTE_F32 && dtype_bytes(dtype) == 2)
    p->plan.parameter[0].f32 = (float)elementwise_stored(scalar_real(g->parameter[0].scalar), dtype);
  plan_dtypes_between(&p->plan, g, dtype);
  if (function == EW_neg && dtype_bytes(dtype) == 2 && compute == COMPUTE_F32 && dtype == g->out->dtype)
    negate_bits(&p->plan);
  uint64_t bytes = 0;
  for (int k = 0; k <= g->n_inputs; ++k) {
    p->operand[k] = g->operand[k];
    bytes += e->operands[g->operand[k]].extent_bytes;
  }
  executor_cost(e, bytes, traits[function].bits & SLOW ? (uint64_t)g->out->n * 64 : 0);
  e->run = dtype_is_complex(g->out->dtype) ? run_into_complex : elementwise_op_run;
  return ST_OK;
}

status prepare_elementwise(executor *e, const op_arg *a) {
  elementwise_call g;
  elementwise_call_of(e->op, a, &g);
  return elementwise_prepare(e, e->op->variant, &g);
}
