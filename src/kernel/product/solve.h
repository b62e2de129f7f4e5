/* Inner loops of linear equations, by instruction set level. Matrices are contiguous, row-major. */
#ifndef CANNON_KERNEL_PRODUCT_SOLVE_H
#define CANNON_KERNEL_PRODUCT_SOLVE_H

#include <stdbool.h>
#include <stdint.h>

enum { SOLVE_COLS = 64 };

typedef struct {
  int64_t n;
  bool backwards; /* the last unknown is known first */
  bool transpose, unit;
} triangular_form;

typedef struct {
  /* op(a) x = x in place, by substitution: a [n, n], x [n, SOLVE_COLS], of which `cols` are used and others may change.
   * [0] float, [1] double. */
  void (*substitute[2])(const triangular_form *f, const void *a, void *x, int64_t cols);
  /* The same of complex numbers in double: of a and of x all real parts, then all imaginary ones. */
  void (*substitute_complex)(const triangular_form *f, const double *a, double *x, int64_t cols);
  /* a = its inverse, by Gauss and Jordan with row pivots; swaps has room for n. Where there is none, infinities and
   * NaN. */
  void (*invert)(int64_t n, double *a, int64_t *swaps);
} solve_loops;

extern const solve_loops *solve; /* set before main */

#endif
