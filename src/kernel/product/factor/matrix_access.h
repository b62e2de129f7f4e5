/* SPDX-License-Identifier: Apache-2.0 */
/* How the matrices of a stack are read and written, for kernels that compute them in double (factorise.c, svd.c). Plain
 * data, part of kernels' plans; the functions are thread-safe. */
#ifndef CANNON_KERNEL_PRODUCT_FACTOR_MATRIX_ACCESS_H
#define CANNON_KERNEL_PRODUCT_FACTOR_MATRIX_ACCESS_H

#include "kernel/engine/loops.h"

/* Access to the last two dimensions of an operand, or to the last one, or to a single element. A complex element has
 * two components, a real one has one. */
typedef struct {
  int64_t row, column; /* strides in bytes */
  int64_t part;        /* bytes from the real to the imaginary component; 0 for real elements */
  load_loop *load;
  store_loop *store;
} matrix_access;

matrix_access matrix_access_of(const view *v, int n_batch);

/* Copies a matrix of rows x cols between an operand and `buffer`, which is contiguous, double or double complex
 * (`parts` is 1 or 2). */
void matrix_access_move(const matrix_access *x, int parts, char *at, double *buffer, int64_t rows, int64_t cols,
                        bool to_buffer);

#endif
