/* SPDX-License-Identifier: Apache-2.0 */
/* NLLLoss, NLLLoss2d and their gradients: the weighted score of the target class at each position. A position is what
 * has a target: an element of the batch or, in two dimensions, of an image. Computed in double. */
#include "kernel/elementwise/fill.h"
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/loss/loss_reduction.h"
#include "kernel/loss/target.h"

enum {
  TILE = 256,       /* positions whose targets are read together */
  TABLE = 1024,     /* maximum number of classes whose weights are read in advance */
  CHUNK_MIN = 4096, /* positions; chunks' sums are added in order, whatever the number of threads */
  CHUNKS = 64       /* maximum number of chunks */
};

/* Operands of the walk over positions. */
enum { AT_TARGET, AT_SCORES, AT_RESULT, N_AT };

typedef struct {
  walk at; /* AT_SCORES: class 0 of self or, backward, of out. AT_RESULT: out or, backward, gradOutput */
  target_reader target;
  load_loop *load_weights, *load_gradient, *load_total;
  store_loop *store, *store_total;
  int64_t class_stride, weight_stride; /* bytes */
  int64_t chunk;                       /* positions in a chunk */
  bool mean;
  bool each;    /* forward: one result per position */
  int8_t dtype; /* forward: dtype of the scores */
  int64_t classes;
  view out; /* backward: out is zeroed first */
} nll_plan;

typedef struct {
  double loss, weight;
  bad_target bad;
} nll_chunk;

typedef struct {
  const nll_plan *plan;
  bool backward, has_table;
  void *at[N_AT];
  const char *weights;
  double table[TABLE]; /* weights of the classes */
  double divisor;      /* divisor of gradients */
  nll_chunk *chunks;
} nll_job;

/* Reads the weights into the table, if there are at least as many positions as classes. */
static void read_weights(nll_job *j, const void *weights) {
  const nll_plan *p = j->plan;
  j->weights = weights;
  j->has_table = p->classes <= TABLE && p->classes <= p->at.n;
  if (j->has_table) p->load_weights(j->table, weights, p->weight_stride, p->classes);
}

static double nll_weight_of(const nll_job *j, int64_t class) {
  if (j->has_table) return j->table[class];
  double w;
  j->plan->load_weights(&w, j->weights + class * j->plan->weight_stride, 0, 1);
  return w;
}

static double nll_score_at(int dtype, const char *at) {
  switch (dtype) {
  case ACL_FLOAT: return *(const float *)(const void *)at;
  case ACL_FLOAT16: return half_to_float(*(const uint16_t *)(const void *)at);
  case ACL_BF16: return bf16_to_float(*(const uint16_t *)(const void *)at);
  default: return *(const double *)(const void *)at;
  }
}

/* Adds the losses of n positions, up to TILE. Their scores of class 0 are score_stride bytes apart, their results
 * result_stride; class: of each position. Scattered loads and the dependent additions are in separate loops, so that
 * the loads overlap. */
static void add_losses(const nll_job *j, const char *scores, int64_t score_stride, char *result, int64_t result_stride,
                       const int64_t *class, int64_t n, nll_chunk *sums) {
  const nll_plan *p = j->plan;
  const int64_t class_stride = p->class_stride;
  double loss[TILE], weight[TILE];
  for (int64_t k = 0; k < n; ++k, scores += score_stride) {
    const bool has_class = class[k] != NO_CLASS;
    weight[k] = has_class ? nll_weight_of(j, class[k]) : 0;
    loss[k] = has_class ? -weight[k] * nll_score_at(p->dtype, scores + class[k] * class_stride) : 0;
  }
  for (int64_t k = 0; k < n; ++k) {
    sums->loss += loss[k];
    sums->weight += weight[k];
  }
  for (int64_t k = 0; p->each && k < n; ++k) p->store(result + k * result_stride, 0, &loss[k], 1);
}

/* Only the target class has a gradient other than 0. */
static void put_gradient(const nll_job *j, char *scores, const char *result, int64_t class) {
  const nll_plan *p = j->plan;
  double g;
  if (class == NO_CLASS) return;
  p->load_gradient(&g, result, 0, 1);
  g *= -nll_weight_of(j, class) / j->divisor;
  p->store(scores + class * p->class_stride, 0, &g, 1);
}

static void run_chunk(const nll_job *j, int64_t begin, int64_t end, nll_chunk *chunk) {
  const nll_plan *p = j->plan;
  const int last = p->at.rank - 1;
  const int64_t scores = p->at.strides[AT_SCORES][last], result = p->at.strides[AT_RESULT][last];
  int64_t class[TILE];
  cursor c;
  *chunk = (nll_chunk){.bad.place = -1};
  cursor_start(&c, &p->at, j->at, begin);
  for (int64_t i = begin, n; i < end; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, i64_min(TILE, end - i));
    if (!targets_read(&p->target, c.at[AT_TARGET], p->at.strides[AT_TARGET][last], i, n, class, &chunk->bad)) return;
    if (!j->backward) {
      add_losses(j, c.at[AT_SCORES], scores, c.at[AT_RESULT], result, class, n, chunk);
      continue;
    }
    for (int64_t k = 0; k < n; ++k)
      put_gradient(j, c.at[AT_SCORES] + k * scores, c.at[AT_RESULT] + k * result, class[k]);
  }
}

static void nll_run_chunks(const void *job, int64_t begin, int64_t end) {
  const nll_job *j = job;
  for (int64_t k = begin; k < end; ++k)
    run_chunk(j, k * j->plan->chunk, i64_min((k + 1) * j->plan->chunk, j->plan->at.n), &j->chunks[k]);
}

/* Runs all positions; *sum receives their sums. */
static status run_all(const nll_job *j, uint64_t cost_ns, nll_chunk *sum) {
  const nll_plan *p = j->plan;
  const int64_t n_chunks = (p->at.n + p->chunk - 1) / p->chunk;
  rows_parallel(nll_run_chunks, j, n_chunks, 1, cost_ns);
  *sum = (nll_chunk){0};
  for (int64_t k = 0; k < n_chunks; ++k) {
    if (j->chunks[k].bad.place >= 0) return target_fail(&p->target, &j->chunks[k].bad);
    sum->loss += j->chunks[k].loss;
    sum->weight += j->chunks[k].weight;
  }
  return ST_OK;
}

static status nll_loss_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const nll_plan *p = PLAN(e, nll_plan);
  nll_chunk chunks[CHUNKS], sum;
  nll_job job = {
      .plan = p,
      .at = {[AT_TARGET] = view[NLL_LOSS_TARGET], [AT_SCORES] = view[NLL_LOSS_SELF], [AT_RESULT] = view[NLL_LOSS_OUT]},
      .chunks = chunks};
  read_weights(&job, view[NLL_LOSS_WEIGHT]);
  TRY(run_all(&job, e->cost_ns, &sum));
  const double loss = p->mean ? sum.loss / sum.weight : sum.loss, total = p->each ? 0 : sum.weight;
  if (!p->each) p->store(view[NLL_LOSS_OUT], 0, &loss, 1);
  p->store_total(view[NLL_LOSS_TOTAL_WEIGHT_OUT], 0, &total,
                 1); /* 0 if there is one result per position, as in PyTorch */
  return ST_OK;
}

static status nll_loss_backward_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const nll_plan *p = PLAN(e, nll_plan);
  nll_chunk chunks[CHUNKS], sum;
  fill_plan zero;
  nll_job job = {.plan = p,
                 .backward = true,
                 .at = {[AT_TARGET] = view[NLL_LOSS_BACKWARD_TARGET],
                        [AT_SCORES] = view[NLL_LOSS_BACKWARD_OUT],
                        [AT_RESULT] = view[NLL_LOSS_BACKWARD_GRAD_OUTPUT]},
                 .divisor = 1,
                 .chunks = chunks};
  read_weights(&job, view[NLL_LOSS_BACKWARD_WEIGHT]);
  if (p->mean) p->load_total(&job.divisor, view[NLL_LOSS_BACKWARD_TOTAL_WEIGHT], 0, 1);
  fill_plan_init(&zero, &p->out, NULL);
  fill_run(&zero, view[NLL_LOSS_BACKWARD_OUT], e->cost_ns);
  return run_all(&job, e->cost_ns, &sum);
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static int64_t stride_bytes(const tensor *t, int d) {
  return d < t->rank ? t->strides[d] * (int64_t)dtype_bytes(t->dtype) : 0;
}

static int class_dim(const tensor *self) { return self->rank > 1; }

static view without_dim(const tensor *t, int dim) {
  view v = view_of(t);
  --v.rank;
  for (int d = dim; d < v.rank; ++d) {
    v.dims[d] = v.dims[d + 1];
    v.strides[d] = v.strides[d + 1];
  }
  return v;
}

static status expect_scores(const tensor *self, bool image) {
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT));
  EXPECT(image ? self->rank == 4 : self->rank == 1 || self->rank == 2, "self has shape %s, expected %s", SHAPE_OF(self),
         image ? "[N, C, H, W]" : "[N, C] or [C]");
  return ST_OK;
}

/* Checks a tensor that has one value per position, or a single value. */
static status nll_expect_result(const tensor *t, const char *name, const view *positions, bool each) {
  if (!each) return loss_expect_one(t, name);
  TRY(op_expect_dtype(t, name, DTYPES_FLOAT));
  return op_expect_same_shape(t, name, positions);
}

/* The arguments that both directions have. */
typedef struct {
  const tensor *self, *target, *weight;
  int64_t reduction, ignore_index;
} nll_call;

/* Preparation that both directions share. scores: self or, backward, out; result: out or gradOutput. */
static status plan_positions(nll_plan *p, const nll_call *c, const tensor *scores, const tensor *result,
                             const char *result_name) {
  const tensor *self = c->self, *target = c->target, *weight = c->weight;
  const int64_t reduction = c->reduction;
  TRY(op_expect_dtype(target, "target", DTYPES_INDEX | DTYPE_BIT(ACL_UINT8)));
  TRY(op_expect_dtype(weight, "weight", DTYPES_FLOAT));
  TRY(loss_expect_reduction(reduction, REDUCTION_SUM));
  const view positions = without_dim(scores, class_dim(self));
  const int64_t classes = self->dims[class_dim(self)];
  if (positions.rank || target->rank > 1 || target->n != 1)
    TRY(op_expect_shape(target, "target", positions.dims, positions.rank));
  TRY(op_expect_shape(weight, "weight", &classes, 1));
  p->mean = reduction == REDUCTION_MEAN;
  p->each = reduction == REDUCTION_NONE && positions.rank;
  TRY(nll_expect_result(result, result_name, &positions, p->each));

  view targets = view_of(target), results = positions;
  for (int d = 0; d < results.rank; ++d) results.strides[d] = p->each ? stride_bytes(result, d) : 0;
  walk_init(&p->at, (const view *const[N_AT]){&targets, &positions, &results}, N_AT, positions.rank);
  p->target = target_reader_of(target, classes, c->ignore_index);
  p->classes = classes;
  p->load_weights = loops->load[weight->dtype][COMPUTE_F64];
  p->weight_stride = stride_bytes(weight, 0);
  p->class_stride = stride_bytes(scores, class_dim(self));
  const int64_t even = (p->at.n + CHUNKS - 1) / CHUNKS;
  p->chunk = even > CHUNK_MIN ? even : CHUNK_MIN;
  return ST_OK;
}

status prepare_nll_loss(executor *e, const nll_loss_args *a) {
  const tensor *self = a->self, *out = a->out, *total = a->total_weight_out;
  nll_plan *p = PLAN(e, nll_plan);
  TRY(expect_scores(self, e->op->variant == NLL_IMAGE));
  const nll_call c = {self, a->target, a->weight, a->reduction, a->ignore_index};
  TRY(plan_positions(p, &c, self, out, "out"));
  TRY(loss_expect_one(total, "totalWeightOut"));
  p->dtype = (int8_t)self->dtype;
  p->store = loops->store[out->dtype][COMPUTE_F64];
  p->store_total = loops->store[total->dtype][COMPUTE_F64];
  /* Each position costs a cache line of scores and a few calls, independently of the number of classes. */
  executor_cost(e, (uint64_t)p->at.n * 64, (uint64_t)p->at.n * 512);
  e->run = nll_loss_run;
  return ST_OK;
}

status prepare_nll_loss_backward(executor *e, const nll_loss_backward_args *a) {
  const tensor *grad = a->grad_output, *self = a->self, *total = a->total_weight, *out = a->out;
  nll_plan *p = PLAN(e, nll_plan);
  TRY(expect_scores(self, e->op->variant == NLL_IMAGE_BACKWARD));
  TRY(op_expect_dtype(out, "out", DTYPES_FLOAT));
  TRY(op_expect_same_shape(out, "out", self));
  const nll_call c = {self, a->target, a->weight, a->reduction, a->ignore_index};
  TRY(plan_positions(p, &c, out, grad, "gradOutput"));
  TRY(loss_expect_one(total, "totalWeight"));
  p->load_gradient = loops->load[grad->dtype][COMPUTE_F64];
  p->load_total = loops->load[total->dtype][COMPUTE_F64];
  p->store = loops->store[out->dtype][COMPUTE_F64];
  p->out = view_of(out);
  executor_cost(e, (uint64_t)out->n * dtype_bytes(out->dtype), (uint64_t)p->at.n * 512);
  e->run = nll_loss_backward_run;
  return ST_OK;
}
