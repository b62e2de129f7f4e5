/* The loops of norm_loops.h. */
#include "kernel/norm/norm_loops.h"

#include "kernel/engine/level.h"
#include "kernel/norm/vec.h"

enum { CHUNK = 4096 }; /* floats that stay in L1 between two passes */

/* ---- moments ----------------------------------------------------------------------------------------------------- */

VEC_INLINE vec square_term(const vec_loop *l, int64_t i, int64_t n) {
  const vec x = vec_get(l->x + i, n, (vec){0});
  return x * x;
}

typedef struct {
  float first, second;
} two_sums;

/* Sums of x - p and of its square. */
static two_sums distances(const float *x, float p, int64_t n) {
  const vec mean = vec_of(p);
  vec a = {0}, b = {0}, aa = {0}, bb = {0};
  int64_t i = 0;
  for (; i + 2 * VEC <= n; i += 2 * VEC) {
    const vec u = vec_load(x + i) - mean, v = vec_load(x + i + VEC) - mean;
    a += u;
    b += v;
    aa = vec_fma(u, u, aa);
    bb = vec_fma(v, v, bb);
  }
  for (; i < n; i += VEC) {
    const vec u = (i + VEC <= n ? vec_load(x + i) : vec_load_part(x + i, n - i, mean)) - mean;
    a += u;
    aa = vec_fma(u, u, aa);
  }
  return (two_sums){vec_sum(a + b), vec_sum(aa + bb)};
}

/* By the distances from a guess at the mean; their sum corrects both results for the guess. */
VEC_INLINE norm_moments moments_about(const float *x, float guess, int64_t n) {
  double first = 0, second = 0;
  for (int64_t i = 0; i < n; i += SUM_BLOCK) {
    const two_sums s = distances(x + i, guess, n - i < SUM_BLOCK ? n - i : SUM_BLOCK);
    first += s.first;
    second += s.second;
  }
  const double shift = first / (double)n, m2 = second - first * shift;
  return (norm_moments){.n = (double)n, .mean = guess + shift, .m2 = m2 < 0 ? 0 : m2};
}

/* n > 0. The first element is a guess within a few deviations of the mean, unless it is an unusual one: where the guess
 * was more than two deviations off, which would cost more than two bits, the mean that was found is the next guess. */
static norm_moments chunk_moments(const float *x, int64_t n) {
  const norm_moments m = moments_about(x, x[0], n);
  const double off = m.mean - (double)x[0];
  return off * off * m.n <= 4 * m.m2 ? m : moments_about(x, (float)m.mean, n);
}

static norm_moments moments(const float *x, int64_t n) {
  norm_moments row = chunk_moments(x, n < CHUNK ? n : CHUNK);
  for (int64_t i = CHUNK; i < n; i += CHUNK)
    row = norm_moments_join(row, chunk_moments(x + i, n - i < CHUNK ? n - i : CHUNK));
  return row;
}

static double squares(const float *x, int64_t n) { return vec_sum_terms(square_term, &(vec_loop){.x = x}, n); }

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* (x - mean) * rstd: the mean as a float, p, and what is left of it times -rstd, r; rstd is q. */
static vec_loop normalising(float *y, const float *x, norm_stats s) {
  const float high = (float)s.mean;
  return (vec_loop){
      .x = x, .out = y, .p = vec_of(high), .q = vec_of((float)s.rstd), .r = vec_of((float)((high - s.mean) * s.rstd))};
}

VEC_INLINE vec xhat(const vec_loop *l, const float *x, int64_t i, int64_t n) {
  return vec_fma(vec_get(x + i, n, (vec){0}) - l->p, l->q, l->r);
}

VEC_INLINE void apply_step(const vec_loop *l, int64_t i, int64_t n) { vec_put(l->out + i, xhat(l, l->x, i, n), n); }

VEC_INLINE void apply_gamma_step(const vec_loop *l, int64_t i, int64_t n) {
  vec_put(l->out + i, xhat(l, l->x, i, n) * vec_get(l->y + i, n, (vec){0}), n);
}

VEC_INLINE void apply_beta_step(const vec_loop *l, int64_t i, int64_t n) {
  vec_put(l->out + i, xhat(l, l->x, i, n) + vec_get(l->z + i, n, (vec){0}), n);
}

VEC_INLINE void apply_both_step(const vec_loop *l, int64_t i, int64_t n) {
  const vec gamma = vec_get(l->y + i, n, (vec){0}), beta = vec_get(l->z + i, n, (vec){0});
  vec_put(l->out + i, vec_fma(xhat(l, l->x, i, n), gamma, beta), n);
}

static void apply(float *y, const float *x, norm_stats s, const float *gamma, const float *beta, int64_t n) {
  vec_loop l = normalising(y, x, s);
  l.y = gamma;
  l.z = beta;
  if (gamma && beta)
    vec_each(apply_both_step, &l, n);
  else if (gamma)
    vec_each(apply_gamma_step, &l, n);
  else if (beta)
    vec_each(apply_beta_step, &l, n);
  else
    vec_each(apply_step, &l, n);
}

VEC_INLINE void apply_one_step(const vec_loop *l, int64_t i, int64_t n) {
  vec_put(l->out + i, vec_fma(xhat(l, l->x, i, n), l->s, l->t), n);
}

static void apply_one(float *y, const float *x, norm_stats s, float gamma, float beta, int64_t n) {
  vec_loop l = normalising(y, x, s);
  l.s = vec_of(gamma);
  l.t = vec_of(beta);
  vec_each(apply_one_step, &l, n);
}

VEC_INLINE void scale_step(const vec_loop *l, int64_t i, int64_t n) {
  const vec x = vec_get(l->x + i, n, (vec){0}), gamma = vec_get(l->y + i, n, (vec){0});
  vec_put(l->out + i, x * l->q * (gamma + l->p), n);
}

VEC_INLINE void scale_one_step(const vec_loop *l, int64_t i, int64_t n) {
  vec_put(l->out + i, vec_get(l->x + i, n, (vec){0}) * l->q, n);
}

static void scale(float *y, const float *x, double rstd, const float *gamma, float shift, int64_t n) {
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

static void add(float *y, const float *a, float scale, const float *b, const float *c, int64_t n) {
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

/* With s = 1 / (1 + exp(-scale x)): s + x scale s (1 - s). */
VEC_INLINE void swish_back_step(const vec_loop *l, int64_t i, int64_t n) {
  const vec x = vec_get(l->x + i, n, (vec){0}), dy = vec_get(l->y + i, n, (vec){0});
  const vec s = 1 / (1 + vec_exp(x * l->p));
  vec_put(l->out + i, dy * s * (1 - x * l->p * (1 - s)), n);
}

static void swish_back(float *dx, const float *dy, const float *x, float scale, int64_t n) {
  vec_each(swish_back_step, &(vec_loop){.x = x, .y = dy, .out = dx, .p = vec_of(-scale)}, n);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* One block of back_sums; has_... are constants where this is inlined. */
VEC_INLINE two_sums back_block(const vec_loop *l, bool has_gamma, float *dgamma, float *dbeta, int64_t begin,
                               int64_t end) {
  vec sum[2] = {{0}}, product[2] = {{0}};
  for (int64_t i = begin, k = 0; i < end; i += VEC, k ^= 1) {
    const int64_t n = end - i < VEC ? end - i : VEC;
    const vec dy = vec_get(l->y + i, n, (vec){0}), normal = xhat(l, l->x, i, n);
    if (dgamma) vec_put(dgamma + i, vec_fma(dy, normal, vec_get(dgamma + i, n, (vec){0})), n);
    if (dbeta) vec_put(dbeta + i, vec_get(dbeta + i, n, (vec){0}) + dy, n);
    const vec g = has_gamma ? dy * vec_get(l->z + i, n, (vec){0}) : dy;
    sum[k] += g;
    product[k] = vec_fma(g, normal, product[k]);
  }
  return (two_sums){vec_sum(sum[0] + sum[1]), vec_sum(product[0] + product[1])};
}

static norm_sums back_sums(const float *dy, const float *x, norm_stats s, const float *gamma, float *dgamma,
                           float *dbeta, int64_t n) {
  vec_loop l = normalising(NULL, x, s);
  l.y = dy;
  l.z = gamma;
  norm_sums row = {0};
  for (int64_t i = 0; i < n; i += SUM_BLOCK) {
    const int64_t end = n - i < SUM_BLOCK ? n : i + SUM_BLOCK;
    const two_sums b =
        gamma ? back_block(&l, true, dgamma, dbeta, i, end) : back_block(&l, false, dgamma, dbeta, i, end);
    row.dy += b.first;
    row.dy_xhat += b.second;
  }
  return row;
}

VEC_INLINE void back_step(const vec_loop *l, int64_t i, int64_t n) {
  const vec g = vec_get(l->y + i, n, (vec){0}) * vec_get(l->z + i, n, (vec){0});
  vec_put(l->out + i, (g - l->s - l->t * xhat(l, l->x, i, n)) * l->q, n);
}

static void back(float *dx, const float *dy, const float *x, norm_stats s, const float *gamma, norm_sums mean,
                 int64_t n) {
  vec_loop l = normalising(dx, x, s);
  l.y = dy;
  l.z = gamma;
  l.s = vec_of((float)mean.dy);
  l.t = vec_of((float)mean.dy_xhat);
  vec_each(back_step, &l, n);
}

VEC_INLINE void back_one_step(const vec_loop *l, int64_t i, int64_t n) {
  const vec g = vec_get(l->y + i, n, (vec){0}) * l->u;
  vec_put(l->out + i, (g - l->s - l->t * xhat(l, l->x, i, n)) * l->q, n);
}

static void back_one(float *dx, const float *dy, const float *x, norm_stats s, float gamma, norm_sums mean, int64_t n) {
  vec_loop l = normalising(dx, x, s);
  l.y = dy;
  l.s = vec_of((float)mean.dy);
  l.t = vec_of((float)mean.dy_xhat);
  l.u = vec_of(gamma);
  vec_each(back_one_step, &l, n);
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

typedef double dvec __attribute__((vector_size(VEC * sizeof(double))));

enum { COLUMN_ROWS = 16 }; /* whose lines are read together: no more streams than processors follow */

/* One vector of columns, in double: what is summed may be far from the point it is measured from. */
VEC_INLINE void column_strip(double *first, double *second, const float *dy, int64_t dy_pitch, const float *x,
                             int64_t x_pitch, int rows, const float *about, bool own, int64_t n) {
  const dvec point = __builtin_convertvector(vec_get(about, n, (vec){0}), dvec);
  dvec sum = {0}, product = {0};
  for (int i = 0; i < rows; ++i) {
    const dvec d = __builtin_convertvector(vec_get(x + i * x_pitch, n, (vec){0}), dvec) - point;
    const dvec g = own ? d : __builtin_convertvector(vec_get(dy + i * dy_pitch, n, (vec){0}), dvec);
    sum += g;
    product += g * d;
  }
  for (int64_t k = 0; k < n; ++k) {
    first[k] += sum[k];
    second[k] += product[k];
  }
}

static void column_sums(double *first, double *second, const float *dy, int64_t dy_pitch, const float *x,
                        int64_t x_pitch, int rows, const float *about, int64_t n) {
  dy_pitch /= (int64_t)sizeof *dy;
  x_pitch /= (int64_t)sizeof *x;
  for (int begin = 0; begin < rows; begin += COLUMN_ROWS) {
    const int m = rows - begin < COLUMN_ROWS ? rows - begin : COLUMN_ROWS;
    const float *const xs = x + begin * x_pitch, *const dys = dy ? dy + begin * dy_pitch : NULL;
    for (int64_t j = 0; j < n; j += VEC) {
      const int64_t left = n - j < VEC ? n - j : VEC;
      if (left < VEC)
        column_strip(first + j, second + j, dy ? dys + j : NULL, dy_pitch, xs + j, x_pitch, m, about + j, !dy, left);
      else if (dy)
        column_strip(first + j, second + j, dys + j, dy_pitch, xs + j, x_pitch, m, about + j, false, VEC);
      else
        column_strip(first + j, second + j, NULL, 0, xs + j, x_pitch, m, about + j, true, VEC);
    }
  }
}

static void column_apply(float *y, const float *x, const float *about, const float *scale, const float *shift,
                         const float *dy, const float *dy_scale, int64_t n) {
  for (int64_t i = 0; i < n; i += VEC) {
    const int64_t m = n - i < VEC ? n - i : VEC;
    const vec d = vec_get(x + i, m, (vec){0}) - vec_get(about + i, m, (vec){0});
    vec sum = vec_fma(d, vec_get(scale + i, m, (vec){0}), vec_get(shift + i, m, (vec){0}));
    if (dy) sum = vec_fma(vec_get(dy + i, m, (vec){0}), vec_get(dy_scale + i, m, (vec){0}), sum);
    vec_put(y + i, sum, m);
  }
}

static void flush(double *total, float *sum, int64_t n) {
  for (int64_t i = 0; i < n; ++i) total[i] += (double)sum[i];
  memset(sum, 0, (size_t)n * sizeof *sum);
}

const norm_loops LEVELED(norm_loops) = {
    .moments = moments,
    .squares = squares,
    .apply = apply,
    .apply_one = apply_one,
    .scale = scale,
    .add = add,
    .swish = swish,
    .swish_back = swish_back,
    .back_sums = back_sums,
    .back = back,
    .back_one = back_one,
    .column_sums = column_sums,
    .column_apply = column_apply,
    .flush = flush,
};
