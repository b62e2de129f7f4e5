/* SPDX-License-Identifier: Apache-2.0 */
/* Activations that kernels compute on their sums before these are rounded to the output: the epilogues of matrix
 * products (product/product.h) and of convolutions (conv/epilogue.h). Pure functions; any thread. */
#ifndef CANNON_KERNEL_ENGINE_ACTIVATION_H
#define CANNON_KERNEL_ENGINE_ACTIVATION_H

#include "kernel/engine/elementwise.h"

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

/* Replaces n contiguous values of the compute type, float or double. */
void activation_run(const activation *a, compute_type compute, void *x, int64_t n);

#endif
