/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <aclnnop/aclnn_add.h>
#include <aclnnop/aclnn_addmm.h>
#include <aclnnop/aclnn_apply_adam_w_v2.h>
#include <aclnnop/aclnn_argmax.h>
#include <aclnnop/aclnn_cast.h>
#include <aclnnop/aclnn_eq_tensor.h>
#include <aclnnop/aclnn_index_select.h>
#include <aclnnop/aclnn_logsoftmax.h>
#include <aclnnop/aclnn_logsoftmax_backward.h>
#include <aclnnop/aclnn_mm.h>
#include <aclnnop/aclnn_nll_loss.h>
#include <aclnnop/aclnn_nll_loss_backward.h>
#include <aclnnop/aclnn_normal.h>
#include <aclnnop/aclnn_ones.h>
#include <aclnnop/aclnn_reduce_sum.h>
#include <aclnnop/aclnn_relu.h>
#include <aclnnop/aclnn_threshold_backward.h>
#include <aclnnop/aclnn_zero.h>
#include <math.h>

enum { KEEP_PRECISION = 0 };              /* cubeMathType: multiply in float precision */
enum { MEAN = 1, IGNORE_NOTHING = -100 }; /* for the loss: mean over the batch; -100 is no label */

static aclTensor *zeros(device *dev, aclTensor *t) {
  RUN(dev, aclnnInplaceZero, t);
  return t;
}

static aclTensor *ones(device *dev, aclTensor *t) {
  RUN(dev, aclnnInplaceOne, t);
  return t;
}

static param new_weights(device *dev, int64_t rows, int64_t cols, float deviation, int64_t seed) {
  param w = {.value = matrix(dev, ACL_FLOAT, rows, cols),
             .grad = matrix(dev, ACL_FLOAT, rows, cols),
             .m = zeros(dev, matrix(dev, ACL_FLOAT, rows, cols)),
             .v = zeros(dev, matrix(dev, ACL_FLOAT, rows, cols))};
  RUN(dev, aclnnInplaceNormal, w.value, 0, deviation, seed, 0);
  return w;
}

static param new_bias(device *dev, int64_t n) {
  return (param){.value = zeros(dev, vector(dev, ACL_FLOAT, n)),
                 .grad = vector(dev, ACL_FLOAT, n),
                 .m = zeros(dev, vector(dev, ACL_FLOAT, n)),
                 .v = zeros(dev, vector(dev, ACL_FLOAT, n))};
}

void model_init(model *m, device *dev, int64_t seed) {
  float zero = 0, one = 1;
  int64_t first_dim = 0;
  *m = (model){
      .w1 = new_weights(dev, N_PIXELS, N_HIDDEN, sqrtf(2.0f / N_PIXELS), seed),
      .b1 = new_bias(dev, N_HIDDEN),
      .w2 = new_weights(dev, N_HIDDEN, N_CLASSES, sqrtf(1.0f / N_HIDDEN), seed + 1),
      .b2 = new_bias(dev, N_CLASSES),
      .step = zeros(dev, vector(dev, ACL_FLOAT, 1)),
      .class_weights = ones(dev, vector(dev, ACL_FLOAT, N_CLASSES)),
      .one = ones(dev, scalar(dev, ACL_FLOAT)),
      .loss_sum = scalar(dev, ACL_FLOAT),
      .c0 = aclCreateScalar(&zero, ACL_FLOAT),
      .c1 = aclCreateScalar(&one, ACL_FLOAT),
      .over_batch = aclCreateIntArray(&first_dim, 1),
  };
  m->w2_t = transposed(dev, m->w2.value, N_HIDDEN, N_CLASSES);
}

void model_free(model *m) {
  CHECK(aclDestroyScalar(m->c0));
  CHECK(aclDestroyScalar(m->c1));
  CHECK(aclDestroyIntArray(m->over_batch));
}

void pass_init(pass *p, device *dev, const samples *s, int64_t batch) {
  *p = (pass){
      .pixels = matrix(dev, ACL_FLOAT, s->rows, N_PIXELS),
      .labels = vector(dev, ACL_INT64, s->rows),
      .index = vector(dev, ACL_INT64, batch),
      .x = matrix(dev, ACL_FLOAT, batch, N_PIXELS),
      .y = vector(dev, ACL_INT64, batch),
      .hidden_in = matrix(dev, ACL_FLOAT, batch, N_HIDDEN),
      .hidden = matrix(dev, ACL_FLOAT, batch, N_HIDDEN),
      .logits = matrix(dev, ACL_FLOAT, batch, N_CLASSES),
      .log_probs = matrix(dev, ACL_FLOAT, batch, N_CLASSES),
      .loss = scalar(dev, ACL_FLOAT),
      .d_log_probs = matrix(dev, ACL_FLOAT, batch, N_CLASSES),
      .d_logits = matrix(dev, ACL_FLOAT, batch, N_CLASSES),
      .d_hidden = matrix(dev, ACL_FLOAT, batch, N_HIDDEN),
      .d_hidden_in = matrix(dev, ACL_FLOAT, batch, N_HIDDEN),
      .total_weight = scalar(dev, ACL_FLOAT),
      .guess = vector(dev, ACL_INT64, batch),
      .is_right = vector(dev, ACL_BOOL, batch),
      .is_right_f = vector(dev, ACL_FLOAT, batch),
      .n_right = scalar(dev, ACL_FLOAT),
  };
  p->x_t = transposed(dev, p->x, batch, N_PIXELS);
  p->hidden_t = transposed(dev, p->hidden, batch, N_HIDDEN);
  upload(dev, p->pixels, s->pixels, s->rows * N_PIXELS * sizeof *s->pixels);
  upload(dev, p->labels, s->labels, s->rows * sizeof *s->labels);
}

/* Forward pass: from the samples in p->index to the logits. */
static void forward(model *m, device *dev, pass *p) {
  RUN(dev, aclnnIndexSelect, p->pixels, 0, p->index, p->x);
  RUN(dev, aclnnIndexSelect, p->labels, 0, p->index, p->y);
  RUN(dev, aclnnAddmm, m->b1.value, p->x, m->w1.value, m->c1, m->c1, p->hidden_in, KEEP_PRECISION);
  RUN(dev, aclnnRelu, p->hidden_in, p->hidden);
  RUN(dev, aclnnAddmm, m->b2.value, p->hidden, m->w2.value, m->c1, m->c1, p->logits, KEEP_PRECISION);
}

static void loss(model *m, device *dev, pass *p) {
  RUN(dev, aclnnLogSoftmax, p->logits, 1, p->log_probs);
  RUN(dev, aclnnNLLLoss, p->log_probs, p->y, m->class_weights, MEAN, IGNORE_NOTHING, p->loss, p->total_weight);
  RUN(dev, aclnnInplaceAdd, m->loss_sum, p->loss, m->c1);
}

/* Backward pass: from the loss to the gradients of all parameters. */
static void backward(model *m, device *dev, pass *p) {
  RUN(dev, aclnnNLLLossBackward, m->one, p->log_probs, p->y, m->class_weights, MEAN, IGNORE_NOTHING, p->total_weight,
      p->d_log_probs);
  RUN(dev, aclnnLogSoftmaxBackward, p->d_log_probs, p->log_probs, 1, p->d_logits);
  RUN(dev, aclnnMm, p->hidden_t, p->d_logits, m->w2.grad, KEEP_PRECISION);
  RUN(dev, aclnnReduceSum, p->d_logits, m->over_batch, false, ACL_FLOAT, m->b2.grad);

  RUN(dev, aclnnMm, p->d_logits, m->w2_t, p->d_hidden, KEEP_PRECISION);
  RUN(dev, aclnnThresholdBackward, p->d_hidden, p->hidden_in, m->c0, p->d_hidden_in);
  RUN(dev, aclnnMm, p->x_t, p->d_hidden_in, m->w1.grad, KEEP_PRECISION);
  RUN(dev, aclnnReduceSum, p->d_hidden_in, m->over_batch, false, ACL_FLOAT, m->b1.grad);
}

static void adam(device *dev, param *w, const aclTensor *step, float learning_rate) {
  const float beta1 = 0.9f, beta2 = 0.999f, weight_decay = 0.01f, epsilon = 1e-8f;
  RUN(dev, aclnnApplyAdamWV2, w->value, w->m, w->v, NULL, w->grad, step, learning_rate, beta1, beta2, weight_decay,
      epsilon, false, false);
}

void model_train(model *m, device *dev, pass *p, float learning_rate) {
  forward(m, dev, p);
  loss(m, dev, p);
  backward(m, dev, p);
  adam(dev, &m->w1, m->step, learning_rate);
  adam(dev, &m->b1, m->step, learning_rate);
  adam(dev, &m->w2, m->step, learning_rate);
  adam(dev, &m->b2, m->step, learning_rate);
  RUN(dev, aclnnInplaceAdds, m->step, m->c1, m->c1);
}

void model_evaluate(model *m, device *dev, pass *p) {
  forward(m, dev, p);
  RUN(dev, aclnnArgMax, p->logits, 1, false, p->guess);
  RUN(dev, aclnnEqTensor, p->guess, p->y, p->is_right);
  RUN(dev, aclnnCast, p->is_right, ACL_FLOAT, p->is_right_f);
  RUN(dev, aclnnReduceSum, p->is_right_f, m->over_batch, false, ACL_FLOAT, p->n_right);
}
