#include "kernel/elementwise/complex_math.h"

#include <stdbool.h>

static double complex quotient(double complex x, double complex y) {
  const double a = creal(x), b = cimag(x), c = creal(y), d = cimag(y);
  return complex_of(complex_quotient(a, b, c, d, false), complex_quotient(a, b, c, d, true));
}

double complex complex_log(double complex x, double log_base) {
  const double complex log = clog(x);
  return complex_of(creal(log) / log_base, cimag(log) / log_base);
}

double complex complex_rsqrt(double complex x) { return quotient(1, csqrt(x)); }

/* By the exponential that does not overflow. */
double complex complex_sigmoid(double complex x) {
  const bool positive = creal(x) >= 0;
  const double complex power = cexp(positive ? -x : x);
  return quotient(positive ? 1 : power, complex_of(1 + creal(power), cimag(power)));
}

double complex complex_sigmoid_slope(double complex gradient, double complex result) {
  const double a = creal(gradient), b = cimag(gradient), r = creal(result), i = cimag(result);
  const double real = (1 - r) * r + i * i, imaginary = i * r - (1 - r) * i; /* of the conjugate */
  return complex_of(a * real - b * imaginary, a * imaginary + b * real);
}

/* Scaled, so that the magnitude neither overflows nor loses bits. */
double complex complex_sign(double complex x) {
  const double larger = fmax(fabs(creal(x)), fabs(cimag(x)));
  if (larger == 0) return x;
  const double real = creal(x) / larger, imaginary = cimag(x) / larger, magnitude = complex_magnitude(real, imaginary);
  return complex_of(real / magnitude, imaginary / magnitude);
}

/* In long double: an error of the exponent y log x is one of the result, times its size. */
double complex complex_power(double complex x, double complex y) {
  if (creal(y) == 0 && cimag(y) == 0) return 1;
  if (creal(x) == 0 && cimag(x) == 0 && creal(y) > 0) return 0;
  return (double complex)cpowl(x, y);
}
