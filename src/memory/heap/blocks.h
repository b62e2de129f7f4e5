/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the block of a window that holds a given address. Descriptions of blocks lie outside of the memory that they
 * describe, so that no kernel can overwrite them. Used by the heap; calls nobody.
 *
 * A bitmap with a bit per unit says where blocks start: the nearest start at or before an address is that of the only
 * block that can hold it. A second bitmap says which words of the first one are not 0, and a granule that starts inside
 * of a block knows that block, so a search takes a constant number of steps. It takes no lock and is safe in a signal
 * handler. Entering a block costs two stores, and one for each granule, or each aligned run of 64 granules, that starts
 * in it. The caller serialises all calls but those that only search. */
#ifndef CANNON_MEMORY_HEAP_BLOCKS_H
#define CANNON_MEMORY_HEAP_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "memory/rules.h"

/* A description of a block. Its table is never moved or freed while the heap lives. Searching threads may read the
 * atomic fields at any time; those of a freed block are stale but harmless. */
typedef struct {
  _Atomic uintptr_t address;
  _Atomic uint64_t bytes;      /* as rounded by the rules: how much may be accessed; 0: not live */
  _Atomic uint64_t requested;  /* what the caller asked for */
  _Atomic uint64_t number;     /* of the allocation; 1 for the heap's first one */
  void *_Atomic site;          /* the return address of the CANN function that allocated it */
  _Atomic block_origin origin; /* which function that was, and the kind of the block's pages (memory/rules.h) */
  /* The rest belongs to the heap and changes only under its lock, except for `next` of blocks in a thread's cache. */
  bool large;       /* which part of the window it is in */
  uint8_t bucket;   /* its list in thread caches (thread_cache.h); 0: none */
  uint16_t pool;    /* number of the pool that holds it (pool/stream_pool.h); 0: none */
  uint32_t range;   /* in the ranges of its line (store.h) */
  uint32_t next;    /* the next block in whichever list it is in */
  uint32_t n_units; /* length of its place, in units of its part */
} heap_block;

typedef uint32_t block_id; /* index of a description; 0 means none */

enum { BLOCK_ID_BITS = 24 }; /* 16 million blocks */

/* What a search knows of a block before it reads the description: the id and, above it, the bucket. */
typedef uint32_t block_mark;
static inline block_id block_mark_id(block_mark m) { return m & ((1u << BLOCK_ID_BITS) - 1); }
static inline unsigned block_mark_bucket(block_mark m) { return m >> BLOCK_ID_BITS; }

/* The index of a part of the window. A stride is an aligned run of 64 granules. */
typedef struct {
  uintptr_t start;
  uint64_t bytes;
  unsigned length_shift;     /* of the lengths in descriptions, n_units */
  unsigned unit_shift;       /* the same, but at most 15, so that a granule has at least one word of `starts` */
  unsigned words_shift;      /* a granule has 1 << words_shift words of `starts`, at most 64 */
  _Atomic uint64_t *starts;  /* bit per unit: a block starts there */
  _Atomic uint64_t *words;   /* word per granule, with a bit for each word of `starts` that is not 0 */
  _Atomic block_mark *mark;  /* per unit: the block that starts there, or that did last */
  _Atomic block_id *granule; /* per granule: the block that started before it and covers its first byte; 0: none */
  _Atomic block_id *stride;  /* per stride: the block that covers the first bytes of all its granules, whose own entries
                                are not set then; 0: none */
} block_map;

typedef struct {
  uintptr_t small;   /* start of the part for small blocks */
  block_map map[2];  /* for large and for small blocks */
  heap_block *block; /* all descriptions, sparse memory; block[0] is no block */
  uint32_t n_blocks; /* descriptions that were ever used, block[0] included */
  block_id unused;   /* list of dropped descriptions, linked by .next */
} blocks;

/* Makes the index of a window, whose lengths are multiples of the granule: large blocks start at multiples of 1 <<
 * large_shift in its first large_bytes, small ones at multiples of 1 << small_shift (9 to 12) in the rest. False
 * without memory. */
bool blocks_open(blocks *t, uintptr_t window, uint64_t window_bytes, uint64_t large_bytes, unsigned large_shift,
                 unsigned small_shift);
void blocks_close(blocks *t);

/* Returns a description that no block has; 0 where there are too many. */
block_id blocks_new(blocks *t);

/* Makes a description unused. Its block is not entered (any more). */
void blocks_drop(blocks *t, block_id id);

/* The description with that id; of 0, one that is never live. */
static inline heap_block *blocks_at(const blocks *t, block_id id) { return &t->block[id]; }

/* Enters [address, address + bytes) as the place of the block, which overlaps no other's. n_units, large and bucket of
 * the description are set. */
void blocks_enter(blocks *t, block_id id, uintptr_t address, uint64_t bytes);

/* Removes the block from the index; bytes: as entered. */
void blocks_remove(blocks *t, block_id id, uint64_t bytes);

/* The block that was entered last at exactly this address, live or not; 0 for none. Lock-free. */
static inline block_id blocks_starting(const blocks *t, uintptr_t address) {
  block_mark mark = 0;
  if (likely(address >=
             t->small)) { /* a predicted branch: choosing the map by a computed index would delay the loads */
    const uint64_t offset = address - t->small;
    if (offset < t->map[1].bytes)
      mark = atomic_load_explicit(&t->map[1].mark[offset >> t->map[1].unit_shift], memory_order_acquire);
  } else {
    const uint64_t offset = address - t->map[0].start;
    if (offset < t->map[0].bytes)
      mark = atomic_load_explicit(&t->map[0].mark[offset >> t->map[0].unit_shift], memory_order_acquire);
  }
  const block_id id = block_mark_id(mark);
  return id && atomic_load_explicit(&t->block[id].address, memory_order_relaxed) == address ? id : 0;
}

/* The live block that holds the address, or NULL. A block extends to the end of its last unit. Lock-free. */
const heap_block *blocks_find(const blocks *t, uintptr_t address);

/* Calls visit for every live block, in no particular order. */
void blocks_each(const blocks *t, void (*visit)(const heap_block *, void *), void *argument);

/* Only in builds with CANNON_INVARIANTS: whether every entered block is found by addresses in each of its granules, and
 * so overlaps no other, and unused descriptions are no block's. blocks_is_entered: whether the description is that of
 * an entered block. */
bool blocks_is_valid(const blocks *t);
bool blocks_is_entered(const blocks *t, block_id id);

#endif
