/* SPDX-License-Identifier: Apache-2.0 */
/* Reference implementations of convolutions and their gradients in plain C: every element is a sum in double, in the
 * order of the indices. They fit every call, run on the thread pool, and are what tests compare the others with.
 * Called through the tables of correlate.c and weight_gradient.c. */
#ifndef CANNON_KERNEL_CONV_REFERENCE_H
#define CANNON_KERNEL_CONV_REFERENCE_H

#include "base/status.h"

/* plan: a correlation and a weight_gradient; operands: correlation_operands and gradient_operands. */
status correlation_reference(const void *plan, const void *operands, char *scratch);
status gradient_reference(const void *plan, const void *operands, char *scratch);

#endif
