/* The stages of transforms, and what is done to whole rows around them; transform.h. */
#include <string.h>

#include "kernel/engine/level.h"
#include "kernel/engine/unroll.h"
#include "kernel/fourier/transform.h"

enum { RADIX_MAX = 7 };

typedef struct {
  double re, im;
} number;

INLINE number plus(number a, number b) { return (number){a.re + b.re, a.im + b.im}; }
INLINE number minus(number a, number b) { return (number){a.re - b.re, a.im - b.im}; }
INLINE number minus_i_times(number a) { return (number){a.im, -a.re}; }
INLINE number times(number a, number b) { return (number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

/* Transforms of 2 and 4. */
INLINE void butterfly_2(number *a) {
  const number sum = plus(a[0], a[1]);
  a[1] = minus(a[0], a[1]);
  a[0] = sum;
}

INLINE void butterfly_4(number *a) {
  const number even = plus(a[0], a[2]), odd = plus(a[1], a[3]), e = minus(a[0], a[2]);
  const number o = minus_i_times(minus(a[1], a[3]));
  a[0] = plus(even, odd);
  a[1] = plus(e, o);
  a[2] = minus(even, odd);
  a[3] = minus(e, o);
}

/* Of an odd r: elements k and r - k by their sum and difference, since their factors are conjugate. root: e^(-2 pi i k / r). */
INLINE void butterfly_odd(const int r, const number *root, number *a) {
  const int half = r / 2;
  number sum[RADIX_MAX / 2 + 1], difference[RADIX_MAX / 2 + 1];
  const number first = a[0];
  UNROLL for (int k = 1; k <= half; ++k) {
    sum[k] = plus(a[k], a[r - k]);
    difference[k] = minus(a[k], a[r - k]);
    a[0] = plus(a[0], sum[k]);
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
    a[j] = plus(p, q);
    a[r - j] = minus(p, q);
  }
}

/* One stage of transforms of length n, `s` of them side by side, as inner / n of them and the rows. */
INLINE void stage(const int r, const transform *t, int64_t n, int64_t s, parts from, parts to) {
  const int64_t m = n / r, step = t->inner / n, apart = s * m;
  number root[RADIX_MAX], w[RADIX_MAX];
  for (int k = 0; k < r; ++k) root[k] = (number){t->turn[2 * (t->inner / r * k)], t->turn[2 * (t->inner / r * k) + 1]};
  for (int64_t p = 0; p < m; ++p) {
    const double *const xr = from.re + s * p, *const xi = from.im + s * p;
    double *const yr = to.re + s * r * p, *const yi = to.im + s * r * p;
    for (int j = 1; j < r; ++j) w[j] = (number){t->turn[2 * (p * j * step)], t->turn[2 * (p * j * step) + 1]};
    INDEPENDENT
    for (int64_t q = 0; q < s; ++q) {
      number a[RADIX_MAX];
      UNROLL for (int k = 0; k < r; ++k) a[k] = (number){xr[q + apart * k], xi[q + apart * k]};
      r == 2 ? butterfly_2(a) : r == 4 ? butterfly_4(a) : butterfly_odd(r, root, a);
      UNROLL for (int j = 0; j < r; ++j) {
        const number b = j ? times(a[j], w[j]) : a[j];
        yr[q + s * j] = b.re;
        yi[q + s * j] = b.im;
      }
    }
  }
}

static void stage_2(const transform *t, int64_t n, int64_t s, parts x, parts y) { stage(2, t, n, s, x, y); }
static void stage_3(const transform *t, int64_t n, int64_t s, parts x, parts y) { stage(3, t, n, s, x, y); }
static void stage_4(const transform *t, int64_t n, int64_t s, parts x, parts y) { stage(4, t, n, s, x, y); }
static void stage_5(const transform *t, int64_t n, int64_t s, parts x, parts y) { stage(5, t, n, s, x, y); }
static void stage_7(const transform *t, int64_t n, int64_t s, parts x, parts y) { stage(7, t, n, s, x, y); }

static void swap(parts *x, parts *y) {
  const parts held = *x;
  *x = *y;
  *y = held;
}

static void run_stages(const transform *t, int64_t rows, parts *x, parts *spare) {
  static void (*const stage_of[])(const transform *, int64_t, int64_t, parts,
                                  parts) = {[2] = stage_2, [3] = stage_3, [4] = stage_4, [5] = stage_5, [7] = stage_7};
  int64_t n = t->inner;
  for (int i = 0; i < t->n_stages; swap(x, spare), n /= t->radix[i++])
    stage_of[t->radix[i]](t, n, t->inner / n * rows, *x, *spare);
}

static void multiply(parts x, const double *factor, int64_t n, int64_t rows) {
  for (int64_t k = 0; k < n; ++k) {
    const number f = {factor[2 * k], factor[2 * k + 1]};
    double *const re = x.re + k * rows, *const im = x.im + k * rows;
    INDEPENDENT
    for (int64_t i = 0; i < rows; ++i) {
      const number y = times((number){re[i], im[i]}, f);
      re[i] = y.re;
      im[i] = y.im;
    }
  }
}

/* Exchanging real and imaginary parts before and after a transform makes it the inverse one. */
static parts exchanged(parts x) { return (parts){x.im, x.re}; }

static void run(const transform *t, int64_t rows, parts *x, parts *spare) {
  if (!t->chirp) {
    run_stages(t, rows, x, spare);
    return;
  }
  const size_t behind = (size_t)((t->inner - t->n) * rows) * sizeof *x->re;
  multiply(*x, t->chirp, t->n, rows);
  memset(x->re + t->n * rows, 0, behind);
  memset(x->im + t->n * rows, 0, behind);
  run_stages(t, rows, x, spare);
  multiply(*x, t->filter, t->inner, rows);
  *x = exchanged(*x);
  run_stages(t, rows, x, spare);
  *x = exchanged(*x);
  multiply(*x, t->chirp, t->n, rows);
}

static void unpair(const double *turn, int64_t half, int64_t rows, parts to, parts from) {
  for (int64_t k = 0; k <= half; ++k) {
    const int64_t at = k % half * rows, mirrored = (half - k) % half * rows;
    const number w = {turn[2 * k], turn[2 * k + 1]};
    INDEPENDENT
    for (int64_t i = 0; i < rows; ++i) {
      const number x = {from.re[at + i], from.im[at + i]}, y = {from.re[mirrored + i], -from.im[mirrored + i]};
      const number even = plus(x, y), odd = times(minus_i_times(minus(x, y)), w);
      to.re[k * rows + i] = 0.5 * (even.re + odd.re);
      to.im[k * rows + i] = 0.5 * (even.im + odd.im);
    }
  }
}

static void scale(double *x, const double *factor, int64_t stride, int64_t n, int64_t rows) {
  for (int64_t k = 0; k < n; ++k)
    for (int64_t i = 0; i < rows; ++i) x[k * rows + i] *= factor[k * stride];
}

static void interleave(double *restrict to, const double *restrict from, int64_t pitch, int64_t rows, int64_t n) {
  for (int64_t k = 0; k < n; ++k)
    for (int64_t i = 0; i < rows; ++i) to[k * rows + i] = from[i * pitch + k];
}

static void separate(double *restrict to, int64_t pitch, const double *restrict from, int64_t rows, int64_t n) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < n; ++k) to[i * pitch + k] = from[k * rows + i];
}

const transform_loops LEVELED(transform_loops) = {
    .run = run, .unpair = unpair, .scale = scale, .multiply = multiply, .interleave = interleave, .separate = separate};
