/* SPDX-License-Identifier: Apache-2.0 */
/* What products and convolutions of 8-bit integers share: their zero points, scales and biases (integer_matmul.c, which
 * has the functions, and integer_conv.c). For prepare and run functions of this folder; thread-safe. */
#ifndef CANNON_KERNEL_QUANT_INTEGER_FACTORS_H
#define CANNON_KERNEL_QUANT_INTEGER_FACTORS_H

#include "kernel/product/product.h"
#include "kernel/quant/sums.h"

/* One number, or one for each row, column or output. */
typedef struct {
  int8_t dtype;
  bool given;
  int64_t step; /* bytes; 0: one for all */
} integer_values;

/* n: how many there may be, if not one. */
status integer_expect_zero(const tensor *t, const char *name, int64_t n, integer_values *z);

/* A scale and a bias, either or both of which may be absent (a bias is not alone), and the type of out that follows. */
status integer_expect_scale(const tensor *scale, const tensor *bias, const tensor *out, int64_t n, integer_values *s,
                            integer_values *b);

/* to[i] = the zero point of i, or 0, less a number; the value of i, if any are given. */
void integer_load_zeros(const integer_values *z, const void *from, int32_t less, int32_t *to, int64_t n);
void integer_load_floats(const integer_values *v, const void *from, float *to, int64_t n);

/* to[j] = the sum of column j. */
void integer_column_sums(const matrices *b, const char *at, int32_t *to);

#endif
