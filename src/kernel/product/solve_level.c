/* solve.h at one instruction set level (engine/level.h). */
#include "kernel/product/solve.h"

#include <math.h>

#include "kernel/engine/level.h"

#define SUBSTITUTE(T, name)                                                                                            \
  static void name(const triangular_form *f, const void *matrix, void *unknowns, int64_t cols) {                       \
    const T *const a = matrix;                                                                                         \
    T *const x = unknowns;                                                                                             \
    const int64_t n = f->n, along = f->transpose ? n : 1, across = f->transpose ? 1 : n;                               \
    for (int64_t step = 0; step < n; ++step) {                                                                         \
      const int64_t i = f->backwards ? n - 1 - step : step, first = f->backwards ? i + 1 : 0;                          \
      T row[SOLVE_COLS];                                                                                               \
      for (int64_t j = 0; j < cols; ++j) row[j] = x[i * SOLVE_COLS + j];                                               \
      for (int64_t l = first; l < first + step; ++l) {                                                                 \
        const T factor = a[i * across + l * along];                                                                    \
        for (int64_t j = 0; j < cols; ++j) row[j] -= factor * x[l * SOLVE_COLS + j];                                   \
      }                                                                                                                \
      const T pivot = f->unit ? 1 : a[i * n + i];                                                                      \
      for (int64_t j = 0; j < cols; ++j) x[i * SOLVE_COLS + j] = row[j] / pivot;                                       \
    }                                                                                                                  \
  }
SUBSTITUTE(float, substitute_f32)
SUBSTITUTE(double, substitute_f64)

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

const solve_loops LEVELED(solve_loops) = {.substitute = {substitute_f32, substitute_f64}, .invert = invert};
