/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of w as a GEMM over positions, on bfloat16 kernels (pair_products in direct_pairs.h): the lines of
 * x's channels from a copy with x's padding, by y's rows in the same order, with zeros where there is no output. A
 * tap only shifts the first element of x's lines, so nothing is gathered. Used for contiguous weights whose channels
 * and rows fill AMX tiles. Called by weight_gradient.c. */
#ifndef CANNON_KERNEL_CONV_GRADIENT_PAIRS_H
#define CANNON_KERNEL_CONV_GRADIENT_PAIRS_H

#include "kernel/conv/weight_gradient.h"

/* Returns whether the kernel suits the operands, and fills c->pairs. */
bool gradient_pairs_fits(weight_gradient *c);
/* Completes c->pairs and asks for workspace. */
void gradient_pairs_init(weight_gradient *c, executor *e);
/* *done becomes false, with nothing written, if the values of x or y do not allow this algorithm (infinities, NaN,
 * or exponents too far apart for bfloat16 terms). */
status gradient_pairs_run(const weight_gradient *c, const void *x, const void *y, void *w, char *scratch, bool *done);

#endif
