/* The inner loops of products with few rows, by instruction set level: B is read once, in its own type. */
#ifndef CANNON_KERNEL_PRODUCT_FEW_ROWS_H
#define CANNON_KERNEL_PRODUCT_FEW_ROWS_H

#include <stdint.h>

typedef enum { WEIGHT_F32, WEIGHT_F16, WEIGHT_BF16, WEIGHT_I8, N_WEIGHTS } weight_type;

/* At a time: rows of A, columns of B whose dot products are made, rows of B that are added. */
enum { FEW_ROWS = 8, DOT_COLS = 4, AXPY_DEPTH = 8 };

typedef struct {
  /* c[i * c_pitch + j] = sum of a[i * a_pitch + l] b_j[l] over l < k, b_j at j * b_stride bytes, dense; j < cols. */
  void (*dots[N_WEIGHTS])(int rows, int cols, int64_t k, const float *a, int64_t a_pitch, const char *b,
                          int64_t b_stride, float *c, int64_t c_pitch);
  /* c[i * c_pitch + j] += sum of a[i * a_pitch + l] b_l[j] over l < depth, b_l at l * b_stride bytes, dense; j < n. */
  void (*axpys[N_WEIGHTS])(int rows, int depth, int64_t n, const float *a, int64_t a_pitch, const char *b,
                           int64_t b_stride, float *c, int64_t c_pitch);
  /* One column of quantised weights: c[i * c_pitch] = sum over groups g of scale[g] * (sum of a[i * a_pitch + l] b[l] over
   * the group's l + offset[g] * sum of a's). b is dense; a and a_sums have zeros up to whole groups of GROUP_GRAIN.
   * int4: two to a byte, the low half first; a's elements come as by split_pairs. */
  void (*quantised[2])(int rows, int64_t k, int64_t group, const float *a, int64_t a_pitch, const char *b,
                       const float *scale, const float *offset, const float *a_sums, int64_t sums_pitch, float *c,
                       int64_t c_pitch); /* [0] int8, [1] int4; offset and a_sums: or NULL */
  /* The order for int4: even elements, then odd ones, of each block of as many bytes as a vector has lanes. */
  void (*split_pairs)(float *to, const float *from, int64_t n);
} few_rows_loops;

enum { GROUP_GRAIN = 32 };

extern const few_rows_loops *few_rows; /* set before main */

#endif
