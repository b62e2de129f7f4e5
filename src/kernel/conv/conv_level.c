/* Compiled once per instruction set level; see loops.h. */
#include <string.h>

#include "kernel/conv/loops.h"
#include "kernel/engine/level.h"

#define TAKE(T)                                                                                                        \
  {                                                                                                                    \
    T *restrict to = out;                                                                                              \
    const T *restrict from = x;                                                                                        \
    if (step == 1)                                                                                                     \
      memcpy(to, from, (size_t)n * sizeof *to);                                                                        \
    else if (step == 2)                                                                                                \
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

static inline void pair_of(uint32_t *restrict out, const uint16_t *low, const uint16_t *high, int64_t step, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = low[i * step] | (uint32_t)high[i * step] << 16;
}

static void pair(uint32_t *restrict out, const uint16_t *low, const uint16_t *high, int64_t step, int64_t n) {
  if (!high)
    for (int64_t i = 0; i < n; ++i) out[i] = low[i * step];
  else if (step == 1)
    pair_of(out, low, high, 1, n);
  else if (step == 2)
    pair_of(out, low, high, 2, n);
  else
    pair_of(out, low, high, step, n);
}

const conv_loops_table LEVELED(conv_loops_table) = {
    .take = take, .spread_f32 = spread_f32, .spread_f64 = spread_f64, .pair = pair};
