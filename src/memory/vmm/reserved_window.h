/* What lies behind the addresses of reservations: files mapped over the kernels' view of the window, and, for host
 * memory, over the addresses that the program holds. Counts the kernel's mappings that the window is cut into;
 * neighbours of one file, in order, are one for the kernel. vmm.c serialises the calls. */
#ifndef CANNON_MEMORY_VMM_RESERVED_WINDOW_H
#define CANNON_MEMORY_VMM_RESERVED_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "memory/heap/heap.h"

/* ST_NO_HOST_MEMORY; before the others, repeated calls do nothing. */
status window_open(void);

/* Maps the pieces, whole pages, one behind the other from `at`, a granule where nothing is. host: for the program,
 * too. Where it fails, with ST_NO_MEMORY, nothing is there as before. */
status window_put(uintptr_t at, int file, const heap_piece *pieces, size_t n, bool host);

/* Nothing behind the granules of [at, at + bytes) again. */
void window_clear(uintptr_t at, uint64_t bytes, bool host);

/* Takes the addresses of host memory from the program at once, while kernels still reach it. */
void window_hide_from_host(uintptr_t at, uint64_t bytes);

#endif
