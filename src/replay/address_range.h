/* SPDX-License-Identifier: Apache-2.0 */
/* An address range that grows at its end. Free neighbours (holes) are merged at once, and are found by first fit or
 * best fit. First fit visits all blocks below the hole that it finds. Used by fit.c and binning.c; not thread-safe. */
#ifndef CANNON_REPLAY_ADDRESS_RANGE_H
#define CANNON_REPLAY_ADDRESS_RANGE_H

#include "replay/block.h"
#include "replay/replay_allocator.h"

typedef struct {
  uint64_t cap_bytes, end;
  block *first, *last;
  block_set holes;
  block_store store;
  committed committed;
} address_range;

typedef enum { FIRST_FIT, BEST_FIT } address_range_fit;

/* Makes an empty range that may grow to cap_bytes; address_range_free releases its memory. */
void address_range_init(address_range *l, uint64_t cap_bytes);
void address_range_free(address_range *l);

/* Returns a block of `bytes` bytes, or NULL if the range would exceed the cap. */
block *address_range_alloc(address_range *l, uint64_t bytes, address_range_fit fit);

/* Frees a block and merges it with the holes next to it. */
void address_range_release(address_range *l, block *b);

#endif
