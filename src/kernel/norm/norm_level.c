/* SPDX-License-Identifier: Apache-2.0 */
/* Implementation of norm_loops.h for one instruction set level (engine/level.h). */
#include "kernel/norm/norm_loops.h"

#include "kernel/engine/level.h"
#include "kernel/norm/vec.h"
#include "kernel/norm/vec_stored.h"

enum { CHUNK = 4096 }; /* floats that stay in L1 between two passes */

/* ---- moments ----------------------------------------------------------------------------------------------------- */

VEC_INLINE vec square_term(const vec_loop *l, int64_t i, int64_t n) {
  const vec x = vec_get(l->x + i, n, (vec){0});
  return x * x;
}

typedef struct {
  float first, second;
} two_sums;

/* Sums of x - p and of its square over elements begin to end. */
VEC_INLINE two_sums distances(const void *x, int dtype, float p, int64_t begin, int64_t end) {
  const vec mean = vec_of(p);
  vec a = {0}, b = {0}, aa = {0}, bb = {0};
  int64_t i = begin;
  for (; i + 2 * VEC <= end; i += 2 * VEC) {
    vec read[2];
    vec_read_two(x, dtype, i, read);
    const vec u = read[0] - mean, v = read[1] - mean;
    a += u;
    b += v;
    aa = vec_fma(u, u, aa);
    bb = vec_fma(v, v, bb);
  }
  for (; i < end; i += VEC) {
    const vec u = (i + VEC <= end ? vec_read(x, dtype, i, VEC) : vec_read_part(x, dtype, i, end - i, mean)) - mean;
    a += u;
    aa = vec_fma(u, u, aa);
  }
  return (two_sums){vec_sum(a + b), vec_sum(aa + bb)};
}

/* Computes moments from the distances to a guess at the mean; the sum of the distances corrects both results for the
 * error of the guess. */
VEC_INLINE norm_moments moments_about(const void *x, int dtype, float guess, int64_t begin, int64_t end) {
  const double n = (double)(end - begin), share = 1 / n; /* the division overlaps with the summation */
  double first = 0, second = 0;
  for (int64_t i = begin; i < end; i += SUM_BLOCK) {
    const two_sums s = distances(x, dtype, guess, i, end - i < SUM_BLOCK ? end : i + SUM_BLOCK);
    first += s.first;
    second += s.second;
  }
  const double shift = first * share, m2 = second - first * shift;
  return (norm_moments){.n = n, .mean = guess + shift, .m2 = m2 < 0 ? 0 : m2};
}

/* n > 0. The first element is taken as a guess of the mean. Usually it is within a few standard deviations. If it was
 * off by more than two, which would cost more than two bits, the moments are computed again with the mean that was
 * found as the guess. */
VEC_INLINE norm_moments chunk_moments(const void *x, int dtype, int64_t begin, int64_t end) {
  float guess = vec_read(x, dtype, begin, 1)[0];
  for (bool again = false;; again = true) {
    const norm_moments m = moments_about(x, dtype, guess, begin, end);
    const double off = m.mean - (double)guess;
    if (again || off * off * m.n <= 4 * m.m2) return m;
    guess = (float)m.mean;
  }
}

VEC_INLINE norm_moments row_moments(const void *x, int dtype, int64_t n) {
  norm_moments row = chunk_moments(x, dtype, 0, n < CHUNK ? n : CHUNK);
  for (int64_t i = CHUNK; i < n; i += CHUNK)
    row = norm_moments_join(row, chunk_moments(x, dtype, i, n - i < CHUNK ? n : i + CHUNK));
  return row;
}

static norm_moments moments(const void *x, int dtype, int64_t n) {
#define MOMENTS(dtype) row_moments(x, dtype, n)
  return OF_DTYPE(MOMENTS, dtype);
}

static double squares(const float *x, int64_t n) { return vec_sum_terms(square_term, &(vec_loop){.x = x}, n); }

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Parameters for (x - mean) * rstd: p is the mean as a float, r its remainder times -rstd, and q is rstd. */
static vec_loop normalising(void *y, const void *x, norm_stats s) {
  const float high = (float)s.mean;
  return (vec_loop){
      .x = x, .out = y, .p = vec_of(high), .q = vec_of((float)s.rstd), .r = vec_of((float)((high - s.mean) * s.rstd))};
}

VEC_INLINE vec xhat(const vec_loop *l, int dtype, int64_t i, int64_t n) {
  return vec_fma(vec_read(l->x, dtype, i, n) - l->p, l->q, l->r);
}

VEC_INLINE vec apply_value(const vec_loop *l, int64_t i, int64_t n) { return xhat(l, l->dtype, i, n); }

VEC_INLINE vec apply_gamma_value(const vec_loop *l, int64_t i, int64_t n) {
  return xhat(l, l->dtype, i, n) * vec_get(l->y + i, n, (vec){0});
}

VEC_INLINE vec apply_beta_value(const vec_loop *l, int64_t i, int64_t n) {
  return xhat(l, l->dtype, i, n) + vec_get(l->z + i, n, (vec){0});
}

VEC_INLINE vec apply_both_value(const vec_loop *l, int64_t i, int64_t n) {
  const vec gamma = vec_get(l->y + i, n, (vec){0}), beta = vec_get(l->z + i, n, (vec){0});
  return vec_fma(xhat(l, l->dtype, i, n), gamma, beta);
}

/* Instantiates a loop for each dtype of x and out. */
VEC_INLINE void each_as_stored(vec_value *value, vec_loop l, int dtype, int64_t n) {
  l.dtype = dtype;
  vec_each_stored(value, &l, dtype, n);
}

static void norm_apply(void *y, const void *x, int dtype, norm_stats s, const float *gamma, const float *beta,
                       int64_t n) {
  vec_loop l = normalising(y, x, s);
  l.y = gamma;
  l.z = beta;
#define APPLY_PLAIN(dtype) each_as_stored(apply_value, l, dtype, n)
#define APPLY_GAMMA(dtype) each_as_stored(apply_gamma_value, l, dtype, n)
#define APPLY_BETA(dtype)  each_as_stored(apply_beta_value, l, dtype, n)
#define APPLY_BOTH(dtype)  each_as_stored(apply_both_value, l, dtype, n)
  if (gamma && beta)
    OF_DTYPE(APPLY_BOTH, dtype);
  else if (gamma)
    OF_DTYPE(APPLY_GAMMA, dtype);
  else if (beta)
    OF_DTYPE(APPLY_BETA, dtype);
  else
    OF_DTYPE(APPLY_PLAIN, dtype);
}

static void apply_one(void *y, const void *x, int dtype, norm_stats s, float gamma, float beta, int64_t n) {
  const float high = (float)s.mean;
  const double scale = s.rstd * (double)gamma;
  const vec_loop l = {.x = x,
                      .out = y,
                      .p = vec_of(high),
                      .q = vec_of((float)scale),
                      .r = vec_of((float)((high - s.mean) * scale + (double)beta))};
#define APPLY_ONE(dtype) each_as_stored(apply_value, l, dtype, n)
  OF_DTYPE(APPLY_ONE, dtype);
}

VEC_INLINE void scale_step(const vec_loop *l, int64_t i, int64_t n) {
  const vec x = vec_get(l->x + i, n, (vec){0}), gamma = vec_get(l->y + i, n, (vec){0});
  vec_put(l->out + i, x * l->q * (gamma + l->p), n);
}

VEC_INLINE void scale_one_step(const vec_loop *l, int64_t i, int64_t n) {
  vec_put(l->out + i, vec_get(l->x + i, n, (vec){0}) * l->q, n);
}

static void norm_scale(float *y, const float *x, double rstd, const float *gamma, float shift, int64_t n) {
  const vec_loop l = {.x = x, .y = gamma, .out = y, .q = vec_of((float)rstd), .p = vec_of(shift)};
  if (gamma)
    vec_each(scale_step, &l, n);
  else
    vec_each(scale_one_step, &l, n);
}

VEC_INLINE void add_two_step(const vec_loop *l, int64_t i, int64_t n) {
  vec_put(l->out + i, vec_fma(l->p, vec_get(l->y + i, n, (vec){0}), vec_get(l->x + i, n, (vec){0})), n);
}

VEC_INLINE void add_three_step(const vec_loop *l, int64_t i, int64_t n) {
  const vec two = vec_fma(l->p, vec_get(l->y + i, n, (vec){0}), vec_get(l->x + i, n, (vec){0}));
  vec_put(l->out + i, two + vec_get(l->z + i, n, (vec){0}), n);
}

static void norm_add(float *y, const float *a, float scale, const float *b, const float *c, int64_t n) {
  const vec_loop l = {.x = a, .y = b, .z = c, .out = y, .p = vec_of(scale)};
  if (c)
    vec_each(add_three_step, &l, n);
  else
    vec_each(add_two_step, &l, n);
}

VEC_INLINE void swish_step(const vec_loop *l, int64_t i, int64_t n) {
  const vec x = vec_get(l->x + i, n, (vec){0});
  vec_put(l->out + i, x / (1 + vec_exp(x * l->p)), n);
}

static void swish(float *y, const float *x, float scale, int64_t n) {
  vec_each(swish_step, &(vec_loop){.x = x, .out = y, .p = vec_of(-scale)}, n);
}

/* With s = 1 / (1 + exp(-scale x)), the derivative is s + x scale s (1 - s). */
VEC_INLINE void swish_back_step(const vec_loop *l, int64_t i, int64_t n) {
  const vec x = vec_get(l->x + i, n, (vec){0}), dy = vec_get(l->y + i, n, (vec){0});
  const vec s = 1 / (1 + vec_exp(x * l->p));
  vec_put(l->out + i, dy * s * (1 - x * l->p * (1 - s)), n);
}

static void swish_back(float *dx, const float *dy, const float *x, float scale, int64_t n) {
  vec_each(swish_back_step, &(vec_loop){.x = x, .y = dy, .out = dx, .p = vec_of(-scale)}, n);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Elements i to i + n of back_sums; dtype and has_gamma are constants after inlining. */
VEC_INLINE void back_term(const vec_loop *l, int dtype, bool has_gamma, float *dgamma, float *dbeta, int64_t i,
                          int64_t n, vec *sum, vec *product) {
  const vec dy = vec_read(l->y, dtype, i, n), normal = xhat(l, dtype, i, n);
  if (dgamma) vec_put(dgamma + i, vec_fma(dy, normal, vec_get(dgamma + i, n, (vec){0})), n);
  if (dbeta) vec_put(dbeta + i, vec_get(dbeta + i, n, (vec){0}) + dy, n);
  const vec g = has_gamma ? dy * vec_get(l->z + i, n, (vec){0}) : dy;
  *sum += g;
  *product = vec_fma(g, normal, *product);
}

/* One block: vectors alternate between two accumulators. */
VEC_INLINE two_sums back_block(const vec_loop *l, int dtype, bool has_gamma, float *dgamma, float *dbeta, int64_t begin,
                               int64_t end) {
  vec sum[2] = {{0}}, product[2] = {{0}};
  int64_t i = begin;
#define TERM(k, at, n) back_term(l, dtype, has_gamma, dgamma, dbeta, at, n, &sum[k], &product[k])
  for (; i + 2 * VEC <= end; i += 2 * VEC) {
    TERM(0, i, VEC);
    TERM(1, i + VEC, VEC);
  }
  if (i + VEC <= end) {
    TERM(0, i, VEC);
    if (i + VEC < end) TERM(1, i + VEC, end - i - VEC);
  } else if (i < end) {
    TERM(0, i, end - i);
  }
#undef TERM
  return (two_sums){vec_sum(sum[0] + sum[1]), vec_sum(product[0] + product[1])};
}

VEC_INLINE norm_sums back_blocks(const vec_loop *l, int dtype, bool has_gamma, float *dgamma, float *dbeta, int64_t n) {
  norm_sums row = {0};
  for (int64_t i = 0; i < n; i += SUM_BLOCK) {
    const two_sums b = back_block(l, dtype, has_gamma, dgamma, dbeta, i, n - i < SUM_BLOCK ? n : i + SUM_BLOCK);
    row.dy += b.first;
    row.dy_xhat += b.second;
  }
  return row;
}

static norm_sums back_sums(const void *dy, const void *x, int dtype, norm_stats s, const float *gamma, float *dgamma,
                           float *dbeta, int64_t n) {
  vec_loop l = normalising(NULL, x, s);
  l.y = dy;
  l.z = gamma;
#define BACK_SUMS_GAMMA(dtype) back_blocks(&l, dtype, true, dgamma, dbeta, n)
#define BACK_SUMS_PLAIN(dtype) back_blocks(&l, dtype, false, dgamma, dbeta, n)
  return gamma ? OF_DTYPE(BACK_SUMS_GAMMA, dtype) : OF_DTYPE(BACK_SUMS_PLAIN, dtype);
}

static norm_sums back_sums_one(const void *dy, const void *x, int dtype, norm_stats s, int64_t n) {
  vec_loop l = normalising(NULL, x, s);
  l.y = dy;
#define BACK_SUMS(dtype) back_blocks(&l, dtype, false, NULL, NULL, n)
  return OF_DTYPE(BACK_SUMS, dtype);
}

VEC_INLINE vec back_value(const vec_loop *l, int64_t i, int64_t n) {
  const vec g = vec_read(l->y, l->dtype, i, n) * vec_get(l->z + i, n, (vec){0});
  return (g - l->s - l->t * xhat(l, l->dtype, i, n)) * l->q;
}

static void back(void *dx, const void *dy, const void *x, int dtype, norm_stats s, const float *gamma, norm_sums mean,
                 int64_t n) {
  vec_loop l = normalising(dx, x, s);
  l.y = dy;
  l.z = gamma;
  l.s = vec_of((float)mean.dy);
  l.t = vec_of((float)mean.dy_xhat);
#define BACK(dtype) each_as_stored(back_value, l, dtype, n)
  OF_DTYPE(BACK, dtype);
}

VEC_INLINE vec back_one_value(const vec_loop *l, int64_t i, int64_t n) {
  const vec g = vec_read(l->y, l->dtype, i, n) * l->u;
  return (g - l->s - l->t * xhat(l, l->dtype, i, n)) * l->q;
}

static void back_one(void *dx, const void *dy, const void *x, int dtype, norm_stats s, float gamma, norm_sums mean,
                     int64_t n) {
  vec_loop l = normalising(dx, x, s);
  l.y = dy;
  l.s = vec_of((float)mean.dy);
  l.t = vec_of((float)mean.dy_xhat);
  l.u = vec_of(gamma);
#define BACK_ONE(dtype) each_as_stored(back_one_value, l, dtype, n)
  OF_DTYPE(BACK_ONE, dtype);
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

/* As many doubles as a register holds: half the number of floats. */
typedef double dvec __attribute__((vector_size(VEC * sizeof(float))));
typedef double dvec_anywhere __attribute__((vector_size(VEC * sizeof(float)), aligned(sizeof(double)), may_alias));

enum { DVEC = VEC / 2 };

VEC_INLINE dvec low_half(vec v) {
#if defined(__AVX512F__)
  return (dvec)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)v));
#elif defined(__AVX2__)
  return (dvec)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)v));
#else
  return (dvec){v[0], v[1]};
#endif
}

VEC_INLINE dvec high_half(vec v) {
#if defined(__AVX512F__)
  return (dvec)_mm512_cvtps_pd(_mm256_castpd_ps(_mm512_extractf64x4_pd((__m512d)v, 1)));
#elif defined(__AVX2__)
  return (dvec)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)v, 1));
#else
  return (dvec){v[2], v[3]};
#endif
}

VEC_INLINE dvec dvec_fma(dvec a, dvec b, dvec c) {
#if defined(__AVX512F__)
  return (dvec)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__)
  return (dvec)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
  return a * b + c;
#endif
}

/* Loads the first n elements; n may be at least DVEC, then all are loaded. */
VEC_INLINE dvec dvec_get(const double *p, int64_t n) {
  if (n >= DVEC) return *(const dvec_anywhere *)p;
  dvec v = {0};
  for (int64_t k = 0; k < n; ++k) v[k] = p[k];
  return v;
}

VEC_INLINE void dvec_put(double *p, dvec v, int64_t n) {
  if (n >= DVEC)
    *(dvec_anywhere *)p = v;
  else
    for (int64_t k = 0; k < n; ++k) p[k] = v[k];
}

enum { STRIP = 2 }; /* vectors: a cache line of 16-bit values */

/* Loads `vectors` vectors, 1 or STRIP; a single one has n elements. */
VEC_INLINE void vec_read_strip(const char *row, int dtype, int64_t j, int vectors, int64_t n, vec x[STRIP]) {
  if (vectors == STRIP)
    vec_read_two(row, dtype, j, x);
  else
    x[0] = vec_read(row, dtype, j, n);
}

/* Prefetches a row. Its neighbours are read in between, so the hardware prefetcher does not recognise the stream. */
VEC_INLINE void fetch_strips(const char *row, int dtype, int64_t j) {
  enum { AHEAD = 4 * STRIP * VEC };
  const int64_t size = dtype == ACL_FLOAT ? 4 : 2;
  for (int64_t b = 0; b < STRIP * VEC * size; b += 64) __builtin_prefetch(row + (j + AHEAD) * size + b);
}

/* Processes `vectors` vectors of columns from j on; a single one has n columns. Sums are in double, since the values
 * may be far from the point that distances are measured from. */
VEC_INLINE void column_strip(const norm_columns *c, double *first, double *second, const float *about, int64_t j,
                             int dtype, bool own, int vectors, int64_t n) {
  dvec point[2 * STRIP], sum[2 * STRIP], product[2 * STRIP];
  for (int v = 0; v < vectors; ++v) {
    const vec p = vec_get(about + j + v * VEC, n, (vec){0});
    point[2 * v] = low_half(p);
    point[2 * v + 1] = high_half(p);
  }
  for (int h = 0; h < 2 * vectors; ++h) {
    sum[h] = dvec_get(first + j + h * DVEC, n - h % 2 * DVEC);
    product[h] = dvec_get(second + j + h * DVEC, n - h % 2 * DVEC);
  }
  for (int i = 0; i < c->rows; ++i) {
    vec x[STRIP], dy[STRIP];
    fetch_strips(c->x + i * c->x_pitch, dtype, j);
    if (!own) fetch_strips(c->dy + i * c->dy_pitch, dtype, j);
    vec_read_strip(c->x + i * c->x_pitch, dtype, j, vectors, n, x);
    if (!own) vec_read_strip(c->dy + i * c->dy_pitch, dtype, j, vectors, n, dy);
    for (int v = 0; v < vectors; ++v) {
      const dvec low = low_half(x[v]) - point[2 * v], high = high_half(x[v]) - point[2 * v + 1];
      const dvec g_low = own ? low : low_half(dy[v]), g_high = own ? high : high_half(dy[v]);
      sum[2 * v] += g_low;
      sum[2 * v + 1] += g_high;
      product[2 * v] = dvec_fma(g_low, low, product[2 * v]);
      product[2 * v + 1] = dvec_fma(g_high, high, product[2 * v + 1]);
    }
  }
  for (int h = 0; h < 2 * vectors; ++h) {
    dvec_put(first + j + h * DVEC, sum[h], n - h % 2 * DVEC);
    dvec_put(second + j + h * DVEC, product[h], n - h % 2 * DVEC);
  }
}

VEC_INLINE void column_strips(const norm_columns *c, double *first, double *second, const float *about, int dtype,
                              bool own) {
  int64_t j = 0;
  for (; j + STRIP * VEC <= c->n; j += STRIP * VEC) column_strip(c, first, second, about, j, dtype, own, STRIP, VEC);
  for (; j + VEC <= c->n; j += VEC) column_strip(c, first, second, about, j, dtype, own, 1, VEC);
  if (j < c->n) column_strip(c, first, second, about, j, dtype, own, 1, c->n - j);
}

/* The rows of a block of columns from `begin` on, at most `most`. */
static norm_columns columns_piece(const norm_columns *c, int begin, int most) {
  norm_columns piece = *c;
  piece.x += begin * c->x_pitch;
  if (c->dy) piece.dy += begin * c->dy_pitch;
  if (c->y) piece.y += begin * c->y_pitch;
  piece.rows = c->rows - begin < most ? c->rows - begin : most;
  return piece;
}

static void column_sums(const norm_columns *c, double *first, double *second, const float *about) {
#define SUMS_OWN(dtype)   column_strips(&piece, first, second, about, dtype, true)
#define SUMS_OF_DY(dtype) column_strips(&piece, first, second, about, dtype, false)
  /* rows whose cache lines are read together: 8 rows of floats that are 4 KiB apart fill a set of L1 */
  const int most = c->dtype == ACL_FLOAT ? 8 : 16;
  for (int begin = 0; begin < c->rows; begin += most) {
    const norm_columns piece = columns_piece(c, begin, most);
    c->dy ? OF_DTYPE(SUMS_OF_DY, c->dtype) : OF_DTYPE(SUMS_OWN, c->dtype);
  }
}

enum { APPLY_COLUMNS = 1024 }; /* columns whose factors stay in L1 while all rows are processed */

/* Coefficients of each column; see column_apply. */
typedef struct {
  const float *about, *scale, *shift, *dy_scale;
} column_factors;

/* Processes `vectors` vectors of row i from column j on; a single one has n columns. */
VEC_INLINE void apply_strip(const norm_columns *c, const column_factors *f, int i, int64_t j, int dtype, bool has_dy,
                            int vectors, int64_t n) {
  vec x[STRIP], dy[STRIP] = {{0}};
  vec_read_strip(c->x + i * c->x_pitch, dtype, j, vectors, n, x);
  if (has_dy) vec_read_strip(c->dy + i * c->dy_pitch, dtype, j, vectors, n, dy);
  for (int v = 0; v < vectors; ++v) {
    const int64_t at = j + v * VEC;
    const vec from = x[v] - vec_get(f->about + at, n, (vec){0});
    x[v] = vec_fma(from, vec_get(f->scale + at, n, (vec){0}), vec_get(f->shift + at, n, (vec){0}));
    if (has_dy) x[v] = vec_fma(dy[v], vec_get(f->dy_scale + at, n, (vec){0}), x[v]);
  }
  if (vectors == STRIP)
    vec_write_two(c->y + i * c->y_pitch, dtype, j, x[0], x[1]);
  else
    vec_write(c->y + i * c->y_pitch, dtype, j, x[0], n);
}

VEC_INLINE void apply_rows(const norm_columns *c, const column_factors *f, int dtype, bool has_dy) {
  for (int64_t begin = 0, end; begin < c->n; begin = end) {
    end = c->n - begin < APPLY_COLUMNS ? c->n : begin + APPLY_COLUMNS;
    for (int i = 0; i < c->rows; ++i) {
      int64_t j = begin;
      for (; j + STRIP * VEC <= end; j += STRIP * VEC) apply_strip(c, f, i, j, dtype, has_dy, STRIP, VEC);
      if (j + VEC <= end) apply_strip(c, f, i, j, dtype, has_dy, 1, VEC), j += VEC;
      if (j < end) apply_strip(c, f, i, j, dtype, has_dy, 1, end - j);
    }
  }
}

static void column_apply(const norm_columns *c, const float *about, const float *scale, const float *shift,
                         const float *dy_scale) {
  const column_factors f = {.about = about, .scale = scale, .shift = shift, .dy_scale = dy_scale};
#define APPLY(dtype)         apply_rows(c, &f, dtype, false)
#define APPLY_WITH_DY(dtype) apply_rows(c, &f, dtype, true)
  c->dy ? OF_DTYPE(APPLY_WITH_DY, c->dtype) : OF_DTYPE(APPLY, c->dtype);
}

static void norm_flush(double *total, float *sum, int64_t n) {
  for (int64_t i = 0; i < n; ++i) total[i] += (double)sum[i];
  memset(sum, 0, (size_t)n * sizeof *sum);
}

const norm_loops LEVELED(norm_loops) = {
    .moments = moments,
    .squares = squares,
    .apply = norm_apply,
    .apply_one = apply_one,
    .scale = norm_scale,
    .add = norm_add,
    .swish = swish,
    .swish_back = swish_back,
    .back_sums = back_sums,
    .back_sums_one = back_sums_one,
    .back = back,
    .back_one = back_one,
    .column_sums = column_sums,
    .column_apply = column_apply,
    .flush = norm_flush,
};
