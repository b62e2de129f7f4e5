/* SPDX-License-Identifier: Apache-2.0 */
/* A perceptron with one hidden layer, 64 → 128 → 10, trained by AdamW. No function here waits: each call queues work in
 * the device's stream. The device owns the tensors. */
#pragma once

#include "data.h"
#include "device.h"

enum { N_HIDDEN = 128 };

typedef struct {
  aclTensor *value, *grad, *m, *v; /* m, v: Adam's moments */
} param;

typedef struct {
  param w1, b1, w2, b2;
  aclTensor *w2_t;          /* view of w2, for the backward pass */
  aclTensor *step;          /* Adam's step count t, kept on the device */
  aclTensor *class_weights; /* class weights of the loss: all ones */
  aclTensor *one;           /* the gradient of the loss with respect to itself */
  aclTensor *loss_sum;      /* sum over the batches since it was last zeroed */
  aclScalar *c0, *c1;       /* the numbers 0 and 1 */
  aclIntArray *over_batch;  /* dimension 0 */
} model;

void model_init(model *m, device *dev, int64_t seed);
void model_free(model *m);

/* A data set on the device, and the tensors of one pass over a batch of its samples. */
typedef struct {
  aclTensor *pixels, *labels;                                /* all samples */
  aclTensor *index, *x, *y;                                  /* the batch: indices of samples, pixels, labels */
  aclTensor *hidden_in, *hidden, *logits, *log_probs, *loss; /* forward */
  /* backward: gradients of the loss with respect to these */
  aclTensor *d_log_probs, *d_logits, *d_hidden, *d_hidden_in;
  aclTensor *x_t, *hidden_t;                          /* views */
  aclTensor *total_weight;                            /* passed from the loss to its backward pass */
  aclTensor *guess, *is_right, *is_right_f, *n_right; /* evaluation */
} pass;

void pass_init(pass *p, device *dev, const samples *s, int64_t batch);

/* One training step on the samples in p->index. */
void model_train(model *m, device *dev, pass *p, float learning_rate);
/* Counts the samples in p->index that the model recognises, into p->n_right. */
void model_evaluate(model *m, device *dev, pass *p);
