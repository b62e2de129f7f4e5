/* What both ways of softmax, by rows and by columns, do to vectors of floats. Only for files named *_level.c. */
#ifndef CANNON_KERNEL_NORM_SOFTMAX_VEC_H
#define CANNON_KERNEL_NORM_SOFTMAX_VEC_H

#include <math.h>
#include <stdbool.h>

#include "kernel/norm/vec.h"

/* e^x for x <= 0 or NaN that was rounded: what that did to e^x, an error of x 2^-24 of it, is about what this does. */
VEC_INLINE vec exp_rounded(vec x) {
#if defined(__AVX512F__)
  /* 2^t = 2^floor(t) 2^r; 2^r on [0, 1): 2^-23.5. The remainder of -inf is 0. */
  const vec t = x * vec_of((float)LOG2E), r = (vec)_mm512_reduce_ps((__m512)t, _MM_FROUND_TO_NEG_INF);
  const vec p = (vec)HORNER_5(_mm512_fmadd_ps, (__m512)r, _mm512_set1_ps(1), _mm512_set1_ps(0x1.62e4bap-1f),
                              _mm512_set1_ps(0x1.ebdb6ap-3f), _mm512_set1_ps(0x1.c91c1p-5f),
                              _mm512_set1_ps(0x1.277c1cp-7f), _mm512_set1_ps(0x1.e9691p-10f));
  return (vec)_mm512_scalef_ps((__m512)p, (__m512)t);
#else
  return vec_exp_bounded(x);
#endif
}

static inline bool log_is_short(double sum) { return sum > 0 && sum < (double)INFINITY; }

/* Short where it can be, which is almost always: for rows of 64 the C library's takes a third of the time. */
static inline float log_of_sum(double sum) { return (float)(log_is_short(sum) ? wide_log(sum) : log(sum)); }

#endif
