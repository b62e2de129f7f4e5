/* SPDX-License-Identifier: Apache-2.0 */
/* The program's own host memory that it has registered: kernels may access it (MAPPED), and asynchronous copies from
 * and to it need not wait (PINNED). Its addresses do not change. Used by src/api and memory.h. Thread-safe; a look-up
 * costs one load while nothing is registered. */
#ifndef CANNON_MEMORY_REGISTERED_H
#define CANNON_MEMORY_REGISTERED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { REGISTERED_MAPPED = 1, REGISTERED_PINNED = 2 };

/* Registers a range. ST_ALREADY_REGISTERED where part of it is registered; ST_INVALID_VALUE where it is not mapped
 * memory. */
status registered_add(uintptr_t start, uint64_t bytes, unsigned kinds);

/* Ends the registration of the range that starts there; ST_NOT_REGISTERED where none does. */
status registered_remove(uintptr_t start);

/* Whether all of the range is registered as this kind. */
bool registered_holds(uintptr_t start, uint64_t bytes, unsigned kind);

/* Finds the registered range that holds the address; false where none does. */
bool registered_find(uintptr_t address, uintptr_t *start, uint64_t *bytes);

#endif
