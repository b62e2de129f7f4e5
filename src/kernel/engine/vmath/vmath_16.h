/* SPDX-License-Identifier: Apache-2.0 */
/* Float functions on 16 lanes of AVX-512: those functions of vmath.h, with the same bounds, that gain most from
 * instructions that plain C cannot express: look-ups of 32 values in two registers, and scaling by powers of 2 with a
 * single rounding.
 *
 * A smooth function of t = |x| near 0 is represented by 32 polynomials of degree 6, one around each multiple of their
 * spacing (vmath_pieces.h). Beyond these pieces the function is constant, or the function of vmath.h is called. */
#ifndef CANNON_KERNEL_ENGINE_VMATH_VMATH_16_H
#define CANNON_KERNEL_ENGINE_VMATH_VMATH_16_H

#include <immintrin.h>

#include "kernel/engine/vmath/vmath.h"
#include "kernel/engine/vmath/vmath_pieces.h"

#define ALL_16(x) _mm512_set1_ps(x)
#define MAD_16    _mm512_fmadd_ps

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static inline __m512 vlook_up_16(const float table[PIECES], __m512i at) {
  return _mm512_permutex2var_ps(_mm512_loadu_ps(table), at, _mm512_loadu_ps(table + 16));
}

static inline __m512i piece_16(const pieces *p, __m512 t) {
  return _mm512_castps_si512(MAD_16(t, ALL_16(1 / p->width), ALL_16(CORE_ROUND))); /* only low bits count */
}
/* c[from] + c[from + 1] d + ... */
static inline __m512 powers_16(const pieces *p, __m512i at, __m512 d, int from) {
  __m512 y = vlook_up_16(p->c[PIECE_DEGREE], at);
  for (int k = PIECE_DEGREE - 1; k >= from; --k) y = MAD_16(y, d, vlook_up_16(p->c[k], at));
  return y;
}
/* Evaluates the pieces for t in [0, (PIECES - 1/2) width]; NaN for NaN. */
static inline __m512 piecewise_16(const pieces *p, __m512 t) {
  const __m512i at = piece_16(p, t);
  return powers_16(p, at, _mm512_sub_ps(t, vlook_up_16(p->centre, at)), 0);
}
/* The same for functions whose piece `root` has a c[0] of nearly 0, where the rounding of c[1] + ... would count: there
 * the terms from d^2 on are added first. */
static inline __m512 piecewise_root_16(const pieces *p, int root, __m512 t) {
  const __m512i at = piece_16(p, t);
  const __mmask16 is_root =
      _mm512_testn_epi32_mask(_mm512_xor_si512(at, _mm512_set1_epi32(root)), _mm512_set1_epi32(PIECES - 1));
  const __m512 d = _mm512_sub_ps(t, vlook_up_16(p->centre, at)), c1 = vlook_up_16(p->c[1], at);
  const __m512 rest = powers_16(p, at, d, 2);
  const __m512 y = MAD_16(_mm512_maskz_mul_ps(is_root, rest, d), d, vlook_up_16(p->c[0], at));
  return MAD_16(_mm512_mask3_fmadd_ps(rest, d, c1, _knot_mask16(is_root)), d, y);
}

/* NaN propagates. */
static inline __m512 at_most_16(float limit, __m512 x) { return _mm512_min_ps(ALL_16(limit), x); }
static inline __m512 with_sign_16(__m512 magnitude, __m512 sign) {
  return _mm512_or_ps(magnitude, _mm512_and_ps(sign, ALL_16(-0.0f)));
}

static inline __m512 tanh_16(__m512 x) {
  return with_sign_16(piecewise_16(&TANH, at_most_16(9.05f, _mm512_abs_ps(x))), x);
}
/* The power series is used up to 1/16, where the first coefficient of the pieces, 2/sqrt(pi), is too inexact as a
 * float. */
static inline __m512 erf_16(__m512 x) {
  const __m512 t = at_most_16(3.93f, _mm512_abs_ps(x)), u = _mm512_mul_ps(t, t);
  const __m512 p = HORNER_2(MAD_16, u, ALL_16(0x1.06eba8p-3f), ALL_16(-0x1.812746p-2f), ALL_16(0x1.ce2f22p-4f));
  const __mmask16 is_small = _mm512_cmp_ps_mask(t, ALL_16(0x1p-4f), _CMP_LT_OQ);
  return with_sign_16(_mm512_mask_blend_ps(is_small, piecewise_16(&ERF, t), MAD_16(t, p, t)), x);
}

/* Functions that are made of a tail of t = |x|. A step is 1 - tail for positive x, else tail; a ramp is x - tail for
 * positive x, else -tail. `end` is the end of the pieces; beyond it, which is rare, the function of vmath.h is called.
 * A lane's result does not depend on the other lanes. */
typedef __m512 function_16(__m512 x);
static inline __m512 beyond_16(__m512 x, __m512 t, float end, __m512 y, function_16 *plain) {
  const __mmask16 is_beyond = _mm512_cmp_ps_mask(t, ALL_16(end), _CMP_NLE_UQ);
  return __builtin_expect(is_beyond, 0) ? _mm512_mask_blend_ps(is_beyond, y, plain(x)) : y;
}
static inline __m512 step_16(__m512 x, __m512 t, __m512 tail, float end, function_16 *plain) {
  const __mmask16 is_positive = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GE_OQ);
  return beyond_16(x, t, end, _mm512_mask_sub_ps(tail, is_positive, ALL_16(1), tail), plain);
}
static inline __m512 ramp_16(__m512 x, __m512 t, __m512 tail, float end, function_16 *plain) {
  return beyond_16(x, t, end, _mm512_sub_ps(_mm512_max_ps(ALL_16(-0.0f), x), tail), plain);
}

/* The loop over the function of vmath.h is vector code, too. */
#define STEP_OR_RAMP(name, kind, tail, end)                                                                            \
  __attribute__((noinline)) static __m512 name##_plain_16(__m512 x) {                                                  \
    _Alignas(64) float lane[16];                                                                                       \
    _mm512_store_ps(lane, x);                                                                                          \
    INDEPENDENT for (int i = 0; i < 16; ++i) lane[i] = v##name##_f32(lane[i]);                                         \
    return _mm512_load_ps(lane);                                                                                       \
  }                                                                                                                    \
  static inline __m512 name##_16(__m512 x) {                                                                           \
    const __m512 t = _mm512_abs_ps(x);                                                                                 \
    return kind##_16(x, t, tail, end, name##_plain_16);                                                                \
  }
STEP_OR_RAMP(gelu, ramp, piecewise_16(&GELU_TAIL, t), 4.92f)
STEP_OR_RAMP(gelu_slope, step, piecewise_root_16(&GELU_SLOPE_TAIL, 5, t), 4.92f)
STEP_OR_RAMP(gelu_tanh, ramp, piecewise_16(&GELU_TANH_TAIL, t), 3.93f)
STEP_OR_RAMP(gelu_tanh_slope, step, piecewise_root_16(&GELU_TANH_SLOPE_TAIL, 6, t), 3.93f)
STEP_OR_RAMP(sigmoid, step, piecewise_16(&SIGMOID_TAIL, t), 15.7f)
STEP_OR_RAMP(silu, ramp, piecewise_16(&SILU_TAIL, t), 15.7f)
STEP_OR_RAMP(silu_slope, step, piecewise_root_16(&SILU_SLOPE_TAIL, 3, t), 13.3f)
#undef STEP_OR_RAMP

/* ---- exp --------------------------------------------------------------------------------------------------------- */

static inline __m512 exp_16(__m512 x) {
  const __m512 c = _mm512_max_ps(ALL_16(-105), at_most_16(89, x));
  const __m512 n = _mm512_sub_ps(MAD_16(c, ALL_16((float)LOG2E), ALL_16(CORE_ROUND)), ALL_16(CORE_ROUND));
  const __m512 r = MAD_16(n, ALL_16((float)-LN2_LO), MAD_16(n, ALL_16((float)-LN2_HI), c));
  /* e^r for |r| <= ln(2)/2, as in vexp_s */
  const __m512 p =
      HORNER_7(MAD_16, r, ALL_16(1), ALL_16(1), ALL_16(0x1p-1f), ALL_16(0x1.555556p-3f), ALL_16(0x1.5554e8p-5f),
               ALL_16(0x1.1110e0p-7f), ALL_16(0x1.6d43b0p-10f), ALL_16(0x1.a1256cp-13f));
  return _mm512_scalef_ps(p, n);
}

/* ---- log --------------------------------------------------------------------------------------------------------- */

/* x = (1 + f) 2^k with 1 + f in [3/4, 3/2); NaN for x < 0. For 0 and infinity f is 0 and k is infinite. */
static inline __m512 log_16(__m512 x) {
  const __m512 m = _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan), f = _mm512_sub_ps(m, ALL_16(1));
  const __m512 k = _mm512_sub_ps(_mm512_getexp_ps(x), _mm512_getexp_ps(m));
  /* (log(1 + f) - f) / f^2: 2^-27.6 of log(1 + f) */
  const __m512 p = HORNER_8(MAD_16, f, ALL_16(-0x1p-1f), ALL_16(0x1.5555a4p-2f), ALL_16(-0x1.00004ap-2f),
                            ALL_16(0x1.99699ep-3f), ALL_16(-0x1.54ed96p-3f), ALL_16(0x1.28807ap-3f),
                            ALL_16(-0x1.0d98fp-3f), ALL_16(0x1.acf4a8p-4f), ALL_16(-0x1.71e32cp-5f));
  return MAD_16(k, ALL_16((float)LN2), MAD_16(_mm512_mul_ps(f, f), p, f));
}

#endif
