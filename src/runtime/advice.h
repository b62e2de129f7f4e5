/* Advice: what a program may do, but what is slow on a device. Each kind is counted (trace/stats.h), and told in the
 * log, at level warning, once per call site. Free where nobody reads either. Any thread. */
#ifndef CANNON_RUNTIME_ADVICE_H
#define CANNON_RUNTIME_ADVICE_H

#include "trace/stats.h"

/* site: the return address of the call that is slow. */
__attribute__((cold)) void advice_give(stats_advice_kind kind, void *site);

#endif
