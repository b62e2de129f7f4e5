/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of transforms and the operations on whole rows around them (see transform.h), for numbers of
 * type REAL. Included by transform_f32_level.c and transform_f64_level.c, which define REAL and TABLE,
 * the name of the level's table. */
#include <string.h>

#include "kernel/engine/level.h"
#include "kernel/engine/unroll.h"
#include "kernel/fourier/transform.h"

enum { RADIX_MAX = 7 };

typedef struct {
  REAL re, im;
} number;

/* Complex number k of a table. */
INLINE number number_at(const void *table, int64_t k) { return ((const number *)table)[k]; }

INLINE number number_plus(number a, number b) { return (number){a.re + b.re, a.im + b.im}; }
INLINE number number_minus(number a, number b) { return (number){a.re - b.re, a.im - b.im}; }
INLINE number number_times_minus_i(number a) { return (number){a.im, -a.re}; }
INLINE number number_times(number a, number b) {
  return (number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* Transforms of length 2 and 4. */
INLINE void butterfly_2(number *a) {
  const number sum = number_plus(a[0], a[1]);
  a[1] = number_minus(a[0], a[1]);
  a[0] = sum;
}

INLINE void butterfly_4(number *a) {
  const number even = number_plus(a[0], a[2]), odd = number_plus(a[1], a[3]), e = number_minus(a[0], a[2]);
  const number o = number_times_minus_i(number_minus(a[1], a[3]));
  a[0] = number_plus(even, odd);
  a[1] = number_plus(e, o);
  a[2] = number_minus(even, odd);
  a[3] = number_minus(e, o);
}

/* Transform of odd length r: elements k and r - k are combined as sum and difference, since their factors are
 * conjugate. root: e^(-2 pi i k / r). */
INLINE void butterfly_odd(const int r, const number *root, number *a) {
  const int half = r / 2;
  number sum[RADIX_MAX / 2 + 1], difference[RADIX_MAX / 2 + 1];
  const number first = a[0];
  UNROLL for (int k = 1; k <= half; ++k) {
    sum[k] = number_plus(a[k], a[r - k]);
    difference[k] = number_minus(a[k], a[r - k]);
    a[0] = number_plus(a[0], sum[k]);
  }
  UNROLL for (int j = 1; j <= half; ++j) {
    number p = first, q = {0, 0};
    UNROLL for (int k = 1; k <= half; ++k) {
      const number w = root[j * k % r];
      p.re += sum[k].re * w.re;
      p.im += sum[k].im * w.re;
      q.re -= difference[k].im * w.im;
      q.im += difference[k].re * w.im;
    }
    a[j] = number_plus(p, q);
    a[r - j] = number_minus(p, q);
  }
}

/* One butterfly with twiddle factors: r numbers that are `apart` elements apart become r
 * numbers that are s elements apart. */
INLINE void butterfly_step(const int r, const number *root, const number *w, int64_t apart, int64_t s, const REAL *xr,
                           const REAL *xi, REAL *yr, REAL *yi) {
  number a[RADIX_MAX];
  UNROLL for (int k = 0; k < r; ++k) a[k] = (number){xr[apart * k], xi[apart * k]};
  r == 2 ? butterfly_2(a) : r == 4 ? butterfly_4(a) : butterfly_odd(r, root, a);
  UNROLL for (int j = 0; j < r; ++j) {
    const number b = j ? number_times(a[j], w[j]) : a[j];
    yr[s * j] = b.re;
    yi[s * j] = b.im;
  }
}

/* One stage of transforms of length n, of which `s` are interleaved: the product of
 * inner / n and the number of rows. */
INLINE void transform_stage(const int r, const transform *t, int64_t n, int64_t s, parts from, parts to) {
  const int64_t m = n / r, every = t->inner / n;
  const REAL *const xr = from.re, *const xi = from.im;
  REAL *const yr = to.re, *const yi = to.im;
  number root[RADIX_MAX], w[RADIX_MAX];
  for (int k = 0; k < r; ++k) root[k] = number_at(t->turn, t->inner / r * k);
  if (s == 1) { /* vectorised along the row */
    INDEPENDENT
    for (int64_t p = 0; p < m; ++p) {
      number v[RADIX_MAX];
      UNROLL for (int j = 1; j < r; ++j) v[j] = number_at(t->turn, p * j);
      butterfly_step(r, root, v, m, 1, xr + p, xi + p, yr + r * p, yi + r * p);
    }
    return;
  }
  for (int64_t p = 0; p < m; ++p) {
    for (int j = 1; j < r; ++j) w[j] = number_at(t->turn, p * j * every);
    const int64_t first = s * p;
    INDEPENDENT
    for (int64_t q = 0; q < s; ++q)
      butterfly_step(r, root, w, s * m, s, xr + first + q, xi + first + q, yr + first * r + q, yi + first * r + q);
  }
}

static void transform_stage_2(const transform *t, int64_t n, int64_t s, parts x, parts y) {
  transform_stage(2, t, n, s, x, y);
}
static void transform_stage_3(const transform *t, int64_t n, int64_t s, parts x, parts y) {
  transform_stage(3, t, n, s, x, y);
}
static void transform_stage_4(const transform *t, int64_t n, int64_t s, parts x, parts y) {
  transform_stage(4, t, n, s, x, y);
}
static void transform_stage_5(const transform *t, int64_t n, int64_t s, parts x, parts y) {
  transform_stage(5, t, n, s, x, y);
}
static void transform_stage_7(const transform *t, int64_t n, int64_t s, parts x, parts y) {
  transform_stage(7, t, n, s, x, y);
}

static void parts_swap(parts *x, parts *y) {
  const parts held = *x;
  *x = *y;
  *y = held;
}

static void transform_run_stages(const transform *t, int64_t rows, parts *x, parts *spare) {
  static void (*const stage_of[])(const transform *, int64_t, int64_t, parts, parts) = {[2] = transform_stage_2,
                                                                                        [3] = transform_stage_3,
                                                                                        [4] = transform_stage_4,
                                                                                        [5] = transform_stage_5,
                                                                                        [7] = transform_stage_7};
  int64_t n = t->inner;
  for (int i = 0; i < t->n_stages; parts_swap(x, spare), n /= t->radix[i++])
    stage_of[t->radix[i]](t, n, t->inner / n * rows, *x, *spare);
}

static void transform_multiply(parts x, const void *factor, int64_t n, int64_t rows) {
  for (int64_t k = 0; k < n; ++k) {
    const number f = number_at(factor, k);
    REAL *const re = (REAL *)x.re + k * rows, *const im = (REAL *)x.im + k * rows;
    INDEPENDENT
    for (int64_t i = 0; i < rows; ++i) {
      const number y = number_times((number){re[i], im[i]}, f);
      re[i] = y.re;
      im[i] = y.im;
    }
  }
}

/* Exchanging real and imaginary parts before and after a forward transform gives the inverse one. */
static parts parts_exchange(parts x) { return (parts){x.im, x.re}; }

static void transform_run(const transform *t, int64_t rows, parts *x, parts *spare) {
  if (!t->chirp) {
    transform_run_stages(t, rows, x, spare);
    return;
  }
  const size_t behind = (size_t)((t->inner - t->n) * rows) * sizeof(REAL);
  transform_multiply(*x, t->chirp, t->n, rows);
  memset((REAL *)x->re + t->n * rows, 0, behind);
  memset((REAL *)x->im + t->n * rows, 0, behind);
  transform_run_stages(t, rows, x, spare);
  transform_multiply(*x, t->filter, t->inner, rows);
  *x = parts_exchange(*x);
  transform_run_stages(t, rows, x, spare);
  *x = parts_exchange(*x);
  transform_multiply(*x, t->chirp, t->n, rows);
}

/* Combines `here`, the transform of pairs at k, and `mirrored`, that at half - k. */
INLINE number unpair_number(number here, number mirrored, number w) {
  const number y = {mirrored.re, -mirrored.im};
  const number even = number_plus(here, y), odd = number_times(number_times_minus_i(number_minus(here, y)), w),
               sum = number_plus(even, odd);
  return (number){sum.re / 2, sum.im / 2};
}

static void transform_unpair(const void *turn, int64_t half, int64_t rows, parts to, parts from) {
  const REAL *const re = from.re, *const im = from.im;
  REAL *const yr = to.re, *const yi = to.im;
  for (int64_t k = 0; k <= half; k += rows == 1 && k == 0 ? half : 1) {
    const int64_t here = k % half * rows, mirrored = (half - k) % half * rows;
    const number w = number_at(turn, k);
    INDEPENDENT
    for (int64_t i = 0; i < rows; ++i) {
      const number y =
          unpair_number((number){re[here + i], im[here + i]}, (number){re[mirrored + i], im[mirrored + i]}, w);
      yr[k * rows + i] = y.re;
      yi[k * rows + i] = y.im;
    }
  }
  if (rows != 1) return;
  INDEPENDENT
  for (int64_t k = 1; k < half; ++k) {
    const number y = unpair_number((number){re[k], im[k]}, (number){re[half - k], im[half - k]}, number_at(turn, k));
    yr[k] = y.re;
    yi[k] = y.im;
  }
}

static void transform_scale(void *x, const void *factor, int64_t stride, int64_t n, int64_t rows) {
  for (int64_t k = 0; k < n; ++k)
    for (int64_t i = 0; i < rows; ++i) ((REAL *)x)[k * rows + i] *= ((const REAL *)factor)[k * stride];
}

static void transform_split(parts to, const void *from, int64_t n) {
  const number *const x = from;
  REAL *const restrict re = to.re, *const restrict im = to.im;
  for (int64_t i = 0; i < n; ++i) {
    re[i] = x[i].re;
    im[i] = x[i].im;
  }
}

static void transform_join(void *to, parts from, int64_t n) {
  number *const restrict y = to;
  const REAL *const re = from.re, *const im = from.im;
  for (int64_t i = 0; i < n; ++i) y[i] = (number){re[i], im[i]};
}

const transform_loops LEVELED(TABLE) = {.run = transform_run,
                                        .unpair = transform_unpair,
                                        .scale = transform_scale,
                                        .multiply = transform_multiply,
                                        .split = transform_split,
                                        .join = transform_join};
