/* SPDX-License-Identifier: Apache-2.0 */
/* Masks for the 16 float lanes of an AVX-512 vector. Only for files named *_level.c and their headers. */
#ifndef CANNON_KERNEL_ENGINE_LANES_H
#define CANNON_KERNEL_ENGINE_LANES_H

#include <immintrin.h>
#include <stdint.h>

#include "kernel/engine/unroll.h"

/* A mask of the first n lanes: none for n < 0, all for n > 16. */
INLINE __mmask16 lanes_first(int64_t n) { return (__mmask16)_bzhi_u32(0xffff, n > 16 ? 16 : n < 0 ? 0 : (unsigned)n); }

#endif
