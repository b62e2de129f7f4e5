/* SPDX-License-Identifier: Apache-2.0 */
/* Implementation of factorise.h for one instruction set level (engine/level.h). */
#include "kernel/product/factor/factorise.h"

#include <complex.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/engine/level.h"

#define TINY 0x1p-400

#define T            double
#define NAME(f)      f##_real
#define CONJ(x)      (x)
#define REAL(x)      (x)
#define IMAGINARY(x) 0.0
#define ABS          fabs
#include "kernel/product/factor/factorise_steps.inc"

#define T         double complex
#define NAME(f)   f##_complex
#define CONJ      conj
#define REAL      creal
#define IMAGINARY cimag
#define ABS       cabs
#include "kernel/product/factor/factorise_steps.inc"

#include "kernel/product/factor/factorise_spectrum.inc"

/* Dot products x . x, y . y and x . y. */
static void products_of(const double *x, const double *y, int64_t n, double sum[3]) {
  enum { LANES = 8 };
  double lane[3][LANES] = {{0}};
  for (int64_t i = 0; i < n / LANES * LANES; i += LANES)
    for (int l = 0; l < LANES; ++l) {
      lane[0][l] += x[i + l] * x[i + l];
      lane[1][l] += y[i + l] * y[i + l];
      lane[2][l] += x[i + l] * y[i + l];
    }
  for (int64_t i = n / LANES * LANES; i < n; ++i) {
    lane[0][0] += x[i] * x[i];
    lane[1][0] += y[i] * y[i];
    lane[2][0] += x[i] * y[i];
  }
  for (int k = 0; k < 3; ++k)
    sum[k] = ((lane[k][0] + lane[k][1]) + (lane[k][2] + lane[k][3])) +
             ((lane[k][4] + lane[k][5]) + (lane[k][6] + lane[k][7]));
}

static void rotate(double *x, double *y, int64_t n, double c, double s) {
  for (int64_t i = 0; i < n; ++i) {
    const double t = x[i];
    x[i] = c * t - s * y[i];
    y[i] = s * t + c * y[i];
  }
}

/* One-sided Jacobi: sweeps over all pairs of rows converge quadratically, within ten sweeps in practice. */
static void rotate_rows(int64_t n, double *w, double *v) {
  enum { MOST_SWEEPS = 60 };
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < MOST_SWEEPS; ++sweep) {
    rotated = false;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        double sum[3];
        products_of(w + p * n, w + q * n, n, sum);
        if (!(fabs(sum[2]) > 0x1p-52 * sqrt(sum[0]) * sqrt(sum[1]))) continue;
        const double zeta = (sum[1] - sum[0]) / (2 * sum[2]);
        const double t = copysign(1, zeta) / (fabs(zeta) + hypot(1, zeta)), c = 1 / sqrt(1 + t * t);
        rotate(w + p * n, w + q * n, n, c, c * t);
        rotate(v + p * n, v + q * n, n, c, c * t);
        rotated = true;
      }
  }
}

#define BOTH(name) .name = {name##_real, name##_complex}

const factorise_loops LEVELED(factorise_loops) = {BOTH(qr),
                                                  BOTH(reflections),
                                                  BOTH(orthogonal),
                                                  BOTH(lu),
                                                  BOTH(lu_solve),
                                                  BOTH(substitute),
                                                  BOTH(determinant),
                                                  BOTH(cholesky),
                                                  BOTH(exponential),
                                                  .rotate_rows = rotate_rows,
                                                  .schur = schur,
                                                  .eigenvectors = eigenvectors,
                                                  .logarithm = logarithm};
