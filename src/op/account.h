/* What is counted of operators where somebody reads the counters (trace_is_on); nothing here runs otherwise. */
#ifndef CANNON_OP_ACCOUNT_H
#define CANNON_OP_ACCOUNT_H

#include "op/executor.h"

/* At a launch, whose operands were checked: what it would take on the device of the profile, and which of its operands
 * are used straight in host memory. */
__attribute__((cold)) void account_launch(const executor *e);

/* A range of a device's memory is fetched into its L2. */
void account_prefetch(int device, const void *start, uint64_t bytes);

/* e->run, timed. */
__attribute__((noinline)) status account_run(const executor *e, void *const *view, void *scratch);

#endif
