/* Elementwise operators whose arguments are not just operands and parameters: those that choose a function by an
 * argument, or leave one aside. */
#include <math.h>
#include <string.h>

#include "kernel/elementwise/elementwise_call.h"
#include "kernel/families.h"

/* GeluV2(x, approximate, y): 0 is the error function's, 1 tanh's. GeluBackwardV2 says it in words. */
status prepare_gelu_v2(executor *e, const op_arg *a) {
  elementwise_call c;
  elementwise_call_of(e->op, a, &c);
  if (c.n_inputs == 1) {
    const int64_t approximate = a[1].integer;
    EXPECT(approximate == 0 || approximate == 1, "approximate is %jd, expected 0 (erf) or 1 (tanh)",
           (intmax_t)approximate);
    return elementwise_prepare(e, approximate ? EW_gelu_tanh : EW_gelu, &c);
  }
  const char *approximate = a[2].string ? a[2].string : "none";
  const bool is_tanh = strcmp(approximate, "tanh") == 0;
  EXPECT(is_tanh || strcmp(approximate, "none") == 0, "approximate is \"%.32s\", expected \"none\" or \"tanh\"",
         approximate);
  return elementwise_prepare(e, is_tanh ? EW_gelu_tanh_backward : EW_gelu_backward, &c);
}

/* The threshold, before the last, may not be negative. */
status prepare_softshrink(executor *e, const op_arg *a) {
  const int at = e->op->n_args - 2;
  const double threshold = scalar_real(a[at].scalar);
  elementwise_call c;
  EXPECT(threshold >= 0, "%s is %g, expected 0 or more", e->op->schema[at].name, threshold);
  elementwise_call_of(e->op, a, &c);
  return elementwise_prepare(e, e->op->variant, &c);
}

/* The buffer, last or before the last, is neither read nor written. */
status prepare_log_sigmoid(executor *e, const op_arg *a) {
  elementwise_call c;
  elementwise_call_of(e->op, a, &c);
  if (e->op->variant == EW_log_sigmoid) {
    c.out = a[1].tensor;
    c.out_name = e->op->schema[1].name;
    c.operand[0] = 1;
  } else {
    c.n_inputs = 2;
  }
  return elementwise_prepare(e, e->op->variant, &c);
}

/* To so many decimals; below 0 to tens, hundreds. */
status prepare_round_decimals(executor *e, const op_arg *a) {
  const int64_t decimals = a[1].integer;
  elementwise_call c;
  elementwise_call_of(e->op, a, &c);
  EXPECT(decimals == 0 || dtype_is_float(a[0].tensor->dtype), "decimals is %jd, expected 0 for dtype %s",
         (intmax_t)decimals, dtype_name(a[0].tensor->dtype));
  if (decimals == 0) return elementwise_prepare(e, EW_round, &c);
  c.n_parameters = 2;
  c.parameter[0] = (elementwise_parameter){.number = pow(10, fabs((double)decimals))};
  c.parameter[1] = (elementwise_parameter){.number = decimals < 0};
  return elementwise_prepare(e, EW_round_decimals, &c);
}

/* Of a bool: its opposite. */
status prepare_bitwise_not(executor *e, const op_arg *a) {
  elementwise_call c;
  elementwise_call_of(e->op, a, &c);
  return elementwise_prepare(e, a[0].tensor->dtype == ACL_BOOL ? EW_logical_not : EW_bitwise_not, &c);
}
