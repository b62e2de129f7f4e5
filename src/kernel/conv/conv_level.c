/* Compiled once per instruction set level; see loops.h. */
#include <string.h>

#include "kernel/conv/loops.h"
#include "kernel/engine/level.h"

#define TAKE(T)                                                                                                        \
  {                                                                                                                    \
    T *restrict to = out;                                                                                              \
    const T *restrict from = x;                                                                                        \
    if (step == 2)                                                                                                     \
      for (int64_t i = 0; i < n; ++i) to[i] = from[i * 2];                                                             \
    else                                                                                                               \
      for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];                                                          \
    break;                                                                                                             \
  }

static void take(void *out, const void *x, int64_t step, int element_bytes, int64_t n) {
  switch (element_bytes) {
  case 1: TAKE(uint8_t)
  case 2: TAKE(uint16_t)
  case 4: TAKE(uint32_t)
  case 8: TAKE(uint64_t)
  default:
    for (int64_t i = 0; i < n; ++i)
      memcpy((char *)out + i * element_bytes, (const char *)x + i * step * element_bytes, (size_t)element_bytes);
  }
}

#define SPREAD(T, suffix)                                                                                              \
  static void spread_##suffix(T *restrict sum, int64_t step, const T *restrict x, int64_t n) {                         \
    if (step == 1)                                                                                                     \
      for (int64_t i = 0; i < n; ++i) sum[i] += x[i];                                                                  \
    else                                                                                                               \
      for (int64_t i = 0; i < n; ++i) sum[i * step] += x[i];                                                           \
  }
SPREAD(float, f32)
SPREAD(double, f64)

const conv_loops_table LEVELED(conv_loops_table) = {.take = take, .spread_f32 = spread_f32, .spread_f64 = spread_f64};
