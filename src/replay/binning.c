/* SPDX-License-Identifier: Apache-2.0 */
/* Bins, like those of RMM's binning resource: a list of free blocks of one size for each power of two from 512 bytes
 * to 4 MiB. Blocks are never merged; they come from slabs that are allocated from an address range by best fit.
 * Larger requests go to that range directly. A slab has 2 MiB, or one block where that is larger; RMM's own slabs
 * hold 128 blocks. */
#include <stdlib.h>

#include "replay/address_range.h"

enum { MIN_SHIFT = 9, MAX_SHIFT = 22, N_BINS = MAX_SHIFT - MIN_SHIFT + 1, FROM_RANGE = N_BINS };

typedef struct {
  address_range range;
  block_store store;
  block *bin[N_BINS]; /* lists of free blocks, linked by `left` */
} binning;

static void *binning_create(uint64_t cap_bytes) {
  binning *b = replay_must_alloc(sizeof *b);
  address_range_init(&b->range, cap_bytes);
  return b;
}

static unsigned binning_bin(uint64_t bytes) {
  return bytes <= 1u << MIN_SHIFT ? 0 : 64 - (unsigned)__builtin_clzll(bytes - 1) - MIN_SHIFT;
}

static bool binning_add_slab(binning *b, unsigned bin) {
  const uint64_t bytes = (uint64_t)1 << (bin + MIN_SHIFT), all = bytes > GRANULE_BYTES ? bytes : GRANULE_BYTES;
  const block *slab = address_range_alloc(&b->range, all, BEST_FIT);
  if (!slab) return false;
  for (uint64_t offset = all; offset > 0;) { /* from the highest address down, so that the lowest is used first */
    block *piece = block_new(&b->store, slab->address + (offset -= bytes), bytes);
    piece->kind = (uint8_t)bin;
    piece->left = b->bin[bin];
    b->bin[bin] = piece;
  }
  return true;
}

static uintptr_t binning_alloc(void *self, uint64_t bytes) {
  binning *b = self;
  const unsigned bin = binning_bin(bytes);
  if (bin >= N_BINS) {
    block *large = address_range_alloc(&b->range, replay_round_up(bytes, UNIT_BYTES), BEST_FIT);
    if (large) large->kind = FROM_RANGE;
    return (uintptr_t)large;
  }
  if (!b->bin[bin] && !binning_add_slab(b, bin)) return 0;
  block *piece = b->bin[bin];
  b->bin[bin] = piece->left;
  return (uintptr_t)piece;
}

static void binning_free(void *self, uintptr_t handle) {
  binning *b = self;
  block *piece = (block *)handle;
  if (piece->kind == FROM_RANGE) {
    address_range_release(&b->range, piece);
    return;
  }
  piece->left = b->bin[piece->kind];
  b->bin[piece->kind] = piece;
}

static uint64_t binning_address(void *self, uintptr_t handle) {
  (void)self;
  return ((block *)handle)->address;
}

static allocator_footprint binning_footprint(void *self) { return ((binning *)self)->range.committed.sum; }

static void binning_destroy(void *self) {
  binning *b = self;
  address_range_free(&b->range);
  block_store_free(&b->store);
  free(b);
}

const allocator binning_allocator = {"binning",         "a list of free blocks per power of two up to 4 MiB",
                                     binning_create,    binning_alloc,
                                     binning_free,      binning_address,
                                     binning_footprint, binning_destroy};
