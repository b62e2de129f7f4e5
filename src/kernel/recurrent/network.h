/* SPDX-License-Identifier: Apache-2.0 */
/* What networks of several layers and directions have in common, forward and gradient: PyTorch's operands, with any
 * strides, and sequences of different lengths. Called by lstm_network.c and lstm_network_grad.c; the functions are
 * stateless.
 *
 * A network reads its sequences into matrices of floats in the workspace, which have a row for each step and sequence,
 * step by step, and computes one direction of one layer after the other. Sequences are in the order of falling lengths,
 * so the rows of a step that count are its first ones. */
#ifndef CANNON_KERNEL_RECURRENT_NETWORK_H
#define CANNON_KERNEL_RECURRENT_NETWORK_H

#include "kernel/recurrent/recurrent.h"

typedef enum {
  SEQUENCES_FIXED,  /* [steps, batch, columns]; all rows count */
  SEQUENCES_PADDED, /* the same, or [steps * batch, columns]; rows that do not count are 0 in results */
  SEQUENCES_PACKED, /* [rows, columns]: the rows that count, step by step */
} sequence_form;

/* An operand. stride: bytes between steps (or layers and directions), rows, and columns; the last ones of what has
 * fewer dimensions. */
typedef struct {
  int32_t operand; /* -1: absent */
  int32_t dtype;
  int64_t stride[3];
} network_operand;

typedef struct {
  sequence_form form;
  bool batch_first;
  int64_t layers, directions; /* 1 or 2 */
  int64_t steps, batch, rows, inputs, hidden;
  int dtype;                   /* of all operands but batch_sizes */
  network_operand batch_sizes; /* the number of rows of each step that count */
} network;

/* Where a step's rows are in the matrices of floats, and how many of them count. */
typedef struct {
  int64_t first, count;
} network_step;

/* ---- phase one --------------------------------------------------------------------------------------------------- */

/* Sets the form and the sizes from the input and the optional batch sizes. Set before: batch_first, and batch where the
 * form is packed. */
status network_sizes(network *n, const tensor *input, const char *name, const tensor *batch_sizes,
                     const char *sizes_name, int sizes_operand, bool packed);

/* Checks that an operand is absent, which `to` then says, or has the network's dtype and this shape. */
status network_expect(const network *n, const tensor *t, const char *name, int operand, const int64_t *dims, int rank,
                      network_operand *to);
/* The same for [layers * directions, batch, hidden]; and for a sequence with this number of columns. */
status network_expect_states(const network *n, const tensor *t, const char *name, int operand, network_operand *to);
status network_expect_sequence(const network *n, const tensor *t, const char *name, int operand, int64_t columns,
                               network_operand *to);
/* The same for members of a list, all of one shape: to[i * pitch] is for the i-th. */
status network_expect_list(const network *n, const aclTensorList *list, const char *name, int operand,
                           const int64_t *dims, int rank, network_operand *to, int64_t pitch);
/* The same for a list of the parameters of all layers and directions, each with its weights of the input and the state,
 * and with the two biases where there are biases. to: the first weight's; bias: how far behind it the first bias is. */
status network_expect_parameters(const network *n, const aclTensorList *list, const char *name, int operand, int gates,
                                 bool biased, network_operand *to, int64_t pitch, int64_t bias);

/* The columns of the input of a layer. */
static inline int64_t network_inputs(const network *n, int64_t layer) {
  return layer ? n->directions * n->hidden : n->inputs;
}

/* What step_weight_bytes and step_weight_of are told: weights are packed only if all steps have the same rows. */
recurrent network_step_sizes(const network *n);

/* ---- the task ---------------------------------------------------------------------------------------------------- */

/* Fills in all steps, or fails if batch sizes are not those of sequences of falling lengths. */
status network_find_steps(const network *n, void *const *view, network_step *steps);

/* The number of the step that is processed s-th in that direction. */
static inline int64_t network_step_at(const network *n, int64_t direction, int64_t s) {
  return direction ? n->steps - 1 - s : s;
}

/* Convert a row of an operand of three dimensions. An absent operand loads zeros, and stores do nothing. */
void network_load(const network_operand *o, void *const *view, int64_t outer, int64_t row, float *to, int64_t columns);
void network_store(const network_operand *o, void *const *view, int64_t outer, int64_t row, const float *from,
                   int64_t columns);

/* A sequence as a matrix whose rows are `pitch` floats apart. Rows that do not count are 0: `to` has zeros there, and
 * an operand gets them. */
typedef struct {
  const network *n;
  const network_operand *operand;
  void *const *view;
  const network_step *steps;
  float *floats;
  int64_t columns, pitch;
} network_sequence;
void network_load_sequence(const network_sequence *s);
void network_store_sequence(const network_sequence *s);

/* All states of one layer and direction, [batch, hidden]. */
void network_load_states(const network *n, const network_operand *o, void *const *view, int64_t outer, float *to);
void network_store_states(const network *n, const network_operand *o, void *const *view, int64_t outer,
                          const float *from);

/* An operand of two dimensions as it lies, and one of one dimension as a single row. */
matrix network_matrix(const network_operand *o, void *const *view, int64_t rows, int64_t columns);

/* A matrix of floats. */
static inline matrix network_floats(const float *at, int64_t rows, int64_t columns) {
  return recurrent_matrix(at, ACL_FLOAT, rows, columns);
}

#endif
