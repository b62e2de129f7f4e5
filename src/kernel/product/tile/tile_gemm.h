/* SPDX-License-Identifier: Apache-2.0 */
/* Single-threaded GEMM on packed blocks. Matrix products, convolutions and attention are built on it.
 *
 *   tile_pack_b(type, b, ...)        once per block of B: converts any dtype and strides to the micro-kernel's layout
 *   for blocks of rows:
 *     tile_pack_a(type, a, ...)
 *     tile_gemm(type, m, n, k, a, b, c, ldc, accumulate)     C = A B, or C += A B
 *
 * tile_multiply is the same for factors that are not packed, where the micro-kernel can read them in place.
 *
 * Good block sizes are 64 to 256 rows by 256 to 1024 columns by a depth of 256 to 512: packed blocks then stay in L2,
 * and 32 columns of B in L1. Packed blocks start at multiples of 64 bytes; their layout depends on the processor.
 *
 * The error of an element, relative to the exact sum of |a||b|, is at most k eps (eps is half an ulp of 1; 2^-24 in
 * float). TILE_F16 omits the products of two low parts, at worst another 2^-16: use it only for k >= TILE_F16_MIN_K,
 * where the total is within 2 k eps. TILE_F32_PARTS omits the products of low parts by middle and low parts, at worst 2
 * eps. Infinities and NaN propagate as in float arithmetic. TILE_BF16 treats denormal bfloat16 operands as 0.
 *
 * All functions may be called from any thread. */
#ifndef CANNON_KERNEL_PRODUCT_TILE_TILE_GEMM_H
#define CANNON_KERNEL_PRODUCT_TILE_TILE_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/product/float_parts.h"

typedef enum {
  TILE_F32,       /* operands packed as float; any real dtype is accepted */
  TILE_F64,       /* operands and C are double; any real dtype is accepted */
  TILE_I32,       /* operands and C are int32, wrapping; any integer dtype is accepted */
  TILE_I8,        /* operands are int8, C is int32 */
  TILE_BF16,      /* operands are bfloat16, products are exact; needs tile_has(TILE_BF16) */
  TILE_F16,       /* operands are float16, each split into two bfloat16; needs tile_has(TILE_F16) */
  TILE_F32_PARTS, /* operands are float32, each split into three bfloat16; needs tile_has and float_parts_suffice */
  N_TILE_TYPES,
} tile_type;

enum { TILE_F16_MIN_K = 160, TILE_GRAIN = 64 };

/* Whether this machine has a special kernel for the type that is faster than TILE_F32. The first call asks the
 * operating system for permission to use AMX. */
bool tile_has(tile_type type);
bool tile_has_amx(void); /* whether those kernels use AMX */

/* Size of an element of C. */
static inline size_t tile_c_bytes(tile_type type) { return type == TILE_F64 ? 8 : 4; }

/* Size of a packed block, a multiple of 64. */
size_t tile_a_bytes(tile_type type, int64_t m, int64_t k);
size_t tile_b_bytes(tile_type type, int64_t k, int64_t n);

/* Pack a block. dtype is the source's, strides are in bytes. They return the exponent range of the block for
 * TILE_F32_PARTS, and float_no_exponents for types that do not need it. */
float_exponents tile_pack_a(tile_type type, void *to, int dtype, const void *from, int64_t row_stride,
                            int64_t col_stride, int64_t m, int64_t k);
float_exponents tile_pack_b(tile_type type, void *to, int dtype, const void *from, int64_t row_stride,
                            int64_t col_stride, int64_t k, int64_t n);

/* Where to write row i of a packed [m, k] block when A is generated rather than packed. The row consists of segments of
 * 64 bytes that are *step bytes apart; the caller pads the last one with zeros. NULL for types whose rows are not
 * stored in segments. */
char *tile_a_row(tile_type type, void *packed, int64_t m, int64_t k, int64_t i, int64_t *step);

/* A factor: packed, or in place with rows `pitch` bytes apart (rows of A or of B) where tile_takes_a or tile_takes_b
 * allows it. */
typedef struct {
  const void *at;
  int64_t pitch; /* 0: packed */
} tile_operand;

/* Whether the type's micro-kernel reads A (n columns of B) in place. A block of such an A may start anywhere; a block
 * of such a B must have a multiple of TILE_GRAIN columns. */
bool tile_takes_a(tile_type type, int dtype, int64_t row_stride, int64_t col_stride);
bool tile_takes_b(tile_type type, int dtype, int64_t row_stride, int64_t col_stride, int64_t n);

/* Writes (or adds to) c[i * ldc + j] for i < m, j < n and nothing else; ldc is in elements. */
void tile_multiply(tile_type type, int64_t m, int64_t n, int64_t k, tile_operand a, tile_operand b, void *c,
                   int64_t ldc, bool accumulate);

/* A bfloat16 or float16 result that is rounded while the sums are in registers. pitch: bytes from row to row. */
typedef struct {
  int dtype;
  void *at;
  int64_t pitch;
  bool large; /* too large to stay in L2: written with non-temporal stores */
} tile_rounded;

bool tile_can_round(tile_type type, int dtype);
/* Like tile_multiply, but writes the sums, plus c where `accumulate` is set, rounded to `to`; c is only read. */
void tile_multiply_rounded(tile_type type, int64_t m, int64_t n, int64_t k, tile_operand a, tile_operand b,
                           const void *c, int64_t ldc, bool accumulate, tile_rounded to);

static inline void tile_gemm(tile_type type, int64_t m, int64_t n, int64_t k, const void *a, const void *b, void *c,
                             int64_t ldc, bool accumulate) {
  tile_multiply(type, m, n, k, (tile_operand){a, 0}, (tile_operand){b, 0}, c, ldc, accumulate);
}

#endif
