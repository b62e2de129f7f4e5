/* SPDX-License-Identifier: Apache-2.0 */
/* CrossEntropyLoss, its gradient, and SoftmaxCrossEntropyWithLogits: softmax and loss of a row of class scores are
 * computed while the row is in cache. Rows are computed in float in blocks of scores, and losses in double. Losses are
 * summed in chunks of rows, whose size depends on the number of rows only, and the chunks are added in order. */
#include "kernel/loss/cross_entropy.h"

#include <math.h>

#include "kernel/engine/level_choice.h"
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/loss/loss_reduction.h"
#include "kernel/loss/target.h"
#include "kernel/norm/panels.h"
#include "kernel/norm/softmax_loops.h"

LEVEL_CHOICE(cross_entropy_loops, cross_entropy, cross_entropy_loops)

enum {
  BLOCK = 1024, /* scores in a block */
  CHUNKS = 64,  /* maximum number of chunks of rows */
  DTYPES = DTYPES_FLOAT_TO_32
};

/* A matrix that is read or written by rows. */
typedef struct {
  row_access access;
  int64_t row; /* bytes from row to row */
} matrix;

/* A value per row or class, or one for all (stride 0). */
typedef struct {
  load_loop *load;
  store_loop *store;
  int64_t stride;
} column;

typedef struct {
  int64_t n, classes, chunk;
  union {
    panel_plan rows; /* CrossEntropyLoss: scores, and their logarithmic probabilities */
    struct {
      matrix in, labels,
          out; /* labels: for SoftmaxCrossEntropyWithLogits; in, out: scores and probabilities, or gradients */
    };
  };
  target_reader target;
  int64_t target_stride;
  column weight; /* weights of the classes */
  column result; /* losses, or their gradients */
  bool weighted, mean, each;
  double smoothing;
} entropy_plan;

typedef struct {
  double loss, weight;
  bad_target bad;
} entropy_chunk;

typedef struct {
  const entropy_plan *plan;
  char *in, *labels, *out, *result;
  const char *target, *weights;
  double divisor;    /* divisor of gradients */
  double weight_sum; /* sum over all classes */
  entropy_chunk *chunks;
} entropy_job;

typedef float block[BLOCK];

static const float *entropy_fetch(const matrix *m, const char *row, float *tile, int64_t k, int64_t n) {
  return (const float *)(const void *)row_fetch(&m->access, (char *)tile, row + k * m->access.along, 1, n);
}

/* Where results for the scores from k on are written: in place, or to a tile that entropy_store() then stores. */
static float *entropy_place(const matrix *m, char *row, float *tile, int64_t k) {
  return m->access.direct ? (float *)(void *)(row + k * m->access.along) : tile;
}

static void entropy_store(const matrix *m, char *row, const float *y, const float *tile, int64_t k, int64_t n) {
  if (y == tile) row_store(&m->access, row + k * m->access.along, (const char *)tile, 1, n);
}

static double value_at(const column *c, const char *base, int64_t i) {
  double v;
  c->load(&v, base + i * c->stride, 0, 1);
  return v;
}

static double entropy_weight_of(const entropy_job *j, int64_t class) {
  return j->plan->weighted ? value_at(&j->plan->weight, j->weights, class) : 1;
}

/* Maximum score of a row, and the logarithm of the sum of e^(score - maximum). */
static void entropy_row_scale(const entropy_plan *p, const char *row, float *tile, float *top, float *log_sum) {
  double sum = 0;
  const float *x = NULL;
  block exps;
  *top = -INFINITY;
  for (int64_t k = 0, n; k < p->classes; k += n) {
    n = i64_min(BLOCK, p->classes - k);
    x = entropy_fetch(&p->in, row, tile, k, n);
    const float most = loops->max_f32(x, n);
    *top = most != most || most > *top ? most : *top;
  }
  for (int64_t k = 0, n; k < p->classes; k += n) {
    n = i64_min(BLOCK, p->classes - k);
    if (p->classes > BLOCK) x = entropy_fetch(&p->in, row, tile, k, n);
    sum += loops->exp_sum_f32(exps, x, *top, n);
  }
  *log_sum = (float)log(sum);
}

/* The weights of classes k to k + n; NULL: all are 1. */
static const float *weights_at(const entropy_job *j, float *tile, int64_t k, int64_t n) {
  const entropy_plan *p = j->plan;
  if (!p->weighted) return NULL;
  loops->load[ACL_FLOAT][COMPUTE_F32](tile, j->weights + k * p->weight.stride, p->weight.stride, n);
  return tile;
}

static int64_t n_chunks(const entropy_plan *p) { return p->chunk ? (p->n + p->chunk - 1) / p->chunk : 0; }

/* Adds the chunks in order. Fails if one of them has found a target out of range. */
static status entropy_sum_chunks(const entropy_job *j, entropy_chunk *sum) {
  *sum = (entropy_chunk){0};
  for (int64_t k = 0; k < n_chunks(j->plan); ++k) {
    if (j->chunks[k].bad.place >= 0) return target_fail(&j->plan->target, &j->chunks[k].bad);
    sum->loss += j->chunks[k].loss;
    sum->weight += j->chunks[k].weight;
  }
  return ST_OK;
}

/* ---- CrossEntropyLoss -------------------------------------------------------------------------------------------- */

/* Weighted sum over all classes, for label smoothing. */
static double sum_of_all(const entropy_job *j, const float *log_p) {
  const entropy_plan *p = j->plan;
  block weights;
  double sum = 0;
  for (int64_t k = 0, n; k < p->classes; k += n) {
    n = i64_min(BLOCK, p->classes - k);
    sum += cross_entropy->weighted_sum(weights_at(j, weights, k, n), log_p + k, n);
  }
  return sum;
}

static float entropy_score_at(const panel *p, int i, int64_t class) {
  if (p->dtype == ACL_FLOAT) return panel_floats(p, 0, i)[class];
  const uint16_t half = ((const uint16_t *)panel_row(p, 0, i))[class];
  return p->dtype == ACL_FLOAT16 ? half_to_float(half) : bf16_to_float(half);
}

/* Operands: scores, log probabilities. The latter may overwrite the scores. */
static void loss_panel(const void *job, const panel *p) {
  const entropy_job *j = job;
  const entropy_plan *plan = j->plan;
  entropy_chunk *const sums = &j->chunks[p->row / plan->chunk];
  int64_t class[PANEL_MAX];
  float score[PANEL_MAX], scale[PANEL_MAX][2];
  if (sums->bad.place >= 0 || !targets_read(&plan->target, j->target + p->row * plan->target_stride,
                                            plan->target_stride, p->row, p->width, class, &sums->bad))
    return;
  for (int i = 0; i < p->width; ++i) score[i] = class[i] == NO_CLASS ? 0 : entropy_score_at(p, i, class[i]);
  softmax->f32.log_softmax(&(softmax_matrix){.y = p->at[1],
                                             .x = p->at[0],
                                             .y_pitch = p->pitch[1],
                                             .x_pitch = p->pitch[0],
                                             .n = p->n,
                                             .rows = p->width,
                                             .dtype = p->dtype,
                                             .scale = scale});
  for (int i = 0; i < p->width; ++i) {
    double loss = 0;
    if (class[i] != NO_CLASS) {
      const double w = entropy_weight_of(j, class[i]), log_p = score[i] - scale[i][0] - scale[i][1];
      loss = -(1 - plan->smoothing) * w * log_p;
      if (plan->smoothing != 0) loss -= plan->smoothing / (double)p->n * sum_of_all(j, panel_floats(p, 1, i));
      sums->weight += w;
    }
    sums->loss += loss;
    if (plan->each) plan->result.store(j->result + (p->row + i) * plan->result.stride, 0, &loss, 1);
  }
}

static status cross_entropy_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const entropy_plan *p = PLAN(e, entropy_plan);
  entropy_chunk chunks[CHUNKS], sum;
  const entropy_job job = {.plan = p,
                           .target = view[CROSS_ENTROPY_TARGET],
                           .weights = view[CROSS_ENTROPY_WEIGHT],
                           .result = view[CROSS_ENTROPY_LOSS_OUT],
                           .chunks = chunks};
  for (int k = 0; k < CHUNKS; ++k) chunks[k] = (entropy_chunk){.bad.place = -1};
  TRY(panels_run(&(panel_job){.plan = &p->rows,
                              .view = view,
                              .body = loss_panel,
                              .op = &job,
                              .grain = p->chunk,
                              .as_stored = p->smoothing == 0},
                 e->cost_ns));
  TRY(entropy_sum_chunks(&job, &sum));
  const double loss = p->mean ? sum.loss / sum.weight : sum.loss;
  if (!p->each) p->result.store(view[CROSS_ENTROPY_LOSS_OUT], 0, &loss, 1);
  return ST_OK;
}

/* ---- row by row -------------------------------------------------------------------------------------------------- */

typedef void row_function(const entropy_job *j, int64_t row, int64_t class, entropy_chunk *sums);

static inline void entropy_run_chunks(const entropy_job *j, int64_t begin, int64_t end, row_function *each_row) {
  const entropy_plan *p = j->plan;
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    entropy_chunk *sums = &j->chunks[chunk];
    *sums = (entropy_chunk){.bad.place = -1};
    for (int64_t i = chunk * p->chunk; i < i64_min((chunk + 1) * p->chunk, p->n); ++i) {
      int64_t class = NO_CLASS;
      if (j->target && !targets_read(&p->target, j->target + i * p->target_stride, 0, i, 1, &class, &sums->bad)) break;
      each_row(j, i, class, sums);
    }
  }
}

/* Runs all rows. */
static status entropy_run_rows(const entropy_job *j, range_body *chunks, uint64_t cost_ns) {
  entropy_chunk sum;
  rows_parallel(chunks, j, n_chunks(j->plan), 1, cost_ns);
  return entropy_sum_chunks(j, &sum);
}

/* ---- CrossEntropyLossGrad ---------------------------------------------------------------------------------------- */

/* d loss / d score = p (u + s W) - s w - (u at the target), where u is the factor of the target's term, s that of
 * smoothing, and W the sum of all weights. */
static void gradient_row(const entropy_job *j, int64_t i, int64_t class, entropy_chunk *sums) {
  (void)sums;
  const entropy_plan *p = j->plan;
  const char *row = j->in + i * p->in.row;
  char *out = j->out + i * p->out.row;
  block tile, weights;
  double of_target = 0, smooth = 0;
  if (class != NO_CLASS) {
    const double g = value_at(&p->result, j->result, i) / j->divisor;
    of_target = g * (1 - p->smoothing) * entropy_weight_of(j, class);
    smooth = g * p->smoothing / (double)p->classes;
  }
  const float scale = (float)(of_target + smooth * j->weight_sum);
  for (int64_t k = 0, n; k < p->classes; k += n) {
    n = i64_min(BLOCK, p->classes - k);
    const float *x = entropy_fetch(&p->in, row, tile, k, n);
    float *y = entropy_place(&p->out, out, tile, k);
    if (class == NO_CLASS)
      memset(y, 0, (size_t)n * sizeof *y);
    else
      cross_entropy->gradient(y, x, smooth != 0 ? weights_at(j, weights, k, n) : NULL, scale, (float)smooth, n);
    if (class >= k && class < k + n) y[class - k] -= (float)of_target;
    entropy_store(&p->out, out, y, tile, k, n);
  }
}

static void gradient_chunks(const void *job, int64_t begin, int64_t end) {
  entropy_run_chunks(job, begin, end, gradient_row);
}

/* The sum of the weights of all rows' targets. */
static status sum_target_weights(const entropy_job *j, double *sum) {
  const entropy_plan *p = j->plan;
  *sum = 0;
  for (int64_t i = 0; i < p->n; ++i) {
    int64_t class;
    bad_target bad;
    if (!targets_read(&p->target, j->target + i * p->target_stride, 0, i, 1, &class, &bad))
      return target_fail(&p->target, &bad);
    if (class != NO_CLASS) *sum += entropy_weight_of(j, class);
  }
  return ST_OK;
}

static status cross_entropy_grad_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const entropy_plan *p = PLAN(e, entropy_plan);
  entropy_chunk chunks[CHUNKS];
  entropy_job job = {.plan = p,
                     .result = view[CROSS_ENTROPY_GRAD_GRAD_LOSS],
                     .in = view[CROSS_ENTROPY_GRAD_LOG_PROB],
                     .target = view[CROSS_ENTROPY_GRAD_TARGET],
                     .weights = view[CROSS_ENTROPY_GRAD_WEIGHT],
                     .out = view[CROSS_ENTROPY_GRAD_OUT],
                     .divisor = 1,
                     .chunks = chunks};
  if (p->mean) TRY(sum_target_weights(&job, &job.divisor));
  for (int64_t c = 0; p->smoothing != 0 && c < p->classes; ++c) job.weight_sum += entropy_weight_of(&job, c);
  return entropy_run_rows(&job, gradient_chunks, e->cost_ns);
}

/* ---- SoftmaxCrossEntropyWithLogits, and its sparse version, whose labels are classes ----------------------------- */

/* Labels k to k + n of a row: those that are given, or 1 for the row's class and 0 for others. */
static const float *softmax_labels(const entropy_job *j, int64_t i, int64_t class, float *tile, int64_t k, int64_t n) {
  const entropy_plan *p = j->plan;
  if (j->labels) return entropy_fetch(&p->labels, j->labels + i * p->labels.row, tile, k, n);
  memset(tile, 0, (size_t)n * sizeof *tile);
  if (class >= k && class < k + n) tile[class - k] = 1;
  return tile;
}

static void softmax_loss_row(const entropy_job *j, int64_t i, int64_t class, entropy_chunk *sums) {
  (void)sums;
  const entropy_plan *p = j->plan;
  const char *row = j->in + i * p->in.row;
  char *out = j->out + i * p->out.row;
  block tile, label_tile;
  float top, log_sum;
  double loss = 0;
  entropy_row_scale(p, row, tile, &top, &log_sum);
  for (int64_t k = 0, n; k < p->classes; k += n) {
    n = i64_min(BLOCK, p->classes - k);
    const float *x = entropy_fetch(&p->in, row, tile, k, n), *label = softmax_labels(j, i, class, label_tile, k, n);
    float *y = entropy_place(&p->out, out, tile, k);
    loss += cross_entropy->softmax_loss(y, x, label, top, log_sum, n);
    entropy_store(&p->out, out, y, tile, k, n);
  }
  p->result.store(j->result + i * p->result.stride, 0, &loss, 1);
}

static void softmax_loss_chunks(const void *job, int64_t begin, int64_t end) {
  entropy_run_chunks(job, begin, end, softmax_loss_row);
}

static status softmax_cross_entropy_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  entropy_chunk chunks[CHUNKS];
  const bool sparse = e->op->variant == SOFTMAX_CROSS_ENTROPY_SPARSE;
  const entropy_job job = {.plan = PLAN(e, entropy_plan),
                           .in = view[SOFTMAX_CROSS_ENTROPY_FEATURES],
                           .labels = sparse ? NULL : view[SOFTMAX_CROSS_ENTROPY_LABELS],
                           .target = sparse ? view[SOFTMAX_CROSS_ENTROPY_LABELS] : NULL,
                           .result = view[SOFTMAX_CROSS_ENTROPY_LOSS],
                           .out = view[SOFTMAX_CROSS_ENTROPY_BACKPROP],
                           .chunks = chunks};
  return entropy_run_rows(&job, softmax_loss_chunks, e->cost_ns);
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static matrix entropy_matrix(const tensor *t) {
  const int64_t bytes = (int64_t)dtype_bytes(t->dtype);
  return (matrix){row_access_of(t->dtype, COMPUTE_F32, t->strides[1] * bytes, 0, BLOCK), t->strides[0] * bytes};
}

static column entropy_column(const tensor *t, bool each) {
  return (column){loops->load[t->dtype][COMPUTE_F64], loops->store[t->dtype][COMPUTE_F64],
                  each ? t->strides[0] * (int64_t)dtype_bytes(t->dtype) : 0};
}

static status entropy_expect_matrix(const tensor *t, const char *name) {
  TRY(op_expect_dtype(t, name, DTYPES));
  EXPECT(t->rank == 2 && t->dims[1] > 0, "%s has shape %s, expected [N, C] with a class or more", name, SHAPE_OF(t));
  return ST_OK;
}

/* Checks and sets the numbers of rows and classes of the scores and of the result. */
static status entropy_plan_rows(executor *e, entropy_plan *p, const tensor *in, const tensor *out,
                                const char *out_name) {
  TRY(op_expect_dtype(out, out_name, DTYPES));
  TRY(op_expect_shape(out, out_name, in->dims, 2));
  p->n = in->dims[0];
  p->classes = in->dims[1];
  p->chunk = (p->n + CHUNKS - 1) / CHUNKS;
  executor_cost(e, (uint64_t)in->n * dtype_bytes(in->dtype) + (uint64_t)out->n * dtype_bytes(out->dtype),
                (uint64_t)in->n * 32);
  return ST_OK;
}

static status entropy_expect_result(entropy_plan *p, const tensor *t, const char *name) {
  if (!p->each) {
    TRY(loss_expect_one(t, name));
  } else {
    TRY(op_expect_dtype(t, name, DTYPES));
    TRY(op_expect_shape(t, name, &p->n, 1));
  }
  p->result = entropy_column(t, p->each);
  return ST_OK;
}

static status plan_targets(entropy_plan *p, const tensor *target, const char *name, const tensor *weight,
                           int64_t ignored) {
  TRY(op_expect_dtype(target, name, DTYPES_INDEX));
  TRY(op_expect_shape(target, name, &p->n, 1));
  p->target = target_reader_of(target, p->classes, ignored);
  p->target_stride = target->strides[0] * (int64_t)dtype_bytes(target->dtype);
  p->weighted = weight;
  if (!weight) return ST_OK;
  TRY(op_expect_dtype(weight, "weightOptional", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_shape(weight, "weightOptional", &p->classes, 1));
  p->weight = entropy_column(weight, true);
  return ST_OK;
}

/* reduction: "none", "mean" (also for null, as in PyTorch) or "sum". CANN announces the z-loss for the future and says
 * that its arguments have no effect; here they must be neutral. */
static status plan_options(entropy_plan *p, const char *reduction, double smoothing, double z_scale) {
  const bool none = reduction && !strcmp(reduction, "none"), sum = reduction && !strcmp(reduction, "sum");
  EXPECT(!reduction || none || sum || !strcmp(reduction, "mean"),
         "reductionOptional is \"%s\", expected \"none\", \"mean\" or \"sum\"", reduction);
  EXPECT(smoothing >= 0 && smoothing <= 1, "labelSmoothing is %g, expected 0 to 1", smoothing);
  EXPECT(z_scale == 0, "lseSquareScaleForZloss is %g, expected 0", z_scale);
  p->each = none;
  p->mean = !none && !sum;
  p->smoothing = smoothing;
  return ST_OK;
}

status prepare_cross_entropy(executor *e, const cross_entropy_args *a) {
  const tensor *input = a->input, *loss = a->loss_out, *log_prob = a->log_prob_out;
  entropy_plan *p = PLAN(e, entropy_plan);
  TRY(entropy_expect_matrix(input, "input"));
  TRY(plan_options(p, a->reduction, a->label_smoothing, a->lse_square_scale_for_zloss));
  EXPECT(!a->return_zloss, "returnZloss is true, expected %s", "false");
  TRY(entropy_plan_rows(e, p, input, log_prob, "logProbOut"));
  panel_plan_init(&p->rows, COMPUTE_F32, 1, 1, input->dims);
  panel_add_tensor(&p->rows, PANEL_READ, 0, input, NULL);
  panel_add_tensor(&p->rows, PANEL_WRITTEN, 4, log_prob, NULL);
  panel_plan_end(&p->rows, true);
  TRY(plan_targets(p, a->target, "target", a->weight, a->ignore_index));
  TRY(entropy_expect_result(p, loss, "lossOut"));
  e->run = cross_entropy_run;
  return ST_OK;
}

status prepare_cross_entropy_grad(executor *e, const cross_entropy_grad_args *a) {
  const tensor *grad = a->grad_loss, *log_prob = a->log_prob, *out = a->out;
  entropy_plan *p = PLAN(e, entropy_plan);
  TRY(entropy_expect_matrix(log_prob, "logProb"));
  TRY(plan_options(p, a->reduction, a->label_smoothing, a->lse_square_scale_for_zloss));
  EXPECT(!a->grad_zloss, "gradZlossOptional is given, expected %s", "null");
  TRY(entropy_plan_rows(e, p, log_prob, out, "out"));
  p->in = entropy_matrix(log_prob);
  p->out = entropy_matrix(out);
  TRY(plan_targets(p, a->target, "target", a->weight, a->ignore_index));
  TRY(entropy_expect_result(p, grad, "gradLoss"));
  e->run = cross_entropy_grad_run;
  return ST_OK;
}

status prepare_softmax_cross_entropy(executor *e, const softmax_cross_entropy_args *a) {
  const tensor *features = a->features, *labels = a->labels, *loss = a->loss, *backprop = a->backprop;
  entropy_plan *p = PLAN(e, entropy_plan);
  TRY(entropy_expect_matrix(features, "features"));
  TRY(entropy_plan_rows(e, p, features, backprop, "backprop"));
  if (e->op->variant == SOFTMAX_CROSS_ENTROPY_SPARSE) {
    TRY(plan_targets(p, labels, "labels", NULL, INT64_MIN)); /* no label is ignored */
  } else {
    TRY(op_expect_dtype(labels, "labels", DTYPES));
    TRY(op_expect_shape(labels, "labels", features->dims, 2));
    p->labels = entropy_matrix(labels);
  }
  p->in = entropy_matrix(features);
  p->out = entropy_matrix(backprop);
  p->each = true;
  TRY(entropy_expect_result(p, loss, "loss"));
  e->run = softmax_cross_entropy_run;
  return ST_OK;
}
