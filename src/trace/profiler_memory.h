/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations and frees of device memory in the timeline. */
#ifndef CANNON_TRACE_PROFILER_MEMORY_H
#define CANNON_TRACE_PROFILER_MEMORY_H

#include <stdbool.h>

/* Listens to allocations if CANNON_PROFILE names a folder. Only then, since who listens to them makes them slower, and
 * only before the first device is opened (base/hooks.h): a program's own session, which begins later, has none. */
void profiler_memory_start(void);

/* Whether it listens. */
bool profiler_memory_is_on(void);

#endif
