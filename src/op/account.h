/* What is counted of operators where somebody reads the counters (trace_is_on); nothing here runs otherwise. */
#ifndef CANNON_OP_ACCOUNT_H
#define CANNON_OP_ACCOUNT_H

#include "op/executor.h"

/* In phase one, of the call's arguments: the sizes that account_run needs. */
__attribute__((cold)) void account_prepare(executor *e, const op_arg *a);

/* Says that only n elements of this operand are read or written, however large it is, since another operand holds their
 * indices. Called by prepare functions. */
void account_indexed(executor *e, int number, uint64_t n, uint64_t element_bytes);

/* A range of a device's memory, as kernels see it, is fetched into its L2. */
void account_prefetch(const void *view, uint64_t bytes);

/* e->run, timed; and what it would take on the device of the profile, and which of its operands it used straight in
 * host memory. */
__attribute__((noinline)) status account_run(const executor *e, void *const *view, void *scratch);

#endif
