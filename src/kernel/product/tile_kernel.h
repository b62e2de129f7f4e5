/* The kernels behind tile_gemm.h: one table per operand type, of the instruction set level (tile_level.c), of AMX
 * (tile_amx.c) or of AVX-512's dot products (tile_dots.c). */
#ifndef CANNON_KERNEL_PRODUCT_TILE_KERNEL_H
#define CANNON_KERNEL_PRODUCT_TILE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/product/tile_gemm.h"

/* Of vector types. A is rows that are dense along k; B is panels of `cols` columns, [k][cols] each, or rows that are
 * dense across. Strides in elements, a tile_operand's in bytes. */
typedef struct {
  int cols; /* of a B as it lies, a multiple of half of it */
  /* to[l * pitch + i] = from[i * stride + l] for l < k, i < rows; 0 from rows up to width, and maybe up to whole
   * vectors. */
  void (*pack_across)(void *to, int64_t pitch, int64_t width, const void *from, int64_t stride, int64_t rows,
                      int64_t k);
  /* Panels from k rows of n adjacent elements. */
  void (*pack_along)(void *to, const void *from, int64_t stride, int64_t n, int64_t k);
  void (*gemm)(int64_t m, int64_t n, int64_t k, tile_operand a, tile_operand b, void *c, int64_t ldc, bool accumulate);
} tile_kernel;

typedef struct {
  tile_kernel f32, f64, i32;
} tile_kernels;

extern const tile_kernels *tile_vector; /* set before main */

/* Elements of 8 and 16 bits, and parts of 16 bits (tile_groups.c), in groups of as many along k as fill 32 bits. Packed pieces are tiles of 16
 * rows of 64 bytes: of A 16 rows by 16 groups of k, of B 16 groups of k by 16 columns. Of a span of 32 rows of A (columns
 * of B) the two tiles of a step along k lie side by side. */
typedef enum { GROUPS_BF16, GROUPS_F16, GROUPS_I8, GROUPS_F32, N_GROUP_TYPES } group_type;

enum { TILE_BYTES = 1024, TILE_ROWS = 16, SPAN = 32 };
enum { AHEAD = 8 };

/* c, `pitch` bytes from row to row, = or += the products of a span of each, over `steps` tiles along k; and `start` of each
 * row of the span, where that is not NULL. Of what is ahead, a kernel may ask for an AHEADth of what it reads of B. */
typedef void group_block(int64_t steps, const char *a, const char *b, const char *ahead, const int32_t *start, char *c,
                         int64_t pitch, bool accumulate);

typedef struct {
  group_block *block[N_GROUP_TYPES][2][2]; /* whether the span of A, of B has a second tile */
  /* What sums of int8 have to start from, of the rows of a tile of A; a_step: bytes to the next. NULL: from 0. */
  void (*start)(int64_t steps, const char *a, int64_t a_step, int32_t start[TILE_ROWS]);
  void (*begin)(void), (*end)(void); /* around blocks, on each thread; or NULL */
} group_kernel;

bool amx_start(void); /* once: false where the processor or the system has none */
extern const group_kernel amx_kernel;
bool dots_have(group_type type);
extern const group_kernel dots_kernel;

bool groups_have(group_type type);
bool groups_on_amx(void);
size_t groups_packed_bytes(group_type type, int64_t width, int64_t k);
/* `width` rows of A (columns of B), `across` bytes from one to the next, `along` bytes between elements along k. */
float_exponents groups_pack(group_type type, void *to, bool is_b, const char *from, int64_t across, int64_t along,
                            int64_t width, int64_t k);
/* Row i of a packed A of one part; see tile_a_row. */
char *groups_row(group_type type, char *packed, int64_t m, int64_t k, int64_t i, int64_t *step);
void groups_gemm(group_type type, int64_t m, int64_t n, int64_t k, const char *a, const char *b, void *c, int64_t ldc,
                 bool accumulate, const tile_rounded *to); /* to: instead of c, or NULL */

#endif
