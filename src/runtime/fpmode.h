/* Tasks run in a defined floating-point mode (round to nearest, denormals kept, no traps), whatever the thread that
 * happens to run them has set; its own mode is restored after a batch. */
#ifndef CANNON_RUNTIME_FPMODE_H
#define CANNON_RUNTIME_FPMODE_H

#include <stdint.h>

#if defined(__x86_64__)
#  include <xmmintrin.h>
typedef uint32_t fp_mode;
enum { FP_DEFAULT = 0x1f80, FP_STICKY = 0x3f }; /* the low bits only record exceptions */
static inline fp_mode fp_mode_enter(void) {
  const fp_mode old = _mm_getcsr();
  if ((old & ~(fp_mode)FP_STICKY) != FP_DEFAULT) _mm_setcsr(FP_DEFAULT);
  return old;
}
static inline void fp_mode_leave(fp_mode old) {
  if ((old & ~(fp_mode)FP_STICKY) != FP_DEFAULT) _mm_setcsr(old);
}
#else
#  include <fenv.h>
typedef fenv_t fp_mode;
static inline fp_mode fp_mode_enter(void) {
  fp_mode old;
  fegetenv(&old);
  fesetenv(FE_DFL_ENV);
  return old;
}
static inline void fp_mode_leave(fp_mode old) { fesetenv(&old); }
#endif

#endif
