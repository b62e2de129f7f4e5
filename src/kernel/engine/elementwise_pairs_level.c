/* SPDX-License-Identifier: Apache-2.0 */
/* Products of interleaved complex numbers. The real and imaginary parts of complex64 products are within 1.5 ULP: they
 * are computed in float with the rounding error of one product added (W. Kahan; C.-P. Jeannerod, N. Louvet and J.-M.
 * Muller, Further analysis of Kahan's algorithm, 2013), or in double where the float result is not finite or the level
 * has no AVX-512. */
#include "kernel/engine/elementwise_loop.h"

#ifdef __AVX512F__
#  include <immintrin.h>
#endif

#define PRODUCTS(T)                                                                                                    \
  static void products_##T(T *out, const T *xs, const T *ys, int64_t n) {                                              \
    INDEPENDENT for (int64_t i = 0; i < n; ++i) {                                                                      \
      const double xr = xs[2 * i], xi = xs[2 * i + 1], yr = ys[2 * i], yi = ys[2 * i + 1];                             \
      out[2 * i] = (T)(xr * yr - xi * yi);                                                                             \
      out[2 * i + 1] = (T)(xr * yi + xi * yr);                                                                         \
    }                                                                                                                  \
  }
PRODUCTS(float)
PRODUCTS(double)

#ifdef __AVX512F__
enum { PAIRS = 8, NOT_FINITE = 0x99 }; /* classes of fpclass: quiet and signalling NaN, infinity of either sign */

static inline __m512 product_of_pairs(__m512 x, __m512 y) {
  const __m512 xr = _mm512_moveldup_ps(x), xi = _mm512_movehdup_ps(x), ys = _mm512_permute_ps(y, 0xb1);
  const __m512 minus = _mm512_castsi512_ps(_mm512_set1_epi64(INT64_MIN)); /* negates the imaginary parts */
  const __m512 second = _mm512_mul_ps(xi, ys);
  const __m512 error = _mm512_fmaddsub_ps(_mm512_xor_ps(xi, minus), ys, second);
  return _mm512_sub_ps(_mm512_fmaddsub_ps(xr, y, second), error);
}

/* Computes all products in double and replaces the parts selected by `where`, so that a part's result does not depend
 * on its neighbours. */
__attribute__((noinline)) static __m512 by_double(__m512 x, __m512 y, __m512 product, __mmask16 where) {
  _Alignas(64) float xs[2 * PAIRS], ys[2 * PAIRS], products[2 * PAIRS];
  _mm512_store_ps(xs, x);
  _mm512_store_ps(ys, y);
  products_float(products, xs, ys, PAIRS);
  return _mm512_mask_load_ps(product, where, products);
}
#endif

void EW_LOOP(product_of_complex64, i64)(void *out, const void *const *in, const compute_value *parameter, int64_t n);
void EW_LOOP(product_of_complex64, i64)(void *out, const void *const *in, UNUSED const compute_value *parameter,
                                        int64_t n) {
  const float *const xs = in[0], *const ys = in[1];
  float *const os = out;
#ifdef __AVX512F__
  for (int64_t i = 0; i < n; i += PAIRS) {
    const __mmask16 lanes = n - i < PAIRS ? (__mmask16)((1 << 2 * (n - i)) - 1) : 0xffff;
    const __m512 x = _mm512_maskz_loadu_ps(lanes, xs + 2 * i), y = _mm512_maskz_loadu_ps(lanes, ys + 2 * i);
    const __m512 product = product_of_pairs(x, y);
    const __mmask16 not_finite = _mm512_fpclass_ps_mask(product, NOT_FINITE);
    _mm512_mask_storeu_ps(os + 2 * i, lanes,
                          __builtin_expect(not_finite, 0) ? by_double(x, y, product, not_finite) : product);
  }
#else
  products_float(os, xs, ys, n);
#endif
}

void EW_LOOP(product_of_complex128, f64)(void *out, const void *const *in, const compute_value *parameter, int64_t n);
void EW_LOOP(product_of_complex128, f64)(void *out, const void *const *in, UNUSED const compute_value *parameter,
                                         int64_t n) {
  products_double(out, in[0], in[1], n / 2);
}
