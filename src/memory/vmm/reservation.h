/* Reserved addresses: pieces of the window of memory/space.h, with nothing in them but what vmm.c maps there, which
 * also serialises the calls. */
#ifndef CANNON_MEMORY_VMM_RESERVATION_H
#define CANNON_MEMORY_VMM_RESERVATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "memory/intervals.h"
#include "memory/vmm/physical.h"

/* Pointers are good until the next one is made or dropped. */
typedef struct {
  interval at;
  uint32_t n_mappings;
  int device;    /* of what is mapped in it */
  bool imported; /* what is mapped in it is another process's */
  bool owned;    /* by the library: not the program's to map in or to release */
} reservation;

/* bytes and alignment: of granules. *out: where it has to be, or 0 for anywhere. */
status reservation_make(uint64_t bytes, uint64_t alignment, bool owned, uintptr_t *out);
void reservation_drop(reservation *r);

/* The one that holds the address, or NULL; one that the program may change. */
reservation *reservation_of(uintptr_t address);
reservation *reservation_of_program(uintptr_t address);

/* Whether the physical, of `bytes`, may be mapped at that place of the program's, *in, as far as the reservation
 * goes. */
status reservation_check(uintptr_t at, uint64_t bytes, const physical *p, reservation **in);

#endif
