/* Vector math in plain C that compilers vectorise: float functions computed in double and rounded once, so that their
 * error is half a ULP plus a little (measured by tests/unit/vmath.c over some two million floats each); double
 * functions are the C library's. Included by the loops, once per instruction set level. */
#ifndef CANNON_KERNEL_VMATH_H
#define CANNON_KERNEL_VMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* exp in double, relative error below 1e-11 for x in [-150, 130], clamped outside: enough for any float result. */
static inline double exp_core(double x) {
  const double ROUND = 0x1.8p52, LOG2E = 0x1.71547652b82fep0, LN2 = 0x1.62e42fefa39efp-1;
  const double c = x < -150 ? -150 : x > 130 ? 130 : x;
  const double shifted = c * LOG2E + ROUND, r = c - (shifted - ROUND) * LN2;
  int64_t bits;
  memcpy(&bits, &shifted, sizeof bits);
  /* Taylor to r^9; |r| <= ln(2)/2 leaves r^10/10! < 7e-12 */
  double p = 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  /* The low bits of the sum are the integer part of x log2(e). */
  const uint64_t scale_bits = (uint64_t)(bits + 1023) << 52;
  double scale;
  memcpy(&scale, &scale_bits, sizeof scale);
  return p * scale;
}

/* log of a float, in double; relative error below 1e-10. */
static inline double log_core(float f) {
  const double LN2 = 0x1.62e42fefa39efp-1;
  const double x = f;
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  /* x = m 2^k with m in [sqrt(1/2), sqrt(2)) */
  const uint64_t SQRT_HALF = 0x3fe6a09e667f3bcdu;
  const uint64_t distance = bits - SQRT_HALF;
  const double k = (double)((int32_t)(distance >> 32) >> 20);
  const uint64_t m_bits = (distance & 0x000fffffffffffffu) + SQRT_HALF;
  double m;
  memcpy(&m, &m_bits, sizeof m);
  const double s = (m - 1) / (m + 1), s2 = s * s;
  double p = 2.0 / 13;
  p = p * s2 + 2.0 / 11;
  p = p * s2 + 2.0 / 9;
  p = p * s2 + 2.0 / 7;
  p = p * s2 + 2.0 / 5;
  p = p * s2 + 2.0 / 3;
  p = p * s2 + 2.0;
  const double normal = k * LN2 + s * p;
  return f > 0 ? (f < (float)INFINITY ? normal : (double)f) : f == 0 ? -INFINITY : NAN;
}

static inline float vexp_f32(float x) {
  const float e = (float)exp_core(x);
  return x != x ? x : e;
}
static inline float vlog_f32(float x) { return x != x ? x : (float)log_core(x); }
static inline float vsigmoid_f32(float x) {
  const float s = (float)(1 / (1 + exp_core(-(double)x)));
  return x != x ? x : s;
}
/* Below 2^-6, where 1 - 2/(e^2x + 1) cancels, the series. */
static inline float vtanh_f32(float x) {
  const double d = x, d2 = d * d;
  const double small = d * (1 + d2 * (-1.0 / 3 + d2 * (2.0 / 15 - d2 * (17.0 / 315))));
  const double large = 1 - 2 / (exp_core(2 * d) + 1);
  const float t = (float)(d2 < 0x1p-12 ? small : large);
  return x != x ? x : t;
}
static inline float vrsqrt_f32(float x) { return (float)(1 / sqrt((double)x)); }

static inline double vsigmoid_f64(double x) { return 1 / (1 + exp(-x)); }
static inline double vrsqrt_f64(double x) { return 1 / sqrt(x); }

#endif
