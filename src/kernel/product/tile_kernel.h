/* The kernels behind tile_gemm.h: one table per operand type, of the instruction set level (tile_level.c) or of AMX
 * (tile_amx.c). A packed operand is a row of panels of `width` rows of A (columns of B); tile_gemm.c cuts them. */
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

/* AMX. Packed pieces are tiles of 16 rows of 64 bytes: of A 16 rows by 16 groups of k, of B 16 groups of k by 16 columns,
 * a group being as many elements as fill 32 bits. */
typedef enum { AMX_BF16, AMX_F16, AMX_I8 } amx_type;

bool amx_start(void); /* once: false where the processor or the system has none */
size_t amx_packed_bytes(amx_type type, int64_t width, int64_t k);
/* `width` rows of A (columns of B), `across` bytes from one to the next, `along` bytes between elements along k. */
/* Row i of a packed A of one part; see tile_a_row. */
char *amx_row(amx_type type, char *packed, int64_t m, int64_t k, int64_t i, int64_t *step);
void amx_pack(amx_type type, void *to, bool is_b, const char *from, int64_t across, int64_t along, int64_t width,
              int64_t k);
void amx_gemm(amx_type type, int64_t m, int64_t n, int64_t k, const char *a, const char *b, void *c, int64_t ldc,
              bool accumulate, const tile_rounded *to); /* to: instead of c, or NULL */

#endif
