/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers of other distributions, by name: Gamma, Poisson, RandomPoisson, StandardLaplace, TruncatedNormal,
 * LogNormalReverse, Cauchy. Parameters are tensors that broadcast to the result, or attributes. Computed in double.
 *
 * A number may take several attempts. Each has its own blocks of the generator: number i's attempt t has those from
 * 2 i + 2^40 t on. So the numbers depend neither on threads nor on each other, for results of up to 2^39 numbers. */
#include <math.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/random/random.h"

enum { GRAIN = 256, ATTEMPT_SHIFT = 40, MOST_SHIFT = ATTEMPT_SHIFT - 1, PARAMETERS = 2 };

typedef struct {
  random_key key;
  int kind;
  walk at; /* operand 0: the result; then the parameters that are tensors */
  int n_parameters;
  int8_t operand[1 + PARAMETERS]; /* the executor's operands */
  load_loop *load[PARAMETERS];
  store_loop *store;
  double number[PARAMETERS]; /* parameters that are attributes */
} distribution_plan;

/* The random bits of an attempt: four numbers in [0, 1). */
typedef struct {
  double unit[4];
} attempt;

static attempt attempt_of(const random_key *key, int64_t i, uint64_t number) {
  uint32_t w[2 * RANDOM_BLOCK_WORDS];
  random_level->words(w, key->seed, key->offset, 2 * (uint64_t)i + (number << ATTEMPT_SHIFT), 2);
  attempt a;
  for (int k = 0; k < 4; ++k) a.unit[k] = random_unit(w[2 * k], w[2 * k + 1]);
  return a;
}

/* A standard normal number from the first two of an attempt's numbers (Box and Muller). */
static double normal_of(const attempt *a) { return sqrt(-2 * log(1 - a->unit[0])) * cos(2 * M_PI * a->unit[1]); }

/* Marsaglia, Tsang: A simple method for generating gamma variables. ACM TOMS 26, 2000. Shapes below 1 by that of
 * shape + 1, times the power 1 / shape of a uniform number. */
static double draw_gamma(const random_key *key, int64_t i, double shape, double scale) {
  if (!(shape > 0 && scale > 0 && shape < INFINITY)) return (double)NAN;
  const double d = (shape < 1 ? shape + 1 : shape) - 1. / 3, c = 1 / sqrt(9 * d);
  for (uint64_t t = 0;; ++t) {
    const attempt a = attempt_of(key, i, t);
    const double x = normal_of(&a), root = 1 + c * x, v = root * root * root;
    if (v <= 0 || log(1 - a.unit[2]) > 0.5 * x * x + d - d * v + d * log(v)) continue;
    const double boost = shape < 1 ? exp(log(1 - a.unit[3]) / shape) : 1;
    return d * v * boost * scale;
  }
}

/* Means below 10 by the running sums of the probabilities; others by Hoermann's method PTRS (The transformed rejection
 * method for generating Poisson random variables. Insurance: Mathematics and Economics 12, 1993). */
static double draw_poisson(const random_key *key, int64_t i, double mean) {
  if (!(mean >= 0 && mean < INFINITY)) return (double)NAN;
  if (mean < 10) {
    double left = attempt_of(key, i, 0).unit[0], k = 0;
    for (double p = exp(-mean); left >= p && k < 200; p *= mean / ++k) left -= p;
    return k;
  }
  const double b = 0.931 + 2.53 * sqrt(mean), a = -0.059 + 0.02483 * b, limit = 0.9277 - 3.6224 / (b - 2);
  const double inverse = 1.1239 + 1.1328 / (b - 3.4);
  for (uint64_t t = 0;; ++t) {
    const attempt from = attempt_of(key, i, t);
    const double u = from.unit[0] - 0.5, v = 1 - from.unit[1], us = 0.5 - fabs(u);
    const double k = floor((2 * a / us + b) * u + mean + 0.43);
    if (us >= 0.07 && v <= limit) return k;
    if (!(k >= 0) || (us < 0.013 && v > us)) continue;
    int sign;
    if (log(v * inverse / (a / (us * us) + b)) <= k * log(mean) - mean - lgamma_r(k + 1, &sign)) return k;
  }
}

static double draw_laplace(const random_key *key, int64_t i) {
  const attempt a = attempt_of(key, i, 0);
  return a.unit[1] < 0.5 ? log(1 - a.unit[0]) : -log(1 - a.unit[0]);
}

/* Numbers beyond two standard deviations are drawn again. */
static double draw_truncated(const random_key *key, int64_t i) {
  for (uint64_t t = 0;; ++t) {
    const attempt a = attempt_of(key, i, t);
    const double x = normal_of(&a);
    if (fabs(x) < 2) return x;
  }
}

static double draw(const distribution_plan *p, int64_t i, const double *parameter) {
  switch (p->kind) {
  case GRAPH_DISTRIBUTION_GAMMA: return draw_gamma(&p->key, i, parameter[0], parameter[1]);
  case GRAPH_DISTRIBUTION_POISSON:
  case GRAPH_DISTRIBUTION_POISSON_EACH: return draw_poisson(&p->key, i, parameter[0]);
  case GRAPH_DISTRIBUTION_LAPLACE: return draw_laplace(&p->key, i);
  case GRAPH_DISTRIBUTION_TRUNCATED_NORMAL: return draw_truncated(&p->key, i);
  case GRAPH_DISTRIBUTION_CAUCHY:
    return parameter[0] + parameter[1] * tan(M_PI * (attempt_of(&p->key, i, 0).unit[0] - 0.5));
  default: {
    const attempt a = attempt_of(&p->key, i, 0);
    return exp(parameter[0] + parameter[1] * normal_of(&a));
  }
  }
}

typedef struct {
  const distribution_plan *plan;
  void *const *at;
} distribution_job;

static void distribution_range(const void *arg, int64_t begin, int64_t end) {
  const distribution_job *j = arg;
  const distribution_plan *p = j->plan;
  const int last = p->at.rank - 1;
  double number[PARAMETERS] = {p->number[0], p->number[1]};
  cursor c;
  cursor_start(&c, &p->at, j->at, begin);
  for (int64_t i = begin, n; i < end; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, end - i);
    for (int64_t k = 0; k < n; ++k) {
      for (int q = 0; q < p->n_parameters; ++q)
        p->load[q](&number[q], c.at[1 + q] + k * p->at.strides[1 + q][last], 0, 1);
      const double value = draw(p, i + k, number);
      p->store(c.at[0] + k * p->at.strides[0][last], 0, &value, 1);
    }
  }
}

static status distribution_run(const executor *e, void *const *view, void *scratch) {
  const distribution_plan *p = PLAN(e, distribution_plan);
  void *at[1 + PARAMETERS];
  (void)scratch;
  for (int k = 0; k <= p->n_parameters; ++k) at[k] = view[p->operand[k]];
  const distribution_job job = {.plan = p, .at = at};
  if (p->at.n > 0) rows_parallel(distribution_range, &job, p->at.n, GRAIN, e->cost_ns);
  return ST_OK;
}

/* ---- phase one --------------------------------------------------------------------------------------------------- */

/* The result has the shape given, or that and behind it the parameter's. */
static status distribution_shape(const graph_distribution_args *a, int kind, const tensor *y) {
  int64_t dims[2 * MAX_RANK];
  uint64_t n = a->shape_ints->size;
  EXPECT(n <= MAX_RANK, "shape has %ju elements, expected up to %d", (uintmax_t)n, MAX_RANK);
  memcpy(dims, a->shape_ints->value, n * sizeof *dims);
  if (kind != GRAPH_DISTRIBUTION_POISSON_EACH) return op_expect_shape(y, a->name.y, dims, (int)n);
  for (int d = 0; d < a->mean_tensor->rank; ++d) dims[n++] = a->mean_tensor->dims[d];
  return op_expect_shape(y, a->name.y, dims, (int)n);
}

status prepare_graph_distribution(executor *e, const graph_distribution_args *a) {
  const tensor *y = a->y, *parameter[PARAMETERS] = {a->alpha ? a->alpha : a->mean_tensor, a->beta};
  const char *const name[PARAMETERS] = {a->alpha ? "alpha" : a->name.mean_tensor, "beta"};
  const int kind = e->op->variant;
  const bool counts = kind == GRAPH_DISTRIBUTION_POISSON || kind == GRAPH_DISTRIBUTION_POISSON_EACH;
  distribution_plan *p = PLAN(e, distribution_plan);
  *p = (distribution_plan){.key = random_key_next(a->seed_int, a->seed2_int, 1),
                           .kind = kind,
                           .operand = {(int8_t)a->view.y},
                           .store = loops->store[y->dtype][COMPUTE_F64],
                           .number = {a->mean_float, a->std}};
  TRY(op_expect_dtype(y, a->name.y, counts ? DTYPES_FLOAT | DTYPES_INDEX : DTYPES_FLOAT));
  EXPECT(y->n >> MOST_SHIFT == 0, "%s has %jd elements, expected fewer than 2^%d", a->name.y, (intmax_t)y->n,
         MOST_SHIFT);
  if (a->shape_ints) TRY(distribution_shape(a, kind, y));
  if (a->input) TRY(op_expect_same_shape(y, a->name.y, a->input));
  view v[1 + PARAMETERS] = {view_of(y)};
  const view *views[1 + PARAMETERS] = {&v[0]};
  const int operands[PARAMETERS] = {a->alpha ? GRAPH_DISTRIBUTION_ALPHA : a->view.mean_tensor, GRAPH_DISTRIBUTION_BETA};
  for (int k = 0; k < PARAMETERS && parameter[k]; ++k) {
    TRY(op_expect_dtype(parameter[k], name[k], DTYPES_FLOAT | DTYPES_INDEX));
    TRY(random_view_broadcast(parameter[k], name[k], y, &v[1 + k]));
    views[1 + k] = &v[1 + k];
    p->operand[1 + k] = (int8_t)operands[k];
    p->load[k] = loops->load[parameter[k]->dtype][COMPUTE_F64];
    ++p->n_parameters;
  }
  walk_init(&p->at, views, 1 + p->n_parameters, v[0].rank);
  executor_cost(e, (uint64_t)y->n * dtype_bytes(y->dtype), (uint64_t)y->n * 800);
  e->run = distribution_run;
  return ST_OK;
}
