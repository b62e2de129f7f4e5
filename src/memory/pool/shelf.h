/* What a pool holds of a heap, in order: its blocks by address, and those that are free by size. A free block has the point
 * of a stream behind which it may be used again. The caller serialises calls. */
#ifndef CANNON_MEMORY_POOL_SHELF_H
#define CANNON_MEMORY_POOL_SHELF_H

#include "base/tree.h"
#include "memory/heap/heap.h"
#include "memory/pool/stream_pool_order.h"

typedef enum {
  SHELF_OFF,    /* in nobody's hands, for the moment */
  SHELF_LIVE,   /* the program's */
  SHELF_CACHED, /* free behind .point */
  SHELF_PARKED, /* freed, without a stream */
} shelf_state;

typedef struct shelf_block {
  tree_node by_address;                    /* key: the address, 0 */
  tree_node by_size;                       /* where cached; key: the bytes, the address */
  uint64_t bytes;                          /* of its place */
  uint64_t requested_bytes, rounded_bytes; /* where live: as asked for, and by the rules */
  block_id id;
  unsigned unit_shift;
  bool large;
  shelf_state state;
  stats_stream *row; /* where live, and somebody reads: of the stream that took it */
  pool_point point;
  struct shelf_block *next; /* of parked ones */
} shelf_block;

typedef struct {
  heap *heap;
  uint16_t pool;
  const pool_order *order;
  bool follow_events, opportunistic; /* which relations will do besides POOL_AFTER */
  tree blocks, cached[2];            /* the latter by part of the window: small, large */
  uint64_t n_cached, bytes, cached_bytes;
} shelf;

static inline uintptr_t shelf_address(const shelf_block *b) { return (uintptr_t)b->by_address.key.major; }

/* Takes a new block of the heap, off the shelf. NULL where it is refused. */
shelf_block *shelf_hold(shelf *s, uint64_t bytes);

/* Gives a block that is off the shelf to the heap. */
void shelf_let_go(shelf *s, shelf_block *b);

/* The block that starts at the address, or NULL. */
shelf_block *shelf_find(const shelf *s, uintptr_t address);

/* Makes a block that is off the shelf cached; and takes it off. */
void shelf_put(shelf *s, shelf_block *b, pool_point point);
void shelf_pick(shelf *s, shelf_block *b);

/* The best fit for `bytes` at a multiple of `alignment` among the cached blocks of a part that the stream may use, or, with
 * any_order, among all. NULL where there is none. */
shelf_block *shelf_best(const shelf *s, bool large, uint64_t bytes, uint64_t alignment, void *stream, bool any_order);

/* Cuts a block that is off the shelf to `bytes` at a multiple of `alignment`, where more than a share would be wasted; what
 * is left over is cached. The block may become another one. */
shelf_block *shelf_trim_to(shelf *s, shelf_block *b, uint64_t bytes, uint64_t alignment);

/* Joins cached neighbours where one point serves for both. Whether there were any. */
bool shelf_join(shelf *s);

/* Gives the heap up to `bytes` of what is cached and no task can use any more, the longest first. How much. */
uint64_t shelf_release(shelf *s, uint64_t bytes);

#endif
