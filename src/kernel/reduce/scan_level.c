/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of scans; see scan.h. */
#include <string.h>

#include "kernel/engine/level.h"
#include "kernel/engine/unroll.h"
#include "kernel/reduce/scan.h"

#if defined(__AVX512F__)
#  include <immintrin.h>
#endif

/* Replaces s[0..7] by its scan. */
#define SCAN_EIGHT(JOIN)                                                                                               \
  s7 = JOIN(s6, s7), s6 = JOIN(s5, s6), s5 = JOIN(s4, s5), s4 = JOIN(s3, s4), s3 = JOIN(s2, s3), s2 = JOIN(s1, s2),    \
  s1 = JOIN(s0, s1);                                                                                                   \
  s7 = JOIN(s5, s7), s6 = JOIN(s4, s6), s5 = JOIN(s3, s5), s4 = JOIN(s2, s4), s3 = JOIN(s1, s3), s2 = JOIN(s0, s2);    \
  s7 = JOIN(s3, s7), s6 = JOIN(s2, s6), s5 = JOIN(s1, s5), s4 = JOIN(s0, s4)

#if defined(__AVX512F__)
/* Moves the elements of a group in a register up by `places`; the neutral element moves in. */
static inline __m512d moved_up(__m512d v, __m512d unit, int places) {
  const __m512i a = _mm512_castpd_si512(v), b = _mm512_castpd_si512(unit);
  return _mm512_castsi512_pd(places == 1   ? _mm512_alignr_epi64(a, b, 7)
                             : places == 2 ? _mm512_alignr_epi64(a, b, 6)
                                           : _mm512_alignr_epi64(a, b, 4));
}
#  define ROWS(name) name##_rows
#else
#  define ROWS(name) NULL
#endif

#define KIND(f)    sum_##f
#define JOIN(a, b) ((a) + (b))
#define JOIN_8     _mm512_add_pd
#define UNIT       0
#include "kernel/reduce/scan_kind.inc"

#define KIND(f)    product_##f
#define JOIN(a, b) ((a) * (b))
#define JOIN_8     _mm512_mul_pd
#define UNIT       1
#include "kernel/reduce/scan_kind.inc"

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
