/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled once per instruction set level; see resample_loops.h. */
#include "kernel/engine/level.h"
#include "kernel/engine/loops.h"
#include "kernel/resample/resample_loops.h"

/* Cases in resample_type.inc: each has a loop without conditions. */
#define ROWS_CASES(R)                                                                                                  \
  case R * 4: NAME(rows_of)(sum, at, w, R, n, false, false); break;                                                    \
  case R * 4 + 1: NAME(rows_of)(sum, at, w, R, n, false, true); break;                                                 \
  case R * 4 + 2: NAME(rows_of)(sum, at, w, R, n, true, false); break;                                                 \
  case R * 4 + 3:                                                                                                      \
    NAME(rows_of)(sum, at, w, R, n, true, true);                                                                       \
    break;
#define FEW_CASES(TAPS)                                                                                                \
  case TAPS * 2: NAME(few_of)(out, at, first, count, w, pitch, TAPS, n, false); break;                                 \
  case TAPS * 2 + 1:                                                                                                   \
    NAME(few_of)(out, at, first, count, w, pitch, TAPS, n, true);                                                      \
    break;

#define T       float
#define NAME(f) f##_f32
#include "kernel/resample/resample_type.inc"

#define T       double
#define NAME(f) f##_f64
#include "kernel/resample/resample_type.inc"

#define PICK(T)                                                                                                        \
  {                                                                                                                    \
    T *restrict to = out;                                                                                              \
    const T *restrict from = x;                                                                                        \
    for (int64_t i = 0; i < n; ++i) to[i] = from[index[i]];                                                            \
    break;                                                                                                             \
  }

static void pick(void *out, const void *x, const int32_t *restrict index, int element_bytes, int64_t n) {
  switch (element_bytes) {
  case 1: PICK(uint8_t)
  case 2: PICK(uint16_t)
  case 4: PICK(uint32_t)
  default: PICK(uint64_t)
  }
}

const resample_loops_table LEVELED(resample_loops_table) = {
    .f32 = {.rows = rows_f32, .few = few_f32, .dot = dot_f32, .divide = divide_f32},
    .f64 = {.rows = rows_f64, .few = few_f64, .dot = dot_f64, .divide = divide_f64},
    .pick = pick,
};
