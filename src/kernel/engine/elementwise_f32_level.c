/* SPDX-License-Identifier: Apache-2.0 */
/* The elementwise functions on floats (elementwise.def). */
#include "kernel/engine/elementwise_f32.h"
#include "kernel/engine/vmath/vmath_near.h"

/* EACH_NEAR functions are faster for arguments up to NEAR in absolute value. A chunk without larger arguments or NaNs
 * is processed by vectors, others element by element; an element's result is the same in both loops. */
#define FAR(x) (!(fabsf(x) <= NEAR))
static bool has_far(const float *xs, int64_t n) {
  int32_t far = 0;
  for (int64_t i = 0; i < n; ++i) far |= FAR(xs[i]);
  return far;
}
#define EACH_NEAR(n_operands, name, expression)                                                                        \
  void EW_LOOP(name, f32)(void *out, const void *const *in, const compute_value *parameter, int64_t n);                \
  void EW_LOOP(name, f32)(void *out, const void *const *in, UNUSED const compute_value *parameter, int64_t n) {        \
    enum { CHUNK = 256 };                                                                                              \
    const float *xs = in[0];                                                                                           \
    float *os = out;                                                                                                   \
    for (int64_t m; n > 0; n -= m, xs += m, os += m) {                                                                 \
      m = n < CHUNK ? n : CHUNK;                                                                                       \
      if (!has_far(xs, m))                                                                                             \
        INDEPENDENT for (int64_t i = 0; i < m; ++i) os[i] = near_##name(xs[i]);                                        \
      else                                                                                                             \
        for (int64_t i = 0; i < m; ++i) {                                                                              \
          const float x = xs[i];                                                                                       \
          os[i] = FAR(x) ? expression : near_##name(x);                                                                \
        }                                                                                                              \
    }                                                                                                                  \
  }

#define EACH_ALL(n, name, expression) DEFINE_EW_LOOP(n, name, f32, float, expression)
#define EACH_FLOAT                    EACH_ALL
#define EACH_INTEGER(n, name, expression)
#ifdef __AVX512F__
#  define EACH_16(n, name, expression)
#endif
#include "kernel/engine/elementwise_each.inc"

#ifdef __AVX512F__
#  include "kernel/engine/vmath/vmath_16.h"

#  undef V
#  define V(name) name##_16

#  define STEP(n_operands, lanes, expression)                                                                          \
    {                                                                                                                  \
      UNUSED const __m512 x = _mm512_maskz_loadu_ps(lanes, (const float *)in[0] + i),                                  \
                          y = n_operands < 2 ? x : _mm512_maskz_loadu_ps(lanes, (const float *)in[1] + i),             \
                          z = n_operands < 3 ? x : _mm512_maskz_loadu_ps(lanes, (const float *)in[2] + i);             \
      _mm512_mask_storeu_ps((float *)out + i, lanes, expression);                                                      \
    }
#  define EACH_16(n_operands, name, expression)                                                                        \
    void EW_LOOP(name, f32)(void *out, const void *const *in, const compute_value *parameter, int64_t n);              \
    void EW_LOOP(name, f32)(void *out, const void *const *in, UNUSED const compute_value *parameter, int64_t n) {      \
      int64_t i = 0;                                                                                                   \
      for (; i + 16 <= n; i += 16) STEP(n_operands, 0xffff, expression)                                                \
      if (i < n) STEP(n_operands, (__mmask16)((1 << (n - i)) - 1), expression)                                         \
    }
#  define EACH_ALL(n, name, expression)
#  define EACH_FLOAT(n, name, expression)
#  define EACH_INTEGER(n, name, expression)
#  define EACH_NEAR(n, name, expression)
#  include "kernel/engine/elementwise_each.inc"
#endif
