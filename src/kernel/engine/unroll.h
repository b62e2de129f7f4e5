/* For kernels whose blocks live in registers: loops of up to 16 turns become none, and bodies are part of each variant. */
#ifndef CANNON_KERNEL_ENGINE_UNROLL_H
#define CANNON_KERNEL_ENGINE_UNROLL_H

#if defined(__clang__)
#  define UNROLL _Pragma("clang loop unroll(full)")
#else
#  define UNROLL _Pragma("GCC unroll 16")
#endif
#define INLINE static inline __attribute__((always_inline))

#endif
