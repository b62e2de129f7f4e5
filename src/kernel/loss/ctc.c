/* SPDX-License-Identifier: Apache-2.0 */
/* CTC loss and its gradient (Graves et al. 2006), from the forward and backward variables of each sample, computed in
 * double and in logarithms.
 *
 * The labels of a sample are its L targets with a blank before, between and after them: 2 L + 1 labels. alpha[t][s] is
 * the logarithm of the probability of all paths that end at label s at time t; beta[t][s] is that of all paths that
 * continue from there. Both include the probability of label s itself. The gradient recomputes alpha, since alpha
 * rounded to the tensor's dtype would be too inexact. */
#include <math.h>
#include <stdlib.h>

#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

typedef struct {
  int64_t input, target; /* numbers of times and of targets */
  int64_t first;         /* offset of the first target in bytes from the operand's beginning */
} ctc_sample;

typedef struct {
  int64_t n_samples, n_times, n_classes, blank, most_labels;
  int64_t time, sample, class_step; /* strides of logProbs in bytes */
  int64_t target_step;
  load_loop *load, *load_target;
  store_loop *store;
  bool zero_infinity;
  bool of_logits; /* log_probs are not normalised */
  bool collapses; /* equal targets that follow one another count once */
  /* Numbers of the operands; ABSENT: there is none, which means gradients of 1 for `gradient`, and samples of the plan
   * for `lengths`. */
  int log_probs, targets, gradient, loss, alpha, out, lengths[2];
  int length_dtype[2]; /* of the numbers of times and of targets (or, for sparse targets, of places) */
  bool sparse;         /* lengths[1] has a row [sample, place] for each target */
  int64_t target_row;  /* stride of targets from sample to sample; 0: they are concatenated */
  int64_t n_targets;   /* all of them, if concatenated */
  uint64_t in_scratch; /* where the samples are, if they are read when the task runs */
  int64_t loss_step;   /* stride of the losses and of their gradients */
  int64_t alpha_sample, alpha_time, alpha_label, n_alpha;
  int64_t out_time, out_sample, out_class; /* strides of the gradient */
  ctc_sample samples[];
} ctc_plan;

enum { ABSENT = -1 };

typedef struct {
  const ctc_plan *plan;
  const ctc_sample *samples;
  const char *log_probs, *targets, *gradient;
  char *loss, *alpha, *out;
  status *result;
} ctc_job;

/* Scratch memory for one sample. */
typedef struct {
  const ctc_sample *of;
  int64_t n_labels;
  int64_t *labels; /* classes */
  double *probs;   /* [classes], of one time */
  double *sums;    /* [classes] */
  double *beta[2]; /* [labels] */
  double *alpha;   /* [times, labels] */
} ctc_work;

static double log_add(double a, double b) {
  const double most = a > b ? a : b;
  return most == -INFINITY ? most : most + log1p(exp((a > b ? b : a) - most));
}

static status take_labels(const ctc_job *j, ctc_work *w) {
  const ctc_plan *p = j->plan;
  int64_t n = 0;
  for (int64_t s = 0; s < w->n_labels; ++s) w->labels[s] = p->blank;
  for (int64_t i = 0; i < w->of->target; ++i) {
    int64_t label;
    p->load_target(&label, j->targets + w->of->first + i * p->target_step, p->target_step, 1);
    if (label < 0 || label >= p->n_classes)
      return fail(ST_DEVICE_EXCEPTION, "targets has a %jd, expected 0 to %jd", (intmax_t)label,
                  (intmax_t)p->n_classes - 1);
    if (!p->collapses || !n || w->labels[2 * n - 1] != label) w->labels[2 * n++ + 1] = label;
  }
  w->n_labels = 2 * n + 1;
  return ST_OK;
}

/* Whether a path may skip the blank between labels s - 2 and s. */
static bool skips(const ctc_work *w, int64_t s) { return s & 1 && s > 1 && w->labels[s] != w->labels[s - 2]; }

static void load_probs(const ctc_job *j, int64_t sample, int64_t t, double *probs) {
  const ctc_plan *p = j->plan;
  double most = -INFINITY, sum = 0;
  p->load(probs, j->log_probs + t * p->time + sample * p->sample, p->class_step, p->n_classes);
  if (!p->of_logits) return;
  for (int64_t c = 0; c < p->n_classes; ++c) most = fmax(most, probs[c]);
  for (int64_t c = 0; c < p->n_classes; ++c) sum += exp(probs[c] - most);
  for (int64_t c = 0; c < p->n_classes; ++c) probs[c] -= most + log(sum);
}

/* Fills alpha and returns the negative logarithm of the targets' probability. */
static double run_forward_paths(const ctc_job *j, int64_t sample, ctc_work *w) {
  const int64_t n = w->n_labels;
  for (int64_t t = 0; t < w->of->input; ++t) {
    double *const a = w->alpha + t * n;
    const double *const before = a - n;
    load_probs(j, sample, t, w->probs);
    for (int64_t s = 0; s < n; ++s) {
      double sum = t ? before[s] : s < 2 ? 0 : -INFINITY;
      if (t && s > 0) sum = log_add(sum, before[s - 1]);
      if (t && skips(w, s)) sum = log_add(sum, before[s - 2]);
      a[s] = sum + w->probs[w->labels[s]];
    }
  }
  if (!w->of->input) return n == 1 ? 0 : INFINITY;
  const double *const last = w->alpha + (w->of->input - 1) * n;
  return -(n > 1 ? log_add(last[n - 1], last[n - 2]) : last[0]);
}

static void store_alpha(const ctc_job *j, int64_t sample, const ctc_work *w) {
  static const double none = -INFINITY;
  const ctc_plan *p = j->plan;
  for (int64_t t = 0; t < p->n_times; ++t) {
    char *const to = j->alpha + sample * p->alpha_sample + t * p->alpha_time;
    const int64_t n = t < w->of->input ? w->n_labels : 0;
    if (n) p->store(to, p->alpha_label, w->alpha + t * n, n);
    for (int64_t s = n; s < p->n_alpha; ++s) p->store(to + s * p->alpha_label, 0, &none, 1);
  }
}

/* Computes beta of a time from that of the next time. */
static void step_back(const ctc_work *w, bool is_last, const double *after, double *beta) {
  const int64_t n = w->n_labels;
  for (int64_t s = 0; s < n; ++s) {
    double sum = !is_last ? after[s] : s >= n - 2 ? 0 : -INFINITY;
    if (!is_last && s + 1 < n) sum = log_add(sum, after[s + 1]);
    if (!is_last && s + 2 < n && skips(w, s + 2)) sum = log_add(sum, after[s + 2]);
    beta[s] = sum + w->probs[w->labels[s]];
  }
}

/* Replaces w->probs by the gradients of time t. */
static void gradients_at(const ctc_plan *p, ctc_work *w, int64_t t, const double *beta, double loss, double factor) {
  for (int64_t c = 0; c < p->n_classes; ++c) w->sums[c] = -INFINITY;
  for (int64_t s = 0; s < w->n_labels; ++s) {
    double *const sum = &w->sums[w->labels[s]];
    *sum = log_add(*sum, w->alpha[t * w->n_labels + s] + beta[s]);
  }
  for (int64_t c = 0; c < p->n_classes; ++c)
    w->probs[c] = (exp(w->probs[c]) - exp(w->sums[c] + loss - w->probs[c])) * factor;
}

static void run_backward_paths(const ctc_job *j, int64_t sample, ctc_work *w, double loss) {
  const ctc_plan *p = j->plan;
  const bool zero = p->zero_infinity && loss == INFINITY;
  double factor = 1;
  if (j->gradient) p->load(&factor, j->gradient + sample * p->loss_step, p->loss_step, 1);
  for (int64_t t = p->n_times - 1; t >= 0; --t) {
    double *const beta = w->beta[t & 1];
    if (t < w->of->input && !zero) {
      load_probs(j, sample, t, w->probs);
      step_back(w, t == w->of->input - 1, w->beta[1 - (t & 1)], beta);
      gradients_at(p, w, t, beta, loss, factor);
    } else {
      for (int64_t c = 0; c < p->n_classes; ++c) w->probs[c] = 0;
    }
    p->store(j->out + t * p->out_time + sample * p->out_sample, p->out_class, w->probs, p->n_classes);
  }
}

static status do_sample(const ctc_job *j, int64_t sample, char *scratch) {
  const ctc_plan *p = j->plan;
  double *const room = (double *)(void *)scratch;
  ctc_work w = {.of = &j->samples[sample], .n_labels = 2 * j->samples[sample].target + 1};
  w.probs = room;
  w.sums = w.probs + p->n_classes;
  w.beta[0] = w.sums + p->n_classes;
  w.beta[1] = w.beta[0] + p->most_labels;
  w.alpha = w.beta[1] + p->most_labels;
  w.labels = (int64_t *)(void *)(w.alpha + p->n_times * p->most_labels);
  TRY(take_labels(j, &w));
  const double loss = run_forward_paths(j, sample, &w);
  if (j->out) run_backward_paths(j, sample, &w, loss);
  const double kept = p->zero_infinity && loss == INFINITY ? 0 : loss;
  if (j->loss) p->store(j->loss + sample * p->loss_step, 0, &kept, 1);
  if (j->alpha) store_alpha(j, sample, &w);
  return ST_OK;
}

static void ctc_range(const void *arg, int64_t begin, int64_t end) {
  const ctc_job *j = arg;
  const ctc_plan *p = j->plan;
  const int64_t numbers = 2 * p->n_classes + (p->n_times + 3) * p->most_labels;
  char *const scratch = scratch_take((size_t)numbers * sizeof(double));
  status st = scratch ? ST_OK : ST_NO_MEMORY;
  for (; begin < end && st == ST_OK; ++begin) st = do_sample(j, begin, scratch);
  if (st != ST_OK) __atomic_store_n(j->result, st, __ATOMIC_RELAXED);
}

/* ---- lengths that are read when the task runs -------------------------------------------------------------------- */

static int64_t ctc_number(const void *from, int dtype, int64_t i) {
  const int64_t size = (int64_t)dtype_bytes(dtype);
  int64_t n;
  loops->load[dtype][COMPUTE_I64](&n, (const char *)from + i * size, 0, 1);
  return n;
}

static status ctc_expect_length(const char *name, int64_t i, int64_t n, int64_t most) {
  if (n >= 0 && n <= most) return ST_OK;
  return fail(ST_DEVICE_EXCEPTION, "%s[%jd] is %jd, expected 0 to %jd", name, (intmax_t)i, (intmax_t)n, (intmax_t)most);
}

/* Targets of a sample are adjacent, as their places are in row-major order. */
static status count_sparse_targets(const ctc_plan *p, const void *places, ctc_sample *samples) {
  int64_t last = 0;
  for (int64_t i = 0; i < p->n_targets; ++i) {
    const int64_t sample = ctc_number(places, p->length_dtype[1], 2 * i);
    if (sample < last || sample >= p->n_samples)
      return fail(ST_DEVICE_EXCEPTION, "labels_indices[%jd] is of sample %jd, expected %jd to %jd", (intmax_t)i,
                  (intmax_t)sample, (intmax_t)last, (intmax_t)p->n_samples - 1);
    if (!samples[sample].target++) samples[sample].first = i * p->target_step;
    last = sample;
  }
  return ST_OK;
}

static status read_samples(const ctc_plan *p, void *const *view, ctc_sample *samples) {
  int64_t sum = 0, room = p->alpha == ABSENT ? INT64_MAX : (p->n_alpha - 1) / 2;
  for (int64_t i = 0; i < p->n_samples; ++i) {
    samples[i] = (ctc_sample){.input = ctc_number(view[p->lengths[0]], p->length_dtype[0], i)};
    TRY(ctc_expect_length("input_lengths", i, samples[i].input, p->n_times));
    if (p->sparse) continue;
    samples[i].target = ctc_number(view[p->lengths[1]], p->length_dtype[1], i);
    TRY(ctc_expect_length("target_lengths", i, samples[i].target,
                          i64_min(room, p->target_row ? p->most_labels / 2 : p->n_targets - sum)));
    samples[i].first = p->target_row ? i * p->target_row : sum * p->target_step;
    sum += samples[i].target;
  }
  return p->sparse ? count_sparse_targets(p, view[p->lengths[1]], samples) : ST_OK;
}

static status run_ctc(const executor *e, void *const *view, void *scratch) {
  const ctc_plan *p = e->heap;
  status result = ST_OK;
  ctc_job job = {.plan = p,
                 .samples = p->samples,
                 .log_probs = view[p->log_probs],
                 .targets = view[p->targets],
                 .gradient = p->gradient == ABSENT ? NULL : view[p->gradient],
                 .loss = p->loss == ABSENT ? NULL : view[p->loss],
                 .alpha = p->alpha == ABSENT ? NULL : view[p->alpha],
                 .out = p->out == ABSENT ? NULL : view[p->out],
                 .result = &result};
  if (p->lengths[0] != ABSENT) {
    ctc_sample *const samples = (ctc_sample *)(void *)((char *)scratch + p->in_scratch);
    TRY(read_samples(p, view, samples));
    job.samples = samples;
  }
  rows_parallel(ctc_range, &job, p->n_samples, 1, e->cost_ns);
  return result;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static status expect_lengths(const aclIntArray *lengths, const char *name, int64_t n, int64_t most) {
  TRY(op_expect_size(lengths->size, name, (uint64_t)n));
  for (int64_t i = 0; i < n; ++i)
    EXPECT(lengths->value[i] >= 0 && lengths->value[i] <= most, "%s[%jd] is %jd, expected 0 to %jd", name, (intmax_t)i,
           (intmax_t)lengths->value[i], (intmax_t)most);
  return ST_OK;
}

/* Finds each sample's targets, which are rows of [N, S] or concatenated. */
static status place_targets(ctc_plan *p, const tensor *targets, const aclIntArray *lengths) {
  const view v = view_of(targets);
  int64_t sum = 0;
  EXPECT(targets->rank == 1 || (targets->rank == 2 && targets->dims[0] == p->n_samples),
         "targets has shape %s, expected 1 dimension, or [%jd, S]", SHAPE_OF(targets), (intmax_t)p->n_samples);
  p->target_step = v.strides[v.rank - 1];
  p->target_row = targets->rank == 2 ? v.strides[0] : 0;
  p->n_targets = targets->n;
  p->most_labels = 2 * targets->dims[targets->rank - 1] + 1;
  if (!lengths) return ST_OK;
  TRY(expect_lengths(lengths, "targetLengths", p->n_samples, targets->dims[targets->rank - 1]));
  p->most_labels = 1;
  for (int64_t i = 0; i < p->n_samples; ++i) {
    p->samples[i].target = lengths->value[i];
    p->samples[i].first = targets->rank == 2 ? i * v.strides[0] : sum * p->target_step;
    sum += lengths->value[i];
    if (2 * lengths->value[i] + 1 > p->most_labels) p->most_labels = 2 * lengths->value[i] + 1;
  }
  EXPECT(targets->rank == 2 || sum == targets->dims[0],
         "targetLengths has a sum of %jd, expected %jd, targets' elements", (intmax_t)sum, (intmax_t)targets->dims[0]);
  return ST_OK;
}

static status plan_ctc(executor *e, const ctc_args *a) {
  const tensor *log_probs = a->log_probs, *targets = a->targets;
  const int64_t blank = a->blank;
  TRY(op_expect_dtype(log_probs, "logProbs", DTYPES_FLOAT));
  TRY(op_expect_dtype(targets, "targets",
                      DTYPES_INDEX | DTYPE_BIT(ACL_BOOL) | DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_FLOAT16)));
  EXPECT(log_probs->rank == 2 || log_probs->rank == 3, "logProbs has shape %s, expected [T, N, C] or [T, C]",
         SHAPE_OF(log_probs));
  EXPECT(log_probs->dims[0] > 0, "logProbs has shape %s, expected one time or more", SHAPE_OF(log_probs));
  const view v = view_of(log_probs);
  const bool batched = v.rank == 3;
  const int64_t n_samples = batched ? v.dims[1] : 1, n_classes = v.dims[v.rank - 1];
  EXPECT(blank >= 0 && blank < n_classes, "blank is %jd, expected 0 to %jd", (intmax_t)blank, (intmax_t)n_classes - 1);
  if (a->input_lengths) TRY(expect_lengths(a->input_lengths, "inputLengths", n_samples, v.dims[0]));
  HEAP_PLAN(ctc_plan, p, e, sizeof *p + (size_t)n_samples * sizeof *p->samples);
  *p = (ctc_plan){.n_samples = n_samples,
                  .n_times = v.dims[0],
                  .n_classes = n_classes,
                  .blank = blank,
                  .time = v.strides[0],
                  .sample = batched ? v.strides[1] : 0,
                  .class_step = v.strides[v.rank - 1],
                  .load = loops->load[v.dtype][COMPUTE_F64],
                  .load_target = loops->load[targets->dtype][COMPUTE_I64],
                  .store = loops->store[v.dtype][COMPUTE_F64],
                  .zero_infinity = a->zero_infinity,
                  .log_probs = a->view.log_probs,
                  .targets = a->view.targets,
                  .gradient = ABSENT,
                  .loss = ABSENT,
                  .alpha = ABSENT,
                  .out = ABSENT,
                  .lengths = {ABSENT, ABSENT}};
  for (int64_t i = 0; a->input_lengths && i < n_samples; ++i) p->samples[i].input = a->input_lengths->value[i];
  TRY(place_targets(p, targets, a->target_lengths));
  const uint64_t steps = (uint64_t)(n_samples * p->n_times);
  executor_cost(e, (uint64_t)log_probs->n * 2 * dtype_bytes(v.dtype),
                steps * (uint64_t)(p->most_labels * 1500 + n_classes * 300));
  return ST_OK;
}

/* alpha is [N, T, 2 L + 1 or more] for the longest target. If it is written, the last dimension must be 2 L + 1 rounded
 * up to a multiple of 8. later: L is known when the task runs. */
static status expect_alpha(ctc_plan *p, const tensor *alpha, const char *name, bool written, bool later) {
  const view v = view_of(alpha);
  const int64_t least = later ? 1 : p->most_labels;
  if (written && !later)
    TRY(op_expect_shape(alpha, name, (const int64_t[]){p->n_samples, p->n_times, (p->most_labels + 7) / 8 * 8}, 3));
  EXPECT(v.rank == 3 && v.dims[0] == p->n_samples && v.dims[1] == p->n_times && v.dims[2] >= least,
         "%s has shape %s, expected [%jd, %jd, %jd or more]", name, SHAPE_OF(&v), (intmax_t)p->n_samples,
         (intmax_t)p->n_times, (intmax_t)least);
  p->alpha_sample = v.strides[0];
  p->alpha_time = v.strides[1];
  p->alpha_label = v.strides[2];
  p->n_alpha = v.dims[2];
  return ST_OK;
}

/* One number for each sample; for a single sample it may have no dimension. */
static status expect_losses(ctc_plan *p, const tensor *t, const char *name, int probs_rank) {
  if (probs_rank == 3 || t->rank == 1)
    TRY(op_expect_shape(t, name, &p->n_samples, 1));
  else
    TRY(op_expect_shape(t, name, NULL, 0));
  p->loss_step = t->rank ? view_of(t).strides[0] : 0;
  return ST_OK;
}

static status ctc_prepare_forward(executor *e, const ctc_args *a) {
  const tensor *log_probs = a->log_probs;
  TRY(plan_ctc(e, a));
  ctc_plan *p = e->heap;
  TRY(op_expect_dtype(a->neg_log_likelihood_out, "negLogLikelihoodOut", DTYPE_BIT(log_probs->dtype)));
  TRY(op_expect_dtype(a->log_alpha_out, "logAlphaOut", DTYPE_BIT(log_probs->dtype)));
  TRY(expect_losses(p, a->neg_log_likelihood_out, "negLogLikelihoodOut", log_probs->rank));
  TRY(expect_alpha(p, a->log_alpha_out, "logAlphaOut", true, !a->target_lengths));
  p->loss = CTC_NEG_LOG_LIKELIHOOD_OUT;
  p->alpha = CTC_LOG_ALPHA_OUT;
  e->run = run_ctc;
  return ST_OK;
}

static status ctc_prepare_backward(executor *e, const ctc_args *a) {
  const tensor *log_probs = a->log_probs, *out = a->out;
  const uint64_t dtype = DTYPE_BIT(log_probs->dtype);
  EXPECT(log_probs->rank == 3, "logProbs has %d dimensions, expected 3", log_probs->rank);
  TRY(plan_ctc(e, a));
  ctc_plan *p = e->heap;
  TRY(op_expect_dtype(a->grad_out, "gradOut", dtype));
  TRY(op_expect_dtype(a->neg_log_likelihood, "negLogLikelihood", dtype));
  TRY(op_expect_dtype(a->log_alpha, "logAlpha", dtype));
  TRY(op_expect_dtype(out, "out", dtype));
  TRY(expect_losses(p, a->neg_log_likelihood, "negLogLikelihood", log_probs->rank));
  TRY(expect_losses(p, a->grad_out, "gradOut", log_probs->rank));
  TRY(expect_alpha(p, a->log_alpha, "logAlpha", false, !a->target_lengths));
  TRY(op_expect_same_shape(out, "out", log_probs));
  const view v = view_of(out);
  p->out_time = v.strides[0];
  p->out_sample = v.strides[1];
  p->out_class = v.strides[v.rank - 1];
  p->gradient = CTC_GRAD_OUT;
  p->out = CTC_OUT;
  e->run = out->n ? run_ctc : move_run_nothing;
  return ST_OK;
}

status prepare_ctc(executor *e, const ctc_args *a) {
  return e->op->variant == CTC_BACKWARD ? ctc_prepare_backward(e, a) : ctc_prepare_forward(e, a);
}

/* ---- by name (ops/graph.aclop) ----------------------------------------------------------------------------------- */

/* Makes the task read the lengths (or, for sparse targets, their places). */
static status ctc_read_later(executor *e, const tensor *times, const char *times_name, int times_operand,
                             const tensor *targets, const char *targets_name, int targets_operand) {
  ctc_plan *p = e->heap;
  TRY(op_expect_dtype(times, times_name, DTYPES_INDEX));
  TRY(op_expect_dtype(targets, targets_name, DTYPES_INDEX));
  TRY(op_expect_shape(times, times_name, &p->n_samples, 1));
  p->lengths[0] = times_operand;
  p->lengths[1] = targets_operand;
  p->length_dtype[0] = times->dtype;
  p->length_dtype[1] = targets->dtype;
  p->in_scratch = workspace_intermediate(e, (uint64_t)p->n_samples * sizeof(ctc_sample));
  return ST_OK;
}

/* CTCLossV2, CTCLossV2Grad. Losses are not reduced, whatever `reduction` says: there is one for each sample. */
status prepare_graph_ctc(executor *e, const graph_ctc_args *a) {
  const bool backward = e->op->variant == GRAPH_CTC_BACKWARD;
  const ctc_args list = {.log_probs = a->log_probs,
                         .targets = a->targets,
                         .blank = a->blank,
                         .zero_infinity = a->zero_infinity,
                         .grad_out = a->grad_out,
                         .neg_log_likelihood = backward ? a->neg_log_likelihood : NULL,
                         .log_alpha = backward ? a->log_alpha : NULL,
                         .out = a->grad,
                         .neg_log_likelihood_out = backward ? NULL : a->neg_log_likelihood,
                         .log_alpha_out = backward ? NULL : a->log_alpha,
                         .view = {.log_probs = a->view.log_probs, .targets = a->view.targets}};
  TRY(backward ? ctc_prepare_backward(e, &list) : ctc_prepare_forward(e, &list));
  ctc_plan *p = e->heap;
  if (backward) {
    p->gradient = GRAPH_CTC_GRAD_OUT;
    p->out = GRAPH_CTC_GRAD;
  } else {
    p->loss = a->view.neg_log_likelihood;
    p->alpha = a->view.log_alpha;
  }
  TRY(op_expect_shape(a->target_lengths, "target_lengths", &p->n_samples, 1));
  return ctc_read_later(e, a->input_lengths, "input_lengths", a->view.input_lengths, a->target_lengths,
                        "target_lengths", a->view.target_lengths);
}

/* CTCLoss, as TensorFlow has it: of logits, with the last class as the blank, and with the gradient. */
status prepare_graph_ctc_sparse(executor *e, const graph_ctc_sparse_args *a) {
  const tensor *inputs = a->inputs, *values = a->labels_values, *gradient = a->gradient;
  TRY(op_expect_rank(inputs, "inputs", 3, 3));
  TRY(op_expect_rank(values, "labels_values", 1, 1));
  EXPECT(a->ctc_merge_repeated, "ctc_merge_repeated is 0, expected 1: equal labels without a blank between are one");
  const ctc_args list = {.log_probs = inputs,
                         .targets = values,
                         .blank = inputs->dims[2] - 1,
                         .zero_infinity = a->ignore_longer_outputs_than_inputs,
                         .view = {.log_probs = GRAPH_CTC_SPARSE_INPUTS, .targets = GRAPH_CTC_SPARSE_LABELS_VALUES}};
  TRY(plan_ctc(e, &list));
  ctc_plan *p = e->heap;
  TRY(op_expect_dtype(a->loss, "loss", DTYPE_BIT(inputs->dtype)));
  TRY(op_expect_dtype(gradient, "gradient", DTYPE_BIT(inputs->dtype)));
  TRY(expect_losses(p, a->loss, "loss", 3));
  TRY(op_expect_same_shape(gradient, "gradient", inputs));
  TRY(op_expect_shape(a->labels_indices, "labels_indices", (const int64_t[]){values->n, 2}, 2));
  const view v = view_of(gradient);
  p->out_time = v.strides[0];
  p->out_sample = v.strides[1];
  p->out_class = v.strides[2];
  p->of_logits = p->sparse = true;
  p->collapses = a->preprocess_collapse_repeated;
  p->loss = GRAPH_CTC_SPARSE_LOSS;
  p->out = GRAPH_CTC_SPARSE_GRADIENT;
  TRY(ctc_read_later(e, a->sequence_length, "sequence_length", GRAPH_CTC_SPARSE_SEQUENCE_LENGTH, a->labels_indices,
                     "labels_indices", GRAPH_CTC_SPARSE_LABELS_INDICES));
  e->run = gradient->n ? run_ctc : move_run_nothing;
  return ST_OK;
}
