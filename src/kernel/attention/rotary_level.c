/* SPDX-License-Identifier: Apache-2.0 */
/* See rotary_level.h. */
#include "kernel/attention/rotary_level.h"

#include "kernel/engine/level.h"
#include "kernel/engine/unroll.h"

/* Where the two numbers of pair i are in a row of 2 * half: side by side, or in the two halves. */
typedef enum { HALVES, PAIRS } rotary_layout;
#define FIRST(layout)  ((layout) == PAIRS ? 2 * i : i)
#define SECOND(layout) ((layout) == PAIRS ? 2 * i + 1 : i + half)

/* One row, whose pairs are in the layout `from` in the input and `to` in the result and the tables. */
INLINE void rotary_forward(const rotary_layout from, const rotary_layout to, float *out, const float *in,
                           const float *cos, const float *sin, int64_t half) {
  INDEPENDENT for (int64_t i = 0; i < half; ++i) {
    const float x = in[FIRST(from)], y = in[SECOND(from)];
    out[FIRST(to)] = MULTIPLY_ADD(x, cos[FIRST(to)], -(y * sin[FIRST(to)]));
    out[SECOND(to)] = MULTIPLY_ADD(y, cos[SECOND(to)], x * sin[SECOND(to)]);
  }
}

INLINE void rotary_backward(const rotary_layout from, const rotary_layout to, float *out, const float *in,
                            const float *cos, const float *sin, int64_t half) {
  INDEPENDENT for (int64_t i = 0; i < half; ++i) {
    const float a = in[FIRST(to)], b = in[SECOND(to)];
    out[FIRST(from)] = MULTIPLY_ADD(a, cos[FIRST(to)], b * sin[SECOND(to)]);
    out[SECOND(from)] = MULTIPLY_ADD(b, cos[SECOND(to)], -(a * sin[FIRST(to)]));
  }
}

INLINE void rotary_tables(const rotary_layout from, const rotary_layout to, float *dcos, float *dsin, const float *dy,
                          const float *in, int64_t half) {
  INDEPENDENT for (int64_t i = 0; i < half; ++i) {
    const float x = in[FIRST(from)], y = in[SECOND(from)], a = dy[FIRST(to)], b = dy[SECOND(to)];
    dcos[FIRST(to)] += a * x;
    dcos[SECOND(to)] += b * y;
    dsin[FIRST(to)] -= a * y;
    dsin[SECOND(to)] += b * x;
  }
}

/* Loops over all rows. A row consists of `parts` parts that are rotated independently. */
#define ROTATE(direction, name, from, to, parts)                                                                       \
  static void direction##_##name##_rows(float *out, const float *in, const float *cos, const float *sin,               \
                                        const rotary_rows *r) {                                                        \
    const int64_t part = r->d / (parts);                                                                               \
    for (int64_t k = 0; k < r->rows; ++k)                                                                              \
      for (int64_t at = 0; at < r->d; at += part)                                                                      \
        rotary_##direction(from, to, out + k * r->ld_out + at, in + k * r->ld_in + at, cos + k * r->ld_cos + at,       \
                           sin + k * r->ld_sin + at, part / 2);                                                        \
  }
#define MODE(name, from, to, parts)                                                                                    \
  ROTATE(forward, name, from, to, parts)                                                                               \
  ROTATE(backward, name, from, to, parts)                                                                              \
  static void tables_##name##_row(float *dcos, float *dsin, const float *dy, const float *x, int64_t d) {              \
    const int64_t part = d / (parts);                                                                                  \
    for (int64_t at = 0; at < d; at += part) rotary_tables(from, to, dcos + at, dsin + at, dy + at, x + at, part / 2); \
  }
MODE(half, HALVES, HALVES, 1)
MODE(interleave, PAIRS, PAIRS, 1)
MODE(quarter, HALVES, HALVES, 2)
MODE(interleave_half, PAIRS, HALVES, 1)

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
