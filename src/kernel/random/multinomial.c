/* SPDX-License-Identifier: Apache-2.0 */
/* Multinomial: category numbers, drawn by weight. Randperm: the numbers 0 to n - 1 in random order. Both also by
 * name. */
#include <math.h>

#include "kernel/engine/walk.h"
#include "kernel/random/random.h"

enum { MOST_CATEGORIES = 1 << 24 };

typedef struct {
  walk rows; /* operand 0: weights, 1: output; one element a row */
  random_key key;
  int64_t n_categories, n_samples;
  int64_t weight_step, out_step; /* bytes */
  int8_t out_operand;
  bool replacement, of_logits; /* of_logits: weights are given by their logarithms */
  load_loop *load;
  store_loop *store;
  uint64_t sums; /* in scratch: double[n_categories] */
  uint64_t heap; /* in scratch, without replacement: candidate[n_samples] */
} multinomial_plan;

/* The random number in [0, 1) with this index in a row. */
static double multinomial_unit_of(const random_key *key, int64_t number) {
  uint32_t words[RANDOM_BLOCK_WORDS];
  random_level->words(words, key->seed, key->offset, (uint64_t)number, 1);
  return random_unit(words[0], words[1]);
}

/* Replaces logarithms by weights relative to the largest. */
static void multinomial_weigh(double *x, int64_t n) {
  double most = -INFINITY;
  for (int64_t k = 0; k < n; ++k) most = x[k] > most ? x[k] : most;
  for (int64_t k = 0; k < n; ++k) x[k] = exp(x[k] - most);
}

/* Loads the weights as double; fails if one is no valid weight. */
static status multinomial_load_weights(const multinomial_plan *p, int64_t row, const char *from, double *to) {
  p->load(to, from, p->weight_step, p->n_categories);
  if (p->of_logits) multinomial_weigh(to, p->n_categories);
  for (int64_t k = 0; k < p->n_categories; ++k)
    if (!(to[k] >= 0 && to[k] < INFINITY))
      return fail(ST_DEVICE_EXCEPTION, "self[%jd, %jd] is %g, expected a finite number, 0 or more", (intmax_t)row,
                  (intmax_t)k, to[k]);
  return ST_OK;
}

/* ---- with replacement: the position of a uniform number among the running sums ----------------------------------- */

static status draw_row(const multinomial_plan *p, const random_key *key, int64_t row, double *sums, char *out) {
  for (int64_t k = 1; k < p->n_categories; ++k) sums[k] += sums[k - 1];
  const double total = sums[p->n_categories - 1];
  if (!(total > 0))
    return fail(ST_DEVICE_EXCEPTION, "row %jd of self is all 0, expected a weight above", (intmax_t)row);
  for (int64_t i = 0; i < p->n_samples; ++i) {
    const double x = multinomial_unit_of(key, row * p->n_samples + i) * total;
    /* searches the first running sum above x; rounding cannot exceed the last */
    int64_t low = 0, high = p->n_categories - 1;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (sums[middle] > x)
        high = middle;
      else
        low = middle + 1;
    }
    while (low > 0 && sums[low] == sums[low - 1]) --low; /* only if x was rounded up to the total */
    p->store(out + i * p->out_step, 0, &low, 1);
  }
  return ST_OK;
}

/* ---- without replacement ----------------------------------------------------------------------------------------- */

/* Each category waits an exponentially distributed time with its weight as rate; the earliest are drawn, in order. */

/* Efraimidis, Spirakis: Weighted random sampling with a reservoir. 2006. */
typedef struct {
  double time;
  int64_t category;
} candidate;

static bool later(const candidate *a, const candidate *b) {
  return a->time > b->time || (a->time == b->time && a->category > b->category);
}

/* Restores the heap's order; the candidate with the latest time is heap[0]. */
static void sift_down(candidate *heap, int64_t n, int64_t at) {
  const candidate moved = heap[at];
  for (int64_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && later(&heap[child + 1], &heap[child])) ++child;
    if (!later(&heap[child], &moved)) break;
    heap[at] = heap[child];
  }
  heap[at] = moved;
}

static status draw_row_once(const multinomial_plan *p, const random_key *key, int64_t row, const double *weights,
                            candidate *heap, char *out) {
  int64_t n = 0;
  for (int64_t k = 0; k < p->n_categories; ++k) {
    if (weights[k] == 0) continue;
    const candidate c = {-log(1 - multinomial_unit_of(key, row * p->n_categories + k)) / weights[k], k};
    if (n < p->n_samples) {
      heap[n++] = c;
      if (n == p->n_samples)
        for (int64_t i = n / 2 - 1; i >= 0; --i) sift_down(heap, n, i);
    } else if (later(&heap[0], &c)) {
      heap[0] = c;
      sift_down(heap, n, 0);
    }
  }
  if (n < p->n_samples)
    return fail(ST_DEVICE_EXCEPTION, "row %jd of self has %jd weights above 0, expected numsamples, %jd, or more",
                (intmax_t)row, (intmax_t)n, (intmax_t)p->n_samples);
  for (int64_t i = n - 1; i >= 0; --i) { /* the latest one is stored last */
    p->store(out + i * p->out_step, 0, &heap[0].category, 1);
    heap[0] = heap[i];
    sift_down(heap, i, 0);
  }
  return ST_OK;
}

static status run_multinomial(const executor *e, void *const *view, void *scratch) {
  const multinomial_plan *p = PLAN(e, multinomial_plan);
  const random_key key = random_key_at_run(&p->key, view);
  double *sums = (double *)(void *)((char *)scratch + p->sums);
  candidate *heap = (candidate *)(void *)((char *)scratch + p->heap);
  if (p->rows.n == 0) return ST_OK;
  cursor c;
  cursor_start(&c, &p->rows, (void *const[]){view[MULTINOMIAL_SELF], view[p->out_operand]}, 0);
  for (int64_t row = 0; row < p->rows.n; ++row, cursor_next(&c, 1)) {
    TRY(multinomial_load_weights(p, row, c.at[0], sums));
    TRY(p->replacement ? draw_row(p, &key, row, sums, c.at[1]) : draw_row_once(p, &key, row, sums, heap, c.at[1]));
  }
  return ST_OK;
}

/* The key is the caller's. */
static status plan_multinomial(executor *e, const multinomial_args *a) {
  const tensor *self = a->self, *out = a->out;
  multinomial_plan *p = PLAN(e, multinomial_plan);
  p->of_logits = false;
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT));
  TRY(op_expect_rank(self, "self", 1, 2));
  p->n_samples = a->numsamples;
  p->n_categories = self->dims[self->rank - 1];
  p->replacement = a->replacement;
  EXPECT(p->n_samples > 0, "numsamples is %jd, expected 1 or more", (intmax_t)p->n_samples);
  EXPECT(p->n_categories > 0 && p->n_categories <= MOST_CATEGORIES, "self has %jd categories, expected 1 to %d",
         (intmax_t)p->n_categories, MOST_CATEGORIES);
  EXPECT(p->replacement || p->n_samples <= p->n_categories,
         "numsamples is %jd, expected at most the %jd categories of self, as replacement is false",
         (intmax_t)p->n_samples, (intmax_t)p->n_categories);
  TRY(op_expect_shape(out, "out", (int64_t[]){self->rank == 2 ? self->dims[0] : p->n_samples, p->n_samples},
                      self->rank));
  const view from = view_of(self), to = view_of(out);
  walk_init(&p->rows, (const view *const[]){&from, &to}, 2, self->rank - 1);
  p->weight_step = from.strides[from.rank - 1];
  p->out_step = to.strides[to.rank - 1];
  p->out_operand = (int8_t)a->view.out;
  p->store = loops->store[out->dtype][COMPUTE_I64];
  p->load = loops->load[self->dtype][COMPUTE_F64];
  p->sums = workspace_intermediate(e, (uint64_t)p->n_categories * sizeof(double));
  p->heap = p->replacement ? 0 : workspace_intermediate(e, (uint64_t)p->n_samples * sizeof(candidate));
  e->run = run_multinomial;
  executor_cost(e, (uint64_t)self->n * dtype_bytes(self->dtype), (uint64_t)(self->n + out->n) * 1024);
  return ST_OK;
}

status prepare_multinomial(executor *e, const multinomial_args *a) {
  TRY(op_expect_dtype(a->out, "out", DTYPE_BIT(ACL_INT64)));
  TRY(plan_multinomial(e, a));
  return random_key_plan(&PLAN(e, multinomial_plan)->key, a->seed, a->offset, a->seed_tensor, a->offset_tensor,
                         MULTINOMIAL_SEED_TENSOR);
}

/* By name: with replacement, of weights or of their logarithms. */
status prepare_graph_multinomial(executor *e, const graph_multinomial_args *a) {
  const uint64_t blocks = (uint64_t)a->y->n; /* one for each sample */
  multinomial_args of = {.self = a->logits, .out = a->y, .replacement = true, .view.out = GRAPH_MULTINOMIAL_Y};
  TRY(op_expect_size(a->num_samples->size, "num_samples", 1));
  of.numsamples = a->num_samples->value[0];
  TRY(op_expect_dtype(a->y, "y", DTYPES_INDEX));
  TRY(plan_multinomial(e, &of));
  multinomial_plan *p = PLAN(e, multinomial_plan);
  p->of_logits = e->op->variant == GRAPH_MULTINOMIAL_OF_LOGITS;
  p->key = random_key_next(a->seed_int, a->seed2, blocks);
  return ST_OK;
}

/* ---- Randperm: Fisher and Yates, from the front ------------------------------------------------------------------ */

typedef struct {
  random_key key;
  int64_t n, step;     /* step in bytes */
  int64_t n_pads, pad; /* what stands behind the numbers */
  int8_t out_operand;
  store_loop *store;
  uint64_t numbers; /* in scratch: int64_t[n] */
} randperm_plan;

static status run_randperm(const executor *e, void *const *view, void *scratch) {
  const randperm_plan *p = PLAN(e, randperm_plan);
  int64_t *x = (int64_t *)(void *)((char *)scratch + p->numbers);
  uint32_t words[RANDOM_TILE];
  for (int64_t i = 0; i < p->n; ++i) {
    const int64_t at = i * 2 % RANDOM_TILE;
    if (at == 0)
      random_level->words(words, p->key.seed, p->key.offset, (uint64_t)i * 2 / RANDOM_BLOCK_WORDS,
                          RANDOM_TILE / RANDOM_BLOCK_WORDS);
    const uint64_t word = (uint64_t)words[at + 1] << 32 | words[at];
    const int64_t j = (int64_t)(((unsigned __int128)word * (uint64_t)(i + 1)) >> 64); /* 0 to i */
    x[i] = x[j];
    x[j] = i;
  }
  char *to = view[p->out_operand];
  if (p->n) p->store(to, p->step, x, p->n);
  for (int64_t i = p->n; i < p->n + p->n_pads; ++i) p->store(to + i * p->step, 0, &p->pad, 1);
  return ST_OK;
}

/* out has n numbers, and then pads. */
static status plan_randperm(executor *e, int64_t n, random_key key, const tensor *out, int operand) {
  randperm_plan *p = PLAN(e, randperm_plan);
  const view v = view_of(out);
  *p = (randperm_plan){.key = key,
                       .n = n,
                       .step = v.strides[0],
                       .n_pads = out->n - n,
                       .out_operand = (int8_t)operand,
                       .store = loops->store[out->dtype][COMPUTE_I64],
                       .numbers = workspace_intermediate(e, (uint64_t)n * sizeof(int64_t))};
  e->run = run_randperm;
  executor_cost(e, (uint64_t)out->n * 16, (uint64_t)out->n * 128);
  return ST_OK;
}

status prepare_randperm(executor *e, const randperm_args *a) {
  const tensor *out = a->out;
  TRY(op_expect_dtype(out, "out", DTYPES_REAL & ~DTYPE_BIT(ACL_BOOL)));
  EXPECT(a->n >= 0, "n is %jd, expected 0 or more", (intmax_t)a->n);
  TRY(op_expect_shape(out, "out", &a->n, 1));
  return plan_randperm(e, a->n, random_key_of(a->seed, a->offset), out, RANDPERM_OUT);
}

/* By name. Randperm draws other numbers in each call and pads them to max_length; StatelessRandperm has seed and offset
 * of the caller, and no max_length. */
status prepare_graph_randperm(executor *e, const graph_randperm_args *a) {
  const tensor *out = a->output;
  TRY(op_expect_dtype(out, "output", DTYPES_REAL & ~DTYPE_BIT(ACL_BOOL)));
  TRY(op_expect_size(a->n->size, "n", 1));
  const int64_t n = a->n->value[0], length = a->seed ? n : a->max_length;
  EXPECT(n >= 0 && n <= length, "n is %jd, expected 0 to %jd", (intmax_t)n, (intmax_t)(a->seed ? INT64_MAX : length));
  TRY(op_expect_shape(out, "output", &length, 1));
  if (!a->seed) {
    TRY(plan_randperm(e, n, random_key_next(0, 0, (uint64_t)n), out, GRAPH_RANDPERM_OUTPUT));
    PLAN(e, randperm_plan)->pad = a->pad;
    return ST_OK;
  }
  TRY(op_expect_size(a->seed->size, "seed", 1));
  TRY(op_expect_size(a->offset->size, "offset", 1));
  return plan_randperm(e, n, random_key_of(a->seed->value[0], a->offset->value[0]), out, GRAPH_RANDPERM_OUTPUT);
}
