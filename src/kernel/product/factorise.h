/* Factorisations of matrices, by instruction set level; [0] of double, [1] of double complex. Matrices are contiguous,
 * row-major. Signs are LAPACK's. */
#ifndef CANNON_KERNEL_PRODUCT_FACTORISE_H
#define CANNON_KERNEL_PRODUCT_FACTORISE_H

#include <stdint.h>

typedef struct {
  /* a [m, n] = q r by Householder's reflections: r takes a's place (below its diagonal is what is left of the
   * reflections), and q [m, k] is the first k columns of the orthogonal factor, none where k is 0. room: min(m, n) +
   * max(n, k) elements. */
  void (*qr[2])(int64_t m, int64_t n, int64_t k, void *a, void *q, void *room);
  /* The determinant of a [n, n] as its sign (of absolute value 1, or 0) and the logarithm of its absolute value, by
   * elimination with row pivots, which destroys a. */
  void (*determinant[2])(int64_t n, void *a, void *sign, double *log);
  /* Rotates the rows of w [n, n] until each two are orthogonal, and those of v alike. */
  void (*rotate_rows)(int64_t n, double *w, double *v);
} factorise_loops;

extern const factorise_loops *factorise; /* set before main */

#endif
