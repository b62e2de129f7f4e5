/* SPDX-License-Identifier: Apache-2.0 */
/* See rotary_level.h. */
#include "kernel/attention/rotary_level.h"

#include "kernel/engine/level.h"

/* Loops over one row. Pair i is at IN_A(i), IN_B(i) of the input and at OUT_A(i), OUT_B(i) of the result. */
#define ROWS(name, IN_A, IN_B, OUT_A, OUT_B)                                                                           \
  static inline void forward_##name(float *out, const float *in, const float *cos, const float *sin, int64_t half) {   \
    INDEPENDENT for (int64_t i = 0; i < half; ++i) {                                                                   \
      const float x = in[IN_A(i)], y = in[IN_B(i)];                                                                    \
      out[OUT_A(i)] = MULTIPLY_ADD(x, cos[OUT_A(i)], -(y * sin[OUT_A(i)]));                                            \
      out[OUT_B(i)] = MULTIPLY_ADD(y, cos[OUT_B(i)], x * sin[OUT_B(i)]);                                               \
    }                                                                                                                  \
  }                                                                                                                    \
  static inline void backward_##name(float *out, const float *in, const float *cos, const float *sin, int64_t half) {  \
    INDEPENDENT for (int64_t i = 0; i < half; ++i) {                                                                   \
      const float a = in[OUT_A(i)], b = in[OUT_B(i)];                                                                  \
      out[IN_A(i)] = MULTIPLY_ADD(a, cos[OUT_A(i)], b * sin[OUT_B(i)]);                                                \
      out[IN_B(i)] = MULTIPLY_ADD(b, cos[OUT_B(i)], -(a * sin[OUT_A(i)]));                                             \
    }                                                                                                                  \
  }                                                                                                                    \
  static inline void tables_##name(float *dcos, float *dsin, const float *dy, const float *in, int64_t half) {         \
    INDEPENDENT for (int64_t i = 0; i < half; ++i) {                                                                   \
      const float x = in[IN_A(i)], y = in[IN_B(i)], a = dy[OUT_A(i)], b = dy[OUT_B(i)];                                \
      dcos[OUT_A(i)] += a * x;                                                                                         \
      dcos[OUT_B(i)] += b * y;                                                                                         \
      dsin[OUT_A(i)] -= a * y;                                                                                         \
      dsin[OUT_B(i)] += b * x;                                                                                         \
    }                                                                                                                  \
  }
#define FIRST(i)  (i)
#define SECOND(i) ((i) + half)
#define EVEN(i)   (2 * (i))
#define ODD(i)    (2 * (i) + 1)
ROWS(halves, FIRST, SECOND, FIRST, SECOND)
ROWS(pairs, EVEN, ODD, EVEN, ODD)
ROWS(pairs_to_halves, EVEN, ODD, FIRST, SECOND)

/* Loops over all rows. A row consists of `parts` parts that are rotated independently. */
#define ROTATE(direction, name, row, parts)                                                                            \
  static void direction##_##name##_rows(float *out, const float *in, const float *cos, const float *sin,               \
                                        const rotary_rows *r) {                                                        \
    const int64_t part = r->d / (parts);                                                                               \
    for (int64_t k = 0; k < r->rows; ++k)                                                                              \
      for (int64_t at = 0; at < r->d; at += part)                                                                      \
        direction##_##row(out + k * r->ld_out + at, in + k * r->ld_in + at, cos + k * r->ld_cos + at,                  \
                          sin + k * r->ld_sin + at, part / 2);                                                         \
  }
#define MODE(name, row, parts)                                                                                         \
  ROTATE(forward, name, row, parts)                                                                                    \
  ROTATE(backward, name, row, parts)                                                                                   \
  static void tables_##name##_row(float *dcos, float *dsin, const float *dy, const float *x, int64_t d) {              \
    const int64_t part = d / (parts);                                                                                  \
    for (int64_t at = 0; at < d; at += part) tables_##row(dcos + at, dsin + at, dy + at, x + at, part / 2);            \
  }
MODE(half, halves, 1)
MODE(interleave, pairs, 1)
MODE(quarter, halves, 2)
MODE(interleave_half, pairs_to_halves, 1)

#define ALL_MODES(direction, suffix)                                                                                   \
  {                                                                                                                    \
    direction##_half_##suffix, direction##_interleave_##suffix, direction##_quarter_##suffix,                          \
        direction##_interleave_half_##suffix                                                                           \
  }

const rotary_loops LEVELED(rotary_loops) = {
    .forward = ALL_MODES(forward, rows),
    .backward = ALL_MODES(backward, rows),
    .tables = ALL_MODES(tables, row),
};
