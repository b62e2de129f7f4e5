/* SPDX-License-Identifier: Apache-2.0 */
/* Maps files into the window of reservations: into the kernels' view of it, and, for host memory, also at the addresses
 * that the program has. Counts the kernel's mappings of the window in the budget (memory/budget.h): for the kernel,
 * neighbouring mappings of consecutive parts of one file are one mapping. Used by vmm.c, which holds its lock during
 * all calls. */
#ifndef CANNON_MEMORY_VMM_RESERVED_WINDOW_H
#define CANNON_MEMORY_VMM_RESERVED_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "memory/heap/heap.h"

/* Makes the tables; called before all other functions, repeated calls do nothing. ST_NO_HOST_MEMORY, or ST_NO_MEMORY
 * where there is no window. */
status window_open(void);

/* Maps the pieces of the file, whole pages, one behind the other from `at`, the start of a granule, where nothing is
 * mapped. host: whether the program may access them, too. ST_NO_MEMORY, and nothing is mapped, where that fails. */
status window_put(uintptr_t at, int file, const heap_piece *pieces, size_t n, bool host);

/* Unmaps the granules of [at, at + bytes). host: as for window_put. */
void window_clear(uintptr_t at, uint64_t bytes, bool host);

/* Unmaps host memory from the addresses that the program has, while kernels can still access it. */
void window_hide_from_host(uintptr_t at, uint64_t bytes);

#endif
