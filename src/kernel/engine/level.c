#include "kernel/engine/level.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/engine/loops.h"

isa_level isa_level_chosen(void) {
#if defined(CANNON_LEVEL_V3) || defined(CANNON_LEVEL_V4)
  const char *most = getenv("CANNON_ISA");
  if (most && !strcmp(most, "portable")) return LEVEL_PORTABLE;
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  LEVEL_IF_V4(if (v4 && !(most && !strcmp(most, "v3"))) return LEVEL_V4;)
  LEVEL_IF_V3(if (v3) return LEVEL_V3;)
  (void)v3, (void)v4, (void)most;
#endif
  return LEVEL_PORTABLE;
}

LEVEL_CHOICE(kernel_loops, loops, loops)
