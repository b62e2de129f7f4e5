/* SPDX-License-Identifier: Apache-2.0 */
/* The table of loops of one instruction set level (engine/level.h) and all its loops but the elementwise ones; see
 * loops.h. */
#include <float.h>
#include <limits.h>

#include "kernel/engine/arithmetic.h"
#include "kernel/engine/elementwise_loop.h"
#include "kernel/engine/halves.h"
#include "kernel/engine/loops.h"
#include "kernel/engine/stream_copy.h"
#include "kernel/engine/vmath/vmath.h"

#define TEXT_(a) #a
#define TEXT(a)  TEXT_(a)

/* ---- load and store ---------------------------------------------------------------------------------------------- */

/* Saturating truncation: values out of range become the nearest end of the range, NaN becomes 0. */
static inline int32_t i32_of(double x) {
  return x != x ? 0 : x <= INT32_MIN ? INT32_MIN : x >= INT32_MAX ? INT32_MAX : (int32_t)x;
}
static inline int64_t i64_of(double x) {
  return x != x ? 0 : x <= -0x1p63 ? INT64_MIN : x >= 0x1p63 ? INT64_MAX : (int64_t)x;
}
static inline uint64_t u64_of(double x) { return !(x > 0) ? 0 : x >= 0x1p64 ? UINT64_MAX : (uint64_t)x; }
static inline int32_t saturate_i32(double x, int32_t low, int32_t high) {
  return x != x ? 0 : x <= low ? low : x >= high ? high : (int32_t)x;
}

/* An int64 as a double, rounded to odd if it is inexact, so that rounding the double again gives the correct result. */
static inline double odd_double(int64_t v) {
  const uint64_t magnitude = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
  const uint64_t sticky =
      magnitude >> 53 ? (magnitude & ~UINT64_C(0x7ff)) | ((magnitude & 0x7ff) != 0) << 11 : magnitude;
  return v < 0 ? -(double)sticky : (double)sticky;
}

/* Real and imaginary parts of complex numbers are every second element of these types, whose loops therefore treat this
 * stride separately, by vectors. */
#define IS_PART(type) (__builtin_types_compatible_p(type, float) || __builtin_types_compatible_p(type, double))

/* The load and store loops of a stored type: conversions from it to each compute type, and back. */
#define LOAD(name, from, suffix, to, expression)                                                                       \
  static void load_##name##_##suffix(void *out, const void *in, int64_t stride, int64_t n) {                           \
    to *const o = out;                                                                                                 \
    if (stride == (int64_t)sizeof(from)) {                                                                             \
      const from *const s = in;                                                                                        \
      for (int64_t i = 0; i < n; ++i) {                                                                                \
        const from v = s[i];                                                                                           \
        o[i] = (to)(expression);                                                                                       \
      }                                                                                                                \
    } else if (IS_PART(from) && stride == 2 * (int64_t)sizeof(from)) {                                                 \
      const from *const s = in;                                                                                        \
      for (int64_t i = 0; i < n; ++i) {                                                                                \
        const from v = s[2 * i];                                                                                       \
        o[i] = (to)(expression);                                                                                       \
      }                                                                                                                \
    } else if (stride == 0 && n > 0) { /* a single value is broadcast */                                               \
      const from v = *(const from *)in;                                                                                \
      const to value = (to)(expression);                                                                               \
      for (int64_t i = 0; i < n; ++i) o[i] = value;                                                                    \
    } else {                                                                                                           \
      for (int64_t i = 0; i < n; ++i) {                                                                                \
        const from v = *(const from *)((const char *)in + i * stride);                                                 \
        o[i] = (to)(expression);                                                                                       \
      }                                                                                                                \
    }                                                                                                                  \
  }
#define STORE(name, to, suffix, from, expression)                                                                      \
  static void store_##name##_##suffix(void *out, int64_t stride, const void *in, int64_t n) {                          \
    const from *const s = in;                                                                                          \
    if (stride == (int64_t)sizeof(to)) {                                                                               \
      to *const o = out;                                                                                               \
      for (int64_t i = 0; i < n; ++i) {                                                                                \
        const from v = s[i];                                                                                           \
        o[i] = (to)(expression);                                                                                       \
      }                                                                                                                \
    } else {                                                                                                           \
      for (int64_t i = 0; i < n; ++i) {                                                                                \
        const from v = s[i];                                                                                           \
        *(to *)((char *)out + i * stride) = (to)(expression);                                                          \
      }                                                                                                                \
    }                                                                                                                  \
  }
#define LOADS(name, from, as_number, as_integer)                                                                       \
  LOAD(name, from, f32, float, as_number)                                                                              \
  LOAD(name, from, f64, double, as_number)                                                                             \
  LOAD(name, from, i32, int32_t, as_integer)                                                                           \
  LOAD(name, from, i64, int64_t, as_integer)
#define STORES(name, to, from_f32, from_f64, from_i32, from_i64)                                                       \
  STORE(name, to, f32, float, from_f32)                                                                                \
  STORE(name, to, f64, double, from_f64)                                                                               \
  STORE(name, to, i32, int32_t, from_i32)                                                                              \
  STORE(name, to, i64, int64_t, from_i64)

/* All dtypes with their C types; the tables below are made from "name, dtype". */
/* clang-format off */
#define DTYPES(X)                                                                                                      \
  X(f32, ACL_FLOAT) X(f16, ACL_FLOAT16) X(bf16, ACL_BF16) X(f64, ACL_DOUBLE)                                           \
  X(i8, ACL_INT8) X(i16, ACL_INT16) X(i32, ACL_INT32) X(i64, ACL_INT64)                                                \
  X(u8, ACL_UINT8) X(u16, ACL_UINT16) X(u32, ACL_UINT32) X(u64, ACL_UINT64) X(b8, ACL_BOOL)
/* clang-format on */

LOADS(f32, float, v, i64_of(v))
LOAD(f16, uint16_t, f64, double, half_to_float(v))
LOAD(f16, uint16_t, i32, int32_t, i64_of(half_to_float(v)))
LOAD(f16, uint16_t, i64, int64_t, i64_of(half_to_float(v)))
LOAD(bf16, uint16_t, f64, double, bf16_to_float(v))
LOAD(bf16, uint16_t, i32, int32_t, i64_of(bf16_to_float(v)))
LOAD(bf16, uint16_t, i64, int64_t, i64_of(bf16_to_float(v)))
LOADS(f64, double, v, i64_of(v))
LOADS(i8, int8_t, v, v)
LOADS(i16, int16_t, v, v)
LOADS(i32, int32_t, v, v)
LOADS(i64, int64_t, v, v)
LOADS(u8, uint8_t, v, v)
LOADS(u16, uint16_t, v, v)
LOADS(u32, uint32_t, v, v)
LOADS(u64, uint64_t, v, v)
LOADS(b8, uint8_t, v != 0, v != 0)

STORES(f32, float, v, v, v, v)
STORE(f16, uint16_t, f64, double, half_from_float(float_to_odd(v)))
STORE(f16, uint16_t, i32, int32_t, half_from_float(float_to_odd(v)))
STORE(f16, uint16_t, i64, int64_t, half_from_float(float_to_odd(odd_double(v))))
STORE(bf16, uint16_t, f64, double, bf16_from_float(float_to_odd(v)))
STORE(bf16, uint16_t, i32, int32_t, bf16_from_float(float_to_odd(v)))
STORE(bf16, uint16_t, i64, int64_t, bf16_from_float(float_to_odd(odd_double(v))))
STORES(f64, double, v, v, v, v)
STORES(i8, int8_t, saturate_i32(v, INT8_MIN, INT8_MAX), saturate_i32(v, INT8_MIN, INT8_MAX), v, v)
STORES(i16, int16_t, saturate_i32(v, INT16_MIN, INT16_MAX), saturate_i32(v, INT16_MIN, INT16_MAX), v, v)
STORES(i32, int32_t, i32_of(v), i32_of(v), v, v)
STORES(i64, int64_t, i64_of(v), i64_of(v), v, v)
STORES(u8, uint8_t, saturate_i32(v, 0, UINT8_MAX), saturate_i32(v, 0, UINT8_MAX), v, v)
STORES(u16, uint16_t, saturate_i32(v, 0, UINT16_MAX), saturate_i32(v, 0, UINT16_MAX), v, v)
STORES(u32, uint32_t, (v > 0 ? v >= 0x1p32f ? UINT32_MAX : (uint32_t)v : 0),
       (v > 0 ? v >= 0x1p32 ? UINT32_MAX : (uint32_t)v : 0), v, v)
STORES(u64, uint64_t, u64_of(v), u64_of(v), v, v)
STORES(b8, uint8_t, v != 0, v != 0, v != 0, v != 0)

/* Conversion between 16-bit floats and float: contiguous elements by halves.h as far as it goes, the rest one by
 * one. */
#define HALVES(type, to_float, from_float)                                                                             \
  LOAD(type##_rest, uint16_t, f32, float, to_float(v))                                                                 \
  STORE(type##_rest, uint16_t, f32, float, from_float(v))                                                              \
  static void load_##type##_f32(void *out, const void *in, int64_t stride, int64_t n) {                                \
    const int64_t done = stride == 2 ? type##_load(out, in, n) : 0;                                                    \
    if (done < n) load_##type##_rest_f32((float *)out + done, (const char *)in + done * stride, stride, n - done);     \
  }                                                                                                                    \
  static void store_##type##_f32(void *out, int64_t stride, const void *in, int64_t n) {                               \
    const int64_t done = stride == 2 ? type##_store(out, in, n) : 0;                                                   \
    if (done < n) store_##type##_rest_f32((char *)out + done * stride, stride, (const float *)in + done, n - done);    \
  }
HALVES(f16, half_to_float, half_from_float)
HALVES(bf16, bf16_to_float, bf16_from_float)

/* ---- reductions -------------------------------------------------------------------------------------------------- */

#define SUM(suffix, T)                                                                                                 \
  static T sum_##suffix(const T *x, int64_t n) {                                                                       \
    T lane[REDUCE_LANES] = {0};                                                                                        \
    int64_t i = 0;                                                                                                     \
    for (; i + REDUCE_LANES <= n; i += REDUCE_LANES)                                                                   \
      for (int l = 0; l < REDUCE_LANES; ++l) lane[l] += x[i + l];                                                      \
    for (int l = 0; i + l < n; ++l) lane[l] += x[i + l];                                                               \
    for (int width = REDUCE_LANES / 2; width; width /= 2)                                                              \
      for (int l = 0; l < width; ++l) lane[l] += lane[l + width];                                                      \
    return lane[0];                                                                                                    \
  }
SUM(f32, float)
SUM(f64, double)
SUM(i64, int64_t)

/* The maximum by lanes, since a chain of dependent maxima is slow. NaN propagates. The vectors are explicit because
 * compilers keep lanes of selected values in memory. */
static float max_f32(const float *x, int64_t n) {
  typedef float vec __attribute__((vector_size(REDUCE_LANES * sizeof(float))));
  typedef int32_t mask __attribute__((vector_size(REDUCE_LANES * sizeof(int32_t))));
  float lane[REDUCE_LANES];
  vec most, v;
  int64_t i = 0;
  for (int l = 0; l < REDUCE_LANES; ++l) most[l] = -INFINITY;
  for (; i + REDUCE_LANES <= n; i += REDUCE_LANES) {
    memcpy(&v, x + i, sizeof v);
    const mask larger = (v > most) | (v != v); // NOLINT(misc-redundant-expression)
    most = (vec)(((mask)v & larger) | ((mask)most & ~larger));
  }
  memcpy(lane, &most, sizeof lane);
  for (; i < n; ++i) lane[0] = LARGER(x[i], lane[0]);
  for (int l = 1; l < REDUCE_LANES; ++l) lane[0] = LARGER(lane[l], lane[0]);
  return lane[0];
}

static float exp_sum_f32(float *y, const float *x, float shift, int64_t n) {
  INDEPENDENT for (int64_t i = 0; i < n; ++i) {
    const float d = x[i] - shift;
    y[i] = vexp_f32(d);
  }
  return sum_f32(y, n);
}

/* ---- broadcast --------------------------------------------------------------------------------------------------- */

/* Whole groups of SPREAD_AT_ONCE elements: rows are often shorter than a vector loop with its remainder is worth. */
#define SPREAD(type)                                                                                                   \
  static void spread_##type(void *to, const void *from, int64_t step, int64_t length, int64_t n) {                     \
    type *row = to;                                                                                                    \
    for (const char *at = from; n > 0; --n, at += step, row += length) {                                               \
      const type value = *(const type *)(const void *)at;                                                              \
      for (int64_t i = 0; i < length; i += SPREAD_AT_ONCE)                                                             \
        for (int k = 0; k < SPREAD_AT_ONCE; ++k) row[i + k] = value;                                                   \
    }                                                                                                                  \
  }
SPREAD(int32_t)
SPREAD(int64_t)

/* ---- non-temporal stores ----------------------------------------------------------------------------------------- */

static void stream_fetching(char *to, const char *from, int64_t bytes, const read_ahead *next, int n_next) {
  int64_t line = 0;
  for (; (line + 1) * STREAM_LINE <= bytes; ++line) {
    for (int k = 0; k < n_next; ++k)
      for (int64_t i = 0; i < next[k].bytes_a_line; i += STREAM_LINE)
        __builtin_prefetch(next[k].at + line * next[k].bytes_a_line + i);
    stream_line(to + line * STREAM_LINE, from + line * STREAM_LINE);
  }
  memcpy(to + line * STREAM_LINE, from + line * STREAM_LINE, (size_t)(bytes - line * STREAM_LINE));
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

#define DECLARE(name, suffix) elementwise_loop EW_LOOP(name, suffix);
#ifdef __AVX512F__
#  define DECLARE_HALVES(name) DECLARE(name, f16) DECLARE(name, bf16)
#else
#  define DECLARE_HALVES(name)
#endif
#define EACH_ALL(n, name, expression)     EACH_FLOAT(n, name, expression) EACH_INTEGER(n, name, expression)
#define EACH_FLOAT(n, name, expression)   EACH_NEAR(n, name, expression) DECLARE_HALVES(name)
#define EACH_NEAR(n, name, expression)    DECLARE(name, f32) DECLARE(name, f64)
#define EACH_INTEGER(n, name, expression) DECLARE(name, i32) DECLARE(name, i64)
#define EACH_PAIR(name, suffix, compute)  DECLARE(name, suffix)
#include "kernel/engine/elementwise_each.inc"

#define LOAD_ROW(name, dtype)                                                                                          \
  [dtype] = {[COMPUTE_F32] = load_##name##_f32,                                                                        \
             [COMPUTE_F64] = load_##name##_f64,                                                                        \
             [COMPUTE_I32] = load_##name##_i32,                                                                        \
             [COMPUTE_I64] = load_##name##_i64},
#define STORE_ROW(name, dtype)                                                                                         \
  [dtype] = {[COMPUTE_F32] = store_##name##_f32,                                                                       \
             [COMPUTE_F64] = store_##name##_f64,                                                                       \
             [COMPUTE_I32] = store_##name##_i32,                                                                       \
             [COMPUTE_I64] = store_##name##_i64},

const kernel_loops LEVELED(loops) = {
    .name = TEXT(LEVEL),
    .elementwise =
        {
#define FLOAT_LOOPS(name)                 [COMPUTE_F32] = EW_LOOP(name, f32), [COMPUTE_F64] = EW_LOOP(name, f64)
#define INTEGER_LOOPS(name)               [COMPUTE_I32] = EW_LOOP(name, i32), [COMPUTE_I64] = EW_LOOP(name, i64)
#define EACH_ALL(n, name, expression)     [EW_##name] = {FLOAT_LOOPS(name), INTEGER_LOOPS(name)},
#define EACH_FLOAT(n, name, expression)   [EW_##name] = {FLOAT_LOOPS(name)},
#define EACH_INTEGER(n, name, expression) [EW_##name] = {INTEGER_LOOPS(name)},
#define EACH_PAIR(name, suffix, compute)  [EW_##name] = {[compute] = EW_LOOP(name, suffix)},
#include "kernel/engine/elementwise_each.inc"
        },
#ifdef __AVX512F__
    .halves =
        {
#  define EACH_ALL(n, name, expression) [EW_##name] = {EW_LOOP(name, f16), EW_LOOP(name, bf16)},
#  define EACH_FLOAT                    EACH_ALL
#  define EACH_INTEGER(n, name, expression)
#  define EACH_NEAR(n, name, expression)
#  include "kernel/engine/elementwise_each.inc"
        },
#endif
    .load = {DTYPES(LOAD_ROW)},
    .store = {DTYPES(STORE_ROW)},
    .spread = {spread_int32_t, spread_int64_t},
    .stream_bytes = stream_fetching,
    .stream_end = stream_end,
    .sum_f32 = sum_f32,
    .sum_f64 = sum_f64,
    .sum_i64 = sum_i64,
    .max_f32 = max_f32,
    .exp_sum_f32 = exp_sum_f32,
};
