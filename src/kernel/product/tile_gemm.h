/* Products of packed blocks on the calling thread: what matrix products, convolutions and attention are made of.
 *
 *   tile_pack_b(type, b, ...)        once per block of B: any dtype and strides become the layout that the kernel reads
 *   for blocks of rows:
 *     tile_pack_a(type, a, ...)
 *     tile_gemm(type, m, n, k, a, b, c, ldc, accumulate)     C (float) = or += A B
 *
 * A good block is some 64 to 256 rows by 256 to 512 columns by 256 to 512 deep: packed pieces then stay in L2. Sums are
 * in float (int32 for TILE_I8), within 2 k eps |A||B|. Packed pieces start at multiples of 64 bytes. */
#ifndef CANNON_KERNEL_PRODUCT_TILE_GEMM_H
#define CANNON_KERNEL_PRODUCT_TILE_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
  TILE_F32,  /* operands as floats; any dtype packs into it */
  TILE_BF16, /* operands are bfloat16: products are exact; needs tile_has(TILE_BF16) */
  TILE_F16,  /* operands are float16, split into bfloat16s; likewise */
  TILE_I8,   /* operands are int8, C is int32 */
} tile_type;

/* Whether this machine has something faster than TILE_F32 for the type. */
bool tile_has(tile_type type);

/* Bytes of a packed block. */
size_t tile_a_bytes(tile_type type, int64_t m, int64_t k);
size_t tile_b_bytes(tile_type type, int64_t k, int64_t n);

/* dtype: of the source, strides in bytes. TILE_F32 takes any real dtype, the others their own. */
void tile_pack_a(tile_type type, void *to, int dtype, const void *from, int64_t row_stride, int64_t col_stride, int64_t m,
                 int64_t k);
void tile_pack_b(tile_type type, void *to, int dtype, const void *from, int64_t row_stride, int64_t col_stride, int64_t k,
                 int64_t n);

/* c[i * ldc + j] for i < m, j < n; ldc in elements. Nothing else of c is written. */
void tile_gemm(tile_type type, int64_t m, int64_t n, int64_t k, const void *a, const void *b, void *c, int64_t ldc,
               bool accumulate);

#endif
