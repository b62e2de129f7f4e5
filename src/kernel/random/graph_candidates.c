/* SPDX-License-Identifier: Apache-2.0 */
/* UniformCandidateSampler and LogUniformCandidateSampler, which are called by name: classes below range_max, all as
 * likely, or class k with probability log((k + 2) / (k + 1)) / log(range_max + 1); and how often each of the true and
 * of the sampled classes is expected among them. unique: classes are drawn until num_sampled different ones are found,
 * whose expectation is the probability to be found in as many tries (TensorFlow's definition). */
#include <math.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/random/random.h"

typedef struct {
  random_key key;
  bool is_log, unique;
  int64_t n_true, n_sampled, range;
  int class_dtype;
  int64_t slots; /* a power of two, more than n_sampled */
  uint64_t seen; /* in scratch: int64_t[slots], a hash table of the classes found; -1: free */
} candidates_plan;

static int64_t draw_class(const candidates_plan *p, int64_t number) {
  uint32_t w[RANDOM_BLOCK_WORDS];
  random_level->words(w, p->key.seed, p->key.offset, (uint64_t)number, 1);
  const double unit = random_unit(w[0], w[1]);
  const int64_t k = (int64_t)(p->is_log ? exp(unit * log1p((double)p->range)) - 1 : unit * (double)p->range);
  return i64_min(k, p->range - 1); /* rounding may reach the end */
}

/* Whether a class is new. */
static bool candidates_add(const candidates_plan *p, int64_t *seen, int64_t class) {
  uint64_t at = (uint64_t) class * UINT64_C(0x9e3779b97f4a7c15) >> 32;
  for (;; ++at) {
    int64_t *const slot = &seen[at & (uint64_t)(p->slots - 1)];
    if (*slot == class) return false;
    if (*slot != -1) continue;
    *slot = class;
    return true;
  }
}

static float expected(const candidates_plan *p, int64_t class, int64_t tries) {
  double chance = 1 / (double)p->range;
  if (p->is_log) chance = log1p(1 / ((double)class + 1)) / log1p((double)p->range);
  const bool repeats = tries == p->n_sampled;
  return (float)(repeats ? chance * (double)tries : -expm1((double)tries * log1p(-chance)));
}

static status candidates_run(const executor *e, void *const *view, void *scratch) {
  const candidates_plan *p = PLAN(e, candidates_plan);
  const int64_t size = (int64_t)dtype_bytes(p->class_dtype);
  const char *true_classes = view[GRAPH_CANDIDATES_TRUE_CLASSES];
  char *sampled = view[GRAPH_CANDIDATES_SAMPLED_CANDIDATES];
  float *true_count = view[GRAPH_CANDIDATES_TRUE_EXPECTED_COUNT];
  float *sampled_count = view[GRAPH_CANDIDATES_SAMPLED_EXPECTED_COUNT];
  int64_t *seen = (int64_t *)(void *)((char *)scratch + p->seen), tries = 0, class;
  if (p->unique) memset(seen, 0xff, (size_t)p->slots * sizeof *seen);
  for (int64_t found = 0; found < p->n_sampled;) {
    class = draw_class(p, tries++);
    if (p->unique && !candidates_add(p, seen, class)) continue;
    loops->store[p->class_dtype][COMPUTE_I64](sampled + found++ * size, 0, &class, 1);
  }
  for (int64_t i = 0; i < p->n_true; ++i) {
    loops->load[p->class_dtype][COMPUTE_I64](&class, true_classes + i * size, 0, 1);
    true_count[i] = expected(p, class, tries);
  }
  for (int64_t i = 0; i < p->n_sampled; ++i) {
    loops->load[p->class_dtype][COMPUTE_I64](&class, sampled + i * size, 0, 1);
    sampled_count[i] = expected(p, class, tries);
  }
  return ST_OK;
}

status prepare_graph_candidates(executor *e, const graph_candidates_args *a) {
  const tensor *classes = a->true_classes;
  TRY(op_expect_dtype(classes, "true_classes", DTYPES_INDEX));
  TRY(op_expect_rank(classes, "true_classes", 2, 2));
  TRY(op_expect_dtype(a->sampled_candidates, "sampled_candidates", DTYPE_BIT(classes->dtype)));
  TRY(op_expect_dtype(a->true_expected_count, "true_expected_count", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_dtype(a->sampled_expected_count, "sampled_expected_count", DTYPE_BIT(ACL_FLOAT)));
  EXPECT(a->num_true == classes->dims[1], "num_true is %jd, expected %jd, the second dimension of true_classes",
         (intmax_t)a->num_true, (intmax_t)classes->dims[1]);
  EXPECT(a->range_max >= 1, "range_max is %jd, expected 1 or more", (intmax_t)a->range_max);
  const int64_t most = a->unique ? i64_min(a->range_max, INT32_MAX) : INT32_MAX;
  EXPECT(a->num_sampled >= 1 && a->num_sampled <= most, "num_sampled is %jd, expected 1 to %jd",
         (intmax_t)a->num_sampled, (intmax_t)most);
  TRY(op_expect_shape(a->sampled_candidates, "sampled_candidates", &a->num_sampled, 1));
  TRY(op_expect_shape(a->sampled_expected_count, "sampled_expected_count", &a->num_sampled, 1));
  TRY(op_expect_same_shape(a->true_expected_count, "true_expected_count", classes));
  candidates_plan *p = PLAN(e, candidates_plan);
  *p = (candidates_plan){.key = random_key_next(a->seed, a->seed2, 1),
                         .is_log = e->op->variant == GRAPH_CANDIDATES_LOG_UNIFORM,
                         .unique = a->unique,
                         .n_true = classes->n,
                         .n_sampled = a->num_sampled,
                         .range = a->range_max,
                         .class_dtype = classes->dtype,
                         .slots = 2};
  while (p->slots < 2 * p->n_sampled) p->slots *= 2;
  p->seen = workspace_intermediate(e, a->unique ? (uint64_t)p->slots * sizeof(int64_t) : 0);
  executor_cost(e, (uint64_t)(classes->n + p->n_sampled) * 16, (uint64_t)(classes->n + p->n_sampled) * 128);
  e->run = candidates_run;
  return ST_OK;
}
