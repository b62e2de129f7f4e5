/* SPDX-License-Identifier: Apache-2.0 */
/* Triangular solve and matrix inverse for one instruction set level (engine/level.h). Matrices are contiguous and
 * row-major. Called by solve.c; the functions have no state. Also, for solve.c and matrix_functions.c: the numbers that
 * say which triangular system is meant, of operators that get them as tensors. */
#ifndef CANNON_KERNEL_PRODUCT_FACTOR_SOLVE_H
#define CANNON_KERNEL_PRODUCT_FACTOR_SOLVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "kernel/engine/loops.h"
#include "tensor/tensor.h"

enum { SOLVE_COLS = 64 };

typedef struct {
  int64_t n;
  bool backwards; /* back substitution: the last unknown is found first */
  bool transpose, unit;
} triangular_form;

typedef struct {
  /* Solves op(a) x = b in place by substitution: x [n, SOLVE_COLS] holds b and receives the solution; a is [n, n]. Only
   * the first `cols` columns of x are meaningful, the others may be overwritten. [0] float, [1] double. */
  void (*substitute[2])(const triangular_form *f, const void *a, void *x, int64_t cols);
  /* The same for complex numbers in double. In a and in x all real parts come first, then all imaginary parts. */
  void (*substitute_complex)(const triangular_form *f, const double *a, double *x, int64_t cols);
  /* Replaces a by its inverse, by Gauss-Jordan elimination with row pivoting. swaps: scratch for n indices. A singular
   * matrix gives infinities and NaN. */
  void (*invert)(int64_t n, double *a, int64_t *swaps);
} solve_loops;

/* What SolveTriangular's system is: of a, a transposed, or its conjugate; of its lower or upper triangle; with ones on
 * the diagonal or not. As tensors of one number each, in this order, which are read when the task runs. */
enum { SYSTEM_TRANS, SYSTEM_LOWER, SYSTEM_UNIT, SYSTEM_NUMBERS };
typedef struct {
  load_loop *load[SYSTEM_NUMBERS];
} system_numbers;

status system_numbers_init(system_numbers *s, const tensor *const *t);
/* Fails if the first number is not 0, 1 or 2. */
status system_numbers_read(const system_numbers *s, void *const *at, int64_t *number);

extern const solve_loops *solve; /* set before main */

#endif
