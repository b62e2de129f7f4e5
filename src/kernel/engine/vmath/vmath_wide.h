/* SPDX-License-Identifier: Apache-2.0 */
/* Float functions computed in double and rounded once, with errors slightly above half a ULP; see vmath.h. The wide_*
 * functions are their cores in double, with relative errors of some 2^-33 for all values that floats can have. */
#ifndef CANNON_KERNEL_ENGINE_VMATH_VMATH_WIDE_H
#define CANNON_KERNEL_ENGINE_VMATH_VMATH_WIDE_H

#include <float.h>

#include "kernel/engine/vmath/vmath_pi.h"

#define PI    0x1.921fb54442d18p1
#define ROUND 0x1.8p52 /* x plus this constant is x rounded to an integer, which is also in the low bits */

static inline double double_of_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
static inline uint64_t bits_of_double(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
static inline double wide_clamp(double x, double low, double high) {
  const double c = high < x ? high : x;
  return low > c ? low : c; /* NaN propagates */
}

/* ---- exp --------------------------------------------------------------------------------------------------------- */

/* e^x = (1 + s) 2^n: wide_exp_s gives s of the remainder r, vpower_of_2 gives 2^n of ROUND + n. */
static inline double wide_exp_s(double r) {
  /* (e^r - 1 - r) / r^2 on +-ln(2)/2: 2^-42 */
  const double p =
      HORNER_7(WIDE_MAD, r, 0x1.fffffffffe069p-2, 0x1.5555555554f97p-3, 0x1.55555565c559fp-5, 0x1.111111170ad56p-7,
               0x1.6c166be75a859p-10, 0x1.a019c3721fb3ep-13, 0x1.a136b06babd51p-16, 0x1.72ad3ae3ed777p-19);
  return WIDE_MAD(r * r, p, r);
}
static inline double vpower_of_2(double shifted) { return double_of_bits((bits_of_double(shifted) + 1023) << 52); }

/* exp with the argument clamped, so that the product of the result with any float is 0 or infinite as a float at the
 * ends. */
static inline double wide_exp(double x) {
  const double c = wide_clamp(x, -700, 130), shifted = WIDE_MAD(c, LOG2E, ROUND);
  const double s = wide_exp_s(WIDE_MAD(shifted - ROUND, -LN2, c)), scale = vpower_of_2(shifted);
  return WIDE_MAD(scale, s, scale);
}
static inline double wide_expm1(double x) {
  const double c = wide_clamp(x, -700, 130), shifted = WIDE_MAD(c, LOG2E, ROUND);
  const double s = wide_exp_s(WIDE_MAD(shifted - ROUND, -LN2, c)), scale = vpower_of_2(shifted);
  return WIDE_MAD(scale, s, scale - 1);
}

static inline float vexp2_f32(float x) {
  const double c = wide_clamp(x, -160, 160), shifted = c + ROUND;
  const double s = wide_exp_s((c - (shifted - ROUND)) * LN2), scale = vpower_of_2(shifted);
  return (float)WIDE_MAD(scale, s, scale);
}
static inline float vexpm1_f32(float x) { return x == 0 ? x : (float)wide_expm1(x); }
static inline float vsinh_f32(float x) {
  const double e = wide_expm1(fabsf(x));
  return copysignf((float)(0.5 * (e + e / (e + 1))), x);
}
static inline float vcosh_f32(float x) {
  const double e = wide_exp(fabsf(x));
  return (float)(0.5 * (e + 1 / e));
}

/* ---- log --------------------------------------------------------------------------------------------------------- */

/* log of positive, normal, finite numbers. */
static inline double wide_log(double x) {
  /* x = m 2^k with m in [sqrt(1/2), sqrt(2)) */
  const uint64_t SQRT_HALF = 0x3fe6a09e667f3bcdu, distance = bits_of_double(x) - SQRT_HALF;
  const double k = (double)((int32_t)(distance >> 32) >> 20);
  const double m = double_of_bits((distance & 0x000fffffffffffffu) + SQRT_HALF);
  const double s = (m - 1) / (m + 1), s2 = s * s;
  /* (2 atanh(s) - 2 s) / s^3 in s^2 up to 0.0295: 2^-43 */
  const double p = HORNER_4(WIDE_MAD, s2, 0x1.5555555564efdp-1, 0x1.999998cab7ee5p-2, 0x1.2493241b15160p-2,
                            0x1.c67abf1b5cbc4p-3, 0x1.8c8e1c73a2570p-3);
  return WIDE_MAD(k, LN2, WIDE_MAD(s * s2, p, 2 * s));
}
/* log(1 + x) for x > -1. The rounding error of u = 1 + x matters for u near 1; for a large u it is negligible. */
static inline double wide_log1p(double x) {
  const double u = 1 + x;
  return wide_log(u) + (x < 1 ? x - (u - 1) : 0);
}
/* The results for arguments x that the core of the logarithm does not cover. */
static inline float vlog_ends(float x, double normal) {
  return x > 0 ? (x < INFINITY ? (float)normal : x) : x == 0 ? -INFINITY : NAN;
}

static inline float vlog2_f32(float x) { return vlog_ends(x, wide_log(x) * LOG2E); }
static inline float vlog10_f32(float x) { return vlog_ends(x, wide_log(x) * 0x1.bcb7b1526e50ep-2); }
static inline float vlog1p_f32(float x) {
  const float y = x > -1 ? (x < INFINITY ? (float)wide_log1p(x) : x) : x == -1 ? -INFINITY : NAN;
  return x == 0 ? x : y;
}
static inline float vasinh_f32(float x) {
  const double a = fabsf(x), large = wide_log1p(a + a * a / (1 + sqrt(a * a + 1)));
  return copysignf(a < (double)INFINITY ? (float)large : fabsf(x), x);
}
static inline float vacosh_f32(float x) {
  const double t = (double)x - 1;
  return x >= 1 ? (x < INFINITY ? (float)wide_log1p(t + sqrt(t * (t + 2))) : x) : NAN;
}
static inline float vatanh_f32(float x) {
  const double a = fabsf(x);
  const float y = a < 1 ? (float)(0.5 * wide_log1p(2 * a / (1 - a))) : a == 1 ? INFINITY : NAN;
  return copysignf(y, x);
}

/* Special cases of pow: negative bases with odd exponents, 0 and infinity, and 1 for x^0 and 1^y whatever the other
 * operand is. */
static inline float vpow_f32(float x, float y) {
  const float a = fabsf(x), b = fabsf(y), half = y * 0.5f;
  const int is_integer = rintf(y) == y, is_odd = is_integer & (rintf(half) != half);
  const double l = a == 0 ? (double)-INFINITY : a < INFINITY ? wide_log(a) : (double)a;
  const float magnitude = (float)wide_exp(l * y);
  const int is_unreal = (x < 0) & !is_integer & (a < INFINITY),
            is_one = (x == 1) | (y == 0) | ((x == -1) & (b == INFINITY));
  const float real = is_unreal ? NAN : magnitude;
  const float r = is_odd ? copysignf(real, x) : real;
  return is_one ? 1 : r;
}

/* ---- trigonometry ------------------------------------------------------------------------------------------------ */

/* sin and cos of r for |r| <= pi/4, with relative errors of 2^-46 and 2^-49. */
static inline double wide_sin_core(double r) {
  const double u = r * r;
  return WIDE_MAD(r * u,
                  HORNER_4(WIDE_MAD, u, -0x1.555555555516bp-3, 0x1.1111110fd3d43p-7, -0x1.a019fd9b35ee5p-13,
                           0x1.71d9a9f41c5a9p-19, -0x1.aa285788aaa42p-26),
                  r);
}
static inline double wide_cos_core(double r) {
  const double u = r * r;
  return WIDE_MAD(u * u,
                  HORNER_4(WIDE_MAD, u, 0x1.5555555555437p-5, -0x1.6c16c16b614fcp-10, 0x1.a019ff53a6a1cp-16,
                           -0x1.27e25f4bb4e6fp-22, 0x1.1c81c3531fff2p-29),
                  WIDE_MAD(u, -0.5, 1.0));
}

/* x = r + n pi/2 for any finite x, with n modulo 4 in the low bits: x 2^-k times (2/pi 2^k modulo 4), the latter in
 * three terms, of which the first two have exact products with a float (Payne and Hanek's method). */
static inline double vreduce_turn(float x, uint64_t *n) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  const int32_t exponent = (int32_t)(bits >> 23 & 255) - 127;
  const int32_t k = exponent < 24 ? 0 : exponent > 127 ? 103 : exponent - 24;
  const double scaled = (double)x * double_of_bits((uint64_t)(1023 - k) << 52);
  const double a = scaled * TWO_OVER_PI_HIGH[k], a_shifted = a + ROUND;
  const double b = (a - (a_shifted - ROUND)) + scaled * TWO_OVER_PI_MIDDLE[k];
  const double c = WIDE_MAD(scaled, TWO_OVER_PI_LOW[k], b);
  *n = bits_of_double(a_shifted);
  return c * (PI / 2);
}

static inline float vsin_f32(float x) {
  uint64_t n;
  const double r = vreduce_turn(x, &n), v = n & 1 ? wide_cos_core(r) : wide_sin_core(r);
  const float y = (float)(n & 2 ? -v : v);
  return fabsf(x) < INFINITY ? (x == 0 ? x : y) : NAN;
}
static inline float vcos_f32(float x) {
  uint64_t n;
  const double r = vreduce_turn(x, &n), v = n & 1 ? wide_sin_core(r) : wide_cos_core(r);
  return fabsf(x) < INFINITY ? (float)((n + 1) & 2 ? -v : v) : NAN;
}
static inline float vtan_f32(float x) {
  uint64_t n;
  const double r = vreduce_turn(x, &n), s = wide_sin_core(r), c = wide_cos_core(r);
  const float y = (float)(n & 1 ? -c / s : s / c);
  return fabsf(x) < INFINITY ? (x == 0 ? x : y) : NAN;
}
/* sin(pi x) / (pi x), exactly 0 at integers. */
static inline float vsinc_f32(float x) {
  const double half = (double)x * 0.5, turns = half < 0x1p50 && half > -0x1p50 ? half : 0;
  const double left = turns - ((turns + ROUND) - ROUND); /* in whole turns, within +-1/2 */
  const double shifted = WIDE_MAD(left, 4.0, ROUND), r = (left - (shifted - ROUND) * 0.25) * (2 * PI);
  const uint64_t n = bits_of_double(shifted);
  const double v = n & 1 ? wide_cos_core(r) : wide_sin_core(r);
  const float y = (float)((n & 2 ? -v : v) / (PI * (double)x));
  return x == 0 ? 1 : fabsf(x) < INFINITY ? y : x != x ? x : 0;
}

static inline double wide_atan(double x) {
  const double a = fabs(x), z = a > 1 ? 1 / a : a, u = z * z;
  /* atan(z) / z in z^2 up to 1: 2^-33.7 */
  const double p = z * HORNER_11(WIDE_MAD, u, 0x1.ffffffff64898p-1, -0x1.555553f671b9ap-2, 0x1.999914dc909cfp-3,
                                 -0x1.2488519fa5a60p-3, 0x1.c6533dfc9a77bp-4, -0x1.6f95036b2d2f5p-4,
                                 0x1.2811fdeff7003p-4, -0x1.ba035c4e8d652p-5, 0x1.151ab904c9279p-5,
                                 -0x1.0354cc23b8650p-6, 0x1.3625e8d6eefb9p-8, -0x1.5bcf6e5741041p-11);
  return copysign(a > 1 ? PI / 2 - p : p, x);
}
static inline float vatan_f32(float x) { return (float)wide_atan(x); }

static inline float vatan2_f32(float y, float x) {
  const double a = fabsf(y), b = fabsf(x);
  const double ratio = a == b ? (a == 0 ? 0 : 1) : a / b; /* 0/0 and inf/inf: decided by the signs */
  const double angle = wide_atan(ratio);
  return x != x || y != y ? NAN : copysignf((float)(signbit(x) ? PI - angle : angle), y);
}

/* asin directly below 1/2; beyond by asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)). */
static inline double wide_asin_core(double z, double u) {
  /* (asin(z) - z) / z^3 in z^2 up to 1/4: 2^-42 */
  const double p = HORNER_8(WIDE_MAD, u, 0x1.555555555ba9ep-3, 0x1.333333133277ep-4, 0x1.6db6f5e9d0b98p-5,
                            0x1.f1beb9c867b18p-6, 0x1.6f347e4a44c5dp-6, 0x1.14eefea06d8d9p-6, 0x1.144d1f0d0554dp-6,
                            0x1.17d722d86d4bep-10, 0x1.d06eddee004bep-6);
  return WIDE_MAD(z * u, p, z);
}
static inline float vasin_f32(float x) {
  const double a = fabsf(x), u = a > 0.5 ? (1 - a) * 0.5 : a * a, z = a > 0.5 ? sqrt(u) : a;
  const double p = wide_asin_core(z, u);
  return copysignf((float)(a > 0.5 ? PI / 2 - 2 * p : p), x);
}
static inline float vacos_f32(float x) {
  const double a = fabsf(x), u = a > 0.5 ? (1 - a) * 0.5 : a * a, z = a > 0.5 ? sqrt(u) : a;
  const double p = wide_asin_core(z, u);
  return (float)(a > 0.5 ? (x < 0 ? PI - 2 * p : 2 * p) : PI / 2 - copysign(p, (double)x));
}

/* ---- the error function ------------------------------------------------------------------------------------------ */

/* e^(a^2) erfc(a), 0 <= a < 10.6: 2^-39. */
static inline double wide_erfcx(double a) {
  const double v = 3 / (a + 3);
  return v * HORNER_14(WIDE_MAD, v, 0x1.8126c91ed36c7p-3, 0x1.8136a598c99a9p-3, 0x1.6ae6060b1d859p-3,
                       0x1.485b7e8a7f8dcp-3, 0x1.b29a20f1540eep-4, 0x1.6f9343d4678f8p-3, -0x1.ab8a92a9e8061p-3,
                       0x1.42204331f5630p-1, -0x1.03c66b2529f0fp+0, 0x1.41f52fb4154a5p+0, -0x1.20da174409f56p+0,
                       0x1.4fdf6e3dd425cp-1, -0x1.d9b32b5fef987p-3, 0x1.6d4b4a1afe895p-5, -0x1.ce230b58bb3e5p-9);
}
static inline double wide_erfc(double x) {
  const double a = wide_clamp(fabs(x), 0, 10.5), q = wide_exp(-a * a) * wide_erfcx(a);
  return x < 0 ? 2 - q : q;
}
static inline float verfc_f32(float x) { return (float)wide_erfc(x); }

/* x times a polynomial in w = -log(1 - x^2) or in its square root (Giles's method). */
static inline float verfinv_f32(float x) {
  const double a = fabsf(x), inside = a < 1 ? a : 0, w = -wide_log((1 - inside) * (1 + inside));
  const double v = w - 2.5, near = HORNER_13(WIDE_MAD, v, 0x1.805c5cfd043b8p+0, 0x1.f91e8993e00d7p-3,
                                             -0x1.11c3c460bbaa9p-8, -0x1.4863cd77abe81p-10, 0x1.c9b4a8432cb26p-13,
                                             -0x1.4f4953321e47ep-18, -0x1.caad4c1e3e31ap-19, 0x1.010dee4262f57p-21,
                                             0x1.d98cbaf0d1852p-27, -0x1.766c8259ffa5ap-27, 0x1.c2b58655749e5p-31,
                                             0x1.1ad437a7c6ac3p-33, -0x1.68f6b3af4b796p-36, -0x1.3ace65741c2d7p-42);
  const double s = sqrt(w) - 3, far = HORNER_13(WIDE_MAD, s, 0x1.6a9efbd670b37p+1, 0x1.006dca79c92c5p+0,
                                                0x1.3582c7d41ac77p-7, -0x1.f4f1a1bd6172cp-8, 0x1.74956a703d4ccp-8,
                                                -0x1.d278f22c97cc1p-9, 0x1.84fdef2474921p-10, -0x1.3720304da28cap-13,
                                                -0x1.29f026c2b329fp-12, 0x1.acbbca5c6c32ap-13, -0x1.6c3a2e5a97092p-15,
                                                -0x1.7d403dce26310p-16, 0x1.2b8cf00d0e00ap-16, -0x1.002b757675eeep-18);
  const float y = a < 1 ? (float)(a * (w < 5 ? near : far)) : a == 1 ? INFINITY : NAN;
  return copysignf(y, x);
}
static inline double verfinv_f64(double x) { return erfinv_from(x, (double)verfinv_f32((float)x)); }

/* ---- activations ------------------------------------------------------------------------------------------------- */

static inline float vrsqrt_f32(float x) { return (float)(1 / sqrt((double)x)); }

/* log(1 + e^x). */
static inline double wide_softplus(double x) {
  const double small = wide_exp(-fabs(x));
  return (x > 0 ? x : x == x ? 0 : x) + wide_log1p(small);
}
static inline float vsoftplus_f32(float x, float beta) { return (float)(wide_softplus((double)x * beta) / beta); }
static inline float vlog_sigmoid_f32(float x) { return (float)-wide_softplus(-(double)x); }

/* x tanh(softplus(x)) = x w / (w + 2), w = e^x (e^x + 2). */
static inline float vmish_f32(float x) {
  const double c = -150 > x ? -150 : x, e = wide_exp(c), w = e * (e + 2);
  return (float)(c * w / (w + 2));
}

static inline double wide_sigmoid(double x) {
  const double e = wide_exp(-fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}

/* x sigmoid(beta x). */
static inline float vswish_f32(float x, float beta) {
  const double c = wide_clamp(x, -FLT_MAX, (double)INFINITY);
  return (float)(c * wide_sigmoid(c * beta));
}

/* log(x / (1 - x)). Near 1/2, where this cancels, it is computed from the distance to 1/2. */
static inline float vlogit_f32(float x) {
  const double c = x, inside = c > 0 && c < 1 ? c : 0.5;
  const double middle = inside > 0.25 && inside < 0.75 ? (2 * inside - 1) / (1 - inside) : 0;
  const double y = middle != 0 ? wide_log1p(middle) : wide_log(inside / (1 - inside));
  return c > 0 && c < 1 ? (float)y : c == 0 ? -INFINITY : c == 1 ? INFINITY : NAN;
}

/* Derivatives. The slope of x times a step function has a root below 0, near which its terms cancel. Within 1/32 of the
 * root it is computed as the distance from the root times a polynomial, with a relative error of 2^-33. */
#define NEAR_ROOT(x, root_high, root_low, otherwise, ...)                                                              \
  ({                                                                                                                   \
    const double from_root_ = ((x) - (root_high)) - (root_low), otherwise_ = (otherwise);                              \
    fabs(from_root_) < 0x1p-5 ? from_root_ *HORNER_4(WIDE_MAD, from_root_, __VA_ARGS__) : otherwise_;                  \
  })
static inline float vsoftplus_slope_f32(float x, float beta) { return (float)wide_sigmoid((double)x * beta); }
static inline float vswish_slope_f32(float x, float beta) {
  const double c = wide_clamp(x, -FLT_MAX, FLT_MAX), z = wide_clamp(c * beta, -150, 150), e = wide_exp(-fabs(z));
  const double p = 1 / (1 + e), q = e * p; /* sigmoid(|z|), sigmoid(-|z|) */
  return (float)NEAR_ROOT(z, -0x1.474973c84120bp+0, -0x1.f8d74bc9ac154p-54, (z < 0 ? q : p) + z * p * q,
                          0x1.be14104605270p-3, 0x1.2c5634577f807p-3, 0x1.353eb5326119ep-6, -0x1.f2cf96bfdb41cp-7,
                          -0x1.b0e7d1f140df2p-8);
}
static inline float vgelu_slope_f32(float x) {
  const double c = wide_clamp(x, -14.8, 14.8), a = fabs(c), e = wide_exp(-0.5 * c * c);
  const double tail = 0.5 * e * wide_erfcx(a * M_SQRT1_2);
  return (float)NEAR_ROOT(c, -0x1.80ead197f00b4p-1, 0x1.13e74c58cada8p-56,
                          WIDE_MAD(c, 0x1.9884533d43651p-2 * e, c < 0 ? tail : 1 - tail), 0x1.b9d98fa5a3215p-2,
                          0x1.8d9a93ba76df4p-2, -0x1.2a2efb2f4dcefp-6, -0x1.d2e170b6a427bp-4, -0x1.e3da08dc737c2p-7);
}
static inline float vgelu_tanh_slope_f32(float x) {
  const double c = wide_clamp(x, -14.8, 14.8), c2 = c * c;
  const double y = c * WIDE_MAD(c2, 0x1.2444f2a4d8b4bp-4, 0x1.9884533d43651p0), e = wide_exp(-fabs(y));
  const double p = 1 / (1 + e), q = e * p, s = y < 0 ? q : p; /* sigmoid(|y|), sigmoid(-|y|) */
  return (float)NEAR_ROOT(c, -0x1.81429f9e97e4dp-1, 0x1.4f523ed77dbdcp-55,
                          s + c * p * q * WIDE_MAD(c2, 3 * 0x1.2444f2a4d8b4bp-4, 0x1.9884533d43651p0),
                          0x1.b8bacd2c96b91p-2, 0x1.8cd1a24e3dd44p-2, -0x1.0296179c95232p-6, -0x1.d29e428cf1254p-4,
                          -0x1.102f955711f4dp-6);
}
static inline float vsilu_slope_f32(float x) { return vswish_slope_f32(x, 1); }
static inline float vmish_slope_f32(float x) {
  const double c = wide_clamp(x, -150, 100), e = wide_exp(c), w = e * (e + 2);
  return (float)NEAR_ROOT(c, -0x1.31432c0d12d84p+0, -0x1.bf319154da210p-55,
                          w / (w + 2) + c * (e / (1 + e)) * (4 * (w + 1) / ((w + 2) * (w + 2))), 0x1.115acb42500bbp-2,
                          0x1.a34a253ff1826p-3, 0x1.574f11edc4996p-5, -0x1.4c33638cb5a63p-6, -0x1.033105210dfc7p-6);
}

#undef NEAR_ROOT
#undef ROUND

#endif
