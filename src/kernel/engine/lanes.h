/* Which of a vector's 16 lanes are used, where the processor has AVX-512. Only for files named *_level.c and their headers. */
#ifndef CANNON_KERNEL_ENGINE_LANES_H
#define CANNON_KERNEL_ENGINE_LANES_H

#include <immintrin.h>
#include <stdint.h>

#include "kernel/engine/unroll.h"

/* The first n: none of fewer than 0, all of more than 16. */
INLINE __mmask16 first_lanes(int64_t n) { return (__mmask16)_bzhi_u32(0xffff, n > 16 ? 16 : n < 0 ? 0 : (unsigned)n); }

#endif
