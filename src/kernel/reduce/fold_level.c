/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of reductions; see fold.h. */
#include <math.h>
#include <string.h>

#include "kernel/engine/level.h"
#include "kernel/engine/unroll.h"
#include "kernel/engine/vmath/vmath.h"
#include "kernel/reduce/fold.h"

#if defined(__AVX512F__)
#  include <immintrin.h>

#  include "kernel/product/tile/tile_transpose.h"
#endif

/* bytes: rows this far apart are prefetched, since hardware prefetchers stop at pages */
enum { FAR_BYTES = 2048, AHEAD = 8 };

/* Prefetches for a loop that reads the rows of a matrix in turn. */
static inline void reduce_prefetch(const char *row, int64_t pitch, int64_t bytes) {
  if (pitch < FAR_BYTES) return;
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(row + AHEAD * pitch + i);
}

/* ---- what the templates use -------------------------------------------------------------------------------------- */

/* One level of the tree over the lanes; explicit, so that lanes stay in registers. */
#define HALVE(T, half, JOIN)                                                                                           \
  for (int l = 0; l < half; ++l) {                                                                                     \
    const T a = lane[l], b = lane[l + half];                                                                           \
    lane[l] = JOIN;                                                                                                    \
  }
_Static_assert(FOLD_LANES == 32, "the tree has five levels");

/* Loads the first n of FOLD_LANES elements of `size` bytes; the others are undefined. */
static inline void load_lanes(void *to, const void *from, int n, size_t size) {
#if defined(__AVX512F__)
  int words = n * (int)size / 4;
  for (size_t at = 0; at < FOLD_LANES * size; at += 64, words -= 16) {
    const __mmask16 lanes = (__mmask16)_bzhi_u32(0xffff, words < 0 ? 0 : (unsigned)words);
    _mm512_storeu_si512((char *)to + at, _mm512_maskz_loadu_epi32(lanes, (const char *)from + at));
  }
#else
  memset(to, 0, FOLD_LANES * size);
  memcpy(to, from, (size_t)n * size);
#endif
}

/* Some of these are unused where fold_vectors.h has a replacement. */
#define LOOP static __attribute__((unused)) void

/* Defines `rows`, which reduces each row by `row`. */
#define EACH_ROW(rows, row)                                                                                            \
  LOOP rows(const fold_rows *of, const double *shift, fold_value *value, fold_value *second) {                         \
    const char *x = of->x;                                                                                             \
    for (int64_t r = 0; r < of->count; ++r, x += of->pitch) row(x, of->n, shift[r], value + r, second + r);            \
  }

/* Lane l of `width` columns in a state. Lanes are adjacent, so FOLD_LANES contiguous rows of a strip can be processed
 * as one wide row of lanes, which makes loops longer. */
#define LANE(T, state, l, width) ((T *)(state) + (l) * (width))
#define SECOND_STATE(state)      ((void *)((char *)(state) + FOLD_STATE_BYTES / 2))

/* How many rows can be processed in this way: those that fill all lanes. */
static inline int64_t adjoining_rows(int64_t pitch, int64_t k, int64_t n, int64_t width, int64_t size) {
  return pitch == width * size && width < FOLD_WIDTH && k % FOLD_LANES == 0 ? n - n % FOLD_LANES : 0;
}

#if defined(__AVX512F__)
#  include "kernel/reduce/fold_vectors.h"
#endif
#if defined(__AVX2__)
#  include "kernel/reduce/fold_eights.h"
#endif

/* ---- reductions to one value ------------------------------------------------------------------------------------- */

#define IS_NAN(x) ((x) != (x)) /* false for integers */
/* NaN takes precedence. */
#define LARGER  (((b > a) | IS_NAN(b)) ? b : a)
#define SMALLER (((b < a) | IS_NAN(b)) ? b : a)
/* The neutral elements of maxima and minima. */
#define LEAST  _Generic((T)0, int64_t : INT64_MIN, default : -INFINITY)
#define MOST   _Generic((T)0, int64_t : INT64_MAX, default : INFINITY)
#define ABS(x) _Generic((x), float : fabsf, double : fabs)(x)

#define KIND(f)  sum_##f
#define TERM     x
#define INTEGERS 1
#include "kernel/reduce/fold_kind.inc"

#define KIND(f) sum_abs_##f
#define TERM    ABS(x)
#include "kernel/reduce/fold_kind.inc"

#define KIND(f)   sum_square_##f
#define TERM      (x * x)
#define F32_LANES double
#include "kernel/reduce/fold_kind.inc"

#define KIND(f) sum_not_nan_##f
#define TERM    (IS_NAN(x) ? 0 : x)
#include "kernel/reduce/fold_kind.inc"

#define KIND(f)   sum_power_##f
#define TERM      pow(fabs(x), shift)
#define SHIFTS    1
#define F32_LANES double
#include "kernel/reduce/fold_kind.inc"

#define KIND(f)   sum_exp_##f
#define TERM      _Generic((X)0, float : wide_exp, double : exp)(x - shift)
#define SHIFTS    1
#define F32_LANES double
#include "kernel/reduce/fold_kind.inc"

#define KIND(f)   count_##f
#define TERM      (x != 0)
#define F32_LANES double
#include "kernel/reduce/fold_kind.inc"

#define KIND(f)   product_##f
#define TERM      x
#define JOIN      (a * b)
#define INIT      1
#define F32_LANES double
#define INTEGERS  1
#include "kernel/reduce/fold_kind.inc"

#define KIND(f)  any_##f
#define TERM     (x != 0)
#define JOIN     (a > b ? a : b)
#define INTEGERS 1
#include "kernel/reduce/fold_kind.inc"

#define KIND(f)  all_##f
#define TERM     (x != 0)
#define JOIN     (a < b ? a : b)
#define INIT     1
#define INTEGERS 1
#include "kernel/reduce/fold_kind.inc"

#define KIND(f)  max_##f
#define TERM     x
#define JOIN     LARGER
#define INIT     LEAST
#define INTEGERS 1
#define BEATS    >
#include "kernel/reduce/fold_kind.inc"

#define KIND(f)  min_##f
#define TERM     x
#define JOIN     SMALLER
#define INIT     MOST
#define INTEGERS 1
#define BEATS    <
#include "kernel/reduce/fold_kind.inc"

#define KIND(f)  max_abs_##f
#define TERM     (x < 0 ? -x : x)
#define JOIN     LARGER
#define INTEGERS 1
#define BEATS    >
#include "kernel/reduce/fold_kind.inc"

#define KIND(f)  min_abs_##f
#define TERM     (x < 0 ? -x : x)
#define JOIN     SMALLER
#define INIT     MOST
#define INTEGERS 1
#define BEATS    <
#include "kernel/reduce/fold_kind.inc"

/* ---- reductions to two values ------------------------------------------------------------------------------------ */

#define KIND(f)   deviations_1_##f
#define TERM      (x - shift)
#define SHIFTS    1
#define F32_LANES double
#include "kernel/reduce/fold_kind.inc"

#define KIND(f)   deviations_2_##f
#define TERM      ((x - shift) * (x - shift))
#define SHIFTS    1
#define F32_LANES double
#include "kernel/reduce/fold_kind.inc"

#define KIND(f)  min_max_1_##f
#define TERM     x
#define JOIN     SMALLER
#define INIT     MOST
#define INTEGERS 1
#include "kernel/reduce/fold_kind.inc"

#define KIND(f)  min_max_2_##f
#define TERM     x
#define JOIN     LARGER
#define INIT     LEAST
#define INTEGERS 1
#include "kernel/reduce/fold_kind.inc"

typedef void fold_some(void *state, const void *x, int64_t pitch, int64_t k, int64_t n, int64_t width,
                       const double *shift);

/* Both reductions of a few rows at a time, so that the second one reads them from L1. It uses the second half of the
 * state. */
INLINE void pair_step(void *state, const void *x, int64_t pitch, int64_t k, int64_t n, int64_t width,
                      const double *shift, fold_some *first, fold_some *second) {
  for (int64_t i = 0, rows; i < n; i += rows) {
    rows = n - i < FOLD_LANES ? n - i : FOLD_LANES;
    const char *from = (const char *)x + i * pitch;
    first(state, from, pitch, k + i, rows, width, shift);
    second(SECOND_STATE(state), from, pitch, k + i, rows, width, shift);
  }
}

#define PAIR(name, type)                                                                                               \
  LOOP name##_##type##_row(const void *x, int64_t n, double shift, fold_value *value, fold_value *second) {            \
    name##_1_##type##_row(x, n, shift, value, NULL);                                                                   \
    name##_2_##type##_row(x, n, shift, second, NULL);                                                                  \
  }                                                                                                                    \
  EACH_ROW(name##_##type##_rows, name##_##type##_row)                                                                  \
  LOOP name##_##type##_step(void *state, const void *x, int64_t pitch, int64_t k, int64_t n, int64_t width,            \
                            const double *shift) {                                                                     \
    pair_step(state, x, pitch, k, n, width, shift, name##_1_##type##_step, name##_2_##type##_step);                    \
  }                                                                                                                    \
  static void name##_##type##_end(void *state, int64_t n, int64_t width, fold_value *value, fold_value *second) {      \
    name##_1_##type##_end(state, n, width, value, NULL);                                                               \
    name##_2_##type##_end(SECOND_STATE(state), n, width, second, NULL);                                                \
  }
PAIR(deviations, f32)
PAIR(deviations, f64)
PAIR(min_max, f32)
PAIR(min_max, f64)
PAIR(min_max, i64)

/* ---- indices of maxima and minima -------------------------------------------------------------------------------- */

#define T          float
#define INDEX      int32_t
#define MEMBER     f64
#define NAME(f)    arg_max_f32_##f
#define EXTREME(f) max_f32_##f
#define BEATS      >
#include "kernel/reduce/fold_arg.inc"

#define T          double
#define INDEX      int64_t
#define MEMBER     f64
#define NAME(f)    arg_max_f64_##f
#define EXTREME(f) max_f64_##f
#define BEATS      >
#include "kernel/reduce/fold_arg.inc"

#define T          int64_t
#define INDEX      int64_t
#define MEMBER     i64
#define NAME(f)    arg_max_i64_##f
#define EXTREME(f) max_i64_##f
#define BEATS      >
#include "kernel/reduce/fold_arg.inc"

#define T          float
#define INDEX      int32_t
#define MEMBER     f64
#define NAME(f)    arg_min_f32_##f
#define EXTREME(f) min_f32_##f
#define BEATS      <
#include "kernel/reduce/fold_arg.inc"

#define T          double
#define INDEX      int64_t
#define MEMBER     f64
#define NAME(f)    arg_min_f64_##f
#define EXTREME(f) min_f64_##f
#define BEATS      <
#include "kernel/reduce/fold_arg.inc"

#define T          int64_t
#define INDEX      int64_t
#define MEMBER     i64
#define NAME(f)    arg_min_i64_##f
#define EXTREME(f) min_i64_##f
#define BEATS      <
#include "kernel/reduce/fold_arg.inc"

/* ---- final operations -------------------------------------------------------------------------------------------- */

/* The squares are of x - shift rather than of x - mean; the difference follows from the sum of x - shift and is
 * subtracted. */
static void settle_moments(const double *shift, fold_value *value, fold_value *second, int64_t n, int64_t width) {
  const double count = (double)n;
  for (int64_t j = 0; j < width; ++j) {
    const double off = value[j].f64 / count, squares = second[j].f64 - value[j].f64 * off;
    value[j].f64 = shift[j] + off;
    second[j].f64 = squares < 0 ? 0 : squares;
  }
}

static void finish_variance(double correction, int64_t n, fold_value *value, fold_value *second, int64_t width) {
  const double left = (double)n - correction, divisor = left > 0 ? left : 0;
  for (int64_t j = 0; j < width; ++j) {
    const double mean = value[j].f64;
    value[j].f64 = second[j].f64 / divisor;
    second[j].f64 = mean;
  }
}

static void roots(fold_value *value, int64_t width) {
#if defined(__AVX512F__)
  for (int64_t j = 0; j < width; j += 8) fold_roots_of_8(value + j, width - j);
#else
  for (int64_t j = 0; j < width; ++j) value[j].f64 = sqrt(value[j].f64);
#endif
}

static void reduce_vectors_finish(finish_kind kind, double parameter, int64_t n, fold_value *value, fold_value *second,
                                  int64_t width) {
  const double count = (double)n;
  switch (kind) {
  case FINISH_MEAN:
    for (int64_t j = 0; j < width; ++j) value[j].f64 /= count;
    break;
  case FINISH_QUOTIENT:
    for (int64_t j = 0; j < width; ++j) value[j].i64 = n ? value[j].i64 / n : 0;
    break;
  case FINISH_ROOT: roots(value, width); break;
  case FINISH_POWER:
    for (int64_t j = 0; j < width; ++j) value[j].f64 = pow(value[j].f64, parameter);
    break;
  case FINISH_LOG:
    for (int64_t j = 0; j < width; ++j) value[j].f64 = log(value[j].f64);
    break;
  case FINISH_LOG_SUM_EXP:
    for (int64_t j = 0; j < width; ++j)
      value[j].f64 = second[j].f64 != second[j].f64 || isinf(value[j].f64)
                         ? value[j].f64 + (second[j].f64 - second[j].f64)
                         : value[j].f64 + log(second[j].f64);
    break;
  case FINISH_VARIANCE: finish_variance(parameter, n, value, second, width); break;
  case FINISH_STANDARD:
    finish_variance(parameter, n, value, second, width);
    roots(value, width);
    break;
  default: break;
  }
}

/* ---- complex numbers --------------------------------------------------------------------------------------------- */

static complex_pair complex_product(const double *real, const double *imaginary, int64_t n) {
  double r[FOLD_PRODUCTS], i[FOLD_PRODUCTS];
  const int64_t lanes = n < FOLD_PRODUCTS ? n : FOLD_PRODUCTS;
  int64_t k = lanes;
  memcpy(r, real, (size_t)lanes * sizeof *r);
  memcpy(i, imaginary, (size_t)lanes * sizeof *i);
  for (; k + FOLD_PRODUCTS <= n; k += FOLD_PRODUCTS)
    for (int l = 0; l < FOLD_PRODUCTS; ++l) {
      const double a = r[l], b = i[l], c = real[k + l], d = imaginary[k + l];
      r[l] = a * c - b * d;
      i[l] = a * d + b * c;
    }
  complex_pair all = {r[0], i[0]};
  for (int64_t l = 0; l < lanes; ++l) {
    complex_pair lane = {r[l], i[l]};
    if (k + l < n) lane = complex_times(lane, (complex_pair){real[k + l], imaginary[k + l]});
    all = l ? complex_times(all, lane) : lane;
  }
  return all;
}

/* ---- transposition ----------------------------------------------------------------------------------------------- */

#define TURN(name, T)                                                                                                  \
  static void name(char *to, int64_t to_pitch, const char *from, int64_t pitch, int64_t n_rows, int64_t n) {           \
    for (int64_t i = 0; i < n; ++i) {                                                                                  \
      T *const out = (T *)(void *)(to + i * to_pitch);                                                                 \
      const char *const column = from + i * (int64_t)sizeof(T);                                                        \
      for (int64_t r = 0; r < n_rows; ++r) out[r] = *(const T *)(const void *)(column + r * pitch);                    \
    }                                                                                                                  \
  }
TURN(turn_8, int64_t)

#if defined(__AVX512F__)
static void turn_4(char *to, int64_t to_pitch, const char *from, int64_t pitch, int64_t n_rows, int64_t n) {
  for (int64_t r = 0; r < n_rows; r += 16) {
    const int64_t rows = n_rows - r < 16 ? n_rows - r : 16;
    const __mmask16 some_rows = (__mmask16)((1u << rows) - 1);
    for (int64_t i = 0; i < n; i += 16) {
      const int64_t columns = n - i < 16 ? n - i : 16;
      const __mmask16 some_columns = (__mmask16)((1u << columns) - 1);
      __m512i part[16];
      for (int k = 0; k < 16; ++k)
        part[k] =
            k < rows ? _mm512_maskz_loadu_epi32(some_columns, from + (r + k) * pitch + i * 4) : _mm512_setzero_si512();
      tile_transpose_16x16(part);
      for (int k = 0; k < 16; ++k)
        if (k < columns) _mm512_mask_storeu_epi32(to + (i + k) * to_pitch + r * 4, some_rows, part[k]);
    }
  }
}
#else
TURN(turn_4, int32_t)
#endif

static void reduce_transpose(void *to, int64_t to_pitch, const void *from, int64_t pitch, int64_t n_rows, int64_t n,
                             int size) {
  (size == 4 ? turn_4 : turn_8)(to, to_pitch, from, pitch, n_rows, n);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

#define LOOPS(name)                                                                                                    \
  { .rows = name##_rows, .step = name##_step, .end = name##_end, .turned_most = FOLD_TURNED }
#define FLOATS(name)                                                                                                   \
  { [COMPUTE_F32] = LOOPS(name##_f32), [COMPUTE_F64] = LOOPS(name##_f64) }
#define ALL_TYPES(name)                                                                                                \
  { [COMPUTE_F32] = LOOPS(name##_f32), [COMPUTE_F64] = LOOPS(name##_f64), [COMPUTE_I64] = LOOPS(name##_i64) }

/* The float loops, by vectors where there are any. */
#if defined(__AVX512F__)
#  define VECTORS_OF(type, name)                                                                                       \
    {                                                                                                                  \
      .rows = name##_of_##type##_rows, .step = name##_of_##type##_step, .end = name##_f32_end,                         \
      .turned_most = VECTORS_TURNED                                                                                    \
    }
#  define FLOATS_BY_VECTORS(name)                                                                                      \
    {                                                                                                                  \
      .rows = name##_of_f32_rows, .step = name##_of_f32_step, .end = name##_f32_end, .few = name##_eights_few,         \
      .turned_most = VECTORS_TURNED                                                                                    \
    }
#  define VECTOR_TYPES(name)                                                                                           \
    { [COMPUTE_F32] = FLOATS_BY_VECTORS(name), [COMPUTE_F64] = LOOPS(name##_f64), [COMPUTE_I64] = LOOPS(name##_i64) }
#  define SQUARE_TYPES                                                                                                 \
    {                                                                                                                  \
      [COMPUTE_F32] = {.rows = sum_square_of_f32_rows,                                                                 \
                       .step = sum_square_f32_step,                                                                    \
                       .end = sum_square_f32_end,                                                                      \
                       .turned_most = VECTORS_TURNED},                                                                 \
      [COMPUTE_F64] = LOOPS(sum_square_f64)                                                                            \
    }
#  define STORED(type)                                                                                                 \
    { [FOLD_SUM] = VECTORS_OF(type, sum), [FOLD_MAX] = VECTORS_OF(type, max), [FOLD_MIN] = VECTORS_OF(type, min) }
#else
#  if defined(__AVX2__)
#    define VECTOR_TYPES(name)                                                                                         \
      {                                                                                                                \
        [COMPUTE_F32] = {.rows = name##_of_f32_rows,                                                                   \
                         .step = name##_f32_step,                                                                      \
                         .end = name##_f32_end,                                                                        \
                         .few = name##_eights_few,                                                                     \
                         .turned_most = EIGHTS_TURNED},                                                                \
        [COMPUTE_F64] = LOOPS(name##_f64), [COMPUTE_I64] = LOOPS(name##_i64)                                           \
      }
#  else
#    define VECTOR_TYPES ALL_TYPES
#  endif
#  define SQUARE_TYPES FLOATS(sum_square)
#  define STORED(type)                                                                                                 \
    {                                                                                                                  \
      { .rows = NULL }                                                                                                 \
    }
#endif

const reduction_loops LEVELED(reduction) = {
    .fold =
        {
            [FOLD_SUM] = VECTOR_TYPES(sum),
            [FOLD_SUM_ABS] = FLOATS(sum_abs),
            [FOLD_SUM_SQUARE] = SQUARE_TYPES,
            [FOLD_SUM_NOT_NAN] = FLOATS(sum_not_nan),
            [FOLD_SUM_POWER] = FLOATS(sum_power),
            [FOLD_COUNT] = FLOATS(count),
            [FOLD_PRODUCT] = ALL_TYPES(product),
            [FOLD_MAX] = VECTOR_TYPES(max),
            [FOLD_MIN] = VECTOR_TYPES(min),
            [FOLD_MAX_ABS] = ALL_TYPES(max_abs),
            [FOLD_MIN_ABS] = ALL_TYPES(min_abs),
            [FOLD_ANY] = ALL_TYPES(any),
            [FOLD_ALL] = ALL_TYPES(all),
            [FOLD_SUM_EXP] = FLOATS(sum_exp),
            [FOLD_DEVIATIONS] = FLOATS(deviations),
            [FOLD_MIN_MAX] = ALL_TYPES(min_max),
            [FOLD_ARG_MAX] = ALL_TYPES(arg_max),
            [FOLD_ARG_MIN] = ALL_TYPES(arg_min),
        },
    .f16 = STORED(f16),
    .bf16 = STORED(bf16),
    .settle_moments = settle_moments,
    .finish = reduce_vectors_finish,
    .complex_product = complex_product,
    .turn = reduce_transpose,
};
