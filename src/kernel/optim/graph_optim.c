/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of optimisers that are called by name (ops/graph.aclop), with TensorFlow's meaning. Their operands are
 * contiguous. States (weights and moments) are updated where they are, and written to outputs at other addresses as
 * well; hyperparameters are attributes, or tensors of one element, which are read when the task runs. Elements are
 * computed in float, what is common to all of them in double.
 *
 * Sparse steps have gradients for rows of the states only, given by their numbers. Rows that appear several times make
 * as many steps, in order, or one with the sum of their gradients. */
#include <math.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "op/executor.h"

enum { MAX_STATES = 4, MAX_SCALARS = 8, TILE = 512, ABSENT = -1 };

typedef struct optim_plan optim_plan;

/* x: tiles of the states, in the order of the rule; g: of the gradient; s: the hyperparameters, in the order of the
 * operator's inputs. */
typedef void optim_step(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n);

/* Where an operator has what: numbers of its operands, which are those of its inputs and then outputs. */
typedef struct {
  optim_step *step;
  int8_t n_states, n_scalars, grad, state[MAX_STATES], scalar[MAX_SCALARS], out[MAX_STATES]; /* out: of each state */
  int8_t result, operand; /* not 0: a tile that is only written, and one that is only read, behind the states */
  bool keeps;             /* the states stay as they are; outputs get the new ones */
  int8_t indices;         /* not 0: the numbers of the rows that the gradient is of */
  bool merges, all_rows;  /* gradients of the same row are added; rows without one make a step, too, with 0 */
} optim_rule;

struct optim_plan {
  const optim_rule *rule;
  int64_t n;
  bool nesterov, updates_slots, clips;
  float dampening, weight_decay, epsilon, trust;
  int dtype[MAX_STATES], grad_dtype, scalar_dtype[MAX_SCALARS], result_dtype, operand_dtype;
  double scalar[MAX_SCALARS]; /* those that are attributes, whose dtype is ABSENT */
  /* Sparse: rows of the states, elements of each, rows of the gradient; in scratch: int64_t[n_indices] twice and, if
   * gradients are merged, int64_t[rows]. */
  int64_t rows, inner, n_indices;
  int index_dtype;
  uint64_t lists;
};

/* ---- rules ------------------------------------------------------------------------------------------------------- */

static void step_momentum(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  const float lr = (float)s[0], momentum = (float)s[1];
  float *var = x[0], *accum = x[1];
  for (int64_t i = 0; i < n; ++i) {
    accum[i] = accum[i] * momentum + g[i];
    var[i] -= p->nesterov ? lr * (g[i] + momentum * accum[i]) : lr * accum[i];
  }
}

/* stat is 1 before the first step, which takes the gradient as it is, and 0 afterwards. */
static void step_sgd(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  const float lr = (float)s[0], momentum = (float)s[1];
  float *var = x[0], *accum = x[1], *stat = x[2];
  for (int64_t i = 0; i < n; ++i) {
    const float d = g[i] + p->weight_decay * var[i];
    if (momentum > 0) {
      accum[i] = stat[i] > 0 ? d : accum[i] * momentum + (1 - p->dampening) * d;
      stat[i] = 0;
    }
    const float move = momentum > 0 ? p->nesterov ? d + momentum * accum[i] : accum[i] : d;
    var[i] -= lr * move;
  }
}

static void step_adam(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  enum { BETA1_POWER, BETA2_POWER, LR, BETA1, BETA2, EPSILON };
  const float rate = (float)(s[LR] * sqrt(1 - s[BETA2_POWER]) / (1 - s[BETA1_POWER]));
  const float beta1 = (float)s[BETA1], new1 = (float)(1 - s[BETA1]), new2 = (float)(1 - s[BETA2]);
  const float epsilon = (float)s[EPSILON];
  float *var = x[0], *m = x[1], *v = x[2];
  for (int64_t i = 0; i < n; ++i) {
    m[i] += new1 * (g[i] - m[i]);
    v[i] += new2 * (g[i] * g[i] - v[i]);
    var[i] -= rate * (p->nesterov ? beta1 * m[i] + new1 * g[i] : m[i]) / (sqrtf(v[i]) + epsilon);
  }
}

/* MindSpore's fusion of Adam with decoupled decay: the states are v, m and the weights. */
static void step_adam_decay(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  enum { LR, BETA1, NEW1, BETA2, NEW2, DECAY, EPSILON };
  float k[EPSILON + 1], *v = x[0], *m = x[1], *var = x[2];
  (void)p;
  for (int i = 0; i <= EPSILON; ++i) k[i] = (float)s[i];
  for (int64_t i = 0; i < n; ++i) {
    m[i] = k[BETA1] * m[i] + k[NEW1] * g[i];
    v[i] = k[BETA2] * v[i] + k[NEW2] * g[i] * g[i];
    var[i] -= k[LR] * (k[DECAY] * var[i] + m[i] / (sqrtf(v[i]) + k[EPSILON]));
  }
}

static void step_rms(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  enum { LR, RHO, MOMENTUM, EPSILON };
  const float lr = (float)s[LR], new = (float)(1 - s[RHO]), momentum = (float)s[MOMENTUM], epsilon = (float)s[EPSILON];
  float *var = x[0], *ms = x[1], *mom = x[2];
  (void)p;
  for (int64_t i = 0; i < n; ++i) {
    ms[i] += new *(g[i] * g[i] - ms[i]);
    mom[i] = momentum * mom[i] + lr * g[i] / sqrtf(ms[i] + epsilon);
    var[i] -= mom[i];
  }
}

static void step_adagrad(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  const float lr = (float)s[0], epsilon = p->rule->n_scalars > 1 ? (float)s[1] : p->epsilon;
  float *var = x[0], *accum = x[1];
  for (int64_t i = 0; i < n; ++i) {
    if (p->updates_slots) accum[i] += g[i] * g[i];
    var[i] -= lr * g[i] / (sqrtf(accum[i]) + epsilon);
  }
}

static void step_adamax(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  enum { BETA1_POWER, LR, BETA1, BETA2, EPSILON };
  const float rate = (float)(s[LR] / (1 - s[BETA1_POWER])), new1 = (float)(1 - s[BETA1]), beta2 = (float)s[BETA2];
  const float epsilon = (float)s[EPSILON];
  float *var = x[0], *m = x[1], *v = x[2];
  (void)p;
  for (int64_t i = 0; i < n; ++i) {
    m[i] += new1 * (g[i] - m[i]);
    v[i] = fmaxf(beta2 * v[i], fabsf(g[i]));
    var[i] -= rate * m[i] / (v[i] + epsilon);
  }
}

static void step_ftrl(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  enum { LR, L1, L2, LR_POWER, SHRINKAGE };
  float *var = x[0], *accum = x[1], *linear = x[2];
  (void)p;
  for (int64_t i = 0; i < n; ++i) {
    const double d = (double)g[i], sum = (double)accum[i] + d * d;
    const double root = pow(sum, -s[LR_POWER]), old = pow((double)accum[i], -s[LR_POWER]);
    const double l = (double)linear[i] + d + (2 * s[SHRINKAGE] - (root - old) / s[LR]) * (double)var[i];
    var[i] = fabs(l) > s[L1] ? (float)((copysign(s[L1], l) - l) / (root / s[LR] + 2 * s[L2])) : 0;
    accum[i] = (float)sum;
    linear[i] = (float)l;
  }
}

static void step_adadelta(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  enum { LR, RHO, EPSILON };
  const float lr = (float)s[LR], rho = (float)s[RHO], new = (float)(1 - s[RHO]), epsilon = (float)s[EPSILON];
  float *var = x[0], *accum = x[1], *moved = x[2];
  (void)p;
  for (int64_t i = 0; i < n; ++i) {
    accum[i] = rho * accum[i] + new *g[i] * g[i];
    const float move = sqrtf(moved[i] + epsilon) / sqrtf(accum[i] + epsilon) * g[i];
    moved[i] = rho * moved[i] + new *move *move;
    var[i] -= lr * move;
  }
}

static void step_proximal(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  enum { LR, L1, L2 };
  const float lr = (float)s[LR], l1 = (float)s[L1], l2 = (float)s[L2];
  float *var = x[0], *accum = x[1];
  (void)p;
  for (int64_t i = 0; i < n; ++i) {
    accum[i] += g[i] * g[i];
    const float rate = lr / sqrtf(accum[i]), to = var[i] - rate * g[i], size = fmaxf(fabsf(to) - rate * l1, 0);
    var[i] = copysignf(size, to) / (1 + rate * l2);
  }
}

static void step_descent(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  (void)p;
  for (int64_t i = 0; i < n; ++i) x[0][i] -= (float)s[0] * g[i];
}

static void step_proximal_descent(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  enum { ALPHA, L1, L2 };
  const float alpha = (float)s[ALPHA], cut = (float)(s[ALPHA] * s[L1]), shrink = (float)(1 + s[ALPHA] * s[L2]);
  (void)p;
  for (int64_t i = 0; i < n; ++i) {
    const float to = x[0][i] - alpha * g[i];
    x[0][i] = copysignf(fmaxf(fabsf(to) - cut, 0), to) / shrink;
  }
}

static void step_adagrad_da(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  enum { LR, L1, L2, STEP };
  const float lr = (float)s[LR], cut = (float)(s[L1] * s[STEP]), rest = (float)(s[L2] * s[STEP] * s[LR]);
  float *var = x[0], *sum = x[1], *squares = x[2];
  (void)p;
  for (int64_t i = 0; i < n; ++i) {
    sum[i] += g[i];
    squares[i] += g[i] * g[i];
    const float size = s[L1] > 0 ? fmaxf(fabsf(sum[i]) - cut, 0) : fabsf(sum[i]);
    var[i] = -lr * copysignf(size, sum[i]) / (rest + sqrtf(squares[i]));
  }
}

/* PowerSign and, if `adds`, AddSign: larger steps where gradient and moment have the same sign. */
static inline void step_sign(float *const *x, const float *g, const double *s, int64_t n, const bool adds) {
  enum { LR, BASE, SIGN_DECAY, BETA };
  const float beta = (float)s[BETA], new1 = (float)(1 - s[BETA]);
  float rate[3], *var = x[0], *m = x[1]; /* by the product of the signs */
  for (int k = -1; k <= 1; ++k) {
    const double decay = s[SIGN_DECAY] * k;
    rate[1 + k] = (float)(s[LR] * (adds ? s[BASE] + decay : exp(s[BASE] * decay)));
  }
  for (int64_t i = 0; i < n; ++i) {
    m[i] = beta * m[i] + new1 * g[i];
    const int signs = ((g[i] > 0) - (g[i] < 0)) * ((m[i] > 0) - (m[i] < 0));
    var[i] -= rate[1 + signs] * g[i];
  }
}
static void step_power_sign(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  (void)p;
  step_sign(x, g, s, n, false);
}
static void step_add_sign(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  (void)p;
  step_sign(x, g, s, n, true);
}

static void step_rms_centred(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  enum { LR, RHO, MOMENTUM, EPSILON };
  const float lr = (float)s[LR], new = (float)(1 - s[RHO]), momentum = (float)s[MOMENTUM], epsilon = (float)s[EPSILON];
  float *var = x[0], *mg = x[1], *ms = x[2], *mom = x[3];
  (void)p;
  for (int64_t i = 0; i < n; ++i) {
    mg[i] += new *(g[i] - mg[i]);
    ms[i] += new *(g[i] * g[i] - ms[i]);
    mom[i] = momentum * mom[i] + lr * g[i] / sqrtf(ms[i] - mg[i] * mg[i] + epsilon);
    var[i] -= mom[i];
  }
}

static void step_amsgrad(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  enum { BETA1_POWER, BETA2_POWER, LR, BETA1, BETA2, EPSILON };
  const float rate = (float)(s[LR] * sqrt(1 - s[BETA2_POWER]) / (1 - s[BETA1_POWER]));
  const float new1 = (float)(1 - s[BETA1]), new2 = (float)(1 - s[BETA2]), epsilon = (float)s[EPSILON];
  float *var = x[0], *m = x[1], *v = x[2], *most = x[3];
  (void)p;
  for (int64_t i = 0; i < n; ++i) {
    m[i] += new1 * (g[i] - m[i]);
    v[i] += new2 * (g[i] * g[i] - v[i]);
    most[i] = fmaxf(most[i], v[i]);
    var[i] -= rate * m[i] / (sqrtf(most[i]) + epsilon);
  }
}

static void step_keras_momentum(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  const float lr = (float)s[0], momentum = (float)s[1];
  float *var = x[0], *accum = x[1];
  for (int64_t i = 0; i < n; ++i) {
    accum[i] = accum[i] * momentum - lr * g[i];
    var[i] += p->nesterov ? accum[i] * momentum - lr * g[i] : accum[i];
  }
}

/* LAMB's direction, which is the result: Adam's step and the decay of the weights, of which it is the operand. */
static void step_lamb(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  enum { BETA1, NEW1, BETA2, NEW2, EPSILON, STEPS, USES_DECAY, DECAY };
  const float beta1 = (float)s[BETA1], new1 = (float)s[NEW1], beta2 = (float)s[BETA2], new2 = (float)s[NEW2];
  const float scale1 = (float)(1 / (1 - pow(s[BETA1], s[STEPS]))), scale2 = (float)(1 / (1 - pow(s[BETA2], s[STEPS])));
  const float epsilon = (float)s[EPSILON], decay = (float)(s[USES_DECAY] * s[DECAY]), *var = x[3];
  float *v = x[0], *m = x[1], *update = x[2];
  (void)p;
  for (int64_t i = 0; i < n; ++i) {
    v[i] = beta2 * v[i] + new2 * g[i] * g[i];
    m[i] = beta1 * m[i] + new1 * g[i];
    update[i] = m[i] * scale1 / (sqrtf(v[i] * scale2) + epsilon) + decay * var[i];
  }
}

/* LAMB's step along the direction, by a rate that depends on the norms of weights and direction. */
static void step_lamb_weight(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  enum { WEIGHT_NORM, NORM, LR };
  const float rate = (float)(s[LR] * (s[WEIGHT_NORM] > 0 && s[NORM] > 0 ? s[WEIGHT_NORM] / s[NORM] : 1));
  (void)p;
  for (int64_t i = 0; i < n; ++i) x[0][i] -= rate * g[i];
}

/* LARS: a gradient with decay, scaled by the norms of weights and gradient. Here g are the weights, and the operand is
 * the gradient. */
static void step_lars(const optim_plan *p, float *const *x, const float *g, const double *s, int64_t n) {
  enum { WEIGHT_SQUARES, SQUARES, DECAY, LR };
  const double norm = sqrt(s[WEIGHT_SQUARES]), below = s[DECAY] * norm + sqrt(s[SQUARES]) + (double)p->epsilon;
  double rate = (double)p->trust * norm / below;
  if (p->clips) rate = fmax(0, fmin(rate / s[LR], 1));
  for (int64_t i = 0; i < n; ++i) x[0][i] = (float)(((double)g[i] * s[DECAY] + (double)x[1][i]) * rate);
}

static const optim_rule rules[] = {
    [GRAPH_OPTIM_MOMENTUM] = {step_momentum, 2, 2, 3, {0, 1}, {2, 4}, {5, 6}, .keeps = false},
    [GRAPH_OPTIM_SGD] = {step_sgd, 3, 2, 1, {0, 3, 5}, {2, 4}, {6, ABSENT, ABSENT}, .keeps = false},
    [GRAPH_OPTIM_ADAM] = {step_adam, 3, 6, 9, {0, 1, 2}, {3, 4, 5, 6, 7, 8}, {10, 11, 12}, .keeps = false},
    [GRAPH_OPTIM_ADAM_DECAY] =
        {step_adam_decay, 3, 7, 0, {1, 2, 3}, {4, 5, 6, 7, 8, 9, 10}, {11, 12, 13}, .keeps = false},
    [GRAPH_OPTIM_ADAM_DECAY_APART] =
        {step_adam_decay, 3, 7, 0, {1, 2, 3}, {4, 5, 6, 7, 8, 9, 10}, {11, 12, 13}, .keeps = true},
    [GRAPH_OPTIM_RMS] = {step_rms, 3, 4, 7, {0, 1, 2}, {3, 4, 5, 6}, {8, ABSENT, ABSENT}, .keeps = false},
    [GRAPH_OPTIM_ADAGRAD] = {step_adagrad, 2, 1, 3, {0, 1}, {2}, {4, 5}, .keeps = false},
    [GRAPH_OPTIM_ADAGRAD_V2] = {step_adagrad, 2, 2, 4, {0, 1}, {2, 3}, {5, 6}, .keeps = false},
    [GRAPH_OPTIM_RMS_FIXED] = {step_rms, 3, 4, 4, {0, 1, 2}, {3, 8, 9, 10}, {5, 6, 7}, .keeps = false},
    [GRAPH_OPTIM_ADAMAX] = {step_adamax, 3, 5, 8, {0, 1, 2}, {3, 4, 5, 6, 7}, {9, 10, 11}, .keeps = false},
    [GRAPH_OPTIM_FTRL] = {step_ftrl, 3, 4, 3, {0, 1, 2}, {4, 5, 6, 7}, {8, ABSENT, ABSENT}, .keeps = false},
    [GRAPH_OPTIM_ADADELTA] = {step_adadelta, 3, 3, 6, {0, 1, 2}, {3, 4, 5}, {7, 8, 9}, .keeps = false},
    [GRAPH_OPTIM_PROXIMAL] = {step_proximal, 2, 3, 5, {0, 1}, {2, 3, 4}, {6, 7}, .keeps = false},
    [GRAPH_OPTIM_LAMB] = {step_lamb, 2, 8, 0, {1, 2}, {4, 5, 6, 7, 8, 9, 10, 11}, {13, 14}, .result = 12, .operand = 3},
    [GRAPH_OPTIM_LAMB_WEIGHT] = {step_lamb_weight, 1, 3, 3, {4}, {0, 1, 2}, {5}, .keeps = false},
    [GRAPH_OPTIM_DESCENT] = {step_descent, 1, 1, 2, {0}, {1}, {3}, .keeps = false},
    [GRAPH_OPTIM_PROXIMAL_DESCENT] = {step_proximal_descent, 1, 3, 4, {0}, {1, 2, 3}, {5}, .keeps = false},
    [GRAPH_OPTIM_ADAGRAD_DA] = {step_adagrad_da, 3, 4, 3, {0, 1, 2}, {4, 5, 6, 7}, {8, ABSENT, ABSENT}, .keeps = false},
    [GRAPH_OPTIM_POWER_SIGN] = {step_power_sign, 2, 4, 6, {0, 1}, {2, 3, 4, 5}, {7, 8}, .keeps = false},
    [GRAPH_OPTIM_ADD_SIGN] = {step_add_sign, 2, 4, 6, {0, 1}, {2, 3, 4, 5}, {7, 8}, .keeps = false},
    [GRAPH_OPTIM_RMS_CENTRED] =
        {step_rms_centred, 4, 4, 8, {0, 1, 2, 3}, {4, 5, 6, 7}, {9, ABSENT, ABSENT, ABSENT}, .keeps = false},
    [GRAPH_OPTIM_AMSGRAD_FIXED] =
        {step_amsgrad, 4, 6, 7, {0, 1, 2, 3}, {4, 5, 6, 12, 13, 14}, {8, 9, 10, 11}, .keeps = false},
    [GRAPH_OPTIM_AMSGRAD] =
        {step_amsgrad, 4, 6, 10, {0, 1, 2, 3}, {4, 5, 6, 7, 8, 9}, {11, 12, 13, 14}, .keeps = false},
    [GRAPH_OPTIM_KERAS_MOMENTUM] = {step_keras_momentum, 2, 2, 3, {0, 1}, {2, 4}, {5, 6}, .keeps = false},
    [GRAPH_OPTIM_SPARSE_ADAGRAD] = {step_adagrad, 2, 1, 2, {0, 1}, {6}, {4, 5}, .indices = 3},
    [GRAPH_OPTIM_SPARSE_FTRL] = {step_ftrl, 3, 4, 3, {0, 1, 2}, {8, 9, 10, 11}, {5, 6, 7}, .indices = 4},
    [GRAPH_OPTIM_SPARSE_FTRL_SHRINKS] = {step_ftrl, 3, 5, 3, {0, 1, 2}, {8, 9, 10, 11, 12}, {5, 6, 7}, .indices = 4},
    [GRAPH_OPTIM_SPARSE_PROXIMAL] = {step_proximal, 2, 3, 5, {0, 1}, {2, 3, 4}, {7, 8}, .indices = 6},
    [GRAPH_OPTIM_MERGED_ADAM] = {step_adam,
                                 3,
                                 6,
                                 9,
                                 {0, 1, 2},
                                 {3, 4, 5, 6, 7, 8},
                                 {11, 12, 13},
                                 .indices = 10,
                                 .merges = true,
                                 .all_rows = true},
    [GRAPH_OPTIM_MERGED_LAZY_ADAM] =
        {step_adam, 3, 6, 9, {0, 1, 2}, {3, 4, 5, 6, 7, 8}, {11, 12, 13}, .indices = 10, .merges = true},
    [GRAPH_OPTIM_MERGED_FTRL] =
        {step_ftrl, 3, 4, 3, {0, 1, 2}, {8, 9, 10, 11}, {5, 6, 7}, .indices = 4, .merges = true},
    [GRAPH_OPTIM_MERGED_PROXIMAL] = {step_proximal, 2, 3, 5, {0, 1}, {2, 3, 4}, {7, 8}, .indices = 6, .merges = true},
    [GRAPH_OPTIM_LARS] = {step_lars, 0, 4, 0, {0}, {2, 3, 4, 5}, {0}, .result = 6, .operand = 1},
};

/* ---- the task ---------------------------------------------------------------------------------------------------- */

typedef struct {
  const optim_plan *plan;
  void *const *view;
  double scalar[MAX_SCALARS];
  /* Sparse: the row of each gradient; merged: the first gradient of each row of the states, the next of its row; -1:
   * none. */
  const int64_t *row, *first, *next;
} optim_job;

static void optim_load(float *tile, int dtype, const void *from, int64_t first, int64_t n) {
  const int64_t size = (int64_t)dtype_bytes(dtype);
  loops->load[dtype][COMPUTE_F32](tile, (const char *)from + first * size, size, n);
}

static void optim_store(void *to, int dtype, const float *tile, int64_t first, int64_t n) {
  const int64_t size = (int64_t)dtype_bytes(dtype);
  loops->store[dtype][COMPUTE_F32]((char *)to + first * size, size, tile, n);
}

/* Steps of n elements of the states from `at` on, whose gradients are behind `grad`. */
static void optim_span(const optim_job *j, int64_t at, const void *grad, int grad_dtype, int64_t n) {
  const optim_plan *p = j->plan;
  const optim_rule *r = p->rule;
  float tile[MAX_STATES][TILE], g[TILE], *x[MAX_STATES];
  for (int k = 0; k < MAX_STATES; ++k) x[k] = tile[k];
  for (int64_t i = 0, m; i < n; i += m) {
    m = i64_min(TILE, n - i);
    for (int k = 0; k < r->n_states; ++k) optim_load(x[k], p->dtype[k], j->view[r->state[k]], at + i, m);
    if (r->operand) optim_load(x[r->n_states + 1], p->operand_dtype, j->view[r->operand], at + i, m);
    optim_load(g, grad_dtype, grad, i, m);
    r->step(p, x, g, j->scalar, m);
    for (int k = 0; k < r->n_states; ++k) {
      void *state = j->view[r->state[k]], *out = r->out[k] != ABSENT ? j->view[r->out[k]] : NULL;
      if (!r->keeps) optim_store(state, p->dtype[k], tile[k], at + i, m);
      if (out && (r->keeps || out != state)) optim_store(out, p->dtype[k], tile[k], at + i, m);
    }
    if (r->result) optim_store(j->view[r->result], p->result_dtype, x[r->n_states], at + i, m);
  }
}

static const char *optim_grad(const optim_job *j, int64_t at) {
  const optim_plan *p = j->plan;
  return (const char *)j->view[p->rule->grad] + at * (int64_t)dtype_bytes(p->grad_dtype);
}

static void graph_optim_range(const void *argument, int64_t begin, int64_t end) {
  const optim_job *j = argument;
  optim_span(j, begin, optim_grad(j, begin), j->plan->grad_dtype, end - begin);
}

/* Columns [begin, end) of the rows, in the order of the gradient's rows. */
static void optim_columns(const void *argument, int64_t begin, int64_t end) {
  const optim_job *j = argument;
  const optim_plan *p = j->plan;
  for (int64_t k = 0; k < p->n_indices; ++k)
    optim_span(j, j->row[k] * p->inner + begin, optim_grad(j, k * p->inner + begin), p->grad_dtype, end - begin);
}

/* Rows [begin, end) of the states, or of the gradient, where the first gradient of a row takes the others along. */
static void optim_merged_rows(const void *argument, int64_t begin, int64_t end) {
  const optim_job *j = argument;
  const optim_plan *p = j->plan;
  float sum[TILE], g[TILE];
  for (int64_t item = begin; item < end; ++item) {
    const int64_t row = p->rule->all_rows ? item : j->row[item];
    if (!p->rule->all_rows && j->first[row] != item) continue;
    for (int64_t c = 0, n; c < p->inner; c += n) {
      n = i64_min(TILE, p->inner - c);
      memset(sum, 0, (size_t)n * sizeof *sum);
      for (int64_t k = j->first[row]; k >= 0; k = j->next[k]) {
        optim_load(g, p->grad_dtype, optim_grad(j, k * p->inner + c), 0, n);
        for (int64_t i = 0; i < n; ++i) sum[i] += g[i];
      }
      optim_span(j, row * p->inner + c, sum, ACL_FLOAT, n);
    }
  }
}

/* Reads the indices and, if gradients are merged, links those of the same row, in their order. */
static status optim_read_indices(optim_job *j, int64_t *lists) {
  const optim_plan *p = j->plan;
  const int64_t size = (int64_t)dtype_bytes(p->index_dtype);
  int64_t *row = lists, *next = lists + p->n_indices, *first = next + p->n_indices;
  for (int64_t k = 0; k < p->n_indices; ++k) {
    loops->load[p->index_dtype][COMPUTE_I64](&row[k], (const char *)j->view[p->rule->indices] + k * size, 0, 1);
    if (row[k] < 0 || row[k] >= p->rows)
      return fail(ST_DEVICE_EXCEPTION, "indices[%jd] is %jd, expected 0 to %jd", (intmax_t)k, (intmax_t)row[k],
                  (intmax_t)p->rows - 1);
  }
  j->row = row;
  if (!p->rule->merges) return ST_OK;
  memset(first, 0xff, (size_t)p->rows * sizeof *first);
  for (int64_t k = p->n_indices - 1; k >= 0; --k) {
    next[k] = first[row[k]];
    first[row[k]] = k;
  }
  j->next = next;
  j->first = first;
  return ST_OK;
}

static status optim_run_sparse(const executor *e, optim_job *job, char *scratch) {
  const optim_plan *p = job->plan;
  const optim_rule *r = p->rule;
  TRY(optim_read_indices(job, (int64_t *)(void *)(scratch + p->lists)));
  if (!r->merges)
    rows_parallel(optim_columns, job, p->inner, TILE, e->cost_ns);
  else
    rows_parallel(optim_merged_rows, job, r->all_rows ? p->rows : p->n_indices, 1, e->cost_ns);
  for (int k = 0; k < r->n_states; ++k) {
    void *const state = job->view[r->state[k]], *const out = r->out[k] != ABSENT ? job->view[r->out[k]] : NULL;
    if (out && out != state && p->n) memcpy(out, state, (size_t)p->n * dtype_bytes(p->dtype[k]));
  }
  return ST_OK;
}

static status graph_optim_run(const executor *e, void *const *view, void *scratch) {
  const optim_plan *p = PLAN(e, optim_plan);
  optim_job job = {.plan = p, .view = view};
  for (int k = 0; k < p->rule->n_scalars; ++k) {
    job.scalar[k] = p->scalar[k];
    if (p->scalar_dtype[k] != ABSENT)
      loops->load[p->scalar_dtype[k]][COMPUTE_F64](&job.scalar[k], view[p->rule->scalar[k]], 0, 1);
  }
  if (p->rule->indices) return optim_run_sparse(e, &job, scratch);
  rows_parallel(graph_optim_range, &job, p->n, TILE, e->cost_ns);
  return ST_OK;
}

/* ---- phase one --------------------------------------------------------------------------------------------------- */

/* The indices, and the gradient, which has a row for each. */
static status optim_plan_sparse(executor *e, optim_plan *p, const tensor *var, const tensor *grad,
                                const tensor *indices) {
  int64_t dims[MAX_RANK];
  TRY(op_expect_rank(var, "var", 1, MAX_RANK));
  TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
  TRY(op_expect_rank(indices, "indices", 1, 1));
  memcpy(dims, var->dims, sizeof dims);
  dims[0] = indices->n;
  TRY(op_expect_shape(grad, "grad", dims, var->rank));
  p->rows = var->dims[0];
  p->inner = 1;
  for (int d = 1; d < var->rank; ++d) p->inner *= var->dims[d];
  p->n_indices = indices->n;
  p->index_dtype = indices->dtype;
  const uint64_t numbers = (uint64_t)p->n_indices * 2 + (p->rule->merges ? (uint64_t)p->rows : 0);
  p->lists = workspace_intermediate(e, numbers * sizeof(int64_t));
  return ST_OK;
}

status prepare_graph_optim(executor *e, const graph_optim_args *a) {
  const uint64_t floats = DTYPES_FLOAT & ~DTYPE_BIT(ACL_DOUBLE);
  const optim_rule *r = &rules[e->op->variant];
  const arg_schema *s = e->op->schema;
  const op_arg *all = a->all;
  const tensor *var = all[r->state[0]].tensor;
  optim_plan *p = PLAN(e, optim_plan);
  *p = (optim_plan){.rule = r,
                    .n = var->n,
                    .nesterov = a->use_nesterov || a->nesterov,
                    .updates_slots = a->update_slots,
                    .dampening = (float)a->dampening,
                    .weight_decay = (float)a->weight_decay_float,
                    .epsilon = (float)a->epsilon_float,
                    .trust = (float)a->hyperpara,
                    .clips = a->use_clip};
  for (int k = 0; k < r->n_states; ++k) {
    const tensor *state = all[r->state[k]].tensor, *out = r->out[k] == ABSENT ? NULL : all[r->out[k]].tensor;
    TRY(op_expect_dtype(state, s[r->state[k]].name, floats));
    TRY(op_expect_same_shape(state, s[r->state[k]].name, var));
    if (out) TRY(op_expect_dtype(out, s[r->out[k]].name, DTYPE_BIT(state->dtype)));
    if (out) TRY(op_expect_same_shape(out, s[r->out[k]].name, var));
    p->dtype[k] = state->dtype;
  }
  const tensor *grad = all[r->grad].tensor;
  TRY(op_expect_dtype(grad, s[r->grad].name, floats));
  if (!r->indices) TRY(op_expect_same_shape(grad, s[r->grad].name, var));
  if (r->indices) TRY(optim_plan_sparse(e, p, var, grad, all[r->indices].tensor));
  p->grad_dtype = grad->dtype;
  for (int k = 0; k < r->n_scalars; ++k) {
    const int at = r->scalar[k];
    const bool is_attribute = s[at].kind == ARG_FLOAT;
    p->scalar_dtype[k] = is_attribute ? ABSENT : all[at].tensor->dtype;
    p->scalar[k] = is_attribute ? all[at].real : 0;
    if (!is_attribute) TRY(op_expect_one(all[at].tensor, s[at].name, DTYPES_FLOAT | DTYPES_INDEX));
  }
  const int8_t more[] = {r->result, r->operand};
  int *const dtypes[] = {&p->result_dtype, &p->operand_dtype};
  for (int k = 0; k < 2; ++k) {
    if (!more[k]) continue;
    TRY(op_expect_dtype(all[more[k]].tensor, s[more[k]].name, floats));
    TRY(op_expect_same_shape(all[more[k]].tensor, s[more[k]].name, var));
    *dtypes[k] = all[more[k]].tensor->dtype;
  }
  e->run = graph_optim_run;
  executor_cost(e, (uint64_t)p->n * sizeof(float) * (uint64_t)(2 * r->n_states + 1), (uint64_t)p->n * 16);
  return ST_OK;
}
