/* The loops of softmax_loops.h. A row of up to CHUNK elements is read once and stays in L1; a longer one is read twice:
 * each chunk's maximum and sum of exponentials are brought together (online softmax), then the results are made. */
#include "kernel/norm/softmax_loops.h"

#include <math.h>
#include <stdbool.h>

#include "kernel/engine/level.h"
#include "kernel/norm/vec.h"
#include "kernel/norm/vec_stored.h"

enum {
  CHUNK = 4096,
  SHORT = 256,   /* rows up to this take turns, */
  TOGETHER = 16, /* so many at a time: each waits for its maximum, its sum and its logarithm */
};

/* ---- float ------------------------------------------------------------------------------------------------------- */

/* The largest number; NaN is passed over, since its exponential will be NaN. */
static float largest(const float *x, int64_t n) {
  const vec least = vec_of(-INFINITY);
  vec a = least, b = least, c = least, d = least;
  int64_t i = 0;
  for (; i + 4 * VEC <= n; i += 4 * VEC) {
    a = vec_max(vec_load(x + i), a);
    b = vec_max(vec_load(x + i + VEC), b);
    c = vec_max(vec_load(x + i + 2 * VEC), c);
    d = vec_max(vec_load(x + i + 3 * VEC), d);
  }
  for (; i + VEC <= n; i += VEC) a = vec_max(vec_load(x + i), a);
  if (i < n) b = vec_max(vec_load_part(x + i, n - i, least), b);
  return vec_largest(vec_max(vec_max(a, b), vec_max(c, d)));
}

/* exp(x - p) */
VEC_INLINE vec exp_term(const vec_loop *l, int64_t i, int64_t n) {
  return vec_exp_bounded(vec_get(l->x + i, n, vec_of(-INFINITY)) - l->p);
}

VEC_INLINE vec kept_exp_term(const vec_loop *l, int64_t i, int64_t n) {
  const vec e = exp_term(l, i, n);
  vec_put(l->out + i, e, n);
  return e;
}

static double exp_sum(const float *x, float top, int64_t n) {
  return vec_sum_terms(exp_term, &(vec_loop){.x = x, .p = vec_of(top)}, n);
}

VEC_INLINE void times_step(const vec_loop *l, int64_t i, int64_t n) {
  vec_put(l->out + i, vec_get(l->x + i, n, (vec){0}) * l->q, n);
}

VEC_INLINE void softmax_step(const vec_loop *l, int64_t i, int64_t n) {
  vec_put(l->out + i, exp_term(l, i, n) * l->q, n);
}

/* x - top - log(sum), in this order, since top may be much larger than what is left. */
VEC_INLINE void log_softmax_step(const vec_loop *l, int64_t i, int64_t n) {
  vec_put(l->out + i, vec_get(l->x + i, n, (vec){0}) - l->p - l->q, n);
}

typedef struct {
  float top;
  double sum; /* of exp(x - top) */
} exp_stats;

/* A chunk of nothing but -inf (and NaN) adds 0 (NaN). */
static exp_stats row_stats(const float *x, int64_t n) {
  exp_stats row = {.top = -INFINITY};
  for (int64_t i = 0; i < n; i += CHUNK) {
    const int64_t m = n - i < CHUNK ? n - i : CHUNK;
    const float top = largest(x + i, m);
    const double sum = exp_sum(x + i, top > -INFINITY ? top : 0, m);
    if (top > row.top) {
      row.sum = row.sum * exp((double)row.top - (double)top) + sum;
      row.top = top;
    } else {
      row.sum += top > -INFINITY ? sum * exp((double)top - (double)row.top) : sum;
    }
  }
  return row;
}

static void softmax_f32(float *y, const float *x, int64_t n) {
  if (n <= CHUNK) {
    const float top = largest(x, n);
    const double sum = vec_sum_terms(kept_exp_term, &(vec_loop){.x = x, .out = y, .p = vec_of(top)}, n);
    vec_each(times_step, &(vec_loop){.x = y, .out = y, .q = vec_of((float)(1 / sum))}, n);
  } else {
    const exp_stats s = row_stats(x, n);
    vec_each(softmax_step, &(vec_loop){.x = x, .out = y, .p = vec_of(s.top), .q = vec_of((float)(1 / s.sum))}, n);
  }
}

static bool log_is_short(double sum) { return sum > 0 && sum < (double)INFINITY; }

/* Short where it can be, which is almost always: for rows of 64 the C library's takes a third of the time. */
static float log_of_sum(double sum) { return (float)(log_is_short(sum) ? wide_log(sum) : log(sum)); }

static void log_softmax_f32(float *y, const float *x, int64_t n) {
  const exp_stats s = row_stats(x, n);
  vec_each(log_softmax_step, &(vec_loop){.x = x, .out = y, .p = vec_of(s.top), .q = vec_of(log_of_sum(s.sum))}, n);
}

static float *row_at(void *first, int64_t pitch, int i) { return (float *)(void *)((char *)first + i * pitch); }
static const float *row_of(const void *first, int64_t pitch, int i) {
  return (const float *)(const void *)((const char *)first + i * pitch);
}

/* A few short rows, with the results of those above. */
static void softmax_together(void *y, int64_t y_pitch, const void *x, int64_t x_pitch, int rows, int64_t n) {
  float top[TOGETHER], scale[TOGETHER];
  double sum[TOGETHER] = {0};
  for (int i = 0; i < rows; ++i) top[i] = largest(row_of(x, x_pitch, i), n);
  for (int i = 0; i < rows; ++i)
    sum[i] = vec_sum_terms(
        kept_exp_term, &(vec_loop){.x = row_of(x, x_pitch, i), .out = row_at(y, y_pitch, i), .p = vec_of(top[i])}, n);
  for (int i = 0; i < TOGETHER; ++i) scale[i] = (float)(1 / sum[i]);
  for (int i = 0; i < rows; ++i) {
    float *const row = row_at(y, y_pitch, i);
    vec_each(times_step, &(vec_loop){.x = row, .out = row, .q = vec_of(scale[i])}, n);
  }
}

static void log_softmax_together(void *y, int64_t y_pitch, const void *x, int64_t x_pitch, int rows, int64_t n) {
  float top[TOGETHER], log_sum[TOGETHER];
  double sum[TOGETHER] = {0};
  for (int i = 0; i < rows; ++i) top[i] = largest(row_of(x, x_pitch, i), n);
  for (int i = 0; i < rows; ++i) sum[i] = exp_sum(row_of(x, x_pitch, i), top[i] > -INFINITY ? top[i] : 0, n);
  for (int i = 0; i < TOGETHER; ++i) log_sum[i] = (float)wide_log(sum[i]);
  for (int i = 0; i < rows; ++i) {
    if (!log_is_short(sum[i])) log_sum[i] = (float)log(sum[i]);
    vec_each(
        log_softmax_step,
        &(vec_loop){
            .x = row_of(x, x_pitch, i), .out = row_at(y, y_pitch, i), .p = vec_of(top[i]), .q = vec_of(log_sum[i])},
        n);
  }
}

#define ROWS_F32(name)                                                                                                 \
  static void name##_rows_f32(void *y, int64_t y_pitch, const void *x, int64_t x_pitch, int rows, int64_t n) {         \
    const int together = n <= SHORT ? TOGETHER : 1;                                                                    \
    for (int i = 0; i < rows; i += together) {                                                                         \
      float *const to = row_at(y, y_pitch, i);                                                                         \
      const float *const from = row_of(x, x_pitch, i);                                                                 \
      if (together > 1)                                                                                                \
        name##_together(to, y_pitch, from, x_pitch, rows - i < together ? rows - i : together, n);                     \
      else                                                                                                             \
        name##_f32(to, from, n);                                                                                       \
    }                                                                                                                  \
  }
ROWS_F32(softmax)
ROWS_F32(log_softmax)

VEC_INLINE vec product_term(const vec_loop *l, int64_t i, int64_t n) {
  return vec_read(l->x, l->dtype, i, n) * vec_read(l->y, l->dtype, i, n);
}

VEC_INLINE vec plain_term(const vec_loop *l, int64_t i, int64_t n) { return vec_read(l->x, l->dtype, i, n); }

VEC_INLINE void softmax_back_step(const vec_loop *l, int64_t i, int64_t n) {
  const vec dy = vec_read(l->x, l->dtype, i, n), y = vec_read(l->y, l->dtype, i, n);
  vec_write(l->out, l->dtype, i, (dy - l->p) * y, n);
}

VEC_INLINE void log_softmax_back_step(const vec_loop *l, int64_t i, int64_t n) {
  const vec dy = vec_read(l->x, l->dtype, i, n), y = vec_read(l->y, l->dtype, i, n);
  vec_write(l->out, l->dtype, i, dy - vec_exp(y) * l->p, n);
}

VEC_INLINE void back_row(vec_term *term, vec_step *step, vec_loop l, int dtype, int64_t n) {
  l.dtype = dtype; /* a constant from here on */
  l.p = vec_of((float)vec_sum_terms(term, &l, n));
  vec_each(step, &l, n);
}

static void softmax_back_f32(void *dx, const void *dy, const void *y, int dtype, int64_t n) {
  const vec_loop l = {.x = dy, .y = y, .out = dx};
#define BACK_ROW(dtype) back_row(product_term, softmax_back_step, l, dtype, n)
  OF_DTYPE(BACK_ROW, dtype);
}

static void log_softmax_back_f32(void *dx, const void *dy, const void *y, int dtype, int64_t n) {
  const vec_loop l = {.x = dy, .y = y, .out = dx};
#define LOG_BACK_ROW(dtype) back_row(plain_term, log_softmax_back_step, l, dtype, n)
  OF_DTYPE(LOG_BACK_ROW, dtype);
}

static void masked_scale(float *y, const float *x, const uint8_t *mask, float scale, float fill, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float scaled = x[i] * scale;
    y[i] = mask[i] ? fill : scaled;
  }
}

/* ---- double: the C library's functions, element by element ------------------------------------------------------- */

typedef double term_f64(const double *x, const double *y, double p, int64_t i);

/* As a tree with leaves of 32 terms. */
static double sum_f64(term_f64 *term, const double *x, const double *y, double p, int64_t begin, int64_t end) {
  if (end - begin > 32) {
    const int64_t middle = begin + (end - begin) / 2;
    return sum_f64(term, x, y, p, begin, middle) + sum_f64(term, x, y, p, middle, end);
  }
  double sum = 0;
  for (int64_t i = begin; i < end; ++i) sum += term(x, y, p, i);
  return sum;
}

static double exp_term_f64(const double *x, const double *y, double p, int64_t i) {
  (void)y;
  return exp(x[i] - p);
}

static double plain_term_f64(const double *x, const double *y, double p, int64_t i) {
  (void)y, (void)p;
  return x[i];
}

static double product_term_f64(const double *x, const double *y, double p, int64_t i) {
  (void)p;
  return x[i] * y[i];
}

static double largest_f64(const double *x, int64_t n) {
  double top = -INFINITY;
  for (int64_t i = 0; i < n; ++i) top = x[i] > top ? x[i] : top;
  return top;
}

static void softmax_f64(double *y, const double *x, int64_t n) {
  const double top = largest_f64(x, n), sum = sum_f64(exp_term_f64, x, NULL, top, 0, n);
  for (int64_t i = 0; i < n; ++i) y[i] = exp(x[i] - top) / sum;
}

static void log_softmax_f64(double *y, const double *x, int64_t n) {
  const double top = largest_f64(x, n), log_sum = log(sum_f64(exp_term_f64, x, NULL, top, 0, n));
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] - top - log_sum;
}

#define ROWS_F64(name)                                                                                                 \
  static void name##_rows_f64(void *y, int64_t y_pitch, const void *x, int64_t x_pitch, int rows, int64_t n) {         \
    for (int i = 0; i < rows; ++i)                                                                                     \
      name##_f64((double *)(void *)((char *)y + i * y_pitch),                                                          \
                 (const double *)(const void *)((const char *)x + i * x_pitch), n);                                    \
  }
ROWS_F64(softmax)
ROWS_F64(log_softmax)

static void softmax_back_f64(void *out, const void *grad, const void *output, int dtype, int64_t n) {
  (void)dtype;
  double *dx = out;
  const double *dy = grad, *y = output, sum = sum_f64(product_term_f64, dy, y, 0, 0, n);
  for (int64_t i = 0; i < n; ++i) dx[i] = (dy[i] - sum) * y[i];
}

static void log_softmax_back_f64(void *out, const void *grad, const void *output, int dtype, int64_t n) {
  (void)dtype;
  double *dx = out;
  const double *dy = grad, *y = output, sum = sum_f64(plain_term_f64, dy, NULL, 0, 0, n);
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] - exp(y[i]) * sum;
}

const softmax_loops LEVELED(softmax_loops) = {
    .f32 = {.softmax = softmax_rows_f32,
            .log_softmax = log_softmax_rows_f32,
            .softmax_back = softmax_back_f32,
            .log_softmax_back = log_softmax_back_f32},
    .f64 = {.softmax = softmax_rows_f64,
            .log_softmax = log_softmax_rows_f64,
            .softmax_back = softmax_back_f64,
            .log_softmax_back = log_softmax_back_f64},
    .masked_scale = masked_scale,
};
