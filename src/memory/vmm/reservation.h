/* SPDX-License-Identifier: Apache-2.0 */
/* Reservations: address ranges of the window of memory/space.h, in which vmm.c maps physical memory. Used by vmm.c,
 * which holds its lock during all calls; calls intervals.h. */
#ifndef CANNON_MEMORY_VMM_RESERVATION_H
#define CANNON_MEMORY_VMM_RESERVATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "memory/intervals.h"
#include "memory/vmm/physical.h"

/* Pointers are valid until the next reservation is made or dropped. */
typedef struct {
  interval at;
  uint32_t n_mappings;
  int device;    /* if n_mappings > 0: of the memory that is mapped in it */
  bool imported; /* if n_mappings > 0: whether that is another process's memory */
  bool owned;    /* whether it is the library's own, in which the program must not map and which it can't release */
} reservation;

/* Makes a reservation. bytes, alignment: multiples of the granule. *out: the address that it must have, or 0 for any;
 * becomes its address. ST_INVALID_VALUE, ST_NO_MEMORY or ST_NO_HOST_MEMORY. */
status reservation_make(uint64_t bytes, uint64_t alignment, bool owned, uintptr_t *out);
void reservation_drop(reservation *r);

/* The reservation that holds the address, or NULL; reservation_of_program leaves out those that are the library's
 * own. */
reservation *reservation_of(uintptr_t address);
reservation *reservation_of_program(uintptr_t address);

/* Checks that the physical memory, all `bytes` of it, may be mapped at the address: in one reservation of the program,
 * *in, whose other mappings are of the same kind. Does not check whether something is mapped there. */
status reservation_check(uintptr_t at, uint64_t bytes, const physical *p, reservation **in);

/* Only in builds with CANNON_INVARIANTS: whether reservations are disjoint granules of the window; *n_mappings: the sum
 * over all. */
bool reservation_all_are_valid(uint64_t *n_mappings);

#endif
