/* What the host has: physical memory, as the system and the control group see it. */
#ifndef CANNON_MEMORY_HOST_H
#define CANNON_MEMORY_HOST_H

#include <stdint.h>

/* Memory of the machine, or of the control group where that is less. */
uint64_t host_total_bytes(void);

/* What can be had now without swapping (MemAvailable, and the control group's limit less its use); some ten
 * microseconds. */
uint64_t host_available_bytes(void);

/* Private memory that this process has touched. */
uint64_t host_own_bytes(void);

#endif
