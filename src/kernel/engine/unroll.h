/* SPDX-License-Identifier: Apache-2.0 */
/* Pragmas for kernels that keep blocks in registers: UNROLL unrolls loops of up to 16 iterations completely, INLINE
 * forces a function into each of its callers. */
#ifndef CANNON_KERNEL_ENGINE_UNROLL_H
#define CANNON_KERNEL_ENGINE_UNROLL_H

#if defined(__clang__)
#  define UNROLL _Pragma("clang loop unroll(full)")
#else
#  define UNROLL _Pragma("GCC unroll 16")
#endif
#define INLINE static inline __attribute__((always_inline))

#endif
