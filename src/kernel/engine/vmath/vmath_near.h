/* SPDX-License-Identifier: Apache-2.0 */
/* sin, cos and tan of floats up to NEAR in absolute value, in `core` and without the table look-ups that prevent
 * vectorisation of those in vmath_wide.h: the multiple of pi/2 is subtracted in three steps (Cody and Waite's
 * method). */
#ifndef CANNON_KERNEL_ENGINE_VMATH_VMATH_NEAR_H
#define CANNON_KERNEL_ENGINE_VMATH_VMATH_NEAR_H

#include "kernel/engine/vmath/vmath.h"

#define NEAR 0x1p16f /* the quotient by pi/2 is below 2^16 */

/* pi/2 as a sum. Subtracting a multiple of the first term causes no rounding: in float the difference is a multiple of
 * 2^-24 below 1, and the product is fused; in double the product has 17 + 33 bits. */
#define WIDE_HALF_PI_1 0x1.921fb544p+0
#define WIDE_HALF_PI_2 0x1.0b4611a626331p-34
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#  define HALF_PI_1 0x1.921fb6p+0
#  define HALF_PI_2 -0x1.777a5cp-25
#  define HALF_PI_3 -0x1.ee59dap-50
#else
#  define HALF_PI_1 WIDE_HALF_PI_1
#  define HALF_PI_2 WIDE_HALF_PI_2
#  define HALF_PI_3 0.0
#endif

/* Returns the integer k nearest to x / (pi/2); k is also in the low bits of *n. */
static inline core near_turns(float x, core_bits *n) {
  const core shifted = CORE_MAD((core)x, (core)0x1.45f306dc9c883p-1, CORE_ROUND);
  *n = bits_of_core(shifted);
  return shifted - CORE_ROUND;
}

/* Returns r = x - k pi/2 to within a ULP; |r| is at most 0.8. */
static inline core near_turn(float x, core_bits *n) {
  const core k = near_turns(x, n);
  return CORE_MAD(k, (core)-HALF_PI_3, CORE_MAD(k, (core)-HALF_PI_2, CORE_MAD(k, (core)-HALF_PI_1, (core)x)));
}

static inline core near_sin_core(core r) {
  const core u = r * r;
  /* (sin(r) - r) / r^3 in r^2 up to 0.64: 2^-32 */
  const core p =
      HORNER_3(CORE_MAD, u, (core)-0x1.555556p-3, (core)0x1.111170p-7, (core)-0x1.a0540ap-13, (core)0x1.7a9270p-19);
  return CORE_MAD(r * u, p, r);
}
static inline core near_cos_core(core r) {
  const core u = r * r, w = CORE_MAD(u, (core)-0.5, 1);
  /* (cos(r) - 1 + r^2/2) / r^4 in r^2 up to 0.64: 2^-32 */
  const core p = HORNER_2(CORE_MAD, u, (core)0x1.555548p-5, (core)-0x1.6c0af4p-10, (core)0x1.999116p-16);
  return CORE_MAD(u * u, p, w);
}

static inline float near_sin(float x) {
  core_bits n;
  const core r = near_turn(x, &n), s = near_sin_core(r), c = near_cos_core(r), v = n & 1 ? c : s;
  return x == 0 ? x : (float)(n & 2 ? -v : v);
}
static inline float near_cos(float x) {
  core_bits n;
  const core r = near_turn(x, &n), s = near_sin_core(r), c = near_cos_core(r), v = n & 1 ? s : c;
  return (float)((n + 1) & 2 ? -v : v);
}
/* The quotient is computed in double, since a quotient of floats would lose too much precision. */
static inline float near_tan(float x) {
  core_bits n;
  const double k = near_turns(x, &n), r = WIDE_MAD(k, -WIDE_HALF_PI_2, WIDE_MAD(k, -WIDE_HALF_PI_1, x));
  const double s = wide_sin_core(r), c = wide_cos_core(r);
  const double over = n & 1 ? -c : s, under = n & 1 ? s : c; /* one division */
  return x == 0 ? x : (float)(over / under);
}

#endif
