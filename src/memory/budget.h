/* SPDX-License-Identifier: Apache-2.0 */
/* A budget of the kernel's memory mappings. A process may have a limited number of them (vm.max_map_count, usually
 * 65,530), and the program needs some for threads, libraries and large blocks of malloc. Code that splits the library's
 * windows into several mappings (heap/mapping.c, vmm/reserved_window.c) counts them here, and is refused before the
 * whole program runs into the kernel's limit. Thread-safe. */
#ifndef CANNON_MEMORY_BUDGET_H
#define CANNON_MEMORY_BUDGET_H

#include <stdint.h>

#include "base/status.h"

/* Counts n more mappings; ST_NO_MEMORY with a message, and nothing is counted, where they are too many. */
status budget_take(uint64_t n);

/* Counts n more or (negative) fewer mappings and never refuses: unmapping a part may cut a mapping in two. */
void budget_adjust(int64_t n);

#endif
