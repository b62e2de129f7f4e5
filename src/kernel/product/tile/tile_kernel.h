/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels behind tile_gemm.h, one table per operand type. Kernels for vector types are compiled per instruction set
 * level (tile_level.c). Kernels for 8-bit and 16-bit operands use AMX (tile_amx.c) or the dot-product instructions of
 * AVX512_BF16 and AVX512_VNNI (tile_dots.c). Included by tile_gemm.c and the kernels only, and by two convolution files
 * that ask which of the instructions exist. */
#ifndef CANNON_KERNEL_PRODUCT_TILE_TILE_KERNEL_H
#define CANNON_KERNEL_PRODUCT_TILE_TILE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/product/tile/tile_gemm.h"

/* A vector kernel. A has rows that are contiguous along k. B is packed in panels of `cols` columns, each [k][cols], or
 * is read in place with contiguous rows. Strides are in elements, except for the bytes of tile_operand. */
typedef struct {
  int cols; /* a B in place must have a multiple of half as many columns */
  /* Transposing pack: to[l * pitch + i] = from[i * stride + l] for l < k, i < rows. Elements from i = rows up to width
   * are set to 0; the function may also write zeros up to the next whole vector. */
  void (*pack_across)(void *to, int64_t pitch, int64_t width, const void *from, int64_t stride, int64_t rows,
                      int64_t k);
  /* Packs panels from k rows of n contiguous elements. */
  void (*pack_along)(void *to, const void *from, int64_t stride, int64_t n, int64_t k);
  void (*gemm)(int64_t m, int64_t n, int64_t k, tile_operand a, tile_operand b, void *c, int64_t ldc, bool accumulate);
} tile_kernel;

typedef struct {
  tile_kernel f32, f64, i32;
} tile_kernels;

extern const tile_kernels *tile_vector; /* set before main */

/* Elements of 8 and 16 bits, multiplied in VNNI groups: as many elements along k as fill 32 bits, that is, quads of
 * int8 or pairs of bfloat16. float16 and float32 are split into bfloat16 parts (tile_groups.c). Packed data consists of
 * tiles of 16 rows of 64 bytes: a tile of A is 16 rows by 16 groups along k, a tile of B is 16 groups along k by 16
 * columns. A span is 32 rows of A (or columns of B), two tiles; its two tiles for the same step along k are
 * adjacent. */
typedef enum { GROUPS_BF16, GROUPS_F16, GROUPS_I8, GROUPS_F32, N_GROUP_TYPES } group_type;

enum { TILE_BYTES = 1024, TILE_ROWS = 16, SPAN = 32 };
enum { AHEAD = 8 };

/* Multiplies the first `rows` rows of a span of A by a span of B over `steps` tiles along k, and stores the result to c
 * (rows `pitch` bytes apart) or adds it; it may compute the other rows of A's tiles, too. If `start` is not NULL, the
 * sums of each row start from start[row]. A kernel may prefetch from `ahead` 1/AHEAD of the bytes that it reads of
 * B. */
typedef void group_block(int rows, int64_t steps, const char *a, const char *b, const char *ahead, const int32_t *start,
                         char *c, int64_t pitch, bool accumulate);

typedef struct {
  group_block *block[N_GROUP_TYPES][2][2]; /* [whether the span of A has a second tile][the same for B] */
  /* Start values for int8 sums of the rows of one tile of A, whose steps are a_step bytes apart. NULL: they start from
   * 0. */
  void (*start)(int64_t steps, const char *a, int64_t a_step, int32_t start[TILE_ROWS]);
  void (*begin)(void), (*end)(void); /* called before and after blocks, on each thread; or NULL */
} group_kernel;

bool amx_start(void); /* false where the processor or the system has no AMX; asks only once */
extern const group_kernel amx_kernel;
/* Whether the processor has a dot-product instruction for the type. */
bool dots_have(group_type type);
extern const group_kernel dots_kernel;

/* tile_groups.c: whether some kernel exists for the type; whether the kernels are those of AMX; the size of a packed
 * operand of `width` rows (columns). */
bool groups_have(group_type type);
bool groups_on_amx(void);
size_t groups_packed_bytes(group_type type, int64_t width, int64_t k);
/* Packs `width` rows of A (columns of B). across: bytes from one row (column) to the next; along: bytes between
 * elements along k. */
float_exponents groups_pack(group_type type, void *to, bool is_b, const char *from, int64_t across, int64_t along,
                            int64_t width, int64_t k);
/* Address of row i in a packed A whose type is not split into parts; see tile_a_row. */
char *groups_row(group_type type, char *packed, int64_t m, int64_t k, int64_t i, int64_t *step);
void groups_gemm(group_type type, int64_t m, int64_t n, int64_t k, const char *a, const char *b, void *c, int64_t ldc,
                 bool accumulate, const tile_rounded *to); /* to: rounded result, written instead of c; or NULL */

#endif
