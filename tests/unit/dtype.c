/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions of half-precision types, tested exhaustively, and the tables of type promotion and casts. */
#include "tensor/dtype.h"

#include <float.h>
#include <math.h>

#include "unit.h"

/* ---- the formats by their definition ---- */

typedef struct {
  int exponent_bits, mantissa_bits;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
} format;

static const format half = {5, 10, half_to_float, half_from_float}, bf16 = {8, 7, bf16_to_float, bf16_from_float};

static unsigned infinity_of(const format *f) { return ((1u << f->exponent_bits) - 1) << f->mantissa_bits; }

/* The value of a finite, non-negative bit pattern. The pattern of infinity gives the value that would follow the
 * largest finite one. Exact. */
static double value_of(const format *f, unsigned bits) {
  const int bias = (1 << (f->exponent_bits - 1)) - 1, exponent = (int)(bits >> f->mantissa_bits);
  const unsigned mantissa = bits & ((1u << f->mantissa_bits) - 1);
  if (!exponent) return ldexp(mantissa, 1 - bias - f->mantissa_bits);
  return ldexp(mantissa | 1u << f->mantissa_bits, exponent - bias - f->mantissa_bits);
}

static void check_every_pattern(const format *f) {
  const unsigned infinity = infinity_of(f);
  for (unsigned bits = 0; bits < 0x10000; bits++) {
    const unsigned magnitude = bits & 0x7fff;
    const float got = f->widen((uint16_t)bits);
    assert_int_equal(!!signbit(got), bits >> 15);
    if (magnitude > infinity) {
      assert_true(isnan(got));
      const unsigned back = f->narrow(got);
      assert_true((back & 0x7fff) > infinity && back >> 15 == bits >> 15);
      continue;
    }
    if (magnitude == infinity)
      assert_true(isinf(got));
    else
      assert_true(fabs((double)got) == value_of(f, magnitude));
    assert_int_equal(f->narrow(got), bits);
  }
}

static void check_narrow(const format *f, float x, unsigned want) {
  if (f->narrow(x) != want || f->narrow(-x) != (want | 0x8000u)) {
    print_error("%a became %#x, expected %#x\n", (double)x, f->narrow(x), want);
    assert_true(false);
  }
}

/* Checks every float at which rounding changes: the midpoint of each two neighbours, and the adjacent floats. */
static void check_every_boundary(const format *f) {
  for (unsigned bits = 0; bits < infinity_of(f); bits++) {
    const double low = value_of(f, bits), high = value_of(f, bits + 1), middle = (low + high) / 2;
    const float x = (float)middle;
    assert_true((double)x == middle);
    check_narrow(f, nextafterf(x, 0), bits);
    check_narrow(f, x, bits & 1 ? bits + 1 : bits);
    check_narrow(f, nextafterf(x, INFINITY), bits + 1);
    if (bits) check_narrow(f, nextafterf((float)low, 0), bits);
    check_narrow(f, nextafterf((float)low, INFINITY), bits);
  }
  check_narrow(f, INFINITY, infinity_of(f));
  check_narrow(f, FLT_MAX, infinity_of(f));
  check_narrow(f, FLT_TRUE_MIN, 0);
}

static void half_is_exact_for_every_pattern(void **state) {
  (void)state;
  check_every_pattern(&half);
}

static void bf16_is_exact_for_every_pattern(void **state) {
  (void)state;
  check_every_pattern(&bf16);
}

static void half_rounds_correctly_at_every_boundary(void **state) {
  (void)state;
  check_every_boundary(&half);
}

static void bf16_rounds_correctly_at_every_boundary(void **state) {
  (void)state;
  check_every_boundary(&bf16);
}

static void nan_stays_nan(void **state) {
  (void)state;
  for (uint32_t mantissa = 1; mantissa < 1u << 23; mantissa = mantissa * 2 + 1) {
    assert_true((half_from_float(float_of_bits(0x7f800000 | mantissa)) & 0x7fff) > 0x7c00);
    assert_true((bf16_from_float(float_of_bits(0xff800000 | mantissa)) & 0x7fff) > 0x7f80);
    assert_true((half_from_float(float_of_bits(0x7f800000 | (mantissa & -mantissa))) & 0x7fff) > 0x7c00);
    assert_true((bf16_from_float(float_of_bits(0x7f800000 | (mantissa & -mantissa))) & 0x7fff) > 0x7f80);
  }
}

/* ---- rounding to odd ---- */

/* Round to odd by definition: truncate, and set the last bit if the result is inexact. */
static uint32_t odd_by_definition(double d) {
  float cut = (float)d;
  if (fabs((double)cut) > fabs(d)) cut = nextafterf(cut, 0);
  return bits_of_float(cut) | ((double)cut != d);
}

static void check_odd(double d) {
  for (int sign = 0; sign < 2; sign++, d = -d)
    if (bits_of_float(float_to_odd(d)) != odd_by_definition(d)) {
      print_error("%a became %a\n", d, (double)float_to_odd(d));
      assert_true(false);
    }
}

static void round_to_odd_follows_its_definition(void **state) {
  (void)state;
  const double edges[] = {
      0,        1,         0x1p-149, 0x1p-150,       0x1.8p-149, 0x1p-126, 0x1.ffffffp-127, 0x1p-1074,
      DBL_MIN,  DBL_MAX,   FLT_MAX,  0x1.ffffffp127, 0x1p128,    INFINITY, 1 + 0x1p-24,     1 + 0x1p-23,
      1 + 3e-8, 2 - 1e-16, 0.1,      1e300,          1e-300};
  for (size_t i = 0; i < COUNT(edges); i++) {
    check_odd(edges[i]);
    check_odd(nextafter(edges[i], 0));
    if (edges[i] < DBL_MAX) check_odd(nextafter(edges[i], INFINITY));
  }
  assert_true(isnan(float_to_odd(NAN)));
  random_source random = {5};
  for (int i = 0; i < ROUNDS(2000000); i++) {
    const uint64_t bits = random_next(&random) & INT64_MAX;
    double d;
    memcpy(&d, &bits, sizeof d);
    if (!isnan(d)) check_odd(d);
    check_odd(ldexp(1 + (double)(bits >> 11) * 0x1p-52, (int)(bits % 300) - 160)); /* within the range of floats */
  }
}

/* The purpose of rounding to odd: a double converts to half precision through float with the correct rounding, also
 * when it is very close to a midpoint. */
static void double_to_half_through_float_rounds_correctly(void **state) {
  (void)state;
  const format *formats[] = {&half, &bf16};
  for (size_t i = 0; i < COUNT(formats); i++) {
    const format *f = formats[i];
    for (unsigned bits = 0; bits < infinity_of(f); bits++) {
      const double middle = (value_of(f, bits) + value_of(f, bits + 1)) / 2;
      assert_int_equal(f->narrow(float_to_odd(nextafter(middle, 0))), bits);
      assert_int_equal(f->narrow(float_to_odd(nextafter(middle, INFINITY))), bits + 1);
      assert_int_equal(f->narrow(float_to_odd(middle)), bits + (bits & 1));
    }
  }
}

/* ---- tables ---- */

static const int numbers[] = {ACL_BOOL,   ACL_UINT8,     ACL_INT8,      ACL_INT16,     ACL_UINT16, ACL_INT32,
                              ACL_UINT32, ACL_INT64,     ACL_UINT64,    ACL_FLOAT16,   ACL_BF16,   ACL_FLOAT,
                              ACL_DOUBLE, ACL_COMPLEX32, ACL_COMPLEX64, ACL_COMPLEX128};

static void promotion_is_symmetric_and_idempotent(void **state) {
  (void)state;
  for (int a = -1; a <= DTYPE_END; a++) {
    for (int b = -1; b <= DTYPE_END; b++) {
      const int both = dtype_promote(a, b);
      assert_int_equal(dtype_promote(b, a), both);
      if (both == ACL_DT_UNDEFINED || a == b) continue;
      assert_int_equal(dtype_promote(both, a), both);
      assert_int_equal(dtype_promote(both, b), both);
      assert_true(dtype_can_cast(a, both) && dtype_can_cast(b, both));
    }
    assert_int_equal(dtype_promote(a, a), a);
  }
}

static void promotion_agrees_with_pytorch(void **state) {
  (void)state;
  static const int rows[][3] = {
      {ACL_BOOL, ACL_UINT8, ACL_UINT8},
      {ACL_BOOL, ACL_FLOAT16, ACL_FLOAT16},
      {ACL_BOOL, ACL_COMPLEX64, ACL_COMPLEX64},
      {ACL_UINT8, ACL_INT8, ACL_INT16},
      {ACL_UINT8, ACL_INT32, ACL_INT32},
      {ACL_INT8, ACL_INT16, ACL_INT16},
      {ACL_INT32, ACL_INT64, ACL_INT64},
      {ACL_UINT64, ACL_INT64, ACL_DT_UNDEFINED},
      {ACL_INT64, ACL_FLOAT16, ACL_FLOAT16},
      {ACL_UINT8, ACL_BF16, ACL_BF16},
      {ACL_FLOAT16, ACL_BF16, ACL_FLOAT},
      {ACL_FLOAT16, ACL_FLOAT, ACL_FLOAT},
      {ACL_BF16, ACL_DOUBLE, ACL_DOUBLE},
      {ACL_INT64, ACL_COMPLEX64, ACL_COMPLEX64},
      {ACL_DOUBLE, ACL_COMPLEX64, ACL_COMPLEX128},
      {ACL_COMPLEX64, ACL_COMPLEX128, ACL_COMPLEX128},
      {ACL_COMPLEX32, ACL_FLOAT, ACL_COMPLEX64},
      {ACL_STRING, ACL_FLOAT, ACL_DT_UNDEFINED},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    if (dtype_promote(rows[i][0], rows[i][1]) != rows[i][2])
      print_error("promotion of %s and %s\n", dtype_name(rows[i][0]), dtype_name(rows[i][1]));
    assert_int_equal(dtype_promote(rows[i][0], rows[i][1]), rows[i][2]);
  }
}

/* Allowed casts: not from complex to real, not from float to integer, and to bool only from bool. */
static void casts_never_narrow_the_category(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(numbers); i++)
    for (size_t k = 0; k < COUNT(numbers); k++) {
      const int from = numbers[i], to = numbers[k];
      const bool from_complex = from >= ACL_COMPLEX64 && from != ACL_BF16,
                 to_complex = to >= ACL_COMPLEX64 && to != ACL_BF16;
      const bool want = (!from_complex || to_complex) && (!dtype_is_float(from) || dtype_is_float(to) || to_complex) &&
                        (from == ACL_BOOL || to != ACL_BOOL);
      assert_int_equal(dtype_can_cast(from, to), want);
    }
  assert_false(dtype_can_cast(ACL_STRING, ACL_FLOAT));
  assert_false(dtype_can_cast(ACL_FLOAT, ACL_INT4));
  assert_false(dtype_can_cast(-1, ACL_FLOAT));
  assert_false(dtype_can_cast(ACL_FLOAT, 1000));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(half_is_exact_for_every_pattern),
      cmocka_unit_test(bf16_is_exact_for_every_pattern),
      cmocka_unit_test(half_rounds_correctly_at_every_boundary),
      cmocka_unit_test(bf16_rounds_correctly_at_every_boundary),
      cmocka_unit_test(nan_stays_nan),
      cmocka_unit_test(round_to_odd_follows_its_definition),
      cmocka_unit_test(double_to_half_through_float_rounds_correctly),
      cmocka_unit_test(promotion_is_symmetric_and_idempotent),
      cmocka_unit_test(promotion_agrees_with_pytorch),
      cmocka_unit_test(casts_never_narrow_the_category),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
