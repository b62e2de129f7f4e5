/* SPDX-License-Identifier: Apache-2.0 */
/* Double functions by the C library, and those that it lacks; see vmath.h. */
#ifndef CANNON_KERNEL_ENGINE_VMATH_VMATH_DOUBLE_H
#define CANNON_KERNEL_ENGINE_VMATH_VMATH_DOUBLE_H

#include <float.h>
#include <math.h>

#define VMATH_LIBRARY(name)                                                                                            \
  static inline double v##name##_f64(double x) { return name(x); }
VMATH_LIBRARY(exp)
VMATH_LIBRARY(exp2)
VMATH_LIBRARY(expm1)
VMATH_LIBRARY(log)
VMATH_LIBRARY(log1p)
VMATH_LIBRARY(log2)
VMATH_LIBRARY(log10)
VMATH_LIBRARY(sin)
VMATH_LIBRARY(cos)
VMATH_LIBRARY(tan)
VMATH_LIBRARY(asin)
VMATH_LIBRARY(acos)
VMATH_LIBRARY(atan)
VMATH_LIBRARY(sinh)
VMATH_LIBRARY(cosh)
VMATH_LIBRARY(tanh)
VMATH_LIBRARY(asinh)
VMATH_LIBRARY(acosh)
VMATH_LIBRARY(atanh)
VMATH_LIBRARY(erf)
VMATH_LIBRARY(erfc)
#undef VMATH_LIBRARY

static inline double vpow_f64(double x, double y) { return pow(x, y); }
static inline double vatan2_f64(double y, double x) { return atan2(y, x); }
static inline double vrsqrt_f64(double x) { return 1 / sqrt(x); }

/* sin(pi x) / (pi x), exactly 0 at integers. */
static inline double vsinc_f64(double x) {
  const double r = x - 2 * rint(x / 2), a = fabs(r); /* exact; sin(pi r) = sin(pi (1 - r)) */
  const double s = copysign(sin(M_PI * (a > 0.5 ? 1 - a : a)), r) / (M_PI * x);
  return x == 0 ? 1 : isinf(x) ? 0 : s;
}

/* The inverse of erf: two steps of Halley's method from the float result `start`, on erfc where erf is near 1. */
static inline double erfinv_from(double x, double start) {
  double y = fabs(start);
  const double a = fabs(x);
  for (int step = 0; step < 2; ++step) {
    const double error = a < 0.5 ? erf(y) - a : (1 - a) - erfc(y);
    const double u = error / (M_2_SQRTPI * exp(-y * y));
    y -= u / (1 + y * u);
  }
  return a < 1 ? copysign(y, x) : a == 1 ? copysign((double)INFINITY, x) : (double)NAN;
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

static inline double vsigmoid_f64(double x) {
  const double e = exp(-fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}
static inline double vsilu_f64(double x) { return x < -1000 ? -0.0 : x * vsigmoid_f64(x); }
static inline double vlog_sigmoid_f64(double x) { return (x < 0 ? x : x == x ? 0 : x) - log1p(exp(-fabs(x))); }
static inline double vsoftplus_f64(double x, double beta) {
  const double z = x * beta;
  return (z > 0 ? z + log1p(exp(-z)) : log1p(exp(z))) / beta;
}
static inline double vsoftplus_slope_f64(double x, double beta) { return vsigmoid_f64(x * beta); }
static inline double vswish_f64(double x, double beta) {
  const double c = x < -DBL_MAX ? -DBL_MAX : x;
  return c * vsigmoid_f64(c * beta);
}
static inline double vlogit_f64(double x) {
  return x > 0.25 && x < 0.75 ? log1p((2 * x - 1) / (1 - x)) : log(x / (1 - x));
}
static inline double vmish_f64(double x) {
  const double c = x < -1000 ? -1000 : x, e = exp(c > 100 ? 100 : c), w = e * (e + 2);
  return c * (w / (w + 2));
}
/* Phi(x) = erfc(u) / 2 at u = -x / sqrt(2), corrected for the rounding error of u. */
static inline double vnormal_cdf_f64(double x) {
  const double u = -x * M_SQRT1_2, lost = fma(-x, M_SQRT1_2, -u) + x * 0x1.bdd3413b26456p-55;
  return 0.5 * (erfc(u) - M_2_SQRTPI * exp(-u * u) * (fabs(x) < 1000 ? lost : 0));
}
static inline double vgelu_f64(double x) { return x < -1000 ? -0.0 : x * vnormal_cdf_f64(x); }

static inline double gelu_tanh_argument(double x) { return x * (0x1.9884533d43651p0 + 0x1.2444f2a4d8b4bp-4 * x * x); }
static inline double vgelu_tanh_f64(double x) { return x < -1000 ? -0.0 : x * vsigmoid_f64(gelu_tanh_argument(x)); }

/* Derivatives. */
static inline double vgelu_slope_f64(double x) {
  const double c = fabs(x) > 1000 ? copysign(1000, x) : x;
  return vnormal_cdf_f64(c) + c * (0.3989422804014327 * exp(-0.5 * c * c));
}
static inline double vgelu_tanh_slope_f64(double x) {
  const double c = fabs(x) > 1000 ? copysign(1000, x) : x, y = gelu_tanh_argument(c), s = vsigmoid_f64(y);
  return s + c * s * vsigmoid_f64(-y) * (0x1.9884533d43651p0 + 3 * 0x1.2444f2a4d8b4bp-4 * c * c);
}
static inline double vswish_slope_f64(double x, double beta) {
  const double z = x * beta, c = fabs(z) > 1000 ? copysign(1000, z) : z, s = vsigmoid_f64(c);
  return s + c * s * vsigmoid_f64(-c);
}
static inline double vsilu_slope_f64(double x) { return vswish_slope_f64(x, 1); }
static inline double vmish_slope_f64(double x) {
  const double below = x > 100 ? 100 : x, c = below < -1000 ? -1000 : below, e = exp(c), w = e * (e + 2);
  return w / (w + 2) + c * (e / (1 + e)) * (4 * (w + 1) / ((w + 2) * (w + 2)));
}

#endif
