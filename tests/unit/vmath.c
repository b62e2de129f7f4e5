/* How far the vector functions are from the truth, in ULP, at every level. By default a sample of all floats, evenly
 * spread over their bit patterns; `unit_vmath 1` takes each of the 2^32 (some hours with the C library's long double). */
#include <float.h>
#include <math.h>

#include "levels.h"
#include "unit.h"

enum { BATCH = REDUCE_BLOCK };

/* A prime, so that low and high bits vary. */
static uint32_t stride = WITH_ASAN || WITH_TSAN ? 20011 : 2003;

static long double sigmoid(long double x) { return 1 / (1 + expl(-x)); }
static long double rsqrt_of(long double x) { return 1 / sqrtl(x); }

/* Bounds: half a ULP, and what the double result inside may be off: see vmath.h. */
static const struct {
  const char *name;
  int function;
  long double (*truth)(long double);
  double bound_ulp;
} functions[] = {
    {"exp", EW_exp, expl, 0.501},   {"log", EW_log, logl, 0.502},         {"sigmoid", EW_sigmoid, sigmoid, 0.501},
    {"tanh", EW_tanh, tanhl, 0.52}, {"rsqrt", EW_rsqrt, rsqrt_of, 0.501},
};

static float float_at(uint32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static double error_ulp(float got, long double truth) {
  if (isnan(truth)) return isnan(got) ? 0 : INFINITY;
  if (isinf(truth) || isinf(got)) {
    /* What rounds to infinity may be it. */
    const bool large = fabsl(truth) >= FLT_MAX + 0x1p103l * 0.99l;
    return isinf(got) && large && !signbit(got) == !signbit(truth) ? 0 : INFINITY;
  }
  if (isnan(got)) return INFINITY;
  int exponent = truth != 0 ? ilogbl(truth) : -126;
  if (exponent < -126) exponent = -126;
  return (double)fabsl(ldexpl((long double)got - truth, 23 - exponent));
}

static void errors_stay_within_their_bounds(void **state) {
  (void)state;
  const kernel_loops *level[MAX_LEVELS];
  const int n_levels = levels_here(level);
  static float x[BATCH], y[BATCH];
  static long double truth[BATCH];
  for (size_t f = 0; f < COUNT(functions); f++) {
    double worst[MAX_LEVELS] = {0};
    float worst_at[MAX_LEVELS] = {0};
    uint64_t n = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX;) {
      int count = 0;
      for (; count < BATCH && bits <= UINT32_MAX; bits += stride) x[count++] = float_at((uint32_t)bits);
      for (int i = 0; i < count; i++) truth[i] = functions[f].truth((long double)x[i]);
      for (int l = 0; l < n_levels; l++) {
        level[l]->elementwise[functions[f].function][COMPUTE_F32](y, (const void *[ELEMENTWISE_INPUTS]){x},
                                                                  (compute_value[ELEMENTWISE_PARAMETERS]){{0}}, count);
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
      printf("%-8s %-9s %.7f ULP at %a, of %ju floats\n", functions[f].name, level[l]->name, worst[l],
             (double)worst_at[l], (uintmax_t)n);
      assert_true(worst[l] <= functions[f].bound_ulp);
    }
  }
}

/* What is exact: the ends, and beyond them. */
static void edges_are_exact(void **state) {
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
      /* In every lane of a vector, and in what is left over. */
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

/* exp of what softmax passes: its sum is that of the stored values, by sum_f32. */
static void exp_sum_is_exp_and_sum(void **state) {
  (void)state;
  const kernel_loops *level[MAX_LEVELS];
  const int n_levels = levels_here(level);
  random_source random = {9};
  for (int l = 0; l < n_levels; l++)
    for (int64_t n = 0; n <= REDUCE_BLOCK; n += 1 + n / 8) {
      float x[REDUCE_BLOCK + 1], y[REDUCE_BLOCK + 1];
      for (int64_t i = 0; i < n; i++) x[i] = (float)random_below(&random, 2000) / 64 - 20;
      y[n] = 77;
      const float sum = level[l]->exp_sum_f32(y, x, 3, n);
      for (int64_t i = 0; i < n; i++) assert_true(error_ulp(y[i], expl((long double)(x[i] - 3))) <= 0.501);
      assert_true(sum == level[l]->sum_f32(y, n));
      assert_true(y[n] == 77);
      assert_true(level[l]->exp_sum_f32(x, x, 3, n) == sum); /* in place */
    }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(errors_stay_within_their_bounds),
      cmocka_unit_test(edges_are_exact),
      cmocka_unit_test(exp_sum_is_exp_and_sum),
  };
  if (argc > 1 && atoi(argv[1]) > 0) stride = (uint32_t)atoi(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
