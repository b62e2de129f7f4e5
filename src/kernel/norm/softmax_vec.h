/* SPDX-License-Identifier: Apache-2.0 */
/* Vector functions that the softmax implementations by rows and by columns share. Only for files named *_level.c. */
#ifndef CANNON_KERNEL_NORM_SOFTMAX_VEC_H
#define CANNON_KERNEL_NORM_SOFTMAX_VEC_H

#include <math.h>
#include <stdbool.h>

#include "kernel/norm/vec.h"

/* e^x for x <= 0 or NaN, where x is a rounded value. The rounding has caused a relative error of x 2^-24 in e^x; this
 * function's error is about as large. */
VEC_INLINE vec softmax_exp_rounded(vec x) {
#if defined(__AVX512F__)
  /* 2^t = 2^floor(t) 2^r; the error of 2^r on [0, 1) is 2^-23.5. The remainder of -inf is 0. */
  const vec t = x * vec_of((float)LOG2E), r = (vec)_mm512_reduce_ps((__m512)t, _MM_FROUND_TO_NEG_INF);
  const vec p = (vec)HORNER_5(_mm512_fmadd_ps, (__m512)r, _mm512_set1_ps(1), _mm512_set1_ps(0x1.62e4bap-1f),
                              _mm512_set1_ps(0x1.ebdb6ap-3f), _mm512_set1_ps(0x1.c91c1p-5f),
                              _mm512_set1_ps(0x1.277c1cp-7f), _mm512_set1_ps(0x1.e9691p-10f));
  return (vec)_mm512_scalef_ps((__m512)p, (__m512)t);
#else
  return vec_exp_bounded(x);
#endif
}

static inline bool softmax_log_is_short(double sum) { return sum > 0 && sum < (double)INFINITY; }

/* Uses wide_log whenever possible, which is almost always: for rows of 64, the C library's log would take a third of
 * the total time. */
static inline float softmax_log_of_sum(double sum) {
  return (float)(softmax_log_is_short(sum) ? wide_log(sum) : log(sum));
}

#endif
