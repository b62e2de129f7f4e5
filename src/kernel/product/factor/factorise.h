/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix factorisations for one instruction set level (engine/level.h). Index [0] of a table is for double, [1] for
 * double complex. Matrices are contiguous and row-major; signs are as in LAPACK. Called by factorise.c, svd.c and
 * matrix_functions.c; the functions have no state, so any thread may call them. */
#ifndef CANNON_KERNEL_PRODUCT_FACTOR_FACTORISE_H
#define CANNON_KERNEL_PRODUCT_FACTOR_FACTORISE_H

#include <stdbool.h>
#include <stdint.h>

/* A system op(a) x = b, where a is triangular [n, n], x and b [n, cols]. Only the triangle is read. */
typedef struct {
  int64_t n, cols;
  bool upper, adjoint, unit;
} triangular_system;

typedef struct {
  /* QR factorisation a = q r by Householder reflections, where a is [m, n]. r replaces a (below its diagonal, a keeps
   * the reflection vectors). q [m, k] receives the first k columns of the orthogonal factor; with k = 0 it is not
   * computed. room: min(m, n) + max(n, k) elements of scratch. Its parts: the reflections H(c) = 1 - tau[c] v v*, and
   * the first k columns of H(0) ... H(steps - 1); room: n or k elements. */
  void (*qr[2])(int64_t m, int64_t n, int64_t k, void *a, void *q, void *room);
  void (*reflections[2])(int64_t m, int64_t n, void *a, void *tau, void *room);
  void (*orthogonal[2])(int64_t m, int64_t n, int64_t steps, int64_t k, const void *a, const void *tau, void *q,
                        void *room);
  /* a [n, n] becomes L, whose diagonal is 1, and U, by Gaussian elimination with row pivoting: row i was swapped with
   * row swaps[i], in this order. The solution of op(a) x = b, in place of b [n, cols]. */
  void (*lu[2])(int64_t n, void *a, int64_t *swaps);
  void (*lu_solve[2])(int64_t n, int64_t cols, bool adjoint, const void *lu, const int64_t *swaps, void *x);
  void (*substitute[2])(const triangular_system *f, const void *a, void *x); /* x: first b */
  /* Determinant of a [n, n] as a sign (absolute value 1, or 0 for a singular matrix) and the logarithm of its absolute
   * value. a becomes its LU factorisation. */
  void (*determinant[2])(int64_t n, void *a, int64_t *swaps, void *sign, double *log);
  /* Cholesky factorisation of a [n, n], whose lower triangle is read and becomes the factor; the rest becomes 0.
   * Returns the first row without a positive pivot, or -1. */
  int64_t (*cholesky[2])(int64_t n, void *a);
  /* One-sided Jacobi: rotates the rows of w [n, n] until they are pairwise orthogonal, and applies the same rotations
   * to the rows of v [n, n]. */
  void (*rotate_rows)(int64_t n, double *w, double *v);
  /* a [n, n] becomes e^a. room: 6 n^2 elements; swaps: n. */
  void (*exponential[2])(int64_t n, void *a, void *room, int64_t *swaps);
  /* Schur form a = q t q* of a complex matrix [n, n]: t, upper triangular, replaces a. room: 2 n elements. False for a
   * matrix with infinities or NaN, or if QR iteration has not converged. */
  bool (*schur)(int64_t n, void *a, void *q, void *room);
  /* Takes a complex Schur form q t q*, and replaces q's columns by the matrix's eigenvectors. Each has the norm 1, and
   * its largest component is real and positive. room: n^2 elements. */
  void (*eigenvectors)(int64_t n, const void *t, void *q, void *room);
  /* Takes a complex Schur form q t q*, and replaces t by the matrix's logarithm, q log(t) q*. room: 3 n^2 + n
   * elements. */
  void (*logarithm)(int64_t n, void *t, const void *q, void *room);
} factorise_loops;

extern const factorise_loops *factorise; /* set before main */

#endif
