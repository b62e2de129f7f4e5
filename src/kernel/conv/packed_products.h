/* SPDX-License-Identifier: Apache-2.0 */
/* A convolution whose weights are constant and whose results have few positions, as a GEMM of im2col columns by packed
 * weights. As the second factor, weights are packed once and then read in the order of their addresses, and their many
 * rows fill vectors, which few positions do not. Called by correlate.c; runs on the thread pool. */
#ifndef CANNON_KERNEL_CONV_PACKED_PRODUCTS_H
#define CANNON_KERNEL_CONV_PACKED_PRODUCTS_H

#include "kernel/conv/correlate.h"

/* Whether it can compute the call, and whether that is faster than other ways. */
bool packed_products_fit(const correlation *c);
bool packed_products_pay(const correlation *c);

/* The weights' packed size, and the packing. Both depend on the weights only. */
uint64_t packed_products_bytes(const correlation *c);
void packed_products_pack(const correlation *c, const void *w, void *packed);

/* Fails only if scratch memory is exhausted. */
status packed_products_run(const correlation *c, const correlation_operands *o);

#endif
