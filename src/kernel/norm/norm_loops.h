/* What norms do to rows of contiguous floats, by instruction set level (engine/level.h). Sums go by lanes
 * in blocks of 1024 elements, and over blocks in double: the relative error is below 2^-19 of the sum of magnitudes,
 * and depends on the row's elements and their order only. Outputs may be the inputs. */
#ifndef CANNON_KERNEL_NORM_NORM_LOOPS_H
#define CANNON_KERNEL_NORM_NORM_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

/* y = (x - mean) * rstd * gamma + beta. */
typedef struct {
  double mean, rstd;
} norm_stats;

/* Sums of a row's gradient, for the gradient of its input. */
typedef struct {
  double dy, dy_xhat; /* of dy * gamma, and of that times (x - mean) * rstd */
} norm_sums;

typedef struct {
  double n, mean, m2; /* elements, their mean, and their squared distances from it */
} norm_moments;

/* Of two parts of a row (Chan). */
static inline norm_moments norm_moments_join(norm_moments a, norm_moments b) {
  const double n = a.n + b.n, apart = b.mean - a.mean;
  if (n == 0) return a;
  return (norm_moments){.n = n, .mean = a.mean + apart * b.n / n, .m2 = a.m2 + b.m2 + apart * apart * (a.n * b.n / n)};
}

/* Of one or more parts that have as many elements each, so many bytes apart: by their means' distances from the first's,
 * without a division for each. NaN stays. */
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

/* Columns of `rows` rows of n elements: float, float16 or bfloat16. Pitches are bytes from row to row. */
typedef struct {
  const char *x, *dy;
  char *y;
  int64_t x_pitch, dy_pitch, y_pitch, n;
  int rows, dtype;
} norm_columns;

/* Where there is a dtype, it is of x, y and their gradients: float, float16 or bfloat16. */
typedef struct {
  norm_moments (*moments)(const void *x, int dtype, int64_t n);
  /* Sum of squares. */
  double (*squares)(const float *x, int64_t n);
  /* gamma and beta: one for each element; NULL: ones, zeros. */
  void (*apply)(void *y, const void *x, int dtype, norm_stats s, const float *gamma, const float *beta, int64_t n);
  /* The same with one gamma and beta for all. */
  void (*apply_one)(void *y, const void *x, int dtype, norm_stats s, float gamma, float beta, int64_t n);
  /* y = x * rstd * (gamma + shift). */
  void (*scale)(float *y, const float *x, double rstd, const float *gamma, float shift, int64_t n);
  /* y = a + scale * b (+ c unless NULL). */
  void (*add)(float *y, const float *a, float scale, const float *b, const float *c, int64_t n);
  /* y = x / (1 + exp(-scale * x)). */
  void (*swish)(float *y, const float *x, float scale, int64_t n);
  /* dx = dy * d/dx of that. */
  void (*swish_back)(float *dx, const float *dy, const float *x, float scale, int64_t n);

  /* Gradients of a row. Adds dy * xhat to dgamma and dy to dbeta, element by element, unless they are NULL. */
  norm_sums (*back_sums)(const void *dy, const void *x, int dtype, norm_stats s, const float *gamma, float *dgamma,
                         float *dbeta, int64_t n);
  /* The same of rows with one gamma, without it. */
  norm_sums (*back_sums_one)(const void *dy, const void *x, int dtype, norm_stats s, int64_t n);
  /* dx = (dy * gamma - mean.dy - mean.dy_xhat * xhat) * rstd. */
  void (*back)(void *dx, const void *dy, const void *x, int dtype, norm_stats s, const float *gamma, norm_sums mean,
               int64_t n);
  /* The same with one gamma for all. */
  void (*back_one)(void *dx, const void *dy, const void *x, int dtype, norm_stats s, float gamma, norm_sums mean,
                   int64_t n);
  /* Adds to each column's sums g and g * (x - about), row by row, where g is dy, or x - about if that is NULL. */
  void (*column_sums)(const norm_columns *c, double *first, double *second, const float *about);
  /* y = (x - about) * scale + shift + dy * dy_scale; dy may be NULL. */
  void (*column_apply)(const norm_columns *c, const float *about, const float *scale, const float *shift,
                       const float *dy_scale);
  /* total += sum; sum = 0. */
  void (*flush)(double *total, float *sum, int64_t n);
} norm_loops;

extern const norm_loops *norm; /* set before main */

#endif
