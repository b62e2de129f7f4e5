/* SPDX-License-Identifier: Apache-2.0 */
/* Implementation of softmax_loops.h for one instruction set level (engine/level.h). A row of up to CHUNK elements is
 * read once and stays in L1. A longer row is read twice: first the maximum and sum of exponentials of each chunk are
 * combined (online softmax), then the results are computed. */
#include "kernel/norm/softmax_loops.h"

#include "kernel/engine/level.h"
#include "kernel/norm/softmax_vec.h"
#include "kernel/norm/vec_stored.h"

enum {
  CHUNK = SOFTMAX_CHUNK,
  SHORT = 256,   /* rows up to this length are processed in groups */
  TOGETHER = 16, /* rows in a group, to hide the latencies of maximum, sum and logarithm */
};

/* ---- float, and 16-bit types computed in float ------------------------------------------------------------------- */

/* Maximum; NaN is ignored, since its exponential will be NaN anyway. If kept is not NULL, it receives the elements as
 * floats. */
VEC_INLINE float largest(const void *x, int dtype, float *kept, int64_t n) {
  const vec least = vec_of(-INFINITY);
  vec most[4] = {least, least, least, least};
  int64_t i = 0;
  for (; i + 4 * VEC <= n; i += 4 * VEC) {
    vec v[4];
    vec_read_two(x, dtype, i, v);
    vec_read_two(x, dtype, i + 2 * VEC, v + 2);
    for (int k = 0; k < 4; ++k) {
      if (kept) vec_store(kept + i + k * VEC, v[k]);
      most[k] = vec_max(v[k], most[k]);
    }
  }
  for (; i < n; i += VEC) {
    const vec v = i + VEC <= n ? vec_read(x, dtype, i, VEC) : vec_read_part(x, dtype, i, n - i, least);
    if (kept) vec_store(kept + i, v);
    most[0] = vec_max(v, most[0]);
  }
  return vec_largest(vec_max(vec_max(most[0], most[1]), vec_max(most[2], most[3])));
}

/* exp(x - p) */
VEC_INLINE vec exp_term(const vec_loop *l, int64_t i, int64_t n) {
  return softmax_exp_rounded(vec_read_part(l->x, l->dtype, i, n, vec_of(-INFINITY)) - l->p);
}

/* exp(x - p) for floats; the exponentials are stored to l->out. */
VEC_INLINE vec kept_exp_term(const vec_loop *l, int64_t i, int64_t n) {
  const vec e = softmax_exp_rounded(vec_get(l->x + i, n, vec_of(-INFINITY)) - l->p);
  vec_put(l->out + i, e, n);
  return e;
}

/* For floats: x * q. */
VEC_INLINE vec times_value(const vec_loop *l, int64_t i, int64_t n) { return vec_get(l->x + i, n, (vec){0}) * l->q; }

VEC_INLINE vec softmax_value(const vec_loop *l, int64_t i, int64_t n) { return exp_term(l, i, n) * l->q; }

/* x - top - log(sum), in this order, since top may be much larger than the rest. */
VEC_INLINE vec log_softmax_value(const vec_loop *l, int64_t i, int64_t n) {
  return vec_read(l->x, l->dtype, i, n) - l->p - l->q;
}

typedef struct {
  float top;
  double sum; /* sum of exp(x - top) */
} exp_stats;

/* Maximum and sum of a long row. A chunk of only -inf adds 0, and one with NaN adds NaN. */
VEC_INLINE exp_stats softmax_row_stats(const char *x, int dtype, int64_t n) {
  exp_stats row = {.top = -INFINITY};
  for (int64_t i = 0, m; i < n; i += m, x += m * (dtype == ACL_FLOAT ? 4 : 2)) {
    m = n - i < CHUNK ? n - i : CHUNK;
    const float top = largest(x, dtype, NULL, m), shift = top > -INFINITY ? top : 0;
    const double sum =
        vec_sum_terms(exp_term, &(vec_loop){.x = (const void *)x, .dtype = dtype, .p = vec_of(shift)}, m);
    if (top > row.top) {
      row.sum = row.sum * exp((double)row.top - (double)top) + sum;
      row.top = top;
    } else {
      row.sum += top > -INFINITY ? sum * exp((double)top - (double)row.top) : sum;
    }
  }
  return row;
}

/* Rows of a group that are in L1 as floats: in place, or converted into `kept`. */
typedef struct {
  const float *x[TOGETHER];
  float top[TOGETHER];
} group_floats;

VEC_INLINE void *group_out(const softmax_matrix *g, int i) { return g->y + i * g->y_pitch; }

VEC_INLINE void keep_scale(const softmax_matrix *g, int i, float top, float log_sum) {
  if (!g->scale) return;
  g->scale[i][0] = top;
  g->scale[i][1] = log_sum;
}

VEC_INLINE void group_read(group_floats *f, const softmax_matrix *g, int dtype, float *kept) {
  for (int i = 0; i < g->rows; ++i) {
    const void *const from = g->x + i * g->x_pitch;
    float *const to = dtype == ACL_FLOAT ? NULL : kept + i * ((g->n + VEC - 1) / VEC * VEC);
    f->top[i] = largest(from, dtype, to, g->n);
    f->x[i] = to ? to : from;
  }
}

VEC_INLINE void softmax_group(const softmax_matrix *g, int dtype, float *kept) {
  group_floats f;
  double sum[TOGETHER] = {0};
  float scale[TOGETHER], *e[TOGETHER];
  group_read(&f, g, dtype, kept);
  for (int i = 0; i < g->rows; ++i) {
    e[i] = dtype == ACL_FLOAT ? (float *)group_out(g, i) : (float *)(uintptr_t)f.x[i];
    sum[i] = vec_sum_terms(kept_exp_term, &(vec_loop){.x = f.x[i], .out = e[i], .p = vec_of(f.top[i])}, g->n);
  }
  for (int i = 0; i < (g->rows > 1 ? TOGETHER : 1); ++i) scale[i] = (float)(1 / sum[i]);
  for (int i = 0; i < g->rows; ++i)
    vec_each_stored(times_value, &(vec_loop){.x = e[i], .out = group_out(g, i), .q = vec_of(scale[i])}, dtype, g->n);
}

VEC_INLINE void log_softmax_group(const softmax_matrix *g, int dtype, float *kept) {
  group_floats f;
  double sum[TOGETHER] = {0};
  float log_sum[TOGETHER];
  group_read(&f, g, dtype, kept);
  for (int i = 0; i < g->rows; ++i) {
    const float shift = f.top[i] > -INFINITY ? f.top[i] : 0;
    sum[i] = vec_sum_terms(exp_term, &(vec_loop){.x = f.x[i], .dtype = ACL_FLOAT, .p = vec_of(shift)}, g->n);
  }
  for (int i = 0; i < (g->rows > 1 ? TOGETHER : 1); ++i) log_sum[i] = (float)wide_log(sum[i]);
  for (int i = 0; i < g->rows; ++i) {
    if (!softmax_log_is_short(sum[i])) log_sum[i] = (float)log(sum[i]);
    keep_scale(g, i, f.top[i], log_sum[i]);
    const vec_loop l = {
        .x = f.x[i], .out = group_out(g, i), .dtype = ACL_FLOAT, .p = vec_of(f.top[i]), .q = vec_of(log_sum[i])};
    vec_each_stored(log_softmax_value, &l, dtype, g->n);
  }
}

/* Writes a row that is longer than a chunk; p: its maximum, q: a factor or a logarithm. */
VEC_INLINE void each_of_long(vec_value *value, const softmax_matrix *g, int dtype, float p, float q) {
  const vec_loop l = {.x = (const void *)g->x, .out = group_out(g, 0), .dtype = dtype, .p = vec_of(p), .q = vec_of(q)};
  vec_each_stored(value, &l, dtype, g->n);
}

VEC_INLINE void softmax_long(const softmax_matrix *g, int dtype) {
  const exp_stats s = softmax_row_stats(g->x, dtype, g->n);
  each_of_long(softmax_value, g, dtype, s.top, (float)(1 / s.sum));
}

VEC_INLINE void log_softmax_long(const softmax_matrix *g, int dtype) {
  const exp_stats s = softmax_row_stats(g->x, dtype, g->n);
  const float log_sum = softmax_log_of_sum(s.sum);
  keep_scale(g, 0, s.top, log_sum);
  each_of_long(log_softmax_value, g, dtype, s.top, log_sum);
}

#define ROWS_F32(name)                                                                                                 \
  VEC_INLINE void name##_groups(const softmax_matrix *m, int dtype) {                                                  \
    _Alignas(64) float kept[CHUNK];                                                                                    \
    softmax_matrix g = *m;                                                                                             \
    for (int i = 0; i < m->rows; i += g.rows) {                                                                        \
      g.rows = g.n > SHORT ? 1 : m->rows - i < TOGETHER ? m->rows - i : TOGETHER;                                      \
      g.y = m->y + i * m->y_pitch;                                                                                     \
      g.x = m->x + i * m->x_pitch;                                                                                     \
      g.scale = m->scale ? m->scale + i : NULL;                                                                        \
      if (g.n <= CHUNK)                                                                                                \
        name##_group(&g, dtype, kept);                                                                                 \
      else                                                                                                             \
        name##_long(&g, dtype);                                                                                        \
    }                                                                                                                  \
  }                                                                                                                    \
  static void name##_rows_f32(const softmax_matrix *m) {                                                               \
    m->dtype == ACL_FLOAT     ? name##_groups(m, ACL_FLOAT)                                                            \
    : m->dtype == ACL_FLOAT16 ? name##_groups(m, ACL_FLOAT16)                                                          \
                              : name##_groups(m, ACL_BF16);                                                            \
  }
ROWS_F32(softmax)
ROWS_F32(log_softmax)

VEC_INLINE vec product_term(const vec_loop *l, int64_t i, int64_t n) {
  return vec_read(l->x, l->dtype, i, n) * vec_read(l->y, l->dtype, i, n);
}

VEC_INLINE vec plain_term(const vec_loop *l, int64_t i, int64_t n) { return vec_read(l->x, l->dtype, i, n); }

VEC_INLINE vec softmax_back_value(const vec_loop *l, int64_t i, int64_t n) {
  return (vec_read(l->x, l->dtype, i, n) - l->p) * vec_read(l->y, l->dtype, i, n);
}

VEC_INLINE vec log_softmax_back_value(const vec_loop *l, int64_t i, int64_t n) {
  return vec_read(l->x, l->dtype, i, n) - vec_exp(vec_read(l->y, l->dtype, i, n)) * l->p;
}

/* 16-bit rows that fit are kept as floats between the two passes. */
VEC_INLINE void back_rows(vec_term *term, vec_value *value, const softmax_back_rows *r, int dtype) {
  enum { FIT = CHUNK / 2 };
  _Alignas(64) float kept[2][FIT];
  for (int i = 0; i < r->rows; ++i) {
    vec_loop l = {.x = (const void *)(r->dy + i * r->dy_pitch),
                  .y = (const void *)(r->y + i * r->y_pitch),
                  .out = (void *)(r->dx + i * r->dx_pitch),
                  .dtype = dtype};
    if (dtype != ACL_FLOAT && r->n <= FIT) {
      vec_floats(kept[0], l.x, dtype, r->n);
      vec_floats(kept[1], l.y, dtype, r->n);
      l.x = kept[0];
      l.y = kept[1];
      l.dtype = ACL_FLOAT;
      l.p = vec_of((float)vec_sum_terms(term, &l, r->n));
      vec_each_stored(value, &l, dtype, r->n);
    } else {
      l.p = vec_of((float)vec_sum_terms(term, &l, r->n));
      vec_each_stored(value, &l, dtype, r->n);
    }
  }
}

static void softmax_back_f32(const softmax_back_rows *r) {
#define BACK_ROWS(dtype) back_rows(product_term, softmax_back_value, r, dtype)
  OF_DTYPE(BACK_ROWS, r->dtype);
}

static void log_softmax_back_f32(const softmax_back_rows *r) {
#define LOG_BACK_ROWS(dtype) back_rows(plain_term, log_softmax_back_value, r, dtype)
  OF_DTYPE(LOG_BACK_ROWS, r->dtype);
}

static void masked_scale(float *y, const float *x, const uint8_t *mask, float scale, float fill, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float scaled = x[i] * scale;
    y[i] = mask[i] ? fill : scaled;
  }
}

/* ---- double: the C library's functions, element by element ------------------------------------------------------- */

typedef double term_f64(const double *x, const double *y, double p, int64_t i);

/* Tree sum with leaves of 32 terms. */
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
  static void name##_rows_f64(const softmax_matrix *m) {                                                               \
    for (int i = 0; i < m->rows; ++i)                                                                                  \
      name##_f64((double *)(void *)(m->y + i * m->y_pitch), (const double *)(const void *)(m->x + i * m->x_pitch),     \
                 m->n);                                                                                                \
  }
ROWS_F64(softmax)
ROWS_F64(log_softmax)

static void softmax_back_row_f64(double *dx, const double *dy, const double *y, int64_t n) {
  const double sum = sum_f64(product_term_f64, dy, y, 0, 0, n);
  for (int64_t i = 0; i < n; ++i) dx[i] = (dy[i] - sum) * y[i];
}

static void log_softmax_back_row_f64(double *dx, const double *dy, const double *y, int64_t n) {
  const double sum = sum_f64(plain_term_f64, dy, NULL, 0, 0, n);
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] - exp(y[i]) * sum;
}

#define BACK_F64(name)                                                                                                 \
  static void name##_f64(const softmax_back_rows *r) {                                                                 \
    for (int i = 0; i < r->rows; ++i)                                                                                  \
      name##_row_f64((double *)(void *)(r->dx + i * r->dx_pitch),                                                      \
                     (const double *)(const void *)(r->dy + i * r->dy_pitch),                                          \
                     (const double *)(const void *)(r->y + i * r->y_pitch), r->n);                                     \
  }
BACK_F64(softmax_back)
BACK_F64(log_softmax_back)

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
