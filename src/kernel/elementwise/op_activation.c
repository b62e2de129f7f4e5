/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators whose arguments are more than operands and parameters: an argument chooses the function, or is
 * ignored. */
#include <math.h>
#include <string.h>

#include "kernel/elementwise/elementwise_call.h"
#include "kernel/families.h"

/* GeluV2(x, approximate, y): 0 is computed by the error function, 1 by tanh. GeluBackwardV2 has a string for it. */
status prepare_gelu_v2(executor *e, const gelu_v2_args *a) {
  elementwise_call c;
  elementwise_call_of(e->op, a->all, &c);
  if (c.n_inputs == 1) {
    const int64_t approximate = a->approximate_int;
    EXPECT(approximate == 0 || approximate == 1, "approximate is %jd, expected 0 (erf) or 1 (tanh)",
           (intmax_t)approximate);
    return elementwise_prepare(e, approximate ? EW_gelu_tanh : EW_gelu, &c);
  }
  const char *approximate = a->approximate_string ? a->approximate_string : "none";
  const bool is_tanh = strcmp(approximate, "tanh") == 0;
  EXPECT(is_tanh || strcmp(approximate, "none") == 0, "approximate is \"%.32s\", expected \"none\" or \"tanh\"",
         approximate);
  return elementwise_prepare(e, is_tanh ? EW_gelu_tanh_backward : EW_gelu_backward, &c);
}

static status expect_not_negative(const scalar *s, const char *name, const char *when) {
  const double value = scalar_real(s);
  EXPECT(!(value < 0), "%s is %g, expected 0 or more%s", name, value, when);
  return ST_OK;
}

static status check_limits(int function, const limited_args *a) {
  switch (function) {
  case EW_shrink:
  case EW_softshrink:
  case EW_shrink_backward: return expect_not_negative(a->lambd, a->name.lambd, "");
  case EW_elu_backward: return a->is_result ? expect_not_negative(a->alpha, "alpha", " as isResult is true") : ST_OK;
  case EW_leaky_relu_backward:
    return a->self_is_result ? expect_not_negative(a->negative_slope, "negativeSlope", " as selfIsResult is true")
                             : ST_OK;
  case EW_celu: {
    const double alpha = scalar_real(a->alpha);
    EXPECT(alpha < 0 || alpha > 0, "alpha is %g, expected a number that is not 0", alpha);
    return ST_OK;
  }
  default: {
    const double min = scalar_real(a->clip_value_min), max = scalar_real(a->clip_value_max);
    EXPECT(!(min > max), "clipValueMax is %g, expected clipValueMin, which is %g, or more", max, min);
    return ST_OK;
  }
  }
}

/* Operators that accept only part of the range of their scalars. */
status prepare_limited(executor *e, const limited_args *a) {
  elementwise_call c;
  TRY(check_limits(e->op->variant, a));
  elementwise_call_of(e->op, a->all, &c);
  return elementwise_prepare(e, e->op->variant, &c);
}

/* The argument `buffer`, the last or the one before, is neither read nor written. */
status prepare_log_sigmoid(executor *e, const log_sigmoid_args *a) {
  elementwise_call c;
  elementwise_call_of(e->op, a->all, &c);
  if (e->op->variant == EW_log_sigmoid) {
    c.out = a->out;
    c.out_name = "out";
    c.operand[0] = LOG_SIGMOID_OUT;
  } else {
    c.n_inputs = 2;
  }
  return elementwise_prepare(e, e->op->variant, &c);
}

/* Rounds to `decimals` decimal places, negative ones to tens, hundreds, ... Integers have no decimal places; rounded to
 * a power of 10 beyond their type they are 0. */
status prepare_round_decimals(executor *e, const round_decimals_args *a) {
  const int64_t decimals = a->decimals;
  const int dtype = a->self->dtype;
  elementwise_call c;
  elementwise_call_of(e->op, a->all, &c);
  EXPECT(decimals == 0 || dtype_is_float(dtype) || dtype_is_integer(dtype), "decimals is %jd, expected 0 for dtype %s",
         (intmax_t)decimals, dtype_name(dtype));
  if (decimals == 0 || (decimals > 0 && dtype_is_integer(dtype))) return elementwise_prepare(e, EW_round, &c);
  if (dtype_is_integer(dtype)) {
    const int64_t most = compute_type_of(dtype) == COMPUTE_I64 ? 18 : 9;
    c.n_parameters = 1;
    c.parameter[0] = (elementwise_parameter){.number = decimals < -most ? 0 : pow(10, -(double)decimals)};
    return elementwise_prepare(e, EW_round_integers, &c);
  }
  c.n_parameters = 2;
  c.parameter[0] = (elementwise_parameter){.number = pow(10, fabs((double)decimals))};
  c.parameter[1] = (elementwise_parameter){.number = decimals < 0};
  return elementwise_prepare(e, EW_round_decimals, &c);
}

/* For BOOL, logical not. */
status prepare_bitwise_not(executor *e, const bitwise_not_args *a) {
  elementwise_call c;
  elementwise_call_of(e->op, a->all, &c);
  return elementwise_prepare(e, a->self->dtype == ACL_BOOL ? EW_logical_not : EW_bitwise_not, &c);
}
