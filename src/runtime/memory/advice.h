/* SPDX-License-Identifier: Apache-2.0 */
/* Advice about calls that are correct but slow on a device. Each kind is counted in the statistics
 * (trace/stats.h), and logged at level warning once for each call site. Costs nothing while neither is read.
 * Called by copy.c. Thread-safe. */
#ifndef CANNON_RUNTIME_MEMORY_ADVICE_H
#define CANNON_RUNTIME_MEMORY_ADVICE_H

#include "trace/stats.h"

/* site: the return address of the slow call. */
__attribute__((cold)) void advice_give(stats_advice_kind kind, void *site);

#endif
