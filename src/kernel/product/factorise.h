/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix factorisations for one instruction set level (engine/level.h). Index [0] of a table is for double, [1] for
 * double complex. Matrices are contiguous and row-major; signs are as in LAPACK. Called by factorise.c and svd.c; the
 * functions have no state, so any thread may call them. */
#ifndef CANNON_KERNEL_PRODUCT_FACTORISE_H
#define CANNON_KERNEL_PRODUCT_FACTORISE_H

#include <stdint.h>

typedef struct {
  /* QR factorisation a = q r by Householder reflections, where a is [m, n]. r replaces a (below its diagonal, a keeps
   * the reflection vectors). q [m, k] receives the first k columns of the orthogonal factor; with k = 0 it is not
   * computed. room: min(m, n) + max(n, k) elements of scratch. */
  void (*qr[2])(int64_t m, int64_t n, int64_t k, void *a, void *q, void *room);
  /* Determinant of a [n, n] as a sign (absolute value 1, or 0 for a singular matrix) and the logarithm of its absolute
   * value, by Gaussian elimination with row pivoting. Overwrites a. */
  void (*determinant[2])(int64_t n, void *a, void *sign, double *log);
  /* Cholesky factorisation of a [n, n], whose lower triangle is read and becomes the factor; the rest becomes 0.
   * Returns the first row without a positive pivot, or -1. */
  int64_t (*cholesky[2])(int64_t n, void *a);
  /* One-sided Jacobi: rotates the rows of w [n, n] until they are pairwise orthogonal, and applies the same rotations
   * to the rows of v [n, n]. */
  void (*rotate_rows)(int64_t n, double *w, double *v);
} factorise_loops;

extern const factorise_loops *factorise; /* set before main */

#endif
