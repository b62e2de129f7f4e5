/* The blocks of a window, found by any address in them: described outside of the memory itself, so that no kernel can break
 * the descriptions.
 *
 * A bit per unit says where blocks start; the nearest at or before an address is the one that could hold it. Words of bits
 * are summed up by granule, and a granule that starts inside a block has its number, so finding takes a constant number of
 * steps, with no lock, safe in a signal handler. Marking a block costs two stores, and one per granule that it covers, or
 * per 64 of them. Changes are serialised by the caller. */
#ifndef CANNON_MEMORY_HEAP_BLOCKS_H
#define CANNON_MEMORY_HEAP_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "memory/rules.h"

/* A block as it is found by address. Fields may be read at any time; those of a freed block are stale but harmless. */
typedef struct {
  _Atomic uintptr_t address;
  _Atomic uint64_t bytes;      /* as rounded by the rules: what may be accessed; 0: freed */
  _Atomic uint64_t requested;  /* what the caller asked for */
  _Atomic uint64_t number;     /* 1 for the heap's first allocation */
  void *_Atomic site;          /* the return address of the CANN function that allocated it */
  _Atomic block_origin origin; /* which function that was, and the kind of its pages (memory/rules.h) */
  /* The rest is the heap's own. */
  bool large;     /* which part of the window */
  uint8_t bucket; /* of thread caches (thread_cache.h); 0: none */
  uint16_t pool;  /* that holds it (pool.h); 0: none */
  uint32_t range, next;
  uint32_t n_units; /* of its part */
} heap_block;

typedef uint32_t block_id; /* 0 is none */

enum { BLOCK_ID_BITS = 24 }; /* 16 million blocks */

/* What is known of a block before its description is read: its number and, above, its bucket. */
typedef uint32_t block_mark;
static inline block_id mark_id(block_mark m) { return m & ((1u << BLOCK_ID_BITS) - 1); }
static inline unsigned mark_bucket(block_mark m) { return m >> BLOCK_ID_BITS; }

/* The marks of a part of the window. */
typedef struct {
  uintptr_t start;
  uint64_t bytes;
  unsigned unit_shift;
  unsigned words_shift;      /* words of bits in a granule: at most 64 */
  _Atomic uint64_t *starts;  /* bit per unit */
  _Atomic uint64_t *words;   /* of a granule: bit per word of `starts` that is not 0 */
  _Atomic block_mark *mark;  /* of a unit: the block that starts there, or did last */
  _Atomic block_id *granule; /* the block that covers the granule's first byte and starts before it */
  _Atomic block_id *stride;  /* the same for all of a stride's granules, which are not marked one by one then */
} block_map;

typedef struct {
  uintptr_t small; /* address from which the map of small blocks holds, with units of their own */
  block_map map[2];
  heap_block *block;
  uint32_t n_blocks, unused; /* chain of dropped ones through .next */
} blocks;

/* Of a window of granules: large blocks at multiples of 1 << large_shift in the first large_bytes of it, small ones at
 * those of 1 << small_shift in the rest (9 to 12). False without memory. */
bool blocks_open(blocks *t, uintptr_t window, uint64_t window_bytes, uint64_t large_bytes, unsigned large_shift,
                 unsigned small_shift);
void blocks_close(blocks *t);

/* A description that is no block's yet; 0 where there are too many. */
block_id blocks_new(blocks *t);
void blocks_drop(blocks *t, block_id id);
static inline heap_block *blocks_at(const blocks *t, block_id id) { return &t->block[id]; }

/* Enters [address, address + bytes) as the place of the block, which touches no other's; takes it out again. */
void blocks_enter(blocks *t, block_id id, uintptr_t address, uint64_t bytes);
void blocks_remove(blocks *t, block_id id, uint64_t bytes);

/* The block that was entered last at exactly this address, live or not; 0 for none. */
static inline block_id blocks_starting(const blocks *t, uintptr_t address) {
  block_mark mark = 0;
  if (likely(address >= t->small)) { /* a jump, which is predicted, where choosing a map first would be waited for */
    const uint64_t offset = address - t->small;
    if (offset < t->map[1].bytes)
      mark = atomic_load_explicit(&t->map[1].mark[offset >> t->map[1].unit_shift], memory_order_acquire);
  } else {
    const uint64_t offset = address - t->map[0].start;
    if (offset < t->map[0].bytes)
      mark = atomic_load_explicit(&t->map[0].mark[offset >> t->map[0].unit_shift], memory_order_acquire);
  }
  const block_id id = mark_id(mark);
  return id && atomic_load_explicit(&t->block[id].address, memory_order_relaxed) == address ? id : 0;
}

/* The live block that holds the address, up to the end of its last unit, or NULL. */
const heap_block *blocks_find(const blocks *t, uintptr_t address);

/* Calls visit for every live block, in no order. */
void blocks_each(const blocks *t, void (*visit)(const heap_block *, void *), void *argument);

#endif
