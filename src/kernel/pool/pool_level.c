/* Compiled once per instruction set level; see loops.h. */
#include "kernel/engine/level.h"
#include "kernel/pool/loops.h"

#define MAX_LOOPS(T, suffix)                                                                                           \
  static inline void step_of_##suffix(T *restrict best, const T *restrict x, int64_t step, int64_t n) {                \
    for (int64_t i = 0; i < n; ++i) {                                                                                  \
      const T v = x[i * step], b = best[i];                                                                            \
      const int take = (v > b) | (v != v);                                                                             \
      best[i] = take ? v : b;                                                                                          \
    }                                                                                                                  \
  }                                                                                                                    \
  static inline void step_at_##suffix(T *restrict best, int32_t *restrict at, const T *restrict x, int64_t step,       \
                                      int32_t place, int32_t place_step, int64_t n) {                                  \
    for (int64_t i = 0; i < n; ++i) {                                                                                  \
      const T v = x[i * step], b = best[i];                                                                            \
      const int32_t a = at[i];                                                                                         \
      const int take = (v > b) | (v != v) | (a < 0);                                                                   \
      best[i] = take ? v : b;                                                                                          \
      at[i] = take ? place + (int32_t)i * place_step : a;                                                              \
    }                                                                                                                  \
  }                                                                                                                    \
  static void step_##suffix(void *best, int32_t *at, const void *x, int64_t step, int32_t place, int32_t place_step,   \
                            int64_t n) {                                                                               \
    if (!at && step == 1)                                                                                              \
      step_of_##suffix(best, x, 1, n);                                                                                 \
    else if (!at && step == 2)                                                                                         \
      step_of_##suffix(best, x, 2, n);                                                                                 \
    else if (!at)                                                                                                      \
      step_of_##suffix(best, x, step, n);                                                                              \
    else if (step == 1)                                                                                                \
      step_at_##suffix(best, at, x, 1, place, place_step, n);                                                          \
    else if (step == 2)                                                                                                \
      step_at_##suffix(best, at, x, 2, place, place_step, n);                                                          \
    else                                                                                                               \
      step_at_##suffix(best, at, x, step, place, place_step, n);                                                       \
  }                                                                                                                    \
  static void scan_##suffix(void *best, int32_t *at, const void *xs, int32_t place, int32_t place_step, int64_t n) {   \
    const T *x = xs;                                                                                                   \
    T b = *(T *)best;                                                                                                  \
    int32_t a = *at;                                                                                                   \
    for (int64_t i = 0; i < n; ++i)                                                                                    \
      if ((x[i] > b) | (x[i] != x[i]) | (a < 0)) {                                                                     \
        b = x[i];                                                                                                      \
        a = place + (int32_t)i * place_step;                                                                           \
      }                                                                                                                \
    *(T *)best = b;                                                                                                    \
    *at = a;                                                                                                           \
  }                                                                                                                    \
  static void fill_##suffix(void *best, const void *value, int64_t n) {                                                \
    const T v = *(const T *)value;                                                                                     \
    for (int64_t i = 0; i < n; ++i) ((T *)best)[i] = v;                                                                \
  }                                                                                                                    \
  static void add_##suffix(void *sum, const void *x, const int64_t *place, int64_t n) {                                \
    for (int64_t i = 0; i < n; ++i) ((T *)sum)[place[i]] += ((const T *)x)[i];                                         \
  }

MAX_LOOPS(float, f32)
MAX_LOOPS(double, f64)
MAX_LOOPS(int32_t, i32)
MAX_LOOPS(int64_t, i64)

/* In one pass: of places outside, they or what is left behind them has its sign set. */
static int64_t first_outside(const int64_t *place, int64_t end, int64_t n) {
  int64_t signs = 0, i = 0;
  for (int64_t k = 0; k < n; ++k) signs |= place[k] | (end - 1 - place[k]);
  if (signs >= 0) return n;
  while (place[i] >= 0 && place[i] < end) ++i;
  return i;
}

const max_loops_table LEVELED(max_loops_table) = {
    .of =
        {
            [COMPUTE_F32] = {step_f32, scan_f32, fill_f32, add_f32},
            [COMPUTE_F64] = {step_f64, scan_f64, fill_f64, add_f64},
            [COMPUTE_I32] = {step_i32, scan_i32, fill_i32, add_i32},
            [COMPUTE_I64] = {step_i64, scan_i64, fill_i64, add_i64},
        },
    .first_outside = first_outside,
};
