/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of operators: counters, and the time that the roofline model gives (runtime/dry/roofline.h). Called by
 * op/, by kernels (account_indexed()) and src/api, and only does something while the statistics are read
 * (trace_is_on()). Thread-safe. */
#ifndef CANNON_OP_ACCOUNT_H
#define CANNON_OP_ACCOUNT_H

#include "op/executor.h"

/* In phase one: stores the sizes of the operands that account_run() needs. */
__attribute__((cold)) void account_prepare(executor *e, const op_arg *a);

/* Tells that only n elements of the operand of this number are read or written, since another operand holds their
 * indices. For prepare functions. */
void account_indexed(executor *e, int number, uint64_t n, uint64_t element_bytes);

/* Tells that a range of device memory, at its address for kernels, is prefetched into the device's L2. */
void account_prefetch(const void *view, uint64_t bytes);

/* Calls e->run() and counts its time, the time on the device of the profile, and the bytes
 * of operands in host memory. */
__attribute__((noinline)) status account_run(const executor *e, void *const *view, void *scratch);

#endif
