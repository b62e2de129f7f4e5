/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled once per instruction set level; see points.h. */
#include "kernel/engine/level.h"
#include "kernel/resample/points.h"

#define FLOAT_OF(x)  (x)
#define DOUBLE_OF(x) (x)

#define BLEND(name, T, convert)                                                                                        \
  static void blend_##name(double *out, const char *plane, const point_offsets offset, const point_weights weight,     \
                           int taps, int64_t n) {                                                                      \
    for (int64_t i = 0; i < n; ++i) out[i] = 0;                                                                        \
    for (int tap = 0; tap < taps; ++tap)                                                                               \
      for (int64_t i = 0; i < n; ++i)                                                                                  \
        if (offset[tap][i] != NO_POINT)                                                                                \
          out[i] += weight[tap][i] * (double)convert(*(const T *)(const void *)(plane + offset[tap][i]));              \
  }
BLEND(f32, float, FLOAT_OF)
BLEND(f64, double, DOUBLE_OF)
BLEND(f16, uint16_t, half_to_float)
BLEND(bf16, uint16_t, bf16_to_float)

#define SPREAD(name, T)                                                                                                \
  static void spread_##name(char *plane, const point_offsets offset, const point_weights weight, int taps,             \
                            const double *g, int64_t n) {                                                              \
    for (int64_t i = 0; i < n; ++i)                                                                                    \
      for (int tap = 0; tap < taps; ++tap)                                                                             \
        if (offset[tap][i] != NO_POINT) *(T *)(void *)(plane + offset[tap][i]) += (T)(weight[tap][i] * g[i]);          \
  }
SPREAD(f32, float)
SPREAD(f64, double)

const points_loops LEVELED(points_loops) = {
    .blend = {[ACL_FLOAT] = blend_f32, [ACL_DOUBLE] = blend_f64, [ACL_FLOAT16] = blend_f16, [ACL_BF16] = blend_bf16},
    .spread = {spread_f32, spread_f64},
};
