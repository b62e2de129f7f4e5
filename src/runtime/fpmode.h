/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks run in a defined floating-point mode (round to nearest, denormals kept, no traps), whatever mode the
 * thread is in that happens to run them. The thread's own mode is restored after each batch of tasks. Used
 * by stream.c and callback.c. */
#ifndef CANNON_RUNTIME_FPMODE_H
#define CANNON_RUNTIME_FPMODE_H

#include <stdint.h>

#if defined(__x86_64__)
#  include <xmmintrin.h>
typedef uint32_t fp_mode;
enum { FP_DEFAULT = 0x1f80, FP_STICKY = 0x3f }; /* values of MXCSR; its low bits only record exceptions */

/* Sets the defined mode and returns the old one, for fp_mode_leave(). */
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
