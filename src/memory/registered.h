/* Host memory of the program's own that it has registered: kernels reach it (MAPPED), and copies from and to it do not
 * hold up the caller (PINNED). Addresses stay what they are. All calls from any thread; looking up costs one load while
 * nothing is registered. */
#ifndef CANNON_MEMORY_REGISTERED_H
#define CANNON_MEMORY_REGISTERED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { REGISTERED_MAPPED = 1, REGISTERED_PINNED = 2 };

/* ST_ALREADY_REGISTERED where part of the range is; ST_INVALID_VALUE where it is no memory. */
status registered_add(uintptr_t start, uint64_t bytes, unsigned kinds);

/* By its start; ST_NOT_REGISTERED. */
status registered_remove(uintptr_t start);

/* Whether all of the range is registered as this kind. */
bool registered_holds(uintptr_t start, uint64_t bytes, unsigned kind);

/* The registered range that holds the address. */
bool registered_find(uintptr_t address, uintptr_t *start, uint64_t *bytes);

#endif
