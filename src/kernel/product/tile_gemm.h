/* Products of packed blocks on the calling thread: what matrix products, convolutions and attention are made of.
 *
 *   tile_pack_b(type, b, ...)        once per block of B: any dtype and strides become the layout that the kernel reads
 *   for blocks of rows:
 *     tile_pack_a(type, a, ...)
 *     tile_gemm(type, m, n, k, a, b, c, ldc, accumulate)     C = or += A B
 *
 * or tile_multiply, which takes factors as they lie where the kernel can read those.
 *
 * A good block is some 64 to 256 rows by 256 to 1024 columns by 256 to 512 deep: packed pieces then stay in L2, and 32
 * columns of B in L1. Packed pieces start at multiples of 64 bytes; their layout is the processor's own.
 *
 * The error of an element, against the exact sum of |a||b|, is within k eps (eps: half an ulp of 1; 2^-24 in float).
 * TILE_F16 leaves out products of two low halves, 2^-16 more at worst: use it from k = TILE_F16_MIN_K on, from where it
 * too is within 2 k eps. TILE_F32_PARTS leaves out products of low halves by middle and low ones, 2 eps at worst.
 * Infinities and NaN come out as in float arithmetic. TILE_BF16 takes bfloat16's denormals as 0. */
#ifndef CANNON_KERNEL_PRODUCT_TILE_GEMM_H
#define CANNON_KERNEL_PRODUCT_TILE_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/product/float_parts.h"

typedef enum {
  TILE_F32,       /* operands as floats; any real dtype packs into it */
  TILE_F64,       /* as doubles, C too; likewise */
  TILE_I32,       /* as int32, C too, wrapping; any integer dtype */
  TILE_I8,        /* operands are int8, C is int32 */
  TILE_BF16,      /* operands are bfloat16: products are exact; needs tile_has(TILE_BF16) */
  TILE_F16,       /* operands are float16, split into two bfloat16s each; needs tile_has(TILE_F16) */
  TILE_F32_PARTS, /* operands are float32, split into three bfloat16s each; needs tile_has and float_parts_suffice */
  N_TILE_TYPES,
} tile_type;

enum { TILE_F16_MIN_K = 160, TILE_GRAIN = 64 };

/* Whether this machine has a kernel of its own for the type, faster than TILE_F32's. The first call asks the system for
 * the use of AMX. */
bool tile_has(tile_type type);
bool tile_has_amx(void); /* and those kernels use it */

/* Of an element of C. */
static inline size_t tile_c_bytes(tile_type type) { return type == TILE_F64 ? 8 : 4; }

/* Bytes of a packed block, a multiple of 64. */
size_t tile_a_bytes(tile_type type, int64_t m, int64_t k);
size_t tile_b_bytes(tile_type type, int64_t k, int64_t n);

/* dtype: of the source, strides in bytes. */
float_exponents tile_pack_a(tile_type type, void *to, int dtype, const void *from, int64_t row_stride,
                            int64_t col_stride, int64_t m, int64_t k);
float_exponents tile_pack_b(tile_type type, void *to, int dtype, const void *from, int64_t row_stride,
                            int64_t col_stride, int64_t k, int64_t n);

/* For rows of A that are made rather than found: where row i of an [m, k] block lies as packed, in pieces of 64 bytes that
 * are *step bytes apart; the last one is to be filled with zeros. NULL for types that don't have rows in pieces. */
char *tile_a_row(tile_type type, void *packed, int64_t m, int64_t k, int64_t i, int64_t *step);

/* A factor of a product: packed, or as it lies, `pitch` bytes from row to row (of A or B), where tile_takes_a (_b) says
 * so. */
typedef struct {
  const void *at;
  int64_t pitch; /* 0: packed */
} tile_operand;

/* Whether the type's kernel reads A (n columns of B) as it lies; pieces of A anywhere, of B of whole TILE_GRAIN columns. */
bool tile_takes_a(tile_type type, int dtype, int64_t row_stride, int64_t col_stride);
bool tile_takes_b(tile_type type, int dtype, int64_t row_stride, int64_t col_stride, int64_t n);

/* c[i * ldc + j] for i < m, j < n; ldc in elements. Nothing else of c is written. */
void tile_multiply(tile_type type, int64_t m, int64_t n, int64_t k, tile_operand a, tile_operand b, void *c,
                   int64_t ldc, bool accumulate);

/* A result that is rounded to bfloat16 or float16 while its sums are in registers; pitch in bytes from row to row. */
typedef struct {
  int dtype;
  void *at;
  int64_t pitch;
  bool large; /* it would not stay in L2, and is written past the caches */
} tile_rounded;

bool tile_can_round(tile_type type, int dtype);
/* The sums, added to c's where accumulate says so, become `to` instead of c. */
void tile_multiply_rounded(tile_type type, int64_t m, int64_t n, int64_t k, tile_operand a, tile_operand b,
                           const void *c, int64_t ldc, bool accumulate, tile_rounded to);

static inline void tile_gemm(tile_type type, int64_t m, int64_t n, int64_t k, const void *a, const void *b, void *c,
                             int64_t ldc, bool accumulate) {
  tile_multiply(type, m, n, k, (tile_operand){a, 0}, (tile_operand){b, 0}, c, ldc, accumulate);
}

#endif
