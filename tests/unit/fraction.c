/* SPDX-License-Identifier: Apache-2.0 */
/* The fraction that was meant by a float. */
#include "base/fraction.h"

#include <float.h>
#include <math.h>

#include "unit.h"

static void expect_meant(double fraction) {
  assert_true(fraction_meant((double)(float)fraction) == fraction); /* the same bits */
}

static void fractions_come_back_from_their_floats(void **state) {
  (void)state;
  expect_meant(1.7);
  expect_meant(1 / 3.0);
  expect_meant(1 / 480.0);
  expect_meant(1 / 9999.0);
  expect_meant(0.001);
  expect_meant(1234.25);
  for (int p = 1; p < 60; ++p)
    for (int q = 1; q < 60; ++q) expect_meant((double)p / (double)q);
}

static void other_numbers_stay(void **state) {
  (void)state;
  const double same[] = {0, -1.5, 1.7, M_PI, INFINITY, FLT_MIN / 2, FLT_MAX, 1e300, 0x1p24 + 2};
  for (size_t i = 0; i < sizeof same / sizeof *same; ++i) assert_true(fraction_meant(same[i]) == same[i]);
  assert_true(isnan(fraction_meant(NAN)));
}

/* Whatever the float, the result is a double of which it is the nearest float. */
static void the_result_rounds_to_the_float(void **state) {
  (void)state;
  uint32_t bits = 12345;
  for (int i = 0; i < 100000; ++i) {
    float x;
    bits = bits * 1664525U + 1013904223U;
    const uint32_t positive = bits & 0x7fffffffU;
    memcpy(&x, &positive, sizeof x);
    if (isfinite(x)) assert_true((float)fraction_meant((double)x) == x);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fractions_come_back_from_their_floats),
      cmocka_unit_test(other_numbers_stay),
      cmocka_unit_test(the_result_rounds_to_the_float),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
