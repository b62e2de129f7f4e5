/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of scans; see scan.h. */
#include <string.h>

#include "kernel/engine/level.h"
#include "kernel/reduce/scan.h"

#if defined(__AVX512F__)
#  include <immintrin.h>
#endif

#define ADD(a, b)      ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))

/* Replaces s[0..7] by its scan. */
#define SCAN_EIGHT(JOIN)                                                                                               \
  s7 = JOIN(s6, s7), s6 = JOIN(s5, s6), s5 = JOIN(s4, s5), s4 = JOIN(s3, s4), s3 = JOIN(s2, s3), s2 = JOIN(s1, s2),    \
  s1 = JOIN(s0, s1);                                                                                                   \
  s7 = JOIN(s5, s7), s6 = JOIN(s4, s6), s5 = JOIN(s3, s5), s4 = JOIN(s2, s4), s3 = JOIN(s1, s3), s2 = JOIN(s0, s2);    \
  s7 = JOIN(s3, s7), s6 = JOIN(s2, s6), s5 = JOIN(s1, s5), s4 = JOIN(s0, s4)

#define SCAN_ROW(name, X, T, member, UNIT, JOIN, VECTORS, JOIN_V)                                                      \
  static void name##_row(void *out, const void *in, int64_t n, scan_value *carry, scan_value *total) {                 \
    const X *const xs = in;                                                                                            \
    X *const os = out;                                                                                                 \
    int64_t i = 0;                                                                                                     \
    VECTORS(UNIT, JOIN_V)                                                                                              \
    T c = carry->member, t = total->member;                                                                            \
    for (; i < n; i += SCAN_GROUP) {                                                                                   \
      X x[SCAN_GROUP], o[SCAN_GROUP];                                                                                  \
      const int64_t here = n - i < SCAN_GROUP ? n - i : SCAN_GROUP;                                                    \
      for (int k = 0; k < SCAN_GROUP; ++k) x[k] = k < here ? xs[i + k] : (X)(UNIT);                                    \
      T s0 = x[0], s1 = x[1], s2 = x[2], s3 = x[3], s4 = x[4], s5 = x[5], s6 = x[6], s7 = x[7];                        \
      SCAN_EIGHT(JOIN);                                                                                                \
      o[0] = (X)JOIN(c, s0), o[1] = (X)JOIN(c, s1), o[2] = (X)JOIN(c, s2), o[3] = (X)JOIN(c, s3);                      \
      o[4] = (X)JOIN(c, s4), o[5] = (X)JOIN(c, s5), o[6] = (X)JOIN(c, s6), o[7] = (X)JOIN(c, s7);                      \
      for (int k = 0; k < here; ++k) os[i + k] = o[k];                                                                 \
      c = JOIN(c, s7);                                                                                                 \
      t = JOIN(t, s7);                                                                                                 \
    }                                                                                                                  \
    carry->member = c;                                                                                                 \
    total->member = t;                                                                                                 \
  }

/* Missing rows at the end count as the neutral element: they change nothing and are not stored. */
#define SCAN_COLUMNS(name, X, T, member, UNIT, JOIN)                                                                   \
  static void name##_columns(void *out, int64_t out_pitch, const void *in, int64_t in_pitch, int64_t n, int64_t width, \
                             scan_value *carry, scan_value *total) {                                                   \
    X unit[SCAN_WIDTH], nowhere[SCAN_WIDTH];                                                                           \
    if (n % SCAN_GROUP)                                                                                                \
      for (int64_t j = 0; j < width; ++j) unit[j] = (X)(UNIT);                                                         \
    for (int64_t i = 0; i < n; i += SCAN_GROUP) {                                                                      \
      const X *x[SCAN_GROUP];                                                                                          \
      X *o[SCAN_GROUP];                                                                                                \
      for (int k = 0; k < SCAN_GROUP; ++k) {                                                                           \
        const bool is_there = i + k < n;                                                                               \
        x[k] = is_there ? (const X *)(const void *)((const char *)in + (i + k) * in_pitch) : unit;                     \
        o[k] = is_there ? (X *)(void *)((char *)out + (i + k) * out_pitch) : nowhere;                                  \
      }                                                                                                                \
      const X *const x0 = x[0], *const x1 = x[1], *const x2 = x[2], *const x3 = x[3];                                  \
      const X *const x4 = x[4], *const x5 = x[5], *const x6 = x[6], *const x7 = x[7];                                  \
      X *const o0 = o[0], *const o1 = o[1], *const o2 = o[2], *const o3 = o[3];                                        \
      X *const o4 = o[4], *const o5 = o[5], *const o6 = o[6], *const o7 = o[7];                                        \
      INDEPENDENT for (int64_t j = 0; j < width; ++j) {                                                                \
        const T c = carry[j].member;                                                                                   \
        T s0 = x0[j], s1 = x1[j], s2 = x2[j], s3 = x3[j], s4 = x4[j], s5 = x5[j], s6 = x6[j], s7 = x7[j];              \
        SCAN_EIGHT(JOIN);                                                                                              \
        o0[j] = (X)JOIN(c, s0), o1[j] = (X)JOIN(c, s1), o2[j] = (X)JOIN(c, s2), o3[j] = (X)JOIN(c, s3);                \
        o4[j] = (X)JOIN(c, s4), o5[j] = (X)JOIN(c, s5), o6[j] = (X)JOIN(c, s6), o7[j] = (X)JOIN(c, s7);                \
        carry[j].member = JOIN(c, s7);                                                                                 \
        total[j].member = JOIN(total[j].member, s7);                                                                   \
      }                                                                                                                \
    }                                                                                                                  \
  }

#if defined(__AVX512F__)
/* Moves the elements of a group in a register up by `places`; the neutral element moves in. */
static inline __m512d moved_up(__m512d v, __m512d unit, int places) {
  const __m512i a = _mm512_castpd_si512(v), b = _mm512_castpd_si512(unit);
  return _mm512_castsi512_pd(places == 1   ? _mm512_alignr_epi64(a, b, 7)
                             : places == 2 ? _mm512_alignr_epi64(a, b, 6)
                                           : _mm512_alignr_epi64(a, b, 4));
}
#  define JOIN_MOVED(JOIN_V, places) s = JOIN_V(moved_up(s, unit, places), s);
#  define ALL_MOVED(JOIN_V)          JOIN_MOVED(JOIN_V, 1) JOIN_MOVED(JOIN_V, 2) JOIN_MOVED(JOIN_V, 4)
#  define EIGHT_AT_A_TIME(UNIT, JOIN_V, LOAD, STORE)                                                                   \
    const __m512d unit = _mm512_set1_pd(UNIT);                                                                         \
    const __m512i last = _mm512_set1_epi64(7);                                                                         \
    __m512d cv = _mm512_set1_pd(carry->f64), tv = _mm512_set1_pd(total->f64);                                          \
    for (; i + SCAN_GROUP <= n; i += SCAN_GROUP) {                                                                     \
      __m512d s = LOAD(xs + i);                                                                                        \
      ALL_MOVED(JOIN_V)                                                                                                \
      STORE(os + i, JOIN_V(cv, s));                                                                                    \
      const __m512d all = _mm512_permutexvar_pd(last, s);                                                              \
      cv = JOIN_V(cv, all);                                                                                            \
      tv = JOIN_V(tv, all);                                                                                            \
    }                                                                                                                  \
    carry->f64 = _mm512_cvtsd_f64(cv);                                                                                 \
    total->f64 = _mm512_cvtsd_f64(tv);

/* Rows of 1, 2, 4 or 8 elements without gaps share a register: elements that would come from another row are replaced
 * by the neutral element. */
#  define ADJOINING_ROWS(name, UNIT, JOIN_V)                                                                           \
    static void name##_adjoining(float *os, const float *xs, int64_t n, int64_t all) {                                 \
      const __m512d unit = _mm512_set1_pd(UNIT);                                                                       \
      const int first = n == 1 ? 0xff : n == 2 ? 0x55 : n == 4 ? 0x11 : 0x01, second = first | first << 1;             \
      for (int64_t i = 0; i < all; i += SCAN_GROUP) {                                                                  \
        const __mmask8 some = (__mmask8)_bzhi_u32(0xff, all - i < SCAN_GROUP ? (unsigned)(all - i) : SCAN_GROUP);      \
        __m512d s = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(some, xs + i));                                              \
        s = JOIN_V(_mm512_mask_mov_pd(moved_up(s, unit, 1), (__mmask8)first, unit), s);                                \
        if (n > 2) s = JOIN_V(_mm512_mask_mov_pd(moved_up(s, unit, 2), (__mmask8)second, unit), s);                    \
        if (n > 4) s = JOIN_V(moved_up(s, unit, 4), s);                                                                \
        _mm256_mask_storeu_ps(os + i, some, _mm512_cvtpd_ps(JOIN_V(unit, s)));                                         \
      }                                                                                                                \
    }
#  define VECTOR_ROWS(name, UNIT, JOIN_V)                                                                              \
    ADJOINING_ROWS(name, UNIT, JOIN_V)                                                                                 \
    static void name##_rows(void *out, int64_t out_pitch, const void *in, int64_t in_pitch, int64_t n,                 \
                            int64_t count) {                                                                           \
      const __m512d unit = _mm512_set1_pd(UNIT);                                                                       \
      const __m512i last = _mm512_set1_epi64(7);                                                                       \
      const __mmask8 rest = (__mmask8)((1 << n % SCAN_GROUP) - 1);                                                     \
      const int64_t packed = n * (int64_t)sizeof(float);                                                               \
      if (n > 0 && n <= SCAN_GROUP && SCAN_GROUP % n == 0 && out_pitch == packed && in_pitch == packed) {              \
        name##_adjoining(out, in, n, n *count);                                                                        \
        return;                                                                                                        \
      }                                                                                                                \
      for (int64_t r = 0; r < count; ++r) {                                                                            \
        const float *const xs = (const float *)(const void *)((const char *)in + r * in_pitch);                        \
        float *const os = (float *)(void *)((char *)out + r * out_pitch);                                              \
        __m512d cv = unit;                                                                                             \
        int64_t i = 0;                                                                                                 \
        for (; i + SCAN_GROUP <= n; i += SCAN_GROUP) {                                                                 \
          __m512d s = _mm512_cvtps_pd(_mm256_loadu_ps(xs + i));                                                        \
          ALL_MOVED(JOIN_V)                                                                                            \
          _mm256_storeu_ps(os + i, _mm512_cvtpd_ps(JOIN_V(cv, s)));                                                    \
          cv = JOIN_V(cv, _mm512_permutexvar_pd(last, s));                                                             \
        }                                                                                                              \
        if (rest) {                                                                                                    \
          __m512d s = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(rest, xs + i));                                            \
          ALL_MOVED(JOIN_V)                                                                                            \
          _mm256_mask_storeu_ps(os + i, rest, _mm512_cvtpd_ps(JOIN_V(cv, s)));                                         \
        }                                                                                                              \
      }                                                                                                                \
    }
#  define LOAD_F32(at)              _mm512_cvtps_pd(_mm256_loadu_ps(at))
#  define STORE_F32(at, v)          _mm256_storeu_ps(at, _mm512_cvtpd_ps(v))
#  define VECTORS_F32(UNIT, JOIN_V) EIGHT_AT_A_TIME(UNIT, JOIN_V, LOAD_F32, STORE_F32)
#  define VECTORS_F64(UNIT, JOIN_V) EIGHT_AT_A_TIME(UNIT, JOIN_V, _mm512_loadu_pd, _mm512_storeu_pd)
#else
#  define VECTORS_F32(UNIT, JOIN_V)
#  define VECTORS_F64(UNIT, JOIN_V)
#endif

#define NO_VECTORS(UNIT, JOIN_V)
#define SCAN(name, X, T, member, UNIT, JOIN, VECTORS, JOIN_V)                                                          \
  SCAN_ROW(name, X, T, member, UNIT, JOIN, VECTORS, JOIN_V) SCAN_COLUMNS(name, X, T, member, UNIT, JOIN)

SCAN(sum_f32, float, double, f64, 0, ADD, VECTORS_F32, _mm512_add_pd)
SCAN(sum_f64, double, double, f64, 0, ADD, VECTORS_F64, _mm512_add_pd)
SCAN(sum_i64, int64_t, int64_t, i64, 0, ADD, NO_VECTORS, )
SCAN(product_f32, float, double, f64, 1, MULTIPLY, VECTORS_F32, _mm512_mul_pd)
SCAN(product_f64, double, double, f64, 1, MULTIPLY, VECTORS_F64, _mm512_mul_pd)
SCAN(product_i64, int64_t, int64_t, i64, 1, MULTIPLY, NO_VECTORS, )

#if defined(__AVX512F__)
VECTOR_ROWS(sum_f32, 0, _mm512_add_pd)
VECTOR_ROWS(product_f32, 1, _mm512_mul_pd)
#  define ROWS(name) name##_rows
#else
#  define ROWS(name) NULL
#endif

#define EXTREME(name, T, TAKES)                                                                                        \
  static void name(void *out, int64_t *places, int64_t out_pitch, int64_t places_pitch, const void *in,                \
                   int64_t in_pitch, int64_t k, int64_t n, int64_t width, void *best, int64_t *place) {                \
    T *const as = best;                                                                                                \
    for (int64_t end = k + n; k < end; ++k) {                                                                          \
      const T *const xs = in;                                                                                          \
      T *const os = out;                                                                                               \
      if (k == 0) memcpy(as, xs, (size_t)width * sizeof(T));                                                           \
      INDEPENDENT for (int64_t j = 0; j < width; ++j) {                                                                \
        const T a = as[j], x = xs[j];                                                                                  \
        const int takes = TAKES;                                                                                       \
        os[j] = as[j] = takes ? x : a;                                                                                 \
        places[j] = place[j] = takes ? k : place[j];                                                                   \
      }                                                                                                                \
      in = (const char *)in + in_pitch;                                                                                \
      out = (char *)out + out_pitch;                                                                                   \
      places = (int64_t *)(void *)((char *)places + places_pitch);                                                     \
    }                                                                                                                  \
  }
EXTREME(max_f32, float, (x >= a) | (x != x))
EXTREME(max_f64, double, (x >= a) | (x != x))
EXTREME(max_i64, int64_t, x >= a)
EXTREME(min_f32, float, (x <= a) | (x != x))
EXTREME(min_f64, double, (x <= a) | (x != x))
EXTREME(min_i64, int64_t, x <= a)

#define LOOPS(name)                                                                                                    \
  { .row = name##_row, .columns = name##_columns }
#define ALL_TYPES(name)                                                                                                \
  {                                                                                                                    \
    [COMPUTE_F32] = {.row = name##_f32_row, .columns = name##_f32_columns, .rows = ROWS(name##_f32)},                  \
    [COMPUTE_F64] = LOOPS(name##_f64), [COMPUTE_I64] = LOOPS(name##_i64)                                               \
  }

const scan_table LEVELED(scans) = {
    .scan = {[SCAN_SUM] = ALL_TYPES(sum), [SCAN_PRODUCT] = ALL_TYPES(product)},
    .extreme = {{[COMPUTE_F32] = max_f32, [COMPUTE_F64] = max_f64, [COMPUTE_I64] = max_i64},
                {[COMPUTE_F32] = min_f32, [COMPUTE_F64] = min_f64, [COMPUTE_I64] = min_i64}},
};
