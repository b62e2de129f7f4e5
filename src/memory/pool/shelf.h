/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of a heap that a pool holds: all of them ordered by address, and the free ones ordered by size. A free
 * block has a point of a stream (stream_pool_order.h); it may be used again behind that point. Used by stream_pool.c
 * and stream_pool_table.c; calls the heap. Not thread-safe: the caller holds the pool's lock. */
#ifndef CANNON_MEMORY_POOL_SHELF_H
#define CANNON_MEMORY_POOL_SHELF_H

#include "base/store/tree.h"
#include "memory/heap/heap.h"
#include "memory/pool/stream_pool_order.h"

typedef enum {
  SHELF_OFF,    /* in the hands of the caller: about to change its state, or the pool's reserve */
  SHELF_LIVE,   /* allocated by the program */
  SHELF_CACHED, /* free behind .point */
  SHELF_PARKED, /* freed without a stream: waits until all tasks have retired that were pending then */
} shelf_state;

/* Made by shelf_hold and shelf_cut, freed by shelf_let_go and shelf_join. */

typedef struct shelf_block {
  tree_node by_address;                    /* key: the address, 0 */
  tree_node by_size;                       /* if cached; key: the bytes, the address */
  uint64_t bytes;                          /* length of its place in the heap */
  uint64_t requested_bytes, rounded_bytes; /* if live: as requested, and as rounded by the rules */
  block_id id;                             /* in the heap */
  unsigned unit_shift;
  bool large;
  shelf_state state;
  stats_stream *row; /* if live: counters of the stream that allocated it; NULL: nobody counts */
  pool_point point;
  struct shelf_block *next; /* if parked: in the pool's list */
} shelf_block;

/* Part of a pool, under its lock. */
typedef struct {
  heap *heap;
  uint16_t pool; /* its number */
  const pool_order *order;
  bool follow_events, opportunistic; /* whether POOL_BY_EVENT and POOL_PASSED are enough to reuse a block */
  tree blocks, cached[2]; /* all blocks by address; cached ones by size, apart for the small and the large line */
  uint64_t n_cached, bytes, cached_bytes; /* number of cached blocks; bytes of all and of cached blocks */
} shelf;

static inline uintptr_t shelf_address(const shelf_block *b) { return (uintptr_t)b->by_address.key.major; }

/* Takes a new block from the heap, in state SHELF_OFF. NULL where that is refused. */
shelf_block *shelf_hold(shelf *s, uint64_t bytes);

/* Gives a block in state SHELF_OFF back to the heap. */
void shelf_let_go(shelf *s, shelf_block *b);

/* The block that starts at the address, or NULL. */
shelf_block *shelf_find(const shelf *s, uintptr_t address);

/* Makes a block that is neither live nor cached a cached one, free behind the point. */
void shelf_put(shelf *s, shelf_block *b, pool_point point);

/* Takes a cached block out: its state becomes SHELF_OFF. */
void shelf_pick(shelf *s, shelf_block *b);

/* The smallest cached block of a line that has `bytes` at a multiple of `alignment`, a power of two, and that the
 * stream may use; with any_order, whether it may use it or not. Looks at 256 blocks at most. NULL where it finds
 * none. */
shelf_block *shelf_best(const shelf *s, bool large, uint64_t bytes, uint64_t alignment, void *stream, bool any_order);

/* Cuts a block in state SHELF_OFF so that it starts at a multiple of `alignment`, and behind its first `bytes`, where
 * more than a 16th of that would be wasted otherwise. The cut-off parts are cached. Returns the block to be used, which
 * may be another one; NULL without memory, and then the block is cached again. */
shelf_block *shelf_trim_to(shelf *s, shelf_block *b, uint64_t bytes, uint64_t alignment);

/* Joins neighbouring cached blocks where one of their points comes after both. Returns whether any were joined. */
bool shelf_join(shelf *s);

/* Gives cached blocks that no task can use any more back to the heap, the longest first, until `bytes` are given or
 * none is left. Returns how many bytes, which may be a unit more. */
uint64_t shelf_release(shelf *s, uint64_t bytes);

/* Only in builds with CANNON_INVARIANTS: whether blocks do not overlap, the trees have the blocks that they should, and
 * counts and sums agree. */
bool shelf_is_valid(const shelf *s);

#endif
