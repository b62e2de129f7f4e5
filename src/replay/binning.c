/* Bins, after RMM's binning resource: a list of free blocks of one size for each power of two from 512 bytes to 4 MiB, which
 * never join, fed by slabs from a best-fit line. Larger requests go to the line. Slabs are 2 MiB, or one block where that
 * is larger; RMM's own hold 128 blocks. */
#include <stdlib.h>

#include "replay/line.h"

enum { MIN_SHIFT = 9, MAX_SHIFT = 22, N_BINS = MAX_SHIFT - MIN_SHIFT + 1, FROM_LINE = N_BINS };

typedef struct {
  line line;
  block_store store;
  block *bin[N_BINS]; /* free blocks, chained through left */
} binning;

static void *create(uint64_t cap_bytes) {
  binning *b = must_alloc(sizeof *b);
  line_init(&b->line, cap_bytes);
  return b;
}

static unsigned bin_of(uint64_t bytes) {
  return bytes <= 1u << MIN_SHIFT ? 0 : 64 - (unsigned)__builtin_clzll(bytes - 1) - MIN_SHIFT;
}

static bool add_slab(binning *b, unsigned bin) {
  const uint64_t bytes = (uint64_t)1 << (bin + MIN_SHIFT), all = bytes > GRANULE_BYTES ? bytes : GRANULE_BYTES;
  const block *slab = line_alloc(&b->line, all, BEST_FIT);
  if (!slab) return false;
  for (uint64_t offset = all; offset > 0;) { /* from above, so that low addresses are used first */
    block *piece = block_new(&b->store, slab->address + (offset -= bytes), bytes);
    piece->kind = (uint8_t)bin;
    piece->left = b->bin[bin];
    b->bin[bin] = piece;
  }
  return true;
}

static uintptr_t take(void *self, uint64_t bytes) {
  binning *b = self;
  const unsigned bin = bin_of(bytes);
  if (bin >= N_BINS) {
    block *large = line_alloc(&b->line, round_up(bytes, UNIT_BYTES), BEST_FIT);
    if (large) large->kind = FROM_LINE;
    return (uintptr_t)large;
  }
  if (!b->bin[bin] && !add_slab(b, bin)) return 0;
  block *piece = b->bin[bin];
  b->bin[bin] = piece->left;
  return (uintptr_t)piece;
}

static void give(void *self, uintptr_t handle) {
  binning *b = self;
  block *piece = (block *)handle;
  if (piece->kind == FROM_LINE) {
    line_give(&b->line, piece);
    return;
  }
  piece->left = b->bin[piece->kind];
  b->bin[piece->kind] = piece;
}

static uint64_t address(void *self, uintptr_t handle) {
  (void)self;
  return ((block *)handle)->address;
}

static allocator_footprint footprint(void *self) { return ((binning *)self)->line.committed.sum; }

static void destroy(void *self) {
  binning *b = self;
  line_free(&b->line);
  block_store_free(&b->store);
  free(b);
}

const allocator binning_allocator = {
    "binning", "a list of free blocks per power of two up to 4 MiB", create, take, give, address, footprint, destroy};
