/* SPDX-License-Identifier: Apache-2.0 */
/* Special functions, in double for both types; float results are rounded once. Included by vmath.h. They have branches
 * and loops, so they are not vectorised. */
#ifndef CANNON_KERNEL_ENGINE_VMATH_VMATH_SPECIAL_H
#define CANNON_KERNEL_ENGINE_VMATH_VMATH_SPECIAL_H

#include <math.h>
#include <stdbool.h>

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

/* P(a, x) of a large a, from 2^20 on, or Q(a, x), by the first term of Temme's expansion (DLMF 8.12.3 to 8.12.9); the
 * next one is below 1e-13. The function's series would take some 10 sqrt(a) steps. *slope, unless NULL, is set to the
 * derivative of P with respect to a, of which six digits are right. */
static inline double gamma_of_large(double a, double x, bool upper, double *slope) {
  const double mu = (x - a) / a; /* half of eta^2 is mu - log(1 + mu), which cancels out near 0 */
  const double series = 1 - mu * (2. / 3 - mu * (1. / 2 - mu * (2. / 5 - mu * (1. / 3))));
  const double eta = fabs(mu) < 1e-3 ? mu * sqrt(series) : copysign(sqrt(2 * (mu - log1p(mu))), mu);
  const double c0 = fabs(eta) < 1e-3 ? -1. / 3 + eta / 12 - eta * eta * (2. / 135) : 1 / mu - 1 / eta;
  const double front = exp(-0.5 * a * eta * eta) / sqrt(2 * M_PI * a), sign = upper ? -1 : 1;
  if (slope) *slope = front != 0 ? front * log1p(mu) * ((eta != 0 ? -1 / eta : 0) - c0) - (eta != 0 ? 0 : front) : 0;
  return 0.5 * erfc(-sign * eta * sqrt(a / 2)) - sign * front * c0;
}

/* The regularised incomplete gamma functions P(a, x) and, if `upper`, Q(a, x) = 1 - P(a, x), for positive and finite
 * arguments: by the power series of P below a + 1; beyond, by the continued fraction of Q (Lentz's method, formula
 * 6.5.31 of Abramowitz and Stegun's handbook). *slope is as above; the steps differentiate themselves. */
static inline double gamma_ratio(double a, double x, bool upper, double *slope) {
  if (a > 0x1p20) return gamma_of_large(a, x, upper, slope);
  const double front = exp(a * log(x) - x - vlgamma_f64(a)), front_a = slope ? log(x) - vdigamma_f64(a) : 0;
  if (x < a + 1) {
    double term = 1 / a, sum = term, term_a = -term / a, sum_a = term_a;
    for (double n = 1; term > sum * 0x1p-56 || (slope && fabs(term_a) > fabs(sum_a) * 0x1p-56); ++n) {
      term_a = (term_a - term / (a + n)) * (x / (a + n));
      sum += term *= x / (a + n);
      sum_a += term_a;
    }
    if (slope) *slope = front * (sum_a + sum * front_a);
    return upper ? 1 - sum * front : sum * front;
  }
  double b = x + 1 - a, c = 0x1p1000, d = 1 / b, h = d, c_a = 0, d_a = d * d, h_a = d_a;
  for (int n = 1; n < 100000; ++n) {
    const double an = -n * (n - a);
    b += 2;
    const double d_next = 1 / (an * d + b), c_next = b + an / c;
    d_a = -d_next * d_next * (n * d + an * d_a - 1);
    c_a = n / c - an * c_a / (c * c) - 1;
    d = d_next;
    c = c_next;
    h_a = h_a * (c * d) + h * (c_a * d + c * d_a);
    h *= c * d;
    if (fabs(c * d - 1) < 0x1p-53) break;
  }
  if (slope) *slope = -front * (h_a + h * front_a);
  return upper ? front * h : 1 - front * h;
}

static inline double gamma_ratio_anywhere(double a, double x, bool upper) {
  if (!(a >= 0 && x >= 0) || (a == 0 && x == 0) || (isinf(a) && isinf(x))) return (double)NAN;
  if (x == 0 || isinf(a)) return upper;
  if (a == 0 || isinf(x)) return !upper;
  return gamma_ratio(a, x, upper, NULL);
}
static inline double vigamma_f64(double a, double x) { return gamma_ratio_anywhere(a, x, false); }
static inline double vigammac_f64(double a, double x) { return gamma_ratio_anywhere(a, x, true); }

/* The derivative of P(a, x) with respect to a. */
static inline double vigamma_slope_f64(double a, double x) {
  double slope;
  if (!(a > 0 && x >= 0) || (isinf(a) && isinf(x))) return (double)NAN;
  if (x == 0 || isinf(a) || isinf(x)) return 0;
  gamma_ratio(a, x, false, &slope);
  return slope;
}

/* The derivative of the logarithm of the multivariate gamma function, with the bounds of mvlgamma. */
static inline double vmvlgamma_slope_f64(double x, double p) {
  if (!(p >= 1 && p <= 0x1p20)) return (double)NAN;
  double sum = 0;
  for (double k = 0; k < p; ++k) sum += vdigamma_f64(x - k / 2);
  return sum;
}

/* q^x times Hurwitz's zeta function, the sum of (q + k)^-x over k = 0, 1, ..., for x > 1 and q > 0: ten terms, and
 * Euler's and Maclaurin's formula for the others (DLMF 25.11.5). */
static inline double zeta_scaled(double x, double q) {
  static const double bernoulli[] = {1. / 12,
                                     -1. / 720,
                                     1. / 30240,
                                     -1. / 1209600,
                                     1. / 47900160,
                                     -691. / 1307674368e3,
                                     1. / 74724249600,
                                     -3617. / 10670622842880e3,
                                     43867. / 5109094217170944e3,
                                     -174611. / 802857662698291200e3}; /* B(2j) / (2j)! */
  double sum = 1, at = q;
  for (int k = 1; k < 10; ++k) {
    const double term = pow(++at / q, -x);
    sum += term;
    if (term <= sum * 0x1p-60) return sum;
  }
  ++at;
  double power = pow(at / q, -x), factor = x / at;
  sum += power * at / (x - 1) + power / 2;
  for (int j = 0; j < 10; ++j) {
    const double term = bernoulli[j] * factor * power;
    sum += term;
    if (fabs(term) <= sum * 0x1p-60) break;
    factor *= (x + 2 * j + 1) / at * ((x + 2 * j + 2) / at);
  }
  return sum;
}

static inline double zeta_of_positive(double x, double q) {
  return q > 0x1p100 ? pow(q, 1 - x) / (x - 1) : pow(q, -x) * zeta_scaled(x, q);
}

/* Hurwitz's zeta function. q of 0, -1, ... are poles; other negative q need an x that is an integer. Their terms below
 * 0 are a difference of two functions of positive arguments. */
static inline double vzeta_f64(double x, double q) {
  if (x != x || q != q || x < 1) return (double)NAN;
  if (x == 1) return (double)INFINITY;
  if (q > 0) return isinf(q) ? 0 : isinf(x) ? (q > 1 ? 0 : q < 1 ? (double)INFINITY : 1) : zeta_of_positive(x, q);
  const double floor_q = floor(q), part = q - floor_q, rest = floor_q + 1 - q;
  if (part == 0) return (double)INFINITY;
  if (x != floor(x) || isinf(x)) return (double)NAN;
  const double below = zeta_of_positive(x, rest) - zeta_of_positive(x, 1 - q);
  return zeta_of_positive(x, part) + (fmod(x, 2) == 0 ? below : -below);
}

/* The n-th derivative of the digamma function, whose order is an integer, 0 or more. */
static inline double vpolygamma_f64(double n, double x) {
  if (!(n >= 0) || n != floor(n) || isinf(n)) return (double)NAN;
  if (n == 0) return vdigamma_f64(x);
  const double sign = fmod(n, 2) == 0 ? -1 : 1;
  if (x > 0 && n > 20 && x < 0x1p500) /* the factorial and the power may overflow before the result does */
    return sign * exp(vlgamma_f64(n + 1) - (n + 1) * log(x)) * zeta_scaled(n + 1, x);
  return sign * tgamma(n + 1) * vzeta_f64(n + 1, x);
}

/* log Gamma(x) less the first terms of Stirling's formula, from 20 on. */
static inline double gamma_rest(double x) {
  const double u = 1 / (x * x);
  return (1. / 12 - u * (1. / 360 - u * (1. / 1260 - u / 1680))) / x;
}

/* The logarithm of the beta function. A large argument's gamma functions cancel out. */
static inline double log_beta(double a, double b) {
  const double p = fmin(a, b), q = fmax(a, b);
  if (q < 20) return vlgamma_f64(p) + vlgamma_f64(q) - vlgamma_f64(p + q);
  const double quotient = gamma_rest(q) - gamma_rest(p + q) + p - p * log(q) - (p + q - 0.5) * log1p(p / q);
  return vlgamma_f64(p) + quotient;
}

/* I_x(a, b) of large a and b, both from 2^20 on: the first term of DLMF 8.18.9, as gamma_of_large. */
static inline double beta_of_large(double a, double b, double x) {
  const double at = a / (a + b), rest = b / (a + b), step = x - at;
  const double half = -at * log1p(step / at) - rest * log1p(-step / rest); /* half of eta^2 */
  const double variance = at * rest, skew = (1 - 2 * at) / (3 * variance);
  const bool near = fabs(step) < 1e-4 * variance;
  const double eta = near ? step / sqrt(variance) * (1 - step * skew / 2) : copysign(sqrt(2 * fmax(half, 0)), step);
  const double c0 = near || eta == 0 ? (1 - 2 * at) / (3 * sqrt(variance)) : 1 / eta - sqrt(variance) / step;
  return 0.5 * erfc(-eta * sqrt((a + b) / 2)) + exp(-0.5 * (a + b) * eta * eta) / sqrt(2 * M_PI * (a + b)) * c0;
}

/* The regularised incomplete beta function I_x(a, b), by its continued fraction (DLMF 8.17.22, Lentz's method) on the
 * side where that converges fast. */
static inline double vbetainc_f64(double a, double b, double x) {
  if (!(a > 0 && b > 0 && x >= 0 && x <= 1) || isinf(a) || isinf(b)) return (double)NAN;
  if (x == 0 || x == 1) return x;
  if (a > 0x1p20 && b > 0x1p20) return beta_of_large(a, b, x);
  const bool mirrored = x > (a + 1) / (a + b + 2);
  const double p = mirrored ? b : a, q = mirrored ? a : b, y = mirrored ? 1 - x : x;
  const double logs = mirrored ? p * log1p(-x) + q * log(x) : p * log(x) + q * log1p(-x);
  const double front = exp(logs - log_beta(a, b)) / p;
  double c = 1, d = 1 / (1 - (p + q) * y / (p + 1)), h = d;
  for (int m = 1; m < 20000; ++m) {
    const double even = m * (q - m) * y / ((p + 2 * m - 1) * (p + 2 * m));
    d = 1 / (1 + even * d);
    c = 1 + even / c;
    h *= c * d;
    const double odd = -(p + m) * (p + q + m) * y / ((p + 2 * m) * (p + 2 * m + 1));
    d = 1 / (1 + odd * d);
    c = 1 + odd / c;
    h *= c * d;
    if (fabs(c * d - 1) < 0x1p-53) break;
  }
  return mirrored ? 1 - front * h : front * h;
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
VMATH_ROUNDED_2(igammac)
VMATH_ROUNDED_2(igamma_slope)
VMATH_ROUNDED_2(mvlgamma_slope)
VMATH_ROUNDED_2(zeta)
VMATH_ROUNDED_2(polygamma)
#undef VMATH_ROUNDED_2
static inline float vbetainc_f32(float a, float b, float x) {
  return (float)vbetainc_f64((double)a, (double)b, (double)x);
}

#endif
