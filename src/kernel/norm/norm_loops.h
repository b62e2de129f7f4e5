/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of the norms on rows, for one instruction set level (engine/level.h). Sums are accumulated per lane in
 * blocks of 1024 elements, and over blocks in double: the relative error is below 2^-19 of the sum of magnitudes, and
 * the result depends only on the row's elements and their order. Outputs may be the inputs. The functions have no
 * state. */
#ifndef CANNON_KERNEL_NORM_NORM_LOOPS_H
#define CANNON_KERNEL_NORM_NORM_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

/* y = (x - mean) * rstd * gamma + beta. */
typedef struct {
  double mean, rstd;
} norm_stats;

/* Sums over a row for the gradient of its input. */
typedef struct {
  double dy, dy_xhat; /* sums of dy * gamma, and of dy * gamma * (x - mean) * rstd */
} norm_sums;

typedef struct {
  double n, mean, m2; /* number of elements, their mean, and the sum of squared distances from it */
} norm_moments;

/* Combines the moments of two parts of a row (Chan's formula). */
static inline norm_moments norm_moments_join(norm_moments a, norm_moments b) {
  const double n = a.n + b.n, apart = b.mean - a.mean;
  if (n == 0) return a;
  return (norm_moments){.n = n, .mean = a.mean + apart * b.n / n, .m2 = a.m2 + b.m2 + apart * apart * (a.n * b.n / n)};
}

/* Combines the moments of one or more parts with equal numbers of elements, `step` bytes apart. It uses the distances
 * of their means from the first one, which avoids a division per part. NaN is preserved. */
static inline norm_moments norm_moments_join_all(const norm_moments *part, int64_t step, int64_t parts) {
  double apart = 0, squares = 0, m2 = 0;
  const norm_moments *p = part;
  for (int64_t k = 0; k < parts; ++k, p = (const norm_moments *)(const void *)((const char *)p + step)) {
    const double distance = p->mean - part->mean;
    apart += distance;
    squares += distance * distance;
    m2 += p->m2;
  }
  const double shift = apart / (double)parts, between = squares - apart * shift;
  return (norm_moments){
      .n = part->n * (double)parts, .mean = part->mean + shift, .m2 = m2 + (between < 0 ? 0 : part->n * between)};
}

/* A block of `rows` rows of n elements each, of float, float16 or bfloat16, whose columns are processed. Pitches are
 * bytes from row to row. */
typedef struct {
  const char *x, *dy;
  char *y;
  int64_t x_pitch, dy_pitch, y_pitch, n;
  int rows, dtype;
} norm_columns;

/* A dtype parameter is that of x, y and their gradients: float, float16 or bfloat16. */
typedef struct {
  norm_moments (*moments)(const void *x, int dtype, int64_t n);
  /* Sum of squares. */
  double (*squares)(const float *x, int64_t n);
  /* gamma and beta: one for each element; NULL stands for ones and zeros. */
  void (*apply)(void *y, const void *x, int dtype, norm_stats s, const float *gamma, const float *beta, int64_t n);
  /* apply with one gamma and beta for all elements. */
  void (*apply_one)(void *y, const void *x, int dtype, norm_stats s, float gamma, float beta, int64_t n);
  /* y = x * rstd * (gamma + shift). */
  void (*scale)(float *y, const float *x, double rstd, const float *gamma, float shift, int64_t n);
  /* y = a + scale * b, + c unless c is NULL. */
  void (*add)(float *y, const float *a, float scale, const float *b, const float *c, int64_t n);
  /* y = x / (1 + exp(-scale * x)). */
  void (*swish)(float *y, const float *x, float scale, int64_t n);
  /* dx = dy times the derivative of swish. */
  void (*swish_back)(float *dx, const float *dy, const float *x, float scale, int64_t n);

  /* Sums for the gradient of a row. Adds dy * xhat to dgamma and dy to dbeta, elementwise, unless they are NULL. */
  norm_sums (*back_sums)(const void *dy, const void *x, int dtype, norm_stats s, const float *gamma, float *dgamma,
                         float *dbeta, int64_t n);
  /* back_sums for rows with one gamma for all elements; the sums do not include it. */
  norm_sums (*back_sums_one)(const void *dy, const void *x, int dtype, norm_stats s, int64_t n);
  /* dx = (dy * gamma - mean.dy - mean.dy_xhat * xhat) * rstd. */
  void (*back)(void *dx, const void *dy, const void *x, int dtype, norm_stats s, const float *gamma, norm_sums mean,
               int64_t n);
  /* back with one gamma for all elements. */
  void (*back_one)(void *dx, const void *dy, const void *x, int dtype, norm_stats s, float gamma, norm_sums mean,
                   int64_t n);
  /* Adds g and g * (x - about) to each column's sums, row by row; g is dy, or x - about if dy is NULL. */
  void (*column_sums)(const norm_columns *c, double *first, double *second, const float *about);
  /* y = (x - about) * scale + shift + dy * dy_scale; dy may be NULL. */
  void (*column_apply)(const norm_columns *c, const float *about, const float *scale, const float *shift,
                       const float *dy_scale);
  /* total += sum; sum = 0. */
  void (*flush)(double *total, float *sum, int64_t n);
} norm_loops;

extern const norm_loops *norm; /* set before main */

#endif
