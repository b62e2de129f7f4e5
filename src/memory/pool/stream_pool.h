/* Pools: memory of one device that is kept between uses and passed on in the order of streams. What exists:
 *
 *   pool     a slot of a table, so that stale handles are told; has a lock
 *   shelf    the blocks of the device's heap that it holds: live, or free behind the point of a stream (shelf.h)
 *   order    how it learns what comes after what (pool_order.h)
 *   parked   blocks that were freed without a stream: free when all tasks submitted before have retired
 *   reserve  a block held back for the moment when nothing else is left
 *
 * An allocation takes the best fit of the free blocks whose point the stream comes after, cut to measure; else joins free
 * neighbours; else grows. Where too much lies idle, that goes to the heap first, which moves its memory behind the new
 * addresses. Before anything is refused: all that is idle goes back, a wait is inserted into the stream for a block that
 * another one still uses, the reserve is opened, other pools of the device give back what is idle.
 *
 * Held memory counts as used of the device. All calls are safe from any thread. Locks: that of the table, then a pool's,
 * then those that the order and the heap take. */
#ifndef CANNON_MEMORY_POOL_STREAM_POOL_H
#define CANNON_MEMORY_POOL_STREAM_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "memory/heap/heap.h"
#include "memory/pool/stream_pool_order.h"

typedef struct pool pool;

/* What can be changed while the pool lives. */
typedef struct {
  bool follow_events;    /* reuse what an event makes free */
  bool opportunistic;    /* reuse what happens to be free by now */
  bool insert_waits;     /* before refusing: make the stream wait for another one's block */
  uint64_t cached_bytes; /* what may stay cached at the next synchronisation */
} pool_policy;

/* The interface that a pool was made by; handles of the other one are foreign to it. */
typedef enum { POOL_OF_ACL, POOL_OF_CANNON, N_POOL_KINDS } pool_kind;

typedef struct {
  pool_kind kind;
  int device;
  heap *heap;
  const pool_order *order;
  const heap_fences *fences; /* NULL: nothing is ever pending */
  pool_policy policy;
  bool trims_at_free;     /* as well as at synchronisation */
  uint64_t initial_bytes; /* taken at once, and kept */
  uint64_t most_bytes;    /* held; UINT64_MAX: as many as the device has */
  uint64_t growth_bytes;  /* large blocks are cut from pieces of at least so much */
  uint64_t reserve_bytes; /* held back, besides the above */
  uint64_t alignment;     /* of blocks; a power of two */
  double most_idle;       /* share of the held bytes that may lie idle when it grows */
} pool_config;

/* ST_NO_MEMORY where the initial bytes are not to be had. */
status pool_create(const pool_config *config, pool **out);

/* The pool that a handle means; ST_INVALID_VALUE for a stale or foreign one. */
status pool_of(const void *handle, pool_kind kind, pool **out);

/* The handle ends. Live blocks stay, and the pool with them until the last is freed; with needs_empty they are
 * ST_INVALID_VALUE. */
status pool_destroy(pool *p, bool needs_empty);

/* A block of `bytes` (already rounded) for what is submitted to the stream from now on. */
status pool_alloc(pool *p, void *stream, uint64_t bytes, uint64_t requested, void *site, void **out);

/* Frees a block of the pool (NULL: of whichever) behind what was submitted to the stream; without one, behind all that was
 * submitted anywhere. name is the argument's. */
status pool_free(pool *p, void *block, void *stream, const char *name, void *site);

/* Whether the block that starts there is held by a pool, live or not. */
bool pool_holds(const void *block);

/* Gives idle memory to the heap until at most keep_bytes are held, or nothing is idle. */
void pool_trim(pool *p, uint64_t keep_bytes);

/* Joins what is free, gives all that is idle back to the host and refills the reserve. Addresses of blocks stay. */
void pool_defragment(pool *p);

pool_policy pool_get_policy(pool *p);
void pool_set_policy(pool *p, const pool_policy *policy);

typedef struct {
  uint64_t used_bytes, used_peak_bytes; /* live */
  uint64_t held_bytes, held_peak_bytes; /* live, cached, parked and in reserve */
  uint64_t cached_bytes, reserve_bytes;
  uint64_t n_live, n_allocs, n_frees;
  uint64_t n_reused; /* allocations that took no new memory */
  uint64_t n_waits;  /* those for which a wait was inserted */
  uint64_t n_refused;
  uint64_t n_defragments;
} pool_usage;
void pool_measure(pool *p, pool_usage *out);
void pool_reset_peaks(pool *p, bool used, bool held);

/* The host has waited for tasks of the device: its pools are trimmed to what they may keep. */
void pools_synchronized(int device);

/* All pools of the device give back what is idle: how many bytes. No pool's lock is held. */
uint64_t pools_relieve(int device);

#endif
