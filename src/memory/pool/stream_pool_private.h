/* SPDX-License-Identifier: Apache-2.0 */
/* Internal declarations of pools, for their own files and tests: stream_pool.c allocates and frees blocks of one pool;
 * stream_pool_table.c has the table of pools, creates and destroys them, and has the operations on a whole pool or all
 * of them. */
#ifndef CANNON_MEMORY_POOL_STREAM_POOL_PRIVATE_H
#define CANNON_MEMORY_POOL_STREAM_POOL_PRIVATE_H

#include "base/invariant.h"
#include "base/lock.h"
#include "memory/heap/heap_stats.h"
#include "memory/pool/shelf.h"
#include "memory/pool/stream_pool.h"

/* POOL_GOING: the handle was destroyed, and the pool exists until its last block is freed. */
typedef enum { POOL_NONE, POOL_LIVE, POOL_GOING } pool_state;

struct pool {
  _Atomic pool_state state; /* changed under both locks */
  mutex lock;               /* guards what follows */
  pool_config config;
  shelf shelf;
  shelf_block *reserve;      /* NULL: none, or in use */
  shelf_block *parked;       /* list of blocks freed without a stream since the fence was taken */
  shelf_block *closing;      /* list of such blocks that are free when the fence has passed */
  void *fence;               /* NULL: none is taken, and closing is empty */
  uint64_t parked_bytes;     /* of both lists */
  uint64_t freed_since_join; /* number of frees since free neighbours were joined */
  heap_stats stats;          /* counters for readers in other processes */
  stats_pool *row;           /* where these counters are; NULL: nobody reads */
  pool_usage usage;          /* its peaks, counts and used_bytes are kept; held and cached bytes are the shelf's */
};

/* The pool's number, from 1, and the pool of a number (stream_pool_table.c). */
uint16_t pool_number(const pool *p);
pool *pool_numbered(uint16_t number);

/* Returns ST_INVALID_VALUE with a message that the handle is stale or of another kind. */
status pool_gone(const pool *p, pool_kind kind);

/* The function that makes pools of a kind, and the rule that their blocks have as their origin. */
extern INTERNAL const struct pool_kind_row {
  const char *maker;
  rule_kind rule;
} pool_kinds[N_POOL_KINDS];

/* All functions below are called under the pool's lock. */

/* Makes parked blocks that no task can use any more cached ones. */
void pool_settle(pool *p);

/* Takes a block of at least `bytes` from the heap, in state SHELF_OFF; NULL where the heap or the pool's limit refuses
 * it. */
shelf_block *pool_hold(pool *p, uint64_t bytes);

/* Makes a cached block the reserve, if there is none and the pool shall have one. */
void pool_refill_reserve(pool *p);

/* Trims the pool to what its policy lets it keep cached. */
void pool_keep_within(pool *p);

/* Frees the slot of a pool in state POOL_GOING that has no block any more. The table's lock is held, too. */
void pool_end_if_empty(pool *p);

/* Publishes the held and used bytes for readers in other processes. */
void pool_tell_held(pool *p);

/* Only in builds with CANNON_INVARIANTS: whether the shelf, the lists of parked blocks, the reserve and the accounts
 * agree. */
bool pool_is_valid(const pool *p);

/* a - b, or 0 where that is negative. */
static inline uint64_t pool_less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

#endif
