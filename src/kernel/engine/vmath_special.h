/* SPDX-License-Identifier: Apache-2.0 */
/* Special functions, in double for both types; float results are rounded once. Included by vmath.h. They have branches
 * and loops, so they are not vectorised. */
#ifndef CANNON_KERNEL_ENGINE_VMATH_SPECIAL_H
#define CANNON_KERNEL_ENGINE_VMATH_SPECIAL_H

#include <math.h>

/* By lgamma_r, since lgamma writes a global variable. */
static inline double vlgamma_f64(double x) {
  int sign;
  return lgamma_r(x, &sign);
}

/* The derivative of the logarithm of the gamma function: its asymptotic series from 12 on, where the first term that is
 * left out is below 2^-58; smaller arguments by recurrence, negative ones by reflection. Poles are NaN, but for 0. */
static inline double vdigamma_f64(double x) {
  double sum = 0;
  if (x == 0) return copysign((double)INFINITY, -x);
  if (x < 0) {
    const double left = x - rint(x); /* exact, so the phase is kept */
    if (left == 0 || isinf(x)) return (double)NAN;
    sum = -M_PI / tan(M_PI * left);
    x = 1 - x;
  }
  for (; x < 12; ++x) sum -= 1 / x;
  const double u = 1 / (x * x);
  /* the sum of B(2k) / (2k x^2k) */
  const double series =
      u * (1. / 12 -
           u * (1. / 120 - u * (1. / 252 - u * (1. / 240 - u * (1. / 132 - u * (691. / 32760 - u * (1. / 12)))))));
  return sum + (log(x) - 0.5 / x - series);
}

/* The quantile of the normal distribution. Near 1/2 by the inverse of erf. Elsewhere two steps of Halley's method on
 * erfc from formula 26.2.23 of Abramowitz and Stegun's handbook, whose error is below 4.5e-4. */
static inline double vndtri_f64(double p) {
  if (!(p >= 0 && p <= 1)) return (double)NAN;
  if (p > 0.25 && p < 0.75) return M_SQRT2 * verfinv_f64(2 * p - 1);
  const double q = p < 0.5 ? p : 1 - p;
  if (q == 0) return p < 0.5 ? -(double)INFINITY : (double)INFINITY;
  const double t = sqrt(-2 * log(q));
  double u = M_SQRT1_2 *
             (t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))));
  for (int step = 0; step < 2; ++step) {
    const double error = (erfc(u) - 2 * q) / (M_2_SQRTPI * exp(-u * u));
    u += error / (1 - error * u);
  }
  return p < 0.5 ? -M_SQRT2 * u : M_SQRT2 * u;
}

/* The Fresnel integrals of x, 0 <= x < 1.6, by their power series: the first term of the cosine's is x, that of the
 * sine's pi x^3 / 6. */
static inline double fresnel_series(double x, double first, int k) {
  const double u = M_PI / 2 * x * x, u2 = u * u;
  double term = first, sum = 0;
  for (; k < 40; k += 2) {
    const double next = sum + term / (2 * k + 1);
    if (next == sum) break;
    sum = next;
    term *= -u2 / ((k + 1) * (k + 2));
  }
  return sum;
}

/* C(x) - 1/2 and S(x) - 1/2 for x >= 1.6, from the continued fraction of erfc(sqrt(pi) (1 - i) x / 2), which is
 * evaluated from its end; the number of its levels was found by comparison with more. */
static inline void fresnel_tail(double x, double tail[2]) {
  const double y = -M_PI * x * x;
  double re = 0, im = 0;
  for (int k = x < 3 ? 60 : 24; k >= 0; --k) {
    /* 1 / (1 + 4 k + i y - (2k+1)(2k+2) h) */
    const double factor = (2. * k + 1) * (2. * k + 2), a = 1 + 4. * k - factor * re, b = y - factor * im;
    const double size = a * a + b * b;
    re = a / size;
    im = -b / size;
  }
  /* x^2 modulo 4 in two parts, so that the phase is kept */
  const double square = x * x, lost = fma(x, x, -square);
  const double phase = M_PI / 2 * ((square - 4 * rint(square / 4)) + (lost - 4 * rint(lost / 4)));
  const double c = cos(phase), s = sin(phase);
  /* -(1 + i) / 2 e^(i phase) (1 - i) x h = -x e^(i phase) h */
  tail[0] = -x * (c * re - s * im);
  tail[1] = -x * (c * im + s * re);
}

/* part: 0 is the integral of cos(pi t^2 / 2), 1 of the sine, from 0 to x. */
static inline double fresnel_integral(double x, int part) {
  const double a = fabs(x);
  double tail[2] = {0, 0};
  if (a < 1.6) return copysign(fresnel_series(a, part ? M_PI / 2 * a * a * a : a, part), x);
  if (a < 0x1p60) fresnel_tail(a, tail); /* beyond, the tail is less than half a ULP of 1/2 */
  return x == x ? copysign(0.5 + tail[part], x) : x;
}
static inline double vfresnel_cos_f64(double x) { return fresnel_integral(x, 0); }
static inline double vfresnel_sin_f64(double x) { return fresnel_integral(x, 1); }

/* x / cosh(y), without overflow: x times 2 h^2 / (1 + h^4), where h^2 = e^-|y|. */
static inline double vover_cosh_f64(double x, double y) {
  const double h = exp(-0.5 * fabs(y)), h2 = h * h;
  return (2 * h * x) * (h / (1 + h2 * h2));
}

#define VMATH_ROUNDED(name)                                                                                            \
  static inline float v##name##_f32(float x) { return (float)v##name##_f64((double)x); }
VMATH_ROUNDED(lgamma)
VMATH_ROUNDED(digamma)
VMATH_ROUNDED(ndtri)
VMATH_ROUNDED(fresnel_cos)
VMATH_ROUNDED(fresnel_sin)
#undef VMATH_ROUNDED
static inline float vover_cosh_f32(float x, float y) { return (float)vover_cosh_f64((double)x, (double)y); }

#endif
