/* SPDX-License-Identifier: Apache-2.0 */
/* The activations that operators with an epilogue have (ops/model.ops): numbers that graphs put into calls, and kernels
 * compute (kernel/engine/activation.h). */
#ifndef CANNON_OP_ACTIVATIONS_H
#define CANNON_OP_ACTIVATIONS_H

/* p and q are the parameters. */
typedef enum {
  ACTIVATION_NONE,
  ACTIVATION_RELU,
  ACTIVATION_GELU, /* by erf */
  ACTIVATION_GELU_TANH,
  ACTIVATION_SILU,
  ACTIVATION_SIGMOID,
  ACTIVATION_TANH,
  ACTIVATION_CLAMP,        /* between p and q */
  ACTIVATION_LEAKY_RELU,   /* negative values times p */
  ACTIVATION_HARD_SIGMOID, /* p x + q, clamped between 0 and 1 */
  ACTIVATION_HARD_SWISH,   /* x times that */
  N_ACTIVATIONS,
} activation_function;

typedef struct {
  activation_function function;
  float parameter[2];
} activation;

#endif
