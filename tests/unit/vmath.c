/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of the vector math functions in ULP, at every level. By default the test samples floats evenly over their bit
 * patterns; `unit_vmath 1` tests all 2^32 (some hours with the C library's long double). */
#include <float.h>
#include <math.h>

#include "levels.h"
#include "unit.h"

enum { BATCH = REDUCE_BLOCK };

/* A prime, so that both low and high bits vary. */
static uint32_t stride = WITH_ASAN || WITH_TSAN ? 20011 : 2003; /* main raises it under an emulator */

/* ---- reference functions
 * ------------------------------------------------------------------------------------------ */

static const long double PI = 3.14159265358979323846264338327950288L;

static long double sigmoid(long double x) { return 1 / (1 + expl(-x)); }
static long double rsqrt_of(long double x) { return 1 / sqrtl(x); }
static long double gelu(long double x) { return isinf(x) && x < 0 ? -0.0L : x * (erfcl(-x * sqrtl(0.5L)) / 2); }
static long double gelu_tanh(long double x) {
  return isinf(x) ? (x < 0 ? -0.0L : x) : x * sigmoid(2 * sqrtl(2 / PI) * (x + 0.044715L * x * x * x));
}
static long double silu(long double x) { return isinf(x) && x < 0 ? -0.0L : x * sigmoid(x); }
static long double softplus(long double x) { return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x)); }
static long double log_sigmoid(long double x) { return -softplus(-x); }
static long double mish(long double x) { return isinf(x) && x < 0 ? -0.0L : x * tanhl(softplus(x)); }
static long double logit(long double x) {
  return x > 0.25L && x < 0.75L ? log1pl((2 * x - 1) / (1 - x)) : logl(x / (1 - x));
}
static long double sinc(long double x) {
  const long double turn = remainderl(x, 2), a = fabsl(turn);
  return x == 0 ? 1 : isinf(x) ? 0 : copysignl(sinl(PI * (a > 0.5L ? 1 - a : a)), turn) / (PI * x);
}
/* Solves erf(y) = x by Newton's method, starting from a value computed by the C library's double functions. */
static long double erfinv(long double x) {
  const long double a = fabsl(x);
  if (!(a < 1)) return a == 1 ? copysignl(INFINITY, x) : NAN;
  const long double w = sqrtl(-logl((1 - a) * (1 + a)));
  long double y = a < 0.7L ? a * 0.9L : w * 0.95L - 0.1L;
  for (int i = 0; i < 60; i++) {
    const long double error = a < 0.5L ? erfl(y) - a : (1 - a) - erfcl(y), slope = 2 / sqrtl(PI) * expl(-y * y);
    const long double step = error / slope / (1 + y * error / slope);
    y -= step;
    if (fabsl(step) < 1e-18L * y) break;
  }
  return copysignl(y, x);
}

/* Derivatives; where the intermediate squares exceed long double, their limits. */
static long double at_ends(long double x, long double low, long double slope, long double high) {
  return x < -12000 ? low : x > 12000 ? high : slope;
}
static long double gelu_slope(long double x) {
  return at_ends(x, -0.0L, erfcl(-x * sqrtl(0.5L)) / 2 + x * expl(-x * x / 2) / sqrtl(2 * PI), 1);
}
static long double gelu_tanh_slope(long double x) {
  const long double y = 2 * sqrtl(2 / PI) * (x + 0.044715L * x * x * x);
  const long double slope = 2 * sqrtl(2 / PI) * (1 + 3 * 0.044715L * x * x);
  return at_ends(x, -0.0L, sigmoid(y) * (1 + x * sigmoid(-y) * slope), 1);
}
static long double silu_slope(long double x) { return at_ends(x, -0.0L, sigmoid(x) * (1 + x * sigmoid(-x)), 1); }
static long double swish_slope(long double x) { return silu_slope(1.75L * x); }
static long double mish_slope(long double x) {
  const long double t = tanhl(softplus(x));
  return at_ends(x, -0.0L, t + x * (1 - t) * (1 + t) * sigmoid(x), 1);
}

/* Error bounds, as promised in vmath.h and not much larger than needed. every: the sample is thinned by this factor for
 * functions with a slow reference. operand: the index of the input that x is; the input before it is the factor by
 * which the reference is multiplied. root: a root near which terms cancel, or 0. */
static const struct {
  const char *name;
  int function;
  long double (*truth)(long double);
  double bound_ulp;
  int every;
  float parameter[2];
  int operand;
  float root;
} functions[] = {
    {"exp", EW_exp, expl, 1, 1, {0}, 0, 0},
    {"log", EW_log, logl, 1, 1, {0}, 0, 0},
    {"sigmoid", EW_sigmoid, sigmoid, 2, 1, {0}, 0, 0},
    {"tanh", EW_tanh, tanhl, 2, 1, {0}, 0, 0},
    {"gelu", EW_gelu, gelu, 2, 1, {0}, 0, 0},
    {"gelu_tanh", EW_gelu_tanh, gelu_tanh, 2, 1, {0}, 0, 0},
    {"silu", EW_silu, silu, 2, 1, {0}, 0, 0},
    {"rsqrt", EW_rsqrt, rsqrt_of, 0.501, 4, {0}, 0, 0},
    {"exp2", EW_exp2, exp2l, 0.501, 4, {0}, 0, 0},
    {"expm1", EW_expm1, expm1l, 0.501, 4, {0}, 0, 0},
    {"log2", EW_log2, log2l, 0.501, 4, {0}, 0, 0},
    {"log10", EW_log10, log10l, 0.501, 4, {0}, 0, 0},
    {"log1p", EW_log1p, log1pl, 0.501, 4, {0}, 0, 0},
    {"sin", EW_sin, sinl, 2, 1, {0}, 0, 0},
    {"cos", EW_cos, cosl, 2, 1, {0}, 0, 0},
    {"tan", EW_tan, tanl, 0.51, 4, {0}, 0, 0},
    {"asin", EW_asin, asinl, 0.51, 4, {0}, 0, 0},
    {"acos", EW_acos, acosl, 0.51, 4, {0}, 0, 0},
    {"atan", EW_atan, atanl, 0.51, 4, {0}, 0, 0},
    {"sinh", EW_sinh, sinhl, 0.51, 4, {0}, 0, 0},
    {"cosh", EW_cosh, coshl, 0.51, 4, {0}, 0, 0},
    {"asinh", EW_asinh, asinhl, 0.51, 4, {0}, 0, 0},
    {"acosh", EW_acosh, acoshl, 0.51, 4, {0}, 0, 0},
    {"atanh", EW_atanh, atanhl, 0.51, 4, {0}, 0, 0},
    {"sinc", EW_sinc, sinc, 0.51, 4, {0}, 0, 0},
    {"erf", EW_erf, erfl, 1.1, 4, {0}, 0, 0},
    {"erfc", EW_erfc, erfcl, 0.51, 8, {0}, 0, 0},
    {"erfinv", EW_erfinv, erfinv, 0.51, 8, {0}, 0, 0},
    {"mish", EW_mish, mish, 0.51, 8, {0}, 0, 0},
    {"softplus", EW_softplus, softplus, 0.51, 8, {1, INFINITY}, 0, 0},
    {"log_sigmoid", EW_log_sigmoid, log_sigmoid, 0.51, 8, {0}, 0, 0},
    {"logit", EW_logit, logit, 0.51, 8, {-1}, 0, 0.5f},
    {"glu", EW_glu, sigmoid, 2.5, 8, {0}, 1, 0},
    {"swiglu", EW_swiglu, silu, 2.5, 8, {0}, 1, 0},
    {"geglu", EW_geglu, gelu, 2.5, 8, {0}, 1, 0},
    {"geglu_tanh", EW_geglu_tanh, gelu_tanh, 2.5, 8, {0}, 1, 0},
    {"gelu_backward", EW_gelu_backward, gelu_slope, 2.3, 8, {0}, 1, -0.75179152f},
    {"gelu_tanh_backward", EW_gelu_tanh_backward, gelu_tanh_slope, 2.3, 8, {0}, 1, -0.75246142f},
    {"silu_backward", EW_silu_backward, silu_slope, 2.3, 8, {0}, 1, -1.27846454f},
    {"swish_backward", EW_swish_backward, swish_slope, 2, 8, {1.75f}, 1, -1.27846454f / 1.75f},
    {"mish_backward", EW_mish_backward, mish_slope, 2, 8, {0}, 1, -1.19243121f},
};

static float float_at(uint32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static double error_ulp(float got, long double truth) {
  if (isnan(truth)) return isnan(got) ? 0 : INFINITY;
  if (isinf(truth) || isinf(got)) {
    /* A reference that rounds to infinity permits infinity. */
    const bool large = fabsl(truth) >= FLT_MAX + 0x1p103l * 0.99l;
    return isinf(got) && large && !signbit(got) == !signbit(truth) ? 0 : INFINITY;
  }
  if (isnan(got)) return INFINITY;
  int exponent = truth != 0 ? ilogbl(truth) : -126;
  if (exponent < -126) exponent = -126;
  return (double)fabsl(ldexpl((long double)got - truth, 23 - exponent));
}

/* A factor that puts the product just below a power of 2, where a relative error is largest in ULP. */
static float worst_factor(long double truth) {
  int exponent;
  const long double mantissa = fabsl(frexpl(truth, &exponent));
  return mantissa >= 0.5L && mantissa < 1 ? (float)((1 - 0x1p-21l) / mantissa) : 1;
}

/* The bit pattern of the next sampled float: every stride-th one, and all of those around the root. */
static uint64_t next_sample(uint64_t bits, uint32_t step, float root) {
  enum { AROUND = 3000 };
  uint32_t place;
  memcpy(&place, &root, sizeof place);
  const uint64_t first = place - AROUND, next = bits + step;
  return root == 0 || next < first || bits > place + AROUND ? next : bits < first ? first : bits + 1;
}

static void errors_stay_within_their_bounds(void **state) {
  (void)state;
  const kernel_loops *level[MAX_LEVELS];
  const int n_levels = levels_here(level);
  static float x[BATCH], y[BATCH], factor[BATCH];
  static long double truth[BATCH];
  for (size_t f = 0; f < COUNT(functions); f++) {
    const compute_value parameter[ELEMENTWISE_PARAMETERS] = {{functions[f].parameter[0]}, {functions[f].parameter[1]}};
    const void *const inputs[ELEMENTWISE_INPUTS] = {functions[f].operand == 1 ? factor : x,
                                                    functions[f].operand == 1 ? x : NULL};
    const uint32_t step = stride * (uint32_t)functions[f].every;
    double worst[MAX_LEVELS] = {0};
    float worst_at[MAX_LEVELS] = {0};
    uint64_t n = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX;) {
      int count = 0;
      for (; count < BATCH && bits <= UINT32_MAX; bits = next_sample(bits, step, functions[f].root))
        x[count++] = float_at((uint32_t)bits);
      for (int i = 0; i < count; i++) {
        truth[i] = functions[f].truth((long double)x[i]);
        if (functions[f].operand == 1) truth[i] *= factor[i] = worst_factor(truth[i]);
      }
      for (int l = 0; l < n_levels; l++) {
        level[l]->elementwise[functions[f].function][COMPUTE_F32](y, (const void **)inputs, parameter, count);
        for (int i = 0; i < count; i++) {
          const double error = error_ulp(y[i], truth[i]);
          if (!(error <= worst[l])) {
            worst[l] = error;
            worst_at[l] = x[i];
          }
        }
      }
      n += (uint64_t)count;
    }
    for (int l = 0; l < n_levels; l++) {
      printf("%-18s %-9s %.7f ULP at %a, of %ju floats\n", functions[f].name, level[l]->name, worst[l],
             (double)worst_at[l], (uintmax_t)n);
    }
    for (int l = 0; l < n_levels; l++) assert_true(worst[l] <= functions[f].bound_ulp);
  }
}

/* Results that must be exact: limits and special values. */
static void special_values_are_exact(void **state) {
  (void)state;
  static const struct {
    int function;
    float x, y;
  } edges[] = {
      {EW_exp, 0, 1},
      {EW_exp, -0.0f, 1},
      {EW_exp, INFINITY, INFINITY},
      {EW_exp, FLT_MAX, INFINITY},
      {EW_exp, -INFINITY, 0},
      {EW_exp, -FLT_MAX, 0},
      {EW_exp, FLT_TRUE_MIN, 1},
      {EW_exp, NAN, NAN},
      {EW_log, 1, 0},
      {EW_log, 0, -INFINITY},
      {EW_log, -0.0f, -INFINITY},
      {EW_log, -1, NAN},
      {EW_log, -INFINITY, NAN},
      {EW_log, INFINITY, INFINITY},
      {EW_log, NAN, NAN},
      {EW_sin, 0, 0},
      {EW_sin, -0.0f, -0.0f},
      {EW_sin, FLT_TRUE_MIN, FLT_TRUE_MIN},
      {EW_sin, INFINITY, NAN},
      {EW_cos, 0, 1},
      {EW_cos, -INFINITY, NAN},
      {EW_tan, -0.0f, -0.0f},
      {EW_tan, NAN, NAN},
      {EW_sigmoid, 0, 0.5f},
      {EW_sigmoid, INFINITY, 1},
      {EW_sigmoid, 100, 1},
      {EW_sigmoid, -INFINITY, 0},
      {EW_sigmoid, -FLT_MAX, 0},
      {EW_sigmoid, NAN, NAN},
      {EW_tanh, 0, 0},
      {EW_tanh, -0.0f, -0.0f},
      {EW_tanh, INFINITY, 1},
      {EW_tanh, -INFINITY, -1},
      {EW_tanh, 20, 1},
      {EW_tanh, FLT_TRUE_MIN, FLT_TRUE_MIN},
      {EW_tanh, -FLT_TRUE_MIN, -FLT_TRUE_MIN},
      {EW_tanh, NAN, NAN},
      {EW_rsqrt, 1, 1},
      {EW_rsqrt, 4, 0.5f},
      {EW_rsqrt, 0, INFINITY},
      {EW_rsqrt, -0.0f, -INFINITY},
      {EW_rsqrt, INFINITY, 0},
      {EW_rsqrt, FLT_TRUE_MIN, 0x1.6a09e6p74f},
      {EW_rsqrt, -1, NAN},
      {EW_rsqrt, NAN, NAN},
  };
  const kernel_loops *level[MAX_LEVELS];
  const int n_levels = levels_here(level);
  for (int l = 0; l < n_levels; l++)
    for (size_t i = 0; i < COUNT(edges); i++) {
      /* in every lane of a vector, and in the remainder */
      float x[37], y[37];
      for (size_t k = 0; k < COUNT(x); k++) x[k] = edges[i].x;
      level[l]->elementwise[edges[i].function][COMPUTE_F32](y, (const void *[ELEMENTWISE_INPUTS]){x},
                                                            (compute_value[ELEMENTWISE_PARAMETERS]){{0}}, COUNT(x));
      for (size_t k = 0; k < COUNT(x); k++) {
        const bool right =
            isnan(edges[i].y) ? isnan(y[k]) : y[k] == edges[i].y && !signbit(y[k]) == !signbit(edges[i].y);
        if (!right)
          print_error("function %d of %a is %a at level %s, lane %zu\n", edges[i].function, (double)edges[i].x,
                      (double)y[k], level[l]->name, k);
        assert_true(right);
      }
    }
}

/* exp_sum_f32, which softmax uses: the sum equals sum_f32 of the stored values. */
static void exp_sum_equals_exp_then_sum(void **state) {
  (void)state;
  const kernel_loops *level[MAX_LEVELS];
  const int n_levels = levels_here(level);
  random_source random = {9};
  for (int l = 0; l < n_levels; l++)
    for (int64_t n = 0; n <= REDUCE_BLOCK; n += 1 + n / 8) {
      float x[REDUCE_BLOCK + 1] = {0}, y[REDUCE_BLOCK + 1];
      for (int64_t i = 0; i < n; i++) x[i] = (float)random_below(&random, 2000) / 64 - 20;
      y[n] = 77;
      const float sum = level[l]->exp_sum_f32(y, x, 3, n);
      for (int64_t i = 0; i < n; i++) assert_true(error_ulp(y[i], expl((long double)(x[i] - 3))) <= 1);
      assert_true(sum == level[l]->sum_f32(y, n));
      assert_true(y[n] == 77);
      assert_true(level[l]->exp_sum_f32(x, x, 3, n) == sum); /* in place */
    }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(errors_stay_within_their_bounds),
      cmocka_unit_test(special_values_are_exact),
      cmocka_unit_test(exp_sum_equals_exp_then_sum),
  };
  if (getenv("TEST_EMULATOR")) stride *= 16; /* which is slow */
  if (argc > 1 && atoi(argv[1]) > 0) stride = (uint32_t)atoi(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
