/* SPDX-License-Identifier: Apache-2.0 */
/* A convolution with dilation as several without: outputs whose indices along an axis have the same remainder, divided
 * by the dilation, depend on inputs with one remainder only. So Winograd can compute it, where that is worth it; other
 * implementations take dilations as they are. Called by convolution.c. */
#ifndef CANNON_KERNEL_CONV_DILATED_H
#define CANNON_KERNEL_CONV_DILATED_H

#include "kernel/conv/correlate.h"

typedef struct {
  correlation c;
  int64_t from_at, to_at; /* bytes to the first element of x and of y */
} dilated_part;

/* The number of parts of a forward pass that is better divided; otherwise 0. c: as correlation_init takes it. */
int64_t dilated_parts(const correlation *c);

/* Plans all parts. bias: as correlation_init takes it. */
void dilated_init(dilated_part *parts, const correlation *c, executor *e, const tensor *bias);
uint64_t dilated_cost_ns(const dilated_part *parts, int64_t n);
status dilated_run(const dilated_part *parts, int64_t n, const correlation_call *call, char *scratch);

#endif
