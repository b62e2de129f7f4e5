/* The kernel's mappings, of which a process may have a limited number (vm.max_map_count, usually 65,530), and which the
 * whole program needs: for threads, libraries, large blocks of malloc. Whoever cuts the library's windows into pieces
 * counts them here, and gets a refusal where the program would otherwise run into the kernel's. Any thread. */
#ifndef CANNON_MEMORY_BUDGET_H
#define CANNON_MEMORY_BUDGET_H

#include <stdint.h>

#include "base/status.h"

/* Counts n more mappings; ST_NO_MEMORY, in words, where they are too many. */
status budget_take(uint64_t n);

/* Counts n more, or fewer, without asking: taking something away may cut a mapping in two. */
void budget_adjust(int64_t n);

/* How many are counted. */
uint64_t budget_used(void);

#endif
