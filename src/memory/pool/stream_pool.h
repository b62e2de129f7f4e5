/* SPDX-License-Identifier: Apache-2.0 */
/* Stream-ordered memory pools: a pool keeps memory of one device between uses, and reuses a freed block for a stream
 * whose work executes after the work that used the block. Used by src/api (aclrtMemPool and the pools of cannon's own
 * interface) and by memory.c; calls the heap, and the runtime by stream_pool_order.h. Terms:
 *
 *   pool     a slot of a table, so that stale handles are recognised; has a lock
 *   shelf    the blocks of the device's heap that the pool holds: live, or free behind a point of a stream (shelf.h)
 *   order    the functions by which the pool learns in which order streams execute (stream_pool_order.h)
 *   parked   blocks that were freed without a stream: free when all tasks that were submitted before have retired
 *   reserve  a block held back until nothing else is left
 *   idle     cached memory that no task can use any more
 *
 * An allocation takes the best fit among the free blocks whose point the stream comes after, and cuts it to size; else
 * joins free neighbours and tries again; else takes memory from the heap. Where too much memory is idle, that is given
 * to the heap before, so that the heap can move it to the new block. Before an allocation is refused, all idle memory
 * is given back, a wait is inserted into the stream for a block that another stream still uses, the reserve is used,
 * and other pools of the device give back their idle memory.
 *
 * Held memory counts as used memory of the device. All calls are thread-safe. Lock order: the table's lock, a pool's
 * lock, the locks of the order's functions and of the heap. */
#ifndef CANNON_MEMORY_POOL_STREAM_POOL_H
#define CANNON_MEMORY_POOL_STREAM_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "memory/heap/heap.h"
#include "memory/pool/stream_pool_order.h"

typedef struct pool pool;

/* Settings that can be changed while the pool lives. */
typedef struct {
  bool follow_events;    /* reuse a block for another stream that comes after its point because of events */
  bool opportunistic;    /* reuse a block whose point happens to have passed by now */
  bool insert_waits;     /* make a stream wait for a block of another stream before its allocation is refused */
  uint64_t cached_bytes; /* how much may stay cached at a synchronisation */
} pool_policy;

/* The interface that a pool was made by; handles of the other one are foreign to it. */
typedef enum { POOL_OF_ACL, POOL_OF_CANNON, N_POOL_KINDS } pool_kind;

typedef struct {
  pool_kind kind;
  int device;
  heap *heap; /* the device's */
  const pool_order *order;
  const heap_fences *fences; /* NULL: no task is ever pending */
  pool_policy policy;
  bool trims_at_free;     /* apply policy.cached_bytes at each free, not only at synchronisations */
  uint64_t initial_bytes; /* held from the start, and kept */
  uint64_t most_bytes;    /* limit of held memory; UINT64_MAX: none but the device's */
  uint64_t
      growth_bytes; /* memory for large blocks is taken from the heap in pieces of at least so much, where possible */
  uint64_t reserve_bytes; /* size of the reserve, in addition to initial_bytes */
  uint64_t alignment;     /* of blocks; a power of two */
  double most_idle; /* if a larger share of the held bytes is cached when the pool needs memory, some is given back
                       first */
} pool_config;

/* Makes a pool; *config is copied. ST_NO_MEMORY where the initial bytes and the reserve can't be had. */
status pool_create(const pool_config *config, pool **out);

/* The pool that a handle means; ST_INVALID_VALUE for a stale or foreign one. */
status pool_of(const void *handle, pool_kind kind, pool **out);

/* Destroys the handle; the caller must not use it afterwards. Live blocks keep the pool alive until the last one is
 * freed; with needs_empty, nothing is destroyed then, and the result is ST_INVALID_VALUE. */
status pool_destroy(pool *p, bool needs_empty);

/* Allocates a block of `bytes`, which are `requested` bytes as rounded by the rules, for work that is submitted to the
 * stream from now on. site: the caller's return address. ST_NO_MEMORY with a message that has the numbers. */
status pool_alloc(pool *p, void *stream, uint64_t bytes, uint64_t requested, void *site, void **out);

/* Frees a block of the pool (NULL: of the pool that holds it): it is reused behind the work that was submitted to the
 * stream so far; without a stream, behind all work that was submitted on the device. name: the argument's, for
 * messages; site: the caller's. */
status pool_free(pool *p, void *block, void *stream, const char *name, void *site);

/* Whether a pool holds the block that starts at the address, live or not. */
bool pool_holds(const void *block);

/* Gives idle memory to the heap until at most keep_bytes are held, or none is idle. */
void pool_trim(pool *p, uint64_t keep_bytes);

/* Joins free blocks, refills the reserve and gives all idle memory back to the host. Live blocks keep their
 * addresses. */
void pool_defragment(pool *p);

pool_policy pool_get_policy(pool *p);
void pool_set_policy(pool *p, const pool_policy *policy);

typedef struct {
  uint64_t used_bytes, used_peak_bytes; /* of live blocks */
  uint64_t held_bytes, held_peak_bytes; /* of live, cached and parked blocks and the reserve */
  uint64_t cached_bytes, reserve_bytes; /* of cached and parked blocks; of the reserve */
  uint64_t n_live, n_allocs, n_frees;
  uint64_t n_reused; /* allocations that took no new memory */
  uint64_t n_waits;  /* allocations for which a wait was inserted */
  uint64_t n_refused;
  uint64_t n_defragments;
} pool_usage;
void pool_measure(pool *p, pool_usage *out);
void pool_reset_peaks(pool *p, bool used, bool held);

/* Called after the host has waited for tasks of the device: trims its pools to what their policies let them keep. */
void pools_synchronized(int device);

/* Makes all pools of the device give back their idle memory; returns how many bytes. The caller holds no pool's
 * lock. */
uint64_t pools_relieve(int device);

#endif
