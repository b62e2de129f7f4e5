/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of GEMV and small-m GEMM for one instruction set level (engine/level.h). B is read once, in its own type,
 * and converted to float in registers. Called by product_few_rows.c and weight_quant.c; the functions have no state. */
#ifndef CANNON_KERNEL_PRODUCT_FEW_ROWS_H
#define CANNON_KERNEL_PRODUCT_FEW_ROWS_H

#include <stdint.h>

typedef enum { WEIGHT_F32, WEIGHT_F16, WEIGHT_BF16, WEIGHT_I8, N_WEIGHTS } weight_type;

/* Limits of one call: rows of A, rows of B in `axpys`. */
enum { FEW_ROWS = 8, AXPY_DEPTH = 8 };

typedef struct {
  /* Dot products: c[i * c_pitch + j] = sum over l < k of a[i * a_pitch + l] * b_j[l], for j < cols. Column b_j starts
   * at b + j * b_stride bytes and is contiguous. */
  void (*dots[N_WEIGHTS])(int rows, int cols, int64_t k, const float *a, int64_t a_pitch, const char *b,
                          int64_t b_stride, float *c, int64_t c_pitch);
  /* Updates with rows of B: c[i * c_pitch + j] += sum over l < depth of a[i * a_pitch + l] * b_l[j], for j < n. Row b_l
   * starts at b + l * b_stride bytes and is contiguous. */
  void (*axpys[N_WEIGHTS])(int rows, int depth, int64_t n, const float *a, int64_t a_pitch, const char *b,
                           int64_t b_stride, float *c, int64_t c_pitch);
  /* One column of quantised weights: c[i * c_pitch] = sum over groups g of scale[g] * (sum over l in g of a[i * a_pitch
   * + l] * b[l] + offset[g] * sum over l in g of a[i * a_pitch + l]). The latter sums are given in a_sums. b is
   * contiguous; a and a_sums are padded with zeros to a multiple of GROUP_GRAIN. int4 values are stored two to a byte,
   * the low half first, and a must then be in the order that split_pairs gives. */
  void (*quantised[2])(int rows, int64_t k, int64_t group, const float *a, int64_t a_pitch, const char *b,
                       const float *scale, const float *offset, const float *a_sums, int64_t sums_pitch, float *c,
                       int64_t c_pitch); /* [0] int8, [1] int4; offset and a_sums may be NULL */
  /* A run of one column of quantised weights as floats: to[l] = (b[l] + offset) * scale, for l < n. b is as above. */
  void (*dequantise[2])(float *to, const char *b, int64_t n, float scale, float offset);
  /* Reorders a for int4: in each block of two vectors, first the even elements, then the odd ones. */
  void (*split_pairs)(float *to, const float *from, int64_t n);
} few_rows_loops;

enum { GROUP_GRAIN = 32 };

extern const few_rows_loops *few_rows; /* set before main */

#endif
