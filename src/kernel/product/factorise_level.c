/* SPDX-License-Identifier: Apache-2.0 */
/* Implementation of factorise.h for one instruction set level (engine/level.h). */
#include "kernel/product/factorise.h"

#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernel/engine/level.h"

typedef double complex zdouble;

#define SELF(x) (x)
#define TINY    0x1p-400

/* reflection: the Householder reflection H = 1 - tau v v* that zeroes column c of a below the diagonal. v's first
 * element is 1, its others are stored in place of the column. Norms are scaled so that squares do not overflow. A tiny
 * column is scaled as a whole, since with denormals H would not be orthogonal: after each step, the remainder of nearly
 * equal columns is smaller by 2^-52.
 *
 * reflect: applies H (or, with conjugated tau, its adjoint) from the left to the rows of x [m, n], from column `first`
 * on. */
#define FACTORISE(name, T, conj_of, real_of, imaginary_of, abs_of)                                                     \
  static T reflection_##name(int64_t m, int64_t n, int64_t c, T *a) {                                                  \
    double most = 0, sum = 0;                                                                                          \
    for (int64_t i = c + 1; i < m; ++i) most = abs_of(a[i * n + c]) > most ? abs_of(a[i * n + c]) : most;              \
    T *const alpha = a + c * n + c;                                                                                    \
    if (most == 0 && imaginary_of(*alpha) == 0) return 0;                                                              \
    most = abs_of(*alpha) > most ? abs_of(*alpha) : most;                                                              \
    const double scale = most < TINY ? exp2(fmin(-logb(most), 1000)) : 1;                                              \
    for (int64_t i = c; scale != 1 && i < m; ++i) a[i * n + c] *= scale;                                               \
    most *= scale;                                                                                                     \
    for (int64_t i = c; i < m; ++i) {                                                                                  \
      const double x = abs_of(a[i * n + c]) / most;                                                                    \
      sum += x * x;                                                                                                    \
    }                                                                                                                  \
    const double beta = -copysign(most * sqrt(sum), real_of(*alpha));                                                  \
    const T tau = (beta - *alpha) / beta, divisor = *alpha - beta;                                                     \
    for (int64_t i = c + 1; i < m; ++i) a[i * n + c] /= divisor;                                                       \
    *alpha = beta / scale;                                                                                             \
    return tau;                                                                                                        \
  }                                                                                                                    \
  static void reflect_##name(int64_t m, const T *v, int64_t pitch, T tau, T *x, int64_t n, int64_t first, T *w) {      \
    if (tau == 0) return;                                                                                              \
    for (int64_t j = first; j < n; ++j) w[j] = x[j];                                                                   \
    for (int64_t i = 1; i < m; ++i) {                                                                                  \
      const T factor = conj_of(v[i * pitch]);                                                                          \
      for (int64_t j = first; j < n; ++j) w[j] += factor * x[i * n + j];                                               \
    }                                                                                                                  \
    for (int64_t j = first; j < n; ++j) x[j] -= tau * w[j];                                                            \
    for (int64_t i = 1; i < m; ++i) {                                                                                  \
      const T factor = tau * v[i * pitch];                                                                             \
      for (int64_t j = first; j < n; ++j) x[i * n + j] -= factor * w[j];                                               \
    }                                                                                                                  \
  }                                                                                                                    \
  static void qr_##name(int64_t m, int64_t n, int64_t k, void *matrix, void *orthogonal, void *room) {                 \
    T *const a = matrix, *const q = orthogonal;                                                                        \
    const int64_t steps = m < n ? m : n;                                                                               \
    T *const tau = room, *const w = tau + steps;                                                                       \
    for (int64_t c = 0; c < steps; ++c) {                                                                              \
      tau[c] = reflection_##name(m, n, c, a);                                                                          \
      reflect_##name(m - c, a + c * n + c, n, conj_of(tau[c]), a + c * n, n, c + 1, w);                                \
    }                                                                                                                  \
    for (int64_t i = 0; i < m; ++i)                                                                                    \
      for (int64_t j = 0; j < k; ++j) q[i * k + j] = i == j;                                                           \
    if (k)                                                                                                             \
      for (int64_t c = steps - 1; c >= 0; --c) reflect_##name(m - c, a + c * n + c, n, tau[c], q + c * k, k, c, w);    \
  }                                                                                                                    \
  static void determinant_##name(int64_t n, void *matrix, void *result, double *log_of) {                              \
    T *const a = matrix, sign = 1;                                                                                     \
    double sum = 0;                                                                                                    \
    for (int64_t k = 0; k < n; ++k) {                                                                                  \
      int64_t best = k;                                                                                                \
      for (int64_t i = k + 1; i < n; ++i)                                                                              \
        if (abs_of(a[i * n + k]) > abs_of(a[best * n + k])) best = i;                                                  \
      for (int64_t j = k; best != k && j < n; ++j) {                                                                   \
        const T t = a[k * n + j];                                                                                      \
        a[k * n + j] = a[best * n + j];                                                                                \
        a[best * n + j] = t;                                                                                           \
      }                                                                                                                \
      const T pivot = a[k * n + k];                                                                                    \
      const double size = abs_of(pivot);                                                                               \
      sign *= size == 0 ? 0 : best == k ? pivot / size : -(pivot / size);                                              \
      sum += log(size);                                                                                                \
      for (int64_t i = k + 1; size != 0 && i < n; ++i) {                                                               \
        const T factor = a[i * n + k] / pivot;                                                                         \
        for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];                                     \
      }                                                                                                                \
    }                                                                                                                  \
    *(T *)result = sign;                                                                                               \
    *log_of = sum;                                                                                                     \
  }

#define NOTHING(x) 0.0
FACTORISE(real, double, SELF, SELF, NOTHING, fabs)
FACTORISE(complex, zdouble, conj, creal, cimag, cabs)

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

const factorise_loops LEVELED(factorise_loops) = {
    .qr = {qr_real, qr_complex}, .determinant = {determinant_real, determinant_complex}, .rotate_rows = rotate_rows};
