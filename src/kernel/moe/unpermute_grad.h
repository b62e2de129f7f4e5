/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of rows that were summed per token with weights, for operators that plan them (unpermute_grad.c,
 * routing_map_unpermute.c). The functions are thread-safe for different rows; a plan is plain data. */
#ifndef CANNON_KERNEL_MOE_UNPERMUTE_GRAD_H
#define CANNON_KERNEL_MOE_UNPERMUTE_GRAD_H

#include "kernel/engine/loops.h"

typedef struct {
  int64_t n_tokens, n_choices, width, n_rows;
  int64_t tokens[2], grad[2], out[2]; /* strides in bytes, by row and by column */
  int64_t probs[2], probs_out[2];     /* strides in bytes, by token and by choice */
  int64_t index;
  int64_t bias[2], experts[2], n_experts; /* strides in bytes; n_experts: rows of the bias, 0: there is none */
  int tokens_view, grad_view, index_view, probs_view, out_view, probs_out_view, bias_view, experts_view;
  bool has_probs, clears;       /* clears: rows without a choice have to be set to 0 */
  load_loop *load, *load_probs; /* conversion to double */
  store_loop *store, *store_probs;
} unpermute_grad_plan;

typedef struct {
  const unpermute_grad_plan *plan;
  void *const *view;
  status *result;
} unpermute_grad_job;

/* Writes row `row` of the permuted tokens' gradient, unless it is -1: the token's gradient times weight. Returns the
 * dot product of the row (and its expert's bias) with the token's gradient; 0 without probs. */
double unpermute_grad_row(const unpermute_grad_job *j, int64_t token, int64_t row, int64_t expert, double weight);

/* Sets rows [begin, end) of the permuted tokens' gradient to 0. job: an unpermute_grad_job. */
void unpermute_grad_clear(const void *job, int64_t begin, int64_t end);

/* The strides of a matrix, in bytes. */
static inline void matrix_strides(const tensor *t, int64_t *strides) {
  const view v = view_of(t);
  strides[0] = v.strides[0];
  strides[1] = v.strides[1];
}

#endif
