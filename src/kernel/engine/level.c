/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/engine/level_choice.h"

#include <stdbool.h>

#include "base/settings/variables.h"
#include "kernel/engine/loops.h"

static isa_level isa_level_allowed(void) {
  uint64_t most; /* the variable's words are in the order of levels */
  return variable_read(VARIABLE_ISA, &most) ? (isa_level)most : LEVEL_AMX;
}

isa_level isa_level_chosen(void) {
#if defined(CANNON_LEVEL_V3) || defined(CANNON_LEVEL_V4)
  const isa_level most = isa_level_allowed();
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  LEVEL_IF_V4(if (v4 && most >= LEVEL_V4) return LEVEL_V4;)
  LEVEL_IF_V3(if (v3 && most >= LEVEL_V3) return LEVEL_V3;)
  (void)v3, (void)v4, (void)most;
#endif
  return CANNON_BASE_LEVEL;
}

bool isa_may_use(isa_level extension) { return isa_level_chosen() == LEVEL_V4 && isa_level_allowed() >= extension; }

LEVEL_CHOICE(kernel_loops, loops, loops)
