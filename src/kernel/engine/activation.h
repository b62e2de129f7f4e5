/* SPDX-License-Identifier: Apache-2.0 */
/* Activations that kernels compute on their sums before these are rounded to the output: the epilogues of matrix
 * products (product/product.h) and of convolutions (conv/epilogue.h). Pure functions; any thread. */
#ifndef CANNON_KERNEL_ENGINE_ACTIVATION_H
#define CANNON_KERNEL_ENGINE_ACTIVATION_H

#include "kernel/engine/elementwise.h"
#include "op/activations.h"

/* Replaces n contiguous values of the compute type, float or double. */
void activation_run(const activation *a, compute_type compute, void *x, int64_t n);

#endif
