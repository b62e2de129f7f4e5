/* SPDX-License-Identifier: Apache-2.0 */
/* Vector math: elementary functions in plain C without branches, so that compilers turn loops over them into vector
 * code. Included by *_level.c files, once per instruction set level. All functions are pure.
 *
 *   vmath.h         the float functions that training and inference use most, computed in `core`: float where there is
 *                   a fused multiply-add, else double
 *   vmath_16.h      some of these on 16 lanes of AVX-512, by other methods
 *   vmath_near.h    sin, cos and tan of all but large floats
 *   vmath_wide.h    all other float functions, computed in double and rounded once
 *   vmath_double.h  double functions, by the C library
 *   vmath_special.h special functions, in double for both types
 *
 * v<name>_f32 is within the bound that tests/unit/vmath.c states for it, at most 2 ULP, for all floats, including
 * denormal results. At minus infinity gelu, silu and mish are their limit, -0. Polynomials are minimax fits on the
 * interval noted with them, which also gives the relative error of the whole function; coefficients start with the
 * lowest power. */
#ifndef CANNON_KERNEL_ENGINE_VMATH_VMATH_H
#define CANNON_KERNEL_ENGINE_VMATH_VMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* HORNER_n(mad, x, c0, ... cn): c0 + c1 x + ... + cn x^n by mad(a, b, c) = a b + c. */
#define HORNER_1(mad, x, a, b)    mad(x, b, a)
#define HORNER_2(mad, x, a, ...)  mad(x, HORNER_1(mad, x, __VA_ARGS__), a)
#define HORNER_3(mad, x, a, ...)  mad(x, HORNER_2(mad, x, __VA_ARGS__), a)
#define HORNER_4(mad, x, a, ...)  mad(x, HORNER_3(mad, x, __VA_ARGS__), a)
#define HORNER_5(mad, x, a, ...)  mad(x, HORNER_4(mad, x, __VA_ARGS__), a)
#define HORNER_6(mad, x, a, ...)  mad(x, HORNER_5(mad, x, __VA_ARGS__), a)
#define HORNER_7(mad, x, a, ...)  mad(x, HORNER_6(mad, x, __VA_ARGS__), a)
#define HORNER_8(mad, x, a, ...)  mad(x, HORNER_7(mad, x, __VA_ARGS__), a)
#define HORNER_9(mad, x, a, ...)  mad(x, HORNER_8(mad, x, __VA_ARGS__), a)
#define HORNER_10(mad, x, a, ...) mad(x, HORNER_9(mad, x, __VA_ARGS__), a)
#define HORNER_11(mad, x, a, ...) mad(x, HORNER_10(mad, x, __VA_ARGS__), a)
#define HORNER_12(mad, x, a, ...) mad(x, HORNER_11(mad, x, __VA_ARGS__), a)
#define HORNER_13(mad, x, a, ...) mad(x, HORNER_12(mad, x, __VA_ARGS__), a)
#define HORNER_14(mad, x, a, ...) mad(x, HORNER_13(mad, x, __VA_ARGS__), a)

/* The core type. In double, the steps that compensate for a float's rounding are superfluous but harmless. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
typedef float core;
typedef uint32_t core_bits;
typedef int32_t core_int;
#  define CORE_MAD(a, b, c) __builtin_fmaf(a, b, c)
#  define WIDE_MAD(a, b, c) __builtin_fma(a, b, c)
/* x plus this constant is x rounded to an integer, which is also in the low bits */
#  define CORE_ROUND 0x1.8p23f
enum { CORE_MANTISSA = 23, CORE_BIAS = 127 };
#else
typedef double core;
typedef uint64_t core_bits;
typedef int64_t core_int;
#  define CORE_MAD(a, b, c) ((a) * (b) + (c))
#  define WIDE_MAD(a, b, c) ((a) * (b) + (c))
#  define CORE_ROUND        0x1.8p52
enum { CORE_MANTISSA = 52, CORE_BIAS = 1023 };
#endif

#define LOG2E  0x1.71547652b82fep0
#define LN2    0x1.62e42fefa39efp-1
#define LN2_HI 0x1.62e4p-1 /* its product with an exponent is exact in float */
#define LN2_LO 0x1.7f7d1cf79abcap-20

static inline core core_of_bits(core_bits bits) {
  core x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
static inline core_bits bits_of_core(core x) {
  core_bits bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* ---- exp and what is made of it ---------------------------------------------------------------------------------- */

/* e^r - 1 for |r| <= ln(2)/2; NaN for NaN. */
static inline core vexp_s(core r) {
  /* (e^r - 1 - r) / r^2: 2^-30 */
  const core p = HORNER_5(CORE_MAD, r, (core)0x1p-1, (core)0x1.555556p-3, (core)0x1.5554e8p-5, (core)0x1.1110e0p-7,
                          (core)0x1.6d43b0p-10, (core)0x1.a1256cp-13);
  return CORE_MAD(r * r, p, r);
}

/* Splits the argument x of exp: returns s = e^r - 1 and sets *shifted to CORE_ROUND + n, where x = r + n log(2). */
static inline core vexp_s_at(core x, core *shifted) {
  *shifted = CORE_MAD(x, (core)LOG2E, CORE_ROUND);
  const core n = *shifted - CORE_ROUND;
  return vexp_s(CORE_MAD(n, (core)-LN2_LO, CORE_MAD(n, (core)-LN2_HI, x)));
}

/* (1 + s) 2^n by two powers of 2, so that a denormal result is rounded only once, by the last multiplication. n is
 * computed with twice the exponent bias added, of which each power gets half. */
static inline float vexp_f32(float x) {
  const float below = 89 < x ? 89 : x, c = -105 > below ? -105 : below;
  const core BIASED = CORE_ROUND + 2 * CORE_BIAS, shifted = CORE_MAD((core)c, (core)LOG2E, BIASED),
             n = shifted - BIASED;
  const core s = vexp_s(CORE_MAD(n, (core)-LN2_LO, CORE_MAD(n, (core)-LN2_HI, (core)c)));
  const core_bits biased = bits_of_core(shifted), half = biased >> 1; /* only low bits count */
  return (float)((1 + s) * core_of_bits(half << CORE_MANTISSA) * core_of_bits((biased - half) << CORE_MANTISSA));
}

/* w / (1 + e^-x), given s and shifted of e^-x, for x from -LOGISTIC_RANGE to 60; w is 1 or proportional to x. The
 * denominator is scaled by 2^-40, so that the last multiplication rounds denormal results. The sum of 1 and the power
 * of 2 is exact unless the power is far above 1. */
static inline float vmath_logistic(core w, core s, core shifted) {
  const core unit = (core)0x1p-40;
  const core power = core_of_bits((bits_of_core(shifted) + CORE_BIAS - 40) << CORE_MANTISSA);
  const int is_large = power > (core)0x1p-20;
  const core sum = CORE_MAD(power, s, is_large ? unit : power + unit), denominator = is_large ? sum + power : sum;
  return (float)(w / denominator * unit);
}

enum {
  LOGISTIC_RANGE = 112, /* below minus this, x e^x is 0 */
  LOGISTIC_IS_1 = 18,   /* at and above */
};

static inline float vsigmoid_f32(float x) {
  const float below = LOGISTIC_IS_1 < x ? LOGISTIC_IS_1 : x, c = -LOGISTIC_RANGE > below ? -LOGISTIC_RANGE : below;
  core shifted;
  const core s = vexp_s_at(-c, &shifted);
  return vmath_logistic(1, s, shifted);
}

static inline float vsilu_f32(float x) {
  const float w = -LOGISTIC_RANGE > x ? -LOGISTIC_RANGE : x, c = LOGISTIC_IS_1 < w ? LOGISTIC_IS_1 : w;
  core shifted;
  const core s = vexp_s_at(-c, &shifted);
  const float y = vmath_logistic(w, s, shifted);
  return LOGISTIC_IS_1 < x ? x : y;
}

/* x sigmoid(y) with y = sqrt(8/pi) (x + 0.044715 x^3). A float is not precise enough for y as the exponential's
 * argument. */
static inline float vgelu_tanh_f32(float x) {
  const float w = -11 > x ? -11 : x; /* y is -112 at x = -11 and 49 at x = 8 */
  const double wide = 8 < w ? 8 : w, y = wide * WIDE_MAD(wide * wide, -0x1.2444f2a4d8b4bp-4, -0x1.9884533d43651p0);
  const double shifted = WIDE_MAD(y, LOG2E, 0x1.8p52), n = shifted - 0x1.8p52;
  const float z = vmath_logistic(w, vexp_s((core)WIDE_MAD(n, -LN2, y)), (core)n + CORE_ROUND);
  return 8 < x ? x : z;
}

/* A polynomial below 0.6, where 1 - 2/(e^2x + 1) would cancel. */
static inline float vtanh_f32(float x) {
  const float a = fabsf(x), c = 10 < a ? 10 : a;
  core shifted;
  const core s = vexp_s_at(2 * (core)c, &shifted);
  const core power = (1 + s) * core_of_bits((bits_of_core(shifted) + CORE_BIAS) << CORE_MANTISSA);
  const core large = 1 - 2 / (power + 1), x2 = (core)x * x;
  /* (tanh(x) - x) / x^3 in x^2 up to 0.36: 2^-28 */
  const core p = HORNER_5(CORE_MAD, x2, (core)-0x1.555556p-2, (core)0x1.1110f6p-3, (core)-0x1.ba0d94p-5,
                          (core)0x1.64fad8p-6, (core)-0x1.1394cap-7, (core)0x1.36bdb2p-9);
  const core small = CORE_MAD(a * x2, p, (core)a);
  return copysignf((float)(a < 0.6f ? small : large), x);
}

/* 2^n 2^64, a factor of exp for arguments in [-180, 0]: one more multiplication, by 2^-64, rounds. */
static inline core vlifted_power(core shifted) {
  return core_of_bits((bits_of_core(shifted) + CORE_BIAS + 64) << CORE_MANTISSA);
}

/* x Phi(x). With t = |x|, Phi(-t) = e^(-t^2/2) R(t); R is a polynomial up to t = 2.1, and t R is one in 1/t beyond. */
static inline float vgelu_f32(float x) {
  const float a = fabsf(x);
  const core t = 14.7f < a ? 14.7f : a;
  const core half = t * (core)0.5, h = half * t, h_low = CORE_MAD(half, t, -h); /* t^2/2 = h + h_low */
  const core shifted = CORE_MAD(h, (core)-LOG2E, CORE_ROUND), n = shifted - CORE_ROUND;
  const core r = CORE_MAD(n, (core)-LN2_HI, -h) - CORE_MAD(n, (core)LN2_LO, h_low);
  const core s = vexp_s(r);
  /* Each polynomial's argument is the distance from a point where the leading coefficient is nearly a float: 2^-25,
   * 2^-26.6 */
  const core near = t - (core)0x1.fbe01ep-1, v = 1 / t, far = v - (core)0x1.e14e96p-3;
  const core near_slope =
      HORNER_9(CORE_MAD, near, (core)-0x1.1b617cp-3, (core)0x1.00e390p-4, (core)-0x1.9febb6p-6, (core)0x1.33809cp-7,
               (core)-0x1.a5a19ep-9, (core)0x1.0e4472p-10, (core)-0x1.444454p-12, (core)0x1.8131d8p-14,
               (core)-0x1.eb3090p-16, (core)0x1.b077dap-18);
  const core far_slope = HORNER_8(CORE_MAD, far, (core)-0x1.2451c2p-3, (core)-0x1.4fd090p-3, (core)0x1.91a2bep-2,
                                  (core)-0x1.27e28ap-2, (core)-0x1.9a14ccp-2, (core)0x1.969648p+0, (core)-0x1.f80116p+0,
                                  (core)-0x1.e1f45ap-1, (core)0x1.0b1934p+2);
  const core SPLIT = 2.1f;
  const core slope = t < SPLIT ? near_slope : far_slope, distance = t < SPLIT ? near : far;
  const core leading = t < SPLIT ? (core)0x1.0cfe52p-2 : (core)0x1.84eecep-2;
  /* R or t R, and its rounding error; the result needs t R. */
  const core ratio = CORE_MAD(distance, slope, leading), low = CORE_MAD(distance, slope, leading - ratio);
  const core factor = t < SPLIT ? t : 1;
  const core added = CORE_MAD(ratio, s, low), sum = ratio + added, sum_low = added - (sum - ratio);
  const core tail = CORE_MAD(factor, sum, factor * sum_low) * vlifted_power(shifted) * (core)0x1p-64;
  return (float)((x < 0 ? (core)-0.0 : (core)x) - tail);
}

/* x + x p(x^2) below 0.92; 1 - e^q with q = log(erfc(|x|)) beyond. */
static inline float verf_f32(float x) {
  const float a = fabsf(x);
  const core t = 3.95f < a ? 3.95f : a, u = t * t;
  /* (erf(x) - x) / x in x^2 up to 0.86: 2^-25 */
  const core p = HORNER_5(CORE_MAD, u, (core)0x1.06eba6p-3, (core)-0x1.8126e0p-2, (core)0x1.ce197ap-4,
                          (core)-0x1.b67d8ap-6, (core)0x1.46e9e4p-8, (core)-0x1.38c794p-11);
  /* log(erfc(t)) / t + 1 on [0.92, 3.95]: 2^-28 of erf */
  const core q = HORNER_5(CORE_MAD, t, (core)-0x1.07328ap-3, (core)-0x1.457cdep-1, (core)-0x1.af2714p-4,
                          (core)0x1.770790p-6, (core)-0x1.a56442p-9, (core)0x1.c0c2d0p-13);
  core shifted;
  const core s = vexp_s_at(CORE_MAD(t, q, -t), &shifted);
  const core scale = core_of_bits((bits_of_core(shifted) + CORE_BIAS) << CORE_MANTISSA);
  const core large = CORE_MAD(-scale, s, 1 - scale), small = CORE_MAD(t, p, t);
  return copysignf((float)(t < 0.92f ? small : large), x);
}

/* ---- log --------------------------------------------------------------------------------------------------------- */

static inline float vlog_f32(float x) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  const int is_tiny = x < 0x1p-126f;
  const core scaled = is_tiny ? x * 0x1p23f : x, k_offset = is_tiny ? -23 : 0;
  const core_bits TWO_THIRDS = 0x3f2aaaab;
#else
  const core scaled = x, k_offset = 0;
  const core_bits TWO_THIRDS = 0x3fe5555555555555;
#endif
  /* x = (1 + f) 2^k with 1 + f in [2/3, 4/3) */
  const core_bits distance = bits_of_core(scaled) - TWO_THIRDS;
  const core k = (core)(int32_t)((core_int)distance >> CORE_MANTISSA) + k_offset;
  const core f = core_of_bits((distance & (((core_bits)1 << CORE_MANTISSA) - 1)) + TWO_THIRDS) - 1;
  /* (log(1 + f) - f) / f^2: 2^-26.6 */
  const core p = HORNER_8(CORE_MAD, f, (core)-0x1p-1, (core)0x1.55552cp-2, (core)-0x1.ffffb6p-3, (core)0x1.99bf86p-3,
                          (core)-0x1.557832p-3, (core)0x1.1fdcf0p-3, (core)-0x1.f75896p-4, (core)0x1.1990bcp-3,
                          (core)-0x1.fcd036p-4);
  const float normal = (float)CORE_MAD(k, (core)LN2, CORE_MAD(f * f, p, f));
  return x > 0 ? (x < INFINITY ? normal : x) : x == 0 ? -INFINITY : NAN;
}

#include "kernel/engine/vmath/vmath_double.h"
#include "kernel/engine/vmath/vmath_wide.h"

#include "kernel/engine/vmath/vmath_special.h"

#endif
