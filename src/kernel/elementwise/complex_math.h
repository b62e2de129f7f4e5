/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of complex numbers in double that the C library lacks. Branch cuts and limits are those of C99, annex G.
 * Pure. */
#ifndef CANNON_KERNEL_ELEMENTWISE_COMPLEX_MATH_H
#define CANNON_KERNEL_ELEMENTWISE_COMPLEX_MATH_H

#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

static inline double complex complex_of(double real, double imaginary) {
  union {
    double part[2];
    double complex number;
  } z = {{real, imaginary}};
  return z.number;
}

/* sqrt(x^2 + y^2) for x >= y >= 0 with x near 1, or for 0. The error of the square root is corrected by nearly exact
 * differences (C. F. Borges, An Improved Algorithm for hypot(a, b)). */
static inline double complex_magnitude_near_1(double x, double y) {
  const double h = sqrt(x * x + y * y), dy = h - y, dx = h - x;
  const double error =
      h <= 2 * y ? x * (2 * dy - x) + (dy - 2 * (x - y)) * dy : 2 * dx * (x - 2 * y) + ((4 * dx - y) * y + dx * dx);
  return h - error / (2 * h + (h == 0));
}

/* |a + bi|. Both parts are scaled by a power of two, so that nothing overflows or underflows; an infinity takes
 * precedence over NaN. */
static inline double complex_magnitude(double a, double b) {
  const double x = fabs(a) > fabs(b) ? fabs(a) : fabs(b), y = fabs(a) > fabs(b) ? fabs(b) : fabs(a);
  const uint64_t one = UINT64_C(1) << 52, most = 2045 * one;
  union {
    double number;
    uint64_t bits;
  } scale = {x}, inverse;
  const uint64_t exponent = scale.bits & 2047 * one;
  scale.bits = exponent < one ? one : exponent > most ? most : exponent;
  inverse.bits = 2046 * one - scale.bits;
  const double magnitude = scale.number * complex_magnitude_near_1(x * inverse.number, y * inverse.number);
  return x == INFINITY || y == INFINITY ? INFINITY : magnitude;
}

/* The real or imaginary part of (a + bi) / (c + di) by Smith's method: scaled by the larger part of the divisor, so
 * that intermediate results do not overflow. */
static inline double complex_quotient(double a, double b, double c, double d, int imaginary) {
  const int by_real = fabs(c) >= fabs(d);
  const double ratio = by_real ? (c == 0 ? 0 : d / c) : c / d;
  const double divisor = by_real ? c + d * ratio : c * ratio + d;
  const double real = by_real ? a + b * ratio : a * ratio + b, other = by_real ? b - a * ratio : b * ratio - a;
  return (imaginary ? other : real) / divisor;
}

/* of_floats: the operands come from floats and the result will be rounded to float, so less precision is needed.
 * complex_log returns the logarithm to the base whose natural logarithm is `log_base`. */
double complex complex_log(double complex x, double log_base, bool of_floats);
double complex complex_rsqrt(double complex x);
double complex complex_sigmoid(double complex x);

/* The gradient of sigmoid's input: `gradient`, that of the result, times the conjugate of the derivative at
 * `result`. */
double complex complex_sigmoid_slope(double complex gradient, double complex result);

/* x / |x|; 0 for 0. */
double complex complex_sign(double complex x);

/* x to the power y; x^0 is 1 for all x. */
double complex complex_power(double complex x, double complex y, bool of_floats);

#endif
