#include "kernel/loops.h"

#include <stdlib.h>
#include <string.h>

extern const kernel_loops loops_portable;
#ifdef CANNON_X86_LEVELS
extern const kernel_loops loops_v3, loops_v4;
#endif

const kernel_loops *loops = &loops_portable;

/* The highest level whose instructions the processor has, and not above the one that CANNON_ISA names. */
__attribute__((constructor)) static void choose(void) {
#ifdef CANNON_X86_LEVELS
  const char *most = getenv("CANNON_ISA");
  if (most && !strcmp(most, loops_portable.name)) return;
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (v3) loops = &loops_v3;
  if (v4 && !(most && !strcmp(most, loops_v3.name))) loops = &loops_v4;
#endif
}
