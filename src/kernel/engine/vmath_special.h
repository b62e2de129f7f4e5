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

static inline double vhypot_f64(double x, double y) { return hypot(x, y); }

/* e^-|x| times the modified Bessel function of the first kind of order 0 or 1. Below 30 by the power series, whose
 * terms have one sign; beyond, by the asymptotic series, whose least term is there below 2^-80. */
static inline double bessel_scaled(double x, int order) {
  const double a = fabs(x), sign = order && x < 0 ? -1 : 1;
  if (isinf(a)) return 0 * sign;
  if (a < 30) {
    double term = order ? a / 2 : 1, sum = term;
    for (int k = 1; term > sum * 0x1p-56; ++k) sum += term *= a * a / 4 / ((double)k * (k + order));
    return sign * sum * exp(-a);
  }
  double term = 1, sum = 1;
  for (int k = 1; k < 40 && fabs(term) > 0x1p-56; ++k)
    sum += term *= -(4. * order * order - (2. * k - 1) * (2. * k - 1)) / (8. * k * a);
  return sign * sum / sqrt(2 * M_PI * a);
}
static inline double vbessel_i0e_f64(double x) { return x == x ? bessel_scaled(x, 0) : x; }
static inline double vbessel_i1e_f64(double x) { return x == x ? bessel_scaled(x, 1) : x; }
static inline double vbessel_i0_f64(double x) {
  const double half = exp(fabs(x) / 2); /* twice, since e^|x| overflows before the function does */
  return isinf(x) ? (double)INFINITY : vbessel_i0e_f64(x) * half * half;
}

/* The logarithm of the multivariate gamma function of dimension p, where x > (p - 1) / 2. NaN for dimensions below 1
 * and for those in the millions, which would take as many steps. */
static inline double vmvlgamma_f64(double x, double p) {
  if (!(p >= 1 && p <= 0x1p20)) return (double)NAN;
  double sum = p * (p - 1) / 4 * log(M_PI);
  for (double k = 0; k < p; ++k) sum += vlgamma_f64(x - k / 2);
  return sum;
}

/* P(a, x) of a large a, from 2^20 on, by the first term of Temme's expansion (DLMF 8.12.3 to 8.12.9); the next one is
 * below 1e-13. The function's series would take some 10 sqrt(a) steps. */
static inline double gamma_of_large(double a, double x) {
  const double mu = (x - a) / a; /* half of eta^2 is mu - log(1 + mu), which cancels out near 0 */
  const double series = 1 - mu * (2. / 3 - mu * (1. / 2 - mu * (2. / 5 - mu * (1. / 3))));
  const double eta = fabs(mu) < 1e-3 ? mu * sqrt(series) : copysign(sqrt(2 * (mu - log1p(mu))), mu);
  const double c0 = fabs(eta) < 1e-3 ? -1. / 3 + eta / 12 - eta * eta * (2. / 135) : 1 / mu - 1 / eta;
  return 0.5 * erfc(-eta * sqrt(a / 2)) - exp(-0.5 * a * eta * eta) / sqrt(2 * M_PI * a) * c0;
}

/* The regularised lower incomplete gamma function P(a, x): by its power series below a + 1; beyond, 1 - Q(a, x) by the
 * continued fraction of Q (Lentz's method, formula 6.5.31 of Abramowitz and Stegun's handbook). */
static inline double vigamma_f64(double a, double x) {
  if (!(a >= 0 && x >= 0) || (a == 0 && x == 0) || (isinf(a) && isinf(x))) return (double)NAN;
  if (x == 0 || isinf(a)) return 0;
  if (a == 0 || isinf(x)) return 1;
  if (a > 0x1p20) return gamma_of_large(a, x);
  const double front = exp(a * log(x) - x - vlgamma_f64(a));
  if (x < a + 1) {
    double term = 1 / a, sum = term;
    for (double n = 1; term > sum * 0x1p-56; ++n) sum += term *= x / (a + n);
    return sum * front;
  }
  double b = x + 1 - a, c = 0x1p1000, d = 1 / b, h = d;
  for (int n = 1; n < 100000; ++n) {
    const double an = -n * (n - a);
    b += 2;
    d = 1 / (an * d + b);
    c = b + an / c;
    h *= c * d;
    if (fabs(c * d - 1) < 0x1p-53) break;
  }
  return 1 - front * h;
}

#define VMATH_ROUNDED(name)                                                                                            \
  static inline float v##name##_f32(float x) { return (float)v##name##_f64((double)x); }
VMATH_ROUNDED(lgamma)
VMATH_ROUNDED(digamma)
VMATH_ROUNDED(ndtri)
VMATH_ROUNDED(fresnel_cos)
VMATH_ROUNDED(fresnel_sin)
VMATH_ROUNDED(bessel_i0)
VMATH_ROUNDED(bessel_i0e)
VMATH_ROUNDED(bessel_i1e)
#undef VMATH_ROUNDED
#define VMATH_ROUNDED_2(name)                                                                                          \
  static inline float v##name##_f32(float x, float y) { return (float)v##name##_f64((double)x, (double)y); }
VMATH_ROUNDED_2(over_cosh)
VMATH_ROUNDED_2(hypot)
VMATH_ROUNDED_2(mvlgamma)
VMATH_ROUNDED_2(igamma)
#undef VMATH_ROUNDED_2

#endif
