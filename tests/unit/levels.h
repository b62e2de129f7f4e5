/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of each instruction set level that this processor supports. */
#ifndef CANNON_TESTS_UNIT_LEVELS_H
#define CANNON_TESTS_UNIT_LEVELS_H

#include "kernel/engine/level_choice.h"
#include "kernel/engine/loops.h"

extern const kernel_loops LEVEL_BASED(loops);
LEVEL_IF_V3(extern const kernel_loops loops_v3;)
LEVEL_IF_V4(extern const kernel_loops loops_v4;)

enum { MAX_LEVELS = 3 };

/* Fills in the levels, lowest first, and returns their number. */
static inline int levels_here(const kernel_loops *level[MAX_LEVELS]) {
  int n = 0;
  level[n++] = &LEVEL_BASED(loops);
#if defined(CANNON_LEVEL_V3) || defined(CANNON_LEVEL_V4)
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  LEVEL_IF_V3(if (v3) level[n++] = &loops_v3;)
  LEVEL_IF_V4(if (v3 && v4) level[n++] = &loops_v4;)
#endif
  return n;
}

#endif
