/* SPDX-License-Identifier: Apache-2.0 */
/* Implementation of solve.h for one instruction set level (engine/level.h). */
#include "kernel/product/factor/solve.h"

#include <math.h>

#include "kernel/engine/level.h"
#include "kernel/engine/unroll.h"

enum { VECTOR_BYTES = 64, TOGETHER = 4 };

#define T       float
#define NAME(f) f##_f32
#include "kernel/product/factor/solve_substitute.inc"

#define T       double
#define NAME(f) f##_f64
#include "kernel/product/factor/solve_substitute.inc"

/* *r + *i i divided by c + d i with Smith's algorithm, which avoids overflow of intermediate results. */
static inline void solve_divide(double *r, double *i, double c, double d) {
  const int by_real = fabs(c) >= fabs(d);
  const double a = *r, b = *i, ratio = by_real ? (c == 0 ? 0 : d / c) : c / d;
  const double divisor = by_real ? c + d * ratio : c * ratio + d;
  *r = (by_real ? a + b * ratio : a * ratio + b) / divisor;
  *i = (by_real ? b - a * ratio : b * ratio - a) / divisor;
}

static void substitute_complex(const triangular_form *f, const double *a, double *x, int64_t cols) {
  const int64_t n = f->n, along = f->transpose ? n : 1, across = f->transpose ? 1 : n;
  const double *const a_imaginary = a + n * n;
  double *const x_imaginary = x + n * SOLVE_COLS;
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = f->backwards ? n - 1 - step : step, first = f->backwards ? i + 1 : 0;
    double *restrict const r = x + i * SOLVE_COLS, *restrict const s = x_imaginary + i * SOLVE_COLS;
    for (int64_t l = first; l < first + step; ++l) {
      const double c = a[i * across + l * along], d = a_imaginary[i * across + l * along];
      const double *const known = x + l * SOLVE_COLS, *const known_imaginary = x_imaginary + l * SOLVE_COLS;
      INDEPENDENT for (int64_t j = 0; j < cols; ++j) {
        r[j] -= c * known[j] - d * known_imaginary[j];
        s[j] -= c * known_imaginary[j] + d * known[j];
      }
    }
    if (f->unit) continue;
    for (int64_t j = 0; j < cols; ++j) solve_divide(r + j, s + j, a[i * n + i], a_imaginary[i * n + i]);
  }
}

static int64_t pivot_of(int64_t n, const double *a, int64_t k) {
  int64_t best = k;
  for (int64_t i = k + 1; i < n; ++i)
    if (fabs(a[i * n + k]) > fabs(a[best * n + k])) best = i;
  return best;
}

static void swap_vectors(double *x, double *y, int64_t stride, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const double t = x[j * stride];
    x[j * stride] = y[j * stride];
    y[j * stride] = t;
  }
}

static void invert(int64_t n, double *a, int64_t *swaps) {
  for (int64_t k = 0; k < n; ++k) {
    const int64_t p = swaps[k] = pivot_of(n, a, k);
    double *const row = a + k * n;
    if (p != k) swap_vectors(row, a + p * n, 1, n);
    const double pivot = row[k];
    row[k] = 1;
    for (int64_t j = 0; j < n; ++j) row[j] /= pivot;
    for (int64_t i = 0; i < n; ++i) {
      double *const other = a + i * n;
      const double factor = other[k];
      if (i == k) continue;
      other[k] = 0;
      for (int64_t j = 0; j < n; ++j) other[j] -= factor * row[j];
    }
  }
  for (int64_t k = n - 1; k >= 0; --k)
    if (swaps[k] != k) swap_vectors(a + k, a + swaps[k], n, n);
}

const solve_loops LEVELED(solve_loops) = {
    .substitute = {substitute_f32, substitute_f64}, .substitute_complex = substitute_complex, .invert = invert};
