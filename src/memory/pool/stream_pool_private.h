/* What a pool is inside, for its own files: pool.c has what happens to one pool's blocks, pool_table.c the table of pools, their
 * beginning and end, and what is asked of them as a whole. */
#ifndef CANNON_MEMORY_POOL_STREAM_POOL_PRIVATE_H
#define CANNON_MEMORY_POOL_STREAM_POOL_PRIVATE_H

#include <pthread.h>

#include "base/lock.h"
#include "memory/heap/heap_stats.h"
#include "memory/pool/shelf.h"
#include "memory/pool/stream_pool.h"

/* A pool that is going has no handle any more, and is there until its last block is gone. */
typedef enum { POOL_NONE, POOL_LIVE, POOL_GOING } pool_state;

struct pool {
  _Atomic pool_state state; /* changed under both locks */
  mutex lock;               /* guards what follows */
  pool_config config;
  shelf shelf;
  shelf_block *reserve; /* or NULL: opened */
  shelf_block *parked;  /* freed without a stream since the fence was taken */
  shelf_block *closing; /* those that wait for it to pass */
  void *fence;
  uint64_t parked_bytes;
  uint64_t freed_since_join;
  heap_stats stats; /* for readers in other processes, */
  stats_pool *row;  /* where there are any */
  pool_usage usage; /* the peaks and the counts; what is held, the shelf knows */
};

/* Its number, from 1, and back (pool_table.c). */
uint16_t pool_number(const pool *p);
pool *pool_numbered(uint16_t number);

/* ST_INVALID_VALUE: the handle is stale, or of another kind. */
status pool_gone(const pool *p, const char *kind);

/* All that follows under the pool's lock. */

/* Releases parked blocks that no task can use any more. */
void pool_settle(pool *p);

/* A block of the heap's, as many bytes or more, off the shelf; NULL where that is refused. */
shelf_block *pool_hold(pool *p, uint64_t bytes);

/* Out of what is idle. */
void pool_refill_reserve(pool *p);

/* To what it may keep. */
void pool_keep_within(pool *p);

/* Where a pool is going and holds nothing any more, its slot is free. The table's lock is held, too. */
void pool_end_if_empty(pool *p);

/* Tells readers in other processes what is held. */
void pool_tell_held(pool *p);

static inline uint64_t pool_less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

#endif
