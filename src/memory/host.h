/* SPDX-License-Identifier: Apache-2.0 */
/* Queries how much physical memory the host has, by the system and the process's control group. Thread-safe; calls only
 * the system. */
#ifndef CANNON_MEMORY_HOST_H
#define CANNON_MEMORY_HOST_H

#include <stdint.h>

/* Memory of the machine, or the control group's limit where that is less. */
uint64_t host_total_bytes(void);

/* Memory that can be had now without swapping: MemAvailable, or the control group's limit minus its use where that is
 * less. Takes some ten microseconds. */
uint64_t host_available_bytes(void);

/* Bytes of private memory that this process has touched. */
uint64_t host_own_bytes(void);

#endif
