/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers that the matrix-product operators share: argument checks, and the conversion of tensors to stacks of matrices
 * (`matrices` in product.h). Used while operators are prepared; implemented in matmul.c unless inline. */
#ifndef CANNON_KERNEL_PRODUCT_FACTOR_FACTORS_H
#define CANNON_KERNEL_PRODUCT_FACTOR_FACTORS_H

#include "kernel/product/product.h"

/* Checks CANN's cubeMathType: 0 keeps the precision, 1 to 3 allow less, and 4, which not all operators have,
 * accumulates in float32. All are accepted since our precision is never below what is asked for. most: the largest
 * value that the operator knows. */
static inline status factors_check_cube_math(int64_t type, int most) {
  EXPECT(type >= 0 && type <= most, "cubeMathType is %jd, expected 0 to %d", (intmax_t)type, most);
  return ST_OK;
}

/* Fails because operands a_at and a_at + 1 do not fit each other; `what` says what was expected. */
status factors_fail(const executor *e, int a_at, const tensor *a, const tensor *b, const char *what);

/* Describes the last two dimensions of t as matrices. A vector is one row (left factor) or one column (right factor).
 * Leading dimensions are aligned at the right with the GEMM's n_batch_dims batch dimensions; those of size 1, and
 * missing ones, are broadcast. */
void matrices_init(matrices *x, const tensor *t, bool left, int n_batch_dims);

/* Sets the batch dimensions of p to the broadcast of those of a and b. Returns false if they do not broadcast. */
bool factors_broadcast_batch(const tensor *a, const tensor *b, product_plan *p);

/* Sets p->out; batch dimensions, a and b of p must be set. The result has no row (column) dimension where the left
 * (right) factor is a vector. */
void factors_out_matrices(const tensor *out, bool has_rows, bool has_cols, product_plan *p);

#endif
