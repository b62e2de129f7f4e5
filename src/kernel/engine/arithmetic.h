/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of two operands that C lacks or leaves undefined for some operands: divisions, remainders, powers, shifts;
 * and logarithms of sums and bounded logarithms for losses. The macros at the end choose a function by the operands'
 * compute type. The expressions of elementwise.def use them; the file is included once per instruction set level.
 *
 * Integers wrap. An integer quotient or fmod by 0 is 0 (PyTorch raises an error there; CANN's documents don't say).
 * Functions of floats are computed in double and rounded once where precision requires it. All functions are pure. */
#ifndef CANNON_KERNEL_ENGINE_ARITHMETIC_H
#define CANNON_KERNEL_ENGINE_ARITHMETIC_H

#include <stdbool.h>

#include "kernel/engine/vmath/vmath.h"

/* ---- integers ---------------------------------------------------------------------------------------------------- */

/* Divides in double, which compilers vectorise. The quotient is exact: a quotient that is no integer differs from the
 * nearest integer by at least 2^-31 of its value. */
static inline int32_t trunc_div_i32(int32_t x, int32_t y) {
  const int32_t divisor = y == 0 || y == -1 ? 1 : y;
  const int32_t q = (int32_t)((double)x / (double)divisor);
  return y == 0 ? 0 : y == -1 ? (int32_t)(0 - (uint32_t)x) : q;
}

static inline int64_t trunc_div_i64(int64_t x, int64_t y) {
  return y == 0 ? 0 : y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}

#define T        int32_t
#define UNSIGNED uint32_t
#define NAME(f)  f##_i32
#include "kernel/engine/arithmetic_integers.inc"

#define T        int64_t
#define UNSIGNED uint64_t
#define NAME(f)  f##_i64
#include "kernel/engine/arithmetic_integers.inc"

/* ---- division and remainder of floats ---------------------------------------------------------------------------- */

static inline float trunc_div_f32(float x, float y) { return truncf(x / y); }
static inline double trunc_div_f64(double x, double y) { return trunc(x / y); }

/* floor of the exact quotient. Below 2^29 a quotient in double is precise enough: a quotient that is no integer is at
 * least 2^-24 away from the nearest one. Above 2^29 neighbouring floats are further apart than the error. */
static inline float floor_div_f32(float x, float y) {
  const double q = floor((double)x / (double)y);
  const float towards = x != 0 && (x < 0) != (y < 0) ? -1 : 0; /* the result of x / infinity for x other than 0 */
  const float of_finite = fabsf(y) == INFINITY && x == x ? towards : (float)q;
  return fabsf(x) == INFINITY && y != 0 ? NAN : of_finite;
}

static inline double floor_div_f64(double x, double y) {
  if (y == 0) return x / y;
  double r = fmod(x, y), q = (x - r) / y;
  if (r != 0 && (y < 0) != (r < 0)) q -= 1;
  if (q == 0) return copysign(0, x / y);
  const double whole = floor(q);
  return q - whole > 0.5 ? whole + 1 : whole;
}

/* Exact; the result has the sign of x. Quotients below 2^28 and their product with y are exact in double. */
static inline float fmod_f32(float x, float y) {
  const double q = (double)x / (double)y;
  if (!(fabs(q) < 0x1p28) || fabsf(y) == INFINITY) return fmodf(x, y);
  return copysignf((float)((double)x - trunc(q) * (double)y), x);
}
static inline double fmod_f64(double x, double y) { return fmod(x, y); }

/* The result has the sign of y. */
static inline float remainder_f32(float x, float y) {
  const float r = fmod_f32(x, y);
  return r != 0 && (y < 0) != (r < 0) ? r + y : r;
}
static inline double remainder_f64(double x, double y) {
  const double r = fmod(x, y);
  return r != 0 && (y < 0) != (r < 0) ? r + y : r;
}

/* ---- logarithms of sums ------------------------------------------------------------------------------------------ */

/* log(1 + e^-|x|), within 3 ULP in float. With s = e / (2 + e) <= 1/3 it is 2 atanh(s); the series' term in s^15 is
 * below float precision. */
static inline float log1p_exp_minus_f32(float x) {
  const float e = vexp_f32(-fabsf(x)), s = e / (2 + e), t = s * s;
  const float p = HORNER_5(CORE_MAD, t, 2.0f / 3, 2.0f / 5, 2.0f / 7, 2.0f / 9, 2.0f / 11, 2.0f / 13);
  return s * t * p + 2 * s;
}
static inline double log1p_exp_minus_f64(double x) { return log1p(exp(-fabs(x))); }

static inline double wide_log1p_exp_minus(double x) { return wide_log1p(wide_exp(-fabs(x))); }

/* log(e^x + e^y), computed as max(x, y) + log(1 + e^-|x - y|). Two equal infinities give that infinity. */
static inline float log_add_exp_f32(float x, float y) {
  const float larger = x > y || x != x ? x : y;
  const double added = wide_log1p_exp_minus((double)x - (double)y);
  return x == y && fabsf(x) == INFINITY ? x : (float)((double)larger + added);
}
static inline double log_add_exp_f64(double x, double y) {
  return x == y && fabs(x) == INFINITY ? x : (x > y || x != x ? x : y) + log1p(exp(-fabs(x - y)));
}
static inline float log_add_exp2_f32(float x, float y) {
  const float larger = x > y || x != x ? x : y;
  const double added = wide_log1p_exp_minus(((double)x - (double)y) * LN2) * LOG2E;
  return x == y && fabsf(x) == INFINITY ? x : (float)((double)larger + added);
}
static inline double log_add_exp2_f64(double x, double y) {
  return x == y && fabs(x) == INFINITY ? x : (x > y || x != x ? x : y) + log1p(exp2(-fabs(x - y))) * LOG2E;
}

/* log(x) and log(1 - x), but at least -100: binary cross entropy uses this value for the logarithm of 0. */
static inline float log_bounded_of(float x, double log_x) {
  const float l = x > 0 ? (float)log_x : x == 0 ? -100 : NAN;
  return l < -100 ? -100 : l;
}
static inline float log_bounded_f32(float x) { return log_bounded_of(x, wide_log(x)); }
static inline float log1m_bounded_f32(float x) { return log_bounded_of(1 - x, wide_log1p(-(double)x)); }
static inline double log_bounded_f64(double x) { return log(x) < -100 ? -100 : log(x); }
static inline double log1m_bounded_f64(double x) { return log1p(-x) < -100 ? -100 : log1p(-x); }

/* ---- by compute type --------------------------------------------------------------------------------------------- */

#define OF_FLOATS(f, x, y)   _Generic((x), float : f##_f32, double : f##_f64)(x, y)
#define OF_INTEGERS(f, x, y) _Generic((x), int32_t : f##_i32, int64_t : f##_i64)(x, y)

#define OF_NUMBERS(f, x, y) _Generic((x), float : f##_f32, double : f##_f64, int32_t : f##_i32, int64_t : f##_i64)(x, y)

#define TRUNC_DIV(x, y) OF_NUMBERS(trunc_div, x, y)
#define FLOOR_DIV(x, y) OF_NUMBERS(floor_div, x, y)
#define FMOD(x, y)      OF_NUMBERS(fmod, x, y)
#define REMAINDER(x, y) OF_NUMBERS(remainder, x, y)

#define POWER(x, y) _Generic((x), float : vpow_f32, double : vpow_f64, int32_t : power_i32, int64_t : power_i64)(x, y)

#define NEXT_AFTER(x, y)   _Generic((x), float : nextafterf, double : nextafter)(x, y)
#define LOG_ADD_EXP(x, y)  OF_FLOATS(log_add_exp, x, y)
#define LOG_ADD_EXP2(x, y) OF_FLOATS(log_add_exp2, x, y)
#define LOG1P_EXP_MINUS(x) _Generic((x), float : log1p_exp_minus_f32, double : log1p_exp_minus_f64)(x)
#define LOG_BOUNDED(x)     _Generic((x), float : log_bounded_f32, double : log_bounded_f64)(x)
#define LOG1M_BOUNDED(x)   _Generic((x), float : log1m_bounded_f32, double : log1m_bounded_f64)(x)
#define GCD(x, y)          OF_INTEGERS(gcd, x, y)
#define LCM(x, y)          OF_INTEGERS(lcm, x, y)
#define ROUND_TO(x, y)     OF_INTEGERS(round_to, x, y)
#define SHIFT_LEFT(x, y)   OF_INTEGERS(shift_left, x, y)
#define SHIFT_RIGHT(x, y)  OF_INTEGERS(shift_right, x, y)

/* ROUND_BY rounds x by a mode: 0 to nearest, 1 up, 2 down, 3 towards 0. */
#define ROUND_BY(how, x) ((how) == 0 ? ROUND(x) : (how) == 1 ? CEIL(x) : (how) == 2 ? FLOOR(x) : TRUNC(x))

#define LARGER(x, y)  ((x) != (x) || (x) > (y) ? (x) : (y))
#define SMALLER(x, y) ((x) != (x) || (x) < (y) ? (x) : (y))

/* The same for y that is not NaN: GCC 12 does not vectorise nested uses of the above. */
#define AT_LEAST(y, x) ((x) <= (y) ? (y) : (x))
#define AT_MOST(y, x)  ((x) >= (y) ? (y) : (x))

#endif
