/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/elementwise/complex_math.h"

static double complex quotient(double complex x, double complex y) {
  const double a = creal(x), b = cimag(x), c = creal(y), d = cimag(y);
  return complex_of(complex_quotient(a, b, c, d, false), complex_quotient(a, b, c, d, true));
}

/* For floats x^2 + y^2 neither overflows nor underflows in double. Near 1, its difference from 1 is rounded only
 * once. */
static double complex log_of_floats(double complex z) {
  const double x = fmax(fabs(creal(z)), fabs(cimag(z))), y = fmin(fabs(creal(z)), fabs(cimag(z)));
  const double square = x * x + y * y;
  if (!(square > 0 && square < INFINITY)) return clog(z);
  const double twice = square > 0.5 && square < 2 ? log1p((x - 1) * (x + 1) + y * y) : log(square);
  return complex_of(0.5 * twice, atan2(cimag(z), creal(z)));
}

double complex complex_log(double complex x, double log_base, bool of_floats) {
  const double complex log = of_floats ? log_of_floats(x) : clog(x);
  return complex_of(creal(log) / log_base, cimag(log) / log_base);
}

double complex complex_rsqrt(double complex x) { return quotient(1, csqrt(x)); }

/* Uses that of e^x and e^-x which does not overflow. */
double complex complex_sigmoid(double complex x) {
  const bool positive = creal(x) >= 0;
  const double complex power = cexp(positive ? -x : x);
  return quotient(positive ? 1 : power, complex_of(1 + creal(power), cimag(power)));
}

double complex complex_sigmoid_slope(double complex gradient, double complex result) {
  const double a = creal(gradient), b = cimag(gradient), r = creal(result), i = cimag(result);
  const double real = (1 - r) * r + i * i, imaginary = i * r - (1 - r) * i; /* parts of the conjugate */
  return complex_of(a * real - b * imaginary, a * imaginary + b * real);
}

/* x is scaled, so that its magnitude neither overflows nor loses bits. */
double complex complex_sign(double complex x) {
  const double larger = fmax(fabs(creal(x)), fabs(cimag(x)));
  if (larger == 0) return x;
  const double real = creal(x) / larger, imaginary = cimag(x) / larger, magnitude = complex_magnitude(real, imaginary);
  return complex_of(real / magnitude, imaginary / magnitude);
}

/* An absolute error of the exponent y log x becomes a relative error of the result. So the exponent is computed in long
 * double, except for floats, where it is small enough. */
double complex complex_power(double complex x, double complex y, bool of_floats) {
  if (creal(y) == 0 && cimag(y) == 0) return 1;
  if (creal(x) == 0 && cimag(x) == 0 && creal(y) > 0) return 0;
  if (of_floats) {
    const double complex log = log_of_floats(x);
    const double a = creal(y), b = cimag(y), c = creal(log), d = cimag(log);
    if ((fabs(a) + fabs(b)) * (fabs(c) + fabs(d)) < 0x1p16) return cexp(complex_of(a * c - b * d, a * d + b * c));
  }
  return (double complex)cpowl(x, y);
}
