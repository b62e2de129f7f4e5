/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and stores of float vectors (vec.h) from and to memory with float, float16 or bfloat16, for kernels whose rows
 * stay in place (panel_job.as_stored). All functions are inlined with a constant dtype. Only for files named
 * *_level.c. */
#ifndef CANNON_KERNEL_NORM_VEC_STORED_H
#define CANNON_KERNEL_NORM_VEC_STORED_H

#include "kernel/engine/halves.h"
#include "kernel/norm/vec.h"
#include "tensor/dtype.h"

/* Calls a macro or function of a dtype with a constant argument. */
#define OF_DTYPE(call, dtype)                                                                                          \
  ((dtype) == ACL_FLOAT ? call(ACL_FLOAT) : (dtype) == ACL_FLOAT16 ? call(ACL_FLOAT16) : call(ACL_BF16))

#if defined(__AVX2__) && !defined(__AVX512F__)
VEC_INLINE vec bf16_load_vec(const uint16_t *from) {
  return (vec)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)from)), 16);
}

/* NaN gets the top bit of its fraction, as in halves.h. */
VEC_INLINE void bf16_store_vec(uint16_t *to, vec v) {
  const __m256i bits = (__m256i)v, high = _mm256_srli_epi32(bits, 16), one = _mm256_set1_epi32(1);
  const __m256i up = _mm256_add_epi32(_mm256_set1_epi32(0x7fff), _mm256_and_si256(high, one));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, up), 16);
  const __m256i nan = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps((__m256)v, (__m256)v, _CMP_UNORD_Q));
  const __m256i words = _mm256_blendv_epi8(rounded, nan, is_nan);
  _mm_storeu_si128((void *)to, _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}
#endif

/* Loads elements i to i + n, n <= VEC; the other lanes are taken from rest. */
VEC_INLINE vec vec_read_part(const void *memory, int dtype, int64_t i, int64_t n, vec rest) {
  if (dtype == ACL_FLOAT) return vec_get((const float *)memory + i, n, rest);
  const uint16_t *const from = (const uint16_t *)memory + i;
#if defined(__AVX512F__)
  const __mmask16 lanes = (__mmask16)((1u << n) - 1);
  const __m512 read = dtype == ACL_FLOAT16 ? f16_load_16(from, lanes) : bf16_load_16(from, lanes);
  return n == VEC ? (vec)read : (vec)_mm512_mask_mov_ps((__m512)rest, lanes, read);
#else
#  if defined(__AVX2__)
  if (n == VEC && dtype == ACL_BF16) return bf16_load_vec(from);
#  endif
  float x[VEC];
  vec_store(x, rest);
  int64_t k = n < VEC ? 0 : dtype == ACL_FLOAT16 ? f16_load(x, from, n) : bf16_load(x, from, n);
  for (; k < n; ++k) x[k] = dtype == ACL_FLOAT16 ? half_to_float(from[k]) : bf16_to_float(from[k]);
  return vec_load(x);
#endif
}

VEC_INLINE vec vec_read(const void *memory, int dtype, int64_t i, int64_t n) {
  return vec_read_part(memory, dtype, i, n, (vec){0});
}

/* Loads two whole vectors. */
VEC_INLINE void vec_read_two(const void *memory, int dtype, int64_t i, vec x[2]) {
#if defined(__AVX512F__)
  if (dtype == ACL_BF16) {
    __m512 read[2];
    bf16_load_32((const uint16_t *)memory + i, read);
    for (int k = 0; k < 2; ++k) x[k] = (vec)read[k];
    return;
  }
#endif
  for (int k = 0; k < 2; ++k) x[k] = vec_read(memory, dtype, i + k * VEC, VEC);
}

/* Converts n elements to floats; writes up to the end of the last vector. */
VEC_INLINE void vec_floats(float *to, const void *from, int dtype, int64_t n) {
  int64_t i = 0;
  for (; i + 2 * VEC <= n; i += 2 * VEC) {
    vec x[2];
    vec_read_two(from, dtype, i, x);
    for (int k = 0; k < 2; ++k) vec_store(to + i + k * VEC, x[k]);
  }
  for (; i < n; i += VEC) vec_store(to + i, vec_read(from, dtype, i, n - i < VEC ? n - i : VEC));
}

VEC_INLINE void vec_write(void *memory, int dtype, int64_t i, vec v, int64_t n) {
  if (dtype == ACL_FLOAT) {
    vec_put((float *)memory + i, v, n);
    return;
  }
  uint16_t *const to = (uint16_t *)memory + i;
#if defined(__AVX512F__)
  const __mmask16 lanes = (__mmask16)((1u << n) - 1);
  dtype == ACL_FLOAT16 ? f16_store_16(to, lanes, (__m512)v) : bf16_store_16(to, lanes, (__m512)v);
#else
#  if defined(__AVX2__)
  if (n == VEC && dtype == ACL_BF16) {
    bf16_store_vec(to, v);
    return;
  }
#  endif
  float x[VEC];
  vec_store(x, v);
  int64_t k = n < VEC ? 0 : dtype == ACL_FLOAT16 ? f16_store(to, x, n) : bf16_store(to, x, n);
  for (; k < n; ++k) to[k] = dtype == ACL_FLOAT16 ? half_from_float(x[k]) : bf16_from_float(x[k]);
#endif
}

/* Stores two vectors, which is faster than one after the other. */
VEC_INLINE void vec_write_two(void *memory, int dtype, int64_t i, vec a, vec b) {
#if defined(__AVX512F__)
  const __m512 x[2] = {(__m512)a, (__m512)b};
  if (dtype == ACL_FLOAT16 || dtype == ACL_BF16) {
    uint16_t *const to = (uint16_t *)memory + i;
    dtype == ACL_FLOAT16 ? f16_store_32(to, x) : bf16_store_32(to, x);
    return;
  }
#endif
  vec_write(memory, dtype, i, a, VEC);
  vec_write(memory, dtype, i + VEC, b, VEC);
}

/* Returns the values for elements i to i + n of l->out, n <= VEC. */
typedef vec vec_value(const vec_loop *l, int64_t i, int64_t n);

/* dtype: of l->out, which may be the input of `value`. With 16-bit types, the elements after the last whole pair of
 * vectors are written as one more, overlapping pair, which is computed before anything is written: partial vectors are
 * slower. */
VEC_INLINE void vec_each_stored(vec_value *value, const vec_loop *l, int dtype, int64_t n) {
  int64_t i = 0;
  const bool overlaps = dtype != ACL_FLOAT && n > 2 * VEC && n % (2 * VEC);
  vec a = {0}, b = {0};
  if (overlaps) a = value(l, n - 2 * VEC, VEC), b = value(l, n - VEC, VEC);
  for (; i + 2 * VEC <= n; i += 2 * VEC) {
    const vec first = value(l, i, VEC);
    vec_write_two(l->out, dtype, i, first, value(l, i + VEC, VEC));
  }
  if (overlaps) {
    vec_write_two(l->out, dtype, n - 2 * VEC, a, b);
    return;
  }
  if (i + VEC <= n) vec_write(l->out, dtype, i, value(l, i, VEC), VEC), i += VEC;
  if (i < n) vec_write(l->out, dtype, i, value(l, i, n - i), n - i);
}

#endif
